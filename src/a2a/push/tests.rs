//! Tests of webhook configurations and of the bodies of deliveries.

use super::*;
use crate::a2a::Dialect;
use crate::a2a::sample;
use crate::base::secret::Secret;
use crate::task::fault::FaultKind;
use crate::task::log::event::{End, Event, Profile};
use crate::task::log::record::Record;
use crate::task::machine::state::Item;
use crate::task::message::{Artifact, Part};
use crate::task::push::Health;
use serde_json::{Value, json};
use std::sync::Arc;

fn read(given: Value) -> Result<(Option<TaskId>, Wish), Fault> {
    let given = given.as_object().expect("an object").clone();
    wish(&given, "params", &PushRules::default())
}

fn full(id: Option<&str>, schemes: &[&str]) -> Wish {
    Wish {
        id: id.map(ConfigId::from),
        url: "https://client.example/a2a".into(),
        token: Some(Secret::new("tok")),
        schemes: schemes.iter().map(|scheme| (*scheme).into()).collect(),
        credentials: Some(Secret::new("s3cret")),
    }
}

#[test]
fn every_format_of_the_settings_is_read_alike() {
    let url = "https://client.example/a2a";
    let old = json!({"id": "h", "url": url, "token": "tok",
        "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "s3cret"}});
    let mut nameless = old.clone();
    nameless.as_object_mut().expect("an object").remove("id");
    let new = json!({"id": "h", "url": url, "token": "tok",
        "authentication": {"scheme": "Bearer", "credentials": "s3cret"}});
    let mut flat = new.clone();
    flat["taskId"] = json!("t-1");
    flat["tenant"] = json!("x");
    let name = "tasks/t-1/pushNotificationConfigs/h";
    let both = ["Bearer", "Basic"];
    let task = Some(TaskId::from("t-1"));
    for (given, expected) in [
        // 0.3 over JSON-RPC.
        (json!({"taskId": "t-1", "pushNotificationConfig": old}), (task.clone(), full(Some("h"), &both))),
        (json!({"taskId": "t-1", "pushNotificationConfig": nameless}), (task.clone(), full(None, &both))),
        (json!({"task_id": "t-1", "push_notification_config": old}), (task.clone(), full(Some("h"), &both))),
        // 1.0, flat.
        (flat, (task.clone(), full(Some("h"), &["Bearer"]))),
        // REST, as clients of several kits send it.
        (json!({"name": name, "pushNotificationConfig": nameless}), (task.clone(), full(Some("h"), &both))),
        (json!({"parent": "tasks/t-1", "configId": "h", "config": new}), (task.clone(), full(Some("h"), &["Bearer"]))),
        (
            json!({"parent": "tasks/t-1", "config_id": "h",
                "config": {"name": name, "push_notification_config": nameless}}),
            (task.clone(), full(Some("h"), &both)),
        ),
        (json!({"parent": "tasks/t-1/pushNotificationConfigs", "config": new}), (task, full(Some("h"), &["Bearer"]))),
        (json!({"config": old}), (None, full(Some("h"), &both))),
        // Bare, also inline with a prompt.
        (old, (None, full(Some("h"), &both))),
        (
            json!({"id": "", "taskId": "", "url": url, "token": "tok",
                "authentication": {"schemes": [], "scheme": "Bearer", "credentials": "s3cret"}}),
            (None, full(None, &["Bearer"])),
        ),
        (
            json!({"url": url, "token": null, "authentication": null}),
            (None, Wish { token: None, credentials: None, ..full(None, &[]) }),
        ),
    ] {
        assert_eq!(read(given.clone()), Ok(expected), "{given}");
    }
}

#[test]
fn faults_name_the_wrong_member() {
    let url = "https://client.example/a2a";
    for (given, field) in [
        (json!({}), "url"),
        (json!({"pushNotificationConfig": {}}), "url"),
        (json!({"url": ""}), "url"),
        (json!({"url": "http://client.example/"}), "url"),
        (json!({"config": {"url": "https://127.0.0.1/"}}), "url"),
        (json!({"url": url, "id": "a b"}), "id"),
        (json!({"url": url, "id": "a/b"}), "id"),
        (json!({"url": url, "token": "a\r\nX-Evil: 1"}), "token"),
        (json!({"url": url, "token": "ü"}), "token"),
        (json!({"url": url, "authentication": {"schemes": ["a b"]}}), "authentication.schemes"),
        (json!({"url": url, "authentication": {"scheme": "B", "credentials": "\n"}}), "authentication.credentials"),
    ] {
        let fault = read(given.clone()).expect_err("refused");
        assert_eq!((fault.kind, fault.field.as_deref()), (FaultKind::InvalidParams, Some(field)), "{given}");
    }
    for given in [
        json!({"url": 7}),
        json!({"url": url, "authentication": "Bearer"}),
        json!({"url": url, "authentication": {"schemes": "Bearer"}}),
        json!({"pushNotificationConfig": []}),
    ] {
        let fault = read(given.clone()).expect_err("refused");
        assert_eq!(fault.kind, FaultKind::InvalidParams, "{given}");
    }
    let long = "x".repeat(WEBHOOK_TEXT_BYTES + 1);
    assert!(read(json!({"url": url, "token": long})).is_err());
}

fn hook(id: &str) -> Hook {
    let target = full(Some(id), &["Bearer", "Basic"]).target(id.into(), Protocol::V03, Profile::Coder);
    Hook::new(Arc::new(target), Seq(1))
}

fn bare(id: &str) -> Hook {
    let target = Wish { token: None, credentials: None, ..full(Some(id), &[]) };
    Hook::new(Arc::new(target.target(id.into(), Protocol::V10, Profile::Plain)), Seq(1))
}

fn body(response: &Response) -> Value {
    serde_json::from_slice(&response.body).expect("JSON")
}

#[test]
fn each_writer_has_its_own_configuration() {
    let task = TaskId::from("t-1");
    let url = "https://client.example/a2a";
    let old = json!({"id": "h", "url": url, "token": "tok",
        "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "s3cret"}});
    let rpc = |result: &Value| json!({"jsonrpc": "2.0", "id": null, "result": result});
    let kind = json!({"taskId": "t-1", "pushNotificationConfig": old});
    let proto = json!({"name": "tasks/t-1/pushNotificationConfigs/h", "pushNotificationConfig": old});
    let flat = json!({"taskId": "t-1", "id": "h", "url": url, "token": "tok",
        "authentication": {"scheme": "Bearer", "credentials": "s3cret"}});
    for (dialect, one, many, gone) in [
        (Dialect::RPC_03, rpc(&kind), rpc(&json!([kind])), rpc(&Value::Null)),
        (Dialect::REST_03_JSON, kind.clone(), json!([kind]), json!({})),
        (Dialect::REST_03_PROTO, proto.clone(), json!({"configs": [proto]}), json!({})),
        (Dialect::RPC_10, rpc(&flat), rpc(&json!({"configs": [flat], "nextPageToken": ""})), rpc(&json!({}))),
        (Dialect::REST_10, flat.clone(), json!({"configs": [flat], "nextPageToken": ""}), json!({})),
    ] {
        let form = Form::of(dialect);
        assert_eq!(body(&config(&form, &task, &hook("h"))), one);
        assert_eq!(body(&configs(&form, &task, &[hook("h")])), many);
        assert_eq!(body(&deleted(&form)), gone);
        assert_eq!(deleted(&form).status, 200);
    }
    let form = Form::of(Dialect::REST_10);
    assert_eq!(body(&config(&form, &task, &bare("b"))), json!({"taskId": "t-1", "id": "b", "url": url}));
}

#[test]
fn deliveries_are_reported_only_where_extra_members_are_allowed() {
    let task = TaskId::from("t-1");
    let mut hook = hook("h");
    hook.health = Health::default().after_success().after_failure("status 500", 9);
    let metadata = json!({"deliveries":
        {"delivered": 1, "failed": 1, "pending": 0, "suspended": false, "lastError": "status 500"}});
    for (dialect, shown) in [
        (Dialect::RPC_03, true),
        (Dialect::REST_03_JSON, true),
        (Dialect::REST_03_PROTO, false),
        (Dialect::RPC_10, false),
        (Dialect::REST_10, false),
    ] {
        let answer = body(&config(&Form::of(dialect), &task, &hook));
        let config = answer.get("result").unwrap_or(&answer);
        let expected = shown.then_some(&metadata);
        assert_eq!(config.get("metadata"), expected, "{dialect:?}");
    }
}

#[test]
fn a_webhook_without_a_name_gets_one() {
    let state = sample::state();
    let named = |dialect, id| {
        let form = Form::of(dialect);
        target(full(id, &[]), &form, &state.created, || "fresh".into())
    };
    let old = named(Dialect::RPC_03, None);
    assert_eq!((old.id.as_str(), old.protocol, old.profile), ("t-1", Protocol::V03, Profile::Coder));
    let new = named(Dialect::RPC_10, None);
    assert_eq!((new.id.as_str(), new.protocol, new.profile), ("fresh", Protocol::V10, Profile::Plain));
    assert_eq!(named(Dialect::REST_10, Some("h")).id.as_str(), "h");
}

#[test]
fn which_webhook_is_meant() {
    let task = TaskId::from("t-1");
    let found = |hooks: &[Hook], id: Option<&str>| {
        let id = id.map(ConfigId::from);
        match find(&task, hooks, id.as_ref()) {
            Ok(hook) => hook.target.id.to_string(),
            Err(fault) => format!("{:?}", fault.kind),
        }
    };
    let unknown = "TaskNotFound(t-1)";
    let own = [hook("a"), hook("t-1")];
    let others = [hook("a"), hook("b")];
    for (hooks, id, expected) in [
        (&own[..], None, "t-1"),
        (&own, Some("t-1"), "t-1"),
        (&own, Some("default"), "t-1"),
        (&own, Some("a"), "a"),
        (&own, Some("b"), unknown),
        (&others, None, "InvalidParams"),
        (&others, Some("default"), unknown),
        (&others[..1], None, "a"),
        (&others[..0], None, unknown),
        (&others[..0], Some("a"), unknown),
    ] {
        assert_eq!(found(hooks, id), expected, "{id:?}");
    }
}

#[test]
fn header_lines() {
    let task = TaskId::from("t-1");
    let target = |hook: &Hook| headers(&hook.target, &task, Seq(7));
    assert_eq!(
        target(&hook("h")),
        [
            ("Content-Type", "application/json".to_owned()),
            ("A2A-Version", "0.3".into()),
            ("X-A2A-Event-Id", "t-1:7".into()),
            ("Authorization", "Bearer s3cret".into()),
            ("X-A2A-Notification-Token", "tok".into()),
        ]
    );
    assert_eq!(
        target(&bare("h")),
        [
            ("Content-Type", "application/a2a+json".to_owned()),
            ("A2A-Version", "1.0".into()),
            ("X-A2A-Event-Id", "t-1:7".into()),
        ]
    );
    // An `Authorization` header needs both a scheme and credentials.
    for (schemes, credentials) in [(vec!["Bearer".into()], None), (vec![], Some(Secret::new("x")))] {
        let lone = Target { schemes, credentials, ..(*bare("h").target).clone() };
        assert_eq!(headers(&lone, &task, Seq(7)), target(&bare("h")));
    }
}

/// A task whose turn is over, with an artifact and a status to be delivered.
fn state_with_deliveries(target: &Target) -> State {
    let mut state = sample::state();
    for id in ["m-1", "m-2"] {
        let said = Item::Said(Arc::new(sample::prompt(id, "hi")));
        state.history.push(Arc::new(said));
    }
    let artifact =
        Artifact { id: "a".into(), name: Some("notes".into()), description: None, parts: vec![Part::text("x")] };
    let events = [
        Event::HookSet { target: Arc::new(target.clone()) },
        Event::Produced { artifact: Arc::new(artifact), append: false, last: true },
        Event::TurnEnded { turn: 1, end: End::Asked("Which one?".into()), by: None },
    ];
    for event in events {
        let record = Record { seq: state.seq.next(), at: sample::AT + state.seq.0, event };
        state.apply(&record);
    }
    state
}

fn delivered(target: &Target, state: &State, due: &Due) -> Option<Value> {
    let body = delivery(target, state, due, 1, &sample::tools())?;
    Some(serde_json::from_slice(&body).expect("JSON"))
}

#[test]
fn a_0_3_delivery_is_the_current_task() {
    let target = hook("h").target;
    let state = state_with_deliveries(&target);
    let due = state.hooks[0].due.front().expect("something is due");
    let task = delivered(&target, &state, due).expect("a body");
    assert_eq!(
        (&task["kind"], &task["id"], &task["status"]["state"]),
        (&json!("task"), &json!("t-1"), &json!("input-required"))
    );
    assert_eq!(task["history"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_artifact_is_delivered_whole_and_a_removed_one_is_not_delivered() {
    let target = bare("h").target;
    let state = state_with_deliveries(&target);
    let [artifact, status] = &Vec::from(state.hooks[0].due.clone())[..] else {
        panic!("two things are due: {:?}", state.hooks[0].due);
    };
    let text = delivered(&target, &state, artifact).expect("a body").to_string();
    assert!(text.contains(r#""artifactId":"a""#) && text.contains(r#""lastChunk":true"#), "{text}");
    let text = delivered(&target, &state, status).expect("a body").to_string();
    assert!(text.contains("Which one?"), "{text}");
    let gone = Due::Artifact { seq: Seq(1), id: "gone".into() };
    assert_eq!(delivered(&target, &state, &gone), None);
}

#[test]
fn a_past_status_is_delivered_as_it_was() {
    let target = bare("h").target;
    let mut state = state_with_deliveries(&target);
    let due = state.hooks[0].due.back().expect("something is due").clone();
    let closed = Event::Closed { state: crate::task::log::event::Final::Canceled, text: None };
    let record = Record { seq: state.seq.next(), at: sample::AT + 60_000, event: closed };
    state.apply(&record);
    let text = delivered(&target, &state, &due).expect("a body").to_string();
    assert!(text.contains("Which one?") && !text.to_lowercase().contains("canceled"), "{text}");
}
