//! The program on one page: arguments, configuration, server, exit status.

#![forbid(unsafe_code)]

use gemini_a2a::args::{self, Mode};
use gemini_a2a::shell::{children, replay, start};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // Tools start their programs through this same binary; see shell/children.rs.
    if let Some(code) = children::child_main(std::env::args_os()) {
        return code;
    }
    let args = match args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(message) => return fail(&message),
    };
    match &args.mode {
        Mode::Help => {
            print!("{}", args::help());
            ExitCode::SUCCESS
        }
        Mode::Version => {
            println!("gemini-a2a {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Mode::Replay(replay) => match replay::run(replay, std::io::stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => fail(&message),
        },
        Mode::Serve => {
            let env = Arc::new(|name: &str| std::env::var(name).ok());
            match start::configure(args, env).and_then(start::serve) {
                Ok(status) => ExitCode::from(status),
                Err(message) => fail(&message),
            }
        }
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("gemini-a2a: {message}");
    ExitCode::from(2)
}
