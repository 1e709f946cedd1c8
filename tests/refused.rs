//! Requests that a server must refuse. A server with tasks in every state receives hundreds of requests that are invalid in one way each:
//! members that are missing or of another type, tasks of others, answers to questions that are not open, bodies that are not JSON, in every
//! dialect and through every entry point. Each is refused in the error format of its dialect, with exactly the code of the protocol; no
//! journal changes, nothing is started, no client receives an event, and the connection can be used for the next request.
//!
//! Unusual requests that are valid must be accepted, each by a server of its own. Thousands of randomly damaged requests must not break the
//! server:
//!
//!     REFUSED_SEED=17 cargo test --test refused random      one run of them
//!     REFUSED_MANY=1000000 cargo test --release --test refused random

#[path = "refused/chaos.rs"]
mod chaos;
#[path = "refused/connection.rs"]
mod connection;
mod core_harness;
#[path = "refused/corpus.rs"]
mod corpus;
#[path = "refused/error_format.rs"]
mod error_format;
#[path = "refused/forged_answers.rs"]
mod forged_answers;
#[path = "support/frame.rs"]
mod frame;
#[path = "support/http.rs"]
#[allow(dead_code)] // These tests only read responses.
mod http;
#[path = "support/random.rs"]
mod random;
#[path = "refused/send.rs"]
mod send;
#[path = "support/sse.rs"]
mod sse;
mod task;
#[path = "refused/test_server.rs"]
mod test_server;
#[path = "refused/variants.rs"]
mod variants;

use chaos::Chaos;
use corpus::{Carrier, Expected, TestRequest};
use send::{EntryPoint, Outcome};
use test_server::TestServer;

/// The files of the corpus, and the entry points through which their requests are sent.
const FILES: [(&str, &[EntryPoint]); 8] = [
    (include_str!("corpus/requests/rpc-0.3.json"), &[EntryPoint::Http, EntryPoint::Rpc03]),
    (include_str!("corpus/requests/rpc-1.0.json"), &[EntryPoint::Http, EntryPoint::Rpc10]),
    (include_str!("corpus/requests/rest-0.3.json"), &[EntryPoint::Http]),
    (include_str!("corpus/requests/rest-0.3-kind.json"), &[EntryPoint::Http]),
    (include_str!("corpus/requests/rest-1.0.json"), &[EntryPoint::Http]),
    (include_str!("corpus/requests/gemini.json"), &[EntryPoint::Http]),
    (include_str!("corpus/requests/session.json"), &[EntryPoint::Session]),
    (include_str!("corpus/requests/own.json"), &[EntryPoint::Native]),
];

/// All requests, each with its entry point.
fn requests() -> Vec<(EntryPoint, TestRequest)> {
    let mut requests = Vec::new();
    for (text, entries) in FILES {
        let dialect = corpus::read(text);
        for entry in entries {
            let carrier = match entry {
                EntryPoint::Http => Carrier::Http,
                EntryPoint::Session | EntryPoint::Rpc03 | EntryPoint::Rpc10 | EntryPoint::Native => Carrier::Socket,
            };
            requests.extend(dialect.requests(carrier).into_iter().map(|request| (*entry, request)));
        }
    }
    requests.extend(forged_answers::requests());
    requests
}

#[test]
fn invalid_requests_are_refused_and_change_nothing() {
    let requests = requests();
    let invalid = requests.iter().filter(|(_, request)| matches!(request.expected, Expected::Refusal { .. }));
    let mut server = TestServer::new();
    let before = server.journals();
    let counts = server.counts();
    let (mut count, mut failures) = (0, Vec::new());
    for (entry, request) in invalid {
        count += 1;
        let mut problems = match send::check_refused(&mut server, *entry, request) {
            Ok(()) => Vec::new(),
            Err(why) => vec![why],
        };
        let outs = server.take_outs();
        if !outs.is_empty() {
            problems.push(format!("the request had an effect: {outs:?}"));
        }
        if server.journals() != before || server.counts().tasks != counts.tasks {
            problems.push("a journal changed".into());
            server = TestServer::new();
        }
        if !problems.is_empty() {
            failures.push(format!("{entry:?} {}: {}", request.name, problems.join("; ")));
        }
    }
    let counts = server.counts();
    assert_eq!((counts.conns, counts.subs), (0, 0), "a connection or a subscription stayed open");
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
    let valid = requests.iter().filter(|(_, request)| matches!(request.expected, Expected::Success));
    let (mut count, mut failures) = (0, Vec::new());
    for (entry, request) in valid {
        count += 1;
        let mut server = TestServer::with_workers();
        if let Err(why) = send::check_accepted(&mut server, *entry, request) {
            failures.push(format!("{entry:?} {}: {why}", request.name));
        }
    }
    println!("{count} requests were accepted");
    assert!(count >= 100, "only {count}");
    none_failed(count, &failures);
}

/// Requests for lists name no task, so they are not refused: the list leaves out the tasks of other clients.
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
        let text = send::response_text(&mut server, target, headers);
        for (name, expected) in [("$waiting", true), ("$foreign", false)] {
            let task = server.fill(name);
            assert_eq!(text.contains(&task), expected, "{name} at {target}: {text}");
        }
    }
    let text = send::response_text(&mut server, "/acme/tasks", "");
    assert!(text.contains(&server.fill("$foreign")), "{text}");
    assert!(!text.contains(&server.fill("$waiting")), "{text}");
}

#[test]
fn websockets_are_closed_with_the_code_of_the_error() {
    let mut server = TestServer::new();
    let before = server.journals();
    for entry in [EntryPoint::Session, EntryPoint::Rpc03, EntryPoint::Rpc10, EntryPoint::Native] {
        let large = vec![b'x'; test_server::LARGEST + 1];
        for (name, frame, code) in [
            ("binary", frame::masked(2, b"{}"), 1003),
            ("no UTF-8", frame::masked(1, b"\xff\xfe"), 1007),
            ("too large", frame::masked(1, &large), 1009),
            ("not masked", b"\x81\x02{}".to_vec(), 1002),
            ("an unknown opcode", frame::masked(3, b"{}"), 1002),
            ("a continuation without a beginning", frame::masked(0, b"{}"), 1002),
        ] {
            let close_code = send::close_code(&mut server, entry, &frame);
            assert_eq!(close_code, Ok(code), "{entry:?} {name}");
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
    let valid: Vec<(EntryPoint, TestRequest)> =
        requests().into_iter().filter(|(_, request)| matches!(request.expected, Expected::Success)).collect();
    let mut chaos = Chaos::new(seed, valid);
    let mut tally = std::collections::BTreeMap::new();
    for n in 0..many {
        let what = chaos.step().unwrap_or_else(|why| {
            panic!("request {n} of REFUSED_SEED={seed}: {why}");
        });
        *tally.entry(what).or_insert(0) += 1;
    }
    println!("{many} randomly damaged requests: {tally:?}");
    if many >= 5_000 {
        // Only one in some thousands is a valid request that waits, so a short run may have none.
        let rare = (many >= 100_000).then_some(Outcome::Pending);
        let often = [Outcome::Refused, Outcome::Accepted, Outcome::Closed];
        for what in often.into_iter().chain(rare) {
            assert!(tally.contains_key(&what), "never {what:?}: {tally:?}");
        }
    }
}
