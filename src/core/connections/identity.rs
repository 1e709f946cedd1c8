//! Identification of peers that may be tools of the agent. Such a connection may read at once. Its first request that does more waits in
//! the connection until the shell has found out which process is at the other end, once per connection. A refused client gets the reason
//! and what to do, the refusal is logged, and `/health` counts refusals.
//!
//! A refused connection is closed. The tools because of which its peer could not be identified may end, and then another connection is
//! served, but this one would be refused for ever.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::http::Request;
use crate::base::slots::Key;
use crate::core::access::Mode;
use crate::core::connections::Connections;
use crate::core::connections::connection::{Link, Peer};
use crate::core::operation::metrics::labels::Refused;
use crate::core::{Core, Out};
use crate::task::audit::Kind;
use crate::task::fault::{Fault, FaultKind};

/// The process behind a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A process of the user who runs this server, and no tool's.
    SameUser,
    /// It was started by a tool, of this server or of another one.
    Tool,
    /// It was not found, or its parents could not be read: it may be a tool's.
    Unclear,
    /// A process of another user, or on another machine.
    Stranger,
    /// A process of this machine that has ended.
    Gone,
    /// It could not be looked for now.
    Unavailable(String),
}

const GONE: &str = "The process that made this connection was gone before it could be identified, so it may have been started by \
                    the agent. Send the request from a process that waits for the answer.";
const STRANGER: &str = "Only processes of the user who runs this server may use it.";

/// Peers that were refused.
#[derive(Default)]
pub(in crate::core) struct Refusals {
    count: u64,
    /// How many of them the log has, and when the last one was logged, in monotonic milliseconds.
    logged: u64,
    logged_at: Option<u64>,
}

impl Refusals {
    /// Counts one. Returns a line for the log, unless one was logged within the last `pause_ms`.
    fn count(&mut self, why: &str, pause_ms: u64, now: Now) -> Option<String> {
        self.count += 1;
        if self.logged_at.is_some_and(|logged| now.mono_ms < logged + pause_ms) {
            return None;
        }
        let more = match self.count - self.logged {
            1 => String::new(),
            count => format!(" ({count} connections since the last such line)"),
        };
        self.logged = self.count;
        self.logged_at = Some(now.mono_ms);
        Some(format!("refused a connection{more}: {why}"))
    }
}

impl Connections {
    /// How many peers were refused.
    pub(in crate::core) fn refused(&self) -> u64 {
        self.refusals.count
    }
}

impl Core {
    /// Keeps a request until the process behind its connection is identified.
    pub(in crate::core) fn identify(&mut self, key: Key, request: Request) {
        if let Some(conn) = self.connections.get_mut(key) {
            conn.waiting = Some(Box::new(request));
            self.out.push(Out::Identify { conn: key });
        }
    }

