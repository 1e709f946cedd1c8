//! A terminal session without a terminal: the state machine, the painter's bytes and the terminal model, driven step by step.

use crate::vt::{Resizing, Vt};
use gemini_a2a::base::clock::Now;
use gemini_a2a::limits::ui::FRAME_MS;
use gemini_a2a::task::message::Source;
use gemini_a2a::ui::app::Ui;
use gemini_a2a::ui::format::style::{Colours, Style};
use gemini_a2a::ui::output::block::Viewer;
use gemini_a2a::ui::output::paint::Size;
use gemini_a2a::ui::{Input, Setup, UiEffect};
use serde_json::{Value, json};

/// The wall clock at the start: a morning in March.
pub const BEGIN: u64 = 1_772_357_400_000;

pub struct Session {
    pub ui: Ui,
    pub vt: Vt,
    pub now: Now,
    /// What is written to the terminal in linear mode.
    pub words: String,
    /// The effects except frames, which are in `calls`.
    pub effects: Vec<UiEffect>,
    /// The calls that were sent: `{"say": {…}}`, with their ids.
    pub calls: Vec<(u64, Value)>,
    pub seq: u64,
    pub bytes: usize,
    /// Everything that was painted.
    pub sent: Vec<u8>,
    size: Size,
    linear: bool,
}

pub fn setup() -> Setup {
    let me = Source::new("you", "terminal");
    let viewer = Viewer { me, workspace: "/home/ann/src/parser".into(), home: "/home/ann".into() };
    let style = Style { colours: Colours::Sixteen, background: None, themed: false, unicode: true };
    Setup {
        version: "0.1.0".into(),
        server: "localhost:41243".into(),
        branch: "main".into(),
        editor: "vim".into(),
        nonce: "n".into(),
        ..Setup::new(viewer, style)
    }
}

impl Session {
    pub fn new(setup: Setup, columns: usize, rows: usize) -> Session {
        let now = Now { mono_ms: 1_000, unix_ms: BEGIN };
        let size = Size { columns, rows };
        let linear = setup.linear;
        let vt = Vt::new(columns, rows, Resizing::Reflows);
        Session {
            ui: Ui::new(setup, size, now),
            vt,
            now,
            words: String::new(),
            effects: Vec::new(),
            calls: Vec::new(),
            seq: 0,
            bytes: 0,
            sent: Vec::new(),
            size,
            linear,
        }
    }

    /// A session that is connected and has its task: the server knows its commands, models and clients.
    pub fn connected(setup: Setup, columns: usize, rows: usize) -> Session {
        let mut session = Session::new(setup, columns, rows);
        session.take(Input::Connected);
        session.reply("about", json!({"version": "0.1.0", "workspace": "/home/ann/src/parser", "window": 1_000_000,
            "models": ["auto", "gemini-pro", "gemini-flash"], "commands": [
                {"name": "memory show", "description": "Shows what is remembered, and from where."},
                {"name": "memory add", "description": "Writes a line into your own memory file.", "arguments": ["text"]},
                {"name": "memory list", "description": "Lists the memory files in use."},
                {"name": "init", "description": "Looks at the project and writes a GEMINI.md for it."}]}));
        session.reply("session", json!("t-1"));
        session.event(json!({"created": {"task": "t-1", "context": "t-1", "lifecycle": "conversational", "protocol": "0.3",
            "profile": "coder", "workspace": "/home/ann/src/parser", "trusted": true, "model": "gemini-pro", "mode": "default"}}));
        session
    }

    /// Passes an input to the UI, and paints.
    pub fn take(&mut self, input: Input) {
        self.give(input);
        self.paint();
    }

    fn give(&mut self, input: Input) {
        for effect in self.ui.take(input, self.now) {
            match effect {
                UiEffect::Send(frame) => {
                    let frame: Value = serde_json::from_str(&frame).expect("a frame is JSON");
                    self.calls.push((frame["id"].as_u64().expect("an id"), frame["call"].clone()));
                }
                UiEffect::KeepDraft(_) => {}
                effect => self.effects.push(effect),
            }
        }
    }

