//! A blocking HTTP/1.1 client for tests: JSON-RPC calls over one kept-alive connection, event streams over connections of their own, and
//! raw bytes for invalid requests.

use super::PATIENCE;
use super::http::{Head, Message, Side};
use super::message::fresh;
use super::sse::Sse;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

#[derive(Debug)]
pub struct Response {
    pub head: Head,
    pub body: Vec<u8>,
}

impl Response {
    pub fn status(&self) -> u16 {
        self.head.status()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in the body of {:?}: {}", self.head, self.text()))
    }
}

/// A client of one server. Header fields given with [`Client::field`] are in every request.
pub struct Client {
    authority: String,
    fields: Vec<(String, String)>,
    idle: Option<Conn>,
}

impl Client {
    /// `url` is `http://HOST:PORT`.
    pub fn new(url: &str) -> Client {
        let authority = url.trim_start_matches("http://").trim_end_matches('/').to_string();
        Client { authority, fields: vec![], idle: None }
    }

    pub fn field(mut self, name: &str, value: &str) -> Client {
        self.fields.push((name.into(), value.into()));
        self
    }

    pub fn get(&mut self, path: &str) -> Response {
        self.request("GET", path, &[], b"")
    }

    pub fn post(&mut self, path: &str, body: &Value) -> Response {
        let json = [("Content-Type", "application/json")];
        self.request("POST", path, &json, body.to_string().as_bytes())
    }

