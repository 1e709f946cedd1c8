//! Amazon S3, and stores that speak its protocol.
//!
//! A version is an entity tag. It is derived from the content, so writing the same bytes twice gives the same version.
//!
//! Lists of S3 have no custom metadata. Here is how `meta` is kept instead: an object that has metadata and no bytes is written with
//! the metadata as a JSON object in its body, and [`Bucket::list`] always gives empty metadata. Whoever finds an entry without
//! metadata gets the object and reads its body with [`meta_of_body`](crate::bucket::meta_of_body). An object with both is not written.

use crate::base::clock::read_rfc3339;
use crate::base::json;
use crate::base::percent;
use crate::bucket::{
    Answer, Bucket, Dated, Deletion, Entry, Expect, List, Meta, Object, Page, Put, Trouble, TroubleKind, Version,
};
use crate::limits::bucket::{ANSWER_BYTES, OBJECT_BYTES, PAGE_BYTES, PAGE_NAMES};
use crate::shell::bucket::http::{self, Outgoing, Received, during, explanation, trouble, unknown};
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
    /// As in the field `Host`.
    host: String,
    /// What comes before the key: the bucket, unless it is in the host's name.
    path: String,
    region: String,
    keys: Keys,
    agent: Agent,
}

#[derive(Clone, Copy)]
enum Operation {
    Get,
    Put,
    Delete,
    List,
}

impl Operation {
    fn method(self) -> &'static str {
        match self {
            Operation::Get | Operation::List => "GET",
            Operation::Put => "PUT",
            Operation::Delete => "DELETE",
        }
    }

    fn permission(self) -> &'static str {
        match self {
            // Without the right to list, an object that does not exist is refused like one that may not be read.
            Operation::Get => "s3:GetObject and s3:ListBucket",
            Operation::Put => "s3:PutObject",
            Operation::Delete => "s3:DeleteObject",
            Operation::List => "s3:ListBucket",
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Operation::Get => "reading",
            Operation::Put => "writing",
            Operation::Delete => "deleting",
            Operation::List => "listing names with",
        }
    }
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
    most: usize,
    deadline: Instant,
}

impl S3 {
    /// A bucket at a URL, which `url` gives.
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

    /// Signs and makes the request. An answer that is neither a success nor one of `expected` is an error.
    fn request(&self, request: &Request<'_>, expected: &[u16]) -> Result<Received, Trouble> {
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
        let (method, query) = (operation.method(), request.query.as_str());
        let signed = Signed { method, path: &path, query, headers: &headers, payload: &payload };
        let authorization = sigv4::authorization(&self.keys, &self.region, &date, &signed);
        headers.push(("Authorization", &authorization));
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{}{}{path}{mark}{query}", self.scheme, self.host);
        let body = matches!(operation, Operation::Put).then_some(request.body);
        let outgoing =
            Outgoing { method, url: &url, headers: &headers, body, most: request.most, deadline: request.deadline };
        let answer = http::send(&self.agent, &outgoing).map_err(during(&what))?;
        match answer.is_success() || expected.contains(&answer.status) {
            true => Ok(answer),
            false => Err(during(&what)(self.without_secrets(self.trouble(operation, &answer)))),
        }
    }

    /// The store never repeats a key, but a proxy might.
    fn without_secrets(&self, trouble: Trouble) -> Trouble {
        let secrets = std::iter::once(&self.keys.secret).chain(&self.keys.session);
        let message = secrets.fold(trouble.message, |message, secret| secret.hide_in(&message));
        Trouble { message, ..trouble }
    }

    /// The table of statuses. The codes of AWS tell apart what has the same status.
    fn trouble(&self, operation: Operation, answer: &Received) -> Trouble {
        let (code, said) = said(&answer.body);
        let status = answer.status;
        let permission = operation.permission();
        match (status, code.as_str()) {
            (400, "RequestTimeout") => unknown(format!("refused for now ({status}). {said}")),
            (401, _) | (400, "InvalidToken" | "ExpiredToken" | "AuthorizationHeaderMalformed") => {
                trouble(TroubleKind::Forbidden, format!("the credentials are not accepted ({status}). {said}"))
            }
            (403, _) => trouble(TroubleKind::Forbidden, format!("not allowed (403); it needs {permission}. {said}")),
            (404, _) => trouble(TroubleKind::Unsupported, format!("there is no such bucket (404). {said}")),
            (300..400, _) => {
                let region = answer.header("x-amz-bucket-region").map(explanation);
                let region = region.map(|region| format!(": set AWS_REGION to {region}")).unwrap_or_default();
                trouble(TroubleKind::Unsupported, format!("the bucket is somewhere else ({status}){region}. {said}"))
            }
            (405 | 501, _) => {
                trouble(TroubleKind::Unsupported, format!("the store does not know this request ({status}). {said}"))
            }
            // 409: another conditional request for this name was at work.
            (408 | 409 | 429 | 500.., _) => unknown(format!("refused for now ({status}). {said}")),
            (400..500, _) => {
                trouble(TroubleKind::Damaged, format!("the store calls the request wrong ({status}). {said}"))
            }
            _ => trouble(TroubleKind::Unsupported, format!("an answer that is not expected ({status}). {said}")),
        }
    }

