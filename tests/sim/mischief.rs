//! What chance does between two turns: time passes, disks fail, servers die, and clients come, ask, slow down and go.

use super::House;
use crate::client::{Ending, Link, Pace, Sending};
use crate::setting;
use crate::shelf::Sabotage;
use gemini_a2a::core::Input;
use gemini_a2a::core::connections::connection::Peer;
use gemini_a2a::core::disk::store::{Crash, Failure};

impl House {
    pub(super) fn mischief(&mut self) {
        let ms = match self.chance.below(100) {
            0 => self.limits.idle_ms * 3,
            1..4 => self.chance.within(500, 4_000),
            4..30 => self.chance.within(20, 300),
            _ => self.chance.within(0, 20),
        };
        self.now.mono_ms += ms;
        self.now.unix_ms += ms;
        if self.chance.percent(1) {
            // Somebody sets the clock back.
            self.now.unix_ms -= self.chance.within(0, 5_000);
        }
        match self.chance.below(400) {
            0..4 => {
                let failure = [Failure::Refused, Failure::Torn][self.chance.below(2)];
                let times = self.chance.within(1, 6) as u32;
                self.say(|| format!("the next {times} appends fail: {failure:?}"));
                self.shelf.store.fail(failure, times);
                self.troubled = true;
                self.tally.count("failing appends");
                self.cancel_something();
            }
            4 => {
                self.say(|| "the next sync fails".into());
                self.shelf.store.fail_syncs(1);
                self.troubled = true;
                self.tally.count("failing syncs");
            }
            5..8 => self.crash(),
            8 if self.ending.is_none() => {
                self.say(|| "asked to end".into());
                self.core.input(Input::ShutDown, self.now);
                self.ending = Some(self.now.mono_ms);
            }
            _ => {}
        }
    }

    /// Somebody cancels a task that is at work while the disk fails, perhaps more than once.
    fn cancel_something(&mut self) {
        let open: Vec<_> = self.ledger.tasks().iter().filter(|task| self.ledger.is_open(task)).cloned().collect();
        let Some(task) = self.chance.pick(&open).cloned() else {
            return;
        };
        for at in 0..self.clients.len() {
            if let Some(link) = &mut self.clients[at].link
                && link.is_open()
                && link.asks.is_empty()
                && self.chance.percent(60)
            {
                let (ask, bytes) = self.composer.cancel(&mut self.chance, &self.ledger, task.clone());
                let said = format!("client {at} asks: r{} {:?}", ask.number, ask.what);
                link.ask(ask, &bytes);
                self.say(|| said);
            }
        }
    }

    /// The server dies: what it had written is there, everything else is gone.
    pub(super) fn crash(&mut self) {
        self.say(|| "the server is killed and started again".into());
        self.tally.count("crashes");
        for at in 0..self.clients.len() {
            self.part(at, Ending::Lost);
        }
        self.shelf.store.crash(Crash::Killed);
        self.restart();
    }

    pub(super) fn restart(&mut self) {
        self.births += 1 << 20;
        self.core = setting::core(&self.limits, self.now, self.births);
        self.workers.clear();
        self.post.lose(&mut self.chance);
        self.chores.clear();
        self.blocked.clear();
        self.ending = None;
        self.unstopped.clear();
        self.core.input(Input::Listed(self.shelf.known()), self.now);
    }

    pub(super) fn act(&mut self) {
        self.ledger.refresh();
        for at in 0..self.clients.len() {
            match &self.clients[at].link {
                None if self.chance.percent(25) && self.core.has_room() => self.arrive(at),
                None => {}
                Some(_) => self.go_on(at),
            }
        }
    }

    fn arrive(&mut self, at: usize) {
        // Some are let in only when it is known who they are.
        let peer = if at.is_multiple_of(3) { Peer::MaybeTool } else { Peer::SameUser };
        let key = self.core.opened(peer, self.now);
        let mut link = Link::new(key, self.now.mono_ms);
        if let Some((task, after)) = self.clients[at].cut.pop() {
            let (chance, ledger) = (&mut self.chance, &self.ledger);
            let (ask, bytes) = self.composer.watch(chance, ledger, task, Some(after));
            self.tally.count("came back");
            self.say(|| format!("client {at} comes back: {:?}", ask.what));
            link.ask(ask, &bytes);
        }
        self.clients[at].link = Some(link);
        let many = self.chance.weighted(&[(9, 3), (1, 40)]);
        for _ in 0..self.chance.below(many) {
            self.compose(at);
        }
        self.change_pace(at);
    }

    fn compose(&mut self, at: usize) {
        let link = self.clients[at].link.as_mut().expect("it is connected");
        if !link.is_open() {
            return;
        }
        let (ask, bytes) = self.composer.any(&mut self.chance, &self.ledger, &self.limits);
        let said = format!("client {at} asks: r{} {:?}", ask.number, ask.what);
        link.ask(ask, &bytes);
        self.say(|| said);
    }

    fn go_on(&mut self, at: usize) {
        let link = self.clients[at].link.as_mut().expect("it is connected");
        let idle = link.asks.is_empty() && link.unsent().is_empty();
        match self.chance.below(200) {
            0 => {
                self.break_off(at);
            }
            1 if link.side == Sending::Open => {
                link.side = Sending::Ending;
                self.say(|| format!("client {at} will send no more"));
            }
            2..8 => self.change_pace(at),
            8..14 => self.compose(at),
            _ if idle && self.chance.percent(20) => self.compose(at),
            _ => {}
        }
    }

    fn change_pace(&mut self, at: usize) {
        let pace = match self.chance.below(10) {
            0 => Pace::Stopped(self.turn + self.chance.within(5, 120)),
            1..4 => Pace::Slow(self.chance.within(1, 400) as usize),
            _ => Pace::Greedy,
        };
        if let Some(link) = &mut self.clients[at].link {
            link.pace = pace;
            link.lose_frame |= self.shelf.sabotage == Sabotage::LostFrame;
        }
    }
}
