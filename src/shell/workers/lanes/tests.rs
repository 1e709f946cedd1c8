//! Tests of lanes: threads, messages, panics, refused threads.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Lanes, and a channel that gets a message when the loop would be woken.
struct Harness {
    lanes: Lanes<String>,
    woken: mpsc::Receiver<()>,
}

impl Harness {
    fn new(change: impl FnOnce(&mut Limits)) -> Harness {
        let mut limits = Limits::default();
        change(&mut limits);
        let (wake, woken) = mpsc::channel();
        Harness { lanes: Lanes::new(move || _ = wake.send(()), &limits), woken }
    }

    fn start(&mut self, lane: Lane, work: impl FnOnce(&Outbox<String>) + Send + 'static) {
        self.lanes.start(lane, Cancel::default(), |outbox, _| work(outbox), |why| why).unwrap();
    }

    /// Waits for `count` messages, taking `max` at a time.
    fn messages(&mut self, count: usize, max: usize) -> Vec<String> {
        let mut messages = Vec::new();
        while messages.len() < count {
            self.woken.recv().expect("the lanes live");
            while self.lanes.drain(max, &mut messages) == Unread::Some {}
        }
        messages
    }

    fn threads(&self, lane: Lane) -> usize {
        lock(&self.lanes.queues[lane as usize].state).threads
    }

    fn until(&self, fact: impl Fn(&Harness) -> bool) {
        while !fact(self) {
            thread::yield_now();
        }
    }
}

/// A job that runs until the sender is dropped.
fn gate() -> (mpsc::Sender<()>, impl FnOnce(&Outbox<String>) + Send) {
    let (open, opened) = mpsc::channel();
    (open, move |_: &Outbox<String>| _ = opened.recv())
}

#[test]
fn all_messages_of_a_job_arrive_in_order() {
    for max in [1, 7, 100_000] {
        let mut harness = Harness::new(|limits| limits.notes = 16);
        for job in 0..4 {
            harness.start(Lane::Tool, move |outbox| {
                (0..500).for_each(|n| outbox.send(format!("{job} {n}")));
            });
        }
        let messages = harness.messages(2_000, max);
        for job in 0..4 {
            let own: Vec<_> = messages.iter().filter(|m| m.starts_with(&format!("{job} "))).cloned().collect();
            let expected: Vec<_> = (0..500).map(|n| format!("{job} {n}")).collect();
            assert_eq!(own, expected, "taking {max} at a time");
        }
        assert_eq!(harness.lanes.drain(max, &mut Vec::new()), Unread::None);
    }
}

#[test]
fn drain_returns_whether_messages_are_unread() {
    let mut harness = Harness::new(|_| {});
    harness.start(Lane::Disk, |outbox| {
        (0..3).for_each(|n| outbox.send(n.to_string()));
    });
    harness.until(|harness| lock(&harness.lanes.outbox.state).messages.len() == 3);
    let mut messages = Vec::new();
    assert_eq!(harness.lanes.drain(0, &mut messages), Unread::Some);
    assert_eq!(harness.lanes.drain(2, &mut messages), Unread::Some);
    assert_eq!(harness.lanes.drain(1, &mut messages), Unread::None);
    assert_eq!(messages, ["0", "1", "2"]);
}

#[test]
fn the_loop_is_woken_once_for_all_unread_messages() {
    let mut harness = Harness::new(|_| {});
    harness.start(Lane::Disk, |outbox| {
        (0..50).for_each(|n| outbox.send(n.to_string()));
    });
    harness.until(|harness| lock(&harness.lanes.outbox.state).messages.len() == 50);
    harness.until(|harness| harness.lanes.busy() == 0);
    assert_eq!(harness.woken.try_iter().count(), 1);
}

