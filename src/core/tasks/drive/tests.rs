//! A store that several instances share: nothing is shown or started before it was synced.

use super::*;
use crate::a2a::{Dialect, Switches};
use crate::base::slots::Key;
use crate::core::disk::request::{SharedAnswer, StoreRequest};
use crate::core::disk::store::{Archive, read_all};
use crate::core::test_core::core_harness::failing_store::Failure;
use crate::core::test_core::{TestCore, core_harness, say};
use crate::limits::Limits;
use crate::task::call::Call;
use crate::task::log::event::Protocol;
use crate::task::machine::job::NoteBody;

fn shared() -> TestCore {
    let mut test = TestCore::changed(Limits::default(), Switches::default(), |setup| core_harness::share(setup, "a"));
    test.flushes = true;
    test
}

/// Sends a prompt while the store does not answer.
fn prompt_held(test: &mut TestCore) -> Key {
    test.holds_loads = true;
    let conn = test.begin_ask(Dialect::RPC_03, Call::Say(say("go", Protocol::V03)));
    test.turns();
    conn
}

/// The store answers the waiting syncs with an error.
fn answer(test: &mut TestCore, error: impl Fn() -> StoreError) {
    for request in std::mem::take(&mut test.loads) {
        assert!(matches!(request, StoreRequest::Sync { .. }), "{request:?}");
        test.core.input(request.failed(error()), test.now);
    }
    test.turns();
}

#[test]
fn a_prompt_is_acknowledged_and_its_turn_begins_when_it_is_synced() {
    let mut test = shared();
    let conn = prompt_held(&mut test);
    assert_eq!(test.take(conn), "");
    assert!(test.jobs.is_empty(), "the model is asked before the prompt is safe");
    test.holds_loads = false;
    test.turns();
    assert!(test.take(conn).contains("\"kind\":\"task\""));
    assert_eq!(test.jobs.len(), 1);
}

#[test]
fn one_sync_is_under_way_and_the_next_covers_all_later_events() {
    let mut test = shared();
    let task = test.begin(Dialect::RPC_03, None);
    test.holds_loads = true;
    for n in 0..5 {
        test.note(NoteBody::Text(format!("{n} ")));
    }
    let shown = test.core.tasks[&task].shown();
    assert_eq!(test.loads.len(), 1);
    assert_eq!(test.state(&task).seq.0 - shown.0, 5);
    test.holds_loads = false;
    test.turn();
    assert_eq!(test.core.tasks[&task].shown(), shown.next());
    assert_eq!(test.loads.len(), 1);
    test.turns();
    assert_eq!(test.core.tasks[&task].shown(), test.state(&task).seq);
}

#[test]
fn a_sync_that_fails_is_tried_again_and_waiting_calls_get_the_reason() {
    let mut test = shared();
    let conn = prompt_held(&mut test);
    answer(&mut test, || StoreError::transient("the bucket does not answer"));
    let text = test.take(conn);
    assert!(text.contains("the bucket does not answer"), "{text}");
    assert!(test.jobs.is_empty());
    test.holds_loads = false;
    test.later(test.limits.store_retry_ms);
    assert_eq!(test.jobs.len(), 1, "the turn begins when the bucket answers again");
}

#[test]
fn a_task_that_another_instance_has_claimed_is_unloaded() {
    let mut test = shared();
    let task = test.begin(Dialect::RPC_03, None);
    test.holds_loads = true;
    test.note(NoteBody::Text("unseen".into()));
    answer(&mut test, || StoreError::locked("fenced"));
    assert!(!test.core.tasks.is_loaded(&task));
    assert_eq!(test.stops, test.jobs);
    assert!(test.notices.iter().any(|notice| notice.contains("another instance continues it")), "{:?}", test.notices);
    test.holds_loads = false;
    let shown = test.ask(Dialect::RPC_03, Call::Get { task, history: None }).to_string();
    assert!(shown.contains("\"kind\":\"task\""), "{shown}");
}

/// Otherwise another instance that reads the new task might not find the last events of its parent.
#[test]
fn a_task_is_synced_after_the_task_that_it_continues() {
    let mut test = shared();
    let parent = test.begin(Dialect::RPC_03, None);
    let context = test.state(&parent).created.context.clone();
    test.holds_loads = true;
    test.end_turn();
    let mut say = say("go on", Protocol::V03);
    say.create.context = Some(context);
    let conn = test.begin_ask(Dialect::RPC_03, Call::Say(say));
    test.turns();
    let syncs = |test: &TestCore, of: &TaskId| {
        test.loads.iter().filter(|request| matches!(request, StoreRequest::Sync { task, .. } if task == of)).count()
    };
    assert_eq!((test.loads.len(), syncs(&test, &parent)), (1, 1));
    test.holds_loads = false;
    test.later(test.limits.store_retry_ms);
    test.later(test.limits.store_retry_ms);
    assert!(test.take(conn).contains("\"kind\":\"task\""));
}

