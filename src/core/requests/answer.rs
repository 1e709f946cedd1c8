//! How calls are answered: at once, once the log is written up to what the answer shows, or as a stream.

use crate::a2a::{self, Ends, Form, SnapshotOptions};
use crate::base::Shared;
use crate::base::clock::Now;
use crate::base::http::Response;
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::Core;
use crate::core::compute::{Computed, Extent};
use crate::core::connections::connection::Line;
use crate::core::readers::subscription::{Intent, Kind, Reply, Role, Subscription, Until};
use crate::core::requests::Caller;
use crate::core::requests::dispatch::IN_TURN;
use crate::task::fault::{Fault, FaultKind};
use crate::task::form::Wrong;
use crate::task::machine::decide::Refusal;
use crate::task::machine::state::State;
use crate::task::policy;
use std::sync::Arc;

impl Core {
    /// Answers at once, because the answer shows nothing that has to be on disk first.
    pub(in crate::core) fn answer_now(&mut self, conn: Key, response: &Response, now: Now) -> Result<(), Fault> {
        self.answer(conn, response, now);
        Ok(())
    }

    /// Sets what a call that waits for its answer does with its task.
    pub(in crate::core) fn set_intent(&mut self, reply: Option<Key>, intent: Intent) {
        if let Some(sub) = reply.and_then(|key| self.readers.get_mut(key)) {
            sub.intent = intent;
        }
    }

    /// A new subscription of a caller to a task.
    pub(in crate::core) fn sub(&self, caller: &Caller, task: &TaskId, cursor: Seq, until: Until) -> Subscription {
        let form = &caller.form;
        Subscription {
            task: task.clone(),
            conn: caller.conn,
            view: a2a::view(form, self.tasks.get(task).map(|loaded| loaded.state.created.as_ref())),
            form: form.clone(),
            prefix: a2a::frame_prefix(form, task),
            cursor,
            until,
            kind: Kind::Stream,
            role: Role::Call,
            intent: Intent::Read,
            notified: false,
            required_sync: Seq(0),
            aborts_turn: None,
            first: None,
            encoded_bytes: 0,
            cold: None,
            hidden: Vec::new(),
        }
    }

    /// Begins a stream of events as the answer to a request.
    pub(in crate::core) fn begin_stream(&mut self, sub: Subscription, now: Now) -> Option<Key> {
        if let Some(conn) = self.connections.get_mut(sub.conn) {
            conn.stream(&sub.form.echo, now);
        }
        self.connections.count_stream(sub.conn);
        self.subscribe(sub)
    }

    pub(in crate::core) fn answer_after(&mut self, caller: &Caller, task: &TaskId, response: Response) -> Option<Key> {
        self.reply_after(caller, task, Reply::Answer(response))
    }

    /// Answers with the task as it is now, once that is on disk.
    pub(super) fn answer_task(&mut self, caller: &Caller, task: &TaskId, history: Option<usize>) -> Option<Key> {
        let key = self.reply_after(caller, task, Reply::Encoding)?;
        let state = self.tasks[task].state.clone();
        self.encode(key, &state, Extent::of(history), move |form, _, state| {
            Computed::Answer(a2a::task(form, state, SnapshotOptions::newest(history)))
        });
        Some(key)
    }

    /// Answers a prompt with the task as it is now, once that is on disk.
    pub(in crate::core) fn answer_prompt(
        &mut self,
        caller: &Caller,
        task: &TaskId,
        history: Option<usize>,
    ) -> Option<Key> {
        let key = self.reply_after(caller, task, Reply::Encoding)?;
        let state = self.tasks[task].state.clone();
        self.encode_prompted(key, &state, history);
        Some(key)
    }

    /// Encodes the answer to a prompt.
    pub(in crate::core) fn encode_prompted(&mut self, key: Key, state: &Arc<State>, history: Option<usize>) {
        let tools = self.tools.shown.clone();
        self.encode(key, state, Extent::of(history), move |form, _, state| {
            Computed::Answer(a2a::prompt_answer(form, state, SnapshotOptions::newest(history), &tools))
        });
    }

    /// Encodes the task as it is now as the first frame of a stream.
    pub(in crate::core) fn encode_snapshot(&mut self, key: Key) {
        let Some(loaded) = self.readers.get(key).and_then(|sub| self.tasks.get(&sub.task)) else {
            return;
        };
        let state = loaded.state.clone();
        self.encode(key, &state, Extent::Whole, |_, view, state| {
            Computed::Frame(a2a::snapshot_frame(view, state, SnapshotOptions::ALL).into())
        });
    }

