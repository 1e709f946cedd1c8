//! Tests of the files of the audit: parts, restarts, moved files.

use super::*;
use crate::core::disk::store::Store;
use crate::limits::Limits;
use crate::shell::event_loop::sys;
use crate::shell::journal::Journal;
use crate::shell::journal::instances::Instances;
use crate::task::audit::chain::Verifier;
use crate::task::audit::{Entry, Kind, What, Who};
use crate::tool::tests::Scratch;
use std::os::unix::fs::PermissionsExt;

const INSTANCE: &str = "i-1";

fn line(head: &mut Head, text: &str) -> Vec<u8> {
    let mut line = Vec::new();
    head.add(&Entry::new(Kind::Prompted, Who::agent(), What::default().with("text", text)), 1, &mut line);
    line
}

fn open(scratch: &Scratch, most: u64) -> Opened {
    AuditFile::open(scratch.path(), INSTANCE, most).expect("an audit")
}

/// All parts, in order.
fn whole(scratch: &Scratch) -> Vec<u8> {
    let dir = scratch.path().join("audit");
    let parts = numbers(&dir, INSTANCE).into_iter().map(Some).chain([None]);
    parts.flat_map(|number| fs::read(dir.join(part_name(INSTANCE, number))).expect("a part")).collect()
}

fn verified(bytes: &[u8]) -> Head {
    let mut verifier = Verifier::from_start();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        verifier.take(line.trim_ascii_end()).expect("a good line");
    }
    verifier.head()
}

#[test]
fn only_its_owner_can_read_it() {
    let scratch = Scratch::new();
    let opened = open(&scratch, 1_000);
    let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    let dir = scratch.path().join("audit");
    assert_eq!((mode(&dir), mode(&opened.file.path())), (0o700, 0o600));
    assert!(AuditFile::open(scratch.path(), INSTANCE, 1_000).is_err(), "it is locked");
    drop(opened);
    open(&scratch, 1_000);
}

#[test]
fn the_chain_goes_on_after_a_restart_and_an_incomplete_line_is_cut() {
    let scratch = Scratch::new();
    let Opened { file, mut head, torn } = open(&scratch, 1_000_000);
    assert_eq!((&head, torn), (&Head::default(), 0));
    file.append(&line(&mut head, "one")).unwrap();
    file.append(&line(&mut head, "two")).unwrap();
    file.sync().unwrap();
    let (path, before) = (file.path(), head.clone());
    drop(file);
    let third = line(&mut head, "three");
    // The process died at each byte of a write.
    for at in 0..third.len() {
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend(&third[..at]);
        fs::write(&path, &bytes).unwrap();
        let opened = open(&scratch, 1_000_000);
        assert_eq!((&opened.head, opened.torn), (&before, at as u64));
        assert_eq!(verified(&whole(&scratch)), before);
    }
    let Opened { file, mut head, .. } = open(&scratch, 1_000_000);
    file.append(&line(&mut head, "three")).unwrap();
    assert_eq!(verified(&whole(&scratch)), head);
    assert_eq!(head.n, 3);
}

#[test]
fn a_full_part_is_followed_by_the_next() {
    let scratch = Scratch::new();
    let Opened { file, mut head, .. } = open(&scratch, 1_000);
    let mut rolled = 0;
    for n in 0..20 {
        file.append(&line(&mut head, &n.to_string())).unwrap();
        if file.is_full() {
            assert!(!file.is_full(), "it says so once");
            file.roll().unwrap();
            rolled += 1;
        }
    }
    assert!(rolled >= 4, "{rolled}");
    let dir = scratch.path().join("audit");
    assert_eq!(numbers(&dir, INSTANCE), (1..=rolled).collect::<Vec<u64>>());
    assert_eq!(verified(&whole(&scratch)), head);
    let lengths = numbers(&dir, INSTANCE).into_iter();
    for length in lengths.map(|number| fs::metadata(dir.join(part_name(INSTANCE, Some(number)))).unwrap().len()) {
        assert!((1_000..1_600).contains(&length), "{length}");
    }
    // A server that died between the two renames left no current part.
    file.append(&line(&mut head, "last")).unwrap();
    file.roll().unwrap();
    drop(file);
    fs::remove_file(dir.join(part_name(INSTANCE, None))).unwrap();
    let opened = open(&scratch, 1_000);
    assert_eq!(opened.head, head);
}

/// The next part is begun by one worker while another one flushes.
#[test]
fn workers_flush_and_begin_parts_at_the_same_time() {
    let scratch = Scratch::new();
    let Opened { file, mut head, .. } = open(&scratch, 1_000_000);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..300).for_each(|_| file.sync().unwrap()));
        }
        for n in 0..100 {
            file.append(&line(&mut head, &n.to_string())).unwrap();
            file.roll().unwrap();
        }
    });
    assert_eq!(verified(&whole(&scratch)), head);
    assert!(lock(&file.current).unflushed.is_empty());
}

#[test]
fn after_the_file_was_moved_away_a_new_one_is_begun() {
    let scratch = Scratch::new();
    let Opened { file, mut head, .. } = open(&scratch, 1_000_000);
    file.append(&line(&mut head, "one")).unwrap();
    let path = file.path();
    file.reopen().unwrap();
    file.append(&line(&mut head, "two")).unwrap();
    let moved = scratch.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    file.reopen().unwrap();
    file.append(&line(&mut head, "three")).unwrap();
    file.sync().unwrap();
    let bytes = [fs::read(&moved).unwrap(), fs::read(&path).unwrap()].concat();
    assert_eq!(verified(&bytes), head);
    // A file of somebody else is not written to.
    fs::rename(&path, &moved).unwrap();
    fs::write(&path, "what is this\n").unwrap();
    let error = file.reopen().unwrap_err();
    assert!(error.message.contains("move it away"), "{error}");
    file.append(&line(&mut head, "four")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"what is this\n");
}

#[test]
fn a_changed_last_line_is_not_continued() {
    let scratch = Scratch::new();
    let Opened { file, mut head, .. } = open(&scratch, 1_000_000);
    file.append(&line(&mut head, "one")).unwrap();
    let path = file.path();
    drop(file);
    let text = fs::read_to_string(&path).unwrap().replace("one", "two");
    fs::write(&path, text).unwrap();
    let error = AuditFile::open(scratch.path(), INSTANCE, 1_000_000).err().expect("an error");
    assert!(error.message.contains("audit verify"), "{error}");
}

#[test]
fn the_journal_has_a_worker_begin_the_next_part() {
    let scratch = Scratch::new();
    let instances = Instances::open(scratch.path(), &mut sys::entropy()).expect("an id");
    let mut journal = Journal::open(scratch.path(), &Limits::default(), &instances).expect("a journal");
    assert!(journal.append_audit(b"").is_err(), "there is no audit yet");
    let Opened { file, mut head, .. } = AuditFile::open(scratch.path(), INSTANCE, 1_000).expect("an audit");
    journal.keep_audit(file);
    for n in 0..20 {
        journal.append_audit(&line(&mut head, &n.to_string())).unwrap();
        while let Some(maintenance) = journal.take_maintenance() {
            (maintenance.0)().unwrap();
        }
    }
    journal.archive().sync_audit().unwrap();
    assert!(numbers(&scratch.path().join("audit"), INSTANCE).len() >= 4);
    assert_eq!(verified(&whole(&scratch)), head);
}
