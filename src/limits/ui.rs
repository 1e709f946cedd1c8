//! The limits of the terminal: times of keys, sizes of pastes and drafts, what is kept of a transcript, how much a frame paints.

use super::{KIB, MIB};

/// A lone ESC is the key after this time; a sequence follows its ESC sooner, also over slow links.
pub const ESCAPE_MS: u64 = 50;
/// A sequence without an end is dropped after this time, and one that is longer than these: no terminal sends such.
pub const SEQUENCE_END_MS: u64 = 1_000;
pub const SEQUENCE_BYTES: usize = 64;
pub const STRING_BYTES: usize = 4 * KIB;
/// A paste is complete when nothing came for this time, because the mark of its end may be lost. Of a longer paste the rest is dropped,
/// and people are told.
pub const PASTE_END_MS: u64 = 5_000;
pub const PASTE_BYTES: usize = 4 * MIB;
/// A prompt is at most this long as JSON: servers accept messages of 10 MiB unless they have little memory, and end the connection of
/// a client that sends a longer one.
pub const PROMPT_BYTES: usize = 9 * MIB;
/// Characters that come in steps of this time are pasted, if the terminal does not mark pastes: nobody types so fast. An Enter soon
/// after them is a new line of the paste and sends nothing.
pub const BURST_STEP_MS: u64 = 8;
pub const BURST_CHARS: u32 = 3;
pub const BURST_ENTER_MS: u64 = 30;

/// Prompts in a draft that can be undone, and the bytes of all of them: every keystroke in a long draft keeps a copy of it. The oldest
/// are dropped.
pub const UNDO_STEPS: usize = 200;
pub const UNDO_BYTES: usize = 4 * MIB;
/// Killed texts that can be yanked.
pub const KILLS: usize = 8;
/// A longer paste is folded into one mark of the draft, which stays readable. It is sent in full.
pub const FOLD_LINES: usize = 10;
pub const FOLD_BYTES: usize = 1_000;
/// Folded pastes of one draft. Further ones are not folded.
pub const FOLDS: usize = 99;

/// Prompts that are kept of a workspace. The oldest are dropped.
pub const HISTORY_ENTRIES: usize = 1_000;
/// Rows of a list of commands, files, sessions or models. A longer list scrolls.
pub const POPUP_ROWS: usize = 7;
/// Paths that are asked for to complete one that is being written. A narrower word finds the others.
pub const FILES_ASKED: usize = 200;

/// Source of a paragraph that is read again with each piece of an answer. A longer one is printed as it is and begins anew.
pub const PARAGRAPH_BYTES: usize = 64 * KIB;
/// Rows of a table that are held until it is complete. After them its columns stay as they are.
pub const TABLE_ROWS: usize = 12;

/// Lines of a change in the transcript. The whole change is printed on demand.
pub const DIFF_ROWS: usize = 40;
/// Lines of a prompt in the transcript; longer ones were pasted.
pub const PROMPT_ROWS: usize = 30;
/// Lines of output in the transcript: of a call that went well, of one that failed, and of one that is running.
pub const OUTPUT_ROWS: usize = 3;
pub const FAILED_ROWS: usize = 12;
pub const TAIL_ROWS: usize = 5;
/// Lines of output of a command that the user ran, who wants to read them.
pub const SHELL_ROWS: usize = 30;
/// Lines of a whole output or a whole question that are printed on demand. The rest is in the log of the task.
pub const WHOLE_ROWS: usize = 2_000;
/// Length of a line that is printed; the rest of it is cut. A terminal takes long lines slowly, and nobody reads them.
pub const LINE_BYTES: usize = 16 * KIB;

/// Items of the transcript that the terminal keeps after a turn, for printing outputs, plans and answers again. What was printed before
/// is in the scrollback.
pub const ITEMS_KEPT: usize = 500;
/// Printed lines that are kept for painting the screen anew: more than a screen has.
pub const LINES_KEPT: usize = 500;
/// Lines that wait for a terminal that is slower than the agent. The oldest are left out, and people are told how many.
pub const WAITING_BYTES: usize = 4 * MIB;
/// Screens of an attached session that are printed of what was before. The whole is printed on demand.
pub const SCREENS_BEFORE: usize = 2;
/// Sources of an answer; further ones are not listed.
pub const CITED: usize = 200;
/// Clients whose prompts and answers are counted.
pub const CLIENTS_COUNTED: usize = 100;
/// Models whose requests are counted apart.
pub const MODELS_COUNTED: usize = 20;
/// What a frame prints into the scrollback. The rest follows in the next frames, so that keys are answered meanwhile.
pub const FRAME_BYTES: usize = 32 * KIB;

/// Calls to the server that wait for an answer, also those that wait for a connection. Further ones are not sent; a prompt stays a draft.
pub const CALLS_OPEN: usize = 64;
/// Stored text that is fetched to be printed: as much as is printed at the most. The rest stays where it is. A longer file is not opened
/// in the editor.
pub const FETCH_BYTES: usize = 4 * MIB;

