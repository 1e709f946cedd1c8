//! Messages: a prompt, answers to questions, or both. A message goes to a task, which may be created for it. The client gets a
//! stream of the turn, waits for its end, or gets an answer at once.

use crate::a2a::{self, Begins, Binding, Ends, SnapshotOptions};
use crate::base::clock::Now;
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::Core;
use crate::core::compute::{Computed, Extent};
use crate::core::readers::subscription::{First, FirstBody, Intent, Kind, Role, Until};
use crate::core::requests::Caller;
use crate::core::requests::answer::explain;
use crate::core::tasks::create_task::NewTaskOptions;
use crate::core::tasks::loaded_task::Mark;
use crate::core::timers::Timer;
use crate::task::answer_words::{self, Meaning};
use crate::task::call::{Disconnect, Durability, Mode, Say};
use crate::task::fault::Fault;
use crate::task::log::event::Event;
use crate::task::machine::decide::{Decision, Input};
use crate::task::machine::state::State;
use crate::task::message::{self, Message, Part};

/// The task that a message is for.
struct TargetTask {
    task: TaskId,
    /// It was created for the message.
    is_new: bool,
    /// Why a new task cannot run.
    failure: Option<String>,
}

/// How a message is to be answered.
struct MessageRequest<'a> {
    caller: &'a Caller,
    say: &'a Say,
    until: Until,
    /// Its task was created for it.
    is_new: bool,
    /// It waits until questions are answered that it does not answer.
    is_blocked: bool,
    /// The first event that is recorded of it is the prompt.
    begins_with_prompt: bool,
}

impl<'a> MessageRequest<'a> {
    fn new(caller: &'a Caller, say: &'a Say, state: &State, decision: &Decision, is_new: bool) -> MessageRequest<'a> {
        let ends = match say.mode {
            Mode::Stream => caller.form.dialect.prompt_stream.1,
            Mode::Wait => caller.form.dialect.prompt_waits,
            Mode::Now => Ends::WithTurn,
        };
        MessageRequest {
            caller,
            say,
            until: Until { turn: turn_of(decision, state), floor: state.seq.next(), ends },
            is_new,
            // A prompt without answers is queued while the task waits for answers, and is answered at once.
            is_blocked: state.paused && !decision.events.iter().any(is_answer),
            begins_with_prompt: matches!(decision.events.first(), Some(Event::Prompted { .. })),
        }
    }
}

impl Core {
    /// Carries out a message; `options` say how a task is created for it, if it names none.
    pub(in crate::core) fn send_message(
        &mut self,
        caller: &Caller,
        mut say: Say,
        mut options: NewTaskOptions,
        now: Now,
    ) -> Result<(), Fault> {
        self.room_for_sub(say.task.as_ref())?;
        if let Some(text) = self.scripted_message(&say, &options) {
            self.reply_with_message(caller, &say, &text, now);
            return Ok(());
        }
        let servers = self.named_servers(caller, say.task.as_ref(), &say.create.settings)?;
        options.servers.clone_from(&servers);
        if let Some(task) = &say.task {
            let key = self.client_key(Some(task), &say.create.settings)?;
            self.pass_key(task, key);
        }
        let TargetTask { task, is_new, failure } = self.target_task(&say, options, caller, now)?;
        let decided = self.decide_message(caller, &task, &mut say, now);
        let decision = decided.map_err(|fault| {
            if is_new {
                self.discard_task(&task, now);
            }
            a2a::with_option_member(&say.said.message, fault)
        })?;
        self.pass_servers(&task, servers);
        let state = &self.tasks[&task].state;
        let prompt = decision.events.iter().position(|event| matches!(event, Event::Prompted { .. }));
        let prompt = prompt.map(|at| Seq(state.seq.0 + 1 + at as u64));
        let request = MessageRequest::new(caller, &say, state, &decision, is_new);
        let (until, is_blocked) = (request.until, request.is_blocked);
        // The subscription begins before anything is recorded, so that the prompt need not be read from the journal again.
        self.hide_own(caller, &task, prompt);
        let reader = self.subscribe_sender(&request, &task, now);
        self.commit(&task, decision, now);
        self.hold_until_synced(reader);
        if let (Mode::Stream, Some(reader)) = (say.mode, reader) {
            self.open_stream(reader, &request);
        }
        match failure {
            None => self.advance(&task, now),
            Some(text) => drop(self.drive(&task, Input::Fail(text), now)),
        }
        if say.mode == Mode::Now || (say.mode == Mode::Wait && is_blocked && until.ends(until.floor, Mark::Pause)) {
            let reply = self.answer_prompt(caller, &task, say.history);
            self.set_intent(reply, Intent::Change);
            self.hold_until_synced(reply);
        }
        Ok(())
    }

