//! The table of verbs that have flags of their own. Their command lines are parsed by this table; the help, the man page and the shell
//! completions are made from it.

use super::{split, token, value_of};
use crate::config::options::{self, Flag, Kind, Row};

/// A verb with its flags and words.
#[derive(Debug)]
pub struct Verb {
    pub name: &'static str,
    /// The placeholder of the words after the verb; empty if it takes none.
    pub words: &'static str,
    pub flags: &'static [VerbFlag],
    /// The flags of the server that the verb takes, too.
    pub options: &'static [&'static str],
    pub help: &'static str,
}

#[derive(Debug)]
pub struct VerbFlag {
    pub name: &'static str,
    pub value: FlagValue,
    pub help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagValue {
    None,
    Needed(&'static str),
    /// The value is optional, and written after an equals sign.
    Optional(&'static str),
}

const fn flag(name: &'static str, value: FlagValue, help: &'static str) -> VerbFlag {
    VerbFlag { name, value, help }
}

const STATE: &[&str] = &["--state-dir"];
const URL: VerbFlag = flag("--url", FlagValue::Needed("URL"), "the server; without it the one that was started last");
const TOKEN_FILE: VerbFlag = flag(
    "--token-file",
    FlagValue::Needed("FILE"),
    "the file with the token that the server wants; or set GEMINI_A2A_TOKEN",
);
const TASK: VerbFlag = flag("--task", FlagValue::Needed("ID"), "the task; without it the live session");
const JSON: VerbFlag = flag("--json", FlagValue::None, "print JSON");

/// A verb that takes the flags of the program itself, or none.
pub struct ModeVerb {
    pub name: &'static str,
    /// The placeholder of what follows the verb.
    pub words: &'static str,
    pub help: &'static str,
}

pub const MODES: &[ModeVerb] = &[
    ModeVerb { name: "serve", words: "[flags]", help: "the server alone" },
    ModeVerb { name: "acp", words: "[flags]", help: "an agent for an editor (ACP on standard input and output)" },
    ModeVerb { name: "help", words: "[SUBJECT]", help: "the manual; without a subject, the list of subjects" },
];

/// The flags of a session in a terminal and of a prompt, which `serve` and `acp` do not take.
pub const SESSION: [&str; 5] = ["--prompt", "--prompt-interactive", "--resume", "--list-sessions", "--delete-session"];

pub const VERBS: &[Verb] = &[
    Verb {
        name: "attach",
        words: "[URL]",
        flags: &[URL, TOKEN_FILE, TASK, flag("--name", FlagValue::Needed("NAME"), "how others see this client")],
        options: &["--state-dir", "--screen-reader", "--debug"],
        help: "the session of a running server in this terminal",
    },
    Verb {
        name: "watch",
        words: "",
        flags: &[
            URL,
            TOKEN_FILE,
            TASK,
            flag("--after", FlagValue::Needed("SEQ"), "only what comes after this event"),
            flag(
                "--until",
                FlagValue::Needed("WHEN"),
                "end when the task is idle, asks a question or is at its end: idle,question,end",
            ),
            JSON,
        ],
        options: STATE,
        help: "print what happens in a task, as it happens",
    },
    Verb {
        name: "send",
        words: "TEXT…",
        flags: &[
            URL,
            TOKEN_FILE,
            TASK,
            flag("--new", FlagValue::None, "begin a new task"),
            flag("--wait", FlagValue::Optional("TIME"), "wait for the answer and print it"),
            JSON,
        ],
        options: STATE,
        help: "send a prompt; - reads it from standard input",
    },
    Verb {
        name: "approve",
        words: "",
        flags: &[
            URL,
            TOKEN_FILE,
            flag("--task", FlagValue::Needed("ID"), "only questions of this task"),
            flag("--call", FlagValue::Needed("ID"), "the call; without it exactly one must wait"),
            flag("--option", FlagValue::Needed("WORD"), "once, always, save, no, or an option of the question"),
            flag("--edited", FlagValue::Needed("FILE"), "the file as it is to be written"),
            flag("--answer", FlagValue::Needed("TEXT"), "to a question of the agent; one for each, in their order"),
            flag("--list", FlagValue::None, "print the questions that wait"),
            JSON,
        ],
        options: STATE,
        help: "answer a question about a tool call",
    },
    Verb {
        name: "tasks",
        words: "[list|show|export|delete|reindex] [ID…]",
        flags: &[URL, TOKEN_FILE, flag("--all", FlagValue::None, "also tasks that are over"), JSON],
        options: STATE,
        help: "list, show, export or delete tasks; make their index anew",
    },
    Verb {
        name: "audit",
        words: "verify|show [FILE…]",
        flags: &[
            flag("--tasks", FlagValue::None, "verify: compare the chain with the journals of the tasks"),
            flag("--task", FlagValue::Needed("ID"), "show: only entries about this task"),
            flag("--kind", FlagValue::Needed("KIND"), "show: only entries of this kind, such as answered or ran"),
            flag("--subject", FlagValue::Needed("NAME"), "show: only what this subject did"),
            flag("--since", FlagValue::Needed("WHEN"), "show: only from this time on; or how long ago, such as 24h"),
            JSON,
        ],
        options: STATE,
        help: "check the audit's chain of hashes, or print its entries",
    },
    Verb {
        name: "doctor",
        words: "",
        flags: &[JSON],
        options: &[
            "--workspace",
            "--trust-workspace",
            "--model",
            "--state-dir",
            "--a2a-port",
            "--host",
            "--listen",
            "--access",
            "--credentials",
        ],
        help: "look for what keeps the program from working here",
    },
    Verb {
        name: "completion",
        words: "bash|zsh|fish",
        flags: &[],
        options: &[],
        help: "print the completions for a shell",
    },
    Verb { name: "man", words: "", flags: &[], options: &[], help: "print the manual page for man" },
    Verb {
        name: "mcp",
        words: super::mcp::WORDS,
        flags: &[
            flag("--transport", FlagValue::Needed("KIND"), "of the server that is added: stdio, http or sse"),
            flag("--env", FlagValue::Needed("NAME=VALUE"), "a variable of the program; may be repeated"),
            flag("--header", FlagValue::Needed("NAME:VALUE"), "sent with every request; may be repeated"),
            flag("--timeout", FlagValue::Needed("MS"), "milliseconds that a call may be silent"),
            flag("--trust", FlagValue::None, "its tools need no approval"),
            flag("--description", FlagValue::Needed("TEXT"), "shown in lists"),
            flag("--include-tools", FlagValue::Needed("NAMES"), "only these tools, separated by commas"),
            flag("--exclude-tools", FlagValue::Needed("NAMES"), "not these tools, separated by commas"),
        ],
        options: &["--state-dir", "--workspace", "--trust-workspace"],
        help: "MCP servers: list and test them, log in, add them to your settings",
    },
    Verb {
        name: "token",
        words: token::WORDS,
        flags: &[
            flag("--subject", FlagValue::Needed("NAME"), "add: whose tasks it sees; without it, the id"),
            flag("--rights", FlagValue::Needed("RIGHTS"), "add: some of view,prompt,approve,admin"),
            flag("--root", FlagValue::Needed("DIR"), "add: only workspaces below this directory; may be repeated"),
            flag("--expires", FlagValue::Needed("TIME"), "add: how long it is valid"),
            flag("--note", FlagValue::Needed("TEXT"), "add: for people who read the list"),
            flag("--overlap", FlagValue::Needed("TIME"), "rotate: how long the former token is accepted"),
            JSON,
        ],
        options: &["--state-dir", "--credentials"],
        help: "credentials of clients, for a server with --access token",
    },
    Verb {
        name: "replay",
        words: "FILE",
        flags: &[
            flag("--at", FlagValue::Needed("SEQ"), "the task as it was after this event"),
            flag("--as", FlagValue::Needed("DIALECT"), "what it is shown as"),
        ],
        options: &[],
        help: "print a journal",
    },
];

/// A command line that was parsed by the table of its verb.
#[derive(Debug, Default)]
pub struct VerbArgs {
    flags: Vec<(&'static str, String)>,
    pub words: Vec<String>,
    pub options: Vec<Flag>,
    /// `--help` was given, so everything else is ignored.
    pub wants_help: bool,
}

impl Verb {
    pub fn find(name: &str) -> Option<&'static Verb> {
        VERBS.iter().find(|verb| verb.name == name)
    }

    pub fn usage(&self) -> String {
        let mut usage = format!("gemini-a2a {}", self.name);
        for flag in self.flags {
            usage.push_str(&format!(" [{}]", flag.shown()));
        }
        format!("{usage} {}", self.words).trim_end().to_owned()
    }

    /// Reads the words behind the verb. An error is one line.
    pub fn read(&self, mut words: impl Iterator<Item = String>) -> Result<VerbArgs, String> {
        let mut given = VerbArgs::default();
        while let Some(word) = words.next() {
            let (name, inline) = split(&word);
            if name == "--" && inline.is_none() {
                given.words.extend(words);
                break;
            }
            if name == "--help" || name == "-h" {
                given.wants_help = true;
                return Ok(given);
            }
            // A dash alone is standard input.
            if !name.starts_with('-') || name == "-" {
                given.words.push(word);
                continue;
            }
            match self.flags.iter().find(|flag| flag.name == name) {
                Some(flag) => {
                    let value = match (flag.value, inline) {
                        (FlagValue::None, Some(_)) => return Err(format!("{name} takes no value")),
                        (FlagValue::None, None) => String::new(),
                        (FlagValue::Optional(_), inline) => inline.unwrap_or_default(),
                        (FlagValue::Needed(placeholder), inline) => value_of(name, placeholder, inline, &mut words)?,
                    };
                    given.flags.push((flag.name, value));
                }
                None => given.options.push(self.option(name, inline, &mut words)?),
            }
        }
        match given.words.first() {
            Some(word) if self.words.is_empty() => Err(format!("{} takes no {word}; {}", self.name, self.usage())),
            _ => Ok(given),
        }
    }

    fn option(
        &self,
        name: &str,
        inline: Option<String>,
        words: &mut impl Iterator<Item = String>,
    ) -> Result<Flag, String> {
        let row = options::by_flag(name).filter(|row| self.options.contains(&row.flag()));
        let row: &'static Row = row.ok_or_else(|| match options::by_flag(name) {
            Some(_) => format!("{} takes no {name}; the server has its own flags", self.name),
            None => format!("{} takes no {name}; {}", self.name, self.usage()),
        })?;
        let value = match row.kind {
            Kind::Switch(_) if inline.is_some() => return Err(format!("{name} takes no value")),
            Kind::Switch(_) => "true".into(),
            _ => value_of(name, &row.value(), inline, words)?,
        };
        Ok((row, value))
    }
}

impl VerbFlag {
    /// The flag with the placeholder of its value, as in a usage line.
    pub fn shown(&self) -> String {
        match self.value {
            FlagValue::None => self.name.to_owned(),
            FlagValue::Needed(value) => format!("{} {value}", self.name),
            FlagValue::Optional(value) => format!("{}[={value}]", self.name),
        }
    }
}

impl VerbArgs {
    pub fn has(&self, name: &str) -> bool {
        self.flags.iter().any(|(flag, _)| *flag == name)
    }

    pub fn all(&self, name: &str) -> Vec<String> {
        self.flags.iter().filter(|(flag, _)| *flag == name).map(|(_, value)| value.clone()).collect()
    }

    /// The value of a flag that may be given once.
    pub fn one(&self, name: &str) -> Result<Option<String>, String> {
        let mut all = self.all(name);
        match all.len() {
            0 | 1 => Ok(all.pop()),
            _ => Err(format!("{name} is given twice; what is {}?", all[1])),
        }
    }

    /// The only word.
    pub fn word(&self) -> Result<Option<String>, String> {
        match self.words.as_slice() {
            [] => Ok(None),
            [word] => Ok(Some(word.clone())),
            [_, word, ..] => Err(format!("one at a time; what is {word}?")),
        }
    }
}
