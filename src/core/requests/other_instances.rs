//! Requests about tasks that another instance works on, and about tasks and contexts that this instance does not know yet. Only with a store
//! that several instances share.
//!
//! A task at work belongs to its owner: another instance shows it, and leaves answers, cancellations and the like in its inbox. All other
//! changes are refused until the task is idle. A task that is idle or waits for an answer is claimed by the instance that receives a request
//! for it.

use crate::base::clock::Now;
use crate::base::id::{CallId, TaskId};
use crate::core::disk::Parked;
use crate::core::disk::request::SharedRequest;
use crate::core::disk::shared::InboxEntry;
use crate::core::disk::store::{Lasts, StoreError};
use crate::core::readers::subscription::Intent;
use crate::core::requests::answer::explain;
use crate::core::requests::needs::Needs;
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::{Core, Out, Site};
use crate::limits::store::OWNER_DECISION_MS;
use crate::task::access::{Principal, of_inbox_call};
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::{Created, Event};
use crate::task::log::ownership::{Heard, InboxCall, InboxRequest, Owned};
use crate::task::machine::decide::{Decision, Input, Refusal};
use std::sync::Arc;

/// A request that was left in a task's inbox and waits for the decision of the owner.
pub(in crate::core) struct SentRequest {
    task: TaskId,
    id: Arc<str>,
    pub request: Parked,
    /// When the caller gets the error that the owner has not decided it, in monotonic milliseconds.
    end_ms: u64,
}

impl Core {
    /// Whether this instance cannot continue a task: another instance works on it, or its workspace is not here.
    pub(in crate::core) fn is_held_elsewhere(&self, loaded: &LoadedTask) -> bool {
        if self.settings.shared_store.is_none() {
            return false;
        }
        let state = &loaded.state;
        // A task that was found at the start is taken over soon.
        if self.has_created(loaded) || self.disk.left_open.contains(&state.created.task) {
            return false;
        }
        let is_owned = state.ownership.owner.is_some() && !state.ownership.is_released;
        let is_here = loaded.is_found || is_same_workspace(&self.settings.workspace.site, &state.created);
        (is_owned && state.is_at_work() && !self.is_ours(loaded)) || (!is_here && !state.is_over())
    }

    /// Whether this instance has created a task and has owned it since, so that its workspace is here. Tasks of dead instances are claimed
    /// wherever their workspace is, so that their turns end.
    fn has_created(&self, loaded: &LoadedTask) -> bool {
        self.is_ours(loaded) && loaded.state.ownership.epoch() == 1
    }

    /// Whether a call is refused or left for another instance. A task of this instance can always be cancelled.
    pub(super) fn is_for_another(&self, task: &TaskId, call: &Call) -> bool {
        let is_cancelled_here = |loaded: &LoadedTask| matches!(call, Call::Cancel { .. }) && self.is_ours(loaded);
        let loaded = self.tasks.get(task);
        loaded.is_some_and(|loaded| self.is_held_elsewhere(loaded) && !is_cancelled_here(loaded))
    }

    /// The workspace of a task that a call would change, if it has still to be found out whether the workspace is here: it is not the server's
    /// own, and another instance has created the task.
    pub(super) fn unknown_workspace(&self, task: &TaskId, call: &Call) -> Option<String> {
        let loaded = self.tasks.get(task).filter(|_| self.settings.shared_store.is_some() && changes(call))?;
        let created = &loaded.state.created;
        let is_unknown = !self.has_created(loaded) && !loaded.is_found && !loaded.state.is_over();
        let is_others = created.workspace_id.is_some() && created.workspace != self.settings.workspace.site.path;
        (is_unknown && is_others).then(|| created.workspace.clone())
    }

    /// Notes whether the workspace that was found for a request is the one that its task was created in.
    pub(super) fn note_workspace(&mut self, task: &TaskId, site: Option<&Result<Site, String>>) {
        if let Some(Ok(site)) = site
            && let Some(loaded) = self.tasks.get_mut(task)
        {
            loaded.is_found |= is_same_workspace(site, &loaded.state.created);
        }
    }

    /// Leaves a call that would change a task in the task's inbox for its owner, or refuses the call.
    pub(super) fn leave_to_owner(&mut self, task: &TaskId, request: Parked, now: Now) {
        let state = &self.tasks[task].state;
        let is_at_work = state.is_at_work();
        let call = inbox_call(&request.call, state.turn.number).filter(|_| is_at_work);
        let Some(call) = call else {
            let fault = self.held_fault(task, "Send it again when the task is idle, or to that instance.");
            return self.refuse(request.caller.conn, &request.caller.form, &fault, now);
        };
        let id: Arc<str> = self.settings.entropy.uuid().into();
        let inbox_request = InboxRequest { request: id.clone(), at: now.unix_ms, by: request.caller.by.clone(), call };
        let bytes = crate::base::json::bytes(&inbox_request).into();
        self.connections.begin_call(request.caller.conn);
        let end_ms = now.mono_ms + OWNER_DECISION_MS;
        self.disk.sharing.sent.push(SentRequest { task: task.clone(), id: id.clone(), request, end_ms });
        self.ask_shared(SharedRequest::Send { task: task.clone(), id, request: bytes });
    }

