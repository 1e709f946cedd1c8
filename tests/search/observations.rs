//! What was observed of each call, and the check of every event against it. Observations are kept apart from the machine's own
//! state, so that the machine is not checked against itself.

#[path = "../support/event.rs"]
mod event;

use crate::system::index;
use gemini_a2a::base::id::CallId;
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::machine::state::{State, TaskState};
use gemini_a2a::task::spec::Choice;
use std::hash::Hash;

use event::is_of_hooks;

/// What has happened so far, as the log and the workers show it.
#[derive(Clone, Debug, Default, Hash)]
pub struct Observations {
    pub calls: [CallObservations; 2],
    pub closed: bool,
    /// How often the task's command began in the log, and how often a worker ran it.
    pub begun: u8,
    pub commands: u8,
    /// Rules that a user wants saved and that were not handed to the core yet.
    pub to_save: u8,
    /// The state that the webhook's receiver was delivered last.
    pub delivered: Option<TaskState>,
}

#[derive(Clone, Debug, Default, Hash)]
pub struct CallObservations {
    pub asks: u8,
    pub answers: u8,
    /// Approved, and not started since.
    pub granted: bool,
    pub starts: u8,
    pub runs: u8,
    pub ended: bool,
    /// How many of the questions each of the two users has answered.
    pub picked: [u8; 2],
}

impl Observations {
    /// Checks an event against the ones before it. `state` is the state before the event.
    pub fn check_event(&mut self, event: &Event, state: &State) -> Result<(), String> {
        if self.closed && !is_of_hooks(event) {
            return Err(format!("{event:?} follows the end of the task"));
        }
        match event {
            Event::Closed { .. } => self.closed = true,
            Event::Paused if !state.waits_for_answers() || state.paused => {
                return Err("a pause was announced and the task does not wait".into());
            }
            Event::CallAsked { call, .. } => self.asked(call)?,
            Event::CallAnswered { call, choice, rules, .. } => self.answered(call, *choice, rules.len())?,
            Event::CallReady { call, .. } if !self.open_call(call)?.granted => {
                return Err(format!("{call} is ready and nobody allowed it"));
            }
            Event::CallStarted { call } => self.started(call, state)?,
            Event::CommandBegan => self.command_began(state)?,
            Event::CallEnded { call, .. } => self.open_call(call)?.ended = true,
            Event::CallPlanned { call, .. }
            | Event::CallReady { call, .. }
            | Event::CallOutput { call, .. }
            | Event::CallInquired { call, .. }
            | Event::CallReplied { call, .. }
            | Event::CallStale { call } => drop(self.open_call(call)?),
            // Allowed after the end of the call: a worker may write its file before it learns that its call was cancelled.
            Event::FileChanged(change) if self.calls[index(&change.call)].starts == 0 => {
                return Err(format!("{} changed a file before it started", change.call));
            }
            _ => {}
        }
        Ok(())
    }

    fn asked(&mut self, call: &CallId) -> Result<(), String> {
        let observations = self.open_call(call)?;
        if observations.asks != observations.answers {
            return Err(format!("{call} has two open questions"));
        }
        observations.asks += 1;
        Ok(())
    }

    fn answered(&mut self, call: &CallId, choice: Choice, rules: usize) -> Result<(), String> {
        if choice == Choice::ProceedAlwaysAndSave {
            self.to_save += rules as u8;
        }
        let observations = self.open_call(call)?;
        if observations.answers == observations.asks {
            return Err(format!("{call} was answered twice"));
        }
        observations.answers += 1;
        observations.granted = choice != Choice::Cancel;
        Ok(())
    }

    fn started(&mut self, call: &CallId, state: &State) -> Result<(), String> {
        let observations = self.open_call(call)?;
        if !std::mem::take(&mut observations.granted) {
            return Err(format!("{call} started and nobody allowed it"));
        }
        observations.starts += 1;
        if state.suspended {
            return Err(format!("{call} started in a suspended turn"));
        }
        if call.as_str() == "write_file__f" && !self.calls[0].ended {
            return Err(format!("{call} started before the edit of the same file that comes before it"));
        }
        Ok(())
    }

    fn command_began(&mut self, state: &State) -> Result<(), String> {
        if state.created.command.is_none() {
            return Err("a command began in a task without a command".into());
        }
        self.begun += 1;
        if self.begun > 1 {
            return Err("the command began twice".into());
        }
        Ok(())
    }

    fn open_call(&mut self, call: &CallId) -> Result<&mut CallObservations, String> {
        let observations = &mut self.calls[index(call)];
        if observations.ended {
            return Err(format!("an event about {call} follows its end"));
        }
        Ok(observations)
    }
}
