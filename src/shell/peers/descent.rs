//! Whether the process behind a connection is a tool's. A process is a tool's if its chain of parents reaches a supervisor of tools:
//! one of ours, one of another server, or a server that adopts the orphans of supervisors that were killed.
//!
//! The answer is given by exclusion: only a process that was found, and whose whole chain of parents was read without meeting a
//! supervisor, is no tool's. A process that hides (one that may not be inspected, a descriptor that is in flight between processes or belongs to one thread
//! alone) is not found, and "not found" means "may be a tool's".
//!
//! Processes come and go while they are read, so only consistent results count:
//! - A parent that is gone when it is read, or that started after its child (its pid was given to another process), breaks the
//!   chain. A broken chain is read again a few times, because other parents end too; then the process counts as not identified.
//! - The process that holds a socket is looked at before and after its descriptors are read: the same start time means that it
//!   was the same process.
//! - The links of a chain are not read in one moment, which does no harm: while its supervisor lives, a tool's process only ever
//!   has parents below that supervisor or the supervisor itself, so every link that holds at some moment leads there.
//!
//! What the logic needs of processes is the trait [`Processes`]; [`ProcFs`] reads /proc, which is file access and not for the loop.

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
    /// None if there is no such process.
    fn stat(&mut self, pid: u32) -> Option<Stat>;
    /// Which of these sockets the process holds, as far as it may be inspected.
    fn held(&mut self, pid: u32, sockets: &BTreeSet<u64>) -> Vec<u64>;
    /// Whether the process calls itself a supervisor of tools.
    fn is_supervisor(&mut self, pid: u32) -> bool;
    /// Whether the process runs as this user, by any of its user ids.
    fn runs_as(&mut self, pid: u32, uid: u32) -> bool;
    /// Whether any process holds this TCP socket.
    fn is_held(&mut self, socket: u64) -> bool;
}

/// Where tools come from.
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

/// Which process is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The process that holds the socket with this inode.
    Socket(u64),
    /// The same for a socket of another user, whose processes we may not be allowed to inspect.
    SocketOf { inode: u64, uid: u32 },
    /// The process with this pid, if it did not start after that time: otherwise the pid has been given to another one.
    Process { pid: u32, not_after: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It was found, and it is no tool's.
    NoTool,
    /// It, or one of several that share the socket, is a tool's.
    Tool,
    NotFound,
    /// Its parents could not be read.
    Broken,
}

/// Answers for all subjects in order, with one pass over all processes. A broken chain is read again, `tries` times in all.
pub fn find(processes: &mut dyn Processes, roots: &Roots, subjects: &[Subject], tries: u32) -> Vec<Finding> {
    let mut findings = vec![Finding::Broken; subjects.len()];
    for _ in 0..tries {
        let open = subjects.iter().zip(&findings).filter(|(_, finding)| **finding == Finding::Broken);
        let sockets = open.filter_map(|(subject, _)| match subject {
            Subject::Socket(inode) | Subject::SocketOf { inode, .. } => Some(*inode),
            Subject::Process { .. } => None,
        });
        let sockets: BTreeSet<u64> = sockets.collect();
        let holders = holders(processes, &sockets);
        let mut search = Search { ancestors: ancestors(processes, roots.own), processes, roots };
        let holders = |inode| holders.get(&inode).map_or(&[][..], Vec::as_slice);
        for (subject, finding) in subjects.iter().zip(&mut findings).filter(|(_, finding)| **finding == Finding::Broken)
        {
            *finding = match *subject {
                Subject::Socket(inode) => search.socket(inode, holders(inode)),
                Subject::SocketOf { inode, uid } => search.socket_of(inode, uid, holders(inode)),
                Subject::Process { pid, not_after } => search.process(pid, not_after),
            };
        }
        if !findings.contains(&Finding::Broken) {
            break;
        }
    }
    findings
}

/// Every process that holds one of the sockets.
fn holders(processes: &mut dyn Processes, sockets: &BTreeSet<u64>) -> BTreeMap<u64, Vec<u32>> {
    let mut holders: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    if sockets.is_empty() {
        return holders;
    }
    for pid in processes.pids() {
        for socket in processes.held(pid, sockets) {
            holders.entry(socket).or_default().push(pid);
        }
    }
    holders
}

/// The processes that ours descends from, as far as they can be read.
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

/// Where processes are hidden from other users, the first one is.
const INIT: u32 = 1;

struct Search<'a> {
    processes: &'a mut dyn Processes,
    roots: &'a Roots,
    ancestors: BTreeSet<u32>,
}

