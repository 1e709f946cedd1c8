//! The terminal's state machine. Its inputs are keys, frames of the server and times; its outputs are [`UiEffect`]s and painted
//! frames. It has no clock and does no I/O: the shell passes it every [`Input`] and performs the effects that it returns.

use crate::base::clock::Now;
use crate::base::id::{CallId, Seq, TaskId};
use crate::limits::ui::{FILES_REQUESTED, FRAME_MS, PROSE_COLUMNS, SPINNER_MS, TOAST_MS};
use crate::task::form::ReplyAction;
use crate::task::log::event::{Event, hooks};
use crate::task::log::record::Record;
use crate::ui::client::{About, Client, ClientInfo, Incoming, ServerCall};
use crate::ui::dialogs::dialog::Dialog;
use crate::ui::format::style::Role;
use crate::ui::format::wrap::Line;
use crate::ui::input::bind::{self, Action, action};
use crate::ui::input::composer::Composer;
use crate::ui::input::keys::{Decoder, Reply, TerminalInput};
use crate::ui::output::block;
use crate::ui::output::linear::Linear;
use crate::ui::output::paint::{Painter, Size};
use crate::ui::output::print_queue::BlockKind;
use crate::ui::output::transcript::Transcript;
use crate::ui::scene::{Phase, Stage};
use crate::ui::{Input, Setup, UiEffect};

pub struct Ui {
    pub(super) setup: Setup,
    pub(super) client: Client,
    pub(super) transcript: Transcript,
    pub(super) composer: Composer,
    pub(super) dialog: Option<OpenDialog>,
    pub(super) about: About,
    pub(super) clients: Vec<ClientInfo>,
    pub(super) painter: Painter,
    pub(super) linear: Option<Linear>,
    pub(super) size: Size,
    pub(super) toast: Option<(String, u64)>,
    pub(super) task: Option<TaskId>,
    /// The session that the task on the screen belongs to, while that task is a slash command's.
    pub(super) parent_session: Option<(TaskId, Transcript)>,
    /// The last record that the task had when it was first watched. What earlier records print is held back until this record has come.
    pub(super) history_end: Option<Seq>,
    /// When the next attempt to connect is made, while there is no connection.
    pub(super) retry_at: Option<u64>,
    /// Sequences that show nothing and are sent with the next frame: a bell, a notification, text for the clipboard.
    pub(super) control_sequences: String,
    pub(super) redraw: bool,
    /// Something changed since the last frame.
    pub(super) dirty: bool,
    pub(super) painted_at: u64,
    pub(super) notified_at: Option<u64>,
    pub(super) focus: Option<bool>,
    pub(super) effects: Vec<UiEffect>,
    /// The pieces of a blob that is being fetched.
    pub(super) blob_bytes: Vec<u8>,
    pub(super) banner_printed: bool,
    /// Other clients use the server, too, so this terminal does not replace its live session.
    pub(super) is_attached: bool,
    pub(super) keyboard: Keyboard,
    decoder: Decoder,
    pub(super) typing: Typing,
    pub(super) editing: Option<Editing>,
}

/// The times and the meaning of the last keys.
#[derive(Default)]
pub(super) struct Typing {
    pub key_at: Option<u64>,
    pub escape_at: Option<u64>,
    pub quit_at: Option<u64>,
    /// The last key was Ctrl-X, the first one of Ctrl-X Ctrl-E.
    pub prefix: bool,
    /// The last key allowed a call, so the next question may take the focus at once.
    pub allowed_last: bool,
    /// How many prompts were sent; numbers their idempotency keys.
    pub prompts_sent: u64,
}

/// A dialog on the screen.
pub struct OpenDialog {
    pub dialog: Dialog,
    /// Whether keys go to the dialog. They count only after it was on the screen for a while.
    pub focused: bool,
    pub since: u64,
    pub painted: Option<u64>,
    /// What is chosen in its list; None for questions of calls.
    pub purpose: Option<PickerPurpose>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickerPurpose {
    Trust,
    Session,
    Model,
    Yolo,
}

/// The keyboard protocol that was turned on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyboard {
    Legacy,
    Kitty,
    Xterm,
}

/// What the editor was opened for.
pub(super) enum Editing {
    Draft,
    Proposal(CallId),
}

