//! The program: arguments, configuration, server, exit status. It is not in `main.rs`, so that another program can run it with
//! further slash commands.

use crate::args::audit::AuditArgs;
use crate::args::mcp::McpAction;
use crate::args::token::TokenAction;
use crate::args::{self, Mode};
use crate::config::options::Flag;
use crate::config::state_dir;
use crate::manual;
use crate::shell::access::verb;
use crate::shell::children;
#[cfg(feature = "tui")]
use crate::shell::clients;
use crate::shell::event_loop::signals::Signal;
use crate::shell::event_loop::sys;
use crate::shell::headless;
#[cfg(feature = "mcp")]
use crate::shell::mcp::verbs;
use crate::shell::start::access;
use crate::shell::start::assemble::lookup;
#[cfg(feature = "mcp")]
use crate::shell::start::assemble::with_mcp;
use crate::shell::start::audit;
use crate::shell::start::choose::{Program, StartConditions, choose, names_listener};
use crate::shell::start::configure::{Configured, LogOutput, configure, without_files};
use crate::shell::start::doctor;
use crate::shell::start::embed::{self, Ended, Reach, SignalHandling};
use crate::shell::start::replay;
use crate::shell::start::stdio;
#[cfg(feature = "tui")]
use crate::shell::terminal::attach;
#[cfg(feature = "tui")]
use crate::shell::terminal::session::{self, SessionError};
use crate::shell::workers::slash_commands::Commands;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// The exit status of a wrong command line, and of no other error.
const USAGE: u8 = 2;
/// The exit status if the server cannot start with this configuration: a file, a variable, a directory, an address (`EX_CONFIG` of
/// sysexits.h).
const CONFIGURATION: u8 = 78;
/// The exit status of any other error.
const FAILURE: u8 = 1;

/// Makes this process adopt processes whose supervisor was killed by its command, so that they are found and killed. A program
/// that calls this may have no other children: they would be taken for orphans.
pub fn adopt_orphans() {
    // Only kernels without subreapers refuse it.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Runs the command line; `serve` returns after a signal. It must be called first in `main`: tools start their programs through the same
/// binary, and anything that `main` does before would happen in each of these processes.
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
        Mode::Help => print(&args::help()),
        Mode::VerbHelp(verb) => print(&args::verb_help(verb)),
        Mode::Manual(None) => print(&manual::contents()),
        Mode::Manual(Some(subject)) => match manual::find(subject) {
            Some(page) => print(&page.text()),
            None => fail(USAGE, &format!("the manual has no page {subject}\n\n{}", manual::contents().trim_end())),
        },
        Mode::Doctor { json } => {
            let (text, has_failed) = doctor::run(&args.flags, std::env::vars_os().collect(), *json);
            print(&text);
            if has_failed { ExitCode::from(FAILURE) } else { ExitCode::SUCCESS }
        }
        Mode::Completion(shell) => print(&args::generated::completion(*shell)),
        Mode::Man => print(&args::generated::man()),
        Mode::VersionJson => print(&format!("{}\n", version())),
        Mode::Version => print(concat!("gemini-a2a ", env!("CARGO_PKG_VERSION"), "\n")),
        Mode::Replay(replay) => match replay::run(replay, std::io::stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => fail(FAILURE, &message),
        },
        Mode::Audit(asked) => audit(asked, &args.flags),
        Mode::Mcp(action) => mcp(action, &args.flags),
        Mode::Token(action) => token(action, &args.flags),
        Mode::Attach(_) | Mode::Client(_) => client(&args.mode, &args.flags),
        Mode::Start => start(&args.flags, commands),
        Mode::Serve => serve(&args.flags, commands),
        Mode::Acp => editor(&args.flags, commands),
    }
}

