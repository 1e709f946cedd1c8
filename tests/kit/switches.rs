//! Options of the server, and the error of each binding when a feature is switched off.

use crate::binding::{Binding, Frame, Op, Prompt, Version, Wait, Webhook};
use crate::harness::Harness;
use crate::problem::Fault;
use crate::shape::is_terminal;
use crate::support::client::Client;
use serde_json::{Value, json};

every_binding! {
    without_streams [&["--streaming", "off"]],
    without_webhooks [&["--push", "off"]],
    with_a_required_extension [&["--required-extension", super::REQUIRED]],
    with_an_extended_card [&["--extended-card", super::EXTENDED]],
    with_a_limit_to_waiting [&["--blocking-timeout", "500ms"]],
    a_limit_to_waiting_does_not_affect_a_quick_task [&["--blocking-timeout", "5s"]],
}

pub const EXTENDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kit/extended-card.json");
const REQUIRED: &str = "urn:a2a:tck:required-extension";

fn capability(harness: &Harness, name: &str) -> Value {
    let mut client = Client::new(&harness.server.url());
    client.get("/.well-known/agent-card.json").json()["capabilities"][name].clone()
}

fn without_streams(harness: &mut Harness) {
    assert_eq!(capability(harness, "streaming"), false);
    let task = harness.task(Prompt::new("tck-input-required"));
    for op in [Op::Stream(Prompt::new("tck-complete-task")), Op::Subscribe(task.id.clone())] {
        let refusal = match harness.try_stream(&op, &[]) {
            Err(refusal) => refusal,
            Ok(stream) => stream.refusal(),
        };
        refusal.check(harness.binding, Fault::Unsupported);
    }
}

fn without_webhooks(harness: &mut Harness) {
    assert_eq!(capability(harness, "pushNotifications"), false);
    let task = harness.task(Prompt::new("tck-complete-task")).id;
    for op in [
        Op::SetWebhook(task.clone(), Webhook::at("https://example.com/webhook").named("h")),
        Op::GetWebhook(task.clone(), "h".into()),
        Op::ListWebhooks(task.clone()),
        Op::DeleteWebhook(task.clone(), "h".into()),
    ] {
        harness.expect_refusal(&op, Fault::PushNotSupported);
    }
    let inline = Prompt::new("tck-complete-task").with_webhook(Webhook::at("https://example.com/webhook").named("h"));
    harness.expect_refusal(&Op::Send(inline), Fault::PushNotSupported);
}

fn with_a_required_extension(harness: &mut Harness) {
    let extensions = capability(harness, "extensions");
    let declared = extensions.as_array().into_iter().flatten().find(|extension| extension["uri"] == REQUIRED);
    assert_eq!(declared.map(|extension| &extension["required"]), Some(&json!(true)), "{extensions}");
    let op = Op::Send(Prompt::new("tck-complete-task"));
    harness.expect_refusal(&op, Fault::ExtensionRequired);
    let header = match harness.binding.version() {
        Version::V03 => "X-A2A-Extensions",
        Version::V10 => "A2A-Extensions",
    };
    let id = json!(1);
    let request = harness.binding.request(&op, &id);
    let known = harness.result_of(&request, &id, &[(header, REQUIRED)]);
    known.unwrap_or_else(|refusal| panic!("{:?}: {refusal:?}", harness.binding));
}

fn with_an_extended_card(harness: &mut Harness) {
    assert_eq!(capability(harness, "extendedAgentCard"), true);
    let mut expected = harness.client.get("/.well-known/agent-card.json").json();
    let more: Value = serde_json::from_str(include_str!("extended-card.json")).unwrap();
    expected["description"] = more["description"].clone();
    assert_eq!(harness.expect_result(&Op::ExtendedCard), expected);
}

/// When its time is over, a waiting call returns the task as it is then, and the task continues.
fn with_a_limit_to_waiting(harness: &mut Harness) {
    let task = harness.task(Prompt::new("slow"));
    assert_eq!(task.state(), "working");
    let task_later = harness.get_with_history(&task.id, 1);
    assert!(["submitted", "working"].contains(&task_later.state()), "{task_later:?}");
    assert_eq!(task_later.history().len(), 1);
    let follow = harness.task(Prompt::new("slow").to(&task.id));
    assert_eq!((follow.id.as_str(), follow.state()), (task.id.as_str(), "working"));
    assert_eq!(harness.get(&task.id).prompt_ids().len(), 2);
    assert_eq!(harness.cancel(&task.id).state(), "canceled");
}

fn a_limit_to_waiting_does_not_affect_a_quick_task(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-delayed-complete").wait(Wait::UntilEnd));
    assert!(is_terminal(task.state()));
}

#[test]
fn the_http_statuses_of_version_1_0_0() {
    let mut harness = Harness::with(Binding::Rest10, &[&["--rest-status-profile", "1.0.0"]]);
    let over = harness.task(Prompt::new("tck-complete-task"));
    let refusal = harness.call(&Op::Cancel(over.id)).expect_err("a refusal");
    assert_eq!((refusal.http, refusal.code()), (409, 409));
    let id = json!(1);
    let request = harness.binding.request(&Op::Send(Prompt::new("tck-complete-task")), &id);
    let body = request.body.expect("a body").to_string();
    let response = harness.client.request("POST", &request.path, &[("Content-Type", "text/plain")], body.as_bytes());
    assert_eq!(response.status(), 415);
}

#[test]
fn a_strict_server_refuses_1_0_requests_without_a_version() {
    let harness = Harness::with(Binding::Rpc10, &[&["--strict-version"]]);
    for binding in [Binding::Rpc10, Binding::Rest10] {
        let mut named = harness.other_client(binding);
        assert_eq!(named.task(Prompt::new("tck-complete-task")).state(), "completed");
        let mut silent = harness.other_client(binding);
        silent.client = Client::new(&harness.server.url());
        let refusal = silent.call(&Op::Send(Prompt::new("tck-complete-task"))).expect_err("a refusal");
        refusal.check(binding, Fault::Version);
    }
    for binding in [Binding::Rpc03, Binding::Rest03] {
        let mut old = harness.other_client(binding);
        assert_eq!(old.task(Prompt::new("tck-complete-task")).state(), "completed");
        assert_eq!(old.binding.version(), Version::V03);
    }
    assert_eq!(Binding::Rest10.frame(), Frame::Rest);
}
