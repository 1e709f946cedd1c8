//! Where clients, tasks and time meet. The shell hands in what happened, with the time; the core keeps connections, tasks
//! and subscriptions and hands out what is to be done. It does no I/O itself: the journal is behind the [`store::Store`]
//! trait, jobs and closings are values in [`Out`].
//!
//! In a turn of the loop the shell calls, in this order: [`Core::opened`], [`Core::received`], [`Core::note`] and the like
//! for everything that happened, [`Core::tick`], then [`Core::append`] (what was decided goes to disk), then
//! [`Core::release`] (what is on disk is shown and started), then it writes what [`Core::writable`] names.

pub mod check;
pub mod connections;
pub mod disk;
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
mod settings;
mod shutdown;
pub mod tasks;
mod timers;

use crate::base::clock::Now;
use crate::base::id::{Entropy, Seq, TaskId};
use crate::base::slots::Key;
use crate::core::connections::connection::{Link, Overdue, Peer, Want};
use crate::core::connections::{Changed, Connections};
use crate::core::disk::Disk;
use crate::core::hooks::{Delivery, Registrations};
use crate::core::readers::Readers;
use crate::core::settings::Settings;
pub use crate::core::settings::{Approval, Choose, Resolve, Setup, Site};
use crate::core::shutdown::Phase;
use crate::core::tasks::Tasks;
use crate::core::timers::{Timer, Timers};
use crate::task::machine::decide::Input;
use crate::task::machine::job::{Job, JobId, Note};
use crate::task::machine::state::{Item, State};
use crate::task::policy::Rule;
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

/// Joins the parts, none of which knows another.
pub struct Core {
    settings: Settings,
    entropy: Entropy,
    connections: Connections,
    tasks: Tasks,
    readers: Readers,
    disk: Disk,
    timers: Timers,
    #[cfg_attr(not(feature = "webhooks"), expect(dead_code, reason = "only webhooks use it"))]
    registrations: Registrations,
    phase: Phase,
    out: Vec<Out>,
}

impl Core {
    pub fn new(setup: Setup) -> Core {
        let (settings, entropy) = Settings::new(setup);
        Core {
            tasks: Tasks::new(settings.limits.times),
            settings,
            entropy,
            connections: Connections::default(),
            readers: Readers::default(),
            disk: Disk::default(),
            timers: Timers::default(),
            registrations: Registrations::default(),
            phase: Phase::Running,
            out: Vec::new(),
        }
    }

    // Connections.

    pub fn opened(&mut self, peer: Peer, now: Now) -> Key {
        self.opened_over(Link::Tcp, peer, now)
    }

    /// The same for a connection to this kind of listener.
    pub fn opened_over(&mut self, link: Link, peer: Peer, now: Now) -> Key {
        let key = self.connections.open(link, peer, now);
        self.after_io(key);
        key
    }

    /// How many bytes may be read from a connection now; 0 when it waits for something else.
    pub fn room(&self, key: Key) -> usize {
        self.connections.get(key).map_or(0, |conn| conn.room(&self.settings.limits))
    }

    pub fn received(&mut self, key: Key, bytes: &[u8], now: Now) {
        if let Some(conn) = self.connections.get_mut(key) {
            conn.take(bytes, now);
            self.read_on(key, now);
            self.refuse_long_input(key, now);
        }
    }

    /// The peer will send no more.
    pub fn finished(&mut self, key: Key, now: Now) {
        if let Some(conn) = self.connections.get_mut(key) {
            conn.end();
            let subs = conn.subs.clone();
            self.readers.abort_owned(&subs);
            self.read_on(key, now);
        }
    }

    /// The connection broke: nothing can be sent any more.
    pub fn broke(&mut self, key: Key) {
        self.close_conn(key, Close::Orderly);
    }

    pub fn slices(&self, key: Key) -> Vec<IoSlice<'_>> {
        self.connections.get(key).map(|conn| conn.output.slices()).unwrap_or_default()
    }

    /// The socket took `n` bytes of what [`Core::slices`] showed.
    pub fn sent(&mut self, key: Key, n: usize, now: Now) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        conn.sent(n, now);
        if conn.starved && conn.output.len() < self.settings.limits.tx_bytes / 2 {
            conn.starved = false;
            self.readers.pump_later(&conn.subs);
        }
        self.read_on(key, now);
    }

    /// Connections with something to write, each named once.
    pub fn writable(&mut self) -> Vec<Key> {
        self.connections.take_writable()
    }

    /// Connections to close, and how; the core has forgotten them.
    pub fn closing(&mut self) -> Vec<(Key, Close)> {
        self.connections.take_closed()
    }

    fn read_on(&mut self, key: Key, now: Now) {
        while let Some(conn) = self.connections.get_mut(key) {
            match conn.read(&self.settings.limits, now) {
                Want::Nothing => break,
                Want::Serve(request) => self.serve(key, *request, now),
                Want::Hear(text) => self.hear(key, &text, now),
            }
        }
        self.after_io(key);
    }

    /// To be called after anything happened to a connection.
    fn after_io(&mut self, key: Key) {
        match self.connections.changed(key, &self.settings.limits) {
            Changed::Nothing => {}
            Changed::Done => self.close_conn(key, Close::Orderly),
            Changed::Arm(at) => self.timers.arm(at, Timer::Conn(key)),
        }
    }

    fn close_conn(&mut self, key: Key, how: Close) {
        let Some(conn) = self.connections.close(key, how) else {
            return;
        };
        self.readers.stop_following(key);
        self.readers.abort_owned(&conn.subs);
        for sub in conn.subs {
            self.unsubscribe(sub);
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
        let input = Input::Note { job: note.job.at, body: note.body };
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
        self.readers.has_more()
            || self.disk.has_more()
            || self.connections.has_writable()
            || !self.out.is_empty()
            || self.can_end()
    }

    pub fn tick(&mut self, now: Now) {
        for (task, turn) in self.readers.take_to_abort() {
            // Never refused: a turn that is over already is left alone.
            let _ = self.drive(&task, Input::Abort { turn }, now);
        }
        while let Some(timer) = self.timers.pop(now.mono_ms) {
            match timer {
                Timer::Conn(key) => self.check_conn(key, now),
                Timer::Task { task, job } => {
                    let _ = self.drive(&task, Input::Due { job }, now);
                }
                Timer::Limit(task) => self.check_limit(&task, now),
                Timer::Expiry => self.expire(now),
                Timer::Store(task) => self.append_is_due(&task),
                Timer::Trial => self.try_store(),
                Timer::Load(task) => self.out.push(Out::Load { task }),
                Timer::Waiting(sub) => self.stop_waiting(sub),
                Timer::Hook { task, .. } => self.disk.release_later(&task),
                Timer::OutputBudget => self.close_stalled(now),
                Timer::Shutdown => self.give_up(now),
            }
        }
        if self.can_end() {
            self.give_up(now);
        }
    }

    fn check_conn(&mut self, key: Key, now: Now) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        if conn.armed > now.mono_ms {
            return;
        }
        conn.armed = u64::MAX;
        if conn.deadline(&self.settings.limits) <= now.mono_ms {
            match conn.overdue(&self.settings.limits, now) {
                Overdue::Nothing | Overdue::Write => {}
                Overdue::HangUp => self.hang_up(key, now),
                Overdue::Drop => return self.close_conn(key, Close::Orderly),
                Overdue::Cut => return self.close_conn(key, Close::Reset),
            }
        }
        self.after_io(key);
    }

    /// What is to be done outside, in order.
    pub fn outs(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }
}
