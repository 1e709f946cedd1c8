//! The handshake: a GET that asks for WebSocket, and the response that ends HTTP on its connection.
//!
//! All requirements of RFC 6455 §4.2.1 are checked first; a refusal says what to send instead. Whether the client may connect (its
//! `Origin`) is checked in `core/connections/guard.rs`. Extensions are not supported.

use crate::base::http::{Headers, Method, Request, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// A valid handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The value of `Sec-WebSocket-Accept`, for [`write_upgrade`].
    pub accept: String,
    /// The sub-protocols that the client supports, in its order of preference: each a token, each once.
    pub protocols: Vec<String>,
}

/// Why a handshake is refused. The connection stays with HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub status: u16,
    pub message: &'static str,
    /// Header fields of the response.
    pub headers: Vec<(&'static str, String)>,
}

/// Checks a request for a WebSocket.
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
        || !headers.lists("upgrade", "websocket")
        || !headers.lists("connection", "upgrade")
    {
        return Err(upgrade_required(
            "this is a WebSocket: ask over HTTP/1.1 with `Upgrade: websocket` and `Connection: Upgrade`",
        ));
    }
    if only(headers, "sec-websocket-version") != Some(VERSION) {
        let mut refused = upgrade_required("the WebSocket spoken here is the one of `Sec-WebSocket-Version: 13`");
        refused.headers.push(("Sec-WebSocket-Version", VERSION.to_owned()));
        return Err(refused);
    }
    let key = only(headers, "sec-websocket-key")
        .filter(|key| STANDARD.decode(key).is_ok_and(|nonce| nonce.len() == NONCE_BYTES))
        .ok_or_else(|| bad_request("there must be one Sec-WebSocket-Key, 16 bytes in base64"))?;
    Ok(Upgrade { accept: accept(key), protocols: protocols(headers)? })
}

