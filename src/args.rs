//! The command line: verbs, and flags by the table of options. Values are checked here; what they mean is decided in `config`.

use crate::a2a::{DIALECTS, View};
use crate::base::id::Seq;
use crate::base::nearest::nearest;
use crate::config::options::{self, Flag, Kind, OPTIONS, Row};
use crate::config::settings::Settings;

/// The command line as it was given.
#[derive(Clone, Debug, Default)]
pub struct Args {
    pub mode: Mode,
    /// In the order they were given; their values are valid.
    pub flags: Vec<Flag>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Serve,
    Replay(Replay),
    /// A page of the manual; None lists the subjects.
    Manual(Option<String>),
    Help,
    Version,
}

/// A journal to be shown in a dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    pub file: String,
    /// The event after which the task is shown; None shows every event.
    pub at: Option<Seq>,
    pub shown: Shown,
}

/// What a journal is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Dialect(View),
    /// What people see of the task.
    Scene,
}

impl Shown {
    /// The names of `--as`.
    fn names() -> impl Iterator<Item = (&'static str, Shown)> {
        DIALECTS.into_iter().map(|(name, view)| (name, Shown::Dialect(view))).chain([("scene", Shown::Scene)])
    }
}

/// Reads the arguments after the program's name. An error is one line that says what to do.
pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Args, String> {
    let mut words = words.into_iter().peekable();
    match words.peek().map(String::as_str) {
        Some("serve") => drop(words.next()),
        Some("replay") => return replay(words.skip(1)),
        Some("help") => return manual(words.skip(1)),
        _ => {}
    }
    let mut args = Args::default();
    let mut checked = Settings::default();
    while let Some(word) = words.next() {
        let (name, inline) = split(&word);
        match name {
            "--help" | "-h" => return Ok(only(Mode::Help)),
            "--version" | "-V" => return Ok(only(Mode::Version)),
            _ => {}
        }
        let row = options::by_flag(name).ok_or_else(|| unknown(name))?;
        let value = match (row.kind, inline) {
            (Kind::Switch(_), Some(_)) => return Err(format!("{name} takes no value")),
            (Kind::Switch(_), None) => "true".into(),
            (_, inline) => value_of(name, &row.value(), inline, &mut words)?,
        };
        row.set(&mut checked, name, &value)?;
        args.flags.push((row, value));
    }
    let given = |flag: &str| args.flags.iter().any(|(row, _)| row.flag() == flag);
    if given("--yolo") && given("--approval-mode") {
        return Err("--yolo is --approval-mode yolo; give only one of the two".into());
    }
    Ok(args)
}

/// `--name=value`, or a word without a value.
fn split(word: &str) -> (&str, Option<String>) {
    match word.split_once('=') {
        Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
        _ => (word, None),
    }
}

/// The value of a flag: after the equals sign, or the next word.
fn value_of(
    name: &str,
    placeholder: &str,
    inline: Option<String>,
    words: &mut impl Iterator<Item = String>,
) -> Result<String, String> {
    let value = inline.or_else(|| words.next()).filter(|value| !value.is_empty());
    value.ok_or_else(|| format!("{name} needs a value: {name} {placeholder}"))
}

fn only(mode: Mode) -> Args {
    Args { mode, ..Args::default() }
}

/// The arguments of `help`.
fn manual(words: impl Iterator<Item = String>) -> Result<Args, String> {
    let words: Vec<String> = words.collect();
    match words.as_slice() {
        [] => Ok(only(Mode::Manual(None))),
        [word] if word == "--help" || word == "-h" => Ok(only(Mode::Manual(None))),
        [subject] => Ok(only(Mode::Manual(Some(subject.clone())))),
        _ => Err("help takes one subject; without one it prints the list of subjects".into()),
    }
}

