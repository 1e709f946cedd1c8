use super::*;
use crate::a2a::{CardDefault, PlainStream, RestStatus, Switches, WEBHOOKS};
use crate::config::definitions::mcp::{ClientMcp, McpSettings};
use crate::config::formats::jsonc;
use crate::config::settings::{Format, SettingScope};
use crate::limits::{Limits, Times};
use crate::task::call::{Disconnect, Durability, NewTasks, RequestPolicy};
use crate::task::log::event::{Lifecycle, Profile};

/// The flags of a command line.
pub fn flags(line: &str) -> Result<Vec<Flag>, String> {
    let mut checked = Settings::default();
    let mut words = line.split_whitespace();
    let mut flags = Vec::new();
    while let Some(name) = words.next() {
        let row = by_flag(name).expect("there is such a flag");
        let value = if row.value().is_empty() { "true" } else { words.next().expect("a value") };
        row.set(&mut checked, name, value)?;
        flags.push((row, value.to_owned()));
    }
    Ok(flags)
}

fn argued(line: &str) -> Result<Settings, String> {
    let mut settings = Settings::default();
    settings.apply_flags(&flags(line)?);
    Ok(settings)
}

fn written(key: &str, value: &str) -> Result<Settings, String> {
    let row = OPTIONS.iter().find(|row| row.keys().any(|known| known == key)).expect("there is such a key");
    let (node, _) = jsonc::parse(value).expect("a value");
    let layer = Layer { scope: SettingScope::User, file: "f".into(), format: Format::Json, text: value.into() };
    let mut settings = Settings::default();
    row.set_from_file(&mut settings, &node, &layer).map(|()| settings).map_err(Cow::into_owned)
}

fn a2a(change: fn(&mut Switches)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings.a2a);
    settings
}

fn limits(change: fn(&mut Limits)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings.limits);
    settings
}

fn times(change: fn(&mut Times)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings.limits.times);
    settings
}

fn request_policy(change: fn(&mut RequestPolicy)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings.request_policy);
    settings
}

/// A flag with its value, the same option as a key and value of a settings file, and the settings that result.
type Case = (&'static str, &'static str, &'static str, Settings);

/// Every option about the A2A protocol and about tasks, with every value that it takes.
fn cases() -> Vec<Case> {
    let mut cases = [protocol_cases(), task_cases(), time_and_space_cases()].concat();
    if WEBHOOKS {
        cases.push(("--push on", "a2a.push", "true", Settings::default()));
    }
    cases
}

fn protocol_cases() -> Vec<Case> {
    vec![
        ("--streaming on", "a2a.streaming", "true", Settings::default()),
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
        ("--card-default hybrid", "a2a.cardDefault", "\"hybrid\"", Settings::default()),
        ("--card-default v1", "a2a.cardDefault", "\"v1\"", a2a(|s| s.card_default = CardDefault::V1)),
        ("--strict-version", "a2a.strictVersion", "true", a2a(|s| s.strict_version = true)),
        ("--rest-status-profile 1.0.1", "a2a.restStatusProfile", "\"1.0.1\"", Settings::default()),
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
            Settings { extended_card: Some("more.json".into()), ..a2a(|s| s.extended_card = true) },
        ),
        ("--emit-persisted-state", "a2a.emitPersistedState", "true", a2a(|s| s.emit_persisted_state = true)),
    ]
}

fn mcp(change: impl FnOnce(&mut McpSettings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings.mcp);
    settings
}

fn task_cases() -> Vec<Case> {
    vec![
        (
            "--coder-abort-on-disconnect",
            "a2a.coderAbortOnDisconnect",
            "true",
            request_policy(|m| m.disconnect = Disconnect::Aborts),
        ),
        ("--durability normal", "a2a.durability", "\"normal\"", Settings::default()),
        ("--durability strict", "a2a.durability", "\"strict\"", request_policy(|m| m.durability = Durability::Strict)),
        ("--default-profile-03 plain", "a2a.defaultProfile03", "\"plain\"", Settings::default()),
        (
            "--default-profile-03 coder",
            "a2a.defaultProfile03",
            "\"coder\"",
            a2a(|s| s.default_profile_03 = Profile::Coder),
        ),
        (
            "--default-profile-03 devtool",
            "a2a.defaultProfile03",
            "\"devtool\"",
            a2a(|s| s.default_profile_03 = Profile::Devtool),
        ),
        ("--plain-stream whole", "a2a.plainStream", "\"whole\"", Settings::default()),
        ("--plain-stream pieces", "a2a.plainStream", "\"pieces\"", a2a(|s| s.plain_stream = PlainStream::Pieces)),
        ("--plain-lifecycle one-shot", "a2a.plainLifecycle", "\"one-shot\"", Settings::default()),
        (
            "--plain-lifecycle conversational",
            "a2a.plainLifecycle",
            "\"conversational\"",
            a2a(|s| s.plain_lifecycle = Lifecycle::Conversational),
        ),
    ]
}

