//! The audit: one line of JSON for each thing that somebody did or that the agent did for them, in a chain of hashes.
//!
//! ```json
//! {"n":41,"at":1767225600123,"prev":"<64 hex>","kind":"answered","who":{"subject":"dev","via":"own"},
//!  "task":"t-1","seq":88,"what":{"call":"c-1","tool":"run_shell_command","args":{"command":"make"},
//!  "args_sha256":"…","choice":"proceed_once"},"hash":"<64 hex>"}
//! ```
//!
//! `hash` is the SHA-256 of the bytes before `,"hash"`, `prev` the hash of the line before. So a line cannot be changed, left out or
//! moved without changing every later one, and the last hash is in the journals of the tasks ([`Audited`]). This file writes lines;
//! `entries` makes entries from the events of a task, and `chain` checks a chain. `shell/journal` has the files.
//!
//! [`Audited`]: crate::task::log::event::Event::Audited

pub mod chain;
pub mod entries;

use crate::base::id::{Seq, Subject, TaskId};
use crate::base::json;
use crate::base::text::words::words;
use crate::task::log::blob::sha256;
use crate::task::message::Source;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// The bytes before the hash in a line.
const HASH: &[u8] = b",\"hash\":\"";
/// The `prev` of the first line.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

words! {
    /// What an entry is about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Kind {
        /// A server started to write the chain; a server ended.
        Began = "began",
        Ended = "ended",
        /// The credentials changed; a ticket was issued; somebody logged in or out.
        Credentials = "credentials",
        Ticket = "ticket",
        Login = "login",
        Logout = "logout",
        /// Requests were refused, counted per address and minute.
        Denied = "denied",
        /// A process that a tool started wanted to do more than read.
        ChildRefused = "child_refused",
        Created = "created",
        Prompted = "prompted",
        /// A call waits for an answer; it was answered; it starts; it ended.
        Asked = "asked",
        Answered = "answered",
        Ran = "ran",
        Result = "result",
        Canceled = "canceled",
        HookSet = "hook_set",
        HookDropped = "hook_dropped",
        /// A rule was saved for later sessions.
        Saved = "saved",
        Exported = "exported",
        Deleted = "deleted",
        /// A task in a shared store was claimed by an instance, was lost to another one, or was released.
        Claimed = "claimed",
        Fenced = "fenced",
        Released = "released",
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// Who did something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The subject that the token of a proxy names in addition to the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Where the request came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The dialect of the request; `agent` if the agent acted, `server` if the server acted by itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub via: String,
}

impl Who {
    /// The agent, which acts for the owner of its task.
    pub fn agent() -> Who {
        Who { via: "agent".into(), ..Who::default() }
    }

    pub fn server() -> Who {
        Who { via: "server".into(), ..Who::default() }
    }

    /// Whoever sent a request through another instance.
    pub fn of(by: &Source) -> Who {
        let credential = by.credential.as_deref().map(str::to_owned);
        let subject = by.subject.as_ref().map_or_else(|| Subject::default().to_string(), Subject::to_string);
        Who { credential, subject: Some(subject), via: by.via.clone(), ..Who::default() }
    }
}

/// What was done: members in the order in which they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct What(pub Vec<(&'static str, Value)>);

impl What {
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> What {
        self.0.push((name, value.into()));
        self
    }

    /// Adds a member if there is a value.
    pub fn optional(self, name: &'static str, value: Option<impl Into<Value>>) -> What {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

impl Serialize for What {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// An entry that was not added to a chain yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub kind: Kind,
    pub who: Who,
    /// The id of the request that caused it.
    pub request: Option<String>,
    pub task: Option<TaskId>,
    /// The event of the task that it records.
    pub seq: Option<Seq>,
    pub what: What,
}

impl Entry {
    /// An entry about no task.
    pub fn new(kind: Kind, who: Who, what: What) -> Entry {
        Entry { kind, who, request: None, task: None, seq: None, what }
    }
}

/// The last line of a chain: its number and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// 0 before the first line.
    pub n: u64,
    pub hash: String,
}

impl Default for Head {
    fn default() -> Head {
        Head { n: 0, hash: NO_HASH.to_owned() }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    n: u64,
    at: u64,
    prev: &'a str,
    kind: Kind,
    who: &'a Who,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<Seq>,
    what: &'a What,
}

impl Head {
    /// Adds an entry: appends its line to `out`, line break included, and becomes the head after this line.
    pub fn add(&mut self, entry: &Entry, at: u64, out: &mut Vec<u8>) {
        let Entry { kind, who, request, task, seq, what } = entry;
        let line = Line {
            n: self.n + 1,
            at,
            prev: &self.hash,
            kind: *kind,
            who,
            request: request.as_deref(),
            task: task.as_ref(),
            seq: *seq,
            what,
        };
        let start = out.len();
        json::write(out, &line);
        // The hash goes before the brace that ends the line.
        out.pop();
        let hash = sha256(&out[start..]);
        out.extend_from_slice(HASH);
        out.extend_from_slice(hash.as_bytes());
        out.extend_from_slice(b"\"}\n");
        *self = Head { n: self.n + 1, hash };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_has_exactly_these_bytes() {
        let who = Who { credential: Some("laptop".into()), subject: Some("dev".into()), ..Who::default() };
        let what =
            What::default().with("call", "c-1").with("args", json!({"b": 1, "a": [true]})).optional("no", None::<u64>);
        let entry = Entry {
            kind: Kind::Answered,
            who: Who { peer: Some("10.0.0.7".into()), via: "own".into(), ..who },
            request: Some("7f3a".into()),
            task: Some("t-1".into()),
            seq: Some(Seq(88)),
            what,
        };
        let (mut head, mut line) = (Head::default(), Vec::new());
        head.add(&entry, 1_767_225_600_123, &mut line);
        let hashed = format!(
            "{{\"n\":1,\"at\":1767225600123,\"prev\":\"{NO_HASH}\",\"kind\":\"answered\",\"who\":{{\"credential\":\"laptop\",\
             \"subject\":\"dev\",\"peer\":\"10.0.0.7\",\"via\":\"own\"}},\"request\":\"7f3a\",\"task\":\"t-1\",\"seq\":88,\
             \"what\":{{\"call\":\"c-1\",\"args\":{{\"a\":[true],\"b\":1}}}}"
        );
        let hash = sha256(hashed.as_bytes());
        assert_eq!(String::from_utf8(line).unwrap(), format!("{hashed},\"hash\":\"{hash}\"}}\n"));
        assert_eq!(head, Head { n: 1, hash: hash.clone() });
        let mut next = Vec::new();
        head.add(&Entry::new(Kind::Ended, Who::server(), What::default()), 2, &mut next);
        let next = String::from_utf8(next).unwrap();
        assert!(next.starts_with(&format!("{{\"n\":2,\"at\":2,\"prev\":\"{hash}\",\"kind\":\"ended\",")), "{next}");
    }

    #[test]
    fn kinds_have_words() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_word(kind.word()), Some(kind));
        }
    }
}