    /// The error for a message that the task in its present state refuses: the task is not claimed for such a message.
    pub(super) fn refused_unclaimed(&self, task: &TaskId, request: &Parked) -> Option<Fault> {
        let is_others =
            |loaded: &LoadedTask| self.settings.shared_store.is_some() && !loaded.owned && !self.is_ours(loaded);
        let Call::Say(say) = &request.call else {
            return None;
        };
        self.tasks.get(task).filter(|loaded| is_others(loaded))?;
        let input = Input::Say { said: say.said.clone(), by: request.caller.by.clone() };
        self.decide(task, input).err().map(|refusal| explain(task, refusal))
    }

    /// The error for a call that only the task's owner could carry out.
    fn held_fault(&self, task: &TaskId, advice: &str) -> Fault {
        let loaded = self.tasks.get(task);
        let owner = loaded.and_then(|loaded| loaded.state.ownership.owner.as_deref());
        let message = match owner {
            _ if loaded.is_some_and(|loaded| self.is_ours(loaded)) => {
                "The workspace of this task is not here. Send it to an instance that has the workspace, or cancel the task.".into()
            }
            Some(Owned { url: Some(url), .. }) => format!("{url} has this task. {advice}"),
            Some(owned) => format!("Instance {} has this task. {advice}", owned.instance),
            None => format!("Another instance has this task. {advice}"),
        };
        let owned = owner.filter(|_| !loaded.is_some_and(|loaded| self.is_ours(loaded)));
        let (owner, url) = (owned.map(|owned| owned.instance.clone()), owned.and_then(|owned| owned.url.clone()));
        Fault::new(FaultKind::TaskHeld { task: task.clone(), owner, url }, message)
    }

    /// A request was left in the inbox of a task, or could not be.
    pub(in crate::core) fn request_left(&mut self, task: &TaskId, id: &str, result: Result<(), StoreError>, now: Now) {
        match result {
            Ok(()) => self.catch_up(task),
            Err(error) => {
                let fault = match error.lasts {
                    Lasts::Gone => Fault::no_task(task),
                    Lasts::Long | Lasts::WhileLocked | Lasts::Shortly => error.into_fault(),
                };
                for sent in self.take_sent(|sent| *sent.id == *id) {
                    self.answer_sent_request(sent, &Err(fault.clone()), now);
                }
            }
        }
    }

    pub(in crate::core) fn has_sent(&self, task: &TaskId) -> bool {
        self.disk.sharing.sent.iter().any(|sent| sent.task == *task)
    }

    fn take_sent(&mut self, is_meant: impl Fn(&SentRequest) -> bool) -> Vec<SentRequest> {
        self.disk.sharing.sent.extract_if(.., |sent| is_meant(sent)).collect()
    }

    /// Answers the requests that the owner of a task has decided. If the owner does not hold the task any more, carries out the undecided
    /// ones here.
    pub(in crate::core) fn answer_sent(&mut self, task: &TaskId, now: Now) {
        let Some(loaded) = self.tasks.get(task).filter(|_| self.has_sent(task)) else {
            return;
        };
        let (ownership, is_held) = (loaded.state.ownership.clone(), self.is_held_elsewhere(loaded));
        for sent in self.take_sent(|sent| sent.task == *task && (!is_held || ownership.outcome(&sent.id).is_some())) {
            match ownership.outcome(&sent.id) {
                Some(Heard { void: false, .. }) => self.answer_sent_request(sent, &Ok(()), now),
                Some(_) => {
                    let fault = outdated(task, &sent.request.call);
                    self.answer_sent_request(sent, &Err(fault), now);
                }
                None => {
                    let conn = sent.request.caller.conn;
                    self.connections.end_call(conn);
                    self.dispatch(Parked { is_current: true, ..sent.request }, now);
                    self.read_on(conn, now);
                }
            }
        }
    }

    /// Tells callers that an owner has not decided their requests in time.
    pub(in crate::core) fn expire_sent(&mut self, now: Now) {
        for sent in self.take_sent(|sent| sent.end_ms <= now.mono_ms) {
            let advice = "It has not decided the request yet and may still do so; look at the task.";
            let fault = self.held_fault(&sent.task, advice);
            self.answer_sent_request(sent, &Err(fault), now);
        }
    }

