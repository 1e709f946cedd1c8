//! What the operator can switch about how the server behaves: one row per switch, with its flag, its setting and its values.
//! The command line and the settings files read the same table, so neither can have a switch that the other lacks.
//!
//! A value is a word. A switch that is only on or off is a flag without a value, and `true` or `false` in a settings file;
//! `on` and `off` will do there too, as they do behind the flags that take them.
//! What arguments say replaces what settings say; lists add up.

use crate::a2a::{CardDefault, RestStatus, Switches, WEBHOOKS};
use crate::base::{address, span};
use crate::config::tree::{Node, Value};
use crate::limits::Times;
use crate::task::call::{Disconnect, Durability, NewTasks, RequestPolicy};
use crate::task::log::event::{Lifecycle, Profile};
use std::borrow::Cow;
use std::path::PathBuf;

/// How everything is switched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Board {
    pub a2a: Switches,
    pub request_policy: RequestPolicy,
    pub times: Times,
    /// What the extended card says beyond the public one.
    pub extended_card: Option<PathBuf>,
}

pub struct Switch {
    pub flag: &'static str,
    /// Its name in settings files.
    pub key: &'static str,
    pub takes: Takes,
    pub help: &'static str,
    /// None when the value is none of those it takes.
    set: fn(&mut Board, &str) -> Option<()>,
}

/// What a switch can be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// On or off; the flag alone is on.
    Nothing,
    OnOrOff,
    OneOf(&'static [&'static str]),
    /// A length of time, or never.
    Time,
    /// An identifier; several may be given.
    Uris,
    /// The name of a host; several may be given.
    Hosts,
    File,
}

impl Takes {
    /// What the value is called in the help; empty for a flag that has none.
    pub fn value(self) -> Cow<'static, str> {
        match self {
            Takes::Nothing => "".into(),
            Takes::OnOrOff => "on|off".into(),
            Takes::OneOf(words) => words.join("|").into(),
            Takes::Time => "TIME".into(),
            Takes::Uris => "URI".into(),
            Takes::Hosts => "HOST".into(),
            Takes::File => "FILE".into(),
        }
    }

    /// What it must be, for messages about flags.
    fn wants(self) -> String {
        match self {
            Takes::Nothing | Takes::OnOrOff => "on or off".into(),
            Takes::OneOf([only]) => (*only).into(),
            Takes::OneOf([words @ .., last]) => format!("{} or {last}", words.join(", ")),
            Takes::OneOf([]) => unreachable!("there is something to choose from"),
            Takes::Time => "a time such as 500ms, 30s or 24h, or never".into(),
            Takes::Uris => "a URI without spaces".into(),
            Takes::Hosts => "the name or address of a host, without a port".into(),
            Takes::File => "a file's name".into(),
        }
    }

    /// The same for messages about settings.
    fn wants_in_file(self) -> String {
        match self {
            Takes::Nothing | Takes::OnOrOff => "true or false".into(),
            Takes::Uris => "a list of URIs".into(),
            Takes::Hosts => "a list of hosts, without ports".into(),
            Takes::OneOf(_) | Takes::Time | Takes::File => self.wants(),
        }
    }
}

impl Switch {
    /// Sets it from the command line.
    pub fn argue(&self, board: &mut Board, value: &str) -> Result<(), String> {
        let value = match self.takes {
            Takes::Nothing => "on",
            Takes::OnOrOff | Takes::OneOf(_) | Takes::Time | Takes::Uris | Takes::Hosts | Takes::File => value,
        };
        (self.set)(board, value).ok_or_else(|| format!("{} must be {}, not {value}", self.flag, self.takes.wants()))
    }

    /// Sets it from a settings file. An error says what the value must be.
    pub fn read(&self, board: &mut Board, node: &Node) -> Result<(), String> {
        let words = match (self.takes, &node.value) {
            (Takes::Nothing | Takes::OnOrOff, _) => {
                let word = node.bool().map(|on| if on { "on" } else { "off" });
                let word = word.or_else(|| node.text());
                word.map(|word| vec![word.to_owned()])
            }
            (Takes::Uris | Takes::Hosts, Value::List(_)) => node.texts(),
            (Takes::Uris | Takes::Hosts | Takes::OneOf(_) | Takes::Time | Takes::File, _) => {
                node.text().map(|word| vec![word.to_owned()])
            }
        };
        // A list with a wrong entry counts for nothing, so it is tried on a copy.
        let mut tried = board.clone();
        let set = |words: Vec<String>| {
            let mut words = words.iter();
            words.try_for_each(|word| (self.set)(&mut tried, word))
        };
        words.and_then(set).ok_or_else(|| self.takes.wants_in_file())?;
        *board = tried;
        Ok(())
    }
}

