//! A failed turn in single responses, in every dialect that has them. (`tests/golden/trouble` has the streams.)

use crate::drive::{EXTENSION, Fixture};
use crate::support::client::Client;
use crate::support::message::{prompt, prompt_in, state_of};
use crate::support::server::Setup;
use serde_json::{Value, json};

const WHY: &str = "The API refused the key: ";

#[test]
fn a_failed_turn_says_so_in_every_response() {
    let fixture = Fixture::new();
    let v10 = || fixture.client().field("A2A-Version", "1.0");
    let message10 = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "ERR403" }] });
    let new = |mut client: Client| client.call("SendMessage", json!({ "message": message10 }))["task"].clone();
    let coder = prompt("ERR403");
    let mut plain = coder.clone();
    plain["message"].as_object_mut().expect("a message").remove("metadata");
    let send = |mut client: Client, params: &Value| client.call("message/send", params.clone());
    let rows = [
        ("0.3 coder", send(fixture.client(), &coder), "input-required"),
        ("0.3 plain", send(fixture.client(), &plain), "failed"),
        ("0.3 devtool", send(fixture.client().field("X-A2A-Extensions", EXTENSION), &plain), "failed"),
        ("1.0 plain", new(v10()), "TASK_STATE_FAILED"),
        ("1.0 devtool", new(v10().field("A2A-Extensions", EXTENSION)), "TASK_STATE_FAILED"),
    ];
    for (dialect, task, state) in &rows {
        assert_eq!(task["status"]["state"], *state, "{dialect}: {task}");
        let text = &task["status"]["message"]["parts"][0]["text"];
        assert!(text.as_str().is_some_and(|text| text.starts_with(WHY)), "{dialect}: {task}");
    }
    // The coder profile has the reason beside the state until the next turn begins.
    let error = |task: &Value| task["metadata"]["error"].as_str().is_some_and(|error| error.starts_with(WHY));
    let task = &rows[0].1;
    assert!(error(task) && rows[1..].iter().all(|(_, task, _)| !error(task)), "{rows:#?}");
    let id = task["id"].as_str().expect("an id");
    assert!(error(&fixture.task(id)));
    let mut in_10 = Client::new(&fixture.server.url()).field("A2A-Version", "1.0");
    let as_coder =
        in_10.post("/?profile=coder", &json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": id}}));
    assert!(error(&as_coder.json()["result"]), "{}", as_coder.text());
    assert!(error(&fixture.client().get(&format!("/tasks/{id}/metadata")).json()));
    assert_eq!(fixture.client().get(&format!("/tasks/{id}")).json()["state"], "error");
    let went_on = fixture.client().call("message/send", prompt_in(id, "TEXT well"));
    assert_eq!((state_of(&went_on), error(&went_on)), (Some("input-required"), false));
}

#[test]
fn a_proxy_that_cannot_be_reached_is_named() {
    // The proxy is a closed port of this machine, so no request leaves it.
    let setup = Setup::without_model().env("GEMINI_API_KEY", "k-1").env("HTTPS_PROXY", "http://127.0.0.1:1");
    let server = setup.args(["--max-attempts", "1", "--model", "gemma-4-31b-it"]).start();
    let task = Client::new(&server.url()).call("message/send", prompt("hello"));
    let error = task["metadata"]["error"].as_str().unwrap_or_default();
    assert!(error.starts_with("The model API cannot be reached through the proxy 127.0.0.1:1: "), "{task}");
    assert!(error.ends_with("Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY."), "{task}");
}
