//! A program of somebody else's: this one with a command of its own, which every client can use like those that are built in.
//!
//! There is no test harness here, because this file is both: started with arguments it is that program, and started without
//! it is the test, which starts itself.

mod support;

use gemini_a2a::shell::commands::{Asked, Commands};
use gemini_a2a::shell::program;
use gemini_a2a::task::slash::{Argument, Commanded, Spec};
use serde_json::{Value, json};
use std::process::ExitCode;
use support::client::Client;
use support::server::Setup;

fn main() -> ExitCode {
    // Whoever runs tests may pass flags and names of tests.
    match std::env::args().nth(1).as_deref() == Some("serve") {
        true => program::run(commands()),
        false => {
            a_further_command_is_one_like_the_others();
            println!("a further command is one like the others: ok");
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
    assert!(added.is_ok(), "nothing else is called so");
    let again = commands.register(greet, Box::new(run));
    assert!(again.is_err(), "nothing that is there is replaced");
    commands
}

fn a_further_command_is_one_like_the_others() {
    let this = std::env::current_exe().expect("this program is a file");
    let server = Setup::of(&this).arg("serve").start();
    let mut client = Client::new(&server.url());

    let listed = client.get("/listCommands").json();
    let listed = listed["commands"].as_array().expect("a list");
    let ours = listed.last().expect("not an empty one");
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
