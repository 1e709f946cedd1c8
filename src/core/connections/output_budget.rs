//! Memory of all connections together: output, encoded answers, and incomplete requests. Each connection has its own limits, but
//! one answer may be some megabytes, and a client could ask for it a thousand times and read none of the answers, or send a
//! thousand requests without their ends.
//!
//! Above the budget, calls with long answers and long requests are refused, and connections that have accepted nothing for a moment
//! are closed, the largest first. Their clients lose nothing: streams can be resumed, and answers asked for again. Clients that
//! read, and send short requests, are served as before.

use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::base::slots::Key;
use crate::core::connections::Connections;
use crate::core::operation::exchange::CloseReason;
use crate::core::requests::needs::{AnswerLength, Needs};
use crate::core::timers::Timer;
use crate::core::{Close, Core};
use crate::limits::Limits;
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};

/// The memory of all connections, and whether the timer is armed that closes stalled ones.
#[derive(Default)]
pub(in crate::core) struct OutputBudget {
    pub bytes: usize,
    armed: bool,
}

impl Connections {
    /// Updates the sum after the memory of a connection may have changed.
    pub(in crate::core) fn count_memory(&mut self, key: Key, limits: &Limits) {
        if let Some(conn) = self.slots.get_mut(key) {
            let memory = conn.memory(limits);
            self.output_budget.bytes = self.output_budget.bytes - conn.counted_bytes + memory;
            conn.counted_bytes = memory;
        }
    }

    /// The connections whose peers accept no output or have not sent all of a long request; the largest last.
    fn stalled(&self, limits: &Limits, now: Now) -> Vec<(usize, Key)> {
        let stalled = self
            .slots
            .iter()
            .filter(|(_, conn)| conn.has_stalled(limits.output_stall_ms, now) || conn.held(limits) > limits.head_bytes);
        let mut stalled: Vec<(usize, Key)> = stalled.map(|(key, conn)| (conn.counted_bytes, key)).collect();
        stalled.sort_unstable();
        stalled
    }
}

impl Core {
    /// The memory that is counted: of connections, and of tasks if there is a memory budget.
    pub(in crate::core) fn used_memory(&self) -> usize {
        let tasks = if self.settings.limits.memory.is_some() { self.tasks.memory } else { 0 };
        self.connections.output_budget.bytes + tasks
    }

    fn exceeds_output_budget(&self) -> bool {
        self.used_memory() > self.settings.limits.output_bytes_total
    }

    /// Whether there is memory for this many more bytes. Idle tasks but `kept` are unloaded to make room.
    pub(in crate::core) fn has_memory(&mut self, bytes: usize, kept: Option<&TaskId>) -> bool {
        let most = self.settings.limits.output_bytes_total;
        let wanted = self.used_memory() + bytes;
        if wanted > most && self.settings.limits.memory.is_some() {
            let others = wanted - self.tasks.memory;
            self.unload_until(|tasks| others + tasks.memory <= most, kept);
        }
        self.used_memory() + bytes <= most
    }

    /// The error for a call for which there is no memory now, or never: its answer may be long, or it continues a long task.
    pub(in crate::core) fn lack_of_memory(&mut self, call: &Call) -> Option<Fault> {
        let Needs { task, answer, .. } = Needs::of(call);
        let needed = self.memory_for(call);
        if needed > self.settings.limits.output_bytes_total {
            let message = "The task is too long for the memory of this server. Ask for a part of it (historyLength), or begin a \
                           new one.";
            return Some(Fault::new(FaultKind::TooLarge, message));
        }
        ((answer == AnswerLength::Long || needed > 0) && !self.has_memory(needed, task)).then(|| {
            let message = "Too much is under way, or too many answers wait for clients that do not read them; try again in a moment.";
            Fault::new(FaultKind::Overloaded { retry_after_s: 1 }, message)
        })
    }

