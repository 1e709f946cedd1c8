//! Figures that only the shell can measure: the jobs of its lanes, the times of the disk, and the resources of the process.

use crate::core::operation::metrics::histogram::{Bounds, Histogram};
use crate::core::operation::metrics::labels::{BucketOperation, BucketResult};

/// Everything that the shell has measured, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub lanes: Vec<LaneJobs>,
    pub timings: Timings,
    /// None if it cannot be read now.
    pub process: Option<ProcessFigures>,
}

/// How many jobs a lane has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneJobs {
    pub lane: &'static str,
    pub queued: usize,
    pub running: usize,
}

/// How long the loop and the disk took, in microseconds.
#[derive(Clone, Debug)]
pub struct Timings {
    /// A turn of the loop, without its wait for events.
    pub turn: Histogram,
    pub append: Histogram,
    pub sync: Histogram,
    /// Appends and syncs that failed.
    pub log_errors: u64,
    /// Requests to a bucket, by operation.
    pub bucket: [BucketTimings; BucketOperation::ALL.len()],
}

/// One operation of a bucket.
#[derive(Clone, Debug)]
pub struct BucketTimings {
    pub duration: Histogram,
    /// How often it ended with each result.
    pub results: [u64; BucketResult::ALL.len()],
}

impl Default for Timings {
    fn default() -> Timings {
        let short = || Histogram::new(&Bounds::SHORT);
        let bucket = BucketOperation::ALL
            .map(|_| BucketTimings { duration: Histogram::new(&Bounds::REQUEST), results: Default::default() });
        Timings { turn: short(), append: short(), sync: short(), log_errors: 0, bucket }
    }
}

/// The resources of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFigures {
    pub resident_bytes: u64,
    pub open_files: u64,
    pub cpu_ms: u64,
    /// When it was started, in Unix milliseconds.
    pub started_ms: u64,
}
