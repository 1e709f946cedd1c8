//! Tasks and their readers: inputs are decided and recorded, lines go to the store, and only what is there is released to
//! readers and workers.

use crate::a2a::{self, Wanted};
use crate::base::Shared;
use crate::base::clock::Now;
use crate::base::http::Response;
use crate::base::id::{Seq, TaskId};
use crate::base::slots::Key;
use crate::core::cell::{Cell, Found, Mark};
use crate::core::store::{Openness, Store, StoreError};
use crate::core::sub::{Cold, Kind, Reply, Sub};
use crate::core::timers::Timer;
use crate::core::{Core, Loaded, Out};
use crate::task::decide::{self, Decision, Effect, Gate, Input, Refusal, Rules};
use crate::task::fault::{Fault, FaultKind};
use crate::task::job::{JobId, Work};
use crate::wire::sse;

impl Core {
    // Deciding.

    pub(super) fn decide(&self, task: &TaskId, input: Input) -> Result<Decision, Refusal> {
        let rules = Rules {
            tools: &self.specs,
            limits: &self.limits,
            policy: &self.approval.policy,
            grant: self.approval.grant,
        };
        match self.tasks.get(task) {
            Some(cell) => decide::decide(&cell.state, input, &rules),
            None => Ok(Decision::default()),
        }
    }

    /// Gives a task one input and lets it go on as far as it can.
    pub(super) fn drive(&mut self, task: &TaskId, input: Input, now: Now) -> Result<(), Refusal> {
        let decision = self.decide(task, input)?;
        self.commit(task, decision, now);
        self.advance(task, now);
        Ok(())
    }

    /// Whatever follows from the state. When the server is to end, nothing new begins: a turn may still end.
    pub(super) fn advance(&mut self, task: &TaskId, now: Now) {
        loop {
            let decision = self
                .decide(task, Input::Advance)
                .expect("going on is never refused");
            if decision.is_empty() || (self.ending && decision.effects.iter().any(is_work)) {
                return;
            }
            self.commit(task, decision, now);
        }
    }

    /// Records what was decided. Nothing of it is visible or started before it is on disk.
    pub(super) fn commit(&mut self, task: &TaskId, decision: Decision, now: Now) {
        if decision.is_empty() {
            return;
        }
        let Some(cell) = self.tasks.get_mut(task) else {
            return;
        };
        let hot_before = cell.hot_bytes;
        for event in decision.events {
            let mark = Mark::of(&event);
            cell.record(event, now.unix_ms, &self.tools);
            if mark == Mark::Over {
                self.out.push(Out::Over { task: task.clone() });
            }
            if mark != Mark::Plain {
                ready_answers(cell, &mut self.subs, mark);
            }
        }
        self.hot_total = self.hot_total + cell.hot_bytes - hot_before;
        for effect in &decision.effects {
            match effect {
                Effect::Arm { job, delay_ms } => {
                    let timer = Timer::Task {
                        task: task.clone(),
                        job: *job,
                    };
                    self.timers.arm(now.mono_ms + delay_ms, timer);
                }
                Effect::Stop { job } => {
                    cell.gated.retain(|(_, _, gated)| gated.id.at != *job);
                    if cell.running.contains(job) {
                        self.out.push(Out::Stop(JobId {
                            task: task.clone(),
                            at: *job,
                        }));
                    }
                }
                Effect::Save { rule } => self.out.push(Out::SaveRule { rule: rule.clone() }),
                Effect::Think { .. }
                | Effect::Attach { .. }
                | Effect::Compact { .. }
                | Effect::Prepare { .. }
                | Effect::Run { .. } => {
                    let gate = match effect {
                        Effect::Run { gate, .. } => *gate,
                        _ => Gate::Written,
                    };
                    let job = decide::job(&cell.state, effect, &self.limits);
                    let mut job = job.expect("these effects are jobs of the present state");
                    // A summary stands for what was inherited too.
                    if let Work::Think(think) | Work::Compact(think) = &mut job.work
                        && cell.state.summary.is_none()
                        && !cell.inherited.is_empty()
                    {
                        think.given = cell.inherited.len();
                        think.history = [cell.inherited.clone(), think.history.clone()].concat();
                    }
                    cell.gated.push((gate, cell.state.seq, job));
                }
            }
        }
        self.list_append(&task.clone());
    }

