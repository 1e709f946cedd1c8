//! Checks every response: the whole response is compared with what the journals on disk say it must be.

use crate::journals::{Journals, Log};
use crate::requests::{Mode, RequestKind, SentRequest};
use gemini_a2a::a2a;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::machine::state::{State, TaskState};
use serde_json::Value;
use std::collections::BTreeMap;

/// How often each thing happened in all runs, so that runs that test nothing are noticed.
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

/// What the check of a response needs beside the response.
pub struct Checker<'a> {
    pub journals: &'a mut Journals,
    pub tally: &'a mut Tally,
    /// The disk was made to fail in this run, so responses may report it.
    pub disk_failed: bool,
    /// The server is shutting down.
    pub ending: bool,
}

impl Checker<'_> {
    /// Checks a whole response that is not a stream.
    pub fn check_response(&mut self, request: &SentRequest, status: u16, body: &[u8]) {
        self.journals.refresh();
        match &request.what {
            RequestKind::Garbage => assert!(matches!(status, 400 | 413 | 431), "{status} for garbage"),
            RequestKind::Nonsense => {
                assert!(matches!(status, 200 | 404 | 405), "{status} for nonsense");
                assert!(status != 200 || json(body).get("error").is_some());
            }
            RequestKind::Health => self.health(status, &json(body)),
            RequestKind::Card => assert_eq!((status, &json(body)["protocolVersion"]), (200, &"0.3.0".into())),
            RequestKind::Create if status == 201 => {
                let task = json(body).as_str().expect("an id").into();
                assert!(self.journals.log(&task).is_some(), "{task} was shown before it was on disk");
            }
            RequestKind::AllMetadata => self.metadata_list(status, body),
            RequestKind::Metadata(task) if status == 200 => {
                let log = self.journals.log(task).expect("a task that is shown is on disk");
                let shows = |seq: &Seq| {
                    let state = log.state(*seq).expect("counted down from the last");
                    a2a::metadata(state, &self.journals.tools, &a2a::OtherTools::default()).body[..] == *body
                };
                assert!(log.back_to(request.known).any(|seq| shows(&seq)), "metadata of no state on disk");
            }
            RequestKind::Create | RequestKind::Metadata(_) => {
                let error = &json(body)["error"];
                match (status, error.as_str()) {
                    (404, Some("Task not found")) => self.not_found(request),
                    (503, Some(_)) => self.tally.count("refused as overloaded"),
                    (500, Some(_)) => self.storage_error(request),
                    other => panic!("{request:?} was answered with {other:?}"),
                }
            }
            RequestKind::SetHook { .. } | RequestKind::DropHook(_) => match unwrap(request, body) {
                Some(_) => self.webhook_answered(request, status),
                None => self.refusal(request, status, body),
            },
            RequestKind::Message { .. }
            | RequestKind::Get { .. }
            | RequestKind::Cancel(_)
            | RequestKind::Watch { .. } => match unwrap(request, body) {
                Some(result) => {
                    assert_eq!(status, 200);
                    self.result(request, result);
                }
                None => self.refusal(request, status, body),
            },
        }
    }

    /// The server is healthy, or degraded if the disk has failed.
    fn health(&mut self, status: u16, health: &Value) {
        assert_eq!(status, 200);
        let problem = health.get("problem").and_then(Value::as_str);
        match (health["status"].as_str(), problem) {
            (Some("healthy"), None) => {}
            // Right after the start of an instance that shares its store.
            (Some("degraded"), Some(problem)) if problem.starts_with("The store has not answered yet") => {}
            (Some("degraded"), Some(problem)) if self.disk_failed => {
                assert!(problem.contains("cannot be written"), "{problem}");
                self.tally.count("degraded health");
            }
            other => panic!("{other:?} is not a valid health report"),
        }
    }

    /// A webhook that was set is on disk.
    fn webhook_answered(&mut self, request: &SentRequest, status: u16) {
        assert_eq!(status, 200);
        let RequestKind::SetHook { task, url } = &request.what else {
            return self.tally.count("webhook deleted");
        };
        let mut log = self.journals.log(task).into_iter().flat_map(|log| &log.records);
        let found = log.any(|record| matches!(&record.event, Event::HookSet { target } if target.url == *url));
        assert!(found, "{request:?} was acknowledged before it was on disk");
        self.tally.count("webhook set");
    }

    /// The response is a task: it must be the task as it was on disk at some time since the request.
    fn result(&mut self, request: &SentRequest, result: &[u8]) {
        let (history, task) = match &request.what {
            RequestKind::Message { task: Some(task), history, .. } | RequestKind::Get { task, history } => {
                (*history, task.clone())
            }
            RequestKind::Message { history, .. } => {
                let id = json(result)["id"].as_str().expect("a task has an id").into();
                (*history, id)
            }
            RequestKind::Cancel(task) => (None, task.clone()),
            other => panic!("{other:?} was answered with a task"),
        };
        let (view, ending) = (self.journals.view, self.ending);
        let log = self.journals.log(&task);
        let log = log.unwrap_or_else(|| panic!("{task} was shown before it was on disk"));
        let suits = |state: &State| match &request.what {
            // A server that ends answers with the task as it stands.
            RequestKind::Message { mode: Mode::Wait, .. } => {
                ending || !matches!(state.status.state, TaskState::Submitted | TaskState::Working)
            }
            RequestKind::Cancel(_) => state.status.state == TaskState::Canceled,
            _ => true,
        };
        let shown = log.back_to(request.known).find(|seq| {
            let state = log.state(*seq).expect("counted down from the last");
            suits(state) && a2a::snapshot(view, state, a2a::SnapshotOptions::newest(history)) == result
        });
        assert!(
            shown.is_some(),
            "{request:?} was answered with a state that is not on disk: {}",
            String::from_utf8_lossy(result)
        );
        self.tally.count(match request.what {
            RequestKind::Message { mode: Mode::Wait, .. } => "waited for a turn",
            RequestKind::Cancel(_) => "canceled",
            _ => "task returned",
        });
    }

    fn metadata_list(&mut self, status: u16, body: &[u8]) {
        if status == 204 {
            return;
        }
        assert_eq!(status, 200);
        for entry in json(body).as_array().expect("a list") {
            let task: TaskId = entry["id"].as_str().expect("an id").into();
            let log = self.journals.log(&task);
            let log = log.unwrap_or_else(|| panic!("{task} was listed before it was on disk"));
            let was_so = log.states.iter().rev().any(|state| {
                let shown = a2a::metadata(state, &self.journals.tools, &a2a::OtherTools::default()).body;
                json(&shown)["metadata"]["taskState"] == entry["taskState"]
            });
            assert!(was_so, "{task} was listed in a state that is not on disk");
        }
    }

    /// The response is an error: it must be one that the request and the state of the task allow.
    pub fn refusal(&mut self, request: &SentRequest, status: u16, body: &[u8]) {
        let answer = json(body);
        assert_eq!(answer["id"], request.number, "{request:?}: {status} {answer} answers something else");
        let error = &answer["error"];
        let reason = error["data"]["reason"].as_str().unwrap_or_default();
        let over = request.task().is_some_and(|task| !self.journals.is_open(task));
        let says = matches!(request.what, RequestKind::Message { .. });
        match error["code"].as_i64().expect("an error has a code") {
            -32001 => self.not_found(request),
            -32002 => assert!(over && matches!(request.what, RequestKind::Cancel(_)), "not cancelable"),
            -32600 => assert!(over && says, "{request:?}: {error}"),
            -32602 if matches!(request.what, RequestKind::SetHook { .. }) => {
                self.tally.count("too many webhooks");
            }
            -32602 => {
                assert!(says, "{request:?}: {error}");
                self.tally.count(match reason {
                    "TOOL_CALL_NOT_PENDING" => "late answer",
                    "UNKNOWN_OPTION" => "unknown option",
                    _ => "wrong context",
                });
            }
            -32603 if status == 503 || reason == "OVERLOADED" => self.tally.count("refused as overloaded"),
            -32603 => {
                if let RequestKind::Cancel(_) = request.what
                    && error["message"].as_str().is_some_and(|message| message.contains("The task was stopped"))
                {
                    self.tally.count("canceled without a record");
                }
                self.storage_error(request);
            }
            code => panic!("{request:?} was refused with {code}: {error}"),
        }
    }

    /// A stream got the notice that its events wait for the disk.
    pub fn disk_notice(&mut self) {
        assert!(self.disk_failed, "a stream waits for a disk that works");
        self.tally.count("stream notified of the disk");
    }

    fn not_found(&mut self, request: &SentRequest) {
        assert_eq!(request.known, Seq(0), "{request:?}: a task that is on disk is not found");
        self.tally.count("task not found");
    }

    fn storage_error(&mut self, request: &SentRequest) {
        assert!(self.disk_failed, "{request:?}: trouble with a disk that works");
        self.tally.count("request failed by the disk");
    }
}