#[test]
fn threads_start_with_work_and_end_without_it() {
    let mut harness = Harness::new(|limits| {
        limits.tool_threads = 3;
        limits.thread_idle_ms = 1;
    });
    let gates: Vec<_> = (0..5)
        .map(|_| {
            let (open, work) = gate();
            harness.start(Lane::Tool, work);
            open
        })
        .collect();
    harness.until(|harness| harness.lanes.busy() == 3);
    assert_eq!(harness.threads(Lane::Tool), 3);
    assert_eq!(harness.lanes.queued(Lane::Tool), 2);
    assert_eq!(harness.lanes.queued(Lane::Model), 0);
    drop(gates);
    harness.until(|harness| harness.threads(Lane::Tool) == 0);
    assert_eq!((harness.lanes.busy(), harness.lanes.queued(Lane::Tool)), (0, 0));
    harness.start(Lane::Tool, |outbox| outbox.send("again".into()));
    assert_eq!(harness.messages(1, 10), ["again"]);
}

#[test]
fn the_last_thread_of_the_disk_lane_stays_as_long_as_the_lanes() {
    let mut harness = Harness::new(|limits| limits.thread_idle_ms = 1);
    for lane in [Lane::Disk, Lane::Model] {
        let (open, closed) = gate();
        let (also_open, also_closed) = gate();
        harness.start(lane, closed);
        harness.start(lane, also_closed);
        assert_eq!(harness.threads(lane), 2);
        drop((open, also_open));
    }
    harness.until(|harness| harness.threads(Lane::Model) == 0 && harness.threads(Lane::Disk) == 1);
    // It still takes jobs after threads of another lane have started and ended.
    for _ in 0..20 {
        harness.start(Lane::Model, |outbox| outbox.send(String::new()));
        harness.messages(1, 10);
        harness.until(|harness| harness.threads(Lane::Model) == 0);
        assert_eq!(harness.threads(Lane::Disk), 1);
    }
    let queue = harness.lanes.queues[Lane::Disk as usize].clone();
    drop(harness);
    while lock(&queue.state).threads > 0 {
        thread::yield_now();
    }
}

#[test]
fn an_idle_thread_is_preferred_to_a_new_one() {
    let mut harness = Harness::new(|limits| limits.thread_idle_ms = 600_000);
    for _ in 0..20 {
        harness.start(Lane::Model, |outbox| outbox.send(String::new()));
        harness.messages(1, 10);
        harness.until(|harness| lock(&harness.lanes.queues[Lane::Model as usize].state).idle == 1);
    }
    assert_eq!(harness.threads(Lane::Model), 1);
}

#[test]
fn a_panic_becomes_a_message_and_ends_no_thread() {
    let mut harness = Harness::new(|limits| limits.disk_threads = 1);
    harness.start(Lane::Disk, |_| panic!("on {}", "purpose"));
    harness.start(Lane::Disk, |_| panic!("plainly"));
    harness.start(Lane::Disk, |_| std::panic::panic_any(7));
    harness.start(Lane::Disk, |outbox| outbox.send("well".into()));
    assert_eq!(
        harness.messages(4, 10),
        [
            "the worker panicked: on purpose",
            "the worker panicked: plainly",
            "the worker panicked: no reason given",
            "well"
        ]
    );
}

#[test]
fn a_full_lane_refuses_and_the_others_do_not() {
    let mut harness = Harness::new(|limits| {
        limits.disk_threads = 1;
        limits.lane_jobs = 2;
    });
    let (open, work) = gate();
    harness.start(Lane::Disk, work);
    harness.until(|harness| harness.lanes.busy() == 1);
    for n in 0..2 {
        harness.start(Lane::Disk, move |outbox| outbox.send(n.to_string()));
    }
    let refused = harness.lanes.start(Lane::Disk, Cancel::default(), |_, _| panic!("it was refused"), |why| why);
    assert_eq!(refused, Err(Full));
    harness.start(Lane::Tool, |outbox| outbox.send("tool".into()));
    assert_eq!(harness.messages(1, 10), ["tool"]);
    drop(open);
    assert_eq!(harness.messages(2, 10), ["0", "1"]);
}

