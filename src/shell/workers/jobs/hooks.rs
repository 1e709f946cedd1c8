//! Runs command hooks in the jobs of a task: before and after calls, turns and summaries. Every run is reported; the task machine decides
//! what a report changes.

use super::WorkerContext;
use crate::base::cancel::Cancel;
use crate::base::clock::rfc3339;
use crate::base::id::TaskId;
use crate::config::definitions::hooks::fits;
use crate::limits::HOOKS;
use crate::shell::event_loop::sys;
use crate::shell::workers::hooks::{self, HookState};
use crate::task::definitions::command_hook::{
    CommandHook, HookAnswer, HookDecision, HookEnd, HookPoint, HookReport, answer, joined,
};
use crate::task::log::answer::{Answer, Request};
use crate::task::machine::job::{ModelError, ModelErrorKind, NoteBody, Run, RunEnd, Think};
use crate::task::machine::state::Item;
use crate::task::spec::{CallError, Display, Ending, ErrorKind};
use crate::tool::mcp_call::McpScope;
use crate::tool::{NoPrograms, Spawn};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;

/// The task and the workspace that hooks run for.
#[derive(Clone, Copy)]
pub(super) struct HookSite<'a> {
    pub task: &'a TaskId,
    pub workspace: &'a str,
    pub cancel: &'a Cancel,
}

type Answered = Vec<(CommandHook, HookAnswer)>;

impl WorkerContext {
    /// Runs the hooks of a point that match `subject`. `more` is input for them beside the input that every hook gets.
    pub(super) fn run_hooks(
        &self,
        at: HookSite<'_>,
        point: HookPoint,
        subject: &str,
        more: impl FnOnce() -> Value,
    ) -> Answered {
        let found = hooks::find(&self.prompt_context, Path::new(at.workspace));
        let is_meant = |hook: &CommandHook| hook.point == point && fits(hook, subject);
        let mut hooks: Vec<CommandHook> = Vec::new();
        for (hook, state) in found.into_iter().filter(|(hook, _)| is_meant(hook)) {
            let is_same = |known: &CommandHook| (&known.name, &known.command) == (&hook.name, &hook.command);
            match state {
                HookState::Runs if hooks.iter().any(is_same) => {}
                HookState::Runs => hooks.push(hook),
                HookState::Disabled => {}
                HookState::NotAllowed => self.prompt_context.log_once(&[format!(
                    "the project's hook {} does not run; look at it with /hooks list and allow it with /hooks allow",
                    hook.name
                )]),
            }
        }
        if hooks.len() > HOOKS {
            self.prompt_context
                .log_once(&[format!("{} has more than {HOOKS} hooks; the rest does not run", point.word())]);
            hooks.truncate(HOOKS);
        }
        if hooks.is_empty() {
            return Vec::new();
        }
        let mut input = self.hook_input(at, point);
        input.extend(more().as_object().cloned().unwrap_or_default());
        match hooks.iter().any(|hook| hook.sequential) {
            true => self.run_in_order(at, hooks, input),
            false => self.run_together(at, hooks, &Value::Object(input)),
        }
    }

    fn hook_input(&self, at: HookSite<'_>, point: HookPoint) -> Map<String, Value> {
        let journal = self.archive.outputs().map(|dir| dir.with_file_name("tasks").join(format!("{}.jsonl", at.task)));
        let input = json!({
            "session_id": at.task, "transcript_path": journal.unwrap_or_default(), "cwd": at.workspace,
            "hook_event_name": point.word(), "timestamp": rfc3339(sys::unix_ms()),
        });
        input.as_object().cloned().unwrap_or_default()
    }

    /// Runs hooks one after the other. Each gets the arguments as the hooks before it have changed them. The first that denies is the last.
    fn run_in_order(&self, at: HookSite<'_>, hooks: Vec<CommandHook>, mut input: Map<String, Value>) -> Answered {
        let mut answered = Vec::new();
        for hook in hooks {
            let answer = self.run_hook(at, &hook, &Value::Object(input.clone()));
            if let (Some(Value::Object(args)), Some(new)) = (input.get_mut("tool_input"), &answer.tool_input) {
                args.extend(new.clone());
            }
            let is_last = answer.decision == HookDecision::Deny || answer.stop.is_some();
            answered.push((hook, answer));
            if is_last {
                break;
            }
        }
        answered
    }

