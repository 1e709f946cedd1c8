//! What an instance does without a request: turns, tools, webhooks, the inbox, heartbeats, the scan, and the shutdown.

use crate::node::{Guard, Machine, Node, Shared};
use crate::port::SimPort;
use crate::simulation::{Event, SECOND, Simulation};
use crate::state::Call;
use crate::variant::Variant;
use gemini_a2a::bucket::instance::Instance;
use gemini_a2a::bucket::lifecycle::markers::Marker;
use gemini_a2a::bucket::lifecycle::scan::Scanned;
use gemini_a2a::bucket::log::append::Append;
use gemini_a2a::bucket::names;
use gemini_a2a::bucket::port::Port;
use gemini_a2a::bucket::replica::{InstanceId, Phase};
use std::rc::Rc;

impl Node {
    pub async fn sleep(&self, ms: u64) {
        self.patient.port.sleep(ms).await;
    }

    /// Claims a task and restores it. Returns whether this instance owns it.
    pub async fn claim(self: &Rc<Node>, by: &Instance<SimPort>, view: &mut Guard) -> bool {
        if self.checked(by.claim(view).await) != Some(true) {
            return false;
        }
        self.acknowledged(view, 1);
        self.restore(view).await;
        self.patient.owns(view)
    }

    /// Continues a task that this instance has begun to own: interrupts its turn if a tool was running, and decides the requests in the inbox.
    pub async fn restore(self: &Rc<Node>, view: &mut Guard) {
        let simulation = self.simulation();
        let Some(epoch) = view.epoch else {
            return;
        };
        let state = view.state();
        if let Some(turn) = state.turn {
            let has = |call| !state.calls_that_are(call).is_empty();
            let goes_on = !has(Call::Started) && has(Call::Approved) && simulation.percent(60);
            if state.phase() == Phase::Paused || goes_on {
                simulation.spawn(&self.machine, work(self.clone(), view.shared.clone(), epoch, turn));
            } else {
                simulation.count("interrupted turns", 1);
                let due = if simulation.percent(30) { "due" } else { "-" };
                let line = format!("interrupted {turn} {due}");
                if self.append(&self.patient, view, &[line]).await != Some(Append::Done) {
                    return;
                }
            }
        }
        if self.patient.owns(view) {
            self.hear(view).await;
            simulation.spawn(&self.machine, listen(self.clone(), view.shared.clone(), epoch));
            self.settle(view);
        }
    }

    /// Decides all requests in the inbox.
    pub async fn hear(self: &Rc<Node>, view: &mut Guard) {
        let before = view.tail;
        if let Some(heard) = self.checked(self.patient.handle_requests(view).await).filter(|heard| *heard > 0) {
            self.simulation().count("heard requests", heard);
            self.acknowledged(view, view.tail.0 - before.0);
            self.settle(view);
        }
    }

    /// Delivers what is due to webhooks; if nothing is due, deletes the markers of the task.
    pub fn settle(self: &Rc<Node>, view: &mut Guard) {
        if !self.patient.owns(view) || !matches!(view.state().phase(), Phase::Rest | Phase::Closed) {
            return;
        }
        if let (true, Some(epoch)) = (view.state().is_due, view.epoch) {
            self.simulation().spawn(&self.machine, deliver(self.clone(), view.shared.clone(), epoch));
            return;
        }
        for seq in view.take_obsolete_markers() {
            let (node, task) = (self.clone(), view.task.clone());
            self.simulation().spawn(&self.machine, async move { node.patient.delete_marker(&task, seq).await });
        }
    }

    /// Joins segments, if there are enough.
    pub fn compact(self: &Rc<Node>, view: &mut Guard) {
        let Some(compaction) = self.patient.next_compaction(view) else {
            return;
        };
        let node = self.clone();
        self.simulation().spawn(&self.machine, async move {
            let is_made = node.patient.compact(&compaction).await.is_ok();
            node.simulation().count("joined segments", compaction.segments.len() as u64);
            if is_made && node.simulation().variant == Variant::SegmentsDeleted && node.joined(&compaction.name).await {
                for name in &compaction.segments {
                    let _ = node.patient.port.delete(name, None).await;
                }
            }
        });
    }

    async fn joined(&self, name: &str) -> bool {
        self.patient.port.get(name).await.is_ok_and(|answer| answer.value.is_some())
    }

