//! Decides when the dialog of a question opens and when its keys count, and performs the answers.

use crate::base::clock::Now;
use crate::base::id::CallId;
use crate::limits::ui::{ARM_MS, QUIET_MS};
use crate::task::spec::{Answers, Choice, Question};
use crate::ui::UiEffect;
use crate::ui::app::{Editing, OpenDialog, PickerPurpose, Ui};
use crate::ui::client::{BlobPurpose, ServerCall};
use crate::ui::dialogs::dialog::{Dialog, DialogKind, DialogOutcome};
use crate::ui::input::keys::{Code, Key, TerminalInput};
use std::sync::Arc;

/// The message after a refusal. It is removed when the next question opens.
const INSTEAD: &str = "Say what to do instead";

impl Ui {
    /// Closes the dialog of a question that was answered or has changed, and opens that of the oldest question.
    pub(in crate::ui) fn follow_questions(&mut self, now: Now) {
        // A question in the past may have been answered in a record that has not come yet.
        if self.history_end.is_some() {
            return;
        }
        let scene = &self.transcript.scene;
        let shown = self.dialog.as_ref().and_then(|open| Some((&open.dialog, open.dialog.call()?)));
        if let Some((dialog, id)) = shown {
            let is_current = scene.calls.get(id).is_some_and(|call| dialog.is_current(call));
            if is_current && scene.asked.contains(id) {
                return;
            }
            self.dialog = None;
        }
        if self.dialog.is_some() {
            return;
        }
        let mode = self.mode();
        let asked = scene.asked.first().and_then(|id| scene.calls.get(id));
        let Some(mut dialog) = asked.and_then(|call| Dialog::for_call(call, mode, &self.setup.editor)) else {
            return;
        };
        if let Some(linear) = &mut self.linear {
            linear.question(&mut dialog, &self.transcript);
        }
        self.toast.take_if(|(text, _)| text == INSTEAD);
        let quiet = self.typing.key_at.is_none_or(|at| now.mono_ms.saturating_sub(at) >= QUIET_MS);
        // A user who has just allowed a call is looking at the screen.
        let ready = quiet || std::mem::take(&mut self.typing.allowed_last);
        let focused = ready && !self.is_tiny() && self.composer.draft.is_empty() && !self.composer.is_searching();
        self.dialog = Some(OpenDialog { dialog, focused, since: now.mono_ms, painted: None, purpose: None });
        self.notify("asks", now);
    }

    /// A key for the focused dialog.
    pub(in crate::ui) fn dialog_key(&mut self, input: &TerminalInput, now: Now) {
        let is_tiny = self.is_tiny();
        let Some(open) = &mut self.dialog else {
            return;
        };
        // On a screen that is too small for it, a dialog can only be left.
        let leaves = matches!(input, TerminalInput::Key(Key { code: Code::Esc, .. }));
        if is_tiny && !leaves && self.linear.is_none() {
            return;
        }
        // A question must have been on the screen for a while; a list, which the user opened, need not.
        if open.purpose.is_none() && open.painted.is_none_or(|at| now.mono_ms.saturating_sub(at) < ARM_MS) {
            open.painted = open.painted.map(|_| now.mono_ms);
            return;
        }
        let outcome = open.dialog.take(input);
        let (purpose, call) = (open.purpose, open.dialog.call().cloned());
        match (outcome, purpose, call) {
            (DialogOutcome::Ignored | DialogOutcome::Changed, ..) => {}
            (DialogOutcome::Chose(choice), _, Some(call)) => self.answer(call, choice, None, None),
            (DialogOutcome::Answered(answers), _, Some(call)) => {
                self.answer(call, Choice::ProceedOnce, None, Some(answers));
            }
            (DialogOutcome::Cancelled, None, Some(call)) => {
                self.answer(call, Choice::Cancel, None, None);
                self.toast(INSTEAD, now);
            }
            (DialogOutcome::Cancelled, purpose, _) => self.leave_picker(purpose),
            (DialogOutcome::Picked(value), Some(purpose), _) => self.picked(purpose, &value, now),
            (DialogOutcome::Deleted(value), ..) => self.call(ServerCall::Delete { task: value.as_str().into() }),
            (DialogOutcome::Whole, _, Some(call)) => self.print_question(call),
            (DialogOutcome::Unseen, ..) => self.toast("v first: you have not seen all of it", now),
            (DialogOutcome::EditFirst, _, Some(call)) => self.edit_proposal(call),
            (_, _, None) | (DialogOutcome::Picked(_), None, _) => {}
        }
    }

