//! Access tokens of Google: how they are requested, when they are renewed, and which credentials are refused. The tests use `openssl` to create
//! keys and to check signatures.

use crate::server::{Reply, Request, start};
use crate::support::TempDir;
use crate::tape::decoded;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use gemini_a2a::bucket::{Bucket, BucketErrorKind};
use gemini_a2a::shell::bucket::agent;
use gemini_a2a::shell::bucket::gcs::Gcs;
use gemini_a2a::shell::bucket::google::{CLOUD_SCOPE, Origin, STORAGE_SCOPE, Tokens};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use ureq::tls::TlsConfig;

fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// A clock that the test moves.
#[derive(Clone, Default)]
struct TestClock(Arc<AtomicU64>);

impl TestClock {
    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1_000, Ordering::SeqCst);
    }
}

/// A server whose tokens `t1`, `t2`, … are valid for an hour each, and the number of its requests.
fn token_server(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> (String, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let address = start(move |request| answer(request, counted.fetch_add(1, Ordering::SeqCst) + 1));
    (address, count)
}

fn token(number: usize) -> Reply {
    Reply::new(
        200,
        &[],
        &json!({"access_token": format!("t{number}"), "expires_in": 3600, "token_type": "Bearer"}).to_string(),
    )
}

/// The tokens of the metadata server at this address.
fn of_machine(address: &str, clock: &TestClock) -> Tokens {
    let origin = Origin { file: None, metadata_host: Some(address) };
    let tokens = Tokens::new(&origin, STORAGE_SCOPE, TlsConfig::default(), |_| None).expect("credentials");
    let clock = clock.0.clone();
    tokens.with_clock(move || clock.load(Ordering::SeqCst))
}

fn of_file(file: &Path) -> Result<Tokens, String> {
    let origin = Origin { file: Some(file), metadata_host: None };
    Tokens::new(&origin, CLOUD_SCOPE, TlsConfig::default(), |_| None)
}

fn text_of(tokens: &Tokens) -> String {
    tokens.token(later()).expect("a token").reveal().to_owned()
}

#[test]
fn requests_to_the_metadata_server_have_its_header() {
    let (address, _) = token_server(|request, number| {
        let path = "/computeMetadata/v1/instance/service-accounts/default/token?scopes=";
        assert_eq!((request.head.method(), request.head.field("metadata-flavor")), ("GET", Some("Google")));
        assert_eq!(decoded(request.head.target()), format!("{path}{STORAGE_SCOPE}"));
        token(number)
    });
    assert_eq!(text_of(&of_machine(&address, &TestClock::default())), "t1");
}

#[test]
fn a_hundred_callers_cause_one_request() {
    let (address, count) = token_server(|_, number| token(number));
    let tokens = of_machine(&address, &TestClock::default());
    let barrier = Barrier::new(100);
    thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                barrier.wait();
                assert_eq!(text_of(&tokens), "t1");
            });
        }
    });
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn a_token_is_renewed_once_before_it_expires_and_callers_do_not_wait() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let held = gate.clone();
    let (address, count) = token_server(move |_, number| {
        if number == 2 {
            let open = held.1.wait_while(held.0.lock().expect("a lock"), |is_open| !*is_open).expect("a lock");
            drop(open);
        }
        token(number)
    });
    let clock = TestClock::default();
    let tokens = of_machine(&address, &clock);
    assert_eq!(text_of(&tokens), "t1");
    clock.advance(3_600 - 301);
    assert_eq!(text_of(&tokens), "t1");
    assert_eq!(count.load(Ordering::SeqCst), 1, "it lasts for more than five minutes");
    clock.advance(2);
    let (barrier, old) = (Barrier::new(100), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                barrier.wait();
                match text_of(&tokens).as_str() {
                    // All but the one that renews it go on with the old token. The last of them lets the answer go.
                    "t1" if old.fetch_add(1, Ordering::SeqCst) + 1 == 99 => {
                        *gate.0.lock().expect("a lock") = true;
                        gate.1.notify_all();
                    }
                    "t1" | "t2" => {}
                    other => panic!("{other}"),
                }
            });
        }
    });
    assert_eq!((old.load(Ordering::SeqCst), count.load(Ordering::SeqCst)), (99, 2));
    assert_eq!(text_of(&tokens), "t2");
}

#[test]
fn after_a_failed_renewal_the_old_token_is_used_until_it_expires() {
    let (address, count) = token_server(|_, number| match number {
        1 => token(1),
        _ => Reply::new(503, &[], "later"),
    });
    let clock = TestClock::default();
    let tokens = of_machine(&address, &clock);
    let requests = || count.load(Ordering::SeqCst);
    assert_eq!(text_of(&tokens), "t1");
    clock.advance(3_400);
    assert_eq!((text_of(&tokens), requests()), ("t1".into(), 2));
    assert_eq!((text_of(&tokens), requests()), ("t1".into(), 2), "not again at once");
    clock.advance(31);
    assert_eq!((text_of(&tokens), requests()), ("t1".into(), 3));
    clock.advance(200);
    let error = tokens.token(later()).expect_err("it has ended");
    assert_eq!(error.kind, BucketErrorKind::Unknown);
    assert!(error.message.contains("GOOGLE_APPLICATION_CREDENTIALS"), "{error}");
}

