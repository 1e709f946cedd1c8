//! The connection of a terminal to a server.

pub(in crate::shell::terminal) mod in_process;
pub mod link;
pub mod remote;
pub mod tls;
pub mod websocket;
