//! A script as a back-end: reports the steps of a [`Script`] at the times that the script sets.

use crate::base::cancel::Cancel;
use crate::model::backend::{ModelBackend, ModelRequest};
use crate::model::error::{self, TransportError};
use crate::model::script::{Script, ScriptOutput};
use crate::task::log::answer::Answer;
use crate::task::machine::job::{ModelError, NoteBody};
use std::time::Duration;

impl ModelBackend for Script {
    fn answer(
        &self,
        request: &ModelRequest,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Answer, ModelError> {
        play(self.outputs(request.think), cancel, emit)
    }

    fn consult(&self, _: &ModelRequest, _: &str, _: &Cancel) -> Result<Answer, ModelError> {
        Err(error::fatal("A script needs no summary."))
    }
}

/// Performs the steps of a script. A cancellation ends a wait, and the answer, at once.
fn play(outputs: Vec<ScriptOutput>, cancel: &Cancel, emit: &mut dyn FnMut(NoteBody)) -> Result<Answer, ModelError> {
    let mut answer = None;
    for output in outputs {
        match output {
            _ if cancel.is_set() => break,
            ScriptOutput::Wait { ms } => cancel.wait(Duration::from_millis(ms)),
            ScriptOutput::Note(NoteBody::Answered(end)) => answer = Some(end),
            ScriptOutput::Note(note) => emit(note),
        }
    }
    answer.unwrap_or_else(|| Err(error::network(&TransportError::Canceled)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn notes_are_reported_and_a_cancellation_ends_a_wait() {
        let end = NoteBody::Answered(Ok(Answer::default()));
        let text = |text: &str| NoteBody::Text(text.into());
        let hour = ScriptOutput::Wait { ms: 3_600_000 };
        let mut notes = Vec::new();
        let outputs =
            vec![ScriptOutput::Wait { ms: 1 }, ScriptOutput::Note(text("a")), ScriptOutput::Note(end.clone())];
        let answer = play(outputs, &Cancel::default(), &mut |note| notes.push(note));
        assert_eq!((notes, answer), (vec![text("a")], Ok(Answer::default())));

        let cancel = &Cancel::default();
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                assert_eq!(receiver.recv().unwrap(), text("a"));
                cancel.set();
            });
            let outputs =
                vec![ScriptOutput::Note(text("a")), hour, ScriptOutput::Note(text("b")), ScriptOutput::Note(end)];
            let answer = play(outputs, cancel, &mut |note| sender.send(note).unwrap());
            assert_eq!(answer, Err(error::network(&TransportError::Canceled)));
        });
    }
}
