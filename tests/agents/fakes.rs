//! Fake agents: with one version only, over REST only, without streams, and misbehaving ones.

use crate::fake_agent::{FakeAgent, Say};
use crate::support::eventually;
use crate::support::message::prompt;
use crate::{Caller, call, task_in};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

fn card(url: &str, binding: &str, version: &str) -> Value {
    let row = json!({"url": url, "protocolBinding": binding, "protocolVersion": version});
    json!({"name": "x", "capabilities": {"streaming": true}, "supportedInterfaces": [row]})
}

fn old_card(url: &str) -> Value {
    json!({"name": "x", "url": url, "protocolVersion": "0.3.0", "capabilities": {"streaming": true}})
}

fn old_task(state: &str) -> Value {
    json!({"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": state}})
}

fn artifact(text: &str) -> Value {
    json!({"kind": "artifact-update", "taskId": "t1", "append": true, "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": text}]}})
}

fn status(state: &str, text: &str) -> Value {
    json!({"kind": "status-update", "taskId": "t1", "contextId": "c1", "final": true,
        "status": {"state": state, "message": {"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": text}]}}})
}

#[test]
fn an_agent_of_03_only() {
    let agent = FakeAgent::start(|heard, url| match heard.head.method() {
        "GET" => Say::Json(200, old_card(url)),
        _ => Say::Events(vec![old_task("submitted"), artifact("One"), artifact(" two"), status("completed", "")]),
    });
    let caller = Caller::allowed();
    caller.agent("old", &agent.members());
    assert_eq!(caller.calls("old", "Do it."), "<untrusted_context>\nOne two\n</untrusted_context>");
    let heard = agent.heard().pop().expect("a request");
    assert_eq!(heard.what(), "message/stream");
    assert_eq!(heard.body["params"]["message"]["parts"], json!([{"kind": "text", "text": "Do it."}]));
    assert_eq!(heard.head.field("x-gemini-a2a-depth"), Some("1"));
    assert_eq!(heard.head.field("a2a-version"), None);
}

#[test]
fn an_agent_of_10_only_that_answers_with_a_message() {
    let agent = FakeAgent::start(|heard, url| match heard.head.method() {
        "GET" => Say::Json(200, card(url, "JSONRPC", "1.0")),
        _ => {
            Say::Events(vec![json!({"message": {"role": "ROLE_AGENT", "messageId": "m", "parts": [{"text": "Hi."}]}})])
        }
    });
    let caller = Caller::allowed();
    caller.agent("new", &agent.members());
    assert_eq!(caller.calls("new", "Do it."), "<untrusted_context>\nHi.\n</untrusted_context>");
    let heard = agent.heard().pop().expect("a request");
    assert_eq!((heard.what().as_str(), heard.head.field("a2a-version")), ("SendStreamingMessage", Some("1.0")));
}

#[test]
fn an_agent_over_rest_only() {
    let agent = FakeAgent::start(|heard, url| match heard.head.method() {
        "GET" => Say::Json(200, card(&format!("{url}/api/"), "HTTP+JSON", "1.0")),
        _ => Say::Events(vec![
            json!({"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}}),
            json!({"statusUpdate": {"taskId": "t1", "status": {"state": "TASK_STATE_FAILED", "message": {"parts": [{"text": "No disk."}]}}}}),
        ]),
    });
    let caller = Caller::allowed();
    caller.agent("rest", &agent.members());
    let told = caller.calls("rest", "Do it.");
    assert!(told.contains("The call of the agent rest failed:") && told.contains("No disk."), "{told}");
    assert_eq!(agent.methods(), ["/card", "/api/message:stream"]);
}

#[test]
fn an_agent_without_streaming_is_polled() {
    let looks = AtomicUsize::new(0);
    let agent = FakeAgent::start(move |heard, url| match (heard.head.method(), heard.what().as_str()) {
        ("GET", _) => Say::Json(200, json!({"url": url})),
        (_, "message/send") => Say::Json(200, old_task("submitted")),
        // One look fails, which is no reason to give up.
        (_, _) => match looks.fetch_add(1, Ordering::SeqCst) {
            0 => Say::Json(200, old_task("working")),
            1 => Say::Json(200, json!("\u{0}")),
            _ => Say::Json(
                200,
                json!({"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": "completed"},
                "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": "Found."}]}]}),
            ),
        },
    });
    let caller = Caller::allowed();
    caller.agent("slow", &agent.members());
    assert_eq!(caller.calls("slow", "Do it."), "<untrusted_context>\nFound.\n</untrusted_context>");
    assert_eq!(agent.methods(), ["/card", "message/send", "tasks/get", "tasks/get", "tasks/get"]);
}

