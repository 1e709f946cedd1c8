//! Approvals, the order of prompts, and cancellation.

use crate::drive::{Fixture, running, task_in, unique_seconds};
use crate::support::client::{Client, Event};
use crate::support::eventually;
use crate::support::message::{
    approval, asked_of, call_of, call_status_of, kind_of, prompt, prompt_in, state_of, text_of,
};
use serde_json::{Value, json};
use std::sync::Barrier;

/// An approval with other content for the file.
fn edited(task: &str, call: &str, content: &str) -> Value {
    let mut params = approval(task, call, "proceed_once");
    params["message"]["parts"][0]["data"]["newContent"] = json!(content);
    params
}

#[test]
fn exactly_one_of_two_concurrent_answers_counts() {
    let fixture = Fixture::new();
    for round in 0..10 {
        let file = format!("race-{round}.txt");
        let (task, calls) = fixture.ask(&format!("SHELL echo ran >> {file}"));
        let start = Barrier::new(2);
        let reply = |outcome: &str| -> Value {
            let mut client = Client::new(&fixture.server.url());
            let params = approval(&task, &calls[0], outcome);
            start.wait();
            client.rpc("message/send", params)
        };
        let second = if round % 2 == 0 { "proceed_once" } else { "cancel" };
        let (one, two) = std::thread::scope(|scope| {
            let two = scope.spawn(|| reply(second));
            (reply("proceed_once"), two.join().expect("an answer"))
        });
        let won = |reply: &Value| reply.get("result").is_some();
        assert!(won(&one) != won(&two), "{one}\n{two}");
        let (lost, allowed) = if won(&one) { (two, true) } else { (one, second == "proceed_once") };
        assert_eq!(lost["error"]["code"], -32602);
        assert_eq!(lost["error"]["data"]["reason"], "TOOL_CALL_NOT_PENDING");
        assert_eq!(lost["error"]["data"]["callId"], calls[0]);
        let expected = allowed.then_some("ran\n");
        assert_eq!(fixture.file(&file).as_deref(), expected, "round {round}");
    }
}

#[test]
fn the_task_itself_shows_its_open_question() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let asked = client.call("message/send", prompt("SHELL echo ran >> only.txt"));
    assert_eq!(asked["status"]["state"], "input-required");
    let task = asked["id"].as_str().expect("a task");
    let question = &asked["status"]["message"]["parts"][0]["data"];
    assert_eq!(question["status"], "awaiting_approval");
    let command = &question["confirmationDetails"]["command"];
    assert_eq!(*command, "echo ran >> only.txt");
    let looked = client.call("tasks/get", json!({ "id": task }));
    assert_eq!(looked["status"], asked["status"]);

    let call = question["request"]["callId"].as_str().expect("a call");
    let done = client.call("message/send", approval(task, call, "proceed_once"));
    assert_eq!(fixture.file("only.txt").as_deref(), Some("ran\n"));
    assert_eq!(done["status"].get("message"), None);
}

#[test]
fn an_edit_of_a_changed_file_asks_again() {
    let fixture = Fixture::new();
    let path = fixture.server.workspace().join("notes.txt");
    std::fs::write(&path, "before\n").expect("a file");
    let (task, calls) = fixture.ask("CALL write_file {\"file_path\":\"notes.txt\",\"content\":\"by the model\\n\"}");
    std::fs::write(&path, "by the user, meanwhile\n").expect("a file");

    for outcome in ["proceed_once", "proceed_always"] {
        let events: Vec<Event> =
            fixture.client().stream("message/stream", approval(&task, &calls[0], outcome)).collect();
        let words: Vec<&str> =
            events.iter().map(|event| call_status_of(event.result())).filter(|word| !word.is_empty()).collect();
        assert_eq!(words, ["scheduled", "executing", "scheduled", "awaiting_approval"]);
        let again = events.iter().rev().find(|event| asked_of(event.result()).is_some());
        let details = &call_of(again.expect("a question").result())["confirmationDetails"];
        let present = fixture.file("notes.txt").expect("the file is there");
        assert_eq!(details["originalContent"], present.as_str());
        let diff = details["fileDiff"].as_str().unwrap_or("");
        for line in present.lines() {
            assert!(diff.contains(&format!("\n-{line}\n")), "{diff}");
        }
        let end = events.last().expect("events");
        assert!(end.is_final() && state_of(end.result()) == Some("input-required"));
        assert!(present.contains("by the user"), "{present}");
        std::fs::write(&path, format!("{present}and by the user\n")).expect("a file");
    }
    // The last change outdated the last question: after one more question the edit is made.
    for _ in 0..2 {
        fixture.client().call("message/send", approval(&task, &calls[0], "proceed_once"));
    }
    assert_eq!(fixture.file("notes.txt").as_deref(), Some("by the model\n"));
}

