//! The credentials file: who may use the server with which secret. A file with any mistake is refused as a whole, because a misspelt right
//! must not be lost silently.

use super::token::Hash;
use super::{Principal, Right, Rights};
use crate::base::clock::read_rfc3339;
use crate::base::id::{Subject, Tenant};
use crate::base::json;
use crate::limits::access::{CREDENTIAL_ID_CHARS, CREDENTIALS, NOTE_CHARS, SUBJECT_CHARS};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// The version of the file's format.
const VERSION: u32 = 1;

/// The content of a credentials file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialsFile {
    pub v: u32,
    pub credentials: Vec<Credential>,
}

/// One secret of a subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    pub id: Arc<str>,
    pub subject: Subject,
    pub rights: Vec<RightWord>,
    pub sha256: Hash,
    /// The secret before the last rotation, which is still accepted for some time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Former>,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
    /// The workspaces that it may use are below these directories; empty: all that the server allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
    /// The only tenant that it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A secret that was replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Former {
    pub sha256: Hash,
    pub until: Time,
}

/// The rate limits of a credential. For an absent one, the limit of the server applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_minute: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts_per_minute: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
}

/// A right as it is written in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RightWord(pub Right);

impl Serialize for RightWord {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.word())
    }
}

impl<'de> Deserialize<'de> for RightWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RightWord, D::Error> {
        let word = String::deserialize(deserializer)?;
        let right = Right::from_word(&word);
        right.map(RightWord).ok_or_else(|| D::Error::custom(format!("there is no right \"{word}\": {}", all_rights())))
    }
}

/// The words of all rights, for messages.
pub fn all_rights() -> String {
    let words: Vec<&str> = Right::ALL.into_iter().map(Right::word).collect();
    words.join(", ")
}

/// A time as it is written in the file, and its value in Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Time {
    pub text: String,
    pub unix_ms: u64,
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = String::deserialize(deserializer)?;
        match read_rfc3339(&text) {
            Some(unix_ms) => Ok(Time { text, unix_ms }),
            None => Err(D::Error::custom(format!("\"{text}\" is no time such as 2027-01-01T00:00:00Z"))),
        }
    }
}

impl Default for CredentialsFile {
    fn default() -> CredentialsFile {
        CredentialsFile { v: VERSION, credentials: Vec::new() }
    }
}

impl CredentialsFile {
    /// Reads and checks the content of a file. The error says what is wrong where.
    pub fn read(bytes: &[u8]) -> Result<CredentialsFile, String> {
        let file: CredentialsFile = json::read(bytes).map_err(|error| error.to_string())?;
        if file.v != VERSION {
            return Err(format!("its version \"v\" is {}, and this program knows {VERSION}", file.v));
        }
        if file.credentials.len() > CREDENTIALS {
            return Err(format!("it has more than {CREDENTIALS} credentials"));
        }
        let mut ids = HashSet::new();
        for credential in &file.credentials {
            credential.check().map_err(|why| format!("credential \"{}\": {why}", credential.id))?;
            if !ids.insert(&credential.id) {
                return Err(format!("two credentials have the id \"{}\"", credential.id));
            }
        }
        Ok(file)
    }

    /// The content of the file, indented, because people read it too.
    pub fn write(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("credentials are JSON");
        text.push(b'\n');
        text
    }
}

impl Credential {
    /// Checks the values of an entry. The error says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        check_id(&self.id)?;
        check_subject(&self.subject)?;
        if self.rights.is_empty() {
            return Err(format!("it has no rights, so it could do nothing; give it some of {}", all_rights()));
        }
        if self.subject.is_operator() && !self.rights().has(Right::Admin) {
            return Err("the subject operator is for credentials with the right admin; choose another name".into());
        }
        if let Some(root) = self.roots.iter().find(|root| !root.starts_with('/')) {
            return Err(format!("the root \"{root}\" is no absolute path"));
        }
        if self.note.chars().count() > NOTE_CHARS {
            return Err(format!("its note is longer than {NOTE_CHARS} characters"));
        }
        Ok(())
    }

    pub fn rights(&self) -> Rights {
        self.rights.iter().map(|word| word.0).collect()
    }

    pub fn principal(&self) -> Principal {
        Principal {
            subject: self.subject.clone(),
            credential: Some(self.id.clone()),
            identity: None,
            rights: self.rights(),
            roots: self.roots.clone().into(),
            tenant: self.tenant.clone().filter(|tenant| !tenant.is_default()),
            task: None,
            until: self.not_after.as_ref().map(|time| time.unix_ms),
        }
    }
}

/// Checks an id. It must not contain `_`, which ends the id in a token.
pub fn check_id(id: &str) -> Result<(), String> {
    let is_valid = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-');
    match !id.is_empty() && id.len() <= CREDENTIAL_ID_CHARS && id.chars().all(is_valid) {
        true => Ok(()),
        false => Err(format!("an id has 1 to {CREDENTIAL_ID_CHARS} of the characters a-z, 0-9 and -")),
    }
}

