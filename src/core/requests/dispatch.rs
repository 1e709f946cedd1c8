//! Carries out calls: loads what a call needs, changes the task, and answers. Every answer that depends on a task waits until the log is
//! written up to what the answer shows.

use crate::a2a::{self, Begins, Binding, Ends, Form, View, commands, native};
use crate::base::clock::Now;
use crate::base::id::{Seq, TaskId};
use crate::core::disk::Parked;
use crate::core::readers::subscription::{First, FirstBody, Intent, Reply, Until};
use crate::core::requests::Caller;
use crate::core::requests::admission::Admitted;
use crate::core::requests::answer::explain;
use crate::core::requests::needs::{Access, Needs};
use crate::core::requests::other_instances::changes;
use crate::core::tasks::create_task::NewTaskOptions;
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::{Core, Out, Site};
use crate::task::audit::{self, What};
use crate::task::call::{Call, Follow, Join};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Protocol;
use crate::task::machine::decide::Input;
use crate::task::machine::state::{State, TaskState};

/// Why files cannot be restored now.
pub(super) const IN_TURN: &str =
    "A turn or a command is under way in this task. Wait for its end or stop it with /stop, then try again.";

impl Core {
    /// Carries out a call, or parks it until the tasks and workspaces that it needs are there.
    pub(in crate::core) fn dispatch(&mut self, mut request: Parked, now: Now) {
        self.act_as(&request.caller);
        let admitted = self.admit(&mut request, now);
        let caller = &request.caller;
        let Admitted { task, unclear } = match admitted {
            Ok(admitted) => admitted,
            Err(fault) => {
                return match self.task_to_look_up(&request, &fault) {
                    Some(task) => self.park(task, request),
                    None => self.refuse(caller.conn, &caller.form, &fault, now),
                };
            }
        };
        if let (Some(questions), Call::Say(say)) = (unclear, &request.call) {
            return self.reply_with_message(caller, say, &questions, now);
        }
        if let Some(task) = self.deletion_to_look_up(&request) {
            return self.park(task, request);
        }
        if task.is_none() {
            match self.look_for_context(request) {
                Some(looked) => request = looked,
                None => return,
            }
        }
        let caller = &request.caller;
        if let Some(absent) = self.task_to_load(task.as_ref(), &request, caller).cloned() {
            self.unload_task(absent.clone());
            return self.park(absent, request);
        }
        if let Some(task) = &task {
            if let Some(fault) = self.behind(task, &request.call) {
                return self.refuse(request.caller.conn, &request.caller.form, &fault, now);
            }
            match self.catch_up_before(task, request) {
                Some(current) => request = current,
                None => return,
            }
        }
        self.proceed(task, request, now);
    }

    /// Goes on with a call whose task is in memory and up to date. Its workspace may have to be checked first.
    fn proceed(&mut self, task: Option<TaskId>, request: Parked, now: Now) {
        let caller = &request.caller;
        let wanted = self.wanted_workspace(&request.call, task.as_ref(), caller);
        if let (Some((path, wish)), None) = (wanted, &request.site) {
            self.connections.begin_call(caller.conn);
            let directories = Core::wanted_directories(&request.call);
            let request = self.disk.park_numbered(request);
            return self.out.push(Out::Resolve { request, path, directories, wish });
        }
        if let Some(fault) = task.as_ref().and_then(|task| self.broken(task, &request.call)) {
            return self.refuse(caller.conn, &caller.form, &fault, now);
        }
        if let Some(task) = task.as_ref().filter(|_| self.may_change(&request.call)) {
            self.note_workspace(task, request.site.as_ref());
            if self.is_for_another(task, &request.call) {
                return self.leave_to_owner(task, request, now);
            }
            if let Some(fault) = self.refused_unclaimed(task, &request) {
                return self.refuse(request.caller.conn, &request.caller.form, &fault, now);
            }
            self.take_over(task, now);
        }
        let Parked { caller, call, site, .. } = request;
        let site = self.permitted_site(&caller, site);
        if let Err(fault) = self.carry_out(&caller, call, site, now) {
            match task {
                // The error may show an event that is not on disk yet, such as the end of the task or the answer of another client.
                Some(task) => {
                    self.log_refusal(&fault.message);
                    self.reply_after(&caller, &task, Reply::Refusal(fault));
                }
                None => self.refuse(caller.conn, &caller.form, &fault, now),
            }
        }
    }

