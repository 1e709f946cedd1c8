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
