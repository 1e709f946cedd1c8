//! The times and limits of the store in a bucket (`bucket/`). The times depend on each other; the randomized simulation of
//! `tests/store_sim.rs` runs with exactly these.

/// How often an instance writes its heartbeat. A put per ten seconds costs $0.04 a day, and three of them fit into
/// [`CUT_OFF_MS`].
pub const HEARTBEAT_MS: u64 = 10_000;

/// How often the heartbeats of all instances are listed: the death of an instance is noticed at most this long after [`DEATH_MS`].
pub const HEARTBEATS_LISTED_MS: u64 = 4_000;

/// An instance whose heartbeat has not changed for this long, by the clock of the observer, is dead: its unfinished tasks may be claimed.
pub const DEATH_MS: u64 = 40_000;

/// An instance whose last successful heartbeat was sent this long ago stops its tools and starts no others. It is less than [`DEATH_MS`] by
/// more than the clocks of two machines drift apart in that time, so that the tools have stopped when another instance takes over.
pub const CUT_OFF_MS: u64 = 35_000;

/// How often the markers of unfinished work are listed. Also done after each death.
pub const SCAN_MS: u64 = 30_000;

/// If the acknowledgement of a segment takes longer than this, the instance first reads the log again before it relies on the segment,
/// because another instance may have claimed the task meanwhile. The same holds before a tool starts. Usually it takes 30 to 80 ms.
pub const SLOW_MS: u64 = 5_000;

/// If the end of a log was read at most this long ago, no other instance can have removed objects of the log since then, and a new
/// segment may be appended without reading the log again. Less than [`GRACE_MS`] by more than the duration of a request.
pub const FRESH_MS: u64 = 300_000;

/// How old something incomplete must be before another instance completes or removes it: a task whose deletion was not finished, an index
/// entry without a log, a marker for which nothing was written.
pub const GRACE_MS: u64 = 600_000;

/// If the store refuses to delete an expired task, mostly because another task continues it, the deletion is tried again after this time.
pub const REMOVAL_RETRY_MS: u64 = 6 * 3_600_000;

/// The longest wait before a failed request is tried again. The wait doubles from [`RETRY_FIRST_MS`] and is chosen at random below that.
pub const RETRY_MS: u64 = 8_000;

/// The longest wait before a failed request is sent for the second time.
pub const RETRY_FIRST_MS: u64 = 200;

/// Attempts of a request whose bytes arrive damaged or which the store rejects as invalid. After them the task counts as damaged.
pub const DAMAGED_TRIES: u32 = 3;

/// Segments that are joined into one object for faster loading. Google Cloud Storage composes up to 32 objects in one request.
pub const COMPACTED_SEGMENTS: usize = 32;

/// Requests of other instances that may wait in the inbox of a task. The owner reads it once a second, so more can wait only if the owner
/// hangs. A further one is refused.
pub const INBOX_WAITING: u64 = 64;

/// Objects that are read at the same time when a task is loaded: with requests of 50 ms, 10,000 events load in well under two seconds.
pub const LOADED_AT_ONCE: usize = 16;

/// Pages of one list. A page has up to 1,000 names, so that a list ends at a million. A longer one is an error of the store.
pub const LIST_PAGES: usize = 1_000;

/// Lines of one segment: as many as the events of a task in a second. Further lines go into the next segment.
pub const SEGMENT_LINES: usize = 256;

/// Bytes of one segment, unless a single line has more, because the whole segment is sent again when the result of its request is
/// unknown. Further lines go into the next segment.
pub const SEGMENT_BYTES: usize = super::MIB;

/// Attempts of a request that a client or a log waits for. If the store refuses each of them immediately, they take about twenty seconds
/// with the waits in between. Then the client gets an error, and the write of a log is tried again later.
pub const PATIENT_TRIES: u32 = 7;

/// The time between two checks of a store that did not answer at the start.
pub const PROBE_RETRY_MS: u64 = 2_000;

/// The shortest time between two segments that contain only text: nobody reads faster, and every segment costs a request.
pub const TEXT_PAUSE_MS: u64 = 100;

/// Unused tasks whose logs are kept in memory, so that one request shows whether they have changed. The logs of other tasks are read
/// again.
pub const LOGS_KEPT: usize = 256;

/// Bytes of the summary of a task in the index, as JSON. A longer one is written without the title.
pub const SUMMARY_BYTES: usize = 2 * super::KIB;

/// How often the summaries of all tasks are read while lists are asked for.
pub const SUMMARIES_MS: u64 = 30_000;

/// Summaries whose content is kept in memory if lists of the store do not contain it (S3): as many as tasks may be in memory. Further ones
/// are read again for every list.
pub const SUMMARIES_KEPT: usize = 20_000;

/// How often an instance checks whether it is cut off from the store, and how often the owner of a running task reads its inbox.
pub const CHECK_MS: u64 = 1_000;

/// The wait before a follower reads a log again after it has found new events. The wait doubles up to [`FOLLOW_MS`] while it finds none.
pub const FOLLOW_FIRST_MS: u64 = 100;
pub const FOLLOW_MS: u64 = 1_000;

/// How long a request waits for the decision of the task's owner. Then its client gets an error.
pub const OWNER_DECISION_MS: u64 = 10_000;

/// Bytes of the file with the id of a workspace: a UUID, or another id that people wrote there. A longer file is refused.
pub const WORKSPACE_ID_BYTES: u64 = 256;

/// The shortest time between two updates of the objects that show a task to other programs: a store allows about one replacement of an
/// object per second.
pub const PROJECTION_PAUSE_MS: u64 = 2_000;

/// The wait before the summary of a task is written again that could not be written because the task was busy.
pub const SUMMARY_RETRY_MS: u64 = 1_000;

/// Bytes of a task's `history.json`, which is written as a whole whenever a turn ends and which other programs read as a whole. 8 MiB are
/// some thousand messages; older ones are left out.
pub const PROJECTED_HISTORY_BYTES: usize = 8 * super::MIB;

/// Bytes of the last part of an artifact's object name. With the task's id before it the name is well below the 1,024 bytes that both
/// stores allow. A longer one is replaced by a hash of the id.
pub const ARTIFACT_NAME_BYTES: usize = 200;

/// Lines of the audit, or the time, after which they are copied into the bucket, whichever comes first: a reader elsewhere is only seconds
/// behind, and an instance makes few requests.
pub const AUDIT_COPY_LINES: usize = 256;
pub const AUDIT_COPY_MS: u64 = 10_000;

/// If no worker has begun to copy the audit within this time, because the lane was full, the copy is requested again.
pub const AUDIT_COPY_START_MS: u64 = 2_000;

/// Bytes of the audit that are queued for the bucket. If the bucket does not answer for so long that there are more, the oldest lines are
/// only in the local file.
pub const AUDIT_COPY_BYTES: usize = 4 * super::MIB;
