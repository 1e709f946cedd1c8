//! The program as it is shipped: with the commands that are built in. What it does is in `shell/start/program.rs`.

#![forbid(unsafe_code)]

use gemini_a2a::shell::start::program;
use gemini_a2a::shell::workers::slash_commands::Commands;
use std::process::ExitCode;

fn main() -> ExitCode {
    program::adopt_orphans();
    program::run(Commands::built_in())
}
