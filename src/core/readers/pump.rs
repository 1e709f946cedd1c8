//! Sends events to readers: as far as the log is written and the reader's connection accepts output. No reader waits for another: the
//! cursor of a reader whose output buffer is full stays where it is until the connection accepts more.

use crate::a2a::{self, Binding, Tools};
use crate::base::Shared;
use crate::base::clock::Now;
use crate::base::http::Response;
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::connections::connection::{Conn, Line};
use crate::core::disk::page::{Frame, Page, PageRequest};
use crate::core::disk::request::StoreRequest;
use crate::core::disk::store::StoreError;
use crate::core::operation::exchange::CloseReason;
use crate::core::readers::Readers;
use crate::core::readers::subscription::{Cold, FirstBody, Kind, Reply, Role, Subscription};
use crate::core::tasks::loaded_task::{Found, LoadedTask, Mark};
use crate::core::{Core, Out};
use crate::task::fault::{Fault, FaultKind};
use std::sync::Arc;

impl Core {
    /// Adds a subscription. None: its client has disconnected meanwhile.
    pub(in crate::core) fn subscribe(&mut self, sub: Subscription) -> Option<Key> {
        let conn = self.connections.get_mut(sub.conn)?;
        let stream = matches!(sub.kind, Kind::Stream);
        let (task, view, role) = (sub.task.clone(), sub.view, sub.role);
        conn.encoded_bytes += sub.encoded_bytes;
        if role == Role::Call {
            conn.is_about(&task);
        }
        let key = self.readers.insert(sub);
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
        Some(key)
    }

    pub(in crate::core) fn unsubscribe(&mut self, key: Key) -> Option<Subscription> {
        let sub = self.readers.remove(key)?;
        if let Some(conn) = self.connections.get_mut(sub.conn) {
            conn.subs.retain(|known| *known != key);
            conn.encoded_bytes -= sub.encoded_bytes;
            if sub.role == Role::Call {
                conn.calls = conn.calls.saturating_sub(1);
            }
        }
        self.tasks.update(&sub.task, |loaded| {
            loaded.subs.retain(|known| *known != key);
            if matches!(sub.kind, Kind::Stream) {
                loaded.unwatch(sub.view);
            }
        });
        Some(sub)
    }

    /// Sends a subscription as much as is recorded and its connection can accept.
    pub(in crate::core) fn pump(&mut self, key: Key, now: Now) {
        let Some(sub) = self.readers.get_mut(key) else {
            return;
        };
        match &sub.kind {
            Kind::Once { .. } | Kind::Ready { reply: Reply::Encoding, .. } => {}
            Kind::Ready { seq, .. } => {
                let loaded = self.tasks.get(&sub.task);
                if loaded.is_none_or(|loaded| loaded.shown() < *seq || loaded.synced < sub.required_sync) {
                    return;
                }
                let seq = *seq;
                if self.readers.get(key).is_some_and(|sub| self.overtakes(sub, seq)) {
                    return;
                }
                if let Some(Subscription { conn, form, kind: Kind::Ready { reply, .. }, .. }) = self.unsubscribe(key) {
                    match reply {
                        // A request without an id is answered only if it fails.
                        Reply::Answer(_) if form.is_notification => {}
                        Reply::Answer(response) => self.answer(conn, &response, now),
                        Reply::Refusal(fault) => self.refuse(conn, &form, &fault, now),
                        Reply::Encoding => unreachable!("it is encoded"),
                    }
                    self.pump_editor(conn);
                    self.read_on(conn, now);
                }
            }
            Kind::Stream => {
                let conn = sub.conn;
                match self.advance_stream(key, now) {
                    Advanced::Waits => {
                        self.notify_stream(key, now);
                        self.ask_client(key, now);
                        self.after_io(conn);
                    }
                    Advanced::Ended => {
                        self.unsubscribe(key);
                        if let Some(conn) = self.connections.get_mut(conn) {
                            conn.end_stream(now);
                        }
                        self.read_on(conn, now);
                    }
                    Advanced::Failed(message) => {
                        self.fail_subscription(key, &Fault::new(FaultKind::Storage, message), now);
                    }
                }
            }
        }
    }

