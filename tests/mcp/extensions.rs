//! An extension that is switched off in one folder and used in another one.

use crate::support::TempDir;
use crate::support::fake::FakeGemini;
use crate::{Mcp, python};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is ours");
    std::fs::write(path, text).expect("it is ours");
}

/// Runs a prompt in a workspace. Returns the first request to the model, if there is one.
fn asked(dir: &TempDir, fake: &FakeGemini, workspace: &Path, prompt: &str) -> Option<Value> {
    let before = fake.turns().len();
    let output = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"))
        .args(["-p", prompt, "--trust-workspace", "--state-dir"])
        .arg(dir.folder("state"))
        .arg("--workspace")
        .arg(workspace)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir.path())
        .envs([("GEMINI_API_KEY", "fake".to_owned()), ("GOOGLE_GEMINI_BASE_URL", fake.url())])
        .stdin(Stdio::null())
        .output()
        .expect("the program");
    let turn = fake.turns().get(before).map(|turn| turn.body.clone());
    assert_eq!(output.status.success(), turn.is_some(), "{output:?}");
    turn
}

#[test]
fn check_74_nothing_of_an_extension_is_loaded_where_it_is_switched_off() {
    let Some(_) = Mcp::new(json!({})) else { return };
    let (dir, fake) = (TempDir::new("extension"), FakeGemini::start());
    let home = dir.path().canonicalize().expect("it is there");
    let extension = home.join(".gemini/extensions/e");
    let mut server = python("", json!({}));
    server["args"][1] = json!("");
    let manifest = json!({"name": "e", "version": "1", "mcpServers": {"own": server}, "excludeTools": ["replace"]});
    put(&extension.join("gemini-extension.json"), &manifest.to_string());
    put(&extension.join("GEMINI.md"), "The memory of the extension.");
    put(&extension.join("commands/greet.toml"), "prompt = \"TEXT the command of the extension\"\n");
    put(&extension.join("skills/pdf/SKILL.md"), "---\nname: pdf\ndescription: Forms\n---\nFill it.\n");
    put(&extension.join("agents/a.md"), "---\nname: a\nagent_card_json: '{\"url\": \"http://127.0.0.1:9\"}'\n---\n");
    let hook = json!({"type": "command", "name": "look", "command": "touch hooked"});
    put(&extension.join("hooks/hooks.json"), &json!({"hooks": {"BeforeAgent": [{"hooks": [hook]}]}}).to_string());
    let (off, on) = (home.join("w/a"), home.join("v"));
    [&off, &on].into_iter().for_each(|workspace| std::fs::create_dir_all(workspace).expect("it is ours"));
    let rule = format!("!{}/*", home.join("w").display());
    let switches = json!({"e": {"overrides": [rule]}});
    put(&home.join(".gemini/extensions/extension-enablement.json"), &switches.to_string());
    for (workspace, is_on) in [(&off, false), (&on, true)] {
        let request = asked(&dir, &fake, workspace, "TEXT hello").expect("the model is asked");
        let tools = request["tools"][0]["functionDeclarations"].to_string();
        for name in ["mcp_own_echo", "activate_skill", "invoke_agent"] {
            assert_eq!(tools.contains(&format!("\"{name}\"")), is_on, "{name}: {tools}");
        }
        assert_eq!(tools.contains("\"replace\""), !is_on, "{tools}");
        assert_eq!(request.to_string().contains("The memory of the extension."), is_on);
        assert_eq!(workspace.join("hooked").exists(), is_on, "its hook");
        let greeted = asked(&dir, &fake, workspace, "/greet").map(|request| request.to_string());
        assert_eq!(greeted.is_some_and(|text| text.contains("the command of the extension")), is_on);
    }
}
