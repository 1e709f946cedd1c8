//! Calls, performed: what each one does to tasks and how it is answered. Every answer that depends on a task waits until
//! the log is written up to what it shows.

use crate::a2a::{self, Begins, Ends, Form, Wanted};
use crate::base::Shared;
use crate::base::clock::Now;
use crate::base::http::Response;
use crate::base::id::{ContextId, Seq, TaskId, Tenant};
use crate::base::slots::Key;
use crate::core::cell::{Cell, Mark};
use crate::core::conn::Line;
use crate::core::sub::{First, Kind, Reply, Role, Sub, Until};
use crate::core::timers::Timer;
use crate::core::{Core, Out, Parked, Site};
use crate::task::brief::Brief;
use crate::task::call::{
    Birth, Call, Create, Disconnect, Durability, Follow, Join, Mode, NewTasks, Say, Settings,
};
use crate::task::decide::{Decision, Input, Refusal};
use crate::task::event::{Created, Event, Protocol};
use crate::task::fault::{Fault, FaultKind};
use crate::task::message::{self, Message, Part, Source};
use crate::task::policy;
use crate::task::record::Record;
use crate::task::slash::Invocation;
use crate::task::spoken;
use crate::task::state::{State, TaskState};
use std::collections::hash_map::Entry;
use std::sync::Arc;

impl Core {
    pub(super) fn perform(&mut self, conn: Key, mut call: Call, form: Form, by: Source, now: Now) {
        if self.ending && matches!(call, Call::Say(_) | Call::Create(_) | Call::Execute(_)) {
            let message =
                "The server is about to end and begins nothing new; try again when it is back.";
            let fault = Fault::new(FaultKind::Overloaded { retry_after_s: 10 }, message);
            return self.refuse(conn, &form, &fault, now);
        }
        if let Call::Say(say) = &mut call
            && say.task.is_none()
            && say.context.is_none()
            && self.manners.new_tasks == NewTasks::Session
            && form.tenant.is_default()
        {
            match self.session(now) {
                Ok(session) => say.task = Some(session),
                Err(fault) => return self.refuse(conn, &form, &fault, now),
            }
        }
        let task = match &call {
            Call::Say(say) => say.task.as_ref(),
            Call::Session
            | Call::Join(Join {
                follow: Follow::Session,
                ..
            }) => self.session.as_ref(),
            Call::Join(Join {
                follow: Follow::Task(task),
                ..
            }) => Some(task),
            Call::Get { task, .. }
            | Call::Cancel { task }
            | Call::Subscribe { task, .. }
            | Call::Metadata { task }
            | Call::Push { task, .. } => Some(task),
            Call::Create(_)
            | Call::Commands
            | Call::Execute(_)
            | Call::List(_)
            | Call::AllMetadata
            | Call::Health
            | Call::Card
            | Call::ExtendedCard
            | Call::Join(Join {
                follow: Follow::All | Follow::Nothing,
                ..
            }) => None,
        };
        if let Some(task) = task {
            if !self.sees(&form, task) {
                return self.refuse(conn, &form, &Fault::no_task(task), now);
            }
            if !self.tasks.contains_key(task) {
                return self.park(
                    task.clone(),
                    Parked {
                        conn,
                        call,
                        form,
                        by,
                    },
                );
            }
            if let Some(fault) = self.broken(task, &call) {
                return self.refuse(conn, &form, &fault, now);
            }
        }
        // A new task continues the latest one of its context, so that one has to be in memory too.
        if let Some(latest) =
            continues(&call).and_then(|context| self.latest(&form.tenant, context))
            && !self.tasks.contains_key(latest)
        {
            return self.park(
                latest.clone(),
                Parked {
                    conn,
                    call,
                    form,
                    by,
                },
            );
        }
        let task = task.cloned();
        let result = match call {
            Call::Say(say) => self.say(conn, say, Born::default(), &form, by, now),
            Call::Commands => {
                self.list_commands(conn, &form, now);
                Ok(())
            }
            Call::Execute(execute) => self.execute(conn, execute, &form, by, now),
            Call::Create(create) => self.create(conn, create, &form, now),
            Call::Get { task, history } => self.get(conn, &task, history, &form),
            Call::Cancel { task } => self.cancel(conn, &task, &form, now),
            Call::Subscribe { task, after } => self.watch(conn, &task, after, &form, now),
            Call::Metadata { task } => self.metadata(conn, &task, &form),
            Call::AllMetadata | Call::List(_) => {
                self.to_list.push(Parked {
                    conn,
                    call,
                    form: form.clone(),
                    by,
                });
                Ok(())
            }
            Call::Session => self.tell_session(conn, &form, now),
            Call::Join(join) => self.join(conn, join, &form, by, now),
            Call::Health => {
                let active = self.tasks.values().filter(|cell| cell.is_open()).count();
                let uptime = now.mono_ms - self.started.mono_ms;
                let hooks = self.hook_census();
                let health = a2a::health(uptime, active, self.known.len(), hooks);
                self.answer(conn, &health, now);
                Ok(())
            }
            Call::ExtendedCard => {
                let response = self.card.extended(&form);
                self.answer(conn, &response, now);
                Ok(())
            }
            Call::Push { task, ask } => self.push(conn, &task, ask, &form, now),
            Call::Card => unreachable!("the card is answered with its request in hand"),
        };
        if let Err(fault) = result {
            match task {
                // Why it is refused may be news itself: that the task is over, that somebody else has answered.
                Some(task) => {
                    self.reply_after(conn, &task, &form, Reply::Refusal(fault));
                }
                None => self.refuse(conn, &form, &fault, now),
            }
        }
    }

