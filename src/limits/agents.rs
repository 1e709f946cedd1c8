//! The limits of other agents: the files that define them, what they may send, and how long requests to them may take.

use super::{KIB, MIB};

/// Agents of one workspace. All of them are part of every model request. Further ones are reported and not used.
pub const AGENTS: usize = 50;
/// Bytes of a file of agents; one may contain a card. A longer one is reported and not used.
pub const AGENT_FILE_BYTES: u64 = 512 * KIB as u64;
/// Characters of an agent's name, which the model has to write. An agent with a longer name is reported and not used.
pub const AGENT_NAME_CHARS: usize = 63;
/// Bytes of the list of agents in a model request. Further descriptions are left out.
pub const AGENT_LIST_BYTES: usize = 16 * KIB;
/// Conversations with agents that a task remembers. The oldest is forgotten, and the next call of its agent begins a new one.
pub const AGENT_THREADS: usize = 64;

/// Bytes of a card. A longer one is refused.
pub const CARD_BYTES: usize = 256 * KIB;
/// Milliseconds in which a card must be fetched. Then the call fails.
pub const CARD_MS: u64 = 30_000;
/// Bytes of one event of an agent: a whole task with its artifacts. A longer one ends the call.
pub const AGENT_EVENT_BYTES: usize = 16 * MIB;
/// Bytes of all that an agent sends in one call. More ends the call.
pub const AGENT_ANSWER_BYTES: usize = 64 * MIB;
/// Bytes of text kept of an agent's answer, and shown while it arrives. The rest is left out, and the model is told.
pub const AGENT_TEXT_BYTES: usize = MIB;
/// Artifacts of an answer. Further ones are left out.
pub const AGENT_ARTIFACTS: usize = 256;
/// Bytes read of an error response of an agent, of which the message is shown. The rest is not read.
pub const AGENT_ERROR_BYTES: usize = 64 * KIB;
/// Characters of a context or task id of an agent. Longer ones are not sent back.
pub const AGENT_ID_CHARS: usize = 512;

/// Time in which an agent must accept a connection. Then the call fails.
pub const AGENT_CONNECT_MS: u64 = 30_000;
/// Time for the request that tells an agent to cancel. Its failure is ignored.
pub const AGENT_CANCEL_MS: u64 = 2_000;
/// The wait between two requests for the state of a task of an agent that does not stream: at first, and at most.
pub const AGENT_POLL_MS: u64 = 500;
pub const AGENT_POLL_MOST_MS: u64 = 5_000;
/// Such requests that may fail in a row before the call fails.
pub const AGENT_POLL_FAILURES: u32 = 5;
/// Time limit of a command that prints a secret. Then the call fails.
pub const SECRET_COMMAND_MS: u64 = 60_000;

/// Agents through which a request may have come. More look like a loop, and the request is refused.
pub const AGENT_DEPTH: u8 = 3;
