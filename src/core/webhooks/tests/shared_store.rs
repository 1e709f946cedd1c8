//! Webhooks of tasks in a store that several instances share.

use super::*;

#[test]
fn an_instance_that_only_follows_a_task_delivers_nothing() {
    use crate::core::disk::request::SharedAnswer;
    use crate::core::test_core::core_harness;
    use crate::task::log::event::{End, Event};
    use crate::task::log::ownership::Owned;
    use crate::task::log::record::Record;
    let share = |setup: &mut crate::core::Setup| core_harness::share(setup, "a");
    let mut test = TestCore::changed(Default::default(), Switches::default(), share);
    test.flushes = true;
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.turns();
    let first = test.take_delivery();
    test.answer(&first, Ok(()));
    test.end_turn();
    test.drain();
    // Another instance continues the task, and its next turn ends.
    let seq = test.state(&task).seq;
    let owned = Event::Owned(std::sync::Arc::new(Owned { instance: "b".into(), epoch: 2, url: None }));
    let message = std::sync::Arc::new(crate::task::message::Message::new(
        "n",
        crate::task::message::Role::User,
        vec![Part::text("more")],
    ));
    let by = crate::task::message::Source::clock();
    let prompted = Event::Prompted { message, by, turn: 2, delivery: Default::default() };
    let ended = Event::TurnEnded { turn: 2, end: End::Done, by: None };
    let mut lines = Vec::new();
    for (n, event) in [owned, prompted, Event::TurnBegan { turn: 2 }, ended].into_iter().enumerate() {
        Record { seq: Seq(seq.0 + 1 + n as u64), at: 2, event }.write(&mut lines);
    }
    let followed = SharedAnswer::Followed { task: task.clone(), lines: Ok(lines) };
    test.core.input(crate::core::Input::Shared(followed), test.now);
    test.turns();
    assert!(!test.state(&task).hooks[0].due.is_empty(), "the owner of the task has to deliver it");
    assert_eq!(test.sent, []);
}

#[test]
fn an_instance_that_takes_over_a_task_delivers_its_due_event_once() {
    use crate::core::disk::request::SharedAnswer;
    use crate::core::test_core::core_harness;
    let mut test = TestCore::changed(Default::default(), Switches::default(), |setup| core_harness::share(setup, "a"));
    test.flushes = true;
    test.store.share(true);
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.drain();
    // The other instance knows no task before its scan.
    let mut setup = core_harness::setup(test.limits.clone(), Switches::default(), test.now);
    core_harness::share(&mut setup, "b");
    test.core = Core::new(setup);
    test.jobs.clear();
    test.core.input(crate::core::Input::Listed(Vec::new()), test.now);
    test.turns();
    assert_eq!(test.sent, []);
    // The scan of the new instance claims it, twice if an answer is lost.
    for _ in 0..2 {
        let scanned = SharedAnswer::Scanned(Ok(vec![task.clone()]));
        test.core.input(crate::core::Input::Shared(scanned), test.now);
        test.turns();
    }
    let delivered: Vec<String> = test.drain().into_iter().map(|(_, what)| what).collect();
    assert_eq!(delivered, ["TASK_STATE_INPUT_REQUIRED"]);
    assert!(test.state(&task).hooks[0].due.is_empty());
}
