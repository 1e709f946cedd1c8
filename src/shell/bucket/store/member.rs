//! This process as one of the instances that share a bucket: writes its heartbeat, watches the heartbeats of the others, and has the ports of
//! the protocol.

use crate::base::lock::lock;
use crate::bucket::instance::{Instance, Times};
use crate::bucket::ownership::heartbeat::Liveness;
use crate::bucket::port::{Halt, block_on};
use crate::bucket::replica::InstanceId;
use crate::bucket::{Bucket, Version};
use crate::core::disk::shared::InstanceStatus;
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
    /// Repeats failed requests for a while. For procedures whose result a client or a log waits for.
    pub patient: Instance<BlockingPort>,
    /// Makes a single attempt of each request. For procedures that are repeated soon anyway.
    pub hasty: Instance<BlockingPort>,
    /// The URL at which clients reach this instance.
    pub url: Option<String>,
    liveness: Arc<Mutex<Liveness>>,
    /// [`Liveness::cut_offs`] at the last call of [`Member::standing`].
    seen_cut_offs: AtomicU64,
    /// When the next scan is due, by the clock of the port. A death makes it due at once.
    scan_at: AtomicU64,
    /// Why the last heartbeat could not be written.
    last_error: Mutex<Option<String>>,
    is_ending: Mutex<bool>,
    ending: Condvar,
    /// Whether this instance may have written a heartbeat.
    may_have_heartbeat: AtomicBool,
    log: Log,
}

impl Member {
    /// Probes the bucket and begins to write heartbeats. A bucket that cannot be used is an error. If the bucket does not answer, it is
    /// probed again, and until then nothing can be stored.
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
        // While this instance is cut off, requests are not repeated, so that waiting clients get the error.
        let (known, cut_off) = (liveness.clone(), times.clone());
        let is_cut_off = Arc::new(move || lock(&known).is_cut_off(sys::boot_ms(), &cut_off));
        let port = |tries| BlockingPort::new(bucket.clone(), tries).giving_up_when(is_cut_off.clone());
        let instance = |tries| Instance::new(port(tries), id.clone(), times.clone());
        let member = Arc::new(Member {
            patient: instance(PATIENT_TRIES),
            hasty: instance(1),
            bucket,
            url,
            liveness,
            seen_cut_offs: AtomicU64::new(0),
            scan_at: AtomicU64::new(0),
            last_error: Mutex::new(Some("the bucket has not answered yet".into())),
            is_ending: Mutex::new(false),
            ending: Condvar::new(),
            may_have_heartbeat: AtomicBool::new(false),
            log,
        });
        // The first heartbeat is written here, so that the server can store tasks as soon as it listens.
        let unprobed = if is_usable { None } else { Some(probe_name) };
        let first = is_usable.then(|| member.beat(1));
        let weak = Arc::downgrade(&member);
        member.start("heartbeat", move || write_heartbeats(&weak, unprobed, first))?;
        let weak = Arc::downgrade(&member);
        member.start("instances", move || watch_heartbeats(&weak))?;
        Ok(member)
    }

    fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        let started = thread::Builder::new().name(name.into()).spawn(work);
        started.map(drop).map_err(|error| StoreError::new(format!("no thread can be started for {name}: {error}")))
    }

    pub fn id(&self) -> &InstanceId {
        &self.patient.id
    }

    /// The version of the heartbeat of a dead instance.
    pub fn silent_version(&self, instance: &InstanceId) -> Option<Version> {
        lock(&self.liveness).silent_version(instance)
    }

    /// Whether an instance was alive when heartbeats were last listed.
    pub fn is_alive(&self, instance: &InstanceId) -> bool {
        instance == self.id() || lock(&self.liveness).is_alive(instance)
    }

    /// An error if nothing may be stored now, because other instances may consider this one dead.
    pub fn check(&self) -> Result<(), StoreError> {
        if !lock(&self.liveness).is_cut_off(sys::boot_ms(), &self.patient.times) {
            return Ok(());
        }
        let why = lock(&self.last_error).clone().unwrap_or_else(|| "the bucket does not answer".into());
        Err(StoreError {
            hint: Some(why.clone()),
            ..StoreError::transient(format!("the bucket cannot be used: {why}"))
        })
    }

    pub fn standing(&self) -> InstanceStatus {
        let now_ms = sys::boot_ms();
        let liveness = lock(&self.liveness);
        let is_new = liveness.is_new();
        // A process that was suspended may write a heartbeat before this is called. Other instances may have taken over its tasks anyway.
        let was_cut_off =
            ![0, liveness.cut_offs()].contains(&self.seen_cut_offs.swap(liveness.cut_offs(), Ordering::AcqRel));
        // Nothing runs on an instance before its first heartbeat.
        let is_cut_off = !is_new && (was_cut_off || liveness.is_cut_off(now_ms, &self.patient.times));
        drop(liveness);
        InstanceStatus {
            is_cut_off,
            trouble: if is_cut_off { self.check().err() } else { None },
            scan_is_due: !is_new && now_ms >= self.scan_at.load(Ordering::Acquire),
            background: Vec::new(),
        }
    }

    /// Notes that a scan begins, and when the next one is due.
    pub fn note_scan(&self) {
        self.scan_at.store(sys::boot_ms() + self.patient.times.scan_ms, Ordering::Release);
    }

    /// Deletes the heartbeat, so that other instances may continue the unfinished tasks at once.
    pub fn leave(&self) {
        *lock(&self.is_ending) = true;
        self.ending.notify_all();
        if self.may_have_heartbeat.load(Ordering::Acquire) {
            // If this fails, the other instances wait until the heartbeat is old.
            let _ = block_on(self.hasty.delete_heartbeat(self.id()));
        }
    }

    /// Deletes the heartbeat of an instance that is known to have ended.
    pub fn delete_heartbeat(&self, instance: &str) {
        let is_id = !instance.is_empty() && instance.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if is_id && instance != self.id().as_str() {
            // If this fails, the other instances wait until the heartbeat is old.
            let _ = block_on(self.hasty.delete_heartbeat(&InstanceId::from(instance)));
        }
    }

    /// Waits, but not longer than until the process ends. Returns whether it ends.
    fn wait(&self, ms: u64) -> bool {
        let is_ending = lock(&self.is_ending);
        let waited = self.ending.wait_timeout_while(is_ending, Duration::from_millis(ms), |is_ending| !*is_ending);
        waited.is_ok_and(|(is_ending, _)| *is_ending)
    }

    /// Writes a heartbeat. Returns how long to wait before the next.
    fn beat(&self, n: u64) -> u64 {
        self.may_have_heartbeat.store(true, Ordering::Release);
        let written = block_on(self.hasty.write_heartbeat(n));
        let pause_ms = self.hasty.times.heartbeat_ms / if written.is_ok() { 1 } else { 4 };
        self.note_heartbeat(written.map_err(|error| error.message));
        pause_ms
    }

    fn note_heartbeat(&self, written: Result<u64, String>) {
        let mut last_error = lock(&self.last_error);
        match written {
            Ok(sent_at) => {
                lock(&self.liveness).heartbeat_written(sent_at, &self.patient.times);
                if last_error.take().is_some() {
                    self.log.info(format_args!("the bucket answers; this instance is {}", self.id()));
                }
            }
            Err(why) => *last_error = Some(why),
        }
    }
}

