//! Tools that run commands and read what they print.

pub mod background;
pub mod output;
pub mod run_shell_command;
pub mod watch;
