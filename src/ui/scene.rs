//! The view model of a task, which is computed by folding its records. The terminal and the web console both show it;
//! `gemini-a2a replay --as scene` prints it as JSON.
//!
//! The fold never fails: records of a newer server may name unknown calls, and these records are ignored. The scene depends on no
//! clock, no screen width and no colour. Unlike the state of the task machine it holds what people read and not what only the model
//! needs.

mod call;
mod fold_call;
mod shell;

pub use call::{Call, Stage};
pub use shell::ShellRun;

use crate::base::id::{CallId, ConfigId, ContextId, Seq, TaskId};
use crate::base::text::words::words;
use crate::task::definitions::command_hook::HookReport;
use crate::task::definitions::slash::PromptPart;
use crate::task::log::answer::{Answer, Request, Usage};
use crate::task::log::event::{Created, End, Event, Tries, calls, delayed, hooks, ownership};
use crate::task::log::record::Record;
use crate::task::machine::state::TaskState;
use crate::task::message::{Artifact, Content, Message, Source};
use crate::task::policy::Mode;
use crate::task::push::Health;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scene {
    /// None before the first record.
    pub task: Option<TaskId>,
    pub context: Option<ContextId>,
    pub workspace: String,
    pub trusted: bool,
    /// The model that is asked; after an answer, the model that the API named in it.
    pub model: String,
    pub mode: Mode,
    /// The sequence number of the last record; `at` is its time.
    pub seq: Seq,
    pub at: u64,
    pub state: Option<TaskState>,
    /// Why the task is in this state: the agent's question, or the reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    pub phase: Phase,
    pub turn: u32,
    pub turn_at: u64,
    /// Prompts that wait for their turn, oldest first.
    pub queue: Vec<Prompt>,
    pub items: Vec<Item>,
    pub calls: BTreeMap<CallId, Call>,
    /// The calls that wait for an answer, oldest first.
    pub asked: Vec<CallId>,
    /// The shell command of a user that runs, or that ran last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<ShellRun>,
    pub artifacts: Vec<Artifact>,
    pub usage: Usages,
    /// Why the last turn failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub hooks: BTreeMap<ConfigId, Health>,
    /// The first item of the answer that is under way.
    #[serde(skip)]
    answer_from: usize,
}

/// Token counts: of the last answer, and of all answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Usages {
    pub last: Option<Usage>,
    pub total: Usage,
}

/// What the turn is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    #[default]
    Idle,
    /// The files that the prompt names are read.
    Attaching,
    Command,
    Thinking,
    /// A request has failed and is retried at this time (Unix milliseconds).
    BackedOff {
        until: u64,
        tries: u32,
        reason: String,
    },
    Compacting,
    Tools,
    /// The server was restarted during the turn, which continues when the user asks for it.
    Interrupted,
    Closed,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prompt {
    pub turn: u32,
    pub text: String,
    /// Names or types of the attached files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    pub by: Source,
    /// Whether the model gets the prompt within the turn that is under way.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub steer: bool,
}

/// An entry of the transcript. Entries are in the order in which they began.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Item {
    Prompt {
        seq: Seq,
        #[serde(flatten)]
        prompt: Prompt,
    },
    /// Text of the model; `open` while more of it may come.
    Text {
        seq: Seq,
        text: String,
        open: bool,
    },
    Thought {
        seq: Seq,
        subject: String,
        text: String,
    },
    Call {
        id: CallId,
    },
    Note {
        seq: Seq,
        word: NoteWord,
        text: String,
    },
    Artifact {
        id: String,
    },
    End {
        seq: Seq,
        turn: u32,
        end: End,
        by: Option<Source>,
    },
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum NoteWord {
        Attached = "attached",
        CommandPrompted = "command_prompted",
        Cited = "cited",
        Retracted = "retracted",
        BackedOff = "backed_off",
        FellBack = "fell_back",
        Compacted = "compacted",
        CompactionFailed = "compaction_failed",
        Looped = "looped",
        Nudged = "nudged",
        Declined = "declined",
        Delayed = "delayed",
        CallStale = "call_stale",
        Dropped = "dropped",
        Tuned = "tuned",
        Revoked = "revoked",
        Restored = "restored",
        ShellBegan = "shell_began",
        ShellEnded = "shell_ended",
        Interrupted = "interrupted",
        Resumed = "resumed",
        Closed = "closed",
    }
}

