//! The JSON-RPC envelope: the checks before the method is called, in both versions at one address.

use crate::binding::{Binding, Op, Prompt};
use crate::harness::Harness;
use crate::problem::Fault;
use crate::support::client::Response;
use serde_json::{Value, json};

every_binding! {
    a_message_without_a_json_content_type_is_refused,
}

/// Posts a body that must be refused. Checks the response, and returns its id and error code.
fn code(harness: &mut Harness, body: &str) -> (Value, i64) {
    let response = post(harness, body, "application/json");
    assert_eq!(response.status(), 200, "{body}: {}", response.text());
    id_and_code(&response)
}

fn post(harness: &mut Harness, body: &str, media: &str) -> Response {
    harness.client.request("POST", "/", &[("Content-Type", media)], body.as_bytes())
}

fn id_and_code(response: &Response) -> (Value, i64) {
    assert_eq!(response.head.field("content-type"), Some("application/json"));
    let answer = response.json();
    assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
    assert_eq!(answer.get("result"), None, "{answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    let id = answer.get("id").cloned();
    (id.unwrap_or_else(|| panic!("no id in {answer}")), answer["error"]["code"].as_i64().unwrap_or(0))
}

#[test]
fn an_envelope_is_checked_before_its_parameters() {
    for (binding, send, get) in
        [(Binding::Rpc03, "message/send", "tasks/get"), (Binding::Rpc10, "SendMessage", "GetTask")]
    {
        let mut harness = Harness::with(binding, &[]);
        let harness = &mut harness;
        let parse = format!(r#"{{"jsonrpc": "2.0", "method": "{send}", "params": {{"foo": "bar"}}"#);
        assert_eq!(code(harness, &parse), (Value::Null, -32700));
        assert_eq!(code(harness, "[]"), (Value::Null, -32600));
        assert_eq!(
            code(harness, &json!([{"jsonrpc": "2.0", "id": 1, "method": send}]).to_string()),
            (Value::Null, -32600)
        );
        assert_eq!(code(harness, "7"), (Value::Null, -32600));
        for (request, expected) in [
            (json!({"jsonrpc": "aaa", "method": send, "params": {}}), (Value::Null, -32600)),
            (json!({"jsonrpc": "1.0", "method": send, "params": {}, "id": "x"}), (json!("x"), -32600)),
            (json!({"method": send, "params": {}, "id": 7}), (json!(7), -32600)),
            (json!({"jsonrpc": "2.0", "params": {}}), (Value::Null, -32600)),
            (json!({"jsonrpc": "2.0", "params": {}, "id": "x"}), (json!("x"), -32600)),
            (json!({"jsonrpc": "2.0", "method": 7, "id": "x"}), (json!("x"), -32600)),
            (json!({"jsonrpc": "2.0", "method": send, "params": {}, "id": {"bad": "type"}}), (Value::Null, -32600)),
            (json!({"jsonrpc": "2.0", "method": send, "params": {}, "id": [1]}), (Value::Null, -32600)),
            (json!({"jsonrpc": "2.0", "method": send, "params": {}, "id": true}), (Value::Null, -32600)),
            (json!({"jsonrpc": "2.0", "method": "message/ssend", "params": {}}), (Value::Null, -32601)),
            (json!({"jsonrpc": "2.0", "method": "nonexistent/method", "params": {}, "id": "x"}), (json!("x"), -32601)),
            (json!({"jsonrpc": "2.0", "method": send, "params": {"": "not_a_dict"}}), (Value::Null, -32602)),
            (json!({"jsonrpc": "2.0", "method": send, "params": [], "id": 1}), (json!(1), -32602)),
            (json!({"jsonrpc": "2.0", "method": send, "params": "x", "id": 1}), (json!(1), -32602)),
            (json!({"jsonrpc": "2.0", "method": send, "id": 1}), (json!(1), -32602)),
            (
                json!({"jsonrpc": "2.0", "method": send, "params": {"message": {"parts": "invalid"}}, "id": 1}),
                (json!(1), -32602),
            ),
            (json!({"jsonrpc": "2.0", "method": get, "params": {}, "id": 1}), (json!(1), -32602)),
            (json!({"jsonrpc": "2.0", "method": get, "params": {"id": 12345}, "id": 1}), (json!(1), -32602)),
        ] {
            assert_eq!(code(harness, &request.to_string()), expected, "{request}");
        }
        let empty = json!({"jsonrpc": "2.0", "method": get, "params": {"id": ""}, "id": 1}).to_string();
        assert!([-32602, -32001].contains(&code(harness, &empty).1));
    }
}

#[test]
fn an_id_comes_back_as_it_was_given() {
    let mut harness = Harness::with(Binding::Rpc03, &[]);
    for id in [json!(0), json!(-7), json!(9_007_199_254_740_991_u64), json!(""), json!("\"\u{1}ü"), Value::Null] {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "tasks/get", "params": {"id": "nobody-made-this"}});
        assert_eq!(code(&mut harness, &request.to_string()), (id, -32001));
    }
    let request = json!({"jsonrpc": "2.0", "method": "tasks/get", "params": {"id": "nobody-made-this"}});
    assert_eq!(
        code(&mut harness, &request.to_string()),
        (Value::Null, -32001),
        "a request without an id gets a response too"
    );
}

