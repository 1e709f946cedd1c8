//! Keys for the model API that clients give with their tasks: which request uses which key, and where the key must not be.

mod support;

use serde_json::{Value, json};
use std::path::Path;
use support::client::{Client, Response};
use support::fake::FakeGemini;
use support::server::{Server, Setup};

const SERVER_KEY: &str = "fake";
const CLIENT_KEY: &str = "AIzaPlanted-key-of-a-client-0123456789";

fn message(text: &str, task: Option<&str>, key: Option<&str>) -> Value {
    let mut message = json!({ "role": "ROLE_USER", "messageId": "m", "parts": [{ "text": text }] });
    if let Some(task) = task {
        message["taskId"] = task.into();
    }
    if let Some(key) = key {
        message["metadata"] = json!({ "coderAgent": { "kind": "agent-settings", "apiKey": key } });
    }
    json!({ "message": message })
}

fn send(server: &Server, text: &str, task: Option<&str>, key: Option<&str>) -> Response {
    Client::new(&server.url()).post("/message:send", &message(text, task, key))
}

fn task_of(answer: &Response) -> (String, String) {
    let task = &answer.json()["task"];
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{}", answer.text())).to_owned();
    (text(&task["id"]), text(&task["status"]["state"]))
}

/// The API keys of the model requests from this number on.
fn keys(fake: &FakeGemini, since: usize) -> Vec<String> {
    let requests = fake.requests().into_iter().skip(since);
    requests.map(|request| request.head.field("x-goog-api-key").unwrap_or_default().to_owned()).collect()
}

/// Fails if a file below the directory contains the key.
fn expect_no_key_below(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            expect_no_key_below(&entry);
        } else if let Ok(bytes) = std::fs::read(&entry) {
            let found = bytes.windows(CLIENT_KEY.len()).any(|window| window == CLIENT_KEY.as_bytes());
            assert!(!found, "the key is in {}", entry.display());
        }
    }
}

#[test]
fn a_key_is_used_for_its_task_and_is_nowhere_else() {
    let fake = FakeGemini::start();
    let args = ["--allow-client-keys", "--audit", "--audit-prompts", "--debug", "--yolo", "--access-log", "-"];
    let mut server = Setup::new(&fake).args(args).start();
    let (with_key, state) = task_of(&send(&server, "SHELL env ;; TEXT Done.", None, Some(CLIENT_KEY)));
    assert_eq!(state, "TASK_STATE_INPUT_REQUIRED");
    let used = keys(&fake, 0);
    assert!(used.len() >= 2 && used.iter().all(|key| key == CLIENT_KEY), "{used:?}");
    let begin = fake.requests().len();
    let (without, _) = task_of(&send(&server, "TEXT Other.", None, None));
    assert!(keys(&fake, begin).iter().all(|key| key == SERVER_KEY), "another task");
    let begin = fake.requests().len();
    send(&server, "TEXT More.", Some(&with_key), None);
    assert!(keys(&fake, begin).iter().all(|key| key == CLIENT_KEY), "a later message needs no key");
    let begin = fake.requests().len();
    send(&server, "TEXT More.", Some(&without), Some(CLIENT_KEY));
    assert!(keys(&fake, begin).iter().all(|key| key == SERVER_KEY), "settings count with the first message only");
    // An error of the API must not show it.
    let failed = send(&server, "ERR403 9", None, Some(CLIENT_KEY));
    assert!(!failed.text().contains(CLIENT_KEY), "{}", failed.text());
    for path in ["/tasks", &format!("/tasks/{with_key}"), "/metrics", "/health"] {
        let answer = Client::new(&server.url()).get(path);
        assert!(!answer.text().contains(CLIENT_KEY), "{path}: {}", answer.text());
    }
    assert!(!server.output().contains(CLIENT_KEY), "{}", server.output());
    expect_no_key_below(&server.state_dir());
    expect_no_key_below(&server.workspace());
    server.restart();
    let begin = fake.requests().len();
    let answer = send(&server, "TEXT Again.", Some(&with_key), None);
    assert_eq!(task_of(&answer).1, "TASK_STATE_AUTH_REQUIRED", "{}", answer.text());
    assert!(answer.text().contains("Send the next message with apiKey"), "{}", answer.text());
    assert_eq!(keys(&fake, begin), [""; 0], "the server's own key is not used instead");
    let answer = send(&server, "TEXT Again.", Some(&with_key), Some(CLIENT_KEY));
    assert_eq!(task_of(&answer).1, "TASK_STATE_INPUT_REQUIRED", "{}", answer.text());
    assert!(keys(&fake, begin).iter().all(|key| key == CLIENT_KEY));
    expect_no_key_below(&server.state_dir());
}

#[test]
fn without_the_flag_a_key_is_refused() {
    let fake = FakeGemini::start();
    let server = Server::start(&fake);
    let refused = send(&server, "TEXT Hello.", None, Some(CLIENT_KEY));
    assert_eq!(refused.status(), 400, "{}", refused.text());
    assert!(refused.text().contains("takes no API keys from clients") && !refused.text().contains(CLIENT_KEY));
    let body = json!({ "agentSettings": { "kind": "agent-settings", "apiKey": CLIENT_KEY } });
    let refused = Client::new(&server.url()).post("/tasks", &body);
    assert!(refused.status() == 400 && !refused.text().contains(CLIENT_KEY), "{}", refused.text());
    assert!(fake.requests().is_empty());
    assert_eq!(Client::new(&server.url()).get("/tasks").json()["totalSize"], 0);
    expect_no_key_below(&server.state_dir());
}

#[test]
fn an_invalid_key_is_refused() {
    let fake = FakeGemini::start();
    let server = Setup::new(&fake).arg("--allow-client-keys").start();
    for key in ["two words", "a\r\nHost: b", &"x".repeat(1_000)] {
        assert_eq!(send(&server, "TEXT Hello.", None, Some(key)).status(), 400, "{key:?}");
    }
    assert!(fake.requests().is_empty());
}
