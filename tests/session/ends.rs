//! Tests of ending, stopping and continuing a session, and of restoring the terminal.

use crate::pty::{PROGRAM, Pty, TestDirs, journals};
use crate::support::eventually;
use crate::vt::{Resizing, Vt};
use gemini_a2a::config::settings::Settings;
use gemini_a2a::embed::Log;
use gemini_a2a::shell::event_loop::sys::Clock;
use gemini_a2a::shell::terminal::connection::link::{Link, LinkEvent};
use gemini_a2a::shell::terminal::driver::{Driver, DriverParts};
use gemini_a2a::shell::terminal::setup::setup;
use gemini_a2a::shell::terminal::signals::TerminalSignals;
use gemini_a2a::shell::terminal::tty::{self, Tty};
use gemini_a2a::ui::output::screen::START;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const HINT: &str = "Ask anything";

#[test]
fn quitting_leaves_the_terminal_as_it_was() {
    let dirs = TestDirs::new();
    for keys in ["\x03\x03", "\x04\x04", "\x1b[200~/quit\x1b[201~\x1b[13u"] {
        let mut pty = dirs.start(&[]);
        pty.wait(HINT);
        pty.keys(keys);
        assert!(pty.end().0.success(), "{keys:?}");
    }
}

#[test]
fn the_keyboard_protocol_is_reset_at_the_end() {
    let dirs = TestDirs::new();
    for (replies, set, undone) in
        [("\x1b[?0u\x1b[?62;c", "\x1b[>1u", "\x1b[<u"), ("\x1bP>|XTerm(390)\x1b\\\x1b[?62;c", "\x1b[>4;2m", "\x1b[>4m")]
    {
        let mut pty = dirs.start(&[]);
        pty.wait(HINT);
        pty.keys(replies);
        pty.wait_for_bytes(set);
        pty.signal(Signal::TERM);
        pty.wait_for_bytes(undone);
        assert!(pty.end().0.success(), "{replies:?}");
    }
}

#[test]
fn one_signal_ends_a_session_in_order_and_a_second_at_once() {
    let dirs = TestDirs::new();
    for (signals, code) in [
        (&[Signal::TERM][..], 0),
        (&[Signal::INT], 130),
        (&[Signal::HUP], 0),
        (&[Signal::INT, Signal::INT], 130),
        (&[Signal::INT, Signal::TERM], 143),
        (&[Signal::TERM, Signal::TERM], 143),
    ] {
        let mut pty = dirs.start(&[]);
        pty.wait(HINT);
        if signals.len() > 1 {
            // A turn that takes its time, so that the orderly end does too.
            pty.say("be slow");
            pty.wait("esc stops");
        }
        pty.signal(signals[0]);
        if let Some(second) = signals.get(1) {
            pty.wait_until_restored();
            pty.signal(*second);
        }
        assert_eq!(pty.end().0.code(), Some(code), "{signals:?}");
    }
}

#[test]
fn an_error_at_the_start_leaves_the_terminal_alone() {
    let dirs = TestDirs::new();
    dirs.put("file", "");
    for args in [&["--workspace", "/no/such/folder"][..], &["--state-dir", "../file"]] {
        let (status, text) = dirs.start(args).end();
        assert_eq!(status.code(), Some(78), "{text}");
        assert!(text.contains("gemini-a2a: ") && !text.contains(HINT), "{text}");
    }
}

/// A connection that panics in the loop of the terminal, or lets another thread panic, once there is a file that says so.
struct Failing {
    socket: UnixStream,
    connected: bool,
    next: u64,
}

impl Link for Failing {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn wants_write(&self) -> bool {
        false
    }

    fn due(&self) -> Option<u64> {
        Some(self.next)
    }

    fn send(&mut self, _: &str) {}

    fn advance(&mut self, now_ms: u64) -> Vec<LinkEvent> {
        self.next = now_ms + 20;
        if std::fs::remove_file("../worker").is_ok() {
            let worker = std::thread::spawn(|| panic!("of a worker"));
            assert!(worker.join().is_err());
            std::fs::write("../worker-failed", "").expect("a file");
        }
        if std::fs::exists("../loop").is_ok_and(|exists| exists) {
            panic!("of the terminal");
        }
        if std::mem::replace(&mut self.connected, true) { Vec::new() } else { vec![LinkEvent::Connected] }
    }
}

