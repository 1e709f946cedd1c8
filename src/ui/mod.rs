//! User interfaces of a task. [`scene`] folds the records of a task into what people see; the terminal and the web console show that.
//!
//! # The terminal
//!
//! [`app::Ui`] is a state machine without I/O and without a clock. The shell owns the terminal, the connection and the files:
//!
//! | the shell | does |
//! |---|---|
//! | at the start | makes a [`Setup`] and calls `Ui::new`; writes [`output::screen::START`] in raw mode (nothing in linear mode) |
//! | on an event | calls `Ui::take` with an [`Input`] and performs the [`UiEffect`]s that it returns |
//! | at the time of `Ui::due`, once all bytes of the last frame are written | calls `take(Input::Tick)`, then `Ui::paint`, and writes the bytes |
//! | around an editor or a stop (Ctrl-Z) | writes `Ui::restore` before it and `Ui::resume` after it, then passes `Input::Edited` or `Input::Resumed` |
//! | at the end | writes `Ui::farewell`, then `Ui::restore`, and sets the saved modes of the terminal |
//!
//! The connection carries frames of `gemini-a2a.v1`, one JSON object each, the same for a server in this process and for an
//! attached terminal. These calls of the server are used:
//!
//! | call | members | answer |
//! |---|---|---|
//! | `about` | | `{session, workspace, mode, model, models, window, compressTokens, commands: [{name, description, arguments}]}` |
//! | `session` | none, `new: true`, or `task` | the id of the live session; with members, after a new task or `task` became it |
//! | `watch`, `unwatch` | `task`; `after` | `{taskId, after, seq}`, then the records of the task; `seq` is its last record at that time |
//! | `say` | `task`, `text`, `id`, `steer` | `{taskId, accepted}` |
//! | `answer` | `task`, `call`, `option`; `edited`, `answers`, `seen` | the same; `TOOL_CALL_NOT_PENDING` if another client answered first |
//! | `abort`, `drop` | `task`; `turn` | the same |
//! | `tune` | `task`; `mode`, `model` | anything; the task has this mode or model from the next request on |
//! | `shell` | `task`, `command` | anything; the command is shown by its events |
//! | `execute` | `task`, `text` | `{text}`, shown as markdown; or `{taskId}`: this task is shown until it is over |
//! | `files` | `task`, `query`, `limit` | `{paths: […], total}` |
//! | `clients` | | `{clients: [{client, via, task, since}]}`, then frames `{"clients": […]}` when they change |
//! | `briefs` | | `{tasks: [{task, title, at, turns, state, workspace, live, failed}]}`, newest first |
//! | `delete` | `task` | anything; the task is deleted |
//! | `blob` | `task`, `sha256`, `from` | `{data, len}` |
//!
//! A server answers a call that it does not know with an error, and the terminal works without the answer. After a lost connection
//! (`Input::Lost`, then `Input::Connected`) prompts, answers and stops are sent again, and the records after the last known one are
//! read.

pub mod client;
pub mod scene;

#[cfg(feature = "tui")]
mod actions;
#[cfg(feature = "tui")]
pub mod app;
#[cfg(feature = "tui")]
mod commands;
#[cfg(feature = "tui")]
pub mod dialogs;
#[cfg(feature = "tui")]
pub mod format;
#[cfg(feature = "tui")]
pub mod input;
#[cfg(feature = "tui")]
pub mod output;
#[cfg(feature = "tui")]
mod replies;
#[cfg(feature = "tui")]
pub mod tally;

#[cfg(feature = "tui")]
use crate::base::id::TaskId;
use crate::base::text::words::words;

