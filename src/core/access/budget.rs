//! Rate limits as token buckets. A budget is refilled with time up to its burst; taking from an empty one fails with the time until it has
//! one again.

use crate::base::clock::Now;
use crate::limits::access::{
    ADDRESSES, CALLS_BURST, CALLS_PER_MINUTE, PROMPTS_BURST, PROMPTS_PER_MINUTE, WRONG_IN_ALL, WRONG_PER_ADDRESS,
};
use crate::task::access::credentials::Rate;
use ::core::net::IpAddr;
use std::collections::HashMap;

const MINUTE_MS: u64 = 60_000;

/// A token bucket. It counts sixty-thousandths of a token, so that nothing is lost by rounding.
#[derive(Clone, Debug)]
pub struct Budget {
    per_minute: u64,
    /// How much it has and how much it can have, in sixty-thousandths.
    content: u64,
    capacity: u64,
    /// When it was last refilled, in monotonic milliseconds.
    at: u64,
}

impl Budget {
    /// A full budget.
    pub fn new(per_minute: u32, burst: u32, now: Now) -> Budget {
        let capacity = u64::from(burst.max(1)) * MINUTE_MS;
        Budget { per_minute: u64::from(per_minute), content: capacity, capacity, at: now.mono_ms }
    }

    /// Takes one. The error is the time in milliseconds until there is one.
    pub fn take(&mut self, now: Now) -> Result<(), u64> {
        let passed = now.mono_ms.saturating_sub(self.at);
        self.at = now.mono_ms;
        self.content = self.capacity.min(self.content.saturating_add(passed.saturating_mul(self.per_minute)));
        match self.content.checked_sub(MINUTE_MS) {
            Some(left) => {
                self.content = left;
                Ok(())
            }
            None if self.per_minute == 0 => Err(MINUTE_MS),
            None => Err((MINUTE_MS - self.content).div_ceil(self.per_minute)),
        }
    }

    fn is_full(&self, now: Now) -> bool {
        let passed = now.mono_ms.saturating_sub(self.at);
        self.content.saturating_add(passed.saturating_mul(self.per_minute)) >= self.capacity
    }
}

/// The budgets of one credential.
#[derive(Debug)]
pub struct Budgets {
    /// The limits that the credentials file sets.
    pub rate: Rate,
    pub calls: Budget,
    pub prompts: Budget,
}

impl Budgets {
    pub fn new(rate: Rate, now: Now) -> Budgets {
        let calls = rate.calls_per_minute.unwrap_or(CALLS_PER_MINUTE);
        let prompts = rate.prompts_per_minute.unwrap_or(PROMPTS_PER_MINUTE);
        Budgets {
            rate,
            calls: Budget::new(calls, CALLS_BURST.min(calls), now),
            prompts: Budget::new(prompts, PROMPTS_BURST.min(prompts), now),
        }
    }

    /// Whether nothing was taken lately, so that new budgets would be the same.
    pub fn is_full(&self, now: Now) -> bool {
        self.calls.is_full(now) && self.prompts.is_full(now)
    }
}

/// Wrong credentials, counted per address and in all. An IPv6 address is counted as its /64 network, because one client may have all
/// addresses of that.
#[derive(Debug, Default)]
pub struct WrongAttempts {
    addresses: HashMap<IpAddr, Budget>,
    all: Option<Budget>,
}

impl WrongAttempts {
    /// Counts one. If there were too many, returns the time in milliseconds until the next one is answered.
    pub fn count(&mut self, address: Option<IpAddr>, now: Now) -> Option<u64> {
        let all = self.all.get_or_insert_with(|| Budget::new(WRONG_IN_ALL, WRONG_IN_ALL, now));
        let in_all = all.take(now).err();
        // Unix sockets have no address.
        let of_address = address.and_then(|address| self.budget(network(address), now).take(now).err());
        in_all.max(of_address)
    }

