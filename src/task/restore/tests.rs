//! Timelines of logs that are written down here.

use super::*;
use crate::task::message::{Message, Part, Role};
use serde_json::{Value, json};

fn version(name: &str) -> Value {
    json!({ "sha256": name, "len": 1, "mode": 0o644 })
}

fn changed(path: &str, before: Option<&str>, after: &str) -> Value {
    json!({ "file_changed": {
        "call": "c", "root": "/w", "path": path, "before": before.map(version), "after": version(after),
    } })
}

fn restored(to: u64, conversation: &str, files: &[(&str, &str, &str)]) -> Value {
    let files = files
        .iter()
        .map(|(path, from, to)| json!({ "root": "/w", "path": path, "from": version(from), "to": version(to) }));
    let by = json!({ "client": "ann", "via": "test" });
    json!({ "restored": { "to": to, "files": files.collect::<Vec<_>>(), "conversation": conversation, "items": 0, "by": by } })
}

/// The events of a turn with these in it.
pub(in crate::task) fn turn(number: u32, inside: &[Value]) -> Vec<Value> {
    let message = Message::new("m", Role::User, vec![Part::text(format!("prompt {number}"))]);
    let by = json!({ "client": "ann", "via": "test" });
    let mut events = vec![
        json!({ "prompted": { "message": message, "by": by, "turn": number } }),
        json!({ "turn_began": { "turn": number } }),
    ];
    events.extend_from_slice(inside);
    events.push(json!({ "turn_ended": { "turn": number, "end": "done" } }));
    events
}

pub(in crate::task) fn created() -> Value {
    json!({ "created": {
        "task": "t", "context": "c", "lifecycle": "conversational", "protocol": "0.3", "profile": "coder",
        "workspace": "/w", "model": "m",
    } })
}

fn with<T>(events: &[Vec<Value>], f: impl FnOnce(&Timeline) -> T) -> T {
    let kind = |_: &str| Some(Kind::Execute);
    let mut timeline = Timeline::new("t".into(), &kind);
    for (seq, event) in (1..).zip([created()].iter().chain(events.iter().flatten())) {
        let event = serde_json::from_value(event.clone()).unwrap_or_else(|error| panic!("{error}: {event}"));
        timeline.add(&Record { seq: Seq(seq), at: seq * 1000, event });
    }
    f(&timeline)
}

fn points(timeline: &Timeline) -> Vec<u64> {
    timeline.points().map(|point| point.seq.0).collect()
}

/// Paths with their targets and expected versions.
fn plan(timeline: &Timeline, to: u64) -> Vec<(String, Option<String>, Option<String>)> {
    let name = |version: Option<FileVersion>| version.map(|version| version.sha256);
    timeline.plan(Seq(to)).into_iter().map(|plan| (plan.path, name(plan.target), name(plan.expected))).collect()
}

#[test]
fn the_first_version_before_and_the_last_after_count() {
    let log = [
        turn(1, &[changed("a", Some("1"), "2"), changed("b", None, "3"), changed("a", Some("2"), "4")]),
        turn(2, &[changed("a", Some("4"), "5"), changed("c", Some("6"), "6")]),
    ];
    with(&log, |timeline| {
        assert_eq!(points(timeline), [9, 3]);
        let row = |path: &str, target: Option<&str>, expected: &str| {
            (path.to_owned(), target.map(str::to_owned), Some(expected.to_owned()))
        };
        assert_eq!(plan(timeline, 3), [row("a", Some("1"), "5"), row("b", None, "3")]);
        assert_eq!(plan(timeline, 9), [row("a", Some("4"), "5")], "a file that stayed the same is none");
        assert_eq!(timeline.before_turns(2).map(|point| point.seq), Some(Seq(3)));
        assert!(timeline.before_turns(3).is_none() && timeline.before_turns(0).is_none());
        assert_eq!(timeline.find("t-9").map(|point| point.seq), Some(Seq(9)));
        assert_eq!(timeline.find("2").map(|point| point.seq), Some(Seq(3)));
        for name in ["", "0", "3", "t-4", "../../t-9", "x-9", "-1"] {
            assert!(timeline.find(name).is_none(), "{name}");
        }
    });
}

