//! The context of a tool call and the call itself, for tests that run tools without a server.

#![allow(dead_code, reason = "not every test that includes this file uses all of it")]

use gemini_a2a::base::cancel::Cancel;
use gemini_a2a::base::id::TaskId;
use gemini_a2a::limits::Limits;
use gemini_a2a::task::machine::job::Run;
use gemini_a2a::tool::commands::background::Background;
use gemini_a2a::tool::files::activate_skill::NoSkills;
use gemini_a2a::tool::files::kept_output::KeptOutputs;
use gemini_a2a::tool::files::path::Workspace;
use gemini_a2a::tool::invoke_agent::NoAgents;
use gemini_a2a::tool::mcp_call::NoServers;
use gemini_a2a::tool::people::Nobody;
use gemini_a2a::tool::web::Web;
use gemini_a2a::tool::{Ctx, Spawn};
use serde_json::Value;
use std::path::Path;

/// What the calls of a test share.
#[derive(Default)]
pub struct ToolContext {
    pub cancel: Cancel,
    pub limits: Limits,
    pub background: Background,
    pub web: Web,
    pub outputs: KeptOutputs,
}

impl ToolContext {
    /// Gives `call` the context of a call of `task` in a workspace.
    pub fn with<T>(
        &self,
        workspace: &Path,
        task: &TaskId,
        children: &dyn Spawn,
        call: impl FnOnce(&Ctx<'_>) -> T,
    ) -> T {
        call(&Ctx {
            workspace: Workspace::open(workspace).expect("the workspace opens"),
            others: Vec::new(),
            cancel: &self.cancel,
            limits: &self.limits,
            children,
            task,
            tenant: &Default::default(),
            named: &[],
            background: &self.background,
            web: &self.web,
            mcp: &NoServers,
            people: &Nobody,
            skills: &NoSkills,
            agents: &NoAgents,
            threads: None,
            ask: None,
            changes: &Default::default(),
            outputs: &self.outputs,
        })
    }
}

/// A call that nobody had to approve.
pub fn run_of(workspace: &Path, name: &str, args: Value) -> Run {
    Run {
        workspace: workspace.to_str().expect("a plain name").into(),
        call: "c1".into(),
        name: name.into(),
        args,
        base: None,
        after_earlier_edits: None,
        edited: None,
        answers: None,
        confinement: Default::default(),
        blob_room: 0,
    }
}
