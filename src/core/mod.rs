//! Where clients, tasks and time meet. The shell hands in what happened, with the time; the core keeps connections, tasks
//! and subscriptions and hands out what is to be done. It does no I/O itself: the journal is behind the [`store::Store`]
//! trait, jobs and closings are values in [`Out`].
//!
//! In a turn of the loop the shell calls, in this order: [`Core::opened`], [`Core::received`], [`Core::note`] and the like
//! for everything that happened, [`Core::tick`], then [`Core::append`] (what was decided goes to disk), then
//! [`Core::release`] (what is on disk is shown and started), then it writes what [`Core::writable`] names.

pub mod check;
pub mod connections;
mod facts;
#[cfg(feature = "webhooks")]
pub mod hooks;
#[cfg(not(feature = "webhooks"))]
#[path = "hooks/none.rs"]
pub mod hooks;
mod readers;
mod requests;
#[cfg(test)]
mod rig;
mod setup;
mod shutdown;
pub mod tasks;
mod timers;

use crate::a2a::{self, Card, Switches, Tools};
use crate::base::clock::Now;
use crate::base::http::Request;
use crate::base::id::{ContextId, Entropy, Seq, TaskId, Tenant};
use crate::base::slots::{Key, Slots};
use crate::core::connections::connection::{Conn, Link, Overdue, Peer, Want};
use crate::core::connections::guard::{Admission, HostPolicy};
use crate::core::connections::identity::Refusals;
use crate::core::connections::output_budget::OutputBudget;
use crate::core::hooks::{Delivery, Registrations};
use crate::core::readers::pages::Pages;
use crate::core::readers::subscription::Subscription;
pub use crate::core::setup::{Approval, Choose, Resolve, Setup, Site};
use crate::core::tasks::disk_health::DiskHealth;
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::tasks::register::Register;
use crate::core::timers::{Timer, Timers};
use crate::limits::Limits;
use crate::model::script::Script;
use crate::task::call::{Call, RequestPolicy};
use crate::task::machine::job::{Job, JobId, Note};
use crate::task::machine::state::{Item, State};
use crate::task::message::Source;
use crate::task::policy::Rule;
use crate::task::slash::Registry;
use crate::task::spec::ToolSpec;
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

/// What is to be done outside. Jobs carry their own id; everything else is answered by name.
#[derive(Debug)]
pub enum Out {
    Start(Job),
    Stop(JobId),
    /// Flush a journal; answered by [`Core::synced`] with the position given here.
    Sync {
        task: TaskId,
        upto: Seq,
    },
    /// Read on in a journal; answered by [`Core::paged`].
    Page {
        task: TaskId,
        sub: Key,
        offset: u64,
    },
    /// Bring a task back into memory; answered by [`Core::loaded`].
    Load {
        task: TaskId,
    },
    /// Find out which process is behind a connection; answered by [`Core::identified`].
    Identify {
        conn: Key,
    },
    /// The task is closed: nothing of it may go on.
    Over {
        task: TaskId,
    },
    /// Tell a webhook something; answered by [`Core::delivered`].
    Deliver(Delivery),
    /// Keep a rule that somebody allowed for good.
    SaveRule {
        rule: Rule,
    },
    /// Something is wrong that only whoever runs the server can put right.
    LogError {
        text: String,
    },
    /// Something that whoever runs the server may want to look into.
    LogWarning {
        text: String,
    },
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The peer gets everything that was sent, and then the end.
    Orderly,
    /// The peer takes nothing. What waits for it in the kernel is thrown away, which would keep it for a minute otherwise.
    Reset,
}

/// A task that was read from its journal.
pub struct Loaded {
    pub state: State,
    pub inherited: Vec<Arc<Item>>,
    /// How long the logs are that this was read from.
    pub bytes: usize,
}

/// A request that waits for its task to be loaded.
struct Parked {
    conn: Key,
    call: Call,
    form: a2a::Form,
    by: Source,
    /// Tasks that a list has to do without: they cannot be read.
    without: Vec<TaskId>,
    /// Those that are on its page, and all have to be in memory at once.
    page: Vec<TaskId>,
}

pub struct Core {
    limits: Limits,
    host_policy: HostPolicy,
    tools: Tools,
    specs: HashMap<String, ToolSpec>,
    commands: Registry,
    choose: Choose,
    script: Option<Arc<Script>>,
    card: Card,
    switches: Switches,
    resolve: Resolve,
    approval: Approval,
    request_policy: RequestPolicy,
    unconfined: Option<String>,
    entropy: Entropy,
    started: Now,

