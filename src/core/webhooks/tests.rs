//! Webhooks of tasks, with a receiver that these tests play.

mod removal;
mod shared_store;

use super::*;
use crate::a2a::{Dialect, Switches};
use crate::base::secret::Secret;
use crate::core::disk::store::{Archive, Openness, Store};
use crate::core::test_core::TestCore;
use crate::core::test_core::core_harness::failing_store::Failure;
use crate::limits::Times;
use crate::task::call::Call;
use crate::task::machine::job::NoteBody;
use crate::task::message::{Artifact, Part};
use crate::task::push::WebhookCounts;
use serde_json::{Value, json};

impl PartialEq for Delivery {
    fn eq(&self, other: &Delivery) -> bool {
        let parts = |delivery: &Delivery| {
            let Delivery { task, hook, seq, url, headers, .. } = delivery.clone();
            (task, hook, seq, url, headers, delivery.body())
        };
        parts(self) == parts(other)
    }
}

impl TestCore {
    fn push(&mut self, task: &TaskId, ask: Push) -> Value {
        let task = task.clone();
        self.ask(Dialect::REST_10, Call::Push { task, ask })
    }

    /// The one delivery that is in flight.
    fn take_delivery(&mut self) -> Delivery {
        assert_eq!(self.sent.len(), 1, "{:?}", self.sent);
        self.sent.remove(0)
    }

    fn answer(&mut self, delivery: &Delivery, result: Result<(), DeliveryError>) {
        let Delivery { task, hook, seq, .. } = delivery;
        self.core.delivered(task, hook, *seq, result, self.now);
        self.turns();
    }

    fn health(&self, task: &TaskId) -> &Health {
        &self.state(task).hooks[0].health
    }

    /// Delivers everything that is due to all webhooks.
    fn drain_all(&mut self) {
        while !self.sent.is_empty() {
            let delivery = self.sent.remove(0);
            self.answer(&delivery, Ok(()));
        }
    }

    /// Delivers everything that is due to the only webhook. Returns the position and a summary of each event.
    fn drain(&mut self) -> Vec<(u64, String)> {
        let mut delivered = Vec::new();
        while !self.sent.is_empty() {
            let delivery = self.take_delivery();
            delivered.push((delivery.seq.0, summary(&delivery)));
            self.answer(&delivery, Ok(()));
        }
        delivered
    }
}

fn wish(id: Option<&str>) -> Wish {
    Wish {
        id: id.map(Into::into),
        url: "https://client.example/a2a".into(),
        token: Some(Secret::new("tok")),
        schemes: vec!["Bearer".into()],
        credentials: Some(Secret::new("s3cret")),
    }
}

/// The state or the artifact that a delivery shows.
fn summary(delivery: &Delivery) -> String {
    let body: Value = serde_json::from_slice(&delivery.body().expect("a body")).expect("JSON");
    let state = |status: &Value| status["state"].as_str().expect("a state").to_owned();
    if let Some(update) = body.get("statusUpdate") {
        state(&update["status"])
    } else if let Some(update) = body.get("artifactUpdate") {
        let (id, last) = (&update["artifact"]["artifactId"], &update["lastChunk"]);
        format!("{}{}", id.as_str().expect("an id"), if *last == json!(true) { " whole" } else { "" })
    } else {
        format!("task {}", state(&body["status"]))
    }
}

fn temporary_failure() -> DeliveryError {
    DeliveryError { retry: Retry::Again { after_ms: None }, message: "status 500".into() }
}

fn permanent_failure() -> DeliveryError {
    DeliveryError { retry: Retry::Never, message: "status 404".into() }
}

