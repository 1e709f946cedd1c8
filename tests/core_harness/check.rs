//! The invariants of the core, which hold between two turns of the loop. A module of the core in builds with debug assertions, so that it
//! can read the core's fields; tests call [`Core::check`] after every turn. Release builds do not contain it.
//!
//! There are two kinds: the parts agree with each other (a subscription is known to its task and its connection, sums are right), and
//! nothing that could continue was forgotten (it is in a list, or waits for a timer or for an answer from the shell).

use crate::a2a::View;
use crate::base::id::TaskId;
use crate::base::slots::Key;
use crate::core::Core;
use crate::core::access::counts::CountsByCredential;
use crate::core::connections::connection::Peer;
use crate::core::readers::subscription::{Kind, Subscription};
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::timers::Timer;
use crate::task::machine::decide::Gate;

/// How many of each thing the core has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub conns: usize,
    pub subs: usize,
    pub tasks: usize,
    /// Requests that wait for a task to be loaded, and loads without a request.
    pub parked: usize,
    /// Jobs that wait for the disk, and jobs that are under way.
    pub gated: usize,
    pub running: usize,
    pub timers: usize,
    pub hot_bytes: usize,
    /// The longest output queue of a connection.
    pub tx_bytes: usize,
}

impl Core {
    /// Whether a task is over, recorded or not: then all its jobs must have been stopped.
    pub fn is_task_over(&self, task: &TaskId) -> bool {
        self.tasks.get(task).is_some_and(|loaded| loaded.state.is_over())
    }

    /// Panics when an invariant is violated. To be called at the end of a turn.
    pub fn check(&self) -> Counts {
        assert!(self.disk.to_release.is_empty(), "a task waits to be released or removed");
        assert!(
            self.tasks.known.next().is_none() || self.timers.has_expiry(),
            "no timer is armed for tasks whose time is over"
        );
        let health = &self.disk.health;
        assert!(
            !health.is_store_broken() || health.has_probe(),
            "the problem with the disk would be reported for ever"
        );
        self.check_conns();
        self.check_tasks();
        for (key, sub) in self.readers.iter() {
            let subs = self.tasks.get(&sub.task).map(|loaded| &loaded.subs);
            let waiting = || self.disk.loading.get(&sub.task).map(|loading| &loading.streams);
            let subs = subs.or_else(waiting).expect("a watched task is loaded or is being loaded");
            let known = subs.iter().filter(|known| **known == key).count();
            assert_eq!(known, 1, "a task knows each of its readers once");
            let conn = self.connections.get(sub.conn).expect("a reader has a connection");
            let known = conn.subs.iter().filter(|known| **known == key).count();
            assert_eq!(known, 1, "a connection knows each of its readers once");
            assert!(
                self.readers.to_pump.contains(&key) || !self.can_go_on(sub),
                "a reader of {} at {} was forgotten",
                sub.task,
                sub.cursor
            );
        }
        Counts {
            conns: self.connections.iter().count(),
            subs: self.readers.len(),
            tasks: self.tasks.len(),
            parked: self.disk.loading.len(),
            gated: self.tasks.values().map(|loaded| loaded.gated.len()).sum(),
            running: self.tasks.values().map(|loaded| loaded.running.len()).sum(),
            timers: self.timers.len(),
            hot_bytes: self.tasks.hot_bytes,
            tx_bytes: self.connections.iter().map(|(_, c)| c.output.len()).max().unwrap_or(0),
        }
    }

    fn check_conns(&self) {
        let (counted, _, counted_streams) = self.connections.inspect();
        let strangers = self.connections.iter().filter(|(_, conn)| conn.peer == Peer::Stranger).count();
        assert_eq!(strangers, counted, "the number of strangers");
        let streams = CountsByCredential::of(self.connections.iter().filter_map(|(_, conn)| conn.stream_credential()));
        assert_eq!(streams, *counted_streams, "the streams of each credential");
        for (key, conn) in self.connections.iter() {
            assert_eq!(conn.listed, self.connections.to_write.contains(&key), "a listed connection is in the list");
            assert!(!conn.is_done(), "a connection that has ended was kept");
            assert!(conn.armed <= conn.deadline(&self.settings.limits), "no timer would look at a connection in time");
            let readers = conn.subs.iter().map(|sub| self.readers.get(*sub).expect("a connection's readers are there"));
            let encoded_bytes: usize = readers.map(|sub| sub.encoded_bytes).sum();
            assert_eq!(encoded_bytes, conn.encoded_bytes, "the sum of what is encoded for readers");
        }
    }

