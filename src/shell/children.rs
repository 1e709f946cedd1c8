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
use rustix::process::{DumpableBehavior, Signal, WaitId, WaitIdOptions};
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
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
    keeper: KeeperThread,
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
    patience: Patience,
}

/// Runs work on the thread that owns the direct children.
#[derive(Clone)]
struct KeeperThread(mpsc::Sender<Work>);

type Work = Box<dyn FnOnce(&mut Keeper) + Send>;

impl KeeperThread {
    /// Returns the result of `work`. An error means that the thread is gone, or that `work` took longer than `patience`.
    fn run<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce(&mut Keeper) -> T + Send + 'static,
    ) -> io::Result<T> {
        let gone = || io::Error::other("the thread that starts programs is gone");
        let (reply, result) = mpsc::channel();
        let work = move |keeper: &mut Keeper| drop(reply.send(work(keeper)));
        self.0.send(Box::new(work)).map_err(|_| gone())?;
        result.recv_timeout(patience).map_err(|_| gone())
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = processes::pid(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Waits until a process has ended, without reaping it.
fn wait_for_end(pid: u32) {
    if let Some(pid) = processes::pid(pid) {
        let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    }
}

impl Children {
    pub fn new(plan: Plan, limits: &Limits) -> io::Result<Children> {
        // Otherwise a child could read the environment and memory of the server under /proc. Root always can.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let approved = environment::approved(plan.env);
        let programs = environment::program_directories(&approved, &plan.workspaces, &plan.private);
        let supervisors = Supervisors::of_process();
        let (sender, inbox) = mpsc::channel();
        let keeper = Keeper { supervisors: supervisors.clone(), unclear: Vec::new() };
        thread::Builder::new().name("children".into()).stack_size(256 * 1024).spawn(move || keeper.run(&inbox))?;
        Ok(Children {
            keeper: KeeperThread(sender),
            exe: plan.exe,
            instance: plan.instance,
            next: AtomicU64::new(1),
            read_only: environment::read_only(&approved, &programs),
            approved,
            programs,
            private: plan.private,
            confinement: confine::available(),
            supervisors,
            patience: Patience {
                start: Duration::from_millis(limits.supervisor_start_ms),
                end: Duration::from_millis(limits.supervisor_end_ms),
            },
        })
    }

    /// Whether commands find this program.
    pub fn finds(&self, program: &str) -> bool {
        environment::find_program(program.as_ref(), &environment::path_of(&self.approved)).is_some()
    }

    pub fn supervisors(&self) -> Supervisors {
        self.supervisors.clone()
    }

    /// Ends every command, for the end of the server. Waits for their processes up to a limit.
    pub fn end_all(&self) {
        let until = Instant::now() + self.patience.end;
        for control in self.supervisors.end_commands(|pid| signal(pid, Signal::CONT)) {
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
            let _ = poll(&mut [PollFd::new(&*control, PollFlags::empty())], left.as_ref());
        }
        // A supervisor that still runs is stuck; the processes of a killed one are children of the server.
        let _ = self.keeper.run(self.patience.end, Keeper::kill_all);
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
        // The server chose the program, so no program of a workspace may replace it.
        let path = environment::find_program(program, &self.programs);
        command
            .arg(supervisor::END)
            .arg(path.as_ref().map_or(program, |path| path.as_os_str()))
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
        let server_end = control.clone();
        let child = self.keeper.run(Duration::MAX, move |keeper| keeper.start(command, server_end))??;
        let mut process = Process {
            child: Some(child),
            control,
            pid: 0,
            output: OwnedFd::from(output),
            keeper: self.keeper.clone(),
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
        match environment::find_program(program.as_ref(), &environment::path_of(&self.approved)) {
            Some(path) if !confine::can_run(&path, &self.programs) => {
                Err(format!("{} is not a program of the system", path.display()))
            }
            // A program that does not exist has no effect.
            Some(_) | None => Ok(()),
        }
    }
}

/// Owns the direct children: starts them, reaps them, and kills the orphans of killed supervisors.
struct Keeper {
    supervisors: Supervisors,
    /// Supervisors that have ended and whose processes may still run.
    unclear: Vec<std::process::Child>,
}

impl Keeper {
    fn run(mut self, inbox: &mpsc::Receiver<Work>) {
        loop {
            match inbox.recv_timeout(self.wait()) {
                Ok(work) => work(&mut self),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            for child in std::mem::take(&mut self.unclear) {
                self.reap_killed(child);
            }
        }
    }

    /// How long it waits for work before it kills what supervisors have left.
    fn wait(&self) -> Duration {
        if self.unclear.is_empty() { Duration::MAX } else { Duration::from_millis(ORPHANS_RETRY_MS) }
    }

    fn start(&mut self, mut command: Command, control: Arc<UnixStream>) -> io::Result<std::process::Child> {
        let child = command.spawn();
        // It still holds the child's ends of pipe and socket; both must close with the child.
        drop(command);
        if let Ok(child) = &child {
            // Registered before its program can start: from then on a peer may be a tool's process.
            self.supervisors.begin(child.id(), control.clone());
            let _ = (&*control).write_all(&[supervisor::GO]);
        }
        child
    }

    /// Kills all remaining processes of commands and their supervisors, because the server ends.
    fn kill_all(&mut self) {
        let supervisors = self.supervisors.own_pids();
        supervisors.iter().for_each(|pid| signal(*pid, Signal::KILL));
        supervisors.iter().for_each(|pid| wait_for_end(*pid));
        let _ = self.kill_orphans();
    }

    /// Reaps a supervisor below which no process is left. Until it is reaped its pid is not reused.
    fn reap(&mut self, mut child: std::process::Child) {
        self.supervisors.end(child.id());
        let _ = child.wait();
    }

    /// Reaps a supervisor that has ended, after the processes that it left were killed. Until then it counts as alive, because a
    /// peer may be one of its processes.
    fn reap_killed(&mut self, child: std::process::Child) {
        match self.kill_orphans() {
            Ok(()) => self.reap(child),
            Err(_) => self.unclear.push(child),
        }
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
    /// None after it was given to the keeper to be reaped.
    child: Option<std::process::Child>,
    control: Arc<UnixStream>,
    pid: u32,
    output: OwnedFd,
    keeper: KeeperThread,
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
        let (status, strays) = self.report();
        // It has finished, or it was killed or stopped or is stuck. In the latter cases its processes become children of the server.
        let _ = child.kill();
        let is_orderly = strays.is_some();
        self.keeper.run(Duration::MAX, move |keeper| {
            wait_for_end(child.id());
            if is_orderly { keeper.reap(child) } else { keeper.reap_killed(child) }
        })?;
        let killed = || ExitStatus::from_raw(Signal::KILL.as_raw());
        Ok(Finished { status: status.unwrap_or_else(killed), strays: strays.unwrap_or_default() })
    }

    /// What the supervisor reports until it ends or the time limit passes: the status of the program, and the processes that it
    /// killed. These are None if it did not report that nothing is left.
    fn report(&self) -> (Option<ExitStatus>, Option<Vec<u32>>) {
        let mut exited = None;
        let _ = self.control.set_read_timeout(Some(self.patience.end));
        for line in BufReader::new(&*self.control).lines().map_while(Result::ok) {
            if let Some(status) = line.strip_prefix("exited ") {
                exited = status.parse().ok().map(ExitStatus::from_raw);
            } else if let Some(strays) = line.strip_prefix("gone") {
                return (exited, Some(strays.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()));
            }
        }
        (exited, None)
    }
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
    let mut pids: Vec<u32> =
        processes::kill_all(find, processes::wait_for_end).iter().map(|process| process.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process whose supervisor has already sent `line`, or never sends anything.
    fn handshake(line: &str, start: Duration) -> (io::Result<u32>, Option<Duration>) {
        let (server, supervisor) = UnixStream::pair().expect("sockets can be made");
        (&supervisor).write_all(line.as_bytes()).expect("the socket takes a line");
        let output = OwnedFd::from(server.try_clone().expect("a descriptor"));
        let keeper = KeeperThread(mpsc::channel().0);
        let patience = Patience { start, end: start };
        let mut process = Process { child: None, control: Arc::new(server), pid: 0, output, keeper, patience };
        (process.handshake(), process.control.read_timeout().expect("a socket has one"))
    }

    #[test]
    fn a_silent_supervisor_is_continued_in_steps_until_its_time_is_over() {
        let step = Duration::from_millis(SUPERVISOR_CONTINUE_MS);
        let (pid, read) = handshake("started 7\n", 20 * step);
        assert_eq!((pid.expect("it has started"), read), (7, Some(step)));
        let (silent, read) = handshake("", Duration::from_millis(1));
        assert_eq!(silent.unwrap_err().to_string(), "the supervisor did not start the program in time");
        // The kernel rounds the time up to its ticks.
        assert!(read < Some(step), "a step is not longer than the whole wait: {read:?}");
    }

    #[test]
    fn the_keeper_retries_only_while_a_supervisor_has_left_processes() {
        let mut keeper = Keeper { supervisors: Supervisors::default(), unclear: Vec::new() };
        assert_eq!(keeper.wait(), Duration::MAX);
        keeper.unclear.push(Command::new("true").spawn().expect("a program starts"));
        assert_eq!(keeper.wait(), Duration::from_millis(ORPHANS_RETRY_MS));
        keeper.unclear[0].wait().expect("it ends");
    }
}
