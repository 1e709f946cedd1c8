//! Reads the body of a request as it arrives: with a declared length, or in chunks. Each byte is moved from the queue into the body
//! once; only the lines between chunks are parsed.
//!
//! The size is checked before bytes are taken: a declared length with the head, the size of a chunk with its line. Memory grows with the
//! bytes that arrived, not with those announced, and never exceeds the limit.

use super::head::{line_end, refusal, section_end};
use super::{Reject, bad_request};
use crate::base::buf::Buf;
use crate::limits::Limits;

pub(super) const TOO_LARGE: Reject = Reject { status: 413, message: "the body is larger than this server takes" };

/// The part of a body that is still to be read.
#[derive(Debug)]
pub(super) enum Body {
    /// The announced length is too large. The request is refused only after its head was parsed, so that the error can be written in the
    /// dialect of the request.
    TooLarge,
    Fixed {
        remaining: usize,
    },
    ChunkLine {
        scanned: usize,
    },
    ChunkData {
        remaining: usize,
    },
    ChunkEnd,
    Trailers {
        scanned: usize,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Filled {
    Partly,
    Wholly,
}

impl Body {
    /// Whether the client should send the body.
    pub fn is_wanted(&self) -> bool {
        !matches!(self, Body::Fixed { remaining: 0 } | Body::TooLarge)
    }

    /// The number of bytes that are announced and have not arrived.
    pub fn remaining(&self) -> usize {
        match self {
            Body::Fixed { remaining } | Body::ChunkData { remaining } => *remaining,
            Body::TooLarge | Body::ChunkLine { .. } | Body::ChunkEnd | Body::Trailers { .. } => 0,
        }
    }

    /// Moves bytes from the queue into `body`.
    pub fn fill(&mut self, body: &mut Vec<u8>, rx: &mut Buf, limits: &Limits) -> Result<Filled, Reject> {
        loop {
            match self {
                Body::TooLarge => return Err(TOO_LARGE),
                Body::Fixed { remaining } => {
                    let whole = body.len() + *remaining;
                    *remaining -= take(body, rx, *remaining, whole);
                    return Ok(if *remaining == 0 { Filled::Wholly } else { Filled::Partly });
                }
                Body::ChunkLine { scanned } => {
                    let too_long = bad_request("the line of a chunk is too long");
                    let room = limits.chunk_line_bytes;
                    let Some(end) = line_end(rx.as_slice(), scanned, room, too_long)? else {
                        return Ok(Filled::Partly);
                    };
                    let size = chunk_size(&rx.as_slice()[..end - 2])?;
                    rx.consume(end);
                    *self = match usize::try_from(size) {
                        Ok(0) => Body::Trailers { scanned: 0 },
                        Ok(remaining) if remaining <= limits.body_bytes - body.len() => Body::ChunkData { remaining },
                        _ => return Err(TOO_LARGE),
                    };
                }
                Body::ChunkData { remaining } => {
                    *remaining -= take(body, rx, *remaining, limits.body_bytes);
                    if *remaining > 0 {
                        return Ok(Filled::Partly);
                    }
                    *self = Body::ChunkEnd;
                }
                Body::ChunkEnd => match rx.as_slice() {
                    [] | [b'\r'] => return Ok(Filled::Partly),
                    [b'\r', b'\n', ..] => {
                        rx.consume(2);
                        *self = Body::ChunkLine { scanned: 0 };
                    }
                    _ => return Err(bad_request("a chunk does not end where it says")),
                },
                Body::Trailers { scanned } => {
                    let Some(end) = section_end(rx.as_slice(), scanned, limits)? else {
                        return Ok(Filled::Partly);
                    };
                    check_trailers(&rx.as_slice()[..end], limits)?;
                    rx.consume(end);
                    return Ok(Filled::Wholly);
                }
            }
        }
    }
}

/// Moves up to `remaining` bytes and returns how many. The capacity doubles, so that the total copying is linear, but never exceeds
/// `most`: `Vec` alone would exceed the limit by half.
fn take(body: &mut Vec<u8>, rx: &mut Buf, remaining: usize, most: usize) -> usize {
    let n = rx.len().min(remaining);
    let needed = body.len() + n;
    if needed > body.capacity() {
        let room = (body.capacity() * 2).min(most).max(needed);
        body.reserve_exact(room - body.len());
    }
    body.extend_from_slice(&rx.as_slice()[..n]);
    rx.consume(n);
    n
}

/// Parses `1a` or `1a;name=value`; a valid extension is ignored.
fn chunk_size(line: &[u8]) -> Result<u64, Reject> {
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let (size, extension) = line.split_at(digits);
    if size.is_empty() || size.len() > 16 {
        return Err(bad_request("the size of a chunk is not 1 to 16 hexadecimal digits"));
    }
    if !is_extension(extension) {
        return Err(bad_request("the line of a chunk is not `size` or `size;name=value`"));
    }
    Ok(size.iter().fold(0, |sum, &digit| {
        let value = (digit as char).to_digit(16).expect("counted as a hexadecimal digit");
        sum << 4 | u64::from(value)
    }))
}

/// Whether the text consists of any number of `;name`, `;name=token` or `;name="quoted"`, with blanks only before each part.
fn is_extension(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        let Some(after) = blanks(rest).strip_prefix(b";") else {
            return false;
        };
        let Some(after) = token(blanks(after)) else {
            return false;
        };
        rest = match blanks(after).strip_prefix(b"=") {
            None => after,
            Some(value) => match token(blanks(value)).or_else(|| quoted(blanks(value))) {
                Some(after) => after,
                None => return false,
            },
        };
    }
    true
}

/// The text after leading blanks.
fn blanks(text: &[u8]) -> &[u8] {
    let n = text.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    &text[n..]
}

/// The text after a leading token, if there is one.
fn token(text: &[u8]) -> Option<&[u8]> {
    let is_part = |b: &&u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    match text.iter().take_while(is_part).count() {
        0 => None,
        n => Some(&text[n..]),
    }
}

/// The text after a leading quoted string, if there is one.
fn quoted(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"\"")?;
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', _, after @ ..] => after,
            [b'\\'] | [] => return None,
            [_, after @ ..] => after,
        };
    }
}

/// Checks that trailers are header fields. They are then discarded, so none is used as a header.
fn check_trailers(bytes: &[u8], limits: &Limits) -> Result<(), Reject> {
    let mut fields = vec![httparse::EMPTY_HEADER; limits.head_fields];
    match httparse::parse_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete((len, _))) if len == bytes.len() => Ok(()),
        Ok(_) => Err(bad_request("the trailers are not header fields")),
        Err(error) => Err(refusal(error, bytes)),
    }
}
