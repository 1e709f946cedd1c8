//! Invariants after every turn that can be checked from outside. The core checks its own in `core/check.rs`.

use super::{CLIENTS, Simulation, find_last, front};
use crate::client::Ending;
use crate::core_harness::Outside;
use crate::core_harness::failing_store::Crash;
use gemini_a2a::core::check::Counts;
use gemini_a2a::core::disk::store::Archive;
use gemini_a2a::task::machine::job::JobId;
use std::collections::BTreeSet;

impl Simulation {
    /// Pending output is within its limits and is not forgotten.
    pub(super) fn check_outputs(&mut self, census: &Counts) {
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
            // One response or frame may exceed the limit, but none begins beyond it.
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

    /// The jobs of a finished task are stopped in the next turn at the latest, also while the disk fails.
    pub(super) fn check_stopped_jobs(&mut self) {
        let running = self.workers.iter().filter(|worker| !worker.stopped).map(|worker| &worker.job);
        let over: BTreeSet<JobId> = running.filter(|job| self.core.is_task_over(&job.task)).cloned().collect();
        if let Some(JobId { task, at }) = over.intersection(&self.unstopped).next() {
            panic!("{task} is over and its job {at} was not stopped");
        }
        self.unstopped = over;
    }

    /// If the core reports no pending work, a turn without input does nothing.
    pub(super) fn check_idle(&mut self) {
        if self.core.has_more() {
            return;
        }
        let mut outside = Outside::default();
        self.core.turn(&mut self.disk, &mut outside, self.now);
        assert_eq!((outside.blocked, outside.closed), (vec![], vec![]), "the loop would have slept");
        assert!(outside.outs.is_empty(), "the loop would have slept on {:?}", outside.outs);
    }

    /// A task in an existing context continues that context.
    pub(super) fn check_contexts(&mut self) {
        for known in self.disk.store.known() {
            if self.disk.store.shown_bytes(&known.task) == 0 {
                continue;
            }
            if self.context_checked.insert(known.task.clone()) && !self.contexts.insert(known.brief.context) {
                let created = &self.journals.read(&known.task).last().created;
                let continues = created.parent.is_some() || self.loads_failed;
                assert!(continues, "{} begins its context anew", known.task);
                self.tally.count("context continued");
            }
        }
    }

    pub(super) fn restart_if_over(&mut self) {
        let Some(since) = self.ending else { return };
        if !self.core.is_over() {
            let late = self.now.mono_ms > since + self.limits.shutdown_ms;
            assert!(!late, "the server does not shut down in time");
            return;
        }
        self.trace_step(|| "shut down and restarted".into());
        self.tally.count("clean shutdowns");
        for at in 0..self.clients.len() {
            self.disconnect(at, Ending::Lost);
        }
        self.disk.store.crash(Crash::Killed);
        self.restart();
    }
}
