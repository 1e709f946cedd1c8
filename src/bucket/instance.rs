//! One instance: its id, its times, and requests that are repeated until they are answered.

use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::InstanceId;
use crate::bucket::{Answer, BucketError, BucketErrorKind, Dated, Entry, Expect, List, Meta, Object};
use crate::limits::store::*;
use std::sync::Arc;

/// One instance's side of the protocol. Its procedures are in the other files of this folder. Those that take a
/// [`View`](crate::bucket::log::view::View) need it exclusively, because a process runs at most one procedure per task at a time.
pub struct Instance<P> {
    pub port: P,
    pub id: InstanceId,
    pub times: Times,
    pub rules: Rules,
}

/// The times of the protocol. All instances of a bucket must have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    pub heartbeat_ms: u64,
    pub heartbeats_listed_ms: u64,
    pub death_ms: u64,
    pub cut_off_ms: u64,
    pub scan_ms: u64,
    pub slow_ms: u64,
    pub fresh_ms: u64,
    pub grace_ms: u64,
    /// How long after its deletion a task is removed.
    pub removal_ms: u64,
    /// Segments per compacted object.
    pub compacted_segments: usize,
}

impl Default for Times {
    fn default() -> Times {
        Times {
            heartbeat_ms: HEARTBEAT_MS,
            heartbeats_listed_ms: HEARTBEATS_LISTED_MS,
            death_ms: DEATH_MS,
            cut_off_ms: CUT_OFF_MS,
            scan_ms: SCAN_MS,
            slow_ms: SLOW_MS,
            fresh_ms: FRESH_MS,
            grace_ms: GRACE_MS,
            removal_ms: GRACE_MS,
            compacted_segments: COMPACTED_SEGMENTS,
        }
    }
}

impl Times {
    /// All times divided by `divisor`, for tests with real processes.
    pub fn divided(self, divisor: u64) -> Times {
        let short = |ms: u64| (ms / divisor.max(1)).max(1);
        Times {
            heartbeat_ms: short(self.heartbeat_ms),
            heartbeats_listed_ms: short(self.heartbeats_listed_ms),
            death_ms: short(self.death_ms),
            cut_off_ms: short(self.cut_off_ms),
            scan_ms: short(self.scan_ms),
            slow_ms: short(self.slow_ms),
            fresh_ms: short(self.fresh_ms),
            grace_ms: short(self.grace_ms),
            removal_ms: short(self.removal_ms),
            compacted_segments: self.compacted_segments,
        }
    }
}

/// Rules of the protocol that the simulation turns off, one at a time, to prove that it detects the resulting errors. The program applies
/// all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// An instance that has not checked the end of a log for a while reads the task's entry before it trusts a response about the log.
    pub entry_checked: bool,
    /// Removal deletes the entry first, and the log from its beginning.
    pub entry_removed_first: bool,
    /// The name of a marker contains the number of the segment that began the work.
    pub numbered_markers: bool,
    /// If a number of an inbox is in use, the sender compares the bytes.
    pub inbox_compared: bool,
    /// If a log names this instance as the owner although its view has no epoch, an earlier claim has succeeded.
    pub own_claims_adopted: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            entry_checked: true,
            entry_removed_first: true,
            numbered_markers: true,
            inbox_compared: true,
            own_claims_adopted: true,
        }
    }
}

impl<P: Port> Instance<P> {
    pub fn new(port: P, id: InstanceId, times: Times) -> Instance<P> {
        Instance { port, id, times, rules: Rules::default() }
    }

    /// Whether the end of a log was checked so recently that its task cannot have been removed since.
    pub fn is_fresh(&self, tail_checked_at: Option<u64>) -> bool {
        tail_checked_at.is_some_and(|at| self.port.now_ms().saturating_sub(at) <= self.times.fresh_ms)
    }

