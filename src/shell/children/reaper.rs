//! The thread that owns the direct children of the server. It alone starts, reaps and classifies them, so that a supervisor that has
//! just been started is never taken for an orphan. They are reaped by pid: other code of this process may wait for children of its own.

use super::trial::{Answer, Trial};
use super::{processes, supervisor};
use crate::base::lock::lock;
use crate::limits::{ORPHANS_KILL_MS, ORPHANS_RETRY_MS};
use crate::shell::children::supervisors::Supervisors;
use rustix::process::{Signal, WaitId, WaitIdOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Runs work on the thread that owns the direct children.
#[derive(Clone)]
pub struct KeeperThread(mpsc::Sender<Work>);

type Work = Box<dyn FnOnce(&mut Keeper) + Send>;

impl KeeperThread {
    pub fn start(supervisors: Supervisors) -> io::Result<KeeperThread> {
        let (sender, inbox) = mpsc::channel();
        let keeper = Keeper::new(supervisors);
        thread::Builder::new().name("children".into()).stack_size(256 * 1024).spawn(move || keeper.run(&inbox))?;
        Ok(KeeperThread(sender))
    }

    /// Returns the result of `work`. An error means that the thread is gone, or that `work` took longer than `patience`.
    pub fn run<T: Send + 'static>(
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

    /// Reaps adopted processes that have ended, without waiting for that.
    pub fn reap_adopted(&self) {
        let _ = self.0.send(Box::new(|keeper| keeper.reap_adopted()));
    }
}

/// Owns the direct children: starts them, reaps them, and kills the orphans of killed supervisors.
pub struct Keeper {
    supervisors: Supervisors,
    /// Supervisors that have ended and whose processes may still run.
    unclear: Vec<std::process::Child>,
    trial: TrialState,
}

/// What is known about the program that supervisors are started from.
enum TrialState {
    Passed,
    /// It was started and has not answered yet. After the time it never will.
    Silent(Trial, Instant),
    Failed(String),
}

impl Keeper {
    fn new(supervisors: Supervisors) -> Keeper {
        Keeper { supervisors, unclear: Vec::new(), trial: TrialState::Passed }
    }

    fn run(mut self, inbox: &mpsc::Receiver<Work>) {
        // The program that this process was before may have had children.
        self.reap_adopted();
        loop {
            match inbox.recv_timeout(self.wait()) {
                Ok(work) => work(&mut self),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            for child in std::mem::take(&mut self.unclear) {
                self.reap_killed(child);
            }
            if matches!(self.trial, TrialState::Silent(_, until) if until <= Instant::now()) {
                let _ = self.check_trial();
            }
        }
    }

    /// How long it waits for work before it kills what supervisors have left, or a program that is none.
    fn wait(&self) -> Duration {
        let retry = if self.unclear.is_empty() { Duration::MAX } else { Duration::from_millis(ORPHANS_RETRY_MS) };
        match self.trial {
            TrialState::Silent(_, until) => retry.min(until.saturating_duration_since(Instant::now())),
            TrialState::Passed | TrialState::Failed(_) => retry,
        }
    }

    /// Starts no command until this trial has been answered, which may take until the given time.
    pub fn await_trial(&mut self, trial: Trial, until: Instant) {
        self.trial = TrialState::Silent(trial, until);
    }

    /// An error says why no command can be started, or not yet.
    fn check_trial(&mut self) -> io::Result<()> {
        let why = match &self.trial {
            TrialState::Passed => return Ok(()),
            TrialState::Failed(why) => why.clone(),
            TrialState::Silent(trial, until) => {
                let (answer, why) = (trial.answer(Duration::ZERO), trial.refusal());
                match answer {
                    Answer::AsSupervisor => {
                        self.trial = TrialState::Passed;
                        return Ok(());
                    }
                    Answer::NotYet if Instant::now() < *until => {}
                    Answer::NotYet | Answer::Otherwise => self.trial = TrialState::Failed(why.clone()),
                }
                why
            }
        };
        Err(io::Error::other(why))
    }

    /// `input` is what the program reads, if it reads anything.
    pub fn start(
        &mut self,
        mut command: Command,
        control: Arc<UnixStream>,
        input: Option<OwnedFd>,
    ) -> io::Result<std::process::Child> {
        self.check_trial()?;
        let child = command.spawn();
        // It still holds the child's ends of pipe and socket; both must close with the child.
        drop(command);
        if let Ok(child) = &child {
            // Registered before its program can start: from then on a peer may be a tool's process.
            self.supervisors.begin(child.id(), control.clone());
            let _ = supervisor::let_go(&control, input.as_ref());
        }
        child
    }

    /// Kills all remaining processes of commands and their supervisors, because the server ends.
    pub fn kill_all(&mut self) {
        let supervisors = self.supervisors.own_pids();
        supervisors.iter().for_each(|pid| signal(*pid, Signal::KILL));
        supervisors.iter().for_each(|pid| wait_for_end(*pid));
        let _ = self.kill_orphans();
    }

    /// Reaps a supervisor below which no process is left. Until it is reaped its pid is not reused.
    pub fn reap(&mut self, mut child: std::process::Child) {
        self.supervisors.end(child.id());
        let _ = child.wait();
    }

    /// Reaps a supervisor that has ended, after the processes that it left were killed. Until then it counts as alive, because a
    /// peer may be one of its processes.
    pub fn reap_killed(&mut self, child: std::process::Child) {
        match self.kill_orphans() {
            Ok(()) => self.reap(child),
            Err(_) => self.unclear.push(child),
        }
    }

    /// Kills every direct child that is no supervisor, with its descendants.
    fn kill_orphans(&self) -> io::Result<()> {
        let Some(is_orphan) = self.orphans() else {
            return Ok(());
        };
        let patience = Duration::from_millis(ORPHANS_KILL_MS);
        processes::kill_children(is_orphan, |_, _| {}, patience)?;
        Ok(())
    }

    /// Reaps every direct child that is no supervisor and has ended: the first process of a PID namespace inherits all orphans in it.
    fn reap_adopted(&mut self) {
        if let Some(is_orphan) = self.orphans() {
            // They can be listed only if /proc is mounted. They are reaped the next time, or never.
            let _ = processes::reap_children(is_orphan);
        }
    }

    /// Tells which direct children are orphans. None if this process does not adopt any: then its other children are the host program's own.
    fn orphans(&self) -> Option<impl Fn(u32) -> bool + use<>> {
        rustix::process::child_subreaper().ok()??;
        let known = self.supervisors.pids();
        Some(move |pid| !known.contains(&pid) && !lock(&PROGRAMS).contains(&pid))
    }
}

/// Direct children that belong to the user: an editor in the terminal.
static PROGRAMS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Starts a program of the user, which is never taken for an orphan.
pub fn start_program(mut command: Command) -> io::Result<std::process::Child> {
    // Locked until its pid is known: whoever looks for orphans meanwhile waits.
    let mut programs = lock(&PROGRAMS);
    let child = command.spawn()?;
    programs.push(child.id());
    Ok(child)
}

/// A program of the user has ended and was waited for.
pub fn forget_program(pid: u32) {
    lock(&PROGRAMS).retain(|known| *known != pid);
}

pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = processes::pid(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Waits until a process has ended, without reaping it.
pub fn wait_for_end(pid: u32) {
    if let Some(pid) = processes::pid(pid) {
        let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::children::trial::tests::{pid, script};
    use crate::tool::tests::Scratch;

    #[test]
    fn the_keeper_retries_only_while_a_supervisor_has_left_processes() {
        let mut keeper = Keeper::new(Supervisors::default());
        assert_eq!(keeper.wait(), Duration::MAX);
        keeper.unclear.push(Command::new("true").spawn().expect("a program starts"));
        assert_eq!(keeper.wait(), Duration::from_millis(ORPHANS_RETRY_MS));
        keeper.unclear[0].wait().expect("it ends");
    }

    fn start(keeper: &mut Keeper) -> Result<(), String> {
        let control = Arc::new(UnixStream::pair().expect("sockets can be made").0);
        let mut child = keeper.start(Command::new("true"), control, None).map_err(|error| error.to_string())?;
        child.wait().expect("it ends");
        keeper.supervisors.end(child.id());
        Ok(())
    }

    #[test]
    fn no_command_is_started_until_the_trial_is_answered() {
        let scratch = Scratch::new();
        let mut keeper = Keeper::new(Supervisors::default());
        assert_eq!(start(&mut keeper), Ok(()));
        let later = Instant::now() + Duration::from_secs(60);
        let fifo = scratch.path().join("fifo");
        Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
        keeper.await_trial(
            script(&scratch, "late", &format!("read word < {}; echo failed 0 >&0", fifo.display())),
            later,
        );
        let refused = start(&mut keeper).expect_err("it waits");
        assert!(refused.contains("embed::child_main"), "{refused}");
        assert!(keeper.wait() < Duration::MAX);
        std::fs::write(&fifo, "go\n").expect("the script reads");
        while start(&mut keeper).is_err() {
            assert!(Instant::now() < later);
            thread::yield_now();
        }
        assert_eq!(keeper.wait(), Duration::MAX);
    }

    #[test]
    fn a_program_that_never_answers_is_killed() {
        let scratch = Scratch::new();
        let trial = script(&scratch, "hangs", "exec sleep 1000");
        let pid = pid(&trial);
        let thread = KeeperThread::start(Supervisors::default()).expect("a thread");
        thread.run(Duration::MAX, |keeper| keeper.await_trial(trial, Instant::now())).expect("it works");
        let until = Instant::now() + Duration::from_secs(60);
        while processes::look(pid).is_some() {
            assert!(Instant::now() < until);
            thread::yield_now();
        }
        let (started, wait) = thread.run(Duration::MAX, |keeper| (start(keeper), keeper.wait())).expect("it works");
        assert!(started.expect_err("no answer").contains("embed::child_main"));
        assert_eq!(wait, Duration::MAX);
    }
}
