//! Programs that tools start, and how none of them outlives us.
//!
//! A child is started through a stub: this binary again, with a hidden verb. Between fork and exec a threaded program may do next to
//! nothing, and Rust offers no way to do it safely; a fresh process may do everything. The stub becomes a session of its own, asks
//! the kernel to be killed when its parent dies, makes sure no descriptor but the three it was given gets further, and becomes the
//! program. Over the socket it is given as standard input it tells whether that worked; the socket closes itself on success.
//!
//! The kernel ties the death signal to the parent's thread, not to its process, and workers come and go. So one thread, which lasts
//! as long as [`Children`], starts them all.
//!
//! Killing the group is not enough: a child can leave it. Every child therefore carries a marker in its environment, which its
//! descendants inherit. `Process::finish` looks through all processes for the marker, the session and the parentage, and
//! ends what it finds; [`sweep`] does the same for whatever an earlier run of the server left behind. What hides from all three
//! (empties its environment, leaves the session and outlives its parent) escapes; only a sandbox could hold it.
//!
//! The environment is made, not inherited: names from a list, so that no key or token of the server ever reaches a command. Nor can
//! a command read the server's own under /proc, unless it is root's.

use crate::limits::Limits;
use crate::tool::{Child, Finished, Launch, Spawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The variable that every child and its descendants carry: `<instance>:<number>`.
pub const MARKER: &str = "GEMINI_A2A_CHILD";

/// Tells the binary to be the stub.
const VERB: &str = "__child";

/// The stub's sign that it got as far as exec.
const READY: u8 = b'.';

/// Starts children. Dropping it ends the starting thread, and with it every child.
pub struct Children {
    orders: mpsc::Sender<Order>,
    exe: PathBuf,
    instance: String,
    next: AtomicU64,
    env: Vec<(OsString, OsString)>,
    patience: Duration,
}

struct Order {
    command: Command,
    reply: mpsc::Sender<io::Result<std::process::Child>>,
}

impl Children {
    /// `exe` is the binary whose main calls [`child_main`]: `/proc/self/exe` for the server itself, so that replacing the file does
    /// not matter. `instance` names this run of the server; `env` is the environment to choose from.
    pub fn new(
        exe: PathBuf,
        instance: &str,
        env: impl IntoIterator<Item = (OsString, OsString)>,
        limits: &Limits,
    ) -> io::Result<Children> {
        // A child could read our own environment under /proc, were we not closed to others. Root can always; it is not hindered.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let (orders, inbox) = mpsc::channel::<Order>();
        thread::Builder::new().name("children".into()).stack_size(256 * 1024).spawn(move || {
            for Order { mut command, reply } in inbox {
                let started = command.spawn();
                // It still holds the child's ends of pipe and socket; both must close with the child.
                drop(command);
                let _ = reply.send(started);
            }
        })?;
        Ok(Children {
            orders,
            exe,
            instance: instance.to_string(),
            next: AtomicU64::new(1),
            env: clean(env),
            patience: Duration::from_millis(limits.kill_ms),
        })
    }
}

impl Spawn for Children {
    fn spawn(&self, launch: Launch) -> io::Result<Box<dyn Child>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let marker = format!("{}:{number}", self.instance);
        let (output, writer) = io::pipe()?;
        let (mut ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&self.exe);
        command
            .arg(VERB)
            .arg(std::process::id().to_string())
            .args(&launch.argv)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env(MARKER, &marker)
            // The open directory by its number: its name may mean another one by now.
            .current_dir(format!("/proc/self/fd/{}", launch.dir.as_raw_fd()))
            .stdin(OwnedFd::from(theirs))
            .stdout(writer.try_clone()?)
            .stderr(writer);
        let (reply, answer) = mpsc::channel();
        let gone = || io::Error::other("the thread that starts programs is gone");
        self.orders.send(Order { command, reply }).map_err(|_| gone())?;
        let process = Process::new(
            answer.recv().map_err(|_| gone())??,
            OwnedFd::from(output),
            format!("{MARKER}={marker}").into_bytes(),
            self.patience,
        )?;
        let mut said = String::new();
        ours.read_to_string(&mut said)?;
        match said.strip_prefix(READY as char) {
            Some("") => Ok(Box::new(process)),
            Some(errno) => Err(errno
                .parse()
                .map_or_else(|_| io::Error::other("the program could not be started"), io::Error::from_raw_os_error)),
            None => Err(io::Error::other(format!("no child could be set up {said}"))),
        }
    }
}

