//! A listening socket as standard input, and the messages to `NOTIFY_SOCKET`, as systemd has them.

use crate::support::client::Client;
use crate::support::fake::FakeGemini;
use crate::support::message::{approval, asked_of, prompt, task_of};
use crate::support::{TempDir, eventually, free_port, has};
use crate::{Program, serve};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, Stdio};

/// Answered with 200 after the server has sent `READY=1`.
const REQUEST: &[u8] = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Connects and sends [`REQUEST`]. The connection may wait in the kernel's backlog.
fn connect_and_ask(listener: &TcpListener) -> TcpStream {
    let mut stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("it is queued");
    stream.write_all(REQUEST).expect("the system takes it");
    stream
}

/// The status of the answer.
fn answer(mut stream: impl Read) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn inheriting(dir: &TempDir, socket: impl Into<OwnedFd>) -> Command {
    let mut command = serve(dir);
    command.args(["--listen", "fd"]).stdin(Stdio::from(socket.into())).stdout(Stdio::null());
    command
}

/// The next message to the socket of the service manager.
fn message(receiver: &UnixDatagram) -> String {
    let mut bytes = [0; 64];
    let count = receiver.recv(&mut bytes).expect("a message");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn start_reload_and_restart_lose_no_connection_of_the_backlog() {
    let dir = TempDir::new("socket");
    // The test is the service manager: it holds the socket open.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let notify = UnixDatagram::bind(dir.path().join("notify")).expect("a socket");
    let start = || {
        let socket = listener.try_clone().expect("a copy");
        Program::start(inheriting(&dir, socket).env("NOTIFY_SOCKET", dir.path().join("notify")))
    };
    for _ in 0..2 {
        let early: Vec<TcpStream> = (0..20).map(|_| connect_and_ask(&listener)).collect();
        let mut program = start();
        assert_eq!(message(&notify), "READY=1");
        assert!(early.into_iter().all(|stream| answer(stream) == "200"));
        let while_reloading: Vec<TcpStream> = (0..20).map(|_| connect_and_ask(&listener)).collect();
        program.signal(Signal::HUP);
        assert!(while_reloading.into_iter().all(|stream| answer(stream) == "200"));
        program.wait_for_log("SIGHUP");
        program.signal(Signal::TERM);
        assert_eq!(message(&notify), "STOPPING=1");
        assert!(program.ended().success());
        program.wait_for_log(&format!("Its listeners: {}", listener.local_addr().expect("an address")));
    }
}

#[test]
fn messages_are_sent_to_abstract_socket_names_too() {
    let dir = TempDir::new("abstract");
    let name = format!("gemini-a2a-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let notify = UnixDatagram::bind_addr(&address).expect("a socket");
    let mut command = serve(&dir);
    let mut program = Program::listening(command.args(["--a2a-port", "0"]).env("NOTIFY_SOCKET", format!("@{name}")));
    assert_eq!(message(&notify), "READY=1");
    program.signal(Signal::TERM);
    assert_eq!(message(&notify), "STOPPING=1");
    assert!(program.ended().success());
}

#[test]
fn a_unix_socket_of_the_manager_is_served_and_stays() {
    let dir = TempDir::new("unix");
    let path = dir.path().join("a2a.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let mut program = Program::start(&mut inheriting(&dir, listener.try_clone().expect("a copy")));
    program.wait_for_log(&format!("Its listeners: unix:{}", path.display()));
    let mut stream = UnixStream::connect(&path).expect("it listens");
    stream.write_all(REQUEST).expect("it is sent");
    assert_eq!(answer(stream), "200");
    program.signal(Signal::TERM);
    assert!(program.ended().success());
    assert!(path.exists(), "the socket file belongs to the service manager and stays");
}

#[test]
fn commands_do_not_inherit_the_socket() {
    let dir = TempDir::new("inherit");
    let fake = FakeGemini::start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let copy = OwnedFd::from(listener.try_clone().expect("a copy"));
    let mut command = inheriting(&dir, listener);
    command.env("GEMINI_API_KEY", "fake").env("GOOGLE_GEMINI_BASE_URL", fake.url());
    // As systemd-socket-activate passes it, on both streams.
    let program = Program::start(command.stdout(Stdio::from(copy)));
    drop(command);
    program.wait_for_log("Its listeners: ");
    for stream in [0, 1] {
        let link = fs::read_link(format!("/proc/{}/fd/{stream}", program.child.id())).expect("it runs");
        assert_eq!(link.to_string_lossy(), "/dev/null");
    }
    let mut client = Client::new(&url);
    let events: Vec<_> = client.stream("message/stream", prompt("SHELL ls -l /proc/self/fd > fds")).collect();
    let task = events.iter().find_map(|event| task_of(event.result())).expect("a task").to_owned();
    let call = events.iter().find_map(|event| asked_of(event.result())).expect("a question").to_owned();
    client.call("message/send", approval(&task, &call, "proceed_once"));
    let file = dir.folder("workspace").join("fds");
    let fds = eventually("the list of descriptors", || fs::read_to_string(&file).ok().filter(|text| !text.is_empty()));
    assert!(fds.contains("-> /dev/null") && !fds.contains("socket:"), "{fds}");
}

#[test]
fn a_standard_input_that_is_no_listening_socket_is_refused() {
    let dir = TempDir::new("refused");
    let ended = |command: &mut Command| {
        let mut program = Program::start(command);
        assert_eq!(program.ended().code(), Some(78));
        program
    };
    ended(serve(&dir).args(["--listen", "fd"]).stdin(Stdio::null())).wait_for_log("no socket that listens");
    let (stream, _other) = UnixStream::pair().expect("two sockets");
    ended(&mut inheriting(&dir, stream)).wait_for_log("StandardInput=socket");
    // A socket on another address than loopback needs credentials.
    let wide = TcpListener::bind("0.0.0.0:0").expect("a free port");
    ended(&mut inheriting(&dir, wide)).wait_for_log("is not a loopback address");
}

#[test]
fn systemd_socket_activate_starts_and_restarts_it() {
    if !has("systemd-socket-activate") {
        return;
    }
    let dir = TempDir::new("activate");
    let port = free_port();
    let server = serve(&dir);
    let words: Vec<String> = [server.get_program()]
        .into_iter()
        .chain(server.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .chain(["--listen".into(), "fd".into()])
        .collect();
    // The shell holds the socket open during the restart, as the service manager does.
    let script = r#"exec 3<&0; "$0" "$@" <&3 3<&- & echo $! > pid; wait $!; exec "$0" "$@" 3<&-"#;
    let mut command = Command::new("systemd-socket-activate");
    command
        .args(["--inetd", "-l", &format!("127.0.0.1:{port}"), "sh", "-c"])
        .arg(script)
        .args(&words)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let program = Program::start(&mut command);
    program.wait_for_log("Listening on");
    let connect = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.write_all(REQUEST).expect("it is sent");
        stream
    };
    assert_eq!(answer(connect()), "200", "the first connection starts the server");
    let first: i32 = eventually("its id", || fs::read_to_string(dir.path().join("pid")).ok()?.trim().parse().ok());
    let first = rustix::process::Pid::from_raw(first).expect("a process");
    rustix::process::kill_process(first, Signal::HUP).expect("it runs");
    assert_eq!(answer(connect()), "200");
    rustix::process::kill_process(first, Signal::TERM).expect("it runs");
    program.wait_for_log("ending on SIGTERM");
    let waiting: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
    assert!(
        waiting.into_iter().all(|stream| answer(stream) == "200"),
        "the next server answers the waiting connections"
    );
}
