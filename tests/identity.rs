//! Subjects that a proxy names by a JSON Web Token, from outside: which tokens are accepted, and what happens without the issuer's keys.

mod support;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};
use support::client::{Client, Response};
use support::server::{Server, Setup};
use support::{TempDir, eventually};

struct Issuer {
    key: EcdsaKeyPair,
    kid: &'static str,
}

impl Issuer {
    fn new(kid: &'static str) -> Issuer {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        Issuer { key: EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).expect("a key"), kid }
    }

    fn keys(&self) -> String {
        let (point, part) = (self.key.public_key().as_ref(), |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes));
        let (x, y) = (part(&point[1..33]), part(&point[33..]));
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": self.kid, "x": x, "y": y}]}).to_string()
    }

    fn token(&self, email: &str) -> String {
        self.changed(email, &json!({}), &json!({}))
    }

    /// A token with these members changed in its header and claims.
    fn changed(&self, email: &str, head: &Value, claims: &Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let mut all = [
            json!({"alg": "ES256", "kid": self.kid}),
            json!({"iss": "https://issuer.example", "aud": "here", "email": email, "email_verified": true,
                "iat": now, "exp": now + 600}),
        ];
        for (all, changed) in all.iter_mut().zip([head, claims]) {
            changed.as_object().expect("members").iter().for_each(|(name, value)| all[name] = value.clone());
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&all[0]), part(&all[1]));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

/// The server that publishes the issuer's keys.
struct KeyServer {
    url: String,
    /// None: it accepts connections and sends nothing.
    body: Arc<Mutex<Option<String>>>,
    fetches: Arc<AtomicUsize>,
}

impl KeyServer {
    fn start(body: Option<String>) -> KeyServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/keys", listener.local_addr().expect("an address"));
        let source = KeyServer { url, body: Arc::new(Mutex::new(body)), fetches: Arc::default() };
        let (body, fetches) = (source.body.clone(), source.fetches.clone());
        thread::spawn(move || {
            let mut silent = Vec::new();
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 4_096]);
                fetches.fetch_add(1, Ordering::SeqCst);
                match body.lock().expect("no panic").clone() {
                    Some(body) => {
                        let head =
                            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
                        let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes());
                    }
                    None => silent.push(stream),
                }
            }
        });
        source
    }

    fn publish(&self, body: String) {
        *self.body.lock().expect("no panic") = Some(body);
    }
}

struct Fixture {
    server: Server,
    state: TempDir,
    credential: String,
}

impl Fixture {
    fn start(source: &KeyServer, header: &str) -> Fixture {
        let state = TempDir::new("state");
        let file = state.path().join("identity.json");
        let text = json!({"kind": "jwt", "header": header, "issuer": "https://issuer.example", "audience": "here",
            "jwks": source.url, "subject": "email",
            "rights": {"*@example.com": ["view"], "ann@example.com": ["prompt"]}});
        std::fs::write(&file, text.to_string()).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
        command.args(["token", "add", "cara", "--rights", "view,prompt", "--state-dir"]).arg(state.path());
        let added = command.env_clear().env("HOME", state.path()).output().expect("the program");
        let credential = String::from_utf8(added.stdout).expect("text").trim().to_owned();
        let setup = Setup::without_model().args(["--access", "token", "--identity"]).arg(&file);
        Fixture { server: setup.state_dir(state.path()).start(), state, credential }
    }

    fn get(&self, fields: &[(&str, &str)]) -> Response {
        Client::new(&self.server.url()).request("GET", "/tasks", fields, b"")
    }

