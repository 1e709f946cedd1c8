//! Tests of the client of the model API against servers of their own.

use super::*;
use crate::model::gemini::{Auth, Service};
use crate::model::memory::RequestContext;
use crate::task::machine::job::ModelErrorKind;
use crate::task::message::{Message, Part, Role};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

fn think() -> Think {
    Think {
        directories: Default::default(),
        workspace: "/w".into(),
        model: "flash".into(),
        mode: Default::default(),
        tools: None,
        forbidden: Vec::new(),
        declared: None,
        skills: Default::default(),
        servers: Default::default(),
        compact_at: None,
        compress: false,
        given: 0,
        history: Vec::new(),
        prompt: Message::new("m", Role::User, vec![Part::text("hi")]).into(),
        turn: 1,
        round: 0,
        attempt: 1,
        hooks_pending: false,
        reprompts: 0,
        blob_room: 0,
    }
}

fn client(listener: &TcpListener, limits: Limits) -> Client {
    let endpoint = Endpoint {
        base_url: format!("http://{}", listener.local_addr().unwrap()),
        ..Endpoint::new(Secret::new("k3y"))
    };
    Client::new(endpoint, TlsConfig::default(), None, limits).unwrap()
}

/// Makes one request and emits its notes, the answer last.
fn ask_model(client: &Client, cancel: &Cancel, emit: &mut dyn FnMut(NoteBody)) {
    let request = ModelRequest { think: &think(), tools: &[], context: &RequestContext::default, key: None };
    let answer = client.answer(&request, cancel, emit);
    emit(NoteBody::Answered(answer));
}

fn notes_of(client: &Client, cancel: &Cancel) -> Vec<NoteBody> {
    let mut notes = Vec::new();
    ask_model(client, cancel, &mut |note| notes.push(note));
    notes
}

/// Reads one request off a connection: its head and body.
fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    loop {
        let start = head.len();
        if stream.read_line(&mut head).unwrap() == 0 {
            return None;
        }
        if &head[start..] == "\r\n" {
            break;
        }
    }
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    Some((head, body))
}

fn accept(listener: &TcpListener) -> BufReader<TcpStream> {
    BufReader::new(listener.accept().unwrap().0)
}

fn chunk(stream: &mut BufReader<TcpStream>, text: &str) {
    let stream = stream.get_mut();
    write!(stream, "{:x}\r\n{text}\r\n", text.len()).unwrap();
}

fn event(text: &str, finish: &str) -> String {
    format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}{finish}}}]}}\r\n\r\n")
}

const STOP: &str = ",\"finishReason\":\"STOP\"";

fn text(text: &str) -> NoteBody {
    NoteBody::Text(text.into())
}

/// The notes of a request to a server that answers with these bytes and closes the connection.
fn against(answer: &[u8]) -> Vec<NoteBody> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = client(&listener, Limits::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = accept(&listener);
            request(&mut stream).unwrap();
            stream.get_mut().write_all(answer).unwrap();
        });
        notes_of(&client, &Cancel::default())
    })
}