    /// The named task, or a new one.
    fn target_task(
        &mut self,
        say: &Say,
        options: NewTaskOptions,
        caller: &Caller,
        now: Now,
    ) -> Result<TargetTask, Fault> {
        if let Some(task) = say.task.clone() {
            let context = &self.tasks[&task].state.created.context;
            if say.create.context.as_ref().is_some_and(|given| given != context) {
                let what = "does not belong to this task; leave it out or use the task's own.";
                return Err(Fault::field("message.contextId", what));
            }
            return Ok(TargetTask { task, is_new: false, failure: None });
        }
        let (task, failure) = self.create_task(&say.create, options, caller.partition(), now)?;
        Ok(TargetTask { task, is_new: true, failure })
    }

    /// Decides about the message. Its webhook is set before the agent begins.
    fn decide_message(&mut self, caller: &Caller, task: &TaskId, say: &mut Say, now: Now) -> Result<Decision, Fault> {
        let mut decision = match say.push.take() {
            Some(wish) => self.decide_webhook(task, wish, &caller.form, now)?,
            None => Decision::default(),
        };
        let prompt = Input::Say { said: say.said.clone(), by: caller.by.clone() };
        let prompted = self.decide(task, prompt).map_err(|refusal| explain(task, refusal))?;
        decision.events.extend(prompted.events);
        decision.effects.extend(prompted.effects);
        Ok(decision)
    }

    /// Subscribes the client of a message. None: there is nothing to wait for.
    fn subscribe_sender(&mut self, request: &MessageRequest<'_>, task: &TaskId, now: Now) -> Option<Key> {
        let MessageRequest { caller, say, until, is_blocked, .. } = *request;
        let mut sub = self.sub(caller, task, self.tasks[task].state.seq, until);
        match say.mode {
            Mode::Stream => {
                if request.begins_with_prompt && caller.form.dialect.prompt_stream.0 == Begins::AfterPrompt {
                    sub.cursor = sub.cursor.next();
                }
                if self.settings.request_policy.disconnect == Disconnect::Aborts && sub.view.is_coder() {
                    sub.aborts_turn = Some(until.turn);
                }
                self.begin_stream(sub, now)
            }
            // A call that waits for more than the open questions is not answered by them.
            Mode::Wait if !is_blocked || !until.ends(until.floor, Mark::Pause) => {
                if caller.form.session.is_some() {
                    self.show_in_session(caller, task);
                }
                sub.kind = Kind::Once { history: say.history };
                sub.intent = Intent::Change;
                let key = self.subscribe(sub)?;
                if let Some(wait) = self.settings.request_policy.blocking_timeout_ms
                    && until.ends(until.floor, Mark::Pause)
                {
                    self.timers.arm(now.mono_ms + wait, Timer::Waiting(key));
                }
                Some(key)
            }
            Mode::Wait | Mode::Now => None,
        }
    }

    /// A socket that is shown the prompts of others is not shown its own.
    fn hide_own(&mut self, caller: &Caller, task: &TaskId, prompt: Option<Seq>) {
        let stream = (caller.form.dialect.binding == Binding::Acp).then(|| self.stream_of(caller.conn, task)).flatten();
        if let Some(sub) = stream.and_then(|stream| self.readers.get_mut(stream)) {
            let sent = sub.cursor;
            sub.hidden.retain(|seq| *seq > sent);
            sub.hidden.extend(prompt);
        }
    }

    /// The task of a slash command is shown in the session in which it was typed.
    fn show_in_session(&mut self, caller: &Caller, task: &TaskId) {
        let until = Until { turn: 0, floor: Seq(0), ends: Ends::WithTask };
        // The command line is not shown to the client that sent it.
        let mut sub = self.sub(caller, task, self.tasks[task].state.seq.next(), until);
        sub.role = Role::Watch;
        self.subscribe(sub);
    }

