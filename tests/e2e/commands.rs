//! Slash commands over both of their APIs: lists, results, execution ids, and the command that starts a turn of the model.

use crate::support::TempDir;
use crate::support::client::{Client, Event};
use crate::support::message::{kind_of, state_of, text_of};
use crate::support::server::{Server, Setup};
use crate::support::{eventually, message};
use serde_json::{Value, json};

/// A server in a trusted workspace whose agent follows a script.
struct Fixture {
    server: Server,
    home: TempDir,
}

impl Fixture {
    fn new(extra: &[&str]) -> Fixture {
        let home = TempDir::new("home");
        let script = json!({
            "rules": [{
                "when": { "text": "/init" },
                "steps": [
                    { "call": "write_file", "args": { "file_path": "GEMINI.md", "content": "# It\n" } },
                    { "text": "Written." }
                ]
            }],
            "default": [{ "text": "What?" }]
        });
        let file = home.path().join("script.json");
        std::fs::write(&file, script.to_string()).expect("a script");
        let mut setup =
            Setup::without_model().env("HOME", home.path()).arg("--trust-workspace").arg("--script").arg(&file);
        for arg in extra {
            setup = setup.arg(arg);
        }
        Fixture { server: setup.start(), home }
    }

    fn client(&self) -> Client {
        Client::new(&self.server.url())
    }

    fn run(&self, body: Value) -> (u16, Value) {
        let answer = self.client().post("/executeCommand", &body);
        (answer.status(), answer.json())
    }

    /// The data of a command that succeeds, under the name it is known by.
    #[track_caller]
    fn data(&self, command: &str, args: &[&str], name: &str) -> Value {
        let (status, mut answer) = self.run(json!({ "command": command, "args": args }));
        assert_eq!((status, &answer["name"]), (200, &json!(name)), "{answer}");
        answer["data"].take()
    }

    fn init(&self) -> Vec<Event> {
        let fields = [("Content-Type", "application/json")];
        let body = br#"{"command":"init"}"#;
        let events = self.client().events("POST", "/executeCommand", &fields, body);
        events.collect()
    }
}

fn names(commands: &Value) -> Vec<&str> {
    let commands = commands.as_array().expect("a list").iter();
    commands.filter_map(|command| command["name"].as_str()).collect()
}

#[test]
fn both_apis_list_the_slash_commands() {
    let fixture = Fixture::new(&[]);
    let listed = fixture.client().get("/listCommands");
    assert_eq!(listed.status(), 200);
    let listed = listed.json();
    let top = [
        "memory",
        "extensions",
        "skills",
        "hooks",
        "tools",
        "stop",
        "restore",
        "undo",
        "redo",
        "diff",
        "permissions",
        "stats",
        "help",
        "agents",
        "mcp",
    ];
    assert_eq!(names(&listed["commands"]), top);
    assert_eq!(
        names(&listed["commands"][0]["subCommands"]),
        ["memory show", "memory refresh", "memory list", "memory add"]
    );
    let known = fixture.client().call("commands/get", json!({}));
    let all = [&top[..1], &["init"], &top[1..5], &["compress"], &top[5..]].concat();
    assert_eq!(names(&known["commands"]), all);
    assert_eq!(names(&known["commands"][0]["sub_commands"]), ["show", "refresh", "list", "add"]);
}

#[test]
fn slash_command_results_come_with_the_answer() {
    let fixture = Fixture::new(&[]);
    let empty = fixture.data("memory", &[], "memory show");
    assert_eq!(empty, json!("Memory is currently empty."));
    let file = fixture.home.path().join(".gemini/GEMINI.md");
    assert_eq!(
        fixture.data("memory add", &["be", "brief"], "memory add"),
        json!({ "file": file, "added": "be brief" })
    );
    let written = std::fs::read_to_string(&file).expect("it was written");
    assert_eq!(written, "## Gemini Added Memories\n- be brief\n");
    let shown = fixture.data("memory show", &[], "memory show");
    assert!(shown.as_str().is_some_and(|text| text.contains("- be brief")), "{shown}");
    let files = fixture.data("memory list", &[], "memory list");
    assert_eq!(files, json!({ "files": [file] }));
    for name in ["extensions list", "list-extensions"] {
        let found = fixture.data(name, &[], "extensions list");
        assert_eq!(found, json!({ "extensions": [] }));
    }
    let tools = fixture.data("tools", &[], "tools");
    assert!(names(&tools["tools"]).contains(&"write_file"), "{tools}");
    let stats = fixture.data("stats", &[], "stats");
    assert_eq!((&stats["activeTasks"], &stats["totalTasks"]), (&json!(1), &json!(8)));
    assert_eq!(stats["model"], "script");
}