#[test]
fn a_1_0_receiver_gets_every_event_in_order() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    let first = test.take_delivery();
    let state = test.state(&task);
    assert_eq!(first.seq, state.status.seq, "the turn's begin is not missed");
    assert_eq!(first.url, "https://client.example/a2a");
    let names: Vec<_> = first.headers.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["Content-Type", "A2A-Version", "X-A2A-Event-Id", "Authorization", "X-A2A-Notification-Token"]);
    assert!(first.headers.contains(&("X-A2A-Event-Id", format!("{task}:{}", first.seq))));
    assert!(!format!("{first:?}").contains("s3cret"));
    // More events follow while the first delivery is in flight.
    test.note(NoteBody::Produced {
        artifact: Artifact { id: "a".into(), name: None, description: None, parts: vec![Part::text("x")] },
        append: false,
        last: true,
    });
    test.end_turn();
    assert_eq!(test.sent, [], "one at a time");
    test.answer(&first, Ok(()));
    let delivered: Vec<String> = test.drain().into_iter().map(|(_, what)| what).collect();
    assert_eq!(delivered, ["a whole", "answer-1 whole", "TASK_STATE_INPUT_REQUIRED"]);
    test.cancel(&task);
    let delivered: Vec<String> = test.drain().into_iter().map(|(_, what)| what).collect();
    assert_eq!(delivered, ["TASK_STATE_CANCELED"]);
    assert_eq!(test.health(&task).delivered, 5);
    assert!(test.core.tasks[&task].can_be_unloaded());
}

#[test]
fn a_0_3_receiver_gets_the_present_state_of_the_task() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::RPC_03, Some(wish(None)));
    let first = test.take_delivery();
    assert_eq!(first.hook.as_str(), task.as_str());
    assert_eq!(summary(&first), "task working");
    test.end_turn();
    test.say(&task);
    test.cancel(&task);
    test.answer(&first, Ok(()));
    let delivered: Vec<String> = test.drain().into_iter().map(|(_, what)| what).collect();
    assert_eq!(delivered, ["task canceled"], "what came between is part of it");
    assert_eq!(test.health(&task).delivered, 2);
}

#[test]
fn attempts_are_spaced_and_limited() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    let first = test.take_delivery();
    let mut delivery = first.clone();
    for usual in [1_000, 2_000, 4_000, 8_000, 16_000] {
        test.answer(&delivery, Err(temporary_failure()));
        test.later(usual * 8 / 10 - 1);
        assert_eq!(test.sent, [], "not before {usual} ms less a fifth");
        test.later(usual * 4 / 10 + 1);
        delivery = test.take_delivery();
        assert_eq!(delivery, first, "the same event with the same id");
    }
    test.answer(&delivery, Err(temporary_failure()));
    assert_eq!(*test.health(&task), Health::default().after_failure("status 500", 10));
    // The next event has its own attempts.
    test.cancel(&task);
    let next = test.take_delivery();
    test.answer(&next, Err(temporary_failure()));
    test.later(1_200);
    let retried = test.take_delivery();
    assert_eq!(retried, next);
    test.answer(&retried, Ok(()));
    assert_eq!(test.health(&task).streak, 0);
}

#[test]
fn an_event_that_replaces_a_failed_one_has_its_own_attempts() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::RPC_03, Some(wish(None)));
    for _ in 1..test.limits.webhook_retries {
        let delivery = test.take_delivery();
        test.answer(&delivery, Err(temporary_failure()));
        test.later(20_000);
    }
    let delivery = test.take_delivery();
    test.answer(&delivery, Err(temporary_failure()));
    // One attempt is left when the task ends.
    test.cancel(&task);
    test.later(20_000);
    for _ in 0..=test.limits.webhook_retries {
        let delivery = test.take_delivery();
        assert_eq!(summary(&delivery), "task canceled");
        test.answer(&delivery, Err(temporary_failure()));
        test.later(20_000);
    }
    assert_eq!(test.sent, []);
}

#[test]
fn a_retry_waits_as_long_as_the_receiver_asks_within_limits() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    for (asked, waits) in [(30_000, 30_000), (3_600_000, 60_000)] {
        let delivery = test.take_delivery();
        let busy = DeliveryError { retry: Retry::Again { after_ms: Some(asked) }, message: "status 429".into() };
        test.answer(&delivery, Err(busy));
        test.later(waits - 1);
        assert_eq!(test.sent, []);
        test.later(1);
    }
    let delivery = test.take_delivery();
    // An event that the receiver refuses permanently is not sent again; the next event is.
    test.answer(&delivery, Err(permanent_failure()));
    assert_eq!(test.health(&task).failed, 1);
    test.cancel(&task);
    assert_eq!(summary(&test.take_delivery()), "TASK_STATE_CANCELED");
}

