//! A session in the terminal with a server of its own, which runs in a second thread, so that a slow terminal does not delay its
//! clients.

use crate::config::options::Flag;
use crate::config::paths::Paths;
use crate::config::session::OnHangup;
use crate::config::settings::Settings;
use crate::config::trust::OperatorTrust;
use crate::limits::Limits;
use crate::shell::event_loop::server::Ended;
use crate::shell::event_loop::signals::Signal;
use crate::shell::event_loop::sys::Clock;
use crate::shell::start::assemble::lookup;
use crate::shell::start::choose::names_listener;
use crate::shell::start::configure::{Configured, LogOutput, configure, without_files, workspace};
use crate::shell::start::embed::{self, Plan, Reach, SignalHandling};
use crate::shell::start::running::Running;
use crate::shell::start::sessions;
use crate::shell::start::workspace_settings::{Env, SettingsReader};
use crate::shell::terminal::connection::in_process::InProcess;
use crate::shell::terminal::driver::{Driver, DriverParts, LoopEnd};
use crate::shell::terminal::editor;
use crate::shell::terminal::log_file::LogFile;
use crate::shell::terminal::prompt_files::PromptFiles;
use crate::shell::terminal::setup::setup;
use crate::shell::terminal::signals::{SignalNotice, TerminalSignals};
use crate::shell::terminal::trust;
use crate::shell::terminal::tty::{self, Tty};
use crate::shell::workers::slash_commands::Commands;
use crate::ui::client;
use crate::ui::{Setup, TrustChoice};
use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Why a session did not start, or has failed.
#[derive(Debug)]
pub enum SessionError {
    /// The configuration or the environment is wrong.
    Configuration(String),
    Failure(String),
}

fn failure(what: &'static str) -> impl Fn(io::Error) -> SessionError {
    move |error| SessionError::Failure(format!("{what}: {error}"))
}

/// Runs until the user quits, or until a signal or the end of the terminal ends it.
pub fn run(flags: &[Flag], environment: Vec<(OsString, OsString)>, commands: Commands) -> Result<Ended, SessionError> {
    let env = lookup(environment.clone());
    let settings = without_files(flags, &env).map_err(SessionError::Configuration)?;
    let tty = Tty::open().map_err(failure("the terminal cannot be opened"))?;
    let signals = TerminalSignals::new().map_err(failure("signals cannot be watched"))?;
    signals.watch(tty.saved()).map_err(failure("a thread cannot be started"))?;
    let (log, log_write) = LogFile::new().map_err(failure("the log cannot be opened"))?;
    let mut session = Session { tty, signals, log, env, clock: Clock::start() };
    let folder = session.folder(&settings)?;
    if let Some(loop_end) = session.ask_trust(&settings, &folder)? {
        return Ok(loop_end);
    }
    let Configured { mut plan, greeting, .. } =
        configure(flags, environment, commands, LogOutput::Stream(log_write)).map_err(SessionError::Configuration)?;
    // Other clients are to see the session that the terminal shows.
    plan.settings.access.shared_session = true;
    let reach = if names_listener(&settings) { Reach::Machine } else { Reach::Process };
    session.show(Plan { reach, signals: SignalHandling::OfTheHost, ..plan }, greeting, &folder)
}

/// The workspace and whether its trust is decided.
struct Folder {
    path: PathBuf,
    paths: Paths,
    is_decided: bool,
}

struct Session {
    tty: Tty,
    signals: TerminalSignals,
    log: LogFile,
    env: Env,
    clock: Clock,
}

impl Session {
    fn folder(&self, settings: &Settings) -> Result<Folder, SessionError> {
        let path = workspace(settings).map_err(SessionError::Configuration)?;
        let paths = Paths::new(self.env.as_ref());
        let operator = OperatorTrust { decision: settings.trust, workspace: path.clone() };
        let reader = SettingsReader::new(paths.clone(), self.env.clone(), operator, Limits::default());
        let rules = reader.read(&path).map_err(SessionError::Configuration)?.trust_rules;
        Ok(Folder { is_decided: rules.is_decided(&path), path, paths })
    }

    /// Asks whether an unknown folder is trusted and stores the answer. Returns how the program ends if the user quits instead.
    fn ask_trust(&mut self, settings: &Settings, folder: &Folder) -> Result<Option<Ended>, SessionError> {
        if folder.is_decided {
            return Ok(None);
        }
        let question = trust::question(&folder.path, folder.paths.home.as_deref(), &Limits::default());
        let setup = Setup { trust: Some(question), ..setup(settings, &folder.path, self.env.as_ref()) };
        let parts = DriverParts {
            tty: &self.tty,
            signals: &mut self.signals,
            link: None,
            files: None,
            log: None,
            trust: None,
            editor: String::new(),
            clock: self.clock,
        };
        match Driver::new(parts, setup).run().map_err(failure(NO_WAIT))? {
            LoopEnd::Trust(choice) => {
                if let Err(why) = trust::store_answer(&folder.path, choice, &folder.paths, &Limits::default()) {
                    return Err(SessionError::Configuration(why));
                }
                Ok(None)
            }
            LoopEnd::Signal(signal) => Ok(Some(Ended::Signal(signal))),
            LoopEnd::Quit | LoopEnd::HungUp | LoopEnd::Closed(_) => Ok(Some(Ended::Stopped)),
        }
    }

