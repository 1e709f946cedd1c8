//! The owner of a task that decides requests from other instances, and gives its tasks up.

use crate::a2a::{Dialect, Switches};
use crate::base::id::TaskId;
use crate::core::Input;
use crate::core::access::tests::{credential, file};
use crate::core::access::{AccessSetup, Mode};
use crate::core::disk::request::SharedAnswer;
use crate::core::disk::shared::Left;
use crate::core::disk::store::{Archive, Openness, Store, StoreError, read_all};
use crate::core::test_core::{TestCore, core_harness};
use crate::limits::Limits;
use crate::task::call::Call;
use crate::task::log::event::Event;
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
    let request = InboxRequest { request: format!("r-{n}").into(), at: 1, by, call: InboxCall::Cancel };
    let request = Ok(Some(Left { n, request: crate::base::json::bytes(&request).into() }));
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
    let told = test.take(conn);
    assert!(told.contains("of the other"), "{told}");
    assert!(!told.contains("acknowledged"), "each event once: {told}");
}

#[test]
fn a_stream_whose_task_another_instance_has_deleted_is_told() {
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
    let told = test.take(conn);
    assert!(told.contains("-32001"), "{told}");
}

#[test]
fn a_task_at_work_that_the_log_gives_to_this_instance_is_taken_over() {
    let mut test = owner(&[]);
    let task = test.begin(Dialect::RPC_03, None);
    // It was claimed by a request whose answer was lost: nothing is held here.
    test.core.leave(task.clone());
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
