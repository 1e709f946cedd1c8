//! What the operator can switch, and how each binding says that something is off.

use crate::binding::{Binding, Frame, Hook, Note, Op, Version, Wait};
use crate::desk::Desk;
use crate::problem::Fault;
use crate::shape::is_terminal;
use crate::support::client::Client;
use serde_json::{Value, json};

duties! {
    without_streams [&["--streaming", "off"]],
    without_webhooks [&["--push", "off"]],
    with_an_extension_that_everybody_must_know [&["--required-extension", super::REQUIRED]],
    with_an_extended_card [&["--extended-card", super::EXTENDED]],
    with_a_limit_to_waiting [&["--blocking-timeout", "500ms"]],
    a_limit_to_waiting_does_not_touch_what_is_quick [&["--blocking-timeout", "5s"]],
}

pub const EXTENDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kit/extended-card.json");
const REQUIRED: &str = "urn:a2a:tck:required-extension";

fn capability(desk: &Desk, name: &str) -> Value {
    let mut client = Client::new(&desk.server.url());
    client.get("/.well-known/agent-card.json").json()["capabilities"][name].clone()
}

fn without_streams(desk: &mut Desk) {
    assert_eq!(capability(desk, "streaming"), false);
    let task = desk.task(Note::new("tck-input-required"));
    for op in [Op::Stream(Note::new("tck-complete-task")), Op::Subscribe(task.id.clone())] {
        let refusal = match desk.watch_with(&op, &[]) {
            Err(refusal) => refusal,
            Ok(watch) => watch.refusal(),
        };
        refusal.check(desk.binding, Fault::Unsupported);
    }
}

fn without_webhooks(desk: &mut Desk) {
    assert_eq!(capability(desk, "pushNotifications"), false);
    let task = desk.task(Note::new("tck-complete-task")).id;
    for op in [
        Op::SetHook(task.clone(), Hook::at("https://example.com/webhook").named("h")),
        Op::GetHook(task.clone(), "h".into()),
        Op::ListHooks(task.clone()),
        Op::DeleteHook(task.clone(), "h".into()),
    ] {
        desk.refused(&op, Fault::PushNotSupported);
    }
    let inline = Note::new("tck-complete-task").hooked(Hook::at("https://example.com/webhook").named("h"));
    desk.refused(&Op::Send(inline), Fault::PushNotSupported);
}

fn with_an_extension_that_everybody_must_know(desk: &mut Desk) {
    let extensions = capability(desk, "extensions");
    let declared = extensions.as_array().into_iter().flatten().find(|extension| extension["uri"] == REQUIRED);
    assert_eq!(declared.map(|extension| &extension["required"]), Some(&json!(true)), "{extensions}");
    let op = Op::Send(Note::new("tck-complete-task"));
    desk.refused(&op, Fault::ExtensionRequired);
    let header = match desk.binding.version() {
        Version::V03 => "X-A2A-Extensions",
        Version::V10 => "A2A-Extensions",
    };
    let id = json!(1);
    let wire = desk.binding.wire(&op, &id);
    let known = desk.put_as(&wire, &id, &[(header, REQUIRED)]);
    known.unwrap_or_else(|refusal| panic!("{:?}: {refusal:?}", desk.binding));
}

fn with_an_extended_card(desk: &mut Desk) {
    assert_eq!(capability(desk, "extendedAgentCard"), true);
    let mut expected = desk.client.get("/.well-known/agent-card.json").json();
    let more: Value = serde_json::from_str(include_str!("extended-card.json")).unwrap();
    expected["description"] = more["description"].clone();
    assert_eq!(desk.done(&Op::ExtendedCard), expected);
}

/// A call that waits is answered with the task as it is when its time is over; the work goes on.
fn with_a_limit_to_waiting(desk: &mut Desk) {
    let task = desk.task(Note::new("slow"));
    assert_eq!(task.state(), "working");
    let looked = desk.get_some(&task.id, 1);
    assert!(["submitted", "working"].contains(&looked.state()), "{looked:?}");
    assert_eq!(looked.history().len(), 1);
    let follow = desk.task(Note::new("slow").to(&task.id));
    assert_eq!((follow.id.as_str(), follow.state()), (task.id.as_str(), "working"));
    assert_eq!(desk.get(&task.id).asked().len(), 2);
    assert_eq!(desk.cancel(&task.id).state(), "canceled");
}

fn a_limit_to_waiting_does_not_touch_what_is_quick(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-delayed-complete").wait(Wait::Whole));
    assert!(is_terminal(task.state()));
}

#[test]
fn the_statuses_of_the_first_edition_of_1_0() {
    let mut desk = Desk::with(Binding::Rest10, &[&["--rest-status-profile", "1.0.0"]]);
    let over = desk.task(Note::new("tck-complete-task"));
    let refusal = desk.ask(&Op::Cancel(over.id)).expect_err("a refusal");
    assert_eq!((refusal.http, refusal.code()), (409, 409));
    let id = json!(1);
    let wire = desk.binding.wire(&Op::Send(Note::new("tck-complete-task")), &id);
    let body = wire.body.expect("a body").to_string();
    let response = desk.client.request("POST", &wire.path, &[("Content-Type", "text/plain")], body.as_bytes());
    assert_eq!(response.status(), 415);
}

#[test]
fn a_server_may_insist_on_the_version() {
    let desk = Desk::with(Binding::Rpc10, &[&["--strict-version"]]);
    for binding in [Binding::Rpc10, Binding::Rest10] {
        let mut named = desk.beside(binding);
        assert_eq!(named.task(Note::new("tck-complete-task")).state(), "completed");
        let mut silent = desk.beside(binding);
        silent.client = Client::new(&desk.server.url());
        let refusal = silent.ask(&Op::Send(Note::new("tck-complete-task"))).expect_err("a refusal");
        refusal.check(binding, Fault::Version);
    }
    for binding in [Binding::Rpc03, Binding::Rest03] {
        let mut old = desk.beside(binding);
        assert_eq!(old.task(Note::new("tck-complete-task")).state(), "completed");
        assert_eq!(old.binding.version(), Version::V03);
    }
    assert_eq!(Binding::Rest10.frame(), Frame::Rest);
}
