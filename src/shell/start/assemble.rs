//! From a plan to a server that listens: everything is opened and checked here, before the first connection is accepted, so that an
//! error is one clear line.

use crate::a2a::{self, Card};
use crate::base::clock::{Now, rfc3339};
use crate::base::id::Entropy;
use crate::config::Models;
use crate::config::settings::{SettingScope, Settings};
use crate::config::trust::{OperatorTrust, Trust};
use crate::core::connections::guard::HostPolicy;
use crate::core::disk::store::{Archive, Store};
use crate::core::{Approval, Choose, Core, Setup, Site, Workspace, WorkspaceChoice};
use crate::limits::{Limits, SUPERVISOR_TRIAL_MS};
use crate::model::backend::ModelBackend;
use crate::model::script::{DEMO, Script};
use crate::shell::children::supervisors::Supervisors;
use crate::shell::children::trial::{Answer, Trial};
use crate::shell::children::{self, Children};
use crate::shell::event_loop::listen::Listener;
use crate::shell::event_loop::log::Log;
use crate::shell::event_loop::server::{self, Parts, WAKE};
use crate::shell::event_loop::signals::Signals;
use crate::shell::event_loop::stop::{StopHandle, Wake};
use crate::shell::event_loop::sys::{self, Clock};
use crate::shell::journal::Journal;
use crate::shell::journal::instances::{Instance, Instances};
use crate::shell::journal::saved_rules;
use crate::shell::journal::watch::{Watch, Watched};
use crate::shell::peers::peer_check::PeerCheck;
use crate::shell::start::embed::{ChildProcesses, Gemini, Listen, Model, OpenError, Plan, Server, SignalHandling};
use crate::shell::start::workspace_settings::{Env, SettingsReader};
use crate::shell::workers::client::{self, Client, Route};
use crate::shell::workers::jobs::webhook::Webhooks;
use crate::shell::workers::jobs::{Ignored, Jobs, Resolve, WorkerContext};
use crate::shell::workers::lanes::Lanes;
use crate::shell::workers::prompt_context::{PromptContext, wanted};
use crate::shell::workers::slash_commands::Commands;
use crate::task::policy::{Grant, Policy, Tier};
use crate::task::spec::ToolSpec;
use crate::tool::commands::background::Background;
use crate::tool::web::Web;
use crate::tool::{Ask, Spawn, Tool, Toolbox};
use mio::Poll;
use serde_json::Value;
use std::collections::HashSet;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::TlsConfig;

pub(super) fn assemble(mut plan: Plan) -> Result<Server, OpenError> {
    refuse_supervisors()?;
    plan.limits = plan.limits.with_files(sys::remember_file_limit());
    plan.settings.limits = plan.limits.clone();
    let limits = &plan.limits;
    let workspace = directory(&plan.workspace)?;
    let roots = roots(&workspace, &plan.settings)?;
    let mut entropy = sys::entropy();
    let signals = match plan.signals {
        SignalHandling::Untouched => None,
        SignalHandling::EndTheServer => {
            Some(Signals::new().map_err(|e| OpenError::System("signals cannot be watched", e))?)
        }
    };
    let mut instances = Instances::open(&plan.state, &mut entropy).map_err(OpenError::State)?;
    let store = store(plan.store.take(), plan.watch.take(), &plan.state, &instances, limits)?;
    let listeners = listeners(&plan, instances.own())?;
    let mut problems = Vec::new();
    let children = children(&plan, &instances, roots.clone(), &mut problems)?;
    let supervisors = children.as_ref().map_or_else(Supervisors::of_process, Children::supervisors);
    let unconfined = match &children {
        Some(children) => children.can_confine(&workspace).err(),
        None => Some("This server starts no commands".to_owned()),
    };
    if let Some(why) = unconfined.as_ref().filter(|_| children.is_some()) {
        problems.push(format!("Every command needs approval, because none can be confined: {why}."));
    }
    let instance = Instance {
        pid: std::process::id(),
        listen: listeners.iter().map(Listener::name).collect(),
        url: url(&listeners),
        started: rfc3339(sys::unix_ms()),
    };
    let poll = Poll::new().map_err(|e| OpenError::System("the event queue cannot be made", e))?;
    let wake = Wake::new(&poll, WAKE).map_err(|e| OpenError::System("the event queue cannot be woken", e))?;
    let wake = Arc::new(wake);
    let waker = wake.clone();
    let lanes = Lanes::new(move || waker.wake(), limits);
    let clock = Clock::start();
    let start = Start::new(plan, workspace, roots, &children)?;
    let setup = start.core_setup(&listeners, &instance.url, unconfined, entropy, clock.now())?;
    let (limits, log) = (start.settings.limits.clone(), start.log.clone());
    if let Err(error) = instances.announce(&instance) {
        log.warn(format_args!("other programs will not find this server: {error}"));
    }
    let continued = signals.as_ref().map(Signals::continued);
    let peer_check = PeerCheck::new(supervisors, instances.dir(), continued, &limits);
    problems.extend(peer_check.problem());
    let jobs = Jobs::new(lanes, start.worker_context(children, store.archive())?);
    let stop = StopHandle::new(&wake);
    let core = Core::new(setup);
    let parts = Parts { poll, listeners, signals, wake, clock, core, store, jobs, peer_check, limits, log };
    let server = server::Server::new(parts).map_err(|e| OpenError::System("the event queue takes no listener", e))?;
    Ok(Server { server, instance, instances, stop, problems })
}

