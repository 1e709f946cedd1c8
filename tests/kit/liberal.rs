//! Alternative formats that are accepted from clients, and the parsing of paths, media types and methods.

use crate::binding::{Binding, Op, Part, Prompt, post};
use crate::harness::Harness;
use crate::problem::Fault;
use crate::shape;
use crate::support::client::Client;
use crate::support::http::Side;
use crate::switches::EXTENDED;
use serde_json::{Value, json};

const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

#[test]
fn rest_03_accepts_the_names_of_both_its_forms() {
    let mut harness = Harness::with(Binding::Rest03, &[]);
    for message in [
        json!({"messageId": "tck-complete-task-1", "role": "ROLE_USER", "content": [{"text": "go"}]}),
        json!({"message_id": "tck-complete-task-2", "role": "ROLE_USER", "content": [{"text": "go"}, {"data": {"data": {"a": 1}}},
            {"file": {"mime_type": "text/plain", "file_with_uri": "https://example.com/a"}}]}),
    ] {
        let request = post("/v1/message:send", json!({"message": message}));
        let result = harness.result_of(&request, &Value::Null, &[]);
        let result = result.unwrap_or_else(|refusal| panic!("{message}: {refusal:?}"));
        let shape::Answer::Task(task) = shape::answer(Binding::Rest03, &result) else {
            panic!("a task, not {result}");
        };
        assert_eq!(task.state(), "completed");
    }
    // Clients that write `parts` get a response in either form; they need only the id and the status.
    for message in [
        json!({"message_id": "tck-complete-task-3", "role": "ROLE_USER", "parts": [{"text": "go"}]}),
        json!({"kind": "message", "messageId": "tck-complete-task-4", "role": "user", "parts": [{"kind": "text", "text": "go"}]}),
    ] {
        let request = post("/v1/message:send", json!({"message": message}));
        let result =
            harness.result_of(&request, &Value::Null, &[]).unwrap_or_else(|refusal| panic!("{message}: {refusal:?}"));
        let task = result.get("task").unwrap_or(&result);
        assert!(task["id"].is_string() && task["status"]["state"].is_string(), "{result}");
    }
    let request = post(
        "/v1/message:send",
        json!({"request": {"message_id": "tck-complete-task-5", "role": "ROLE_USER", "content": [{"text": "go"}]}}),
    );
    harness.result_of(&request, &Value::Null, &[]).expect("`request` is `message` too");
}

#[test]
fn rest_03_answers_a_request_in_the_json_form_in_the_same_form() {
    let mut harness = Harness::with(Binding::Rest03, &[]);
    let message = json!({"kind": "message", "messageId": "tck-complete-task-1", "role": "user", "parts": [{"kind": "text", "text": "go"}]});
    let request = post("/v1/message:send", json!({"message": message}));
    let result = harness.result_of(&request, &Value::Null, &[]).expect("a task");
    let task = shape::task(Binding::Rpc03, result.get("task").unwrap_or(&result));
    assert_eq!(task.state(), "completed");
    let shown = harness.client.get(&format!("/v1/tasks/{}?form=ts", task.id)).json();
    assert_eq!(shape::task(Binding::Rpc03, &shown), task);
}

#[test]
fn methods_of_0_3_accept_messages_of_1_0() {
    let message = |role: &str, part: Value| json!({"messageId": "tck-complete-task-1", "role": role, "parts": [part]});
    let plain = || json!({"text": "go"});
    for (version, message, is_1_0) in [
        (None, message("ROLE_USER", plain()), true),
        (Some("1.0"), message("ROLE_USER", plain()), true),
        (Some("0.3"), message("ROLE_USER", plain()), false),
        (None, message("ROLE_USER", json!({"kind": "text", "text": "go"})), false),
        (None, message("ROLE_USER", json!({"type": "text", "text": "go"})), false),
        (None, message("user", plain()), false),
    ] {
        let mut harness = Harness::with(Binding::Rpc03, &[]);
        let fields: Vec<(&str, &str)> = version.map(|version| ("A2A-Version", version)).into_iter().collect();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}});
        let result = harness.result_of(&post("/", body), &json!(1), &fields);
        let result = result.unwrap_or_else(|refusal| panic!("{version:?} {message}: {refusal:?}"));
        let binding = if is_1_0 { Binding::Rpc10 } else { Binding::Rpc03 };
        let shape::Answer::Task(task) = shape::answer(binding, &result) else {
            panic!("a task, not {result}");
        };
        assert_eq!(task.state(), "completed");
    }
}

