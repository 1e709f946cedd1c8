//! Linear mode, for screen readers and terminals that cannot move their cursor: output lines are only appended, and input comes as
//! whole lines. Nothing is painted, and no escape sequence is sent.

use crate::base::clock::Now;
use crate::limits::ui::{ARM_MS, LINE_BYTES, STILL_WORKING_MS, WAITING_BYTES};
use crate::task::form::ReplyAction;
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use crate::task::spec::{Ending, Question};
use crate::ui::Thoughts;
use crate::ui::app::Ui;
use crate::ui::dialogs::dialog::{Dialog, DialogKind};
use crate::ui::format::text::{Reading, plain};
use crate::ui::format::wrap::Line;
use crate::ui::input::composer::ComposerOutcome;
use crate::ui::input::keys::{Code, Key, Mods, TerminalInput};
use crate::ui::output::block::{self, duration_text, plural, subject, tool_name};
use crate::ui::output::status::mode_word;
use crate::ui::output::transcript::Transcript;
use crate::ui::scene::{Call, Item, Phase};

#[derive(Default)]
pub struct Linear {
    output: String,
    /// The line of the agent's text that is not complete yet.
    text: String,
    is_in_answer: bool,
    /// When a line was added last.
    last_line_at: u64,
}

impl Linear {
    /// Takes the bytes to print.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output).into_bytes()
    }

    fn line(&mut self, text: &str) {
        self.output.push_str(&plain(text, Reading::Prose));
        self.output.push('\n');
        if self.output.len() > WAITING_BYTES {
            // Half of the limit is dropped at once, so that the text is not moved for every line.
            let cut = self.output.ceil_char_boundary(self.output.len() - WAITING_BYTES / 2);
            let end = self.output[cut..].find('\n').map_or(self.output.len(), |end| cut + end + 1);
            self.output.replace_range(..end, "Older lines are left out: the terminal was too slow.\n");
        }
    }

    /// Prints a message that would be shown for some seconds on a painted screen.
    pub fn message(&mut self, text: &str, now: u64) {
        self.last_line_at = now;
        self.line(text);
    }

    pub fn lines(&mut self, lines: &[Line]) {
        lines.iter().for_each(|line| self.line(&line.content()));
    }

    /// Adds a piece of the agent's answer, and prints its complete lines.
    fn append_answer(&mut self, piece: &str) {
        self.text.push_str(piece);
        while let Some(end) = self.text.find('\n') {
            let line: String = self.text.drain(..=end).collect();
            self.answer_line(line.trim_end());
        }
        if self.text.len() > LINE_BYTES {
            let line = std::mem::take(&mut self.text);
            self.answer_line(&line);
        }
    }

    fn answer_line(&mut self, line: &str) {
        let begins = !std::mem::replace(&mut self.is_in_answer, true);
        let line = if begins { format!("Agent: {line}") } else { line.to_owned() };
        self.line(&line);
    }

    fn end_answer(&mut self) {
        let rest = std::mem::take(&mut self.text);
        if !rest.trim().is_empty() {
            self.answer_line(&rest);
        }
        self.is_in_answer = false;
    }

    pub fn apply(&mut self, record: &Record, transcript: &Transcript, now: u64) {
        self.last_line_at = now;
        let scene = &transcript.scene;
        match &record.event {
            Event::TurnBegan { .. } | Event::Steered { .. } => {
                if let Some(Item::Prompt { prompt, .. }) = scene.items.last() {
                    let who = match transcript.viewer.is_me(&prompt.by) {
                        true => "You".to_owned(),
                        false => format!("[A2A] {}", block::name_of(&prompt.by.client, &prompt.by.via)),
                    };
                    self.line(&format!("{who}: {}", prompt.text));
                }
            }
            Event::Thought { subject, description } if transcript.thoughts == Thoughts::Full => {
                self.line(&format!("Thought: {subject}. {description}"));
            }
            Event::Text { text } => self.append_answer(text),
            Event::Answered { answer } => {
                if !self.is_in_answer && self.text.is_empty() {
                    self.append_answer(&answer.text());
                }
                self.end_answer();
            }
            Event::Retracted { .. } => {
                self.text.clear();
                self.is_in_answer = false;
                self.line("The answer broke off and begins anew.");
            }
            Event::CallEnded { call, .. } => {
                if let Some(call) = scene.calls.get(call) {
                    self.end_call(call, transcript);
                }
            }
            Event::CallAnswered { call, by, .. }
            | Event::CallReplied { call, by, action: ReplyAction::Accept | ReplyAction::Decline, .. }
                if !transcript.viewer.is_me(by) =>
            {
                let name = scene.calls.get(call).map_or("it", tool_name);
                self.line(&format!("{} answered the question about {name}.", transcript.viewer.who(by)));
            }
            Event::TurnEnded { end, by, .. } => {
                self.end_answer();
                self.lines(&block::turn_end(end, by.as_ref(), &transcript.viewer, usize::MAX));
            }
            _ => self.apply_rest(record, transcript),
        }
    }

    /// Prints events that are not about the answer.
    fn apply_rest(&mut self, record: &Record, transcript: &Transcript) {
        let scene = &transcript.scene;
        match &record.event {
            Event::BackedOff { delay_ms, reason, .. } => {
                let wait = duration_text(*delay_ms).unwrap_or_else(|| "a moment".into());
                self.line(&format!("The request is made again in {wait}: {reason}"));
            }
            Event::Dropped { turn, by } => {
                let text = transcript.prompt_of(*turn).unwrap_or_default();
                self.line(&format!("{} took back: {text}", transcript.viewer.who(by)));
            }
            Event::Tuned { mode, model, by, .. } => {
                let model = model.as_ref().map(|model| format!("the model is {model}"));
                let facts: Vec<String> =
                    mode.map(|mode| format!("the mode is {}", mode_word(mode))).into_iter().chain(model).collect();
                if !facts.is_empty() {
                    let text = format!("From now on {}, says {}.", facts.join(", "), transcript.viewer.who(by));
                    self.line(&text);
                }
            }
            Event::ShellBegan { command, .. } => self.line(&format!("Command: {command}")),
            Event::ShellEnded { .. } => {
                if let Some(shell) = &scene.shell {
                    self.line(&format!("Command ended, {}.", shell.end.trim_end_matches('.')));
                    self.lines(block::shell_ended(shell, &transcript.viewer, usize::MAX).get(1..).unwrap_or_default());
                }
            }
            _ => {
                if let Some(Item::Note { seq, word, text }) = scene.items.last()
                    && *seq == record.seq
                {
                    self.lines(&block::note(*word, text, &scene.model, usize::MAX).unwrap_or_default());
                }
            }
        }
    }

    /// Prints the end of a call: `Tool Shell, done, exit 0: cargo test`, and some lines of its output.
    fn end_call(&mut self, call: &Call, transcript: &Transcript) {
        let lines = block::ended_call(call, &transcript.viewer, usize::MAX);
        let head = lines[0].content();
        let how = match call.ending.as_deref() {
            _ if head.starts_with('✗') => "failed",
            Some(Ending::Success { .. }) => "done",
            _ => "not run",
        };
        let facts: String = head.split(" · ").skip(1).map(|fact| format!(", {fact}")).collect();
        self.line(&format!("Tool {}, {how}{facts}: {}", tool_name(call), subject(call, &transcript.viewer)));
        self.lines(&lines[1..]);
    }

    /// Prints a question with its numbered answers.
    pub fn question(&mut self, dialog: &mut Dialog, transcript: &Transcript) {
        let waiting = transcript.scene.asked.len();
        let number = if waiting > 1 { format!(" 1 of {waiting}") } else { String::new() };
        let call = dialog.call().and_then(|id| transcript.scene.calls.get(id));
        let what =
            call.map_or(String::new(), |call| format!("{}, {}", tool_name(call), subject(call, &transcript.viewer)));
        self.line(&format!("Question{number}: {}.", what.trim_end_matches([',', ' '])));
        // The first line of the dialog says the same.
        self.lines(dialog.whole(&transcript.viewer).get(1..).unwrap_or_default());
        if let Some(call) = call
            && let Some(Question::AskUser { title, questions }) = call.question()
        {
            if call.inquiry.is_some() {
                self.line(title);
            }
            questions.iter().take(1).for_each(|inquiry| self.line(&inquiry.question));
        }
        if let DialogKind::Approval(approval) = &mut dialog.kind {
            approval.seen = true;
        }
        self.choices(dialog);
    }

    /// Prints the next one of several questions.
    fn next_question(&mut self, dialog: &Dialog) {
        if let DialogKind::Inquiry(inquiry_dialog) = &dialog.kind {
            self.line(&inquiry_dialog.current().question);
            self.choices(dialog);
        }
    }

    /// Prints a list to choose from.
    pub fn picker(&mut self, dialog: &Dialog) {
        if let DialogKind::Picker(picker) = &dialog.kind {
            self.lines(&picker.title);
            self.choices(dialog);
            self.line("Anything else leaves the choice.");
        }
    }

    /// Prints the numbered answers with their descriptions.
    fn choices(&mut self, dialog: &Dialog) {
        let choice = |(number, (label, help)): (usize, (String, String))| match help.is_empty() {
            true => format!("{number}: {label}"),
            false => format!("{number}: {label} ({})", help.trim_end_matches('.')),
        };
        let choices: Vec<String> = (1..).zip(dialog.choices()).map(choice).collect();
        self.line(&match choices.is_empty() {
            true => "Type the answer.".to_owned(),
            false => format!("{}. Type a number.", choices.join("; ")),
        });
    }

    /// When `tick` prints that the agent is still working. None while the agent waits for the user.
    pub fn due(&self, transcript: &Transcript) -> Option<u64> {
        let scene = &transcript.scene;
        let rests = matches!(scene.phase, Phase::Idle | Phase::Interrupted | Phase::Closed);
        let works = scene.runs_shell() || (!rests && scene.asked.is_empty());
        works.then_some(self.last_line_at + STILL_WORKING_MS)
    }

    /// Prints that the agent is still working, if that is due.
    pub fn tick(&mut self, transcript: &Transcript, now: Now) {
        if self.due(transcript).is_some_and(|due| due <= now.mono_ms) {
            self.last_line_at = now.mono_ms;
            let scene = &transcript.scene;
            let shell = scene.shell.as_ref().filter(|shell| shell.runs() && scene.phase == Phase::Idle);
            let since = shell.map_or(scene.turn_at, |shell| shell.began_at);
            let seconds = now.unix_ms.saturating_sub(since) / 1_000;
            let time = if seconds < 60 {
                plural(seconds as usize, "second")
            } else {
                duration_text(seconds * 1_000).unwrap_or_default()
            };
            self.line(&format!("Still working, {time}."));
        }
    }
}

