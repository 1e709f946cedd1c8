//! The times and limits of the store in a bucket (`bucket/`). The times depend on each other; the randomized simulation of
//! `tests/store_sim.rs` runs with exactly these.

/// How often an instance writes its heartbeat. A put per ten seconds costs $0.04 a day, and three of them fit into
/// [`CUT_OFF_MS`].
pub const HEARTBEAT_MS: u64 = 10_000;

/// How often the heartbeats of all instances are listed: a death is noticed at most this much after [`DEATH_MS`].
pub const HEARTBEATS_LISTED_MS: u64 = 4_000;

/// An instance whose heartbeat has not changed for this long, by the clock of the observer, is dead: its unfinished tasks may be claimed.
pub const DEATH_MS: u64 = 40_000;

/// An instance that sent its last successful heartbeat this long ago stops its tools and starts none. It is less than [`DEATH_MS`] by
/// more than the clocks of two machines may drift apart in that time, so that the tools have stopped when another instance takes over.
pub const CUT_OFF_MS: u64 = 35_000;

/// How often the markers of unfinished work are listed. Also done after each death.
pub const SCAN_MS: u64 = 30_000;

/// A segment that was acknowledged later than this after it was sent counts only after reading on: another instance may have claimed
/// the task meanwhile. The same holds for the start of a tool. Acknowledgements take 30 to 80 ms.
pub const SLOW_MS: u64 = 5_000;

/// For how long after the tail of a log was known its names cannot have been freed. Less than [`GRACE_MS`] by more than a request
/// can be under way.
pub const FRESH_MS: u64 = 300_000;

/// How old something unfinished must be before another instance completes or removes it: a deleted task, an entry without a
/// log, a marker that nothing was written for.
pub const GRACE_MS: u64 = 600_000;

/// How long a task whose time is over stays after the store has refused to delete it, mostly because another one continues it.
pub const REMOVAL_RETRY_MS: u64 = 6 * 3_600_000;

/// The longest wait before a failed request is tried again. The wait doubles from [`RETRY_FIRST_MS`] and is chosen at random below that.
pub const RETRY_MS: u64 = 8_000;

/// The longest wait before the first repetition of a request.
pub const RETRY_FIRST_MS: u64 = 200;

/// How often a request is sent whose bytes arrive damaged, or that the store calls wrong. After that the task counts as damaged.
pub const DAMAGED_TRIES: u32 = 3;

/// Segments that are joined for faster loading. 32 is how many objects Google Cloud Storage composes in one request.
pub const COMPACTED_SEGMENTS: usize = 32;

/// Requests for other instances that may wait in the inbox of a task. The owner looks once a second, so more wait only if the owner hangs.
/// A further one is refused.
pub const INBOX_WAITING: u64 = 64;

/// Objects that are read at the same time when a task is loaded. 16 requests of 50 ms load 10,000 events in well under two seconds.
pub const LOADED_AT_ONCE: usize = 16;

/// Pages of one list. A page has up to 1,000 names, so that a list ends at a million. A longer one is an error of the store.
pub const LIST_PAGES: usize = 1_000;

/// Lines of one segment. What a task does in a second fits; more makes a second segment.
pub const SEGMENT_LINES: usize = 256;

/// Bytes of one segment, unless a single line has more. It is sent again whole when its result is unknown.
pub const SEGMENT_BYTES: usize = super::MIB;

/// Attempts of a request that a client or a log waits for. With the waits between them they take about twenty seconds if the store refuses at
/// once; then whoever waits is told, and the log is tried again.
pub const PATIENT_TRIES: u32 = 7;

/// The time between two checks of a store that did not answer at the start.
pub const PROBE_RETRY_MS: u64 = 2_000;

/// The time between two segments that contain only text: people do not read faster, and every segment costs a request.
pub const TEXT_PAUSE_MS: u64 = 100;

/// Tasks that nobody uses and whose logs are kept in memory, so that one request shows whether they have changed.
pub const LOGS_KEPT: usize = 256;

/// What a summary of a task may take in the index, as JSON. The title of a longer one is left out.
pub const SUMMARY_BYTES: usize = 2 * super::KIB;

/// How often the summaries of all tasks are read while lists are asked for.
pub const SUMMARIES_MS: u64 = 30_000;

/// Summaries whose content is kept if lists of the store do not give it (S3): as many as there may be tasks in memory. Further ones are read
/// with every list.
pub const SUMMARIES_KEPT: usize = 20_000;

/// How often an instance looks whether it is cut off from the store, and how often the owner of a task at work reads its inbox.
pub const LOOK_MS: u64 = 1_000;

/// How soon a follower reads on after it has found something. The time doubles up to [`FOLLOW_MS`] while it finds nothing.
pub const FOLLOW_FIRST_MS: u64 = 100;
pub const FOLLOW_MS: u64 = 1_000;

/// How long a request to the owner of a task may wait until the owner has decided it.
pub const HEARD_MS: u64 = 10_000;

/// The file with the id of a workspace: a UUID, and room for what people may write there instead.
pub const WORKSPACE_ID_BYTES: u64 = 256;

/// The time between two writings of the objects that show a task to other programs: an object takes about one replacement per second.
pub const PROJECTION_PAUSE_MS: u64 = 2_000;

/// The pause before a summary is written whose task was busy.
pub const SUMMARY_RETRY_MS: u64 = 1_000;

/// Bytes of a task's `history.json`. It is written whole each time the task comes to rest, and other programs read it whole. 8 MiB are
/// some thousand messages; older ones are left out.
pub const PROJECTED_HISTORY_BYTES: usize = 8 * super::MIB;

/// The longest last part of an artifact's name. With the task's id before it the name is well below the 1,024 bytes that both
/// stores allow.
pub const ARTIFACT_NAME_BYTES: usize = 200;

/// The audit is copied into the bucket after so many lines or so long, whichever comes first: a reader elsewhere is seconds behind, and a
/// busy instance makes six requests a minute.
pub const AUDIT_COPY_LINES: usize = 256;
pub const AUDIT_COPY_MS: u64 = 10_000;

/// How long a worker may take to begin with a copy before another one is asked: the lane may have been full.
pub const AUDIT_COPY_ASKED_MS: u64 = 2_000;

/// Bytes of the audit that wait for the bucket. If it does not answer for longer, the oldest lines are only in the file.
pub const AUDIT_COPY_BYTES: usize = 4 * super::MIB;
