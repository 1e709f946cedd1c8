//! The transcript: which lines a record prints into the scrollback, in which order. A replay of the same records prints the same lines.
//!
//! Calls are printed in the order in which they end, text as it becomes final. What is not final is in the scene and is shown live.

use crate::base::id::CallId;
use crate::limits::ui::{FRAME_BYTES, ITEMS_KEPT, LINE_BYTES, LINES_KEPT};
use crate::task::log::blob::BlobRef;
use crate::task::log::event::{End, Event, calls, hooks};
use crate::task::log::record::Record;
use crate::task::message::{Artifact, Source};
use crate::task::spec::{Choice, Display, Ending, Todo};
use crate::ui::block::{self, Viewer, count, spell};
use crate::ui::markdown::Markdown;
use crate::ui::scene::{Call, Item, NoteWord, Scene, Stage};
use crate::ui::style::Role;
use crate::ui::wrap::{Line, Span, rewrap};
use std::collections::VecDeque;

/// Between blocks stands a blank line, but not inside a group of tools, and not inside a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Tool,
    Other,
}

pub struct Transcript {
    pub scene: Scene,
    pub viewer: Viewer,
    pub tally: Tally,
    markdown: Markdown,
    /// Of the answer under way: whether it came in pieces, whether some of it was printed, and its sources.
    streamed: bool,
    begun: bool,
    cited: Vec<String>,
    todos: Vec<Todo>,
    last: Option<Kind>,
    /// Lines that are to be printed, and those that were printed last.
    waiting: VecDeque<Line>,
    printed: VecDeque<Line>,
}

/// What the session has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: usize,
    pub errors: usize,
    pub succeeded: usize,
    pub failed: usize,
    pub refused: usize,
    pub added: usize,
    pub removed: usize,
    pub working_ms: u64,
}

/// What printing the whole of something needs.
pub enum Whole {
    Nothing,
    Lines(Vec<Line>),
    /// The text is stored apart from the log.
    Stored(CallId, BlobRef),
}

impl Transcript {
    pub fn new(viewer: Viewer) -> Transcript {
        Transcript {
            scene: Scene::default(),
            viewer,
            tally: Tally::default(),
            markdown: Markdown::default(),
            streamed: false,
            begun: false,
            cited: Vec::new(),
            todos: Vec::new(),
            last: None,
            waiting: VecDeque::new(),
            printed: VecDeque::new(),
        }
    }

    /// Goes on below another transcript.
    pub fn follow(&mut self, before: Transcript) {
        (self.last, self.waiting, self.printed) = (before.last, before.waiting, before.printed);
    }

    /// Prints a block.
    pub fn print(&mut self, kind: Kind, lines: Vec<Line>) {
        if lines.is_empty() {
            return;
        }
        let joins = kind != Kind::Other && self.last == Some(kind) && (kind == Kind::Tool || self.begun);
        if self.last.is_some() && !joins {
            self.waiting.push_back(Line::default());
        }
        self.last = Some(kind);
        self.waiting.extend(lines.into_iter().flat_map(split));
    }

    /// The lines that the next frame prints.
    pub fn take(&mut self) -> Vec<Line> {
        let mut bytes = 0;
        let mut lines = Vec::new();
        while bytes < FRAME_BYTES
            && let Some(line) = self.waiting.pop_front()
        {
            bytes += line.spans.iter().map(|span| span.text.len() + 8).sum::<usize>();
            self.printed.push_back(line.clone());
            lines.push(line);
        }
        let excess = self.printed.len().saturating_sub(LINES_KEPT);
        self.printed.drain(..excess);
        lines
    }

    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The lines that were printed last, for this width: about a screen of them.
    pub fn screenful(&self, rows: usize, most: usize) -> Vec<Line> {
        let printed: Vec<Line> = self.printed.iter().cloned().collect();
        let mut lines = rewrap(&printed, most);
        lines.drain(..lines.len().saturating_sub(rows));
        lines
    }

