//! Webhooks: kept, listed, removed, and called.

use crate::binding::{Binding, Hook, Note, Op, Version, Wait, Wire};
use crate::desk::Desk;
use crate::hook::{Delivery, Receiver};
use crate::problem::Fault;
use crate::shape;
use serde_json::{Value, json};

duties! {
    a_webhook_is_kept_until_it_is_deleted,
    no_webhooks_for_a_task_that_is_not_there,
    a_webhook_without_an_id_gets_one,
    a_webhook_needs_an_address_of_the_outside_world,
    a_webhook_may_come_with_the_message [super::PRIVATE],
    a_webhook_that_fails_is_called_again [super::PRIVATE],
    a_webhook_hears_of_every_change_in_order [super::PRIVATE],
    a_webhook_may_come_with_a_stream [super::PRIVATE],
    a_webhook_hears_once_of_work_that_goes_on [super::IMPATIENT],
}

const PRIVATE: &[&str] = &["--push-allow-private"];
const IMPATIENT: &[&str] = &["--push-allow-private", "--blocking-timeout", "500ms"];

fn example(id: &str) -> Hook {
    Hook {
        token: Some("tok".into()),
        credentials: Some("s3cret".into()),
        ..Hook::at("https://example.com/webhook").named(id)
    }
}

/// A webhook as each binding writes it, read back.
fn read(binding: Binding, task: &str, value: &Value) -> Hook {
    let config = match binding {
        Binding::Rpc03 => {
            assert_eq!(value["taskId"], task, "{value}");
            &value["pushNotificationConfig"]
        }
        Binding::Rest03 => {
            let id = value["pushNotificationConfig"]["id"].as_str().unwrap_or_default();
            assert_eq!(value["name"], format!("tasks/{task}/pushNotificationConfigs/{id}"), "{value}");
            assert_eq!(value.as_object().map(|members| members.len()), Some(2), "{value}");
            &value["pushNotificationConfig"]
        }
        Binding::Rpc10 | Binding::Rest10 => {
            assert_eq!(value["taskId"], task, "{value}");
            let known = ["id", "taskId", "url", "token", "authentication", "tenant"];
            assert!(value.as_object().into_iter().flatten().all(|(name, _)| known.contains(&name.as_str())), "{value}");
            value
        }
    };
    let authentication = &config["authentication"];
    let scheme = match binding.version() {
        Version::V03 => &authentication["schemes"][0],
        Version::V10 => &authentication["scheme"],
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if !authentication.is_null() {
        assert_eq!(scheme, "Bearer", "{value}");
    }
    Hook {
        id: text(&config["id"]),
        url: text(&config["url"]).unwrap_or_else(|| panic!("no url in {value}")),
        token: text(&config["token"]),
        credentials: text(&authentication["credentials"]),
    }
}

fn listed(desk: &mut Desk, task: &str) -> Vec<Hook> {
    let list = desk.done(&Op::ListHooks(task.into()));
    let hooks = match desk.binding {
        Binding::Rpc03 => &list,
        Binding::Rest03 => &list["configs"],
        Binding::Rpc10 | Binding::Rest10 => &list["configs"],
    };
    let hooks = hooks.as_array().unwrap_or_else(|| panic!("no list in {list}"));
    hooks.iter().map(|hook| read(desk.binding, task, hook)).collect()
}

fn a_webhook_is_kept_until_it_is_deleted(desk: &mut Desk) {
    // Also one of a task that is over.
    let task = desk.task(Note::new("tck-complete-task")).id;
    assert_eq!(listed(desk, &task), []);
    let hook = example("hook-1");
    let set = desk.set_hook(&task, &hook);
    assert_eq!(read(desk.binding, &task, &set), hook);
    let got = desk.done(&Op::GetHook(task.clone(), "hook-1".into()));
    assert_eq!(read(desk.binding, &task, &got), hook);
    let second = Hook { url: "https://example.com/other".into(), ..example("hook-2") };
    desk.set_hook(&task, &second);
    assert_eq!(listed(desk, &task), [hook.clone(), second.clone()]);
    // Setting one again replaces it.
    let moved = Hook { url: "https://example.com/moved".into(), ..hook };
    desk.set_hook(&task, &moved);
    assert_eq!(listed(desk, &task), [moved, second.clone()]);
    for _ in 0..2 {
        let nothing = match desk.binding {
            Binding::Rpc03 => Value::Null,
            Binding::Rest03 | Binding::Rpc10 | Binding::Rest10 => json!({}),
        };
        assert_eq!(desk.done(&Op::DeleteHook(task.clone(), "hook-1".into())), nothing);
    }
    desk.refused(&Op::GetHook(task.clone(), "hook-1".into()), Fault::TaskNotFound);
    assert_eq!(listed(desk, &task), [second]);
}

fn no_webhooks_for_a_task_that_is_not_there(desk: &mut Desk) {
    let task = || "nobody-made-this".to_owned();
    for op in [
        Op::SetHook(task(), example("h")),
        Op::GetHook(task(), "h".into()),
        Op::ListHooks(task()),
        Op::DeleteHook(task(), "h".into()),
    ] {
        desk.refused(&op, Fault::TaskNotFound);
    }
}

fn a_webhook_without_an_id_gets_one(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-complete-task")).id;
    let set = desk.set_hook(&task, &Hook::at("https://example.com/webhook"));
    let id = read(desk.binding, &task, &set).id.expect("an id");
    assert!(!id.is_empty());
    let names = match desk.binding.version() {
        // What clients of 0.3 take for its name.
        Version::V03 => vec![task.clone(), "default".into()],
        Version::V10 => vec![id],
    };
    for name in names {
        let got = desk.done(&Op::GetHook(task.clone(), name.clone()));
        assert_eq!(read(desk.binding, &task, &got).url, "https://example.com/webhook", "{name}");
    }
    if desk.binding == Binding::Rpc03 {
        let call = json!(1);
        let mut wire = desk.binding.wire(&Op::GetHook(task.clone(), String::new()), &call);
        wire.body.as_mut().expect("a body")["params"] = json!({"id": task});
        let got = desk.put_as(&wire, &call, &[]).expect("the only one");
        assert_eq!(read(Binding::Rpc03, &task, &got).url, "https://example.com/webhook");
    }
}

fn a_webhook_needs_an_address_of_the_outside_world(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-complete-task")).id;
    for url in [
        "",
        "nonsense",
        "ftp://example.com/",
        "http://example.com/",
        "https://localhost/",
        "https://127.0.0.1/",
        "https://169.254.169.254/latest",
        "https://[::1]/",
        "https://10.0.0.1/",
        "https://user@example.com/",
        "https://example.com/#part",
    ] {
        desk.refused(&Op::SetHook(task.clone(), Hook::at(url).named("h")), Fault::InvalidParams);
    }
    assert_eq!(listed(desk, &task), []);
}

fn a_webhook_may_come_with_the_message(desk: &mut Desk) {
    let receiver = Receiver::open();
    let hook = Hook {
        token: Some("n0tify".into()),
        credentials: Some("s3cret".into()),
        ..Hook::at(&receiver.url()).named("inline")
    };
    let task = desk.task(Note::new("tck-input-required").wait(Wait::Whole).hooked(hook.clone()));
    assert_eq!(listed(desk, &task.id), [hook]);
    desk.task(Note::new("tck-complete-task").to(&task.id));
    receiver.wait("the end of the task", |delivery| shown(desk.binding, delivery).1 == "completed");
    for delivery in receiver.all() {
        assert_eq!(delivery.head.method(), "POST");
        assert_eq!(delivery.head.target(), "/webhook");
        assert_eq!(delivery.head.field("authorization"), Some("Bearer s3cret"));
        assert_eq!(delivery.head.field("x-a2a-notification-token"), Some("n0tify"));
        assert_eq!(shown(desk.binding, &delivery).0, task.id);
    }
    let log = desk.server.output();
    assert!(!log.contains("s3cret") && !log.contains("n0tify"), "{log}");
}

fn a_webhook_that_fails_is_called_again(desk: &mut Desk) {
    let receiver = Receiver::failing(1);
    let hook = Hook::at(&receiver.url()).named("again");
    let task = desk.task(Note::new("tck-complete-task").wait(Wait::Whole).hooked(hook));
    receiver.wait("the end of the task", |delivery| shown(desk.binding, delivery).1 == "completed");
    let all = receiver.all();
    assert!(all.len() > 1, "{all:?}");
    assert!(all.iter().all(|delivery| shown(desk.binding, delivery).0 == task.id));
}

fn a_webhook_hears_of_every_change_in_order(desk: &mut Desk) {
    let receiver = Receiver::open();
    let task = desk.task(Note::new("tck-input-required"));
    desk.set_hook(&task.id, &Hook::at(&receiver.url()).named("later"));
    desk.task(Note::new("tck-artifact-text").to(&task.id));
    receiver.wait("the end of the task", |delivery| shown(desk.binding, delivery).1 == "completed");
    let all = receiver.all();
    let states: Vec<&str> =
        all.iter().map(|delivery| shown(desk.binding, delivery).1).filter(|state| !state.is_empty()).collect();
    let order = ["submitted", "working", "input-required", "completed"];
    let place = |state: &str| order.iter().position(|known| *known == state).expect("a known state");
    assert!(states.windows(2).all(|pair| place(pair[0]) <= place(pair[1])), "{states:?}");
    let marks: Vec<&str> = all.iter().filter_map(|delivery| delivery.head.field("x-a2a-event-id")).collect();
    assert_eq!(marks.len(), all.len());
    let numbers: Vec<u64> = marks
        .iter()
        .map(|mark| {
            let (of, seq) = mark.rsplit_once(':').expect("task:seq");
            assert_eq!(of, task.id);
            seq.parse().expect("a number")
        })
        .collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    if desk.is(Version::V10) {
        assert!(all.iter().any(|delivery| delivery.body.get("artifactUpdate").is_some()), "{all:?}");
    }
}

fn a_webhook_may_come_with_a_stream(desk: &mut Desk) {
    let receiver = Receiver::open();
    let note = Note::new("tck-complete-task").hooked(Hook::at(&receiver.url()).named("s"));
    let seen = desk.stream(note).whole();
    let id = seen[0].update.task_id().to_owned();
    assert_eq!(listed(desk, &id).len(), 1);
    receiver.wait("the end of the task", |delivery| shown(desk.binding, delivery) == (id.as_str(), "completed"));
}

/// A kit has one receiver for several tasks, each with credentials of its own, and looks at the first delivery it gets for each. So
/// the script must not have another one under way when the next task begins.
fn a_webhook_hears_once_of_work_that_goes_on(desk: &mut Desk) {
    let receiver = Receiver::open();
    let task = desk.task(Note::new("test-push-delivery-").wait(Wait::Whole));
    assert_eq!(task.state(), "input-required");
    desk.set_hook(&task.id, &Hook::at(&receiver.url()).named("kit"));
    let task = desk.task(Note::new("test-push-trigger-").to(&task.id).wait(Wait::Whole));
    assert_eq!(task.state(), "working");
    let told = receiver
        .wait("what the waiting call was answered with", |delivery| shown(desk.binding, delivery).1 == "working");
    assert_eq!(shown(desk.binding, &told).0, task.id);
    assert_eq!(receiver.all().len(), 1, "{:?}", receiver.all());
}

/// The task and the state a delivery tells of; what it looks like is checked by the version it was asked for in.
fn shown(binding: Binding, delivery: &Delivery) -> (&str, &'static str) {
    let body = &delivery.body;
    let media = delivery.head.field("content-type").unwrap_or("");
    match binding.version() {
        Version::V03 => {
            assert_eq!(media, "application/json");
            let task = shape::task(Binding::Rpc03, body);
            (body["id"].as_str().unwrap_or_default(), task.state())
        }
        Version::V10 => {
            assert_eq!(media, "application/a2a+json");
            let update = shape::update(Binding::Rest10, body);
            let state = update.state().unwrap_or("");
            let inner = body.as_object().and_then(|body| body.values().next());
            let id = inner.and_then(|inner| inner.get("taskId").or(inner.get("id")));
            (id.and_then(Value::as_str).unwrap_or_default(), state)
        }
    }
}

/// The ways clients of REST 0.3 spell a new webhook.
#[test]
fn rest_03_takes_a_webhook_in_every_spelling() {
    let mut desk = Desk::with(Binding::Rest03, &[]);
    let task = desk.task(Note::new("tck-complete-task")).id;
    let name = format!("tasks/{task}/pushNotificationConfigs/default");
    let url = "https://example.com/webhook";
    for body in [
        json!({"parent": format!("tasks/{task}"), "config_id": "default", "config": {"name": name, "push_notification_config":
            {"id": "default", "url": url, "token": "", "authentication": {}}}}),
        json!({"parent": format!("tasks/{task}"), "configId": "default", "config": {"name": name, "pushNotificationConfig": {"id": "default", "url": url}}}),
        json!({"name": name, "pushNotificationConfig": {"url": url}}),
        json!({"taskId": task, "pushNotificationConfig": {"id": "default", "url": url}}),
        json!({"id": "default", "url": url}),
    ] {
        let wire = Wire {
            method: "POST",
            path: format!("/v1/tasks/{task}/pushNotificationConfigs"),
            body: Some(body.clone()),
        };
        let set = desk.put_as(&wire, &Value::Null, &[]);
        let set = set.unwrap_or_else(|refusal| panic!("{body}: {refusal:?}"));
        assert_eq!(set["pushNotificationConfig"]["url"], url, "{body}");
        assert_eq!(set["pushNotificationConfig"]["id"], "default", "{body}");
        desk.done(&Op::DeleteHook(task.clone(), "default".into()));
    }
}
