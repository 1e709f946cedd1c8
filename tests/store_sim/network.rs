//! The network between instances and bucket: requests are lost, delayed by up to 290 s or carried out twice, answers are lost or late; before each
//! request and after each answer an instance may be paused or killed.

use crate::node::Machine;
use crate::simulation::{Back, Event, FutureId, MS, SECOND, Simulation};
use crate::variant::Variant;
use gemini_a2a::base::id::TaskId;
use gemini_a2a::bucket::memory::{Request, Response};
use gemini_a2a::bucket::{ATTEMPT_MS, BucketError, BucketErrorKind, Dated, Deletion, Put, names};
use std::rc::Rc;

/// The longest time that a request may take: less than the grace period minus the time for which a tail counts as known.
const LATEST: u64 = 290 * SECOND;

impl Simulation {
    /// Sends a request of the current future.
    pub fn send(&self, request: Request) {
        let id = self.current.get();
        self.disturb(&self.machine(id));
        self.schedule(MS, Event::Issue(id, request));
    }

    /// Pauses or kills an instance now and then.
    pub fn disturb(&self, machine: &Rc<Machine>) {
        if self.is_calm.get() {
            return;
        }
        let x = self.below(1_000_000);
        if x < 12 * self.trouble {
            self.pause(machine);
        } else if x < 16 * self.trouble {
            self.kill(machine);
        }
    }

    pub fn pause(&self, machine: &Machine) {
        let seconds = self.pick(&[1, 3, 8, 20, 45, 60, 100, 400, 700, 1000, 1500]);
        let until = self.now.get() + seconds * SECOND * self.within(70, 130) / 100;
        let until = machine.paused_until.get().max(until);
        machine.paused_until.set(until);
        machine.last_paused.set(Some(until));
        self.count("pauses", 1);
    }

    pub fn issue(&self, id: FutureId, request: Request) {
        let machine = self.machine(id);
        if machine.is_dead.get() {
            return;
        }
        if machine.paused_until.get() > self.now.get() {
            self.schedule(self.after_pause(&machine), Event::Issue(id, request));
            return;
        }
        let serial = self.id();
        self.expect(id, serial);
        self.schedule(ATTEMPT_MS * MS, Event::Answer(id, serial, None));
        let (there, delay) = (self.within(10 * MS, 60 * MS), self.within(10 * MS, 60 * MS));
        if machine.cut_until.get() > self.now.get() {
            if !self.percent(70) {
                self.schedule(there, Event::Effect(request, None));
            }
            return;
        }
        let trouble = if self.is_calm.get() { 0 } else { self.trouble };
        let back = Some(Back { future: id, serial, delay });
        let x = self.below(100_000);
        if x < 6 * trouble {
            // The request is lost.
        } else if x < 14 * trouble {
            self.schedule(there, Event::Effect(request, None));
        } else if x < 20 * trouble {
            let late = self.pick(&[(SECOND, 12 * SECOND), (5 * SECOND, LATEST)]);
            self.schedule(self.within(late.0, late.1), Event::Effect(request, back));
        } else if x < 26 * trouble {
            let again = self.pick(&[5 * SECOND, LATEST]);
            self.schedule(there + self.within(0, again), Event::Effect(request.clone(), None));
            self.schedule(there, Event::Effect(request, back));
        } else if x < 30 * trouble {
            // The store says that it failed, whether it did or not.
            if self.percent(50) {
                self.schedule(there, Event::Effect(request, None));
            }
            self.schedule(there + delay, Event::Answer(id, serial, None));
        } else {
            let delay = if x < 34 * trouble { self.within(SECOND, 30 * SECOND) } else { delay };
            self.schedule(there, Event::Effect(request, Some(Back { future: id, serial, delay })));
        }
    }

    /// Gives an answer to the future that awaits it, if it still does.
    pub fn answer(&self, id: FutureId, serial: u64, answer: Option<Dated<Response>>) {
        let lost = || BucketError { kind: BucketErrorKind::Unknown, message: "no answer".to_owned() };
        if self.keep_answer(id, serial, answer.ok_or_else(lost)) {
            self.disturb(&self.machine(id));
            self.poll(id);
        }
    }

    /// The bucket carries a request out.
    pub fn effect(&self, request: Request, back: Option<Back>) {
        self.count("requests", 1);
        let unix_ms = self.now.get() / MS;
        self.bucket.set_time(unix_ms);
        let existed = match &request {
            Request::Delete { name, .. } => self.exists(name),
            _ => true,
        };
        let response = self.bucket.execute(&request);
        match (&request, &response) {
            (Request::Put { name, bytes, .. }, Response::Put(Put::Written(_))) => {
                if let Some((task, first)) = segment_of(name) {
                    self.landed(&task, first, bytes);
                }
            }
            (Request::Delete { name, .. }, Response::Delete(Deletion::Deleted)) if existed => self.deleted(name),
            _ => {}
        }
        if let Some(Back { future, serial, delay }) = back {
            let answer = Some(Box::new(Dated { value: response, unix_ms }));
            self.schedule(delay, Event::Answer(future, serial, answer));
        }
    }

    fn exists(&self, name: &str) -> bool {
        matches!(self.bucket.execute(&Request::Get { name: name.to_owned() }), Response::Get(Some(_)))
    }

    /// An object was deleted: a task whose entry or whose log is incomplete must not be needed any more.
    fn deleted(&self, name: &str) {
        if let Some((task, _)) = segment_of(name) {
            let is_joined = self.variant == Variant::SegmentsDeleted && !self.truth.borrow().is_deleted(&task);
            if !is_joined {
                self.freed(&task);
            }
        } else if let Some((folder, task)) = names::entry_parts(name)
            && folder.starts_with("contexts/")
        {
            self.freed(&task);
        }
    }
}

/// The task and the first event of a segment's name.
pub fn segment_of(name: &str) -> Option<(TaskId, u64)> {
    let (task, rest) = name.strip_prefix("tasks/")?.split_once('/')?;
    let task = TaskId::from(task);
    rest.starts_with("log/").then_some(())?;
    Some((task.clone(), names::segment_first(&task, name)?.0))
}