impl Search<'_> {
    fn socket(&mut self, inode: u64, holders: &[u32]) -> Finding {
        let findings: Vec<Finding> = holders.iter().map(|pid| self.holder(*pid, inode)).collect();
        worst(&findings)
    }

    /// A socket of another user. If its holder may not be inspected it is one of the processes of that user, so none of them may be
    /// a tool's. The socket has to be held when all of them were looked at: the one that held it could have ended before. If that user
    /// has no process that can be seen, and the system hides none, the socket is held outside of our PID namespace, where no tool is.
    fn socket_of(&mut self, inode: u64, uid: u32, holders: &[u32]) -> Finding {
        if !holders.is_empty() {
            return self.socket(inode, holders);
        }
        let mut findings = self.processes_of(uid);
        // A process that begins while the others are looked at is seen the second time.
        if findings.is_empty() {
            findings = self.processes_of(uid);
        }
        if findings.is_empty() && self.processes.stat(INIT).is_some() {
            findings.push(Finding::NoTool);
        }
        match worst(&findings) {
            // It may also be a process of that user that is none of ours.
            Finding::Tool => Finding::NotFound,
            Finding::NoTool if !self.processes.is_held(inode) => Finding::NotFound,
            finding => finding,
        }
    }

    fn processes_of(&mut self, uid: u32) -> Vec<Finding> {
        let mut findings = Vec::new();
        for pid in self.processes.pids() {
            if self.processes.runs_as(pid, uid)
                && let Some(process) = self.processes.stat(pid)
            {
                findings.push(self.descent(pid, process.start));
            }
        }
        findings
    }

    /// A process that was seen to hold the socket. By now its pid may be another's.
    fn holder(&mut self, pid: u32, inode: u64) -> Finding {
        let before = self.processes.stat(pid);
        let holds = !self.processes.held(pid, &BTreeSet::from([inode])).is_empty();
        match before {
            Some(before) if holds => self.descent(pid, before.start),
            Some(_) | None => Finding::Broken,
        }
    }

    fn process(&mut self, pid: u32, not_after: u64) -> Finding {
        match self.processes.stat(pid) {
            Some(process) if process.start <= not_after => self.descent(pid, process.start),
            Some(_) | None => Finding::NotFound,
        }
    }

    /// Follows the parents of a process that started at `start`.
    fn descent(&mut self, pid: u32, start: u64) -> Finding {
        let mut at = pid;
        let mut latest = start;
        for depth in 0..PEER_ANCESTORS {
            let Some(process) = self.processes.stat(at) else {
                return Finding::Broken;
            };
            let other = if depth == 0 { process.start != start } else { process.start > latest };
            if other {
                return Finding::Broken;
            }
            if let Some(finding) = self.decide(at, depth) {
                return finding;
            }
            if process.parent == 0 {
                return Finding::NoTool;
            }
            latest = process.start;
            at = process.parent;
        }
        Finding::Broken
    }

    /// What a process of the chain decides, if anything. `depth` counts from the process asked about.
    fn decide(&mut self, pid: u32, depth: usize) -> Option<Finding> {
        let roots = self.roots;
        if roots.supervisors.contains(&pid) {
            return Some(Finding::Tool);
        }
        // Another server itself may be our client; what it started may be its tool, or an orphan that it adopted.
        if depth > 0 && roots.servers.contains(&pid) {
            return Some(Finding::Tool);
        }
        if pid == roots.own {
            // A child that is no supervisor: the orphan of a supervisor that was killed, if orphans come to us; otherwise a
            // child of the program that this server is a part of.
            let adopted = depth > 0 && roots.adopts;
            return Some(if adopted { Finding::Tool } else { Finding::NoTool });
        }
        // What is above both of us tells us nothing about the peer: a server that was started by a tool has that tool's
        // supervisor above it, and so has everybody who started it.
        if self.ancestors.contains(&pid) {
            return Some(Finding::NoTool);
        }
        // Also the supervisors of servers that are gone, or that keep their state elsewhere.
        self.processes.is_supervisor(pid).then_some(Finding::Tool)
    }
}

/// Of several processes the worst finding counts.
fn worst(findings: &[Finding]) -> Finding {
    let worst = [Finding::Tool, Finding::Broken, Finding::NoTool].into_iter().find(|worst| findings.contains(worst));
    worst.unwrap_or(Finding::NotFound)
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

    fn held(&mut self, pid: u32, sockets: &BTreeSet<u64>) -> Vec<u64> {
        // Processes of other users, and those that are not dumpable, cannot be inspected: none of their sockets is found.
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
