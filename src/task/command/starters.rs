//! Programs that start other programs. What they start counts as a part of the line, whatever they are asked to do themselves.
//!
//! A courier adds nothing to what it starts. Everything else here acts: it changes who runs the command, with which
//! environment, on which words, or when. An option that is not in its table makes what is started unknown.

use super::{Role, Sure, Word};

/// What a command starts.
pub(super) enum Started {
    Program(Vec<Word>),
    Script(String),
    /// Something that cannot be read here.
    Unknown(String),
}

/// How many words an option is.
enum Span {
    Alone,
    Value,
}

/// How to find the command behind a starter's own words.
struct Starter {
    name: &'static str,
    role: Role,
    /// Letters of options without and with a value.
    flags: &'static str,
    values: &'static str,
    /// Long options without a value, and with one behind `=`.
    long: &'static [&'static str],
    valued: &'static [&'static str],
    /// Words of its own that stand before the command.
    own: usize,
    takes: Takes,
}

#[derive(Clone, Copy, PartialEq)]
enum Takes {
    /// Exactly the words that follow.
    Words,
    /// Variables may be set before them.
    Variables,
    /// It adds words that it reads.
    More,
}

const fn courier(name: &'static str, values: &'static str, own: usize) -> Starter {
    Starter { name, role: Role::Courier, flags: "", values, long: &[], valued: &[], own, takes: Takes::Words }
}

const fn actor(name: &'static str, flags: &'static str, values: &'static str, takes: Takes) -> Starter {
    Starter { name, role: Role::Actor, flags, values, long: &[], valued: &[], own: 0, takes }
}

const STARTERS: [Starter; 18] = [
    courier("builtin", "", 0),
    Starter { flags: "p", ..courier("command", "", 0) },
    courier("nice", "n", 0),
    courier("nohup", "", 0),
    courier("stdbuf", "ioe", 0),
    Starter {
        flags: "v",
        long: &["--foreground", "--preserve-status", "--verbose"],
        valued: &["--signal", "--kill-after"],
        ..courier("timeout", "ks", 1)
    },
    actor("busybox", "", "", Takes::Words),
    actor("doas", "nLs", "uC", Takes::Words),
    actor("env", "i0v", "uC", Takes::Variables),
    actor("exec", "cl", "a", Takes::Words),
    actor("ionice", "t", "cn", Takes::Words),
    actor("setsid", "cfw", "", Takes::Words),
    actor("sudo", "AbEHikKlnPsSvV", "CDghpRrtTUu", Takes::Variables),
    actor("time", "apqv", "fo", Takes::Words),
    actor("toybox", "", "", Takes::Words),
    actor("unbuffer", "p", "", Takes::Words),
    actor("chronic", "ev", "", Takes::Words),
    Starter {
        long: &["--null", "--no-run-if-empty", "--verbose"],
        valued: &["--max-args", "--max-procs", "--delimiter"],
        ..actor("xargs", "0rtxpo", "adELnPs", Takes::More)
    },
];

/// Programs that run their arguments in ways not told apart here.
const OPAQUE: [&str; 15] = [
    "chroot", "entr", "expect", "flock", "ltrace", "nsenter", "parallel", "rlwrap", "runuser", "script", "strace",
    "unshare", "valgrind", "watch", "xvfb-run",
];

/// Shells that read `-c` scripts; only for the first three is the script surely read as we read it.
const SHELLS: [&str; 8] = ["bash", "sh", "dash", "ash", "ksh", "mksh", "zsh", "fish"];

/// What the program of these words starts, and whether it does anything else.
pub(super) fn look(argv: &[Word]) -> (Role, Vec<Started>) {
    let Some(program) = argv.first().and_then(Word::literal) else {
        return (Role::Actor, Vec::new());
    };
    let name = base_name(program);
    let known = STARTERS.iter().find(|starter| starter.name == name);
    if let Some(starter) = known {
        // Another program of the same name need not behave like the one we know.
        let role = if name == program { starter.role } else { Role::Actor };
        return starter.started(role, argv);
    }
    match name {
        "eval" => (Role::Actor, vec![joined(&argv[1..])]),
        "trap" => (Role::Actor, trapped(&argv[1..])),
        "find" | "fd" | "fdfind" => (Role::Actor, executed(&argv[1..])),
        "su" => (Role::Actor, vec![option_script(&argv[1..])]),
        name if SHELLS.contains(&name) => shell(name, name == program, &argv[1..]),
        name if OPAQUE.contains(&name) => (Role::Actor, vec![Started::Unknown(name.to_owned())]),
        _ => (Role::Actor, Vec::new()),
    }
}

pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

