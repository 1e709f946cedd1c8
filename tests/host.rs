//! A program that embeds two agent servers with its own tool, command, model, store and watcher.

#[path = "host/checks.rs"]
mod checks;

use gemini_a2a::embed::commands::{Asked, Commanded, Commands, Spec};
use gemini_a2a::embed::models::{Answer, Cancel, ModelBackend, ModelError, ModelRequest, NoteBody, Request};
use gemini_a2a::embed::tools::{CallError, Ctx, Ending, Kind, Plan as CallPlan, Run, RunEnd, Tool, ToolSpec};
use gemini_a2a::embed::{self, MemoryStore, Model, Plan, Server, SignalHandling};
use serde_json::{Value, json};
use std::sync::{Arc, mpsc};
use std::{path::Path, process::ExitCode, thread};

/// Throws a die that always shows four.
struct Die;

impl Tool for Die {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new("throw_die", "Die", Kind::Read, "Throws a die.", json!({"type": "object", "properties": {}}))
    }
    fn prepare(&self, _: &Value, _: &Ctx) -> Result<CallPlan, CallError> {
        Ok(CallPlan::info("Throwing", "Throw?", "A die is thrown."))
    }
    fn run(&self, _: &Run, _: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        Ok(RunEnd::Ended(Ending::text("four", "four")))
    }
}

/// Calls `throw_die` and a command, and answers with the number of tools in the request.
struct Gambler;

impl ModelBackend for Gambler {
    fn answer(&self, asked: &ModelRequest, _: &Cancel, emit: &mut dyn FnMut(NoteBody)) -> Result<Answer, ModelError> {
        let call = |name: &str, args| Request { call: "".into(), name: name.into(), args, api_id: None };
        if asked.think.round == 0 {
            let command = json!({"command": "pwd"});
            return Ok(Answer::new("", [call("throw_die", json!({})), call("run_shell_command", command)]));
        }
        let text = format!("I won with {} tools.", asked.tools.len());
        emit(NoteBody::Text(text.clone()));
        Ok(Answer::new(&text, []))
    }
    fn consult(&self, _: &ModelRequest, _: &str, _: &Cancel) -> Result<Answer, ModelError> {
        Ok(Answer::new("A game.", []))
    }
}

fn open(dir: &Path, name: &'static str, signals: SignalHandling, records: mpsc::Sender<String>) -> Server {
    let mut commands = Commands::built_in();
    let hello = format!("hello from {name}");
    let run = Box::new(move |_: &Asked| Ok(Commanded::Done { text: hello.clone(), data: json!(hello) }));
    commands.register(Spec::new("hello", "Greets."), run).expect("no other is called so");
    let plan = Plan {
        port: 0,
        commands,
        tools: vec![Box::new(Die)],
        model: Model::Own { name: "gambler".into(), backend: Arc::new(Gambler) },
        store: Some(Box::new(MemoryStore::default())),
        watch: Some(Box::new(move |_, record| records.send(format!("{record:?}")).expect("the host listens"))),
        signals,
        ..Plan::at(dir.join("work"), dir.join(name))
    };
    embed::open(plan).expect("it can be opened")
}

fn play(dir: &Path, signals: SignalHandling) {
    let (records, seen) = mpsc::channel();
    let servers = ["one", "two"].map(|name| {
        let server = open(dir, name, signals, records.clone());
        let (url, stop) = (server.url().to_owned(), server.stop_handle());
        (name, url, stop, thread::spawn(move || server.run()))
    });
    for (name, url, stop, running) in servers {
        checks::check_server(&url, name);
        stop.stop();
        running.join().expect("no panic").expect("the loop works");
    }
    drop(records);
    checks::check_records(&seen.iter().collect::<Vec<String>>(), dir);
}

fn main() -> ExitCode {
    if let Some(code) = embed::child_main(std::env::args_os()) {
        return code;
    }
    checks::run(play)
}
