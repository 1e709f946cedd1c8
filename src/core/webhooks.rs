//! Webhooks: events of a task are posted to URLs that clients have registered. The deliveries that are due are part of the task's
//! state, which comes from the log, so a restarted server continues them. Delivery is at least once: a receiver may get an event
//! twice, with the same event id.
//!
//! At most one delivery per webhook is in flight. After a failed attempt the webhook pauses; otherwise it delivers the oldest event
//! that is due. So deliveries to one receiver arrive in order, and no delivery delays a stream or the agent. The shell sends the
//! requests and checks whether an address may be contacted.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::id::{ConfigId, Seq, TaskId};
use crate::core::readers::subscription::Intent;
use crate::core::requests::Caller;
use crate::core::requests::answer::explain;
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::timers::Timer;
use crate::core::{Core, Out};
use crate::limits::Limits;
use crate::task::call::Push;
use crate::task::fault::{Fault, FaultKind};
use crate::task::machine::decide::{Decision, HookInput, Input};
use crate::task::machine::state::State;
use crate::task::push::{Health, Hook, Target, Wish, not_supported};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// A request to a webhook; answered by `Input::Delivered` with the same task, hook and event.
#[derive(Clone)]
pub struct Delivery {
    pub task: TaskId,
    pub hook: ConfigId,
    pub seq: Seq,
    pub url: String,
    /// They may contain secrets.
    pub headers: Vec<(&'static str, String)>,
    /// Encodes the body. Called by a worker, because the body can be as long as the task. None: what the event was about, such as an
    /// artifact, does not exist any more.
    pub encode: Arc<dyn Fn() -> Option<Vec<u8>> + Send + Sync>,
}

impl Delivery {
    /// Encodes the body; called by the worker that sends the request.
    pub fn body(&self) -> Result<Vec<u8>, DeliveryError> {
        let nothing = || DeliveryError { retry: Retry::NothingToSend, message: "there is nothing to send".into() };
        (self.encode)().ok_or_else(nothing)
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delivery({}:{} to {})", self.task, self.seq, self.hook)
    }
}

/// Why a delivery did not arrive, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryError {
    pub retry: Retry,
    /// Shown to the owner of the webhook: without secrets, and without the receiver's response.
    pub message: String,
}

/// Whether a failed delivery is attempted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// A later attempt may succeed. The receiver may have said how long to wait before it.
    Again { after_ms: Option<u64> },
    /// Every further attempt would fail.
    Never,
    /// No request was sent, so the result does not count as a failure of the receiver.
    NothingToSend,
}

/// The delivery of one event to one webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryState {
    /// Its webhook. A client that sets the webhook again makes another target, whose deliveries start from the beginning.
    target: Arc<Target>,
    /// The event that is delivered, and how many attempts have failed.
    seq: Seq,
    failed_attempts: u32,
    /// The next attempt starts at this time, in monotonic milliseconds; [`u64::MAX`] when the server is shutting down. None: an attempt
    /// is in flight.
    paused_until: Option<u64>,
}

impl Core {
    /// Carries out a call that sets, shows or deletes webhooks of a task.
    pub(super) fn push(&mut self, caller: &Caller, task: &TaskId, ask: Push, now: Now) -> Result<(), Fault> {
        let form = &caller.form;
        if !self.settings.switches.push {
            return Err(not_supported());
        }
        let hooks = |core: &Core| core.tasks[task].state.hooks.clone();
        let wants = match ask {
            Push::Set(_) | Push::Delete(_) => Intent::Change,
            Push::Get(_) | Push::List => Intent::Read,
        };
        let response = match ask {
            Push::Set(wish) => {
                let target = self.new_target(task, wish, form, now)?;
                let id = target.id.clone();
                let input = Input::Hook(HookInput::Set(target));
                self.drive(task, input, now).map_err(|refusal| explain(task, refusal))?;
                a2a::push::config(form, task, a2a::push::find(task, &hooks(self), Some(&id))?)
            }
            Push::Get(id) => {
                let hooks = hooks(self);
                a2a::push::config(form, task, a2a::push::find(task, &hooks, id.as_ref())?)
            }
            Push::List => a2a::push::configs(form, task, &hooks(self)),
            Push::Delete(id) => {
                // A webhook that does not exist counts as deleted.
                let hooks = hooks(self);
                let found = a2a::push::find(task, &hooks, Some(&id));
                let id = found.map_or(id, |hook| hook.target.id.clone());
                self.drive(task, Input::Hook(HookInput::Drop(id)), now).map_err(|refusal| explain(task, refusal))?;
                a2a::push::deleted(form)
            }
        };
        let reply = self.answer_after(caller, task, response);
        self.set_intent(reply, wants);
        Ok(())
    }

