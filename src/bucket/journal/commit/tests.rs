use super::*;
use crate::bucket::blocking_port::{Blocking, instance};
use crate::bucket::log::read::Read;
use crate::bucket::memory::MemoryBucket;
use crate::bucket::names;
use crate::bucket::port::block_on;
use crate::bucket::replica::{Phase, StoreEvent};
use crate::task::log::event::{Created, End};
use crate::task::log::test_created;
use crate::task::message::{Message, Part, Role, Source};
use std::sync::Arc;

fn created(task: &str, parent: Option<(TaskId, Seq)>) -> Event {
    Event::Created(Arc::new(Created { parent, ..test_created::created(task) }))
}

fn prompted(turn: u32) -> Event {
    let message = Arc::new(Message::new("m", Role::User, vec![Part::text("go")]));
    Event::Prompted { message, by: Source::clock(), turn, delivery: Default::default() }
}

fn owned(by: &str, epoch: u64) -> Event {
    Event::Owned(Arc::new(Owned { instance: by.into(), epoch, url: None }))
}

fn ended(turn: u32) -> Event {
    Event::TurnEnded { turn, end: End::Done, by: None }
}

/// The lines of events that follow the tail.
fn lines(view: &View<JournalReplica>, events: impl IntoIterator<Item = Event>) -> Vec<u8> {
    let mut lines = Vec::new();
    for (n, event) in events.into_iter().enumerate() {
        Record { seq: Seq(view.tail.0 + 1 + n as u64), at: 1, event }.write(&mut lines);
    }
    lines
}

fn view() -> View<JournalReplica> {
    View::new(TaskId::from("t"), None, JournalReplica::default())
}

fn commit(
    by: &Instance<Blocking<'_>>,
    view: &mut View<JournalReplica>,
    events: impl IntoIterator<Item = Event>,
) -> Result<Commit, Halt> {
    let lines = lines(view, events);
    block_on(by.commit(view, &lines, |_| None))
}

/// A task of `a` whose first turn has begun.
fn begun(a: &Instance<Blocking<'_>>) -> View<JournalReplica> {
    let mut view = view();
    let events = [created("t", None), owned("a", 1), prompted(1), Event::TurnBegan { turn: 1 }];
    assert_eq!(commit(a, &mut view, events), Ok(Commit::Done));
    view
}

fn names(bucket: &MemoryBucket, part: &str) -> usize {
    bucket.objects().iter().filter(|(name, _)| name.contains(part)).count()
}

#[test]
fn another_machine_restores_a_task_and_goes_on() {
    let bucket = MemoryBucket::new();
    let (a, b) = (instance(&bucket, "a"), instance(&bucket, "b"));
    let mut first = begun(&a);
    assert_eq!((names(&bucket, "contexts/"), names(&bucket, names::OPEN)), (1, 1));
    assert_eq!(commit(&a, &mut first, [ended(1)]), Ok(Commit::Done));
    block_on(a.tidy(&mut first)).unwrap();
    assert_eq!(names(&bucket, names::OPEN), 0, "a task at rest has no marker");

    let before = bucket.objects();
    let mut second = view();
    assert_eq!(block_on(b.read_on(&mut second)), Ok(Read::Current));
    assert_eq!(bucket.objects(), before, "reading writes nothing");
    assert_eq!(second.entry, first.entry);
    assert_eq!(second.replica.take_applied(), first.replica.take_applied());
    assert_eq!(commit(&b, &mut second, [owned("b", 2), prompted(2)]), Ok(Commit::Done));
    assert_eq!(names(&bucket, names::OPEN), 1);

    assert_eq!(commit(&a, &mut first, [prompted(2)]), Ok(Commit::Fenced));
    assert!(first.replica.take_fenced());
    assert_eq!(first.tail, second.tail);
}

#[test]
fn a_task_at_work_is_claimed_only_if_its_owner_is_dead() {
    let bucket = MemoryBucket::new();
    let (a, b) = (instance(&bucket, "a"), instance(&bucket, "b"));
    block_on(a.write_heartbeat(1)).unwrap();
    let first = begun(&a);
    assert_eq!(first.replica.status().phase, Phase::Working);
    let mut second = view();
    block_on(b.read_on(&mut second)).unwrap();
    assert_eq!(commit(&b, &mut second, [owned("b", 2), ended(1)]), Ok(Commit::Fenced));
    assert_eq!(second.tail, first.tail);
    block_on(b.delete_heartbeat(&a.id)).unwrap();
    assert_eq!(commit(&b, &mut second, [owned("b", 2), ended(1)]), Ok(Commit::Done));
}

#[test]
fn an_instance_that_does_not_own_a_task_commits_nothing() {
    let bucket = MemoryBucket::new();
    let (a, b) = (instance(&bucket, "a"), instance(&bucket, "b"));
    begun(&a);
    let mut second = view();
    block_on(b.read_on(&mut second)).unwrap();
    assert_eq!(commit(&b, &mut second, [ended(1)]), Ok(Commit::Fenced));
}

#[test]
fn segments_are_limited_and_begin_with_a_claim() {
    let bucket = MemoryBucket::new();
    let a = instance(&bucket, "a");
    let mut view = begun(&a);
    let text = |n: usize| Event::Text { text: format!("{n}") };
    assert_eq!(commit(&a, &mut view, (0..SEGMENT_LINES * 2 + 1).map(text)), Ok(Commit::Done));
    assert_eq!(names(&bucket, "/log/"), 1 + 3);
    let long = (0..3).map(|_| Event::Text { text: "x".repeat(SEGMENT_BYTES * 2 / 3) });
    assert_eq!(commit(&a, &mut view, long), Ok(Commit::Done));
    assert_eq!(names(&bucket, "/log/"), 1 + 3 + 3);
    let claimed = [text(0), text(1), owned("a", 2), text(2)];
    assert_eq!(commit(&a, &mut view, claimed), Ok(Commit::Done));
    assert_eq!(names(&bucket, "/log/"), 1 + 3 + 3 + 2);
}