#[test]
fn a_webhook_that_fails_repeatedly_is_suspended_until_it_is_set_again() {
    let limits = Limits { webhook_failures: 3, ..Limits::default() };
    let mut test = TestCore::with(limits, Switches::default());
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.end_turn();
    for _ in 0..3 {
        let delivery = test.take_delivery();
        test.answer(&delivery, Err(permanent_failure()));
    }
    assert!(test.health(&task).suspended);
    assert_eq!(WebhookCounts::of(test.core.tasks.values().flat_map(|loaded| &loaded.state.hooks)).suspended, 1);
    assert_eq!(
        test.notices,
        [
            format!("webhook h of task {task}: an event was not delivered: status 404"),
            format!(
                "webhook h of task {task} is suspended until it is set again: 3 events in a row were not delivered; the last: status 404"
            ),
        ]
    );
    test.say(&task);
    test.end_turn();
    assert_eq!(test.sent, []);
    assert!(test.core.tasks[&task].can_be_unloaded());
    let listed = test.push(&task, Push::List);
    assert_eq!(listed["configs"][0]["id"], "h", "it is kept");
    test.push(&task, Push::Set(wish(Some("h"))));
    assert_eq!(test.sent, [], "only later events are delivered");
    test.cancel(&task);
    assert_eq!(summary(&test.take_delivery()), "TASK_STATE_CANCELED");
    assert_eq!(*test.health(&task), Health::default());
}

#[test]
fn a_restarted_server_continues_the_deliveries() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.end_turn();
    test.cancel(&task);
    let first = test.take_delivery();
    test.answer(&first, Ok(()));
    let second = test.take_delivery();
    // The second delivery arrived, and the server died before it recorded that.
    test.restart();
    assert!(test.core.tasks.is_loaded(&task), "it is loaded by itself");
    let repeated = test.take_delivery();
    assert_eq!(repeated, second);
    test.answer(&repeated, Ok(()));
    let delivered: Vec<String> = test.drain().into_iter().map(|(_, what)| what).collect();
    assert_eq!(delivered, ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED"]);
    // When nothing is due, the next start does not load the task.
    test.restart();
    assert!(!test.core.tasks.is_loaded(&task));
    assert_eq!(test.sent, []);
}

#[test]
fn nothing_is_delivered_before_it_is_on_disk() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.drain();
    test.store.fail(Failure::Refused, 1);
    let by = Input::Cancel;
    let _ = test.core.drive(&task, by, test.now);
    test.turns();
    assert_eq!(test.sent, []);
    test.later(test.limits.store_retry_ms);
    assert_eq!(summary(&test.take_delivery()), "TASK_STATE_CANCELED");
}

#[test]
fn a_webhook_that_is_deleted_during_a_delivery_gets_no_more() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    let first = test.take_delivery();
    for _ in 0..2 {
        assert_eq!(test.push(&task, Push::Delete("h".into())), json!({}));
    }
    test.answer(&first, Err(temporary_failure()));
    test.end_turn();
    test.later(60_000);
    assert_eq!(test.sent, []);
    assert_eq!(test.state(&task).hooks, []);
    // The webhook is set again while a delivery to the old one is in flight: there is still only one at a time.
    test.push(&task, Push::Set(wish(Some("h"))));
    test.say(&task);
    let old = test.take_delivery();
    test.push(&task, Push::Delete("h".into()));
    test.push(&task, Push::Set(wish(Some("h"))));
    test.cancel(&task);
    assert_eq!(test.sent, []);
    test.answer(&old, Ok(()));
    assert_eq!(summary(&test.take_delivery()), "TASK_STATE_CANCELED");
}

