//! Everything that a server must not do. A server with tasks in every state is sent hundreds of requests that are wrong in one
//! way each: members that are missing or of another type, tasks of others, answers to questions that nobody asks, bodies that are
//! no JSON, in every dialect and over every door. Each is refused in the words of its dialect, with exactly the code that the
//! protocol has for it; not a byte of any journal changes, nothing is started, nobody is told, and the connection can be used on.
//!
//! What looks wrong but is not is tried as well, each in a server of its own: it must be taken. And requests that chance has
//! bitten into are sent by the thousand, of which nothing is known but that the server stays what it is:
//!
//!     REFUSED_SEED=17 cargo test --test refused chance      one run of them
//!     REFUSED_MANY=1000000 cargo test --release --test refused chance

#[path = "refused/chaos.rs"]
mod chaos;
mod core_harness;
#[path = "refused/corpus.rs"]
mod corpus;
#[path = "refused/forged.rs"]
mod forged;
#[path = "support/frame.rs"]
mod frame;
#[path = "support/http.rs"]
#[allow(dead_code)] // Only the half of it that reads answers.
mod http;
#[path = "refused/line.rs"]
mod line;
#[path = "support/random.rs"]
mod random;
#[path = "refused/send.rs"]
mod send;
#[path = "support/sse.rs"]
mod sse;
mod task;
#[path = "refused/test_server.rs"]
mod test_server;
#[path = "refused/verdict.rs"]
mod verdict;
#[path = "refused/ways.rs"]
mod ways;

use chaos::Chaos;
use corpus::{Carrier, Expected, Made};
use send::{Door, Sent};
use test_server::TestServer;

/// The files of the corpus, and the doors through which what they hold is sent.
const FILES: [(&str, &[Door]); 8] = [
    (include_str!("corpus/requests/rpc-0.3.json"), &[Door::Http, Door::Rpc03]),
    (include_str!("corpus/requests/rpc-1.0.json"), &[Door::Http, Door::Rpc10]),
    (include_str!("corpus/requests/rest-0.3.json"), &[Door::Http]),
    (include_str!("corpus/requests/rest-0.3-kind.json"), &[Door::Http]),
    (include_str!("corpus/requests/rest-1.0.json"), &[Door::Http]),
    (include_str!("corpus/requests/gemini.json"), &[Door::Http]),
    (include_str!("corpus/requests/session.json"), &[Door::Session]),
    (include_str!("corpus/requests/own.json"), &[Door::Own]),
];

/// Every request there is, with the door it goes through.
fn requests() -> Vec<(Door, Made)> {
    let mut requests = Vec::new();
    for (text, doors) in FILES {
        let dialect = corpus::read(text);
        for door in doors {
            let carrier = match door {
                Door::Http => Carrier::Http,
                Door::Session | Door::Rpc03 | Door::Rpc10 | Door::Own => Carrier::Socket,
            };
            let made = dialect.made(carrier);
            requests.extend(made.into_iter().map(|made| (*door, made)));
        }
    }
    requests.extend(forged::requests());
    requests
}

#[test]
fn invalid_requests_are_refused_and_change_nothing() {
    let requests = requests();
    let wrong = requests.iter().filter(|(_, made)| matches!(made.expected, Expected::Refusal { .. }));
    let mut server = TestServer::new();
    let before = server.journals();
    let census = server.census();
    let (mut count, mut failures) = (0, Vec::new());
    for (door, made) in wrong {
        count += 1;
        let mut wrong_with = match send::refused(&mut server, *door, made) {
            Ok(()) => Vec::new(),
            Err(why) => vec![why],
        };
        let outs = server.take_outs();
        if !outs.is_empty() {
            wrong_with.push(format!("something began: {outs:?}"));
        }
        if server.journals() != before || server.census().tasks != census.tasks {
            wrong_with.push("a journal changed".into());
            server = TestServer::new();
        }
        if !wrong_with.is_empty() {
            failures.push(format!("{door:?} {}: {}", made.name, wrong_with.join("; ")));
        }
    }
    let left = server.census();
    assert_eq!((left.conns, left.subs), (0, 0), "something stayed open");
    println!("{count} requests were refused");
    assert!(count >= 300, "only {count}");
    none_failed(count, &failures);
}

