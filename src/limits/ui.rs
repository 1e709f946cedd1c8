//! The limits of the terminal interface: timing of keys, sizes of pastes and drafts, length of the transcript, size of a frame.

use super::{KIB, MIB};

/// After this time without a further byte, an ESC byte is the Esc key. The rest of an escape sequence arrives sooner, also over slow links.
pub const ESCAPE_MS: u64 = 50;
/// An escape sequence is dropped if it does not end within this time, or is longer than the second value; a control string (OSC, DCS) if
/// it is longer than the third. No terminal sends such sequences.
pub const SEQUENCE_END_MS: u64 = 1_000;
pub const SEQUENCE_BYTES: usize = 64;
pub const STRING_BYTES: usize = 4 * KIB;
/// A paste is complete when nothing has arrived for this time, because its end marker may be lost. Bytes of a paste beyond the second value
/// are dropped, with a message.
pub const PASTE_END_MS: u64 = 5_000;
pub const PASTE_BYTES: usize = 4 * MIB;
/// A prompt is at most this long as JSON: servers accept messages of 10 MiB unless they have little memory, and end the connection of
/// a client that sends a longer one.
pub const PROMPT_BYTES: usize = 9 * MIB;
/// If the terminal does not mark pastes, this many characters with at most this time between two of them are a paste: nobody types so
/// fast. An Enter within the third value after them is a line break of the paste and does not send the draft.
pub const BURST_STEP_MS: u64 = 8;
pub const BURST_CHARS: u32 = 3;
pub const BURST_ENTER_MS: u64 = 30;

/// Earlier versions of a draft for undo, and the bytes of all of them: every keystroke keeps a copy of the draft. The oldest are dropped.
pub const UNDO_STEPS: usize = 200;
pub const UNDO_BYTES: usize = 4 * MIB;
/// Killed texts that can be yanked. The oldest is dropped.
pub const KILLS: usize = 8;
/// A paste with more lines or bytes is shown as one placeholder, so that the draft stays readable. It is sent in full.
pub const FOLD_LINES: usize = 10;
pub const FOLD_BYTES: usize = 1_000;
/// Folded pastes of one draft. Further ones are not folded.
pub const FOLDS: usize = 99;

/// Prompts that are kept of a workspace. The oldest are dropped.
pub const HISTORY_ENTRIES: usize = 1_000;
/// Rows of a list of commands, files, sessions or models. A longer list scrolls.
pub const POPUP_ROWS: usize = 7;
/// Paths that are requested to complete the path under the cursor. More characters of the path find the others.
pub const FILES_REQUESTED: usize = 200;

/// Bytes of an unfinished paragraph, which is parsed again with each piece of an answer. At the limit it is printed as it is, and a new
/// paragraph begins.
pub const PARAGRAPH_BYTES: usize = 64 * KIB;
/// Rows of a table that are held back until it is complete. When more arrive, the table is printed, and its columns keep their widths.
pub const TABLE_ROWS: usize = 12;

/// Lines of a diff in the transcript. The whole diff is printed on demand.
pub const DIFF_ROWS: usize = 40;
/// Lines of a prompt in the transcript: longer ones were pasted. The rest is left out.
pub const PROMPT_ROWS: usize = 30;
/// Lines of output in the transcript: of a call that succeeded, of one that failed, and of one that is running. The whole output is
/// printed on demand.
pub const OUTPUT_ROWS: usize = 3;
pub const FAILED_ROWS: usize = 12;
pub const TAIL_ROWS: usize = 5;
/// Lines of output of the user's own command in the transcript: more than of a call, because the user wants to read them.
pub const SHELL_ROWS: usize = 30;
/// Lines of an output or a question that is printed on demand. The rest is in the log of the task.
pub const WHOLE_ROWS: usize = 2_000;
/// Bytes of a printed line: terminals are slow with long lines, and nobody reads them. The rest is cut.
pub const LINE_BYTES: usize = 16 * KIB;

/// Items of the transcript that are kept after a turn, so that outputs, plans and answers can be printed again. Older ones are only in the
/// scrollback.
pub const ITEMS_KEPT: usize = 500;
/// Printed lines that are kept for painting the screen anew: more than a screen has.
pub const LINES_KEPT: usize = 500;
/// Bytes of lines that are queued for a terminal that is slower than the agent. The oldest are left out, and their number is printed.
pub const WAITING_BYTES: usize = 4 * MIB;
/// Screens of the earlier transcript that are printed when a terminal attaches to a session. The whole transcript is printed on demand.
pub const SCREENS_BEFORE: usize = 2;
/// Sources of an answer; further ones are not listed.
pub const CITED: usize = 200;
/// Clients whose prompts and answers are counted separately. Further ones are not counted.
pub const CLIENTS_COUNTED: usize = 100;
/// Models whose requests are counted separately. Those of further models are not.
pub const MODELS_COUNTED: usize = 20;
/// Bytes that one frame prints into the scrollback. The rest follows in the next frames, so that keys are handled in between.
pub const FRAME_BYTES: usize = 32 * KIB;

/// Calls to the server without a response, including those that wait for a connection. Further ones are not sent; a prompt stays a draft.
pub const CALLS_OPEN: usize = 64;
/// Bytes of stored text that are fetched to be printed: as many as are printed at most. The rest is not fetched. A longer file is not
/// opened in the editor.
pub const FETCH_BYTES: usize = 4 * MIB;