/// The events of a log that say who owns the task.
fn owners(test: &TestCore, task: &TaskId) -> Vec<(u64, String)> {
    let file = test.store.open(task).unwrap();
    let mut owners = Vec::new();
    read_all(file.as_ref(), &mut |record| {
        if let Event::Owned(owned) = &record.event {
            owners.push((owned.epoch, owned.instance.to_string()));
        }
    })
    .unwrap();
    owners
}

#[test]
fn the_log_says_who_owns_a_task() {
    let mut test = shared();
    let task = test.begin(Dialect::RPC_03, None);
    test.end_turn();
    assert_eq!(owners(&test, &task), [(1, "a".to_owned())]);
    test.say(&task);
    assert_eq!(owners(&test, &task).len(), 1, "it is ours already");
    test.end_turn();
    test.store.share(true);
    test.restart_with(|setup| core_harness::share(setup, "b"));
    test.ask(Dialect::RPC_03, Call::Get { task: task.clone(), history: None });
    assert_eq!(owners(&test, &task).len(), 1, "who only reads a task claims nothing");
    test.say(&task);
    assert_eq!(owners(&test, &task), [(1, "a".to_owned()), (2, "b".to_owned())]);
}

#[test]
fn an_idle_task_is_read_again_for_every_request() {
    let mut test = shared();
    let task = test.begin(Dialect::RPC_03, None);
    let get = || Call::Get { task: task.clone(), history: None };
    let conn = test.begin_ask(Dialect::RPC_03, get());
    test.turn();
    assert!(test.take(conn).contains("\"kind\":\"task\""), "nobody else continues a task that works here");
    test.end_turn();
    test.holds_loads = true;
    let conn = test.begin_ask(Dialect::RPC_03, get());
    test.turns();
    assert_eq!(test.take(conn), "");
    assert!(matches!(&test.loads[..], [StoreRequest::Load { .. }]));
    test.holds_loads = false;
    test.turns();
    assert!(test.take(conn).contains("\"kind\":\"task\""));
}

/// The cancellation is not shown before the store has it, but jobs are stopped at once.
#[test]
fn a_cancel_stops_jobs_while_the_store_does_not_answer() {
    let mut test = shared();
    let task = test.begin(Dialect::RPC_03, None);
    let job = test.jobs.last().expect("the model is asked").clone();
    test.holds_loads = true;
    let conn = test.begin_ask(Dialect::RPC_03, Call::Cancel { task: task.clone() });
    test.turns();
    assert_eq!(test.stops, [job]);
    assert_eq!(test.take(conn), "");
    assert!(test.core.tasks[&task].shown() < test.state(&task).seq);
    test.holds_loads = false;
    test.turns();
    assert!(test.take(conn).contains("canceled"));
}

#[test]
fn a_task_of_a_dead_instance_that_could_not_be_loaded_is_loaded_again_after_the_next_scan() {
    let mut test = shared();
    test.holds_loads = true;
    let task = TaskId::from("t");
    for _ in 0..2 {
        // The second scan finds that it is being loaded.
        for _ in 0..2 {
            let found = SharedAnswer::Scanned(Ok(vec![task.clone()]));
            test.core.input(crate::core::Input::Shared(found), test.now);
            test.turns();
        }
        assert!(matches!(&test.loads[..], [StoreRequest::Load { task: asked }] if *asked == task), "{:?}", test.loads);
        let load = test.loads.remove(0);
        test.core.input(load.failed(StoreError::transient("the bucket does not answer")), test.now);
        test.turns();
    }
}

#[test]
fn hooks_of_the_user_are_told_only_what_is_recorded() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::RPC_03, None);
    test.store.fail(Failure::Refused, 1);
    test.ask_to_run(&task, "c-1");
    assert!(test.core.tasks[&task].broken.is_some());
    assert_eq!(test.hook_notices.len(), 0, "the question is not recorded");
    test.later(test.limits.store_retry_ms);
    assert_eq!(test.hook_notices.len(), 1);
    assert!(test.hook_notices[0].input["message"].to_string().contains("needs approval"));
}