/// The check of an open stream: what it must show next.
#[derive(Debug, Default)]
pub struct StreamCheck {
    pub task: Option<TaskId>,
    /// The last event that the stream has shown. None before the first frame.
    pub cursor: Option<Seq>,
    /// The turn whose end ends the stream, and the first event that can end it, once the log tells.
    until: Option<(u32, Seq)>,
    /// The stream began with the whole task at this position.
    snapshot: Option<Seq>,
    /// The last frame has arrived.
    pub ended: bool,
    /// The server has said that it restarts.
    pub restarting: bool,
}

impl StreamCheck {
    pub fn new(request: &SentRequest) -> StreamCheck {
        StreamCheck { task: request.task().cloned(), ..StreamCheck::default() }
    }

    pub fn frame(
        &mut self,
        checker: &mut Checker<'_>,
        request: &SentRequest,
        id: Option<&str>,
        name: Option<&str>,
        data: &str,
    ) {
        assert!(!self.ended, "{request:?}: a frame after the last one: {data}");
        let data = data.as_bytes();
        let Some(id) = id else {
            let begun = self.cursor.is_some();
            assert!(!begun || name == Some("error"), "only errors have no position");
            self.ended = true;
            checker.journals.refresh();
            return checker.refusal(request, 200, data);
        };
        assert_eq!(name, None, "events of 0.3 have no names");
        let seq = Seq(id.parse().expect("an id is a number"));
        let body = unwrap(request, data).expect("a frame with a position is a result");
        let task = self.task.get_or_insert_with(|| json(body)["id"].as_str().expect("a new task comes first").into());
        let task = task.clone();
        let (view, tools) = (checker.journals.view, checker.journals.tools.clone());
        let log = checker.journals.read(&task);
        assert!(seq.0 <= log.len(), "event {seq} of {task} was seen, but on disk are only {}", log.len());
        if self.cursor.is_none() && starts_over(request) {
            if self.is_snapshot(log, request, seq, body, view) {
                return checker.tally.count("stream begins with a snapshot");
            }
            // A position beyond the end of the log may have been reached since.
            let beyond = matches!(request.what, RequestKind::Watch { after: Some(_), .. });
            assert!(beyond, "{request:?} must begin with the task");
        }
        if self.cursor.is_none()
            && self.enter(log, request, seq, body, &|state| a2a::current_status(view, state, &tools))
        {
            self.ended = true;
            return checker.tally.count("answered while paused");
        }
        self.event(log, request, seq, body);
        checker.tally.count(if self.ended { "stream ended" } else { "frames" });
    }

