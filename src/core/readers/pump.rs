//! Those who read tasks: each is a cursor into a log that is moved on as far as the log is written and the connection takes
//! bytes. Nobody waits for anybody: a reader that cannot take more is left where it is and looked at again when it can.

use crate::a2a::{self, Wanted};
use crate::base::Shared;
use crate::base::clock::Now;
use crate::base::http::Response;
use crate::base::id::TaskId;
use crate::base::slots::{Key, Slots};
use crate::core::connections::connection::{Conn, Line};
use crate::core::readers::subscription::{Cold, Kind, Reply, Role, Subscription};
use crate::core::tasks::loaded_task::{Found, LoadedTask, Mark};
use crate::core::tasks::store::StoreError;
use crate::core::{Core, Out};
use crate::task::fault::{Fault, FaultKind};

impl Core {
    /// None: the client left while its task was being loaded.
    pub(in crate::core) fn subscribe(&mut self, sub: Subscription) -> Option<Key> {
        let conn = self.conns.get_mut(sub.conn)?;
        let stream = matches!(sub.kind, Kind::Stream);
        let (task, view, role) = (sub.task.clone(), sub.view, sub.role);
        conn.owed += sub.opening();
        let key = self.subs.insert(sub);
        conn.subs.push(key);
        if role == Role::Call {
            conn.calls += 1;
        }
        if let Some(loaded) = self.tasks.get_mut(&task) {
            loaded.subs.push(key);
            if stream {
                loaded.watch(view);
            }
        }
        self.to_pump.push(key);
        Some(key)
    }

    pub(in crate::core) fn unsubscribe(&mut self, key: Key) -> Option<Subscription> {
        let sub = self.subs.remove(key)?;
        if sub.cold.is_some() {
            self.pages.let_go(key);
        }
        if let Some(conn) = self.conns.get_mut(sub.conn) {
            conn.subs.retain(|known| *known != key);
            conn.owed -= sub.opening();
            if sub.role == Role::Call {
                conn.calls = conn.calls.saturating_sub(1);
            }
        }
        if let Some(loaded) = self.tasks.get_mut(&sub.task) {
            loaded.subs.retain(|known| *known != key);
            if matches!(sub.kind, Kind::Stream) {
                let before = loaded.hot_bytes;
                loaded.unwatch(sub.view);
                self.hot_total = self.hot_total + loaded.hot_bytes - before;
            }
        }
        Some(sub)
    }

    /// Sends a subscription what it may see and its connection can take.
    pub(in crate::core) fn pump(&mut self, key: Key, now: Now) {
        let Some(sub) = self.subs.get_mut(key) else {
            return;
        };
        match &sub.kind {
            Kind::Once { .. } => {}
            Kind::Ready { seq, .. } => {
                let loaded = self.tasks.get(&sub.task);
                if loaded.is_none_or(|loaded| loaded.written < *seq || loaded.synced < sub.safe) {
                    return;
                }
                if let Some(Subscription { conn, form, kind: Kind::Ready { reply, .. }, .. }) = self.unsubscribe(key) {
                    match reply {
                        // Who gave no id wants to hear of failure only.
                        Reply::Answer(_) if form.silent => {}
                        Reply::Answer(response) => self.answer(conn, &response, now),
                        Reply::Refusal(fault) => self.refuse(conn, &form, &fault, now),
                    }
                    self.read_on(conn, now);
                }
            }
            Kind::Stream => {
                let conn = sub.conn;
                if self.pump_stream(key, now) {
                    self.unsubscribe(key);
                    if let Some(conn) = self.conns.get_mut(conn) {
                        conn.end_stream(now);
                    }
                    self.read_on(conn, now);
                } else {
                    self.tell_stream(key, now);
                    self.after_io(conn);
                }
            }
        }
    }

