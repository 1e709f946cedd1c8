//! Answers one prompt without a terminal. The server runs in a second thread and listens nowhere; this thread is its client over
//! [`Server::connect`](crate::embed::Server::connect). No user can be asked, so the policy refuses calls that need approval.

pub(in crate::shell) mod escape_filter;
mod failure;
mod link;
mod output;
mod stats;

use crate::base::id::{CallId, TaskId};
use crate::base::level::Level;
use crate::config::session::{OutputFormat, SessionOptions};
use crate::config::settings::Settings;
use crate::config::state_dir;
use crate::limits::STDIN_BYTES;
use crate::shell::event_loop::signals::{Signal, Signals};
use crate::shell::event_loop::sys;
use crate::shell::start::choose::stdin_has_content;
use crate::shell::start::configure::{Configured, LogOutput};
use crate::shell::start::embed::{self, Model, OpenError, Plan, Reach, SignalHandling};
use crate::shell::start::running::Running;
use crate::shell::start::sessions::{self, ListedSession};
use crate::shell::start::workspace_settings::Env;
use crate::task::log::event::{End, Event, Final};
use crate::task::log::record::Record;
use crate::task::policy::Mode;
use crate::task::spec::{Choice, Ending, ErrorKind};
use crate::ui::client::{About, Incoming, ServerCall, SessionChoice};
use crate::ui::scene::Scene;
use failure::{Failure, FailureKind};
use link::{ConnectionEvent, ServerConnection, ended, stopped};
use output::Output;
use serde_json::Value;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::ExitCode;

/// `settings` are those of flags and variables alone; the plan of `configured` also has those of the settings files.
pub fn run(settings: &Settings, configured: Result<Configured, String>) -> ExitCode {
    let mut output = match manages_sessions(&settings.session) {
        true => Output::new(&SessionOptions { output: OutputFormat::Text, ..settings.session.clone() }),
        false => Output::new(&settings.session),
    };
    let mut server = None;
    let outcome = start(settings, configured, &mut output, &mut server);
    // The result is printed first, because ending the server may take a while.
    let status = output.finish(outcome);
    drop(server);
    status
}

fn start(
    settings: &Settings,
    configured: Result<Configured, String>,
    output: &mut Output,
    running: &mut Option<Running>,
) -> Result<(), Failure> {
    let Configured { mut plan, messages, .. } = configured.map_err(|message| FailureKind::Config.failure(message))?;
    if plan.settings.mode < settings.mode {
        let why = messages.last().cloned().unwrap_or_default();
        return Err(FailureKind::Untrusted.failure(why));
    }
    let prompt = match manages_sessions(&settings.session) {
        true => None,
        false => Some(prompt(&settings.session)?),
    };
    messages.iter().for_each(|message| output.warn(message));
    if matches!(plan.model, Model::Demo) && prompt.is_some() {
        output.warn("No GEMINI_API_KEY is set: a scripted demo answers, no model is asked.");
    }
    let (mode, workspace) = (plan.settings.mode, plan.workspace.clone());
    restrict(&mut plan);
    let system = |e: io::Error| FailureKind::Api.failure(format!("The server cannot be started: {e}"));
    let signals = Signals::new().map_err(system)?;
    let mut server = embed::open(plan).map_err(not_open)?;
    server.problems().iter().for_each(|problem| output.warn(problem));
    let mut link = ServerConnection::new(server.connect().map_err(system)?, signals);
    *running = Some(Running::start(server).map_err(system)?);
    let Some(prompt) = prompt else {
        return manage(link, output, &settings.session, &workspace);
    };
    let task = settings.session.resume.as_deref().map(|which| find(&mut link, which, &workspace)).transpose()?;
    let resumed = task.map(|task| Resumed { task, mode, model: settings.model.clone() });
    converse(link, output, prompt, resumed)
}

/// Whether sessions are listed or deleted, and no prompt is answered.
fn manages_sessions(session: &SessionOptions) -> bool {
    session.list || session.delete.is_some()
}

fn sessions(link: &mut ServerConnection, workspace: &Path) -> Result<Vec<ListedSession>, Failure> {
    sessions::of_workspace(&link.call(ServerCall::Briefs)?, workspace).ok_or_else(ended)
}

fn find(link: &mut ServerConnection, which: &str, workspace: &Path) -> Result<TaskId, Failure> {
    sessions::find(&sessions(link, workspace)?, which).map_err(|why| FailureKind::Input.failure(why))
}

fn manage(
    mut link: ServerConnection,
    output: &mut Output,
    session: &SessionOptions,
    workspace: &Path,
) -> Result<(), Failure> {
    if let Some(which) = &session.delete {
        let task = find(&mut link, which, workspace)?;
        // Watching loads the task, which fails while another process uses it.
        link.call(ServerCall::Watch { task: task.clone(), after: None })?;
        link.call(ServerCall::Unwatch { task: task.clone() })?;
        link.call(ServerCall::Delete { task: task.clone() })?;
        output.print(&format!("Session {task} is deleted.\n"));
    }
    if session.list {
        output.print(&sessions::listing(&sessions(&mut link, workspace)?, sys::unix_ms()));
    }
    Ok(())
}

