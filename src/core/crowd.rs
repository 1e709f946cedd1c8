//! What waits for all peers together. Each connection has its own bound, but an answer is as long as it is: a long conversation
//! may be some megabytes, and whoever asks for it a thousand times and reads none of the answers would have us keep all of them.
//!
//! So when too much waits, nobody is told of a whole task any more, and those who have taken nothing for a moment are cut off, the
//! greatest burden first. They lose nothing: streams are gone on with where they were, and answers are asked for again. Whoever reads
//! is served all the while.

use crate::base::clock::Now;
use crate::base::slots::Key;
use crate::core::Core;
use crate::core::timers::Timer;
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};

/// How much waits, and whether somebody will look at it.
#[derive(Default)]
pub(super) struct Crowd {
    pub bytes: usize,
    armed: bool,
}

impl Core {
    /// Takes note of what waits for a connection now.
    pub(super) fn count_waiting(&mut self, key: Key) {
        if let Some(conn) = self.conns.get_mut(key) {
            let waits = conn.tx.len();
            self.crowd.bytes = self.crowd.bytes - conn.counted + waits;
            conn.counted = waits;
        }
    }

    fn is_crowded(&self) -> bool {
        self.crowd.bytes > self.limits.tx_total_bytes
    }

    /// Why a call that may have a long answer has to come later.
    pub(super) fn too_crowded(&self, call: &Call) -> Option<Fault> {
        let long = matches!(
            call,
            Call::Get { .. } | Call::List(_) | Call::AllMetadata | Call::Subscribe { .. }
        );
        (long && self.is_crowded()).then(|| {
            let message =
                "Too many answers wait for clients that do not read them; try again in a moment.";
            Fault::new(FaultKind::Overloaded { retry_after_s: 1 }, message)
        })
    }

    /// Sees to it that a crowd is looked at.
    pub(super) fn watch_crowd(&mut self, now: Now) {
        if self.is_crowded() && !self.crowd.armed {
            self.crowd.armed = true;
            let at = now.mono_ms + self.limits.crowd_stall_ms;
            self.timers.arm(at, Timer::Crowd);
        }
    }

    /// Cuts off those who take nothing, until there is room again.
    pub(super) fn thin_out(&mut self, now: Now) {
        self.crowd.armed = false;
        let pause = self.limits.crowd_stall_ms;
        let stalled = self
            .conns
            .iter()
            .filter(|(_, conn)| conn.has_stalled(pause, now));
        let mut stalled: Vec<(usize, Key)> =
            stalled.map(|(key, conn)| (conn.tx.len(), key)).collect();
        stalled.sort_unstable();
        while self.is_crowded()
            && let Some((_, key)) = stalled.pop()
        {
            self.drop_conn(key);
        }
        self.watch_crowd(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Switches;
    use crate::core::Setup;
    use crate::core::conn::Peer;
    use crate::core::store::MemoryStore;
    use crate::limits::Limits;

    const NOW: Now = Now {
        mono_ms: 1_000_000,
        unix_ms: 1_767_268_800_000,
    };

    fn turn(core: &mut Core, store: &mut MemoryStore, now: Now) {
        core.tick(now);
        core.append(store, now);
        core.release(now);
        core.check();
        core.outs();
    }

    /// Asks on a connection of its own, and gives how the answer begins.
    fn ask(core: &mut Core, store: &mut MemoryStore, request: &str, now: Now) -> (Key, String) {
        let key = core.opened(Peer::SameUser, now);
        core.received(key, request.as_bytes(), now);
        turn(core, store, now);
        let slices = core.slices(key);
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let text = String::from_utf8_lossy(&bytes);
        (key, text.lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn answers_nobody_reads_are_bounded_and_who_reads_is_served() {
        let limits = Limits {
            tx_total_bytes: 100_000,
            ..Limits::default()
        };
        let mut core = Core::new(Setup::alone(limits.clone(), Switches::default(), NOW));
        let mut store = MemoryStore::default();
        let said = "x".repeat(30_000);
        let body = format!(
            r#"{{"message": {{"role": "ROLE_USER", "messageId": "m", "parts": [{{"text": "{said}"}}]}}}}"#
        );
        let prompt = format!(
            "POST /message:send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        ask(&mut core, &mut store, &prompt, NOW);
        let task = core.tasks.keys().next().expect("a task").clone();
        let get = format!("GET /v1/tasks/{task} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
        const FINE: &str = "HTTP/1.1 200 OK";
        const LATER: &str = "HTTP/1.1 503 Service Unavailable";

        let (reader, first) = ask(&mut core, &mut store, &get, NOW);
        assert_eq!(first, FINE);
        let asked: Vec<(Key, String)> = (0..20)
            .map(|_| ask(&mut core, &mut store, &get, NOW))
            .collect();
        let told: Vec<bool> = asked.iter().map(|(_, head)| head == FINE).collect();
        assert_eq!(told, [[true; 3].as_slice(), &[false; 17]].concat());
        assert_eq!(asked[19].1, LATER);
        assert_eq!(ask(&mut core, &mut store, health, NOW).1, FINE);

        // A moment later one of them has read a little. The others are cut off until there is room.
        let later = Now {
            mono_ms: NOW.mono_ms + limits.crowd_stall_ms,
            ..NOW
        };
        core.sent(reader, 1, later);
        turn(&mut core, &mut store, later);
        let (again, head) = ask(&mut core, &mut store, &get, later);
        assert_eq!(head, FINE);
        let there: Vec<Key> = core.conns.iter().map(|(key, _)| key).collect();
        assert!(there.contains(&reader) && there.contains(&again));
        let held = asked[..3].iter().filter(|(key, _)| there.contains(key));
        assert_eq!(held.count(), 2, "no more are cut off than need be");
    }
}
