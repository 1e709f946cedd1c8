//! Limits of a conversation: the fallback model, compaction of a long conversation, loop detection, and the limit of model
//! requests.

mod task;

use gemini_a2a::base::id::Seq;
use gemini_a2a::task::log::answer::{Answer, Usage};
use gemini_a2a::task::log::event::{Delivery, End, Event, Lifecycle, Tries};
use gemini_a2a::task::machine::decide::{Gate, Input, job};
use gemini_a2a::task::machine::job::{Attachments, Compaction, ModelError, ModelErrorKind, NoteBody, Work};
use gemini_a2a::task::machine::state::Item;
use serde_json::json;
use task::*;

/// A task with this model whose first request is job 3.
fn thinking(model: &str) -> Vec<Event> {
    let created = created_with(Lifecycle::Conversational, |created| created.model = model.into());
    vec![created, prompted(1, "go"), began(1)]
}

fn fell_back(model: &str) -> Event {
    Event::FellBack { model: model.into(), reason: "no luck".into() }
}

fn failed(turn: u32, text: &str) -> Event {
    Event::TurnEnded { turn, end: End::Failed(text.into()), by: None }
}

#[test]
fn an_unavailable_model_is_replaced_once_before_the_turn_fails() {
    let unusable = || model_fails(ModelErrorKind::Unusable);
    let case =
        given(thinking("gemini-2.5-pro")).when(note(3, unusable())).then(&[fell_back("gemini-2.5-flash")], &[think(4)]);
    let asked = job(&case.state, Seq(4), &case.limits).expect("a job");
    assert!(matches!(asked.work, Work::Think(think) if &*think.model == "gemini-2.5-flash"));
    case.when(note(4, unusable())).then(&[failed(1, "no luck")], &[]);
    given(thinking("gemma-4-31b-it")).when(note(3, unusable())).then(&[failed(1, "no luck")], &[]);
}

#[test]
fn exhausted_retries_switch_to_the_fallback_model() {
    given(thinking("gemini-2.5-pro"))
        .with_limits(|limits| limits.model_tries = 1)
        .when(note(3, model_fails(ModelErrorKind::Busy { after_ms: None })))
        .then(&[fell_back("gemini-2.5-flash")], &[think(4)]);
}

/// The time for retries is counted for all models together.
#[test]
fn a_fallback_model_is_asked_once_after_the_time_for_retries() {
    let mut log = thinking("gemini-2.5-pro");
    let tries = Tries { failed: 1, broken: 0, since: 1 };
    log.extend([
        Event::BackedOff { tries, delay_ms: 1, reason: "no luck".into() },
        Event::Retried,
        fell_back("gemini-2.5-flash"),
    ]);
    let busy = || model_fails(ModelErrorKind::Busy { after_ms: None });
    let case = given(log.clone()).when(note_at(6, busy(), 120_001)).then(&[failed(1, "no luck")], &[]);
    assert_eq!(&*case.state.model, "gemini-2.5-flash", "later requests name the fallback model");
    let early = given(log).decide(note_at(6, busy(), 100_000)).expect("a worker is not refused");
    assert!(matches!(early.events[..], [Event::BackedOff { tries: Tries { failed: 1, since: 1, .. }, .. }]));
}

#[test]
fn model_requests_per_task_are_limited() {
    let exhausted = "The task has asked the model 1 times, as often as it may. Start a new task.";
    let case = given(thinking("m"))
        .with_limits(|limits| limits.session_requests = 1)
        .when(note(3, model_answers(&[])))
        .then(&[answered(&[])], &[])
        .settle();
    case.when(prompt("again")).then(&[prompted(2, "again")], &[]).next(&[failed(2, exhausted)], &[]).expect_settled();
}

/// An answer of the model whose prompt had this many tokens.
fn answer_with_usage(tokens: u64) -> NoteBody {
    let usage = Usage { prompt: tokens, ..Usage::default() };
    NoteBody::Answered(Ok(Answer { usage: Some(usage), ..answer(&[]) }))
}

