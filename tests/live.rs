//! One session through every entry point of the real binary: a prompt, a thought, an edit that the user approves with changes, an
//! approved command with live output, a text, the end. What is sent and received is compared whole
//! with `tests/golden/live`, one file per entry point; `>` is the client, `<` the server, and each frame stands behind its event's
//! number. Who changes a dialect on purpose writes them anew with `GOLDEN=write cargo test --test live` and reads the
//! difference. (`tests/golden.rs` does the same with a written journal; here requests, answers and the ends of streams are real.)
//!
//! The model is the fake one, the tools are real. So that its output comes in the same two pieces in every run, the command
//! waits, after its first line, for a file that the test makes once that line is in the journal, and then for as long as some
//! dialects want between two looks at a running call.

#[path = "live/dialect.rs"]
mod dialect;
mod support;
#[path = "live/transcript.rs"]
mod transcript;
#[path = "live/trouble.rs"]
mod trouble;

use dialect::{DIALECTS, Dialect, Known, Line, Replies, Reply};
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
const OWN_WORDS: &str = "by the user\n";
const REPLIES: [Reply; 2] = [Reply::Edit(OWN_WORDS), Reply::Allow];

#[test]
fn the_story_through_every_entry_point() {
    none_differs(DIALECTS.iter().filter_map(|dialect| compare("live", dialect, &live(dialect))));
}

fn none_differs(wrong: impl Iterator<Item = String>) {
    let wrong: Vec<String> = wrong.collect();
    assert!(
        wrong.is_empty(),
        "{}\nif that is meant, run GOLDEN=write cargo test --test live and read the diff",
        wrong.join("\n")
    );
}

/// What is wrong with the transcript of a dialect in this folder, if anything is.
fn compare(folder: &str, dialect: &Dialect, lived: &str) -> Option<String> {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = golden.join(folder).join(format!("{}.txt", dialect.name));
    if std::env::var_os("GOLDEN").is_some_and(|word| word == "write") {
        std::fs::write(&path, lived).expect("the golden file can be written");
        return None;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let mut pairs = golden.lines().zip(lived.lines()).zip(1..);
    let differs = pairs.find(|((golden, lived), _)| golden != lived);
    match differs {
        Some(((golden, lived), line)) => {
            Some(format!("{}, line {line}:\n  {golden}\nis now\n  {lived}", path.display()))
        }
        None if golden.lines().count() != lived.lines().count() => Some(format!(
            "{} has {} lines, and now there are {}",
            path.display(),
            golden.lines().count(),
            lived.lines().count()
        )),
        None => None,
    }
}

/// The story in one dialect, on a server of its own.
fn live(dialect: &Dialect) -> String {
    let fake = FakeGemini::start();
    let server = Setup::new(&fake).start();
    let workspace = server.workspace();
    std::fs::write(workspace.join("build.sh"), BUILD).expect("the workspace is ours");
    let text = std::thread::scope(|scope| {
        scope.spawn(|| let_the_build_go_on(&server.state_dir(), &workspace));
        Story::new(dialect, &server, PROMPT, &REPLIES).told().text
    });
    let notes = std::fs::read_to_string(workspace.join("notes.txt"));
    let notes = notes.expect("the notes are there");
    assert_eq!(notes, OWN_WORDS, "{}", dialect.name);
    text
}

/// Waits for the first output in a journal, then makes the file that the build waits for.
fn let_the_build_go_on(state: &Path, workspace: &Path) {
    eventually("output of the build", || says(state, "call_output").then_some(()));
    std::fs::write(workspace.join("go"), "").expect("the workspace is ours");
}

/// Whether a file in the directory or below has these words.
fn says(dir: &Path, words: &str) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            return says(&path, words);
        }
        std::fs::read_to_string(path).is_ok_and(|text| text.contains(words))
    })
}

struct Story<'a> {
    dialect: &'a Dialect,
    server: &'a Server,
    prompt: &'a str,
    /// To the questions, in their order.
    replies: &'a [Reply],
    client: Client,
    script: Transcript,
}