#[test]
fn a_body_without_a_json_content_type_is_refused() {
    for (binding, method) in [(Binding::Rpc03, "tasks/get"), (Binding::Rpc10, "GetTask")] {
        let mut harness = Harness::with(binding, &[]);
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "x"}}).to_string();
        for media in ["text/plain", "application/x-www-form-urlencoded"] {
            let response = post(&mut harness, &request, media);
            assert_eq!(id_and_code(&response), (json!(1), -32005), "{media}");
        }
        for media in ["application/json; charset=utf-8", "application/a2a+json", "application/vnd.x+json"] {
            let response = post(&mut harness, &request, media);
            assert_eq!(id_and_code(&response).1, -32001, "{media}");
        }
    }
}

fn a_message_without_a_json_content_type_is_refused(harness: &mut Harness) {
    let id = json!(1);
    let request = harness.binding.request(&Op::Send(Prompt::new("tck-complete-task")), &id);
    let body = request.body.expect("a body").to_string();
    let fields = [("Content-Type", "text/plain")];
    let response = harness.client.request(request.method, &request.path, &fields, body.as_bytes());
    let refusal = harness.parse(&response, &id).expect_err("a refusal");
    refusal.check(harness.binding, Fault::ContentType);
    assert_eq!(harness.task_count(), 0);
}

#[test]
fn the_methods_of_a_version_exist() {
    for (binding, methods) in [
        (
            Binding::Rpc03,
            vec![
                "message/send",
                "message/stream",
                "tasks/get",
                "tasks/cancel",
                "tasks/resubscribe",
                "tasks/pushNotificationConfig/set",
                "tasks/pushNotificationConfig/get",
                "tasks/pushNotificationConfig/list",
                "tasks/pushNotificationConfig/delete",
                "agent/getAuthenticatedExtendedCard",
                "agent/authenticatedExtendedCard",
            ],
        ),
        (
            Binding::Rpc10,
            vec![
                "SendMessage",
                "SendStreamingMessage",
                "GetTask",
                "ListTasks",
                "CancelTask",
                "SubscribeToTask",
                "CreateTaskPushNotificationConfig",
                "GetTaskPushNotificationConfig",
                "ListTaskPushNotificationConfigs",
                "DeleteTaskPushNotificationConfig",
                "GetExtendedAgentCard",
            ],
        ),
    ] {
        let mut harness = Harness::with(binding, &[]);
        for method in methods {
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"": 1}}).to_string();
            let answer = post(&mut harness, &request, "application/json").json();
            assert_ne!(answer["error"]["code"], -32601, "{method}");
        }
    }
    let mut harness = Harness::with(Binding::Rpc03, &[]);
    for method in ["tasks/list", "tasks/status", "tasks/delete", "agent/customUnsupportedOperation", "sendmessage"] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}).to_string();
        assert_eq!(code(&mut harness, &request), (json!(1), -32601), "{method}");
    }
}
