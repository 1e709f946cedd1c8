//! Resources of servers, which the model lists and reads and users mention; and the roots that servers get.

use crate::drive::task_in;
use crate::support::TempDir;
use crate::support::client::Event;
use crate::support::message::{call_of, prompt_in};
use crate::{Mcp, ended, python};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

fn trusted(words: &str) -> Value {
    let mut server = python(words, json!({}));
    server["trust"] = json!(true);
    json!({ "x": server })
}

/// The names of the tools that the last request to the model declared.
fn declared(mcp: &Mcp) -> Vec<String> {
    let request = mcp.fixture.fake.turns().pop().expect("a request").body;
    let tools = request["tools"][0]["functionDeclarations"].as_array().cloned().expect("tools");
    tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

/// Runs a script whose calls are all allowed. Returns the task and the responses of the calls.
fn run(mcp: &Mcp, task: Option<&str>, script: &str) -> (String, Vec<Value>) {
    let events: Vec<Event> = match task {
        Some(task) => mcp.fixture.client().stream("message/stream", prompt_in(task, script)).collect(),
        None => mcp.fixture.say(script),
    };
    let over = |call: &&Value| ["success", "error"].contains(&call["status"].as_str().unwrap_or_default());
    let calls = events.iter().map(|event| call_of(event.result())).filter(over);
    (task_in(&events), calls.map(|call| call["response"].clone()).collect())
}

fn output(response: &Value) -> String {
    let response = &response["responseParts"][0]["functionResponse"]["response"];
    response["output"].as_str().or(response["error"].as_str()).unwrap_or_default().to_owned()
}

#[test]
fn resources_are_listed_and_read_without_approval_where_a_server_has_some() {
    let Some(mcp) = Mcp::new(trusted("resources")) else { return };
    let script = "CALL list_mcp_resources {} ++ CALL read_mcp_resource {\"uri\": \"notes://all\"} \
                  ++ CALL read_mcp_resource {\"uri\": \"x:notes://day/monday\"} \
                  ++ CALL read_mcp_resource {\"uri\": \"notes://picture\", \"serverName\": \"x\"} ;; TEXT done";
    let (_, responses) = run(&mcp, None, script);
    assert!(declared(&mcp).contains(&"read_mcp_resource".to_owned()), "{:?}", declared(&mcp));
    let outputs: Vec<String> = responses.iter().map(output).collect();
    // The calls run concurrently.
    assert_eq!(outputs.len(), 4, "{outputs:#?}");
    let listed = "x: notes://all All notes, text/plain\nx: notes://picture picture\nx: notes://day/{day} day, Of a day";
    let read = "<untrusted_context>\nnotes://all\nthe text of notes://all\n</untrusted_context>";
    for expected in [listed, read, "the text of notes://day/monday"] {
        assert!(outputs.iter().any(|output| output.contains(expected)), "{expected}: {outputs:#?}");
    }
    let request = mcp.fixture.fake.turns().pop().expect("a request").body.to_string();
    assert!(request.contains("\"inlineData\"") && request.contains("iVBORw0KGgo"), "{request}");
    let Some(mcp) = Mcp::new(trusted("")) else { return };
    mcp.fixture.say("TEXT hello");
    assert!(!declared(&mcp).iter().any(|name| name.contains("mcp_resource")), "{:?}", declared(&mcp));
}

#[test]
fn check_47_a_link_of_a_result_can_be_read_in_its_task_and_an_unknown_uri_cannot() {
    let Some(mcp) = Mcp::new(trusted("resources")) else { return };
    let read = "CALL read_mcp_resource {\"uri\": \"notes://secret\"} ;; TEXT done";
    let link = "CALL mcp_x_link {\"text\": \"notes://secret\"} ;; TEXT done";
    let (task, before) = run(&mcp, None, read);
    assert_eq!(before[0]["errorType"], "mcp_resource_not_found", "{before:#?}");
    assert!(output(&before[0]).contains("No connected MCP server offers notes://secret"), "{before:#?}");
    let (_, linked) = run(&mcp, Some(&task), link);
    assert!(output(&linked[0]).contains("Resource: a note notes://secret (5 bytes)"), "{linked:#?}");
    let (_, after) = run(&mcp, Some(&task), read);
    assert!(output(&after[0]).contains("the text of notes://secret"), "{after:#?}");
    let (_, elsewhere) = run(&mcp, None, read);
    assert_eq!(elsewhere[0]["errorType"], "mcp_resource_not_found", "only in this task");
}

#[test]
fn a_prompt_mentions_resources() {
    let Some(mcp) = Mcp::new(trusted("resources")) else { return };
    mcp.fixture.say("TEXT see @x:notes://all, @x:notes://gone and @y:nothing");
    let request = mcp.fixture.fake.turns().pop().expect("a request").body.to_string();
    assert!(request.contains("--- x:notes://all ---") && request.contains("the text of notes://all"), "{request}");
    assert!(request.contains("[It could not be read: -32002: no such note]"), "{request}");
    assert!(!request.contains("--- y:nothing"), "{request}");
}

#[test]
fn servers_get_the_workspace_and_included_directories_as_roots() {
    let other = TempDir::new("included dir");
    let include = ["--trust-workspace", "--include-directories", other.path().to_str().expect("plain")];
    let Some(mcp) = Mcp::with(&include, json!({"mcpServers": trusted("")})) else { return };
    let events = mcp.fixture.say("CALL mcp_x_roots {} ;; TEXT done");
    let shown = ended(&events).expect("an end")["response"]["resultDisplay"].clone();
    let roots: Value = serde_json::from_str(shown.as_str().expect("a text")).expect("roots");
    let uris: Vec<&str> =
        roots["roots"].as_array().expect("a list").iter().filter_map(|root| root["uri"].as_str()).collect();
    let workspace = mcp.fixture.server.workspace().canonicalize().expect("it is there");
    assert_eq!(uris[0], format!("file://{}", workspace.display()));
    let real = other.path().canonicalize().expect("it is there");
    assert_eq!(uris[1..], [format!("file://{}", real.display().to_string().replace(' ', "%20"))]);
}

/// Denying a built-in tool does not remove other tools: in plan mode, without a terminal, and by a rule.
#[test]
fn a_denied_tool_does_not_hide_skills_agents_or_resources() {
    let Some(mcp) =
        Mcp::with(&["--trust-workspace", "--approval-mode", "plan"], json!({"mcpServers": trusted("resources")}))
    else {
        return;
    };
    let home = mcp.fixture.server.state_dir().with_file_name("home");
    let put = |path: &str, text: &str| {
        let path = home.join(".gemini").join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is ours");
        std::fs::write(path, text).expect("it is ours");
    };
    put("skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Forms\n---\nFill it.\n");
    put("agents/a.md", "---\nname: a\nagent_card_json: '{\"url\": \"http://127.0.0.1:9\"}'\n---\n");
    let check = |declared: &[String], forbidden: &[&str], how: &str| {
        for name in ["activate_skill", "list_mcp_resources", "read_mcp_resource", "read_file"] {
            assert!(declared.contains(&name.to_owned()), "{how}: {name} in {declared:?}");
        }
        // An agent may do more than read, so plan mode forbids it.
        let agents = if how == "plan mode" { vec![] } else { vec!["invoke_agent".to_owned()] };
        assert!(agents.iter().all(|name| declared.contains(name)), "{how}: {declared:?}");
        for name in forbidden {
            assert!(!declared.contains(&(*name).to_owned()), "{how}: {name} in {declared:?}");
        }
    };
    mcp.fixture.say("TEXT hello");
    check(&declared(&mcp), &["write_file", "invoke_agent"], "plan mode");
    for forbidden in ["ask_user", "replace"] {
        // By itself without a terminal, and then by a rule.
        let rule = json!({"toolName": forbidden, "decision": "deny"});
        mcp.set_user(&json!({"mcpServers": trusted("resources"), "policies": [rule]}));
        let output = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"))
            .args(["-p", "TEXT hello", "--trust-workspace", "--state-dir"])
            .arg(home.join("state"))
            .arg("--workspace")
            .arg(mcp.fixture.server.workspace())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .envs([("GEMINI_API_KEY", "fake".to_owned()), ("GOOGLE_GEMINI_BASE_URL", mcp.fixture.fake.url())])
            .stdin(Stdio::null())
            .output()
            .expect("the program");
        assert!(output.status.success(), "{output:?}");
        check(&declared(&mcp), &[forbidden], "without a terminal");
    }
}
