//! Scenarios about tool calls: output while a command runs, two calls at once, and calls that cannot be run.

use crate::scenario::{Scenario, parts_in};
use crate::support::client::Event;
use crate::support::message::{call_of, call_status_of, state_of, text_of};
use crate::{ASKED, CREATED, REFUSED, STARTED, SUCCEEDED, TEXT};
use serde_json::{Value, json};

#[test]
fn shell_live() {
    let scenario = Scenario::new();
    let turn = scenario.send("SHELL for i in 1 2 3; do echo line $i; sleep 0.2; done");
    let done = scenario.answer(turn.task(), "proceed_once", &turn.asked());
    let pieces: Vec<&Value> =
        done.events.iter().map(Event::result).filter(|result| result["kind"] == "artifact-update").collect();
    let mut shown = String::new();
    for (n, piece) in pieces.iter().enumerate() {
        assert_eq!(piece["append"], n > 0, "the first chunk creates the artifact");
        assert_eq!(piece["lastChunk"], false);
        shown.push_str(piece["artifact"]["parts"][0]["text"].as_str().unwrap_or("?"));
    }
    assert_eq!(shown, "line 1\nline 2\nline 3\n");
    scenario.expect(&[
        "> SHELL for i in 1 2 3; do echo line $i; sleep 0.2; done",
        CREATED,
        ASKED,
        "> proceed_once",
        STARTED,
        "artifact 1",
        SUCCEEDED,
        TEXT,
    ]);
}

#[test]
fn shell_fails() {
    let scenario = Scenario::new();
    let turn = scenario.send("SHELL echo oops >&2; exit 3");
    let done = scenario.answer(turn.task(), "proceed_once", &turn.asked());
    let output = &done.calls("success")[0]["response"]["responseParts"][0]["functionResponse"];
    let output = output["response"]["output"].as_str().unwrap_or("");
    assert!(output.contains("oops") && output.contains("Exit Code: 3"), "{output}");
    scenario.expect(&[
        "> SHELL echo oops >&2; exit 3",
        CREATED,
        ASKED,
        "> proceed_once",
        STARTED,
        "artifact 1",
        SUCCEEDED,
        TEXT,
    ]);
}

#[test]
fn shell_cancel_running() {
    let scenario = Scenario::new();
    let turn = scenario.send("SHELL echo begin; sleep 300");
    let task = turn.task();
    let mut stream = scenario.answering(task, "proceed_once", &turn.asked());
    stream.until("output", |result| result["kind"] == "artifact-update");
    scenario.rpc("tasks/cancel", json!({ "id": task }));
    let end = stream.rest();
    assert_eq!(text_of(end.last()), "Task canceled by user request.");
    scenario.state(task);
    scenario.expect(&[
        "> SHELL echo begin; sleep 300",
        CREATED,
        ASKED,
        "> proceed_once",
        STARTED,
        "artifact 1
         status input-required tool-call-update 1 cancelled
         status canceled state-change final
         > tasks/cancel
         200 task canceled
         > tasks/get
         200 task canceled",
    ]);
}

/// The reference server asks about one call at a time and keeps its stream open, so the rest of these recordings differs
/// from what this server sends.
const BOTH_ASKED: &str = "
    task submitted
    status working state-change
    status working tool-call-update 1 scheduled
    status working tool-call-update 2 scheduled
    status working tool-call-confirmation 1 awaiting_approval
    + status working tool-call-confirmation 2 awaiting_approval
    + status input-required state-change final";

