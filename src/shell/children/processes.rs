//! Finds processes and kills them. Pids are reused, so a process is identified by its pid and its start time. A signal is sent only
//! after both were compared, while a handle keeps the pid from being reused.

use crate::limits::{SWEEP_ROUNDS, SWEEP_WAIT_MS};
use crate::shell::children::procfs;
use crate::shell::event_loop::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    /// The start time, in clock ticks since the machine started.
    pub start: u64,
}

pub fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// Every process that has not ended. Processes start and end while they are listed.
pub fn all() -> Vec<Process> {
    procfs::pids().filter_map(by_pid).collect()
}

/// A process by its pid; None if there is no such process, or if it has ended and is not reaped yet.
pub fn by_pid(pid: u32) -> Option<Process> {
    let procfs::Stat { parent, start, has_ended } = procfs::stat(pid)?;
    (!has_ended).then_some(Process { pid, parent, start })
}

/// The processes among `all` that descend from `ancestor`.
pub fn descendants(all: &[Process], ancestor: u32) -> Vec<Process> {
    let mut family = HashSet::from([ancestor]);
    let mut found = Vec::new();
    loop {
        let known = found.len();
        found.extend(all.iter().filter(|one| family.contains(&one.parent) && !family.contains(&one.pid)));
        if found.len() == known {
            return found;
        }
        family.extend(found[known..].iter().map(|one| one.pid));
    }
}

impl Process {
    /// Sends a signal to exactly this process. None if the process has ended or may not be signalled; otherwise a handle that becomes
    /// readable when the process has ended.
    pub fn signal(&self, signal: Signal) -> Option<OwnedFd> {
        let handle = rustix::process::pidfd_open(pid(self.pid)?, PidfdFlags::empty()).ok()?;
        let is_same = by_pid(self.pid).is_some_and(|now| now.start == self.start);
        (is_same && rustix::process::pidfd_send_signal(&handle, signal).is_ok()).then_some(handle)
    }
}

/// The direct children of this process, also those that have ended and were not reaped. An error does not mean that there are no
/// children: a process of our user may have limited the files that we can open.
///
/// If this process is a child subreaper and only the caller reaps, a list without unknown children proves that there are no other
/// descendants: the children of a process that ends become children of this process before it has ended, and it stays in the list until
/// it is reaped. Reading all of `/proc` proves nothing: processes that fork and end while it is read may be missed.
fn children() -> io::Result<Vec<u32>> {
    if !Path::new("/proc/thread-self/children").exists() {
        return children_among_all();
    }
    let mut found = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task")? {
        match std::fs::read_to_string(thread?.path().join("children")) {
            Ok(list) => found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok())),
            // The thread has ended, and its children have become those of another thread.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The direct children of this process, on kernels that have no lists of children.
fn children_among_all() -> io::Result<Vec<u32>> {
    let own = std::process::id();
    if procfs::stat(own).is_none() {
        return Err(io::Error::other("processes cannot be read"));
    }
    Ok(procfs::pids().filter(|pid| procfs::stat(*pid).is_some_and(|stat| stat.parent == own)).collect())
}

/// Reaps the direct children for which `is_target` is true, if they have ended.
pub fn reap_children(is_target: impl Fn(u32) -> bool) -> io::Result<()> {
    for pid in children()?.into_iter().filter(|pid| is_target(*pid)).filter_map(pid) {
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
    Ok(())
}

/// Kills and reaps the direct children for which `is_target` is true and all their descendants, which become direct children as their
/// parents die. Only for a child subreaper. Returns the pids of those that were killed. An error means that some may still run.
///
/// Every child is reaped as soon as it has ended, because processes that fork without end would otherwise use up all pids.
pub fn kill_children(
    is_target: impl Fn(u32) -> bool,
    mut reaped: impl FnMut(Pid, WaitStatus),
    timeout: Duration,
) -> io::Result<HashSet<u32>> {
    /// A process needs about this long to end after it was killed.
    const PAUSE: Duration = Duration::from_micros(100);
    const LONGEST_PAUSE: Duration = Duration::from_millis(20);
    // A command that runs as our user may have lowered our limit, so that we cannot look for it.
    sys::restore_file_limit();
    let begin = Instant::now();
    let mut pause = PAUSE;
    let mut killed = HashSet::new();
    loop {
        let mut targets = children()?;
        targets.retain(|pid| is_target(*pid));
        if targets.is_empty() {
            return Ok(killed);
        }
        if begin.elapsed() > timeout {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let known = killed.len();
        for number in targets {
            let Some(pid) = pid(number) else {
                continue;
            };
            match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => reaped(pid, status),
                // Until a child is reaped its pid is not reused.
                Ok(None) => {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                    killed.insert(number);
                }
                Err(_) => {}
            }
        }
        // New processes mean that the tree is deeper: continue soon.
        pause = if killed.len() > known { PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        thread::sleep(pause);
    }
}

/// Waits until a process has ended, but not longer than `timeout`.
pub fn wait_for_end(handle: &OwnedFd, timeout: Duration) {
    let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], Timespec::try_from(timeout).ok().as_ref());
}

