//! Starts programs for tools and makes sure that none of them outlives its call.
//!
//! Every program has a supervisor (`supervisor.rs`): this binary, executed again as a process between the server and the program. All
//! descendants of the program stay below the supervisor. When a call ends, or the server dies, the supervisor's control socket is closed,
//! and the supervisor kills all its descendants. A command may kill its supervisor, because it runs as the same user. Its processes then
//! become children of the server, if the server is a child subreaper (the binary is; a host program that embeds it decides for itself),
//! and are killed here: a direct child that the server did not start is an orphan of a killed supervisor.
//!
//! One thread owns the direct children (`reaper.rs`).
//!
//! If the server and a supervisor are killed at the same time, the processes below the supervisor go on. They have a marker in their
//! environment, by which the next server finds them ([`sweep`]), unless they have removed it.

pub mod confine;
pub mod environment;
mod git_identity;
mod processes;
pub mod procfs;
pub mod reaper;
mod supervisor;
pub mod supervisors;
pub mod trial;

pub(crate) use supervisor::VERB;
pub use supervisor::child_main;

use crate::limits::{Limits, SUPERVISOR_CONTINUE_MS};
use crate::tool::{Child, Finished, Io, Launch, Pipes, ReadOnly, Spawn};
use environment::Environment;
use reaper::{Reaper, ReaperThread, signal, wait_for_end};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Signal};
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use supervisors::Supervisors;
use trial::Trial;

/// The environment variable of every child and its descendants: `<instance>:<number>`.
pub const MARKER: &str = "GEMINI_A2A_CHILD";

/// How children are started.
pub struct ChildSettings {
    /// The binary whose main calls [`child_main`]: `/proc/self/exe` for the server itself, so that replacing the file does not matter.
    pub exe: PathBuf,
    /// Marks the children of this server. The next server in the same state directory may have the same id.
    pub instance: String,
    /// The environment to choose from.
    pub env: Vec<(OsString, OsString)>,
    /// Real paths of all directories that tasks may work in. Programs in them are not system programs.
    pub workspaces: Vec<PathBuf>,
    /// Real paths that no command may read without approval: the home directory and the state directory.
    pub private: Vec<PathBuf>,
    /// The directory for the files that tell git the user's name. None: git is not told it.
    pub git: Option<PathBuf>,
}

/// Starts children. Dropping it ends them all.
pub struct Children {
    reaper: ReaperThread,
    exe: PathBuf,
    instance: String,
    next: AtomicU64,
    /// The environment of approved commands.
    approved: Environment,
    /// The environment of commands that run without approval.
    read_only: Environment,
    /// The environment of programs that are servers.
    server: Environment,
    /// Directories with programs that commands without approval may run.
    programs: Vec<PathBuf>,
    private: Vec<PathBuf>,
    git: Option<PathBuf>,
    /// Whether the kernel can confine commands; an error says why not.
    confinement: Result<(), String>,
    supervisors: Supervisors,
    timeouts: Timeouts,
}

impl Children {
    pub fn new(settings: ChildSettings, limits: &Limits) -> io::Result<Children> {
        // Otherwise a child could read the environment and memory of the server under /proc. Root always can.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let server = environment::server(&settings.env);
        let approved = environment::approved(settings.env);
        let programs = environment::program_directories(&approved, &settings.workspaces, &settings.private);
        let supervisors = Supervisors::of_process();
        Ok(Children {
            reaper: ReaperThread::start(supervisors.clone())?,
            exe: settings.exe,
            instance: settings.instance,
            next: AtomicU64::new(1),
            read_only: environment::read_only(&approved, &programs),
            approved,
            server,
            programs,
            private: settings.private,
            git: settings.git,
            confinement: confine::available(),
            supervisors,
            timeouts: Timeouts {
                start: Duration::from_millis(limits.supervisor_start_ms),
                retry: Duration::from_millis(limits.thread_retry_ms),
                end: Duration::from_millis(limits.supervisor_end_ms),
            },
        })
    }

    /// Starts no command until a trial has been answered. If it is not answered within the time that supervisors have to start, it is
    /// killed, and no command is ever started.
    pub fn await_trial(&self, trial: Trial) -> io::Result<()> {
        let until = Instant::now() + self.timeouts.start;
        self.reaper.run(Duration::MAX, move |reaper| reaper.await_trial(trial, until))
    }

