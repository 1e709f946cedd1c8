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
/// Lines of a whole output or a whole question that are printed on demand. The rest is in the log of the task.
pub const WHOLE_ROWS: usize = 2_000;
/// Length of a line that is printed; the rest of it is cut. A terminal takes long lines slowly, and nobody reads them.
pub const LINE_BYTES: usize = 16 * KIB;

/// Items of the transcript that the terminal keeps after a turn, for printing outputs, plans and answers again. What was printed before
/// is in the scrollback.
pub const ITEMS_KEPT: usize = 500;
/// Printed lines that are kept for painting the screen anew: more than a screen has.
pub const LINES_KEPT: usize = 500;
/// What a frame prints into the scrollback. The rest follows in the next frames, so that keys are answered meanwhile.
pub const FRAME_BYTES: usize = 32 * KIB;

/// Calls to the server that wait for an answer. Further ones that nobody waits for are not sent.
pub const CALLS_OPEN: usize = 64;
/// Stored text that is fetched to be printed: as much as is printed at the most. The rest stays where it is.
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
/// Time between two frames: sixty in a second. The spinner and the seconds move more slowly.
pub const FRAME_MS: u64 = 16;
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
