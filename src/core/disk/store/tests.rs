//! The promises of the interface, tested with the store of the simulation.

use super::*;
use crate::core::test_core::core_harness::failing_store::{Crash, FailingStore, Failure};
use crate::task::log::event::Event;

fn line(seq: u64, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    Record { seq: Seq(seq), at: 1_000 + seq, event: Event::Text { text: text.into() } }.write(&mut out);
    out
}

fn texts(file: &dyn LogFile) -> Result<Vec<String>, StoreError> {
    let mut texts = Vec::new();
    read_all(file, &mut |record| match record.event {
        Event::Text { text } => texts.push(text),
        other => panic!("only texts were written, not {other:?}"),
    })?;
    Ok(texts)
}

fn store_with(lines: &[u8]) -> (FailingStore, TaskId) {
    let (mut store, task) = (FailingStore::default(), TaskId::from("t"));
    store.create(&task, &Brief::bare("c".into())).unwrap();
    store.append(&task, lines, Openness::Open).unwrap();
    (store, task)
}

#[test]
fn a_failed_append_leaves_nothing_and_can_be_given_again() {
    for failure in [Failure::Refused, Failure::Torn] {
        let (mut store, task) = store_with(&line(1, "a"));
        store.fail(failure, 2);
        let more = [line(2, "b"), line(3, "c")].concat();
        let file = store.open(&task).unwrap();
        for _ in 0..2 {
            assert!(store.append(&task, &more, Openness::Settled).is_err());
            assert_eq!(texts(&*file).unwrap(), ["a"]);
            assert!(store.known()[0].open, "the mark moves with the lines");
        }
        store.append(&task, &more, Openness::Settled).unwrap();
        assert_eq!(texts(&*file).unwrap(), ["a", "b", "c"]);
        assert!(!store.known()[0].open);
    }
}

#[test]
fn a_kill_keeps_what_was_written_and_a_power_loss_what_was_synced() {
    let (mut store, task) = store_with(&line(1, "a"));
    let file = store.open(&task).unwrap();
    file.sync().unwrap();
    store.append(&task, &line(2, "b"), Openness::Settled).unwrap();
    store.fail(Failure::Torn, 1);
    assert!(store.append(&task, &line(3, "c"), Openness::Open).is_err());
    assert!(store.bytes(&task).len() as u64 > file.len());
    store.crash(Crash::Killed);
    assert_eq!(texts(&*file).unwrap(), ["a", "b"]);
    store.crash(Crash::PowerLost);
    assert_eq!(texts(&*file).unwrap(), ["a"]);
}

#[test]
fn after_a_failed_sync_every_later_sync_of_the_log_fails() {
    let (mut store, task) = store_with(&line(1, "a"));
    let file = store.open(&task).unwrap();
    store.fail_syncs(1);
    let error = file.sync().unwrap_err();
    assert_eq!(file.sync(), Err(error));
    store.append(&task, &line(2, "b"), Openness::Open).unwrap();
    assert_eq!(texts(&*file).unwrap(), ["a", "b"], "reading goes on");
}

#[test]
fn a_task_is_known_from_its_first_line_on() {
    let mut store = FailingStore::default();
    for task in ["b", "a", "never"] {
        store.create(&task.into(), &Brief::bare("c".into())).unwrap();
    }
    for (task, open) in [("b", Openness::Settled), ("a", Openness::Open)] {
        store.append(&task.into(), &line(1, ""), open).unwrap();
    }
    assert!(store.create(&"a".into(), &Brief::bare("c".into())).is_err());
    let known = |task: &str, open| Known { task: task.into(), brief: Brief::bare("c".into()), open };
    assert_eq!(store.known(), [known("b", false), known("a", true)]);
}

#[test]
fn a_gap_and_a_bad_line_set_the_log_aside() {
    let mut flipped = [line(1, "a"), line(2, "b"), line(3, "c")].concat();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    for bad in [flipped, [line(1, "a"), line(3, "c")].concat(), line(2, "b")] {
        let (store, task) = store_with(&bad);
        let file = store.open(&task).unwrap();
        let error = texts(&*file).unwrap_err();
        assert_eq!(file.page(0, 1), Err(error));
        assert_eq!(store.known(), []);
    }
}

#[test]
fn a_page_has_whole_lines_and_at_least_one() {
    let lines = [line(1, "a"), line(2, "b"), line(3, "c")];
    let (store, task) = store_with(&lines.concat());
    let file = store.open(&task).unwrap();
    let one = lines[0].len();
    assert_eq!(file.page(0, 1).unwrap(), lines[0]);
    assert_eq!(file.page(0, 2 * one).unwrap(), lines[..2].concat());
    assert_eq!(file.page(one as u64, 3 * one).unwrap(), lines[1..].concat());
    assert_eq!(file.page(file.len(), 100).unwrap(), b"");
}