impl<'a> Story<'a> {
    fn new(dialect: &'a Dialect, server: &'a Server, prompt: &'a str, replies: &'a [Reply]) -> Story<'a> {
        let workspace = server.workspace();
        Story {
            dialect,
            server,
            prompt,
            replies,
            client: Client::new(&server.url()),
            script: Transcript::of(workspace.to_str().expect("a path of text")),
        }
    }

    fn told(mut self) -> Transcript {
        match self.dialect.line {
            Line::Streams { path } => self.streams(path),
            Line::Inside { path, create } => {
                self.create(create);
                self.streams(path);
            }
            Line::Open { path, create } => {
                self.create(create);
                self.open_stream(path);
            }
            Line::Socket { path, protocol, replies } => self.socket(path, protocol, replies),
        }
        self.script
    }

    fn streams(&mut self, path: &str) {
        let prompt = (self.dialect.prompt)(self.prompt);
        let events = self.ask(path, &prompt);
        self.hear_all(events);
        for reply in self.replies {
            let answer = self.answer(*reply);
            let events = self.ask(path, &answer);
            self.hear_all(events);
        }
    }

    /// The prompt's stream tells everything; the answers' streams tell their part of it again.
    fn open_stream(&mut self, path: &str) {
        let prompt = (self.dialect.prompt)(self.prompt);
        let mut events = self.ask(path, &prompt);
        let mut others = Vec::new();
        for reply in self.replies {
            loop {
                let event = events.next().expect("a question");
                self.hear(&event);
                if (self.dialect.rests)(&event.json) {
                    break;
                }
            }
            let answer = self.answer(*reply);
            others.push(self.ask(path, &answer));
        }
        self.hear_all(events);
        for (events, n) in others.into_iter().zip(1..) {
            self.script.heard(&format!("to answer {n}:"));
            self.hear_all(events);
        }
    }

    fn socket(&mut self, path: &str, protocol: Option<&str>, replies: Replies) {
        let mut socket = Socket::open(&self.server.url(), path, protocol);
        let named = |protocol: Option<&str>| protocol.unwrap_or("no sub-protocol").to_owned();
        self.script.sent(&format!("GET {path} ({})", named(protocol)));
        self.script.heard(&format!("101 ({})", named(socket.protocol.as_deref())));
        self.say(&mut socket, &(self.dialect.prompt)(self.prompt), replies);
        for reply in self.replies {
            let answer = self.answer(*reply);
            self.say(&mut socket, &answer, replies);
        }
    }

    /// A reply that is no event is written first: between which of them it comes is a matter of luck.
    fn say(&mut self, socket: &mut Socket, value: &Value, replies: Replies) {
        let shown = self.script.shown(value);
        self.script.sent(&shown);
        socket.send(value);
        let (mut reply, mut events) = (None, Vec::new());
        let mut rests = false;
        while !rests || (reply.is_none() && replies == Replies::Apart) {
            let heard = socket.read();
            let accepted = heard.get("ok").or(heard.get("result"));
            if accepted.is_some_and(|accepted| accepted["accepted"] == true) {
                assert_eq!(reply.replace(heard), None, "one reply");
                continue;
            }
            rests |= (self.dialect.rests)(&heard);
            events.push(heard);
        }
        for heard in reply.into_iter().chain(events) {
            let shown = self.script.shown(&heard);
            self.script.heard(&shown);
        }
    }

    fn create(&mut self, body: &str) {
        let workspace = self.server.workspace();
        let body = body.replace("{workspace}", workspace.to_str().expect("a path of text"));
        self.script.sent(&format!("POST /tasks {body}"));
        let json = [("Content-Type", "application/json")];
        let answer = self.client.request("POST", "/tasks", &json, body.as_bytes());
        let shown = self.script.shown(&answer.json());
        self.script.heard(&format!("{} {shown}", answer.status()));
    }

    fn ask(&mut self, path: &str, body: &Value) -> Events {
        let task = self.script.newest("t").unwrap_or_default();
        let path = path.replace("{task}", task);
        self.script.sent(&format!("POST {path}"));
        for (name, value) in self.dialect.fields {
            self.script.sent(&format!("{name}: {value}"));
        }
        let shown = self.script.shown(body);
        self.script.sent(&shown);
        let mut fields = vec![("Content-Type", "application/json"), ("Accept", "text/event-stream")];
        fields.extend(self.dialect.fields);
        let events = self.client.events("POST", &path, &fields, body.to_string().as_bytes());
        let head = events.head();
        let kind = head.field("content-type").unwrap_or_default();
        self.script.heard(&format!("{} {kind}", head.status()));
        for name in ["A2A-Extensions", "X-A2A-Extensions"] {
            if let Some(value) = head.field(name) {
                self.script.heard(&format!("{name}: {value}"));
            }
        }
        events
    }

    fn hear_all(&mut self, events: Events) {
        events.for_each(|event| self.hear(&event));
        self.script.heard("the end of the stream");
    }

    fn hear(&mut self, event: &Event) {
        let shown = self.script.shown(&event.json);
        let marks = [event.id.as_deref(), event.name.as_deref()];
        let marks: Vec<&str> = marks.into_iter().flatten().collect();
        self.script.heard(&format!("{} {shown}", marks.join(" ")));
    }

    fn answer(&self, reply: Reply) -> Value {
        let known = Known {
            task: self.script.newest("t").expect("a task was named"),
            context: self.script.newest("c").unwrap_or_default(),
            call: self.script.newest("call").expect("a call was shown"),
        };
        (self.dialect.answer)(&known, reply)
    }
}
