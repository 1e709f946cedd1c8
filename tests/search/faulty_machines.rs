//! Tests of the search itself: a machine that breaks one promise is caught, by the shortest path that shows it.

use crate::system::{Budget, Machine};
use gemini_a2a::limits::Times;
use gemini_a2a::task::log::event::{Event, Lifecycle};
use gemini_a2a::task::machine::decide::{Decision, Effect, Gate, Input, Refusal, Rules, decide};
use gemini_a2a::task::machine::state::{CallState, Phase, Stage, State, Step};
use gemini_a2a::task::spec::{Choice, Confinement};

use crate::{ONCE, search, search_from, search_in, task};

/// The search of this machine finds this violation by this path.
#[track_caller]
fn catches(machine: Machine, invariant: &str, path: &[&str]) {
    match search(machine, ONCE) {
        Ok(extent) => panic!("no violation was found: {extent:?}"),
        Err(broken) => {
            assert_eq!(broken.invariant, invariant, "{}", broken.report());
            assert_eq!(broken.path, path, "{}", broken.report());
        }
    }
}

#[test]
fn a_second_answer_that_is_accepted_is_caught() {
    fn gullible(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let late = match &input {
            Input::Say { said, by } => said.answers.first().map(|pick| (pick.call.clone(), by.clone())),
            _ => None,
        };
        match (decide(state, input, rules), late) {
            (Err(Refusal::NotPending(_)), Some((call, by))) if state.call(&call).is_some() => {
                let (edited, answers) = (None, None);
                let choice = Choice::ProceedOnce;
                Ok(Decision {
                    events: vec![Event::CallAnswered { call, choice, by, edited, answers, rules: vec![] }],
                    effects: vec![],
                })
            }
            (result, _) => result,
        }
    }
    catches(
        gullible,
        "write_file__e was answered twice",
        &[
            "job 3 reports Answer",
            "job 4 reports Prepared",
            "ann says proceed_once to the first call",
            "bob says proceed_once to the first call",
        ],
    );
}

#[test]
fn a_call_that_runs_again_after_a_restart_is_caught() {
    fn eager(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let running = |call: &&CallState| matches!(call.stage, Stage::Running { .. });
        if let (Input::Interrupted, Some(call)) = (&input, state.calls.iter().find(running)) {
            return Ok(Decision {
                events: vec![Event::CallStarted { call: call.id().clone() }],
                effects: vec![Effect::Start { job: state.seq.next(), gate: Gate::Synced }],
            });
        }
        decide(state, input, rules)
    }
    catches(
        eager,
        "write_file__e started and nobody allowed it",
        &["job 3 reports Answer", "job 4 reports Prepared", "ann says proceed_once to the first call", "crash"],
    );
}

#[test]
fn a_late_note_that_is_accepted_is_caught() {
    fn trusting(state: &State, mut input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        if let (Input::Note { job, .. }, Phase::Working { job: current, step: Step::Think }) =
            (&mut input, &state.phase)
        {
            *job = *current;
        }
        decide(state, input, rules)
    }
    catches(
        trusting,
        "jobs [Seq(6), Seq(7)] run, [Seq(7)] are waited for",
        &["crash", "prompt", "job 3 reports Answer"],
    );
}

#[test]
fn a_missing_pause_is_caught() {
    fn silent(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let mut decision = decide(state, input, rules)?;
        decision.events.retain(|event| *event != Event::Paused);
        Ok(decision)
    }
    catches(silent, "Working was announced in Tools", &["job 3 reports Answer", "job 4 reports Prepared"]);
}

#[test]
fn a_job_that_outlives_its_task_is_caught() {
    fn careless(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let mut decision = decide(state, input, rules)?;
        decision.effects.retain(|effect| !matches!(effect, Effect::Stop { .. }));
        Ok(decision)
    }
    catches(careless, "jobs [Seq(3)] run, [] are waited for", &["cancel"]);
}

#[test]
fn a_call_that_nobody_was_asked_about_is_caught() {
    fn bold(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let mut decision = decide(state, input, rules)?;
        for event in &mut decision.events {
            if let Event::CallAsked { call, .. } = event {
                *event = Event::CallReady { call: call.clone(), confinement: Confinement::None };
            }
        }
        Ok(decision)
    }
    catches(bold, "write_file__e is ready and nobody allowed it", &["job 3 reports Answer", "job 4 reports Prepared"]);
}

#[test]
fn a_turn_that_ignores_a_restart_is_caught() {
    fn forgetful(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        match input {
            Input::Interrupted => Ok(Decision::default()),
            input => decide(state, input, rules),
        }
    }
    catches(forgetful, "jobs [] run, [Seq(3)] are waited for", &["crash"]);
}

#[test]
fn a_timeout_that_does_not_stop_the_work_is_caught() {
    fn hasty(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let late = matches!(input, Input::Time(_));
        let mut decision = decide(state, input, rules)?;
        if late {
            decision.effects.clear();
        }
        Ok(decision)
    }
    let times = Times { turn_ms: Some(1_000), ..Times::default() };
    let budget = Budget { time_jumps: 1, ..ONCE };
    let first = task::created(Lifecycle::Conversational);
    let broken = search_in(times, first, super::EDIT_AND_COMMAND, hasty, budget).expect_err("the machine is faulty");
    assert_eq!(broken.invariant, "jobs [Seq(3)] run, [] are waited for");
    assert_eq!(broken.path, ["it is late"]);
}

#[test]
fn a_command_that_runs_again_after_a_restart_is_caught() {
    fn eager(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        if let (Input::Interrupted, Phase::Working { job, step: Step::Command }) = (&input, &state.phase) {
            return Ok(Decision { events: vec![], effects: vec![Effect::Start { job: *job, gate: Gate::Synced }] });
        }
        decide(state, input, rules)
    }
    let first = task::created_to_run("memory add");
    let broken = search_from(first, eager, ONCE).expect_err("the machine is faulty");
    assert_eq!(
        (broken.invariant.as_str(), broken.path.as_slice()),
        ("the command runs twice", &["crash".to_owned()][..]),
        "{}",
        broken.report()
    );
}

#[test]
fn a_rule_that_covers_a_changed_file_is_caught() {
    fn lax(state: &State, input: Input, rules: &Rules<'_>) -> Result<Decision, Refusal> {
        let mut state = state.clone();
        for call in &mut state.calls {
            call.stale = 0;
        }
        decide(&state, input, rules)
    }
    let budget = Budget { always: 1, crashes: 0, ..ONCE };
    let broken = search(lax, budget).expect_err("the machine is faulty");
    assert_eq!(broken.invariant, "write_file__e is ready and nobody allowed it", "{}", broken.report());
}
