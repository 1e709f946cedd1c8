//! Access control: requests of other origins, of other users and of the agent's own processes are refused. No secret is shown.

use crate::drive::{Fixture, can_be_another_user, files_below, has, task_in};
use crate::support::client::Client;
use crate::support::message::{approval, call_of, call_status_of, prompt, text_of};
use serde_json::{Value, json};
use std::process::Command;

const TYPES: [Option<&str>; 4] =
    [Some("application/json"), Some("text/plain"), Some("application/x-www-form-urlencoded"), None];

/// The files that a request could change.
fn traces(fixture: &Fixture) -> (Value, usize, Vec<(std::path::PathBuf, Vec<u8>)>) {
    let health = fixture.client().get("/health").json();
    let mut files = files_below(&fixture.server.state_dir());
    // The server checks from time to time whether it can write.
    files.retain(|(path, _)| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("trial.")));
    (health["totalTasks"].clone(), fixture.fake.requests().len(), files)
}

fn rpc_body() -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": prompt("TEXT hi") }).to_string()
}

/// Every route, with a body where it takes one.
fn routes(task: &str) -> Vec<(&'static str, String, String)> {
    let cancel = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/cancel", "params": { "id": task } });
    vec![
        ("POST", "/".into(), rpc_body()),
        ("POST", "/".into(), cancel.to_string()),
        ("POST", "/tasks".into(), "{}".into()),
        ("POST", "/tasks".into(), String::new()),
        ("GET", "/tasks/metadata".into(), String::new()),
        ("GET", format!("/tasks/{task}/metadata"), String::new()),
        ("GET", "/health".into(), String::new()),
        ("GET", "/listCommands".into(), String::new()),
        ("POST", "/executeCommand".into(), r#"{"command":"stats"}"#.into()),
        ("GET", "/.well-known/agent-card.json".into(), String::new()),
    ]
}

#[test]
fn requests_of_other_origins_are_refused() {
    let fixture = Fixture::new();
    let task = task_in(&fixture.say("TEXT before"));
    let before = traces(&fixture);
    let port = fixture.server.port();
    let other_port = format!("http://localhost:{}", port ^ 1);
    let https = format!("https://localhost:{port}");
    let origins = ["null", "http://evil.test", "https://evil.test:443", &other_port, &https, "file://", "garbage", ""];
    let mut client = fixture.client();
    for (method, path, body) in routes(&task) {
        for origin in origins {
            for media in TYPES {
                let mut fields = vec![("Origin", origin)];
                fields.extend(media.map(|media| ("Content-Type", media)));
                let answer = client.request(method, &path, &fields, body.as_bytes());
                // A page cannot read the card without CORS headers; a back-end that forwards an origin can.
                let status = if path == "/.well-known/agent-card.json" { 200 } else { 403 };
                assert_eq!(answer.status(), status, "{method} {path} from {origin:?} as {media:?}");
                assert_eq!(answer.head.field("access-control-allow-origin"), None);
            }
        }
        for site in ["cross-site", "same-site"] {
            let fields = [("Sec-Fetch-Site", site), ("Content-Type", "application/json")];
            let answer = client.request(method, &path, &fields, body.as_bytes());
            assert_eq!(answer.status(), 403, "{method} {path} {site}");
        }
    }
    assert_eq!(traces(&fixture), before, "nothing has changed");
}

#[test]
fn two_origins_are_refused_whichever_is_allowed() {
    let fixture = Fixture::new();
    let before = traces(&fixture);
    let own = format!("http://127.0.0.1:{}", fixture.server.port());
    for origins in [[own.as_str(), "https://evil.test"], ["https://evil.test", &own], [&own, &own]] {
        let fields = [("Content-Type", "application/json"), ("Origin", origins[0]), ("Origin", origins[1])];
        let answer = fixture.client().request("POST", "/", &fields, rpc_body().as_bytes());
        assert_eq!(answer.status(), 400, "{origins:?}");
        let upgrade = [("Upgrade", "websocket"), ("Origin", origins[0]), ("Origin", origins[1])];
        assert_eq!(fixture.client().request("GET", "/ws", &upgrade, b"").status(), 400, "{origins:?}");
    }
    assert_eq!(traces(&fixture), before, "nothing has changed");
}

#[test]
fn a_body_that_a_form_could_send_is_not_read() {
    let fixture = Fixture::new();
    let before = traces(&fixture);
    let own = format!("http://127.0.0.1:{}", fixture.server.port());
    let mut client = fixture.client();
    for origin in [None, Some(own.as_str())] {
        for media in TYPES.into_iter().filter(|media| *media != Some("application/json")) {
            if origin.is_none() && media.is_none() {
                continue; // A request without `Content-Type` and `Origin` does not come from a page: allowed.
            }
            let mut fields: Vec<(&str, &str)> = origin.map(|origin| ("Origin", origin)).into_iter().collect();
            fields.extend(media.map(|media| ("Content-Type", media)));
            let rpc = client.request("POST", "/", &fields, rpc_body().as_bytes());
            assert_eq!(rpc.json()["error"]["code"], -32005, "{origin:?} {media:?}");
            let create = client.request("POST", "/tasks", &fields, b"{}");
            let status = if media.is_none() { 415 } else { 400 };
            assert_eq!(create.status(), status, "{origin:?} {media:?}");
            assert_eq!(rpc.status() == 415, media.is_none(), "a body without a type is refused in the head");
        }
    }
    assert_eq!(traces(&fixture), before, "nothing has changed");
    for fields in [
        vec![],
        vec![("Content-Type", "application/json")],
        vec![("Content-Type", "application/json"), ("Origin", own.as_str())],
        vec![("Content-Type", "application/json"), ("Origin", own.as_str()), ("Sec-Fetch-Site", "same-origin")],
    ] {
        let answer = client.request("POST", "/", &fields, rpc_body().as_bytes());
        assert_eq!(answer.status(), 200, "{fields:?}");
        assert!(answer.json().get("result").is_some(), "{fields:?}");
    }
}

#[test]
fn a_foreign_host_name_is_refused() {
    let fixture = Fixture::with(|setup| setup.arg("--allowed-host").arg("Agent.Example"));
    let before = traces(&fixture);
    let port = fixture.server.port();
    let ask = |target: &str, host: &str| {
        let body = rpc_body();
        let request = format!(
            "POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut conn = fixture.client().raw();
        conn.send(request.as_bytes()).expect("sending");
        conn.response(crate::support::http::Side::Response).expect("an answer").status()
    };
    for host in [
        "evil.test",
        &format!("evil.test:{port}"),
        "localhost.evil.test",
        "127.0.0.1.evil.test",
        "localhost.",
        "0.0.0.0",
        "[::]",
        "localhost@evil.test",
        "evil.test#localhost",
        "",
    ] {
        let status = ask("/", host);
        assert!([400, 403].contains(&status), "{host:?}: {status}");
    }
    // A host in the request target must be allowed, too.
    let status = ask("http://evil.test/", "localhost");
    assert!([400, 403].contains(&status), "{status}");
    assert_eq!(traces(&fixture), before, "nothing has changed");
    for host in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]", &format!("localhost:{port}"), "agent.example"] {
        assert_eq!(ask("/", host), 200, "{host:?}");
    }
}

