//! A simulated instance: its machine, its views of tasks, and its side of the protocol.

use crate::port::SimPort;
use crate::simulation::{Event, FutureId, MS, Simulation};
use crate::state::{Call, State};
use crate::variant::Variant;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::bucket::instance::Instance;
use gemini_a2a::bucket::log::append::Append;
use gemini_a2a::bucket::log::view::View;
use gemini_a2a::bucket::names;
use gemini_a2a::bucket::ownership::heartbeat::Liveness;
use gemini_a2a::bucket::port::Halt;
use gemini_a2a::bucket::replica::{Applied, InstanceId, Replica, RequestHandler, Status, StoreEvent};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::task::Poll;

/// The part of an instance that is lost when its process dies.
pub struct Machine {
    pub simulation: Rc<Simulation>,
    pub id: InstanceId,
    pub is_dead: Cell<bool>,
    pub paused_until: Cell<u64>,
    /// The end of the last pause.
    pub last_paused: Cell<Option<u64>>,
    /// The time until which it cannot reach the bucket.
    pub cut_until: Cell<u64>,
    /// The rate of its clock, in parts of 10,000.
    rate: u64,
    /// The tools that run, and when they end by this machine's clock.
    pub tools: RefCell<BTreeMap<(TaskId, u64), u64>>,
}

impl Machine {
    pub fn now_ms(&self) -> u64 {
        self.simulation.now.get() * self.rate / 10_000 / MS
    }

    /// How long `ms` by this machine's clock take.
    pub fn duration(&self, ms: u64) -> u64 {
        ms * MS * 10_000 / self.rate
    }

    pub fn stop_tools(&self, task: &TaskId) {
        self.tools.borrow_mut().retain(|(of, _), _| of != task);
    }
}

pub struct Node {
    pub machine: Rc<Machine>,
    pub host: usize,
    /// Tries every request until it is answered.
    pub patient: Instance<SimPort>,
    /// Gives up after a while, as it does for a client that does not wait for ever.
    pub hasty: Instance<SimPort>,
    pub liveness: RefCell<Liveness>,
    pub is_ready: Cell<bool>,
    views: RefCell<BTreeMap<TaskId, Rc<Shared>>>,
}

impl Node {
    pub fn new(simulation: &Rc<Simulation>, host: usize, id: InstanceId) -> Rc<Node> {
        let machine = Rc::new(Machine {
            simulation: simulation.clone(),
            id: id.clone(),
            is_dead: Cell::new(false),
            paused_until: Cell::new(0),
            last_paused: Cell::new(None),
            cut_until: Cell::new(0),
            rate: simulation.within(9_850, 10_150),
            tools: RefCell::default(),
        });
        let instance = |is_patient| {
            let port = SimPort { machine: machine.clone(), is_patient };
            let rules = simulation.variant.rules();
            Instance { rules, ..Instance::new(port, id.clone(), simulation.variant.times()) }
        };
        let (patient, hasty) = (instance(true), instance(false));
        let views = RefCell::default();
        let is_ready = Cell::new(false);
        Rc::new(Node { machine, host, patient, hasty, liveness: RefCell::default(), is_ready, views })
    }

    pub fn simulation(&self) -> &Rc<Simulation> {
        &self.machine.simulation
    }

    pub fn is_cut_off(&self) -> bool {
        self.liveness.borrow().is_cut_off(self.machine.now_ms(), &self.patient.times)
    }

    /// The view of a task, or a new one.
    pub fn view(&self, task: &TaskId, context: &str) -> Rc<Shared> {
        let mut views = self.views.borrow_mut();
        views.entry(task.clone()).or_insert_with(|| Shared::new(&self.machine, task, context)).clone()
    }

    pub fn views(&self) -> Vec<Rc<Shared>> {
        self.views.borrow().values().cloned().collect()
    }

    /// Forgets a view that is unloaded, so that the next one is new.
    pub fn forget(&self, shared: &Rc<Shared>) {
        let mut views = self.views.borrow_mut();
        if views.get(&shared.task).is_some_and(|known| Rc::ptr_eq(known, shared)) {
            views.remove(&shared.task);
        }
    }

    /// The result of an operation; None if it was interrupted. Damage violates an invariant.
    pub fn checked<T>(&self, result: Result<T, Halt>) -> Option<T> {
        if let Err(Halt::Damaged(why)) = &result {
            self.simulation().fail(format!("damaged: {why}"));
        }
        result.ok()
    }

    /// Appends lines, and notes that they were acknowledged.
    pub async fn append(&self, by: &Instance<SimPort>, view: &mut Guard, lines: &[String]) -> Option<Append> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let result = by.append(view, text.into_bytes()).await;
        if result == Ok(Append::Done) {
            self.acknowledged(view, lines.len() as u64);
        }
        self.checked(result)
    }

    pub fn acknowledged(&self, view: &Guard, records: u64) {
        self.simulation().count("acknowledged records", records);
        self.simulation().known(&view.task, view.tail.0);
    }
}

