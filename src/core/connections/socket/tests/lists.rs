//! Lists of tasks and sessions that cannot be read, over sockets and HTTP.

use super::*;

#[test]
fn a_list_leaves_out_tasks_that_cannot_be_read() {
    let mut test = TestCore::new();
    let tasks: Vec<TaskId> = (0..3).map(|_| begin(&mut test)).collect();
    for task in &tasks {
        test.cancel(task);
    }
    test.restart();
    test.lost = vec![tasks[1].clone()];
    let body = http(&mut test, "GET /tasks?pageSize=10", &Value::Null);
    let list: Value = serde_json::from_str(&body).expect("JSON");
    let listed = list["tasks"].as_array().unwrap_or_else(|| panic!("{list:#}"));
    let mut listed: Vec<&str> = listed.iter().map(|task| text(task, "id")).collect();
    listed.sort_unstable();
    let mut others = [tasks[0].as_str(), tasks[2].as_str()];
    others.sort_unstable();
    assert_eq!(listed, others);
}

#[test]
fn pages_of_a_list_hold_every_task_once_and_in_order() {
    let mut test = TestCore::new();
    let mut tasks: Vec<TaskId> = Vec::new();
    for n in 0..7 {
        // Some have the same time.
        test.later(n % 2);
        tasks.push(begin(&mut test));
    }
    tasks.sort_unstable_by_key(|task| {
        let at = test.state(task).status.at;
        (std::cmp::Reverse(at), task.clone())
    });
    for size in 1..=8 {
        let mut listed: Vec<String> = Vec::new();
        let mut token = String::new();
        loop {
            let path = format!("GET /tasks?pageSize={size}&pageToken={token}");
            let body = http(&mut test, &path, &Value::Null);
            let page: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!(page["totalSize"], 7, "{page:#}");
            let tasks = page["tasks"].as_array().expect("tasks");
            listed.extend(tasks.iter().map(|task| text(task, "id").to_owned()));
            token = text(&page, "nextPageToken").to_owned();
            if token.is_empty() {
                break;
            }
            assert_eq!(tasks.len(), size);
        }
        let expected: Vec<&str> = tasks.iter().map(|task| task.as_str()).collect();
        assert_eq!(listed, expected, "in pages of {size}");
    }
}

#[test]
fn a_session_that_cannot_be_read_is_followed_by_another() {
    let mut test = TestCore::new();
    join(&mut test, "", "");
    let first = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
    test.restart();
    // Its ids begin anew with the core.
    test.core.settings.entropy.uuid();
    test.lost = vec![first.clone()];
    let socket = join(&mut test, "", "");
    let second = test.core.tasks.live_session(&Default::default()).cloned().expect("a session");
    assert_ne!(first, second);
    send(&mut test, socket, &[prompt(1, "message/stream", "go")]);
    let seen = seen(&mut test, socket);
    let mut shown = seen.iter().filter(|seen| seen["kind"].is_string());
    assert!(shown.all(|seen| text(seen, "taskId") == second.as_str()), "{seen:#?}");
}

#[test]
fn a_list_without_pages_shows_only_the_newest_tasks() {
    let mut test = small(Limits { list_briefs: 2, list_page: 2, ..Limits::default() });
    for _ in 0..3 {
        http(&mut test, "POST /tasks", &json!({}));
    }
    let list: Value = serde_json::from_str(&http(&mut test, "GET /tasks", &Value::Null)).expect("JSON");
    assert_eq!(list["tasks"].as_array().map(Vec::len), Some(2));
    assert_eq!(list["totalSize"], 3, "a client that gets a part is told so");
    let key = test.core.opened(Peer::SameUser, test.now);
    let ask = b"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n";
    test.core.received(key, ask, test.now);
    test.turns();
    let answer = String::from_utf8(taken(&mut test, key)).expect("UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let list: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(list.as_array().map(Vec::len), Some(2));
    assert!(head.contains("\r\nX-Total-Count: 3\r\n"), "{head}");
}

#[test]
fn a_server_that_shuts_down_begins_no_session() {
    let mut test = small(Limits::default());
    let key = join(&mut test, "?taskId=*", "");
    taken(&mut test, key);
    test.core.shut_down(test.now);
    let prompt = json!({"jsonrpc": "2.0", "id": 1, "method": "message/stream",
        "params": {"message": {"content": {"text": "hi, ".repeat(20)}}}});
    test.core.received(key, &framed(&prompt), test.now);
    test.turns();
    let shown = String::from_utf8_lossy(&taken(&mut test, key)).into_owned();
    assert!(shown.contains("begins no session"), "{shown}");
}

/// A server that was killed may leave a child behind that still holds the lock of a journal for a moment.
#[test]
fn a_log_that_another_process_has_locked_is_tried_again() {
    let mut test = small(Limits { load_tries: 3, ..Limits::default() });
    let session: Value = serde_json::from_str(&http(&mut test, "POST /tasks", &Value::Null)).expect("JSON");
    let task = session["taskId"].as_str().expect("an id").to_owned();
    test.restart();
    test.busy = 2;
    let key = test.core.opened(Peer::SameUser, test.now);
    let ask = format!("GET /tasks/{task} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    test.core.received(key, ask.as_bytes(), test.now);
    test.turns();
    assert_eq!(taken(&mut test, key), b"", "it waits");
    test.later(25);
    test.later(25);
    let answer = String::from_utf8(taken(&mut test, key)).expect("UTF-8");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    test.restart();
    test.busy = 99;
    let key = test.core.opened(Peer::SameUser, test.now);
    test.core.received(key, ask.as_bytes(), test.now);
    for _ in 0..3 {
        test.later(25);
    }
    let answer = String::from_utf8(taken(&mut test, key)).expect("UTF-8");
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
}

#[test]
fn a_socket_that_asked_for_the_clients_gets_the_list_when_it_changes() {
    let mut test = TestCore::new();
    let first = join(&mut test, "?client=ann", "Sec-WebSocket-Protocol: gemini-a2a.v1\r\n");
    let names = |frame: &Value| -> Vec<String> {
        let clients = frame["clients"].as_array().expect("a list").iter();
        clients.map(|client| text(client, "client").to_owned()).collect()
    };
    send(&mut test, first, &[own(json!({"clients": {}}))]);
    let seen_first = seen(&mut test, first);
    let listed = seen_first.iter().find(|frame| frame.get("ok").is_some()).expect("an answer");
    assert_eq!(names(&listed["ok"]), ["ann"]);
    test.later(1);
    let second = join(&mut test, "?client=bob", "Sec-WebSocket-Protocol: gemini-a2a.v1\r\n");
    test.turns();
    let frames = seen(&mut test, first);
    assert_eq!(names(frames.last().expect("a frame")), ["ann", "bob"]);
    let of_bob = seen(&mut test, second);
    assert!(of_bob.iter().all(|frame| frame.get("clients").is_none()), "it did not ask: {of_bob:?}");
    test.core.input(crate::core::Input::Broke { conn: second }, test.now);
    test.turns();
    assert_eq!(names(seen(&mut test, first).last().expect("a frame")), ["ann"]);
    test.turns();
    assert_eq!(seen(&mut test, first), [Value::Null; 0], "nothing has changed");
}
