//! An instance shows tasks of another instance.

use super::client::{End, Next, ask, contents, follow, get, number, run, whole};
use super::fake_gcs::Link;
use super::instance::Cluster;
use super::log;
use crate::support::message::{approval, call_of, call_status_of, prompt, state_of, task_of, text_of};
use crate::support::socket::Socket;
use crate::support::{PATIENCE, eventually};
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn a_task_of_one_instance_is_shown_by_another_with_all_events() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let task = run(&a, "STREAM 5 ++ TEXT The end.");
    // Instance `b` has never read the task.
    let (there, here) = (get(&b, &task), get(&a, &task));
    assert_eq!(there, here);
    assert!(there.to_string().contains("The end."), "{there}");
    assert_eq!(contents(&whole(&b, &task)), contents(&whole(&a, &task)));
    let before = log::read(&cluster.store, &task).len();
    get(&b, &task);
    assert_eq!(log::read(&cluster.store, &task).len(), before, "reading writes nothing");
}

#[test]
fn an_unknown_task_is_not_found() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let task = run(&a, "TEXT One.");
    for instance in [&a, &b] {
        assert_eq!(instance.client().fault("tasks/get", json!({ "id": "no-such-task" })), -32001);
        assert_eq!(instance.client().fault("tasks/cancel", json!({ "id": "no-such-task" })), -32001);
        assert_eq!(state_of(&get(instance, &task)), Some("input-required"));
    }
}

#[test]
fn a_stream_on_another_instance_has_every_event_once_and_in_order() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    a.front.set_link(Link::Slow(Duration::from_millis(20)));
    let mut stream = a.client().stream("message/stream", prompt("STREAM 40 20000 ++ HOLD ++ STREAM 10 20000"));
    let task = task_of(stream.next().expect("a task").result()).expect("its id").to_owned();
    let mut events = vec![];
    let end = follow(&b.url(), &task, 0, PATIENCE, |event| {
        // The turn is still under way when `b` shows it, and goes on afterwards.
        if text_of(event.result()).contains(" 20 ") {
            cluster.model.release();
        }
        events.push(event);
        Next::Continue
    });
    assert_eq!(end, End::Whole);
    let numbers: Vec<u64> = events.iter().map(number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    assert_eq!(contents(&events), contents(&stream.collect::<Vec<_>>()));
    assert_eq!(contents(&events), contents(&whole(&a, &task)));
    assert!(events.last().is_some_and(|event| event.is_final()));
}

#[test]
fn lists_have_the_tasks_of_other_instances() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let mut tasks = vec![run(&a, "TEXT One."), run(&b, "TEXT Two."), run(&a, "TEXT Three.")];
    tasks.sort();
    for instance in [&a, &b] {
        eventually("all tasks in the list", || {
            let listed = instance.client().get("/tasks").json();
            let listed = listed["tasks"].as_array().cloned().unwrap_or_default();
            let mut ids: Vec<String> = listed.iter().filter_map(|task| Some(task["id"].as_str()?.to_owned())).collect();
            ids.sort();
            (ids == tasks).then_some(())
        });
    }
}

#[test]
fn the_content_of_a_long_edit_is_shown_by_another_instance() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let old = "0123456789\n".repeat(10_000) + "the end\n";
    let new = old.replace("the end", "THE END");
    std::fs::write(cluster.path("workspace", "long.txt"), &old).expect("a file");
    let args =
        json!({ "file_path": "long.txt", "instruction": "Shout.", "old_string": "the end", "new_string": "THE END" });
    let (task, call) = ask(&a, &format!("CALL replace {args}"));
    let asked = get(&b, &task)["status"].clone();
    let details = &asked["message"]["parts"][0]["data"]["confirmationDetails"];
    assert_eq!((&details["originalContent"], &details["newContent"]), (&json!(old), &json!(new)));
    a.client().call("message/send", approval(&task, &call, "proceed_once"));
    assert_eq!(cluster.file("workspace", "long.txt").as_deref(), Some(new.as_str()));
    let events = whole(&b, &task);
    let ended = events.iter().rev().find(|event| call_status_of(event.result()) == "success").expect("a result");
    let display = &call_of(ended.result())["response"]["resultDisplay"];
    assert_eq!((&display["originalContent"], &display["newContent"]), (&json!(old), &json!(new)));

    // The blob can be read by its hash in this task, but not in another task.
    let blobs = format!("tasks/{task}/blobs/");
    let objects = cluster.store.bucket().objects();
    let hash =
        objects.iter().find_map(|(name, bytes)| (**bytes == *new.as_bytes()).then(|| name.strip_prefix(&blobs))?);
    let hash = hash.expect("the new content is in the bucket");
    let other = run(&a, "TEXT Another task.");
    let mut socket = Socket::open(&b.url(), "/ws?taskId=next", Some("gemini-a2a.v1"));
    let mut read = |id: u64, task: &str| -> Value {
        socket.send(&json!({ "id": id, "call": { "blob": { "task": task, "sha256": hash } } }));
        socket.until(|answer| answer["id"] == id)
    };
    let answer = read(1, &task);
    assert_eq!(answer["ok"]["len"], new.len(), "{answer}");
    let answer = read(2, &other);
    assert!(answer["error"].is_object(), "{answer}");
}

