use super::*;
use crate::base::secret::Secret;
use crate::config::remote::Remote;
use crate::tool::tests::Scratch;
use std::os::unix::net::{UnixListener, UnixStream};

/// A link and the other end of it, by hand. Time is what a test says it is.
struct Fixture {
    link: WebSocketLink,
    listener: UnixListener,
    now: u64,
    _scratch: Scratch,
}

impl Fixture {
    fn new() -> Fixture {
        let scratch = Scratch::new();
        let path = scratch.path().join("server.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let address = ServerAddress {
            name: "here".into(),
            remote: Remote::Unix(path),
            instances: scratch.path().join("instances"),
            token: None,
            tls: None,
        };
        let link = WebSocketLink::new(address, "ann", None, Entropy::counting_after(0));
        Fixture { link, listener, now: 0, _scratch: scratch }
    }

    /// One turn, after waiting for whatever the link waits for but time.
    fn turn(&mut self) -> Vec<LinkEvent> {
        let arrivals = self.link.advance(self.now);
        if arrivals.is_empty() && self.link.fd().is_some() && self.link.due() != Some(0) {
            self.link.wait(self.link.due().unwrap_or(0).saturating_sub(20)).expect("a poll");
        }
        arrivals
    }

    fn until(&mut self, mut fits: impl FnMut(&LinkEvent) -> bool) -> Vec<LinkEvent> {
        let mut all = Vec::new();
        for _ in 0..100_000 {
            all.extend(self.turn());
            if all.iter().any(&mut fits) {
                return all;
            }
        }
        panic!("it never comes: {all:?}");
    }

    /// Accepts the connection and reads the request.
    fn accept(&mut self) -> (UnixStream, String) {
        while !matches!(self.link.phase, LinkState::Handshaking(_)) {
            assert_eq!(self.turn(), []);
        }
        self.link.advance(self.now);
        let (mut stream, _) = self.listener.accept().expect("a connection");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a request");
            request.extend(byte);
        }
        (stream, String::from_utf8(request).expect("text"))
    }

    fn agreement(request: &str) -> Vec<u8> {
        let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).expect("a key");
        let mut headers = crate::base::http::Headers::default();
        for (name, value) in request.lines().filter_map(|line| line.split_once(": ")) {
            headers.push(name, value);
        }
        assert!(headers.lists("sec-websocket-protocol", PROTOCOL), "{request}");
        let accept = crate::wire::ws::upgrade(&crate::base::http::Request {
            method: crate::base::http::Method::Get,
            path: "/ws".into(),
            query: Vec::new(),
            version: crate::base::http::Version::Http11,
            headers,
            body: Vec::new(),
            keep_alive: true,
        });
        let accept = accept.unwrap_or_else(|refused| panic!("{refused:?} for the key {key}")).accept;
        let mut out = Vec::new();
        crate::wire::ws::write_upgrade(&mut out, &accept, Some(PROTOCOL), &[]);
        out
    }

    fn connected(&mut self) -> UnixStream {
        let (mut stream, request) = self.accept();
        stream.write_all(&Fixture::agreement(&request)).expect("it listens");
        assert_eq!(self.until(|arrival| *arrival == LinkEvent::Connected), [LinkEvent::Connected]);
        stream
    }

    fn lost(&mut self) -> u64 {
        let all = self.until(|arrival| matches!(arrival, LinkEvent::Lost { .. }));
        match all.last() {
            Some(LinkEvent::Lost { retry_at }) => *retry_at,
            other => panic!("{other:?}"),
        }
    }
}

fn frame(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    crate::wire::ws::text_head(&mut out, text.len());
    out.extend(text.as_bytes());
    out
}

#[test]
fn frames_may_come_with_the_handshake_and_in_pieces() {
    let mut fixture = Fixture::new();
    let (mut stream, request) = fixture.accept();
    assert!(request.starts_with("GET /ws?client=ann&taskId=next HTTP/1.1\r\nHost: localhost\r\n"), "{request}");
    let mut bytes = Fixture::agreement(&request);
    bytes.extend(frame("{\"a\":1}"));
    bytes.extend(frame("{\"b\":\"ö\"}"));
    let mut all = Vec::new();
    for byte in bytes {
        stream.write_all(&[byte]).expect("it listens");
        all.extend(fixture.turn());
    }
    all.extend(fixture.turn());
    all.extend(fixture.turn());
    let frames = ["{\"a\":1}", "{\"b\":\"ö\"}"].map(|text| LinkEvent::Frame(text.into()));
    assert_eq!(all, [&[LinkEvent::Connected], frames.as_slice()].concat());
}