/// The arguments of `replay`.
fn replay(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let (mut file, mut at, mut dialect) = (None, None, None);
    while let Some(word) = words.next() {
        let (name, inline) = split(&word);
        let (field, placeholder) = match name {
            "--help" | "-h" => return Ok(only(Mode::Help)),
            "--at" => (&mut at, "SEQ"),
            "--as" => (&mut dialect, "DIALECT"),
            _ if name.starts_with('-') => return Err(unknown(name)),
            _ if file.is_some() => return Err(format!("one journal at a time; what is {word}?")),
            _ => {
                file = Some(word);
                continue;
            }
        };
        *field = Some(value_of(name, placeholder, inline, &mut words)?);
    }
    let usage = "gemini-a2a replay FILE [--at SEQ] --as DIALECT";
    let file = file.ok_or_else(|| format!("which journal? {usage}"))?;
    let known = || Shown::names().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let dialect = dialect.ok_or_else(|| format!("--as is missing; one of {}", known()))?;
    let shown = Shown::names().find(|(name, _)| *name == dialect);
    let (_, shown) = shown.ok_or_else(|| format!("unknown dialect {dialect}; one of {}", known()))?;
    let number = |at: String| at.parse().map(Seq).map_err(|_| format!("--at must be the number of an event, not {at}"));
    Ok(only(Mode::Replay(Replay { file, at: at.map(number).transpose()?, shown })))
}

fn unknown(name: &str) -> String {
    let mut flags = options::with_flags().map(Row::flag);
    // `--port` means `--a2a-port`.
    let end = name.strip_prefix('-').filter(|end| end.len() > 3);
    let ends_alike = |flag: &&str| end.is_some_and(|end| flag.ends_with(end));
    match nearest(name, flags.clone()).or_else(|| flags.find(ends_alike)) {
        Some(flag) => format!("unknown argument {name}; did you mean {flag}? Try --help."),
        None => format!("unknown argument {name}; try --help."),
    }
}

pub fn help() -> String {
    let mut text = String::from(
        "gemini-a2a: a coding agent and an agent server (A2A) in one binary\n\n\
         Usage: gemini-a2a [serve] [flags]\n       \
         gemini-a2a replay FILE [--at SEQ] --as DIALECT\n       \
         gemini-a2a help [SUBJECT]    the manual; without a subject, the list of subjects\n\nFlags:\n",
    );
    for row in options::with_flags() {
        entry(&mut text, format!("{} {}", row.flag(), row.value()).trim_end(), &row.help_line());
    }
    entry(&mut text, "-h, --help", "this text");
    entry(&mut text, "-V, --version", "the version");
    text.push_str(
        "\nA TIME is written 500ms, 30s, 15m, 24h, 7d or never. The flags from --streaming on are settings too,\n\
         under a2a in ~/.gemini/settings.json: --idle-ttl 7d is {\"a2a\": {\"idleTtl\": \"7d\"}}.\n\
         gemini-a2a help settings lists all settings.\n\n\
         replay prints a journal, one event per line, or with --at the task as it was after that event.\n\
         As a scene it prints what people see of the task at its end, or after that event.\nDialects:",
    );
    let mut column = usize::MAX;
    for (name, _) in Shown::names() {
        if column > 90 {
            text.push_str("\n ");
            column = 1;
        }
        text.push(' ');
        text.push_str(name);
        column += 1 + name.len();
    }
    text.push_str("\n\nEnvironment:\n");
    for row in OPTIONS.iter().filter(|row| row.flag().is_empty() && !row.variable().is_empty()) {
        entry(&mut text, row.variable(), &row.help.replace('`', ""));
    }
    text
}

