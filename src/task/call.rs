//! Requests of clients without a dialect. Dialects parse into these; the core performs them.

use crate::base::id::{ConfigId, ContextId, Seq, TaskId};
use crate::base::json;
use crate::base::secret::Secret;
use crate::task::access::Rights;
use crate::task::definitions::slash::Typed;
use crate::task::log::event::{Lifecycle, Profile, Protocol};
use crate::task::machine::job::Said;
use crate::task::machine::state::TaskState;
use crate::task::policy;
use crate::task::push::Wish;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Say(Say),
    Create(Create),
    /// The list of slash commands.
    Commands,
    Execute(Execute),
    /// The id of the live session, which is created if there is none.
    Session,
    /// Begins a new live session, or makes a task the live session.
    Renew {
        task: Option<TaskId>,
    },
    Get {
        task: TaskId,
        history: Option<usize>,
    },
    List(List),
    Cancel {
        task: TaskId,
    },
    /// Stops the turn that is under way; the task stays. Without a task: that of the live session.
    Abort {
        task: Option<TaskId>,
    },
    /// Takes the queued prompt of a turn back.
    Drop {
        task: TaskId,
        turn: u32,
    },
    /// Sets the approval mode or the model of the requests that follow.
    Tune {
        task: TaskId,
        mode: Option<policy::Mode>,
        model: Option<String>,
    },
    /// Runs a command of the user.
    Shell {
        task: TaskId,
        command: String,
    },
    /// Lists what was allowed with "always" in the task or for all, after these rules were taken back.
    Permissions {
        task: TaskId,
        revoke: Vec<policy::Rule>,
    },
    /// Follows a task; with `after` it continues at a position instead of starting with a snapshot.
    Subscribe {
        task: TaskId,
        after: Option<Seq>,
    },
    /// Follows a task no longer.
    Unsubscribe {
        task: TaskId,
    },
    /// Stored content that the log of the task names, from a byte offset on.
    Blob {
        task: TaskId,
        sha256: String,
        from: u64,
    },
    Metadata {
        task: TaskId,
    },
    AllMetadata,
    Push {
        task: TaskId,
        ask: Push,
    },
    /// What this server is.
    About,
    /// A line about each task.
    Briefs,
    /// The whole of a task is about to be taken elsewhere.
    Export {
        task: TaskId,
    },
    /// Deletes a task that nobody uses, with its log.
    Delete {
        task: TaskId,
    },
    /// Who is connected.
    Clients,
    /// Files of the task's workspace whose paths fit a query.
    Files {
        task: TaskId,
        query: String,
        limit: Option<usize>,
    },
    /// A client of a socket says who it is, before anything else.
    Introduce(Introduction),
    /// A socket opens a conversation: it is told what can be chosen there, and follows it.
    Open(Open),
    /// A page of the conversations that can be continued.
    Sessions {
        /// Only those of this workspace.
        workspace: Option<String>,
        after: Option<Mark>,
    },
    /// A socket takes its prompts in a task back: those that wait, and the turn that is under way.
    TakeBack {
        task: TaskId,
    },
    /// A socket closes a conversation, whose turn is stopped unless it is shared.
    Leave {
        task: TaskId,
    },
    /// A socket takes one of its requests back, which it names by the id that it gave it.
    Recall {
        id: Value,
    },
    /// The answer to a request of ours; without a result, that the client has none.
    Reply {
        id: Value,
        result: Option<Value>,
    },
    /// A ticket, with which a web page opens a WebSocket.
    Ticket(TicketWish),
    Health,
    /// Whether the server works at all.
    Live,
    /// Whether it should be sent requests.
    Ready,
    /// What it counts.
    Metrics,
    Card,
    ExtendedCard,
    /// Opens a WebSocket that follows tasks and sends calls.
    Join(Join),
}

