//! The JSON-RPC envelope: what is checked before any method is looked at, in both versions at one address.

use crate::binding::{Binding, Note, Op};
use crate::desk::Desk;
use crate::problem::Fault;
use crate::support::client::Response;
use serde_json::{Value, json};

duties! {
    a_message_that_does_not_say_it_is_json_is_refused,
}

/// Posts bytes, and gives the answer's id and error code; everything about the answer that never differs is checked.
fn code(desk: &mut Desk, body: &str) -> (Value, i64) {
    let response = post(desk, body, "application/json");
    assert_eq!(response.status(), 200, "{body}: {}", response.text());
    refused(&response)
}

fn post(desk: &mut Desk, body: &str, media: &str) -> Response {
    desk.client.request("POST", "/", &[("Content-Type", media)], body.as_bytes())
}

fn refused(response: &Response) -> (Value, i64) {
    assert_eq!(response.head.field("content-type"), Some("application/json"));
    let answer = response.json();
    assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
    assert_eq!(answer.get("result"), None, "{answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    let id = answer.get("id").cloned();
    (id.unwrap_or_else(|| panic!("no id in {answer}")), answer["error"]["code"].as_i64().unwrap_or(0))
}

#[test]
fn a_request_is_checked_from_the_outside_in() {
    for (binding, send, get) in
        [(Binding::Rpc03, "message/send", "tasks/get"), (Binding::Rpc10, "SendMessage", "GetTask")]
    {
        let mut desk = Desk::with(binding, &[]);
        let desk = &mut desk;
        let parse = format!(r#"{{"jsonrpc": "2.0", "method": "{send}", "params": {{"foo": "bar"}}"#);
        assert_eq!(code(desk, &parse), (Value::Null, -32700));
        assert_eq!(code(desk, "[]"), (Value::Null, -32600));
        assert_eq!(
            code(desk, &json!([{"jsonrpc": "2.0", "id": 1, "method": send}]).to_string()),
            (Value::Null, -32600)
        );
        assert_eq!(code(desk, "7"), (Value::Null, -32600));
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
            assert_eq!(code(desk, &request.to_string()), expected, "{request}");
        }
        let empty = json!({"jsonrpc": "2.0", "method": get, "params": {"id": ""}, "id": 1}).to_string();
        assert!([-32602, -32001].contains(&code(desk, &empty).1));
    }
}

#[test]
fn an_id_comes_back_as_it_was_given() {
    let mut desk = Desk::with(Binding::Rpc03, &[]);
    for id in [json!(0), json!(-7), json!(9_007_199_254_740_991_u64), json!(""), json!("\"\u{1}ü"), Value::Null] {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "tasks/get", "params": {"id": "nobody-made-this"}});
        assert_eq!(code(&mut desk, &request.to_string()), (id, -32001));
    }
    let request = json!({"jsonrpc": "2.0", "method": "tasks/get", "params": {"id": "nobody-made-this"}});
    assert_eq!(code(&mut desk, &request.to_string()), (Value::Null, -32001), "who gives none is answered all the same");
}

#[test]
fn a_body_that_does_not_say_it_is_json_is_refused() {
    for (binding, method) in [(Binding::Rpc03, "tasks/get"), (Binding::Rpc10, "GetTask")] {
        let mut desk = Desk::with(binding, &[]);
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "x"}}).to_string();
        for media in ["text/plain", "application/x-www-form-urlencoded"] {
            let response = post(&mut desk, &request, media);
            assert_eq!(refused(&response), (json!(1), -32005), "{media}");
        }
        for media in ["application/json; charset=utf-8", "application/a2a+json", "application/vnd.x+json"] {
            let response = post(&mut desk, &request, media);
            assert_eq!(refused(&response).1, -32001, "{media}");
        }
    }
}

fn a_message_that_does_not_say_it_is_json_is_refused(desk: &mut Desk) {
    let id = json!(1);
    let wire = desk.binding.wire(&Op::Send(Note::new("tck-complete-task")), &id);
    let body = wire.body.expect("a body").to_string();
    let fields = [("Content-Type", "text/plain")];
    let response = desk.client.request(wire.method, &wire.path, &fields, body.as_bytes());
    let refusal = desk.read(&response, &id).expect_err("a refusal");
    refusal.check(desk.binding, Fault::ContentType);
    assert_eq!(desk.tasks(), 0);
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
        let mut desk = Desk::with(binding, &[]);
        for method in methods {
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"": 1}}).to_string();
            let answer = post(&mut desk, &request, "application/json").json();
            assert_ne!(answer["error"]["code"], -32601, "{method}");
        }
    }
    let mut desk = Desk::with(Binding::Rpc03, &[]);
    for method in ["tasks/list", "tasks/status", "tasks/delete", "agent/customUnsupportedOperation", "sendmessage"] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}).to_string();
        assert_eq!(code(&mut desk, &request), (json!(1), -32601), "{method}");
    }
}
