//! Appending and reading segments, with every result that a create can have.

use super::append::Append;
use super::read::Read;
use super::view::View;
use crate::base::id::{Seq, TaskId};
use crate::bucket::blocking_port::{Blocking, instance};
use crate::bucket::instance::Instance;
use crate::bucket::memory::{Fault, MemoryBucket, Request};
use crate::bucket::port::{Halt, block_on};
use crate::bucket::replica::{Applied, InstanceId, Phase, Replica, Status, StoreEvent};
use crate::bucket::{Bucket, Expect, Meta};
use std::sync::{Arc, Mutex};

/// The lines of a task, and its owner.
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    owner: Option<(InstanceId, u64)>,
    is_deleted: bool,
    fenced: usize,
}

impl Replica for Lines {
    fn entry(&self, _: &[u8]) -> Option<String> {
        Some("contexts/c/t".to_owned())
    }

    fn apply(&mut self, first: Seq, lines: &[u8]) -> Result<Applied, Halt> {
        assert_eq!(first.0 as usize, self.lines.len() + 1);
        for line in std::str::from_utf8(lines).unwrap().lines() {
            if let ["owned", instance, epoch] = line.split(' ').collect::<Vec<_>>()[..] {
                self.owner = Some((instance.into(), epoch.parse().unwrap()));
            }
            self.is_deleted |= line == "deleted";
            self.lines.push(line.to_owned());
        }
        Ok(Applied::Other)
    }

    fn status(&self) -> Status {
        Status {
            phase: if self.is_deleted { Phase::Deleted } else { Phase::Rest },
            owner: self.owner.as_ref().map(|(instance, _)| instance.clone()),
            epoch: self.owner.as_ref().map_or(0, |(_, epoch)| *epoch),
            released: false,
            heard: 0,
            due: false,
        }
    }

    fn line(&self, _: Seq, event: &StoreEvent) -> Vec<u8> {
        let line = match event {
            StoreEvent::Owned { instance, epoch } => format!("owned {instance} {epoch}\n"),
            StoreEvent::Released => "released\n".to_owned(),
            StoreEvent::Deleted => "deleted\n".to_owned(),
        };
        line.into_bytes()
    }

    fn fenced(&mut self) {
        self.fenced += 1;
    }
}

fn view() -> View<Lines> {
    View::new(TaskId::from("t"), None, Lines::default())
}

/// A task of `instance` with one line.
fn created(instance: &Instance<Blocking<'_>>) -> View<Lines> {
    let mut view = View::new(TaskId::from("t"), Some("contexts/c/t".to_owned()), Lines::default());
    block_on(instance.create_entry(&mut view, None)).unwrap();
    let line = format!("owned {} 1\n", instance.id);
    assert_eq!(block_on(instance.append(&mut view, line.into_bytes())), Ok(Append::Done));
    view.epoch = Some(1);
    view
}

fn append(instance: &Instance<Blocking<'_>>, view: &mut View<Lines>, line: &str) -> Result<Append, Halt> {
    block_on(instance.append(view, format!("{line}\n").into_bytes()))
}

/// A bucket with these faults of creates of segments, in order.
fn faulty(faults: impl IntoIterator<Item = Option<Fault>> + Send + 'static) -> MemoryBucket {
    let faults = Mutex::new(faults.into_iter().collect::<std::collections::VecDeque<_>>());
    MemoryBucket::with_faults(move |request| match request {
        Request::Put { name, .. } if name.starts_with("tasks/") => faults.lock().unwrap().pop_front().flatten(),
        _ => None,
    })
}

