//! The scheduler: simulated time, the futures of all instances, and the logs as the bucket has them.
//!
//! A future awaits one thing at a time (an answer, the end of a wait, a lock), and is polled only when that is ready. Everything that happens
//! is an [`Event`] with a time; events of the same time happen in the order in which they were scheduled. A run is determined by its seed.

use crate::checks::Truth;
use crate::node::{Machine, Node};
use crate::random::Random;
use crate::variant::Variant;
use gemini_a2a::bucket::memory::{MemoryBucket, Request, Response};
use gemini_a2a::bucket::{Answer, Dated};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

/// Microseconds per millisecond: the simulation counts in microseconds, the protocol in milliseconds.
pub const MS: u64 = 1_000;
pub const SECOND: u64 = 1_000_000;

/// The number of a future. Not reused.
pub type FutureId = usize;

pub enum Event {
    /// Polls a future.
    Poll(FutureId),
    /// A request leaves its instance.
    Issue(FutureId, Request),
    /// A request reaches the bucket; the answer, if there is one, takes the time.
    Effect(Request, Option<Back>),
    /// An answer to the request with this number, or the end of the wait for one.
    Answer(FutureId, u64, Option<Box<Dated<Response>>>),
    /// A host starts again after its instance has died.
    Restart(Rc<Node>),
    /// Clients do something.
    Drive,
}

/// The future that awaits an answer.
pub struct Back {
    pub future: FutureId,
    pub serial: u64,
    pub delay: u64,
}

struct Running {
    machine: Rc<Machine>,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// The request whose answer is awaited, and the answer.
    pub serial: u64,
    pub answer: Option<Answer<Response>>,
}

pub struct Simulation {
    pub variant: Variant,
    pub bucket: MemoryBucket,
    pub truth: RefCell<Truth>,
    pub hosts: RefCell<Vec<Rc<Node>>>,
    pub is_calm: Cell<bool>,
    /// How often faults are injected, in percent of the usual rate.
    pub trouble: u64,
    pub now: Cell<u64>,
    pub current: Cell<FutureId>,
    chance: RefCell<Random>,
    heap: RefCell<BinaryHeap<Reverse<(u64, u64)>>>,
    events: RefCell<BTreeMap<u64, Event>>,
    scheduled: Cell<u64>,
    running: RefCell<Vec<Running>>,
    ids: Cell<u64>,
    stats: RefCell<BTreeMap<&'static str, u64>>,
    broken: RefCell<Option<String>>,
}

impl Simulation {
    pub fn new(seed: u64, variant: Variant) -> Rc<Simulation> {
        let mut chance = Random::new(seed);
        let trouble = *chance.pick(&[0, 50, 100, 100, 200, 400]).expect("a choice");
        Rc::new(Simulation {
            variant,
            bucket: MemoryBucket::new(),
            truth: RefCell::default(),
            hosts: RefCell::default(),
            is_calm: Cell::new(false),
            trouble,
            now: Cell::new(0),
            current: Cell::new(0),
            chance: RefCell::new(chance),
            heap: RefCell::default(),
            events: RefCell::default(),
            scheduled: Cell::new(0),
            running: RefCell::default(),
            ids: Cell::new(0),
            stats: RefCell::default(),
            broken: RefCell::default(),
        })
    }

    // Random.

    pub fn below(&self, limit: u64) -> u64 {
        self.chance.borrow_mut().within(0, limit.max(1) - 1)
    }

    /// Both included.
    pub fn within(&self, low: u64, high: u64) -> u64 {
        self.chance.borrow_mut().within(low, high)
    }

    pub fn percent(&self, n: u64) -> bool {
        self.chance.borrow_mut().percent(n)
    }

    pub fn pick<T: Copy>(&self, from: &[T]) -> T {
        *self.chance.borrow_mut().pick(from).expect("a choice")
    }

    /// A new number.
    pub fn id(&self) -> u64 {
        self.ids.set(self.ids.get() + 1);
        self.ids.get()
    }

    // Results.

    pub fn count(&self, what: &'static str, n: u64) {
        *self.stats.borrow_mut().entry(what).or_default() += n;
    }

