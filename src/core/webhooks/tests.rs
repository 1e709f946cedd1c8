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

    /// The one delivery that is on its way.
    fn taken(&mut self) -> Delivery {
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

    /// Delivers everything there is, to whomever.
    fn drain_all(&mut self) {
        while !self.sent.is_empty() {
            let delivery = self.sent.remove(0);
            self.answer(&delivery, Ok(()));
        }
    }

    /// Delivers everything there is; gives the states and artifacts that were told, with their events.
    fn drain(&mut self) -> Vec<(u64, String)> {
        let mut told = Vec::new();
        while !self.sent.is_empty() {
            let delivery = self.taken();
            told.push((delivery.seq.0, gist(&delivery)));
            self.answer(&delivery, Ok(()));
        }
        told
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

fn gist(delivery: &Delivery) -> String {
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

fn again() -> DeliveryError {
    DeliveryError { retry: Retry::Again { after_ms: None }, message: "status 500".into() }
}

fn never() -> DeliveryError {
    DeliveryError { retry: Retry::Never, message: "status 404".into() }
}

#[test]
fn a_1_0_receiver_is_told_everything_in_order() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    let first = test.taken();
    let state = test.state(&task);
    assert_eq!(first.seq, state.status.seq, "the turn's begin is not missed");
    assert_eq!(first.url, "https://client.example/a2a");
    let names: Vec<_> = first.headers.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["Content-Type", "A2A-Version", "X-A2A-Event-Id", "Authorization", "X-A2A-Notification-Token"]);
    assert!(first.headers.contains(&("X-A2A-Event-Id", format!("{task}:{}", first.seq))));
    assert!(!format!("{first:?}").contains("s3cret"));
    // Things happen while the first is on its way.
    test.note(NoteBody::Produced {
        artifact: Artifact { id: "a".into(), name: None, description: None, parts: vec![Part::text("x")] },
        append: false,
        last: true,
    });
    test.end_turn();
    assert_eq!(test.sent, [], "one at a time");
    test.answer(&first, Ok(()));
    let told: Vec<String> = test.drain().into_iter().map(|(_, what)| what).collect();
    assert_eq!(told, ["a whole", "answer-1 whole", "TASK_STATE_INPUT_REQUIRED"]);
    test.cancel(&task);
    let told: Vec<String> = test.drain().into_iter().map(|(_, what)| what).collect();
    assert_eq!(told, ["TASK_STATE_CANCELED"]);
    assert_eq!(test.health(&task).delivered, 5);
    assert!(test.core.tasks[&task].can_leave());
}

#[test]
fn a_0_3_receiver_is_told_how_things_are() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::RPC_03, Some(wish(None)));
    let first = test.taken();
    assert_eq!(first.hook.as_str(), task.as_str());
    assert_eq!(gist(&first), "task working");
    test.end_turn();
    test.say(&task);
    test.cancel(&task);
    test.answer(&first, Ok(()));
    let told: Vec<String> = test.drain().into_iter().map(|(_, what)| what).collect();
    assert_eq!(told, ["task canceled"], "what came between is part of it");
    assert_eq!(test.health(&task).delivered, 2);
}

#[test]
fn tries_are_spaced_and_end() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    let first = test.taken();
    let mut delivery = first.clone();
    for usual in [1_000, 2_000, 4_000, 8_000, 16_000] {
        test.answer(&delivery, Err(again()));
        test.later(usual * 8 / 10 - 1);
        assert_eq!(test.sent, [], "not before {usual} ms less a fifth");
        test.later(usual * 4 / 10 + 1);
        delivery = test.taken();
        assert_eq!(delivery, first, "the same under the same id");
    }
    test.answer(&delivery, Err(again()));
    assert_eq!(*test.health(&task), Health::default().after_failure("status 500", 10));
    // The next one has its own tries.
    test.cancel(&task);
    let next = test.taken();
    test.answer(&next, Err(again()));
    test.later(1_200);
    let retried = test.taken();
    assert_eq!(retried, next);
    test.answer(&retried, Ok(()));
    assert_eq!(test.health(&task).streak, 0);
}

