//! Finds command hooks, checks which of them were allowed, and runs them. `task/definitions/command_hook.rs` interprets their answers.
//!
//! A hook of a project is a program that comes with the project: it runs only in a trusted workspace, and only after somebody has allowed
//! its name and its command on this machine.

use crate::base::cancel::Cancel;
use crate::base::json;
use crate::config::definitions::extension::{Extension, ExtensionSource, ManifestPaths};
use crate::config::definitions::hooks::parse;
use crate::config::formats::jsonc;
use crate::config::settings::SettingScope;
use crate::limits::{HOOK_END_MS, HOOK_OUTPUT_BYTES};
use crate::shell::journal::user_files::{lock_for_change, replace};
use crate::shell::start::workspace_settings::{read_inside, read_plain};
use crate::shell::workers::prompt_context::PromptContext;
use crate::task::definitions::command_hook::{CommandHook, HookEnd, HookPoint};
use crate::task::log::blob::sha256;
use crate::tool::{Child, Io, Launch, Pipes, Spawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

const FILE: &str = "hooks/hooks.json";
/// The file with the hashes of allowed hooks, by workspace.
const ALLOWED: &str = "hooks-allowed.json";
/// How often the cancel flag of a running hook's job is checked.
const CANCEL_CHECK: Duration = Duration::from_millis(100);
/// How long output of processes that a hook has started is read after the hook has ended.
const DRAIN: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookState {
    Runs,
    /// The settings switch the hook off.
    Disabled,
    /// The hook is one of the project, and nobody has allowed it.
    NotAllowed,
}

/// All hooks of a workspace, given by its real path. A hook may be among them several times, for several tools or from several files.
pub fn find(context: &PromptContext, workspace: &Path) -> Vec<(CommandHook, HookState)> {
    let local = context.settings_of(workspace);
    let mut messages = Vec::new();
    let mut hooks: Vec<CommandHook> = Vec::new();
    for written in &local.settings.hooks.written {
        let (found, wrong) = parse(&written.hooks);
        messages.extend(wrong.iter().map(|text| format!("{}: {text}", written.file)));
        let of_project = written.scope == SettingScope::Workspace;
        hooks.extend(found.into_iter().map(|hook| CommandHook { of_project, ..hook }));
    }
    for extension in &local.extensions {
        hooks.extend(of_extension(extension, workspace, &mut messages));
    }
    context.log_once(&messages);
    let settings = &local.settings.hooks;
    let allowed = allowed(context);
    let state = |hook: &CommandHook| match hook.of_project {
        _ if settings.enabled == Some(false) => HookState::Disabled,
        _ if settings.disabled.iter().any(|off| *off == hook.name || *off == hook.command) => HookState::Disabled,
        true if !allowed.get(&*workspace.to_string_lossy()).is_some_and(|all| all.contains(&hash(hook))) => {
            HookState::NotAllowed
        }
        true | false => HookState::Runs,
    };
    hooks.into_iter().map(|hook| (hook.clone(), state(&hook))).collect()
}

fn of_extension(extension: &Extension, workspace: &Path, messages: &mut Vec<String>) -> Vec<CommandHook> {
    let file = || extension.dir.join(FILE).display().to_string();
    let text = match read_inside(&extension.dir, FILE, crate::limits::CUSTOM_COMMAND_BYTES) {
        Ok(Some(found)) => found.file.text,
        Ok(None) => return Vec::new(),
        Err(why) => {
            messages.push(format!("{why}; its hooks do not run"));
            return Vec::new();
        }
    };
    let mut value = match jsonc::parse(&text) {
        Ok((node, _)) => node.json(),
        Err(wrong) => {
            messages.push(format!("{}, line {}: {}; its hooks do not run", file(), wrong.line, wrong.text));
            return Vec::new();
        }
    };
    ManifestPaths { extension: &extension.dir, workspace }.expand(&mut value);
    let (found, wrong) = parse(&value["hooks"]);
    messages.extend(wrong.iter().map(|text| format!("{}: {text}", file())));
    let variables: Vec<_> = extension.values.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let of_project = extension.source == ExtensionSource::Workspace;
    found.into_iter().map(|hook| CommandHook { of_project, variables: variables.clone(), ..hook }).collect()
}

/// The hash of a hook's name and command: with another command it has to be allowed again.
fn hash(hook: &CommandHook) -> String {
    sha256(&json::bytes(&[&hook.name, &hook.command]))
}

fn allowed(context: &PromptContext) -> BTreeMap<String, Vec<String>> {
    let path = context.home().map(|home| home.join(ALLOWED));
    let text = path.and_then(|path| read_plain(&path, context.limits().settings_bytes).ok().flatten());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Allows a hook of a project in its workspace.
pub fn allow(context: &PromptContext, workspace: &str, hook: &CommandHook) -> io::Result<()> {
    let path = context.home().ok_or_else(|| io::Error::other("there is no home directory"))?.join(ALLOWED);
    let _changing = lock_for_change();
    let mut all = allowed(context);
    let hashes = all.entry(workspace.to_owned()).or_default();
    if !hashes.contains(&hash(hook)) {
        hashes.push(hash(hook));
    }
    replace(&path, &json::bytes(&all), 0o600)
}

/// Runs a hook in a directory, with this value on its standard input.
pub fn run(
    hook: &CommandHook,
    input: &Value,
    env: &[(&str, &str)],
    dir: &Path,
    spawn: &dyn Spawn,
    cancel: &Cancel,
) -> HookEnd {
    Running::start(hook, input, env, dir, spawn).map_or_else(HookEnd::Failed, |running| running.wait(hook, cancel))
}

/// The output of a command of the user, without blanks at its ends. The error is a clause.
pub fn output_of(
    command: &str,
    timeout_ms: u64,
    dir: &Path,
    spawn: &dyn Spawn,
    cancel: &Cancel,
) -> Result<String, String> {
    let hook = CommandHook {
        point: HookPoint::BeforeTool,
        matcher: String::new(),
        name: String::new(),
        command: command.to_owned(),
        timeout_ms,
        fail_closed: true,
        sequential: false,
        of_project: false,
        variables: Vec::new(),
    };
    match run(&hook, &Value::Null, &[], dir, spawn, cancel) {
        HookEnd::Exit { code: 0, output, .. } => Ok(output.trim().to_owned()),
        HookEnd::Exit { code, .. } => Err(format!("it ended with {code}")),
        HookEnd::Failed(why) => Err(why),
    }
}

struct Running {
    child: Box<dyn Child>,
    input: Option<OwnedFd>,
    unsent: Vec<u8>,
    is_output_open: bool,
    /// The program has ended.
    is_over: bool,
    errors: Option<OwnedFd>,
    /// What the program has printed to standard output and to standard error.
    printed: [Vec<u8>; 2],
}

impl Running {
    fn start(
        hook: &CommandHook,
        input: &Value,
        env: &[(&str, &str)],
        dir: &Path,
        spawn: &dyn Spawn,
    ) -> Result<Running, String> {
        let own = hook.variables.iter().map(|(name, value)| (name.as_str(), value.reveal()));
        let env: Vec<(OsString, OsString)> =
            env.iter().copied().chain(own).map(|(name, value)| (name.into(), value.into())).collect();
        let launch = |shell: &str| {
            let argv = [shell, "-c", &hook.command].map(OsString::from).to_vec();
            let launch = Launch { io: Io::Piped, env: env.clone(), ..Launch::command(argv, File::open(dir)?.into()) };
            spawn.spawn(launch)
        };
        let started = match launch("bash") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => launch("sh"),
            other => other,
        };
        let cannot = |error: io::Error| format!("it cannot be started: {error}");
        let mut child = started.map_err(cannot)?;
        let Pipes { input: sender, errors } = child.take_pipes().ok_or("it has no pipes")?;
        rustix::fs::fcntl_setfl(&sender, OFlags::NONBLOCK).map_err(|errno| cannot(errno.into()))?;
        Ok(Running {
            child,
            input: Some(sender),
            unsent: json::bytes(input),
            is_output_open: true,
            is_over: false,
            errors: Some(errors),
            printed: Default::default(),
        })
    }

    fn wait(mut self, hook: &CommandHook, cancel: &Cancel) -> HookEnd {
        let until = Instant::now() + Duration::from_millis(hook.timeout_ms);
        loop {
            let now = Instant::now();
            if cancel.is_set() || now >= until {
                self.end();
                let late = format!("it took longer than {} ms", hook.timeout_ms);
                return HookEnd::Failed(if cancel.is_set() { "it was cancelled".into() } else { late });
            }
            if self.step((until - now).min(CANCEL_CHECK)) {
                break;
            }
        }
        // The last output of the program may still be in the pipes.
        let until = Instant::now() + DRAIN;
        while self.is_printing() && Instant::now() < until {
            self.step(until.saturating_duration_since(Instant::now()).min(CANCEL_CHECK));
        }
        let [output, errors] = self.printed.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        match self.child.finish() {
            Ok(finished) => match finished.status.code() {
                Some(code) => HookEnd::Exit { code, output, errors },
                None => HookEnd::Failed("it was ended by a signal".into()),
            },
            Err(error) => HookEnd::Failed(format!("its end cannot be seen: {error}")),
        }
    }

    fn is_printing(&self) -> bool {
        self.is_output_open || self.errors.is_some()
    }

    /// Asks the program to end and waits for that up to a limit. Dropping the value kills the program.
    fn end(&mut self) {
        self.child.terminate();
        let until = Instant::now() + Duration::from_millis(HOOK_END_MS);
        while Instant::now() < until && !self.step(CANCEL_CHECK) {}
    }

    /// Reads and writes what is possible within this time. Returns whether the program has ended.
    fn step(&mut self, time: Duration) -> bool {
        let over = self.child.exited();
        fn wanted<'a>(
            fd: Option<BorrowedFd<'a>>,
            flags: PollFlags,
            otherwise: BorrowedFd<'a>,
        ) -> (BorrowedFd<'a>, PollFlags) {
            fd.map_or((otherwise, PollFlags::empty()), |fd| (fd, flags))
        }
        let output = self.is_output_open.then(|| self.child.output());
        let fds = [
            // After the program has ended, only its output is waited for.
            (over, if self.is_over { PollFlags::empty() } else { PollFlags::IN }),
            wanted(output, PollFlags::IN, over),
            wanted(self.errors.as_ref().map(AsFd::as_fd), PollFlags::IN, over),
            wanted(self.input.as_ref().map(AsFd::as_fd), PollFlags::OUT, over),
        ];
        let mut fds = fds.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags));
        let _ = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
        let [has_ended, has_output, has_errors, takes_input] = fds.map(|fd| !fd.revents().is_empty());
        if has_output && output.is_some() && !read(self.child.output(), &mut self.printed[0]) {
            self.is_output_open = false;
        }
        if has_errors
            && let Some(errors) = &self.errors
            && !read(errors.as_fd(), &mut self.printed[1])
        {
            self.errors = None;
        }
        if takes_input && let Some(input) = &self.input {
            match rustix::io::write(input, &self.unsent) {
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                // The program does not read its input.
                Err(_) => self.unsent.clear(),
            }
            if self.unsent.is_empty() {
                self.input = None;
            }
        }
        self.is_over |= has_ended;
        self.is_over
    }
}

/// Reads available bytes, and keeps them up to the limit. False: the output has ended.
fn read(fd: BorrowedFd<'_>, into: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 16 * 1024];
    match rustix::io::read(fd, &mut buffer) {
        Ok(0) => false,
        Ok(count) => {
            let room = HOOK_OUTPUT_BYTES - into.len().min(HOOK_OUTPUT_BYTES);
            into.extend_from_slice(&buffer[..count.min(room)]);
            true
        }
        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => true,
        Err(_) => false,
    }
}