pub const SWITCHES: &[Switch] = &[
    Switch {
        flag: "--streaming",
        key: "a2a.streaming",
        takes: Takes::OnOrOff,
        help: "event streams; off answers only single calls (default: on)",
        set: |board, word| put(&mut board.a2a.streaming, on(word)),
    },
    Switch {
        flag: "--push",
        key: "a2a.push",
        takes: if WEBHOOKS { Takes::OnOrOff } else { Takes::OneOf(&["off"]) },
        help: if WEBHOOKS { "webhooks (default: on)" } else { "webhooks; this build has none" },
        set: |board, word| put(&mut board.a2a.push, on(word).filter(|on| !on || WEBHOOKS)),
    },
    Switch {
        flag: "--push-allow-http",
        key: "a2a.pushAllowHttp",
        takes: Takes::Nothing,
        help: "webhooks may be http too, not only https",
        set: |board, word| put(&mut board.a2a.push_rules.allow_http, on(word)),
    },
    Switch {
        flag: "--push-allow-host",
        key: "a2a.pushAllowHosts",
        takes: Takes::Hosts,
        help: "webhooks may be on this host, whatever its address and without TLS; may be repeated",
        set: |board, host| {
            address::host(host).ok()?;
            let allowed = &mut board.a2a.push_rules.allow_hosts;
            if !allowed.iter().any(|known| known == host) {
                allowed.push(host.to_owned());
            }
            Some(())
        },
    },
    Switch {
        flag: "--push-allow-private",
        key: "a2a.pushAllowPrivate",
        takes: Takes::Nothing,
        help: "webhooks may be anywhere, on this machine too; for tests",
        set: |board, word| put(&mut board.a2a.push_rules.allow_private, on(word)),
    },
    Switch {
        flag: "--card-default",
        key: "a2a.cardDefault",
        takes: Takes::OneOf(&["hybrid", "v1"]),
        help: "the agent card for clients that name no version (default: hybrid)",
        set: |board, word| {
            let card = match word {
                "hybrid" => CardDefault::Hybrid,
                "v1" => CardDefault::V1,
                _ => return None,
            };
            put(&mut board.a2a.card_default, Some(card))
        },
    },
    Switch {
        flag: "--strict-version",
        key: "a2a.strictVersion",
        takes: Takes::Nothing,
        help: "a 1.0 call must name its version",
        set: |board, word| put(&mut board.a2a.strict_version, on(word)),
    },
    Switch {
        flag: "--rest-status-profile",
        key: "a2a.restStatusProfile",
        takes: Takes::OneOf(&["1.0.0", "1.0.1"]),
        help: "whose HTTP statuses REST errors have (default: 1.0.1)",
        set: |board, word| {
            let status = match word {
                "1.0.0" => RestStatus::V100,
                "1.0.1" => RestStatus::V101,
                _ => return None,
            };
            put(&mut board.a2a.rest_status, Some(status))
        },
    },
    Switch {
        flag: "--required-extension",
        key: "a2a.requiredExtensions",
        takes: Takes::Uris,
        help: "an extension that clients must name; may be repeated",
        set: |board, uri| {
            let written = uri.chars().all(|c| c.is_ascii_graphic() && c != ',');
            if uri.is_empty() || !written {
                return None;
            }
            let required = &mut board.a2a.required_extensions;
            if !required.iter().any(|known| known == uri) {
                required.push(uri.to_owned());
            }
            Some(())
        },
    },
    Switch {
        flag: "--extended-card",
        key: "a2a.extendedCard",
        takes: Takes::File,
        help: "JSON with what the card says beyond the public one, to those who are let in",
        set: |board, name| {
            if name.is_empty() {
                return None;
            }
            board.a2a.extended_card = true;
            put(&mut board.extended_card, Some(Some(name.into())))
        },
    },
    Switch {
        flag: "--default-profile-03",
        key: "a2a.defaultProfile03",
        takes: Takes::OneOf(&["coder", "plain", "devtool"]),
        help: "what 0.3 clients get that show no preference (default: coder)",
        set: |board, word| {
            let profile = match word {
                "coder" => Profile::Coder,
                "plain" => Profile::Plain,
                "devtool" => Profile::Devtool,
                _ => return None,
            };
            put(&mut board.a2a.default_profile_03, Some(profile))
        },
    },
    Switch {
        flag: "--plain-lifecycle",
        key: "a2a.plainLifecycle",
        takes: Takes::OneOf(&["one-shot", "conversational"]),
        help: "whether a plain 1.0 task ends with its turn (default: one-shot)",
        set: |board, word| {
            let lifecycle = match word {
                "one-shot" => Lifecycle::OneShot,
                "conversational" => Lifecycle::Conversational,
                _ => return None,
            };
            put(&mut board.a2a.plain_lifecycle, Some(lifecycle))
        },
    },
    Switch {
        flag: "--emit-persisted-state",
        key: "a2a.emitPersistedState",
        takes: Takes::Nothing,
        help: "begin coder streams with the state that the reference server shows",
        set: |board, word| put(&mut board.a2a.emit_persisted_state, on(word)),
    },
    Switch {
        flag: "--coder-abort-on-disconnect",
        key: "a2a.coderAbortOnDisconnect",
        takes: Takes::Nothing,
        help: "end a coder turn when its client goes away, as the reference server does",
        set: |board, word| {
            let disconnect = on(word).map(|aborts| match aborts {
                true => Disconnect::Aborts,
                false => Disconnect::GoesOn,
            });
            put(&mut board.request_policy.disconnect, disconnect)
        },
    },
    Switch {
        flag: "--durability",
        key: "a2a.durability",
        takes: Takes::OneOf(&["normal", "strict"]),
        help: "strict acknowledges prompts and approvals only when the disk has them (default: normal)",
        set: |board, word| {
            let durability = match word {
                "normal" => Durability::Normal,
                "strict" => Durability::Strict,
                _ => return None,
            };
            put(&mut board.request_policy.durability, Some(durability))
        },
    },
    Switch {
        flag: "--new-tasks",
        key: "a2a.newTasks",
        takes: Takes::OneOf(&["own", "session"]),
        help: "where a prompt goes that names no task: one of its own, or the session (default: own)",
        set: |board, word| {
            let tasks = match word {
                "own" => NewTasks::Own,
                "session" => NewTasks::Session,
                _ => return None,
            };
            put(&mut board.request_policy.new_tasks, Some(tasks))
        },
    },
    Switch {
        flag: "--blocking-timeout",
        key: "a2a.blockingTimeout",
        takes: Takes::Time,
        help: "a waiting call is answered after so long, and its turn goes on (default: never)",
        set: |board, word| put(&mut board.request_policy.blocking_timeout_ms, time(word)),
    },
    Switch {
        flag: "--confirmation-timeout",
        key: "a2a.confirmationTimeout",
        takes: Takes::Time,
        help: "a call that nobody allows for so long is cancelled (default: never)",
        set: |board, word| put(&mut board.times.answer_ms, time(word)),
    },
    Switch {
        flag: "--turn-timeout",
        key: "a2a.turnTimeout",
        takes: Takes::Time,
        help: "a turn that takes so long is stopped (default: never)",
        set: |board, word| put(&mut board.times.turn_ms, time(word)),
    },
    Switch {
        flag: "--idle-ttl",
        key: "a2a.idleTtl",
        takes: Takes::Time,
        help: "a task that nobody goes on with for so long is completed (default: 24h)",
        set: |board, word| put(&mut board.times.idle_ms, time(word)),
    },
    Switch {
        flag: "--retention",
        key: "a2a.retention",
        takes: Takes::Time,
        help: "a task that has been over for so long is deleted (default: 24h)",
        set: |board, word| put(&mut board.times.retention_ms, time(word)),
    },
];

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn on(word: &str) -> Option<bool> {
    match word {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn time(word: &str) -> Option<Option<u64>> {
    match word {
        "never" => Some(None),
        length => span::parse(length).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::jsonc;

    fn argued(line: &str) -> Result<Board, String> {
        let mut board = Board::default();
        let mut words = line.split_whitespace();
        while let Some(flag) = words.next() {
            let switch = SWITCHES.iter().find(|switch| switch.flag == flag);
            let switch = switch.expect("there is such a flag");
            let value = match switch.takes {
                Takes::Nothing => "",
                Takes::OnOrOff | Takes::OneOf(_) | Takes::Time | Takes::Uris | Takes::Hosts | Takes::File => {
                    words.next().expect("it has a value")
                }
            };
            switch.argue(&mut board, value)?;
        }
        Ok(board)
    }

    fn written(key: &str, value: &str) -> Result<Board, String> {
        let switch = SWITCHES.iter().find(|switch| switch.key == key);
        let (node, _) = jsonc::parse(value).expect("a value");
        let mut board = Board::default();
        let switch = switch.expect("there is such a key");
        switch.read(&mut board, &node).map(|()| board)
    }

    /// Every switch with every word it takes: as a flag, as it is written in a file, and what it does.
    fn cases() -> Vec<(&'static str, &'static str, &'static str, Board)> {
        fn a2a(change: fn(&mut Switches)) -> Board {
            let mut board = Board::default();
            change(&mut board.a2a);
            board
        }
        fn times(change: fn(&mut Times)) -> Board {
            let mut board = Board::default();
            change(&mut board.times);
            board
        }
        fn request_policy(change: fn(&mut RequestPolicy)) -> Board {
            let mut board = Board::default();
            change(&mut board.request_policy);
            board
        }
        let mut cases = vec![
            ("--streaming on", "a2a.streaming", "true", Board::default()),
            ("--streaming off", "a2a.streaming", "false", a2a(|s| s.streaming = false)),
            ("--push off", "a2a.push", "\"off\"", a2a(|s| s.push = false)),
            ("--push-allow-http", "a2a.pushAllowHttp", "true", a2a(|s| s.push_rules.allow_http = true)),
            (
                "--push-allow-host ci.internal --push-allow-host [::1]",
                "a2a.pushAllowHosts",
                "[\"ci.internal\", \"[::1]\"]",
                a2a(|s| s.push_rules.allow_hosts = vec!["ci.internal".into(), "[::1]".into()]),
            ),
            (
                "--push-allow-host 10.0.0.7",
                "a2a.pushAllowHosts",
                "\"10.0.0.7\"",
                a2a(|s| s.push_rules.allow_hosts = vec!["10.0.0.7".into()]),
            ),
            ("--push-allow-private", "a2a.pushAllowPrivate", "true", a2a(|s| s.push_rules.allow_private = true)),
            ("--card-default hybrid", "a2a.cardDefault", "\"hybrid\"", Board::default()),
            ("--card-default v1", "a2a.cardDefault", "\"v1\"", a2a(|s| s.card_default = CardDefault::V1)),
            ("--strict-version", "a2a.strictVersion", "true", a2a(|s| s.strict_version = true)),
            ("--rest-status-profile 1.0.1", "a2a.restStatusProfile", "\"1.0.1\"", Board::default()),
            (
                "--rest-status-profile 1.0.0",
                "a2a.restStatusProfile",
                "\"1.0.0\"",
                a2a(|s| s.rest_status = RestStatus::V100),
            ),
            (
                "--required-extension urn:x --required-extension urn:y --required-extension urn:x",
                "a2a.requiredExtensions",
                "[\"urn:x\", \"urn:y\"]",
                a2a(|s| s.required_extensions = vec!["urn:x".into(), "urn:y".into()]),
            ),
            (
                "--required-extension urn:x",
                "a2a.requiredExtensions",
                "\"urn:x\"",
                a2a(|s| s.required_extensions = vec!["urn:x".into()]),
            ),
            (
                "--extended-card more.json",
                "a2a.extendedCard",
                "\"more.json\"",
                Board { extended_card: Some("more.json".into()), ..a2a(|s| s.extended_card = true) },
            ),
            ("--emit-persisted-state", "a2a.emitPersistedState", "true", a2a(|s| s.emit_persisted_state = true)),
            (
                "--coder-abort-on-disconnect",
                "a2a.coderAbortOnDisconnect",
                "true",
                request_policy(|m| m.disconnect = Disconnect::Aborts),
            ),
            ("--durability normal", "a2a.durability", "\"normal\"", Board::default()),
            (
                "--durability strict",
                "a2a.durability",
                "\"strict\"",
                request_policy(|m| m.durability = Durability::Strict),
            ),
            ("--default-profile-03 coder", "a2a.defaultProfile03", "\"coder\"", Board::default()),
            (
                "--default-profile-03 plain",
                "a2a.defaultProfile03",
                "\"plain\"",
                a2a(|s| s.default_profile_03 = Profile::Plain),
            ),
            (
                "--default-profile-03 devtool",
                "a2a.defaultProfile03",
                "\"devtool\"",
                a2a(|s| s.default_profile_03 = Profile::Devtool),
            ),
            ("--plain-lifecycle one-shot", "a2a.plainLifecycle", "\"one-shot\"", Board::default()),
            (
                "--plain-lifecycle conversational",
                "a2a.plainLifecycle",
                "\"conversational\"",
                a2a(|s| s.plain_lifecycle = Lifecycle::Conversational),
            ),
            ("--new-tasks own", "a2a.newTasks", "\"own\"", Board::default()),
            ("--new-tasks session", "a2a.newTasks", "\"session\"", request_policy(|m| m.new_tasks = NewTasks::Session)),
            ("--blocking-timeout never", "a2a.blockingTimeout", "\"never\"", Board::default()),
            (
                "--blocking-timeout 500ms",
                "a2a.blockingTimeout",
                "\"500ms\"",
                request_policy(|m| m.blocking_timeout_ms = Some(500)),
            ),
            ("--confirmation-timeout never", "a2a.confirmationTimeout", "\"never\"", Board::default()),
            ("--confirmation-timeout 2m", "a2a.confirmationTimeout", "\"2m\"", times(|t| t.answer_ms = Some(120_000))),
            ("--turn-timeout never", "a2a.turnTimeout", "\"never\"", Board::default()),
            ("--turn-timeout 1h", "a2a.turnTimeout", "\"1h\"", times(|t| t.turn_ms = Some(3_600_000))),
            ("--idle-ttl 24h", "a2a.idleTtl", "\"24h\"", Board::default()),
            ("--idle-ttl never", "a2a.idleTtl", "\"never\"", times(|t| t.idle_ms = None)),
            ("--retention 24h", "a2a.retention", "\"24h\"", Board::default()),
            ("--retention 7d", "a2a.retention", "\"7d\"", times(|t| t.retention_ms = Some(604_800_000))),
        ];
        if WEBHOOKS {
            cases.push(("--push on", "a2a.push", "true", Board::default()));
        }
        cases
    }

    #[test]
    fn webhooks_can_be_turned_on_only_in_a_build_that_has_them() {
        let on = argued("--push on");
        if WEBHOOKS {
            assert_eq!(on, Ok(Board::default()));
            for (value, push) in [("false", false), ("\"on\"", true)] {
                assert_eq!(written("a2a.push", value).map(|board| board.a2a.push), Ok(push), "{value}");
            }
        } else {
            assert_eq!(on, Err("--push must be off, not on".into()));
            assert!(!Board::default().a2a.push);
        }
    }

    #[test]
    fn every_value_does_the_same_as_a_flag_and_as_a_setting() {
        let cases = cases();
        for (flags, key, value, board) in &cases {
            assert_eq!(argued(flags).as_ref(), Ok(board), "{flags}");
            assert_eq!(written(key, value).as_ref(), Ok(board), "{key}: {value}");
        }
        for switch in SWITCHES {
            let of_it = |(flags, ..): &&(&str, _, _, _)| flags.split(' ').next() == Some(switch.flag);
            let tried = cases.iter().filter(of_it).count();
            let words = match switch.takes {
                Takes::OneOf(words) => words.len(),
                Takes::OnOrOff | Takes::Time | Takes::Uris | Takes::Hosts => 2,
                Takes::Nothing | Takes::File => 1,
            };
            assert_eq!(tried, words, "every word of {} is tried", switch.flag);
        }
    }

    #[test]
    fn the_last_word_counts() {
        assert_eq!(
            argued("--streaming off --card-default v1 --card-default hybrid --streaming on"),
            Ok(Board::default())
        );
    }

    #[test]
    fn wrong_values_are_told_what_is_possible() {
        for (line, error) in [
            ("--streaming yes", "--streaming must be on or off, not yes"),
            (
                "--push-allow-host ci.internal:80",
                "--push-allow-host must be the name or address of a host, without a port, not ci.internal:80",
            ),
            ("--card-default v2", "--card-default must be hybrid or v1, not v2"),
            ("--default-profile-03 tui", "--default-profile-03 must be coder, plain or devtool, not tui"),
            ("--blocking-timeout 5", "--blocking-timeout must be a time such as 500ms, 30s or 24h, or never, not 5"),
            ("--required-extension a,b", "--required-extension must be a URI without spaces, not a,b"),
        ] {
            assert_eq!(argued(line), Err(error.to_owned()));
        }
        for (key, value, wants) in [
            ("a2a.streaming", "\"maybe\"", "true or false"),
            ("a2a.strictVersion", "1", "true or false"),
            ("a2a.newTasks", "true", "own or session"),
            ("a2a.extendedCard", "{}", "a file's name"),
            ("a2a.requiredExtensions", "[1]", "a list of URIs"),
            ("a2a.requiredExtensions", "[\"\"]", "a list of URIs"),
            ("a2a.blockingTimeout", "30", "a time such as 500ms, 30s or 24h, or never"),
        ] {
            assert_eq!(written(key, value), Err(wants.to_owned()), "{key}: {value}");
        }
    }
}
