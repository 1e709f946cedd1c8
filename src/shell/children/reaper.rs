//! The thread that owns the direct children of the server. It alone starts, classifies and reaps them, so that a supervisor that has
//! just been started is never taken for an orphan. Children are reaped by pid, because other code of this process may wait for its own
//! children.

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
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Runs work on the thread that owns the direct children.
#[derive(Clone)]
pub struct ReaperThread {
    work: mpsc::Sender<Work>,
    /// A request to reap adopted processes is queued.
    is_reap_queued: Arc<AtomicBool>,
}

type Work = Box<dyn FnOnce(&mut Reaper) + Send>;

impl ReaperThread {
    pub fn start(supervisors: Supervisors) -> io::Result<ReaperThread> {
        let (sender, inbox) = mpsc::channel();
        let reaper = Reaper::new(supervisors);
        thread::Builder::new().name("children".into()).stack_size(256 * 1024).spawn(move || reaper.run(&inbox))?;
        Ok(ReaperThread { work: sender, is_reap_queued: Arc::default() })
    }

    /// Runs `work` on the thread and returns its result. An error means that the thread has ended, or that `work` took longer than `timeout`.
    pub fn run<T: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl FnOnce(&mut Reaper) -> T + Send + 'static,
    ) -> io::Result<T> {
        let ended = || io::Error::other("the thread that starts programs is gone");
        let (reply, result) = mpsc::channel();
        let work = move |reaper: &mut Reaper| drop(reply.send(work(reaper)));
        self.work.send(Box::new(work)).map_err(|_| ended())?;
        result.recv_timeout(timeout).map_err(|_| ended())
    }

    /// Reaps adopted processes that have ended, without waiting for that.
    pub fn reap_adopted(&self) {
        // One request is enough for all processes that end before it is carried out.
        if self.is_reap_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let is_queued = self.is_reap_queued.clone();
        let _ = self.work.send(Box::new(move |reaper| {
            is_queued.store(false, Ordering::Release);
            reaper.reap_adopted();
        }));
    }
}

/// Owns the direct children: starts them, reaps them, and kills the orphans of killed supervisors.
pub struct Reaper {
    supervisors: Supervisors,
    /// Supervisors that have ended and whose processes may still run.
    with_orphans: Vec<std::process::Child>,
    trial: TrialState,
}

/// Whether the program that supervisors are started from is known to work.
enum TrialState {
    Passed,
    /// The trial was started and has not answered yet. It has until this time.
    Waiting(Trial, Instant),
    Failed(String),
}

impl Reaper {
    fn new(supervisors: Supervisors) -> Reaper {
        Reaper { supervisors, with_orphans: Vec::new(), trial: TrialState::Passed }
    }

