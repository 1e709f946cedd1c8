//! Webhooks. A webhook is a cursor without a connection: the deliveries that are due are in the task's state, and its position is
//! in the log, so that a restarted server continues. Delivery is at least once: a receiver may get an event twice, with the same
//! event id.
//!
//! One delivery per webhook is in flight. After a failure the webhook waits; otherwise it sends the oldest event that is due. So
//! deliveries to one receiver come in order, and none of this delays a stream or the agent. The shell sends the requests and
//! checks whether an address may be contacted.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::id::{ConfigId, Seq, TaskId};
use crate::core::readers::subscription::Wants;
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

/// Something to send; answered by `Input::Delivered` with the same task, hook and event.
#[derive(Clone)]
pub struct Delivery {
    pub task: TaskId,
    pub hook: ConfigId,
    pub seq: Seq,
    pub url: String,
    /// Secrets are among them.
    pub headers: Vec<(&'static str, String)>,
    /// Encodes the body, which can be as long as the task and is no work for the loop. None: what it was about is no longer there.
    pub encode: Arc<dyn Fn() -> Option<Vec<u8>> + Send + Sync>,
}

impl Delivery {
    /// For the worker that sends it.
    pub fn body(&self) -> Result<Vec<u8>, DeliveryError> {
        let nothing = || DeliveryError { retry: Retry::Void, message: "there is nothing to send".into() };
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
    /// For the owner of the webhook: without secrets, and without what the receiver said.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It may arrive later; not before so long, if the receiver says.
    Again { after_ms: Option<u64> },
    /// Not in this way.
    Never,
    /// There was nothing to send, which says nothing about the receiver.
    Void,
}

/// The state of the deliveries to one webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Courier {
    /// Its webhook. A webhook that is set again has another one, and its deliveries start anew.
    target: Arc<Target>,
    /// The event that is delivered, and how many attempts have failed.
    seq: Seq,
    tries: u32,
    /// Not to leave before this time, in monotonic milliseconds; for ever when the server is to end. None: a delivery is under way.
    rests_until: Option<u64>,
}

impl Core {
    /// What a client wants with the webhooks of a task.
    pub(super) fn push(&mut self, caller: &Caller, task: &TaskId, ask: Push, now: Now) -> Result<(), Fault> {
        let form = &caller.form;
        if !self.settings.switches.push {
            return Err(not_supported());
        }
        let hooks = |core: &Core| core.tasks[task].state.hooks.clone();
        let wants = match ask {
            Push::Set(_) | Push::Delete(_) => Wants::Change,
            Push::Get(_) | Push::List => Wants::Read,
        };
        let response = match ask {
            Push::Set(wish) => {
                let target = self.register(task, wish, form, now)?;
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
        self.note_wish(reply, wants);
        Ok(())
    }

    /// Decides about the webhook that a prompt brings along: recorded before the prompt, so that nothing is missed.
    pub(super) fn bring_hook(
        &mut self,
        task: &TaskId,
        wish: Wish,
        form: &a2a::Form,
        now: Now,
    ) -> Result<Decision, Fault> {
        if !self.settings.switches.push {
            return Err(not_supported());
        }
        let target = self.register(task, wish, form, now)?;
        self.decide(task, Input::Hook(HookInput::Set(target))).map_err(|refusal| explain(task, refusal))
    }

    /// Makes a target of a wish, if there were not too many registrations lately.
    fn register(&mut self, task: &TaskId, wish: Wish, form: &a2a::Form, now: Now) -> Result<Target, Fault> {
        if !self.registrations.admit(now.mono_ms, &self.settings.limits) {
            let message = "Too many webhooks were registered in the last minute; try again later.";
            let kind = FaultKind::Overloaded { retry_after_s: 60 };
            return Err(Fault::new(kind, message));
        }
        let entropy = &mut self.settings.entropy;
        let created = &self.tasks[task].state.created;
        Ok(a2a::push::target(wish, form, created, || entropy.uuid()))
    }

    /// Starts the deliveries of a task that are due. A delivery shows the present state, so all of it must be on disk. Who only reads a
    /// task delivers nothing.
    pub(super) fn deliver(&mut self, task: &TaskId, now: Now) {
        let over = self.is_over();
        let Some(loaded) = self.tasks.get_mut(task) else {
            return;
        };
        dismiss_idle(loaded);
        if over || !loaded.owned || !loaded.is_shown() {
            return;
        }
        for hook in &loaded.state.hooks {
            let target = &hook.target;
            let Some(due) = hook.due.front() else {
                continue;
            };
            let courier = loaded.couriers.iter_mut().find(|known| known.target.id == target.id);
            if let Some(courier) = &courier
                && !courier.is_free(now)
            {
                continue;
            }
            let seq = due.seq();
            let sent = Courier {
                target: target.clone(),
                seq,
                // What took the place of something that failed has its own tries.
                tries: match &courier {
                    Some(courier) if courier.seq == seq => courier.tries,
                    Some(_) | None => 0,
                },
                rests_until: None,
            };
            match courier {
                Some(courier) => *courier = sent,
                None => loaded.couriers.push(sent),
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

    /// A delivery arrived, or did not.
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
        let couriers = &mut loaded.couriers;
        let is_back = |c: &Courier| c.target.id == *id && c.seq == seq && c.is_away();
        let Some(at) = couriers.iter().position(is_back) else {
            return;
        };
        // Its webhook may have been deleted or set again meanwhile; then other deliveries may be waiting.
        self.disk.to_release.push(task.clone());
        let courier = &mut couriers[at];
        let Some(hook) = loaded.state.hooks.iter().find(|hook| courier.serves(hook)) else {
            couriers.remove(at);
            return;
        };
        let health = match result {
            Ok(()) => hook.health.after_success(),
            Err(DeliveryError { retry: Retry::Void, .. }) => hook.health.clone(),
            Err(DeliveryError { retry: Retry::Again { .. }, .. }) if !running => {
                courier.rests_until = Some(u64::MAX);
                return;
            }
            Err(DeliveryError { retry: Retry::Again { after_ms }, .. })
                if courier.tries < self.settings.limits.webhook_retries =>
            {
                let jitter = 80 + self.settings.entropy.below(41);
                let until = now.mono_ms + pause(courier.tries, jitter, after_ms, &self.settings.limits);
                courier.tries += 1;
                courier.rests_until = Some(until);
                let (task, id) = (task.clone(), id.clone());
                self.timers.arm(until, Timer::Hook { task, id });
                return;
            }
            Err(DeliveryError { message, .. }) => {
                let health = hook.health.after_failure(&message, self.settings.limits.webhook_failures);
                let text = notice(task, id, &health);
                self.out.extend(text.map(Out::warning));
                health
            }
        };
        couriers.remove(at);
        self.move_hook(task, id.clone(), seq, health, now);
    }

    fn move_hook(&mut self, task: &TaskId, id: ConfigId, upto: Seq, health: Health, now: Now) {
        let moved = HookInput::Moved { id, upto, health };
        // Never refused: what is no longer true of a webhook is passed over.
        let _ = self.drive(task, Input::Hook(moved), now);
    }
}

/// Whether a webhook is still to be told something: then a restart has to go on with that.
pub(super) fn are_due(state: &State) -> bool {
    state.hooks.iter().any(|hook| !hook.due.is_empty())
}

impl Courier {
    pub(super) fn is_away(&self) -> bool {
        self.rests_until.is_none()
    }

    /// For the checks of invariants: its webhook, and until when it rests; None while it is away.
    #[cfg(debug_assertions)]
    pub(super) fn inspect(&self) -> (&ConfigId, Option<u64>) {
        (&self.target.id, self.rests_until)
    }

    fn serves(&self, hook: &Hook) -> bool {
        Arc::ptr_eq(&self.target, &hook.target)
    }

    fn is_free(&self, now: Now) -> bool {
        self.rests_until.is_some_and(|until| until <= now.mono_ms)
    }
}

/// Removes couriers with nothing to deliver: their webhook was deleted, set again or suspended.
fn dismiss_idle(loaded: &mut LoadedTask) {
    let hooks = &loaded.state.hooks;
    loaded.couriers.retain(|courier| {
        let mut own = hooks.iter().filter(|hook| courier.serves(hook));
        courier.is_away() || own.any(|hook| !hook.due.is_empty())
    });
}

/// What the operator is told of a webhook that fails: that it began, and that it is given up. How it stands between the two
/// is in `/health`.
fn notice(task: &TaskId, id: &ConfigId, health: &Health) -> Option<String> {
    let why = health.error.as_deref().unwrap_or_default();
    match health.streak {
        events if health.suspended => Some(format!(
            "webhook {id} of task {task} is left alone until it is set again: {events} events in a row were not delivered; the last: {why}"
        )),
        1 => Some(format!("webhook {id} of task {task} was not told of an event: {why}")),
        _ => None,
    }
}

/// How long to wait after so many failures, `jitter` being per cent.
fn pause(tries: u32, jitter: u64, asked_ms: Option<u64>, limits: &Limits) -> u64 {
    let usual = (limits.webhook_retry_ms << tries.min(16)) * jitter / 100;
    let asked = asked_ms.unwrap_or(0).min(limits.webhook_longest_retry_ms);
    usual.max(asked)
}

/// When webhooks were registered, as far back as it matters.
#[derive(Default)]
pub(super) struct Registrations(VecDeque<u64>);

impl Registrations {
    const MINUTE_MS: u64 = 60_000;

    fn admit(&mut self, now_ms: u64, limits: &Limits) -> bool {
        let is_old = |at: &u64| now_ms - at >= Registrations::MINUTE_MS;
        while self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
        let may = self.0.len() < limits.webhooks_per_minute;
        if may {
            self.0.push_back(now_ms);
        }
        may
    }
}

#[cfg(test)]
mod tests;
