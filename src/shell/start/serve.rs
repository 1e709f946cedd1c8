//! From a configuration to a running server: everything is opened and checked here, before the first connection is
//! accepted, so that an error is one clear line and an exit status.

use crate::a2a::{self, Card};
use crate::base::clock::{Now, rfc3339};
use crate::base::id::Entropy;
use crate::config::options::Flag;
use crate::config::settings::{SettingScope, Settings};
use crate::config::trust::{OperatorTrust, Trust};
use crate::config::{Agent, Config, Variables};
use crate::core::connections::guard::HostPolicy;
use crate::core::disk::store::Store;
use crate::core::{Approval, Choose, Core, Setup, Site, Workspace, WorkspaceChoice};
use crate::limits::Limits;
use crate::model::backend::ModelBackend;
use crate::model::script::{DEMO, Script};
use crate::shell::children::{self, Children};
use crate::shell::event_loop::listen::Listener;
use crate::shell::event_loop::log::{Log, Redacted};
use crate::shell::event_loop::server::{Parts, Server, WAKE};
use crate::shell::event_loop::signals::Signals;
use crate::shell::event_loop::sys;
use crate::shell::event_loop::sys::Clock;
use crate::shell::journal::Journal;
use crate::shell::journal::instances::Instance;
use crate::shell::journal::saved_rules;
use crate::shell::peers::peer_check::PeerCheck;
use crate::shell::start::program::FAILURE;
use crate::shell::start::workspace_settings::{Env, SettingsReader};
use crate::shell::workers::client;
use crate::shell::workers::client::{Client, Route};
use crate::shell::workers::jobs::webhook::Webhooks;
use crate::shell::workers::jobs::{Ignored, Jobs, Resolve, WorkerContext};
use crate::shell::workers::lanes::Lanes;
use crate::shell::workers::prompt_context::{PromptContext, wanted};
use crate::shell::workers::slash_commands::Commands;
use crate::task::log::blob::Blobs;
use crate::task::policy::{Grant, Policy, Tier};
use crate::task::spec::ToolSpec;
use crate::tool::commands::background::Background;
use crate::tool::web::Web;
use crate::tool::{Ask, Spawn, Toolbox};
use mio::{Poll, Waker};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use ureq::tls::TlsConfig;

/// Reads the files around the workspace and combines them with the flags and the environment.
pub fn configure(flags: &[Flag], env: Env) -> Result<(Config, SettingsReader), String> {
    let mut operators = Settings::default();
    operators.apply_variables(env.as_ref(), &Variables::default())?;
    operators.apply_flags(flags);
    let workspace = directory(&operators.workspace())?;
    let operator = OperatorTrust { decision: operators.trust, workspace: workspace.clone() };
    let reader = SettingsReader::new(env.clone(), operator, Limits::default());
    let config = Config::new(flags, env.as_ref(), reader.read(&workspace)?)?;
    Ok((config, reader))
}

/// Serves until a signal ends it, and returns the exit status. An error is one of the configuration.
pub fn serve((mut config, reader): (Config, SettingsReader), commands: Commands) -> Result<u8, String> {
    let limits = config.settings.limits.clone().within(sys::raise_file_limit().raised);
    config.settings.limits = limits.clone();
    let log = Log::new(config.settings.log_level, Redacted::new(secrets(&config)))
        .map_err(|e| format!("standard error cannot be written: {e}"))?;
    let workspace = directory(&config.workspace)?;
    let mut entropy = sys::entropy();
    let signals = Signals::new().map_err(|e| format!("signals cannot be watched: {e}"))?;
    let mut store = Journal::open(&config.state_dir, &limits, &mut entropy).map_err(|e| e.message)?;
    let listeners = listeners(&config, store.instance(), &log)?;
    let roots = roots(&workspace, &config)?;
    let children = children(&store, &config, roots.clone())?;
    let supervisors = children.supervisors();
    let unconfined = children.can_confine(&workspace).err();
    let instance = Instance {
        pid: std::process::id(),
        listen: listeners.iter().map(Listener::name).collect(),
        url: url(&listeners),
        started: rfc3339(sys::unix_ms()),
    };
    let poll = Poll::new().map_err(|e| format!("the event queue cannot be made: {e}"))?;
    let waker = Waker::new(poll.registry(), WAKE).map_err(|e| format!("no waker: {e}"))?;
    let lanes = Lanes::new(move || drop(waker.wake()), &limits);
    let certificates = config.settings.ca_file.as_deref().map(read).transpose()?;
    let tls = client::tls(certificates.as_deref())?;
    let backend = backend(&config, certificates)?;
    let clock = Clock::start();
    let tools = declared(Toolbox::built_in().specs(), &config);
    let prompt_context = PromptContext::new(reader.clone(), log.clone(), limits.clone());
    let start = Start { config, reader, commands, prompt_context, tools, workspace, roots, backend };
    let core =
        Core::new(start.core_setup(&listeners, &instance.url, unconfined.clone(), entropy, clock.now(), &log)?);
    start.prompt_context.tell(&start.config.messages);
    if let Err(error) = store.announce(&instance) {
        log.warn(format_args!("other programs will not find this server: {error}"));
    }
    start.greet(&instance, unconfined);
    let jobs = Jobs::new(lanes, store.archive(), start.worker_context(children, tls, store.blobs()));
    let peer_check = PeerCheck::new(supervisors, store.instances_dir(), signals.continued(), &limits);
    let store = Box::new(store);
    let parts = Parts { poll, listeners, signals, clock, core, store, jobs, peer_check, limits, log };
    let server = Server::new(parts).map_err(|e| format!("the server cannot start: {e}"))?;
    Ok(server.run().unwrap_or_else(|error| {
        eprintln!("gemini-a2a: the event loop failed: {error}");
        FAILURE
    }))
}