    /// A journal that could not be written is left alone until its timer is due.
    pub(super) fn list_append(&mut self, task: &TaskId) {
        if let Some(cell) = self.tasks.get_mut(task)
            && !cell.listed
            && cell.broken.is_none()
        {
            cell.listed = true;
            self.to_append.push(task.clone());
        }
    }

    // The disk.

    /// Appends what was decided since the last time: one write per changed task. What fails stays above the mark and is
    /// tried again later; nothing is rolled back, because nothing was shown or started.
    pub fn append(&mut self, store: &mut dyn Store, now: Now) {
        for task in std::mem::take(&mut self.to_forget) {
            // Somebody may have asked for it again in the meantime.
            if !self.tasks.contains_key(&task) && !self.parked.contains_key(&task) {
                store.close(&task);
            }
        }
        for task in std::mem::take(&mut self.to_append) {
            let Some(cell) = self.tasks.get_mut(&task) else {
                continue;
            };
            cell.listed = false;
            match append_one(cell, store) {
                Ok(()) => self.to_release.push(task),
                Err(error) if cell.written == Seq(0) => {
                    store.close(&task);
                    self.abandon(&task, error, now);
                }
                Err(error) => {
                    cell.broken = Some(error.message);
                    let at = now.mono_ms + self.limits.store_retry_ms;
                    self.timers.arm(at, Timer::Store(task));
                }
            }
        }
    }

    /// The time has come to try a journal again that could not be written.
    pub(super) fn retry_append(&mut self, task: &TaskId) {
        if let Some(cell) = self.tasks.get_mut(task) {
            cell.broken = None;
            self.list_append(task);
        }
    }

    /// Shows and starts what is on disk now.
    pub fn release(&mut self, now: Now) {
        for conn in std::mem::take(&mut self.to_list) {
            self.list_tasks(conn, now);
        }
        for task in std::mem::take(&mut self.to_release) {
            self.start_jobs(&task);
            let Some(cell) = self.tasks.get(&task) else {
                continue;
            };
            for sub in cell.subs.clone() {
                self.pump(sub, now);
            }
            self.trim(&task);
        }
        for sub in std::mem::take(&mut self.to_pump) {
            self.pump(sub, now);
            if let Some(task) = self.subs.get(sub).map(|sub| sub.task.clone()) {
                self.trim(&task);
            }
        }
        if self.ended {
            let fault = Fault::new(
                FaultKind::Overloaded { retry_after_s: 5 },
                "The server is ending. What it has accepted is kept; connect again when it is back.",
            );
            let waiting: Vec<Key> = self.subs.iter().map(|(key, _)| key).collect();
            for key in waiting {
                self.dismiss(key, &fault, now);
            }
        }
    }

    fn start_jobs(&mut self, task: &TaskId) {
        let Some(cell) = self.tasks.get_mut(task) else {
            return;
        };
        let (written, synced) = (cell.written, cell.synced);
        let mut must_sync = false;
        let mut waiting = Vec::new();
        for (gate, seq, job) in std::mem::take(&mut cell.gated) {
            let safe = match gate {
                Gate::Written => written >= seq,
                Gate::Synced => synced >= seq,
            };
            if safe {
                cell.running.push(job.id.at);
                self.out.push(Out::Start(job));
            } else {
                must_sync |= gate == Gate::Synced && written >= seq;
                waiting.push((gate, seq, job));
            }
        }
        cell.gated = waiting;
        if must_sync && !cell.syncing {
            cell.syncing = true;
            self.out.push(Out::Sync {
                task: task.clone(),
                upto: written,
            });
        }
    }

