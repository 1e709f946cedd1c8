//! The scenarios recorded from the reference server, played against ours: whoever wrote a client for that one must find
//! the same events in the same order here.
//!
//! What is expected is what the reference server sends, unless that is a defect or contradicts a rule we hold to. Every
//! such difference is marked in the expectation (`-` only the reference server, `+` only we) and has its reason beside it.
//! Scenarios in which the recording client waited (for a slow user, for a model) wait for facts here.

mod support;

#[path = "scenarios/play.rs"]
mod play;

use play::{Play, parts_in};
use serde_json::{Value, json};
use support::client::Event;
use support::message::{asked_of, call_of, call_status_of, kind_of, prompt, prompt_at, prompt_in, state_of, text_of};

/// A new task, and its turn begins.
const BEGUN: &str = "
    task submitted
    status working state-change";
/// The model speaks, the turn ends.
const SAID: &str = "
    status working text-content
    status input-required state-change final";
/// The first call asks, the stream ends.
const ASKED: &str = "
    status working tool-call-update 1 scheduled
    status working tool-call-confirmation 1 awaiting_approval
    status input-required state-change final";
/// The first call was allowed and runs.
const RUNS: &str = "
    status input-required tool-call-confirmation 1 awaiting_approval
    status input-required tool-call-update 1 scheduled
    status input-required tool-call-update 1 executing";
/// It has succeeded, and its result goes back to the model.
const DONE: &str = "
    status input-required tool-call-update 1 success
    status working state-change";
/// A call that cannot be run is answered without asking anybody.
const WRONG: &str = "
    status working tool-call-update 1 error
    status working state-change";

// Tasks and text.