/// Kills all processes that `find` returns, until it returns none that can be killed. Returns all that were signalled. `wait` is
/// [`wait_for_end`].
///
/// Processes are stopped before they are killed: one that forks without end would otherwise leave new ones in every round.
pub fn kill_all(find: impl Fn() -> Vec<Process>, wait: impl Fn(&OwnedFd, Duration)) -> HashSet<Process> {
    let mut killed = HashSet::new();
    for _ in 0..SWEEP_ROUNDS {
        let mut stopped: HashSet<Process> = HashSet::new();
        for _ in 0..SWEEP_ROUNDS {
            let fresh: Vec<Process> = find().into_iter().filter(|one| !stopped.contains(one)).collect();
            if fresh.is_empty() {
                break;
            }
            for one in &fresh {
                one.signal(Signal::STOP);
            }
            stopped.extend(fresh);
        }
        let dying: Vec<OwnedFd> = stopped.iter().filter_map(|one| one.signal(Signal::KILL)).collect();
        killed.extend(stopped);
        if dying.is_empty() {
            break;
        }
        for handle in &dying {
            wait(handle, Duration::from_millis(SWEEP_WAIT_MS));
        }
    }
    killed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn descendants_are_found_in_any_order_and_loops_end() {
        let process = |pid, parent| Process { pid, parent, start: 0 };
        // 7 and 8 name each other: seen while numbers were reused.
        let all = [process(4, 3), process(3, 2), process(2, 1), process(5, 1), process(7, 8), process(8, 7)];
        let pids = |root| {
            let mut pids: Vec<u32> = descendants(&all, root).iter().map(|one| one.pid).collect();
            pids.sort_unstable();
            pids
        };
        assert_eq!(pids(1), [2, 3, 4, 5]);
        assert_eq!(pids(2), [3, 4]);
        assert_eq!(pids(7), [8]);
        assert_eq!(pids(9), [0u32; 0]);
    }

    #[test]
    fn a_sweep_ends_although_new_processes_appear_in_every_round() {
        // Processes that do not exist are stopped in every round of the search, and then there is none to kill.
        let searches = Cell::new(0);
        let find = || {
            searches.set(searches.get() + 1);
            vec![Process { pid: u32::MAX, parent: 0, start: searches.get() }]
        };
        assert_eq!(kill_all(find, |_, _| panic!("there is nothing to wait for")).len(), SWEEP_ROUNDS);
        assert_eq!(searches.get(), SWEEP_ROUNDS as u64);
    }

    #[test]
    fn a_sweep_gives_up_on_processes_that_start_again() {
        let (started, waits) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        // Whenever the process was killed, there is another one.
        let find = || {
            let mut started = started.borrow_mut();
            let last = started.last().and_then(|child: &std::process::Child| by_pid(child.id()));
            vec![last.unwrap_or_else(|| {
                started.push(std::process::Command::new("sleep").arg("1000").spawn().expect("sleep starts"));
                by_pid(started[started.len() - 1].id()).expect("it runs")
            })]
        };
        let wait = |handle: &OwnedFd, timeout| {
            waits.borrow_mut().push(timeout);
            wait_for_end(handle, Duration::MAX);
        };
        let killed = kill_all(find, wait);
        assert_eq!((killed.len(), started.borrow().len()), (SWEEP_ROUNDS, SWEEP_ROUNDS));
        assert_eq!(*waits.borrow(), vec![Duration::from_millis(SWEEP_WAIT_MS); SWEEP_ROUNDS]);
        started.into_inner().iter_mut().for_each(|child| drop(child.wait()));
    }

    #[test]
    fn children_are_killed_and_reaped() {
        // Other tests of this process have children, too.
        let start = || std::process::Command::new("sleep").arg("1000").spawn().expect("sleep starts").id();
        let (target, dead, other) = (start(), start(), start());
        by_pid(dead).expect("it runs").signal(Signal::KILL).expect("it is ours");
        while by_pid(dead).is_some() {
            thread::sleep(Duration::from_millis(1));
        }
        let listed = children().expect("/proc");
        assert!([target, dead, other].iter().all(|pid| listed.contains(pid)), "{listed:?}");
        assert!(children_among_all().expect("/proc").contains(&target));
        let mut ends = Vec::new();
        let timeout = Duration::from_secs(30);
        let killed = kill_children(
            |pid| [target, dead].contains(&pid),
            |pid, status| ends.push((pid.as_raw_pid().unsigned_abs(), status.terminating_signal())),
            timeout,
        );
        assert_eq!(killed.expect("nothing is left"), HashSet::from([target]), "one had ended before");
        ends.sort_unstable();
        let mut expected = [(target, Some(9)), (dead, Some(9))];
        expected.sort_unstable();
        assert_eq!(ends, expected);
        assert!(by_pid(other).is_some());
        let late = kill_children(|pid| pid == other, |_, _| {}, Duration::ZERO);
        assert_eq!(late.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        kill_children(|pid| pid == other, |_, _| {}, timeout).expect("nothing is left");
        let listed = children().expect("/proc");
        assert!([target, dead, other].iter().all(|pid| !listed.contains(pid)), "{listed:?}");
    }

    #[test]
    fn a_signal_reaches_only_the_process_that_was_seen() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep starts");
        let seen = by_pid(child.id()).expect("it runs");
        let another = Process { start: seen.start + 1, ..seen };
        assert!(another.signal(Signal::KILL).is_none());
        assert!(child.try_wait().expect("a child").is_none());
        assert!(seen.signal(Signal::KILL).is_some());
        child.wait().expect("it was killed");
        assert!(seen.signal(Signal::KILL).is_none());
    }
}
