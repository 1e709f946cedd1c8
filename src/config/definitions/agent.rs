//! Reads the files of agents: front matter that is an agent, or a list of agents. Only remote agents are used, which are reached over
//! A2A; others are listed with the reason why they are not.
//!
//! Front matter is strict: an unknown key is an error. A message never contains a value: it may be a secret.

use crate::config::definitions::skill::divide;
use crate::config::formats::tree::{Node, Value};
use crate::config::formats::yaml;
use crate::limits::agents::AGENT_NAME_CHARS;

/// An agent as a file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFile {
    pub name: String,
    pub display_name: Option<String>,
    pub description: String,
    pub card: Result<CardSource, Unsupported>,
    pub auth: Auth,
}

/// Where the card of an agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CardSource {
    Url(String),
    Json(String),
}

/// A message that says why an agent cannot be used.
pub type Unsupported = String;

/// How requests are authorised. The texts are as they are written: see [`SecretSource`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    #[default]
    None,
    /// This header has this value.
    Key {
        name: String,
        key: String,
    },
    Bearer(String),
    Basic {
        user: String,
        password: String,
    },
    /// The word of a scheme and its value.
    Other {
        scheme: String,
        value: String,
    },
}

/// Where a secret comes from, by the way it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource<'a> {
    Variable(&'a str),
    Command(&'a str),
    Literal(&'a str),
}

impl SecretSource<'_> {
    /// `$NAME`, `!command`, or the text itself; `$$` and `!!` begin a text with one of these characters.
    pub fn of(text: &str) -> SecretSource<'_> {
        match text.as_bytes() {
            [b'$', b'$', ..] | [b'!', b'!', ..] => SecretSource::Literal(&text[1..]),
            [b'$', _, ..] => {
                let name = &text[1..];
                SecretSource::Variable(name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name))
            }
            [b'!', _, ..] => SecretSource::Command(text[1..].trim()),
            _ => SecretSource::Literal(text),
        }
    }
}

const REMOTE_KEYS: &[&str] =
    &["kind", "name", "description", "display_name", "agent_card_url", "agent_card_json", "auth"];

/// The agents of a file; an error says why it is not used.
pub fn parse(text: &str) -> Result<Vec<AgentFile>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let (front, _) = divide(&text).ok_or("it does not begin with a block between lines of dashes")?;
    let (node, notices) = yaml::parse(front);
    let nodes = match &node.value {
        Value::List(nodes) => nodes.as_slice(),
        _ => std::slice::from_ref(&node),
    };
    let is_remote = |node: &Node| kind(node).is_ok_and(|kind| kind == Kind::Remote);
    match notices.first() {
        // Errors in files of local agents do not matter, because these agents are not used.
        Some(notice) if nodes.iter().any(is_remote) => Err(format!("line {}: {}", notice.line + 1, notice.text)),
        Some(_) | None => nodes.iter().map(agent).collect(),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Local,
    Remote,
}

fn kind(node: &Node) -> Result<Kind, String> {
    let has_card = node.at("agent_card_url").or(node.at("agent_card_json")).is_some();
    match node.at("kind").map(|kind| kind.text().unwrap_or_default()) {
        None if has_card => Ok(Kind::Remote),
        Some("remote") => Ok(Kind::Remote),
        None | Some("local") => Ok(Kind::Local),
        Some(_) => Err("kind must be local or remote".into()),
    }
}

fn agent(node: &Node) -> Result<AgentFile, String> {
    let kind = kind(node)?;
    let name = required(node, "name")?;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    if name.is_empty() || name.len() > AGENT_NAME_CHARS || !name.chars().all(is_plain) {
        return Err(format!("name must have 1 to {AGENT_NAME_CHARS} small letters, digits, \"_\" and \"-\""));
    }
    let mut file = AgentFile {
        name,
        display_name: text(node, "display_name")?,
        description: text(node, "description")?.unwrap_or_default(),
        card: Err("local agents are not supported; only remote ones are".into()),
        auth: Auth::None,
    };
    if kind == Kind::Remote {
        only(node, REMOTE_KEYS)?;
        let card = match (text(node, "agent_card_url")?, text(node, "agent_card_json")?) {
            (Some(url), None) => CardSource::Url(url),
            (None, Some(json)) => CardSource::Json(json),
            (None, None) | (Some(_), Some(_)) => return Err("it must have agent_card_url or agent_card_json".into()),
        };
        file.card = Ok(card);
        match node.at("auth").map(auth).transpose()? {
            Some(Ok(auth)) => file.auth = auth,
            Some(Err(why)) => file.card = Err(why),
            None => {}
        }
    }
    Ok(file)
}