    /// Runs hooks at the same time.
    fn run_together(&self, at: HookSite<'_>, hooks: Vec<CommandHook>, input: &Value) -> Answered {
        let died = |hook| answer(&HookEnd::Failed("its thread ended unexpectedly".into()), hook);
        let answers: Vec<HookAnswer> = std::thread::scope(|scope| {
            // This thread runs the first one.
            let others = hooks.iter().skip(1).map(|hook| (hook, scope.spawn(move || self.run_hook(at, hook, input))));
            let running: Vec<_> = others.collect();
            let first = hooks.iter().take(1).map(|hook| self.run_hook(at, hook, input)).collect::<Vec<_>>();
            let others = running.into_iter().map(|(hook, thread)| thread.join().unwrap_or_else(|_| died(hook)));
            first.into_iter().chain(others).collect()
        });
        hooks.into_iter().zip(answers).collect()
    }

    fn run_hook(&self, at: HookSite<'_>, hook: &CommandHook, input: &Value) -> HookAnswer {
        if at.cancel.is_set() {
            return answer(&HookEnd::Failed("it was cancelled".into()), hook);
        }
        let spawn: &dyn Spawn = match &self.children {
            Some(children) => &**children,
            None => &NoPrograms,
        };
        let env = [
            ("GEMINI_PROJECT_DIR", at.workspace),
            ("GEMINI_CWD", at.workspace),
            ("GEMINI_SESSION_ID", at.task.as_str()),
            ("CLAUDE_PROJECT_DIR", at.workspace),
        ];
        answer(&hooks::run(hook, input, &env, Path::new(at.workspace), spawn, at.cancel), hook)
    }

    /// The name that a tool is declared by. Models also use former names, and the hooks for the tool must run then, too.
    fn declared_name<'n>(&'n self, name: &'n str) -> &'n str {
        let spec = self.specs.iter().find(|spec| spec.names().any(|known| known == name));
        spec.map_or(name, |spec| &spec.name)
    }

    /// The input of hooks about a call. For a tool of an MCP server it names the server and the server's name for the tool.
    fn call_input(&self, name: &str, args: &Value, scope: McpScope<'_>) -> Value {
        let is_built_in = self.specs.iter().any(|spec| spec.name == name);
        let spec = if is_built_in { None } else { self.mcp.tool(scope, name) };
        let mut input = json!({ "tool_name": name, "tool_input": args });
        if let Some(origin) = spec.as_ref().and_then(|spec| spec.origin.mcp()) {
            input["mcp_context"] = json!({ "server_name": origin.server, "tool_name": origin.tool });
        }
        input
    }

    /// Runs the hooks before calls, which may change the arguments. Returns an error for each call that they deny.
    pub(super) fn before_tools(
        &self,
        at: HookSite<'_>,
        scope: McpScope<'_>,
        calls: &mut [Request],
        emit: &mut dyn FnMut(NoteBody),
    ) -> Vec<Option<CallError>> {
        let mut denied = Vec::new();
        for Request { call, name, args, .. } in calls {
            let name = self.declared_name(name);
            let input = || self.call_input(name, args, scope);
            let answered = self.run_hooks(at, HookPoint::BeforeTool, name, input);
            for (hook, answer) in &answered {
                let mut report = HookReport { call: Some(call.clone()), ..HookReport::new(hook, answer) };
                if let (Value::Object(members), Some(new)) = (&mut *args, &answer.tool_input) {
                    members.extend(new.clone());
                    report.args = Some(args.clone());
                }
                emit(NoteBody::HookRan(report));
            }
            let HookAnswer { decision, reason, stop, .. } = joined(&answers(&answered));
            let why = stop.or((decision == HookDecision::Deny).then_some(reason));
            denied.push(why.map(|why| ErrorKind::PolicyViolation.error(format!("A hook denied this call: {why}"))));
        }
        denied
    }