#[test]
fn a_long_conversation_is_compacted_before_the_next_request() {
    let start = |tokens| {
        let mut case = given(thinking("m")).with_limits(|limits| limits.compress_tokens = 1_000);
        let decision = case.decide(note(3, answer_with_usage(tokens))).expect("an answer is accepted");
        decision.events.into_iter().for_each(|event| case.record(event));
        case.settle().when(prompt("more")).then(&[prompted(2, "more")], &[])
    };
    start(999).next(&[began(2)], &[think(7)]);

    let compact = starts(8, Gate::Written, Started::Compact);
    let compacting = || start(1_000).next(&[began(2), Event::CompactionBegan], std::slice::from_ref(&compact));
    let done = Compaction { summary: "short".into(), items: 2 };
    let case = compacting()
        .when(note(8, NoteBody::Compacted(Ok(done))))
        .then(&[Event::Compacted { summary: "short".into(), items: 2 }], &[think(9)]);
    let asked = job(&case.state, Seq(9), &case.limits).expect("a job");
    let Work::Think(think_of) = asked.work else { panic!("a request") };
    assert_eq!(think_of.given, 1);
    assert!(matches!(&*think_of.history[0], Item::Summary(text) if &**text == "short"));
    assert_eq!(think_of.history.len(), 2, "the summary, and the prompt it does not cover");
    assert_eq!(case.state.history.len(), 3, "clients still see everything");

    let error = ModelError { kind: ModelErrorKind::Fatal, message: "no".into() };
    let failed = compacting()
        .when(note(8, NoteBody::Compacted(Err(error))))
        .then(&[Event::CompactionFailed { reason: "no".into() }], &[think(9)]);
    assert!(failed.state.incompressible, "compaction is not tried again");
    compacting().when(note(7, answer_with_usage(1))).ignored();
}

#[test]
fn a_conversation_that_the_model_cannot_read_is_summarised_once_and_then_refused() {
    let too_long = || model_fails(ModelErrorKind::TooLong);
    let compact = starts(4, Gate::Written, Started::Compact);
    let begun = || {
        given(thinking("m")).when(note(3, too_long())).then(&[Event::CompactionBegan], std::slice::from_ref(&compact))
    };
    let done = Compaction { summary: "short".into(), items: 1 };
    let case = begun()
        .when(note(4, NoteBody::Compacted(Ok(done))))
        .then(&[Event::Compacted { summary: "short".into(), items: 1 }], &[think(5)]);
    let compact_at = |case: &Case, at| match job(&case.state, Seq(at), &case.limits).map(|job| job.work) {
        Some(Work::Think(think)) => think.compact_at,
        other => panic!("{other:?}"),
    };
    assert_eq!(compact_at(&given(thinking("m")), 3), Some(524_288));
    assert_eq!(compact_at(&case, 5), None, "the conversation has just been summarised");
    case.when(note(5, too_long())).then(&[failed(1, "no luck")], &[]);
    let error = ModelError { kind: ModelErrorKind::Fatal, message: "no".into() };
    begun()
        .when(note(4, NoteBody::Compacted(Err(error))))
        .then(&[Event::CompactionFailed { reason: "no".into() }], &[think(5)])
        .when(note(5, too_long()))
        .then(&[failed(1, "no luck")], &[]);
    let never = given(thinking("m")).with_limits(|limits| limits.compress_tokens = 0);
    never.when(note(3, too_long())).then(&[failed(1, "no luck")], &[]);
}

#[test]
fn a_long_conversation_is_compacted_before_a_prompt_with_files_too() {
    let mut case = given(thinking("m")).with_limits(|limits| limits.compress_tokens = 1_000);
    let decision = case.decide(note(3, answer_with_usage(1_000))).expect("an answer is accepted");
    decision.events.into_iter().for_each(|event| case.record(event));
    let reading = starts(8, Gate::Written, Started::Attach);
    let compact = starts(10, Gate::Written, Started::Compact);
    case.settle()
        .when(prompt("see @notes.txt"))
        .then(&[prompted(2, "see @notes.txt")], &[])
        .next(&[began(2), Event::AttachmentsWanted], &[reading])
        .when(note(8, NoteBody::Attached(Default::default())))
        .then(&[Event::Attached { text: "".into(), media: Vec::new() }, Event::CompactionBegan], &[compact]);
}