/// A process that was started as a supervisor opens no server: it would start a supervisor itself, and so on.
fn refuse_supervisors() -> Result<(), OpenError> {
    if std::env::args_os().nth(1).is_some_and(|word| word == children::VERB) {
        let message = "this process was started to supervise a command: main has to begin with embed::child_main";
        return Err(OpenError::Children(message.into()));
    }
    Ok(())
}

/// What the core and the workers are set up from.
struct Start {
    settings: Settings,
    trust: Trust,
    reader: SettingsReader,
    certificates: Option<Vec<u8>>,
    commands: Commands,
    prompt_context: PromptContext,
    toolbox: Toolbox,
    /// The tools that are declared to the model.
    declared: Vec<ToolSpec>,
    workspace: PathBuf,
    /// All directories that tasks may work below.
    roots: Vec<PathBuf>,
    backend: Backend,
    log: Log,
}

impl Start {
    fn new(
        plan: Plan,
        workspace: PathBuf,
        roots: Vec<PathBuf>,
        children: &Option<Children>,
    ) -> Result<Start, OpenError> {
        let operator = OperatorTrust { decision: plan.trust, workspace: workspace.clone() };
        let env = lookup(plan.environment);
        let reader = SettingsReader::new(plan.paths, env, operator, plan.limits.clone());
        let toolbox = toolbox(plan.tools, children)?;
        let declared = declared(toolbox.specs(), &plan.settings);
        Ok(Start {
            trust: reader.trust(&workspace).map_err(OpenError::Plan)?,
            prompt_context: PromptContext::new(reader.clone(), plan.log.clone(), plan.limits.clone()),
            backend: backend(plan.model, &plan.certificates, &plan.settings)?,
            settings: plan.settings,
            reader,
            certificates: plan.certificates,
            commands: plan.commands,
            toolbox,
            declared,
            workspace,
            roots,
            log: plan.log,
        })
    }

    fn core_setup(
        &self,
        listeners: &[Listener],
        url: &str,
        unconfined: Option<String>,
        entropy: Entropy,
        now: Now,
    ) -> Result<Setup, OpenError> {
        let settings = &self.settings;
        let saved = self.reader.paths().saved_rules();
        Ok(Setup {
            limits: settings.limits.clone(),
            log_level: self.log.level(),
            host_policy: host_policy(settings, listeners),
            tools: self.declared.clone(),
            commands: self.commands.registry().clone(),
            choose: self.backend.chooser(),
            script: self.backend.script.clone(),
            card: card(settings, url).map_err(OpenError::Plan)?,
            switches: settings.a2a.clone(),
            workspace: own_workspace(&self.workspace, settings, self.trust)?,
            approval: approval(settings, saved.as_deref(), &self.log),
            request_policy: settings.request_policy,
            unconfined,
            entropy,
            started: now,
        })
    }

