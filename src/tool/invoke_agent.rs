//! `invoke_agent`: gives work to another agent and waits for its answer. It is declared only in workspaces that have agents, with their
//! names. The shell layer makes the connections.

use crate::base::cancel::Cancel;
use crate::base::lock::lock;
use crate::limits::agents::{AGENT_DEPTH, AGENT_LIST_BYTES};
use crate::task::definitions::agent::{AgentThread, Callee, INVOKE};
use crate::task::machine::job::{Run, RunEnd};
use crate::task::origin::Origin;
use crate::task::spec::{Base, CallError, Ending, ErrorKind, Kind, Plan, Question, ToolSpec};
use crate::tool::files::text::{untrusted, without_middle};
use crate::tool::{Ctx, Tool, object, text_arg, text_end};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Other agents. The shell layer implements it, because it reads files and connects.
pub trait Agents: Send + Sync {
    /// The agents that can be called in a workspace, given by its real path.
    fn agents(&self, workspace: &Path) -> AgentList;

    /// Calls an agent and waits for its answer. `out` takes the text that it sends meanwhile.
    fn call(&self, call: &AgentCall<'_>, cancel: &Cancel, out: &mut dyn FnMut(String)) -> AgentAnswer;
}

#[derive(Default)]
pub struct AgentList {
    pub agents: Vec<Callee>,
    /// For people: which definitions are not used, and why.
    pub messages: Vec<String>,
}

pub struct AgentCall<'a> {
    pub workspace: &'a Path,
    pub agent: &'a Callee,
    pub prompt: &'a str,
    /// The conversation to continue.
    pub thread: Option<&'a AgentThread>,
    /// The number of agents that this request has passed through.
    pub depth: u8,
}

pub struct AgentAnswer {
    /// The conversation for the next call, if there is one.
    pub thread: Option<AgentThread>,
    /// The text of the answer, or why there is none.
    pub text: Result<String, String>,
    pub waits_for: WaitsFor,
}

/// What an agent waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitsFor {
    #[default]
    Nothing,
    Answer,
    Authorisation,
}

/// A source without agents.
pub struct NoAgents;

impl Agents for NoAgents {
    fn agents(&self, _: &Path) -> AgentList {
        AgentList::default()
    }

    fn call(&self, _: &AgentCall<'_>, _: &Cancel, _: &mut dyn FnMut(String)) -> AgentAnswer {
        AgentAnswer { thread: None, text: Err("there are no agents".into()), waits_for: WaitsFor::Nothing }
    }
}

/// The conversations of a task with agents: those that the log has, and those that a call has changed.
#[derive(Default)]
pub struct AgentThreads {
    known: Arc<Vec<AgentThread>>,
    /// The number of agents that the request for the task has passed through.
    depth: u8,
    changed: Mutex<Vec<AgentThread>>,
}

impl AgentThreads {
    pub fn new(known: Arc<Vec<AgentThread>>, depth: u8) -> AgentThreads {
        AgentThreads { known, depth, changed: Mutex::default() }
    }

    pub fn take_changed(&self) -> Vec<AgentThread> {
        std::mem::take(&mut lock(&self.changed))
    }
}

pub struct InvokeAgent;

/// The declaration of the tool with these agents.
pub fn spec(agents: &[Callee]) -> ToolSpec {
    let mut name = json!({ "type": "string", "description": "The name of the agent." });
    if !agents.is_empty() {
        name["enum"] = agents.iter().map(|agent| agent.name.as_str()).collect();
    }
    let prompt =
        "What it should do, with everything that it has to know: it sees neither this conversation nor the workspace.";
    let properties = json!({ "agent_name": name, "prompt": { "type": "string", "description": prompt } });
    let mut description =
        "Gives work to another agent and waits for its answer. A later call of the same agent goes on with the \
                           same conversation. The agents:\n"
            .to_owned();
    for agent in agents {
        let line = agent.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = format!("- {}: {line}\n", agent.name);
        // An agent whose line is left out is still in the list of names.
        if description.len() + line.len() <= AGENT_LIST_BYTES {
            description.push_str(&line);
        }
    }
    let spec = ToolSpec::new(
        INVOKE,
        "Invoke Agent",
        Kind::Other,
        description.trim_end(),
        object(&["agent_name", "prompt"], properties),
    );
    let origin = Origin::Agents;
    ToolSpec { by_default: origin.by_default(), origin, has_live_output: true, ..spec }
}

