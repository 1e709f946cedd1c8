//! Tool calls from the model's answer to their first start: ids, checks, limits, and whether the user is asked.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::base::id::{CallId, Seq};
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::machine::decide::{Effect, Gate, job};
use gemini_a2a::task::machine::job::{NoteBody, Work};
use gemini_a2a::task::machine::state::TaskState;
use gemini_a2a::task::spec::{Ending, ErrorKind, Verdict};

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
    assert_eq!(decision.effects, [Effect::Start { job: Seq(7), gate: Gate::Written }]);
}

/// (41) (42) Both are announced before the first question, and one pause follows.
#[test]
fn calls_that_need_an_answer_are_asked_about_and_the_task_waits() {
    let (e, s) = (edit(), shell());
    let case = given(thinking())
        .when(note(3, model_answers(&[e.clone(), s.clone()])))
        .then(&[answered(&[e.clone(), s.clone()])], &[prepare(4, &[e.clone(), s.clone()])])
        .expect_settled()
        .when(note(4, prepared(&[e.clone(), s.clone()])))
        .then(&[planned(&e), planned(&s), asked(&e), asked(&s)], &[]);
    assert_eq!(case.state.status.state, TaskState::Working);
    let case = case.next(&[Event::Paused], &[]).expect_settled();
    assert_eq!(case.state.status.state, TaskState::InputRequired);
}

/// (8) (43) (44) (45) Allowed calls run at once and nobody is asked; (10) (13) they end one by one.
#[test]
fn calls_that_are_allowed_run_without_a_question() {
    let (r, s) = (read(), shell());
    let both = [r.clone(), s.clone()];
    given(log(thinking(), &[answered(&both)]))
        .with_default(SHELL, Verdict::Allow)
        .when(note(4, prepared(&both)))
        .then(&[planned(&r), planned(&s), ready(&r), ready(&s)], &[])
        .next(&[started(&r), started(&s)], &[run(9, &r, Gate::Written), run(10, &s, Gate::Synced)])
        .expect_settled()
        .when(note(10, NoteBody::Output("x".into())))
        .then(&[Event::CallOutput { call: s.call.clone(), text: "x".into() }], &[])
        .when(note(10, NoteBody::Output(String::new())))
        .ignored()
        .when(note(10, run_ends(success())))
        .then(&[ended(&s, success())], &[])
        .expect_settled()
        .when(note(9, run_ends(success())))
        .then(&[ended(&r, success())], &[])
        .next(&[Event::ResultsSent], &[think(14)])
        .expect_settled();
}

/// (15) (27) (28) The task works while a call is prepared or runs. When that call has ended, the task waits.
#[test]
fn the_task_waits_only_when_everything_waits() {
    let (e, r) = (edit(), read());
    let case = given(log(thinking(), &[answered(&[e.clone(), r.clone()])]))
        .expect_settled()
        .when(note(4, prepared(&[e.clone(), r.clone()])))
        .then(&[planned(&e), planned(&r), asked(&e), ready(&r)], &[])
        .next(&[started(&r)], &[run(9, &r, Gate::Written)])
        .expect_settled();
    assert_eq!(case.state.status.state, TaskState::Working);
    let case = case
        .when(note(9, run_ends(success())))
        .then(&[ended(&r, success())], &[])
        .next(&[Event::Paused], &[])
        .expect_settled();
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

/// A client may restrict the tools. The operator's rules still apply to the remaining ones.
#[test]
fn a_call_of_a_disabled_tool_is_not_asked_about() {
    let (r, e, f) = (call(READ, "r"), edit(), call(FORBIDDEN, "f"));
    let all = [r.clone(), e.clone(), f.clone()];
    let events = [prompted(1, "go"), began(1)];
    let case = given(log(vec![created_with_tools(&[READ, FORBIDDEN])], &events));
    let asked = job(&case.state, Seq(3), &case.limits).expect("a job");
    let Work::Think(asked) = asked.work else {
        panic!("{asked:?}");
    };
    assert_eq!(asked.tools, Some(vec![READ.to_owned(), FORBIDDEN.to_owned()]));
    let case = case.record_all(&[answered(&all)]);
    let denied = |reason: &str| failure(ErrorKind::PolicyViolation, reason);
    let edit_reason =
        format!("This call of {EDIT} is not allowed here: whoever began this task wants other tools used only.");
    let disk_reason = "This call of format_disk is not allowed here: the default of format_disk.";
    case.when(note(4, prepared(&all))).then(
        &[
            planned(&r),
            planned(&e),
            planned(&f),
            ready(&r),
            ended(&e, denied(&edit_reason)),
            ended(&f, denied(disk_reason)),
        ],
        &[],
    );
}

#[test]
fn calls_beyond_the_limit_are_answered_with_an_error() {
    let (a, b) = (call(READ, "a"), call(READ, "b"));
    let both = [a.clone(), b.clone()];
    let case = given(log(thinking(), &[answered(&both)])).with_limits(|limits| limits.calls = 1);
    let job = job(&case.state, Seq(4), &case.limits).expect("a job");
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
