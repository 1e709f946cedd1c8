//! Requests of clients, independent of the dialect. The dialects parse requests into these types; the core executes them.

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
    /// Stops the current turn; the task continues to exist. Without a task: the turn of the live session.
    Abort {
        task: Option<TaskId>,
    },
    /// Takes the queued prompt of a turn back.
    Drop {
        task: TaskId,
        turn: u32,
    },
    /// Sets the approval mode, or the model for later requests.
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
    /// Revokes these rules, then lists what is allowed with "always", in the task and for all tasks.
    Permissions {
        task: TaskId,
        revoke: Vec<policy::Rule>,
    },
    /// Subscribes to a task; with `after` from a position on instead of starting with a snapshot.
    Subscribe {
        task: TaskId,
        after: Option<Seq>,
    },
    /// Ends the subscription to a task.
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
    /// Properties of this server.
    About,
    /// A summary of each task.
    Briefs,
    /// A client exports a whole task, which is recorded in the audit.
    Export {
        task: TaskId,
    },
    /// Deletes a task that nobody uses, with its log.
    Delete {
        task: TaskId,
    },
    /// The connected clients.
    Clients,
    /// Files of the task's workspace whose paths fit a query.
    Files {
        task: TaskId,
        query: String,
        limit: Option<usize>,
    },
    /// The first message of a WebSocket client, with its name.
    Introduce(Introduction),
    /// A WebSocket opens a conversation: it gets the available modes and models, and a subscription.
    Open(Open),
    /// A page of the conversations that can be continued.
    Sessions {
        /// Only those of this workspace.
        workspace: Option<String>,
        after: Option<ListCursor>,
    },
    /// A WebSocket withdraws its prompts in a task: the queued ones, and the one of the current turn.
    TakeBack {
        task: TaskId,
    },
    /// A WebSocket closes a conversation. Its turn is stopped unless other clients share the conversation.
    Leave {
        task: TaskId,
    },
    /// A WebSocket withdraws one of its own requests, by the id of that request.
    Recall {
        id: Value,
    },
    /// The response to a request that the server has sent to the client. Without a result, the client responded with an error.
    Reply {
        id: Value,
        result: Option<Value>,
    },
    /// A ticket, with which a web page opens a WebSocket.
    Ticket(TicketRequest),
    Health,
    /// Whether the server works at all.
    Live,
    /// Whether a load balancer should send requests to the server.
    Ready,
    /// The metrics of the server.
    Metrics,
    Card,
    ExtendedCard,
    /// Opens a WebSocket that subscribes to tasks and sends calls.
    Join(Join),
}

impl Call {
    /// The properties of the task that the call creates, if it creates one.
    pub fn creates(&self) -> Option<&Create> {
        match self {
            Call::Say(Say { task: None, create, .. }) | Call::Create(create) | Call::Open(Open::New(create)) => {
                Some(create)
            }
            Call::Execute(execute) => Some(&execute.create),
            _ => None,
        }
    }

    /// The approximate length of what remains of the call when its request is decoded, without the texts and files of a message. None:
    /// it may be as long as its request.
    pub fn bytes_beside_content(&self) -> Option<usize> {
        match self {
            Call::Say(say) => Some(say.bytes_beside_content()),
            Call::Get { task, .. }
            | Call::Cancel { task }
            | Call::Drop { task, .. }
            | Call::Subscribe { task, .. }
            | Call::Unsubscribe { task }
            | Call::Metadata { task }
            | Call::Export { task }
            | Call::Delete { task }
            | Call::TakeBack { task }
            | Call::Leave { task } => Some(task.as_str().len()),
            _ => None,
        }
    }

    /// The name of the call in the log.
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

/// Which conversation a WebSocket opens.
#[derive(Clone, Debug, PartialEq)]
pub enum Open {
    New(Create),
    /// The live session.
    Live,
    /// An existing conversation, which is sent to the client from its beginning.
    Load(KnownSession),
    /// An existing conversation, of which only new events are sent.
    Resume(KnownSession),
}

/// An existing conversation, and the settings that the client sends for it again.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownSession {
    pub task: TaskId,
    /// The MCP servers that the client names again.
    pub servers: Option<Secret>,
    /// All additional directories that tools may use from now on.
    pub directories: Vec<String>,
}

