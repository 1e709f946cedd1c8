//! Logs that are truncated, damaged, shortened, or of a newer version.

use super::*;

#[test]
fn an_incomplete_last_line_is_truncated_and_the_log_goes_on() {
    let whole = lines(&three_records("t"));
    let last = lines(&three_records("t")[..2]).len();
    for cut in last..whole.len() {
        let scratch = Scratch::new();
        write_task(&scratch, "t");
        fs::write(scratch.log("t"), &whole[..cut]).unwrap();
        let mut journal = scratch.open();
        // If only the line break is missing, the line is whole.
        let kept = if cut == whole.len() - 1 { 3 } else { 2 };
        assert_eq!(load(&mut journal, "t").unwrap(), three_records("t")[..kept], "cut at {cut}");
        let next = text(kept as u64 + 1, "next");
        journal.append(&"t".into(), &lines(std::slice::from_ref(&next)), Openness::Settled).unwrap();
        let all = [&three_records("t")[..kept], &[next]].concat();
        assert_eq!(load(&mut journal, "t").unwrap(), all, "cut at {cut}");
        assert_eq!(fs::read(scratch.log("t")).unwrap(), lines(&all));
    }
}

#[test]
fn a_flipped_byte_anywhere_sets_the_log_aside() {
    let whole = lines(&three_records("t"));
    let scratch = Scratch::new();
    write_task(&scratch, "t");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(scratch.log("t"), &bytes).unwrap();
        let mut journal = scratch.open();
        let error = load(&mut journal, "t").expect_err("one byte is wrong");
        assert!(error.message.contains(".damaged-"), "byte {at}: {error}");
        let aside = scratch.log("t.jsonl.damaged-1").with_extension("");
        assert_eq!(scratch.tasks(), ["t.jsonl.damaged-1"]);
        assert_eq!(fs::read(&aside).unwrap(), bytes, "kept as it was");
        fs::remove_file(aside).unwrap();
        assert_eq!(known_tasks(journal.archive().known()), Vec::<KnownTask>::new());
    }
}

#[test]
fn a_log_that_was_set_aside_can_be_neither_written_nor_read() {
    let scratch = Scratch::new();
    write_task(&scratch, "t");
    fs::write(scratch.log("t.jsonl.damaged-1").with_extension(""), "older").unwrap();
    let mut journal = scratch.open();
    let file = journal.archive().open(&"t".into()).unwrap();
    journal.append(&"t".into(), b"", Openness::Open).unwrap();
    let error = file.set_aside("a test says so");
    assert_eq!(file.page(0, 1), Err(error.clone()));
    assert_eq!(file.sync(), Err(error.clone()));
    let more = lines(&[text(4, "four")]);
    assert_eq!(journal.append(&"t".into(), &more, Openness::Open), Err(error));
    assert!(!scratch.marked("t"));
    assert_eq!(scratch.tasks(), ["t.jsonl.damaged-1", "t.jsonl.damaged-2"]);
}

#[test]
fn a_log_of_a_newer_version_is_left_where_it_is() {
    let scratch = Scratch::new();
    write_task(&scratch, "t");
    let head = r#"{"seq":1,"at":5,"v":99,"event":{"type":"created"}"#;
    let crc = crate::base::crc::crc32(head.as_bytes());
    let line = format!("{head},\"crc\":\"{crc:08x}\"}}");
    // With and without the line break, and also if the index does not name the log.
    for text in [format!("{line}\n"), line.clone()] {
        fs::write(scratch.log("t"), text).unwrap();
        let error = load(&mut scratch.open(), "t").unwrap_err();
        assert!(error.message.contains("it has format 99, this version reads up to 2; open it with"), "{error}");
        assert_eq!(scratch.tasks(), ["t.jsonl"]);
        fs::remove_file(scratch.0.join("index.jsonl")).unwrap();
        let mut journal = scratch.open();
        assert_eq!(journal.archive().known().len(), 1);
        assert!(journal.findings().iter().any(|text| text.contains("format 99")));
        assert_eq!(fs::read_to_string(scratch.log("t")).unwrap(), format!("{line}\n"));
    }
}

