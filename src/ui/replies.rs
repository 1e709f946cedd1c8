//! The server's answers to the terminal's calls.

use crate::base::clock::Now;
use crate::base::id::{Seq, TaskId};
use crate::limits::ui::{FETCH_BYTES, WHOLE_ROWS};
use crate::ui::actions::Delivered;
use crate::ui::app::Ui;
use crate::ui::block;
use crate::ui::client::{Ask, Purpose};
use crate::ui::dialog;
use crate::ui::markdown::Markdown;
use crate::ui::style::Role;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

impl Ui {
    pub(super) fn replied(&mut self, ask: Ask, reply: Result<Value, (String, String)>, now: Now) {
        match reply {
            Ok(value) => self.succeeded(ask, value, now),
            Err((reason, message)) => self.failed(ask, &reason, message, now),
        }
    }

    fn succeeded(&mut self, ask: Ask, value: Value, now: Now) {
        match ask {
            Ask::About => {
                self.about = serde_json::from_value(value).unwrap_or_default();
                self.composer.commands = self.commands();
                if self.transcript.viewer.workspace.is_empty() {
                    self.transcript.viewer.workspace = self.about.workspace.clone();
                }
            }
            Ask::Session(_) => self.join(&value),
            Ask::Watch { after, .. } => {
                let begins_anew =
                    after.is_some_and(|after| value["after"].as_u64().is_some_and(|given| Seq(given) < after));
                if begins_anew && let Some(task) = self.task.clone() {
                    self.show_task(task);
                    let columns = self.columns();
                    self.print(block::notice(Role::Muted, "·", "The log begins anew", columns));
                }
            }
            Ask::Tune { mode, model, .. } => {
                self.about.mode = mode.or(self.about.mode);
                if let Some(model) = model {
                    self.toast(format!("{model} answers from the next request on"), now);
                    self.transcript.scene.model = model;
                }
            }
            Ask::Files { query, .. } => {
                let paths = value["paths"].as_array().into_iter().flatten();
                let paths: Vec<String> = paths.filter_map(|path| path.as_str().map(str::to_owned)).collect();
                let of = value["total"].as_u64().map_or(paths.len(), |total| total as usize);
                self.composer.found_files(query, paths, of);
            }
            Ask::Clients => self.clients = serde_json::from_value(value["clients"].clone()).unwrap_or_default(),
            Ask::Briefs => self.pick_session(&value, now),
            Ask::Execute { .. } => self.print_result(&value),
            Ask::Blob { task, sha256, purpose, .. } => self.fetched(task, sha256, purpose, &value),
            Ask::Say { .. }
            | Ask::Answer { .. }
            | Ask::Abort { .. }
            | Ask::Drop { .. }
            | Ask::Shell { .. }
            | Ask::Unwatch { .. } => {}
        }
    }

    /// The session is known: follow it, and say what waits for it.
    fn join(&mut self, value: &Value) {
        let id = value.as_str().or_else(|| value["taskId"].as_str()).map(TaskId::from);
        let Some(id) = id else {
            return;
        };
        if let Some(before) = self.task.clone().filter(|before| *before != id) {
            self.ask(Ask::Unwatch { task: before });
            self.show_task(id.clone());
        }
        self.watch(id, None);
        if let Some(prompt) = self.setup.prompt.take() {
            self.say(prompt, Delivered::Next);
        }
    }

    /// What a command of the server answered.
    fn print_result(&mut self, value: &Value) {
        let text = value["text"].as_str().or_else(|| value.as_str()).unwrap_or_default();
        let columns = self.columns();
        let mut markdown = Markdown::default();
        let mut lines = markdown.push(text, columns);
        lines.extend(markdown.finish(columns));
        self.print(lines);
    }

    fn failed(&mut self, ask: Ask, reason: &str, message: String, now: Now) {
        match ask {
            Ask::Answer { call, .. } if reason == "TOOL_CALL_NOT_PENDING" => {
                let who = self.answered_by(&call);
                self.toast(format!("{who} answered first: your key changed nothing"), now);
            }
            Ask::Say { text, .. } => {
                self.toast(message, now);
                if self.composer.draft.is_empty() {
                    self.composer.draft.replace(&text);
                }
            }
            Ask::Drop { .. } => self.toast("It was begun already", now),
            // A server of another version may not know them; nothing depends on them.
            Ask::About | Ask::Clients | Ask::Files { .. } | Ask::Unwatch { .. } => {}
            Ask::Session(_)
            | Ask::Watch { .. }
            | Ask::Answer { .. }
            | Ask::Abort { .. }
            | Ask::Tune { .. }
            | Ask::Shell { .. }
            | Ask::Execute { .. }
            | Ask::Briefs
            | Ask::Blob { .. } => self.toast(message, now),
        }
    }

    /// A piece of stored text; the next one is asked for until all is there.
    fn fetched(&mut self, task: TaskId, sha256: String, purpose: Purpose, value: &Value) {
        let piece = STANDARD.decode(value["data"].as_str().unwrap_or_default()).unwrap_or_default();
        self.fetched.extend_from_slice(&piece);
        let (have, of) = (self.fetched.len() as u64, value["len"].as_u64().unwrap_or(0));
        let whole = matches!(purpose, Purpose::Edit(_));
        if !piece.is_empty() && have < of && (whole || self.fetched.len() < FETCH_BYTES) {
            return self.ask(Ask::Blob { task, sha256, from: have, purpose });
        }
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.fetched)).into_owned();
        match purpose {
            Purpose::Output(call) => {
                if let Some(call) = self.transcript.scene.calls.get(&call) {
                    let lines = block::whole(call, &self.transcript.viewer, &text);
                    self.print(lines);
                }
            }
            Purpose::Question(call) => {
                let lines = block::cut_diff(&text, WHOLE_ROWS, "the rest is in the log of the task");
                if let Some(open) = &mut self.dialog
                    && open.dialog.call() == Some(&call)
                    && let dialog::Kind::Approval(approval) = &mut open.dialog.kind
                {
                    approval.seen = true;
                }
                self.print(lines);
            }
            Purpose::Edit(call) => self.edit_fetched(call, &text),
        }
    }
}
