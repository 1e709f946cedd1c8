//! The owner of a task that decides requests from other instances, and gives its tasks up.

use crate::a2a::{Dialect, Switches};
use crate::base::id::TaskId;
use crate::core::Input;
use crate::core::access::tests::{credential, file};
use crate::core::access::{AccessSetup, Mode};
use crate::core::disk::request::{SharedAnswer, SharedRequest, StoreRequest};
use crate::core::disk::shared::{InboxEntry, InstanceStatus};
use crate::core::disk::store::{Archive, Known, Openness, Store, StoreError, read_all};
use crate::core::test_core::{TestCore, core_harness, say};
use crate::limits::Limits;
use crate::task::call::{Call, Say};
use crate::task::log::brief::Brief;
use crate::task::log::event::{Event, Protocol};
use crate::task::log::ownership::{InboxCall, InboxRequest, Owned};
use crate::task::log::record::Record;
use crate::task::machine::job::NoteBody;
use crate::task::message::Source;
use serde_json::Value;

fn owner(credentials: &[Value]) -> TestCore {
    let mut test = TestCore::changed(Limits::default(), Switches::default(), |setup| {
        core_harness::share(setup, "a");
        setup.access = AccessSetup { mode: Mode::Token, credentials: file(credentials), ..AccessSetup::default() };
    });
    test.flushes = true;
    test
}

fn by(credential: &str, subject: &str) -> Source {
    Source {
        credential: Some(credential.into()),
        subject: Some(subject.into()),
        ..Source::new("a browser", "rest-1.0")
    }
}

/// Another instance leaves a cancellation, which has the number `n`. Returns whether it took effect.
fn leave_cancel(test: &mut TestCore, task: &TaskId, n: u64, by: Source) -> bool {
    leave(test, task, n, by, InboxCall::Cancel)
}

/// Another instance leaves a request, which has the number `n`. Returns whether it took effect.
fn leave(test: &mut TestCore, task: &TaskId, n: u64, by: Source, call: InboxCall) -> bool {
    let request = InboxRequest { request: format!("r-{n}").into(), at: 1, by, call };
    let request = Ok(Some(InboxEntry { n, request: crate::base::json::bytes(&request).into() }));
    test.core.input(Input::Shared(SharedAnswer::NextRequest { task: task.clone(), request }), test.now);
    test.turns();
    let mut heard = None;
    let log = test.store.open(task).expect("a log");
    read_all(log.as_ref(), &mut |record| {
        if let Event::Heard(one) = &record.event
            && one.n == n
        {
            heard = Some(!one.void);
        }
    })
    .expect("events");
    heard.expect("it was heard")
}

#[test]
fn a_request_that_another_instance_left_needs_the_rights_that_its_sender_has_here_now() {
    let mut test = owner(&[
        credential("eve", "eve", &["view", "prompt", "approve"]),
        credential("viewer", "ann", &["view"]),
        credential("laptop", "ann", &["view", "prompt"]),
        credential("root", "carol", &["admin"]),
    ]);
    test.principal = crate::core::access::tests::rights::principal("ann", &crate::task::access::Right::ALL);
    let task = test.begin(Dialect::REST_10, None);
    for (n, (credential, subject)) in
        [("eve", "eve"), ("viewer", "ann"), ("gone", "ann"), ("eve", "ann"), ("jwt:ann", "ann")].into_iter().enumerate()
    {
        let n = n as u64 + 1;
        assert!(!leave_cancel(&mut test, &task, n, by(credential, subject)), "{credential} of {subject}");
    }
    assert!(!test.state(&task).is_over());
    assert!(leave_cancel(&mut test, &task, 6, by("laptop", "ann")));
    assert!(test.state(&task).is_over());
    let task = test.begin(Dialect::REST_10, None);
    assert!(leave_cancel(&mut test, &task, 1, by("root", "carol")), "an administrator may stop every task");
    let task = test.begin(Dialect::REST_10, None);
    assert!(leave_cancel(&mut test, &task, 1, Source::new("the operator", "own")));
}

