//! Entries about refused requests, which are counted per address and minute. The first refusal of an address gets an entry at once; a second
//! entry says how many followed, when the minute is over. So clients cannot fill the disk, and every refusal is counted.

use crate::base::clock::Now;
use crate::base::slots::Key;
use crate::core::Core;
use crate::core::audit::Actor;
use crate::core::requests::Caller;
use crate::core::timers::Timer;
use crate::limits::audit::{AUDIT_ADDRESSES, AUDIT_COUNT_MS};
use crate::task::audit::{Entry, Kind, What, Who};
use std::collections::BTreeMap;

/// The name under which refusals of addresses beyond the limit are counted.
const OTHERS: &str = "others";

#[derive(Default)]
pub(super) struct Refusals {
    counted: BTreeMap<(Kind, Refused), Counted>,
}

/// Whose requests are refused: an address, and the credential that it has shown if that is valid.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Refused {
    address: String,
    credential: Option<String>,
}

impl From<&str> for Refused {
    fn from(address: &str) -> Refused {
        Refused { address: address.to_owned(), credential: None }
    }
}

struct Counted {
    /// Refusals since the last entry.
    more: u64,
    /// The reason of the last refusal.
    reason: &'static str,
    /// When the minute is over, in monotonic milliseconds.
    until: u64,
}

impl Refusals {
    /// Counts a refusal. If it is the first of its address, returns the name under which it is counted.
    fn count(&mut self, kind: Kind, refused: Refused, reason: &'static str, now: Now) -> Option<Refused> {
        let is_known = self.counted.contains_key(&(kind, refused.clone()));
        let refused = if is_known || self.counted.len() < AUDIT_ADDRESSES { refused } else { OTHERS.into() };
        let key = (kind, refused.clone());
        if let Some(counted) = self.counted.get_mut(&key) {
            counted.more += 1;
            counted.reason = reason;
            return None;
        }
        let until = now.mono_ms + AUDIT_COUNT_MS;
        self.counted.insert(key, Counted { more: 0, reason, until });
        Some(refused)
    }

    /// Counts the first refusal of an address with those that follow, because it gets no entry of its own.
    fn put_off(&mut self, kind: Kind, refused: Refused) {
        if let Some(counted) = self.counted.get_mut(&(kind, refused)) {
            counted.more += 1;
        }
    }

    /// Removes the addresses whose minute is over at this time. Returns those with refusals that have no entry yet.
    fn take(&mut self, mono_ms: u64) -> Vec<(Kind, Refused, u64, &'static str)> {
        let mut over = Vec::new();
        self.counted.retain(|(kind, refused), counted| {
            let lasts = counted.until > mono_ms;
            if !lasts && counted.more > 0 {
                over.push((*kind, refused.clone(), counted.more, counted.reason));
            }
            lasts
        });
        over
    }
}

impl Core {
    /// Counts a refused request from this address ([`Kind::Denied`]), or one of a tool's process ([`Kind::ChildRefused`]). `reason` is one
    /// of a few fixed words.
    pub fn audit_refusal(&mut self, kind: Kind, address: &str, reason: &'static str, now: Now) {
        self.count_refused_party(kind, address.into(), reason, None, now);
    }

    /// As [`Core::audit_refusal`], with the address of a connection.
    pub(in crate::core) fn audit_refused_peer(&mut self, kind: Kind, conn: Key, reason: &'static str, now: Now) {
        let peer = self.audited_peer(conn).unwrap_or_default();
        self.audit_refusal(kind, &peer, reason, now);
    }

    /// Counts a refused call of an authenticated caller: the right for it is missing, or its task belongs to another subject.
    pub(in crate::core) fn audit_refused_call(&mut self, caller: &Caller, reason: &'static str, now: Now) {
        let actor = self.actor(caller);
        let address = actor.who.peer.clone().unwrap_or_default();
        let refused = Refused { address, credential: actor.who.credential.clone() };
        self.count_refused_party(Kind::Denied, refused, reason, Some(actor), now);
    }

