//! The Agent Client Protocol from outside: an editor on standard input and output, and clients over WebSocket that share its session.
//! Real clients, and the schema of every message, are in tests/interop.

#[path = "acp/editor.rs"]
mod editor;
#[path = "acp/sessions.rs"]
mod sessions;
#[path = "acp/sockets.rs"]
mod sockets;
#[cfg(feature = "tui")]
#[path = "acp/together.rs"]
mod together;
#[path = "acp/turns.rs"]
mod turns;

#[cfg(feature = "tui")]
#[path = "session/pty.rs"]
#[allow(dead_code, reason = "this test needs little of it")]
mod pty;

mod support;