    /// The memory that a call needs beside what its task takes: for the answer, or for the model request that it causes. 0 if that is
    /// little, or if there is no memory budget.
    fn memory_for(&self, call: &Call) -> usize {
        let limits = &self.settings.limits;
        let loaded = Needs::of(call).task.and_then(|task| self.tasks.get(task));
        let Some(loaded) =
            loaded.filter(|loaded| limits.memory.is_some() && loaded.len_bytes() > limits.inline_log_bytes)
        else {
            return 0;
        };
        match call {
            Call::Say(_) if loaded.is_open() => 0,
            Call::Say(_) | Call::Get { history: None, .. } | Call::Subscribe { .. } => {
                limits.encoded(loaded.len_bytes())
            }
            _ => 0,
        }
    }

    /// Refuses a long request that is being received and for which there is no memory.
    pub(in crate::core) fn refuse_long_input(&mut self, key: Key, now: Now) {
        let limits = &self.settings.limits;
        let is_long = self.connections.get(key).is_some_and(|conn| conn.held(limits) > limits.head_bytes);
        if is_long
            && !self.has_memory(0, None)
            && let Some(conn) = self.connections.get_mut(key)
        {
            conn.refuse_incomplete(now);
            self.close_try_later(key, "too busy: connect and send it again", now);
        }
    }

    /// Arms the timer that closes stalled connections.
    pub(in crate::core) fn watch_output_budget(&mut self, now: Now) {
        if self.exceeds_output_budget() && !self.connections.output_budget.armed {
            self.connections.output_budget.armed = true;
            let at = now.mono_ms + self.settings.limits.output_stall_ms;
            self.timers.arm(at, Timer::OutputBudget);
        }
    }

