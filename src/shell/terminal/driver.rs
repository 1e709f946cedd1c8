//! The event loop of a session in a terminal. It waits for the terminal, the server, signals, the log and the editor, passes the
//! events to
//! [`Ui`], and performs the effects that this returns.

use crate::base::clock::Now;
use crate::limits::ui::{ESCAPE_MS, STOP_MS, TERMINAL_READ_BYTES, TYPED_LINE_BYTES};
use crate::shell::event_loop::signals::Signal as EndSignal;
use crate::shell::event_loop::sys::Clock;
use crate::shell::terminal::connection::link::{Link, LinkEvent};
use crate::shell::terminal::editor::{Editor, Progress};
use crate::shell::terminal::log_file::LogFile;
use crate::shell::terminal::prompt_files::PromptFiles;
use crate::shell::terminal::signals::{SignalNotice, TerminalSignals};
use crate::shell::terminal::tty::Tty;
use crate::shell::terminal::write_buffer::WriteBuffer;
use crate::ui::app::Ui;
use crate::ui::{Input, Setup, TrustChoice, UiEffect, output::screen};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{QueueSelector, tcflush};
use rustix::time::Timespec;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Why the loop has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    Quit,
    /// The trust question at the start was answered.
    Trust(TrustChoice),
    Signal(EndSignal),
    /// The terminal was closed.
    HungUp,
    /// The connection to the server is closed for good, for this reason.
    Closed(String),
}

/// What the loop of a session works with.
pub struct DriverParts<'a> {
    pub tty: &'a Tty,
    pub signals: &'a mut TerminalSignals,
    /// None while only the trust question is asked.
    pub link: Option<&'a mut dyn Link>,
    pub files: Option<&'a mut PromptFiles>,
    pub log: Option<&'a mut LogFile>,
    /// Stores an answer of `/trust`; None for the trust question at the start.
    pub trust: Option<&'a dyn Fn(TrustChoice) -> Result<(), String>>,
    /// The command of the user's editor.
    pub editor: String,
    /// The clock of the times that the link uses.
    pub clock: Clock,
}

/// Which descriptors are ready after a wait.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    readable: bool,
    hung_up: bool,
    link: bool,
    log: bool,
    editor: bool,
}

pub struct Driver<'a> {
    parts: DriverParts<'a>,
    ui: Ui,
    is_linear: bool,
    output: WriteBuffer,
    /// The incomplete line that was typed, in linear mode.
    line: Vec<u8>,
    /// When the decoder of keys gets a tick although the terminal does not accept output.
    keys_due: Option<u64>,
    /// The editor that uses the terminal.
    editor: Option<Editor>,
    loop_end: Option<LoopEnd>,
}

impl<'a> Driver<'a> {
    pub fn new(parts: DriverParts<'a>, setup: Setup) -> Driver<'a> {
        let is_linear = setup.linear;
        Driver {
            ui: Ui::new(setup, parts.tty.size(), parts.clock.now()),
            parts,
            is_linear,
            output: WriteBuffer::default(),
            line: Vec::new(),
            keys_due: None,
            editor: None,
            loop_end: None,
        }
    }

    /// Runs until the user quits, a signal comes, or the terminal or the connection is closed. Then restores the terminal.
    pub fn run(mut self) -> io::Result<LoopEnd> {
        self.take_terminal()?;
        let loop_end = loop {
            if let Some(loop_end) = self.loop_end.take() {
                break loop_end;
            }
            self.paint();
            let ready = self.wait()?;
            self.handle_events(ready);
        };
        self.leave(&loop_end);
        Ok(loop_end)
    }

    fn take_terminal(&mut self) -> io::Result<()> {
        if self.is_linear {
            self.parts.tty.set_lines();
            return Ok(());
        }
        self.parts.tty.set_raw(self.ui.restore())?;
        self.output.push(screen::START.as_bytes());
        Ok(())
    }

    fn now(&self) -> Now {
        self.parts.clock.now()
    }

    /// Paints a frame if one is due and all bytes of the last one are written.
    fn paint(&mut self) {
        let now = self.now();
        if let Some(files) = &mut self.parts.files
            && files.due().is_some_and(|due| due <= now.mono_ms)
        {
            files.store_draft(now.mono_ms);
        }
        if self.editor.is_some() {
            return;
        }
        self.flush();
        if !self.output.is_empty() {
            if self.keys_due.take_if(|due| *due <= now.mono_ms).is_some() {
                self.give_input(Input::Tick);
            }
        } else if self.ui.due(now).is_some_and(|due| due <= now.mono_ms) {
            self.keys_due = None;
            self.give_input(Input::Tick);
            if self.editor.is_none() {
                self.output.push(&self.ui.paint(now));
                self.parts.tty.undo_with(self.undo());
                self.flush();
            }
        }
    }

    fn undo(&self) -> &'static str {
        if self.is_linear { "" } else { self.ui.restore() }
    }

