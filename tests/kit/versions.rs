//! The version of the protocol in a request, and its extensions.

use crate::binding::{Binding, Frame, Op, Prompt, Version};
use crate::harness::Harness;
use crate::problem::{Fault, Refusal};
use crate::support::client::Client;
use serde_json::{Value, json};

every_binding! {
    an_unknown_version_is_refused,
    a_patch_number_does_not_matter,
    a_request_without_a_version_is_recognized_by_its_form,
    unknown_extensions_are_ignored,
    the_response_names_the_extension_in_use,
}

/// A client that sends this version, or no version.
fn client_of_version(harness: &Harness, version: Option<&str>) -> Harness {
    let mut other = harness.other_client(harness.binding);
    let client = Client::new(&harness.server.url());
    other.client = match version {
        Some(version) => client.field("A2A-Version", version),
        None => client,
    };
    other
}

fn refusal(harness: &mut Harness, op: &Op) -> Refusal {
    harness.call(op).expect_err("a refusal")
}

fn an_unknown_version_is_refused(harness: &mut Harness) {
    for version in ["99.0", "0.2", "2.0", "x"] {
        let mut other = client_of_version(harness, Some(version));
        // A request that names an unknown version is refused with an error of 1.0.
        let binding = match harness.binding.frame() {
            Frame::Rpc => Binding::Rpc10,
            Frame::Rest => Binding::Rest10,
        };
        let refusal = refusal(&mut other, &Op::Send(Prompt::new("tck-complete-task")));
        refusal.check(binding, Fault::Version);
    }
    assert_eq!(harness.task_count(), 0);
}

fn a_patch_number_does_not_matter(harness: &mut Harness) {
    let versions = match harness.binding.version() {
        Version::V03 => ["0.3", "0.3.0", "0.3.9"],
        Version::V10 => ["1.0", "1.0.1", "1"],
    };
    for version in versions {
        let mut other = client_of_version(harness, Some(version));
        assert_eq!(other.task(Prompt::new("tck-complete-task")).state(), "completed", "{version}");
    }
}

fn a_request_without_a_version_is_recognized_by_its_form(harness: &mut Harness) {
    for version in [None, Some("")] {
        let mut other = client_of_version(harness, version);
        assert_eq!(other.task(Prompt::new("tck-complete-task")).state(), "completed");
    }
}

fn unknown_extensions_are_ignored(harness: &mut Harness) {
    // Another version of a known extension is another extension, and therefore unknown.
    let other = "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v9/spec.md";
    let unknown = &format!("https://example.com/ext/v1,https://example.com/ext/v2, {other}");
    for header in ["A2A-Extensions", "X-A2A-Extensions"] {
        let id = json!(1);
        let request = harness.binding.request(&Op::Send(Prompt::new("tck-complete-task")), &id);
        let response = harness.send_request(&request, &[(header, unknown)]);
        assert_eq!(response.status(), 200);
        assert_eq!(response.head.field(header), None, "nothing of it is in use");
    }
}

fn the_response_names_the_extension_in_use(harness: &mut Harness) {
    let extension = "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";
    let header = match harness.binding.version() {
        Version::V03 => "X-A2A-Extensions",
        Version::V10 => "A2A-Extensions",
    };
    let id = json!(1);
    let request = harness.binding.request(&Op::Send(Prompt::new("tck-complete-task")), &id);
    let response = harness.send_request(&request, &[(header, &format!("https://example.com/x, {extension}"))]);
    assert_eq!(response.status(), 200, "{}", response.text());
    assert_eq!(response.head.field(header), Some(extension));
}

#[test]
fn the_version_may_be_in_the_query() {
    let mut harness = Harness::with(Binding::Rest10, &[]);
    let task = harness.task(Prompt::new("tck-complete-task"));
    let mut plain = Client::new(&harness.server.url());
    let task_shown = plain.get(&format!("/tasks/{}?A2A-Version=1.0", task.id)).json();
    assert_eq!(task_shown["status"]["state"], "TASK_STATE_COMPLETED");
    let refused = plain.get(&format!("/tasks/{}?a2a-version=7.0", task.id));
    assert_eq!(refused.status(), 400, "{}", refused.text());
}

#[test]
fn a_method_of_the_other_version_does_not_exist() {
    let harness = Harness::with(Binding::Rpc10, &[]);
    let code = |version: &str, method: &str| -> Value {
        let mut client = Client::new(&harness.server.url()).field("A2A-Version", version);
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "x"}});
        client.post("/", &request).json()["error"]["code"].clone()
    };
    assert_eq!(code("1.0", "tasks/get"), -32601);
    assert_eq!(code("0.3", "GetTask"), -32601);
    assert_eq!(code("0.3", "tasks/get"), -32001);
    assert_eq!(code("1.0", "GetTask"), -32001);
}
