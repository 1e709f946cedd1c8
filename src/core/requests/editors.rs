//! Clients of the Agent Client Protocol: the conversations that they open, the questions that they are asked, and their prompts. Updates
//! reach them by subscriptions, like all other clients.

use crate::a2a::{Binding, Ends, Form, Unaddressed, acp};
use crate::base::Shared;
use crate::base::clock::Now;
use crate::base::id::{CallId, Seq, TaskId};
use crate::base::json::bytes;
use crate::base::slots::Key;
use crate::core::connections::connection::{Client, Conn, Line};
use crate::core::readers::subscription::{First, FirstBody, Kind, Role, Subscription, Until};
use crate::core::requests::Caller;
use crate::core::requests::answer::explain;
use crate::core::tasks::create_task::NewTaskOptions;
use crate::core::{Core, Site};
use crate::mcp::config::client::ClientServers;
use crate::task::access::Right;
use crate::task::call::{Call, Create, Introduction, KnownSession, ListCursor, Mode, Open, Say, Settings, TaskTraits};
use crate::task::fault::{Fault, FaultKind};
use crate::task::machine::decide::Input;
use crate::task::machine::job::{Pick, Said};
use crate::task::message::{Message, Part, Role as Speaker, Source};
use crate::task::spec::Choice;
use serde_json::{Value, json};

impl Core {
    /// The call that a message of an editor means. None: it was answered, or nothing follows from it.
    pub(in crate::core) fn interpret(&mut self, key: Key, call: Call, form: &Form, now: Now) -> Option<Call> {
        match call {
            Call::Introduce(introduction) => {
                self.introduce(key, introduction, form);
                let takes_servers = self.is_local(key) || self.settings.client_mcp.allowed != ClientServers::Off;
                let servers = if takes_servers { acp::Servers::Accepted } else { acp::Servers::Refused };
                self.answer(key, &acp::initialized(form, servers), now);
                None
            }
            _ if !self.connections.get(key)?.socket()?.is_introduced() => {
                let fault = Fault::new(FaultKind::InvalidRequest, "Send initialize first.");
                self.refuse(key, form, &fault, now);
                None
            }
            Call::Recall { id } => {
                self.recall(key, &id, now);
                None
            }
            Call::Reply { id, result } => {
                let requests = self.connections.get_mut(key)?.socket_mut()?.requests.as_mut()?;
                let (task, pick) = requests.answered(form, &id, result.as_ref())?;
                let create = Create { context: None, settings: Settings::default(), traits: TaskTraits::SESSION };
                Some(Call::Say(Say::new(answer(pick), Some(task), create, Mode::Now)))
            }
            call => {
                let task = match &call {
                    Call::Say(Say { task, .. }) => task.as_ref(),
                    Call::Execute(execute) => execute.about.as_ref(),
                    Call::Tune { task, .. } | Call::TakeBack { task } | Call::Leave { task } => Some(task),
                    _ => None,
                };
                if let Some(task) = task.filter(|task| self.stream_of(key, task).is_none()) {
                    let message =
                        format!("Session {task} is not open here; open it with session/load or session/resume.");
                    let fault = Fault::new(FaultKind::TaskNotFound(task.clone()), message);
                    self.refuse(key, form, &fault, now);
                    return None;
                }
                Some(call)
            }
        }
    }

