//! Removal and restart of tasks with deliveries that are due.

use super::*;

/// A server that removes a task a second after its end.
fn with_short_retention() -> TestCore {
    let times = Times { retention_ms: Some(1_000), ..Times::default() };
    let limits = Limits { times, expiry_retry_ms: 5_000, ..Limits::default() };
    TestCore::with(limits, Switches::default())
}

impl TestCore {
    /// Whether the task is there, in the lists and on disk.
    fn has_task(&self, task: &TaskId) -> bool {
        let known = self.core.tasks.known.get(task).is_some();
        assert_eq!(known, !self.store.bytes(task).is_empty());
        known
    }
}

#[test]
fn a_task_is_not_removed_before_its_webhooks_have_its_last_event() {
    let mut test = with_short_retention();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.drain();
    test.cancel(&task);
    test.note(NoteBody::Died("stopped".into()));
    let mut last = test.take_delivery();
    // The delivery is in flight for longer than the retention time, and is retried after that.
    test.later(20_000);
    test.answer(&last, Err(temporary_failure()));
    test.later(2_000);
    last = test.take_delivery();
    assert!(test.has_task(&task));
    test.answer(&last, Ok(()));
    assert!(test.has_task(&task), "until tasks are checked the next time");
    test.later(5_000);
    assert!(!test.has_task(&task));
    assert_eq!(test.sent, []);
}

#[test]
fn a_receiver_that_never_answers_delays_the_removal_of_a_task_only_by_its_attempts() {
    let mut test = with_short_retention();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.drain();
    test.cancel(&task);
    test.note(NoteBody::Died("stopped".into()));
    for _ in 0..=test.limits.webhook_retries {
        let delivery = test.take_delivery();
        assert!(test.has_task(&task));
        test.answer(&delivery, Err(temporary_failure()));
        test.later(60_000);
    }
    assert!(!test.has_task(&task));
    assert_eq!(test.sent, []);
}

#[test]
fn a_delivery_due_at_a_crash_is_made_although_the_retention_time_is_over() {
    let mut test = with_short_retention();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.drain();
    test.cancel(&task);
    let last = test.take_delivery();
    test.now.unix_ms += 1_000_000;
    test.now.mono_ms += 1_000_000;
    test.restart();
    assert_eq!(test.take_delivery(), last);
    test.answer(&last, Ok(()));
    test.later(5_000);
    assert!(!test.has_task(&task));
}

#[test]
fn a_task_that_another_server_left_open_is_loaded_before_it_is_removed() {
    let mut test = with_short_retention();
    let task = test.begin(Dialect::REST_10, None);
    test.cancel(&task);
    test.restart();
    assert!(!test.core.tasks.is_loaded(&task));
    // Another server has loaded it since, and died.
    test.store.append(&task, b"", Openness::Open).expect("a disk");
    test.later(2_000);
    assert!(test.core.tasks.is_loaded(&task));
    assert!(!test.store.known().iter().any(|known| known.open), "nothing was due, and that was recorded");
    test.later(5_000);
    assert!(!test.has_task(&task));
}

#[test]
fn a_full_server_restores_open_tasks_one_after_the_other() {
    let mut test = TestCore::new();
    let tasks: Vec<TaskId> = (0..3).map(|_| test.begin(Dialect::REST_10, Some(wish(Some("h"))))).collect();
    test.drain_all();
    for task in &tasks {
        test.cancel(task);
    }
    test.limits.tasks = 1;
    test.restart();
    let mut delivered: Vec<TaskId> = Vec::new();
    while !test.sent.is_empty() {
        let delivery = test.take_delivery();
        delivered.push(delivery.task.clone());
        test.answer(&delivery, Ok(()));
    }
    assert_eq!(delivered, tasks);
}
