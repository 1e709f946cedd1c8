//! The program on one page: arguments, configuration, server, exit status. It is here and not in `main.rs` so that another program
//! can be this one with further slash commands.

use crate::args::{self, Mode};
use crate::manual;
use crate::shell::children;
use crate::shell::start::{replay, serve};
use crate::shell::workers::slash_commands::Commands;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

/// The command line is wrong. No other error has this exit status.
const USAGE: u8 = 2;
/// The server cannot start with this configuration: a file, a variable, a directory, an address (`EX_CONFIG` of sysexits.h).
const CONFIGURATION: u8 = 78;
/// Any other error.
pub const FAILURE: u8 = 1;

/// Makes this process adopt processes whose supervisor was killed by its command, so that they are found and killed. A program
/// that does so may have no children of its own: they would be taken for orphans.
pub fn adopt_orphans() {
    // Only kernels without subreapers refuse it.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Does what the command line says, which may take until a signal comes. To be called first thing in `main`: tools start
/// their programs through the same binary, and what was printed or opened before would happen again in each of them.
pub fn run(commands: Commands) -> ExitCode {
    if let Some(code) = children::child_main(std::env::args_os()) {
        return code;
    }
    let words = std::env::args_os().skip(1).map(OsString::into_string);
    let words: Vec<String> = match words.collect() {
        Ok(words) => words,
        Err(word) => return fail(USAGE, &format!("the argument {word:?} is not UTF-8")),
    };
    let args = match args::parse(words) {
        Ok(args) => args,
        Err(message) => return fail(USAGE, &message),
    };
    match &args.mode {
        Mode::Help => {
            print!("{}", args::help());
            ExitCode::SUCCESS
        }
        Mode::Manual(subject) => print_manual(subject.as_deref()),
        Mode::Version => {
            println!("gemini-a2a {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Mode::Replay(replay) => match replay::run(replay, std::io::stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => fail(FAILURE, &message),
        },
        Mode::Serve => {
            let env = Arc::new(|name: &str| std::env::var(name).ok());
            let ready = serve::configure(&args.flags, env);
            match ready.and_then(|ready| serve::serve(ready, commands)) {
                Ok(status) => ExitCode::from(status),
                Err(message) => fail(CONFIGURATION, &message),
            }
        }
    }
}

fn print_manual(subject: Option<&str>) -> ExitCode {
    let text = match subject {
        None => manual::contents(),
        Some(subject) => match manual::find(subject) {
            Some(page) => page.text(),
            None => {
                return fail(USAGE, &format!("the manual has no page {subject}\n\n{}", manual::contents().trim_end()));
            }
        },
    };
    // The write fails only when the reader has gone, for instance a pager that was quit.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(status: u8, message: &str) -> ExitCode {
    eprintln!("gemini-a2a: {message}");
    ExitCode::from(status)
}
