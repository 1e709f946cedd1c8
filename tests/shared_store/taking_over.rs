//! Instances that are killed, suspended or cut off from the store, and stores that cannot be used.

use super::client::{End, Next};
use super::client::{ask, contents, follow, get, number, whole, without_waiting};
use super::fake_gcs::{FakeGcs, Link};
use super::gcs_api::{Operation, Preconditions};
use super::instance::{Cluster, Instance, has_line};
use super::log;
use crate::support::fake::FakeGemini;
use crate::support::message::{approval, call_of, call_status_of, prompt_in, state_of};
use crate::support::{PATIENCE, eventually};
use gemini_a2a::shell::children::procfs;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};

/// A unique argument for `sleep`.
fn unique_seconds() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("8{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether a process that has not ended has this argument.
fn is_running(argument: &str) -> bool {
    let is_named = |pid: u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
    };
    procfs::pids().any(|pid| is_named(pid) && procfs::stat(pid).is_some_and(|stat| !stat.has_ended))
}

/// Starts a long command on an instance. Returns the task and the argument of the command's `sleep`.
fn begin_command(cluster: &Cluster, instance: &Instance) -> (String, String) {
    let seconds = unique_seconds();
    let (task, call) = ask(instance, &format!("SHELL echo began >> runs.txt; sleep {seconds} ;; TEXT Finished."));
    instance.client().call("message/send", without_waiting(approval(&task, &call, "proceed_once")));
    let file = cluster.path("workspace", "runs.txt");
    eventually("the command runs", || (has_line(&file, "began") && is_running(&seconds)).then_some(()));
    (task, seconds)
}

/// Waits until an instance shows the interruption of the task's only call, and checks that the call is not repeated.
fn expect_interruption(cluster: &Cluster, instance: &Instance, task: &str) {
    eventually("the task is interrupted", || (state_of(&get(instance, task)) == Some("input-required")).then_some(()));
    let events = whole(instance, task);
    let ends: Vec<_> = events
        .iter()
        .filter(|event| ["success", "error", "cancelled"].contains(&call_status_of(event.result())))
        .map(|event| call_of(event.result())["response"]["errorType"].clone())
        .collect();
    assert_eq!(ends, [json!("interrupted")]);
    let log = log::read(&cluster.store, task);
    assert_eq!(log::starts(&log).into_values().collect::<Vec<_>>(), [1]);
    assert_eq!(log::owners(&log).len(), 2);
    assert_eq!(cluster.lines("runs.txt", "began"), 1);
}

#[test]
fn the_task_of_a_killed_instance_is_interrupted_by_another_one() {
    let cluster = Cluster::new();
    let [mut a, b] = cluster.pair();
    let (task, _) = begin_command(&cluster, &a);
    let mut followed = vec![];
    let before = whole_so_far(&b, &task);
    a.kill();
    // A client that follows the task on `b` receives the rest.
    let end = follow(&b.url(), &task, before.last().map_or(0, number), PATIENCE, |event| {
        followed.push(event);
        Next::Continue
    });
    assert_eq!(end, End::Whole);
    expect_interruption(&cluster, &b, &task);
    let all: Vec<_> = before.into_iter().chain(followed).collect();
    assert_eq!(contents(&all), contents(&whole(&b, &task)));
    b.client().call("message/send", prompt_in(&task, "TEXT Going on."));
    a.restart();
    assert_eq!(get(&a, &task), get(&b, &task));
    assert_eq!(cluster.lines("runs.txt", "began"), 1);
}

/// The events of a task at work up to the running call.
fn whole_so_far(instance: &Instance, task: &str) -> Vec<crate::support::client::Event> {
    let mut events = vec![];
    let end = follow(&instance.url(), task, 0, PATIENCE, |event| {
        let is_running = call_status_of(event.result()) == "executing";
        events.push(event);
        if is_running { Next::Stop } else { Next::Continue }
    });
    assert_eq!(end, End::Stopped);
    events
}

