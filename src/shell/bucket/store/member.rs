//! This process as one of the instances that share a bucket: its heartbeat, what it knows of the others, and the procedures of the
//! protocol.

use crate::base::lock::lock;
use crate::bucket::instance::{Instance, Times};
use crate::bucket::ownership::heartbeat::Liveness;
use crate::bucket::port::{Halt, block_on};
use crate::bucket::replica::InstanceId;
use crate::bucket::{Bucket, Version};
use crate::core::disk::shared::Standing;
use crate::core::disk::store::StoreError;
use crate::limits::store::{PATIENT_TRIES, PROBE_RETRY_MS};
use crate::shell::bucket::port::BlockingPort;
use crate::shell::bucket::{ProbeError, probe, probe_name};
use crate::shell::event_loop::log::Log;
use crate::shell::event_loop::sys;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;
use std::time::Duration;

pub struct Member {
    pub bucket: Arc<dyn Bucket>,
    /// Its requests are tried again for a while, because a client or a log waits for the result.
    pub patient: Instance<BlockingPort>,
    /// Its requests are tried once, because all of it is done again soon.
    pub hasty: Instance<BlockingPort>,
    /// Where clients reach this instance.
    pub url: Option<String>,
    liveness: Arc<Mutex<Liveness>>,
    /// How often this instance had been cut off when it was last looked at.
    seen_gaps: AtomicU64,
    /// When the next scan is due, by the clock of the port. A death makes it due at once.
    scan_at: AtomicU64,
    /// Why the last heartbeat was not written.
    trouble: Mutex<Option<String>>,
    is_ending: Mutex<bool>,
    ends: Condvar,
    /// A heartbeat may exist.
    has_beaten: AtomicBool,
    log: Log,
}

impl Member {
    /// Checks the bucket and begins to write heartbeats. A bucket that cannot be used is an error; one that does not answer is tried
    /// again, and until then nothing can be stored.
    pub fn join(
        bucket: Arc<dyn Bucket>,
        times: Times,
        url: Option<String>,
        log: Log,
    ) -> Result<Arc<Member>, StoreError> {
        let id = InstanceId::from(sys::entropy().uuid());
        let probe_name = probe_name(id.as_str());
        let is_usable = match probe(&*bucket, &probe_name) {
            Ok(()) => true,
            Err(ProbeError::Configuration(why)) => return Err(StoreError::new(format!("the bucket: {why}"))),
            Err(ProbeError::Unreachable(why)) => {
                log.warn(format_args!("the bucket does not answer, nothing can be stored until it does: {why}"));
                false
            }
        };
        let liveness: Arc<Mutex<Liveness>> = Arc::default();
        // Clients that wait for a request get the error of the store.
        let (known, cut_off) = (liveness.clone(), times.clone());
        let is_cut_off = Arc::new(move || lock(&known).is_cut_off(sys::boot_ms(), &cut_off));
        let port = |tries| BlockingPort::new(bucket.clone(), tries).unless(is_cut_off.clone());
        let instance = |tries| Instance::new(port(tries), id.clone(), times.clone());
        let member = Arc::new(Member {
            patient: instance(PATIENT_TRIES),
            hasty: instance(1),
            bucket,
            url,
            liveness,
            seen_gaps: AtomicU64::new(0),
            scan_at: AtomicU64::new(0),
            trouble: Mutex::new(Some("the bucket has not answered yet".into())),
            is_ending: Mutex::new(false),
            ends: Condvar::new(),
            has_beaten: AtomicBool::new(false),
            log,
        });
        // The first one here, so that the server is ready when it listens.
        let unprobed = if is_usable { None } else { Some(probe_name) };
        let first = is_usable.then(|| member.beat(1));
        let weak = Arc::downgrade(&member);
        member.start("heartbeat", move || beat(&weak, unprobed, first))?;
        let weak = Arc::downgrade(&member);
        member.start("instances", move || watch(&weak))?;
        Ok(member)
    }

    fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        let started = thread::Builder::new().name(name.into()).spawn(work);
        started.map(drop).map_err(|error| StoreError::new(format!("no thread can be started for {name}: {error}")))
    }

    pub fn id(&self) -> &InstanceId {
        &self.patient.id
    }

    /// The version in which the heartbeat of a dead instance is.
    pub fn silent(&self, instance: &InstanceId) -> Option<Version> {
        lock(&self.liveness).silent(instance)
    }

    /// Whether an instance was seen to live a moment ago.
    pub fn lives(&self, instance: &InstanceId) -> bool {
        instance == self.id() || lock(&self.liveness).lives(instance)
    }

    /// Why nothing may be stored now: others may take this instance for dead.
    pub fn check(&self) -> Result<(), StoreError> {
        if !lock(&self.liveness).is_cut_off(sys::boot_ms(), &self.patient.times) {
            return Ok(());
        }
        let why = lock(&self.trouble).clone().unwrap_or_else(|| "the bucket does not answer".into());
        Err(StoreError {
            hint: Some(why.clone()),
            ..StoreError::transient(format!("the bucket cannot be used: {why}"))
        })
    }

    pub fn standing(&self) -> Standing {
        let now_ms = sys::boot_ms();
        let liveness = lock(&self.liveness);
        let is_new = liveness.is_new();
        // A process that was stopped may write a heartbeat before it gets to look: others may have taken over all the same.
        let had_gap = ![0, liveness.gaps()].contains(&self.seen_gaps.swap(liveness.gaps(), Ordering::AcqRel));
        // Nothing of an instance runs before its first heartbeat.
        let is_cut_off = !is_new && (had_gap || liveness.is_cut_off(now_ms, &self.patient.times));
        drop(liveness);
        Standing {
            is_cut_off,
            trouble: if is_cut_off { self.check().err() } else { None },
            scan_is_due: !is_new && now_ms >= self.scan_at.load(Ordering::Acquire),
            background: Vec::new(),
        }
    }

    /// A scan begins.
    pub fn scans(&self) {
        self.scan_at.store(sys::boot_ms() + self.patient.times.scan_ms, Ordering::Release);
    }

    /// Deletes the heartbeat, so that others may continue what is left at once.
    pub fn leave(&self) {
        *lock(&self.is_ending) = true;
        self.ends.notify_all();
        if self.has_beaten.load(Ordering::Acquire) {
            // If it fails, the others wait until the heartbeat is old.
            let _ = block_on(self.hasty.forget(self.id()));
        }
    }

    /// Deletes the heartbeat of an instance that is known to have ended.
    pub fn forget(&self, instance: &str) {
        let is_id = !instance.is_empty() && instance.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if is_id && instance != self.id().as_str() {
            // If it fails, the others wait until the heartbeat is old.
            let _ = block_on(self.hasty.forget(&InstanceId::from(instance)));
        }
    }

    /// Waits, unless the process ends. Returns whether it does.
    fn rest(&self, ms: u64) -> bool {
        let is_ending = lock(&self.is_ending);
        let waited = self.ends.wait_timeout_while(is_ending, Duration::from_millis(ms), |is_ending| !*is_ending);
        waited.is_ok_and(|(is_ending, _)| *is_ending)
    }

    /// Writes a heartbeat. Returns how long to wait for the next.
    fn beat(&self, n: u64) -> u64 {
        self.has_beaten.store(true, Ordering::Release);
        let beaten = block_on(self.hasty.beat(n));
        let pause_ms = self.hasty.times.heartbeat_ms / if beaten.is_ok() { 1 } else { 4 };
        self.note_beat(beaten.map_err(|trouble| trouble.message));
        pause_ms
    }

    fn note_beat(&self, beaten: Result<u64, String>) {
        let mut trouble = lock(&self.trouble);
        match beaten {
            Ok(sent_at) => {
                lock(&self.liveness).beaten(sent_at, &self.patient.times);
                if trouble.take().is_some() {
                    self.log.info(format_args!("the bucket answers; this instance is {}", self.id()));
                }
            }
            Err(why) => *trouble = Some(why),
        }
    }
}

/// Writes heartbeats until the member ends. First the bucket is probed, if that has not succeeded yet; `first` says how long to wait after
/// the first heartbeat, if that was written.
fn beat(member: &Weak<Member>, mut unprobed: Option<String>, first: Option<u64>) {
    let mut n = u64::from(first.is_some());
    if first.is_some_and(|ms| member.upgrade().is_none_or(|member| member.rest(ms))) {
        return;
    }
    while let Some(member) = member.upgrade() {
        if let Some(name) = &unprobed {
            match probe(&*member.bucket, name) {
                Ok(()) => unprobed = None,
                Err(error) => {
                    member.note_beat(Err(error.to_string()));
                    if member.rest(PROBE_RETRY_MS) {
                        return;
                    }
                    continue;
                }
            }
        }
        n += 1;
        if member.rest(member.beat(n)) {
            return;
        }
    }
}

/// Lists the heartbeats of all instances until the member ends.
fn watch(member: &Weak<Member>) {
    while let Some(member) = member.upgrade() {
        if let Ok(entries) = block_on(member.hasty.heartbeats()) {
            let (now_ms, times) = (sys::boot_ms(), &member.hasty.times);
            let died = lock(&member.liveness).listed(&entries, now_ms, times);
            if died {
                member.scan_at.store(0, Ordering::Release);
            }
            let forgotten = lock(&member.liveness).forgotten(now_ms, times);
            for (instance, version) in forgotten {
                block_on(member.hasty.forget_dead(&instance, &version));
            }
        }
        if member.rest(member.hasty.times.heartbeats_listed_ms) {
            return;
        }
    }
}

/// What the core is told of a procedure without a result.
pub fn halted(halt: Halt) -> StoreError {
    match halt {
        Halt::Unavailable(why) => StoreError { hint: Some(why.clone()), ..StoreError::transient(why) },
        Halt::Damaged(why) => StoreError::new(format!("the bucket contains what no instance wrote: {why}")),
    }
}
