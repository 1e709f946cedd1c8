//! WebSockets: connections that follow tasks and send requests. A socket follows tasks by subscriptions, which end with the socket; its
//! messages are dispatched like all other requests. Sockets that follow the same task read the same log.

use crate::a2a::acp::{self, FirstMessage};
use crate::a2a::{self, Binding, Decoded, Dialect, Ends, Form, Unaddressed};
use crate::base::clock::Now;
use crate::base::http::{Request, Response};
use crate::base::id::{Seq, Subject, TaskId, Tenant};
use crate::base::slots::Key;
use crate::core::Core;
use crate::core::connections::connection::Handshake;
use crate::core::disk::Parked;
use crate::core::operation::exchange::CloseReason;
use crate::core::readers::subscription::{First, FirstBody, Role, Until};
use crate::core::requests::admission::right_missing;
use crate::core::requests::{Caller, outside_roots};
use crate::core::tasks::create_task::NewTaskOptions;
use crate::core::timers::Timer;
use crate::limits::GREETING_MS;
use crate::task::access::{Partition, Principal, Right};
use crate::task::call::{Call, Create, Follow, Join, LogPosition, Settings, TaskTraits};
use crate::task::fault::{Fault, FaultKind};
use crate::task::message::Source;
use crate::wire::ws;
use std::collections::HashSet;

/// Where a socket begins to read a log.
#[derive(Clone, Copy)]
enum Start {
    Now,
    After(Seq),
    /// The client named a position that is not in this log.
    Elsewhere,
}

impl Start {
    fn at(position: Option<LogPosition>, task: &TaskId) -> Start {
        match position {
            None => Start::Now,
            Some(position) if position.task.as_ref().is_none_or(|named| named == task) => Start::After(position.seq),
            Some(_) => Start::Elsewhere,
        }
    }
}

impl Core {
    /// Checks the upgrade request, and keeps the fields of its response.
    pub(in crate::core) fn prepare_upgrade(
        &mut self,
        key: Key,
        request: &Request,
        form: &Form,
    ) -> Result<(), Response> {
        match ws::upgrade(request) {
            Ok(upgrade) => {
                let mut offered = request.headers.list("sec-websocket-protocol");
                let protocol = form.dialect.sub_protocol.filter(|name| offered.any(|offer| offer == *name));
                let is_editor = form.dialect.binding == Binding::Acp;
                let connection = is_editor.then(|| self.settings.entropy.uuid());
                if let Some(conn) = self.connections.get_mut(key) {
                    conn.handshake = Some(Handshake { accept: upgrade.accept, protocol, connection });
                }
                Ok(())
            }
            Err(refused) => {
                let body = serde_json::json!({ "error": refused.message }).to_string();
                let mut response = Response::json(refused.status, body.into_bytes());
                response.headers.extend(refused.headers);
                Err(response)
            }
        }
    }

    /// Makes the connection a socket, which follows what the client has asked for.
    pub(in crate::core) fn join(&mut self, caller: &Caller, join: Join, now: Now) -> Result<(), Fault> {
        let key = caller.conn;
        self.room_for_sub(None)?;
        let mut join = join;
        // A client that may not begin a session follows the next one that another client begins.
        let begins = caller.principal.rights.has(Right::Prompt) || self.live_session(caller).is_some();
        if join.follow == Follow::Session && !begins {
            join.follow = Follow::NextSession;
        }
        let task = match &join.follow {
            Follow::Session => Some(self.session(&caller.principal, now)?),
            Follow::Task(task) => Some(task.clone()),
            Follow::NextSession | Follow::All | Follow::Nothing => None,
        };
        if let Some(task) = &task {
            self.room_for_sub(Some(task))?;
        }
        self.connections.clients_changed = true;
        let Some(conn) = self.connections.get_mut(key) else {
            return Ok(());
        };
        let has_agreed = conn.handshake.as_ref().is_some_and(|handshake| handshake.protocol.is_some());
        conn.become_socket(caller.clone(), join.follow.clone(), task.clone(), &self.settings.limits, now);
        if !has_agreed {
            self.hold_greeting(key, now);
        }
        match join.follow {
            Follow::Session | Follow::Task(_) => {
                let task = task.expect("these follow a task");
                let from = Start::at(join.after, &task);
                self.follow(key, &task, from, Role::Follow, now);
            }
            Follow::All => {
                self.readers.followers.push(key);
                for task in self.tasks.open() {
                    if self.sees(caller, &task) {
                        self.follow(key, &task, Start::Now, Role::FollowAll, now);
                    }
                }
            }
            Follow::NextSession | Follow::Nothing => {}
        }
        self.read_on(key, now);
        Ok(())
    }