#[test]
fn rest_accepts_a_message_in_a_json_rpc_envelope() {
    let message = json!({"kind": "message", "messageId": "tck-complete-task-1", "role": "user",
        "parts": [{"kind": "text", "text": "go"}]});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}});
    let mut harness = Harness::with(Binding::Rest03, &[]);
    let result = harness.result_of(&post("/v1/message:send", body.clone()), &Value::Null, &[]).expect("a task");
    assert_eq!(shape::task(Binding::Rpc03, &result).state(), "completed");
    let mut events = harness.client.events("POST", "/v1/message:stream", &JSON, body.to_string().as_bytes());
    let last = events.by_ref().last().expect("events").json;
    assert_eq!((&last["kind"], &last["status"]["state"]), (&json!("status-update"), &json!("completed")));
}

#[test]
fn rest_03_limits_history_by_both_names() {
    let mut harness = Harness::with(Binding::Rest03, &[]);
    let asked = harness.task(Prompt::new("tck-input-required"));
    let task = harness.task(Prompt::new("tck-complete-task").to(&asked.id));
    for name in ["historyLength", "history_length"] {
        let shown = harness.client.get(&format!("/v1/tasks/{}?{name}=1", task.id)).json();
        assert_eq!(shape::task(Binding::Rest03, &shown).history().len(), 1, "{name}");
    }
}

#[test]
fn json_1_0_is_read_in_snake_case_too() {
    for binding in [Binding::Rpc10, Binding::Rest10] {
        let mut harness = Harness::with(binding, &[]);
        let params = json!({"message": {"message_id": "tck-complete-task-1", "role": "ROLE_USER", "context_id": "mine", "parts": [{"text": "go", "media_type": "text/plain"}]},
            "configuration": {"history_length": 0, "return_immediately": false}});
        let (request, id) = match binding {
            Binding::Rpc10 => {
                (post("/", json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params})), json!(1))
            }
            _ => (post("/message:send", params), Value::Null),
        };
        let result = harness.result_of(&request, &id, &[]).unwrap_or_else(|refusal| panic!("{refusal:?}"));
        let shape::Answer::Task(task) = shape::answer(binding, &result) else {
            panic!("a task, not {result}");
        };
        assert_eq!((task.context.as_str(), task.history.is_none()), ("mine", true));
    }
    let mut harness = Harness::with(Binding::Rpc10, &[]);
    let task = harness.task(Prompt::new("tck-complete-task"));
    for (method, params) in [
        ("ListTasks", json!({"context_id": task.context, "page_size": 2, "include_artifacts": false})),
        ("GetTask", json!({"id": task.id, "history_length": 1})),
        ("ListTaskPushNotificationConfigs", json!({"task_id": task.id, "page_size": null})),
    ] {
        let request = post("/", json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        let result =
            harness.result_of(&request, &json!(1), &[]).unwrap_or_else(|refusal| panic!("{method}: {refusal:?}"));
        if method == "ListTasks" {
            assert_eq!(result["totalSize"], 1);
        }
    }
}

#[test]
fn a_part_of_1_0_has_one_content() {
    for binding in [Binding::Rpc10, Binding::Rest10] {
        let mut harness = Harness::with(binding, &[]);
        for part in [json!({"text": "a", "data": 1}), json!({"mediaType": "text/plain"}), json!({"raw": "???"})] {
            let op = Op::Send(Prompt::new("tck-complete-task"));
            let id = json!(1);
            let mut request = binding.request(&op, &id);
            let body = request.body.as_mut().expect("a body");
            let message = match binding {
                Binding::Rpc10 => &mut body["params"]["message"],
                _ => &mut body["message"],
            };
            message["parts"] = json!([part]);
            let refusal = harness.result_of(&request, &id, &[]);
            let refusal = refusal.err().unwrap_or_else(|| panic!("{part} was accepted"));
            refusal.check(binding, Fault::InvalidParams);
        }
        // Data may be any JSON value.
        for data in [json!([1, "two"]), json!("text"), json!(7)] {
            let prompt =
                Prompt::new("tck-complete-task").with_parts(vec![Part::Data(data.clone()), Part::Text("go".into())]);
            let task = harness.task(prompt);
            assert_eq!(task.history()[0].parts[0], Part::Data(data));
        }
    }
}

#[test]
fn data_that_is_no_object_is_wrapped_in_one_for_0_3() {
    let mut harness = Harness::with(Binding::Rpc10, &[]);
    let prompt = Prompt::new("tck-complete-task").with_parts(vec![Part::Data(json!([1])), Part::Text("go".into())]);
    let task = harness.task(prompt);
    for binding in [Binding::Rpc03, Binding::Rest03] {
        let shown = harness.other_client(binding).get(&task.id);
        assert_eq!(shown.history()[0].parts[0], Part::Data(json!({"value": [1]})), "{binding:?}");
    }
}