#[test]
fn an_allowed_origin_is_served() {
    let fixture = Fixture::with(|setup| setup.arg("--allowed-origin").arg("https://console.example"));
    let mut client = fixture.client();
    let mut ask = |origin: &str, site: &str| {
        let fields = [("Content-Type", "application/json"), ("Origin", origin), ("Sec-Fetch-Site", site)];
        client.request("POST", "/", &fields, rpc_body().as_bytes()).status()
    };
    assert_eq!(ask("https://console.example", "cross-site"), 200);
    assert_eq!(ask("https://console.example.evil.test", "cross-site"), 403);
    assert_eq!(ask("http://console.example", "cross-site"), 403);
}

#[test]
fn an_allowed_origin_gets_cors_headers() {
    let fixture = Fixture::with(|setup| setup.arg("--allowed-origin").arg("https://console.example"));
    let mut client = fixture.client();
    let page = ("Origin", "https://console.example");
    let asks = [
        page,
        ("Sec-Fetch-Site", "cross-site"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "a2a-version,content-type"),
    ];
    let leave = client.request("OPTIONS", "/message:stream", &asks, b"");
    assert_eq!(leave.status(), 204);
    let field = |name: &str| leave.head.field(name);
    assert_eq!(field("access-control-allow-origin"), Some(page.1));
    assert_eq!(field("access-control-allow-methods"), Some("POST"));
    assert_eq!(field("access-control-allow-headers"), Some("a2a-version,content-type"));

    let json = ("Content-Type", "application/json");
    let body = json!({ "message": "TEXT hi" }).to_string();
    let stream = client.events("POST", "/message/stream", &[page, json], body.as_bytes());
    let reads = stream.head().field("access-control-allow-origin");
    assert_eq!(reads, Some(page.1));
    for (path, status) in [("/health", 200), ("/tasks/none", 404)] {
        let answer = client.request("GET", path, &[page], b"");
        assert_eq!(answer.status(), status, "{path}");
        let reads = answer.head.field("access-control-allow-origin");
        assert_eq!(reads, Some(page.1), "{path}");
        // The same connection without `Origin`.
        let answer = client.request("GET", path, &[], b"");
        assert_eq!(answer.head.field("access-control-allow-origin"), None);
    }
    let other = [("Origin", "https://evil.test"), asks[2]];
    let refused = client.request("OPTIONS", "/message:stream", &other, b"");
    assert_eq!(refused.status(), 403);
    assert_eq!(refused.head.field("access-control-allow-origin"), None);
}

