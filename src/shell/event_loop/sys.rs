//! The few facts and powers of the process itself: clocks, randomness, who we are, how many files we may have open.

use crate::base::clock::Now;
use crate::base::id::Entropy;
use ring::rand::{SecureRandom, SystemRandom};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Reads both clocks. The monotonic one counts from the moment this was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    pub fn now(&self) -> Now {
        Now { mono_ms: self.start.elapsed().as_millis() as u64, unix_ms: unix_ms() }
    }
}

/// Unix milliseconds; 0 on a machine that believes to live before 1970.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// The system's randomness, for ids.
pub fn entropy() -> Entropy {
    let random = SystemRandom::new();
    Entropy::new(move || {
        let mut bytes = [0; 16];
        random.fill(&mut bytes).expect("the system gives random bytes once it has booted");
        bytes
    })
}

/// The time since the machine started, in the unit that /proc has the start of processes in.
pub fn boot_ticks() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let per_second = ticks_per_second();
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * per_second + nanos * per_second / 1_000_000_000
}

pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// How many files may be open, before and after [`raise_file_limit`]; None is without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimit {
    /// For child processes: some of them walk through every possible descriptor.
    pub inherited: Option<u64>,
    pub raised: Option<u64>,
}

/// Every connection and every loaded task is a descriptor, and the usual soft limit of 1024 is there for programs that use
/// select(2). We do not, so we take what the hard limit gives.
pub fn raise_file_limit() -> FileLimit {
    let before = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: before.maximum, maximum: before.maximum };
    // Refused in some sandboxes; then we live with what we have.
    let _ = setrlimit(Resource::Nofile, wanted);
    FileLimit { inherited: before.current, raised: getrlimit(Resource::Nofile).current }
}

/// Raises the limit again if a command has lowered it, which every process of our user can. False if there was nothing to raise.
pub fn restore_file_limit() -> bool {
    let FileLimit { inherited, raised } = raise_file_limit();
    inherited != raised
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_limit_ends_at_the_hard_one_and_remembers_the_soft_one() {
        let before = getrlimit(Resource::Nofile);
        let limit = raise_file_limit();
        assert_eq!(limit, FileLimit { inherited: before.current, raised: before.maximum });
    }

    #[test]
    fn ticks_are_those_of_processes() {
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
        assert!(first.unix_ms > 1_700_000_000_000, "this was written after 2023");
    }
}
