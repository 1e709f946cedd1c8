//! The log of a session in a terminal. Standard error is the screen, so the lines are written to a file of the state directory, and
//! passed to the UI, which shows them on demand.

use crate::limits::ui::LOG_FILE_BYTES;
use rustix::io::Errno;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

pub struct LogFile {
    lines: UnixStream,
    path: Option<PathBuf>,
    file: Option<File>,
    /// The bytes of an incomplete line.
    rest: Vec<u8>,
}

impl LogFile {
    /// The reader of the log, and the file that the log writes to. The log drops and counts lines that are not read in time.
    pub fn new() -> io::Result<(LogFile, File)> {
        let (lines, write) = UnixStream::pair()?;
        lines.set_nonblocking(true)?;
        Ok((LogFile { lines, path: None, file: None, rest: Vec::new() }, File::from(OwnedFd::from(write))))
    }

    /// Lines are stored from now on.
    pub fn store_in(&mut self, state: &Path) {
        self.path = Some(state.join("terminal.log"));
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(state);
    }

    /// The lines that have come.
    pub fn take(&mut self) -> Vec<String> {
        let mut buffer = [0; 16 * 1024];
        loop {
            match rustix::io::read(&self.lines, &mut buffer) {
                Ok(0) => break,
                Ok(length) => self.rest.extend_from_slice(&buffer[..length]),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        let end = memchr::memrchr(b'\n', &self.rest).map_or(0, |end| end + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        self.store(&whole);
        String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
    }

    fn store(&mut self, lines: &[u8]) {
        let Some(path) = self.path.as_ref().filter(|_| !lines.is_empty()) else {
            return;
        };
        let is_full = self.file.as_ref().is_some_and(|file| file.metadata().is_ok_and(|m| m.len() >= LOG_FILE_BYTES));
        if is_full {
            let _ = std::fs::rename(path, path.with_extension("log.old"));
            self.file = None;
        }
        if self.file.is_none() {
            self.file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).ok();
        }
        if let Some(file) = &mut self.file {
            let _ = file.write_all(lines);
        }
    }
}

impl AsFd for LogFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lines.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;

    #[test]
    fn lines_are_stored_and_a_full_file_is_put_aside() {
        let scratch = Scratch::new();
        let (mut log, mut write) = LogFile::new().expect("sockets");
        log.store_in(scratch.path());
        write.write_all(b"one\ntw").expect("taken");
        assert_eq!(log.take(), ["one"]);
        write.write_all(b"o\n").expect("taken");
        assert_eq!(log.take(), ["two"]);
        let (file, old) = (scratch.path().join("terminal.log"), scratch.path().join("terminal.log.old"));
        assert_eq!(std::fs::read_to_string(&file).expect("a file"), "one\ntwo\n");
        log.file.as_ref().expect("open").set_len(LOG_FILE_BYTES).expect("longer");
        write.write_all(b"three\n").expect("taken");
        log.take();
        assert_eq!(std::fs::read_to_string(&file).expect("a file"), "three\n");
        assert_eq!(std::fs::metadata(&old).expect("put aside").len(), LOG_FILE_BYTES);
    }
}
