//! Data for interactive clients beside the events of tasks: facts about this server, the connected clients, the newest tasks, and the files
//! that a prompt may name. None of it is in a log.

use crate::a2a::native::{self, ClientLine};
use crate::base::Shared;
use crate::base::clock::Now;
use crate::base::id::{Subject, TaskId, Tenant};
use crate::core::access::Mode;
use crate::core::connections::ClientWatcher;
use crate::core::connections::connection::Line;
use crate::core::requests::Caller;
use crate::core::{Core, FilesRequest, Out, Site};
use crate::limits::{CLIENTS_LISTED, FILES_FOUND};
use crate::model::window;
use crate::task::access::{Principal, Right};
use crate::task::fault::{Fault, FaultKind};
use std::collections::HashMap;
use std::sync::Arc;

impl Core {
    pub(in crate::core) fn about(
        &mut self,
        caller: &Caller,
        site: &Result<Site, String>,
        now: Now,
    ) -> Result<(), Fault> {
        let settings = &self.settings;
        let model = (settings.choose)(None).unwrap_or_default();
        let session = self.live_session(caller);
        // The window is that of the model which answers in the session.
        let window = match session.and_then(|task| self.tasks.get(task)) {
            Some(task) => window::of(&task.state.model),
            None => window::of(&model),
        };
        let response = native::about(
            &caller.form,
            &native::About {
                session,
                url: settings.card.url(),
                commands: self.commands(site),
                workspace: &settings.workspace.site.path,
                is_trusted: settings.workspace.site.trusted,
                mode: settings.approval.mode,
                window,
                compress_tokens: settings.limits.compress_tokens,
                model,
                models: &settings.models,
                client: &caller.by,
                prompt_bytes: settings.limits.ws_message_bytes,
                queued_prompts: settings.limits.queued_prompts,
            },
        );
        self.answer_now(caller.conn, &response, now)
    }

    /// The newest tasks that the client may see, from the summaries, without reading journals.
    pub(in crate::core) fn briefs(&mut self, caller: &Caller, now: Now) -> Result<(), Fault> {
        self.disk.sharing.list_was_asked = true;
        let mut known: Vec<_> = self.tasks.known.iter().filter(|(_, brief)| caller.sees(brief)).collect();
        let total = known.len();
        known.sort_unstable_by_key(|(_, brief)| std::cmp::Reverse(brief.at));
        known.truncate(self.settings.limits.list_briefs);
        let response = native::briefs(&caller.form, &known, total, self.live_session(caller));
        self.answer_now(caller.conn, &response, now)
    }

    /// Answers with the clients that are connected. A socket is sent the list again whenever it changes.
    pub(in crate::core) fn clients(&mut self, caller: &Caller, now: Now) -> Result<(), Fault> {
        let watchers = &self.connections.client_watchers;
        let is_socket = self.connections.get(caller.conn).is_some_and(|conn| conn.socket().is_some());
        if is_socket && !watchers.iter().any(|watcher| watcher.conn == caller.conn) {
            self.connections.client_watchers.push(ClientWatcher { conn: caller.conn, is_due: false });
        }
        let response = native::clients(&caller.form, &self.client_lines(caller));
        self.answer_now(caller.conn, &response, now)
    }

    /// Sends the list of clients, if it has changed, to the sockets that asked for it. A socket whose output buffer is full gets it when there
    /// is room again.
    pub(in crate::core) fn announce_clients(&mut self, now: Now) {
        let changed = std::mem::take(&mut self.connections.clients_changed);
        let mut watchers = std::mem::take(&mut self.connections.client_watchers);
        watchers.retain(|watcher| self.connections.get(watcher.conn).is_some());
        // Most watchers see the same: they are of few subjects.
        let mut bodies: HashMap<(Tenant, Subject, bool), Shared> = HashMap::new();
        for ClientWatcher { conn: key, is_due } in &mut watchers {
            *is_due |= changed;
            let room = self.connections.get(*key).is_some_and(|conn| conn.output.len() < self.settings.limits.tx_bytes);
            if !*is_due || !room {
                continue;
            }
            *is_due = false;
            let Some(viewer) = self.connections.get(*key).and_then(|conn| conn.socket()).map(|socket| &socket.caller)
            else {
                continue;
            };
            let Principal { subject, rights, .. } = &*viewer.principal;
            let sees = (viewer.form.tenant.clone(), subject.clone(), rights.has(Right::Admin));
            let body = bodies.entry(sees);
            let body = body.or_insert_with(|| native::clients_frame(&self.client_lines(viewer)).into());
            if let Some(conn) = self.connections.get_mut(*key) {
                conn.event(&Line { name: None, seq: None, prefix: b"", body, suffix: b"" }, now);
            }
            self.after_io(*key);
        }
        self.connections.client_watchers = watchers;
    }

    /// The clients that the viewer may see: those of its subject, and those that follow a task that it sees. Admins see all, with their
    /// addresses.
    fn client_lines(&self, viewer: &Caller) -> Vec<ClientLine> {
        let is_admin = viewer.principal.rights.has(Right::Admin);
        let shows_address = is_admin && self.access.mode == Mode::Token;
        let lines = self.connections.iter().filter_map(|(_, conn)| {
            let client = conn.client.as_ref()?;
            let task = conn.socket().and_then(|socket| socket.task.clone()).filter(|task| self.sees(viewer, task));
            let subject = client.by.subject.clone().unwrap_or_default();
            let address = conn.client_address.filter(|_| shows_address);
            let line =
                ClientLine { by: client.by.clone(), since: client.since, task, is_live: conn.is_live(), address };
            (is_admin || subject == viewer.principal.subject || line.task.is_some()).then_some(line)
        });
        let mut lines: Vec<ClientLine> = lines.collect();
        lines.sort_by_key(|line| line.since);
        lines.truncate(CLIENTS_LISTED);
        lines
    }