impl Ui {
    /// Handles a typed line: the answer to the last question, a shell command, or a prompt.
    pub(in crate::ui) fn line(&mut self, text: &str, now: Now) {
        let text = text.trim();
        if let Some(open) = &mut self.dialog {
            open.focused = true;
            open.painted = Some(now.mono_ms.saturating_sub(ARM_MS));
            let is_writing = open.dialog.is_writing();
            let number = text.parse::<usize>().ok().filter(|number| (1..=open.dialog.count()).contains(number));
            if let Some(number) = number {
                open.dialog.selected = number - 1;
            }
            let key = |code| TerminalInput::Key(Key { code, mods: Mods::NONE });
            let inputs = match (number, &open.dialog.kind) {
                _ if is_writing => vec![TerminalInput::Text(text.to_owned()), key(Code::Enter)],
                (Some(_), _) => vec![key(Code::Enter)],
                (None, DialogKind::Picker(_)) => vec![key(Code::Esc)],
                (None, _) if text.len() <= 1 => vec![TerminalInput::Text(text.to_owned())],
                (None, _) => Vec::new(),
            };
            inputs.iter().for_each(|input| self.dialog_key(input, now));
            if !inputs.is_empty() {
                if let (Some(linear), Some(open)) = (&mut self.linear, &self.dialog) {
                    linear.next_question(&open.dialog);
                }
                return;
            }
        }
        if let Some(command) = text.strip_prefix('!').map(str::trim).filter(|command| !command.is_empty()) {
            return self.apply_outcome(ComposerOutcome::Shell(command.to_owned()), self.enter_mode(), now);
        }
        self.composer.set_draft(text);
        let outcome = self.composer.submit();
        self.apply_outcome(outcome, self.enter_mode(), now);
    }
}
