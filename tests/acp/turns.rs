//! Prompts: permissions, ends of all kinds, questions of the agent, commands.

use crate::editor::{Editor, Program};
use crate::support::eventually;
use serde_json::{Value, json};

fn texts(updates: &[Value], kind: &str) -> String {
    let of_kind = updates.iter().filter(|update| update["sessionUpdate"] == kind);
    of_kind.filter_map(|update| update["content"]["text"].as_str()).collect()
}

#[test]
fn an_edit_is_asked_about_with_its_diff_and_shown_when_it_is_done() {
    let program = Program::new();
    let (_running, mut editor, session) = program.begin(&[]);
    let prompt = editor.say(&session, "WRITE a.txt hello ;; TEXT Written.");
    let request = editor.asked("session/request_permission");
    let file = program.workspace().join("a.txt");
    assert!(!file.exists(), "nothing is written before it is allowed");
    let call = &request["params"]["toolCall"];
    assert_eq!(call["content"][0]["type"], "diff");
    assert_eq!(call["content"][0]["path"], json!(file));
    assert_eq!(call["content"][0]["oldText"], Value::Null);
    let announced = &editor.updates(&session)[..];
    assert_eq!(announced[0]["sessionUpdate"], "tool_call", "{announced:?}");
    assert_eq!((&announced[0]["kind"], &announced[0]["toolCallId"]), (&json!("edit"), &call["toolCallId"]));
    editor.select(&request, "proceed_once");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    let updates = editor.updates(&session);
    let words: Vec<&str> = updates.iter().filter_map(|update| update["status"].as_str()).collect();
    assert_eq!(words, ["in_progress", "completed"]);
    assert_eq!(texts(&updates, "agent_message_chunk"), "Written.");
    assert!(texts(&updates, "user_message_chunk").is_empty(), "a client does not get its own prompt back");
    assert!(updates.iter().any(|update| update["sessionUpdate"] == "usage_update"), "{updates:?}");
    assert_eq!(std::fs::read_to_string(file).expect("the file"), "hello");
}

#[test]
fn a_refused_call_and_one_that_is_always_allowed() {
    let program = Program::new();
    let (_running, mut editor, session) = program.begin(&[]);
    let prompt = editor.say(&session, "SHELL echo one > a");
    let request = editor.asked("session/request_permission");
    editor.select(&request, "cancel");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    let prompt = editor.say(&session, "SHELL touch b ;; SHELL touch c");
    let request = editor.asked("session/request_permission");
    editor.select(&request, "proceed_always");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn", "the second call needs no approval");
    assert!(!program.workspace().join("a").exists() && program.workspace().join("c").exists());
}

#[test]
fn a_prompt_can_be_cancelled_in_every_phase() {
    let program = Program::new();
    let (_running, mut editor, session) = program.begin(&[]);
    let ends = |editor: &mut Editor, prompt| assert_eq!(editor.answer(prompt)["result"]["stopReason"], "cancelled");
    // While the model answers.
    let prompt = editor.say(&session, "TEXT half ++ HOLD ++ TEXT whole");
    editor.update("agent_message_chunk");
    // A second prompt is queued, and is cancelled too.
    let queued = editor.say(&session, "TEXT never");
    editor.cancel(&session);
    ends(&mut editor, prompt);
    ends(&mut editor, queued);
    program.fake.release();
    // While a call waits for permission. The request is withdrawn, and a later answer to it has no effect.
    let prompt = editor.say(&session, "WRITE a.txt hello");
    let request = editor.asked("session/request_permission");
    editor.cancel(&session);
    let withdrawn = editor.asked("$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], request["id"]);
    ends(&mut editor, prompt);
    editor.select(&request, "proceed_once");
    // While a tool runs.
    let prompt = editor.say(&session, "SHELL touch begun; sleep 600");
    let request = editor.asked("session/request_permission");
    editor.select(&request, "proceed_once");
    eventually("the command has begun", || program.workspace().join("begun").exists().then_some(()));
    editor.cancel(&session);
    ends(&mut editor, prompt);
    // While the agent waits before it repeats a model request.
    let (_patient, mut other) = program.start(&["--retry-wait", "30s"]);
    other.initialize(json!({"session": {"notices": {}}}));
    let waiting = other.open(&program.workspace());
    let prompt = other.say(&waiting, "ERR503 9 ++ TEXT never");
    other.update("notice");
    other.cancel(&waiting);
    ends(&mut other, prompt);
    assert_eq!(other.prompt(&waiting, "TEXT again"), "end_turn");
    // Without a running turn a cancellation has no effect, and the session continues.
    editor.cancel(&session);
    assert_eq!(editor.prompt(&session, "TEXT still here"), "end_turn");
    assert!(!program.workspace().join("a.txt").exists());
}

#[test]
fn a_model_that_fails_is_an_error_with_its_reason() {
    let program = Program::new();
    let (_running, mut editor, session) = program.begin(&[]);
    let answer = editor.prompt(&session, "ERR400 9");
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.len() > 10), "{answer}");
    assert_eq!(editor.prompt(&session, "FINISH MAX_TOKENS"), "max_tokens");
    assert_eq!(editor.prompt(&session, "FINISH SAFETY"), "refusal");
    let settings = program.dir.folder("home/.gemini").join("settings.json");
    std::fs::write(settings, r#"{"model": {"maxSessionTurns": 1}}"#).expect("a file");
    let (_running, mut editor, session) = program.begin(&[]);
    assert_eq!(editor.prompt(&session, "READ a ;; TEXT x"), "max_turn_requests");
}