    /// Replies once everything that the reply shows is on disk.
    pub(in crate::core) fn reply_after(&mut self, caller: &Caller, task: &TaskId, reply: Reply) -> Option<Key> {
        let seq = self.tasks[task].state.seq;
        let until = Until { turn: 0, floor: Seq(0), ends: Ends::WithTurn };
        let mut sub = self.sub(caller, task, seq, until);
        sub.kind = Kind::Ready { seq, reply };
        self.subscribe(sub)
    }

    /// Refuses a subscription if there are as many as there may be, in all or of this task.
    pub(in crate::core) fn room_for_sub(&self, task: Option<&TaskId>) -> Result<(), Fault> {
        let of_task = task.and_then(|task| self.tasks.get(task)).map_or(0, |loaded| loaded.subs.len());
        if self.readers.len() >= self.settings.limits.subs || of_task >= self.settings.limits.task_subs {
            let message = "Too many clients are watching already; try again later.";
            return Err(Fault::new(FaultKind::Overloaded { retry_after_s: 5 }, message));
        }
        Ok(())
    }

    pub(in crate::core) fn refuse(&mut self, conn: Key, form: &Form, fault: &Fault, now: Now) {
        self.log_refusal(&fault.message);
        self.operation.metrics.fault(fault);
        if !a2a::is_answered(form) {
            return;
        }
        if !a2a::in_stream(form, fault) {
            return self.answer(conn, &a2a::fault(form, fault), now);
        }
        let body: Shared = a2a::fault_frame(form, fault).into();
        self.stream_once(conn, form, b"", &body, now);
    }

    /// A stream of one frame.
    pub(in crate::core) fn stream_once(&mut self, conn: Key, form: &Form, prefix: &[u8], body: &Shared, now: Now) {
        if let Some(conn) = self.connections.get_mut(conn) {
            conn.stream(&form.echo, now);
            let line = Line { name: None, seq: None, prefix, body, suffix: a2a::suffix(prefix) };
            conn.event(&line, now);
            conn.end_stream(now);
        }
        self.after_io(conn);
    }
}

/// The error for an input that a task refuses.
pub(in crate::core) fn explain(task: &TaskId, refusal: Refusal) -> Fault {
    match refusal {
        Refusal::Over => {
            let message = format!("Task {task} is over and cannot be continued; start a new one in the same context.");
            Fault::new(FaultKind::TaskIsOver(task.clone()), message)
        }
        Refusal::NotPending(call) => {
            let message = format!(
                "The call {call} is not waiting for an answer: somebody answered it already, or it does not exist."
            );
            Fault::new(FaultKind::NotPending(call), message)
        }
        Refusal::PlannedAgain(call) => {
            let message =
                format!("The call {call} is no longer what you were shown; look at its newest plan and answer again.");
            Fault::new(FaultKind::Stale(call), message)
        }
        Refusal::UnknownOption { call, offered } => {
            let message = format!("this is not on offer; choose one of {}.", offered.join(", "));
            Fault::new(FaultKind::UnknownOption(call), message)
        }
        Refusal::WrongAnswer(Wrong { field, why }) => {
            Fault::field(format!("answers.{field}"), &format!("{why}. The question is still open."))
        }
        Refusal::QueueFull => {
            let message = "Too many prompts are waiting in this task; try again when it has caught up.";
            Fault::new(FaultKind::Overloaded { retry_after_s: 5 }, message)
        }
        Refusal::NotQueued(turn) => Fault::params(format!(
            "No prompt waits for turn {turn}: the agent works on it already, or somebody took it back."
        )),
        Refusal::NotGranted(mode) => Fault::params(match mode {
            policy::Mode::Yolo => {
                "The mode yolo needs the operator's word: start the server with --allow-auto-execute."
            }
            policy::Mode::AutoEdit | policy::Mode::Default | policy::Mode::Plan => {
                "The mode auto_edit needs a trusted workspace."
            }
        }),
        Refusal::ShellBusy => Fault::params("A command runs in this task already; stop it or wait for its end."),
        Refusal::InTurn => Fault::params(IN_TURN),
        Refusal::HooksFull => {
            let message = "The task has as many webhooks as it may; delete one first.";
            Fault::params(message)
        }
    }
}
