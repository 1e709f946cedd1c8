//! Random command lines, made from the lines of the table: joined, cut, mixed, with operands and tokens that want to do harm. The
//! same seed makes the same lines; `FUZZ_SEED` and `FUZZ_LINES` choose others.

/// What a mutation puts between, before or into words.
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

const JOINTS: &[&str] = &[" | ", " && ", " || ", "; ", "\n", " & ", " |& ", ";", "|", " ; ; "];

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// One line. Half of them are only joined from harmless ones, so that enough of them run.
pub fn line(random: &mut Random, harmless: &[&str], harmful: &[&str]) -> String {
    let mut line = random.pick(harmless).to_owned();
    while random.below(3) == 0 {
        let other = if random.below(6) == 0 { random.pick(harmful) } else { random.pick(harmless) };
        // The joints that the reader knows come first in the list.
        let joint = if random.below(3) == 0 { random.pick(JOINTS) } else { random.pick(&JOINTS[..5]) };
        line = format!("{line}{joint}{other}");
    }
    if random.below(2) == 0 {
        for _ in 0..=random.below(3) {
            mutate(random, &mut line, harmless, harmful);
        }
    }
    line
}

fn mutate(random: &mut Random, line: &mut String, harmless: &[&str], harmful: &[&str]) {
    let at = place(random, line);
    match random.below(6) {
        0 => line.insert_str(at, random.pick(TOKENS)),
        1 => line.insert_str(at, &format!(" {} ", random.pick(TOKENS))),
        2 => {
            let to = place(random, line);
            line.replace_range(at.min(to)..at.max(to), "");
        }
        3 => {
            // A word of another line takes the place of one of this.
            let source = if random.below(2) == 0 { random.pick(harmless) } else { random.pick(harmful) };
            let words: Vec<&str> = source.split(' ').collect();
            let word = words[random.below(words.len())].to_owned();
            let mut own: Vec<&str> = line.split(' ').collect();
            let which = random.below(own.len());
            own[which] = &word;
            *line = own.join(" ");
        }
        4 => line.insert_str(at, &line[at..].chars().take(1 + random.below(8)).collect::<String>()),
        _ => line.push_str(&format!(" {}", random.pick(TOKENS))),
    }
}

/// A place between two characters.
fn place(random: &mut Random, line: &str) -> usize {
    line.floor_char_boundary(random.below(line.len() + 1))
}

pub fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
