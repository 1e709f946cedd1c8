//! Tests of a terminal that is attached over WebSocket: connections break and the server restarts, but every line and every prompt
//! arrives exactly once. The tests set the terminal's clock, so that pauses take no time.

#[path = "attach/terminal.rs"]
mod terminal;
#[path = "support/vt.rs"]
#[allow(dead_code, reason = "only what is on the screen is needed here")]
mod vt;

use gemini_a2a::embed::models::{Answer, Cancel, ModelBackend, ModelError, ModelRequest, NoteBody};
use gemini_a2a::embed::{self, ChildProcesses, Model, Plan};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use terminal::Terminal;

/// Counts: one line in each piece of its answer, up to the number in the prompt.
struct Counter;

impl ModelBackend for Counter {
    fn answer(&self, asked: &ModelRequest, _: &Cancel, emit: &mut dyn FnMut(NoteBody)) -> Result<Answer, ModelError> {
        let prompt = format!("{:?}", asked.think.prompt);
        let number = |word: &str| word.strip_prefix("count")?.parse::<u32>().ok();
        let most = prompt.split(|c: char| !c.is_alphanumeric()).find_map(number).unwrap_or(1);
        let mut text = String::new();
        for at in 0..most {
            let line = format!("line {at} of {most}\n\n");
            emit(NoteBody::Text(line.clone()));
            text.push_str(&line);
            // The pieces are records of their own if they come one after the other.
            thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(Answer::new(&text, []))
    }
    fn consult(&self, _: &ModelRequest, _: &str, _: &Cancel) -> Result<Answer, ModelError> {
        Ok(Answer::new("", []))
    }
}

struct Server {
    port: u16,
    stop: embed::StopHandle,
    running: JoinHandle<()>,
}

impl Server {
    fn start(state: &Path) -> Server {
        let workspace = state.with_extension("work");
        std::fs::create_dir_all(&workspace).expect("a directory");
        let model = Model::Own { name: "counter".into(), backend: Arc::new(Counter) };
        let plan = Plan { model, children: ChildProcesses::None, ..Plan::at(workspace, state) };
        let server = embed::open(plan).expect("a server");
        let port = server.url().trim_end_matches('/').rsplit(':').next().and_then(|port| port.parse().ok());
        let (port, stop) = (port.expect("a port"), server.stop_handle());
        let running = thread::spawn(move || {
            server.run().expect("the loop works");
        });
        Server { port, stop, running }
    }