impl Ui {
    pub fn new(mut setup: Setup, size: Size, now: Now) -> Ui {
        let composer = Composer::new(std::mem::take(&mut setup.history), &std::mem::take(&mut setup.draft));
        let mut ui = Ui {
            client: Client::default(),
            transcript: Transcript::new(setup.viewer.clone(), setup.thoughts),
            composer,
            dialog: None,
            about: About::default(),
            clients: Vec::new(),
            painter: Painter::new(setup.style.clone()),
            linear: setup.linear.then(Linear::default),
            size,
            toast: None,
            task: setup.task.clone(),
            parent_session: None,
            history_end: None,
            retry_at: None,
            control_sequences: String::new(),
            redraw: false,
            dirty: true,
            painted_at: 0,
            notified_at: None,
            focus: None,
            effects: Vec::new(),
            blob_bytes: Vec::new(),
            banner_printed: false,
            is_attached: setup.attached,
            keyboard: Keyboard::Legacy,
            decoder: Decoder::default(),
            typing: Typing::default(),
            editing: None,
            setup,
        };
        ui.composer.commands = ui.commands();
        if let Some(trust) = ui.setup.trust.take() {
            ui.open(trust.dialog("number or ↑↓ and Enter · Esc quits"), Some(PickerPurpose::Trust), now);
        }
        ui
    }

    /// Applies an input and returns the effects that the shell performs.
    pub fn take(&mut self, input: Input, now: Now) -> Vec<UiEffect> {
        match input {
            Input::Bytes(bytes) => {
                for input in self.decoder.feed(bytes, now.mono_ms) {
                    self.key_input(input, now);
                }
            }
            Input::Line(text) => self.line(text, now),
            Input::Resized(size) => self.size = size,
            Input::Frame(frame) => self.frame(frame, now),
            Input::Connected => self.connected(now),
            Input::Lost { retry_at } => self.lost(retry_at, now),
            Input::Edited(result) => self.edited(result, now),
            Input::Resumed(notice) => {
                self.painter.reset();
                if let Some(notice) = notice {
                    self.toast(notice, now);
                }
            }
            Input::Log(line) if self.setup.debug => {
                self.transcript.print(BlockKind::Tool, vec![Line::new(Role::Muted, line)])
            }
            Input::Log(_) => {}
            Input::Tick => {
                for input in self.decoder.tick(now.mono_ms) {
                    self.key_input(input, now);
                }
                if self.toast.as_ref().is_some_and(|(_, until)| *until <= now.mono_ms) {
                    self.toast = None;
                }
                if let Some(linear) = &mut self.linear {
                    linear.tick(&self.transcript, now);
                }
            }
        }
        self.dirty = true;
        self.follow_questions(now);
        if self.is_tiny() {
            self.leave_hidden_question();
        }
        if let (Some(query), Some(task)) = (self.composer.file_query.take(), self.task.clone()) {
            self.call(ServerCall::Files { task, query, limit: FILES_REQUESTED });
        }
        std::mem::take(&mut self.effects)
    }

    /// When the next tick or frame is due, in milliseconds of the monotonic clock. None: not before the next input.
    pub fn due(&self, now: Now) -> Option<u64> {
        let frame = self.painted_at + FRAME_MS;
        let next = |ms: u64| self.painted_at + ms;
        let linear = self.linear.as_ref().map(|linear| linear.due(&self.transcript));
        [
            self.decoder.due(),
            self.toast.as_ref().map(|(_, until)| *until),
            (self.dirty || self.transcript.print_queue.is_waiting()).then_some(frame),
            self.is_busy().then(|| next(SPINNER_MS)).filter(|_| linear.is_none()),
            self.dialog.as_ref().filter(|open| !open.focused).map(|_| next(1_000)).filter(|_| linear.is_none()),
            self.retry_at.filter(|_| linear.is_none()).map(|_| next(SPINNER_MS)),
            linear.flatten(),
        ]
        .into_iter()
        .flatten()
        .min()
        .map(|due| due.max(now.mono_ms))
    }

    /// Whether more frames of the server are to be read: not while the terminal is slow and many lines wait to be printed.
    pub fn has_room(&self) -> bool {
        self.transcript.print_queue.has_room()
    }

    /// Whether a turn is under way and does not wait for the user, or a command of the user runs.
    pub(super) fn is_busy(&self) -> bool {
        let scene = &self.transcript.scene;
        let runs = scene.calls.values().any(|call| call.stage == Stage::Running);
        scene.runs_shell() || self.has_turn() && (runs || scene.asked.is_empty())
    }

    /// Whether a turn is under way, also while it waits for the user: it can be stopped and steered.
    pub(super) fn has_turn(&self) -> bool {
        !matches!(self.transcript.scene.phase, Phase::Idle | Phase::Closed | Phase::Interrupted)
    }

    /// Whether Esc has something to stop.
    pub(super) fn can_stop(&self) -> bool {
        self.has_turn() || self.transcript.scene.runs_shell()
    }

    pub(super) fn columns(&self) -> usize {
        self.size.columns.saturating_sub(1).clamp(1, PROSE_COLUMNS)
    }

    pub(super) fn toast(&mut self, text: impl Into<String>, now: Now) {
        let text = text.into();
        match &mut self.linear {
            Some(linear) => linear.message(&text, now.mono_ms),
            None => self.toast = Some((text, now.mono_ms + TOAST_MS)),
        }
    }

