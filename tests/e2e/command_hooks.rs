//! Command hooks: what they may object to, what happens when they fail, and that they grant nothing.

use crate::agent::{outputs, put, refusal, request};
use crate::drive::{Fixture, task_in};
use crate::support::client::Event;
use crate::support::message::{approval, asked_of, call_of, prompt_in, state_of, text_of};
use crate::support::socket::Socket;
use crate::support::{TempDir, eventually};
use gemini_a2a::limits::{HOOK_TEXT_CHARS, HOOKS};
use serde_json::{Value, json};

/// The settings with one hook.
fn one(point: &str, matcher: &str, command: &str) -> Value {
    json!({ "hooks": { point: [{ "matcher": matcher, "hooks": [{ "name": "guard", "command": command }] }] } })
}

/// A server whose user has these settings.
fn server(home: &TempDir, settings: &Value, more: &[&str]) -> Fixture {
    put(&home.path().join(".gemini/settings.json"), &settings.to_string());
    Fixture::with(|setup| setup.env("HOME", home.path()).args(more))
}

const YOLO: &[&str] = &["--approval-mode", "yolo", "--trust-workspace"];

/// All texts of the events.
fn texts(events: &[Event]) -> String {
    events.iter().map(|event| text_of(event.result()) + "\n").collect()
}

#[test]
fn a_hook_before_a_tool_denies_with_its_errors_and_other_ends_are_notices() {
    let home = TempDir::new("home");
    for (command, closed, expected) in [
        ("echo keep out >&2; exit 2", false, Some("A hook denied this call: keep out")),
        ("echo oops >&2; exit 1", false, None),
        ("sleep 30", false, None),
        ("sleep 30", true, Some("it took longer than 300 ms")),
        ("exit 1", true, Some("it ended with 1")),
    ] {
        let mut settings = one("BeforeTool", "write", command);
        let hook = &mut settings["hooks"]["BeforeTool"][0]["hooks"][0];
        hook["timeout"] = if command.starts_with("sleep") { json!(300) } else { Value::Null };
        hook["failClosed"] = closed.into();
        let fixture = server(&home, &settings, YOLO);
        let events = fixture.say("WRITE a.txt hello ;; TEXT ok");
        match expected {
            Some(why) => {
                let refused = refusal(&events);
                assert_eq!(refused["errorType"], "policy_violation", "{command}");
                assert!(refused.to_string().contains(why), "{refused}");
                assert_eq!(fixture.file("a.txt"), None, "{command}");
            }
            None => {
                assert_eq!(fixture.file("a.txt").as_deref(), Some("hello"), "{command}");
                assert!(texts(&events).contains("The hook guard failed"), "{}", texts(&events));
            }
        }
        // The hook is only for `write_file`.
        fixture.say("SHELL touch b ;; TEXT ok");
        assert_eq!(fixture.file("b").as_deref(), Some(""));
    }
}

#[test]
fn rewritten_arguments_are_asked_about_and_a_hook_grants_nothing() {
    let home = TempDir::new("home");
    let rewrite = r#"echo '{"decision": "allow", "hookSpecificOutput": {"tool_input": {"file_path": "safe.txt"}}}'"#;
    let fixture = server(&home, &one("BeforeTool", "write_file", rewrite), &[]);
    let events = fixture.say("WRITE a.txt hello ;; TEXT ok");
    let asked = events.iter().find(|event| asked_of(event.result()).is_some()).expect("a question").result();
    let shown = call_of(asked).to_string();
    assert!(
        shown.contains("safe.txt") && !call_of(asked)["confirmationDetails"].to_string().contains("a.txt"),
        "{shown}"
    );
    let (task, call) = (task_in(&events), asked_of(asked).expect("a call").to_owned());
    let _ = fixture.client().stream("message/stream", approval(&task, &call, "proceed_once")).count();
    assert_eq!((fixture.file("safe.txt").as_deref(), fixture.file("a.txt")), (Some("hello"), None));

    // New arguments must fit the schema, and a hook may demand approval for a call that would need none.
    let wrong = r#"echo '{"hookSpecificOutput": {"tool_input": {"file_path": 7}}}'"#;
    let fixture = server(&home, &one("BeforeTool", "write_file", wrong), YOLO);
    assert_eq!(refusal(&fixture.say("WRITE a.txt hello"))["errorType"], "invalid_tool_params");
    let ask = r#"echo '{"decision": "ask"}'"#;
    let fixture = server(&home, &one("BeforeTool", "", ask), YOLO);
    let (_, calls) = fixture.ask("WRITE a.txt hello");
    assert_eq!((calls.len(), fixture.file("a.txt")), (1, None));
}

