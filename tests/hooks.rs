//! Webhooks in the task machine: what is delivered, in which order, and what happens when a receiver cannot be reached. Webhooks do
//! not change what the agent does. They are the only thing that may still change in a finished task.

mod task;

use gemini_a2a::base::id::Seq;
use gemini_a2a::base::secret::Secret;
use gemini_a2a::task::log::event::{End, Event, Final, Profile, Protocol};
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::decide::{HookInput, Input, Refusal};
use gemini_a2a::task::machine::state::{State, TaskState};
use gemini_a2a::task::message::{Artifact, Part};
use gemini_a2a::task::push::{Due, Health, Hook, Target};
use std::sync::Arc;
use task::{asked, began, chosen, created, edit, given, hook_moved, hook_set, planned, prompted, target};

fn set(id: &str) -> Input {
    Input::Hook(HookInput::Set(target(id)))
}

fn drop_hook(id: &str) -> Input {
    Input::Hook(HookInput::Drop(id.into()))
}

fn moved(id: &str, upto: u64) -> Input {
    Input::Hook(HookInput::Moved { id: id.into(), upto: Seq(upto), health: Health::default().after_success() })
}

fn v03(id: &str) -> Target {
    Target { protocol: Protocol::V03, profile: Profile::Coder, ..target(id) }
}

fn produced(id: &str, last: bool) -> Event {
    Event::Produced {
        artifact: Arc::new(Artifact { id: id.into(), name: None, description: None, parts: vec![Part::text("x")] }),
        append: false,
        last,
    }
}

/// The sequence numbers and contents of the pending deliveries of the only webhook.
fn due(state: &State) -> Vec<(u64, String)> {
    let outline = |due: &Due| match due {
        Due::Status { status, outcome } => {
            format!("{:?}{}", status.state, if outcome.is_some() { " at rest" } else { "" })
        }
        Due::Artifact { id, .. } => format!("artifact {id}"),
        Due::Answer { turn, number, .. } => format!("answer {turn}.{number}"),
    };
    let [hook] = &state.hooks[..] else { panic!("one webhook, not {:?}", state.hooks) };
    hook.due.iter().map(|due| (due.seq().0, outline(due))).collect()
}

fn expect_due(state: &State, expected: &[(u64, &str)]) {
    let expected: Vec<(u64, String)> = expected.iter().map(|(n, s)| (*n, (*s).into())).collect();
    assert_eq!(due(state), expected);
}

#[test]
fn adding_and_removing_a_webhook_has_no_other_effect() {
    given([])
        .when(set("a"))
        .then(&[hook_set(&target("a"))], &[])
        .expect_settled()
        .when(set("a"))
        .then(&[hook_set(&target("a"))], &[])
        .when(drop_hook("b"))
        .then(&[], &[])
        .when(drop_hook("a"))
        .then(&[Event::HookDropped { id: "a".into() }], &[])
        .when(drop_hook("a"))
        .then(&[], &[])
        .expect_settled();
}

#[test]
fn a_finished_task_may_have_webhooks() {
    let over = [task::closed(Final::Failed, "")];
    let case = given(over).when(set("a")).then(&[hook_set(&target("a"))], &[]).expect_settled();
    expect_due(&case.state, &[]);
    assert!(case.state.is_over());
    let case = case.when(drop_hook("a")).then(&[Event::HookDropped { id: "a".into() }], &[]);
    assert_eq!(case.state.hooks, []);
}

#[test]
fn webhooks_per_task_are_limited() {
    let case = given([hook_set(&target("a")), hook_set(&target("b"))]).with_limits(|l| l.webhooks = 2);
    case.clone().when(set("c")).refused(Refusal::HooksFull);
    case.when(set("b")).then(&[hook_set(&target("b"))], &[]);
}

#[test]
fn every_status_and_every_complete_artifact_is_due_once() {
    let edit = edit();
    let case = given([
        hook_set(&target("h")),
        prompted(1, "go"),
        began(1),
        task::text("I will"),
        task::answered(std::slice::from_ref(&edit)),
        planned(&edit),
        asked(&edit),
        Event::Paused,
        chosen(&edit, gemini_a2a::task::spec::Choice::ProceedOnce),
        task::ready(&edit),
        task::started(&edit),
        produced("a", false),
        produced("a", true),
        task::ended(&edit, task::success()),
        Event::ResultsSent,
        task::answered(&[]),
        task::turn_ended(1, End::Done),
    ]);
    expect_due(
        &case.state,
        &[
            (4, "Working"),
            (6, "answer 1.1"),
            (9, "InputRequired"),
            (10, "Working"),
            (14, "artifact a"),
            (17, "answer 1.2"),
            (18, "InputRequired at rest"),
        ],
    );
}

