//! The view model (`Scene`) of recorded journals. It is folded without the task machine, so both are compared after every record: the
//! terminal must show the state of the machine.

use gemini_a2a::base::id::CallId;
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::state::{Phase as MachinePhase, Stage as MachineStage, State};
use gemini_a2a::ui::scene::{Item, Phase, Scene, Stage};
use std::path::{Path, PathBuf};

/// All recorded journals: those of every version of the format, and that of the golden transcripts.
fn journals() -> Vec<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let in_folder = |folder: &str| {
        let entries = std::fs::read_dir(tests.join("corpus/journal").join(folder)).expect("the corpus is there");
        entries.map(|entry| entry.expect("readable").path()).collect::<Vec<_>>()
    };
    let mut all = [in_folder("v1"), in_folder("v2"), vec![tests.join("golden/story.jsonl")]].concat();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    all.sort();
    all
}

fn records(path: &Path) -> Vec<Record> {
    let journal = std::fs::read(path).expect("readable");
    let lines = journal.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| Record::read(line).expect("a record")).collect()
}

fn check(scene: &Scene, state: &State, what: &str) {
    assert_eq!(scene.task.as_ref(), Some(&state.created.task), "{what}");
    assert_eq!((scene.seq, scene.at), (state.seq, state.at), "{what}");
    assert_eq!(scene.state, Some(state.status.state), "{what}");
    assert_eq!(scene.turn, state.turn.number, "{what}");
    assert_eq!(scene.model, state.model.as_ref(), "{what}");
    assert_eq!(scene.usage.total, state.total, "{what}");
    assert_eq!(scene.artifacts, state.artifacts, "{what}");
    assert_eq!(scene.error, state.turn.error, "{what}");
    assert_eq!(scene.hooks.len(), state.hooks.len(), "{what}");
    let queued = |turn: u32, text: &str| (turn, text.to_owned());
    let expected: Vec<_> = state.queue.iter().map(|prompt| queued(prompt.turn, &prompt.message.text())).collect();
    let found: Vec<_> = scene.queue.iter().map(|prompt| queued(prompt.turn, &prompt.text)).collect();
    assert_eq!(found, expected, "{what}");
    let mut asked: Vec<&CallId> = scene.asked.iter().collect();
    let mut expected: Vec<&CallId> = state.asked().map(|call| call.id()).collect();
    asked.sort();
    expected.sort();
    assert_eq!(asked, expected, "{what}");
    for call in &state.calls {
        let shown = &scene.calls[call.id()];
        assert_eq!(stage(shown.stage), stage_of_machine(call.stage), "{what}");
        assert_eq!((&shown.plan, &shown.ending), (&call.plan, &call.ending), "{what}");
        assert_eq!((shown.choice, &shown.by), (call.choice, &call.answered_by), "{what}");
    }
    let open: Vec<&str> = scene.items.iter().filter_map(open_text).collect();
    assert_eq!(open.concat(), state.utterance.text, "{what}");
    assert_eq!(scene.phase == Phase::Closed, state.phase == MachinePhase::Closed, "{what}");
    assert_eq!(scene.phase == Phase::Idle, state.phase == MachinePhase::Idle && !state.suspended, "{what}");
}

fn open_text(item: &Item) -> Option<&str> {
    match item {
        Item::Text { text, open: true, .. } => Some(text),
        _ => None,
    }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Named => "named",
        Stage::Planned => "planned",
        Stage::Asked => "asked",
        Stage::Answered => "answered",
        Stage::Ready => "ready",
        Stage::Running => "running",
        Stage::Replanning => "replanning",
        Stage::Ended => "ended",
        Stage::Interrupted => "interrupted",
    }
}

fn stage_of_machine(stage: MachineStage) -> &'static str {
    match stage {
        MachineStage::Named => "named",
        MachineStage::Planned => "planned",
        MachineStage::Asked | MachineStage::Inquired { .. } => "asked",
        MachineStage::Answered => "answered",
        MachineStage::Ready => "ready",
        MachineStage::Running { .. } => "running",
        MachineStage::Replanning { .. } => "replanning",
        MachineStage::Ended => "ended",
    }
}

#[test]
fn the_scene_agrees_with_the_task_machine_after_every_record() {
    let mut kinds = Vec::new();
    for path in journals() {
        let (mut scene, mut state) = (Scene::default(), None);
        for record in records(&path) {
            scene.fold(&record);
            let state = State::advance(&mut state, &record).expect("in place");
            check(&scene, state, &format!("{}, event {}", path.display(), record.seq));
            let kind = std::mem::discriminant(&record.event);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    assert!(kinds.len() >= 40, "{} kinds of events", kinds.len());
}

/// A scene that drops old items shows the same newest items as a complete one.
#[test]
fn a_trimmed_scene_shows_the_same_newest_items() {
    for path in journals() {
        let (mut whole, mut trimmed) = (Scene::default(), Scene::default());
        for record in records(&path) {
            whole.fold(&record);
            trimmed.fold(&record);
            if matches!(record.event, Event::TurnEnded { .. }) {
                trimmed.trim(3);
            }
            let items = &whole.items[whole.items.len() - trimmed.items.len()..];
            assert_eq!(trimmed.items, items, "{}, event {}", path.display(), record.seq);
            assert_eq!((&trimmed.asked, &trimmed.queue), (&whole.asked, &whole.queue));
        }
    }
}