#[test]
fn sent_frames_are_masked_text() {
    let mut fixture = Fixture::new();
    let mut stream = fixture.connected();
    fixture.link.send("{\"id\":1}");
    assert!(fixture.link.wants_write());
    fixture.turn();
    assert!(!fixture.link.wants_write());
    let mut bytes = [0; 14];
    stream.read_exact(&mut bytes).expect("a frame");
    assert_eq!(bytes[..2], [0x81, 0x80 | 8]);
    let text: Vec<u8> = bytes[6..].iter().zip(bytes[2..6].iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    assert_eq!(text, b"{\"id\":1}");
}

#[test]
fn a_silent_server_is_pinged_and_then_given_up() {
    const PONG: [u8; 2] = [0x8a, 0];
    let mut fixture = Fixture::new();
    let mut stream = fixture.connected();
    let mut ping = [0; 6];
    for _ in 0..3 {
        let begin = fixture.now;
        assert_eq!(fixture.link.due(), Some(begin + LINK_PING_MS));
        fixture.now = begin + LINK_PING_MS;
        assert_eq!(fixture.link.advance(fixture.now), []);
        stream.read_exact(&mut ping).expect("a ping");
        assert_eq!(ping[..2], [0x89, 0x80]);
        stream.write_all(&PONG).expect("it listens");
        let last_heard =
            |link: &WebSocketLink| matches!(&link.phase, LinkState::Open(open) if open.last_heard > Some(begin));
        while !last_heard(&fixture.link) {
            assert_eq!(fixture.turn(), []);
        }
    }
    let last_heard = fixture.now;
    fixture.now = last_heard + LINK_LOST_MS - 1;
    assert_eq!(fixture.link.advance(fixture.now), []);
    assert_eq!(fixture.link.due(), Some(last_heard + LINK_LOST_MS));
    fixture.now += 1;
    assert!(matches!(fixture.link.advance(fixture.now)[..], [LinkEvent::Lost { .. }]));
    assert!(fixture.link.fd().is_none());
}

#[test]
fn pauses_double_up_to_a_limit_and_begin_anew_after_a_message() {
    let mut fixture = Fixture::new();
    drop(fixture.connected());
    let mut whole = LINK_RETRY_MS;
    for _ in 0..12 {
        let retry_at = fixture.lost();
        let varies = whole * LINK_RETRY_VARIES_PERCENT / 100;
        let pause = retry_at - fixture.now;
        assert!((whole - varies..=whole + varies).contains(&pause), "{pause} instead of {whole}");
        assert_eq!(fixture.link.due(), Some(retry_at));
        fixture.now = retry_at - 1;
        assert_eq!(fixture.link.advance(fixture.now), []);
        assert!(fixture.link.fd().is_none());
        fixture.now = retry_at;
        drop(fixture.accept());
        whole = (whole * 2).min(LINK_RETRY_MOST_MS);
    }
    fixture.now = fixture.lost();
    let mut stream = fixture.connected();
    stream.write_all(&frame("{}")).expect("it listens");
    fixture.until(|arrival| *arrival == LinkEvent::Frame("{}".into()));
    drop(stream);
    let pause = fixture.lost() - fixture.now;
    assert!(pause <= LINK_RETRY_MS * 2, "{pause}");
}

#[test]
fn a_message_has_a_limit() {
    for (bytes, fits) in [(LINK_MESSAGE_BYTES, true), (LINK_MESSAGE_BYTES + 1, false)] {
        let mut fixture = Fixture::new();
        let mut stream = fixture.connected();
        let mut head = Vec::new();
        crate::wire::ws::text_head(&mut head, bytes);
        head.extend(b"the beginning");
        stream.write_all(&head).expect("it listens");
        let arrivals = fixture.link.advance(fixture.now);
        assert_eq!(arrivals.is_empty(), fits, "{bytes}: {arrivals:?}");
    }
}

#[test]
fn output_that_nobody_reads_has_a_limit() {
    let mut fixture = Fixture::new();
    let _stream = fixture.connected();
    let text = "x".repeat(8 << 20);
    let queued = |link: &WebSocketLink| match &link.phase {
        LinkState::Open(open) => open.socket.get_ref().out.len(),
        _ => panic!("it is connected"),
    };
    fixture.link.send(&text);
    assert_eq!(fixture.link.advance(fixture.now), [], "the kernel takes some of it");
    while queued(&fixture.link) <= LINK_QUEUE_BYTES {
        assert_eq!(fixture.link.advance(fixture.now), []);
        fixture.link.send(&text);
    }
    let full = queued(&fixture.link);
    fixture.link.send(&text);
    assert_eq!(queued(&fixture.link), full, "it is dropped with the connection");
    fixture.lost();
}

#[test]
fn each_read_is_limited_so_that_keys_are_handled() {
    let mut fixture = Fixture::new();
    let mut stream = fixture.connected();
    let text = "x".repeat(LINK_READ_BYTES / 4);
    let many = 20;
    let writer = std::thread::spawn(move || {
        for _ in 0..many {
            stream.write_all(&frame(&text)).expect("it listens");
        }
        stream
    });
    let mut frames = 0;
    while frames < many {
        let arrivals = fixture.turn();
        assert!(arrivals.len() <= 4, "{}", arrivals.len());
        if arrivals.len() == 4 {
            assert_eq!(fixture.link.due(), Some(0), "there may be more");
        }
        frames += arrivals.len();
    }
    writer.join().expect("no panic");
}

#[test]
fn a_refusal_ends_the_first_attempt_and_is_shown_at_later_ones() {
    let answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 21\r\n\r\n{\"error\":\"No tools.\"}";
    let mut fixture = Fixture::new();
    let listener = fixture.listener.try_clone().expect("a handle");
    let refusing = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut bytes = [0; 1024];
        assert!(stream.read(&mut bytes).expect("a request") > 0);
        stream.write_all(answer.as_bytes()).expect("it listens");
    });
    let address = fixture.link.address.clone();
    let first = WebSocketLink::new(address, "ann", None, Entropy::counting_after(0)).open();
    refusing.join().expect("no panic");
    let failure = first.err().expect("a refusal");
    assert_eq!(failure, Failure::Denied(Denied::Status(403, Some("No tools.".into()))));
    assert_eq!(failure.sentence("localhost:7"), "localhost:7 refuses (403): No tools.");
    let (mut stream, _) = fixture.accept();
    stream.write_all(answer.as_bytes()).expect("it listens");
    let all = fixture.until(|arrival| matches!(arrival, LinkEvent::Lost { .. }));
    assert!(matches!(&all[0], LinkEvent::Frame(problem) if problem.contains("No tools.")), "{all:?}");
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let mut fixture = Fixture::new();
    let (_stream, _) = fixture.accept();
    assert_eq!(fixture.link.due(), Some(fixture.now + LINK_CONNECT_MS));
    fixture.now += LINK_CONNECT_MS - 1;
    assert_eq!(fixture.link.advance(fixture.now), []);
    fixture.now += 1;
    assert!(matches!(fixture.link.advance(fixture.now)[..], [LinkEvent::Lost { .. }]));
}