#[test]
fn a_segment_with_wrong_event_numbers_is_damage() {
    let bucket = MemoryBucket::new();
    let a = instance(&bucket, "a");
    let view_a = begun(&a);
    let other = lines(&view(), [Event::Retried]);
    let name = names::segment(&view_a.task, view_a.tail.next());
    use crate::bucket::{Bucket, Expect, Meta};
    bucket.put(&name, &other.into(), &Meta::new(), &Expect::Absent).unwrap();
    let mut second = view();
    assert!(matches!(block_on(a.read_on(&mut second)), Err(Halt::Damaged(_))));
    assert!(second.is_unloaded);
}

/// A task whose creation was not completed is found by its marker and removed after the grace period.
#[test]
fn an_abandoned_creation_is_deleted_and_removed() {
    let bucket = MemoryBucket::new();
    let a = instance(&bucket, "a");
    let mut unfinished = view();
    let folder = names::context(&Default::default(), &Default::default(), &"c".into());
    unfinished.entry = Some(names::entry(&folder, &unfinished.task));
    block_on(a.create_entry(&mut unfinished, None)).unwrap();
    block_on(a.create_marker(&unfinished)).unwrap();
    for _ in 0..2 {
        bucket.set_time(2 * a.times.grace_ms + bucket.time());
        for marker in block_on(a.markers()).unwrap() {
            block_on(a.scan(&mut view(), &marker, |_| None)).unwrap();
        }
    }
    assert_eq!(bucket.objects(), []);
}

#[test]
fn the_lines_of_the_protocol_are_journal_lines() {
    let mut replica = JournalReplica::new(None);
    replica.unix_ms = 7;
    let owned = StoreEvent::Owned { instance: "i".into(), epoch: 3 };
    for (event, expected) in [
        (owned, r#"{"owned":{"instance":"i","epoch":3}}"#),
        (StoreEvent::Released, r#""released""#),
        (StoreEvent::Deleted, r#""deleted""#),
    ] {
        let line = String::from_utf8(replica.line(Seq(2), &event)).unwrap();
        assert!(line.starts_with(&format!(r#"{{"seq":2,"at":7,"v":2,"event":{expected},"crc":"#)), "{line}");
    }
}

mod faults;

#[test]
fn a_command_in_the_background_of_a_task_at_rest_has_a_marker() {
    let bucket = MemoryBucket::new();
    let a = instance(&bucket, "a");
    let mut view = begun(&a);
    assert_eq!(commit(&a, &mut view, [ended(1)]), Ok(Commit::Done));
    block_on(a.tidy(&mut view)).unwrap();
    assert_eq!(commit(&a, &mut view, [Event::Background { runs: true }]), Ok(Commit::Done));
    block_on(a.tidy(&mut view)).unwrap();
    assert_eq!(names(&bucket, names::OPEN), 1, "only its owner can go on with the task");
    assert_eq!(commit(&a, &mut view, [Event::Background { runs: false }]), Ok(Commit::Done));
    block_on(a.tidy(&mut view)).unwrap();
    assert_eq!(names(&bucket, names::OPEN), 0);
}

/// The creation of a task takes so long that the task which it continues is deleted meanwhile.
#[test]
fn a_task_is_not_created_whose_parent_was_deleted_meanwhile() {
    for is_deleted in [false, true] {
        let bucket = MemoryBucket::new();
        let (a, b) = (instance(&bucket, "a"), instance(&bucket, "b"));
        let mut parent = begun(&a);
        assert_eq!(commit(&a, &mut parent, [ended(1)]), Ok(Commit::Done));
        let mut child = View::new(TaskId::from("u"), None, JournalReplica::default());
        // The parent was read at this time.
        child.tail_checked_at = Some(b.port.now_ms.get());
        b.port.now_ms.set(b.times.fresh_ms + 1);
        if is_deleted {
            assert_eq!(block_on(a.delete(&mut parent)), Ok(crate::bucket::log::append::Append::Done));
        }
        let events = [created("u", Some((parent.task.clone(), Seq(5)))), owned("b", 1)];
        let expected = if is_deleted { Commit::Gone } else { Commit::Done };
        assert_eq!(commit(&b, &mut child, events), Ok(expected));
        assert_eq!(names(&bucket, "tasks/u/"), usize::from(!is_deleted));
    }
}

#[test]
fn a_heard_request_and_the_events_that_result_are_in_one_segment() {
    use crate::task::log::ownership::Heard;
    let bucket = MemoryBucket::new();
    let a = instance(&bucket, "a");
    let mut view = begun(&a);
    let text = |n: usize| Event::Text { text: format!("{n}") };
    let heard = Event::Heard(Arc::new(Heard { n: 1, request: "r".into(), void: false }));
    let events = (0..SEGMENT_LINES - 1).map(text).chain([heard, ended(1)]);
    assert_eq!(commit(&a, &mut view, events), Ok(Commit::Done));
    let first = 5 + SEGMENT_LINES as u64 - 1;
    let segment = names::segment(&view.task, Seq(first));
    let objects = bucket.objects();
    let (_, bytes) = objects.iter().find(|(name, _)| *name == segment).expect("it begins a segment");
    assert_eq!(memchr::memchr_iter(b'\n', bytes).count(), 2);
}