    fn send(&self, fields: &[(&str, &str)]) -> Response {
        let message = json!({"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "hello"}]});
        let body = json!({ "message": message }).to_string();
        let fields = [fields, &[("Content-Type", "application/json")]].concat();
        Client::new(&self.server.url()).request("POST", "/message:send", &fields, body.as_bytes())
    }

    fn ready(&self) -> Value {
        Client::new(&self.server.url()).get("/ready").json()
    }

    fn until_ready(&self) {
        eventually("the keys", || (self.ready()["ready"] == true).then_some(()));
    }
}

const HEADER: &str = "X-Goog-IAP-JWT-Assertion";

#[test]
fn a_token_names_a_subject_and_a_credential_wins_over_it() {
    let (issuer, other) = (Issuer::new("1"), Issuer::new("1"));
    let source = KeyServer::start(Some(issuer.keys()));
    let fixture = Fixture::start(&source, HEADER);
    fixture.until_ready();
    let [ann, bob, eve] = ["ann@example.com", "bob@example.com", "eve@example.org"].map(|email| issuer.token(email));
    let task = fixture.send(&[(HEADER, &ann)]);
    assert_eq!(task.status(), 200, "{}", task.text());
    let total = |fields: &[(&str, &str)]| fixture.get(fields).json()["totalSize"].clone();
    assert_eq!(
        (total(&[(HEADER, &ann)]), total(&[(HEADER, &bob)])),
        (json!(1), json!(0)),
        "each subject has its own tasks"
    );
    assert_eq!(fixture.send(&[(HEADER, &bob)]).status(), 403, "bob has only the right `view`");
    assert_eq!(fixture.get(&[(HEADER, &eve)]).status(), 403, "eve has no right");
    assert_eq!(fixture.get(&[(HEADER, &other.token("ann@example.com"))]).status(), 401, "forged");
    assert_eq!(
        fixture.get(&[("Authorization", &format!("Bearer {ann}"))]).status(),
        401,
        "a token in another field is ignored"
    );
    let bearer = format!("Bearer {}", fixture.credential);
    let both = [(HEADER, ann.as_str()), ("Authorization", &bearer)];
    assert_eq!(total(&both), 0, "the tasks of cara");
    assert_eq!(fixture.send(&both).status(), 200);
    let audited = || {
        let dir = std::fs::read_dir(fixture.state.path().join("audit")).expect("an audit");
        let texts = dir.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
        let lines: Vec<Value> = texts
            .flat_map(|text| text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<_>>())
            .collect();
        lines.into_iter().find(|line| line["kind"] == "prompted" && line["who"]["credential"] == "cara")
    };
    let line = eventually("the prompt in the audit", audited);
    assert_eq!(line["who"]["identity"], "ann@example.com", "whom the proxy names is audited: {line}");
    let wrong = [(HEADER, ann.as_str()), ("Authorization", "Bearer ga2a_cara_wrong")];
    assert_eq!(fixture.get(&wrong).status(), 401, "a wrong credential is refused even with a valid token");
    for token in [&ann, &bob] {
        assert!(!fixture.server.output().contains(token.as_str()));
        let found = Command::new("grep").args(["-rF", token]).arg(fixture.state.path()).output().expect("grep");
        assert!(found.stdout.is_empty());
    }
    let card = Client::new(&fixture.server.url()).get("/.well-known/agent-card.json").json();
    let url = "https://issuer.example/.well-known/openid-configuration";
    assert_eq!(card["securitySchemes"]["oidc"]["openIdConnectSecurityScheme"]["openIdConnectUrl"], url);
    assert_eq!(card["securitySchemes"]["oidc"]["type"], "openIdConnect");
    assert!(card["security"].as_array().expect("a list").contains(&json!({ "oidc": [] })));
}

#[test]
fn a_ticket_of_a_subject_opens_one_socket() {
    let issuer = Issuer::new("1");
    let source = KeyServer::start(Some(issuer.keys()));
    let fixture = Fixture::start(&source, HEADER);
    fixture.until_ready();
    let ticket = |email: &str| {
        let token = issuer.token(email);
        let fields = [(HEADER, token.as_str()), ("Content-Type", "application/json")];
        let issued = Client::new(&fixture.server.url()).request("POST", "/ticket", &fields, b"{}");
        assert_eq!(issued.status(), 201, "{}", issued.text());
        issued.json()["ticket"].as_str().expect("a text").to_owned()
    };
    let open = |ticket: &str| {
        let protocols = format!("gemini-a2a.v1, ticket.{ticket}");
        let fields = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Protocol", &protocols),
        ];
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", fixture.server.port())).expect("it listens");
        let client = Client::new(&fixture.server.url());
        stream.write_all(&client.bytes("GET", "/ws", &fields, b"")).expect("it is sent");
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("it is answered");
        String::from_utf8_lossy(&head[9..]).into_owned()
    };
    let of_ann = ticket("ann@example.com");
    assert_eq!([open(&of_ann), open(&of_ann)], ["101", "401"], "once");
    let last = of_ann.len() - 1;
    let forged = format!("{}{}", &of_ann[..last], if of_ann.ends_with('A') { "Q" } else { "A" });
    assert_eq!(open(&forged), "401", "a changed ticket");
}

/// A token with a defect is refused, and the audit records each refusal.
#[test]
fn tokens_with_a_defect_are_refused_and_audited() {
    let (issuer, other) = (Issuer::new("1"), Issuer::new("1"));
    let source = KeyServer::start(Some(issuer.keys()));
    let fixture = Fixture::start(&source, HEADER);
    fixture.until_ready();
    let none = json!({});
    let ann = |head: Value, claims: Value| issuer.changed("ann@example.com", &head, &claims);
    let defects = [
        ann(json!({"alg": "none"}), none.clone()),
        ann(json!({"alg": "HS256"}), none.clone()),
        ann(none.clone(), json!({"iss": "https://other.example"})),
        ann(none.clone(), json!({"aud": "elsewhere"})),
        ann(none.clone(), json!({"exp": 1_000})),
        ann(none.clone(), json!({"nbf": 4_000_000_000_u64})),
        ann(none.clone(), json!({"email_verified": false})),
        other.token("ann@example.com"),
    ];
    for token in &defects {
        assert_eq!(fixture.get(&[(HEADER, token)]).status(), 401, "{token}");
    }
    let entries = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
        command.args(["audit", "show", "--json", "--state-dir"]).arg(fixture.state.path()).env_clear();
        let shown = String::from_utf8(command.output().expect("the program").stdout).expect("text");
        let lines = shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["kind"] == "denied" && line["what"]["reason"] == "credential").collect::<Vec<_>>()
    };
    eventually("the refusals in the audit", || (!entries().is_empty()).then_some(()));
    assert!(entries().iter().all(|entry| entry["who"]["subject"].is_null()), "{:?}", entries());
}

