//! Tool calls in the coder profile, whole.

use super::*;

/// The frame of a call event, split into its data part and the rest.
fn call_frame(state: &State, event: Event) -> (Value, Value) {
    let mut shown = frame(state, event);
    let data = shown["status"]["message"]["parts"][0]["data"].take();
    (data, shown)
}

fn around_call(kind: &str, state: &str) -> Value {
    json!({"kind": "status-update", "taskId": "t-1", "contextId": "c-1",
        "status": {"state": state, "message": agent_message("t-1-9", json!({"kind": "data", "data": null})),
            "timestamp": TIME},
        "final": false, "metadata": {"coderAgent": {"kind": kind}, "model": "gemini-x"}})
}

fn request_of_writing() -> Value {
    json!({"callId": "call-1", "name": "write_file", "args": {"file_path": "a.txt", "content": "newer\n"},
        "display": {"name": "WriteFile", "description": "What it does"}, "isClientInitiated": false,
        "prompt_id": "t-1########0", "traceId": "trace-1", "schedulerId": "t-1"})
}

#[test]
fn a_call_from_plan_to_start() {
    let call = || "call-1".into();
    let edit = json!({"type": "edit", "title": "Confirm Write: a.txt", "fileName": "a.txt", "filePath": "/w/a.txt",
        "fileDiff": sample::DIFF, "originalContent": "old\n", "newContent": "newer\n"});
    let mut state = with_call(writing());
    let plan = state.calls[0].plan.clone().unwrap();
    let scheduled = json!({"request": request_of_writing(), "status": "scheduled", "tool": sample::write_file_shown()});
    assert_eq!(
        call_frame(&state, Event::CallPlanned { call: call(), plan }),
        (scheduled.clone(), around_call("tool-call-update", "working"))
    );
    assert_eq!(frames(&state, Event::CallReady { call: call(), confinement: Confinement::None }), None);

    let mut waiting = scheduled.clone();
    waiting["status"] = json!("awaiting_approval");
    waiting["confirmationDetails"] = edit;
    assert_eq!(
        call_frame(&state, Event::CallAsked { call: call(), keeping: ApprovalScope::Session }),
        (waiting, around_call("tool-call-confirmation", "working"))
    );

    state.announced = TaskState::InputRequired;
    state.calls[0].choice = Some(Choice::ProceedOnce);
    let answer = Event::CallAnswered {
        call: call(),
        choice: Choice::ProceedOnce,
        by: Source::new("x", "y"),
        edited: None,
        answers: None,
        rules: vec![],
    };
    assert_eq!(frames(&state, answer), None, "a client might answer again");

    let mut ready = scheduled;
    ready["outcome"] = json!("proceed_once");
    let around = around_call("tool-call-update", "input-required");
    assert_eq!(
        call_frame(&state, Event::CallReady { call: call(), confinement: Confinement::None }),
        (ready.clone(), around.clone())
    );
    ready["status"] = json!("executing");
    assert_eq!(call_frame(&state, Event::CallStarted { call: call() }), (ready, around));
}

fn ended(mut call: CallState, ending: Ending) -> Value {
    let ending = Arc::new(ending);
    call.ending = Some(ending.clone());
    let state = with_call(call);
    let event = Event::CallEnded { call: "call-1".into(), ending };
    let (data, around) = call_frame(&state, event);
    assert_eq!(around, around_call("tool-call-update", "working"));
    data
}

fn for_model(name: &str, response: Value) -> Value {
    json!([{"functionResponse": {"id": "call-1", "name": name, "response": response}}])
}

