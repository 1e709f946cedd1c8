//! Tests with emulators that `tests/interop/bucket.py` starts. Each test is configured by the environment variables that it sets.

use gemini_a2a::bucket::{Bucket, BucketErrorKind, Deletion, Expect, List, Meta, Put, meta_of_body};
use gemini_a2a::shell::bucket::google::{Origin, STORAGE_SCOPE, Tokens};
use gemini_a2a::shell::bucket::{ProbeError, from_environment, probe, probe_name};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use ureq::tls::TlsConfig;

fn bucket() -> Arc<dyn Bucket> {
    let bucket = from_environment(&|name| std::env::var(name).ok(), TlsConfig::default());
    bucket.expect("usable variables").expect("a bucket is named")
}

fn put(bucket: &dyn Bucket, name: &str, bytes: &[u8], expect: &Expect) -> Put {
    bucket.put(name, &bytes.into(), &Meta::new(), expect).expect("an answer").value
}

#[test]
#[ignore = "needs a store"]
fn live_store() {
    let bucket = &*bucket();
    probe(bucket, &probe_name("live")).expect("the store has preconditions");
    let Put::Written(first) = put(bucket, "t/log/1", b"one\n", &Expect::Absent) else { panic!("it is created") };
    assert_eq!(put(bucket, "t/log/1", b"one\n", &Expect::Absent), Put::PreconditionFailed);
    let object = bucket.get("t/log/1").expect("an answer").value.expect("it exists");
    assert_eq!((&object.bytes[..], &object.version), (&b"one\n"[..], &first));
    let Put::Written(second) = put(bucket, "t/log/1", b"two\n", &Expect::Version(first.clone())) else {
        panic!("replaced")
    };
    assert_eq!(put(bucket, "t/log/1", b"three\n", &Expect::Version(first.clone())), Put::PreconditionFailed);
    assert_eq!(put(bucket, "t/none", b"x", &Expect::Version(first.clone())), Put::PreconditionFailed);
    assert_eq!(bucket.delete("t/log/1", Some(&first)).expect("an answer").value, Deletion::PreconditionFailed);
    assert_eq!(bucket.delete("t/log/1", Some(&second)).expect("an answer").value, Deletion::Deleted);
    assert_eq!(bucket.delete("t/log/1", None).expect("an answer").value, Deletion::Deleted);
    assert_eq!(bucket.get("t/log/1").expect("an answer").value, None);
    names(bucket);
    one_of_many(bucket);
    metadata(bucket);
}

/// Names with every kind of character, and lists of them.
fn names(bucket: &dyn Bucket) {
    let names = ["n/100%25 %2F%zz", "n/<x>&\"'", "n/a b  c", "n/a+b&c=d?e#f;g", "n/sub/x", "n/sub/y", "n/é日本"];
    for name in names {
        assert!(matches!(put(bucket, name, name.as_bytes(), &Expect::Absent), Put::Written(_)), "{name}");
        let object = bucket.get(name).expect("an answer").value.expect("it exists");
        assert_eq!(object.bytes[..], *name.as_bytes());
    }
    let list = List { prefix: "n/".into(), ..List::default() };
    let listed = |list: &List| {
        let page = bucket.list(list).expect("a list");
        assert!(page.value.entries.iter().all(|entry| entry.created_unix_ms.abs_diff(page.unix_ms) < 3_600_000));
        let names: Vec<String> = page.value.entries.into_iter().map(|entry| entry.name).collect();
        (names, page.value.folders)
    };
    assert_eq!(listed(&list).0, names);
    assert_eq!(listed(&List { after: Some("n/a+b&c=d?e#f;g".into()), ..list.clone() }).0, names[4..]);
    let (outer, folders) = listed(&List { folders: true, ..list.clone() });
    assert_eq!(
        (outer, folders),
        ([&names[..4], &names[6..]].concat().iter().map(|n| n.to_string()).collect(), vec!["n/sub/".to_owned()])
    );
    let behind = List { folders: true, after: Some("n/sub/".into()), ..list.clone() };
    assert_eq!(listed(&behind), (vec![names[6].to_owned()], vec![]));
    for name in names {
        assert_eq!(bucket.delete(name, None).expect("an answer").value, Deletion::Deleted);
    }
    assert_eq!(listed(&list).0, [""; 0]);
}

/// Of many requests that create the same name, one succeeds.
fn one_of_many(bucket: &dyn Bucket) {
    let made = thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|n| scope.spawn(move || put(bucket, "race", format!("{n}").as_bytes(), &Expect::Absent)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .filter(|put| *put != Put::PreconditionFailed)
            .count()
    });
    assert_eq!(made, 1);
    bucket.delete("race", None).expect("an answer");
}

/// Metadata is in the list or is the body.
fn metadata(bucket: &dyn Bucket) {
    let meta: Meta = [("parent".to_owned(), "größe ✓".to_owned())].into();
    bucket.put("meta/m", &Arc::from(&b""[..]), &meta, &Expect::Any).expect("an answer");
    let list = List { prefix: "meta/".into(), ..List::default() };
    let entry = bucket.list(&list).expect("a list").value.entries.remove(0);
    let body = bucket.get("meta/m").expect("an answer").value.expect("it exists").bytes;
    assert!(entry.meta == meta || meta_of_body(&body) == Some(meta));
    bucket.delete("meta/m", None).expect("an answer");
}

#[test]
#[ignore = "needs a store"]
fn live_store_without_a_bucket() {
    let error = probe(&*bucket(), &probe_name("live")).expect_err("there is no such bucket");
    assert!(matches!(&error, ProbeError::Configuration(message) if message.contains("no such bucket")), "{error}");
}

#[test]
#[ignore = "needs a store"]
fn live_store_refuses_the_keys() {
    let error = bucket().get("n").expect_err("the keys are wrong");
    assert_eq!(error.kind, BucketErrorKind::Forbidden, "{error}");
}

#[test]
#[ignore = "needs a store"]
fn live_store_without_preconditions() {
    let refused = ProbeError::Configuration("this store ignores preconditions and would lose events".into());
    assert_eq!(probe(&*bucket(), &probe_name("live")), Err(refused));
    let left = bucket().list(&List { prefix: "probe/".into(), ..List::default() }).expect("a list").value;
    assert_eq!(left.entries.len(), 0, "no object remains");
}

#[test]
#[ignore = "needs a token server"]
fn live_token() {
    let file = std::env::var("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from).expect("a file");
    let origin = Origin { file: Some(&file), metadata_host: None };
    let tokens = Tokens::new(&origin, STORAGE_SCOPE, TlsConfig::default(), |_| None).expect("credentials");
    let token = tokens.token(Instant::now() + Duration::from_secs(10)).expect("a token");
    assert_eq!(token.reveal(), "verified");
}
