//! The command line: one row per flag, with its help. Parsing fills a plain [`Args`]; what the values mean is for `config`.
//! Switches have a table of their own, which the settings files share.

use crate::config::switches::SWITCHES;
use std::borrow::Cow;

use crate::a2a::{DIALECTS, View};
use crate::base::id::Seq;

/// The command line as it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    pub mode: Mode,
    pub a2a_port: Option<String>,
    pub host: Option<String>,
    pub listen: Vec<String>,
    pub workspace: Option<String>,
    pub allowed_roots: Vec<String>,
    pub model: Option<String>,
    pub state_dir: Option<String>,
    pub script: Option<String>,
    pub max_attempts: Option<String>,
    pub allowed_models: Vec<String>,
    pub approval_mode: Option<String>,
    pub trust_workspace: bool,
    pub allow_auto_execute: bool,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub log_level: Option<String>,
    /// Flags of switches and their values, in the order they were given.
    pub switches: Vec<(&'static str, String)>,
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
    pub view: View,
}

/// Other names of flags.
const ALIASES: &[(&str, &str)] = &[("--push-allow-hosts", "--push-allow-host")];

struct Flag {
    name: &'static str,
    /// What the value is called in the help; empty for a switch, which takes none.
    value: &'static str,
    help: &'static str,
    set: fn(&mut Args, String),
}

const FLAGS: &[Flag] = &[
    Flag {
        name: "--a2a-port",
        value: "PORT",
        help: "port to listen on; 0 takes a free one (default: CODER_AGENT_PORT, else 41242)",
        set: |args, value| args.a2a_port = Some(value),
    },
    Flag {
        name: "--host",
        value: "ADDR",
        help: "loopback address of that port (default: 127.0.0.1)",
        set: |args, value| args.host = Some(value),
    },
    Flag {
        name: "--listen",
        value: "PLACE",
        help: "listen on ADDR:PORT or unix:PATH too; may be repeated",
        set: |args, value| args.listen.push(value),
    },
    Flag {
        name: "--workspace",
        value: "DIR",
        help: "where the agent works (default: the current directory)",
        set: |args, value| args.workspace = Some(value),
    },
    Flag {
        name: "--allowed-root",
        value: "DIR",
        help: "clients may ask for workspaces below it too; may be repeated",
        set: |args, value| args.allowed_roots.push(value),
    },
    Flag {
        name: "--model",
        value: "NAME",
        help: "Gemini model (default: GEMINI_MODEL, else auto)",
        set: |args, value| args.model = Some(value),
    },
    Flag {
        name: "--allowed-model",
        value: "NAME",
        help: "clients may choose only these models; may be repeated (default: any Gemini model)",
        set: |args, value| args.allowed_models.push(value),
    },
    Flag {
        name: "--trust-workspace",
        value: "",
        help: "let the workspace's own settings, variables and GEMINI.md files count",
        set: |args, _| args.trust_workspace = true,
    },
    Flag {
        name: "--approval-mode",
        value: "MODE",
        help: "default, auto_edit, plan or yolo: what is asked before tools run",
        set: |args, value| args.approval_mode = Some(value),
    },
    Flag {
        name: "--allow-auto-execute",
        value: "",
        help: "let clients ask for tools to run without questions",
        set: |args, _| args.allow_auto_execute = true,
    },
    Flag {
        name: "--state-dir",
        value: "DIR",
        help: "where tasks are kept (default: $XDG_STATE_HOME/gemini-a2a)",
        set: |args, value| args.state_dir = Some(value),
    },
    Flag {
        name: "--script",
        value: "FILE",
        help: "let a scripted agent answer instead of a model",
        set: |args, value| args.script = Some(value),
    },
    Flag {
        name: "--max-attempts",
        value: "N",
        help: "tries of a model request that fails (default: 10)",
        set: |args, value| args.max_attempts = Some(value),
    },
    Flag {
        name: "--allowed-host",
        value: "NAME",
        help: "answer to this Host too, beside localhost; may be repeated",
        set: |args, value| args.allowed_hosts.push(value),
    },
    Flag {
        name: "--allowed-origin",
        value: "ORIGIN",
        help: "let pages of this web origin in; may be repeated",
        set: |args, value| args.allowed_origins.push(value),
    },
    Flag {
        name: "--log-level",
        value: "LEVEL",
        help: "error, warn, info or debug (default: LOG_LEVEL, else info)",
        set: |args, value| args.log_level = Some(value),
    },
];

/// Reads the arguments behind the program's name. An error is one line that says what to do.
pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Args, String> {
    let mut args = Args::default();
    let mut words = words.into_iter().peekable();
    match words.peek().map(String::as_str) {
        Some("serve") => drop(words.next()),
        Some("replay") => return replay(words.skip(1)),
        Some("help") => return manual(words.skip(1)),
        _ => {}
    }
    while let Some(word) = words.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        match name {
            "--help" | "-h" => return Ok(only(Mode::Help)),
            "--version" | "-V" => return Ok(only(Mode::Version)),
            _ => {}
        }
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, name)| name);
        let flag = FLAGS.iter().find(|flag| flag.name == name);
        let switch = SWITCHES.iter().find(|switch| switch.flag == name);
        let takes = match (flag, switch) {
            (Some(flag), _) => flag.value.into(),
            (None, Some(switch)) => switch.takes.value(),
            (None, None) => return Err(unknown(name)),
        };
        let value = if !takes.is_empty() {
            let value = inline.or_else(|| words.next());
            let value = value.filter(|value| !value.is_empty());
            value.ok_or_else(|| format!("{name} needs a value: {name} {takes}"))?
        } else if inline.is_some() {
            return Err(format!("{name} takes no value"));
        } else {
            String::new()
        };
        if let Some(flag) = flag {
            (flag.set)(&mut args, value);
        } else if let Some(switch) = switch {
            args.switches.push((switch.flag, value));
        }
    }
    Ok(args)
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

