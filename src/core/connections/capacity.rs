//! How many connections there are, and which are closed when there are too many.
//!
//! Opening a connection costs a client nothing, so a cap alone would let any client use it up: another user of this
//! machine, or a program that opens connections and says nothing. So other users have a small share of their own, and when the
//! cap is reached, connections on which nothing is under way are closed for new ones of the user who runs this server. A client
//! loses nothing by that: HTTP allows a server to close a connection between two requests, and clients connect again.

use crate::base::clock::Now;
use crate::base::slots::Key;
use crate::core::connections::Connections;
use crate::core::connections::connection::{Link, Peer};
use crate::core::operation::exchange::CloseReason;
use crate::core::{Close, Core};
use crate::limits::{GIVE_WAY_PART, Limits};

impl Core {
    /// Whether another connection may be accepted: there is room, or an idle connection can be closed.
    pub fn has_room(&self, now: Now) -> bool {
        let (connections, limits) = (&self.connections, &self.settings.limits);
        self.accepts() && (!connections.is_full(limits) || connections.iter().any(|(_, conn)| conn.gives_way(now)))
    }

    /// Whether a connection that was accepted is kept. If not, the caller closes it at once, without an answer: its peer may open thousands
    /// of them. Idle connections that are closed for it are closed in the same turn.
    pub fn keeps(&mut self, peer: Peer, now: Now) -> bool {
        let peer = self.access.peer(Link::Tcp, peer);
        let limits = &self.settings.limits;
        let (strangers, full) = (self.connections.strangers, self.connections.is_full(limits));
        match peer {
            Peer::Stranger if full || strangers >= limits.stranger_connections => {
                self.count_refusal(&format!("other users of this machine have {strangers} connections open"), now);
                return false;
            }
            _ if full => {
                for key in self.connections.giving_way(limits, now) {
                    self.close_for(key, CloseReason::Limit, Close::Orderly);
                }
            }
            _ => {}
        }
        !self.connections.is_full(&self.settings.limits)
    }
}

impl Connections {
    fn is_full(&self, limits: &Limits) -> bool {
        self.slots.len() >= limits.connections
    }

    /// A few connections that may be closed for new ones: those of other users first, then those that have waited longest.
    fn giving_way(&self, limits: &Limits, now: Now) -> Vec<Key> {
        let idle = self.slots.iter().filter(|(_, conn)| conn.gives_way(now));
        let mut idle: Vec<_> = idle.map(|(key, conn)| (rank(conn.peer), conn.waits(), key)).collect();
        idle.sort_unstable();
        let few = (limits.connections / GIVE_WAY_PART).max(1);
        idle.into_iter().take(few).map(|(.., key)| key).collect()
    }
}