/// Changes a server's plan for a run without clients and without a user: it does not listen, and calls that need approval are refused.
pub(in crate::shell) fn restrict(plan: &mut Plan) {
    plan.reach = Reach::Process;
    plan.signals = SignalHandling::OfTheHost;
    plan.settings.session.unattended = true;
    // The user of this run is its operator.
    plan.settings.auto_execute |= plan.settings.mode == Mode::Yolo;
    if plan.limits.memory.is_none() {
        // A character of the prompt takes up to six bytes in JSON.
        plan.limits.ws_message_bytes = 8 * STDIN_BYTES;
    }
}

/// Where the log goes: with `--debug` to standard error, or into a file of the state directory if the output is JSON.
pub fn log_output(settings: &Settings, env: &Env) -> LogOutput {
    match settings.session.output {
        _ if settings.log_level != Level::Debug => LogOutput::Nowhere,
        OutputFormat::Text => LogOutput::StandardError,
        OutputFormat::Json | OutputFormat::StreamJson => {
            log_file(settings, env).map_or(LogOutput::Nowhere, LogOutput::Stream)
        }
    }
}

/// The log file of this run, which replaces that of the run before.
fn log_file(settings: &Settings, env: &Env) -> Option<File> {
    let state = state_dir(settings, env.as_ref()).ok()?;
    DirBuilder::new().recursive(true).mode(0o700).create(&state).ok()?;
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(state.join("headless.log")).ok()
}

fn not_open(error: OpenError) -> Failure {
    let kind = match error {
        OpenError::Plan(_) | OpenError::State(_) | OpenError::Listen(_) => FailureKind::Config,
        OpenError::Children(_) | OpenError::System(..) => FailureKind::Api,
    };
    kind.failure(error.to_string())
}

/// Standard input, a blank line, and the prompt of the command line; either may be missing.
fn prompt(session: &SessionOptions) -> Result<String, Failure> {
    let given = session.prompt.as_deref().or(session.first_prompt.as_deref()).unwrap_or_default();
    let mut piped = Vec::new();
    if stdin_has_content() {
        let read = io::stdin().take(STDIN_BYTES as u64 + 1).read_to_end(&mut piped);
        read.map_err(|e| FailureKind::Input.failure(format!("Standard input cannot be read: {e}")))?;
    }
    if piped.len() > STDIN_BYTES {
        let most = STDIN_BYTES / 1024 / 1024;
        return Err(FailureKind::Input.failure(format!(
            "Standard input is longer than {most} MiB. Write it into a file of the workspace and name that in the prompt: @FILE"
        )));
    }
    let piped = String::from_utf8_lossy(&piped);
    match (piped.trim_end(), given) {
        (piped, given) if piped.trim().is_empty() && given.trim().is_empty() => {
            Err(FailureKind::Input.failure("There is no prompt. Give one with -p TEXT, or on standard input."))
        }
        (piped, given) if piped.trim().is_empty() => Ok(given.to_owned()),
        (piped, given) if given.trim().is_empty() => Ok(piped.to_owned()),
        (piped, given) => Ok(format!("{piped}\n\n{given}")),
    }
}

/// A session to continue, in the mode and with the model of this run.
struct Resumed {
    task: TaskId,
    mode: Mode,
    model: Option<String>,
}

/// The run of a prompt in a task.
struct Conversation<'a> {
    link: ServerConnection,
    output: &'a mut Output,
    scene: Scene,
    task: TaskId,
    prompt: String,
    /// The idempotency key of the prompt; slash commands have none.
    key: Option<String>,
    /// The turn of the prompt; None before the record of the prompt has come.
    turn: Option<u32>,
    /// Why the run is being stopped.
    stopped: Option<Failure>,
}

fn converse(
    mut link: ServerConnection,
    output: &mut Output,
    prompt: String,
    resumed: Option<Resumed>,
) -> Result<(), Failure> {
    let about: About = serde_json::from_value(link.call(ServerCall::About)?).unwrap_or_default();
    let mut task = match resumed {
        None => task_id(&link.call(ServerCall::Session(SessionChoice::New))?)?,
        Some(Resumed { task, mode, model }) => {
            let refused = |failure: Failure| {
                FailureKind::Api.failure(format!("Session {task} cannot be continued here: {}", failure.message))
            };
            link.call(ServerCall::Session(SessionChoice::Task(task.clone()))).map_err(refused)?;
            link.call(ServerCall::Tune { task: task.clone(), mode: Some(mode), model }).map_err(refused)?;
            task
        }
    };
    let key = match is_command(&about, &prompt) {
        true => {
            let done = link.call(ServerCall::Execute { task, text: prompt.clone() })?;
            task = task_id(&done["taskId"])?;
            None
        }
        false => Some(sys::entropy().uuid()),
    };
    link.send(ServerCall::Watch { task: task.clone(), after: None });
    if let Some(key) = key.clone() {
        link.send(ServerCall::Say { task: Some(task.clone()), text: prompt.clone(), key, steer: false });
    }
    Conversation { link, output, scene: Scene::default(), task, prompt, key, turn: None, stopped: None }.run()
}

