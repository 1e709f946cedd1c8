//! Standard output of a client: lines for people, or JSON.

use super::ClientError;
use crate::ui::format::text::{Reading, plain};
use serde_json::Value;
use std::io::{self, Write};

#[derive(Clone, Copy)]
pub struct Output {
    pub json: bool,
}

impl Output {
    pub fn new(json: bool) -> Output {
        Output { json }
    }

    pub fn text(self, text: &str) -> Result<(), ClientError> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }

    pub fn line(self, line: &str) -> Result<(), ClientError> {
        self.text(&format!("{line}\n"))
    }

    /// A line for people, in which control characters are made visible.
    pub fn prose(self, line: &str) -> Result<(), ClientError> {
        self.line(&plain(line, Reading::Literal))
    }

    /// Prints the JSON value with `--json`, otherwise the line.
    pub fn either(self, line: &str, json: &Value) -> Result<(), ClientError> {
        match self.json {
            true => self.line(&json.to_string()),
            false => self.prose(line),
        }
    }
}