    pub fn request(&mut self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Response {
        let answer = self.try_request(method, path, fields, body);
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// The same for a server that may have been killed.
    pub fn try_request(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        let mut conn = match self.idle.take() {
            Some(conn) if conn.is_open() => conn,
            _ => Conn::open(&self.authority)?,
        };
        conn.send(&self.bytes(method, path, fields, body))?;
        let side = if method == "HEAD" { Side::HeadOnly } else { Side::Response };
        let response = conn.response(side)?;
        if !response.head.closes() {
            self.idle = Some(conn);
        }
        Ok(response)
    }

    /// Makes a JSON-RPC call and returns the whole response, whose version and id are checked.
    pub fn rpc(&mut self, method: &str, params: Value) -> Value {
        let id = fresh();
        let reply = self.post("/", &envelope(id, method, params)).json();
        assert_eq!(reply["jsonrpc"], "2.0", "{method} was answered with {reply}");
        assert_eq!(reply["id"], id, "{method} was answered with {reply}");
        reply
    }

    /// The result of a call that is expected to succeed.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let mut reply = self.rpc(method, params);
        assert!(reply.get("result").is_some(), "{method} failed: {reply}");
        reply["result"].take()
    }

    /// The error code of a call that is expected to fail.
    pub fn fault(&mut self, method: &str, params: Value) -> i64 {
        let reply = self.rpc(method, params);
        let code = reply["error"]["code"].as_i64();
        code.unwrap_or_else(|| panic!("{method} should have failed: {reply}"))
    }

    /// Opens an event stream. Dropping the returned value closes it.
    pub fn stream(&self, method: &str, params: Value) -> Events {
        self.stream_with(method, params, &[])
    }

    /// Opens an event stream that continues after the event with this id.
    pub fn resume(&self, method: &str, params: Value, last: &str) -> Events {
        self.stream_with(method, params, &[("Last-Event-ID", last)])
    }

    fn stream_with(&self, method: &str, params: Value, fields: &[(&str, &str)]) -> Events {
        let id = fresh();
        let body = envelope(id, method, params).to_string();
        let mut all = vec![("Content-Type", "application/json"), ("Accept", "text/event-stream")];
        all.extend_from_slice(fields);
        Events::open(&self.authority, &self.bytes("POST", "/", &all, body.as_bytes()))
    }

    /// Opens an event stream by another request than a JSON-RPC call.
    pub fn events(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Events {
        Events::open(&self.authority, &self.bytes(method, path, fields, body))
    }

    /// A new connection on which the test writes raw bytes.
    pub fn raw(&self) -> Conn {
        Conn::open(&self.authority).expect("connecting to the server")
    }

    /// The bytes of a valid HTTP/1.1 request.
    pub fn bytes(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.authority);
        let own = self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain(fields.iter().copied()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }
}

pub fn envelope(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// One connection. Reads wait for [`PATIENCE`] at most.
pub struct Conn {
    stream: TcpStream,
    message: Message,
}

impl Conn {
    pub fn open(authority: &str) -> io::Result<Conn> {
        let stream = TcpStream::connect(authority)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Conn { stream, message: Message::new(Side::Response) })
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Closes the sending side; responses can still be read.
    pub fn finish_sending(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Reads one whole response.
    pub fn response(&mut self, side: Side) -> io::Result<Response> {
        let mut body = vec![];
        self.message.restart(side, &mut body).map_err(io::Error::other)?;
        while !self.message.is_done() {
            self.fill(&mut body)?;
        }
        let head = self.message.head().cloned().unwrap_or_default();
        Ok(Response { head, body })
    }

    /// Waits until the server has closed the connection. Returns the bytes that it sent before.
    pub fn until_closed(mut self) -> io::Result<Vec<u8>> {
        let mut rest = vec![];
        self.stream.read_to_end(&mut rest)?;
        Ok(rest)
    }

    /// Whether the server has not closed this idle connection.
    fn is_open(&self) -> bool {
        let peeked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        let waiting = peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        self.stream.set_nonblocking(false).is_ok() && waiting
    }

    fn fill(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        let read = read_some(&mut self.stream, &mut bytes).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::other(format!("silent for {PATIENCE:?}")),
            _ => error,
        });
        match read? {
            0 => self.message.close().map_err(io::Error::other),
            count => self.message.feed(&bytes[..count], body).map_err(io::Error::other),
        }
    }
}

/// A read that is repeated if a signal interrupts it.
pub fn read_some(stream: &mut TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// One event of a stream, its data read as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: Option<String>,
    /// The value of an `event:` line.
    pub name: Option<String>,
    pub json: Value,
}

impl Event {
    /// The JSON-RPC result it carries.
    pub fn result(&self) -> &Value {
        &self.json["result"]
    }

    pub fn is_final(&self) -> bool {
        self.json["result"]["final"] == true
    }
}

/// An iterator over the events of one stream, which ends with the response. If the request is refused before a stream begins, the JSON
/// body of the response is the only event.
pub struct Events {
    conn: Conn,
    sse: Sse,
    ready: VecDeque<Event>,
    head: Head,
}

impl Events {
    fn open(authority: &str, request: &[u8]) -> Events {
        let mut conn = Conn::open(authority).expect("connecting to the server");
        conn.send(request).expect("sending a request");
        let mut sse = Sse::default();
        while conn.message.head().is_none() {
            conn.fill(sse.input()).expect("the head of a stream");
        }
        let head = conn.message.head().cloned().unwrap_or_default();
        let mut events = Events { conn, sse, ready: VecDeque::new(), head };
        if !events.head.is_event_stream() {
            events.take_refusal();
        }
        events
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Reads up to the first event that `fits`, and returns it. The end of the stream before that fails the test.
    pub fn until(&mut self, what: &str, mut fits: impl FnMut(&Event) -> bool) -> Event {
        let mut seen = vec![];
        for event in self.by_ref() {
            if fits(&event) {
                return event;
            }
            seen.push(event.json);
        }
        panic!("the stream ended without {what}; it had {seen:#?}");
    }

    /// Waits until the unparsed part of the stream, comments included, contains these words.
    pub fn until_words(&mut self, words: &str) {
        while !String::from_utf8_lossy(self.sse.input()).contains(words) {
            self.conn.fill(self.sse.input()).expect("more of a stream");
        }
    }

    fn take_refusal(&mut self) {
        while !self.conn.message.is_done() {
            self.conn.fill(self.sse.input()).expect("the answer to a refused stream");
        }
        let body = std::mem::take(self.sse.input());
        let json = serde_json::from_slice(&body)
            .unwrap_or_else(|error| panic!("{error}: {:?} {}", self.head, String::from_utf8_lossy(&body)));
        self.ready.push_back(Event { id: None, name: None, json });
    }

    fn take_ready(&mut self) {
        let ready = &mut self.ready;
        let drained = self.sse.drain(|frame| {
            let json =
                serde_json::from_str(&frame.data).unwrap_or_else(|error| panic!("{error} in an event: {}", frame.data));
            let (id, name) = (frame.id.map(str::to_string), frame.name.map(str::to_string));
            ready.push_back(Event { id, name, json });
        });
        drained.expect("a stream of text");
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            self.take_ready();
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.conn.message.is_done() {
                return None;
            }
            self.conn.fill(self.sse.input()).expect("the next event of a stream");
        }
    }
}
