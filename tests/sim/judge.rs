//! Whether an answer is right: compared, as a whole, with what the log on disk says it must be. Nothing here knows how the
//! server came to its answer.

use crate::ask::{Ask, Mode, What};
use crate::ledger::{Ledger, Log};
use gemini_a2a::a2a;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::machine::state::{State, TaskState};
use serde_json::Value;
use std::collections::BTreeMap;

/// What has happened in all runs, so that a run that tests nothing is noticed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub fn add(&mut self, other: &Tally) {
        for (what, n) in &other.0 {
            *self.0.entry(what).or_default() += n;
        }
    }

    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }
}

/// What a judge needs to know beside the answer.
pub struct Court<'a> {
    pub ledger: &'a mut Ledger,
    pub tally: &'a mut Tally,
    /// The disk was told to fail in this run, so errors may speak of it.
    pub troubled: bool,
}

impl Court<'_> {
    /// A whole answer that is not a stream.
    pub fn judge(&mut self, ask: &Ask, status: u16, body: &[u8]) {
        self.ledger.refresh();
        match &ask.what {
            What::Garbage => assert!(matches!(status, 400 | 413 | 431), "{status} for garbage"),
            What::Nonsense => {
                assert!(matches!(status, 200 | 404 | 405), "{status} for nonsense");
                assert!(status != 200 || json(body).get("error").is_some());
            }
            What::Health => self.health(status, &json(body)),
            What::Card => assert_eq!((status, &json(body)["protocolVersion"]), (200, &"0.3.0".into())),
            What::Create if status == 201 => {
                let task = json(body).as_str().expect("an id").into();
                assert!(self.ledger.log(&task).is_some(), "{task} was shown before it was on disk");
            }
            What::AllMetadata => self.listed(status, body),
            What::Metadata(task) if status == 200 => {
                let log = self.ledger.log(task).expect("a task that is shown is on disk");
                let shows = |seq: &Seq| {
                    let state = log.state(*seq).expect("counted down from the last");
                    a2a::metadata(state, &self.ledger.tools).body[..] == *body
                };
                assert!(log.back_to(ask.known).any(|seq| shows(&seq)), "metadata of no state on disk");
            }
            What::Create | What::Metadata(_) => {
                let error = &json(body)["error"];
                match (status, error.as_str()) {
                    (404, Some("Task not found")) => self.lost(ask),
                    (503, Some(_)) => self.tally.count("turned away"),
                    (500, Some(_)) => self.trouble(ask),
                    other => panic!("{ask:?} was answered with {other:?}"),
                }
            }
            What::SetHook { .. } | What::DropHook(_) => match unwrap(ask, body) {
                Some(_) => self.hooked(ask, status),
                None => self.refusal(ask, status, body),
            },
            What::Say { .. } | What::Get { .. } | What::Cancel(_) | What::Watch { .. } => match unwrap(ask, body) {
                Some(result) => {
                    assert_eq!(status, 200);
                    self.result(ask, result);
                }
                None => self.refusal(ask, status, body),
            },
        }
    }

    /// It is alive, and unwell only where the disk is.
    fn health(&mut self, status: u16, health: &Value) {
        assert_eq!(status, 200);
        let problem = health.get("problem").and_then(Value::as_str);
        match (health["status"].as_str(), problem) {
            (Some("healthy"), None) => {}
            (Some("degraded"), Some(problem)) if self.troubled => {
                assert!(problem.contains("cannot be written"), "{problem}");
                self.tally.count("was unwell");
            }
            other => panic!("{other:?} is no health"),
        }
    }

    /// A webhook that was set is on disk.
    fn hooked(&mut self, ask: &Ask, status: u16) {
        assert_eq!(status, 200);
        let What::SetHook { task, url } = &ask.what else {
            return self.tally.count("dropped a webhook");
        };
        let mut log = self.ledger.log(task).into_iter().flat_map(|log| &log.records);
        let found = log.any(|record| matches!(&record.event, Event::HookSet { target } if target.url == *url));
        assert!(found, "{ask:?} was acknowledged before it was on disk");
        self.tally.count("set a webhook");
    }

    /// The answer is a task: it must be the task as it stood at some time since the request, with nothing in it that is not
    /// on disk.
    fn result(&mut self, ask: &Ask, result: &[u8]) {
        let (history, task) = match &ask.what {
            What::Say { task: Some(task), history, .. } | What::Get { task, history } => (*history, task.clone()),
            What::Say { history, .. } => {
                let id = json(result)["id"].as_str().expect("a task has an id").into();
                (*history, id)
            }
            What::Cancel(task) => (None, task.clone()),
            other => panic!("{other:?} was answered with a task"),
        };
        let view = self.ledger.view;
        let log = self.ledger.log(&task);
        let log = log.unwrap_or_else(|| panic!("{task} was shown before it was on disk"));
        let suits = |state: &State| match &ask.what {
            What::Say { mode: Mode::Wait, .. } => {
                !matches!(state.status.state, TaskState::Submitted | TaskState::Working)
            }
            What::Cancel(_) => state.status.state == TaskState::Canceled,
            _ => true,
        };
        let shown = log.back_to(ask.known).find(|seq| {
            let state = log.state(*seq).expect("counted down from the last");
            suits(state) && a2a::snapshot(view, state, a2a::Wanted::newest(history)) == result
        });
        assert!(
            shown.is_some(),
            "{ask:?} was answered with a state that is not on disk: {}",
            String::from_utf8_lossy(result)
        );
        self.tally.count(match ask.what {
            What::Say { mode: Mode::Wait, .. } => "waited for a turn",
            What::Cancel(_) => "canceled",
            _ => "shown a task",
        });
    }

    fn listed(&mut self, status: u16, body: &[u8]) {
        if status == 204 {
            return;
        }
        assert_eq!(status, 200);
        for entry in json(body).as_array().expect("a list") {
            let task: TaskId = entry["id"].as_str().expect("an id").into();
            let log = self.ledger.log(&task);
            let log = log.unwrap_or_else(|| panic!("{task} was listed before it was on disk"));
            let was_so = log.states.iter().rev().any(|state| {
                let shown = a2a::metadata(state, &self.ledger.tools).body;
                json(&shown)["metadata"]["taskState"] == entry["taskState"]
            });
            assert!(was_so, "{task} was listed in a state that is not on disk");
        }
    }

    /// The answer is an error: it must be one that can be true.
    pub fn refusal(&mut self, ask: &Ask, status: u16, body: &[u8]) {
        let answer = json(body);
        assert_eq!(answer["id"], ask.number, "{ask:?}: {status} {answer} answers something else");
        let error = &answer["error"];
        let reason = error["data"]["reason"].as_str().unwrap_or_default();
        let over = ask.task().is_some_and(|task| !self.ledger.is_open(task));
        let says = matches!(ask.what, What::Say { .. });
        match error["code"].as_i64().expect("an error has a code") {
            -32001 => self.lost(ask),
            -32002 => assert!(over && matches!(ask.what, What::Cancel(_)), "not cancelable"),
            -32600 => assert!(over && says, "{ask:?}: {error}"),
            -32602 if matches!(ask.what, What::SetHook { .. }) => {
                self.tally.count("had too many webhooks");
            }
            -32602 => {
                assert!(says, "{ask:?}: {error}");
                self.tally.count(match reason {
                    "TOOL_CALL_NOT_PENDING" => "answered late",
                    "UNKNOWN_OPTION" => "answered wrongly",
                    _ => "named a wrong context",
                });
            }
            -32603 if status == 503 || reason == "OVERLOADED" => self.tally.count("turned away"),
            -32603 => {
                if let What::Cancel(_) = ask.what
                    && error["message"].as_str().is_some_and(|message| message.contains("The task was stopped"))
                {
                    self.tally.count("stopped without a record");
                }
                self.trouble(ask);
            }
            code => panic!("{ask:?} was refused with {code}: {error}"),
        }
    }

    /// A stream was told to wait for the disk.
    pub fn told_of_the_disk(&mut self) {
        assert!(self.troubled, "a stream waits for a disk that works");
        self.tally.count("told a stream of the disk");
    }

    fn lost(&mut self, ask: &Ask) {
        assert_eq!(ask.known, Seq(0), "{ask:?}: a task that is on disk is not found");
        self.tally.count("not found");
    }

    fn trouble(&mut self, ask: &Ask) {
        assert!(self.troubled, "{ask:?}: trouble with a disk that works");
        self.tally.count("told of the disk");
    }
}