#[test]
fn a_segment_is_created_once() {
    for fault in [Fault::LostRequest, Fault::LostAnswer, Fault::Late { after: 1 }, Fault::Twice { after: 3 }] {
        let bucket = faulty([None, Some(fault)]);
        let a = instance(&bucket, "a");
        let mut mine = created(&a);
        assert_eq!(append(&a, &mut mine, "one"), Ok(Append::Done), "{fault:?}");
        assert_eq!(append(&a, &mut mine, "two"), Ok(Append::Done), "{fault:?}");
        let mut other = view();
        assert_eq!(block_on(instance(&bucket, "b").read_on(&mut other)), Ok(Read::Current));
        assert_eq!(other.replica.lines, ["owned a 1", "one", "two"], "{fault:?}");
        assert_eq!(other.replica.lines, mine.replica.lines);
    }
}

#[test]
fn another_segment_with_the_same_number_fences_the_task() {
    let bucket = MemoryBucket::new();
    let (a, b) = (instance(&bucket, "a"), instance(&bucket, "b"));
    let mut mine = created(&a);
    let mut theirs = view();
    block_on(b.read_on(&mut theirs)).unwrap();
    assert_eq!(block_on(b.claim(&mut theirs)), Ok(true));
    assert_eq!(append(&a, &mut mine, "one"), Ok(Append::Overtaken));
    assert!(!a.owns(&mine));
    assert_eq!(mine.replica.fenced, 1);
    assert_eq!(mine.replica.lines, ["owned a 1", "owned b 2"]);
}

/// The response to a create is lost, and another instance claims the task before the log is read: the segment is in the log, but the task
/// belongs to the other instance.
#[test]
fn the_log_is_read_after_an_append_with_an_unknown_result() {
    let bucket = faulty([None, Some(Fault::LostAnswer)]);
    let (a, b) = (instance(&bucket, "a"), instance(&bucket, "b"));
    let mut mine = created(&a);
    let line: Arc<[u8]> = (*b"one\n").into();
    bucket.put("tasks/t/log/000000000002.jsonl", &line, &Meta::new(), &Expect::Absent).unwrap_err();
    let mut theirs = view();
    block_on(b.read_on(&mut theirs)).unwrap();
    assert_eq!(block_on(b.claim(&mut theirs)), Ok(true));
    assert_eq!(append(&a, &mut mine, "one"), Ok(Append::Done));
    assert!(!a.owns(&mine));
    assert_eq!(mine.replica.lines, ["owned a 1", "one", "owned b 2"]);
}

#[test]
fn a_view_is_unloaded_when_append_gives_up() {
    let bucket = faulty([None].into_iter().chain([Some(Fault::LostRequest); 9]));
    let a = instance(&bucket, "a");
    let mut mine = created(&a);
    assert!(matches!(append(&a, &mut mine, "one"), Err(Halt::Unavailable(_))));
    assert!(mine.is_unloaded && !a.owns(&mine));
}

/// A task is removed while an instance does not check its log. A segment that this instance creates later is not trusted.
#[test]
fn a_removed_task_does_not_come_back() {
    let bucket = MemoryBucket::new();
    let a = instance(&bucket, "a");
    let mut mine = created(&a);
    for (name, _) in bucket.objects() {
        bucket.delete(&name, None).unwrap();
    }
    a.port.now_ms.set(a.times.fresh_ms + 1);
    assert_eq!(append(&a, &mut mine, "one"), Ok(Append::Gone));
    assert!(mine.is_unloaded);
    assert!(bucket.objects().is_empty());
}

#[test]
fn compacted_segments_and_the_segments_after_them_are_loaded() {
    let bucket = MemoryBucket::new().with_pages_of(3);
    let a = instance(&bucket, "a");
    let mut mine = created(&a);
    for n in 2..=70 {
        append(&a, &mut mine, &format!("line {n}")).unwrap();
        if let Some(compaction) = a.next_compaction(&mut mine) {
            block_on(a.compact(&compaction)).unwrap();
        }
    }
    let mut other = view();
    assert_eq!(block_on(instance(&bucket, "b").read_on(&mut other)), Ok(Read::Current));
    assert_eq!(other.replica.lines, mine.replica.lines);
    let compacted = bucket.objects().iter().filter(|(name, _)| name.contains("/compact/")).count();
    assert_eq!(compacted, 2);
}