#[test]
fn what_takes_the_place_of_something_that_failed_has_its_own_tries() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::RPC_03, Some(wish(None)));
    for _ in 1..test.limits.webhook_retries {
        let delivery = test.taken();
        test.answer(&delivery, Err(again()));
        test.later(20_000);
    }
    let delivery = test.taken();
    test.answer(&delivery, Err(again()));
    // One try is left when the task comes to its end.
    test.cancel(&task);
    test.later(20_000);
    for _ in 0..=test.limits.webhook_retries {
        let delivery = test.taken();
        assert_eq!(gist(&delivery), "task canceled");
        test.answer(&delivery, Err(again()));
        test.later(20_000);
    }
    assert_eq!(test.sent, []);
}

#[test]
fn a_receiver_that_asks_for_patience_gets_some() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    for (asked, waits) in [(30_000, 30_000), (3_600_000, 60_000)] {
        let delivery = test.taken();
        let patience = DeliveryError { retry: Retry::Again { after_ms: Some(asked) }, message: "status 429".into() };
        test.answer(&delivery, Err(patience));
        test.later(waits - 1);
        assert_eq!(test.sent, []);
        test.later(1);
    }
    let delivery = test.taken();
    // One that does not want this event is not asked again, and gets the next one.
    test.answer(&delivery, Err(never()));
    assert_eq!(test.health(&task).failed, 1);
    test.cancel(&task);
    assert_eq!(gist(&test.taken()), "TASK_STATE_CANCELED");
}

#[test]
fn a_dead_receiver_is_left_alone_until_it_is_set_again() {
    let limits = Limits { webhook_failures: 3, ..Limits::default() };
    let mut test = TestCore::with(limits, Switches::default());
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.end_turn();
    for _ in 0..3 {
        let delivery = test.taken();
        test.answer(&delivery, Err(never()));
    }
    assert!(test.health(&task).suspended);
    assert_eq!(WebhookCounts::of(test.core.tasks.values().flat_map(|loaded| &loaded.state.hooks)).suspended, 1);
    assert_eq!(
        test.notices,
        [
            format!("webhook h of task {task} was not told of an event: status 404"),
            format!(
                "webhook h of task {task} is left alone until it is set again: 3 events in a row were not delivered; the last: status 404"
            ),
        ]
    );
    test.say(&task);
    test.end_turn();
    assert_eq!(test.sent, []);
    assert!(test.core.tasks[&task].can_leave());
    let listed = test.push(&task, Push::List);
    assert_eq!(listed["configs"][0]["id"], "h", "it is kept");
    test.push(&task, Push::Set(wish(Some("h"))));
    assert_eq!(test.sent, [], "it is told of what comes");
    test.cancel(&task);
    assert_eq!(gist(&test.taken()), "TASK_STATE_CANCELED");
    assert_eq!(*test.health(&task), Health::default());
}

#[test]
fn a_restarted_server_goes_on_where_the_old_one_was() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.end_turn();
    test.cancel(&task);
    let first = test.taken();
    test.answer(&first, Ok(()));
    let second = test.taken();
    // It arrived, but nobody wrote that down.
    test.restart();
    assert!(test.core.tasks.is_loaded(&task), "it is loaded by itself");
    let repeated = test.taken();
    assert_eq!(repeated, second);
    test.answer(&repeated, Ok(()));
    let told: Vec<String> = test.drain().into_iter().map(|(_, what)| what).collect();
    assert_eq!(told, ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED"]);
    // With nothing left to tell, the next start has no need to look at it.
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
    assert_eq!(gist(&test.taken()), "TASK_STATE_CANCELED");
}

#[test]
fn a_webhook_that_is_deleted_during_a_delivery_gets_no_more() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    let first = test.taken();
    for _ in 0..2 {
        assert_eq!(test.push(&task, Push::Delete("h".into())), json!({}));
    }
    test.answer(&first, Err(again()));
    test.end_turn();
    test.later(60_000);
    assert_eq!(test.sent, []);
    assert_eq!(test.state(&task).hooks, []);
    // Set anew while the old one's delivery is on its way: there is still only one at a time.
    test.push(&task, Push::Set(wish(Some("h"))));
    test.say(&task);
    let old = test.taken();
    test.push(&task, Push::Delete("h".into()));
    test.push(&task, Push::Set(wish(Some("h"))));
    test.cancel(&task);
    assert_eq!(test.sent, []);
    test.answer(&old, Ok(()));
    assert_eq!(gist(&test.taken()), "TASK_STATE_CANCELED");
}