fn task_id(value: &Value) -> Result<TaskId, Failure> {
    value.as_str().map(TaskId::from).ok_or_else(ended)
}

/// Whether the first word is that of a slash command.
fn is_command(about: &About, prompt: &str) -> bool {
    let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    prompt.strip_prefix('/').is_some_and(|text| about.commands.iter().any(|known| first(&known.name) == first(text)))
}

impl Conversation<'_> {
    fn run(mut self) -> Result<(), Failure> {
        loop {
            match self.link.next() {
                ConnectionEvent::Incoming(Incoming::Record(task, record)) if task == self.task => {
                    if let Some(outcome) = self.take(&record) {
                        return self.stopped.map_or(outcome, Err);
                    }
                }
                ConnectionEvent::Incoming(Incoming::Reply(
                    ServerCall::Watch { .. } | ServerCall::Say { .. },
                    Err((reason, message)),
                )) => {
                    return Err(Failure::of_call(&reason, message, FailureKind::Api));
                }
                // The journal cannot be written, most likely because the disk is full. A server would wait; a script must not.
                ConnectionEvent::Incoming(Incoming::Problem(message)) => return Err(FailureKind::Tool.failure(message)),
                ConnectionEvent::Incoming(_) => {}
                ConnectionEvent::Signal(signal) => self.stop(stopped(signal)),
                ConnectionEvent::Closed => return Err(ended()),
            }
            if self.output.is_closed() && self.stopped.is_none() {
                self.stop(stopped(Signal::Terminate));
            }
        }
    }

    /// Aborts the turn, which ends the run.
    fn stop(&mut self, why: Failure) {
        self.stopped.get_or_insert(why);
        self.link.send(ServerCall::Abort { task: self.task.clone() });
    }

    /// Takes a record of the task; those before the prompt are history. Returns how the run ended.
    fn take(&mut self, record: &Record) -> Option<Result<(), Failure>> {
        self.scene.fold(record);
        if let Event::Prompted { turn, delivery, .. } = &record.event
            && self.turn.is_none()
            && delivery.key == self.key
        {
            self.turn = Some(*turn);
            self.output.begin(&self.task, &self.scene.model, &self.prompt, record.at);
            // An earlier run may have left questions open.
            self.scene.asked.clone().into_iter().for_each(|call| self.refuse(call));
        }
        let own = self.turn?;
        self.output.record(record, &self.scene);
        match &record.event {
            // The policy asks no questions; if it did, the run would wait for ever.
            Event::CallAsked { call, .. } | Event::CallInquired { call, .. } => self.refuse(call.clone()),
            Event::CallEnded { ending, .. } => {
                if let Ending::Error { error } = ending.as_ref()
                    && error.kind == ErrorKind::NoSpaceLeft
                {
                    self.stop(FailureKind::Tool.failure(&error.message));
                }
            }
            Event::TurnBegan { .. } => {
                if let Some(why) = self.stopped.clone() {
                    self.stop(why);
                }
            }
            Event::TurnEnded { turn, end, .. } if *turn == own => return Some(self.ended(end, record.at)),
            Event::Closed { state, text } => {
                return Some(self.closed(*state, text.as_deref().unwrap_or_default(), record.at));
            }
            _ => {}
        }
        None
    }

    fn refuse(&mut self, call: CallId) {
        let task = self.task.clone();
        let choice = Choice::Cancel;
        self.link.send(ServerCall::Answer { task, call, choice, edited: None, answers: None, seen: None });
    }

    fn ended(&mut self, end: &End, at: u64) -> Result<(), Failure> {
        match end {
            End::Done | End::Nothing | End::Refused => Ok(()),
            End::Asked(text) => {
                self.output.print_piece(text, at);
                self.output.set_response(text);
                Ok(())
            }
            End::NeedsAuth(text) => Err(FailureKind::Authentication.failure(text)),
            End::Failed(text) => Err(Failure::of_turn(text, self.output.broken_streams())),
            End::Interrupted(text) => Err(FailureKind::Cancelled.failure(text)),
        }
    }

    /// The task was closed: a slash command has ended, or a script closes the task.
    fn closed(&mut self, state: Final, text: &str, at: u64) -> Result<(), Failure> {
        match state {
            Final::Completed if text.is_empty() => Ok(()),
            Final::Completed => self.ended(&End::Asked(text.to_owned()), at),
            Final::Failed | Final::Rejected => self.ended(&End::Failed(text.to_owned()), at),
            Final::Canceled => Err(FailureKind::Cancelled.failure(text)),
        }
    }
}
