//! Writes the access log: to the log itself, or to a file of its own. The file has a thread: the loop hands it the lines of a turn and
//! never waits. Lines that the thread does not take in time are dropped and counted. The thread also opens the file again when the
//! operator has moved it (SIGHUP).

use crate::base::log_line::LogFormat;
use crate::core::operation::access_log::Entry;
use crate::limits::{ACCESS_END_MS, ACCESS_PIECE_BYTES, ACCESS_PIECES};
use crate::shell::event_loop::log::Log;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// The destination of the lines.
enum Target {
    Nowhere,
    Log,
    File(Writer),
}

pub struct AccessLog {
    target: Target,
    log: Log,
    /// The project of Google Cloud that traces belong to.
    project: Option<String>,
    /// The lines of this turn, and their number.
    lines: String,
    count: u64,
    /// How many lines were dropped since the last warning about it.
    dropped: u64,
}

impl AccessLog {
    pub fn off(log: Log) -> AccessLog {
        AccessLog { target: Target::Nowhere, log, project: None, lines: String::new(), count: 0, dropped: 0 }
    }

    /// Writes the lines to the log.
    pub fn in_log(log: Log, project: Option<String>) -> AccessLog {
        AccessLog { target: Target::Log, project, ..AccessLog::off(log) }
    }

    /// Writes the lines to a file of their own, which is created if it does not exist.
    pub fn in_file(path: &Path, log: Log, project: Option<String>) -> io::Result<AccessLog> {
        let writer = Writer::start(path, log.clone())?;
        Ok(AccessLog { target: Target::File(writer), project, ..AccessLog::off(log) })
    }

    pub fn is_on(&self) -> bool {
        !matches!(self.target, Target::Nowhere)
    }

    /// Adds the line of a request that has ended.
    pub fn add(&mut self, entry: &Entry) {
        let line = entry.line(self.log.format(), self.project.as_deref());
        match &self.target {
            Target::Nowhere => {}
            Target::Log => self.log.write_line(&line),
            Target::File(_) => {
                self.lines.push_str(&line);
                self.count += 1;
                if self.lines.len() >= ACCESS_PIECE_BYTES {
                    self.flush();
                }
            }
        }
    }

    /// Hands the lines to the writer.
    pub fn flush(&mut self) {
        let Target::File(writer) = &self.target else {
            return;
        };
        if self.lines.is_empty() {
            return;
        }
        let piece = Piece::Lines(self.log.redact(&std::mem::take(&mut self.lines)));
        let count = std::mem::take(&mut self.count);
        match writer.pieces.try_send(piece) {
            Ok(()) if self.dropped > 0 => {
                let dropped = std::mem::take(&mut self.dropped);
                self.log.warn(format_args!("{dropped} lines of the access log were dropped: its disk was too slow"));
            }
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.dropped += count,
        }
    }

    /// Has the writer open the file again by its name, because the operator may have moved it.
    pub fn reopen(&mut self) {
        self.flush();
        if let Target::File(writer) = &self.target
            && writer.pieces.try_send(Piece::Reopen).is_err()
        {
            self.log.warn("the access log is not opened again: its disk is too slow; send SIGHUP again");
        }
    }

    /// Waits until the last lines are written, for [`ACCESS_END_MS`] at most.
    pub fn end(&mut self) {
        self.flush();
        if let Target::File(Writer { pieces, ended }) = std::mem::replace(&mut self.target, Target::Nowhere) {
            drop(pieces);
            let ended = ended.recv_timeout(Duration::from_millis(ACCESS_END_MS));
            if ended == Err(RecvTimeoutError::Timeout) {
                self.log.warn("the last lines of the access log may be missing: its disk is too slow");
            }
        }
    }
}

enum Piece {
    Lines(String),
    Reopen,
}

struct Writer {
    pieces: SyncSender<Piece>,
    /// Disconnected when everything is written.
    ended: Receiver<()>,
}

impl Writer {
    fn start(path: &Path, log: Log) -> io::Result<Writer> {
        let (file, path) = (open(path)?, path.to_owned());
        let (pieces, received) = sync_channel(ACCESS_PIECES);
        let (end, ended) = sync_channel(0);
        let work = move || {
            write(file, &path, &received, &log);
            drop(end);
        };
        thread::Builder::new().name("access log".into()).stack_size(128 * 1024).spawn(work)?;
        Ok(Writer { pieces, ended })
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// The thread of the writer: writes until the loop has ended.
fn write(mut file: File, path: &Path, pieces: &Receiver<Piece>, log: &Log) {
    let mut is_reported = false;
    for piece in pieces {
        let result = match piece {
            Piece::Lines(lines) => file.write_all(lines.as_bytes()),
            Piece::Reopen => open(path).map(|opened| file = opened),
        };
        match result {
            Ok(()) => is_reported = false,
            // Reported once, until writing succeeds again.
            Err(error) if !is_reported => {
                log.warn(format_args!("the access log {} cannot be written: {error}", path.display()));
                is_reported = true;
            }
            Err(_) => {}
        }
    }
}

/// The project, if lines of this format name it.
pub fn project(format: LogFormat, project: Option<String>) -> Option<String> {
    project.filter(|_| format == LogFormat::Gcp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Route;
    use crate::base::http::Method;
    use crate::core::operation::exchange::{Exchange, RequestId};
    use crate::tool::tests::Scratch;

    fn entry(id: &str) -> Entry {
        let id = RequestId { text: id.into(), is_sent: true };
        Entry { exchange: Exchange::new(id, Method::Get, Route::OTHER), peer: None, ms: 1 }
    }

    fn read(path: &Path) -> Vec<String> {
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn after_the_file_was_moved_lines_go_to_a_new_one() {
        let scratch = Scratch::new();
        let (path, moved) = (scratch.path().join("access.log"), scratch.path().join("access.log.1"));
        let mut access = AccessLog::in_file(&path, Log::off(), None).unwrap();
        assert!(access.is_on());
        access.add(&entry("r-1"));
        access.flush();
        std::fs::rename(&path, &moved).unwrap();
        access.add(&entry("r-2"));
        access.reopen();
        access.add(&entry("r-3"));
        access.end();
        let (before, after) = (read(&moved), read(&path));
        assert!(matches!(&before[..], [one, two] if one.contains("r-1") && two.contains("r-2")), "{before:?}");
        assert!(matches!(&after[..], [three] if three.contains("r-3")), "{after:?}");
        assert!(!access.is_on());
    }

    #[test]
    fn lines_are_dropped_without_delay_while_the_file_cannot_be_written() {
        let scratch = Scratch::new();
        let path = scratch.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        // A pipe that is open and from which nothing is read.
        let reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut access = AccessLog::in_file(&path, Log::off(), None).unwrap();
        let line = entry("r").line(LogFormat::Text, None).len();
        let most = (ACCESS_PIECES + 4) * ACCESS_PIECE_BYTES / line;
        for _ in 0..most {
            access.add(&entry("r"));
        }
        assert!(access.dropped > 0);
        drop(reader);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_an_error_at_the_start() {
        let scratch = Scratch::new();
        assert!(AccessLog::in_file(&scratch.path().join("none/access.log"), Log::off(), None).is_err());
        assert!(!AccessLog::off(Log::off()).is_on());
    }
}