impl Call {
    /// The task that it creates.
    pub fn creates(&self) -> Option<&Create> {
        match self {
            Call::Say(Say { task: None, create, .. }) | Call::Create(create) | Call::Open(Open::New(create)) => {
                Some(create)
            }
            Call::Execute(execute) => Some(&execute.create),
            _ => None,
        }
    }

    /// Its name in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Call::Say(_) => "say",
            Call::Create(_) => "create",
            Call::Commands => "commands",
            Call::Execute(_) => "execute",
            Call::Session | Call::Renew { .. } => "session",
            Call::Get { .. } => "get",
            Call::List(_) => "list",
            Call::Cancel { .. } => "cancel",
            Call::Abort { .. } => "abort",
            Call::Drop { .. } => "drop",
            Call::Permissions { .. } => "permissions",
            Call::Tune { .. } => "tune",
            Call::Shell { .. } => "shell",
            Call::Subscribe { .. } => "subscribe",
            Call::Unsubscribe { .. } => "unsubscribe",
            Call::Blob { .. } => "blob",
            Call::Metadata { .. } | Call::AllMetadata => "metadata",
            Call::Push { .. } => "push",
            Call::About => "about",
            Call::Briefs => "briefs",
            Call::Export { .. } => "export",
            Call::Delete { .. } => "delete",
            Call::Clients => "clients",
            Call::Files { .. } => "files",
            Call::Introduce(_) => "introduce",
            Call::Open(_) => "open",
            Call::Sessions { .. } => "sessions",
            Call::TakeBack { .. } => "take back",
            Call::Leave { .. } => "leave",
            Call::Recall { .. } => "recall",
            Call::Reply { .. } => "reply",
            Call::Ticket(_) => "ticket",
            Call::Health => "health",
            Call::Live => "live",
            Call::Ready => "ready",
            Call::Metrics => "metrics",
            Call::Card | Call::ExtendedCard => "card",
            Call::Join(_) => "join",
        }
    }
}

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    pub name: Option<String>,
}

/// Which conversation a socket opens.
#[derive(Clone, Debug, PartialEq)]
pub enum Open {
    New(Create),
    /// The live session.
    Live,
    /// This one, which it is shown from its beginning.
    Load(Known),
    /// This one, as it goes on.
    Resume(Known),
}

/// A conversation that exists, and what its client says about it anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub task: TaskId,
    /// The MCP servers that the client names again.
    pub servers: Option<Secret>,
    /// All directories beside the workspace that tools may use from now on.
    pub directories: Vec<String>,
}

/// What a ticket is to allow. What is absent is as its credential says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketWish {
    pub rights: Option<Rights>,
    pub task: Option<TaskId>,
    /// The origin of the page that asks.
    pub origin: Option<String>,
}

/// Webhooks of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Push {
    Set(Wish),
    /// Without an id: the only one, or the one whose id is that of the task.
    Get(Option<ConfigId>),
    List,
    Delete(ConfigId),
}

/// Which tasks to list, newest status first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    pub context: Option<ContextId>,
    pub state: Option<TaskState>,
    /// Unix milliseconds: only tasks whose status is from then or later.
    pub since: Option<u64>,
    /// The size of a page; 0 is the largest.
    pub size: usize,
    /// The end of the page before.
    pub after: Option<Mark>,
    /// Newest messages of each task; none by default.
    pub history: usize,
    pub artifacts: bool,
}

/// A position in a list: the last task before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub at: u64,
    pub task: TaskId,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub follow: Follow,
    /// The last position it has seen.
    pub after: Option<LogPosition>,
}

/// A position in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// None: the task that is followed.
    pub task: Option<TaskId>,
    pub seq: Seq,
}

/// What a socket follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Follow {
    Session,
    Task(TaskId),
    /// All tasks, also later ones.
    All,
    /// No task until it subscribes to one or a new live session begins; that one is followed.
    NextSession,
    /// No task, until it subscribes to one.
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Say {
    pub said: Said,
    pub task: Option<TaskId>,
    /// The task that is created if none is named. A context beside a named task has to be that of the task.
    pub create: Create,
    /// A webhook that is set before the turn starts.
    pub push: Option<Wish>,
    pub mode: Mode,
    /// How many of the newest history messages a snapshot may show; None is all of them.
    pub history: Option<usize>,
}

