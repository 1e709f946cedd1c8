//! Clients of a running server that print lines instead of painting a terminal: `watch`, `send`, `approve` and `tasks`. They speak
//! `gemini-a2a.v1`, as an attached terminal does.

mod approve;
mod connection;
mod output;
mod send;
mod tasks;
pub mod token;
mod watch;

use crate::args::clients::{Action, ClientArgs, TasksAction};
use crate::config::options::Flag;
use crate::config::paths::Paths;
use crate::config::remote::Remote;
use crate::config::settings::Settings;
use crate::config::state_dir;
use crate::config::trust::{OperatorTrust, Trust};
use crate::limits::Limits;
use crate::limits::ui::CLIENT_NAME_CHARS;
use crate::shell::event_loop::signals::Signal;
use crate::shell::event_loop::sys;
use crate::shell::start::assemble::lookup;
use crate::shell::start::reindex;
use crate::shell::start::workspace_settings::{Env, SettingsReader};
use crate::shell::terminal::connection::remote::{ServerAddress, newest_server};
use crate::shell::terminal::connection::tls;
use crate::shell::terminal::connection::websocket::{Failure, WebSocketLink};
use crate::task::message::Source;
use crate::ui::output::block::Viewer;
use crate::wire::ws::Denied;
use connection::Connection;
use output::Output;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use send::Recipient;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Why a client has failed.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientError {
    Usage(String),
    Configuration(String),
    /// There is no server, or what answers is not a gemini-a2a server.
    NotConnected(String),
    /// There is no such task, or no question waits for an answer.
    NoSuchTask(String),
    /// Another client has answered the question first.
    AnsweredAlready(String),
    TurnFailed(String),
    /// The turn waits for the answer to a question.
    QuestionWaits(String),
    /// The server refuses this client.
    Refused(String),
    TimeOver(String),
    Signal(Signal),
    /// The reader of standard output has closed it.
    OutputClosed,
    Failure(String),
}

impl ClientError {
    /// The exit status, and the line for standard error.
    pub fn status(&self) -> (u8, Option<&str>) {
        match self {
            ClientError::OutputClosed => (0, None),
            ClientError::Failure(why) => (1, Some(why)),
            ClientError::Usage(why) => (2, Some(why)),
            ClientError::NotConnected(why) => (3, Some(why)),
            ClientError::NoSuchTask(why) => (4, Some(why)),
            ClientError::AnsweredAlready(why) => (5, Some(why)),
            ClientError::TurnFailed(why) => (6, Some(why)),
            ClientError::QuestionWaits(why) => (7, Some(why)),
            ClientError::Refused(why) => (8, Some(why)),
            ClientError::Configuration(why) => (78, Some(why)),
            ClientError::TimeOver(why) => (124, Some(why)),
            ClientError::Signal(signal) => (signal.exit_status() as u8, None),
        }
    }
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => ClientError::OutputClosed,
            _ => ClientError::Failure(error.to_string()),
        }
    }
}

pub fn run(args: &ClientArgs, flags: &[Flag], environment: Vec<(OsString, OsString)>) -> Result<(), ClientError> {
    protect()?;
    if let Action::Tasks { action: TasksAction::Reindex, .. } = &args.action {
        let json_value = reindex::run(flags, environment).map_err(ClientError::Failure)?;
        return Output::new(args.json).either(&json_value, &serde_json::json!({ "reindexed": json_value }));
    }
    let env = lookup(environment);
    let (_, state) = configure(flags, &env).map_err(ClientError::Configuration)?;
    let address = find_server(args.server.as_ref(), &state, args.token_file.as_deref(), &env)?;
    let name = client_name(None, &env)?;
    let link = WebSocketLink::new(address.clone(), &name, None, sys::entropy());
    let link = link.open().map_err(|failure| refused(&failure, None, &address.name))?;
    let viewer =
        Viewer { me: Source::new(name, "gemini-a2a"), workspace: String::new(), home: env("HOME").unwrap_or_default() };
    let mut connection = Connection::new(link, address.name)?;
    let output = Output::new(args.json);
    match &args.action {
        Action::Watch { after, until } => {
            watch::run(&mut connection, output, &viewer, args.task.as_deref(), *after, until)
        }
        Action::Send { text, begin, wait } => {
            let to = match (args.task.as_deref(), begin) {
                (Some(name), _) => Recipient::Task(name),
                (None, true) => Recipient::NewTask,
                (None, false) => Recipient::Session,
            };
            send::run(&mut connection, output, to, text, *wait)
        }
        Action::Approve(asked) => approve::run(&mut connection, output, &viewer, args.task.as_deref(), asked),
        Action::Tasks { action, all } => tasks::run(&mut connection, output, &viewer, action, *all),
    }
}

/// Makes the memory of this process unreadable for others, so that a tool of the server cannot take over its connection.
pub fn protect() -> Result<(), ClientError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| ClientError::Failure(format!("the process cannot be protected: {error}")))
}

