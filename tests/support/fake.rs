//! A fake of the model API over HTTP on loopback, with a thread per connection. The prompt contains the answers ([`super::script`]).
//!
//! It counts its streams and records every request, so that tests can check what a server sends to the model (history, headers, retries).
//! A benchmark turns the recording off, and controls the fake from another process: `GET /_counters`, `POST /_release`.

use super::answer_stream::{AnswerStream, Chunk, aborted};
use super::client::read_some;
use super::http::{Head, Message, Side};
use super::script::{self, Answer, Item};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// The numbers of requests for streamed answers by their state; `requests` counts requests of all kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub requests: u64,
    pub open: u64,
    pub finished: u64,
    /// Streams whose caller went away, or that were cut on purpose.
    pub broken: u64,
}

/// One recorded request.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub head: Head,
    pub body: Value,
}

impl Recorded {
    /// `streamGenerateContent`, `countTokens`, ….
    pub fn verb(&self) -> &str {
        verb(&self.head)
    }

    /// Roles of the history, oldest first.
    pub fn roles(&self) -> Vec<&str> {
        let contents = self.body["contents"].as_array();
        contents.into_iter().flatten().filter_map(|c| c["role"].as_str()).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    On,
    Off,
}

pub struct FakeGemini {
    address: SocketAddr,
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    recording: Recording,
    state: Mutex<State>,
    /// Notified when the model is released.
    changed: Condvar,
    stopping: AtomicBool,
    requests: AtomicU64,
}

#[derive(Default)]
struct State {
    counters: Counters,
    recorded: Vec<Recorded>,
    /// How many requests there were for each script with an error or a break.
    attempts: HashMap<String, u64>,
    /// Answers that have reached a `HOLD`, and releases that no answer has used.
    held: u64,
    released: u64,
}

impl FakeGemini {
    pub fn start() -> FakeGemini {
        FakeGemini::with(Recording::On)
    }

    pub fn with(recording: Recording) -> FakeGemini {
        let fake = FakeGemini::down(recording);
        fake.come_up();
        fake
    }

    /// A fake whose address refuses connections until [`FakeGemini::come_up`]: its socket has a port and does not listen.
    pub fn down(recording: Recording) -> FakeGemini {
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let listener = TcpListener::from(socket.expect("a socket for the fake model"));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        rustix::net::bind(&listener, &any).expect("a port for the fake model");
        let address = listener.local_addr().expect("the fake model's address");
        let shared = Arc::new(Shared {
            recording,
            state: Mutex::default(),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
            requests: AtomicU64::new(0),
        });
        FakeGemini { address, listener, shared }
    }

    /// Begins to listen.
    pub fn come_up(&self) {
        rustix::net::listen(&self.listener, 128).expect("the port is its own");
        let listener = self.listener.try_clone().expect("a descriptor");
        let accepting = self.shared.clone();
        thread::spawn(move || accept(listener, accepting));
    }

    /// The value for `GOOGLE_GEMINI_BASE_URL`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// Every request so far, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.lock().recorded.clone()
    }

    /// The requests that asked for a streamed answer.
    pub fn turns(&self) -> Vec<Recorded> {
        let mut all = self.requests();
        all.retain(|request| request.verb() == "streamGenerateContent");
        all
    }

    /// How many answers have reached a `HOLD` so far, released or not.
    pub fn held(&self) -> u64 {
        self.shared.lock().held
    }

    /// Lets one answer pass its `HOLD`, also one that gets there later.
    pub fn release(&self) {
        self.shared.release();
    }
}

impl Drop for FakeGemini {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        // The accepting thread waits for a connection; this one makes it read the flag.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread of the fake panics while it holds this lock")
    }

    fn counters(&self) -> Counters {
        Counters { requests: self.requests.load(Ordering::Relaxed), ..self.lock().counters }
    }

    /// Counts a request for this script. Returns its number, from 1 on.
    fn attempt(&self, script: String) -> u64 {
        let mut state = self.lock();
        let seen = state.attempts.entry(script).or_insert(0);
        *seen += 1;
        *seen
    }

    fn release(&self) {
        self.lock().released += 1;
        self.changed.notify_all();
    }

    /// Waits at a `HOLD` until it is released or the caller has closed the connection.
    fn hold(&self, caller: &TcpStream) -> io::Result<()> {
        let mut state = self.lock();
        state.held += 1;
        while state.released == 0 {
            let (woken, _) = self
                .changed
                .wait_timeout(state, Duration::from_millis(20))
                .expect("no thread of the fake panics while it holds this lock");
            state = woken;
            if is_closed(caller) {
                return Err(aborted());
            }
        }
        state.released -= 1;
        Ok(())
    }
}

