//! The tools. A file named after a tool contains its declaration, `prepare` (finds out what a call would do and changes nothing) and
//! `run`; `commands/background.rs` contains two tools. `prepare` and `run` are called on worker threads only; nothing here knows of the
//! logs of tasks, of clients or of dialects.
//!
//! The other files are shared by the tools. In [`files`]: `path` keeps every file access inside the workspace, `open` opens a file without
//! following links, `put` replaces it, `diff` shows what an edit would do, `edit` writes files, `changes` records the changed files,
//! `restore` puts earlier versions back, `text` reads and writes encodings and marks untrusted text, `attachments` reads the files that a
//! prompt names, `kept_output` stores long outputs. In [`commands`]: `watch` follows a running command, `output` cleans the output of
//! commands, `background` holds the commands that run in the background. In [`search`]: `walk` visits directory trees, `listing` reads one
//! directory, `ignore` reads ignore files, `wildcard` compares names, `paths` completes the path that a person types. [`web`] contains the
//! tools for the network; [`public_hosts`] keeps them away from private addresses. [`live`] collects output that is shown while a call
//! runs, [`people`] asks the user while a call runs.
//!
//! `run` does not rely on the results of `prepare`, because files may change until the call is approved: it reads them again and compares.

pub mod ask_user;
pub mod commands;
pub mod files;
pub mod invoke_agent;
pub mod live;
pub mod mcp_call;
pub mod mcp_resources;
pub mod people;
#[cfg(any(feature = "agents", feature = "mcp", feature = "web-tools", feature = "webhooks"))]
pub mod public_hosts;
pub mod search;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(feature = "web-tools")]
pub mod web;
#[cfg(not(feature = "web-tools"))]
#[path = "web/none.rs"]
pub mod web;
pub mod write_todos;

use crate::base::cancel::Cancel;
use crate::base::id::{TaskId, Tenant};
use crate::base::text::nearest::edit_distance;
use crate::limits::Limits;
use crate::task::definitions::skill::ActiveSkill;
use crate::task::log::answer::Request;
use crate::task::log::long_text::LongText;
use crate::task::log::server::NamedServer;
use crate::task::machine::job::{ModelError, Run, RunEnd};
use crate::task::origin::Origin;
use crate::task::spec::{CallError, Display, Ending, ErrorKind, Kind, Plan, ToolSpec, path_argument};
use commands::background::Background;
use files::activate_skill::{ActivateSkill, Skills};
use files::changes::FileChanges;
use files::kept_output::KeptOutputs;
use files::path::Workspace;
use invoke_agent::{AgentThreads, Agents, InvokeAgent};
use mcp_call::{McpCall, McpScope, McpServers};
use people::People;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use web::Web;

pub trait Tool: Send + Sync {
    fn spec(&self) -> ToolSpec;

    /// Finds out what the call would do, without changing anything. The arguments match the schema.
    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError>;

    /// Carries the call out. `out` takes pieces of live output as they come.
    fn run(&self, run: &Run, ctx: &Ctx, out: &mut dyn FnMut(String)) -> Result<RunEnd, CallError>;
}

/// The workspace, limits and services that a call may use.
pub struct Ctx<'a> {
    pub workspace: Workspace,
    /// Directories and files that calls may use beside the workspace, by absolute paths. A call with such a path gets a context in which
    /// that directory replaces the workspace.
    pub others: Vec<Workspace>,
    pub cancel: &'a Cancel,
    pub limits: &'a Limits,
    pub children: &'a dyn Spawn,
    /// The task of the call. Background processes of the call belong to it.
    pub task: &'a TaskId,
    pub tenant: &'a Tenant,
    /// The MCP servers that the task's client named.
    pub named: &'a [NamedServer],
    pub background: &'a Background,
    pub web: &'a Web,
    /// The MCP servers of the task.
    pub mcp: &'a dyn McpServers,
    /// Asks the user on behalf of a running call.
    pub people: &'a dyn People,
    /// The skills of workspaces.
    pub skills: &'a dyn Skills,
    /// Other agents.
    pub agents: &'a dyn Agents,
    /// The conversations of the task with other agents; None if the call has none.
    pub threads: Option<&'a AgentThreads>,
    /// Asks the model. None: a script answers in place of a model.
    pub ask: Option<&'a dyn Ask>,
    /// Records the files that a call writes.
    pub changes: &'a FileChanges,
    /// Stores output that is too long for a result.
    pub outputs: &'a KeptOutputs,
}