    async fn scan_marker(self: &Rc<Node>, marker: &Marker) {
        let folder = marker.entry.as_deref().and_then(names::entry_parts).map_or("", |(folder, _)| folder);
        let context = folder.trim_start_matches("contexts/").trim_end_matches('/');
        let shared = self.view(&marker.task, context);
        if shared.is_locked.get() && shared.epoch.get().is_some() {
            return;
        }
        let mut view = shared.lock().await;
        if !view.is_unloaded {
            let silent = |id: &InstanceId| self.liveness.borrow().silent_version(id);
            let scanned = self.patient.scan(&mut view, marker, silent).await;
            if self.checked(scanned) == Some(Scanned::Won) {
                self.restore(&mut view).await;
            }
        }
        if view.is_unloaded {
            self.forget(&shared);
        }
    }
}

/// The turn of a task, at its owner.
pub async fn work(node: Rc<Node>, shared: Rc<Shared>, epoch: u64, turn: u64) {
    let mut steps = node.simulation().within(1, 4);
    loop {
        node.sleep(node.simulation().pick(&[100, 500, 1_500, 4_000])).await;
        let mut view = shared.lock().await;
        if view.epoch != Some(epoch) || view.state().turn != Some(turn) {
            return;
        }
        let [approved, running, asked] =
            [Call::Approved, Call::Started, Call::Asked].map(|call| view.state().calls_that_are(call));
        let now = node.machine.now_ms();
        let ends = |call: &u64| node.machine.tools.borrow().get(&(shared.task.clone(), *call)).copied().unwrap_or(0);
        let ended = running.iter().copied().find(|call| ends(call) <= now);
        if let Some(call) = approved.first() {
            let cut_offs = node.liveness.borrow().cut_offs();
            let line = format!("started {call}");
            let starts = !node.is_cut_off()
                && node.append(&node.patient, &mut view, &[line]).await == Some(Append::Done)
                && node.patient.owns(&view);
            let sent_at = view.sent_at;
            drop(view);
            if starts {
                start(&node, &shared, epoch, *call, sent_at, cut_offs).await;
            }
        } else if let Some(call) = ended {
            node.machine.tools.borrow_mut().remove(&(shared.task.clone(), call));
            node.append(&node.patient, &mut view, &[format!("ended {call}")]).await;
        } else if !(running.is_empty() && asked.is_empty() || steps > 0 && node.simulation().percent(30)) {
            continue;
        } else if steps > 0 {
            steps -= 1;
            let lines = next_lines(node.simulation(), view.state().calls.len());
            node.append(&node.patient, &mut view, &lines).await;
        } else if running.is_empty() && asked.is_empty() {
            end_turn(&node, &mut view, turn).await;
            return;
        }
    }
}

/// What the model does next.
fn next_lines(simulation: &Simulation, calls: usize) -> Vec<String> {
    let (asked, auto) = (|| format!("asked {}", simulation.id()), || format!("auto {}", simulation.id()));
    match simulation.below(10) {
        0..3 => vec![format!("text {}", simulation.id())],
        _ if calls > 3 => vec![format!("text {}", simulation.id())],
        3..6 => vec![asked()],
        6..8 => vec![asked(), auto()],
        _ => vec![auto()],
    }
}

async fn end_turn(node: &Rc<Node>, view: &mut Guard, turn: u64) {
    let due = if node.simulation().percent(30) { "due" } else { "-" };
    if node.append(&node.patient, view, &[format!("turn_ended {turn} {due}")]).await == Some(Append::Done) {
        if node.patient.owns(view) {
            node.hear(view).await;
        }
        node.settle(view);
    }
}

/// Starts a tool whose `started` is acknowledged, unless something has happened meanwhile.
async fn start(node: &Rc<Node>, shared: &Rc<Shared>, epoch: u64, call: u64, sent_at: u64, cut_offs: u64) {
    node.sleep(1).await;
    node.simulation().disturb(&node.machine);
    node.sleep(1).await;
    let mut view = shared.lock().await;
    let confirmed = node.patient.confirm_start(&mut view, epoch, sent_at).await;
    let is_started = view.state().calls.get(&call) == Some(&Call::Started);
    if node.checked(confirmed) != Some(true) || !is_started {
        return;
    }
    if node.is_cut_off() || node.liveness.borrow().cut_offs() != cut_offs {
        return;
    }
    node.simulation().started(call);
    let ends = node.machine.now_ms() + node.simulation().pick(&[500, 3_000, 15_000, 60_000, 120_000]);
    node.machine.tools.borrow_mut().insert((shared.task.clone(), call), ends);
}

async fn deliver(node: Rc<Node>, shared: Rc<Shared>, epoch: u64) {
    node.sleep(node.simulation().within(500, 40_000)).await;
    let mut view = shared.lock().await;
    let is_due = view.state().is_due && matches!(view.state().phase(), Phase::Rest | Phase::Closed);
    if view.epoch == Some(epoch) && is_due {
        let result = node.append(&node.patient, &mut view, &["delivered".to_owned()]).await;
        if result == Some(Append::Done) {
            node.settle(&mut view);
        }
    }
}

