//! The screens of `tests/screens`: steps, and the picture after them. `SCREENS=write cargo test --test terminal screens` writes the
//! pictures anew; read the difference.
//!
//! A line before `---` is a step; what follows is the picture, with `█` at the cursor. Steps:
//!
//! | step | does |
//! |---|---|
//! | `size 80x24` | the size, before anything else |
//! | `option NAME VALUE` | changes the setup, before anything else: `url`, `trust`, `linear`, `history`, `ascii`, … |
//! | `bare` | starts without a connection |
//! | `keys TEXT` | presses keys; `\r \t \e \x03 \n` stand for themselves |
//! | `paste TEXT` | pastes |
//! | `line TEXT` | types a line in linear mode |
//! | `event JSON` | the server sends the next record |
//! | `reply NAME JSON`, `fail NAME REASON MESSAGE` | the server answers the newest call of this name |
//! | `frame JSON` | the server sends a frame |
//! | `clients A, B` | these clients are connected, beside the terminal |
//! | `wait 350` | milliseconds pass |
//! | `resize 40x20` | the terminal gets another size |
//! | `lost 4000`, `back` | the connection is lost, and tried again later; is there again |
//! | `edited TEXT`, `log TEXT` | the editor is left; a line of the log comes |
//! | `prompt TEXT`, `ask NAME ARGS QUESTION`, … | shorthands for several records, below |
//! | `sent NAME JSON` | checks that the newest call of this name has these members |
//! | `effect NAME` | checks that the effect was returned |
//! | `all` | the picture has the scrollback too |

use crate::given::{by, prompted};
use crate::session::{BEGIN, Session, setup};
use gemini_a2a::ui::{Input, Notify, Thoughts, TrustQuestion, UiEffect};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

struct Player {
    session: Session,
    turn: u32,
    call: u32,
    all: bool,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens")
}

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("the screens are there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
}