    /// A request whose task could not be loaded. A new task begins its context anew if it cannot be continued.
    pub(super) fn perform_without(&mut self, request: Parked, fault: &Fault, now: Now) {
        let Parked {
            conn,
            call,
            form,
            by,
        } = request;
        match continues(&call).cloned() {
            Some(context) => {
                self.contexts.remove(&(form.tenant.clone(), context));
                self.perform(conn, call, form, by, now);
            }
            None => self.refuse(conn, &form, fault, now),
        }
    }

    fn latest(&self, tenant: &Tenant, context: &ContextId) -> Option<&TaskId> {
        let place = (tenant.clone(), context.clone());
        self.contexts.get(&place)?.last()
    }

    /// Whether there is this task for one who asks so: in another partition there is none.
    fn sees(&self, form: &Form, task: &TaskId) -> bool {
        let known = self.known.get(task);
        known.is_some_and(|brief| brief.tenant == form.tenant)
    }

    /// Waits until the task is in memory.
    pub(super) fn park(&mut self, task: TaskId, request: Parked) {
        match self.parked.entry(task.clone()) {
            Entry::Occupied(mut waiting) => waiting.get_mut().push(request),
            Entry::Vacant(none) => {
                none.insert(vec![request]);
                self.out.push(Out::Load { task });
            }
        }
    }

    /// A task whose journal cannot be written takes nothing new. Its events up to there can be read; what it has come to
    /// since cannot be shown, and to wait for it would be to wait for the disk.
    fn broken(&self, task: &TaskId, call: &Call) -> Option<Fault> {
        let cell = self.tasks.get(task)?;
        let why = cell.broken.as_ref()?;
        let refused = match call {
            Call::Say(_) | Call::Cancel { .. } | Call::Push { .. } => true,
            Call::Get { .. } | Call::Metadata { .. } => cell.written < cell.state.seq,
            Call::Subscribe { .. }
            | Call::Create(_)
            | Call::Commands
            | Call::Execute(_)
            | Call::Session
            | Call::List(_)
            | Call::AllMetadata
            | Call::Health
            | Call::Card
            | Call::ExtendedCard
            | Call::Join(_) => false,
        };
        refused.then(|| {
            Fault::new(
                FaultKind::Storage,
                format!("The task's journal cannot be written: {why}"),
            )
        })
    }

