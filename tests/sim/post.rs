//! The post: deliveries to webhooks, how they fare, and what the receivers have heard. Each registration has an address of its own,
//! so that what is heard there can be compared with what the log says it should have been told.
//!
//! A delivery may arrive, arrive without an answer coming back, fail for now or for good, and be cut off by the death of the
//! server before or after it arrived. Whatever happens, a receiver hears events in order, perhaps some of them again, and
//! misses only what the log says was given up.

use crate::chance::Chance;
use crate::ledger::{Ledger, Log};
use gemini_a2a::a2a;
use gemini_a2a::base::id::{ConfigId, Seq, TaskId};
use gemini_a2a::core::hooks::{Delivery, DeliveryError, Retry};
use gemini_a2a::task::log::event::{Event, Protocol};
use gemini_a2a::task::machine::state::State;
use gemini_a2a::task::push::Hook;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Post {
    pub errands: Vec<Errand>,
    /// What was heard at each address, in order.
    heard: BTreeMap<String, Vec<Seq>>,
    /// How often each event failed to get there.
    failures: BTreeMap<(String, Seq), u32>,
}

/// A delivery on its way, and when its outcome is known.
pub struct Errand {
    due: u64,
    pub delivery: Delivery,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Arrives,
    /// The receiver has it, but nobody is told so.
    Unanswered,
    Fails(Retry),
}

impl Fate {
    pub fn any(chance: &mut Chance) -> Fate {
        match chance.below(20) {
            0..13 => Fate::Arrives,
            13..15 => Fate::Unanswered,
            15 => Fate::Fails(Retry::Never),
            _ => Fate::Fails(Retry::Again { after_ms: chance.percent(30).then(|| chance.within(0, 900)) }),
        }
    }

    fn arrives(self) -> bool {
        match self {
            Fate::Arrives | Fate::Unanswered => true,
            Fate::Fails(_) => false,
        }
    }
}

impl Post {
    /// Takes a delivery: it must be what its webhook is told next, as the log on disk has it, and the only one on its way there.
    pub fn take(&mut self, delivery: Delivery, due: u64, fate: Fate, ledger: &mut Ledger, history: usize) {
        let Delivery { task, hook, seq, .. } = &delivery;
        let mut others = self.errands.iter().map(|errand| &errand.delivery);
        let twice = others.any(|other| (&other.task, &other.hook) == (task, hook));
        assert!(!twice, "{delivery:?}: one at a time");
        let tools = ledger.tools.clone();
        let log = ledger.read(task);
        let state = log.last();
        let known = find(state, hook);
        let known = known.unwrap_or_else(|| panic!("{delivery:?} to a webhook that is not on disk"));
        let next = known.due.front();
        let next = next.unwrap_or_else(|| panic!("{delivery:?} is nothing that the log owes"));
        assert_eq!(next.seq(), *seq, "{delivery:?} comes out of turn");
        assert_eq!(delivery.url, known.target.url);
        let body = a2a::push::delivery(&known.target, state, next, history, &tools);
        let body = body.expect("what has no body is not sent");
        assert_eq!(
            String::from_utf8_lossy(&delivery.body),
            String::from_utf8_lossy(&body),
            "{delivery:?} tells something else than the log"
        );
        self.errands.push(Errand { due, delivery, fate });
    }

    /// One whose outcome is known by now, and how it went. Receivers have heard what arrived, but for a sabotaged one.
    pub fn done(&mut self, now_ms: u64, deaf: bool) -> Option<(Delivery, Result<(), DeliveryError>)> {
        let at = self.errands.iter().position(|errand| errand.due <= now_ms)?;
        let Errand { delivery, fate, .. } = self.errands.remove(at);
        if fate.arrives() && !deaf {
            self.hear(&delivery);
        }
        let failed = |retry| Err(DeliveryError { retry, message: "the receiver is not well".into() });
        let place = (delivery.url.clone(), delivery.seq);
        let failures = self.failures.entry(place).or_default();
        *failures = match fate {
            Fate::Arrives => *failures,
            Fate::Fails(Retry::Never) => u32::MAX,
            Fate::Unanswered | Fate::Fails(Retry::Again { .. }) => failures.saturating_add(1),
        };
        let result = match fate {
            Fate::Arrives => Ok(()),
            Fate::Unanswered => failed(Retry::Again { after_ms: None }),
            Fate::Fails(retry) => failed(retry),
        };
        Some((delivery, result))
    }

