//! Every request to the model API in some conversations, compared with `tests/golden/requests`, one file for each conversation. After an
//! intended change, write the files with `GOLDEN=write cargo test --test conversations` and read the difference.
//!
//! Paths and the date are masked. The system instruction and the declarations of the tools, which most requests repeat, are in
//! `shared.json`, and requests refer to them by number. Every request is also checked against the rules of the API.

#![cfg(feature = "web-tools")]

mod support;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use support::client::{Client, Event};
use support::fake::{FakeGemini, Recorded};
use support::message::{approval, asked_of, call_status_of, prompt, prompt_in, task_of};
use support::server::{Server, Setup};
use support::socket::Socket;
use support::{TempDir, eventually, turn_rules};

/// The first bytes of a picture and of a recording.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0";
const RECORDING: &[u8] = b"RIFF\0\0\0\0WAVEfmt ";

#[test]
fn requests_to_the_model_match_the_golden_files() {
    let conversations: [(&str, RunConversation); 13] = [
        ("hello", hello),
        ("tools", tools),
        ("parallel", parallel),
        ("refused", refused),
        ("media-gemini-3", || media("gemini-3-flash-preview")),
        ("media-gemini-2.5", || media("gemini-2.5-pro")),
        ("attached", attached),
        ("plan", plan),
        ("memory", memory),
        ("compacted", compacted),
        ("trouble", trouble),
        ("steered", steered),
        ("crashed", crashed),
    ];
    let mut shared = Vec::new();
    let mut wrong = Vec::new();
    for (name, hold) in conversations {
        let requests: Vec<Value> = hold().requests().map(|request| brief(request, &mut shared)).collect();
        wrong.extend(compare(name, &requests.into()));
    }
    wrong.extend(compare("shared", &shared.into()));
    assert!(
        wrong.is_empty(),
        "{}\nif that is meant, run GOLDEN=write cargo test --test conversations and read the diff",
        wrong.join("\n")
    );
}

/// Runs a conversation.
type RunConversation = fn() -> Conversation;

/// A server, its model and its directories.
struct Conversation {
    fake: FakeGemini,
    server: Server,
    beside: TempDir,
    task: String,
}

impl Conversation {
    fn new(arrange: impl FnOnce(Setup, &Path) -> Setup) -> Conversation {
        let (fake, beside) = (FakeGemini::start(), TempDir::new("beside"));
        let setup = Setup::new(&fake).env("HOME", beside.folder("home"));
        let server = arrange(setup, beside.path()).start();
        put(&server.workspace().join("a.txt"), "the text of a\n");
        put(&server.workspace().join("shot.png"), PICTURE);
        put(&server.workspace().join("sound.wav"), RECORDING);
        Conversation { fake, server, beside, task: String::new() }
    }

    fn usual() -> Conversation {
        Conversation::new(|setup, _| setup)
    }

    /// Prompts the task, or creates it, and gives each question this answer.
    fn say(&mut self, script: &str, answer: &str) {
        let message = if self.task.is_empty() { prompt(script) } else { prompt_in(&self.task, script) };
        self.send(message, answer);
    }

    fn send(&mut self, mut message: Value, answer: &str) {
        let (mut asked, mut answered): (Vec<String>, usize) = (Vec::new(), 0);
        loop {
            let events: Vec<Event> = Client::new(&self.server.url()).stream("message/stream", message).collect();
            self.task = events.iter().find_map(|event| task_of(event.result())).expect("a task").to_owned();
            for call in events.iter().filter_map(|event| asked_of(event.result())) {
                if !asked.iter().any(|known| known == call) {
                    asked.push(call.to_owned());
                }
            }
            match asked.get(answered) {
                Some(call) => message = approval(&self.task, call, answer),
                None => return,
            }
            answered += 1;
        }
    }

    /// The requests, with the paths of this run masked.
    fn requests(&self) -> impl Iterator<Item = Recorded> {
        let real = |path: PathBuf| path.canonicalize().expect("it is there").display().to_string();
        let masks = [(real(self.server.workspace()), "/WORKSPACE"), (real(self.beside.path().to_owned()), "/BESIDE")];
        self.fake.requests().into_iter().map(move |mut request| {
            turn_rules::check(&request.body);
            let mut text = request.body.to_string();
            for (path, mask) in &masks {
                text = text.replace(path, mask);
            }
            let date = text.find("Today is ").expect("a date") + "Today is ".len();
            text.replace_range(date..date + "2026-03-01".len(), "DATE");
            request.body = serde_json::from_str(&text).expect("JSON");
            request
        })
    }
}

fn put(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("it is ours");
    fs::write(path, content).expect("it is ours");
}

/// A request in which the parts that requests have in common are replaced by references.
fn brief(request: Recorded, shared: &mut Vec<Value>) -> Value {
    let mut body = request.body;
    for name in ["systemInstruction", "tools"] {
        if let Some(value) = body.get_mut(name) {
            let number = shared.iter().position(|known| known == value).unwrap_or_else(|| {
                shared.push(value.clone());
                shared.len() - 1
            });
            *value = json!(format!("shared {number}"));
        }
    }
    let target = request.head.target().to_owned();
    json!({ "target": target, "body": body })
}

