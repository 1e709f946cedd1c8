//! The sender of a request, and the order of the checks.

use super::{Server, bearer, credential, get, message, post, token};
use crate::core::connections::connection::{Link, Peer};
use crate::core::connections::identity::Identity;
use crate::core::operation::metrics::labels::Refused;
use crate::core::{Input, Out};
use crate::limits::access::{CALLS_BURST, CREDENTIALS_CHECK_MS, WRONG_PER_ADDRESS};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

fn server() -> Server {
    Server::new(&[credential("laptop", "ann", &["view", "prompt", "approve"])])
}

#[test]
fn requests_are_checked_in_a_fixed_order() {
    let mut server = Server::changed(&[credential("laptop", "ann", &["view"])], |setup| {
        setup.host_policy.origins = vec!["https://page.example".into()];
    });
    let ask = |server: &mut Server, fields: &str| {
        let request =
            format!("POST /message:send HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: 2\r\n\r\n{{}}");
        server.ask(&request).status
    };
    let [evil, page] = ["https://evil.example", "https://page.example"].map(|origin| format!("Origin: {origin}\r\n"));
    let wrong = "Authorization: Bearer ga2a_laptop_x\r\n";
    assert_eq!(ask(&mut server, &format!("{evil}{}", bearer("laptop"))), 403, "the Origin, whatever is shown");
    assert_eq!(ask(&mut server, &page), 401);
    // Wrong credentials are answered with 401 until the budget of the address is spent.
    for _ in 0..WRONG_PER_ADDRESS {
        assert_eq!(ask(&mut server, wrong), 401);
    }
    assert_eq!(ask(&mut server, wrong), 429);
    assert_eq!(ask(&mut server, &page), 401, "nothing was shown");
    // A right one from there is decoded: the message is wrong, which is said before the right is missing.
    assert_eq!(ask(&mut server, &bearer("laptop")), 400);
    let valid = post("/message:send", &bearer("laptop"), &message("hi"));
    assert_eq!(server.ask(&valid).status, 403, "the right");
    for _ in 0..CALLS_BURST {
        ask(&mut server, &bearer("laptop"));
    }
    assert_eq!(ask(&mut server, &bearer("laptop")), 429, "the budget of the credential, before the body is decoded");
    let two = format!("{}X-API-Key: {}\r\n", bearer("laptop"), token("laptop"));
    assert_eq!(ask(&mut server, &two), 400);
}

/// The time of an answer must not tell whether there is a credential of that name, so as much is computed in each case.
#[test]
fn every_token_costs_the_same_number_of_comparisons() {
    let mut rotated = credential("phone", "ann", &["view"]);
    rotated["was"] = json!({"sha256": "0".repeat(64), "until": "2100-01-01T00:00:00Z"});
    let mut server = Server::new(&[credential("laptop", "ann", &["view"]), rotated]);
    let tokens = ["ga2a_laptop_x", "ga2a_phone_x", "ga2a_unknown_x", "ga2a_", "x", &token("laptop"), &token("phone")];
    let mut compared = tokens.map(|token| {
        let before = server.test.core.access.comparison.comparisons();
        server.ask(&get("/tasks", &format!("Authorization: Bearer {token}\r\n")));
        server.test.core.access.comparison.comparisons() - before
    });
    assert!(compared[0] > 0, "{compared:?}");
    compared.sort_unstable();
    assert_eq!(compared.first(), compared.last(), "{compared:?}");
}

#[test]
fn every_form_of_a_credential_authenticates_its_subject() {
    let mut server = server();
    let basic = |id: &str| format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{id}:{}", token("laptop"))));
    let key = format!("X-API-Key: {}\r\n", token("laptop"));
    for shown in [bearer("laptop"), basic("laptop"), key] {
        assert_eq!(server.ask(&get("/tasks", &shown)).status, 200, "{shown}");
        let logged = server.logged();
        assert_eq!(logged[0].subject.as_deref(), Some("ann"));
        assert_eq!(logged[0].credential.as_deref(), Some("laptop"));
    }
    assert_eq!(server.ask(&get("/tasks", &basic("desktop"))).status, 401, "the name is another one");
    let in_query = format!("/tasks?token={}", token("laptop"));
    assert_eq!(server.ask(&get(&in_query, "")).status, 401);
}

