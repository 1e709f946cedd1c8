//! Which version a request speaks, and which extensions are in use.

use crate::binding::{Binding, Frame, Note, Op, Version};
use crate::desk::Desk;
use crate::problem::{Fault, Refusal};
use crate::support::client::Client;
use serde_json::{Value, json};

duties! {
    a_version_nobody_knows_is_refused,
    a_patch_number_does_not_matter,
    who_names_no_version_is_understood_by_what_is_asked,
    extensions_nobody_knows_are_ignored,
    the_extension_in_use_is_named,
}

/// A client that says this about its version, or nothing.
fn speaking(desk: &Desk, version: Option<&str>) -> Desk {
    let mut other = desk.beside(desk.binding);
    let client = Client::new(&desk.server.url());
    other.client = match version {
        Some(version) => client.field("A2A-Version", version),
        None => client,
    };
    other
}

fn refusal(desk: &mut Desk, op: &Op) -> Refusal {
    desk.ask(op).expect_err("a refusal")
}

fn a_version_nobody_knows_is_refused(desk: &mut Desk) {
    for version in ["99.0", "0.2", "2.0", "x"] {
        let mut other = speaking(desk, Some(version));
        // Whoever names a version knows the errors of the newer one.
        let binding = match desk.binding.frame() {
            Frame::Rpc => Binding::Rpc10,
            Frame::Rest => Binding::Rest10,
        };
        let refusal = refusal(&mut other, &Op::Send(Note::new("tck-complete-task")));
        refusal.check(binding, Fault::Version);
    }
    assert_eq!(desk.tasks(), 0);
}

fn a_patch_number_does_not_matter(desk: &mut Desk) {
    let versions = match desk.binding.version() {
        Version::V03 => ["0.3", "0.3.0", "0.3.9"],
        Version::V10 => ["1.0", "1.0.1", "1"],
    };
    for version in versions {
        let mut other = speaking(desk, Some(version));
        assert_eq!(other.task(Note::new("tck-complete-task")).state(), "completed", "{version}");
    }
}

fn who_names_no_version_is_understood_by_what_is_asked(desk: &mut Desk) {
    for version in [None, Some("")] {
        let mut other = speaking(desk, version);
        assert_eq!(other.task(Note::new("tck-complete-task")).state(), "completed");
    }
}

fn extensions_nobody_knows_are_ignored(desk: &mut Desk) {
    // Another edition of a known one is another extension: nobody is given less than they asked for.
    let other = "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v9/spec.md";
    let unknown = &format!("https://example.com/ext/v1,https://example.com/ext/v2, {other}");
    for header in ["A2A-Extensions", "X-A2A-Extensions"] {
        let id = json!(1);
        let wire = desk.binding.wire(&Op::Send(Note::new("tck-complete-task")), &id);
        let response = desk.put(&wire, &[(header, unknown)]);
        assert_eq!(response.status(), 200);
        assert_eq!(response.head.field(header), None, "nothing of it is in use");
    }
}

fn the_extension_in_use_is_named(desk: &mut Desk) {
    let extension = "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";
    let header = match desk.binding.version() {
        Version::V03 => "X-A2A-Extensions",
        Version::V10 => "A2A-Extensions",
    };
    let id = json!(1);
    let wire = desk.binding.wire(&Op::Send(Note::new("tck-complete-task")), &id);
    let response = desk.put(&wire, &[(header, &format!("https://example.com/x, {extension}"))]);
    assert_eq!(response.status(), 200, "{}", response.text());
    assert_eq!(response.head.field(header), Some(extension));
}

#[test]
fn the_version_may_be_in_the_query() {
    let mut desk = Desk::with(Binding::Rest10, &[]);
    let task = desk.task(Note::new("tck-complete-task"));
    let mut plain = Client::new(&desk.server.url());
    let seen = plain.get(&format!("/tasks/{}?A2A-Version=1.0", task.id)).json();
    assert_eq!(seen["status"]["state"], "TASK_STATE_COMPLETED");
    let refused = plain.get(&format!("/tasks/{}?a2a-version=7.0", task.id));
    assert_eq!(refused.status(), 400, "{}", refused.text());
}

#[test]
fn a_method_of_the_other_version_does_not_exist() {
    let desk = Desk::with(Binding::Rpc10, &[]);
    let code = |version: &str, method: &str| -> Value {
        let mut client = Client::new(&desk.server.url()).field("A2A-Version", version);
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "x"}});
        client.post("/", &request).json()["error"]["code"].clone()
    };
    assert_eq!(code("1.0", "tasks/get"), -32601);
    assert_eq!(code("0.3", "GetTask"), -32601);
    assert_eq!(code("0.3", "tasks/get"), -32001);
    assert_eq!(code("1.0", "GetTask"), -32001);
}
