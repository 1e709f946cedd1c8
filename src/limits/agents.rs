//! The limits of other agents: their files, what they may send, how long things may take.

use super::{KIB, MIB};

/// Agents of one workspace. All of them are part of every model request. Further ones are reported and not used.
pub const AGENTS: usize = 50;
/// Bytes of a file of agents; one may contain a card. A longer one is reported and not used.
pub const AGENT_FILE_BYTES: u64 = 512 * KIB as u64;
/// Characters of an agent's name, which the model writes.
pub const AGENT_NAME_CHARS: usize = 63;
/// Bytes of the list of agents in a model request. Further descriptions are left out.
pub const AGENT_LIST_BYTES: usize = 16 * KIB;
/// Conversations with agents that a task remembers. The oldest is forgotten, and the next call begins anew.
pub const AGENT_THREADS: usize = 64;

/// Bytes of a card. A longer one is refused.
pub const CARD_BYTES: usize = 256 * KIB;
/// How long a card may take, in milliseconds.
pub const CARD_MS: u64 = 30_000;
/// Bytes of one event of an agent: a whole task with its artifacts. A longer one ends the call.
pub const AGENT_EVENT_BYTES: usize = 16 * MIB;
/// Bytes of all that an agent sends in one call. More ends the call.
pub const AGENT_ANSWER_BYTES: usize = 64 * MIB;
/// Bytes of text that are kept of an agent's answer, and printed while it comes. The rest is left out, and the model is told.
pub const AGENT_TEXT_BYTES: usize = MIB;
/// Artifacts of an answer. Further ones are left out.
pub const AGENT_ARTIFACTS: usize = 256;
/// Bytes of an error that an agent answers with, of which the message is shown.
pub const AGENT_ERROR_BYTES: usize = 64 * KIB;
/// Characters of a context or task id of an agent. Longer ones are not sent back.
pub const AGENT_ID_CHARS: usize = 512;

/// How long an agent may take to accept a connection.
pub const AGENT_CONNECT_MS: u64 = 30_000;
/// How long telling an agent to cancel may take.
pub const AGENT_CANCEL_MS: u64 = 2_000;
/// The time between two looks at the task of an agent that does not stream: first, and at most.
pub const AGENT_POLL_MS: u64 = 500;
pub const AGENT_POLL_MOST_MS: u64 = 5_000;
/// Looks at a task that may fail one after the other before the call does.
pub const AGENT_POLL_FAILURES: u32 = 5;
/// How long a command that prints a secret may take.
pub const SECRET_COMMAND_MS: u64 = 60_000;

/// Agents that a request may have come through: more is a loop.
pub const AGENT_DEPTH: u8 = 3;