    /// True when the stream is over.
    fn pump_stream(&mut self, key: Key, now: Now) -> bool {
        let Some(sub) = self.subs.get_mut(key) else {
            return false;
        };
        let Some(loaded) = self.tasks.get(&sub.task) else {
            return true;
        };
        if loaded.synced < sub.safe {
            return false;
        }
        let Some(conn) = self.conns.get_mut(sub.conn) else {
            return true;
        };
        loop {
            let next = sub.cursor.next();
            if sub.first.is_none() && next > loaded.written {
                // What comes is encoded for all who watch; the state that was folded to get here may be a long conversation.
                if sub.cold.take_if(|cold| !cold.asked).is_some() {
                    self.pages.let_go(key);
                }
                // What is decided and not on disk yet is still to come.
                let seen_all = loaded.written == loaded.state.seq && !loaded.is_open();
                return match sub.role {
                    Role::FollowAll | Role::Leave => seen_all,
                    Role::Call | Role::Follow | Role::Watch => false,
                };
            }
            if conn.output.len() >= self.limits.tx_bytes {
                conn.starved = true;
                return false;
            }
            if let Some(first) = &sub.first {
                if loaded.written < first.seq {
                    return false;
                }
                conn.owed -= sub.opening();
                let first = sub.first.take().expect("looked at above");
                if let Some(body) = &first.body {
                    send(conn, sub, first.seq, None, body, now);
                }
                if first.last {
                    return true;
                }
                continue;
            }
            if let Found::Hot(body, mark) = loaded.find(next, sub.view) {
                if sub.cold.take_if(|cold| !cold.asked).is_some() {
                    self.pages.let_go(key);
                }
                sub.cursor = next;
                let last = sub.until.ends(next, mark);
                if let Some(body) = body {
                    send(conn, sub, next, body.event, body.frame(last), now);
                }
                if last {
                    return true;
                }
                continue;
            }
            let cold = sub.cold.get_or_insert_with(Cold::default);
            if cold.asked {
                return false;
            }
            match cold.next() {
                None => {
                    cold.asked = true;
                    self.pages.wait(key);
                    return false;
                }
                Some(Err(message)) => {
                    self.dismiss(key, &Fault::new(FaultKind::Storage, message), now);
                    return false;
                }
                Some(Ok(record)) if record.seq <= sub.cursor => continue,
                Some(Ok(record)) => {
                    sub.cursor = record.seq;
                    let last = sub.until.ends(record.seq, Mark::of(&record.event));
                    let state = cold.state.as_ref().expect("folding gives a state");
                    let body = a2a::event(sub.view, state, &record, &self.tools);
                    if let Some(body) = body {
                        send(conn, sub, record.seq, body.event, body.frame(last), now);
                    }
                    if last {
                        return true;
                    }
                }
            }
        }
    }

    /// Has pages read for those whose turn it is.
    pub(in crate::core) fn turn_pages(&mut self) {
        let most = self.limits.pages;
        while self.pages.is_waited_for() {
            let next = self.pages.call(most);
            let Some(key) = next else {
                match self.stuck() {
                    Some(holder) => self.take_back(holder),
                    None => return,
                }
                continue;
            };
            let sub = self.subs.get(key).expect("who leaves also leaves the line");
            let cold = sub.cold.as_ref().expect("only who is behind waits");
            self.out.push(Out::Page { task: sub.task.clone(), sub: key, offset: cold.offset });
        }
    }

    /// One who has a page and whose peer takes nothing.
    fn stuck(&self) -> Option<Key> {
        let mut held = self.pages.held().iter().copied();
        held.find(|key| {
            self.subs.get(*key).is_some_and(|sub| {
                let idle = sub.cold.as_ref().is_some_and(|cold| !cold.asked);
                idle && self.conns.get(sub.conn).is_some_and(|conn| conn.starved)
            })
        })
    }

    fn take_back(&mut self, holder: Key) {
        self.pages.let_go(holder);
        let sub = self.subs.get_mut(holder);
        if let Some(cold) = sub.and_then(|sub| sub.cold.as_mut()) {
            cold.put_back();
        }
    }

    /// A page of a journal was read for a reader that is behind.
    pub fn paged(&mut self, key: Key, page: Result<Vec<u8>, StoreError>, now: Now) {
        let Some(sub) = self.subs.get_mut(key) else {
            return;
        };
        let Some(cold) = &mut sub.cold else { return };
        match page {
            Ok(page) => {
                cold.take_page(page);
                self.to_pump.push(key);
            }
            Err(error) => self.dismiss(key, &Fault::new(FaultKind::Storage, error.message), now),
        }
    }

    /// Ends a subscription with an error.
    pub(in crate::core) fn dismiss(&mut self, key: Key, fault: &Fault, now: Now) {
        let Some(sub) = self.subs.get(key) else {
            return;
        };
        let (at, form, role) = (sub.conn, sub.form.clone(), sub.role);
        let streams = matches!(sub.kind, Kind::Stream);
        self.unsubscribe(key);
        if !streams {
            self.refuse(at, &form, fault, now);
        } else if let Some(conn) = self.conns.get_mut(at) {
            send_error(conn, &a2a::fault_frame(&form, fault).into(), now);
            match role {
                Role::Call => conn.end_stream(now),
                Role::Watch => {}
                Role::Follow | Role::FollowAll | Role::Leave => {
                    // Going away, or something went wrong.
                    let code = if self.ending { 1001 } else { 1011 };
                    conn.hang_up(code, &fault.message, now);
                }
            }
        }
        self.read_on(at, now);
    }