/// What main does first: if the arguments say so, this process is a stub, and the code it exits with is returned; a stub that
/// succeeds does not return at all.
pub fn child_main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    if args.next()? != VERB {
        return None;
    }
    let parent = args.next().and_then(|pid| pid.to_str()?.parse().ok());
    let argv: Vec<OsString> = args.collect();
    // Standard input becomes /dev/null with the exec; until then this is the only way to tell what went wrong.
    let Ok(channel) = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3) else {
        return Some(ExitCode::from(127));
    };
    let mut channel = UnixStream::from(channel);
    let error = match prepare_stub(parent, &argv) {
        Ok(mut command) => {
            let _ = channel.write_all(&[READY]);
            let error = command.exec();
            error.raw_os_error().unwrap_or_default().to_string()
        }
        Err(error) => error.to_string(),
    };
    let _ = channel.write_all(error.as_bytes());
    Some(ExitCode::from(127))
}

fn prepare_stub(parent: Option<i32>, argv: &[OsString]) -> io::Result<Command> {
    rustix::process::setsid()?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that died before the line above sends no signal any more.
    if rustix::process::getppid().map(Pid::as_raw_pid) != parent {
        return Err(io::Error::other("because the server is gone"));
    }
    let (program, args) = argv.split_first().ok_or_else(|| io::Error::other("without a program"))?;
    let leaks = inheritable()?;
    let mut command = if leaks.is_empty() {
        Command::new(program)
    } else {
        // We cannot close what we do not own, but a shell can: it was us who were handed these, by whoever started the server.
        let closing: String = leaks.iter().map(|fd| format!(" {fd}>&-")).collect();
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(format!("exec{closing}; exec \"$@\""));
        shell.arg("bash").arg(program);
        shell
    };
    command.args(args).stdin(Stdio::null());
    Ok(command)
}

/// Descriptors beyond the first three that would survive an exec. All our own are marked not to.
fn inheritable() -> io::Result<Vec<u32>> {
    const CLOSES_ON_EXEC: u32 = 0o2_000_000;
    let mut leaks = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fdinfo")? {
        let entry = entry?;
        let Some(fd) = entry.file_name().to_str().and_then(|fd| fd.parse().ok()) else {
            continue;
        };
        let Ok(info) = std::fs::read_to_string(entry.path()) else {
            continue;
        };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        if fd > 2 && flags.is_none_or(|flags| flags & CLOSES_ON_EXEC == 0) {
            leaks.push(fd);
        }
    }
    Ok(leaks)
}

struct Process {
    child: std::process::Child,
    pid: Pid,
    over: OwnedFd,
    output: OwnedFd,
    marker: Vec<u8>,
    patience: Duration,
    ended: bool,
}

impl Process {
    fn new(
        mut child: std::process::Child,
        output: OwnedFd,
        marker: Vec<u8>,
        patience: Duration,
    ) -> io::Result<Process> {
        let pid = Pid::from_child(&child);
        let over = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(over) => over,
            Err(errno) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(errno.into());
            }
        };
        Ok(Process { child, pid, over, output, marker, patience, ended: false })
    }

    /// The program is waited for last: until then its number, which names its group and session, cannot mean another process.
    fn end_all(&mut self) -> io::Result<Finished> {
        self.ended = true;
        let hunt = Hunt { marker: &self.marker, session: Some(self.pid), patience: self.patience };
        let found = hunt.find();
        let mut strays: Vec<u32> = found.iter().map(Sight::id).collect();
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        let _ = self.child.kill();
        hunt.end(&found);
        strays.extend(hunt.end_all());
        strays.sort_unstable();
        strays.dedup();
        let status = self.child.wait()?;
        Ok(Finished { status, strays })
    }
}