    /// Reaps processes that this process has adopted and that have ended. Returns at once.
    pub fn reap_adopted(&self) {
        self.reaper.reap_adopted();
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
        let until = Instant::now() + self.timeouts.end;
        for control in self.supervisors.end_commands(|pid| signal(pid, Signal::CONT)) {
            let remaining = || Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
            // SIGCHLD may interrupt the wait.
            while poll(&mut [PollFd::new(&*control, PollFlags::empty())], remaining().as_ref()) == Err(Errno::INTR) {}
        }
        // Kills supervisors that are stuck, and the processes of killed supervisors, which are children of the server.
        let _ = self.reaper.run(self.timeouts.end, Reaper::kill_all);
    }

    fn try_spawn(&self, launch: &Launch, env: &Environment) -> io::Result<Box<dyn Child>> {
        let (output, writer) = io::pipe()?;
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = self.command(launch, env);
        command.stdin(OwnedFd::from(theirs));
        let (pipes, input) = match launch.io {
            Io::Merged => {
                command.stderr(writer.try_clone()?);
                (None, None)
            }
            Io::Piped => {
                let ((errors, theirs), (input, sender)) = (io::pipe()?, io::pipe()?);
                command.stderr(theirs);
                (Some(Pipes { input: sender.into(), errors: errors.into() }), Some(OwnedFd::from(input)))
            }
        };
        command.stdout(writer);
        let control = Arc::new(ours);
        let server_end = control.clone();
        let child = self.reaper.run(Duration::MAX, move |reaper| reaper.start(command, server_end, input))??;
        let mut process = SupervisedProgram {
            child: Some(child),
            control,
            pid: 0,
            output: OwnedFd::from(output),
            pipes,
            reaper: self.reaper.clone(),
            timeouts: self.timeouts,
        };
        process.pid = process.handshake()?;
        Ok(Box::new(process))
    }

    /// The environment of a command. An approved one gets the user's name for git.
    fn environment(&self, launch: &Launch) -> Environment {
        let mut env = match (launch.io, &launch.read_only) {
            (Io::Piped, _) => self.server.clone(),
            (Io::Merged, Some(_)) => self.read_only.clone(),
            (Io::Merged, None) => match self.git_configuration(launch) {
                None => self.approved.clone(),
                Some(file) => {
                    let mut env = git_identity::without_configuration(&self.approved);
                    env.push((git_identity::VARIABLE.into(), file.into()));
                    env
                }
            },
        };
        env.extend_from_slice(&launch.env);
        env
    }

    /// A file with the user's name and e-mail, as git's configuration has them for the directory of the command.
    fn git_configuration(&self, launch: &Launch) -> Option<PathBuf> {
        let dir = self.git.as_ref()?;
        // No program of a workspace may be run here.
        let find = |name: &str| environment::find_program(name.as_ref(), &self.programs);
        let argv = git_identity::question(find("bash").or_else(|| find("sh"))?, find("git")?);
        let question = Launch::command(argv, launch.dir.try_clone().ok()?);
        let child = self.try_spawn(&question, &git_identity::without_configuration(&self.approved)).ok()?;
        let configuration = git_identity::configuration(&git_identity::answer(&*child)?)?;
        git_identity::store(dir, &configuration).ok()
    }

    fn command(&self, launch: &Launch, env: &Environment) -> Command {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut command = Command::new(&self.exe);
        command.arg(supervisor::VERB);
        if launch.io == Io::Piped {
            command.arg(supervisor::PIPED);
        }
        if let Some(ReadOnly { workspace, writable }) = &launch.read_only {
            command.arg(supervisor::WORKSPACE).arg(workspace);
            for file in writable {
                command.arg(supervisor::WRITABLE).arg(file);
            }
            for dir in &self.programs {
                command.arg(supervisor::PROGRAMS).arg(dir);
            }
        }
        let (program, args) =
            launch.argv.split_first().map_or((OsStr::new(""), &[][..]), |(first, rest)| (first, rest));
        // The server chose the program by its name, so no program of a workspace may replace it.
        let path = environment::find_program(program, &self.programs);
        command
            .arg(supervisor::END)
            .arg(path.as_ref().map_or(program, |path| path.as_os_str()))
            .args(args)
            .env_clear()
            .envs(env.iter().map(|(name, value)| (name, value)))
            .env(MARKER, format!("{}:{number}", self.instance))
            // By its descriptor: its name may refer to another directory meanwhile.
            .current_dir(format!("/proc/self/fd/{}", launch.dir.as_raw_fd()));
        command
    }
}