    /// The waiting time of a call is over: it is answered with the task as it stands, and the turn goes on.
    pub(in crate::core) fn stop_waiting(&mut self, key: Key) {
        let Some(sub) = self.subs.get_mut(key) else {
            return;
        };
        if let Kind::Once { history } = sub.kind
            && let Some(loaded) = self.tasks.get(&sub.task)
        {
            let response = a2a::said(&sub.form, &loaded.state, Wanted::newest(history));
            sub.kind = Kind::Ready { seq: loaded.state.seq, reply: Reply::Answer(response) };
            self.to_pump.push(key);
        }
    }

    pub(in crate::core) fn trim(&mut self, task: &TaskId) {
        let Some(loaded) = self.tasks.get_mut(task) else {
            return;
        };
        let streams = loaded.subs.iter().filter_map(|key| self.subs.get(*key));
        let slowest = streams
            .filter(|sub| matches!(sub.kind, Kind::Stream))
            .map(|sub| sub.cursor)
            .min()
            .unwrap_or(loaded.written);
        // When all tasks together hold too much, each keeps only a little.
        let crowded = self.hot_total > self.limits.hot_total_bytes;
        let cap = if crowded { self.limits.hot_bytes / 16 } else { self.limits.hot_bytes };
        let before = loaded.hot_bytes;
        loaded.trim(slowest, cap);
        self.hot_total = self.hot_total + loaded.hot_bytes - before;
    }

    pub(in crate::core) fn answer(&mut self, key: Key, response: &Response, now: Now) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.answer(response, now);
            self.after_io(key);
        }
    }
}

/// The journal can be written again: the next time that it cannot, readers are told anew.
pub(in crate::core) fn forget_notices(loaded: &LoadedTask, subs: &mut Slots<Subscription>) {
    for key in &loaded.subs {
        if let Some(sub) = subs.get_mut(*key) {
            sub.told = false;
        }
    }
}

/// Gives every waiting call that ends with this event its answer: the task as it stands right now.
pub(in crate::core) fn ready_answers(loaded: &LoadedTask, subs: &mut Slots<Subscription>, mark: Mark) {
    let seq = loaded.state.seq;
    for key in &loaded.subs {
        let Some(sub) = subs.get_mut(*key) else {
            continue;
        };
        if let Kind::Once { history } = sub.kind
            && sub.until.ends(seq, mark)
        {
            let response = a2a::said(&sub.form, &loaded.state, Wanted::newest(history));
            sub.kind = Kind::Ready { seq, reply: Reply::Answer(response) };
        }
    }
}

fn send(
    conn: &mut Conn,
    sub: &Subscription,
    seq: crate::base::id::Seq,
    name: Option<&'static str>,
    body: &Shared,
    now: Now,
) {
    let line = Line { name, seq: Some(seq), prefix: &sub.prefix, body, suffix: a2a::frame_suffix(&sub.form) };
    conn.event(&line, now);
}

