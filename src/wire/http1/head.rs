//! Parses the head of a request, in three passes. A scan of each byte as it arrives accepts only printable ASCII in lines that end
//! with CRLF; it refuses bare line ends, control bytes and heads that are too large. Then `httparse` checks the grammar of the
//! complete head. Then the fields are read that decide where the request ends and which host it is for; `httparse` does not check
//! these, and parsers disagree about them.

use super::body::Body;
use super::{Reject, bad_request};
use crate::base::buf::Buf;
use crate::base::http::{Headers, Method, Request, Version};
use crate::limits::Limits;
use crate::wire::uri::{self, Authority};
use httparse::Status;

/// A parsed head, and how to read the body.
pub(super) struct Head {
    /// The request, its body still empty.
    pub request: Request,
    pub body: Body,
    pub awaits_continue: bool,
}

/// The search for the end of a head: how far the queue was scanned, and the empty lines skipped before the head.
#[derive(Debug, Default)]
pub(super) struct Search {
    scanned: usize,
    blanks: usize,
}

impl Search {
    /// The length of the head at the front of the queue, once it is complete.
    pub fn find(&mut self, rx: &mut Buf, limits: &Limits) -> Result<Option<usize>, Reject> {
        while self.scanned == 0 && rx.as_slice().starts_with(b"\r\n") {
            self.blanks += 1;
            if self.blanks > limits.blank_lines {
                return Err(bad_request("empty lines instead of a request"));
            }
            rx.consume(2);
        }
        // A single CR may be the first half of another empty line.
        if rx.as_slice() == b"\r" {
            return Ok(None);
        }
        section_end(rx.as_slice(), &mut self.scanned, limits)
    }
}

/// The end of lines that end with an empty one: a head, or the trailers of a chunked body.
pub(super) fn section_end(bytes: &[u8], scanned: &mut usize, limits: &Limits) -> Result<Option<usize>, Reject> {
    const TOO_LARGE: Reject = Reject { status: 431, message: "the header fields are larger than this server takes" };
    while let Some(end) = line_end(bytes, scanned, limits.head_bytes, TOO_LARGE)? {
        if end == 2 || bytes[..end].ends_with(b"\r\n\r\n") {
            return Ok(Some(end));
        }
    }
    Ok(None)
}

/// The end of the line that contains `scanned`, line end included. Each byte is checked with only the one before it, so the result is
/// the same however the bytes arrive.
pub(super) fn line_end(
    bytes: &[u8],
    scanned: &mut usize,
    room: usize,
    no_room: Reject,
) -> Result<Option<usize>, Reject> {
    while let Some(&byte) = bytes.get(*scanned) {
        if *scanned >= room {
            return Err(no_room);
        }
        let after_cr = *scanned > 0 && bytes[*scanned - 1] == b'\r';
        *scanned += 1;
        match (byte, after_cr) {
            (b'\n', true) => return Ok(Some(*scanned)),
            (b'\n', false) => return Err(bad_request("a line ends in LF without CR")),
            (_, true) => return Err(bad_request("a CR stands without LF")),
            (b'\r' | b'\t' | b' '..=b'~', false) => {}
            (_, false) => return Err(bad_request("a byte that is not printable ASCII")),
        }
    }
    Ok(None)
}

/// Parses a complete head, as found by [`Search::find`].
pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Result<Head, Reject> {
    let mut fields = vec![httparse::EMPTY_HEADER; limits.head_fields];
    let mut raw = httparse::Request::new(&mut fields);
    match raw.parse(bytes) {
        Ok(Status::Complete(len)) if len == bytes.len() => {}
        Ok(_) => return Err(bad_request("the head is not a request")),
        Err(error) => return Err(refusal(error, bytes)),
    }
    let (Some(method), Some(target), Some(minor)) = (raw.method, raw.path, raw.version) else {
        return Err(bad_request("the head is not a request"));
    };
    let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
    let mut headers = Headers::default();
    for field in raw.headers.iter() {
        let value = str::from_utf8(field.value).map_err(|_| bad_request("a header value is not ASCII"))?;
        headers.push(field.name, value);
    }

    let host = host(&headers, version)?;
    check_single(&headers)?;
    let (method, path, query) = route(method, target, host.as_ref(), limits)?;
    let body = framing(&headers, version, limits)?;
    let expected = expectation(&headers)?;
    Ok(Head {
        awaits_continue: expected && version == Version::Http11 && body.is_wanted(),
        body,
        request: Request {
            method,
            path,
            query,
            version,
            keep_alive: keep_alive(&headers, version),
            headers,
            body: Vec::new(),
        },
    })
}

/// The refusal for an error of `httparse`.
pub(super) fn refusal(error: httparse::Error, bytes: &[u8]) -> Reject {
    use httparse::Error;
    match error {
        Error::TooManyHeaders => Reject { status: 431, message: "more header fields than this server takes" },
        Error::Version => version_refusal(bytes),
        Error::HeaderName => bad_request("a header line does not begin with a name and a colon"),
        Error::HeaderValue => bad_request("the value of a header field is not text"),
        Error::NewLine | Error::Status | Error::Token => {
            bad_request("the request line is not `METHOD target HTTP/1.1`")
        }
    }
}