    /// What somebody says; `like` is how a task is born of it, if one is.
    pub(super) fn say(
        &mut self,
        conn: Key,
        mut say: Say,
        like: Born,
        form: &Form,
        by: Source,
        now: Now,
    ) -> Result<(), Fault> {
        self.room_for_sub(say.task.as_ref())?;
        let (begins, ends) = a2a::prompt_stream(form);
        let born = say.task.is_none();
        let mut failure = None;
        let task = match say.task {
            Some(task) => {
                let state = &self.tasks[&task].state;
                let context = &state.created.context;
                if say.context.as_ref().is_some_and(|given| given != context) {
                    let message = "contextId does not belong to this task; leave it out or use the task's own";
                    return Err(Fault::params(message));
                }
                if a2a::view(form, Some(&state.created)).answers_in_words() {
                    say.said = spoken::heard(state, say.said);
                }
                task
            }
            None => {
                let script = self.script.as_ref().filter(|_| like.command.is_none());
                if let Some(text) = script.and_then(|script| script.bare_reply(&say.said.message)) {
                    return self.reply_with_message(conn, &text, say.context, &say.mode, form, now);
                }
                let (task, problem) = self.give_birth(
                    Newborn {
                        id: like.id,
                        command: like.command,
                        context: say.context,
                        tenant: &form.tenant,
                        settings: &say.settings,
                        birth: say.birth,
                    },
                    now,
                )?;
                failure = problem;
                task
            }
        };
        let prompt = Input::Say { said: say.said, by };
        let decided = self.bring_hook(&task, say.push, form, now);
        let decided = decided.and_then(|mut decision| {
            let said = self.decide(&task, prompt);
            let said = said.map_err(|refusal| explain(&task, refusal))?;
            decision.events.extend(said.events);
            decision.effects.extend(said.effects);
            Ok(decision)
        });
        let decision = match decided {
            Ok(decision) => decision,
            Err(fault) => {
                if born {
                    self.unmake(&task);
                }
                return Err(fault);
            }
        };
        let state = &self.tasks[&task].state;
        // Words alone do not help a task that waits for answers: they are queued, and told so at once.
        let stuck = state.paused && !decision.events.iter().any(is_answer);
        let until = Until {
            turn: turn_of(&decision, state),
            floor: state.seq.next(),
            ends: match say.mode {
                Mode::Stream => ends,
                Mode::Wait | Mode::Now => Ends::WithTurn,
            },
        };
        let mut sub = self.sub(conn, &task, form, state.seq, until);
        if self.manners.disconnect == Disconnect::Aborts && sub.view.is_coder() {
            sub.owns = Some(until.turn).filter(|_| say.mode == Mode::Stream);
        }
        // It watches before anything is recorded, so that what was said need not be read from the journal again.
        let reader = match say.mode {
            Mode::Stream => self.begin_stream(conn, sub, now),
            Mode::Wait if !stuck => {
                sub.kind = Kind::Once {
                    history: say.history,
                };
                let key = self.subscribe(sub);
                if let (Some(key), Some(wait)) = (key, self.manners.blocking_timeout_ms) {
                    self.timers.arm(now.mono_ms + wait, Timer::Waiting(key));
                }
                key
            }
            Mode::Wait | Mode::Now => None,
        };
        self.commit(&task, decision, now);
        self.hold(reader);
        if say.mode == Mode::Stream
            && let Some(sub) = reader.and_then(|key| self.subs.get_mut(key))
        {
            let state = &self.tasks[&task].state;
            let wanted = Wanted::newest(say.history);
            let whole = match begins {
                Begins::Snapshot => true,
                Begins::SnapshotIfBorn => born,
                Begins::NextEvent => false,
            };
            // A stream that would end with the questions there are has nothing to wait for.
            let last = stuck && until.ends(until.floor, Mark::Pause);
            let body = if whole {
                sub.cursor = state.seq;
                let wanted = match self.switches.emit_persisted_state {
                    true => wanted.with_persisted_state(),
                    false => wanted,
                };
                Some(a2a::opening(form, sub.view, state, wanted))
            } else if last {
                a2a::present(sub.view, state, &self.tools)
            } else {
                None
            };
            sub.first = (body.is_some() || last).then(|| First {
                seq: state.seq,
                body: body.map(Into::into),
                last,
            });
        }
        match failure {
            None => self.advance(&task, now),
            Some(text) => drop(self.drive(&task, Input::Fail(text), now)),
        }
        if say.mode == Mode::Now || (say.mode == Mode::Wait && stuck) {
            let state = &self.tasks[&task].state;
            let response = a2a::said(form, state, Wanted::newest(say.history));
            let reply = self.answer_after(conn, &task, form, response);
            self.hold(reply);
        }
        Ok(())
    }

    /// Holds an acknowledgement back until what it acknowledges is as safe as the operator wants it.
    fn hold(&mut self, reader: Option<Key>) {
        let sub = reader.and_then(|key| self.subs.get_mut(key));
        if let (Durability::Strict, Some(sub)) = (self.manners.durability, sub) {
            sub.safe = self.tasks[&sub.task].state.seq;
        }
    }

