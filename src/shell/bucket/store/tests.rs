//! Stores of several instances that share a bucket in memory, used through the interface of the core.

use super::*;
use crate::bucket::memory::{Fault, MemoryBucket, Request};
use crate::task::log::event::{Created, End, Event};
use crate::task::log::ownership::Owned;
use crate::task::log::record::Record;
use crate::task::log::test_created;
use crate::task::message::{Message, Part, Role, Source};
use std::sync::atomic::{AtomicBool, Ordering};

/// An instance in its own state directory.
struct Node {
    store: BucketStore,
    dir: PathBuf,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.store.tasks.member.leave();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Node {
    fn new(bucket: &Arc<MemoryBucket>) -> Node {
        Node::with(bucket, Times { heartbeats_listed_ms: 20, ..Times::default() })
    }

    fn with(bucket: &Arc<MemoryBucket>, times: Times) -> Node {
        let dir = std::env::temp_dir().join(format!("bucket-store-{}", sys::entropy().uuid()));
        let store = BucketStore::open(bucket.clone(), times, None, (&dir, &["own"]), Log::off());
        Node { store: store.expect("the bucket is usable"), dir }
    }

    fn id(&self) -> Arc<str> {
        self.store.instance()
    }

    fn tasks(&self) -> &SharedTasks {
        &self.store.tasks
    }

    /// Appends events after those that this instance has read or appended.
    fn append(&mut self, task: &TaskId, events: impl IntoIterator<Item = Event>) {
        let known = self.known(task);
        let mut lines = Vec::new();
        for (n, event) in events.into_iter().enumerate() {
            Record { seq: Seq(known + 1 + n as u64), at: 1, event }.write(&mut lines);
        }
        if known == 0 {
            self.store.create(task, &Brief::bare("c".into())).expect("it is new");
        }
        self.store.append(task, &lines, Openness::Open).expect("memory takes it");
    }

    /// The number of events that this instance has read or appended.
    fn known(&self, task: &TaskId) -> u64 {
        let logs = lock(&self.tasks().logs);
        logs.get(task).map_or(0, |cached| cached.log.events())
    }

    fn sync(&self, task: &TaskId) -> Result<(), StoreError> {
        self.tasks().open(task).and_then(|log| log.sync())
    }

    /// Appends events and syncs them.
    fn write(&mut self, task: &TaskId, events: impl IntoIterator<Item = Event>) -> Result<(), StoreError> {
        self.append(task, events);
        self.sync(task)
    }

    fn owned(&self, epoch: u64) -> Event {
        Event::Owned(Arc::new(Owned { instance: self.id(), epoch, url: None }))
    }

    /// A new task whose first turn has begun.
    fn begin(&mut self, task: &TaskId, parent: Option<&TaskId>) {
        let events = [created(task, parent), self.owned(1), prompted(1, "go"), Event::TurnBegan { turn: 1 }];
        self.write(task, events).expect("the task is new");
    }

    /// A new task at rest, after one turn.
    fn run(&mut self, task: &TaskId, parent: Option<&TaskId>) {
        self.begin(task, parent);
        self.write(task, [ended(1)]).expect("the task is ours");
    }

    fn read(&self, task: &TaskId) -> Vec<u8> {
        let log = self.tasks().refresh(task).expect("the task exists");
        log.page(0, usize::MAX).expect("lines")
    }
}

fn created(task: &TaskId, parent: Option<&TaskId>) -> Event {
    Event::Created(Arc::new(Created {
        parent: parent.map(|parent| (parent.clone(), Seq(1))),
        ..test_created::created(task.as_str())
    }))
}

fn prompted(turn: u32, text: &str) -> Event {
    let message = Arc::new(Message::new("m", Role::User, vec![Part::text(text)]));
    Event::Prompted { message, by: Source::clock(), turn, delivery: Default::default() }
}

fn ended(turn: u32) -> Event {
    Event::TurnEnded { turn, end: End::Done, by: None }
}

fn two() -> (Arc<MemoryBucket>, Node, Node, TaskId) {
    let bucket = Arc::new(MemoryBucket::new());
    let (a, b) = (Node::new(&bucket), Node::new(&bucket));
    (bucket, a, b, TaskId::from("t"))
}

#[test]
fn a_task_that_was_taken_over_and_given_back_is_written_on() {
    let (_, mut a, mut b, task) = two();
    a.run(&task, None);
    b.read(&task);
    b.write(&task, [b.owned(2), prompted(2, "short"), Event::TurnBegan { turn: 2 }, ended(2)]).expect("it rests");
    // The void lines of `a` are longer than the lines that `b` has written with the same numbers.
    let fenced = a.write(&task, [prompted(2, &"long ".repeat(1_000))]).expect_err("it is void");
    assert_eq!(fenced.lasts, Lasts::WhileLocked);
    a.read(&task);
    a.write(&task, [a.owned(3), prompted(3, &"longer ".repeat(1_000)), Event::TurnBegan { turn: 3 }])
        .expect("it rests");
    assert_eq!(a.read(&task), b.read(&task));
}

/// A claim succeeds, but its response and the next one are lost. Then a reader finds the claim in the log.
#[test]
fn an_unfinished_task_whose_claim_a_reader_has_found_is_given_to_the_loop() {
    let is_lossy = Arc::new(AtomicBool::new(false));
    let (lossy, mut is_claimed) = (is_lossy.clone(), false);
    let bucket = Arc::new(MemoryBucket::with_faults(move |request| match request {
        Request::Put { name, .. } if name.contains("/log/") && lossy.load(Ordering::Relaxed) => {
            is_claimed = true;
            Some(Fault::LostAnswer)
        }
        Request::Get { name } if name.contains("/log/") && std::mem::take(&mut is_claimed) => Some(Fault::LostRequest),
        _ => None,
    }));
    let (mut a, mut b, task) = (Node::new(&bucket), Node::new(&bucket), TaskId::from("t"));
    a.begin(&task, None);
    b.read(&task);
    a.tasks().member.leave();
    is_lossy.store(true, Ordering::Relaxed);
    assert_eq!(b.tasks().scan(), Ok(vec![]));
    is_lossy.store(false, Ordering::Relaxed);
    b.tasks().lend(&task).expect("it is read");
    assert_eq!(b.known(&task), 5, "the claim is in the log");
    assert_eq!(b.tasks().scan(), Ok(vec![task.clone()]));
    b.write(&task, [ended(1)]).expect("it is ours");
    assert_eq!(b.tasks().scan(), Ok(vec![]), "it rests");
}

/// A sync waits before it sends text. The result has to include the text that was appended meanwhile: otherwise clients see it only after
/// the next sync.
#[test]
fn a_sync_covers_text_that_is_appended_while_it_waits() {
    let (_bucket, mut a, _b, task) = two();
    a.begin(&task, None);
    let text = || Event::Text { text: "x".into() };
    // On a busy machine the second text may be appended too late.
    let is_covered = (0..20).any(|_| {
        a.append(&task, [text()]);
        let (log, known) = (a.tasks().open(&task).expect("it is known"), Seq(a.known(&task)));
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| log.sync_upto(known));
            std::thread::sleep(std::time::Duration::from_millis(20));
            a.append(&task, [text()]);
            let synced = syncing.join().expect("no panic").expect("the task is ours");
            assert!(synced >= known);
            synced == known.next()
        })
    });
    assert!(is_covered);
}

