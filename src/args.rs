//! The command line: verbs, and flags by the table of options. Values are checked here; what they mean is decided in `config`.

use crate::a2a::{View, named_views};
use crate::base::id::Seq;
use crate::base::text::nearest::nearest;
use crate::config::options::{self, Flag, Kind, OPTIONS, Row};
use crate::config::remote::{self, Remote};
use crate::config::settings::Settings;

pub mod audit;
pub mod clients;
pub mod generated;
pub mod mcp;
pub mod token;
pub mod verbs;

use audit::AuditArgs;
use clients::ClientArgs;
use generated::Shell;
use mcp::McpAction;
use token::TokenAction;
use verbs::{MODES, SESSION, VERBS, Verb, VerbArgs};

/// The command line as it was given.
#[derive(Clone, Debug, Default)]
pub struct Args {
    pub mode: Mode,
    /// In the order they were given; their values are valid.
    pub flags: Vec<Flag>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// No verb: a terminal, a script or a server, as `shell/start/choose.rs` decides.
    #[default]
    Start,
    Serve,
    /// The Agent Client Protocol on standard input and output.
    Acp,
    Attach(Attach),
    /// A client of a running server that prints lines.
    Client(ClientArgs),
    Replay(Replay),
    /// Checks or prints the audit.
    Audit(AuditArgs),
    /// Something about MCP servers.
    Mcp(McpAction),
    /// Something about credentials.
    Token(TokenAction),
    /// A page of the manual; None lists the subjects.
    Manual(Option<String>),
    Help,
    /// The flags of a verb.
    VerbHelp(&'static str),
    Doctor {
        json: bool,
    },
    Completion(Shell),
    /// The page for `man`.
    Man,
    Version,
    VersionJson,
}

/// A terminal for the session of a running server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attach {
    /// None: the server of this user that was started last.
    pub server: Option<Remote>,
    /// The file with the token that the server wants.
    pub token_file: Option<String>,
    /// A task to show instead of the live session.
    pub task: Option<String>,
    /// The name of this client, as others see it.
    pub name: Option<String>,
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
        named_views().map(|(name, view)| (name, Shown::Dialect(view))).chain([("scene", Shown::Scene)])
    }
}

/// Reads the arguments after the program's name. An error is one line that says what to do.
pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Args, String> {
    let mut words = words.into_iter().peekable();
    let mut args = Args::default();
    match words.peek().map(String::as_str) {
        Some("serve") => {
            words.next();
            args.mode = Mode::Serve;
        }
        Some("acp") => {
            words.next();
            args.mode = Mode::Acp;
        }
        Some("help") => return manual(words.skip(1)),
        Some(word) => {
            if let Some(verb) = Verb::find(word) {
                return with_verb(verb, words.skip(1));
            }
        }
        None => {}
    }
    let mut checked = Settings::default();
    let mut prompt: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        if args.mode == Mode::Start && word == "--" {
            prompt.extend(words);
            break;
        }
        if args.mode == Mode::Start && !word.starts_with('-') {
            prompt.push(word);
            continue;
        }
        let (name, inline) = split(&word);
        match name {
            "--help" | "-h" => return Ok(only(Mode::Help)),
            "--version" | "-V" => {
                let is_json = words.next().is_some_and(|word| word == "--json");
                return Ok(only(if is_json { Mode::VersionJson } else { Mode::Version }));
            }
            _ => {}
        }
        let row = options::by_flag(name).ok_or_else(|| unknown(name))?;
        let value = match (row.kind, inline) {
            (Kind::Switch(_), Some(_)) => return Err(format!("{name} takes no value")),
            (Kind::Switch(_), None) => "true".into(),
            (Kind::OrElse(_, default, _), None) => {
                words.next_if(|word| !word.starts_with('-')).unwrap_or_else(|| default.into())
            }
            (_, inline) => value_of(name, &row.value(), inline, &mut words)?,
        };
        row.set(&mut checked, name, &value)?;
        args.flags.push((row, value));
    }
    if !prompt.is_empty() {
        let row = options::by_flag("--prompt").expect("the flag is in the table");
        args.flags.push((row, prompt.join(" ")));
    }
    agree(&args)?;
    Ok(args)
}

