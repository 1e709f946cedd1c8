//! The resource usage of a process from `/proc`, and our own limits.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// CPU time of all threads, also of those that have ended. The kernel reports it in ticks of 10 ms, so a run must take many of them.
    pub user_us: f64,
    pub system_us: f64,
    pub rss_kb: f64,
}

impl Usage {
    pub fn cpu_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

pub fn usage(pid: u32) -> io::Result<Usage> {
    const US_PER_TICK: f64 = 10_000.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Fields are counted after the command's name, which may contain any character.
    let (_, behind) = stat.rsplit_once(')').ok_or_else(|| unreadable("stat"))?;
    let field = |number: usize| -> Option<f64> { behind.split(' ').nth(number)?.parse().ok() };
    let (user, system) = field(12).zip(field(13)).ok_or_else(|| unreadable("stat"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let rss = rss.and_then(|line| line.split_whitespace().next()?.parse().ok());
    Ok(Usage {
        user_us: user * US_PER_TICK,
        system_us: system * US_PER_TICK,
        rss_kb: rss.ok_or_else(|| unreadable("status"))?,
    })
}

/// The resident set size when it has become stable, or after a few seconds.
pub fn settled_rss_kb(pid: u32) -> io::Result<f64> {
    const LOOKS: usize = 8;
    let begin = Instant::now();
    let mut last = usage(pid)?.rss_kb;
    let mut quiet = 0;
    while quiet < LOOKS && begin.elapsed() < Duration::from_secs(8) {
        thread::sleep(Duration::from_millis(200));
        let now = usage(pid)?.rss_kb;
        quiet = if (now - last).abs() <= last * 0.002 { quiet + 1 } else { 0 };
        last = now;
    }
    Ok(last)
}

/// How many descriptors this process, and a server it starts, may open.
pub fn open_files_limit() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn unreadable(what: &str) -> io::Error {
    io::Error::other(format!("cannot make sense of /proc/PID/{what}"))
}
