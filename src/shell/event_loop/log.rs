//! The log for operators: lines on standard error, `[2026-03-01T09:30:00.125Z] warn message`.
//!
//! A message is one line: control characters are escaped, so text of clients or of the model cannot forge entries or control a
//! terminal. No line contains a secret that the log was created with. Logging never waits for a reader: lines that a
//! terminal stopped with Ctrl-S or a full pipe cannot take are dropped, counted, and reported later.

use crate::base::level::Level;
use crate::base::lock::lock;
use crate::base::log_line::{self, LogFormat};
use crate::limits::ENCODED_SECRET_BYTES;
use crate::shell::event_loop::sys;
use crate::task::access::token;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

/// Secrets that are replaced in every line, beside tokens and tickets, which are recognised by their form.
#[derive(Clone, Default)]
pub struct Redacted(Vec<String>);

impl Redacted {
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Redacted {
        let mut secrets: Vec<String> =
            secrets.into_iter().map(|secret| secret.trim().to_owned()).filter(|secret| !secret.is_empty()).collect();
        let encoded: Vec<String> = secrets.iter().flat_map(|secret| in_base64(secret)).collect();
        secrets.extend(encoded);
        // Of two secrets that share a beginning the longer one is replaced first, otherwise its end would remain.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Redacted(secrets)
    }

    pub fn apply(&self, text: &str) -> String {
        let text = token::redact(text).into_owned();
        self.0.iter().fold(text, |text, secret| text.replace(secret, "[redacted]"))
    }
}

/// A secret in base64, without the characters that depend on the text before and after it. Three bytes are four characters, so there are
/// three forms. A short secret has none: its forms could be part of any text.
fn in_base64(secret: &str) -> Vec<String> {
    if secret.len() < ENCODED_SECRET_BYTES {
        return Vec::new();
    }
    let forms = (0..3).map(|before| {
        let text = STANDARD_NO_PAD.encode([&vec![0; before], secret.as_bytes()].concat());
        // The last characters that were made of whole bytes only.
        let end = (before + secret.len()) / 3 * 4;
        text[[0, 2, 3][before]..end].to_owned()
    });
    forms.collect()
}

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    level: Level,
    format: LogFormat,
    prefix: &'static str,
    redacted: Redacted,
    out: Mutex<Out>,
}

struct Out {
    /// The file that lines are written to; None if nothing is logged.
    file: Option<File>,
    dropped: u64,
}

impl Log {
    /// A log on standard error without messages that are less important than `level`. Without standard error nothing is logged.
    /// Every message begins with `prefix`.
    pub fn new(level: Level, prefix: &'static str, redacted: Redacted) -> Log {
        Log::to(standard_error(), level, prefix, redacted)
    }

    pub fn on(file: File, level: Level, redacted: Redacted) -> Log {
        Log::to(Some(file), level, "", redacted)
    }

    /// A log that is written nowhere.
    pub fn off() -> Log {
        Log::to(None, Level::Error, "", Redacted::default())
    }

    /// A log on any file; without one nothing is logged.
    pub fn to(file: Option<File>, level: Level, prefix: &'static str, redacted: Redacted) -> Log {
        Log::formatted(file, LogFormat::Text, level, prefix, redacted)
    }

    /// A log on any file, in any format.
    pub fn formatted(
        file: Option<File>,
        format: LogFormat,
        level: Level,
        prefix: &'static str,
        redacted: Redacted,
    ) -> Log {
        Log(Arc::new(Inner { level, format, prefix, redacted, out: Mutex::new(Out { file, dropped: 0 }) }))
    }

    /// Writes a line that is formatted already and has no level.
    pub fn write_line(&self, line: &str) {
        self.write(&self.redact(line));
    }

    pub fn format(&self) -> LogFormat {
        self.0.format
    }

    pub fn error(&self, message: impl fmt::Display) {
        self.log(Level::Error, &message);
    }

    pub fn warn(&self, message: impl fmt::Display) {
        self.log(Level::Warn, &message);
    }

    pub fn info(&self, message: impl fmt::Display) {
        self.log(Level::Info, &message);
    }

    pub fn debug(&self, message: impl fmt::Display) {
        self.log(Level::Debug, &message);
    }

    /// The text with its secrets replaced.
    pub fn redact(&self, text: &str) -> String {
        self.0.redacted.apply(text)
    }

    /// The least important messages that are logged.
    pub fn level(&self) -> Level {
        self.0.level
    }

