//! Limits: wrong credentials per address, and calls per credential. Of a request with a wrong credential only the head is read.

use crate::support::client::Client;
use crate::support::eventually;
use crate::{TokenServer, edit_credentials, send, token};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

/// The statuses of `count` requests with wrong tokens, whose `X-Forwarded-For` has these addresses in turn.
fn wrong_tokens(token_server: &TokenServer, count: usize, addresses: &[&str]) -> Vec<u16> {
    let mut client = token_server.client_without_token();
    let mut one = |n: usize| {
        let id = if n.is_multiple_of(2) { "a" } else { "unknown" };
        let bearer = format!("Bearer ga2a_{id}_{n}");
        let address = addresses[n % addresses.len()];
        client.request("GET", "/tasks", &[("Authorization", &bearer), ("X-Forwarded-For", address)], b"").status()
    };
    (0..count).map(&mut one).collect()
}

#[test]
fn ten_thousand_wrong_tokens_lock_nobody_out() {
    let token_server = TokenServer::new(&[["a", "dev", "view"]]);
    let statuses = wrong_tokens(&token_server, 10_000, &["192.0.2.1"]);
    assert_eq!(statuses[..10], [401; 10]);
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert!(refused > 9_000, "{refused}");
    assert!(statuses.iter().all(|status| matches!(status, 401 | 429)));
    for _ in 0..20 {
        assert_eq!(token_server.client(0).get("/tasks").status(), 200, "a valid credential from the same address");
    }
}

#[test]
fn addresses_are_taken_only_from_a_trusted_proxy() {
    let addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
    let open = TokenServer::new(&[["a", "dev", "view"]]);
    let statuses = wrong_tokens(&open, 30, &addresses);
    assert!(statuses[15..].contains(&429), "all are one address: {statuses:?}");
    let behind = TokenServer::with(&[["a", "dev", "view"]], |setup| setup.args(["--trusted-proxy", "127.0.0.0/8"]));
    assert_eq!(wrong_tokens(&behind, 30, &addresses), [401; 30], "each address has its own limit of ten");
    // The right-most address that is not a proxy counts; the client may have invented those before it.
    let made_up = ["198.51.100.1, 192.0.2.1", "198.51.100.2, 192.0.2.1, 127.0.0.9"];
    let statuses = wrong_tokens(&behind, 6, &made_up);
    assert_eq!(statuses[..1], [429], "{statuses:?}");
}

#[test]
fn a_request_after_the_retry_after_time_is_served() {
    let rate = |entry: &mut serde_json::Value| entry["rate"] = json!({ "calls_per_minute": 60 });
    let token_server = TokenServer::edited(&[["a", "dev", "view"], ["b", "dev", "view"]], rate, |setup| setup);
    let mut client = token_server.client(0);
    let refused = eventually("the budget is used up", || {
        let answer = client.get("/tasks");
        (answer.status() == 429).then_some(answer)
    });
    let seconds = refused.head.field("retry-after").and_then(|text| text.parse().ok()).expect("a time");
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(token_server.client(1).get("/tasks").status(), 200, "others do not wait");
    sleep(Duration::from_secs(seconds));
    assert_eq!(client.get("/tasks").status(), 200, "served after the time in Retry-After");
}

#[test]
fn a_changed_limit_holds_at_once() {
    let token_server = TokenServer::new(&[["a", "dev", "view,prompt"]]);
    let mut client = token_server.client(0);
    assert_eq!(client.get("/tasks").status(), 200);
    edit_credentials(token_server.state.path(), |entry| entry["rate"] = json!({ "prompts_per_minute": 1 }));
    eventually("prompts are refused", || {
        let answer = send(&mut client, "hello", json!({}));
        (answer.status() == 429).then_some(())
    });
    assert_eq!(client.get("/tasks").status(), 200, "other calls are not refused");
}

