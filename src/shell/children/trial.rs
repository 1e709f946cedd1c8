//! Finds out at the start of the server whether commands can be started at all: a supervisor is started without a command, and has to
//! answer that it has none.

use crate::shell::children::VERB;
use crate::shell::children::supervisors::Supervisors;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A supervisor that was started without a command. It ends by itself, unless it is another program; dropping it kills that.
pub struct Trial {
    exe: PathBuf,
    child: Child,
    control: Arc<UnixStream>,
    supervisors: Supervisors,
}

/// The answer of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    AsSupervisor,
    /// The program has ended, or it is not a supervisor.
    Otherwise,
    NotYet,
}

impl Trial {
    /// An error says why the system does not start the program.
    pub fn start(exe: &Path) -> Result<Trial, String> {
        let not_started = |error: io::Error| {
            let missing = error.kind() == io::ErrorKind::NotFound && exe.starts_with("/proc");
            if missing { "/proc is not mounted".to_owned() } else { format!("{}: {error}", exe.display()) }
        };
        let (ours, theirs) = UnixStream::pair().map_err(not_started)?;
        let control = Arc::new(ours);
        let mut command = Command::new(exe);
        // Pipes, because /dev/null may be missing.
        command.arg(VERB).env_clear().stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(not_started)?;
        // Another server in this process must not take it for an orphan.
        let supervisors = Supervisors::of_process();
        supervisors.begin(child.id(), control.clone());
        Ok(Trial { exe: exe.to_owned(), child, control, supervisors })
    }

    /// Waits for the answer. With a timeout of zero it returns at once.
    pub fn answer(&self, timeout: Duration) -> Answer {
        match self.read(timeout) {
            Ok(true) => Answer::AsSupervisor,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Answer::NotYet,
            Ok(false) | Err(_) => Answer::Otherwise,
        }
    }

    /// Why no command can be started if the answer is not that of a supervisor.
    pub fn refusal(&self) -> String {
        format!(
            "{} was started as the supervisor of a command and has not answered as one: its main function has to begin with \
             embed::child_main",
            self.exe.display()
        )
    }

    /// Whether the answer begins like that of a supervisor without a command, which sends these bytes in one piece.
    fn read(&self, timeout: Duration) -> io::Result<bool> {
        const ANSWER: &[u8] = b"failed ";
        let mut control = &*self.control;
        control.set_nonblocking(timeout.is_zero())?;
        control.set_read_timeout((!timeout.is_zero()).then_some(timeout))?;
        let mut start = [0; ANSWER.len()];
        control.read_exact(&mut start)?;
        Ok(start == ANSWER)
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.supervisors.end(self.child.id());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::limits::SUPERVISOR_TRIAL_MS;
    use crate::tool::tests::Scratch;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    /// A process that another test is just starting may still have a new script open for writing; then the system does not start it.
    fn start(exe: &Path) -> Result<Trial, String> {
        loop {
            match Trial::start(exe) {
                Err(why) if why.contains("Text file busy") => std::thread::yield_now(),
                result => return result,
            }
        }
    }

    /// Starts a shell script.
    pub(crate) fn script(scratch: &Scratch, name: &str, text: &str) -> Trial {
        let path = scratch.put(name, format!("#!/bin/sh\n{text}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
        start(&path).expect("it is a program")
    }

    pub fn pid(trial: &Trial) -> u32 {
        trial.child.id()
    }

    #[test]
    fn only_a_supervisor_passes() {
        let scratch = Scratch::new();
        let script = |name: &str, text: &str| script(&scratch, name, text);
        let long = Duration::from_secs(60);
        assert_eq!(script("answers", "echo failed 0 no command >&0").answer(long), Answer::AsSupervisor);
        let hangs = script("hangs", "exec sleep 1000");
        assert_eq!(hangs.answer(Duration::from_millis(SUPERVISOR_TRIAL_MS)), Answer::NotYet);
        assert_eq!(hangs.answer(Duration::ZERO), Answer::NotYet);
        assert!(hangs.refusal().contains("embed::child_main"));
        let late = script("late", "read word; echo failed 0 no command >&0");
        assert_eq!(late.answer(Duration::ZERO), Answer::NotYet);
        (&*late.control).write_all(b"go\n").expect("it reads");
        assert_eq!(late.answer(long), Answer::AsSupervisor);
        // The program of these tests does not begin with `child_main` either.
        let this = start(Path::new("/proc/self/exe")).expect("it is a program");
        for other in [script("ends", "exit 0"), script("talks", "echo hello to you >&0"), this] {
            assert_eq!(other.answer(long), Answer::Otherwise, "{}", other.exe.display());
        }
        let missing = start(Path::new("/nowhere/at/all")).err().expect("there is none");
        assert!(missing.contains("/nowhere"), "{missing}");
    }
}