    fn advance_stream(&mut self, key: Key, now: Now) -> Advanced {
        let Some(sub) = self.readers.get(key) else {
            return Advanced::Waits;
        };
        if self.disk.loading.contains_key(&sub.task) {
            return Advanced::Waits;
        }
        let (Some(loaded), Some(conn)) = (self.tasks.get(&sub.task), self.connections.get_mut(sub.conn)) else {
            return Advanced::Ended;
        };
        if loaded.synced < sub.required_sync || conn.socket().is_some_and(|socket| socket.greeting_pending) {
            return Advanced::Waits;
        }
        let most = self.settings.limits.tx_bytes;
        self.readers.advance(key, loaded, &mut Sink { conn, most, now })
    }

    /// Requests pages for the readers that are first in the queue.
    pub(in crate::core) fn request_pages(&mut self) {
        let limits = &self.settings.limits;
        while self.readers.pages.has_waiting() {
            if let Some(request) = self.readers.next_page(limits.pages, limits.page_bytes, &self.tools.shown) {
                self.out.push(Out::Store(StoreRequest::Page(request)));
                continue;
            }
            let stuck = |sub: &Subscription| self.connections.get(sub.conn).is_some_and(|conn| conn.output_was_full);
            if !self.readers.revoke_page(stuck) {
                return;
            }
        }
    }

    /// A page of a journal was read for a reader that is behind. If it cannot be read now, the subscription ends with an error, and the
    /// client can resume at its position.
    pub(in crate::core) fn paged(&mut self, key: Key, page: Result<Page, StoreError>, now: Now) {
        let Some(cold) = self.readers.get_mut(key).and_then(|sub| sub.cold.as_mut()) else {
            return;
        };
        match page {
            Ok(page) => {
                cold.take_page(page);
                self.readers.pump_later(&[key]);
            }
            Err(error) => self.fail_subscription(key, &error.into_fault(), now),
        }
    }

    /// Ends a subscription with an error.
    pub(in crate::core) fn fail_subscription(&mut self, key: Key, fault: &Fault, now: Now) {
        let Some(sub) = self.readers.get(key) else {
            return;
        };
        let (at, form, role, task) = (sub.conn, sub.form.clone(), sub.role, sub.task.clone());
        let streams = matches!(sub.kind, Kind::Stream);
        // 1001: going away; 1011: internal error.
        let code = if self.is_running() { 1011 } else { 1001 };
        self.unsubscribe(key);
        if !streams {
            self.refuse(at, &form, fault, now);
        } else if form.dialect.binding == Binding::Acp {
            self.fail_answers(at, &task, fault, now);
        } else if let Some(conn) = self.connections.get_mut(at) {
            send_error(conn, &a2a::fault_frame(&form, fault).into(), now);
            match role {
                Role::Call => conn.end_stream(now),
                Role::Watch => {}
                Role::Follow | Role::FollowAll | Role::Leave => {
                    conn.set_close_reason(if code == 1001 { CloseReason::Drain } else { CloseReason::Limit });
                    conn.close_socket(code, &fault.message, now);
                }
            }
        }
        self.read_on(at, now);
    }

    /// A call has waited as long as it may: answers it with the task as it is. The turn continues.
    pub(in crate::core) fn stop_waiting(&mut self, key: Key) {
        let Some(sub) = self.readers.get_mut(key) else {
            return;
        };
        if let Kind::Once { history } = sub.kind
            && let Some(loaded) = self.tasks.get(&sub.task)
        {
            let state = loaded.state.clone();
            sub.kind = Kind::Ready { seq: state.seq, reply: Reply::Encoding };
            self.encode_prompted(key, &state, history);
        }
    }

    /// Drops encoded events of a task that no reader needs from memory any more.
    pub(in crate::core) fn trim(&mut self, task: &TaskId) {
        let limits = &self.settings.limits;
        // When the encoded events of all tasks take too much memory, each task keeps only a few.
        let is_over_limit = self.tasks.hot_bytes > limits.hot_total_bytes;
        let cap = if is_over_limit { limits.hot_bytes / 16 } else { limits.hot_bytes };
        self.tasks.update(task, |loaded| {
            let streams = self.readers.among(&loaded.subs).filter(|sub| matches!(sub.kind, Kind::Stream));
            let slowest = streams.map(|sub| sub.cursor).min().unwrap_or(loaded.shown());
            loaded.trim(slowest, cap);
        });
    }