#[test]
fn a_log_that_lost_whole_lines_is_reported_at_the_start_and_can_be_used() {
    let scratch = Scratch::new();
    for task in ["cut", "emptied", "torn", "whole"] {
        let mut journal = scratch.open();
        journal.create(&task.into(), &Brief::bare("c".into())).unwrap();
        journal.append(&task.into(), &lines(&three_records(task)[..1]), Openness::Settled).unwrap();
        journal.append(&task.into(), &lines(&three_records(task)[1..]), Openness::Settled).unwrap();
        journal.update_summary(&task.into(), &Brief { at: 7, ..Brief::bare("c".into()) });
    }
    let mut journal = scratch.open();
    assert_eq!((journal.archive().known().len(), journal.findings()), (4, vec![]));
    drop(journal);
    let shorten = |task: &str, records: &[Record]| fs::write(scratch.log(task), lines(records)).unwrap();
    shorten("cut", &three_records("cut")[..2]);
    shorten("emptied", &[]);
    // A crash in the middle of an append leaves half a line, and takes nothing that was there.
    let torn = [lines(&three_records("torn")), b"{\"seq\":4,".to_vec()].concat();
    fs::write(scratch.log("torn"), torn).unwrap();
    let mut journal = scratch.open();
    assert_eq!(journal.archive().known().len(), 4);
    let mut found = journal.findings();
    found.sort();
    let [cut, emptied] = &found[..] else { panic!("{found:?}") };
    assert!(cut.contains("cut.jsonl has") && cut.contains("its last events are lost"), "{cut}");
    assert!(emptied.contains("emptied.jsonl has 0 bytes"), "{emptied}");
    assert_eq!(journal.findings(), [""; 0], "told once");
    let mut seen = 0;
    read_all(&*journal.archive().open(&"cut".into()).unwrap(), &mut |_| seen += 1).unwrap();
    assert_eq!(seen, 2);
    // When the task becomes idle again, the index has the present length.
    journal.update_summary(&"cut".into(), &Brief { at: 8, ..Brief::bare("c".into()) });
    drop(journal);
    let mut journal = scratch.open();
    journal.archive().known();
    assert_eq!(journal.findings().len(), 1, "only the empty one is left");
}

#[test]
fn many_shortened_logs_are_counted() {
    let scratch = Scratch::new();
    for n in 0..SHORTENED_NAMED + 3 {
        write_task(&scratch, &format!("t{n}"));
        fs::write(scratch.log(&format!("t{n}")), "").unwrap();
    }
    let mut journal = scratch.open();
    journal.archive().known();
    let found = journal.findings();
    assert_eq!(found.len(), SHORTENED_NAMED + 1);
    assert_eq!(found.last().map(String::as_str), Some("3 more journals are shorter than they were"));
}

#[test]
fn a_damaged_log_is_reported_once() {
    let scratch = Scratch::new();
    write_task(&scratch, "t");
    let mut bytes = fs::read(scratch.log("t")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(scratch.log("t"), &bytes).unwrap();
    let mut journal = scratch.open();
    journal.archive().known();
    assert_eq!(journal.findings(), [""; 0], "a start does not read what the index names");
    let file = journal.archive().lend(&"t".into()).unwrap();
    for _ in 0..2 {
        assert!(read_all(&*file, &mut |_| {}).is_err());
    }
    let found = journal.findings();
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("is damaged and cannot be used") && found[0].contains("t.jsonl.damaged-1"), "{found:?}");
}

#[test]
fn a_damaged_log_that_no_index_names_is_reported_at_the_start() {
    let scratch = Scratch::new();
    write_task(&scratch, "t");
    fs::remove_file(scratch.0.join("index.jsonl")).unwrap();
    fs::write(scratch.log("t"), "no line of ours\n").unwrap();
    let mut journal = scratch.open();
    assert_eq!(journal.archive().known().len(), 1, "whoever asks for it is told");
    let found = journal.findings();
    assert!(found.len() == 1 && found[0].contains("t.jsonl is damaged"), "{found:?}");
}