    /// A scripted agent may answer with a message instead of a task.
    fn reply_with_message(
        &mut self,
        conn: Key,
        text: &str,
        context: Option<ContextId>,
        mode: &Mode,
        form: &Form,
        now: Now,
    ) -> Result<(), Fault> {
        let context = context.unwrap_or_else(|| self.entropy.uuid().into());
        let message = Message {
            id: self.entropy.uuid().into(),
            role: message::Role::Agent,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: Vec::new(),
            references: Vec::new(),
        };
        let body = a2a::message(a2a::view(form, None), &message, &context);
        if *mode == Mode::Stream {
            self.stream_once(conn, form, &a2a::prefix(form), &body.into(), now);
        } else {
            self.answer(conn, &a2a::result(form, &body), now);
        }
        Ok(())
    }

    fn create(&mut self, conn: Key, create: Create, form: &Form, now: Now) -> Result<(), Fault> {
        let wish = create.settings.workspace.as_deref();
        (self.resolve)(wish).map_err(Fault::params)?;
        (self.choose)(create.settings.model.as_deref()).map_err(Fault::params)?;
        let newborn = Newborn {
            id: None,
            command: None,
            context: create.context,
            tenant: &form.tenant,
            settings: &create.settings,
            birth: create.birth,
        };
        let (task, _) = self.give_birth(newborn, now)?;
        let response = a2a::created(form, &self.tasks[&task].state);
        self.answer_after(conn, &task, form, response);
        Ok(())
    }

    /// Makes a task. A workspace or model that cannot be used makes a task that will say so and fail.
    pub(super) fn give_birth(
        &mut self,
        newborn: Newborn<'_>,
        now: Now,
    ) -> Result<(TaskId, Option<String>), Fault> {
        let Newborn {
            id,
            command,
            context,
            tenant,
            settings,
            birth,
        } = newborn;
        let context = context.unwrap_or_else(|| self.entropy.uuid().into());
        let mut inherited = Vec::new();
        let parent = self.latest(tenant, &context).and_then(|parent| {
            let cell = self.tasks.get(parent)?;
            inherited = [cell.inherited.clone(), cell.state.history.clone()].concat();
            Some((parent.clone(), cell.state.seq))
        });
        self.make_room();
        if self.tasks.len() >= self.limits.tasks {
            let message = "The server has as many tasks as it can hold; try again later.";
            return Err(Fault::new(
                FaultKind::Overloaded { retry_after_s: 10 },
                message,
            ));
        }
        let (site, problem) = match (self.resolve)(settings.workspace.as_deref()) {
            Ok(site) => (site, None),
            Err(problem) => {
                let path = settings.workspace.clone().unwrap_or_default();
                (
                    Site {
                        path,
                        trusted: false,
                    },
                    Some(problem),
                )
            }
        };
        let (model, refused) = match (self.choose)(settings.model.as_deref()) {
            Ok(model) => (model, None),
            Err(refused) => (settings.model.clone().unwrap_or_default(), Some(refused)),
        };
        let problem = problem.or(refused);
        let task = id.unwrap_or_else(|| self.entropy.uuid().into());
        let created = Arc::new(Created {
            task: task.clone(),
            context: context.clone(),
            tenant: tenant.clone(),
            parent,
            lifecycle: birth.lifecycle,
            protocol: birth.protocol,
            profile: birth.profile,
            workspace: site.path,
            trusted: site.trusted,
            model,
            mode: match (self.approval.mode, site.trusted) {
                (policy::Mode::AutoEdit | policy::Mode::Yolo, false) => policy::Mode::Default,
                (mode, _) => mode,
            },
            auto_execute: settings.auto_execute.unwrap_or(false),
            command,
        });
        let event = Event::Created(created.clone());
        let record = Record {
            seq: Seq(1),
            at: now.unix_ms,
            event,
        };
        let mut cell = Cell::new(State::born(created, &record), inherited);
        record.write(&mut cell.pending);
        self.known.insert(task.clone(), Brief::of(&cell.state));
        self.tasks.insert(task.clone(), cell);
        let place = (tenant.clone(), context);
        self.contexts.entry(place).or_default().push(task.clone());
        self.arm_expiry(now);
        self.list_append(&task);
        Ok((task, problem))
    }

    fn get(
        &mut self,
        conn: Key,
        task: &TaskId,
        history: Option<usize>,
        form: &Form,
    ) -> Result<(), Fault> {
        let state = &self.tasks[task].state;
        let response = a2a::task(form, state, Wanted::newest(history));
        self.answer_after(conn, task, form, response);
        Ok(())
    }

