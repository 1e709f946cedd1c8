//! Makes a server that listens from a plan. Everything is opened and checked here, before the first connection is accepted, so that an
//! error is one clear line.

mod model;
mod records;

use crate::a2a::{self, Card};
use crate::base::clock::{Now, rfc3339};
use crate::config::settings::{SettingScope, Settings};
use crate::config::trust::OperatorTrust;
use crate::core::access::AccessSetup;
use crate::core::connections::guard::HostPolicy;
use crate::core::disk::store::{Archive, Store};
use crate::core::{Approval, Core, OperationSettings, Setup, Site, Workspace, WorkspaceChoice};
use crate::limits::{INCLUDED_DIRECTORIES, SUPERVISOR_TRIAL_MS};
use crate::shell::children::supervisors::Supervisors;
use crate::shell::children::trial::{Answer, Trial};
use crate::shell::children::{self, Children};
use crate::shell::event_loop::figures::{Reports, Stopwatch};
use crate::shell::event_loop::listen::Listener;
use crate::shell::event_loop::log::Log;
use crate::shell::event_loop::notify::ServiceManager;
use crate::shell::event_loop::server;
use crate::shell::event_loop::signals::Signals;
use crate::shell::event_loop::sys;
use crate::shell::journal::instances::{Instance, Instances};
use crate::shell::journal::observed::ObservedStore;
use crate::shell::journal::saved_rules;
use crate::shell::peers::peer_check::PeerCheck;
use crate::shell::start::access::{access, discovery};
use crate::shell::start::assemble::model::{ForCore, backend, provider};
use crate::shell::start::assemble::records::{Records, access_log, store};
use crate::shell::start::embed::{ChildProcesses, Listen, OpenError, Plan, Reach, Server, SignalHandling};
use crate::shell::start::workspace_settings::{Env, SettingsReader, real_directory};
use crate::shell::workers::client;
use crate::shell::workers::jobs::WorkerContext;
use crate::shell::workers::jobs::client_keys::ClientKeys;
use crate::shell::workers::jobs::webhook::Webhooks;
use crate::shell::workers::prompt_context::PromptContext;
use crate::shell::{agents, mcp};
use crate::task::access::AccessMode;
use crate::task::policy::{Grant, Policy, Tier};
use crate::task::spec::ToolSpec;
use crate::tool::commands::background::Background;
use crate::tool::files::kept_output::KeptOutputs;
#[cfg(feature = "mcp")]
use crate::tool::mcp_call::McpServers;
use crate::tool::web::Web;
use crate::tool::{Spawn, Tool, Toolbox};
use serde_json::Value;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(super) fn assemble(mut plan: Plan) -> Result<Server, OpenError> {
    refuse_supervisors()?;
    plan.limits = plan.limits.with_files(sys::remember_file_limit());
    plan.settings.limits = plan.limits.clone();
    let (limits, log) = (plan.limits.clone(), plan.log.clone());
    let workspace = directory(&plan.workspace)?;
    let roots = roots(&workspace, &plan.settings)?;
    let access_log = access_log(&plan)?;
    let signals = signals(plan.signals).map_err(|e| OpenError::System("signals cannot be watched", e))?;
    let mut instances = Instances::open(&plan.state, &mut sys::entropy()).map_err(OpenError::State)?;
    plan.settings.access.check(listen_of(&plan).as_slice()).map_err(OpenError::Plan)?;
    let (access, credentials, key_source) = access(&plan, &lookup(plan.environment.clone()))?;
    let stopwatch = Stopwatch::default();
    let Records { store, audit, shared, workspace: workspace_id, tools } =
        store(&mut plan, &instances, &workspace, &stopwatch)?;
    let store = Box::new(ObservedStore { store, stopwatch: stopwatch.clone(), watch: plan.watch.take() });
    let mut listeners = listeners(&plan, instances.own())?;
    let service_manager = service_manager(&plan);
    let metrics = plan.settings.operation.metrics_listen.map(Listener::open_metrics);
    let metrics = metrics.transpose().map_err(OpenError::Listen)?;
    let provider = provider(&plan.model);
    let mut problems = Vec::new();
    let children = children(&plan, &instances, roots.clone(), &mut problems)?;
    let supervisors = children.as_ref().map_or_else(Supervisors::of_process, Children::supervisors);
    let unconfined = unconfined(children.as_ref(), &workspace, &mut problems);
    let instance = Instance {
        pid: std::process::id(),
        listen: listeners.iter().map(Listener::name).collect(),
        url: url(&listeners),
        started: rfc3339(sys::unix_ms()),
    };
    let reader = settings_reader(&plan, &workspace);
    let site = Site { id: workspace_id, ..reader.site(workspace).map_err(OpenError::Plan)? };
    let children = children.map(Arc::new);
    let (mut context, model) = worker_context(plan, site, roots, children, store.archive(), reader)?;
    tools.into_iter().for_each(|tools| drop(tools.set(a2a::Tools::new(&context.specs))));
    context.credentials = credentials;
    context.identity = key_source;
    let mut setup =
        Setup { access, audit, shared_store: shared, ..core_setup(&context, model, &listeners, unconfined, &log)? };
    setup.operation.access_log = access_log.is_on();
    setup.operation.provider = provider;
    // Added after the addresses of the server were announced, because it serves only metrics.
    problems.extend(metrics.iter().map(|metrics| format!("Metrics: http://{}/metrics", metrics.name())));
    listeners.extend(metrics);
    context.policy = setup.approval.policy.clone();
    if let Err(error) = instances.announce(&instance) {
        log.warn(format_args!("other programs will not find this server: {error}"));
    }
    if context.site.trusted {
        context.mcp.clone().begin(Path::new(&context.site.path));
    }
    let peer_check = PeerCheck::new(supervisors, instances.dir(), signals.as_ref().map(Signals::continued), &limits);
    problems.extend(peer_check.problem());
    let reports = Reports { log, access_log, stopwatch };
    let server = server::Server::new(listeners, signals, Core::new(setup), store, context, peer_check, reports);
    let mut server = server.map_err(|e| OpenError::System("the event queue cannot be made", e))?;
    service_manager.into_iter().for_each(|manager| server.set_service_manager(manager));
    Ok(Server { server, instance, instances, problems })
}

