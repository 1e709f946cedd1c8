//! The limits that are the same for every server and every test.

use super::{KIB, MIB};
use std::time::Duration;

/// Bytes after which a page of a list ends, because a hundred tasks with messages and artifacts may be hundreds of megabytes. The other
/// tasks are on the next page.
pub const LIST_BYTES: usize = 8 * MIB;

/// Tasks on a page of a list: the default, and the most that a client may ask for, as in A2A 1.0. A request for more is invalid.
pub const PAGE_TASKS: usize = 50;
pub const PAGE_TASKS_MOST: usize = 100;

/// Depth of lists and objects in JSON of clients, models and scripts. A journal line is read up to 128 levels deep and needs about ten
/// for itself. Deeper JSON is refused.
pub const JSON_DEPTH: usize = 100;

/// Number of lists and objects in JSON of clients, models and scripts. Each takes some hundred bytes of memory however short it is
/// written, so a body of the allowed length could take half a gigabyte; reading this many takes about as long as one turn of the
/// loop may. Real messages have a few dozen; a larger table is better sent as a file. More are refused.
pub const JSON_CONTAINERS: usize = 25_000;

/// Characters of a context id that a client chose, because it is a key of ours and is shown to people. A longer one is refused.
pub const CONTEXT_ID_CHARS: usize = 128;

/// Keys of prompts that a task remembers, so that a prompt that is sent again after a lost connection counts once. A client has few
/// prompts unacknowledged at a time. Older keys are forgotten.
pub const PROMPT_KEYS: usize = 256;

/// Tasks that one conversation continues. What was said before the oldest of them is not told to the model.
pub const CONVERSATION_TASKS: usize = 64;

/// Bytes of a line of the log on standard error. A pipe that is writable according to poll accepts this many without blocking
/// (PIPE_BUF). A longer line is cut.
pub const LOG_LINE_BYTES: usize = 4 * KIB;
/// Known secrets of at least this many bytes are also removed from log lines where they occur in base64. Shorter ones occur by chance.
pub const ENCODED_SECRET_BYTES: usize = 16;
/// Bytes of the id that a client gives to its request, and of a trace id. A longer request id is replaced by one of ours; a trace id of
/// another length is ignored.
pub const REQUEST_ID_BYTES: usize = 64;
pub const TRACE_ID_BYTES: usize = 32;

/// Bytes of a path, of the name of a client program and of any other text in a line of the access log, escapes included, so that the
/// whole line is within [`LOG_LINE_BYTES`]. Longer ones are cut.
pub const ACCESS_PATH_BYTES: usize = 512;
pub const ACCESS_AGENT_BYTES: usize = 256;
pub const ACCESS_NAME_BYTES: usize = 136;
/// Bytes of the access log that go to its writer at once, and how many such pieces wait for it. When the disk takes no more, further
/// lines are dropped and counted.
pub const ACCESS_PIECE_BYTES: usize = 64 * KIB;
pub const ACCESS_PIECES: usize = 128;
/// How long the shutdown waits until the last lines of the access log are written.
pub const ACCESS_END_MS: u64 = 1_000;

/// The shortest time between two checks of the event loop for delayed jobs, because a check takes the lock of each lane.
pub const LANE_CHECK_MS: u64 = 500;
/// Directories beside the workspace that tools may use; each call opens them all. Further ones are reported and not used.
pub const INCLUDED_DIRECTORIES: usize = 32;

/// Entries of the directory of extensions. Their manifests are read for every model request. Further ones are reported and not used.
pub const EXTENSIONS: usize = 100;

/// Custom commands of a workspace, with those of its user and extensions, the length of a file, the depth of directories, and the
/// characters of a part of a name. A list of commands contains all of them, and people choose from it. Further, longer and deeper ones are
/// reported and not used; a longer part of a name is cut.
pub const CUSTOM_COMMANDS: usize = 500;
pub const CUSTOM_COMMAND_BYTES: u64 = 64 * KIB as u64;
pub const CUSTOM_COMMAND_DEPTH: usize = 8;
pub const CUSTOM_NAME_CHARS: usize = 50;
/// Commands in the prompt of one custom command. Each may have to be approved, and its output becomes part of the prompt. With more the
/// custom command fails.
pub const PROMPT_COMMANDS: usize = 16;

