//! The terminal's state machine with a real connection and a terminal model that interprets the painted bytes.

use crate::vt::{Resizing, Vt};
use gemini_a2a::base::clock::Now;
use gemini_a2a::config::remote::Remote;
use gemini_a2a::limits::ui::FRAME_MS;
use gemini_a2a::shell::event_loop::sys;
use gemini_a2a::shell::terminal::connection::link::{Link, LinkEvent};
use gemini_a2a::shell::terminal::connection::remote::ServerAddress;
use gemini_a2a::shell::terminal::connection::websocket::WebSocketLink;
use gemini_a2a::task::message::Source;
use gemini_a2a::ui::app::Ui;
use gemini_a2a::ui::format::style::{Colours, Style};
use gemini_a2a::ui::output::block::Viewer;
use gemini_a2a::ui::output::paint::Size;
use gemini_a2a::ui::{Input, Notify, Setup, UiEffect};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::path::Path;
use std::time::{Duration, Instant};

pub struct Terminal {
    ui: Ui,
    link: WebSocketLink,
    vt: Vt,
    now: Now,
    connected: bool,
    watching: bool,
    pub losses: usize,
}

const SIZE: Size = Size { columns: 80, rows: 24 };

impl Terminal {
    pub fn attach(port: u16, dir: &Path) -> Terminal {
        let remote = Remote::Tcp { host: "127.0.0.1".into(), port, tls: false };
        let address =
            ServerAddress { name: remote.to_string(), remote, instances: dir.join("none"), token: None, tls: None };
        let link = WebSocketLink::new(address, "ann@host", None, sys::entropy()).open().expect("a server");
        let now = Now { mono_ms: 1_000, unix_ms: sys::unix_ms() };
        Terminal {
            ui: Ui::new(setup(), SIZE, now),
            link,
            vt: Vt::new(SIZE.columns, SIZE.rows, Resizing::Reflows),
            now,
            connected: false,
            watching: false,
            losses: 0,
        }
    }

    /// Lives on until a fact holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&Terminal) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < Duration::from_secs(60), "waited for {what}:\n{}", self.shown());
            self.turn();
        }
    }

    fn turn(&mut self) {
        match self.link.fd() {
            // The pause is over at once.
            None => self.now.mono_ms = self.link.due().unwrap_or(0).max(self.now.mono_ms),
            Some(fd) => {
                let mut events = PollFlags::IN;
                events.set(PollFlags::OUT, self.link.wants_write());
                let wait = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
                poll(&mut [PollFd::from_borrowed_fd(fd, events)], Some(&wait)).expect("a poll");
            }
        }
        for arrival in self.link.advance(self.now.mono_ms) {
            match &arrival {
                LinkEvent::Connected => {
                    self.connected = true;
                    self.take(Input::Connected);
                }
                LinkEvent::Frame(frame) => {
                    self.watching |= frame.contains("\"after\"") || frame.contains("\"event\"");
                    self.take(Input::Frame(frame));
                }
                LinkEvent::Lost { retry_at } => {
                    self.losses += 1;
                    self.connected = false;
                    self.take(Input::Lost { retry_at: *retry_at });
                }
                LinkEvent::Closed(why) => panic!("{why}"),
            }
        }
        self.paint();
    }

    fn take(&mut self, input: Input) {
        for effect in self.ui.take(input, self.now) {
            if let UiEffect::Send(frame) = effect {
                self.link.send(&frame);
            }
        }
    }

    fn paint(&mut self) {
        for _ in 0..1_000 {
            self.vt.feed(&self.ui.paint(self.now));
            match self.ui.due(self.now) {
                Some(due) if due <= self.now.mono_ms + FRAME_MS => {
                    self.now = Now { mono_ms: self.now.mono_ms + FRAME_MS, unix_ms: self.now.unix_ms + FRAME_MS };
                    self.take(Input::Tick);
                }
                _ => return,
            }
        }
    }

    /// Writes a prompt and presses Enter.
    pub fn say(&mut self, text: &str) {
        for key in text.chars().chain(['\r']) {
            self.now.mono_ms += 100;
            self.take(Input::Bytes(key.to_string().as_bytes()));
            self.paint();
        }
    }

    pub fn has_task(&self) -> bool {
        self.watching
    }

    pub fn is_connected(&self) -> bool {
        self.connected
    }

    pub fn is_busy(&self) -> bool {
        self.picture().contains("esc stops")
    }

    pub fn picture(&self) -> String {
        self.vt.picture()
    }

    /// Everything that was printed, and the screen.
    pub fn shown(&self) -> String {
        self.vt.everything()
    }

    /// From here on only what is new is shown.
    pub fn forget(&mut self) {
        self.vt = Vt::new(SIZE.columns, SIZE.rows, Resizing::Reflows);
        self.watching = false;
    }
}

fn setup() -> Setup {
    let me = Source::new("ann@host", "gemini-a2a");
    let viewer = Viewer { me, workspace: String::new(), home: String::new() };
    let style = Style { colours: Colours::None, background: None, themed: false, unicode: true };
    Setup {
        server: "localhost:7".into(),
        attached: true,
        notify: Notify::Off,
        nonce: "n".into(),
        ..Setup::new(viewer, style)
    }
}
