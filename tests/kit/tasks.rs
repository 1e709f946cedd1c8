//! Tasks from outside: looked at, listed, canceled, and found again after a restart.

use crate::binding::{Binding, Note, Op, Version, Wait};
use crate::desk::Desk;
use crate::problem::Fault;
use crate::shape::{self, Task};
use crate::support::eventually;
use serde_json::{Value, json};

duties! {
    a_task_can_be_looked_at,
    a_look_shows_as_much_history_as_asked_for,
    every_binding_shows_the_same_task,
    work_can_be_canceled,
    a_question_can_be_canceled,
    canceling_again,
    what_is_over_cannot_be_canceled,
    canceling_ends_every_stream,
    a_prompt_to_a_working_task_waits_for_its_turn,
    tasks_can_be_listed,
    a_restart_leaves_the_next_word_to_the_user,
}

of_1_0! {
    a_list_comes_in_pages,
    a_page_has_one_to_a_hundred_tasks_and_a_place_of_its_own,
    a_list_of_one_context_or_state,
    a_list_of_what_changed_since,
    a_list_shows_artifacts_and_history_if_asked,
    the_last_change_comes_first,
}

/// A page of a list in 1.0, checked to have all its members.
fn page(desk: &mut Desk, query: Value) -> (Vec<Task>, String, u64) {
    let result = desk.done(&Op::List(query));
    let names: Vec<&str> = result.as_object().expect("a list").keys().map(String::as_str).collect();
    assert_eq!(names, ["nextPageToken", "pageSize", "tasks", "totalSize"], "{result}");
    assert!(result["pageSize"].is_u64(), "{result}");
    let tasks = result["tasks"].as_array().expect("tasks");
    let tasks = tasks.iter().map(|task| shape::task(desk.binding, task)).collect();
    let token = result["nextPageToken"].as_str().expect("a token, if an empty one");
    (tasks, token.to_owned(), result["totalSize"].as_u64().expect("a total"))
}

fn ids(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}

fn a_task_can_be_looked_at(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-complete-task"));
    assert_eq!(desk.get(&task.id), task);
    desk.refused(&Op::Get("nobody-made-this".into(), None), Fault::TaskNotFound);
}

fn a_look_shows_as_much_history_as_asked_for(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-input-required"));
    let task = desk.task(Note::new("tck-complete-task").to(&asked.id));
    let all = desk.get(&task.id);
    assert_eq!(all.asked().len(), 2);
    assert_eq!(desk.get_some(&task.id, 0).history, None);
    assert_eq!(desk.get_some(&task.id, 1).history(), &all.history()[all.history().len() - 1..]);
    assert_eq!(desk.get_some(&task.id, 2_147_483_647).history(), all.history());
    desk.refused(&Op::Get(task.id, Some(-1)), Fault::InvalidParams);
}

fn every_binding_shows_the_same_task(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-artifact-text"));
    for binding in [Binding::Rpc03, Binding::Rest03, Binding::Rpc10, Binding::Rest10] {
        let other = desk.beside(binding).get(&task.id);
        assert_eq!((&other.id, &other.context, other.state()), (&task.id, &task.context, task.state()), "{binding:?}");
        assert_eq!(other.status.timestamp, task.status.timestamp, "{binding:?}");
        assert_eq!(other.artifacts()[0], task.artifacts()[0], "{binding:?}");
        assert_eq!(other.asked(), task.asked(), "{binding:?}");
    }
}

fn work_can_be_canceled(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-working").wait(Wait::Not));
    let canceled = desk.cancel(&task.id);
    assert_eq!((&canceled.id, canceled.state()), (&task.id, "canceled"));
    assert_eq!(desk.get(&task.id).state(), "canceled");
}

fn a_question_can_be_canceled(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-input-required"));
    assert_eq!(desk.cancel(&task.id).state(), "canceled");
}

fn canceling_again(desk: &mut Desk) {
    let task = desk.task(Note::new("tck-input-required"));
    desk.cancel(&task.id);
    match desk.binding.version() {
        Version::V03 => {
            desk.refused(&Op::Cancel(task.id), Fault::TaskNotCancelable);
        }
        Version::V10 => assert_eq!(desk.cancel(&task.id).state(), "canceled"),
    }
}

fn what_is_over_cannot_be_canceled(desk: &mut Desk) {
    for end in ["tck-complete-task", "tck-reject-task", "tck-fail-task"] {
        let over = desk.task(Note::new(end));
        desk.refused(&Op::Cancel(over.id.clone()), Fault::TaskNotCancelable);
        assert_eq!(desk.get(&over.id), over);
    }
    desk.refused(&Op::Cancel("nobody-made-this".into()), Fault::TaskNotFound);
}

fn canceling_ends_every_stream(desk: &mut Desk) {
    let mut watch = desk.stream(Note::new("tck-working"));
    let id = watch.next().expect("the task").update.task_id().to_owned();
    desk.cancel(&id);
    let last = watch.last().expect("what follows");
    assert_eq!(last.update.state(), Some("canceled"));
}

fn a_prompt_to_a_working_task_waits_for_its_turn(desk: &mut Desk) {
    let first = Note::new("slow");
    let second = Note::new("slow");
    let task = desk.task(first.clone().wait(Wait::Not));
    let queued = desk.task(second.clone().to(&task.id).wait(Wait::Not));
    assert_eq!(queued.id, task.id);
    assert_eq!(desk.get(&task.id).asked(), [&first.id, &second.id]);
}

