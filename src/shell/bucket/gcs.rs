//! Google Cloud Storage by its JSON API.
//!
//! A version is a generation. `meta` is custom metadata, which lists contain.

use crate::base::clock::read_rfc3339;
use crate::base::crc::crc32c;
use crate::base::json;
use crate::base::percent;
use crate::base::secret::Secret;
use crate::bucket::{
    Answer, Bucket, BucketError, BucketErrorKind, Dated, Deletion, Entry, Expect, List, Meta, Object, Page, Put,
    Version,
};
use crate::limits::bucket::{ANSWER_BYTES, OBJECT_BYTES, PAGE_BYTES, PAGE_NAMES};
use crate::shell::bucket::google::Tokens;
use crate::shell::bucket::http::{self, Outgoing, Received, explanation, in_context, unknown};
use crate::shell::bucket::operation::{Operation, status_error};
use crate::shell::bucket::pages;
use crate::shell::event_loop::sys::random;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use ureq::Agent;

pub const BASE_URL: &str = "https://storage.googleapis.com";
/// The content type of all objects. Segments are lines of JSON; nothing depends on the type of the others.
const CONTENT_TYPE: &str = "application/x-ndjson";
const LIST_FIELDS: &str = "items(name,generation,metadata,timeCreated),prefixes,nextPageToken";

pub struct Gcs {
    bucket: String,
    base: String,
    agent: Agent,
    /// `None` for an emulator, which needs no tokens.
    tokens: Option<Tokens>,
}

impl Gcs {
    /// A bucket at the service itself, or at an emulator whose URL is `base`.
    pub fn new(bucket: &str, base: &str, agent: Agent, tokens: Option<Tokens>) -> Gcs {
        Gcs { bucket: bucket.to_owned(), base: base.trim_end_matches('/').to_owned(), agent, tokens }
    }

    fn object_url(&self, name: &str, query: &str) -> String {
        let (bucket, name) = (percent::encoded(&self.bucket), percent::encoded(name));
        format!("{}/storage/v1/b/{bucket}/o/{name}{query}", self.base)
    }

    /// Sends the request, and sends it again with a new token if the first token is refused. A response is an error unless its status is a
    /// success or one of `expected`.
    fn request(
        &self,
        operation: Operation,
        name: &str,
        outgoing: &Outgoing<'_>,
        expected: &[u16],
    ) -> Result<Received, BucketError> {
        let what = format!("gs://{}, {} {name}", self.bucket, operation.verb());
        let attempt = || -> Result<(Received, Option<Secret>), BucketError> {
            let token = self.tokens.as_ref().map(|tokens| tokens.token(outgoing.deadline)).transpose()?;
            let bearer = token.as_ref().map(|token| format!("Bearer {}", token.reveal()));
            let mut headers = outgoing.headers.to_vec();
            headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
            let answer = http::send(&self.agent, &Outgoing { headers: &headers, ..*outgoing })?;
            Ok((answer, token))
        };
        let (mut answer, mut token) = attempt().map_err(in_context(&what))?;
        if answer.status == 401
            && let (Some(tokens), Some(refused)) = (&self.tokens, &token)
        {
            tokens.refused(refused);
            (answer, token) = attempt().map_err(in_context(&what))?;
        }
        if answer.is_success() || expected.contains(&answer.status) {
            return Ok(answer);
        }
        let mut error = self.status_error(operation, &answer);
        // The service does not repeat a token in an error, but a proxy might.
        error.message = token.map_or(error.message.clone(), |token| token.hide_in(&error.message));
        Err(in_context(&what)(error))
    }

    /// The error for the status of a response.
    fn status_error(&self, operation: Operation, answer: &Received) -> BucketError {
        let details = error_details(&answer.body);
        // Exceeded quotas have the status 403 too, but are temporary.
        match answer.status {
            403 if details.contains("ateLimitExceeded") => unknown(format!("too many requests (403). {details}")),
            status => status_error(status, permission(operation), &details),
        }
    }

    /// Whether a 404 means that the bucket does not exist.
    fn is_without_bucket(&self, answer: &Received) -> bool {
        let text = String::from_utf8_lossy(&answer.body);
        text.contains("specified bucket does not exist")
            || text.contains(&format!("Bucket {} does not exist", self.bucket))
    }