/// A stream under way: what it must show next.
#[derive(Debug, Default)]
pub struct Flow {
    pub task: Option<TaskId>,
    /// Everything up to here has been seen. None before the first frame.
    pub cursor: Option<Seq>,
    /// The turn it waits for and from where on that counts, when the log tells.
    until: Option<(u32, Seq)>,
    /// It began with the whole task, at this position.
    snapshot: Option<Seq>,
    /// Its last frame has come.
    pub ended: bool,
}

impl Flow {
    pub fn new(ask: &Ask) -> Flow {
        Flow { task: ask.task().cloned(), ..Flow::default() }
    }

    pub fn frame(&mut self, court: &mut Court<'_>, ask: &Ask, id: Option<&str>, name: Option<&str>, data: &str) {
        assert!(!self.ended, "{ask:?}: a frame after the last one: {data}");
        let data = data.as_bytes();
        let Some(id) = id else {
            let begun = self.cursor.is_some();
            assert!(!begun || name == Some("error"), "only errors have no position");
            self.ended = true;
            court.ledger.refresh();
            return court.refusal(ask, 200, data);
        };
        assert_eq!(name, None, "events of 0.3 have no names");
        let seq = Seq(id.parse().expect("an id is a number"));
        let body = unwrap(ask, data).expect("a frame with a position is a result");
        let task = self.task.get_or_insert_with(|| json(body)["id"].as_str().expect("a new task comes first").into());
        let task = &task.clone();
        let (view, tools) = (court.ledger.view, court.ledger.tools.clone());
        let log = court.ledger.read(task);
        assert!(seq.0 <= log.len(), "event {seq} of {task} was seen, but on disk are only {}", log.len());
        let history = match &ask.what {
            What::Say { history, .. } => *history,
            _ => None,
        };
        if self.cursor.is_none() && starts_over(ask) {
            let state = log.state(seq).expect("it is on disk");
            if a2a::snapshot(view, state, a2a::Wanted::newest(history)) == body {
                court.tally.count("began with a snapshot");
                self.snapshot = Some(seq);
                self.cursor = Some(seq);
                if matches!(ask.what, What::Say { .. }) {
                    self.until = Some((1, seq.next()));
                }
                return;
            }
            // A position from the future may have been reached in the meantime.
            assert!(matches!(ask.what, What::Watch { after: Some(_), .. }), "{ask:?} must begin with the task");
        }
        if self.cursor.is_none() && self.enter(log, ask, seq, body, &|state| a2a::present(view, state, &tools)) {
            court.tally.count("answered at once while paused");
            self.ended = true;
            return;
        }
        let cursor = self.cursor.expect("entered");
        assert_eq!(
            log.visible_after(cursor),
            Some(seq),
            "{ask:?}: behind {cursor} comes something else; the log ends with {:#?}",
            log.tail(14)
        );
        let expected = log.body(seq).expect("it is visible");
        let last = *body != expected.open[..];
        if last {
            let closing = expected.closing.as_ref();
            assert_eq!(
                String::from_utf8_lossy(body),
                closing.map(|closing| String::from_utf8_lossy(closing)).unwrap_or_default(),
                "event {seq} of {task} is something else on disk"
            );
        }
        let event = &log.record(seq).expect("it is visible").event;
        match self.until {
            Some(until) => assert_eq!(last, ends(until, seq, event), "{ask:?}: final at {seq}"),
            None => assert!(!last || ends((0, Seq(0)), seq, event)),
        }
        self.cursor = Some(seq);
        self.ended = last;
        court.tally.count(if last { "came to an end" } else { "frames" });
    }