#[test]
fn a_written_file() {
    let ending = Ending::Success {
        output: "Wrote ä.".into(),
        display: Display::Diff {
            file_name: "a.txt".into(),
            file_path: "/w/a.txt".into(),
            diff: sample::DIFF.into(),
            old: None,
            new: "newer\n".into(),
            added: 1,
            removed: 1,
        },
    };
    let data = ended(writing(), ending);
    assert_eq!(data["status"], "success");
    assert_eq!(
        data["response"],
        json!({"callId": "call-1", "responseParts": for_model("write_file", json!({"output": "Wrote ä."})),
            "display": {"name": "WriteFile", "description": "What it does", "resultSummary": "1 added, 1 removed",
                "result": {"type": "diff", "path": "/w/a.txt", "beforeText": "", "afterText": "newer\n"}},
            "resultDisplay": {"fileDiff": sample::DIFF, "fileName": "a.txt", "filePath": "/w/a.txt",
                "originalContent": "", "newContent": "newer\n", "isNewFile": true,
                "diffStat": {"model_added_lines": 1, "model_removed_lines": 1, "model_added_chars": 5,
                    "model_removed_chars": 3, "user_added_lines": 0, "user_removed_lines": 0,
                    "user_added_chars": 0, "user_removed_chars": 0}},
            "contentLength": 8})
    );
}

#[test]
fn a_command() {
    let (asked, _) =
        call_frame(&with_call(running()), Event::CallAsked { call: "call-1".into(), keeping: ApprovalScope::Session });
    assert_eq!(
        asked["confirmationDetails"],
        json!({"type": "exec", "title": "Confirm Shell Command", "command": "echo a | wc", "rootCommand": "echo, wc",
            "rootCommands": ["echo", "wc"]})
    );
    let ending = Ending::Success { output: "Output: 1".into(), display: Display::Text { text: "1".into() } };
    assert_eq!(
        ended(running(), ending)["response"],
        json!({"callId": "call-1", "responseParts": for_model("run_shell_command", json!({"output": "Output: 1"})),
            "display": {"name": "Shell", "description": "What it does", "result": {"type": "text", "text": "1"}},
            "resultDisplay": "1", "contentLength": 9})
    );
}

#[test]
fn a_question_of_another_kind() {
    let question = |urls| Question::Info { title: "Confirm Fetch".into(), prompt: "Fetch it?".into(), urls };
    for (urls, expected) in [
        (
            vec!["https://x.test".to_owned()],
            json!({"type": "info", "title": "Confirm Fetch", "prompt": "Fetch it?", "urls": ["https://x.test"]}),
        ),
        (vec![], json!({"type": "info", "title": "Confirm Fetch", "prompt": "Fetch it?"})),
    ] {
        let call = sample::call("run_shell_command", json!({}), Some(question(urls)));
        let asked = Event::CallAsked { call: "call-1".into(), keeping: ApprovalScope::Session };
        let (data, _) = call_frame(&with_call(call), asked);
        assert_eq!(data["confirmationDetails"], expected);
    }
}

#[test]
fn a_question_about_a_tool_of_an_mcp_server() {
    let call = sample::call("mcp_x_put", json!({"to": "a\u{202e}b"}), Some(sample::mcp(&["It changed."])));
    let asked = Event::CallAsked { call: "call-1".into(), keeping: ApprovalScope::Session };
    let (data, _) = call_frame(&with_call(call), asked);
    assert_eq!(
        data["confirmationDetails"],
        json!({"type": "mcp", "title": "Confirm MCP Tool x", "serverName": "x", "toolName": "put",
            "toolDisplayName": "put (x MCP Server)", "toolArgs": {"to": "a\u{202e}b"}, "toolDescription": "Puts it.",
            "toolParameterSchema": {"type": "object"}, "systemMessage": "It changed."})
    );
    assert_eq!(data["request"]["display"], json!({"name": "put (x MCP Server)", "description": "What it does"}));
    assert_eq!(data["tool"]["name"], "mcp_x_put");
    assert_eq!(data["tool"]["parameterSchema"], json!({"type": "object"}));
}

#[test]
fn a_question_of_the_agents_own() {
    let question = Question::AskUser {
        title: "Questions".into(),
        questions: vec![sample::inquiry(InquiryKind::Choice, &["A"]), sample::inquiry(InquiryKind::YesNo, &[])],
    };
    let call = sample::call("run_shell_command", json!({}), Some(question));
    let asked = Event::CallAsked { call: "call-1".into(), keeping: ApprovalScope::Session };
    let (data, _) = call_frame(&with_call(call), asked);
    assert_eq!(
        data["confirmationDetails"],
        json!({"type": "ask_user", "title": "Questions", "questions": [
            {"question": "Which one?", "header": "Which", "type": "choice", "options": [{"label": "A", "description": ""}]},
            {"question": "Which one?", "header": "Which", "type": "yesno"}]})
    );
}

