//! The client's side of the handshake: writes the request for a WebSocket and checks the response. A response that does not agree to
//! exactly what was requested is an error.

use super::upgrade::accept;
use crate::base::http::Headers;
use crate::base::secret::Secret;
use crate::limits::ui::{ANSWER_BYTES, ANSWER_FIELDS};
use httparse::{EMPTY_HEADER, Response, Status};

/// A request for a WebSocket.
#[derive(Clone, Debug)]
pub struct HandshakeRequest {
    /// The value of the field `Host`.
    pub host: String,
    /// The path and the query.
    pub target: String,
    /// 16 random bytes in base64.
    pub key: String,
    /// The only sub-protocol that is accepted.
    pub protocol: &'static str,
    /// The credential of the client, one word of visible ASCII characters.
    pub token: Option<Secret>,
}

/// Why the handshake failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The server answered with this status, and gave this reason if any.
    Status(u16, Option<String>),
    /// The server is not one of ours; the text says how its response differs.
    Foreign(&'static str),
}

impl HandshakeRequest {
    pub fn request(&self) -> String {
        let HandshakeRequest { host, target, key, protocol, token } = self;
        let authorization = token.as_ref().map(|token| format!("Authorization: Bearer {}\r\n", token.reveal()));
        let authorization = authorization.unwrap_or_default();
        format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {protocol}\r\n{authorization}\r\n"
        )
    }

    /// Reads the part of the response that has arrived. Returns the length of the head if the server agrees, None if the response is
    /// incomplete.
    pub fn response(&self, bytes: &[u8]) -> Result<Option<usize>, Denied> {
        let mut fields = [EMPTY_HEADER; ANSWER_FIELDS];
        let mut response = Response::new(&mut fields);
        let head = match response.parse(bytes) {
            Ok(Status::Complete(head)) => head,
            Ok(Status::Partial) if bytes.len() < ANSWER_BYTES => return Ok(None),
            Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Err(Denied::Foreign("its answer is too long"));
            }
            Err(_) => return Err(Denied::Foreign("it does not speak HTTP")),
        };
        let mut headers = Headers::default();
        for field in response.headers.iter() {
            headers.push(field.name, &String::from_utf8_lossy(field.value));
        }
        match response.code {
            Some(101) => self.check_headers(&headers).map(|()| Some(head)),
            status => {
                let len = headers.get("content-length").and_then(|len| len.parse().ok()).unwrap_or(0_usize);
                let whole = head.saturating_add(len).min(ANSWER_BYTES);
                let body = || {
                    let reason = reason(bytes.get(head..whole).unwrap_or_default())?;
                    // Our servers never repeat a token, but a proxy might.
                    Some(self.token.as_ref().map_or_else(|| reason.clone(), |token| token.hide_in(&reason)))
                };
                if bytes.len() < whole { Ok(None) } else { Err(Denied::Status(status.unwrap_or(0), body())) }
            }
        }
    }

    fn check_headers(&self, headers: &Headers) -> Result<(), Denied> {
        if !headers.lists("upgrade", "websocket") || headers.get("sec-websocket-accept") != Some(&accept(&self.key)) {
            Err(Denied::Foreign("its WebSocket handshake is wrong"))
        } else if headers.get("sec-websocket-protocol") != Some(self.protocol) {
            Err(Denied::Foreign("it does not know gemini-a2a.v1"))
        } else if headers.get("sec-websocket-extensions").is_some() {
            Err(Denied::Foreign("it uses an extension of WebSocket that nobody asked for"))
        } else {
            Ok(())
        }
    }
}

