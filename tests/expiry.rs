//! Tasks whose time is over, in the whole core on a disk of memory and with a clock that jumps: they are closed when nobody goes on
//! with them and forgotten when they have been over for long enough, whether they are in memory or not, and a restart in
//! between changes nothing about when.

mod task;

use gemini_a2a::a2a;
use gemini_a2a::base::clock::Now;
use gemini_a2a::base::id::{Entropy, TaskId};
use gemini_a2a::core::conn::Peer;
use gemini_a2a::core::guard::Door;
use gemini_a2a::core::store::{MemoryStore, Store, read_all};
use gemini_a2a::core::{Approval, Core, Loaded, Out, Setup, Site};
use gemini_a2a::limits::{Limits, Times};
use gemini_a2a::task::event::Event;
use gemini_a2a::task::job::{Note, NoteBody, Work};
use gemini_a2a::task::slash::Registry;
use gemini_a2a::task::state::State;
use serde_json::{Value, json};

const HOUR: u64 = 3_600_000;

const TIMES: Times = Times {
    answer_ms: None,
    turn_ms: None,
    idle_ms: Some(24 * HOUR),
    retention_ms: Some(12 * HOUR),
};

/// A server whose model says one word, or makes one call.
struct House {
    core: Core,
    store: MemoryStore,
    limits: Limits,
    now: Now,
    births: u128,
    /// Tasks loaded, in order.
    loads: Vec<TaskId>,
    calls: bool,
}

impl House {
    fn new(times: Times) -> House {
        let limits = Limits {
            times,
            expiries: 2,
            ..Limits::default()
        };
        let now = Now {
            mono_ms: 5_000,
            unix_ms: task::NOON,
        };
        House {
            core: core(&limits, now, 0),
            store: MemoryStore::default(),
            limits,
            now,
            births: 0,
            loads: vec![],
            calls: false,
        }
    }

    fn restart(&mut self) {
        self.births += 1_000;
        // The monotonic clock begins anew with the process.
        self.now.mono_ms = 7;
        self.core = core(&self.limits, self.now, self.births);
        self.core.remember(&mut self.store);
        self.settle();
    }

    /// Lets time pass in one jump, and then as long as something follows from it at once.
    fn pass(&mut self, ms: u64) {
        self.now.mono_ms += ms;
        self.now.unix_ms += ms;
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..1_000 {
            if self.turn() {
                continue;
            }
            match self.core.deadline() {
                // The pause between two looks at those that are due.
                Some(at) if at <= self.now.mono_ms + self.limits.expiry_pause_ms => {
                    let pause = at.saturating_sub(self.now.mono_ms);
                    self.now.mono_ms += pause;
                    self.now.unix_ms += pause;
                }
                Some(_) | None => return,
            }
        }
        panic!("it does not come to rest");
    }

    /// One turn of the loop; whether there is more to do.
    fn turn(&mut self) -> bool {
        let now = self.now;
        self.core.tick(now);
        self.core.append(&mut self.store, now);
        self.core.release(now);
        let outs = self.core.outs();
        let more = !outs.is_empty();
        for out in outs {
            match out {
                Out::Start(job) => {
                    let body = match job.work {
                        Work::Think(_) if self.calls => task::model_answers(&[task::edit()]),
                        Work::Think(_) => task::model_answers(&[]),
                        Work::Prepare { .. } => {
                            NoteBody::Prepared(vec![Ok(task::plan(&task::edit()))])
                        }
                        other => panic!("nobody does {other:?} here"),
                    };
                    let note = Note { job: job.id, body };
                    self.core.note(note, now);
                }
                Out::Load { task } => {
                    let loaded = fold(&mut self.store, &task);
                    self.loads.push(task.clone());
                    self.core.loaded(&task, Ok(loaded), now);
                }
                Out::Sync { task, upto } => self.core.synced(&task, upto, Ok(()), now),
                Out::Stop(_) | Out::Over { .. } | Out::SaveRule { .. } => {}
                Out::Page { .. } => panic!("nobody reads old events here"),
                Out::Deliver(_) => panic!("nobody is told here"),
            }
        }
        self.core.check();
        more || self.core.has_more()
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let body = request.to_string();
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        let bytes = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let conn = self.core.opened(Peer::SameUser, self.now);
        self.core.received(conn, bytes.as_bytes(), self.now);
        self.core.writable();
        let mut answer: Vec<u8> = Vec::new();
        for _ in 0..100 {
            self.turn();
            self.core.writable();
            let slices = self.core.slices(conn);
            answer = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            if !answer.is_empty() {
                break;
            }
        }
        self.core.broke(conn);
        self.core.closing();
        let text = String::from_utf8(answer).expect("an answer is text");
        let body = text.split_once("\r\n\r\n").expect("a head and a body").1;
        serde_json::from_str(body).expect("JSON")
    }