    /// Folds a record and prints what follows from it.
    pub fn apply(&mut self, record: &Record, most: usize) {
        self.scene.fold(record);
        match &record.event {
            Event::TurnBegan { turn } | Event::Steered { turn } => self.print_prompt(*turn, most),
            Event::Dropped { turn, by } => self.print_dropped(*turn, by, most),
            Event::Text { text } => {
                self.streamed = true;
                self.stream(text, most);
            }
            Event::Cited { text } => self.cited.push(text.clone()),
            Event::Retracted { .. } => self.retract(most),
            Event::Answered { answer } => {
                self.tally.requests += 1;
                if !self.streamed {
                    self.stream(&answer.text(), most);
                }
                self.end_text(most);
            }
            Event::BackedOff { .. } => self.tally.errors += 1,
            calls!() => self.apply_to_call(&record.event, most),
            Event::Produced { artifact, last: true, .. } => self.print_artifact(artifact, most),
            Event::TurnEnded { end, by, .. } => {
                self.tally.working_ms += record.at.saturating_sub(self.scene.turn_at);
                self.end_turn(end, by.as_ref(), most);
            }
            Event::Closed { .. } => {
                self.end_text(most);
                self.print_note(most);
            }
            Event::Attached { .. }
            | Event::CommandPrompted { .. }
            | Event::FellBack { .. }
            | Event::Compacted { .. }
            | Event::CompactionFailed { .. }
            | Event::Looped
            | Event::Nudged { .. }
            | Event::Declined { .. }
            | Event::Tuned { .. }
            | Event::Revoked { .. }
            | Event::ShellBegan { .. }
            | Event::ShellEnded { .. }
            | Event::Interrupted { .. } => self.print_note(most),
            Event::Created(_)
            | Event::Prompted { .. }
            | Event::Thought { .. }
            | Event::Retried
            | Event::CompactionBegan
            | Event::ShellOutput { .. }
            | Event::Paused
            | Event::ResultsSent
            | Event::Produced { last: false, .. }
            | Event::Resumed
            | Event::AttachmentsWanted
            | Event::CommandBegan
            | Event::Tools(_)
            | Event::Traced { .. }
            | Event::FileChanged(_)
            | hooks!() => {}
        }
    }

    /// Of the steps of a call, only the last one and a changed file are printed.
    fn apply_to_call(&mut self, event: &Event, most: usize) {
        match event {
            Event::CallEnded { call, .. } => {
                if let Some(call) = self.scene.calls.get(call).cloned() {
                    self.end_call(&call);
                }
            }
            Event::CallStale { .. } => self.print_note(most),
            _ => {}
        }
    }

    fn stream(&mut self, text: &str, most: usize) {
        let rows = self.markdown.push(text, most);
        self.print_text(rows);
    }

    fn print_dropped(&mut self, turn: u32, by: &Source, most: usize) {
        let text = format!("{} took back: {}", self.viewer.who(by), self.prompt_of(turn).unwrap_or_default());
        self.print(Kind::Other, block::notice(Role::Muted, "·", &text, most));
    }

    fn print_artifact(&mut self, artifact: &Artifact, most: usize) {
        let name = artifact.name.as_deref().unwrap_or(&artifact.id);
        self.print(Kind::Tool, block::notice(Role::Ok, "✓", &format!("Artifact {name}"), most));
    }

    fn end_turn(&mut self, end: &End, by: Option<&Source>, most: usize) {
        self.end_text(most);
        self.print_unfinished();
        let lines = block::end(end, by, &self.viewer, most);
        self.print(Kind::Other, lines);
        self.scene.trim(ITEMS_KEPT);
    }

    fn prompt_of(&self, turn: u32) -> Option<String> {
        self.scene.items.iter().rev().find_map(|item| match item {
            Item::Prompt { prompt, .. } if prompt.turn == turn => Some(prompt.text.clone()),
            _ => None,
        })
    }

    fn print_prompt(&mut self, turn: u32, most: usize) {
        if let Some(Item::Prompt { prompt, .. }) = self.scene.items.last()
            && prompt.turn == turn
        {
            let lines = block::prompt(prompt, &self.viewer, most);
            self.print(Kind::Other, lines);
        }
    }

    fn print_text(&mut self, rows: Vec<Line>) {
        if !rows.is_empty() {
            self.print(Kind::Text, rows);
            self.begun = true;
        }
    }

    fn end_text(&mut self, most: usize) {
        let rows = self.markdown.finish(most);
        self.print_text(rows);
        if !self.cited.is_empty() {
            let mut lines = vec![Line::new(Role::Muted, "Sources:")];
            let sources = self.cited.iter().flat_map(|text| text.lines());
            lines.extend(sources.map(|source| Line::new(Role::Muted, "  ").add(Role::Muted, source)));
            self.print(Kind::Other, lines);
        }
        self.forget_answer();
    }

    fn forget_answer(&mut self) {
        self.markdown = Markdown::default();
        (self.streamed, self.begun) = (false, false);
        self.cited.clear();
    }

    fn retract(&mut self, most: usize) {
        let begun = self.begun;
        self.forget_answer();
        if begun {
            let text = "The answer above broke off; it is asked again and begins anew";
            self.print(Kind::Other, block::notice(Role::Warn, "↺", text, most));
        }
    }

    /// The note that the last record made.
    fn print_note(&mut self, most: usize) {
        if let Some(Item::Note { seq, word, text }) = self.scene.items.last()
            && *seq == self.scene.seq
        {
            let kind =
                if matches!(word, NoteWord::Attached | NoteWord::CommandPrompted) { Kind::Tool } else { Kind::Other };
            let lines = block::note(*word, text, &self.scene.model, most);
            self.print(kind, lines.unwrap_or_default());
        }
    }