    /// Reads one page of a list. Returns it with the token of the next page.
    fn page(
        &self,
        list: &List,
        token: Option<&str>,
        deadline: Instant,
    ) -> Result<(Dated<Page>, Option<String>), BucketError> {
        let most = PAGE_NAMES.to_string();
        let mut query = vec![("prefix", list.prefix.as_str()), ("maxResults", &most), ("fields", LIST_FIELDS)];
        query.extend(list.folders.then_some(("delimiter", "/")));
        query.extend(list.after.as_deref().map(|after| ("startOffset", after)));
        query.extend(token.map(|token| ("pageToken", token)));
        let url = format!("{}/storage/v1/b/{}/o?{}", self.base, percent::encoded(&self.bucket), percent::pairs(&query));
        let outgoing = Outgoing { method: "GET", url: &url, headers: &[], body: None, max_bytes: PAGE_BYTES, deadline };
        let answer = self.request(Operation::List, &list.prefix, &outgoing, &[])?;
        let listed: Listed =
            serde_json::from_slice(&answer.body).map_err(|error| unknown(format!("the list is not valid: {error}")))?;
        let dated = answer.dated(())?;
        let page = Page {
            entries: listed.items.into_iter().map(|item| item.entry(dated.unix_ms)).collect(),
            folders: listed.prefixes,
            next: None,
        };
        Ok((Dated { value: page, unix_ms: dated.unix_ms }, listed.next_page_token.filter(|token| !token.is_empty())))
    }
}

impl Bucket for Gcs {
    fn get(&self, name: &str) -> Answer<Option<Object>> {
        let url = self.object_url(name, "?alt=media");
        let outgoing = Outgoing {
            method: "GET",
            url: &url,
            headers: &[],
            body: None,
            max_bytes: OBJECT_BYTES,
            deadline: http::deadline(),
        };
        let answer = self.request(Operation::Get, name, &outgoing, &[404])?;
        if answer.status == 404 {
            return match self.is_without_bucket(&answer) {
                true => Err(in_context(&format!("gs://{}", self.bucket))(self.status_error(Operation::Get, &answer))),
                false => answer.dated(None),
            };
        }
        let damaged = |why: &str| {
            BucketError::new(BucketErrorKind::Damaged, format!("gs://{}, reading {name}: {why}", self.bucket))
        };
        let generation = answer.header("x-goog-generation").ok_or_else(|| damaged("the answer has no generation"))?;
        let version = Version(generation.to_owned());
        if header_checksum(&answer).ok_or_else(|| damaged("the answer has no checksum"))? != checksum(&answer.body) {
            return Err(damaged("the received bytes do not match the checksum of the store"));
        }
        let dated = answer.dated(())?;
        let object = Object { bytes: answer.body.into(), version };
        Ok(Dated { value: Some(object), unix_ms: dated.unix_ms })
    }

    fn put(&self, name: &str, bytes: &Arc<[u8]>, meta: &Meta, expect: &Expect) -> Answer<Put> {
        let what = format!("gs://{}, writing {name}", self.bucket);
        if bytes.len() > OBJECT_BYTES {
            return Err(BucketError::new(
                BucketErrorKind::Damaged,
                format!("{what}: it has more than {OBJECT_BYTES} bytes"),
            ));
        }
        let mut query = vec![("uploadType", "multipart"), ("fields", "generation,crc32c")];
        match expect {
            Expect::Any => {}
            Expect::Absent => query.push(("ifGenerationMatch", "0")),
            Expect::Version(Version(generation)) => query.push(("ifGenerationMatch", generation)),
        }
        let bucket = percent::encoded(&self.bucket);
        let url = format!("{}/upload/storage/v1/b/{bucket}/o?{}", self.base, percent::pairs(&query));
        let crc = checksum(bytes);
        let (content_type, body) = multipart(name, bytes, meta, &crc);
        let headers = [("Content-Type", content_type.as_str())];
        let (body, deadline) = (Some(body.as_slice()), http::deadline());
        let outgoing =
            Outgoing { method: "POST", url: &url, headers: &headers, body, max_bytes: ANSWER_BYTES, deadline };
        let answer = self.request(Operation::Put, name, &outgoing, &[412])?;
        if answer.status == 412 {
            let details = error_details(&answer.body);
            // An emulator answers a wrong checksum with this status too. Without a precondition, the status can only mean that.
            return match *expect == Expect::Any || details.contains("crc32c") {
                true => Err(BucketError::new(BucketErrorKind::Damaged, format!("{what}: refused (412). {details}"))),
                false => answer.dated(Put::PreconditionFailed),
            };
        }
        let made: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let Some(generation) = made["generation"].as_str() else {
            return Err(unknown(format!("{what}: the response has no generation")));
        };
        match made["crc32c"].as_str() {
            Some(theirs) if theirs != crc => {
                Err(BucketError::new(BucketErrorKind::Damaged, format!("{what}: the store has received other bytes")))
            }
            Some(_) | None => answer.dated(Put::Written(Version(generation.to_owned()))),
        }
    }