fn send_error(conn: &mut Conn, body: &Shared, now: Now) {
    let line = Line { name: Some("error"), seq: None, prefix: b"", body, suffix: b"" };
    conn.event(&line, now);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Switches;
    use crate::core::Setup;
    use crate::core::connections::connection::Peer;
    use crate::core::tasks::store::{MemoryStore, Store};
    use crate::limits::Limits;
    use crate::task::machine::job::{Note, NoteBody};
    use std::collections::{HashMap, HashSet};

    const NOW: Now = Now { mono_ms: 1_000_000, unix_ms: 1_767_268_800_000 };
    const UPGRADE: &[u8] = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
        Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    const PROMPT: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": {
        "kind": "message", "role": "user", "messageId": "m", "parts": [{"kind": "text", "text": "go"}]}}}"#;

    fn turn(core: &mut Core, store: &mut MemoryStore) -> Vec<Out> {
        core.tick(NOW);
        core.append(store, NOW);
        core.release(NOW);
        core.check();
        core.outs()
    }

    /// What waits for a connection, by address and length. The peer then takes it all.
    fn take(core: &mut Core, key: Key) -> Vec<(*const u8, usize)> {
        let slices = core.slices(key);
        let taken: Vec<_> = slices.iter().map(|s| (s.as_ptr(), s.len())).collect();
        let n = taken.iter().map(|(_, len)| len).sum();
        core.sent(key, n, NOW);
        taken
    }

    #[test]
    fn an_event_is_encoded_once_for_a_thousand_sockets() {
        let mut core = Core::new(Setup::alone(Limits::default(), Switches::default(), NOW));
        let mut store = MemoryStore::default();
        let sockets: Vec<Key> = (0..1000)
            .map(|_| {
                let key = core.opened(Peer::SameUser, NOW);
                core.received(key, UPGRADE, NOW);
                key
            })
            .collect();
        core.hear(sockets[0], PROMPT, NOW);
        let started = turn(&mut core, &mut store).into_iter().find_map(|out| {
            let Out::Start(job) = out else { return None };
            Some(job.id)
        });
        let job = started.expect("a prompt sets the model to work");
        for key in &sockets {
            take(&mut core, *key);
        }
        // Long enough not to be copied together with its neighbours, and no chant, which would end the turn.
        let text: String = (0..2000).map(|n| format!("{n} ")).collect();
        let body = NoteBody::Text(text.clone());
        core.note(Note { job, body }, NOW);
        turn(&mut core, &mut store);
        let mut bodies = HashSet::new();
        for key in &sockets {
            let taken = take(&mut core, *key);
            let [(_, head), body] = taken[..] else {
                panic!("a head and a body, not {taken:?}");
            };
            assert!(head < 16 && body.1 > text.len());
            bodies.insert(body);
        }
        assert_eq!(bodies.len(), 1, "all of them were given the same memory");
    }

    /// Everything that waits for a connection, which takes it.
    fn drain(core: &mut Core, key: Key) -> Vec<u8> {
        let slices = core.slices(key);
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        core.sent(key, bytes.len(), NOW);
        bytes
    }

    /// A task that has said a lot and that nobody watches any more.
    fn long_task(core: &mut Core, store: &mut MemoryStore) -> TaskId {
        let key = core.opened(Peer::SameUser, NOW);
        core.received(key, UPGRADE, NOW);
        core.hear(key, PROMPT, NOW);
        let started = turn(core, store).into_iter().find_map(|out| {
            let Out::Start(job) = out else { return None };
            Some(job.id)
        });
        let job = started.expect("a prompt sets the model to work");
        for n in 0..100 {
            let text: String = (0..20).map(|m| format!("{n}.{m} ")).collect();
            let (job, body) = (job.clone(), NoteBody::Text(text));
            core.note(Note { job, body }, NOW);
        }
        core.broke(key);
        turn(core, store);
        job.task
    }

    #[test]
    fn pages_are_read_for_a_few_at_a_time_and_who_takes_nothing_gives_way() {
        let limits = Limits { pages: 2, page_bytes: 1_000, tx_bytes: 2_000, ..Limits::default() };
        let mut core = Core::new(Setup::alone(limits.clone(), Switches::default(), NOW));
        let mut store = MemoryStore::default();
        let task = long_task(&mut core, &mut store);
        let written = core.tasks[&task].written;
        let target = format!("GET /v1/tasks/{task}:subscribe?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let late: Vec<Key> = (0..20)
            .map(|_| {
                let key = core.opened(Peer::SameUser, NOW);
                core.received(key, target.as_bytes(), NOW);
                key
            })
            .collect();
        let (slow, quick) = late.split_at(10);
        let mut seen: HashMap<Key, Vec<u8>> = HashMap::new();
        let mut reads = 0;
        // First half of them take what they get, and then all do.
        for takers in [quick, &late[..]] {
            let is_behind = |core: &Core, key: &Key| {
                let sub = core.conns.get(*key).expect("it stays").subs[0];
                core.subs.get(sub).expect("it goes on").cursor < written
            };
            while takers.iter().any(|key| is_behind(&core, key)) {
                for out in turn(&mut core, &mut store) {
                    let Out::Page { task, sub, offset } = out else {
                        continue;
                    };
                    reads += 1;
                    assert!(reads < 10_000, "somebody never gets there");
                    let log = store.file(&task).expect("a log");
                    core.paged(sub, log.page(offset, limits.page_bytes), NOW);
                }
                for key in takers {
                    let bytes = drain(&mut core, *key);
                    seen.entry(*key).or_default().extend(bytes);
                }
            }
            let left = slow.iter().all(|key| is_behind(&core, key));
            assert_eq!(left, takers.len() == quick.len(), "nobody waits for the slow");
        }
        let whole = &seen[&late[0]];
        assert!(whole.len() > 20_000 && whole.ends_with(b"\r\n"));
        assert!(late.iter().all(|key| seen[key] == *whole));
    }

    #[test]
    fn a_late_reader_keeps_no_conversation() {
        let mut core = Core::new(Setup::alone(Limits::default(), Switches::default(), NOW));
        let mut store = MemoryStore::default();
        let task = long_task(&mut core, &mut store);
        let mut cold = Cold::default();
        let log = store.file(&task).expect("a log");
        cold.take_page(log.page(0, usize::MAX).expect("a page"));
        let mut kept = 0;
        while let Some(record) = cold.next() {
            record.expect("a line of ours");
            let state = cold.state.as_ref().expect("it was born");
            kept = kept.max(state.utterance.text.len() + 1_000 * state.history.len());
        }
        let whole = core.tasks[&task].state.utterance.text.len();
        assert!(kept < 2_000 && whole > 10_000, "{kept} of {whole}");
    }
}