    pub(in crate::core) fn answer(&mut self, key: Key, response: &Response, now: Now) {
        if let Some(conn) = self.connections.get_mut(key) {
            conn.answer(response, now);
            self.after_io(key);
        }
    }
}

/// Why a stream sends no more for now.
enum Advanced {
    /// It waits for events, for the disk or for its connection.
    Waits,
    Ended,
    /// The journal cannot be read.
    Failed(String),
}

/// The connection that events are written to.
struct Sink<'a> {
    conn: &'a mut Conn,
    /// How many bytes of output may wait for the connection.
    most: usize,
    now: Now,
}

impl Sink<'_> {
    /// Sends the first frame of a stream. For an editor that is the answer to its request, which has no frame around it; otherwise it is
    /// framed as an event.
    fn send_first(&mut self, sub: &Subscription, seq: Seq, body: &Shared) {
        match sub.form.dialect.binding {
            Binding::Acp => self.conn.event(&Line { name: None, seq: None, prefix: b"", body, suffix: b"" }, self.now),
            Binding::JsonRpc | Binding::Rest | Binding::Bare | Binding::Native => self.send(sub, seq, None, body),
        }
    }

    fn send(&mut self, sub: &Subscription, seq: Seq, name: Option<&'static str>, body: &Shared) {
        if sub.hidden.contains(&seq) || !a2a::can_show(&sub.form, name) {
            return;
        }
        let suffix = a2a::frame_suffix(&sub.form, &sub.prefix);
        // Updates of an editor have no position.
        let seq = (sub.form.dialect.binding != Binding::Acp).then_some(seq);
        let line = Line { name, seq, prefix: &sub.prefix, body, suffix };
        self.conn.event(&line, self.now);
    }
}

impl Readers {
    /// Sends events until there are no more, or the connection takes no more.
    fn advance(&mut self, key: Key, loaded: &LoadedTask, sink: &mut Sink<'_>) -> Advanced {
        loop {
            let Some(sub) = self.subs.get_mut(key) else {
                return Advanced::Waits;
            };
            let next = sub.cursor.next();
            if sub.first.is_none() && next > loaded.shown() {
                let ended = has_seen_all(sub, loaded);
                // Further events are encoded for all readers together, so this reader needs no state of its own any more.
                self.drop_cold(key);
                return if ended { Advanced::Ended } else { Advanced::Waits };
            }
            if sink.conn.output.len() >= sink.most {
                sink.conn.output_was_full = true;
                return Advanced::Waits;
            }
            if let Some(first) = &sub.first {
                if loaded.shown() < first.seq || matches!(first.body, FirstBody::Encoding) {
                    return Advanced::Waits;
                }
                if send_first(sub, sink) {
                    return Advanced::Ended;
                }
                continue;
            }
            if let Found::Hot(body, mark) = loaded.find(next, sub.view) {
                sub.cursor = next;
                let last = sub.until.ends(next, mark);
                if let Some(body) = body {
                    sink.send(sub, next, body.event, body.frame(last));
                }
                self.drop_cold(key);
                if last {
                    return Advanced::Ended;
                }
                continue;
            }
            match send_cold(sub, sink) {
                ColdStep::Sent => {}
                ColdStep::Done(advanced) => return advanced,
                ColdStep::NeedsPage => {
                    self.pages.wait(key);
                    return Advanced::Waits;
                }
            }
        }
    }

    /// The reader has caught up with the events in memory: drops its page and its state, unless a page is being read for it.
    fn drop_cold(&mut self, key: Key) {
        let sub = self.subs.get_mut(key);
        if sub.and_then(|sub| sub.cold.take_if(|cold| !cold.awaits_page)).is_some() {
            self.pages.release(key);
        }
    }

    /// The request for the next page, if fewer than `pages` are in use.
    fn next_page(&mut self, pages: usize, most: usize, tools: &Arc<Tools>) -> Option<PageRequest> {
        let key = self.pages.grant_next(pages)?;
        let sub = self.subs.get(key).expect("a reader that is removed is also removed from the queue");
        let cold = sub.cold.as_ref().expect("only a reader that is behind waits");
        Some(PageRequest {
            task: sub.task.clone(),
            sub: key,
            from: cold.at.clone(),
            after: sub.cursor,
            view: sub.view,
            tools: tools.clone(),
            most,
        })
    }

