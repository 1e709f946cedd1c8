//! Keys for the model API that clients give with their tasks: which request uses which key, and where the key must not be.

mod support;

use serde_json::{Value, json};
use std::path::Path;
use support::client::{Client, Response};
use support::fake::FakeGemini;
use support::server::{Server, Setup};

const OWN: &str = "fake";
const PLANTED: &str = "AIzaPlanted-key-of-a-client-0123456789";

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

/// The keys of the model requests since this one.
fn keys(fake: &FakeGemini, since: usize) -> Vec<String> {
    let requests = fake.requests().into_iter().skip(since);
    requests.map(|request| request.head.field("x-goog-api-key").unwrap_or_default().to_owned()).collect()
}

/// No file below the directory contains the key.
fn search(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            search(&entry);
        } else if let Ok(bytes) = std::fs::read(&entry) {
            let found = bytes.windows(PLANTED.len()).any(|window| window == PLANTED.as_bytes());
            assert!(!found, "the key is in {}", entry.display());
        }
    }
}

#[test]
fn a_key_is_used_for_its_task_and_is_nowhere_else() {
    let fake = FakeGemini::start();
    let args = ["--allow-client-keys", "--audit", "--audit-prompts", "--debug", "--yolo", "--access-log", "-"];
    let mut server = Setup::new(&fake).args(args).start();
    let (with_key, state) = task_of(&send(&server, "SHELL env ;; TEXT Done.", None, Some(PLANTED)));
    assert_eq!(state, "TASK_STATE_INPUT_REQUIRED");
    let used = keys(&fake, 0);
    assert!(used.len() >= 2 && used.iter().all(|key| key == PLANTED), "{used:?}");
    let begin = fake.requests().len();
    let (without, _) = task_of(&send(&server, "TEXT Other.", None, None));
    assert!(keys(&fake, begin).iter().all(|key| key == OWN), "another task");
    let begin = fake.requests().len();
    send(&server, "TEXT More.", Some(&with_key), None);
    assert!(keys(&fake, begin).iter().all(|key| key == PLANTED), "a later message needs no key");
    let begin = fake.requests().len();
    send(&server, "TEXT More.", Some(&without), Some(PLANTED));
    assert!(keys(&fake, begin).iter().all(|key| key == OWN), "settings count with the first message only");
    // An error of the API must not show it.
    let failed = send(&server, "ERR403 9", None, Some(PLANTED));
    assert!(!failed.text().contains(PLANTED), "{}", failed.text());
    for path in ["/tasks", &format!("/tasks/{with_key}"), "/metrics", "/health"] {
        let answer = Client::new(&server.url()).get(path);
        assert!(!answer.text().contains(PLANTED), "{path}: {}", answer.text());
    }
    assert!(!server.output().contains(PLANTED), "{}", server.output());
    search(&server.state_dir());
    search(&server.workspace());
    server.restart();
    let begin = fake.requests().len();
    let answer = send(&server, "TEXT Again.", Some(&with_key), None);
    assert_eq!(task_of(&answer).1, "TASK_STATE_AUTH_REQUIRED", "{}", answer.text());
    assert!(answer.text().contains("Send the next message with apiKey"), "{}", answer.text());
    assert_eq!(keys(&fake, begin), [""; 0], "the server's own key is not used instead");
    let answer = send(&server, "TEXT Again.", Some(&with_key), Some(PLANTED));
    assert_eq!(task_of(&answer).1, "TASK_STATE_INPUT_REQUIRED", "{}", answer.text());
    assert!(keys(&fake, begin).iter().all(|key| key == PLANTED));
    search(&server.state_dir());
}

#[test]
fn without_the_flag_a_key_is_refused() {
    let fake = FakeGemini::start();
    let server = Server::start(&fake);
    let refused = send(&server, "TEXT Hello.", None, Some(PLANTED));
    assert_eq!(refused.status(), 400, "{}", refused.text());
    assert!(refused.text().contains("takes no API keys from clients") && !refused.text().contains(PLANTED));
    let body = json!({ "agentSettings": { "kind": "agent-settings", "apiKey": PLANTED } });
    let refused = Client::new(&server.url()).post("/tasks", &body);
    assert!(refused.status() == 400 && !refused.text().contains(PLANTED), "{}", refused.text());
    assert!(fake.requests().is_empty());
    assert_eq!(Client::new(&server.url()).get("/tasks").json()["totalSize"], 0);
    search(&server.state_dir());
}

#[test]
fn what_is_no_key_is_refused() {
    let fake = FakeGemini::start();
    let server = Setup::new(&fake).arg("--allow-client-keys").start();
    for key in ["two words", "a\r\nHost: b", &"x".repeat(1_000)] {
        assert_eq!(send(&server, "TEXT Hello.", None, Some(key)).status(), 400, "{key:?}");
    }
    assert!(fake.requests().is_empty());
}
