//! Webhooks: setting, listing, deleting and calling them.

use crate::binding::{Binding, Op, Prompt, Version, Wait, Webhook, post};
use crate::harness::Harness;
use crate::problem::Fault;
use crate::receiver::{Delivery, Receiver};
use crate::shape;
use serde_json::{Value, json};

every_binding! {
    a_webhook_is_kept_until_it_is_deleted,
    webhooks_of_an_unknown_task_are_refused,
    a_webhook_without_an_id_gets_one,
    a_webhook_needs_a_public_address,
    a_webhook_may_come_with_the_message [super::PRIVATE],
    a_webhook_that_fails_is_called_again [super::PRIVATE],
    a_webhook_receives_every_change_in_order [super::PRIVATE],
    a_webhook_may_come_with_a_stream [super::PRIVATE],
    a_webhook_receives_the_working_state_once [super::SHORT_WAIT],
}

const PRIVATE: &[&str] = &["--push-allow-private"];
const SHORT_WAIT: &[&str] = &["--push-allow-private", "--blocking-timeout", "500ms"];

fn example(id: &str) -> Webhook {
    Webhook {
        token: Some("tok".into()),
        credentials: Some("s3cret".into()),
        ..Webhook::at("https://example.com/webhook").named(id)
    }
}

/// Parses a webhook of a response in the format of the binding.
fn parse(binding: Binding, task: &str, value: &Value) -> Webhook {
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
    Webhook {
        id: text(&config["id"]),
        url: text(&config["url"]).unwrap_or_else(|| panic!("no url in {value}")),
        token: text(&config["token"]),
        credentials: text(&authentication["credentials"]),
    }
}

fn listed(harness: &mut Harness, task: &str) -> Vec<Webhook> {
    let list = harness.expect_result(&Op::ListWebhooks(task.into()));
    let webhooks = match harness.binding {
        Binding::Rpc03 => &list,
        Binding::Rest03 => &list["configs"],
        Binding::Rpc10 | Binding::Rest10 => &list["configs"],
    };
    let webhooks = webhooks.as_array().unwrap_or_else(|| panic!("no list in {list}"));
    webhooks.iter().map(|webhook| parse(harness.binding, task, webhook)).collect()
}

fn a_webhook_is_kept_until_it_is_deleted(harness: &mut Harness) {
    // A task that has ended can have webhooks too.
    let task = harness.task(Prompt::new("tck-complete-task")).id;
    assert_eq!(listed(harness, &task), []);
    let webhook = example("webhook-1");
    let set = harness.set_webhook(&task, &webhook);
    assert_eq!(parse(harness.binding, &task, &set), webhook);
    let got = harness.expect_result(&Op::GetWebhook(task.clone(), "webhook-1".into()));
    assert_eq!(parse(harness.binding, &task, &got), webhook);
    let second = Webhook { url: "https://example.com/other".into(), ..example("webhook-2") };
    harness.set_webhook(&task, &second);
    assert_eq!(listed(harness, &task), [webhook.clone(), second.clone()]);
    // Setting one again replaces it.
    let moved = Webhook { url: "https://example.com/moved".into(), ..webhook };
    harness.set_webhook(&task, &moved);
    assert_eq!(listed(harness, &task), [moved, second.clone()]);
    for _ in 0..2 {
        let nothing = match harness.binding {
            Binding::Rpc03 => Value::Null,
            Binding::Rest03 | Binding::Rpc10 | Binding::Rest10 => json!({}),
        };
        assert_eq!(harness.expect_result(&Op::DeleteWebhook(task.clone(), "webhook-1".into())), nothing);
    }
    harness.expect_refusal(&Op::GetWebhook(task.clone(), "webhook-1".into()), Fault::TaskNotFound);
    assert_eq!(listed(harness, &task), [second]);
}

fn webhooks_of_an_unknown_task_are_refused(harness: &mut Harness) {
    let task = || "nobody-made-this".to_owned();
    for op in [
        Op::SetWebhook(task(), example("h")),
        Op::GetWebhook(task(), "h".into()),
        Op::ListWebhooks(task()),
        Op::DeleteWebhook(task(), "h".into()),
    ] {
        harness.expect_refusal(&op, Fault::TaskNotFound);
    }
}

fn a_webhook_without_an_id_gets_one(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-complete-task")).id;
    let set = harness.set_webhook(&task, &Webhook::at("https://example.com/webhook"));
    let id = parse(harness.binding, &task, &set).id.expect("an id");
    assert!(!id.is_empty());
    let names = match harness.binding.version() {
        // The names that clients of 0.3 use for the only webhook of a task.
        Version::V03 => vec![task.clone(), "default".into()],
        Version::V10 => vec![id],
    };
    for name in names {
        let got = harness.expect_result(&Op::GetWebhook(task.clone(), name.clone()));
        assert_eq!(parse(harness.binding, &task, &got).url, "https://example.com/webhook", "{name}");
    }
    if harness.binding == Binding::Rpc03 {
        let call = json!(1);
        let mut request = harness.binding.request(&Op::GetWebhook(task.clone(), String::new()), &call);
        request.body.as_mut().expect("a body")["params"] = json!({"id": task});
        let got = harness.result_of(&request, &call, &[]).expect("the only one");
        assert_eq!(parse(Binding::Rpc03, &task, &got).url, "https://example.com/webhook");
    }
}

fn a_webhook_needs_a_public_address(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-complete-task")).id;
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
        harness.expect_refusal(&Op::SetWebhook(task.clone(), Webhook::at(url).named("h")), Fault::InvalidParams);
    }
    assert_eq!(listed(harness, &task), []);
}