impl Starter {
    fn started(&self, role: Role, argv: &[Word]) -> (Role, Vec<Started>) {
        // `command -v ls` only looks.
        let looks = |word: &Word| matches!(word.literal(), Some("-v" | "-V" | "-pv" | "-pV"));
        if self.name == "command" && argv.get(1).is_some_and(looks) {
            return (Role::Actor, Vec::new());
        }
        let Some(mut words) = self.behind_options(&argv[1..]) else {
            return (Role::Actor, vec![Started::Unknown(self.name.to_owned())]);
        };
        if words.len() < self.own || words[..self.own].iter().any(|word| word.sure != Sure::Literal) {
            return (Role::Actor, vec![Started::Unknown(self.name.to_owned())]);
        }
        words = &words[self.own..];
        if self.takes == Takes::Variables {
            let sets = |word: &&Word| word.literal().is_some_and(|text| text.contains('='));
            words = &words[words.iter().take_while(sets).count()..];
        }
        let mut inner = words.to_vec();
        if self.takes == Takes::More {
            inner = more(inner);
        }
        match inner.is_empty() {
            true => (Role::Actor, Vec::new()),
            false => (role, vec![Started::Program(inner)]),
        }
    }

    /// The words behind the options. None if an option is not known.
    fn behind_options<'a>(&self, mut words: &'a [Word]) -> Option<&'a [Word]> {
        while let [word, rest @ ..] = words {
            let text = word.literal()?;
            if text == "--" {
                return Some(rest);
            }
            if text == "-" || !text.starts_with('-') {
                return Some(words);
            }
            words = match self.option(text)? {
                Span::Alone => rest,
                Span::Value => {
                    let (value, rest) = rest.split_first()?;
                    value.literal()?;
                    rest
                }
            };
        }
        Some(words)
    }

    /// Whether an option is followed by a value of its own. None if it is not known.
    fn option(&self, text: &str) -> Option<Span> {
        if text.starts_with("--") {
            let known = match text.split_once('=') {
                Some((name, _)) => self.valued.contains(&name),
                None => self.long.contains(&text),
            };
            return known.then_some(Span::Alone);
        }
        let letters = &text[1..];
        // `nice -10`.
        if self.name == "nice" && letters.chars().all(|c| c.is_ascii_digit()) {
            return Some(Span::Alone);
        }
        let rest = letters.trim_start_matches(|c| self.flags.contains(c));
        let mut rest = rest.chars();
        match rest.next() {
            None => Some(Span::Alone),
            Some(c) if !self.values.contains(c) => None,
            Some(_) if rest.as_str().is_empty() => Some(Span::Value),
            Some(_) => Some(Span::Alone),
        }
    }
}

/// The command of `xargs`, with the words it gets from its input. (Options that put those elsewhere are not in the table.)
fn more(mut words: Vec<Word>) -> Vec<Word> {
    if words.is_empty() {
        words.push(Word::exact("echo"));
    }
    words.push(Word::open("…"));
    words
}

/// The commands of `find -exec` and its like.
fn executed(words: &[Word]) -> Vec<Started> {
    const SIGNS: [&str; 8] = ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
    let mut started = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let sign = words[at].literal().is_some_and(|text| SIGNS.contains(&text));
        at += 1;
        if !sign {
            continue;
        }
        let ends = |word: &Word| matches!(word.literal(), Some(";" | "+"));
        let len = words[at..].iter().position(ends).unwrap_or(words.len() - at);
        let mut inner = words[at..at + len].to_vec();
        for word in &mut inner {
            if word.text.contains('{') {
                word.sure = Sure::Open;
            }
        }
        at += len;
        if !inner.is_empty() {
            started.push(Started::Program(inner));
        }
    }
    started
}

fn joined(words: &[Word]) -> Started {
    let literal: Option<Vec<&str>> = words.iter().map(Word::literal).collect();
    match literal {
        Some(words) => Started::Script(words.join(" ")),
        None => Started::Unknown("eval".to_owned()),
    }
}

fn trapped(words: &[Word]) -> Vec<Started> {
    match words.first() {
        None => Vec::new(),
        Some(word) => match word.literal() {
            Some("" | "-" | "-l" | "-p") => Vec::new(),
            Some("--") | None => vec![Started::Unknown("trap".to_owned())],
            Some(text) => vec![Started::Script(text.to_owned())],
        },
    }
}

/// The script behind a lone `-c`.
fn option_script(words: &[Word]) -> Started {
    let at = words.iter().position(|word| word.literal() == Some("-c"));
    let script = at.and_then(|at| words.get(at + 1)?.literal());
    match script {
        Some(text) => Started::Script(text.to_owned()),
        None => Started::Unknown("-c".to_owned()),
    }
}

/// A shell with a script, a file of one, or one in its input.
fn shell(name: &str, by_name: bool, words: &[Word]) -> (Role, Vec<Started>) {
    let option = words.first().and_then(Word::literal);
    let Some(option) = option else {
        return (Role::Actor, vec![Started::Unknown(name.to_owned())]);
    };
    let letters = option.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    let Some(letters) = letters else {
        // A file is as opaque as any program; a long option may be anything.
        let unknown = || Started::Unknown(name.to_owned());
        let started = option.starts_with('-').then(unknown);
        return (Role::Actor, started.into_iter().collect());
    };
    let plain = letters.contains('c') && letters.chars().all(|c| "ceux".contains(c));
    let Some(text) = words.get(1).and_then(Word::literal).filter(|_| plain) else {
        return (Role::Actor, vec![Started::Unknown(name.to_owned())]);
    };
    let same = by_name && matches!(name, "bash" | "sh" | "dash");
    let role = if same { Role::Courier } else { Role::Actor };
    (role, vec![Started::Script(text.to_owned())])
}
