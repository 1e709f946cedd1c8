//! Handles the server's answers to the terminal's calls.

use crate::base::clock::Now;
use crate::base::id::{CallId, Seq, TaskId};
use crate::limits::ui::{FETCH_BYTES, SCREENS_BEFORE, WHOLE_ROWS};
use crate::ui::actions::SendMode;
use crate::ui::app::{Editing, Ui};
use crate::ui::client::{BlobPurpose, ServerCall, SessionChoice};
use crate::ui::dialogs::dialog::DialogKind;
use crate::ui::format::markdown::Markdown;
use crate::ui::format::style::Role;
use crate::ui::output::block;
use crate::ui::scene::Stage;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

impl Ui {
    pub(super) fn handle_reply(&mut self, call: ServerCall, reply: Result<Value, (String, String)>, now: Now) {
        match reply {
            Ok(value) => self.succeeded(call, value, now),
            Err((reason, message)) => self.failed(call, &reason, message, now),
        }
    }

    fn succeeded(&mut self, call: ServerCall, value: Value, now: Now) {
        match call {
            ServerCall::About => {
                self.about = serde_json::from_value(value).unwrap_or_default();
                self.composer.set_commands(self.commands());
                if self.transcript.viewer.workspace.is_empty() {
                    self.transcript.viewer.workspace = self.about.workspace.clone();
                }
            }
            ServerCall::Session(_) => self.join_session(&value, now),
            ServerCall::Watch { task, after } => {
                self.print_banner();
                self.watch_started(task, after, &value);
            }
            ServerCall::Tune { model: Some(model), .. } => {
                self.toast(format!("{model} answers from the next request on"), now);
            }
            ServerCall::Delete { .. } => self.call(ServerCall::Briefs),
            ServerCall::Files { query, .. } => {
                let paths = value["paths"].as_array().into_iter().flatten();
                let paths: Vec<String> = paths.filter_map(|path| path.as_str().map(str::to_owned)).collect();
                let of = value["total"].as_u64().map_or(paths.len(), |total| total as usize);
                self.composer.found_files(query, paths, of);
            }
            ServerCall::Clients => self.clients = serde_json::from_value(value["clients"].clone()).unwrap_or_default(),
            ServerCall::Briefs => self.pick_session(&value, now),
            ServerCall::Execute { .. } => match (value["text"].as_str(), value["taskId"].as_str()) {
                // The command is a turn of the session, whose records are shown anyway.
                (None, Some(task)) if self.task.as_ref().is_some_and(|own| own.as_str() == task) => {}
                (None, Some(task)) => self.show_command(task.into()),
                (text, _) => self.print_result(text.or(value.as_str()).unwrap_or_default()),
            },
            ServerCall::Blob { task, sha256, purpose, .. } => self.blob_received(task, sha256, purpose, &value, now),
            ServerCall::Create
            | ServerCall::Export { .. }
            | ServerCall::Get { .. }
            | ServerCall::Say { .. }
            | ServerCall::Answer { .. }
            | ServerCall::Abort { .. }
            | ServerCall::Drop { .. }
            | ServerCall::Tune { .. }
            | ServerCall::Shell { .. }
            | ServerCall::Unwatch { .. } => {}
        }
    }

    /// The server has named the session: watches it, and sends the prompt that waits for a session.
    fn join_session(&mut self, value: &Value, now: Now) {
        let id = value.as_str().or_else(|| value["taskId"].as_str()).map(TaskId::from);
        let Some(id) = id else {
            return;
        };
        // The facts of `about` depend on the session, and were read before it was this one.
        if self.setup.begin != SessionChoice::Current || self.task.as_ref().is_some_and(|before| *before != id) {
            self.call(ServerCall::About);
        }
        if let Some(before) = self.task.clone().filter(|before| *before != id) {
            self.call(ServerCall::Unwatch { task: before });
            self.show_task(id.clone());
        }
        self.watch(id, None);
        if let Some(prompt) = self.setup.prompt.take() {
            self.send_prompt(prompt, SendMode::Queue, now);
        }
    }

    /// The records of a task follow. An attached terminal prints only the newest rows of what happened before it came.
    fn watch_started(&mut self, task: TaskId, after: Option<Seq>, value: &Value) {
        let (given, last) = (value["after"].as_u64().map(Seq), value["seq"].as_u64().map(Seq));
        if after.is_some() && given < after {
            self.show_task(task);
            self.print_log_restarted();
        }
        self.history_end = last;
        if after.is_none() && last.is_some() && std::mem::take(&mut self.setup.attached) {
            self.transcript.print_queue.hold(SCREENS_BEFORE * self.size.rows);
        }
        self.release_history();
    }