/// The message in the body of an error response of our servers: `{"error": "…"}` or `{"error": {"message": "…"}}`.
fn reason(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let error = &body["error"];
    error.as_str().or_else(|| error["message"].as_str()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::http::{Method, Request, Version};
    use crate::base::percent;
    use crate::wire::{uri, ws};

    const PROTOCOL: &str = "gemini-a2a.v1";

    fn handshake_request() -> HandshakeRequest {
        let target = format!("/ws?client={}", percent::encoded("ann & bob@höst"));
        HandshakeRequest {
            host: "localhost".into(),
            target,
            key: "dGhlIHNhbXBsZSBub25jZQ==".into(),
            protocol: PROTOCOL,
            token: None,
        }
    }

    fn acceptance() -> String {
        let mut out = Vec::new();
        ws::write_upgrade(&mut out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", Some(PROTOCOL), &[]);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn the_server_accepts_the_request() {
        let text = handshake_request().request();
        let mut lines = text.lines();
        let target = lines.next().and_then(|line| line.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1"));
        let target = uri::target_of(target.expect("a request line")).expect("a target");
        assert_eq!(target.query, [("client".to_owned(), "ann & bob@höst".to_owned())]);
        let mut headers = Headers::default();
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            headers.push(name, value);
        }
        let (method, version, path) = (Method::Get, Version::Http11, target.path);
        let request =
            Request { method, path, query: target.query, version, headers, body: Vec::new(), keep_alive: true };
        assert_eq!(ws::upgrade(&request).expect("a handshake").protocols, [PROTOCOL]);
    }

    #[test]
    fn a_token_is_sent_and_never_shown() {
        let ask = HandshakeRequest { token: Some(Secret::new("ga2a_a_xyz")), ..handshake_request() };
        assert!(ask.request().contains("\r\nAuthorization: Bearer ga2a_a_xyz\r\n"));
        assert!(ask.request().ends_with("\r\n\r\n") && !format!("{ask:?}").contains("xyz"));
        let body = r#"{"error":"Who is ga2a_a_xyz?"}"#;
        let answer = format!("HTTP/1.1 401 Unauthorized\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert_eq!(ask.response(answer.as_bytes()), Err(Denied::Status(401, Some("Who is …?".into()))));
    }

    #[test]
    fn an_agreement_may_arrive_in_pieces_and_frames_may_follow_it() {
        let acceptance = acceptance();
        for cut in 0..acceptance.len() {
            assert_eq!(handshake_request().response(&acceptance.as_bytes()[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(handshake_request().response(format!("{acceptance}frames").as_bytes()), Ok(Some(acceptance.len())));
    }

    #[test]
    fn responses_of_other_servers_are_refused() {
        let acceptance = acceptance();
        for (from, to, why) in [
            ("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "s3pPLMBiTxaQ9kYGzzhZRbK+xOO=", "handshake is wrong"),
            ("Upgrade: websocket", "Upgrade: h2c", "handshake is wrong"),
            ("Sec-WebSocket-Protocol: gemini-a2a.v1\r\n", "", "does not know"),
            ("gemini-a2a.v1", "a2a.v1", "does not know"),
            ("Upgrade:", "Sec-WebSocket-Extensions: permessage-deflate\r\nUpgrade:", "nobody asked for"),
            ("HTTP/1.1", "SSH-2.0", "does not speak HTTP"),
        ] {
            let answer = acceptance.replacen(from, to, 1);
            match handshake_request().response(answer.as_bytes()) {
                Err(Denied::Foreign(found)) => assert!(found.contains(why), "{to}: {found}"),
                other => panic!("{to}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_refusal_is_read_with_its_reason() {
        let refused = |body: &str| {
            let head = "HTTP/1.1 403 Forbidden\r\nContent-Length: ";
            format!("{head}{}\r\n\r\n{body}", body.len())
        };
        for (body, why) in [
            (r#"{"error":"No tools."}"#, Some("No tools.")),
            (r#"{"error":{"code":403,"message":"No tools."}}"#, Some("No tools.")),
            ("<html>", None),
            ("", None),
        ] {
            let text = refused(body);
            assert_eq!(
                handshake_request().response(text.as_bytes()),
                Err(Denied::Status(403, why.map(str::to_owned))),
                "{body}"
            );
            for cut in 0..text.len() {
                assert_eq!(handshake_request().response(&text.as_bytes()[..cut]), Ok(None), "{cut}");
            }
        }
    }

    #[test]
    fn an_answer_has_a_limit() {
        let begin = "HTTP/1.1 403 Forbidden\r\n";
        let endless = |len: usize| format!("{begin}X: {}", "x".repeat(len - begin.len() - 3));
        assert_eq!(handshake_request().response(endless(ANSWER_BYTES - 1).as_bytes()), Ok(None));
        let long = Err(Denied::Foreign("its answer is too long"));
        assert_eq!(handshake_request().response(endless(ANSWER_BYTES).as_bytes()), long);
        let fields = |count: usize| format!("{begin}{}\r\n", "X: y\r\n".repeat(count));
        assert_eq!(handshake_request().response(fields(ANSWER_FIELDS).as_bytes()), Err(Denied::Status(403, None)));
        assert_eq!(handshake_request().response(fields(ANSWER_FIELDS + 1).as_bytes()), long);
        // No more than this is awaited of a long body.
        let mut text = format!("{begin}Content-Length: 4294967295\r\n\r\n");
        text.push_str(&"x".repeat(ANSWER_BYTES - text.len() - 1));
        assert_eq!(handshake_request().response(text.as_bytes()), Ok(None));
        text.push('x');
        assert_eq!(handshake_request().response(text.as_bytes()), Err(Denied::Status(403, None)));
    }
}
