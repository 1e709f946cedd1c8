//! Tests of the store on disk; those of damaged logs and of instances have files of their own.

mod damage;
mod instance_files;

use super::*;
use crate::base::id::Seq;
use crate::core::disk::store::{Lasts, read_all};
use crate::limits::INSTANCE_BYTES;
use crate::task::log::event::{Created, Event, Profile, Protocol};
use crate::task::log::test_created;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// A state directory for one test, which is deleted afterwards.
pub(super) struct Scratch(pub PathBuf, Mutex<Vec<Instances>>);

impl Scratch {
    pub fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        Scratch(std::env::temp_dir().join(format!("journal-{}-{n}", std::process::id())), Mutex::default())
    }

    pub fn open(&self) -> Journal {
        self.open_with(&Limits::default())
    }

    pub fn open_with(&self, limits: &Limits) -> Journal {
        // Each journal belongs to another server: the ids stay locked until the end of the test.
        let instances = self.instances();
        let mut journal = Journal::open(&self.0, limits, &instances).unwrap();
        self.1.lock().unwrap().push(instances);
        // Tests of the index count only the maintenance of the index.
        journal.swept_ms = u64::MAX / 2;
        journal
    }

    pub fn instances(&self) -> Instances {
        Instances::open(&self.0, &mut sys::entropy()).unwrap()
    }

    pub fn dir(&self) -> &Path {
        &self.0
    }

    fn log(&self, task: &str) -> PathBuf {
        self.0.join(format!("tasks/{task}.jsonl"))
    }

    fn marked(&self, task: &str) -> bool {
        self.0.join("open").join(task).exists()
    }

    /// The names in `tasks`, sorted.
    fn tasks(&self) -> Vec<String> {
        let mut all: Vec<_> = names(&self.0.join("tasks")).collect();
        all.sort();
        all
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(seq: u64, event: Event) -> Record {
    Record { seq: Seq(seq), at: 1_000 + seq, event }
}

fn text(seq: u64, text: &str) -> Record {
    record(seq, Event::Text { text: text.into() })
}

pub(super) fn created(task: &str, context: &str) -> Record {
    record(
        1,
        Event::Created(Arc::new(Created {
            context: context.into(),
            protocol: Protocol::V03,
            profile: Profile::Coder,
            ..test_created::created(task)
        })),
    )
}

pub(super) fn lines(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        record.write(&mut out);
    }
    out
}

fn three_records(task: &str) -> [Record; 3] {
    [created(task, "c"), text(2, "two"), text(3, "three")]
}

/// A journal with one task of three events, closed again.
fn write_task(scratch: &Scratch, task: &str) {
    let mut journal = scratch.open();
    journal.create(&task.into(), &Brief::bare("c".into())).unwrap();
    journal.append(&task.into(), &lines(&three_records(task)), Openness::Settled).unwrap();
}

#[test]
fn a_log_is_removed_only_when_no_server_has_it_open() {
    let scratch = Scratch::new();
    write_task(&scratch, "a");
    write_task(&scratch, "b");
    let (mut one, other) = (scratch.open(), scratch.open());
    let lines = lines(&[text(4, "four")]);
    one.archive().open(&"a".into()).unwrap();
    one.append(&"a".into(), &lines, Openness::Settled).unwrap();
    let refused = other.archive().remove(&"a".into()).unwrap_err();
    assert!(refused.message.contains("another server"), "{refused}");
    one.append(&"a".into(), b"", Openness::Open).unwrap();
    assert_eq!(other.archive().remove(&"a".into()), Ok(Removal::LeftOpen));
    assert!(scratch.marked("a"));
    one.archive().remove(&"a".into()).unwrap();
    assert_eq!(scratch.tasks(), ["b.jsonl"]);
    assert!(!scratch.marked("a"));
    // A log that is not loaded is removed, too; removing it again is no error.
    for _ in 0..2 {
        one.archive().remove(&"b".into()).unwrap();
    }
    assert_eq!(scratch.tasks(), [""; 0]);
    assert_eq!(scratch.open().archive().known(), []);
    assert!(one.archive().remove(&"../b".into()).is_err());
}