    /// Closes stalled connections, the largest first, until the rest is within the budget.
    pub(in crate::core) fn close_stalled(&mut self, now: Now) {
        self.connections.output_budget.armed = false;
        let mut stalled = self.connections.stalled(&self.settings.limits, now);
        while self.exceeds_output_budget()
            && let Some((_, key)) = stalled.pop()
        {
            self.close_for(key, CloseReason::Limit, Close::Reset);
        }
        self.watch_output_budget(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::{Dialect, Switches};
    use crate::core::connections::connection::Peer;
    use crate::core::disk::store::Archive;
    use crate::core::test_core::TestCore;
    use crate::core::test_core::core_harness::failing_store::FailingStore;
    use crate::core::test_core::core_harness::{self, Outside};
    use crate::core::{Input, Out};
    use crate::limits::Limits;

    const NOW: Now = Now { mono_ms: 1_000_000, unix_ms: 1_767_268_800_000 };

    fn turn(core: &mut Core, store: &mut FailingStore, now: Now) {
        loop {
            let mut outside = Outside::default();
            core.turn(store, &mut outside, now);
            core.check();
            let mut computed = false;
            for out in outside.take_outs() {
                if let Out::Compute(computation) = out {
                    core.input(computation.run(&*Archive::blobs(store)), now);
                    computed = true;
                }
            }
            if !computed {
                return;
            }
        }
    }

    /// Asks on a connection of its own, and gives how the answer begins.
    fn ask(core: &mut Core, store: &mut FailingStore, request: &str, now: Now) -> (Key, String) {
        let key = core.opened(Peer::SameUser, now);
        core.received(key, request.as_bytes(), now);
        turn(core, store, now);
        let text = waiting_output(core, key);
        (key, text.lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn the_memory_of_unread_answers_is_limited_and_reading_clients_are_served() {
        let limits = Limits { output_bytes_total: 100_000, ..Limits::default() };
        let mut core = Core::new(core_harness::setup(limits.clone(), Switches::default(), NOW));
        let mut store = FailingStore::default();
        let said = "x".repeat(30_000);
        let body =
            format!(r#"{{"message": {{"role": "ROLE_USER", "messageId": "m", "parts": [{{"text": "{said}"}}]}}}}"#);
        let prompt = format!(
            "POST /message:send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        ask(&mut core, &mut store, &prompt, NOW);
        let task = core.tasks.iter().next().expect("a task").0.clone();
        let get = format!("GET /v1/tasks/{task} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
        const FINE: &str = "HTTP/1.1 200 OK";
        const LATER: &str = "HTTP/1.1 503 Service Unavailable";

        let (reader, first) = ask(&mut core, &mut store, &get, NOW);
        assert_eq!(first, FINE);
        let asked: Vec<(Key, String)> = (0..20).map(|_| ask(&mut core, &mut store, &get, NOW)).collect();
        let accepted: Vec<bool> = asked.iter().map(|(_, head)| head == FINE).collect();
        assert_eq!(accepted, [[true; 3].as_slice(), &[false; 17]].concat());
        assert_eq!(asked[19].1, LATER);
        assert_eq!(ask(&mut core, &mut store, health, NOW).1, FINE);

        // A moment later one of them has read a little. The others are cut off until there is room.
        let later = Now { mono_ms: NOW.mono_ms + limits.output_stall_ms, ..NOW };
        core.sent(reader, 1, later);
        turn(&mut core, &mut store, later);
        let (again, head) = ask(&mut core, &mut store, &get, later);
        assert_eq!(head, FINE);
        let there: Vec<Key> = core.connections.iter().map(|(key, _)| key).collect();
        assert!(there.contains(&reader) && there.contains(&again));
        let held = asked[..3].iter().filter(|(key, _)| there.contains(key));
        assert_eq!(held.count(), 2, "no more are cut off than need be");
    }

    #[test]
    fn encoded_first_frames_count_before_they_are_queued() {
        let limits = Limits { tx_bytes: 1_000, output_bytes_total: 100_000, ..Limits::default() };
        let mut core = Core::new(core_harness::setup(limits, Switches::default(), NOW));
        let mut store = FailingStore::default();
        let body = serde_json::json!({"message": {"role": "ROLE_USER", "messageId": "m",
            "parts": [{"text": "x".repeat(30_000)}]}});
        let body = body.to_string();
        let prompt = format!(
            "POST /message:send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        ask(&mut core, &mut store, &prompt, NOW);
        let task = core.tasks.iter().next().expect("a task").0.clone();
        let join = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
            Sec-WebSocket-Protocol: a2a.v1.0\r\n\r\n";
        let (socket, _) = ask(&mut core, &mut store, join, NOW);
        let watch = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task}});
        for _ in 0..4 {
            core.decode_message(socket, watch.to_string(), NOW);
        }
        turn(&mut core, &mut store, NOW);
        let queued = waiting_output(&core, socket).len();
        assert!(
            queued < 40_000 && core.connections.output_budget.bytes > 120_000,
            "{queued} of {}",
            core.connections.output_budget.bytes
        );
        core.close_conn(socket, crate::core::Close::Orderly);
        turn(&mut core, &mut store, NOW);
        assert!(core.connections.output_budget.bytes < 10_000);
    }

    /// The bytes that wait for a connection, from the first line on.
    fn waiting_output(core: &Core, key: Key) -> String {
        let slices = core.slices(key);
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The peer takes what waits for it.
    fn read(core: &mut Core, key: Key) {
        let taken = core.slices(key).iter().map(|slice| slice.len()).sum();
        core.sent(key, taken, NOW);
    }

    #[test]
    fn the_memory_of_incomplete_requests_is_limited() {
        const CHUNK: usize = 50_000;
        let limits = Limits {
            head_bytes: CHUNK - 1,
            // Each fragment has a head of eight bytes.
            output_bytes_total: 4 * CHUNK + 16,
            ..Limits::default()
        };
        let mut core = Core::new(core_harness::setup(limits.clone(), Switches::default(), NOW));
        let mut store = FailingStore::default();
        let chunk = [b'x'; CHUNK];
        let post =
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
        let upgrade = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        // A fragment that is whole, of a message that is not.
        let mut fragment = vec![0x01, 0x80 | 126];
        fragment.extend((CHUNK as u16).to_be_bytes());
        fragment.extend([0; 4]);
        fragment.extend(chunk);

        let mut held = Vec::new();
        for n in 0..4 {
            let (key, _) = ask(&mut core, &mut store, if n < 2 { post } else { upgrade }, NOW);
            read(&mut core, key);
            core.received(key, if n < 2 { &chunk } else { &fragment }, NOW);
            turn(&mut core, &mut store, NOW);
            held.push(key);
        }
        for key in &held {
            assert_eq!(waiting_output(&core, *key), "", "there is room for them");
        }

        // The budget is used up. A request that grows further is refused, which frees its memory for others.
        core.received(held[2], &[0x00, 0x80 | 1, 0, 0, 0, 0, b'x'], NOW);
        let hung_up = waiting_output(&core, held[2]);
        assert!(hung_up.ends_with("\u{3}\u{fffd}too busy: connect and send it again"), "{hung_up:?}");
        read(&mut core, held[2]);
        let (late, _) = ask(&mut core, &mut store, post, NOW);
        core.received(late, &chunk, NOW);
        core.received(held[0], &[b'x'; 9], NOW);
        let refused = waiting_output(&core, held[0]);
        assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("send it again in a moment"), "{refused:?}");
        assert_eq!(waiting_output(&core, late), "");
        core.check();
    }

    /// Limits of a server with a memory budget that allows this many counted bytes.
    fn with_memory(counted: usize) -> Limits {
        Limits { memory: Some(1), output_bytes_total: counted, ..Limits::default() }
    }

    #[test]
    fn memory_for_a_request_is_reserved_before_its_body_comes() {
        const BODY: usize = 100_000;
        let limits = with_memory(Limits::within(1 << 20).reserved(2 * BODY));
        let mut core = Core::new(core_harness::setup(limits, Switches::default(), NOW));
        let mut store = FailingStore::default();
        let post = |body: usize| {
            format!(
                "POST /message:send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {body}\r\n\r\n"
            )
        };
        let (first, _) = ask(&mut core, &mut store, &post(BODY), NOW);
        let (second, head) = ask(&mut core, &mut store, &post(BODY + 1), NOW);
        assert_eq!((waiting_output(&core, first).as_str(), head.as_str()), ("", "HTTP/1.1 503 Service Unavailable"));
        let refused = waiting_output(&core, second);
        assert!(refused.contains("Retry-After: 1") && refused.contains("\"status\":\"UNAVAILABLE\""), "{refused}");
        core.close_conn(second, Close::Orderly);
        let (third, head) = ask(&mut core, &mut store, &post(BODY), NOW);
        assert_eq!(head, "", "there is room for it");
        let chunked = "POST /message:send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
            Transfer-Encoding: chunked\r\n\r\n";
        let (growing, head) = ask(&mut core, &mut store, chunked, NOW);
        assert_eq!(head, "", "nothing of it is there yet");
        core.received(growing, b"ffff\r\n", NOW);
        assert!(waiting_output(&core, growing).starts_with("HTTP/1.1 503 "));
        core.close_conn(third, Close::Orderly);
        core.close_conn(growing, Close::Orderly);
        assert_eq!(ask(&mut core, &mut store, &post(BODY), NOW).1, "");
        let health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert_eq!(ask(&mut core, &mut store, health, NOW).1, "HTTP/1.1 200 OK");
        core.check();
    }

    #[test]
    fn memory_of_a_request_is_reserved_until_its_turn_is_over_and_idle_tasks_give_way() {
        let text = "x".repeat(200_000);
        let body = serde_json::json!({"message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": text}]},
            "configuration": {"returnImmediately": true, "historyLength": 0}})
        .to_string();
        let prompt = format!(
            "POST /message:send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let limits = with_memory(1_000_000);
        let mut test = TestCore::with(limits, Switches::default());
        let head = |test: &mut TestCore| {
            let key = test.core.opened(Peer::SameUser, test.now);
            test.core.input(Input::Received { conn: key, bytes: prompt.as_bytes() }, test.now);
            test.turns();
            test.take(key).lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(head(&mut test), "HTTP/1.1 200 OK");
        assert!(test.core.used_memory() > 800_000, "{}", test.core.used_memory());
        assert_eq!(head(&mut test), "HTTP/1.1 503 Service Unavailable", "the model is still asked");
        let task = test.core.tasks.iter().next().expect("a task").0.clone();
        test.end_turn();
        assert!((400_000..500_000).contains(&test.core.used_memory()), "{}", test.core.used_memory());
        assert_eq!(head(&mut test), "HTTP/1.1 200 OK");
        assert!(!test.core.tasks.is_loaded(&task), "it gave way");
        test.end_turn();
        // The other way round: there is no memory for what a task that is not loaded takes.
        test.core.settings.limits.output_bytes_total = 300_000;
        let answer = test.ask(Dialect::REST_10, Call::Get { task, history: None });
        assert_eq!(answer["error"]["code"], 413, "{answer}");
    }
}
