//! What people see of a task. [`scene`] folds the records of a task; the terminal and the web console show the result.
//!
//! # The terminal
//!
//! [`app::Ui`] is a state machine without I/O and without a clock. The shell owns the terminal, the connection and the files:
//!
//! | the shell | does |
//! |---|---|
//! | at the start | makes a [`Setup`], then `Ui::new`; writes [`output::screen::START`] in raw mode (nothing in linear mode) |
//! | when something happens | calls `Ui::take` with an [`Input`] and performs the [`UiEffect`]s that it returns |
//! | when the terminal has taken all bytes, at the time of `Ui::due` | calls `take(Input::Tick)`, then `Ui::paint`, and writes the bytes |
//! | before an editor or a stop | writes `Ui::restore`; afterwards `Ui::resume`, then gives `Input::Edited` or `Input::Resumed` |
//! | at the end | writes `Ui::farewell`, then `Ui::restore`, and sets the saved modes of the terminal |
//!
//! The connection carries frames of `gemini-a2a.v1`, one JSON object each. Over the in-memory connection and over `attach` they are the
//! same. Of the server the terminal needs:
//!
//! | call | members | answer |
//! |---|---|---|
//! | `about` | | `{session, workspace, mode, model, models, window, compressTokens, commands: [{name, description, arguments}]}` |
//! | `session` | none, `new: true`, or `task` | the id of the live session, which is a new one, or this task from now on |
//! | `watch`, `unwatch` | `task`; `after` | `{taskId, after, seq}`, then its records; `seq` is the last one that there is |
//! | `say` | `task`, `text`, `id`, `steer` | `{taskId, accepted}` |
//! | `answer` | `task`, `call`, `option`; `edited`, `answers`, `seen` | the same; the error `TOOL_CALL_NOT_PENDING` if somebody was faster |
//! | `abort`, `drop` | `task`; `turn` | the same |
//! | `tune` | `task`; `mode`, `model` | anything; the mode or the model is the one from now on |
//! | `shell` | `task`, `command` | anything; the command is shown by its events |
//! | `execute` | `task`, `text` | `{text}`, shown as markdown; without a text, the task `taskId` is shown until it is over |
//! | `files` | `task`, `query`, `limit` | `{paths: […], total}` |
//! | `clients` | | `{clients: [{client, via, task, since}]}`, then frames `{"clients": […]}` when they change |
//! | `briefs` | | `{tasks: [{task, title, at, turns, state, workspace, live, failed}]}`, newest first |
//! | `delete` | `task` | anything; the task is gone |
//! | `blob` | `task`, `sha256`, `from` | `{data, len}` |
//!
//! A call that the server does not know is answered with an error, and the terminal does without it. After a lost connection
//! (`Input::Lost`, then `Input::Connected`) prompts, answers and stops are sent again; the log is continued behind the last record.

pub mod client;
pub mod dialogs;
pub mod format;
pub mod input;
pub mod output;
pub mod scene;

#[cfg(feature = "tui")]
mod actions;
#[cfg(feature = "tui")]
pub mod app;
#[cfg(feature = "tui")]
mod commands;
#[cfg(feature = "tui")]
mod replies;
#[cfg(feature = "tui")]
pub mod tally;

#[cfg(feature = "tui")]
use crate::base::id::TaskId;
use crate::base::text::words::words;

/// What the terminal knows from the start.
#[cfg(feature = "tui")]
pub struct Setup {
    /// This client in the log, the workspace, the user's home.
    pub viewer: output::block::Viewer,
    pub version: String,
    /// The address that others can connect to, if there is one.
    pub url: Option<String>,
    /// The server that an attached terminal is connected to, for messages.
    pub server: String,
    pub branch: String,
    /// A task to show instead of the live session.
    pub task: Option<TaskId>,
    /// Which session is the live one from the start, if no task is shown.
    pub begin: client::SessionChoice,
    /// Prompts of earlier, oldest first, and a draft that was not sent.
    pub history: Vec<String>,
    pub draft: String,
    /// A prompt to begin with.
    pub prompt: Option<String>,
    /// Asked before anything else. The connection is made after the answer.
    pub trust: Option<TrustQuestion>,
    /// What `/trust` asks; None if the folder is on another machine.
    pub folder: Option<TrustQuestion>,
    /// The server runs without this terminal: of its log only the newest rows are printed at first.
    pub attached: bool,
    pub thoughts: Thoughts,
    pub style: format::style::Style,
    pub notify: Notify,
    /// The name of the editor, and of the terminal program (`TERM_PROGRAM`).
    pub editor: String,
    pub terminal: String,
    pub inside_tmux: bool,
    /// Words instead of a painted screen; input comes as lines.
    pub linear: bool,
    pub debug: bool,
    /// Random: the keys of prompts begin with it.
    pub nonce: String,
}

#[cfg(feature = "tui")]
impl Setup {
    /// A terminal in the live session, with nothing of before and nothing special.
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

/// What happened.
#[cfg(feature = "tui")]
#[derive(Debug)]
pub enum Input<'a> {
    /// The terminal sent bytes.
    Bytes(&'a [u8]),
    /// In linear mode: a line was typed.
    Line(&'a str),
    Resized(output::paint::Size),
    /// The server sent a frame.
    Frame(&'a str),
    Connected,
    /// The connection is gone and is tried again at this time of the monotonic clock.
    Lost {
        retry_at: u64,
    },
    /// The editor was left: what was written, or why it failed.
    Edited(Result<String, String>),
    /// The terminal is ours again after a stop; with a notice if it was never stopped.
    Resumed(Option<String>),
    /// A line of the log.
    Log(&'a str),
    Tick,
}

/// What is to be done.
#[cfg(feature = "tui")]
#[derive(Clone, Debug, PartialEq)]
pub enum UiEffect {
    /// Send a frame to the server.
    Send(String),
    /// Store a prompt in the history of the workspace.
    Remember(String),
    /// Store the draft, so that a crash does not lose it; an empty one removes it.
    KeepDraft(String),
    /// Open the editor on this text in a file of this name.
    Edit {
        text: String,
        name: String,
    },
    /// Stop the process group, as Ctrl-Z does.
    Suspend,
    /// The folder is trusted or not; then connect, unless that was done.
    Trust(TrustChoice),
    Quit,
}

/// An unknown folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustQuestion {
    pub folder: String,
    /// The folder above it, if that can be trusted too.
    pub parent: Option<String>,
    /// What trust would let count, a line each.
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
    /// The setting `ui.thoughts`: what is shown of the agent's thoughts.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Thoughts {
        /// The subject of the newest one, while the agent thinks.
        #[default]
        Subject = "subject",
        /// All of them are printed.
        Full = "full",
        Off = "off",
    }
}

words! {
    /// The setting `ui.notify`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Notify {
        #[default]
        Auto = "auto",
        Bell = "bell",
        Off = "off",
    }
}