#[test]
fn a_task_is_polled_after_an_interrupted_stream() {
    let agent = FakeAgent::start(|heard, url| match (heard.head.method(), heard.what().as_str()) {
        ("GET", _) => Say::Json(200, old_card(url)),
        (_, "message/stream") => Say::Events(vec![old_task("working"), artifact("Hal")]),
        (_, _) => Say::Json(
            200,
            json!({"kind": "task", "id": "t1", "status": {"state": "completed"},
            "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": "Half and half."}]}]}),
        ),
    });
    let caller = Caller::allowed();
    caller.agent("cut", &agent.members());
    assert_eq!(caller.calls("cut", "Do it."), "<untrusted_context>\nHalf and half.\n</untrusted_context>");
}

#[test]
fn input_and_authorisation_are_asked_for_and_the_next_call_continues() {
    let count = AtomicUsize::new(0);
    let agent = FakeAgent::start(move |heard, url| match heard.head.method() {
        "GET" => Say::Json(200, old_card(url)),
        _ => Say::Events(vec![match count.fetch_add(1, Ordering::SeqCst) {
            0 => status("input-required", "Which one?"),
            1 => status("auth-required", "Log in at https://login.example."),
            _ => status("completed", "Done."),
        }]),
    });
    let caller = Caller::allowed();
    caller.agent("asks", &agent.members());
    let task = task_in(&caller.say(&call("asks", "Do it.")));
    let told = caller.told();
    assert!(told.contains("Which one?") && told.contains("The agent asks waits for an answer."), "{told}");
    caller.say_in(&task, &call("asks", "The first."));
    let told = caller.told();
    assert!(told.contains("login.example") && told.contains("needs to be authorised"), "{told}");
    caller.say_in(&task, &call("asks", "I did."));
    assert!(caller.told().contains("Done."));
    caller.say_in(&task, &call("asks", "And now?"));
    let ids = |member: &str| -> Vec<Value> {
        let prompts = agent.heard().into_iter().filter(|heard| heard.what() == "message/stream");
        prompts.map(|heard| heard.body["params"]["message"][member].clone()).collect()
    };
    let (t, c, none) = (json!("t1"), json!("c1"), Value::Null);
    assert_eq!(ids("taskId"), [none.clone(), t.clone(), t, none.clone()], "until it is over");
    assert_eq!(ids("contextId"), [none, c.clone(), c.clone(), c]);
}

#[test]
fn check_79_a_card_of_another_origin_gets_no_credentials() {
    let there = FakeAgent::start(|_, _| Say::Events(vec![status("completed", "Hi.")]));
    let url = there.url.clone();
    let agent = FakeAgent::start(move |_, _| Say::Json(200, old_card(&url)));
    let caller = Caller::allowed();
    let auth = "auth:\n  type: http\n  scheme: Bearer\n  token: $MY_KEY\n";
    caller.agent("far", &(agent.members() + auth));
    let events = caller.say(&call("far", "Do it."));
    assert!(caller.told().contains("Hi."), "{}", caller.told());
    assert!(format!("{events:?}").contains("it is sent no credentials"), "people are told");
    for heard in agent.heard().into_iter().chain(there.heard()) {
        assert_eq!(heard.head.field("authorization"), None, "{heard:?}");
    }
}

#[test]
fn credentials_go_to_the_origin_of_the_card_and_nowhere_else() {
    let agent = FakeAgent::start(|heard, url| match (heard.head.method(), heard.head.field("authorization")) {
        ("GET", None) => Say::Json(401, json!({"error": "who are you"})),
        ("GET", Some(_)) => Say::Json(200, old_card(&format!("{url}/a2a"))),
        // It repeats the secret.
        (_, given) => Say::Events(vec![artifact(given.unwrap_or("none")), status("completed", "Hi.")]),
    });
    let caller = Caller::allowed();
    let bearer = "auth:\n  type: http\n  scheme: Bearer\n  token: $MY_KEY\n";
    caller.agent("env", &(agent.members() + bearer));
    assert!(caller.calls("env", "Do it.").contains("Bearer …"), "{}", caller.told());
    let given = |n: usize| agent.heard()[n].head.field("authorization").map(str::to_owned);
    assert_eq!([given(0), given(1), given(2)], [None, Some("Bearer k3y-from-outside".into()), given(1)]);
    let command = "auth:\n  type: http\n  scheme: Basic\n  username: me\n  password: \"!echo p4ssword\"\n";
    caller.agent("command", &(agent.members() + command));
    assert!(caller.calls("command", "Do it.").contains("Hi."), "{}", caller.told());
    assert_eq!(given(5).as_deref(), Some("Basic bWU6cDRzc3dvcmQ="));
    let key = "auth:\n  type: apiKey\n  key: $$literal\n";
    let open = FakeAgent::start(|heard, url| match heard.head.method() {
        "GET" => Say::Json(200, old_card(url)),
        _ => Say::Events(vec![status("completed", "Hi.")]),
    });
    caller.agent("key", &(open.members() + key));
    assert!(caller.calls("key", "Do it.").contains("Hi."));
    let keys: Vec<_> = open.heard().iter().map(|heard| heard.head.field("x-api-key").map(str::to_owned)).collect();
    assert_eq!(keys, [None, Some("$literal".into())]);
    let journals = std::fs::read_dir(caller.fixture.server.state_dir().join("tasks")).expect("tasks");
    for entry in journals.flatten() {
        let journal = std::fs::read_to_string(entry.path()).expect("a journal");
        for secret in ["k3y-from-outside", "p4ssword", "bWU6cDRzc3dvcmQ="] {
            assert!(!journal.contains(secret), "{secret} in {journal}");
        }
    }
}

