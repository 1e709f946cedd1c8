//! What the task machine does, case by case: given a log, when something comes in, then exactly these events and effects.
//!
//! A job's number is the position of the event that caused it, so the numbers in a case can be counted off its log; the
//! logs most cases begin with are at the top, with their positions. `(n)` behind a test's line names the line of the
//! behaviour checklist it covers.

mod task;

use gemini_a2a::base::id::{CallId, Seq};
use gemini_a2a::limits::Times;
use gemini_a2a::task::log::answer::{Answer, Finish, Request, Usage};
use gemini_a2a::task::log::event::{End, Event, Final, Lifecycle, Outcome};
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::decide::{Effect, Gate, Input, Refusal, deadline, job};
use gemini_a2a::task::machine::job::{Job, ModelErrorKind, NoteBody, RunEnd, Work};
use gemini_a2a::task::machine::state::{CallResult, Item, Phase, Stage, TaskState};
use gemini_a2a::task::message::{Artifact, Part, Source};
use gemini_a2a::task::policy::{Grant, Mode, Tier};
use gemini_a2a::task::slash::{Command, Invocation};
use gemini_a2a::task::spec::{Answers, ApprovalScope, Choice, Ending, ErrorKind, Plan, Question, Verdict};
use serde_json::json;
use std::sync::Arc;
use task::*;

// Logs to begin with. The comment is the position of the last event.

/// 1: created, nothing said yet.
fn fresh() -> Vec<Event> {
    vec![created(Lifecycle::Conversational)]
}

fn log(start: Vec<Event>, more: &[Event]) -> Vec<Event> {
    let mut events = start;
    events.extend_from_slice(more);
    events
}

/// 3: the model is asked, job 3.
fn thinking() -> Vec<Event> {
    log(fresh(), &[prompted(1, "go"), began(1)])
}

/// 4: the task is a command, which runs as job 4.
fn commanding() -> Vec<Event> {
    vec![created_to_run("memory show"), prompted(1, "/memory show x"), began(1), Event::CommandBegan]
}

/// 4: the model was busy, timer 4.
fn backing_off() -> Vec<Event> {
    log(thinking(), &[backed_off(1, 0, 5_000)])
}

/// 4: an edit and a command are looked at, job 4.
fn preparing() -> Vec<Event> {
    log(thinking(), &[answered(&[edit(), shell()])])
}

/// 9: both are asked about and the pause is announced.
fn waiting() -> Vec<Event> {
    let (e, s) = (edit(), shell());
    log(preparing(), &[planned(&e), planned(&s), asked(&e), asked(&s), Event::Paused])
}

/// 12: the edit runs as job 12, the command is still asked about.
fn editing() -> Vec<Event> {
    let e = edit();
    let yes = chosen(&e, Choice::ProceedOnce);
    log(waiting(), &[yes, ready(&e), started(&e)])
}

/// 13: the edit's file had changed; it is looked at again as job 13.
fn replanning() -> Vec<Event> {
    log(editing(), &[stale(&edit())])
}

/// 12: the edit was allowed and a restart came before it began; the command is still asked about.
fn suspended() -> Vec<Event> {
    let e = edit();
    log(waiting(), &[chosen(&e, Choice::ProceedOnce), ready(&e), Event::Interrupted { text: RESTARTED.into() }])
}

/// 5: the first turn is over.
fn idle() -> Vec<Event> {
    log(thinking(), &[answered(&[]), turn_ended(1, End::Done)])
}

/// 5: the first turn ended for want of a credential.
fn unauthorized() -> Vec<Event> {
    let auth = || "Who are you?".to_owned();
    log(thinking(), &[concluded(Outcome::Auth(auth())), turn_ended(1, End::NeedsAuth(auth()))])
}

/// 4: canceled while thinking.
fn over() -> Vec<Event> {
    log(thinking(), &[canceled()])
}

const RESTARTED: &str = "The server was restarted while the agent was working. What had finished is kept; \
                         send a message to go on.";

fn one_shot(events: Vec<Event>) -> Vec<Event> {
    let mut events = events;
    events[0] = created(Lifecycle::OneShot);
    events
}