    fn answer_sent_request(&mut self, sent: SentRequest, result: &Result<(), Fault>, now: Now) {
        let SentRequest { task, request: Parked { caller, call, .. }, .. } = sent;
        self.connections.end_call(caller.conn);
        match result {
            Err(fault) => self.refuse(caller.conn, &caller.form, fault, now),
            Ok(()) if matches!(call, Call::Cancel { .. }) => {
                let reply = self.answer_task(&caller, &task, None);
                self.set_intent(reply, Intent::Cancel);
            }
            Ok(()) => {
                let reply = self.answer_prompt(&caller, &task, None);
                self.set_intent(reply, Intent::Change);
            }
        }
        self.disk.to_release.push(task);
        self.read_on(caller.conn, now);
    }

    // The owner.

    /// Reads the inboxes of the tasks that this instance works on, and of those that it has just claimed or that have become idle: requests
    /// that were left there before are decided too.
    pub(in crate::core) fn read_inboxes(&mut self) {
        let has_inbox_to_read =
            |loaded: &LoadedTask| loaded.state.is_at_work() || loaded.has_unread_inbox && loaded.is_shown();
        let mut to_read: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|(_, loaded)| loaded.owned && has_inbox_to_read(loaded))
            .filter(|(task, _)| !self.disk.sharing.inboxes_being_read.contains(task))
            .map(|(task, _)| task.clone())
            .collect();
        to_read.sort_unstable();
        for task in to_read {
            if let Some(loaded) = self.tasks.get_mut(&task) {
                // Requests that come later find a task that anybody may claim.
                loaded.has_unread_inbox = loaded.state.is_at_work();
            }
            self.disk.sharing.inboxes_being_read.insert(task.clone());
            self.ask_shared(SharedRequest::NextRequest { task });
        }
    }

    /// Decides a request from a task's inbox. Its events are recorded together with the event that the request was decided.
    pub(in crate::core) fn inbox_read(
        &mut self,
        task: &TaskId,
        request: Result<Option<InboxEntry>, StoreError>,
        now: Now,
    ) {
        self.disk.sharing.inboxes_being_read.remove(task);
        let Some(loaded) = self.tasks.get_mut(task).filter(|loaded| loaded.owned) else {
            return;
        };
        // Behind this request there may be more.
        loaded.has_unread_inbox |= !matches!(request, Ok(None));
        let Some(InboxEntry { n, request: bytes }) = request.ok().flatten() else {
            return;
        };
        // It was decided since the read was requested.
        if n != loaded.state.ownership.last_heard() + 1 {
            return;
        }
        let left: Option<InboxRequest> = serde_json::from_slice(&bytes).ok();
        let id = left.as_ref().map_or_else(|| Arc::from(""), |left| left.request.clone());
        let decided = match left {
            Some(left) if self.may_send(task, &left, now) => {
                self.act_for(&left.by, &left.request);
                self.decide_inbox_request(task, left)
            }
            Some(_) | None => Err(Refusal::Over),
        };
        let void = decided.is_err();
        let mut decision = decided.unwrap_or_default();
        decision.events.insert(0, Event::Heard(Arc::new(Heard { n, request: id, void })));
        self.out.push(Out::info(format!("task {task}: request {n} came through another instance, void: {void}")));
        self.commit(task, decision, now);
        self.advance(task, now);
    }

    /// Whether the sender of a request has the rights for it here and now. A refusal is audited.
    fn may_send(&mut self, task: &TaskId, left: &InboxRequest, now: Now) -> bool {
        let principal = self.access.principal_of(&left.by, now);
        let may = |principal: &Principal| {
            let created = self.tasks.get(task).map(|loaded| &loaded.state.created);
            let is_seen = created.is_some_and(|created| principal.sees(&created.owner, created.shared));
            is_seen && principal.rights.lacks(of_inbox_call(&left.call)).is_none()
        };
        let is_permitted = principal.is_some_and(|principal| may(&principal));
        if !is_permitted {
            self.audit_refused_inbox_request(&left.by, task, now);
        }
        is_permitted
    }

    fn decide_inbox_request(&self, task: &TaskId, left: InboxRequest) -> Result<Decision, Refusal> {
        let InboxRequest { by, call, .. } = left;
        let state = self.tasks.get(task).map(|loaded| &loaded.state);
        let turn = state.map_or(0, |state| state.turn.number);
        let is_under_way = state.is_some_and(|state| !state.is_idle() || state.is_at_work());
        let input = match call {
            InboxCall::Cancel => Input::Cancel,
            InboxCall::CancelTurn { turn: meant } if meant == turn && is_under_way => Input::Cancel,
            InboxCall::CancelTurn { .. } => return Err(Refusal::Over),
            InboxCall::Abort { turn: meant } if meant == turn => Input::Abort { by },
            InboxCall::Abort { .. } => return Err(Refusal::NotQueued(turn)),
            InboxCall::Drop { turn } => Input::Drop { turn, by },
            InboxCall::Answer { said } => Input::Say { said, by },
        };
        self.decide(task, input)
    }

    // Tasks and contexts of other instances.

    /// The task of a call that deletes it, if the task is not known here and has still to be looked for in the store.
    pub(super) fn deletion_to_look_up(&self, request: &Parked) -> Option<TaskId> {
        match &request.call {
            Call::Delete { task } if self.is_to_look_up(task, request) => Some(task.clone()),
            _ => None,
        }
    }

    /// The task that a call was refused for because it is not known here, if it has still to be looked for in the store.
    pub(super) fn task_to_look_up(&self, request: &Parked, fault: &Fault) -> Option<TaskId> {
        match &fault.kind {
            FaultKind::TaskNotFound(task)
                if self.is_to_look_up(task, request) && Needs::of(&request.call).task == Some(task) =>
            {
                Some(task.clone())
            }
            _ => None,
        }
    }

    fn is_to_look_up(&self, task: &TaskId, request: &Parked) -> bool {
        self.settings.shared_store.is_some() && !request.is_current && self.tasks.known.get(task).is_none()
    }

    /// Looks for the latest task of the context that a new task is to continue. Returns the request if that was done or is not needed.
    pub(super) fn look_for_context(&mut self, request: Parked) -> Option<Parked> {
        let context = Needs::of(&request.call).context.cloned();
        let (Some(context), Some(_)) = (context.filter(|_| !request.context_is_current), &self.settings.shared_store)
        else {
            return Some(request);
        };
        self.connections.begin_call(request.caller.conn);
        let partition = request.caller.partition();
        let request = self.disk.park_numbered(request);
        self.ask_shared(SharedRequest::Latest { request, partition, context });
        None
    }

    /// The latest task of a context was found: goes on with the request that waited for that.
    pub(in crate::core) fn context_found(
        &mut self,
        request: u64,
        latest: Result<Option<TaskId>, StoreError>,
        now: Now,
    ) {
        let Some(mut request) = self.disk.take_resolved(request) else {
            return;
        };
        let conn = request.caller.conn;
        self.connections.end_call(conn);
        request.context_is_current = true;
        match latest {
            Err(error) => self.refuse(conn, &request.caller.form, &error.into_fault(), now),
            Ok(Some(task)) if self.tasks.known.get(&task).is_none() => self.park(task, request),
            Ok(Some(task)) => {
                self.tasks.make_latest(&task);
                self.dispatch(request, now);
            }
            Ok(None) => self.dispatch(request, now),
        }
        self.read_on(conn, now);
    }
}

