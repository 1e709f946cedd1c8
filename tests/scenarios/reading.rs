//! Scenarios about `message/send`, `tasks/get`, `tasks/resubscribe`, and clients that disconnect.

use crate::scenario::Scenario;
use crate::support;
use crate::support::client::Event;
use crate::support::message::{kind_of, prompt_at, state_of};
use crate::{CREATED, TEXT};
use serde_json::{Value, json};

#[test]
fn send_blocking() {
    let scenario = Scenario::new();
    let params = prompt_at(&scenario.server.workspace(), "STREAM 3 1000");
    let reply = scenario.rpc("message/send", params);
    let task = reply["result"]["id"].as_str().expect("a task").to_string();
    let state = scenario.state(&task);
    assert_eq!(reply["result"], state, "the whole text, not its first chunk");
    let text = state["history"][1]["parts"][0]["text"].as_str().unwrap_or("");
    let stamps: Vec<u64> = support::stamp::find(text).map(|stamp| stamp.index).collect();
    assert_eq!(stamps, [0, 1, 2]);
    scenario.expect(&["
        > message/send
        200 task input-required
        > tasks/get
        200 task input-required"]);
}

#[test]
fn send_non_blocking() {
    let scenario = Scenario::new();
    let mut params = prompt_at(&scenario.server.workspace(), "TEXT a ++ HOLD ++ TEXT b");
    params["configuration"] = json!({ "blocking": false });
    let reply = scenario.client().rpc("message/send", params);
    let task = reply["result"]["id"].as_str().expect("a task");
    let early = state_of(&reply["result"]).expect("a state");
    assert!(["submitted", "working"].contains(&early), "{early}");
    support::eventually("the model to be asked", || (scenario.fake.held() == 1).then_some(()));
    scenario.state(task);
    let watched = scenario.open("tasks/resubscribe", "tasks/resubscribe", json!({ "id": task }));
    scenario.fake.release();
    watched.rest();
    scenario.state(task);
    scenario.expect(&["
        > tasks/get
        200 task working
        > tasks/resubscribe
        task working
        status working text-content
        status input-required state-change final
        > tasks/get
        200 task input-required"]);
}

#[test]
fn send_write() {
    let scenario = Scenario::new();
    let reply = scenario.rpc("message/send", prompt_at(&scenario.server.workspace(), "WRITE w9.txt x"));
    assert_eq!(scenario.file("w9.txt"), None);
    assert_eq!(reply["result"]["status"]["state"], "input-required");
    scenario.expect(&["
        > message/send
        200 task input-required"]);
}

#[test]
fn tasks_get() {
    let scenario = Scenario::new();
    let turn = scenario.send("STREAM 3");
    let whole = scenario.state(turn.task());
    let short = scenario.rpc("tasks/get", json!({ "id": turn.task(), "historyLength": 1 }));
    scenario.rpc("tasks/get", json!({ "id": "no-such-task" }));
    scenario.rpc("tasks/get", json!({}));
    assert_eq!(short["result"]["history"], json!([whole["history"][1]]));
    scenario.expect_but(
        "a request without the task's id lacks a parameter; the reference server looks for a task named \"undefined\"",
        &[
            "> STREAM 3",
            CREATED,
            TEXT,
            "
            > tasks/get
            200 task input-required
            > tasks/get
            200 task input-required
            > tasks/get
            200 error -32001
            > tasks/get
            - 200 error -32001
            + 200 error -32602",
        ],
    );
}

#[test]
fn resubscribe() {
    let scenario = Scenario::new();
    let mut first = scenario.start("STREAM 3 ++ HOLD ++ TEXT end");
    let task = first.task();
    support::eventually("the model to be held", || (scenario.fake.held() == 1).then_some(()));
    let second = scenario.open("tasks/resubscribe", "tasks/resubscribe", json!({ "id": task }));
    scenario.fake.release();
    let (first, second) = (first.rest(), second.rest());
    let shared = second.events.len() - 1;
    let results = |events: &[Event]| -> Vec<Value> {
        let of = |event: &Event| json!([event.id, event.result()]);
        events.iter().map(of).collect()
    };
    assert_eq!(
        results(&first.events[first.events.len() - shared..]),
        results(&second.events[1..]),
        "after the snapshot both streams are the same"
    );
    scenario.open("tasks/resubscribe", "tasks/resubscribe", json!({ "id": task })).rest();
    scenario.open("tasks/resubscribe", "tasks/resubscribe", json!({ "id": "no-such-task" })).rest();
    scenario.expect(&[
        "> STREAM 3 ++ HOLD ++ TEXT end",
        CREATED,
        TEXT,
        "
        > tasks/resubscribe
        task working
        status working text-content
        status input-required state-change final
        > tasks/resubscribe
        task input-required
        > tasks/resubscribe
        error -32001",
    ]);
}

#[test]
fn disconnect() {
    let scenario = Scenario::new();
    let mut stream = scenario.start("STREAM 3 ++ HOLD ++ TEXT end");
    let task = stream.task();
    stream.until("text", |result| kind_of(result) == "text-content");
    drop(stream);
    scenario.state(&task);
    scenario.fake.release();
    support::eventually("the end of the turn", || {
        let state = scenario.client().call("tasks/get", json!({ "id": task }));
        (state_of(&state) == Some("input-required")).then_some(())
    });
    assert_eq!(scenario.fake.counters().broken, 0, "the request to the model was not stopped");
    let history = scenario.state(&task)["history"].clone();
    let text = history[1]["parts"][0]["text"].as_str().unwrap_or("");
    assert!(text.ends_with("end"), "{history:#?}");
    scenario.send_to(&task, "TEXT Back again.");
    scenario.expect_but(
        "a task does not depend on its readers: the turn continues, and the next turn is a normal one",
        &[
            "> STREAM 3 ++ HOLD ++ TEXT end",
            CREATED,
            "
            status working text-content
            > tasks/get
            - 200 task input-required
            + 200 task working
            > tasks/get
            200 task input-required
            > TEXT Back again.
            status working state-change
            status working text-content
            - status failed state-change final
            + status input-required state-change final",
        ],
    );
}
