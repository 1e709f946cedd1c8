//! The end of a run: every request is answered, all clients disconnect, and nothing is left over.

use super::Simulation;
use crate::client::{Link, Pace};
use crate::core_harness::failing_store::{Crash, Failure};
use crate::webhooks::Webhooks;
use gemini_a2a::base::id::TaskId;
use gemini_a2a::core::check::Counts;
use gemini_a2a::core::connections::connection::Peer;
use gemini_a2a::core::disk::store::{Archive, read_all};

impl Simulation {
    /// Cancels all open tasks and runs until every request is answered.
    pub(super) fn settle(&mut self) {
        self.trace_step(|| "the run ends".into());
        self.disk.store.fail(Failure::Refused, 0);
        self.disk.store.fail_audit(0);
        for client in &mut self.clients {
            if let Some(link) = &mut client.link {
                link.pace = Pace::Greedy;
            }
        }
        for _ in 0..20_000 {
            self.now.mono_ms += 7;
            self.now.unix_ms += 7;
            self.journals.refresh();
            let open: Vec<TaskId> = self.journals.tasks().into_iter().filter(|t| self.journals.is_open(t)).collect();
            self.cancel(&open);
            self.turn();
            let owed: usize = self.links().map(|link| link.unanswered()).sum();
            let unsent: usize = self.links().map(|link| link.unsent().len()).sum();
            let idle = self.workers.is_empty() && self.webhooks.pending.is_empty();
            let quiet = idle && self.lane_jobs.is_empty() && !self.core.has_more() && self.is_settled();
            if open.is_empty() && owed == 0 && unsent == 0 && quiet {
                return;
            }
        }
        let left: Vec<String> =
            self.links().filter_map(|link| link.requests.front()).map(|request| format!("{request:?}")).collect();
        panic!("the run never settles; unanswered: {left:#?}; {:?}", self.core.check());
    }

    /// Whether no delivery is due.
    fn is_settled(&self) -> bool {
        let tasks = self.journals.tasks().into_iter();
        let mut logs = tasks.filter_map(|task| self.journals.log(&task));
        logs.all(Webhooks::is_settled)
    }

    /// Every receiver has received what it should, or the log says why not.
    pub(super) fn check_webhooks(&mut self) {
        self.journals.refresh();
        let well = self.webhooks.check(&self.journals, self.limits.webhook_retries);
        for _ in 0..well {
            self.tally.count("webhook received everything");
        }
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        self.clients.iter().filter_map(|client| client.link.as_ref())
    }

    /// The last client cancels the open tasks, one after the other.
    fn cancel(&mut self, open: &[TaskId]) {
        let at = self.clients.len() - 1;
        let Some(task) = self.chance.pick(open).cloned() else {
            return;
        };
        match &self.clients[at].link {
            None if self.core.has_room(self.now) => {
                let key = self.core.opened(Peer::SameUser, self.now);
                self.clients[at].link = Some(Link::new(key, self.now.mono_ms));
            }
            None => {
                // The connection limit is reached: another client disconnects.
                let other = self.chance.below(at);
                return self.drop_client(other);
            }
            Some(link) if !link.is_open() || link.requests.iter().any(|request| request.streams()) => {
                // The client is busy with another request.
                return self.drop_client(at);
            }
            Some(link) if !link.requests.is_empty() => return,
            Some(_) => {}
        }
        let (request, bytes) = self.composer.cancel(&mut self.chance, &self.journals, task);
        self.trace_step(|| format!("client {at} asks: r{} {:?}", request.number, request.what));
        self.clients[at].link.as_mut().expect("just seen").send(request, &bytes);
    }

    /// All clients disconnect, and nothing of them may be left.
    pub(super) fn disconnect_all(&mut self) {
        for at in 0..self.clients.len() {
            self.drop_client(at);
        }
        // Past every deadline: timers are not removed, but find nothing to do.
        self.now.mono_ms += 1_000_000;
        self.now.unix_ms += 1_000_000;
        self.turn();
        let left = self.core.check();
        let nothing = Counts { tasks: left.tasks, ..Counts::default() };
        assert_eq!(left, nothing, "something is left over");
        assert!(!self.core.has_more(), "work is left over");
    }

    /// The log and the audit contain the start of every call with effects, even after a power loss.
    pub(super) fn check_after_power_loss(&mut self) {
        self.disk.store.crash(Crash::PowerLost);
        let audited = self.audited_starts();
        for job in &self.changes {
            let file = self.disk.store.open(&job.task).expect("its log is there");
            let mut found = false;
            read_all(file.as_ref(), &mut |record| found |= record.seq == job.at).expect("a good log");
            assert!(found, "{job:?} ran and the log does not say so");
            let is_audited = audited.as_ref().is_none_or(|starts| starts.contains(&(job.task.clone(), job.at)));
            assert!(is_audited, "{job:?} ran and the audit does not say so");
        }
    }
}
