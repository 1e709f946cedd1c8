//! Applies one event to the state. This is the only code that changes a state. It never refuses an event and decides nothing, because
//! `decide` has done that. Replaying a journal through it gives the same state.

mod calls;

use crate::base::id::{CallId, ConfigId, Seq};
use crate::limits::PROMPT_KEYS;
use crate::task::definitions::slash::PromptPart;
use crate::task::log::answer::{Answer, Usage};
use crate::task::log::blob::{BlobRef, FileChange};
use crate::task::log::event::{Created, Delivery, End, Event, ToolSet, Tries, calls, ownership};
use crate::task::log::long_text::LongText;
use crate::task::log::media::Media;
use crate::task::log::ownership::Ownership;
use crate::task::log::record::Record;
use crate::task::log::server::{ServerSeen, ServerStatus};
use crate::task::machine::announces::announces;
use crate::task::machine::loops::FENCE;
use crate::task::machine::state::{
    CallState, Item, Phase, Queued, ShellRun, State, Status, Step, Summary, TaskState, Turn, Utterance,
};
use crate::task::message::{Artifact, Message, Source};
use crate::task::policy::{Mode, Rule};
use crate::task::push::{self, Health, Hook, Target};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

impl State {
    /// The state after a task's first event.
    pub fn new(created: Arc<Created>, record: &Record) -> State {
        State {
            seq: record.seq,
            at: record.at,
            status: Status { state: TaskState::Submitted, at: record.at, text: None, seq: record.seq },
            announced: TaskState::Submitted,
            phase: Phase::Idle,
            turn: Turn::default(),
            queue: VecDeque::new(),
            last_turn: 0,
            keys: VecDeque::new(),
            calls: Vec::new(),
            paused: false,
            suspended: false,
            questioned: false,
            utterance: Utterance::default(),
            thoughts: Vec::new(),
            history: Vec::new(),
            summary: None,
            hidden: Vec::new(),
            artifacts: Vec::new(),
            mode: created.mode,
            always: Vec::new(),
            skills: Arc::default(),
            threads: Arc::default(),
            ownership: Ownership::default(),
            shell: None,
            shell_results: Vec::new(),
            total: Usage::default(),
            context_tokens: 0,
            tools: None,
            servers: Arc::default(),
            requested_model: created.model.as_str().into(),
            requests: 0,
            incompressible: false,
            model: created.model.as_str().into(),
            workspace: created.workspace.as_str().into(),
            directories: Arc::default(),
            hooks: Vec::new(),
            blobs: BTreeMap::new(),
            message_bytes: 0,
            created,
        }
    }