    /// Whether the first frame is the whole task as it was after event `seq`.
    fn is_snapshot(&mut self, log: &Log, request: &SentRequest, seq: Seq, body: &[u8], view: a2a::View) -> bool {
        let history = match &request.what {
            RequestKind::Message { history, .. } => *history,
            _ => None,
        };
        let state = log.state(seq).expect("it is on disk");
        if a2a::snapshot(view, state, a2a::SnapshotOptions::newest(history)) != body {
            return false;
        }
        self.snapshot = Some(seq);
        self.cursor = Some(seq);
        if matches!(request.what, RequestKind::Message { .. }) {
            self.until = Some((1, seq.next()));
        }
        true
    }

    /// The frame is the next event that clients are shown, and the last one exactly if the log says so.
    fn event(&mut self, log: &Log, request: &SentRequest, seq: Seq, body: &[u8]) {
        let cursor = self.cursor.expect("the stream has begun");
        assert_eq!(
            log.visible_after(cursor),
            Some(seq),
            "{request:?}: behind {cursor} comes something else; the log ends with {:#?}",
            log.tail(14)
        );
        let expected = log.body(seq).expect("it is visible");
        let last = *body != expected.open[..];
        if last {
            let closing = expected.closing.as_ref();
            assert_eq!(
                String::from_utf8_lossy(body),
                closing.map(|closing| String::from_utf8_lossy(closing)).unwrap_or_default(),
                "{request:?}: event {seq} is something else on disk"
            );
        }
        let event = &log.record(seq).expect("it is visible").event;
        match self.until {
            Some(until) => assert_eq!(last, ends(until, seq, event), "{request:?}: final at {seq}"),
            None => assert!(!last || ends((0, Seq(0)), seq, event)),
        }
        self.cursor = Some(seq);
        self.ended = last;
    }

