//! Tests with two terminals and another client in one session: they answer the same question, and only the first answer counts.

use crate::base::slots::Key;
use crate::base::test_random::Random;
use crate::core::Input as CoreInput;
use crate::core::test_core::TestCore;
use crate::task::message::Source;
use crate::ui::app::Ui;
use crate::ui::format::style::{Colours, Style};
use crate::ui::output::block::Viewer;
use crate::ui::output::paint::Size;
use crate::ui::{Input, Notify, Setup, UiEffect};
use serde_json::{Value, json};

/// A terminal, its connection, and the lines that it has not read yet.
struct Terminal {
    ui: Ui,
    conn: Key,
    unread: Vec<String>,
    painted: String,
}

fn setup() -> Setup {
    let me = Source::new("you", "terminal");
    let viewer = Viewer { me, workspace: "/w".into(), home: "/h".into() };
    let style = Style { colours: Colours::None, background: None, themed: false, unicode: true };
    Setup { notify: Notify::Off, nonce: "n".into(), ..Setup::new(viewer, style) }
}

impl Terminal {
    fn connected(test: &mut TestCore) -> Terminal {
        let conn = test.core.terminal(test.now);
        let ui = Ui::new(setup(), Size { columns: 80, rows: 24 }, test.now);
        let mut terminal = Terminal { ui, conn, unread: Vec::new(), painted: String::new() };
        terminal.take(test, Input::Connected);
        terminal
    }

    fn take(&mut self, test: &mut TestCore, input: Input) {
        for effect in self.ui.take(input, test.now) {
            if let UiEffect::Send(frame) = effect {
                send(test, self.conn, &frame);
            }
        }
        self.painted += &String::from_utf8(self.ui.paint(test.now)).expect("text");
    }

    /// Reads the next line that the server has sent, if there is one.
    fn read(&mut self, test: &mut TestCore) -> bool {
        self.unread.extend(test.take(self.conn).lines().map(str::to_owned));
        if self.unread.is_empty() {
            return false;
        }
        let line = self.unread.remove(0);
        self.take(test, Input::Frame(&line));
        true
    }

    fn read_all(&mut self, test: &mut TestCore) {
        while self.read(test) {}
    }
}

fn send(test: &mut TestCore, conn: Key, frame: &str) {
    let line = format!("{frame}\n");
    test.core.input(CoreInput::Received { conn, bytes: line.as_bytes() }, test.now);
    test.turns();
}

/// A client without a terminal that watches the session.
fn client(test: &mut TestCore) -> (Key, String) {
    let conn = test.core.terminal(test.now);
    send(test, conn, r#"{"id":1,"call":{"session":{}}}"#);
    let answer: Value = serde_json::from_str(&test.take(conn)).expect("an answer");
    let session = answer["ok"].as_str().expect("an id").to_owned();
    send(test, conn, &json!({"id": 2, "call": {"watch": {"task": session}}}).to_string());
    (conn, session)
}

fn wait(test: &mut TestCore, ms: u64) {
    test.now.mono_ms += ms;
    test.now.unix_ms += ms;
}

/// A session that another client begins takes the place of the one on the screen.
#[test]
fn a_terminal_follows_the_session_that_another_client_begins() {
    let mut test = TestCore::new();
    let mut terminal = Terminal::connected(&mut test);
    terminal.read_all(&mut test);
    let (other, first) = client(&mut test);
    send(&mut test, other, r#"{"id":3,"call":{"session":{"new":true}}}"#);
    let frames = test.take(other);
    let mut answer = frames.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let answer = answer.rfind(|frame| frame["id"] == 3).expect("an answer");
    let second = answer["ok"].as_str().expect("an id").to_owned();
    assert_ne!(first, second);
    let say = json!({"task": second, "text": "in the second session"});
    send(&mut test, other, &json!({"id": 4, "call": {"say": say}}).to_string());
    wait(&mut test, 20);
    terminal.read_all(&mut test);
    wait(&mut test, 20);
    terminal.take(&mut test, Input::Tick);
    assert!(terminal.painted.contains("in the second session"), "{}", terminal.painted);
}

#[test]
fn of_three_simultaneous_answers_one_counts() {
    let mut random = Random::new(5);
    let mut winners = [0; 3];
    for run in 0..1_000 {
        let mut test = TestCore::new();
        let mut terminals = [Terminal::connected(&mut test), Terminal::connected(&mut test)];
        terminals.iter_mut().for_each(|terminal| terminal.read_all(&mut test));
        let (client, session) = client(&mut test);
        let task = session.as_str().into();
        test.say(&task);
        test.ask_to_run(&task, "c");
        test.take(client);
        terminals.iter_mut().for_each(|terminal| terminal.read_all(&mut test));
        wait(&mut test, 20);
        terminals.iter_mut().for_each(|terminal| terminal.take(&mut test, Input::Tick));
        wait(&mut test, 400);
        // One terminal allows the call once, the other one refuses it, and the client allows it always, in a random order.
        let mut unanswered = vec![0, 1, 2];
        while !unanswered.is_empty() {
            match (random.below(2), random.below(unanswered.len())) {
                (0, _) => _ = terminals[random.below(2)].read(&mut test),
                (_, at) => match unanswered.remove(at) {
                    2 => {
                        let answer = json!({"task": session, "call": "c", "option": "proceed_always"});
                        send(&mut test, client, &json!({"id": 3, "call": {"answer": answer}}).to_string());
                    }
                    who => terminals[who].take(&mut test, Input::Bytes([b"1", b"3"][who])),
                },
            }
        }
        wait(&mut test, 20);
        terminals.iter_mut().for_each(|terminal| terminal.read_all(&mut test));
        let frames = test.take(client);
        let frames = frames.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
        let answers: Vec<Value> =
            frames.map(|frame| frame["event"]["call_answered"].clone()).filter(|event| !event.is_null()).collect();
        assert_eq!(answers.len(), 1, "run {run}: {answers:?}");
        let winner = match answers[0]["choice"].as_str() {
            Some("proceed_once") => 0,
            Some("cancel") => 1,
            _ => 2,
        };
        winners[winner] += 1;
        assert_eq!(test.state(&task).asked().count(), 0, "run {run}: it is answered");
        for (who, terminal) in terminals.iter_mut().enumerate() {
            wait(&mut test, 20);
            terminal.take(&mut test, Input::Tick);
            let last = |mode: &str| terminal.painted.rfind(mode);
            assert!(last("\x1b[?25h") > last("\x1b[?25l"), "run {run}: terminal {who} asks no more");
        }
    }
    assert!(winners.iter().all(|wins| *wins > 100), "{winners:?}");
}
