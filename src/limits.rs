//! Every cap in one place, with its reason and what happens at it. Tests shrink these, and so does a system that lets us open few
//! files ([`Limits::within`]); a few are the operator's to set. Nothing else changes them.

#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Request line and header fields together. Real clients send under 2 KiB; more is refused with 431.
    pub head_bytes: usize,
    /// Header fields in one head: more is refused with 431. Query parameters in one target: more is refused with 414.
    pub head_fields: usize,
    /// Empty lines before a request line. Some clients end a body with a stray one; more is refused with 400.
    pub blank_lines: usize,
    /// The line that opens a chunk: sixteen digits and an extension nobody reads; a longer one is refused with 400.
    pub chunk_line_bytes: usize,
    /// Request body. Inline files come as base64, so megabytes are normal; more is refused with 413.
    pub body_bytes: usize,
    /// One WebSocket message, in one frame or many: as large as a request body, because it carries the same. The connection of a
    /// larger one is closed with 1009.
    pub ws_message_bytes: usize,
    /// What the reader of a WebSocket message sets aside before it knows how long a frame is. Most messages fit; a longer frame
    /// gets its own length.
    pub ws_buffer_bytes: usize,
    /// Open connections. Beyond it those on which nothing is under way are closed for new ones of the user who runs this server;
    /// while there are none, new ones wait in the kernel's backlog.
    pub connections: usize,
    /// Connections of other users of this machine, who may see that the server is there and its card, and nothing else. Enough
    /// for some monitors and proxies; more are closed as soon as they are accepted, because the share of the user who runs this
    /// server is not theirs.
    pub stranger_connections: usize,
    /// The backlog is looked at again after this time when a connection could not be accepted.
    pub accept_retry_ms: u64,
    /// Connections that the kernel keeps for us until we accept them. When so many came at once it may have turned others away, and
    /// tries those again by itself.
    pub accept_queue: usize,
    /// For so long connections that were turned away while a tool lived may still come. The kernel waits for at most two minutes
    /// between two tries.
    pub late_connection_ms: u64,
    /// A process whose parents end while they are read is looked at again so often; then it may only read. Parents of honest
    /// processes seldom end just then.
    pub peer_tries: u32,
    /// The log is told of refused peers at most this often: anybody on this machine can be refused a thousand times a second.
    pub refusal_tell_ms: u64,
    /// A new connection must have sent a whole head within this time, else 408 and close.
    pub head_ms: u64,
    /// Time for a body, from its head on: else 408 and close.
    pub body_ms: u64,
    /// A kept-alive connection without a request is closed after this time.
    pub idle_ms: u64,
    /// A peer that accepts nothing while output waits is cut off after this time; it resumes at its position.
    pub stall_ms: u64,
    /// A silent event stream gets a comment this often, so that proxies and half-open links show.
    pub ping_ms: u64,
    /// A silent socket is asked for a sign of life this often; one that gives none three times is dropped.
    pub socket_ping_ms: u64,
    /// Calls under way on one socket; what it asks beyond waits unread.
    pub socket_calls: usize,
    /// Output queued for one connection before its cursor stops advancing.
    pub tx_bytes: usize,
    /// What the kernel may hold of one connection's output, before it doubles it for its own use. It would take megabytes for a peer
    /// that does not read, beyond what is counted here; as much as is queued here is enough for the fastest reader.
    pub socket_send_bytes: usize,
    /// Output queued for all connections together, an answer may be longer than what a connection queues otherwise, and requests that
    /// are not whole yet. Beyond it calls with long answers are refused with 503 and Retry-After, long requests are turned back, and
    /// peers are cut off that have taken nothing for this time.
    pub crowd_bytes: usize,
    pub crowd_stall_ms: u64,
    /// Bytes read from or written to one connection in one turn of the loop, so that none starves the others.
    pub turn_bytes: usize,
    /// Time for taking requests in one turn of the loop; who is left is gone on with in the next one. Some answers take long to
    /// make, and signals, timers and streams do not wait for all of them.
    pub turn_ms: u64,
    /// Connections accepted from one listener, and worker notes taken, in one turn of the loop.
    pub turn_accepts: usize,
    pub turn_notes: usize,
    /// Notes waiting for the loop; a worker that would exceed it waits.
    pub notes: usize,
    /// Tasks in memory. Beyond it those that rest unwatched leave; while none can, new ones are refused with 503 and
    /// Retry-After.
    pub tasks: usize,
    /// How long the logs of the tasks in memory may be together: about half of what they take there. Beyond it those that rest
    /// unwatched leave too.
    pub task_total_bytes: usize,
    /// Subscriptions of one task, and of all. Beyond it: 503 and Retry-After.
    pub task_subs: usize,
    pub subs: usize,
    /// A journal that another process has locked is asked for so often, with so long a wait in between; then whoever wants the
    /// task is told.
    pub load_tries: u32,
    pub load_retry_ms: u64,
    /// Tasks on one page of a list; who asks for more gets so many, and is told how many there are.
    pub list_page: usize,
    /// Tasks in a list of the dialect that has no pages: the newest ones are shown, and how many there are.
    pub list_briefs: usize,
    /// Prompts queued in one task; the next one is refused.
    pub queued_prompts: usize,
    /// Encoded events of one task kept in memory for its readers; what is older is read from the journal again.
    pub hot_bytes: usize,
    /// The same for all tasks together.
    pub hot_total_bytes: usize,
    /// One read from the journal for a reader that is behind.
    pub page_bytes: usize,
    /// Such pages in memory at once; readers beyond wait their turn.
    pub pages: usize,
    /// Tool calls in one model answer; the others are answered with an error.
    pub calls: usize,
    /// Threads for model requests: each may wait for minutes, so there are many with small stacks; beyond it turns queue.
    pub model_threads: usize,
    /// Threads for tools.
    pub tool_threads: usize,
    /// Threads for reading and syncing journals.
    pub disk_threads: usize,
    /// Jobs queued in one lane; more fail with a message that says so.
    pub lane_jobs: usize,
    /// A worker thread without a job leaves after this time.
    pub thread_idle_ms: u64,
    /// Model requests of one task; 0 is without limit. A task that has had them ends its turns at once, and says so.
    pub session_requests: u32,
    /// Tokens of a request from which on the older part of the conversation is summarised first; 0 is never.
    pub compress_tokens: u64,
    /// How often a turn may go in circles; with the last time it is over. 0 does not look.
    pub loop_strikes: u32,
    /// Tries of a model request that fails before it answers, and of one whose stream breaks.
    pub model_tries: u32,
    pub stream_tries: u32,
    /// First wait between such tries; doubled each time up to the cap. A server that asks for more than the longest wait is
    /// not waited for.
    pub backoff_ms: u64,
    pub backoff_cap_ms: u64,
    pub backoff_longest_ms: u64,
    /// First wait after a broken stream; doubled each time.
    pub rebreak_ms: u64,
    /// Model API: connecting and response head, and silence in the body.
    pub model_head_ms: u64,
    pub model_silence_ms: u64,
    /// Bytes of one event in the model's stream, and of one whole answer.
    pub model_event_bytes: usize,
    pub model_answer_bytes: usize,
    /// Body of an error answer from the model API; the rest is not read.
    pub model_error_bytes: usize,
    /// Each of the buffers of a model connection. Small, because there may be as many connections as model threads.
    pub model_buffer_bytes: usize,
    /// Model connections kept for the next request, and for how long.
    pub model_idle: usize,
    pub model_idle_ms: u64,
    /// A journal that could not be written is tried again after this time.
    pub store_retry_ms: u64,
    /// While journals cannot be written, the log says so this often: a full disk fails every task at once, again and again.
    pub store_tell_ms: u64,
    /// Lines of the store's index that later ones have overtaken. With more of them, and more than those that count, it is
    /// written anew: so many are about a mebibyte, which a start reads in the blink of an eye.
    pub index_spent: usize,
    /// Live output recorded of one tool call; the rest is only in its result.
    pub live_bytes: usize,
    /// A tool's result for the model, in characters; beyond it the middle is left out.
    pub result_chars: usize,
    /// Output kept of one command; the newest wins.
    pub output_bytes: usize,
    /// Between two pieces of a command's live output; the first comes at once.
    pub live_ms: u64,
    /// What a command has printed is read for at most this long after its end, even if a program it left behind keeps printing.
    pub drain_ms: u64,
    /// A command that prints nothing for this long is ended; 0 is never.
    pub shell_silence_ms: u64,
    /// A command that nobody approved is ended after this time: it shall answer a question, not occupy a thread.
    pub confined_ms: u64,
    /// Between TERM and KILL for a process group.
    pub kill_ms: u64,
    /// A supervisor has this long to start its program. It takes milliseconds; one that takes longer is not our program, or was
    /// stopped. The call fails then.
    pub supervisor_start_ms: u64,
    /// A supervisor has this long to kill what is below it. It takes milliseconds; one that takes longer was stopped by its
    /// command, and is killed.
    pub supervisor_end_ms: u64,
    /// Commands that run in the background, of one task and of all; the next one is refused.
    pub background_task: usize,
    pub background: usize,
    /// Those that are remembered, running or over; the oldest that are over are forgotten.
    pub background_kept: usize,
    /// Output kept of each; the newest wins.
    pub background_bytes: usize,
    /// Wait for a command that goes to the background, if the call does not say; and the longest it may say.
    pub background_delay_ms: u64,
    pub background_wait_ms: u64,
    /// Largest file a tool reads, and lines and line length it shows of it.
    pub file_bytes: u64,
    pub file_lines: usize,
    pub line_chars: usize,
    /// Bytes read of one ignore file; what is behind them does not count.
    pub ignore_bytes: u64,
    /// Threads of one search, entries it looks at, directories it goes down, and the time it takes: beyond these it ends
    /// with what it has found and says so.
    pub search_threads: usize,
    pub search_entries: usize,
    pub search_depth: usize,
    pub search_ms: u64,
    /// Lines a search answers with unless it is asked for another number; the most it can be asked for, and the characters of
    /// the answer.
    pub search_matches: usize,
    pub search_most_matches: usize,
    pub search_chars: usize,
    /// Names in one listing, or files found by one pattern; the rest is counted.
    pub listed_files: usize,
    /// Files and characters that paths in one prompt bring along; the rest is named.
    pub attached_files: usize,
    pub attached_chars: usize,
    /// Steps spent on finding a small diff; beyond it what is left is shown as replaced.
    pub diff_steps: usize,
    /// Largest file of settings, variables or trusted folders; a larger one is not read, with a message.
    pub settings_bytes: u64,
    /// Largest memory file, and all of a workspace's together with their imports; what is beyond is left out, with a message.
    pub memory_file_bytes: u64,
    pub memory_bytes: usize,
    /// Imports inside each other, and files of one memory; deeper ones stay as they are written.
    pub import_depth: usize,
    pub memory_files: usize,
    /// Entries of the directory tree that the model is shown, and those looked at for it.
    pub tree_items: usize,
    pub tree_looks: usize,
    /// Tasks whose directory tree is kept as it was first shown; for others it is made anew.
    pub trees: usize,
    /// Work that a search for nearly equal text may take, in characters compared; beyond it only equal text is found.
    pub fuzzy_steps: usize,
    /// Directories looked into for a file that is not where an edit says.
    pub lookup_dirs: usize,
    /// A web page that is fetched: time, bytes and redirections; what takes more is given up.
    pub fetch_ms: u64,
    pub fetch_bytes: u64,
    pub fetch_hops: usize,
    /// Characters of all pages of one call together; they share them.
    pub fetch_chars: usize,
    /// URLs in one call; a call with more is refused.
    pub fetch_urls: usize,
    /// Visits of one host in a minute, and hosts counted; others are not visited.
    pub fetch_per_minute: usize,
    pub fetch_hosts: usize,
    /// Webhooks of one task; the next one is refused.
    pub hooks: usize,
    /// Registrations of webhooks in a minute; more are refused with 503 and Retry-After. Each makes us speak to a
    /// place that somebody else chose.
    pub hooks_per_minute: usize,
    /// A delivery: from the lookup of the name to the end of the answer, and how much is read of that.
    pub hook_ms: u64,
    pub hook_reply_bytes: u64,
    /// First wait after a failed delivery, doubled each time, and how often it is tried again before the event is given up.
    pub hook_retry_ms: u64,
    pub hook_retries: u32,
    /// The longest wait that a receiver can ask for.
    pub hook_longest_ms: u64,
    /// Events in a row that could not be delivered; then nothing is sent until the webhook is set again.
    pub hook_streak: u32,
    /// Newest messages in a delivery that holds the whole task: a webhook says that something happened, the rest can be asked for.
    pub hook_history: usize,
    /// Threads for webhooks.
    pub hook_threads: usize,
    /// How long tasks may wait and be kept: the operator's to say.
    pub times: Times,
    /// Tasks whose time is over that are looked at together, and the time between two such looks: after a long absence many are
    /// due at once, and each may have to be loaded.
    pub expiries: usize,
    pub expiry_pause_ms: u64,
    /// A task that cannot be closed or purged yet, because somebody reads it or another server has it, is looked at again
    /// after this time.
    pub expiry_retry_ms: u64,
    /// Shutting down: time for streams and jobs to end.
    pub shutdown_ms: u64,
}

