//! The server dies without warning and is started again on the same state.

use crate::drive::{EXTENSION, Fixture, assert_in_order, running, seen, task_in, unique_seconds};
use crate::support::client::Event;
use crate::support::eventually;
use crate::support::message::{approval, call_of, call_status_of, kind_of, prompt, prompt_in, state_of, text_of};
use crate::support::random::Random;
use crate::support::socket::Socket;
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

/// The events of the live session on a socket, up to the final one.
fn events_of_turn(socket: &mut Socket) -> Vec<Value> {
    let mut shown = vec![];
    loop {
        let event = socket.read();
        if event.get("kind").is_some() {
            shown.push(event);
        }
        if shown.last().is_some_and(|event| event["final"] == true) {
            return shown;
        }
    }
}

#[test]
fn a_session_continues_after_a_crash_and_is_not_confused_with_another() {
    let mut fixture = Fixture::new();
    let say = |socket: &mut Socket, script: &str| {
        socket.send(&json!({
            "jsonrpc": "2.0", "method": "message/stream", "params": prompt(script),
        }));
    };
    let mut socket = Socket::open(&fixture.server.url(), "/ws", None);
    say(&mut socket, "STREAM 5");
    let all = events_of_turn(&mut socket);
    let (task, seq) = (all[1]["taskId"].as_str().expect("a task"), &all[1]["seq"]);
    let path_after = format!("/ws?after={task}:{seq}");
    fixture.server.kill9();
    fixture.server.restart();
    let mut again = Socket::open(&fixture.server.url(), &path_after, None);
    assert_eq!(events_of_turn(&mut again), all[2..]);

    // A server without that session shows its own session from now on.
    let other = Fixture::new();
    let mut first = Socket::open(&other.server.url(), "/ws", None);
    say(&mut first, "STREAM 5 ++ TEXT more");
    let before = events_of_turn(&mut first);
    let mut stranger = Socket::open(&other.server.url(), &path_after, None);
    let events = events_of_turn(&mut stranger);
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(
        (&events[0]["kind"], &events[0]["taskId"], &events[0]["seq"]),
        (&json!("STATE_CHANGE"), &before[0]["taskId"], &before[before.len() - 1]["seq"])
    );
    assert_ne!(events[0]["taskId"], task);
    say(&mut first, "TEXT then");
    assert_eq!(events_of_turn(&mut stranger), events_of_turn(&mut first));
}

#[test]
fn a_long_edit_is_in_the_journal_by_hash_and_looks_the_same_after_a_crash() {
    let mut fixture = Fixture::new();
    let old = "0123456789\n".repeat(10_000) + "the end\n";
    let new = old.replace("the end", "THE END");
    std::fs::write(fixture.server.workspace().join("long.txt"), &old).expect("a file");
    let call =
        json!({"file_path": "long.txt", "instruction": "Shout.", "old_string": "the end", "new_string": "THE END"});
    let (task, calls) = fixture.ask(&format!("CALL replace {call}"));
    let asked = fixture.task(&task)["status"].clone();
    let details = &asked["message"]["parts"][0]["data"]["confirmationDetails"];
    assert_eq!((&details["originalContent"], &details["newContent"]), (&json!(old), &json!(new)));
    let journal = fixture.server.state_dir().join(format!("tasks/{task}.jsonl"));
    assert!(std::fs::metadata(&journal).expect("a journal").len() < 10_000);

    fixture.server.kill9();
    fixture.server.restart();
    assert_eq!(fixture.task(&task)["status"], asked);
    fixture.client().call("message/send", approval(&task, &calls[0], "proceed_once"));
    assert_eq!(fixture.file("long.txt").as_deref(), Some(new.as_str()));
    assert!(std::fs::metadata(&journal).expect("a journal").len() < 20_000);
    let shown: Vec<Event> = fixture.whole(&task);
    let ended = shown.iter().rev().find(|event| call_status_of(event.result()) == "success").expect("a result");
    let display = &call_of(ended.result())["response"]["resultDisplay"];
    assert_eq!((&display["originalContent"], &display["newContent"]), (&json!(old), &json!(new)));
}

#[test]
fn a_stream_continues_after_a_crash() {
    let mut fixture = Fixture::new();
    let mut stream = fixture.client().stream("message/stream", prompt("STREAM 20 ++ HOLD ++ TEXT never said"));
    let mut read: Vec<Event> = vec![];
    while read.len() < 10 {
        read.push(stream.next().expect("ten events"));
    }
    let task = task_in(&read);
    let last = read.last().and_then(|event| event.id.clone()).expect("an id");
    fixture.server.kill9();
    drop(stream);
    fixture.server.restart();
    read.extend(fixture.client().resume("tasks/resubscribe", json!({ "id": task }), &last));

    let end = read.last().expect("events");
    assert!(end.is_final());
    assert_eq!(state_of(end.result()), Some("input-required"));
    assert!(text_of(end.result()).contains("restarted"), "{end:?}");
    assert_in_order(&read);
    // A new stream begins with the task, which is not an event of the log.
    assert_eq!(seen(&read[1..]), seen(&fixture.whole(&task)));

    let next: Vec<Event> = fixture.client().stream("message/stream", prompt_in(&task, "TEXT Back.")).collect();
    assert_eq!(text_of(next[1].result()), "Back.");
}