#[test]
fn a_token_may_be_the_bearer_of_a_request() {
    let issuer = Issuer::new("1");
    let source = KeyServer::start(Some(issuer.keys()));
    let fixture = Fixture::start(&source, "Authorization");
    fixture.until_ready();
    let bearer = format!("Bearer {}", issuer.token("ann@example.com"));
    assert_eq!(fixture.get(&[("Authorization", &bearer)]).status(), 200);
    assert_eq!(fixture.get(&[("Authorization", &format!("Bearer {}", fixture.credential))]).status(), 200);
}

#[test]
fn new_keys_are_fetched_and_unknown_ones_do_not_flood_the_source() {
    let (old, new) = (Issuer::new("1"), Issuer::new("2"));
    let source = KeyServer::start(Some(old.keys()));
    let fixture = Fixture::start(&source, HEADER);
    fixture.until_ready();
    let of_new = new.token("ann@example.com");
    // After ten wrong tokens a minute from one address the status is 429.
    for _ in 0..20 {
        assert!(matches!(fixture.get(&[(HEADER, &of_new)]).status(), 401 | 429));
    }
    assert_eq!(source.fetches.load(Ordering::SeqCst), 1, "the keys were fetched less than a minute ago");
    source.publish(new.keys());
    let pid = Pid::from_raw(fixture.server.pid() as i32).expect("a process");
    kill_process(pid, Signal::HUP).expect("our own server");
    eventually("the new keys", || (fixture.get(&[(HEADER, &of_new)]).status() == 200).then_some(()));
    assert!(matches!(fixture.get(&[(HEADER, &old.token("ann@example.com"))]).status(), 401 | 429));
}

#[test]
fn without_keys_tokens_are_refused_and_the_server_is_not_ready() {
    let issuer = Issuer::new("1");
    for body in [None, Some("<html>".to_owned()), Some(" ".repeat(70_000) + &issuer.keys())] {
        let source = KeyServer::start(body);
        let fixture = Fixture::start(&source, HEADER);
        let token = issuer.token("ann@example.com");
        assert_eq!(fixture.get(&[(HEADER, &token)]).status(), 401);
        eventually("a fetch", || (source.fetches.load(Ordering::SeqCst) > 0).then_some(()));
        assert_eq!(fixture.ready(), json!({"ready": false, "why": ["identity"]}));
        let bearer = format!("Bearer {}", fixture.credential);
        assert_eq!(fixture.get(&[("Authorization", &bearer)]).status(), 200, "credentials work without the keys");
    }
}
