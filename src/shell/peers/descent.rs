//! Finds out whether the process at the other end of a connection belongs to a tool. It does if its chain of parents reaches a supervisor
//! of tools: one of ours, one of another server, or a server that adopts the orphans of supervisors that were killed.
//!
//! The result is found by exclusion: a process counts as no tool's only if it was found and its whole chain of parents was read without
//! reaching a supervisor. A socket cannot be found if its process may not be inspected, or if its descriptor is in flight between
//! processes or belongs to one thread alone; "not found" means "may belong to a tool".
//!
//! Processes start and end while they are read, so only consistent results count:
//! - A parent that has ended when it is read, or that started after its child (its pid was given to another process), breaks the
//!   chain. A broken chain is read again a few times, because other parents end too; then the process counts as not identified.
//! - The start time of the process that holds a socket is read before and after its descriptors: the same start time means that it
//!   was the same process.
//! - The links of a chain are not read at one moment, which does no harm: while its supervisor lives, a tool's process only ever
//!   has parents below that supervisor or the supervisor itself, so every link that holds at some moment leads there.
//!
//! The trait [`Processes`] is what the search needs of processes. [`ProcFs`] reads /proc, which is file access, so the loop may not use it.

use crate::limits::PEER_ANCESTORS;
use crate::shell::children::VERB;
use crate::shell::children::procfs;
use crate::shell::children::procfs::Stat;
use crate::shell::peers::socket_owner;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

pub trait Processes {
    /// All processes there are, in any order.
    fn pids(&mut self) -> Vec<u32>;
    /// The parent and the start time of a process; None if there is no such process.
    fn stat(&mut self, pid: u32) -> Option<Stat>;
    /// Which of these sockets the process holds, as far as it may be inspected.
    fn held_sockets(&mut self, pid: u32, sockets: &BTreeSet<u64>) -> Vec<u64>;
    /// Whether the process calls itself a supervisor of tools.
    fn is_supervisor(&mut self, pid: u32) -> bool;
    /// Whether the process runs as this user, by any of its user ids.
    fn runs_as(&mut self, pid: u32, uid: u32) -> bool;
    /// Whether any process holds this TCP socket.
    fn is_held(&mut self, socket: u64) -> bool;
}

/// The processes below which tools run.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// Our own process, and whether orphans of its descendants become its children.
    pub own: u32,
    pub adopts: bool,
    /// The supervisors of our tools that are alive.
    pub supervisors: Vec<u32>,
    /// The processes of other servers. All of their children count as tools.
    pub servers: Vec<u32>,
}

/// The process that is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The process that holds the socket with this inode.
    Socket(u64),
    /// The process that holds the socket of another user, whose processes we may not be allowed to inspect.
    SocketOf { inode: u64, uid: u32 },
    /// The process with this pid, if it did not start after that time: otherwise the pid has been given to another one.
    Process { pid: u32, not_after: u64 },
}

/// The result of a search for one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// The process was found, and it does not belong to a tool.
    NoTool,
    /// The process, or one of several that share the socket, belongs to a tool.
    Tool,
    /// There is no such process, or it cannot be inspected.
    NotFound,
    /// The chain of parents could not be read.
    Broken,
}

/// Searches for all subjects with one pass over all processes. Returns the results in order. A broken chain is read again, `tries` times
/// in all.
pub fn find(processes: &mut dyn Processes, roots: &Roots, subjects: &[Subject], tries: u32) -> Vec<Descent> {
    let mut descents = vec![Descent::Broken; subjects.len()];
    for _ in 0..tries {
        let open = subjects.iter().zip(&descents).filter(|(_, descent)| **descent == Descent::Broken);
        let sockets = open.filter_map(|(subject, _)| match subject {
            Subject::Socket(inode) | Subject::SocketOf { inode, .. } => Some(*inode),
            Subject::Process { .. } => None,
        });
        let sockets: BTreeSet<u64> = sockets.collect();
        let holders = holders(processes, &sockets);
        let mut search = Search { ancestors: ancestors(processes, roots.own), processes, roots };
        let holders = |inode| holders.get(&inode).map_or(&[][..], Vec::as_slice);
        for (subject, descent) in subjects.iter().zip(&mut descents).filter(|(_, descent)| **descent == Descent::Broken)
        {
            *descent = match *subject {
                Subject::Socket(inode) => search.socket(inode, holders(inode)),
                Subject::SocketOf { inode, uid } => search.socket_of(inode, uid, holders(inode)),
                Subject::Process { pid, not_after } => search.process(pid, not_after),
            };
        }
        if !descents.contains(&Descent::Broken) {
            break;
        }
    }
    descents
}

/// Every process that holds one of the sockets.
fn holders(processes: &mut dyn Processes, sockets: &BTreeSet<u64>) -> BTreeMap<u64, Vec<u32>> {
    let mut holders: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    if sockets.is_empty() {
        return holders;
    }
    for pid in processes.pids() {
        for socket in processes.held_sockets(pid, sockets) {
            holders.entry(socket).or_default().push(pid);
        }
    }
    holders
}

/// The ancestors of our process, as far as they can be read.
fn ancestors(processes: &mut dyn Processes, own: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut at = own;
    for _ in 0..PEER_ANCESTORS {
        match processes.stat(at) {
            Some(Stat { parent, .. }) if parent != 0 => {
                found.insert(parent);
                at = parent;
            }
            Some(_) | None => break,
        }
    }
    found
}

/// The first process. Where processes are hidden from other users, it is hidden, too.
const INIT: u32 = 1;