    fn count_refused_party(
        &mut self,
        kind: Kind,
        refused: Refused,
        reason: &'static str,
        actor: Option<Actor>,
        now: Now,
    ) {
        let Some(audit) = &mut self.audit else {
            return;
        };
        let Some(refused) = audit.refusals.count(kind, refused, reason, now) else {
            return;
        };
        self.timers.arm(now.mono_ms + AUDIT_COUNT_MS, Timer::Refusals);
        // Entries that cannot be written stay in memory, so refusals get none meanwhile.
        match audit.problem.is_some() {
            true => audit.refusals.put_off(kind, refused),
            false => self.add_refusals(kind, refused, 1, reason, actor, now),
        }
    }

    /// Adds an entry for each address whose minute is over at this time and that has refusals without an entry.
    pub(in crate::core) fn count_refusals_out(&mut self, now: Now, mono_ms: u64) {
        let Some(audit) = self.audit.as_mut() else {
            return;
        };
        if audit.problem.is_some() {
            return self.timers.arm(now.mono_ms + AUDIT_COUNT_MS, Timer::Refusals);
        }
        let over = audit.refusals.take(mono_ms);
        for (kind, refused, count, reason) in over {
            self.add_refusals(kind, refused, count, reason, None, now);
        }
    }

    fn add_refusals(
        &mut self,
        kind: Kind,
        refused: Refused,
        count: u64,
        reason: &'static str,
        actor: Option<Actor>,
        now: Now,
    ) {
        let Actor { who, request } = actor.unwrap_or_default();
        let who = Who { peer: Some(refused.address), credential: refused.credential, ..who };
        let what = What::default().with("reason", reason).with("count", count);
        self.audit(&Entry { request, ..Entry::new(kind, who, what) }, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mono_ms: u64) -> Now {
        Now { mono_ms, unix_ms: 0 }
    }

    #[test]
    fn refusals_of_an_address_are_counted_for_a_minute() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.count(Kind::Denied, "a".into(), "credential", at(0)), Some("a".into()));
        assert_eq!(refusals.count(Kind::Denied, "a".into(), "origin", at(1)), None);
        assert_eq!(refusals.count(Kind::Denied, "a".into(), "host", at(2)), None);
        assert_eq!(refusals.count(Kind::ChildRefused, "a".into(), "child", at(2)), Some("a".into()));
        assert_eq!(refusals.take(AUDIT_COUNT_MS - 1), []);
        assert_eq!(refusals.take(AUDIT_COUNT_MS), [(Kind::Denied, "a".into(), 2, "host")]);
        // The minute of the other began later, and nothing followed it.
        assert_eq!(refusals.take(AUDIT_COUNT_MS + 2), []);
        assert!(refusals.counted.is_empty());
        assert_eq!(refusals.count(Kind::Denied, "a".into(), "host", at(AUDIT_COUNT_MS)), Some("a".into()));
    }

    #[test]
    fn the_number_of_addresses_that_are_counted_apart_is_limited() {
        let mut refusals = Refusals::default();
        for n in 0..AUDIT_ADDRESSES {
            assert!(refusals.count(Kind::Denied, n.to_string().as_str().into(), "host", at(0)).is_some());
        }
        assert_eq!(refusals.count(Kind::Denied, "x".into(), "host", at(0)), Some(OTHERS.into()));
        assert_eq!(refusals.count(Kind::Denied, "y".into(), "host", at(0)), None);
        assert_eq!(refusals.count(Kind::Denied, "7".into(), "host", at(0)), None, "it is known");
        let over = refusals.take(AUDIT_COUNT_MS);
        let expected = [(Kind::Denied, "7".into(), 1, "host"), (Kind::Denied, OTHERS.into(), 1, "host")];
        assert_eq!(over, expected);
    }
}
