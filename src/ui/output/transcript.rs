//! The transcript: which lines each record prints into the scrollback. The same records always print the same lines.
//!
//! Calls are printed when they end, and text when its rows are final. What is not final is in the scene and is shown in the live
//! region.

use crate::base::id::{CallId, TaskId};
use crate::limits::ui::{CITED, ITEMS_KEPT};
use crate::task::log::answer::Answer;
use crate::task::log::blob::BlobRef;
use crate::task::log::event::{Created, End, Event, calls, hooks, ownership};
use crate::task::log::record::Record;
use crate::task::message::{Artifact, Source};
use crate::task::spec::{Display, Ending, Todo};
use crate::ui::Thoughts;
use crate::ui::format::markdown::Markdown;
use crate::ui::format::style::Role;
use crate::ui::format::wrap::{Line, Span, paragraph};
use crate::ui::output::block::{self, Viewer};
use crate::ui::output::print_queue::{BlockKind, PrintQueue};
use crate::ui::scene::{Call, Item, NoteWord, Scene, Stage};
use crate::ui::tally::Tally;

pub struct Transcript {
    pub scene: Scene,
    pub viewer: Viewer,
    pub tally: Tally,
    pub thoughts: Thoughts,
    pub print_queue: PrintQueue,
    /// The task that was shown before this one.
    previous_task: Option<TaskId>,
    /// The task is that of a slash command, not a session.
    is_command: bool,
    markdown: Markdown,
    /// For the answer under way: whether it came in pieces, whether rows of it were printed, and its sources.
    streamed: bool,
    has_printed_text: bool,
    cited: Vec<String>,
    todos: Vec<Todo>,
}

/// The full output of a call or command, or where it is.
pub enum FullOutput {
    Nothing,
    Lines(Vec<Line>),
    /// The output is stored as a blob.
    Stored(CallId, BlobRef),
}

impl Transcript {
    pub fn new(viewer: Viewer, thoughts: Thoughts) -> Transcript {
        Transcript {
            scene: Scene::default(),
            viewer,
            tally: Tally::default(),
            thoughts,
            print_queue: PrintQueue::default(),
            previous_task: None,
            is_command: false,
            markdown: Markdown::default(),
            streamed: false,
            has_printed_text: false,
            cited: Vec::new(),
            todos: Vec::new(),
        }
    }

    /// A new transcript for another task, which is printed below this one. The waiting lines of this one are printed first.
    pub fn successor(&mut self) -> Transcript {
        Transcript {
            print_queue: std::mem::take(&mut self.print_queue),
            previous_task: self.scene.task.clone(),
            ..Transcript::new(self.viewer.clone(), self.thoughts)
        }
    }

    /// Prints a block.
    pub fn print(&mut self, kind: BlockKind, lines: Vec<Line>) {
        self.print_queue.print(kind, lines);
    }

    /// Folds a record and prints what follows from it.
    pub fn apply(&mut self, record: &Record, max_width: usize) {
        self.scene.fold(record);
        self.tally.count(record, &self.scene);
        match &record.event {
            Event::Created(created) => self.print_header(created, max_width),
            Event::Thought { subject, description } => self.print_thought(subject, description, max_width),
            Event::TurnBegan { turn } | Event::Steered { turn } => self.print_prompt(*turn, max_width),
            Event::Dropped { turn, by } => self.print_dropped(*turn, by, max_width),
            Event::Text { text } => self.print_piece(text, max_width),
            Event::Cited { text } if self.cited.len() < CITED => self.cited.push(text.clone()),
            Event::Retracted { .. } => self.retract(max_width),
            Event::Answered { answer } => self.print_answer(answer, max_width),
            calls!() => self.apply_to_call(&record.event, max_width),
            Event::Produced { artifact, last: true, .. } => self.print_artifact(artifact, max_width),
            Event::TurnEnded { end, by, .. } => self.end_turn(end, by.as_ref(), max_width),
            Event::ResultsSent => self.scene.trim(ITEMS_KEPT),
            Event::Closed { .. } => self.print_end(max_width),
            Event::Attached { .. }
            | Event::CommandPrompted { .. }
            | Event::FellBack { .. }
            | Event::Compacted { .. }
            | Event::CompactionFailed { .. }
            | Event::Looped
            | Event::Nudged { .. }
            | Event::Reprompted { .. }
            | Event::Declined { .. }
            | Event::Delayed { .. }
            | Event::Tuned { .. }
            | Event::Revoked { .. }
            | Event::Restored(_)
            | Event::Interrupted { .. }
            | Event::Resumed => self.print_note(max_width),
            Event::ShellEnded { .. } => self.print_shell(max_width),
            Event::HookRan(report) if !report.text.is_empty() => self.print_note(max_width),
            Event::HookRan(_)
            | Event::Prompted { .. }
            | Event::Cited { .. }
            | Event::BackedOff { .. }
            | Event::Retried
            | Event::CompactionBegan
            | Event::ShellBegan { .. }
            | Event::ShellOutput { .. }
            | Event::Paused
            | Event::Produced { last: false, .. }
            | Event::AttachmentsWanted
            | Event::CommandBegan
            | Event::CommandExpanded { .. }
            | Event::Tools(_)
            | Event::ServerSeen(_)
            | Event::Traced { .. }
            | Event::FileChanged(_)
            | Event::SkillActivated(_)
            | Event::AgentCalled(_)
            | Event::Audited { .. }
            | ownership!()
            | hooks!() => {}
        }
    }