const QUESTIONS: &str = r#"CALL ask_user {"questions": [{"question": "Which?", "header": "Which", "type": "choice",
    "options": [{"label": "red", "description": "r"}, {"label": "green", "description": "g"}]}"#;

#[test]
fn the_agents_questions_are_forms_or_choices() {
    let program = Program::new();
    let one = format!("{}]}}", QUESTIONS.replace('\n', " "));
    let two =
        format!(r#"{}, {{"question": "Why?", "header": "Why", "type": "text"}}]}}"#, QUESTIONS.replace('\n', " "));
    let results = |program: &Program| program.fake.turns().last().expect("a request").body.to_string();
    let (_running, mut editor) = program.start(&[]);
    editor.initialize(json!({"elicitation": {"form": {}}}));
    let session = editor.open(&program.workspace());
    let prompt = editor.say(&session, &two);
    let request = editor.asked("elicitation/create");
    assert_eq!(request["params"]["requestedSchema"]["properties"]["1"]["type"], "string", "{request}");
    let content = json!({"0": "green", "1": "because"});
    editor.send(json!({"id": request["id"], "result": {"action": "accept", "content": content}}));
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(results(&program).contains("because"), "{}", results(&program));
    // Without forms one question with choices becomes a permission request. Other questions fail at once.
    let (_running, mut editor, session) = program.begin(&[]);
    let prompt = editor.say(&session, &one);
    let request = editor.asked("session/request_permission");
    editor.select(&request, "1");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(results(&program).contains("green"));
    assert_eq!(editor.prompt(&session, &two), "end_turn");
    let updates = editor.updates(&session);
    assert!(updates.iter().any(|update| update["status"] == "failed"), "{updates:?}");
}

#[test]
fn slash_commands_answer_in_the_session() {
    let program = Program::new();
    let (_running, mut editor, session) = program.begin(&[]);
    assert_eq!(editor.prompt(&session, "/help"), "end_turn");
    assert!(texts(&editor.updates(&session), "agent_message_chunk").contains("/memory show"));
    assert_eq!(program.fake.turns().len(), 0, "there is no model request");
    // A command that starts a turn of the model, whose calls are asked about.
    let commands = program.workspace().join(".gemini/commands");
    std::fs::create_dir_all(&commands).expect("a folder");
    std::fs::write(commands.join("go.toml"), "prompt = \"WRITE {{args}} x\"").expect("a file");
    let (_running, mut editor, session) = program.begin(&["--trust-workspace"]);
    let prompt = editor.say(&session, "/go b.txt");
    let request = editor.asked("session/request_permission");
    assert_eq!(request["params"]["sessionId"], json!(session));
    editor.select(&request, "proceed_once");
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert!(program.workspace().join("b.txt").exists());
    let prompt = editor.say(&session, "/go c.txt");
    editor.asked("session/request_permission");
    editor.cancel(&session);
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "cancelled");
    // An unknown command goes to the model.
    assert_eq!(editor.prompt(&session, "/nothing\nTEXT said"), "end_turn");
    assert!(texts(&editor.updates(&session), "agent_message_chunk").contains("said"));
}

#[test]
fn a_typed_undo_restores_files() {
    let program = Program::new();
    let (old, new) = (program.workspace().join("old.txt"), program.workspace().join("new.txt"));
    std::fs::write(&old, b"one\r\ntwo\xff\r\n").expect("a file");
    let (_running, mut editor, session) = program.begin(&["--trust-workspace", "--yolo"]);
    assert_eq!(editor.prompt(&session, "TEXT hello"), "end_turn");
    assert_eq!(editor.prompt(&session, "WRITE old.txt three ++ WRITE new.txt four ;; TEXT done"), "end_turn");
    let texts_now = || [&old, &new].map(|file| std::fs::read(file).ok());
    let written = [Some(b"three".to_vec()), Some(b"four".to_vec())];
    let before = [Some(b"one\r\ntwo\xff\r\n".to_vec()), None];
    assert_eq!(texts_now(), written);
    editor.updates(&session);
    for (command, expected) in [("/undo", &before), ("/redo", &written), ("/undo 1 --files", &before)] {
        assert_eq!(editor.prompt(&session, command), "end_turn");
        let answer = texts(&editor.updates(&session), "agent_message_chunk");
        assert!(answer.contains("old.txt") && answer.contains("new.txt"), "{command}: {answer}");
        assert_eq!(&texts_now(), expected, "{command}: {answer}");
    }
    assert_eq!(program.fake.turns().len(), 3, "the commands make no model requests");
}

#[test]
fn files_and_images_of_a_prompt_reach_the_model() {
    let program = Program::new();
    std::fs::write(program.workspace().join("a b.txt"), "the linked words").expect("a file");
    let (_running, mut editor, session) = program.begin(&[]);
    let uri = format!("file://{}/a%20b.txt", program.workspace().display());
    let blocks = json!([
        {"type": "text", "text": "look at"}, {"type": "resource_link", "name": "a b.txt", "uri": uri},
        {"type": "resource", "resource": {"uri": "file:///elsewhere", "text": "the embedded words"}},
        {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}]);
    let answer = editor.ask("session/prompt", json!({"sessionId": session, "prompt": blocks}));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let sent = program.fake.turns()[0].body.to_string();
    for words in ["the linked words", "the embedded words", "iVBORw0KGgo="] {
        assert!(sent.contains(words), "{words}: {sent}");
    }
}
