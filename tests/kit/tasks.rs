//! Tasks as clients use them: reading, listing and cancelling them, and their state after a restart.

use crate::binding::{Binding, Op, Prompt, Version, Wait};
use crate::harness::Harness;
use crate::problem::Fault;
use crate::shape::{self, Task};
use crate::support::eventually;
use serde_json::{Value, json};

every_binding! {
    a_task_can_be_read,
    a_task_is_read_with_as_much_history_as_asked_for,
    every_binding_shows_the_same_task,
    work_can_be_canceled,
    a_question_can_be_canceled,
    canceling_again,
    a_task_that_has_ended_cannot_be_canceled,
    canceling_ends_every_stream,
    a_prompt_to_a_working_task_waits_for_its_turn,
    tasks_can_be_listed,
    after_a_restart_a_working_task_waits_for_the_user,
}

bindings_of_1_0! {
    a_list_comes_in_pages,
    a_page_has_one_to_a_hundred_tasks,
    a_list_of_one_context_or_state,
    a_list_of_tasks_that_changed_since,
    a_list_shows_artifacts_and_history_if_asked,
    the_last_change_comes_first,
}

/// A page of a list in 1.0: the tasks, the token of the next page and the total. Checks the members of the response.
fn page(harness: &mut Harness, query: Value) -> (Vec<Task>, String, u64) {
    let result = harness.expect_result(&Op::List(query));
    let names: Vec<&str> = result.as_object().expect("a list").keys().map(String::as_str).collect();
    assert_eq!(names, ["nextPageToken", "pageSize", "tasks", "totalSize"], "{result}");
    assert!(result["pageSize"].is_u64(), "{result}");
    let tasks = result["tasks"].as_array().expect("tasks");
    let tasks = tasks.iter().map(|task| shape::task(harness.binding, task)).collect();
    let token = result["nextPageToken"].as_str().expect("a token, if an empty one");
    (tasks, token.to_owned(), result["totalSize"].as_u64().expect("a total"))
}

fn ids(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}

fn a_task_can_be_read(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-complete-task"));
    assert_eq!(harness.get(&task.id), task);
    harness.expect_refusal(&Op::Get("nobody-made-this".into(), None), Fault::TaskNotFound);
}

fn a_task_is_read_with_as_much_history_as_asked_for(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-input-required"));
    let task = harness.task(Prompt::new("tck-complete-task").to(&asked.id));
    let all = harness.get(&task.id);
    assert_eq!(all.prompt_ids().len(), 2);
    assert_eq!(harness.get_with_history(&task.id, 0).history, None);
    assert_eq!(harness.get_with_history(&task.id, 1).history(), &all.history()[all.history().len() - 1..]);
    assert_eq!(harness.get_with_history(&task.id, 2_147_483_647).history(), all.history());
    harness.expect_refusal(&Op::Get(task.id, Some(-1)), Fault::InvalidParams);
}

fn every_binding_shows_the_same_task(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-artifact-text"));
    for binding in [Binding::Rpc03, Binding::Rest03, Binding::Rpc10, Binding::Rest10] {
        let other = harness.other_client(binding).get(&task.id);
        assert_eq!((&other.id, &other.context, other.state()), (&task.id, &task.context, task.state()), "{binding:?}");
        assert_eq!(other.status.timestamp, task.status.timestamp, "{binding:?}");
        assert_eq!(other.artifacts()[0], task.artifacts()[0], "{binding:?}");
        assert_eq!(other.prompt_ids(), task.prompt_ids(), "{binding:?}");
    }
}

fn work_can_be_canceled(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-working").wait(Wait::No));
    let canceled = harness.cancel(&task.id);
    assert_eq!((&canceled.id, canceled.state()), (&task.id, "canceled"));
    assert_eq!(harness.get(&task.id).state(), "canceled");
}

fn a_question_can_be_canceled(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-input-required"));
    assert_eq!(harness.cancel(&task.id).state(), "canceled");
}

