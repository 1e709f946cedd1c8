//! One request to the model, made by a worker thread that may wait for minutes, and scripts played in its place.
//!
//! What is sent and what an answer means is decided in `model`; here is only the connection. Three things shape it. A chunk is
//! told as soon as its bytes are there. A canceled call must end at once, but the HTTP library can only shut down a whole
//! agent, so every call in flight has an agent of its own; the agents, with their connections still open, wait in a pool for
//! the next call. And there may be hundreds of calls, so buffers are small.

use crate::base::cancel::Cancel;
use crate::base::json;
use crate::limits::Limits;
use crate::model::compact;
use crate::model::error::{self, Refusal, Trouble};
use crate::model::gemini::{self, Endpoint, Secret};
use crate::model::memory::Surroundings;
use crate::model::script::Beat;
use crate::model::stream::{Asked, Decoder};
use crate::shell::event_loop::sys;
use crate::task::log::answer::Answer;
use crate::task::machine::job::{Compaction, ModelError, NoteBody, Think};
use crate::task::machine::state::Item;
use crate::task::spec::ToolSpec;
use crate::tool::Ask;
use crate::wire::sse;
use serde_json::Value;
use std::borrow::Cow;
use std::io::Read;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use ureq::config::Config;
use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, Proxy};

/// How the API is reached, beyond its address.
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// Certificates to trust instead of the built-in ones, in PEM.
    pub roots: Option<Vec<u8>>,
    pub proxy: Option<String>,
}

/// Makes model requests, from any number of threads at once.
pub struct Client {
    endpoint: Endpoint,
    limits: Limits,
    config: Config,
    idle: Mutex<Vec<Agent>>,
}

impl Client {
    /// Fails when the route cannot be used, with a message for the user.
    pub fn new(endpoint: Endpoint, route: &Route, limits: Limits) -> Result<Client, String> {
        let ms = |ms: u64| Some(Duration::from_millis(ms));
        let proxy = route.proxy.as_deref().map(Proxy::new).transpose();
        let config = Agent::config_builder()
            .tls_config(tls(route.roots.as_deref())?)
            .proxy(proxy.map_err(|e| format!("The proxy cannot be used: {e}."))?)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(ms(limits.model_head_ms))
            .timeout_recv_response(ms(limits.model_head_ms))
            .timeout_per_read(ms(limits.model_silence_ms))
            .timeout_per_write(ms(limits.model_head_ms))
            .input_buffer_size(limits.model_buffer_bytes)
            .output_buffer_size(limits.model_buffer_bytes)
            .max_response_header_size(limits.model_buffer_bytes)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            .max_idle_age(Duration::from_millis(limits.model_idle_ms))
            .build();
        Ok(Client { endpoint, limits, config, idle: Mutex::default() })
    }

    /// One attempt. Tells what comes as it comes, and then exactly one `Answered`.
    pub fn think(
        &self,
        think: &Think,
        tools: &[ToolSpec],
        surroundings: &Surroundings,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) {
        let answer = self.with_key(cancel, |endpoint| self.attempt(endpoint, think, tools, surroundings, cancel, emit));
        emit(NoteBody::Answered(answer));
    }

    /// A summary of the older part of a conversation, by the model that has it.
    pub fn compact(
        &self,
        think: &Think,
        surroundings: &Surroundings,
        cancel: &Cancel,
    ) -> Result<Compaction, ModelError> {
        let at = compact::cut(&think.history).map_or(0, |at| at.max(think.given));
        if at == 0 {
            return Err(error::fatal("There is no older part of the conversation."));
        }
        let older = Think { history: think.history[..at].to_vec(), ..think.clone() };
        let body = gemini::body(&older, &[], surroundings, sys::unix_ms())?;
        let mut body: Value = serde_json::from_slice(&body).map_err(|e| error::fatal(e.to_string()))?;
        if let Some(Value::Array(contents)) = body.get_mut("contents") {
            contents.push(compact::question());
        }
        let answer = self.whole(&think.model, &body, cancel)?;
        let limits = &self.limits;
        let longest = limits.backoff_longest_ms;
        let mut decoder = Decoder::new(&think.model, limits.model_answer_bytes, longest);
        let mut notes = Vec::new();
        decoder.chunk(&json::bytes(&answer), &mut notes)?;
        let answer = decoder.finish(Asked::Prompt, &mut notes)?;
        let summary = compact::summary(&answer);
        Ok(Compaction {
            summary: summary.ok_or_else(|| error::fatal("The model wrote no summary."))?,
            items: at - think.given,
        })
    }