/// The settings of the user, and the state directory. Settings of the current directory are not used, because the server works
/// elsewhere.
pub fn configure(flags: &[Flag], env: &Env) -> Result<(Settings, PathBuf), String> {
    let here = PathBuf::from("/");
    let operator = OperatorTrust { decision: Some(Trust::Untrusted), workspace: here.clone() };
    let reader = SettingsReader::new(Paths::new(env.as_ref()), env.clone(), operator, Limits::default());
    let local = reader.read(&here)?;
    let mut settings = local.settings;
    settings.apply_variables(env.as_ref(), &local.variables)?;
    settings.apply_flags(flags);
    let state = state_dir(&settings, env.as_ref())?;
    Ok((settings, state))
}

/// The server that was named, or the one that was started last.
pub fn find_server(
    server: Option<&Remote>,
    state: &Path,
    token_file: Option<&str>,
    env: &Env,
) -> Result<ServerAddress, ClientError> {
    let token = token::find(token_file, &**env).map_err(ClientError::Configuration)?;
    let instances = state.join("instances");
    let address = match server {
        Some(remote) => ServerAddress { name: remote.to_string(), remote: remote.clone(), instances, token, tls: None },
        None => newest_server(&instances, token).ok_or_else(|| {
            let what = "no server of yours is running; start one with gemini-a2a serve, or name it with --url URL";
            ClientError::NotConnected(what.into())
        })?,
    };
    if address.token.is_some() && address.remote.is_exposed() {
        eprintln!(
            "gemini-a2a: the token is sent to {} without encryption, and others on the way can read it; use https:// or an \
             ssh tunnel",
            address.name
        );
    }
    match address.remote {
        Remote::Tcp { tls: true, .. } => {
            let config = tls::config(env("SSL_CERT_FILE").as_deref()).map_err(ClientError::Configuration)?;
            Ok(ServerAddress { tls: Some(config), ..address })
        }
        Remote::Tcp { .. } | Remote::Unix(_) => Ok(address),
    }
}

/// The error for a failed connection. If a task was named, the server may not have it.
pub fn refused(failure: &Failure, task: Option<&str>, server: &str) -> ClientError {
    let sentence = failure.sentence(server);
    match failure {
        Failure::Denied(Denied::Status(401 | 403, _)) | Failure::Revoked(_) => ClientError::Refused(sentence),
        Failure::Denied(Denied::Status(200 | 404, Some(_))) if task.is_some() => ClientError::NoSuchTask(sentence),
        Failure::Denied(_) | Failure::Unreachable(_) | Failure::Insecure(_) => ClientError::NotConnected(sentence),
    }
}

/// The name that was given, or `USER@HOST`.
pub fn client_name(given: Option<&str>, env: &Env) -> Result<String, ClientError> {
    if let Some(name) = given {
        let fits = name.chars().count() <= CLIENT_NAME_CHARS && !name.chars().any(char::is_control);
        let wrong = || format!("--name has {CLIENT_NAME_CHARS} characters at most, and no control characters");
        return fits.then(|| name.to_owned()).ok_or_else(|| ClientError::Usage(wrong()));
    }
    let user = env("USER").or_else(|| env("LOGNAME")).filter(|user| !user.is_empty());
    let user = user.unwrap_or_else(|| sys::effective_uid().to_string());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "localhost" } else { host.trim() };
    Ok(format!("{user}@{host}").chars().filter(|c| !c.is_control()).take(CLIENT_NAME_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_client_has_the_name_of_its_user_or_a_given_one() {
        let env = |user: String| -> Env { Arc::new(move |name| (name == "USER").then(|| user.clone())) };
        let name = |given: Option<&str>, user: &str| client_name(given, &env(user.to_owned()));
        assert!(name(None, "ann").is_ok_and(|name| name.starts_with("ann@") && name.len() > 4));
        assert!(name(None, "").is_ok_and(|name| name.contains('@') && !name.starts_with('@')));
        assert!(name(None, &"ö".repeat(100)).is_ok_and(|name| name.chars().count() == CLIENT_NAME_CHARS));
        let long = "ö".repeat(CLIENT_NAME_CHARS);
        assert_eq!(name(Some(&long), "ann"), Ok(long.clone()));
        for wrong in [format!("{long}x"), "a\u{1b}b".into()] {
            assert!(matches!(name(Some(&wrong), "ann"), Err(ClientError::Usage(_))), "{wrong:?}");
        }
    }

    #[test]
    fn refusals_have_a_status_each() {
        let status = |status, why: &str, task: Option<&str>| {
            refused(&Failure::Denied(Denied::Status(status, Some(why.into()))), task, "here")
        };
        assert_eq!(status(403, "No.", None), ClientError::Refused("here refuses (403): No.".into()));
        let needed = "here refuses (401): No; give its token in GEMINI_A2A_TOKEN or with --token-file FILE";
        assert_eq!(status(401, "No.", None), ClientError::Refused(needed.into()));
        assert_eq!(status(404, "No.", Some("t")), ClientError::NoSuchTask("here refuses (404): No.".into()));
        assert_eq!(status(200, "No.", Some("t")), ClientError::NoSuchTask("here refuses: No.".into()));
        assert_eq!(status(404, "No.", None), ClientError::NotConnected("here refuses (404): No.".into()));
        let foreign = Failure::Denied(Denied::Foreign("it does not speak HTTP"));
        let sentence = "here is no gemini-a2a server: it does not speak HTTP";
        assert_eq!(refused(&foreign, None, "here"), ClientError::NotConnected(sentence.into()));
    }
}