    /// Prompts, waits for the turn, and gives the task's id.
    fn say(&mut self, place: Value) -> String {
        let mut message = json!({
            "kind": "message", "role": "user", "messageId": "m",
            "parts": [{"kind": "text", "text": "go"}],
        });
        for (name, value) in place.as_object().expect("members") {
            message[name] = value.clone();
        }
        let answer = self.call("message/send", json!({ "message": message }));
        let id = answer["result"]["id"].as_str();
        id.unwrap_or_else(|| panic!("no task in {answer}"))
            .to_owned()
    }

    /// How a task is shown: its state, or the error's code.
    fn shown(&mut self, task: &str) -> String {
        let answer = self.call("tasks/get", json!({ "id": task }));
        let state = answer["result"]["status"]["state"].as_str();
        state.map_or_else(|| answer["error"]["code"].to_string(), str::to_owned)
    }

    fn on_disk(&mut self) -> Vec<String> {
        let known = self.store.known().into_iter();
        known.map(|known| known.task.to_string()).collect()
    }
}

fn core(limits: &Limits, now: Now, births: u128) -> Core {
    let mut n = births;
    let switches = a2a::Switches::default();
    let identity = a2a::Identity {
        base_url: "http://localhost/",
        version: "0",
        unix_ms: 0,
    };
    Core::new(Setup {
        limits: limits.clone(),
        door: Door::default(),
        tools: task::tools().into_values().collect(),
        commands: Registry::built_in(),
        choose: Box::new(|_| Ok("some-model".into())),
        script: None,
        card: a2a::card(&identity, &switches),
        switches,
        manners: Default::default(),
        approval: Approval::default(),
        resolve: Box::new(|_| {
            Ok(Site {
                path: "/w".into(),
                trusted: true,
            })
        }),
        entropy: Entropy::new(move || {
            n += 1;
            n.to_be_bytes()
        }),
        now,
    })
}

fn fold(store: &mut MemoryStore, task: &TaskId) -> Loaded {
    let mut state: Option<State> = None;
    let file = store.file(task).expect("a log");
    read_all(
        file.as_ref(),
        &mut |record| match (&mut state, &record.event) {
            (None, Event::Created(created)) => state = Some(State::born(created.clone(), &record)),
            (Some(state), _) => state.apply(&record),
            (None, other) => panic!("a log begins with its task, not {other:?}"),
        },
    )
    .expect("a good log");
    Loaded {
        state: state.expect("an event"),
        inherited: vec![],
    }
}

#[test]
fn an_idle_task_is_completed_and_then_forgotten() {
    let mut house = House::new(TIMES);
    let task = house.say(json!({}));
    house.pass(23 * HOUR);
    assert_eq!(house.shown(&task), "input-required");
    house.pass(HOUR);
    assert_eq!(house.shown(&task), "completed");
    house.pass(11 * HOUR);
    assert_eq!(house.shown(&task), "completed");
    house.pass(2 * HOUR);
    assert_eq!(house.shown(&task), "-32001");
    assert_eq!(house.on_disk(), [""; 0]);
}