fn none_failed(count: u32, failures: &[String]) {
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn unusual_but_valid_requests_are_accepted() {
    let requests = requests();
    let right = requests.iter().filter(|(_, made)| matches!(made.expected, Expected::Success));
    let (mut count, mut failures) = (0, Vec::new());
    for (door, made) in right {
        count += 1;
        let mut server = TestServer::at_work();
        if let Err(why) = send::accepted(&mut server, *door, made) {
            failures.push(format!("{door:?} {}: {why}", made.name));
        }
    }
    println!("{count} requests were taken");
    assert!(count >= 100, "only {count}");
    none_failed(count, &failures);
}

/// Lists name no task, so nothing in them is refused; what is not to be seen is just not there.
#[test]
fn tasks_of_another_client_are_not_visible() {
    let mut server = TestServer::new();
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let own = format!("{upgrade}Sec-WebSocket-Protocol: gemini-a2a.v1\r\n");
    for (target, headers) in [
        ("/tasks", ""),
        ("/tasks/metadata", ""),
        ("/tasks?pageSize=100", "A2A-Version: 1.0\r\n"),
        ("/v1/tasks", ""),
        ("/ws?taskId=*", upgrade),
        ("/ws?taskId=*", own.as_str()),
    ] {
        let shown = send::shown(&mut server, target, headers);
        for (name, expected) in [("$waiting", true), ("$foreign", false)] {
            let task = server.fill(name);
            assert_eq!(shown.contains(&task), expected, "{name} at {target}: {shown}");
        }
    }
    let shown = send::shown(&mut server, "/acme/tasks", "");
    assert!(shown.contains(&server.fill("$foreign")), "{shown}");
    assert!(!shown.contains(&server.fill("$waiting")), "{shown}");
}

#[test]
fn websockets_are_closed_with_the_code_of_the_error() {
    let mut server = TestServer::new();
    let before = server.journals();
    for door in [Door::Session, Door::Rpc03, Door::Rpc10, Door::Own] {
        let large = vec![b'x'; test_server::LARGEST + 1];
        for (name, frame, code) in [
            ("binary", frame::masked(2, b"{}"), 1003),
            ("no UTF-8", frame::masked(1, b"\xff\xfe"), 1007),
            ("too large", frame::masked(1, &large), 1009),
            ("not masked", b"\x81\x02{}".to_vec(), 1002),
            ("an unknown kind", frame::masked(3, b"{}"), 1002),
            ("the end of nothing", frame::masked(0, b"{}"), 1002),
        ] {
            let closed = send::closed(&mut server, door, &frame);
            assert_eq!(closed, Ok(code), "{door:?} {name}");
        }
    }
    assert!(server.journals() == before, "a journal changed");
    assert_eq!(server.take_outs(), [""; 0]);
}

#[test]
fn random_requests_do_not_break_the_server() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seed: u64 = number("REFUSED_SEED").unwrap_or(1);
    let many: u64 = number("REFUSED_MANY").unwrap_or(5_000);
    let right: Vec<(Door, Made)> =
        requests().into_iter().filter(|(_, made)| matches!(made.expected, Expected::Success)).collect();
    let mut chaos = Chaos::new(seed, right);
    let mut tally = std::collections::BTreeMap::new();
    for n in 0..many {
        let what = chaos.step().unwrap_or_else(|why| {
            panic!("request {n} of REFUSED_SEED={seed}: {why}");
        });
        *tally.entry(what).or_insert(0) += 1;
    }
    println!("{many} requests that chance has bitten into: {tally:?}");
    if many >= 5_000 {
        // One in some thousands still makes sense and waits: too few to be sure of one here.
        let rare = (many >= 100_000).then_some(Sent::Waits);
        let often = [Sent::Refused, Sent::Taken, Sent::Closed];
        for what in often.into_iter().chain(rare) {
            assert!(tally.contains_key(&what), "never {what:?}: {tally:?}");
        }
    }
}
