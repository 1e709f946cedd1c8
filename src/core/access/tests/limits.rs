//! The limits of a credential: turns, streams and calls.

use super::{Server, bearer, credential, file, get, message, post, token};
use crate::a2a::Dialect;
use crate::base::id::TaskId;
use crate::core::Input;
use crate::core::access::tests::rights::principal;
use crate::core::connections::connection::{Link, Peer};
use crate::limits::access::{BUDGETS, CALLS_BURST};
use crate::task::access::Right;
use crate::task::access::token::Hash;
use crate::task::call::Call;
use crate::task::log::answer::Answer;
use crate::task::machine::job::{Note, NoteBody};
use crate::task::machine::state::Phase;
use serde_json::{Value, json};

fn limited(rate: &Value) -> Vec<Value> {
    let mut ann = credential("laptop", "ann", &["view", "prompt", "approve"]);
    ann["rate"] = rate.clone();
    vec![ann, credential("phone", "bob", &["view", "prompt"])]
}

fn prompt(server: &mut Server, id: &str) -> TaskId {
    let answer = server.ask(&post("/message:send", &bearer(id), &message("hi"))).json();
    answer["task"]["id"].as_str().unwrap_or_else(|| panic!("a task: {answer}")).into()
}

/// Ends the turn of a task.
fn end(server: &mut Server, task: &TaskId) {
    let job = server.test.jobs.iter().find(|job| job.task == *task).expect("a job").clone();
    let body = NoteBody::Answered(Ok(Answer::new("Done.", [])));
    server.test.core.note(Note { job, body }, server.test.now);
    server.test.turns();
}

#[test]
fn turns_above_the_limit_wait_in_order_and_show_their_place() {
    let mut server = Server::new(&limited(&json!({"turns": 2})));
    let tasks: Vec<TaskId> = (0..5).map(|_| prompt(&mut server, "laptop")).collect();
    let begun =
        |server: &Server| -> Vec<bool> { tasks.iter().map(|task| server.test.state(task).turn.number == 1).collect() };
    assert_eq!(begun(&server), [true, true, false, false, false]);
    // Another credential is not affected.
    let other = prompt(&mut server, "phone");
    assert_eq!(server.test.state(&other).turn.number, 1);
    let journal = |server: &Server, task: &TaskId| String::from_utf8_lossy(&server.test.store.bytes(task)).into_owned();
    assert!(journal(&server, &tasks[4]).contains("{\"delayed\":{\"place\":3}}"), "{}", journal(&server, &tasks[4]));
    // A client that follows the task is shown its place.
    let key = server.connect();
    server.send(key, &post("/message:stream", &bearer("laptop"), &message("hi")));
    assert!(server.take(key).contains("3 wait before it"));
    end(&mut server, &tasks[0]);
    assert_eq!(begun(&server), [true, true, true, false, false]);
    assert!(journal(&server, &tasks[3]).contains("{\"delayed\":{\"place\":1}}"));
    // A prompt that was taken back does not hold up the others.
    server
        .test
        .core
        .drive(&tasks[3], crate::task::machine::decide::Input::Cancel, server.test.now)
        .expect("it is open");
    end(&mut server, &tasks[1]);
    assert_eq!(begun(&server), [true, true, true, false, true]);
    assert_eq!(server.test.core.tasks.running_turns("laptop"), 2);
}

#[test]
fn a_turn_that_waits_for_an_answer_does_not_count() {
    let mut server = Server::new(&limited(&json!({"turns": 1})));
    let first = prompt(&mut server, "laptop");
    let second = prompt(&mut server, "laptop");
    assert_eq!(server.test.state(&second).phase, Phase::Idle);
    server.test.ask_to_run(&first, "c-1");
    assert_eq!(server.test.state(&second).turn.number, 1, "it has begun");
}

/// The restart interrupts and ends the turn that was under way. The others begin one by one, in their order.
#[test]
fn turns_still_wait_after_a_restart() {
    let credentials = limited(&json!({"turns": 1}));
    let mut server = Server::new(&credentials);
    let tasks = [(); 3].map(|()| prompt(&mut server, "laptop"));
    server.restart(&credentials);
    let begun = |server: &Server| tasks.each_ref().map(|task| server.test.state(task).turn.number == 1);
    let running = |server: &Server| server.test.core.tasks.running_turns("laptop");
    assert!(server.test.state(&tasks[0]).is_idle(), "its turn has ended");
    assert_eq!((begun(&server), running(&server)), ([true, true, false], 1));
    end(&mut server, &tasks[1]);
    assert_eq!((begun(&server), running(&server)), ([true, true, true], 1));
    end(&mut server, &tasks[2]);
    assert_eq!(running(&server), 0);
}

