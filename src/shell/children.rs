//! Starts programs for tools and makes sure that none of them outlives its call.
//!
//! Every program has a supervisor (`supervisor.rs`): this binary, executed again as a process between the server and the program. All
//! descendants of the program stay below it. When a call ends, or the server dies, the supervisor's control socket is closed, and it
//! kills all its descendants. A command may kill its supervisor, because it runs as the same user. Its processes then become children
//! of the server, if the server is a child subreaper (the binary is; a host program that embeds it decides for itself), and are killed
//! here: a direct child that the server did not start is an orphan of a killed supervisor.
//!
//! One thread starts, reaps and classifies the direct children, so that a supervisor that has just been started is never taken for
//! an orphan.
//!
//! If the server and a supervisor are killed at the same time, the processes below it go on. They have a marker in their environment,
//! by which the next server finds them ([`sweep`]), unless they have removed it.

mod confine;
mod environment;
mod processes;
pub mod procfs;
mod supervisor;
pub mod supervisors;
pub mod trial;

pub(crate) use supervisor::VERB;
pub use supervisor::child_main;

use crate::limits::{Limits, ORPHANS_KILL_MS, ORPHANS_RETRY_MS, SUPERVISOR_CONTINUE_MS};
use crate::tool::{Child, Finished, Launch, ReadOnly, Spawn};
use environment::Environment;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitId, WaitIdOptions};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use supervisors::Supervisors;

/// The environment variable of every child and its descendants: `<instance>:<number>`.
pub const MARKER: &str = "GEMINI_A2A_CHILD";

/// How children are started.
pub struct Plan {
    /// The binary whose main calls [`child_main`]: `/proc/self/exe` for the server itself, so that replacing the file does not matter.
    pub exe: PathBuf,
    /// Marks the children of this server. The next server in the same state directory may have the same id.
    pub instance: String,
    /// The environment to choose from.
    pub env: Vec<(OsString, OsString)>,
    /// Real paths of all directories that tasks may work in. Programs from there are not system programs.
    pub workspaces: Vec<PathBuf>,
    /// Real paths that no command may read without approval: the home directory and the state directory.
    pub private: Vec<PathBuf>,
}

/// Starts children. Dropping it ends them all.
pub struct Children {
    orders: mpsc::Sender<Order>,
    exe: PathBuf,
    instance: String,
    next: AtomicU64,
    approved: Environment,
    read_only: Environment,
    /// Directories with programs that commands without approval may run.
    programs: Vec<PathBuf>,
    private: Vec<PathBuf>,
    /// Whether the kernel can confine commands.
    confinement: Result<(), String>,
    supervisors: Supervisors,
    controls: Controls,
    patience: Patience,
}

/// Requests to the thread that owns the direct children.
enum Order {
    Start {
        command: Command,
        control: Arc<UnixStream>,
        reply: mpsc::Sender<io::Result<std::process::Child>>,
    },
    /// Reap a supervisor that has ended or was killed, and kill what it left.
    Reap {
        child: std::process::Child,
        end: SupervisorEnd,
        reply: mpsc::Sender<()>,
    },
    /// Kill all remaining processes of commands and their supervisors, because the server ends.
    EndAll {
        reply: mpsc::Sender<()>,
    },
}

/// Whether a supervisor said that nothing is left below it.
#[derive(Clone, Copy, PartialEq)]
enum SupervisorEnd {
    Orderly,
    Abnormal,
}

/// The control sockets of live supervisors, by process number.
#[derive(Clone, Default)]
struct Controls(Arc<Mutex<HashMap<u32, Arc<UnixStream>>>>);