/// The difference to the golden file, if there is one.
fn compare(name: &str, found: &Value) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/requests/{name}.json"));
    let found = format!("{found:#}\n");
    if std::env::var_os("GOLDEN").is_some_and(|word| word == "write") {
        put(&path, &found);
        return None;
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    let differs = golden.lines().zip(found.lines()).zip(1..).find(|((golden, found), _)| golden != found);
    match differs {
        Some(((golden, found), line)) => Some(format!("{name}.json, line {line}:\n  - {golden}\n  + {found}")),
        None if golden != found => Some(format!("{name}.json has another length")),
        None => None,
    }
}

fn hello() -> Conversation {
    let mut it = Conversation::usual();
    it.say("TEXT Hello.", "");
    it
}

fn tools() -> Conversation {
    let mut it = Conversation::usual();
    it.say(
        "THINK Look | first ++ READ a.txt ;; REPLACE a.txt text word ;; SHELL cat a.txt ;; TEXT Done.",
        "proceed_once",
    );
    it.say("READ none.txt ;; TEXT It is not there.", "");
    it
}

fn parallel() -> Conversation {
    let mut it = Conversation::usual();
    let read = "{\"file_path\":\"a.txt\"}";
    it.say(&format!("SIGNED read_file {read} ++ READ a.txt ;; PARALLEL ;; TEXT Both."), "proceed_once");
    it.say("TEXT And more.", "");
    it
}

fn refused() -> Conversation {
    let mut it = Conversation::usual();
    it.say("TEXT I write. ++ WRITE b.txt b ;; TEXT never", "cancel");
    it.say("TEXT As you like.", "");
    it
}

fn media(model: &str) -> Conversation {
    let mut it = Conversation::new(|setup, _| setup.args(["--model", model]));
    it.say("READ shot.png ++ READ sound.wav ++ READ a.txt ;; TEXT I see and hear.", "");
    let mut message = prompt_in(&it.task, "TEXT This one too.");
    let file = json!({ "bytes": STANDARD.encode(PICTURE), "name": "x.png", "mimeType": "image/png" });
    let parts = message["message"]["parts"].as_array_mut().expect("parts");
    parts.push(json!({ "kind": "file", "file": file }));
    it.send(message, "");
    it
}

fn attached() -> Conversation {
    let mut it = Conversation::usual();
    it.say("Compare @a.txt with @shot.png and @none\nTEXT They differ.", "");
    it
}

fn plan() -> Conversation {
    let mut it = Conversation::new(|setup, _| setup.args(["--approval-mode", "plan"]));
    it.say("READ a.txt ;; WRITE b.txt b ;; TEXT The plan.", "");
    it
}

fn memory() -> Conversation {
    let mut it = Conversation::new(|setup, beside| {
        put(&beside.join("home/.gemini/GEMINI.md"), "The user likes tea.");
        put(&beside.join("lib/b.txt"), "the text of b\n");
        setup.arg("--trust-workspace").arg("--include-directories").arg(beside.join("lib"))
    });
    put(&it.server.workspace().join(".git/HEAD"), "ref: refs/heads/main\n");
    put(&it.server.workspace().join("GEMINI.md"), "Run make.");
    put(&it.server.workspace().join("api/GEMINI.md"), "Keep the interface.");
    put(&it.server.workspace().join("api/c.txt"), "the text of c\n");
    let lib = it.beside.path().join("lib/b.txt");
    it.say(&format!("READ api/c.txt ;; READ {} ;; LS api ;; TEXT Read.", lib.display()), "");
    it
}

fn compacted() -> Conversation {
    let mut it = Conversation::new(|setup, beside| {
        let settings = json!({ "model": { "compressionThreshold": 0.00001 } });
        put(&beside.join("home/.gemini/settings.json"), settings.to_string());
        setup
    });
    for script in ["TEXT One.", "TEXT Two.", "READ a.txt ;; TEXT Three."] {
        it.say(script, "");
    }
    it
}

fn trouble() -> Conversation {
    let mut it = Conversation::usual();
    it.say("ERR404 1", "");
    it.say("ERR400", "");
    it.say("READ shot.png ;; ERR400", "");
    it.say("TEXT Better.", "");
    it
}

fn steered() -> Conversation {
    let mut it = Conversation::usual();
    let mut socket = Socket::open(&it.server.url(), "/ws", Some("gemini-a2a.v1"));
    let say = |id: u64, text: &str| json!({ "id": id, "call": { "say": { "text": text, "steer": id == 2 } } });
    socket.send(&say(1, "TEXT I look. ++ HOLD ++ READ a.txt ;; TEXT Quickly."));
    eventually("the model waits", || (it.fake.held() == 1).then_some(()));
    socket.send(&say(2, "Be quick."));
    socket.until(|frame| frame["id"] == 2);
    it.fake.release();
    let ended = socket.until(|frame| frame["event"]["turn_ended"].is_object());
    it.task = ended["task"].as_str().expect("a task").to_owned();
    it.say("TEXT Next.", "");
    it
}

fn crashed() -> Conversation {
    let mut it = Conversation::usual();
    let client = Client::new(&it.server.url());
    let events: Vec<Event> =
        client.stream("message/stream", prompt("READ a.txt ;; SHELL sleep 1000 ;; TEXT x")).collect();
    it.task = events.iter().find_map(|event| task_of(event.result())).expect("a task").to_owned();
    let call = events.iter().find_map(|event| asked_of(event.result())).expect("a question").to_owned();
    let mut stream = client.stream("message/stream", approval(&it.task, &call, "proceed_once"));
    stream.until("the command runs", |event| call_status_of(event.result()) == "executing");
    it.server.restart();
    it.say("TEXT Where were we?", "");
    it
}