    /// One whole answer to a request of the caller's making, outside of any conversation.
    pub fn utility(&self, body: &Value, cancel: &Cancel) -> Result<Value, ModelError> {
        self.whole(gemini::UTILITY_MODEL, body, cancel)
    }

    fn whole(&self, model: &str, body: &Value, cancel: &Cancel) -> Result<Value, ModelError> {
        self.with_key(cancel, |endpoint| {
            let model = gemini::resolve(model)?;
            let url = endpoint.whole_url(model)?;
            // The head comes only when the whole answer is there.
            let wait = Duration::from_millis(self.limits.model_silence_ms);
            self.interruptible(cancel, |agent| {
                let response = self.request(agent, endpoint, model, &url, wait, &json::bytes(body))?;
                let most = self.limits.model_answer_bytes as u64;
                let mut bytes = Vec::new();
                let mut stream = response.into_body().into_reader().take(most);
                let read = stream.read_to_end(&mut bytes);
                read.map_err(|e| error::network(&midway(e.into())))?;
                serde_json::from_slice(&bytes).map_err(|e| error::network(&Trouble::Cut(e.to_string())))
            })
        })
    }

    /// Does it with the key that holds now. What comes of it never shows the key, and a cancel is a cancel whatever broke.
    fn with_key<T>(
        &self,
        cancel: &Cancel,
        ask: impl FnOnce(&Endpoint) -> Result<T, ModelError>,
    ) -> Result<T, ModelError> {
        let endpoint = self.endpoint()?;
        ask(&endpoint).map_err(|error| {
            if cancel.is_set() {
                return error::network(&Trouble::Canceled);
            }
            // The API never repeats a key, but what stands between it and us might.
            ModelError { message: endpoint.key.hide_in(&error.message), ..error }
        })
    }