impl Controls {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<UnixStream>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells every supervisor to end its command, also supervisors that their command has stopped. Returns their control sockets.
    fn end_all(&self) -> Vec<Arc<UnixStream>> {
        // While this is locked none of them is reaped, so their pids are not reused.
        let live = self.lock();
        for (pid, control) in live.iter() {
            let _ = control.shutdown(Shutdown::Write);
            signal(*pid, Signal::CONT);
        }
        live.values().cloned().collect()
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Waits until a process has ended, without reaping it.
fn wait_for_end(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    }
}

impl Children {
    pub fn new(plan: Plan, limits: &Limits) -> io::Result<Children> {
        // Otherwise a child could read the environment and memory of the server under /proc. Root always can.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let approved = environment::approved(plan.env);
        let programs = environment::program_directories(&approved, &plan.workspaces, &plan.private);
        let supervisors = Supervisors::default();
        let (orders, inbox) = mpsc::channel::<Order>();
        let controls = Controls::default();
        let keeper = Keeper { supervisors: supervisors.clone(), controls: controls.clone(), unclear: Vec::new() };
        thread::Builder::new().name("children".into()).stack_size(256 * 1024).spawn(move || keeper.run(inbox))?;
        Ok(Children {
            orders,
            exe: plan.exe,
            instance: plan.instance,
            next: AtomicU64::new(1),
            read_only: environment::read_only(&approved, &programs),
            approved,
            programs,
            private: plan.private,
            confinement: confine::available(),
            supervisors,
            controls,
            patience: Patience {
                start: Duration::from_millis(limits.supervisor_start_ms),
                end: Duration::from_millis(limits.supervisor_end_ms),
            },
        })
    }

    pub fn supervisors(&self) -> Supervisors {
        self.supervisors.clone()
    }

    /// Ends every command, for the end of the server. Waits for their processes up to a limit.
    pub fn end_all(&self) {
        let until = Instant::now() + self.patience.end;
        for control in self.controls.end_all() {
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
            let _ = poll(&mut [PollFd::new(&*control, PollFlags::empty())], left.as_ref());
        }
        // A supervisor that still runs is stuck; the processes of a killed one are children of the server.
        let (reply, done) = mpsc::channel();
        if self.orders.send(Order::EndAll { reply }).is_ok() {
            let _ = done.recv_timeout(self.patience.end);
        }
    }

    fn command(&self, launch: &Launch) -> Command {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut command = Command::new(&self.exe);
        command.arg(supervisor::VERB);
        let env = match &launch.read_only {
            None => &self.approved,
            Some(ReadOnly { workspace, writable }) => {
                command.arg(supervisor::WORKSPACE).arg(workspace);
                for file in writable {
                    command.arg(supervisor::WRITABLE).arg(file);
                }
                for dir in &self.programs {
                    command.arg(supervisor::PROGRAMS).arg(dir);
                }
                &self.read_only
            }
        };
        let (program, args) =
            launch.argv.split_first().map_or((OsStr::new(""), &[][..]), |(first, rest)| (first, rest));
        command
            .arg(supervisor::END)
            .arg(environment::located(program, &self.programs))
            .args(args)
            .env_clear()
            .envs(env.iter().map(|(name, value)| (name, value)))
            .env(MARKER, format!("{}:{number}", self.instance))
            // By its descriptor: its name may refer to another directory by now.
            .current_dir(format!("/proc/self/fd/{}", launch.dir.as_raw_fd()));
        command
    }
}

impl Spawn for Children {
    fn spawn(&self, launch: Launch) -> io::Result<Box<dyn Child>> {
        let (output, writer) = io::pipe()?;
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = self.command(&launch);
        command.stdin(OwnedFd::from(theirs)).stdout(writer.try_clone()?).stderr(writer);
        let control = Arc::new(ours);
        let (reply, answer) = mpsc::channel();
        self.orders.send(Order::Start { command, control: control.clone(), reply }).map_err(|_| gone())?;
        let child = answer.recv().map_err(|_| gone())??;
        let mut process = Process {
            child: Some(child),
            control,
            pid: 0,
            output: OwnedFd::from(output),
            orders: self.orders.clone(),
            patience: self.patience,
        };
        process.pid = process.handshake()?;
        Ok(Box::new(process))
    }

    fn can_confine(&self, workspace: &Path) -> Result<(), String> {
        self.confinement.clone()?;
        if let Some(dir) = self.private.iter().find(|dir| dir.starts_with(workspace)) {
            return Err(format!("The workspace contains {}, which commands must not read", dir.display()));
        }
        match self.private.iter().find(|dir| confine::is_of_system(dir)) {
            Some(dir) => Err(format!("{} is in a directory of the system, where commands may read", dir.display())),
            None => Ok(()),
        }
    }