    /// Has a worker look for files whose paths match the query.
    pub(in crate::core) fn files(
        &mut self,
        caller: &Caller,
        task: &TaskId,
        query: String,
        limit: Option<usize>,
    ) -> Result<(), Fault> {
        let workspace = self.tasks[task].state.workspace.clone();
        let limit = limit.unwrap_or(FILES_FOUND).min(FILES_FOUND);
        self.connections.begin_call(caller.conn);
        self.out.push(Out::Files(Arc::new(FilesRequest { caller: caller.clone(), workspace, query, limit })));
        Ok(())
    }

    /// The files were found, or the workspace cannot be read.
    pub(in crate::core) fn files_found(
        &mut self,
        request: &FilesRequest,
        found: Result<(Vec<String>, usize), String>,
        now: Now,
    ) {
        let Caller { conn, form, .. } = &request.caller;
        self.connections.end_call(*conn);
        match found {
            Ok((paths, total)) => self.answer(*conn, &native::files(form, &paths, total), now),
            Err(why) => self.refuse(*conn, form, &Fault::new(FaultKind::Storage, why), now),
        }
        self.read_on(*conn, now);
    }
}

#[cfg(test)]
mod tests {
    use crate::a2a::Dialect;
    use crate::core::test_core::TestCore;
    use crate::task::call::{Call, Execute, Mode, TaskTraits};
    use crate::task::definitions::slash::{Args, Typed};
    use crate::task::policy;
    use serde_json::{Value, json};

    fn ask(test: &mut TestCore, call: Call) -> Value {
        test.ask(Dialect::NATIVE, call)["ok"].take()
    }

    #[test]
    fn about_shows_the_workspace_the_model_and_the_session() {
        let mut test = TestCore::new();
        let about = ask(&mut test, Call::About);
        assert_eq!((&about["workspace"], &about["trusted"]), (&json!("/w"), &json!(true)));
        assert_eq!((&about["mode"], &about["model"]), (&json!("default"), &json!("some-model")));
        assert_eq!((&about["window"], &about["compressTokens"]), (&json!(1_048_576), &json!(524_288)));
        assert_eq!((&about["session"], &about["client"]), (&Value::Null, &json!("ann")));
        let session = ask(&mut test, Call::Session);
        assert_eq!(ask(&mut test, Call::About)["session"], session);
        test.core.settings.choose = Box::new(|wish| Ok(wish.unwrap_or("some-model").to_owned()));
        let task = session.as_str().or(session["taskId"].as_str()).expect("an id").into();
        ask(&mut test, Call::Tune { task, mode: None, model: Some("gemma-4".into()) });
        assert_eq!(ask(&mut test, Call::About)["window"], 256_000, "the window of the model that answers");
    }

    #[test]
    fn tasks_are_listed_by_their_first_prompt() {
        let mut test = TestCore::new();
        let task = test.begin(Dialect::RPC_03, None);
        test.end_turn();
        let briefs = ask(&mut test, Call::Briefs);
        assert_eq!(briefs["total"], 1);
        let brief = &briefs["tasks"][0];
        assert_eq!((&brief["task"], &brief["title"], &brief["turns"]), (&json!(task), &json!("go"), &json!(1)));
        // The same from the index, after the task has left memory.
        test.restart();
        assert_eq!(ask(&mut test, Call::Briefs)["tasks"][0]["title"], "go");
    }

    #[test]
    fn files_are_those_of_the_tasks_workspace() {
        let mut test = TestCore::new();
        let task = test.begin(Dialect::RPC_03, None);
        let files = Call::Files { task, query: "x".into(), limit: None };
        assert_eq!(ask(&mut test, files)["paths"], json!(["/w/x"]));
        let nobody = Call::Files { task: "nobody".into(), query: "x".into(), limit: None };
        assert_eq!(test.ask(Dialect::NATIVE, nobody)["error"]["reason"], "TASK_NOT_FOUND");
    }

    #[test]
    fn a_mode_that_the_operator_does_not_allow_is_refused_with_the_reason() {
        let mut test = TestCore::new();
        let task = test.begin(Dialect::RPC_03, None);
        let mut tune =
            |mode| test.ask(Dialect::NATIVE, Call::Tune { task: task.clone(), mode: Some(mode), model: None });
        assert_eq!(tune(policy::Mode::Plan)["ok"]["accepted"], true);
        let refused = tune(policy::Mode::Yolo);
        assert!(refused["error"]["message"].as_str().expect("a text").contains("--allow-auto-execute"), "{refused}");
    }

    #[test]
    fn a_slash_command_runs_as_a_task() {
        let mut test = TestCore::new();
        let create =
            crate::task::call::Create { context: None, settings: Default::default(), traits: TaskTraits::SESSION };
        let mut run = |line: &str, mode| {
            let typed = Typed { phrase: line.into(), args: Args::InPhrase };
            test.ask(
                Dialect::NATIVE,
                Call::Execute(Execute { typed, about: None, create: create.clone(), mode, otherwise: None }),
            )
        };
        assert_eq!(run("/memory show", Mode::Now)["ok"]["accepted"], true);
        assert_eq!(run("/nothing like it", Mode::Now)["error"]["message"], "Command not found: /nothing");
        let live = run("/init", Mode::Stream);
        assert!(live["ok"]["taskId"].is_string() && live["ok"]["text"].is_null(), "answered while it runs: {live}");
    }
}
