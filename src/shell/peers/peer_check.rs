//! Identifies peers: the user of a peer when it connects, and, if the peer may be a process of a tool, its process before it may do more
//! than read.
//!
//! At accept, the loop asks the kernel once, without file access, for the user. The peer is not a tool if no tool ran since the accept
//! queues were last seen empty, and if there is no other server whose tools could connect. Otherwise the peer is `MaybeTool`, and before
//! its first request that does more than read, the disk lane looks for its process ([`Inquiry`]). One inquiry runs at a time and
//! covers all waiting connections, so a thousand connections of a tool cost one search through /proc.
//!
//! A connection can also be accepted after its tool has ended: if the accept queue is full, the peer's kernel side repeats the
//! handshake later, as long as its socket exists, for example in a message queue of another process. So after the queue was full,
//! every peer must be identified for some time.
//!
//! Other servers are those with a locked file under `instances/`. That directory is watched with inotify: reading its events is no
//! file access, and while there are none, what was known about other servers still holds.

use crate::base::slots::Key;
use crate::core::connections::connection::Peer;
use crate::core::connections::identity::Identity;
use crate::limits::Limits;
use crate::shell::children::supervisors::{Snapshot, Supervisors};
use crate::shell::event_loop::sys;
use crate::shell::journal::instances;
use crate::shell::peers::descent;
use crate::shell::peers::descent::{Descent, ProcFs, Roots, Subject};
use crate::shell::peers::socket_owner::{self, Owner, SocketOwners};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::net::sockopt::socket_peercred;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is known of the process at the other end of a connection, to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerProcess {
    /// A process of another user or of another machine, or one that need not be identified.
    Stranger,
    /// A process of our user.
    SameUser(Subject),
    /// A process of another user, which may be a tool's.
    OtherUser(Subject),
    /// The kernel could not be asked when the connection was accepted. If the process is of our user, the peer is `ours`.
    Unknown { peer: SocketAddr, local: SocketAddr, ours: Peer },
}

/// Decides about connections, on the loop.
pub struct PeerCheck {
    socket_owners: SocketOwners,
    other_servers: OtherServers,
    facts: Arc<ServerFacts>,
    /// When the accept queues were last known to be empty, and when the current poll began.
    empty: Moment,
    polling: Moment,
    /// Whether the process was stopped, in this turn of the loop and in the one before.
    continued: Option<Arc<AtomicBool>>,
    continued_before: bool,
    /// The time, in ticks, until which connections of ended tools may still be accepted.
    late_until: u64,
    /// The connections for the next inquiry.
    waiting: Vec<(Key, PeerProcess)>,
    /// An inquiry runs.
    is_inquiring: bool,
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    tools: Snapshot,
    /// Clock ticks since the machine started, as in /proc.
    ticks: u64,
}

impl Moment {
    fn now(supervisors: &Supervisors) -> Moment {
        Moment { tools: supervisors.snapshot(), ticks: sys::boot_ticks() }
    }
}

/// Whether a connection was accepted in the turn of the loop in which it was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    AtOnce,
    /// The connection may have waited in the accept queue.
    Late,
}

/// What an inquiry needs to know about this server.
struct ServerFacts {
    own: u32,
    uid: u32,
    supervisors: Supervisors,
    instances: PathBuf,
    tries: u32,
    late_ticks: u64,
}

impl PeerCheck {
    /// `instances` is the directory of living servers. Our own file is there already. `continued` is set whenever this process was
    /// stopped and continues; without it, the process may have been stopped at any time.
    pub fn new(
        supervisors: Supervisors,
        instances: &Path,
        continued: Option<Arc<AtomicBool>>,
        limits: &Limits,
    ) -> PeerCheck {
        let now = Moment::now(&supervisors);
        let facts = ServerFacts {
            own: std::process::id(),
            uid: sys::effective_uid(),
            supervisors,
            instances: instances.to_owned(),
            tries: limits.peer_tries,
            late_ticks: limits.late_connection_ms * sys::ticks_per_second() / 1_000,
        };
        PeerCheck {
            socket_owners: SocketOwners::open(),
            other_servers: OtherServers::new(&facts),
            facts: Arc::new(facts),
            empty: now,
            polling: now,
            continued,
            continued_before: false,
            late_until: 0,
            waiting: Vec::new(),
            is_inquiring: false,
        }
    }

    /// A message for users if peers over TCP cannot be identified.
    pub fn problem(&self) -> Option<String> {
        (!self.socket_owners.can_answer()).then(|| {
            "Clients over TCP may only read, because neither netlink nor /proc says who they are. Clients over the Unix socket may do \
             everything."
                .to_owned()
        })
    }

    /// To be called before each poll.
    pub fn poll_begins(&mut self) {
        self.continued_before = self.continued.as_ref().is_none_or(|flag| flag.swap(false, Ordering::AcqRel));
        self.polling = Moment::now(&self.facts.supervisors);
    }

    /// To be called after a poll that reported no listener, if no listener had unaccepted connections: connections that are accepted later
    /// were made after that poll began.
    pub fn accept_queues_were_empty(&mut self) {
        self.empty = self.polling;
    }