/// Flags that contradict each other are an error.
fn agree(args: &Args) -> Result<(), String> {
    let count = |flag: &str| args.flags.iter().filter(|(row, _)| row.flag() == flag).count();
    let given = |flag: &str| count(flag) > 0;
    let verb = match args.mode {
        Mode::Serve => Some("serve"),
        Mode::Acp => Some("acp"),
        _ => None,
    };
    if let Some((verb, flag)) = verb.zip(SESSION.into_iter().find(|flag| given(flag))) {
        return Err(format!("{verb} answers its clients and takes no {flag}; leave {verb} out"));
    }
    Err(if given("--yolo") && given("--approval-mode") {
        "--yolo is --approval-mode yolo; give only one of the two".into()
    } else if count("--prompt") > 1 {
        "there are two prompts; give --prompt once, or the words of the prompt without it".into()
    } else if given("--prompt") && given("--prompt-interactive") {
        "--prompt ends after its answer and --prompt-interactive does not; give only one of the two".into()
    } else {
        return Ok(());
    })
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
    // An empty prompt is an error of the input, not of the command line: scripts tell the two apart.
    let value = inline.or_else(|| words.next()).filter(|value| !value.is_empty() || ["--prompt", "-p"].contains(&name));
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

/// A command line with a verb of the table.
fn with_verb(verb: &'static Verb, words: impl Iterator<Item = String>) -> Result<Args, String> {
    let given = verb.read(words)?;
    if given.wants_help {
        return Ok(only(Mode::VerbHelp(verb.name)));
    }
    let mode = match (verb.name, clients::read(verb.name, &given)?) {
        (_, Some(client)) => Mode::Client(client),
        ("audit", None) => Mode::Audit(audit::read(&given)?),
        ("mcp", None) => Mode::Mcp(mcp::read(&given)?),
        ("token", None) => Mode::Token(token::read(&given)?),
        ("attach", None) => Mode::Attach(attach(&given)?),
        ("completion", None) => {
            let shell = given.word()?.unwrap_or_default();
            Mode::Completion(Shell::from_word(&shell).ok_or("for which shell? gemini-a2a completion bash|zsh|fish")?)
        }
        ("doctor", None) => Mode::Doctor { json: given.has("--json") },
        ("man", None) => Mode::Man,
        (_, None) => Mode::Replay(replay(&given)?),
    };
    Ok(Args { mode, flags: given.options })
}

fn attach(given: &VerbArgs) -> Result<Attach, String> {
    let server = match (given.one("--url")?, given.word()?) {
        (Some(_), Some(word)) => return Err(format!("one URL at a time; what is {word}?")),
        (url, word) => url.or(word).map(|server| remote::parse(&server)).transpose()?,
    };
    Ok(Attach {
        server,
        token_file: given.one("--token-file")?,
        task: given.one("--task")?,
        name: given.one("--name")?,
    })
}

fn replay(given: &VerbArgs) -> Result<Replay, String> {
    let usage = "gemini-a2a replay FILE [--at SEQ] --as DIALECT";
    let file = given.word()?.ok_or_else(|| format!("which journal? {usage}"))?;
    let known = || Shown::names().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let dialect = given.one("--as")?.ok_or_else(|| format!("--as is missing; one of {}", known()))?;
    let shown = Shown::names().find(|(name, _)| *name == dialect);
    let (_, shown) = shown.ok_or_else(|| format!("unknown dialect {dialect}; one of {}", known()))?;
    let number = |at: String| at.parse().map(Seq).map_err(|_| format!("--at must be the number of an event, not {at}"));
    Ok(Replay { file, at: given.one("--at")?.map(number).transpose()?, shown })
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
         Usage: gemini-a2a [flags] [PROMPT]     a session in this terminal, or the answer to a prompt\n",
    );
    for mode in MODES {
        text.push_str(&format!("       gemini-a2a {:<20} {}\n", format!("{} {}", mode.name, mode.words), mode.help));
    }
    text.push_str("       gemini-a2a VERB [flags]\n\nVerbs:\n");
    for verb in VERBS {
        entry(&mut text, format!("{} {}", verb.name, verb.words).trim_end(), verb.help);
    }
    text.push_str("\ngemini-a2a VERB --help lists the flags of a verb.\n\nFlags:\n");
    for row in options::with_flags() {
        let short = row.flags().find(|name| name.len() == 2).map(|name| format!("{name}, "));
        let names = format!("{}{} {}", short.unwrap_or_default(), row.flag(), row.value());
        entry(&mut text, names.trim_end(), &row.help_line());
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

/// The help of a verb.
pub fn verb_help(name: &str) -> String {
    let Some(verb) = Verb::find(name) else {
        return help();
    };
    let mut text = format!("gemini-a2a {}: {}\n\nUsage: {}\n\nFlags:\n", verb.name, verb.help, verb.usage());
    for flag in verb.flags {
        entry(&mut text, &flag.shown(), flag.help);
    }
    for row in verb.options.iter().filter_map(|name| options::by_flag(name)) {
        entry(&mut text, format!("{} {}", row.flag(), row.value()).trim_end(), &row.help_line());
    }
    text
}

/// A name and its description in two columns; a long name has a line of its own.
fn entry(text: &mut String, name: &str, help: &str) {
    let gap = match name.chars().count() {
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
            (_, "--public-url") => "http://x",
            (_, "--trusted-proxy") => "10.0.0.0/8",
            (_, "--metrics-listen") => "127.0.0.1:1",
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
            assert_eq!(given(format!("{name}={value}")), expected);
            match row.kind {
                Kind::OrElse(_, default, _) => assert_eq!(given(name.into()), [(name, default.to_owned())]),
                _ => assert!(parse(name).unwrap_err().contains(row.value().as_ref())),
            }
            assert!(help().contains(&format!(" {name} {}", row.value())));
        }
    }

    #[test]
    fn switches_take_no_value() {
        for row in options::with_flags().filter(|row| row.value().is_empty()) {
            let name = row.flag();
            assert_eq!(parse(name).expect("a command line").flags.len(), 1);
            assert!(parse(&format!("{name}=x")).is_err());
            assert!(parse(&format!("serve {name} x")).is_err());
            assert!(help().contains(name));
        }
    }

    #[test]
    fn words_are_the_prompt() {
        let prompt = |line: &str| {
            let args = parse(line).expect("a command line");
            assert_eq!(args.mode, Mode::Start);
            args.flags.iter().find(|(row, _)| row.flag() == "--prompt").map(|(_, text)| text.clone())
        };
        for line in ["why does it fail", "-y why does it fail", "why --yolo does it fail", "--yolo -- why does it fail"]
        {
            assert_eq!(prompt(line).as_deref(), Some("why does it fail"), "{line}");
        }
        assert_eq!(prompt("-r latest go on").as_deref(), Some("go on"));
        assert_eq!(prompt("-p x -r").as_deref(), Some("x"));
        assert_eq!(prompt("-y -- -x").as_deref(), Some("-x"));
        assert_eq!(prompt("-r"), None);
        for (line, words) in [
            ("-p x y", "two prompts"),
            ("-p x -p y", "two prompts"),
            ("-p x -i y", "give only one of the two"),
            ("serve -p x", "serve answers its clients and takes no --prompt"),
            ("serve x", "unknown argument x"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn the_help_has_two_columns() {
        let help = help();
        let parts = help.split("\n\n").filter(|part| part.starts_with("Flags:") || part.starts_with("Verbs:"));
        for line in parts.flat_map(|part| part.lines().skip(1)) {
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
    fn a_terminal_is_attached_to_one_server() {
        let asked = |line: &str| parse(line).map(|args| args.mode);
        let to = |port| Some(Remote::Tcp { host: "localhost".into(), port, tls: false });
        let plain = Attach { server: to(7), ..Attach::default() };
        assert_eq!(asked("attach"), Ok(Mode::Attach(Attach::default())));
        for line in
            ["attach 7", "attach --url 7", "attach --url=7", "attach http://localhost:7/", "attach ws://localhost:7"]
        {
            assert_eq!(asked(line), Ok(Mode::Attach(plain.clone())), "{line}");
        }
        let whole = Attach { token_file: Some("f".into()), task: Some("t".into()), name: Some("n".into()), ..plain };
        let args =
            parse("attach --task t --token-file f --screen-reader 7 --state-dir /s --name=n").expect("a command line");
        assert_eq!(args.mode, Mode::Attach(whole));
        assert_eq!(args.flags.len(), 2);
        assert_eq!(asked("attach 7 --help"), Ok(Mode::VerbHelp("attach")));
        assert!(verb_help("attach").contains("--task ID") && verb_help("attach").contains("--state-dir DIR"));
        for (line, words) in [
            ("attach 7 8", "what is 8?"),
            ("attach 7 --url 8", "one URL at a time"),
            ("attach --task", "--task ID"),
            ("attach --yolo", "the server has its own flags"),
            ("attach --debug=x", "takes no value"),
            ("attach --state-dir", "--state-dir DIR"),
            ("attach host", "http://HOST:PORT"),
        ] {
            let error = asked(line).unwrap_err();
            assert!(error.contains(words) && !error.contains('\n'), "{line}: {error}");
        }
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
        assert_eq!(asked("replay --help"), Ok(Mode::VerbHelp("replay")));
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
