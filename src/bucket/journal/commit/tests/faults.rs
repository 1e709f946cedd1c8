//! Faults at every request, and instances that fail at every request.

use super::*;
use crate::bucket::memory::Fault;
use crate::bucket::{BucketErrorKind, Expect, Meta};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The events of a run.
const EVENTS: u64 = 200;

/// A bucket with a fault at request number `at`; 0 is the first.
fn faulty(at: u64, fault: Fault) -> (MemoryBucket, Arc<AtomicU64>) {
    let requests = Arc::new(AtomicU64::new(0));
    let counted = requests.clone();
    let bucket = MemoryBucket::with_faults(move |_| (counted.fetch_add(1, Ordering::Relaxed) == at).then_some(fault));
    (bucket, requests)
}

/// Commits a task event by event. Checks that another instance loads exactly the acknowledged events.
fn commit_all(bucket: &MemoryBucket, what: &str) {
    let a = instance(bucket, "a");
    let mut view = begun(&a);
    while view.tail.0 < EVENTS {
        let text = Event::Text { text: view.tail.to_string() };
        assert_eq!(commit(&a, &mut view, [text]), Ok(Commit::Done), "{what}");
        block_on(a.tidy(&mut view)).unwrap();
    }
    let mut other = self::view();
    assert_eq!(block_on(instance(bucket, "b").read_on(&mut other)), Ok(Read::Current), "{what}");
    assert_eq!(other.replica.take_applied(), view.replica.take_applied(), "{what}");
}

#[test]
fn a_fault_at_any_request_loses_and_repeats_nothing() {
    for fault in [
        Fault::LostRequest,
        Fault::LostAnswer,
        Fault::Late { after: 1 },
        Fault::Late { after: 30 },
        Fault::Twice { after: 30 },
        Fault::Refused(BucketErrorKind::Unknown),
        Fault::Refused(BucketErrorKind::Damaged),
    ] {
        // Testing every request would take long. 13 is no multiple of the number of requests per event.
        for at in (0..).step_by(13) {
            let (bucket, requests) = faulty(at, fault);
            commit_all(&bucket, &format!("{fault:?} at request {at}"));
            if requests.load(Ordering::Relaxed) <= at {
                break;
            }
        }
    }
}

/// A bucket that cannot be reached after as many requests as the counter says.
fn limited_bucket() -> (MemoryBucket, Arc<AtomicU64>) {
    let left = Arc::new(AtomicU64::new(u64::MAX));
    let counted = left.clone();
    let bucket = MemoryBucket::with_faults(move |_| {
        let before = counted.load(Ordering::Relaxed);
        counted.store(before.saturating_sub(1), Ordering::Relaxed);
        (before == 0).then_some(Fault::LostRequest)
    });
    (bucket, left)
}

/// A task at rest with joined segments and a request in its inbox.
fn resting(a: &Instance<Blocking<'_>>, bucket: &MemoryBucket) -> View<JournalReplica> {
    let mut view = begun(a);
    for n in 0..40 {
        assert_eq!(commit(a, &mut view, [Event::Text { text: n.to_string() }]), Ok(Commit::Done));
        block_on(a.tidy(&mut view)).unwrap();
    }
    assert_eq!(commit(a, &mut view, [ended(1)]), Ok(Commit::Done));
    block_on(a.tidy(&mut view)).unwrap();
    use crate::bucket::Bucket;
    bucket.put(&names::inbox(&view.task, 1), &Arc::default(), &Meta::new(), &Expect::Absent).unwrap();
    view
}

/// Scans until nothing changes any more; time passes between the scans.
fn scan(by: &Instance<Blocking<'_>>, bucket: &MemoryBucket) -> Result<(), Halt> {
    let mut views: HashMap<TaskId, View<JournalReplica>> = HashMap::new();
    for _ in 0..4 {
        bucket.set_time(2 * by.times.grace_ms + bucket.time());
        by.port.now_ms.set(by.port.now_ms.get() + 2 * by.times.grace_ms);
        for marker in block_on(by.markers())? {
            let new = || View::new(marker.task.clone(), None, JournalReplica::default());
            let view = views.entry(marker.task.clone()).or_insert_with(new);
            block_on(by.scan(view, &marker, |_| None))?;
            views.retain(|_, view| !view.is_unloaded);
        }
    }
    Ok(())
}