impl Child for Process {
    fn id(&self) -> u32 {
        self.child.id()
    }

    fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    fn over(&self) -> BorrowedFd<'_> {
        self.over.as_fd()
    }

    fn ask(&self) {
        let _ = rustix::process::kill_process_group(self.pid, Signal::TERM);
    }

    fn finish(mut self: Box<Self>) -> io::Result<Finished> {
        self.end_all()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.end_all();
        }
    }
}

/// Ends every process that a run of the server named `instance` has left behind, and says which they were.
pub fn sweep(instance: &str, limits: &Limits) -> Vec<u32> {
    let marker = format!("{MARKER}={instance}:").into_bytes();
    let hunt = Hunt { marker: &marker, session: None, patience: Duration::from_millis(limits.kill_ms) };
    hunt.end_all()
}

/// A search for processes that belong together.
struct Hunt<'a> {
    /// The marker's variable; an instance's marker ends in a colon and fits all its children.
    marker: &'a [u8],
    session: Option<Pid>,
    patience: Duration,
}

/// A process as it was seen. Its number may come to mean another one, which would have another start.
#[derive(Clone, Debug, PartialEq)]
struct Sight {
    pid: i32,
    parent: i32,
    session: i32,
    start: u64,
}

impl Sight {
    fn id(&self) -> u32 {
        self.pid.unsigned_abs()
    }
}

impl Hunt<'_> {
    /// A process that forks while it is hunted leaves new ones; nobody keeps ahead of us for this long.
    const ROUNDS: usize = 200;

    /// Ends all that can be found until none is left, and says which they were.
    fn end_all(&self) -> Vec<u32> {
        let mut ended = Vec::new();
        for _ in 0..Hunt::ROUNDS {
            let found = self.find();
            if found.is_empty() {
                break;
            }
            ended.extend(found.iter().map(Sight::id));
            self.end(&found);
        }
        ended.sort_unstable();
        ended.dedup();
        ended
    }

    fn find(&self) -> Vec<Sight> {
        let seen: Vec<Sight> = std::fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| look(entry.file_name().to_str()?.parse().ok()?))
            .collect();
        let leader = self.session.map(Pid::as_raw_pid);
        let mut ours: HashSet<i32> = seen
            .iter()
            .filter(|sight| Some(sight.session) == leader || self.is_marked(sight.pid))
            .map(|sight| sight.pid)
            .chain(leader)
            .collect();
        // Children of what we found belong to it, whatever they did to hide.
        loop {
            let before = ours.len();
            let born = seen.iter().filter(|sight| ours.contains(&sight.parent));
            let born: Vec<i32> = born.map(|sight| sight.pid).collect();
            ours.extend(born);
            if ours.len() == before {
                break;
            }
        }
        let me = rustix::process::getpid().as_raw_pid();
        seen.into_iter()
            .filter(|sight| ours.contains(&sight.pid))
            .filter(|sight| sight.pid != me && Some(sight.pid) != leader)
            .collect()
    }

    fn is_marked(&self, pid: i32) -> bool {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| {
            if self.marker.ends_with(b":") { variable.starts_with(self.marker) } else { variable == self.marker }
        })
    }

    /// Kills them and waits until they are gone, or until it is clear that they will not go.
    fn end(&self, found: &[Sight]) {
        let mut dying = Vec::new();
        for sight in found {
            let handle =
                Pid::from_raw(sight.pid).and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
            // With the handle held, the number cannot come to mean another process between looking and killing.
            if let Some(handle) = handle
                && look(sight.pid).is_some_and(|now| now.start == sight.start)
                && rustix::process::pidfd_send_signal(&handle, Signal::KILL).is_ok()
            {
                dying.push(handle);
            }
        }
        let patience = Timespec {
            tv_sec: i64::try_from(self.patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: self.patience.subsec_nanos().into(),
        };
        for handle in &dying {
            let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&patience));
        }
    }
}

