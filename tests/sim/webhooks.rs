//! Deliveries to webhooks, their outcomes, and what the receivers have received. Each registration has its own address, so that
//! what arrives there can be compared with the log.
//!
//! A delivery may arrive, arrive without a response, fail temporarily or permanently, and be interrupted by a crash of the server
//! before or after it arrived. In every case a receiver gets events in order, perhaps some of them twice, and misses only those that
//! the log marks as given up.

use crate::journals::{Journals, Log};
use crate::random::Random;
use gemini_a2a::a2a;
use gemini_a2a::base::id::{ConfigId, Seq, TaskId};
use gemini_a2a::core::webhooks::{Delivery, DeliveryError, Retry};
use gemini_a2a::task::log::event::{Event, Protocol};
use gemini_a2a::task::machine::state::State;
use gemini_a2a::task::push::Hook;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Webhooks {
    pub pending: Vec<PendingDelivery>,
    /// The events that arrived at each address, in order.
    received: BTreeMap<String, Vec<Seq>>,
    /// How often the delivery of each event failed.
    failures: BTreeMap<(String, Seq), u32>,
}

/// A delivery that was started, and when its outcome is known.
pub struct PendingDelivery {
    due: u64,
    pub delivery: Delivery,
    outcome: DeliveryOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    Arrives,
    /// The receiver gets it, but its response is lost.
    Unanswered,
    Fails(Retry),
}

impl DeliveryOutcome {
    pub fn any(chance: &mut Random) -> DeliveryOutcome {
        match chance.below(20) {
            0..13 => DeliveryOutcome::Arrives,
            13..15 => DeliveryOutcome::Unanswered,
            15 => DeliveryOutcome::Fails(Retry::Never),
            _ => DeliveryOutcome::Fails(Retry::Again { after_ms: chance.percent(30).then(|| chance.within(0, 900)) }),
        }
    }

    fn arrives(self) -> bool {
        match self {
            DeliveryOutcome::Arrives | DeliveryOutcome::Unanswered => true,
            DeliveryOutcome::Fails(_) => false,
        }
    }
}

impl Webhooks {
    /// Starts a delivery: it must be the next one that is due according to the log, and the only one of its webhook.
    pub fn start(
        &mut self,
        delivery: Delivery,
        due: u64,
        outcome: DeliveryOutcome,
        journals: &mut Journals,
        history: usize,
    ) {
        let Delivery { task, hook, seq, .. } = &delivery;
        let mut others = self.pending.iter().map(|delivery_job| &delivery_job.delivery);
        let twice = others.any(|other| (&other.task, &other.hook) == (task, hook));
        assert!(!twice, "{delivery:?}: one at a time");
        let tools = journals.tools.clone();
        let log = journals.read(task);
        let state = log.last();
        let known = find(state, hook);
        let known = known.unwrap_or_else(|| panic!("{delivery:?} to a webhook that is not on disk"));
        let next = known.due.front();
        let next = next.unwrap_or_else(|| panic!("{delivery:?} is nothing that the log owes"));
        assert_eq!(next.seq(), *seq, "{delivery:?} comes out of turn");
        assert_eq!(delivery.url, known.target.url);
        let body = a2a::push::delivery(&known.target, state, next, history, &tools);
        let outcome = if body.is_some() { outcome } else { DeliveryOutcome::Fails(Retry::NothingToSend) };
        let text = |body: Option<Vec<u8>>| body.map(|body| String::from_utf8_lossy(&body).into_owned());
        assert_eq!(text(delivery.body().ok()), text(body), "{delivery:?} tells something else than the log");
        self.pending.push(PendingDelivery { due, delivery, outcome });
    }

    /// A delivery whose outcome is known by now. `loses_deliveries` is the injected bug: nothing arrives.
    pub fn next_outcome(
        &mut self,
        now_ms: u64,
        loses_deliveries: bool,
    ) -> Option<(Delivery, Result<(), DeliveryError>)> {
        let at = self.pending.iter().position(|delivery_job| delivery_job.due <= now_ms)?;
        let PendingDelivery { delivery, outcome, .. } = self.pending.remove(at);
        if outcome.arrives() && !loses_deliveries {
            self.receive(&delivery);
        }
        let failed = |retry| Err(DeliveryError { retry, message: "the receiver is not well".into() });
        let place = (delivery.url.clone(), delivery.seq);
        let failures = self.failures.entry(place).or_default();
        *failures = match outcome {
            DeliveryOutcome::Arrives => *failures,
            DeliveryOutcome::Fails(Retry::Never) => u32::MAX,
            DeliveryOutcome::Fails(Retry::NothingToSend) => *failures,
            DeliveryOutcome::Unanswered | DeliveryOutcome::Fails(Retry::Again { .. }) => failures.saturating_add(1),
        };
        let result = match outcome {
            DeliveryOutcome::Arrives => Ok(()),
            DeliveryOutcome::Unanswered => failed(Retry::Again { after_ms: None }),
            DeliveryOutcome::Fails(retry) => failed(retry),
        };
        Some((delivery, result))
    }

