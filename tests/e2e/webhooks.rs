//! Webhooks from end to end, with a receiver on this machine that fails and stalls, and a server that is killed.

use crate::drive::Fixture;
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::message::{fresh, prompt, prompt_in};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// The response of the receiver to a delivery. After the given responses it accepts every delivery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Status(u16),
    /// No response; the connection is held open.
    Silence,
}

#[derive(Clone, Debug)]
struct Delivery {
    /// The header fields, with names in lower case.
    head: String,
    body: Value,
}

impl Delivery {
    fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines();
        let mut fields = lines.filter_map(|line| line.split_once(": "));
        fields.find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn event(&self) -> String {
        self.field("x-a2a-event-id").expect("an event id").to_owned()
    }

    /// The state or the artifact id that a 1.0 delivery is about.
    fn subject(&self) -> String {
        let status = &self.body["statusUpdate"]["status"]["state"];
        let artifact = &self.body["artifactUpdate"]["artifact"]["artifactId"];
        let subject = status.as_str().or(artifact.as_str());
        subject.unwrap_or_else(|| panic!("{}", self.body)).to_owned()
    }
}

#[derive(Default)]
struct ReceiverState {
    answers: VecDeque<Answer>,
    deliveries: Vec<Delivery>,
    held: Vec<TcpStream>,
}

#[derive(Clone)]
struct Receiver {
    port: u16,
    state: Arc<Mutex<ReceiverState>>,
}