impl Spawn for Children {
    /// If the system has no process left, waits for one: idle threads of this server end soon.
    fn spawn(&self, launch: Launch) -> io::Result<Box<dyn Child>> {
        let env = self.environment(&launch);
        let until = Instant::now() + self.timeouts.start;
        loop {
            match self.try_spawn(&launch, &env) {
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && Instant::now() < until => {
                    thread::sleep(self.timeouts.retry);
                }
                spawned => return spawned,
            }
        }
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

/// A program and its descendants, below their supervisor.
struct SupervisedProgram {
    /// The supervisor. None after it was passed to the reaper.
    child: Option<std::process::Child>,
    control: Arc<UnixStream>,
    pid: u32,
    output: OwnedFd,
    pipes: Option<Pipes>,
    reaper: ReaperThread,
    timeouts: Timeouts,
}

/// How long supervisors are waited for.
#[derive(Clone, Copy)]
struct Timeouts {
    start: Duration,
    /// Between two attempts to start one.
    retry: Duration,
    end: Duration,
}

impl SupervisedProgram {
    /// Waits for the supervisor's first line, which says whether the program was started. The line is read byte by byte: the next line must
    /// stay in the socket, so that [`Child::over`] becomes readable.
    fn handshake(&mut self) -> io::Result<u32> {
        let step = Duration::from_millis(SUPERVISOR_CONTINUE_MS);
        self.control.set_read_timeout(Some(step.min(self.timeouts.start)))?;
        let until = Instant::now() + self.timeouts.start;
        let mut line = Vec::new();
        let mut byte = [0];
        while line.last() != Some(&b'\n') {
            match (&*self.control).read(&mut byte) {
                Ok(0) => return Err(io::Error::other("the supervisor ended before it started the program")),
                Ok(_) => line.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if Instant::now() < until => self.continue_supervisor(),
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

    /// Continues the supervisor (SIGCONT): its command may have stopped it.
    fn continue_supervisor(&self) {
        if let Some(child) = &self.child {
            signal(child.id(), Signal::CONT);
        }
    }

    fn end_all(&mut self) -> io::Result<Finished> {
        let _ = self.control.shutdown(Shutdown::Write);
        self.continue_supervisor();
        let Some(mut child) = self.child.take() else {
            return Err(io::Error::other("the command has been ended before"));
        };
        let (status, strays) = self.report();
        // The supervisor has ended, or it was killed or stopped or is stuck. Then its processes become children of the server.
        let _ = child.kill();
        let is_orderly = strays.is_some();
        self.reaper.run(Duration::MAX, move |reaper| {
            wait_for_end(child.id());
            if is_orderly { reaper.reap(child) } else { reaper.reap_killed(child) }
        })?;
        let killed = || ExitStatus::from_raw(Signal::KILL.as_raw());
        Ok(Finished { status: status.unwrap_or_else(killed), strays: strays.unwrap_or_default() })
    }

    /// What the supervisor reports until it ends or the time limit passes: the status of the program, and the processes that it
    /// killed. The processes are None if the supervisor did not report that no process is left.
    fn report(&self) -> (Option<ExitStatus>, Option<Vec<u32>>) {
        let mut exited = None;
        let _ = self.control.set_read_timeout(Some(self.timeouts.end));
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

impl Child for SupervisedProgram {
    fn id(&self) -> u32 {
        self.pid
    }

    fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    fn take_pipes(&mut self) -> Option<Pipes> {
        self.pipes.take()
    }

    fn exited(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    fn terminate(&self) {
        let _ = (&*self.control).write_all(&[supervisor::TERMINATE]);
    }

    fn finish(mut self: Box<Self>) -> io::Result<Finished> {
        self.end_all()
    }
}

impl Drop for SupervisedProgram {
    fn drop(&mut self) {
        if self.child.is_some() {
            let _ = self.end_all();
        }
    }
}

/// Kills every process with the marker of one of `instances`, which are servers that have ended, and returns the pids. One pass finds
/// all of them, because it reads the environment of every process.
pub fn sweep<'a>(instances: impl IntoIterator<Item = &'a str>) -> Vec<u32> {
    let markers: Vec<Vec<u8>> = instances.into_iter().map(|id| format!("{MARKER}={id}:").into_bytes()).collect();
    let is_marked = |pid: u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| markers.iter().any(|marker| variable.starts_with(marker)))
    };
    let find = || {
        // Nearly always no process is marked; then no start times have to be read.
        if !procfs::pids().any(is_marked) {
            return Vec::new();
        }
        let all = processes::all();
        let marked: Vec<processes::Process> = all.iter().filter(|one| is_marked(one.pid)).copied().collect();
        let descendants = marked.iter().flat_map(|one| processes::descendants(&all, one.pid));
        marked.iter().copied().chain(descendants).filter(|one| one.pid != std::process::id()).collect()
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
        let reaper = ReaperThread::start(Supervisors::default()).expect("a thread");
        let timeouts = Timeouts { start, retry: start, end: start };
        let mut process =
            SupervisedProgram { child: None, control: Arc::new(server), pid: 0, output, pipes: None, reaper, timeouts };
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
}