    /// Where a stream on a known task begins; true if its one frame is the present state of a task that waits for answers.
    fn enter(
        &mut self,
        log: &Log,
        ask: &Ask,
        seq: Seq,
        body: &[u8],
        present: &dyn Fn(&State) -> Option<Vec<u8>>,
    ) -> bool {
        if let What::Watch { after, .. } = &ask.what {
            self.cursor = *after;
            assert!(after.is_some(), "without a position the task comes first");
            return false;
        }
        let tag = ask.tag();
        let mut own = log.records.iter().filter(|record| match &record.event {
            Event::Prompted { by, .. } | Event::CallAnswered { by, .. } => by.client == tag,
            _ => false,
        });
        let first = own.clone().next().expect("what was said is in the log");
        // It may have let an interrupted turn go on first.
        let resumed = log.record(Seq(first.seq.0 - 1));
        let resumed = resumed.is_some_and(|record| record.event == Event::Resumed);
        let cursor = Seq(first.seq.0 - if resumed { 2 } else { 1 });
        let before = log.state(cursor).expect("a task was there before");
        let turn = own.clone().find_map(|record| match &record.event {
            Event::Prompted { turn, .. } => Some(*turn),
            _ => None,
        });
        let answered = own.any(|record| matches!(record.event, Event::CallAnswered { .. }));
        self.until = Some((turn.unwrap_or(before.turn), cursor.next()));
        self.cursor = Some(cursor);
        let stuck = before.paused && !answered;
        assert!(
            !stuck || present(log.state(seq).expect("on disk")).as_deref() == Some(body),
            "{ask:?}: a prompt behind open questions is answered with the present state"
        );
        stuck
    }