    /// A journal was flushed up to `upto`, or could not be.
    pub fn synced(&mut self, task: &TaskId, upto: Seq, result: Result<(), StoreError>, now: Now) {
        let Some(cell) = self.tasks.get_mut(task) else {
            return;
        };
        cell.syncing = false;
        match result {
            Ok(()) => {
                cell.synced = cell.synced.max(upto);
                self.to_release.push(task.clone());
            }
            Err(error) => {
                // What waits for the flush can never start: the task says so instead of waiting for ever.
                let text = format!("The task's journal cannot be written: {}", error.message);
                let _ = self.drive(task, Input::Fail(text), now);
            }
        }
    }

    // Tasks from the store.

    /// Learns which tasks there are, and brings back those that were left open.
    pub fn remember(&mut self, store: &mut dyn Store) {
        for known in store.known() {
            self.contexts
                .entry(known.context.clone())
                .or_default()
                .push(known.task.clone());
            self.known.insert(known.task.clone(), known.context);
            if known.open && self.tasks.len() + self.parked.len() < self.limits.tasks {
                self.parked.insert(known.task.clone(), Vec::new());
                self.out.push(Out::Load { task: known.task });
            }
        }
    }

    /// A task was read from its journal, or could not be.
    pub fn loaded(&mut self, task: &TaskId, result: Result<Loaded, StoreError>, now: Now) {
        let parked = self.parked.remove(task).unwrap_or_default();
        match result {
            Ok(loaded) => {
                let seq = loaded.state.seq;
                let mut cell = Cell::new(loaded.state, loaded.inherited);
                cell.written = seq;
                cell.synced = Seq(0);
                self.make_room();
                self.tasks.insert(task.clone(), cell);
                let _ = self.drive(task, Input::Restored, now);
                for request in parked {
                    self.perform(request.conn, request.call, request.form, request.by, now);
                    self.read_on(request.conn, now);
                }
            }
            Err(error) => {
                let fault = Fault::new(FaultKind::Storage, error.message);
                for request in parked {
                    let conn = request.conn;
                    self.perform_without(request, &fault, now);
                    self.read_on(conn, now);
                }
            }
        }
    }

    /// A task whose very first lines cannot be kept has never been: whoever asked for it is told why.
    fn abandon(&mut self, task: &TaskId, error: StoreError, now: Now) {
        let Some(cell) = self.unmake(task) else {
            return;
        };
        let fault = Fault::new(FaultKind::Storage, error.message);
        for key in cell.subs {
            self.dismiss(key, &fault, now);
        }
    }

    /// When memory holds as many tasks as it may, those that rest unwatched leave it, the longest untouched first. They are
    /// loaded again when somebody asks for them.
    pub(super) fn make_room(&mut self) {
        if self.tasks.len() < self.limits.tasks {
            return;
        }
        let resting = self.tasks.iter().filter(|(_, cell)| cell.can_leave());
        let mut resting: Vec<(u64, TaskId)> = resting
            .map(|(task, cell)| (cell.state.at, task.clone()))
            .collect();
        resting.sort();
        // Several at once, so that a full house does not look through all of them for every newcomer.
        resting.truncate(self.limits.tasks.div_ceil(16));
        for (_, task) in resting {
            self.tasks.remove(&task);
            self.to_forget.push(task);
        }
    }

    /// Ends a subscription with an error.
    fn dismiss(&mut self, key: Key, fault: &Fault, now: Now) {
        let Some(sub) = self.subs.get(key) else {
            return;
        };
        let (at, form) = (sub.conn, sub.form.clone());
        let streams = matches!(sub.kind, Kind::Stream);
        self.unsubscribe(key);
        if !streams {
            self.refuse(at, &form, fault, now);
        } else if let Some(conn) = self.conns.get_mut(at) {
            let body: Shared = a2a::fault_frame(&form, fault).into();
            send_error(conn, &body, now);
            conn.end_stream(now);
        }
        self.read_on(at, now);
    }