    fn flush(&mut self) {
        if self.output.write_to(|bytes| self.parts.tty.write(bytes)).is_err() {
            self.hang_up();
        }
    }

    fn hang_up(&mut self) {
        self.output.clear();
        self.loop_end = Some(LoopEnd::HungUp);
    }

    /// How long to wait at most. None: until a descriptor is ready.
    fn pause(&self, takes_frames: bool) -> Option<Duration> {
        let now = self.now();
        let own = match (&self.editor, self.output.is_empty()) {
            (Some(_), _) => None,
            (None, true) => self.ui.due(now),
            (None, false) => self.keys_due,
        };
        let link = self.parts.link.as_ref().and_then(|link| link.due()).filter(|_| takes_frames);
        let draft = self.parts.files.as_ref().and_then(|files| files.due());
        let due = [own, link, draft].into_iter().flatten().min()?;
        Some(Duration::from_millis(due.saturating_sub(now.mono_ms)))
    }

    fn wait(&mut self) -> io::Result<Ready> {
        let takes_frames = self.ui.has_room();
        let pause = self.pause(takes_frames).and_then(|pause| Timespec::try_from(pause).ok());
        let parts = &self.parts;
        let mut tty = PollFlags::empty();
        tty.set(PollFlags::IN, self.editor.as_ref().is_none_or(Editor::awaits_saving));
        tty.set(PollFlags::OUT, self.editor.is_none() && !self.output.is_empty());
        let mut link = PollFlags::empty();
        link.set(PollFlags::IN, takes_frames);
        link.set(PollFlags::OUT, parts.link.as_ref().is_some_and(|link| link.wants_write()));
        // Descriptors without flags are left out: poll would report a closed one at once, again and again.
        let polled = [
            Some((parts.tty.as_fd(), tty)),
            Some((parts.signals.as_fd(), PollFlags::IN)),
            parts.link.as_ref().and_then(|link| link.fd()).map(|fd| (fd, link)),
            parts.log.as_ref().map(|log| (log.as_fd(), PollFlags::IN)),
            self.editor.as_ref().filter(|editor| !editor.awaits_saving()).map(|editor| (editor.as_fd(), PollFlags::IN)),
        ];
        let polled = polled.map(|polled| polled.filter(|(_, flags)| !flags.is_empty()));
        let mut fds: Vec<PollFd> =
            polled.iter().flatten().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        match poll(&mut fds, pause.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut events = fds.iter().map(PollFd::revents);
        let [tty, _, link, log, editor] =
            polled.map(|polled| polled.and_then(|_| events.next()).unwrap_or(PollFlags::empty()));
        let link_due = parts.link.as_ref().and_then(|link| link.due()).filter(|_| takes_frames);
        Ok(Ready {
            readable: tty.contains(PollFlags::IN),
            hung_up: tty.intersects(PollFlags::HUP | PollFlags::ERR),
            link: !link.is_empty() || link_due.is_some_and(|due| due <= self.now().mono_ms),
            log: !log.is_empty(),
            editor: !editor.is_empty(),
        })
    }

    fn handle_events(&mut self, ready: Ready) {
        self.take_signals();
        if ready.readable {
            self.read();
        } else if ready.hung_up {
            self.hang_up();
        }
        if ready.link {
            self.advance_link();
        }
        if ready.log {
            self.take_log();
        }
        if ready.editor {
            self.check_editor();
        }
    }

    /// Handles the signals. Returns whether the process was continued after a stop.
    fn take_signals(&mut self) -> bool {
        let mut went_on = false;
        for notice in self.parts.signals.take() {
            match notice {
                SignalNotice::Resized => self.give_input(Input::Resized(self.parts.tty.size())),
                SignalNotice::Continued if self.editor.is_some() => {}
                SignalNotice::Continued => {
                    went_on = true;
                    self.resume(None);
                }
                SignalNotice::End(signal) => self.loop_end = Some(LoopEnd::Signal(signal)),
            }
        }
        went_on
    }

    fn take_log(&mut self) {
        let lines = self.parts.log.as_mut().map(|log| log.take());
        for line in lines.into_iter().flatten() {
            self.give_input(Input::Log(&line));
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 4096];
        let mut room = TERMINAL_READ_BYTES;
        while room > 0 && self.loop_end.is_none() && self.editor.as_ref().is_none_or(Editor::awaits_saving) {
            match self.parts.tty.read(&mut buffer) {
                // In linear mode this is Ctrl-D; in raw mode, the terminal was closed.
                Ok([]) if self.is_linear => self.loop_end = Some(LoopEnd::Quit),
                Ok([]) => self.hang_up(),
                Ok(bytes) => {
                    room = room.saturating_sub(bytes.len());
                    self.keys(bytes);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.hang_up(),
            }
        }
    }

    fn keys(&mut self, bytes: &[u8]) {
        if let Some(editor) = self.editor.as_ref().filter(|editor| editor.awaits_saving()) {
            if bytes.contains(&b'\n') {
                let written = editor.read();
                self.end_editor(written);
            }
            return;
        }
        if !self.is_linear {
            self.keys_due = Some(self.now().mono_ms + ESCAPE_MS);
            return self.give_input(Input::Bytes(bytes));
        }
        for byte in bytes {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    self.give_input(Input::Line(&String::from_utf8_lossy(&line)));
                }
                byte if self.line.len() < TYPED_LINE_BYTES => self.line.push(*byte),
                _ => {}
            }
        }
    }