fn find(args: &Value, ctx: &Ctx) -> Result<Callee, CallError> {
    let (name, agents) = (text_arg(args, "agent_name")?, ctx.agents.agents(ctx.workspace.path()).agents);
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    let unknown = format!("There is no agent {name:?}. There are: {}.", names.join(", "));
    let found = agents.into_iter().find(|agent| agent.name == name);
    found.ok_or_else(|| ErrorKind::InvalidToolParams.error(unknown))
}

impl Tool for InvokeAgent {
    fn spec(&self) -> ToolSpec {
        spec(&[])
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        let Callee { name, display_name, origin, fingerprint, .. } = find(args, ctx)?;
        let prompt = text_arg(args, "prompt")?;
        let question = Question::Info {
            title: format!("Call the agent {name}?"),
            prompt: format!("{display_name} at {origin} is sent:\n\n{prompt}"),
            urls: vec![origin],
        };
        // If the agent is defined anew before the call runs, the user is asked again.
        let base = Base { sha256: Some(fingerprint), change: None };
        Ok(Plan { title: format!("Agent {name}"), question, base: Some(base) })
    }

    fn run(&self, run: &Run, ctx: &Ctx, out: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        let agent = find(&run.args, ctx)?;
        let planned = run.base.as_ref().and_then(|base| base.sha256.as_ref());
        if planned.is_some_and(|planned| *planned != agent.fingerprint) {
            return Ok(RunEnd::Stale);
        }
        let none = AgentThreads::default();
        let threads = ctx.threads.unwrap_or(&none);
        let depth = threads.depth.saturating_add(1);
        if depth > AGENT_DEPTH {
            let message =
                format!("The request for this task came through {AGENT_DEPTH} agents already. Do it yourself.");
            return Err(ErrorKind::ExecutionFailed.error(message));
        }
        let is_with = |known: &&AgentThread| known.agent == agent.name && known.fingerprint == agent.fingerprint;
        let thread = threads.known.iter().find(is_with);
        let (workspace, prompt) = (ctx.workspace.path(), text_arg(&run.args, "prompt")?);
        let call = AgentCall { workspace, agent: &agent, prompt, thread, depth };
        let answer = ctx.agents.call(&call, ctx.cancel, out);
        lock(&threads.changed).extend(answer.thread.clone());
        match ctx.cancel.is_set() {
            true => Ok(RunEnd::Ended(Ending::cancelled(
                "The call was cancelled. The agent was told, but it may have done some of it.",
            ))),
            false => ending(&agent.name, answer, ctx),
        }
    }
}

fn ending(name: &str, answer: AgentAnswer, ctx: &Ctx) -> Result<RunEnd, CallError> {
    let fit = |text: &str| without_middle(text, ctx.limits.result_chars).to_string();
    let text = answer.text.map_err(|why| {
        ErrorKind::ExecutionFailed.error(format!("The call of the agent {name} failed:\n{}", untrusted(&fit(&why))))
    })?;
    let mut cut = fit(&text);
    if cut.len() < text.len()
        && let Some(note) = ctx.outputs.keep(ctx.task, &text, ctx.limits)
    {
        cut = format!("{cut}\n[{note}]");
    }
    let note = match answer.waits_for {
        WaitsFor::Nothing if text.is_empty() => format!("The agent {name} is done and said nothing."),
        WaitsFor::Nothing => String::new(),
        WaitsFor::Answer => {
            format!("The agent {name} waits for an answer. Call it again to answer; ask the user if you have to.")
        }
        WaitsFor::Authorisation => {
            format!(
                "The agent {name} needs to be authorised. Tell the user what it says; call it again when that is done."
            )
        }
    };
    let lines = |text: String| {
        [text, note.clone()].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    };
    let output = if cut.is_empty() { lines(String::new()) } else { lines(untrusted(&cut)) };
    Ok(text_end(output, lines(fit(&text))))
}

#[cfg(test)]
mod tests;
