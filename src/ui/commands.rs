//! Slash commands: performs those of the terminal, sends the others to the server, and opens the lists that some of them need.

use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::limits::ui::COPY_CHARS;
use crate::task::policy::Mode;
use crate::ui::app::{PickerPurpose, Ui};
use crate::ui::client::{ServerCall, SessionChoice, TaskBrief};
use crate::ui::dialogs::dialog::{Dialog, DialogKind, Picker, Selection};
use crate::ui::format::columns::{broken_columns, columns};
use crate::ui::format::style::Role;
use crate::ui::format::wrap::Line;
use crate::ui::input::bind;
use crate::ui::input::composer::Command;
use crate::ui::output::block::{age_text, lowercase_first, plural};
use crate::ui::output::status::mode_word;
use crate::ui::{TrustChoice, TrustQuestion, UiEffect};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The terminal's own commands and their descriptions.
const OWN_COMMANDS: &[(&str, &str)] = &[
    ("help", "commands and keys"),
    ("clear", "begins a new session; the old one stays"),
    ("resume", "continues an earlier session"),
    ("model", "chooses the model"),
    ("mode", "says what runs without a question"),
    ("clients", "who shares this session"),
    ("stats", "requests, tokens, tools, time"),
    ("copy", "copies the last answer, or its n-th code block"),
    ("status", "model, context, mode and clients"),
    ("trust", "says whether the files of this folder count"),
    ("debug", "shows lines of the log"),
    ("quit", "leaves"),
];

impl Ui {
    /// The commands that can be completed: the terminal's first, then those of the server.
    pub(super) fn commands(&self) -> Vec<Command> {
        let own = OWN_COMMANDS.iter().map(|(name, help)| Command {
            name: (*name).into(),
            help: (*help).into(),
            needs_arguments: false,
        });
        let known = |name: &str| OWN_COMMANDS.iter().any(|(own, _)| *own == name);
        let others = self.about.commands.iter().filter(|command| !known(&command.name)).map(|command| Command {
            name: command.name.clone(),
            help: lowercase_first(command.description.trim_end_matches('.')),
            needs_arguments: !command.arguments.is_empty(),
        });
        own.chain(others).collect()
    }

    pub(super) fn command(&mut self, line: &str, now: Now) {
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim();
        match name {
            "quit" | "exit" => self.effects.push(UiEffect::Quit),
            "help" => self.help(),
            "clear" | "new" => self.call(ServerCall::Session(SessionChoice::New)),
            "resume" => self.call(ServerCall::Briefs),
            "model" if argument.is_empty() => self.pick_model(now),
            "model" => self.tune(None, Some(argument.to_owned())),
            "mode" => self.set_mode(argument, now),
            "clients" => self.print(self.client_lines(now)),
            "stats" => self.print(self.transcript.tally.lines(&self.transcript.scene, self.columns())),
            "copy" => self.copy(argument, now),
            "debug" => self.switch_debug(now),
            "status" => {
                let text = self.footer(usize::MAX).content();
                self.print(vec![Line::new(Role::Text, text.trim())]);
            }
            "trust" => match &self.setup.folder {
                Some(folder) => {
                    self.open(folder.dialog("number or ↑↓ and Enter · Esc back"), Some(PickerPurpose::Trust), now)
                }
                None => self.toast("The server decides which folder is trusted: start it there and use /trust", now),
            },
            _ => match self.task.clone() {
                Some(task) => self.call(ServerCall::Execute { task, text: format!("/{line}") }),
                None => self.toast("There is no session yet", now),
            },
        }
    }

