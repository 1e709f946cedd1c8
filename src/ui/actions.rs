//! What keys do outside of dialogs: write, send, stop, quit, and print outputs, plans and answers.

use crate::base::clock::Now;
use crate::limits::ui::{ESCAPE_TWICE_MS, PROMPT_BYTES, QUIT_TWICE_MS};
use crate::task::policy::Mode;
use crate::task::spec::Choice;
use crate::ui::UiEffect;
use crate::ui::app::{Editing, Ui};
use crate::ui::client::{BlobPurpose, ServerCall, SessionChoice};
use crate::ui::format::style::Role;
use crate::ui::format::wrap::Line;
use crate::ui::input::bind::Action;
use crate::ui::input::composer::ComposerOutcome;
use crate::ui::input::edit::{Direction, Motion};
use crate::ui::output::screen::sharing;
use crate::ui::output::transcript::FullOutput;
use crate::ui::scene::{Item, Phase};
use serde_json::json;

/// When the model gets a prompt that is sent during a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Within the turn that is under way.
    Steer,
    /// After that turn, in a turn of its own.
    Queue,
}

impl Ui {
    /// How Enter sends a prompt: it steers a turn that is under way.
    pub(super) fn enter_mode(&self) -> SendMode {
        if self.has_turn() { SendMode::Steer } else { SendMode::Queue }
    }

    /// Performs the action of a key that does not go to a dialog.
    pub(super) fn perform(&mut self, action: Action, now: Now) {
        let prefixed = std::mem::take(&mut self.typing.prefix);
        let has_question = self.dialog.is_some();
        let plain = !self.composer.is_searching() && !self.composer.has_popup();
        match action {
            Action::Escape if plain && !self.composer.is_shell() => self.escape(now),
            Action::Tab if plain && has_question => {
                if let Some(open) = &mut self.dialog {
                    (open.focused, open.painted) = (true, None);
                }
            }
            Action::Tab if plain && self.has_turn() && !self.composer.draft.is_empty() => {
                let outcome = self.composer.submit();
                self.apply_outcome(outcome, SendMode::Queue, now);
            }
            Action::Row(Direction::Up) if plain && self.composer.draft.is_empty() && self.recall_queued_prompt() => {}
            Action::NextMode => self.next_mode(),
            Action::Prefix => self.typing.prefix = true,
            Action::Editor => self.edit_draft(),
            Action::Move(Motion::LineEnd) if prefixed => self.edit_draft(),
            Action::Plan => match self.transcript.plan(self.columns()) {
                plan if plan.is_empty() => self.toast("The agent has no plan yet", now),
                plan => self.print(plan),
            },
            Action::Raw => {
                let raw = self.transcript.answer().unwrap_or_default().to_owned();
                self.print(raw.lines().map(|line| Line::new(Role::Text, line)).collect());
            }
            Action::Debug => self.switch_debug(now),
            Action::DeleteOrQuit if self.composer.draft.is_empty() => _ = self.arm_quit("ctrl-d", now),
            action => {
                let outcome = self.composer.act(action);
                if outcome == ComposerOutcome::Ignored && action == Action::Output {
                    self.print_output(now);
                }
                self.apply_outcome(outcome, self.enter_mode(), now);
            }
        }
        self.keep_draft();
    }

    pub(super) fn switch_debug(&mut self, now: Now) {
        self.setup.debug = !self.setup.debug;
        self.toast(if self.setup.debug { "Debug lines are shown" } else { "Debug lines are hidden" }, now);
    }

    fn edit_draft(&mut self) {
        let text = self.composer.draft.content();
        self.open_editor(Editing::Draft, &text, "prompt.md");
    }

    fn print_output(&mut self, now: Now) {
        match self.transcript.output() {
            FullOutput::Nothing => self.toast("There is no output yet", now),
            FullOutput::Lines(lines) => self.print(lines),
            FullOutput::Stored(call, blob) => {
                if let Some(task) = self.task.clone() {
                    self.blob_bytes.clear();
                    let purpose = BlobPurpose::Output(call);
                    self.call(ServerCall::Blob { task, sha256: blob.sha256, from: 0, purpose });
                }
            }
        }
    }

    fn next_mode(&mut self) {
        let mode = match self.mode() {
            Mode::Default => Mode::AutoEdit,
            Mode::AutoEdit => Mode::Plan,
            Mode::Plan | Mode::Yolo => Mode::Default,
        };
        self.tune(Some(mode), None);
    }

    pub(super) fn tune(&mut self, mode: Option<Mode>, model: Option<String>) {
        if let Some(task) = self.task.clone() {
            self.call(ServerCall::Tune { task, mode, model });
        }
    }

    pub(super) fn mode(&self) -> Mode {
        let scene = &self.transcript.scene;
        self.about.mode.filter(|_| scene.task.is_none()).unwrap_or(scene.mode)
    }

    /// Moves the user's newest queued prompt back into the draft. Returns whether there was one.
    fn recall_queued_prompt(&mut self) -> bool {
        let queue = &self.transcript.scene.queue;
        let own = queue.iter().rev().find(|prompt| self.transcript.viewer.is_me(&prompt.by));
        let Some((turn, text, task)) =
            own.and_then(|prompt| Some((prompt.turn, prompt.text.clone(), self.task.clone()?)))
        else {
            return false;
        };
        self.composer.set_draft(&text);
        self.call(ServerCall::Drop { task, turn });
        true
    }

