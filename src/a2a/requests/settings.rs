//! Reads the settings of a new task and the profile of the answers that a client requests.

use crate::a2a::requests::object::{Object, flag, member, text, texts};
use crate::a2a::requests::version;
use crate::a2a::words::{CODER, EXT, PLAIN};
use crate::base::http::{Headers, Request};
use crate::base::secret::Secret;
use crate::limits::agents::AGENT_DEPTH;
use crate::task::call::Settings;
use crate::task::definitions::agent::DEPTH_HEADER;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Profile;
use crate::task::message::Message;
use serde_json::Value;

const TOOLS: &[&str] = &["allowed_tools", "allowedTools"];
const SERVERS: &[&str] = &["mcp_servers", "mcpServers"];
const API_KEY: &str = "apiKey";

/// The settings in the metadata of a message, and in those of its request; the message takes precedence. The API key and the MCP servers
/// are removed from the message, because the message is stored and they are or may contain secrets.
pub fn of_message(message: &mut Message, params: Option<&Object>) -> Result<Settings, Fault> {
    let mut settings = Settings::default();
    for metadata in [message.metadata.as_ref(), params].into_iter().flatten() {
        for key in [EXT, CODER] {
            if let Some(Value::Object(wishes)) = metadata.get(key) {
                settings = merged(settings, read(wishes, key)?);
            }
        }
    }
    for key in [EXT, CODER] {
        if let Some(Value::Object(wishes)) = message.metadata.as_mut().and_then(|metadata| metadata.get_mut(key)) {
            wishes.retain(|name, _| !SERVERS.contains(&name.as_str()) && name != API_KEY);
        }
    }
    Ok(settings)
}

/// Merges two sets of settings; the first takes precedence.
pub fn merged(one: Settings, other: Settings) -> Settings {
    Settings {
        workspace: one.workspace.or(other.workspace),
        directories: if one.directories.is_empty() { other.directories } else { one.directories },
        model: one.model.or(other.model),
        auto_execute: one.auto_execute.or(other.auto_execute),
        tools: one.tools.or(other.tools),
        servers: one.servers.or(other.servers),
        api_key: one.api_key.or(other.api_key),
        depth: one.depth.max(other.depth),
    }
}

/// Reads an object with settings. A request for trust is ignored. A request to run tools without approval and an API key are passed on;
/// the operator's settings decide about them.
pub fn read(wishes: &Object, at: &str) -> Result<Settings, Fault> {
    let workspace = &["workspace_path", "workspacePath", "workspaceRoot"];
    Ok(Settings {
        workspace: text(wishes, workspace, at)?.map(str::to_owned),
        directories: Vec::new(),
        model: text(wishes, &["model"], at)?.map(str::to_owned),
        auto_execute: flag(wishes, &["autoExecute", "auto_execute"], at)?,
        tools: match member(wishes, TOOLS) {
            Some(_) => Some(texts(wishes, TOOLS, at)?),
            None => None,
        },
        servers: member(wishes, SERVERS).map(|(_, servers)| Secret::new(servers.to_string())),
        api_key: text(wishes, &[API_KEY], at)?.map(Secret::new),
        depth: 0,
    })
}

/// The number of agents that a request has passed through. At the limit it is refused, so that agents that call each other in a circle
/// stop.
pub fn depth(headers: &Headers) -> Result<u8, Fault> {
    let Some(given) = headers.get(DEPTH_HEADER) else { return Ok(0) };
    let depth = given.trim().parse().map_err(|_| Fault::field(DEPTH_HEADER, "must be a small number."))?;
    match depth > AGENT_DEPTH {
        true => Err(Fault::new(
            FaultKind::Unsupported,
            format!("The request has come through {depth} agents; {AGENT_DEPTH} are allowed. Ask for less delegation."),
        )),
        false => Ok(depth),
    }
}

/// The profile that a request names: in the query, otherwise by listing the extension in a header.
pub fn profile_of(request: &Request) -> Result<Option<Profile>, Fault> {
    if let Some(word) = request.query("profile") {
        return match Profile::from_word(word) {
            Some(profile) => Ok(Some(profile)),
            None => Err(Fault::field("profile", "must be coder, devtool or plain, in the query.")),
        };
    }
    let activated = version::extensions(&request.headers).any(|uri| uri == EXT);
    Ok(activated.then_some(Profile::Devtool))
}

/// Whether a plain client asks for answers in pieces as they come, in the query or in a header.
pub fn pieces(request: &Request) -> Result<Option<bool>, Fault> {
    match request.query("pieces") {
        Some("1") => Ok(Some(true)),
        Some("0") => Ok(Some(false)),
        Some(_) => Err(Fault::field("pieces", "must be 1 or 0, in the query.")),
        None => Ok(version::extensions(&request.headers).any(|uri| uri == PLAIN).then_some(true)),
    }
}