/// A store that answers 401 to all tokens before this one.
fn store(first: &'static str) -> (String, Arc<AtomicUsize>) {
    token_server(move |request, _| match request.head.field("authorization") {
        Some(bearer) if bearer >= first => Reply::new(404, &[], "No such object"),
        _ => Reply::new(401, &[], r#"{"error":{"message":"Invalid Credentials"}}"#),
    })
}

fn gcs(store: &str, tokens: Tokens) -> Gcs {
    Gcs::new("b", &format!("http://{store}"), agent(TlsConfig::default(), None).expect("an agent"), Some(tokens))
}

#[test]
fn a_refused_token_is_replaced_once() {
    for (first, requests, tokens) in [("Bearer t1", 1, 1), ("Bearer t2", 2, 2), ("Bearer t3", 2, 2)] {
        let (machine, fetched) = token_server(|_, number| token(number));
        let (store, asked) = store(first);
        let got = gcs(&store, of_machine(&machine, &TestClock::default())).get("n");
        match first {
            "Bearer t3" => assert_eq!(got.expect_err("refused").kind, BucketErrorKind::Forbidden),
            _ => assert_eq!(got.expect("an answer").value, None),
        }
        assert_eq!((asked.load(Ordering::SeqCst), fetched.load(Ordering::SeqCst)), (requests, tokens), "{first}");
    }
}

#[test]
fn the_store_reports_the_error_of_a_missing_token() {
    for (status, kind) in
        [(500, BucketErrorKind::Unknown), (429, BucketErrorKind::Unknown), (404, BucketErrorKind::Forbidden)]
    {
        let (machine, _) = token_server(move |_, _| Reply::new(status, &[], ""));
        let tokens = of_machine(&machine, &TestClock::default());
        let error = gcs("127.0.0.1:9", tokens).get("n").expect_err("there is no token");
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains("gs://b, reading n: the metadata server gives no token"), "{error}");
    }
    let (machine, _) = token_server(|_, _| Reply::new(200, &[], r#"{"access_token":"a b","expires_in":3600}"#));
    let error = of_machine(&machine, &TestClock::default()).token(later()).expect_err("it is no token");
    assert_eq!(error.kind, BucketErrorKind::Unknown);
}

/// A new key of a service account, in a folder with its public key.
fn new_key(bits: u32) -> Option<TempDir> {
    let dir = TempDir::new("service-account");
    let openssl = |line: &str| {
        let done = Command::new("openssl").args(line.split(' ')).current_dir(dir.path()).output().ok()?;
        done.status.success().then_some(())
    };
    let made = openssl(&format!("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:{bits} -out key.pem"));
    if made.and_then(|()| openssl("pkey -in key.pem -pubout -out public.pem")).is_none() {
        eprintln!("skipped: there is no openssl");
        return None;
    }
    Some(dir)
}

fn account(dir: &TempDir, token_uri: &str) -> PathBuf {
    let key = std::fs::read_to_string(dir.path().join("key.pem")).expect("a key");
    let account = json!({"type": "service_account", "project_id": "p", "private_key_id": "k1", "private_key": key,
        "client_email": "me@p.iam.gserviceaccount.com", "token_uri": token_uri});
    write(dir, &account.to_string())
}

fn write(dir: &TempDir, text: &str) -> PathBuf {
    let file = dir.path().join("credentials.json");
    std::fs::write(&file, text).expect("a file");
    file
}

fn form(request: &Request) -> Vec<(String, String)> {
    let body = String::from_utf8(request.body.clone()).expect("a form");
    let pair = |piece: &str| piece.split_once('=').map(|(name, value)| (decoded(name), decoded(value)));
    body.split('&').map(|piece| pair(piece).expect("a pair")).collect()
}

#[test]
fn a_service_account_signs_a_request() {
    let Some(dir) = new_key(2048) else { return };
    let forms = Arc::new(Mutex::new(Vec::new()));
    let (seen, sent) = (forms.clone(), |request: &Request| form(request));
    let (address, _) = token_server(move |request, number| {
        assert_eq!(request.head.field("content-type"), Some("application/x-www-form-urlencoded"));
        seen.lock().expect("a lock").push(sent(request));
        token(number)
    });
    let uri = format!("http://{address}/token");
    let tokens = of_file(&account(&dir, &uri)).expect("credentials").with_clock(|| 1_794_884_400_123);
    assert_eq!(text_of(&tokens), "t1");
    let form = forms.lock().expect("a lock").remove(0);
    assert_eq!(form[0], ("grant_type".into(), "urn:ietf:params:oauth:grant-type:jwt-bearer".into()));
    assert_eq!((form[1].0.as_str(), form.len()), ("assertion", 2));
    let (signed, signature) = form[1].1.rsplit_once('.').expect("three parts");
    let (header, claims) = signed.split_once('.').expect("three parts");
    let value =
        |part: &str| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("JSON") };
    assert_eq!(value(header), json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
    let expected = json!({"iss": "me@p.iam.gserviceaccount.com", "scope": CLOUD_SCOPE, "aud": uri,
        "iat": 1_794_884_400u64, "exp": 1_794_888_000u64});
    assert_eq!(value(claims), expected);
    let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64");
    let pem = std::fs::read_to_string(dir.path().join("key.pem")).expect("a key");
    let der: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let key = RsaKeyPair::from_pkcs8(&STANDARD.decode(der).expect("base64")).expect("a key");
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public().as_ref().to_vec());
    public.verify(signed.as_bytes(), &signature).expect("ring verifies it");
    std::fs::write(dir.path().join("signed"), signed).expect("a file");
    std::fs::write(dir.path().join("signature"), &signature).expect("a file");
    let line = "dgst -sha256 -verify public.pem -signature signature signed";
    let verified = Command::new("openssl").args(line.split(' ')).current_dir(dir.path()).status();
    assert!(verified.expect("openssl").success(), "openssl verifies it");
}

const USER: &str = r#"{"type":"authorized_user","client_id":"id","client_secret":"s3cret","refresh_token":"1//refresh",
    "quota_project_id":"quota","token_uri":"URI"}"#;

