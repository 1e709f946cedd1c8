//! The Agent Client Protocol over WebSocket, and a session that an editor, WebSocket clients and others share.

use crate::editor::{Editor, Program, Running, lines};
use crate::support::PATIENCE;
use crate::support::client::Client;
use crate::support::fake::FakeGemini;
use crate::support::server::Server;
use crate::support::socket::Socket;
use serde_json::{Value, json};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

fn client(url: &str, path: &str, protocol: Option<&str>) -> Editor {
    let mut editor = Editor::over(Socket::open(url, path, protocol));
    assert_eq!(editor.initialize(json!({}))["result"]["protocolVersion"], 1);
    editor
}

fn load(editor: &mut Editor, session: &str) -> Value {
    editor.ask("session/load", json!({"sessionId": session, "cwd": "/", "mcpServers": []}))
}

#[test]
fn an_editor_and_other_clients_share_a_session() {
    let program = Program::new();
    let (running, mut editor, session) = program.begin(&["--a2a-port", "0"]);
    let url = Running::url(&running);
    let mut other = client(&url, "/ws", None);
    assert_eq!(other.open(&program.workspace()), session);
    let mut plain = Socket::open(&url, "/ws", None);
    // Prompts of others are shown with their sender.
    plain.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": {"content": {"text": "WRITE a.txt hi"}}}}));
    for seen in [&mut editor, &mut other] {
        let prompt = seen.update("user_message_chunk");
        let text = prompt["content"]["text"].as_str().expect("a text");
        assert!(text.starts_with("[A2A] ") && text.ends_with(": WRITE a.txt hi"), "{text}");
    }
    // Both clients get the question. The first answer counts, and the request to the other one is withdrawn.
    let (first, second) = (editor.asked("session/request_permission"), other.asked("session/request_permission"));
    other.select(&second, "proceed_once");
    let withdrawn = editor.asked("$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], first["id"]);
    editor.select(&first, "cancel");
    plain.until(|event| {
        event["state"] == "input-required" && event["final"] == true && program.workspace().join("a.txt").exists()
    });
    // A prompt of the editor is shown to all others, and only the editor gets its response.
    assert_eq!(editor.prompt(&session, "TEXT from the editor"), "end_turn");
    assert_eq!(
        other.until(|m| m["params"]["update"]["content"]["text"] == "TEXT from the editor")["method"],
        "session/update"
    );
    plain.until(|event| event["content"]["text"] == "from the editor");
    // A mode that one client chooses is reported to the other.
    other.ask("session/set_mode", json!({"sessionId": session, "modeId": "plan"}));
    assert_eq!(editor.update("current_mode_update")["currentModeId"], "plan");
}

#[test]
fn every_endpoint_gives_its_session() {
    let fake = FakeGemini::start();
    let server = Server::start(&fake);
    let (url, cwd) = (server.url(), server.workspace());
    let mut offered = Editor::over(Socket::open(&url, "/ws", Some("acp")));
    offered.initialize(json!({}));
    let live = offered.open("/nowhere".as_ref());
    for (path, protocol) in [("/ws", None), ("/ws/acp", None), ("/ws/acp", Some("acp")), ("/ws", Some("x, acp"))] {
        let socket = Socket::open(&url, path, protocol);
        assert_eq!(socket.protocol.as_deref(), protocol.map(|_| "acp"), "{path}");
        let mut editor = Editor::over(socket);
        editor.initialize(json!({}));
        let answer = editor.ask("session/new", json!({"cwd": "/x", "mcpServers": [{"any": "thing"}]}));
        assert_eq!(answer["result"]["sessionId"], json!(live), "{path} {protocol:?}");
        assert_eq!(answer["result"]["_meta"]["workspace"], json!(cwd.canonicalize().expect("a path")));
    }
    let mut own = client(&url, "/acp", None);
    let server = json!([{"name": "x", "command": "/bin/true", "args": [], "env": []}]);
    let refused = own.ask("session/new", json!({"cwd": cwd, "mcpServers": server}));
    assert_eq!(refused["error"]["code"], -32602, "no programs from the network: {refused}");
    let session = own.open(&cwd);
    assert_ne!(session, live);
    assert_eq!(own.prompt(&session, "TEXT x"), "end_turn");
    let listed = own.ask("session/list", json!({}));
    let ids: Vec<&Value> =
        listed["result"]["sessions"].as_array().expect("a list").iter().map(|s| &s["sessionId"]).collect();
    assert_eq!(ids, [&json!(live), &json!(session)]);
    assert!(load(&mut own, &live)["result"].is_object());
    // Batches are refused, binary messages are ignored.
    own.socket().send_bytes(b"{}");
    own.socket().send(&json!([]));
    let refused = own.until(|message| message.get("error").is_some());
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)));
}