/// Writes the response head; after it both sides send frames. `protocol` is one that the client named, `more` are other headers.
pub fn write_upgrade(out: &mut Vec<u8>, accept: &str, protocol: Option<&str>, more: &[(&'static str, String)]) {
    let head =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ";
    out.extend_from_slice([head, accept, "\r\n"].concat().as_bytes());
    if let Some(protocol) = protocol {
        assert!(is_token(protocol), "protocols were checked when they were read");
        out.extend_from_slice(["Sec-WebSocket-Protocol: ", protocol, "\r\n"].concat().as_bytes());
    }
    for (name, value) in more {
        out.extend_from_slice([name, ": ", value, "\r\n"].concat().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

const VERSION: &str = "13";
const NONCE_BYTES: usize = 16;

/// The value of `Sec-WebSocket-Accept`, which proves that the server understood the handshake (RFC 6455 §4.2.2).
pub(super) fn accept(key: &str) -> String {
    const CONSTANT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let bytes = [key, CONSTANT].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes.as_bytes()))
}

fn protocols(headers: &Headers) -> Result<Vec<String>, Refused> {
    let mut protocols: Vec<String> = Vec::new();
    for protocol in headers.list("sec-websocket-protocol") {
        if !is_token(protocol) {
            return Err(bad_request("Sec-WebSocket-Protocol is not a list of names"));
        }
        if protocols.iter().all(|known| known != protocol) {
            protocols.push(protocol.to_owned());
        }
    }
    Ok(protocols)
}

/// The value of a field that must not be repeated; None if it is missing or repeated.
fn only<'a>(headers: &'a Headers, name: &'a str) -> Option<&'a str> {
    let mut values = headers.all(name);
    values.next().filter(|_| values.next().is_none())
}

fn is_token(text: &str) -> bool {
    let in_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(in_token)
}

fn upgrade_required(message: &'static str) -> Refused {
    Refused {
        status: 426,
        message,
        headers: vec![("Connection", "Upgrade".to_owned()), ("Upgrade", "websocket".to_owned())],
    }
}

fn bad_request(message: &'static str) -> Refused {
    Refused { status: 400, message, headers: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request of the RFC's own example.
    const GOOD: [(&str, &str); 4] = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Version", "13"),
    ];

    fn request(fields: &[(&str, &str)]) -> Request {
        let mut headers = Headers::default();
        for (name, value) in fields {
            headers.push(name, value);
        }
        Request {
            method: Method::Get,
            path: "/ws".to_owned(),
            query: Vec::new(),
            version: Version::Http11,
            headers,
            body: Vec::new(),
            keep_alive: true,
        }
    }

    /// The good request with other values of one field: the field is repeated for each value, and absent if there are none.
    fn with(name: &str, values: &[&str]) -> Request {
        let others = GOOD.into_iter().filter(|(known, _)| *known != name);
        let fields: Vec<_> = others.chain(values.iter().map(|value| (name, *value))).collect();
        request(&fields)
    }

    fn protocols_of(values: &[&str]) -> Result<Vec<String>, Refused> {
        upgrade(&with("Sec-WebSocket-Protocol", values)).map(|upgrade| upgrade.protocols)
    }

    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(
            upgrade(&request(&GOOD)),
            Ok(Upgrade { accept: "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned(), protocols: Vec::new() })
        );
    }

    #[test]
    fn fields_may_list_other_words_and_case_is_ignored() {
        for (name, values) in [
            ("Upgrade", &["WebSocket"][..]),
            ("Upgrade", &["h2c, websocket"]),
            ("Upgrade", &["h2c", "\twebsocket ,"]),
            ("Connection", &["keep-alive, UPGRADE"]),
            ("Connection", &["keep-alive", "upgrade"]),
        ] {
            let upgraded = upgrade(&with(name, values));
            assert!(upgraded.is_ok(), "{name}: {values:?}: {upgraded:?}");
        }
    }

    #[test]
    fn other_requests_are_refused_with_the_required_headers() {
        let refused = Refused {
            status: 426,
            message: "this is a WebSocket: ask over HTTP/1.1 with `Upgrade: websocket` and `Connection: Upgrade`",
            headers: vec![("Connection", "Upgrade".to_owned()), ("Upgrade", "websocket".to_owned())],
        };
        for (name, values) in [
            ("Upgrade", &[][..]),
            ("Upgrade", &[""]),
            ("Upgrade", &["h2c"]),
            ("Upgrade", &["websockets"]),
            ("Upgrade", &["web socket"]),
            ("Connection", &[]),
            ("Connection", &["keep-alive"]),
            ("Connection", &["upgraded"]),
        ] {
            let found = upgrade(&with(name, values));
            assert_eq!(found, Err(refused.clone()), "{name}: {values:?}");
        }
        let old = Request { version: Version::Http10, ..request(&GOOD) };
        assert_eq!(upgrade(&old), Err(refused.clone()));
        assert_eq!(upgrade(&request(&[])), Err(refused));
    }

    #[test]
    fn other_methods_are_refused() {
        for method in [Method::Post, Method::Head, Method::Other] {
            let request = Request { method, ..request(&GOOD) };
            let refused = Refused {
                status: 405,
                message: "a WebSocket begins with a GET",
                headers: vec![("Allow", "GET".to_owned())],
            };
            assert_eq!(upgrade(&request), Err(refused));
        }
    }

    #[test]
    fn other_versions_are_refused() {
        let refused = Refused {
            status: 426,
            message: "the WebSocket spoken here is the one of `Sec-WebSocket-Version: 13`",
            headers: vec![
                ("Connection", "Upgrade".to_owned()),
                ("Upgrade", "websocket".to_owned()),
                ("Sec-WebSocket-Version", "13".to_owned()),
            ],
        };
        for values in [&[][..], &[""], &["8"], &["013"], &["13, 8"], &["13", "13"], &["13", "8"]] {
            let found = upgrade(&with("Sec-WebSocket-Version", values));
            assert_eq!(found, Err(refused.clone()), "{values:?}");
        }
    }

    #[test]
    fn a_key_is_sixteen_bytes() {
        let refused = bad_request("there must be one Sec-WebSocket-Key, 16 bytes in base64");
        for values in [
            &[][..],
            &[""],
            &["no base64"],
            &["dGhlIHNhbXBsZSBub25j"],
            &["dGhlIHNhbXBsZSBub25jZWU="],
            &["dGhlIHNhbXBsZSBub25jZQ"],
            &["dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ=="],
            &["dGhlIHNhbXBsZSBub25jZQ==, dGhlIHNhbXBsZSBub25jZQ=="],
            // The bits behind the last byte are not zero: two keys for the same bytes.
            &["dGhlIHNhbXBsZSBub25jZR=="],
        ] {
            let found = upgrade(&with("Sec-WebSocket-Key", values));
            assert_eq!(found, Err(refused.clone()), "{values:?}");
        }
    }

    #[test]
    fn protocols_are_offered_in_order() {
        let found = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(protocols_of(&["chat"]), found(&["chat"]));
        assert_eq!(protocols_of(&["b,a ,\tgemini-a2a.v1", ",c,", "a"]), found(&["b", "a", "gemini-a2a.v1", "c"]));
        assert_eq!(protocols_of(&["Chat, chat"]), found(&["Chat", "chat"]));
        assert_eq!(protocols_of(&[""]), found(&[]));
        for wrong in ["a b", "a/b", "\"a\"", "a;q=1", "x, a\u{1}", "é"] {
            assert_eq!(
                protocols_of(&[wrong]),
                Err(bad_request("Sec-WebSocket-Protocol is not a list of names")),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn the_upgrade_response() {
        let head = |protocol| {
            let mut out = Vec::new();
            write_upgrade(&mut out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", protocol, &[]);
            String::from_utf8(out).expect("ASCII")
        };
        const START: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
        assert_eq!(head(None), format!("{START}\r\n"));
        assert_eq!(head(Some("gemini-a2a.v1")), format!("{START}Sec-WebSocket-Protocol: gemini-a2a.v1\r\n\r\n"));
    }

    #[test]
    #[should_panic(expected = "checked when they were read")]
    fn a_protocol_with_line_ends_panics() {
        write_upgrade(&mut Vec::new(), "", Some("a\r\nSet-Cookie: b"), &[]);
    }
}
