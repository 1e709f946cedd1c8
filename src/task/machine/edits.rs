//! Several edits of one file in one answer of the model. Each edit is planned on top of the earlier ones and shown with its own diff, so
//! they run in the order of the answer, whatever the order of approvals. If an earlier edit was refused, failed or was changed by the
//! user, a later one still runs if it removes and adds the lines that were shown.

use crate::task::machine::state::{CallState, Stage, State};
use crate::task::spec::{Base, Question};

impl State {
    /// Whether the call waits for other calls: an edit waits for the end of earlier edits of the same file, and a command in a prompt for the
    /// decisions about all commands of the prompt and for the end of the earlier ones.
    pub fn waits_for_earlier_calls(&self, call: &CallState) -> bool {
        let is_decided = |other: &CallState| matches!(other.stage, Stage::Ready | Stage::Running { .. } | Stage::Ended);
        let mut before = self.calls.iter().take_while(|other| other.id() != call.id());
        match self.turn.expansion {
            Some(_) => before.any(|other| !other.is_over()) || !self.calls.iter().all(is_decided),
            None => self.earlier_edits(call).any(|earlier| !earlier.is_over()),
        }
    }

    /// The file after the earlier edits of it. None: there are none, or something else has changed the file meanwhile, so that the file must
    /// be exactly as it was shown.
    pub fn file_after_earlier_edits(&self, call: &CallState) -> Option<Base> {
        let first = self.earlier_edits(call).next()?.plan.as_ref()?;
        if call.stale > 0 || self.earlier_edits(call).any(|earlier| earlier.stale > 0) {
            return None;
        }
        let written = self.earlier_edits(call).filter_map(|earlier| earlier.written.as_deref()).last();
        match written {
            Some(sha256) => Some(Base { sha256: Some(sha256.into()), change: None }),
            None => first.base.clone(),
        }
    }

    /// The edits of the same file that come before the call in its answer.
    fn earlier_edits(&self, call: &CallState) -> impl Iterator<Item = &CallState> {
        let before = self.calls.iter().take_while(move |other| other.id() != call.id());
        let file = edited_file(call);
        before.filter(move |other| file.is_some() && edited_file(other) == file)
    }
}

/// The real path of the file that a planned call edits.
fn edited_file(call: &CallState) -> Option<&str> {
    match &call.plan.as_ref()?.question {
        Question::Edit { file_path, .. } => Some(file_path),
        Question::Exec { .. } | Question::Mcp { .. } | Question::Info { .. } | Question::AskUser { .. } => None,
    }
}