#[test]
fn a_queued_job_is_run_and_sees_that_it_is_cancelled() {
    let mut harness = Harness::new(|limits| limits.tool_threads = 1);
    let (open, work) = gate();
    harness.start(Lane::Tool, work);
    let cancel = Cancel::default();
    let job = |outbox: &Outbox<String>, cancel: &Cancel| outbox.send(cancel.is_set().to_string());
    harness.lanes.start(Lane::Tool, cancel.clone(), job, |why| why).unwrap();
    cancel.set();
    drop(open);
    assert_eq!(harness.messages(1, 10), ["true"]);
}

#[test]
fn a_worker_waits_for_a_slow_loop_and_not_for_one_that_has_ended() {
    let sent = Arc::new(AtomicUsize::new(0));
    let mut harness = Harness::new(|limits| limits.notes = 2);
    let (count, (done, finished)) = (sent.clone(), mpsc::channel::<()>());
    harness.start(Lane::Tool, move |outbox| {
        for n in 0..100 {
            outbox.send(n.to_string());
            count.fetch_add(1, Ordering::SeqCst);
        }
        drop(done);
    });
    harness.until(|_| sent.load(Ordering::SeqCst) == 2);
    assert_eq!(lock(&harness.lanes.outbox.state).messages.len(), 2);
    let mut messages = Vec::new();
    harness.lanes.drain(10, &mut messages);
    harness.until(|_| sent.load(Ordering::SeqCst) >= 4);
    drop(harness);
    assert!(finished.recv().is_err(), "it ends, and hangs up");
    assert_eq!(sent.load(Ordering::SeqCst), 100);
}

#[test]
fn jobs_wait_while_the_system_refuses_their_only_thread() {
    let mut harness = Harness::new(|_| {});
    harness.lanes.refusals = 3;
    for n in 0..2 {
        harness.start(Lane::Disk, move |outbox| outbox.send(n.to_string()));
    }
    assert!(harness.lanes.starved().is_some() && harness.threads(Lane::Disk) == 0);
    harness.lanes.retry();
    assert!(harness.lanes.starved().is_some(), "refused for the third time");
    harness.lanes.retry();
    assert_eq!(harness.lanes.starved(), None);
    let mut messages = harness.messages(2, 10);
    messages.sort_unstable();
    assert_eq!(messages, ["0", "1"]);
}

#[test]
fn a_refused_thread_is_tried_again_also_if_the_lane_has_another() {
    let mut harness = Harness::new(|_| {});
    let (open, work) = gate();
    harness.start(Lane::Disk, work);
    harness.lanes.refusals = 1;
    harness.start(Lane::Disk, |outbox| outbox.send("later".into()));
    assert!(harness.lanes.refused().is_some() && harness.lanes.starved().is_none());
    harness.lanes.retry();
    assert_eq!(harness.lanes.refused(), None);
    assert_eq!(harness.messages(1, 10), ["later"], "the other thread is still occupied");
    drop(open);
}

#[test]
fn no_thread_is_left_after_the_end() {
    let mut harness = Harness::new(|_| {});
    let (open, work) = gate();
    for lane in Lane::ALL {
        harness.start(lane, |outbox| outbox.send(String::new()));
    }
    harness.start(Lane::Tool, work);
    // A thread still works; it is not waited for.
    harness.lanes.end(Duration::ZERO);
    assert_eq!(harness.lanes.threads.len(), 0);
    drop(open);
    for lane in Lane::ALL {
        harness.until(|harness| harness.threads(lane) == 0);
    }
    let mut harness = Harness::new(|_| {});
    for lane in Lane::ALL {
        harness.start(lane, |outbox| outbox.send(String::new()));
    }
    harness.lanes.end(Duration::from_secs(60));
    assert!(Lane::ALL.into_iter().all(|lane| harness.threads(lane) == 0));
}