/// Carries out a verb about the MCP servers of the plan's workspace, without opening a server.
#[cfg(feature = "mcp")]
pub fn with_mcp(plan: Plan, work: impl FnOnce(&Arc<mcp::Pool>, &Path) -> Result<(), String>) -> Result<(), String> {
    let wrong = |error: OpenError| error.to_string();
    let workspace = directory(&plan.workspace).map_err(wrong)?;
    let instances = Instances::open(&plan.state, &mut sys::entropy()).map_err(OpenError::State).map_err(wrong)?;
    let children = children(&plan, &instances, vec![workspace.clone()], &mut Vec::new()).map_err(wrong)?;
    let children = children.map(Arc::new);
    let reader = settings_reader(&plan, &workspace);
    let programs = children.clone().map(|children| children as Arc<dyn Spawn>);
    let tls = client::tls(plan.certificates.as_deref())?;
    let pool = mcp::pool(programs, reader, tls, &plan.settings, &plan.state, &plan.log);
    let done = work(&pool, &workspace);
    McpServers::end(&*pool);
    children.iter().for_each(|children| children.end_all());
    done
}

/// Why no command can be confined; None if commands can be confined.
fn unconfined(children: Option<&Children>, workspace: &Path, problems: &mut Vec<String>) -> Option<String> {
    let Some(children) = children else {
        return Some("This server starts no commands".to_owned());
    };
    let why = children.can_confine(workspace).err()?;
    problems.push(format!("Every command needs approval, because none can be confined: {why}."));
    Some(why)
}

/// The reader of workspaces' settings, with the trust of the plan's operator.
fn settings_reader(plan: &Plan, workspace: &Path) -> SettingsReader {
    let operator = OperatorTrust { decision: plan.trust, workspace: workspace.to_owned() };
    let env = lookup(plan.environment.clone());
    let reader = SettingsReader::new(plan.paths.clone(), env, operator, plan.limits.clone());
    reader.using(plan.settings.extensions.clone())
}

