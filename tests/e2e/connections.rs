//! Many connections: those of another user, silent ones, and those of stalled readers.

use crate::drive::{can_be_another_user, has};
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::fake::FakeGemini;
use crate::support::message::{prompt, state_of};
use crate::support::server::{Server, Setup};
use crate::support::socket::Socket;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A server that may have 128 connections, 32 of them of other users.
fn small(fake: &FakeGemini) -> Server {
    Setup::of("/bin/sh".as_ref())
        .arg("-c")
        .arg(format!("ulimit -n 256; exec {} serve \"$@\"", env!("CARGO_BIN_EXE_gemini-a2a")))
        .arg("server")
        .env("GEMINI_API_KEY", "fake")
        .env("GOOGLE_GEMINI_BASE_URL", fake.url())
        .start()
}

/// A process of another user that holds silent connections open until the value is dropped.
struct OtherUser(Child);

impl OtherUser {
    fn with(connections: usize, port: u16) -> OtherUser {
        const OPEN: &str = "for i in $(seq $1); do exec {fd}<>/dev/tcp/127.0.0.1/$2; done; echo ready; read";
        let mut child = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", OPEN, "flood"])
            .args([connections.to_string(), port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash as another user");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        OtherUser(child)
    }
}

impl Drop for OtherUser {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Makes requests on as many new connections, and runs a turn.
fn expect_service(server: &Server, requests: usize) {
    let client = || Client::new(&server.url());
    for n in 0..requests {
        assert_eq!(client().get("/health").status(), 200, "request {n}");
    }
    let task = client().call("message/send", prompt("TEXT hello"));
    assert_eq!(state_of(&task), Some("input-required"), "{task}");
}

#[test]
fn another_user_cannot_use_up_the_connections() {
    if !can_be_another_user() || !has("bash") {
        return;
    }
    let fake = FakeGemini::start();
    let server = small(&fake);
    // Requests that have begun before continue.
    let mut stream = Client::new(&server.url()).stream("message/stream", prompt("TEXT begun ++ HOLD ++ TEXT ended"));
    stream.until("the first words", |event| event.json.to_string().contains("begun"));
    let _strangers: Vec<OtherUser> = (0..3).map(|_| OtherUser::with(200, server.port())).collect();
    expect_service(&server, 100);
    fake.release();
    assert!(stream.any(|event| event.json.to_string().contains("ended")));
    let message = "other users of this machine have 32 connections open";
    assert_eq!(server.output().matches(message).count(), 1, "{}", server.output());
}

#[test]
fn silent_connections_are_closed_when_the_limit_is_reached() {
    let fake = FakeGemini::start();
    let server = small(&fake);
    let connect = |_| TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    let _silent: Vec<TcpStream> = (0..300).map(connect).collect();
    expect_service(&server, 100);
    // The same for kept-alive connections without a request.
    let mut rest: Vec<Client> = (0..200).map(|_| Client::new(&server.url())).collect();
    for client in &mut rest {
        assert_eq!(client.get("/health").status(), 200);
    }
    expect_service(&server, 100);
}

/// The bytes in the kernel's send buffer of the server's connection to `port`; None if that connection is closed.
fn send_buffer_of(port: u16, server: &Server) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the table of connections");
    let ends = [format!(":{:04X}", server.port()), format!(":{port:04X}")];
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, remote) = (fields.get(1)?, fields.get(2)?);
        let queued = fields.get(4)?.split(':').next()?;
        (local.ends_with(&ends[0]) && remote.ends_with(&ends[1])).then(|| u64::from_str_radix(queued, 16).ok())?
    })
}

#[test]
fn a_stalled_reader_uses_little_memory_and_is_reset() {
    let fake = FakeGemini::start();
    let server = Setup::new(&fake).start();
    // Another client starts a turn with megabytes of text.
    let client = Client::new(&server.url());
    let task = client.stream("message/stream", prompt("STREAM 1500 0 4096")).find_map(|event| {
        let task = event.json["result"]["taskId"].as_str().or(event.json["result"]["id"].as_str());
        task.map(str::to_owned)
    });
    let task = task.expect("a task");
    let mut stopped = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    let port = stopped.local_addr().expect("an address").port();
    let request = client.bytes("GET", &format!("/v1/tasks/{task}:subscribe?after=0"), &[], b"");
    stopped.write_all(&request).expect("a request");
    eventually("the kernel holds something", || send_buffer_of(port, &server).filter(|held| *held > 0));
    let mut most = 0;
    // The client reads nothing until the server resets the connection.
    eventually("the connection is cut off", || {
        let held = send_buffer_of(port, &server);
        most = most.max(held.unwrap_or(0));
        held.is_none().then_some(())
    });
    // The kernel doubles the configured size for its own use and accepts one more piece. Without a limit it takes megabytes.
    assert!(most <= 4 * 64 * 1024, "the kernel held {most} bytes for a peer that does not read");
    let end = stopped.read_to_end(&mut Vec::new()).expect_err("not as if that had been all");
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset, "{end}");
    // A client that reads gets all events and the end of the stream.
    let whole = Client::new(&server.url()).events("GET", &format!("/v1/tasks/{task}:subscribe?after=0"), &[], b"");
    assert!(whole.count() > 1_000);
}

/// A socket is not read while a worker decodes its long message. The server must continue to read without a new readiness event.
#[test]
fn long_messages_follow_each_other_on_a_socket() {
    let fake = FakeGemini::start();
    let server = Server::start(&fake);
    let mut socket = Socket::open(&server.url(), "/ws", Some("a2a.v1.0"));
    let pad = "x".repeat(100_000);
    let text = format!("HANG\n{pad}");
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]});
    // The turn does not end, so the server writes nothing meanwhile.
    socket.send_all(&[
        json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "GetTask", "params": {"id": "none", "pad": pad}}),
    ]);
    while socket.read_before_ping()["id"] != 2 {}
}
