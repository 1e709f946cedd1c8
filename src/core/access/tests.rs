//! Requests to a server in the mode `token`, from their bytes to their answers.

mod limits;
mod ownership;
mod revocation;
pub mod rights;
mod senders;
mod tickets;

use crate::a2a::Switches;
use crate::base::slots::Key;
use crate::core::access::{AccessSetup, Mode};
use crate::core::connections::connection::{Link, Peer};
use crate::core::operation::exchange::Exchange;
use crate::core::test_core::TestCore;
use crate::core::test_core::core_harness::waiting;
use crate::core::{Input, Setup};
use crate::limits::Limits;
use crate::limits::access::CREDENTIALS_CHECK_MS;
use crate::task::access::credentials::CredentialsFile;
use crate::task::access::token::{self, Hash};
use ::core::net::IpAddr;
use serde_json::{Value, json};

/// The token of a credential.
pub fn token(id: &str) -> String {
    token::make(id, &[7; 32])
}

/// A credential, to be changed by tests.
pub fn credential(id: &str, subject: &str, rights: &[&str]) -> Value {
    json!({"id": id, "subject": subject, "rights": rights, "sha256": Hash::of(&token(id)).to_string()})
}

pub fn file(credentials: &[Value]) -> CredentialsFile {
    let text = json!({"v": 1, "credentials": credentials}).to_string();
    CredentialsFile::read(text.as_bytes()).expect("a file")
}

fn set(setup: &mut Setup, credentials: &[Value]) {
    setup.access = AccessSetup { mode: Mode::Token, credentials: file(credentials), ..AccessSetup::default() };
    setup.shares_session = false;
    setup.operation.access_log = true;
}

/// A server in the mode `token`.
pub struct Server {
    pub test: TestCore,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    fn read(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("an answer, not {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Answer { status: status.expect("a status"), head: head.to_owned(), body: body.to_owned() }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("JSON, not {}", self.body))
    }
}

/// The bytes of a request with a body.
pub fn post(path: &str, authorization: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub fn get(path: &str, authorization: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n")
}

/// The header that shows the token of a credential.
pub fn bearer(id: &str) -> String {
    format!("Authorization: Bearer {}\r\n", token(id))
}

/// The body of a message in 1.0.
pub fn message(text: &str) -> Value {
    json!({"message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": text}]},
           "configuration": {"returnImmediately": true}})
}

impl Server {
    pub fn new(credentials: &[Value]) -> Server {
        Server::changed(credentials, |_| {})
    }

    pub fn changed(credentials: &[Value], change: impl FnOnce(&mut Setup)) -> Server {
        let test = TestCore::changed(Limits::default(), Switches::default(), |setup| {
            set(setup, credentials);
            change(setup);
        });
        Server { test }
    }

    /// The server dies and is started again.
    pub fn restart(&mut self, credentials: &[Value]) {
        self.test.restart_with(|setup| set(setup, credentials));
    }

    pub fn connect(&mut self) -> Key {
        let address = Some(IpAddr::from([10, 0, 0, 7]));
        self.connect_over(address, Link::Tcp, Peer::Stranger)
    }

    pub fn connect_over(&mut self, address: Option<IpAddr>, link: Link, peer: Peer) -> Key {
        let key = self.test.core.opened_from(address, link, peer, self.test.now);
        self.test.turns();
        key
    }

    pub fn send(&mut self, key: Key, bytes: &str) {
        self.test.core.input(Input::Received { conn: key, bytes: bytes.as_bytes() }, self.test.now);
        self.test.turns();
    }

    /// Takes the output that waits for a connection.
    pub fn take(&mut self, key: Key) -> String {
        self.test.take(key)
    }

    /// Sends a request over a connection of its own.
    pub fn ask(&mut self, request: &str) -> Answer {
        let key = self.connect();
        self.ask_over(key, request)
    }

    pub fn ask_over(&mut self, key: Key, request: &str) -> Answer {
        self.send(key, request);
        // A list waits until its tasks are loaded.
        for _ in 0..100 {
            if waiting(&self.test.core, key).is_empty() {
                self.test.turn();
            }
        }
        let answer = Answer::read(&self.take(key));
        self.test.core.input(Input::Broke { conn: key }, self.test.now);
        self.test.turns();
        answer
    }

    /// Changes the credentials file, and lets the server check it.
    pub fn change(&mut self, credentials: &[Value]) {
        self.test.credentials = Some(Ok(file(credentials)));
        self.test.later(CREDENTIALS_CHECK_MS);
    }

    /// The requests that were written to the access log since the last call.
    pub fn logged(&mut self) -> Vec<Exchange> {
        self.test.accesses.drain(..).map(|entry| entry.exchange).collect()
    }
}
