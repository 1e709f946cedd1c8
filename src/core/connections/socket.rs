//! WebSockets: connections that follow tasks and send requests. What a socket follows are subscriptions that end with the socket;
//! its messages are dispatched as every other request. Several sockets of one session read the same log.

use crate::a2a::{self, Binding, Decoded, Ends, Unaddressed};
use crate::base::clock::Now;
use crate::base::http::{Request, Response};
use crate::base::id::{Seq, TaskId, Tenant};
use crate::base::slots::Key;
use crate::core::Core;
use crate::core::disk::Parked;
use crate::core::readers::subscription::{First, FirstBody, Role, Until};
use crate::core::requests::Caller;
use crate::core::tasks::create_task::NewTaskOptions;
use crate::task::call::{Call, Create, Follow, Join, LogPosition, Settings, TaskTraits};
use crate::task::fault::{Fault, FaultKind};
use crate::task::message::Source;
use crate::wire::ws;
use std::collections::HashSet;

/// Where a socket begins to read.
#[derive(Clone, Copy)]
enum Start {
    Now,
    After(Seq),
    /// Behind a position that is not in this log.
    Elsewhere,
}

impl Start {
    fn place(place: Option<LogPosition>, task: &TaskId) -> Start {
        match place {
            None => Start::Now,
            Some(place) if place.task.as_ref().is_none_or(|named| named == task) => Start::After(place.seq),
            Some(_) => Start::Elsewhere,
        }
    }
}