/// A view with a lock, and the futures that wait for it.
pub struct Shared {
    pub task: TaskId,
    machine: Rc<Machine>,
    view: RefCell<Option<Box<View<Copy>>>>,
    pub is_locked: Cell<bool>,
    /// The epoch of the view, also while it is locked.
    pub epoch: Cell<Option<u64>>,
    waiting: RefCell<VecDeque<FutureId>>,
}

impl Shared {
    fn new(machine: &Rc<Machine>, task: &TaskId, context: &str) -> Rc<Shared> {
        let replica = Copy { machine: machine.clone(), task: task.clone(), state: State::default() };
        let entry = names::entry(&folder(context), task);
        Rc::new(Shared {
            task: task.clone(),
            machine: machine.clone(),
            view: RefCell::new(Some(Box::new(View::new(task.clone(), Some(entry), replica)))),
            is_locked: Cell::new(false),
            epoch: Cell::new(None),
            waiting: RefCell::default(),
        })
    }

    pub fn lock(self: &Rc<Shared>) -> impl Future<Output = Guard> + use<> {
        let shared = self.clone();
        let mut waits = false;
        poll_fn(move |_| {
            if !waits && shared.is_locked.replace(true) {
                shared.waiting.borrow_mut().push_back(shared.machine.simulation.current.get());
                waits = true;
                return Poll::Pending;
            }
            let view = shared.view.borrow_mut().take();
            Poll::Ready(Guard { view, shared: shared.clone() })
        })
    }
}

/// The folder of a context.
pub fn folder(context: &str) -> String {
    format!("contexts/{context}/")
}

/// Exclusive use of a view.
pub struct Guard {
    view: Option<Box<View<Copy>>>,
    pub shared: Rc<Shared>,
}

impl Guard {
    pub fn state(&self) -> &State {
        &self.replica.state
    }
}

impl Deref for Guard {
    type Target = View<Copy>;

    fn deref(&self) -> &View<Copy> {
        self.view.as_ref().expect("the view is here until the guard is dropped")
    }
}

impl DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut View<Copy> {
        self.view.as_mut().expect("the view is here until the guard is dropped")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.epoch.set(self.epoch);
        *self.shared.view.borrow_mut() = self.view.take();
        match self.shared.waiting.borrow_mut().pop_front() {
            Some(next) => self.shared.machine.simulation.schedule(0, Event::Poll(next)),
            None => self.shared.is_locked.set(false),
        }
    }
}

/// The state of a task in one process.
pub struct Copy {
    machine: Rc<Machine>,
    task: TaskId,
    pub state: State,
}

impl Replica for Copy {
    fn entry(&self, first_segment: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(first_segment).ok()?;
        let context = text.strip_prefix("created ")?.split(' ').next()?;
        Some(names::entry(&folder(context), &self.task))
    }

    fn apply(&mut self, first: Seq, lines: &[u8]) -> Result<Applied, Halt> {
        let lines = std::str::from_utf8(lines).expect("lines are text");
        self.machine.simulation.shown(&self.task, first.0, lines);
        let applied = self.state.apply(lines).map_err(Halt::Damaged)?;
        if self.state.turn.is_none() {
            self.machine.stop_tools(&self.task);
        }
        Ok(applied)
    }

    fn status(&self) -> Status {
        self.state.status()
    }

    fn line(&self, _: Seq, event: &StoreEvent) -> Vec<u8> {
        let line = match event {
            StoreEvent::Owned { instance, epoch } => format!("owned {instance} {epoch}\n"),
            StoreEvent::Released => "released\n".to_owned(),
            StoreEvent::Deleted => format!("deleted {}\n", self.machine.simulation.id()),
        };
        line.into_bytes()
    }

    fn fenced(&mut self) {
        self.machine.stop_tools(&self.task);
    }
}

impl RequestHandler for Copy {
    fn handle_request(&mut self, _: Seq, n: u64, request: &[u8]) -> Vec<u8> {
        let simulation = &self.machine.simulation;
        let text = std::str::from_utf8(request).expect("requests are text");
        let words: Vec<&str> = text.split(' ').collect();
        let target: u64 = words[1].parse().expect("a number");
        let mut request = words[2].to_owned();
        let is_known = self.state.requests.contains_key(&request.parse().expect("a number"));
        if is_known && simulation.variant == Variant::InboxNotCompared {
            // Without the rule a request may be there twice: the owner says so, and the reporter takes this for the answer.
            request = (request.parse::<u64>().expect("a number") + SECOND_TIME).to_string();
            return format!("heard {n} {request} void\n").into_bytes();
        }
        let lines = match words[0] {
            "answer" if self.state.calls.get(&target) == Some(&Call::Asked) => {
                format!("heard {n} {request} effect\nanswered {target} {} {request}\n", words[3])
            }
            "cancel" if self.state.turn == Some(target) => {
                if simulation.variant != Variant::StoppedLate {
                    self.machine.stop_tools(&self.task);
                }
                format!("heard {n} {request} effect\ncanceled {target} {request}\n")
            }
            _ => format!("heard {n} {request} void\n"),
        };
        lines.into_bytes()
    }
}

/// Added to the number of a request that is heard a second time.
pub const SECOND_TIME: u64 = 1 << 40;