#[test]
fn a_refused_request_has_no_subject_in_the_access_log_and_is_counted() {
    let mut server = server();
    for request in [get("/tasks", ""), post("/message:send", "", &message("hi")), get("/tasks", "X-API-Key: x\r\n")] {
        assert_eq!(server.ask(&request).status, 401);
        let logged = server.logged();
        assert_eq!((logged.len(), &logged[0].subject, &logged[0].credential), (1, &None, &None), "{request}");
    }
    assert_eq!(server.test.core.operation.metrics.refused[Refused::Credential as usize], 3);
    // Nor has one of a process of the operator that shows no credential.
    let key = server.connect_over(None, Link::Tcp, Peer::SameUser);
    assert_eq!(server.ask_over(key, &get("/tasks", "")).status, 401);
    assert_eq!(server.logged()[0].subject, None);
}

#[test]
fn at_the_servers_own_socket_our_processes_are_the_operator_and_tools_need_a_credential() {
    let mut server = server();
    let connect = |server: &mut Server, link, peer| server.connect_over(None, link, peer);
    let key = connect(&mut server, Link::Unix, Peer::SameUser);
    assert_eq!(server.ask_over(key, &get("/tasks", "")).status, 200);
    assert_eq!(server.logged()[0].subject.as_deref(), Some("operator"));
    let key = connect(&mut server, Link::Unix, Peer::SameUser);
    assert_eq!(server.ask_over(key, &get("/tasks", &bearer("laptop"))).status, 200);
    assert_eq!(server.logged()[0].subject.as_deref(), Some("ann"), "it is whom it shows to be");
    let key = connect(&mut server, Link::NamedUnix, Peer::SameUser);
    assert_eq!(server.ask_over(key, &get("/tasks", "")).status, 401, "a proxy may run as our user");
    let key = connect(&mut server, Link::Unix, Peer::Stranger);
    assert_eq!(server.ask_over(key, &get("/tasks", &bearer("laptop"))).status, 403, "another user");
    // What may be a tool waits, whether it reads or writes.
    for request in [get("/tasks", ""), post("/message:send", "", &message("hi"))] {
        for (identity, status) in [(Identity::Tool, 403), (Identity::Unclear, 403), (Identity::SameUser, 200)] {
            let key = connect(&mut server, Link::Unix, Peer::MaybeTool);
            server.send(key, &request);
            assert_eq!(server.take(key), "", "it waits");
            assert_eq!(std::mem::take(&mut server.test.to_identify), [key]);
            server.test.core.input(Input::Identified { conn: key, identity }, server.test.now);
            server.test.turns();
            assert!(server.take(key).starts_with(&format!("HTTP/1.1 {status}")));
        }
    }
    // With a credential it may read at once.
    let key = connect(&mut server, Link::Unix, Peer::MaybeTool);
    assert_eq!(server.ask_over(key, &get("/tasks", &bearer("laptop"))).status, 200);
    let key = connect(&mut server, Link::Unix, Peer::MaybeTool);
    server.send(key, &post("/message:send", &bearer("laptop"), &message("hi")));
    assert_eq!(std::mem::take(&mut server.test.to_identify), [key], "but not prompt");
}

#[test]
fn a_peer_that_may_be_a_tool_needs_more_than_a_credential() {
    let mut server = server();
    let prompt = post("/message:send", &bearer("laptop"), &message("hi"));
    let read = get("/tasks", &bearer("laptop"));
    for link in [Link::Tcp, Link::NamedUnix] {
        // Another user is served when his process is known to be no tool's.
        for (identity, status) in
            [(Identity::Stranger, 200), (Identity::Tool, 403), (Identity::Unclear, 403), (Identity::Gone, 403)]
        {
            let key = server.connect_over(None, link, Peer::OtherUser);
            server.send(key, &prompt);
            assert_eq!(server.take(key), "", "it waits");
            assert_eq!(std::mem::take(&mut server.test.to_identify), [key]);
            server.test.core.input(Input::Identified { conn: key, identity }, server.test.now);
            server.test.turns();
            assert!(server.take(key).starts_with(&format!("HTTP/1.1 {status}")));
        }
        let key = server.connect_over(None, link, Peer::OtherUser);
        assert_eq!(server.ask_over(key, &read).status, 200);
    }
    // It cannot be found out any more whose process it was.
    for link in [Link::Tcp, Link::Unix] {
        let key = server.connect_over(None, link, Peer::Gone);
        let refused = server.ask_over(key, &prompt);
        assert!(refused.status == 403 && refused.body.contains("was gone"), "{refused:?}");
        let key = server.connect_over(None, link, Peer::Gone);
        assert_eq!(server.ask_over(key, &read).status, 200);
    }
    let key = server.connect_over(None, Link::Unix, Peer::OtherUser);
    assert_eq!(server.ask_over(key, &read).status, 403, "the server's own socket is its user's");
}

