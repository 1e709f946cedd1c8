//! Scenarios about `tasks/cancel` in every phase of a task.

use crate::scenario::Scenario;
use crate::support;
use crate::support::message::{kind_of, text_of};
use crate::{ASKED, CREATED, TEXT};
use serde_json::json;

#[test]
fn cancel_idle() {
    let scenario = Scenario::new();
    let turn = scenario.send("TEXT Hello.");
    let task = json!({ "id": turn.task() });
    scenario.rpc("tasks/cancel", task.clone());
    scenario.rpc("tasks/cancel", task);
    scenario.send_to(turn.task(), "TEXT Are you there?");
    scenario.expect(&[
        "> TEXT Hello.",
        CREATED,
        TEXT,
        "
        > tasks/cancel
        200 task canceled
        > tasks/cancel
        200 error -32002
        > TEXT Are you there?
        error -32600",
    ]);
}

#[test]
fn cancel_streaming() {
    let scenario = Scenario::new();
    let mut stream = scenario.start("TEXT a ++ HOLD ++ TEXT b");
    let task = stream.task();
    stream.until("text", |result| kind_of(result) == "text-content");
    scenario.rpc("tasks/cancel", json!({ "id": task }));
    let end = stream.rest();
    assert_eq!(text_of(end.last()), "Task canceled by user request.");
    support::eventually("the model's stream to be closed", || (scenario.fake.counters().broken == 1).then_some(()));
    scenario.state(&task);
    scenario.expect(&[
        "> TEXT a ++ HOLD ++ TEXT b",
        CREATED,
        "
        status working text-content
        status canceled state-change final
        > tasks/cancel
        200 task canceled
        > tasks/get
        200 task canceled",
    ]);
}

#[test]
fn cancel_waiting() {
    let scenario = Scenario::new();
    let turn = scenario.send("WRITE w10.txt x");
    scenario.rpc("tasks/cancel", json!({ "id": turn.task() }));
    scenario.state(turn.task());
    let late = scenario.answer(turn.task(), "proceed_once", &turn.asked());
    assert_eq!(late.events[0].json["error"]["code"], -32600);
    assert_eq!(scenario.file("w10.txt"), None);
    scenario.expect_but(
        "the recording ends here; an answer to a canceled task changes nothing",
        &[
            "> WRITE w10.txt x",
            CREATED,
            ASKED,
            "
            > tasks/cancel
            200 task canceled
            > tasks/get
            200 task canceled
            + > proceed_once
            + error -32600",
        ],
    );
}

#[test]
fn cancel_unknown() {
    let scenario = Scenario::new();
    scenario.rpc("tasks/cancel", json!({ "id": "no-such-task" }));
    scenario.expect(&["
        > tasks/cancel
        200 error -32001"]);
}

#[test]
fn model_hang() {
    let scenario = Scenario::new();
    let mut stream = scenario.start("HANG");
    let task = stream.task();
    support::eventually("the model to be asked", || (scenario.fake.counters().open == 1).then_some(()));
    scenario.rpc("tasks/cancel", json!({ "id": task }));
    stream.rest();
    support::eventually("the request to be abandoned", || (scenario.fake.counters().open == 0).then_some(()));
    scenario.state(&task);
    scenario.expect(&[
        "> HANG",
        CREATED,
        "
        status canceled state-change final
        > tasks/cancel
        200 task canceled
        > tasks/get
        200 task canceled",
    ]);
}
