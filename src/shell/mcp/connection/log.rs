//! The log of one server, for people.

use crate::base::lock::lock;
use crate::limits::Limits;
use crate::limits::mcp::STDERR_BYTES;
use crate::mcp::text::Redactor;
use crate::tool::commands::output::Output;
use std::sync::Mutex;

/// The newest part of the text that the server printed and logged.
pub struct ServerLog {
    all: Mutex<Output>,
    /// The printed text only, without log messages.
    printed: Mutex<Output>,
    pub redactor: Redactor,
}

impl ServerLog {
    pub(super) fn new(redactor: Redactor) -> ServerLog {
        let limits = Limits { output_bytes: STDERR_BYTES, live_bytes: 0, ..Limits::default() };
        let output = || Mutex::new(Output::new(&limits));
        ServerLog { all: output(), printed: output(), redactor }
    }

    /// Adds text that the server printed.
    pub fn push(&self, bytes: &[u8]) {
        append(&self.printed, bytes);
        self.add(bytes);
    }

    /// Adds a message that the server logged.
    pub(super) fn add(&self, bytes: &[u8]) {
        append(&self.all, bytes);
    }

    /// The text without secrets and terminal sequences.
    pub(super) fn text(&self) -> String {
        self.redactor.hide(&lock(&self.all).text())
    }

    /// At most the last `most` bytes that were printed, beginning at a line if possible.
    pub(super) fn tail(&self, most: usize) -> String {
        let text = self.redactor.hide(&lock(&self.printed).text());
        let from = text.ceil_char_boundary(text.len().saturating_sub(most));
        match text[from..].split_once('\n') {
            Some((_, rest)) if from > 0 && !rest.trim().is_empty() => rest.to_owned(),
            _ => text[from..].to_owned(),
        }
    }
}

fn append(output: &Mutex<Output>, bytes: &[u8]) {
    let mut output = lock(output);
    output.push(bytes);
    // Discards the text for live display.
    drop(output.take_live());
}