#[test]
fn a_former_token_is_refused_when_its_overlap_has_ended() {
    let token_server = TokenServer::new(&[["a", "dev", "view"]]);
    let former = format!("Bearer {}", token_server.tokens[0]);
    let new = token(token_server.state.path(), &["rotate", "a", "--overlap", "2s"]);
    let status = |bearer: &str| {
        Client::new(&token_server.server.url()).request("GET", "/tasks", &[("Authorization", bearer)], b"").status()
    };
    eventually("the former token is refused", || matches!(status(&former), 401 | 429).then_some(()));
    assert_eq!(status(&format!("Bearer {new}")), 200);
}

#[test]
fn many_wrong_tokens_lock_nobody_out() {
    let token_server = TokenServer::new(&[["a", "dev", "view"]]);
    let mut client = token_server.client_without_token();
    let mut statuses = Vec::new();
    for n in 0..200 {
        let id = if n % 2 == 0 { "a" } else { "unknown" };
        let wrong = format!("Bearer ga2a_{id}_{n}");
        let answer = client.request("GET", "/tasks", &[("Authorization", &wrong)], b"");
        if answer.status() == 429 {
            let wait: u64 = answer.head.field("retry-after").and_then(|text| text.parse().ok()).expect("a time");
            assert!((1..=60).contains(&wait), "{wait}");
        }
        statuses.push(answer.status());
    }
    assert!(statuses[..10].iter().all(|status| *status == 401), "{statuses:?}");
    assert!(statuses.iter().filter(|status| **status == 429).count() >= 150, "{statuses:?}");
    assert_eq!(token_server.client(0).get("/tasks").status(), 200, "from the same address");
}

#[test]
fn a_credential_that_calls_too_often_waits_and_others_do_not() {
    let token_server = TokenServer::new(&[["a", "dev", "view"], ["b", "dev", "view"]]);
    edit_credentials(token_server.state.path(), |entry| {
        if entry["id"] == "a" {
            entry["rate"] = json!({ "calls_per_minute": 2 });
        }
    });
    let mut client = token_server.client(0);
    eventually("the limit holds", || {
        let answer = client.get("/tasks");
        (answer.status() == 429).then(|| assert!(answer.head.field("retry-after").is_some()))
    });
    assert_eq!(token_server.client(1).get("/tasks").status(), 200);
}

#[test]
fn a_body_is_not_read_without_a_credential() {
    let token_server = TokenServer::new(&[["a", "dev", "prompt"]]);
    let mut conn = token_server.client_without_token().raw();
    let head = "POST /message:send HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\
                Expect: 100-continue\r\nAuthorization: Bearer wrong\r\n\r\n";
    conn.send(head.as_bytes()).expect("it is sent");
    let answer = conn.until_closed().expect("it is answered");
    assert!(answer.starts_with(b"HTTP/1.1 401"), "{}", String::from_utf8_lossy(&answer));
    // With a valid token the server asks for the body.
    let head = head.replace("wrong", &token_server.tokens[0]);
    assert_eq!(token_server.begin(&head, 12), "HTTP/1.1 100");
}

/// The body of 10 MiB is sent without being asked for. The answer comes when the head is complete, before any of the body.
#[test]
fn a_body_that_was_not_asked_for_is_refused_at_its_head() {
    let token_server = TokenServer::new(&[["a", "dev", "prompt"]]);
    const BODY: usize = 10 << 20;
    let mut conn = TcpStream::connect(token_server.server.url().trim_start_matches("http://")).expect("it listens");
    let mut sender = conn.try_clone().expect("a second handle");
    let head = format!(
        "POST /message:send HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {BODY}\r\n\
         Authorization: Bearer wrong\r\n\r\n"
    );
    conn.write_all(head.as_bytes()).expect("it is sent");
    let mut begin = [0; 12];
    conn.read_exact(&mut begin).expect("it is answered before the body");
    assert_eq!(&begin, b"HTTP/1.1 401");
    // This may fail: the server does not read the body, so the kernel takes only a part of it.
    let _ = sender.write_all(&vec![b' '; BODY]);
    assert_eq!(token_server.client(0).request("GET", "/health", &[], b"").status(), 200);
}