    fn budget(&mut self, network: IpAddr, now: Now) -> &mut Budget {
        if self.addresses.len() >= ADDRESSES && !self.addresses.contains_key(&network) {
            self.addresses.retain(|_, budget| !budget.is_full(now));
            if self.addresses.len() >= ADDRESSES {
                let oldest = self.addresses.iter().min_by_key(|(_, budget)| budget.at).map(|(address, _)| *address);
                oldest.map(|address| self.addresses.remove(&address));
            }
        }
        self.addresses.entry(network).or_insert_with(|| Budget::new(WRONG_PER_ADDRESS, WRONG_PER_ADDRESS, now))
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mono_ms: u64) -> Now {
        Now { mono_ms, unix_ms: 0 }
    }

    #[test]
    fn a_budget_gives_its_burst_and_is_then_refilled_with_time() {
        let mut budget = Budget::new(600, 3, at(0));
        for _ in 0..3 {
            assert_eq!(budget.take(at(0)), Ok(()));
        }
        assert_eq!(budget.take(at(0)), Err(100), "600 a minute are one in 100 ms");
        assert_eq!(budget.take(at(99)), Err(1));
        assert_eq!(budget.take(at(100)), Ok(()));
        assert_eq!(budget.take(at(100)), Err(100));
        // It never holds more than its burst.
        let taken = (0..10).filter(|_| budget.take(at(1_000_000)).is_ok()).count();
        assert_eq!(taken, 3);
        let mut none = Budget::new(0, 1, at(0));
        assert_eq!((none.take(at(0)), none.take(at(9_999_999))), (Ok(()), Err(60_000)));
    }

    #[test]
    fn a_budget_has_one_after_exactly_the_time_that_it_names() {
        for per_minute in [1, 7, 60, 1_000] {
            let mut budget = Budget::new(per_minute, 1, at(0));
            assert_eq!(budget.take(at(0)), Ok(()));
            let wait = budget.take(at(0)).expect_err("it is empty");
            assert!(budget.clone().take(at(wait - 1)).is_err() && budget.take(at(wait)).is_ok(), "{per_minute}");
        }
    }

    #[test]
    fn wrong_attempts_are_counted_per_address_and_in_all() {
        let mut wrong = WrongAttempts::default();
        let address = |text: &str| Some(text.parse().expect("an address"));
        for _ in 0..WRONG_PER_ADDRESS {
            assert_eq!(wrong.count(address("10.0.0.7"), at(0)), None);
        }
        assert_eq!(wrong.count(address("10.0.0.7"), at(0)), Some(6_000));
        assert_eq!(wrong.count(address("10.0.0.8"), at(0)), None);
        // A client has a whole /64 network, and an address of version 4 has two forms.
        for n in 0..WRONG_PER_ADDRESS {
            assert_eq!(wrong.count(address(&format!("2001:db8::{n:x}")), at(0)), None);
        }
        assert!(wrong.count(address("2001:db8::ffff"), at(0)).is_some());
        assert!(wrong.count(address("::ffff:10.0.0.7"), at(0)).is_some());
        let mut wrong = WrongAttempts::default();
        let refused = (0..WRONG_IN_ALL + 5).filter(|n| {
            let address = IpAddr::V4((0x0a00_0000 + n).into());
            wrong.count(Some(address), at(0)).is_some()
        });
        assert_eq!(refused.count(), 5);
    }

    #[test]
    fn the_number_of_remembered_addresses_is_limited() {
        let mut wrong = WrongAttempts::default();
        for n in 0..(ADDRESSES as u32 + 100) {
            wrong.count(Some(IpAddr::V4(n.into())), at(u64::from(n)));
        }
        assert_eq!(wrong.addresses.len(), ADDRESSES);
        assert!(!wrong.addresses.contains_key(&IpAddr::V4(0.into())), "the quiet ones are forgotten");
        // After a minute all of them are as new.
        wrong.count(Some(IpAddr::V4(u32::MAX.into())), at(120_000));
        assert_eq!(wrong.addresses.len(), 1);
    }
}