#[test]
fn repeated_crashes_lose_and_repeat_no_event() {
    let mut fixture = Fixture::new();
    let mut random = Random::new(7);
    let mut read: Vec<Event> = vec![];
    let mut task = String::new();
    for round in 0..6 {
        let script = "STREAM 300 300";
        let params = match round {
            0 => prompt(script),
            _ => prompt_in(&task, script),
        };
        let mut stream = fixture.client().stream("message/stream", params);
        for _ in 0..=random.below(120) {
            read.extend(stream.next());
        }
        task = task_in(&read);
        fixture.server.kill9();
        fixture.server.restart();
        let last = read.last().and_then(|event| event.id.clone()).expect("an id");
        let rest = fixture.client().resume("tasks/resubscribe", json!({ "id": task }), &last);
        read.extend(rest);
        assert_eq!(state_of(read.last().expect("events").result()), Some("input-required"));
    }
    assert_in_order(&read);
    assert_eq!(seen(&read[1..]), seen(&fixture.whole(&task)));
    let begun = read
        .iter()
        .filter(|event| kind_of(event.result()) == "state-change" && state_of(event.result()) == Some("working"));
    assert_eq!(begun.count(), 6, "every prompt that was accepted had its turn");
}

#[test]
fn an_open_approval_survives_a_crash_and_is_answered_once() {
    let mut fixture = Fixture::new();
    let (task, calls) = fixture.ask("SHELL echo ran >> runs.txt");
    for _ in 0..2 {
        fixture.server.restart();
        assert_eq!(fixture.state(&task), "input-required");
        let listed = fixture.client().get("/tasks/metadata").json();
        assert_eq!(listed[0]["id"], task);
        assert_eq!(listed[0]["taskState"], "input-required");
        let asked: Vec<Value> = fixture
            .whole(&task)
            .iter()
            .filter(|event| call_status_of(event.result()) == "awaiting_approval")
            .map(|event| call_of(event.result())["request"]["callId"].clone())
            .collect();
        assert_eq!(asked, [json!(calls[0])]);
    }
    assert_eq!(fixture.file("runs.txt"), None);
    let answer = approval(&task, &calls[0], "proceed_once");
    fixture.client().call("message/send", answer.clone());
    assert_eq!(fixture.file("runs.txt").as_deref(), Some("ran\n"));
    fixture.server.restart();
    assert_eq!(fixture.client().fault("message/send", answer), -32602);
    assert_eq!(fixture.file("runs.txt").as_deref(), Some("ran\n"));
}

/// The server is killed at a random moment between the acceptance of an answer and the end of the command.
#[test]
fn an_accepted_approval_survives_a_crash_and_runs_at_most_once() {
    let mut fixture = Fixture::new();
    let mut random = Random::new(11);
    for round in 0..10 {
        let file = format!("runs-{round}.txt");
        let (task, calls) = fixture.ask(&format!("SHELL echo ran >> {file}"));
        let mut params = approval(&task, &calls[0], "proceed_once");
        params["configuration"] = json!({ "blocking": false });
        fixture.client().call("message/send", params.clone());
        // Chooses the moment of the crash.
        thread::sleep(Duration::from_micros(random.within(0, 24_999)));
        fixture.server.kill9();
        fixture.server.restart();

        assert_eq!(fixture.client().fault("message/send", params), -32602, "an accepted answer is not asked for again");
        // The turn goes on with the next message, if it was interrupted.
        fixture.client().call("message/send", prompt_in(&task, "TEXT Go on."));
        let ended: Vec<String> = fixture
            .whole(&task)
            .iter()
            .map(|event| call_status_of(event.result()))
            .filter(|status| ["success", "error", "cancelled"].contains(status))
            .map(str::to_string)
            .collect();
        assert_eq!(ended.len(), 1, "{ended:?}");
        let runs = fixture.file(&file).unwrap_or_default().lines().count();
        match ended[0].as_str() {
            "success" => assert_eq!(runs, 1),
            "error" => assert!(runs <= 1, "{runs} runs"),
            other => panic!("the command was {other}"),
        }
    }
}

