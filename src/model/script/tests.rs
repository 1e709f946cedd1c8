//! Tests of the parser of scripts and of their outputs.

use super::*;
use crate::model::gemini;
use crate::task::machine::job::ModelErrorKind;
use crate::task::message::Role;

fn message(id: &str, text: &str) -> Message {
    Message::new(id, Role::User, vec![Part::text(text)])
}

fn think(text: &str) -> Think {
    Think { prompt: message("id-1", text).into(), ..gemini::tests::think("m") }
}

fn script(file: Value) -> Script {
    Script::parse(&file.to_string()).unwrap()
}

fn steps_of(steps: Value) -> Script {
    script(json!({"default": steps}))
}

fn said(text: &str) -> ScriptOutput {
    ScriptOutput::Note(NoteBody::Text(text.into()))
}

fn answered(text: &str, calls: &[(&str, Value)], verdict: Option<Outcome>) -> ScriptOutput {
    let calls = calls.iter().map(|(name, args)| Request {
        call: "".into(),
        name: (*name).into(),
        args: args.clone(),
        api_id: None,
    });
    ScriptOutput::Note(NoteBody::Answered(Ok(Answer { verdict, ..Answer::new(text, calls) })))
}

/// The text of the answer to a prompt.
fn reply(script: &Script, think: &Think) -> String {
    match script.outputs(think).pop() {
        Some(ScriptOutput::Note(NoteBody::Answered(Ok(answer)))) => answer.text(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_rule_whose_members_all_match_wins() {
    let script = script(json!({
        "rules": [
            {"when": {"messageId": "tck-*", "text": "*"}, "steps": [{"text": "tck"}]},
            {"when": {"text": "bye", "turn": 2}, "steps": [{"text": "second"}]},
            {"when": {"text": "*[Ww]rite?"}, "steps": [{"text": "write"}]},
            {"when": {"text": "*rite*"}, "steps": [{"text": "never before write"}]},
        ],
        "default": [{"text": "default"}],
    }));
    let ask = |prompt: &str, text: &str, turn: u32| {
        let think = Think { prompt: message(prompt, text).into(), turn, ..think(text) };
        reply(&script, &think)
    };
    assert_eq!(ask("tck-artifact-1", "bye", 2), "tck");
    assert_eq!(ask("x", "bye", 2), "second");
    assert_eq!(ask("x", "bye", 1), "default");
    assert_eq!(ask("x", "please Write!", 1), "write");
    assert_eq!(ask("x", "please write", 1), "never before write");
    assert_eq!(ask("x", "", 1), "default");
    let before = |blanks: usize| format!("{}write", " ".repeat(blanks));
    assert_eq!(ask("x", &before(COMPARED_BYTES - 5), 1), "never before write");
    assert_eq!(ask("x", &before(COMPARED_BYTES - 4), 1), "default", "that is too far");
}

#[test]
fn calls_in_a_row_end_a_round() {
    let script = steps_of(json!([
        {"thought": ["subject", "description"]},
        {"text": "abcdé", "chunks": 3},
        {"wait_ms": 5},
        {"text": "!"},
        {"call": "glob", "args": {"pattern": "*"}},
        {"call": "read_file"},
        {"text": "between"},
        {"call": "glob"},
        {"complete": "done"},
    ]));
    let outputs = |round: u32| script.outputs(&Think { round, ..think("") });
    assert_eq!(
        outputs(0),
        vec![
            ScriptOutput::Note(NoteBody::Thought { subject: "subject".into(), description: "description".into() }),
            said("a"),
            said("bc"),
            said("dé"),
            ScriptOutput::Wait { ms: 5 },
            said("!"),
            answered("abcdé!", &[("glob", json!({"pattern": "*"})), ("read_file", json!({}))], None),
        ]
    );
    assert_eq!(outputs(1), vec![said("between"), answered("between", &[("glob", json!({}))], None)]);
    let done = Some(Outcome::Complete("done".into()));
    assert_eq!(outputs(2), vec![answered("", &[], done)]);
    assert_eq!(outputs(3), vec![answered("", &[], None)]);
}

#[test]
fn a_script_may_end_with_calls_or_be_empty() {
    let script = steps_of(json!([{"call": "glob"}]));
    let after = script.outputs(&Think { round: 1, ..think("") });
    assert_eq!(after, vec![answered("", &[], None)]);
    let empty = Script::parse("{}").unwrap();
    assert_eq!(empty.outputs(&think("")), vec![answered("", &[], None)]);
}

#[test]
fn a_step_may_end_the_turn() {
    let table = [
        (json!({"ask": "which?"}), Outcome::Ask("which?".into())),
        (json!({"complete": "ok"}), Outcome::Complete("ok".into())),
        (json!({"fail": "no"}), Outcome::Fail("no".into())),
        (json!({"reject": "never"}), Outcome::Reject("never".into())),
        (json!({"auth": "who?"}), Outcome::Auth("who?".into())),
    ];
    for (step, outcome) in table {
        assert_eq!(steps_of(json!([step])).outputs(&think("")), vec![answered("", &[], Some(outcome))]);
    }
}

#[test]
fn artifacts_come_whole_or_in_pieces() {
    let produced = |content: Content, append: bool, last: bool| {
        ScriptOutput::Note(NoteBody::Produced {
            artifact: Artifact {
                id: "a".into(),
                name: Some("n".into()),
                description: None,
                parts: vec![Part { content, filename: None, media_type: Some("text/plain".into()), metadata: None }],
            },
            append,
            last,
        })
    };
    let outputs = |member: &str, value: Value, chunks: Option<u64>| {
        let mut artifact = json!({"id": "a", "name": "n", "mediaType": "text/plain"});
        artifact[member] = value;
        if let Some(chunks) = chunks {
            artifact["chunks"] = chunks.into();
        }
        let mut outputs = steps_of(json!([{"artifact": artifact}])).outputs(&think(""));
        assert_eq!(outputs.pop(), Some(answered("", &[], None)));
        outputs
    };
    let text = |text: &str| Content::Text(text.into());
    let bytes = |data: &str| Content::Bytes(data.into());
    assert_eq!(
        outputs("text", json!("one two"), Some(2)),
        vec![produced(text("one"), false, false), produced(text(" two"), true, true)]
    );
    assert_eq!(outputs("text", json!(""), Some(2)), vec![produced(text(""), false, true)]);
    assert_eq!(
        outputs("bytes", json!("aGVsbG8="), Some(2)),
        vec![produced(bytes("aGU="), false, false), produced(bytes("bGxv"), true, true)]
    );
    assert_eq!(outputs("bytes", json!("aGVsbG8="), None), vec![produced(bytes("aGVsbG8="), false, true)]);
    assert_eq!(outputs("url", json!("https://x"), None), vec![produced(Content::Uri("https://x".into()), false, true)]);
    assert_eq!(outputs("data", json!({"k": 1}), None), vec![produced(Content::Data(json!({"k": 1})), false, true)]);
}

#[test]
fn pieces_of_an_artifact_may_differ_in_kind() {
    let script = steps_of(json!([{"artifact": {"id": "a", "pieces": [
        {"text": "chunk-1 "},
        {"url": "https://x", "filename": "x", "mediaType": "text/plain"},
        {"data": [1]},
    ]}}]));
    let part = |content: Content| Part { content, filename: None, media_type: None, metadata: None };
    let file = Part {
        filename: Some("x".into()),
        media_type: Some("text/plain".into()),
        ..part(Content::Uri("https://x".into()))
    };
    let produced = |part: Part, append: bool, last: bool| {
        ScriptOutput::Note(NoteBody::Produced {
            artifact: Artifact { id: "a".into(), name: None, description: None, parts: vec![part] },
            append,
            last,
        })
    };
    assert_eq!(
        script.outputs(&think("")),
        vec![
            produced(part(Content::Text("chunk-1 ".into())), false, false),
            produced(file, true, false),
            produced(part(Content::Data(json!([1]))), true, true),
            answered("", &[], None),
        ]
    );
}

#[test]
fn errors_fail_the_first_attempts_of_their_round() {
    let script = steps_of(json!([
        {"error": {"code": 503, "times": 2}},
        {"text": "a"},
        {"error": {"code": 500}},
        {"call": "glob"},
        {"error": {"code": 401}},
    ]));
    let outputs = |round: u32, attempt: u32| {
        let outputs = script.outputs(&Think { round, attempt, ..think("") });
        match outputs.last() {
            Some(ScriptOutput::Note(NoteBody::Answered(Err(error)))) => Some(error.kind),
            Some(ScriptOutput::Note(NoteBody::Answered(Ok(_)))) => None,
            other => panic!("{other:?}"),
        }
    };
    let busy = Some(ModelErrorKind::Busy { after_ms: None });
    assert_eq!(outputs(0, 1), busy);
    assert_eq!(outputs(0, 2), busy);
    assert_eq!(outputs(0, 3), Some(ModelErrorKind::BadStream));
    assert_eq!(outputs(0, 4), None);
    assert_eq!(outputs(1, 1), Some(ModelErrorKind::Fatal));
    assert_eq!(outputs(1, 2), None);
}

#[test]
fn a_rule_that_begins_with_a_message_answers_without_a_task() {
    let script = script(json!({
        "rules": [
            {"when": {"messageId": "bare-*"}, "steps": [{"message": "no task needed"}]},
            {"when": {"messageId": "late-*"}, "steps": [{"text": "a"}, {"message": "b"}]},
        ],
    }));
    let bare = script.bare_reply(&message("bare-1", "hi"));
    assert_eq!(bare.as_deref(), Some("no task needed"));
    assert_eq!(script.bare_reply(&message("late-1", "hi")), None);
    assert_eq!(script.bare_reply(&message("other", "hi")), None);
    let think = Think { prompt: message("bare-1", "").into(), ..think("") };
    assert_eq!(reply(&script, &think), "no task needed");
}

#[test]
fn errors_of_a_script_name_their_place() {
    let table = [
        ("[]", "the script must be an object."),
        (r#"{"rule":[]}"#, "the script: \"rule\" is not known here. Check its spelling."),
        (r#"{"rules":{}}"#, "the script: rules must be a list."),
        (r#"{"rules":[{},{"when":{"turn":"x"}}]}"#, "rule 2, when: turn must be a whole number that fits."),
        (r#"{"rules":[{"when":{"txt":"x"}}]}"#, "rule 1, when: \"txt\" is not known here. Check its spelling."),
        (
            r#"{"default":[{"text":"a"},{"txt":"a"}]}"#,
            "default, step 2: a step has exactly one of text, thought, call, artifact, wait_ms, ask, message, complete, fail, reject, auth, error, this one has 0.",
        ),
        (r#"{"default":[{"text":"a","chunks":0}]}"#, "default, step 1: chunks must be at least 1."),
        (r#"{"default":[{"text":7}]}"#, "default, step 1: text must be a string."),
        (r#"{"default":[{"thought":"a"}]}"#, "default, step 1: thought must be [\"subject\", \"description\"]."),
        (r#"{"default":[{"call":"a","args":[]}]}"#, "default, step 1: args must be an object."),
        (r#"{"default":[{"call":"a","arg":{}}]}"#, "default, step 1: \"arg\" is not known here. Check its spelling."),
        (
            r#"{"rules":[{"steps":[{"artifact":{"id":"a"}}]}]}"#,
            "rule 1, step 1, artifact: exactly one of text, bytes, url and data is needed.",
        ),
        (r#"{"default":[{"artifact":{"text":"a"}}]}"#, "default, step 1, artifact: id is missing."),
        (r#"{"default":[{"artifact":{"id":"a","bytes":"?"}}]}"#, "default, step 1, artifact: bytes must be base64: "),
        (
            r#"{"default":[{"artifact":{"id":"a","data":1,"chunks":2}}]}"#,
            "default, step 1, artifact: only text and bytes can be cut into chunks; list the pieces instead.",
        ),
        (
            r#"{"default":[{"artifact":{"id":"a","text":"t","pieces":[{"text":"t"}]}}]}"#,
            "default, step 1, artifact: \"text\" is not known here.",
        ),
        (
            r#"{"default":[{"artifact":{"id":"a","pieces":[{"text":"t"},{"bytes":"?"}]}}]}"#,
            "default, step 1, artifact, piece 2: bytes must be base64: ",
        ),
        (r#"{"default":[{"wait_ms":-1}]}"#, "default, step 1: wait_ms must be a whole number that fits."),
        (r#"{"default":[{"error":{"code":200}}]}"#, "default, step 1: error needs a code from 400 to 599"),
        (r#"{"default":[{"ask":"a"},{"text":"b"}]}"#, "default, step 2: the step before it ends the turn"),
    ];
    for (file, message) in table {
        let error = Script::parse(file).unwrap_err();
        assert!(error.starts_with(message), "{file}: {error}");
    }
    assert!(Script::parse("{").unwrap_err().starts_with("The script cannot be read as JSON: "));
}

#[test]
fn the_demo_greets_writes_and_runs() {
    let demo = Script::parse(DEMO).unwrap();
    assert!(reply(&demo, &think("hi")).contains("GEMINI_API_KEY"));
    let calls = |text: &str| match demo.outputs(&think(text)).pop() {
        Some(ScriptOutput::Note(NoteBody::Answered(Ok(answer)))) => answer.calls().cloned().collect::<Vec<Request>>(),
        other => panic!("{other:?}"),
    };
    let names = |text: &str| -> Vec<String> { calls(text).into_iter().map(|call| call.name).collect() };
    assert_eq!(names("Write a file"), ["write_file"]);
    assert_eq!(calls("write")[0].args["file_path"], "hello.txt");
    assert_eq!(names("run something"), ["run_shell_command"]);
    assert_eq!(names("use the shell"), ["run_shell_command"]);
    let later = Think { turn: 2, ..think("what?") };
    assert!(reply(&demo, &later).contains("only the demo"));
    let closing = Think { round: 1, ..think("write") };
    assert!(!reply(&demo, &closing).is_empty());
}