#[test]
fn hooks_of_a_project_never_run_before_they_are_allowed() {
    let home = TempDir::new("home");
    let fixture = server(&home, &json!({}), YOLO);
    let settings = one("BeforeTool", "", "touch ran");
    put(&fixture.server.workspace().join(".gemini/settings.json"), &settings.to_string());
    fixture.say("SHELL mkdir a ;; TEXT ok");
    assert_eq!(fixture.file("ran"), None);
    let allow = json!({ "command": "hooks allow", "args": ["guard"] });
    let refused = fixture.client().post("/executeCommand", &allow);
    assert!(refused.status() == 400 && refused.text().contains("not over the network"), "{}", refused.text());
    let mut socket = Socket::open(&fixture.server.url(), "/ws", Some("gemini-a2a.v1"));
    socket.send(&json!({ "id": 1, "call": { "execute": { "text": "/hooks allow all" } } }));
    let refused = socket.until(|frame| frame["id"] == 1);
    assert!(refused["error"]["message"].to_string().contains("not over the network"), "{refused}");
    fixture.say("SHELL mkdir b ;; TEXT ok");
    assert_eq!(fixture.file("ran"), None, "the hook is still not allowed");
    let list = fixture.client().post("/executeCommand", &json!({ "command": "hooks" })).json();
    assert_eq!(list["data"]["hooks"][0]["state"], "not allowed", "{list}");
    // As after `/hooks allow` in a terminal.
    let hash = gemini_a2a::task::log::blob::sha256(br#"["guard","touch ran"]"#);
    let workspace = fixture.server.workspace().canonicalize().expect("it is there");
    put(
        &home.path().join(".gemini/hooks-allowed.json"),
        &json!({ workspace.to_str().expect("plain"): [hash] }).to_string(),
    );
    fixture.say("SHELL mkdir c ;; TEXT ok");
    assert_eq!(fixture.file("ran").as_deref(), Some(""));
    // The settings of an untrusted workspace are not read.
    let fixture = server(&home, &json!({}), &[]);
    put(&fixture.server.workspace().join(".gemini/settings.json"), &settings.to_string());
    fixture.say("READ none.txt ;; TEXT ok");
    assert_eq!(fixture.file("ran"), None);
}

#[test]
fn hooks_get_their_input_and_add_to_prompts_and_results() {
    let home = TempDir::new("home");
    let log = home.path().join("log");
    let keep = |more: &str| {
        let command = format!("cat >> {0}; echo >> {0}; {more}", log.display());
        json!([{ "hooks": [{ "name": "keep", "command": command }] }])
    };
    let context = |text: &str| format!(r#"echo '{{"hookSpecificOutput": {{"additionalContext": "{text}"}}}}'"#);
    let settings = json!({ "hooks": {
        "SessionStart": keep(&context("Session rules.")), "BeforeAgent": keep(&context("Turn rules.")),
        "AfterTool": keep(&context("Checked.")), "AfterAgent": keep("true"), "Notification": keep("true"),
        "SessionEnd": keep("true"),
    }});
    let fixture = server(&home, &settings, &[]);
    put(&fixture.server.workspace().join("a.txt"), "one");
    let events = fixture.say("READ a.txt ;; WRITE b.txt x ;; TEXT done");
    let task = task_in(&events);
    let request = request(&fixture);
    assert!(
        request["contents"].to_string().contains("Session rules.")
            && request["contents"].to_string().contains("Turn rules.")
    );
    assert_eq!(outputs(&request), ["one\n\nChecked."]);
    let seen = || -> Vec<Value> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().filter(|line| !line.is_empty()).filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let names = || -> Vec<String> {
        seen().iter().map(|input| input["hook_event_name"].as_str().expect("a name").to_owned()).collect()
    };
    eventually("the question is told", || names().contains(&"Notification".to_owned()).then_some(()));
    fixture.client().call("tasks/cancel", json!({ "id": task }));
    eventually("the end is told", || names().contains(&"SessionEnd".to_owned()).then_some(()));
    assert_eq!(names(), ["SessionStart", "BeforeAgent", "AfterTool", "Notification", "SessionEnd"]);
    let inputs = seen();
    assert_eq!((&inputs[0]["source"], &inputs[0]["session_id"]), (&json!("startup"), &json!(task)));
    assert!(inputs[1]["prompt"].as_str().is_some_and(|prompt| prompt.starts_with("READ a.txt")), "{}", inputs[1]);
    assert_eq!(
        (&inputs[2]["tool_name"], &inputs[2]["tool_response"]["llmContent"]),
        (&json!("read_file"), &json!("one"))
    );
    assert_eq!((&inputs[3]["notification_type"], &inputs[4]["reason"]), (&json!("ToolPermission"), &json!("canceled")));
    let journal = inputs[0]["transcript_path"].as_str().expect("a path");
    assert!(std::fs::read_to_string(journal).expect("a journal").contains("\"hook_ran\""), "{journal}");
}

#[test]
fn a_hook_refuses_a_prompt_keeps_a_turn_going_and_ends_one() {
    let home = TempDir::new("home");
    let refuse = r#"grep -q secret && echo 'no secrets' >&2 && exit 2; exit 0"#;
    let fixture = server(&home, &one("BeforeAgent", "", refuse), &[]);
    let events = fixture.say("TEXT secret");
    let last = events.last().expect("an end").result();
    assert!(text_of(last).contains("A hook refused the prompt: no secrets"), "{last}");
    assert_eq!(fixture.fake.requests().len(), 0);
    fixture.say("TEXT fine");
    assert_eq!(fixture.fake.requests().len(), 1);

    let again = r#"echo '{"decision": "block", "reason": "TEXT once more"}'"#;
    let fixture = server(&home, &one("AfterAgent", "", again), &[]);
    let events = fixture.say("TEXT first");
    assert_eq!(fixture.fake.requests().len(), 4, "the hook continues the turn three times");
    assert_eq!(
        texts(&events).matches("once more\n").count(),
        3 + 4,
        "the answers of the model, and the prompt of the hook after each"
    );
    assert_eq!(state_of(events.last().expect("an end").result()), Some("input-required"));

    let stop = r#"echo '{"continue": false, "stopReason": "enough"}'"#;
    let fixture = server(&home, &one("AfterTool", "", stop), YOLO);
    let events = fixture.say("SHELL mkdir a ;; SHELL mkdir b ;; TEXT ok");
    assert!(fixture.server.workspace().join("a").is_dir() && !fixture.server.workspace().join("b").exists());
    let last = events.last().expect("an end").result();
    assert!(text_of(last).contains("A hook ended the turn: enough"), "{last}");

    // The answer is complete, so the end of the turn is no failure.
    let fixture = server(&home, &one("AfterAgent", "", stop), &[]);
    let events = fixture.say("TEXT done");
    assert_eq!(state_of(events.last().expect("an end").result()), Some("input-required"));
    assert!(texts(&events).contains("The hook guard ended the turn: enough"), "{}", texts(&events));
    assert!(!texts(&events).contains("A hook ended the turn"), "{}", texts(&events));
}

#[test]
fn a_hook_for_several_tools_misses_none_of_them() {
    let home = TempDir::new("home");
    let group = |matcher: &str| json!({ "matcher": matcher, "hooks": [{ "command": "echo x >> ran" }] });
    let settings = json!({ "hooks": { "BeforeTool": [group("write_file"), group("^grep_search$"), group("write")] } });
    let fixture = server(&home, &settings, YOLO);
    let count = || fixture.file("ran").unwrap_or_default().lines().count();
    fixture.say("WRITE a.txt hello ;; TEXT ok");
    assert_eq!(count(), 1, "the hook runs once per call");
    fixture.say(r#"CALL grep_search {"pattern": "hello"} ;; TEXT ok"#);
    assert_eq!(count(), 2);
    // The former name of the tool.
    fixture.say(r#"CALL search_file_content {"pattern": "hello"} ;; TEXT ok"#);
    assert_eq!(count(), 3);
}

#[test]
fn a_project_cannot_put_its_hook_in_the_place_of_the_administrators() {
    let home = TempDir::new("home");
    let settings = one("BeforeTool", "", "touch ran");
    let system = home.path().join("system.json");
    put(&system, &settings.to_string());
    let fixture = Fixture::with(|setup| {
        let setup = setup.env("HOME", home.path()).env("GEMINI_CLI_SYSTEM_SETTINGS_PATH", &system);
        setup.args(YOLO)
    });
    put(&fixture.server.workspace().join(".gemini/settings.json"), &settings.to_string());
    fixture.say("SHELL mkdir a ;; TEXT ok");
    assert_eq!(fixture.file("ran").as_deref(), Some(""));
}

#[test]
fn a_prompt_without_a_terminal_runs_hooks_and_shows_what_they_say() {
    let home = TempDir::new("home");
    let settings = one("BeforeTool", "write", "printf 'keep \\033[31mout' >&2; exit 2");
    let fixture = server(&home, &settings, &[]);
    let run = |format: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_gemini-a2a"))
            .args(["-p", "WRITE a.txt x ;; TEXT ok", "--yolo", "--trust-workspace", "-o", format])
            .current_dir(fixture.server.workspace())
            .env_clear()
            .env("HOME", home.path())
            .env("GEMINI_API_KEY", "fake")
            .env("GOOGLE_GEMINI_BASE_URL", fixture.fake.url())
            .output();
        let output = output.expect("it runs");
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"))
    };
    let [out, errors] = run("text");
    assert_eq!(out.trim(), "ok");
    assert!(errors.contains("The hook guard denied it: keep [31mout"), "without its escape: {errors:?}");
    let [out, _] = run("stream-json");
    assert!(out.contains("The hook guard denied it: keep [31mout"), "{out}");
    assert_eq!(fixture.file("a.txt"), None);
}

#[test]
fn hooks_of_extensions_get_its_settings_and_run_in_order() {
    let home = TempDir::new("home");
    let dir = home.path().join(".gemini/extensions/e");
    let manifest =
        r#"{"name": "e", "version": "1", "settings": [{"name": "Key", "envVar": "E_KEY", "sensitive": true}]}"#;
    put(&dir.join("gemini-extension.json"), manifest);
    put(&dir.join(".env"), "E_KEY=k3y\n");
    let hooks = json!({ "hooks": { "BeforeTool": [{ "matcher": "write", "sequential": true, "hooks": [
        { "name": "first", "command": r#"echo '{"hookSpecificOutput": {"tool_input": {"file_path": "one.txt"}}}'"# },
        { "name": "second", "command": "cat > $GEMINI_PROJECT_DIR/seen; echo $E_KEY ${extensionPath} >> seen" },
    ]}]}});
    put(&dir.join("hooks/hooks.json"), &hooks.to_string());
    let fixture = server(&home, &json!({}), YOLO);
    fixture.say("WRITE a.txt hello ;; TEXT ok");
    assert_eq!((fixture.file("one.txt").as_deref(), fixture.file("a.txt")), (Some("hello"), None));
    let seen = fixture.file("seen").expect("it was told");
    assert!(
        seen.contains("one.txt")
            && seen.contains(&format!("k3y {}", dir.canonicalize().expect("a directory").display())),
        "{seen}"
    );
    let journals = fixture.server.state_dir().join("tasks");
    for file in std::fs::read_dir(journals).expect("journals").flatten() {
        assert!(!std::fs::read_to_string(file.path()).expect("text").contains("k3y"), "no secret is in a journal");
    }
    // The user may switch hooks off.
    let off = json!({ "hooksConfig": { "disabled": ["first"] } });
    put(&home.path().join(".gemini/settings.json"), &off.to_string());
    fixture.say("WRITE b.txt hello ;; TEXT ok");
    assert_eq!(fixture.file("b.txt").as_deref(), Some("hello"));
}

#[test]
fn hooks_have_limits() {
    let home = TempDir::new("home");
    let hooks: Vec<Value> = (0..=HOOKS).map(|n| json!({ "command": format!("touch ran-{n}") })).collect();
    let settings = json!({ "hooks": {
        "BeforeTool": [{ "hooks": hooks }],
        "AfterTool": [{ "hooks": [{ "command": "head -c 3000000 /dev/zero | tr '\\0' x" }] }],
    }});
    let fixture = server(&home, &settings, YOLO);
    let events = fixture.say("SHELL mkdir a ;; TEXT ok");
    let ran = std::fs::read_dir(fixture.server.workspace()).expect("files").flatten();
    let ran = ran.filter(|file| file.file_name().to_string_lossy().starts_with("ran-")).count();
    assert_eq!(ran, HOOKS);
    let longest = events.iter().map(|event| text_of(event.result()).chars().count()).max();
    assert_eq!(longest, Some(HOOK_TEXT_CHARS), "a text of a hook is cut");
}

#[test]
fn a_hook_runs_before_a_conversation_is_summarised() {
    let home = TempDir::new("home");
    let log = home.path().join("log");
    let objects = format!("cat >> {}; echo 'Not now.' >&2; exit 2", log.display());
    let mut settings = one("PreCompress", "auto", &objects);
    let other = json!({ "matcher": "manual", "hooks": [{ "name": "other", "command": "touch manual" }] });
    settings["hooks"]["PreCompress"].as_array_mut().expect("a list").push(other);
    settings["model"] = json!({ "compressionThreshold": 0.00001 });
    let fixture = server(&home, &settings, YOLO);
    let task = task_in(&fixture.say("TEXT hello"));
    let prompt = prompt_in(&task, "TEXT again");
    let events: Vec<Event> = fixture.client().stream("message/stream", prompt).collect();
    let seen: Value = serde_json::from_str(&std::fs::read_to_string(&log).expect("it ran")).expect("one input");
    assert_eq!((&seen["hook_event_name"], &seen["trigger"]), (&json!("PreCompress"), &json!("auto")));
    assert_eq!(seen["session_id"], task);
    assert_eq!(fixture.file("manual"), None, "the hook is for another trigger");
    // The hook cannot prevent the summary; its message is shown.
    let requests = fixture.fake.requests();
    let summary = requests.iter().position(|request| request.verb() == "generateContent").expect("a summary");
    assert_eq!(summary, requests.len() - 2, "the hook runs before the next model request");
    assert!(requests[summary + 1].body["contents"].to_string().contains("what was said before"));
    assert!(texts(&events).contains("Not now."), "{}", texts(&events));
}

#[test]
fn a_hook_after_a_turn_hides_the_conversation() {
    let home = TempDir::new("home");
    let clears = r#"grep -q secret && echo '{"hookSpecificOutput": {"clearContext": true}}'"#;
    let mut fixture = server(&home, &one("AfterAgent", "", &format!("{clears}; exit 0")), YOLO);
    let task = task_in(&fixture.say("TEXT one"));
    let say = |fixture: &Fixture, script: &str| {
        fixture.client().stream("message/stream", prompt_in(&task, script)).for_each(drop);
        fixture.fake.turns().last().expect("a request").body["contents"].to_string()
    };
    assert!(
        say(&fixture, "TEXT a secret").contains("TEXT one"),
        "the conversation is not hidden before the turn has ended"
    );
    for script in ["TEXT three", "TEXT four"] {
        let request = say(&fixture, script);
        assert!(!request.contains("TEXT one") && !request.contains("secret"), "{request}");
        assert!(request.contains(script), "{request}");
        fixture.server.restart();
    }
    assert!(say(&fixture, "TEXT five").contains("TEXT three"), "the model gets what came later");
    assert!(fixture.task(&task).to_string().contains("TEXT one"), "clients still see the hidden part");
}