    /// Esc outside of dialogs and lists.
    fn escape(&mut self, now: Now) {
        let twice = self.typing.escape_at.is_some_and(|at| now.mono_ms.saturating_sub(at) <= ESCAPE_TWICE_MS);
        self.typing.escape_at = Some(now.mono_ms);
        if twice && !self.composer.draft.is_empty() {
            self.clear_draft();
        } else if self.can_stop() {
            self.stop();
        } else if !self.composer.draft.is_empty() {
            self.toast("esc again clears the draft", now);
        }
    }

    fn clear_draft(&mut self) {
        if let Some(text) = self.composer.clear() {
            self.remember(&text);
        }
        self.keep_draft();
    }

    pub(super) fn remember(&mut self, text: &str) {
        if self.composer.remember(text) {
            self.effects.push(UiEffect::Remember(text.to_owned()));
        }
    }

    /// Stops the turn. If the model has not answered yet, its prompt becomes the draft again.
    fn stop(&mut self) {
        let Some(task) = self.task.clone() else {
            return;
        };
        self.call(ServerCall::Abort { task });
        // Thoughts are not part of an answer.
        let mut items = self.transcript.scene.items.iter().rev();
        if let Some(Item::Prompt { prompt, .. }) = items.find(|item| !matches!(item, Item::Thought { .. }))
            && self.transcript.viewer.is_me(&prompt.by)
            && self.composer.draft.is_empty()
        {
            self.composer.set_draft(&prompt.text);
        }
    }

    /// Ctrl-C: the second one quits, whatever the first one did.
    pub(super) fn interrupt(&mut self, now: Now) {
        if self.arm_quit("ctrl-c", now) {
            return;
        }
        match &self.dialog {
            Some(open) if open.focused && open.purpose.is_some() => {
                let purpose = open.purpose;
                self.leave_picker(purpose);
            }
            Some(open) if open.focused => {
                if let Some(call) = open.dialog.call().cloned() {
                    self.answer(call, Choice::Cancel, None, None);
                }
            }
            _ if self.composer.is_searching() => drop(self.composer.act(Action::Escape)),
            _ if !self.composer.draft.is_empty() => self.clear_draft(),
            _ if self.can_stop() => self.stop(),
            _ => {}
        }
    }

    /// Quits on the second of two keys; the first one only shows a hint. Returns whether it quits.
    fn arm_quit(&mut self, key: &str, now: Now) -> bool {
        let twice = self.typing.quit_at.is_some_and(|at| now.mono_ms.saturating_sub(at) <= QUIT_TWICE_MS);
        self.typing.quit_at = Some(now.mono_ms);
        match twice {
            true => self.effects.push(UiEffect::Quit),
            false => self.toast = Some((format!("{key} again quits"), now.mono_ms + QUIT_TWICE_MS)),
        }
        twice
    }

    pub(super) fn suspend(&mut self, now: Now) {
        match &self.setup.url {
            Some(url) => {
                // This terminal is a client, too, even before the server has listed its clients.
                let text = format!("Not suspended: {} over {url}", sharing(self.clients.len().max(1)));
                self.toast(text, now);
            }
            None => self.effects.push(UiEffect::Suspend),
        }
    }

    /// Performs what the composer returned for a key.
    pub(super) fn apply_outcome(&mut self, outcome: ComposerOutcome, mode: SendMode, now: Now) {
        match outcome {
            ComposerOutcome::Done | ComposerOutcome::Ignored => {}
            ComposerOutcome::Blank if self.transcript.scene.phase == Phase::Interrupted => {
                self.send_prompt("Go on.".into(), SendMode::Queue, now);
            }
            ComposerOutcome::Blank => {}
            ComposerOutcome::Shell(command) => {
                self.remember(&format!("!{command}"));
                match self.task.clone().filter(|_| self.client.is_connected()) {
                    Some(task) => self.call(ServerCall::Shell { task, command }),
                    None => self.toast("There is no connection: the command was not run", now),
                }
            }
            ComposerOutcome::Submit(text) => {
                self.remember(&text);
                match text.strip_prefix('/').filter(|name| name.starts_with(char::is_alphabetic)) {
                    Some(command) => self.command(command, now),
                    None => self.send_prompt(text, mode, now),
                }
            }
        }
    }

    pub(super) fn send_prompt(&mut self, text: String, mode: SendMode, now: Now) {
        if self.client.is_full() {
            self.composer.set_draft(&text);
            return self.toast("Too many prompts wait already: try again when some of them were taken", now);
        }
        // An escape in JSON is up to six times as long as the character.
        if text.len() > PROMPT_BYTES / 6 && json!(text).to_string().len() > PROMPT_BYTES {
            self.composer.set_draft(&text);
            return self.toast("The prompt is too long to be sent: put it into a file and name that with @", now);
        }
        self.typing.prompts_sent += 1;
        let key = format!("{}-{}", self.setup.nonce, self.typing.prompts_sent);
        match (self.task.clone(), self.transcript.scene.phase == Phase::Closed) {
            (Some(task), false) => {
                self.call(ServerCall::Say { task: Some(task), text, key, steer: mode == SendMode::Steer })
            }
            _ => {
                // The prompt is sent as soon as the server has named the session.
                self.setup.prompt = Some(text);
                self.call(ServerCall::Session(SessionChoice::Current));
            }
        }
    }
}