fn accept(listener: TcpListener, shared: Arc<Shared>) {
    for stream in listener.incoming().flatten() {
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        let shared = shared.clone();
        let serving = thread::Builder::new().stack_size(256 * 1024);
        // An error ends the thread; the stream has been counted already.
        serving
            .spawn(move || {
                let _ = serve(&shared, stream);
            })
            .expect("a thread for a caller of the fake model");
    }
}

fn serve(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = Message::new(Side::Request);
    let mut body = vec![];
    let mut bytes = vec![0; 64 * 1024];
    loop {
        while !message.is_done() {
            let count = read_some(&mut stream, &mut bytes)?;
            if count == 0 {
                return Ok(());
            }
            message.feed(&bytes[..count], &mut body).map_err(io::Error::other)?;
        }
        let head = message.head().cloned().unwrap_or_default();
        let whole = std::mem::take(&mut body);
        answer(shared, &head, &whole, &mut stream)?;
        if head.closes() {
            return Ok(());
        }
        message.restart(Side::Request, &mut body).map_err(io::Error::other)?;
    }
}

fn verb(head: &Head) -> &str {
    let path = head.target().split('?').next().unwrap_or("");
    path.rsplit(':').next().unwrap_or("")
}

fn answer(shared: &Shared, head: &Head, body: &[u8], out: &mut TcpStream) -> io::Result<()> {
    match head.target() {
        "/_counters" => {
            let now = shared.counters();
            return send(
                out,
                "200 OK",
                &json!({
                    "requests": now.requests, "open": now.open,
                    "finished": now.finished, "broken": now.broken,
                    "held": shared.lock().held,
                }),
            );
        }
        "/_release" => {
            shared.release();
            return send(out, "200 OK", &json!({}));
        }
        _ => {}
    }
    let number = shared.requests.fetch_add(1, Ordering::Relaxed) + 1;
    let request: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let chunk = Chunk::new(head, number, body.len());
    if shared.recording == Recording::On {
        let recorded = Recorded { head: head.clone(), body: request.clone() };
        shared.lock().recorded.push(recorded);
    }
    match (head.method(), verb(head)) {
        ("POST", "streamGenerateContent") => {
            shared.lock().counters.open += 1;
            let result = stream(shared, &request, chunk, out);
            let counters = &mut shared.lock().counters;
            counters.open -= 1;
            match &result {
                Ok(()) => counters.finished += 1,
                Err(_) => counters.broken += 1,
            }
            result
        }
        ("POST", "generateContent") => {
            let text = match schema(&request) {
                Some(schema) => example(schema).to_string(),
                None if wants_summary(&request) => "<state_snapshot>what was said before</state_snapshot>".into(),
                None => "Done.".into(),
            };
            let mut whole = chunk.json(json!([{ "text": text }]), Some("STOP"));
            add_grounding(&request, &mut whole);
            send(out, "200 OK", &whole)
        }
        ("POST", "countTokens") => send(out, "200 OK", &json!({ "totalTokens": body.len() / 4 })),
        ("POST", "embedContent") => send(out, "200 OK", &json!({ "embedding": { "values": [0.1, 0.2, 0.3] } })),
        _ => send(out, "404 Not Found", &error(404)),
    }
}

fn send(out: &mut TcpStream, status: &str, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    out.write_all((head + &body).as_bytes())
}

