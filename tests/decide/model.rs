//! Answers of the model: what is recorded of them, and how failed requests are retried.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::base::id::Seq;
use gemini_a2a::limits::Limits;
use gemini_a2a::task::log::answer::{Answer, Usage};
use gemini_a2a::task::log::blob::BlobRef;
use gemini_a2a::task::log::event::{End, Event, ToolSet};
use gemini_a2a::task::machine::decide::{Effect, Input, job};
use gemini_a2a::task::machine::job::{Job, ModelErrorKind, NoteBody, Work};
use gemini_a2a::task::machine::state::{Item, Phase, State, TaskState};
use gemini_a2a::task::message::{Artifact, Part};
use gemini_a2a::task::spec::Choice;
use std::sync::Arc;

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
        .expect_settled();
    let state = &case.state;
    assert_eq!((state.turn.usage, state.total), (Some(usage), usage));
    assert_eq!(state.turn.trace.as_deref(), Some("trace"));
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
    let job = job(&case.state, Seq(14), &case.limits).expect("a job");
    assert_eq!(job.id.at, Seq(14));
    let Work::Think(think) = job.work else {
        panic!("{job:?}");
    };
    assert_eq!((think.turn, think.round, think.attempt), (1, 1, 1));
    assert_eq!(think.prompt.text(), "go");
}

/// The waits after each of the failures, until the turn ends.
fn waits(limit: impl FnOnce(&mut gemini_a2a::limits::Limits), kind: ModelErrorKind) -> Vec<u64> {
    let mut case = given(thinking()).with_limits(limit);
    let mut waits = Vec::new();
    loop {
        let Phase::Working { job, .. } = case.state.phase else {
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
                let message = match (kind, waits.len()) {
                    (ModelErrorKind::Busy { .. }, 1..) => format!("no luck It was asked {} times.", waits.len() + 1),
                    _ => "no luck".into(),
                };
                assert_eq!(end, &End::Failed(message));
                return waits;
            }
            other => panic!("{other:?}"),
        }
        case.record(decision.events[0].clone());
        let Phase::Backoff { job, .. } = case.state.phase else {
            panic!("in {:?}", case.state.phase);
        };
        case = case.expect_settled().when(Input::Due { job }).then(&[Event::Retried], &[think(job.0 + 1)]);
    }
}

/// Whether a wait is at least this long and at most a fifth longer.
fn is_jittered(wait: u64, least: u64) -> bool {
    (least..=least + least / 5).contains(&wait)
}

#[test]
fn a_busy_model_is_retried_with_exponential_backoff_up_to_the_cap() {
    let waits = waits(|_| {}, ModelErrorKind::Busy { after_ms: None });
    let least = [5_000, 10_000, 20_000, 30_000, 30_000, 30_000, 30_000, 30_000, 30_000];
    assert_eq!(waits.len(), least.len(), "ten tries in all");
    for (wait, least) in waits.iter().zip(least) {
        assert!(is_jittered(*wait, least), "{waits:?}");
    }
}

#[test]
fn a_longer_retry_after_is_obeyed_and_a_too_long_one_fails() {
    let busy = |after_ms| ModelErrorKind::Busy { after_ms: Some(after_ms) };
    let once = |limits: &mut gemini_a2a::limits::Limits| (limits.model_tries, limits.model_retry_ms) = (2, None);
    for (asked, least) in [(0, 5_000), (4_000, 5_000), (60_000, 60_000), (300_000, 300_000)] {
        let waits = waits(once, busy(asked));
        assert!(waits.len() == 1 && is_jittered(waits[0], least), "{asked}: {waits:?}");
    }
    assert_eq!(waits(once, busy(300_001)), [0; 0]);
}

/// Every failure comes so many milliseconds after the one before, the first one at 1,000.
#[test]
fn a_busy_model_is_retried_for_a_limited_time() {
    let busy = || model_fails(ModelErrorKind::Busy { after_ms: None });
    let tries = |every: u64, most: Option<u64>| {
        let mut case = given(thinking()).with_limits(|limits| limits.model_retry_ms = most);
        for at in (0..).map(|n| 1_000 + n * every) {
            let Phase::Working { job, .. } = case.state.phase else {
                return case.state.turn.error;
            };
            let decision = case.decide(note_at(job.0, busy(), at)).expect("a worker is not refused");
            case.record(decision.events[0].clone());
            if matches!(case.state.phase, Phase::Backoff { .. }) {
                case.record(Event::Retried);
            }
        }
        unreachable!("the times do not end")
    };
    let after = |count: u32| Some(format!("no luck It was asked {count} times."));
    assert_eq!(tries(60_000, None), after(10));
    assert_eq!(tries(30_000, Some(120_000)), after(5));
    assert_eq!(tries(30_000, Some(119_999)), after(4), "the next wait would end too late");
    assert_eq!(tries(60_000, Some(120_000)), after(3));
    assert_eq!(tries(1, Some(4_999)), Some("no luck".into()));
    assert_eq!(tries(0, Some(20_000)), after(4), "waits of 5, 10 and 20 s end in time");
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
        .expect_settled();
    assert_eq!(case.state.turn.error.as_deref(), Some(died));
    assert_eq!(case.state.status.text.as_deref(), Some(died));
    assert_eq!(
        case.state.history,
        [Arc::new(Item::Dropped(message("go")))],
        "a prompt that fails would fail every later request"
    );
    let case = case.when(prompt("again")).then(&[prompted(2, "again")], &[]);
    let case = case.next(&[began(2)], &[think(6)]);
    assert_eq!(case.state.turn.error, None);
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
    let Some(Work::Think(again)) = job(&case.state, Seq(5), &case.limits).map(|job| job.work) else {
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

#[test]
fn the_tools_of_a_request_are_recorded_and_the_next_request_knows_them() {
    let declarations = BlobRef { sha256: "c".repeat(64), bytes: 9 };
    let set = ToolSet { names: vec!["edit".into()], declarations, others: vec![], denied: vec![] };
    let declared = |state: &State| match job(state, Seq(3), &Limits::default()) {
        Some(Job { work: Work::Think(think), .. }) => think.declared,
        other => panic!("{other:?}"),
    };
    let before = given(thinking());
    assert_eq!(declared(&before.state), None);
    let case = before.when(note(3, NoteBody::Tools(set.clone()))).then(&[Event::Tools(Arc::new(set.clone()))], &[]);
    assert_eq!(declared(&case.state).as_deref(), Some(&set));
    assert_eq!(case.state.blobs.get(&"c".repeat(64)), Some(&9), "clients may read the declarations");
    case.when(note(2, NoteBody::Tools(set))).ignored();
}
