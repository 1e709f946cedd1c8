//! The end of a run: what was asked for is answered, everybody leaves, and nothing may be left over.

use super::House;
use crate::client::{Link, Pace};
use crate::post::Post;
use gemini_a2a::base::id::TaskId;
use gemini_a2a::core::check::Counts;
use gemini_a2a::core::connections::connection::Peer;
use gemini_a2a::core::disk::store::{Archive, Crash, Failure, read_all};

impl House {
    /// Nobody asks for anything new; what was asked for comes to an end.
    pub(super) fn settle(&mut self) {
        self.say(|| "everything comes to an end".into());
        self.shelf.store.fail(Failure::Refused, 0);
        for client in &mut self.clients {
            if let Some(link) = &mut client.link {
                link.pace = Pace::Greedy;
            }
        }
        for _ in 0..20_000 {
            self.now.mono_ms += 7;
            self.now.unix_ms += 7;
            self.ledger.refresh();
            let open: Vec<TaskId> = self.ledger.tasks().into_iter().filter(|t| self.ledger.is_open(t)).collect();
            self.cancel(&open);
            self.turn();
            let owed: usize = self.links().map(|link| link.owed()).sum();
            let unsent: usize = self.links().map(|link| link.unsent().len()).sum();
            let idle = self.workers.is_empty() && self.post.errands.is_empty();
            let quiet = idle && self.chores.is_empty() && !self.core.has_more() && self.is_settled();
            if open.is_empty() && owed == 0 && unsent == 0 && quiet {
                return;
            }
        }
        let left: Vec<String> =
            self.links().filter_map(|link| link.asks.front()).map(|ask| format!("{ask:?}")).collect();
        panic!("it never comes to rest; unanswered: {left:#?}; {:?}", self.core.check());
    }

    /// Whether no webhook is still to be told something.
    fn is_settled(&self) -> bool {
        let tasks = self.ledger.tasks().into_iter();
        let mut logs = tasks.filter_map(|task| self.ledger.log(&task));
        logs.all(Post::is_settled)
    }

    /// Whoever was to be told something has heard of it, or the log says why not.
    pub(super) fn ask_receivers(&mut self) {
        self.ledger.refresh();
        let well = self.post.audit(&self.ledger, self.limits.hook_retries);
        for _ in 0..well {
            self.tally.count("told a webhook everything");
        }
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        self.clients.iter().filter_map(|client| client.link.as_ref())
    }

    /// The last client cancels what is open, one task after the other.
    fn cancel(&mut self, open: &[TaskId]) {
        let at = self.clients.len() - 1;
        let Some(task) = self.chance.pick(open).cloned() else {
            return;
        };
        match &self.clients[at].link {
            None if self.core.has_room() => {
                let key = self.core.opened(Peer::SameUser, self.now);
                self.clients[at].link = Some(Link::new(key, self.now.mono_ms));
            }
            None => {
                // Every place is taken: somebody goes.
                let other = self.chance.below(at);
                return self.break_off(other);
            }
            Some(link) if !link.is_open() || link.asks.iter().any(|ask| ask.streams()) => {
                // It has something else on its hands.
                return self.break_off(at);
            }
            Some(link) if !link.asks.is_empty() => return,
            Some(_) => {}
        }
        let (ask, bytes) = self.composer.cancel(&mut self.chance, &self.ledger, task);
        self.say(|| format!("client {at} asks: r{} {:?}", ask.number, ask.what));
        self.clients[at].link.as_mut().expect("just seen").ask(ask, &bytes);
    }

    /// Everybody leaves, and nothing may be left of them.
    pub(super) fn leave(&mut self) {
        for at in 0..self.clients.len() {
            self.break_off(at);
        }
        // Past every deadline: a timer is never taken back, but finds nothing.
        self.now.mono_ms += 1_000_000;
        self.now.unix_ms += 1_000_000;
        self.turn();
        let left = self.core.check();
        let nothing = Counts { tasks: left.tasks, ..Counts::default() };
        assert_eq!(left, nothing, "something is left over");
        assert!(!self.core.has_more(), "work is left over");
    }

    /// Whatever was changed in the world, the log says so, even if the power fails.
    pub(super) fn lose_power(&mut self) {
        self.shelf.store.crash(Crash::PowerLost);
        for job in &self.changes {
            let file = self.shelf.store.open(&job.task).expect("its log is there");
            let mut found = false;
            read_all(file.as_ref(), &mut |record| found |= record.seq == job.at).expect("a good log");
            assert!(found, "{job:?} ran and nothing says so");
        }
    }
}
