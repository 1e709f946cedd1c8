//! Skills: in the model's instructions, activated with approval, readable and not writable, also after restarts and summaries.

use crate::agent::{declared, instruction, outputs, put, refusal, request};
use crate::drive::{Fixture, task_in};
use crate::support::TempDir;
use crate::support::client::Event;
use crate::support::message::{approval, asked_of, call_of, prompt_in};
use serde_json::{Value, json};

const SKILL: &str = "---\nname: pdf\ndescription: Use when: a form is there\n---\nFill every field.\n";

/// Prompts a task and watches the turn.
fn say(fixture: &Fixture, task: &str, script: &str) -> Vec<Event> {
    fixture.client().stream("message/stream", prompt_in(task, script)).collect()
}

fn activation(name: &str) -> String {
    format!("CALL activate_skill {}", json!({ "name": name }))
}

#[test]
fn a_skill_is_activated_with_approval_and_can_be_read_and_not_written() {
    let home = TempDir::new("home");
    let dir = home.path().canonicalize().expect("a directory").join(".gemini/skills/pdf");
    put(&dir.join("SKILL.md"), SKILL);
    put(&dir.join("notes/fields.md"), "Name, date.");
    let mut fixture = Fixture::with(|setup| setup.env("HOME", home.path()));
    let fields = dir.join("notes/fields.md").display().to_string();
    let before = fixture.say(&format!("READ {fields}"));
    assert_eq!(refusal(&before)["errorType"], "path_not_in_workspace");
    let first = request(&fixture);
    assert!(declared(&first).contains(&"activate_skill"));
    assert!(instruction(&first).contains("- pdf: Use when: a form is there\n"), "{}", instruction(&first));
    assert!(!instruction(&first).contains("Fill every field."));

    let script = format!("{} ;; READ {fields} ;; WRITE {fields} x ;; TEXT ok", activation("pdf"));
    let events = fixture.say(&script);
    let asked = events.iter().find(|event| asked_of(event.result()).is_some()).expect("a question").result();
    let question = call_of(asked)["confirmationDetails"].to_string();
    assert!(question.contains("Use when: a form is there") && question.contains("notes/fields.md"), "{question}");
    let (task, call) = (task_in(&events), asked_of(asked).expect("a call").to_owned());
    let answer = approval(&task, &call, "proceed_once");
    let events: Vec<Event> = fixture.client().stream("message/stream", answer).collect();
    let results = outputs(&request(&fixture));
    assert!(results[0].contains("<activated_skill name=\"pdf\">") && results[0].contains("Fill every field."));
    assert_eq!(results[1], "Name, date.");
    assert_eq!(refusal(&events)["errorType"], "path_not_in_workspace", "files of a skill cannot be written");
    // Another task has not activated it.
    assert_eq!(refusal(&fixture.say(&format!("READ {fields}")))["errorType"], "path_not_in_workspace");

    fixture.server.kill9();
    fixture.server.restart();
    say(&fixture, &task, &format!("READ {fields} ;; TEXT ok"));
    assert_eq!(outputs(&request(&fixture)).last().map(String::as_str), Some("Name, date."), "also after a restart");
    // A directory that replaces the skill's directory is not the skill.
    let (elsewhere, moved) = (TempDir::new("elsewhere"), dir.with_file_name("moved"));
    put(&elsewhere.path().join("secret"), "x");
    std::fs::rename(&dir, &moved).expect("it is ours");
    std::os::unix::fs::symlink(elsewhere.path(), &dir).expect("it is ours");
    let secret = elsewhere.path().canonicalize().expect("it is there").join("secret");
    for path in [secret, dir.join("secret")] {
        let refused = say(&fixture, &task, &format!("READ {} ;; TEXT ok", path.display()));
        assert_eq!(refusal(&refused)["errorType"], "path_not_in_workspace");
    }
    std::fs::remove_file(&dir).expect("it is ours");
    std::fs::rename(&moved, &dir).expect("it is ours");
    let wrong = say(&fixture, &task, &activation("doc"));
    assert_eq!(refusal(&wrong)["errorType"], "invalid_tool_params");
}

#[test]
fn an_activated_skill_is_sent_again_after_a_summary() {
    let home = TempDir::new("home");
    put(&home.path().join(".agents/skills/pdf/SKILL.md"), SKILL);
    let fixture =
        Fixture::with(|setup| setup.env("HOME", home.path()).args(["--approval-mode", "yolo", "--trust-workspace"]));
    let events = fixture.say(&format!("{} ;; TEXT ok", activation("pdf")));
    let task = task_in(&events);
    let long = |script: &str| format!("{script}\n{}", "word ".repeat(600_000));
    say(&fixture, &task, &long("TEXT ok"));
    say(&fixture, &task, &long("TEXT ok"));
    let request = request(&fixture);
    assert!(request["contents"].to_string().contains("<state_snapshot>"), "the conversation was summarised");
    assert!(instruction(&request).contains("Fill every field."), "{}", instruction(&request));
}

#[test]
fn without_skills_there_is_no_such_tool() {
    let fixture = Fixture::new();
    // The workspace is not trusted.
    put(&fixture.server.workspace().join(".gemini/skills/pdf/SKILL.md"), SKILL);
    let events = fixture.say(&activation("pdf"));
    assert!(!declared(&request(&fixture)).contains(&"activate_skill"));
    assert!(!instruction(&request(&fixture)).contains("# Skills"));
    assert_eq!(refusal(&events)["errorType"], "invalid_tool_params");
    let list = fixture.client().post("/executeCommand", &json!({ "command": "skills" })).json();
    assert_eq!(list["data"]["skills"], Value::Array(vec![]), "{list}");
}