    pub(in crate::ui) fn leave_picker(&mut self, purpose: Option<PickerPurpose>) {
        self.dialog = None;
        if purpose == Some(PickerPurpose::Trust) && !self.client.is_connected() {
            self.effects.push(UiEffect::Quit);
        }
    }

    pub(in crate::ui) fn answer(
        &mut self,
        call: CallId,
        choice: Choice,
        edited: Option<Arc<str>>,
        answers: Option<Answers>,
    ) {
        self.dialog = None;
        self.typing.allowed_last = choice != Choice::Cancel;
        let seen = self.transcript.scene.calls.get(&call).and_then(|call| call.planned);
        // The question is closed here; the records say whose answer counted.
        self.transcript.scene.asked.retain(|asked| *asked != call);
        if let Some(task) = self.task.clone() {
            self.call(ServerCall::Answer { task, call, choice, edited, answers, seen });
        }
    }

    /// Prints all of the question's content. A diff that is stored as a blob is fetched first.
    pub(in crate::ui) fn print_question(&mut self, call: CallId) {
        let Some(open) = &mut self.dialog else {
            return;
        };
        let stored = open.dialog.plan().and_then(|plan| match &plan.question {
            Question::Edit { diff, .. } => diff.missing().cloned(),
            _ => None,
        });
        if let (Some(blob), Some(task)) = (stored, self.task.clone()) {
            self.blob_bytes.clear();
            return self.call(ServerCall::Blob {
                task,
                sha256: blob.sha256,
                from: 0,
                purpose: BlobPurpose::Question(call),
            });
        }
        if let DialogKind::Approval(approval) = &mut open.dialog.kind {
            (approval.seen, approval.printed) = (true, true);
        }
        // The message asked for this key.
        self.toast = None;
        let lines = open.dialog.whole(&self.transcript.viewer);
        self.print(lines);
    }

    pub(in crate::ui) fn edit_proposal(&mut self, call: CallId) {
        let plan = self.dialog.as_ref().and_then(|open| open.dialog.plan().cloned());
        let Some(Question::Edit { new, file_name, .. }) = plan.as_ref().map(|plan| &plan.question) else {
            return;
        };
        match (new.missing(), self.task.clone()) {
            (Some(blob), Some(task)) => {
                self.blob_bytes.clear();
                let sha256 = blob.sha256.clone();
                self.call(ServerCall::Blob { task, sha256, from: 0, purpose: BlobPurpose::Edit(call) });
            }
            _ => self.open_editor(Editing::Proposal(call), new.as_str(), file_name),
        }
    }

    pub(in crate::ui) fn open_editor(&mut self, editing: Editing, text: &str, name: &str) {
        self.editing = Some(editing);
        self.effects.push(UiEffect::Edit { text: text.to_owned(), name: name.to_owned() });
    }

    pub(in crate::ui) fn edited(&mut self, result: Result<String, String>, now: Now) {
        self.painter.reset();
        match (self.editing.take(), result) {
            (_, Err(why)) => self.toast(why, now),
            (Some(Editing::Draft), Ok(text)) => {
                self.composer.set_draft(text.trim_end());
                self.keep_draft();
            }
            (Some(Editing::Proposal(call)), Ok(text)) => match self.transcript.scene.asked.contains(&call) {
                true => self.answer(call, Choice::ProceedOnce, Some(text.into()), None),
                false => {
                    let who = self.answered_by(&call);
                    self.composer.set_draft(&text);
                    self.toast(format!("{who} answered first: what you wrote is the draft now"), now);
                }
            },
            (None, Ok(_)) => {}
        }
    }

    pub(in crate::ui) fn answered_by(&self, call: &CallId) -> String {
        let by = self.transcript.scene.calls.get(call).and_then(|call| call.by.as_ref());
        by.map_or_else(|| "Somebody".into(), |by| self.transcript.viewer.who(by))
    }
}