#[test]
fn a_running_command_ends_with_the_server_and_its_call_is_interrupted() {
    let mut fixture = Fixture::new();
    let (child, escaped) = (unique_seconds(), unique_seconds());
    let script = format!("SHELL echo begin; setsid -f sleep {escaped}; sleep {child}");
    let (task, calls) = fixture.ask(&script);
    let mut stream = fixture.client().stream("message/stream", approval(&task, &calls[0], "proceed_once"));
    let begun = stream.until("output", |event| event.result()["kind"] == "artifact-update");
    eventually("both processes", || (running(&child).len() == 1 && running(&escaped).len() == 1).then_some(()));
    fixture.server.kill9();
    fixture.server.restart();
    eventually("nothing left running", || (running(&child).is_empty() && running(&escaped).is_empty()).then_some(()));

    let last = begun.id.expect("an id");
    let tail: Vec<Event> = fixture.client().resume("tasks/resubscribe", json!({ "id": task }), &last).collect();
    let ended = call_of(tail[0].result());
    assert_eq!(ended["status"], "error");
    assert_eq!(ended["response"]["errorType"], "interrupted");
    let end = tail.last().expect("events");
    assert!(end.is_final() && state_of(end.result()) == Some("input-required"), "{end:?}");
    // Also in the profile in which a turn that has ended is a completed task.
    let task_for_devtools =
        fixture.client().field("A2A-Extensions", EXTENSION).call("tasks/get", json!({ "id": task }));
    assert_eq!(state_of(&task_for_devtools), Some("input-required"));
    assert_eq!(task_for_devtools["status"]["message"]["parts"], end.result()["status"]["message"]["parts"]);

    let next: Vec<Event> = fixture.client().stream("message/stream", prompt_in(&task, "TEXT Going on.")).collect();
    assert_eq!(text_of(next[1].result()), "Going on.");
    // The model gets the result of its call.
    let asked = fixture.fake.turns().pop().expect("a request").body.to_string();
    assert!(asked.contains("functionResponse"), "{asked}");
}

#[test]
fn accepted_prompts_get_their_turns_after_a_crash() {
    let mut fixture = Fixture::new();
    let mut stream = fixture.client().stream("message/stream", prompt("HOLD"));
    let task = task_in(&[stream.next().expect("a task")]);
    for n in 1..=3 {
        let mut params = prompt_in(&task, &format!("TEXT answer {n}"));
        // The message id is the same every time: each message counts.
        params["message"]["messageId"] = json!("one-for-all");
        params["configuration"] = json!({ "blocking": false });
        fixture.client().call("message/send", params);
    }
    fixture.server.kill9();
    fixture.server.restart();
    let answers = eventually("three answers", || {
        let history = fixture.task(&task)["history"].clone();
        let texts = history.as_array().into_iter().flatten();
        let texts: Vec<String> = texts
            .filter(|message| message["role"] == "agent")
            .filter_map(|message| Some(message["parts"][0]["text"].as_str()?.to_string()))
            .collect();
        (texts.len() >= 3).then_some(texts)
    });
    assert_eq!(answers, ["answer 1", "answer 2", "answer 3"]);
}

#[test]
fn after_a_crash_the_running_call_is_interrupted_and_the_other_still_asks() {
    let mut fixture = Fixture::new();
    let name = unique_seconds();
    let script = format!("CALL run_shell_command {{\"command\":\"echo begin; sleep {name}\"}} ++ WRITE second.txt x");
    let (task, calls) = fixture.ask(&script);
    assert_eq!(calls.len(), 2);
    let mut stream = fixture.client().stream("message/stream", approval(&task, &calls[0], "proceed_once"));
    stream.until("output", |event| event.result()["kind"] == "artifact-update");
    fixture.server.kill9();
    fixture.server.restart();
    assert_eq!(fixture.state(&task), "input-required");
    assert_eq!(fixture.file("second.txt"), None);
    let events: Vec<Event> =
        fixture.client().stream("message/stream", approval(&task, &calls[1], "proceed_once")).collect();
    assert_eq!(fixture.file("second.txt").as_deref(), Some("x"));
    assert!(events.last().is_some_and(Event::is_final));
    let ends: Vec<Value> = fixture
        .whole(&task)
        .iter()
        .map(|event| call_of(event.result()))
        .filter(|call| call["response"].is_object())
        .map(|call| json!([call["request"]["name"], call["status"]]))
        .collect();
    assert_eq!(ends, [json!(["run_shell_command", "error"]), json!(["write_file", "success"])]);
    eventually("nothing left running", || running(&name).is_empty().then_some(()));
}

#[test]
fn truncated_and_damaged_journals_are_logged() {
    let mut fixture = Fixture::new();
    let [short, bad] = ["TEXT one", "TEXT two"].map(|script| task_in(&fixture.say(script)));
    fixture.server.kill9();
    let journal = |task: &str| fixture.server.state_dir().join(format!("tasks/{task}.jsonl"));
    let text = std::fs::read_to_string(journal(&short)).expect("a journal");
    let cut = text.trim_end().rfind('\n').expect("more than one line") + 1;
    std::fs::write(journal(&short), &text[..cut]).expect("our own file");
    let text = std::fs::read_to_string(journal(&bad)).expect("a journal");
    std::fs::write(journal(&bad), text.replacen("two", "too", 1)).expect("our own file");
    fixture.server.restart();
    eventually("the log tells of the shortened journal", || {
        fixture.server.output().contains("its last events are lost").then_some(())
    });
    assert!(!fixture.server.output().contains("is damaged"), "the damaged journal has not been read yet");
    // Requests for the task get an error, and the log has a message.
    assert_eq!(fixture.client().fault("tasks/get", json!({ "id": bad })), -32603);
    eventually("the log tells of the damaged journal", || {
        fixture.server.output().contains("is damaged and cannot be used").then_some(())
    });
    assert_eq!(fixture.task(&short)["id"], short.as_str(), "the undamaged part of the other journal can be used");
}
