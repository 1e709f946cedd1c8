//! The meaning of every HTTP status, for both stores and every operation.

use crate::server::{Reply, start};
use crate::{gcs, s3};
use gemini_a2a::base::secret::Secret;
use gemini_a2a::bucket::{Bucket, BucketError, BucketErrorKind, Deletion, Expect, List, Meta, Put, Version};
use gemini_a2a::shell::bucket::sigv4::Keys;
use std::net::TcpListener;
use std::sync::Arc;

/// The results of all operations with a store that returns the same response to each.
struct Results {
    create: Result<Put, BucketError>,
    any: Result<Put, BucketError>,
    get: Result<bool, BucketError>,
    delete: Result<Deletion, BucketError>,
    delete_version: Result<Deletion, BucketError>,
    list: Result<usize, BucketError>,
}

fn results(bucket: &dyn Bucket) -> Results {
    let (bytes, none): (Arc<[u8]>, _) = (Arc::from(&b"x"[..]), Meta::new());
    let version = Version("1".into());
    Results {
        create: bucket.put("n", &bytes, &none, &Expect::Absent).map(|done| done.value),
        any: bucket.put("n", &bytes, &none, &Expect::Any).map(|done| done.value),
        get: bucket.get("n").map(|got| got.value.is_some()),
        delete: bucket.delete("n", None).map(|done| done.value),
        delete_version: bucket.delete("n", Some(&version)).map(|done| done.value),
        list: bucket.list(&List::default()).map(|page| page.value.entries.len()),
    }
}

impl Results {
    /// The kinds of errors of all operations in the order of the fields.
    fn kinds(&self) -> [Option<BucketErrorKind>; 6] {
        fn kind<T>(result: &Result<T, BucketError>) -> Option<BucketErrorKind> {
            result.as_ref().err().map(|error| error.kind)
        }
        let Results { create, any, get, delete, delete_version, list } = self;
        [kind(create), kind(any), kind(get), kind(delete), kind(delete_version), kind(list)]
    }
}

fn at_gcs(status: u16, body: &'static str) -> Results {
    results(&gcs::client("b", &start(move |_| Reply::new(status, &[], body))))
}

fn at_s3(status: u16, body: &'static str) -> Results {
    results(&s3::client("b", &start(move |_| Reply::new(status, &[], body)), s3::test_keys()))
}

#[test]
fn statuses_with_one_meaning() {
    for (status, kind) in [
        (400, BucketErrorKind::Damaged),
        (401, BucketErrorKind::Forbidden),
        (403, BucketErrorKind::Forbidden),
        (405, BucketErrorKind::Unsupported),
        (408, BucketErrorKind::Unknown),
        (409, BucketErrorKind::Unknown),
        (413, BucketErrorKind::Damaged),
        (429, BucketErrorKind::Unknown),
        (500, BucketErrorKind::Unknown),
        (501, BucketErrorKind::Unsupported),
        (502, BucketErrorKind::Unknown),
        (503, BucketErrorKind::Unknown),
        (504, BucketErrorKind::Unknown),
        (307, BucketErrorKind::Unsupported),
    ] {
        assert_eq!(at_gcs(status, "said").kinds(), [Some(kind); 6], "GCS {status}");
        assert_eq!(at_s3(status, "said").kinds(), [Some(kind); 6], "S3 {status}");
    }
}