    pub fn stats(&self) -> BTreeMap<&'static str, u64> {
        self.stats.borrow().clone()
    }

    /// An invariant is violated. The run ends.
    pub fn fail(&self, why: impl Into<String>) {
        self.broken.borrow_mut().get_or_insert_with(|| why.into());
    }

    pub fn broken(&self) -> Option<String> {
        self.broken.borrow().clone()
    }

    // Scheduling.

    pub fn schedule(&self, delay: u64, event: Event) {
        let n = self.scheduled.get() + 1;
        self.scheduled.set(n);
        self.heap.borrow_mut().push(Reverse((self.now.get() + delay, n)));
        self.events.borrow_mut().insert(n, event);
    }

    pub fn spawn(&self, machine: &Rc<Machine>, future: impl Future<Output = ()> + 'static) {
        let mut running = self.running.borrow_mut();
        let future = Some(Box::pin(future) as Pin<Box<dyn Future<Output = ()>>>);
        running.push(Running { machine: machine.clone(), future, serial: 0, answer: None });
        let id = running.len() - 1;
        drop(running);
        self.schedule(0, Event::Poll(id));
    }

    pub fn run(self: &Rc<Simulation>, until: u64) {
        while self.broken.borrow().is_none() {
            let due = self.heap.borrow().peek().map(|Reverse(due)| *due);
            let Some((at, n)) = due.filter(|(at, _)| *at <= until) else {
                break;
            };
            self.heap.borrow_mut().pop();
            let event = self.events.borrow_mut().remove(&n).expect("it was scheduled");
            self.now.set(at);
            match event {
                Event::Poll(id) => self.poll(id),
                Event::Issue(id, request) => self.issue(id, request),
                Event::Effect(request, back) => self.effect(request, back),
                Event::Answer(id, serial, answer) => self.answer(id, serial, answer.map(|answer| *answer)),
                Event::Restart(old) => self.restart(&old),
                Event::Drive => self.drive(),
            }
        }
        self.now.set(until);
    }

    pub fn machine(&self, id: FutureId) -> Rc<Machine> {
        self.running.borrow()[id].machine.clone()
    }

    /// Polls a future, or, if its instance is paused, does so when the pause is over.
    pub fn poll(&self, id: FutureId) {
        let machine = self.machine(id);
        let future = self.running.borrow_mut()[id].future.take();
        let Some(mut future) = future.filter(|_| !machine.is_dead.get()) else {
            return;
        };
        if machine.paused_until.get() > self.now.get() {
            self.running.borrow_mut()[id].future = Some(future);
            self.schedule(self.after_pause(&machine), Event::Poll(id));
            return;
        }
        self.current.set(id);
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.running.borrow_mut()[id].future = Some(future);
        }
    }

    /// The time until a paused instance continues. Its futures continue in any order.
    pub fn after_pause(&self, machine: &Machine) -> u64 {
        machine.paused_until.get() - self.now.get() + self.below(10 * MS)
    }

    /// The number of a request of the current future, whose answer is awaited from now on.
    pub fn expect(&self, id: FutureId, serial: u64) {
        let running = &mut self.running.borrow_mut()[id];
        (running.serial, running.answer) = (serial, None);
    }

    /// Keeps an answer until the future is polled. False if it is not awaited any more.
    pub fn keep_answer(&self, id: FutureId, serial: u64, answer: Answer<Response>) -> bool {
        let running = &mut self.running.borrow_mut()[id];
        if running.serial != serial || running.future.is_none() {
            return false;
        }
        (running.serial, running.answer) = (0, Some(answer));
        true
    }

    pub fn take_answer(&self, id: FutureId) -> Option<Answer<Response>> {
        self.running.borrow_mut()[id].answer.take()
    }

    /// Drops everything that refers to this simulation, so that it can be freed.
    pub fn end(&self) {
        self.events.borrow_mut().clear();
        let running = std::mem::take(&mut *self.running.borrow_mut());
        for future in &running {
            future.machine.is_dead.set(true);
        }
        // A future that is dropped unlocks its task, which may schedule another.
        drop(running);
        self.events.borrow_mut().clear();
        self.hosts.borrow_mut().clear();
    }
}