/// The profile that a message selects by its extensions or its metadata.
pub fn profile_in_message(message: &Message, params: Option<&Object>) -> Option<Profile> {
    let carries = |key| {
        let metadata = [message.metadata.as_ref(), params];
        metadata.into_iter().flatten().any(|metadata| metadata.contains_key(key))
    };
    if message.extensions.iter().any(|uri| uri == EXT) || carries(EXT) {
        Some(Profile::Devtool)
    } else if carries(CODER) {
        Some(Profile::Coder)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use serde_json::json;

    fn message(metadata: Value) -> Message {
        let mut message = sample::prompt("m-1", "hi");
        message.metadata = metadata.as_object().cloned();
        message
    }

    #[test]
    fn every_name_of_the_workspace_in_every_place() {
        let expected = Settings {
            directories: Vec::new(),
            workspace: Some("/w".into()),
            model: Some("gemini-x".into()),
            auto_execute: Some(true),
            tools: Some(vec!["glob".into()]),
            servers: Some(Secret::new("{\"x\":{}}")),
            api_key: None,
            depth: 0,
        };
        for spelling in ["workspace_path", "workspacePath", "workspaceRoot"] {
            for key in [EXT, CODER] {
                let metadata = json!({key: {"kind": "agent-settings", spelling: "/w", "model": "gemini-x",
                    "autoExecute": true, "isTrusted": true, "allowedTools": ["glob"], "mcpServers": {"x": {}}}});
                let mut given = message(metadata.clone());
                assert_eq!(of_message(&mut given, None).unwrap(), expected, "{spelling} {key}");
                assert!(!format!("{given:?}").contains("mcpServers"), "they are not stored with the message");
                let in_params = of_message(&mut message(json!(null)), metadata.as_object());
                assert_eq!(in_params.unwrap(), expected, "{spelling} {key}");
            }
        }
    }

    #[test]
    fn settings_of_the_message_override_those_of_the_request() {
        let params = json!({CODER: {"workspacePath": "/params", "model": "m", "autoExecute": true}});
        let mut message = message(json!({CODER: {"workspacePath": "/message", "auto_execute": false,
            "allowed_tools": []}}));
        assert_eq!(
            of_message(&mut message, params.as_object()).unwrap(),
            Settings {
                directories: Vec::new(),
                workspace: Some("/message".into()),
                model: Some("m".into()),
                auto_execute: Some(false),
                tools: Some(Vec::new()),
                servers: None,
                api_key: None,
                depth: 0,
            }
        );
    }

    #[test]
    fn a_key_is_read_and_removed_from_the_message() {
        for key in [EXT, CODER] {
            let mut message = message(json!({ key: { "apiKey": "planted", "model": "m" } }));
            let settings = of_message(&mut message, None).expect("settings");
            assert_eq!(settings.api_key, Some(Secret::new("planted")));
            assert!(!format!("{settings:?}").contains("planted"));
            assert_eq!(message.metadata, json!({ key: { "model": "m" } }).as_object().cloned());
        }
    }

    #[test]
    fn wrong_types_are_refused() {
        for wishes in [
            json!({"workspacePath": 1}),
            json!({"apiKey": 7}),
            json!({"autoExecute": "yes"}),
            json!({"allowedTools": "glob"}),
        ] {
            let metadata = json!({ CODER: wishes });
            assert!(of_message(&mut message(metadata), None).is_err(), "{wishes}");
        }
    }

    #[test]
    fn profiles_asked_for_by_request() {
        let mut request = sample::post("/", "");
        assert_eq!(profile_of(&request), Ok(None));
        request.headers.push("X-A2A-Extensions", "urn:other");
        assert_eq!(profile_of(&request), Ok(None));
        request.headers.push("X-A2A-Extensions", &format!("urn:more, {EXT}"));
        assert_eq!(profile_of(&request), Ok(Some(Profile::Devtool)));
        let by_name = |word: &str| {
            let query = vec![("profile".into(), word.into())];
            profile_of(&Request { query, ..request.clone() })
        };
        assert_eq!(by_name("plain"), Ok(Some(Profile::Plain)));
        assert!(by_name("fancy").is_err());
    }

    #[test]
    fn profiles_selected_by_a_message() {
        let selected = |metadata| profile_in_message(&message(metadata), None);
        assert_eq!(selected(json!(null)), None);
        assert_eq!(selected(json!({CODER: {}})), Some(Profile::Coder));
        assert_eq!(selected(json!({CODER: {}, EXT: {}})), Some(Profile::Devtool));
        let params = json!({CODER: {}});
        assert_eq!(profile_in_message(&message(json!(null)), params.as_object()), Some(Profile::Coder));
        let mut listed = message(json!(null));
        listed.extensions.push(EXT.into());
        assert_eq!(profile_in_message(&listed, None), Some(Profile::Devtool));
    }

    #[test]
    fn pieces_are_asked_for_by_query_or_header() {
        let mut request = sample::post("/", "");
        assert_eq!(pieces(&request), Ok(None));
        for header in ["A2A-Extensions", "X-A2A-Extensions"] {
            let mut request = request.clone();
            request.headers.push(header, &format!("{EXT}, {PLAIN}"));
            assert_eq!(pieces(&request), Ok(Some(true)), "{header}");
        }
        for (word, expected) in [("1", Ok(Some(true))), ("0", Ok(Some(false)))] {
            request.query = vec![("pieces".into(), word.into())];
            assert_eq!(pieces(&request), expected);
        }
        request.query[0].1 = "some".into();
        assert!(pieces(&request).is_err());
    }
}
