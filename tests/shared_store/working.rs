//! Turns, answers and cancellations that are sent to another instance than the owner of the task.

use super::client::{ask, get, run, status_of_sending, whole, without_waiting};
use super::instance::{Cluster, has_line};
use super::log;
use crate::support::eventually;
use crate::support::message::{approval, call_status_of, fresh, prompt, prompt_at, prompt_in, state_of, task_of};
use gemini_a2a::bucket::{Bucket, Expect, Meta};
use serde_json::{Value, json};

#[test]
fn the_second_turn_of_a_conversation_is_taken_by_another_instance() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let task = run(&a, "TEXT The answer of the first instance.");
    let context = get(&a, &task)["contextId"].clone();
    let mut next = prompt("TEXT The answer of the second instance.");
    next["message"]["contextId"] = context.clone();
    let second = b.client().call("message/send", next);
    assert_eq!(second["contextId"], context);
    let asked = cluster.model.turns().pop().expect("a request to the model");
    assert_eq!(asked.roles(), ["user", "model", "user"]);
    let asked = asked.body.to_string();
    assert!(asked.contains("The answer of the first instance."), "{asked}");
    // By the id of the task, too, and back again.
    let task = task_of(&second).expect("a task").to_owned();
    let third = a.client().call("message/send", prompt_in(&task, "TEXT The third answer."));
    assert_eq!(task_of(&third), Some(task.as_str()));
    assert_eq!(cluster.model.turns().pop().expect("a request").roles().len(), 5);
    assert_eq!(get(&b, &task), get(&a, &task));
}

#[test]
fn an_approval_is_answered_on_another_instance_and_the_tool_runs_once() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let (task, call) = ask(&a, "SHELL echo ran >> runs.txt ;; TEXT Finished.");
    let answer = approval(&task, &call, "proceed_once");
    b.client().call("message/send", answer.clone());
    assert_eq!(cluster.file("workspace", "runs.txt").as_deref(), Some("ran\n"));
    for instance in [&a, &b] {
        assert_eq!(instance.client().fault("message/send", answer.clone()), -32602, "it was answered");
        assert!(get(instance, &task).to_string().contains("Finished."));
    }
    assert_eq!(cluster.file("workspace", "runs.txt").as_deref(), Some("ran\n"));
    let events = log::read(&cluster.store, &task);
    assert_eq!(log::starts(&events).into_values().collect::<Vec<_>>(), [1]);
    assert_eq!(log::owners(&events).len(), 2, "`b` has claimed the task");
}

#[test]
fn an_instance_with_another_workspace_shows_the_task_and_does_not_continue_it() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.start("a", "workspace"), cluster.start("b", "another"));
    let (task, call) = ask(&a, "SHELL echo ran >> runs.txt ;; TEXT Finished.");
    assert_eq!(state_of(&get(&b, &task)), Some("input-required"));
    let answer = approval(&task, &call, "proceed_once");
    assert_eq!(status_of_sending(&b, &answer).0, 409);
    assert_eq!(status_of_sending(&b, &prompt_in(&task, "TEXT More.")).0, 409);
    for workspace in ["workspace", "another"] {
        assert_eq!(cluster.file(workspace, "runs.txt"), None);
    }
    a.client().call("message/send", answer);
    assert_eq!(cluster.file("workspace", "runs.txt").as_deref(), Some("ran\n"));
}

