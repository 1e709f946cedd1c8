//! An editor, a terminal and a page in a browser share a session: the prompts of each are shown to all, and the first answer counts.

use crate::editor::{Program, Running};
use crate::pty::{PROGRAM, Pty, TestDirs};
use crate::support::socket::Socket;
use serde_json::{Value, json};

/// A page in a browser, which speaks `gemini-a2a.v1`.
struct Page {
    socket: Socket,
    last: u64,
}

impl Page {
    fn open(url: &str) -> Page {
        let socket = Socket::open_from(url, "/ws?client=page", Some("gemini-a2a.v1"), url);
        assert_eq!(socket.protocol.as_deref(), Some("gemini-a2a.v1"));
        Page { socket, last: 0 }
    }

    fn call(&mut self, name: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.socket.send(&json!({"id": id, "call": {name: params}}));
        let answer = self.socket.until(|frame| frame["id"] == id);
        assert!(answer.get("ok").is_some(), "{name}: {answer}");
        answer["ok"].clone()
    }

    fn event(&mut self, name: &str) -> Value {
        self.socket.until(|frame| frame["event"].get(name).is_some())["event"][name].clone()
    }
}

#[test]
fn an_editor_a_terminal_and_a_page_share_a_session() {
    let program = Program::new();
    let (running, mut editor, session) = program.begin(&["--a2a-port", "0"]);
    let url = Running::url(&running);
    let mut page = Page::open(&url);
    page.call("watch", json!({"task": session, "after": 0}));
    let place = TestDirs::new();
    let mut terminal = Pty::start(&place, &[], &[PROGRAM, "attach", &url, "--name", "ann"]);
    terminal.wait("Ask anything");

    // The terminal sends a prompt: editor and page see it with its sender.
    terminal.say("WRITE a.txt from the terminal");
    let text = editor.update("user_message_chunk")["content"]["text"].as_str().expect("a text").to_owned();
    assert!(text.contains("ann: WRITE a.txt from the terminal"), "{text}");
    assert_eq!(page.event("prompted")["by"]["client"], "ann");
    // All three get the question. The editor answers, and the two others see who answered.
    let request = editor.asked("session/request_permission");
    page.event("call_asked");
    terminal.wait("? Write a.txt");
    editor.select(&request, "proceed_once");
    assert_eq!(page.event("call_answered")["by"]["via"], "acp");
    terminal.wait("allowed by test");
    page.event("turn_ended");
    assert!(program.workspace().join("a.txt").exists());

    // The page sends a prompt, and the terminal answers the question: the request of the editor is withdrawn.
    page.call("say", json!({"task": session, "text": "WRITE b.txt from the page"}));
    terminal.wait("page: WRITE b.txt from the page");
    let request = editor.asked("session/request_permission");
    terminal.wait("? Write b.txt");
    // A question does not get the keys while somebody is typing.
    if terminal.wait_or(&["tab answers", "Esc = no"]) == 0 {
        terminal.keys("\t");
        terminal.wait("Esc = no");
    }
    let is_written = || program.workspace().join("b.txt").exists();
    terminal.press_until("1", is_written);
    assert_eq!(editor.asked("$/cancel_request")["params"]["requestId"], request["id"]);
    let answered = page.event("call_answered");
    assert_eq!((&answered["by"]["client"], &answered["choice"]), (&json!("ann"), &json!("proceed_once")));
    page.event("turn_ended");

    // The editor sends a prompt, and the page answers the question.
    let prompt = editor.say(&session, "WRITE c.txt from the editor");
    let call = page.event("call_asked")["call"].clone();
    terminal.wait("? Write c.txt");
    page.call("answer", json!({"task": session, "call": call, "option": "proceed_once"}));
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    terminal.wait("allowed by page");
    assert!(program.workspace().join("c.txt").exists());

    // A client that disconnects does not end the session.
    terminal.keys("\x03\x03");
    assert!(terminal.end().0.success());
    drop(page);
    assert_eq!(editor.prompt(&session, "TEXT still here"), "end_turn");
}