impl Scene {
    /// Folds one record.
    pub fn fold(&mut self, record: &Record) {
        (self.seq, self.at) = (record.seq, record.at);
        let seq = record.seq;
        match &record.event {
            Event::Created(created) => *self = Scene::created(created, record),
            Event::Prompted { message, by, turn, delivery } => {
                self.queue.push(prompt(message, by, *turn, delivery.steer));
            }
            Event::Steered { turn } => self.begin_prompt(*turn, seq),
            Event::Dropped { turn, by } => self.drop_prompt(*turn, by, seq),
            Event::Tuned { mode, model, by, directories: _ } => self.tune(seq, *mode, model.as_deref(), by),
            Event::Revoked { by, .. } => self.note(seq, NoteWord::Revoked, &by.client),
            Event::Restored(restored) => self.note(seq, NoteWord::Restored, &restored.described()),
            Event::ShellBegan { command, by } => self.begin_shell(command, by, record),
            Event::ShellOutput { text } => self.append_shell_output(text),
            Event::ShellEnded { text } => self.end_shell(text, record),
            Event::TurnBegan { turn } => self.begin_turn(*turn, record),
            Event::AttachmentsWanted => self.phase = Phase::Attaching,
            Event::CommandBegan => self.phase = Phase::Command,
            Event::Attached { text, media } if text.is_empty() && media.is_empty() => self.phase = Phase::Thinking,
            Event::Attached { .. } => self.note_before_thinking(seq, NoteWord::Attached, ""),
            Event::CommandExpanded { parts } => self.add_calls(parts.iter().filter_map(PromptPart::request)),
            Event::CommandPrompted { .. } => self.prompt_by_command(seq),
            Event::Tools(_)
            | Event::ServerSeen(_)
            | Event::Traced { .. }
            | Event::FileChanged(_)
            | Event::SkillActivated(_)
            | Event::AgentCalled(_)
            | Event::Audited { .. }
            | ownership!() => {}
            Event::Thought { subject, description } => self.append_thought(seq, subject, description),
            Event::Text { text } => self.append_text(seq, text),
            Event::Cited { text } => self.note(seq, NoteWord::Cited, text),
            Event::Retracted { reason } => self.retract(seq, reason),
            Event::BackedOff { tries, delay_ms, reason } => self.back_off(record, tries, *delay_ms, reason),
            Event::Retried => self.phase = Phase::Thinking,
            Event::FellBack { model, reason } => self.fall_back(seq, model, reason),
            Event::CompactionBegan => self.phase = Phase::Compacting,
            Event::Compacted { .. } => self.note_before_thinking(seq, NoteWord::Compacted, ""),
            Event::CompactionFailed { reason } => self.note_before_thinking(seq, NoteWord::CompactionFailed, reason),
            Event::Looped => self.note(seq, NoteWord::Looped, ""),
            Event::Nudged { text } => self.note_before_thinking(seq, NoteWord::Nudged, text),
            Event::HookRan(report) => self.apply_hook_report(seq, report),
            Event::Reprompted { text } => self.note_before_thinking(seq, NoteWord::Nudged, text),
            Event::Declined { text } => self.note(seq, NoteWord::Declined, text),
            Event::Delayed { place } => self.note(seq, NoteWord::Delayed, &delayed(*place)),
            Event::Answered { answer } => self.answer(seq, answer),
            calls!() => self.fold_call(record),
            Event::Paused => self.state = Some(TaskState::InputRequired),
            Event::ResultsSent => self.send_results(),
            Event::Produced { artifact, append, .. } => self.produce(artifact, *append),
            Event::TurnEnded { turn, end, by } => self.end_turn(*turn, end, by, seq),
            Event::Interrupted { text } => self.interrupt(seq, text),
            Event::Resumed => self.resume(seq),
            Event::Closed { state, text } => self.close((*state).into(), text, seq),
            hooks!() => self.fold_webhook(&record.event),
        }
    }

    /// Folds an event about a webhook.
    fn fold_webhook(&mut self, event: &Event) {
        match event {
            Event::HookSet { target } => drop(self.hooks.insert(target.id.clone(), Health::default())),
            Event::HookDropped { id } => drop(self.hooks.remove(id)),
            Event::HookMoved { id, health, .. } => drop(self.hooks.insert(id.clone(), health.clone())),
            // Other events are not about webhooks.
            _ => {}
        }
    }

    fn created(created: &Created, record: &Record) -> Scene {
        Scene {
            task: Some(created.task.clone()),
            context: Some(created.context.clone()),
            workspace: created.workspace.clone(),
            trusted: created.trusted,
            model: created.model.clone(),
            mode: created.mode,
            seq: record.seq,
            at: record.at,
            state: Some(TaskState::Submitted),
            ..Scene::default()
        }
    }

    fn note(&mut self, seq: Seq, word: NoteWord, text: &str) {
        self.items.push(Item::Note { seq, word, text: text.to_owned() });
    }

    /// Adds a note; afterwards the model is asked.
    fn note_before_thinking(&mut self, seq: Seq, word: NoteWord, text: &str) {
        self.note(seq, word, text);
        self.phase = Phase::Thinking;
    }