/// None when there is no such process, or when it is as good as gone.
fn look(pid: i32) -> Option<Sight> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    // The program's name comes second, in brackets, and may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
    let dead = matches!(*fields.first()?, "Z" | "X") || number(20)? == 0;
    if dead {
        return None;
    }
    Some(Sight {
        pid,
        parent: i32::try_from(number(1)?).ok()?,
        session: i32::try_from(number(3)?).ok()?,
        start: u64::try_from(number(19)?).ok()?,
    })
}

/// Names that are handed on: who and where the user is, and where tools are installed. None of them holds secrets.
const HANDED_ON: [&str; 29] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "COLORTERM",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "no_proxy",
];

/// Handed on unless they carry a user and password.
const PROXIES: [&str; 6] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Set for every child: no pagers, no prompts, no programs of the user's or a repository's choosing behind git's back.
const SET: [(&str, &str); 14] = [
    ("GEMINI_CLI", "1"),
    ("TERM", "xterm-256color"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS", ""),
    ("DISPLAY", ""),
    ("DBUS_SESSION_BUS_ADDRESS", ""),
    ("GH_PROMPT_DISABLED", "1"),
    ("GCM_INTERACTIVE", "never"),
];

/// Git settings that win over those in a repository. An editor that does nothing keeps the text git proposes. `diff.external` is
/// missing: git takes an empty one for a program, and `git diff` would fail everywhere.
const GIT: [(&str, &str); 7] = [
    ("credential.helper", ""),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "ssh"),
    ("core.editor", ":"),
    ("sequence.editor", ":"),
    ("core.pager", "cat"),
];

fn clean(env: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let handed_on = |name: &OsStr, value: &OsStr| {
        let Some(name) = name.to_str() else {
            return false;
        };
        let secret = value.as_bytes().contains(&b'@');
        HANDED_ON.contains(&name) || name.starts_with("LC_") || (PROXIES.contains(&name) && !secret)
    };
    let mut clean: Vec<(OsString, OsString)> = env.into_iter().filter(|(name, value)| handed_on(name, value)).collect();
    let mut set = |name: String, value: &str| clean.push((name.into(), value.into()));
    for (name, value) in SET {
        set(name.into(), value);
    }
    set("GIT_CONFIG_COUNT".into(), &GIT.len().to_string());
    for (at, (name, value)) in GIT.into_iter().enumerate() {
        set(format!("GIT_CONFIG_KEY_{at}"), name);
        set(format!("GIT_CONFIG_VALUE_{at}"), value);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_names_are_handed_on() {
        let pairs = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("GEMINI_API_KEY", "secret"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/secret"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("LD_PRELOAD", "/evil.so"),
            ("BASH_ENV", "/evil"),
            ("BASH_FUNC_ls%%", "() { evil; }"),
            ("https_proxy", "http://proxy:3128"),
            ("http_proxy", "http://me:secret@proxy:3128"),
            ("TERM", "dumb"),
        ];
        let env = pairs.map(|(name, value)| (name.into(), value.into()));
        let names: Vec<String> = clean(env)
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .filter(|pair| !pair.starts_with("GIT_CONFIG_"))
            .collect();
        let expected = [
            "PATH=/bin",
            "LC_ALL=C",
            "https_proxy=http://proxy:3128",
            "GEMINI_CLI=1",
            "TERM=xterm-256color",
            "PAGER=cat",
            "GIT_PAGER=cat",
            "GIT_TERMINAL_PROMPT=0",
            "GIT_ASKPASS=",
            "SSH_ASKPASS=",
            "DISPLAY=",
            "DBUS_SESSION_BUS_ADDRESS=",
            "GH_PROMPT_DISABLED=1",
            "GCM_INTERACTIVE=never",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn other_arguments_are_not_a_stubs() {
        let args = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(child_main(args(&[])).is_none());
        assert!(child_main(args(&["gemini-a2a"])).is_none());
        assert!(child_main(args(&["gemini-a2a", "serve", VERB])).is_none());
    }

    #[test]
    fn we_see_ourselves() {
        let me = rustix::process::getpid().as_raw_pid();
        let sight = look(me).expect("we run");
        assert_eq!(sight.pid, me);
        assert_eq!(Some(sight.parent), rustix::process::getppid().map(Pid::as_raw_pid));
        assert_eq!(look(i32::MAX), None);
    }
}