/// What stands behind the verb `replay`.
fn replay(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let (mut file, mut at, mut dialect) = (None, None, None);
    while let Some(word) = words.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let (place, value) = match name {
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
        let given = inline.or_else(|| words.next());
        *place = Some(given.ok_or_else(|| format!("{name} needs a value: {name} {value}"))?);
    }
    let usage = "gemini-a2a replay FILE [--at SEQ] --as DIALECT";
    let file = file.ok_or_else(|| format!("which journal? {usage}"))?;
    let known = || DIALECTS.map(|(name, _)| name).join(", ");
    let dialect = dialect.ok_or_else(|| format!("--as is missing; one of {}", known()))?;
    let view = DIALECTS.iter().find(|(name, _)| *name == dialect);
    let (_, view) = view.ok_or_else(|| format!("unknown dialect {dialect}; one of {}", known()))?;
    let number = |at: String| at.parse().map(Seq).map_err(|_| format!("--at must be the number of an event, not {at}"));
    Ok(only(Mode::Replay(Replay { file, at: at.map(number).transpose()?, view: *view })))
}

/// Every flag with what its value is called and its help.
fn rows() -> impl Iterator<Item = (&'static str, Cow<'static, str>, &'static str)> {
    let flags = FLAGS.iter().map(|flag| (flag.name, flag.value.into(), flag.help));
    let switches = SWITCHES.iter().map(|switch| (switch.flag, switch.takes.value(), switch.help));
    flags.chain(switches)
}

fn unknown(name: &str) -> String {
    let near = rows().find(|(flag, ..)| name.len() > 3 && flag.starts_with(name));
    match near {
        Some((flag, ..)) => format!("unknown argument {name}; did you mean {flag}? Try --help."),
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
    for (name, value, help) in rows() {
        let left = format!("{name} {value}");
        let left = left.trim_end();
        // A long one has the line for itself.
        let gap = match left.len() {
            ..=26 => String::new(),
            _ => format!("\n{:28}", ""),
        };
        text.push_str(&format!("  {left:<26}{gap} {help}\n"));
    }
    text.push_str(
        "  -h, --help                 this text\n  -V, --version              the version\n\n\
         A TIME is written 500ms, 30s, 15m, 24h, 7d or never. The flags from --streaming on are settings too,\n\
         under a2a in ~/.gemini/settings.json: --idle-ttl 7d is {\"a2a\": {\"idleTtl\": \"7d\"}}.\n",
    );
    text.push_str(
        "\nReplay shows a journal, one event per line, or with --at the task as it stood after that event.\nDialects:",
    );
    let mut column = usize::MAX;
    for (name, _) in DIALECTS {
        if column > 90 {
            text.push_str("\n ");
            column = 1;
        }
        text.push(' ');
        text.push_str(name);
        column += 1 + name.len();
    }
    text.push_str(
        "\n\nEnvironment:\n  \
         GEMINI_API_KEY             key of the Gemini API; without one a scripted demo answers\n  \
         GOOGLE_GEMINI_BASE_URL     another address for the API\n  \
         GOOGLE_GENAI_USE_VERTEXAI  true asks Vertex AI, with GOOGLE_API_KEY, or with the next three\n  \
         GOOGLE_CLOUD_PROJECT, GOOGLE_CLOUD_LOCATION, GOOGLE_CLOUD_ACCESS_TOKEN(_FILE)\n  \
         GEMINI_CLI_TRUST_WORKSPACE true is --trust-workspace, false trusts nothing\n  \
         HTTPS_PROXY, NO_PROXY      the way to the API; SSL_CERT_FILE names certificates to trust\n  \
         CODER_AGENT_WORKSPACE_PATH pins the workspace, whatever clients ask for\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        super::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn every_flag_takes_its_value_both_ways() {
        for (name, value, _) in rows().filter(|(_, value, _)| !value.is_empty()) {
            let apart = parse(&format!("{name} x")).unwrap();
            let joined = parse(&format!("serve {name}=x")).unwrap();
            assert_eq!(apart, joined, "{name}");
            assert_ne!(apart, Args::default(), "{name} sets something");
            assert!(parse(name).unwrap_err().contains(value.as_ref()));
            assert!(help().contains(&format!("  {name} {value}")));
        }
    }

    #[test]
    fn switches_take_no_value() {
        for (name, ..) in rows().filter(|(_, value, _)| value.is_empty()) {
            assert_ne!(parse(name).unwrap(), Args::default(), "{name}");
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
        let first = |at: &str| help.find(at).expect(at);
        let switch = SWITCHES.first().expect("there are switches").flag;
        assert!(first(switch) > first(FLAGS.last().expect("there are flags").name));
        assert!(help.contains(&format!("The flags from {switch} on are settings too")));
    }

    #[test]
    fn mistakes_get_one_clear_line() {
        assert_eq!(parse("--wat").unwrap_err(), "unknown argument --wat; try --help.");
        assert_eq!(parse("--work x").unwrap_err(), "unknown argument --work; did you mean --workspace? Try --help.");
        assert_eq!(parse("--card-default").unwrap_err(), "--card-default needs a value: --card-default hybrid|v1");
        assert!(parse("serve serve").is_err());
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
        for (name, view) in DIALECTS {
            let expected = |at| Ok(Mode::Replay(Replay { file: "f".into(), at, view }));
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