#[test]
fn compaction_is_stopped_by_a_cancel_and_a_restart() {
    let mut case = given(thinking("m")).with_limits(|limits| limits.compress_tokens = 1);
    let decision = case.decide(note(3, answer_with_usage(5))).expect("an answer is accepted");
    decision.events.into_iter().for_each(|event| case.record(event));
    let case = case.settle().when(prompt("more")).then(&[prompted(2, "more")], &[]).settle();
    let decision = case.decide(Input::Cancel).expect("a cancel is accepted");
    assert_eq!(decision.effects, [stop(8).0]);
    let restarted = case.decide(Input::Interrupted).expect("a restart is never refused");
    assert!(matches!(&restarted.events[..], [Event::TurnEnded { turn: 2, end: End::Interrupted(_), by: None }]));
}

#[test]
fn a_user_may_ask_for_a_summary_which_is_a_turn_of_its_own() {
    let compact = starts(8, Gate::Written, Started::Compact);
    let asked = |turn| Event::Prompted {
        message: message("/compress"),
        by: ann(),
        turn,
        delivery: Delivery { compress: true, ..Delivery::default() },
    };
    let begun = || {
        let case = given(thinking("m")).with_limits(|limits| limits.compress_tokens = 0);
        let case = case.when(note(3, model_answers(&[]))).then(&[answered(&[])], &[]).settle();
        let case = case.when(compressing("/compress")).then(&[asked(2)], &[]);
        case.next(&[began(2), Event::CompactionBegan], std::slice::from_ref(&compact))
    };
    let done = Compaction { summary: "short".into(), items: 2 };
    let ended = Event::TurnEnded { turn: 2, end: End::Done, by: None };
    let case = begun();
    let Some(Work::Compact(think_of)) = job(&case.state, Seq(8), &case.limits).map(|job| job.work) else {
        panic!("a summary")
    };
    assert!(think_of.compress && think_of.history.len() == 2, "the model is not shown the command: {think_of:?}");
    let case = case
        .when(note(8, NoteBody::Compacted(Ok(done))))
        .then(&[Event::Compacted { summary: "short".into(), items: 2 }, ended.clone()], &[]);
    // The next prompt is answered with the summary before it.
    let case = case.when(prompt("on")).then(&[prompted(3, "on")], &[]).next(&[began(3)], &[think(12)]);
    let Some(Work::Think(think_of)) = job(&case.state, Seq(12), &case.limits).map(|job| job.work) else {
        panic!("a request")
    };
    assert!(matches!(&think_of.history.iter().map(|item| &**item).collect::<Vec<_>>()[..],
        [Item::Summary(text), Item::Said(said)] if &**text == "short" && said.text() == "on"));

    let error = ModelError { kind: ModelErrorKind::Fatal, message: "no".into() };
    let failed = begun()
        .when(note(8, NoteBody::Compacted(Err(error))))
        .then(&[Event::CompactionFailed { reason: "no".into() }, ended], &[]);
    assert!(!failed.state.incompressible, "a necessary summary is still made");
    let restarted = begun().decide(Input::Interrupted).expect("a restart is never refused");
    assert!(matches!(&restarted.events[..], [Event::TurnEnded { turn: 2, end: End::Interrupted(_), by: None }]));
}

#[test]
fn repeated_calls_are_not_run_and_then_end_the_turn() {
    let mut case = given(thinking("m"));
    let request = read();
    let mut repeated = 0;
    for _ in 0..20 {
        let at = case.state.seq.0;
        let decision =
            case.decide(note(at, model_answers(std::slice::from_ref(&request)))).expect("an answer is accepted");
        let looped = decision.events.contains(&Event::Looped);
        let over = matches!(decision.events.last(), Some(Event::TurnEnded { .. }));
        assert_eq!(looped, decision.effects.is_empty(), "a call that repeats is not prepared");
        decision.events.into_iter().for_each(|event| case.record(event));
        repeated += u32::from(looped);
        if over {
            assert_eq!(repeated, 2);
            return;
        }
        if !looped {
            let call = case.state.calls[0].request.clone();
            case.record(planned(&call));
            case.record(ready(&call));
            case.record(started(&call));
            case.record(ended(&call, success()));
        }
        case = case.settle();
    }
    panic!("the turn does not end");
}

