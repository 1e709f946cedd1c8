//! An HTTP/1.1 message reader without a socket: bytes go in as they come, decoded body bytes come out. The fake model reads
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

/// Who sent the message: decides what a missing length means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Request,
    Response,
    /// A response that has no body whatever its head says: the answer to HEAD.
    HeadOnly,
}

#[derive(Debug)]
enum At {
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
    at: At,
    head: Head,
}

impl Message {
    pub fn new(side: Side) -> Message {
        Message { side, raw: vec![], used: 0, at: At::Head, head: Head::default() }
    }

    /// The head, once it is complete.
    pub fn head(&self) -> Option<&Head> {
        (!matches!(self.at, At::Head)).then_some(&self.head)
    }

    pub fn is_done(&self) -> bool {
        matches!(self.at, At::Done)
    }

    /// Nothing of a message has arrived yet.
    pub fn is_untouched(&self) -> bool {
        matches!(self.at, At::Head) && self.raw.is_empty()
    }

    /// Takes bytes off the wire; what they decode to is appended to `body`.
    pub fn feed(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<(), String> {
        self.raw.extend_from_slice(bytes);
        while self.step(body)? {}
        self.raw.drain(..self.used);
        self.used = 0;
        Ok(())
    }

    /// The peer has closed: is that a whole message?
    pub fn close(&mut self) -> Result<(), String> {
        match self.at {
            At::Done => Ok(()),
            At::UntilClose => {
                self.at = At::Done;
                Ok(())
            }
            _ => Err(format!("closed in the middle of a message, at {:?}", self.at)),
        }
    }

    /// Ready for the next message on the same connection; bytes already read belong to it.
    pub fn restart(&mut self, side: Side, body: &mut Vec<u8>) -> Result<(), String> {
        self.side = side;
        self.at = At::Head;
        self.feed(&[], body)
    }

    /// What came behind a whole message, on a connection that speaks another protocol from there on.
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.raw)
    }

    fn step(&mut self, body: &mut Vec<u8>) -> Result<bool, String> {
        let rest = &self.raw[self.used..];
        match self.at {
            At::Done => return Ok(false),
            At::Head => {
                let Some(end) = find(rest, b"\r\n\r\n") else {
                    return Ok(false);
                };
                self.head = Head::parse(&rest[..end])?;
                self.used += end + 4;
                self.at = self.framing()?;
            }
            At::Length(left) | At::Chunk(left) => {
                let take = left.min(rest.len());
                body.extend_from_slice(&rest[..take]);
                self.used += take;
                self.at = match (&self.at, left - take) {
                    (At::Length(_), 0) => At::Done,
                    (At::Length(_), more) => At::Length(more),
                    (_, 0) => At::ChunkEnd,
                    (_, more) => At::Chunk(more),
                };
                return Ok(take > 0 && take == left);
            }
            At::UntilClose => {
                body.extend_from_slice(rest);
                self.used += rest.len();
                return Ok(false);
            }
            At::ChunkSize | At::ChunkEnd | At::Trailer => {
                let Some(end) = find(rest, b"\r\n") else {
                    return Ok(false);
                };
                let line = String::from_utf8_lossy(&rest[..end]).into_owned();
                self.used += end + 2;
                self.at = match self.at {
                    At::ChunkEnd if line.is_empty() => At::ChunkSize,
                    At::ChunkEnd => return Err(format!("chunk longer than its size: {line}")),
                    At::Trailer if line.is_empty() => At::Done,
                    At::Trailer => At::Trailer,
                    _ => match chunk_size(&line)? {
                        0 => At::Trailer,
                        size => At::Chunk(size),
                    },
                };
            }
        }
        Ok(true)
    }

    fn framing(&self) -> Result<At, String> {
        let bodiless = matches!(self.head.status(), 100..=199 | 204 | 304);
        if self.side == Side::HeadOnly || (self.side == Side::Response && bodiless) {
            return Ok(At::Done);
        }
        if self.head.field("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
            return Ok(At::ChunkSize);
        }
        match (self.head.field("content-length"), self.side) {
            (Some("0"), _) | (None, Side::Request) => Ok(At::Done),
            (Some(length), _) => length.parse().map(At::Length).map_err(|_| format!("content-length {length}")),
            (None, _) => Ok(At::UntilClose),
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