    /// Decides about the webhook that a prompt registers. Its event is recorded before the prompt, so that the webhook receives every
    /// event of the prompt.
    pub(super) fn decide_webhook(
        &mut self,
        task: &TaskId,
        wish: Wish,
        form: &a2a::Form,
        now: Now,
    ) -> Result<Decision, Fault> {
        if !self.settings.switches.push {
            return Err(not_supported());
        }
        let target = self.new_target(task, wish, form, now)?;
        self.decide(task, Input::Hook(HookInput::Set(target))).map_err(|refusal| explain(task, refusal))
    }

    /// Returns the target that a client wants to register, unless too many were registered in the last minute.
    fn new_target(&mut self, task: &TaskId, wish: Wish, form: &a2a::Form, now: Now) -> Result<Target, Fault> {
        if !self.registrations.admit(now.mono_ms, &self.settings.limits) {
            let message = "Too many webhooks were registered in the last minute; try again later.";
            let kind = FaultKind::Overloaded { retry_after_s: 60 };
            return Err(Fault::new(kind, message));
        }
        let entropy = &mut self.settings.entropy;
        let created = &self.tasks[task].state.created;
        Ok(a2a::push::target(wish, form, created, || entropy.uuid()))
    }

    /// Starts the deliveries of a task that are due. A delivery shows the present state of the task, so it starts only when the whole
    /// state is on disk, and only at the instance that owns the task.
    pub(super) fn deliver(&mut self, task: &TaskId, now: Now) {
        let over = self.is_over();
        let Some(loaded) = self.tasks.get_mut(task) else {
            return;
        };
        drop_finished(loaded);
        if over || !loaded.owned || !loaded.is_shown() {
            return;
        }
        for hook in &loaded.state.hooks {
            let target = &hook.target;
            let Some(due) = hook.due.front() else {
                continue;
            };
            let delivery = loaded.deliveries.iter_mut().find(|known| known.target.id == target.id);
            if let Some(delivery) = &delivery
                && !delivery.can_start(now)
            {
                continue;
            }
            let seq = due.seq();
            let sent = DeliveryState {
                target: target.clone(),
                seq,
                // A newer event that replaced one whose attempts failed starts its own count.
                failed_attempts: match &delivery {
                    Some(delivery) if delivery.seq == seq => delivery.failed_attempts,
                    Some(_) | None => 0,
                },
                paused_until: None,
            };
            match delivery {
                Some(delivery) => *delivery = sent,
                None => loaded.deliveries.push(sent),
            }
            let (target, state, due) = (target.clone(), loaded.state.clone(), due.clone());
            let (history, tools) = (self.settings.limits.webhook_history, self.tools.shown.clone());
            self.out.push(Out::Deliver(Delivery {
                task: task.clone(),
                hook: target.id.clone(),
                seq,
                url: target.url.clone(),
                headers: a2a::push::headers(&target, task, seq),
                encode: Arc::new(move || a2a::push::delivery(&target, &state, &due, history, &tools)),
            }));
        }
    }