fn a_webhook_may_come_with_the_message(harness: &mut Harness) {
    let receiver = Receiver::open();
    let webhook = Webhook {
        token: Some("n0tify".into()),
        credentials: Some("s3cret".into()),
        ..Webhook::at(&receiver.url()).named("inline")
    };
    let task = harness.task(Prompt::new("tck-input-required").wait(Wait::UntilEnd).with_webhook(webhook.clone()));
    assert_eq!(listed(harness, &task.id), [webhook]);
    harness.task(Prompt::new("tck-complete-task").to(&task.id));
    receiver.wait("the end of the task", |delivery| shown(harness.binding, delivery).1 == "completed");
    for delivery in receiver.all() {
        assert_eq!(delivery.head.method(), "POST");
        assert_eq!(delivery.head.target(), "/webhook");
        assert_eq!(delivery.head.field("authorization"), Some("Bearer s3cret"));
        assert_eq!(delivery.head.field("x-a2a-notification-token"), Some("n0tify"));
        assert_eq!(shown(harness.binding, &delivery).0, task.id);
    }
    let log = harness.server.output();
    assert!(!log.contains("s3cret") && !log.contains("n0tify"), "{log}");
}

fn a_webhook_that_fails_is_called_again(harness: &mut Harness) {
    let receiver = Receiver::failing(1);
    let webhook = Webhook::at(&receiver.url()).named("again");
    let task = harness.task(Prompt::new("tck-complete-task").wait(Wait::UntilEnd).with_webhook(webhook));
    receiver.wait("the end of the task", |delivery| shown(harness.binding, delivery).1 == "completed");
    let all = receiver.all();
    assert!(all.len() > 1, "{all:?}");
    assert!(all.iter().all(|delivery| shown(harness.binding, delivery).0 == task.id));
}

fn a_webhook_receives_every_change_in_order(harness: &mut Harness) {
    let receiver = Receiver::open();
    let task = harness.task(Prompt::new("tck-input-required"));
    harness.set_webhook(&task.id, &Webhook::at(&receiver.url()).named("later"));
    harness.task(Prompt::new("tck-artifact-text").to(&task.id));
    receiver.wait("the end of the task", |delivery| shown(harness.binding, delivery).1 == "completed");
    let all = receiver.all();
    let states: Vec<&str> =
        all.iter().map(|delivery| shown(harness.binding, delivery).1).filter(|state| !state.is_empty()).collect();
    let order = ["submitted", "working", "input-required", "completed"];
    let rank = |state: &str| order.iter().position(|known| *known == state).expect("a known state");
    assert!(states.windows(2).all(|pair| rank(pair[0]) <= rank(pair[1])), "{states:?}");
    let ids: Vec<&str> = all.iter().filter_map(|delivery| delivery.head.field("x-a2a-event-id")).collect();
    assert_eq!(ids.len(), all.len());
    let numbers: Vec<u64> = ids
        .iter()
        .map(|id| {
            let (of, seq) = id.rsplit_once(':').expect("task:seq");
            assert_eq!(of, task.id);
            seq.parse().expect("a number")
        })
        .collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    if harness.is(Version::V10) {
        assert!(all.iter().any(|delivery| delivery.body.get("artifactUpdate").is_some()), "{all:?}");
    }
}

fn a_webhook_may_come_with_a_stream(harness: &mut Harness) {
    let receiver = Receiver::open();
    let prompt = Prompt::new("tck-complete-task").with_webhook(Webhook::at(&receiver.url()).named("s"));
    let events = harness.stream(prompt).whole();
    let id = events[0].update.task_id().to_owned();
    assert_eq!(listed(harness, &id).len(), 1);
    receiver.wait("the end of the task", |delivery| shown(harness.binding, delivery) == (id.as_str(), "completed"));
}

/// A kit has one receiver for several tasks, each with credentials of its own, and checks the first delivery after it has begun each task.
/// So the script must cause no further delivery, which could arrive after the next task has begun.
fn a_webhook_receives_the_working_state_once(harness: &mut Harness) {
    let receiver = Receiver::open();
    let task = harness.task(Prompt::new("test-push-delivery-").wait(Wait::UntilEnd));
    assert_eq!(task.state(), "input-required");
    harness.set_webhook(&task.id, &Webhook::at(&receiver.url()).named("kit"));
    let task = harness.task(Prompt::new("test-push-trigger-").to(&task.id).wait(Wait::UntilEnd));
    assert_eq!(task.state(), "working");
    let delivery = receiver
        .wait("the state that the waiting call returned", |delivery| shown(harness.binding, delivery).1 == "working");
    assert_eq!(shown(harness.binding, &delivery).0, task.id);
    assert_eq!(receiver.all().len(), 1, "{:?}", receiver.all());
}

/// The task and the state in a delivery, whose format is checked by the version with which the webhook was set.
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

/// The formats in which clients of REST 0.3 set a webhook.
#[test]
fn rest_03_accepts_a_webhook_in_every_format() {
    let mut harness = Harness::with(Binding::Rest03, &[]);
    let task = harness.task(Prompt::new("tck-complete-task")).id;
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
        let request = post(&format!("/v1/tasks/{task}/pushNotificationConfigs"), body.clone());
        let set = harness.result_of(&request, &Value::Null, &[]);
        let set = set.unwrap_or_else(|refusal| panic!("{body}: {refusal:?}"));
        assert_eq!(set["pushNotificationConfig"]["url"], url, "{body}");
        assert_eq!(set["pushNotificationConfig"]["id"], "default", "{body}");
        harness.expect_result(&Op::DeleteWebhook(task.clone(), "default".into()));
    }
}
