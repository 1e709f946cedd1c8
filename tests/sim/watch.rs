//! What must hold after every turn, as the outside sees it. What only the core can see, it checks itself (`core/check.rs`).

use super::{CLIENTS, House, find_last, front};
use crate::client::Ending;
use crate::core_harness::Outside;
use gemini_a2a::core::check::Counts;
use gemini_a2a::core::disk::store::{Archive, Crash};
use gemini_a2a::task::machine::job::JobId;
use std::collections::BTreeSet;

impl House {
    /// What must hold after every turn and only the outside can see.
    pub(super) fn look(&mut self, census: &Counts) {
        for client in &mut self.clients {
            let Some(link) = &mut client.link else {
                continue;
            };
            let waiting = front(&self.core.slices(link.key), usize::MAX);
            if waiting.is_empty() {
                link.took_at = self.now.mono_ms;
                continue;
            }
            let known = self.blocked.contains(&link.key) || self.core.has_more();
            assert!(known, "output was forgotten");
            // One answer or frame may go over the limit, but none begins behind it.
            let most = self.limits.tx_bytes + 32;
            let over = waiting.get(most..).unwrap_or_default();
            let begun = find_last(over, b"HTTP/1.1 ").or(find_last(over, b"id: "));
            assert_eq!(begun, None, "an answer begins behind a full buffer");
        }
        assert!(census.tasks <= self.limits.tasks + CLIENTS, "{census:?}");
        let unwritten = 64 * 1024;
        let little = census.tasks * self.limits.hot_bytes / 16;
        assert!(
            census.hot_bytes <= self.limits.hot_total_bytes + self.limits.hot_bytes + little + unwritten,
            "{census:?}"
        );
    }

    /// When a task is over, its jobs are stopped at the latest in the next turn, also while the disk fails.
    pub(super) fn look_at_workers(&mut self) {
        let running = self.workers.iter().filter(|worker| !worker.stopped).map(|worker| &worker.job);
        let over: BTreeSet<JobId> = running.filter(|job| self.core.is_task_over(&job.task)).cloned().collect();
        if let Some(JobId { task, at }) = over.intersection(&self.unstopped).next() {
            panic!("{task} is over and its job {at} was not stopped");
        }
        self.unstopped = over;
    }

    /// When the core says that there is nothing left to do, a turn without news does nothing.
    pub(super) fn rest(&mut self) {
        if self.core.has_more() {
            return;
        }
        let mut outside = Outside::default();
        self.core.turn(&mut self.shelf, &mut outside, self.now);
        assert_eq!((outside.blocked, outside.closed), (vec![], vec![]), "the loop would have slept");
        assert!(outside.outs.is_empty(), "the loop would have slept on {:?}", outside.outs);
    }

    /// A task in a context that was there before continues it.
    pub(super) fn place(&mut self) {
        for known in self.shelf.store.known() {
            if self.placed.insert(known.task.clone()) && !self.contexts.insert(known.brief.context) {
                let created = &self.ledger.read(&known.task).last().created;
                let continues = created.parent.is_some() || self.loads_failed;
                assert!(continues, "{} begins its context anew", known.task);
                self.tally.count("continued a context");
            }
        }
    }

    pub(super) fn end_if_over(&mut self) {
        let Some(since) = self.ending else { return };
        if !self.core.is_over() {
            let late = self.now.mono_ms > since + self.limits.shutdown_ms;
            assert!(!late, "it does not end");
            return;
        }
        self.say(|| "ended and started again".into());
        self.tally.count("clean ends");
        for at in 0..self.clients.len() {
            self.part(at, Ending::Lost);
        }
        self.shelf.store.crash(Crash::Killed);
        self.restart();
    }
}