    /// The accept queue may have been full, so the kernel may have delayed connections of tools.
    pub fn accept_queue_was_full(&mut self) {
        if self.may_be_tool() {
            self.late_until = sys::boot_ticks() + self.facts.late_ticks;
        }
    }

    /// Identifies the peer of a connection that was accepted over TCP.
    pub fn tcp(&mut self, peer: SocketAddr, local: SocketAddr) -> (Peer, PeerProcess) {
        // Checked before the kernel is asked: if a tool owns the socket when the kernel answers, its supervisor has been counted
        // by now, because it connected before. In the other order the tool could end in between.
        let ours = self.of_our_user();
        match self.socket_owners.owner(peer, local) {
            Owner::User { uid, inode } if uid == self.facts.uid => {
                (ours, PeerProcess::SameUser(Subject::Socket(inode)))
            }
            // Without tools, processes of other users need not be told apart.
            Owner::User { .. } | Owner::Nobody if ours == Peer::SameUser => (Peer::Stranger, PeerProcess::Stranger),
            Owner::User { uid, inode } => (Peer::OtherUser, PeerProcess::OtherUser(Subject::SocketOf { inode, uid })),
            Owner::Nobody if self.socket_owners.is_of_this_machine(peer, local) => (Peer::Gone, PeerProcess::Stranger),
            Owner::Nobody => (Peer::Stranger, PeerProcess::Stranger),
            Owner::Unknown => (Peer::OwnerUnknown, PeerProcess::Unknown { peer, local, ours }),
        }
    }

    /// Identifies the peer of a connection that was accepted over a Unix socket. The kernel reports the pid of the process that connected,
    /// but another process may have got that pid since. A process that started after the connection was accepted did not make the
    /// connection. If the connection may have waited in the accept queue, the process must have started before the accept queues were
    /// last empty. The connection may have waited if a tool stopped this process, so that is checked after the clock is read.
    pub fn unix(&mut self, stream: impl AsFd, accepted: Accepted) -> (Peer, PeerProcess) {
        let ours = self.of_our_user();
        let now = sys::boot_ticks();
        let was_stopped =
            self.continued_before || self.continued.as_ref().is_none_or(|flag| flag.load(Ordering::Acquire));
        let not_after = match accepted {
            Accepted::AtOnce if !was_stopped => now,
            Accepted::AtOnce | Accepted::Late => self.empty.ticks,
        };
        // A process of another pid namespace has no pid here. The library's type has no value for that and returns an error:
        // such a peer is a stranger.
        let Ok(peer) = socket_peercred(stream) else {
            return (Peer::Stranger, PeerProcess::Stranger);
        };
        let subject = Subject::Process { pid: peer.pid.as_raw_pid().unsigned_abs(), not_after };
        match (peer.uid.as_raw() == self.facts.uid, ours) {
            (true, _) => (ours, PeerProcess::SameUser(subject)),
            (false, Peer::SameUser) => (Peer::Stranger, PeerProcess::Stranger),
            (false, _) => (Peer::OtherUser, PeerProcess::OtherUser(subject)),
        }
    }

    /// The kind of a peer of our user that is accepted now.
    fn of_our_user(&mut self) -> Peer {
        if self.may_be_tool() { Peer::MaybeTool } else { Peer::SameUser }
    }

    /// Whether a connection that is accepted now may be a tool's.
    fn may_be_tool(&mut self) -> bool {
        self.facts.supervisors.any_since(self.empty.tools)
            || self.other_servers.may_exist()
            || sys::boot_ticks() < self.late_until
    }

    /// Adds a connection to the next inquiry. A request of it waits for the result.
    pub fn ask(&mut self, conn: Key, process: PeerProcess) {
        self.waiting.push((conn, process));
    }

    /// The next inquiry for the disk lane; None if one runs, or if no connection waits for one.
    pub fn inquiry(&mut self) -> Option<Inquiry> {
        if self.is_inquiring || self.waiting.is_empty() {
            return None;
        }
        self.is_inquiring = true;
        Some(Inquiry {
            waiting: std::mem::take(&mut self.waiting),
            facts: self.facts.clone(),
            as_of: self.other_servers.changes,
        })
    }

    /// Takes the result of an inquiry. Returns the identity of each connection's peer.
    pub fn answered(&mut self, answers: Answers) -> Vec<(Key, Identity)> {
        self.is_inquiring = false;
        if let Some(exist) = answers.others_exist {
            self.other_servers.take_events();
            // A change since the inquiry began may be another server.
            if self.other_servers.changes == answers.as_of {
                self.other_servers.may_exist = exist;
            }
        }
        answers.found
    }
}

/// Whether there may be other servers.
struct OtherServers {
    /// The inotify descriptor. None if the directory cannot be watched: then there may always be other servers.
    watch: Option<OwnedFd>,
    may_exist: bool,
    /// The number of changes in the directory.
    changes: u64,
}

