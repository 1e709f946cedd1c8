//! The program `gemini-a2a` with its built-in slash commands. `shell/start/program.rs` contains the rest of `main`.

#![forbid(unsafe_code)]

use gemini_a2a::shell::start::program;
use gemini_a2a::shell::workers::slash_commands::Commands;
use std::process::ExitCode;

fn main() -> ExitCode {
    program::adopt_orphans();
    program::run(Commands::built_in())
}