fn error_of(notes: &[NoteBody]) -> &ModelError {
    match notes.last() {
        Some(NoteBody::Answered(Err(error))) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn text_is_reported_at_once_and_the_connection_is_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = client(&listener, Limits::default());
    let (sender, receiver) = mpsc::channel();
    let listener = &listener;
    thread::scope(|scope| {
        let server = scope.spawn(move || {
            // One connection for both requests: a second one would never be accepted.
            let mut stream = accept(listener);
            let mut heads = Vec::new();
            for _ in 0..2 {
                heads.push(request(&mut stream).unwrap());
                write!(stream.get_mut(), "{HEAD}").unwrap();
                chunk(&mut stream, &event("Hel", ""));
                // The rest is sent only after the first words have been reported.
                assert_eq!(receiver.recv().unwrap(), text("Hel"));
                let rest = event("lo.", STOP);
                chunk(&mut stream, &rest[..20]);
                chunk(&mut stream, &rest[20..]);
                write!(stream.get_mut(), "0\r\n\r\n").unwrap();
                assert_eq!(receiver.recv().unwrap(), text("lo."));
                assert!(
                    matches!(receiver.recv().unwrap(), NoteBody::Answered(Ok(answer)) if answer.text() == "Hello.")
                );
            }
            heads
        });
        for _ in 0..2 {
            ask_model(&client, &Cancel::default(), &mut |note| sender.send(note).unwrap());
        }
        let heads = server.join().unwrap();
        let (head, body) = &heads[1];
        let line = "POST /v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse HTTP/1.1\r\n";
        assert!(head.starts_with(line), "{head}");
        assert!(head.contains("x-goog-api-key: k3y\r\n"), "{head}");
        let body: serde_json::Value = serde_json::from_slice(body).unwrap();
        assert_eq!(body["contents"][0]["role"], "user");
    });
}

#[test]
fn a_whole_answer_is_asked_for_beside_the_conversation() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = client(&listener, Limits::default());
    let question = serde_json::json!({"contents": [], "tools": [{"googleSearch": {}}]});
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut stream = accept(&listener);
            let heard = request(&mut stream).unwrap();
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{\"candidates\":[]}";
            write!(stream.get_mut(), "{answer}").unwrap();
            // The connection serves again.
            request(&mut stream).unwrap();
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\noops\n";
            write!(stream.get_mut(), "{answer}").unwrap();
            heard
        });
        let cancel = Cancel::default();
        let answer = client.ask(&question, &cancel);
        assert_eq!(answer, Ok(serde_json::json!({"candidates": []})));
        assert_eq!(client.ask(&question, &cancel).unwrap_err().kind, ModelErrorKind::BadStream);
        let (head, body) = server.join().unwrap();
        let line = "POST /v1beta/models/gemini-3.5-flash:generateContent HTTP/1.1\r\n";
        assert!(head.starts_with(line), "{head}");
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), question);
    });
}

