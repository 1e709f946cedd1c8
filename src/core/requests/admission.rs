//! Admission of calls: checks rights, tenant, ownership and limits, and finds the task that a call is about. All of it happens before
//! anything of the call is carried out.

use crate::a2a::Unaddressed;
use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::disk::Parked;
use crate::core::requests::dispatch::joins;
use crate::core::requests::needs::{Access, Needs};
use crate::core::requests::{Caller, outside_roots};
use crate::core::{Core, Site};
use crate::task::access::{self, Needed, Principal, Right};
use crate::task::call::{Call, NewTasks, Say};
use crate::task::fault::{Fault, FaultKind};

/// A call that may be made.
pub(super) struct Admitted {
    /// The task that it is about.
    pub(super) task: Option<TaskId>,
    /// The message answers a question in words, and it is not clear which question or how. The text asks the client again.
    pub(super) unclear: Option<String>,
}

/// Whether the caller has the rights and the tenant for a call.
pub(super) fn permit(caller: &Caller, needed: Needed) -> Result<(), Fault> {
    let Principal { rights, tenant, .. } = &*caller.principal;
    if let Some(right) = needed.missing(*rights) {
        return Err(right_missing(right));
    }
    if tenant.as_ref().is_some_and(|tenant| *tenant != caller.form.tenant) {
        return Err(Fault::new(FaultKind::Forbidden, "This credential is for another tenant."));
    }
    Ok(())
}

/// The error for a right that the credential of a caller does not have.
pub(in crate::core) fn right_missing(right: Right) -> Fault {
    let message = format!("This needs the right \"{}\", which the credential does not have.", right.word());
    Fault::new(FaultKind::RightMissing(right), message)
}

/// Whether a call is about the webhooks of its task.
fn concerns_webhooks(call: &Call) -> bool {
    matches!(call, Call::Push { .. } | Call::Say(Say { push: Some(_), .. }))
}

impl Core {
    /// Checks a call, and finds the task of a message that names none. Refusals for missing rights are audited.
    pub(super) fn admit(&mut self, request: &mut Parked, now: Now) -> Result<Admitted, Fault> {
        let Parked { caller, call, .. } = request;
        self.permit_audited(caller, access::needed(call), now)?;
        if let Some(fault) = self.refused_by_audit(call) {
            return Err(fault);
        }
        self.address(call, caller, now)?;
        let mut unclear = None;
        if let Call::Say(say) = call {
            unclear = self.match_answer(say, caller);
            self.permit_audited(caller, Needed::All(access::of_known_message(say)), now)?;
        }
        self.check_streams(caller, call)?;
        if !request.is_counted && access::is_prompt(call) {
            self.spend_prompt(&caller.principal, now)?;
            request.is_counted = true;
        }
        let task = self.subject(call, caller);
        self.check_owner(caller, call, task.as_ref(), now)?;
        Ok(Admitted { task, unclear })
    }

    /// As [`permit`]; a refusal is audited.
    fn permit_audited(&mut self, caller: &Caller, needed: Needed, now: Now) -> Result<(), Fault> {
        permit(caller, needed).inspect_err(|_| self.audit_refused_call(caller, "right", now))
    }

    /// Checks that the caller sees the task of a call and may make the call for it.
    fn check_owner(&mut self, caller: &Caller, call: &Call, task: Option<&TaskId>, now: Now) -> Result<(), Fault> {
        if let Some(task) = task
            && !self.sees(caller, task)
        {
            if self.tasks.known.get(task).is_some() {
                self.audit_refused_call(caller, "ownership", now);
            }
            return Err(Fault::no_task(task));
        }
        if let Some(brief) = task.and_then(|task| self.tasks.known.get(task))
            && concerns_webhooks(call)
            && !caller.principal.owns(&brief.owner)
        {
            let message = "The webhooks of a task are those of its owner, and this one is shared with you only.";
            return Err(Fault::new(FaultKind::RightMissing(Right::Admin), message));
        }
        if let Some(brief) = task.and_then(|task| self.tasks.known.get(task))
            && Needs::of(call).access == Access::Change
            && !caller.principal.may_work_in(&brief.workspace)
        {
            return Err(Fault::params(outside_roots(&brief.workspace)));
        }
        if caller.principal.task.as_ref().is_some_and(|only| task != Some(only)) {
            let message = "This ticket is for one task, and only for calls that name it.";
            return Err(Fault::new(FaultKind::Forbidden, message));
        }
        Ok(())
    }

    /// The workspace of a call, if the caller may work there.
    pub(super) fn permitted_site(&self, caller: &Caller, site: Option<Result<Site, String>>) -> Result<Site, String> {
        let site = site.unwrap_or_else(|| Ok(self.settings.workspace.site.clone()))?;
        let mut used = std::iter::once(&site.path).chain(&site.directories);
        match used.find(|path| !caller.principal.may_work_in(path)) {
            None => Ok(site),
            Some(outside) => Err(outside_roots(outside)),
        }
    }

    /// Finds the task of a message that names none, and refuses new work when the server is shutting down.
    fn address(&mut self, call: &mut Call, caller: &Caller, now: Now) -> Result<(), Fault> {
        if !self.is_running() && matches!(call, Call::Say(_) | Call::Create(_) | Call::Execute(_)) {
            let message = "The server is about to end and begins nothing new; try again when it is back.";
            return Err(Fault::new(FaultKind::Overloaded { retry_after_s: 10 }, message));
        }
        if let Some(fault) = self.lack_of_memory(call) {
            return Err(fault);
        }
        let Call::Say(say) = call else {
            return Ok(());
        };
        let form = &caller.form;
        if say.task.is_none()
            && form.dialect.unaddressed != Unaddressed::NewTask
            && let Some(answer) = say.said.answers.first()
        {
            say.task = self.tasks.with_question(&answer.call, None, &caller.principal);
        }
        let joins = match &say.create.context {
            None => self.settings.request_policy.new_tasks == NewTasks::Session,
            Some(context) => self.live_session(caller).is_some_and(|session| session.as_str() == context.as_str()),
        };
        if say.task.is_none() && joins && form.tenant.is_default() {
            say.task = Some(self.session(&caller.principal, now)?);
        }
        Ok(())
    }

    /// The task that a call is about.
    fn subject(&self, call: &Call, caller: &Caller) -> Option<TaskId> {
        match call {
            Call::Execute(execute) => self.addressed(execute, caller),
            call if joins(call) => self.live_session(caller).cloned(),
            call => Needs::of(call).task.cloned(),
        }
    }
}