#[test]
fn a_user_refreshes_a_login() {
    let (address, _) = token_server(|request, number| {
        let sent = form(request);
        let sent: Vec<(&str, &str)> = sent.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            ("grant_type", "refresh_token"),
            ("client_id", "id"),
            ("client_secret", "s3cret"),
            ("refresh_token", "1//refresh"),
        ];
        assert_eq!(sent, expected);
        token(number)
    });
    let dir = TempDir::new("authorized-user");
    let file = write(&dir, &USER.replace("URI", &format!("http://{address}/token")));
    let tokens = of_file(&file).expect("credentials");
    assert_eq!((text_of(&tokens).as_str(), tokens.quota_project()), ("t1", Some("quota")));
}

#[test]
fn an_expired_login_is_an_error_for_the_operator() {
    let (address, _) = token_server(|_, _| {
        Reply::new(400, &[], r#"{"error":"invalid_grant","error_description":"Token has been expired or revoked."}"#)
    });
    let dir = TempDir::new("authorized-user");
    let file = write(&dir, &USER.replace("URI", &format!("http://{address}/token")));
    let error = of_file(&file).expect("credentials").token(later()).expect_err("it is over");
    assert_eq!(error.kind, BucketErrorKind::Forbidden);
    for words in ["invalid_grant: Token has been expired", "gcloud auth application-default login"] {
        assert!(error.message.contains(words), "{error}");
    }
    assert!(!error.message.contains("s3cret") && !error.message.contains("1//refresh"), "{error}");
}

#[test]
fn other_credentials_are_refused_with_advice() {
    let dir = TempDir::new("credentials");
    let pkcs1 = r#"{"type":"service_account","client_email":"a","private_key":"-----BEGIN RSA KEY-----\nxyzzy\n"}"#;
    let not_rsa = r#"{"type":"service_account","client_email":"a","private_key":"-----BEGIN PRIVATE KEY-----\neHl6enk=\n-----END PRIVATE KEY-----"}"#;
    let large = "x".repeat(70_000);
    for (text, words) in [
        (r#"{"type":"external_account","audience":"xyzzy"}"#, "external_account, which is not supported. Use the key"),
        (r#"{"type":"impersonated_service_account"}"#, "unset the variable"),
        (r#"{"installed":{"client_secret":"xyzzy"}}"#, "has no type"),
        ("xyzzy {", "is not JSON"),
        (r#"{"type":"authorized_user","refresh_token":"xyzzy"}"#, "needs client_id, client_secret and refresh_token"),
        (r#"{"type":"service_account","client_email":"a"}"#, "has no private_key"),
        (pkcs1, "not PKCS #8 in PEM"),
        (not_rsa, "not an RSA key of 2048 bits"),
        (&USER.replace("URI", "http://example.com/xyzzy"), "token_uri that is not https"),
        (&large, "is larger than"),
    ] {
        let error = of_file(&write(&dir, text)).err().expect("it is refused");
        assert!(error.starts_with("GOOGLE_APPLICATION_CREDENTIALS: ") && error.contains(words), "{error}");
        assert!(!error.contains("xyzzy"), "{error}");
    }
    let error = of_file(&dir.path().join("none")).err().expect("it is refused");
    assert!(error.contains("cannot be read"), "{error}");
}