    fn can_run_confined(&self, program: &str) -> Result<(), String> {
        match environment::found(program.as_ref(), &self.approved) {
            Some(path) if !confine::can_run(&path, &self.programs) => {
                Err(format!("{} is not a program of the system", path.display()))
            }
            // A program that does not exist has no effect.
            Some(_) | None => Ok(()),
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts programs is gone")
}

/// Owns the direct children: starts them, reaps them, and kills the orphans of killed supervisors.
struct Keeper {
    supervisors: Supervisors,
    controls: Controls,
    /// Supervisors that have ended and whose processes may still run.
    unclear: Vec<std::process::Child>,
}

impl Keeper {
    fn run(mut self, inbox: mpsc::Receiver<Order>) {
        let retry = Duration::from_millis(ORPHANS_RETRY_MS);
        loop {
            let order = if self.unclear.is_empty() {
                inbox.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected)
            } else {
                inbox.recv_timeout(retry)
            };
            match order {
                Ok(order) => self.carry_out(order),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            for child in std::mem::take(&mut self.unclear) {
                self.reap(child, SupervisorEnd::Abnormal);
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Start { mut command, control, reply } => {
                let started = command.spawn();
                // It still holds the child's ends of pipe and socket; both must close with the child.
                drop(command);
                if let Ok(child) = &started {
                    // Registered before its program can start: from then on a peer may be a tool's process.
                    self.supervisors.begin(child.id());
                    self.controls.lock().insert(child.id(), control.clone());
                    let _ = (&*control).write_all(&[supervisor::GO]);
                }
                let _ = reply.send(started);
            }
            Order::Reap { child, end, reply } => {
                // It was killed; its processes become children of the server when it has ended.
                wait_for_end(child.id());
                self.reap(child, end);
                let _ = reply.send(());
            }
            Order::EndAll { reply } => {
                let supervisors = self.supervisors.pids();
                supervisors.iter().for_each(|pid| signal(*pid, Signal::KILL));
                supervisors.iter().for_each(|pid| wait_for_end(*pid));
                let _ = self.kill_orphans();
                let _ = reply.send(());
            }
        }
    }

    /// Reaps a supervisor that has ended, after the processes that it left were killed. Until then its pid is not reused, and it
    /// counts as alive, because a peer may be one of its processes.
    fn reap(&mut self, mut child: std::process::Child, end: SupervisorEnd) {
        let left = match end {
            SupervisorEnd::Orderly => Ok(()),
            SupervisorEnd::Abnormal => self.kill_orphans(),
        };
        if left.is_err() {
            self.unclear.push(child);
            return;
        }
        self.controls.lock().remove(&child.id());
        let _ = child.wait();
        self.supervisors.end(child.id());
    }

    /// Kills every direct child that is no supervisor, with its descendants. Not if this process does not adopt orphans: then its
    /// other children are the host program's own.
    fn kill_orphans(&self) -> io::Result<()> {
        if !matches!(rustix::process::child_subreaper(), Ok(Some(_))) {
            return Ok(());
        }
        let known = self.supervisors.pids();
        let patience = Duration::from_millis(ORPHANS_KILL_MS);
        processes::kill_children(|pid| !known.contains(&pid), |_, _| {}, patience)?;
        Ok(())
    }
}

/// A program and its descendants, below their supervisor.
struct Process {
    /// None after it was passed on to be reaped.
    child: Option<std::process::Child>,
    control: Arc<UnixStream>,
    pid: u32,
    output: OwnedFd,
    orders: mpsc::Sender<Order>,
    patience: Patience,
}

/// How long supervisors are waited for. See `limits.rs`.
#[derive(Clone, Copy)]
struct Patience {
    start: Duration,
    end: Duration,
}

impl Process {
    /// Waits for the supervisor's first line, which says whether the program was started. It is read byte by byte: the next line must
    /// stay in the socket, where `over` sees it.
    fn handshake(&mut self) -> io::Result<u32> {
        let step = Duration::from_millis(SUPERVISOR_CONTINUE_MS);
        self.control.set_read_timeout(Some(step.min(self.patience.start)))?;
        let until = Instant::now() + self.patience.start;
        let mut line = Vec::new();
        let mut byte = [0];
        while line.last() != Some(&b'\n') {
            match (&*self.control).read(&mut byte) {
                Ok(0) => return Err(io::Error::other("the supervisor ended before it started the program")),
                Ok(_) => line.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if Instant::now() < until => self.go_on(),
                Err(_) => return Err(io::Error::other("the supervisor did not start the program in time")),
            }
        }
        let line = String::from_utf8_lossy(&line);
        let words: Vec<&str> = line.trim_end().splitn(3, ' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<i32>().ok());
        match words.first() {
            Some(&"started") => number(1).and_then(|pid| u32::try_from(pid).ok()),
            Some(&"failed") => {
                let text = words.get(2).copied().unwrap_or("for an unknown reason");
                return Err(match number(1) {
                    Some(errno) if errno > 0 => io::Error::from_raw_os_error(errno),
                    Some(_) | None => io::Error::other(text.to_owned()),
                });
            }
            Some(_) | None => None,
        }
        .ok_or_else(|| io::Error::other("the supervisor's answer cannot be read"))
    }

    /// Continues the supervisor: its command may have stopped it.
    fn go_on(&self) {
        if let Some(child) = &self.child {
            signal(child.id(), Signal::CONT);
        }
    }

    fn end_all(&mut self) -> io::Result<Finished> {
        let _ = self.control.shutdown(Shutdown::Write);
        self.go_on();
        let Some(mut child) = self.child.take() else {
            return Err(io::Error::other("it has been ended before"));
        };
        let report = self.report();
        let end = match report.strays {
            Some(_) => SupervisorEnd::Orderly,
            None => SupervisorEnd::Abnormal,
        };
        // It has finished, or it was killed or stopped or is stuck. In the latter cases its processes become children of the server.
        let _ = child.kill();
        let (reply, reaped) = mpsc::channel();
        self.orders.send(Order::Reap { child, end, reply }).map_err(|_| gone())?;
        reaped.recv().map_err(|_| gone())?;
        let killed = || ExitStatus::from_raw(Signal::KILL.as_raw());
        Ok(Finished { status: report.status.unwrap_or_else(killed), strays: report.strays.unwrap_or_default() })
    }

    /// What the supervisor reports until it ends or the time limit passes.
    fn report(&self) -> Report {
        let mut report = Report::default();
        let _ = self.control.set_read_timeout(Some(self.patience.end));
        for line in BufReader::new(&*self.control).lines() {
            let Ok(line) = line else {
                break;
            };
            if let Some(status) = line.strip_prefix("exited ") {
                report.status = status.parse().ok().map(ExitStatus::from_raw);
            } else if let Some(strays) = line.strip_prefix("gone") {
                report.strays = Some(strays.split_whitespace().filter_map(|pid| pid.parse().ok()).collect());
                break;
            }
        }
        report
    }
}

#[derive(Default)]
struct Report {
    status: Option<ExitStatus>,
    /// None if the supervisor did not report that nothing is left.
    strays: Option<Vec<u32>>,
}

impl Child for Process {
    fn id(&self) -> u32 {
        self.pid
    }

    fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    fn over(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    fn ask(&self) {
        let _ = (&*self.control).write_all(&[supervisor::TERMINATE]);
    }

    fn finish(mut self: Box<Self>) -> io::Result<Finished> {
        self.end_all()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.is_some() {
            let _ = self.end_all();
        }
    }
}

/// Ends every process with the marker of one of `instances`, which are servers that have ended, and returns them. One pass finds
/// them all, because it reads the environment of every process.
pub fn sweep<'a>(instances: impl IntoIterator<Item = &'a str>) -> Vec<u32> {
    let markers: Vec<Vec<u8>> = instances.into_iter().map(|id| format!("{MARKER}={id}:").into_bytes()).collect();
    let is_marked = |pid: u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| markers.iter().any(|marker| variable.starts_with(marker)))
    };
    let find = || {
        // Nearly always there is none, and then no start times have to be read.
        if !procfs::pids().any(is_marked) {
            return Vec::new();
        }
        let all = processes::all();
        let marked: Vec<processes::Process> = all.iter().filter(|one| is_marked(one.pid)).copied().collect();
        let below = marked.iter().flat_map(|one| processes::below(&all, one.pid));
        marked.iter().copied().chain(below).filter(|one| one.pid != std::process::id()).collect()
    };
    let mut pids: Vec<u32> = processes::kill_all(find).iter().map(|process| process.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}