    /// The server has crashed: some of the deliveries under way have arrived, and the server does not learn of it.
    pub fn crash(&mut self, chance: &mut Random) {
        for delivery_job in std::mem::take(&mut self.pending) {
            if delivery_job.outcome.arrives() && chance.percent(50) {
                self.receive(&delivery_job.delivery);
            }
        }
    }

    fn receive(&mut self, delivery: &Delivery) {
        let received = self.received.entry(delivery.url.clone()).or_default();
        let before = received.last().copied().unwrap_or_default();
        assert!(before <= delivery.seq, "{delivery:?} comes behind {before}");
        received.push(delivery.seq);
    }

    /// Whether nothing is due according to the log.
    pub fn is_settled(log: &Log) -> bool {
        log.last().hooks.iter().all(|hook| hook.due.is_empty())
    }

    /// Compares the deliveries that arrived with the logs; `retries` is the limit for each. Returns the number of registrations that received
    /// everything.
    pub fn check(&self, journals: &Journals, retries: u32) -> u64 {
        let mut complete = 0;
        for task in journals.tasks() {
            let log = journals.log(&task).expect("it has events");
            for record in &log.records {
                if let Event::HookSet { target } = &record.event {
                    let registration = Registration::of(log, record.seq, &target.id);
                    let none = Vec::new();
                    let received = self.received.get(&target.url).unwrap_or(&none);
                    registration.compare(&task, received);
                    for seq in &registration.given_up {
                        let failures = self.failures.get(&(target.url.clone(), *seq));
                        let enough = failures.is_some_and(|failures| *failures > retries);
                        assert!(enough, "{seq} of {task} was given up too early: {registration:?}");
                    }
                    complete += u64::from(registration.is_complete() && !registration.delivered.is_empty());
                }
            }
        }
        complete
    }
}

/// One registration of a webhook, as the log describes it.
#[derive(Debug)]
struct Registration {
    protocol: Protocol,
    /// All events that became due.
    due_events: Vec<Seq>,
    /// Events that were delivered, given up, or not sent because they have no body.
    delivered: Vec<Seq>,
    given_up: Vec<Seq>,
    not_sent: Vec<Seq>,
    suspended: bool,
    /// Events that are still due, or were when the registration ended.
    still_due: Vec<Seq>,
}

impl Registration {
    fn of(log: &Log, set: Seq, id: &ConfigId) -> Registration {
        let first = find(log.state(set).expect("on disk"), id).expect("just set");
        let due = |hook: &Hook| -> Vec<Seq> { hook.due.iter().map(|due| due.seq()).collect() };
        let mut registration = Registration {
            protocol: first.target.protocol,
            due_events: due(first),
            delivered: Vec::new(),
            given_up: Vec::new(),
            not_sent: Vec::new(),
            suspended: false,
            still_due: due(first),
        };
        let mut health = first.health.clone();
        for record in &log.records[set.0 as usize..] {
            let ends = match &record.event {
                Event::HookSet { target } => target.id == *id,
                Event::HookDropped { id: dropped } => dropped == id,
                _ => false,
            };
            let now = find(log.state(record.seq).expect("on disk"), id);
            let Some(now) = now.filter(|_| !ends) else {
                break;
            };
            if let Event::HookMoved { id: moved, upto, .. } = &record.event
                && moved == id
            {
                if now.health.delivered > health.delivered {
                    registration.delivered.push(*upto);
                } else if now.health.failed > health.failed {
                    registration.given_up.push(*upto);
                } else {
                    registration.not_sent.push(*upto);
                }
                health = now.health.clone();
                registration.suspended |= health.suspended;
            }
            if let Some(due) = now.due.back().filter(|due| due.seq() == record.seq) {
                registration.due_events.push(due.seq());
            }
            registration.still_due = due(now);
        }
        registration
    }

    fn is_complete(&self) -> bool {
        self.given_up.is_empty() && self.still_due.is_empty()
    }

    fn compare(&self, task: &TaskId, received: &[Seq]) {
        for seq in received {
            assert!(self.due_events.contains(seq), "{seq} of {task} was not due: {self:?}");
        }
        for seq in &self.delivered {
            assert!(received.contains(seq), "{seq} of {task} was never delivered: {self:?}");
        }
        for seq in &self.due_events {
            // In 0.3 a delivery is the current task, which replaces all earlier deliveries.
            let overtaken = self.protocol == Protocol::V03 && self.due_events.last() > Some(seq);
            let outcome = [&self.delivered, &self.given_up, &self.not_sent, &self.still_due];
            let known = outcome.iter().any(|outcome| outcome.contains(seq));
            let excused = known || overtaken || self.suspended;
            assert!(excused, "nothing became of {seq} of {task}: {self:?}");
        }
    }
}

fn find<'a>(state: &'a State, id: &ConfigId) -> Option<&'a Hook> {
    state.hooks.iter().find(|hook| hook.target.id == *id)
}
