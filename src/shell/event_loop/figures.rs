//! What the shell measures for `/metrics`: how long the loop and the disk take, and what the process uses of the machine.

use crate::base::lock::lock;
#[cfg(feature = "bucket")]
use crate::core::operation::metrics::labels::{BucketOperation, BucketResult};
use crate::core::operation::process::{ProcessFigures, Timings};
use crate::shell::event_loop::access_log::AccessLog;
use crate::shell::event_loop::log::Log;
use crate::shell::event_loop::sys::{self, Clock};
use std::fs;
use std::sync::{Arc, Mutex};

/// What operators get: the log, the access log, and timings for `/metrics`.
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
    /// Measures an append to a journal; an error is counted.
    pub fn append<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.measure(work, |timings, us| timings.append.observe(us))
    }

    /// Measures a flush of a journal; an error is counted.
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

    /// Adds the duration of a turn of the loop, in microseconds.
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

/// What this process uses of memory, files and CPU time. It is read from `/proc` by a worker, but not by one of the disk lane, so that it
/// works while a disk hangs. `getrusage` reports the highest memory use so far and not the present one, and no number of files.
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
        // Without the descriptor that lists them.
        open_files: (fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1),
        cpu_ms: (number(11)? + number(12)?) * 1_000 / ticks,
        started_ms: sys::unix_ms().saturating_sub(running_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_this_process_are_plausible() {
        let before = process().expect("there is /proc");
        assert!(before.resident_bytes > 1 << 20 && before.started_ms <= sys::unix_ms() && before.started_ms > 1 << 40);
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        // Other tests open and close some meanwhile.
        assert!(process().expect("there is /proc").open_files >= 50);
        drop(files);
    }

    #[test]
    fn failed_appends_and_flushes_are_measured_and_counted() {
        let stopwatch = Stopwatch::default();
        assert_eq!(stopwatch.append(|| Ok::<_, ()>(1)), Ok(1));
        assert_eq!(stopwatch.append(|| Err::<(), _>(2)), Err(2));
        assert_eq!(stopwatch.sync(|| Err::<(), _>(3)), Err(3));
        let timings = stopwatch.timings();
        assert_eq!(timings.append.counts.iter().sum::<u64>(), 2);
        assert_eq!((timings.sync.counts.iter().sum::<u64>(), timings.log_errors), (1, 2));
    }
}