/// The requested restrictions of a ticket. For an absent one, that of the credential applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketRequest {
    pub rights: Option<Rights>,
    pub task: Option<TaskId>,
    /// The origin of the page that asks.
    pub origin: Option<String>,
}

/// An operation on the webhooks of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Push {
    Set(Wish),
    /// Without an id: the only webhook, or the one with the id of the task.
    Get(Option<ConfigId>),
    List,
    Delete(ConfigId),
}

/// Which tasks to list, newest status first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    pub context: Option<ContextId>,
    pub state: Option<TaskState>,
    /// Only tasks whose status is not older than this, in Unix milliseconds.
    pub since: Option<u64>,
    /// The size of a page; 0 is the largest.
    pub size: usize,
    /// The end of the page before.
    pub after: Option<ListCursor>,
    /// Newest messages of each task; none by default.
    pub history: usize,
    pub artifacts: bool,
}

/// A position in a list: the last task before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListCursor {
    pub at: u64,
    pub task: TaskId,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub follow: Follow,
    /// The last position that the client has received.
    pub after: Option<LogPosition>,
}

/// A position in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// None: the task that the WebSocket follows.
    pub task: Option<TaskId>,
    pub seq: Seq,
}

/// What a socket follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Follow {
    Session,
    Task(TaskId),
    /// All tasks, including later ones.
    All,
    /// No task until the client subscribes to one or a new live session begins, which is then followed.
    NextSession,
    /// No task until the client subscribes to one.
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

    /// The approximate length of the request in the log, without the texts and files of its message.
    pub fn bytes_beside_content(&self) -> usize {
        let said = json::len(&self.said) - self.said.message.inline_bytes();
        let task = self.task.as_ref().map_or(0, |task| task.as_str().len());
        let context = self.create.context.as_ref().map_or(0, |context| context.as_str().len());
        let push = self.push.as_ref().map_or(0, Wish::bytes);
        said + task + context + push + self.create.settings.bytes()
    }
}

/// Properties of a new task that follow from the dialect of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskTraits {
    pub lifecycle: Lifecycle,
    pub protocol: Protocol,
    pub profile: Profile,
}

impl TaskTraits {
    /// The properties of the live session, and of tasks of clients whose dialect is not a version of the protocol.
    pub const SESSION: TaskTraits =
        TaskTraits { lifecycle: Lifecycle::Conversational, protocol: Protocol::V03, profile: Profile::Coder };
}

/// When and how a request is responded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Respond when the turn has ended or waits for an answer.
    Wait,
    /// Respond immediately.
    Now,
    /// Respond with a stream of events.
    Stream,
}

/// The requested properties of a new task.
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    pub context: Option<ContextId>,
    pub settings: Settings,
    pub traits: TaskTraits,
}

/// A slash command, which is run as a task of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    pub typed: Typed,
    /// The task that the command is about if no argument names one. None: the live session.
    pub about: Option<TaskId>,
    pub create: Create,
    pub mode: Mode,
    /// The prompt that is sent if there is no such command.
    pub otherwise: Option<Box<Say>>,
}

/// The settings of a new task that a client may choose. Whether the workspace is trusted is not one of them: only the operator decides that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub workspace: Option<String>,
    /// Additional directories that tools may use.
    pub directories: Vec<String>,
    pub model: Option<String>,
    /// Tools run without approval, if the operator allows clients to request that.
    pub auto_execute: Option<bool>,
    /// If given, only these of the tools that the operator allows may be used.
    pub tools: Option<Vec<String>>,
    /// The MCP servers that the client names, as JSON. Never logged, because it may contain credentials.
    pub servers: Option<Secret>,
    /// The client's key for the model API. Never logged or stored.
    pub api_key: Option<Secret>,
    /// The number of agents through which the request came.
    pub depth: u8,
}

impl Settings {
    /// The length of all texts.
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
    /// How long a blocking call waits for the end of the turn. Then it returns the task in its present state. None: without limit.
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
    /// It is aborted, for clients of the coder profile, as the reference server does.
    Aborts,
}

/// Which task receives a prompt that names neither a task nor a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewTasks {
    /// A task of its own.
    #[default]
    Own,
    /// It joins the live session.
    Session,
}