    /// Adds a record to the fold of a log. None: the record is out of place, because a log begins with `Created` and has no other one.
    pub fn advance<'a>(state: &'a mut Option<State>, record: &Record) -> Option<&'a mut State> {
        match (&record.event, state) {
            (Event::Created(created), none @ None) => Some(none.insert(State::new(created.clone(), record))),
            (Event::Created(_), Some(_)) | (_, None) => None,
            (_, Some(state)) => {
                state.apply(record);
                Some(state)
            }
        }
    }

    /// The time to record for an event: never before the last one, and strictly later for a new status.
    pub fn stamp(&self, event: &Event, unix_ms: u64) -> u64 {
        let least = if announces(event) { self.status.at + 1 } else { 0 };
        unix_ms.max(self.at).max(least)
    }

    pub fn apply(&mut self, record: &Record) {
        let before = self.status.state;
        (self.seq, self.at) = (record.seq, record.at);
        self.fold(record);
        if !self.hooks.is_empty()
            && let Some(due) = push::delivery_for(self, before, record)
        {
            self.hooks.iter_mut().for_each(|hook| hook.queue(&due));
        }
    }

    fn fold(&mut self, record: &Record) {
        match &record.event {
            Event::Created(_) => unreachable!("a log begins with Created and has one"),
            Event::Prompted { message, by, turn, delivery } => self.queue_prompt(message, by, *turn, delivery),
            Event::Steered { turn } => self.steer(*turn),
            Event::Dropped { turn, .. } => drop(self.take_queued(*turn)),
            Event::Tuned { mode, model, directories, .. } => {
                self.tune(*mode, model.as_deref());
                if let Some(directories) = directories {
                    self.directories = Arc::new(directories.clone());
                }
            }
            Event::ShellBegan { command, .. } => self.begin_shell(command, record),
            Event::ShellEnded { text } => self.end_shell(text),
            Event::TurnBegan { turn } => self.begin_turn(*turn, record),
            Event::AttachmentsWanted => self.phase = Phase::Working { job: record.seq, step: Step::Attach },
            Event::Attached { text, media } => self.attach(text, media, record),
            Event::CommandBegan => self.phase = Phase::Working { job: record.seq, step: Step::Command },
            Event::CommandExpanded { parts } => self.expand_command(parts, record),
            Event::CommandPrompted { text, media } => self.prompt_by_command(text, media, record),
            Event::Tools(set) => self.declare_tools(set),
            Event::ServerSeen(seen) => self.record_server(seen),
            Event::Traced { trace } => self.turn.trace = Some(trace.clone()),
            Event::Thought { subject, description } => self.add_thought(subject, description),
            Event::Cited { .. } | Event::Declined { .. } | Event::Delayed { .. } | Event::ShellOutput { .. } => {}
            Event::Revoked { rules, .. } => self.always.retain(|rule| !rules.contains(rule)),
            Event::Restored(restored) => self.restore(restored, record.seq),
            Event::Text { text } => self.utterance.push(text, record),
            Event::Retracted { .. } => self.retract(),
            Event::BackedOff { tries, delay_ms, reason } => self.back_off(*tries, *delay_ms, reason, record),
            Event::Retried => self.think(record),
            Event::FellBack { model, .. } => self.fall_back(model, record),
            Event::CompactionBegan => self.phase = Phase::Working { job: record.seq, step: Step::Compact },
            Event::Compacted { summary, items } => self.compact(summary, *items, record),
            Event::CompactionFailed { .. } => self.fail_compaction(record),
            Event::Looped => self.count_repetition(),
            Event::Nudged { text } => self.nudge(text, record),
            Event::Answered { answer } => self.take_answer(answer, record),
            calls!() => self.fold_call(record),
            Event::FileChanged(change) => self.change_file(change),
            Event::HookRan(report) => self.apply_hook_report(report),
            Event::Reprompted { text } => self.reprompt(text, record),
            Event::SkillActivated(skill) => skill.add_to(Arc::make_mut(&mut self.skills)),
            Event::AgentCalled(thread) => thread.add_to(Arc::make_mut(&mut self.threads)),
            Event::Audited { .. } => {}
            ownership!() => self.ownership.fold(&record.event),
            Event::Paused => self.pause(record),
            Event::ResultsSent => self.send_results(record),
            Event::Produced { artifact, append, .. } => self.produce(artifact, *append),
            Event::TurnEnded { turn, end, .. } => self.end_turn(*turn, end, record),
            Event::Interrupted { text } => self.suspend(text, record),
            Event::Resumed => self.resume(record),
            Event::Closed { state, text } => self.close((*state).into(), text, record),
            Event::HookSet { target } => self.set_hook(target, record),
            Event::HookDropped { id } => self.hooks.retain(|hook| hook.target.id != *id),
            Event::HookMoved { id, upto, health } => self.move_hook(id, *upto, health),
        }
    }

    fn queue_prompt(&mut self, message: &Arc<Message>, by: &Source, turn: u32, delivery: &Delivery) {
        self.last_turn = turn;
        self.add_stored(message.stored());
        self.message_bytes += message.stored().map(|blob| blob.bytes).sum::<u64>();
        self.queue.push_back(Queued {
            turn,
            message: message.clone(),
            steer: delivery.steer,
            compress: delivery.compress,
            credential: by.credential.clone(),
        });
        if let Some(key) = &delivery.key {
            self.keys.push_back((by.client.clone(), key.clone()));
            self.keys.drain(..self.keys.len().saturating_sub(PROMPT_KEYS));
        }
    }

    fn take_queued(&mut self, turn: u32) -> Option<Queued> {
        let at = self.queue.iter().position(|queued| queued.turn == turn)?;
        self.queue.remove(at)
    }

    fn steer(&mut self, turn: u32) {
        let queued = self.take_queued(turn).expect("a queued prompt steers");
        self.history.push(Arc::new(Item::Steered(queued.message.clone())));
        self.turn.prompt = Some(queued.message);
    }

    fn tune(&mut self, mode: Option<Mode>, model: Option<&str>) {
        self.mode = mode.unwrap_or(self.mode);
        if let Some(model) = model {
            self.requested_model = model.into();
            self.model = self.requested_model.clone();
        }
    }

    fn end_shell(&mut self, text: &str) {
        let Some(ShellRun { command, .. }) = self.shell.take() else {
            return;
        };
        let text = format!("I ran this command myself:\n```\n{command}\n```\nIts result:\n```\n{text}\n```");
        self.shell_results.push(Arc::new(Item::Nudge(text.into())));
    }

    fn begin_turn(&mut self, turn: u32, record: &Record) {
        let queued = self.queue.pop_front().expect("a turn begins with a queued prompt");
        assert_eq!(queued.turn, turn, "turns begin in the order of their prompts");
        self.history.append(&mut self.shell_results);
        if !queued.compress {
            self.history.push(Arc::new(Item::Said(queued.message.clone())));
        }
        self.turn = Turn {
            number: turn,
            began_at: record.at,
            prompt: Some(queued.message),
            credential: queued.credential,
            compress: queued.compress,
            ..Turn::default()
        };
        self.think(record);
        self.announce(record, TaskState::Working, None);
    }

    /// A model request begins with this record.
    fn think(&mut self, record: &Record) {
        self.requests += 1;
        self.thoughts.clear();
        self.phase = Phase::Working { job: record.seq, step: Step::Think };
    }

    /// Adds the attachments of a prompt, or the prompt that a slash command made, to the history.
    fn attach(&mut self, text: &LongText, media: &[Media], record: &Record) {
        self.add_stored_texts([text]);
        self.add_stored_media(media);
        if !text.is_empty() {
            let mut text = text.clone();
            text.unload();
            self.history.push(Arc::new(Item::Nudge(text)));
        }
        if !media.is_empty() {
            self.history.push(Arc::new(Item::Media(media.to_vec())));
        }
        self.phase = Phase::Working { job: record.seq, step: Step::Think };
    }

    fn expand_command(&mut self, parts: &Arc<[PromptPart]>, record: &Record) {
        self.calls = parts.iter().filter_map(PromptPart::request).cloned().map(CallState::named).collect();
        self.turn.expansion = Some(parts.clone());
        self.phase = Phase::Working { job: record.seq, step: Step::Prepare };
    }

    fn begin_shell(&mut self, command: &str, record: &Record) {
        self.shell = Some(ShellRun { job: record.seq, command: command.to_owned() });
    }

    fn prompt_by_command(&mut self, text: &str, media: &[Media], record: &Record) {
        self.keep_results();
        self.attach(&text.into(), media, record);
    }

    fn declare_tools(&mut self, set: &Arc<ToolSet>) {
        self.tools = Some(set.clone());
        self.add_stored([&set.declarations]);
    }

    fn record_server(&mut self, seen: &ServerSeen) {
        let servers = Arc::make_mut(&mut self.servers);
        servers.retain(|known| known.server != seen.server);
        if seen.status != ServerStatus::Removed {
            let at = servers.partition_point(|known| known.server < seen.server);
            servers.insert(at, seen.clone());
        }
    }

    fn add_thought(&mut self, subject: &str, description: &str) {
        let line = [subject, description].into_iter().find_map(|text| text.lines().next());
        self.thoughts.extend(line.map(str::to_owned));
    }

    fn retract(&mut self) {
        self.utterance = Utterance::default();
        self.thoughts.clear();
    }

    fn back_off(&mut self, tries: Tries, delay_ms: u64, reason: &str, record: &Record) {
        self.turn.tries = tries;
        self.phase = Phase::Backoff { job: record.seq, delay_ms, reason: reason.into() };
    }

    fn fall_back(&mut self, model: &str, record: &Record) {
        self.turn.tried.push(self.requested_model.to_string());
        self.requested_model = model.into();
        self.model = self.requested_model.clone();
        self.turn.tries = Tries { since: self.turn.tries.since, ..Tries::default() };
        self.utterance = Utterance::default();
        self.think(record);
    }

    fn compact(&mut self, summary: &Arc<str>, items: usize, record: &Record) {
        self.summary = Some(Summary { text: summary.clone(), items: items.min(self.history.len()) });
        self.context_tokens = 0;
        self.turn.compacted = Some(self.turn.round);
        self.think(record);
    }

    fn fail_compaction(&mut self, record: &Record) {
        // A summary that a user requested may fail only because the conversation is still short.
        self.incompressible |= !self.turn.compress;
        self.think(record);
    }

    fn count_repetition(&mut self) {
        self.turn.repetitions += 1;
        self.turn.call_checksums.clear();
    }

    fn nudge(&mut self, text: &str, record: &Record) {
        self.turn.repetitions += 1;
        self.history.push(Arc::new(Item::Nudge(text.into())));
        self.think(record);
    }

    fn take_answer(&mut self, answer: &Arc<Answer>, record: &Record) {
        self.add_stored(answer.stored_media());
        self.history.push(Arc::new(Item::Answered(answer.clone())));
        self.utterance = Utterance::default();
        self.turn.answers_with_text += usize::from(answer.has_text());
        self.turn.round += 1;
        self.turn.tries = Default::default();
        self.turn.usage = answer.usage.or(self.turn.usage);
        if let Some(usage) = &answer.usage {
            self.total.add(usage);
            self.context_tokens = usage.prompt;
        }
        self.turn.trace = answer.trace.clone().or(self.turn.trace.take());
        if let Some(model) = &answer.model {
            self.model = model.as_str().into();
        }
        if answer.has_calls() {
            self.turn.call_checksums.push(answer.calls_checksum());
        }
        self.calls = answer.calls().cloned().map(CallState::named).collect();
        if self.calls.is_empty() {
            self.phase = Phase::Tools;
        } else {
            self.phase = Phase::Working { job: record.seq, step: Step::Prepare };
            self.announce(record, TaskState::Working, None);
        }
    }

    fn allow_always(&mut self, rules: &[Rule]) {
        for rule in rules {
            if !self.always.contains(rule) {
                self.always.push(rule.clone());
            }
        }
    }

    /// A question was answered, so the task is not paused any more. Its announced state changes only if no other call was running.
    fn leave_pause(&mut self, record: &Record) {
        self.paused = false;
        if self.status.state != TaskState::Working {
            let announced = self.announced;
            self.announce(record, TaskState::Working, None);
            self.announced = announced;
        }
    }

    fn change_file(&mut self, change: &FileChange) {
        // The call may have been stopped and its batch replaced before the event.
        if let Some(call) = self.calls.iter_mut().find(|call| *call.id() == change.call) {
            call.written = Some(change.after.sha256.as_str().into());
        }
        let stored = change.versions().filter(|version| !version.unstored);
        self.blobs.extend(stored.map(|version| (version.sha256.clone(), version.len)));
    }

    fn add_stored_texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a LongText>) {
        self.add_stored(texts.into_iter().filter_map(LongText::blob));
    }

    fn add_stored_media(&mut self, media: &[Media]) {
        self.add_stored(media.iter().filter_map(|media| media.content.blob()));
    }

    /// Records that the log refers to this stored content.
    fn add_stored<'a>(&mut self, stored: impl IntoIterator<Item = &'a BlobRef>) {
        self.blobs.extend(stored.into_iter().map(|blob| (blob.sha256.clone(), blob.bytes)));
    }

    fn pause(&mut self, record: &Record) {
        self.paused = true;
        self.announce(record, TaskState::InputRequired, None);
    }

    fn send_results(&mut self, record: &Record) {
        self.keep_results();
        self.think(record);
        self.announce(record, TaskState::Working, None);
    }

    fn end_turn(&mut self, turn: u32, end: &End, record: &Record) {
        // The turn of a prompt without content ends without having begun.
        if let Some(queued) = self.take_queued(turn) {
            self.history.push(Arc::new(Item::Dropped(queued.message)));
        }
        self.keep_results();
        self.turn.number = turn;
        self.phase = Phase::Idle;
        self.suspended = false;
        self.questioned = matches!(end, End::Asked(_) | End::Interrupted(_));
        self.utterance = Utterance::default();
        self.turn.tries = Default::default();
        self.turn.error = None;
        self.turn.interrupted = matches!(end, End::Interrupted(_));
        let (state, text) = match end {
            End::Done | End::Nothing | End::Refused => (TaskState::InputRequired, None),
            End::Asked(text) | End::Interrupted(text) => (TaskState::InputRequired, Some(text.clone())),
            End::NeedsAuth(text) => (TaskState::AuthRequired, Some(text.clone())),
            End::Failed(text) => {
                self.turn.error = Some(text.clone());
                self.drop_unanswered();
                (TaskState::InputRequired, Some(text.clone()))
            }
        };
        self.announce(record, state, text);
        self.clear_context(record);
    }

    fn suspend(&mut self, text: &str, record: &Record) {
        self.suspended = true;
        self.paused = false;
        self.announce(record, TaskState::InputRequired, Some(text.to_owned()));
    }

    fn resume(&mut self, record: &Record) {
        self.suspended = false;
        self.announce(record, TaskState::Working, None);
    }

    fn close(&mut self, state: TaskState, text: &Option<String>, record: &Record) {
        self.keep_results();
        self.keep_queue();
        self.utterance = Utterance::default();
        self.phase = Phase::Closed;
        self.shell = None;
        self.suspended = false;
        self.announce(record, state, text.clone());
    }

    fn produce(&mut self, artifact: &Artifact, append: bool) {
        match self.artifacts.iter_mut().find(|known| known.id == artifact.id) {
            None => self.artifacts.push(artifact.clone()),
            Some(known) if !append => *known = artifact.clone(),
            Some(known) => known.append(artifact),
        }
    }

    fn announce(&mut self, record: &Record, state: TaskState, text: Option<String>) {
        debug_assert!(
            self.status.state == state || self.status.state.may_become(state),
            "{:?} may not become {state:?}",
            self.status.state
        );
        self.announced = state;
        self.status = Status { state, at: record.at, text, seq: record.seq };
    }

    fn set_hook(&mut self, target: &Arc<Target>, record: &Record) {
        match self.hook_mut(&target.id) {
            Some(hook) => hook.replace(target.clone(), record.seq),
            None => self.hooks.push(Hook::new(target.clone(), record.seq)),
        }
    }

    fn move_hook(&mut self, id: &ConfigId, upto: Seq, health: &Health) {
        self.hook_mut(id).into_iter().for_each(|hook| hook.advance_to(upto, health));
    }

    fn hook_mut(&mut self, id: &ConfigId) -> Option<&mut Hook> {
        self.hooks.iter_mut().find(|hook| hook.target.id == *id)
    }

    fn call_mut(&mut self, id: &CallId) -> &mut CallState {
        let found = self.calls.iter_mut().find(|call| call.id() == id);
        found.expect("events name calls of the current batch")
    }
}

impl Utterance {
    fn push(&mut self, text: &str, record: &Record) {
        self.since.get_or_insert(record.seq);
        // A fence may be split between two pieces.
        let from = self.text.len().saturating_sub(FENCE.len() - 1);
        let from = self.text.floor_char_boundary(from);
        self.text.push_str(text);
        self.fences += self.text[from..].matches(FENCE).count();
    }
}