fn signals(handling: SignalHandling) -> io::Result<Option<Signals>> {
    match handling {
        SignalHandling::Untouched => Ok(None),
        SignalHandling::OfTheHost => Signals::without_end().map(Some),
        SignalHandling::EndTheServer => Signals::new().map(Some),
        SignalHandling::ReloadOnHangup => Signals::new().map(|signals| Some(signals.reloading())),
    }
}

/// An error in a process that was started as a supervisor: its server would start a supervisor again, and so on without end.
fn refuse_supervisors() -> Result<(), OpenError> {
    if std::env::args_os().nth(1).is_some_and(|word| word == children::VERB) {
        let message = "this process was started to supervise a command: main has to begin with embed::child_main";
        return Err(OpenError::Children(message.into()));
    }
    Ok(())
}

/// The context of the workers, and the facts about the model for the core.
#[inline(never)]
fn worker_context(
    plan: Plan,
    site: Site,
    roots: Vec<PathBuf>,
    children: Option<Arc<Children>>,
    archive: Arc<dyn Archive>,
    reader: SettingsReader,
) -> Result<(WorkerContext, ForCore), OpenError> {
    let settings = plan.settings;
    let tls = client::tls(plan.certificates.as_deref()).map_err(OpenError::Plan)?;
    let backend = backend(plan.model, tls.clone(), &settings.limits)?;
    let toolbox = toolbox(plan.tools, &children)?;
    let include = included(&settings.context.include, Path::new(&site.path), reader.paths().home.as_deref(), &plan.log);
    let programs = children.clone().map(|children| children as Arc<dyn Spawn>);
    let mut commands = plan.commands;
    let agents = agents::open(programs.clone(), reader.clone(), tls.clone(), &settings.limits, &mut commands);
    let mcp = mcp::open(programs, reader.clone(), tls.clone(), &settings, &plan.state, &plan.log, &mut commands);
    mcp.set_included(include.clone());
    let context = WorkerContext {
        backend: backend.model,
        ask: backend.ask,
        specs: declared(toolbox.specs(), &settings),
        toolbox,
        children,
        prompt_context: PromptContext::new(reader.clone(), plan.log, settings.limits.clone(), include),
        commands,
        background: Background::default(),
        web: Web::new(tls.clone()),
        mcp,
        agents,
        policy: Policy::default(),
        outputs: archive.outputs().map(KeptOutputs::below).unwrap_or_default(),
        keys: ClientKeys::default(),
        webhooks: Webhooks::new(tls, settings.a2a.push_rules.clone()),
        credentials: None,
        identity: None,
        blobs: archive.blobs(),
        archive,
        site,
        roots,
        reader,
        settings,
    };
    Ok((context, backend.for_core))
}

#[inline(never)]
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
        client_mcp: mcp::client_mcp(&settings.mcp),
        tools: context.specs.clone(),
        commands: context.commands.registry().clone(),
        choose: model.choose,
        models: model.names,
        script: model.script,
        card: card(settings, &public_url(settings, listeners)).map_err(OpenError::Plan)?,
        switches: settings.a2a.clone(),
        workspace: Workspace {
            site: context.site.clone(),
            choice: if pinned { WorkspaceChoice::Operator } else { WorkspaceChoice::Client },
        },
        approval: approval(settings, context.reader.paths().saved_rules().as_deref(), log),
        request_policy: settings.request_policy,
        shared_store: None,
        shares_session: settings.access.mode() == AccessMode::Local || settings.access.shared_session,
        access: AccessSetup::default(),
        unconfined,
        audit: None,
        operation: OperationSettings { process: sys::entropy().below(u64::MAX), ..OperationSettings::default() },
        entropy: sys::entropy(),
        started: Now { mono_ms: 0, unix_ms: sys::unix_ms() },
        log_level: log.level(),
    })
}