/// How many questions there were about each call of a task.
fn questions(fixture: &Fixture, task: &str) -> usize {
    let asks = |event: &&Event| call_status_of(event.result()) == "awaiting_approval";
    fixture.whole(task).iter().filter(asks).count()
}

#[test]
fn edits_of_one_file_are_asked_about_once_each_in_any_order_and_over_a_crash() {
    let mut fixture = Fixture::new();
    let path = fixture.server.workspace().join("list.txt");
    let script = "REPLACE list.txt one 1 ++ REPLACE list.txt two 2 ++ REPLACE list.txt 1 I";
    let ask = |fixture: &Fixture| {
        std::fs::write(&path, "one\ntwo\n").expect("a file");
        fixture.ask(script)
    };
    let answer = |fixture: &Fixture, task: &str, call: &str, outcome: &str| {
        fixture.client().call("message/send", approval(task, call, outcome));
        fixture.file("list.txt").expect("the file is there")
    };
    let (task, calls) = ask(&fixture);
    let diffs: Vec<String> = fixture
        .whole(&task)
        .iter()
        .filter(|event| call_status_of(event.result()) == "awaiting_approval")
        .map(|event| call_of(event.result())["confirmationDetails"]["fileDiff"].as_str().expect("a diff").to_owned())
        .collect();
    for (diff, change) in diffs.iter().zip(["-one\n+1\n two\n", " 1\n-two\n+2\n", "-1\n+I\n 2\n"]) {
        assert!(diff.ends_with(change), "{diff}");
    }
    assert_eq!(
        answer(&fixture, &task, &calls[2], "proceed_once"),
        "one\ntwo\n",
        "the edit waits for the ones before it"
    );
    assert_eq!(fixture.state(&task), "input-required");
    fixture.server.kill9();
    fixture.server.restart();
    assert_eq!(answer(&fixture, &task, &calls[0], "proceed_once"), "1\ntwo\n");
    assert_eq!(answer(&fixture, &task, &calls[1], "proceed_once"), "I\n2\n");
    assert_eq!(questions(&fixture, &task), 3);

    // "Always" covers the other open edits of the file.
    let (task, calls) = ask(&fixture);
    assert_eq!(answer(&fixture, &task, &calls[1], "proceed_always"), "I\n2\n");
    assert_eq!(questions(&fixture, &task), 3);

    // An edit that does not depend on the refused one is made as it was shown; one that depends on it fails.
    let (task, calls) = ask(&fixture);
    assert_eq!(answer(&fixture, &task, &calls[0], "cancel"), "one\ntwo\n");
    assert_eq!(answer(&fixture, &task, &calls[1], "proceed_once"), "one\n2\n");
    assert_eq!(answer(&fixture, &task, &calls[2], "proceed_once"), "one\n2\n");
    assert_eq!(questions(&fixture, &task), 3);

    // If somebody else changes the file between two edits, the next one is asked about again.
    let (task, calls) = ask(&fixture);
    assert_eq!(answer(&fixture, &task, &calls[0], "proceed_once"), "1\ntwo\n");
    std::fs::write(&path, "1\ntwo\nthree\n").expect("a file");
    assert_eq!(answer(&fixture, &task, &calls[1], "proceed_once"), "1\ntwo\nthree\n");
    assert_eq!(answer(&fixture, &task, &calls[1], "proceed_once"), "1\n2\nthree\n");
    assert_eq!(questions(&fixture, &task), 4);
}

#[test]
fn the_users_text_is_written_unless_the_file_has_changed() {
    let fixture = Fixture::new();
    let path = fixture.server.workspace().join("own.txt");
    let (task, calls) = fixture.ask("WRITE own.txt by the model");
    std::fs::write(&path, "appeared meanwhile\n").expect("a file");
    fixture.client().call("message/send", edited(&task, &calls[0], "mine\n"));
    assert_eq!(fixture.file("own.txt").as_deref(), Some("appeared meanwhile\n"));
    assert_eq!(fixture.state(&task), "input-required");
    fixture.client().call("message/send", edited(&task, &calls[0], "mine\n"));
    assert_eq!(fixture.file("own.txt").as_deref(), Some("mine\n"));
}

