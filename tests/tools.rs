//! Tools that need more than a file, tested with the real binary, a fake model and a client: questions that a client answers, commands
//! that run in the background, and web tools that the model API carries out.

mod support;

use gemini_a2a::shell::children::procfs;
use serde_json::{Value, json};
use support::client::Client;
use support::eventually;
use support::fake::FakeGemini;
use support::message::{approval, asked_of, prompt, prompt_in, task_of};
use support::server::{Server, Setup};

struct Fixture {
    fake: FakeGemini,
    server: Server,
    client: Client,
}

/// A call that waits for an answer.
struct WaitingCall {
    task: String,
    call: String,
    /// The tool-call object of the coder profile.
    data: Value,
}

impl Fixture {
    fn new() -> Fixture {
        let fake = FakeGemini::start();
        let server = Server::start(&fake);
        let client = Client::new(&server.url());
        Fixture { fake, server, client }
    }

    /// Has the model make a call, and reads events up to the question about the call.
    fn ask_for_call(&self, tool: &str, args: &Value) -> WaitingCall {
        let prompt = prompt(&format!("CALL {tool} {args}"));
        let mut events = self.client.stream("message/stream", prompt);
        let event = events.until("a question", |event| asked_of(event.result()).is_some());
        let result = event.result();
        WaitingCall {
            task: task_of(result).expect("a task").into(),
            call: asked_of(result).expect("a call").into(),
            data: result["status"]["message"]["parts"][0]["data"].clone(),
        }
    }

    /// Has the model make a call that needs no answer, and waits for the end of the turn.
    fn run_call(&mut self, tool: &str, args: &Value) {
        let prompt = prompt(&format!("CALL {tool} {args}"));
        self.client.call("message/send", prompt);
    }

    /// The result of the last call that the model received.
    fn result(&self) -> Value {
        let turns = self.fake.turns();
        let contents = turns.last().expect("a turn").body["contents"].clone();
        let last = contents.as_array().and_then(|contents| contents.last());
        last.expect("a history")["parts"][0]["functionResponse"]["response"].clone()
    }
}

