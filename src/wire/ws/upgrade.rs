//! The handshake: a GET that asks for WebSocket, and the answer that ends HTTP on its connection.
//!
//! Everything RFC 6455 §4.2.1 demands is checked before a word of the client is used, and a refusal says what to send instead.
//! Whether the client may be here at all (its `Origin`, its token) is not known in this layer. Extensions are offered in vain:
//! none is answered, so none is in use.

use crate::base::http::{Headers, Method, Request, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// A request that may become a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// Proof that the key was read, for [`write_upgrade`].
    pub accept: String,
    /// The sub-protocols the client speaks, the one it likes best first: each a token, each once.
    pub protocols: Vec<String>,
}

/// Why a request does not become a WebSocket. HTTP goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub status: u16,
    /// For people.
    pub message: &'static str,
    /// What the answer has to carry beside the message.
    pub headers: Vec<(&'static str, String)>,
}

pub fn upgrade(request: &Request) -> Result<Upgrade, Refused> {
    if request.method != Method::Get {
        return Err(Refused {
            status: 405,
            message: "a WebSocket begins with a GET",
            headers: vec![("Allow", "GET".to_owned())],
        });
    }
    let headers = &request.headers;
    if request.version != Version::Http11
        || !names(headers, "upgrade", "websocket")
        || !names(headers, "connection", "upgrade")
    {
        return Err(required(
            "this is a WebSocket: ask over HTTP/1.1 with `Upgrade: websocket` and `Connection: Upgrade`",
        ));
    }
    if only(headers, "sec-websocket-version") != Some(VERSION) {
        let mut refused =
            required("the WebSocket spoken here is the one of `Sec-WebSocket-Version: 13`");
        refused
            .headers
            .push(("Sec-WebSocket-Version", VERSION.to_owned()));
        return Err(refused);
    }
    let key = only(headers, "sec-websocket-key")
        .filter(|key| {
            STANDARD
                .decode(key)
                .is_ok_and(|nonce| nonce.len() == NONCE_BYTES)
        })
        .ok_or_else(|| bad("there must be one Sec-WebSocket-Key, 16 bytes in base64"))?;
    Ok(Upgrade {
        accept: accept(key),
        protocols: protocols(headers)?,
    })
}

/// Writes the head that ends HTTP; what follows it in either direction is frames. `protocol` is one of those the client named.
pub fn write_upgrade(out: &mut Vec<u8>, accept: &str, protocol: Option<&str>) {
    let mut field = |name: &str, value: &str| {
        for part in [name, ": ", value, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    };
    field("HTTP/1.1 101 Switching Protocols\r\nUpgrade", "websocket");
    field("Connection", "Upgrade");
    field("Sec-WebSocket-Accept", accept);
    if let Some(protocol) = protocol {
        assert!(
            is_token(protocol),
            "protocols were checked when they were read"
        );
        field("Sec-WebSocket-Protocol", protocol);
    }
    out.extend_from_slice(b"\r\n");
}

const VERSION: &str = "13";
const NONCE_BYTES: usize = 16;

/// The key and a constant nobody else would append, hashed: a server that does not know WebSocket cannot have made it.
fn accept(key: &str) -> String {
    const CONSTANT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let bytes = [key, CONSTANT].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes.as_bytes()))
}

fn protocols(headers: &Headers) -> Result<Vec<String>, Refused> {
    let mut protocols: Vec<String> = Vec::new();
    for protocol in elements(headers, "sec-websocket-protocol") {
        if !is_token(protocol) {
            return Err(bad("Sec-WebSocket-Protocol is not a list of names"));
        }
        if protocols.iter().all(|known| known != protocol) {
            protocols.push(protocol.to_owned());
        }
    }
    Ok(protocols)
}

/// The elements of a list that may be spread over several fields. Empty ones do not count, as HTTP has it for every list.
fn elements<'a>(headers: &'a Headers, name: &'a str) -> impl Iterator<Item = &'a str> {
    headers
        .all(name)
        .flat_map(|value| value.split(','))
        .map(|element| element.trim_matches([' ', '\t']))
        .filter(|element| !element.is_empty())
}

fn names(headers: &Headers, name: &str, word: &str) -> bool {
    elements(headers, name).any(|element| element.eq_ignore_ascii_case(word))
}

/// The value of a field that may come once; one that contradicts itself says nothing.
fn only<'a>(headers: &'a Headers, name: &'a str) -> Option<&'a str> {
    let mut values = headers.all(name);
    values.next().filter(|_| values.next().is_none())
}

fn is_token(text: &str) -> bool {
    let in_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(in_token)
}

fn required(message: &'static str) -> Refused {
    Refused {
        status: 426,
        message,
        headers: vec![
            ("Connection", "Upgrade".to_owned()),
            ("Upgrade", "websocket".to_owned()),
        ],
    }
}

fn bad(message: &'static str) -> Refused {
    Refused {
        status: 400,
        message,
        headers: Vec::new(),
    }
}