#[test]
fn answers_to_calls_that_are_not_waiting_change_nothing() {
    let fixture = Fixture::new();
    let (mine, my_calls) = fixture.ask("WRITE mine.txt x");
    let (other, other_calls) = fixture.ask("WRITE other.txt x");
    let mut client = fixture.client();
    let reason = |reply: Value| reply["error"]["data"]["reason"].clone();
    for call in [other_calls[0].as_str(), "no-such-call", "\u{0}", "../x"] {
        let reply = client.rpc("message/send", approval(&mine, call, "proceed_once"));
        assert_eq!(reply["error"]["code"], -32602, "{call}");
        assert_eq!(reason(reply), "TOOL_CALL_NOT_PENDING", "{call}");
    }
    for outcome in ["maybe", "", "PROCEED_ONCE"] {
        let reply = client.rpc("message/send", approval(&mine, &my_calls[0], outcome));
        assert_eq!(reply["error"]["code"], -32602, "{outcome:?}: {reply}");
    }
    let unknown = client.fault("message/send", approval("no-such-task", &my_calls[0], "proceed_once"));
    assert_eq!(unknown, -32001);
    for (task, calls) in [(mine, my_calls), (other, other_calls)] {
        assert_eq!(fixture.state(&task), "input-required");
        client.call("message/send", approval(&task, &calls[0], "proceed_once"));
    }
    assert_eq!(fixture.file("mine.txt").as_deref(), Some("x"));
    assert_eq!(fixture.file("other.txt").as_deref(), Some("x"));
}

#[test]
fn a_late_answer_with_text_is_ignored_and_the_text_is_a_prompt() {
    let fixture = Fixture::new();
    let (task, calls) = fixture.ask("WRITE once.txt x");
    fixture.client().call("message/send", approval(&task, &calls[0], "proceed_once"));
    let mut params = approval(&task, &calls[0], "proceed_once");
    let parts = params["message"]["parts"].as_array_mut().expect("parts");
    parts.push(json!({ "kind": "text", "text": "TEXT heard" }));
    let events: Vec<Event> = fixture.client().stream("message/stream", params).collect();
    let texts: String = events
        .iter()
        .filter(|event| kind_of(event.result()) == "text-content")
        .map(|event| text_of(event.result()))
        .collect();
    assert_eq!(texts, "heard");
}

#[test]
fn proceed_always_lasts_for_the_task_only() {
    let fixture = Fixture::new();
    let script = "SHELL echo one >> log.txt ;; SHELL echo two >> log.txt ;; TEXT both";
    let (task, calls) = fixture.ask(script);
    let events: Vec<Event> =
        fixture.client().stream("message/stream", approval(&task, &calls[0], "proceed_always")).collect();
    // Whether the second command counts as the same is the tool's rule; either way nothing ran that was not allowed.
    let asked = events.iter().filter(|event| asked_of(event.result()).is_some()).count();
    let log = fixture.file("log.txt").expect("the first ran");
    assert!(log == "one\n" || log == "one\ntwo\n", "{log} after {asked} questions");
    let (_, again) = fixture.ask("SHELL echo three >> log.txt");
    assert_eq!(again.len(), 1, "another task asks again");
}

// Cancelling.

#[test]
fn cancelling_ends_commands_and_their_processes() {
    let fixture = Fixture::new();
    let (plain, escaped, stubborn) = (unique_seconds(), unique_seconds(), unique_seconds());
    let script = format!(
        "SHELL trap '' TERM; echo begin; setsid -f sleep {escaped}; (trap '' TERM; exec sleep {stubborn}) & sleep {plain}"
    );
    let (task, calls) = fixture.ask(&script);
    let mut stream = fixture.client().stream("message/stream", approval(&task, &calls[0], "proceed_once"));
    stream.until("output", |event| event.result()["kind"] == "artifact-update");
    eventually("all three", || {
        let all = [&plain, &escaped, &stubborn];
        all.iter().all(|name| running(name).len() == 1).then_some(())
    });
    let canceled = fixture.client().call("tasks/cancel", json!({ "id": task }));
    assert_eq!(state_of(&canceled), Some("canceled"), "answered at once");
    let rest: Vec<Event> = stream.collect();
    let statuses: Vec<&str> =
        rest.iter().map(|event| call_status_of(event.result())).filter(|word| !word.is_empty()).collect();
    assert_eq!(statuses, ["cancelled"]);
    assert!(rest.last().is_some_and(Event::is_final));
    eventually("nothing left running", || {
        let all = [&plain, &escaped, &stubborn];
        all.iter().all(|name| running(name).is_empty()).then_some(())
    });
    assert_eq!(fixture.client().fault("tasks/cancel", json!({ "id": task })), -32002);
    let late = fixture.client().fault("message/send", prompt_in(&task, "TEXT hello"));
    assert_eq!(late, -32600);
}