#[test]
fn a_webhook_that_is_set_again_during_a_delivery_gets_the_event_at_its_new_url() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    let first = test.take_delivery();
    let moved = |n: u32| Wish { url: format!("https://client.example/{n}"), ..wish(Some("h")) };
    test.push(&task, Push::Set(moved(1)));
    assert_eq!(test.sent, [], "one at a time");
    test.answer(&first, Ok(()));
    let second = test.take_delivery();
    assert_eq!((second.seq, second.url.as_str()), (first.seq, "https://client.example/1"));
    // The pause after a failure ends when the URL changes, and the new URL has all its attempts.
    test.answer(&second, Err(temporary_failure()));
    assert_eq!(test.sent, []);
    test.push(&task, Push::Set(moved(2)));
    for _ in 0..=test.limits.webhook_retries {
        let delivery = test.take_delivery();
        assert_eq!(delivery.url, "https://client.example/2");
        assert_eq!(test.health(&task).failed, 0);
        test.answer(&delivery, Err(temporary_failure()));
        test.later(60_000);
    }
    assert_eq!(test.health(&task).failed, 1);
}

#[test]
fn webhooks_are_found_by_their_ids() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, None);
    let made = test.push(&task, Push::Set(wish(None)));
    let id = made["id"].as_str().expect("an id").to_owned();
    assert_eq!(id.len(), 36, "a fresh one");
    assert_eq!(made["taskId"], task.as_str());
    assert_eq!(test.push(&task, Push::Get(Some(id.as_str().into()))), made);
    let unknown = test.push(&task, Push::Get(Some("x".into())));
    assert!(unknown.get("error").is_some(), "{unknown}");
    let old = test.ask(Dialect::RPC_03, Call::Push { task: task.clone(), ask: Push::Set(wish(None)) });
    assert_eq!(old["result"]["pushNotificationConfig"]["id"], task.as_str());
    for named in [Some("default"), Some(task.as_str()), None] {
        let ask = Push::Get(named.map(Into::into));
        let task = task.clone();
        let found = test.ask(Dialect::RPC_03, Call::Push { task, ask });
        assert_eq!(found["result"], old["result"], "{named:?}");
    }
    let all = test.push(&task, Push::List);
    assert_eq!(all["configs"].as_array().map(Vec::len), Some(2));
    test.push(&task, Push::Delete("default".into()));
    let all = test.push(&task, Push::List);
    assert_eq!(all["configs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn webhooks_per_task_and_registrations_per_minute_are_limited() {
    let limits = Limits { webhooks: 2, webhooks_per_minute: 4, ..Limits::default() };
    let mut test = TestCore::with(limits, Switches::default());
    let task = test.begin(Dialect::REST_10, None);
    for (id, fine) in [("a", true), ("b", true), ("c", false), ("b", true), ("a", false)] {
        let answer = test.push(&task, Push::Set(wish(Some(id))));
        assert_eq!(answer.get("error").is_none(), fine, "{id}: {answer}");
    }
    test.later(60_000);
    let answer = test.push(&task, Push::Set(wish(Some("a"))));
    assert_eq!(answer["id"], "a");
}

#[test]
fn a_server_without_webhooks_refuses_them() {
    let off = Switches { push: false, ..Switches::default() };
    let mut test = TestCore::with(Limits::default(), off);
    let task = test.begin(Dialect::RPC_03, None);
    for ask in [Push::Set(wish(None)), Push::Get(None), Push::List, Push::Delete("x".into())] {
        let task = task.clone();
        let answer = test.ask(Dialect::RPC_03, Call::Push { task, ask });
        assert_eq!(answer["error"]["code"], -32003);
    }
}

#[test]
fn shutdown_waits_for_deliveries_in_flight_and_retries_none() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.drain();
    test.cancel(&task);
    test.note(NoteBody::Died("stopped".into()));
    let last = test.take_delivery();
    test.core.shut_down(test.now);
    test.turns();
    assert!(!test.core.is_over(), "a delivery is in flight");
    test.answer(&last, Err(temporary_failure()));
    test.turns();
    assert!(test.core.is_over());
    assert_eq!(test.sent, []);
    // The next server delivers it.
    test.restart();
    assert_eq!(test.take_delivery(), last);
}