/// Reads the member `auth`. The outer error is a mistake in the file; the inner one says that the type is not supported.
fn auth(node: &Node) -> Result<Result<Auth, Unsupported>, String> {
    let found = match required(node, "type")?.as_str() {
        "apiKey" => {
            only(node, &["type", "key", "name"])?;
            let name = text(node, "name")?.unwrap_or_else(|| "X-API-Key".into());
            let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            let is_ours = ["host", "content-length", "content-type", "accept", "a2a-version", "transfer-encoding"];
            if name.is_empty() || !name.chars().all(is_token) || is_ours.contains(&&*name.to_ascii_lowercase()) {
                return Err("auth.name must be the name of a header that requests do not have already".into());
            }
            Auth::Key { name, key: required(node, "key")? }
        }
        "http" => {
            only(node, &["type", "scheme", "token", "username", "password", "value"])?;
            match required(node, "scheme")? {
                scheme if scheme.eq_ignore_ascii_case("bearer") => Auth::Bearer(required(node, "token")?),
                scheme if scheme.eq_ignore_ascii_case("basic") => {
                    Auth::Basic { user: required(node, "username")?, password: required(node, "password")? }
                }
                scheme if scheme.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) => {
                    Auth::Other { scheme, value: required(node, "value")? }
                }
                _ => return Err("auth.scheme must be one word".into()),
            }
        }
        known @ ("google-credentials" | "oauth" | "oauth2") => {
            return Ok(Err(format!("auth of the type {known} is not supported; use apiKey or http")));
        }
        _ => return Err("auth.type must be apiKey or http".into()),
    };
    Ok(Ok(found))
}

fn only(node: &Node, known: &[&str]) -> Result<(), String> {
    let Value::Map(members) = &node.value else { return Err("it must be a map".into()) };
    match members.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        Some((name, _)) => Err(format!("the key {name} is unknown; known are: {}", known.join(", "))),
        None => Ok(()),
    }
}

/// A text; a number or a switch counts as one, because people do not quote keys.
fn text(node: &Node, name: &str) -> Result<Option<String>, String> {
    match node.at(name).map(|node| &node.value) {
        None => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_)) => Err(format!("{name} must be a text")),
    }
}

