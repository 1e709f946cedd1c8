//! Tests of the index: rewriting, crashes, several servers, full disks.

use super::*;
use crate::core::disk::store::{Openness, Store};
use crate::limits::Limits;
use crate::shell::journal::Journal;
use crate::shell::journal::tests::{Scratch, alone, created, lines as records};
use crate::task::machine::state::TaskState;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The path of a test's index.
fn index(scratch: &Scratch) -> PathBuf {
    scratch.0.join("index.jsonl")
}

fn journal(scratch: &Scratch, most_stale_lines: usize) -> Journal {
    scratch.open_with(&Limits { index_stale_lines: most_stale_lines, ..Limits::default() })
}

fn begin(journal: &mut Journal, task: &str) {
    let brief = Brief::bare("c".into());
    journal.create(&task.into(), &brief).unwrap();
    let first = records(&[created(task, "c")]);
    journal.append(&task.into(), &first, Openness::Settled).unwrap();
}

/// The task becomes idle for the `n`th time.
fn rest(journal: &mut Journal, task: &str, n: u64) {
    let brief = Brief { at: n, state: TaskState::InputRequired, ..Brief::bare("c".into()) };
    journal.update_summary(&task.into(), &brief);
}

/// Each task with the time when it last became idle, as a start reads them.
fn rests(journal: &mut Journal) -> Vec<(String, u64)> {
    let known = journal.archive().known().into_iter();
    known.map(|known| (known.task.to_string(), known.brief.at)).collect()
}

fn line_count(scratch: &Scratch) -> usize {
    let bytes = fs::read(index(scratch)).unwrap();
    assert!(matches!(bytes.last(), None | Some(b'\n')));
    lines(&bytes).count()
}

fn one(task: &str, n: u64) -> Vec<(String, u64)> {
    vec![(task.into(), n)]
}

#[test]
fn a_start_rewrites_an_index_with_too_many_stale_lines() {
    for (stale_lines, left) in [(3, 4), (4, 1)] {
        let scratch = Scratch::new();
        let mut before = journal(&scratch, 100);
        begin(&mut before, "t");
        for n in 1..=stale_lines {
            rest(&mut before, "t", n);
        }
        drop(before);
        assert_eq!(rests(&mut journal(&scratch, 3)), one("t", stale_lines));
        assert_eq!(line_count(&scratch), left, "{stale_lines} lines are stale");
        assert_eq!(rests(&mut journal(&scratch, 3)), one("t", stale_lines));
    }
}

#[test]
fn a_long_index_is_rewritten_only_when_half_of_its_lines_are_stale() {
    let scratch = Scratch::new();
    let mut before = journal(&scratch, 100);
    for task in ["a", "b", "c"] {
        begin(&mut before, task);
        rest(&mut before, task, 1);
    }
    assert_eq!(journal(&scratch, 0).archive().known().len(), 3);
    assert_eq!(line_count(&scratch), 6);
    rest(&mut before, "b", 2);
    let expected: Vec<_> = [("a", 1), ("b", 2), ("c", 1)].map(|(task, n)| (task.to_owned(), n)).into();
    assert_eq!(rests(&mut journal(&scratch, 0)), expected);
    assert_eq!(line_count(&scratch), 3);
    // Order and times of the beginnings survive it.
    assert_eq!(rests(&mut journal(&scratch, 0)), expected);
}

#[test]
fn a_worker_rewrites_the_index_while_the_server_goes_on() {
    let scratch = Scratch::new();
    let (mut ours, mut other) = (journal(&scratch, 3), journal(&scratch, 100));
    begin(&mut ours, "t");
    begin(&mut other, "o");
    for n in 1..=3 {
        rest(&mut ours, "t", n);
        assert!(ours.take_maintenance().is_none(), "{n} are not too many");
    }
    rest(&mut ours, "t", 4);
    let maintenance = ours.take_maintenance().expect("now there are too many");
    for n in 5..=7 {
        rest(&mut ours, "t", n);
    }
    assert!(ours.take_maintenance().is_none(), "one at a time");
    (maintenance.0)().unwrap();
    assert_eq!(line_count(&scratch), 2);
    rest(&mut ours, "t", 10);
    rest(&mut other, "o", 11);
    assert_eq!(line_count(&scratch), 4);
    let expected = [one("t", 10), one("o", 11)].concat();
    assert_eq!(rests(&mut scratch.open()), expected);
    assert!(ours.take_maintenance().is_some(), "four more lines are stale");
    rest(&mut ours, "t", 12);
    assert!(ours.take_maintenance().is_none(), "maintenance that was not done is due again later");
}