    /// The endpoint with the key that holds now.
    fn endpoint(&self) -> Result<Cow<'_, Endpoint>, ModelError> {
        let Some(file) = &self.endpoint.key_file else {
            return Ok(Cow::Borrowed(&self.endpoint));
        };
        let wrong = |why: &str| {
            let file = file.display();
            error::fatal(format!("The token for the model API cannot be read from {file}: {why}."))
        };
        let token = std::fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("there must be one word in it"));
        }
        Ok(Cow::Owned(Endpoint { key: Secret::new(token), ..self.endpoint.clone() }))
    }

    fn attempt(
        &self,
        endpoint: &Endpoint,
        think: &Think,
        tools: &[ToolSpec],
        surroundings: &Surroundings,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Answer, ModelError> {
        let model = gemini::resolve(&think.model)?;
        let body = gemini::body(think, tools, surroundings, sys::unix_ms())?;
        let url = endpoint.url(model)?;
        let wait = Duration::from_millis(self.limits.model_head_ms);
        self.interruptible(cancel, |agent| {
            let response = self.request(agent, endpoint, model, &url, wait, &body)?;
            self.read(model, asked(think), response, cancel, emit)
        })
    }

    /// Runs a request on an agent of its own, which a cancel shuts down.
    fn interruptible<T>(
        &self,
        cancel: &Cancel,
        request: impl FnOnce(&Agent) -> Result<T, ModelError>,
    ) -> Result<T, ModelError> {
        let agent = self.take_agent();
        let doomed = agent.clone();
        cancel.on_set(move || doomed.shutdown());
        let answer = request(&agent);
        cancel.clear();
        // Whoever took the hook before `clear` had set the flag before that: an agent that goes back is never shut down.
        if !cancel.is_set() {
            self.give_back(agent);
        }
        answer
    }

    /// Sends the request and waits so long for the head of the answer; one that is not a success is an error.
    fn request(
        &self,
        agent: &Agent,
        endpoint: &Endpoint,
        model: &str,
        url: &str,
        wait: Duration,
        body: &[u8],
    ) -> Result<Response<Body>, ModelError> {
        let request = agent.post(url).config();
        let mut request = request.timeout_recv_response(Some(wait)).build();
        for (name, value) in endpoint.headers(model) {
            request = request.header(name, value.reveal());
        }
        let response = request.send(body).map_err(|e| error::network(&before_answer(e)))?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(response);
        }
        let retry_after = response.headers().get("retry-after").cloned();
        let mut explanation = Vec::new();
        let most = self.limits.model_error_bytes as u64;
        // Best effort: the status alone says enough if the explanation breaks off.
        let _ = response.into_body().into_reader().take(most).read_to_end(&mut explanation);
        let refusal = Refusal {
            model,
            status,
            retry_after: retry_after.as_ref().and_then(|value| value.to_str().ok()),
            body: &explanation,
        };
        Err(error::classify(&refusal, self.limits.backoff_longest_ms))
    }

    fn read(
        &self,
        model: &str,
        asked: Asked,
        response: Response<Body>,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Answer, ModelError> {
        let mut decoder = Decoder::new(model, self.limits.model_answer_bytes, self.limits.backoff_longest_ms);
        let mut events = sse::Decoder::new(self.limits.model_event_bytes);
        let mut stream = response.into_body().into_reader();
        let mut bytes = vec![0; self.limits.model_buffer_bytes];
        let mut notes = Vec::new();
        loop {
            let read = stream.read(&mut bytes);
            if cancel.is_set() {
                return Err(error::network(&Trouble::Canceled));
            }
            let n = match read {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if decoder.has_begun() => return Err(error::network(&midway(e.into()))),
                Err(e) => return Err(error::network(&before_answer(e.into()))),
            };
            events.feed(&bytes[..n]);
            for event in events.by_ref() {
                let event = event.map_err(|sse::TooLarge| {
                    error::fatal("The model API sent an event that is too long. Ask for less at once.")
                })?;
                let result = decoder.chunk(&event, &mut notes);
                notes.drain(..).for_each(&mut *emit);
                result?;
            }
        }
        if events.finish() == sse::Finish::Cut {
            let what = "its last event is incomplete".into();
            return Err(error::network(&Trouble::Cut(what)));
        }
        let answer = decoder.finish(asked, &mut notes);
        notes.drain(..).for_each(emit);
        answer
    }

    /// The agent used last: its connection is the likeliest to be open still.
    fn take_agent(&self) -> Agent {
        let idle = self.pool().pop();
        idle.unwrap_or_else(|| self.config.new_agent())
    }

    fn give_back(&self, agent: Agent) {
        let mut idle = self.pool();
        if idle.len() < self.limits.model_idle {
            idle.push(agent);
        }
    }

    fn pool(&self) -> std::sync::MutexGuard<'_, Vec<Agent>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ask for Client {
    fn ask(&self, body: &Value, cancel: &Cancel) -> Result<Value, ModelError> {
        self.utility(body, cancel)
    }
}

/// Plays a script's beats. A wait ends at once when the job is canceled, and so does the play.
pub fn play(beats: Vec<Beat>, cancel: &Cancel, emit: &mut dyn FnMut(NoteBody)) {
    let player = thread::current();
    cancel.on_set(move || player.unpark());
    for beat in beats {
        if cancel.is_set() {
            let canceled = error::network(&Trouble::Canceled);
            emit(NoteBody::Answered(Err(canceled)));
            break;
        }
        match beat {
            Beat::Wait { ms } => rest(Duration::from_millis(ms), cancel),
            Beat::Note(note) => emit(note),
        }
    }
    cancel.clear();
}

/// Parks until the time is over or the job is canceled. Parking may end for no reason, so the clock decides.
fn rest(time: Duration, cancel: &Cancel) {
    let start = Instant::now();
    while let Some(left) = time.checked_sub(start.elapsed())
        && !left.is_zero()
        && !cancel.is_set()
    {
        thread::park_timeout(left);
    }
}