    fn begin_prompt(&mut self, turn: u32, seq: Seq) {
        if let Some(at) = self.queue.iter().position(|queued| queued.turn == turn) {
            let prompt = self.queue.remove(at);
            self.items.push(Item::Prompt { seq, prompt });
        }
    }

    /// A slash command was expanded into a prompt: adds a note with the name of the command.
    fn prompt_by_command(&mut self, seq: Seq) {
        let first_word = self.items.iter().rev().find_map(|item| match item {
            Item::Prompt { prompt, .. } => prompt.text.split_whitespace().next(),
            _ => None,
        });
        let name = first_word.filter(|word| word.starts_with('/')).unwrap_or_default().to_owned();
        self.note_before_thinking(seq, NoteWord::CommandPrompted, &name);
    }

    fn drop_prompt(&mut self, turn: u32, by: &Source, seq: Seq) {
        self.begin_prompt(turn, seq);
        self.note(seq, NoteWord::Dropped, &by.client);
    }

    fn tune(&mut self, seq: Seq, mode: Option<Mode>, model: Option<&str>, by: &Source) {
        self.mode = mode.unwrap_or(self.mode);
        self.model = model.map_or_else(|| std::mem::take(&mut self.model), str::to_owned);
        self.note(seq, NoteWord::Tuned, &by.client);
    }

    fn begin_turn(&mut self, turn: u32, record: &Record) {
        self.begin_prompt(turn, record.seq);
        (self.turn, self.turn_at) = (turn, record.at);
        (self.state, self.text, self.error) = (Some(TaskState::Working), None, None);
        self.phase = Phase::Thinking;
        self.answer_from = self.items.len();
    }

    fn append_thought(&mut self, seq: Seq, subject: &str, description: &str) {
        match self.items.last_mut() {
            Some(Item::Thought { subject: last, text, .. }) if subject.is_empty() || last == subject => {
                text.push_str(description);
            }
            _ => {
                let (subject, text) = (subject.to_owned(), description.to_owned());
                self.items.push(Item::Thought { seq, subject, text });
            }
        }
    }

    /// The text of the answer that is under way. Notes may follow it in the list.
    fn open_text(&mut self) -> Option<(&mut String, &mut bool)> {
        self.items[self.answer_from..].iter_mut().find_map(|item| match item {
            Item::Text { text, open, .. } if *open => Some((text, open)),
            _ => None,
        })
    }

    fn append_text(&mut self, seq: Seq, piece: &str) {
        match self.open_text() {
            Some((text, _)) => text.push_str(piece),
            None => self.items.push(Item::Text { seq, text: piece.to_owned(), open: true }),
        }
    }

    /// Removes the text, the thoughts and the sources of the answer that is under way.
    fn void_answer(&mut self) {
        let of_answer = |item: &mut Item| match item {
            Item::Text { .. } | Item::Thought { .. } | Item::Note { word: NoteWord::Cited, .. } => true,
            Item::Prompt { .. } | Item::Call { .. } | Item::Note { .. } | Item::Artifact { .. } | Item::End { .. } => {
                false
            }
        };
        self.items.extract_if(self.answer_from.., of_answer).for_each(drop);
    }

    fn retract(&mut self, seq: Seq, reason: &str) {
        self.void_answer();
        self.note(seq, NoteWord::Retracted, reason);
    }

    /// Notes that a request is retried. The note replaces that of the retry before.
    fn back_off(&mut self, record: &Record, tries: &Tries, delay_ms: u64, reason: &str) {
        if self.items.len() > self.answer_from {
            self.items.pop_if(|last| matches!(last, Item::Note { word: NoteWord::BackedOff, .. }));
        }
        self.note(record.seq, NoteWord::BackedOff, reason);
        let (until, tries) = (record.at.saturating_add(delay_ms), tries.failed + tries.broken);
        self.phase = Phase::BackedOff { until, tries, reason: reason.to_owned() };
    }

    fn fall_back(&mut self, seq: Seq, model: &str, reason: &str) {
        self.void_answer();
        self.model = model.to_owned();
        self.note_before_thinking(seq, NoteWord::FellBack, reason);
    }

    fn answer(&mut self, seq: Seq, answer: &Answer) {
        let whole = answer.text();
        match self.open_text() {
            Some((text, open)) => (*text, *open) = (whole, false),
            None if whole.is_empty() => {}
            None => self.items.push(Item::Text { seq, text: whole, open: false }),
        }
        self.add_calls(answer.calls());
        if let Some(usage) = &answer.usage {
            self.usage.total.add(usage);
            self.usage.last = Some(*usage);
        }
        if let Some(model) = &answer.model {
            self.model = model.clone();
        }
        self.answer_from = self.items.len();
    }

