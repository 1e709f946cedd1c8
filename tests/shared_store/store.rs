//! Tests of the fake store, with the client that the server uses.

use super::fake_gcs::{FakeGcs, Link};
use super::gcs_api::{BUCKET, Operation, Preconditions};
use crate::support::http::{Head, Message, Side};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gemini_a2a::base::crc::crc32c;
use gemini_a2a::bucket::{Bucket, BucketErrorKind, Deletion, Expect, List, Meta, Put};
use gemini_a2a::shell::bucket::{ProbeError, from_environment, probe, probe_name};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::TlsConfig;

fn client(address: &str, bucket: &str) -> Arc<dyn Bucket> {
    let variable = |name: &str| match name {
        "A2A_GCS_BUCKET" => Some(bucket.to_owned()),
        "STORAGE_EMULATOR_HOST" => Some(address.to_owned()),
        _ => None,
    };
    from_environment(&variable, TlsConfig::default()).expect("usable variables").expect("a bucket is named")
}

fn put(bucket: &dyn Bucket, name: &str, bytes: &[u8], expect: &Expect) -> Put {
    bucket.put(name, &bytes.into(), &Meta::new(), expect).expect("an answer").value
}

#[test]
fn objects_are_created_once_and_replaced_and_deleted_by_their_version() {
    let store = FakeGcs::new();
    let front = store.front();
    let bucket = &*client(&front.address(), BUCKET);
    probe(bucket, &probe_name("i1")).expect("the store has preconditions");
    let name = "tasks/100%25 a+b&c=d?é/log/1";
    let Put::Written(first) = put(bucket, name, b"one\n", &Expect::Absent) else { panic!("it is created") };
    assert_eq!(put(bucket, name, b"one\n", &Expect::Absent), Put::PreconditionFailed);
    let object = bucket.get(name).expect("an answer").value.expect("it exists");
    assert_eq!((&object.bytes[..], &object.version), (&b"one\n"[..], &first));
    let Put::Written(second) = put(bucket, name, b"two\n", &Expect::Version(first.clone())) else { panic!("replaced") };
    assert_eq!(put(bucket, name, b"three\n", &Expect::Version(first.clone())), Put::PreconditionFailed);
    assert_eq!(bucket.delete(name, Some(&first)).expect("an answer").value, Deletion::PreconditionFailed);
    assert_eq!(bucket.delete(name, Some(&second)).expect("an answer").value, Deletion::Deleted);
    assert_eq!(bucket.get(name).expect("an answer").value, None);
    assert_eq!(store.bucket().objects(), []);
    // The probe creates twice and deletes once.
    assert_eq!((front.count(Operation::Put), front.count(Operation::Delete)), (6, 3));
}

#[test]
fn lists_have_pages_folders_metadata_and_times() {
    let store = FakeGcs::new();
    let front = store.front();
    let bucket = &*client(&front.address(), BUCKET);
    let meta: Meta = [("parent".to_owned(), "größe ✓".to_owned())].into();
    let names: Vec<String> =
        (0..250).map(|n| format!("n/{n:03}")).chain(["n/sub/x".into(), "n/sub/y".into()]).collect();
    for name in &names {
        bucket.put(name, &Arc::from(&b"x"[..]), &meta, &Expect::Absent).expect("an answer");
    }
    let (mut list, mut listed, mut folders) = (List { prefix: "n/".into(), ..List::default() }, vec![], vec![]);
    list.folders = true;
    loop {
        let page = bucket.list(&list).expect("a list");
        assert!(page.value.entries.iter().all(|entry| entry.meta == meta));
        assert!(page.value.entries.iter().all(|entry| entry.created_unix_ms.abs_diff(page.unix_ms) < 600_000));
        listed.extend(page.value.entries.into_iter().map(|entry| entry.name));
        folders.extend(page.value.folders);
        list.after = page.value.next;
        if list.after.is_none() {
            break;
        }
    }
    assert_eq!((&listed[..], &folders[..]), (&names[..250], &["n/sub/".to_owned()][..]));
}

