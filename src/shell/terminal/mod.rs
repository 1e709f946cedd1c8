//! Sessions in a terminal: the terminal device, the loop that drives `ui`, and the connection to the server.

pub mod attach;
pub mod connection;
pub mod driver;
pub mod editor;
mod log_file;
pub mod probe;
pub mod prompt_files;
#[cfg(test)]
mod race;
pub mod session;
pub mod setup;
pub mod signals;
mod trust;
pub mod tty;
mod write_buffer;
