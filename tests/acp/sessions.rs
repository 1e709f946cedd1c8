//! Sessions: new, loaded, resumed, listed, closed and deleted; modes and models; the end.

use crate::editor::Program;
use serde_json::{Value, json};

#[test]
fn standard_output_has_only_the_protocol_and_the_end_of_input_ends_the_program() {
    let program = Program::new();
    let (mut running, mut editor, session) = program.begin(&["--debug"]);
    editor.say(&session, "TEXT half ++ HOLD");
    editor.update("agent_message_chunk");
    for line in editor.end() {
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0");
    }
    assert_eq!(running.status(), Some(0));
    // The turn was interrupted, and its journal has what was said before.
    let (_running, mut editor) = program.start(&[]);
    editor.initialize(json!({}));
    let params = json!({"sessionId": session, "cwd": program.workspace(), "mcpServers": []});
    assert!(editor.ask("session/load", params)["result"]["modes"].is_object());
    let updates = editor.updates(&session);
    assert_eq!(updates[0]["content"]["text"], "TEXT half ++ HOLD");
    assert_eq!(updates[1]["content"]["text"], "half");
}

#[test]
fn a_loaded_session_has_the_same_updates() {
    let program = Program::new();
    let (mut running, mut editor, session) = program.begin(&[]);
    let scripts = [
        "THINK a | b ++ TEXT one",
        "WRITE a.txt hello ;; SHELL echo printed; false ;; READ nowhere ;; TEXT two",
        r#"CALL write_todos {"todos": [{"description": "x", "status": "pending"}]} ;; TEXT three"#,
    ];
    for script in scripts {
        let prompt = editor.say(&session, script);
        loop {
            let message = editor.read();
            if message["method"] == "session/request_permission" {
                editor.select(&message, "proceed_once");
            } else if message["id"] == prompt {
                break;
            } else {
                editor.seen.push(message);
            }
        }
    }
    let live = editor.updates(&session);
    assert!(live.iter().any(|update| update["sessionUpdate"] == "plan"), "{live:?}");
    let is_own = |update: &Value| update["sessionUpdate"] == "user_message_chunk";
    let params = json!({"sessionId": session, "cwd": program.workspace(), "mcpServers": []});
    // First in the same process, from memory; then in a new process, from the journal.
    assert!(editor.ask("session/load", params.clone())["result"].is_object());
    let (own, again): (Vec<Value>, Vec<Value>) = editor.updates(&session).into_iter().partition(is_own);
    assert_eq!(again, live);
    let prompts: Vec<&Value> = own.iter().map(|update| &update["content"]["text"]).collect();
    assert_eq!(prompts, scripts);
    editor.end();
    assert_eq!(running.status(), Some(0));
    let (_running, mut editor) = program.start(&[]);
    editor.initialize(json!({}));
    assert!(editor.ask("session/load", params)["result"].is_object());
    let mut again = editor.updates(&session);
    again.retain(|update| !is_own(update));
    assert_eq!(again, live);
    assert_eq!(editor.prompt(&session, "TEXT four"), "end_turn", "the session continues");
}

#[test]
fn an_open_question_is_asked_again_after_a_restart() {
    let program = Program::new();
    let (mut running, mut editor, session) = program.begin(&[]);
    editor.say(&session, "WRITE a.txt hello");
    editor.asked("session/request_permission");
    editor.end();
    assert_eq!(running.status(), Some(0));
    let (_running, mut editor) = program.start(&[]);
    editor.initialize(json!({}));
    let params = json!({"sessionId": session, "cwd": program.workspace()});
    assert!(editor.ask("session/resume", params)["result"].is_object());
    let request = editor.asked("session/request_permission");
    assert!(
        editor.updates(&session).iter().all(|update| update["sessionUpdate"] != "user_message_chunk"),
        "session/resume does not repeat updates"
    );
    editor.select(&request, "proceed_once");
    let file = program.workspace().join("a.txt");
    crate::support::eventually("the file is written", || file.exists().then_some(()));
}