impl Core {
    /// Checks the upgrade request, and keeps what its response needs.
    pub(in crate::core) fn shake_hands(&mut self, key: Key, request: &Request) -> Result<(), Response> {
        match ws::upgrade(request) {
            Ok(upgrade) => {
                if let Some(conn) = self.connections.get_mut(key) {
                    conn.accept = Some(upgrade.accept);
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

    /// The connection becomes a socket and follows what was asked for.
    pub(in crate::core) fn join(&mut self, caller: &Caller, join: Join, now: Now) -> Result<(), Fault> {
        let key = caller.conn;
        self.room_for_sub(None)?;
        let task = match &join.follow {
            Follow::Session => Some(self.session(now)?),
            Follow::Task(task) => Some(task.clone()),
            Follow::All | Follow::Nothing => None,
        };
        if let Some(task) = &task {
            self.room_for_sub(Some(task))?;
        }
        self.connections.clients_changed = true;
        let Some(conn) = self.connections.get_mut(key) else {
            return Ok(());
        };
        conn.become_socket(caller.clone(), join.follow.clone(), task.clone(), &self.settings.limits, now);
        match join.follow {
            Follow::Session | Follow::Task(_) => {
                let task = task.expect("these follow a task");
                let from = Start::place(join.after, &task);
                self.follow(key, &task, from, Role::Follow, now);
            }
            Follow::All => {
                self.readers.followers.push(key);
                for task in self.tasks.open() {
                    if self.sees(&caller.form, &task) {
                        self.follow(key, &task, Start::Now, Role::FollowAll, now);
                    }
                }
            }
            Follow::Nothing => {}
        }
        self.read_on(key, now);
        Ok(())
    }

    /// Lets a socket follow a task. If it names no position and the task is open, it first gets a snapshot; also if it names a
    /// position that this log does not have.
    fn follow(&mut self, key: Key, task: &TaskId, from: Start, role: Role, now: Now) {
        if self.room_for_sub(Some(task)).is_err() {
            // A client that is not shown a task it follows has to know.
            return self.turn_away(key, "too much is watched already: connect again later", now);
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
        let (cursor, told) = match from {
            Start::After(seq) => (seq, false),
            Start::Now => (start.unwrap_or(state.seq), start.is_none() && loaded.is_open()),
            Start::Elsewhere => (start.unwrap_or(state.seq), start.is_none()),
        };
        let first = told.then_some(First { seq: state.seq, body: FirstBody::Encoding, last: false });
        let mut sub = self.sub(&socket.caller, task, cursor, until);
        sub.role = role;
        sub.first = first;
        if let Some(key) = self.subscribe(sub).filter(|_| told) {
            self.encode_snapshot(key);
        }
    }

    /// A socket of the native dialect asks for the records of a task. The new subscription replaces the one it has of this task,
    /// because a record does not say which subscription it belongs to. Returns the role of the new one.
    pub(in crate::core) fn ask_anew(&mut self, key: Key, task: &TaskId) -> Role {
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

    /// A task changes: sockets that follow every task follow this one from here on.
    pub(in crate::core) fn follow_all(&mut self, task: &TaskId, now: Now) {
        let Some(loaded) = self.tasks.get(task).filter(|_| !self.readers.followers.is_empty()) else {
            return;
        };
        // Looked for among the readers of this task: a socket may follow thousands of others.
        let readers = self.readers.among(&loaded.subs).filter(|sub| sub.role == Role::FollowAll);
        let following: HashSet<Key> = readers.map(|sub| sub.conn).collect();
        let sees = |key: &Key| {
            let socket = self.connections.get(*key).and_then(|conn| conn.socket());
            socket.is_some_and(|socket| socket.caller.form.tenant == loaded.state.created.tenant)
        };
        let missing = self.readers.followers.iter().copied();
        let missing = missing.filter(|key| !following.contains(key) && sees(key));
        let missing: Vec<Key> = missing.collect();
        // Sockets that were there have seen all of a task that was idle.
        let from = match !loaded.is_open() && loaded.state.seq > Seq(1) {
            true => Start::After(loaded.state.seq),
            false => Start::Now,
        };
        for key in missing {
            self.follow(key, task, from, Role::FollowAll, now);
        }
    }

    /// A message came over a socket and was decoded.
    pub(in crate::core) fn hear(&mut self, key: Key, decoded: Decoded, now: Now) {
        let Some(socket) = self.connections.get(key).and_then(|conn| conn.socket()) else {
            return;
        };
        let (follow, followed) = (socket.follow.clone(), socket.task.clone());
        let client = socket.caller.by.client.clone();
        let via = decoded.as_ref().ok().map(|(_, form)| socket.via(form)).unwrap_or_default();
        let (mut call, form) = match decoded {
            Ok(heard) => heard,
            Err((fault, form)) => return self.refuse(key, &form, &fault, now),
        };
        let by = Source { client, via };
        self.log_request(key, &call, &by, now);
        if let Call::Say(say) = &mut call
            && say.task.is_none()
            && say.create.context.is_none()
            && form.dialect.unaddressed == Unaddressed::Session
        {
            // An answer goes to the task that asked, another message to the task that the socket follows.
            let asked = say.said.answers.first().map(|answer| &answer.call);
            let asker = asked.and_then(|call| self.tasks.with_question(call, followed.as_ref()));
            say.task = match (asker, follow) {
                (Some(task), _) => Some(task),
                (None, Follow::Task(_)) => followed.clone(),
                (None, Follow::Session | Follow::All | Follow::Nothing) => match self.session(now) {
                    Ok(session) => Some(session),
                    Err(fault) => return self.refuse(key, &form, &fault, now),
                },
            };
        }
        if let Call::Abort { task: task @ None } = &mut call {
            *task = followed.or_else(|| self.tasks.live_session().cloned());
        }
        self.dispatch(Parked::new(Caller { conn: key, form, by }, call), now);
    }

    /// The live session; a new one is started if there is none or the last one is over. Sockets that follow the session follow the
    /// new one.
    pub(in crate::core) fn session(&mut self, now: Now) -> Result<TaskId, Fault> {
        if let Some(session) = self.tasks.live_session() {
            return Ok(session.clone());
        }
        if !self.is_running() {
            let message = "The server is about to end and begins no session; try again when it is back.";
            return Err(Fault::new(FaultKind::Overloaded { retry_after_s: 10 }, message));
        }
        let id = self.settings.entropy.uuid();
        let context = Some(id.as_str().into());
        let create = Create { context, settings: Settings::default(), traits: TaskTraits::SESSION };
        let site = Ok(self.settings.workspace.site.clone());
        let options = NewTaskOptions { id: Some(id.into()), ..NewTaskOptions::at(site) };
        let (task, problem) = self.create_task(&create, options, &Tenant::default(), now)?;
        if let Some(problem) = problem {
            self.discard_task(&task, now);
            return Err(Fault::params(problem));
        }
        self.set_session(&task, now);
        Ok(task)
    }

    /// Begins a new live session, or makes a task the live session. The task of the last one stays as it is.
    pub(in crate::core) fn renew_session(
        &mut self,
        caller: &Caller,
        task: Option<TaskId>,
        now: Now,
    ) -> Result<(), Fault> {
        match task {
            Some(task) if self.tasks[&task].state.is_over() => {
                let message =
                    format!("Task {task} is over and cannot be continued; start a new one in the same context.");
                return Err(Fault::new(FaultKind::TaskIsOver(task), message));
            }
            Some(task) if self.tasks.live_session() != Some(&task) => self.set_session(&task, now),
            Some(_) => {}
            None => {
                self.tasks.session = None;
                self.session(now)?;
            }
        }
        self.tell_session(caller, now)
    }

    /// Sockets that follow the session follow this task from now on.
    fn set_session(&mut self, task: &TaskId, now: Now) {
        self.tasks.session = Some(task.clone());
        let sockets = self.connections.iter();
        let sockets = sockets.filter(|(_, conn)| {
            let socket = conn.socket();
            socket.is_some_and(|socket| socket.follow == Follow::Session)
        });
        let sockets: Vec<Key> = sockets.map(|(key, _)| key).collect();
        for key in sockets {
            self.move_on(key, task, now);
        }
    }

    /// When the session task is replaced, its WebSocket subscribers move to the new task after they have received the rest of the
    /// old one.
    fn move_on(&mut self, key: Key, task: &TaskId, now: Now) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        conn.moved_to(task);
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
    pub(in crate::core) fn tell_session(&mut self, caller: &Caller, now: Now) -> Result<(), Fault> {
        let task = self.session(now)?;
        let response = a2a::session_id(&caller.form, &task);
        self.answer_after(caller, &task, response);
        Ok(())
    }

    /// Closes a socket whose client accepts nothing, with the position to continue from.
    pub(in crate::core) fn hang_up(&mut self, key: Key, now: Now) {
        let Some(conn) = self.connections.get(key) else {
            return;
        };
        let mut follows = conn.subs.iter().filter_map(|sub| self.readers.get(*sub));
        let place = follows.find(|sub| sub.role == Role::Follow).map(|sub| (&sub.task, sub.cursor));
        let follow = conn.socket().map(|socket| &socket.follow);
        let reason = match (follow, place) {
            (Some(Follow::Session), Some((task, seq))) => {
                format!("too slow: connect again with ?after={task}:{seq}")
            }
            (Some(Follow::Task(_)), Some((_, seq))) => {
                format!("too slow: connect again with the same taskId and after={seq}")
            }
            (Some(_) | None, _) => "too slow: connect again".to_owned(),
        };
        self.turn_away(key, &reason, now);
    }

    /// Closes a socket with a reason; its client may connect again later.
    pub(in crate::core) fn turn_away(&mut self, key: Key, reason: &str, now: Now) {
        let Some(conn) = self.connections.get_mut(key) else {
            return;
        };
        let subs = std::mem::take(&mut conn.subs);
        conn.hang_up(1013, reason, now);
        self.readers.abort_owned(&subs);
        for sub in subs {
            self.unsubscribe(sub);
        }
        self.after_io(key);
    }
}

#[cfg(test)]
mod tests;