#[test]
fn another_user_gets_the_card_and_health_only() {
    if !can_be_another_user() || !has("curl") {
        return;
    }
    let fixture = Fixture::new();
    let task = task_in(&fixture.say("TEXT before"));
    let before = traces(&fixture);
    let curl = |method: &str, path: &str, body: &str| -> String {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-s", "-o", "/dev/null"])
            .args(["-w", "%{http_code}", "-X", method, "-H", "Content-Type: application/json"])
            .args(["--noproxy", "*", "--data", body, &format!("{}{path}", fixture.server.url())])
            .output()
            .expect("curl as another user");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (method, path, body) in routes(&task) {
        let public = path == "/health" || path.starts_with("/.well-known/");
        let expected = if public { "200" } else { "403" };
        assert_eq!(curl(method, &path, &body), expected, "{method} {path}");
    }
    assert_eq!(traces(&fixture), before, "nothing has changed");
    // They cannot read the state directory either.
    let state = fixture.server.state_dir();
    let look = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "ls"])
        .arg(state.join("tasks"))
        .output()
        .expect("ls as another user");
    assert!(!look.status.success(), "{look:?}");
}

#[test]
fn a_process_of_a_tool_may_not_prompt_or_approve() {
    if !has("curl") {
        return;
    }
    let fixture = Fixture::new();
    let url = fixture.server.url();
    let (waiting, calls) = fixture.ask("WRITE forbidden.txt x");
    let answer = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send",
        "params": approval(&waiting, &calls[0], "proceed_once") });
    std::fs::write(fixture.server.workspace().join("answer.json"), answer.to_string()).expect("a file");
    std::fs::write(fixture.server.workspace().join("prompt.json"), rpc_body()).expect("a file");
    let curl = |file: &str| {
        format!(
            "curl -s --noproxy '*' -o /dev/null -w '%{{http_code}} ' -H Content-Type:application/json -d @{file} {url}/"
        )
    };
    let (answer, prompt) = (curl("answer.json"), curl("prompt.json"));
    // Directly, in a new session, without its environment, and from a grandchild.
    let script = format!("SHELL {answer}; {prompt}; setsid {answer}; env -i PATH=$PATH {answer}; (({answer}) | cat)");
    let (task, calls) = fixture.ask(&script);
    let before = fixture.client().get("/health").json()["totalTasks"].clone();
    let events: Vec<_> =
        fixture.client().stream("message/stream", approval(&task, &calls[0], "proceed_once")).collect();
    let done = events.iter().find(|event| call_status_of(event.result()) == "success");
    let done = done.unwrap_or_else(|| panic!("no success in {events:#?}"));
    assert_eq!(call_of(done.result())["response"]["resultDisplay"], "403 403 403 403 403 ");
    assert_eq!(fixture.file("forbidden.txt"), None);
    assert_eq!(fixture.state(&waiting), "input-required");
    assert_eq!(fixture.client().get("/health").json()["totalTasks"], before);
}