#[test]
fn another_instance_finishes_a_deletion_that_ended_at_any_request() {
    for requests in 0.. {
        let (bucket, left) = limited_bucket();
        let (a, b) = (instance(&bucket, "a"), instance(&bucket, "b"));
        let mut view = resting(&a, &bucket);
        left.store(requests, Ordering::Relaxed);
        let ended = block_on(a.delete(&mut view)).and_then(|_| scan(&a, &bucket));
        left.store(u64::MAX, Ordering::Relaxed);
        scan(&b, &bucket).unwrap();
        let mut found = self::view();
        match block_on(b.read_on(&mut found)).unwrap() {
            Read::NoLog => assert_eq!(self::names(&bucket, ""), 0, "ended after {requests} requests"),
            Read::Current => {
                assert!(ended.is_err() && found.replica.status().phase == Phase::Rest, "{requests}");
                assert_eq!(self::names(&bucket, names::OPEN), 0, "ended after {requests} requests");
            }
            Read::Gone => panic!("a part was left after {requests} requests"),
        }
        if ended.is_ok() {
            return;
        }
    }
}

#[test]
fn a_parent_stays_while_another_task_continues_it() {
    let bucket = MemoryBucket::new();
    let a = instance(&bucket, "a");
    let mut parent = resting(&a, &bucket);
    let mut child = View::new(TaskId::from("u"), None, JournalReplica::default());
    let events = [created("u", Some((parent.task.clone(), parent.tail))), owned("a", 1)];
    assert_eq!(commit(&a, &mut child, events), Ok(Commit::Done));
    assert_eq!(block_on(a.delete(&mut parent)), Ok(Append::Done));
    scan(&a, &bucket).unwrap();
    assert!(self::names(&bucket, "tasks/t/log/") > 40);
    assert_eq!(block_on(a.delete(&mut child)), Ok(Append::Done));
    scan(&a, &bucket).unwrap();
    assert_eq!(self::names(&bucket, ""), 0);
}

/// An operator has to change something first. The caller gets the error at once, and later no event is missing.
#[test]
fn a_request_that_the_store_refuses_ends_at_once_and_is_made_again_later() {
    for kind in [BucketErrorKind::Forbidden, BucketErrorKind::Unsupported] {
        for at in (0..).step_by(13) {
            let (bucket, requests) = faulty(at, Fault::Refused(kind));
            let a = instance(&bucket, "a");
            let mut view = self::view();
            let mut rest = lines(&view, [created("t", None), owned("a", 1), prompted(1), Event::TurnBegan { turn: 1 }]);
            for n in 0..EVENTS {
                Record { seq: Seq(5 + n), at: 1, event: Event::Text { text: n.to_string() } }.write(&mut rest);
            }
            let whole = rest.clone();
            let mut ends = 0;
            // As in the log of a task: after an error a new view reads the log, and the same lines are sent again.
            while !rest.is_empty() {
                let line = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
                let many = if view.tail == Seq(0) { whole.len() - lines_behind(&whole, 4).len() } else { line };
                match block_on(a.commit(&mut view, &rest[..many], |_| None)) {
                    Ok(commit) => assert_eq!(commit, Commit::Done, "{kind:?} at request {at}"),
                    Err(halt) => {
                        assert!(matches!(halt, Halt::Unavailable(_)), "{halt:?}");
                        ends += 1;
                        view = self::view();
                        assert!(block_on(a.read_on(&mut view)).is_ok());
                        a.adopt(&mut view);
                    }
                }
                rest = lines_behind(&whole, view.tail.0);
            }
            assert_eq!(a.port.now_ms.get(), 0, "a request that is not permitted is not tried again");
            if requests.load(Ordering::Relaxed) <= at {
                break;
            }
            assert_eq!(ends, 1, "{kind:?} at request {at}");
            let mut other = self::view();
            assert_eq!(block_on(instance(&bucket, "b").read_on(&mut other)), Ok(Read::Current));
            assert_eq!(other.replica.take_applied(), whole, "{kind:?} at request {at}");
        }
    }
}

fn lines_behind(lines: &[u8], seq: u64) -> Vec<u8> {
    lines.split_inclusive(|byte| *byte == b'\n').skip(seq as usize).flatten().copied().collect()
}