    fn delete(&self, name: &str, version: Option<&Version>) -> Answer<Deletion> {
        let query = version.map(|Version(generation)| percent::pairs(&[("ifGenerationMatch", generation)]));
        let url = self.object_url(name, &query.map(|query| format!("?{query}")).unwrap_or_default());
        let deadline = http::deadline();
        let outgoing =
            Outgoing { method: "DELETE", url: &url, headers: &[], body: None, max_bytes: ANSWER_BYTES, deadline };
        let expected: &[u16] = if version.is_some() { &[404, 412] } else { &[404] };
        let answer = self.request(Operation::Delete, name, &outgoing, expected)?;
        match answer.status {
            404 if self.is_without_bucket(&answer) => {
                Err(in_context(&format!("gs://{}", self.bucket))(self.status_error(Operation::Delete, &answer)))
            }
            412 => answer.dated(Deletion::PreconditionFailed),
            _ => answer.dated(Deletion::Deleted),
        }
    }

    fn list(&self, list: &List) -> Answer<Page> {
        let deadline = http::deadline();
        pages::read(list, |token| self.page(list, token, deadline))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    #[serde(default)]
    items: Vec<Item>,
    #[serde(default)]
    prefixes: Vec<String>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    name: String,
    generation: String,
    #[serde(default)]
    metadata: Meta,
    time_created: Option<String>,
}

impl Item {
    /// An object without a valid creation time counts as new, so that it is not removed for its age by mistake.
    fn entry(self, now: u64) -> Entry {
        let created = self.time_created.as_deref().and_then(read_rfc3339);
        Entry {
            name: self.name,
            version: Version(self.generation),
            meta: self.metadata,
            created_unix_ms: created.unwrap_or(now),
        }
    }
}

fn permission(operation: Operation) -> &'static str {
    match operation {
        Operation::Get => "storage.objects.get",
        Operation::Put => "storage.objects.create, and storage.objects.delete to replace objects",
        Operation::Delete => "storage.objects.delete",
        Operation::List => "storage.objects.list",
    }
}

/// The checksum as the service writes it.
fn checksum(bytes: &[u8]) -> String {
    STANDARD.encode(crc32c(bytes).to_be_bytes())
}

/// The CRC32C in the response headers. It may share a header field with another checksum.
fn header_checksum(answer: &Received) -> Option<&str> {
    answer
        .headers("x-goog-hash")
        .flat_map(|value| value.split(','))
        .find_map(|hash| hash.trim().strip_prefix("crc32c="))
}

/// An upload of metadata and bytes in one body, and its content type.
fn multipart(name: &str, bytes: &[u8], meta: &Meta, crc: &str) -> (String, Vec<u8>) {
    let mut about = json!({ "name": name, "contentType": CONTENT_TYPE, "cacheControl": "no-store", "crc32c": crc });
    if !meta.is_empty() {
        about["metadata"] = json!(meta);
    }
    // It is random and not known in advance, so no object contains it.
    let boundary: String = random::<16>().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut body = format!("--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n").into_bytes();
    json::write(&mut body, &about);
    body.extend_from_slice(format!("\r\n--{boundary}\r\nContent-Type: {CONTENT_TYPE}\r\n\r\n").as_bytes());
    body.extend_from_slice(bytes);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    (format!("multipart/related; boundary={boundary}"), body)
}

/// The explanation in an error response: its message and its first reason.
fn error_details(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &value["error"];
    match error["message"].as_str() {
        Some(message) => {
            let reason = error["errors"][0]["reason"].as_str().map(|reason| format!(" ({reason})"));
            explanation(&format!("{message}{}", reason.unwrap_or_default()))
        }
        None => explanation(&String::from_utf8_lossy(body)),
    }
}