impl Say {
    /// A message for this task, or for a new one.
    pub fn new(said: Said, task: Option<TaskId>, create: Create, mode: Mode) -> Say {
        Say { said, task, create, push: None, mode, history: None }
    }

    /// The length of all but the texts and files of its message, about as it is in the log.
    pub fn bytes_beside_content(&self) -> usize {
        let said = json::len(&self.said) - self.said.message.inline_bytes();
        let task = self.task.as_ref().map_or(0, |task| task.as_str().len());
        let context = self.create.context.as_ref().map_or(0, |context| context.as_str().len());
        let push = self.push.as_ref().map_or(0, Wish::bytes);
        said + task + context + push + self.create.settings.bytes()
    }
}

/// Properties of a task that this request creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskTraits {
    pub lifecycle: Lifecycle,
    pub protocol: Protocol,
    pub profile: Profile,
}

impl TaskTraits {
    /// Of the live session, and of tasks of clients that speak no version of the protocol.
    pub const SESSION: TaskTraits =
        TaskTraits { lifecycle: Lifecycle::Conversational, protocol: Protocol::V03, profile: Profile::Coder };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answer when the turn is over or waits for an answer.
    Wait,
    /// Answer at once.
    Now,
    Stream,
}

/// What a new task is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    pub context: Option<ContextId>,
    pub settings: Settings,
    pub traits: TaskTraits,
}

/// A slash command to be run, as a task of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    pub typed: Typed,
    /// The task that it is about if no argument names one; without it, the live session.
    pub about: Option<TaskId>,
    pub create: Create,
    pub mode: Mode,
    /// What is said if there is no such command.
    pub otherwise: Option<Box<Say>>,
}

/// What a client may choose for a new task. Trust is not among it: only the operator decides about that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub workspace: Option<String>,
    /// Directories beside it that tools may use.
    pub directories: Vec<String>,
    pub model: Option<String>,
    /// No approvals; only if the operator allows clients to ask for it.
    pub auto_execute: Option<bool>,
    /// The only tools that may be used, of those that the operator allows.
    pub tools: Option<Vec<String>>,
    /// The MCP servers that it names, as JSON. May contain credentials, so it is never logged.
    pub servers: Option<Secret>,
    /// The key for the model API that the task is to use. It is never logged or stored.
    pub api_key: Option<Secret>,
    /// Through how many agents the request came.
    pub depth: u8,
}

impl Settings {
    /// The length of its texts.
    fn bytes(&self) -> usize {
        let texts =
            self.workspace.iter().chain(&self.model).chain(&self.directories).chain(self.tools.iter().flatten());
        let secrets = self.servers.iter().chain(&self.api_key);
        texts.map(String::len).chain(secrets.map(|secret| secret.reveal().len())).sum()
    }
}

/// How requests are handled where the protocols leave it open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestPolicy {
    pub new_tasks: NewTasks,
    /// How long a blocking call waits for the end of the turn; then it returns the task as it is. None: for ever.
    pub blocking_timeout_ms: Option<u64>,
    pub durability: Durability,
    pub disconnect: Disconnect,
    /// Clients may give a key for the model API with a new task.
    pub client_keys: bool,
}

/// How durable prompts and answers must be before they are acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// They survive the end of the process.
    #[default]
    Normal,
    /// They survive a power failure: they wait for fsync.
    Strict,
}

/// What happens to a turn whose client disconnects from its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disconnect {
    /// It continues; a client that reconnects sees its result.
    #[default]
    GoesOn,
    /// It is aborted, for clients of the coder profile, as by the reference server.
    Aborts,
}

/// Which task a prompt gets that names neither a task nor a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewTasks {
    /// A task of its own.
    #[default]
    Own,
    /// It joins the live session.
    Session,
}
