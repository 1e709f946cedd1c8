//! Random command lines, made from lines of the policy tests: joined, cut and mixed, with harmful operands and tokens. The same seed makes
//! the same lines; `FUZZ_SEED` and `FUZZ_LINES` set the seed and the number of lines.

use crate::random::Random;

/// The texts that a mutation inserts between or into words.
const TOKENS: &[&str] = &[
    "$(touch made)",
    "`touch made`",
    "${x@P}",
    "$((a[$(touch made)]))",
    "> made",
    ">> a.txt",
    "2> made",
    "&> made",
    ">| a.txt",
    "< /dev/zero",
    "<<< x",
    "{a,b}",
    "~",
    "*",
    "src/*",
    "?",
    "[ab]*",
    "'",
    "\"",
    "\\",
    "\\\n",
    "#",
    "!",
    "-o made",
    "-i",
    "-exec touch made ;",
    "-delete",
    "-fprint made",
    "--output=made",
    "--pre=./evil.sh",
    "-o",
    "--",
    "PATH=.",
    "IFS=x",
    "./ls",
    "env",
    "xargs",
    "sh -c 'touch made'",
    "tee made",
    "@OUT/made",
    "out/made",
    "secret",
    "key",
    "../outside",
    "/etc/shadow",
    ".git/hooks/post-checkout",
    ".git/config",
    "a.txt",
    "src",
    "-rf",
    "\t",
    "\u{a0}",
    "\u{202e}",
];

/// Operators between commands. The policy understands the first [`KNOWN_OPERATORS`] of them.
const OPERATORS: &[&str] = &[" | ", " && ", " || ", "; ", "\n", " & ", " |& ", ";", "|", " ; ; "];

const KNOWN_OPERATORS: usize = 5;

/// A random line. Half of the lines are only joined and not mutated, so that enough of them run.
pub fn line(random: &mut Random, harmless: &[&str], harmful: &[&str]) -> String {
    let mut line = random.one_of(harmless).to_owned();
    while random.below(3) == 0 {
        let other = if random.below(6) == 0 { random.one_of(harmful) } else { random.one_of(harmless) };
        let operators = if random.below(3) == 0 { OPERATORS } else { &OPERATORS[..KNOWN_OPERATORS] };
        line = format!("{line}{}{other}", random.one_of(operators));
    }
    if random.below(2) == 0 {
        for _ in 0..=random.below(3) {
            mutate(random, &mut line, harmless, harmful);
        }
    }
    line
}

fn mutate(random: &mut Random, line: &mut String, harmless: &[&str], harmful: &[&str]) {
    let at = position(random, line);
    match random.below(6) {
        0 => line.insert_str(at, random.one_of(TOKENS)),
        1 => line.insert_str(at, &format!(" {} ", random.one_of(TOKENS))),
        2 => {
            let to = position(random, line);
            line.replace_range(at.min(to)..at.max(to), "");
        }
        3 => {
            // A word of another line replaces a word of this one.
            let source = if random.below(2) == 0 { random.one_of(harmless) } else { random.one_of(harmful) };
            let words: Vec<&str> = source.split(' ').collect();
            let word = words[random.below(words.len())].to_owned();
            let mut own: Vec<&str> = line.split(' ').collect();
            let which = random.below(own.len());
            own[which] = &word;
            *line = own.join(" ");
        }
        4 => line.insert_str(at, &line[at..].chars().take(1 + random.below(8)).collect::<String>()),
        _ => line.push_str(&format!(" {}", random.one_of(TOKENS))),
    }
}

/// A random position between two characters.
fn position(random: &mut Random, line: &str) -> usize {
    line.floor_char_boundary(random.below(line.len() + 1))
}

/// The number in an environment variable, or `otherwise`.
pub fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
