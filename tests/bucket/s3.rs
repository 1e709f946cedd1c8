//! The client of S3 with recorded responses of moto.

use crate::tape::{Body, Exchange, named, recorded, replay};
use gemini_a2a::base::secret::Secret;
use gemini_a2a::bucket::{Bucket, BucketErrorKind, Deletion, Expect, List, Meta, Put, Version, meta_of_body};
use gemini_a2a::shell::bucket::agent;
use gemini_a2a::shell::bucket::s3::{S3, url};
use gemini_a2a::shell::bucket::sigv4::Keys;
use serde_json::Value;
use ureq::tls::TlsConfig;

pub const RECORDING: &str = include_str!("s3.jsonl");

pub fn keys(signing: &Value) -> Keys {
    let text = |name: &str| signing[name].as_str();
    Keys {
        id: text("access_key_id").expect("an id").into(),
        secret: Secret::new(text("secret_access_key").expect("a key")),
        session: text("session_token").map(Secret::new),
    }
}

pub fn client(bucket: &str, address: &str, keys: Keys) -> S3 {
    let url = url(bucket, "us-east-1", Some(&format!("http://{address}")));
    S3::new(bucket, &url, "us-east-1", keys, agent(TlsConfig::default(), None).expect("an agent"))
}

pub fn test_keys() -> Keys {
    Keys { id: "id".into(), secret: Secret::new("secret"), session: None }
}

fn exchanges() -> Vec<Exchange> {
    recorded(RECORDING).into_iter().filter(|exchange| exchange.line["kind"] != "sigv4").collect()
}

/// The list operation of a recorded request.
fn list_of(exchange: &Exchange) -> List {
    let request = &exchange.request;
    List {
        prefix: request.query("prefix").unwrap_or_default().into(),
        after: request.query("start-after").map(str::to_owned),
        folders: request.query("delimiter").is_some(),
    }
}

/// Makes a recorded request with the client and compares the result with the recorded response.
fn redo(address: &str, exchange: &Exchange) {
    let (request, name) = (&exchange.request, &exchange.name);
    let path = request.path.strip_prefix('/').expect("a path");
    let (bucket, object) = path.split_once('/').unwrap_or((path, ""));
    let client = client(bucket, address, keys(&exchange.line["signing"]));
    let tag = request.fields.get("if-match").map(|tag| Version(tag.clone()));
    let says = |code: &str| String::from_utf8_lossy(&exchange.body()).contains(&format!("<Code>{code}</Code>"));
    let kind = match exchange.status() {
        Some(400 | 403) => BucketErrorKind::Forbidden,
        Some(404) => BucketErrorKind::Unsupported,
        _ => BucketErrorKind::Unknown,
    };
    let version = || Version(exchange.field("etag").expect("a tag").into());
    match (request.method.as_str(), &request.body) {
        ("PUT", Body::Bytes(bytes)) => {
            let is_create = request.fields.contains_key("if-none-match");
            let expect = tag.map_or(if is_create { Expect::Absent } else { Expect::Any }, Expect::Version);
            let done = client.put(object, &bytes.as_slice().into(), &Meta::new(), &expect);
            let expected = match exchange.status() {
                Some(200) => Ok(Put::Written(version())),
                Some(412) => Ok(Put::PreconditionFailed),
                Some(404) if says("NoSuchKey") => Ok(Put::PreconditionFailed),
                _ => Err(kind),
            };
            assert_eq!(done.map(|done| done.value).map_err(|error| error.kind), expected, "{name}");
        }
        ("GET", _) if !object.is_empty() => {
            let got = client.get(object).map(|got| got.value).map_err(|error| error.kind);
            let got = got.map(|object| object.map(|object| (object.bytes.to_vec(), object.version)));
            let expected = match exchange.status() {
                Some(200) => Ok(Some((exchange.body(), version()))),
                Some(404) if says("NoSuchKey") => Ok(None),
                _ => Err(kind),
            };
            assert_eq!(got, expected, "{name}");
        }
        ("GET", _) => {
            let list = list_of(exchange);
            let listed = client.list(&list).map(|page| page.value).map_err(|error| error.kind);
            match exchange.status() {
                Some(200) => check_list(&listed.expect(name), exchange),
                _ => assert_eq!(listed, Err(kind), "{name}"),
            }
        }
        ("DELETE", _) => {
            let done = client.delete(object, tag.as_ref()).map(|done| done.value).map_err(|error| error.kind);
            let expected = match exchange.status() {
                Some(204) => Ok(Deletion::Deleted),
                Some(404) if says("NoSuchKey") => Ok(Deletion::Deleted),
                Some(412) => Ok(Deletion::PreconditionFailed),
                _ => Err(kind),
            };
            assert_eq!(done, expected, "{name}");
        }
        other => panic!("{name}: {other:?}"),
    }
}

