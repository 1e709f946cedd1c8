//! Amazon S3, and other stores with its API.
//!
//! A version is an entity tag. It is derived from the content, so writing the same bytes twice gives the same version.
//!
//! Lists of S3 do not contain custom metadata. Therefore the metadata of an object without bytes is written as a JSON object into its body,
//! and [`Bucket::list`] returns empty metadata. A reader that needs the metadata reads the object and parses its body with
//! [`meta_of_body`](crate::bucket::meta_of_body). An object cannot have both bytes and metadata.

use crate::base::clock::read_rfc3339;
use crate::base::json;
use crate::base::percent;
use crate::bucket::{
    Answer, Bucket, BucketError, BucketErrorKind, Dated, Deletion, Entry, Expect, List, Meta, Object, Page, Put,
    Version,
};
use crate::limits::bucket::{ANSWER_BYTES, OBJECT_BYTES, PAGE_BYTES, PAGE_NAMES};
use crate::shell::bucket::http::{self, Outgoing, Received, explanation, in_context, unknown};
use crate::shell::bucket::operation::{Operation, status_error};
use crate::shell::bucket::pages;
use crate::shell::bucket::sigv4::{self, Keys, Signed};
use crate::shell::bucket::xml::{self, Element};
use crate::shell::event_loop::sys::unix_ms;
use crate::task::log::blob::sha256;
use std::sync::Arc;
use std::time::Instant;
use ureq::Agent;

pub struct S3 {
    bucket: String,
    /// `https://` or `http://`.
    scheme: String,
    /// As in the header field `Host`.
    host: String,
    /// The part of the path before the key: the bucket, unless the host name contains it.
    path: String,
    region: String,
    keys: Keys,
    agent: Agent,
}

/// A request before it is signed.
struct Request<'a> {
    operation: Operation,
    /// An object's name, or the prefix of a list.
    name: &'a str,
    query: String,
    /// The precondition.
    condition: Option<(&'a str, &'a str)>,
    body: &'a [u8],
    max_bytes: usize,
    deadline: Instant,
}

impl S3 {
    /// A bucket at a URL that [`url`] returned.
    pub fn new(bucket: &str, url: &str, region: &str, keys: Keys, agent: Agent) -> S3 {
        let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
        let rest = rest.trim_end_matches('/');
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let default = if scheme == "http" { ":80" } else { ":443" };
        S3 {
            bucket: bucket.to_owned(),
            scheme: format!("{scheme}://"),
            host: host.strip_suffix(default).unwrap_or(host).to_owned(),
            path: path.to_owned(),
            region: region.to_owned(),
            keys,
            agent,
        }
    }

    /// Signs and sends the request. A response is an error unless its status is a success or one of `expected`.
    fn request(&self, request: &Request<'_>, expected: &[u16]) -> Result<Received, BucketError> {
        let operation = request.operation;
        let what = format!("s3://{}, {} {}", self.bucket, operation.verb(), request.name);
        let path = match operation {
            Operation::List if self.path.is_empty() => "/".to_owned(),
            Operation::List => self.path.clone(),
            Operation::Get | Operation::Put | Operation::Delete => {
                format!("{}/{}", self.path, percent::encoded_except(request.name, b"/"))
            }
        };
        let (date, payload) = (sigv4::amz_date(unix_ms()), sha256(request.body));
        let mut headers = vec![("Host", self.host.as_str()), ("x-amz-date", &date), ("x-amz-content-sha256", &payload)];
        headers.extend(request.condition);
        headers.extend(self.keys.session.as_ref().map(|token| ("x-amz-security-token", token.reveal())));
        let (method, query) = (method(operation), request.query.as_str());
        let signed = Signed { method, path: &path, query, headers: &headers, payload: &payload };
        let authorization = sigv4::authorization(&self.keys, &self.region, &date, &signed);
        headers.push(("Authorization", &authorization));
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{}{}{path}{mark}{query}", self.scheme, self.host);
        let body = matches!(operation, Operation::Put).then_some(request.body);
        let outgoing = Outgoing {
            method,
            url: &url,
            headers: &headers,
            body,
            max_bytes: request.max_bytes,
            deadline: request.deadline,
        };
        let answer = http::send(&self.agent, &outgoing).map_err(in_context(&what))?;
        match answer.is_success() || expected.contains(&answer.status) {
            true => Ok(answer),
            false => Err(in_context(&what)(self.without_secrets(self.status_error(operation, &answer)))),
        }
    }

    /// Removes the keys from a message: the store does not repeat them, but a proxy might.
    fn without_secrets(&self, error: BucketError) -> BucketError {
        let secrets = std::iter::once(&self.keys.secret).chain(&self.keys.session);
        let message = secrets.fold(error.message, |message, secret| secret.hide_in(&message));
        BucketError { message, ..error }
    }