    /// Whether a call may change its task, so that this server has to own it. In a shared store a call that only reads claims nothing.
    fn may_change(&self, call: &Call) -> bool {
        match self.settings.shared_store {
            Some(_) => changes(call),
            None => Needs::of(call).access != Access::Read,
        }
    }

    /// The task that has to be loaded for a call: the one that it is about, or the latest of its context, which a new task continues. None
    /// if that is in memory and up to date.
    fn task_to_load<'a>(&'a self, task: Option<&'a TaskId>, request: &Parked, caller: &Caller) -> Option<&'a TaskId> {
        let needed = task.or_else(|| self.tasks.latest(&caller.partition(), Needs::of(&request.call).context?))?;
        // Other instances may continue a task that is idle here.
        let may_be_outdated = self.settings.shared_store.is_some() && !request.is_current;
        let is_present = |loaded: &LoadedTask| !may_be_outdated || !loaded.can_be_unloaded();
        (!self.tasks.get(needed).is_some_and(is_present)).then_some(needed)
    }

    fn carry_out(&mut self, caller: &Caller, call: Call, site: Result<Site, String>, now: Now) -> Result<(), Fault> {
        let Caller { conn, form, by, .. } = caller;
        match call {
            Call::Say(say) => self.send_message(caller, say, NewTaskOptions::at(site), now),
            Call::Commands => self.answer_now(*conn, &commands::listed(form, self.commands(&site)), now),
            Call::Execute(execute) => self.execute(caller, execute, site, now),
            Call::Create(create) => self.create(caller, &create, site.map_err(Fault::params)?, now),
            Call::Get { task, history } => self.get(caller, &task, history),
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
            Call::Metadata { task } => self.metadata(caller, &task),
            Call::Blob { task, sha256, from } => self.blob(caller, &task, sha256, from),
            Call::AllMetadata | Call::List(_) => {
                self.list_later(Parked::new(caller.clone(), call));
                Ok(())
            }
            Call::About => self.about(caller, &site, now),
            Call::Briefs => self.briefs(caller, now),
            Call::Delete { task } => self.delete(caller, task, now),
            Call::Export { task } => self.export(caller, &task, now),
            Call::Clients => self.clients(caller, now),
            Call::Files { task, query, limit } => self.files(caller, &task, query, limit),
            Call::Session => self.answer_session(caller, now),
            Call::Renew { task } => self.renew_session(caller, task, now),
            Call::Unsubscribe { task } => self.stop_watching(caller, &task, now),
            Call::Join(join) => self.join(caller, join, now),
            Call::Health => self.answer_now(*conn, &self.health(caller, now), now),
            Call::Ticket(wish) => self.issue_ticket(caller, wish, now),
            Call::Metrics => self.scrape(caller),
            Call::Live => self.answer_now(*conn, &a2a::live(), now),
            Call::Ready => self.answer_now(*conn, &a2a::ready(&self.unready()), now),
            Call::ExtendedCard => self.answer_now(*conn, &self.settings.card.extended(None, form), now),
            Call::Push { task, ask } => self.push(caller, &task, ask, now),
            Call::Open(open) => self.open_session(caller, open, &site, now),
            Call::Sessions { workspace, after } => {
                self.list_sessions(caller, workspace.as_deref(), after.as_ref(), now)
            }
            Call::TakeBack { task } => self.take_back(caller, &task, now),
            Call::Leave { task } => self.close_session(caller, &task, now),
            // They are about the socket that they came over.
            Call::Introduce(_) | Call::Reply { .. } | Call::Recall { .. } => Ok(()),
            Call::Card => unreachable!("the card is answered with its request in hand"),
        }
    }

    fn get(&mut self, caller: &Caller, task: &TaskId, history: Option<usize>) -> Result<(), Fault> {
        self.answer_task(caller, task, history);
        Ok(())
    }

    fn metadata(&mut self, caller: &Caller, task: &TaskId) -> Result<(), Fault> {
        self.answer_metadata(caller, task);
        Ok(())
    }