    /// Finds where a stream of a known task begins. True if its only frame is the current state of a task that waits for answers.
    fn enter(
        &mut self,
        log: &Log,
        request: &SentRequest,
        seq: Seq,
        body: &[u8],
        present: &dyn Fn(&State) -> Option<Vec<u8>>,
    ) -> bool {
        if let RequestKind::Watch { after, .. } = &request.what {
            self.cursor = *after;
            assert!(after.is_some(), "without a position the task comes first");
            return false;
        }
        let tag = request.tag();
        let mut own = log.records.iter().filter(|record| match &record.event {
            Event::Prompted { by, .. } | Event::CallAnswered { by, .. } => by.client == tag,
            _ => false,
        });
        let first = own.clone().next().expect("what was said is in the log");
        // The message may have resumed an interrupted turn first.
        let resumed = log.record(Seq(first.seq.0 - 1));
        let resumed = resumed.is_some_and(|record| record.event == Event::Resumed);
        let cursor = Seq(first.seq.0 - if resumed { 2 } else { 1 });
        let before = log.state(cursor).expect("a task was there before");
        let turn = own.clone().find_map(|record| match &record.event {
            Event::Prompted { turn, .. } => Some(*turn),
            _ => None,
        });
        let answered = own.any(|record| matches!(record.event, Event::CallAnswered { .. }));
        self.until = Some((turn.unwrap_or(before.turn.number), cursor.next()));
        self.cursor = Some(cursor);
        let is_blocked = before.paused && !answered;
        assert!(
            !is_blocked || present(log.state(seq).expect("on disk")).as_deref() == Some(body),
            "{request:?}: a prompt behind open questions is answered with the present state"
        );
        is_blocked
    }

    /// The response has ended. Its last frame must have been final, or there was nothing to show.
    pub fn complete(&self, checker: &mut Checker<'_>, request: &SentRequest) {
        if self.restarting {
            return checker.tally.count("stream ended by a restart");
        }
        if self.ended {
            return;
        }
        let task = self.task.as_ref();
        let task = task.unwrap_or_else(|| panic!("{request:?} just stopped"));
        let log = checker.journals.read(task);
        let rests = |seq: Seq| log.state(seq).is_some_and(|s| s.is_idle() || s.is_over());
        match (&request.what, self.snapshot, self.cursor) {
            (RequestKind::Watch { .. }, Some(at), _) => {
                assert_eq!(self.cursor, Some(at), "{request:?} just stopped behind {at}");
                assert!(rests(at), "{request:?} stopped after a snapshot of a task that works");
            }
            (RequestKind::Watch { after: Some(after), .. }, None, None) => {
                let over = log
                    .back_to(request.known)
                    .any(|seq| rests(seq) && log.state(seq).is_some_and(|s| s.status.seq <= (*after).max(Seq(1))));
                assert!(over, "{request:?} showed nothing of what there is");
                checker.tally.count("empty stream");
            }
            _ => panic!("{request:?} just stopped at {:?}", self.cursor),
        }
    }
}

/// Whether a stream may begin with the whole task.
fn starts_over(request: &SentRequest) -> bool {
    match &request.what {
        RequestKind::Message { task, .. } => task.is_none(),
        RequestKind::Watch { after, .. } => after.is_none_or(|after| after > request.known),
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

/// The bytes of the result in a JSON-RPC response; None if it is an error.
fn unwrap<'a>(request: &SentRequest, answer: &'a [u8]) -> Option<&'a [u8]> {
    let prefix = format!(r#"{{"jsonrpc":"2.0","id":{},"result":"#, request.number);
    answer.strip_prefix(prefix.as_bytes())?.strip_suffix(b"}")
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}