/// Compares a page with the recorded XML, which is parsed here in the simplest way.
fn check_list(page: &gemini_a2a::bucket::Page, exchange: &Exchange) {
    let text = String::from_utf8(exchange.body()).expect("UTF-8");
    let plain = |text: &str| text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let between = |text: &str, tag: &str| -> Vec<String> {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        let pieces = text.split(&open).skip(1);
        pieces.map(|piece| plain(piece.split(&close).next().unwrap_or_default())).collect()
    };
    let found: Vec<&str> = page.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(found, between(&text, "Key"), "{}", exchange.name);
    let tags: Vec<&str> = page.entries.iter().map(|entry| entry.version.0.as_str()).collect();
    assert_eq!(tags, between(&text, "ETag"), "{}", exchange.name);
    assert!(page.entries.iter().all(|entry| entry.meta.is_empty()), "{}", exchange.name);
    assert!(page.entries.iter().all(|entry| entry.created_unix_ms.abs_diff(crate::server::DATE_MS) < 60_000));
    let common = between(&text, "CommonPrefixes").concat();
    assert_eq!(page.folders, between(&common, "Prefix"), "{}", exchange.name);
    let last = found.last().copied().max(page.folders.last().map(String::as_str));
    let expected = last.filter(|_| text.contains("<IsTruncated>true<"));
    assert_eq!(page.next.as_deref(), expected, "{}", exchange.name);
}

#[test]
fn every_recorded_request_has_its_result() {
    let all = exchanges();
    let address = replay(all.clone());
    all.iter().for_each(|exchange| redo(&address, exchange));
    assert!(all.len() > 65, "{} exchanges", all.len());
}

#[test]
fn an_object_is_created_once() {
    let lines = named(&exchanges(), &["create", "create-again-same-bytes", "create-again-other-bytes", "get"]);
    let client = client("rec-bucket", &replay(lines), test_keys());
    let put =
        |bytes: &[u8]| client.put("obj/a", &bytes.into(), &Meta::new(), &Expect::Absent).expect("an answer").value;
    let version = Version("\"dc2d54b80bb79fba4e75b033db2cfa68\"".into());
    assert_eq!(put(b"first bytes\n"), Put::Written(version.clone()));
    assert_eq!((put(b"first bytes\n"), put(b"other bytes\n")), (Put::PreconditionFailed, Put::PreconditionFailed));
    let object = client.get("obj/a").expect("an answer").value.expect("an object");
    assert_eq!((&object.bytes[..], object.version), (&b"first bytes\n"[..], version));
}

#[test]
fn metadata_is_the_body() {
    let address = crate::server::start(|request| {
        let body = std::str::from_utf8(&request.body).expect("JSON");
        let etag = if body == r#"{"entry":"contexts/é"}"# { "\"meta\"" } else { "\"other\"" };
        crate::server::Reply::new(200, &[("ETag", etag)], "")
    });
    let client = client("b", &address, test_keys());
    let meta: Meta = [("entry".to_owned(), "contexts/é".to_owned())].into();
    let put = |bytes: &[u8]| client.put("open/1", &bytes.into(), &meta, &Expect::Any).map(|made| made.value);
    assert_eq!(put(b""), Ok(Put::Written(Version("\"meta\"".into()))));
    assert_eq!(put(b"x").expect_err("both").kind, BucketErrorKind::Damaged);
    assert_eq!(meta_of_body(r#"{"entry":"contexts/é"}"#.as_bytes()), Some(meta));
    assert_eq!((meta_of_body(b""), meta_of_body(b"[1]")), (Some(Meta::new()), None));
}
