//! The inputs and effects of a session.

use crate::base::level::Level;
use crate::mcp::catalog::{Catalog, List};
use crate::mcp::form::Elicitation;
use crate::mcp::roots::Root;
use crate::mcp::transport::message::{Message, RequestId};
use crate::task::form::Reply;
use crate::task::spec::CallError;
use serde_json::{Map, Value};

/// Identifies a call or a query of the shell. The shell chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub u64);

/// Identifies a question of the server to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuestionId(pub u64);

pub struct Setup {
    /// For messages.
    pub server: String,
    /// The version of this program.
    pub version: String,
    pub roots: Vec<Root>,
    /// Whether calls may run concurrently.
    pub parallel: bool,
    pub timeout_ms: u64,
    pub startup_ms: u64,
    /// The catalog of an earlier connection.
    pub catalog: Catalog,
}

#[derive(Debug)]
pub enum Input {
    /// The transport can send.
    Start,
    /// A message has arrived; over HTTP with the request whose response contained it.
    Message {
        message: Message,
        on: Option<RequestId>,
    },
    /// A line or an event has arrived that is not a message.
    Junk(String),
    /// A request has failed and will not be answered.
    Failed {
        request: RequestId,
        why: String,
    },
    /// The server has lost the session of a request (HTTP).
    SessionLost(RequestId),
    /// The connection ended.
    Lost(String),
    Call(Call),
    Cancel {
        call: Key,
        reason: String,
    },
    Query {
        key: Key,
        query: Query,
    },
    /// The user has answered a question, or cannot be asked.
    Replied {
        question: QuestionId,
        reply: Reply,
    },
    Roots(Vec<Root>),
    Tick,
}

/// A call of a tool, by its own name.
#[derive(Clone, Debug)]
pub struct Call {
    pub key: Key,
    pub tool: String,
    pub arguments: Value,
}

/// A request of the shell other than a tool call.
#[derive(Clone, Debug)]
pub enum Query {
    Prompt { name: String, arguments: Map<String, Value> },
    Resource { uri: String },
    Ping,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Send(Outgoing),
    /// The handshake is complete: a transport over HTTP opens its GET stream.
    Initialized,
    /// The tools are listed, or there are none: the server is connected.
    Ready,
    /// A list has changed; the new one is in [`Session::catalog`](super::Session::catalog).
    Changed(List),
    /// Live output of a call.
    Progress {
        call: Key,
        text: String,
    },
    Ended {
        call: Key,
        outcome: Outcome,
    },
    Answered {
        key: Key,
        result: Result<Value, CallError>,
    },
    /// The server asks the user a question during a call.
    Question {
        question: QuestionId,
        call: Key,
        elicitation: Elicitation,
    },
    /// A question is withdrawn.
    Withdrawn {
        question: QuestionId,
        call: Key,
    },
    /// A log message of the server.
    Log {
        level: Level,
        text: String,
    },
    /// A message for people, as a sentence.
    Notice(String),
    /// The connection must be closed for this reason.
    End(String),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The result of `tools/call`, for [`content::read`](crate::mcp::content::read).
    Result(Value),
    Failed(CallError),
    Cancelled,
}

/// A message to the server, without a line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub text: String,
    pub kind: Sent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    Initialize(RequestId),
    /// A request, with the call or query of the shell that it belongs to.
    Request(RequestId, Option<Key>),
    /// A notification or a response. The server does not respond to it.
    Other,
}

/// The server's information from the handshake.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// The version of the protocol.
    pub version: String,
    pub name: String,
    pub server_version: String,
    pub capabilities: Value,
    pub instructions: String,
}