    /// The server died: some of what was on its way has arrived, and nobody will ever know.
    pub fn lose(&mut self, chance: &mut Chance) {
        for errand in std::mem::take(&mut self.errands) {
            if errand.fate.arrives() && chance.percent(50) {
                self.hear(&errand.delivery);
            }
        }
    }

    fn hear(&mut self, delivery: &Delivery) {
        let heard = self.heard.entry(delivery.url.clone()).or_default();
        let before = heard.last().copied().unwrap_or_default();
        assert!(before <= delivery.seq, "{delivery:?} comes behind {before}");
        heard.push(delivery.seq);
    }

    /// Whether a log owes nobody anything.
    pub fn is_settled(log: &Log) -> bool {
        log.last().hooks.iter().all(|hook| hook.due.is_empty())
    }

    /// Compares what was heard with what the logs say; each event has so many retries. Gives how many registrations were told
    /// everything.
    pub fn audit(&self, ledger: &Ledger, retries: u32) -> u64 {
        let mut well = 0;
        for task in ledger.tasks() {
            let log = ledger.log(&task).expect("it has events");
            for record in &log.records {
                if let Event::HookSet { target } = &record.event {
                    let told = Told::of(log, record.seq, &target.id);
                    let none = Vec::new();
                    let heard = self.heard.get(&target.url).unwrap_or(&none);
                    told.compare(&task, heard);
                    for seq in &told.given_up {
                        let failures = self.failures.get(&(target.url.clone(), *seq));
                        let enough = failures.is_some_and(|failures| *failures > retries);
                        assert!(enough, "{seq} of {task} was given up too early: {told:?}");
                    }
                    well += u64::from(told.well() && !told.delivered.is_empty());
                }
            }
        }
        well
    }
}

/// What the log says of one registration, from its beginning to its end.
#[derive(Debug)]
struct Told {
    protocol: Protocol,
    /// Everything there was to tell.
    news: Vec<Seq>,
    /// What arrived, what was given up, and what turned out to be nothing.
    delivered: Vec<Seq>,
    given_up: Vec<Seq>,
    void: Vec<Seq>,
    suspended: bool,
    /// What is still to be told, now or when the registration ended.
    owed: Vec<Seq>,
}

impl Told {
    fn of(log: &Log, set: Seq, id: &ConfigId) -> Told {
        let born = find(log.state(set).expect("on disk"), id).expect("just set");
        let due = |hook: &Hook| -> Vec<Seq> { hook.due.iter().map(|due| due.seq()).collect() };
        let mut told = Told {
            protocol: born.target.protocol,
            news: due(born),
            delivered: Vec::new(),
            given_up: Vec::new(),
            void: Vec::new(),
            suspended: false,
            owed: due(born),
        };
        let mut health = born.health.clone();
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
                    told.delivered.push(*upto);
                } else if now.health.failed > health.failed {
                    told.given_up.push(*upto);
                } else {
                    told.void.push(*upto);
                }
                health = now.health.clone();
                told.suspended |= health.suspended;
            }
            if let Some(due) = now.due.back().filter(|due| due.seq() == record.seq) {
                told.news.push(due.seq());
            }
            told.owed = due(now);
        }
        told
    }

    fn well(&self) -> bool {
        self.given_up.is_empty() && self.owed.is_empty()
    }

    fn compare(&self, task: &TaskId, heard: &[Seq]) {
        for seq in heard {
            assert!(self.news.contains(seq), "{seq} of {task} was no news: {self:?}");
        }
        for seq in &self.delivered {
            assert!(heard.contains(seq), "{seq} of {task} was never told: {self:?}");
        }
        for seq in &self.news {
            // In 0.3 a delivery is the present task, and makes up for all before.
            let overtaken = self.protocol == Protocol::V03 && self.news.last() > Some(seq);
            let fates = [&self.delivered, &self.given_up, &self.void, &self.owed];
            let known = fates.iter().any(|fate| fate.contains(seq));
            let excused = known || overtaken || self.suspended;
            assert!(excused, "nothing became of {seq} of {task}: {self:?}");
        }
    }
}

fn find<'a>(state: &'a State, id: &ConfigId) -> Option<&'a Hook> {
    state.hooks.iter().find(|hook| hook.target.id == *id)
}
