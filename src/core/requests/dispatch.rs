//! What each call does to tasks and how it is answered. Every answer that depends on a task waits until the log is written up to
//! what it shows.

use crate::a2a::{self, Begins, Binding, Ends, Form, Unaddressed, View, Wanted, commands, native};
use crate::base::Shared;
use crate::base::clock::Now;
use crate::base::http::Response;
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::compute::{Computed, Extent};
use crate::core::connections::connection::Line;
use crate::core::disk::Parked;
use crate::core::readers::subscription::{First, FirstBody, Kind, Reply, Role, Subscription, Until, Wants};
use crate::core::requests::Caller;
use crate::core::requests::needs::{Access, Needs};
use crate::core::tasks::create_task::NewTaskOptions;
use crate::core::{Core, Out, Site, WorkspaceChoice};
use crate::task::call::{Call, Follow, Join, NewTasks};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Protocol;
use crate::task::machine::decide::{Input, Refusal};
use crate::task::machine::state::{State, TaskState};
use crate::task::policy;
use crate::task::push::Census;
use std::sync::Arc;

impl Core {
    pub(in crate::core) fn dispatch(&mut self, mut request: Parked, now: Now) {
        let Caller { conn, form, .. } = &request.caller;
        let conn = *conn;
        if let Err(fault) = self.address(&mut request.call, form, now) {
            return self.refuse(conn, form, &fault, now);
        }
        if let Call::Say(say) = &mut request.call
            && let Some(questions) = self.hear_answer(say, form)
        {
            return self.reply_with_message(&request.caller, say, &questions, now);
        }
        let task = self.subject(&request.call);
        if let Some(task) = &task
            && !self.sees(form, task)
        {
            return self.refuse(conn, form, &Fault::no_task(task), now);
        }
        if let Some(absent) = self.absent(task.as_ref(), &request.call, form).cloned() {
            return self.park(absent, request);
        }
        if let (Some(path), None) = (self.wanted_workspace(&request.call).map(str::to_owned), &request.site) {
            self.connections.begin_call(conn);
            let request = self.disk.park_for_site(request);
            return self.out.push(Out::Resolve { request, path });
        }
        if let Some(fault) = task.as_ref().and_then(|task| self.broken(task, &request.call)) {
            return self.refuse(conn, form, &fault, now);
        }
        if let Some(task) = task.as_ref().filter(|_| Needs::of(&request.call).access != Access::Read) {
            self.take_over(task, now);
        }
        let Parked { caller, call, site, .. } = request;
        let site = site.unwrap_or_else(|| Ok(self.settings.workspace.site.clone()));
        if let Err(fault) = self.carry_out(&caller, call, site, now) {
            match task {
                // The reason may show an event that is not on disk yet: that the task is over, that another client has answered.
                Some(task) => {
                    self.log_refusal(&fault.message);
                    self.reply_after(&caller, &task, Reply::Refusal(fault));
                }
                None => self.refuse(conn, &caller.form, &fault, now),
            }
        }
    }