struct Search<'a> {
    processes: &'a mut dyn Processes,
    roots: &'a Roots,
    ancestors: BTreeSet<u32>,
}

impl Search<'_> {
    fn socket(&mut self, inode: u64, holders: &[u32]) -> Descent {
        let descents: Vec<Descent> = holders.iter().map(|pid| self.holder(*pid, inode)).collect();
        worst(&descents)
    }

    /// A socket of another user. If its holder may not be inspected it is one of the processes of that user, so none of them may belong to
    /// a tool. The socket must still be held after all of them were read, because its holder could have ended before. If that user
    /// has no visible process, and the system hides none, the socket is held outside of our PID namespace, where no tool is.
    fn socket_of(&mut self, inode: u64, uid: u32, holders: &[u32]) -> Descent {
        if !holders.is_empty() {
            return self.socket(inode, holders);
        }
        let mut descents = self.processes_of(uid);
        // A process that starts while the others are read is found the second time.
        if descents.is_empty() {
            descents = self.processes_of(uid);
        }
        if descents.is_empty() && self.processes.stat(INIT).is_some() {
            descents.push(Descent::NoTool);
        }
        match worst(&descents) {
            // The holder may also be another process of that user.
            Descent::Tool => Descent::NotFound,
            Descent::NoTool if !self.processes.is_held(inode) => Descent::NotFound,
            descent => descent,
        }
    }

    fn processes_of(&mut self, uid: u32) -> Vec<Descent> {
        let mut descents = Vec::new();
        for pid in self.processes.pids() {
            if self.processes.runs_as(pid, uid)
                && let Some(process) = self.processes.stat(pid)
            {
                descents.push(self.descent(pid, process.start));
            }
        }
        descents
    }

    /// A process that held the socket a moment ago. Its pid may have been given to another process since.
    fn holder(&mut self, pid: u32, inode: u64) -> Descent {
        let before = self.processes.stat(pid);
        let holds = !self.processes.held_sockets(pid, &BTreeSet::from([inode])).is_empty();
        match before {
            Some(before) if holds => self.descent(pid, before.start),
            Some(_) | None => Descent::Broken,
        }
    }

    fn process(&mut self, pid: u32, not_after: u64) -> Descent {
        match self.processes.stat(pid) {
            Some(process) if process.start <= not_after => self.descent(pid, process.start),
            Some(_) | None => Descent::NotFound,
        }
    }

    /// Follows the parents of a process that started at `start`.
    fn descent(&mut self, pid: u32, start: u64) -> Descent {
        let mut at = pid;
        let mut latest = start;
        for depth in 0..PEER_ANCESTORS {
            let Some(process) = self.processes.stat(at) else {
                return Descent::Broken;
            };
            let other = if depth == 0 { process.start != start } else { process.start > latest };
            if other {
                return Descent::Broken;
            }
            if let Some(descent) = self.decide(at, depth) {
                return descent;
            }
            if process.parent == 0 {
                return Descent::NoTool;
            }
            latest = process.start;
            at = process.parent;
        }
        Descent::Broken
    }

    /// The result, if this process of the chain decides it. `depth` counts from the process that is searched for.
    fn decide(&mut self, pid: u32, depth: usize) -> Option<Descent> {
        let roots = self.roots;
        if roots.supervisors.contains(&pid) {
            return Some(Descent::Tool);
        }
        // Another server itself may be our client; a process below it may be its tool, or an orphan that it has adopted.
        if depth > 0 && roots.servers.contains(&pid) {
            return Some(Descent::Tool);
        }
        if pid == roots.own {
            // A child that is no supervisor: the orphan of a supervisor that was killed, if we adopt orphans; otherwise a
            // child of the program that this server is a part of.
            let adopted = depth > 0 && roots.adopts;
            return Some(if adopted { Descent::Tool } else { Descent::NoTool });
        }
        // A common ancestor of this server and the peer says nothing about the peer: a server that was started by a tool has that
        // tool's supervisor above it, and so has every process that started it.
        if self.ancestors.contains(&pid) {
            return Some(Descent::NoTool);
        }
        // This also finds the supervisors of servers that have ended or that have another state directory.
        self.processes.is_supervisor(pid).then_some(Descent::Tool)
    }
}

/// The result for several processes together.
fn worst(descents: &[Descent]) -> Descent {
    let worst = [Descent::Tool, Descent::Broken, Descent::NoTool].into_iter().find(|worst| descents.contains(worst));
    worst.unwrap_or(Descent::NotFound)
}

/// The processes of this machine.
pub struct ProcFs;

impl Processes for ProcFs {
    fn pids(&mut self) -> Vec<u32> {
        procfs::pids().collect()
    }

    fn stat(&mut self, pid: u32) -> Option<Stat> {
        procfs::stat(pid)
    }

    fn held_sockets(&mut self, pid: u32, sockets: &BTreeSet<u64>) -> Vec<u64> {
        // Processes of other users and processes that are not dumpable cannot be inspected: none of their sockets is found.
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        descriptors
            .filter_map(|descriptor| {
                let target = fs::read_link(descriptor.ok()?.path()).ok()?;
                let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
                sockets.contains(&inode).then_some(inode)
            })
            .collect()
    }

    fn is_supervisor(&mut self, pid: u32) -> bool {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(VERB.as_bytes())
    }

    fn runs_as(&mut self, pid: u32, uid: u32) -> bool {
        procfs::uids(pid).contains(&uid)
    }

    fn is_held(&mut self, socket: u64) -> bool {
        socket_owner::is_in_tables(socket)
    }
}

#[cfg(test)]
mod tests;