    /// Waits before attempt `tries + 1` of a request: a random time below a limit that doubles with each attempt.
    pub(in crate::bucket) async fn back_off(&self, error: Option<&BucketError>, tries: u32) -> Result<(), Halt> {
        let kind = error.map_or(BucketErrorKind::Unknown, |error| error.kind);
        if let Some(error) = error {
            self.port.report(error);
        }
        let message = || error.map_or("the bucket does not answer".to_owned(), BucketError::to_string);
        if kind == BucketErrorKind::Damaged && tries >= DAMAGED_TRIES {
            return Err(Halt::Damaged(message()));
        }
        // An operator has to change something first, so the caller gets the error at once.
        let is_refused = matches!(kind, BucketErrorKind::Forbidden | BucketErrorKind::Unsupported);
        if is_refused || self.port.gives_up(tries) {
            return Err(Halt::Unavailable(message()));
        }
        let longest = RETRY_FIRST_MS.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(RETRY_MS);
        self.port.sleep(1 + self.port.random(longest)).await;
        Ok(())
    }

    /// Makes a request until it is answered, and waits longer after each failure.
    async fn repeat<T>(&self, attempt: impl AsyncFn() -> Answer<T>) -> Result<T, Halt> {
        let mut tries = 0;
        loop {
            match attempt().await {
                Ok(answer) => return Ok(answer.value),
                Err(error) => {
                    tries += 1;
                    self.back_off(Some(&error), tries).await?;
                }
            }
        }
    }

    /// Reads an object. Also returns when the answered attempt was sent.
    pub(in crate::bucket) async fn get(&self, name: &str) -> Result<(Option<Object>, u64), Halt> {
        let attempt = async || {
            let sent_at = self.port.now_ms();
            let Dated { value, unix_ms } = self.port.get(name).await?;
            Ok(Dated { value: (value, sent_at), unix_ms })
        };
        self.repeat(attempt).await
    }

    /// Creates an object that only this instance creates, or whose content is the same whichever instance creates it. Succeeds if the object
    /// exists already.
    pub(in crate::bucket) async fn create(&self, name: &str, bytes: &Arc<[u8]>, meta: &Meta) -> Result<(), Halt> {
        self.repeat(async || self.port.put(name, bytes, meta, &Expect::Absent).await).await.map(drop)
    }

    pub(in crate::bucket) async fn delete_object(&self, name: &str) -> Result<(), Halt> {
        self.repeat(async || self.port.delete(name, None).await).await.map(drop)
    }

    /// All objects whose names begin with `prefix` and sort after `after`.
    pub(in crate::bucket) async fn list(&self, prefix: &str, after: Option<String>) -> Result<Listed, Halt> {
        self.list_all(List { prefix: prefix.to_owned(), after, folders: false }).await
    }

    /// The folders directly below a prefix.
    pub(in crate::bucket) async fn folders(&self, prefix: &str) -> Result<Vec<String>, Halt> {
        let list = List { prefix: prefix.to_owned(), after: None, folders: true };
        Ok(self.list_all(list).await?.folders)
    }

    async fn list_all(&self, mut list: List) -> Result<Listed, Halt> {
        let mut listed = Listed { entries: Vec::new(), folders: Vec::new(), unix_ms: u64::MAX };
        let mut tries = 0;
        for _ in 0..LIST_PAGES {
            let page = loop {
                match self.port.list(&list).await {
                    Ok(page) => break page,
                    Err(error) => {
                        tries += 1;
                        self.back_off(Some(&error), tries).await?;
                    }
                }
            };
            listed.unix_ms = listed.unix_ms.min(page.unix_ms);
            listed.entries.extend(page.value.entries);
            listed.folders.extend(page.value.folders);
            match page.value.next {
                Some(next) => list.after = Some(next),
                None => return Ok(listed),
            }
        }
        Err(Halt::Damaged(format!("the list of {} does not end", list.prefix)))
    }
}

/// The objects of a list, in the order of their names.
pub struct Listed {
    pub entries: Vec<Entry>,
    pub folders: Vec<String>,
    /// The store's clock at the earliest page, so that no computed age is too large.
    pub unix_ms: u64,
}

impl Listed {
    /// How old an object is by the store's clock.
    pub fn age_ms(&self, entry: &Entry) -> u64 {
        self.unix_ms.saturating_sub(entry.created_unix_ms)
    }
}
