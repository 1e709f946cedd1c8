//! Words for tests of the task machine, so that a case reads as what it says: given these events, when this comes in, then
//! exactly these events and effects.
//!
//! The tools here are the smallest set with every property the machine looks at: an edit and a command that ask, a reader
//! that does not, and one that policy forbids.

// Every test binary compiles this file and uses its own part of it.
#![allow(dead_code)]

use gemini_a2a::base::id::{CallId, Seq};
use gemini_a2a::limits::Limits;
use gemini_a2a::task::log::answer::{Answer, Request};
use gemini_a2a::task::log::blob::{FileChange, FileVersion};
use gemini_a2a::task::log::event::{Created, End, Event, Final, Lifecycle, Outcome, Profile, Protocol, Tries};
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::decide::{Decision, Effect, Gate, Input, Refusal, Rules, decide};
use gemini_a2a::task::machine::job::{ModelError, ModelErrorKind, NoteBody, Pick, RunEnd, Said};
use gemini_a2a::task::machine::state::State;
use gemini_a2a::task::message::{Artifact, Message, Part, Role, Source};
use gemini_a2a::task::policy::{Grant, Mode, Names, Policy, Rule};
use gemini_a2a::task::push::{Health, Target};
use gemini_a2a::task::slash::{Commanded, Invocation};
use gemini_a2a::task::spec::{
    Answers, ApprovalScope, Base, Choice, Display, Ending, ErrorKind, Kind, Plan, Question, ToolSpec, Verdict,
};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

/// What the clock shows, always: whatever increases in a log does so because the machine sees to it.
pub const NOON: u64 = 1_767_268_800_000;

/// A webhook that speaks 1.0.
pub fn target(id: &str) -> Target {
    Target {
        id: id.into(),
        url: "https://client.example/a2a".into(),
        token: None,
        schemes: Vec::new(),
        credentials: None,
        protocol: Protocol::V10,
        profile: Profile::Plain,
    }
}

pub fn hook_set(target: &Target) -> Event {
    Event::HookSet { target: Arc::new(target.clone()) }
}

/// It was delivered.
pub fn hook_moved(id: &str, upto: u64) -> Event {
    Event::HookMoved { id: id.into(), upto: Seq(upto), health: Health::default().after_success() }
}

// A task under test.

/// A log and its fold.
#[derive(Clone)]
pub struct Case {
    pub state: State,
    pub log: Vec<Record>,
    pub limits: Limits,
    pub tools: HashMap<String, ToolSpec>,
    pub policy: Policy,
    pub grant: Grant,
}

/// A log that begins with [`created`] unless it brings its own first event.
pub fn given(events: impl IntoIterator<Item = Event>) -> Case {
    let mut events = events.into_iter().peekable();
    let first = match events.peek() {
        Some(Event::Created(_)) => events.next().expect("just seen"),
        _ => created(Lifecycle::Conversational),
    };
    let first = Record { seq: Seq(1), at: NOON, event: first };
    let mut case = Case {
        state: born(&first),
        log: vec![first],
        limits: Limits::default(),
        tools: tools(),
        policy: Policy::built_in(),
        grant: Grant::default(),
    };
    for event in events {
        case.record(event);
    }
    case
}

pub fn born(first: &Record) -> State {
    match &first.event {
        Event::Created(created) => State::new(created.clone(), first),
        other => panic!("a log begins with Created, not {other:?}"),
    }
}

impl Case {
    /// Appends an event as the core does.
    pub fn record(&mut self, event: Event) {
        let record = Record { seq: self.state.seq.next(), at: self.state.stamp(&event, NOON), event };
        self.state.apply(&record);
        self.log.push(record);
    }

    pub fn record_all(mut self, events: &[Event]) -> Case {
        events.iter().for_each(|event| self.record(event.clone()));
        self
    }

    pub fn limited(mut self, change: impl FnOnce(&mut Limits)) -> Case {
        change(&mut self.limits);
        self
    }

    /// Changes what happens when no rule speaks about a tool.
    pub fn by_default(mut self, tool: &str, verdict: Verdict) -> Case {
        let spec = self.tools.get_mut(tool).expect("a tool of this file");
        spec.by_default = verdict;
        self
    }

    pub fn ruled(mut self, change: impl FnOnce(&mut Policy)) -> Case {
        change(&mut self.policy);
        self
    }

    pub fn granted(mut self, grant: Grant) -> Case {
        self.grant = grant;
        self
    }

    pub fn decide(&self, input: Input) -> Result<Decision, Refusal> {
        let rules = Rules { tools: &self.tools, limits: &self.limits, policy: &self.policy, grant: self.grant };
        decide(&self.state, input, &rules)
    }