fn every_phase() -> [(&'static str, Vec<Event>); 12] {
    [
        ("fresh", fresh()),
        ("thinking", thinking()),
        ("commanding", commanding()),
        ("backing off", backing_off()),
        ("preparing", preparing()),
        ("waiting", waiting()),
        ("editing", editing()),
        ("replanning", replanning()),
        ("suspended", suspended()),
        ("idle", idle()),
        ("unauthorized", unauthorized()),
        ("over", over()),
    ]
}

// Prompts.

#[test]
fn a_prompt_begins_a_turn_on_a_fresh_idle_or_unauthorized_task() {
    given(fresh()).when(say("go")).then(&[prompted(1, "go")], &[]).next(&[began(1)], &[think(3)]).rests();
    for start in [idle(), unauthorized()] {
        given(start).when(say("more")).then(&[prompted(2, "more")], &[]).next(&[began(2)], &[think(7)]).rests();
    }
}

#[test]
fn a_prompt_to_a_busy_or_waiting_task_is_queued() {
    for start in [thinking(), backing_off(), preparing(), waiting(), editing(), replanning()] {
        given(start).when(say("more")).then(&[prompted(2, "more")], &[]).rests();
    }
}

#[test]
fn queued_prompts_get_their_turns_in_order() {
    let case = given(log(thinking(), &[prompted(2, "b"), prompted(3, "c")]))
        .when(note(3, model_answers(&[])))
        .then(&[answered(&[])], &[])
        .next(&[turn_ended(1, End::Done)], &[])
        .next(&[began(2)], &[think(8)])
        .rests()
        .when(say("d"))
        .then(&[prompted(4, "d")], &[])
        .when(note(8, model_answers(&[])))
        .then(&[answered(&[])], &[])
        .next(&[turn_ended(2, End::Done)], &[])
        .next(&[began(3)], &[think(12)])
        .rests();
    assert_eq!(case.state.prompt, Some(message("c")));
}

#[test]
fn the_queue_has_a_limit_and_answers_do_not_count_against_it() {
    let full = given(log(waiting(), &[prompted(2, "b"), prompted(3, "c")])).limited(|limits| limits.queued_prompts = 2);
    let e = edit();
    full.clone().when(say("d")).refused(Refusal::QueueFull);
    // Nothing of a refused message happens, its answer neither.
    full.clone().when(say_and_pick("d", &[(&e, "proceed_once")])).refused(Refusal::QueueFull);
    full.when(pick(&e, "cancel")).then(&[chosen(&e, Choice::Cancel), ended(&e, refused())], &[]);
    given(log(waiting(), &[prompted(2, "b")]))
        .limited(|limits| limits.queued_prompts = 2)
        .when(say("c"))
        .then(&[prompted(3, "c")], &[]);
}

#[test]
fn an_empty_prompt_ends_its_turn_without_a_model_request() {
    let case =
        given(fresh()).when(say("")).then(&[prompted(1, "")], &[]).next(&[turn_ended(1, End::Nothing)], &[]).rests();
    assert_eq!(case.state.status.state, TaskState::InputRequired);
    assert_eq!(case.state.history, [Arc::new(Item::Dropped(message("")))], "clients see it, the model does not");
    // Between two prompts, and on a task that has only one turn, it changes nothing else.
    given(log(one_shot(fresh()), &[prompted(1, ""), prompted(2, "b")]))
        .next(&[turn_ended(1, End::Nothing)], &[])
        .next(&[began(2)], &[think(5)]);
}

#[test]
fn a_message_to_an_interrupted_turn_resumes_it() {
    let (e, s) = (edit(), shell());
    let case = given(suspended()).rests().when(say("go on")).then(&[Event::Resumed, prompted(2, "go on")], &[]);
    assert_eq!(case.state.status.state, TaskState::Working);
    case.next(&[started(&e)], &[run(15, &e, Gate::Synced)]).rests();
    given(suspended())
        .when(pick(&s, "cancel"))
        .then(&[Event::Resumed, chosen(&s, Choice::Cancel), ended(&s, refused())], &[])
        .next(&[started(&e)], &[run(16, &e, Gate::Synced)]);
    given(suspended()).when(pick(&e, "proceed_once")).refused(Refusal::NotPending(e.call));
}

#[test]
fn a_finished_task_accepts_no_message() {
    given(over()).when(say("more")).refused(Refusal::Over);
    given(over()).when(pick(&edit(), "cancel")).refused(Refusal::Over);
    given(over()).when(Input::Cancel).refused(Refusal::Over);
    given(over()).when(Input::Fail("x".into())).refused(Refusal::Over);
    given(over()).rests();
}

// What the model says.

#[test]
fn model_text_is_recorded_and_empty_text_is_not() {
    let artifact = Artifact { id: "a".into(), name: None, description: None, parts: vec![Part::text("x")] };
    let thought = |subject: &str, description: &str| NoteBody::Thought {
        subject: subject.into(),
        description: description.into(),
    };
    let case = given(thinking())
        .when(note(3, thought("Plan", "")))
        .then(&[Event::Thought { subject: "Plan".into(), description: String::new() }], &[])
        .when(note(3, NoteBody::Text("Hel".into())))
        .then(&[text("Hel")], &[])
        .when(note(3, NoteBody::Text("lo".into())))
        .then(&[text("lo")], &[])
        .when(note(3, NoteBody::Cited("[1] b".into())))
        .then(&[Event::Cited { text: "[1] b".into() }], &[])
        .when(note(3, NoteBody::Produced { artifact: artifact.clone(), append: false, last: true }))
        .then(&[Event::Produced { artifact: Arc::new(artifact.clone()), append: false, last: true }], &[]);
    assert_eq!(case.state.utterance.since, Some(Seq(5)));
    assert_eq!(case.state.utterance.text, "Hello");
    assert_eq!(case.state.artifacts, [artifact]);
    for nothing in [thought("", ""), NoteBody::Text(String::new()), NoteBody::Cited(" \n".into())] {
        given(thinking()).when(note(3, nothing)).ignored();
    }
}

/// (11) (23) (24) (26) (46)
#[test]
fn a_model_answer_is_recorded_whole_with_the_position_of_its_text() {
    let usage = Usage { prompt: 7, total: 9, ..Usage::default() };
    let from_worker =
        Answer { usage: Some(usage), trace: Some("trace".into()), model: Some("m-2".into()), ..answer(&[]) };
    let recorded = Event::Answered { answer: Arc::new(Answer { said_at: Some(Seq(4)), ..from_worker.clone() }) };
    let case = given(log(thinking(), &[text("hm"), text("!")]))
        .when(note(3, NoteBody::Answered(Ok(from_worker))))
        .then(&[recorded], &[])
        .next(&[turn_ended(1, End::Done)], &[])
        .rests();
    let state = &case.state;
    assert_eq!((state.usage, state.total), (Some(usage), usage));
    assert_eq!(state.trace.as_deref(), Some("trace"));
    assert_eq!(&*state.model, "m-2");
    assert_eq!(state.created.model, "m", "what is asked for does not change");
    assert_eq!(state.status.state, TaskState::InputRequired);
    // A tool round is the same turn and the same prompt; its text is another message.
    let e = edit();
    let case = given(log(
        waiting(),
        &[
            chosen(&e, Choice::ProceedOnce),
            ended(&e, success()),
            chosen(&shell(), Choice::Cancel),
            ended(&shell(), refused()),
            Event::ResultsSent,
            text("so"),
        ],
    ));
    assert_eq!(case.state.utterance.since, Some(Seq(15)));
    let job = job(&case.state, &think(14), &case.limits).expect("a job");
    assert_eq!(job.id.at, Seq(14));
    let Work::Think(think) = job.work else {
        panic!("{job:?}");
    };
    assert_eq!((think.turn, think.round, think.attempt), (1, 1, 1));
    assert_eq!(think.prompt_text, "go");
}

// When the model fails.

/// The waits after each of the failures, until the turn ends.
fn waits(limit: impl FnOnce(&mut gemini_a2a::limits::Limits), kind: ModelErrorKind) -> Vec<u64> {
    let mut case = given(thinking()).limited(limit);
    let mut waits = Vec::new();
    loop {
        let Phase::Thinking { job } = case.state.phase else {
            panic!("in {:?}", case.state.phase);
        };
        let failed = case.decide(note(job.0, model_fails(kind)));
        let decision = failed.expect("a worker is not refused");
        match (&decision.events[..], &decision.effects[..]) {
            ([Event::BackedOff { delay_ms, .. }], [Effect::Arm { delay_ms: armed, .. }]) => {
                assert_eq!(delay_ms, armed);
                waits.push(*delay_ms);
            }
            ([Event::TurnEnded { end, .. }], []) => {
                assert_eq!(end, &End::Failed("no luck".into()));
                return waits;
            }
            other => panic!("{other:?}"),
        }
        case.record(decision.events[0].clone());
        let Phase::Backoff { job, .. } = case.state.phase else {
            panic!("in {:?}", case.state.phase);
        };
        case = case.rests().when(Input::Due { job }).then(&[Event::Retried], &[think(job.0 + 1)]);
    }
}

/// The wait, up to a fifth longer.
fn about(wait: u64, least: u64) -> bool {
    (least..=least + least / 5).contains(&wait)
}

#[test]
fn a_busy_model_is_retried_with_exponential_backoff_up_to_the_cap() {
    let waits = waits(|_| {}, ModelErrorKind::Busy { after_ms: None });
    let least = [5_000, 10_000, 20_000, 30_000, 30_000, 30_000, 30_000, 30_000, 30_000];
    assert_eq!(waits.len(), least.len(), "ten tries in all");
    for (wait, least) in waits.iter().zip(least) {
        assert!(about(*wait, least), "{waits:?}");
    }
}

#[test]
fn a_longer_retry_after_is_obeyed_and_a_too_long_one_fails() {
    let busy = |after_ms| ModelErrorKind::Busy { after_ms: Some(after_ms) };
    let once = |limits: &mut gemini_a2a::limits::Limits| limits.model_tries = 2;
    for (asked, least) in [(0, 5_000), (4_000, 5_000), (60_000, 60_000), (300_000, 300_000)] {
        let waits = waits(once, busy(asked));
        assert!(waits.len() == 1 && about(waits[0], least), "{asked}: {waits:?}");
    }
    assert_eq!(waits(once, busy(300_001)), [0; 0]);
}

#[test]
fn a_broken_stream_is_retried_a_few_times() {
    assert_eq!(waits(|_| {}, ModelErrorKind::BadStream), [1_000, 2_000, 4_000]);
}

#[test]
fn a_fatal_error_ends_the_turn_but_not_the_task() {
    assert_eq!(waits(|_| {}, ModelErrorKind::Fatal), [0; 0]);
    let died = "The request to the model ended unexpectedly: oom";
    let case = given(thinking())
        .when(note(3, NoteBody::Died("oom".into())))
        .then(&[turn_ended(1, End::Failed(died.into()))], &[])
        .rests();
    assert_eq!(case.state.error.as_deref(), Some(died));
    assert_eq!(case.state.status.text.as_deref(), Some(died));
    assert_eq!(
        case.state.history,
        [Arc::new(Item::Dropped(message("go")))],
        "a prompt that fails would fail every later request"
    );
    let case = case.when(say("again")).then(&[prompted(2, "again")], &[]);
    let case = case.next(&[began(2)], &[think(6)]);
    assert_eq!(case.state.error, None);
}

#[test]
fn a_failure_after_results_keeps_them() {
    let (e, s) = (edit(), shell());
    let case = given(log(
        waiting(),
        &[chosen(&e, Choice::Cancel), ended(&e, refused()), ended(&s, success()), Event::ResultsSent],
    ))
    .when(note(13, model_fails(ModelErrorKind::Fatal)))
    .then(&[turn_ended(1, End::Failed("no luck".into()))], &[]);
    assert_eq!(case.state.history.len(), 3);
    assert_eq!(*case.state.history[0], Item::Said(message("go")));
}

/// (25)
#[test]
fn partial_text_is_retracted_only_if_there_was_any() {
    let retracted = Event::Retracted { reason: "no luck".into() };
    let case = given(log(thinking(), &[text("Hel")]))
        .when(note(3, model_fails(ModelErrorKind::BadStream)))
        .then(&[retracted, backed_off(0, 1, 1_000)], &[arm(6, 1_000)]);
    assert_eq!(case.state.utterance.since, None);
    assert_eq!(case.state.status.state, TaskState::Working);
    given(thinking())
        .when(note(3, model_fails(ModelErrorKind::BadStream)))
        .then(&[backed_off(0, 1, 1_000)], &[arm(4, 1_000)]);
}

#[test]
fn retries_are_counted_per_kind_and_per_request() {
    let start = log(thinking(), &[backed_off(2, 1, 1), Event::Retried]);
    let case = given(start.clone());
    let Some(Work::Think(again)) = job(&case.state, &think(5), &case.limits).map(|job| job.work) else {
        panic!("a think job");
    };
    assert_eq!(again.attempt, 4);
    case.when(note(5, model_fails(ModelErrorKind::BadStream))).then(&[backed_off(2, 2, 2_000)], &[arm(6, 2_000)]);
    let case =
        given(log(start, &[answered(&[edit()]), ended(&edit(), success())])).next(&[Event::ResultsSent], &[think(8)]);
    case.when(note(8, model_fails(ModelErrorKind::BadStream))).then(&[backed_off(0, 1, 1_000)], &[arm(9, 1_000)]);
}

#[test]
fn a_timer_counts_only_for_the_wait_it_was_armed_for() {
    for (phase, start) in every_phase() {
        let case = given(start);
        for due in [Seq(2), Seq(4), Seq(99)] {
            let decision = case.decide(Input::Due { job: due });
            let decision = decision.expect("a timer is not refused");
            let counts = phase == "backing off" && due == Seq(4);
            assert_eq!(!decision.is_empty(), counts, "{phase} {due}");
        }
    }
}

// Late and misplaced notes.

/// (29) Every kind of note, in every phase, for a job that is not waited for.
#[test]
fn a_result_of_an_unknown_job_is_dropped() {
    for (phase, start) in every_phase() {
        let case = given(start);
        let awaited = match phase {
            "thinking" => Some(3),
            "commanding" => Some(4),
            "preparing" => Some(4),
            "editing" => Some(12),
            "replanning" => Some(13),
            _ => None,
        };
        for job in (1..=20).filter(|job| Some(*job) != awaited) {
            for body in every_note() {
                let decision = case.decide(note(job, body.clone()));
                assert!(decision.unwrap().is_empty(), "{phase} {job} {body:?}");
            }
        }
    }
}

#[test]
fn a_result_that_does_not_fit_its_job_is_dropped() {
    // For each job, which of the notes below mean something to it.
    let cases: [(Vec<Event>, u64, [bool; 11]); 5] = [
        (commanding(), 4, [false, false, false, false, false, false, false, false, false, true, true]),
        (thinking(), 3, [true, true, true, true, true, true, false, false, false, false, true]),
        (preparing(), 4, [false, false, false, false, false, false, true, false, false, false, true]),
        (editing(), 12, [false, false, false, false, false, false, false, true, true, false, true]),
        (replanning(), 13, [false, false, false, false, false, false, true, false, false, false, true]),
    ];
    for (start, job, means_something) in cases {
        let case = given(start);
        for (body, means) in every_note().into_iter().zip(means_something) {
            let decision = case.decide(note(job, body.clone())).unwrap();
            assert_eq!(!decision.is_empty(), means, "{job} {body:?}");
        }
    }
}

fn every_note() -> [NoteBody; 11] {
    [
        NoteBody::Thought { subject: "s".into(), description: "d".into() },
        NoteBody::Text("t".into()),
        NoteBody::Cited("c".into()),
        NoteBody::Produced {
            artifact: Artifact { id: "a".into(), name: None, description: None, parts: vec![] },
            append: false,
            last: true,
        },
        model_answers(&[]),
        model_fails(ModelErrorKind::Fatal),
        prepared(&[edit(), shell()]),
        NoteBody::Output("o".into()),
        run_ends(success()),
        command_says("done"),
        NoteBody::Died("d".into()),
    ]
}

// Calls get their names and their verdicts.

#[test]
fn call_ids_come_from_the_api_and_are_unique() {
    let unnamed = |api_id: Option<&str>| Request {
        call: CallId::from(""),
        name: READ.into(),
        args: serde_json::json!({}),
        api_id: api_id.map(str::to_owned),
    };
    let earlier = call(READ, "1");
    let start = log(thinking(), &[answered(&[earlier]), ended(&call(READ, "1"), success()), Event::ResultsSent]);
    let decision = given(start)
        .decide(note(
            6,
            model_answers(&[
                unnamed(Some("1")),
                unnamed(Some("2_2")),
                unnamed(Some("2")),
                unnamed(Some("2")),
                unnamed(None),
            ]),
        ))
        .unwrap();
    let [Event::Answered { answer }] = &decision.events[..] else {
        panic!("{decision:?}");
    };
    let names: Vec<&str> = answer.calls().map(|call| call.call.as_str()).collect();
    let own = format!("read_file__read_file_{}_7_4", NOON + 3);
    assert_eq!(names, ["read_file__1_2", "read_file__2_2", "read_file__2", "read_file__2_3", own.as_str()]);
    let api_ids: Vec<Option<&str>> = answer.calls().map(|c| c.api_id.as_deref()).collect();
    assert_eq!(api_ids, [Some("1"), Some("2_2"), Some("2"), Some("2"), None], "the API gets its own ids back");
    let calls = answer.calls().map(|call| call.call.clone()).collect();
    assert_eq!(decision.effects, [Effect::Prepare { job: Seq(7), calls }]);
}

/// (41) (42) Both are announced before the first question, and one pause follows.
#[test]
fn calls_that_need_an_answer_are_asked_about_and_the_task_waits() {
    let (e, s) = (edit(), shell());
    let case = given(thinking())
        .when(note(3, model_answers(&[e.clone(), s.clone()])))
        .then(&[answered(&[e.clone(), s.clone()])], &[prepare(4, &[e.clone(), s.clone()])])
        .rests()
        .when(note(4, prepared(&[e.clone(), s.clone()])))
        .then(&[planned(&e), planned(&s), asked(&e), asked(&s)], &[]);
    assert_eq!(case.state.status.state, TaskState::Working);
    let case = case.next(&[Event::Paused], &[]).rests();
    assert_eq!(case.state.status.state, TaskState::InputRequired);
}

/// (8) (43) (44) (45) Allowed calls run at once and nobody is asked; (10) (13) they end one by one.
#[test]
fn calls_that_are_allowed_run_without_a_question() {
    let (r, s) = (read(), shell());
    let both = [r.clone(), s.clone()];
    given(log(thinking(), &[answered(&both)]))
        .by_default(SHELL, Verdict::Allow)
        .when(note(4, prepared(&both)))
        .then(&[planned(&r), planned(&s), ready(&r), ready(&s)], &[])
        .next(&[started(&r), started(&s)], &[run(9, &r, Gate::Written), run(10, &s, Gate::Synced)])
        .rests()
        .when(note(10, NoteBody::Output("x".into())))
        .then(&[Event::CallOutput { call: s.call.clone(), text: "x".into() }], &[])
        .when(note(10, NoteBody::Output(String::new())))
        .ignored()
        .when(note(10, run_ends(success())))
        .then(&[ended(&s, success())], &[])
        .rests()
        .when(note(9, run_ends(success())))
        .then(&[ended(&r, success())], &[])
        .next(&[Event::ResultsSent], &[think(14)])
        .rests();
}

/// (15) (27) (28) A call that is looked at or runs keeps the task working; when it ends, the task waits.
#[test]
fn the_task_waits_only_when_everything_waits() {
    let (e, r) = (edit(), read());
    let case = given(log(thinking(), &[answered(&[e.clone(), r.clone()])]))
        .rests()
        .when(note(4, prepared(&[e.clone(), r.clone()])))
        .then(&[planned(&e), planned(&r), asked(&e), ready(&r)], &[])
        .next(&[started(&r)], &[run(9, &r, Gate::Written)])
        .rests();
    assert_eq!(case.state.status.state, TaskState::Working);
    let case =
        case.when(note(9, run_ends(success()))).then(&[ended(&r, success())], &[]).next(&[Event::Paused], &[]).rests();
    assert_eq!(case.state.status.state, TaskState::InputRequired);
}

#[test]
fn an_invalid_call_is_answered_with_its_error() {
    let (e, unknown) = (edit(), call("no_such_tool", "x"));
    let error = ErrorKind::ToolNotRegistered.error("There is no tool of that name.");
    let results = vec![Err(error.clone()), Ok(plan(&e))];
    given(log(thinking(), &[answered(&[unknown.clone(), e.clone()])]))
        .when(note(4, NoteBody::Prepared(results)))
        .then(&[ended(&unknown, Ending::Error { error }), planned(&e), asked(&e)], &[])
        .next(&[Event::Paused], &[]);
    // A tool without a declaration that could be planned all the same is asked about.
    given(log(thinking(), &[answered(std::slice::from_ref(&unknown))]))
        .when(note(4, prepared(std::slice::from_ref(&unknown))))
        .then(&[planned(&unknown), asked(&unknown)], &[]);
}

#[test]
fn a_call_that_policy_forbids_is_not_asked_about() {
    let f = call(FORBIDDEN, "f");
    let denied = failure(
        ErrorKind::PolicyViolation,
        "This call of format_disk is not allowed here: the default of format_disk.",
    );
    given(log(thinking(), &[answered(std::slice::from_ref(&f))]))
        .when(note(4, prepared(std::slice::from_ref(&f))))
        .then(&[planned(&f), ended(&f, denied)], &[])
        .next(&[Event::ResultsSent], &[think(7)]);
}

/// A client may do without tools, and the operator's word still counts for the others.
#[test]
fn a_call_of_a_disabled_tool_is_not_asked_about() {
    let (r, e, f) = (call(READ, "r"), edit(), call(FORBIDDEN, "f"));
    let all = [r.clone(), e.clone(), f.clone()];
    let events = [prompted(1, "go"), began(1), answered(&all)];
    let case = given(log(vec![created_with(&[READ, FORBIDDEN])], &events));
    let asked = job(&case.state, &think(3), &case.limits).expect("a job");
    let Work::Think(asked) = asked.work else {
        panic!("{asked:?}");
    };
    assert_eq!(asked.tools, Some(vec![READ.to_owned(), FORBIDDEN.to_owned()]));
    let denied = |reason: &str| failure(ErrorKind::PolicyViolation, reason);
    let edit_is =
        format!("This call of {EDIT} is not allowed here: whoever began this task wants other tools used only.");
    let disk_is = "This call of format_disk is not allowed here: the default of format_disk.";
    case.when(note(4, prepared(&all))).then(
        &[planned(&r), planned(&e), planned(&f), ready(&r), ended(&e, denied(&edit_is)), ended(&f, denied(disk_is))],
        &[],
    );
}

#[test]
fn calls_beyond_the_limit_are_answered_with_an_error() {
    let (a, b) = (call(READ, "a"), call(READ, "b"));
    let both = [a.clone(), b.clone()];
    let case = given(log(thinking(), &[answered(&both)])).limited(|limits| limits.calls = 1);
    let job = job(&case.state, &prepare(4, &both), &case.limits).expect("a job");
    let Work::Prepare { calls, .. } = job.work else {
        panic!("{job:?}");
    };
    assert_eq!(calls, both[..1], "the worker sees only what may run");
    let too_many = failure(ErrorKind::InvalidToolParams, "Too many calls in one answer; at most 1 are run.");
    case.when(note(4, prepared(&calls))).then(&[planned(&a), ended(&b, too_many), ready(&a)], &[]);
}

#[test]
fn a_failed_worker_fails_its_calls_and_the_model_is_told() {
    let (e, s) = (edit(), shell());
    let died = || failure(ErrorKind::UnhandledException, "The tool ended unexpectedly: oom");
    let oom = || NoteBody::Died("oom".into());
    given(preparing())
        .when(note(4, oom()))
        .then(&[ended(&e, died()), ended(&s, died())], &[])
        .next(&[Event::ResultsSent], &[think(7)]);
    given(editing()).when(note(12, oom())).then(&[ended(&e, died())], &[]).next(&[Event::Paused], &[]);
    given(replanning()).when(note(13, oom())).then(&[ended(&e, died())], &[]).next(&[Event::Paused], &[]);
    given(replanning()).when(note(13, NoteBody::Prepared(vec![]))).then(
        &[ended(&e, failure(ErrorKind::UnhandledException, "The tool ended unexpectedly: it was not looked at"))],
        &[],
    );
}

// Answers.

/// (5) (30) (31)
#[test]
fn an_approval_starts_the_call_and_the_task_continues() {
    let (e, s) = (edit(), shell());
    let case = given(waiting()).when(pick(&e, "proceed_once")).then(&[chosen(&e, Choice::ProceedOnce), ready(&e)], &[]);
    assert_eq!(case.state.status.state, TaskState::Working);
    assert_eq!(case.state.status.seq, Seq(10));
    let case = case.next(&[started(&e)], &[run(12, &e, Gate::Synced)]).rests();
    let call = case.state.call(&e.call).expect("a call of the batch");
    assert_eq!(call.choice, Some(Choice::ProceedOnce));
    assert_eq!(call.answered_by, Some(ann()));
    assert_eq!(call.stage, Stage::Running { job: Seq(12) });
    assert_eq!(case.state.asked().map(|call| call.id()).collect::<Vec<_>>(), [&s.call]);
}

/// (6) A no is not a cancel of the task; (12) the other question stays open, and the pause is announced again.
#[test]
fn a_rejection_ends_its_call_only() {
    let (e, s) = (edit(), shell());
    given(waiting())
        .when(pick(&e, "cancel"))
        .then(&[chosen(&e, Choice::Cancel), ended(&e, refused())], &[])
        .next(&[Event::Paused], &[])
        .rests()
        .when(pick(&s, "proceed_once"))
        .then(&[chosen(&s, Choice::ProceedOnce), ready(&s)], &[])
        .next(&[started(&s)], &[run(15, &s, Gate::Synced)])
        .when(note(15, run_ends(success())))
        .then(&[ended(&s, success())], &[])
        .next(&[Event::ResultsSent], &[think(17)])
        .rests();
}

/// (1) (3) The second answer comes while the first call runs, and both ends are awaited.
#[test]
fn two_questions_are_answered_one_after_the_other() {
    let (e, s) = (edit(), shell());
    given(editing())
        .when(pick(&s, "proceed_once"))
        .then(&[chosen(&s, Choice::ProceedOnce), ready(&s)], &[])
        .next(&[started(&s)], &[run(15, &s, Gate::Synced)])
        .rests()
        .when(note(12, run_ends(success())))
        .then(&[ended(&e, success())], &[])
        .rests()
        .when(note(15, run_ends(success())))
        .then(&[ended(&s, success())], &[])
        .next(&[Event::ResultsSent], &[think(18)])
        .rests();
}

/// (12)
#[test]
fn two_questions_are_answered_differently_in_one_message_with_a_prompt() {
    let (e, s) = (edit(), shell());
    given(waiting())
        .when(say_and_pick("and hurry", &[(&s, "proceed_once"), (&e, "cancel")]))
        .then(
            &[
                chosen(&s, Choice::ProceedOnce),
                ready(&s),
                chosen(&e, Choice::Cancel),
                ended(&e, refused()),
                prompted(2, "and hurry"),
            ],
            &[],
        )
        .next(&[started(&s)], &[run(15, &s, Gate::Synced)])
        .rests();
}

/// The user refused everything: the model is not asked to go on.
#[test]
fn a_turn_ends_when_every_call_was_rejected() {
    let (e, s) = (edit(), shell());
    let case = given(waiting())
        .when(say_and_pick("", &[(&e, "cancel"), (&s, "cancel")]))
        .then(
            &[chosen(&e, Choice::Cancel), ended(&e, refused()), chosen(&s, Choice::Cancel), ended(&s, refused())],
            &[],
        )
        .next(&[turn_ended(1, End::Refused)], &[])
        .rests();
    assert_eq!(case.state.status.state, TaskState::InputRequired);
    let result = |request: Request| CallResult { request, ending: Arc::new(refused()) };
    assert_eq!(
        case.state.history.last().map(|item| (**item).clone()),
        Some(Item::Results(vec![result(e), result(s)])),
        "the next request must answer every call"
    );
}

#[test]
fn the_first_of_two_answers_counts_even_within_one_message() {
    let e = edit();
    let twice = [(&e, "cancel"), (&e, "proceed_once")];
    given(waiting()).when(say_and_pick("", &twice)).then(&[chosen(&e, Choice::Cancel), ended(&e, refused())], &[]);
}

/// (16) Alone it is refused, beside something else it is passed over.
#[test]
fn late_and_unknown_answers_are_refused() {
    let (e, s, unknown) = (edit(), shell(), call(EDIT, "x"));
    let not_pending = |request: &Request| Refusal::NotPending(request.call.clone());
    for start in [fresh(), thinking(), preparing(), editing(), replanning(), idle()] {
        let case = given(start);
        for request in [&e, &unknown] {
            let late = pick(request, "proceed_once");
            case.clone().when(late).refused(not_pending(request));
            // What was not asked cannot be answered wrongly either.
            let odd = pick(request, "whatever");
            case.clone().when(odd).refused(not_pending(request));
        }
    }
    given(editing()).when(say_and_pick("more", &[(&e, "cancel")])).then(&[prompted(2, "more")], &[]);
    given(editing())
        .when(say_and_pick("", &[(&e, "cancel"), (&s, "cancel")]))
        .then(&[chosen(&s, Choice::Cancel), ended(&s, refused())], &[])
        .rests();
}

#[test]
fn an_option_that_is_not_on_offer_refuses_the_whole_message() {
    let (e, s) = (edit(), shell());
    let unknown =
        Refusal::UnknownOption { call: s.call.clone(), offered: vec!["proceed_once", "proceed_always", "cancel"] };
    for words in ["", "more"] {
        let picks = [(&e, "proceed_once"), (&s, "modify_with_editor")];
        given(waiting()).when(say_and_pick(words, &picks)).refused(unknown.clone());
    }
}

/// (7) "Always" holds for the same thing for the rest of the task.
#[test]
fn proceed_always_allows_the_next_equal_call() {
    let e = edit();
    let always = &[
        chosen(&e, Choice::ProceedAlways),
        ready(&e),
        started(&e),
        ended(&e, success()),
        ended(&shell(), success()),
        Event::ResultsSent,
    ];
    let start = log(waiting(), always);
    let (next, other) = (call(EDIT, "e2"), call(SHELL, "s2"));
    let both = [next.clone(), other.clone()];
    given(log(start.clone(), &[answered(&both)]))
        .when(note(16, prepared(&both)))
        .then(&[planned(&next), planned(&other), ready(&next), asked(&other)], &[]);
    // The rule is exactly what was shown: another file is asked about.
    let mut elsewhere = plan(&next);
    let Question::Edit { file_path, .. } = &mut elsewhere.question else {
        panic!("an edit");
    };
    *file_path = "/w/b.txt".into();
    let planned = Event::CallPlanned { call: next.call.clone(), plan: Arc::new(elsewhere.clone()) };
    given(log(start, &[answered(std::slice::from_ref(&next))]))
        .when(note(16, NoteBody::Prepared(vec![Ok(elsewhere)])))
        .then(&[planned, asked(&next)], &[]);
    // "Once" leaves no rule.
    let once = given(log(waiting(), &[chosen(&e, Choice::ProceedOnce)]));
    assert!(once.state.always.is_empty());
}

/// What "always" allows is in the event that says so: a journal read by a later version means the same.
#[test]
fn proceed_always_is_recorded_as_rules() {
    let (e, s) = (edit(), shell());
    let picks = [(&e, "proceed_always"), (&s, "proceed_always")];
    let case = given(waiting())
        .when(say_and_pick("", &picks))
        .then(&[chosen(&e, Choice::ProceedAlways), ready(&e), chosen(&s, Choice::ProceedAlways), ready(&s)], &[]);
    assert_eq!(case.state.always, [rule(&e), rule(&s)]);
    // An answer from before there were rules allows its call and nothing more.
    let old = r#"{"call_answered":{"call":"write_file__e","choice":"proceed_always","by":{"client":"a","via":"b"}}}"#;
    let old: Event = serde_json::from_str(old).expect("an event of an older journal");
    assert!(given(log(waiting(), &[old])).state.always.is_empty());
}

fn running(command: &str) -> Plan {
    let mut shown = plan(&shell());
    let Question::Exec { command: shows, .. } = &mut shown.question else {
        panic!("a command");
    };
    *shows = command.into();
    shown
}

#[test]
fn an_unclear_command_line_can_be_allowed_only_once() {
    let s = shell();
    let looked = NoteBody::Prepared(vec![Ok(running("make $x"))]);
    let planned = Event::CallPlanned { call: s.call.clone(), plan: Arc::new(running("make $x")) };
    let case = given(log(thinking(), &[answered(std::slice::from_ref(&s))]))
        .when(note(4, looked))
        .then(&[planned, asked_for(&s, ApprovalScope::Once)], &[])
        .settle();
    assert_eq!(case.state.calls[0].options(), [Choice::ProceedOnce, Choice::Cancel]);
    // Clients that are not shown the options may say always all the same.
    let said = case.decide(pick(&s, "proceed_always")).expect("it is taken for once");
    assert!(said.events.contains(&chosen(&s, Choice::ProceedOnce)), "{:?}", said.events);
}

#[test]
fn always_for_a_command_covers_its_program_and_no_interpreter() {
    let commands = [
        ("make", "make test | tail -3", true),
        ("make", "make test; rm x", false),
        ("make", "make > out", false),
        ("make", "sudo make", false),
        ("git add . && make", "make; git add x", true),
        ("python x.py", "python x.py", false),
        ("bash x.sh", "bash x.sh", false),
    ];
    for (first, then, allowed) in commands {
        let s = shell();
        let one = std::slice::from_ref(&s);
        let looked = |command| NoteBody::Prepared(vec![Ok(running(command))]);
        let seen = |request: &Request, command: &str| Event::CallPlanned {
            call: request.call.clone(),
            plan: Arc::new(running(command)),
        };
        let mut case = given(log(thinking(), &[answered(one)]))
            .when(note(4, looked(first)))
            .then(&[seen(&s, first), asked(&s)], &[])
            .settle();
        let said = case.decide(pick(&s, "proceed_always")).expect("on offer");
        for event in said.events {
            case.record(event);
        }
        let mut case = case.settle();
        let next = call(SHELL, "again");
        for event in [ended(&s, success()), Event::ResultsSent] {
            case.record(event);
        }
        case.record(answered(std::slice::from_ref(&next)));
        let job = case.state.seq.0;
        let judged = if allowed { ready(&next) } else { asked(&next) };
        case.when(note(job, looked(then))).then(&[seen(&next, then), judged], &[]);
    }
}

#[test]
fn saving_a_rule_is_offered_only_where_the_operator_allows_it() {
    let (e, s) = (edit(), shell());
    let grants = [
        (false, false, ApprovalScope::Session),
        (true, false, ApprovalScope::Session),
        (false, true, ApprovalScope::Session),
        (true, true, ApprovalScope::Disk),
    ];
    for (trusted, saving, keeping) in grants {
        let grant = Grant { saving, auto_execute: false };
        let log = if trusted { preparing() } else { untrusted(preparing()) };
        let asked = |request| asked_for(request, keeping);
        given(log)
            .granted(grant)
            .when(note(4, prepared(&[e.clone(), s.clone()])))
            .then(&[planned(&e), planned(&s), asked(&e), asked(&s)], &[]);
    }
}

#[test]
fn a_rule_is_kept_only_where_that_was_offered() {
    let e = edit();
    let word = "proceed_always_and_save";
    let saving = |saving| Grant { saving, auto_execute: true };
    given(waiting()).granted(saving(true)).when(pick(&e, word)).refused(Refusal::UnknownOption {
        call: e.call.clone(),
        offered: vec!["proceed_once", "proceed_always", "cancel"],
    });
    let kept = || {
        let asked = [planned(&e), asked_for(&e, ApprovalScope::Disk), Event::Paused];
        given(log(preparing(), &asked))
    };
    let offered = Refusal::UnknownOption {
        call: e.call.clone(),
        offered: vec!["proceed_once", "proceed_always", word, "cancel"],
    };
    let events = [chosen(&e, Choice::ProceedAlwaysAndSave), ready(&e)];
    let case = kept().granted(saving(true));
    let case = case.when(pick(&e, "no such word")).refused(offered);
    let case = case.when(pick(&e, word)).then(&events, &[save(rule(&e))]);
    assert_eq!(case.state.always, [rule(&e)]);
    assert_eq!(job(&case.state, &save(rule(&e)), &case.limits), None);
    // The operator took it back in the meantime: it lasts for the session.
    let case = kept().granted(saving(false));
    let case = case.when(pick(&e, word)).then(&events, &[]);
    assert_eq!(case.state.always, [rule(&e)]);
}

#[test]
fn a_mode_decides_what_is_asked() {
    let all = [edit(), shell(), read()];
    let denied = |request: &Request| {
        let reason = "only looking is allowed while planning";
        let message = format!("This call of {} is not allowed here: {reason}.", request.name);
        ended(request, failure(ErrorKind::PolicyViolation, &message))
    };
    let [e, s, r] = &all;
    let modes = [
        (Mode::Plan, [denied(e), denied(s), ready(r)]),
        (Mode::Default, [asked(e), asked(s), ready(r)]),
        (Mode::AutoEdit, [ready(e), asked(s), ready(r)]),
        (Mode::Yolo, [ready(e), ready(s), ready(r)]),
    ];
    for (mode, judged) in modes {
        let start = [created_as(mode, false), prompted(1, "go"), began(1)];
        let events = [vec![planned(e), planned(s), planned(r)], judged.to_vec()].concat();
        given(log(start.to_vec(), &[answered(&all)])).when(note(4, prepared(&all))).then(&events, &[]);
    }
}

/// A client may wish to be asked nothing; the operator grants it, and what is denied stays denied.
#[test]
fn a_task_runs_without_questions_only_if_the_operator_allows_it() {
    let all = [edit(), shell()];
    let [e, s] = &all;
    let start = [created_as(Mode::Default, true), prompted(1, "go"), began(1)];
    let case = || given(log(start.to_vec(), &[answered(&all)]));
    case().when(note(4, prepared(&all))).then(&[planned(e), planned(s), asked(e), asked(s)], &[]);
    let grant = Grant { auto_execute: true, ..Grant::default() };
    case()
        .granted(grant)
        .when(note(4, prepared(&all)))
        .then(&[planned(e), planned(s), ready(e), ready(s)], &[])
        .next(&[started(e), started(s)], &[run(9, e, Gate::Synced), run(10, s, Gate::Synced)])
        .rests();
    let message = "This call of run_shell_command is not allowed here: not here.";
    let rules = json!([{"toolName": SHELL, "commandPrefix": "make", "decision": "deny", "denyMessage": "not here"}]);
    case()
        .granted(grant)
        .ruled(|policy| assert_eq!(policy.add(Tier::User, &rules), Vec::<String>::new()))
        .when(note(4, prepared(&all)))
        .then(&[planned(e), planned(s), ready(e), ended(s, failure(ErrorKind::PolicyViolation, message))], &[]);
    // Where the client did not wish it, the operator's leave changes nothing.
    given(log(thinking(), &[answered(&all)]))
        .granted(grant)
        .when(note(4, prepared(&all)))
        .then(&[planned(e), planned(s), asked(e), asked(s)], &[]);
}

/// A former name of a tool leads to the same tool, so the rules for it count.
#[test]
fn a_former_name_does_not_get_around_a_rule() {
    let call = call("search_file_content", "x");
    let rules = json!([{"toolName": "grep_search", "decision": "deny", "denyMessage": "not here"}]);
    let mut case = given(log(thinking(), &[answered(std::slice::from_ref(&call))]));
    let mut spec = case.tools[READ].clone();
    spec.name = "grep_search".into();
    spec.former_name = Some("search_file_content");
    let names: Vec<String> = spec.names().map(String::from).collect();
    case.tools.extend(names.into_iter().map(|name| (name, spec.clone())));
    let message = "This call of search_file_content is not allowed here: not here.";
    case.ruled(|policy| assert_eq!(policy.add(Tier::User, &rules), Vec::<String>::new()))
        .when(note(4, prepared(std::slice::from_ref(&call))))
        .then(&[planned(&call), ended(&call, failure(ErrorKind::PolicyViolation, message))], &[]);
}

/// What runs is what was asked about: the arguments the model named, and the file the diff was made from.
#[test]
fn an_approval_is_of_exactly_what_was_shown() {
    let (e, s) = (edit(), shell());
    let picks = [(&e, "proceed_always"), (&s, "proceed_once")];
    let mut case = given(waiting());
    let said = case.decide(say_and_pick("", &picks)).expect("on offer");
    for event in said.events {
        case.record(event);
    }
    for request in [&e, &s] {
        let effect = run(99, request, Gate::Synced);
        let job = job(&case.state, &effect, &case.limits).expect("a job");
        let Work::Run(run) = job.work else {
            panic!("{:?}", job.work);
        };
        assert_eq!((&run.name, &run.args), (&request.name, &request.args));
        assert_eq!(run.base, plan(request).base);
        assert_eq!(run.edited, None);
    }
}

#[test]
fn edited_content_applies_to_edits_only() {
    let (e, s) = (edit(), shell());
    let answer = |request: &Request, edited: Option<&str>| Event::CallAnswered {
        call: request.call.clone(),
        choice: Choice::ProceedOnce,
        by: ann(),
        edited: edited.map(Arc::from),
        answers: None,
        rules: vec![],
    };
    let case = given(waiting())
        .when(pick_edited(&e, "proceed_once", "mine"))
        .then(&[answer(&e, Some("mine")), ready(&e)], &[])
        .next(&[started(&e)], &[run(12, &e, Gate::Synced)]);
    let effect = run(12, &e, Gate::Synced);
    let Some(Work::Run(run)) = job(&case.state, &effect, &case.limits).map(|job| job.work) else {
        panic!("a run job");
    };
    assert_eq!(run.edited.as_deref(), Some("mine"));
    assert_eq!(run.base, plan(&e).base);
    assert_eq!((run.call, run.args), (e.call.clone(), e.args.clone()));
    given(waiting()).when(pick_edited(&s, "proceed_once", "mine")).then(&[answer(&s, None), ready(&s)], &[]);
}

#[test]
fn ask_user_always_asks_and_its_answers_reach_the_tool() {
    let (a, s) = (call(ASK, "a"), shell());
    let answers: Arc<Answers> = Arc::new([("0".to_owned(), "blue".to_owned())].into());
    let both = [a.clone(), s.clone()];
    // Its tool is allowed by default, and still it asks.
    let asking = given(log(thinking(), &[answered(&both)]))
        .when(note(4, prepared(&both)))
        .then(&[planned(&a), planned(&s), asked(&a), asked(&s)], &[]);
    let answer = |request: &Request, answers: Option<Arc<Answers>>| Event::CallAnswered {
        call: request.call.clone(),
        choice: Choice::ProceedOnce,
        by: ann(),
        edited: None,
        rules: vec![],
        answers,
    };
    let case = asking
        .clone()
        .when(pick_answering(&a, "proceed_once", answers.clone()))
        .then(&[answer(&a, Some(answers.clone())), ready(&a)], &[])
        .next(&[started(&a)], &[run(11, &a, Gate::Written)]);
    let effect = run(11, &a, Gate::Written);
    let Some(Work::Run(run)) = job(&case.state, &effect, &case.limits).map(|job| job.work) else {
        panic!("a run job");
    };
    assert_eq!(run.answers, Some(answers.clone()));
    // Other questions have no use for them.
    asking.clone().when(pick_answering(&s, "proceed_once", answers)).then(&[answer(&s, None), ready(&s)], &[]);
    asking
        .clone()
        .when(pick(&a, "proceed_always"))
        .refused(Refusal::UnknownOption { call: a.call.clone(), offered: vec!["proceed_once", "cancel"] });
    let dismissed = Ending::Cancelled {
        reason: "The user dismissed the questions without answering them.".into(),
        output: String::new(),
    };
    asking.when(pick(&a, "cancel")).then(&[chosen(&a, Choice::Cancel), ended(&a, dismissed)], &[]);
}

// Edits.

#[test]
fn edits_run_one_at_a_time_and_a_command_beside_them() {
    let (a, b, s) = (call(EDIT, "a"), call(EDIT, "b"), shell());
    let all = [a.clone(), b.clone(), s.clone()];
    given(log(thinking(), &[answered(&all)]))
        .by_default(EDIT, Verdict::Allow)
        .by_default(SHELL, Verdict::Allow)
        .when(note(4, prepared(&all)))
        .then(&[planned(&a), planned(&b), planned(&s), ready(&a), ready(&b), ready(&s)], &[])
        .next(&[started(&a), started(&s)], &[run(11, &a, Gate::Synced), run(12, &s, Gate::Synced)])
        .rests()
        .when(note(11, run_ends(success())))
        .then(&[ended(&a, success())], &[])
        .next(&[started(&b)], &[run(14, &b, Gate::Synced)])
        .rests();
}

#[test]
fn a_written_file_is_recorded_with_the_end_of_its_call_and_also_if_the_call_was_stopped_too_late() {
    let e = edit();
    let case = given(editing()).when(note(12, edit_ends(&e))).then(&[file_changed(&e), ended(&e, success())], &[]);
    let blobs: Vec<(String, u64)> = case.state.blobs.clone().into_iter().collect();
    assert_eq!(blobs, [("a".repeat(64), 4), ("b".repeat(64), 4)]);

    let mut room = case.limits.clone();
    room.task_blob_bytes = 10;
    let again = Effect::Run { job: Seq(12), call: e.call.clone(), gate: Gate::Synced };
    let Some(Job { work: Work::Run(run), .. }) = job(&case.state, &again, &room) else { panic!("a job") };
    assert_eq!(run.blob_room, 2, "both versions count");

    let stopped = given(editing()).record_all(&[ended(&e, success()), turn_ended(1, End::Refused)]);
    stopped.when(note(12, edit_ends(&e))).then(&[file_changed(&e)], &[]);
    let over = given(editing()).record_all(&[ended(&e, success()), closed(Final::Canceled, "")]);
    over.when(note(12, edit_ends(&e))).ignored();
}

#[test]
fn an_edit_of_a_changed_file_is_asked_about_again() {
    let (e, s) = (edit(), shell());
    let case = given(editing())
        .when(note(12, NoteBody::Ended(RunEnd::Stale)))
        .then(&[stale(&e)], &[prepare(13, std::slice::from_ref(&e))])
        .rests();
    assert_eq!(case.state.status.state, TaskState::Working);
    let case = case
        // The job that found it out has nothing more to say.
        .when(note(12, run_ends(success())))
        .ignored()
        .when(note(13, prepared(std::slice::from_ref(&e))))
        .then(&[planned(&e), asked(&e)], &[])
        .next(&[Event::Paused], &[])
        .rests();
    let call = case.state.call(&e.call).expect("a call of the batch");
    assert_eq!((call.choice, &call.answered_by, call.stale), (None, &None, 1));
    case.when(say_and_pick("", &[(&e, "proceed_once"), (&s, "cancel")]))
        .then(&[chosen(&e, Choice::ProceedOnce), ready(&e), chosen(&s, Choice::Cancel), ended(&s, refused())], &[])
        .next(&[started(&e)], &[run(21, &e, Gate::Synced)]);
}

#[test]
fn a_rule_does_not_cover_a_file_that_changed_under_its_edit() {
    let e = edit();
    let always = chosen(&e, Choice::ProceedAlways);
    let start = log(waiting(), &[always, ready(&e), started(&e), stale(&e)]);
    given(start.clone()).when(note(13, prepared(std::slice::from_ref(&e)))).then(&[planned(&e), asked(&e)], &[]);
    // Where edits need no answer at all, this one needs none either.
    given(start)
        .by_default(EDIT, Verdict::Allow)
        .when(note(13, prepared(std::slice::from_ref(&e))))
        .then(&[planned(&e), ready(&e)], &[])
        .next(&[started(&e)], &[run(16, &e, Gate::Synced)]);
}

#[test]
fn an_edit_that_no_longer_fits_the_changed_file_fails() {
    let e = edit();
    let error = ErrorKind::ExecutionFailed.error("old_string was not found");
    given(replanning())
        .when(note(13, NoteBody::Prepared(vec![Err(error.clone())])))
        .then(&[ended(&e, Ending::Error { error })], &[])
        .next(&[Event::Paused], &[]);
}

// How turns and tasks end.

#[test]
fn a_single_turn_task_ends_after_its_turn() {
    let (e, s) = (edit(), shell());
    given(one_shot(log(thinking(), &[answered(&[])]))).next(&[closed(Final::Completed, "")], &[]).rests();
    given(one_shot(thinking()))
        .when(note(3, model_fails(ModelErrorKind::Fatal)))
        .then(&[closed(Final::Failed, "no luck")], &[])
        .rests();
    given(one_shot(log(
        waiting(),
        &[chosen(&e, Choice::Cancel), ended(&e, refused()), chosen(&s, Choice::Cancel), ended(&s, refused())],
    )))
    .next(&[closed(Final::Completed, "")], &[]);
    // A question or a missing credential leaves it open for the answer.
    given(one_shot(log(thinking(), &[concluded(Outcome::Ask("Which?".into()))])))
        .next(&[turn_ended(1, End::Asked("Which?".into()))], &[])
        .when(say("this"))
        .then(&[prompted(2, "this")], &[])
        .next(&[began(2)], &[think(7)]);
    // So does a restart.
    given(one_shot(thinking())).when(Input::Restored).then(&[turn_ended(1, End::Interrupted(RESTARTED.into()))], &[]);
}

#[test]
fn an_agent_may_say_how_its_turn_ends() {
    let ends = [
        (Outcome::Ask("Which?".into()), turn_ended(1, End::Asked("Which?".into())), TaskState::InputRequired),
        (Outcome::Auth("Who?".into()), turn_ended(1, End::NeedsAuth("Who?".into())), TaskState::AuthRequired),
        (Outcome::Complete("Done.".into()), closed(Final::Completed, "Done."), TaskState::Completed),
        (Outcome::Complete(String::new()), closed(Final::Completed, ""), TaskState::Completed),
        (Outcome::Fail("Broken.".into()), closed(Final::Failed, "Broken."), TaskState::Failed),
        (Outcome::Reject("No.".into()), closed(Final::Rejected, "No."), TaskState::Rejected),
    ];
    for (verdict, event, state) in ends {
        let concluded = concluded(verdict);
        let Event::Answered { answer } = &concluded else {
            panic!("{concluded:?}");
        };
        let told = NoteBody::Answered(Ok((**answer).clone()));
        let case = given(thinking())
            .when(note(3, told))
            .then(std::slice::from_ref(&concluded), &[])
            .next(&[event], &[])
            .rests();
        assert_eq!(case.state.status.state, state);
    }
}

// Commands.

#[test]
fn a_command_runs_instead_of_the_model() {
    let start = [created_to_run("memory show"), prompted(1, "/memory @show")];
    let effect = Effect::Command { job: Seq(4) };
    let case = given(start).next(&[began(1), Event::CommandBegan], std::slice::from_ref(&effect));
    let expected = Work::Command(Command {
        workspace: "/w".into(),
        trusted: true,
        invocation: Invocation { path: vec!["memory".into(), "show".into()], args: vec!["x".into()] },
        facts: Arc::default(),
    });
    let made = job(&case.state, &effect, &case.limits).expect("it is a job");
    assert_eq!((made.id.at, made.work), (Seq(4), expected));
}

#[test]
fn the_text_of_a_slash_command_is_the_answer_and_result_of_its_task() {
    let spoken = Event::Answered {
        answer: Arc::new(Answer { finish: Finish::Command, said_at: Some(Seq(6)), ..Answer::new("done", []) }),
    };
    let produced = |said: &str| Event::Produced { artifact: result(said), append: false, last: true };
    let case = given(commanding())
        .when(note(4, command_says("done")))
        .then(&[produced("done"), text("done"), spoken], &[])
        .next(&[closed(Final::Completed, "")], &[])
        .rests();
    assert_eq!(case.state.artifacts, [(*result("done")).clone()]);
    assert_eq!(case.state.history.len(), 2, "what was typed, and the answer");
    given(commanding())
        .when(note(4, command_says("")))
        .then(&[produced(""), closed(Final::Completed, "")], &[])
        .rests();
}

#[test]
fn a_slash_command_may_continue_with_the_model() {
    let told = || Event::CommandPrompted { text: "Write it.".into() };
    let case = given(commanding()).when(note(4, command_asks("Write it."))).then(&[told()], &[think(5)]).rests();
    let last = case.state.history.last().map(|item| (**item).clone());
    assert_eq!(last, Some(Item::Nudge("Write it.".into())));
    case.when(note(5, model_answers(&[]))).then(&[answered(&[])], &[]).next(&[closed(Final::Completed, "")], &[]);
}

#[test]
fn a_command_that_fails_fails_its_task() {
    for (body, text) in [
        (NoteBody::Commanded(Err("no luck".into())), "no luck"),
        (NoteBody::Died("killed".into()), "The command ended unexpectedly: killed"),
    ] {
        given(commanding()).when(note(4, body)).then(&[closed(Final::Failed, text)], &[]).rests();
    }
}

/// A restart may come in the middle of a command. It does not run again by itself, and whoever goes on talks to the model.
#[test]
fn only_the_first_turn_is_a_command() {
    let start = log(commanding(), &[turn_ended(1, End::Interrupted(RESTARTED.into())), prompted(2, "and now?")]);
    given(start).next(&[began(2)], &[think(7)]);
}

/// (2) (38) (39) Everything that runs is stopped, every call clients have seen is ended, and that is the end.
#[test]
fn a_cancel_ends_the_task_in_every_phase() {
    let (e, s) = (edit(), shell());
    let both = [ended(&e, stopped()), ended(&s, stopped()), canceled()];
    let only = [canceled()];
    let ends: [(&[Event], &[Effect]); 11] = [
        (&only, &[]),
        (&only, &[stop(3)]),
        (&only, &[stop(4)]),
        (&only, &[]),
        // Nobody has been shown the calls yet.
        (&only, &[stop(4)]),
        (&both, &[]),
        (&both, &[stop(12)]),
        (&both, &[stop(13)]),
        (&both, &[]),
        (&only, &[]),
        (&only, &[]),
    ];
    for ((phase, start), (events, effects)) in every_phase().into_iter().zip(ends) {
        let mut start = given(start);
        start.record(prompted(7, "queued"));
        let case = start.when(Input::Cancel).then(events, effects).rests();
        let state = &case.state;
        assert_eq!(state.status.state, TaskState::Canceled, "{phase}");
        assert!(state.queue.is_empty() && state.calls.is_empty(), "{phase}");
        assert!(!state.paused && !state.suspended, "{phase}");
        assert_eq!(
            state.history.last().map(|item| (**item).clone()),
            Some(Item::Dropped(message("queued"))),
            "{phase}: what was said stays to be seen"
        );
    }
}

#[test]
fn a_task_that_cannot_run_fails_with_the_reason() {
    let gone = || Input::Fail("The workspace /w is gone.".into());
    let failed = || closed(Final::Failed, "The workspace /w is gone.");
    given(fresh()).when(gone()).then(&[failed()], &[]);
    given(thinking()).when(gone()).then(&[failed()], &[stop(3)]);
    let ending = Ending::Cancelled { reason: "The task cannot go on.".into(), output: String::new() };
    given(editing())
        .when(gone())
        .then(&[ended(&edit(), ending.clone()), ended(&shell(), ending), failed()], &[stop(12)]);
}

#[test]
fn only_the_turn_of_a_disconnected_client_is_aborted() {
    let aborted = || turn_ended(1, End::Interrupted("Execution aborted by client.".into()));
    let gone = Ending::Cancelled { reason: "The client went away.".into(), output: String::new() };
    let abort = |turn| Input::Abort { turn };
    let case = given(thinking()).when(abort(1)).then(&[aborted()], &[stop(3)]).rests();
    assert_eq!(case.state.status.state, TaskState::InputRequired);
    given(editing())
        .when(abort(1))
        .then(&[ended(&edit(), gone.clone()), ended(&shell(), gone), aborted()], &[stop(12)]);
    given(thinking()).when(abort(2)).ignored();
    given(idle()).when(abort(1)).ignored();
    given(over()).when(abort(1)).ignored();
}

// Time.

const SECOND: u64 = 1_000;

fn hurried(start: Vec<Event>, change: impl FnOnce(&mut Times)) -> Case {
    given(start).limited(|limits| change(&mut limits.times))
}

fn timed_out(request: &Request) -> [Event; 2] {
    let no = Event::CallAnswered {
        call: request.call.clone(),
        choice: Choice::Cancel,
        by: Source::clock(),
        edited: None,
        answers: None,
        rules: vec![],
    };
    let reason = "Nobody answered the question in time, so the call was cancelled.";
    let ending = Ending::Cancelled { reason: reason.into(), output: String::new() };
    [no, ended(request, ending)]
}

/// A limit counts from what the log says, to the millisecond; before it nothing happens.
#[test]
fn an_unanswered_question_times_out() {
    let case = || hurried(waiting(), |times| times.answer_ms = Some(SECOND));
    let (e, s) = (edit(), shell());
    let both = [timed_out(&e), timed_out(&s)].concat();
    let due = deadline(&case().state, &case().limits.times).expect("a deadline");
    let asked: Vec<u64> = case().state.asked().map(|call| call.asked_at).collect();
    assert_eq!(asked.iter().min().map(|at| at + SECOND), Some(due));
    case().when(Input::Time(due - 1)).ignored();
    let late = case().when(Input::Time(due + SECOND)).then(&both, &[]);
    let late = late.next(&[turn_ended(1, End::Refused)], &[]).rests();
    assert_eq!(late.state.status.state, TaskState::InputRequired);
    assert_eq!(deadline(&late.state, &late.limits.times), None);
    // Whoever comes now comes too late.
    late.when(pick(&e, "proceed_once")).refused(Refusal::NotPending(e.call.clone()));
    // By itself nobody is hurried.
    given(waiting()).when(Input::Time(u64::MAX)).ignored();
}

#[test]
fn a_question_timeout_does_not_stop_running_calls() {
    let case = hurried(editing(), |times| times.answer_ms = Some(SECOND));
    let case = case.when(Input::Time(NOON + SECOND * 9)).then(&timed_out(&shell()), &[]).rests();
    assert_eq!(case.state.status.state, TaskState::Working);
    case.when(note(12, run_ends(success())))
        .then(&[ended(&edit(), success())], &[])
        .next(&[Event::ResultsSent], &[Effect::Think { job: Seq(16) }]);
}

#[test]
fn an_interrupted_turn_waits_for_the_user_even_after_a_timeout() {
    let interrupted = Event::Interrupted { text: RESTARTED.into() };
    let late = || Input::Time(NOON + SECOND * 9);
    let mut events = timed_out(&shell()).to_vec();
    events.push(interrupted);
    let case = hurried(suspended(), |times| times.answer_ms = Some(SECOND)).when(late()).then(&events, &[]).rests();
    assert_eq!(case.state.status.state, TaskState::InputRequired);
    case.when(late()).ignored();
    // Nothing is left to wait for: the turn is over.
    let e = edit();
    let cut_off = ended(&e, failure(ErrorKind::Interrupted, "It was cut off."));
    let start = [
        chosen(&e, Choice::ProceedOnce),
        ready(&e),
        started(&e),
        cut_off,
        Event::Interrupted { text: RESTARTED.into() },
    ];
    let mut events = timed_out(&shell()).to_vec();
    events.push(turn_ended(1, End::Interrupted(RESTARTED.into())));
    hurried(log(waiting(), &start), |times| times.answer_ms = Some(SECOND)).when(late()).then(&events, &[]).rests();
}

#[test]
fn a_restart_distinguishes_a_timeout_from_a_users_answer() {
    let [no, cancelled] = timed_out(&edit());
    given(log(waiting(), &[no]))
        .when(Input::Restored)
        .then(&[cancelled, Event::Interrupted { text: RESTARTED.into() }], &[]);
}

#[test]
fn a_turn_that_takes_too_long_is_stopped_in_every_phase() {
    let text = "The turn took longer than 1s and was stopped.";
    let over = || turn_ended(1, End::Failed(text.into()));
    let reason = "The turn took too long.".to_owned();
    let cut = Ending::Cancelled { reason, output: String::new() };
    let (e, s) = (edit(), shell());
    let both = || vec![ended(&e, cut.clone()), ended(&s, cut.clone()), over()];
    let ends: [(Vec<Event>, &[Effect]); 12] = [
        (vec![], &[]),
        (vec![over()], &[stop(3)]),
        // A command is all there is to its task.
        (vec![closed(Final::Failed, text)], &[stop(4)]),
        (vec![over()], &[]),
        (vec![over()], &[stop(4)]),
        (both(), &[]),
        (both(), &[stop(12)]),
        (both(), &[stop(13)]),
        (both(), &[]),
        (vec![], &[]),
        (vec![], &[]),
        (vec![], &[]),
    ];
    for ((phase, start), (events, effects)) in every_phase().into_iter().zip(ends) {
        let limit = |times: &mut Times| times.turn_ms = Some(SECOND);
        let due = hurried(start.clone(), limit);
        let due = deadline(&due.state, &due.limits.times);
        assert_eq!(due.is_some(), !events.is_empty(), "{phase}");
        let at = due.unwrap_or(NOON + SECOND);
        hurried(start.clone(), limit).when(Input::Time(at - 1)).ignored();
        let case = hurried(start, limit).when(Input::Time(at)).then(&events, effects).rests();
        assert!(!case.state.paused && !case.state.suspended, "{phase}");
    }
    hurried(one_shot(thinking()), |times| times.turn_ms = Some(SECOND))
        .when(Input::Time(NOON + SECOND * 2))
        .then(&[closed(Final::Failed, text)], &[stop(3)]);
}

#[test]
fn an_idle_task_is_closed_after_its_time_limit() {
    let text = "Nobody went on with this task for 24h.";
    let day = 24 * 3_600 * SECOND;
    let asked =
        log(thinking(), &[concluded(Outcome::Ask("Which?".into())), turn_ended(1, End::Asked("Which?".into()))]);
    for (start, state) in [
        (fresh(), Final::Canceled),
        (idle(), Final::Completed),
        (asked, Final::Completed),
        (unauthorized(), Final::Canceled),
    ] {
        let at = given(start.clone()).state.status.at + day;
        given(start.clone()).when(Input::Time(at - 1)).ignored();
        let case = given(start).when(Input::Time(at)).then(&[closed(state, text)], &[]).rests();
        case.when(Input::Time(u64::MAX)).ignored();
    }
    // A prompt that waits for its turn is somebody going on.
    let mut queued = given(idle());
    queued.record(prompted(2, "and?"));
    queued.when(Input::Time(u64::MAX)).ignored();
    hurried(idle(), |times| times.idle_ms = None).when(Input::Time(u64::MAX)).ignored();
}

// After a restart.

#[test]
fn a_restart_in_every_phase() {
    let interrupted = || turn_ended(1, End::Interrupted(RESTARTED.into()));
    let paused = || Event::Interrupted { text: RESTARTED.into() };
    let ran = "The server was stopped while this call was running. It may have had effects; look \
               before you run it again.";
    let had_not = "The server was stopped before this call had begun. Nothing was changed; it can \
                   be made again.";
    let cut_off = |message| ended(&edit(), failure(ErrorKind::Interrupted, message));
    let ends: [(&[Event], &[Effect]); 12] = [
        (&[], &[]),
        (&[interrupted()], &[]),
        (&[interrupted()], &[]),
        (&[], &[arm(4, 5_000)]),
        (&[interrupted()], &[]),
        // (37) Questions stay open.
        (&[], &[]),
        (&[cut_off(ran), paused()], &[]),
        (&[cut_off(had_not), paused()], &[]),
        (&[], &[]),
        (&[], &[]),
        (&[], &[]),
        (&[], &[]),
    ];
    for ((_, start), (events, effects)) in every_phase().into_iter().zip(ends) {
        given(start)
            .when(Input::Restored)
            .then(events, effects)
            .rests()
            .when(Input::Restored)
            .then(&[], effects)
            .rests();
    }
}

#[test]
fn a_restart_keeps_what_had_finished() {
    let (e, s) = (edit(), shell());
    let yes = |request: &Request| chosen(request, Choice::ProceedOnce);
    let start = [yes(&e), ready(&e), started(&e), ended(&e, success())];
    // Every call had ended, but the model had not been told.
    let case = given(log(log(waiting(), &start), &[yes(&s), ready(&s), started(&s), ended(&s, success())]))
        .when(Input::Restored)
        .then(&[turn_ended(1, End::Interrupted(RESTARTED.into()))], &[])
        .rests();
    let result = |request: Request| CallResult { request, ending: Arc::new(success()) };
    assert_eq!(case.state.history.last().map(|item| (**item).clone()), Some(Item::Results(vec![result(e), result(s)])));
    // The model had answered with words only: the turn ends as it would have.
    given(log(thinking(), &[answered(&[])])).when(Input::Restored).ignored().next(&[turn_ended(1, End::Done)], &[]);
    // A pause that was not announced yet is.
    let unannounced = waiting()[..8].to_vec();
    given(unannounced).when(Input::Restored).ignored().next(&[Event::Paused], &[]).rests();
    // A queued prompt has its turn after the one that was cut off.
    given(log(thinking(), &[prompted(2, "b")]))
        .when(Input::Restored)
        .then(&[turn_ended(1, End::Interrupted(RESTARTED.into()))], &[])
        .next(&[began(2)], &[think(6)]);
}

#[test]
fn a_restart_completes_events_that_a_torn_write_cut_off() {
    let (e, s) = (edit(), shell());
    let had_not = "The server was stopped before this call had begun. Nothing was changed; it can \
                   be made again.";
    let cut_off = |request: &Request| ended(request, failure(ErrorKind::Interrupted, had_not));
    let interrupted = Event::Interrupted { text: RESTARTED.into() };
    // After the first plan of two, and after the first question of two.
    given(waiting()[..5].to_vec())
        .when(Input::Restored)
        .then(&[cut_off(&e), cut_off(&s), turn_ended(1, End::Interrupted(RESTARTED.into()))], &[])
        .rests();
    given(waiting()[..7].to_vec())
        .when(Input::Restored)
        .then(&[cut_off(&s), interrupted.clone()], &[])
        .rests()
        .when(pick(&e, "proceed_once"))
        .then(&[Event::Resumed, chosen(&e, Choice::ProceedOnce), ready(&e)], &[])
        .next(&[started(&e)], &[run(13, &e, Gate::Synced)]);
    // After an answer, before what follows from it.
    given(log(waiting(), &[chosen(&e, Choice::ProceedOnce)]))
        .when(Input::Restored)
        .then(&[ready(&e), interrupted.clone()], &[])
        .rests();
    given(log(waiting(), &[chosen(&e, Choice::Cancel)]))
        .when(Input::Restored)
        .then(&[ended(&e, refused()), interrupted], &[])
        .rests();
}

// States and times.

#[test]
fn the_table_of_legal_transitions_is_exactly_this() {
    use TaskState::*;
    // Rows are from, columns are to, both in the order of `TaskState::ALL`.
    let edges = [
        // s  w  i  a  C  F  X  R
        [0, 1, 1, 0, 0, 1, 1, 1], // submitted
        [0, 0, 1, 1, 1, 1, 1, 1], // working
        [0, 1, 0, 0, 1, 1, 1, 0], // input-required
        [0, 1, 1, 0, 0, 1, 1, 0], // auth-required
        [0; 8],                   // completed
        [0; 8],                   // failed
        [0; 8],                   // canceled
        [0; 8],                   // rejected
    ];
    for (from, row) in TaskState::ALL.into_iter().zip(edges) {
        for (to, legal) in TaskState::ALL.into_iter().zip(row) {
            assert_eq!(from.may_become(to), legal == 1, "{from:?} to {to:?}");
        }
        let terminal = matches!(from, Completed | Failed | Canceled | Rejected);
        assert_eq!(from.is_terminal(), terminal, "{from:?}");
    }
}

/// Status times increase even when the clock stands still or goes back; other events may share a time.
#[test]
fn every_status_is_later_than_the_one_before() {
    let mut case = given(editing());
    case.record(ended(&edit(), success()));
    case.record(Event::Paused);
    case.record(canceled());
    let mut state = born(&case.log[0]);
    let mut seen = vec![state.status.at];
    for record in &case.log[1..] {
        let early = Record { at: state.stamp(&record.event, NOON - 60_000), ..record.clone() };
        assert!(early.at >= state.at, "{early:?}");
        state.apply(&early);
        if state.status.seq == early.seq {
            assert_eq!(state.status.at, early.at);
            seen.push(early.at);
        }
    }
    // Created, began, answered with calls, paused, answered by ann, paused, closed.
    let expected: Vec<u64> = (NOON..NOON + 7).collect();
    assert_eq!(seen, expected);
    let late = NOON + 5_000;
    assert_eq!(state.stamp(&text("x"), late), late);
}

#[test]
fn every_log_of_these_tests_round_trips_through_the_journal() {
    for (phase, start) in every_phase() {
        let case = given(start);
        let mut journal = Vec::new();
        for record in &case.log {
            record.write(&mut journal);
        }
        let lines = journal.strip_suffix(b"\n").expect("lines end");
        let read: Vec<Record> = lines
            .split(|byte| *byte == b'\n')
            .map(|line| Record::read(line).expect("a line we have just written"))
            .collect();
        assert_eq!(read, case.log, "{phase}");
    }
}