    /// The stream ended as HTTP has it. It must have said so, or have had nothing to say.
    pub fn complete(&self, court: &mut Court<'_>, ask: &Ask) {
        if self.ended {
            return;
        }
        let task = self.task.as_ref();
        let task = task.unwrap_or_else(|| panic!("{ask:?} just stopped"));
        let log = court.ledger.read(task);
        let rests = |seq: Seq| log.state(seq).is_some_and(|s| s.is_idle() || s.is_over());
        match (&ask.what, self.snapshot, self.cursor) {
            (What::Watch { .. }, Some(at), _) => {
                assert_eq!(self.cursor, Some(at), "{ask:?} just stopped behind {at}");
                assert!(rests(at), "{ask:?} stopped after a snapshot of a task that works");
            }
            (What::Watch { after: Some(after), .. }, None, None) => {
                let over = log
                    .back_to(ask.known)
                    .any(|seq| rests(seq) && log.state(seq).is_some_and(|s| s.status.seq <= (*after).max(Seq(1))));
                assert!(over, "{ask:?} showed nothing of what there is");
                court.tally.count("had nothing to show");
            }
            _ => panic!("{ask:?} just stopped at {:?}", self.cursor),
        }
    }
}

/// Whether a stream may begin with the whole task.
fn starts_over(ask: &Ask) -> bool {
    match &ask.what {
        What::Say { task, .. } => task.is_none(),
        What::Watch { after, .. } => after.is_none_or(|after| after > ask.known),
        _ => false,
    }
}

/// Whether a stream that waits for `turn` ends with this event.
fn ends((turn, floor): (u32, Seq), seq: Seq, event: &Event) -> bool {
    seq >= floor
        && match event {
            Event::TurnEnded { turn: ended, .. } => *ended >= turn,
            Event::Paused | Event::Interrupted { .. } | Event::Closed { .. } => true,
            _ => false,
        }
}

/// The result in a JSON-RPC answer, byte for byte; None if it is an error.
fn unwrap<'a>(ask: &Ask, answer: &'a [u8]) -> Option<&'a [u8]> {
    let prefix = format!(r#"{{"jsonrpc":"2.0","id":{},"result":"#, ask.number);
    answer.strip_prefix(prefix.as_bytes())?.strip_suffix(b"}")
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}