fn time_and_space_cases() -> Vec<Case> {
    vec![
        ("--new-tasks own", "a2a.newTasks", "\"own\"", Settings::default()),
        ("--new-tasks session", "a2a.newTasks", "\"session\"", request_policy(|m| m.new_tasks = NewTasks::Session)),
        ("--blocking-timeout never", "a2a.blockingTimeout", "\"never\"", Settings::default()),
        (
            "--blocking-timeout 500ms",
            "a2a.blockingTimeout",
            "\"500ms\"",
            request_policy(|m| m.blocking_timeout_ms = Some(500)),
        ),
        ("--confirmation-timeout never", "a2a.confirmationTimeout", "\"never\"", Settings::default()),
        ("--confirmation-timeout 2m", "a2a.confirmationTimeout", "\"2m\"", times(|t| t.answer_ms = Some(120_000))),
        ("--turn-timeout never", "a2a.turnTimeout", "\"never\"", Settings::default()),
        ("--turn-timeout 1h", "a2a.turnTimeout", "\"1h\"", times(|t| t.turn_ms = Some(3_600_000))),
        ("--model-timeout 1m", "a2a.modelTimeout", "\"60s\"", Settings::default()),
        ("--retry-for 2m", "a2a.retryFor", "\"120s\"", Settings::default()),
        ("--retry-for never", "a2a.retryFor", "\"never\"", limits(|l| l.model_retry_ms = None)),
        ("--retry-wait 9ms", "a2a.retryWait", "\"9ms\"", limits(|l| (l.backoff_ms, l.stream_retry_ms) = (9, 9))),
        ("--idle-ttl never", "a2a.idleTtl", "\"never\"", Settings::default()),
        ("--idle-ttl 24h", "a2a.idleTtl", "\"24h\"", times(|t| t.idle_ms = Some(86_400_000))),
        ("--retention 30d", "a2a.retention", "\"30d\"", Settings::default()),
        ("--state-max 64MB", "a2a.stateMax", "\"64M\"", limits(|l| l.state_bytes = Some(64 << 20))),
        ("--memory 64M", "a2a.memory", "\"64M\"", {
            let limits = Limits { memory: Some(64 << 20), ..Limits::default() };
            Settings { limits, ..Settings::default() }
        }),
        ("--client-mcp off", "a2a.clientMcp", "\"off\"", Settings::default()),
        ("--client-mcp loopback", "a2a.clientMcp", "\"loopback\"", mcp(|m| m.clients = ClientMcp::Loopback)),
        ("--client-mcp listed", "a2a.clientMcp", "\"listed\"", mcp(|m| m.clients = ClientMcp::Listed)),
        (
            "--client-mcp-host h:8",
            "a2a.clientMcpHosts",
            "[\"h:8\"]",
            mcp(|m| m.client_hosts = vec![("h".into(), Some(8))]),
        ),
        (
            "--client-mcp-host h --client-mcp-host [::1]",
            "a2a.clientMcpHosts",
            "[\"h\", \"[::1]\"]",
            mcp(|m| m.client_hosts = vec![("h".into(), None), ("::1".into(), None)]),
        ),
        ("--retention 7d", "a2a.retention", "\"7d\"", times(|t| t.retention_ms = Some(604_800_000))),
    ]
}

#[test]
fn webhooks_can_be_turned_on_only_in_a_build_that_has_them() {
    let on = argued("--push on");
    if WEBHOOKS {
        assert_eq!(on, Ok(Settings::default()));
        for (value, push) in [("false", false), ("\"on\"", true)] {
            assert_eq!(written("a2a.push", value).map(|settings| settings.a2a.push), Ok(push), "{value}");
        }
    } else {
        assert_eq!(on, Err("--push must be off, not on".into()));
        assert!(!Settings::default().a2a.push);
    }
}