/// Reads the inbox of a task at intervals while its owner works on it.
pub async fn listen(node: Rc<Node>, shared: Rc<Shared>, epoch: u64) {
    loop {
        node.sleep(node.simulation().within(900, 2_000)).await;
        let mut view = shared.lock().await;
        if view.epoch != Some(epoch) || !matches!(view.state().phase(), Phase::Working | Phase::Paused) {
            return;
        }
        node.hear(&mut view).await;
    }
}

async fn scan(node: Rc<Node>) {
    loop {
        let scan_ms = node.patient.times.scan_ms;
        node.sleep(node.simulation().within(scan_ms / 2, scan_ms)).await;
        if let Some(markers) = node.checked(node.hasty.markers().await) {
            for marker in markers {
                node.scan_marker(&marker).await;
            }
        }
    }
}

async fn watch_heartbeats(node: Rc<Node>) {
    loop {
        node.sleep(node.patient.times.heartbeats_listed_ms).await;
        if let Ok(entries) = node.patient.list_heartbeats().await {
            node.liveness.borrow_mut().observe(&entries, node.machine.now_ms(), &node.patient.times);
        }
    }
}

async fn beat(node: Rc<Node>) {
    for n in 1.. {
        match node.patient.write_heartbeat(n).await {
            Ok(sent_at) => {
                node.liveness.borrow_mut().heartbeat_written(sent_at, &node.patient.times);
                node.is_ready.set(true);
                node.sleep(node.patient.times.heartbeat_ms).await;
            }
            Err(_) => node.sleep(1_000).await,
        }
    }
}

/// Stops the tools of an instance when it is cut off, so that others may take it for dead.
async fn watch_tools(node: Rc<Node>) {
    loop {
        node.sleep(1_000).await;
        if node.is_cut_off() && !node.machine.tools.borrow().is_empty() {
            node.machine.tools.borrow_mut().clear();
            node.simulation().count("stopped when cut off", 1);
        }
    }
}

/// Runs an instance; `before` is an earlier instance of this host that is known to have ended.
pub async fn live(node: Rc<Node>, before: Option<InstanceId>) {
    let simulation = node.simulation().clone();
    simulation.spawn(&node.machine, beat(node.clone()));
    simulation.spawn(&node.machine, watch_tools(node.clone()));
    while !node.is_ready.get() {
        node.sleep(500).await;
    }
    if let Some(before) = before {
        let _ = node.patient.delete_heartbeat(&before).await;
    }
    simulation.spawn(&node.machine, watch_heartbeats(node.clone()));
    simulation.spawn(&node.machine, scan(node.clone()));
}

/// Shuts an instance down: it releases all its tasks.
pub async fn drain(node: Rc<Node>) {
    node.is_ready.set(false);
    for shared in node.views() {
        let mut view = shared.lock().await;
        if view.is_unloaded || !node.patient.owns(&view) {
            continue;
        }
        let mut last = String::new();
        if let (Phase::Working, Some(turn)) = (view.state().phase(), view.state().turn) {
            last = format!("interrupted {turn} -\n");
        }
        node.machine.stop_tools(&view.task);
        let lines = last.lines().count() as u64 + 1;
        if node.checked(node.patient.release(&mut view, last.into_bytes()).await) == Some(Append::Done) {
            node.acknowledged(&view, lines);
        }
    }
    let name = names::heartbeat(node.machine.id.as_str());
    let _ = node.patient.port.delete(&name, None).await;
    node.simulation().kill(&node.machine);
}

impl Simulation {
    pub fn kill(&self, machine: &Rc<Machine>) {
        if machine.is_dead.replace(true) {
            return;
        }
        machine.tools.borrow_mut().clear();
        self.count("kills", 1);
        let hosts = self.hosts.borrow();
        let node = hosts.iter().find(|node| Rc::ptr_eq(&node.machine, machine)).expect("it is on a host").clone();
        self.schedule(
            self.pick(&[SECOND / 2, 2 * SECOND, 10 * SECOND, 50 * SECOND, 200 * SECOND]),
            Event::Restart(node),
        );
    }

    pub fn restart(self: &Rc<Simulation>, old: &Rc<Node>) {
        let before = &old.machine.id;
        let id = match self.variant.reuses_ids() {
            true => before.clone(),
            false => InstanceId::from(format!("i{}", self.id())),
        };
        let forgotten = (self.percent(70) && id != *before).then(|| before.clone());
        let node = Node::new(self, old.host, id);
        self.hosts.borrow_mut()[old.host] = node.clone();
        self.spawn(&node.machine, live(node.clone(), forgotten));
    }
}