impl Receiver {
    fn start(answers: impl IntoIterator<Item = Answer>) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let receiver = Receiver {
            port: listener.local_addr().expect("bound").port(),
            state: Arc::new(Mutex::new(ReceiverState {
                answers: answers.into_iter().collect(),
                ..ReceiverState::default()
            })),
        };
        let own = receiver.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                own.take(stream.expect("a caller"));
            }
        });
        receiver
    }

    fn take(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            // The server may have been killed.
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let (first, rest) = head.split_once("\r\n").expect("a line");
        assert_eq!(first, "POST /hook?a=b HTTP/1.1");
        let names = rest.lines().map(|line| match line.split_once(": ") {
            Some((name, value)) => format!("{}: {value}\n", name.to_lowercase()),
            None => "\n".into(),
        });
        let mut delivery = Delivery { head: names.collect(), body: Value::Null };
        let length = delivery.field("content-length").and_then(|n| n.parse().ok());
        let mut body = vec![0; length.expect("a length")];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        delivery.body = serde_json::from_slice(&body).expect("JSON");
        let mut state = self.state();
        state.deliveries.push(delivery);
        match state.answers.pop_front().unwrap_or(Answer::Status(200)) {
            Answer::Silence => state.held.push(stream),
            Answer::Status(status) => {
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, ReceiverState> {
        self.state.lock().expect("nobody panics with it")
    }

    fn config(&self) -> Value {
        json!({
            "id": "hook",
            "url": format!("http://localhost:{}/hook?a=b", self.port),
            "token": "tok-7",
            "authentication": { "scheme": "Bearer", "credentials": "s3cret" },
        })
    }

    /// All deliveries, as soon as the last one fits.
    fn deliveries_until(&self, what: &str, last: impl Fn(&Delivery) -> bool) -> Vec<Delivery> {
        eventually(what, || {
            let deliveries = self.state().deliveries.clone();
            deliveries.last().is_some_and(&last).then_some(deliveries)
        })
    }
}

fn private_fixture() -> Fixture {
    Fixture::with(|setup| setup.arg("--push-allow-private"))
}

fn new_client(fixture: &Fixture) -> Client {
    fixture.client().field("A2A-Version", "1.0")
}

/// Sends a prompt of 1.0 with a webhook. Returns the id of the task.
fn prompt_with(fixture: &Fixture, text: &str, config: Value) -> String {
    let message = json!({ "messageId": format!("m-{}", fresh()), "role": "ROLE_USER", "parts": [{ "text": text }] });
    let configuration = json!({ "returnImmediately": true, "taskPushNotificationConfig": config });
    let params = json!({ "message": message, "configuration": configuration });
    let result = new_client(fixture).call("SendMessage", params);
    let task = result["task"]["id"].as_str();
    task.unwrap_or_else(|| panic!("{result}")).to_owned()
}

#[test]
fn failed_deliveries_are_retried_in_order() {
    let fixture = private_fixture();
    let receiver = Receiver::start([Answer::Status(503), Answer::Status(500)]);
    let task = prompt_with(&fixture, "TEXT Hello.", receiver.config());
    let deliveries = receiver.deliveries_until("the end", |deliveries| deliveries.subject() == "TASK_STATE_COMPLETED");
    let gists: Vec<String> = deliveries.iter().map(Delivery::subject).collect();
    let working = "TASK_STATE_WORKING";
    assert_eq!(gists, [working, working, working, "answer-1", "TASK_STATE_COMPLETED"]);
    for one in &deliveries {
        for (name, value) in [
            ("content-type", "application/a2a+json"),
            ("a2a-version", "1.0"),
            ("authorization", "Bearer s3cret"),
            ("x-a2a-notification-token", "tok-7"),
        ] {
            assert_eq!(one.field(name), Some(value));
        }
        let agent = one.field("user-agent").expect("a name");
        assert!(agent.starts_with("gemini-a2a/"), "{agent}");
    }
    let events: Vec<String> = deliveries.iter().map(Delivery::event).collect();
    assert_eq!(events[0], events[1], "the same event has the same id");
    assert_eq!(events[0], events[2]);
    let seq = |event: &String| -> u64 {
        let number = event.strip_prefix(&format!("{task}:")).expect("of this task");
        number.parse().expect("a number")
    };
    let seqs: Vec<u64> = events[2..].iter().map(seq).collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    assert_eq!(deliveries[3].body["artifactUpdate"]["artifact"]["parts"][0]["text"], "Hello.");
    // Dialects that have a member for it show the state of deliveries.
    let health = eventually("everything is written down", || {
        let params = json!({ "id": task, "pushNotificationConfigId": "hook" });
        let config = fixture.client().call("tasks/pushNotificationConfig/get", params);
        (config["metadata"]["deliveries"]["delivered"] == 3).then_some(config)
    });
    assert_eq!(
        health["metadata"]["deliveries"],
        json!({ "delivered": 3, "failed": 0, "pending": 0, "suspended": false })
    );
    let health = fixture.client().get("/health").json();
    assert_eq!(health["webhooks"], json!({ "active": 1, "suspended": 0, "pending": 0, "failed": 0 }));
    assert!(!fixture.server.output().contains("s3cret"));
}

#[test]
fn a_task_that_expired_while_no_server_ran_is_delivered_first() {
    let mut fixture = Fixture::with(|setup| {
        let setup = setup.arg("--push-allow-private");
        setup.arg("--retention").arg("1s")
    });
    let receiver = Receiver::start([Answer::Status(200), Answer::Silence]);
    let task = prompt_with(&fixture, "TEXT Hello.", receiver.config());
    let log = fixture.server.state_dir().join(format!("tasks/{task}.jsonl"));
    receiver.deliveries_until("the answer", |deliveries| deliveries.subject() == "answer-1");
    // Its webhook has pending deliveries, so the task can be read until they are done.
    eventually("the end of the turn", || {
        let task = new_client(&fixture).call("GetTask", json!({ "id": task }));
        (task["status"]["state"] == "TASK_STATE_COMPLETED").then_some(())
    });
    fixture.server.kill9();
    eventually("the end of its time", || {
        let changed = std::fs::metadata(&log).and_then(|log| log.modified());
        let age = changed.expect("a time").elapsed().unwrap_or_default();
        (age > Duration::from_millis(1_200)).then_some(())
    });
    fixture.server.restart();
    let deliveries = receiver.deliveries_until("the end", |deliveries| deliveries.subject() == "TASK_STATE_COMPLETED");
    let gists: Vec<String> = deliveries[1..].iter().map(Delivery::subject).collect();
    assert_eq!(gists, ["answer-1", "answer-1", "TASK_STATE_COMPLETED"]);
}

#[test]
fn deliveries_continue_after_the_server_is_killed() {
    let mut fixture = private_fixture();
    let receiver = Receiver::start([Answer::Status(200), Answer::Silence]);
    let task = prompt_with(&fixture, "TEXT Hello.", receiver.config());
    let before = receiver.deliveries_until("the answer", |deliveries| deliveries.subject() == "answer-1");
    // The turn has ended, but the receiver has not acknowledged that.
    eventually("the end of the turn", || {
        let task = new_client(&fixture).call("GetTask", json!({ "id": task }));
        (task["status"]["state"] == "TASK_STATE_COMPLETED").then_some(())
    });
    fixture.server.kill9();
    fixture.server.restart();
    let deliveries = receiver.deliveries_until("the end", |deliveries| deliveries.subject() == "TASK_STATE_COMPLETED");
    assert_eq!(before.len(), 2);
    let gists: Vec<String> = deliveries[1..].iter().map(Delivery::subject).collect();
    assert_eq!(gists, ["answer-1", "answer-1", "TASK_STATE_COMPLETED"]);
    assert_eq!(deliveries[1].event(), deliveries[2].event());
    assert_eq!(deliveries[1].body, deliveries[2].body);
    // Everything is delivered, so there are no deliveries after another restart.
    eventually("everything is written down", || {
        let health = fixture.client().get("/health").json();
        (health["webhooks"]["pending"] == 0).then_some(())
    });
    fixture.server.kill9();
    fixture.server.restart();
    let next = prompt_with(&fixture, "TEXT Again.", receiver.config());
    let deliveries = receiver.deliveries_until("the next end", |deliveries| {
        deliveries.subject() == "TASK_STATE_COMPLETED" && deliveries.event().starts_with(&next)
    });
    let others = deliveries[4..].iter().filter(|deliveries| deliveries.event().starts_with(&task));
    assert_eq!(others.count(), 0);
}

#[test]
fn a_0_3_webhook_receives_whole_tasks_after_a_restart() {
    let fixture = private_fixture();
    let receiver = Receiver::start([]);
    let mut client = fixture.client();
    let task = client.call("message/send", prompt("TEXT One."));
    let task = task["id"].as_str().expect("a task").to_owned();
    let url = format!("http://127.0.0.1:{}/hook?a=b", receiver.port);
    let config = json!({ "url": url, "authentication": { "schemes": ["Bearer", "Basic"], "credentials": "x" } });
    let set =
        client.call("tasks/pushNotificationConfig/set", json!({ "taskId": task, "pushNotificationConfig": config }));
    let mut named = config;
    named["id"] = json!(task);
    let named = json!({ "taskId": task, "pushNotificationConfig": named });
    assert_eq!(set, named);
    let get = "tasks/pushNotificationConfig/get";
    assert_eq!(client.call(get, json!({ "id": task })), named);
    let by_default = json!({ "id": task, "pushNotificationConfigId": "default" });
    assert_eq!(client.call(get, by_default), named);
    let list = "tasks/pushNotificationConfig/list";
    assert_eq!(client.call(list, json!({ "id": task })), json!([named]));
    // REST and 1.0 show the same webhook.
    let path = format!("/tasks/{task}/pushNotificationConfigs/{task}");
    let flat = new_client(&fixture).get(&path).json();
    assert_eq!((&flat["id"], &flat["url"]), (&json!(task), &json!(url)));
    assert_eq!(flat["authentication"]["scheme"], "Bearer");

    client.call("message/send", prompt_in(&task, "TEXT Two."));
    let rests = |deliveries: &Delivery| deliveries.body["status"]["state"] == "input-required";
    let deliveries = receiver.deliveries_until("the end of the turn", rests);
    let last = deliveries.last().expect("something");
    assert_eq!((&last.body["kind"], &last.body["id"]), (&json!("task"), &json!(task)));
    assert_eq!(last.field("content-type"), Some("application/json"));
    assert_eq!(last.field("authorization"), Some("Bearer x"));
    assert_eq!(last.field("x-a2a-notification-token"), None);

    let delete = "tasks/pushNotificationConfig/delete";
    for _ in 0..2 {
        let params = json!({ "id": task, "pushNotificationConfigId": task });
        assert_eq!(client.call(delete, params), Value::Null);
    }
    assert_eq!(client.call(list, json!({ "id": task })), json!([]));
    assert_eq!(client.fault(get, json!({ "id": task })), -32001);
    assert_eq!(client.fault(list, json!({ "id": "nobody" })), -32001);
}

#[test]
fn the_operator_decides_which_webhook_hosts_are_allowed() {
    let config = |url: &str| json!({ "taskId": "t", "pushNotificationConfig": { "url": url } });
    let set = "tasks/pushNotificationConfig/set";
    let strict = Fixture::new();
    let mut client = strict.client();
    for url in [
        "http://client.example/",
        "https://127.0.0.1/",
        "https://localhost/",
        "https://169.254.169.254/latest/",
        "https://user@client.example/",
    ] {
        let answer = client.rpc(set, config(url));
        assert_eq!(answer["error"]["code"], -32602, "{url}: {answer}");
        assert_eq!(answer["error"]["data"]["field"], "url", "{answer}");
    }
    // A valid webhook for a task that does not exist.
    assert_eq!(client.fault(set, config("https://client.example/")), -32001);
    let off = Fixture::with(|setup| setup.arg("--push").arg("off"));
    let mut client = off.client();
    assert_eq!(client.fault(set, config("https://client.example/")), -32003);
    let card = client.get("/.well-known/agent-card.json").json();
    assert_eq!(card["capabilities"]["pushNotifications"], false);
    let vouched = Fixture::with(|setup| setup.arg("--push-allow-hosts=ci.internal"));
    let fault = vouched.client().fault(set, config("http://ci.internal:8080/"));
    assert_eq!(fault, -32001);
}