#[test]
fn sessions_are_listed_closed_and_deleted() {
    let program = Program::new();
    let (_running, mut editor, first) = program.begin(&[]);
    assert_eq!(editor.prompt(&first, "TEXT one"), "end_turn");
    let second = editor.open(&program.workspace());
    assert_eq!(editor.prompt(&second, "TEXT two"), "end_turn");
    let ids = |editor: &mut crate::editor::Editor, params: Value| -> Vec<String> {
        let answer = editor.ask("session/list", params);
        let sessions = answer["result"]["sessions"].as_array().unwrap_or_else(|| panic!("{answer}"));
        sessions.iter().map(|session| session["sessionId"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(&mut editor, json!({})), [second.clone(), first.clone()], "the newest session comes first");
    assert!(ids(&mut editor, json!({"cwd": "/nowhere"})).is_empty());
    let listed = editor.ask("session/list", json!({"cwd": program.workspace()}));
    assert_eq!(listed["result"]["sessions"][1]["title"], "TEXT one");
    // Closing stops the turn.
    let prompt = editor.say(&second, "TEXT half ++ HOLD");
    editor.update("agent_message_chunk");
    let close = editor.request("session/close", json!({"sessionId": second}));
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "cancelled");
    assert_eq!(editor.answer(close)["result"], json!({}));
    assert_eq!(editor.ask("session/prompt", json!({"sessionId": second, "prompt": []}))["error"]["code"], -32602);
    assert_eq!(editor.prompt(&second, "x")["error"]["code"], -32002);
    for session in [&first, &second] {
        // The session cannot be deleted before the stopped model request has ended.
        crate::support::eventually("the session is deleted", || {
            let answer = editor.ask("session/delete", json!({"sessionId": session}));
            (answer["result"] == json!({})).then_some(())
        });
    }
    assert!(ids(&mut editor, json!({})).is_empty());
    assert_eq!(editor.ask("session/delete", json!({"sessionId": first}))["error"]["code"], -32002);
}

#[test]
fn modes_and_models_are_chosen_from_a_list() {
    let program = Program::new();
    let flags = ["--allowed-model", "gemini-2.5-pro", "--allowed-model", "gemini-2.5-flash"];
    let (_running, mut editor, session) = program.begin(&flags);
    let set = |id: &str, value: &str| json!({"sessionId": session, "configId": id, "value": value});
    let answer = editor.ask("session/set_config_option", set("model", "gemini-2.5-flash"));
    assert_eq!(answer["result"]["configOptions"][1]["currentValue"], "gemini-2.5-flash", "{answer}");
    assert_eq!(editor.prompt(&session, "TEXT x"), "end_turn");
    assert!(program.fake.turns()[0].head.start.contains("gemini-2.5-flash"));
    let mode = json!({"sessionId": session, "modeId": "plan"});
    assert_eq!(editor.ask("session/set_mode", mode)["result"], json!({}));
    let updates = editor.updates(&session);
    assert!(updates.iter().any(|update| update["currentModeId"] == "plan"), "{updates:?}");
    for refused in [set("model", "gpt"), set("mode", "yolo"), set("mode", "x"), set("x", "y")] {
        assert_eq!(editor.ask("session/set_config_option", refused.clone())["error"]["code"], -32602, "{refused}");
    }
}

#[test]
fn the_editor_names_mcp_servers() {
    if !std::process::Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return;
    }
    let program = Program::new();
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    let heard = program.dir.path().join("heard");
    let servers = json!([{"name": "own", "command": "python3", "args": [script],
        "env": [{"name": "HEARD", "value": heard}]}]);
    let (mut running, mut editor) = program.start(&[]);
    let answer = editor.initialize(json!({}));
    assert_eq!(answer["result"]["agentCapabilities"]["mcpCapabilities"], json!({"http": true, "sse": true}));
    let answer = editor.ask("session/new", json!({"cwd": program.workspace(), "mcpServers": servers}));
    let session = answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    let call = r#"CALL mcp_own_echo {"text": "hello"}"#;
    let prompt = editor.say(&session, call);
    let request = editor.asked("session/request_permission");
    assert_eq!(request["params"]["toolCall"]["rawInput"], json!({"text": "hello"}));
    editor.select(&request, "proceed_once");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    editor.end();
    assert_eq!(running.status(), Some(0));
    // After a restart the editor names the servers again when it loads the session.
    let (_running, mut editor) = program.start(&[]);
    editor.initialize(json!({}));
    let params = json!({"sessionId": session, "cwd": program.workspace(), "mcpServers": servers});
    assert!(editor.ask("session/load", params)["result"].is_object());
    let prompt = editor.say(&session, call);
    let request = editor.asked("session/request_permission");
    editor.select(&request, "proceed_once");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    let heard = std::fs::read_to_string(heard).expect("what the server heard");
    assert_eq!(heard.matches("tools/call").count(), 2);
}

