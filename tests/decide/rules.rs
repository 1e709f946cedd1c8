//! Which calls need approval: rules from "always" answers, modes, and the operator's permissions.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::machine::decide::{Gate, Input, Refusal};
use gemini_a2a::task::machine::job::NoteBody;
use gemini_a2a::task::policy::{Grant, Mode, Policy, Tier};
use gemini_a2a::task::spec::{ApprovalScope, Choice, ErrorKind, Plan, Question};
use serde_json::json;
use std::sync::Arc;

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
    // The rule is only for the file that was shown: an edit of another file needs approval.
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

/// "Always" answers the other open questions that it covers, but not those that the same message answers otherwise.
#[test]
fn proceed_always_answers_the_open_questions_that_it_covers() {
    let (a, b, s) = (call(EDIT, "a"), call(EDIT, "b"), shell());
    let all = [a.clone(), b.clone(), s.clone()];
    let steps = [planned(&a), planned(&b), planned(&s), asked(&a), asked(&b), asked(&s), Event::Paused];
    let case = given(log(log(thinking(), &[answered(&all)]), &steps));
    let always = [chosen(&b, Choice::ProceedAlways), ready(&b)];
    case.clone()
        .when(pick(&b, "proceed_always"))
        .then(&[&always[..], &[chosen(&a, Choice::ProceedOnce), ready(&a)]].concat(), &[])
        .next(&[started(&a)], &[run(16, &a, Gate::Synced)])
        .expect_settled();
    case.when(prompt_and_pick("", &[(&b, "proceed_always"), (&a, "cancel")]))
        .then(&[&always[..], &[chosen(&a, Choice::Cancel), ended(&a, refused())]].concat(), &[]);
}

/// After a rule was revoked, such calls need approval again. The other rules stay.
#[test]
fn calls_of_a_revoked_permission_need_approval_again() {
    let (e, s) = (edit(), shell());
    let always = [chosen(&e, Choice::ProceedAlways), ready(&e), chosen(&s, Choice::ProceedAlways), ready(&s)];
    let rest = [started(&e), started(&s), ended(&e, success()), ended(&s, success()), Event::ResultsSent];
    let case = given(log(log(waiting(), &always), &rest));
    let revoke = |rules: &[&Request]| Input::Revoke { rules: rules.iter().map(|of| rule(of)).collect(), by: bob() };
    let revoked = Event::Revoked { rules: vec![rule(&e)], by: bob() };
    let case = case.when(revoke(&[&e])).then(&[revoked], &[]).expect_settled();
    assert_eq!(case.state.always, [rule(&s)]);
    let case = case.when(revoke(&[&e])).ignored();
    let (next, other) = (call(EDIT, "e2"), call(SHELL, "s2"));
    let both = [next.clone(), other.clone()];
    case.record_all(&[answered(&both)])
        .when(note(20, prepared(&both)))
        .then(&[planned(&next), planned(&other), asked(&next), ready(&other)], &[]);
    given(over()).when(revoke(&[&e])).refused(Refusal::Over);
}

/// The event of an "always" answer contains the rules, so that a later version of the program reads the same rules from a journal.
#[test]
fn proceed_always_is_recorded_as_rules() {
    let (e, s) = (edit(), shell());
    let picks = [(&e, "proceed_always"), (&s, "proceed_always")];
    let case = given(waiting())
        .when(prompt_and_pick("", &picks))
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
    let prepared = NoteBody::Prepared(vec![Ok(running("make $x"))]);
    let planned = Event::CallPlanned { call: s.call.clone(), plan: Arc::new(running("make $x")) };
    let case = given(log(thinking(), &[answered(std::slice::from_ref(&s))]))
        .when(note(4, prepared))
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
        let prepared_as = |command| NoteBody::Prepared(vec![Ok(running(command))]);
        let planned_as = |request: &Request, command: &str| Event::CallPlanned {
            call: request.call.clone(),
            plan: Arc::new(running(command)),
        };
        let mut case = given(log(thinking(), &[answered(one)]))
            .when(note(4, prepared_as(first)))
            .then(&[planned_as(&s, first), asked(&s)], &[])
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
        case.when(note(job, prepared_as(then))).then(&[planned_as(&next, then), judged], &[]);
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
        let grant = Grant { saving, ..Grant::default() };
        let log = if trusted { preparing() } else { untrusted(preparing()) };
        let asked = |request| asked_for(request, keeping);
        given(log)
            .with_grant(grant)
            .when(note(4, prepared(&[e.clone(), s.clone()])))
            .then(&[planned(&e), planned(&s), asked(&e), asked(&s)], &[]);
    }
}