#[test]
fn a_list_of_steps() {
    let ending = Ending::Success {
        output: "1. x".into(),
        display: Display::Todos { todos: vec![Todo { description: "x".into(), status: TodoStatus::InProgress }] },
    };
    let todos = json!([{"description": "x", "status": "in_progress"}]);
    let response = &ended(running(), ending)["response"];
    assert_eq!(response["resultDisplay"], json!({"todos": todos}));
    assert_eq!(response["display"]["result"], json!({"type": "todos", "todos": todos}));
}

#[test]
fn calls_that_failed() {
    let error = ErrorKind::InvalidToolParams.error("params must be object");
    let bad_args = sample::call("write_file", json!({"file_path": "x"}), None);
    let data = ended(bad_args, Ending::Error { error: error.clone() });
    assert_eq!(data["status"], "error");
    assert_eq!(data["request"]["display"], json!({"name": "WriteFile", "description": "Writes a file."}));
    assert_eq!(
        data["response"],
        json!({"callId": "call-1", "error": {"message": "params must be object"},
            "responseParts": for_model("write_file", json!({"error": "params must be object"})),
            "resultDisplay": "params must be object", "errorType": "invalid_tool_params", "contentLength": 21})
    );

    let unknown = sample::call("no_such_tool", json!({"a": 1}), None);
    let data = ended(unknown, Ending::Error { error });
    assert_eq!(data.get("tool"), None);
    assert_eq!(
        data["request"],
        json!({"callId": "call-1", "name": "no_such_tool", "args": {"a": 1}, "isClientInitiated": false,
            "prompt_id": "t-1########0", "traceId": "trace-1", "schedulerId": "t-1"})
    );
}

#[test]
fn calls_that_were_cancelled() {
    let cancelled = |output: &str| Ending::Cancelled { reason: "User denied execution.".into(), output: output.into() };
    let words = "[Operation Cancelled] Reason: User denied execution.";
    let mut refused = writing();
    refused.choice = Some(Choice::Cancel);
    let data = ended(refused, cancelled(""));
    assert_eq!((&data["status"], &data["outcome"]), (&json!("cancelled"), &json!("cancel")));
    assert_eq!(data["response"]["responseParts"], for_model("write_file", json!({ "error": words })));
    assert_eq!(data["response"]["resultDisplay"]["newContent"], json!("newer\n"));
    assert_eq!(
        ended(running(), cancelled("begin\n"))["response"],
        json!({"callId": "call-1", "responseParts": for_model("run_shell_command", json!({ "error": words })),
            "resultDisplay": "begin\n", "contentLength": 52})
    );
    assert_eq!(ended(running(), cancelled(""))["response"].get("resultDisplay"), None);
}

#[test]
fn edits_show_the_file_they_lead_to() {
    let args = |call| {
        let started = Event::CallStarted { call: "call-1".into() };
        call_frame(&with_call(call), started).0["request"]["args"].take()
    };
    let change = json!({"file_path": "a.txt", "old_string": "old", "new_string": "newer"});
    let mut replacing = sample::call("replace", change.clone(), Some(sample::edit()));
    let mut expected = change;
    expected["newContent"] = json!("newer\n");
    assert_eq!(args(replacing.clone()), expected);

    replacing.edited = Some("mine\n".into());
    expected["newContent"] = json!("mine\n");
    expected["ai_proposed_content"] = json!("newer\n");
    expected["modified_by_user"] = json!(true);
    assert_eq!(args(replacing), expected);

    let mut written = writing();
    written.edited = Some("mine\n".into());
    assert_eq!(
        args(written),
        json!({"file_path": "a.txt", "content": "mine\n", "ai_proposed_content": "newer\n", "modified_by_user": true})
    );
}