#[test]
fn the_shared_session_cannot_be_closed_or_deleted() {
    let fake = FakeGemini::start();
    let server = Server::start(&fake);
    let mut first = client(&server.url(), "/ws/acp", None);
    let mut second = client(&server.url(), "/ws/acp", None);
    let session = first.open(&server.workspace());
    assert_eq!(second.open(&server.workspace()), session);
    let prompt = first.say(&session, "TEXT half ++ HOLD ++ TEXT whole");
    second.until(|message| message["params"]["update"]["content"]["text"] == "half");
    assert_eq!(second.ask("session/close", json!({"sessionId": session}))["result"], json!({}));
    fake.release();
    assert_eq!(first.answer(prompt)["result"]["stopReason"], "end_turn", "the turn of the other client continues");
    assert_eq!(second.ask("session/delete", json!({"sessionId": session}))["error"]["code"], -32602);
    assert_eq!(first.prompt(&session, "TEXT on"), "end_turn");
}

#[test]
fn a_lost_connection_stops_nothing_and_its_questions_are_asked_again() {
    let fake = FakeGemini::start();
    let server = Server::start(&fake);
    let mut lost = client(&server.url(), "/ws/acp", None);
    let session = lost.open(&server.workspace());
    lost.say(&session, "WRITE a.txt hello");
    lost.asked("session/request_permission");
    drop(lost);
    for method in ["session/load", "session/resume"] {
        let mut again = client(&server.url(), "/acp", None);
        let params = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
        assert!(again.ask(method, params)["result"].is_object(), "the answer comes before the question");
        let request = again.asked("session/request_permission");
        if method == "session/resume" {
            again.select(&request, "proceed_once");
            again.until(|message| message["params"]["update"]["status"] == "completed");
        }
    }
    assert!(server.workspace().join("a.txt").exists());
}

#[test]
fn plain_http_requests_get_an_error_that_names_the_alternatives() {
    let fake = FakeGemini::start();
    let server = Server::start(&fake);
    let mut client = Client::new(&server.url());
    let answer = client
        .post("/acp", &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}));
    assert_eq!(answer.status(), 405);
    assert!(answer.text().contains("WebSocket"), "{}", answer.text());
    assert_eq!(client.get("/acp").status(), 405);
}

/// A TCP proxy in front of the server, whose connections can be cut.
struct Proxy {
    port: u16,
    is_down: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let proxy = Proxy { port, is_down: Arc::default(), streams: Arc::default() };
        let (is_down, streams) = (proxy.is_down.clone(), proxy.streams.clone());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok).filter(|_| !is_down.load(Ordering::SeqCst)) {
                let server = TcpStream::connect(("127.0.0.1", to)).expect("the server listens");
                let handle = |stream: &TcpStream| stream.try_clone().expect("a second handle");
                streams.lock().expect("no panic").push(handle(&client));
                for (mut from, mut to) in [(handle(&client), handle(&server)), (server, client)] {
                    thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                    });
                }
            }
        });
        proxy
    }

    fn cut(&self) {
        self.is_down.store(true, Ordering::SeqCst);
        for stream in self.streams.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// The editor opens another session, which `watch` follows. Events of a time in which `watch` is disconnected are not lost.
#[test]
fn a_watch_continues_on_the_session_that_it_followed() {
    let program = Program::new();
    let (running, mut editor, first) = program.begin(&["--a2a-port", "0"]);
    let port = running.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let proxy = Proxy::start(port);
    assert_eq!(editor.prompt(&first, "TEXT One."), "end_turn");
    let mut watch = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"))
        .args(["watch", "--url", &proxy.port.to_string()])
        .env_clear()
        .env("HOME", program.dir.folder("home"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let lines = lines(watch.stdout.take().expect("a pipe"));
    let next = || lines.recv_timeout(PATIENCE).expect("a line");
    assert_eq!(next(), "[A2A] test: TEXT One.");
    assert_eq!(next(), "Agent: One.");
    let second = editor.open(&program.workspace());
    assert_eq!(editor.prompt(&second, "TEXT Two."), "end_turn");
    assert_eq!([next(), next()], ["[A2A] test: TEXT Two.", "Agent: Two."]);
    proxy.cut();
    assert_eq!(editor.prompt(&second, "TEXT Three."), "end_turn");
    proxy.is_down.store(false, Ordering::SeqCst);
    assert_eq!([next(), next()], ["[A2A] test: TEXT Three.", "Agent: Three."]);
    watch.kill().expect("our own child");
    watch.wait().expect("our own child");
}