#[test]
fn a_stream_goes_on_when_another_instance_continues_its_task() {
    let mut test = owner(&[]);
    let task = test.begin(Dialect::RPC_03, None);
    let watch = crate::task::call::Call::Subscribe { task: task.clone(), after: None };
    let conn = test.begin_ask(Dialect::RPC_03, watch);
    test.turns();
    assert!(test.take(conn).contains("text/event-stream"));
    test.note(NoteBody::Text("acknowledged".into()));
    assert!(test.take(conn).contains("acknowledged"));
    test.holds_loads = true;
    test.note(NoteBody::Text("void".into()));
    let seq = test.state(&task).seq.next();
    for request in std::mem::take(&mut test.loads) {
        test.core.input(request.failed(StoreError::locked("fenced")), test.now);
    }
    let owned = Event::Owned(std::sync::Arc::new(Owned { instance: "b".into(), epoch: 2, url: None }));
    let mut line = Vec::new();
    Record { seq, at: 2, event: owned }.write(&mut line);
    test.store.append(&task, &line, Openness::Open).expect("the disk takes it");
    test.turns();
    assert_eq!(test.take(conn), "", "it waits for the task as it is now");
    assert!(!test.closing().iter().any(|(key, _)| *key == conn));
    test.holds_loads = false;
    test.turns();
    assert!(test.core.tasks.is_loaded(&task) && !test.core.tasks[&task].owned);
    assert_eq!(test.core.tasks[&task].subs.len(), 1);
    // What the other instance does is followed.
    let seq = test.state(&task).seq;
    let mut lines = Vec::new();
    let text = |text: &str| Event::Text { text: text.into() };
    Record { seq: seq.next(), at: 2, event: text("of the other") }.write(&mut lines);
    test.core.input(Input::Shared(SharedAnswer::Followed { task: task.clone(), lines: Ok(lines) }), test.now);
    test.turns();
    let received = test.take(conn);
    assert!(received.contains("of the other"), "{received}");
    assert!(!received.contains("acknowledged"), "each event once: {received}");
}

#[test]
fn a_stream_whose_task_another_instance_has_deleted_gets_an_error() {
    let mut test = owner(&[]);
    let task = test.begin(Dialect::RPC_03, None);
    let watch = crate::task::call::Call::Subscribe { task, after: None };
    let conn = test.begin_ask(Dialect::RPC_03, watch);
    test.turns();
    test.take(conn);
    test.holds_loads = true;
    test.note(NoteBody::Text("void".into()));
    for error in [StoreError::locked("fenced"), StoreError::gone(&"t".into())] {
        for request in std::mem::take(&mut test.loads) {
            test.core.input(request.failed(error.clone()), test.now);
        }
        test.turns();
    }
    let received = test.take(conn);
    assert!(received.contains("-32001"), "{received}");
}

#[test]
fn a_task_at_work_that_the_log_gives_to_this_instance_is_taken_over() {
    let mut test = owner(&[]);
    let task = test.begin(Dialect::RPC_03, None);
    // It was claimed by a request whose answer was lost: nothing is held here.
    test.core.unload_task(task.clone());
    test.turns();
    test.ask(Dialect::RPC_03, Call::Get { task: task.clone(), history: None });
    test.turns();
    assert!(test.core.tasks[&task].owned);
    assert!(!test.state(&task).is_at_work(), "the turn of a dead instance is over");
    // The scan finds it again and again until its turn is over; nothing happens to what is held.
    let seq = test.state(&task).seq;
    test.notices.clear();
    test.core.input(Input::Shared(SharedAnswer::Scanned(Ok(vec![task.clone()]))), test.now);
    test.turns();
    assert_eq!((test.state(&task).seq, test.notices.len()), (seq, 0));
    // The same while the task is followed.
    test.say(&task);
    if let Some(loaded) = test.core.tasks.get_mut(&task) {
        loaded.owned = false;
    }
    let followed = SharedAnswer::Followed { task: task.clone(), lines: Ok(Vec::new()) };
    test.core.input(Input::Shared(followed), test.now);
    test.turns();
    assert!(test.core.tasks[&task].owned && !test.state(&task).is_at_work());
}