    fn end_call(&mut self, call: &Call) {
        match call.ending.as_deref() {
            Some(Ending::Success { display, .. }) => {
                self.tally.succeeded += 1;
                match display {
                    Display::Diff { added, removed, .. } => {
                        self.tally.added += added;
                        self.tally.removed += removed;
                    }
                    Display::Todos { todos } => {
                        // A plan is shown when it changes, without the call.
                        if std::mem::replace(&mut self.todos, todos.clone()) != *todos {
                            self.print(Kind::Other, block::plan(todos));
                        }
                        return;
                    }
                    Display::Text { .. } | Display::Summary { .. } | Display::Media { .. } => {}
                }
            }
            Some(Ending::Cancelled { .. }) if call.choice == Some(Choice::Cancel) => self.tally.refused += 1,
            Some(Ending::Error { .. } | Ending::Cancelled { .. }) => self.tally.failed += 1,
            None => {}
        }
        let lines = block::ended(call, &self.viewer);
        self.print(Kind::Tool, lines);
    }

    /// Calls that the end of the turn interrupted.
    fn print_unfinished(&mut self) {
        let calls: Vec<Call> =
            self.scene.calls.values().filter(|call| call.stage == Stage::Interrupted).cloned().collect();
        for call in calls.iter().filter(|call| call.ended_at == 0 && call.planned.is_some()) {
            let lines = block::ended(call, &self.viewer);
            self.print(Kind::Tool, lines);
        }
        // They are mentioned once.
        self.scene.calls.retain(|_, call| call.stage != Stage::Interrupted);
    }

    /// The newest words of the answer that are not printed yet.
    pub fn newest(&self, most: usize) -> String {
        self.markdown.newest(most)
    }

    /// A table that is not printed yet.
    pub fn held(&self, most: usize) -> Vec<Line> {
        self.markdown.held(most)
    }

    pub fn plan(&self) -> Vec<Line> {
        if self.todos.is_empty() { Vec::new() } else { block::plan(&self.todos) }
    }

    /// The text of the last answer.
    pub fn answer(&self) -> Option<&str> {
        self.scene.items.iter().rev().find_map(|item| match item {
            Item::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }

    /// The whole output of the newest call that has one.
    pub fn output(&self) -> Whole {
        let calls = self.scene.items.iter().rev().filter_map(|item| match item {
            Item::Call { id } => self.scene.calls.get(id),
            _ => None,
        });
        for call in calls {
            let text = match call.ending.as_deref() {
                Some(Ending::Success {
                    display: Display::Text { text } | Display::Diff { diff: text, .. }, ..
                }) => text,
                Some(Ending::Cancelled { output, .. }) if !output.is_empty() => output,
                _ if !call.output.is_empty() => return Whole::Lines(block::whole(call, &self.viewer, &call.output)),
                _ => continue,
            };
            match text.missing() {
                Some(blob) => return Whole::Stored(call.request.call.clone(), blob.clone()),
                None if text.as_str().lines().count() > 1 => {
                    return Whole::Lines(block::whole(call, &self.viewer, text.as_str()));
                }
                None => {}
            }
        }
        Whole::Nothing
    }

    /// What the session has come to, in two lines.
    pub fn stats(&self) -> Vec<Line> {
        let tally = &self.tally;
        let total = &self.scene.usage.total;
        let cached = total.cached.unwrap_or(0) * 100 / total.prompt.max(1);
        let name = |text: &str| Span::new(Role::Strong, &format!("{text:<12}  "));
        let mut model = format!("{}, {}", count(tally.requests, "request"), count(tally.errors, "error"));
        model += &format!(" · {} in ({cached}% cached) · {} out", thousands(total.prompt), thousands(total.output));
        if let Some(thoughts) = total.thoughts {
            model += &format!(" · {} thought", thousands(thoughts));
        }
        let mut tools = format!("{} ok, {} failed, {} refused", tally.succeeded, tally.failed, tally.refused);
        tools += &format!(" · files +{} −{}", tally.added, tally.removed);
        tools += &spell(tally.working_ms).map_or(String::new(), |time| format!(" · {time} working"));
        let line = |name: Span, text: &str| {
            let mut line = Line::default();
            line.push(name);
            line.text(text)
        };
        vec![line(name(&self.scene.model), &model), line(name("tools"), &tools)]
    }
}

/// `212k`, `1.3M`.
fn thousands(number: u64) -> String {
    match number {
        ..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}.{}M", number / 1_000_000, number / 100_000 % 10),
    }
}

/// A line as several, if it is longer than a terminal should get at once.
fn split(line: Line) -> Vec<Line> {
    if line.spans.iter().map(|span| span.text.len()).sum::<usize>() <= LINE_BYTES {
        return vec![line];
    }
    let mut lines = Vec::new();
    for span in &line.spans {
        let mut rest = span.text.as_str();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.floor_char_boundary(LINE_BYTES));
            lines.push(Line { spans: vec![Span { role: span.role, text: piece.to_owned() }], wrap: line.wrap });
            rest = behind;
        }
    }
    lines
}