    fn waits_for_audit(&self, task: &TaskId) -> bool {
        self.audit.as_ref().is_some_and(|audit| audit.is_flushed_for(task))
    }

    fn check_tasks(&self) {
        for (task, loaded) in self.tasks.iter() {
            assert!(!self.disk.loading.contains_key(task), "{task} is loaded twice");
            assert!(self.tasks.known.get(task).is_some(), "{task} is not known");
            assert_eq!(loaded.listed, self.disk.to_append.contains(task), "a listed task is in the list");
            assert!(loaded.synced <= loaded.written && loaded.written <= loaded.state.seq);
            assert_eq!(loaded.pending.is_empty(), loaded.written == loaded.state.seq);
            let retries = || self.timers.has(&Timer::Store(task.clone()));
            assert!(!loaded.is_held_back() || loaded.syncing || retries(), "events of {task} are never shown");
            assert!(
                loaded.pending.is_empty() || loaded.listed || self.timers.has(&Timer::Store(task.clone())),
                "lines of {task} were forgotten"
            );
            let shown = loaded.shown();
            assert!(loaded.hook_notices.iter().all(|(seq, _)| *seq > shown), "a notice of {task} was forgotten");
            for (gate, seq, _) in &loaded.gated {
                let waits = match gate {
                    Gate::Written => loaded.shown() < *seq,
                    Gate::Synced => loaded.shown() < *seq || loaded.syncing || self.waits_for_audit(task),
                };
                assert!(waits, "a job of {task} was forgotten");
            }
            let held = loaded.subs.iter().filter_map(|key| self.readers.get(*key));
            for sub in held.filter(|sub| sub.required_sync > loaded.synced) {
                assert!(
                    loaded.syncing || loaded.shown() < sub.required_sync,
                    "an acknowledgement of {task} was forgotten"
                );
            }
            for key in &loaded.subs {
                assert!(self.readers.get(*key).is_some(), "{task} has a reader that is gone");
            }
            let streams = loaded.subs.iter().filter_map(|key| self.readers.get(*key));
            let streams = streams.filter(|sub| matches!(sub.kind, Kind::Stream));
            self.check_events(loaded, streams.map(|sub| sub.view).collect());
            self.check_hooks(task, loaded);
            for sub in loaded.subs.iter().filter_map(|key| self.readers.get(*key)) {
                let keeps = sub.cold.as_ref().is_some_and(|cold| !cold.awaits_page);
                assert!(
                    !keeps || sub.cursor < loaded.shown(),
                    "{task} has a reader that keeps a state it has no use for"
                );
            }
        }
        let hot: usize = self.tasks.values().map(|loaded| loaded.hot_bytes).sum();
        assert_eq!(hot, self.tasks.hot_bytes, "the sum of what is hot");
        let logs: usize = self.tasks.values().map(|loaded| loaded.log_bytes).sum();
        assert_eq!(logs, self.tasks.log_bytes, "the sum of the logs");
        let memory: usize = self.tasks.values().map(LoadedTask::memory).sum();
        assert_eq!(memory, self.tasks.memory, "the sum of the memory of tasks");
        let turns = CountsByCredential::of(self.tasks.values().filter_map(LoadedTask::running_credential));
        assert_eq!(turns, self.tasks.turns, "the turns of each credential");
        let waits: usize = self.connections.iter().map(|(_, conn)| conn.memory(&self.settings.limits)).sum();
        assert_eq!(waits, self.connections.inspect().1, "the sum of the memory of connections");
        self.check_pages();
    }

