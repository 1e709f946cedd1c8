//! Scenarios about questions to the user: answers, edited content, wrong answers, and prompts while a question is open.

use crate::scenario::{Scenario, parts_in};
use crate::support::message::{asked_of, kind_of, prompt_in};
use crate::{ASKED, CREATED, STARTED, SUCCEEDED, TEXT};
use serde_json::json;

#[test]
fn write_proceed() {
    let scenario = Scenario::new();
    let turn = scenario.send("WRITE w1.txt alpha");
    let task = turn.task();
    scenario.state(task);
    assert_eq!(scenario.file("w1.txt"), None);
    let done = scenario.answer(task, "proceed_once", &turn.asked());
    assert_eq!(scenario.file("w1.txt").as_deref(), Some("alpha"));
    assert_eq!(done.text(), "Done.");
    scenario.state(task);
    scenario.expect(&[
        "> WRITE w1.txt alpha",
        CREATED,
        ASKED,
        "> tasks/get
         200 task input-required
         > proceed_once",
        STARTED,
        SUCCEEDED,
        TEXT,
        "> tasks/get
         200 task input-required",
    ]);
}

#[test]
fn write_cancel() {
    let scenario = Scenario::new();
    let turn = scenario.send("WRITE w2.txt beta");
    scenario.answer(turn.task(), "cancel", &turn.asked());
    assert_eq!(scenario.file("w2.txt"), None);
    scenario.state(turn.task());
    scenario.expect(&[
        "> WRITE w2.txt beta",
        CREATED,
        ASKED,
        "> cancel
         status input-required tool-call-confirmation 1 awaiting_approval
         status input-required tool-call-update 1 cancelled
         status input-required state-change final
         > tasks/get
         200 task input-required",
    ]);
}

#[test]
fn write_newcontent() {
    let scenario = Scenario::new();
    std::fs::write(scenario.server.workspace().join("w3.txt"), "before\n").expect("a file");
    let turn = scenario.send("WRITE w3.txt model text");
    let part = json!({ "kind": "data", "data": {
        "callId": turn.asked()[0], "outcome": "proceed_once", "newContent": "edited by the user\n",
    } });
    let params = parts_in(turn.task(), vec![part]);
    scenario.open("newContent", "message/stream", params).rest();
    assert_eq!(scenario.file("w3.txt").as_deref(), Some("edited by the user\n"));
    scenario.state(turn.task());
    scenario.expect(&[
        "> WRITE w3.txt model text",
        CREATED,
        ASKED,
        "> newContent",
        STARTED,
        SUCCEEDED,
        TEXT,
        "> tasks/get
         200 task input-required",
    ]);
}

/// Each stream has its own connection, so the connection that received the question is closed when the answer arrives.
#[test]
fn write_new_connection() {
    let scenario = Scenario::new();
    let turn = scenario.send("WRITE w12.txt x");
    let (task, calls) = (turn.task().to_string(), turn.asked());
    drop(turn);
    scenario.answer(&task, "proceed_once", &calls);
    assert_eq!(scenario.file("w12.txt").as_deref(), Some("x"));
    scenario.expect_but(
        "a question belongs to the task, not to the connection that received it first",
        &[
            "> WRITE w12.txt x",
            CREATED,
            ASKED,
            "
            > proceed_once
            - status input-required state-change final
            + status input-required tool-call-confirmation 1 awaiting_approval
            + status input-required tool-call-update 1 scheduled
            + status input-required tool-call-update 1 executing
            + status input-required tool-call-update 1 success
            + status working state-change
            + status working text-content
            + status input-required state-change final",
        ],
    );
}