/// Run by another test as a program: a session whose connection panics.
#[test]
fn inner_panic() {
    if std::env::var_os("SESSION_PANIC").is_none() {
        return;
    }
    let tty = Tty::open().expect("a terminal");
    tty::restore_on_panic(tty.saved(), Log::off());
    let (socket, _other) = UnixStream::pair().expect("a pair");
    let clock = Clock::start();
    let mut link = Failing { socket, connected: false, next: clock.now().mono_ms };
    let parts = DriverParts {
        tty: &tty,
        signals: &mut TerminalSignals::new().expect("signals"),
        link: Some(&mut link),
        files: None,
        log: None,
        trust: None,
        editor: String::new(),
        clock,
    };
    let workspace = std::env::current_dir().expect("a directory");
    let setup = setup(&Settings::default(), &workspace, &|name| std::env::var(name).ok());
    panic!("it ended by itself: {:?}", Driver::new(parts, setup).run());
}

#[test]
fn a_panic_restores_the_terminal_and_that_of_a_worker_leaves_it_alone() {
    let dirs = TestDirs::new();
    let program = std::env::current_exe().expect("this test").display().to_string();
    let words = [program.as_str(), "--exact", "--nocapture", "ends::inner_panic"];
    let mut pty = Pty::start(&dirs, &[("SESSION_PANIC", "1")], &words);
    pty.wait(HINT);
    pty.keys("\x1b[?0u\x1b[?62;c");
    pty.wait_for_bytes("\x1b[>1u");
    dirs.put("worker", "");
    eventually("the worker fails", || dirs.path("worker-failed").exists().then_some(()));
    pty.keys("typed on");
    pty.wait("typed on");
    assert!(!pty.bytes.windows(3).any(|bytes| bytes == b"\x1b[<"), "the terminal is in use");
    dirs.put("loop", "");
    pty.wait_for_bytes("\x1b[<u");
    let (status, text) = pty.end();
    assert!(!status.success() && text.contains("of the terminal"), "{text}");
    assert!(!text.contains("of a worker"), "{text}");
    // The message is below the screen that was painted, on rows of its own.
    let (screen, message) = text.rsplit_once("typed on").expect("the draft");
    assert!(screen.contains("gemini-a2a") && message.contains("\nthread 'ends::inner_panic'"), "{text:?}");
}

#[test]
fn ctrl_z_stops_where_a_shell_waits() {
    let dirs = TestDirs::new();
    let script = dirs.put("script.sh", &format!("{PROGRAM} --trust-workspace\n"));
    let script = format!("bash {}", script.display());
    for command in [format!("{PROGRAM} --trust-workspace"), script] {
        let mut pty = Pty::start(&dirs, &[("PS1", "ready> ")], &["bash", "--norc", "-i"]);
        pty.wait("ready> ");
        pty.keys(&format!("{command}\n"));
        pty.wait(HINT);
        pty.keys("a draft");
        pty.wait("a draft");
        pty.keys("\x1a");
        pty.wait("Stopped");
        pty.wait("ready> ");
        pty.keys("stty -a | grep -o ' icanon'\n");
        pty.wait(" icanon");
        pty.resize(60, 20);
        pty.keys("fg\n");
        pty.wait("a draft");
        pty.keys("\x03\x03");
        pty.wait("ready> ");
        pty.keys("exit\n");
        pty.wait_for_end();
    }
}

#[test]
fn ctrl_z_goes_on_where_nobody_could_continue_it() {
    let dirs = TestDirs::new();
    let command = format!("{PROGRAM} --trust-workspace; exit 7");
    let as_child = Pty::start(&dirs, &[], &["sh", "-c", &command]);
    for (mut pty, code) in [(dirs.start(&[]), 0), (as_child, 7)] {
        pty.wait(HINT);
        pty.keys("\x1a");
        pty.wait("Not suspended: no shell is waiting");
        pty.keys("typed on");
        pty.wait("typed on");
        pty.keys("\x03\x03");
        assert_eq!(pty.end().0.code(), Some(code));
    }
    let mut pty = dirs.start(&["--a2a-port", "0"]);
    pty.wait("Shared: http://localhost:");
    pty.wait(HINT);
    pty.wait("demo · 0%");
    pty.keys("\x1a");
    pty.wait("Not suspended: 1 client shares this session over");
    pty.keys("\x03\x03");
    assert!(pty.end().0.success());
}

#[test]
fn a_stop_signal_from_outside_is_handled_after_continuing() {
    let dirs = TestDirs::new();
    let mut pty = dirs.start(&[]);
    pty.wait(HINT);
    pty.keys("a draft");
    pty.wait("a draft");
    pty.signal(Signal::STOP);
    pty.signal(Signal::CONT);
    pty.wait("a draft");
    pty.keys("\x03\x03");
    assert!(pty.end().0.success());
}

#[test]
fn without_its_terminal_a_session_ends() {
    let dirs = TestDirs::new();
    let mut pty = dirs.start(&[]);
    pty.wait(HINT);
    pty.say("run a command");
    pty.wait_or(&["tab answers", "Esc = no"]);
    pty.hang_up();
    assert_eq!(pty.wait_for_end().code(), Some(0));
}