    fn print_piece(&mut self, text: &str, max_width: usize) {
        self.streamed = true;
        self.stream(text, max_width);
    }

    /// The complete answer. Most answers came in pieces before.
    fn print_answer(&mut self, answer: &Answer, max_width: usize) {
        if !self.streamed {
            self.stream(&answer.text(), max_width);
        }
        self.end_text(max_width);
    }

    fn print_end(&mut self, max_width: usize) {
        self.end_text(max_width);
        if !self.is_command {
            self.print_note(max_width);
        }
    }

    /// Of the events of a call, only its end and a changed file are printed.
    fn apply_to_call(&mut self, event: &Event, max_width: usize) {
        match event {
            Event::CallEnded { call, .. } => {
                if let Some(call) = self.scene.calls.get(call).cloned() {
                    self.end_call(&call, max_width);
                }
            }
            Event::CallStale { call } => {
                let file = self.scene.calls.get(call).map(|call| block::subject(call, &self.viewer));
                let lines = block::note(NoteWord::CallStale, &file.unwrap_or_default(), "", max_width);
                self.print(BlockKind::Other, lines.unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Prints a header line if another session was shown before this one.
    fn print_header(&mut self, created: &Created, max_width: usize) {
        self.is_command = created.command.is_some();
        if self.previous_task.take().is_some_and(|previous_task| previous_task != created.task) && !self.is_command {
            let place = self.viewer.directory(&created.workspace);
            let text = format!("Session {} · {place} · {}", block::short_id(&created.task), created.model);
            self.print(BlockKind::Other, block::notice(Role::Muted, "·", &text, max_width));
        }
    }

    fn print_thought(&mut self, subject: &str, description: &str, max_width: usize) {
        if self.thoughts == Thoughts::Full {
            let text = format!("{subject}\n{description}");
            let none = Span::new(Role::Muted, "");
            let rows = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let rows = rows.flat_map(|line| paragraph(&none, &none, &[Span::prose(Role::Muted, line)], max_width));
            self.print(BlockKind::Other, rows.collect());
        }
    }

    fn stream(&mut self, text: &str, max_width: usize) {
        let rows = self.markdown.push(text, max_width);
        self.print_text(rows);
    }

    fn print_dropped(&mut self, turn: u32, by: &Source, max_width: usize) {
        let text = format!("{} took back: {}", self.viewer.who(by), self.prompt_of(turn).unwrap_or_default());
        self.print(BlockKind::Other, block::notice(Role::Muted, "·", &text, max_width));
    }

    fn print_artifact(&mut self, artifact: &Artifact, max_width: usize) {
        let name = artifact.name.as_deref().unwrap_or(&artifact.id);
        self.print(BlockKind::Tool, block::notice(Role::Ok, "✓", &format!("Artifact {name}"), max_width));
    }

    fn end_turn(&mut self, end: &End, by: Option<&Source>, max_width: usize) {
        self.end_text(max_width);
        self.print_unfinished(max_width);
        let lines = block::turn_end(end, by, &self.viewer, max_width);
        self.print(BlockKind::Other, lines);
        self.scene.trim(ITEMS_KEPT);
    }

    pub fn prompt_of(&self, turn: u32) -> Option<String> {
        self.scene.items.iter().rev().find_map(|item| match item {
            Item::Prompt { prompt, .. } if prompt.turn == turn => Some(prompt.text.clone()),
            _ => None,
        })
    }

    fn print_prompt(&mut self, turn: u32, max_width: usize) {
        if let Some(Item::Prompt { prompt, .. }) = self.scene.items.last()
            && prompt.turn == turn
        {
            let lines = block::prompt(prompt, &self.viewer, max_width);
            self.print(BlockKind::Other, lines);
        }
    }

    fn print_text(&mut self, rows: Vec<Line>) {
        if !rows.is_empty() {
            let kind =
                if std::mem::replace(&mut self.has_printed_text, true) { BlockKind::MoreText } else { BlockKind::Text };
            self.print(kind, rows);
        }
    }

    fn end_text(&mut self, max_width: usize) {
        let rows = self.markdown.finish(max_width);
        self.print_text(rows);
        if !self.cited.is_empty() {
            let mut lines = vec![Line::new(Role::Muted, "Sources:")];
            let sources = self.cited.iter().flat_map(|text| text.lines());
            lines.extend(sources.map(|source| Line::new(Role::Muted, "  ").add(Role::Muted, source)));
            self.print(BlockKind::Other, lines);
        }
        self.forget_answer();
    }

    fn forget_answer(&mut self) {
        self.markdown = Markdown::default();
        (self.streamed, self.has_printed_text) = (false, false);
        self.cited.clear();
    }

    fn retract(&mut self, max_width: usize) {
        let has_printed_text = self.has_printed_text;
        self.forget_answer();
        if has_printed_text {
            let text = "The answer above broke off; it is asked again and begins anew";
            self.print(BlockKind::Other, block::notice(Role::Warn, "↺", text, max_width));
        }
    }

    fn print_shell(&mut self, max_width: usize) {
        let lines = match (&self.scene.shell, self.scene.items.last()) {
            (Some(shell), _) => block::shell_ended(shell, &self.viewer, max_width),
            // The event with the start of the command was not seen.
            (None, Some(Item::Note { text, .. })) => text.lines().map(block::indented).collect(),
            (None, _) => Vec::new(),
        };
        self.print(BlockKind::Other, lines);
    }

    /// Prints the note that the last record added to the scene.
    fn print_note(&mut self, max_width: usize) {
        if let Some(Item::Note { seq, word, text }) = self.scene.items.last()
            && *seq == self.scene.seq
        {
            let kind = if matches!(word, NoteWord::Attached | NoteWord::CommandPrompted) {
                BlockKind::Tool
            } else {
                BlockKind::Other
            };
            let lines = block::note(*word, text, &self.scene.model, max_width);
            self.print(kind, lines.unwrap_or_default());
        }
    }

    fn end_call(&mut self, call: &Call, max_width: usize) {
        if let Some(Ending::Success { display: Display::Todos { todos }, .. }) = call.ending.as_deref() {
            // A plan is printed when it changes; its call is not.
            if std::mem::replace(&mut self.todos, todos.clone()) != *todos {
                self.print(BlockKind::Other, block::plan(todos, max_width));
            }
            return;
        }
        let lines = block::ended_call(call, &self.viewer, max_width);
        self.print(BlockKind::Tool, lines);
    }

    /// Prints the calls that the end of the turn interrupted.
    fn print_unfinished(&mut self, max_width: usize) {
        let calls: Vec<Call> =
            self.scene.calls.values().filter(|call| call.stage == Stage::Interrupted).cloned().collect();
        for call in calls.iter().filter(|call| call.ended_at == 0 && call.planned.is_some()) {
            let lines = block::ended_call(call, &self.viewer, max_width);
            self.print(BlockKind::Tool, lines);
        }
        // Each is printed once.
        self.scene.calls.retain(|_, call| call.stage != Stage::Interrupted);
    }

    /// The newest words of the answer that are not in a printed row.
    pub fn newest_words(&self, max_width: usize) -> String {
        self.markdown.newest_words(max_width)
    }

    /// The rows of an incomplete table, which are not printed yet.
    pub fn unfinished_table(&self, max_width: usize) -> Vec<Line> {
        self.markdown.unfinished_table(max_width)
    }

    pub fn plan(&self, max_width: usize) -> Vec<Line> {
        if self.todos.is_empty() { Vec::new() } else { block::plan(&self.todos, max_width) }
    }

    /// The text of the last answer.
    pub fn answer(&self) -> Option<&str> {
        self.scene.items.iter().rev().find_map(|item| match item {
            Item::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }

    /// The full output of the newest call, or user's shell command, that has one.
    pub fn output(&self) -> FullOutput {
        let shell = self.scene.shell.as_ref().filter(|shell| shell.output.lines().count() > 1);
        for item in self.scene.items.iter().rev() {
            let call = match item {
                Item::Call { id } => self.scene.calls.get(id),
                Item::Note { word: NoteWord::ShellBegan, text, .. } => {
                    match shell.filter(|shell| shell.command == *text) {
                        Some(shell) => return FullOutput::Lines(block::shell_full_output(shell, &self.viewer)),
                        None => None,
                    }
                }
                _ => None,
            };
            let Some(call) = call else { continue };
            let text = match call.ending.as_deref() {
                Some(Ending::Success {
                    display: Display::Text { text } | Display::Diff { diff: text, .. }, ..
                }) => text,
                Some(Ending::Cancelled { output, .. }) if !output.is_empty() => output,
                _ if !call.output.is_empty() => {
                    return FullOutput::Lines(block::full_output(call, &self.viewer, &call.output));
                }
                _ => continue,
            };
            match text.missing() {
                Some(blob) => return FullOutput::Stored(call.request.call.clone(), blob.clone()),
                None if text.as_str().lines().count() > 1 => {
                    return FullOutput::Lines(block::full_output(call, &self.viewer, text.as_str()));
                }
                None => {}
            }
        }
        FullOutput::Nothing
    }
}