#[test]
fn the_task_of_an_instance_that_is_restarted_at_once_is_interrupted() {
    let cluster = Cluster::new();
    let [mut a, b] = cluster.pair();
    let (task, seconds) = begin_command(&cluster, &a);
    a.restart();
    expect_interruption(&cluster, &b, &task);
    assert_eq!(get(&a, &task), get(&b, &task));
    eventually("the command has ended", || (!is_running(&seconds)).then_some(()));
}

#[test]
fn a_paused_instance_is_fenced_when_it_continues() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let (task, seconds) = begin_command(&cluster, &a);
    a.pause();
    expect_interruption(&cluster, &b, &task);
    b.client().call("message/send", prompt_in(&task, "TEXT Continued elsewhere."));
    let log = log::read(&cluster.store, &task);
    a.resume();
    eventually("the command has ended", || (!is_running(&seconds)).then_some(()));
    // Until the instance has reached the store again, it answers that it cannot show the task.
    let shown = get(&b, &task);
    eventually("`a` shows the task as `b` does", || {
        (a.client().rpc("tasks/get", json!({ "id": task }))["result"] == shown).then_some(())
    });
    assert_eq!(contents(&whole(&a, &task)), contents(&whole(&b, &task)));
    assert_eq!(log::read(&cluster.store, &task), log, "the fenced instance has written nothing");
}

#[test]
fn an_instance_that_is_cut_off_from_the_store_ends_its_tools() {
    for link in [Link::Refused, Link::Silent] {
        let cluster = Cluster::new();
        let [a, b] = cluster.pair();
        let (task, seconds) = begin_command(&cluster, &a);
        a.front.set_link(link);
        eventually("the command has ended", || (!is_running(&seconds)).then_some(()));
        expect_interruption(&cluster, &b, &task);
        a.front.set_link(Link::Up);
        eventually("`a` shows the task again", || {
            let shown = a.client().rpc("tasks/get", json!({ "id": task }));
            (state_of(&shown["result"]) == Some("input-required")).then_some(())
        });
        assert_eq!(contents(&whole(&a, &task)), contents(&whole(&b, &task)));
    }
}

#[test]
fn nothing_is_lost_when_the_store_sometimes_returns_errors() {
    for status in [408, 429, 500, 502, 503, 504] {
        let cluster = Cluster::new();
        let [a, b] = cluster.pair();
        let (task, call) = ask(&a, "SHELL echo ran >> runs.txt ;; STREAM 60 5000 ++ TEXT Finished.");
        a.front.set_link(Link::Faulty(status));
        a.client().call("message/send", approval(&task, &call, "proceed_once"));
        a.client().call("message/send", prompt_in(&task, "STREAM 60 5000 ++ TEXT Once more."));
        a.front.set_link(Link::Up);
        let shown = whole(&a, &task);
        assert_eq!(contents(&shown), contents(&whole(&b, &task)), "{status}");
        assert!(shown.iter().any(|event| event.result().to_string().contains("Once more.")), "{status}");
        assert_eq!(cluster.lines("runs.txt", "ran"), 1, "{status}");
        assert_eq!(log::owners(&log::read(&cluster.store, &task)).len(), 1, "{status}");
    }
}

#[test]
fn a_fenced_instance_that_cannot_reach_the_store_shows_no_old_state() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let (task, _) = begin_command(&cluster, &a);
    a.pause();
    expect_interruption(&cluster, &b, &task);
    let seen = whole(&b, &task);
    a.front.set_link(Link::Silent);
    a.resume();
    let after = seen.last().map_or(0, number);
    let end = follow(&a.url(), &task, after, PATIENCE, |event| panic!("{event:?} was shown"));
    let End::Refused(refusal) = end else { panic!("{end:?}") };
    assert_eq!(refusal["error"]["data"]["reason"], "OVERLOADED", "{refusal}");
}

