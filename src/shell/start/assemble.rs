//! From a plan to a server that listens: everything is opened and checked here, before the first connection is accepted, so that an
//! error is one clear line.

use crate::a2a::{self, Card};
use crate::base::clock::{Now, rfc3339};
use crate::config::settings::{SettingScope, Settings};
use crate::config::trust::OperatorTrust;
use crate::core::connections::guard::HostPolicy;
use crate::core::disk::store::{Archive, Store};
use crate::core::{Approval, Choose, Core, Setup, Site, Workspace, WorkspaceChoice};
use crate::limits::{INCLUDED_DIRECTORIES, Limits, SUPERVISOR_TRIAL_MS};
use crate::model::backend::ModelBackend;
use crate::model::script::{DEMO, Script};
use crate::shell::children::supervisors::Supervisors;
use crate::shell::children::trial::{Answer, Trial};
use crate::shell::children::{self, Children};
use crate::shell::event_loop::listen::Listener;
use crate::shell::event_loop::log::Log;
use crate::shell::event_loop::server;
use crate::shell::event_loop::signals::Signals;
use crate::shell::event_loop::sys;
use crate::shell::journal::Journal;
use crate::shell::journal::instances::{Instance, Instances};
use crate::shell::journal::saved_rules;
use crate::shell::journal::watch::{Watch, Watched};
use crate::shell::peers::peer_check::PeerCheck;
use crate::shell::start::embed::{ChildProcesses, Gemini, Listen, Model, OpenError, Plan, Server, SignalHandling};
use crate::shell::start::workspace_settings::{Env, SettingsReader, real_directory};
use crate::shell::workers::client::{self, Client};
use crate::shell::workers::jobs::WorkerContext;
use crate::shell::workers::jobs::webhook::Webhooks;
use crate::shell::workers::prompt_context::PromptContext;
use crate::task::policy::{Grant, Policy, Tier};
use crate::task::spec::ToolSpec;
use crate::tool::commands::background::Background;
use crate::tool::files::kept_output::KeptOutputs;
use crate::tool::web::Web;
use crate::tool::{Ask, Spawn, Tool, Toolbox};
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
    let (limits, log) = (plan.limits.clone(), plan.log.clone());
    let workspace = directory(&plan.workspace)?;
    let roots = roots(&workspace, &plan.settings)?;
    let signals = match plan.signals {
        SignalHandling::Untouched => None,
        SignalHandling::EndTheServer => {
            Some(Signals::new().map_err(|e| OpenError::System("signals cannot be watched", e))?)
        }
    };
    let mut instances = Instances::open(&plan.state, &mut sys::entropy()).map_err(OpenError::State)?;
    let store = store(plan.store.take(), plan.watch.take(), &plan.state, &instances, &limits)?;
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
    let operator = OperatorTrust { decision: plan.trust, workspace: workspace.clone() };
    let env = lookup(plan.environment.clone());
    let reader = SettingsReader::new(plan.paths.clone(), env, operator, limits.clone());
    let site = reader.site(workspace).map_err(OpenError::Plan)?;
    let (context, model) = worker_context(plan, site, roots, children, store.archive(), reader)?;
    let setup = core_setup(&context, model, &listeners, unconfined, &log)?;
    if let Err(error) = instances.announce(&instance) {
        log.warn(format_args!("other programs will not find this server: {error}"));
    }
    let continued = signals.as_ref().map(Signals::continued);
    let peer_check = PeerCheck::new(supervisors, instances.dir(), continued, &limits);
    problems.extend(peer_check.problem());
    let server = server::Server::new(listeners, signals, Core::new(setup), store, context, peer_check, log);
    let server = server.map_err(|e| OpenError::System("the event queue cannot be made", e))?;
    Ok(Server { server, instance, instances, problems })
}

/// A process that was started as a supervisor opens no server: it would start a supervisor itself, and so on.
fn refuse_supervisors() -> Result<(), OpenError> {
    if std::env::args_os().nth(1).is_some_and(|word| word == children::VERB) {
        let message = "this process was started to supervise a command: main has to begin with embed::child_main";
        return Err(OpenError::Children(message.into()));
    }
    Ok(())
}

/// What workers need, and what the core has to know of the model.
fn worker_context(
    plan: Plan,
    site: Site,
    roots: Vec<PathBuf>,
    children: Option<Children>,
    archive: Arc<dyn Archive>,
    reader: SettingsReader,
) -> Result<(WorkerContext, ForCore), OpenError> {
    let settings = plan.settings;
    let tls = client::tls(plan.certificates.as_deref()).map_err(OpenError::Plan)?;
    let backend = backend(plan.model, tls.clone(), &settings.limits)?;
    let toolbox = toolbox(plan.tools, &children)?;
    let include = included(&settings.context.include, Path::new(&site.path), reader.paths().home.as_deref(), &plan.log);
    let context = WorkerContext {
        backend: backend.model,
        ask: backend.ask,
        specs: declared(toolbox.specs(), &settings),
        toolbox,
        children,
        prompt_context: PromptContext::new(reader.clone(), plan.log, settings.limits.clone(), include),
        commands: plan.commands,
        background: Background::default(),
        web: Web::new(tls.clone()),
        outputs: archive.outputs().map(KeptOutputs::below).unwrap_or_default(),
        webhooks: Webhooks::new(tls, settings.a2a.push_rules.clone()),
        blobs: archive.blobs(),
        archive,
        site,
        roots,
        reader,
        settings,
    };
    Ok((context, backend.for_core))
}