#[test]
fn more_streams_are_refused() {
    let mut server = Server::new(&limited(&json!({"streams": 2, "turns": 1})));
    let stream = post("/message:stream", &bearer("laptop"), &message("hi"));
    let keys = [(); 2].map(|()| {
        let key = server.connect();
        server.send(key, &stream);
        assert!(server.take(key).starts_with("HTTP/1.1 200"));
        key
    });
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let command = post("/executeCommand", &bearer("laptop"), &json!({"command": "init", "args": []}));
    for request in [stream.clone(), command, get("/ws", &format!("{upgrade}{}", bearer("laptop")))] {
        let refused = server.ask(&request);
        assert_eq!(refused.status, 429, "{refused:?}");
        assert!(refused.head.contains("Retry-After: 5"), "{refused:?}");
    }
    assert_eq!(server.ask(&get("/tasks", &bearer("laptop"))).status, 200, "calls are answered");
    let other = server.connect();
    server.send(other, &post("/message:stream", &bearer("phone"), &message("hi")));
    assert!(server.take(other).starts_with("HTTP/1.1 200"), "those of others are not counted");
    server.test.core.input(Input::Broke { conn: keys[0] }, server.test.now);
    let key = server.connect();
    server.send(key, &stream);
    assert!(server.take(key).starts_with("HTTP/1.1 200"));
}

#[test]
fn streams_that_begin_in_the_same_turn_of_the_loop_are_counted() {
    let mut server = Server::new(&limited(&json!({"streams": 2})));
    let stream = post("/message:stream", &bearer("laptop"), &message("hi"));
    let keys = [(); 4].map(|()| server.connect());
    for conn in keys {
        server.test.core.input(Input::Received { conn, bytes: stream.as_bytes() }, server.test.now);
    }
    server.test.turns();
    let statuses = keys.map(|key| server.take(key).split(' ').nth(1).map(str::to_owned).expect("a status"));
    assert_eq!(statuses, ["200", "200", "429", "429"]);
}

#[test]
fn native_clients_are_told_when_to_try_again() {
    let mut test = crate::core::test_core::TestCore::new();
    test.principal = principal("ann", &[Right::View, Right::Prompt]);
    let mut said = Value::Null;
    for _ in 0..=crate::limits::access::PROMPTS_BURST {
        said = test
            .ask(Dialect::NATIVE, Call::Say(crate::core::test_core::say("hi", crate::task::log::event::Protocol::V03)));
    }
    assert_eq!(said["error"]["reason"], "RATE_LIMITED", "{said}");
    assert_eq!(said["error"]["retryAfterMs"], 1_000, "{said}");
}

#[test]
fn retry_after_is_the_exact_time_until_a_call_is_accepted() {
    let mut server = Server::new(&limited(&json!({"calls_per_minute": 60})));
    let ask = get("/tasks", &bearer("laptop"));
    let spent = (0..CALLS_BURST).take_while(|_| server.ask(&ask).status == 200).count();
    assert_eq!(spent, 60, "the burst is no more than a minute's share");
    assert!(server.ask(&ask).head.contains("Retry-After: 1\r\n"));
    server.test.later(1_000);
    assert_eq!(server.ask(&ask).status, 200);
    assert_eq!(server.ask(&ask).status, 429);
    assert_eq!(server.ask(&get("/tasks", &bearer("phone"))).status, 200);
}

#[test]
fn the_client_address_is_that_before_trusted_proxies() {
    let mut server = Server::changed(&limited(&json!({})), |setup| {
        setup.access.proxies = vec![("10.0.0.0".parse().expect("an address"), 8)];
    });
    let mut address = |peer: &str, forwarded: &str| {
        let key = server.connect_over(Some(peer.parse().expect("an address")), Link::Tcp, Peer::Stranger);
        server.send(key, &get("/tasks", &format!("{forwarded}{}", bearer("laptop"))));
        server.take(key);
        server.test.core.input(Input::Broke { conn: key }, server.test.now);
        server.test.turns();
        server.test.accesses.pop().expect("a line").peer.expect("an address").to_string()
    };
    let forwarded = |list: &str| format!("X-Forwarded-For: {list}\r\n");
    assert_eq!(address("10.0.0.7", ""), "10.0.0.7");
    assert_eq!(address("10.0.0.7", &forwarded("192.0.2.1")), "192.0.2.1");
    assert_eq!(address("::ffff:10.0.0.7", &forwarded("192.0.2.1")), "192.0.2.1");
    assert_eq!(address("10.0.0.7", &forwarded("198.51.100.9, 192.0.2.1, 10.1.1.1")), "192.0.2.1", "the right-most one");
    assert_eq!(address("10.0.0.7", &forwarded("192.0.2.1:5123")), "192.0.2.1");
    assert_eq!(address("10.0.0.7", &forwarded("unknown")), "10.0.0.7");
    assert_eq!(address("192.0.2.9", &forwarded("198.51.100.9")), "192.0.2.9", "it is no proxy of ours");
}

