//! Tools that run commands and read what they print.

pub mod background;
pub mod output;
pub mod run_shell_command;
pub mod watch;
use crate::tool::Tool;

/// All tools of this folder, in the order in which they are declared.
pub fn tools() -> Vec<Box<dyn Tool>> {
    vec![Box::new(run_shell_command::Shell), Box::new(background::ListProcesses), Box::new(background::ReadOutput)]
}