    fn worker_context(self, children: Option<Children>, archive: Arc<dyn Archive>) -> Result<WorkerContext, OpenError> {
        let settings = &self.settings;
        let tls: TlsConfig = client::tls(self.certificates.as_deref()).map_err(OpenError::Plan)?;
        Ok(WorkerContext {
            backend: self.backend.model,
            ask: self.backend.ask,
            toolbox: self.toolbox,
            specs: self.declared,
            children,
            prompt_context: self.prompt_context,
            commands: self.commands,
            background: Background::default(),
            web: Web::new(tls.clone()),
            webhooks: Webhooks::new(tls, settings.a2a.push_rules.clone()),
            saved: self.reader.paths().saved_rules(),
            blobs: archive.blobs(),
            archive,
            ignored: Ignored {
                wanted: wanted(&settings.context),
                files: settings.context.ignore_files.iter().map(PathBuf::from).collect(),
            },
            limits: settings.limits.clone(),
            resolve: resolver(self.workspace, self.roots, self.trust, self.reader),
        })
    }
}

/// Looks variables up in an environment. Values that are not UTF-8 count as unset.
pub(super) fn lookup(environment: Vec<(OsString, OsString)>) -> Env {
    Arc::new(move |name| {
        let found = environment.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.to_str()).map(str::to_owned)
    })
}

fn store(
    own: Option<Box<dyn Store>>,
    watch: Option<Watch>,
    state: &Path,
    instances: &Instances,
    limits: &Limits,
) -> Result<Box<dyn Store>, OpenError> {
    let store = match own {
        Some(store) => store,
        None => Box::new(Journal::open(state, limits, instances).map_err(OpenError::State)?),
    };
    Ok(match watch {
        Some(watch) => Box::new(Watched::new(store, watch)),
        None => store,
    })
}

/// The built-in tools, without those that start commands if none can be started, and the host's.
fn toolbox(own: Vec<Box<dyn Tool>>, children: &Option<Children>) -> Result<Toolbox, OpenError> {
    let toolbox = if children.is_some() { Toolbox::built_in() } else { Toolbox::without_commands() };
    let toolbox = toolbox.and(own);
    let specs = toolbox.specs();
    let mut names = HashSet::new();
    match specs.iter().flat_map(ToolSpec::names).find(|name| !names.insert(*name)) {
        Some(name) => Err(OpenError::Plan(format!("two tools are named {name}"))),
        None => Ok(toolbox),
    }
}

