//! One session through every entry point of the real binary: a prompt, a thought, an edit that the user approves with changes, an approved
//! command with live output, a text, the end. All that is sent and received is compared with `tests/golden/live`, one file per entry point;
//! `>` is the client, `<` the server, and each frame follows the number of its event. After an intended change of a dialect,
//! `GOLDEN=write cargo test --test live` writes the files again, and the difference is to be reviewed. (`tests/golden.rs` does the same with
//! a journal that the test has written; here the requests, responses and ends of streams are real.)
//!
//! The model is a fake, the tools are real. So that the output of the command comes in the same two pieces in every run, the command waits
//! after its first line for a file, which the test creates when that line is in the journal, and then for the interval at which some
//! dialects update a running call.

#[path = "live/dialect.rs"]
mod dialect;
mod support;
#[path = "live/transcript.rs"]
mod transcript;
#[path = "live/trouble.rs"]
mod trouble;

use dialect::{Answer, DIALECTS, Dialect, Ids, Responses, Transport};
use serde_json::Value;
use std::path::{Path, PathBuf};
use support::client::{Client, Event, Events};
use support::eventually;
use support::fake::FakeGemini;
use support::server::{Server, Setup};
use support::socket::Socket;
use transcript::Transcript;

const PROMPT: &str = "THINK Planning | The notes come first. ++ TEXT I will write the notes. ++ WRITE notes.txt by the model \
                      ;; SHELL sh build.sh ;; TEXT The build is done.";
const BUILD: &str = "echo cc a.c\nwhile [ ! -e go ]; do sleep 0.01; done\nsleep 0.2\necho cc b.c\n";
const EDITED_CONTENT: &str = "by the user\n";
const ANSWERS: [Answer; 2] = [Answer::Edit(EDITED_CONTENT), Answer::Allow];

#[test]
fn a_session_through_every_entry_point() {
    assert_no_differences(DIALECTS.iter().filter_map(|dialect| compare("live", dialect, &transcript_of(dialect))));
}

fn assert_no_differences(differences: impl Iterator<Item = String>) {
    let differences: Vec<String> = differences.collect();
    assert!(
        differences.is_empty(),
        "{}\nif that is meant, run GOLDEN=write cargo test --test live and read the diff",
        differences.join("\n")
    );
}

/// The first difference between a transcript and the golden file of its dialect in this folder.
fn compare(folder: &str, dialect: &Dialect, actual: &str) -> Option<String> {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = golden.join(folder).join(format!("{}.txt", dialect.name));
    if std::env::var_os("GOLDEN").is_some_and(|word| word == "write") {
        std::fs::write(&path, actual).expect("the golden file can be written");
        return None;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let mut pairs = golden.lines().zip(actual.lines()).zip(1..);
    let difference = pairs.find(|((golden, actual), _)| golden != actual);
    match difference {
        Some(((golden, actual), line)) => {
            Some(format!("{}, line {line}:\n  {golden}\nis now\n  {actual}", path.display()))
        }
        None if golden.lines().count() != actual.lines().count() => Some(format!(
            "{} has {} lines, and now there are {}",
            path.display(),
            golden.lines().count(),
            actual.lines().count()
        )),
        None => None,
    }
}

/// Runs the session in one dialect on a new server. Returns its transcript.
fn transcript_of(dialect: &Dialect) -> String {
    let fake = FakeGemini::start();
    let server = Setup::new(&fake).start();
    let workspace = server.workspace();
    std::fs::write(workspace.join("build.sh"), BUILD).expect("the workspace is ours");
    let text = std::thread::scope(|scope| {
        scope.spawn(|| continue_the_build(&server.state_dir(), &workspace));
        Session::new(dialect, &server, PROMPT, &ANSWERS).run().text
    });
    let notes = std::fs::read_to_string(workspace.join("notes.txt"));
    let notes = notes.expect("the notes are there");
    assert_eq!(notes, EDITED_CONTENT, "{}", dialect.name);
    text
}

/// Waits for the first output in a journal, then creates the file that the build waits for.
fn continue_the_build(state: &Path, workspace: &Path) {
    eventually("output of the build", || has_text(state, "call_output").then_some(()));
    std::fs::write(workspace.join("go"), "").expect("the workspace is ours");
}

/// Whether a file in the directory or below contains this text.
fn has_text(dir: &Path, wanted: &str) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            return has_text(&path, wanted);
        }
        std::fs::read_to_string(path).is_ok_and(|text| text.contains(wanted))
    })
}

/// A client that runs a session in one dialect and records it.
struct Session<'a> {
    dialect: &'a Dialect,
    server: &'a Server,
    prompt: &'a str,
    /// The answers to the questions, in their order.
    answers: &'a [Answer],
    client: Client,
    transcript: Transcript,
}