#[test]
fn a_crash_at_any_byte_leaves_the_last_line_of_a_task_or_none() {
    let scratch = Scratch::new();
    let mut ours = journal(&scratch, 100);
    for task in ["a", "b", "long", "c"] {
        begin(&mut ours, task);
    }
    let paths = ours.files.paths.clone();
    let mut all_rest = |rests: &[(&str, u64)]| rests.iter().for_each(|(task, n)| rest(&mut ours, task, *n));
    all_rest(&[("a", 1), ("b", 1767225600123), ("long", 3), ("c", 4)]);
    rewrite(&paths).unwrap();
    // The new line of `a` moves that of `b` by three bytes: at some borders, the only line of `b` lacks three digits of its time.
    all_rest(&[("c", 6), ("long", 7), ("a", 9999)]);
    let old = fs::read(index(&scratch)).unwrap();
    rewrite(&paths).unwrap();
    let new = fs::read(index(&scratch)).unwrap();
    assert_eq!(lines(&new).count(), 4);
    let last = live_entries(&new, &paths).unwrap();
    assert_eq!(last, live_entries(&old, &paths).unwrap());
    for cut in 0..=new.len() {
        let mixed = [&new[..cut], &old[cut..]].concat();
        let found = live_entries(&mixed, &paths).unwrap();
        let is_last = |entry: &Entry| last.iter().any(|it| Entry { at: it.at, ..entry.clone() } == *it);
        assert!(found.iter().all(is_last), "cut at {cut}: {found:?}");
        // The line at the border is lost, and a line that is overwritten by the longer last line of another task.
        assert!(found.len() + 2 >= last.len(), "cut at {cut}");
    }
}

#[test]
fn lines_of_other_servers_are_not_lost() {
    let scratch = Scratch::new();
    let (mut ours, mut other) = (journal(&scratch, 100), journal(&scratch, 100));
    begin(&mut ours, "t");
    rest(&mut ours, "t", 1);
    // Part of a line, as a crash leaves it.
    let whole = fs::read(index(&scratch)).unwrap();
    for cut in 0..=whole.len() {
        fs::write(index(&scratch), &whole[..cut]).unwrap();
        rest(&mut other, "t", 2);
        rewrite(&other.files.paths).unwrap();
        rest(&mut ours, "t", 3);
        rewrite(&ours.files.paths).unwrap();
        assert_eq!((line_count(&scratch), rests(&mut scratch.open())), (1, one("t", 3)), "cut at {cut}");
    }
}

#[test]
fn the_lines_of_deleted_tasks_are_removed() {
    let scratch = Scratch::new();
    let mut ours = journal(&scratch, 3);
    for task in ["a", "b", "c", "d", "e"] {
        begin(&mut ours, task);
    }
    for task in ["a", "b", "c"] {
        ours.archive().remove(&task.into()).unwrap();
        assert!(ours.take_maintenance().is_none());
    }
    ours.archive().remove(&"d".into()).unwrap();
    (ours.take_maintenance().expect("four lines are about nothing").0)().unwrap();
    assert_eq!(line_count(&scratch), 1);
    assert_eq!(rests(&mut ours), one("e", 0));
    ours.archive().remove(&"e".into()).unwrap();
    rewrite(&ours.files.paths).unwrap();
    assert_eq!(fs::read(index(&scratch)).unwrap(), b"");
    assert_eq!(rests(&mut scratch.open()), []);
}

#[test]
fn a_writer_without_the_lock_does_not_wait_and_appends_later() {
    let scratch = Scratch::new();
    let mut ours = journal(&scratch, 100);
    begin(&mut ours, "t");
    let theirs = open(&index(&scratch)).unwrap();
    let locked = Locked::new(&theirs, FlockOperation::LockExclusive).unwrap();
    begin(&mut ours, "u");
    rest(&mut ours, "t", 1);
    rest(&mut ours, "t", 2);
    assert_eq!(line_count(&scratch), 1);
    drop(locked);
    assert!(ours.take_maintenance().is_none());
    assert_eq!(line_count(&scratch), 3, "only the last entry was pending");
    assert_eq!(rests(&mut scratch.open()), [one("t", 2), one("u", 0)].concat());
}

#[test]
fn a_start_that_cannot_lock_the_index_reads_the_journals() {
    let scratch = Scratch::new();
    let mut ours = journal(&scratch, 100);
    begin(&mut ours, "t");
    rest(&mut ours, "t", 1);
    let theirs = open(&index(&scratch)).unwrap();
    let _held = Locked::new(&theirs, FlockOperation::LockExclusive).unwrap();
    assert_eq!(rests(&mut scratch.open()), one("t", 1001), "the time of its only event");
}

/// With a limit on the size of files the system writes only a part, as with a full disk.
#[test]
fn a_full_disk_loses_neither_old_nor_pending_lines() {
    if !alone("shell::journal::index::tests::a_full_disk_loses_neither_old_nor_pending_lines") {
        return;
    }
    let scratch = Scratch::new();
    let mut ours = journal(&scratch, 100);
    begin(&mut ours, "t");
    rest(&mut ours, "t", 1);
    rest(&mut ours, "t", 2);
    let before = getrlimit(Resource::Fsize);
    let most = |bytes: usize| {
        let limit = Rlimit { current: Some(bytes as u64), maximum: before.maximum };
        setrlimit(Resource::Fsize, limit).unwrap();
    };
    let whole = fs::read(index(&scratch)).unwrap();
    most(20);
    rewrite(&ours.files.paths).unwrap_err();
    assert_eq!(fs::read(index(&scratch)).unwrap(), whole);
    most(whole.len() + 20);
    rest(&mut ours, "t", 3);
    assert_eq!(fs::read(index(&scratch)).unwrap().len(), whole.len() + 20);
    setrlimit(Resource::Fsize, before).unwrap();
    assert_eq!(rests(&mut scratch.open()), one("t", 2));
    assert!(ours.take_maintenance().is_none());
    assert_eq!(rests(&mut scratch.open()), one("t", 3));
    rewrite(&ours.files.paths).unwrap();
    assert_eq!(line_count(&scratch), 1);
    assert_eq!(rests(&mut scratch.open()), one("t", 3));
}
