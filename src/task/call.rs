//! What a client may ask for, without a dialect. Dialects make these; the core performs them.

use crate::base::id::{ConfigId, ContextId, Seq, TaskId};
use crate::task::log::event::{Lifecycle, Profile, Protocol};
use crate::task::machine::job::Said;
use crate::task::machine::state::TaskState;
use crate::task::push::Wish;
use crate::task::slash::Typed;

#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Say(Say),
    Create(Create),
    /// Which slash commands there are.
    Commands,
    Execute(Execute),
    /// The id of the live session, which is made if there is none.
    Session,
    Get {
        task: TaskId,
        history: Option<usize>,
    },
    List(List),
    Cancel {
        task: TaskId,
    },
    /// Watch a task; `after` continues at a position instead of starting with a snapshot.
    Subscribe {
        task: TaskId,
        after: Option<Seq>,
    },
    /// Stored content that the log of the task names, from a byte on.
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
    Health,
    Card,
    ExtendedCard,
    /// A socket wants to follow a task and to be asked over: answered by switching protocols.
    Join(Join),
}

/// Webhooks of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Push {
    Set(Wish),
    /// Without an id: the only one, or the one that bears the task's id.
    Get(Option<ConfigId>),
    List,
    Delete(ConfigId),
}

/// Which tasks to show, newest status first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    pub context: Option<ContextId>,
    pub state: Option<TaskState>,
    /// Unix milliseconds: only tasks whose status is from then or later.
    pub since: Option<u64>,
    /// How many at most; 0 for as many as there may be on one page.
    pub size: usize,
    /// Where the page before ended.
    pub after: Option<Mark>,
    /// Newest messages of each task; none by default.
    pub history: usize,
    pub artifacts: bool,
}

/// A place in a list: the last task before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub at: u64,
    pub task: TaskId,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub follow: Follow,
    /// Where it was when it last looked.
    pub after: Option<LogPosition>,
}

/// A place in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// None: whichever task is followed.
    pub task: Option<TaskId>,
    pub seq: Seq,
}

/// What a socket follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Follow {
    Session,
    Task(TaskId),
    /// Every task there is and will be.
    All,
    /// Nothing but what it asks for itself.
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Say {
    pub said: Said,
    pub task: Option<TaskId>,
    pub context: Option<ContextId>,
    pub settings: Settings,
    /// A webhook that is in place before the agent begins.
    pub push: Option<Wish>,
    pub mode: Mode,
    /// How many of the newest history messages a snapshot may show; None is all of them.
    pub history: Option<usize>,
    pub traits: TaskTraits,
}

/// How a task is marked that this request creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskTraits {
    pub lifecycle: Lifecycle,
    pub protocol: Protocol,
    pub profile: Profile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answer when the turn is over or waits for somebody.
    Wait,
    /// Answer at once.
    Now,
    Stream,
}

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
    pub settings: Settings,
    pub mode: Mode,
    pub traits: TaskTraits,
}

/// What a client may wish for a new task. Trust is not among it: that is the operator's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub workspace: Option<String>,
    pub model: Option<String>,
    /// To be asked nothing: a wish that the operator must have granted.
    pub auto_execute: Option<bool>,
    /// The only tools to be used, of those that the operator has.
    pub tools: Option<Vec<String>>,
}

/// How requests are treated where the protocols leave it open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestPolicy {
    pub new_tasks: NewTasks,
    /// How long a waiting call waits for its turn before it is answered with the task as it stands. None: for ever.
    pub blocking_timeout_ms: Option<u64>,
    pub durability: Durability,
    pub disconnect: Disconnect,
}

/// How safe something said must be before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It survives the death of the process.
    #[default]
    Normal,
    /// It survives the death of the machine. Prompts and answers then wait for the disk.
    Strict,
}

/// What becomes of a turn whose client goes away while it streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disconnect {
    /// It goes on: whoever comes back finds what it has come to.
    #[default]
    GoesOn,
    /// It is aborted, for clients of the coder profile: the reference server does that.
    Aborts,
}

/// What becomes of a prompt that names neither a task nor a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewTasks {
    /// A task of its own.
    #[default]
    Own,
    /// It joins the live session.
    Session,
}
