//! What the system offers the process itself: clocks, random bytes, its user, its limit of open files.

use crate::base::clock::Now;
use crate::base::id::Entropy;
use ring::rand::{SecureRandom, SystemRandom};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Reads both clocks. The monotonic one counts from [`Clock::start`].
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// Microseconds since [`Clock::start`].
    pub fn micros(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    pub fn now(&self) -> Now {
        Now { mono_ms: self.start.elapsed().as_millis() as u64, unix_ms: unix_ms() }
    }
}

/// Unix milliseconds; 0 if the clock is set to a time before 1970.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Makes random ids.
pub fn entropy() -> Entropy {
    Entropy::new(random)
}

/// Random bytes for secrets.
pub fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random bytes once it has booted");
    bytes
}

/// The time since the machine started, in the unit that /proc has the start of processes in.
pub fn boot_ticks() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let per_second = ticks_per_second();
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * per_second + nanos * per_second / 1_000_000_000
}

/// Milliseconds since the machine started, including the time that it was suspended.
pub fn boot_ms() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec.unsigned_abs() * 1_000 + time.tv_nsec.unsigned_abs() / 1_000_000
}

pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Raises the limit of open files to the hard limit. Every connection and every loaded task needs a descriptor, and the usual soft limit
/// of 1024 is there for programs that use select(2), which this one does not.
pub fn raise_file_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Some sandboxes refuse this; then the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// The limit that [`restore_file_limit`] goes back to. Without one it is the hard limit.
static REMEMBERED: AtomicU64 = AtomicU64::new(u64::MAX);

/// Remembers how many files may be open now, and returns the number.
pub fn remember_file_limit() -> Option<u64> {
    let current = getrlimit(Resource::Nofile).current;
    REMEMBERED.store(current.unwrap_or(u64::MAX), Ordering::Release);
    current
}

/// Raises the limit again if a command has lowered it, which every process of our user can do. False if it was not lowered.
pub fn restore_file_limit() -> bool {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let remembered = REMEMBERED.load(Ordering::Acquire).min(maximum.unwrap_or(u64::MAX));
    let is_lower = current.is_some_and(|current| current < remembered);
    let wanted = Rlimit { current: (remembered < u64::MAX).then_some(remembered), maximum };
    is_lower && setrlimit(Resource::Nofile, wanted).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lowered_file_limit_is_restored_to_what_was_remembered() {
        raise_file_limit();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
        assert_eq!(remember_file_limit(), maximum);
        assert!(!restore_file_limit(), "nothing to restore");
        let lower = current.map_or(4_096, |current| current - 1);
        setrlimit(Resource::Nofile, Rlimit { current: Some(lower), maximum }).unwrap();
        assert!(restore_file_limit());
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    }

    #[test]
    fn boot_ticks_have_the_unit_of_process_start_times() {
        let before = boot_ticks();
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let after = boot_ticks();
        let start = crate::shell::children::procfs::stat(child.id()).unwrap().start;
        assert!((before..=after).contains(&start), "{before} {start} {after}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn ids_differ_and_clocks_do_not_go_back() {
        let mut entropy = entropy();
        assert_ne!(entropy.uuid(), entropy.uuid());
        let clock = Clock::start();
        let first = clock.now();
        let second = clock.now();
        assert!(second.mono_ms >= first.mono_ms);
        assert!(first.unix_ms > 1_700_000_000_000, "it is after 2023");
    }
}
