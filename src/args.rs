//! The command line: one row per flag, with its help. Parsing fills a plain [`Args`]; what the values mean is for `config`.

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
        let Some(flag) = FLAGS.iter().find(|flag| flag.name == name) else {
            return Err(unknown(name));
        };
        if flag.value.is_empty() {
            if inline.is_some() {
                return Err(format!("{name} takes no value"));
            }
            (flag.set)(&mut args, String::new());
            continue;
        }
        let value = inline
            .or_else(|| words.next())
            .filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| format!("{name} needs a value: {name} {}", flag.value))?;
        (flag.set)(&mut args, value);
    }
    Ok(args)
}

fn unknown(name: &str) -> String {
    let near = FLAGS
        .iter()
        .find(|flag| name.len() > 3 && flag.name.starts_with(name));
    match near {
        Some(flag) => format!(
            "unknown argument {name}; did you mean {}? Try --help.",
            flag.name
        ),
        None => format!("unknown argument {name}; try --help."),
    }
}

pub fn help() -> String {
    let mut text = String::from(
        "gemini-a2a: a coding agent and an agent server (A2A) in one binary\n\n\
         Usage: gemini-a2a [serve] [flags]\n\nFlags:\n",
    );
    for flag in FLAGS {
        let left = format!("{} {}", flag.name, flag.value);
        text.push_str(&format!("  {left:<26} {}\n", flag.help));
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
        for flag in FLAGS.iter().filter(|flag| !flag.value.is_empty()) {
            let apart = parse(&format!("{} x", flag.name)).unwrap();
            let joined = parse(&format!("serve {}=x", flag.name)).unwrap();
            assert_eq!(apart, joined, "{}", flag.name);
            assert_ne!(apart, Args::default(), "{} sets something", flag.name);
            assert!(parse(flag.name).unwrap_err().contains(flag.value));
            assert!(help().contains(flag.name));
        }
    }

    #[test]
    fn switches_take_no_value() {
        for flag in FLAGS.iter().filter(|flag| flag.value.is_empty()) {
            assert_ne!(parse(flag.name).unwrap(), Args::default(), "{}", flag.name);
            assert!(parse(&format!("{}=x", flag.name)).is_err());
            assert!(parse(&format!("{} x", flag.name)).is_err());
            assert!(help().contains(flag.name));
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
        assert!(parse("serve serve").is_err());
        assert_eq!(parse("--a2a-port 1 --help").unwrap().mode, Mode::Help);
        assert_eq!(parse("-V").unwrap().mode, Mode::Version);
    }
}