    fn run(mut self, inbox: &mpsc::Receiver<Work>) {
        // The program that this process executed before may have had children.
        self.reap_adopted();
        loop {
            match inbox.recv_timeout(self.wait()) {
                Ok(work) => work(&mut self),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            for child in std::mem::take(&mut self.with_orphans) {
                self.reap_killed(child);
            }
            if matches!(self.trial, TrialState::Waiting(_, until) if until <= Instant::now()) {
                let _ = self.check_trial();
            }
        }
    }

    /// How long to wait for work before killing the orphans of supervisors, or a trial that was not answered in time.
    fn wait(&self) -> Duration {
        let retry = if self.with_orphans.is_empty() { Duration::MAX } else { Duration::from_millis(ORPHANS_RETRY_MS) };
        match self.trial {
            TrialState::Waiting(_, until) => retry.min(until.saturating_duration_since(Instant::now())),
            TrialState::Passed | TrialState::Failed(_) => retry,
        }
    }

    /// Starts no command until this trial has been answered, for which it has until the given time.
    pub fn await_trial(&mut self, trial: Trial, until: Instant) {
        self.trial = TrialState::Waiting(trial, until);
    }

    /// An error says why no command can be started, or not yet.
    fn check_trial(&mut self) -> io::Result<()> {
        let why = match &self.trial {
            TrialState::Passed => return Ok(()),
            TrialState::Failed(why) => why.clone(),
            TrialState::Waiting(trial, until) => {
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
        // The command still holds the child's ends of the pipe and the socket, which must close when the child ends.
        drop(command);
        if let Ok(child) = &child {
            // Registered before its program can start: from then on a peer may be a tool's process.
            self.supervisors.begin(child.id(), control.clone());
            let _ = supervisor::send_go(&control, input.as_ref());
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

    /// Kills the orphans of a supervisor that has ended, then reaps it. Until then the supervisor counts as alive, because a peer may be one
    /// of the orphans.
    pub fn reap_killed(&mut self, child: std::process::Child) {
        match self.kill_orphans() {
            Ok(()) => self.reap(child),
            Err(_) => self.with_orphans.push(child),
        }
    }

    /// Kills every direct child that is no supervisor, with its descendants.
    fn kill_orphans(&self) -> io::Result<()> {
        let Some(is_orphan) = self.orphans() else {
            return Ok(());
        };
        let timeout = Duration::from_millis(ORPHANS_KILL_MS);
        processes::kill_children(is_orphan, |_, _| {}, timeout)?;
        Ok(())
    }

    /// Reaps every direct child that is no supervisor and has ended: the first process of a PID namespace inherits all orphans in it.
    fn reap_adopted(&mut self) {
        if let Some(is_orphan) = self.orphans() {
            // They can be listed only if /proc is mounted. After an error they are reaped the next time, or never.
            let _ = processes::reap_children(is_orphan);
        }
    }

    /// A function that tells which direct children are orphans. None if this process does not adopt orphans: then its other children are
    /// those of the host program.
    fn orphans(&self) -> Option<impl Fn(u32) -> bool + use<>> {
        rustix::process::child_subreaper().ok()??;
        let known = self.supervisors.pids();
        Some(move |pid| !known.contains(&pid) && !lock(&PROGRAMS).contains(&pid))
    }
}

/// Direct children that the user has started, such as an editor in the terminal.
static PROGRAMS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Starts a program of the user, which is never taken for an orphan.
pub fn start_program(mut command: Command) -> io::Result<std::process::Child> {
    // Locked until its pid is known, so that a search for orphans waits.
    let mut programs = lock(&PROGRAMS);
    let child = command.spawn()?;
    programs.push(child.id());
    Ok(child)
}

/// Removes a program of the user that has ended and was waited for.
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
    fn the_reaper_retries_only_while_a_supervisor_has_left_processes() {
        let mut reaper = Reaper::new(Supervisors::default());
        assert_eq!(reaper.wait(), Duration::MAX);
        reaper.with_orphans.push(Command::new("true").spawn().expect("a program starts"));
        assert_eq!(reaper.wait(), Duration::from_millis(ORPHANS_RETRY_MS));
        reaper.with_orphans[0].wait().expect("it ends");
    }

    #[test]
    fn one_request_to_reap_is_queued_at_a_time() {
        let (work, inbox) = mpsc::channel();
        let thread = ReaperThread { work, is_reap_queued: Arc::default() };
        let mut reaper = Reaper::new(Supervisors::default());
        for _ in 0..2 {
            (0..3).for_each(|_| thread.reap_adopted());
            assert_eq!(inbox.try_iter().map(|work| work(&mut reaper)).count(), 1);
        }
    }

    fn start(reaper: &mut Reaper) -> Result<(), String> {
        let control = Arc::new(UnixStream::pair().expect("sockets can be made").0);
        let mut child = reaper.start(Command::new("true"), control, None).map_err(|error| error.to_string())?;
        child.wait().expect("it ends");
        reaper.supervisors.end(child.id());
        Ok(())
    }

    #[test]
    fn no_command_is_started_until_the_trial_is_answered() {
        let scratch = Scratch::new();
        let mut reaper = Reaper::new(Supervisors::default());
        assert_eq!(start(&mut reaper), Ok(()));
        let later = Instant::now() + Duration::from_secs(60);
        let fifo = scratch.path().join("fifo");
        Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
        reaper.await_trial(
            script(&scratch, "late", &format!("read word < {}; echo failed 0 >&0", fifo.display())),
            later,
        );
        let refused = start(&mut reaper).expect_err("it waits");
        assert!(refused.contains("embed::child_main"), "{refused}");
        assert!(reaper.wait() < Duration::MAX);
        std::fs::write(&fifo, "go\n").expect("the script reads");
        while start(&mut reaper).is_err() {
            assert!(Instant::now() < later);
            thread::yield_now();
        }
        assert_eq!(reaper.wait(), Duration::MAX);
    }

    #[test]
    fn a_program_that_never_answers_is_killed() {
        let scratch = Scratch::new();
        let trial = script(&scratch, "hangs", "exec sleep 1000");
        let pid = pid(&trial);
        let thread = ReaperThread::start(Supervisors::default()).expect("a thread");
        thread.run(Duration::MAX, |reaper| reaper.await_trial(trial, Instant::now())).expect("it works");
        let until = Instant::now() + Duration::from_secs(60);
        while processes::by_pid(pid).is_some() {
            assert!(Instant::now() < until);
            thread::yield_now();
        }
        let (started, wait) = thread.run(Duration::MAX, |reaper| (start(reaper), reaper.wait())).expect("it works");
        assert!(started.expect_err("no answer").contains("embed::child_main"));
        assert_eq!(wait, Duration::MAX);
    }
}
