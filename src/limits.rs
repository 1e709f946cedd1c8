//! The limits of connections, requests, tasks, tools and memory, each with its reason and what happens when it is reached. A constant
//! that only one algorithm or format needs is defined beside that code instead.
//!
//! The fields of [`Limits`] can differ between servers: tests set smaller values, a server that may open only few files
//! ([`Limits::with_files`]) or has little memory ([`Limits::within`]) reduces them, and the operator sets those that
//! `config/options/table.rs` names. The constants in the other files of `limits` are the same in every server.

pub mod access;
pub mod agents;
pub mod audit;
pub mod bucket;
mod fixed;
pub mod mcp;
mod memory;
pub mod store;
pub mod ui;

pub use fixed::*;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Declares [`Limits`] and its default values in one list.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr,)*) => {
        #[derive(Clone, Debug, PartialEq)]
        pub struct Limits {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { $($name: $value,)* }
            }
        }
    };
}

limits! {
    /// The memory budget in bytes, from which other limits are computed (`limits/memory.rs`). None: there is no budget.
    memory: Option<u64> = None,

    // Requests.

    /// Request line and header fields together. Real clients send less than 2 KiB. A larger head is refused with 431.
    head_bytes: usize = 16 * KIB,
    /// Header fields in one head, and query parameters in one target. More are refused with 431 and 414.
    head_fields: usize = 64,
    /// Empty lines before a request line. Some clients send one after a body. More are refused with 400.
    blank_lines: usize = 4,
    /// The line before a chunk: its size in up to sixteen digits, and an extension that is ignored. A longer line is refused with 400.
    chunk_line_bytes: usize = 256,
    /// Request body. Inline files come as base64, so megabytes are normal. A larger body is refused with 413.
    body_bytes: usize = 10 * MIB,
    /// One WebSocket message, in one frame or many: as large as a request body, because it has the same content. A larger one
    /// closes its connection with 1009.
    ws_message_bytes: usize = 10 * MIB,
    /// Request body or WebSocket message that the event loop decodes itself, which takes at most about two milliseconds. A longer one is
    /// decoded by a worker, and no further bytes are read from its connection until the worker has finished.
    inline_body_bytes: usize = 16 * KIB,
    /// Read buffer of a WebSocket connection before the length of a frame is known. Most messages fit; for a longer frame the
    /// buffer grows to its length.
    ws_buffer_bytes: usize = KIB,
    /// Unanswered calls of one WebSocket. Further calls stay unread in the kernel's buffer until one is answered.
    socket_calls: usize = 64,

    // Connections.

    /// Open connections. At the limit, idle connections are closed in favour of new ones of the user who runs this server; if
    /// none is idle, new ones wait in the kernel's backlog.
    connections: usize = 20_000,
    /// Connections of other users of this machine. They may only see that the server exists and its card, so a few monitors and
    /// proxies are enough. Further ones are closed when they are accepted: the rest is for the user who runs this server.
    stranger_connections: usize = 64,
    /// When a connection could not be accepted, the backlog is tried again after this time.
    accept_retry_ms: u64 = 500,
    /// Length of the kernel's backlog. If more connections come at once the kernel may drop them; clients' kernels try again.
    accept_queue: usize = 128,
    /// A connection that a tool opened while the backlog was full may be completed this long after the tool has ended, because the kernel
    /// waits at most two minutes between two attempts. During this time connections are checked as if a tool could have opened them.
    late_connection_ms: u64 = 130_000,
    /// How often the ancestors of a connecting process are read again because one of them ended while they were read, which is rare.
    /// After the last attempt the connection may only read.
    peer_tries: u32 = 5,
    /// Refused connections are logged at most this often: anybody on this machine can be refused a thousand times a second.
    refusal_log_ms: u64 = 10_000,
    /// Time in which a new connection must send a whole head. Otherwise it gets 408 and is closed.
    head_ms: u64 = 10_000,
    /// Time in which a body must arrive, counted from its head. Otherwise the client gets 408 and the connection is closed.
    body_ms: u64 = 30_000,
    /// A kept-alive connection without a request is closed after this time.
    idle_ms: u64 = 75_000,
    /// A client that accepts no output for this time is disconnected. It can resume at its position.
    stall_ms: u64 = 30_000,
    /// After a refusal the connection stays open for this time, because a client that is still sending would otherwise be reset before it
    /// has read the response. The second value is the number of such connections. Further ones are closed at once.
    linger_ms: u64 = 1_000,
    lingering: usize = 1_024,
    /// A silent event stream gets a comment this often, so that proxies and broken connections are noticed.
    ping_ms: u64 = 15_000,
    /// A silent WebSocket gets a ping this often. After three without a pong it is closed.
    socket_ping_ms: u64 = 20_000,

    // Output.

    /// Output queued for one connection. At the limit its subscription stops advancing until the client has read.
    tx_bytes: usize = 64 * KIB,
    /// Kernel buffer for one connection's output (the kernel doubles it for its own use). Without a limit a client that does not
    /// read would hold megabytes that are counted nowhere. Twice the queue is enough for the fastest reader.
    socket_send_bytes: usize = 64 * KIB,
    /// Output queued for all connections together, plus incomplete requests (one response may be longer than `tx_bytes`). Above it,
    /// calls with long responses are refused with 503 and Retry-After, long requests are refused, and clients that have accepted
    /// nothing for `output_stall_ms` are disconnected.
    output_bytes_total: usize = 256 * MIB,
    output_stall_ms: u64 = 1_000,
    /// Log of a task, or of all tasks of a list together, that is encoded on the loop: it takes about a millisecond. A longer task is
    /// encoded by a worker.
    inline_log_bytes: usize = 128 * KIB,
    /// Bytes read from or written to one connection in one turn of the loop, so that none starves the others.
    turn_bytes: usize = 256 * KIB,
    /// Time in one turn of the loop for requests, and the same for worker notes, so that signals, timers and streams do not wait for all
    /// of them. The remaining ones are handled in the next turn.
    turn_ms: u64 = 4,
    /// Connections accepted from one listener, and worker notes handled, in one turn of the loop.
    turn_accepts: usize = 128,
    turn_notes: usize = 1024,
    /// Worker notes waiting for the loop. At the limit workers wait.
    notes: usize = 8192,

    // Tasks.

    /// Tasks in memory. At the limit idle tasks without subscribers are unloaded; if there is none, new ones are refused with 503
    /// and Retry-After.
    tasks: usize = 20_000,
    /// Length of the logs of the tasks in memory: about half of the memory they take. Above it idle tasks without subscribers are
    /// unloaded too.
    task_total_bytes: usize = 128 * MIB,
    /// Subscriptions of one task, and of all. More are refused with 503 and Retry-After.
    task_subs: usize = 4096,
    subs: usize = 20_000,
    /// How often, and at what interval, opening a journal is tried again while another process has locked it. Then the client gets an
    /// error.
    load_tries: u32 = 20,
    load_retry_ms: u64 = 25,
    /// Tasks on one page of a list. A client that asks for larger pages gets pages of this size, with the total.
    list_page: usize = 100,
    /// Tasks in a list of the dialect that has no pages: the newest ones and the total.
    list_briefs: usize = 1_000,
    /// Prompts queued in one task. The next one is refused.
    queued_prompts: usize = 32,
    /// Bytes of encoded events kept in memory for subscribers: of one task, and of all tasks. Older events are read from the journal again.
    hot_bytes: usize = MIB,
    hot_total_bytes: usize = 64 * MIB,
    /// Bytes of one read from the journal for a subscriber that is behind, and the number of such reads in memory. Further subscribers wait.
    page_bytes: usize = 256 * KIB,
    pages: usize = 64,
    /// Tasks with an exceeded time limit that are handled together, and the pause between two such groups: after a long downtime many
    /// are due at once, and each may have to be loaded.
    expiries: usize = 16,
    expiry_pause_ms: u64 = 100,
    /// A task that cannot be completed or deleted yet, because it has subscribers or another server has it, is tried again after
    /// this time.
    expiry_retry_ms: u64 = 60_000,
    /// Time limits of questions, turns and tasks, which the operator may set.
    times: Times = Times::default(),
    /// Time after which a job counts as delayed: in the disk lane if it has not ended, in the other lanes if it has no thread yet. Even a
    /// slow disk answers within a second. `/ready` reports the delay until the job is done.
    lane_delay_ms: u64 = 5_000,
    /// Time for the shutdown of the server, counted from when it stops accepting connections. Calls that still run shortly before its end
    /// are stopped.
    shutdown_ms: u64 = 5_000,
    /// The last part of `shutdown_ms`, in which stopped calls may end: their processes get SIGTERM at its beginning and SIGKILL at its end.
    stop_ms: u64 = 2_000,
    /// How long connections are still accepted after the shutdown was requested, because load balancers ask `/ready` only every few
    /// seconds.
    drain_delay_ms: u64 = 0,

    // Journals.

    /// Bytes of content stored beside the journals (a file before or after an edit): of one file, and of one task. Of content beyond that
    /// only the hash is recorded, and the edit cannot be undone.
    blob_bytes: u64 = 20 * MIB as u64,
    task_blob_bytes: u64 = 512 * MIB as u64,
    /// A failed write of a journal is tried again after this time.
    store_retry_ms: u64 = 1_000,
    /// The length of an audit file at which the next one is begun: short enough to be copied and read, long enough for some
    /// hundred thousand entries.
    audit_file_bytes: u64 = 64 * MIB as u64,
    /// Failed writes are logged at most this often: a full disk fails every task again and again.
    store_log_ms: u64 = 60_000,
    /// Outdated lines in the store's index. The index is rewritten when it has more of them than this and than current lines. This many
    /// are about a mebibyte, which is read quickly at start.
    index_stale_lines: usize = 4_096,

    // Workers.

    /// Threads for model requests. Each may wait for minutes, so there are many with small stacks. Further turns queue.
    model_threads: usize = 512,
    /// Threads for tools.
    tool_threads: usize = 64,
    /// Threads for reading and syncing journals.
    disk_threads: usize = 4,
    /// Threads for decoding long requests and encoding long tasks. They compute almost all the time, so many of them would take processor
    /// time from the event loop.
    compute_threads: usize = 2,
    /// Threads for webhooks.
    webhook_threads: usize = 32,
    /// Threads for a store in a bucket. Each of them waits for one request at a time.
    bucket_threads: usize = 64,
    /// Jobs queued in one lane. Further ones fail with a message that says so.
    lane_jobs: usize = 4096,
    /// When the system refuses a thread, it is tried again after this time, and the jobs of its lane wait. Likewise for the process of a
    /// command, until `supervisor_start_ms` has passed.
    thread_retry_ms: u64 = 250,
    /// How long the shutdown waits for worker threads, all of which were told to stop. The process then exits without them.
    worker_end_ms: u64 = 2_000,
    /// A worker thread without a job ends after this time.
    thread_idle_ms: u64 = 10_000,

    // The model.

    /// Model requests of one task; 0 is no limit. At the limit its turns end at once and say so.
    session_requests: u32 = 0,
    /// Tokens of a request above which the older part of the conversation is summarised first; 0 is never.
    compress_tokens: u64 = 524_288,
    /// How often the model may repeat itself in a turn (the same calls, or the same text); the last repetition ends the turn. 0 turns the
    /// check off.
    loop_repetitions: u32 = 2,
    /// Tool calls in one model response. The others are answered with an error.
    calls: usize = 64,
    /// Attempts of a model request that fails before its response, and of one whose stream breaks off.
    model_tries: u32 = 10,
    stream_tries: u32 = 4,
    /// How long after its first failure a model request that fails before its response is made again; None is without limit. Then
    /// the next model is asked once, and if there is none, the turn fails.
    model_retry_ms: Option<u64> = Some(120_000),
    /// First wait between such attempts, doubled each time up to `backoff_cap_ms`. If the API asks for more than
    /// `backoff_longest_ms` the turn fails.
    backoff_ms: u64 = 5_000,
    backoff_cap_ms: u64 = 30_000,
    backoff_longest_ms: u64 = 300_000,
    /// First wait after a stream broke off, doubled each time.
    stream_retry_ms: u64 = 1_000,
    /// Time for connecting to the API and its response head, and silence in the body. Then the attempt fails.
    model_head_ms: u64 = 60_000,
    model_silence_ms: u64 = 300_000,
    /// One event of the model's stream, and one whole response. A larger one fails.
    model_event_bytes: usize = 32 * MIB,
    model_answer_bytes: usize = 64 * MIB,
    /// Body of an error response of the API. The rest is not read.
    model_error_bytes: usize = 64 * KIB,
    /// Each buffer of a model connection. Small, because there may be as many connections as model threads.
    model_buffer_bytes: usize = 16 * KIB,
    /// Model connections kept open for the next request, and for how long. Others are closed.
    model_idle: usize = 32,
    model_idle_ms: u64 = 60_000,

    // Commands.

    /// Bytes of live output recorded of one tool call. The rest is only in its result.
    live_bytes: usize = MIB,
    /// Characters of a tool's result for the model. Above it the middle is left out.
    result_chars: usize = 40_000,
    /// Bytes that tasks may take on disk (None: any number), and how often they are counted, because counting reads the size of every
    /// file. Above the limit the oldest tasks without unfinished work are deleted.
    state_bytes: Option<u64> = Some(10 * 1024 * MIB as u64),
    state_check_ms: u64 = 600_000,
    /// Bytes of output kept of one command. The oldest output is dropped.
    output_bytes: usize = 16 * MIB,
    /// Outputs of one task that were too long for their results and are kept as files, and the bytes of all of them. The oldest are
    /// deleted.
    kept_outputs: usize = 32,
    kept_output_bytes: u64 = 64 * MIB as u64,
    /// Time between two pieces of a command's live output. The first one is sent at once.
    live_ms: u64 = 100,
    /// How long output is read after a command has ended, if a program that it started still has its output open.
    drain_ms: u64 = 250,
    /// A command that prints nothing for this long is ended; 0 is never.
    shell_silence_ms: u64 = 300_000,
    /// A command that runs without approval is ended after this time: it should answer a question, not occupy a thread.
    confined_ms: u64 = 60_000,
    /// Time between SIGTERM and SIGKILL for a process group.
    kill_ms: u64 = 2_000,
    /// Time for a supervisor to start its program. It takes milliseconds; a slower one is stopped or is not our program, and the
    /// call fails.
    supervisor_start_ms: u64 = 20_000,
    /// Time for a supervisor to kill its processes. It takes milliseconds; a slower one was stopped by its command and is killed.
    supervisor_end_ms: u64 = 10_000,
    /// Commands that run in the background, of one task and of all. The next one is refused.
    background_task: usize = 16,
    background: usize = 64,
    /// Background commands that are remembered, running or ended. The oldest ended ones are forgotten.
    background_kept: usize = 128,
    /// Bytes of output kept of each background command. The oldest output is dropped.
    background_bytes: usize = 64 * KIB,
    /// How long a call waits for a background command by default, and the longest time it may ask for.
    background_delay_ms: u64 = 200,
    background_wait_ms: u64 = 60_000,

    // Files and searches.

    /// Largest file that a tool reads, the number of its lines that are shown, and the length of a shown line. A larger file is refused;
    /// the result says which lines were left out or cut.
    file_bytes: u64 = 20 * MIB as u64,
    file_lines: usize = 2_000,
    line_chars: usize = 2_000,
    /// Media in one model request, and so the largest image, recording or document that a tool shows: the API takes 20 MB in all, media
    /// in base64. A larger file is refused; of a conversation with more, the newest is sent.
    media_bytes: u64 = 12 * MIB as u64,
    /// Bytes read of one ignore file. The rest has no effect.
    ignore_bytes: u64 = MIB as u64,
    /// Entries that one search visits, depth of directories, and time. At a limit it ends with what it has found and says so.
    search_entries: usize = 5_000_000,
    search_depth: usize = 256,
    search_ms: u64 = 30_000,
    /// Matching lines of a search by default, the most that can be asked for, and the characters of the result. At a limit the result is
    /// cut and says so.
    search_matches: usize = 100,
    search_most_matches: usize = 20_000,
    search_chars: usize = 400_000,
    /// Names in one listing, or files found by one pattern. Of the rest only the number is reported.
    listed_files: usize = 2_000,
    /// Files, and characters of them, that `@` paths in one prompt attach. The model is told the names of the others.
    attached_files: usize = 200,
    attached_chars: usize = 2_000_000,
    /// Steps spent on finding a small diff. Then the rest is shown as replaced.
    diff_steps: usize = 20_000_000,
    /// Characters compared in a search for nearly equal text. Then only equal text is found.
    fuzzy_steps: usize = 400_000_000,
    /// Directories searched for a file that is not where an edit says.
    lookup_dirs: usize = 50,

    // What the model is told about the workspace.

    /// Largest file of settings, variables or trusted folders. A larger one is not read and reported.
    settings_bytes: u64 = MIB as u64,
    /// Largest memory file, and all of a workspace together with their imports. What exceeds it is left out and reported.
    memory_file_bytes: u64 = 256 * KIB as u64,
    memory_bytes: usize = 512 * KIB,
    /// Depth of imports, and files of one memory. Further imports stay as they are written.
    import_depth: usize = 5,
    memory_files: usize = 100,
    /// Entries of the directory tree that the model is shown, and entries visited to draw it. The rest is left out.
    tree_items: usize = 200,
    tree_visits: usize = 20_000,
    /// Tasks whose directory tree is kept as it was first shown, so that the API can cache the beginning of their requests. For other
    /// tasks the tree is drawn again.
    trees: usize = 512,

    /// Time limit of a call of another agent. Then the agent is told to cancel its task.
    agent_ms: u64 = 30 * 60 * 1_000,

    // The web.

    /// Fetching a web page: time, bytes and redirects. A page that takes more fails.
    fetch_ms: u64 = 10_000,
    fetch_bytes: u64 = 10 * MIB as u64,
    fetch_redirects: usize = 5,
    /// Characters of all pages of one call together. What exceeds a page's share is cut.
    fetch_chars: usize = 250_000,
    /// URLs in one call. A call with more is refused.
    fetch_urls: usize = 20,
    /// Requests to one host in a minute, and hosts that are counted. Requests beyond that, and to further hosts, are refused.
    fetch_per_minute: usize = 10,
    fetch_hosts: usize = 1024,

    // Webhooks.

    /// Webhooks of one task. The next one is refused.
    webhooks: usize = 16,
    /// Registrations of webhooks in a minute, because each makes us connect to an address that a client chose. More are refused with
    /// 503 and Retry-After.
    webhooks_per_minute: usize = 120,
    /// A delivery: the time from the name lookup to the end of the response, and the bytes that are read of the response. A longer delivery
    /// fails.
    webhook_ms: u64 = 15_000,
    webhook_reply_bytes: u64 = 4 * KIB as u64,
    /// First wait after a failed delivery, doubled each time, and the number of retries. Then the event is skipped.
    webhook_retry_ms: u64 = 1_000,
    webhook_retries: u32 = 5,
    /// The longest wait that a receiver can ask for with `Retry-After`. A longer one is shortened to this.
    webhook_longest_retry_ms: u64 = 60_000,
    /// Events in a row that could not be delivered. Then nothing is sent until the webhook is set again.
    webhook_failures: u32 = 10,
    /// Messages in a delivery that contains the whole task, the newest ones. The receiver can request the others.
    webhook_history: usize = 10,
}

