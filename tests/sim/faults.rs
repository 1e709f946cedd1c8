//! Random actions between two turns: time passes, the disk fails, the server crashes, and clients connect, send requests, change
//! their pace and disconnect.

use super::{Simulation, audit};
use crate::client::{Ending, Link, Pace, Sending};
use crate::core_harness::failing_store::{Crash, Failure};
use crate::faulty_store::InjectedBug;
use crate::setup;
use gemini_a2a::core::Input;
use gemini_a2a::core::connections::connection::Peer;

impl Simulation {
    pub(super) fn inject_faults(&mut self) {
        let ms = match self.chance.below(100) {
            0 => self.limits.idle_ms * 3,
            1..4 => self.chance.within(500, 4_000),
            4..30 => self.chance.within(20, 300),
            _ => self.chance.within(0, 20),
        };
        self.now.mono_ms += ms;
        self.now.unix_ms += ms;
        if self.chance.percent(1) {
            // The wall clock is set back.
            self.now.unix_ms -= self.chance.within(0, 5_000);
        }
        match self.chance.below(400) {
            0..4 => {
                let failure = [Failure::Refused, Failure::Torn][self.chance.below(2)];
                let times = self.chance.within(1, 6) as u32;
                self.trace_step(|| format!("the next {times} appends fail: {failure:?}"));
                self.disk.store.fail(failure, times);
                self.disk_failed = true;
                self.tally.count("failing appends");
                self.cancel_something();
            }
            4 => {
                self.trace_step(|| "the next sync fails".into());
                self.disk.store.fail_syncs(1);
                self.disk_failed = true;
                self.tally.count("failing syncs");
            }
            5..8 => self.crash(),
            9..13 if self.is_audited => {
                let times = self.chance.within(1, 6) as u32;
                self.trace_step(|| format!("the next {times} writes of the audit fail"));
                self.disk.store.fail_audit(times);
                self.disk_failed = true;
                self.tally.count("failing audits");
            }
            8 if self.ending.is_none() => {
                self.trace_step(|| "shutdown requested".into());
                self.core.input(Input::ShutDown, self.now);
                self.ending = Some(self.now.mono_ms);
            }
            _ => {}
        }
    }

    /// Clients cancel an open task while the disk fails, perhaps more than once.
    fn cancel_something(&mut self) {
        let open: Vec<_> = self.journals.tasks().iter().filter(|task| self.journals.is_open(task)).cloned().collect();
        let Some(task) = self.chance.pick(&open).cloned() else {
            return;
        };
        for at in 0..self.clients.len() {
            if let Some(link) = &mut self.clients[at].link
                && link.is_open()
                && link.requests.is_empty()
                && self.chance.percent(60)
            {
                let (request, bytes) = self.composer.cancel(&mut self.chance, &self.journals, task.clone());
                let said = format!("client {at} asks: r{} {:?}", request.number, request.what);
                link.send(request, &bytes);
                self.trace_step(|| said);
            }
        }
    }

    /// The server crashes: only what it has written remains.
    pub(super) fn crash(&mut self) {
        self.trace_step(|| "the server is killed and started again".into());
        self.tally.count("crashes");
        for at in 0..self.clients.len() {
            self.disconnect(at, Ending::Lost);
        }
        self.disk.store.crash(Crash::Killed);
        self.restart();
    }

    pub(super) fn restart(&mut self) {
        self.id_base += 1 << 20;
        self.check_audit();
        let audit = self.is_audited.then(|| audit::setup(&self.disk.store));
        self.core = setup::core(&self.limits, self.now, self.id_base, audit, self.is_shared);
        self.workers.clear();
        self.webhooks.crash(&mut self.chance);
        self.lane_jobs.clear();
        self.blocked.clear();
        self.ending = None;
        self.unstopped.clear();
        self.core.input(Input::Listed(self.disk.known()), self.now);
    }

    pub(super) fn act(&mut self) {
        self.journals.refresh();
        for at in 0..self.clients.len() {
            match &self.clients[at].link {
                None if self.chance.percent(25) && self.core.has_room(self.now) => self.connect(at),
                None => {}
                Some(_) => self.continue_client(at),
            }
        }
    }

    fn connect(&mut self, at: usize) {
        // Some clients are served only after the server has identified them.
        let peer = if at.is_multiple_of(3) { Peer::MaybeTool } else { Peer::SameUser };
        let key = self.core.opened(peer, self.now);
        let mut link = Link::new(key, self.now.mono_ms);
        if let Some((task, after)) = self.clients[at].cut.pop() {
            let (chance, journals) = (&mut self.chance, &self.journals);
            let (request, bytes) = self.composer.watch(chance, journals, task, Some(after));
            self.tally.count("stream resumed");
            self.trace_step(|| format!("client {at} comes back: {:?}", request.what));
            link.send(request, &bytes);
        }
        self.clients[at].link = Some(link);
        let many = self.chance.weighted(&[(9, 3), (1, 40)]);
        for _ in 0..self.chance.below(many) {
            self.send_random_request(at);
        }
        self.change_pace(at);
    }

    fn send_random_request(&mut self, at: usize) {
        let link = self.clients[at].link.as_mut().expect("the client is connected");
        if !link.is_open() {
            return;
        }
        let (request, bytes) = self.composer.random(&mut self.chance, &self.journals, &self.limits);
        let said = format!("client {at} asks: r{} {:?}", request.number, request.what);
        link.send(request, &bytes);
        self.trace_step(|| said);
    }

    fn continue_client(&mut self, at: usize) {
        let link = self.clients[at].link.as_mut().expect("the client is connected");
        let idle = link.requests.is_empty() && link.unsent().is_empty();
        match self.chance.below(200) {
            0 => {
                self.drop_client(at);
            }
            1 if link.side == Sending::Open => {
                link.side = Sending::Ending;
                self.trace_step(|| format!("client {at} will send no more"));
            }
            2..8 => self.change_pace(at),
            8..14 => self.send_random_request(at),
            _ if idle && self.chance.percent(20) => self.send_random_request(at),
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
            link.lose_frame |= self.disk.bug == InjectedBug::LostFrame;
        }
    }
}