    /// Records that the caller exports a task, whose records it reads as any reader does.
    fn export(&mut self, caller: &Caller, task: &TaskId, now: Now) -> Result<(), Fault> {
        self.audit_as(caller, audit::Kind::Exported, Some(task), What::default(), now);
        self.answer_now(caller.conn, &native::task_id(&caller.form, task), now)
    }

    fn stop_watching(&mut self, caller: &Caller, task: &TaskId, now: Now) -> Result<(), Fault> {
        self.replace_subscription(caller.conn, task);
        self.answer_now(caller.conn, &native::task_id(&caller.form, task), now)
    }

    /// Whether the caller sees the task. What it does not see looks like what does not exist.
    pub(in crate::core) fn sees(&self, caller: &Caller, task: &TaskId) -> bool {
        self.tasks.known.get(task).is_some_and(|brief| caller.sees(brief))
    }

    /// Makes a list later in this turn of the loop, when everything was appended.
    pub(in crate::core) fn list_later(&mut self, request: Parked) {
        self.disk.sharing.list_was_asked = true;
        self.connections.begin_call(request.caller.conn);
        self.disk.to_list.push(request);
    }

    /// The error for a call to a task whose journal cannot be written. Such a task refuses changes, except a cancellation, which stops its
    /// work without waiting for the disk. Its recorded events can be read; its newer state cannot be shown before it is recorded.
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
    /// failed; if it fails too, the caller does not wait for the disk but gets an error that says that the work was stopped and that the
    /// cancellation is still to be recorded (see [`Intent::Cancel`]). It gets no success, which a crash could take back.
    fn cancel(&mut self, caller: &Caller, task: &TaskId, now: Now) -> Result<(), Fault> {
        let loaded = &self.tasks[task];
        let canceled = loaded.state.status.state == TaskState::Canceled;
        // No client has been shown a cancellation that is not recorded, so a second call to cancel is no error.
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
        self.set_intent(reply, Intent::Cancel);
        Ok(())
    }

    /// Changes a task, and answers when that is on disk.
    fn change(&mut self, caller: &Caller, task: &TaskId, input: Input, now: Now) -> Result<(), Fault> {
        self.drive(task, input, now).map_err(|refusal| explain(task, refusal))?;
        let reply = self.answer_prompt(caller, task, None);
        self.set_intent(reply, Intent::Change);
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
        self.set_intent(reply, Intent::Cancel);
        Ok(())
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
        let is_finished = has_nothing_to_wait_for(state, ends);
        if is_finished && after.is_none() && form.dialect.protocol == Protocol::V10 {
            let message = format!("Task {task} is over: there is nothing to wait for; read it with GetTask.");
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        let turn = state.queue.back().map_or(state.turn.number, |queued| queued.turn);
        let is_waiting = is_finished || state.paused || state.suspended;
        // No view shows the creation of a task, and no stream ends with it.
        let unseen = position.is_some_and(|after| after.max(Seq(1)) < state.status.seq);
        let floor = if is_waiting && unseen { state.status.seq } else { state.seq.next() };
        let cursor = position.unwrap_or(state.seq);
        let nothing_left = is_finished && !unseen;
        let (seq, body) = match (position, begins) {
            // The answer to the call comes first, and the records follow it. Those on disk need not wait for the others.
            (Some(_), _) if records => {
                let seq = if nothing_left { state.seq } else { cursor };
                (seq, FirstBody::Frame(a2a::watch_answer(form, task, cursor, self.tasks[task].shown()).into()))
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
            sub.role = self.replace_subscription(caller.conn, task);
        }
        if let Some(key) = self.begin_stream(sub, now).filter(|_| encoding) {
            self.encode_snapshot(key);
        }
        Ok(())
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

/// Whether a stream with this end has nothing to wait for.
fn has_nothing_to_wait_for(state: &State, ends: Ends) -> bool {
    match ends {
        Ends::WithTurn | Ends::WithTurnButAuth | Ends::WithTurnButQuestions => state.is_idle() || state.is_over(),
        Ends::WhenShownOver => state.is_over() || (state.is_idle() && state.outcome().is_some()),
        Ends::WithTask => state.is_over(),
        Ends::Never => false,
    }
}

/// Whether a call is for the live session, whatever its id.
pub(in crate::core) fn joins(call: &Call) -> bool {
    let session = Follow::Session;
    matches!(call, Call::Session) || matches!(call, Call::Join(Join { follow, .. }) if *follow == session)
}
