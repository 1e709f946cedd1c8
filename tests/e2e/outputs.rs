//! The output of calls for the model and for clients, also output that is too long for a result.

use crate::drive::{EXTENSION, Fixture};
use crate::support::client::Event;
use crate::support::eventually;
use crate::support::message::{approval, prompt, prompt_in};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The result of the last call in the last model request.
fn last_result(fixture: &Fixture) -> String {
    let turns = fixture.fake.turns();
    let contents = turns.last().expect("a request").body["contents"].as_array().cloned().unwrap_or_default();
    let parts = contents.last().map(|content| content["parts"].clone()).unwrap_or_default();
    let part = parts.as_array().into_iter().flatten().find(|part| part["functionResponse"].is_object());
    let output = part.map(|part| part["functionResponse"]["response"]["output"].clone()).unwrap_or_default();
    output.as_str().expect("a result").to_owned()
}

#[test]
fn long_output_is_kept_until_its_task_is_deleted_and_the_model_reads_on() {
    let mut fixture = Fixture::with(|setup| setup.args(["--retention", "1s"]));
    let (task, calls) = fixture.ask("SHELL for n in $(seq 1 20000); do echo line $n; done");
    let done = fixture.client().call("message/send", approval(&task, &calls[0], "proceed_once"));
    assert_eq!(done["status"]["state"], "input-required");
    let result = last_result(&fixture);
    assert!(result.contains(" characters left out ...]") && result.chars().count() < 41_000, "{result}");
    let (_, rest) = result.split_once("\nAll of it is in ").expect("where it is");
    let (path, rest) =
        rest.split_once(" (20000 lines). Read on with read_file from start_line ").expect("how long it is");
    let line: u64 = rest.split(',').next().and_then(|number| number.parse().ok()).expect("where to read on");
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    let (file, dir) = (Path::new(path), Path::new(path).parent().expect("a directory"));
    assert_eq!((mode(file), mode(dir), mode(dir.parent().expect("a directory"))), (0o600, 0o700, 0o700));

    fixture.server.kill9();
    fixture.server.restart();
    let read = |args: Value| {
        fixture.client().call("message/send", prompt_in(&task, &format!("CALL read_file {args}")));
        last_result(&fixture)
    };
    let shown = read(json!({ "file_path": path, "start_line": line, "end_line": line + 1 }));
    let expected = format!("[Lines {line}-{} of 20000 are shown. To read on, use start_line {}.]", line + 1, line + 2);
    assert_eq!(shown, format!("{expected}\nline {line}\nline {}", line + 1));

    fixture.client().call("tasks/cancel", json!({ "id": task }));
    eventually("the output to be deleted with its task", || (!dir.exists()).then_some(()));
}

/// Clients are shown the result of a call that reads or searches, not only a count.
#[test]
fn clients_are_shown_what_was_read_and_found() {
    let fixture = Fixture::new();
    let workspace = fixture.server.workspace();
    std::fs::write(workspace.join("a.txt"), "one\ntwo\n").expect("a file");
    let shown = |call: &str| {
        let client = fixture.client().field("X-A2A-Extensions", EXTENSION);
        let events: Vec<Event> = client.stream("message/stream", prompt(&format!("CALL {call}"))).collect();
        let texts = events
            .iter()
            .map(|event| event.result()["status"]["message"]["parts"][0]["data"]["output"]["text"].clone());
        let text =
            texts.into_iter().find(|text| text.is_string()).unwrap_or_else(|| panic!("no output in {events:#?}"));
        text.as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(shown(r#"read_file {"file_path":"a.txt"}"#), "one\ntwo\n");
    let part = shown(r#"read_file {"file_path":"a.txt","end_line":1}"#);
    assert_eq!(part, "[Lines 1-1 of 2 are shown. To read on, use start_line 2.]\none");
    assert!(shown(r#"grep_search {"pattern":"two"}"#).contains("File: a.txt\nL1- one\nL2: two\n"));
    assert!(shown(r#"glob {"pattern":"*.txt"}"#).contains(&format!("{}/a.txt", workspace.display())));
    assert!(shown(r#"list_directory {"dir_path":"."}"#).contains("a.txt (8 bytes)"));
}
