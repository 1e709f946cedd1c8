//! The JSON API of Google Cloud Storage over a [`MemoryBucket`]. Requests that the service would not accept, and parameters that the client
//! under test does not need, are answered with 400, so that a mistake in the client fails a test.

use crate::support::http::Head;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gemini_a2a::base::clock::{http_date, rfc3339};
use gemini_a2a::base::crc::crc32c;
use gemini_a2a::bucket::memory::{MemoryBucket, Request, Response};
use gemini_a2a::bucket::{Deletion, Entry, Expect, List, Meta, Object, Put, Version};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

/// The name of the bucket that clients use.
pub const BUCKET: &str = "tasks-of-tests";

/// The default maximum of entries per page of a list. It is small, so that tests have lists of several pages.
const PAGE_ENTRIES: usize = 100;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Get,
    Put,
    Delete,
    List,
    Compose,
}

/// Whether the store compares generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preconditions {
    Honoured,
    /// Every precondition counts as met, as in one emulator.
    Ignored,
}

/// The bucket and its rules.
pub struct Api {
    pub bucket: MemoryBucket,
    pub preconditions: Preconditions,
    /// The maximum of entries per page of a list, even if the client asks for more.
    pub page_entries: usize,
}

/// A request with its parts decoded.
struct Call<'a> {
    query: BTreeMap<String, String>,
    head: &'a Head,
    body: &'a [u8],
}

/// A response before it is bytes.
struct Reply {
    status: u16,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

type Handled = Result<Reply, Reply>;

impl Api {
    pub fn new(preconditions: Preconditions) -> Api {
        Api { bucket: MemoryBucket::new(), preconditions, page_entries: PAGE_ENTRIES }
    }

    /// Executes a request. Returns its operation and the bytes of the response.
    pub fn respond(&self, head: &Head, body: &[u8]) -> (Option<Operation>, Vec<u8>) {
        let now = unix_ms();
        self.bucket.set_time(now);
        let (path, query) = head.target().split_once('?').unwrap_or((head.target(), ""));
        let operation = operation(head.method(), path);
        let reply = match (operation, pairs(query)) {
            (Some((operation, name)), Some(query)) => self.handle(operation, &name, &Call { query, head, body }),
            _ => Err(error(400, "invalid", &format!("not a request of this API: {}", head.start))),
        };
        let reply = reply.unwrap_or_else(|refusal| refusal);
        (operation_of(head), reply.bytes(now))
    }

    fn handle(&self, operation: Operation, name: &str, call: &Call<'_>) -> Handled {
        match operation {
            Operation::Get => self.get(name, call),
            Operation::Put => self.put(call),
            Operation::Delete => self.delete(name, call),
            Operation::List => self.list(call),
            Operation::Compose => self.compose(name, call),
        }
    }

    fn get(&self, name: &str, call: &Call<'_>) -> Handled {
        call.allow(&["alt"])?;
        call.expect("alt", "media")?;
        let object = self.object(name)?;
        let fields = vec![
            ("Content-Type", "application/x-ndjson".to_owned()),
            ("x-goog-generation", object.version.0.clone()),
            ("x-goog-hash", format!("crc32c={},md5=AAAAAAAAAAAAAAAAAAAAAA==", checksum(&object.bytes))),
        ];
        Ok(Reply { status: 200, fields, body: object.bytes.to_vec() })
    }

    fn put(&self, call: &Call<'_>) -> Handled {
        call.allow(&["uploadType", "ifGenerationMatch", "fields"])?;
        call.expect("uploadType", "multipart")?;
        call.expect("fields", "generation,crc32c")?;
        let content_type = call.head.field("content-type").unwrap_or_default();
        let (about, bytes) = multipart(content_type, call.body).ok_or_else(|| bad("the body is not two parts"))?;
        let about: Value = serde_json::from_slice(about).map_err(|_| bad("the first part is not JSON"))?;
        let name = about["name"].as_str().filter(|name| !name.is_empty()).ok_or_else(|| bad("there is no name"))?;
        if about["cacheControl"] != "no-store" || about["contentType"] != "application/x-ndjson" {
            return Err(bad("contentType or cacheControl is missing"));
        }
        let crc = checksum(bytes);
        if about["crc32c"] != crc.as_str() {
            return Err(bad(&format!("the crc32c of the bytes is {crc}, not {}", about["crc32c"])));
        }
        let meta: Meta = match &about["metadata"] {
            Value::Null => Meta::new(),
            given => serde_json::from_value(given.clone()).map_err(|_| bad("metadata values are strings"))?,
        };
        let version = self.write(name, bytes.into(), meta, call)?;
        Ok(Reply::json(&json!({ "generation": version.0, "crc32c": crc })))
    }

