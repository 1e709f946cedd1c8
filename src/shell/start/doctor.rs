//! `gemini-a2a doctor`: checks whether the program can work on this machine, and says what to do if not. It changes no settings, sends one
//! request without cost to the model API, and starts the MCP servers once.

mod credentials;
mod servers;
#[cfg(feature = "tui")]
mod terminal;

use crate::base::clock;
use crate::base::text::size;
use crate::base::text::words::words;
use crate::config::listen::Listen;
use crate::config::options::Flag;
use crate::config::trust::Trust;
#[cfg(feature = "bucket")]
use crate::shell::bucket;
use crate::shell::children::confine;
use crate::shell::children::environment::{find_program, path_of};
use crate::shell::event_loop::sys;
use crate::shell::journal::index;
use crate::shell::journal::instances::{self, Instance};
use crate::shell::start::assemble::lookup;
use crate::shell::start::configure::{Configured, LogOutput, configure};
use crate::shell::start::embed::{Gemini, Model, Plan};
use crate::shell::start::workspace_settings::Env;
use crate::shell::workers::client::{self, Client};
use crate::shell::workers::slash_commands::Commands;
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Less free space than this is soon used up by tasks and checkpoints.
const FEW_BYTES: u64 = 200 * 1024 * 1024;
/// If the clock differs by more, tokens and certificates are refused.
const CLOCK_MS: u64 = 300_000;
/// 2026-01-01: an earlier clock was never set.
const BUILT_AFTER_MS: u64 = 1_767_225_600_000;

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Level {
        Fine = "ok",
        Warning = "warn",
        Failure = "fail",
    }
}

/// The result of one check.
#[derive(Debug)]
pub struct Finding {
    level: Level,
    subject: &'static str,
    found: String,
    /// What to do about it; empty if there is no problem.
    advice: String,
}

fn fine(subject: &'static str, found: impl Into<String>) -> Finding {
    Finding { level: Level::Fine, subject, found: found.into(), advice: String::new() }
}

fn warning(subject: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { level: Level::Warning, subject, found: found.into(), advice: advice.into() }
}

fn failure(subject: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { level: Level::Failure, subject, found: found.into(), advice: advice.into() }
}

impl Finding {
    /// `warn  key: none is set · set GEMINI_API_KEY`
    fn line(&self) -> String {
        let advice = if self.advice.is_empty() { String::new() } else { format!(" · {}", self.advice) };
        format!("{:<5} {}: {}{advice}", self.level.word(), self.subject, self.found)
    }

    fn json(&self) -> Value {
        json!({ "level": self.level.word(), "check": self.subject, "found": self.found, "advice": self.advice })
    }
}

/// The lines to print, or the JSON, and whether a check failed.
pub fn run(flags: &[Flag], environment: Vec<(OsString, OsString)>, as_json: bool) -> (String, bool) {
    let env = lookup(environment.clone());
    let mut found = Vec::new();
    let configured = || configure(flags, environment.clone(), Commands::built_in(), LogOutput::Nowhere);
    match configured() {
        Err(why) => found.push(failure("settings", why, "correct it and run this again")),
        Ok(Configured { plan, messages, trust, .. }) => {
            found.push(match messages.is_empty() {
                true => fine("settings", "no errors"),
                false => warning("settings", messages.join(" "), "correct the files"),
            });
            found.push(workspace(&plan, trust));
            let trial = servers::check(&plan, || Ok(configured()?.plan));
            found.extend(of_plan(plan, &env));
            found.extend(trial);
        }
    }
    let path = path_of(&vec![("PATH".into(), env("PATH").unwrap_or_default().into())]);
    found.push(git(&path));
    #[cfg(feature = "tui")]
    found.extend(terminal::check(&env, &path));
    let has_failed = found.iter().any(|finding| finding.level == Level::Failure);
    let text = match as_json {
        true => format!("{}\n", Value::from(found.iter().map(Finding::json).collect::<Vec<_>>())),
        false => found.iter().map(|finding| finding.line() + "\n").collect(),
    };
    (text, has_failed)
}