    pub fn log(&self, level: Level, message: &dyn fmt::Display) {
        if level > self.0.level {
            return;
        }
        let text = self.0.redacted.apply(&format!("{}{message}", self.0.prefix));
        self.write(&log_line::line(self.0.format, sys::unix_ms(), level, &text));
    }

    fn write(&self, line: &str) {
        let mut out = lock(&self.0.out);
        if out.dropped > 0 {
            let note = format!("{} lines of this log were dropped because nobody read them", out.dropped);
            if out.put(&log_line::line(self.0.format, sys::unix_ms(), Level::Warn, &note)) {
                out.dropped = 0;
            }
        }
        if !out.put(line) {
            out.dropped += 1;
        }
    }
}

/// Standard error, if there is one.
pub fn standard_error() -> Option<File> {
    io::stderr().as_fd().try_clone_to_owned().ok().map(File::from)
}

impl Out {
    /// Writes a line. False: it was not written, because that would have meant to wait.
    fn put(&mut self, line: &str) -> bool {
        let Some(file) = &mut self.file else {
            return true;
        };
        let mut fds = [PollFd::new(&*file, PollFlags::OUT)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = matches!(poll(&mut fds, Some(&at_once)), Ok(1..)) && fds[0].revents().contains(PollFlags::OUT);
        ready && file.write_all(line.as_bytes()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LOG_LINE_BYTES;
    use std::io::Read;

    fn piped(level: Level, secrets: &[&str]) -> (Log, std::io::PipeReader) {
        let (reader, writer) = std::io::pipe().unwrap();
        let redacted = Redacted::new(secrets.iter().map(|s| s.to_string()));
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        (Log::on(file, level, redacted), reader)
    }

    /// The logged lines without their times.
    fn lines(log: Log, mut reader: std::io::PipeReader) -> Vec<String> {
        drop(log);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text.lines()
            .map(|line| {
                let (time, rest) = line.split_once("] ").expect("a time in brackets");
                assert_eq!(time.len(), "[2026-03-01T09:30:00.125Z".len(), "{line}");
                rest.to_owned()
            })
            .collect()
    }

    #[test]
    fn messages_below_the_level_are_not_logged() {
        let (log, reader) = piped(Level::Info, &[]);
        log.error("e");
        log.clone().warn("w");
        log.info(format_args!("{}", 1));
        log.debug("d");
        assert_eq!(lines(log, reader), ["error e", "warn w", "info 1"]);
    }

    #[test]
    fn secrets_are_replaced_wherever_they_are() {
        let (log, reader) = piped(Level::Debug, &["key", "key-of-mine\n", ""]);
        log.debug("?key=key-of-mine&key");
        assert_eq!(lines(log, reader), ["debug ?[redacted]=[redacted]&[redacted]"]);
        let secret = "a-secret-of-some-length+/";
        let redacted = Redacted::new([secret.to_owned()]);
        for before in ["", "x", "xy", "env:"] {
            let encoded = STANDARD_NO_PAD.encode(format!("{before}{secret}."));
            let shown = redacted.apply(&encoded);
            assert!(shown.contains("[redacted]") && shown.len() < 24, "{shown}");
        }
        let shown = format!("{:?}", Redacted::new(["key".to_owned()]));
        assert_eq!(shown, "1 secrets");
    }

    #[test]
    fn a_secret_is_replaced_before_its_line_is_cut() {
        let secret = format!("{}key", "x".repeat(LOG_LINE_BYTES - 50));
        let (log, reader) = piped(Level::Info, &["key"]);
        log.info(secret);
        assert!(!lines(log, reader)[0].contains("ke"));
    }

    #[test]
    fn lines_are_dropped_without_delay_while_nobody_reads() {
        let (log, mut reader) = piped(Level::Info, &[]);
        let text = "x".repeat(1000);
        let dropped = |log: &Log| log.0.out.lock().unwrap().dropped;
        while dropped(&log) < 3 {
            log.info(&text);
        }
        let mut taken = vec![0; 64 * 1024];
        let count = reader.read(&mut taken).unwrap();
        assert!(count > 0);
        log.info("on we go");
        assert_eq!(dropped(&log), 0);
        let rest = {
            drop(log);
            let mut rest = String::from_utf8(taken[..count].to_vec()).unwrap();
            reader.read_to_string(&mut rest).unwrap();
            rest
        };
        let last: Vec<_> = rest.lines().rev().take(2).collect();
        assert!(last[0].ends_with("info on we go"), "{last:?}");
        assert!(last[1].contains("warn 3 lines of this log were dropped"));
    }
}
