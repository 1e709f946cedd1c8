//! Secret values of settings do not appear in journals, logs, events, metadata or errors, even if a server repeats them.

use crate::drive::task_in;
use crate::network::HttpServer;
use crate::support::client::Event;
use crate::support::eventually;
use crate::support::message::{approval, asked_of, prompt_in};
use crate::{Mcp, ended, found_in_files, python};
use gemini_a2a::config::options::credential_variables;
use serde_json::{Map, Value, json};

const ENV: &str = "s3cret-of-the-environment";
const HEADER: &str = "s3cret-of-the-header";
const QUERY: &str = "s3cret-of-the-query";
const TOKEN: &str = "s3cret-of-the-login";

#[test]
fn no_secret_of_the_settings_is_shown_or_stored() {
    let server = HttpServer::start("echoes");
    let url = server.url(&format!("/mcp?key={QUERY}"));
    let settings = json!({
        "x": python("prompts,resources,leaks", json!({"TOKEN": ENV})),
        "fails": python("fails", json!({"TOKEN": ENV})),
        "net": {"url": url, "type": "http", "headers": {"Authorization": format!("Bearer {HEADER}")},
            "oauth": {"clientId": "c", "clientSecret": TOKEN}},
    });
    let Some(mut mcp) = Mcp::with(&["--trust-workspace", "--log-level", "debug"], json!({"mcpServers": settings}))
    else {
        return;
    };
    let mut shown = String::new();
    let mut tell = |events: &[Event]| events.iter().for_each(|event| shown.push_str(&event.result().to_string()));
    let events = mcp.fixture.say("TEXT hello");
    let task = task_in(&events);
    tell(&events);
    for how in ["error", "result"] {
        let script = format!("CALL mcp_x_leak {} ;; TEXT done", json!({ "text": how }));
        let client = mcp.fixture.client();
        let asks: Vec<Event> = client.stream("message/stream", prompt_in(&task, &script)).collect();
        let call = asks.iter().find_map(|event| asked_of(event.result())).expect("it asks").to_owned();
        let ends: Vec<Event> = client.stream("message/stream", approval(&task, &call, "proceed_once")).collect();
        assert!(format!("{:?}", ends.iter().map(Event::result).collect::<Vec<_>>()).contains("[redacted]"), "{how}");
        tell(&asks);
        tell(&ends);
    }
    // A prompt, a resource that the model reads, and one that people mention.
    let command = mcp.fixture.client().post("/executeCommand", &json!({"command": "x:leak", "args": []})).text();
    assert!(command.contains("prompt: [redacted]"), "{command}");
    shown.push_str(&command);
    for script in ["CALL read_mcp_resource {\"uri\": \"notes://leak\"} ;; TEXT done", "TEXT read\n@x:notes://leak"] {
        let events: Vec<Event> = mcp.fixture.client().stream("message/stream", prompt_in(&task, script)).collect();
        let told = mcp.fixture.fake.turns().pop().expect("a request").body["contents"].to_string();
        assert!(told.contains("resource: [redacted]"), "{script}: {told}");
        events.iter().for_each(|event| shown.push_str(&event.result().to_string()));
    }
    for (command, args) in [
        ("mcp list", vec![]),
        ("mcp schema", vec![]),
        ("mcp logs", vec!["x"]),
        ("mcp logs", vec!["net"]),
        ("stats", vec![]),
    ] {
        let answer = mcp.fixture.client().post("/executeCommand", &json!({"command": command, "args": args}));
        shown.push_str(&answer.text());
    }
    shown.push_str(&mcp.metadata(&task).to_string());
    let net = mcp.metadata(&task)["mcpServers"][1].to_string();
    assert!(net.contains("[redacted]") && net.contains("disconnected"), "the server repeats them: {net}");
    shown.push_str(&mcp.fixture.fake.turns().iter().map(|turn| turn.body.to_string()).collect::<String>());
    mcp.fixture.server.kill9();
    shown.push_str(&mcp.fixture.server.output());
    for secret in [ENV, HEADER, QUERY, TOKEN] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
        assert_eq!(found_in_files(&mcp.fixture.server.state_dir(), secret), Vec::<String>::new());
    }
}

