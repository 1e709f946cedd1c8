//! The command line: one row per flag, with its help. Parsing fills a plain [`Args`]; what the values mean is for `config`.
//! Switches have a table of their own, which the settings files share.

use crate::config::switches::SWITCHES;
use std::borrow::Cow;

/// The command line as it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    pub mode: Mode,
    pub a2a_port: Option<String>,
    pub host: Option<String>,
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Serve,
    Help,
    Version,
}

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
        help: "loopback address to listen on (default: 127.0.0.1)",
        set: |args, value| args.host = Some(value),
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
    let mut words = words.into_iter();
    let mut first = true;
    while let Some(word) = words.next() {
        let is_verb = std::mem::replace(&mut first, false) && word == "serve";
        if is_verb {
            continue;
        }
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        match name {
            "--help" | "-h" => {
                return Ok(Args {
                    mode: Mode::Help,
                    ..Args::default()
                });
            }
            "--version" | "-V" => {
                return Ok(Args {
                    mode: Mode::Version,
                    ..Args::default()
                });
            }
            _ => {}
        }
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

/// Every flag with what its value is called and its help.
fn rows() -> impl Iterator<Item = (&'static str, Cow<'static, str>, &'static str)> {
    let flags = FLAGS
        .iter()
        .map(|flag| (flag.name, flag.value.into(), flag.help));
    let switches = SWITCHES
        .iter()
        .map(|switch| (switch.flag, switch.takes.value(), switch.help));
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
         Usage: gemini-a2a [serve] [flags]\n\nFlags:\n",
    );
    for (name, value, help) in rows() {
        let left = format!("{name} {value}");
        // A long one has the line for itself.
        let gap = if left.len() > 26 {
            "\n                             "
        } else {
            ""
        };
        text.push_str(&format!("  {left:<26}{gap} {help}\n"));
    }
    text.push_str(
        "  -h, --help                 this text\n  -V, --version              the version\n",
    );
    text.push_str(
        "\nEnvironment:\n  \
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
    fn mistakes_get_one_clear_line() {
        assert_eq!(
            parse("--wat").unwrap_err(),
            "unknown argument --wat; try --help."
        );
        assert_eq!(
            parse("--work x").unwrap_err(),
            "unknown argument --work; did you mean --workspace? Try --help."
        );
        assert_eq!(
            parse("--card-default").unwrap_err(),
            "--card-default needs a value: --card-default hybrid|v1"
        );
        assert!(parse("serve serve").is_err());
        assert_eq!(parse("--a2a-port 1 --help").unwrap().mode, Mode::Help);
        assert_eq!(parse("-V").unwrap().mode, Mode::Version);
    }
}