#[test]
fn an_error_status_is_read_with_its_field_and_body() {
    let body = r#"{"error":{"code":503,"message":"overloaded, your key is k3y"}}"#;
    let answer =
        format!("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let notes = against(answer.as_bytes());
    assert_eq!(notes.len(), 1);
    let error = error_of(&notes);
    assert_eq!(error.kind, ModelErrorKind::Busy { after_ms: Some(7_000) });
    assert!(error.message.contains("overloaded, your key is …"), "{}", error.message);
}

#[cfg(feature = "bucket")]
#[test]
fn a_token_of_the_machine_is_used_until_the_api_refuses_it() {
    let (api, machine) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let service = Service::Vertex { project: "p".into(), location: "eu".into() };
    let metadata_host = Some(machine.local_addr().unwrap().to_string());
    let endpoint = Endpoint {
        base_url: format!("http://{}", api.local_addr().unwrap()),
        key_origin: KeyOrigin::Google { file: None, metadata_host },
        ..Endpoint::of(service, Secret::default(), Auth::Bearer)
    };
    let client = Client::new(endpoint, TlsConfig::default(), None, Limits::default()).unwrap();
    // No thread is joined, so a failure is seen at once.
    let answer = |listener: &TcpListener, status: u16, body: String| {
        let (listener, (sender, heads)) = (listener.try_clone().unwrap(), mpsc::channel());
        thread::spawn(move || {
            let mut stream = accept(&listener);
            let (head, _) = request(&mut stream).unwrap();
            let length = body.len();
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            sender.send(head).unwrap();
        });
        heads
    };
    // The API is busy once and refuses the token then.
    for (token, status, is_fetched) in [("t0ken-1", 503, true), ("t0ken-1", 401, false), ("t0ken-2", 503, true)] {
        let body = format!(r#"{{"access_token":"{token}","expires_in":3600}}"#);
        let fetched = is_fetched.then(|| answer(&machine, 200, body));
        let asked = answer(&api, status, String::new());
        let kind = error_of(&notes_of(&client, &Cancel::default())).kind;
        assert_eq!(kind == ModelErrorKind::Fatal, status == 401, "{kind:?}");
        let head = asked.recv().unwrap();
        assert!(head.contains(&format!("authorization: Bearer {token}\r\n")), "{head}");
        if let Some(fetched) = fetched {
            let head = fetched.recv().unwrap();
            assert!(head.contains("scopes=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform "), "{head}");
        }
    }
}

#[test]
fn a_token_is_read_from_its_file_for_every_request() {
    let scratch = crate::tool::tests::Scratch::new();
    let file = scratch.path().join("token");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = Service::Vertex { project: "p".into(), location: "eu".into() };
    let endpoint = Endpoint {
        base_url: format!("http://{}", listener.local_addr().unwrap()),
        key_origin: KeyOrigin::File(file.clone()),
        ..Endpoint::of(service, Secret::default(), Auth::Bearer)
    };
    let client = Client::new(endpoint, TlsConfig::default(), None, Limits::default()).unwrap();
    let missing = notes_of(&client, &Cancel::default());
    assert_eq!(error_of(&missing).kind, ModelErrorKind::Fatal);
    for token in ["t0ken-1", "t0ken-2"] {
        std::fs::write(&file, format!("{token}\n")).unwrap();
        let notes = thread::scope(|scope| {
            let server = scope.spawn(|| {
                let mut stream = accept(&listener);
                let (head, _) = request(&mut stream).unwrap();
                let answer = format!("HTTP/1.1 400 Bad\r\nContent-Length: 7\r\nConnection: close\r\n\r\n{token}");
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
                head
            });
            let notes = notes_of(&client, &Cancel::default());
            let head = server.join().unwrap();
            let begin = "POST /v1beta1/projects/p/locations/eu/publishers/google/models/";
            assert!(head.starts_with(begin), "{head}");
            assert!(head.contains(&format!("authorization: Bearer {token}\r\n")), "{head}");
            assert!(!head.contains("x-goog-api-key"), "{head}");
            notes
        });
        assert!(!error_of(&notes).message.contains("t0ken"), "{notes:?}");
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let notes = against(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(error_of(&notes).kind, ModelErrorKind::Fatal);
}

#[test]
fn broken_answers() {
    let first = event("Hel", "");
    let cut = format!("{HEAD}{:x}\r\n{first}\r\n", first.len());
    let half = format!("{HEAD}{:x}\r\n{}", first.len(), &first[..30]);
    let garbage = format!("{HEAD}11\r\ndata: {{nonsense\n\n\r\n0\r\n\r\n");
    let torn = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ndata: {\"candidates\"";
    let not_a_stream = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"a\": 12}";
    let busy = ModelErrorKind::Busy { after_ms: None };
    let table = [
        ("cut between events", cut.as_str(), 2, ModelErrorKind::BadStream),
        ("cut before the first event", &half, 1, busy),
        ("not JSON", &garbage, 1, ModelErrorKind::BadStream),
        ("torn event", torn, 1, ModelErrorKind::BadStream),
        ("not events", not_a_stream, 1, ModelErrorKind::BadStream),
        ("not HTTP", "nonsense\r\n\r\n", 1, busy),
        ("nothing", "", 1, busy),
    ];
    for (what, answer, count, kind) in table {
        let notes = against(answer.as_bytes());
        assert_eq!((notes.len(), error_of(&notes).kind), (count, kind), "{what}: {notes:?}");
    }
}

#[test]
fn a_refused_connection_is_retried() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = client(&listener, Limits::default());
    drop(listener);
    let notes = notes_of(&client, &Cancel::default());
    assert_eq!(error_of(&notes).kind, ModelErrorKind::Busy { after_ms: None });
}

#[test]
fn a_silent_server_is_given_up() {
    // In each case only the time limit under test is short, so that a slow machine does not matter.
    let (mut headless, mut mute) = (Limits::default(), Limits::default());
    headless.model_head_ms = 50;
    mute.model_silence_ms = 50;
    for (begins, limits, kind) in
        [(false, headless, ModelErrorKind::Busy { after_ms: None }), (true, mute, ModelErrorKind::BadStream)]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = client(&listener, limits);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream = accept(&listener);
                request(&mut stream).unwrap();
                if begins {
                    write!(stream.get_mut(), "{HEAD}").unwrap();
                    chunk(&mut stream, &event("Hel", ""));
                }
                assert!(request(&mut stream).is_none(), "the client hangs up");
            });
            assert_eq!(error_of(&notes_of(&client, &Cancel::default())).kind, kind);
        });
    }
}