/// A name and its description in two columns; a long name has a line of its own.
fn entry(text: &mut String, name: &str, help: &str) {
    let gap = match name.len() {
        ..=26 => String::new(),
        _ => format!("\n{:28}", ""),
    };
    text.push_str(&format!("  {name:<26}{gap} {help}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        super::parse(line.split_whitespace().map(str::to_owned))
    }

    /// A value that the option takes.
    fn valid(row: &Row) -> &'static str {
        match (row.kind, row.flag()) {
            (Kind::OneOf(words, _), _) => words[0],
            (Kind::OnOff(_), _) => "on",
            (Kind::Time(_) | Kind::Length(_), _) => "1s",
            (Kind::Number(..) | Kind::Share(_), _) => "1",
            (_, "--host" | "--listen") => "unix:x",
            (_, "--a2a-port" | "--memory" | "--state-max") => "1",
            _ => "x",
        }
    }

    #[test]
    fn every_flag_takes_its_value_both_ways() {
        let given = |line: String| {
            let args = parse(&line).expect("a command line");
            args.flags.iter().map(|(row, value)| (row.flag(), value.clone())).collect::<Vec<_>>()
        };
        for row in options::with_flags().filter(|row| !row.value().is_empty()) {
            let (name, value) = (row.flag(), valid(row));
            let expected = vec![(name, value.to_owned())];
            assert_eq!(given(format!("{name} {value}")), expected);
            assert_eq!(given(format!("serve {name}={value}")), expected);
            assert!(parse(name).unwrap_err().contains(row.value().as_ref()));
            assert!(help().contains(&format!("  {name} {}", row.value())));
        }
    }

    #[test]
    fn switches_take_no_value() {
        for row in options::with_flags().filter(|row| row.value().is_empty()) {
            let name = row.flag();
            assert_eq!(parse(name).expect("a command line").flags.len(), 1);
            assert!(parse(&format!("{name}=x")).is_err());
            assert!(parse(&format!("{name} x")).is_err());
            assert!(help().contains(name));
        }
    }

    #[test]
    fn the_help_has_two_columns() {
        let help = help();
        let flags = help.split("\n\n").nth(2).expect("the flags");
        for line in flags.lines().skip(1) {
            assert_eq!(line.trim_end(), line);
            // What a flag does begins in the same column, on its line or on the next.
            let told = match line.starts_with("   ") {
                true => line.len() - line.trim_start().len(),
                false if line.len() <= 28 => continue,
                false => match line.as_bytes()[28] {
                    b' ' => 29,
                    _ => continue,
                },
            };
            assert_eq!(told, 29, "{line}");
        }
        let is_setting = |row: &Row| row.keys().any(|key| key.starts_with("a2a."));
        let mut rows = options::with_flags().skip_while(|row| !is_setting(row));
        let first = rows.next().expect("there are settings").flag();
        assert!(rows.all(is_setting));
        assert!(help.contains(&format!("The flags from {first} on are settings too")));
    }

    #[test]
    fn errors_are_one_line() {
        assert_eq!(parse("--wat").unwrap_err(), "unknown argument --wat; try --help.");
        assert_eq!(parse("--work x").unwrap_err(), "unknown argument --work; did you mean --workspace? Try --help.");
        assert_eq!(parse("--port 1").unwrap_err(), "unknown argument --port; did you mean --a2a-port? Try --help.");
        assert_eq!(parse("--modle x").unwrap_err(), "unknown argument --modle; did you mean --model? Try --help.");
        assert_eq!(parse("--card-default").unwrap_err(), "--card-default needs a value: --card-default hybrid|v1");
        assert!(parse("serve serve").is_err());
        assert!(parse("--yolo --approval-mode plan").unwrap_err().contains("only one of the two"));
        assert_eq!(parse("--a2a-port 1 --help").unwrap().mode, Mode::Help);
        assert_eq!(parse("-V").unwrap().mode, Mode::Version);
    }

    #[test]
    fn the_manual_takes_one_subject() {
        let asked = |line: &str| parse(line).map(|args| args.mode);
        assert_eq!(asked("help"), Ok(Mode::Manual(None)));
        assert_eq!(asked("help --help"), Ok(Mode::Manual(None)));
        assert_eq!(asked("help replay"), Ok(Mode::Manual(Some("replay".into()))));
        assert!(asked("help replay scripts").is_err());
        assert!(help().contains("gemini-a2a help [SUBJECT]"));
    }

    #[test]
    fn a_replay_needs_a_journal_and_a_dialect() {
        let asked = |line: &str| parse(line).map(|args| args.mode);
        for (name, shown) in Shown::names() {
            let expected = |at| Ok(Mode::Replay(Replay { file: "f".into(), at, shown }));
            assert_eq!(asked(&format!("replay f --as {name}")), expected(None));
            assert_eq!(asked(&format!("replay --at=7 --as={name} f")), expected(Some(Seq(7))));
            assert!(help().contains(name));
        }
        assert_eq!(asked("replay --help"), Ok(Mode::Help));
        for (line, words) in [
            ("replay", "replay FILE"),
            ("replay f", "--as is missing; one of a2a-0.3, "),
            ("replay f --as x", "unknown dialect x; one of a2a-0.3, "),
            ("replay f --as", "--as DIALECT"),
            ("replay f g --as own", "what is g?"),
            ("replay f --at x --as own", "not x"),
            ("replay f --model x --as own", "--model"),
        ] {
            let error = asked(line).unwrap_err();
            assert!(error.contains(words), "{line}: {error}");
            assert!(!error.contains('\n'), "{line}: {error}");
        }
    }
}
