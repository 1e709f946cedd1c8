//! Replays recorded exchanges. Requests are compared by meaning, because clients differ in boundaries, field lists and the order of the query.
//! Equal requests get the recorded responses in order, and then the last one again.

use crate::server::{After, Reply, Request, start};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// The meaning of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    pub method: String,
    pub path: String,
    pub query: BTreeSet<(String, String)>,
    /// The header fields that affect the result.
    pub fields: BTreeMap<String, String>,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Bytes(Vec<u8>),
    /// An upload with two parts.
    Upload {
        name: String,
        metadata: Value,
        media: Vec<u8>,
    },
}

impl Meaning {
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn of(method: &str, target: &str, fields: &[(String, String)], body: &[u8]) -> Meaning {
        const IGNORED: [&str; 4] = ["fields", "prettyPrint", "maxResults", "max-keys"];
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pair = |piece: &str| {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            (decoded(name), decoded(value))
        };
        let query = query.split('&').filter(|piece| !piece.is_empty()).map(pair);
        // The client does not send custom metadata as header fields to S3, so it is ignored.
        let counts = |name: &str| ["range", "if-match", "if-none-match"].contains(&name);
        let lower = fields.iter().map(|(name, value)| (name.to_lowercase(), value.clone()));
        let boundary = fields.iter().find_map(|(name, value)| {
            let is_type = name.eq_ignore_ascii_case("content-type");
            value.strip_prefix("multipart/related; boundary=").filter(|_| is_type)
        });
        Meaning {
            method: method.into(),
            path: decoded(path),
            // An empty prefix is none.
            query: query
                .filter(|(name, value)| !(IGNORED.contains(&name.as_str()) || name == "prefix" && value.is_empty()))
                .collect(),
            fields: lower.filter(|(name, _)| counts(name)).collect(),
            body: boundary.map_or_else(|| Body::Bytes(body.to_vec()), |boundary| upload(body, boundary)),
        }
    }
}

fn upload(body: &[u8], boundary: &str) -> Body {
    let part = |from: &[u8]| find(from, b"\r\n\r\n").map(|at| at + 4).expect("a part has a head");
    let end = |from: &[u8]| find(from, format!("\r\n--{boundary}").as_bytes()).expect("a part has an end");
    let first = &body[part(body)..];
    let about: Value = serde_json::from_slice(&first[..end(first)]).expect("the first part is JSON");
    let rest = &first[end(first) + 2..];
    let second = &rest[part(rest)..];
    assert!(second[end(second)..].ends_with(format!("--{boundary}--\r\n").as_bytes()), "the last part is closed");
    let name = about["name"].as_str().expect("a name").to_owned();
    Body::Upload { name, metadata: about["metadata"].clone(), media: second[..end(second)].to_vec() }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match (first, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).expect("names are UTF-8")
}

/// A line of a recording.
#[derive(Clone)]
pub struct Exchange {
    pub name: String,
    pub request: Meaning,
    pub line: Value,
}

impl Exchange {
    pub fn status(&self) -> Option<u16> {
        self.line["response"]["status"].as_u64().map(|status| status as u16)
    }

    pub fn is_incomplete(&self) -> bool {
        self.line["response"]["incomplete"] == true
    }

    pub fn body(&self) -> Vec<u8> {
        bytes_of(&self.line["response"])
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.line["response"]["headers"].as_object()?;
        fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?.1.as_str()
    }

    fn reply(&self) -> Reply {
        let response = &self.line["response"];
        let after = match self.line["connection"]["after"].as_str() {
            Some("kept open") => After::KeepOpen,
            Some("closed by server") => After::Close,
            Some("reset by server") => After::Reset,
            other => panic!("{}: {other:?}", self.name),
        };
        if let Some(raw) = response["raw_base64"].as_str() {
            return Reply { bytes: STANDARD.decode(raw).expect("base64"), after };
        }
        let status = response["status"].as_u64().expect("a status");
        let mut head = format!("HTTP/1.1 {status} {}\r\n", response["reason"].as_str().unwrap_or_default());
        for (name, value) in response["headers"].as_object().expect("fields") {
            head += &format!("{name}: {}\r\n", value.as_str().expect("a text"));
        }
        let mut bytes = (head + "\r\n").into_bytes();
        let body = self.body();
        match response["framing"].as_str() {
            Some("chunked") if !body.is_empty() => {
                bytes.extend(format!("{:x}\r\n", body.len()).bytes().chain(body).chain(*b"\r\n0\r\n\r\n"));
            }
            Some("chunked") => bytes.extend(b"0\r\n\r\n"),
            _ => bytes.extend(body),
        }
        Reply { bytes, after }
    }
}

fn bytes_of(message: &Value) -> Vec<u8> {
    match (message["body"].as_str(), message["body_base64"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(base64)) => STANDARD.decode(base64).expect("base64"),
        (None, None) => Vec::new(),
    }
}

/// The exchanges of a recording.
pub fn recorded(text: &str) -> Vec<Exchange> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    lines
        .map(|line| {
            let request = &line["request"];
            let fields = request["headers"].as_object().expect("fields").iter();
            let fields: Vec<_> =
                fields.map(|(name, value)| (name.clone(), value.as_str().unwrap_or("").into())).collect();
            let text = |name: &str| request[name].as_str().expect("a text");
            let meaning = Meaning::of(text("method"), text("path"), &fields, &bytes_of(request));
            Exchange { name: line["name"].as_str().expect("a name").to_owned(), request: meaning, line }
        })
        .collect()
}

/// The exchanges with these names, in the order of the recording.
pub fn named(all: &[Exchange], names: &[&str]) -> Vec<Exchange> {
    let chosen: Vec<Exchange> = all.iter().filter(|line| names.contains(&line.name.as_str())).cloned().collect();
    assert_eq!(chosen.len(), names.len(), "every name is recorded: {names:?}");
    chosen
}

/// Starts a server that replays these exchanges, and gives its address.
pub fn replay(exchanges: Vec<Exchange>) -> String {
    let exchanges = Mutex::new(exchanges.into_iter().map(|exchange| (exchange, false)).collect::<Vec<_>>());
    start(move |request: &Request| {
        let (head, mut exchanges) = (&request.head, exchanges.lock().expect("no test panics with it"));
        let meaning = Meaning::of(head.method(), head.target(), &head.fields, &request.body);
        let mut fitting: Vec<_> = exchanges.iter_mut().filter(|(known, _)| known.request == meaning).collect();
        let first = fitting.iter().position(|(_, is_used)| !is_used).or_else(|| fitting.len().checked_sub(1));
        match first {
            Some(at) => {
                fitting[at].1 = true;
                fitting[at].0.reply()
            }
            None => Reply::new(418, &[], &format!("nothing like this is recorded: {meaning:?}")),
        }
    })
}