/// Runs a verb about the audit.
// The verbs are not inlined, here and in what `serve` calls, so that the stack of one is not the sum of all: 128 KB must be enough.
#[inline(never)]
fn audit(asked: &AuditArgs, flags: &[Flag]) -> ExitCode {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let done = audit::run(asked, flags, std::env::vars_os().collect(), &mut out);
    let _ = out.flush();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problems) => {
            problems.iter().for_each(|problem| print_error(&format!("gemini-a2a: {problem}")));
            ExitCode::from(FAILURE)
        }
    }
}

/// Runs a command line without a verb.
#[inline(never)]
fn start(flags: &[Flag], commands: Commands) -> ExitCode {
    let env = lookup(std::env::vars_os().collect());
    let settings = match without_files(flags, &env) {
        Ok(settings) => settings,
        Err(message) => return fail(CONFIGURATION, &message),
    };
    match choose(&settings, StartConditions::of_process()) {
        Program::Terminal => terminal(flags, commands),
        Program::Headless => {
            let log = headless::log_output(&settings, &env);
            headless::run(&settings, configure(flags, std::env::vars_os().collect(), commands, log))
        }
        Program::Server => serve(flags, commands),
    }
}

/// A build without the terminal starts the server. [`choose`] never chooses the terminal there.
#[cfg(not(feature = "tui"))]
#[inline(never)]
fn terminal(flags: &[Flag], commands: Commands) -> ExitCode {
    serve(flags, commands)
}

#[cfg(feature = "tui")]
#[inline(never)]
fn terminal(flags: &[Flag], commands: Commands) -> ExitCode {
    match session::run(flags, std::env::vars_os().collect(), commands) {
        Ok(end) => exit_code(end),
        Err(SessionError::Configuration(message)) => fail(CONFIGURATION, &message),
        Err(SessionError::Failure(message)) => fail(FAILURE, &message),
    }
}

/// Runs a client of a running server.
#[cfg(not(feature = "tui"))]
#[inline(never)]
fn client(_: &Mode, _: &[Flag]) -> ExitCode {
    fail(USAGE, "this build has no clients; build it with the feature tui")
}

