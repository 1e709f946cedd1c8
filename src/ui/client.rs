//! A client of the protocol `gemini-a2a.v1`: makes the frames of calls and reads the frames of the server. Calls whose answer was
//! lost with the connection are sent again if they are idempotent: prompts have a key, and only the first answer to a question counts.

use crate::base::id::{CallId, Seq, TaskId};
use crate::base::json;
use crate::limits::ui::CALLS_OPEN;
use crate::task::log::record::Record;
use crate::task::policy::Mode;
use crate::task::spec::{Answers, Choice};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A call of the server. It is returned with its answer, so it also says what the answer is for.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerCall {
    /// Asks for the facts of [`About`].
    About,
    /// Opens a session.
    Session(SessionChoice),
    Watch {
        task: TaskId,
        after: Option<Seq>,
    },
    Unwatch {
        task: TaskId,
    },
    Say {
        /// None: the live session, or a new task of a server without one.
        task: Option<TaskId>,
        text: String,
        key: String,
        steer: bool,
    },
    Answer {
        task: TaskId,
        call: CallId,
        choice: Choice,
        edited: Option<Arc<str>>,
        answers: Option<Answers>,
        seen: Option<Seq>,
    },
    Abort {
        task: TaskId,
    },
    Drop {
        task: TaskId,
        turn: u32,
    },
    Tune {
        task: TaskId,
        mode: Option<Mode>,
        model: Option<String>,
    },
    Shell {
        task: TaskId,
        command: String,
    },
    Execute {
        task: TaskId,
        text: String,
    },
    Files {
        task: TaskId,
        query: String,
        limit: usize,
    },
    Clients,
    Briefs,
    Export {
        task: TaskId,
    },
    Delete {
        task: TaskId,
    },
    /// Creates a task that is not the live session.
    Create,
    /// Asks for the task in the form of A2A.
    Get {
        task: TaskId,
    },
    Blob {
        task: TaskId,
        sha256: String,
        from: u64,
        purpose: BlobPurpose,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum SessionChoice {
    Current,
    New,
    Task(TaskId),
}

/// Why a blob is fetched.
#[derive(Clone, Debug, PartialEq)]
pub enum BlobPurpose {
    /// To print the whole output of a call.
    Output(CallId),
    /// To print the diff that a question is about.
    Question(CallId),
    /// To open the proposed file in the editor.
    Edit(CallId),
}

impl ServerCall {
    fn body(&self) -> Value {
        match self {
            ServerCall::About => json!({"about": {}}),
            ServerCall::Session(SessionChoice::Current) => json!({"session": {}}),
            ServerCall::Session(SessionChoice::New) => json!({"session": {"new": true}}),
            ServerCall::Session(SessionChoice::Task(task)) => json!({"session": {"task": task}}),
            ServerCall::Watch { task, after } => json!({"watch": {"task": task, "after": after}}),
            ServerCall::Unwatch { task } => json!({"unwatch": {"task": task}}),
            ServerCall::Say { task, text, key, steer } => {
                let mut say = json!({"text": text, "id": key, "steer": steer});
                if let Some(task) = task {
                    say["task"] = json!(task);
                }
                json!({ "say": say })
            }
            ServerCall::Answer { task, call, choice, edited, answers, seen } => {
                let mut answer = json!({"task": task, "call": call, "option": choice.word()});
                for (name, value) in [("edited", json!(edited)), ("answers", json!(answers)), ("seen", json!(seen))] {
                    if !value.is_null() {
                        answer[name] = value;
                    }
                }
                json!({ "answer": answer })
            }
            ServerCall::Abort { task } => json!({"abort": {"task": task}}),
            ServerCall::Drop { task, turn } => json!({"drop": {"task": task, "turn": turn}}),
            ServerCall::Tune { task, mode, model } => json!({"tune": {"task": task, "mode": mode, "model": model}}),
            ServerCall::Shell { task, command } => json!({"shell": {"task": task, "command": command}}),
            ServerCall::Execute { task, text } => json!({"execute": {"task": task, "text": text, "live": true}}),
            ServerCall::Files { task, query, limit } => {
                json!({"files": {"task": task, "query": query, "limit": limit}})
            }
            ServerCall::Clients => json!({"clients": {}}),
            ServerCall::Briefs => json!({"briefs": {}}),
            ServerCall::Export { task } => json!({"export": {"task": task}}),
            ServerCall::Delete { task } => json!({"delete": {"task": task}}),
            ServerCall::Create => json!({"create": {}}),
            ServerCall::Get { task } => json!({"get": {"task": task}}),
            ServerCall::Blob { task, sha256, from, .. } => {
                json!({"blob": {"task": task, "sha256": sha256, "from": from}})
            }
        }
    }

    /// Whether the call is sent again after a lost connection.
    fn is_resent(&self) -> bool {
        matches!(self, ServerCall::Say { .. } | ServerCall::Answer { .. } | ServerCall::Abort { .. })
    }
}

/// A frame of the server.
#[derive(Debug)]
pub enum Incoming {
    Record(TaskId, Record),
    /// An event that this version does not know.
    Unknown(TaskId, Seq),
    /// The answer to a call; or the reason and the message of its error.
    Reply(ServerCall, Result<Value, (String, String)>),
    Clients(Vec<ClientInfo>),
    Problem(String),
    Nothing,
}

/// Another client that is connected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClientInfo {
    pub client: String,
    pub via: String,
    pub task: Option<String>,
    /// Whether the client is sent events as they happen.
    pub live: bool,
    /// Unix milliseconds.
    pub since: u64,
}

/// The server's answer to `about`. Members that the server does not send stay empty.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct About {
    pub session: Option<TaskId>,
    pub workspace: String,
    pub mode: Option<Mode>,
    /// The model of new sessions; `models` are those that can be chosen.
    pub model: String,
    pub models: Vec<String>,
    /// The model's context window in tokens.
    pub window: u64,
    #[serde(rename = "compressTokens")]
    pub compress_tokens: u64,
    pub commands: Vec<CommandInfo>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CommandInfo {
    pub name: String,
    pub description: String,
    /// The names of required arguments.
    pub arguments: Vec<String>,
}

/// A task in the server's answer to `briefs`.
#[derive(Clone, Debug, Deserialize)]
pub struct TaskBrief {
    pub task: TaskId,
    #[serde(default)]
    pub state: String,
    /// Unix milliseconds of the last change.
    pub at: u64,
    #[serde(default)]
    pub title: String,
    /// The number of prompts.
    #[serde(default)]
    pub turns: usize,
    /// The number of questions that wait for an answer.
    #[serde(default)]
    pub waiting: usize,
    pub workspace: Option<String>,
    /// Whether it is a live session.
    #[serde(default)]
    pub live: bool,
    #[serde(default)]
    pub failed: bool,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    id: Option<u64>,
    ok: Option<Value>,
    error: Option<Failure>,
    task: Option<TaskId>,
    seq: Option<Seq>,
    at: Option<u64>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    clients: Option<Vec<ClientInfo>>,
    problem: Option<Failure>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Failure {
    reason: String,
    message: String,
}

#[derive(Debug, Default)]
pub struct Client {
    last_id: u64,
    pending: BTreeMap<u64, ServerCall>,
    connected: bool,
}

impl Client {
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Whether the answer to `about` has not come yet.
    pub fn is_about_open(&self) -> bool {
        !self.connected || self.pending.values().any(|call| matches!(call, ServerCall::About))
    }

    /// Whether the limit of unanswered calls is reached.
    pub fn is_full(&self) -> bool {
        self.pending.len() >= CALLS_OPEN
    }

    /// Registers a call and returns its frame. None without a connection: a call that is resent is then kept until there is one, any
    /// other call is dropped. A call beyond the limit is dropped, too.
    pub fn send(&mut self, call: ServerCall) -> Option<String> {
        if self.is_full() || (!call.is_resent() && !self.connected) {
            return None;
        }
        self.last_id += 1;
        let frame = frame(self.last_id, &call);
        self.pending.insert(self.last_id, call);
        self.connected.then_some(frame)
    }

    /// The connection is lost: drops the calls that are not resent.
    pub fn lose(&mut self) {
        self.connected = false;
        self.pending.retain(|_, call| call.is_resent());
    }

    /// There is a connection: returns the frames of the calls that are sent again.
    pub fn connect(&mut self) -> Vec<String> {
        self.connected = true;
        self.pending.iter().map(|(id, call)| frame(*id, call)).collect()
    }

    /// The texts of prompts that the server has not accepted yet.
    pub fn unsent_prompts(&self) -> Vec<String> {
        let text = |call: &ServerCall| match call {
            ServerCall::Say { text, .. } => Some(text.clone()),
            _ => None,
        };
        self.pending.values().filter_map(text).collect()
    }

    pub fn take(&mut self, frame: &str) -> Incoming {
        let Ok(envelope) = serde_json::from_str::<Envelope>(frame) else {
            return Incoming::Nothing;
        };
        if let (Some(task), Some(seq), Some(event)) = (envelope.task, envelope.seq, envelope.event) {
            return match serde_json::from_str(event.get()) {
                Ok(event) => Incoming::Record(task, Record { seq, at: envelope.at.unwrap_or_default(), event }),
                Err(_) => Incoming::Unknown(task, seq),
            };
        }
        if let Some(call) = envelope.id.and_then(|id| self.pending.remove(&id)) {
            let failed = envelope.error.map(|error| (error.reason, error.message));
            return Incoming::Reply(call, failed.map_or(Ok(envelope.ok.unwrap_or_default()), Err));
        }
        match (envelope.clients, envelope.problem) {
            (Some(clients), _) => Incoming::Clients(clients),
            (None, Some(problem)) => Incoming::Problem(problem.message),
            (None, None) => Incoming::Nothing,
        }
    }
}

fn frame(id: u64, call: &ServerCall) -> String {
    let bytes = json::bytes(&json!({"id": id, "call": call.body()}));
    String::from_utf8(bytes).expect("JSON is UTF-8")
}