/// What ends by itself when it has lasted too long, in milliseconds; None lasts for ever. Counted from what the log says, so a
/// restart prolongs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A question nobody answers: the call is cancelled. For ever, because somebody may always come back.
    pub answer_ms: Option<u64>,
    /// A turn, questions included: it is stopped and fails. For ever, because work takes as long as it takes.
    pub turn_ms: Option<u64>,
    /// A task nobody prompts: it is completed. A day, so that an evening's task can be gone on with in the morning.
    pub idle_ms: Option<u64>,
    /// A task that is over: it is forgotten and its log deleted. A day, for those who fetch results later.
    pub retention_ms: Option<u64>,
}

impl Default for Times {
    fn default() -> Times {
        const DAY_MS: u64 = 86_400_000;
        Times { answer_ms: None, turn_ms: None, idle_ms: Some(DAY_MS), retention_ms: Some(DAY_MS) }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        const KIB: usize = 1024;
        const MIB: usize = 1024 * KIB;
        Limits {
            head_bytes: 16 * KIB,
            head_fields: 64,
            blank_lines: 4,
            chunk_line_bytes: 256,
            body_bytes: 10 * MIB,
            ws_message_bytes: 10 * MIB,
            ws_buffer_bytes: KIB,
            connections: 20_000,
            stranger_connections: 64,
            accept_retry_ms: 500,
            accept_queue: 128,
            late_connection_ms: 130_000,
            peer_tries: 5,
            refusal_tell_ms: 10_000,
            head_ms: 10_000,
            body_ms: 30_000,
            idle_ms: 75_000,
            stall_ms: 30_000,
            ping_ms: 15_000,
            socket_ping_ms: 20_000,
            socket_calls: 64,
            tx_bytes: 64 * KIB,
            socket_send_bytes: 64 * KIB,
            crowd_bytes: 256 * MIB,
            crowd_stall_ms: 1_000,
            turn_bytes: 256 * KIB,
            turn_ms: 20,
            turn_accepts: 128,
            turn_notes: 1024,
            notes: 8192,
            tasks: 20_000,
            task_total_bytes: 128 * MIB,
            task_subs: 4096,
            subs: 20_000,
            load_tries: 20,
            load_retry_ms: 25,
            list_page: 100,
            list_briefs: 1_000,
            queued_prompts: 32,
            hot_bytes: MIB,
            hot_total_bytes: 64 * MIB,
            page_bytes: 256 * KIB,
            pages: 64,
            calls: 64,
            model_threads: 512,
            tool_threads: 64,
            disk_threads: 4,
            lane_jobs: 4096,
            thread_idle_ms: 10_000,
            session_requests: 0,
            compress_tokens: 524_288,
            loop_strikes: 2,
            model_tries: 10,
            stream_tries: 4,
            backoff_ms: 5_000,
            backoff_cap_ms: 30_000,
            backoff_longest_ms: 300_000,
            rebreak_ms: 1_000,
            model_head_ms: 60_000,
            model_silence_ms: 300_000,
            model_event_bytes: 32 * MIB,
            model_answer_bytes: 64 * MIB,
            model_error_bytes: 64 * KIB,
            model_buffer_bytes: 16 * KIB,
            model_idle: 32,
            model_idle_ms: 60_000,
            store_retry_ms: 1_000,
            store_tell_ms: 60_000,
            index_spent: 4_096,
            live_bytes: MIB,
            result_chars: 40_000,
            output_bytes: 16 * MIB,
            live_ms: 100,
            drain_ms: 250,
            shell_silence_ms: 300_000,
            confined_ms: 60_000,
            kill_ms: 2_000,
            supervisor_start_ms: 20_000,
            supervisor_end_ms: 10_000,
            background_task: 16,
            background: 64,
            background_kept: 128,
            background_bytes: 64 * KIB,
            background_delay_ms: 200,
            background_wait_ms: 60_000,
            file_bytes: 20 * MIB as u64,
            file_lines: 2_000,
            line_chars: 2_000,
            ignore_bytes: MIB as u64,
            search_threads: 8,
            search_entries: 5_000_000,
            search_depth: 256,
            search_ms: 30_000,
            search_matches: 100,
            search_most_matches: 20_000,
            search_chars: 400_000,
            listed_files: 2_000,
            attached_files: 200,
            attached_chars: 2_000_000,
            diff_steps: 20_000_000,
            settings_bytes: MIB as u64,
            memory_file_bytes: 256 * KIB as u64,
            memory_bytes: 512 * KIB,
            import_depth: 5,
            memory_files: 100,
            tree_items: 200,
            tree_looks: 20_000,
            trees: 512,
            fuzzy_steps: 400_000_000,
            lookup_dirs: 50,
            fetch_ms: 10_000,
            fetch_bytes: 10 * MIB as u64,
            fetch_hops: 5,
            fetch_chars: 250_000,
            fetch_urls: 20,
            fetch_per_minute: 10,
            fetch_hosts: 1024,
            hooks: 16,
            hooks_per_minute: 120,
            hook_ms: 15_000,
            hook_reply_bytes: 4 * KIB as u64,
            hook_retry_ms: 1_000,
            hook_retries: 5,
            hook_longest_ms: 60_000,
            hook_streak: 10,
            hook_history: 10,
            hook_threads: 32,
            times: Times::default(),
            expiries: 16,
            expiry_pause_ms: 100,
            expiry_retry_ms: 60_000,
            shutdown_ms: 5_000,
        }
    }
}