/// The configuration of a terminal, known before the first input.
#[cfg(feature = "tui")]
pub struct Setup {
    /// Who the user is and where the user works.
    pub viewer: output::block::Viewer,
    pub version: String,
    /// The address at which other clients can connect to the server of this process, if it listens.
    pub url: Option<String>,
    /// The server that an attached terminal is connected to, for messages.
    pub server: String,
    pub branch: String,
    /// A task to show instead of the live session.
    pub task: Option<TaskId>,
    /// The session to open, unless `task` is shown.
    pub begin: client::SessionChoice,
    /// Earlier prompts, oldest first, and the draft that was not sent.
    pub history: Vec<String>,
    pub draft: String,
    /// A prompt that is sent as soon as there is a session.
    pub prompt: Option<String>,
    /// Asked before the connection is made.
    pub trust: Option<TrustQuestion>,
    /// The question of `/trust`; None if the folder is on another machine.
    pub folder: Option<TrustQuestion>,
    /// The server also runs without this terminal, so only the newest rows of its log are printed at first.
    pub attached: bool,
    pub thoughts: Thoughts,
    pub style: format::style::Style,
    pub notify: Notify,
    /// The name of the user's editor. `terminal` is the name of the terminal program (`TERM_PROGRAM`).
    pub editor: String,
    pub terminal: String,
    pub inside_tmux: bool,
    /// Linear mode: lines are appended instead of painting a screen, and input comes as lines.
    pub linear: bool,
    pub debug: bool,
    /// A random string. The idempotency keys of prompts begin with it.
    pub nonce: String,
}

#[cfg(feature = "tui")]
impl Setup {
    /// A terminal that shows the live session, without history, draft and trust question.
    pub fn new(viewer: output::block::Viewer, style: format::style::Style) -> Setup {
        Setup {
            viewer,
            version: env!("CARGO_PKG_VERSION").into(),
            url: None,
            server: String::new(),
            branch: String::new(),
            task: None,
            begin: client::SessionChoice::Current,
            history: Vec::new(),
            draft: String::new(),
            prompt: None,
            trust: None,
            folder: None,
            attached: false,
            thoughts: Thoughts::default(),
            style,
            notify: Notify::default(),
            editor: String::new(),
            terminal: String::new(),
            inside_tmux: false,
            linear: false,
            debug: false,
            nonce: String::new(),
        }
    }
}

/// An event that the shell reports to the terminal's state machine.
#[cfg(feature = "tui")]
#[derive(Debug)]
pub enum Input<'a> {
    /// The terminal sent bytes.
    Bytes(&'a [u8]),
    /// The user typed a line, in linear mode.
    Line(&'a str),
    Resized(output::paint::Size),
    /// The server sent a frame.
    Frame(&'a str),
    Connected,
    /// The connection is lost; the next attempt is made at this time of the monotonic clock.
    Lost {
        retry_at: u64,
    },
    /// The editor has ended, with the text or with the reason why there is none.
    Edited(Result<String, String>),
    /// The process continues after a stop. The notice says why it was not stopped, if it was not.
    Resumed(Option<String>),
    /// A line of the log.
    Log(&'a str),
    Tick,
}

/// What the shell does for the terminal's state machine.
#[cfg(feature = "tui")]
#[derive(Clone, Debug, PartialEq)]
pub enum UiEffect {
    /// Send a frame to the server.
    Send(String),
    /// Store a prompt in the history of the workspace.
    Remember(String),
    /// Store the draft, so that a crash does not lose it. An empty draft removes the stored one.
    KeepDraft(String),
    /// Open the editor on this text in a file of this name.
    Edit {
        text: String,
        name: String,
    },
    /// Stop the process group, as Ctrl-Z does in other programs.
    Suspend,
    /// Store whether the folder is trusted; then connect, unless there is a connection.
    Trust(TrustChoice),
    Quit,
}

/// The question whether a folder is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustQuestion {
    pub folder: String,
    /// The parent folder, if it can be trusted instead.
    pub parent: Option<String>,
    /// The files that are used only in a trusted folder, one line for each.
    pub found: Vec<String>,
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TrustChoice {
        Folder = "folder",
        Parent = "parent",
        Nothing = "nothing",
    }
}

words! {
/// The setting `ui.thoughts`: how much of the model's thoughts is shown.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Thoughts {
/// The subject of the newest thought, while the model thinks.
        #[default]
        Subject = "subject",
/// All thoughts are printed.
        Full = "full",
        Off = "off",
    }
}

words! {
/// The setting `ui.notify`: how the user is told of questions and ended turns while looking elsewhere.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Notify {
        #[default]
        Auto = "auto",
        Bell = "bell",
        Off = "off",
    }
}