/// Skills of a workspace, with those of its user and extensions, the length of a `SKILL.md`, and the characters of names and
/// descriptions. All descriptions are part of every model request. More and longer ones are reported and not used.
pub const SKILLS: usize = 200;
pub const SKILL_BYTES: u64 = 256 * KIB as u64;
pub const SKILL_NAME_CHARS: usize = 64;
pub const SKILL_DESCRIPTION_CHARS: usize = 1_024;
/// Bytes of the list of skills in a model request. The rest is counted.
pub const SKILL_LIST_BYTES: usize = 16 * KIB;
/// Files of a skill that the model and people are shown, and the depth of directories. The rest is left out.
pub const SKILL_FILES: usize = 200;
pub const SKILL_TREE_DEPTH: usize = 8;

/// Tasks for which this process remembers that the command hooks of `SessionStart` have run. At the limit all are forgotten, and such
/// hooks may run again.
pub const BEGUN_TASKS: usize = 10_000;
/// Command hooks that run at one point; the default and the greatest time limit of a hook, which is ended then because its call waits for
/// it; the time between SIGTERM and SIGKILL; and the bytes of each of its outputs. Further hooks are reported and not run; the rest of an
/// output is dropped.
pub const HOOKS: usize = 32;
pub const HOOK_MS: u64 = 60_000;
pub const HOOK_LONGEST_MS: u64 = 600_000;
pub const HOOK_END_MS: u64 = 5_000;
pub const HOOK_OUTPUT_BYTES: usize = 256 * KIB;
/// Characters of a reason or a text of a hook, which become part of the log and of model requests. The rest is cut.
pub const HOOK_TEXT_CHARS: usize = 10_000;
/// How often command hooks may continue one turn instead of letting it end. Then it ends.
pub const HOOK_REPROMPTS: u32 = 3;

/// Directories below the workspace whose memory files the model of a task was shown. At the limit all are forgotten, and their files may
/// be shown again.
pub const VISITED_DIRECTORIES: usize = 10_000;
/// Messages about a workspace's files that are remembered so that each is logged once. At the limit all are forgotten and may be
/// logged again.
pub const LOGGED_ONCE: usize = 1_000;

/// Bytes of a line of a journal that is not in the index: the largest event contains one request body. A longer line, and everything
/// after it, is not read.
pub const JOURNAL_LINE_BYTES: u64 = 64 * MIB as u64;

/// Depth of maps and lists in a settings file. No setting needs as much, and the parsers are recursive. A deeper file is refused; of a
/// YAML file only the deeper part is left out.
pub const SETTINGS_DEPTH: usize = 64;

/// Bytes of a URL that a tool visits or a webhook is sent to, as in common browsers and proxies. A longer one is refused.
pub const URL_BYTES: usize = 2 * KIB;
/// Bytes of the id, token, scheme and credentials of a webhook, each. They become header lines of every delivery, and receivers accept
/// some KiB of these. A longer one is refused.
pub const WEBHOOK_TEXT_BYTES: usize = 4 * KIB;

/// Unanswered requests of the server to one client of the Agent Client Protocol. Further approvals are requested after some of them were
/// answered.
pub const ACP_OPEN_REQUESTS: usize = 256;
/// Sessions on a page of a list in the Agent Client Protocol. The rest is on further pages.
pub const ACP_PAGE: usize = 100;
/// How long the server waits for the first message of a WebSocket before it sends its greeting, because that message shows which dialect
/// the client uses. A client that sends nothing is greeted in the dialect of the live session.
pub const GREETING_MS: u64 = 100;

/// How long the shutdown waits for the disk, or for a bucket: for the last events, the release of the tasks and the end of the heartbeat.
pub const FLUSH_MS: u64 = 2_000;
/// Journals that are synced at the same time during the shutdown. The others wait for their turn.
pub const FLUSHED_AT_ONCE: usize = 16;
/// How long the shutdown waits until the reader of standard output has read everything. What is not read by then is lost.
pub const LAST_OUTPUT_MS: u64 = 2_000;
/// Characters of the name of a client. The rest is cut.
pub const CLIENT_NAME_CHARS: usize = 80;

/// Questions in one call of `ask_user`, and options of a question: more cannot be shown side by side. A call with more is refused.
pub const USER_QUESTIONS: usize = 4;
pub const USER_OPTIONS: std::ops::RangeInclusive<usize> = 2..=4;

/// Bytes of a path and of a name in it that a file system accepts, and symbolic links that the kernel follows in one path. Tools
/// refuse paths with more.
pub const PATH_BYTES: usize = 4 * KIB;
pub const NAME_BYTES: usize = 255;
pub const PATH_LINKS: usize = 40;

/// Parts of one message. No known client sends a thousand. Each part is converted, journaled, shown and sent to the model on its own,
/// so a body full of empty ones would block the loop for a second and take thirty times its size in memory. A message with more
/// is refused as an invalid parameter.
pub const MESSAGE_PARTS: usize = 1_000;