    fn help(&mut self) {
        let rows: Vec<Vec<String>> = self
            .composer
            .commands
            .iter()
            .map(|command| vec![format!("  /{}", command.name), command.help.clone()])
            .collect();
        let mut lines = vec![Line::new(Role::Strong, "Commands")];
        lines.extend(broken_columns(&rows, &[Role::Text, Role::Muted], self.columns()));
        lines.extend([Line::default(), Line::new(Role::Strong, "Keys")]);
        let keys = bind::help(self.columns().saturating_sub(2).min(68));
        lines.extend(keys.iter().map(|row| Line::new(Role::Muted, &format!("  {row}"))));
        self.print(lines);
    }

    fn set_mode(&mut self, word: &str, now: Now) {
        let mode = Mode::ALL.into_iter().find(|mode| mode_word(*mode) == word || mode.word() == word);
        match mode {
            Some(Mode::Yolo) => {
                let title =
                    Line::new(Role::Warn, "! ").text("In this mode nothing is asked any more: every command runs.");
                let entries = vec![
                    (Line::new(Role::Text, "Yes, run everything without asking"), "yes".to_owned()),
                    (Line::new(Role::Text, "No"), "no".to_owned()),
                ];
                let hint = "number or ↑↓ and Enter · Esc back";
                let picker = Picker::new(vec![title, Line::default()], entries, Selection::Numbered, hint);
                // "No" is selected first, so that Enter alone changes nothing.
                let dialog = Dialog { kind: DialogKind::Picker(picker), selected: 1 };
                self.open(dialog, Some(PickerPurpose::Yolo), now);
            }
            Some(mode) => self.tune(Some(mode), None),
            None => self.toast("The modes are: asks, edits, plan, yolo", now),
        }
    }

    fn pick_model(&mut self, now: Now) {
        if self.about.models.is_empty() {
            return self.toast("The server does not say which models it has; name one: /model NAME", now);
        }
        let current = &self.transcript.scene.model;
        let rows: Vec<Vec<String>> = self
            .about
            .models
            .iter()
            .map(|model| {
                let note = match model.as_str() {
                    _ if model == current => "now",
                    "auto" => "the newest pro model, and another one when it cannot be had",
                    _ => "",
                };
                vec![model.clone(), note.to_owned()]
            })
            .collect();
        let lines = columns(&rows, &[Role::Text, Role::Muted]);
        let entries = lines.into_iter().zip(self.about.models.clone()).collect();
        let picker = Picker::new(vec![], entries, Selection::Filtered, "Enter chooses · type to filter · Esc back");
        self.open(Dialog::new(DialogKind::Picker(picker)), Some(PickerPurpose::Model), now);
    }

    /// Opens the list of sessions, from the server's answer to `briefs`.
    pub(super) fn pick_session(&mut self, briefs: &Value, now: Now) {
        let mut tasks: Vec<TaskBrief> = serde_json::from_value(briefs["tasks"].clone()).unwrap_or_default();
        let here = self.transcript.viewer.workspace.as_str();
        tasks.retain(|task| task.workspace.as_deref().is_none_or(|dir| here.is_empty() || dir == here));
        if tasks.is_empty() {
            return self.toast("There are no earlier sessions", now);
        }
        let row = |task: &TaskBrief| {
            let age = match now.unix_ms.saturating_sub(task.at) {
                ..60_000 => "now".into(),
                age => format!("{} ago", age_text(age)),
            };
            let prompts = plural(task.turns, "prompt");
            let facts = match task.state.as_str() {
                _ if task.live => format!("{prompts} · open"),
                _ if task.failed => format!("{prompts} · failed"),
                "" | "input_required" | "input-required" => prompts,
                state => format!("{prompts} · {state}"),
            };
            vec![age, task.title.clone(), facts]
        };
        let rows: Vec<Vec<String>> = tasks.iter().map(row).collect();
        let lines = columns(&rows, &[Role::Muted, Role::Text, Role::Muted]);
        let entries = lines.into_iter().zip(tasks.iter().map(|task| task.task.to_string())).collect();
        let viewer = &self.transcript.viewer;
        let title = Line::new(Role::Strong, &format!("Sessions in {}", viewer.directory(&viewer.workspace)));
        let hint = "Enter continues · type to filter · d deletes · Esc back";
        let picker = Picker::new(vec![title], entries, Selection::FilteredWithDelete, hint);
        self.open(Dialog::new(DialogKind::Picker(picker)), Some(PickerPurpose::Session), now);
    }