    fn cancel(&mut self, conn: Key, task: &TaskId, form: &Form, now: Now) -> Result<(), Fault> {
        let canceled = self.tasks[task].state.status.state == TaskState::Canceled;
        if canceled && form.envelope.protocol() == Protocol::V10 {
            return self.get(conn, task, None, form);
        }
        self.drive(task, Input::Cancel, now).map_err(|_| {
            let message = format!("Task not cancelable: {task}");
            Fault::new(FaultKind::TaskNotCancelable(task.clone()), message)
        })?;
        self.get(conn, task, None, form)
    }

    fn metadata(&mut self, conn: Key, task: &TaskId, form: &Form) -> Result<(), Fault> {
        let response = a2a::metadata(&self.tasks[task].state, &self.tools);
        self.answer_after(conn, task, form, response);
        Ok(())
    }

    /// Watching a task: from now on with a snapshot first, or exactly on from a position. A position this log never gave
    /// out is answered with a snapshot too: the client starts over, without a gap it does not know of.
    fn watch(
        &mut self,
        conn: Key,
        task: &TaskId,
        after: Option<Seq>,
        form: &Form,
        now: Now,
    ) -> Result<(), Fault> {
        self.room_for_sub(Some(task))?;
        let state = &self.tasks[task].state;
        let view = a2a::view(form, Some(&state.created));
        let (begins, ends) = a2a::watch_stream(form, view);
        let resting = match ends {
            Ends::WithTurn | Ends::WithTurnButAuth | Ends::WithTurnButQuestions => {
                state.is_idle() || state.is_over()
            }
            Ends::WhenShownOver => state.is_over() || (state.is_idle() && state.turn_is_over()),
            Ends::WithTask => state.is_over(),
            Ends::Never => false,
        };
        if resting && after.is_none() && form.envelope.protocol() == Protocol::V10 {
            let message =
                format!("Task {task} is over: there is nothing to wait for; read it with GetTask.");
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        let turn = state.queue.back().map_or(state.turn, |queued| queued.turn);
        let position = after.filter(|after| *after <= state.seq);
        let held = resting || state.paused || state.suspended;
        // The birth of a task is no event that is shown, and no stream ends with it.
        let unseen = position.is_some_and(|after| after.max(Seq(1)) < state.status.seq);
        let floor = if held && unseen {
            state.status.seq
        } else {
            state.seq.next()
        };
        let body = match (position, begins) {
            (Some(_), _) | (None, Begins::NextEvent) => None,
            (None, Begins::Snapshot | Begins::SnapshotIfBorn) => {
                Some(a2a::snapshot_frame(view, state, Wanted::ALL).into())
            }
        };
        let nothing_left = resting && !unseen;
        let first = (body.is_some() || nothing_left).then_some(First {
            seq: state.seq,
            body,
            last: resting,
        });
        let cursor = position.unwrap_or(state.seq);
        let until = Until { turn, floor, ends };
        let mut sub = self.sub(conn, task, form, cursor, until);
        sub.first = first;
        self.begin_stream(conn, sub, now);
        Ok(())
    }

    pub(super) fn sub(
        &self,
        conn: Key,
        task: &TaskId,
        form: &Form,
        cursor: Seq,
        until: Until,
    ) -> Sub {
        Sub {
            task: task.clone(),
            conn,
            view: a2a::view(
                form,
                self.tasks.get(task).map(|cell| cell.state.created.as_ref()),
            ),
            form: form.clone(),
            prefix: a2a::frame_prefix(form),
            cursor,
            until,
            kind: Kind::Stream,
            role: Role::Call,
            safe: Seq(0),
            owns: None,
            first: None,
            cold: None,
        }
    }

    fn begin_stream(&mut self, conn: Key, sub: Sub, now: Now) -> Option<Key> {
        if let Some(conn) = self.conns.get_mut(conn) {
            conn.stream(&sub.form.echo, now);
        }
        self.subscribe(sub)
    }

    pub(super) fn answer_after(
        &mut self,
        conn: Key,
        task: &TaskId,
        form: &Form,
        response: Response,
    ) -> Option<Key> {
        self.reply_after(conn, task, form, Reply::Answer(response))
    }

    /// Replies once everything the reply tells of is on disk.
    fn reply_after(&mut self, conn: Key, task: &TaskId, form: &Form, reply: Reply) -> Option<Key> {
        let seq = self.tasks[task].state.seq;
        let until = Until {
            turn: 0,
            floor: Seq(0),
            ends: Ends::WithTurn,
        };
        let mut sub = self.sub(conn, task, form, seq, until);
        sub.kind = Kind::Ready { seq, reply };
        self.subscribe(sub)
    }

    pub(super) fn room_for_sub(&self, task: Option<&TaskId>) -> Result<(), Fault> {
        let of_task = task
            .and_then(|task| self.tasks.get(task))
            .map_or(0, |cell| cell.subs.len());
        if self.subs.len() >= self.limits.subs || of_task >= self.limits.task_subs {
            let message = "Too many clients are watching already; try again later.";
            return Err(Fault::new(
                FaultKind::Overloaded { retry_after_s: 5 },
                message,
            ));
        }
        Ok(())
    }

    pub(super) fn refuse(&mut self, conn: Key, form: &Form, fault: &Fault, now: Now) {
        if !a2a::in_stream(form, fault) {
            return self.answer(conn, &a2a::fault(form, fault), now);
        }
        let body: Shared = a2a::fault_frame(form, fault).into();
        self.stream_once(conn, form, b"", &body, now);
    }

    /// A stream of one frame.
    pub(super) fn stream_once(
        &mut self,
        conn: Key,
        form: &Form,
        prefix: &[u8],
        body: &Shared,
        now: Now,
    ) {
        if let Some(conn) = self.conns.get_mut(conn) {
            conn.stream(&form.echo, now);
            let line = Line {
                name: None,
                seq: None,
                prefix,
                body,
                suffix: if prefix.is_empty() {
                    b""
                } else {
                    a2a::suffix(form)
                },
            };
            conn.event(&line, now);
            conn.end_stream(now);
        }
        self.after_io(conn);
    }
}

/// What is special about a task that is born of something said.
#[derive(Default)]
pub(super) struct Born {
    pub id: Option<TaskId>,
    pub command: Option<Invocation>,
}

/// A task to be made.
pub(super) struct Newborn<'a> {
    /// None: a new one.
    pub id: Option<TaskId>,
    /// The command it is for.
    pub command: Option<Invocation>,
    pub context: Option<ContextId>,
    pub tenant: &'a Tenant,
    pub settings: &'a Settings,
    pub birth: Birth,
}