#[test]
fn a_cancel_that_comes_late_does_not_hit_the_next_turn() {
    let mut test = owner(&[]);
    let task = test.begin(Dialect::RPC_03, None);
    let by = || Source::new("the operator", "own");
    let cancel = |turn: u32| InboxCall::CancelTurn { turn };
    test.end_turn();
    assert!(!leave(&mut test, &task, 1, by(), cancel(1)), "its turn is over");
    test.say(&task);
    assert!(!leave(&mut test, &task, 2, by(), cancel(1)), "another turn is under way");
    assert!(!test.state(&task).is_over());
    assert!(leave(&mut test, &task, 3, by(), cancel(2)));
    assert!(test.state(&task).is_over());
}

/// The tasks whose inboxes are read next.
fn asked_inboxes(test: &mut TestCore) -> Vec<TaskId> {
    test.core.read_inboxes();
    let asked = std::mem::take(&mut test.core.out).into_iter().filter_map(|out| match out {
        crate::core::Out::Store(StoreRequest::Shared(SharedRequest::NextRequest { task })) => Some(task),
        _ => None,
    });
    asked.collect()
}

#[test]
fn the_inbox_is_read_once_more_when_a_task_becomes_idle_and_after_a_claim() {
    let mut test = owner(&[]);
    let task = test.begin(Dialect::RPC_03, None);
    let answer = |test: &mut TestCore, request: Result<Option<InboxEntry>, StoreError>| {
        test.core.input(Input::Shared(SharedAnswer::NextRequest { task: task.clone(), request }), test.now);
    };
    assert_eq!(asked_inboxes(&mut test), std::slice::from_ref(&task));
    test.end_turn();
    answer(&mut test, Ok(None));
    assert_eq!(asked_inboxes(&mut test), std::slice::from_ref(&task), "it was asked for before the task came to rest");
    answer(&mut test, Err(StoreError::transient("the bucket does not answer")));
    assert_eq!(asked_inboxes(&mut test), std::slice::from_ref(&task));
    answer(&mut test, Ok(None));
    assert_eq!(asked_inboxes(&mut test), []);
    test.core.unload_task(task.clone());
    test.turns();
    test.say(&task);
    test.end_turn();
    asked_inboxes(&mut test);
    answer(&mut test, Ok(None));
    test.core.unload_task(task.clone());
    test.turns();
    let named = Call::Push { task: task.clone(), ask: crate::task::call::Push::List };
    test.ask(Dialect::REST_10, named);
    assert_eq!(asked_inboxes(&mut test), std::slice::from_ref(&task), "it was claimed again");
}

#[test]
fn a_task_of_a_dead_instance_goes_on_only_in_its_workspace() {
    let mut test = owner(&[]);
    let task = test.begin(Dialect::RPC_03, None);
    test.end_turn();
    let owned = |instance: &str, epoch: u64| {
        Event::Owned(std::sync::Arc::new(Owned { instance: instance.into(), epoch, url: None }))
    };
    let events = vec![owned("b", 2), owned("a", 3)];
    test.core.commit(&task, crate::task::machine::decide::Decision { events, effects: Vec::new() }, test.now);
    test.turns();
    // It was claimed by the scan, and its workspace is here.
    test.say(&task);
    assert_eq!(test.state(&task).turn.number, 2);
    test.end_turn();
    test.core.settings.workspace.site.id = Some("another".into());
    let call = Call::Say(Say { task: Some(task.clone()), ..say("more", Protocol::V03) });
    let refused = test.ask(Dialect::REST_03_JSON, call).to_string();
    assert!(refused.contains("The workspace of this task is not here"), "{refused}");
    assert_eq!(test.state(&task).turn.number, 2);
    test.cancel(&task);
    assert!(test.state(&task).is_over());
}

