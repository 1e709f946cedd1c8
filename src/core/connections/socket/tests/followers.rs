//! Sockets that follow all tasks, or the session.

use super::*;

#[test]
fn a_follower_of_all_stays_with_a_task_until_it_was_sent_events_that_the_disk_delayed() {
    let mut test = TestCore::new();
    let socket = join(&mut test, "?taskId=*", OWN);
    let task = begin(&mut test);
    seen(&mut test, socket);
    let before = test.state(&task).seq;
    test.store.fail(Failure::Refused, 1);
    test.end_turn();
    // Something else wakes the readers while the lines wait.
    test.core.synced(&task, before, Ok(()), test.now);
    test.turns();
    test.later(test.limits.store_retry_ms);
    let shown = positions(&seen(&mut test, socket), &task);
    let all: Vec<u64> = (before.0 + 1..=test.state(&task).seq.0).collect();
    assert_eq!(shown, all);
}

#[test]
fn a_follower_of_all_sees_each_record_once() {
    let mut test = TestCore::new();
    let socket = join(&mut test, "?taskId=*", OWN);
    let task = begin(&mut test);
    test.end_turn();
    test.say(&task);
    test.end_turn();
    let shown = positions(&seen(&mut test, socket), &task);
    let all: Vec<u64> = (1..=test.state(&task).seq.0).collect();
    assert_eq!(shown, all);
}

#[test]
fn a_task_that_could_not_be_recorded_is_not_shown_to_followers_of_all() {
    let mut test = TestCore::new();
    let socket = join(&mut test, "?taskId=*", OWN);
    test.store.fail(Failure::Refused, 1);
    let refused = http(&mut test, "POST /", &prompt(1, "message/send", "go"));
    assert!(refused.contains("error"), "{refused}");
    let task = begin(&mut test);
    let seen = seen(&mut test, socket);
    let all: Vec<u64> = (1..=test.state(&task).seq.0).collect();
    assert_eq!(positions(&seen, &task), all);
    assert_eq!(seen.len(), all.len(), "{seen:#?}");
}

#[test]
fn followers_of_the_session_see_its_end_before_the_next_one() {
    let mut test = TestCore::new();
    let ann = join(&mut test, "", "");
    let bob = join(&mut test, "", "");
    send(&mut test, ann, &[prompt(1, "message/stream", "go")]);
    let first = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
    seen(&mut test, bob);
    let cancel = rpc(2, "tasks/cancel", json!({ "id": first }));
    send(&mut test, ann, &[cancel, prompt(3, "message/stream", "anew")]);
    let second = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
    assert_ne!(first, second);
    for key in [ann, bob] {
        let seen = seen(&mut test, key);
        let states: Vec<(&str, &str)> = seen
            .iter()
            .filter(|seen| text(seen, "kind") == "STATE_CHANGE")
            .map(|seen| (text(seen, "taskId"), text(seen, "state")))
            .collect();
        assert!(states.contains(&(first.as_str(), "canceled")), "{seen:#?}");
        assert!(states.contains(&(second.as_str(), "working")), "{seen:#?}");
    }
    let left = test.core.tasks[&first].subs.len();
    assert_eq!(left, 0, "nobody reads the first one any more");
}

#[test]
fn tasks_of_a_tenant_are_not_shown_to_other_tenants() {
    let mut test = TestCore::new();
    let message = json!({ "role": "ROLE_USER", "messageId": "m", "parts": [{ "text": "go" }] });
    let body = json!({ "message": message, "configuration": { "returnImmediately": true } });
    let answer = http(&mut test, "POST /acme/message:send", &body);
    assert!(answer.contains("TASK_STATE_"), "{answer}");
    let socket = join(&mut test, "?taskId=*", "");
    test.end_turn();
    assert_eq!(seen(&mut test, socket), [] as [Value; 0]);
    assert_eq!(http(&mut test, "GET /tasks/metadata", &Value::Null), "");
}