impl OtherServers {
    fn new(facts: &ServerFacts) -> OtherServers {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).and_then(|watch| {
            let events = WatchFlags::CREATE | WatchFlags::MODIFY | WatchFlags::MOVED_TO;
            inotify::add_watch(&watch, &facts.instances, events)?;
            Ok(watch)
        });
        // Listed after the watch began, so that no server is missed in between.
        let may_exist = !facts.other_servers().is_empty();
        OtherServers { watch: watch.ok(), may_exist, changes: 0 }
    }

    fn may_exist(&mut self) -> bool {
        self.take_events();
        self.may_exist || self.watch.is_none()
    }

    fn take_events(&mut self) {
        let Some(watch) = &self.watch else {
            return;
        };
        let mut bytes = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(watch, &mut bytes);
        let mut is_lost = false;
        let error = loop {
            match events.next() {
                Ok(event) => {
                    self.changes += 1;
                    self.may_exist = true;
                    // The directory itself was removed: there will be no further events.
                    is_lost |= event.events().contains(ReadFlags::IGNORED);
                }
                Err(error) => break error,
            }
        };
        if is_lost || error != rustix::io::Errno::AGAIN {
            self.watch = None;
        }
    }
}

/// A search for the processes of some connections. It reads files, so it does not run on the loop.
pub struct Inquiry {
    waiting: Vec<(Key, PeerProcess)>,
    facts: Arc<ServerFacts>,
    as_of: u64,
}

/// The process to look for, with the identity that it has if it is no tool's; or the identity where no search is needed.
type Sought = Result<(Subject, Identity), Identity>;

/// The result of an inquiry.
pub struct Answers {
    found: Vec<(Key, Identity)>,
    /// Whether there are other servers; None if the search did not run.
    others_exist: Option<bool>,
    as_of: u64,
}

impl Inquiry {
    pub fn connections(&self) -> Vec<Key> {
        self.waiting.iter().map(|(key, _)| *key).collect()
    }

    pub fn run(self) -> Answers {
        let others = self.facts.other_servers();
        let others_exist = Some(!others.is_empty());
        let roots = self.facts.roots(others);
        let asked: Vec<(Key, Sought)> =
            self.waiting.iter().map(|(key, process)| (*key, self.facts.subject(process))).collect();
        let subjects: Vec<Subject> =
            asked.iter().filter_map(|(_, asked)| asked.as_ref().ok().map(|(subject, _)| *subject)).collect();
        let mut descents = descent::find(&mut ProcFs, &roots, &subjects, self.facts.tries).into_iter();
        let found = asked.into_iter().map(|(key, asked)| {
            let identity = match asked {
                Ok((_, no_tool)) => match descents.next() {
                    Some(Descent::NoTool) => no_tool,
                    Some(Descent::Tool) => Identity::Tool,
                    Some(Descent::NotFound | Descent::Broken) | None => Identity::Unclear,
                },
                Err(identity) => identity,
            };
            (key, identity)
        });
        Answers { found: found.collect(), others_exist, as_of: self.as_of }
    }
}

impl Answers {
    /// The result if the search could not run.
    pub fn unavailable(connections: Vec<Key>, why: &str) -> Answers {
        let found = connections.into_iter().map(|key| (key, Identity::Unavailable(why.to_owned())));
        Answers { found: found.collect(), others_exist: None, as_of: 0 }
    }
}

impl ServerFacts {
    /// The processes of other servers.
    fn other_servers(&self) -> Vec<u32> {
        let living = instances::living(&self.instances).into_iter().map(|instance| instance.pid);
        living.filter(|pid| *pid != self.own).collect()
    }

    fn roots(&self, servers: Vec<u32>) -> Roots {
        // If another program embeds this server, that program decides whether it is a subreaper.
        let adopts = rustix::process::child_subreaper().is_ok_and(|set| set.is_some());
        Roots { own: self.own, adopts, supervisors: self.supervisors.pids(), servers }
    }

    fn subject(&self, process: &PeerProcess) -> Sought {
        match *process {
            PeerProcess::SameUser(subject) => Ok((subject, Identity::SameUser)),
            PeerProcess::OtherUser(subject) => Ok((subject, Identity::Stranger)),
            PeerProcess::Stranger => Err(Identity::Stranger),
            PeerProcess::Unknown { peer, local, ours } => match socket_owner::owner_by_tables(peer, local) {
                Owner::User { uid, .. } if uid == self.uid && ours == Peer::SameUser => Err(Identity::SameUser),
                Owner::User { uid, inode } if uid == self.uid => Ok((Subject::Socket(inode), Identity::SameUser)),
                Owner::User { .. } | Owner::Nobody | Owner::Unknown if ours == Peer::SameUser => {
                    Err(Identity::Stranger)
                }
                Owner::User { uid, inode } => Ok((Subject::SocketOf { inode, uid }, Identity::Stranger)),
                Owner::Nobody | Owner::Unknown if SocketOwners::open().is_of_this_machine(peer, local) => {
                    Err(Identity::Gone)
                }
                Owner::Nobody | Owner::Unknown => Err(Identity::Stranger),
            },
        }
    }
}

#[cfg(test)]
mod tests;