#[test]
fn only_plain_deliveries_contain_answers_and_0_3_deliveries_the_newest_status() {
    let events = |target: &Target| {
        given([
            hook_set(target),
            prompted(1, "go"),
            began(1),
            produced("a", true),
            task::answered(&[]),
            task::turn_ended(1, End::Done),
        ])
        .state
    };
    let coder = Target { profile: Profile::Coder, ..target("h") };
    expect_due(&events(&coder), &[(4, "Working"), (5, "artifact a"), (7, "InputRequired at rest")]);
    expect_due(&events(&v03("h")), &[(7, "InputRequired at rest")]);
}

#[test]
fn delivered_events_are_no_longer_due() {
    let case = given([hook_set(&target("h")), prompted(1, "go"), began(1), task::canceled()])
        .when(moved("h", 4))
        .then(&[hook_moved("h", 4)], &[])
        .expect_settled();
    expect_due(&case.state, &[(5, "Canceled")]);
    // Reports that are late, or about another webhook, change nothing.
    let case = case
        .when(moved("h", 4))
        .then(&[], &[])
        .when(moved("x", 5))
        .then(&[], &[])
        .when(moved("h", 5))
        .then(&[hook_moved("h", 5)], &[]);
    expect_due(&case.state, &[]);
    assert_eq!(case.state.hooks[0].sent, Seq(5));
    assert_eq!(case.state.status.state, TaskState::Canceled);
}

#[test]
fn a_suspended_webhook_receives_nothing_until_it_is_set_again() {
    let health = Health::default().after_failure("no answer", 1);
    let case = given([
        hook_set(&target("h")),
        prompted(1, "go"),
        began(1),
        task::turn_ended(1, End::Done),
        Event::HookMoved { id: "h".into(), upto: Seq(4), health: health.clone() },
        prompted(2, "more"),
        began(2),
    ]);
    expect_due(&case.state, &[]);
    assert_eq!(case.state.hooks[0].health, health);
    let case = case
        .when(set("h"))
        .then(&[hook_set(&target("h"))], &[])
        .when(Input::Cancel)
        .then(&[task::canceled()], &[task::stop(8)]);
    expect_due(&case.state, &[(10, "Canceled")]);
}

#[test]
fn pending_deliveries_move_to_the_new_url_if_the_format_is_the_same() {
    let before = [hook_set(&target("h")), prompted(1, "go"), began(1)];
    let moved = Target { url: "https://elsewhere.example/".into(), ..target("h") };
    let case = given(before.clone().into_iter().chain([hook_set(&moved)]));
    expect_due(&case.state, &[(4, "Working")]);
    assert_eq!(case.state.hooks[0].target.url, moved.url);
    let case = given(before.into_iter().chain([hook_set(&v03("h"))]));
    assert_eq!(case.state.hooks, [Hook::new(Arc::new(v03("h")), Seq(5))], "earlier deliveries are dropped");
}

#[test]
fn webhook_events_keep_their_journal_format() {
    for (event, line) in [
        (
            hook_set(&Target {
                token: Some(Secret::new("t")),
                schemes: vec!["Bearer".into()],
                credentials: Some(Secret::new("s")),
                ..target("h")
            }),
            r#"{"hook_set":{"target":{"id":"h","url":"https://client.example/a2a","token":"t","schemes":["Bearer"],"credentials":"s","protocol":"1.0","profile":"plain"}}}"#,
        ),
        (Event::HookDropped { id: "h".into() }, r#"{"hook_dropped":{"id":"h"}}"#),
        (
            Event::HookMoved { id: "h".into(), upto: Seq(7), health: Health::default().after_failure("no", 9) },
            r#"{"hook_moved":{"id":"h","upto":7,"health":{"delivered":0,"failed":1,"streak":1,"suspended":false,"error":"no"}}}"#,
        ),
    ] {
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
        assert_eq!(serde_json::from_str::<Event>(line).unwrap(), event);
        let mut journal = Vec::new();
        let record = Record { seq: Seq(1), at: 1, event: event.clone() };
        record.write(&mut journal);
        assert_eq!(Record::read(journal.trim_ascii_end()).unwrap(), record);
        let shown = serde_json::to_string(&event.without_secrets()).unwrap();
        assert!(!shown.contains(r#":"t""#) && !shown.contains(r#":"s""#), "{shown}");
    }
    let other = created(gemini_a2a::task::log::event::Lifecycle::OneShot);
    assert_eq!(other.without_secrets().into_owned(), other);
}
