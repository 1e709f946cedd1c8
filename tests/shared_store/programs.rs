//! Other programs: readers of the objects in the reference server's layout, service managers, and the start of an instance on a store with very
//! many tasks.

use super::client::{get, run};
use super::fake_gcs::Link;
use super::gcs_api::{BUCKET, Operation};
use super::instance::{Cluster, Instance};
use crate::support::client::Client;
use crate::support::message::{prompt_in, state_of};
use crate::support::{PATIENCE, eventually};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::time::Instant;

/// Reads a task like the loader of the reference server: three objects, none of which may be missing.
fn loaded(instance: &Instance, task: &str) -> Option<Value> {
    let mut client = Client::new(&format!("http://{}", instance.front.address()));
    let mut read = |name: &str| {
        let object = client.get(&format!("/storage/v1/b/{BUCKET}/o/tasks%2F{task}%2F{name}?alt=media"));
        (object.status() == 200).then(|| object.json())
    };
    let (metadata, history, state) = (read("metadata.json")?, read("history.json")?, read("state.json")?);
    Some(
        json!({ "id": metadata["id"], "contextId": metadata["contextId"], "history": history, "state": state["state"] }),
    )
}

#[test]
fn a_program_reads_a_task_with_three_requests_also_after_a_change_of_owner() {
    let cluster = Cluster::new();
    let [mut a, b] = cluster.pair();
    let task = run(&a, "TEXT From the first instance.");
    let has = |text: &str| {
        eventually(text, || loaded(&b, &task).filter(|loaded| loaded["history"].to_string().contains(text)))
    };
    let first = has("From the first instance.");
    assert_eq!((&first["id"], &first["state"]), (&json!(task), &json!("running")));
    assert_eq!(first["contextId"], get(&a, &task)["contextId"]);
    a.kill();
    b.client().call("message/send", prompt_in(&task, "TEXT From the second instance."));
    let second = has("From the second instance.");
    let texts = |loaded: &Value| -> Vec<String> {
        let messages = loaded["history"].as_array().expect("an array").iter();
        messages.map(|message| message["parts"][0]["text"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(texts(&second)[..2], texts(&first)[..]);
    assert_eq!(texts(&second).len(), 4, "{second}");
    // A task that is over says so.
    b.client().call("tasks/cancel", json!({ "id": task }));
    eventually("it is over", || loaded(&b, &task).filter(|loaded| loaded["state"] == "error"));
}

#[test]
fn a_service_manager_is_told_that_the_instance_is_ready_when_the_store_is() {
    let cluster = Cluster::new();
    let notify = cluster.path("run", "notify");
    let manager = UnixDatagram::bind(&notify).expect("a socket");
    let mut instance = cluster.stopped("a", "workspace");
    instance.command().env("NOTIFY_SOCKET", &notify);
    instance.front.set_link(Link::Refused);
    instance.restart();
    assert_eq!(instance.client().get("/ready").status(), 503);
    manager.set_nonblocking(true).expect("a socket has this mode");
    let early = manager.recv(&mut [0; 64]).map_err(|error| error.kind());
    assert_eq!(early, Err(ErrorKind::WouldBlock));
    instance.front.set_link(Link::Up);
    manager.set_nonblocking(false).expect("a socket has this mode");
    manager.set_read_timeout(Some(PATIENCE)).expect("a socket has a time limit");
    let mut message = [0; 64];
    let count = manager.recv(&mut message).expect("a message");
    assert_eq!(&message[..count], b"READY=1");
    assert_eq!(instance.client().get("/ready").status(), 200);
}

#[test]
fn a_start_with_ten_thousand_tasks_takes_few_requests_and_a_list_none() {
    const TASKS: u64 = 10_000;
    let cluster = Cluster::with_pages_of(1_000).with_times(1);
    let a = cluster.start("a", "workspace");
    let known = run(&a, "TEXT Known.");
    eventually("its summary is written", || cluster.store.has_object(&format!("index/{known}")).then_some(()));
    cluster.store.repeat_summary(&known, TASKS as usize);
    let begin = Instant::now();
    let b = cluster.start("b", "workspace");
    let total = || b.client().get("/health").json()["totalTasks"].as_u64();
    eventually("it knows them all", || total().filter(|total| *total > TASKS));
    // Eleven pages of summaries, unfinished work, and the heartbeats of others, which are listed every four seconds.
    let lists = b.front.count(Operation::List);
    assert!(lists <= 13 + begin.elapsed().as_secs() / 4, "{lists}");
    let gets = b.front.count(Operation::Get);
    let page = b.client().get("/tasks");
    assert!(page.status() == 200 && page.text().contains("00000000-0000-4000-8000-"), "{}", page.text());
    assert_eq!(b.front.count(Operation::Get), gets, "a list makes no requests");
    // A task that was created after the summaries were read is found by its id.
    let later = run(&a, "TEXT Later.");
    assert_eq!(state_of(&get(&b, &later)), Some("input-required"));
}