    /// The answer to a request about an object that does not exist, or the error if that is not what its 404 says.
    fn absent<T>(&self, operation: Operation, answer: &Received, value: T) -> Answer<T> {
        match said(&answer.body).0.as_str() {
            "NoSuchKey" => answer.dated(value),
            _ => Err(during(&format!("s3://{}", self.bucket))(self.trouble(operation, answer))),
        }
    }

    /// One page of a list as the store gives it, and the token of the next.
    fn page(
        &self,
        list: &List,
        token: Option<&str>,
        deadline: Instant,
    ) -> Result<(Dated<Page>, Option<String>), Trouble> {
        let most = PAGE_NAMES.to_string();
        let mut query = vec![("list-type", "2"), ("max-keys", &most), ("prefix", list.prefix.as_str())];
        query.extend(list.folders.then_some(("delimiter", "/")));
        query.extend(list.after.as_deref().map(|after| ("start-after", after)));
        query.extend(token.map(|token| ("continuation-token", token)));
        let query = percent::pairs(&query);
        let operation = Operation::List;
        let request =
            Request { operation, name: &list.prefix, query, condition: None, body: b"", most: PAGE_BYTES, deadline };
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
                // As in the client of Google Cloud Storage: without a valid time it counts as new.
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
        let request = Request { operation, name, query, condition: None, body: b"", most: OBJECT_BYTES, deadline };
        let answer = self.request(&request, &[404])?;
        if answer.status == 404 {
            return self.absent(operation, &answer, None);
        }
        let version = self.version(&answer, name)?;
        let dated = answer.dated(())?;
        Ok(Dated { value: Some(Object { bytes: answer.body.into(), version }), unix_ms: dated.unix_ms })
    }

    fn put(&self, name: &str, bytes: &Arc<[u8]>, meta: &Meta, expect: &Expect) -> Answer<Put> {
        let damaged =
            |why: String| trouble(TroubleKind::Damaged, format!("s3://{}, writing {name}: {why}", self.bucket));
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
        let request = Request { operation, name, query, condition, body, most: ANSWER_BYTES, deadline };
        let expected: &[u16] = if condition.is_some() { &[404, 412] } else { &[] };
        let answer = self.request(&request, expected)?;
        match answer.status {
            412 => answer.dated(Put::Refused),
            // A version was expected, and there is no object.
            404 => self.absent(operation, &answer, Put::Refused),
            _ => answer.dated(Put::Made(self.version(&answer, name)?)),
        }
    }

    fn delete(&self, name: &str, version: Option<&Version>) -> Answer<Deletion> {
        let condition = version.map(|Version(tag)| ("If-Match", tag.as_str()));
        let (operation, query, deadline) = (Operation::Delete, String::new(), http::deadline());
        let request = Request { operation, name, query, condition, body: b"", most: ANSWER_BYTES, deadline };
        let expected: &[u16] = if version.is_some() { &[404, 412] } else { &[404] };
        let answer = self.request(&request, expected)?;
        match answer.status {
            412 => answer.dated(Deletion::Refused),
            404 => self.absent(operation, &answer, Deletion::Gone),
            _ => answer.dated(Deletion::Gone),
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
    fn version(&self, answer: &Received, name: &str) -> Result<Version, Trouble> {
        let tag = answer.header("etag").map(|tag| Version(tag.to_owned()));
        tag.ok_or_else(|| unknown(format!("s3://{}: the answer for {name} has no ETag", self.bucket)))
    }
}

/// The URL of a bucket: in the path of an endpoint, or in the name of a host of AWS.
pub fn url(bucket: &str, region: &str, endpoint: Option<&str>) -> String {
    if let Some(endpoint) = endpoint {
        return format!("{}/{bucket}", endpoint.trim_end_matches('/'));
    }
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    match bucket.contains('.') {
        // The certificate is for one level of names only.
        true => format!("https://s3.{region}.{domain}/{bucket}"),
        false => format!("https://{bucket}.s3.{region}.{domain}"),
    }
}

/// The code of an error, and the code with its message.
fn said(body: &[u8]) -> (String, String) {
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
