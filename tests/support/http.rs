//! An HTTP/1.1 message parser without a socket: it takes bytes in pieces of any size and returns decoded body bytes. The fake model reads
//! requests with it, the client and the load generator responses.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Request line or status line.
    pub start: String,
    pub fields: Vec<(String, String)>,
}

impl Head {
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The status code of a response.
    pub fn status(&self) -> u16 {
        self.word(1).parse().unwrap_or(0)
    }

    /// The method of a request.
    pub fn method(&self) -> &str {
        self.word(0)
    }

    /// The path and query of a request.
    pub fn target(&self) -> &str {
        self.word(1)
    }

    pub fn closes(&self) -> bool {
        self.field("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"))
    }

    pub fn is_event_stream(&self) -> bool {
        self.field("content-type").is_some_and(|v| v.starts_with("text/event-stream"))
    }

    fn word(&self, n: usize) -> &str {
        self.start.split(' ').nth(n).unwrap_or("")
    }

    fn parse(bytes: &[u8]) -> Result<Head, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "a head that is not UTF-8".to_string())?;
        let mut lines = text.split("\r\n");
        let start = lines.next().unwrap_or("").to_string();
        let field = |line: &str| {
            let (name, value) = line.split_once(':').ok_or_else(|| format!("a bad field: {line}"))?;
            Ok((name.to_string(), value.trim().to_string()))
        };
        let fields = lines.filter(|l| !l.is_empty()).map(field).collect::<Result<_, String>>()?;
        Ok(Head { start, fields })
    }
}

/// The kind of the message, which decides what a missing length means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Request,
    Response,
    /// A response to HEAD, which has no body whatever its head says.
    HeadOnly,
}

#[derive(Debug)]
enum State {
    Head,
    Length(usize),
    ChunkSize,
    Chunk(usize),
    ChunkEnd,
    Trailer,
    UntilClose,
    Done,
}

#[derive(Debug)]
pub struct Message {
    side: Side,
    raw: Vec<u8>,
    used: usize,
    state: State,
    head: Head,
}

impl Message {
    pub fn new(side: Side) -> Message {
        Message { side, raw: vec![], used: 0, state: State::Head, head: Head::default() }
    }

    /// The head, once it is complete.
    pub fn head(&self) -> Option<&Head> {
        (!matches!(self.state, State::Head)).then_some(&self.head)
    }

    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether no byte of the message has arrived.
    pub fn is_untouched(&self) -> bool {
        matches!(self.state, State::Head) && self.raw.is_empty()
    }

    /// Parses received bytes and appends decoded body bytes to `body`.
    pub fn feed(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<(), String> {
        self.raw.extend_from_slice(bytes);
        while self.step(body)? {}
        self.raw.drain(..self.used);
        self.used = 0;
        Ok(())
    }

    /// Called when the peer has closed the connection. An error if the message is incomplete.
    pub fn close(&mut self) -> Result<(), String> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(format!("closed in the middle of a message, at {:?}", self.state)),
        }
    }

    /// Begins the next message on the same connection; bytes that were already received belong to it.
    pub fn restart(&mut self, side: Side, body: &mut Vec<u8>) -> Result<(), String> {
        self.side = side;
        self.state = State::Head;
        self.feed(&[], body)
    }

    /// The bytes after a whole message, for a connection that was upgraded to another protocol.
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.raw)
    }

    fn step(&mut self, body: &mut Vec<u8>) -> Result<bool, String> {
        let rest = &self.raw[self.used..];
        match self.state {
            State::Done => return Ok(false),
            State::Head => {
                let Some(end) = find(rest, b"\r\n\r\n") else {
                    return Ok(false);
                };
                self.head = Head::parse(&rest[..end])?;
                self.used += end + 4;
                self.state = self.framing()?;
            }
            State::Length(left) | State::Chunk(left) => {
                let take = left.min(rest.len());
                body.extend_from_slice(&rest[..take]);
                self.used += take;
                self.state = match (&self.state, left - take) {
                    (State::Length(_), 0) => State::Done,
                    (State::Length(_), more) => State::Length(more),
                    (_, 0) => State::ChunkEnd,
                    (_, more) => State::Chunk(more),
                };
                return Ok(take > 0 && take == left);
            }
            State::UntilClose => {
                body.extend_from_slice(rest);
                self.used += rest.len();
                return Ok(false);
            }
            State::ChunkSize | State::ChunkEnd | State::Trailer => {
                let Some(end) = find(rest, b"\r\n") else {
                    return Ok(false);
                };
                let line = String::from_utf8_lossy(&rest[..end]).into_owned();
                self.used += end + 2;
                self.state = match self.state {
                    State::ChunkEnd if line.is_empty() => State::ChunkSize,
                    State::ChunkEnd => return Err(format!("chunk longer than its size: {line}")),
                    State::Trailer if line.is_empty() => State::Done,
                    State::Trailer => State::Trailer,
                    _ => match chunk_size(&line)? {
                        0 => State::Trailer,
                        size => State::Chunk(size),
                    },
                };
            }
        }
        Ok(true)
    }

    fn framing(&self) -> Result<State, String> {
        let bodiless = matches!(self.head.status(), 100..=199 | 204 | 304);
        if self.side == Side::HeadOnly || (self.side == Side::Response && bodiless) {
            return Ok(State::Done);
        }
        if self.head.field("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
            return Ok(State::ChunkSize);
        }
        match (self.head.field("content-length"), self.side) {
            (Some("0"), _) | (None, Side::Request) => Ok(State::Done),
            (Some(length), _) => length.parse().map(State::Length).map_err(|_| format!("content-length {length}")),
            (None, _) => Ok(State::UntilClose),
        }
    }
}

fn chunk_size(line: &str) -> Result<usize, String> {
    let digits = line.split(';').next().unwrap_or("").trim();
    usize::from_str_radix(digits, 16).map_err(|_| format!("chunk size {line:?}"))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|w| w == what)
}