#[test]
fn parallel() {
    let scenario = Scenario::new();
    let turn = scenario.send("PARALLEL");
    let (task, calls) = (turn.task(), turn.asked());
    // The command is approved first and the file second, so that the order of the events is the order of the answers.
    let mut first = scenario.answering(task, "proceed_once", &calls[1..]);
    first.until("the command's end", |result| call_status_of(result) == "success");
    first.rest();
    let second = scenario.answer(task, "proceed_once", &calls[..1]);
    assert_eq!(second.text(), "Done.");
    assert_eq!(scenario.file("parallel.txt").as_deref(), Some("one\n"));
    scenario.expect_but(
        "the user is asked about all calls at once, and the stream ends when only the user can continue the task",
        &[
            "> PARALLEL",
            BOTH_ASKED,
            "
            + > proceed_once
            + status input-required tool-call-confirmation 2 awaiting_approval
            + status input-required tool-call-update 2 scheduled
            + status input-required tool-call-update 2 executing
            + artifact 2
            + status input-required tool-call-update 2 success
            + status input-required state-change final
            + > proceed_once
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

#[test]
fn parallel_one_cancelled() {
    let scenario = Scenario::new();
    let turn = scenario.send("PARALLEL");
    let (task, calls) = (turn.task(), turn.asked());
    scenario.answer(task, "cancel", &calls[..1]);
    scenario.answer(task, "proceed_once", &calls[1..]);
    assert_eq!(scenario.file("parallel.txt"), None);
    scenario.expect_but(
        "a rejection of one call does not answer the question about the other",
        &[
            "> PARALLEL",
            BOTH_ASKED,
            "
            > cancel
            + status input-required tool-call-confirmation 1 awaiting_approval
            + status input-required tool-call-update 1 cancelled
            - status working state-change
            - status working tool-call-confirmation 1 awaiting_approval
            - status working tool-call-update 1 cancelled
            - status working tool-call-update 2 cancelled
            status input-required state-change final
            + > proceed_once
            + status input-required tool-call-confirmation 2 awaiting_approval
            + status input-required tool-call-update 2 scheduled
            + status input-required tool-call-update 2 executing
            + artifact 2
            + status input-required tool-call-update 2 success
            + status working state-change
            + status working text-content
            + status input-required state-change final",
        ],
    );
}

/// One message approves both calls. Which one finishes first is not determined, so the updates are checked per call.
#[test]
fn parallel_wait_for_final() {
    let scenario = Scenario::new();
    let turn = scenario.send("PARALLEL");
    let (task, calls) = (turn.task(), turn.asked());
    assert_eq!(state_of(&scenario.state(task)), Some("input-required"));
    let part = |call: &String| json!({ "kind": "data", "data": { "callId": call, "outcome": "proceed_once" } });
    let params = parts_in(task, calls.iter().map(part).collect());
    let events: Vec<Event> = scenario.client().stream("message/stream", params).collect();
    for call in &calls {
        let of_call = |event: &&Event| call_of(event.result())["request"]["callId"] == **call;
        let words: Vec<&str> = events.iter().filter(of_call).map(|e| call_status_of(e.result())).collect();
        assert_eq!(words, ["scheduled", "executing", "success"]);
    }
    assert_eq!(events.iter().filter(|event| event.is_final()).count(), 1);
    scenario.expect_but(
        "the user is asked about all calls at once, and the stream ends when only the user can continue the task",
        &["> PARALLEL", BOTH_ASKED, "> tasks/get", "- 200 task working", "+ 200 task input-required"],
    );
}

#[test]
fn tool_unknown() {
    let scenario = Scenario::new();
    let turn = scenario.send("CALL no_such_tool {\"a\":1}");
    assert_eq!(turn.calls("error")[0]["response"]["errorType"], "tool_not_registered");
    scenario.expect(&["> CALL no_such_tool {\"a\":1}", CREATED, REFUSED, TEXT]);
}

#[test]
fn tool_bad_args() {
    let scenario = Scenario::new();
    let turn = scenario.send("CALL write_file {\"content\":\"x\"}");
    assert_eq!(turn.calls("error")[0]["response"]["errorType"], "invalid_tool_params");
    scenario.expect(&["> CALL write_file {\"content\":\"x\"}", CREATED, REFUSED, TEXT]);
}

#[test]
fn tool_outside_workspace() {
    let scenario = Scenario::new();
    scenario.send("WRITE /etc/gemini-a2a-test.txt nope");
    assert!(!std::path::Path::new("/etc/gemini-a2a-test.txt").exists());
    scenario.expect(&["> WRITE /etc/gemini-a2a-test.txt nope", CREATED, REFUSED, TEXT]);
}