/// A new question gets the focus only if no key was pressed for this time, so that people who type do not answer it by accident. A focused
/// question ignores keys until it has been on the screen for the second value without a key.
pub const QUIET_MS: u64 = 700;
pub const ARM_MS: u64 = 350;
/// Two Esc within this time clear the draft; two Ctrl-C or Ctrl-D within the second time quit.
pub const ESCAPE_TWICE_MS: u64 = 500;
pub const QUIT_TWICE_MS: u64 = 3_000;
/// How long a short-lived message is shown.
pub const TOAST_MS: u64 = 5_000;
/// Time between two frames: at most sixty in a second. The spinner and the seconds move more slowly.
pub const FRAME_MS: u64 = 17;
pub const SPINNER_MS: u64 = 100;
/// The greatest width of running text. Longer lines are hard to read.
pub const PROSE_COLUMNS: usize = 88;
/// If the terminal has no focus, a notification is sent after a turn that took at least this long. The second value is the shortest time
/// between two notifications.
pub const NOTIFY_TURN_MS: u64 = 20_000;
pub const NOTIFY_EVERY_MS: u64 = 10_000;
/// Characters of copied text in base64: terminals ignore a longer sequence. A longer text is not copied.
pub const COPY_CHARS: usize = 100_000;
/// In linear mode, how often a line says that the agent is still working.
pub const STILL_WORKING_MS: u64 = 30_000;

/// At the end, late replies of the terminal are read and discarded for this time, so that the shell does not get them. The second value
/// is how long the program waits for a terminal that accepts no output.
pub const REPLIES_MS: u64 = 50;
pub const RESTORE_MS: u64 = 200;
/// How long `doctor` waits for the terminal's replies to its queries: several round trips of a slow ssh connection. A terminal that does
/// not answer is reported as such.
pub const PROBE_MS: u64 = 2_000;
/// Bytes read from the terminal at once. The rest is read after messages of the server were handled.
pub const TERMINAL_READ_BYTES: usize = 64 * KIB;
/// Bytes read from the server at once, so that keys are handled in between.
pub const LINK_READ_BYTES: usize = 256 * KIB;
/// Bytes of one message of a server in the same process: more than that server ever queues for one connection. A longer message ends the
/// connection.
pub const FRAME_LINE_BYTES: usize = 256 * MIB;
/// Lines that are queued while the terminal accepts no output. At the limit nothing more is read from the server, which then waits.
pub const LINES_WAITING: usize = 10_000;
/// Bytes of a line typed in linear mode. The kernel's line editing gives at most 4 KiB; more comes from a paste without a line end. The
/// rest is dropped.
pub const TYPED_LINE_BYTES: usize = 64 * KIB;
/// How long the program waits, after it has sent SIGTSTP to itself, for the signal that continues it. Without one it was not stopped,
/// because no shell could continue it.
pub const STOP_MS: u64 = 50;
/// If an editor exits sooner than this without a change, the text may still be open in a window, so the user is asked when it is saved.
pub const AT_ONCE_MS: u64 = 1_000;
/// How long an editor that runs at the end of the session may take to exit after SIGTERM.
pub const EDITOR_END_MS: u64 = 1_000;
/// Bytes of the file with the prompts of a workspace. At this size it is shortened to the newest prompts, at most half of it.
pub const HISTORY_BYTES: u64 = 4 * MIB as u64;
/// A longer prompt is not stored in the history.
pub const HISTORY_ENTRY_BYTES: usize = 64 * KIB;
/// The draft is stored at most this often, and once more after the last key.
pub const DRAFT_MS: u64 = 200;
/// Bytes of the log file of sessions in terminals. At this size it is renamed to `.old`, replacing an older one.
pub const LOG_FILE_BYTES: u64 = 4 * MIB as u64;

/// An attached terminal sends a ping to a server that has been silent for this time. After the second value without any message the
/// connection counts as lost: two pongs were due by then.
pub const LINK_PING_MS: u64 = 10_000;
pub const LINK_LOST_MS: u64 = 25_000;
/// The wait before a lost connection is opened again: the first wait, which each failure doubles, and the longest. It varies at random by
/// this percentage, so that many terminals do not reconnect at the same time.
pub const LINK_RETRY_MS: u64 = 500;
pub const LINK_RETRY_MOST_MS: u64 = 15_000;
pub const LINK_RETRY_VARIES_PERCENT: u64 = 20;
/// How long one address may take to accept a connection, and a server to answer the handshake. Then the attempt has failed.
pub const LINK_CONNECT_MS: u64 = 10_000;
/// Addresses of a host name that are tried in one attempt. Loopback names have two. Further ones are not tried.
pub const LINK_ADDRESSES: usize = 8;
/// Bytes of a message of the server: a line of a journal and the members around it. A longer message ends the connection.
pub const LINK_MESSAGE_BYTES: usize = super::JOURNAL_LINE_BYTES as usize + KIB;
/// Bytes of output queued for the server: a few of the longest messages that it accepts. With more the connection is closed and opened
/// again, and unanswered calls are sent again.
pub const LINK_QUEUE_BYTES: usize = 32 * MIB;
/// Bytes of the response to a handshake, including the reason of a refusal, and its header fields. Our servers send some hundred bytes and
/// ten fields. A longer response is reported as that of another program.
pub const ANSWER_BYTES: usize = 16 * KIB;
pub const ANSWER_FIELDS: usize = 64;
/// Bytes of the file with the token of a client. Our tokens have less than 100 bytes, those of an identity provider a few thousand. A
/// larger file is refused.
pub const TOKEN_BYTES: u64 = 16 * KIB as u64;
/// Characters of a client's name. The server would cut a longer name, and the client would not recognise its own prompts in the log.
pub const CLIENT_NAME_CHARS: usize = 80;

/// Rows of an MCP server's text above its questions. The rest is left out, because it would push the questions off the screen.
pub const TITLE_ROWS: usize = 8;