    conns: Slots<Conn>,
    /// How many connections are of other users.
    strangers: usize,
    subs: Slots<Subscription>,
    tasks: HashMap<TaskId, LoadedTask>,
    /// Every task there is, loaded or not.
    known: Register,
    /// The tasks of each context, oldest first. A new one continues the latest.
    contexts: HashMap<(Tenant, ContextId), Vec<TaskId>>,
    /// The live session: the one task that everybody joins who names none. Its id is its context's too.
    session: Option<TaskId>,
    /// Sockets that follow every task.
    followers: Vec<Key>,
    parked: HashMap<TaskId, Vec<Parked>>,
    /// Tasks that were left open and are not brought back yet, for lack of room.
    unrestored: VecDeque<TaskId>,
    /// How often a log was asked for that somebody else had.
    busy: HashMap<TaskId, u32>,
    timers: Timers,
    #[cfg_attr(not(feature = "webhooks"), expect(dead_code, reason = "only webhooks use it"))]
    registrations: Registrations,
    hot_total: usize,
    /// How long the logs of the tasks in memory are.
    log_bytes: usize,
    pages: Pages,
    output_budget: OutputBudget,
    /// When the next look at tasks whose time is over is armed, in monotonic milliseconds.
    expiry_armed: u64,
    disk_health: DiskHealth,
    refusals: Refusals,
    /// Tasks that were loaded only to be closed.
    visitors: Vec<TaskId>,

    out: Vec<Out>,
    /// Connections with something to write, and those that are done.
    to_write: Vec<Key>,
    to_close: Vec<(Key, Close)>,
    /// Tasks that have left memory, tasks with lines to append, and tasks whose log has moved on disk.
    to_forget: Vec<TaskId>,
    to_append: Vec<TaskId>,
    to_release: Vec<TaskId>,
    /// Tasks whose log is to be deleted.
    to_purge: Vec<TaskId>,
    /// Requests for a list of the tasks.
    to_list: Vec<Parked>,
    /// Turns whose client has gone away.
    to_abort: Vec<(TaskId, u32)>,
    /// Subscriptions that can go on: their connection took something, their page came.
    to_pump: Vec<Key>,
    /// Set when the server is to end: nothing new begins.
    ending: bool,
    ended: bool,
}

impl Core {
    pub fn new(setup: Setup) -> Core {
        let specs =
            setup.tools.iter().flat_map(|spec| spec.names().map(|name| (name.to_owned(), spec.clone()))).collect();
        Core {
            tools: Tools::new(&setup.tools),
            specs,
            known: Register::new(setup.limits.times),
            commands: setup.commands,
            limits: setup.limits,
            host_policy: setup.host_policy,
            choose: setup.choose,
            script: setup.script,
            card: setup.card,
            switches: setup.switches,
            resolve: setup.resolve,
            approval: setup.approval,
            request_policy: setup.request_policy,
            unconfined: setup.unconfined,
            entropy: setup.entropy,
            started: setup.now,
            conns: Slots::default(),
            strangers: 0,
            subs: Slots::default(),
            tasks: HashMap::new(),
            contexts: HashMap::new(),
            session: None,
            followers: Vec::new(),
            parked: HashMap::new(),
            unrestored: VecDeque::new(),
            busy: HashMap::new(),
            timers: Timers::default(),
            registrations: Registrations::default(),
            hot_total: 0,
            log_bytes: 0,
            pages: Pages::default(),
            output_budget: OutputBudget::default(),
            expiry_armed: u64::MAX,
            disk_health: DiskHealth::default(),
            refusals: Refusals::default(),
            visitors: Vec::new(),
            out: Vec::new(),
            to_write: Vec::new(),
            to_close: Vec::new(),
            to_forget: Vec::new(),
            to_append: Vec::new(),
            to_release: Vec::new(),
            to_purge: Vec::new(),
            to_list: Vec::new(),
            to_abort: Vec::new(),
            to_pump: Vec::new(),
            ending: false,
            ended: false,
        }
    }

    // Connections.

    pub fn opened(&mut self, peer: Peer, now: Now) -> Key {
        self.strangers += usize::from(peer == Peer::Stranger);
        let key = self.conns.insert(Conn::new(peer, now));
        self.arm_conn(key);
        key
    }