    fn add_calls<'a>(&mut self, requests: impl Iterator<Item = &'a Request>) {
        for request in requests {
            self.items.push(Item::Call { id: request.call.clone() });
            self.calls.insert(request.call.clone(), Call::new(request.clone()));
        }
        self.phase = Phase::Tools;
    }

    fn apply_hook_report(&mut self, seq: Seq, report: &HookReport) {
        if let (Some(id), Some(args)) = (&report.call, &report.args) {
            self.change_call(id, |call| call.request.args = args.clone());
        }
        if !report.text.is_empty() {
            self.note(seq, NoteWord::Declined, &report.text);
        }
    }

    fn send_results(&mut self) {
        self.state = Some(TaskState::Working);
        self.phase = Phase::Thinking;
        self.answer_from = self.items.len();
    }

    fn produce(&mut self, artifact: &Artifact, append: bool) {
        match self.artifacts.iter_mut().find(|known| known.id == artifact.id) {
            Some(known) if append => known.append(artifact),
            Some(known) => *known = artifact.clone(),
            None => {
                self.items.push(Item::Artifact { id: artifact.id.clone() });
                self.artifacts.push(artifact.clone());
            }
        }
    }

    fn interrupt(&mut self, seq: Seq, text: &str) {
        self.note(seq, NoteWord::Interrupted, text);
        self.phase = Phase::Interrupted;
        (self.state, self.text) = (Some(TaskState::InputRequired), Some(text.to_owned()));
    }

    fn resume(&mut self, seq: Seq) {
        self.note(seq, NoteWord::Resumed, "");
        self.phase = Phase::Tools;
        (self.state, self.text) = (Some(TaskState::Working), None);
    }

    fn end_turn(&mut self, turn: u32, end: &End, by: &Option<Source>, seq: Seq) {
        // The turn of an empty prompt ends without having begun.
        self.begin_prompt(turn, seq);
        self.close_open_items();
        self.turn = turn;
        self.phase = Phase::Idle;
        self.error = None;
        (self.state, self.text) = match end {
            End::Done | End::Nothing | End::Refused => (Some(TaskState::InputRequired), None),
            End::Asked(text) | End::Interrupted(text) => (Some(TaskState::InputRequired), Some(text.clone())),
            End::NeedsAuth(text) => (Some(TaskState::AuthRequired), Some(text.clone())),
            End::Failed(text) => {
                self.error = Some(text.clone());
                (Some(TaskState::InputRequired), Some(text.clone()))
            }
        };
        self.items.push(Item::End { seq, turn, end: end.clone(), by: by.clone() });
    }

    /// The turn is over: closes the open text and marks unfinished calls as interrupted.
    fn close_open_items(&mut self) {
        if let Some((_, open)) = self.open_text() {
            *open = false;
        }
        self.answer_from = self.items.len();
        self.asked.clear();
        for call in self.calls.values_mut().filter(|call| !call.is_over()) {
            call.stage = Stage::Interrupted;
        }
    }

    fn close(&mut self, state: TaskState, text: &Option<String>, seq: Seq) {
        self.close_open_items();
        for prompt in std::mem::take(&mut self.queue) {
            self.items.push(Item::Prompt { seq, prompt });
            self.note(seq, NoteWord::Dropped, "");
        }
        self.note(seq, NoteWord::Closed, state.word());
        self.phase = Phase::Closed;
        (self.state, self.text) = (Some(state), text.clone());
    }

    /// Drops the oldest items, with their calls, until at most `max_items` are left. For a terminal, which has printed them already.
    pub fn trim(&mut self, max_items: usize) {
        let cut = self.items.len().saturating_sub(max_items).min(self.answer_from);
        for item in self.items.drain(..cut) {
            match item {
                Item::Call { id } => drop(self.calls.remove(&id)),
                Item::Artifact { id } => self.artifacts.retain(|artifact| artifact.id != id),
                Item::Prompt { .. }
                | Item::Text { .. }
                | Item::Thought { .. }
                | Item::Note { .. }
                | Item::End { .. } => {}
            }
        }
        self.answer_from -= cut;
    }
}

fn prompt(message: &Message, by: &Source, turn: u32, steer: bool) -> Prompt {
    let files = message.parts.iter().filter_map(|part| match &part.content {
        Content::Text(_) | Content::Data(_) => None,
        Content::Uri(uri) => Some(part.filename.clone().unwrap_or_else(|| uri.clone())),
        Content::Bytes(_) => {
            let name = part.filename.clone().or_else(|| part.media_type.clone());
            Some(name.unwrap_or_else(|| "a file".into()))
        }
    });
    Prompt { turn, text: message.text().into_owned(), files: files.collect(), by: by.clone(), steer }
}

#[cfg(test)]
mod tests;