/// The question stays open until the user answers it, however long that takes.
#[test]
fn write_two_connections_and_slow_approval() {
    let scenario = Scenario::new();
    let mut stream = scenario.start("WRITE w13.txt x");
    let task = stream.task();
    let asked = stream.until("a question", |result| asked_of(result).is_some());
    let call = asked_of(asked.result()).expect("the event asks about a call").to_string();
    let turn = stream.rest();
    scenario.answer(&task, "proceed_once", &[call]);
    assert_eq!(turn.asked().len(), 1);
    assert_eq!(scenario.file("w13.txt").as_deref(), Some("x"));
    scenario.expect(&["> WRITE w13.txt x", CREATED, ASKED, "> proceed_once", STARTED, SUCCEEDED, TEXT]);
}

#[test]
fn confirm_wrong_call() {
    let scenario = Scenario::new();
    let turn = scenario.send("WRITE w6.txt x");
    scenario.answer(turn.task(), "proceed_once", &["no-such-call".into()]);
    scenario.answer(turn.task(), "proceed_once", &turn.asked());
    assert_eq!(scenario.file("w6.txt").as_deref(), Some("x"));
    scenario.expect_but(
        "an answer to a call without an open question is refused, so that its sender knows",
        &[
            "> WRITE w6.txt x",
            CREATED,
            ASKED,
            "
            > proceed_once
            - status input-required state-change final
            + error -32602
            > proceed_once",
            STARTED,
            SUCCEEDED,
            TEXT,
        ],
    );
}

#[test]
fn confirm_bad_outcome() {
    let scenario = Scenario::new();
    let turn = scenario.send("WRITE w7.txt x");
    scenario.answer(turn.task(), "maybe", &turn.asked());
    assert_eq!(scenario.file("w7.txt"), None);
    scenario.answer(turn.task(), "proceed_once", &turn.asked());
    assert_eq!(scenario.file("w7.txt").as_deref(), Some("x"));
    scenario.expect_but(
        "an unknown option is refused and the question stays open; the reference server sends nothing",
        &[
            "> WRITE w7.txt x",
            CREATED,
            ASKED,
            "> maybe
            + error -32602
            > proceed_once",
            STARTED,
            SUCCEEDED,
            TEXT,
        ],
    );
}

#[test]
fn text_while_waiting() {
    let scenario = Scenario::new();
    let turn = scenario.send("WRITE w8.txt x");
    let task = turn.task();
    scenario.send_to(task, "TEXT Never mind.");
    scenario.state(task);
    scenario.rpc("tasks/cancel", json!({ "id": task }));
    scenario.expect_but(
        "text is queued behind the open question; it does not close it",
        &[
            "> WRITE w8.txt x",
            CREATED,
            ASKED,
            "
            > TEXT Never mind.
            - status working state-change
            - status working text-content
            - status input-required state-change final
            + status input-required state-change 1 awaiting_approval final
            > tasks/get
            200 task input-required
            > tasks/cancel
            200 task canceled",
        ],
    );
}

#[test]
fn two_turns_at_once() {
    let scenario = Scenario::new();
    let mut first = scenario.start("STREAM 3 ++ HOLD ++ TEXT end");
    let task = first.task();
    first.until("text", |result| kind_of(result) == "text-content");
    let params = prompt_in(&task, "TEXT Second at once.");
    let second = scenario.open("TEXT Second at once.", "message/stream", params);
    scenario.fake.release();
    let (first, second) = (first.rest(), second.rest());
    assert!(first.text().ends_with("end"), "{}", first.text());
    assert!(second.text().ends_with("Second at once."), "{}", second.text());
    scenario.state(&task);
    scenario.expect_but(
        "a prompt to a busy task gets its own turn, and its stream shows the rest of the current turn first",
        &[
            "> STREAM 3 ++ HOLD ++ TEXT end",
            CREATED,
            "
            status working text-content
            - status working state-change
            - status working text-content
            status input-required state-change final
            > TEXT Second at once.
            + status working text-content
            + status input-required state-change
            status working state-change
            status working text-content
            status input-required state-change final
            > tasks/get
            200 task input-required",
        ],
    );
}