fn of_plan(plan: Plan, env: &Env) -> Vec<Finding> {
    let mut found = vec![confinement()];
    found.extend(state(&plan.state));
    #[cfg(feature = "bucket")]
    found.extend(bucket(&plan, env));
    found.extend(ports(&plan));
    found.push(credentials::check(&plan, env));
    let certificates = client::tls(plan.certificates.as_deref());
    found.push(match (&plan.certificates, &certificates) {
        (_, Err(why)) => failure("certificates", why, "name a file with PEM certificates, or unset SSL_CERT_FILE"),
        (Some(_), Ok(_)) => fine("certificates", "those of SSL_CERT_FILE"),
        (None, Ok(_)) => fine("certificates", "the built-in ones"),
    });
    match (plan.model, certificates) {
        (Model::Gemini(gemini), Ok(tls)) => {
            found.push(match &gemini.proxy {
                Some(proxy) => fine("proxy", without_password(proxy)),
                None => fine("proxy", "none"),
            });
            found.extend(api(*gemini, tls, &plan.limits));
        }
        (Model::Demo, _) => {
            let why = match env("GEMINI_API_KEY").or_else(|| env("GOOGLE_API_KEY")) {
                Some(_) => "it is empty: the built-in demo answers",
                None => "none is set: the built-in demo answers",
            };
            found.push(warning("key", why, "set GEMINI_API_KEY to a key for the Gemini API"));
            found.push(clock(None));
        }
        (Model::Script(_) | Model::Recorded { .. } | Model::Own { .. } | Model::Gemini(_), _) => {
            found.push(clock(None))
        }
    }
    found
}

fn without_password(proxy: &str) -> String {
    match (proxy.split_once("://"), proxy.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        (_, None) => proxy.to_owned(),
    }
}

/// Checks key, model and network by one request that costs nothing.
fn api(gemini: Gemini, tls: ureq::tls::TlsConfig, limits: &crate::limits::Limits) -> Vec<Finding> {
    let (model, base) = (gemini.models.default.clone(), gemini.endpoint.base_url.clone());
    let client = match Client::new(gemini.endpoint, tls, gemini.proxy.as_deref(), limits.clone()) {
        Ok(client) => client,
        Err(why) if why.starts_with("GOOGLE_APPLICATION_CREDENTIALS") => {
            return vec![failure("key", why, "name another file, or unset the variable"), clock(None)];
        }
        Err(why) => return vec![failure("proxy", why, "correct the proxy variables or the setting proxy")],
    };
    match client.probe(&model) {
        Ok(date) => vec![fine("key", format!("{base} accepts it for {model}")), clock(date.as_deref())],
        Err(error) => vec![failure("key", error.message, "see the sentence before"), clock(None)],
    }
}

/// Compares the clock with that of the API.
fn clock(date: Option<&str>) -> Finding {
    let (now, advice) = (sys::unix_ms(), "set the clock, for example with NTP");
    match date.and_then(clock::read_http_date) {
        _ if now < BUILT_AFTER_MS => failure("clock", format!("it says {}", clock::rfc3339(now)), advice),
        Some(theirs) if theirs.abs_diff(now) > CLOCK_MS => {
            warning("clock", format!("it differs by {} s from that of the API", theirs.abs_diff(now) / 1_000), advice)
        }
        Some(_) => fine("clock", "as that of the API"),
        None => fine("clock", clock::rfc3339(now)),
    }
}

fn workspace(plan: &Plan, trust: Trust) -> Finding {
    let dir = plan.workspace.display();
    match trust {
        Trust::Trusted => fine("workspace", format!("{dir} is trusted")),
        Trust::Untrusted => {
            let found = format!("{dir} is not trusted: its settings, servers and memory files do not count");
            warning("workspace", found, "if it is yours, trust it with /trust in the terminal or --trust-workspace")
        }
    }
}

fn confinement() -> Finding {
    match confine::available() {
        Ok(()) => fine("confinement", "the kernel confines commands that run without approval"),
        Err(why) => warning("confinement", why, "every command needs approval on this machine"),
    }
}