    fn end(self) {
        self.stop.stop();
        self.running.join().expect("no panic");
    }
}

/// Stands between terminal and server, and cuts the connection after so many bytes of the server.
struct Proxy {
    port: u16,
    /// The port of the server; 0 if there is none.
    to: Arc<AtomicUsize>,
    /// Bytes after which the present connections are cut.
    bytes: Arc<AtomicUsize>,
    cuts: Arc<AtomicUsize>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let proxy = Proxy {
            port: listener.local_addr().expect("an address").port(),
            to: Arc::new(AtomicUsize::new(to.into())),
            bytes: Arc::new(AtomicUsize::new(usize::MAX)),
            cuts: Arc::default(),
            streams: Arc::default(),
        };
        let (to, bytes, cuts, streams) =
            (proxy.to.clone(), proxy.bytes.clone(), proxy.cuts.clone(), proxy.streams.clone());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", to.load(Ordering::SeqCst) as u16)) else {
                    continue;
                };
                let handle = |stream: &TcpStream| stream.try_clone().expect("a second handle");
                streams.lock().expect("no panic").push(handle(&client));
                let (up, down) = ((handle(&client), handle(&server)), (server, client));
                let (bytes, cuts) = (bytes.clone(), cuts.clone());
                thread::spawn(move || pump(up.0, up.1, &AtomicUsize::new(usize::MAX), &AtomicUsize::new(0)));
                thread::spawn(move || pump(down.0, down.1, &bytes, &cuts));
            }
        });
        proxy
    }

    fn cut(&self) {
        for stream in self.streams.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, most: &AtomicUsize, cuts: &AtomicUsize) {
    let (mut buffer, mut passed) = ([0; 512], 0);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let room = most.load(Ordering::SeqCst).saturating_sub(passed);
        if to.write_all(&buffer[..count.min(room)]).is_err() {
            break;
        }
        passed += count;
        if count > room {
            cuts.fetch_add(1, Ordering::SeqCst);
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("gemini-a2a-attach-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl std::ops::Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The lines of an answer, each of which has to be there once and in order.
fn counted(shown: &str, most: u32) {
    let lines: Vec<&str> = shown.lines().filter(|line| line.ends_with(&format!(" of {most}"))).collect();
    let expected: Vec<String> = (0..most).map(|at| format!("line {at} of {most}")).collect();
    assert_eq!(lines, expected, "{shown}");
}

#[test]
fn a_connection_that_is_cut_a_hundred_times_shows_every_row_once() {
    let dir = Folder::new("cuts");
    let server = Server::start(&dir.join("state"));
    let proxy = Proxy::start(server.port);
    let mut terminal = Terminal::attach(proxy.port, &dir);
    terminal.until("the session", |terminal| terminal.has_task());
    terminal.say("count700");
    // Enough for the handshake and what a terminal asks for first, and some records.
    let mut cut_after = 2_600;
    proxy.bytes.store(cut_after, Ordering::SeqCst);
    terminal.until("a hundred cuts", |_| {
        cut_after = 2_600 + (cut_after * 31) % 1_777;
        proxy.bytes.store(cut_after, Ordering::SeqCst);
        proxy.cuts.load(Ordering::SeqCst) >= 100
    });
    proxy.bytes.store(usize::MAX, Ordering::SeqCst);
    terminal.until("the end", |terminal| terminal.shown().contains("line 699 of 700") && !terminal.is_busy());
    counted(&terminal.shown(), 700);
    assert_eq!(terminal.shown().matches("› count700").count(), 1, "{}", terminal.shown());
    server.end();
}

#[test]
fn a_prompt_that_is_written_while_the_server_is_away_arrives_once() {
    let dir = Folder::new("away");
    let state = dir.join("state");
    let server = Server::start(&state);
    let proxy = Proxy::start(server.port);
    let mut terminal = Terminal::attach(proxy.port, &dir);
    terminal.until("the session", |terminal| terminal.has_task());
    terminal.say("count3");
    terminal.until("its answer", |terminal| terminal.shown().contains("line 2 of 3") && !terminal.is_busy());
    server.end();
    proxy.to.store(0, Ordering::SeqCst);
    terminal.until("the loss", |terminal| terminal.picture().contains("Lost"));
    terminal.say("count4");
    // It is away for longer than the longest pause.
    let losses = terminal.losses + 10;
    terminal.until("ten attempts", |terminal| terminal.losses >= losses);
    assert!(terminal.picture().contains("what you type is kept"), "{}", terminal.picture());
    let server = Server::start(&state);
    proxy.to.store(server.port.into(), Ordering::SeqCst);
    terminal.until("its answer", |terminal| terminal.shown().contains("line 3 of 4") && !terminal.is_busy());
    // The same prompt is sent again, because its answer may have been lost.
    proxy.cut();
    terminal.until("the loss", |terminal| terminal.losses > losses);
    terminal.say("count5");
    terminal.until("its answer", |terminal| terminal.shown().contains("line 4 of 5") && !terminal.is_busy());
    for most in [3, 4, 5] {
        counted(&terminal.shown(), most);
        assert_eq!(terminal.shown().matches(&format!("› count{most}\n")).count(), 1, "{}", terminal.shown());
    }
    assert!(!terminal.shown().contains("begins anew"), "{}", terminal.shown());
    server.end();
}

#[test]
fn a_log_that_became_shorter_or_another_one_begins_anew() {
    let dir = Folder::new("anew");
    let state = dir.join("state");
    let mut server = Server::start(&state);
    let proxy = Proxy::start(server.port);
    let mut terminal = Terminal::attach(proxy.port, &dir);
    terminal.until("the session", |terminal| terminal.has_task());
    terminal.say("count3");
    terminal.until("its answer", |terminal| terminal.shown().contains("line 2 of 3") && !terminal.is_busy());
    server.end();
    let backup = dir.join("backup");
    copy(&state, &backup);
    server = Server::start(&state);
    proxy.to.store(server.port.into(), Ordering::SeqCst);
    terminal.until("the server again", |terminal| terminal.is_connected());
    terminal.say("count4");
    terminal.until("its answer", |terminal| terminal.shown().contains("line 3 of 4") && !terminal.is_busy());
    server.end();
    // The same task with a shorter log, then a server that does not know the task.
    for state in [backup, dir.join("other")] {
        let words = "The log begins anew";
        terminal.forget();
        server = Server::start(&state);
        proxy.to.store(server.port.into(), Ordering::SeqCst);
        terminal.until(words, |terminal| terminal.shown().contains(words) && terminal.has_task());
        terminal.say("count6");
        terminal.until("its answer", |terminal| terminal.shown().contains("line 5 of 6") && !terminal.is_busy());
        counted(&terminal.shown(), 6);
        assert!(!terminal.shown().contains("of 4"), "{}", terminal.shown());
        server.end();
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type") {
            kind if kind.is_dir() => copy(&entry.path(), &target),
            kind if kind.is_file() => drop(std::fs::copy(entry.path(), target).expect("a copy")),
            _ => {}
        }
    }
}