    pub fn paint(&mut self) {
        // Paints all frames that are due, with the pauses between them.
        for _ in 0..10_000 {
            let bytes = self.ui.paint(self.now);
            self.bytes += bytes.len();
            self.sent.extend_from_slice(&bytes);
            match self.linear {
                true => self.words.push_str(std::str::from_utf8(&bytes).expect("text")),
                false => self.vt.feed(&bytes),
            }
            match self.ui.due(self.now) {
                Some(due) if due <= self.now.mono_ms + FRAME_MS => {
                    self.pass(FRAME_MS);
                    self.give(Input::Tick);
                }
                _ => return,
            }
        }
        panic!("it never comes to rest");
    }

    fn pass(&mut self, ms: u64) {
        self.now = Now { mono_ms: self.now.mono_ms + ms, unix_ms: self.now.unix_ms + ms };
    }

    /// Time passes; whatever is due meanwhile happens.
    pub fn wait(&mut self, ms: u64) {
        let end = self.now.mono_ms + ms;
        while let Some(due) = self.ui.due(self.now).filter(|due| *due <= end) {
            self.pass(due - self.now.mono_ms);
            self.take(Input::Tick);
            if self.now.mono_ms >= end {
                return;
            }
            self.pass(1);
        }
        self.pass(end.saturating_sub(self.now.mono_ms));
        self.take(Input::Tick);
    }

    pub fn keys(&mut self, text: &str) {
        // One key after the other, with pauses as in real typing.
        let mut rest = text;
        while !rest.is_empty() {
            let end = key_end(rest);
            self.take(Input::Bytes(&rest.as_bytes()[..end]));
            self.wait(60);
            rest = &rest[end..];
        }
    }

    pub fn event(&mut self, event: Value) {
        self.seq += 1;
        self.record(self.seq, event);
    }

    pub fn record(&mut self, seq: u64, event: Value) {
        let frame = json!({"task": "t-1", "seq": seq, "at": self.now.unix_ms, "event": event});
        self.take(Input::Frame(&frame.to_string()));
    }

    pub fn frame(&mut self, frame: Value) {
        self.take(Input::Frame(&frame.to_string()));
    }

    /// The newest call of this name.
    pub fn call(&self, name: &str) -> Option<(u64, Value)> {
        self.calls.iter().rev().find(|(_, call)| call.get(name).is_some()).map(|(id, call)| (*id, call[name].clone()))
    }

    /// Answers the newest call of this name.
    pub fn reply(&mut self, name: &str, ok: Value) {
        let (id, _) = self.call(name).unwrap_or_else(|| panic!("no call {name} was sent: {:?}", self.calls));
        self.frame(json!({"id": id, "ok": ok}));
    }

    pub fn fail(&mut self, name: &str, reason: &str, message: &str) {
        let (id, _) = self.call(name).unwrap_or_else(|| panic!("no call {name} was sent"));
        self.frame(json!({"id": id, "error": {"reason": reason, "message": message}}));
    }

    pub fn resize(&mut self, columns: usize, rows: usize) {
        self.size = Size { columns, rows };
        self.vt.resize(columns, rows);
        self.take(Input::Resized(self.size));
    }

    pub fn picture(&self) -> String {
        if self.linear { self.words.trim_end().to_owned() } else { self.vt.picture() }
    }
}

/// The bytes of the first key: a sequence or one character.
fn key_end(text: &str) -> usize {
    let first = text.chars().next().map_or(0, char::len_utf8);
    if !text.starts_with('\x1b') || text.len() == 1 {
        return first;
    }
    match text.as_bytes()[1] {
        b'[' => 2 + text[2..].find(|c: char| ('@'..='~').contains(&c)).map_or(text.len() - 2, |at| at + 1),
        b'O' => 3.min(text.len()),
        0x1b => 1,
        _ => 1 + text[1..].chars().next().map_or(0, char::len_utf8),
    }
}