/// A function that looks up variables in an environment. Values that are not UTF-8 count as unset.
pub fn lookup(environment: Vec<(OsString, OsString)>) -> Env {
    Arc::new(move |name| {
        let found = environment.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.to_str()).map(str::to_owned)
    })
}

/// The built-in tools and those of the host program. Tools that run command lines are left out if no command can be run.
fn toolbox(own: Vec<Box<dyn Tool>>, children: &Option<Arc<Children>>) -> Result<Toolbox, OpenError> {
    let runs_commands = children.as_ref().is_some_and(|children| has_shell(children));
    let toolbox = if runs_commands { Toolbox::built_in() } else { Toolbox::without_commands() };
    let toolbox = toolbox.and(own);
    let specs = toolbox.specs();
    let mut names = HashSet::new();
    match specs.iter().flat_map(ToolSpec::names).find(|name| !names.insert(*name)) {
        Some(name) => Err(OpenError::Plan(format!("two tools are named {name}"))),
        None => Ok(toolbox),
    }
}

/// The addresses to listen on.
fn listen_of(plan: &Plan) -> Vec<Listen> {
    match (plan.reach, plan.listen.is_empty()) {
        (Reach::Process, _) => Vec::new(),
        (_, true) => vec![Listen::Tcp(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), plan.port))],
        (_, false) => plan.listen.clone(),
    }
}

/// The configured listeners, and beside TCP a Unix socket, over which the process of a peer is always known.
#[inline(never)]
fn listeners(plan: &Plan, instance: &str) -> Result<Vec<Listener>, OpenError> {
    if plan.reach == Reach::Process {
        return Ok(Vec::new());
    }
    let listeners: Result<Vec<Listener>, String> = listen_of(plan).iter().map(Listener::open).collect();
    let mut listeners = listeners.map_err(OpenError::Listen)?;
    let opened: Vec<Listen> = listeners.iter().filter_map(Listener::address).map(Listen::Tcp).collect();
    plan.settings.access.check(&opened).map_err(OpenError::Plan)?;
    if let Some(warning) = plan.settings.access.warning(&opened) {
        plan.log.warn(warning);
    }
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

/// The service manager that `NOTIFY_SOCKET` names. One that cannot be told that the server is ready may end it, so that is logged.
fn service_manager(plan: &Plan) -> Option<ServiceManager> {
    let name = plan.notify.as_ref()?;
    let failed = |error| plan.log.warn(format_args!("NOTIFY_SOCKET: {} cannot be used: {error}", name.display()));
    ServiceManager::at(name).map_err(failed).ok()
}

/// The URL of this server: its first TCP port. With a Unix socket only, any loopback name works.
fn url(listeners: &[Listener]) -> String {
    match listeners.iter().find_map(Listener::address) {
        Some(address) if address.ip() == Ipv4Addr::LOCALHOST || address.ip().is_unspecified() => {
            format!("http://localhost:{}/", address.port())
        }
        Some(address) => format!("http://{address}/"),
        None => "http://localhost/".into(),
    }
}

/// The URL by which clients reach this server.
fn public_url(settings: &Settings, listeners: &[Listener]) -> String {
    settings.access.public_url.as_ref().map_or_else(|| url(listeners), |public| public.url.clone())
}

fn host_policy(settings: &Settings, listeners: &[Listener]) -> HostPolicy {
    let path = listeners.iter().rev().find_map(Listener::path);
    let addresses: Vec<SocketAddr> = listeners.iter().filter_map(Listener::address).collect();
    let mut hosts = settings.allowed_hosts.clone();
    hosts.extend(addresses.iter().map(|address| address.ip().to_string()));
    let public = settings.access.public_url.as_ref();
    hosts.extend(public.map(|public| public.host.clone()));
    let mut origins = settings.allowed_origins.clone();
    origins.extend(public.map(|public| public.origin.clone()));
    HostPolicy {
        hosts,
        origins,
        ports: addresses.iter().map(SocketAddr::port).collect(),
        socket: path.map(|path| path.display().to_string()),
    }
}

/// Kills the child processes of dead servers, then tries whether commands can be started.
#[inline(never)]
fn children(
    plan: &Plan,
    instances: &Instances,
    workspaces: Vec<PathBuf>,
    problems: &mut Vec<String>,
) -> Result<Option<Children>, OpenError> {
    let exe = match &plan.children {
        // The link in /proc, so that the file may be replaced.
        ChildProcesses::ThisProgram => "/proc/self/exe".into(),
        ChildProcesses::Program(path) => path.clone(),
        ChildProcesses::None => return Ok(None),
    };
    children::sweep(instances.all());
    let home = plan.environment.iter().find(|(name, _)| name == "HOME").map(|(_, dir)| PathBuf::from(dir));
    let private = home.iter().chain([&plan.state]).filter_map(|dir| dir.canonicalize().ok());
    let settings = children::ChildSettings {
        exe,
        instance: instances.own().to_owned(),
        env: plan.environment.clone(),
        workspaces,
        private: private.collect(),
        git: Some(plan.state.join("git")),
    };
    let mut silent = None;
    match Trial::start(&settings.exe) {
        Err(why) => problems.push(format!("No command can be started: {why}. Tools that start commands fail.")),
        Ok(trial) => match trial.answer(Duration::from_millis(SUPERVISOR_TRIAL_MS)) {
            Answer::AsSupervisor => {}
            Answer::Otherwise => return Err(OpenError::Children(trial.refusal())),
            // The machine may only be slow. Until the answer arrives, commands fail with this reason.
            Answer::NotYet => {
                problems.push(format!("Commands may not start: {}.", trial.refusal()));
                silent = Some(trial);
            }
        },
    }
    let no_thread = |e| OpenError::System("no thread for child processes", e);
    let children = Children::new(settings, &plan.limits).map_err(no_thread)?;
    if let Some(trial) = silent {
        children.await_trial(trial).map_err(no_thread)?;
    }
    if !has_shell(&children) {
        problems.push(
            "There is neither bash nor sh in PATH: no command can be run, run_shell_command is not declared.".into(),
        );
    }
    if !Path::new("/dev/null").exists() {
        problems.push("There is no /dev/null: no command can be run.".into());
    }
    Ok(Some(children))
}

/// Whether there is a program that runs command lines.
fn has_shell(children: &Children) -> bool {
    ["bash", "sh"].into_iter().any(|shell| children.finds(shell))
}

pub fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|e| format!("{} cannot be read: {e}", file.display()))
}

