//! Golden transcripts: the events of one task, in every dialect. `tests/golden/story.jsonl` is the journal of the task; the test writes it
//! from the records below, so that it stays valid. For each dialect, a file beside it has the output of `gemini-a2a replay` for that
//! journal: all events, then the task when it waits for an answer, and the task at the end. The files are compared byte by byte. After an
//! intended change of a dialect, `GOLDEN=write cargo test --test golden` writes them again, and the difference is to be reviewed.

#[path = "support/created.rs"]
mod test_created;

use gemini_a2a::a2a::{self, Dialect, Tools, View, named_views};
use gemini_a2a::base::id::{CallId, Seq};
use gemini_a2a::limits::Limits;
use gemini_a2a::shell::start::replay::{self, Log};
use gemini_a2a::task::log::answer::{Answer, Request, Usage};
use gemini_a2a::task::log::blob::MemoryBlobs;
use gemini_a2a::task::log::event::{Created, End, Event, Profile, Protocol};
use gemini_a2a::task::log::long_text::LongText;
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::state::State;
use gemini_a2a::task::message::{Message, Part, Role, Source};
use gemini_a2a::task::spec::{
    ApprovalScope, Choice, Confinement, Display, Ending, ErrorKind, Kind, Plan, Question, ToolSpec,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// `2026-03-01T09:30:00.000Z`; an event happens every hundred milliseconds.
const BEGIN: u64 = 1_772_357_400_000;

fn story() -> Vec<Event> {
    let mut story = vec![
        Event::Created(Arc::new(created())),
        Event::Prompted { message: Arc::new(prompt()), by: by("cli"), turn: 1, delivery: Default::default() },
        Event::TurnBegan { turn: 1 },
        Event::Traced { trace: "trace-1".into() },
        Event::Thought { subject: "Planning".into(), description: "The notes come first, then the build.".into() },
        text("I will write "),
        text("the notes.\n"),
        answered("I will write the notes.\n", 6, calls(), "trace-1"),
    ];
    story.extend(questions());
    story.extend(edit());
    story.extend(build());
    story.extend([
        Event::ResultsSent,
        text("The build "),
        Event::Cited { text: "[1] https://example.org/make".into() },
        text("is \"done\"."),
        answered("The build is \"done\".", 30, Vec::new(), "trace-2"),
        Event::TurnEnded { turn: 1, end: End::Done, by: None },
    ]);
    story
}

/// Three calls at once: an edit and a command that are asked about, and a read that needs no answer and fails.
fn questions() -> Vec<Event> {
    vec![
        planned("call-1", "Write notes.txt", edit_question()),
        asked("call-1"),
        planned("call-2", "make", command_question()),
        asked("call-2"),
        planned("call-3", "Read gone.txt", read_question()),
        Event::CallReady { call: "call-3".into(), confinement: Confinement::None },
        Event::CallStarted { call: "call-3".into() },
        ended("call-3", Ending::Error { error: ErrorKind::FileNotFound.error("There is no file gone.txt.") }),
        Event::Paused,
    ]
}

/// The user changes the proposal and allows it.
fn edit() -> Vec<Event> {
    let call = || CallId::from("call-1");
    let mut edit = vec![answered_call("call-1", Some("my notes\n"))];
    edit.extend([
        Event::CallReady { call: call(), confinement: Confinement::None },
        Event::CallStarted { call: call() },
        ended(
            "call-1",
            Ending::Success {
                output: "Wrote notes.txt.".into(),
                display: Display::Diff {
                    file_name: "notes.txt".into(),
                    file_path: "/home/dev/proj/notes.txt".into(),
                    diff: "@@ -1,1 +1,1 @@\n-old notes\n+my notes\n".into(),
                    old: Some("old notes\n".into()),
                    new: "my notes\n".into(),
                    added: 1,
                    removed: 1,
                },
            },
        ),
        Event::Paused,
    ]);
    edit
}

fn build() -> Vec<Event> {
    let call = || CallId::from("call-2");
    let output = |text: &str| Event::CallOutput { call: call(), text: text.into() };
    let mut build = vec![answered_call("call-2", None)];
    build.extend([
        Event::CallReady { call: call(), confinement: Confinement::None },
        Event::CallStarted { call: call() },
        output("cc a.c\n"),
        output("cc b.c\n"),
        ended(
            "call-2",
            Ending::Success {
                output: "cc a.c\ncc b.c\nExit Code: 0".into(),
                display: Display::Text { text: "cc a.c\ncc b.c\n".into() },
            },
        ),
    ]);
    build
}

fn created() -> Created {
    Created {
        context: "c-1".into(),
        protocol: Protocol::V03,
        profile: Profile::Coder,
        workspace: "/home/dev/proj".into(),
        model: "gemini-2.5-pro".into(),
        ..test_created::created("t-1")
    }
}

fn prompt() -> Message {
    Message::new("m-1", Role::User, vec![Part::text("write notes.txt and build")])
}

fn by(client: &str) -> Source {
    Source::new(client, "a2a-0.3")
}

fn text(text: &str) -> Event {
    Event::Text { text: text.into() }
}

fn calls() -> Vec<Request> {
    let call = |id: &str, name: &str, args: Value| Request { call: id.into(), name: name.into(), args, api_id: None };
    vec![
        call("call-1", "write_file", json!({"file_path": "notes.txt", "content": "notes\n"})),
        call("call-2", "run_shell_command", json!({"command": "make"})),
        call("call-3", "read_file", json!({"file_path": "gone.txt"})),
    ]
}

fn answered(text: &str, said_at: u64, calls: Vec<Request>, trace: &str) -> Event {
    Event::Answered {
        answer: Arc::new(Answer {
            usage: Some(Usage { prompt: 120, output: 30, total: 150, ..Usage::default() }),
            trace: Some(trace.into()),
            model: Some("gemini-2.5-pro".into()),
            said_at: Some(Seq(said_at)),
            ..Answer::new(text, calls)
        }),
    }
}

fn planned(call: &str, title: &str, question: Question) -> Event {
    Event::CallPlanned { call: call.into(), plan: Arc::new(Plan { title: title.into(), question, base: None }) }
}

fn asked(call: &str) -> Event {
    Event::CallAsked { call: call.into(), keeping: ApprovalScope::Session }
}

fn answered_call(call: &str, edited: Option<&str>) -> Event {
    Event::CallAnswered {
        call: call.into(),
        choice: Choice::ProceedOnce,
        by: by("editor"),
        edited: edited.map(Into::into),
        answers: None,
        rules: Vec::new(),
    }
}

fn ended(call: &str, ending: Ending) -> Event {
    Event::CallEnded { call: call.into(), ending: Arc::new(ending) }
}

fn edit_question() -> Question {
    Question::Edit {
        title: "Confirm Write: notes.txt".into(),
        file_name: "notes.txt".into(),
        file_path: "/home/dev/proj/notes.txt".into(),
        diff: "@@ -1,1 +1,1 @@\n-old notes\n+notes\n".into(),
        old: Some("old notes\n".into()),
        new: "notes\n".into(),
    }
}

fn command_question() -> Question {
    Question::Exec {
        title: "Confirm Shell Command".into(),
        command: "make".into(),
        programs: vec!["make".into()],
        dir: None,
        warnings: Vec::new(),
        needs_approval: None,
        edits: Vec::new(),
    }
}

fn read_question() -> Question {
    Question::Info { title: "Confirm Read".into(), prompt: "Read gone.txt".into(), urls: Vec::new() }
}

/// The tools of the story, with short declarations: some dialects repeat the whole declaration with every update of a call.
fn tools() -> Tools {
    let tool = |name: &str, display_name: &str, kind| {
        ToolSpec::new(name, display_name, kind, &format!("{display_name}."), json!({"type": "object"}))
    };
    Tools::new(&[
        tool("write_file", "WriteFile", Kind::Edit),
        tool("run_shell_command", "Shell", Kind::Execute),
        tool("read_file", "ReadFile", Kind::Read),
    ])
}

fn journal() -> Vec<u8> {
    journal_of(story())
}

fn journal_of(events: Vec<Event>) -> Vec<u8> {
    let mut lines = Vec::new();
    for (n, event) in (1..).zip(events) {
        let at = BEGIN + 100 * n;
        let seq = Seq(n);
        Record { seq, at, event }.write(&mut lines);
    }
    lines
}

/// The event with which the task waits for the first time, and the last event.
fn moments() -> [Seq; 2] {
    let story = story();
    let pause = story.iter().position(|event| *event == Event::Paused);
    let pause = pause.expect("the story has a pause") + 1;
    [pause, story.len()].map(|n| Seq(n as u64))
}

/// The story with long texts in its edit and in the results.
fn long_story() -> Vec<Event> {
    let mut story = story();
    let lengthen = |text: &mut LongText| {
        if !text.is_empty() {
            *text = (text.as_str().to_owned() + &"a \"long\" text\n".repeat(5_000)).into();
        }
    };
    for event in &mut story {
        texts_of(event).into_iter().for_each(lengthen);
    }
    story
}

fn texts_of(event: &mut Event) -> Vec<&mut LongText> {
    match event {
        Event::CallPlanned { plan, .. } => Arc::make_mut(plan).texts_mut(),
        Event::CallEnded { ending, .. } => Arc::make_mut(ending).texts_mut(),
        _ => Vec::new(),
    }
}

#[test]
fn long_texts_look_the_same_in_every_dialect_but_the_native_one() {
    let (inline, mut story) = (journal_of(long_story()), long_story());
    let blobs = MemoryBlobs::default();
    for text in story.iter_mut().flat_map(texts_of) {
        text.store(&blobs, &Limits::default(), &mut u64::MAX.clone());
    }
    let stored = journal_of(story);
    assert!(stored.len() < 20_000 && inline.len() > 400_000, "{} and {}", stored.len(), inline.len());
    let replay = |journal: &[u8], blobs: &MemoryBlobs, view| {
        let mut out = Vec::new();
        let log = Log { journal, blobs };
        replay::events(log, view, &tools(), &mut out).expect("a journal of ours");
        for at in moments() {
            replay::snapshot(log, view, at, &mut out).expect("a journal of ours");
        }
        String::from_utf8(out).expect("JSON is text")
    };
    for (name, view) in named_views() {
        let (before, after) = (replay(&inline, &blobs, view), replay(&stored, &blobs, view));
        assert_eq!(before == after, name != "own", "{name}");
        let without = replay(&stored, &MemoryBlobs::default(), view);
        assert_eq!(without.contains("It cannot be read: "), name != "own", "{name}");
    }
}

fn transcript(name: &str, view: View) -> String {
    let (journal, tools) = (journal(), tools());
    let mut out = format!("$ replay story.jsonl --as {name}\n").into_bytes();
    replay::events(Log { journal: &journal, blobs: &MemoryBlobs::default() }, view, &tools, &mut out)
        .expect("a journal of ours");
    for at in moments() {
        out.extend_from_slice(format!("$ replay story.jsonl --at {at} --as {name}\n").as_bytes());
        replay::snapshot(Log { journal: &journal, blobs: &MemoryBlobs::default() }, view, at, &mut out)
            .expect("a journal of ours");
    }
    String::from_utf8(out).expect("JSON is text")
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Compares line by line, so that a failure shows the one line and not the file.
fn compare(name: &str, actual: &str) {
    let path = golden(name);
    if std::env::var_os("GOLDEN").is_some_and(|word| word == "write") {
        return std::fs::write(&path, actual).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let pairs = expected.lines().zip(actual.lines()).zip(1..);
    for ((expected, actual), line) in pairs {
        assert_eq!(
            expected, actual,
            "tests/golden/{name}, line {line}; if that is meant, run GOLDEN=write cargo test --test golden and read the diff"
        );
    }
    assert_eq!(
        expected.lines().count(),
        actual.lines().count(),
        "tests/golden/{name} has more or fewer lines; if that is meant, run GOLDEN=write cargo test --test golden and read the diff"
    );
}

#[test]
fn the_story_in_every_dialect() {
    let journal = String::from_utf8(journal()).expect("JSON is text");
    compare("story.jsonl", &journal);
    for (name, view) in named_views() {
        compare(&format!("{name}.txt"), &transcript(name, view));
    }
    compare("scene.txt", &scenes());
}

/// The scenes that the terminal interface shows: at each of the moments, and without a moment, which means the end.
fn scenes() -> String {
    let journal = journal();
    let mut out = Vec::new();
    for at in moments().map(Some).into_iter().chain([None]) {
        replay::scene(Log { journal: &journal, blobs: &MemoryBlobs::default() }, at, &mut out)
            .expect("a journal of ours");
    }
    String::from_utf8(out).expect("JSON is text")
}

/// A state that forgets the past of the conversation projects the same events as the whole state.
#[test]
fn replay_without_cached_state_gives_the_same_output() {
    let (journal, tools) = (journal(), tools());
    for (name, view) in named_views() {
        let mut states: Option<(State, State)> = None;
        for line in journal.split(|byte| *byte == b'\n') {
            let Ok(record) = Record::read(line) else {
                continue;
            };
            let (whole, brief) = match (&mut states, &record.event) {
                (none @ None, Event::Created(created)) => {
                    let state = State::new(created.clone(), &record);
                    none.insert((state.clone(), state))
                }
                (Some(states), _) => {
                    states.0.apply(&record);
                    states.1.forget_past();
                    states.1.apply(&record);
                    states
                }
                (None, _) => panic!("a journal begins with its task"),
            };
            assert_eq!(
                a2a::event(view, brief, &record, &tools),
                a2a::event(view, whole, &record, &tools),
                "{name}, event {}",
                record.seq
            );
        }
    }
}

fn program(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_gemini-a2a")).arg("replay").args(args).output().expect("the program");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A temporary file of a test, removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, content: &[u8]) -> Scratch {
        let name = format!("gemini-a2a-{}-{name}.jsonl", std::process::id());
        let scratch = Scratch(std::env::temp_dir().join(name));
        scratch.write(content);
        scratch
    }

    fn write(&self, content: &[u8]) {
        std::fs::write(&self.0, content).expect("a file");
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn the_replay_command_prints_the_transcript() {
    let scratch = Scratch::new("printed", &journal());
    let file = scratch.path();
    let whole = transcript("kebab", Dialect::MESSAGE_STREAM.view.expect("its only view"));
    let mut parts = whole.split("$ replay story.jsonl").skip(1);
    let mut expected = || {
        let (_, printed) = parts.next()?.split_once('\n')?;
        Some((Some(0), printed.to_owned(), String::new()))
    };
    let [pause, end] = moments().map(|at| at.to_string());
    for at in [None, Some(&pause), Some(&end)] {
        let mut args = vec![file, "--as", "kebab"];
        if let Some(at) = at {
            args.extend(["--at", at]);
        }
        assert_eq!(Some(program(&args)), expected(), "{args:?}");
    }
    assert_eq!(std::fs::read(file).expect("the journal"), journal());
    let scenes = scenes();
    let [at_pause, _, at_end] = scenes.split_inclusive('\n').collect::<Vec<_>>()[..] else { panic!("three scenes") };
    let printed = |scene: &str| (Some(0), scene.to_owned(), String::new());
    assert_eq!(program(&[file, "--as", "scene", "--at", &pause]), printed(at_pause));
    assert_eq!(program(&[file, "--as", "scene"]), printed(at_end));
}

#[test]
fn an_invalid_journal_is_reported_in_one_line() {
    let scratch = Scratch::new("damaged", &[]);
    let path = scratch.path();
    let whole = journal();
    let mut damaged = whole.clone();
    damaged[9] ^= 1;
    let second = whole.iter().position(|byte| *byte == b'\n').expect("lines") + 1;
    for (content, at, words) in [
        (damaged, None, "line 1 is damaged"),
        (whole[second..].to_vec(), None, "line 1 is out of place"),
        (Vec::new(), None, "no events"),
        (whole.clone(), Some("999"), "no event 999"),
        (whole.clone(), Some("0"), "numbered from 1"),
    ] {
        scratch.write(&content);
        for shown in ["own", "scene"] {
            let mut args = vec![path, "--as", shown];
            args.extend(at.map(|at| ["--at", at]).into_iter().flatten());
            let (status, out, err) = program(&args);
            assert_eq!((status, err.lines().count()), (Some(1), 1), "{out}{err}");
            assert!(err.contains(words) && err.contains(path), "{err}");
        }
    }
    // An incomplete last line was being written when the server died, and no client has received its event.
    scratch.write(&whole[..whole.len() - 5]);
    let (status, out, _) = program(&[path, "--as", "own"]);
    assert_eq!((status, out.lines().count()), (Some(0), story().len() - 1));
    let (status, _, err) = program(&["/no/such/journal", "--as", "own"]);
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("cannot be read"), "{err}");
}