/// Time limits in milliseconds; None is no limit. They count from the recorded events, so a restart extends none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A question without an answer: its call is cancelled. No limit by default, because somebody may still come back.
    pub answer_ms: Option<u64>,
    /// A turn, its questions included: it is stopped and fails. No limit by default, because some work takes very long.
    pub turn_ms: Option<u64>,
    /// A task without a new prompt: it is completed. No limit by default, because people continue old conversations.
    pub idle_ms: Option<u64>,
    /// A task that has ended: it is deleted. A month by default, for people who look up what was done.
    pub retention_ms: Option<u64>,
}

impl Default for Times {
    fn default() -> Times {
        const DAY_MS: u64 = 86_400_000;
        Times { answer_ms: None, turn_ms: None, idle_ms: None, retention_ms: Some(30 * DAY_MS) }
    }
}

impl Limits {
    /// Reduces the limits to the number of files that the process may open; None is any number. Each connection and each task in memory
    /// needs one file. 32 files are reserved for the server itself and an eighth for workers. Two thirds of the rest are for connections,
    /// one third is for tasks, because idle tasks can be unloaded.
    pub fn with_files(self, files: Option<u64>) -> Limits {
        let third = files.map_or(usize::MAX / 2, |files| {
            let available = (files - files / 8).saturating_sub(32);
            (available as usize / 3).max(1)
        });
        let connections = self.connections.min(2 * third);
        Limits {
            connections,
            stranger_connections: self.stranger_connections.min((connections / 4).max(1)),
            tasks: self.tasks.min(third),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_tasks_share_the_available_files() {
        let caps = |files| {
            let limits = Limits::default().with_files(files);
            (limits.connections, limits.tasks, limits.stranger_connections)
        };
        assert_eq!(caps(None), (20_000, 20_000, 64));
        assert_eq!(caps(Some(1 << 20)), (20_000, 20_000, 64));
        assert_eq!(caps(Some(20_000)), (11_644, 5_822, 64));
        assert_eq!(caps(Some(1_024)), (576, 288, 64));
        assert_eq!(caps(Some(64)), (16, 8, 4));
        assert_eq!(caps(Some(16)), (2, 1, 1));
    }
}