#[test]
fn a_question_to_the_user_is_answered_over_the_wire() {
    let mut fixture = Fixture::new();
    let questions = json!([{"question": "Which colour?", "header": "Colour", "type": "text"}]);
    let waiting = fixture.ask_for_call("ask_user", &json!({ "questions": questions }));
    assert_eq!(
        waiting.data["confirmationDetails"],
        json!({"type": "ask_user", "title": "Questions", "questions": questions})
    );
    let mut answer = approval(&waiting.task, &waiting.call, "proceed_once");
    answer["message"]["parts"][0]["data"]["answers"] = json!({"0": "blue"});
    fixture.client.call("message/send", answer);
    assert_eq!(fixture.result(), json!({"output": r#"{"answers":{"0":"blue"}}"#}));
}

#[test]
fn an_edit_shows_the_whole_file_and_changes_it() {
    let mut fixture = Fixture::new();
    let file = fixture.server.workspace().join("a.txt");
    std::fs::write(&file, "one\r\n  two\r\nthree\r\n").expect("the workspace is ours");
    let args =
        json!({"file_path": "a.txt", "instruction": "count on", "old_string": "two\nthree", "new_string": "2\n3"});
    let waiting = fixture.ask_for_call("replace", &args);
    assert_eq!(waiting.data["request"]["args"]["newContent"], "one\r\n  2\r\n3\r\n");
    let approved = approval(&waiting.task, &waiting.call, "proceed_once");
    fixture.client.call("message/send", approved);
    let written = std::fs::read_to_string(&file).expect("it is there");
    assert_eq!(written, "one\r\n  2\r\n3\r\n");
}

#[test]
fn an_impossible_edit_fails_without_a_question() {
    let mut fixture = Fixture::new();
    std::fs::write(fixture.server.workspace().join("a.txt"), "one\n").expect("ours");
    let args = json!({"file_path": "a.txt", "instruction": "x", "old_string": "two", "new_string": "2"});
    fixture.run_call("replace", &args);
    let error = fixture.result()["error"].to_string();
    assert!(error.contains("old_string is not in a.txt"), "{error}");
}

#[test]
fn a_background_command_ends_when_its_task_is_cancelled() {
    let mut fixture = Fixture::new();
    let args = json!({"command": "echo $$ > pid; exec sleep 1000", "is_background": true, "delay_ms": 1});
    let waiting = fixture.ask_for_call("run_shell_command", &args);
    let approved = approval(&waiting.task, &waiting.call, "proceed_once");
    fixture.client.call("message/send", approved);
    let output = fixture.result()["output"].to_string();
    assert!(output.contains("Background PID: "), "{output}");
    let pid = eventually("its number", || {
        let text = std::fs::read_to_string(fixture.server.workspace().join("pid")).ok()?;
        text.trim().parse::<u32>().ok()
    });
    let is_alive = || procfs::stat(pid).is_some_and(|stat| !stat.has_ended);
    assert!(is_alive());
    fixture.client.call("tasks/cancel", json!({ "id": waiting.task }));
    eventually("its end", || (!is_alive()).then_some(()));
}

#[test]
fn the_web_is_searched_and_pages_are_read_by_the_model() {
    let mut fixture = Fixture::new();
    fixture.run_call("google_web_search", &json!({"query": "what is new"}));
    assert_eq!(
        fixture.result(),
        json!({"output": "Web search for \"what is new\":\n<untrusted_context>\nDone.[1]\n\nSources:\n\
            [1] A source (https://source.test/)\n</untrusted_context>"})
    );
    let args = json!({"prompt": "Summarize https://page.test/ please"});
    let waiting = fixture.ask_for_call("web_fetch", &args);
    assert_eq!(
        waiting.data["confirmationDetails"],
        json!({"type": "info", "title": "Confirm Web Fetch", "prompt": args["prompt"], "urls": ["https://page.test/"]})
    );
    let approved = approval(&waiting.task, &waiting.call, "proceed_once");
    fixture.client.call("message/send", approved);
    assert_eq!(fixture.result(), json!({"output": "<untrusted_context>\nDone.\n</untrusted_context>"}));
    let utility: Vec<Value> = fixture
        .fake
        .requests()
        .into_iter()
        .filter(|request| request.verb() == "generateContent")
        .map(|request| request.body["tools"].clone())
        .collect();
    assert_eq!(utility, [json!([{"googleSearch": {}}]), json!([{"urlContext": {}}])]);
}

#[test]
fn files_named_in_a_prompt_are_attached_and_missing_ones_are_not() {
    let mut fixture = Fixture::new();
    std::fs::write(fixture.server.workspace().join("a.txt"), "the text of a\n").expect("ours");
    fixture.client.call("message/send", prompt("TEXT ok @a.txt and @none.txt"));
    let turns = fixture.fake.turns();
    let contents = turns.last().expect("a turn").body["contents"].to_string();
    assert!(contents.contains("the text of a"), "{contents}");
    assert_eq!(contents.matches("none.txt").count(), 1, "{contents}");
}

/// When the context window is nearly full, the model writes a summary. Later requests contain the summary in place of the messages before
/// it; clients still see the whole conversation.
#[test]
fn a_long_conversation_continues_from_its_summary() {
    let home = support::TempDir::new("home");
    let file = home.folder(".gemini").join("settings.json");
    let settings = json!({ "model": { "compressionThreshold": 0.00001 } });
    std::fs::write(file, settings.to_string()).expect("a file");
    let fake = FakeGemini::start();
    let server = Setup::new(&fake).env("HOME", home.path()).start();
    let mut client = Client::new(&server.url());
    let first = client.call("message/send", prompt("TEXT The first answer."));
    let task = task_of(&first).expect("a task").to_owned();
    client.call("message/send", prompt_in(&task, "TEXT The second answer."));
    let third = client.call("message/send", prompt_in(&task, "TEXT The third answer."));
    let turns = fake.turns();
    let contents = turns.last().expect("a turn").body["contents"].to_string();
    assert!(contents.contains("<state_snapshot>what was said before</state_snapshot>"), "{contents}");
    assert!(!contents.contains("The first answer."), "{contents}");
    assert!(contents.contains("TEXT The third answer."), "{contents}");
    let history = third["history"].to_string();
    assert!(history.contains("The first answer.") && history.contains("The third answer."), "{history}");
}