    /// The same for a connection to this kind of listener.
    pub fn opened_over(&mut self, link: Link, peer: Peer, now: Now) -> Key {
        let key = self.opened(peer, now);
        if let Some(conn) = self.conns.get_mut(key) {
            conn.link = link;
        }
        key
    }

    /// How many bytes may be read from a connection now; 0 when it waits for something else.
    pub fn room(&self, key: Key) -> usize {
        self.conns.get(key).map_or(0, |conn| conn.room(&self.limits))
    }

    pub fn received(&mut self, key: Key, bytes: &[u8], now: Now) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.take(bytes, now);
            self.read_on(key, now);
            self.turn_back(key, now);
        }
    }

    /// The peer will send no more.
    pub fn finished(&mut self, key: Key, now: Now) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.end();
            let subs = conn.subs.clone();
            self.abort_own(&subs);
            self.read_on(key, now);
        }
    }

    /// The connection broke: nothing can be sent any more.
    pub fn broke(&mut self, key: Key) {
        self.drop_conn(key);
    }

    pub fn slices(&self, key: Key) -> Vec<IoSlice<'_>> {
        self.conns.get(key).map(|conn| conn.output.slices()).unwrap_or_default()
    }

    /// The socket took `n` bytes of what [`Core::slices`] showed.
    pub fn sent(&mut self, key: Key, n: usize, now: Now) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        conn.sent(n, now);
        if conn.starved && conn.output.len() < self.limits.tx_bytes / 2 {
            conn.starved = false;
            self.to_pump.extend_from_slice(&conn.subs);
        }
        self.read_on(key, now);
    }

    /// Connections with something to write, each named once.
    pub fn writable(&mut self) -> Vec<Key> {
        let keys = std::mem::take(&mut self.to_write);
        for key in &keys {
            if let Some(conn) = self.conns.get_mut(*key) {
                conn.listed = false;
            }
        }
        keys
    }

    /// Connections to close, and how; the core has forgotten them.
    pub fn closing(&mut self) -> Vec<(Key, Close)> {
        std::mem::take(&mut self.to_close)
    }

    fn read_on(&mut self, key: Key, now: Now) {
        while let Some(conn) = self.conns.get_mut(key) {
            match conn.read(&self.limits, now) {
                Want::Nothing => break,
                Want::Serve(request) => self.serve(key, *request, now),
                Want::Hear(text) => self.hear(key, &text, now),
            }
        }
        self.after_io(key);
    }

    /// Looks at a connection after anything happened to it.
    fn after_io(&mut self, key: Key) {
        self.count_waiting(key);
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        if conn.is_done() {
            return self.drop_conn(key);
        }
        if !conn.output.is_empty() && !conn.listed {
            conn.listed = true;
            self.to_write.push(key);
        }
        self.arm_conn(key);
    }

    /// Arms a timer only when the armed one would come too late.
    fn arm_conn(&mut self, key: Key) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        let deadline = conn.deadline(&self.limits);
        if deadline < conn.armed {
            conn.armed = deadline;
            self.timers.arm(deadline, Timer::Conn(key));
        }
    }

    fn drop_conn(&mut self, key: Key) {
        self.end_conn(key, Close::Orderly);
    }

    /// Cuts off a connection whose peer does not take what is sent.
    fn cut_conn(&mut self, key: Key) {
        self.end_conn(key, Close::Reset);
    }

    fn end_conn(&mut self, key: Key, how: Close) {
        let Some(conn) = self.conns.remove(key) else {
            return;
        };
        self.output_budget.bytes -= conn.counted;
        self.strangers -= usize::from(conn.peer == Peer::Stranger);
        self.to_close.push((key, how));
        self.followers.retain(|follower| *follower != key);
        self.abort_own(&conn.subs);
        for sub in conn.subs {
            self.unsubscribe(sub);
        }
    }

    /// The client of these is gone, and so may be the turns that it alone wanted.
    fn abort_own(&mut self, subs: &[Key]) {
        for sub in subs {
            if let Some(sub) = self.subs.get_mut(*sub)
                && let Some(turn) = sub.owns.take()
            {
                self.to_abort.push((sub.task.clone(), turn));
            }
        }
    }

    fn serve(&mut self, key: Key, request: Request, now: Now) {
        let Some((link, peer)) = self.conns.get(key).map(|conn| (conn.link, conn.peer)) else {
            return;
        };
        if let Err(fault) = self.host_policy.check(&request, link) {
            let form = a2a::Form::at(&request.path);
            return self.answer(key, &a2a::fault(&form, &fault), now);
        }
        match connections::guard::admit(&request, peer) {
            Admission::Serve => {}
            Admission::Identify => return self.identify(key, request),
            Admission::Refuse => return self.turn_stranger_away(key, &request, now),
        }
        if let Some(page) = self.host_policy.page(&request) {
            let preflight = page.preflight(&request);
            if let Some(conn) = self.conns.get_mut(key) {
                conn.page = Some(page);
            }
            if let Some(leave) = preflight {
                return self.answer(key, &leave, now);
            }
        }
        match a2a::decode(&request, &self.switches) {
            Ok((Call::Card, _)) => {
                let mut response = self.card.answer(&request);
                response.headers.extend(self.host_policy.caution(&request));
                self.answer(key, &response, now);
            }
            Ok((call, form)) => {
                if let Call::Join(_) = call
                    && let Err(response) = self.shake_hands(key, &request)
                {
                    return self.answer(key, &response, now);
                }
                let by = source(&request, &form);
                self.dispatch(key, call, form, by, now);
            }
            Err((fault, form)) => self.refuse(key, &form, &fault, now),
        }
    }

    // Workers.

    pub fn note(&mut self, note: Note, now: Now) {
        let Some(loaded) = self.tasks.get_mut(&note.job.task) else {
            return;
        };
        if note.body.is_last() {
            loaded.running.retain(|job| *job != note.job.at);
        }
        let input = crate::task::machine::decide::Input::Note { job: note.job.at, body: note.body };
        // A worker's note is never refused: what nobody waits for is dropped by `decide`.
        let _ = self.drive(&note.job.task, input, now);
    }

    // Time.

    /// When the loop has to come back if nothing happens, in monotonic milliseconds.
    pub fn deadline(&self) -> Option<u64> {
        self.timers.next()
    }

    /// Whether there is work left that waits for no event.
    pub fn has_more(&self) -> bool {
        !self.to_pump.is_empty()
            || !self.to_append.is_empty()
            || !self.to_forget.is_empty()
            || !self.to_list.is_empty()
            || !self.to_abort.is_empty()
            || !self.to_write.is_empty()
            || !self.out.is_empty()
            || self.can_end()
    }

    pub fn tick(&mut self, now: Now) {
        for (task, turn) in std::mem::take(&mut self.to_abort) {
            // Never refused: a turn that is over already is left alone.
            let _ = self.drive(&task, crate::task::machine::decide::Input::Abort { turn }, now);
        }
        while let Some(timer) = self.timers.pop(now.mono_ms) {
            match timer {
                Timer::Conn(key) => self.check_conn(key, now),
                Timer::Task { task, job } => {
                    let _ = self.drive(&task, crate::task::machine::decide::Input::Due { job }, now);
                }
                Timer::Limit(task) => self.check_limit(&task, now),
                Timer::Expiry => self.expire(now),
                Timer::Store(task) => self.append_is_due(&task),
                Timer::Trial => self.try_store(),
                Timer::Load(task) => self.out.push(Out::Load { task }),
                Timer::Waiting(sub) => self.stop_waiting(sub),
                Timer::Hook { task, .. } => self.to_release.push(task),
                Timer::OutputBudget => self.thin_out(now),
                Timer::Shutdown => self.give_up(now),
            }
        }
        if self.can_end() {
            self.give_up(now);
        }
    }

    fn check_conn(&mut self, key: Key, now: Now) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        if conn.armed > now.mono_ms {
            return;
        }
        conn.armed = u64::MAX;
        if conn.deadline(&self.limits) <= now.mono_ms {
            match conn.overdue(&self.limits, now) {
                Overdue::Nothing | Overdue::Write => {}
                Overdue::HangUp => self.hang_up(key, now),
                Overdue::Drop => return self.drop_conn(key),
                Overdue::Cut => return self.cut_conn(key),
            }
        }
        self.after_io(key);
    }

    /// What is to be done outside, in order.
    pub fn outs(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }
}

/// Who a request is from, as others are told.
fn source(request: &Request, form: &a2a::Form) -> Source {
    let agent = request.headers.get("user-agent").and_then(|agent| agent.split_whitespace().next());
    let named = request.query("client").or(agent).unwrap_or("a client");
    Source { client: named.chars().take(80).collect(), via: form.dialect.via.to_owned() }
}