#[test]
fn a_rule_is_saved_only_where_that_was_offered() {
    let e = edit();
    let word = "proceed_always_and_save";
    let saving = |saving| Grant { saving, auto_execute: true, ..Grant::default() };
    given(waiting()).with_grant(saving(true)).when(pick(&e, word)).refused(Refusal::UnknownOption {
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
    let case = kept().with_grant(saving(true));
    let case = case.when(pick(&e, "no such word")).refused(offered);
    let case = case.when(pick(&e, word)).then(&events, &[save(rule(&e))]);
    assert_eq!(case.state.always, [rule(&e)]);
    // The operator has withdrawn the permission to save rules meanwhile: the rule lasts only for the session.
    let case = kept().with_grant(saving(false));
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
        let start = [created_in_mode(mode, false), prompted(1, "go"), began(1)];
        let events = [vec![planned(e), planned(s), planned(r)], judged.to_vec()].concat();
        given(log(start.to_vec(), &[answered(&all)])).when(note(4, prepared(&all))).then(&events, &[]);
    }
}

/// A client may request that tools run without approval. The operator must permit that, and denied calls stay denied.
#[test]
fn a_task_runs_without_questions_only_if_the_operator_allows_it() {
    let all = [edit(), shell()];
    let [e, s] = &all;
    let start = [created_in_mode(Mode::Default, true), prompted(1, "go"), began(1)];
    let case = || given(log(start.to_vec(), &[answered(&all)]));
    case().when(note(4, prepared(&all))).then(&[planned(e), planned(s), asked(e), asked(s)], &[]);
    let grant = Grant { auto_execute: true, ..Grant::default() };
    case()
        .with_grant(grant)
        .when(note(4, prepared(&all)))
        .then(&[planned(e), planned(s), ready(e), ready(s)], &[])
        .next(&[started(e), started(s)], &[run(9, e, Gate::Synced), run(10, s, Gate::Synced)])
        .expect_settled();
    let message = "This call of run_shell_command is not allowed here: not here.";
    let rules = json!([{"toolName": SHELL, "commandPrefix": "make", "decision": "deny", "denyMessage": "not here"}]);
    case()
        .with_grant(grant)
        .with_policy(|policy| assert_eq!(policy.add(Tier::User, &rules), Vec::<String>::new()))
        .when(note(4, prepared(&all)))
        .then(&[planned(e), planned(s), ready(e), ended(s, failure(ErrorKind::PolicyViolation, message))], &[]);
    // If the client has not requested it, the operator's permission changes nothing.
    given(log(thinking(), &[answered(&all)]))
        .with_grant(grant)
        .when(note(4, prepared(&all)))
        .then(&[planned(e), planned(s), asked(e), asked(s)], &[]);
}

/// If nobody can be asked, calls that need approval end with an error, also a question of the agent that a rule allows.
#[test]
fn where_nobody_can_be_asked_a_call_that_needs_approval_is_refused() {
    let all = [read(), edit(), call(ASK, "a")];
    let [r, e, q] = &all;
    let refused = |call: &Request, why: &str| {
        let message = format!("This call of {} is not allowed here: {why}.", call.name);
        ended(call, failure(ErrorKind::PolicyViolation, &message))
    };
    let edit_refused = refused(e, "it needs approval (the default of write_file), and nobody can be asked");
    let case = given(log(thinking(), &[answered(&all)])).with_policy(Policy::ask_nobody);
    let ask_user = case.tools[ASK].clone();
    assert!(case.policy.forbids(&ask_user, Mode::Yolo), "the model is not told of it");
    assert!(!Policy::built_in().forbids(&ask_user, Mode::Yolo));
    let plans = [planned(r), planned(e), planned(q), ready(r), edit_refused];
    let events = |why| [&plans[..], &[refused(q, why)]].concat();
    case.clone().when(note(4, prepared(&all))).then(&events("a built-in rule"), &[]);
    let allowing = json!([{"toolName": ASK, "decision": "allow"}]);
    case.with_policy(|policy| assert_eq!(policy.add(Tier::User, &allowing), Vec::<String>::new()))
        .when(note(4, prepared(&all)))
        .then(&events("nobody can be asked"), &[]);
}

#[test]
fn a_client_is_told_once_that_its_calls_need_approval() {
    let start = || given(vec![created_in_mode(Mode::Default, true), prompted(1, "go")]);
    let text = "The client asked for tools to run without approval (autoExecute). This server was not started with \
                --allow-auto-execute, so they need approval as usual.";
    let declined = || Event::Declined { text: text.into() };
    let case = start().next(&[began(1), declined()], &[think(3)]);
    let case = case.when(note(3, model_answers(&[]))).then(&[answered(&[])], &[]).settle();
    case.when(prompt("more")).then(&[prompted(2, "more")], &[]).next(&[began(2)], &[think(8)]);
    let grant = Grant { auto_execute: true, ..Grant::default() };
    start().with_grant(grant).next(&[began(1)], &[think(3)]);
}

/// A former name of a tool means the same tool, so the tool's rules apply.
#[test]
fn rules_apply_to_former_names_of_tools() {
    let call = call("search_file_content", "x");
    let rules = json!([{"toolName": "grep_search", "decision": "deny", "denyMessage": "not here"}]);
    let mut case = given(log(thinking(), &[answered(std::slice::from_ref(&call))]));
    let mut spec = case.tools[READ].clone();
    spec.name = "grep_search".into();
    spec.former_name = Some("search_file_content");
    let names: Vec<String> = spec.names().map(String::from).collect();
    case.tools.extend(names.into_iter().map(|name| (name, spec.clone())));
    let message = "This call of search_file_content is not allowed here: not here.";
    case.with_policy(|policy| assert_eq!(policy.add(Tier::User, &rules), Vec::<String>::new()))
        .when(note(4, prepared(std::slice::from_ref(&call))))
        .then(&[planned(&call), ended(&call, failure(ErrorKind::PolicyViolation, message))], &[]);
}