/// Bytes of output of a running call that are kept for views that repeat the whole output in each update: enough for a screen and some
/// scrolling. The oldest output is dropped; the call's result has all of it.
pub const LIVE_TAIL_BYTES: usize = 64 * KIB;
/// Time between two such updates: nobody reads faster, and each update repeats the whole tail.
pub const LIVE_SHOWN_MS: u64 = 100;

/// Characters of the output of a user's own command that the model is shown. The rest is left out.
pub const SHELL_CHARS: usize = 10_000;

/// Length of a command line, and the commands in it. A longer line needs approval; a longer prompt is no slash command.
pub const COMMAND_CHARS: usize = 64 * KIB;
pub const COMMAND_PARTS: usize = 256;
/// Directories in which a command of a line may run: each `cd` before it doubles them, because it may succeed or fail. With more the line
/// needs approval.
pub const LINE_DIRECTORIES: usize = 16;
/// Paths and directory entries that are checked before a line runs without approval: the operands of its commands, and what its
/// patterns are compared with. With more it needs approval.
pub const LINE_PATHS: usize = 10_000;
/// Files that the redirections of one line may write without approval, because each is a rule in the kernel. With more it needs approval.
pub const LINE_EDITS: usize = 32;
/// Words of a command that are searched for the programs that it starts (`sudo`, `xargs`, `sh -c`). With more it may start anything.
pub const STARTER_WORDS: usize = 64;
/// A git repository's configuration that is read before git runs without approval. Usual ones are below 2 KiB. With a larger one git
/// needs approval.
pub const GIT_CONFIG_BYTES: u64 = 64 * KIB as u64;
/// A git index that is searched for submodules: a hundred thousand files take about 10 MB. With a larger one git needs approval.
pub const GIT_INDEX_BYTES: u64 = 64 * MIB as u64;

/// How long git may take to say who the user is, and the length of its answer. Usually it takes some milliseconds and a hundred bytes.
/// Beyond, the command starts without a name for commits.
pub const GIT_IDENTITY_MS: u64 = 2_000;
pub const GIT_IDENTITY_BYTES: usize = 4 * KIB;
/// Files with names for git in the state directory: one per name that the user has had. At the limit all are written anew.
pub const GIT_IDENTITIES: usize = 16;

/// Data memory of one process of a command without approval. `tail` and `jq` keep all their input and could take all memory within
/// seconds; sorting and searching large files needs a tenth of this. More memory is not given to the process.
pub const CONFINED_DATA_BYTES: u64 = 1 << 30;

/// A command with more characters or lines than this, or with a longer run of blanks, gets a warning in its question: part of it may be
/// outside the screen.
pub const COMMAND_LONG_CHARS: usize = 2_000;
pub const COMMAND_LONG_LINES: usize = 40;
pub const PADDING_CHARS: usize = 32;

/// Characters of a pattern in a policy rule, and memory of the compiled one; usual ones need a thousandth. A larger one is not used and
/// reported.
pub const PATTERN_CHARS: usize = 2_048;
pub const PATTERN_BYTES: usize = 4 * MIB;

/// Patterns that the braces of one glob pattern may stand for: `{a,b}` makes two. A pattern with more is refused.
pub const GLOB_ALTERNATIVES: usize = 256;

/// If the time of day jumps forward by more than this, the clock was set: a board without a battery starts in 1970. The periods after
/// which tasks are completed or deleted then begin anew. After a longer downtime, tasks are therefore kept longer than needed.
pub const CLOCK_STEP_MS: u64 = 24 * 60 * 60 * 1000;

/// How long a starting server waits for the first answer of a supervisor. A program that does not answer is not used as a supervisor.
pub const SUPERVISOR_TRIAL_MS: u64 = 1_000;

/// A supervisor that has not yet reported the start of its program gets SIGCONT this often, because another command may have stopped it.
pub const SUPERVISOR_CONTINUE_MS: u64 = 100;
/// How long a supervisor tries to kill the processes of its command. Longer than `supervisor_end_ms`, so that normally the server decides
/// that it takes too long; a supervisor without a server continues alone.
pub const SUPERVISOR_KILL_MS: u64 = 600_000;
/// Time limit of one attempt to kill the processes that a dead supervisor left behind, because no command can be started meanwhile, and
/// the wait before the next attempt.
pub const ORPHANS_KILL_MS: u64 = 1_000;
pub const ORPHANS_RETRY_MS: u64 = 500;
/// Killed leftover processes whose process ids the model is told. Of further ones it is told the number.
pub const LEFTOVERS_NAMED: usize = 32;
/// How often a starting server searches for processes of a dead server. It stops all that it finds before it kills them; a process that
/// forks faster than the searches escapes.
pub const SWEEP_ROUNDS: usize = 200;
/// How long a starting server waits for a process that it killed. One that is stuck in the kernel ends later.
pub const SWEEP_WAIT_MS: u64 = 1_000;