/// The configured listeners, and beside TCP a Unix socket, over which the process of a peer is always known.
fn listeners(plan: &Plan, instance: &str) -> Result<Vec<Listener>, OpenError> {
    let on_port = [Listen::Tcp(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), plan.port))];
    let listen = if plan.listen.is_empty() { &on_port } else { plan.listen.as_slice() };
    let listeners: Result<Vec<Listener>, String> = listen.iter().map(Listener::open).collect();
    let mut listeners = listeners.map_err(OpenError::Listen)?;
    if listeners.iter().any(|listener| listener.address().is_some()) {
        let dir = plan.sockets.clone().unwrap_or_else(|| plan.state.join("run"));
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        match Listener::open_default(&dir, instance) {
            Ok(listener) => listeners.push(listener),
            Err(error) => plan.log.warn(format_args!("there is no Unix socket beside TCP: {error}")),
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

fn host_policy(settings: &Settings, listeners: &[Listener]) -> HostPolicy {
    let path = listeners.iter().rev().find_map(Listener::path);
    let addresses: Vec<SocketAddr> = listeners.iter().filter_map(Listener::address).collect();
    let mut hosts = settings.allowed_hosts.clone();
    hosts.extend(addresses.iter().map(|address| address.ip().to_string()));
    HostPolicy {
        hosts,
        origins: settings.allowed_origins.clone(),
        ports: addresses.iter().map(SocketAddr::port).collect(),
        socket: path.map(|path| path.display().to_string()),
    }
}

/// Processes left over from a server that died are ended before anything new is started.
fn children(
    plan: &Plan,
    instances: &Instances,
    workspaces: Vec<PathBuf>,
    problems: &mut Vec<String>,
) -> Result<Option<Children>, OpenError> {
    let exe = match &plan.children {
        // The link, so that replacing the file does not matter.
        ChildProcesses::ThisProgram => "/proc/self/exe".into(),
        ChildProcesses::Program(path) => path.clone(),
        ChildProcesses::None => return Ok(None),
    };
    children::sweep(instances.all());
    let home = plan.environment.iter().find(|(name, _)| name == "HOME").map(|(_, dir)| PathBuf::from(dir));
    let private = home.iter().chain([&plan.state]).filter_map(|dir| dir.canonicalize().ok());
    let children = children::Plan {
        exe,
        instance: instances.own().to_owned(),
        env: plan.environment.clone(),
        workspaces,
        private: private.collect(),
    };
    let mut silent = None;
    match Trial::start(&children.exe) {
        Err(why) => problems.push(format!("No command can be started: {why}. Tools that start commands fail.")),
        Ok(trial) => match trial.answer(Duration::from_millis(SUPERVISOR_TRIAL_MS)) {
            Answer::AsSupervisor => {}
            Answer::Otherwise => return Err(OpenError::Children(trial.refusal())),
            // The machine may only be slow. Until there is an answer, commands fail with the reason.
            Answer::NotYet => {
                problems.push(format!("Commands may not start: {}.", trial.refusal()));
                silent = Some(trial);
            }
        },
    }
    let no_thread = |e| OpenError::System("no thread for child processes", e);
    let children = Children::new(children, &plan.limits).map_err(no_thread)?;
    if let Some(trial) = silent {
        children.await_trial(trial).map_err(no_thread)?;
    }
    if !["bash", "sh"].into_iter().any(|shell| children.finds(shell)) {
        problems.push("There is neither bash nor sh in PATH: no command can be run.".into());
    }
    Ok(Some(children))
}

/// The model, or the script that replaces it.
struct Backend {
    model: Arc<dyn ModelBackend>,
    ask: Option<Arc<dyn Ask>>,
    script: Option<Arc<Script>>,
    models: Choices,
}

/// The models that clients may choose.
#[derive(Clone)]
enum Choices {
    Any(Models),
    /// Whatever model a client asks for, it gets this one.
    One(String),
}

impl Backend {
    fn chooser(&self) -> Choose {
        match self.models.clone() {
            Choices::Any(models) => Box::new(move |wish| models.choose(wish)),
            Choices::One(name) => Box::new(move |_| Ok(name.clone())),
        }
    }

    fn scripted(script: Arc<Script>, name: &str) -> Backend {
        Backend { model: script.clone(), ask: None, script: Some(script), models: Choices::One(name.to_owned()) }
    }
}

fn backend(model: Model, certificates: &Option<Vec<u8>>, settings: &Settings) -> Result<Backend, OpenError> {
    Ok(match model {
        Model::Gemini(gemini) => {
            let Gemini { endpoint, models, proxy } = *gemini;
            let route = Route { proxy, roots: certificates.clone() };
            let client = Client::new(endpoint, &route, settings.limits.clone()).map_err(OpenError::Plan)?;
            let client = Arc::new(client);
            Backend { model: client.clone(), ask: Some(client), script: None, models: Choices::Any(models) }
        }
        Model::Script(script) => Backend::scripted(script, "script"),
        Model::Demo => Backend::scripted(Arc::new(Script::parse(DEMO).expect("the demo is a script")), "demo"),
        Model::Own { name, backend } => Backend { model: backend, ask: None, script: None, models: Choices::One(name) },
    })
}

pub(super) fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|e| format!("{} cannot be read: {e}", file.display()))
}