const KEY: &str = "AIzaSy-planted-canary-0123456789";
const TOKEN: &str = "ghp_planted-canary-9876543210";

#[test]
fn no_response_contains_a_secret() {
    let fixture = Fixture::with(|setup| {
        setup
            .arg("--log-level")
            .arg("debug")
            .env("GEMINI_API_KEY", KEY)
            .env("GITHUB_TOKEN", TOKEN)
            .env("AWS_SECRET_ACCESS_KEY", TOKEN)
            .env("GOOGLE_APPLICATION_CREDENTIALS", TOKEN)
            .env("NPM_CONFIG_TOKEN", TOKEN)
            .env("SSH_AUTH_SOCK", TOKEN)
    });
    let (task, calls) = fixture.ask("SHELL env; tr '\\0' '\\n' < /proc/self/environ; set");
    let mut seen = String::new();
    for event in fixture.client().stream("message/stream", approval(&task, &calls[0], "proceed_once")) {
        seen.push_str(&event.json.to_string());
    }
    assert!(seen.contains("PATH="), "the environment was shown: {seen}");
    for script in ["ERR400", "ERR403", "TEXT fine"] {
        seen.extend(fixture.say(script).iter().map(|event| event.json.to_string()));
    }
    let wish = json!({ "agentSettings": { "apiKey": TOKEN } });
    assert_eq!(fixture.client().post("/tasks", &wish).status(), 400);
    seen.push_str(&fixture.client().get("/tasks/metadata").text());
    seen.push_str(&fixture.client().get("/.well-known/agent-card.json").text());
    seen.push_str(&fixture.task(&task).to_string());
    seen.push_str(&fixture.server.output());
    for (path, bytes) in files_below(&fixture.server.state_dir()) {
        seen.push_str(&format!("{}: {}", path.display(), String::from_utf8_lossy(&bytes)));
    }
    for secret in [KEY, TOKEN] {
        assert!(!seen.contains(secret), "{secret} got out:\n{seen}");
    }
    // The key is sent to the model API in a header, not in the URL, which proxies log.
    for request in fixture.fake.requests() {
        assert_eq!(request.head.field("x-goog-api-key"), Some(KEY));
        assert!(!request.head.target().contains(KEY), "{}", request.head.target());
        assert!(!request.body.to_string().contains(TOKEN));
    }
}

/// The fake model's errors say `fake error`, and the key of these servers is `fake`.
#[test]
fn an_error_that_repeats_the_key_is_shown_without_it() {
    let fixture = Fixture::new();
    let events = fixture.say("ERR400");
    let text = text_of(events.last().expect("events").result());
    assert!(text.contains("error 400") && !text.contains("fake"), "{text}");
}

/// The key is not among the arguments either, where every user of the machine could read it.
#[test]
fn arguments_hold_no_secret() {
    let fixture = Fixture::with(|setup| setup.env("GEMINI_API_KEY", KEY));
    let line = std::fs::read(format!("/proc/{}/cmdline", fixture.server.pid())).expect("its arguments");
    assert!(!String::from_utf8_lossy(&line).contains(KEY));
    assert_eq!(Client::new(&fixture.server.url()).get("/health").status(), 200);
}