    fn introduce(&mut self, key: Key, introduction: Introduction, form: &Form) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        let Some(socket) = conn.socket_mut() else {
            return;
        };
        socket.requests.get_or_insert_default();
        socket.caller.form.capabilities = form.capabilities;
        if let Some(name) = introduction.name {
            socket.caller.by.client = name.clone();
            if let Some(Client { by, .. }) = &mut conn.client {
                by.client = name;
            }
            self.connections.clients_changed = true;
        }
    }

    /// The stream over which a connection follows a task.
    pub(in crate::core) fn stream_of(&self, conn: Key, task: &TaskId) -> Option<Key> {
        let follows =
            |sub: &Subscription| matches!(sub.kind, Kind::Stream) && sub.role == Role::Watch && sub.task == *task;
        let subs = &self.connections.get(conn)?.subs;
        subs.iter().copied().find(|key| self.readers.get(*key).is_some_and(follows))
    }

    /// Opens a conversation. The answer is sent before its updates, or, if the client loads an earlier conversation, behind the updates that
    /// repeat it.
    pub(in crate::core) fn open_session(
        &mut self,
        caller: &Caller,
        open: Open,
        site: &Result<Site, String>,
        now: Now,
    ) -> Result<(), Fault> {
        self.room_for_sub(None)?;
        let replays = matches!(open, Open::Load { .. });
        let task = match open {
            Open::New(create) => {
                let directories = further_directories(&create.settings.directories, site)?;
                let task = self.new_session(caller, &create, site.clone(), now)?;
                self.include(caller, &task, directories, now)?;
                task
            }
            Open::Live => self.session(&caller.principal, now)?,
            Open::Load(known) | Open::Resume(known) => {
                let KnownSession { task, servers, directories } = known;
                let settings = Settings { servers, ..Settings::default() };
                let servers = self.named_servers(caller, Some(&task), &settings)?;
                // A client that joins the live session or may only look cannot change the directories.
                let may_prompt = caller.principal.rights.has(Right::Prompt);
                if may_prompt && caller.form.dialect.unaddressed != Unaddressed::Session {
                    let directories = further_directories(&directories, site)?;
                    self.include(caller, &task, directories, now)?;
                }
                if may_prompt {
                    self.pass_servers(&task, servers);
                }
                task
            }
        };
        self.room_for_sub(Some(&task))?;
        self.stop_following(caller.conn, &task);
        if let Some(conn) = self.connections.get_mut(caller.conn) {
            conn.set_followed_task(&task);
        }
        self.connections.clients_changed = true;
        if self.is_local(caller.conn) && !self.tasks.is_session(&task) {
            // Other clients of this process are shown what its editor works on.
            self.set_session(self.session_owner(&caller.principal), &task, now);
        }
        let state = &self.tasks[&task].state;
        let answer = acp::opened(&caller.form, state, &self.tools.shown, self.commands(site));
        let (seq, until) = (state.seq, Until { turn: 0, floor: Seq(0), ends: Ends::Never });
        let mut sub = self.sub(caller, &task, if replays { Seq(0) } else { seq }, until);
        sub.role = Role::Watch;
        if replays {
            self.subscribe(sub);
            self.answer_after(caller, &task, crate::base::http::Response::json(200, answer));
        } else {
            sub.first = Some(First { seq, body: FirstBody::Frame(answer.into()), last: false });
            self.subscribe(sub);
        }
        Ok(())
    }

    /// Sets the directories beside the workspace of a conversation.
    fn include(&mut self, caller: &Caller, task: &TaskId, directories: Vec<String>, now: Now) -> Result<(), Fault> {
        if *self.tasks[task].state.directories == directories {
            return Ok(());
        }
        let input = Input::Include { directories, by: caller.by.clone() };
        self.drive(task, input, now).map(drop).map_err(|refusal| explain(task, refusal))
    }

    /// A conversation that all clients may share, as the live session.
    fn new_session(
        &mut self,
        caller: &Caller,
        create: &Create,
        site: Result<Site, String>,
        now: Now,
    ) -> Result<TaskId, Fault> {
        let servers = self.named_servers(caller, None, &create.settings)?;
        let site = site.map_err(|why| Fault::field("cwd", &format!("cannot be used: {why}")))?;
        let id = self.settings.entropy.uuid();
        let create = Create { context: Some(id.as_str().into()), ..create.clone() };
        let options = NewTaskOptions { id: Some(id.into()), servers: servers.clone(), ..NewTaskOptions::at(Ok(site)) };
        let (task, problem) = self.create_task(&create, options, caller.partition(), now)?;
        match problem {
            None => {
                self.pass_servers(&task, servers);
                Ok(task)
            }
            Some(problem) => {
                self.discard_task(&task, now);
                Err(Fault::params(problem))
            }
        }
    }

    fn is_local(&self, conn: Key) -> bool {
        self.connections.get(conn).is_some_and(Conn::is_local)
    }

    /// Ends the stream over which a connection follows a task, and forgets the questions that its client was asked about the task.
    fn stop_following(&mut self, conn: Key, task: &TaskId) {
        if let Some(stream) = self.stream_of(conn, task) {
            self.unsubscribe(stream);
        }
        let socket = self.connections.get_mut(conn).and_then(|conn| conn.socket_mut());
        if let Some(requests) = socket.and_then(|socket| socket.requests.as_mut()) {
            requests.forget(task);
        }
    }

    pub(in crate::core) fn list_sessions(
        &mut self,
        caller: &Caller,
        workspace: Option<&str>,
        after: Option<&ListCursor>,
        now: Now,
    ) -> Result<(), Fault> {
        let known = self.tasks.known.iter().filter(|(_, brief)| caller.sees(brief));
        let response = acp::sessions(&caller.form, known, self.live_session(caller), workspace, after);
        self.answer_now(caller.conn, &response, now)
    }

    /// Takes back the prompts of a connection in a session. If it has none, stops the turn that is under way.
    pub(in crate::core) fn take_back(&mut self, caller: &Caller, session: &TaskId, now: Now) -> Result<(), Fault> {
        let subs = self.connections.get(caller.conn).map(|conn| conn.subs.clone()).unwrap_or_default();
        let own = self.readers.among(&subs).filter(|sub| matches!(sub.kind, Kind::Once { .. }));
        let own = own.filter(|sub| sub.form.session.as_ref().unwrap_or(&sub.task) == session);
        let mut stops: Vec<(TaskId, u32)> = own.map(|sub| (sub.task.clone(), sub.until.turn)).collect();
        if stops.is_empty() {
            stops.push((session.clone(), 0));
        }
        for (task, turn) in stops {
            self.stop_prompt(&task, turn, caller.by.clone(), now)?;
        }
        Ok(())
    }

    /// Takes back a request that waits: its prompt is dropped, or the turn of its prompt is stopped, and it is answered as cancelled. Ignores
    /// a request that is not known or was answered.
    fn recall(&mut self, key: Key, id: &Value, now: Now) {
        let is_meant = |form: &Form| form.id.as_ref() == bytes(id).as_slice();
        let subs = self.connections.get(key).map(|conn| conn.subs.clone()).unwrap_or_default();
        let waits = |sub: &Subscription| matches!(sub.kind, Kind::Once { .. }) && is_meant(&sub.form);
        let found = subs.into_iter().find(|sub| self.readers.get(*sub).is_some_and(waits));
        let fault = Fault::new(FaultKind::Recalled, "The client took this request back.");
        if let Some(sub) = found.and_then(|sub| self.unsubscribe(sub)) {
            self.refuse(key, &sub.form, &fault, now);
            if let Some(by) = self.connections.get(key).and_then(Conn::socket).map(|socket| socket.caller.by.clone()) {
                // If its turn is over meanwhile, there is nothing to stop.
                let _ = self.stop_prompt(&sub.task, sub.until.turn, by, now);
            }
        }
        for request in self.disk.recall(|caller| caller.conn == key && is_meant(&caller.form)) {
            self.connections.end_call(key);
            self.refuse(key, &request.caller.form, &fault, now);
        }
        self.after_io(key);
    }

    /// Drops a prompt that waits for its turn, or stops its turn, but not a later turn that has begun since. 0 is the turn that is under way.
    fn stop_prompt(&mut self, task: &TaskId, turn: u32, by: Source, now: Now) -> Result<(), Fault> {
        let Some(loaded) = self.tasks.get(task) else {
            return Ok(());
        };
        let waits = loaded.state.queue.iter().any(|queued| queued.turn == turn);
        let is_over = turn != 0 && !waits && turn != loaded.state.turn.number;
        if is_over {
            return Ok(());
        }
        let input = if waits { Input::Drop { turn, by } } else { Input::Abort { by } };
        let is_broken = loaded.broken.is_some();
        self.drive(task, input, now).map_err(|refusal| explain(task, refusal))?;
        if is_broken {
            self.retry_append(task);
        }
        Ok(())
    }

    /// Carries out the call that closes a session. The turn of a session that other clients share continues.
    pub(in crate::core) fn close_session(&mut self, caller: &Caller, task: &TaskId, now: Now) -> Result<(), Fault> {
        let is_shared = self.tasks.is_session(task) && !self.is_local(caller.conn);
        if !is_shared {
            self.take_back(caller, task, now)?;
        }
        self.stop_following(caller.conn, task);
        self.answer_after(caller, task, acp::empty_result(&caller.form));
        Ok(())
    }

    /// Ends the subscription of an editor to a task that it deletes, because a task with followers cannot be deleted.
    pub(in crate::core) fn before_delete(&mut self, caller: &Caller, task: &TaskId) {
        if caller.form.dialect.binding != Binding::Acp || !self.may_be_deleted(task) {
            return;
        }
        if self.tasks.is_session(task) {
            if !self.is_local(caller.conn) {
                return;
            }
            self.tasks.sessions.retain(|_, session| session != task);
        }
        self.stop_following(caller.conn, task);
    }

    /// Once a stream was sent everything: withdraws the questions that its client need not answer any more, and asks it the open ones.
    pub(in crate::core) fn ask_client(&mut self, key: Key, now: Now) {
        let Some(sub) = self.readers.get(key).filter(|sub| sub.form.dialect.binding == Binding::Acp) else {
            return;
        };
        let (Some(loaded), Some(conn)) = (self.tasks.get(&sub.task), self.connections.get_mut(sub.conn)) else {
            return;
        };
        if !loaded.is_shown() || sub.cursor != loaded.shown() || sub.first.is_some() {
            return;
        }
        let is_answer = |other: &Key| {
            let other = self.readers.get(*other);
            other.is_some_and(|other| other.task == sub.task && matches!(other.kind, Kind::Ready { .. }))
        };
        let answers: Vec<Key> = conn.subs.iter().copied().filter(is_answer).collect();
        let may_answer = conn.socket().is_some_and(|socket| socket.caller.principal.rights.has(Right::Approve));
        let Some(requests) = conn.socket_mut().and_then(|socket| socket.requests.as_mut()) else {
            return;
        };
        let mut messages = requests.withdraw(&loaded.state);
        // Answers that are ready are sent before questions. A client that may not answer is not asked.
        let asked = if answers.is_empty() && may_answer {
            requests.ask(&sub.form, &loaded.state)
        } else {
            acp::Requests::default()
        };
        messages.extend(asked.messages);
        for message in messages {
            let body: Shared = message.into();
            conn.event(&Line { name: None, seq: None, prefix: b"", body: &body, suffix: b"" }, now);
        }
        // In a shared session another client may be able to answer.
        let gives_up = sub.form.dialect.unaddressed != Unaddressed::Session && !asked.unaskable.is_empty();
        let by = conn.socket().map(|socket| socket.caller.by.clone()).filter(|_| gives_up);
        let task = sub.task.clone();
        self.readers.pump_later(&answers);
        if let Some(by) = by {
            self.give_up_asking(&task, &asked.unaskable, &by, now);
        }
    }

    /// Cancels calls whose questions cannot be shown to any client.
    fn give_up_asking(&mut self, task: &TaskId, calls: &[CallId], by: &Source, now: Now) {
        for call in calls {
            let (call, option) = (call.clone(), Choice::Cancel.word().to_owned());
            let said = answer(Pick { call, option, edited: None, answers: None, seen: None });
            // Another client may have answered it meanwhile.
            let _ = self.drive(task, Input::Say { said, by: by.clone() }, now);
        }
    }

    /// An answer to an editor was sent: its subscriptions that waited for that continue.
    pub(in crate::core) fn pump_editor(&mut self, conn: Key) {
        if let Some(conn) = self.connections.get(conn)
            && conn.socket().is_some_and(|socket| socket.requests.is_some())
        {
            self.readers.pump_later(&conn.subs);
        }
    }

    /// The updates of a task cannot be sent any more: fails the calls that are to be answered behind them.
    pub(in crate::core) fn fail_answers(&mut self, conn: Key, task: &TaskId, fault: &Fault, now: Now) {
        let subs = self.connections.get(conn).map(|conn| conn.subs.clone()).unwrap_or_default();
        for key in subs {
            if self.readers.get(key).is_some_and(|sub| sub.task == *task && !matches!(sub.kind, Kind::Stream)) {
                self.fail_subscription(key, fault, now);
            }
        }
    }

    /// Whether an answer would be sent before updates that its client has to get first.
    pub(in crate::core) fn overtakes(&self, answer: &Subscription, seq: Seq) -> bool {
        let stream = (answer.form.dialect.binding == Binding::Acp).then(|| self.stream_of(answer.conn, &answer.task));
        stream.flatten().and_then(|stream| self.readers.get(stream)).is_some_and(|stream| stream.cursor < seq)
    }
}