    /// The error for the status of a response. The error codes of AWS distinguish cases that have the same status.
    fn status_error(&self, operation: Operation, answer: &Received) -> BucketError {
        let (code, details) = error_details(&answer.body);
        match (answer.status, code.as_str()) {
            (status @ 300..400, _) => {
                let region = answer.header("x-amz-bucket-region").map(explanation);
                let region = region.map(|region| format!(": set AWS_REGION to {region}")).unwrap_or_default();
                let message = format!("the bucket is in another region ({status}){region}. {details}");
                BucketError::new(BucketErrorKind::Unsupported, message)
            }
            (400, "RequestTimeout") => unknown(format!("refused temporarily (400). {details}")),
            (400, "InvalidToken" | "ExpiredToken" | "AuthorizationHeaderMalformed") => BucketError::new(
                BucketErrorKind::Forbidden,
                format!("the credentials are not accepted (400). {details}"),
            ),
            (status, _) => status_error(status, permission(operation), &details),
        }
    }

    /// Handles a 404: `value` if the object does not exist, otherwise the error.
    fn absent<T>(&self, operation: Operation, answer: &Received, value: T) -> Answer<T> {
        match error_details(&answer.body).0.as_str() {
            "NoSuchKey" => answer.dated(value),
            _ => Err(in_context(&format!("s3://{}", self.bucket))(self.status_error(operation, answer))),
        }
    }

    /// Reads one page of a list. Returns it with the token of the next page.
    fn page(
        &self,
        list: &List,
        token: Option<&str>,
        deadline: Instant,
    ) -> Result<(Dated<Page>, Option<String>), BucketError> {
        let most = PAGE_NAMES.to_string();
        let mut query = vec![("list-type", "2"), ("max-keys", &most), ("prefix", list.prefix.as_str())];
        query.extend(list.folders.then_some(("delimiter", "/")));
        query.extend(list.after.as_deref().map(|after| ("start-after", after)));
        query.extend(token.map(|token| ("continuation-token", token)));
        let query = percent::pairs(&query);
        let operation = Operation::List;
        let request = Request {
            operation,
            name: &list.prefix,
            query,
            condition: None,
            body: b"",
            max_bytes: PAGE_BYTES,
            deadline,
        };
        let answer = self.request(&request, &[])?;
        let invalid = || unknown(format!("s3://{}: the list of {} is not valid", self.bucket, list.prefix));
        let text = std::str::from_utf8(&answer.body).map_err(|_| invalid())?;
        let root = xml::parse(text).filter(|root| root.name == "ListBucketResult").ok_or_else(invalid)?;
        let dated = answer.dated(())?;
        let entry = |contents: &Element| {
            let created = contents.text_of("LastModified").and_then(read_rfc3339);
            Some(Entry {
                name: contents.text_of("Key")?.to_owned(),
                version: Version(contents.text_of("ETag")?.to_owned()),
                meta: Meta::new(),
                // As in the client of Google Cloud Storage, an object without a valid time counts as new.
                created_unix_ms: created.unwrap_or(dated.unix_ms),
            })
        };
        let entries = root.all("Contents").map(entry).collect::<Option<Vec<_>>>().ok_or_else(invalid)?;
        let folder = |common: &Element| common.text_of("Prefix").map(str::to_owned);
        let folders = root.all("CommonPrefixes").map(folder).collect::<Option<Vec<_>>>().ok_or_else(invalid)?;
        let next = match root.text_of("IsTruncated") {
            Some("true") => Some(root.text_of("NextContinuationToken").ok_or_else(invalid)?.to_owned()),
            Some(_) | None => None,
        };
        Ok((Dated { value: Page { entries, folders, next: None }, unix_ms: dated.unix_ms }, next))
    }
}

impl Bucket for S3 {
    fn get(&self, name: &str) -> Answer<Option<Object>> {
        let (operation, query, deadline) = (Operation::Get, String::new(), http::deadline());
        let request = Request { operation, name, query, condition: None, body: b"", max_bytes: OBJECT_BYTES, deadline };
        let answer = self.request(&request, &[404])?;
        if answer.status == 404 {
            return self.absent(operation, &answer, None);
        }
        let version = self.version(&answer, name)?;
        let dated = answer.dated(())?;
        Ok(Dated { value: Some(Object { bytes: answer.body.into(), version }), unix_ms: dated.unix_ms })
    }

