//! Queries the abilities of the terminal, for `gemini-a2a doctor`.

use crate::limits::ui::PROBE_MS;
use crate::shell::event_loop::sys;
use crate::shell::terminal::tty::Tty;
use crate::ui::input::keys::{Decoder, Reply, TerminalInput};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use std::time::{Duration, Instant};

/// The queries: name and version, keyboard protocol, synchronised output; and last the device attributes, which every terminal reports.
const QUESTIONS: &str = "\x1b[>0q\x1b[?u\x1b[?2026$p\x1b[c";

/// The abilities that a terminal reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Its name and version.
    pub name: Option<String>,
    /// Whether it supports the kitty keyboard protocol.
    pub kitty: bool,
    pub synchronised: bool,
    /// Whether it replied to the last query.
    pub answers: bool,
}

impl Abilities {
    fn learn(&mut self, input: TerminalInput) {
        match input {
            TerminalInput::Reply(Reply::Version(name)) => self.name = Some(name),
            TerminalInput::Reply(Reply::Kitty) => self.kitty = true,
            TerminalInput::Reply(Reply::Synchronised(known)) => self.synchronised = known,
            TerminalInput::Reply(Reply::Attributes) => self.answers = true,
            // Keys that are typed meanwhile are dropped.
            _ => {}
        }
    }
}

/// Queries the terminal of the process and waits a limited time for its replies. None if there is no terminal, or if the process
/// runs in the background.
pub fn ask() -> Option<Abilities> {
    let tty = Tty::open().ok()?;
    if tcgetpgrp(&tty).ok()? != getpgrp() {
        return None;
    }
    tty.set_raw("").ok()?;
    let saved = tty.saved();
    saved.write_all(QUESTIONS.as_bytes());
    let (mut found, mut decoder, mut buffer) = (Abilities::default(), Decoder::default(), [0; 1024]);
    let end = Instant::now() + Duration::from_millis(PROBE_MS);
    while !found.answers && tty.wait_for_input(end.saturating_duration_since(Instant::now())) {
        match tty.read(&mut buffer) {
            Ok(bytes @ [_, ..]) => decoder.feed(bytes, sys::unix_ms()).into_iter().for_each(|input| found.learn(input)),
            Ok([]) | Err(_) => break,
        }
    }
    saved.restore();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abilities_of(bytes: &str) -> Abilities {
        let (mut found, mut decoder) = (Abilities::default(), Decoder::default());
        decoder.feed(bytes.as_bytes(), 1).into_iter().for_each(|input| found.learn(input));
        found
    }

    #[test]
    fn replies_of_terminals_are_read() {
        let all = Abilities { name: Some("kitty(0.40.1)".into()), kitty: true, synchronised: true, answers: true };
        assert_eq!(abilities_of("\x1bP>|kitty(0.40.1)\x1b\\\x1b[?0u\x1b[?2026;2$y\x1b[?62;c"), all);
        assert_eq!(abilities_of("typed\x1b[?62;c"), Abilities { answers: true, ..Abilities::default() });
        let without = Abilities { name: Some("XTerm(390)".into()), ..Abilities::default() };
        assert_eq!(abilities_of("\x1bP>|XTerm(390)\x1b\\\x1b[?2026;0$y"), without);
        assert_eq!(abilities_of(""), Abilities::default());
    }
}