/// The turn that a request waits for: its own prompt's, or the present one when it only answered.
fn turn_of(decision: &Decision, state: &State) -> u32 {
    let prompted = decision.events.iter().find_map(|event| match event {
        Event::Prompted { turn, .. } => Some(*turn),
        _ => None,
    });
    prompted.unwrap_or(state.turn)
}

/// The context that a new task is to be in.
fn continues(call: &Call) -> Option<&ContextId> {
    match call {
        Call::Say(say) if say.task.is_none() => say.context.as_ref(),
        Call::Create(create) => create.context.as_ref(),
        Call::Say(_)
        | Call::Commands
        | Call::Execute(_)
        | Call::Get { .. }
        | Call::Cancel { .. }
        | Call::Subscribe { .. }
        | Call::Metadata { .. }
        | Call::Session
        | Call::List(_)
        | Call::AllMetadata
        | Call::Push { .. }
        | Call::Health
        | Call::Card
        | Call::ExtendedCard
        | Call::Join(_) => None,
    }
}

fn is_answer(event: &Event) -> bool {
    matches!(event, Event::CallAnswered { .. })
}

pub(super) fn explain(task: &TaskId, refusal: Refusal) -> Fault {
    match refusal {
        Refusal::Over => {
            let message = format!(
                "Task {task} is over and cannot be continued; start a new one in the same context."
            );
            Fault::new(FaultKind::TaskIsOver(task.clone()), message)
        }
        Refusal::NotPending(call) => {
            let message = format!(
                "The call {call} is not waiting for an answer: somebody answered it already, or it does not exist."
            );
            Fault::new(FaultKind::NotPending(call), message)
        }
        Refusal::UnknownOption { call, offered } => {
            let message = format!("Unknown option; choose one of: {}.", offered.join(", "));
            Fault::new(FaultKind::UnknownOption(call), message)
        }
        Refusal::QueueFull => {
            let message =
                "Too many prompts are waiting in this task; try again when it has caught up.";
            Fault::new(FaultKind::Overloaded { retry_after_s: 5 }, message)
        }
        Refusal::HooksFull => {
            let message = "The task has as many webhooks as it may; delete one first.";
            Fault::params(message)
        }
    }
}