/// Whether a workspace is the one that a task was created in, perhaps by another instance.
fn is_same_workspace(site: &Site, created: &Created) -> bool {
    site.id.is_some() && site.id == created.workspace_id && site.path == created.workspace
}

/// Whether a call changes its task, so that this instance has to own the task.
pub(super) fn changes(call: &Call) -> bool {
    match call {
        Call::Permissions { revoke, .. } => !revoke.is_empty(),
        Call::Say(_)
        | Call::Push { .. }
        | Call::Cancel { .. }
        | Call::Abort { .. }
        | Call::Drop { .. }
        | Call::Tune { .. }
        | Call::Shell { .. }
        | Call::Execute(_)
        | Call::TakeBack { .. } => true,
        _ => false,
    }
}

/// A call as it is left in the inbox of a task whose turn has this number. None if such a call is not left there.
fn inbox_call(call: &Call, turn: u32) -> Option<InboxCall> {
    match call {
        Call::Cancel { .. } => Some(InboxCall::CancelTurn { turn }),
        Call::Abort { .. } => Some(InboxCall::Abort { turn }),
        Call::Drop { turn, .. } => Some(InboxCall::Drop { turn: *turn }),
        Call::Say(say) if !say.said.answers.is_empty() && say.said.message.text().trim().is_empty() => {
            Some(InboxCall::Answer { said: say.said.clone() })
        }
        _ => None,
    }
}

/// The error for a request that came too late.
fn outdated(task: &TaskId, call: &Call) -> Fault {
    match call {
        Call::Cancel { .. } => {
            Fault::new(FaultKind::TaskNotCancelable(task.clone()), format!("Task not cancelable: {task}"))
        }
        Call::Say(say) => {
            let call = say.said.answers.first().map_or_else(|| CallId::from(""), |pick| pick.call.clone());
            explain(task, Refusal::NotPending(call))
        }
        Call::Drop { turn, .. } => explain(task, Refusal::NotQueued(*turn)),
        _ => explain(task, Refusal::Over),
    }
}

#[cfg(test)]
mod tests;