#[test]
fn whoever_goes_on_with_a_task_prolongs_it() {
    let mut house = House::new(TIMES);
    let task = house.say(json!({}));
    for _ in 0..5 {
        house.pass(23 * HOUR);
        house.say(json!({ "taskId": task }));
    }
    house.pass(23 * HOUR);
    assert_eq!(house.shown(&task), "input-required");
}

#[test]
fn a_restart_prolongs_nothing_and_only_what_is_due_is_loaded() {
    let mut house = House::new(TIMES);
    let old: Vec<String> = (0..5).map(|_| house.say(json!({}))).collect();
    house.pass(20 * HOUR);
    let young = house.say(json!({}));
    house.restart();
    assert_eq!(house.loads, []);
    house.pass(4 * HOUR);
    let mut loads: Vec<String> = house.loads.iter().map(TaskId::to_string).collect();
    let mut expected = old.clone();
    loads.sort();
    expected.sort();
    assert_eq!(loads, expected, "each once, and nobody else");
    // What came only to be closed does not stay, but for the last few.
    assert!(house.core.check().tasks <= 2, "{:?}", house.core.check());
    house.restart();
    house.pass(13 * HOUR);
    assert_eq!(house.loads.len(), 5, "what is deleted is not loaded");
    assert_eq!(house.on_disk(), [young.as_str()]);
    assert_eq!(house.shown(&young), "input-required");
    assert_eq!(house.shown(&old[0]), "-32001");
}

#[test]
fn what_became_due_while_no_server_ran_is_closed_at_the_start() {
    let mut house = House::new(TIMES);
    let task = house.say(json!({}));
    house.now.unix_ms += 30 * HOUR;
    house.restart();
    assert_eq!(house.shown(&task), "completed");
    house.now.unix_ms += 30 * HOUR;
    house.restart();
    assert_eq!(house.on_disk(), [""; 0]);
}

#[test]
fn a_task_that_was_continued_stays_as_long_as_its_context() {
    let mut house = House::new(TIMES);
    let first = house.say(json!({}));
    house.call("tasks/cancel", json!({ "id": first }));
    let context = house.call("tasks/get", json!({ "id": first }))["result"]["contextId"].clone();
    house.pass(6 * HOUR);
    let second = house.say(json!({ "contextId": context }));
    house.pass(20 * HOUR);
    assert_eq!(house.on_disk().len(), 2, "it is what the second remembers");
    house.pass(4 * HOUR);
    assert_eq!(house.shown(&second), "completed");
    house.pass(13 * HOUR);
    assert_eq!(house.on_disk(), [""; 0], "they go together");
    assert_eq!(house.shown(&first), "-32001");
}

#[test]
fn a_question_has_the_same_deadline_after_a_restart() {
    let mut house = House::new(Times {
        answer_ms: Some(HOUR),
        ..TIMES
    });
    house.calls = true;
    let task = house.say(json!({}));
    house.calls = false;
    house.pass(HOUR / 2);
    house.restart();
    assert_eq!(house.shown(&task), "input-required");
    house.pass(HOUR / 2 - 1_000);
    let open = |house: &mut House| fold(&mut house.store, &task.as_str().into()).state;
    assert_eq!(open(&mut house).asked().count(), 1);
    house.pass(1_000);
    let state = open(&mut house);
    assert_eq!(state.asked().count(), 0);
    assert!(state.is_idle());
}

#[test]
fn for_ever_means_for_ever() {
    let mut house = House::new(Times {
        idle_ms: None,
        retention_ms: None,
        ..TIMES
    });
    let (idle, over) = (house.say(json!({})), house.say(json!({})));
    house.call("tasks/cancel", json!({ "id": over }));
    house.pass(10_000 * HOUR);
    assert_eq!(house.shown(&idle), "input-required");
    assert_eq!(house.shown(&over), "canceled");
}
