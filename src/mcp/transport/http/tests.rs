use super::*;
use crate::base::test_random::Random;
use crate::mcp::session::Key;
use serde_json::{Value, json};

const CALL: Request<'_> = Request::Post(Sent::Request(RequestId(7), Some(Key(1))));
const INITIALIZE: Request<'_> = Request::Post(Sent::Initialize(RequestId(1)));
const NOTIFICATION: Request<'_> = Request::Post(Sent::Other);
const STREAM: Request<'_> = Request::Stream { last_id: None };
const RESUMED: Request<'_> = Request::Stream { last_id: Some("e1") };

fn endpoint(kind: Network) -> Endpoint {
    Endpoint::new(
        Url::parse("http://h:1/mcp?key=s3cret-key").expect("a URL"),
        kind,
        vec![("X-A".into(), Secret::new("b"))],
    )
}

fn headers(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::default();
    fields.iter().for_each(|(name, value)| headers.push(name, value));
    headers
}

/// An endpoint with a session.
fn opened() -> Endpoint {
    let mut endpoint = endpoint(Network::Http);
    endpoint.set_session(&headers(&[("Mcp-Session-Id", "sess-1")])).expect("it is valid");
    endpoint.set_version("2025-11-25");
    endpoint
}

fn shown(endpoint: &Endpoint, request: Request<'_>) -> Vec<String> {
    let fields = endpoint.fields(request);
    fields.iter().map(|(name, value)| format!("{name}: {}", value.reveal())).collect()
}

fn interpret(endpoint: &Endpoint, request: Request<'_>, status: u16, fields: &[(&str, &str)], body: &str) -> Next {
    endpoint.interpret(request, &Response { status, headers: &headers(fields), body: body.as_bytes() })
}

#[test]
fn check_12_the_session_and_the_version_are_on_every_later_request() {
    let mut endpoint = opened();
    let post = ["X-A: b", "Content-Type: application/json", "Accept: application/json, text/event-stream"];
    let session = ["MCP-Protocol-Version: 2025-11-25", "Mcp-Session-Id: sess-1"];
    assert_eq!(shown(&endpoint, INITIALIZE), post);
    for request in [CALL, NOTIFICATION] {
        assert_eq!(shown(&endpoint, request), [&post[..], &session].concat());
    }
    assert_eq!(shown(&endpoint, STREAM), [&["X-A: b", "Accept: text/event-stream"], &session[..]].concat());
    assert_eq!(shown(&endpoint, RESUMED)[2], "Last-Event-ID: e1");
    assert_eq!(shown(&endpoint, Request::Delete), [&["X-A: b"], &session[..]].concat());
    endpoint.clear_session();
    assert_eq!(shown(&endpoint, CALL), post);
    let older = Endpoint { kind: Network::Sse, ..opened() };
    assert_eq!(shown(&older, CALL), post, "the older transport has neither");
    for wrong in ["", "a b", "é", &"x".repeat(257)] {
        assert!(endpoint.set_session(&headers(&[("Mcp-Session-Id", wrong)])).is_err(), "{wrong}");
    }
    assert_eq!(endpoint.set_session(&headers(&[("Mcp-Session-Id", &"x".repeat(256))])), Ok(()));
    assert!(endpoint.has_session());
    assert_eq!(endpoint.set_session(&headers(&[])), Ok(()));
    assert!(!endpoint.has_session());
}

#[test]
fn a_stored_token_is_sent_unless_the_settings_have_credentials() {
    let mut endpoint = endpoint(Network::Http);
    endpoint.token = Some(Secret::new("t"));
    assert!(shown(&endpoint, CALL).contains(&"Authorization: Bearer t".to_owned()));
    endpoint.headers.push(("authorization".into(), Secret::new("Basic x")));
    let fields = shown(&endpoint, CALL);
    assert_eq!(fields.iter().filter(|field| field.to_lowercase().starts_with("authorization")).count(), 1);
    assert!(matches!(interpret(&endpoint, CALL, 401, &[], ""), Next::Failed(why) if why.contains("check headers")));
    endpoint.headers.clear();
    let challenge = Next::NeedsLogin { challenge: Some("Bearer x".into()) };
    assert_eq!(interpret(&endpoint, CALL, 401, &[("WWW-Authenticate", "Bearer x")], ""), challenge);
    assert_eq!(interpret(&endpoint, INITIALIZE, 403, &[], ""), Next::NeedsLogin { challenge: None });
}