#[test]
fn content_is_read_from_the_bucket_for_each_task_that_names_it() {
    let (_bucket, a, _b, _) = two();
    let content = a.tasks().content.clone();
    let hash = content.put(b"content").expect("a file is written");
    let line = format!("{{\"sha256\":\"{hash}\"}}\n");
    let tasks = ["x", "y"].map(TaskId::from);
    for task in &tasks {
        content.upload(task, line.as_bytes()).expect("the bucket takes it");
    }
    // As the sweep deletes old files.
    let sweep = || fs::remove_dir_all(a.dir.join("cache/own/blobs").join(&hash[..2])).expect("there is a file");
    let read = || content.read(&hash, 0, 99).map(|(bytes, _)| bytes).map_err(|error| error.kind());
    sweep();
    assert_eq!(read(), Ok(b"content".to_vec()));
    content.forget(&tasks[1]);
    sweep();
    assert_eq!(read(), Ok(b"content".to_vec()));
    content.forget(&tasks[0]);
    sweep();
    assert_eq!(read(), Err(std::io::ErrorKind::NotFound));
}

#[test]
fn content_with_a_damaged_copy_is_read_from_another_task() {
    let (bucket, a, _b, _) = two();
    let content = a.tasks().content.clone();
    let hash = content.put(b"content").expect("a file is written");
    let line = format!("{{\"sha256\":\"{hash}\"}}\n");
    for task in ["x", "y"] {
        content.upload(&task.into(), line.as_bytes()).expect("the bucket takes it");
    }
    let objects = bucket.objects().into_iter().map(|(name, _)| name);
    let copies: Vec<String> = objects.filter(|name| name.contains(&hash)).collect();
    let write = |name: &str, bytes: &[u8]| {
        bucket.delete(name, None).expect("an answer");
        bucket.put(name, &Arc::from(bytes), &Meta::default(), &Expect::Absent).expect("an answer");
    };
    let read = || {
        fs::remove_dir_all(a.dir.join("cache/own/blobs").join(&hash[..2])).expect("there is a file");
        content.read(&hash, 0, 99).map(|(bytes, _)| bytes).map_err(|error| error.kind())
    };
    for copy in &copies {
        write(copy, b"damaged");
        assert_eq!(read(), Ok(b"content".to_vec()));
        write(copy, b"content");
    }
    copies.iter().for_each(|copy| write(copy, b"damaged"));
    assert_eq!((copies.len(), read()), (2, Err(std::io::ErrorKind::InvalidData)));
    content.upload(&"z".into(), line.as_bytes()).expect("the task is not held up for ever");
}