#[test]
fn an_instance_that_is_cut_off_ends_commands_in_the_background() {
    let mut test = owner(&[]);
    let task = test.begin(Dialect::RPC_03, None);
    let background = vec![task.clone()];
    let standing =
        |is_cut_off: bool| InstanceStatus { is_cut_off, background: background.clone(), ..InstanceStatus::default() };
    let look = |test: &mut TestCore, is_cut_off: bool| {
        let looked = SharedAnswer::Status(standing(is_cut_off));
        test.core.input(Input::Shared(looked), test.now);
        let outs = std::mem::take(&mut test.core.out);
        let is_over =
            |out: &crate::core::Out| matches!(out, crate::core::Out::EndBackground { task: over } if *over == task);
        let ends = outs.iter().filter(|out| is_over(out)).count();
        test.core.out = outs;
        test.turns();
        ends
    };
    assert_eq!(look(&mut test, false), 0);
    test.end_turn();
    assert!(test.state(&task).ownership.has_background && test.core.tasks.open().is_empty());
    assert_eq!(look(&mut test, true), 1);
}

#[test]
fn an_outage_of_the_store_is_reported_at_once_and_the_instance_is_not_ready() {
    let mut test = owner(&[]);
    let task = test.begin(Dialect::RPC_03, None);
    test.end_turn();
    let ready = |test: &mut TestCore| !test.core.disk.health.is_store_broken();
    // It has looked at the store before.
    test.core.input(Input::Probed(Ok(())), test.now);
    test.turns();
    assert!(ready(&mut test));
    let trouble = StoreError::transient("the bucket does not answer");
    let standing = InstanceStatus { is_cut_off: true, trouble: Some(trouble.clone()), ..InstanceStatus::default() };
    test.core.input(Input::Shared(SharedAnswer::Status(standing)), test.now);
    assert!(!ready(&mut test), "although nothing was to be written");
    // Who asks for a task that is not in memory gets the error of the store.
    test.core.unload_task(task.clone());
    test.turns();
    test.holds_loads = true;
    let conn = test.begin_ask(Dialect::REST_03_JSON, Call::Get { task, history: None });
    test.turns();
    for request in std::mem::take(&mut test.loads) {
        test.core.input(request.failed(trouble.clone()), test.now);
    }
    test.turns();
    let received = test.take(conn);
    assert!(
        received.contains("503 Service Unavailable") && received.contains("the bucket does not answer"),
        "{received}"
    );
}

#[test]
fn lists_leave_out_tasks_that_other_instances_deleted_and_refresh_those_in_memory() {
    let mut test = owner(&[]);
    let own = test.begin(Dialect::RPC_03, None);
    test.end_turn();
    let brief = Brief::of(test.state(&own));
    let known = |task: &str, at: u64| Known { task: task.into(), brief: Brief { at, ..brief.clone() }, open: false };
    let read = |test: &mut TestCore, summaries: Result<Vec<Known>, StoreError>| {
        test.core.input(Input::Shared(SharedAnswer::Summaries(summaries)), test.now);
        let follows = |out: &crate::core::Out| match out {
            crate::core::Out::Store(StoreRequest::Shared(SharedRequest::Follow { task, .. })) => *task == own,
            _ => false,
        };
        let asked = test.core.out.iter().any(follows);
        test.core.out.clear();
        asked
    };
    assert!(!read(&mut test, Ok(vec![known("x", 1), known(own.as_str(), brief.at)])));
    assert!(test.core.tasks.known.get(&"x".into()).is_some());
    assert!(!read(&mut test, Err(StoreError::transient("the bucket does not answer"))));
    assert!(test.core.tasks.known.get(&"x".into()).is_some(), "nothing is known about it");
    assert!(read(&mut test, Ok(vec![known(own.as_str(), brief.at + 1)])), "another instance has continued it");
    assert!(test.core.tasks.known.get(&"x".into()).is_none());
    assert!(test.core.tasks.known.get(&own).is_some());
}