    /// The workspace that a client wants for a new task, if that is for the client to choose.
    fn wanted_workspace<'a>(&self, call: &'a Call) -> Option<&'a str> {
        match self.settings.workspace.choice {
            WorkspaceChoice::Client => call.creates()?.settings.workspace.as_deref(),
            WorkspaceChoice::Operator => None,
        }
    }

    /// A workspace was checked: the request that waited for it continues.
    pub(in crate::core) fn resolved(&mut self, request: u64, site: Result<Site, String>, now: Now) {
        if let Some(request) = self.disk.take_resolved(request) {
            let conn = request.caller.conn;
            self.connections.end_call(conn);
            self.dispatch(Parked { site: Some(site), ..request }, now);
            self.read_on(conn, now);
        }
    }

    /// Finds the task of a message that names none, and refuses new work when the server is shutting down.
    fn address(&mut self, call: &mut Call, form: &Form, now: Now) -> Result<(), Fault> {
        if !self.is_running() && matches!(call, Call::Say(_) | Call::Create(_) | Call::Execute(_)) {
            let message = "The server is about to end and begins nothing new; try again when it is back.";
            return Err(Fault::new(FaultKind::Overloaded { retry_after_s: 10 }, message));
        }
        if let Some(fault) = self.too_crowded(call) {
            return Err(fault);
        }
        let Call::Say(say) = call else {
            return Ok(());
        };
        if say.task.is_none()
            && form.dialect.unaddressed != Unaddressed::NewTask
            && let Some(answer) = say.said.answers.first()
        {
            say.task = self.tasks.with_question(&answer.call, None);
        }
        let joins = match &say.create.context {
            None => self.settings.request_policy.new_tasks == NewTasks::Session,
            Some(context) => self.tasks.live_session().is_some_and(|session| session.as_str() == context.as_str()),
        };
        if say.task.is_none() && joins && form.tenant.is_default() {
            say.task = Some(self.session(now)?);
        }
        Ok(())
    }

    /// The task that a call is about.
    fn subject(&self, call: &Call) -> Option<TaskId> {
        match call {
            Call::Execute(execute) => self.addressed(execute),
            call if joins(call) => self.tasks.live_session().cloned(),
            call => Needs::of(call).task.cloned(),
        }
    }

    /// The task that has to be in memory for a call and is not: the one it is about, or the latest of its context, which a new one
    /// continues.
    fn absent<'a>(&'a self, task: Option<&'a TaskId>, call: &Call, form: &Form) -> Option<&'a TaskId> {
        let needed = task.or_else(|| self.tasks.latest(&form.tenant, Needs::of(call).context?))?;
        (!self.tasks.is_loaded(needed)).then_some(needed)
    }

    fn carry_out(&mut self, caller: &Caller, call: Call, site: Result<Site, String>, now: Now) -> Result<(), Fault> {
        let Caller { conn, form, by } = caller;
        match call {
            Call::Say(say) => self.send_message(caller, say, NewTaskOptions::at(site), now),
            Call::Commands => self.answer_now(*conn, &commands::listed(form, &self.settings.commands), now),
            Call::Execute(execute) => self.execute(caller, execute, site, now),
            Call::Create(create) => self.create(caller, &create, site.map_err(Fault::params)?, now),
            Call::Get { task, history } => {
                self.answer_task(caller, &task, history);
                Ok(())
            }
            Call::Cancel { task } => self.cancel(caller, &task, now),
            Call::Abort { task } => self.abort(caller, task, now),
            Call::Drop { task, turn } => self.change(caller, &task, Input::Drop { turn, by: by.clone() }, now),
            Call::Tune { task, mode, model } => {
                let model = model.map(|wish| (self.settings.choose)(Some(&wish))).transpose().map_err(Fault::params)?;
                self.change(caller, &task, Input::Tune { mode, model, by: by.clone() }, now)
            }
            Call::Shell { task, command } => self.change(caller, &task, Input::Shell { command, by: by.clone() }, now),
            Call::Permissions { task, revoke } => self.permissions(caller, &task, revoke, now),
            Call::Subscribe { task, after } => self.watch(caller, &task, after, now),
            Call::Metadata { task } => {
                let response = a2a::metadata(&self.tasks[&task].state, &self.tools.shown);
                self.answer_after(caller, &task, response);
                Ok(())
            }
            Call::Blob { task, sha256, from } => self.blob(caller, &task, sha256, from),
            Call::AllMetadata | Call::List(_) => {
                self.list_later(Parked::new(caller.clone(), call));
                Ok(())
            }
            Call::About => self.about(caller, now),
            Call::Briefs => self.briefs(caller, now),
            Call::Clients => self.clients(caller, now),
            Call::Files { task, query, limit } => self.files(caller, &task, query, limit),
            Call::Session => self.tell_session(caller, now),
            Call::Renew { task } => self.renew_session(caller, task, now),
            Call::Unsubscribe { task } => {
                self.ask_anew(caller.conn, &task);
                self.answer_now(*conn, &native::unwatched(form, &task), now)
            }
            Call::Join(join) => self.join(caller, join, now),
            Call::Health => {
                let health = a2a::health(&a2a::HealthReport {
                    problem: self.disk.health.problem(),
                    memory: self.settings.limits.memory.map(|budget| (budget, self.used_memory())),
                    uptime_ms: now.mono_ms - self.settings.started.mono_ms,
                    active: self.tasks.values().filter(|loaded| loaded.is_open()).count(),
                    total: self.tasks.known.len(),
                    hooks: Census::of(self.tasks.values().flat_map(|loaded| &loaded.state.hooks)),
                    refused_peers: self.connections.refused(),
                    unconfined: self.settings.unconfined.as_deref(),
                });
                self.answer_now(*conn, &health, now)
            }
            Call::ExtendedCard => self.answer_now(*conn, &self.settings.card.extended(None, form), now),
            Call::Push { task, ask } => self.push(caller, &task, ask, now),
            Call::Card => unreachable!("the card is answered with its request in hand"),
        }
    }

    /// Answers with what no disk has to hold.
    pub(in crate::core) fn answer_now(&mut self, conn: Key, response: &Response, now: Now) -> Result<(), Fault> {
        self.answer(conn, response, now);
        Ok(())
    }

    /// Whether the tenant of this form has the task.
    pub(in crate::core) fn sees(&self, form: &Form, task: &TaskId) -> bool {
        let known = self.tasks.known.get(task);
        known.is_some_and(|brief| brief.tenant == form.tenant)
    }

    /// A list is made when everything is on disk.
    pub(in crate::core) fn list_later(&mut self, request: Parked) {
        self.connections.begin_call(request.caller.conn);
        self.disk.to_list.push(request);
    }

    /// A task whose journal cannot be written refuses changes, except to be canceled, which stops its work without waiting for the
    /// disk. Its recorded events can be read. Its state since then cannot be shown before it is recorded.
    fn broken(&self, task: &TaskId, call: &Call) -> Option<Fault> {
        let loaded = self.tasks.get(task)?;
        let why = loaded.broken.as_ref()?;
        let what = match Needs::of(call).access {
            Access::Change => "Nothing of this request was accepted; send it again later.",
            Access::Read if !loaded.is_shown() => {
                "What the task has come to since then can be shown when it is recorded; ask again later."
            }
            Access::Read | Access::Other => return None,
        };
        Some(Fault::new(FaultKind::Storage, format!("The task's journal cannot be written: {why}. {what}")))
    }

    /// Jobs are stopped in this turn of the loop, whether or not the journal can be written. The answer shows the canceled
    /// task and therefore waits for its record, as every answer does. The append is tried in this turn even if an earlier one
    /// failed; if it fails too, the caller is not left waiting for the disk but told that the work was stopped and that the
    /// cancellation is still to be recorded (see [`Wants::Cancel`]). It is not told of success: a crash would take that back.
    fn cancel(&mut self, caller: &Caller, task: &TaskId, now: Now) -> Result<(), Fault> {
        let loaded = &self.tasks[task];
        let canceled = loaded.state.status.state == TaskState::Canceled;
        // No client has been shown a cancellation that is not recorded, so a second call asks for the same one.
        let unrecorded = loaded.broken.is_some();
        if !canceled || (caller.form.dialect.protocol == Protocol::V03 && !unrecorded) {
            self.drive(task, Input::Cancel, now).map_err(|_| {
                let message = format!("Task not cancelable: {task}");
                Fault::new(FaultKind::TaskNotCancelable(task.clone()), message)
            })?;
        }
        if unrecorded {
            self.retry_append(task);
        }
        let reply = self.answer_task(caller, task, None);
        self.note_wish(reply, Wants::Cancel);
        Ok(())
    }

    /// Changes a task, and answers when that is on disk.
    fn change(&mut self, caller: &Caller, task: &TaskId, input: Input, now: Now) -> Result<(), Fault> {
        self.drive(task, input, now).map_err(|refusal| explain(task, refusal))?;
        let reply = self.answer_prompt(caller, task, None);
        self.note_wish(reply, Wants::Change);
        Ok(())
    }

    /// Stops the turn that is under way, if there is one. As with [`Core::cancel`], jobs are stopped whatever the disk does.
    fn abort(&mut self, caller: &Caller, task: Option<TaskId>, now: Now) -> Result<(), Fault> {
        let task = task.ok_or_else(|| Fault::params("There is no live session, and so no turn to stop."))?;
        self.drive(&task, Input::Abort { by: caller.by.clone() }, now).map_err(|refusal| explain(&task, refusal))?;
        if self.tasks[&task].broken.is_some() {
            self.retry_append(&task);
        }
        let reply = self.answer_prompt(caller, &task, None);
        self.note_wish(reply, Wants::Cancel);
        Ok(())
    }

    /// Sets what a call that waits for its answer wants.
    pub(in crate::core) fn note_wish(&mut self, reply: Option<Key>, wants: Wants) {
        if let Some(sub) = reply.and_then(|key| self.readers.get_mut(key)) {
            sub.wants = wants;
        }
    }

    /// Subscribes to a task: with a snapshot first, or from a position on. A position that this log does not have is answered with
    /// a snapshot too, so that the client starts over without an unknown gap.
    fn watch(&mut self, caller: &Caller, task: &TaskId, after: Option<Seq>, now: Now) -> Result<(), Fault> {
        let form = &caller.form;
        self.room_for_sub(Some(task))?;
        let records = form.dialect.binding == Binding::Native;
        let after = after.or(records.then_some(Seq(0)));
        let state = &self.tasks[task].state;
        let view = a2a::view(form, Some(&state.created));
        let position = after.filter(|after| *after <= state.seq);
        let position = position.or(records.then_some(Seq(0)));
        let (begins, ends) = watching(form, view, state, position);
        let resting = rests(state, ends);
        if resting && after.is_none() && form.dialect.protocol == Protocol::V10 {
            let message = format!("Task {task} is over: there is nothing to wait for; read it with GetTask.");
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        let turn = state.queue.back().map_or(state.turn.number, |queued| queued.turn);
        let held = resting || state.paused || state.suspended;
        // No view shows the creation of a task, and no stream ends with it.
        let unseen = position.is_some_and(|after| after.max(Seq(1)) < state.status.seq);
        let floor = if held && unseen { state.status.seq } else { state.seq.next() };
        let cursor = position.unwrap_or(state.seq);
        let nothing_left = resting && !unseen;
        let (seq, body) = match (position, begins) {
            // Events that belong to no call follow an answer that does; what is on disk of them need not wait for the rest.
            (Some(_), _) if records => {
                let seq = if nothing_left { state.seq } else { cursor };
                (seq, FirstBody::Frame(a2a::watching(form, task, cursor).into()))
            }
            (Some(_), _) | (None, Begins::AfterPrompt | Begins::NextEvent) => (state.seq, FirstBody::Nothing),
            (None, Begins::Snapshot | Begins::SnapshotIfCreated) => (state.seq, FirstBody::Encoding),
        };
        let shown = !matches!(body, FirstBody::Nothing);
        let encoding = matches!(body, FirstBody::Encoding);
        let first = (shown || nothing_left).then_some(First { seq, body, last: nothing_left });
        let until = Until { turn, floor, ends };
        let mut sub = self.sub(caller, task, cursor, until);
        sub.first = first;
        if records {
            sub.role = self.ask_anew(caller.conn, task);
        }
        if let Some(key) = self.begin_stream(sub, now).filter(|_| encoding) {
            self.encode_snapshot(key);
        }
        Ok(())
    }

    pub(in crate::core) fn sub(&self, caller: &Caller, task: &TaskId, cursor: Seq, until: Until) -> Subscription {
        let form = &caller.form;
        Subscription {
            task: task.clone(),
            conn: caller.conn,
            view: a2a::view(form, self.tasks.get(task).map(|loaded| loaded.state.created.as_ref())),
            form: form.clone(),
            prefix: a2a::frame_prefix(form),
            cursor,
            until,
            kind: Kind::Stream,
            role: Role::Call,
            wants: Wants::Read,
            told: false,
            safe: Seq(0),
            owns: None,
            first: None,
            owed: 0,
            cold: None,
        }
    }

    pub(in crate::core) fn begin_stream(&mut self, sub: Subscription, now: Now) -> Option<Key> {
        if let Some(conn) = self.connections.get_mut(sub.conn) {
            conn.stream(&sub.form.echo, now);
        }
        self.subscribe(sub)
    }

    pub(in crate::core) fn answer_after(&mut self, caller: &Caller, task: &TaskId, response: Response) -> Option<Key> {
        self.reply_after(caller, task, Reply::Answer(response))
    }

    /// Answers with the task as it is now, once that is on disk.
    fn answer_task(&mut self, caller: &Caller, task: &TaskId, history: Option<usize>) -> Option<Key> {
        let key = self.reply_after(caller, task, Reply::Encoding)?;
        let state = self.tasks[task].state.clone();
        self.encode(key, &state, Extent::of(history), move |form, _, state| {
            Computed::Answer(a2a::task(form, state, Wanted::newest(history)))
        });
        Some(key)
    }

    /// The same for a prompt.
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
        self.encode(key, state, Extent::of(history), move |form, _, state| {
            Computed::Answer(a2a::said(form, state, Wanted::newest(history)))
        });
    }

    /// Encodes the task as it is now as the first frame of a stream.
    pub(in crate::core) fn encode_snapshot(&mut self, key: Key) {
        let Some(loaded) = self.readers.get(key).and_then(|sub| self.tasks.get(&sub.task)) else {
            return;
        };
        let state = loaded.state.clone();
        self.encode(key, &state, Extent::Whole, |_, view, state| {
            Computed::Frame(a2a::snapshot_frame(view, state, Wanted::ALL).into())
        });
    }

    /// Replies once everything the reply tells of is on disk.
    fn reply_after(&mut self, caller: &Caller, task: &TaskId, reply: Reply) -> Option<Key> {
        let seq = self.tasks[task].state.seq;
        let until = Until { turn: 0, floor: Seq(0), ends: Ends::WithTurn };
        let mut sub = self.sub(caller, task, seq, until);
        sub.kind = Kind::Ready { seq, reply };
        self.subscribe(sub)
    }

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