/// The real paths of the directories beside the workspace that a client wants to use.
fn further_directories(wanted: &[String], site: &Result<Site, String>) -> Result<Vec<String>, Fault> {
    let refused = match site {
        _ if wanted.is_empty() => return Ok(Vec::new()),
        Ok(Site { refused_directory: None, directories, .. }) => return Ok(directories.clone()),
        Ok(Site { refused_directory: Some(why), .. }) | Err(why) => why,
    };
    Err(Fault::field("additionalDirectories", &format!("cannot be used: {refused}.")))
}

/// The answer of a client to a question, as a message.
fn answer(pick: Pick) -> Said {
    let part = Part::data(json!({ "call": pick.call, "option": pick.option }));
    let message = Message::new(format!("answer-{}", pick.call), Speaker::User, vec![part]);
    Said::new(message.into(), vec![pick])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Dialect;
    use crate::core::test_core::TestCore;

    #[test]
    fn taking_back_a_prompt_whose_turn_is_over_does_not_stop_the_next_turn() {
        let mut test = TestCore::new();
        let task = test.begin(Dialect::RPC_03, None);
        test.end_turn();
        test.say(&task);
        assert!(test.state(&task).is_at_work());
        for (turn, is_at_work) in [(1, true), (2, false)] {
            test.core.stop_prompt(&task, turn, Source::clock(), test.now).expect("it is not refused");
            test.turns();
            assert_eq!(test.state(&task).is_at_work(), is_at_work, "turn {turn}");
        }
    }
}