    /// Greets a client that has agreed on no sub-protocol after its first message, which may choose the dialect, or after a moment.
    fn hold_greeting(&mut self, key: Key, now: Now) {
        let socket = self.connections.get_mut(key).and_then(|conn| conn.socket_mut());
        if let Some(socket) = socket.filter(|socket| socket.caller.form.dialect == Dialect::SESSION) {
            (socket.greeting_pending, socket.is_undecided) = (true, true);
            self.timers.arm(now.mono_ms + GREETING_MS, Timer::Greeting(key));
        }
    }

    /// Sends a socket its first frames, which have waited for its first message.
    pub(in crate::core) fn greet(&mut self, key: Key) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        if let Some(socket) = conn.socket_mut().filter(|socket| socket.greeting_pending) {
            socket.greeting_pending = false;
            self.readers.pump_later(&conn.subs);
        }
    }

    /// The first message of a client that has agreed on no sub-protocol. If it is `initialize`, the client is an editor, which may have been
    /// greeted already. Returns whether the message is to be processed.
    pub(in crate::core) fn first_message(&mut self, key: Key, text: &str) -> bool {
        let socket = self.connections.get_mut(key).and_then(|conn| conn.socket_mut());
        let Some(socket) = socket.filter(|socket| socket.is_undecided) else {
            return true;
        };
        let is_short = text.len() <= self.settings.limits.inline_body_bytes;
        let first = if is_short { acp::first_message(text) } else { FirstMessage::Other };
        socket.is_undecided = first == FirstMessage::GreetingError;
        if first == FirstMessage::Initialize {
            socket.speak(Dialect::ACP_SESSION);
            (socket.follow, socket.task) = (Follow::Nothing, None);
            let subs = self.connections.get(key).map(|conn| conn.subs.clone()).unwrap_or_default();
            for sub in subs {
                self.unsubscribe(sub);
            }
        }
        self.greet(key);
        first != FirstMessage::GreetingError
    }

    /// Lets a socket follow a task. If it names no position and the task is open, it first gets a snapshot; also if it names a
    /// position that this log does not have.
    fn follow(&mut self, key: Key, task: &TaskId, from: Start, role: Role, now: Now) {
        if self.room_for_sub(Some(task)).is_err() {
            // A client that is not shown a task it follows has to know.
            return self.close_try_later(key, "too much is watched already: connect again later", now);
        }
        let (Some(conn), Some(loaded)) = (self.connections.get(key), self.tasks.get(task)) else {
            return;
        };
        let Some(socket) = conn.socket() else {
            return;
        };
        let state = &loaded.state;
        let until = Until { turn: 0, floor: Seq(0), ends: Ends::Never };
        let from = match from {
            Start::After(seq) if seq > state.seq => Start::Elsewhere,
            from => from,
        };
        let start = (socket.caller.form.dialect.binding == Binding::Native).then_some(Seq(0));
        let (cursor, gets_snapshot) = match from {
            Start::After(seq) => (seq, false),
            Start::Now => (start.unwrap_or(state.seq), start.is_none() && loaded.is_open()),
            Start::Elsewhere => (start.unwrap_or(state.seq), start.is_none()),
        };
        let first = gets_snapshot.then_some(First { seq: state.seq, body: FirstBody::Encoding, last: false });
        let mut sub = self.sub(&socket.caller, task, cursor, until);
        sub.role = role;
        sub.first = first;
        if let Some(key) = self.subscribe(sub).filter(|_| gets_snapshot) {
            self.encode_snapshot(key);
        }
    }

    /// Removes the subscription that a socket of the native dialect has to a task, because it asks for another one and a record does not
    /// say which subscription it belongs to. Returns the role of the new one.
    pub(in crate::core) fn replace_subscription(&mut self, key: Key, task: &TaskId) -> Role {
        let subs = self.connections.get(key).map(|conn| conn.subs.clone());
        for key in subs.unwrap_or_default() {
            let Some(sub) = self.readers.get(key).filter(|sub| sub.task == *task) else {
                continue;
            };
            match sub.role {
                Role::Call | Role::Leave => {}
                role @ (Role::Follow | Role::FollowAll | Role::Watch) => {
                    self.unsubscribe(key);
                    return role;
                }
            }
        }
        Role::Watch
    }

    /// A task is about to change: sockets that follow every task follow this one from here on.
    pub(in crate::core) fn follow_all(&mut self, task: &TaskId, now: Now) {
        let Some(loaded) = self.tasks.get(task).filter(|_| !self.readers.followers.is_empty()) else {
            return;
        };
        // The readers of the task are searched, not those of the sockets: a socket may follow thousands of tasks.
        let readers = self.readers.among(&loaded.subs).filter(|sub| sub.role == Role::FollowAll);
        let following: HashSet<Key> = readers.map(|sub| sub.conn).collect();
        let sees = |key: &Key| {
            let socket = self.connections.get(*key).and_then(|conn| conn.socket());
            socket.is_some_and(|socket| self.sees(&socket.caller, task))
        };
        let missing = self.readers.followers.iter().copied();
        let missing = missing.filter(|key| !following.contains(key) && sees(key));
        let missing: Vec<Key> = missing.collect();
        // These sockets were sent everything of a task that was idle.
        let from = match !loaded.is_open() && loaded.state.seq > Seq(1) {
            true => Start::After(loaded.state.seq),
            false => Start::Now,
        };
        for key in missing {
            self.follow(key, task, from, Role::FollowAll, now);
        }
    }

    /// Carries out a message of a socket that was decoded.
    pub(in crate::core) fn message_decoded(&mut self, key: Key, decoded: Decoded, now: Now) {
        let Some(socket) = self.connections.get(key).and_then(|conn| conn.socket()) else {
            return;
        };
        let (follow, followed) = (socket.follow.clone(), socket.task.clone());
        let (by, principal) = (socket.caller.by.clone(), socket.caller.principal.clone());
        let via = decoded.as_ref().ok().map(|(_, form)| socket.via(form)).unwrap_or_default();
        let (mut call, form) = match decoded {
            Ok(heard) => heard,
            Err((fault, form)) => return self.refuse(key, &form, &fault, now),
        };
        let by = Source { via, ..by };
        if let Err(fault) = self.spend_call(&principal, now) {
            return self.refuse(key, &form, &fault, now);
        }
        if form.dialect.binding == Binding::Acp {
            match self.interpret(key, call, &form, now) {
                Some(meant) => call = meant,
                None => return,
            }
        }
        self.log_request(key, &call, &by, now);
        if let Call::Say(say) = &mut call
            && say.task.is_none()
            && say.create.context.is_none()
            && form.dialect.unaddressed == Unaddressed::Session
        {
            // An answer goes to the task that asked, another message to the task that the socket follows.
            let asked = say.said.answers.first().map(|answer| &answer.call);
            let asker = asked.and_then(|call| self.tasks.with_question(call, followed.as_ref(), &principal));
            say.task = match (asker, follow) {
                (Some(task), _) => Some(task),
                (None, Follow::Task(_)) => followed.clone(),
                (None, Follow::Session | Follow::NextSession | Follow::All | Follow::Nothing) => {
                    match self.session(&principal, now) {
                        Ok(session) => Some(session),
                        Err(fault) => return self.refuse(key, &form, &fault, now),
                    }
                }
            };
        }
        if let Call::Abort { task: task @ None } = &mut call {
            *task = followed.or_else(|| self.tasks.live_session(&self.session_owner(&principal)).cloned());
        }
        self.dispatch(Parked::new(Caller { conn: key, form, by, principal }, call), now);
    }

    /// The subject whose live session a client uses: the operator, whose session all share, or its own. A client that does not see
    /// the task that the operator has made the session does not share it.
    pub(in crate::core) fn session_owner(&self, principal: &Principal) -> Subject {
        let shared = self.tasks.live_session(&Subject::default()).and_then(|task| self.tasks.known.get(task));
        let is_seen = shared.is_none_or(|brief| principal.sees(&brief.owner, brief.shared));
        if self.settings.shares_session && is_seen { Subject::default() } else { principal.subject.clone() }
    }

    /// The live session of a caller, if there is one.
    pub(in crate::core) fn live_session(&self, caller: &Caller) -> Option<&TaskId> {
        self.tasks.live_session(&self.session_owner(&caller.principal))
    }

    /// The live session; a new one is started if there is none or the last one is over. Sockets that follow the session follow the
    /// new one.
    pub(in crate::core) fn session(&mut self, principal: &Principal, now: Now) -> Result<TaskId, Fault> {
        let owner = self.session_owner(principal);
        if let Some(session) = self.tasks.live_session(&owner) {
            return Ok(session.clone());
        }
        if !principal.rights.has(Right::Prompt) {
            return Err(right_missing(Right::Prompt));
        }
        if !self.is_running() {
            let message = "The server is about to end and begins no session; try again when it is back.";
            return Err(Fault::new(FaultKind::Overloaded { retry_after_s: 10 }, message));
        }
        let site = self.settings.workspace.site.clone();
        if !principal.may_work_in(&site.path) {
            return Err(Fault::params(outside_roots(&site.path)));
        }
        let id = self.settings.entropy.uuid();
        let context = Some(id.as_str().into());
        let create = Create { context, settings: Settings::default(), traits: TaskTraits::SESSION };
        let shared = self.settings.shares_session && owner.is_operator();
        let options = NewTaskOptions { id: Some(id.into()), shared, ..NewTaskOptions::at(Ok(site)) };
        let partition = Partition { tenant: Tenant::default(), owner: owner.clone() };
        let (task, problem) = self.create_task(&create, options, partition, now)?;
        if let Some(problem) = problem {
            self.discard_task(&task, now);
            return Err(Fault::params(problem));
        }
        self.set_session(owner, &task, now);
        Ok(task)
    }

    /// Begins a new live session, or makes a task the live session. The task of the former session is not changed.
    pub(in crate::core) fn renew_session(
        &mut self,
        caller: &Caller,
        task: Option<TaskId>,
        now: Now,
    ) -> Result<(), Fault> {
        let owner = self.session_owner(&caller.principal);
        match task {
            Some(task) if self.tasks[&task].state.is_over() => {
                let message =
                    format!("Task {task} is over and cannot be continued; start a new one in the same context.");
                return Err(Fault::new(FaultKind::TaskIsOver(task), message));
            }
            Some(task) if !self.may_be_session(&caller.principal, &owner, &task) => {
                return Err(right_missing(Right::Admin));
            }
            Some(task) if self.tasks.live_session(&owner) != Some(&task) => self.set_session(owner, &task, now),
            Some(_) => {}
            None => {
                self.tasks.sessions.remove(&owner);
                self.session(&caller.principal, now)?;
            }
        }
        self.answer_session(caller, now)
    }

    /// Whether a client may make a task the session of this subject. The session that all clients share may only be replaced by a task that
    /// they see, unless the client is an admin.
    fn may_be_session(&self, principal: &Principal, owner: &Subject, task: &TaskId) -> bool {
        let is_shared = self.settings.shares_session && owner.is_operator();
        let is_seen = self.tasks.known.get(task).is_some_and(|brief| brief.shared);
        !is_shared || is_seen || principal.rights.has(Right::Admin)
    }

    /// Makes a task the live session of a subject. Sockets that follow that session follow the task from now on.
    pub(in crate::core) fn set_session(&mut self, owner: Subject, task: &TaskId, now: Now) {
        let sockets = self.connections.iter();
        let sockets = sockets.filter(|(_, conn)| {
            let socket = conn.socket();
            socket.is_some_and(|socket| {
                matches!(socket.follow, Follow::Session | Follow::NextSession)
                    && self.session_owner(&socket.caller.principal) == owner
                    && self.sees(&socket.caller, task)
            })
        });
        let sockets: Vec<Key> = sockets.map(|(key, _)| key).collect();
        self.tasks.sessions.insert(owner, task.clone());
        for key in sockets {
            self.move_socket(key, task, now);
        }
    }

    /// When the session task is replaced, its WebSocket subscribers move to the new task after they have received the rest of the
    /// old one.
    fn move_socket(&mut self, key: Key, task: &TaskId, now: Now) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        conn.set_followed_task(task);
        for key in conn.subs.clone() {
            if let Some(sub) = self.readers.get_mut(key)
                && sub.role == Role::Follow
            {
                sub.role = Role::Leave;
                self.readers.pump_later(&[key]);
            }
        }
        self.follow(key, task, Start::Now, Role::Follow, now);
    }

    /// Answers with the id of the live session.
    pub(in crate::core) fn answer_session(&mut self, caller: &Caller, now: Now) -> Result<(), Fault> {
        let task = self.session(&caller.principal, now)?;
        let response = a2a::session_id(&caller.form, &task);
        self.answer_after(caller, &task, response);
        Ok(())
    }

    /// Closes a socket whose client accepts nothing, with the position to continue from.
    pub(in crate::core) fn close_slow_socket(&mut self, key: Key, now: Now) {
        let Some(conn) = self.connections.get(key) else {
            return;
        };
        let mut follows = conn.subs.iter().filter_map(|sub| self.readers.get(*sub));
        let position = follows.find(|sub| sub.role == Role::Follow).map(|sub| (&sub.task, sub.cursor));
        let follow = conn.socket().map(|socket| &socket.follow);
        let reason = match (follow, position) {
            (Some(Follow::Session), Some((task, seq))) => {
                format!("too slow: connect again with ?after={task}:{seq}")
            }
            (Some(Follow::Task(_)), Some((_, seq))) => {
                format!("too slow: connect again with the same taskId and after={seq}")
            }
            (Some(_) | None, _) => "too slow: connect again".to_owned(),
        };
        self.close_try_later(key, &reason, now);
    }

    /// Closes a socket with a reason and code 1013 (try again later).
    pub(in crate::core) fn close_try_later(&mut self, key: Key, reason: &str, now: Now) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        let subs = std::mem::take(&mut conn.subs);
        conn.set_close_reason(CloseReason::Limit);
        conn.close_socket(1013, reason, now);
        self.readers.abort_turns_of(&subs);
        for sub in subs {
            self.unsubscribe(sub);
        }
        self.after_io(key);
    }
}

#[cfg(test)]
mod tests;