#[test]
fn agent_card() {
    let play = Play::new();
    let card = play.http("GET", "/.well-known/agent-card.json", &[], "");
    let old = play.http("GET", "/.well-known/agent.json", &[], "");
    play.http("OPTIONS", "/.well-known/agent-card.json", &[("Origin", "http://x.test")], "");
    assert_eq!(card, old);
    assert_eq!(card["protocolVersion"], "0.3.0");
    assert_eq!(card["preferredTransport"], "JSONRPC");
    assert_eq!(card["capabilities"]["streaming"], true);
    assert_eq!(card["url"], format!("http://localhost:{}/", play.server.port()));
    assert_eq!(card["securitySchemes"], Value::Null, "only what is enforced is declared");
    play.expect_but(
        "clients of earlier protocol versions look for the card at its old place; pages of other origins learn nothing",
        &["
            > GET /.well-known/agent-card.json
            200 application/json
            > GET /.well-known/agent.json
            - 404 text/html
            + 200 application/json
            > OPTIONS /.well-known/agent-card.json
            - 200 text/plain
            + 403 application/json"],
    );
}

#[test]
fn create_task() {
    let play = Play::new();
    let json = [("Content-Type", "application/json")];
    let settings = json!({ "kind": "agent-settings", "workspacePath": play.server.workspace() });
    let body = json!({ "contextId": "ctx-1", "agentSettings": settings }).to_string();
    let first = play.http("POST", "/tasks", &json, &body);
    let second = play.http("POST", "/tasks", &json, "{}");
    let third = play.http("POST", "/tasks", &[], "");
    assert!(first.is_string() && second.is_string() && first != second);
    assert!(third["sessionId"].is_string());
    play.expect_but(
        "a task without a wish is a task with the default settings, and without a body the live session is asked for",
        &["
            > POST /tasks
            201 application/json
            > POST /tasks
            201 application/json
            > POST /tasks
            - 500 application/json
            + 201 application/json"],
    );
}

#[test]
fn create_then_stream() {
    let play = Play::new();
    let json = [("Content-Type", "application/json")];
    let task = play.http("POST", "/tasks", &json, r#"{"contextId":"ctx-2"}"#);
    let task = task.as_str().expect("an id");
    let turn = play.say_in(task, "TEXT Hello.");
    let state = play.state(task);
    assert_eq!(turn.text(), "Hello.");
    assert_eq!(state["contextId"], "ctx-2");
    play.expect(&[
        "> POST /tasks
         201 application/json
         > TEXT Hello.
         status working state-change",
        SAID,
        "> tasks/get
         200 task input-required",
    ]);
}

#[test]
fn stream_text() {
    let play = Play::new();
    let turn = play.say("STREAM 5 2000");
    let said = turn.events.iter().filter(|e| kind_of(e.result()) == "text-content");
    let ids: Vec<&Value> = said.map(|event| &event.result()["status"]["message"]["messageId"]).collect();
    assert_eq!(ids, [ids[0]; 5], "chunks of one utterance share its id");
    let state = play.state(turn.task());
    let history = state["history"].as_array().expect("a history");
    assert_eq!(history.len(), 2, "{history:#?}");
    assert_eq!(history[1]["parts"][0]["text"], turn.text());
    play.expect(&[
        "> STREAM 5 2000",
        BEGUN,
        SAID,
        "> tasks/get
         200 task input-required",
    ]);
}

#[test]
fn stream_second_turn() {
    let play = Play::new();
    let first = play.say("TEXT First answer.");
    let second = play.say_in(first.task(), "TEXT Second answer.");
    assert_eq!((first.text(), second.text()), ("First answer.".into(), "Second answer.".into()));
    assert_eq!(first.task(), second.task());
    let roles: Vec<String> = play.fake.turns()[1].roles().iter().map(|r| r.to_string()).collect();
    assert_eq!(&roles[roles.len() - 3..], ["user", "model", "user"]);
    play.state(first.task());
    play.expect(&[
        "> TEXT First answer.",
        BEGUN,
        SAID,
        "> TEXT Second answer.
         status working state-change",
        SAID,
        "> tasks/get
         200 task input-required",
    ]);
}

#[test]
fn stream_thought() {
    let play = Play::new();
    let script = "THINK Planning the work | I look at the files first. ++ THINK Second thought | More. ++ STREAM 2";
    let turn = play.say(script);
    let thoughts: Vec<&Value> = turn
        .events
        .iter()
        .filter(|event| kind_of(event.result()) == "thought")
        .map(|event| &event.result()["status"]["message"]["parts"][0])
        .collect();
    assert_eq!(
        thoughts,
        [
            &json!({ "kind": "data", "data": { "subject": "Planning the work", "description": "I look at the files first." } }),
            &json!({ "kind": "data", "data": { "subject": "Second thought", "description": "More." } }),
        ]
    );
    play.expect(&[&format!("> {script}"), BEGUN, "status working thought", SAID]);
}

#[test]
fn stream_citation() {
    let play = Play::new();
    let turn = play.say("CITE https://example.test/source");
    let cited = turn.events.iter().find(|e| kind_of(e.result()) == "citation");
    let cited = text_of(cited.expect("a citation").result());
    assert!(cited.contains("https://example.test/source"), "{cited}");
    play.expect_but(
        "a source the model names is shown; the event kind exists for it",
        &[
            "> CITE https://example.test/source",
            BEGUN,
            "
            status working text-content
            + status working citation
            status input-required state-change final",
        ],
    );
}

#[test]
fn no_settings() {
    let play = Play::new();
    play.open("no settings", "message/stream", prompt("TEXT Hello.")).rest();
    play.expect(&["> no settings", BEGUN, SAID]);
}

#[test]
fn bad_workspace() {
    let play = Play::new();
    let params = prompt_at("/no/such/dir".as_ref(), "TEXT Hello.");
    let turn = play.open("bad workspace", "message/stream", params).rest();
    assert!(text_of(turn.last()).contains("/no/such/dir"), "{}", turn.last());
    play.expect_but(
        "an agent that works somewhere else than it was told is dangerous",
        &["
            > bad workspace
            task submitted
            - status working state-change
            - status working text-content
            - status input-required state-change final
            + status failed state-change final"],
    );
}

#[test]
fn no_text() {
    let play = Play::new();
    let mut params = prompt("");
    params["message"]["parts"] = json!([{ "kind": "data", "data": {} }]);
    play.open("no text", "message/stream", params).rest();
    assert_eq!(play.fake.requests().len(), 0, "nothing to ask the model");
    play.expect(&["
        > no text
        task submitted
        status input-required state-change final"]);
}

#[test]
fn context_mismatch() {
    let play = Play::new();
    let first = play.say("TEXT Hello.");
    let mut params = prompt_in(first.task(), "TEXT Same task.");
    params["message"]["contextId"] = json!("another-context");
    play.open("other context", "message/stream", params).rest();
    play.state(first.task());
    play.expect_but(
        "a contextId that is not the task's own is an error of the client",
        &[
            "> TEXT Hello.",
            BEGUN,
            SAID,
            "
            > other context
            - status working state-change
            - status working text-content
            - status input-required state-change final
            + error -32602
            > tasks/get
            200 task input-required",
        ],
    );
}

#[test]
fn unknown_task() {
    let play = Play::new();
    let params = |id| prompt_in(id, "TEXT Hello.");
    play.say_in("11111111-1111-4111-8111-111111111111", "TEXT Hello.");
    play.rpc("message/send", params("22222222-2222-4222-8222-222222222222"));
    play.expect(&["
        > TEXT Hello.
        error -32001
        > message/send
        200 error -32001"]);
}

#[test]
fn metadata() {
    let play = Play::new();
    let turn = play.say("TEXT Hello.");
    let one = play.http("GET", &format!("/tasks/{}/metadata", turn.task()), &[], "");
    let none = play.http("GET", "/tasks/no-such-task/metadata", &[], "");
    let all = play.http("GET", "/tasks/metadata", &[], "");
    assert_eq!(none, json!({ "error": "Task not found" }));
    assert_eq!(all[0]["id"], turn.task());
    let known = one["metadata"].as_object().expect("metadata");
    let members: Vec<&str> = known.keys().map(String::as_str).collect();
    assert_eq!(members, ["availableTools", "contextId", "id", "mcpServers", "model", "taskState", "usage"]);
    assert_eq!(known["taskState"], "input-required");
    play.expect(&[
        "> TEXT Hello.",
        BEGUN,
        SAID,
        &format!("> GET /tasks/{}/metadata", turn.task()),
        "200 application/json
        > GET /tasks/no-such-task/metadata
        404 application/json
        > GET /tasks/metadata
        200 application/json",
    ]);
}

// Calls and their approval.

#[test]
fn write_proceed() {
    let play = Play::new();
    let turn = play.say("WRITE w1.txt alpha");
    let task = turn.task();
    play.state(task);
    assert_eq!(play.file("w1.txt"), None);
    let done = play.answer(task, "proceed_once", &turn.asked());
    assert_eq!(play.file("w1.txt").as_deref(), Some("alpha"));
    assert_eq!(done.text(), "Done.");
    play.state(task);
    play.expect(&[
        "> WRITE w1.txt alpha",
        BEGUN,
        ASKED,
        "> tasks/get
         200 task input-required
         > proceed_once",
        RUNS,
        DONE,
        SAID,
        "> tasks/get
         200 task input-required",
    ]);
}

#[test]
fn write_cancel() {
    let play = Play::new();
    let turn = play.say("WRITE w2.txt beta");
    play.answer(turn.task(), "cancel", &turn.asked());
    assert_eq!(play.file("w2.txt"), None);
    play.state(turn.task());
    play.expect(&[
        "> WRITE w2.txt beta",
        BEGUN,
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
    let play = Play::new();
    std::fs::write(play.server.workspace().join("w3.txt"), "before\n").expect("a file");
    let turn = play.say("WRITE w3.txt model text");
    let part = json!({ "kind": "data", "data": {
        "callId": turn.asked()[0], "outcome": "proceed_once", "newContent": "edited by the user\n",
    } });
    let params = parts_in(turn.task(), vec![part]);
    play.open("newContent", "message/stream", params).rest();
    assert_eq!(play.file("w3.txt").as_deref(), Some("edited by the user\n"));
    play.state(turn.task());
    play.expect(&[
        "> WRITE w3.txt model text",
        BEGUN,
        ASKED,
        "> newContent",
        RUNS,
        DONE,
        SAID,
        "> tasks/get
         200 task input-required",
    ]);
}

/// Every stream of a play has a connection of its own, so the one that saw the question is gone when the answer comes.
#[test]
fn write_new_connection() {
    let play = Play::new();
    let turn = play.say("WRITE w12.txt x");
    let (task, calls) = (turn.task().to_string(), turn.asked());
    drop(turn);
    play.answer(&task, "proceed_once", &calls);
    assert_eq!(play.file("w12.txt").as_deref(), Some("x"));
    play.expect_but(
        "a question belongs to the task and not to the connection that saw it first",
        &[
            "> WRITE w12.txt x",
            BEGUN,
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

/// Also what a slow user gives: the question waits for as long as it takes.
#[test]
fn write_two_connections_and_slow_approval() {
    let play = Play::new();
    let mut live = play.begin("WRITE w13.txt x");
    let task = live.task();
    let asked = live.until("a question", |result| asked_of(result).is_some());
    let call = asked_of(asked.result()).expect("it was looked for").to_string();
    let turn = live.rest();
    play.answer(&task, "proceed_once", &[call]);
    assert_eq!(turn.asked().len(), 1);
    assert_eq!(play.file("w13.txt").as_deref(), Some("x"));
    play.expect(&["> WRITE w13.txt x", BEGUN, ASKED, "> proceed_once", RUNS, DONE, SAID]);
}

#[test]
fn shell_live() {
    let play = Play::new();
    let turn = play.say("SHELL for i in 1 2 3; do echo line $i; sleep 0.2; done");
    let done = play.answer(turn.task(), "proceed_once", &turn.asked());
    let pieces: Vec<&Value> =
        done.events.iter().map(Event::result).filter(|result| result["kind"] == "artifact-update").collect();
    let mut shown = String::new();
    for (n, piece) in pieces.iter().enumerate() {
        assert_eq!(piece["append"], n > 0, "the first piece makes the artifact");
        assert_eq!(piece["lastChunk"], false);
        shown.push_str(piece["artifact"]["parts"][0]["text"].as_str().unwrap_or("?"));
    }
    assert_eq!(shown, "line 1\nline 2\nline 3\n");
    play.expect(&[
        "> SHELL for i in 1 2 3; do echo line $i; sleep 0.2; done",
        BEGUN,
        ASKED,
        "> proceed_once",
        RUNS,
        "artifact 1",
        DONE,
        SAID,
    ]);
}

#[test]
fn shell_fails() {
    let play = Play::new();
    let turn = play.say("SHELL echo oops >&2; exit 3");
    let done = play.answer(turn.task(), "proceed_once", &turn.asked());
    let output = &done.calls("success")[0]["response"]["responseParts"][0]["functionResponse"];
    let output = output["response"]["output"].as_str().unwrap_or("");
    assert!(output.contains("oops") && output.contains("Exit Code: 3"), "{output}");
    play.expect(&["> SHELL echo oops >&2; exit 3", BEGUN, ASKED, "> proceed_once", RUNS, "artifact 1", DONE, SAID]);
}

#[test]
fn shell_cancel_running() {
    let play = Play::new();
    let turn = play.say("SHELL echo begin; sleep 300");
    let task = turn.task();
    let mut live = play.answering(task, "proceed_once", &turn.asked());
    live.until("output", |result| result["kind"] == "artifact-update");
    play.rpc("tasks/cancel", json!({ "id": task }));
    let end = live.rest();
    assert_eq!(text_of(end.last()), "Task canceled by user request.");
    play.state(task);
    play.expect(&[
        "> SHELL echo begin; sleep 300",
        BEGUN,
        ASKED,
        "> proceed_once",
        RUNS,
        "artifact 1
         status input-required tool-call-update 1 cancelled
         status canceled state-change final
         > tasks/cancel
         200 task canceled
         > tasks/get
         200 task canceled",
    ]);
}

/// The reference server asks about one call at a time and its stream does not end then, so from here on the recorded
/// conversations are others than ours.
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
    let play = Play::new();
    let turn = play.say("PARALLEL");
    let (task, calls) = (turn.task(), turn.asked());
    // The command is allowed first and the file second, so that the order of the events is the order of the answers.
    let mut first = play.answering(task, "proceed_once", &calls[1..]);
    first.until("the command's end", |result| call_status_of(result) == "success");
    first.rest();
    let second = play.answer(task, "proceed_once", &calls[..1]);
    assert_eq!(second.text(), "Done.");
    assert_eq!(play.file("parallel.txt").as_deref(), Some("one\n"));
    play.expect_but(
        "every call that needs an answer asks at once, and the stream ends when nothing can go on without the user",
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
    let play = Play::new();
    let turn = play.say("PARALLEL");
    let (task, calls) = (turn.task(), turn.asked());
    play.answer(task, "cancel", &calls[..1]);
    play.answer(task, "proceed_once", &calls[1..]);
    assert_eq!(play.file("parallel.txt"), None);
    play.expect_but(
        "refusing one call is no answer to the other",
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

/// One message answers both; which of the two finishes first is open, so their updates are looked at call by call.
#[test]
fn parallel_wait_for_final() {
    let play = Play::new();
    let turn = play.say("PARALLEL");
    let (task, calls) = (turn.task(), turn.asked());
    assert_eq!(state_of(&play.state(task)), Some("input-required"));
    let part = |call: &String| json!({ "kind": "data", "data": { "callId": call, "outcome": "proceed_once" } });
    let params = parts_in(task, calls.iter().map(part).collect());
    let events: Vec<Event> = play.client().stream("message/stream", params).collect();
    for call in &calls {
        let of_call = |event: &&Event| call_of(event.result())["request"]["callId"] == **call;
        let words: Vec<&str> = events.iter().filter(of_call).map(|e| call_status_of(e.result())).collect();
        assert_eq!(words, ["awaiting_approval", "scheduled", "executing", "success"]);
    }
    assert_eq!(events.iter().filter(|event| event.is_final()).count(), 1);
    play.expect_but(
        "every call that needs an answer asks at once, and the stream ends when nothing can go on without the user",
        &["> PARALLEL", BOTH_ASKED, "> tasks/get", "- 200 task working", "+ 200 task input-required"],
    );
}

#[test]
fn tool_unknown() {
    let play = Play::new();
    let turn = play.say("CALL no_such_tool {\"a\":1}");
    assert_eq!(turn.calls("error")[0]["response"]["errorType"], "tool_not_registered");
    play.expect(&["> CALL no_such_tool {\"a\":1}", BEGUN, WRONG, SAID]);
}

#[test]
fn tool_bad_args() {
    let play = Play::new();
    let turn = play.say("CALL write_file {\"content\":\"x\"}");
    assert_eq!(turn.calls("error")[0]["response"]["errorType"], "invalid_tool_params");
    play.expect(&["> CALL write_file {\"content\":\"x\"}", BEGUN, WRONG, SAID]);
}

#[test]
fn tool_outside_workspace() {
    let play = Play::new();
    play.say("WRITE /etc/gemini-a2a-test.txt nope");
    assert!(!std::path::Path::new("/etc/gemini-a2a-test.txt").exists());
    play.expect(&["> WRITE /etc/gemini-a2a-test.txt nope", BEGUN, WRONG, SAID]);
}

#[test]
fn confirm_wrong_call() {
    let play = Play::new();
    let turn = play.say("WRITE w6.txt x");
    play.answer(turn.task(), "proceed_once", &["no-such-call".into()]);
    play.answer(turn.task(), "proceed_once", &turn.asked());
    assert_eq!(play.file("w6.txt").as_deref(), Some("x"));
    play.expect_but(
        "an answer to a call that does not wait for one gets an error, so that its sender knows",
        &[
            "> WRITE w6.txt x",
            BEGUN,
            ASKED,
            "
            > proceed_once
            - status input-required state-change final
            + error -32602
            > proceed_once",
            RUNS,
            DONE,
            SAID,
        ],
    );
}

#[test]
fn confirm_bad_outcome() {
    let play = Play::new();
    let turn = play.say("WRITE w7.txt x");
    play.answer(turn.task(), "maybe", &turn.asked());
    assert_eq!(play.file("w7.txt"), None);
    play.answer(turn.task(), "proceed_once", &turn.asked());
    assert_eq!(play.file("w7.txt").as_deref(), Some("x"));
    play.expect_but(
        "an unknown answer is refused and the call goes on waiting; the reference server falls silent",
        &[
            "> WRITE w7.txt x",
            BEGUN,
            ASKED,
            "> maybe
            + error -32602
            > proceed_once",
            RUNS,
            DONE,
            SAID,
        ],
    );
}

#[test]
fn text_while_waiting() {
    let play = Play::new();
    let turn = play.say("WRITE w8.txt x");
    let task = turn.task();
    play.say_in(task, "TEXT Never mind.");
    play.state(task);
    play.rpc("tasks/cancel", json!({ "id": task }));
    play.expect_but(
        "text waits for the open question and is answered with it; it does not walk past it",
        &[
            "> WRITE w8.txt x",
            BEGUN,
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
    let play = Play::new();
    let mut first = play.begin("STREAM 3 ++ HOLD ++ TEXT end");
    let task = first.task();
    first.until("text", |result| kind_of(result) == "text-content");
    let params = prompt_in(&task, "TEXT Second at once.");
    let second = play.open("TEXT Second at once.", "message/stream", params);
    play.fake.release();
    let (first, second) = (first.rest(), second.rest());
    assert!(first.text().ends_with("end"), "{}", first.text());
    assert!(second.text().ends_with("Second at once."), "{}", second.text());
    play.state(&task);
    play.expect_but(
        "a prompt to a busy task is a turn of its own, and its stream shows the present turn and then its answer",
        &[
            "> STREAM 3 ++ HOLD ++ TEXT end",
            BEGUN,
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

// Waiting calls and looking at tasks.

#[test]
fn send_blocking() {
    let play = Play::new();
    let params = prompt_at(&play.server.workspace(), "STREAM 3 1000");
    let reply = play.rpc("message/send", params);
    let task = reply["result"]["id"].as_str().expect("a task").to_string();
    let state = play.state(&task);
    assert_eq!(reply["result"], state, "the whole answer, not its first chunk");
    let said = state["history"][1]["parts"][0]["text"].as_str().unwrap_or("");
    let stamps: Vec<u64> = support::stamp::find(said).map(|stamp| stamp.index).collect();
    assert_eq!(stamps, [0, 1, 2]);
    play.expect(&["
        > message/send
        200 task input-required
        > tasks/get
        200 task input-required"]);
}

#[test]
fn send_non_blocking() {
    let play = Play::new();
    let mut params = prompt_at(&play.server.workspace(), "TEXT a ++ HOLD ++ TEXT b");
    params["configuration"] = json!({ "blocking": false });
    let reply = play.client().rpc("message/send", params);
    let task = reply["result"]["id"].as_str().expect("a task");
    let early = state_of(&reply["result"]).expect("a state");
    assert!(["submitted", "working"].contains(&early), "{early}");
    support::eventually("the model at work", || (play.fake.held() == 1).then_some(()));
    play.state(task);
    let watched = play.open("tasks/resubscribe", "tasks/resubscribe", json!({ "id": task }));
    play.fake.release();
    watched.rest();
    play.state(task);
    play.expect(&["
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
    let play = Play::new();
    let reply = play.rpc("message/send", prompt_at(&play.server.workspace(), "WRITE w9.txt x"));
    assert_eq!(play.file("w9.txt"), None);
    assert_eq!(reply["result"]["status"]["state"], "input-required");
    play.expect(&["
        > message/send
        200 task input-required"]);
}

#[test]
fn tasks_get() {
    let play = Play::new();
    let turn = play.say("STREAM 3");
    let whole = play.state(turn.task());
    let short = play.rpc("tasks/get", json!({ "id": turn.task(), "historyLength": 1 }));
    play.rpc("tasks/get", json!({ "id": "no-such-task" }));
    play.rpc("tasks/get", json!({}));
    assert_eq!(short["result"]["history"], json!([whole["history"][1]]));
    play.expect_but(
        "a request without the task's id lacks a parameter; there is no task of the name \"undefined\"",
        &[
            "> STREAM 3",
            BEGUN,
            SAID,
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
    let play = Play::new();
    let mut first = play.begin("STREAM 3 ++ HOLD ++ TEXT end");
    let task = first.task();
    support::eventually("the hold", || (play.fake.held() == 1).then_some(()));
    let second = play.open("tasks/resubscribe", "tasks/resubscribe", json!({ "id": task }));
    play.fake.release();
    let (first, second) = (first.rest(), second.rest());
    let shared = second.events.len() - 1;
    let results = |events: &[Event]| -> Vec<Value> {
        let of = |event: &Event| json!([event.id, event.result()]);
        events.iter().map(of).collect()
    };
    assert_eq!(
        results(&first.events[first.events.len() - shared..]),
        results(&second.events[1..]),
        "behind the snapshot both see the same"
    );
    play.open("tasks/resubscribe", "tasks/resubscribe", json!({ "id": task })).rest();
    play.open("tasks/resubscribe", "tasks/resubscribe", json!({ "id": "no-such-task" })).rest();
    play.expect(&[
        "> STREAM 3 ++ HOLD ++ TEXT end",
        BEGUN,
        SAID,
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
    let play = Play::new();
    let mut live = play.begin("STREAM 3 ++ HOLD ++ TEXT end");
    let task = live.task();
    live.until("text", |result| kind_of(result) == "text-content");
    drop(live);
    play.state(&task);
    play.fake.release();
    support::eventually("the end of the turn", || {
        let state = play.client().call("tasks/get", json!({ "id": task }));
        (state_of(&state) == Some("input-required")).then_some(())
    });
    assert_eq!(play.fake.counters().broken, 0, "nobody stopped the model");
    let history = play.state(&task)["history"].clone();
    let said = history[1]["parts"][0]["text"].as_str().unwrap_or("");
    assert!(said.ends_with("end"), "{history:#?}");
    play.say_in(&task, "TEXT Back again.");
    play.expect_but(
        "a task does not depend on who watches it: it goes on, and the next turn is like any other",
        &[
            "> STREAM 3 ++ HOLD ++ TEXT end",
            BEGUN,
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

// Cancelling.

#[test]
fn cancel_idle() {
    let play = Play::new();
    let turn = play.say("TEXT Hello.");
    let task = json!({ "id": turn.task() });
    play.rpc("tasks/cancel", task.clone());
    play.rpc("tasks/cancel", task);
    play.say_in(turn.task(), "TEXT Are you there?");
    play.expect(&[
        "> TEXT Hello.",
        BEGUN,
        SAID,
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
    let play = Play::new();
    let mut live = play.begin("TEXT a ++ HOLD ++ TEXT b");
    let task = live.task();
    live.until("text", |result| kind_of(result) == "text-content");
    play.rpc("tasks/cancel", json!({ "id": task }));
    let end = live.rest();
    assert_eq!(text_of(end.last()), "Task canceled by user request.");
    support::eventually("the model's stream to be broken off", || (play.fake.counters().broken == 1).then_some(()));
    play.state(&task);
    play.expect(&[
        "> TEXT a ++ HOLD ++ TEXT b",
        BEGUN,
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
    let play = Play::new();
    let turn = play.say("WRITE w10.txt x");
    play.rpc("tasks/cancel", json!({ "id": turn.task() }));
    play.state(turn.task());
    let late = play.answer(turn.task(), "proceed_once", &turn.asked());
    assert_eq!(late.events[0].json["error"]["code"], -32600);
    assert_eq!(play.file("w10.txt"), None);
    play.expect_but(
        "the recording ends here; an answer to a task that is over changes nothing",
        &[
            "> WRITE w10.txt x",
            BEGUN,
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
    let play = Play::new();
    play.rpc("tasks/cancel", json!({ "id": "no-such-task" }));
    play.expect(&["
        > tasks/cancel
        200 error -32001"]);
}

#[test]
fn model_hang() {
    let play = Play::new();
    let mut live = play.begin("HANG");
    let task = live.task();
    support::eventually("the model to be asked", || (play.fake.counters().open == 1).then_some(()));
    play.rpc("tasks/cancel", json!({ "id": task }));
    live.rest();
    support::eventually("the request to be given up", || (play.fake.counters().open == 0).then_some(()));
    play.state(&task);
    play.expect(&[
        "> HANG",
        BEGUN,
        "
        status canceled state-change final
        > tasks/cancel
        200 task canceled
        > tasks/get
        200 task canceled",
    ]);
}

// What is wrong with a request.

#[test]
fn rpc_errors() {
    let play = Play::new();
    let json = [("Content-Type", "application/json")];
    let message = |message: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"message/stream","params":{{"message":{message}}}}}"#)
    };
    let ids: Vec<Value> = [
        "{\"jsonrpc\":\"2.0\",",
        "[]",
        "null",
        "\"text\"",
        "",
        r#"{"jsonrpc":"2.0","id":1,"method":"no/such","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"message/stream"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"message/stream","params":{}}"#,
        &message(r#"{"role":"user","parts":[{"kind":"text","text":"x"}]}"#),
        &message(r#"{"kind":"message","role":"user","messageId":"m","parts":[]}"#),
        r#"{"jsonrpc":"1.0","id":1,"method":"tasks/get","params":{"id":"x"}}"#,
        r#"{"id":1,"method":"tasks/get","params":{"id":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":{"a":1},"method":"tasks/get","params":{"id":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"tasks/get","params":{"id":"x"}}"#,
        r#"{"jsonrpc":"2.0","method":"tasks/get","params":{"id":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":"s","method":"tasks/get","params":["x"]}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}]"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"agent/getAuthenticatedExtendedCard","params":{}}"#,
    ]
    .iter()
    .map(|body| play.http("POST", "/", &json, body)["id"].clone())
    .collect();
    assert_eq!(
        json!(ids),
        json!([null, null, null, null, null, 1, 1, 1, 1, 1, 1, 1, null, null, null, "s", null, 1, 1])
    );
    play.expect_but(
        "errors of JSON-RPC are in the body and HTTP says 200; JSON that is no request is an invalid request; the missing \
         card has a code of its own; and only who accepts a stream is answered with one",
        &["
            > POST /
            - 400 error -32700
            + 200 error -32700
            > POST /
            200 error -32600
            > POST /
            - 400 error -32700
            + 200 error -32600
            > POST /
            - 400 error -32700
            + 200 error -32600
            > POST /
            200 error -32600
            > POST /
            200 error -32601
            > POST /
            200 error -32602
            > POST /
            - error -32603
            + 200 error -32602
            > POST /
            - error -32602
            + 200 error -32602
            > POST /
            - 200 task submitted
            + 200 error -32602
            > POST /
            200 error -32600
            > POST /
            200 error -32600
            > POST /
            200 error -32600
            > POST /
            200 error -32600
            > POST /
            200 error -32001
            > POST /
            200 error -32602
            > POST /
            200 error -32600
            > POST /
            200 error -32601
            > POST /
            - 200 error -32004
            + 200 error -32007"],
    );
}

#[test]
fn http_errors() {
    let play = Play::new();
    play.http("GET", "/", &[], "");
    play.http("GET", "/no/such/path", &[], "");
    play.http("PUT", "/tasks", &[("Content-Type", "application/json")], "{}");
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}"#;
    play.http("POST", "/", &[("Content-Type", "text/plain")], body);
    play.http("POST", "/", &[], body);
    let long = format!("TEXT ok\n{}", "x".repeat(200_000));
    let params = prompt_at(&play.server.workspace(), &long);
    play.open("200,000 bytes of text", "message/stream", params).rest();
    play.expect_but(
        "known paths name the methods they take, errors are JSON, a body of another type is refused as that, one without \
         a type is read, and a prompt may be long",
        &[
            "
            > GET /
            - 404 text/html
            + 405 error -32600
            > GET /no/such/path
            - 404 text/html
            + 404 application/json
            > PUT /tasks
            - 404 text/html
            + 405 application/json
            > POST /
            - 200 error -32700
            + 200 error -32005
            > POST /
            - 200 error -32700
            + 200 error -32001
            > 200,000 bytes of text
            - 413 text/html
            + task submitted
            + status working state-change
            + status working text-content
            + status input-required state-change final",
        ],
    );
}

// What is wrong with the model. The turn ends and says why; the task can go on.

const TURN_NOT_TASK: &str = "an error of the model ends the turn and not the task, and is said once";

#[test]
fn model_err400() {
    let play = Play::new();
    let turn = play.say("ERR400");
    let error = turn.last()["metadata"]["error"].as_str().unwrap_or("");
    assert!(error.contains("error 400"), "{}", turn.last());
    assert!(text_of(turn.last()).contains("error 400"));
    assert_eq!(play.fake.turns().len(), 1, "a bad request is not tried again");
    play.state(turn.task());
    assert_eq!(play.say_in(turn.task(), "TEXT Still here.").text(), "Still here.");
    play.expect_but(
        TURN_NOT_TASK,
        &[
            "> ERR400",
            BEGUN,
            "
            - status failed state-change final
            + status input-required state-change final
            > tasks/get
            - 200 task failed
            + 200 task input-required
            + > TEXT Still here.
            + status working state-change
            + status working text-content
            + status input-required state-change final",
        ],
    );
}

/// All that is tried again, at the same time because each waits between its tries.
#[test]
fn model_errors_that_are_tried_again() {
    let failed = "
        - status failed state-change final
        + status input-required state-change final";
    let cut = "
        status working text-content
        - status working state-change
        - status failed state-change final
        + status input-required state-change final";
    let cases: [(&str, Option<&str>, &[&str], usize); 7] = [
        // Two tries of the model, and two of the one it falls back to.
        ("ERR429", Some(TURN_NOT_TASK), &[BEGUN, failed], 4),
        ("ERR500", Some(TURN_NOT_TASK), &[BEGUN, failed], 4),
        ("ERR503 1", None, &[BEGUN, SAID], 2),
        ("CUT 2", Some(TURN_NOT_TASK), &[BEGUN, cut], 4),
        ("TEXT Before. ++ GARBAGE", Some(TURN_NOT_TASK), &[BEGUN, cut], 4),
        ("EMPTY", None, &[BEGUN, "status input-required state-change final"], 4),
        ("FINISH MALFORMED_FUNCTION_CALL", None, &[BEGUN, SAID], 4),
    ];
    std::thread::scope(|scope| {
        for (script, because, expected, tries) in cases {
            scope.spawn(move || {
                let play = Play::with(|setup| setup.arg("--max-attempts").arg("2"));
                let turn = play.say(script);
                assert_eq!(play.fake.turns().len(), tries, "{script}");
                let told = turn.last()["metadata"]["error"].is_string();
                assert_eq!(told, script != "ERR503 1", "{script}: {}", turn.last());
                let title = format!("> {script}");
                let expected = [&[title.as_str()], expected].concat();
                match because {
                    Some(because) => play.expect_but(because, &expected),
                    None => play.expect(&expected),
                }
            });
        }
    });
}

#[test]
fn model_safety_and_max_tokens() {
    for reason in ["SAFETY", "MAX_TOKENS"] {
        let play = Play::new();
        let turn = play.say(&format!("FINISH {reason}"));
        let said = turn.text();
        assert!(said.starts_with("Partial."), "{said}");
        assert!(said.len() > "Partial.".len(), "why it ends is said: {said}");
        play.expect(&[&format!("> FINISH {reason}"), BEGUN, SAID]);
    }
}

// Shapes.

/// The names of an object's members, in their alphabetical order.
fn members(value: &Value) -> Vec<&str> {
    let object = value.as_object();
    object.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn the_shape_of_every_kind_of_frame() {
    let play = Play::new();
    let turn = play.say("THINK a | b ++ TEXT words ++ CALL write_file {\"file_path\":\"w.txt\",\"content\":\"x\\n\"}");
    let task = turn.task().to_string();
    let done = play.answer(&task, "proceed_once", &turn.asked());
    let results: Vec<&Value> = turn.events.iter().chain(&done.events).map(Event::result).collect();

    let first = results[0];
    assert_eq!(members(first), ["artifacts", "contextId", "history", "id", "kind", "metadata", "status"]);
    assert_eq!(members(&first["status"]), ["state", "timestamp"]);
    let context = &first["contextId"];
    for result in &results[1..] {
        assert_eq!(members(result), ["contextId", "final", "kind", "metadata", "status", "taskId"]);
        assert_eq!((&result["taskId"], &result["contextId"]), (&json!(task), context));
        let mut expected = vec!["coderAgent", "model"];
        if !call_of(result)["outcome"].is_null() {
            expected.insert(1, "gemini-a2a");
        }
        match kind_of(result) {
            "text-content" | "thought" => expected.push("traceId"),
            _ if result["final"] == true => expected.push("usageMetadata"),
            _ => {}
        }
        assert_eq!(members(&result["metadata"]), expected, "{result:#}");
        assert_eq!(members(&result["metadata"]["coderAgent"]), ["kind"]);
        if let Some(message) = result["status"].get("message") {
            assert_eq!(members(message), ["contextId", "kind", "messageId", "parts", "role", "taskId"]);
            assert_eq!(message["parts"].as_array().map(Vec::len), Some(1));
        }
    }
    let usage = &turn.last()["metadata"]["usageMetadata"];
    for member in ["candidatesTokenCount", "promptTokenCount", "totalTokenCount"] {
        assert!(usage[member].is_u64(), "{usage}");
    }
    // Each answer of the model names its own response.
    let trace = |result: &&&Value| kind_of(result) == "text-content";
    let traces: Vec<&Value> = results.iter().filter(trace).map(|r| &r["metadata"]["traceId"]).collect();
    assert_eq!(traces, ["fake-1", "fake-2"]);
}

#[test]
fn the_shape_of_a_call_in_every_status() {
    let play = Play::new();
    let script = "WRITE w.txt x ;; SHELL mkdir out";
    let first = play.say(script);
    let second = play.answer(first.task(), "proceed_once", &first.asked());
    let shell = &second.asked()[1..];
    let third = play.answer(first.task(), "proceed_once", shell);

    let request = ["args", "callId", "display", "isClientInitiated", "name", "prompt_id", "schedulerId", "traceId"];
    let tool = [
        "canUpdateOutput",
        "description",
        "displayName",
        "isOutputMarkdown",
        "kind",
        "name",
        "parameterSchema",
        "schema",
    ];
    let check = |data: &Value, expected: &[&str]| {
        assert_eq!(members(data), expected, "{data:#}");
        assert_eq!(members(&data["request"]), request);
        assert_eq!(members(&data["tool"]), tool);
    };
    check(first.calls("scheduled")[0], &["request", "status", "tool"]);
    let asked = first.calls("awaiting_approval")[0];
    check(asked, &["confirmationDetails", "request", "status", "tool"]);
    assert_eq!(
        members(&asked["confirmationDetails"]),
        ["fileDiff", "fileName", "filePath", "newContent", "originalContent", "title", "type"]
    );
    check(second.calls("awaiting_approval")[0], &["confirmationDetails", "outcome", "request", "status", "tool"]);
    check(second.calls("executing")[0], &["outcome", "request", "status", "tool"]);
    let success = second.calls("success")[0];
    check(success, &["outcome", "request", "response", "status", "tool"]);
    let response = &success["response"];
    assert_eq!(members(response), ["callId", "contentLength", "display", "responseParts", "resultDisplay"]);
    assert_eq!(members(&response["responseParts"][0]["functionResponse"]), ["id", "name", "response"]);
    assert_eq!(
        members(&response["resultDisplay"]),
        ["diffStat", "fileDiff", "fileName", "filePath", "isNewFile", "newContent", "originalContent"]
    );
    let exec = second.calls("awaiting_approval");
    let exec = exec.last().expect("the command asks");
    assert_eq!(
        exec["confirmationDetails"],
        json!({ "type": "exec", "title": "Confirm Shell Command", "command": "mkdir out",
            "rootCommand": "mkdir", "rootCommands": ["mkdir"] })
    );
    assert_eq!(third.calls("success")[0]["tool"]["kind"], "execute");
    assert_eq!(first.calls("scheduled")[0]["request"]["prompt_id"], format!("{}########0", first.task()));
}