impl Node {
    /// Does all pending maintenance.
    fn maintain(&mut self) {
        while let Some(Maintenance(work)) = self.store.take_maintenance() {
            work().expect("the bucket answers");
        }
    }

    fn note(&mut self, task: &TaskId) {
        self.store.update_summary(task, &Brief::bare("c".into()));
        self.maintain();
    }

    /// The tasks of the index, each with its number of turns.
    fn index(&self) -> Vec<(String, u32)> {
        let known = self.tasks().summaries().expect("an index");
        known.into_iter().map(|known| (known.task.to_string(), known.brief.turns)).collect()
    }

    /// Writes the projection of a task at rest, without built-in tools.
    fn project(&self, task: &TaskId) {
        let log = self.tasks().log(task);
        let state = log.view().replica.state.clone().expect("it was read");
        self.tasks().project(&log, state, &Tools::new(&[])).expect("the bucket answers");
    }
}

fn count(bucket: &MemoryBucket, part: &str) -> usize {
    bucket.objects().iter().filter(|(name, _)| name.contains(part)).count()
}

#[test]
fn an_instance_that_loads_a_task_replaces_the_summary_of_a_dead_instance() {
    let (_bucket, mut a, mut b, task) = two();
    a.run(&task, None);
    a.note(&task);
    assert_eq!(b.index(), [("t".to_owned(), 1)]);
    a.write(&task, [prompted(2, "more"), Event::TurnBegan { turn: 2 }, ended(2)]).expect("it is ours");
    // The instance dies before it has written the summary.
    a.tasks().member.leave();
    while b.tasks().member.is_alive(a.tasks().member.id()) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    b.read(&task);
    b.maintain();
    assert_eq!(b.index(), [("t".to_owned(), 2)]);
    let before = b.tasks().member.bucket.get("index/t").expect("an answer").value.map(|object| object.version);
    b.read(&task);
    b.maintain();
    let after = b.tasks().member.bucket.get("index/t").expect("an answer").value.map(|object| object.version);
    assert_eq!(before, after, "it is not older");
}

#[test]
fn a_summary_that_comes_late_does_not_bring_a_deleted_task_back() {
    let (bucket, mut a, mut b, task) = two();
    a.run(&task, None);
    a.note(&task);
    a.write(&task, [prompted(2, "more"), Event::TurnBegan { turn: 2 }, ended(2)]).expect("it is ours");
    b.read(&task);
    assert_eq!(b.tasks().remove(&task), Ok(Removal::Removed));
    assert_eq!(count(&bucket, "index/"), 0);
    a.note(&task);
    b.note(&task);
    assert_eq!(count(&bucket, "index/"), 0);
}

#[test]
fn a_task_that_another_one_continues_is_not_deleted() {
    let (bucket, mut a, b, parent) = two();
    let child = TaskId::from("u");
    a.run(&parent, None);
    a.run(&child, Some(&parent));
    // `b` has never heard of the child.
    let refused = b.tasks().remove(&parent).expect_err("it is continued");
    assert_eq!((refused.message.as_str(), refused.lasts), ("task u continues it", Lasts::Long));
    assert!(!b.read(&parent).is_empty());
    assert_eq!(b.tasks().remove(&child), Ok(Removal::Removed));
    // Another one is just being created.
    let folder = bucket.objects().into_iter().find_map(|(name, _)| Some(name.strip_suffix("/t")?.to_owned()));
    let folder = format!("{}/", folder.expect("an entry"));
    let meta = Meta::from([("parent".to_owned(), "t".to_owned())]);
    bucket.put(&names::entry(&folder, &"v".into()), &Arc::default(), &meta, &Expect::Absent).expect("an answer");
    assert!(b.tasks().remove(&parent).is_err());
    bucket.delete(&names::entry(&folder, &"v".into()), None).expect("an answer");
    assert_eq!(b.tasks().remove(&parent), Ok(Removal::Removed));
}