/// Bytes read of another server's file in `instances/`. Usual files have about a hundred.
pub const INSTANCE_BYTES: u64 = 64 * KIB as u64;

/// Connected clients in a list for a client: more do not fit a screen. The others are left out.
pub const CLIENTS_LISTED: usize = 100;

/// Paths in the answer to one query for files, and files that are compared with the query. The search ends at either limit.
pub const FILES_FOUND: usize = 200;
pub const FILES_LOOKED_AT: usize = 50_000;

/// Characters of the title of a task, which is the first line of its first prompt. The rest is cut.
pub const TITLE_CHARS: usize = 80;

/// Tasks that are deleted after one measurement of the disk space of all tasks. If they are not enough, more follow after the next one.
pub const TASKS_DELETED_AT_ONCE: usize = 1_000;
/// Deleted tasks that the log names. Of the rest it has the number.
pub const DELETED_NAMED: usize = 20;

/// Truncated journals that the log names at the start. Of the rest it has the number, because a power failure may truncate many.
pub const SHORTENED_NAMED: usize = 20;

/// How often, and at what interval, a start tries to lock the index of the journals that another server is writing. Then the start reads
/// the journals instead.
pub const INDEX_LOCK_TRIES: u32 = 100;
pub const INDEX_LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Idle connections that are closed at once, as a fraction of all (one in 64): finding them means looking at all of them.
pub const GIVE_WAY_PART: usize = 64;
/// A connection that was just opened or used is not closed for a new one before this time has passed, so that its client can send a
/// request. New ones wait in the kernel's backlog.
pub const GIVE_WAY_MS: u64 = 250;

/// Unknown names that are reported of one settings file. Of the rest the number is reported, because a file can have any number of names.
pub const UNKNOWN_SETTINGS: usize = 20;

/// Addresses to listen on, beside the default Unix socket. More are refused at start.
pub const LISTENERS: usize = 32;

/// Ancestors of a connecting process that are checked for a tool's supervisor. Processes of shells, editors and build tools have some
/// tens. A process with more is not identified and may only read.
pub const PEER_ANCESTORS: usize = 256;

/// Bytes of a text of a plan or a result that is written into the journal itself. A longer text is stored beside the journal, so that
/// reading the journal does not take the time and memory of every file that was edited.
pub const INLINE_BYTES: usize = 64 * KIB;

/// Bytes of all texts of a prompt that are written into the journal itself. It is more than [`INLINE_BYTES`], because people read prompts
/// in journals. What does not fit is stored beside the journal, so that writing an event takes the loop only a few milliseconds.
pub const INLINE_PROMPT_BYTES: usize = 256 * KIB;

/// Bytes of a request as JSON without the texts and files of its message: data, metadata, edited files, ids, names. Texts and files can
/// be stored beside the journal; everything else is written into it by the loop, which takes some milliseconds for each MiB. A request
/// with more is refused.
pub const CALL_BYTES: usize = MIB;
/// Characters of an error about a long request, because it may repeat names that the client chose. The rest is cut.
pub const FAULT_CHARS: usize = 1_000;

/// Stored content that no journal names is deleted only after this time, because the event that names it may not be on disk yet.
pub const BLOB_GRACE_MS: u64 = 3_600_000;

/// Restore points of a task, the newest ones: nobody reads a longer list. Older states can be restored with version control.
pub const RESTORE_POINTS: usize = 100;

/// Characters of a diff that a command shows. The middle of a longer one is left out.
pub const RESTORE_DIFF_CHARS: usize = 40_000;

/// Milliseconds that a restore waits until a journal names the copies of the files that it will overwrite. Journals are written within
/// milliseconds; if one cannot be written, nothing is overwritten.
pub const COPIES_NAMED_MS: u64 = 5_000;

/// Milliseconds that a start without a terminal waits for the first byte of standard input. A service manager may leave a pipe open
/// that nobody writes to; without a byte the server starts.
pub const FIRST_BYTE_MS: u32 = 500;

/// Bytes of standard input that become a part of a prompt. Models read about 4 MiB. Longer input is refused; a prompt can name files with
/// `@` instead.
pub const STDIN_BYTES: usize = 8 * MIB;

/// Bytes of the schema of an MCP tool that is shown, and logged, with the question about a call. A longer schema is left out.
pub const MCP_SHOWN_SCHEMA_BYTES: usize = 16 * KIB;