    /// The result of an attempt to deliver.
    pub(super) fn delivered(
        &mut self,
        task: &TaskId,
        id: &ConfigId,
        seq: Seq,
        result: Result<(), DeliveryError>,
        now: Now,
    ) {
        let running = self.is_running();
        let Some(loaded) = self.tasks.get_mut(task) else {
            return;
        };
        let deliveries = &mut loaded.deliveries;
        let is_meant =
            |delivery: &DeliveryState| delivery.target.id == *id && delivery.seq == seq && delivery.is_in_flight();
        let Some(at) = deliveries.iter().position(is_meant) else {
            return;
        };
        // Its webhook may have been deleted or set again meanwhile; then other deliveries may be waiting.
        self.disk.to_release.push(task.clone());
        let delivery = &mut deliveries[at];
        let Some(hook) = loaded.state.hooks.iter().find(|hook| delivery.is_for(hook)) else {
            deliveries.remove(at);
            return;
        };
        let health = match result {
            Ok(()) => hook.health.after_success(),
            Err(DeliveryError { retry: Retry::NothingToSend, .. }) => hook.health.clone(),
            Err(DeliveryError { retry: Retry::Again { .. }, .. }) if !running => {
                delivery.paused_until = Some(u64::MAX);
                return;
            }
            Err(DeliveryError { retry: Retry::Again { after_ms }, .. })
                if delivery.failed_attempts < self.settings.limits.webhook_retries =>
            {
                let jitter = 80 + self.settings.entropy.below(41);
                let until = now.mono_ms + pause(delivery.failed_attempts, jitter, after_ms, &self.settings.limits);
                delivery.failed_attempts += 1;
                delivery.paused_until = Some(until);
                let (task, id) = (task.clone(), id.clone());
                self.timers.arm(until, Timer::Webhook { task, id });
                return;
            }
            Err(DeliveryError { message, .. }) => {
                let health = hook.health.after_failure(&message, self.settings.limits.webhook_failures);
                let text = notice(task, id, &health);
                self.out.extend(text.map(Out::warning));
                health
            }
        };
        deliveries.remove(at);
        let moved = HookInput::Moved { id: id.clone(), upto: seq, health };
        // Never refused: `decide` ignores the result of a delivery to a webhook that was changed meanwhile.
        let _ = self.drive(task, Input::Hook(moved), now);
    }
}

/// Whether deliveries of a task are due: then a restarted server has to load the task.
pub(super) fn has_due_deliveries(state: &State) -> bool {
    state.hooks.iter().any(|hook| !hook.due.is_empty())
}

impl DeliveryState {
    pub(super) fn is_in_flight(&self) -> bool {
        self.paused_until.is_none()
    }

    /// For the checks of invariants: its webhook, and when its next attempt starts; None while an attempt is in flight.
    #[cfg(debug_assertions)]
    pub(super) fn inspect(&self) -> (&ConfigId, Option<u64>) {
        (&self.target.id, self.paused_until)
    }

    fn is_for(&self, hook: &Hook) -> bool {
        Arc::ptr_eq(&self.target, &hook.target)
    }

    /// Whether its next attempt may start.
    fn can_start(&self, now: Now) -> bool {
        self.paused_until.is_some_and(|until| until <= now.mono_ms)
    }
}

/// Removes deliveries to webhooks that were deleted, set again or suspended.
fn drop_finished(loaded: &mut LoadedTask) {
    let hooks = &loaded.state.hooks;
    loaded.deliveries.retain(|delivery| {
        let mut own = hooks.iter().filter(|hook| delivery.is_for(hook));
        delivery.is_in_flight() || own.any(|hook| !hook.due.is_empty())
    });
}

/// The line in the log about a failed delivery: one for the first failure in a row, and one when the webhook is suspended. `/health`
/// shows the failures between the two.
fn notice(task: &TaskId, id: &ConfigId, health: &Health) -> Option<String> {
    let why = health.error.as_deref().unwrap_or_default();
    match health.streak {
        events if health.suspended => Some(format!(
            "webhook {id} of task {task} is suspended until it is set again: {events} events in a row were not delivered; the last: {why}"
        )),
        1 => Some(format!("webhook {id} of task {task}: an event was not delivered: {why}")),
        _ => None,
    }
}

/// How long to wait after this many failed attempts; `jitter` is a percentage.
fn pause(failed_attempts: u32, jitter: u64, asked_ms: Option<u64>, limits: &Limits) -> u64 {
    let usual = (limits.webhook_retry_ms << failed_attempts.min(16)) * jitter / 100;
    let asked = asked_ms.unwrap_or(0).min(limits.webhook_longest_retry_ms);
    usual.max(asked)
}

/// When webhooks were registered in the last minute, in monotonic milliseconds.
#[derive(Default)]
pub(super) struct Registrations(VecDeque<u64>);

impl Registrations {
    const MINUTE_MS: u64 = 60_000;

    fn admit(&mut self, now_ms: u64, limits: &Limits) -> bool {
        let is_old = |at: &u64| now_ms - at >= Registrations::MINUTE_MS;
        while self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
        let is_admitted = self.0.len() < limits.webhooks_per_minute;
        if is_admitted {
            self.0.push_back(now_ms);
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests;