#[test]
fn what_a_response_means() {
    let (json, events) =
        (&[("Content-Type", "application/json; charset=utf-8")][..], &[("Content-Type", "Text/Event-Stream")][..]);
    let endpoint = opened();
    for (request, status, fields, body, expected) in [
        (CALL, 200, json, "", Next::Body),
        (CALL, 200, events, "", Next::Events),
        (NOTIFICATION, 202, &[], "", Next::Done),
        (NOTIFICATION, 200, json, "null", Next::Done),
        (STREAM, 200, events, "", Next::Events),
        (STREAM, 405, &[], "", Next::NoStream),
        (STREAM, 404, &[], "", Next::NoStream),
        (RESUMED, 404, &[], "", Next::SessionLost),
        (CALL, 404, &[], "", Next::SessionLost),
        (NOTIFICATION, 404, &[], "", Next::SessionLost),
        (CALL, 400, &[], "Bad Request: No valid session ID provided", Next::SessionLost),
        (Request::Delete, 200, &[], "", Next::Done),
    ] {
        assert_eq!(interpret(&endpoint, request, status, fields, body), expected, "{request:?} {status}");
    }
    let failed = |request, status, fields: &[(&str, &str)], body: &str| match interpret(
        &endpoint, request, status, fields, body,
    ) {
        Next::Failed(why) => why,
        other => panic!("{other:?}"),
    };
    let page = format!("<html>{}", "x".repeat(900));
    let why = failed(CALL, 200, &[("Content-Type", "text/html")], &page);
    assert!(why.contains("text/html") && why.len() < BODY_SHOWN_BYTES + 200 && !why.contains("s3cret"), "{why}");
    let why = failed(CALL, 500, &[], "broken\u{1b}[31m");
    assert_eq!(why, "http://h:1/mcp answered 500: broken[31m");
    assert_eq!(failed(CALL, 400, &[], ""), "http://h:1/mcp answered 400: (no body)");
}

#[test]
fn check_17_a_server_without_a_get_stream_is_not_an_error() {
    for status in [404, 405] {
        assert_eq!(interpret(&opened(), STREAM, status, &[], "no"), Next::NoStream);
    }
    assert!(
        matches!(interpret(&endpoint(Network::Sse), STREAM, 404, &[], ""), Next::Failed(_)),
        "the older transport needs it"
    );
}

#[test]
fn check_18_redirections_stay_at_their_origin() {
    let to = |status, location: &str| interpret(&opened(), CALL, status, &[("Location", location)], "");
    assert!(matches!(to(307, "/other"), Next::Redirect(url) if url.shown() == "http://h:1/other"));
    assert!(matches!(to(308, "http://h:1/mcp/"), Next::Redirect(_)));
    for (status, location) in
        [(302, "/other"), (301, "/other"), (307, "http://evil/"), (308, "https://h:1/mcp"), (307, "//evil/mcp")]
    {
        assert!(matches!(to(status, location), Next::Failed(_)), "{status} {location}");
    }
}

#[test]
fn check_19_a_url_without_a_type_may_speak_the_older_transport() {
    for status in [400, 404, 405] {
        assert_eq!(interpret(&endpoint(Network::Either), INITIALIZE, status, &[], "x"), Next::TrySse);
        assert!(matches!(interpret(&endpoint(Network::Http), INITIALIZE, status, &[], "x"), Next::Failed(_)));
        assert!(matches!(interpret(&endpoint(Network::Either), CALL, status, &[], "x"), Next::Failed(_)));
    }
    assert!(matches!(interpret(&endpoint(Network::Either), INITIALIZE, 500, &[], "x"), Next::Failed(_)));
    let modern = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"unsupported version"}}"#;
    assert!(matches!(interpret(&endpoint(Network::Either), INITIALIZE, 400, &[], modern), Next::Messages(_)));
}

#[test]
fn check_21_the_error_of_a_body_with_a_foreign_id_answers_its_request() {
    let body = r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Not acceptable"}}"#;
    let Next::Messages(messages) = interpret(&endpoint(Network::Http), CALL, 406, &[], body) else {
        panic!("no messages")
    };
    assert!(
        matches!(&messages[..], [Message::Response { id: None, result: Err(error) }] if error.message == "Not acceptable")
    );
    assert_eq!(read_body(body.as_bytes()).map(|messages| messages.len()), Ok(1));
    assert!(read_body(b"<html>").is_err_and(|why| why.contains("<html>")));
}

fn read(events: &mut EventStream, bytes: &[u8]) -> Vec<Event> {
    let mut out = Vec::new();
    events.feed(bytes, &mut out).expect("it is valid");
    out
}

fn response(id: u64) -> Event {
    Event::Message(Message::Response { id: Some(RequestId(id)), result: Ok(Value::Null) })
}

#[test]
fn check_15_a_stream_that_is_cut_goes_on_after_its_last_event() {
    let mut events = EventStream::new(Some(RequestId(7)));
    let first = read(&mut events, b"id: e0\nretry: 20\ndata:\n\nid: e1\ndata: {\"method\":\"x\"}\n\nid: e2\ndata: cut");
    assert_eq!(first.len(), 1);
    assert_eq!(events.after(), StreamEnd::Resume { last_id: "e1".into(), wait_ms: 100 });
    events.resume();
    assert_eq!(read(&mut events, b": hello\n\n"), []);
    assert_eq!(
        events.after(),
        StreamEnd::Resume { last_id: "e1".into(), wait_ms: 100 },
        "the second stream had no event"
    );
    events.resume();
    assert_eq!(read(&mut events, b"id: e2\ndata: {\"id\":7,\"result\":null}\n\n"), [response(7)]);
    assert_eq!(events.after(), StreamEnd::Complete);
}