    /// The answer to [`Out::Identify`].
    pub(in crate::core) fn identified(&mut self, key: Key, identity: Identity, now: Now) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        let Some(request) = conn.waiting.take() else {
            return;
        };
        let found = identity.clone();
        let label = if identity == Identity::Stranger { Refused::Credential } else { Refused::Child };
        let why = match identity {
            Identity::SameUser => {
                conn.peer = Peer::SameUser;
                // Before the process was known, the sender may have been unauthenticated.
                conn.principal = conn.principal.take().filter(|principal| !principal.is_nobody());
                self.serve(key, *request, now);
                return self.read_on(key, now);
            }
            Identity::Tool => {
                "A process that the agent started may not prompt the agent or answer for its user.".to_owned()
            }
            Identity::Unclear => self.settings.host_policy.unclear(conn.link),
            Identity::Stranger if self.access.mode == Mode::Token && conn.link != Link::Unix => {
                conn.peer = Peer::Anybody;
                self.serve(key, *request, now);
                return self.read_on(key, now);
            }
            Identity::Stranger => STRANGER.to_owned(),
            Identity::Gone => GONE.to_owned(),
            Identity::Unavailable(why) => {
                let message = format!("It could not be found out whose connection this is: {why}");
                let fault = Fault::new(FaultKind::Overloaded { retry_after_s: 1 }, message);
                return self.answer_last(key, &request, &fault, now);
            }
        };
        let fault = Fault::new(FaultKind::Forbidden, why);
        let (kind, reason) = match found {
            Identity::Tool => (Kind::ChildRefused, "tool"),
            Identity::Unclear => (Kind::ChildRefused, "unclear"),
            Identity::Gone => (Kind::ChildRefused, "gone"),
            Identity::Stranger | Identity::SameUser | Identity::Unavailable(_) => (Kind::Denied, "stranger"),
        };
        self.audit_refused_peer(kind, key, reason, now);
        self.operation.metrics.refuse(label);
        self.count_refused(key, &fault.message, now);
        self.answer_last(key, &request, &fault, now);
    }

    /// Refuses a request of another user, or of a peer whose process has ended.
    pub(in crate::core) fn refuse_peer(&mut self, key: Key, request: &Request, now: Now) {
        let is_gone = self.connections.get(key).is_some_and(|conn| conn.peer == Peer::Gone);
        let (why, kind, reason, label) = match is_gone {
            true => (GONE, Kind::ChildRefused, "gone", Refused::Child),
            false => (STRANGER, Kind::Denied, "stranger", Refused::Credential),
        };
        let fault = Fault::new(FaultKind::Forbidden, why);
        self.audit_refused_peer(kind, key, reason, now);
        self.operation.metrics.refuse(label);
        self.count_refused(key, why, now);
        self.answer(key, &a2a::fault(&self.form_at(key, &request.path), &fault), now);
    }

    /// Counts a refused connection once, however many requests it sends.
    pub(in crate::core) fn count_refused(&mut self, key: Key, why: &str, now: Now) {
        let Some(conn) = self.connections.get_mut(key).filter(|conn| !conn.refused) else {
            return;
        };
        conn.refused = true;
        self.count_refusal(why, now);
    }

    /// Counts a connection that was refused, and writes to the log from time to time.
    pub(in crate::core) fn count_refusal(&mut self, why: &str, now: Now) {
        let pause = self.settings.limits.refusal_log_ms;
        let text = self.connections.refusals.count(why, pause, now);
        self.out.extend(text.map(Out::warning));
    }

    fn answer_last(&mut self, key: Key, request: &Request, fault: &Fault, now: Now) {
        let response = a2a::fault(&self.form_at(key, &request.path), fault);
        if let Some(conn) = self.connections.get_mut(key) {
            conn.answer_last(&response, now);
        }
        self.after_io(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Close;
    use crate::core::test_core::TestCore;

    const GET: &str = "GET /listCommands HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const JOIN: &str = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    fn post() -> String {
        let body = r#"{"message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "hi"}]}}"#;
        format!(
            "POST /message:send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    struct Client {
        test: TestCore,
        key: Key,
    }

    impl Client {
        fn new(peer: Peer) -> Client {
            let mut test = TestCore::new();
            let key = test.core.opened(peer, test.now);
            Client { test, key }
        }

        /// Sends bytes. Returns how often the process is to be identified, and the lines for the log.
        fn send(&mut self, bytes: &str) -> (usize, Vec<String>) {
            self.test.core.received(self.key, bytes.as_bytes(), self.test.now);
            self.outs()
        }

        fn found(&mut self, identity: Identity) -> (usize, Vec<String>) {
            self.test.core.identified(self.key, identity, self.test.now);
            self.outs()
        }

        fn outs(&mut self) -> (usize, Vec<String>) {
            let (mut asked, mut logged, mut rest) = (0, Vec::new(), Vec::new());
            for out in std::mem::take(&mut self.test.core.out) {
                match out {
                    Out::Identify { conn } => {
                        assert_eq!(conn, self.key);
                        asked += 1;
                    }
                    Out::Log { text, .. } => logged.push(text),
                    other => rest.push(other),
                }
            }
            self.test.core.out = rest;
            (asked, logged)
        }

        /// The status line of what waits for the peer, which it takes.
        fn answer(&mut self) -> String {
            let bytes: Vec<u8> = self.test.core.slices(self.key).iter().flat_map(|slice| slice.to_vec()).collect();
            self.test.core.sent(self.key, bytes.len(), self.test.now);
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }

    #[test]
    fn a_peer_that_may_be_a_tool_reads_at_once_and_waits_with_everything_else() {
        let mut client = Client::new(Peer::MaybeTool);
        client.send(GET);
        client.test.turns();
        assert!(client.answer().starts_with("HTTP/1.1 200"));
        assert_eq!(client.send(&post()).0, 1, "once");
        assert_eq!(client.send(GET).0, 0, "nothing is read meanwhile");
        client.test.turns();
        assert_eq!(client.answer(), "");
        // What waits is counted as long as it does.
        client.test.core.check();
        assert_eq!(client.found(Identity::SameUser).0, 0);
        client.test.turns();
        assert_eq!(client.send(&post()).0, 0, "it is known now");
    }

    #[test]
    fn a_refused_client_gets_the_reason_and_its_connection_ends() {
        for (identity, words) in
            [(Identity::Tool, "A process that the agent started"), (Identity::Unclear, "Wait until the tool has ended")]
        {
            let mut client = Client::new(Peer::MaybeTool);
            assert_eq!(client.send(&post()).0, 1);
            let (_, logged) = client.found(identity);
            assert!(matches!(logged.as_slice(), [logged] if logged.contains(words)), "{logged:?}");
            let answer = client.answer();
            assert!(answer.starts_with("HTTP/1.1 403") && answer.contains(words), "{answer}");
            assert!(answer.contains("Connection: close"), "{answer}");
            assert_eq!(client.test.closing(), [(client.key, Close::Orderly)]);
            assert_eq!(client.test.core.connections.refused(), 1);
        }
    }

    #[test]
    fn opening_a_socket_is_never_treated_as_a_read() {
        let elsewhere = JOIN.replace("/ws", "/listCommands");
        let health = JOIN.replace("/ws", "/health");
        for join in [JOIN, &elsewhere, &health] {
            let mut client = Client::new(Peer::MaybeTool);
            assert_eq!(client.send(join).0, 1, "{join}");
            client.found(Identity::Tool);
            assert!(client.answer().starts_with("HTTP/1.1 403"), "{join}");
        }
    }

    #[test]
    fn a_peer_of_an_unknown_user_may_read_only_public_paths_at_once() {
        let mut client = Client::new(Peer::OwnerUnknown);
        assert_eq!(client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").0, 0);
        assert!(client.answer().starts_with("HTTP/1.1 200"));
        assert_eq!(client.send(GET).0, 1);
        client.found(Identity::Stranger);
        assert!(client.answer().contains("Only processes of the user"));
        assert_eq!(client.test.closing(), [(client.key, Close::Orderly)], "it is not looked for again");
        let mut client = Client::new(Peer::OwnerUnknown);
        assert_eq!(client.send(GET).0, 1);
        client.found(Identity::SameUser);
        client.test.turns();
        assert!(client.answer().starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn a_peer_that_cannot_be_identified_now_gets_a_retry_after() {
        let mut client = Client::new(Peer::MaybeTool);
        client.send(&post());
        client.found(Identity::Unavailable("too much is waiting".into()));
        let answer = client.answer();
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too much is waiting"), "{answer}");
        assert_eq!(client.test.core.connections.refused(), 0);
    }

    #[test]
    fn the_identity_of_a_closed_connection_is_ignored() {
        let mut client = Client::new(Peer::MaybeTool);
        client.send(&post());
        client.test.core.close_conn(client.key, crate::core::Close::Orderly);
        client.found(Identity::SameUser);
        assert_eq!(client.test.core.check().conns, 0);
        let mut client = Client::new(Peer::MaybeTool);
        client.found(Identity::Tool);
        assert_eq!(client.answer(), "", "nobody asked");
    }

    #[test]
    fn the_first_refusal_is_logged_and_later_ones_at_intervals() {
        let mut client = Client::new(Peer::Stranger);
        let limit = client.test.limits.refusal_log_ms;
        let refused = |client: &mut Client| {
            client.key = client.test.core.opened(Peer::Stranger, client.test.now);
            let (_, first) = client.send(GET);
            let (_, second) = client.send(GET);
            assert_eq!(second, [""; 0], "a peer counts once");
            first
        };
        assert_eq!(refused(&mut client).len(), 1);
        for _ in 0..10 {
            assert_eq!(refused(&mut client), [""; 0]);
        }
        client.test.now.mono_ms += limit - 1;
        assert_eq!(refused(&mut client), [""; 0]);
        client.test.now.mono_ms += 1;
        let logged = refused(&mut client);
        assert!(matches!(logged.as_slice(), [logged] if logged.contains("12 connections")), "{logged:?}");
        assert_eq!(client.test.core.connections.refused(), 13);
    }
}