/// A question that appears is focused only if no key came for this time: people who write must not answer by accident. A focused one
/// takes no key before it has been on the screen for the second time; each key before that begins it anew.
pub const QUIET_MS: u64 = 700;
pub const ARM_MS: u64 = 350;
/// Two Esc within this time clear the draft; two Ctrl-C or Ctrl-D within the second time quit.
pub const ESCAPE_TWICE_MS: u64 = 500;
pub const QUIT_TWICE_MS: u64 = 3_000;
/// How long a passing message is shown.
pub const TOAST_MS: u64 = 5_000;
/// Time between two frames: at most sixty in a second. The spinner and the seconds move more slowly.
pub const FRAME_MS: u64 = 17;
pub const SPINNER_MS: u64 = 100;
/// Text is set at most this wide.
pub const PROSE_COLUMNS: usize = 88;
/// People who look elsewhere are told of a turn that took this long, and of anything at most this often.
pub const NOTIFY_TURN_MS: u64 = 20_000;
pub const NOTIFY_EVERY_MS: u64 = 10_000;
/// Copied text in base64; terminals ignore more.
pub const COPY_CHARS: usize = 100_000;
/// In linear mode, how often it is said that the agent still works.
pub const STILL_MS: u64 = 30_000;

/// Replies of the terminal that come after the end are thrown away for this time. A terminal that takes nothing is waited for as long as
/// the second time before it is left.
pub const REPLIES_MS: u64 = 50;
pub const RESTORE_MS: u64 = 200;
/// `doctor` waits so long for what the terminal says about itself: several round trips of a slow ssh connection. A terminal that
/// answers nothing costs no more.
pub const PROBE_MS: u64 = 2_000;
/// Read from the terminal at once. The rest is read after frames of the server were looked at.
pub const TERMINAL_READ_BYTES: usize = 64 * KIB;
/// Read from the server at once, so that keys are answered meanwhile.
pub const LINK_READ_BYTES: usize = 256 * KIB;
/// One frame of the server of this process: more than it ever has in memory for one connection. A longer one ends the connection.
pub const FRAME_LINE_BYTES: usize = 256 * MIB;
/// Lines that wait to be printed while the terminal takes nothing. Beyond them the server is not read; it waits with the rest of the log.
pub const LINES_WAITING: usize = 10_000;
/// A line that is typed in linear mode. The terminal's own editing gives at most 4 KiB; more is pasted without an end.
pub const TYPED_LINE_BYTES: usize = 64 * KIB;
/// A process that stopped itself is stopped after this time, if it is stopped at all.
pub const STOP_MS: u64 = 50;
/// An editor that ends sooner than this and changes nothing may have opened a window that is still there.
pub const AT_ONCE_MS: u64 = 1_000;
/// An editor that runs at the end of the session has this long to leave the terminal.
pub const EDITOR_END_MS: u64 = 1_000;
/// The file with the prompts of a workspace. From this size on it is shortened to the prompts that are kept, at most half of it.
pub const HISTORY_BYTES: u64 = 4 * MIB as u64;
/// A longer prompt is not stored in the history.
pub const HISTORY_ENTRY_BYTES: usize = 64 * KIB;
/// The draft is stored at most this often, and once more after the last key.
pub const DRAFT_MS: u64 = 200;
/// The file with log lines of sessions in terminals. At this size it is put aside as `.old`, in the place of an older one.
pub const LOG_FILE_BYTES: u64 = 4 * MIB as u64;

/// An attached terminal asks a silent server for a sign of life after this time. After the second time without one the connection is
/// lost: two signs were due by then.
pub const LINK_PING_MS: u64 = 10_000;
pub const LINK_LOST_MS: u64 = 25_000;
/// The pause before a lost connection is made again: the first, which each failure doubles, and the longest. It varies by this part of
/// it, so that many terminals do not come back at once.
pub const LINK_RETRY_MS: u64 = 500;
pub const LINK_RETRY_MOST_MS: u64 = 15_000;
pub const LINK_RETRY_VARIES_PERCENT: u64 = 20;
/// How long one address may take to answer a connection, and a server to answer the handshake. Then it is a failed attempt.
pub const LINK_CONNECT_MS: u64 = 10_000;
/// Addresses of a name that are tried in one attempt. Loopback names have two.
pub const LINK_ADDRESSES: usize = 8;
/// A message of the server: it contains one line of a journal, and its head. A longer one loses the connection.
pub const LINK_MESSAGE_BYTES: usize = super::JOURNAL_LINE_BYTES as usize + KIB;
/// Output that waits for the server: a few of the longest messages that it takes. With more the connection is lost, and what the server
/// has not answered is sent again.
pub const LINK_QUEUE_BYTES: usize = 32 * MIB;
/// The answer to a handshake, with the reason of a refusal, and its header fields: servers send some hundred bytes and ten fields. What
/// sends more is another server.
pub const ANSWER_BYTES: usize = 16 * KIB;
pub const ANSWER_FIELDS: usize = 64;
/// The token of a client, in its file. Ours have less than 100 bytes, those of an identity provider a few thousand.
pub const TOKEN_BYTES: u64 = 16 * KIB as u64;
/// Characters of the name of a client that the server takes; a longer name would not be recognised in the log.
pub const CLIENT_NAME_CHARS: usize = 80;

/// How many rows of a server's words are shown above its questions: the rest would push the questions off the screen.
pub const TITLE_ROWS: usize = 8;