impl<'a> Ctx<'a> {
    pub fn mcp_scope(&self) -> McpScope<'_> {
        McpScope { task: self.task, workspace: self.workspace.path(), tenant: self.tenant, named: self.named }
    }

    /// The context of a call with these arguments, if its path is not in the workspace but in another directory that may be used.
    /// Calls that read may use kept outputs and activated skills too.
    fn elsewhere(&self, spec: &ToolSpec, args: &Value) -> Result<Option<Ctx<'a>>, CallError> {
        let path = path_argument(args);
        let Some(path) = path.filter(|path| !self.workspace.has(path)) else {
            return Ok(None);
        };
        if let Some(workspace) = self.outputs.holding(path).filter(|_| spec.kind.only_reads()) {
            return Ok(Some(Ctx { workspace, others: Vec::new(), ..*self }));
        }
        let has_path = |other: &&Workspace| other.has(path);
        let may_be_used = |other: &&Workspace| spec.kind.only_reads() || !other.is_read_only();
        // Of nested directories, the inner one is used.
        let others = self.others.iter().filter(may_be_used).filter(has_path);
        let other = others.max_by_key(|other| other.path().as_os_str().len());
        other.map(|other| self.inside(other)).transpose()
    }

    /// Adds the directories of these skills. A directory that does not exist, or that has become a link to another place, is left out.
    pub fn reading(mut self, skills: &[ActiveSkill]) -> Ctx<'a> {
        let opened = skills.iter().filter_map(|skill| {
            let opened = Workspace::read_only(skill.dir.as_ref()).ok()?;
            (opened.path() == Path::new(&skill.dir)).then_some(opened)
        });
        self.others.extend(opened);
        self
    }

    fn inside(&self, workspace: &Workspace) -> Result<Ctx<'a>, CallError> {
        let workspace = workspace.try_clone().map_err(|error| {
            ErrorKind::ExecutionFailed.error(format!("{} cannot be opened: {error}", workspace.path().display()))
        })?;
        Ok(Ctx { workspace, others: Vec::new(), ..*self })
    }
}

/// Sends the model a request outside of the conversation. The shell layer implements it, because it has the connection.
pub trait Ask: Send + Sync {
    /// The complete response to a request in the form of the API.
    fn ask(&self, body: &Value, cancel: &Cancel) -> Result<Value, ModelError>;
}

/// Starts programs. The shell layer implements it, because it ends children together with the server.
pub trait Spawn: Send + Sync {
    /// Starts a program in its own session, with a clean environment.
    fn spawn(&self, launch: Launch) -> io::Result<Box<dyn Child>>;

    /// Whether programs can be confined to reading this workspace (its real path). If not, the reason, as a sentence
    /// without its full stop.
    fn can_confine(&self, workspace: &Path) -> Result<(), String>;

    /// Whether a confined command could run this program, which it would look up in `PATH`. If not, the reason as a clause: a
    /// program that the confinement forbids needs approval.
    fn can_run_confined(&self, program: &str) -> Result<(), String>;
}

/// Refuses to start any program.
pub struct NoPrograms;

impl Spawn for NoPrograms {
    fn spawn(&self, _: Launch) -> io::Result<Box<dyn Child>> {
        Err(io::Error::other("this server starts no programs"))
    }

    fn can_confine(&self, _: &Path) -> Result<(), String> {
        Err("No programs can be started".into())
    }

    fn can_run_confined(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

pub struct Launch {
    /// The program, looked up in `PATH`, and its arguments.
    pub argv: Vec<OsString>,
    /// The directory in which it starts, as a descriptor, because its path may mean another directory later.
    pub dir: OwnedFd,
    /// The confinement. None: the program runs with the rights of the user.
    pub read_only: Option<ReadOnly>,
    pub io: Io,
    /// Variables to add to the clean environment.
    pub env: Vec<(OsString, OsString)>,
}

impl Launch {
    /// A command that runs with the rights of the user.
    pub fn command(argv: Vec<OsString>, dir: OwnedFd) -> Launch {
        Launch { argv, dir, read_only: None, io: Io::Merged, env: Vec::new() }
    }
}

/// The standard input and outputs of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// No input, and both outputs in one pipe. For commands.
    Merged,
    /// A pipe each. For servers, which also get another environment than commands.
    Piped,
}

/// The pipes of a program beside its output.
pub struct Pipes {
    /// The writing end of its standard input.
    pub input: OwnedFd,
    /// The reading end of its standard error.
    pub errors: OwnedFd,
}

/// The files that a program without approval may use, beside the system's programs. The kernel enforces it.
pub struct ReadOnly {
    /// The real path of the directory that it may read.
    pub workspace: PathBuf,
    /// The files below it that it may write.
    pub writable: Vec<PathBuf>,
}

/// A started program with all its descendants. Dropping it ends them all.
pub trait Child: Send {
    /// The program's process number.
    fn id(&self) -> u32;