#[test]
fn wrong_requests_have_the_codes_of_the_protocol() {
    let program = Program::new();
    let (_running, mut editor) = program.start(&[]);
    assert_eq!(editor.ask("session/list", json!({}))["error"]["code"], -32600, "refused before initialize");
    assert_eq!(editor.initialize(json!({}))["result"]["protocolVersion"], 1);
    let new = |cwd: &str, servers: Value| json!({"cwd": cwd, "mcpServers": servers});
    let server = json!([{"name": "x"}]);
    let here = program.workspace().display().to_string();
    for (method, params, code) in [
        ("session/new", new("relative", json!([])), -32602),
        ("session/new", new("/", json!([])), -32602),
        ("session/new", new(&here, server), -32602),
        ("session/load", json!({"sessionId": "x", "cwd": "/", "mcpServers": []}), -32002),
        ("session/prompt", json!({"sessionId": "x", "prompt": [{"type": "text", "text": "x"}]}), -32002),
        ("authenticate", json!({"methodId": "x"}), -32601),
        ("fs/read_text_file", json!({}), -32601),
    ] {
        let answer = editor.ask(method, params);
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
    }
}

/// Lets the agent read a file and returns the status of the call.
fn read_status(editor: &mut crate::editor::Editor, session: &str, file: &std::path::Path) -> Value {
    editor.updates(session);
    assert_eq!(editor.prompt(session, &format!("READ {} ;; TEXT done", file.display())), "end_turn");
    let updates = editor.updates(session);
    updates.iter().rev().find_map(|update| update.get("status").cloned()).unwrap_or_else(|| panic!("{updates:?}"))
}

#[test]
fn directories_beside_the_workspace_are_for_the_session_that_names_them() {
    let program = Program::new();
    let beside = program.dir.folder("beside").canonicalize().expect("it exists");
    let file = beside.join("note.txt");
    std::fs::write(&file, "beside the workspace").expect("a file");
    let flags = ["--allowed-root", beside.to_str().expect("plain")];
    let (mut running, mut editor, plain) = program.begin(&flags);
    let params = |more: Value| {
        let mut params = json!({"cwd": program.workspace(), "mcpServers": []});
        params.as_object_mut().expect("members").extend(more.as_object().expect("members").clone());
        params
    };
    let answer = editor.ask("session/new", params(json!({"additionalDirectories": [beside]})));
    let session = answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    assert_eq!(read_status(&mut editor, &session, &file), "completed");
    let request = program.fake.turns()[0].body.to_string();
    assert!(request.contains(beside.to_str().expect("plain")), "the model is told of it: {request}");
    assert_eq!(read_status(&mut editor, &plain, &file), "failed");
    editor.end();
    assert_eq!(running.status(), Some(0));
    // Each request replaces the list of directories, also a request without a list.
    let (_running, mut editor) = program.start(&flags);
    editor.initialize(json!({}));
    let known = json!({"sessionId": session});
    assert!(editor.ask("session/resume", params(known.clone()))["result"].is_object());
    assert_eq!(read_status(&mut editor, &session, &file), "failed");
    let with = json!({"sessionId": session, "additionalDirectories": [beside]});
    assert!(editor.ask("session/load", params(with))["result"].is_object());
    assert_eq!(read_status(&mut editor, &session, &file), "completed");
}