/// A proxy at a Unix socket has no address that could be named.
#[test]
fn a_proxy_at_a_named_unix_socket_is_believed_if_there_are_proxies() {
    let network = |text: &str, prefix| (text.parse().expect("an address"), prefix);
    for (proxies, link, peer, shown) in [
        (vec![network("10.0.0.0", 8)], Link::NamedUnix, Peer::SameUser, Some("192.0.2.1")),
        (vec![network("10.0.0.0", 8)], Link::NamedUnix, Peer::MaybeTool, Some("192.0.2.1")),
        (vec![network("192.0.2.0", 24)], Link::NamedUnix, Peer::SameUser, Some("198.51.100.9")),
        (vec![], Link::NamedUnix, Peer::SameUser, None),
        (vec![network("10.0.0.0", 8)], Link::NamedUnix, Peer::Stranger, None),
    ] {
        let mut server = Server::changed(&limited(&json!({})), |setup| setup.access.proxies = proxies.clone());
        let key = server.connect_over(None, link, peer);
        let forwarded = "X-Forwarded-For: 198.51.100.9, 192.0.2.1\r\n";
        server.send(key, &get("/tasks", &format!("{forwarded}{}", bearer("laptop"))));
        assert!(server.take(key).starts_with("HTTP/1.1 200"));
        server.test.core.input(Input::Broke { conn: key }, server.test.now);
        server.test.turns();
        let peer_shown = server.test.accesses.pop().expect("a line").peer.map(|address| address.to_string());
        let expected = shown.map(str::to_owned);
        let is_address = |text: &String| text.parse::<::core::net::IpAddr>().is_ok();
        assert_eq!(peer_shown.filter(is_address), expected, "{proxies:?} {peer:?}");
    }
}

#[test]
fn a_former_secret_and_an_expired_credential_end_without_a_change_of_the_file() {
    let mut server = Server::new(&[]);
    let now = server.test.now.unix_ms;
    let time = |after_ms: u64| crate::base::clock::rfc3339(now + after_ms);
    let mut rotated = credential("laptop", "ann", &["view", "prompt"]);
    rotated["was"] = json!({"sha256": Hash::of(&token("laptop")).to_string(), "until": time(60_000)});
    rotated["sha256"] = json!(Hash::of("ga2a_laptop_new").to_string());
    let mut expiring = credential("phone", "bob", &["view", "prompt"]);
    expiring["not_after"] = json!(time(30_000));
    server.test.core.input(Input::Credentials(Some(Ok(file(&[rotated, expiring])))), now_of(&server));
    // The file is never read again.
    server.test.credentials_hang = true;
    let keys = ["laptop", "phone"].map(|id| {
        let key = server.connect();
        server.send(key, &post("/message:stream", &bearer(id), &message("hi")));
        assert!(server.take(key).starts_with("HTTP/1.1 200"), "{id}");
        key
    });
    let new = server.connect();
    let authorization = "Authorization: Bearer ga2a_laptop_new\r\n";
    server.send(new, &post("/message:stream", authorization, &message("hi")));
    assert!(server.take(new).starts_with("HTTP/1.1 200"));
    let ended = |server: &mut Server, key| server.take(key).ends_with("0\r\n\r\n");
    server.test.later(29_999);
    assert!(!ended(&mut server, keys[1]));
    server.test.later(1);
    assert!(ended(&mut server, keys[1]), "it has expired");
    assert!(!ended(&mut server, keys[0]));
    server.test.later(30_000);
    assert!(ended(&mut server, keys[0]), "its secret was the former one");
    assert!(!ended(&mut server, new));
    server.test.credentials_hang = false;
    assert_eq!(server.ask(&get("/tasks", &bearer("laptop"))).status, 401, "nor is it accepted any more");
    assert_eq!(server.ask(&get("/tasks", authorization)).status, 200);
}

fn now_of(server: &Server) -> crate::base::clock::Now {
    server.test.now
}

#[test]
fn the_number_of_budgets_is_limited() {
    let mut server = Server::new(&limited(&json!({})));
    let mut now = server.test.now;
    let access = &mut server.test.core.access;
    let mut call = |n: usize, now| access.budgets(&format!("jwt:s{n}").into(), Default::default(), now).calls.take(now);
    for n in 0..BUDGETS + 1 {
        assert!(call(n, now).is_ok());
    }
    assert_eq!(server.test.core.access.budgets.len(), BUDGETS, "one was forgotten for the last");
    // Those that have not called for a while are forgotten first, and lose nothing.
    now.mono_ms += 60_000;
    let access = &mut server.test.core.access;
    access.budgets(&"jwt:new".into(), Default::default(), now);
    assert_eq!(access.budgets.len(), 1);
}