impl<'a> Session<'a> {
    fn new(dialect: &'a Dialect, server: &'a Server, prompt: &'a str, answers: &'a [Answer]) -> Session<'a> {
        let workspace = server.workspace();
        Session {
            dialect,
            server,
            prompt,
            answers,
            client: Client::new(&server.url()),
            transcript: Transcript::of(workspace.to_str().expect("a path of text")),
        }
    }

    fn run(mut self) -> Transcript {
        match self.dialect.transport {
            Transport::StreamPerRequest { path } => self.stream_per_request(path),
            Transport::StreamPerRequestToTask { path, create } => {
                self.create(create);
                self.stream_per_request(path);
            }
            Transport::StreamPerTurn { path, create } => {
                self.create(create);
                self.stream_per_turn(path);
            }
            Transport::Socket { path, protocol, responses } => self.socket(path, protocol, responses),
        }
        self.transcript
    }

    fn stream_per_request(&mut self, path: &str) {
        let prompt = (self.dialect.prompt)(self.prompt);
        let events = self.request(path, &prompt);
        self.receive_all(events);
        for answer in self.answers {
            let answer = self.answer(*answer);
            let events = self.request(path, &answer);
            self.receive_all(events);
        }
    }

    /// The stream of the prompt has all events of the turn; the stream of each answer repeats the events after the answer.
    fn stream_per_turn(&mut self, path: &str) {
        let prompt = (self.dialect.prompt)(self.prompt);
        let mut events = self.request(path, &prompt);
        let mut answer_streams = Vec::new();
        for answer in self.answers {
            loop {
                let event = events.next().expect("a question");
                self.receive(&event);
                if (self.dialect.is_clients_turn)(&event.json) {
                    break;
                }
            }
            let answer = self.answer(*answer);
            answer_streams.push(self.request(path, &answer));
        }
        self.receive_all(events);
        for (events, n) in answer_streams.into_iter().zip(1..) {
            self.transcript.received(&format!("to answer {n}:"));
            self.receive_all(events);
        }
    }

    fn socket(&mut self, path: &str, protocol: Option<&str>, responses: Responses) {
        let mut socket = Socket::open(&self.server.url(), path, protocol);
        let named = |protocol: Option<&str>| protocol.unwrap_or("no sub-protocol").to_owned();
        self.transcript.sent(&format!("GET {path} ({})", named(protocol)));
        self.transcript.received(&format!("101 ({})", named(socket.protocol.as_deref())));
        self.exchange(&mut socket, &(self.dialect.prompt)(self.prompt), responses);
        for answer in self.answers {
            let answer = self.answer(*answer);
            self.exchange(&mut socket, &answer, responses);
        }
    }

    /// Sends a message over the socket, and reads the response and the events up to the next turn of the client. A separate response is
    /// recorded before the events, because its position between them differs from run to run.
    fn exchange(&mut self, socket: &mut Socket, value: &Value, responses: Responses) {
        self.transcript.sent_value(value);
        socket.send(value);
        let (mut response, mut events) = (None, Vec::new());
        let mut is_clients_turn = false;
        while !is_clients_turn || (response.is_none() && responses == Responses::Separate) {
            let frame = socket.read();
            let accepted = frame.get("ok").or(frame.get("result"));
            if accepted.is_some_and(|accepted| accepted["accepted"] == true) {
                assert_eq!(response.replace(frame), None, "one response");
                continue;
            }
            is_clients_turn |= (self.dialect.is_clients_turn)(&frame);
            events.push(frame);
        }
        for frame in response.into_iter().chain(events) {
            let frame = self.transcript.normalized(&frame);
            self.transcript.received(&frame);
        }
    }

    fn create(&mut self, body: &str) {
        let workspace = self.server.workspace();
        let body = body.replace("{workspace}", workspace.to_str().expect("a path of text"));
        self.transcript.sent(&format!("POST /tasks {body}"));
        let json = [("Content-Type", "application/json")];
        let response = self.client.request("POST", "/tasks", &json, body.as_bytes());
        let content = self.transcript.normalized(&response.json());
        self.transcript.received(&format!("{} {content}", response.status()));
    }

    fn request(&mut self, path: &str, body: &Value) -> Events {
        let task = self.transcript.newest_id("t").unwrap_or_default();
        let path = path.replace("{task}", task);
        self.transcript.sent(&format!("POST {path}"));
        for (name, value) in self.dialect.fields {
            self.transcript.sent(&format!("{name}: {value}"));
        }
        self.transcript.sent_value(body);
        let mut fields = vec![("Content-Type", "application/json"), ("Accept", "text/event-stream")];
        fields.extend(self.dialect.fields);
        let events = self.client.events("POST", &path, &fields, body.to_string().as_bytes());
        let head = events.head();
        let kind = head.field("content-type").unwrap_or_default();
        self.transcript.received(&format!("{} {kind}", head.status()));
        for name in ["A2A-Extensions", "X-A2A-Extensions"] {
            if let Some(value) = head.field(name) {
                self.transcript.received(&format!("{name}: {value}"));
            }
        }
        events
    }

    fn receive_all(&mut self, events: Events) {
        events.for_each(|event| self.receive(&event));
        self.transcript.received("the end of the stream");
    }

    fn receive(&mut self, event: &Event) {
        let content = self.transcript.normalized(&event.json);
        let fields = [event.id.as_deref(), event.name.as_deref()];
        let fields: Vec<&str> = fields.into_iter().flatten().collect();
        self.transcript.received(&format!("{} {content}", fields.join(" ")));
    }

    /// The message of the dialect with an answer to the newest question.
    fn answer(&self, answer: Answer) -> Value {
        let ids = Ids {
            task: self.transcript.newest_id("t").expect("a task was named"),
            context: self.transcript.newest_id("c").unwrap_or_default(),
            call: self.transcript.newest_id("call").expect("a call was shown"),
        };
        (self.dialect.answer)(&ids, answer)
    }
}