#[test]
fn directories_that_may_not_be_used_are_refused_with_the_reason() {
    let program = Program::new();
    let (_running, mut editor) = program.start(&[]);
    let answer = editor.initialize(json!({}));
    let capabilities = &answer["result"]["agentCapabilities"]["sessionCapabilities"];
    assert_eq!(capabilities["additionalDirectories"], json!({}));
    let below = program.workspace().join("below");
    std::fs::create_dir(&below).expect("a directory");
    let too_many = vec![below.display().to_string(); 33];
    for (directories, why) in [
        (json!(["/"]), "--allowed-root"),
        (json!([below, "/"]), "--allowed-root"),
        (json!(["/no/such/directory"]), "/no/such/directory"),
        (json!(["relative"]), "absolute"),
        (json!(too_many), "more than 32"),
        (json!("x"), "additionalDirectories"),
    ] {
        let params = json!({"cwd": program.workspace(), "mcpServers": [], "additionalDirectories": directories});
        let error = &editor.ask("session/new", params)["error"];
        assert_eq!(error["code"], -32602, "{directories}: {error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(why)), "{directories}: {error}");
    }
    let allowed = vec![below; 32];
    let params = json!({"cwd": program.workspace(), "mcpServers": [], "additionalDirectories": allowed});
    assert!(editor.ask("session/new", params)["result"].is_object());
}

/// The error has the address of the server that has the task open, and names no file.
#[test]
fn a_session_that_another_process_has_is_not_opened() {
    let program = Program::new();
    let (running, mut editor, session) = program.begin(&["--a2a-port", "0"]);
    assert_eq!(editor.prompt(&session, "TEXT one"), "end_turn");
    let url = running.url();
    let (_second, mut other) = program.start(&[]);
    other.initialize(json!({}));
    for method in ["session/load", "session/resume"] {
        let params = json!({"sessionId": session, "cwd": program.workspace(), "mcpServers": []});
        let error = other.ask(method, params)["error"].clone();
        assert_eq!(error["code"], -32603, "{error}");
        let message = error["message"].as_str().expect("a text");
        assert!(message.contains(&url) && !message.contains(".jsonl") && !message.contains("tasks/"), "{message}");
    }
}

#[test]
fn a_withdrawn_request_is_answered_as_cancelled() {
    let program = Program::new();
    let (_running, mut editor, session) = program.begin(&[]);
    let first = editor.say(&session, "TEXT half ++ HOLD ++ TEXT never");
    editor.update("agent_message_chunk");
    let second = editor.say(&session, "TEXT queued");
    let take_back = |editor: &mut crate::editor::Editor, id: &Value| {
        editor.send(json!({"method": "$/cancel_request", "params": {"requestId": id}}));
    };
    // The same for a request of this client that waits.
    for unknown in [json!(999), json!("x"), Value::Null] {
        take_back(&mut editor, &unknown);
    }
    take_back(&mut editor, &json!(second));
    let answer = editor.answer(second);
    assert_eq!(answer["error"]["code"], -32800, "the prompt that waits: {answer}");
    take_back(&mut editor, &json!(first));
    let answer = editor.answer(first);
    assert_eq!(answer["error"]["code"], -32800, "the turn that runs: {answer}");
    program.fake.release();
    assert_eq!(editor.prompt(&session, "TEXT more"), "end_turn", "the session continues");
    let shown: Vec<Value> = editor.updates(&session);
    let has = |text: &str| shown.iter().any(|update| update["content"]["text"] == text);
    assert!(has("more") && !has("queued") && !has("never"), "{shown:?}");
}
