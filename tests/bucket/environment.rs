//! The bucket that environment variables select.

use crate::server::{Reply, start};
use gemini_a2a::bucket::{Bucket, BucketErrorKind};
use gemini_a2a::shell::bucket::{ConfigError, from_environment};
use std::sync::Arc;
use ureq::tls::TlsConfig;

fn bucket(set: &[(&str, &str)]) -> Result<Option<Arc<dyn Bucket>>, ConfigError> {
    let variable = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
    from_environment(&variable, TlsConfig::default())
}

#[test]
fn no_bucket_is_selected_by_default() {
    for set in [&[][..], &[("A2A_GCS_BUCKET", "")], &[("STORAGE_EMULATOR_HOST", "localhost:9")], &[("AWS_REGION", "r")]]
    {
        assert!(bucket(set).expect("no error").is_none(), "{set:?}");
    }
}

#[test]
fn an_emulator_gets_no_token_and_its_scheme_may_be_left_out() {
    let address = start(|request| match (request.head.target(), request.head.field("authorization")) {
        ("/storage/v1/b/my-bucket/o/n%2Fa?alt=media", None) => Reply::new(404, &[], "No such object"),
        other => Reply::new(400, &[], &format!("{other:?}")),
    });
    for host in [address.clone(), format!("http://{address}"), format!("http://{address}/")] {
        for name in ["A2A_GCS_BUCKET", "GCS_BUCKET_NAME"] {
            let set = [(name, "my-bucket"), ("STORAGE_EMULATOR_HOST", host.as_str())];
            let bucket = bucket(&set).expect("no error").expect("a bucket");
            assert_eq!(bucket.get("n/a").expect("an answer").value, None);
        }
    }
}

#[test]
fn a_bucket_of_google_needs_credentials_when_it_is_used() {
    let machine = start(|_| Reply::new(503, &[], ""));
    let set = [("A2A_GCS_BUCKET", "b"), ("GCE_METADATA_HOST", machine.as_str())];
    let error = bucket(&set).expect("no error").expect("a bucket").get("n").expect_err("there is no token");
    assert_eq!(error.kind, BucketErrorKind::Unknown);
    assert!(error.message.contains("metadata server"), "{error}");
}

#[test]
fn a_bucket_of_s3_at_an_endpoint() {
    let address = start(|request| {
        let scope =
            "/eu-west-9/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, ";
        let signed = request.head.field("authorization").is_some_and(|value| value.contains(scope));
        match (request.head.target(), request.head.field("x-amz-security-token"), signed) {
            ("/my-bucket/n/a", Some("session"), true) => Reply::new(404, &[], "<Error><Code>NoSuchKey</Code></Error>"),
            other => Reply::new(400, &[], &format!("{other:?}")),
        }
    });
    let (right, wrong) = (format!("http://{address}"), "http://127.0.0.1:9".to_owned());
    for (special, general, region) in [(&*right, &*wrong, "AWS_REGION"), ("", &right, "AWS_DEFAULT_REGION")] {
        let set = [
            ("A2A_S3_BUCKET", "my-bucket"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_SESSION_TOKEN", "session"),
            (region, "eu-west-9"),
            ("AWS_ENDPOINT_URL_S3", special),
            ("AWS_ENDPOINT_URL", general),
        ];
        let bucket = bucket(&set).expect("no error").expect("a bucket");
        assert_eq!(bucket.get("n/a").expect("an answer").value, None);
    }
}

#[test]
fn unusable_variables_are_named() {
    let keys = [("A2A_S3_BUCKET", "b"), ("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let with = |more: (&'static str, &'static str)| [&keys[..], &[more]].concat();
    for (set, words) in [
        (vec![("A2A_GCS_BUCKET", "b"), ("A2A_S3_BUCKET", "b")], "A2A_GCS_BUCKET and A2A_S3_BUCKET are both set"),
        (vec![("GCS_BUCKET_NAME", "b"), ("A2A_S3_BUCKET", "b")], "GCS_BUCKET_NAME and A2A_S3_BUCKET are both set"),
        (vec![("A2A_GCS_BUCKET", "gs://b")], "A2A_GCS_BUCKET must be the name of a bucket"),
        (vec![("A2A_S3_BUCKET", "b/c")], "A2A_S3_BUCKET must be the name of a bucket"),
        (vec![("A2A_S3_BUCKET", "b")], "A2A_S3_BUCKET needs AWS_ACCESS_KEY_ID"),
        (keys[..2].to_vec(), "A2A_S3_BUCKET needs AWS_SECRET_ACCESS_KEY"),
        (keys.to_vec(), "needs AWS_REGION, or AWS_ENDPOINT_URL"),
        (with(("AWS_REGION", "evil.example/")), "AWS_REGION must be letters"),
        (with(("AWS_ENDPOINT_URL", "localhost:9000")), "must be an http(s) URL"),
        (vec![("A2A_GCS_BUCKET", "b"), ("GOOGLE_APPLICATION_CREDENTIALS", "/none/such")], "/none/such cannot be read"),
    ] {
        let error = bucket(&set).err().expect("it is refused").to_string();
        assert!(error.contains(words), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