/// Checks the owner, the mode, the free space and the writability of the state directory.
fn state(dir: &Path) -> Vec<Finding> {
    let shown = dir.display();
    // The nearest directory that exists; the directories below it are created at the start.
    let Some((nearest, facts)) = dir.ancestors().find_map(|dir| Some((dir, dir.metadata().ok()?))) else {
        return vec![failure("state", format!("{shown} cannot be read"), "name another directory with --state-dir")];
    };
    if !facts.is_dir() {
        let found = format!("{} is not a directory", nearest.display());
        return vec![failure("state", found, "name another directory with --state-dir")];
    }
    let mut found = Vec::new();
    let uid = sys::effective_uid();
    if nearest == dir && facts.uid() != uid {
        let text = format!("{shown} belongs to the user {}", facts.uid());
        found.push(failure("state", text, "name a directory of your own with --state-dir"));
    } else if nearest == dir && facts.permissions().mode() & 0o022 != 0 {
        let text = format!("{shown} can be written by others");
        found.push(failure("state", text, format!("chmod go-w {shown}")));
    }
    if let Err(error) = rustix::fs::access(nearest, rustix::fs::Access::WRITE_OK) {
        let text = format!("{} cannot be written: {error}", nearest.display());
        found.push(failure("state", text, "name another directory with --state-dir"));
    }
    if let Ok(facts) = rustix::fs::statvfs(nearest) {
        let free = facts.f_bavail.saturating_mul(facts.f_frsize);
        if free < FEW_BYTES {
            let text = format!("only {} are free in {}", size::spell(free), nearest.display());
            found.push(warning("state", text, "make room, or name another directory with --state-dir"));
        }
    }
    if let Some(path) = index::locked_by_another(dir) {
        let text = format!("another process keeps {} locked, so each start reads all journals", path.display());
        found.push(warning("state", text, "let that process go on or end it; fuser names it"));
    }
    if found.is_empty() {
        let running = match instances::living(&dir.join("instances")).len() {
            0 => "no server runs with it".to_owned(),
            1 => "a server runs with it".to_owned(),
            servers => format!("{servers} servers run with it"),
        };
        found.push(fine("state", format!("{shown}; {running}")));
    }
    found
}

/// Checks whether tasks can be stored in the bucket that was chosen.
#[cfg(feature = "bucket")]
fn bucket(plan: &Plan, env: &Env) -> Option<Finding> {
    let advice = "gemini-a2a help store names the variables and permissions that are needed";
    let tls = client::tls(plan.certificates.as_deref()).ok()?;
    let bucket = match bucket::configured(plan.settings.store.kind, env.as_ref(), tls) {
        Ok(bucket) => bucket?,
        Err(error) => return Some(failure("bucket", error.to_string(), advice)),
    };
    Some(match bucket::probe(&*bucket, &bucket::probe_name("doctor")) {
        Ok(()) => fine("bucket", "it answers and refuses to create an object twice"),
        Err(error) => failure("bucket", error.to_string(), advice),
    })
}

/// Checks whether the addresses are free, or used by a server with the same state directory.
fn ports(plan: &Plan) -> Vec<Finding> {
    let running = instances::living(&plan.state.join("instances"));
    let is_ours = |address: &SocketAddr| {
        let listens = |instance: &Instance| instance.listen.iter().any(|listen| *listen == address.to_string());
        running.iter().any(listens)
    };
    let tcp = plan.listen.iter().filter_map(|listen| match listen {
        Listen::Tcp(address) => Some(*address),
        Listen::Unix(_) | Listen::Inherited => None,
    });
    tcp.map(|address| match TcpListener::bind(address) {
        Ok(_) => fine("port", format!("{address} is free")),
        Err(_) if is_ours(&address) => fine("port", format!("gemini-a2a listens on {address}")),
        Err(error) => {
            failure("port", format!("{address}: {error}"), "end what uses it, or take another with --a2a-port")
        }
    })
    .collect()
}

fn git(path: &[PathBuf]) -> Finding {
    let advice = "install git: without it the agent sees no changes and no branches";
    let Some(git) = find_program(OsStr::new("git"), path) else {
        return warning("git", "it is not installed", advice);
    };
    match Command::new(git).arg("--version").output() {
        Ok(output) if output.status.success() => fine("git", String::from_utf8_lossy(&output.stdout).trim()),
        Ok(output) => warning("git", format!("it ends with {}", output.status), advice),
        Err(error) => warning("git", error.to_string(), advice),
    }
}
