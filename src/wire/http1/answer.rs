//! Writes responses. For a complete response this is the head; the caller queues the body without copying it. A stream is a head and
//! then frames, each inside a [`Framing`].
//!
//! The status line always says HTTP/1.1, as RFC 9110 requires; an HTTP/1.0 client gets neither chunks nor an implicit keep-alive.

use crate::base::Shared;
use crate::base::clock::http_date;
use crate::base::http::{Method, Response, Version};
use std::io::Write;

/// Tells a waiting client to send its body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The properties of a request on which the form of its response depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    pub version: Version,
    pub method: Method,
    pub keep_alive: bool,
}

/// Writes the head of a response, with further fields, and returns the body to send after it: none for HEAD, nor for a status without a body.
#[must_use = "the body follows the head on the wire"]
pub fn write_head(
    out: &mut Vec<u8>,
    response: &Response,
    more: &[(&'static str, String)],
    reply: Reply,
    now_unix_ms: u64,
) -> Option<Shared> {
    let has_body = !matches!(response.status, 204 | 304);
    let length = has_body.then(|| ("Content-Length", response.body.len().to_string()));
    let fields = response.headers.iter().chain(more).chain(&length).map(|(name, value)| (*name, value.as_str()));
    write_fields(out, response.status, fields, reply, now_unix_ms);

    let follows = has_body && reply.method != Method::Head && !response.body.is_empty();
    follows.then(|| response.body.clone())
}

/// Writes the head of a stream: 200, without a length. For HEAD the caller sends nothing more.
pub fn write_stream_head(out: &mut Vec<u8>, headers: &[(&str, &str)], reply: Reply, now_unix_ms: u64) -> Framing {
    let framing = match reply.version {
        Version::Http11 => Framing::Chunked,
        Version::Http10 => Framing::UntilClose,
    };
    let (chunked, reply) = match framing {
        Framing::Chunked => (Some(&("Transfer-Encoding", "chunked")), reply),
        Framing::UntilClose => (None, Reply { keep_alive: false, ..reply }),
    };
    write_fields(out, 200, headers.iter().chain(chunked).copied(), reply, now_unix_ms);
    framing
}

/// How the pieces of a stream are delimited: by chunks, or not at all, in which case the stream ends with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Chunked,
    UntilClose,
}

impl Framing {
    /// Writes what goes before a piece of `payload_len` bytes. The length is not 0, because an empty chunk would end the stream.
    pub fn open(self, out: &mut Vec<u8>, payload_len: usize) {
        assert!(payload_len > 0, "an empty chunk ends the stream: use `end`");
        self.write(out, format_args!("{payload_len:x}\r\n"));
    }

    /// Writes what goes after a piece.
    pub fn close(self, out: &mut Vec<u8>) {
        self.write(out, format_args!("\r\n"));
    }

    /// Writes what goes after the last piece.
    pub fn end(self, out: &mut Vec<u8>) {
        self.write(out, format_args!("0\r\n\r\n"));
    }

    fn write(self, out: &mut Vec<u8>, chunk: std::fmt::Arguments<'_>) {
        match self {
            Framing::Chunked => append(out, chunk),
            Framing::UntilClose => {}
        }
    }
}

/// Writes a head: the status line, the given fields, `Connection` and `Date`.
fn write_fields<'a>(
    out: &mut Vec<u8>,
    status: u16,
    fields: impl Iterator<Item = (&'a str, &'a str)>,
    reply: Reply,
    now_unix_ms: u64,
) {
    append(out, format_args!("HTTP/1.1 {status} {}\r\n", reason(status)));
    for (name, value) in fields {
        write_field(out, name, value);
    }
    write_connection(out, reply);
    write_field(out, "Date", &http_date(now_unix_ms));
    out.extend_from_slice(b"\r\n");
}

/// Writes a header field. Control bytes in the value become spaces, because the value may contain text of a client, and a line end in it
/// would start another field.
fn write_field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend(value.bytes().map(|b| if b.is_ascii_control() { b' ' } else { b }));
    out.extend_from_slice(b"\r\n");
}

/// Writes `Connection` where it differs from the default: HTTP/1.1 keeps connections open, HTTP/1.0 closes them.
fn write_connection(out: &mut Vec<u8>, reply: Reply) {
    match (reply.keep_alive, reply.version) {
        (false, Version::Http11 | Version::Http10) => write_field(out, "Connection", "close"),
        (true, Version::Http10) => write_field(out, "Connection", "keep-alive"),
        (true, Version::Http11) => {}
    }
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory does not fail");
}

/// The reason phrase; empty for a status that is not listed, which the grammar allows.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 784_111_777_000;
    const REPLY: Reply = Reply { version: Version::Http11, method: Method::Get, keep_alive: true };

    fn head(response: &Response, reply: Reply) -> (String, Option<Shared>) {
        let mut out = Vec::new();
        let body = write_head(&mut out, response, &[], reply, NOW);
        (String::from_utf8(out).expect("ASCII"), body)
    }

    #[test]
    fn a_head_announces_its_body() {
        let response = Response::json(200, b"{}".to_vec());
        assert_eq!(
            head(&response, REPLY),
            (
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
                 Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
                    .to_owned(),
                Some(Shared::from(*b"{}"))
            )
        );
        let reply = Reply { method: Method::Head, keep_alive: false, ..REPLY };
        assert_eq!(
            head(&response, reply),
            (
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
                 Connection: close\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
                    .to_owned(),
                None
            )
        );
    }

    #[test]
    fn statuses_without_a_body_have_no_length() {
        let old = Reply { version: Version::Http10, ..REPLY };
        assert_eq!(
            head(&Response::empty(204), old).0,
            "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
        );
        assert_eq!(
            head(&Response::empty(299), REPLY).0,
            "HTTP/1.1 299 \r\nContent-Length: 0\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
        );
    }

    #[test]
    fn a_value_cannot_begin_another_field() {
        let response = Response::empty(201).with("Location", "/a\r\nSet-Cookie: b=c\0");
        assert_eq!(
            head(&response, REPLY).0,
            "HTTP/1.1 201 Created\r\nLocation: /a  Set-Cookie: b=c \r\nContent-Length: 0\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
        );
    }

    fn stream(reply: Reply) -> String {
        let mut out = Vec::new();
        let headers = [("Content-Type", "text/event-stream")];
        let framing = write_stream_head(&mut out, &headers, reply, NOW);
        let event = b"data: {}  <- 20 bytes";
        framing.open(&mut out, event.len());
        out.extend_from_slice(event);
        framing.close(&mut out);
        framing.end(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn a_stream_is_chunked_where_the_client_knows_chunks() {
        assert_eq!(
            stream(REPLY),
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n\
             15\r\ndata: {}  <- 20 bytes\r\n0\r\n\r\n"
        );
        let old = Reply { version: Version::Http10, ..REPLY };
        assert_eq!(
            stream(old),
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\ndata: {}  <- 20 bytes"
        );
    }
}
