//! Sessions in a terminal: the terminal device, the loop that drives `ui`, and the connection to the server.

#[cfg(test)]
mod answer_race;
pub mod attach;
pub mod connection;
pub mod driver;
pub mod editor;
mod log_file;
pub mod probe;
pub mod prompt_files;
pub mod session;
pub mod setup;
pub mod signals;
mod trust;
pub mod tty;
mod write_buffer;