#[test]
fn the_number_of_resumptions_is_limited() {
    let mut events = EventStream::new(Some(RequestId(7)));
    read(&mut events, b"id: e0\nretry: 999999\n\n");
    for _ in 0..RESUME_TRIES {
        assert_eq!(events.after(), StreamEnd::Resume { last_id: "e0".into(), wait_ms: *RETRY_MS.end() });
        events.resume();
    }
    assert!(matches!(events.after(), StreamEnd::Lost(_)));
    assert_eq!([0, 1, 3, 6, 99].map(reopen_ms), [1_000, 2_000, 8_000, 60_000, 60_000]);
}

#[test]
fn check_16_a_stream_that_is_cut_without_ids_is_lost() {
    let mut events = EventStream::new(Some(RequestId(7)));
    read(&mut events, b"data: {\"id\":8,\"result\":null}\n\nevent: other\ndata: x\n\ndata: junk\n\n");
    assert!(matches!(events.after(), StreamEnd::Lost(why) if why.contains("may have run")));
    let mut refused = EventStream::new(Some(RequestId(7)));
    read(&mut refused, b"data: {\"id\":null,\"error\":{\"code\":1,\"message\":\"m\"}}\n\n");
    assert_eq!(refused.after(), StreamEnd::Complete, "an error without an id is the answer");
}

#[test]
fn check_20_the_older_transport_names_its_endpoint_first() {
    let url = || Url::parse("http://h:1/sse").expect("a URL");
    let mut events = EventStream::legacy(url());
    let found = read(&mut events, b"event: endpoint\r\ndata: /message?sessionId=5\r\n\r\nevent: message\r\ndata: {\"id\":1,\"result\":null}\r\n\r\n");
    let [Event::Endpoint(endpoint), message] = &found[..] else { panic!("{found:?}") };
    assert_eq!((endpoint.whole().reveal(), message), ("http://h:1/message?sessionId=5", &response(1)));
    let fails = |bytes: &[u8]| EventStream::legacy(url()).feed(bytes, &mut Vec::new()).is_err();
    assert!(fails(b"event: endpoint\ndata: http://evil/message\n\n") && fails(b"data: {}\n\n"));
    assert_eq!(
        interpret(&super::tests::endpoint(Network::Sse), CALL, 202, &[("Content-Type", "text/plain")], "Accepted"),
        Next::Done
    );
}

#[test]
fn the_size_of_a_response_is_limited() {
    let feed = |request: Option<RequestId>, more: &[u8]| {
        let mut events = EventStream { bytes: ANSWER_BYTES - 1, ..EventStream::new(request) };
        events.feed(more, &mut Vec::new())
    };
    assert_eq!(feed(Some(RequestId(1)), b"\n"), Ok(()));
    assert!(feed(Some(RequestId(1)), b"\n\n").is_err());
    assert_eq!(feed(None, b"\n\n"), Ok(()), "the GET stream has no end");
    let event = |bytes: usize| format!("data: {}\n\n", "x".repeat(bytes));
    assert!(EventStream::new(None).feed(event(MESSAGE_BYTES).as_bytes(), &mut Vec::new()).is_ok());
    assert!(EventStream::new(None).feed(event(MESSAGE_BYTES + 1).as_bytes(), &mut Vec::new()).is_err());
}

#[test]
fn check_11_line_ends_and_splits_do_not_change_the_events() {
    const LINES: [&str; 9] = [
        "data: {\"id\":7,",
        "data: \"result\":null}",
        "data: {\"method\":\"m\"}",
        "id: e",
        ": comment",
        "event: message",
        "event: other",
        "data:",
        "",
    ];
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let lines: Vec<&str> = (0..random.below(30)).map(|_| LINES[random.below(LINES.len())]).collect();
        let all = |bytes: &[u8], pieces: &mut dyn FnMut() -> usize| {
            let (mut events, mut out, mut rest) = (EventStream::new(Some(RequestId(7))), Vec::new(), bytes);
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(pieces().min(rest.len()));
                out.extend(read(&mut events, piece));
                rest = after;
            }
            (out, events.after())
        };
        let expected = all(lines.join("\n").as_bytes(), &mut || usize::MAX);
        for end in ["\n", "\r\n", "\r"] {
            let bytes = lines.join(end).into_bytes();
            assert_eq!(all(&bytes, &mut || 1), expected, "seed {seed}, {end:?} by bytes");
            assert_eq!(all(&bytes, &mut || 1 + random.below(9)), expected, "seed {seed}, {end:?}");
        }
    }
    // The comparison is not between two empty results.
    let text = json!({"id": 7, "result": null});
    assert_eq!(read(&mut EventStream::new(None), format!("data: {text}\r\r").as_bytes()), [response(7)]);
}
