//! The session in a terminal: the terminal itself, the loop that drives `ui`, and the connection to the server.

pub mod attach;
pub mod connection;
pub mod driver;
pub mod editor;
pub mod files;
mod log_file;
mod output;
pub mod probe;
#[cfg(test)]
mod race;
pub mod session;
pub mod setup;
pub mod signals;
mod trust;
pub mod tty;