    /// The encoded events in memory are those that the streams of a task may need. `views` are the views of these streams.
    fn check_events(&self, loaded: &LoadedTask, mut views: Vec<View>) {
        let events = loaded.kept();
        let mut watched: Vec<View> = loaded.watched().iter().flat_map(|(view, n)| vec![*view; *n]).collect();
        views.sort_by_key(|view| format!("{view:?}"));
        watched.sort_by_key(|view| format!("{view:?}"));
        assert_eq!(views, watched, "a view is watched by its readers");
        let bytes: usize = events.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(bytes, loaded.hot_bytes, "the sum of the bodies");
        let written: usize = events.iter().filter(|(seq, _)| *seq <= loaded.shown()).map(|(_, bytes)| bytes).sum();
        assert!(written <= self.settings.limits.hot_bytes, "more is kept in memory than allowed");
        for (one, next) in events.iter().zip(events.iter().skip(1)) {
            assert_eq!(one.0.next(), next.0, "bodies are kept without gaps");
        }
        let newest = events.last().map_or(loaded.state.seq, |(seq, _)| *seq);
        assert_eq!(newest, loaded.state.seq, "bodies are kept up to the last event");
    }

    /// Every delivery that is due is under way, waits for a timer or for the disk.
    #[cfg(feature = "webhooks")]
    fn check_hooks(&self, task: &TaskId, loaded: &LoadedTask) {
        for hook in &loaded.state.hooks {
            let id = &hook.target.id;
            let delivery = loaded.deliveries.iter().map(|delivery| delivery.inspect()).find(|(known, _)| *known == id);
            let timer = || Timer::Webhook { task: task.clone(), id: id.clone() };
            // When the decided events are on disk, all deliveries of the task are checked again.
            let unwritten = !loaded.is_shown() || loaded.listed || loaded.broken.is_some();
            let waits = unwritten || !loaded.owned || self.is_over();
            let scheduled = match delivery {
                Some((_, None)) => true,
                Some((_, Some(u64::MAX))) => !self.is_running(),
                Some((_, Some(_))) => waits || self.timers.has(&timer()),
                None => waits || hook.due.is_empty(),
            };
            assert!(scheduled, "what is due to {id} of {task} was forgotten");
        }
    }

    #[cfg(not(feature = "webhooks"))]
    fn check_hooks(&self, _: &TaskId, _: &LoadedTask) {}

    /// A reader that is behind is in the queue for a page or has one, and no other reader is.
    fn check_pages(&self) {
        let (held, line) = (self.readers.pages.held(), self.readers.pages.queue());
        assert!(held.len() <= self.settings.limits.pages, "too many pages are held");
        let mut turns: Vec<Key> = line.chain(held.iter().copied()).collect();
        turns.sort_unstable();
        assert!(turns.is_sorted_by(|a, b| a < b), "a reader has two turns");
        for (key, sub) in self.readers.iter() {
            let reads = sub.cold.as_ref().is_some_and(|cold| cold.awaits_page || cold.has_page());
            let turn = turns.binary_search(&key).is_ok();
            assert_eq!(reads, turn, "a reader of {} and its turn", sub.task);
        }
        for key in turns {
            assert!(self.readers.get(key).is_some(), "the turn of a reader that is gone");
        }
    }

    /// Whether a reader could be sent something right now.
    fn can_go_on(&self, sub: &Subscription) -> bool {
        // A reader whose task is being loaded waits for that.
        let Some(loaded) = self.tasks.get(&sub.task) else {
            return false;
        };
        let conn = self.connections.get(sub.conn);
        let greeting_pending = conn.and_then(|conn| conn.socket()).is_some_and(|socket| socket.greeting_pending);
        if sub.required_sync > loaded.synced || sub.is_encoding() || greeting_pending {
            return false;
        }
        // While more than half of the buffer is full, the socket will accept output, and that wakes the reader.
        let has_room = conn.is_some_and(|conn| conn.output.len() < self.settings.limits.tx_bytes / 2);
        match &sub.kind {
            Kind::Once { .. } => false,
            Kind::Ready { seq, .. } => *seq <= loaded.shown() && !self.overtakes(sub, *seq),
            Kind::Stream => match &sub.first {
                Some(first) => has_room && first.seq <= loaded.shown(),
                None => {
                    let asked = sub.cold.as_ref().is_some_and(|cold| cold.awaits_page);
                    has_room && sub.cursor < loaded.shown() && !asked
                }
            },
        }
    }
}