fn tasks_can_be_listed(desk: &mut Desk) {
    let made: Vec<Task> = (0..3).map(|_| desk.task(Note::new("tck-complete-task"))).collect();
    let newest = newest_first(&made);
    match desk.binding {
        // JSON-RPC 0.3 has no such method.
        Binding::Rpc03 => {
            desk.refused(&Op::List(json!({})), Fault::MethodNotFound);
        }
        Binding::Rest03 => {
            let list = desk.done(&Op::List(json!({})));
            let list = list.as_array().expect("a list of tasks");
            let tasks: Vec<Task> = list.iter().map(|task| shape::task(Binding::Rest03, task)).collect();
            assert_eq!(ids(&tasks), newest);
        }
        Binding::Rpc10 | Binding::Rest10 => {
            let (tasks, token, total) = page(desk, json!({}));
            assert_eq!((ids(&tasks), token.as_str(), total), (newest, "", 3));
            assert!(tasks.iter().all(|task| task.artifacts.is_none() && task.history.is_none()), "{tasks:?}");
        }
    }
}

/// The order of a list: by the time of the last status, and by id where that is the same.
fn newest_first(made: &[Task]) -> Vec<&str> {
    let mut made: Vec<&Task> = made.iter().collect();
    made.sort_by(|a, b| {
        let by_time = b.status.timestamp.cmp(&a.status.timestamp);
        by_time.then_with(|| a.id.cmp(&b.id))
    });
    made.into_iter().map(|task| task.id.as_str()).collect()
}

fn a_list_comes_in_pages(desk: &mut Desk) {
    let made: Vec<Task> = (0..5).map(|_| desk.task(Note::new("tck-complete-task"))).collect();
    let mut seen: Vec<String> = vec![];
    let mut query = json!({"pageSize": 2});
    let sizes = [2, 2, 1];
    for (i, size) in sizes.into_iter().enumerate() {
        let (tasks, token, total) = page(desk, query.clone());
        assert_eq!((tasks.len(), total, token.is_empty()), (size, 5, i == 2));
        seen.extend(tasks.into_iter().map(|task| task.id));
        query["pageToken"] = token.into();
    }
    assert_eq!(seen, newest_first(&made));
}

fn a_page_has_one_to_a_hundred_tasks_and_a_place_of_its_own(desk: &mut Desk) {
    for query in
        [json!({"pageSize": 0}), json!({"pageSize": 101}), json!({"pageSize": -1}), json!({"pageToken": "nonsense"})]
    {
        desk.refused(&Op::List(query), Fault::InvalidParams);
    }
    let (_, _, total) = page(desk, json!({"pageSize": 100}));
    assert_eq!(total, 0);
}

fn a_list_of_one_context_or_state(desk: &mut Desk) {
    let done = desk.task(Note::new("tck-complete-task").within("here"));
    let asked = desk.task(Note::new("tck-input-required").within("here"));
    desk.task(Note::new("tck-complete-task").within("there"));
    let (tasks, _, _) = page(desk, json!({"contextId": "here"}));
    assert_eq!(ids(&tasks), [&asked.id, &done.id]);
    let (tasks, token, total) = page(desk, json!({"contextId": "nowhere"}));
    assert_eq!((ids(&tasks).len(), token.as_str(), total), (0, "", 0));
    let (tasks, _, _) = page(desk, json!({"contextId": "here", "status": "TASK_STATE_COMPLETED"}));
    assert_eq!(ids(&tasks), [&done.id]);
    desk.refused(&Op::List(json!({"status": "TASK_STATE_NO_SUCH"})), Fault::InvalidParams);
}

fn a_list_of_what_changed_since(desk: &mut Desk) {
    let old = desk.task(Note::new("tck-complete-task"));
    let new = desk.task(Note::new("tck-complete-task"));
    let (tasks, _, _) = page(desk, json!({"statusTimestampAfter": new.status.timestamp}));
    assert!(ids(&tasks).contains(&new.id.as_str()));
    assert!(old.status.timestamp == new.status.timestamp || !ids(&tasks).contains(&old.id.as_str()));
}

fn a_list_shows_artifacts_and_history_if_asked(desk: &mut Desk) {
    let made = desk.task(Note::new("tck-artifact-text"));
    let (tasks, _, _) = page(desk, json!({"includeArtifacts": true, "historyLength": 1}));
    assert_eq!(tasks[0].artifacts, made.artifacts);
    assert_eq!(tasks[0].history().len(), 1);
    let empty = desk.task(Note::new("tck-complete-task"));
    let (tasks, _, _) = page(desk, json!({"includeArtifacts": true, "contextId": empty.context}));
    assert_eq!(tasks[0].artifacts, Some(vec![]));
    let (tasks, _, _) = page(desk, json!({"includeArtifacts": false}));
    assert!(tasks.iter().all(|task| task.artifacts.is_none()));
}

fn the_last_change_comes_first(desk: &mut Desk) {
    let first = desk.task(Note::new("tck-input-required"));
    let second = desk.task(Note::new("tck-complete-task"));
    let first = desk.task(Note::new("tck-complete-task").to(&first.id));
    assert!(first.status.timestamp >= second.status.timestamp);
    let (tasks, _, _) = page(desk, json!({}));
    assert_eq!(ids(&tasks), newest_first(&[second, first]));
}

fn a_restart_leaves_the_next_word_to_the_user(desk: &mut Desk) {
    let asked = desk.task(Note::new("tck-input-required"));
    let working = desk.task(Note::new("tck-working").wait(Wait::Not));
    eventually("work", || (desk.get(&working.id).state() == "working").then_some(()));
    restart(desk);
    assert_eq!(desk.get(&asked.id), asked);
    assert_eq!(desk.get(&working.id).state(), "input-required");
    assert_eq!(desk.task(Note::new("tck-complete-task").to(&working.id)).state(), "completed");
}

fn restart(desk: &mut Desk) {
    std::sync::Arc::get_mut(&mut desk.server).expect("nobody else's server").restart();
    let again = desk.beside(desk.binding);
    desk.client = again.client;
}