    /// Takes the page from a reader whose connection accepts nothing. False if there is no such reader.
    fn revoke_page(&mut self, stuck: impl Fn(&Subscription) -> bool) -> bool {
        let idle = |sub: &Subscription| sub.cold.as_ref().is_some_and(|cold| !cold.awaits_page);
        let mut held = self.pages.held().iter().copied();
        let holder = held.find(|key| self.subs.get(*key).is_some_and(|sub| idle(sub) && stuck(sub)));
        let Some(holder) = holder else {
            return false;
        };
        self.pages.release(holder);
        if let Some(cold) = self.subs.get_mut(holder).and_then(|sub| sub.cold.as_mut()) {
            cold.drop_page();
        }
        true
    }

    /// Prepares a stream for a log whose events behind `kept` are void and were not sent: it continues with the events that are there
    /// instead. False: the subscription waits for a void event, or is no stream.
    pub(in crate::core) fn rewind(&mut self, key: Key, kept: Seq) -> bool {
        let Some(sub) = self.subs.get_mut(key) else {
            return false;
        };
        if !matches!(sub.kind, Kind::Stream) || sub.first.is_some() || sub.required_sync > kept {
            return false;
        }
        sub.until.floor = sub.until.floor.min(kept.next());
        sub.hidden.retain(|seq| *seq <= kept);
        true
    }

    /// The journal can be written again: readers get a new notice the next time that it cannot.
    pub(in crate::core) fn forget_notices(&mut self, subs: &[Key]) {
        for key in subs {
            if let Some(sub) = self.subs.get_mut(*key) {
                sub.notified = false;
            }
        }
    }

    /// The waiting calls that end with this event, and how many messages each answer is to contain. Each is answered with the task as
    /// it is now.
    pub(in crate::core) fn take_ended(&mut self, loaded: &LoadedTask, mark: Mark) -> Vec<(Key, Option<usize>)> {
        let seq = loaded.state.seq;
        let mut ended = Vec::new();
        for key in &loaded.subs {
            let Some(sub) = self.subs.get_mut(*key) else {
                continue;
            };
            if let Kind::Once { history } = sub.kind
                && sub.until.ends(seq, mark)
            {
                sub.kind = Kind::Ready { seq, reply: Reply::Encoding };
                ended.push((*key, history));
            }
        }
        ended
    }
}

/// Whether the subscription of a reader that was sent everything on disk ends. It does not while events are decided and not on disk yet.
fn has_seen_all(sub: &Subscription, loaded: &LoadedTask) -> bool {
    match sub.role {
        Role::FollowAll | Role::Leave => loaded.is_shown() && !loaded.is_open(),
        Role::Call | Role::Follow | Role::Watch => false,
    }
}

/// Sends the first frame of a stream; true if the stream ends with it.
fn send_first(sub: &mut Subscription, sink: &mut Sink<'_>) -> bool {
    sink.conn.encoded_bytes -= std::mem::take(&mut sub.encoded_bytes);
    let Some(first) = sub.first.take() else {
        return false;
    };
    if let FirstBody::Frame(body) = &first.body {
        sink.send_first(sub, first.seq, body);
    }
    first.last
}

enum ColdStep {
    Sent,
    NeedsPage,
    Done(Advanced),
}

/// Sends the next event of a page.
fn send_cold(sub: &mut Subscription, sink: &mut Sink<'_>) -> ColdStep {
    let cold = sub.cold.get_or_insert_with(Cold::default);
    if cold.awaits_page {
        return ColdStep::Done(Advanced::Waits);
    }
    let Frame { seq, mark, body } = match cold.next() {
        None => {
            cold.awaits_page = true;
            return ColdStep::NeedsPage;
        }
        Some(Err(message)) => return ColdStep::Done(Advanced::Failed(message)),
        Some(Ok(frame)) => frame,
    };
    sub.cursor = seq;
    let last = sub.until.ends(seq, mark);
    if let Some(body) = body {
        sink.send(sub, seq, body.event, body.frame(last));
    }
    if last { ColdStep::Done(Advanced::Ended) } else { ColdStep::Sent }
}

fn send_error(conn: &mut Conn, body: &Shared, now: Now) {
    let line = Line { name: Some("error"), seq: None, prefix: b"", body, suffix: b"" };
    conn.event(&line, now);
}

#[cfg(test)]
mod tests;
