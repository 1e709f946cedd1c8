//! A WebSocket client for tests. The upgrade is implemented here, frames are read and written by a library: tests with this client check
//! messages, not framing.

use super::PATIENCE;
use super::client::read_some;
use serde_json::Value;
use std::net::TcpStream;
use tungstenite::protocol::{Role, WebSocket};
use tungstenite::{Error, Message};

pub struct Socket {
    socket: WebSocket<TcpStream>,
    /// The sub-protocol that the server has chosen.
    pub protocol: Option<String>,
}

impl Socket {
    /// `url` is `http://HOST:PORT`; `protocol` is offered if given. Fails the test unless the server accepts the upgrade.
    pub fn open(url: &str, path: &str, protocol: Option<&str>) -> Socket {
        Socket::open_with(url, path, protocol, "")
    }

    /// The same with an `Origin`, as a page in a browser opens it.
    pub fn open_from(url: &str, path: &str, protocol: Option<&str>, origin: &str) -> Socket {
        Socket::open_with(url, path, protocol, &format!("Origin: {origin}\r\n"))
    }

    fn open_with(url: &str, path: &str, protocol: Option<&str>, fields: &str) -> Socket {
        let authority = url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(authority).expect("connecting to the server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout that is not zero");
        let offer = protocol.map(|name| format!("Sec-WebSocket-Protocol: {name}\r\n")).unwrap_or_default();
        let ask = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{fields}{offer}\r\n"
        );
        std::io::Write::write_all(&mut stream, ask.as_bytes()).expect("asking for a socket");
        let head = head(&mut stream);
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        // The response to the key above according to RFC 6455.
        let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        assert_eq!(field(&head, "sec-websocket-accept"), Some(accept), "{head}");
        Socket {
            socket: WebSocket::from_raw_socket(stream, Role::Client, None),
            protocol: field(&head, "sec-websocket-protocol").map(str::to_owned),
        }
    }

    pub fn send(&mut self, value: &Value) {
        let message = Message::text(value.to_string());
        self.socket.send(message).expect("the server listens");
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.send(Message::binary(bytes.to_vec())).expect("the server listens");
    }

    /// Several messages at once.
    pub fn send_all(&mut self, values: &[Value]) {
        for value in values {
            self.socket.write(Message::text(value.to_string())).expect("it is buffered");
        }
        self.socket.flush().expect("the server listens");
    }

    /// The next message of the server.
    pub fn read(&mut self) -> Value {
        self.read_past(|_| {})
    }

    /// The next message of the server, which must arrive before a ping.
    pub fn read_before_ping(&mut self) -> Value {
        self.read_past(|message| panic!("no message came before {message:?}"))
    }

    fn read_past(&mut self, ping: impl Fn(&Message)) -> Value {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    return serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in a message: {text}"));
                }
                Ok(message @ (Message::Ping(_) | Message::Pong(_))) => ping(&message),
                Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => panic!("no message: {other:?}"),
            }
        }
    }

    /// Reads until the server closes the socket. Returns the code and the reason.
    pub fn closed(mut self) -> (u16, String) {
        loop {
            match self.socket.read() {
                Ok(Message::Close(Some(frame))) => return (frame.code.into(), frame.reason.to_string()),
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("closed without a reason: {error}"),
            }
        }
    }

    /// Reads up to the first message that `fits`, and returns it.
    pub fn until(&mut self, mut fits: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let value = self.read();
            if fits(&value) {
                return value;
            }
        }
    }
}

/// The head of the answer, read byte by byte: what follows it are frames.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        let count = read_some(stream, &mut byte).expect("the answer to an upgrade");
        assert!(count > 0, "{}", String::from_utf8_lossy(&head));
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("a head of text")
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