#[test]
fn cancelling_drops_open_questions_and_queued_prompts() {
    let fixture = Fixture::new();
    let (task, calls) = fixture.ask("WRITE never.txt x");
    let mut queued = prompt_in(&task, "TEXT never asked");
    queued["configuration"] = json!({ "blocking": false });
    fixture.client().call("message/send", queued);
    fixture.client().call("tasks/cancel", json!({ "id": task }));
    let answer = fixture.client().fault("message/send", approval(&task, &calls[0], "proceed_once"));
    assert_eq!(answer, -32600);
    assert_eq!(fixture.file("never.txt"), None);
    assert_eq!(fixture.fake.turns().len(), 1, "the queued prompt never reached the model");
}

#[test]
fn every_subscriber_sees_the_cancellation() {
    let fixture = Fixture::new();
    let mut prompting = fixture.client().stream("message/stream", prompt("TEXT a ++ HOLD"));
    let first = prompting.until("text", |event| kind_of(event.result()) == "text-content");
    let task = task_in(&[first]);
    let watching = fixture.client().stream("tasks/resubscribe", json!({ "id": task }));
    let mut waiting = prompt_in(&task, "TEXT queued");
    waiting["configuration"] = json!({ "blocking": true });
    let url = fixture.server.url();
    let waiter = std::thread::spawn(move || Client::new(&url).rpc("message/send", waiting));
    eventually("the queued prompt", || {
        let history = fixture.task(&task)["history"].as_array().map(Vec::len);
        (history == Some(3)).then_some(())
    });
    fixture.client().call("tasks/cancel", json!({ "id": task }));
    for stream in [prompting, watching] {
        let last = stream.last().expect("a last event");
        assert!(last.is_final());
        assert_eq!(state_of(last.result()), Some("canceled"));
        assert_eq!(text_of(last.result()), "Task canceled by user request.");
    }
    let waited = waiter.join().expect("an answer");
    assert_eq!(state_of(&waited["result"]), Some("canceled"), "{waited}");
    eventually("the model's stream to be broken off", || (fixture.fake.counters().broken == 1).then_some(()));
}

// The queue.

#[test]
fn prompts_are_answered_in_the_order_they_were_accepted() {
    let fixture = Fixture::new();
    let mut prompting = fixture.client().stream("message/stream", prompt("HOLD ++ TEXT 0"));
    let task = task_in(&[prompting.next().expect("a task")]);
    let streams: Vec<_> = (1..=5)
        .map(|n| {
            let params = prompt_in(&task, &format!("TEXT {n}"));
            fixture.client().stream("message/stream", params)
        })
        .collect();
    fixture.fake.release();
    prompting.for_each(drop);
    for (n, stream) in (1..=5).zip(streams) {
        let events: Vec<Event> = stream.collect();
        let texts: Vec<String> = events
            .iter()
            .filter(|event| kind_of(event.result()) == "text-content")
            .map(|event| text_of(event.result()))
            .collect();
        assert_eq!(texts.last(), Some(&n.to_string()), "its stream ends with its own answer");
        assert!(events.last().is_some_and(Event::is_final));
    }
    let history = fixture.task(&task)["history"].clone();
    let texts: Vec<&str> =
        history.as_array().into_iter().flatten().filter_map(|message| message["parts"][0]["text"].as_str()).collect();
    assert_eq!(
        texts,
        ["HOLD ++ TEXT 0", "0", "TEXT 1", "1", "TEXT 2", "2", "TEXT 3", "3", "TEXT 4", "4", "TEXT 5", "5"]
    );
}

#[test]
fn a_full_prompt_queue_answers_with_retry_after() {
    let fixture = Fixture::new();
    let mut prompting = fixture.client().stream("message/stream", prompt("HOLD"));
    let task = task_in(&[prompting.next().expect("a task")]);
    let mut client = fixture.client();
    let send = |client: &mut Client, n: u32| {
        let mut params = prompt_in(&task, &format!("TEXT {n}"));
        params["configuration"] = json!({ "blocking": false });
        let body = json!({ "jsonrpc": "2.0", "id": n, "method": "message/send", "params": params });
        client.post("/", &body)
    };
    let refused = (1..=64).map(|n| send(&mut client, n)).find(|answer| answer.status() != 200).expect("a limit");
    assert_eq!(refused.status(), 503);
    assert!(refused.head.field("retry-after").is_some());
    assert_eq!(refused.json()["error"]["data"]["reason"], "OVERLOADED");
    client.call("tasks/cancel", json!({ "id": task }));
}