fn core_setup(
    context: &WorkerContext,
    model: ForCore,
    listeners: &[Listener],
    unconfined: Option<String>,
    log: &Log,
) -> Result<Setup, OpenError> {
    let settings = &context.settings;
    let pinned = settings.pinned_workspace.is_some();
    Ok(Setup {
        limits: settings.limits.clone(),
        host_policy: host_policy(settings, listeners),
        tools: context.specs.clone(),
        commands: context.commands.registry().clone(),
        choose: model.choose,
        models: model.names,
        script: model.script,
        card: card(settings, &url(listeners)).map_err(OpenError::Plan)?,
        switches: settings.a2a.clone(),
        workspace: Workspace {
            site: context.site.clone(),
            choice: if pinned { WorkspaceChoice::Operator } else { WorkspaceChoice::Client },
        },
        approval: approval(settings, context.reader.paths().saved_rules().as_deref(), log),
        request_policy: settings.request_policy,
        unconfined,
        entropy: sys::entropy(),
        started: Now { mono_ms: 0, unix_ms: sys::unix_ms() },
        log_level: log.level(),
    })
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
        git: Some(plan.state.join("git")),
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
    if !Path::new("/dev/null").exists() {
        problems.push("There is no /dev/null: no command can be run.".into());
    }
    Ok(Some(children))
}

/// The model, or the script that replaces it.
struct Backend {
    model: Arc<dyn ModelBackend>,
    ask: Option<Arc<dyn Ask>>,
    for_core: ForCore,
}

/// What the core knows of the model.
struct ForCore {
    script: Option<Arc<Script>>,
    choose: Choose,
    /// The models that clients may choose, if they are listed.
    names: Vec<String>,
}

impl Backend {
    /// One that always answers by this name, whatever model a client asks for.
    fn named(name: &str, model: Arc<dyn ModelBackend>, script: Option<Arc<Script>>) -> Backend {
        let name = name.to_owned();
        let names = vec![name.clone()];
        let choose = Box::new(move |_: Option<&str>| Ok(name.clone()));
        Backend { model, ask: None, for_core: ForCore { script, choose, names } }
    }
}

fn backend(model: Model, tls: TlsConfig, limits: &Limits) -> Result<Backend, OpenError> {
    let scripted = |name, script: Arc<Script>| Backend::named(name, script.clone(), Some(script));
    Ok(match model {
        Model::Gemini(gemini) => {
            let Gemini { endpoint, models, proxy } = *gemini;
            let client = Client::new(endpoint, tls, proxy.as_deref(), limits.clone()).map_err(OpenError::Plan)?;
            let client = Arc::new(client);
            let names = models.allowed.clone();
            let choose = Box::new(move |wish: Option<&str>| models.choose(wish));
            Backend { model: client.clone(), ask: Some(client), for_core: ForCore { script: None, choose, names } }
        }
        Model::Script(script) => scripted("script", script),
        Model::Demo => scripted("demo", Arc::new(Script::parse(DEMO).expect("the demo is a script"))),
        Model::Own { name, backend } => Backend::named(&name, backend, None),
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

/// The real paths of directories beside the workspace that tools may use. One that does not exist is reported.
fn included(given: &[String], workspace: &Path, home: Option<&Path>, log: &Log) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for text in given {
        let path = match (text.strip_prefix("~/"), home) {
            (Some(below), Some(home)) => home.join(below),
            _ => workspace.join(text),
        };
        match real_directory(&path) {
            Ok(_) if found.len() >= INCLUDED_DIRECTORIES => {
                log.warn(format_args!("{text} is not included: there are {INCLUDED_DIRECTORIES} directories already"));
            }
            Ok(dir) => found.push(dir),
            Err(why) => log.warn(format_args!("{text} is not included: {why}")),
        }
    }
    found
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
        problems.extend(policy.add_saved(&Value::from(saved.rules)));
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

/// All directories that tasks may work below: the server's workspace and the allowed roots.
fn roots(workspace: &Path, settings: &Settings) -> Result<Vec<PathBuf>, OpenError> {
    let mut roots = vec![workspace.to_owned()];
    for root in &settings.allowed_roots {
        roots.push(directory(root.as_ref())?);
    }
    Ok(roots)
}