#[test]
fn what_was_undone_is_not_undone_again_and_can_be_redone_until_something_happens() {
    let edits = turn(1, &[changed("a", Some("1"), "2")]);
    let more = turn(2, &[changed("a", Some("2"), "3")]);
    // The second turn is undone as event 10, the first one as event 11.
    let undo = vec![restored(7, "rewound", &[("a", "3", "2")])];
    let both = vec![restored(3, "rewound", &[("a", "2", "1")])];
    let redo = |to: u64, from: &str, version: &str| vec![restored(to, "rewound", &[("a", from, version)])];
    with(&[edits.clone(), more.clone(), undo.clone()], |timeline| {
        assert_eq!(points(timeline), [3]);
        assert_eq!(plan(timeline, 3), [("a".into(), Some("1".into()), Some("2".into()))]);
        assert_eq!(timeline.last_undoable(), Some((Seq(10), Conversation::Rewound)));
        assert_eq!(plan(timeline, 10), [("a".into(), Some("3".into()), Some("2".into()))]);
    });
    let log = [edits, more, undo, both];
    with(&log, |timeline| {
        assert_eq!((points(timeline), plan(timeline, 3)), (vec![], vec![]));
        assert_eq!(timeline.last_undoable().map(|(seq, _)| seq), Some(Seq(11)));
    });
    let once = [&log[..], &[redo(11, "1", "2")]].concat();
    with(&once, |timeline| {
        assert_eq!(points(timeline), [3]);
        assert_eq!(timeline.last_undoable().map(|(seq, _)| seq), Some(Seq(10)), "the first undo is left");
        assert_eq!(plan(timeline, 10), [("a".into(), Some("3".into()), Some("2".into()))]);
    });
    let twice = [&once[..], &[redo(10, "2", "3")]].concat();
    with(&twice, |timeline| {
        assert_eq!((points(timeline), timeline.last_undoable()), (vec![7, 3], None));
        assert_eq!(plan(timeline, 3), [("a".into(), Some("1".into()), Some("3".into()))]);
    });
    with(&[&log[..], &[turn(3, &[])]].concat(), |timeline| assert_eq!(timeline.last_undoable(), None));
    let shell = json!({ "shell_began": { "command": "make", "by": { "client": "ann", "via": "test" } } });
    with(&[&log[..], &[vec![shell]]].concat(), |timeline| {
        assert_eq!(timeline.last_undoable(), None);
        assert_eq!(timeline.not_undone(Seq(3)), ["make"]);
        assert_eq!(timeline.not_undone(Seq(13)), [""; 0]);
    });
}

#[test]
fn verdicts() {
    let version = |name: &str, mode: u32| FileVersion { sha256: name.into(), len: 1, mode, unstored: false };
    let plan = FilePlan {
        root: "/w".into(),
        path: "a".into(),
        target: Some(version("1", 0o644)),
        expected: Some(version("2", 0o644)),
        dirs: 0,
        interleaved: false,
    };
    let since = || RestoreVerdict::Conflict("was changed by somebody else since".into());
    for (present, verdict) in [
        (CurrentFile::File(version("1", 0o644)), RestoreVerdict::Nothing),
        (CurrentFile::File(version("2", 0o644)), RestoreVerdict::Restore),
        (CurrentFile::File(version("2", 0o600)), since()),
        (CurrentFile::File(version("1", 0o600)), since()),
        (CurrentFile::File(version("3", 0o644)), since()),
        (CurrentFile::Nothing, since()),
        (CurrentFile::Unclear("is a directory now".into()), RestoreVerdict::Conflict("is a directory now".into())),
    ] {
        assert_eq!(plan.verdict(&present), verdict, "{present:?}");
    }
    let ours = CurrentFile::File(version("2", 0o644));
    let between = RestoreVerdict::Conflict("was changed by somebody else between two edits".into());
    assert_eq!(FilePlan { interleaved: true, ..plan.clone() }.verdict(&ours), between);
    let target = Some(FileVersion { unstored: true, ..version("1", 0o644) });
    assert_eq!(FilePlan { target, ..plan.clone() }.verdict(&ours), RestoreVerdict::Lost);
    assert_eq!(FilePlan { target: None, ..plan }.verdict(&ours), RestoreVerdict::Restore);
}

#[test]
fn only_the_newest_points_are_offered() {
    let log: Vec<Vec<Value>> = (1..=RESTORE_POINTS as u32 + 2).map(|number| turn(number, &[])).collect();
    with(&log, |timeline| {
        assert_eq!(timeline.points().count(), RESTORE_POINTS);
        assert!(timeline.find("t-3").is_none(), "the first one");
        assert!(timeline.find(&RESTORE_POINTS.to_string()).is_some());
        assert!(timeline.before_turns(RESTORE_POINTS + 1).is_none());
    });
}
