//! Whether commands can be started at all, found out before the first one is wanted: a supervisor is started without a command, and
//! has to answer that it has none.

use crate::limits::SUPERVISOR_TRIAL_MS;
use crate::shell::children::VERB;
use crate::shell::children::supervisors::Supervisors;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Why no supervisor can be started.
#[derive(Debug)]
pub enum TrialError {
    /// The system does not start the program.
    NotStarted(String),
    /// It was started and is no supervisor.
    NoSupervisor(String),
    /// It was started and has not answered in time.
    NoAnswer(String),
}

/// Starts a supervisor and waits for its answer.
pub fn try_supervisor(exe: &Path) -> Result<(), TrialError> {
    let not_started = |error: io::Error| {
        let missing = error.kind() == io::ErrorKind::NotFound && exe.starts_with("/proc");
        let why = if missing { "/proc is not mounted".to_owned() } else { format!("{}: {error}", exe.display()) };
        TrialError::NotStarted(why)
    };
    let (ours, theirs) = UnixStream::pair().map_err(not_started)?;
    let ours = Arc::new(ours);
    let mut command = Command::new(exe);
    // Pipes, because /dev/null may be missing.
    command.arg(VERB).env_clear().stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(not_started)?;
    drop(command);
    // Another server in this process must not take it for an orphan.
    let supervisors = Supervisors::of_process();
    supervisors.begin(child.id(), ours.clone());
    let answer = answer(&ours);
    // It ends by itself, unless it is another program.
    let _ = child.kill();
    let _ = child.wait();
    supervisors.end(child.id());
    let why = format!(
        "{} was started as the supervisor of a command and did not answer as one: its main function has to begin with \
         embed::child_main",
        exe.display()
    );
    match answer {
        Ok(true) => Ok(()),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(TrialError::NoAnswer(why))
        }
        Ok(false) | Err(_) => Err(TrialError::NoSupervisor(why)),
    }
}

/// Whether the answer is that of a supervisor without a command.
fn answer(mut control: &UnixStream) -> io::Result<bool> {
    const ANSWER: &[u8] = b"failed ";
    control.set_read_timeout(Some(Duration::from_millis(SUPERVISOR_TRIAL_MS)))?;
    let mut start = [0; ANSWER.len()];
    control.read_exact(&mut start)?;
    Ok(start == ANSWER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;
    use std::os::unix::fs::PermissionsExt;

    /// A process that another test is just starting may still have a new script open for writing; then the system does not start it.
    fn tried(exe: &Path) -> Result<(), TrialError> {
        loop {
            match try_supervisor(exe) {
                Err(TrialError::NotStarted(why)) if why.contains("Text file busy") => std::thread::yield_now(),
                result => return result,
            }
        }
    }

    #[test]
    fn only_a_supervisor_passes() {
        let scratch = Scratch::new();
        let script = |name: &str, text: &str| {
            let path = scratch.put(name, format!("#!/bin/sh\n{text}\n"));
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
            path
        };
        let answers = script("answers", "echo failed 0 no command >&0");
        assert!(tried(&answers).is_ok());
        let hangs = tried(&script("hangs", "exec sleep 60"));
        assert!(matches!(hangs, Err(TrialError::NoAnswer(_))), "{hangs:?}");
        let others = [script("ends", "exit 0"), script("talks", "echo hello to you >&0")];
        // The program of these tests does not begin with `child_main` either.
        for other in others.into_iter().chain(["/proc/self/exe".into()]) {
            match tried(&other) {
                Err(TrialError::NoSupervisor(why)) => assert!(why.contains("embed::child_main"), "{why}"),
                result => panic!("{}: {result:?}", other.display()),
            }
        }
        let missing = tried(Path::new("/nowhere/at/all"));
        assert!(matches!(&missing, Err(TrialError::NotStarted(why)) if why.contains("/nowhere")), "{missing:?}");
    }
}
