//! Reads facts about processes from `/proc`. This is file access, so the loop may not do it.

/// One process at one moment. Pids are reused, so it is identified by pid and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The pid of the parent; 0 if the parent is not visible.
    pub parent: u32,
    /// The start time, in clock ticks since the machine started.
    pub start: u64,
    /// The process has ended and is not reaped yet.
    pub has_ended: bool,
}

/// The numbers of all processes, in any order; none if they cannot be read. Processes start and end while they are listed.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Reads `/proc/<pid>/stat`. None if there is no such process.
pub fn stat(pid: u32) -> Option<Stat> {
    read_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The real, effective, saved and file system user of a process; none if there is no such process.
pub fn uids(pid: u32) -> Vec<u32> {
    let status = std::fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    read_uids(&String::from_utf8_lossy(&status))
}

fn read_uids(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.unwrap_or_default().split_ascii_whitespace().filter_map(|uid| uid.parse().ok()).collect()
}

/// `pid (name) state ppid …`: the number of threads is field 20, the start time field 22. The name may hold anything,
/// parentheses too: what follows the last one is the state.
fn read_stat(stat: &[u8]) -> Option<Stat> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(&stat[end + 1..]).ok()?.split_ascii_whitespace().collect();
    // A process whose first thread has ended is a zombie with threads: it has ended only when no thread is left.
    let threads: u64 = fields.get(17)?.parse().ok()?;
    let has_ended = match *fields.first()? {
        "X" | "x" => true,
        "Z" => threads <= 1,
        _ => false,
    };
    Some(Stat { parent: fields.get(1)?.parse().ok()?, start: fields.get(19)?.parse().ok()?, has_ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_is_read_whatever_the_name_is() {
        let line = |name: &str, state: &str, threads: u32| {
            format!("12 ({name}) {state} 7 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 4242 1 1")
        };
        let stat = |has_ended| Some(Stat { parent: 7, start: 4242, has_ended });
        for name in ["sh", "a b", "x) S 1 (", "\u{fffd}"] {
            assert_eq!(read_stat(line(name, "S", 1).as_bytes()), stat(false), "{name}");
        }
        assert_eq!(read_stat(line("sh", "Z", 1).as_bytes()), stat(true));
        assert_eq!(read_stat(line("sh", "Z", 2).as_bytes()), stat(false), "another thread runs");
        assert_eq!(read_stat(line("sh", "X", 0).as_bytes()), stat(true));
        for broken in ["", "12 (sh", "12 (sh) S", "12 (sh) S x", "12 (sh) S 7 1 1"] {
            assert_eq!(read_stat(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn the_users_of_a_process_are_read() {
        assert_eq!(read_uids("Name:\tUid: 7\nUid:\t1000\t0\t33\t0\nGid:\t5\t5\t5\t5\n"), [1000, 0, 33, 0]);
        assert_eq!(read_uids("Name:\tsh\n"), [0; 0]);
        assert!(uids(std::process::id()).contains(&rustix::process::geteuid().as_raw()));
        assert_eq!(uids(u32::MAX), [0; 0]);
    }

    #[test]
    fn a_process_sees_itself() {
        let me = std::process::id();
        let seen = stat(me).expect("this process runs");
        assert_eq!(Some(seen.parent), rustix::process::getppid().map(|pid| pid.as_raw_pid().unsigned_abs()));
        assert!(!seen.has_ended && pids().any(|pid| pid == me));
        assert_eq!(stat(u32::MAX), None);
    }
}