#[test]
fn an_answer_that_is_too_long_is_cut_off_and_its_task_cancelled() {
    let agent = FakeAgent::start(|heard, url| match (heard.head.method(), heard.what().as_str()) {
        ("GET", _) => Say::Json(200, old_card(url)),
        (_, "message/stream") => Say::Flood(artifact(&"x".repeat(1 << 20))),
        (_, _) => Say::Json(200, old_task("canceled")),
    });
    let caller = Caller::allowed();
    caller.agent("flood", &agent.members());
    let told = caller.calls("flood", "Do it.");
    assert!(told.contains("its answer is too long"), "{told}");
    eventually("it is told to stop", || agent.methods().contains(&"tasks/cancel".to_owned()).then_some(()));
}

#[test]
fn an_agent_that_hangs_can_be_cancelled() {
    let agent = FakeAgent::start(|heard, url| match (heard.head.method(), heard.what().as_str()) {
        ("GET", _) => Say::Json(200, old_card(url)),
        (_, "message/stream") => Say::Hang(vec![old_task("working"), status("working", "Begun.")]),
        (_, _) => Say::Json(200, old_task("canceled")),
    });
    let caller = Caller::allowed();
    caller.agent("hangs", &agent.members());
    let mut events = caller.fixture.client().stream("message/stream", prompt(&call("hangs", "Do it.")));
    let begun = events.until("what it says", |event| event.result().to_string().contains("Begun."));
    let task = task_in(&[begun]);
    caller.fixture.client().call("tasks/cancel", json!({ "id": task }));
    assert_eq!(caller.fixture.state(&task), "canceled");
    eventually("it is told", || agent.methods().contains(&"tasks/cancel".to_owned()).then_some(()));
}

#[test]
fn redirections_and_nonsense_are_errors() {
    let target = FakeAgent::start(|_, _| Say::Json(200, json!({})));
    let to = target.url.clone();
    let agent = FakeAgent::start(move |heard, url| match heard.head.target() {
        "/moved" => Say::Redirect(format!("{to}/card?secret=1")),
        "/card-moved" => Say::Json(200, old_card(&format!("{url}/moved"))),
        "/no-card" => Say::Json(404, json!({"error": "nothing here"})),
        "/no-interface" => Say::Json(200, json!({"name": "x"})),
        "/card-error" => Say::Json(200, old_card(&format!("{url}/error"))),
        "/error" => Say::Json(200, json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Broken."}})),
        "/card-fits" => Say::Json(200, json!({"x": "y".repeat(256 * 1024 - 8)})),
        "/card-long" => Say::Json(200, json!({"x": "y".repeat(256 * 1024 - 7)})),
        _ => Say::Json(200, Value::Null),
    });
    let caller = Caller::allowed();
    for (path, expected) in [
        ("moved", format!("it redirects to {}/card, which is not followed", target.url)),
        ("card-moved", format!("it redirects to {}/card, which is not followed", target.url)),
        ("no-card", "its card cannot be read: the agent answered with status 404: nothing here".into()),
        ("no-interface", "its card names no interface that is supported".into()),
        ("card-error", "the agent answered with error -32603: Broken.".into()),
        ("card-fits", "its card names no interface that is supported".into()),
        ("card-long", "it answers with more than 262144 bytes".into()),
        ("empty", "its card is not a JSON object".into()),
    ] {
        caller.agent(path, &format!("agent_card_url: {}/{path}\n", agent.url));
        let told = caller.calls(path, "Do it.");
        assert!(told.contains(&expected), "{path}: {told}");
    }
    assert_eq!(target.heard().len(), 0, "nothing was sent there");
}