/// What the core and the workers are set up from.
struct Start {
    config: Config,
    reader: SettingsReader,
    commands: Commands,
    prompt_context: PromptContext,
    tools: Vec<ToolSpec>,
    workspace: PathBuf,
    /// All directories that tasks may work below.
    roots: Vec<PathBuf>,
    backend: Backend,
}

impl Start {
    fn core_setup(
        &self,
        listeners: &[Listener],
        url: &str,
        unconfined: Option<String>,
        entropy: Entropy,
        now: Now,
        log: &Log,
    ) -> Result<Setup, String> {
        let settings = &self.config.settings;
        Ok(Setup {
            limits: settings.limits.clone(),
            host_policy: host_policy(&self.config, listeners),
            tools: self.tools.clone(),
            commands: self.commands.registry().clone(),
            choose: chooser(&self.config),
            script: self.backend.script.clone(),
            card: card(settings, url)?,
            switches: settings.a2a.clone(),
            workspace: own_workspace(&self.workspace, &self.config)?,
            approval: approval(&self.config, self.reader.paths().saved_rules().as_deref(), log),
            request_policy: settings.request_policy,
            unconfined,
            entropy,
            now,
        })
    }

    fn worker_context(self, children: Children, tls: TlsConfig, blobs: Arc<dyn Blobs>) -> WorkerContext {
        let settings = &self.config.settings;
        WorkerContext {
            backend: self.backend.model,
            ask: self.backend.ask,
            toolbox: Toolbox::built_in(),
            specs: self.tools,
            children,
            prompt_context: self.prompt_context,
            commands: self.commands,
            background: Background::default(),
            web: Web::new(tls.clone()),
            webhooks: Webhooks::new(tls, settings.a2a.push_rules.clone()),
            saved: self.reader.paths().saved_rules(),
            blobs,
            ignored: ignored(&self.config),
            limits: settings.limits.clone(),
            resolve: resolver(self.workspace, self.roots, self.config.trust, self.reader),
        }
    }