#[test]
fn a_wrong_bucket_is_not_found_and_ignored_preconditions_are_refused_by_the_probe() {
    let store = FakeGcs::with(Preconditions::Ignored);
    let front = store.front();
    let refused = ProbeError::Configuration("this store ignores preconditions and would lose events".into());
    assert_eq!(probe(&*client(&front.address(), BUCKET), &probe_name("i1")), Err(refused));
    let other = probe(&*client(&front.address(), "another-bucket"), &probe_name("i1"));
    assert!(matches!(other, Err(ProbeError::Configuration(_))), "{other:?}");
}

#[test]
fn a_fault_concerns_one_front() {
    let store = FakeGcs::new();
    let fronts = [store.front(), store.front()];
    let [a, b] = [0, 1].map(|n| client(&fronts[n].address(), BUCKET));
    assert!(matches!(put(&*a, "x", b"1", &Expect::Absent), Put::Written(_)));
    fronts[0].set_link(Link::Refused);
    assert_eq!(a.get("x").map_err(|error| error.kind), Err(BucketErrorKind::Unknown));
    assert!(b.get("x").expect("an answer").value.is_some());
    fronts[0].set_link(Link::LosesAnswers);
    let lost = a.put("y", &Arc::from(&b"2"[..]), &Meta::new(), &Expect::Absent);
    assert_eq!(lost.map_err(|error| error.kind), Err(BucketErrorKind::Unknown));
    assert!(b.get("y").expect("an answer").value.is_some(), "it was executed");
    fronts[0].set_link(Link::Slow(Duration::from_millis(5)));
    assert_eq!(put(&*a, "y", b"2", &Expect::Absent), Put::PreconditionFailed);
}

/// Sends a request. Returns its response.
fn exchange(address: &str, target: &str, content_type: &str, body: &str) -> (Head, String) {
    let mut connection = TcpStream::connect(address).expect("the fake listens");
    let length = body.len();
    let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\nContent-Length: {length}");
    connection.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).expect("the fake reads");
    let (mut message, mut text, mut bytes) = (Message::new(Side::Response), vec![], [0; 4096]);
    while !message.is_done() {
        let count = connection.read(&mut bytes).expect("a response");
        message.feed(&bytes[..count], &mut text).expect("a valid response");
    }
    (message.head().expect("a head").clone(), String::from_utf8(text).expect("text"))
}

fn upload(address: &str, bytes: &str, crc: &str, query: &str) -> u16 {
    let about =
        format!(r#"{{"name":"u","contentType":"application/x-ndjson","cacheControl":"no-store","crc32c":"{crc}"}}"#);
    let body = format!(
        "--B\r\nContent-Type: application/json\r\n\r\n{about}\r\n--B\r\nContent-Type: x/y\r\n\r\n{bytes}\r\n--B--\r\n"
    );
    let target = format!("/upload/storage/v1/b/{BUCKET}/o?uploadType=multipart&fields=generation,crc32c{query}");
    exchange(address, &target, "multipart/related; boundary=B", &body).0.status()
}

#[test]
fn wrong_checksums_and_unknown_parameters_are_refused_and_objects_are_composed() {
    let store = FakeGcs::new();
    let front = store.front();
    let (address, crc) = (front.address(), STANDARD.encode(crc32c(b"bytes").to_be_bytes()));
    assert_eq!(upload(&address, "bytes", &crc, "&ifMetagenerationMatch=1"), 400);
    assert_eq!(upload(&address, "other", &crc, ""), 400);
    assert_eq!(upload(&address, "bytes", &crc, "&ifGenerationMatch=0"), 200);
    assert_eq!(upload(&address, "bytes", &crc, "&ifGenerationMatch=0"), 412);
    let target = format!("/storage/v1/b/{BUCKET}/o/a%2Fb/compose?ifGenerationMatch=0");
    let body = r#"{"sourceObjects":[{"name":"u"},{"name":"u"}],"destination":{"contentType":"application/x-ndjson"}}"#;
    let (head, text) = exchange(&address, &target, "application/json", body);
    assert_eq!(head.status(), 200, "{text}");
    assert!(head.field("date").is_some() && text.contains(r#""size":"10""#), "{text}");
    assert_eq!(exchange(&address, &target, "application/json", body).0.status(), 412);
    let objects = store.bucket().objects();
    assert_eq!((&objects[0].0[..], &objects[0].1[..]), ("a/b", &b"bytesbytes"[..]));
}