    /// The output of the program and its descendants. It ends when all of them have closed it.
    fn output(&self) -> BorrowedFd<'_>;

    /// The other pipes of a program that was started with [`Io::Piped`], once.
    fn take_pipes(&mut self) -> Option<Pipes> {
        None
    }

    /// A descriptor that becomes readable when the program itself has ended.
    fn exited(&self) -> BorrowedFd<'_>;

    /// Asks the process group of the program to end.
    fn terminate(&self);

    /// Kills all processes that still run, and returns how the program ended.
    fn finish(self: Box<Self>) -> io::Result<Finished>;
}

#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    /// Processes that outlived the program and were ended with it.
    pub strays: Vec<u32>,
}

/// The tools, in the order in which they are declared to the model.
pub struct Toolbox {
    tools: Vec<(ToolSpec, Box<dyn Tool>)>,
}

impl Toolbox {
    pub fn new(tools: Vec<Box<dyn Tool>>) -> Toolbox {
        Toolbox { tools: tools.into_iter().map(|tool| (tool.spec(), tool)).collect() }
    }

    /// Every tool that is built in.
    pub fn built_in() -> Toolbox {
        Toolbox::with_commands(commands::tools())
    }

    /// Every built-in tool that starts no programs.
    pub fn without_commands() -> Toolbox {
        Toolbox::with_commands(Vec::new())
    }

    fn with_commands(commands: Vec<Box<dyn Tool>>) -> Toolbox {
        let mut tools: Vec<Box<dyn Tool>> = vec![
            Box::new(files::list_directory::ListDirectory),
            Box::new(files::read_file::ReadFile),
            Box::new(search::grep_search::GrepSearch),
            Box::new(search::glob::FindFiles),
            Box::new(files::write_file::WriteFile),
            Box::new(files::replace::Replace),
        ];
        tools.extend(commands);
        tools.extend(web::tools());
        tools.push(Box::new(write_todos::WriteTodos));
        tools.push(Box::new(ask_user::AskUser));
        tools.push(Box::new(ActivateSkill));
        tools.push(Box::new(InvokeAgent));
        tools.push(Box::new(mcp_resources::ListMcpResources));
        tools.push(Box::new(mcp_resources::ReadMcpResource));
        Toolbox::new(tools)
    }

    /// These tools and more.
    pub fn and(mut self, more: Vec<Box<dyn Tool>>) -> Toolbox {
        self.tools.extend(Toolbox::new(more).tools);
        self
    }

    pub fn specs(&self) -> Vec<ToolSpec> {
        // The tools for skills, agents and resources are declared where there are any.
        let built_in = self.tools.iter().filter(|(spec, _)| spec.origin == Origin::BuiltIn);
        built_in.map(|(spec, _)| spec.clone()).collect()
    }

    /// One result per call, in the order of the batch.
    pub fn prepare(&self, batch: &[Request], ctx: &Ctx) -> Vec<Result<Plan, CallError>> {
        let prepare = |Request { name, args, .. }: &Request| {
            let found = self.find(name, args, ctx)?;
            found.tool().prepare(args, ctx.elsewhere(found.spec(), args)?.as_ref().unwrap_or(ctx))
        };
        batch.iter().map(prepare).collect()
    }

    pub fn run(&self, run: &Run, ctx: &Ctx, out: &mut dyn FnMut(String)) -> RunEnd {
        let end = self.find(&run.name, &run.args, ctx).and_then(|found| match ctx.cancel.is_set() {
            true => Ok(cancelled_before_start()),
            false => run_where(found.spec(), found.tool(), run, ctx, out),
        });
        end.unwrap_or_else(|error| RunEnd::Ended(Ending::Error { error }))
    }

