//! Tasks that run a slash command. The first turn runs the command instead of asking the model. The result of the command is either the
//! answer or a prompt for the model, with which the turn continues like any other. Later turns are ordinary ones.

use super::{Deciding, Effect, Gate};
use crate::task::definitions::slash::{Command, Commanded, PromptPart, RESULT};
use crate::task::log::answer::{Answer, Finish};
use crate::task::log::event::{End, Event};
use crate::task::log::media::Media;
use crate::task::machine::state::{CallState, Queued, State};
use crate::task::message::{Artifact, Part};
use crate::task::spec::{Choice, Display, Ending};
use serde_json::Value;
use std::sync::Arc;

/// The job that runs the task's command. The core adds the statistics of the server.
pub(in crate::task) fn of(state: &State) -> Option<Command> {
    Some(Command {
        workspace: state.workspace.clone(),
        trusted: state.created.trusted,
        invocation: state.created.command.clone()?,
        tenant: state.created.tenant.clone(),
        facts: Arc::default(),
    })
}

impl Deciding<'_> {
    pub(in crate::task) fn is_command(&self, queued: &Queued) -> bool {
        queued.turn == 1 && self.state.created.command.is_some()
    }

    pub(in crate::task) fn begin_command(&mut self) {
        let job = self.push(Event::CommandBegan);
        // Some commands write files, and this code does not know which.
        self.effect(Effect::Start { job, gate: Gate::Synced });
    }

    pub(in crate::task) fn commanded(&mut self, result: Result<Commanded, String>) {
        match result {
            Ok(Commanded::Done { text, data } | Commanded::Restored { text, data, .. }) => {
                self.command_done(text, data)
            }
            Ok(Commanded::Ask { prompt }) => self.prompted(prompt, Vec::new()),
            Ok(Commanded::AskWith { prompt, media }) => self.prompted(prompt, media),
            Ok(Commanded::Expanded { parts, notices }) => self.expanded(parts, notices),
            Err(text) => self.end_turn(End::Failed(text)),
        }
    }

    /// Makes calls of the commands in the prompt. They are prepared and approved like calls of the model.
    fn expanded(&mut self, mut parts: Vec<PromptPart>, notices: Vec<String>) {
        for text in notices {
            self.push(Event::Declined { text });
        }
        let at = self.state.seq.0 + self.decision.events.len() as u64 + 1;
        let mut calls = 0;
        for part in &mut parts {
            if let PromptPart::Shell(request) = part {
                request.call = format!("command-{at}-{calls}").into();
                calls += 1;
            }
        }
        match calls {
            0 => self.prompt_model(&parts),
            _ => {
                let job = self.push(Event::CommandExpanded { parts: parts.into() });
                self.start(job);
            }
        }
    }

    /// Asks the model when all calls of the prompt have ended. If one of them may not run or fails, the others do not run and the turn
    /// ends. Returns false if some calls have not ended.
    pub(in crate::task) fn end_expansion(&mut self, parts: &[PromptPart]) -> bool {
        let failed =
            |call: &&CallState| call.is_over() && !matches!(call.ending.as_deref(), Some(Ending::Success { .. }));
        let calls = &self.state.calls;
        if let Some(call) = calls.iter().find(failed) {
            let end = match (call.choice, call.ending.as_deref()) {
                (Some(Choice::Cancel), _) => End::Refused,
                (_, Some(Ending::Error { error })) => End::Failed(error.message.clone()),
                (_, Some(Ending::Cancelled { reason, .. })) => End::Failed(reason.clone()),
                (_, Some(Ending::Success { .. }) | None) => unreachable!("it has failed"),
            };
            self.stop_everything("Another command of the same prompt did not run.");
            self.end_turn(end);
            return true;
        }
        let is_over = calls.iter().all(CallState::is_over);
        if is_over {
            self.prompt_model(parts);
        }
        is_over
    }

    fn prompt_model(&mut self, parts: &[PromptPart]) {
        let text = parts.iter().map(|part| match part {
            PromptPart::Text(text) => text.clone(),
            PromptPart::Shell(request) => {
                printed(self.state.call(&request.call).and_then(|call| call.ending.as_deref()))
            }
        });
        self.prompted(text.collect(), Vec::new());
    }

    fn prompted(&mut self, text: String, media: Vec<Media>) {
        let job = self.push(Event::CommandPrompted { text, media });
        self.ask_model(job);
    }

    /// Records the text of the result as an answer, so that it is part of the conversation like any answer of the agent.
    fn command_done(&mut self, text: String, data: Value) {
        self.push(Event::Produced {
            artifact: Arc::new(Artifact {
                id: RESULT.into(),
                name: Some(RESULT.into()),
                description: None,
                parts: vec![Part::data(data)],
            }),
            append: false,
            last: true,
        });
        if text.is_empty() {
            return self.end_turn(End::Done);
        }
        let said_at = self.push(Event::Text { text: text.clone() });
        self.push(Event::Answered {
            answer: Arc::new(Answer { finish: Finish::Command, said_at: Some(said_at), ..Answer::new(&text, []) }),
        });
    }
}

/// The output of a command in a prompt, and how the command ended if it did not succeed.
fn printed(ending: Option<&Ending>) -> String {
    let Some(Ending::Success { output, display: Display::Text { text } }) = ending else {
        return String::new();
    };
    let (shown, output) = (text.as_str().trim_end_matches('\n'), output.as_str());
    // The last lines of the output for the model say how the command ended.
    let is_status = |line: &&str| line.starts_with("Exit Code: ") || line.starts_with("Signal: ");
    match output.lines().rev().take(LAST_LINES).find(is_status).filter(|status| !shown.contains(*status)) {
        Some(status) => format!("{shown}\n{status}"),
        None => shown.to_owned(),
    }
}

/// Lines at the end of a result that are searched for how the command ended.
const LAST_LINES: usize = 6;
