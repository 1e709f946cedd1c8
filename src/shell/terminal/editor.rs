//! Opens a text in the user's editor: writes it to a private file, starts the program in the terminal, and reads the file
//! afterwards. The event loop of the session continues meanwhile.
//!
//! The editor is in the process group of the session, which is the terminal's foreground group: Ctrl-Z in the editor stops both, and
//! `fg` continues both. The session ignores Ctrl-C meanwhile; see `signals.rs`.

use crate::limits::ui::{AT_ONCE_MS, EDITOR_END_MS, PASTE_BYTES};
use crate::shell::children::reaper::{forget_program, start_program};
use crate::shell::event_loop::sys;
use crate::shell::terminal::tty::Tty;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// The command of the editor: VISUAL, EDITOR, else `vi`.
pub fn command(env: &dyn Fn(&str) -> Option<String>) -> String {
    let named = ["VISUAL", "EDITOR"].into_iter().filter_map(env).find(|command| !command.trim().is_empty());
    named.unwrap_or_else(|| "vi".into())
}

/// The name of the editor in choices and messages: `vim` for `/usr/bin/vim -u NONE`.
pub fn name(command: &str) -> &str {
    let program = command.split_whitespace().next().unwrap_or("vi");
    program.rsplit('/').next().unwrap_or(program)
}

pub struct Editor {
    name: String,
    dir: PathBuf,
    file: PathBuf,
    before: String,
    pid: Option<Pid>,
    started: Instant,
    /// Readable when the program has ended.
    socket: UnixStream,
    status: Receiver<io::Result<ExitStatus>>,
    awaits_saving: bool,
}

/// The state of an editor.
pub enum Progress {
    Runs,
    /// The program ended at once and changed nothing, so the editor may be a window that is still open. The user presses Enter when the
    /// text is saved.
    AwaitSaving,
    Ended(Result<String, String>),
}

impl Editor {
    /// Starts the program in the terminal, which must be as it was found.
    pub fn start(command: &str, text: &str, file_name: &str) -> Result<Editor, String> {
        let name = name(command).to_owned();
        let cannot = |error: io::Error| format!("{name} cannot be started: {error}");
        let dir = std::env::temp_dir().join(format!("gemini-a2a-{}", sys::entropy().uuid()));
        let file = dir.join(Path::new(file_name).file_name().unwrap_or("text.md".as_ref()));
        let (socket, write) = UnixStream::pair().map_err(cannot)?;
        let (send, status) = mpsc::channel();
        let (before, started) = (text.to_owned(), Instant::now());
        let mut editor =
            Editor { name: name.clone(), dir, file, before, pid: None, started, socket, status, awaits_saving: false };
        editor.write().map_err(|error| format!("{name} cannot be given the text: {error}"))?;
        let stream = || Tty::for_program().map(Stdio::from);
        let mut program = Command::new("sh");
        program.args(["-c", &format!("exec {command} \"$@\""), &name]).arg(&editor.file);
        program.stdin(stream().map_err(cannot)?).stdout(stream().map_err(cannot)?).stderr(stream().map_err(cannot)?);
        let mut child = start_program(program).map_err(cannot)?;
        editor.pid = Some(Pid::from_child(&child));
        let wait = move || {
            let ended = child.wait();
            forget_program(child.id());
            let _ = send.send(ended);
            drop(write);
        };
        thread::Builder::new().name("editor".into()).stack_size(64 * 1024).spawn(wait).map_err(cannot)?;
        Ok(editor)
    }

    fn write(&self) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(&self.dir)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.file)?;
        file.write_all(self.before.as_bytes())
    }

    /// Checks whether the program has ended. To be called when the descriptor is readable.
    pub fn poll_end(&mut self) -> Progress {
        let Ok(status) = self.status.try_recv() else {
            return Progress::Runs;
        };
        self.pid = None;
        let problem = match status {
            Ok(status) if status.success() => None,
            Ok(status) if status.code() == Some(127) => Some("could not be found".to_owned()),
            Ok(status) => Some(match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with status {code}"),
                (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
            }),
            Err(error) => Some(format!("is lost: {error}")),
        };
        if let Some(problem) = problem {
            return Progress::Ended(Err(format!("{} {problem}; the text is as it was before", self.name)));
        }
        let read = self.read();
        let is_unchanged = read.as_ref().is_ok_and(|text| *text == self.before);
        if is_unchanged && self.started.elapsed() < Duration::from_millis(AT_ONCE_MS) {
            self.awaits_saving = true;
            return Progress::AwaitSaving;
        }
        Progress::Ended(read)
    }

    /// Whether the user was asked to press Enter when the text is saved.
    pub fn awaits_saving(&self) -> bool {
        self.awaits_saving
    }

    /// Reads the text that was saved.
    pub fn read(&self) -> Result<String, String> {
        let mut bytes = Vec::new();
        let read = File::open(&self.file).and_then(|file| file.take(PASTE_BYTES as u64 + 1).read_to_end(&mut bytes));
        read.map_err(|error| format!("What was written cannot be read: {error}"))?;
        if bytes.len() > PASTE_BYTES {
            return Err(format!("What was written is longer than {} MiB; it is not used", PASTE_BYTES >> 20));
        }
        String::from_utf8(bytes).map_err(|_| "What was written is not UTF-8 text; it is not used".into())
    }
}

impl AsFd for Editor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Editor {
    /// Ends an editor that still runs, because it would keep using the terminal.
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            let _ = kill_process(pid, Signal::TERM);
            let _ = self.status.recv_timeout(Duration::from_millis(EDITOR_END_MS));
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