    /// Forgets a task of which nothing was written: its context goes on from the task before it.
    pub(super) fn unmake(&mut self, task: &TaskId) -> Option<Cell> {
        let cell = self.tasks.remove(task)?;
        self.hot_total -= cell.hot_bytes;
        self.known.remove(task);
        let created = &cell.state.created;
        if let Some(tasks) = self.contexts.get_mut(&created.context) {
            tasks.retain(|known| known != task);
            if tasks.is_empty() {
                self.contexts.remove(&created.context);
            }
        }
        Some(cell)
    }

    // Readers.

    /// None: the client left while its task was being loaded.
    pub(super) fn subscribe(&mut self, sub: Sub) -> Option<Key> {
        let conn = self.conns.get_mut(sub.conn)?;
        let stream = matches!(sub.kind, Kind::Stream);
        let (task, view) = (sub.task.clone(), sub.view);
        let key = self.subs.insert(sub);
        conn.sub = Some(key);
        if let Some(cell) = self.tasks.get_mut(&task) {
            cell.subs.push(key);
            if stream {
                cell.watch(view);
            }
        }
        self.to_pump.push(key);
        Some(key)
    }

    pub(super) fn unsubscribe(&mut self, key: Key) -> Option<Sub> {
        let sub = self.subs.remove(key)?;
        if let Some(cell) = self.tasks.get_mut(&sub.task) {
            cell.subs.retain(|known| *known != key);
            if matches!(sub.kind, Kind::Stream) {
                let before = cell.hot_bytes;
                cell.unwatch(sub.view);
                self.hot_total = self.hot_total + cell.hot_bytes - before;
            }
        }
        Some(sub)
    }