/// The agent card, with the members that the operator adds to the extended one.
fn card(settings: &Settings, url: &str) -> Result<Card, String> {
    let identity = a2a::Identity { base_url: url, version: env!("CARGO_PKG_VERSION"), unix_ms: sys::unix_ms() };
    let mut card = a2a::card(&identity, &settings.a2a);
    if let Some(file) = &settings.extended_card {
        match serde_json::from_slice(&read(file)?) {
            Ok(Value::Object(more)) => card.extend(&more),
            Ok(_) => return Err(format!("{} must hold a JSON object with members of the card", file.display())),
            Err(error) => return Err(format!("{} is not JSON: {error}", file.display())),
        }
    }
    Ok(card)
}

fn directory(path: &Path) -> Result<PathBuf, OpenError> {
    real_directory(path).map_err(OpenError::Plan)
}

pub(super) fn real_directory(path: &Path) -> Result<PathBuf, String> {
    let real = path.canonicalize().map_err(|e| format!("the directory {} cannot be used: {e}", path.display()))?;
    if real.is_dir() { Ok(real) } else { Err(format!("{} is not a directory", path.display())) }
}

/// The tools that are declared to the model, without those that the settings exclude.
fn declared(mut specs: Vec<ToolSpec>, settings: &Settings) -> Vec<ToolSpec> {
    let tools = &settings.tools;
    specs.retain(|spec| {
        // An entry such as `run_shell_command(git)` allows a part of a tool, so the tool is declared.
        let is_named = |word: &String| word.split('(').next() == Some(spec.name.as_str());
        let offered = tools.core.as_ref().is_none_or(|core| core.iter().any(is_named));
        offered && !tools.exclude.contains(&spec.name)
    });
    specs
}

/// What needs no approval: the built-in rules, the operator's settings, and the rules that users saved.
fn approval(settings: &Settings, saved: Option<&Path>, log: &Log) -> Approval {
    let mut policy = Policy::built_in();
    let mut problems = policy.configure(&settings.tools);
    for rule in &settings.rules {
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
        let saved = saved_rules::read(path, settings.limits.settings_bytes);
        problems.extend(saved.message);
        problems.extend(policy.add(Tier::User, &Value::from(saved.rules)));
    }
    for problem in problems {
        log.warn(problem);
    }
    let security = &settings.security;
    Approval {
        policy,
        grant: Grant {
            saving: security.permanent_approval && !security.disable_always_allow,
            auto_execute: settings.auto_execute,
        },
        mode: settings.mode,
    }
}

/// The server's own workspace, and whether clients may choose another one.
fn own_workspace(path: &Path, settings: &Settings, trust: Trust) -> Result<Workspace, OpenError> {
    let choice = if settings.pinned_workspace.is_some() { WorkspaceChoice::Operator } else { WorkspaceChoice::Client };
    Ok(Workspace { site: site(path.to_owned(), trust).map_err(OpenError::Plan)?, choice })
}

fn site(path: PathBuf, trust: Trust) -> Result<Site, String> {
    let path = path.into_os_string().into_string().map_err(|_| "the workspace's path is not UTF-8")?;
    Ok(Site { path, trusted: trust == Trust::Trusted })
}

/// Where a client's task may work: the server's workspace, or a directory below an allowed root. Trust is decided for
/// each.
fn resolver(workspace: PathBuf, roots: Vec<PathBuf>, own: Trust, reader: SettingsReader) -> Resolve {
    Box::new(move |wish| {
        let path = real_directory(Path::new(wish))?;
        if !roots.iter().any(|root| path.starts_with(root)) {
            return Err(format!(
                "the workspace {} is outside of what this server allows; start it with --workspace or --allowed-root",
                path.display()
            ));
        }
        let trust = if path == workspace { own } else { reader.trust(&path)? };
        site(path, trust)
    })
}

/// All directories that tasks may work below: the server's workspace and the allowed roots.
fn roots(workspace: &Path, settings: &Settings) -> Result<Vec<PathBuf>, OpenError> {
    let mut roots = vec![workspace.to_owned()];
    for root in &settings.allowed_roots {
        roots.push(directory(root.as_ref())?);
    }
    Ok(roots)
}