#[test]
fn cancel_ends_a_hanging_call_and_the_next_call_is_unharmed() {
    let listener = &TcpListener::bind("127.0.0.1:0").unwrap();
    let client = client(listener, Limits::default());
    for begins in [false, true] {
        let cancel = &Cancel::default();
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut stream = accept(listener);
                request(&mut stream).unwrap();
                if begins {
                    write!(stream.get_mut(), "{HEAD}").unwrap();
                    chunk(&mut stream, &event("Hel", ""));
                    assert_eq!(receiver.recv().unwrap(), text("Hel"));
                }
                cancel.set();
                assert!(request(&mut stream).is_none(), "the client hangs up");
                let canceled = NoteBody::Answered(Err(error::network(&TransportError::Canceled)));
                assert_eq!(receiver.recv().unwrap(), canceled);
            });
            ask_model(&client, cancel, &mut |note| sender.send(note).unwrap());
        });
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = accept(listener);
            request(&mut stream).unwrap();
            write!(stream.get_mut(), "{HEAD}").unwrap();
            chunk(&mut stream, &event("Hi.", STOP));
            write!(stream.get_mut(), "0\r\n\r\n").unwrap();
        });
        let notes = notes_of(&client, &Cancel::default());
        assert!(matches!(notes.last(), Some(NoteBody::Answered(Ok(_)))), "{notes:?}");
    });
}

#[test]
fn a_call_canceled_beforehand_never_connects() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let client = client(&listener, Limits::default());
    let cancel = Cancel::default();
    cancel.set();
    let canceled = NoteBody::Answered(Err(error::network(&TransportError::Canceled)));
    assert_eq!(notes_of(&client, &cancel), vec![canceled]);
}

#[test]
fn a_dead_proxy_is_named_and_not_the_address_behind_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let endpoint = Endpoint { base_url: "https://model.invalid".into(), ..Endpoint::new(Secret::new("k3y")) };
    let proxy = format!("http://user:s3cret@{address}");
    let client = Client::new(endpoint, TlsConfig::default(), Some(&proxy), Limits::default()).unwrap();
    let notes = notes_of(&client, &Cancel::default());
    let error = error_of(&notes);
    assert_eq!(error.kind, ModelErrorKind::Busy { after_ms: None });
    let begin = format!("The model API cannot be reached through the proxy {address}: ");
    assert!(error.message.starts_with(&begin) && error.message.contains("Check HTTPS_PROXY"), "{}", error.message);
    assert!(!error.message.contains("BASE_URL") && !error.message.contains("s3cret"), "{}", error.message);
}

#[test]
fn invalid_certificates_and_proxies_are_refused_at_the_start() {
    assert!(tls(Some(b"nothing here")).unwrap_err().contains("SSL_CERT_FILE"));
    let endpoint = Endpoint::new(Secret::default());
    let refused = Client::new(endpoint, TlsConfig::default(), Some("not a url"), Limits::default());
    assert!(refused.err().unwrap().contains("proxy"));
}