#[test]
fn a_task_in_a_workspace_that_its_client_chose_is_continued_by_who_has_that_workspace() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.start("a", "workspace"), cluster.start("b", "workspace"));
    let chosen = cluster.path("workspace", "chosen");
    std::fs::create_dir(&chosen).expect("a directory");
    let asked = a.client().call("message/send", prompt_at(&chosen, "SHELL pwd >> runs.txt ;; TEXT Finished."));
    let task = task_of(&asked).expect("a task").to_owned();
    let call = asked["status"]["message"]["parts"][0]["data"]["request"]["callId"].as_str().expect("a call").to_owned();
    let answer = approval(&task, &call, "proceed_once");
    // Another directory at the same path is not that workspace.
    let id = chosen.join(".gemini/a2a-workspace");
    let own = std::fs::read(&id).expect("the workspace has an id");
    std::fs::write(&id, "another").expect("it is written");
    assert_eq!(status_of_sending(&b, &answer).0, 409);
    std::fs::remove_file(&id).expect("it is removed");
    assert_eq!(status_of_sending(&b, &answer).0, 409);
    assert!(!id.exists(), "who continues a task makes no ids");
    std::fs::write(&id, own).expect("it is written");
    b.client().call("message/send", answer);
    let ran = std::fs::read_to_string(chosen.join("runs.txt")).expect("the command has run");
    assert_eq!(ran.trim_end(), chosen.canonicalize().expect("a path").to_str().expect("UTF-8"));
    assert_eq!(log::owners(&log::read(&cluster.store, &task)).len(), 2);
}

#[test]
fn a_cancel_through_another_instance_takes_effect_once() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let (task, call) = ask(&a, "SHELL echo began >> runs.txt; sleep 600; echo over >> runs.txt");
    a.client().call("message/send", without_waiting(approval(&task, &call, "proceed_once")));
    let file = cluster.path("workspace", "runs.txt");
    eventually("the command runs", || has_line(&file, "began").then_some(()));
    let canceled = b.client().call("tasks/cancel", json!({ "id": task }));
    assert_eq!(state_of(&canceled), Some("canceled"));
    for instance in [&a, &b] {
        assert_eq!(state_of(&get(instance, &task)), Some("canceled"));
        assert_eq!(instance.client().fault("tasks/cancel", json!({ "id": task })), -32002);
        let events = whole(instance, &task);
        let ends = events.iter().filter(|event| call_status_of(event.result()) == "cancelled");
        assert_eq!(ends.count(), 1);
    }
    assert_eq!(log::count(&cluster.store, &task, "heard"), 1);
    assert_eq!(log::count(&cluster.store, &task, "closed"), 1);
    assert_eq!(cluster.lines("runs.txt", "over"), 0);
}

#[test]
fn a_task_with_a_command_in_the_background_stays_with_its_instance_until_that_ends() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let command = json!({ "command": "while [ ! -e end ]; do sleep 0.1; done", "is_background": true });
    let (task, call) = ask(&a, &format!("CALL run_shell_command {command} ;; TEXT Begun."));
    a.client().call("message/send", approval(&task, &call, "proceed_once"));
    eventually("it is recorded", || (log::count(&cluster.store, &task, "background") == 1).then_some(()));
    assert!(get(&b, &task).to_string().contains("Begun."));
    let (status, refused) = status_of_sending(&b, &prompt_in(&task, "TEXT Next."));
    assert_eq!(status, 409, "{refused}");
    // Its own instance goes on with it.
    a.client().call("message/send", prompt_in(&task, "TEXT Second."));
    std::fs::write(cluster.path("workspace", "end"), "").expect("a file");
    eventually("its end is recorded", || (log::count(&cluster.store, &task, "background") == 2).then_some(()));
    b.client().call("message/send", prompt_in(&task, "TEXT Third."));
    assert_eq!(log::owners(&log::read(&cluster.store, &task)).len(), 2);
}