#[test]
fn a_preflight_needs_no_credential_and_every_other_options_does() {
    let mut server = Server::changed(&[], |setup| {
        setup.host_policy.origins = vec!["https://page.example".into()];
    });
    let options = |fields: &str| format!("OPTIONS /tasks HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    let page = "Origin: https://page.example\r\n";
    let preflight = format!("{page}Access-Control-Request-Method: POST\r\n");
    assert_eq!(server.ask(&options(&preflight)).status, 204);
    assert_eq!(server.ask(&options(page)).status, 401);
    assert_eq!(server.ask(&options("Access-Control-Request-Method: POST\r\n")).status, 401);
}

/// Without the CORS headers a browser would show the page a network error instead of the reason.
#[test]
fn a_page_of_an_allowed_origin_can_read_why_it_is_refused() {
    let mut server = Server::changed(&[], |setup| {
        setup.host_policy.origins = vec!["https://page.example".into()];
    });
    let page = "Origin: https://page.example\r\n";
    let shown_to_page = "Access-Control-Allow-Origin: https://page.example";
    for request in [
        get("/tasks", page),
        get("/tasks", &format!("{page}Authorization: Bearer gca2a_wrong\r\n")),
        format!("POST / HTTP/1.1\r\nHost: localhost\r\n{page}Content-Length: 100\r\n\r\n"),
    ] {
        let refused = server.ask(&request);
        assert!(refused.status == 401 && refused.head.contains(shown_to_page), "{request}: {refused:?}");
    }
    let refused = server.ask(&get("/tasks", ""));
    assert!(refused.status == 401 && !refused.head.contains(shown_to_page), "{refused:?}");
}

#[test]
fn public_requests_do_not_wait_for_the_disk() {
    let mut server = server();
    server.test.credentials_hang = true;
    server.test.later(10 * CREDENTIALS_CHECK_MS);
    for path in ["/live", "/ready", "/health", "/.well-known/agent-card.json"] {
        assert_eq!(server.ask(&get(path, "")).status, 200, "{path}");
    }
    // A credential that may have been revoked gives no more than a request without one.
    let health = server.ask(&get("/health", &bearer("laptop"))).json();
    assert_eq!(health.as_object().expect("an object").len(), 1, "{health}");
    let keys =
        [get("/tasks", &bearer("laptop")), post("/message:send", &bearer("laptop"), &message("hi"))].map(|request| {
            let key = server.connect();
            server.send(key, &request);
            assert_eq!(server.take(key), "");
            key
        });
    // A long body is not read before its sender is known.
    let key = server.connect();
    let head =
        format!("POST /message:send HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: 9\r\n\r\n", bearer("laptop"));
    server.send(key, &head);
    assert_eq!(server.test.core.room(key), 0);
    server.test.core.input(Input::Credentials(None), server.test.now);
    server.test.turns();
    for key in keys {
        assert!(server.take(key).starts_with("HTTP/1.1 200"));
    }
    assert!(server.test.core.room(key) > 0);
    server.send(key, "{\"a\": 12}");
    assert!(server.take(key).starts_with("HTTP/1.1 400"));
    assert!(!server.test.outside.outs.iter().any(|out| matches!(out, Out::ReadCredentials)));
}

#[test]
fn a_changed_rate_holds_at_once() {
    let mut server = server();
    assert_eq!(server.ask(&get("/tasks", &bearer("laptop"))).status, 200);
    let mut slow = credential("laptop", "ann", &["view", "prompt", "approve"]);
    slow["rate"] = json!({"calls_per_minute": 1});
    // While a client is connected, the file is checked for changes.
    server.connect();
    server.change(&[slow.clone()]);
    assert_eq!(server.ask(&get("/tasks", &bearer("laptop"))).status, 200);
    let refused = server.ask(&get("/tasks", &bearer("laptop")));
    assert_eq!(refused.status, 429);
    assert!(refused.head.contains("Retry-After: 60"), "{}", refused.head);
    slow["rate"] = json!({"calls_per_minute": 600});
    server.change(&[slow]);
    assert_eq!(server.ask(&get("/tasks", &bearer("laptop"))).status, 200);
}
