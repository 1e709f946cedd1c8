//! A task that is a slash command. Its first turn runs the command instead of asking the model. The command either gives the whole
//! answer, or a prompt for the model, and from there on it is a turn like any other. Later turns are ordinary ones.

use super::{Deciding, Effect, Gate};
use crate::task::log::answer::{Answer, Finish};
use crate::task::log::event::{End, Event};
use crate::task::machine::state::{Queued, State};
use crate::task::message::{Artifact, Part};
use crate::task::slash::{Command, Commanded, RESULT};
use serde_json::Value;
use std::sync::Arc;

/// The job of running the task's command. What the server knows of itself is for the core to add.
pub(in crate::task) fn of(state: &State) -> Option<Command> {
    Some(Command {
        workspace: state.workspace.clone(),
        trusted: state.created.trusted,
        invocation: state.created.command.clone()?,
        facts: Arc::default(),
    })
}

impl Deciding<'_> {
    pub(in crate::task) fn is_command(&self, queued: &Queued) -> bool {
        queued.turn == 1 && self.state.created.command.is_some()
    }

    pub(in crate::task) fn begin_command(&mut self) {
        let job = self.push(Event::CommandBegan);
        // Some commands write files; which ones is not known here.
        self.effect(Effect::Start { job, gate: Gate::Synced });
    }

    pub(in crate::task) fn commanded(&mut self, result: Result<Commanded, String>) {
        match result {
            Ok(Commanded::Done { text, data }) => self.command_done(text, data),
            Ok(Commanded::Ask { prompt }) => {
                let job = self.push(Event::CommandPrompted { text: prompt });
                self.ask_model(job);
            }
            Err(text) => self.end_turn(End::Failed(text)),
        }
    }

    /// What it says becomes an answer, so that it is part of the conversation as anything the agent says is.
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
