//! Reads the logs of tasks in the bucket, without the code of the server.

use super::fake_gcs::FakeGcs;
use serde_json::Value;
use std::collections::BTreeMap;

/// The events of a task. The numbers of the segments and events must be without gaps and repetitions.
pub fn read(store: &FakeGcs, task: &str) -> Vec<Value> {
    let prefix = format!("tasks/{task}/log/");
    let mut events: Vec<Value> = vec![];
    for (name, bytes) in store.bucket().objects().iter().filter(|(name, _)| name.starts_with(&prefix)) {
        let first = format!("{prefix}{:012}.jsonl", events.len() + 1);
        assert_eq!(*name, first, "every segment begins after the previous one");
        for line in String::from_utf8(bytes.to_vec()).expect("lines of text").lines() {
            let event: Value = serde_json::from_str(line).expect("a line of JSON");
            assert_eq!(event["seq"], events.len() as u64 + 1, "{task}: {event}");
            events.push(event);
        }
    }
    events
}

/// The name of an event: events without members are strings.
pub fn kind(event: &Value) -> &str {
    let event = &event["event"];
    event.as_str().or_else(|| event.as_object()?.keys().next().map(String::as_str)).unwrap_or("?")
}

/// How many events of a task have this name.
pub fn count(store: &FakeGcs, task: &str, name: &str) -> usize {
    read(store, task).iter().filter(|event| kind(event) == name).count()
}

/// The instances that owned a task, in order. Each epoch is one more than the one before it.
pub fn owners(events: &[Value]) -> Vec<String> {
    let owned: Vec<&Value> = events.iter().filter_map(|event| event["event"].get("owned")).collect();
    let epochs: Vec<u64> = owned.iter().map(|owned| owned["epoch"].as_u64().expect("a number")).collect();
    assert!(epochs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{epochs:?}");
    owned.iter().map(|owned| owned["instance"].as_str().expect("a name").to_owned()).collect()
}

/// How often each call was started.
pub fn starts(events: &[Value]) -> BTreeMap<String, usize> {
    let mut starts = BTreeMap::new();
    for event in events.iter().filter(|event| kind(event) == "call_started") {
        *starts.entry(event["event"]["call_started"].to_string()).or_default() += 1;
    }
    starts
}