    pub fn when(self, input: Input) -> Outcomes {
        Outcomes { result: self.decide(input), case: self }
    }

    /// What follows by itself.
    #[track_caller]
    pub fn next(self, events: &[Event], effects: &[Effect]) -> Case {
        self.when(Input::Advance).then(events, effects)
    }

    /// Nothing follows by itself.
    #[track_caller]
    pub fn rests(self) -> Case {
        self.next(&[], &[])
    }

    /// Gives `Advance` until nothing comes of it, unlooked at.
    pub fn settle(mut self) -> Case {
        loop {
            let decision = self.decide(Input::Advance).expect("nobody can refuse to go on");
            if decision.is_empty() {
                return self;
            }
            for event in decision.events {
                self.record(event);
            }
        }
    }
}

/// What came of an input, before it is recorded.
pub struct Outcomes {
    case: Case,
    pub result: Result<Decision, Refusal>,
}

impl Outcomes {
    /// Exactly this came of it; it is recorded, and the case goes on from there.
    #[track_caller]
    pub fn then(mut self, events: &[Event], effects: &[Effect]) -> Case {
        let expected = Decision { events: events.to_vec(), effects: effects.to_vec() };
        assert_eq!(self.result, Ok(expected), "in {:?}", self.case.state.phase);
        for event in events {
            self.case.record(event.clone());
        }
        self.case
    }

    #[track_caller]
    pub fn ignored(self) -> Case {
        self.then(&[], &[])
    }

    #[track_caller]
    pub fn refused(self, refusal: Refusal) -> Case {
        assert_eq!(self.result, Err(refusal), "in {:?}", self.case.state.phase);
        self.case
    }
}

// Tools and calls.

pub const EDIT: &str = "write_file";
pub const SHELL: &str = "run_shell_command";
pub const READ: &str = "read_file";
pub const ASK: &str = "ask_user";
pub const FORBIDDEN: &str = "format_disk";

pub fn tools() -> HashMap<String, ToolSpec> {
    let tool = |name: &str, kind, by_default| {
        let spec = ToolSpec { by_default, ..ToolSpec::new(name, name, kind, "", json!({"type": "object"})) };
        (name.to_owned(), spec)
    };
    HashMap::from([
        tool(EDIT, Kind::Edit, Verdict::Ask),
        tool(SHELL, Kind::Execute, Verdict::Ask),
        tool(READ, Kind::Read, Verdict::Allow),
        tool(ASK, Kind::Communicate, Verdict::Allow),
        tool(FORBIDDEN, Kind::Other, Verdict::Deny),
    ])
}

/// A call as the log names it.
pub fn call(tool: &str, id: &str) -> Request {
    Request {
        call: format!("{tool}__{id}").into(),
        name: tool.into(),
        args: json!({"for": id}),
        api_id: Some(id.into()),
    }
}

pub fn edit() -> Request {
    call(EDIT, "e")
}

pub fn shell() -> Request {
    call(SHELL, "s")
}

pub fn read() -> Request {
    call(READ, "r")
}

/// What `prepare` finds out about a call.
pub fn plan(request: &Request) -> Plan {
    let title = request.name.clone();
    let (question, base) = match request.name.as_str() {
        EDIT => (
            Question::Edit {
                title: title.clone(),
                file_name: "a.txt".into(),
                file_path: "/w/a.txt".into(),
                diff: "-old\n+new".into(),
                old: Some("old".into()),
                new: "new".into(),
            },
            Some(Base { sha256: Some("ab12".into()) }),
        ),
        SHELL => (
            Question::Exec {
                title: title.clone(),
                command: "make".into(),
                programs: vec!["make".into()],
                dir: None,
                warnings: vec![],
                needs_approval: None,
                edits: vec![],
            },
            None,
        ),
        ASK => (Question::AskUser { title: title.clone(), questions: vec![] }, None),
        _ => (Question::Info { title: title.clone(), prompt: "?".into(), urls: vec![] }, None),
    };
    Plan { title, question, base }
}

pub fn success() -> Ending {
    Ending::Success { output: "done".into(), display: Display::Text { text: "done".into() } }
}

pub fn failure(kind: ErrorKind, message: &str) -> Ending {
    Ending::Error { error: kind.error(message) }
}

pub fn refused() -> Ending {
    Ending::Cancelled { reason: "The user did not allow this call.".into(), output: String::new() }
}

pub fn stopped() -> Ending {
    Ending::Cancelled { reason: "The task was canceled.".into(), output: String::new() }
}

// Events.

pub fn created(lifecycle: Lifecycle) -> Event {
    Event::Created(Arc::new(Created {
        task: "t".into(),
        context: "c".into(),
        tenant: Default::default(),
        parent: None,
        lifecycle,
        protocol: Protocol::V03,
        profile: Profile::Coder,
        workspace: "/w".into(),
        trusted: true,
        model: "m".into(),
        mode: Mode::Default,
        auto_execute: false,
        tools: None,
        command: None,
    }))
}