fn canceling_again(harness: &mut Harness) {
    let task = harness.task(Prompt::new("tck-input-required"));
    harness.cancel(&task.id);
    match harness.binding.version() {
        Version::V03 => {
            harness.expect_refusal(&Op::Cancel(task.id), Fault::TaskNotCancelable);
        }
        Version::V10 => assert_eq!(harness.cancel(&task.id).state(), "canceled"),
    }
}

fn a_task_that_has_ended_cannot_be_canceled(harness: &mut Harness) {
    for end in ["tck-complete-task", "tck-reject-task", "tck-fail-task"] {
        let over = harness.task(Prompt::new(end));
        harness.expect_refusal(&Op::Cancel(over.id.clone()), Fault::TaskNotCancelable);
        assert_eq!(harness.get(&over.id), over);
    }
    harness.expect_refusal(&Op::Cancel("nobody-made-this".into()), Fault::TaskNotFound);
}

fn canceling_ends_every_stream(harness: &mut Harness) {
    let mut stream = harness.stream(Prompt::new("tck-working"));
    let id = stream.next().expect("the task").update.task_id().to_owned();
    harness.cancel(&id);
    let last = stream.last().expect("what follows");
    assert_eq!(last.update.state(), Some("canceled"));
}

fn a_prompt_to_a_working_task_waits_for_its_turn(harness: &mut Harness) {
    let first = Prompt::new("slow");
    let second = Prompt::new("slow");
    let task = harness.task(first.clone().wait(Wait::No));
    let queued = harness.task(second.clone().to(&task.id).wait(Wait::No));
    assert_eq!(queued.id, task.id);
    assert_eq!(harness.get(&task.id).prompt_ids(), [&first.id, &second.id]);
}

fn tasks_can_be_listed(harness: &mut Harness) {
    let made: Vec<Task> = (0..3).map(|_| harness.task(Prompt::new("tck-complete-task"))).collect();
    let newest = newest_first(&made);
    match harness.binding {
        // JSON-RPC 0.3 has no such method.
        Binding::Rpc03 => {
            harness.expect_refusal(&Op::List(json!({})), Fault::MethodNotFound);
        }
        Binding::Rest03 => {
            let list = harness.expect_result(&Op::List(json!({})));
            let list = list.as_array().expect("a list of tasks");
            let tasks: Vec<Task> = list.iter().map(|task| shape::task(Binding::Rest03, task)).collect();
            assert_eq!(ids(&tasks), newest);
        }
        Binding::Rpc10 | Binding::Rest10 => {
            let (tasks, token, total) = page(harness, json!({}));
            assert_eq!((ids(&tasks), token.as_str(), total), (newest, "", 3));
            assert!(tasks.iter().all(|task| task.artifacts.is_none() && task.history.is_none()), "{tasks:?}");
        }
    }
}

/// The ids in the order of a list: by the time of the last status, and by id where the time is the same.
fn newest_first(tasks: &[Task]) -> Vec<&str> {
    let mut sorted: Vec<&Task> = tasks.iter().collect();
    sorted.sort_by(|a, b| {
        let by_time = b.status.timestamp.cmp(&a.status.timestamp);
        by_time.then_with(|| a.id.cmp(&b.id))
    });
    sorted.into_iter().map(|task| task.id.as_str()).collect()
}

fn a_list_comes_in_pages(harness: &mut Harness) {
    let made: Vec<Task> = (0..5).map(|_| harness.task(Prompt::new("tck-complete-task"))).collect();
    let mut listed: Vec<String> = vec![];
    let mut query = json!({"pageSize": 2});
    let sizes = [2, 2, 1];
    for (i, size) in sizes.into_iter().enumerate() {
        let (tasks, token, total) = page(harness, query.clone());
        assert_eq!((tasks.len(), total, token.is_empty()), (size, 5, i == 2));
        listed.extend(tasks.into_iter().map(|task| task.id));
        query["pageToken"] = token.into();
    }
    assert_eq!(listed, newest_first(&made));
}

