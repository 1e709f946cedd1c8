//! The client of Google Cloud Storage with recorded responses of Google's testbench.

use crate::tape::{Body, Exchange, named, recorded, replay};
use gemini_a2a::bucket::{Bucket, BucketErrorKind, Deletion, Entry, Expect, List, Meta, Put, Version};
use gemini_a2a::shell::bucket::agent;
use gemini_a2a::shell::bucket::gcs::Gcs;
use serde_json::Value;
use ureq::tls::TlsConfig;

const RECORDING: &str = include_str!("gcs.jsonl");

pub fn client(bucket: &str, address: &str) -> Gcs {
    Gcs::new(bucket, &format!("http://{address}"), agent(TlsConfig::default(), None).expect("an agent"), None)
}

/// Makes a recorded request with the client and compares the result with the recorded response.
fn redo(client: &Gcs, exchange: &Exchange) {
    let (request, name) = (&exchange.request, &exchange.name);
    let object = request.path.split_once("/o/").map(|(_, object)| object).unwrap_or_default();
    let generation = request.query("ifGenerationMatch");
    match (request.method.as_str(), &request.body) {
        ("POST", Body::Upload { name: object, metadata, media }) => {
            let meta: Meta = serde_json::from_value(metadata.clone()).unwrap_or_default();
            let expect = match generation {
                None => Expect::Any,
                Some("0") => Expect::Absent,
                Some(generation) => Expect::Version(Version(generation.into())),
            };
            let done = client.put(object, &media.as_slice().into(), &meta, &expect);
            let done = done.map(|done| done.value).map_err(|error| error.kind);
            assert_eq!(done, expected_put(exchange), "{name}");
        }
        ("GET", _) if !object.is_empty() => {
            let got = client.get(object).map(|got| got.value).map_err(|error| error.kind);
            let got = got.map(|object| object.map(|object| (object.bytes.to_vec(), object.version.0)));
            assert_eq!(got, expected_get(exchange), "{name}");
        }
        ("GET", _) => {
            let list = List {
                prefix: request.query("prefix").unwrap_or_default().into(),
                after: request.query("startOffset").map(str::to_owned),
                folders: request.query("delimiter").is_some(),
            };
            check_list(client, &list, exchange);
        }
        ("DELETE", _) => {
            let version = generation.map(|generation| Version(generation.into()));
            let done = client.delete(object, version.as_ref()).map(|done| done.value).map_err(|error| error.kind);
            let expected = match exchange.status() {
                Some(200 | 204) => Ok(Deletion::Deleted),
                Some(404) if !is_bucket_missing(exchange) => Ok(Deletion::Deleted),
                Some(412) => Ok(Deletion::PreconditionFailed),
                _ => Err(kind(exchange)),
            };
            assert_eq!(done, expected, "{name}");
        }
        other => panic!("{name}: {other:?}"),
    }
}

fn is_bucket_missing(exchange: &Exchange) -> bool {
    exchange.name.starts_with("missing-bucket")
}

fn kind(exchange: &Exchange) -> BucketErrorKind {
    match exchange.status() {
        _ if exchange.is_incomplete() => BucketErrorKind::Unknown,
        Some(401) => BucketErrorKind::Forbidden,
        Some(404) => BucketErrorKind::Unsupported,
        Some(408 | 429 | 500 | 502 | 503 | 504) => BucketErrorKind::Unknown,
        Some(412) => BucketErrorKind::Damaged,
        other => panic!("{}: {other:?}", exchange.name),
    }
}

fn json(exchange: &Exchange) -> Value {
    serde_json::from_slice(&exchange.body()).expect("JSON")
}

fn expected_put(exchange: &Exchange) -> Result<Put, BucketErrorKind> {
    match exchange.status() {
        Some(200) if !exchange.is_incomplete() => {
            Ok(Put::Written(Version(json(exchange)["generation"].as_str().expect("a generation").into())))
        }
        Some(412) if exchange.name != "create-wrong-crc32c" => Ok(Put::PreconditionFailed),
        _ => Err(kind(exchange)),
    }
}

fn expected_get(exchange: &Exchange) -> Result<Option<(Vec<u8>, String)>, BucketErrorKind> {
    match exchange.status() {
        _ if exchange.name == "get-media-corrupted" => Err(BucketErrorKind::Damaged),
        Some(200) if !exchange.is_incomplete() => {
            Ok(Some((exchange.body(), exchange.field("x-goog-generation").expect("a generation").into())))
        }
        Some(404) if !is_bucket_missing(exchange) => Ok(None),
        _ => Err(kind(exchange)),
    }
}