    /// Sets the first frame of a stream that answers a prompt.
    fn open_stream(&mut self, reader: Key, request: &MessageRequest<'_>) {
        let MessageRequest { caller, say, until, .. } = *request;
        let Some(sub) = self.readers.get_mut(reader) else {
            return;
        };
        // A stream that would end with the open questions has nothing to wait for.
        let last = request.is_blocked && until.ends(until.floor, Mark::Pause);
        let state = &self.tasks[&sub.task].state;
        let whole = match caller.form.dialect.prompt_stream.0 {
            Begins::Snapshot => true,
            Begins::SnapshotIfCreated => request.is_new,
            Begins::AfterPrompt | Begins::NextEvent => false,
        };
        let body = match whole {
            true => FirstBody::Encoding,
            false if last => match a2a::current_status(sub.view, state, &self.tools.shown) {
                Some(frame) => FirstBody::Frame(frame.into()),
                None => FirstBody::Nothing,
            },
            false => return,
        };
        sub.first = Some(First { seq: state.seq, body, last });
        if whole {
            sub.cursor = state.seq;
            let persisted = self.settings.switches.emit_persisted_state;
            let options = SnapshotOptions { persisted, ..SnapshotOptions::newest(say.history) };
            let state = state.clone();
            self.encode(reader, &state, Extent::of(say.history), move |form, view, state| {
                Computed::Frame(a2a::opening(form, view, state, options).into())
            });
        }
    }

    /// Holds an acknowledgement back until the events that it acknowledges are flushed, if the operator has chosen that.
    fn hold_until_synced(&mut self, reader: Option<Key>) {
        let sub = reader.and_then(|key| self.readers.get_mut(key));
        if let (Durability::Strict, Some(sub)) = (self.settings.request_policy.durability, sub) {
            sub.required_sync = self.tasks[&sub.task].state.seq;
        }
    }

    /// The message with which a scripted agent answers instead of a task.
    fn scripted_message(&self, say: &Say, options: &NewTaskOptions) -> Option<String> {
        let creates = say.task.is_none() && options.command.is_none();
        self.settings.script.as_ref().filter(|_| creates)?.bare_reply(&say.said.message)
    }

    /// Answers with a message, without a task.
    pub(in crate::core) fn reply_with_message(&mut self, caller: &Caller, say: &Say, text: &str, now: Now) {
        let Caller { conn, form, .. } = caller;
        let context = say.create.context.clone().unwrap_or_else(|| self.settings.entropy.uuid().into());
        let message = Message::new(self.settings.entropy.uuid(), message::Role::Agent, vec![Part::text(text)]);
        let body = a2a::message(a2a::view(form, None), &message, &context);
        if say.mode == Mode::Stream {
            self.stream_once(*conn, form, &a2a::prefix(form), &body.into(), now);
        } else {
            self.answer(*conn, &a2a::result(form, body), now);
        }
    }

    /// Finds out whether the text of a message answers a question of the task or of a task in the context that it names, for views in which
    /// clients answer in words. Then the message becomes that answer. If it is not clear which question it answers, returns the open
    /// questions as text.
    pub(in crate::core) fn match_answer(&self, say: &mut Say, caller: &Caller) -> Option<String> {
        let form = &caller.form;
        let candidates: Vec<&TaskId> = match (&say.task, &say.create.context) {
            (Some(task), _) => vec![task],
            (None, Some(context)) => self.tasks.of_context(&caller.partition(), context).iter().collect(),
            (None, None) => return None,
        };
        let loaded = candidates.into_iter().filter_map(|task| self.tasks.get(task));
        // Questions that are not on disk yet were shown to nobody.
        let states = loaded.filter(|loaded| loaded.is_shown()).map(|loaded| loaded.state.as_ref());
        let words = |state: &&State| a2a::view(form, Some(&state.created)).answers_in_words();
        let states = states.filter(|state| self.sees(caller, &state.created.task)).filter(words);
        let states: Vec<&State> = states.collect();
        match answer_words::meaning(&states, &say.said) {
            Meaning::Prompt => None,
            Meaning::Unclear => Some(a2a::questions(states)),
            Meaning::Answer(state, said) => {
                say.task = Some(state.created.task.clone());
                say.said = said;
                None
            }
        }
    }
}

/// The turn that a request waits for: that of its prompt, or the present one if it only answers questions.
fn turn_of(decision: &Decision, state: &State) -> u32 {
    let prompted = decision.events.iter().find_map(|event| match event {
        Event::Prompted { turn, .. } => Some(*turn),
        _ => None,
    });
    prompted.unwrap_or(state.turn.number)
}

fn is_answer(event: &Event) -> bool {
    matches!(event, Event::CallAnswered { .. } | Event::CallReplied { .. })
}