    pub(super) fn print(&mut self, lines: Vec<Line>) {
        if let Some(linear) = &mut self.linear {
            linear.lines(&lines);
        }
        self.transcript.print(BlockKind::Other, lines);
    }

    pub(super) fn call(&mut self, call: ServerCall) {
        if let Some(frame) = self.client.send(call) {
            self.effects.push(UiEffect::Send(frame));
        }
    }

    pub(super) fn open(&mut self, dialog: Dialog, purpose: Option<PickerPurpose>, now: Now) {
        if let Some(linear) = &mut self.linear {
            linear.picker(&dialog);
        }
        self.dialog = Some(OpenDialog { dialog, focused: true, since: now.mono_ms, painted: None, purpose });
    }

    /// Takes the focus from a question that is not shown.
    fn leave_hidden_question(&mut self) {
        if let Some(open) = self.dialog.as_mut().filter(|open| open.purpose.is_none() && open.focused) {
            (open.focused, open.painted) = (self.linear.is_some(), None);
        }
    }

    fn key_input(&mut self, input: TerminalInput, now: Now) {
        match input {
            TerminalInput::Focus(focus) => self.focus = Some(focus),
            TerminalInput::Reply(reply) => self.reply(reply),
            TerminalInput::Junk => {}
            TerminalInput::PasteCut => self.toast("The paste was longer than 4 MiB; the rest of it is missing", now),
            TerminalInput::Key(_) | TerminalInput::Text(_) | TerminalInput::Paste(_) => {
                let action = match &input {
                    TerminalInput::Key(key) => action(*key),
                    _ => None,
                };
                self.typing.allowed_last = false;
                let is_focused = self.dialog.as_ref().is_some_and(|open| open.focused);
                match action {
                    Some(Action::Interrupt) => self.interrupt(now),
                    Some(Action::Redraw) => self.redraw = true,
                    Some(Action::Suspend) => self.suspend(now),
                    _ if is_focused => self.dialog_key(&input, now),
                    Some(action) => self.perform(action, now),
                    None => self.write(input),
                }
                self.typing.key_at = Some(now.mono_ms);
            }
        }
    }

    fn write(&mut self, input: TerminalInput) {
        self.typing.prefix = false;
        match input {
            TerminalInput::Text(text)
                if text == "?" && self.composer.draft.is_empty() && !self.composer.is_searching() =>
            {
                let max_width = self.size.columns.saturating_sub(2).min(68);
                self.print(bind::help(max_width).iter().map(|row| Line::new(Role::Muted, row)).collect());
            }
            TerminalInput::Text(text) => self.composer.type_text(&text),
            TerminalInput::Paste(text) => self.composer.paste(&text),
            _ => {}
        }
        self.keep_draft();
    }

    pub(super) fn keep_draft(&mut self) {
        self.effects.push(UiEffect::KeepDraft(self.composer.draft.content()));
    }

    /// Applies a reply of the terminal to one of the queries in `START`.
    fn reply(&mut self, reply: Reply) {
        match reply {
            Reply::Kitty if self.keyboard == Keyboard::Legacy => {
                self.keyboard = Keyboard::Kitty;
                self.decoder.escapes_are_sequences = true;
                self.control_sequences.push_str("\x1b[>1u");
            }
            Reply::Attributes if self.keyboard == Keyboard::Legacy => {
                if ["xterm", "tmux", "mintty"].iter().any(|name| self.setup.terminal.to_lowercase().starts_with(name)) {
                    self.keyboard = Keyboard::Xterm;
                    self.control_sequences.push_str("\x1b[>4;2m");
                }
            }
            Reply::Version(name) => self.setup.terminal = name,
            Reply::Background(colour) => {
                // tmux reports white when it does not know the background.
                if !(self.setup.inside_tmux && colour == [255; 3]) {
                    self.painter.style.learn_background(colour);
                    self.painter.repaint();
                }
            }
            Reply::Kitty | Reply::Attributes | Reply::Synchronised(_) | Reply::Position => {}
        }
    }

    fn lost(&mut self, retry_at: u64, now: Now) {
        self.client.lose();
        let before = self.retry_at.replace(retry_at);
        if let (Some(linear), None) = (&mut self.linear, before) {
            let text = format!("Lost {}. It is tried again; what you type is kept.", self.setup.server);
            linear.message(&text, now.mono_ms);
        }
    }

