//! The members of every kind of frame and of a call in every status.

use crate::scenario::Scenario;
use crate::support::client::Event;
use crate::support::message::{call_of, kind_of};
use serde_json::{Value, json};

/// The names of an object's members in alphabetical order.
fn members(value: &Value) -> Vec<&str> {
    let object = value.as_object();
    object.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn the_shape_of_every_kind_of_frame() {
    let scenario = Scenario::new();
    let turn =
        scenario.send("THINK a | b ++ TEXT words ++ CALL write_file {\"file_path\":\"w.txt\",\"content\":\"x\\n\"}");
    let task = turn.task().to_string();
    let done = scenario.answer(&task, "proceed_once", &turn.asked());
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
    // Each text names the response of the model that it came from.
    let trace = |result: &&&Value| kind_of(result) == "text-content";
    let traces: Vec<&Value> = results.iter().filter(trace).map(|r| &r["metadata"]["traceId"]).collect();
    assert_eq!(traces, ["fake-1", "fake-2"]);
}

#[test]
fn the_shape_of_a_call_in_every_status() {
    let scenario = Scenario::new();
    let script = "WRITE w.txt x ;; SHELL mkdir out";
    let first = scenario.send(script);
    let second = scenario.answer(first.task(), "proceed_once", &first.asked());
    let third = scenario.answer(first.task(), "proceed_once", &second.asked());

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
    let exec = exec.last().expect("a question about the command");
    assert_eq!(
        exec["confirmationDetails"],
        json!({ "type": "exec", "title": "Confirm Shell Command", "command": "mkdir out",
            "rootCommand": "mkdir", "rootCommands": ["mkdir"] })
    );
    assert_eq!(third.calls("success")[0]["tool"]["kind"], "execute");
    assert_eq!(first.calls("scheduled")[0]["request"]["prompt_id"], format!("{}########0", first.task()));
}