#[test]
fn a_webhook_that_is_set_again_during_a_delivery_gets_the_event_at_its_new_url() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    let first = test.taken();
    let moved = |n: u32| Wish { url: format!("https://client.example/{n}"), ..wish(Some("h")) };
    test.push(&task, Push::Set(moved(1)));
    assert_eq!(test.sent, [], "one at a time");
    test.answer(&first, Ok(()));
    let second = test.taken();
    assert_eq!((second.seq, second.url.as_str()), (first.seq, "https://client.example/1"));
    // One that waits after a failure does not wait for the new place, which has all its tries.
    test.answer(&second, Err(again()));
    assert_eq!(test.sent, []);
    test.push(&task, Push::Set(moved(2)));
    for _ in 0..=test.limits.webhook_retries {
        let delivery = test.taken();
        assert_eq!(delivery.url, "https://client.example/2");
        assert_eq!(test.health(&task).failed, 0);
        test.answer(&delivery, Err(again()));
        test.later(60_000);
    }
    assert_eq!(test.health(&task).failed, 1);
}

#[test]
fn webhooks_are_asked_for_by_their_names() {
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
fn a_task_has_so_many_webhooks_and_a_minute_so_many_registrations() {
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
fn ending_waits_for_what_is_on_its_way_and_tries_nothing_twice() {
    let mut test = TestCore::new();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.drain();
    test.cancel(&task);
    test.note(NoteBody::Died("stopped".into()));
    let last = test.taken();
    test.core.shut_down(test.now);
    test.turns();
    assert!(!test.core.is_over(), "the last word is on its way");
    test.answer(&last, Err(again()));
    test.turns();
    assert!(test.core.is_over());
    assert_eq!(test.sent, []);
    // The next server tells it.
    test.restart();
    assert_eq!(test.taken(), last);
}

/// A second after a task is over it may be forgotten.
fn forgetful() -> TestCore {
    let times = Times { retention_ms: Some(1_000), ..Times::default() };
    let limits = Limits { times, expiry_retry_ms: 5_000, ..Limits::default() };
    TestCore::with(limits, Switches::default())
}

impl TestCore {
    /// Whether the task is there, in the lists and on disk.
    fn remembers(&self, task: &TaskId) -> bool {
        let known = self.core.tasks.known.get(task).is_some();
        assert_eq!(known, !self.store.bytes(task).is_empty());
        known
    }
}

#[test]
fn a_task_is_not_forgotten_before_its_webhooks_know() {
    let mut test = forgetful();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.drain();
    test.cancel(&task);
    test.note(NoteBody::Died("stopped".into()));
    let mut last = test.taken();
    // On its way for longer than the task is kept, and tried again after that.
    test.later(20_000);
    test.answer(&last, Err(again()));
    test.later(2_000);
    last = test.taken();
    assert!(test.remembers(&task));
    test.answer(&last, Ok(()));
    assert!(test.remembers(&task), "until the next look");
    test.later(5_000);
    assert!(!test.remembers(&task));
    assert_eq!(test.sent, []);
}

#[test]
fn a_receiver_that_never_answers_keeps_a_task_for_its_tries_and_no_longer() {
    let mut test = forgetful();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.drain();
    test.cancel(&task);
    test.note(NoteBody::Died("stopped".into()));
    for _ in 0..=test.limits.webhook_retries {
        let delivery = test.taken();
        assert!(test.remembers(&task));
        test.answer(&delivery, Err(again()));
        test.later(60_000);
    }
    assert!(!test.remembers(&task));
    assert_eq!(test.sent, []);
}

#[test]
fn what_was_owed_when_the_server_died_is_owed_although_its_time_is_over() {
    let mut test = forgetful();
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.drain();
    test.cancel(&task);
    let last = test.taken();
    test.now.unix_ms += 1_000_000;
    test.now.mono_ms += 1_000_000;
    test.restart();
    assert_eq!(test.taken(), last);
    test.answer(&last, Ok(()));
    test.later(5_000);
    assert!(!test.remembers(&task));
}

#[test]
fn a_task_that_another_server_left_open_is_looked_at_before_it_is_forgotten() {
    let mut test = forgetful();
    let task = test.begin(Dialect::REST_10, None);
    test.cancel(&task);
    test.restart();
    assert!(!test.core.tasks.is_loaded(&task));
    // Another server has had it since, and died.
    test.store.append(&task, b"", Openness::Open).expect("a disk");
    test.later(2_000);
    assert!(test.core.tasks.is_loaded(&task), "it owes nothing after all");
    assert!(!test.store.known().iter().any(|known| known.open), "and that was written down");
    test.later(5_000);
    assert!(!test.remembers(&task));
}

#[test]
fn a_full_server_restores_open_tasks_one_after_the_other() {
    let mut test = TestCore::new();
    let tasks: Vec<TaskId> = (0..3).map(|_| test.begin(Dialect::REST_10, Some(wish(Some("h"))))).collect();
    test.drain_all();
    for task in &tasks {
        test.cancel(task);
    }
    test.limits.tasks = 1;
    test.restart();
    let mut told: Vec<TaskId> = Vec::new();
    while !test.sent.is_empty() {
        let delivery = test.taken();
        told.push(delivery.task.clone());
        test.answer(&delivery, Ok(()));
    }
    assert_eq!(told, tasks);
}

#[test]
fn who_only_follows_a_task_of_another_instance_delivers_nothing() {
    use crate::core::disk::request::SharedAnswer;
    use crate::core::test_core::core_harness;
    use crate::task::log::event::{End, Event};
    use crate::task::log::ownership::Owned;
    use crate::task::log::record::Record;
    let share = |setup: &mut crate::core::Setup| core_harness::share(setup, "a");
    let mut test = TestCore::changed(Default::default(), Switches::default(), share);
    test.flushes = true;
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.turns();
    let first = test.taken();
    test.answer(&first, Ok(()));
    test.end_turn();
    test.drain();
    // Another instance continues the task, and its next turn ends.
    let seq = test.state(&task).seq;
    let owned = Event::Owned(std::sync::Arc::new(Owned { instance: "b".into(), epoch: 2, url: None }));
    let message = std::sync::Arc::new(crate::task::message::Message::new(
        "n",
        crate::task::message::Role::User,
        vec![Part::text("more")],
    ));
    let by = crate::task::message::Source::clock();
    let prompted = Event::Prompted { message, by, turn: 2, delivery: Default::default() };
    let ended = Event::TurnEnded { turn: 2, end: End::Done, by: None };
    let mut lines = Vec::new();
    for (n, event) in [owned, prompted, Event::TurnBegan { turn: 2 }, ended].into_iter().enumerate() {
        Record { seq: Seq(seq.0 + 1 + n as u64), at: 2, event }.write(&mut lines);
    }
    let followed = SharedAnswer::Followed { task: task.clone(), lines: Ok(lines) };
    test.core.input(crate::core::Input::Shared(followed), test.now);
    test.turns();
    assert!(!test.state(&task).hooks[0].due.is_empty(), "its owner has to tell the webhook");
    assert_eq!(test.sent, []);
}

#[test]
fn who_takes_a_task_of_a_dead_instance_over_tells_its_webhook_once() {
    use crate::core::disk::request::SharedAnswer;
    use crate::core::test_core::core_harness;
    let mut test = TestCore::changed(Default::default(), Switches::default(), |setup| core_harness::share(setup, "a"));
    test.flushes = true;
    test.store.share(true);
    let task = test.begin(Dialect::REST_10, Some(wish(Some("h"))));
    test.drain();
    // The other one knows no task before it has scanned.
    let mut setup = core_harness::setup(test.limits.clone(), Switches::default(), test.now);
    core_harness::share(&mut setup, "b");
    test.core = Core::new(setup);
    test.jobs.clear();
    test.core.input(crate::core::Input::Listed(Vec::new()), test.now);
    test.turns();
    assert_eq!(test.sent, []);
    // The scan of the new instance claims it, twice if an answer is lost.
    for _ in 0..2 {
        let scanned = SharedAnswer::Scanned(Ok(vec![task.clone()]));
        test.core.input(crate::core::Input::Shared(scanned), test.now);
        test.turns();
    }
    let told: Vec<String> = test.drain().into_iter().map(|(_, what)| what).collect();
    assert_eq!(told, ["TASK_STATE_INPUT_REQUIRED"]);
    assert!(test.state(&task).hooks[0].due.is_empty());
}
