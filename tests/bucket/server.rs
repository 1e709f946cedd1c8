//! A small HTTP server that sends given bytes, so that responses can also be incomplete or end with a reset.

use crate::support::http::{Head, Message, Side};
use rustix::net::sockopt::set_socket_linger;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A received request.
pub struct Request {
    pub head: Head,
    pub body: Vec<u8>,
}

/// The bytes of a response, and what happens to the connection afterwards.
pub struct Reply {
    pub bytes: Vec<u8>,
    pub after: After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    KeepOpen,
    Close,
    Reset,
}

pub const DATE: &str = "Tue, 17 Nov 2026 02:54:35 GMT";
pub const DATE_MS: u64 = 1_794_884_075_000;

impl Reply {
    /// A whole answer with a `Date`.
    pub fn new(status: u16, fields: &[(&str, &str)], body: &str) -> Reply {
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\nDate: {DATE}\r\n{fields}Content-Length: {length}\r\n\r\n");
        Reply { bytes: (head + body).into_bytes(), after: After::KeepOpen }
    }
}

type Answer = dyn Fn(&Request) -> Reply + Send + Sync;

/// Starts a server that answers every request with the function. Returns `127.0.0.1:port`. It ends with the process.
pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let answer: Arc<Answer> = Arc::new(answer);
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || serve(connection, &*answer));
        }
    });
    address
}

fn serve(mut connection: TcpStream, answer: &Answer) -> Option<()> {
    let (mut message, mut body) = (Message::new(Side::Request), Vec::new());
    loop {
        while !message.is_done() {
            let mut bytes = [0; 16 * 1024];
            let n = connection.read(&mut bytes).ok().filter(|n| *n > 0)?;
            message.feed(&bytes[..n], &mut body).expect("a valid request");
        }
        let head = message.head().expect("it is whole").clone();
        let reply = answer(&Request { head, body: std::mem::take(&mut body) });
        connection.write_all(&reply.bytes).ok()?;
        match reply.after {
            After::KeepOpen => {}
            After::Close => return None,
            After::Reset => {
                set_socket_linger(&connection, Some(Duration::ZERO)).ok()?;
                return None;
            }
        }
        message.restart(Side::Request, &mut body).expect("a valid request");
    }
}