#[test]
fn paths_are_parsed_leniently() {
    let mut harness = Harness::with(Binding::Rest03, &[]);
    let task = harness.task(Prompt::new("tck-input-required"));
    for path in
        [format!("//v1/tasks/{}", task.id), format!("/v1//tasks/{}/", task.id), format!("/v1/tasks/{}/", task.id)]
    {
        let response = harness.client.get(&path);
        assert_eq!((response.status(), &response.json()["id"]), (200, &json!(task.id)), "{path}");
    }
    let canceled = harness.client.post(&format!("/v1/tasks/{}%3Acancel", task.id), &json!({}));
    assert_eq!((canceled.status(), &canceled.json()["status"]["state"]), (200, &json!("TASK_STATE_CANCELLED")));
}

#[test]
fn a_rest_client_may_subscribe_with_get_or_post() {
    for (binding, base) in [(Binding::Rest03, "/v1"), (Binding::Rest10, "")] {
        let mut harness = Harness::with(binding, &[]);
        let task = harness.task(Prompt::new("tck-input-required"));
        for method in ["GET", "POST"] {
            let path = format!("{base}/tasks/{}:subscribe", task.id);
            let mut events = harness.client.events(method, &path, &[("Accept", "text/event-stream")], b"");
            assert!(events.head().is_event_stream(), "{method} {path}: {:?}", events.head());
            let first = events.next().expect("the task").json;
            assert_eq!(first["task"]["id"], json!(task.id), "{method} {path}");
        }
    }
}

/// HEAD is possible for every path that can be read, and has the same status and header fields as GET.
#[test]
fn head_is_answered_like_get_without_the_body() {
    let mut harness = Harness::with(Binding::Rest10, &[&["--extended-card", EXTENDED]]);
    let task = harness.task(Prompt::new("tck-complete-task"));
    let mut client = Client::new(&harness.server.url());
    let one = |path: &str| path.replace("{task}", &task.id);
    let webhook = json!({"id": "h", "url": "https://client.example/a2a"}).to_string();
    let webhooks = one("/tasks/{task}/pushNotificationConfigs");
    let set = client.request("POST", &webhooks, &[("A2A-Version", "1.0")], webhook.as_bytes());
    assert_eq!(set.status(), 200, "{}", set.text());
    for (path, version) in [
        ("/.well-known/agent-card.json", ""),
        ("/.well-known/agent.json", ""),
        ("/listCommands", ""),
        ("/tasks", ""),
        ("/tasks/{task}", ""),
        ("/tasks/metadata", ""),
        ("/tasks/{task}/metadata", ""),
        ("/tasks/nobody", ""),
        ("/v1/tasks", ""),
        ("/v1/tasks/{task}", ""),
        ("/v1/tasks/{task}/pushNotificationConfigs", ""),
        ("/v1/tasks/{task}/pushNotificationConfigs/h", ""),
        ("/v1/card", ""),
        ("/agent/authenticatedExtendedCard", ""),
        ("/tasks", "1.0"),
        ("/tasks/{task}", "1.0"),
        ("/tasks/{task}?historyLength=1", "1.0"),
        ("/tasks/nobody", "1.0"),
        ("/tasks/{task}/pushNotificationConfigs", "1.0"),
        ("/tasks/{task}/pushNotificationConfigs/h", "1.0"),
        ("/extendedAgentCard", "1.0"),
        ("/acme/tasks", "1.0"),
    ] {
        let path = one(path);
        let fields = [("A2A-Version", version)];
        let get = client.request("GET", &path, &fields, b"");
        let head = client.request("HEAD", &path, &fields, b"");
        assert_eq!(head.status(), get.status(), "{path}: {}", get.text());
        assert_eq!(head.body, b"", "{path}");
        for name in ["content-type", "content-length", "etag"] {
            assert_eq!(head.head.field(name), get.head.field(name), "{name} of {path}");
        }
    }
}

#[test]
fn a_wrong_method_is_refused_with_the_allowed_ones() {
    let mut harness = Harness::with(Binding::Rest10, &[]);
    let task = harness.task(Prompt::new("tck-complete-task"));
    for (method, path, right) in [
        ("GET", "/".to_owned(), "POST"),
        ("OPTIONS", "/".into(), "POST"),
        ("OPTIONS", "/tasks".into(), "GET, HEAD, POST"),
        ("HEAD", format!("/tasks/{}:subscribe", task.id), "GET, POST"),
        ("HEAD", "/ws".into(), "GET"),
        ("GET", "/executeCommand".into(), "POST"),
        ("GET", "/message/stream".into(), "POST"),
        ("GET", "/v1/message:send".into(), "POST"),
        ("GET", "/message:send".into(), "POST"),
        ("DELETE", format!("/v1/tasks/{}", task.id), "GET, HEAD"),
        ("PUT", format!("/tasks/{}/pushNotificationConfigs", task.id), "GET, HEAD, POST"),
    ] {
        let response = harness.client.request(method, &path, &[], b"");
        assert_eq!(response.status(), 405, "{method} {path}: {}", response.text());
        let allow = response.head.field("allow");
        assert_eq!(allow, Some(right), "{method} {path}");
        assert_eq!(response.head.field("content-type"), Some("application/json"), "{method} {path}");
    }
}

