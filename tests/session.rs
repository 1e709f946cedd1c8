//! End-to-end tests of a session in a terminal: the program in a pseudo-terminal.

#[path = "session/ends.rs"]
mod ends;
#[path = "session/pty.rs"]
mod pty;
mod support;
#[path = "session/use.rs"]
mod usage;
#[path = "support/vt.rs"]
#[allow(dead_code, reason = "only what is on the screen is needed here")]
mod vt;