    fn advance_link(&mut self) {
        let now = self.now().mono_ms;
        let arrivals = self.parts.link.as_mut().map(|link| link.advance(now));
        for arrival in arrivals.into_iter().flatten() {
            match arrival {
                LinkEvent::Connected => self.give_input(Input::Connected),
                LinkEvent::Frame(frame) => self.give_input(Input::Frame(&frame)),
                LinkEvent::Lost { retry_at } => self.give_input(Input::Lost { retry_at }),
                LinkEvent::Closed(why) => {
                    self.loop_end.get_or_insert(LoopEnd::Closed(why));
                }
            }
        }
    }

    /// Passes an input to the UI and performs the effects that it returns.
    fn give_input(&mut self, input: Input) {
        for effect in self.ui.take(input, self.now()) {
            self.apply_effect(effect);
        }
    }

    fn apply_effect(&mut self, effect: UiEffect) {
        match (effect, &mut self.parts.files) {
            (UiEffect::Send(frame), _) => {
                if let Some(link) = &mut self.parts.link {
                    link.send(&frame);
                }
            }
            (UiEffect::Remember(text), Some(files)) => files.remember(&text),
            (UiEffect::KeepDraft(text), Some(files)) => files.keep_draft(text),
            (UiEffect::Remember(_) | UiEffect::KeepDraft(_), None) => {}
            (UiEffect::Edit { text, name }, _) => self.edit(&text, &name),
            (UiEffect::Suspend, _) => self.suspend(),
            (UiEffect::Trust(choice), _) => match self.parts.trust.map(|keep| keep(choice)) {
                None => self.loop_end = Some(LoopEnd::Trust(choice)),
                Some(Ok(())) => {
                    self.give_input(Input::Resumed(Some("Stored; the answer takes effect at the next start".into())))
                }
                Some(Err(why)) => self.give_input(Input::Resumed(Some(why))),
            },
            (UiEffect::Quit, _) => self.loop_end = Some(LoopEnd::Quit),
        }
    }