#[test]
fn a_deleted_task_is_not_found_by_any_instance() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let task = run(&a, "TEXT One.");
    get(&b, &task);
    let mut socket = Socket::open(&a.url(), "/ws?taskId=next", Some("gemini-a2a.v1"));
    socket.send(&json!({ "id": 1, "call": { "delete": { "task": task } } }));
    let answer = socket.until(|answer| answer["id"] == 1);
    assert_eq!(answer["ok"]["taskId"], task.as_str(), "{answer}");
    for instance in [&a, &b] {
        assert_eq!(instance.client().fault("tasks/get", json!({ "id": task })), -32001);
        let end = follow(&instance.url(), &task, 0, PATIENCE, |event| panic!("{event:?} was shown"));
        let End::Refused(refusal) = end else { panic!("{end:?}") };
        assert_eq!(refusal["error"]["code"], -32001, "{refusal}");
    }
    assert_eq!(log::read(&cluster.store, &task).last().map(log::kind), Some("deleted"));
}

#[test]
fn followers_and_later_readers_read_compacted_segments() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    // Text causes at most ten segments per second.
    let mut stream = a.client().stream("message/stream", prompt("STREAM 40 130000 ++ TEXT The end."));
    let task = task_of(stream.next().expect("a task").result()).expect("its id").to_owned();
    let mut events = vec![];
    let mut read = |after: u64| {
        follow(&b.url(), &task, after, PATIENCE, |event| {
            events.push(event);
            Next::Continue
        })
    };
    assert_eq!(read(0), End::Whole);
    assert_eq!(contents(&events), contents(&stream.collect::<Vec<_>>()));
    let count = |part: &str| {
        let objects = cluster.store.bucket().objects();
        objects.iter().filter(|(name, _)| name.starts_with(&format!("tasks/{task}/{part}/"))).count()
    };
    assert!(count("log") > 33, "{}", count("log"));
    eventually("segments are compacted", || (count("compact") > 0).then_some(()));
    // The follower reads the segments after the compacted ones, and an instance that has never read the task begins with them.
    a.client().call("message/send", crate::support::message::prompt_in(&task, "TEXT Again."));
    let c = cluster.start("c", "workspace");
    assert_eq!(contents(&whole(&b, &task)), contents(&whole(&a, &task)));
    assert_eq!(contents(&whole(&c, &task)), contents(&whole(&a, &task)));
    assert!(get(&c, &task).to_string().contains("Again."));
}

#[test]
fn a_list_of_another_instance_loses_a_deleted_task_although_its_owner_is_killed() {
    let cluster = Cluster::new();
    let [mut a, b] = cluster.pair();
    let (kept, task) = (run(&b, "TEXT Kept."), run(&a, "TEXT One."));
    let listed = || -> Vec<String> {
        let listed = b.client().get("/tasks").json();
        let tasks = listed["tasks"].as_array().cloned().unwrap_or_default();
        tasks.iter().filter_map(|task| Some(task["id"].as_str()?.to_owned())).collect()
    };
    eventually("`b` lists both", || (listed().len() == 2).then_some(()));
    let mut socket = Socket::open(&a.url(), "/ws?taskId=next", Some("gemini-a2a.v1"));
    socket.send(&json!({ "id": 1, "call": { "delete": { "task": task } } }));
    let answer = socket.until(|answer| answer["id"] == 1);
    assert_eq!(answer["ok"]["taskId"], task.as_str(), "{answer}");
    a.kill();
    assert_eq!(b.client().fault("tasks/get", json!({ "id": task })), -32001);
    eventually("the list has lost it", || (listed() == [kept.clone()]).then_some(()));
}