#[test]
fn an_unknown_path_is_refused_in_the_dialect_of_its_prefix() {
    let harness = Harness::with(Binding::Rest10, &[]);
    let mut client = Client::new(&harness.server.url());
    let old = client.get("/v1/nowhere");
    assert_eq!((old.status(), &old.json()["code"]), (404, &json!(-32601)));
    let mut client = Client::new(&harness.server.url()).field("A2A-Version", "1.0");
    let new = client.get("/nowhere/at/all/really");
    assert_eq!((new.status(), &new.json()["error"]["status"]), (404, &json!("NOT_FOUND")));
}

#[test]
fn rest_1_0_answers_in_its_own_media_type_if_asked() {
    let mut harness = Harness::with(Binding::Rest10, &[]);
    let body = Binding::Rest10.sending(&Prompt::new("tck-complete-task")).to_string();
    let media = |harness: &mut Harness, fields: &[(&str, &str)]| {
        let response = harness.client.request("POST", "/message:send", fields, body.as_bytes());
        assert_eq!(response.status(), 200, "{}", response.text());
        response.head.field("content-type").unwrap_or("").to_owned()
    };
    let json = ("Content-Type", "application/json");
    assert_eq!(media(&mut harness, &[json]), "application/json");
    assert_eq!(media(&mut harness, &[json, ("Accept", "*/*")]), "application/json");
    assert_eq!(
        media(&mut harness, &[json, ("Accept", "application/a2a+json, application/json")]),
        "application/a2a+json"
    );
    assert_eq!(media(&mut harness, &[("Content-Type", "application/a2a+json")]), "application/a2a+json");
    let missing = harness.client.request("GET", "/tasks/nobody", &[("Accept", "application/a2a+json")], b"");
    assert_eq!((missing.status(), missing.head.field("content-type")), (404, Some("application/a2a+json")));
}

#[test]
fn a_tenant_has_tasks_of_its_own() {
    let mut harness = Harness::with(Binding::Rest10, &[]);
    let body = Binding::Rest10.sending(&Prompt::new("tck-complete-task"));
    let mine = harness.client.post("/acme/message:send", &body);
    assert_eq!(mine.status(), 200, "{}", mine.text());
    let id = mine.json()["task"]["id"].as_str().expect("a task").to_owned();
    assert_eq!(harness.client.get(&format!("/acme/tasks/{id}")).status(), 200);
    for foreign in [format!("/tasks/{id}"), format!("/other/tasks/{id}")] {
        assert_eq!(harness.client.get(&foreign).status(), 404, "{foreign}");
    }
}

#[test]
fn a_body_too_large_is_refused() {
    for binding in [Binding::Rpc03, Binding::Rest03, Binding::Rpc10, Binding::Rest10] {
        let harness = Harness::with(binding, &[]);
        let path = match binding {
            Binding::Rpc03 | Binding::Rpc10 => "/",
            Binding::Rest03 => "/v1/message:send",
            Binding::Rest10 => "/message:send",
        };
        let fields = [("Content-Type", "application/json"), ("Content-Length", "99999999999")];
        let mut conn = harness.client.raw();
        let head = harness.client.bytes("POST", path, &fields, b"");
        conn.send(&head).expect("a head");
        let response = conn.response(Side::Response).expect("an answer");
        assert_eq!(response.status(), 413, "{binding:?}");
        assert!(response.json().get("error").is_some(), "{binding:?}");
    }
}

/// Some clients send the same header fields with every request, even without a body.
#[test]
fn unknown_fields_are_ignored() {
    for (binding, base) in [(Binding::Rest03, "/v1"), (Binding::Rest10, "")] {
        let mut harness = Harness::with(binding, &[]);
        let task = harness.task(Prompt::new("tck-input-required"));
        let fields = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json"),
            ("Accept-Encoding", "gzip, deflate"),
            ("Connection", "keep-alive"),
            ("Sec-Fetch-Mode", "cors"),
        ];
        let path = format!("{base}/tasks/{}", task.id);
        for (method, path) in [
            ("GET", path.clone()),
            ("GET", format!("{path}/pushNotificationConfigs")),
            ("DELETE", format!("{path}/pushNotificationConfigs/none")),
            ("POST", format!("{path}:cancel")),
        ] {
            let response = harness.client.request(method, &path, &fields, b"");
            assert_eq!(response.status(), 200, "{method} {path}: {}", response.text());
        }
    }
}