#[test]
fn nothing_is_lost_when_answers_of_the_store_are_lost() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let (task, call) = ask(&a, "SHELL echo ran >> runs.txt ;; TEXT Finished.");
    a.front.set_link(Link::LosesAnswers);
    let puts = a.front.count(Operation::Put);
    let waiting = std::thread::scope(|scope| {
        let answering = scope.spawn(|| a.client().rpc("message/send", approval(&task, &call, "proceed_once")));
        eventually("a request was carried out", || (a.front.count(Operation::Put) > puts).then_some(()));
        a.front.set_link(Link::Up);
        answering.join().expect("an answer")
    });
    assert!(waiting["result"].is_object(), "{waiting}");
    assert_eq!(cluster.lines("runs.txt", "ran"), 1);
    assert_eq!(contents(&whole(&a, &task)), contents(&whole(&b, &task)));
    assert_eq!(log::owners(&log::read(&cluster.store, &task)).len(), 1);
}

#[test]
fn a_store_that_ignores_preconditions_is_refused() {
    let cluster = Cluster::with(FakeGcs::with(Preconditions::Ignored), FakeGemini::start());
    let mut instance = cluster.stopped("a", "workspace");
    assert_eq!(instance.run_to_end().code(), Some(78));
    eventually("the log says why", || instance.log().contains("this store ignores preconditions").then_some(()));
    assert_eq!(cluster.store.bucket().objects(), [], "no object stays");
}

#[test]
fn a_stream_of_a_paused_instance_shows_no_void_events() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let (task, seconds) = begin_command(&cluster, &a);
    let (url, followed) = (a.url(), task.clone());
    let (sender, running) = std::sync::mpsc::channel();
    let stream = std::thread::spawn(move || {
        let mut streamed = vec![];
        let end = follow(&url, &followed, 0, PATIENCE, |event| {
            if call_status_of(event.result()) == "executing" {
                let _ = sender.send(());
            }
            streamed.push(event);
            Next::Continue
        });
        (end, streamed)
    });
    running.recv().expect("the stream shows the running call");
    a.pause();
    expect_interruption(&cluster, &b, &task);
    b.client().call("message/send", prompt_in(&task, "TEXT Continued elsewhere."));
    a.resume();
    eventually("the command has ended", || (!is_running(&seconds)).then_some(()));
    let (end, streamed) = stream.join().expect("the reader ends");
    assert_eq!(end, End::Whole);
    let (shown, all) = (contents(&streamed), contents(&whole(&b, &task)));
    assert_eq!(shown, all[..shown.len()], "a prefix of the only log");
}

#[test]
fn an_instance_exits_with_the_reason_when_the_store_refuses_the_probe() {
    for (status, why) in [(403, "storage.objects"), (404, "no such bucket"), (501, "does not support this request")] {
        let cluster = Cluster::new();
        let mut instance = cluster.stopped("a", "workspace");
        instance.front.set_link(Link::Status(status));
        assert_eq!(instance.run_to_end().code(), Some(78), "{status}");
        eventually("the log says why", || instance.log().contains(why).then_some(()));
        assert!(instance.log().contains(&format!("({status})")), "{}", instance.log());
        assert_eq!(cluster.store.bucket().objects(), []);
    }
}

#[test]
fn an_instance_that_starts_without_the_store_is_ready_when_the_store_answers() {
    let cluster = Cluster::new();
    let mut instance = cluster.stopped("a", "workspace");
    instance.front.set_link(Link::Refused);
    instance.restart();
    let ready = instance.client().get("/ready");
    assert_eq!((ready.status(), ready.json()["why"].clone()), (503, json!(["store"])));
    instance.front.set_link(Link::Up);
    eventually("it is ready", || (instance.client().get("/ready").status() == 200).then_some(()));
    let objects = cluster.store.bucket().objects();
    assert!(!objects.iter().any(|(name, _)| name.starts_with("probe/")), "{objects:?}");
    // The same while the instance is running and has nothing to write.
    instance.front.set_link(Link::Refused);
    eventually("it is not ready", || (instance.client().get("/ready").status() == 503).then_some(()));
    instance.front.set_link(Link::Up);
    eventually("it is ready again", || (instance.client().get("/ready").status() == 200).then_some(()));
}