fn unescape(text: &str) -> String {
    text.replace("\\r", "\r")
        .replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\e", "\x1b")
        .replace("\\x7f", "\x7f")
        .split("\\x")
        .enumerate()
        .map(|(at, piece)| match (at, piece.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (1.., Some(byte)) => format!("{}{}", char::from(byte), &piece[2..]),
            _ => piece.to_owned(),
        })
        .collect()
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn trust(found: &str) -> TrustQuestion {
    let found = found.split(" | ").map(str::to_owned).collect();
    TrustQuestion { folder: "~/src/parser".into(), parent: Some("~/src".into()), found }
}

fn size_of(text: &str) -> (usize, usize) {
    let (columns, rows) = text.split_once('x').expect("80x24");
    (columns.parse().expect("a number"), rows.parse().expect("a number"))
}

impl Player {
    fn new(steps: &[&str]) -> Player {
        let (mut columns, mut rows) = (80, 24);
        let mut setup = setup();
        let mut bare = false;
        for step in steps {
            let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
            let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
            match (word, name) {
                ("size", _) => (columns, rows) = size_of(rest),
                ("bare", _) => bare = true,
                ("option", "url") => setup.url = Some(value.into()),
                ("option", "linear") => setup.linear = true,
                ("option", "debug") => setup.debug = true,
                ("option", "ascii") => setup.style.unicode = false,
                ("option", "notify") => setup.notify = Notify::from_word(value).expect("a word"),
                ("option", "terminal") => setup.terminal = value.into(),
                ("option", "tmux") => setup.inside_tmux = true,
                ("option", "prompt") => setup.prompt = Some(value.into()),
                ("option", "draft") => setup.draft = value.into(),
                ("option", "history") => setup.history = value.split(" | ").map(str::to_owned).collect(),
                ("option", "trust") => setup.trust = Some(trust(value)),
                ("option", "folder") => setup.folder = Some(trust(value)),
                ("option", "attached") => setup.attached = true,
                ("option", "thoughts") => setup.thoughts = Thoughts::from_word(value).expect("a word"),
                ("option", other) => panic!("no option {other}"),
                _ => {}
            }
        }
        bare |= setup.trust.is_some();
        let session = if bare { Session::new(setup, columns, rows) } else { Session::connected(setup, columns, rows) };
        Player { session, turn: 0, call: 0, all: false }
    }

    fn step(&mut self, step: &str) {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        let session = &mut self.session;
        match word {
            "size" | "option" | "bare" => session.paint(),
            "keys" => session.keys(&unescape(rest)),
            "paste" => session.take(Input::Bytes(format!("\x1b[200~{}\x1b[201~", unescape(rest)).as_bytes())),
            "bytes" => session.take(Input::Bytes(unescape(rest).as_bytes())),
            "line" => session.take(Input::Line(rest)),
            "wait" => session.wait(rest.parse().expect("milliseconds")),
            "resize" => {
                let (columns, rows) = size_of(rest);
                session.resize(columns, rows);
            }
            "lost" => {
                let retry_at = session.now.mono_ms + rest.parse::<u64>().expect("milliseconds");
                session.take(Input::Lost { retry_at });
            }
            "back" => session.take(Input::Connected),
            "edited" => session.take(Input::Edited(Ok(unescape(rest)))),
            "log" => session.take(Input::Log(rest)),
            "all" => self.all = true,
            "event" | "frame" | "reply" | "fail" | "clients" => self.server(word, rest),
            "sent" | "unsent" | "act" | "signal" | "silent" => self.check(word, rest),
            _ => self.records(word, rest),
        }
    }

    /// What the server sends.
    fn server(&mut self, word: &str, rest: &str) {
        let session = &mut self.session;
        let (name, more) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "event" => session.event(json_of(rest)),
            "frame" => session.frame(json_of(rest)),
            "reply" => session.reply(name, json_of(more)),
            "fail" => {
                let (reason, message) = more.split_once(' ').expect("a name, a reason and a message");
                session.fail(name, reason, message);
            }
            _ => {
                let others = rest
                    .split(", ")
                    .map(|name| json!({"client": name, "via": "a2a-0.3", "live": true, "since": BEGIN - 300_000}));
                let me = json!({"client": "you", "via": "terminal", "since": BEGIN - 480_000});
                let all: Vec<Value> = std::iter::once(me).chain(others).collect();
                session.frame(json!({ "clients": all }));
            }
        }
    }

    /// Steps that change nothing.
    fn check(&self, word: &str, rest: &str) {
        let session = &self.session;
        let (name, members) = rest.split_once(' ').unwrap_or((rest, "{}"));
        match word {
            "sent" => {
                let (_, call) =
                    session.call(name).unwrap_or_else(|| panic!("{name} was not sent: {:?}", session.calls));
                for (member, value) in json_of(members).as_object().expect("an object") {
                    assert_eq!(&call[member], value, "{rest}: {call}");
                }
            }
            "unsent" => assert!(session.call(rest).is_none(), "{rest}"),
            "act" => {
                let name = |effect: &UiEffect| format!("{effect:?}");
                assert!(
                    session.effects.iter().any(|effect| name(effect).starts_with(rest)),
                    "{rest}: {:?}",
                    session.effects
                );
            }
            "signal" => {
                assert!(session.vt.signals.iter().any(|signal| signal == rest), "{rest}: {:?}", session.vt.signals)
            }
            _ => assert!(session.vt.signals.is_empty(), "{:?}", session.vt.signals),
        }
    }

    /// Shorthands for records.
    fn records(&mut self, word: &str, rest: &str) {
        match word {
            // prompt TEXT: the user's own prompt begins a turn. from NAME TEXT: somebody else's.
            "prompt" => self.prompt("you", rest),
            "from" => {
                let (name, text) = rest.split_once(' ').expect("a name and a text");
                self.prompt(name, text);
            }
            // queued NAME TEXT: a prompt that waits.
            "queued" => {
                let (name, text) = rest.split_once(' ').expect("a name and a text");
                self.turn += 1;
                let turn = self.turn;
                self.session.event(prompted(turn, name, text));
            }
            "text" => self.session.event(json!({"text": {"text": unescape(rest)}})),
            "thought" => self.session.event(json!({"thought": {"subject": rest, "description": "…"}})),
            // answered TEXT: the answer is complete, without calls.
            "answered" => self.answered(&unescape(rest), &[]),
            "done" => self.session.event(json!({"turn_ended": {"turn": self.turn, "end": "done"}})),
            // call NAME ARGS: the model makes a call, which is planned as QUESTION if one follows ` ? `.
            "call" => {
                let (name, rest) = rest.split_once(' ').expect("a name and arguments");
                let (args, question) = rest.split_once(" ? ").unwrap_or((rest, ""));
                self.call += 1;
                let id = format!("c-{}", self.call);
                self.answered("", &[(id.as_str(), name, json_of(args))]);
                if !question.is_empty() {
                    self.plan(&id, json_of(question));
                }
            }
            _ => self.of_call(word, rest),
        }
    }

    /// Shorthands for records of the last call.
    fn of_call(&mut self, word: &str, rest: &str) {
        let call = format!("c-{}", self.call);
        match word {
            "asked" => {
                let keeping = if rest.is_empty() { "session" } else { rest };
                self.session.event(json!({"call_asked": {"call": call, "keeping": keeping}}));
            }
            "allowed" | "refused" => {
                let choice = if word == "allowed" { "proceed_once" } else { "cancel" };
                self.session.event(json!({"call_answered": {"call": call, "choice": choice, "by": by(rest)}}));
            }
            "started" => {
                self.session.event(json!({"call_ready": {"call": call}}));
                self.session.event(json!({"call_started": {"call": call}}));
            }
            "output" => self.session.event(json!({"call_output": {"call": call, "text": unescape(rest)}})),
            // ended TEXT: success with this text; failed KIND MESSAGE; ending JSON.
            "ended" => {
                let (exit, text) = rest.split_once(' ').unwrap_or((rest, ""));
                let text = unescape(text);
                let output =
                    if exit == "0" { format!("Output: {text}") } else { format!("Output: {text}\nExit Code: {exit}") };
                self.end(json!({"success": {"output": output, "display": {"text": {"text": text}}}}));
            }
            "failed" => {
                let (kind, message) = rest.split_once(' ').expect("a kind and a message");
                self.end(json!({"error": {"error": {"kind": kind, "message": message}}}));
            }
            "cancelled" => self.end(json!({"cancelled": {"reason": rest}})),
            "ending" => self.end(json_of(rest)),
            other => panic!("no step {other}"),
        }
    }

    fn prompt(&mut self, client: &str, text: &str) {
        self.turn += 1;
        let turn = self.turn;
        self.session.event(prompted(turn, client, &unescape(text)));
        self.session.event(json!({"turn_began": {"turn": turn}}));
    }

    fn answered(&mut self, text: &str, calls: &[(&str, &str, Value)]) {
        let mut parts = vec![json!({ "text": text })];
        parts.extend(calls.iter().map(|(id, name, args)| json!({"call": {"id": id, "name": name, "args": args}})));
        let usage = json!({"prompt": 120_000, "output": 2_000, "total": 122_000, "cached": 85_000, "thoughts": 4_000});
        self.session.event(json!({"answered": {"answer": {"parts": parts, "usage": usage}}}));
    }

    fn plan(&mut self, call: &str, question: Value) {
        let plan = json!({"title": "plan", "question": question});
        self.session.event(json!({"call_planned": {"call": call, "plan": plan}}));
    }

    fn end(&mut self, ending: Value) {
        let call = format!("c-{}", self.call);
        self.session.event(json!({"call_ended": {"call": call, "ending": ending}}));
    }
}