/// The first event of a task in another mode, or of one that wishes to be asked nothing.
pub fn created_as(mode: Mode, auto_execute: bool) -> Event {
    let Event::Created(created) = created(Lifecycle::Conversational) else {
        unreachable!("it says so");
    };
    Event::Created(Arc::new(Created { mode, auto_execute, ..Created::clone(&created) }))
}

/// The first event of a task whose client wants only these tools used.
pub fn created_with(tools: &[&str]) -> Event {
    let Event::Created(created) = created(Lifecycle::Conversational) else {
        unreachable!("it says so");
    };
    Event::Created(Arc::new(Created {
        tools: Some(tools.iter().map(|name| (*name).to_owned()).collect()),
        ..Created::clone(&created)
    }))
}

/// The first event of a task that is a command.
pub fn created_to_run(line: &str) -> Event {
    let Event::Created(created) = created(Lifecycle::OneShot) else {
        unreachable!("it says so");
    };
    Event::Created(Arc::new(Created {
        command: Some(Invocation { path: line.split(' ').map(str::to_owned).collect(), args: vec!["x".into()] }),
        ..Created::clone(&created)
    }))
}

/// The same log in a workspace that is not trusted.
pub fn untrusted(mut log: Vec<Event>) -> Vec<Event> {
    if let Event::Created(created) = &mut log[0] {
        Arc::make_mut(created).trusted = false;
    }
    log
}

pub fn message(text: &str) -> Arc<Message> {
    let parts = if text.is_empty() { vec![] } else { vec![Part::text(text)] };
    Arc::new(Message::new(format!("id of {text}").as_str(), Role::User, parts))
}

pub fn ann() -> Source {
    Source { client: "ann".into(), via: "test".into() }
}

pub fn bob() -> Source {
    Source { client: "bob".into(), via: "test".into() }
}

pub fn prompted(turn: u32, text: &str) -> Event {
    Event::Prompted { message: message(text), by: ann(), turn }
}

pub fn began(turn: u32) -> Event {
    Event::TurnBegan { turn }
}

pub fn turn_ended(turn: u32, end: End) -> Event {
    Event::TurnEnded { turn, end }
}

pub fn text(text: &str) -> Event {
    Event::Text { text: text.into() }
}

pub fn answer(calls: &[Request]) -> Answer {
    Answer::new("hm", calls.to_vec())
}

pub fn answered(calls: &[Request]) -> Event {
    Event::Answered { answer: Arc::new(answer(calls)) }
}

pub fn concluded(verdict: Outcome) -> Event {
    Event::Answered { answer: Arc::new(Answer { verdict: Some(verdict), ..answer(&[]) }) }
}

/// What a command leaves for programs.
pub fn result(text: &str) -> Arc<Artifact> {
    Arc::new(Artifact {
        id: "result".into(),
        name: Some("result".into()),
        description: None,
        parts: vec![Part::data(json!({ "says": text }))],
    })
}

pub fn backed_off(failed: u32, broken: u32, delay_ms: u64) -> Event {
    Event::BackedOff { tries: Tries { failed, broken }, delay_ms, reason: "no luck".into() }
}

pub fn planned(request: &Request) -> Event {
    Event::CallPlanned { call: request.call.clone(), plan: Arc::new(plan(request)) }
}

pub fn asked(request: &Request) -> Event {
    asked_for(request, ApprovalScope::Session)
}

/// Asked where an "always" may last so long.
pub fn asked_for(request: &Request, keeping: ApprovalScope) -> Event {
    let call = request.call.clone();
    Event::CallAsked { call, keeping }
}

pub fn chosen(request: &Request, choice: Choice) -> Event {
    Event::CallAnswered {
        call: request.call.clone(),
        choice,
        by: ann(),
        edited: None,
        answers: None,
        rules: match choice {
            Choice::ProceedAlways | Choice::ProceedAlwaysAndSave => vec![rule(request)],
            Choice::ProceedOnce | Choice::Cancel => vec![],
        },
    }
}

/// What "always" allows for a call with the plan of [`plan`], in the default mode.
pub fn rule(request: &Request) -> Rule {
    let modes = Some(vec![Mode::Default, Mode::AutoEdit, Mode::Yolo]);
    let allow = Rule { modes, ..Rule::new(request.name.as_str(), Verdict::Allow) };
    match request.name.as_str() {
        EDIT => Rule {
            tool_name: Names::Many(vec!["replace".into(), EDIT.into()]),
            file_path: Some("/w/a.txt".into()),
            ..allow
        },
        SHELL => Rule { command_prefix: Some("make".into()), ..allow },
        _ => allow,
    }
}