#[test]
fn every_value_does_the_same_as_a_flag_and_as_a_setting() {
    let cases = cases();
    for (flags, key, value, settings) in &cases {
        assert_eq!(argued(flags).as_ref(), Ok(settings), "{flags}");
        assert_eq!(written(key, value).as_ref(), Ok(settings), "{key}: {value}");
    }
    for row in with_flags().filter(|row| row.keys().any(|key| key.starts_with("a2a."))) {
        let of_it = |(flags, ..): &&(&str, _, _, _)| flags.split(' ').next() == Some(row.flag());
        let tried = cases.iter().filter(of_it).count();
        let words = match row.kind {
            Kind::OneOf(words, _) => words.len(),
            Kind::OnOff(_) | Kind::Time(_) | Kind::List(..) => 2,
            _ => 1,
        };
        assert_eq!(tried, words, "every word of {} is tried", row.flag());
    }
}

#[test]
fn the_last_of_repeated_flags_is_used() {
    assert_eq!(
        argued("--streaming off --card-default v1 --card-default hybrid --streaming on"),
        Ok(Settings::default())
    );
}

#[test]
fn errors_name_the_possible_values() {
    for (line, error) in [
        ("--streaming yes", "--streaming must be on or off, not yes"),
        (
            "--push-allow-host ci.internal:80",
            "--push-allow-host must be names or addresses of hosts, without a port, not ci.internal:80",
        ),
        ("--card-default v2", "--card-default must be hybrid or v1, not v2"),
        ("--default-profile-03 tui", "--default-profile-03 must be coder, plain or devtool, not tui"),
        ("--blocking-timeout 5", "--blocking-timeout must be a time such as 500ms, 30s or 24h, or never, not 5"),
        ("--memory 64X", "--memory must be a number of bytes, with K, M or G for powers of 1024, not 64X"),
        ("--required-extension a,b", "--required-extension must be URIs without spaces or commas, not a,b"),
    ] {
        assert_eq!(argued(line), Err(error.to_owned()));
    }
    for (key, value, expected) in [
        ("a2a.streaming", "\"maybe\"", "true or false"),
        ("a2a.strictVersion", "1", "true or false"),
        ("a2a.newTasks", "true", "own or session"),
        ("a2a.extendedCard", "{}", "the name of a file or directory"),
        ("a2a.requiredExtensions", "[1]", "URIs without spaces or commas"),
        ("a2a.requiredExtensions", "[\"\"]", "URIs without spaces or commas"),
        ("a2a.blockingTimeout", "30", "a time such as 500ms, 30s or 24h, or never"),
    ] {
        assert_eq!(written(key, value), Err(expected.to_owned()), "{key}: {value}");
    }
}

#[test]
fn documented_defaults_are_the_defaults() {
    for row in OPTIONS.iter().filter(|row| !row.default.is_empty()) {
        let mut settings = Settings::default();
        match row.kind {
            Kind::OnOff(_) | Kind::OneOf(..) | Kind::Time(_) | Kind::Number(..) | Kind::Share(_) => {
                row.set(&mut settings, row.help, row.default).expect("a default is a valid value");
                assert_eq!(settings, Settings::default(), "{}", row.help);
            }
            _ => {}
        }
    }
}

#[test]
fn every_name_is_in_the_table_once() {
    let names = || OPTIONS.iter().flat_map(|row| row.keys().chain([row.flag(), row.variable()]));
    for name in names().filter(|name| !name.is_empty()) {
        assert_eq!(names().filter(|known| *known == name).count(), 1, "{name}");
        assert!(!UNSUPPORTED.split_whitespace().any(|other| other == name), "{name} is supported");
    }
}

#[test]
fn every_variable_that_may_hold_a_credential_is_marked() {
    let words = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "HEADERS"];
    let sounds_secret = |row: &&Row| words.iter().any(|word| row.variable().contains(word));
    let unmarked: Vec<&str> =
        OPTIONS.iter().filter(sounds_secret).filter(|row| !row.is_credential).map(Row::variable).collect();
    assert_eq!(unmarked, ["GEMINI_API_KEY_AUTH_MECHANISM"], "mark it with credential(), or name it here");
    for name in ["A2A_TOKEN", "A2A_CREDENTIALS_FILE", "GOOGLE_CLOUD_ACCESS_TOKEN_FILE", "GEMINI_CLI_CUSTOM_HEADERS"] {
        assert!(is_credential(name, ""), "{name}");
    }
    for (name, value, expected) in [
        ("GOOGLE_APPLICATION_CREDENTIALS", "/f", true),
        ("GEMINI_A2A_ANYTHING", "x", true),
        ("https_proxy", "http://me:pw@proxy", true),
        ("HTTPS_PROXY", "http://proxy", false),
        ("GOOGLE_CLOUD_PROJECT", "p", false),
        ("PATH", "/bin", false),
    ] {
        assert_eq!(is_credential(name, value), expected, "{name}");
    }
}
