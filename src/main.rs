use gemini_a2a::shell::children;
use std::process::ExitCode;

fn main() -> ExitCode {
    children::child_main(std::env::args_os()).unwrap_or(ExitCode::SUCCESS)
}