impl Limits {
    /// Fits them to how many files may be open; None is any number. Every connection is one and so is every task in memory. Where
    /// there are not enough, these share them: two thirds are for connections, because tasks that rest can leave. Some are left for
    /// the server itself, an eighth for workers and their connections.
    pub fn within(self, files: Option<u64>) -> Limits {
        let third = files.map_or(usize::MAX / 2, |files| {
            let left = (files - files / 8).saturating_sub(32);
            (left as usize / 3).max(1)
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

/// A page of a list that is longer ends with the task it stands at: with their messages and artifacts, a hundred tasks may be
/// hundreds of megabytes.
pub const LIST_BYTES: usize = 8 << 20;

/// Lists and objects inside of each other in what clients, models and scripts send; deeper ones are refused. A journal's line is read
/// 128 deep, and has some ten of its own around what it holds.
pub const JSON_DEPTH: usize = 100;

/// Lists and objects in all in what clients, models and scripts send; more are refused. Each takes some hundred bytes of memory
/// however short it is written, so a body of the allowed length could take half a gigabyte and hold up everybody else meanwhile:
/// reading so many takes about as long as one turn of the loop may. Real messages have a few dozen; a table of more rows is better
/// sent as a file.
pub const JSON_CONTAINERS: usize = 25_000;

/// Characters of a context id that a client chose: it is a key of ours and is shown to people; longer ones are refused.
pub const CONTEXT_ID_CHARS: usize = 128;

/// Parts of one message. People attach some files and write some paragraphs; a thousand parts is more than any client was seen to
/// send. Each part is converted, journaled, shown and given to the model on its own, so a body full of empty ones would hold up
/// everybody else for a second and take thirty times its size in memory. A message with more is refused as a wrong parameter.
pub const MESSAGE_PARTS: usize = 1_000;

/// Output of a running call that is kept for views that show all of it each time; the newest wins. As much as a screen and what
/// was scrolled out of it; the whole is in the call's result.
pub const LIVE_TAIL_BYTES: usize = 64 * 1024;
/// Between two updates that show it: nobody reads faster, and each repeats the whole tail.
pub const LIVE_SHOWN_MS: u64 = 100;

/// A command line that is read for what it would run: its length and the commands in it. Beyond either it is not understood,
/// and needs approval.
pub const COMMAND_CHARS: usize = 64 * 1024;
pub const COMMAND_PARTS: usize = 256;
/// Directories that a command may run in, because each `cd` before it may succeed or fail; with more of them the line needs
/// approval.
pub const LINE_DIRECTORIES: usize = 16;
/// Paths and directory entries that are looked at before a line runs without approval: the operands of all its commands, and
/// what its patterns are compared with. With more of them it needs approval.
pub const LINE_PATHS: usize = 10_000;
/// Files that the redirections of one line may write without approval: each is a rule in the kernel.
pub const LINE_EDITS: usize = 32;
/// Words of a command that are looked at for the programs that it starts (`sudo`, `xargs`, `sh -c`); with more of them it may start
/// anything.
pub const STARTER_WORDS: usize = 64;
/// A git repository's configuration that is read before git runs without approval: usual ones are below 2 KiB.
pub const GIT_CONFIG_BYTES: u64 = 64 * 1024;
/// A git index that is read for submodules: a hundred thousand files take some 10 MB. With a larger one git needs approval.
pub const GIT_INDEX_BYTES: u64 = 64 << 20;

/// Memory for the data of one process of a command that nobody approved. `tail` and `jq` keep all that they are given; without a limit
/// they would take everything the machine has within seconds. Sorting and searching large files needs a tenth of it.
pub const CONFINED_DATA_BYTES: u64 = 1 << 30;

/// A command of more lines or characters than fit a screen is pointed out when it is asked about, and so is a run of blanks or
/// empty lines that could push part of it out of sight.
pub const COMMAND_LONG_CHARS: usize = 2_000;
pub const COMMAND_LONG_LINES: usize = 40;
pub const PADDING_CHARS: usize = 32;

/// A pattern in a policy rule; a longer one is not used, and said so.
pub const PATTERN_CHARS: usize = 2_048;
/// Memory for one compiled pattern, in bytes: an innocent one needs a thousandth of it.
pub const PATTERN_BYTES: usize = 4 << 20;

/// A supervisor that has not reported the start of its program is continued this often, because another command may have stopped it.
pub const SUPERVISOR_CONTINUE_MS: u64 = 100;
/// A supervisor kills the processes of its command for this long. It is longer than `supervisor_end_ms`, so that the server decides
/// when this takes too long; a supervisor whose server is gone goes on by itself.
pub const SUPERVISOR_KILL_MS: u64 = 600_000;
/// The processes that a supervisor left are killed for this long at a time, because no command can be started meanwhile, and
/// what is left is killed again after the second time.
pub const ORPHANS_KILL_MS: u64 = 1_000;
pub const ORPHANS_RETRY_MS: u64 = 500;
/// Killed processes that the model is told of by number: enough to recognise them.
pub const STRAYS_NAMED: usize = 32;
/// At its start a server looks so often for processes of a dead server, all of which it stops before it kills them; one that forks
/// faster than that escapes.
pub const SWEEP_ROUNDS: usize = 200;
/// A killed process is waited for this long at the start; one that is stuck in the kernel dies later.
pub const SWEEP_WAIT_MS: u64 = 1_000;

/// What another server says of itself in its file under `instances/`; more is not read. Usual is a tenth of a kilobyte.
pub const INSTANCE_BYTES: u64 = 64 * 1024;

/// Shortened logs that a start names; the rest is counted. A power failure may shorten many.
pub const SHORTENED_NAMED: usize = 20;

/// So many connections give way at once, as a part of all: whoever gives way is found by looking at all of them.
pub const GIVE_WAY_PART: usize = 64;

/// Names without effect that are reported of one settings file; the rest is counted, because any number of names fits in a file.
pub const UNKNOWN_SETTINGS: usize = 20;

/// Places to listen on, beside the socket that is there by default; more is refused at start.
pub const LISTENERS: usize = 32;

/// How far the parents of a process are followed to find out whether it is a tool's. People's shells, editors and build tools are
/// some tens deep; a process further down than this is not identified and may only read.
pub const PEER_ANCESTORS: usize = 256;

/// Tasks on a page of a list: what a client gets that does not say, and what it may ask for, as A2A 1.0 has it.
pub const PAGE_TASKS: usize = 50;
pub const PAGE_TASKS_MOST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_tasks_share_the_files_there_are() {
        let caps = |files| {
            let limits = Limits::default().within(files);
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
