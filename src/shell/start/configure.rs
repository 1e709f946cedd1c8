//! The plan of the program `gemini-a2a`: what its flags, its environment and the files around its workspace say.

use crate::base::size;
use crate::config::options::Flag;
use crate::config::paths::Paths;
use crate::config::settings::Settings;
use crate::config::trust::{OperatorTrust, Trust};
use crate::config::{Agent, Config, Models, Variables};
use crate::limits::Limits;
use crate::model::script::Script;
use crate::shell::event_loop::log::{Log, Redacted};
use crate::shell::event_loop::sys;
use crate::shell::start::assemble::{lookup, read};
use crate::shell::start::embed::{ChildProcesses, Gemini, Model, Plan, SignalHandling};
use crate::shell::start::memory_limit::memory_limit;
use crate::shell::start::workspace_settings::{SettingsReader, real_directory};
use crate::shell::workers::slash_commands::Commands;
use std::ffi::OsString;
use std::sync::Arc;

/// Reads the files around the workspace and combines them with the flags and the environment. Returns the plan, and what to tell the
/// user who starts the server.
pub fn configure(
    flags: &[Flag],
    environment: Vec<(OsString, OsString)>,
    commands: Commands,
) -> Result<(Plan, Vec<String>), String> {
    let env = lookup(environment.clone());
    let mut operators = Settings::default();
    operators.apply_variables(env.as_ref(), &Variables::default())?;
    operators.apply_flags(flags);
    let given_by = match (&operators.pinned_workspace, &operators.workspace) {
        (Some(_), _) => "CODER_AGENT_WORKSPACE_PATH: ",
        (None, Some(_)) => "--workspace: ",
        (None, None) => "",
    };
    let workspace = real_directory(&operators.workspace()).map_err(|error| format!("{given_by}{error}"))?;
    let operator = OperatorTrust { decision: operators.trust, workspace: workspace.clone() };
    let paths = Paths::new(env.as_ref());
    let reader = SettingsReader::new(paths.clone(), env.clone(), operator, Limits::default());
    let config = Config::new(flags, env.as_ref(), reader.read(&workspace)?)?;
    let log = Log::new(config.settings.log_level, config.settings.log_prefix, Redacted::new(secrets(&config)));
    for message in &config.messages {
        log.warn(message);
    }
    let mut greeting = vec![greeting(&config)];
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
        model: model(config.agent, config.models, config.proxy)?,
        settings: config.settings,
        commands,
        children: ChildProcesses::ThisProgram,
        signals: SignalHandling::EndTheServer,
        log,
        ..Plan::at(workspace, config.state_dir)
    };
    Ok((plan, greeting))
}

/// The secrets that are redacted in the log.
fn secrets(config: &Config) -> Vec<String> {
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
    match &config.agent {
        Agent::Gemini(endpoint) => format!("Model: {} at {}", config.models.default, endpoint.base_url),
        Agent::Script(file) => format!("A script answers: {}", file.display()),
        Agent::Demo => "No GEMINI_API_KEY is set: a scripted demo answers, no model is asked.".into(),
    }
}

fn model(agent: Agent, models: Models, proxy: Option<String>) -> Result<Model, String> {
    Ok(match agent {
        Agent::Gemini(endpoint) => Model::Gemini(Box::new(Gemini { endpoint, models, proxy })),
        Agent::Demo => Model::Demo,
        Agent::Script(file) => {
            let text = String::from_utf8(read(&file)?).map_err(|_| format!("{} is not UTF-8 text", file.display()))?;
            let script = Script::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
            Model::Script(Arc::new(script))
        }
    })
}