pub fn save(rule: Rule) -> Effect {
    Effect::Save { rule }
}

pub fn ready(request: &Request) -> Event {
    let call = request.call.clone();
    Event::CallReady { call, confinement: Default::default() }
}

pub fn started(request: &Request) -> Event {
    let call = request.call.clone();
    Event::CallStarted { call }
}

pub fn stale(request: &Request) -> Event {
    let call = request.call.clone();
    Event::CallStale { call }
}

pub fn ended(request: &Request, ending: Ending) -> Event {
    Event::CallEnded { call: request.call.clone(), ending: Arc::new(ending) }
}

pub fn closed(state: Final, text: &str) -> Event {
    Event::Closed { state, text: Some(text.to_owned()).filter(|text| !text.is_empty()) }
}

pub fn canceled() -> Event {
    closed(Final::Canceled, "Task canceled by user request.")
}

// Effects.

pub fn think(job: u64) -> Effect {
    Effect::Think { job: Seq(job) }
}

pub fn prepare(job: u64, calls: &[Request]) -> Effect {
    Effect::Prepare { job: Seq(job), calls: calls.iter().map(|request| request.call.clone()).collect() }
}

pub fn run(job: u64, request: &Request, gate: Gate) -> Effect {
    Effect::Run { job: Seq(job), call: request.call.clone(), gate }
}

pub fn stop(job: u64) -> Effect {
    Effect::Stop { job: Seq(job) }
}

pub fn arm(job: u64, delay_ms: u64) -> Effect {
    Effect::Arm { job: Seq(job), delay_ms }
}

// Inputs.

pub fn say(text: &str) -> Input {
    say_and_pick(text, &[])
}

/// A message that holds nothing but an answer.
pub fn pick(request: &Request, option: &str) -> Input {
    say_and_pick("", &[(request, option)])
}

pub fn say_and_pick(text: &str, picks: &[(&Request, &str)]) -> Input {
    let answers = picks.iter().map(|(request, option)| Pick {
        call: request.call.clone(),
        option: (*option).into(),
        edited: None,
        answers: None,
    });
    Input::Say { said: Said { message: message(text), answers: answers.collect() }, by: ann() }
}

/// An answer with a content of the user's own.
pub fn pick_edited(request: &Request, option: &str, content: &str) -> Input {
    pick_with(Pick { call: request.call.clone(), option: option.into(), edited: Some(content.into()), answers: None })
}

/// An answer with words to the agent's questions.
pub fn pick_answering(request: &Request, option: &str, answers: Arc<Answers>) -> Input {
    pick_with(Pick { call: request.call.clone(), option: option.into(), edited: None, answers: Some(answers) })
}

fn pick_with(pick: Pick) -> Input {
    Input::Say { said: Said { message: message(""), answers: vec![pick] }, by: ann() }
}

pub fn note(job: u64, body: NoteBody) -> Input {
    Input::Note { job: Seq(job), body }
}

/// The model's answer as its worker reports it: calls without ids of ours.
pub fn model_answers(calls: &[Request]) -> NoteBody {
    let mut answer = answer(calls);
    for request in answer.calls_mut() {
        request.call = CallId::from("");
    }
    NoteBody::Answered(Ok(answer))
}

pub fn model_fails(kind: ModelErrorKind) -> NoteBody {
    NoteBody::Answered(Err(ModelError { kind, message: "no luck".into() }))
}

pub fn command_says(text: &str) -> NoteBody {
    NoteBody::Commanded(Ok(Commanded::Done { text: text.into(), data: json!({ "says": text }) }))
}

pub fn command_asks(prompt: &str) -> NoteBody {
    NoteBody::Commanded(Ok(Commanded::Ask { prompt: prompt.into() }))
}

pub fn prepared(calls: &[Request]) -> NoteBody {
    NoteBody::Prepared(calls.iter().map(|request| Ok(plan(request))).collect())
}

/// An edit wrote its file.
pub fn change(request: &Request) -> FileChange {
    let version = |sha256: &str| FileVersion { sha256: sha256.repeat(64), len: 4, mode: 0o644, unstored: false };
    FileChange {
        call: request.call.clone(),
        root: "/w".into(),
        path: "a.txt".into(),
        before: Some(version("a")),
        after: version("b"),
    }
}

pub fn file_changed(request: &Request) -> Event {
    Event::FileChanged(Arc::new(change(request)))
}

pub fn edit_ends(request: &Request) -> NoteBody {
    NoteBody::Edited { ending: success(), changes: vec![change(request)] }
}

pub fn run_ends(ending: Ending) -> NoteBody {
    NoteBody::Ended(RunEnd::Ended(ending))
}
