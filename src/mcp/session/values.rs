//! What goes into a session and what comes out of it.

use crate::base::level::Level;
use crate::mcp::catalog::{Catalog, List};
use crate::mcp::form::Elicitation;
use crate::mcp::roots::Root;
use crate::mcp::transport::message::{Message, RequestId};
use crate::task::form::Reply;
use crate::task::spec::CallError;
use serde_json::{Map, Value};

/// A call or a request of the shell, which chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub u64);

/// A question of the server to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuestionId(pub u64);

pub struct Setup {
    /// For messages.
    pub server: String,
    /// The version of this program.
    pub version: String,
    pub roots: Vec<Root>,
    /// Calls may run at the same time.
    pub parallel: bool,
    pub timeout_ms: u64,
    pub startup_ms: u64,
    /// What is known from an earlier connection.
    pub catalog: Catalog,
}

#[derive(Debug)]
pub enum Input {
    /// The transport can send.
    Start,
    /// A message came; over HTTP with the request whose response it came with.
    Message {
        message: Message,
        on: Option<RequestId>,
    },
    /// A line or an event came that is no message.
    Junk(String),
    /// A request was not answered, and cannot be any more.
    Failed {
        request: RequestId,
        why: String,
    },
    /// The server does not know the session that a request belonged to (HTTP).
    SessionLost(RequestId),
    /// The connection ended.
    Lost(String),
    Call(Call),
    Cancel {
        call: Key,
        reason: String,
    },
    Ask {
        key: Key,
        what: Ask,
    },
    /// People answered a question, or cannot.
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

/// A request of the shell that is no call.
#[derive(Clone, Debug)]
pub enum Ask {
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
    /// A list changed; it is in [`Session::catalog`].
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
    /// People are asked in the course of a call.
    Question {
        question: QuestionId,
        call: Key,
        elicitation: Elicitation,
    },
    /// The answer to a question is not needed any more.
    Withdrawn {
        question: QuestionId,
        call: Key,
    },
    /// The server logged something.
    Log {
        level: Level,
        text: String,
    },
    /// For people, a sentence.
    Notice(String),
    /// The connection has to be ended, for this reason.
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
    /// A request, with the call or request of the shell that it is for.
    Request(RequestId, Option<Key>),
    /// A notification or a response: nothing is answered.
    Other,
}

/// What the server said of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// The version of the protocol.
    pub version: String,
    pub name: String,
    pub server_version: String,
    pub capabilities: Value,
    pub instructions: String,
}
