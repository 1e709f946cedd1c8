//! What a client may request: settings of a new task, and the profile of the answers.

use crate::a2a::requests::object::{Object, flag, member, text, texts};
use crate::a2a::requests::version;
use crate::a2a::words::{CODER, EXT, PLAIN};
use crate::base::http::Request;
use crate::task::call::Settings;
use crate::task::fault::Fault;
use crate::task::log::event::Profile;
use crate::task::message::Message;
use serde_json::Value;

const TOOLS: &[&str] = &["allowed_tools", "allowedTools"];

/// The settings in a message's metadata, then those in its request's; the first value of each wins.
pub fn of_message(message: &Message, params: Option<&Object>) -> Result<Settings, Fault> {
    let mut settings = Settings::default();
    for metadata in [message.metadata.as_ref(), params].into_iter().flatten() {
        for key in [EXT, CODER] {
            if let Some(Value::Object(wishes)) = metadata.get(key) {
                settings = first(settings, read(wishes, key)?);
            }
        }
    }
    Ok(settings)
}

/// The first value of each setting.
pub fn first(one: Settings, other: Settings) -> Settings {
    Settings {
        workspace: one.workspace.or(other.workspace),
        model: one.model.or(other.model),
        auto_execute: one.auto_execute.or(other.auto_execute),
        tools: one.tools.or(other.tools),
    }
}

/// One object of settings. A request for trust is ignored; a request to run tools without approval is passed on, and granted or not
/// by the operator; an API key is refused, so that no client believes it is in use.
pub fn read(wishes: &Object, at: &str) -> Result<Settings, Fault> {
    if text(wishes, &["apiKey"], at)?.is_some() {
        return Err(Fault::params(
            "This server takes no API keys from clients; leave apiKey out and use the server's own.",
        ));
    }
    let workspace = &["workspace_path", "workspacePath", "workspaceRoot"];
    Ok(Settings {
        workspace: text(wishes, workspace, at)?.map(str::to_owned),
        model: text(wishes, &["model"], at)?.map(str::to_owned),
        auto_execute: flag(wishes, &["autoExecute", "auto_execute"], at)?,
        tools: match member(wishes, TOOLS) {
            Some(_) => Some(texts(wishes, TOOLS, at)?),
            None => None,
        },
    })
}

/// The profile a request as such asks for: by name in the query, else by activating the extension in a header.
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

/// The profile that the content of a message selects, apart from the names that its answers have.
pub fn profile_spoken(message: &Message, params: Option<&Object>) -> Option<Profile> {
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
    fn every_spelling_of_the_workspace_in_every_place() {
        let expected = Settings {
            workspace: Some("/w".into()),
            model: Some("gemini-x".into()),
            auto_execute: Some(true),
            tools: Some(vec!["glob".into()]),
        };
        for spelling in ["workspace_path", "workspacePath", "workspaceRoot"] {
            for key in [EXT, CODER] {
                let metadata = json!({key: {"kind": "agent-settings", spelling: "/w", "model": "gemini-x",
                    "autoExecute": true, "isTrusted": true, "allowedTools": ["glob"]}});
                let in_message = of_message(&message(metadata.clone()), None);
                assert_eq!(in_message.unwrap(), expected, "{spelling} {key}");
                let in_params = of_message(&message(json!(null)), metadata.as_object());
                assert_eq!(in_params.unwrap(), expected, "{spelling} {key}");
            }
        }
    }

    #[test]
    fn the_message_comes_before_the_request() {
        let params = json!({CODER: {"workspacePath": "/params", "model": "m", "autoExecute": true}});
        let message = message(json!({CODER: {"workspacePath": "/message", "auto_execute": false,
            "allowed_tools": []}}));
        assert_eq!(
            of_message(&message, params.as_object()).unwrap(),
            Settings {
                workspace: Some("/message".into()),
                model: Some("m".into()),
                auto_execute: Some(false),
                tools: Some(Vec::new()),
            }
        );
    }

    #[test]
    fn wrong_types_and_keys_are_refused() {
        for wishes in [
            json!({"workspacePath": 1}),
            json!({"apiKey": "secret"}),
            json!({"autoExecute": "yes"}),
            json!({"allowedTools": "glob"}),
        ] {
            let metadata = json!({ CODER: wishes });
            assert!(of_message(&message(metadata), None).is_err(), "{wishes}");
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
        let spoken = |metadata| profile_spoken(&message(metadata), None);
        assert_eq!(spoken(json!(null)), None);
        assert_eq!(spoken(json!({CODER: {}})), Some(Profile::Coder));
        assert_eq!(spoken(json!({CODER: {}, EXT: {}})), Some(Profile::Devtool));
        let params = json!({CODER: {}});
        assert_eq!(profile_spoken(&message(json!(null)), params.as_object()), Some(Profile::Coder));
        let mut listed = message(json!(null));
        listed.extensions.push(EXT.into());
        assert_eq!(profile_spoken(&listed, None), Some(Profile::Devtool));
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
