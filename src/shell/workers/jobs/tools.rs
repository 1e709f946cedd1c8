//! The tools of one task: the built-in ones and those of its MCP servers. The log records which of them were declared to the model last.

use super::WorkerContext;
use crate::base::cancel::Cancel;
use crate::base::json;
use crate::model::backend::ModelRequest;
use crate::model::error::refused_declaration;
use crate::shell::workers::skills;
use crate::task::log::answer::Answer;
use crate::task::log::blob::{BlobRef, sha256};
use crate::task::log::event::{Created, ToolSet};
use crate::task::log::server::ServerSeen;
use crate::task::machine::job::{ModelError, ModelErrorKind, NoteBody, Think};
use crate::task::machine::state::Item;
use crate::task::origin::{Origin, ToolEntry};
use crate::task::policy::Rule;
use crate::task::spec::ToolSpec;
use crate::tool::files::activate_skill::{self, Skills};
use crate::tool::invoke_agent::{self, AgentList};
use crate::tool::mcp_call::{McpScope, McpTable};
use std::path::Path;
use std::sync::Arc;

impl WorkerContext {
    /// Makes a request to the model. If the API refuses the declarations of MCP tools, it is made again once, without them.
    pub(super) fn ask_model(
        &self,
        created: &Created,
        think: &mut Think,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Answer, ModelError> {
        let before = think.declared.clone();
        let tools = self.tools_of(created, think, emit)?;
        let first = self.ask_with(created, think, &tools, cancel, emit);
        let Some((named, refused)) = first.as_ref().err().and_then(|error| refused(error, &tools, before.as_deref()))
        else {
            return first;
        };
        let workspace = think.workspace.clone();
        let scope = McpScope::new(created, Path::new(&*workspace));
        self.mcp.refuse(scope, &refused);
        let tools = self.tools_of(created, think, emit)?;
        let second = self.ask_with(created, think, &tools, cancel, emit);
        if second.is_err() && named == Named::No {
            // The API refused the request for another reason.
            self.mcp.accept(scope, &refused);
        }
        second
    }

    fn ask_with(
        &self,
        created: &Created,
        think: &Think,
        tools: &[ToolSpec],
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Answer, ModelError> {
        let scope = McpScope::new(created, Path::new(&*think.workspace));
        let has_skills = tools.iter().any(|spec| spec.origin == Origin::Skills);
        let context = || {
            let mut around = self.prompt_context.of(&created.task, &think.workspace, &think.directories);
            around.servers = self.mcp.instructions(scope);
            if has_skills {
                let is_summarised = think.history.iter().any(|item| matches!(**item, Item::Summary(_)));
                let forgotten = if is_summarised { think.skills.as_slice() } else { &[] };
                around.skills = skills::for_model(&self.prompt_context.skills(Path::new(&*think.workspace)), forgotten);
            }
            around
        };
        let key = self.keys.of(created)?;
        let request = ModelRequest { think, tools, context: &context, key: key.as_ref() };
        self.backend.answer(&request, cancel, emit)
    }

    /// The tools that a request declares to the model. What differs from the log is emitted.
    fn tools_of(
        &self,
        created: &Created,
        think: &mut Think,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Vec<ToolSpec>, ModelError> {
        let McpTable { servers, tools } = self.mcp.table(McpScope::new(created, Path::new(&*think.workspace)));
        let is_left = |known: &&ServerSeen| servers.iter().any(|seen| seen.server == known.server);
        let removed = think.servers.iter().filter(|known| !is_left(known)).map(ServerSeen::removed);
        let changed = servers.iter().filter(|seen| !think.servers.contains(seen)).cloned();
        removed.chain(changed).for_each(|seen| emit(NoteBody::ServerSeen(seen)));
        think.servers = Arc::new(servers);
        let denied = self.prompt_context.denied(&think.workspace);
        let is_denied = |spec: &ToolSpec| {
            denied.iter().any(|rule| !rule.is_narrow() && rule.tool_name.has_tool(&spec.name, &spec.origin))
        };
        let allowed = |spec: &ToolSpec| !self.policy.forbids(spec, think.mode);
        let skills = self.prompt_context.skills(Path::new(&*think.workspace));
        let skills = (!skills.is_empty()).then(|| activate_skill::spec(&skills));
        let AgentList { agents, messages } = self.agents.agents(Path::new(&*think.workspace));
        self.prompt_context.log_once(&messages);
        let agents = (!agents.is_empty()).then(|| invoke_agent::spec(&agents));
        let others = skills.into_iter().chain(agents).chain(tools);
        let specs = self.specs.iter().cloned().chain(others.filter(allowed));
        let specs = specs.filter(|spec| think.may_declare(spec) && !is_denied(spec));
        let specs: Vec<ToolSpec> = specs.collect();
        let mut declared = think.declared.clone();
        let mut note = |body: NoteBody| {
            if let NoteBody::Tools(set) = &body {
                declared = Some(Arc::new(set.clone()));
            }
            emit(body);
        };
        self.declare(&specs, denied, think.declared.as_deref(), &mut note)
            .map_err(|message| ModelError { kind: ModelErrorKind::BadStream, message })?;
        think.declared = declared;
        Ok(specs)
    }

    /// Emits the tools of a task and the rules of its extensions, if the log has others. The declarations are stored first; if that fails,
    /// the next request tries again.
    pub(super) fn declare(
        &self,
        declared: &[ToolSpec],
        denied: Vec<Rule>,
        known: Option<&ToolSet>,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<(), String> {
        let others: Vec<ToolEntry> = declared.iter().filter_map(entry).collect();
        let declarations = json::bytes(&declared.iter().map(ToolSpec::declaration).collect::<Vec<_>>());
        let is_known = |set: &ToolSet| {
            set.declarations.sha256 == sha256(&declarations) && set.others == others && set.denied == denied
        };
        if known.is_some_and(is_known) {
            return Ok(());
        }
        match BlobRef::put(&*self.blobs, &declarations) {
            Ok(declarations) => {
                let names = declared.iter().map(|spec| spec.name.clone()).collect();
                emit(NoteBody::Tools(ToolSet { names, declarations, others, denied }));
                Ok(())
            }
            Err(_) if denied.is_empty() => Ok(()),
            // The rules must be in the log before a tool that they forbid can be called.
            Err(error) => Err(format!("What extensions forbid cannot be stored: {error}.")),
        }
    }
}

/// The entry of a tool for the log; None if the tool is built in.
fn entry(spec: &ToolSpec) -> Option<ToolEntry> {
    let ToolSpec { name, display_name, kind, origin, .. } = spec.clone();
    (origin != Origin::BuiltIn).then_some(ToolEntry { name, display_name, kind, origin })
}

/// Whether the API says which declaration it refuses.
#[derive(Clone, Copy, PartialEq)]
enum Named {
    Yes,
    No,
}

/// The MCP tools because of which the API may have refused a request: the one that it names, otherwise those of servers that had none in
/// the last request.
fn refused(error: &ModelError, tools: &[ToolSpec], before: Option<&ToolSet>) -> Option<(Named, Vec<String>)> {
    let named = refused_declaration(error)?;
    let server = |origin: &Origin| origin.mcp().map(|mcp| mcp.server.clone());
    let known: Vec<String> =
        before.into_iter().flat_map(|set| &set.others).filter_map(|entry| server(&entry.origin)).collect();
    let is_new = |spec: &&ToolSpec| server(&spec.origin).is_some_and(|server| !known.contains(&server));
    let names: Vec<String> = match named {
        Some(at) => {
            tools.get(at).filter(|spec| spec.origin.mcp().is_some()).map(|spec| spec.name.clone()).into_iter().collect()
        }
        None => tools.iter().filter(is_new).map(|spec| spec.name.clone()).collect(),
    };
    let named = if named.is_some() { Named::Yes } else { Named::No };
    (!names.is_empty()).then_some((named, names))
}