#[test]
fn a_refused_connection_is_an_error() {
    let fixture = Fixture::new();
    drop(fixture.listener);
    let failure = fixture.link.open().err().expect("nobody listens");
    let sentence = failure.sentence("unix:x");
    assert!(sentence.starts_with("cannot connect to unix:x: Connection refused"), "{sentence}");
}

#[test]
fn a_revoked_credential_ends_the_attempts_to_connect() {
    for (code, reason) in [(4401_u16, "credential revoked"), (4403, "rights changed")] {
        let mut fixture = Fixture::new();
        fixture.link.address.token = Some(Secret::new("planted"));
        let (mut stream, request) = fixture.accept();
        assert!(request.contains("\r\nAuthorization: Bearer planted\r\n"), "{request}");
        stream.write_all(&Fixture::agreement(&request)).expect("it listens");
        fixture.until(|arrival| *arrival == LinkEvent::Connected);
        let mut close = vec![0x88, 2 + reason.len() as u8];
        close.extend(code.to_be_bytes());
        close.extend(reason.as_bytes());
        stream.write_all(&close).expect("it listens");
        let all = fixture.until(|arrival| matches!(arrival, LinkEvent::Closed(_)));
        assert!(
            matches!(&all[..], [LinkEvent::Closed(why)] if why.contains(reason) && !why.contains("planted")),
            "{all:?}"
        );
        fixture.now += 10 * LINK_RETRY_MOST_MS;
        assert_eq!((fixture.link.advance(fixture.now), fixture.link.fd().is_none()), (vec![], true));
    }
}

#[test]
fn a_credential_that_became_invalid_meanwhile_ends_the_attempts_too() {
    let mut fixture = Fixture::new();
    drop(fixture.connected());
    fixture.now = fixture.lost();
    let (mut stream, _) = fixture.accept();
    stream.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n").expect("it listens");
    let all = fixture.until(|arrival| matches!(arrival, LinkEvent::Closed(_)));
    assert!(matches!(&all[..], [LinkEvent::Closed(why)] if why.contains("--token-file")), "{all:?}");
}