#[test]
fn an_invalid_slash_command_is_refused() {
    let fixture = Fixture::new(&[]);
    for (body, status, error) in [
        (json!({ "command": 7 }), 400, "Invalid \"command\" field."),
        (json!({ "command": "help", "args": "x" }), 400, "\"args\" field must be an array."),
        (json!({ "command": "nonsense" }), 404, "Command not found: nonsense"),
        (json!({ "command": "memory add" }), 400, "memory add needs <text>: What to remember."),
        (
            json!({ "command": "memory add", "args": ["-"] }),
            500,
            "There is nothing to remember; say it behind /memory add.",
        ),
    ] {
        assert_eq!(fixture.run(body), (status, json!({ "error": error })));
    }
    assert_eq!(fixture.client().get("/executeCommand").status(), 405);
}

#[test]
fn the_execution_id_is_the_task_to_watch() {
    let fixture = Fixture::new(&[]);
    let mut client = fixture.client();
    let params = json!({ "command_path": ["memory", "add"], "args": "it's 5 o'clock" });
    let receipt = client.call("command/execute", params);
    assert_eq!(receipt["status"], "STARTED");
    let id = receipt["execution_id"].as_str().expect("a task");
    let task = eventually("the command is done", || {
        let task = client.call("tasks/get", json!({ "id": id }));
        (task["status"]["state"] == "completed").then_some(task)
    });
    let texts: Vec<String> = task["history"].as_array().into_iter().flatten().map(text).collect();
    let file = fixture.home.path().join(".gemini/GEMINI.md");
    assert_eq!(
        texts,
        ["/memory add it's 5 o'clock".to_owned(), format!("Remembered in {}: it's 5 o'clock", file.display()),]
    );
    assert_eq!(
        client.call("command/execute", json!({ "command_path": ["nonsense"], "args": "" })),
        json!({ "execution_id": "", "status": "FAILED_TO_START", "message": "Command not found: nonsense" })
    );
    assert_eq!(client.fault("command/execute", json!({ "args": "" })), -32602);

    let params = json!({ "command_path": ["stats"] });
    let events: Vec<Event> = fixture.client().stream("command/execute", params).collect();
    assert_eq!(events[0].result()["status"], "STARTED");
    let last = events.last().expect("an end").result();
    assert_eq!(state_of(last), Some("completed"));
    assert_eq!(message::task_of(last), events[0].result()["execution_id"].as_str());
}

fn text(message: &Value) -> String {
    message["parts"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn init_starts_the_model_once() {
    let fixture = Fixture::new(&["--allow-auto-execute"]);
    let events = fixture.init();
    let task = events[0].result()["id"].as_str().expect("a task").to_owned();
    assert!(events.iter().all(|event| event.json["id"] == task.as_str()));
    assert_eq!(text(&events[0].result()["history"][0]), "/init");
    let texts = events.iter().filter(|event| kind_of(event.result()) == "text-content");
    let texts: Vec<String> = texts.map(|event| text_of(event.result())).collect();
    assert_eq!(texts, ["Written."]);
    let last = events.last().expect("an end");
    assert_eq!((state_of(last.result()), last.is_final()), (Some("completed"), true));
    let file = fixture.server.workspace().join("GEMINI.md");
    assert_eq!(std::fs::read_to_string(file).expect("it was written"), "# It\n");

    let events = fixture.init();
    let texts = events.iter().filter(|event| kind_of(event.result()) == "text-content");
    let texts: Vec<String> = texts.map(|event| text_of(event.result())).collect();
    assert_eq!(texts, ["A GEMINI.md file already exists in this directory. No changes were made."]);
    assert_eq!(state_of(events.last().expect("an end").result()), Some("completed"));
}

#[test]
fn a_command_waits_over_a_crash_like_any_task() {
    let mut fixture = Fixture::new(&[]);
    // The edit of the model is not approved, so the task waits while the server is killed.
    let events = fixture.init();
    let task = events[0].result()["id"].as_str().expect("a task").to_owned();
    let last = events.last().expect("an end").result();
    assert_eq!(state_of(last), Some("input-required"));
    fixture.server.kill9();
    fixture.server.restart();
    let known = fixture.client().call("tasks/get", json!({ "id": task }));
    assert_eq!(known["status"]["state"], "input-required");
    let canceled = fixture.client().call("tasks/cancel", json!({ "id": task }));
    assert_eq!(canceled["status"]["state"], "canceled");
}