    /// Restores the terminal's modes, for the shell or for another program.
    fn release_terminal(&mut self) {
        self.output.push(&self.ui.clear_live());
        self.write_rest();
        self.parts.tty.saved().restore();
    }

    /// Writes the waiting bytes, as many as the terminal accepts within a short time.
    fn write_rest(&mut self) {
        let saved = self.parts.tty.saved();
        let _ = self.output.write_to(|bytes| {
            saved.write_all(bytes);
            Ok(bytes.len())
        });
    }

    /// The process continues: takes the terminal again.
    fn resume(&mut self, notice: Option<String>) {
        self.reclaim_terminal();
        self.give_input(Input::Resumed(notice));
    }

    fn reclaim_terminal(&mut self) {
        if self.is_linear {
            self.parts.tty.set_lines();
        } else if self.parts.tty.set_raw(self.ui.restore()).is_ok() {
            self.output.push(self.ui.resume().as_bytes());
        }
        self.give_input(Input::Resized(self.parts.tty.size()));
    }

    /// Stops the process group as Ctrl-Z does in other programs. The kernel does not stop an orphaned process group.
    fn suspend(&mut self) {
        self.release_terminal();
        let stopped = kill_current_process_group(Signal::TSTP).is_ok();
        let mut fds = [PollFd::new(&*self.parts.signals, PollFlags::IN)];
        let wait = Timespec::try_from(Duration::from_millis(STOP_MS)).ok();
        let _ = poll(&mut fds, wait.as_ref());
        if !(self.take_signals() && stopped) {
            self.resume(Some("Not suspended: no shell is waiting".into()));
        }
    }

    fn edit(&mut self, text: &str, name: &str) {
        self.release_terminal();
        self.parts.signals.set_lent(true);
        match Editor::start(&self.parts.editor, text, name) {
            Ok(editor) => self.editor = Some(editor),
            Err(why) => self.end_editor(Err(why)),
        }
    }

    fn check_editor(&mut self) {
        match self.editor.as_mut().map(Editor::poll_end) {
            None | Some(Progress::Runs) => {}
            Some(Progress::Ended(result)) => self.end_editor(result),
            Some(Progress::AwaitSaving) => {
                let _ = tcflush(self.parts.tty, QueueSelector::IFlush);
                let text = "The editor returned at once. Save the text there, then press Enter here: ";
                self.parts.tty.saved().write_all(text.as_bytes());
            }
        }
    }

    fn end_editor(&mut self, result: Result<String, String>) {
        self.editor = None;
        self.parts.signals.set_lent(false);
        self.reclaim_terminal();
        self.give_input(Input::Edited(result));
    }

    /// Prints the last frame and restores the terminal.
    fn leave(&mut self, loop_end: &LoopEnd) {
        if let Some(files) = &mut self.parts.files {
            files.store_draft(0);
        }
        let had_editor = self.editor.take().is_some();
        if *loop_end == LoopEnd::HungUp {
            return;
        }
        self.output.push(&self.ui.farewell());
        self.write_rest();
        if !self.is_linear && !had_editor {
            self.parts.tty.drop_replies();
        }
        self.parts.tty.saved().restore();
    }
}