    /// Tells on standard error where the server listens and what a user should know about it.
    fn greet(&self, instance: &Instance, unconfined: Option<String>) {
        eprintln!("gemini-a2a listens on {} and works in {}", instance.url, self.workspace.display());
        eprintln!("Its listeners: {}", instance.listen.join(", "));
        eprintln!("{}", self.backend.greeting);
        if self.config.trust == Trust::Untrusted {
            eprintln!(
                "The workspace is not trusted: its own settings and GEMINI.md files do not count (--trust-workspace)."
            );
        }
        if let Some(why) = unconfined {
            eprintln!("Every command needs approval, because none can be confined: {why}.");
        }
    }
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

/// The configured listeners, and beside TCP a Unix socket, over which the process of a peer is always known.
fn listeners(config: &Config, instance: &str, log: &Log) -> Result<Vec<Listener>, String> {
    let mut listeners = config.listen.iter().map(Listener::open).collect::<Result<Vec<_>, _>>()?;
    if listeners.iter().any(|listener| listener.address().is_some()) {
        let dir = match &config.runtime_dir {
            Some(dir) => dir.join("gemini-a2a"),
            None => config.state_dir.join("run"),
        };
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        match Listener::open_default(&dir, instance) {
            Ok(listener) => listeners.push(listener),
            Err(error) => log.warn(format_args!("there is no Unix socket beside TCP: {error}")),
        }
    }
    Ok(listeners)
}

/// The URL of this server: its first TCP port. With a Unix socket only, any loopback name works.
fn url(listeners: &[Listener]) -> String {
    match listeners.iter().find_map(Listener::address) {
        Some(address) if address.ip() == Ipv4Addr::LOCALHOST => format!("http://localhost:{}/", address.port()),
        Some(address) => format!("http://{address}/"),
        None => "http://localhost/".into(),
    }
}

fn host_policy(config: &Config, listeners: &[Listener]) -> HostPolicy {
    let path = listeners.iter().rev().find_map(Listener::path);
    let addresses: Vec<SocketAddr> = listeners.iter().filter_map(Listener::address).collect();
    let mut hosts = config.settings.allowed_hosts.clone();
    hosts.extend(addresses.iter().map(|address| address.ip().to_string()));
    HostPolicy {
        hosts,
        origins: config.settings.allowed_origins.clone(),
        ports: addresses.iter().map(SocketAddr::port).collect(),
        socket: path.map(|path| path.display().to_string()),
    }
}

/// Processes left over from a server that died are ended before anything new is started.
fn children(store: &Journal, config: &Config, workspaces: Vec<PathBuf>) -> Result<Children, String> {
    children::sweep(store.instances());
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let private = home.iter().chain([&config.state_dir]).filter_map(|dir| dir.canonicalize().ok());
    let plan = children::Plan {
        exe: "/proc/self/exe".into(),
        instance: store.instance().to_owned(),
        env: std::env::vars_os().collect(),
        workspaces,
        private: private.collect(),
    };
    Children::new(plan, &config.settings.limits).map_err(|e| format!("no thread for child processes: {e}"))
}

/// The configured model, or the script that replaces it.
struct Backend {
    model: Arc<dyn ModelBackend>,
    ask: Option<Arc<dyn Ask>>,
    script: Option<Arc<Script>>,
    greeting: String,
}

fn backend(config: &Config, roots: Option<Vec<u8>>) -> Result<Backend, String> {
    let scripted = |text: &str, name: &str| -> Result<Arc<Script>, String> {
        Script::parse(text).map(Arc::new).map_err(|error| format!("{name}: {error}"))
    };
    match &config.agent {
        Agent::Gemini(endpoint) => {
            let greeting = format!("Model: {} at {}", config.models.default, endpoint.base_url);
            let route = Route { proxy: config.proxy.clone(), roots };
            let client = Client::new(endpoint.clone(), &route, config.settings.limits.clone())?;
            let client = Arc::new(client);
            Ok(Backend { model: client.clone(), ask: Some(client), script: None, greeting })
        }
        Agent::Script(file) => {
            let text = String::from_utf8(read(file)?).map_err(|_| format!("{} is not UTF-8 text", file.display()))?;
            let script = scripted(&text, &file.display().to_string())?;
            let greeting = format!("A script answers: {}", file.display());
            Ok(Backend { model: script.clone(), ask: None, script: Some(script), greeting })
        }
        Agent::Demo => {
            let script = scripted(DEMO, "the built-in demo")?;
            let greeting = "No GEMINI_API_KEY is set: a scripted demo answers, no model is asked.";
            Ok(Backend { model: script.clone(), ask: None, script: Some(script), greeting: greeting.into() })
        }
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|e| format!("{} cannot be read: {e}", file.display()))
}

/// The agent card, with the members that the operator adds to the extended one.
fn card(settings: &Settings, url: &str) -> Result<Card, String> {
    let identity = a2a::Identity { base_url: url, version: env!("CARGO_PKG_VERSION"), unix_ms: sys::unix_ms() };
    let mut card = a2a::card(&identity, &settings.a2a);
    if let Some(file) = &settings.extended_card {
        card.extend(&extended_card(file)?);
    }
    Ok(card)
}

fn extended_card(file: &Path) -> Result<serde_json::Map<String, Value>, String> {
    match serde_json::from_slice(&read(file)?) {
        Ok(Value::Object(more)) => Ok(more),
        Ok(_) => Err(format!("{} must hold a JSON object with members of the card", file.display())),
        Err(error) => Err(format!("{} is not JSON: {error}", file.display())),
    }
}

fn directory(path: &Path) -> Result<PathBuf, String> {
    let real = path.canonicalize().map_err(|e| format!("the directory {} cannot be used: {e}", path.display()))?;
    if real.is_dir() { Ok(real) } else { Err(format!("{} is not a directory", path.display())) }
}

/// Chooses the model of a task. A script answers whatever model a client asks for.
fn chooser(config: &Config) -> Choose {
    let models = config.models.clone();
    match &config.agent {
        Agent::Gemini(_) => Box::new(move |wish| models.choose(wish)),
        Agent::Script(_) => Box::new(|_| Ok("script".into())),
        Agent::Demo => Box::new(|_| Ok("demo".into())),
    }
}

/// The tools that are declared to the model, without those that the settings exclude.
fn declared(mut specs: Vec<ToolSpec>, config: &Config) -> Vec<ToolSpec> {
    let tools = &config.settings.tools;
    let names = |list: &[String], name: &str| list.iter().any(|word| word == name);
    specs.retain(|spec| {
        let only = tools.core.as_ref();
        // An entry such as `run_shell_command(git)` allows a part of a tool, so the tool is there.
        let offered =
            only.is_none_or(|core| core.iter().any(|word| word.split('(').next() == Some(spec.name.as_str())));
        offered && !names(&tools.exclude, &spec.name)
    });
    specs
}

/// Which ignore files are used.
fn ignored(config: &Config) -> Ignored {
    let context = &config.settings.context;
    Ignored { wanted: wanted(context), files: context.ignore_files.iter().map(PathBuf::from).collect() }
}

/// What needs no approval: the built-in rules, the operator's settings, and the rules that users saved.
fn approval(config: &Config, saved: Option<&Path>, log: &Log) -> Approval {
    let mut policy = Policy::built_in();
    let mut problems = policy.configure(&config.settings.tools);
    for rule in &config.settings.rules {
        let tier = match rule.scope {
            SettingScope::Workspace => Tier::Workspace,
            SettingScope::User => Tier::User,
            SettingScope::SystemDefaults | SettingScope::System => Tier::Admin,
        };
        let found = policy.add(tier, &Value::from(vec![rule.rule.clone()]));
        let place = format!("{}, line {}", rule.file, rule.line);
        problems.extend(found.iter().map(|problem| format!("{place}: {problem}")));
    }
    if let Some(path) = saved {
        let saved = saved_rules::read(path, config.settings.limits.settings_bytes);
        problems.extend(saved.message);
        problems.extend(policy.add(Tier::User, &Value::from(saved.rules)));
    }
    for problem in problems {
        log.warn(problem);
    }
    let security = &config.settings.security;
    Approval {
        policy,
        grant: Grant {
            saving: security.permanent_approval && !security.disable_always_allow,
            auto_execute: config.settings.auto_execute,
        },
        mode: config.settings.mode,
    }
}

/// The server's own workspace, and whether clients may choose another one.
fn own_workspace(path: &Path, config: &Config) -> Result<Workspace, String> {
    let choice =
        if config.settings.pinned_workspace.is_some() { WorkspaceChoice::Operator } else { WorkspaceChoice::Client };
    Ok(Workspace { site: site(path.to_owned(), config.trust)?, choice })
}

fn site(path: PathBuf, trust: Trust) -> Result<Site, String> {
    let path = path.into_os_string().into_string().map_err(|_| "the workspace's path is not UTF-8")?;
    Ok(Site { path, trusted: trust == Trust::Trusted })
}

/// Where a client's task may work: the server's workspace, or a directory below an allowed root. Trust is decided for
/// each.
fn resolver(workspace: PathBuf, roots: Vec<PathBuf>, own: Trust, reader: SettingsReader) -> Resolve {
    Box::new(move |wish| {
        let path = directory(Path::new(wish))?;
        if !roots.iter().any(|root| path.starts_with(root)) {
            return Err(format!(
                "the workspace {} is outside of what this server allows; start it with --workspace or --allowed-root",
                path.display()
            ));
        }
        let trust = if path == workspace { own } else { reader.read(&path)?.trust };
        site(path, trust)
    })
}

/// All directories that tasks may work below: the server's workspace and the allowed roots.
fn roots(workspace: &Path, config: &Config) -> Result<Vec<PathBuf>, String> {
    let mut roots = vec![workspace.to_owned()];
    for root in &config.settings.allowed_roots {
        roots.push(directory(root.as_ref())?);
    }
    Ok(roots)
}