    /// Runs the hooks after a call. They may replace the result that the model gets, or add to it.
    pub(super) fn after_tool(
        &self,
        at: HookSite<'_>,
        scope: McpScope<'_>,
        run: &Run,
        end: &mut RunEnd,
    ) -> Vec<HookReport> {
        let RunEnd::Ended(ending @ (Ending::Success { .. } | Ending::Error { .. })) = end else {
            return Vec::new();
        };
        let output = ending.output().map(|output| output.as_str().to_owned());
        let (for_model, error) = match ending {
            Ending::Error { error } => (error.message.clone(), Some(error.message.clone())),
            Ending::Success { .. } | Ending::Cancelled { .. } => (output.unwrap_or_default(), None),
        };
        let shown = match ending {
            Ending::Success { display: Display::Text { text } | Display::Media { text, .. }, .. } => text.as_str(),
            Ending::Success { .. } | Ending::Error { .. } | Ending::Cancelled { .. } => &for_model,
        };
        let response = json!({ "llmContent": for_model, "returnDisplay": shown, "error": error });
        let name = self.declared_name(&run.name);
        let input = || {
            let mut input = self.call_input(name, &run.args, scope);
            input["tool_response"] = response;
            input
        };
        let answered = self.run_hooks(at, HookPoint::AfterTool, name, input);
        let HookAnswer { decision, reason, context, .. } = joined(&answers(&answered));
        let for_model = if decision == HookDecision::Deny { reason } else { for_model };
        if decision == HookDecision::Deny || !context.is_empty() {
            let for_model = if context.is_empty() { for_model } else { format!("{for_model}\n\n{context}") };
            match ending {
                Ending::Error { error } => error.message = for_model,
                Ending::Success { output, .. } | Ending::Cancelled { output, .. } => *output = for_model.into(),
            }
        }
        let report = |(hook, answer): &(CommandHook, HookAnswer)| HookReport {
            call: Some(run.call.clone()),
            ..HookReport::new(hook, answer)
        };
        answered.iter().map(report).collect()
    }

    /// Runs the hooks before the first request of a turn, and those before the first request of a session.
    pub(super) fn begin_turn(
        &self,
        at: HookSite<'_>,
        think: &mut Think,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<(), ModelError> {
        let source = if think.turn == 1 { "startup" } else { "resume" };
        let mut answered = Vec::new();
        if self.prompt_context.is_first_request(at.task) {
            answered = self.run_hooks(at, HookPoint::SessionStart, source, || json!({ "source": source }));
        }
        let prompt = json!({ "prompt": think.prompt.text() });
        answered.extend(self.run_hooks(at, HookPoint::BeforeAgent, "", || prompt));
        for (hook, answer) in &answered {
            let context = answer.context.clone();
            if !context.is_empty() {
                think.history.push(Arc::new(Item::Nudge(context.as_str().into())));
            }
            emit(NoteBody::HookRan(HookReport { context, ..HookReport::new(hook, answer) }));
        }
        let HookAnswer { decision, reason, stop, .. } = joined(&answers(&answered));
        match stop.or((decision == HookDecision::Deny).then_some(reason)) {
            None => Ok(()),
            Some(why) => {
                let message = format!("A hook refused the prompt: {why}");
                Err(ModelError { kind: ModelErrorKind::Fatal, message })
            }
        }
    }

    /// Runs the hooks after the last answer of a turn.
    pub(super) fn end_of_turn(&self, at: HookSite<'_>, think: &Think, given: &Answer, emit: &mut dyn FnMut(NoteBody)) {
        let input = json!({
            "prompt": think.prompt.text(), "prompt_response": given.text(), "stop_hook_active": think.reprompts > 0,
        });
        for (hook, answer) in self.run_hooks(at, HookPoint::AfterAgent, "", || input) {
            let mut report = HookReport::new(&hook, &answer);
            if let (true, Some(stop)) = (report.text.is_empty(), &answer.stop) {
                report.text = format!("The hook {} ended the turn: {stop}", hook.name);
            }
            emit(NoteBody::HookRan(report));
        }
    }

    /// Runs hooks whose decisions are ignored.
    pub(super) fn run_observing_hooks(
        &self,
        at: HookSite<'_>,
        point: HookPoint,
        subject: &str,
        input: Value,
    ) -> Vec<HookReport> {
        let answered = self.run_hooks(at, point, subject, || input);
        // There is no call that such a hook could deny and no turn that it could end.
        let report = |(hook, answer): &(CommandHook, HookAnswer)| {
            let (decision, stop) = (HookDecision::None, None);
            HookReport { decision, stop, ..HookReport::new(hook, answer) }
        };
        answered.iter().map(report).collect()
    }
}

fn answers(answered: &Answered) -> Vec<HookAnswer> {
    answered.iter().map(|(_, answer)| answer.clone()).collect()
}