fn error(code: u16) -> Value {
    let status = match code {
        400 => "INVALID_ARGUMENT",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({ "error": { "code": code, "message": format!("fake error {code}"), "status": status } })
}

/// Adds the results of the API's own tools to an answer: a source for a search, and a status for a page.
fn add_grounding(request: &Value, whole: &mut Value) {
    let tools = request["tools"].as_array().map(Vec::as_slice);
    let has = |tool: &str| tools.unwrap_or_default().iter().any(|t| t.get(tool).is_some());
    if has("googleSearch") {
        whole["candidates"][0]["groundingMetadata"] = json!({
            "groundingChunks": [{ "web": { "uri": "https://source.test/", "title": "A source" } }],
            "groundingSupports": [{ "segment": { "endIndex": 5 }, "groundingChunkIndices": [0] }],
        });
    }
    if has("urlContext") {
        whole["candidates"][0]["urlContextMetadata"] = json!({ "urlMetadata": [
            { "retrievedUrl": "https://page.test/", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS" },
        ] });
    }
}

/// Whether the last turn of the request asks for a summary of the conversation.
fn wants_summary(request: &Value) -> bool {
    let last = request["contents"].as_array().and_then(|contents| contents.last());
    last.is_some_and(|turn| turn.to_string().contains("<state_snapshot>"))
}

/// The schema of the answer, if the request has one.
fn schema(request: &Value) -> Option<&Value> {
    let config = &request["generationConfig"];
    config.get("responseJsonSchema").or_else(|| config.get("responseSchema"))
}

/// A value that fits the schema.
fn example(schema: &Value) -> Value {
    if let Some(choices) = schema["enum"].as_array() {
        // The answer to "who speaks next" is the user, so that the turn ends.
        let user = choices.iter().find(|choice| *choice == "user");
        return user.or(choices.first()).cloned().unwrap_or_default();
    }
    match schema["type"].as_str().unwrap_or("object").to_ascii_lowercase().as_str() {
        "string" => json!("fake"),
        "number" | "integer" => json!(0),
        "boolean" => json!(false),
        "array" => json!([]),
        _ => {
            let properties = schema["properties"].as_object();
            properties.into_iter().flatten().map(|(name, of)| (name.clone(), example(of))).collect()
        }
    }
}

fn stream(shared: &Shared, request: &Value, chunk: Chunk, out: &mut TcpStream) -> io::Result<()> {
    let (items, breaks) = match script::answer_to(request) {
        (script, Answer::Items(items)) => {
            let breaks = items.contains(&Item::Break) && shared.attempt(script) == 1;
            (items, breaks)
        }
        (_, Answer::Refuse { tool, then }) => {
            let declared =
                request["tools"][0]["functionDeclarations"].as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(at) = declared.iter().position(|one| one["name"] == tool.trim_start_matches('?')) {
                let mut refusal = error(400);
                if !tool.starts_with('?') {
                    let message =
                        format!("* GenerateContentRequest.tools[0].function_declarations[{at}].parameters: invalid");
                    refusal["error"]["message"] = json!(message);
                }
                return send(out, "400 Bad Request", &refusal);
            }
            (then, false)
        }
        (_, Answer::Hang) => {
            // Returns when the caller sends a byte or closes the connection: then it does not wait for this answer any more.
            let _ = read_some(out, &mut [0]);
            return Err(aborted());
        }
        (script, Answer::Error { code, times, then }) => {
            if shared.attempt(script) <= times {
                return send(out, &format!("{code} Fake"), &error(code));
            }
            (then, false)
        }
    };
    let mut answer_stream = AnswerStream::begin(out, chunk)?;
    let last = items.len() - 1;
    for (n, item) in items.iter().enumerate() {
        match item {
            Item::Hold => shared.hold(answer_stream.caller())?,
            Item::Break if breaks => return Err(answer_stream.cut()),
            _ => {}
        }
        let finish = (n == last).then_some("STOP");
        answer_stream.send(item, finish)?;
    }
    answer_stream.end()
}

/// Whether the caller has closed the connection: a read without waiting returns its end.
fn is_closed(caller: &TcpStream) -> bool {
    let peeked = caller.set_nonblocking(true).and_then(|()| caller.peek(&mut [0]));
    let back = caller.set_nonblocking(false);
    match peeked {
        Ok(count) => count == 0 || back.is_err(),
        Err(error) => error.kind() != io::ErrorKind::WouldBlock || back.is_err(),
    }
}