    fn print_log_restarted(&mut self) {
        let columns = self.columns();
        self.print(block::notice(Role::Muted, "·", "The log begins anew", columns));
    }

    /// Prints the answer of a slash command of the server.
    fn print_result(&mut self, text: &str) {
        let columns = self.columns();
        let mut markdown = Markdown::default();
        let mut lines = markdown.push(text, columns);
        lines.extend(markdown.finish(columns));
        self.print(lines);
    }

    fn failed(&mut self, call: ServerCall, reason: &str, message: String, now: Now) {
        match call {
            ServerCall::Answer { call, .. } if reason == "TOOL_CALL_NOT_PENDING" => {
                let who = self.answered_by(&call);
                self.toast(format!("{who} answered first: your key changed nothing"), now);
            }
            ServerCall::Say { text, .. } => {
                self.toast(message, now);
                if self.composer.draft.is_empty() {
                    self.composer.set_draft(&text);
                }
            }
            // The answer was invalid or could not be accepted: the question is asked again.
            ServerCall::Answer { call, .. } => {
                self.reopen_question(call);
                self.toast(message, now);
            }
            ServerCall::Drop { .. } => self.toast("The turn of this prompt has begun already", now),
            // After a reconnect, the server does not know the task: the server or its state directory is another one. Its session is
            // opened.
            ServerCall::Watch { after: Some(_), .. } if reason == "TASK_NOT_FOUND" && self.setup.task.is_none() => {
                self.print_log_restarted();
                self.call(ServerCall::Session(SessionChoice::Current));
            }
            // A server of another version may not know these calls; nothing depends on them.
            ServerCall::About | ServerCall::Clients | ServerCall::Files { .. } | ServerCall::Unwatch { .. } => {}
            ServerCall::Session(_)
            | ServerCall::Watch { .. }
            | ServerCall::Abort { .. }
            | ServerCall::Tune { .. }
            | ServerCall::Shell { .. }
            | ServerCall::Execute { .. }
            | ServerCall::Briefs
            | ServerCall::Export { .. }
            | ServerCall::Delete { .. }
            | ServerCall::Create
            | ServerCall::Get { .. }
            | ServerCall::Blob { .. } => self.toast(message, now),
        }
    }

    /// Opens the question of a call again, unless it was answered meanwhile.
    fn reopen_question(&mut self, call: CallId) {
        let scene = &mut self.transcript.scene;
        if scene.calls.get(&call).is_some_and(|call| call.stage == Stage::Asked) {
            scene.asked.retain(|known| *known != call);
            scene.asked.insert(0, call);
        }
    }

    /// Collects a piece of a blob, and fetches the next one until the blob is complete.
    fn blob_received(&mut self, task: TaskId, sha256: String, purpose: BlobPurpose, value: &Value, now: Now) {
        let piece = STANDARD.decode(value["data"].as_str().unwrap_or_default()).unwrap_or_default();
        self.blob_bytes.extend_from_slice(&piece);
        let (have, of) = (self.blob_bytes.len() as u64, value["len"].as_u64().unwrap_or(0));
        if !piece.is_empty() && have < of && self.blob_bytes.len() < FETCH_BYTES {
            return self.call(ServerCall::Blob { task, sha256, from: have, purpose });
        }
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.blob_bytes)).into_owned();
        match purpose {
            BlobPurpose::Output(call) => {
                if let Some(call) = self.transcript.scene.calls.get(&call) {
                    let lines = block::full_output(call, &self.transcript.viewer, &text);
                    self.print(lines);
                }
            }
            BlobPurpose::Question(call) => {
                let lines = block::cut_diff(&text, WHOLE_ROWS, "the rest is in the log of the task");
                if let Some(open) = &mut self.dialog
                    && open.dialog.call() == Some(&call)
                    && let DialogKind::Approval(approval) = &mut open.dialog.kind
                {
                    (approval.seen, approval.printed) = (true, true);
                }
                self.toast = None;
                self.print(lines);
            }
            BlobPurpose::Edit(_) if have < of => self.toast("The file is too long to be changed here", now),
            BlobPurpose::Edit(call) => self.open_editor(Editing::Proposal(call), &text, "proposal"),
        }
    }
}
