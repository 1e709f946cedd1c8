//! Makes the plan of the program `gemini-a2a` from its flags, its environment and the files around its workspace.

use crate::base::text::size;
use crate::config::options::{self, Flag};
use crate::config::paths::Paths;
use crate::config::session::Responses;
use crate::config::settings::Settings;
use crate::config::trust::{OperatorTrust, Trust};
use crate::config::{Agent, Config, Models, Variables};
use crate::limits::Limits;
use crate::model::script::Script;
use crate::shell::event_loop::log::{Log, Redacted, standard_error};
use crate::shell::event_loop::sys;
use crate::shell::start::assemble::{lookup, read};
use crate::shell::start::embed::{ChildProcesses, Gemini, Model, Plan, SignalHandling};
use crate::shell::start::memory_limit::memory_limit;
use crate::shell::start::workspace_settings::{Env, SettingsReader, real_directory};
use crate::shell::workers::client::responses::{FakeResponses, Order};
use crate::shell::workers::slash_commands::Commands;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that the log is written to.
pub enum LogOutput {
    StandardError,
    /// A file: standard error is a terminal on which a screen is drawn.
    Stream(File),
    /// Nowhere: standard error is part of the output of one prompt.
    Nowhere,
}

/// What the program is started with.
pub struct Configured {
    pub plan: Plan,
    /// Lines for the operator who starts a server.
    pub greeting: Vec<String>,
    /// Errors in the files that were read. The log contains them.
    pub messages: Vec<String>,
    /// Whether the workspace is trusted.
    pub trust: Trust,
}

/// The operator's settings from variables and flags, without any file.
pub fn without_files(flags: &[Flag], env: &Env) -> Result<Settings, String> {
    let mut settings = Settings::default();
    settings.apply_variables(env.as_ref(), &Variables::default())?;
    settings.apply_flags(flags);
    Ok(settings)
}

/// Reads the files around the workspace and combines them with the flags and the environment.
pub fn configure(
    flags: &[Flag],
    environment: Vec<(OsString, OsString)>,
    commands: Commands,
    log_output: LogOutput,
) -> Result<Configured, String> {
    let env = lookup(environment.clone());
    let operators = without_files(flags, &env)?;
    let workspace = workspace(&operators)?;
    let operator = OperatorTrust { decision: operators.trust, workspace: workspace.clone() };
    let paths = Paths::new(env.as_ref());
    let reader = SettingsReader::new(paths.clone(), env.clone(), operator, Limits::default());
    let reader = reader.using(operators.extensions.clone());
    let config = Config::new(flags, env.as_ref(), reader.read(&workspace)?)?;
    let mut greeting = vec![greeting(&config)];
    if matches!(log_output, LogOutput::Stream(_)) {
        greeting.extend(config.messages.iter().cloned());
    }
    let log = log(&config, &env, log_output);
    for message in &config.messages {
        log.warn(message);
    }
    if config.trust == Trust::Untrusted {
        greeting.push(
            "The workspace is not trusted: its own settings and GEMINI.md files do not count (--trust-workspace)."
                .into(),
        );
    }
    let memory = memory_limit(config.settings.limits.memory);
    let limits = config.settings.limits.clone().with_memory(memory.as_ref().map(|(bytes, _)| *bytes));
    if let Some((_, text)) = memory.filter(|_| limits.memory.is_some()) {
        let longest = size::spell(limits.body_bytes as u64);
        greeting.push(format!("Memory: {text}; a request may be {longest} long, and less when others are under way."));
    }
    sys::raise_file_limit();
    let certificates = config.settings.ca_file.as_deref().map(read).transpose();
    let plan = Plan {
        listen: config.listen,
        sockets: config.runtime_dir.map(|dir| dir.join("gemini-a2a")),
        limits,
        trust: operators.trust,
        paths,
        environment,
        certificates: certificates.map_err(|error| format!("SSL_CERT_FILE: {error}"))?,
        model: model(config.agent, config.models, config.proxy, &config.settings)?,
        settings: config.settings,
        commands,
        children: ChildProcesses::ThisProgram,
        signals: SignalHandling::EndTheServer,
        log,
        ..Plan::at(workspace, config.state_dir)
    };
    Ok(Configured { plan, greeting, messages: config.messages, trust: config.trust })
}