/// Connections of a lower rank are closed first.
fn rank(peer: Peer) -> u8 {
    match peer {
        Peer::Stranger | Peer::OtherUser | Peer::Gone | Peer::Anybody => 0,
        Peer::OwnerUnknown => 1,
        Peer::SameUser | Peer::MaybeTool => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Switches;
    use crate::core::Close;
    use crate::core::test_core::TestCore;
    use crate::limits::{GIVE_WAY_MS, Limits};

    const ASK: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const JOIN: &[u8] = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

    fn test(connections: usize, stranger_connections: usize) -> TestCore {
        TestCore::with(Limits { connections, stranger_connections, ..Limits::default() }, Switches::default())
    }

    /// A connection as the shell takes it.
    fn connect(test: &mut TestCore, peer: Peer) -> Option<Key> {
        test.now.mono_ms += 1;
        if !test.core.has_room(test.now) {
            test.now.mono_ms += GIVE_WAY_MS;
        }
        let kept = test.core.has_room(test.now) && test.core.keeps(peer, test.now);
        kept.then(|| test.core.opened(peer, test.now))
    }

    fn answered(test: &mut TestCore, key: Key) -> String {
        test.core.received(key, ASK, test.now);
        test.turns();
        test.take(key)
    }

    #[test]
    fn connections_of_other_users_have_their_own_limit() {
        let mut test = test(10, 3);
        let strangers: Vec<Key> = (0..3).filter_map(|_| connect(&mut test, Peer::Stranger)).collect();
        assert_eq!(strangers.len(), 3);
        for _ in 0..1_000 {
            assert_eq!(connect(&mut test, Peer::Stranger), None);
        }
        test.turns();
        assert_eq!(test.notices.len(), 1, "not every refusal is logged: {:?}", test.notices);
        assert!(test.notices[0].contains("other users of this machine have 3 connections open"));
        // Public paths are served.
        assert!(answered(&mut test, strangers[0]).starts_with("HTTP/1.1 200"));
        for _ in 0..7 {
            let key = connect(&mut test, Peer::SameUser).expect("the user's own share");
            assert!(answered(&mut test, key).starts_with("HTTP/1.1 200"));
        }
        test.core.close_conn(strangers[1], crate::core::Close::Orderly);
        test.core.check();
        assert!(connect(&mut test, Peer::Stranger).is_some(), "one has left");
    }

    #[test]
    fn a_fraction_of_idle_connections_is_closed_at_once() {
        let mut test = test(2 * GIVE_WAY_PART, 3);
        for _ in 0..2 * GIVE_WAY_PART {
            connect(&mut test, Peer::SameUser).expect("room");
        }
        assert_eq!(test.closing(), []);
        connect(&mut test, Peer::SameUser).expect("two others are closed");
        assert_eq!(test.closing().len(), 2);
    }

    #[test]
    fn idle_connections_are_closed_for_new_ones_strangers_and_the_oldest_first() {
        let mut test = test(5, 3);
        let silent = connect(&mut test, Peer::SameUser).expect("room");
        let socket = connect(&mut test, Peer::SameUser).expect("room");
        test.core.received(socket, JOIN, test.now);
        test.turns();
        test.take(socket);
        let rested = connect(&mut test, Peer::MaybeTool).expect("room");
        assert!(answered(&mut test, rested).starts_with("HTTP/1.1 200"));
        let uploads = connect(&mut test, Peer::SameUser).expect("room");
        let begun =
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
        test.core.received(uploads, begun, test.now);
        let stranger = connect(&mut test, Peer::Stranger).expect("room");
        test.closing();
        for expected in [stranger, silent, rested] {
            let newcomer = connect(&mut test, Peer::SameUser).expect("somebody gives way");
            assert_eq!(test.closing(), [(expected, Close::Orderly)]);
            // It has something under way from now on.
            test.core.received(newcomer, JOIN, test.now);
            test.turns();
            test.take(newcomer);
        }
        connect(&mut test, Peer::SameUser).expect("a request that is not whole gives way last");
        assert_eq!(test.closing(), [(uploads, Close::Orderly)]);
    }

    #[test]
    fn a_new_connection_has_time_to_send_its_request() {
        let mut test = test(1, 1);
        connect(&mut test, Peer::SameUser).expect("room");
        test.now.mono_ms += GIVE_WAY_MS - 1;
        assert!(!test.core.has_room(test.now), "the backlog waits");
        test.now.mono_ms += 1;
        assert!(test.core.has_room(test.now));
    }

    #[test]
    fn connections_with_something_under_way_are_not_closed() {
        let mut test = test(3, 1);
        for _ in 0..3 {
            let key = connect(&mut test, Peer::SameUser).expect("room");
            test.core.received(key, JOIN, test.now);
        }
        test.turns();
        test.now.mono_ms += GIVE_WAY_MS;
        assert!(!test.core.has_room(test.now), "the backlog waits");
        assert!(!test.core.keeps(Peer::SameUser, test.now) && !test.core.keeps(Peer::Stranger, test.now));
        assert_eq!(test.closing(), []);
    }

    #[test]
    fn stalled_connections_are_reset_and_others_closed_orderly() {
        let mut test = TestCore::new();
        let stopped = connect(&mut test, Peer::SameUser).expect("room");
        test.core.received(stopped, ASK, test.now);
        let socket = connect(&mut test, Peer::SameUser).expect("room");
        test.core.received(socket, JOIN, test.now);
        let silent = connect(&mut test, Peer::SameUser).expect("room");
        let rested = connect(&mut test, Peer::SameUser).expect("room");
        answered(&mut test, rested);
        test.later(test.limits.head_ms);
        assert_eq!(test.closing(), [(silent, Close::Orderly)]);
        test.later(test.limits.stall_ms - test.limits.head_ms);
        assert_eq!(test.closing(), [(stopped, Close::Reset)], "the socket first gets a close frame");
        test.later(test.limits.stall_ms);
        assert_eq!(test.closing(), [(socket, Close::Reset)]);
        test.later(test.limits.idle_ms);
        assert_eq!(test.closing(), [(rested, Close::Orderly)]);
    }

    #[test]
    fn a_flood_of_silent_connections_does_not_prevent_service() {
        let mut test = test(2_000, 16);
        for n in 0..5_000 {
            connect(&mut test, if n < 1_000 { Peer::OwnerUnknown } else { Peer::SameUser })
                .expect("the silent give way");
            connect(&mut test, Peer::Stranger);
        }
        test.closing();
        for _ in 0..50 {
            let key = connect(&mut test, Peer::SameUser).expect("the silent give way");
            assert!(answered(&mut test, key).starts_with("HTTP/1.1 200"));
        }
    }
}