#[test]
fn repeated_text_is_cut_off_and_then_ends_the_turn() {
    let sentence = "I will look at the file once more to see what is in it now. ";
    let mut case = given(thinking("m"));
    let mut nudged = 0;
    for n in 0..200 {
        let at = case.state.requests;
        let job = match case.state.phase {
            gemini_a2a::task::machine::state::Phase::Working { job, .. } => job.0,
            ref other => panic!("{other:?} after {n} sentences, request {at}"),
        };
        let decision = case.decide(note(job, NoteBody::Text(sentence.into()))).expect("text is accepted");
        for event in &decision.events {
            nudged += u32::from(matches!(event, Event::Nudged { .. }));
        }
        let over = matches!(decision.events.last(), Some(Event::TurnEnded { .. }));
        if over || decision.events.len() > 1 {
            assert_eq!(decision.effects[0], stop(job).0, "the model is stopped");
        }
        decision.events.into_iter().for_each(|event| case.record(event));
        if over {
            assert_eq!(nudged, 1);
            return;
        }
    }
    panic!("the turn does not end");
}

/// Lines of code may repeat. The fences around the code may arrive in pieces.
#[test]
fn repetition_inside_code_is_not_a_loop() {
    let mut case = given(thinking("m"));
    let line = "let value = compute_the_value_of_something(argument);\n";
    let open = ["Look:\n``", "`rust\n"].into_iter();
    for piece in open.chain(std::iter::repeat_n(line, 200)) {
        let decision = case.decide(note(3, NoteBody::Text(piece.into()))).expect("text is accepted");
        assert_eq!(decision.events.len(), 1);
        decision.events.into_iter().for_each(|event| case.record(event));
    }
    assert_eq!(case.state.utterance.fences, 1);
}

#[test]
fn loop_detection_can_be_switched_off() {
    let mut case = given(thinking("m")).with_limits(|limits| limits.loop_repetitions = 0);
    for _ in 0..100 {
        let text = NoteBody::Text("The same sentence, said for the hundredth time now. ".into());
        let decision = case.decide(note(3, text)).expect("text is accepted");
        assert_eq!(decision.events.len(), 1);
        decision.events.into_iter().for_each(|event| case.record(event));
    }
    let parts = json!(case.state.utterance.text.len());
    assert!(parts.as_u64() > Some(4_000));
}

#[test]
fn named_files_are_read_before_the_model_is_asked() {
    let start = || {
        given(vec![created(Lifecycle::Conversational), prompted(1, "look at @a.txt")])
            .next(&[began(1), Event::AttachmentsWanted], &[starts(4, Gate::Written, Started::Attach)])
    };
    let case = start();
    let wanted = job(&case.state, Seq(4), &case.limits).expect("a job");
    assert!(matches!(wanted.work, Work::Attach { prompt, .. } if prompt.text() == "look at @a.txt"));
    let case = case
        .when(note(4, NoteBody::Attached(Attachments { text: "its text".into(), media: vec![] })))
        .then(&[Event::Attached { text: "its text".into(), media: vec![] }], &[think(5)]);
    assert!(matches!(&**case.state.history.last().expect("items"), Item::Nudge(text) if text.as_str() == "its text"));
    for nothing in [NoteBody::Attached(Attachments::default()), NoteBody::Died("x".into())] {
        let case =
            start().when(note(4, nothing)).then(&[Event::Attached { text: "".into(), media: vec![] }], &[think(5)]);
        assert_eq!(case.state.history.len(), 1, "only the prompt");
    }
    let decision = start().decide(Input::Cancel).expect("a cancel is accepted");
    assert_eq!(decision.effects, [stop(4).0]);
}
