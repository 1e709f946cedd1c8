//! Extensions: their memory, the tools that they exclude, and where they are switched off.

use crate::agent::{declared, put, refusal, request};
use crate::drive::Fixture;
use crate::support::TempDir;
use serde_json::json;

const MANIFEST: &str = "gemini-extension.json";

#[test]
fn an_extension_adds_memory_and_forbids_tools() {
    let home = TempDir::new("home");
    let dir = home.path().join(".gemini/extensions/guard");
    let manifest = json!({
        "name": "guard", "version": "1.0.0", "contextFileName": ["RULES.md", "../x"],
        "excludeTools": ["glob", "run_shell_command(touch)"]
    });
    put(&dir.join(MANIFEST), &manifest.to_string());
    put(&dir.join("RULES.md"), "Guard every gate.");
    put(&home.path().join(".gemini/extensions/x"), "Not for the model.");
    let start = |more: &[&str]| Fixture::with(|setup| setup.env("HOME", home.path()).args(more));
    let fixture = start(&["--approval-mode", "yolo", "--trust-workspace"]);
    let notice = "contextFileName ../x leads out of the extension; it is not used";
    assert!(fixture.server.output().contains(notice), "{}", fixture.server.output());
    let events = fixture.say("CALL glob {\"pattern\":\"*\"} ;; TEXT ok");
    assert_eq!(refusal(&events)["errorType"], "policy_violation");
    let asked = request(&fixture);
    assert!(!declared(&asked).contains(&"glob") && declared(&asked).contains(&"run_shell_command"));
    let prompt_text = asked["contents"][0].to_string();
    assert!(prompt_text.contains("Guard every gate.") && !prompt_text.contains("Not for the model."), "{prompt_text}");
    let refused = fixture.say("SHELL touch a");
    let response = refusal(&refused);
    assert!(response.to_string().contains("the extension guard excludes it"), "{response}");
    fixture.say("SHELL mkdir b ;; TEXT ok");
    assert!(fixture.server.workspace().join("b").is_dir());
    assert_eq!(fixture.file("a"), None);

    // An extension that is switched off for the workspace is not used there.
    let off = json!({ "command": "extensions disable", "args": ["guard", "--scope", "workspace"] });
    let answer = fixture.client().post("/executeCommand", &off).json();
    assert_eq!(answer["data"], "The extension guard is switched off in this workspace.", "{answer}");
    fixture.say("SHELL touch a ;; TEXT ok");
    assert_eq!(fixture.file("a").as_deref(), Some(""));
    assert!(!request(&fixture)["contents"][0].to_string().contains("Guard every gate."));
    // In another workspace it is used, unless the server was started with `-e none`.
    for (more, used) in [(&[][..], true), (&["-e", "none"], false), (&["--extensions", "other,Guard"], true)] {
        let fixture = start(more);
        fixture.say("TEXT ok");
        let asked = request(&fixture);
        assert_eq!(declared(&asked).contains(&"glob"), !used, "{more:?}");
        assert_eq!(asked["contents"][0].to_string().contains("Guard every gate."), used, "{more:?}");
    }
}

#[test]
fn extensions_of_a_workspace_are_used_if_it_is_trusted() {
    for (trust, used) in [(&["--trust-workspace"][..], true), (&[], false)] {
        let fixture = Fixture::with(|setup| setup.args(trust));
        let dir = fixture.server.workspace().join(".gemini/extensions/own");
        put(&dir.join(MANIFEST), r#"{"name": "own", "version": "1", "excludeTools": ["glob"]}"#);
        put(&dir.join("GEMINI.md"), "Mind the gap.");
        fixture.say("TEXT ok");
        let asked = request(&fixture);
        assert_eq!(asked["contents"][0].to_string().contains("Mind the gap."), used);
        assert_eq!(declared(&asked).contains(&"glob"), !used);
        let listed = fixture.client().post("/executeCommand", &json!({ "command": "extensions" })).json();
        let expected = if used { json!([{"name": "own", "version": "1", "enabled": true}]) } else { json!([]) };
        assert_eq!(listed["data"]["extensions"], expected, "{listed}");
    }
}