/// Writes heartbeats until the member ends. If `unprobed` is set, probes the bucket first until that succeeds. `first` is how long to wait
/// after the first heartbeat, if that was written already.
fn write_heartbeats(member: &Weak<Member>, mut unprobed: Option<String>, first: Option<u64>) {
    let mut n = u64::from(first.is_some());
    if first.is_some_and(|ms| member.upgrade().is_none_or(|member| member.wait(ms))) {
        return;
    }
    while let Some(member) = member.upgrade() {
        if let Some(name) = &unprobed {
            match probe(&*member.bucket, name) {
                Ok(()) => unprobed = None,
                Err(error) => {
                    member.note_heartbeat(Err(error.to_string()));
                    if member.wait(PROBE_RETRY_MS) {
                        return;
                    }
                    continue;
                }
            }
        }
        n += 1;
        if member.wait(member.beat(n)) {
            return;
        }
    }
}

/// Lists the heartbeats of all instances until the member ends.
fn watch_heartbeats(member: &Weak<Member>) {
    while let Some(member) = member.upgrade() {
        if let Ok(entries) = block_on(member.hasty.list_heartbeats()) {
            let (now_ms, times) = (sys::boot_ms(), &member.hasty.times);
            let died = lock(&member.liveness).observe(&entries, now_ms, times);
            if died {
                member.scan_at.store(0, Ordering::Release);
            }
            let long_dead = lock(&member.liveness).long_dead(now_ms, times);
            for (instance, version) in long_dead {
                block_on(member.hasty.delete_dead_heartbeat(&instance, &version));
            }
        }
        if member.wait(member.hasty.times.heartbeats_listed_ms) {
            return;
        }
    }
}

/// The error for the core when a procedure has ended without a result.
pub fn store_error(halt: Halt) -> StoreError {
    match halt {
        Halt::Unavailable(why) => StoreError { hint: Some(why.clone()), ..StoreError::transient(why) },
        Halt::Damaged(why) => StoreError::new(format!("the bucket contains data that no instance wrote: {why}")),
    }
}