    /// Starts the server and shows its session.
    fn show(mut self, plan: Plan, greeting: Vec<String>, folder: &Folder) -> Result<Ended, SessionError> {
        self.log.store_in(&plan.state);
        tty::restore_on_panic(self.tty.saved(), plan.log.clone());
        let mut files = PromptFiles::open(&plan.state, &plan.workspace);
        let mut setup = setup(&plan.settings, &plan.workspace, self.env.as_ref());
        (setup.history, setup.draft) = (files.history(), files.draft());
        let (options, reach) = (plan.settings.session.clone(), plan.reach);
        setup.prompt = options.first_prompt;
        setup.folder = Some(trust::question(&folder.path, folder.paths.home.as_deref(), &Limits::default()));
        let mut server = embed::open(plan).map_err(|error| SessionError::Configuration(error.to_string()))?;
        // A blank line separates these lines from the session.
        let lines: Vec<&str> = greeting.iter().chain(server.problems()).map(|line| line.as_ref()).collect();
        for line in lines.iter().chain((!lines.is_empty()).then_some(&"")) {
            let _ = writeln!(io::stdout(), "{line}");
        }
        setup.url = (reach == Reach::Machine).then(|| server.url().trim_end_matches('/').to_owned());
        let mut link = server.connect().and_then(InProcess::new).map_err(failure(NO_CONNECTION))?;
        let resume = options.resume.map(|which| server.connect().map(|stream| (which, stream))).transpose();
        let resume = resume.map_err(failure(NO_CONNECTION))?;
        let running = Running::start(server).map_err(failure("a thread cannot be started"))?;
        if let Some((which, stream)) = resume {
            let sessions = sessions::list(stream, &folder.path).map_err(failure(NO_CONNECTION))?;
            let task = sessions::find(&sessions, &which);
            let task = task.map_err(|why| SessionError::Configuration(format!("--resume: {why}")))?;
            setup.begin = client::SessionChoice::Task(task);
        }
        let loop_end = self.drive(setup, &mut link, &mut files, folder);
        drop(link);
        let is_gone = matches!(loop_end, Ok(LoopEnd::HungUp | LoopEnd::Signal(Signal::Hangup)));
        let serves_on = is_gone && options.on_hangup == OnHangup::Serve && reach == Reach::Machine;
        if serves_on {
            self.serve_on();
        } else if is_gone || !matches!(loop_end, Ok(LoopEnd::Signal(_))) {
            // A signal was already counted as the first request to end.
            self.signals.set_ending();
        }
        let served = running.end().map_err(failure("the server failed"));
        self.log.take();
        served?;
        match loop_end.map_err(failure(NO_WAIT))? {
            LoopEnd::Quit | LoopEnd::Trust(_) | LoopEnd::HungUp => Ok(Ended::Stopped),
            LoopEnd::Signal(signal) => Ok(Ended::Signal(signal)),
            LoopEnd::Closed(why) => Err(SessionError::Failure(why)),
        }
    }

    fn drive(
        &mut self,
        setup: Setup,
        link: &mut InProcess,
        files: &mut PromptFiles,
        folder: &Folder,
    ) -> io::Result<LoopEnd> {
        let store_answer =
            |choice: TrustChoice| trust::store_answer(&folder.path, choice, &folder.paths, &Limits::default());
        let parts = DriverParts {
            tty: &self.tty,
            signals: &mut self.signals,
            link: Some(link),
            files: Some(files),
            log: Some(&mut self.log),
            trust: Some(&store_answer),
            editor: editor::command(self.env.as_ref()),
            clock: self.clock,
        };
        Driver::new(parts, setup).run()
    }

    /// The terminal was closed, and the server continues until a signal ends it.
    fn serve_on(&mut self) {
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.log.as_fd(), PollFlags::IN),
            ];
            let _ = poll(&mut fds, None);
            self.log.take();
            let is_end =
                |notice: &SignalNotice| matches!(notice, SignalNotice::End(Signal::Terminate | Signal::Interrupt));
            if self.signals.take().iter().any(is_end) {
                return;
            }
        }
    }
}

const NO_CONNECTION: &str = "there is no connection to the server";
const NO_WAIT: &str = "waiting for input of the terminal failed";
