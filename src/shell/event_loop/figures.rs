//! What the shell measures for `/metrics`: how long the loop and the disk take, and what the process takes of the machine.

use crate::base::lock::lock;
#[cfg(feature = "bucket")]
use crate::core::operation::metrics::labels::{BucketOperation, BucketResult};
use crate::core::operation::process::{ProcessFigures, Timings};
use crate::shell::event_loop::access_log::AccessLog;
use crate::shell::event_loop::log::Log;
use crate::shell::event_loop::sys::{self, Clock};
use std::fs;
use std::sync::{Arc, Mutex};

/// Where the server reports to operators.
pub struct Reports {
    pub log: Log,
    pub access_log: AccessLog,
    pub stopwatch: Stopwatch,
}

/// Timings that the loop and the workers add to.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch {
    timings: Arc<Mutex<Timings>>,
}

impl Stopwatch {
    /// Measures an append; the result says whether it succeeded.
    pub fn append<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.measure(work, |timings, us| timings.append.observe(us))
    }

    /// The same for a sync.
    pub fn sync<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.measure(work, |timings, us| timings.sync.observe(us))
    }

    /// Measures a request to a bucket.
    #[cfg(feature = "bucket")]
    pub fn bucket<T>(
        &self,
        operation: BucketOperation,
        request: impl FnOnce() -> T,
        result: impl FnOnce(&T) -> BucketResult,
    ) -> T {
        let clock = Clock::start();
        let answer = request();
        let timings = &mut lock(&self.timings).bucket[operation as usize];
        timings.duration.observe(clock.micros());
        timings.results[result(&answer) as usize] += 1;
        answer
    }

    /// A turn of the loop took so many microseconds.
    pub fn turn(&self, us: u64) {
        lock(&self.timings).turn.observe(us);
    }

    pub fn timings(&self) -> Timings {
        lock(&self.timings).clone()
    }

    fn measure<T, E>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
        observe: impl FnOnce(&mut Timings, u64),
    ) -> Result<T, E> {
        let clock = Clock::start();
        let result = work();
        let mut timings = lock(&self.timings);
        observe(&mut timings, clock.micros());
        timings.log_errors += u64::from(result.is_err());
        result
    }
}

/// What this process takes. It reads `/proc`, so a worker does it: not one of the disk lane, so that it works while a disk hangs.
/// `getrusage` would give the highest memory so far instead of the present one, and no number of files.
pub fn process() -> Option<ProcessFigures> {
    let ticks = sys::ticks_per_second();
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program may contain anything, parentheses too.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let resident: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let running_ms = sys::boot_ticks().saturating_sub(number(19)?) * 1_000 / ticks;
    Some(ProcessFigures {
        resident_bytes: resident * rustix::param::page_size() as u64,
        // Without the one that is open to list them.
        open_files: (fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1),
        cpu_ms: (number(11)? + number(12)?) * 1_000 / ticks,
        started_ms: sys::unix_ms().saturating_sub(running_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_this_process_are_those_that_it_has() {
        let before = process().expect("there is /proc");
        assert!(before.resident_bytes > 1 << 20 && before.started_ms <= sys::unix_ms() && before.started_ms > 1 << 40);
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        // Other tests open and close some meanwhile.
        assert!(process().expect("there is /proc").open_files >= 50);
        drop(files);
    }

    #[test]
    fn what_fails_is_measured_too_and_counted() {
        let stopwatch = Stopwatch::default();
        assert_eq!(stopwatch.append(|| Ok::<_, ()>(1)), Ok(1));
        assert_eq!(stopwatch.append(|| Err::<(), _>(2)), Err(2));
        assert_eq!(stopwatch.sync(|| Err::<(), _>(3)), Err(3));
        let timings = stopwatch.timings();
        assert_eq!(timings.append.counts.iter().sum::<u64>(), 2);
        assert_eq!((timings.sync.counts.iter().sum::<u64>(), timings.log_errors), (1, 2));
    }
}