pub fn check_subject(subject: &Subject) -> Result<(), String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '@' | '.' | '_' | '-');
    let text = subject.as_str();
    match !text.is_empty() && text.len() <= SUBJECT_CHARS && text.chars().all(is_valid) {
        true => Ok(()),
        false => Err(format!("a subject has 1 to {SUBJECT_CHARS} of the characters A-Z, a-z, 0-9, @, ., _ and -")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(entries: Value) -> Result<CredentialsFile, String> {
        CredentialsFile::read(json!({ "v": 1, "credentials": entries }).to_string().as_bytes())
    }

    fn entry(change: impl FnOnce(&mut Value)) -> Value {
        let mut entry = json!({
            "id": "laptop", "subject": "dev", "rights": ["view", "prompt"], "sha256": "0".repeat(64),
        });
        change(&mut entry);
        entry
    }

    #[test]
    fn a_whole_entry_is_read_and_written_back() {
        let whole = entry(|entry| {
            entry["was"] = json!({ "sha256": "1".repeat(64), "until": "2027-01-01T00:00:00Z" });
            entry["not_after"] = json!("2027-06-01T00:00:00Z");
            entry["roots"] = json!(["/srv/dev"]);
            entry["tenant"] = json!("acme");
            entry["rate"] = json!({ "calls_per_minute": 600, "turns": 8 });
            entry["note"] = json!("of Ann");
        });
        let file = read(json!([whole])).expect("it is valid");
        let written: Value = serde_json::from_slice(&file.write()).expect("it is JSON");
        assert_eq!(written["credentials"][0], whole);
        let principal = file.credentials[0].principal();
        assert_eq!((principal.subject.as_str(), principal.credential.as_deref()), ("dev", Some("laptop")));
        assert!(principal.rights.has(Right::Prompt) && !principal.rights.has(Right::Approve));
        assert_eq!(principal.tenant, Some("acme".into()));
        assert_eq!(file.credentials[0].was.as_ref().map(|was| was.until.unix_ms), Some(1_798_761_600_000));
    }

    #[test]
    fn an_empty_tenant_is_none() {
        let file = read(json!([entry(|entry| entry["tenant"] = json!(""))])).expect("it is valid");
        assert_eq!(file.credentials[0].principal().tenant, None);
    }

    #[test]
    fn every_mistake_is_named() {
        type Change = fn(&mut Value);
        let wrong: [(&str, Change, &str); 13] = [
            ("id", |e| e["id"] = json!("Laptop"), "an id has 1 to 32"),
            ("no id", |e| e["id"] = json!(""), "an id has 1 to 32"),
            ("long id", |e| e["id"] = json!("a".repeat(33)), "an id has 1 to 32"),
            ("_", |e| e["id"] = json!("a_b"), "an id has 1 to 32"),
            ("subject", |e| e["subject"] = json!("a b"), "a subject has 1 to 128"),
            ("long subject", |e| e["subject"] = json!("s".repeat(129)), "a subject has 1 to 128"),
            ("operator", |e| e["subject"] = json!("operator"), "with the right admin"),
            ("right", |e| e["rights"] = json!(["view", "write"]), "no right \"write\": view, prompt"),
            ("no right", |e| e["rights"] = json!([]), "it has no rights"),
            ("hash", |e| e["sha256"] = json!("xyz"), "64 lower-case hexadecimal digits"),
            ("time", |e| e["not_after"] = json!("tomorrow"), "no time such as 2027"),
            ("root", |e| e["roots"] = json!(["src"]), "no absolute path"),
            ("unknown", |e| e["right"] = json!("admin"), "unknown field `right`"),
        ];
        for (name, change, words) in wrong {
            let error = read(json!([entry(change)])).expect_err(name);
            assert!(error.contains(words), "{name}: {error}");
        }
        let twice = read(json!([entry(|_| {}), entry(|_| {})])).expect_err("two of one id");
        assert!(twice.contains("two credentials have the id \"laptop\""), "{twice}");
        assert!(
            CredentialsFile::read(br#"{"v":2,"credentials":[]}"#).expect_err("v").contains("its version \"v\" is 2")
        );
        assert!(CredentialsFile::read(b"").is_err());
    }

    #[test]
    fn as_many_credentials_as_the_limit_says() {
        let many = |count: usize| {
            let entries = (0..count).map(|n| entry(|entry| entry["id"] = json!(format!("c{n}"))));
            read(entries.collect::<Vec<_>>().into())
        };
        assert!(many(CREDENTIALS).is_ok());
        assert!(many(CREDENTIALS + 1).expect_err("one more").contains("more than"));
    }
}
