//! A program that embeds the server and adds its own slash commands, which every client can use like the built-in ones. It also
//! starts processes, which are not tools of the agent. One of its commands panics, which a session in a terminal survives.
//!
//! There is no test harness here, because this file is both: started with arguments it is that program, and started without
//! it is the test, which starts itself.

#[cfg(feature = "tui")]
#[path = "session/pty.rs"]
#[allow(dead_code, reason = "this test needs little of it")]
mod pty;
mod support;

use gemini_a2a::shell::start::program;
use gemini_a2a::shell::workers::slash_commands::{Asked, Commands};
use gemini_a2a::task::definitions::slash::{Argument, Commanded, Spec};
use serde_json::{Value, json};
use std::process::{Command, ExitCode};
use support::client::Client;
use support::fake::FakeGemini;
use support::message::{approval, asked_of, prompt, task_of};
use support::server::Setup;

fn main() -> ExitCode {
    // `cargo test` may pass flags and names of tests. An argument that begins with two underscores is the library's: it starts tools
    // through this program.
    let is_program = |word: String| word == "serve" || word == "--trust-workspace" || word.starts_with("__");
    match std::env::args().nth(1).is_some_and(is_program) {
        true => program::run(commands()),
        false => {
            a_further_command_is_one_like_the_others();
            println!("a further command is one like the others: ok");
            children_of_the_program_may_prompt();
            println!("children of the program are no tools: ok");
            #[cfg(feature = "tui")]
            {
                a_panic_of_a_worker_leaves_the_terminal_alone();
                println!("a panic of a worker leaves the terminal alone: ok");
            }
            ExitCode::SUCCESS
        }
    }
}

fn commands() -> Commands {
    let mut greet = Spec::new("greet", "Greets somebody.");
    greet.arguments.push(Argument { name: "whom".into(), description: "Who is greeted.".into(), required: true });
    let run = |asked: &Asked| {
        let text = format!("Hello {}!", asked.command.invocation.args.join(" "));
        let data = json!({ "greeting": text });
        Ok(Commanded::Done { text, data })
    };
    let mut commands = Commands::built_in();
    let added = commands.register(greet.clone(), Box::new(run));
    assert!(added.is_ok(), "no other command has this name");
    let again = commands.register(greet, Box::new(run));
    assert!(again.is_err(), "a built-in command is not replaced");
    let mut relay = Spec::new("relay", "Prompts the server from a process of its own.");
    relay.arguments.push(Argument { name: "url".into(), description: "The server.".into(), required: true });
    assert!(commands.register(relay, Box::new(relayed)).is_ok(), "no other command has this name");
    let fail = Spec::new("fail", "Panics in a worker.");
    assert!(commands.register(fail, Box::new(|_| panic!("of a worker"))).is_ok(), "no other command has this name");
    commands
}

/// A command panics in a session in a terminal: the session shows an error and continues, and nothing else is written over its screen.
#[cfg(feature = "tui")]
fn a_panic_of_a_worker_leaves_the_terminal_alone() {
    let place = pty::TestDirs::new();
    let this = std::env::current_exe().expect("this program is a file").display().to_string();
    let mut pty = pty::Pty::start(&place, &[], &[&this, "--trust-workspace"]);
    pty.wait("Ask anything");
    pty.wait("demo · 0%");
    pty.say("/fail");
    pty.wait("the worker panicked: of a worker");
    pty.keys("typed on");
    pty.wait("typed on");
    pty.keys("\x03");
    pty.say("/greet Ann");
    pty.wait("Hello Ann!");
    pty.keys("\x03\x03");
    let (status, text) = pty.end();
    assert!(status.success() && !text.contains("thread '"), "{text}");
}

fn relayed(asked: &Asked) -> Result<Commanded, String> {
    let url = asked.command.invocation.args.join(" ");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": prompt("TEXT hi") }).to_string();
    let output = Command::new("curl")
        .args(["-s", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}"])
        .args(["-H", "Content-Type: application/json", "-d", &body, &url])
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(Commanded::Done { data: json!({ "status": text }), text })
}

/// While a tool runs, a child of the program itself may still prompt: it descends from no supervisor of tools.
fn children_of_the_program_may_prompt() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: there is no curl here");
        return;
    }
    let this = std::env::current_exe().expect("this program is a file");
    let fake = FakeGemini::start();
    let setup = Setup::of(&this).arg("serve").env("GEMINI_API_KEY", "fake").env("GOOGLE_GEMINI_BASE_URL", fake.url());
    let server = setup.start();
    let mut client = Client::new(&server.url());
    let script = "SHELL touch began; while ! [ -e go ]; do sleep 0.02; done";
    let events: Vec<_> = client.stream("message/stream", prompt(script)).collect();
    let task = events.iter().find_map(|event| task_of(event.result())).expect("a task");
    let call = events.iter().find_map(|event| asked_of(event.result())).expect("a question");
    let running = client.stream("message/stream", approval(task, call, "proceed_once"));
    let began = server.workspace().join("began");
    support::eventually("the tool runs", || began.exists().then_some(()));
    let body = json!({ "command": "relay", "args": [format!("{}/", server.url())] });
    assert_eq!(client.post("/executeCommand", &body).json()["data"]["status"], "200");
    std::fs::write(server.workspace().join("go"), "").expect("a file");
    running.for_each(drop);
}

fn a_further_command_is_one_like_the_others() {
    let this = std::env::current_exe().expect("this program is a file");
    let server = Setup::of(&this).arg("serve").start();
    let mut client = Client::new(&server.url());

    let listed = client.get("/listCommands").json();
    let listed = listed["commands"].as_array().expect("a list");
    let ours = listed.iter().find(|command| command["name"] == "greet").expect("it is listed");
    assert_eq!(
        *ours,
        json!({
            "name": "greet", "description": "Greets somebody.", "subCommands": [],
            "arguments": [{"name": "whom", "description": "Who is greeted.", "isRequired": true}],
        })
    );
    let mut done = |args: Value| {
        let body = json!({ "command": "greet", "args": args });
        client.post("/executeCommand", &body).json()
    };
    assert_eq!(done(json!(["Ann"])), json!({ "name": "greet", "data": { "greeting": "Hello Ann!" } }));
    assert_eq!(done(json!([])), json!({ "error": "greet needs <whom>: Who is greeted." }));
    let params = json!({ "command_path": ["greet"], "args": "Bob" });
    let receipt = client.call("command/execute", params);
    assert_eq!(receipt["status"], "STARTED");
    let task = support::eventually("the command is done", || {
        let task = client.call("tasks/get", json!({ "id": receipt["execution_id"] }));
        (task["status"]["state"] == "completed").then_some(task)
    });
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "Hello Bob!");
}