fn required(node: &Node, name: &str) -> Result<String, String> {
    text(node, name)?.ok_or_else(|| format!("{name} is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(front: &str) -> Result<AgentFile, String> {
        parse(&format!("---\n{front}---\nIgnored.\n")).map(|mut found| {
            assert_eq!(found.len(), 1);
            found.remove(0)
        })
    }

    fn remote(name: &str) -> AgentFile {
        AgentFile {
            name: name.into(),
            display_name: None,
            description: String::new(),
            card: Ok(CardSource::Url("http://h/card".into())),
            auth: Auth::None,
        }
    }

    #[test]
    fn remote_agents_are_read() {
        let whole =
            "kind: remote\nname: a-1\ndisplay_name: A\ndescription: \"Does: a\"\nagent_card_url: http://h/card\n";
        let described = AgentFile { display_name: Some("A".into()), description: "Does: a".into(), ..remote("a-1") };
        assert_eq!(one(whole), Ok(described));
        assert_eq!(one("name: a\nagent_card_url: http://h/card\n"), Ok(remote("a")));
        let inline = one("name: a\nagent_card_json: |\n  {\"url\":\n    \"http://h\"}\n").expect("a block");
        assert_eq!(inline.card, Ok(CardSource::Json("{\"url\":\n  \"http://h\"}".into())));
        let list = "---\n- name: a\n  agent_card_url: http://h/card\n- name: b\n  kind: remote\n  agent_card_url: http://h/card\n---\n";
        assert_eq!(parse(list), Ok(vec![remote("a"), remote("b")]));
    }

    #[test]
    fn mistakes_are_named_without_values() {
        for (front, expected) in [
            ("name: a\nagent_card_url: x\nagent_card_json: y\n", "it must have agent_card_url or agent_card_json"),
            ("name: a\nkind: remote\n", "it must have agent_card_url or agent_card_json"),
            ("name: A b\nagent_card_url: x\n", "name must have 1 to 63 small letters, digits, \"_\" and \"-\""),
            ("agent_card_url: x\n", "name is missing"),
            ("name: a\nkind: other\n", "kind must be local or remote"),
            ("name: a\nagent_card_url: x\ndescription:\n  - s3cret\n", "description must be a text"),
            ("name: a\nagent_card_url: x\nauth: s3cret\n", "type is missing"),
            ("name: a\nagent_card_url: x\nauth:\n  type: s3cret\n", "auth.type must be apiKey or http"),
            ("name: a\nagent_card_url: x\nauth:\n  type: http\n  scheme: Bearer\n", "token is missing"),
            (
                "name: a\nagent_card_url: x\nauth:\n  type: apiKey\n  key: s3cret\n  name: Host\n",
                "auth.name must be the name of a header that requests do not have already",
            ),
            (
                "name: a\nkind: remote\nagent_card_url: [x\n",
                "line 4: a list or map on one line is not supported; write plain maps, lists and values",
            ),
        ] {
            assert_eq!(one(front), Err(expected.into()), "{front}");
        }
        let unknown = one("name: a\nagent_card_url: x\ntools: s3cret\n").expect_err("unknown");
        assert!(unknown.starts_with("the key tools is unknown; known are: kind, name,"), "{unknown}");
        let unknown = one("name: a\nagent_card_url: x\nauth:\n  type: http\n  scopes: 1\n").expect_err("unknown");
        assert!(unknown.starts_with("the key scopes is unknown"), "{unknown}");
        let long = |chars: usize| one(&format!("name: {}\nagent_card_url: x\n", "a".repeat(chars)));
        assert!(long(AGENT_NAME_CHARS).is_ok() && long(AGENT_NAME_CHARS + 1).is_err());
    }

    #[test]
    fn what_cannot_be_used_is_listed_with_the_reason() {
        let local = one("name: a\ndescription: d\ntools: [x, y]\nmax_turns: 3\n").expect("it is listed");
        assert_eq!(local.card, Err("local agents are not supported; only remote ones are".into()));
        let oauth = one("name: a\nagent_card_url: x\nauth:\n  type: oauth\n  client_id: c\n").expect("it is listed");
        assert_eq!(oauth.card, Err("auth of the type oauth is not supported; use apiKey or http".into()));
    }

    #[test]
    fn kinds_of_authorisation_and_of_secrets() {
        let with = |members: &str| {
            let members: String = members.split(", ").map(|line| format!("  {line}\n")).collect();
            one(&format!("name: a\nagent_card_url: x\nauth:\n{members}")).expect(&members).auth
        };
        let key = |name: &str, key: &str| Auth::Key { name: name.into(), key: key.into() };
        assert_eq!(with("type: apiKey, key: $K"), key("X-API-Key", "$K"));
        assert_eq!(with("type: apiKey, key: 12345, name: X-Mine"), key("X-Mine", "12345"));
        assert_eq!(with("type: http, scheme: bearer, token: t"), Auth::Bearer("t".into()));
        let basic = Auth::Basic { user: "u".into(), password: "!pass show".into() };
        assert_eq!(with("type: http, scheme: Basic, username: u, password: \"!pass show\""), basic);
        let other = Auth::Other { scheme: "Digest".into(), value: "v".into() };
        assert_eq!(with("type: http, scheme: Digest, value: v"), other);
        for (text, source) in [
            ("$K", SecretSource::Variable("K")),
            ("${K}", SecretSource::Variable("K")),
            ("!pass show x", SecretSource::Command("pass show x")),
            ("$$x", SecretSource::Literal("$x")),
            ("!!x", SecretSource::Literal("!x")),
            ("x$y", SecretSource::Literal("x$y")),
            ("$", SecretSource::Literal("$")),
            ("", SecretSource::Literal("")),
        ] {
            assert_eq!(SecretSource::of(text), source, "{text}");
        }
    }
}