fn asked(think: &Think) -> Asked {
    match think.history.last().map(AsRef::as_ref) {
        Some(Item::Results(_)) => Asked::Results,
        Some(Item::Said(_) | Item::Dropped(_) | Item::Answered(_) | Item::Summary(_) | Item::Nudge(_)) | None => {
            Asked::Prompt
        }
    }
}

/// What is trusted when a server shows its certificate.
pub fn tls(roots: Option<&[u8]>) -> Result<TlsConfig, String> {
    let Some(pem) = roots else {
        return Ok(TlsConfig::default());
    };
    let certificates: Vec<_> = parse_pem(pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            Ok(_) | Err(_) => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(
            "There is no certificate in the file that SSL_CERT_FILE names. It must hold PEM certificates.".into()
        );
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::from(certificates)).build())
}

/// What went wrong before any part of an answer came.
fn before_answer(error: ureq::Error) -> Trouble {
    match error {
        ureq::Error::Timeout(_) => Trouble::Slow,
        ureq::Error::HostNotFound => Trouble::Unreachable("its host name was not found".into()),
        ureq::Error::BadUri(_)
        | ureq::Error::Http(_)
        | ureq::Error::InvalidProxyUrl
        | ureq::Error::Tls(_)
        | ureq::Error::RequireHttpsOnly(_) => Trouble::Unusable(error.to_string()),
        error => {
            let what = words(&error);
            if what.contains("invalid peer certificate") {
                Trouble::Untrusted(what)
            } else {
                Trouble::Unreachable(what)
            }
        }
    }
}

/// What went wrong in the middle of an answer.
fn midway(error: ureq::Error) -> Trouble {
    match error {
        ureq::Error::Timeout(_) => Trouble::Silent,
        error => Trouble::Cut(words(&error)),
    }
}