    fn connected(&mut self, now: Now) {
        let again = self.retry_at.take().is_some();
        if let Some(linear) = self.linear.as_mut().filter(|_| again) {
            linear.message("Connected again.", now.mono_ms);
        }
        for frame in self.client.connect() {
            self.effects.push(UiEffect::Send(frame));
        }
        self.call(ServerCall::About);
        self.call(ServerCall::Clients);
        match self.task.clone() {
            Some(task) => self.watch(task, Some(self.transcript.scene.seq).filter(|_| again)),
            None => self.call(ServerCall::Session(self.setup.begin.clone())),
        }
    }

    pub(super) fn watch(&mut self, task: TaskId, after: Option<Seq>) {
        self.task = Some(task.clone());
        self.call(ServerCall::Watch { task, after });
    }

    /// A frame of the server.
    fn frame(&mut self, frame: &str, now: Now) {
        match self.client.take(frame) {
            Incoming::Record(task, record) => {
                let created = matches!(record.event, Event::Created(_));
                if Some(&task) != self.task.as_ref() {
                    // Of the tasks that this terminal does not watch, only a new session is shown.
                    if !created || self.task.is_none() || self.setup.task.is_some() || self.parent_session.is_some() {
                        return;
                    }
                    self.show_task(task);
                }
                // Records of a task that was unwatched may still come, and after a lost connection some records come twice.
                let scene = &self.transcript.scene;
                if scene.task.is_none() != created || (!created && record.seq <= scene.seq) {
                    return;
                }
                self.print_banner();
                self.record(&record, now);
            }
            Incoming::Unknown(task, seq) if Some(&task) == self.task.as_ref() => {
                self.transcript.scene.seq = seq;
                self.release_history();
            }
            Incoming::Reply(call, reply) => self.handle_reply(call, reply, now),
            Incoming::Clients(clients) => self.clients = clients,
            Incoming::Problem(message) => self.toast(message, now),
            Incoming::Unknown(..) | Incoming::Nothing => {}
        }
    }

    /// Shows another task instead of the present one.
    pub(super) fn show_task(&mut self, task: TaskId) {
        self.transcript = self.transcript.successor();
        self.transcript.print_queue.release();
        self.history_end = None;
        self.task = Some(task);
        self.dialog = None;
    }

    /// Shows the task of a slash command until it is over.
    pub(super) fn show_command(&mut self, task: TaskId) {
        if let (Some(session), None) = (self.task.clone(), &self.parent_session) {
            let next = self.transcript.successor();
            self.parent_session = Some((session, std::mem::replace(&mut self.transcript, next)));
            self.dialog = None;
            self.watch(task, None);
        }
    }

    fn leave_command(&mut self) {
        if let (Some((session, mut transcript)), Some(task)) = (self.parent_session.take(), self.task.clone()) {
            transcript.print_queue = std::mem::take(&mut self.transcript.print_queue);
            self.transcript = transcript;
            self.call(ServerCall::Unwatch { task });
            self.watch(session, Some(self.transcript.scene.seq));
        }
    }

    fn record(&mut self, record: &Record, now: Now) {
        let columns = self.columns();
        self.transcript.apply(record, columns);
        self.release_history();
        if let Some(linear) = &mut self.linear {
            linear.apply(record, &self.transcript, now.mono_ms);
        }
        match &record.event {
            Event::Created(created) => self.transcript.viewer.workspace = created.workspace.clone(),
            Event::TurnEnded { .. } => self.turn_ended(record.at, now),
            Event::CallAnswered { call, by, .. }
            | Event::CallReplied { call, by, action: ReplyAction::Accept | ReplyAction::Decline, .. } => {
                let mine = self.transcript.viewer.is_me(by);
                let shown = self.dialog.as_ref().is_some_and(|open| open.dialog.call() == Some(call));
                if !mine && shown {
                    let name = tool_of(&self.transcript, call);
                    let text = format!("{} answered: {name}", self.transcript.viewer.who(by));
                    self.toast(text, now);
                }
            }
            Event::Closed { .. } => self.leave_command(),
            // The context window depends on the model.
            Event::Tuned { model: Some(_), .. } if self.history_end.is_none() => self.call(ServerCall::About),
            Event::Traced { .. } | Event::Paused | Event::ResultsSent | hooks!() if self.setup.debug => {
                let event = serde_json::to_string(&record.event).unwrap_or_default();
                let line = Line::new(Role::Muted, &format!("{} {event}", record.seq.0));
                self.transcript.print(BlockKind::Tool, vec![line.clipped(PROSE_COLUMNS)]);
            }
            _ => {}
        }
    }

    /// Prints what was held back, once all records of the past have come.
    pub(super) fn release_history(&mut self) {
        if self.history_end.is_some_and(|last| self.transcript.scene.seq >= last) {
            self.history_end = None;
            self.transcript.print_queue.release();
        }
    }
}

fn tool_of(transcript: &Transcript, call: &CallId) -> String {
    transcript.scene.calls.get(call).map_or(String::new(), |call| block::tool_name(call).to_owned())
}