/// Distinguishes an unsupported version of HTTP from something that is not HTTP.
fn version_refusal(bytes: &[u8]) -> Reject {
    let line = bytes.split(|&b| b == b'\r').next().unwrap_or(bytes);
    let words: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    match words[..] {
        [_, _, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Reject { status: 505, message: "this server speaks HTTP/1.1 and HTTP/1.0" }
        }
        _ => bad_request("the request line is not `METHOD target HTTP/1.1`"),
    }
}

/// The `Host` of the request. Only HTTP/1.0 may omit it.
fn host(headers: &Headers, version: Version) -> Result<Option<Authority>, Reject> {
    let mut hosts = headers.all("host");
    match (hosts.next(), hosts.next(), version) {
        (Some(_), Some(_), _) => Err(bad_request("more than one Host")),
        (Some(host), None, _) => match uri::host_of(host) {
            Some(authority) => Ok(Some(authority)),
            None => Err(bad_request("Host is not `name` or `name:port`, without anything else")),
        },
        (None, _, Version::Http11) => Err(bad_request("HTTP/1.1 needs a Host")),
        (None, _, Version::Http10) => Ok(None),
    }
}

/// Refuses repetitions of the fields on which access or the body depends: code that uses the first field and code that uses the last one
/// would decide differently.
fn check_single(headers: &Headers) -> Result<(), Reject> {
    for (name, message) in [
        ("origin", "more than one Origin"),
        ("sec-fetch-site", "more than one Sec-Fetch-Site"),
        ("content-type", "more than one Content-Type"),
    ] {
        if headers.all(name).nth(1).is_some() {
            return Err(bad_request(message));
        }
    }
    Ok(())
}

type Route = (Method, String, Vec<(String, String)>);

fn route(method: &str, target: &str, host: Option<&Authority>, limits: &Limits) -> Result<Route, Reject> {
    if method == "CONNECT" {
        return Err(Reject { status: 405, message: "this server is not a proxy" });
    }
    let method = Method::from_word(method).unwrap_or(Method::Other);
    if method == Method::Options && target == "*" {
        return Ok((method, target.to_owned(), Vec::new()));
    }
    let target = uri::target_of(target).map_err(bad_request)?;
    if let (Some(theirs), Some(host)) = (&target.authority, host) {
        // Absolute targets are `http` ones, so a port left out means 80 on both sides.
        let port = |authority: &Authority| authority.port.unwrap_or(80);
        if theirs.host != host.host || port(theirs) != port(host) {
            return Err(bad_request("the target and Host name different servers"));
        }
    }
    if target.query.len() > limits.head_fields {
        return Err(Reject { status: 414, message: "more query parameters than this server takes" });
    }
    Ok((method, target.path, target.query))
}

/// How the body is delimited. Refuses everything that a proxy in front of us might read differently.
fn framing(headers: &Headers, version: Version, limits: &Limits) -> Result<Body, Reject> {
    let mut lengths = headers.all("content-length");
    let mut codings = headers.all("transfer-encoding");
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(Body::Fixed { remaining: 0 }),
        (Some(_), Some(_)) => Err(bad_request("both Content-Length and Transfer-Encoding")),
        (Some(_), None) if lengths.next().is_some() => Err(bad_request("more than one Content-Length")),
        (Some(length), None) => fixed_length(length, limits),
        (None, Some(_)) if version == Version::Http10 => Err(bad_request("HTTP/1.0 knows no Transfer-Encoding")),
        (None, Some(_)) if codings.next().is_some() => Err(bad_request("more than one Transfer-Encoding")),
        (None, Some(coding)) if coding.eq_ignore_ascii_case("chunked") => Ok(Body::ChunkLine { scanned: 0 }),
        (None, Some(coding)) => Err(coding_refusal(coding)),
    }
}

fn fixed_length(length: &str, limits: &Limits) -> Result<Body, Reject> {
    if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad_request("Content-Length is not a number"));
    }
    let length: u64 = length.parse().map_err(|_| bad_request("Content-Length has too many digits"))?;
    match usize::try_from(length) {
        Ok(remaining) if remaining <= limits.body_bytes => Ok(Body::Fixed { remaining }),
        _ => Ok(Body::TooLarge),
    }
}

/// 501 for further codings before a final `chunked`, which another server might support; 400 without a final `chunked`, because then
/// the end of the body is unknown.
fn coding_refusal(coding: &str) -> Reject {
    let mut codings = coding.split(',').map(|c| c.trim_matches([' ', '\t']));
    let last = codings.next_back().unwrap_or_default();
    let known_twice = |c: &str| c.is_empty() || c.eq_ignore_ascii_case("chunked");
    if last.eq_ignore_ascii_case("chunked") && !codings.any(known_twice) {
        Reject { status: 501, message: "the only Transfer-Encoding here is chunked" }
    } else {
        bad_request("Transfer-Encoding does not end in one chunked")
    }
}

/// Whether the client waits for `100 Continue`.
fn expectation(headers: &Headers) -> Result<bool, Reject> {
    let mut expected = false;
    for value in headers.all("expect") {
        if !value.eq_ignore_ascii_case("100-continue") {
            return Err(Reject { status: 417, message: "the only expectation met here is 100-continue" });
        }
        expected = true;
    }
    Ok(expected)
}

fn keep_alive(headers: &Headers, version: Version) -> bool {
    let stays_open = match version {
        Version::Http11 => true,
        Version::Http10 => headers.lists("connection", "keep-alive"),
    };
    stays_open && !headers.lists("connection", "close")
}