    fn delete(&self, name: &str, call: &Call<'_>) -> Handled {
        call.allow(&["ifGenerationMatch"])?;
        self.object(name)?;
        let version = match call.generation()? {
            None => None,
            Some(0) => return Err(bad("a precondition that no object meets")),
            Some(generation) => Some(Version(generation.to_string())),
        };
        let version = version.filter(|_| self.preconditions == Preconditions::Honoured);
        match self.bucket.execute(&Request::Delete { name: name.to_owned(), version }) {
            Response::Delete(Deletion::Deleted) => Ok(Reply { status: 204, fields: vec![], body: vec![] }),
            _ => Err(precondition()),
        }
    }

    fn list(&self, call: &Call<'_>) -> Handled {
        call.allow(&["prefix", "delimiter", "startOffset", "maxResults", "pageToken", "fields"])?;
        let value = |name: &str| call.query.get(name).map(String::as_str);
        let prefix = value("prefix").unwrap_or_default();
        let has_folders = match value("delimiter") {
            None => false,
            Some("/") => true,
            Some(_) => return Err(bad("another delimiter than /")),
        };
        let most: usize = value("maxResults").and_then(|most| most.parse().ok()).ok_or_else(|| bad("maxResults"))?;
        let fields = value("fields").ok_or_else(|| bad("fields"))?;
        let token = value("pageToken").map(|token| STANDARD.decode(token).ok().and_then(|b| String::from_utf8(b).ok()));
        let behind = match token {
            None => None,
            Some(None) => return Err(bad("pageToken")),
            Some(Some(behind)) => Some(behind),
        };
        let list = List { prefix: prefix.to_owned(), ..List::default() };
        let Response::List(all) = self.bucket.execute(&Request::List(list)) else { return Err(bad("list")) };
        let mut items = BTreeMap::new();
        for entry in all.entries.into_iter().filter(|entry| value("startOffset").is_none_or(|at| *entry.name >= *at)) {
            let folder = entry.name[prefix.len()..].find('/').filter(|_| has_folders);
            match folder.map(|at| entry.name[..prefix.len() + at + 1].to_owned()) {
                Some(folder) => items.insert(folder, None),
                None => items.insert(entry.name.clone(), Some(entry)),
            };
        }
        items.retain(|name, _| behind.as_ref().is_none_or(|behind| name > behind));
        Ok(page(items, most.min(self.page_entries), fields))
    }

    fn compose(&self, name: &str, call: &Call<'_>) -> Handled {
        call.allow(&["ifGenerationMatch", "fields"])?;
        let asked: Value = serde_json::from_slice(call.body).map_err(|_| bad("the body is not JSON"))?;
        let sources = asked["sourceObjects"].as_array().filter(|sources| (1..=32).contains(&sources.len()));
        let mut bytes = Vec::new();
        for source in sources.ok_or_else(|| bad("1 to 32 source objects are needed"))? {
            let source = source["name"].as_str().ok_or_else(|| bad("a source without a name"))?;
            bytes.extend_from_slice(&self.object(source)?.bytes);
        }
        let size = bytes.len().to_string();
        let crc = checksum(&bytes);
        let version = self.write(name, bytes.into(), Meta::new(), call)?;
        Ok(Reply::json(&json!({ "name": name, "generation": version.0, "size": size, "crc32c": crc })))
    }

    fn object(&self, name: &str) -> Result<Object, Reply> {
        match self.bucket.execute(&Request::Get { name: name.to_owned() }) {
            Response::Get(Some(object)) => Ok(object),
            _ => Err(error(404, "notFound", &format!("No such object: {BUCKET}/{name}"))),
        }
    }

    fn write(&self, name: &str, bytes: Arc<[u8]>, meta: Meta, call: &Call<'_>) -> Result<Version, Reply> {
        let expect = match (call.generation()?, self.preconditions) {
            (None, _) | (_, Preconditions::Ignored) => Expect::Any,
            (Some(0), Preconditions::Honoured) => Expect::Absent,
            (Some(generation), Preconditions::Honoured) => Expect::Version(Version(generation.to_string())),
        };
        match self.bucket.execute(&Request::Put { name: name.to_owned(), bytes, meta, expect }) {
            Response::Put(Put::Written(version)) => Ok(version),
            _ => Err(precondition()),
        }
    }
}

impl Call<'_> {
    fn allow(&self, names: &[&str]) -> Result<(), Reply> {
        match self.query.keys().find(|name| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(bad(&format!("unknown parameter {name}"))),
        }
    }

    fn expect(&self, name: &str, value: &str) -> Result<(), Reply> {
        match self.query.get(name).is_some_and(|given| given == value) {
            true => Ok(()),
            false => Err(bad(&format!("{name} must be {value}"))),
        }
    }

