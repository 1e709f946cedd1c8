//! The limits of the audit.

use super::{KIB, MIB};

/// Bytes of the arguments of a call that an entry contains, so that a line stays readable and does not repeat the content of files, which
/// the journal has. Of longer arguments the entry has only the hash and the length.
pub const AUDIT_ARGS_BYTES: usize = 16 * KIB;

/// Bytes of a prompt that an entry contains with `--audit-prompts`. Of a longer one it has only the hash and the length.
pub const AUDIT_PROMPT_BYTES: usize = 256 * KIB;

/// Bytes of any other text in an entry: names, paths, hosts. A longer one is cut.
pub const AUDIT_TEXT_BYTES: usize = 4 * KIB;

/// Bytes of a line that is read when a chain is verified. The longest entry has a prompt of escaped control characters and is shorter. A
/// longer line is reported as invalid.
pub const AUDIT_LINE_BYTES: u64 = 4 * MIB as u64;

/// Addresses whose refused requests are counted separately, each for a minute. Those of further addresses are counted together.
pub const AUDIT_ADDRESSES: usize = 4_096;

/// How long refused requests of an address are counted before one entry with their number is written: one entry for each would let
/// anybody who can connect fill the disk.
pub const AUDIT_COUNT_MS: u64 = 60_000;