#[test]
fn the_objects_for_other_programs_follow_a_task_to_its_next_owner() {
    let (bucket, mut a, mut b, task) = two();
    let shown = || {
        let objects = bucket.objects();
        let state = objects.iter().find(|(name, _)| name.ends_with("/state.json")).expect("it is shown");
        let history = objects.iter().find(|(name, _)| name.ends_with("/history.json")).expect("it is shown");
        let seq = serde_json::from_slice::<serde_json::Value>(&state.1).expect("JSON")["seq"].clone();
        (seq, String::from_utf8_lossy(&history.1).contains("of b"))
    };
    a.run(&task, None);
    a.project(&task);
    assert_eq!(shown(), (serde_json::json!(5), false));
    b.read(&task);
    b.write(&task, [b.owned(2), prompted(2, "of b"), Event::TurnBegan { turn: 2 }, ended(2)]).expect("it rests");
    b.project(&task);
    assert_eq!(shown(), (serde_json::json!(9), true));
    // An instance that does not know that it has lost the task does not write an older projection.
    a.project(&task);
    assert_eq!(shown(), (serde_json::json!(9), true));
    // The first owner has it again.
    a.read(&task);
    let events = [a.owned(3), prompted(3, "of a"), Event::TurnBegan { turn: 3 }, ended(3)];
    a.write(&task, events).expect("it rests");
    a.project(&task);
    assert_eq!(shown(), (serde_json::json!(13), true));
}

#[test]
fn the_objects_for_other_programs_are_written_every_two_seconds_at_most() {
    let (bucket, mut a, _b, task) = two();
    a.store.tools().set(Tools::new(&[])).ok().expect("they were not known");
    a.run(&task, None);
    a.note(&task);
    assert_eq!(count(&bucket, "/state.json"), 1);
    let version = || bucket.get("tasks/t/state.json").expect("an answer").value.expect("it is shown").version;
    let first = version();
    a.write(&task, [prompted(2, "more"), Event::TurnBegan { turn: 2 }, ended(2)]).expect("it is ours");
    a.note(&task);
    assert_eq!(a.index(), [("t".to_owned(), 2)], "lists are not open waiting");
    assert_eq!(version(), first);
    std::thread::sleep(std::time::Duration::from_millis(crate::limits::store::PROJECTION_PAUSE_MS + 50));
    a.maintain();
    assert_ne!(version(), first);
}

#[test]
fn another_instance_removes_a_deleted_task_after_the_grace_period() {
    let (bucket, mut a, b, task) = two();
    a.run(&task, None);
    a.note(&task);
    a.project(&task);
    assert_eq!(a.tasks().remove(&task), Ok(Removal::Removed));
    a.tasks().member.leave();
    let beside = |name: &str| name.starts_with("index/") || name.ends_with(".json") && name.starts_with("tasks/");
    assert!(!bucket.objects().iter().any(|(name, _)| beside(name)), "lists and other programs lose it at once");
    assert_eq!(b.tasks().scan(), Ok(vec![]));
    assert!(count(&bucket, "tasks/t/log/") > 0, "its names are not free yet");
    bucket.set_time(bucket.time() + Times::default().removal_ms + 1_000);
    assert_eq!(b.tasks().scan(), Ok(vec![]));
    let left: Vec<String> = bucket.objects().into_iter().map(|(name, _)| name).collect();
    assert!(left.iter().all(|name| name.starts_with("instances/")), "{left:?}");
    assert_eq!(b.tasks().refresh(&task).err().map(|error| error.lasts), Some(Lasts::Gone));
}

#[test]
fn waiting_requests_fail_when_the_instance_is_cut_off() {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = is_down.clone();
    let plan = move |_: &Request| down.load(Ordering::Relaxed).then_some(Fault::LostRequest);
    let bucket = Arc::new(MemoryBucket::with_faults(plan));
    let mut a = Node::with(&bucket, Times { heartbeat_ms: 50, cut_off_ms: 300, ..Times::default() });
    let task = TaskId::from("t");
    a.run(&task, None);
    is_down.store(true, Ordering::Relaxed);
    let began = std::time::Instant::now();
    let errors = [a.tasks().refresh(&task).err(), a.tasks().follow(&task, Seq(0)).err()];
    // Seven attempts take about twenty seconds.
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    for error in errors {
        assert_eq!(error.map(|error| error.lasts), Some(Lasts::Shortly));
    }
    is_down.store(false, Ordering::Relaxed);
    while a.tasks().probe().is_err() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(!a.read(&task).is_empty());
}