fn check_list(client: &Gcs, list: &List, exchange: &Exchange) {
    let name = &exchange.name;
    let listed = client.list(list).map(|page| page.value);
    if exchange.is_incomplete() || exchange.status() != Some(200) {
        assert_eq!(listed.map_err(|error| error.kind), Err(kind(exchange)), "{name}");
        return;
    }
    let (listed, recorded) = (listed.unwrap_or_else(|error| panic!("{name}: {error}")), json(exchange));
    let texts = |value: &Value| value.as_array().into_iter().flatten().cloned().collect::<Vec<_>>();
    // The first of them is where the list begins, and ours begins behind it.
    let is_behind = |item: &&Value| list.after.as_deref().is_none_or(|after| item["name"].as_str() > Some(after));
    let items = texts(&recorded["items"]);
    let expected: Vec<_> = items.iter().filter(is_behind).map(|item| (&item["name"], &item["generation"])).collect();
    let found: Vec<_> =
        listed.entries.iter().map(|entry| (Value::from(&*entry.name), Value::from(&*entry.version.0))).collect();
    assert_eq!(found.iter().map(|(name, version)| (name, version)).collect::<Vec<_>>(), expected, "{name}");
    assert_eq!(listed.folders.into_iter().map(Value::from).collect::<Vec<_>>(), texts(&recorded["prefixes"]), "{name}");
    assert_eq!(listed.next, None, "{name}");
}

#[test]
fn every_recorded_request_has_its_result() {
    let all = recorded(RECORDING);
    let address = replay(all.clone());
    let (here, missing) = (client("rec-bucket", &address), client("no-such-bucket", &address));
    for exchange in &all {
        redo(if is_bucket_missing(exchange) { &missing } else { &here }, exchange);
    }
    assert!(all.len() > 80, "{} exchanges", all.len());
}

#[test]
fn an_object_is_created_once_and_dated_by_the_store() {
    let all = recorded(RECORDING);
    let create =
        named(&all, &["create", "create-again-same-bytes", "create-again-other-bytes", "create-unchanged-after-412"]);
    let client = client("rec-bucket", &replay(create));
    let put = |bytes: &[u8]| client.put("obj/a", &bytes.into(), &Meta::new(), &Expect::Absent).expect("an answer");
    let made = put(b"first bytes\n");
    assert_eq!((made.value, made.unix_ms), (Put::Written(Version("1794884071676".into())), crate::server::DATE_MS));
    assert_eq!(put(b"first bytes\n").value, Put::PreconditionFailed);
    assert_eq!(put(b"other bytes\n").value, Put::PreconditionFailed);
    let object = client.get("obj/a").expect("an answer").value.expect("an object");
    assert_eq!((&object.bytes[..], object.version.0.as_str()), (&b"first bytes\n"[..], "1794884071676"));
}

#[test]
fn metadata_and_times_are_listed() {
    let all = recorded(RECORDING);
    let client = client("rec-bucket", &replay(named(&all, &["meta-list", "list-prefix"])));
    let list = |prefix: &str| client.list(&List { prefix: prefix.into(), ..List::default() }).expect("a list").value;
    let Entry { name, meta, .. } = list("meta/").entries.remove(0);
    assert_eq!((name.as_str(), meta["unicode"].as_str(), meta["empty"].as_str()), ("meta/m", "größe ✓", ""));
    let first = list("list/").entries.remove(0);
    assert_eq!(first.name, "list/a.txt");
    assert!(first.created_unix_ms.abs_diff(crate::server::DATE_MS) < 60_000, "{}", first.created_unix_ms);
}

#[test]
fn a_write_whose_answer_was_lost_is_found_by_reading() {
    let all = recorded(RECORDING);
    let names = ["fault-broken-put-seed", "fault-broken-put", "fault-broken-put-retry", "fault-broken-put-check"];
    let lines = named(&all, &names);
    let client = client("rec-bucket", &replay(lines.clone()));
    let Body::Upload { media, .. } = lines[1].request.body.clone() else { panic!("an upload") };
    let Body::Upload { media: seed, .. } = lines[0].request.body.clone() else { panic!("an upload") };
    let put = |bytes: &[u8], expect: &Expect| client.put("fault/cas", &bytes.into(), &Meta::new(), expect);
    let Ok(Put::Written(version)) = put(&seed, &Expect::Any).map(|made| made.value) else { panic!("it is made") };
    let expect = Expect::Version(version);
    assert_eq!(put(&media, &expect).expect_err("it broke off").kind, BucketErrorKind::Unknown);
    assert_eq!(put(&media, &expect).expect("an answer").value, Put::PreconditionFailed);
    let object = client.get("fault/cas").expect("an answer").value.expect("an object");
    assert_eq!(object.bytes[..], media, "refused by its own write");
}