    /// The tool of a call, if the call's arguments match the tool's schema.
    fn find(&self, name: &str, args: &Value, ctx: &Ctx) -> Result<CalledTool<'_>, CallError> {
        let own = self.tools.iter().find(|(spec, _)| spec.names().any(|one| one == name));
        let own = own.map(|(spec, tool)| CalledTool::BuiltIn(spec, tool.as_ref()));
        let found = own.or_else(|| McpCall::find(name, ctx).map(|call| CalledTool::Mcp(Box::new(call))));
        let found = found.ok_or_else(|| {
            let suggestion = self.suggestion(name);
            ErrorKind::ToolNotRegistered.error(format!("There is no tool named \"{name}\". {suggestion}"))
        })?;
        found.spec().validate(args).map_err(invalid)?;
        Ok(found)
    }

    /// The most similar names, nearest first.
    fn suggestion(&self, name: &str) -> String {
        const SHOWN: usize = 3;
        // Names are short; a longer one is cut, because a model may send anything for a name.
        const LONGEST: usize = 64;
        let start = |name: &str| name.as_bytes()[..name.len().min(LONGEST)].to_vec();
        let mut near: Vec<&str> = self.tools.iter().map(|(spec, _)| spec.name.as_str()).collect();
        near.sort_unstable_by_key(|known| (edit_distance(&start(name), &start(known), LONGEST), *known));
        let names: Vec<String> = near.iter().take(SHOWN).map(|name| format!("\"{name}\"")).collect();
        match names.as_slice() {
            [] => "No tools are available.".into(),
            [only] => format!("Did you mean {only}?"),
            several => format!("Did you mean one of: {}?", several.join(", ")),
        }
    }
}

/// The tool of a call.
enum CalledTool<'a> {
    BuiltIn(&'a ToolSpec, &'a dyn Tool),
    Mcp(Box<McpCall>),
}

impl CalledTool<'_> {
    fn spec(&self) -> &ToolSpec {
        match self {
            CalledTool::BuiltIn(spec, _) => spec,
            CalledTool::Mcp(call) => &call.spec,
        }
    }

    fn tool(&self) -> &dyn Tool {
        match self {
            CalledTool::BuiltIn(_, tool) => *tool,
            CalledTool::Mcp(call) => call.as_ref(),
        }
    }
}

/// Runs a call in the directory of its path. A search without one goes through the workspace and all further directories.
fn run_where(
    spec: &ToolSpec,
    tool: &dyn Tool,
    run: &Run,
    ctx: &Ctx,
    out: &mut dyn FnMut(String),
) -> Result<RunEnd, CallError> {
    if let Some(ctx) = ctx.elsewhere(spec, &run.args)? {
        return tool.run(run, &ctx, out);
    }
    let here = tool.run(run, ctx, out);
    let is_search = spec.kind == Kind::Search && spec.parameters["properties"].get("dir_path").is_some();
    if !is_search || run.args.get("dir_path").is_some() {
        return here;
    }
    let further = ctx.others.iter().filter(|other| other.is_further());
    further.fold(here, |found, other| join(found, tool.run(run, &ctx.inside(other)?, out)))
}

/// Joins the results of a search in two directories. If only one search failed, its error is left out.
fn join(one: Result<RunEnd, CallError>, two: Result<RunEnd, CallError>) -> Result<RunEnd, CallError> {
    match (one, two) {
        (
            Ok(RunEnd::Ended(Ending::Success { output: a, display: Display::Summary { text: shown_a } })),
            Ok(RunEnd::Ended(Ending::Success { output: b, display: Display::Summary { text: shown_b } })),
        ) => Ok(RunEnd::Ended(Ending::summarised(format!("{a}\n\n{b}"), format!("{shown_a}\n{shown_b}")))),
        (Err(_), Ok(two)) => Ok(two),
        (one, _) => one,
    }
}

fn text_end(output: impl Into<LongText>, shown: impl Into<LongText>) -> RunEnd {
    RunEnd::Ended(Ending::text(output, shown))
}

fn cancelled_before_start() -> RunEnd {
    RunEnd::Ended(Ending::cancelled("The call was cancelled before it did anything."))
}

/// The JSON schema of a tool's arguments.
fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

/// A required argument that the schema says is text.
fn text_arg<'a>(args: &'a Value, name: &str) -> Result<&'a str, CallError> {
    optional_text_arg(args, name).ok_or_else(|| invalid(format!("{name} must be given as text")))
}

fn optional_text_arg<'a>(args: &'a Value, name: &str) -> Option<&'a str> {
    args.get(name).and_then(Value::as_str)
}

/// A switch, which is off unless the call sets it.
fn flag_arg(args: &Value, name: &str) -> bool {
    args.get(name) == Some(&Value::Bool(true))
}

/// A list of texts; empty if it is not given.
fn list_arg<'a>(args: &'a Value, name: &str) -> Vec<&'a str> {
    let list = args.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A whole number. Models also write `3.0`, which the schema takes for one.
fn number_arg(args: &Value, name: &str) -> Option<usize> {
    let value = args.get(name)?;
    let number = value.as_u64().or_else(|| {
        let float = value.as_f64()?;
        (float >= 0.0 && float.fract() == 0.0).then_some(float as u64)
    })?;
    Some(usize::try_from(number).unwrap_or(usize::MAX))
}

fn invalid(message: impl Into<String>) -> CallError {
    ErrorKind::InvalidToolParams.error(message)
}