#[test]
fn kept_output_is_removed_with_its_log_or_by_a_later_sweep() {
    let scratch = Scratch::new();
    write_task(&scratch, "a");
    write_task(&scratch, "b");
    let mut journal = scratch.open();
    let outputs = journal.archive().outputs().expect("a directory");
    let keep = |task: &str| {
        fs::create_dir_all(outputs.join(task)).unwrap();
        fs::write(outputs.join(task).join("1.txt"), "x").unwrap();
    };
    ["a", "b", "gone"].into_iter().for_each(keep);
    journal.archive().remove(&"a".into()).unwrap();
    let left = || {
        let mut left: Vec<_> = names(&outputs).collect();
        left.sort();
        left
    };
    assert_eq!(left(), ["b", "gone"]);
    journal.swept_ms = 0;
    let sweep = std::iter::from_fn(|| journal.take_maintenance());
    sweep.for_each(|maintenance| (maintenance.0)().unwrap());
    assert_eq!(left(), ["b"]);
}

/// The purge of a task leaves what another task names, too.
#[test]
fn content_that_two_logs_name_goes_with_the_second() {
    let scratch = Scratch::new();
    let mut journal = scratch.open();
    let blobs = journal.archive().blobs();
    let [shared, own] = [b"shared", b"of a.."].map(|bytes| blobs.put(bytes).unwrap());
    for (task, named) in [("a", vec![&shared, &own]), ("b", vec![&shared])] {
        journal.create(&task.into(), &Brief::bare("c".into())).unwrap();
        let line = |hash: &String| format!("{{\"after\":{{\"sha256\":\"{hash}\"}}}}\n");
        let lines: String = named.into_iter().map(line).collect();
        journal.append(&task.into(), lines.as_bytes(), Openness::Settled).unwrap();
        journal.archive().open(&task.into()).unwrap().sync().unwrap();
    }
    for hash in [&shared, &own] {
        let file = fs::File::options().write(true).open(scratch.0.join("blobs").join(&hash[..2]).join(hash)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    let mut purged = |tasks: &[&str]| {
        for task in tasks {
            journal.close(&(*task).into());
            journal.archive().remove(&(*task).into()).unwrap();
        }
        journal.swept_ms = 0;
        std::iter::from_fn(|| journal.take_maintenance()).for_each(|maintenance| (maintenance.0)().unwrap());
        [&shared, &own].map(|hash| blobs.read(hash, 0, 1).is_ok())
    };
    assert_eq!(purged(&[]), [true, true]);
    assert_eq!(purged(&["a"]), [true, false]);
    assert_eq!(purged(&["b"]), [false, false]);
}

fn load(journal: &mut Journal, task: &str) -> Result<Vec<Record>, StoreError> {
    let file = journal.archive().open(&task.into())?;
    let mut records = Vec::new();
    read_all(&*file, &mut |record| records.push(record))?;
    Ok(records)
}

/// What a start reads of a task: its id, its context, whether it is open.
type KnownTask = (String, String, bool);

fn known(task: &str, context: &str, open: bool) -> KnownTask {
    (task.into(), context.into(), open)
}

fn known_tasks(known: Vec<Known>) -> Vec<KnownTask> {
    let each = known.into_iter().map(|known| {
        let context = known.brief.context.to_string();
        (known.task.to_string(), context, known.open)
    });
    each.collect()
}

#[test]
fn events_are_there_after_a_restart() {
    let scratch = Scratch::new();
    let mut journal = scratch.open();
    journal.create(&"t".into(), &Brief::bare("c".into())).unwrap();
    let records = three_records("t");
    for record in &records {
        journal.append(&"t".into(), &lines(std::slice::from_ref(record)), Openness::Open).unwrap();
    }
    journal.archive().open(&"t".into()).unwrap().sync().unwrap();
    assert_eq!(load(&mut journal, "t").unwrap(), records);
    drop(journal);
    let mut journal = scratch.open();
    assert_eq!(known_tasks(journal.archive().known()), [known("t", "c", true)]);
    assert_eq!(load(&mut journal, "t").unwrap(), records);
    let again = journal.create(&"t".into(), &Brief::bare("c".into())).unwrap_err();
    assert!(again.message.contains("exists already"), "{again}");
}

#[test]
fn other_users_can_read_no_file() {
    let scratch = Scratch::new();
    let mut journal = scratch.open();
    journal.create(&"t".into(), &Brief::bare("c".into())).unwrap();
    journal.append(&"t".into(), &lines(&three_records("t")), Openness::Open).unwrap();
    journal.archive().blobs().put(b"abc").unwrap();
    let mut seen = Vec::new();
    let mut look = vec![scratch.0.clone()];
    while let Some(path) = look.pop() {
        let metadata = fs::metadata(&path).unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        assert_eq!(mode, if metadata.is_dir() { 0o700 } else { 0o600 }, "{path:?}");
        if metadata.is_dir() {
            look.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
        seen.push(path);
    }
    assert_eq!(seen.len(), 11, "six directories, index, instance, log, marker, stored content");
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o770)).unwrap();
    let refused = Instances::open(&scratch.0, &mut sys::entropy());
    let error = refused.err().expect("others may write there");
    assert!(error.message.contains("chmod 700"), "{error}");
}

#[test]
fn a_task_has_one_server_at_a_time() {
    let scratch = Scratch::new();
    write_task(&scratch, "t");
    let (mut first, mut second) = (scratch.open(), scratch.open());
    let reading = first.archive().open(&"t".into()).unwrap();
    let error = load(&mut second, "t").unwrap_err();
    assert!(error.message.contains("another server"), "{error}");
    assert_eq!(known_tasks(second.archive().known()), [known("t", "c", false)], "locked, but listed");
    first.close(&"t".into());
    assert!(load(&mut second, "t").is_err(), "somebody still reads it");
    assert!(load(&mut first, "t").is_ok(), "it is still the first one's");
    first.close(&"t".into());
    drop(reading);
    assert_eq!(load(&mut second, "t").unwrap(), three_records("t"));
}

/// The loop creates logs, so it may not look for the other server, which takes opening files.
#[test]
fn a_log_that_another_server_has_locked_cannot_be_created() {
    let scratch = Scratch::new();
    write_task(&scratch, "t");
    let (ours, mut theirs) = (scratch.open(), scratch.open());
    ours.archive().open(&"t".into()).unwrap();
    let error = theirs.create(&"t".into(), &Brief::bare("c".into())).unwrap_err();
    assert!(error.message.contains("exists already"), "{error}");
    assert_eq!(error.lasts, Lasts::Long);
    let error = theirs.archive().open(&"t".into()).err().expect("it is locked");
    assert_eq!(error.lasts, Lasts::WhileLocked);
}

#[test]
fn a_lent_log_is_unlocked_after_it_was_read() {
    let scratch = Scratch::new();
    for task in ["lent", "loaded"] {
        write_task(&scratch, task);
    }
    let (ours, theirs) = (scratch.open(), scratch.open());
    let [lent, loaded] = ["lent", "loaded"].map(TaskId::from);
    ours.archive().open(&loaded).expect("nobody has it");
    let read = [&lent, &loaded].map(|task| ours.archive().lend(task).expect("a log"));
    assert!(theirs.archive().open(&lent).is_err_and(|error| error.lasts == Lasts::WhileLocked));
    assert!(ours.archive().lend(&lent).is_ok() && ours.archive().open(&loaded).is_ok());
    drop(read);
    assert!(theirs.archive().open(&lent).is_ok(), "it was only read");
    assert!(theirs.archive().open(&loaded).is_err_and(|error| error.lasts == Lasts::WhileLocked));
}

#[test]
fn there_is_a_marker_while_a_task_is_open() {
    let scratch = Scratch::new();
    let mut journal = scratch.open();
    let (task, batch) = (TaskId::from("t"), three_records("t").map(|r| lines(&[r])));
    journal.create(&task, &Brief::bare("c".into())).unwrap();
    assert!(!scratch.marked("t"));
    for (line, open) in batch.iter().zip([Openness::Open, Openness::Settled, Openness::Open]) {
        journal.append(&task, line, open).unwrap();
        assert_eq!(scratch.marked("t"), open == Openness::Open);
    }
    journal.close(&task);
    assert!(scratch.marked("t"), "closing settles nothing");
    drop(journal);
    let mut journal = scratch.open();
    assert_eq!(known_tasks(journal.archive().known()), [known("t", "c", true)]);
    journal.archive().open(&task).unwrap();
    journal.append(&task, b"", Openness::Settled).unwrap();
    assert_eq!(known_tasks(journal.archive().known()), [known("t", "c", false)]);
}

#[test]
fn the_index_is_rebuilt_from_the_logs() {
    let scratch = Scratch::new();
    for task in ["b", "a"] {
        write_task(&scratch, task);
    }
    scratch.open().create(&"never".into(), &Brief::bare("c".into())).unwrap();
    let index = scratch.0.join("index.jsonl");
    let whole = fs::read(&index).unwrap();
    let all = |known: Vec<Known>| {
        let mut known = known_tasks(known);
        known.sort();
        known
    };
    let expected = [known("a", "c", false), known("b", "c", false)];
    for cut in 0..=whole.len() {
        fs::write(&index, &whole[..cut]).unwrap();
        assert_eq!(all(scratch.open().archive().known()), expected, "cut at {cut}");
        write_task(&scratch, "late");
        fs::remove_file(scratch.log("late")).unwrap();
        assert_eq!(all(scratch.open().archive().known()), expected, "cut at {cut}");
        assert!(fs::read(&index).unwrap().ends_with(b"\n"), "cut at {cut}");
    }
    fs::remove_file(&index).unwrap();
    assert_eq!(all(scratch.open().archive().known()), expected);
}

#[test]
fn tasks_come_in_the_order_of_their_creation() {
    let scratch = Scratch::new();
    let mut journal = scratch.open();
    let order: Vec<String> = (0..20).map(|n| format!("t{}", (n * 7) % 20)).collect();
    for (n, task) in order.iter().enumerate() {
        let mut first = created(task, "c");
        first.at = 10 + n as u64;
        journal.create(&task.as_str().into(), &Brief::bare("c".into())).unwrap();
        journal.append(&task.as_str().into(), &lines(&[first]), Openness::Settled).unwrap();
    }
    let ids = |known: Vec<Known>| -> Vec<String> { known.iter().map(|k| k.task.as_str().to_owned()).collect() };
    assert_eq!(ids(journal.archive().known()), order);
    fs::remove_file(scratch.0.join("index.jsonl")).unwrap();
    assert_eq!(ids(scratch.open().archive().known()), order);
}

#[test]
fn a_log_without_a_readable_first_line_is_listed() {
    let scratch = Scratch::new();
    let mut journal = scratch.open();
    fs::write(scratch.log("t"), "{}\n").unwrap();
    assert_eq!(known_tasks(journal.archive().known()), [known("t", "", false)]);
    assert!(load(&mut journal, "t").is_err());
    assert_eq!(known_tasks(journal.archive().known()), Vec::<KnownTask>::new());
}

#[test]
fn an_id_must_be_a_plain_file_name() {
    let scratch = Scratch::new();
    let mut journal = scratch.open();
    let long = "x".repeat(129);
    for id in ["", "..", "../t", "a/b", "a.b", "a\0b", "ä", " ", &long] {
        let error = journal.create(&id.into(), &Brief::bare("c".into())).unwrap_err();
        assert!(error.message.contains("cannot be the id"), "{id:?}: {error}");
        assert!(journal.archive().open(&id.into()).is_err());
    }
    assert!(scratch.tasks().is_empty());
    let longest = "x".repeat(128);
    journal.create(&longest.as_str().into(), &Brief::bare("c".into())).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", scratch.log("link")).unwrap();
    assert!(journal.archive().open(&"link".into()).is_err());
}

#[test]
fn a_page_is_whole_lines() {
    let scratch = Scratch::new();
    let mut journal = scratch.open();
    let (task, long) = (TaskId::from("t"), "x".repeat(200_000));
    let records = [created("t", "c"), text(2, &long), text(3, "three")];
    journal.create(&task, &Brief::bare("c".into())).unwrap();
    journal.append(&task, &lines(&records), Openness::Settled).unwrap();
    let file = journal.archive().open(&task).unwrap();
    let mut offset = 0;
    for record in &records {
        let line = lines(std::slice::from_ref(record));
        assert!(file.page(offset, 10).unwrap() == line, "{}", record.seq);
        offset += line.len() as u64;
    }
    assert_eq!(file.page(offset, 10).unwrap(), b"");
    assert_eq!(file.len(), offset);
    assert!(file.page(0, 1 << 20).unwrap() == lines(&records));
}

/// Runs a test again in a process of its own, because it changes limits of the whole process. True: this is that process.
pub(super) fn alone(test: &str) -> bool {
    const INNER: &str = "JOURNAL_TEST_ALONE";
    if std::env::var_os(INNER).is_some() {
        return true;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(INNER, "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}");
    assert!(stdout.contains("1 passed"), "{stdout}");
    false
}

/// With a limit on the size of files the system writes only a part, as with a full disk.
#[test]
fn a_short_write_is_truncated_and_can_be_repeated() {
    if !alone("shell::journal::tests::a_short_write_is_truncated_and_can_be_repeated") {
        return;
    }
    let scratch = Scratch::new();
    let mut journal = scratch.open();
    let task = TaskId::from("t");
    let [first, second, third] = three_records("t").map(|record| lines(&[record]));
    journal.create(&task, &Brief::bare("c".into())).unwrap();
    journal.append(&task, &first, Openness::Settled).unwrap();
    let before = getrlimit(Resource::Fsize);
    let more = [second, third].concat();
    assert_eq!(journal.archive().probe(), Ok(()));
    for room in 1..more.len() {
        let limit = Rlimit { current: Some((first.len() + room) as u64), maximum: before.maximum };
        setrlimit(Resource::Fsize, limit).unwrap();
        let error = journal.append(&task, &more, Openness::Open).unwrap_err();
        assert!(error.message.contains("free some space"), "{error}");
        let trial = journal.archive().probe().unwrap_err();
        assert_eq!(trial.hint, error.hint, "it fails for the same reason");
        let named = format!("{trial:?}").matches("journal-").count();
        assert_eq!(named, 1, "only the message names the place: {trial:?}");
        assert_eq!(fs::read(scratch.log("t")).unwrap(), first);
        assert_eq!(load(&mut journal, "t").unwrap(), three_records("t")[..1]);
    }
    setrlimit(Resource::Fsize, before).unwrap();
    assert_eq!(journal.archive().probe(), Ok(()));
    assert!(!names(&scratch.0).any(|name| name.starts_with("trial")));
    journal.append(&task, &more, Openness::Settled).unwrap();
    assert_eq!(load(&mut journal, "t").unwrap(), three_records("t"));
}

#[test]
fn a_log_that_was_never_written_leaves_nothing() {
    let scratch = Scratch::new();
    let mut journal = scratch.open();
    let task: TaskId = "t".into();
    journal.create(&task, &Brief::bare("c".into())).unwrap();
    journal.append(&task, b"", Openness::Open).unwrap();
    assert!(scratch.marked("t"));
    journal.close(&task);
    assert_eq!(scratch.tasks(), ["t.jsonl"], "the loop deletes nothing");
    while let Some(maintenance) = journal.take_maintenance() {
        (maintenance.0)().unwrap();
    }
    assert_eq!(scratch.tasks(), [""; 0]);
    assert!(!scratch.marked("t"));
}