/// The server's log, which contains no secret of the configuration.
fn log(config: &Config, env: &Env, output: LogOutput) -> Log {
    let redacted = Redacted::new(secrets(config, env.as_ref()));
    let (level, prefix) = (config.settings.log_level, config.settings.log_prefix);
    let format = config.settings.log_format(env.as_ref());
    match output {
        LogOutput::StandardError => Log::formatted(standard_error(), format, level, prefix, redacted),
        LogOutput::Stream(file) => Log::formatted(Some(file), format, level, prefix, redacted),
        // The audit redacts the same secrets.
        LogOutput::Nowhere => Log::to(None, level, prefix, redacted),
    }
}

/// The directory that the agent works in, without links.
pub fn workspace(settings: &Settings) -> Result<PathBuf, String> {
    let given_by = match (&settings.pinned_workspace, &settings.workspace) {
        (Some(_), _) => "CODER_AGENT_WORKSPACE_PATH: ",
        (None, Some(_)) => "--workspace: ",
        (None, None) => "",
    };
    real_directory(&settings.workspace()).map_err(|error| format!("{given_by}{error}"))
}

/// The secrets that are redacted in the log.
fn secrets(config: &Config, env: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let token = config.settings.access.token.iter().map(|token| token.reveal().to_owned());
    // Also the credentials of the environment that are not used. The path of a file is not a secret.
    let is_file = |name: &str| name.ends_with("_FILE") || name == "GOOGLE_APPLICATION_CREDENTIALS";
    let variables = options::credential_variables().filter(|name| !is_file(name));
    secrets_of_model(config).into_iter().chain(token).chain(variables.filter_map(env)).collect()
}

fn secrets_of_model(config: &Config) -> Vec<String> {
    match &config.agent {
        Agent::Gemini(endpoint) => {
            let extra = endpoint.extra.iter().map(|(_, value)| value);
            let all = std::iter::once(&endpoint.key).chain(extra);
            all.map(|secret| secret.reveal().to_owned()).collect()
        }
        Agent::Script(_) | Agent::Demo => Vec::new(),
    }
}

fn greeting(config: &Config) -> String {
    if let Responses::Fake(file) | Responses::FakeByMethod(file) = &config.settings.session.responses {
        return format!("Recorded responses answer: {}", file.display());
    }
    match &config.agent {
        Agent::Gemini(endpoint) => format!("Model: {} at {}", config.models.default, endpoint.base_url),
        Agent::Script(file) => format!("A script answers: {}", file.display()),
        Agent::Demo => "No GEMINI_API_KEY is set: a scripted demo answers, no model is asked.".into(),
    }
}

fn model(agent: Agent, models: Models, proxy: Option<String>, settings: &Settings) -> Result<Model, String> {
    let text =
        |file: &Path| String::from_utf8(read(file)?).map_err(|_| format!("{} is not UTF-8 text", file.display()));
    let recorded = |file: &Path, order| {
        let responses = FakeResponses::parse(&text(file)?, order, settings.limits.clone());
        let responses = Arc::new(responses.map_err(|error| format!("{}, {error}", file.display()))?);
        Ok(Model::Recorded { models: models.clone(), responses })
    };
    let record = match &settings.session.responses {
        Responses::OfTheModel => None,
        Responses::Fake(file) => return recorded(file, Order::Strict),
        Responses::FakeByMethod(file) => return recorded(file, Order::ByMethod),
        Responses::Record(file) => Some(file.clone()),
    };
    Ok(match agent {
        Agent::Gemini(endpoint) => Model::Gemini(Box::new(Gemini { endpoint, models, proxy, record })),
        Agent::Demo | Agent::Script(_) if record.is_some() => {
            return Err("--record-responses needs a model; set GEMINI_API_KEY, and leave --script out".into());
        }
        Agent::Demo => Model::Demo,
        Agent::Script(file) => {
            let text = text(&file)?;
            let script = Script::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
            Model::Script(Arc::new(script))
        }
    })
}