/// Servers of a workspace and of an extension, a hook and a command try to get every credential of this program.
#[test]
fn credentials_of_this_program_reach_no_child() {
    const CANARY: &str = "canary-0123456789abcdef0123456789abcdef";
    // The key of the model is set already.
    let names = || credential_variables().filter(|name| *name != "GEMINI_API_KEY");
    let env: Vec<(String, String)> = names()
        .map(|name| match name {
            "GEMINI_CLI_CUSTOM_HEADERS" => (name.to_owned(), format!("X-Own: {CANARY}")),
            name => (name.to_owned(), format!("{CANARY}-{name}")),
        })
        .collect();
    let wanted: Map<String, Value> =
        credential_variables().map(|name| (format!("T_{name}"), format!("a ${name} ${{{name}}}").into())).collect();
    let hook = json!({"name": "look", "command": "env > hooked"});
    let settings = json!({"hooks": {"BeforeTool": [{"matcher": "run_shell_command", "hooks": [hook]}]}});
    let args = ["--trust-workspace", "--log-level", "debug"];
    let Some(mcp) = Mcp::with_environment(&env, &args, settings) else { return };
    mcp.set_workspace(&json!({"mcpServers": {"theirs": python("", json!(wanted))}}));
    let manifest = json!({"name": "e", "version": "1", "mcpServers": {"more": python("", json!(wanted))}});
    let extension = mcp.fixture.server.state_dir().with_file_name("home").join(".gemini/extensions/e");
    std::fs::create_dir_all(&extension).expect("it is ours");
    std::fs::write(extension.join("gemini-extension.json"), manifest.to_string()).expect("it is ours");
    for server in ["theirs", "more"] {
        let ended = mcp.run(&format!("CALL mcp_{server}_environment {{}} ;; TEXT done"));
        let shown = ended[0]["response"]["resultDisplay"].as_str().expect("a text");
        let got: Value = serde_json::from_str(shown).expect("JSON");
        for name in credential_variables() {
            assert_eq!(got[format!("T_{name}")], format!("a ${name} ${{{name}}}"), "{server}: it is left as written");
            assert_eq!(got.get(name), None, "{server}");
        }
        assert!(!shown.contains(CANARY), "{server}: {shown}");
    }
    for script in ["SHELL env ;; TEXT done", "SHELL touch made; env ;; TEXT done"] {
        let events = mcp.fixture.say(script);
        let asked = events.iter().find_map(|event| asked_of(event.result()));
        let ended = match asked {
            Some(call) => mcp.answer(&task_in(&events), call, "proceed_once"),
            None => ended(&events).expect("an end"),
        };
        let shown = ended["response"].to_string();
        assert!(shown.contains("GEMINI_CLI=1") && !shown.contains(CANARY), "{shown}");
    }
    let hooked = mcp.fixture.file("hooked").expect("the hook ran");
    assert!(hooked.contains("GEMINI_PROJECT_DIR=") && !hooked.contains(CANARY), "{hooked}");
    // The log does not contain credentials, even if a client repeats one.
    let token = &env.iter().find(|(name, _)| name == "A2A_TOKEN").expect("it is a credential").1;
    mcp.fixture.client().request(
        "POST",
        "/",
        &[],
        json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": token}}).to_string().as_bytes(),
    );
    eventually("the log has the request", || {
        mcp.fixture.server.output().contains("request get [redacted]").then_some(())
    });
    assert!(!mcp.fixture.server.output().contains(CANARY));
    let said = "mcpServers.theirs.env: A2A_TOKEN is not given to servers of this layer.";
    assert!(mcp.fixture.server.output().contains(said), "{}", mcp.fixture.server.output());
}