    fn put(&self, name: &str, bytes: &Arc<[u8]>, meta: &Meta, expect: &Expect) -> Answer<Put> {
        let damaged = |why: String| {
            BucketError::new(BucketErrorKind::Damaged, format!("s3://{}, writing {name}: {why}", self.bucket))
        };
        if bytes.len() > OBJECT_BYTES {
            return Err(damaged(format!("it has more than {OBJECT_BYTES} bytes")));
        }
        let meta_body = match (bytes.is_empty(), meta.is_empty()) {
            (false, false) => return Err(damaged("an object here has either bytes or metadata".into())),
            (true, false) => json::bytes(meta),
            (_, true) => Vec::new(),
        };
        let body: &[u8] = if meta.is_empty() { bytes } else { &meta_body };
        let condition = match expect {
            Expect::Any => None,
            Expect::Absent => Some(("If-None-Match", "*")),
            Expect::Version(Version(tag)) => Some(("If-Match", tag.as_str())),
        };
        let (operation, query, deadline) = (Operation::Put, String::new(), http::deadline());
        let request = Request { operation, name, query, condition, body, max_bytes: ANSWER_BYTES, deadline };
        let expected: &[u16] = if condition.is_some() { &[404, 412] } else { &[] };
        let answer = self.request(&request, expected)?;
        match answer.status {
            412 => answer.dated(Put::PreconditionFailed),
            // The precondition was a version, but the object does not exist.
            404 => self.absent(operation, &answer, Put::PreconditionFailed),
            _ => answer.dated(Put::Written(self.version(&answer, name)?)),
        }
    }

    fn delete(&self, name: &str, version: Option<&Version>) -> Answer<Deletion> {
        let condition = version.map(|Version(tag)| ("If-Match", tag.as_str()));
        let (operation, query, deadline) = (Operation::Delete, String::new(), http::deadline());
        let request = Request { operation, name, query, condition, body: b"", max_bytes: ANSWER_BYTES, deadline };
        let expected: &[u16] = if version.is_some() { &[404, 412] } else { &[404] };
        let answer = self.request(&request, expected)?;
        match answer.status {
            412 => answer.dated(Deletion::PreconditionFailed),
            404 => self.absent(operation, &answer, Deletion::Deleted),
            _ => answer.dated(Deletion::Deleted),
        }
    }

    fn lists_metadata(&self) -> bool {
        false
    }

    fn list(&self, list: &List) -> Answer<Page> {
        let deadline = http::deadline();
        pages::read(list, |token| self.page(list, token, deadline))
    }
}

impl S3 {
    fn version(&self, answer: &Received, name: &str) -> Result<Version, BucketError> {
        let tag = answer.header("etag").map(|tag| Version(tag.to_owned()));
        tag.ok_or_else(|| unknown(format!("s3://{}: the answer for {name} has no ETag", self.bucket)))
    }
}

fn method(operation: Operation) -> &'static str {
    match operation {
        Operation::Get | Operation::List => "GET",
        Operation::Put => "PUT",
        Operation::Delete => "DELETE",
    }
}

fn permission(operation: Operation) -> &'static str {
    match operation {
        // Without the permission to list, the status for an object that does not exist is 403.
        Operation::Get => "s3:GetObject and s3:ListBucket",
        Operation::Put => "s3:PutObject",
        Operation::Delete => "s3:DeleteObject",
        Operation::List => "s3:ListBucket",
    }
}

/// The URL of a bucket. Its name is in the path of a given endpoint, or in the host name of AWS.
pub fn url(bucket: &str, region: &str, endpoint: Option<&str>) -> String {
    if let Some(endpoint) = endpoint {
        return format!("{}/{bucket}", endpoint.trim_end_matches('/'));
    }
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    match bucket.contains('.') {
        // The certificate of AWS does not cover host names with more labels.
        true => format!("https://s3.{region}.{domain}/{bucket}"),
        false => format!("https://{bucket}.s3.{region}.{domain}"),
    }
}

/// The code of an error response, and the code together with its message.
fn error_details(body: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(body);
    let Some(error) = xml::parse(&text).filter(|root| root.name == "Error") else {
        return (String::new(), explanation(&text));
    };
    let code = error.text_of("Code").unwrap_or_default();
    let message = error.text_of("Message").unwrap_or_default();
    (code.to_owned(), explanation(&format!("{code}: {message}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(url("b", "eu-west-1", None), "https://b.s3.eu-west-1.amazonaws.com");
        assert_eq!(url("a.b", "eu-west-1", None), "https://s3.eu-west-1.amazonaws.com/a.b");
        assert_eq!(url("b", "cn-north-1", None), "https://b.s3.cn-north-1.amazonaws.com.cn");
        assert_eq!(url("b", "r", Some("http://127.0.0.1:9000/")), "http://127.0.0.1:9000/b");
    }
}