#[test]
fn a_running_command_is_gone_when_its_terminal_is() {
    let dirs = TestDirs::new();
    let command = "sleep 600 & echo $! > ../child; echo $$ > ../shell; wait";
    let steps = serde_json::json!([{"call": "run_shell_command", "args": {"command": command}}, {"text": "Over."}]);
    let script = dirs.put("command.json", &serde_json::json!({"rules": [], "default": steps}).to_string());
    let mut pty = dirs.start(&["--yolo", "--script", &script.display().to_string()]);
    pty.wait(HINT);
    pty.say("go");
    let read = |name: &str| std::fs::read_to_string(dirs.path(name)).ok().filter(|text| text.ends_with('\n'));
    let pids = ["shell", "child"].map(|name| eventually("the command runs", || read(name)));
    let runs = |pid: &str| std::path::Path::new("/proc").join(pid.trim()).exists();
    assert!(pids.iter().all(|pid| runs(pid)), "{pids:?}");
    pty.hang_up();
    assert_eq!(pty.wait_for_end().code(), Some(0));
    eventually("the command is gone", || pids.iter().all(|pid| !runs(pid)).then_some(()));
    assert!(journals(&dirs).contains("\"interrupted\""), "{}", journals(&dirs));
}

#[test]
fn a_session_with_a_port_can_be_served_on() {
    let dirs = TestDirs::new();
    let mut pty = dirs.start(&["--a2a-port", "0", "--on-hangup", "serve"]);
    pty.wait(HINT);
    let text = pty.text();
    let port = text.split("http://localhost:").nth(1).expect("a port");
    let port: u16 = port.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number");
    pty.hang_up();
    let healthy = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.starts_with("HTTP/1.1 200")
    };
    assert!(healthy());
    // No thread of it works on: together they take less than half of a second of a processor.
    let id = pty.child.id();
    eventually("it rests", || {
        let before = ticks(id);
        std::thread::sleep(Duration::from_secs(1));
        (ticks(id).saturating_sub(before) < TICKS / 2).then_some(())
    });
    assert!(healthy());
    pty.signal(Signal::TERM);
    assert_eq!(pty.wait_for_end().code(), Some(0));
}

/// The units of processor time in `/proc`, for each second.
const TICKS: u64 = 100;

/// The processor time that all threads of a process have taken.
fn ticks(id: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).expect("it runs").flatten();
    let of_task = |stat: String| {
        // The name before the last bracket may contain blanks; user and system time are the 12th and 13th fields behind it.
        let fields: Vec<u64> =
            stat.rsplit(')').next()?.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        Some(fields.get(11)? + fields.get(12)?)
    };
    tasks.filter_map(|task| of_task(std::fs::read_to_string(task.path().join("stat")).ok()?)).sum()
}

/// The number of paragraphs in a long answer.
const FLOOD: usize = 20_000;

#[test]
fn a_blocked_terminal_delays_no_client() {
    let dirs = TestDirs::new();
    let words: Vec<String> = (0..FLOOD).map(|number| format!("row{number}")).collect();
    let steps = serde_json::json!([{"text": words.join("\n\n"), "chunks": 500}]);
    let script = serde_json::json!({"rules": [{"when": {"text": "*"}, "steps": steps}]});
    let script = dirs.put("flood.json", &script.to_string());
    let mut pty = dirs.start(&["--script", &script.display().to_string()]);
    pty.wait(HINT);
    pty.say("go");
    // Nothing is read from the terminal until the turn is over.
    eventually("the turn ends", || journals(&dirs).contains("turn_ended").then_some(()));
    pty.wait(&format!("row{}\n", FLOOD - 1));
    let text = pty.text();
    let mut rest = text.as_str();
    for word in words.iter().step_by(97) {
        let at = rest.find(&format!("{word}\n")).unwrap_or_else(|| panic!("{word} is printed in order"));
        rest = &rest[at..];
    }
    pty.keys("typed on");
    pty.wait("typed on");
    eventually("it paints nothing more", || {
        let before = pty.bytes.len();
        pty.read(Duration::from_millis(300));
        (pty.bytes.len() == before).then_some(())
    });
    // The screen is right, as if it had been read all the time.
    let bytes = String::from_utf8(pty.bytes.clone()).expect("the painter writes UTF-8").replace(START, "");
    let mut vt = Vt::new(80, 24, Resizing::Reflows);
    vt.feed(bytes.as_bytes());
    let rows: Vec<String> = (FLOOD - 10..FLOOD).map(|number| format!("row{number}\n\n")).collect();
    let picture = vt.picture();
    assert!(picture.ends_with(" asks") && picture.contains(&(rows.concat() + "› typed on█\n\n  ")), "{picture}");
    assert_eq!(picture.matches('›').count(), 1, "{picture}");
    pty.keys("\x03\x03");
    assert!(pty.end().0.success());
}