#[test]
fn a_prompt_to_a_task_that_works_elsewhere_is_refused() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    let begun = a.client().call("message/send", without_waiting(prompt("TEXT Begun. ++ HOLD ++ TEXT Over.")));
    let task = task_of(&begun).expect("a task").to_owned();
    eventually("the model is asked", || (cluster.model.held() == 1).then_some(()));
    let params = prompt_in(&task, "TEXT Another prompt.");
    let refused = b.client().post("/v1/message:send", &params);
    assert_eq!((refused.status(), &refused.json()["data"]["reason"]), (409, &json!("TASK_HELD")), "{}", refused.text());
    assert_eq!(refused.head.field("retry-after"), Some("2"));
    let owner = log::owners(&log::read(&cluster.store, &task)).pop().expect("an owner");
    assert_eq!(refused.json()["data"]["owner"], owner.as_str(), "{}", refused.text());
    let envelope = json!({ "jsonrpc": "2.0", "id": fresh(), "method": "message/send", "params": params });
    let reply: Value = b.client().post("/", &envelope).json();
    assert_eq!(reply["error"]["data"]["reason"], "TASK_HELD", "{reply}");
    cluster.model.release();
    eventually("the turn has ended", || (state_of(&get(&b, &task)) == Some("input-required")).then_some(()));
    let history = get(&b, &task)["history"].to_string();
    assert!(!history.contains("Another prompt."), "{history}");
    // The task is at rest: the same prompt is accepted now.
    b.client().call("message/send", params);
    assert_eq!(log::owners(&log::read(&cluster.store, &task)).len(), 2);
}

#[test]
fn an_approval_of_a_task_that_works_elsewhere_reaches_its_owner() {
    let cluster = Cluster::new();
    let [a, b] = cluster.pair();
    // Two questions; while the first command runs, the task works on `a` and the second question is open.
    let first = json!({ "command": "echo began >> runs.txt; while [ ! -e go ]; do sleep 0.1; done" });
    let second = json!({ "command": "echo second >> runs.txt; touch go" });
    let task = run(&a, &format!("CALL run_shell_command {first} ++ CALL run_shell_command {second} ;; TEXT Finished."));
    let calls: Vec<String> = whole(&a, &task)
        .iter()
        .filter_map(|event| crate::support::message::asked_of(event.result()).map(str::to_owned))
        .collect();
    let mut calls: Vec<&String> = calls.iter().collect();
    calls.dedup();
    assert_eq!(calls.len(), 2, "{calls:?}");
    a.client().call("message/send", without_waiting(approval(&task, calls[0], "proceed_once")));
    let file = cluster.path("workspace", "runs.txt");
    eventually("the first command runs", || has_line(&file, "began").then_some(()));
    b.client().call("message/send", without_waiting(approval(&task, calls[1], "proceed_once")));
    eventually("the turn has ended", || get(&b, &task).to_string().contains("Finished.").then_some(()));
    assert_eq!((cluster.lines("runs.txt", "began"), cluster.lines("runs.txt", "second")), (1, 1));
    assert_eq!(log::owners(&log::read(&cluster.store, &task)).len(), 1, "`a` has kept the task");
}

#[test]
fn a_cancel_that_its_owner_hears_late_does_not_hit_the_next_turn() {
    let cluster = Cluster::new();
    let a = cluster.start("a", "workspace");
    let task = run(&a, "TEXT First.");
    let second = prompt_in(&task, "TEXT Begun. ++ HOLD ++ TEXT Second.");
    a.client().call("message/send", without_waiting(second));
    eventually("the model is asked", || (cluster.model.held() == 1).then_some(()));
    // What another instance has left for the first turn, and the store carried out late.
    let events = log::read(&cluster.store, &task);
    let by = events.iter().find_map(|event| event["event"]["prompted"].get("by")).expect("a sender");
    let request = json!({ "request": "r-1", "at": 1, "by": by, "call": { "cancel_turn": { "turn": 1 } } });
    let bytes = request.to_string().into_bytes().into();
    let name = format!("tasks/{task}/inbox/000000000001.json");
    cluster.store.bucket().put(&name, &bytes, &Meta::new(), &Expect::Absent).expect("an answer");
    let heard = eventually("it is heard", || {
        log::read(&cluster.store, &task).iter().find_map(|event| event["event"].get("heard").cloned())
    });
    assert_eq!((&heard["request"], &heard["void"]), (&json!("r-1"), &json!(true)), "{heard}");
    cluster.model.release();
    eventually("the turn has ended", || get(&a, &task).to_string().contains("Second.").then_some(()));
    assert_eq!(log::count(&cluster.store, &task, "closed"), 0);
}
