//! The owner of a task that decides requests from other instances, and gives its tasks up.

use crate::a2a::{Dialect, Switches};
use crate::base::id::TaskId;
use crate::core::Input;
use crate::core::access::tests::{credential, file};
use crate::core::access::{AccessSetup, Mode};
use crate::core::disk::request::SharedAnswer;
use crate::core::disk::shared::Left;
use crate::core::disk::store::{Archive, read_all};
use crate::core::settings::SharedStore;
use crate::core::test_core::TestCore;
use crate::limits::Limits;
use crate::task::log::event::Event;
use crate::task::log::ownership::{InboxCall, InboxRequest};
use crate::task::message::Source;
use serde_json::Value;

fn owner(credentials: &[Value]) -> TestCore {
    let mut test = TestCore::changed(Limits::default(), Switches::default(), |setup| {
        setup.shared_store =
            Some(SharedStore { instance: "a".into(), url: None, workspace: Some("w".into()), slow_ms: 5_000 });
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