#[test]
fn a_failed_precondition_is_not_an_error() {
    for at in [at_gcs(412, "precondition"), at_s3(412, "<Error><Code>PreconditionFailed</Code></Error>")] {
        assert_eq!(at.create, Ok(Put::PreconditionFailed));
        assert_eq!(at.delete_version, Ok(Deletion::PreconditionFailed));
        let damaged = Some(BucketErrorKind::Damaged);
        assert_eq!(at.kinds(), [None, damaged, damaged, damaged, None, damaged]);
    }
    let wrong_checksum =
        at_gcs(412, r#"{"error":{"message":"crc32c validation failed. Expected = 1 vs Actual = 2."}}"#);
    assert_eq!(wrong_checksum.create.expect_err("damaged").kind, BucketErrorKind::Damaged);
}

#[test]
fn a_missing_object_and_a_missing_bucket_are_distinguished() {
    let unsupported = Some(BucketErrorKind::Unsupported);
    let object = at_gcs(404, "No such object: b/n");
    assert_eq!(
        (object.get, object.delete, object.delete_version),
        (Ok(false), Ok(Deletion::Deleted), Ok(Deletion::Deleted))
    );
    let bucket = r#"{"error":{"code":404,"message":"The specified bucket does not exist."}}"#;
    assert_eq!(at_gcs(404, bucket).kinds(), [unsupported; 6]);
    let object = at_s3(404, "<Error><Code>NoSuchKey</Code></Error>");
    assert_eq!(
        (object.get, object.delete, object.delete_version),
        (Ok(false), Ok(Deletion::Deleted), Ok(Deletion::Deleted))
    );
    assert_eq!(at_s3(404, "<Error><Code>NoSuchBucket</Code></Error>").kinds(), [unsupported; 6]);
    assert_eq!(at_s3(404, "").kinds(), [unsupported; 6]);
}

#[test]
fn messages_name_the_operation_and_the_permission() {
    let denied = at_gcs(403, r#"{"error":{"message":"denied.","errors":[{"reason":"forbidden"}]}}"#);
    let message = denied.list.expect_err("denied").message;
    assert!(message.contains("gs://b, listing names with") && message.contains("storage.objects.list"), "{message}");
    assert!(message.contains("denied. (forbidden)"), "{message}");
    let message = denied.create.expect_err("denied").message;
    assert!(message.contains("gs://b, writing n: not allowed (403); it needs storage.objects.create"), "{message}");
    let denied = at_s3(403, "<Error><Code>AccessDenied</Code><Message>No.</Message></Error>");
    let message = denied.get.expect_err("denied").message;
    assert!(message.contains("s3:GetObject") && message.contains("AccessDenied: No."), "{message}");
    let address = start(|request| Reply::new(403, &[], &format!("{:?} secret s3ssion", request.head.start)));
    let keys = Keys { session: Some(Secret::new("s3ssion")), ..s3::test_keys() };
    let message = s3::client("b", &address, keys).get("n").expect_err("denied").message;
    assert!(message.ends_with("GET /b/n HTTP/1.1\" … …"), "{message}");
    let elsewhere = start(|_| Reply::new(301, &[("x-amz-bucket-region", "eu-west-1")], ""));
    let message = s3::client("b", &elsewhere, s3::test_keys()).get("n").expect_err("elsewhere").message;
    assert!(message.contains("set AWS_REGION to eu-west-1"), "{message}");
}

#[test]
fn quotas_and_codes_of_aws() {
    let limited = at_gcs(403, r#"{"error":{"message":"slow","errors":[{"reason":"rateLimitExceeded"}]}}"#);
    assert_eq!(limited.kinds(), [Some(BucketErrorKind::Unknown); 6]);
    for (code, kind) in [
        ("<Error><Code>RequestTimeout</Code></Error>", BucketErrorKind::Unknown),
        ("<Error><Code>ExpiredToken</Code></Error>", BucketErrorKind::Forbidden),
        ("<Error><Code>InvalidToken</Code></Error>", BucketErrorKind::Forbidden),
        ("<Error><Code>BadDigest</Code></Error>", BucketErrorKind::Damaged),
    ] {
        assert_eq!(at_s3(400, code).kinds(), [Some(kind); 6], "{code}");
    }
}

#[test]
fn responses_without_required_fields_are_errors() {
    let no_date =
        start(|_| Reply { bytes: b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n".to_vec(), ..Reply::new(200, &[], "") });
    assert_eq!(gcs::client("b", &no_date).get("n").expect_err("no date").kind, BucketErrorKind::Unknown);
    let empty = at_gcs(200, "");
    let (unknown, damaged) = (Some(BucketErrorKind::Unknown), Some(BucketErrorKind::Damaged));
    assert_eq!(empty.kinds(), [unknown, unknown, damaged, None, None, unknown]);
    let empty = at_s3(200, "");
    assert_eq!(empty.kinds(), [unknown, unknown, unknown, None, None, unknown]);
    let no_checksum = start(|_| Reply::new(200, &[("x-goog-generation", "1")], "x"));
    assert_eq!(gcs::client("b", &no_checksum).get("n").expect_err("no checksum").kind, BucketErrorKind::Damaged);
}

#[test]
fn a_checksum_may_have_a_field_of_its_own() {
    let fields = [("x-goog-generation", "7"), ("x-goog-hash", "md5=AAAA"), ("x-goog-hash", "crc32c=BERIIg==")];
    let address = start(move |_| Reply::new(200, &fields, "v3"));
    let object = gcs::client("b", &address).get("n").expect("an answer").value.expect("an object");
    assert_eq!((&object.bytes[..], object.version), (&b"v3"[..], Version("7".into())));
}

#[test]
fn a_store_that_does_not_listen_is_unknown() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").to_string()
    };
    assert_eq!(results(&gcs::client("b", &address)).kinds(), [Some(BucketErrorKind::Unknown); 6]);
}