fn words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gemini::{Auth, Service};
    use crate::task::machine::job::ModelErrorKind;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;

    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

    fn think() -> Think {
        Think {
            workspace: "/w".into(),
            model: "flash".into(),
            tools: None,
            given: 0,
            history: Vec::new(),
            prompt: "m".into(),
            prompt_text: "hi".into(),
            turn: 1,
            round: 0,
            attempt: 1,
        }
    }

    fn client(listener: &TcpListener, limits: Limits) -> Client {
        let endpoint = Endpoint {
            base_url: format!("http://{}", listener.local_addr().unwrap()),
            ..Endpoint::new(Secret::new("k3y"))
        };
        Client::new(endpoint, &Route::default(), limits).unwrap()
    }

    fn notes_of(client: &Client, cancel: &Cancel) -> Vec<NoteBody> {
        let mut notes = Vec::new();
        client.think(&think(), &[], &Surroundings::default(), cancel, &mut |note| notes.push(note));
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
            .unwrap();
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

    /// What the client makes of a server that answers with these bytes and closes.
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
    fn text_is_told_as_it_comes_and_the_connection_serves_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = client(&listener, Limits::default());
        let (told, heard) = mpsc::channel();
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
                    // The rest is sent only after the first words have been told.
                    assert_eq!(heard.recv().unwrap(), text("Hel"));
                    let rest = event("lo.", STOP);
                    chunk(&mut stream, &rest[..20]);
                    chunk(&mut stream, &rest[20..]);
                    write!(stream.get_mut(), "0\r\n\r\n").unwrap();
                    assert_eq!(heard.recv().unwrap(), text("lo."));
                    assert!(
                        matches!(heard.recv().unwrap(), NoteBody::Answered(Ok(answer)) if answer.text() == "Hello.")
                    );
                }
                heads
            });
            for _ in 0..2 {
                let nothing = Surroundings::default();
                client.think(&think(), &[], &nothing, &Cancel::default(), &mut |note| {
                    told.send(note).unwrap();
                });
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
            let answer = client.utility(&question, &cancel);
            assert_eq!(answer, Ok(serde_json::json!({"candidates": []})));
            assert_eq!(client.utility(&question, &cancel).unwrap_err().kind, ModelErrorKind::BadStream);
            let (head, body) = server.join().unwrap();
            let line = "POST /v1beta/models/gemini-3.5-flash:generateContent HTTP/1.1\r\n";
            assert!(head.starts_with(line), "{head}");
            assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), question);
        });
    }

    #[test]
    fn an_error_status_is_read_with_its_field_and_body() {
        let body = r#"{"error":{"code":503,"message":"overloaded, your key is k3y"}}"#;
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let notes = against(answer.as_bytes());
        assert_eq!(notes.len(), 1);
        let error = error_of(&notes);
        assert_eq!(error.kind, ModelErrorKind::Busy { after_ms: Some(7_000) });
        assert!(error.message.contains("overloaded, your key is …"), "{}", error.message);
    }

    #[test]
    fn a_token_is_read_from_its_file_for_every_request() {
        let scratch = crate::tool::tests::Scratch::new();
        let file = scratch.path().join("token");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = Service::Vertex { project: "p".into(), location: "eu".into() };
        let endpoint = Endpoint {
            base_url: format!("http://{}", listener.local_addr().unwrap()),
            key_file: Some(file.clone()),
            ..Endpoint::of(service, Secret::default(), Auth::Bearer)
        };
        let client = Client::new(endpoint, &Route::default(), Limits::default()).unwrap();
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
    fn nobody_listening_is_waited_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = client(&listener, Limits::default());
        drop(listener);
        let notes = notes_of(&client, &Cancel::default());
        assert_eq!(error_of(&notes).kind, ModelErrorKind::Busy { after_ms: None });
    }

    #[test]
    fn a_silent_server_is_given_up() {
        // Each has only the one time that is to run out, however slow the machine is.
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
            let (told, heard) = mpsc::channel();
            thread::scope(|scope| {
                scope.spawn(move || {
                    let mut stream = accept(listener);
                    request(&mut stream).unwrap();
                    if begins {
                        write!(stream.get_mut(), "{HEAD}").unwrap();
                        chunk(&mut stream, &event("Hel", ""));
                        assert_eq!(heard.recv().unwrap(), text("Hel"));
                    }
                    cancel.set();
                    assert!(request(&mut stream).is_none(), "the client hangs up");
                    let canceled = NoteBody::Answered(Err(error::network(&Trouble::Canceled)));
                    assert_eq!(heard.recv().unwrap(), canceled);
                });
                client.think(&think(), &[], &Surroundings::default(), cancel, &mut |note| told.send(note).unwrap());
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
        let canceled = NoteBody::Answered(Err(error::network(&Trouble::Canceled)));
        assert_eq!(notes_of(&client, &cancel), vec![canceled]);
    }

    #[test]
    fn bad_routes_are_refused_at_the_start() {
        let refused =
            |route: Route| Client::new(Endpoint::new(Secret::default()), &route, Limits::default()).err().unwrap();
        let roots = Some(b"nothing here".to_vec());
        assert!(refused(Route { roots, proxy: None }).contains("SSL_CERT_FILE"));
        let proxy = Some("not a url".to_owned());
        assert!(refused(Route { roots: None, proxy }).contains("proxy"));
    }

    #[test]
    fn a_play_tells_its_notes_and_a_cancel_ends_its_longest_wait() {
        let end = Answer::default();
        let end = NoteBody::Answered(Ok(end));
        let hour = Beat::Wait { ms: 3_600_000 };
        let mut notes = Vec::new();
        let beats = vec![Beat::Wait { ms: 1 }, Beat::Note(text("a")), Beat::Note(end.clone())];
        play(beats, &Cancel::default(), &mut |note| notes.push(note));
        assert_eq!(notes, vec![text("a"), end.clone()]);

        let cancel = &Cancel::default();
        let (told, heard) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                assert_eq!(heard.recv().unwrap(), text("a"));
                cancel.set();
                let canceled = NoteBody::Answered(Err(error::network(&Trouble::Canceled)));
                assert_eq!(heard.recv().unwrap(), canceled);
            });
            let beats = vec![Beat::Note(text("a")), hour, Beat::Note(text("b")), Beat::Note(end)];
            play(beats, cancel, &mut |note| told.send(note).unwrap());
        });
    }
}