    /// Sends a subscription what it may see and its connection can take.
    pub(super) fn pump(&mut self, key: Key, now: Now) {
        let Some(sub) = self.subs.get_mut(key) else {
            return;
        };
        let Some(cell) = self.tasks.get(&sub.task) else {
            return;
        };
        let written = cell.written;
        match &sub.kind {
            Kind::Once { .. } => {}
            Kind::Ready { seq, .. } if *seq > written => {}
            Kind::Ready { .. } => {
                if let Some(Sub {
                    conn,
                    form,
                    kind: Kind::Ready { reply, .. },
                    ..
                }) = self.unsubscribe(key)
                {
                    match reply {
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
                    self.after_io(conn);
                }
            }
        }
    }

    /// True when the stream is over.
    fn pump_stream(&mut self, key: Key, now: Now) -> bool {
        loop {
            let Some(sub) = self.subs.get_mut(key) else {
                return false;
            };
            let Some(cell) = self.tasks.get(&sub.task) else {
                return true;
            };
            let Some(conn) = self.conns.get_mut(sub.conn) else {
                return true;
            };
            if conn.tx.len() >= self.limits.tx_bytes {
                conn.starved = true;
                return false;
            }
            if let Some(first) = &sub.first {
                if cell.written < first.seq {
                    return false;
                }
                let first = sub.first.take().expect("looked at above");
                if let Some(body) = &first.body {
                    send(conn, sub, first.seq, body, now);
                }
                if first.last {
                    return true;
                }
                continue;
            }
            let next = sub.cursor.next();
            if next > cell.written {
                return false;
            }
            if let Found::Hot(body, mark) = cell.find(next, sub.view) {
                sub.cold = None;
                sub.cursor = next;
                let last = sub.until.ends(next, mark);
                if let Some(body) = body {
                    send(conn, sub, next, body.frame(last), now);
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
                    let (task, offset) = (sub.task.clone(), cold.offset);
                    self.out.push(Out::Page {
                        task,
                        sub: key,
                        offset,
                    });
                    return false;
                }
                Some(Err(message)) => {
                    let fault = Fault::new(FaultKind::Storage, message);
                    let body: Shared = a2a::fault_frame(&sub.form, &fault).into();
                    send_error(conn, &body, now);
                    return true;
                }
                Some(Ok(record)) if record.seq <= sub.cursor => continue,
                Some(Ok(record)) => {
                    sub.cursor = record.seq;
                    let last = sub.until.ends(record.seq, Mark::of(&record.event));
                    let state = cold.state.as_ref().expect("folding gives a state");
                    let body = a2a::event(sub.view, state, &record, &self.tools);
                    if let Some(body) = body {
                        send(conn, sub, record.seq, body.frame(last), now);
                    }
                    if last {
                        return true;
                    }
                }
            }
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

    fn trim(&mut self, task: &TaskId) {
        let Some(cell) = self.tasks.get_mut(task) else {
            return;
        };
        let streams = cell.subs.iter().filter_map(|key| self.subs.get(*key));
        let slowest = streams
            .filter(|sub| matches!(sub.kind, Kind::Stream))
            .map(|sub| sub.cursor)
            .min()
            .unwrap_or(cell.written);
        // When all tasks together hold too much, each keeps only a little.
        let crowded = self.hot_total > self.limits.hot_total_bytes;
        let cap = if crowded {
            self.limits.hot_bytes / 16
        } else {
            self.limits.hot_bytes
        };
        let before = cell.hot_bytes;
        cell.trim(slowest, cap);
        self.hot_total = self.hot_total + cell.hot_bytes - before;
    }

    pub(super) fn answer(&mut self, key: Key, response: &Response, now: Now) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.answer(response, now);
            self.after_io(key);
        }
    }
}

fn is_work(effect: &Effect) -> bool {
    match effect {
        Effect::Think { .. }
        | Effect::Attach { .. }
        | Effect::Compact { .. }
        | Effect::Prepare { .. }
        | Effect::Run { .. } => true,
        Effect::Stop { .. } | Effect::Arm { .. } | Effect::Save { .. } => false,
    }
}

fn append_one(cell: &mut Cell, store: &mut dyn Store) -> Result<(), StoreError> {
    if cell.pending.is_empty() {
        return Ok(());
    }
    let created = &cell.state.created;
    if cell.written == Seq(0) {
        store.create(&created.task, &created.context)?;
    }
    let open = if cell.is_open() {
        Openness::Open
    } else {
        Openness::Settled
    };
    store.append(&created.task, &cell.pending, open)?;
    cell.written = cell.state.seq;
    cell.pending = Vec::new();
    Ok(())
}

/// Gives every waiting call that ends with this event its answer: the task as it stands right now.
fn ready_answers(cell: &Cell, subs: &mut crate::base::slots::Slots<Sub>, mark: Mark) {
    let seq = cell.state.seq;
    for key in &cell.subs {
        let Some(sub) = subs.get_mut(*key) else {
            continue;
        };
        if let Kind::Once { history } = sub.kind
            && sub.until.ends(seq, mark)
        {
            let response = a2a::said(&sub.form, &cell.state, Wanted::newest(history));
            sub.kind = Kind::Ready {
                seq,
                reply: Reply::Answer(response),
            };
        }
    }
}

fn send(conn: &mut crate::core::conn::Conn, sub: &Sub, seq: Seq, body: &Shared, now: Now) {
    let mut head = Vec::with_capacity(64 + sub.prefix.len());
    sse::open(&mut head, None, Some(seq));
    head.extend_from_slice(&sub.prefix);
    conn.frame(&head, body, a2a::suffix(&sub.form), now);
}

fn send_error(conn: &mut crate::core::conn::Conn, body: &Shared, now: Now) {
    let mut head = Vec::new();
    sse::open(&mut head, Some("error"), None);
    conn.frame(&head, body, b"", now);
}