/// The steps of a file, played, and the picture that follows them.
fn played(file: &Path) -> (Player, Vec<String>, String) {
    let text = std::fs::read_to_string(file).expect("readable");
    let (steps, picture) = text.split_once("\n---\n").unwrap_or((text.trim_end(), ""));
    let lines: Vec<&str> = steps.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).collect();
    let mut player = Player::new(&lines);
    lines.iter().for_each(|line| player.step(line));
    (player, steps.lines().map(str::to_owned).collect(), picture.to_owned())
}

pub fn trimmed(text: &str) -> String {
    text.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// What a screen was painted with.
pub struct Painted {
    pub name: String,
    pub columns: usize,
    pub rows: usize,
    pub sent: Vec<u8>,
    /// The text of the scrollback and of the screen.
    pub text: String,
}

/// The screens whose terminal keeps its size.
pub fn painted() -> Vec<Painted> {
    let mut all = Vec::new();
    for file in files() {
        let (player, steps, _) = played(&file);
        if steps.iter().any(|step| step.starts_with("resize") || step.starts_with("option linear")) {
            continue;
        }
        let (columns, rows) = steps.iter().find_map(|step| step.strip_prefix("size ")).map_or((80, 24), size_of);
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = trimmed(&player.session.vt.everything());
        all.push(Painted { name, columns, rows, sent: player.session.sent, text });
    }
    all
}

fn play(file: &Path) -> (String, String) {
    let (player, steps, picture) = played(file);
    let seen = if player.all { player.session.vt.everything() } else { player.session.picture() };
    if std::env::var_os("SCREENS").is_some_and(|word| word == "write") {
        let text = format!("{}\n---\n{}\n", steps.join("\n"), trimmed(&seen));
        std::fs::write(file, text).expect("the screen can be written");
        return (String::new(), String::new());
    }
    (trimmed(&seen), trimmed(&picture))
}

#[test]
fn every_screen_looks_as_it_should() {
    let files = files();
    let mut wrong = Vec::new();
    for file in &files {
        let (seen, expected) = play(file);
        if seen != expected {
            wrong.push(format!("{}\n--- seen\n{seen}\n--- expected\n{expected}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{} of {} screens differ\n{}", wrong.len(), files.len(), wrong.join("\n\n"));
}

/// The table of keys in the manual is the one that the program uses.
#[test]
fn the_manual_lists_the_keys() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/manual/terminal.md");
    let page = std::fs::read_to_string(&file).expect("the page is there");
    let (before, rest) = page.split_once("<!-- keys: ").expect("a mark");
    let (mark, rest) = rest.split_once('\n').expect("a table follows");
    let (table, behind) = rest.split_once("<!-- end of keys -->").expect("the end of the table");
    let keys = gemini_a2a::ui::input::bind::table();
    if std::env::var_os("SCREENS").is_some_and(|word| word == "write") {
        let text = format!("{before}<!-- keys: {mark}\n{keys}<!-- end of keys -->{behind}");
        return std::fs::write(file, text).expect("the page can be written");
    }
    assert_eq!(table, keys, "SCREENS=write cargo test --test terminal manual writes the table");
}