/// The agent card, with the members that the operator adds to the extended one.
#[inline(never)]
fn card(settings: &Settings, url: &str) -> Result<Card, String> {
    let openid = discovery(settings.access.identity.as_deref())?;
    let identity = a2a::Identity {
        openid: openid.as_deref(),
        base_url: url,
        is_public: settings.access.public_url.is_some(),
        needs_credential: settings.access.mode() == AccessMode::Token,
        version: env!("CARGO_PKG_VERSION"),
        unix_ms: sys::unix_ms(),
    };
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

/// The real paths of directories beside the workspace that tools may use. Directories that do not exist are reported.
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

/// The rules about approval: the built-in ones, those of the operator's settings, and those that users saved.
#[inline(never)]
fn approval(settings: &Settings, saved: Option<&Path>, log: &Log) -> Approval {
    let mut policy = Policy::built_in();
    if settings.session.unattended {
        policy.ask_nobody();
    }
    let mut problems = policy.configure(&settings.tools);
    for rule in &settings.rules {
        let tier = match rule.scope {
            SettingScope::Workspace => Tier::Workspace,
            SettingScope::User => Tier::User,
            SettingScope::SystemDefaults | SettingScope::System => Tier::Admin,
        };
        let found = policy.add(tier, &Value::from(vec![rule.rule.clone()]));
        let position = format!("{}, line {}", rule.file, rule.line);
        problems.extend(found.iter().map(|problem| format!("{position}: {problem}")));
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
            always_disabled: security.disable_always_allow,
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