    pub(super) fn picked(&mut self, purpose: PickerPurpose, value: &str, now: Now) {
        self.dialog = None;
        match purpose {
            PickerPurpose::Trust => {
                self.effects.extend(TrustChoice::from_word(value).map(UiEffect::Trust));
                if self.client.is_connected() {
                    self.toast("The answer takes effect at the next start", now);
                }
            }
            PickerPurpose::Session => self.pick_task(value.into()),
            PickerPurpose::Model => self.tune(None, Some(value.to_owned())),
            PickerPurpose::Yolo if value == "yes" => self.tune(Some(Mode::Yolo), None),
            PickerPurpose::Yolo => self.toast("The mode stays as it was", now),
        }
    }

    /// Continues a session. The present session is printed again. A server with other clients keeps its live session: this terminal
    /// only shows the task.
    fn pick_task(&mut self, task: TaskId) {
        let present = self.task.clone();
        if present.as_ref() != Some(&task) && !self.is_attached {
            return self.call(ServerCall::Session(SessionChoice::Task(task)));
        }
        self.call(ServerCall::Unwatch { task: present.unwrap_or_else(|| task.clone()) });
        self.show_task(task.clone());
        self.watch(task, None);
    }

    /// Copies the last answer, or its n-th block of code, with an OSC 52 sequence, which the terminal may ignore.
    fn copy(&mut self, argument: &str, now: Now) {
        if self.linear.is_some() {
            return self.toast("Nothing can be copied for you here: that needs an escape sequence", now);
        }
        let answer = self.transcript.answer().unwrap_or_default();
        let text = match argument.parse::<usize>() {
            Ok(number) => code_blocks(answer).into_iter().nth(number.saturating_sub(1)),
            Err(_) => Some(answer.to_owned()),
        };
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return self.toast("There is nothing to copy", now);
        };
        let data = STANDARD.encode(text);
        if data.len() > COPY_CHARS {
            return self.toast("The answer is too long to be copied to the clipboard", now);
        }
        self.control_sequences.push_str(&format!("\x1b]52;c;{data}\x07"));
        self.toast("Copied, if your terminal allows it", now);
    }
}

/// The contents of the fenced code blocks.
fn code_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        match (&mut open, is_fence) {
            (None, true) => open = Some(String::new()),
            (None, false) => {}
            (Some(_), true) => blocks.extend(open.take()),
            (Some(code), false) => {
                code.push_str(line);
                code.push('\n');
            }
        }
    }
    blocks
}

impl TrustQuestion {
    /// The dialog that asks whether the folder is trusted.
    pub(super) fn dialog(&self, hint: &'static str) -> Dialog {
        let mut title = vec![
            Line::new(Role::Strong, &format!("Do you trust the files in {}?", self.folder)),
            Line::new(Role::Text, "Trust lets its settings, variables, GEMINI.md and commands count. Found here:"),
        ];
        title.extend(self.found.iter().map(|found| Line::new(Role::Muted, &format!("  {found}"))));
        title.push(Line::default());
        let mut entries = vec![(Line::new(Role::Text, "Trust this folder"), TrustChoice::Folder.word().to_owned())];
        if let Some(parent) = &self.parent {
            let text = format!("Trust {parent} and what is below it");
            entries.push((Line::new(Role::Text, &text), TrustChoice::Parent.word().to_owned()));
        }
        let not = Line::new(Role::Text, "Do not trust it: only my own settings count");
        entries.push((not, TrustChoice::Nothing.word().to_owned()));
        Dialog::new(DialogKind::Picker(Picker::new(title, entries, Selection::Numbered, hint)))
    }
}
