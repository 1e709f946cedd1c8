//! `gemini-a2a attach`: shows the session of a running server in a terminal. Quitting the terminal does not stop the session.

use crate::args::Attach;
use crate::config::options::Flag;
use crate::config::settings::Settings;
use crate::shell::clients::{ClientError, client_name, configure, find_server, protect, refused};
use crate::shell::event_loop::log::Log;
use crate::shell::event_loop::server::Ended;
use crate::shell::event_loop::sys::{self, Clock};
use crate::shell::start::assemble::lookup;
use crate::shell::start::workspace_settings::Env;
use crate::shell::terminal::connection::websocket::WebSocketLink;
use crate::shell::terminal::driver::{Driver, DriverParts, LoopEnd};
use crate::shell::terminal::editor;
use crate::shell::terminal::prompt_files::PromptFiles;
use crate::shell::terminal::setup::setup;
use crate::shell::terminal::signals::TerminalSignals;
use crate::shell::terminal::tty::{self, Tty};
use crate::task::message::Source;
use crate::ui::Setup;
use crate::ui::client::SessionChoice;
use crate::ui::output::block::Viewer;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;

fn failure(what: &'static str) -> impl Fn(io::Error) -> ClientError {
    move |error| ClientError::Failure(format!("{what}: {error}"))
}

/// Runs until the user quits, or until a signal or the end of the terminal ends it.
pub fn run(attach: &Attach, flags: &[Flag], environment: Vec<(OsString, OsString)>) -> Result<Ended, ClientError> {
    protect()?;
    let env = lookup(environment);
    let (settings, state) = configure(flags, &env).map_err(ClientError::Configuration)?;
    let address = find_server(attach.server.as_ref(), &state, attach.token_file.as_deref(), &env)?;
    let name = client_name(attach.name.as_deref(), &env)?;
    let link = WebSocketLink::new(address.clone(), &name, attach.task.as_deref(), sys::entropy());
    let link = link.open().map_err(|failure| refused(&failure, attach.task.as_deref(), &address.name))?;
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(ClientError::Usage("attach shows a session in a terminal, and there is none".into()));
    }
    show(link, &settings, &state, &env, |setup| Setup {
        viewer: Viewer { me: Source::new(name, "gemini-a2a"), workspace: String::new(), ..setup.viewer },
        server: address.name,
        branch: String::new(),
        task: attach.task.as_deref().map(Into::into),
        begin: SessionChoice::Current,
        attached: true,
        ..setup
    })
}

fn show(
    mut link: WebSocketLink,
    settings: &Settings,
    state: &Path,
    env: &Env,
    change: impl FnOnce(Setup) -> Setup,
) -> Result<Ended, ClientError> {
    let tty = Tty::open().map_err(failure("the terminal cannot be opened"))?;
    let mut signals = TerminalSignals::new().map_err(failure("signals cannot be watched"))?;
    signals.watch(tty.saved()).map_err(failure("a thread cannot be started"))?;
    tty::restore_on_panic(tty.saved(), Log::off());
    let mut setup = change(setup(settings, Path::new("/"), env.as_ref()));
    // The history of prompts is kept for each server, not for the directory that the server works in.
    let mut files = PromptFiles::open(state, Path::new(&setup.server));
    (setup.history, setup.draft) = (files.history(), files.draft());
    let parts = DriverParts {
        tty: &tty,
        signals: &mut signals,
        link: Some(&mut link),
        files: Some(&mut files),
        log: None,
        trust: None,
        editor: editor::command(env.as_ref()),
        clock: Clock::start(),
    };
    match Driver::new(parts, setup).run().map_err(failure("waiting for input of the terminal failed"))? {
        LoopEnd::Quit | LoopEnd::Trust(_) | LoopEnd::HungUp => Ok(Ended::Stopped),
        LoopEnd::Signal(signal) => Ok(Ended::Signal(signal)),
        // Only a credential that is not valid any more ends the attempts to connect.
        LoopEnd::Closed(why) => Err(ClientError::Refused(why)),
    }
}