    fn generation(&self) -> Result<Option<u64>, Reply> {
        let given = self.query.get("ifGenerationMatch");
        given.map(|text| text.parse().map_err(|_| bad("ifGenerationMatch is not a number"))).transpose()
    }
}

impl Reply {
    fn json(body: &Value) -> Reply {
        let fields = vec![("Content-Type", "application/json; charset=UTF-8".to_owned())];
        Reply { status: 200, fields, body: body.to_string().into_bytes() }
    }

    fn bytes(self, now: u64) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} X\r\nDate: {}\r\n", self.status, http_date(now));
        for (name, value) in &self.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.status != 204 {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        [head.into_bytes(), self.body].concat()
    }
}

/// The operation of a request, even if the request is refused.
pub fn operation_of(head: &Head) -> Option<Operation> {
    let path = head.target().split('?').next().unwrap_or_default();
    operation(head.method(), path).map(|(operation, _)| operation)
}

/// The operation of a path, and the name of its object if the path has one. Another bucket has no operations.
fn operation(method: &str, path: &str) -> Option<(Operation, String)> {
    if path == format!("/upload/storage/v1/b/{BUCKET}/o") && method == "POST" {
        return Some((Operation::Put, String::new()));
    }
    let rest = path.strip_prefix(&format!("/storage/v1/b/{BUCKET}/o"))?;
    if rest.is_empty() {
        return (method == "GET").then(|| (Operation::List, String::new()));
    }
    let rest = rest.strip_prefix('/')?;
    let (name, operation) = match (method, rest.strip_suffix("/compose")) {
        ("POST", Some(name)) => (name, Operation::Compose),
        ("GET", None) => (rest, Operation::Get),
        ("DELETE", None) => (rest, Operation::Delete),
        _ => return None,
    };
    // A slash of a name is encoded.
    let name = Some(name).filter(|name| !name.contains('/')).and_then(decoded)?;
    Some((operation, name)).filter(|(_, name)| !name.is_empty())
}

/// A page of a list, with only the members that `fields` names.
fn page(items: BTreeMap<String, Option<Entry>>, most: usize, fields: &str) -> Reply {
    let has = |name: &str| fields.split([',', '(', ')']).any(|word| word == name);
    let token =
        items.keys().nth(most.saturating_sub(1)).filter(|_| items.len() > most).map(|name| STANDARD.encode(name));
    let (mut objects, mut folders) = (vec![], vec![]);
    for (name, entry) in items.into_iter().take(most) {
        let Some(entry) = entry else {
            folders.push(json!(name));
            continue;
        };
        let mut item = json!({
            "name": name, "generation": entry.version.0, "timeCreated": rfc3339(entry.created_unix_ms),
        });
        if !entry.meta.is_empty() {
            item["metadata"] = json!(entry.meta);
        }
        let members = item.as_object_mut().expect("it is an object");
        members.retain(|member, _| has(member));
        objects.push(item);
    }
    let mut body = json!({});
    for (name, value) in [("items", objects), ("prefixes", folders)] {
        if has(name) && !value.is_empty() {
            body[name] = json!(value);
        }
    }
    if let Some(token) = token.filter(|_| has("nextPageToken")) {
        body["nextPageToken"] = json!(token);
    }
    Reply::json(&body)
}

fn error(status: u16, reason: &str, message: &str) -> Reply {
    let errors = json!([{ "message": message, "domain": "global", "reason": reason }]);
    let body = json!({ "error": { "code": status, "message": message, "errors": errors } });
    Reply { status, ..Reply::json(&body) }
}

fn bad(message: &str) -> Reply {
    error(400, "invalid", message)
}

fn precondition() -> Reply {
    error(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
}

/// The two parts of a `multipart/related` body.
fn multipart<'a>(content_type: &str, body: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let boundary = content_type.strip_prefix("multipart/related; boundary=")?;
    let delimiter = format!("\r\n--{boundary}");
    let body = body.strip_prefix(&delimiter.as_bytes()[2..])?.strip_prefix(b"\r\n")?;
    let end = find(body, delimiter.as_bytes())?;
    let (first, rest) = (&body[..end], &body[end + delimiter.len()..]);
    let rest = rest.strip_prefix(b"\r\n")?.strip_suffix(format!("{delimiter}--\r\n").as_bytes())?;
    let content = |part: &'a [u8]| find(part, b"\r\n\r\n").map(|at| &part[at + 4..]);
    Some((content(first)?, content(rest)?))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn checksum(bytes: &[u8]) -> String {
    STANDARD.encode(crc32c(bytes).to_be_bytes())
}

fn pairs(query: &str) -> Option<BTreeMap<String, String>> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((decoded(name)?, decoded(value)?))
    };
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("the clock is past 1970").as_millis() as u64
}