#[cfg(feature = "tui")]
#[inline(never)]
fn client(mode: &Mode, flags: &[Flag]) -> ExitCode {
    let environment = std::env::vars_os().collect();
    let outcome = match mode {
        Mode::Attach(asked) => attach::run(asked, flags, environment).map(exit_code),
        Mode::Client(asked) => clients::run(asked, flags, environment).map(|()| ExitCode::SUCCESS),
        _ => Ok(ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| match error.status() {
        (status, Some(message)) => fail(status, message),
        (status, None) => ExitCode::from(status),
    })
}

/// The version as JSON, for programs.
fn version() -> serde_json::Value {
    let features = [
        ("agents", cfg!(feature = "agents")),
        ("bucket", cfg!(feature = "bucket")),
        ("identity", cfg!(feature = "identity")),
        ("mcp", cfg!(feature = "mcp")),
        ("tui", cfg!(feature = "tui")),
        ("web-tools", cfg!(feature = "web-tools")),
        ("webhooks", cfg!(feature = "webhooks")),
    ];
    let features: Vec<&str> = features.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect();
    serde_json::json!({
        "name": "gemini-a2a",
        "version": env!("CARGO_PKG_VERSION"),
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "features": features,
    })
}

#[cfg(not(feature = "mcp"))]
#[inline(never)]
fn mcp(_: &McpAction, _: &[Flag]) -> ExitCode {
    fail(USAGE, "this build has no MCP servers; build it with the feature mcp")
}

/// Runs a verb about MCP servers.
#[cfg(feature = "mcp")]
#[inline(never)]
fn mcp(action: &McpAction, flags: &[Flag]) -> ExitCode {
    let environment = std::env::vars_os().collect();
    let plan = match configure(flags, environment, Commands::built_in(), LogOutput::Nowhere) {
        Ok(configured) => configured.plan,
        Err(message) => return fail(CONFIGURATION, &message),
    };
    let mut tell = |text: &str| _ = print(&format!("{text}\n"));
    let done = match action {
        McpAction::Add { .. } | McpAction::Remove(_) => {
            verbs::edit(&plan.paths, action, plan.limits.settings_bytes).map(|text| tell(&text))
        }
        McpAction::List | McpAction::Test(_) | McpAction::Login(_) | McpAction::Logout(_) => {
            with_mcp(plan, |pool, workspace| verbs::run(pool, workspace, action, &mut tell))
        }
    };
    done.map_or_else(|message| fail(FAILURE, &message), |()| ExitCode::SUCCESS)
}

/// Runs a verb about credentials.
#[inline(never)]
fn token(action: &TokenAction, flags: &[Flag]) -> ExitCode {
    let env = lookup(std::env::vars_os().collect());
    let path = without_files(flags, &env).and_then(|settings| {
        let state = state_dir(&settings, env.as_ref())?;
        Ok(access::path(settings.access.credentials.as_deref(), &state))
    });
    match path.map(|path| verb::run(action, &path, sys::unix_ms())) {
        Ok(Ok(text)) => print(&text),
        Ok(Err(message)) => fail(FAILURE, &message),
        Err(message) => fail(CONFIGURATION, &message),
    }
}

#[inline(never)]
fn serve(flags: &[Flag], commands: Commands) -> ExitCode {
    let environment = std::env::vars_os().collect();
    let Configured { mut plan, greeting, .. } = match configure(flags, environment, commands, LogOutput::StandardError)
    {
        Ok(configured) => configured,
        Err(message) => return fail(CONFIGURATION, &message),
    };
    plan.signals = SignalHandling::ReloadOnHangup;
    plan.notify = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()).map(PathBuf::from);
    let workspace = plan.workspace.display().to_string();
    let server = match embed::open(plan) {
        Ok(server) => server,
        Err(error) => return fail(CONFIGURATION, &error.to_string()),
    };
    print_error(&format!("gemini-a2a listens on {} and works in {workspace}", server.url()));
    print_error(&format!("Its listeners: {}", server.listeners().join(", ")));
    for line in greeting.iter().chain(server.problems()) {
        print_error(line);
    }
    match server.run() {
        Ok(end) => exit_code(end),
        Err(error) => fail(FAILURE, &format!("the event loop failed: {error}")),
    }
}

/// Runs an agent for the editor that has started this process. It listens only if an address is named.
#[inline(never)]
fn editor(flags: &[Flag], commands: Commands) -> ExitCode {
    let environment = std::env::vars_os().collect();
    let Configured { mut plan, greeting, .. } = match configure(flags, environment, commands, LogOutput::StandardError)
    {
        Ok(configured) => configured,
        Err(message) => return fail(CONFIGURATION, &message),
    };
    plan.settings.access.shared_session = true;
    plan.reach = if names_listener(&plan.settings) { Reach::Machine } else { Reach::Process };
    let listens = plan.reach == Reach::Machine;
    let server = match embed::open(plan) {
        Ok(server) => server,
        Err(error) => return fail(CONFIGURATION, &error.to_string()),
    };
    if listens {
        print_error(&format!("gemini-a2a listens on {}", server.url()));
    }
    for line in greeting.iter().chain(server.problems()) {
        print_error(line);
    }
    match stdio::run(server) {
        Ok(end) => exit_code(end),
        Err(error) => fail(FAILURE, &format!("the event loop failed: {error}")),
    }
}

/// The exit code of a server that has ended in an orderly way: success, except after SIGINT.
fn exit_code(end: Ended) -> ExitCode {
    match end {
        Ended::Signal(Signal::Interrupt) => ExitCode::from(130),
        Ended::Signal(Signal::Terminate | Signal::Hangup) | Ended::Stopped => ExitCode::SUCCESS,
    }
}

fn print(text: &str) -> ExitCode {
    // The write fails only if the reader has closed the pipe, for instance a pager that was quit.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(status: u8, message: &str) -> ExitCode {
    print_error(&format!("gemini-a2a: {message}"));
    ExitCode::from(status)
}

/// Prints a line on standard error. An error is ignored: there may be no standard error, or nobody who reads it.
fn print_error(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
