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

pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

/// One line. Half of them are only joined from harmless ones, so that enough of them run.
pub fn line(dice: &mut Dice, harmless: &[&str], harmful: &[&str]) -> String {
    let mut line = dice.pick(harmless).to_owned();
    while dice.roll(3) == 0 {
        let other = if dice.roll(6) == 0 { dice.pick(harmful) } else { dice.pick(harmless) };
        // The joints that the reader knows come first in the list.
        let joint = if dice.roll(3) == 0 { dice.pick(JOINTS) } else { dice.pick(&JOINTS[..5]) };
        line = format!("{line}{joint}{other}");
    }
    if dice.roll(2) == 0 {
        for _ in 0..=dice.roll(3) {
            mutate(dice, &mut line, harmless, harmful);
        }
    }
    line
}

fn mutate(dice: &mut Dice, line: &mut String, harmless: &[&str], harmful: &[&str]) {
    let at = place(dice, line);
    match dice.roll(6) {
        0 => line.insert_str(at, dice.pick(TOKENS)),
        1 => line.insert_str(at, &format!(" {} ", dice.pick(TOKENS))),
        2 => {
            let to = place(dice, line);
            line.replace_range(at.min(to)..at.max(to), "");
        }
        3 => {
            // A word of another line takes the place of one of this.
            let source = if dice.roll(2) == 0 { dice.pick(harmless) } else { dice.pick(harmful) };
            let words: Vec<&str> = source.split(' ').collect();
            let word = words[dice.roll(words.len())].to_owned();
            let mut own: Vec<&str> = line.split(' ').collect();
            let which = dice.roll(own.len());
            own[which] = &word;
            *line = own.join(" ");
        }
        4 => line.insert_str(at, &line[at..].chars().take(1 + dice.roll(8)).collect::<String>()),
        _ => line.push_str(&format!(" {}", dice.pick(TOKENS))),
    }
}

/// A place between two characters.
fn place(dice: &mut Dice, line: &str) -> usize {
    line.floor_char_boundary(dice.roll(line.len() + 1))
}

pub fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