/// How the stream of a subscription begins, and what it ends with. A client that resumes wants what it missed, so in 1.0 its stream
/// ends when the task waits for the user.
fn watching(form: &Form, view: View, state: &State, position: Option<Seq>) -> (Begins, Ends) {
    let asks = state.is_idle() && state.status.state == TaskState::InputRequired;
    match (a2a::watch_stream(form, view, &state.created), form.dialect.protocol) {
        ((begins, _), Protocol::V10) if asks && position.is_some() => (begins, Ends::WithTurnButAuth),
        (usual, Protocol::V03 | Protocol::V10) => usual,
    }
}

/// Whether a stream that ends so has nothing to wait for.
fn rests(state: &State, ends: Ends) -> bool {
    match ends {
        Ends::WithTurn | Ends::WithTurnButAuth | Ends::WithTurnButQuestions => state.is_idle() || state.is_over(),
        Ends::WhenShownOver => state.is_over() || (state.is_idle() && state.outcome().is_some()),
        Ends::WithTask => state.is_over(),
        Ends::Never => false,
    }
}

/// Whether a call is for the live session, whichever that is.
pub(in crate::core) fn joins(call: &Call) -> bool {
    let session = Follow::Session;
    matches!(call, Call::Session) || matches!(call, Call::Join(Join { follow, .. }) if *follow == session)
}

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
        Refusal::UnknownOption { call, offered } => {
            let message = format!("this is not on offer; choose one of {}.", offered.join(", "));
            Fault::new(FaultKind::UnknownOption(call), message)
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
        Refusal::HooksFull => {
            let message = "The task has as many webhooks as it may; delete one first.";
            Fault::params(message)
        }
    }
}