fn a_page_has_one_to_a_hundred_tasks(harness: &mut Harness) {
    for query in
        [json!({"pageSize": 0}), json!({"pageSize": 101}), json!({"pageSize": -1}), json!({"pageToken": "nonsense"})]
    {
        harness.expect_refusal(&Op::List(query), Fault::InvalidParams);
    }
    let (_, _, total) = page(harness, json!({"pageSize": 100}));
    assert_eq!(total, 0);
}

fn a_list_of_one_context_or_state(harness: &mut Harness) {
    let done = harness.task(Prompt::new("tck-complete-task").within("here"));
    let asked = harness.task(Prompt::new("tck-input-required").within("here"));
    harness.task(Prompt::new("tck-complete-task").within("there"));
    let (tasks, _, _) = page(harness, json!({"contextId": "here"}));
    assert_eq!(ids(&tasks), [&asked.id, &done.id]);
    let (tasks, token, total) = page(harness, json!({"contextId": "nowhere"}));
    assert_eq!((ids(&tasks).len(), token.as_str(), total), (0, "", 0));
    let (tasks, _, _) = page(harness, json!({"contextId": "here", "status": "TASK_STATE_COMPLETED"}));
    assert_eq!(ids(&tasks), [&done.id]);
    harness.expect_refusal(&Op::List(json!({"status": "TASK_STATE_NO_SUCH"})), Fault::InvalidParams);
}

fn a_list_of_tasks_that_changed_since(harness: &mut Harness) {
    let old = harness.task(Prompt::new("tck-complete-task"));
    let new = harness.task(Prompt::new("tck-complete-task"));
    let (tasks, _, _) = page(harness, json!({"statusTimestampAfter": new.status.timestamp}));
    assert!(ids(&tasks).contains(&new.id.as_str()));
    assert!(old.status.timestamp == new.status.timestamp || !ids(&tasks).contains(&old.id.as_str()));
}

fn a_list_shows_artifacts_and_history_if_asked(harness: &mut Harness) {
    let made = harness.task(Prompt::new("tck-artifact-text"));
    let (tasks, _, _) = page(harness, json!({"includeArtifacts": true, "historyLength": 1}));
    assert_eq!(tasks[0].artifacts, made.artifacts);
    assert_eq!(tasks[0].history().len(), 1);
    let empty = harness.task(Prompt::new("tck-complete-task"));
    let (tasks, _, _) = page(harness, json!({"includeArtifacts": true, "contextId": empty.context}));
    assert_eq!(tasks[0].artifacts, Some(vec![]));
    let (tasks, _, _) = page(harness, json!({"includeArtifacts": false}));
    assert!(tasks.iter().all(|task| task.artifacts.is_none()));
}

fn the_last_change_comes_first(harness: &mut Harness) {
    let first = harness.task(Prompt::new("tck-input-required"));
    let second = harness.task(Prompt::new("tck-complete-task"));
    let first = harness.task(Prompt::new("tck-complete-task").to(&first.id));
    assert!(first.status.timestamp >= second.status.timestamp);
    let (tasks, _, _) = page(harness, json!({}));
    assert_eq!(ids(&tasks), newest_first(&[second, first]));
}

fn after_a_restart_a_working_task_waits_for_the_user(harness: &mut Harness) {
    let asked = harness.task(Prompt::new("tck-input-required"));
    let working = harness.task(Prompt::new("tck-working").wait(Wait::No));
    eventually("the working state", || (harness.get(&working.id).state() == "working").then_some(()));
    restart(harness);
    assert_eq!(harness.get(&asked.id), asked);
    assert_eq!(harness.get(&working.id).state(), "input-required");
    assert_eq!(harness.task(Prompt::new("tck-complete-task").to(&working.id)).state(), "completed");
}

fn restart(harness: &mut Harness) {
    std::sync::Arc::get_mut(&mut harness.server).expect("nobody else's server").restart();
    let again = harness.other_client(harness.binding);
    harness.client = again.client;
}
