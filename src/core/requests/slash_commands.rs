//! Slash commands: they are found in the registry and started as tasks. They are tasks like all others; only their answer depends on the
//! form of the request.

mod permissions;
mod restore;

use crate::a2a::{self, Form, PromptAnswer, commands};
use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::connections::connection::Link;
use crate::core::requests::Caller;
use crate::core::requests::admission::permit;
use crate::core::tasks::create_task::NewTaskOptions;
use crate::core::{Core, Site};
use crate::task::access::{Needed, Right, Rights};
use crate::task::call::{Execute, Mode, Say};
use crate::task::definitions::slash::{Answers, COMPRESS, HOOKS, Invocation, PERMISSIONS, STOP, Unrunnable};
use crate::task::fault::Fault;
use crate::task::machine::decide::Input;
use crate::task::machine::job::Said;
use crate::task::message::{Message, Part, Role};
use crate::task::restore::arguments::Name;
use std::sync::Arc;

impl Core {
    /// Carries out the call that runs a slash command.
    pub(in crate::core) fn execute(
        &mut self,
        caller: &Caller,
        execute: Execute,
        site: Result<Site, String>,
        now: Now,
    ) -> Result<(), Fault> {
        let form = &caller.form;
        if let Some(say) = execute.otherwise
            && matches!(self.commands(&site).invoke(&execute.typed), Err(Unrunnable::Unknown { .. }))
        {
            return self.send_message(caller, *say, NewTaskOptions::at(site), now);
        }
        let execute = Execute { otherwise: None, ..execute };
        match self.find_command(&execute, &site, caller) {
            Ok((mut command, answers)) => {
                if command.path.first().is_some_and(|name| name == COMPRESS) {
                    return self.compress(caller, execute, now);
                }
                let id: TaskId = self.settings.entropy.uuid().into();
                let (execute, form) = choose_answer(execute, answers, caller, &id);
                if execute.mode == Mode::Stream {
                    self.room_for_stream(caller)?;
                }
                let about = execute.about.clone();
                let say = self.command_prompt(execute, &command);
                let restored = self.prepare_command(&mut command, about.as_ref(), caller, now)?;
                let options =
                    NewTaskOptions { id: Some(id.clone()), command: Some(command), ..NewTaskOptions::at(site) };
                self.send_message(&Caller { form, ..caller.clone() }, say, options, now)?;
                if let Some(task) = restored {
                    self.begin_restore(&task, id);
                }
                Ok(())
            }
            Err(fault) if form.prompt_answer == PromptAnswer::CommandReceipt => {
                self.not_started(caller, &fault, execute.mode, now);
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }

    /// Gives `/compress` to its task as a prompt: the summary is a turn of the conversation that it is about.
    fn compress(&mut self, caller: &Caller, execute: Execute, now: Now) -> Result<(), Fault> {
        let Some(task) = execute.about.clone().or_else(|| self.live_session(caller).cloned()) else {
            return Err(Fault::params("There is no conversation yet that could be summarised."));
        };
        let (execute, form) = choose_answer(execute, Answers::Streaming, caller, &task);
        let message = Message::new(self.settings.entropy.uuid(), Role::User, vec![Part::text(format!("/{COMPRESS}"))]);
        let mut said = Said::new(Arc::new(message), Vec::new());
        said.delivery.compress = true;
        let say = Say::new(said, Some(task), execute.create, execute.mode);
        let site = Ok(self.settings.workspace.site.clone());
        self.send_message(&Caller { form, ..caller.clone() }, say, NewTaskOptions::at(site), now)
    }

    /// Does the part of a command that needs the core, before a worker runs the command. Returns the task that the command will restore.
    fn prepare_command(
        &mut self,
        command: &mut Invocation,
        about: Option<&TaskId>,
        caller: &Caller,
        now: Now,
    ) -> Result<Option<TaskId>, Fault> {
        match command.path.first().map(String::as_str) {
            Some(HOOKS) if command.path.get(1).is_some_and(|name| name == "allow") => self.refuse_network(caller)?,
            Some(STOP) => self.stop_turn(command, about, caller, now),
            Some(PERMISSIONS) => self.prepare_permissions(command, about, caller, now)?,
            Some(name) if let Some(name) = Name::from_word(name) => {
                return self.prepare_restore(command, name, about, caller);
            }
            _ => {}
        }
        Ok(None)
    }

    fn find_command(
        &self,
        execute: &Execute,
        site: &Result<Site, String>,
        caller: &Caller,
    ) -> Result<(Invocation, Answers), Fault> {
        let found = self.commands(site).invoke(&execute.typed);
        let (command, spec) = found.map_err(|why| commands::unrunnable(&why))?;
        permit(caller, Needed::All(Rights::NONE.and(spec.right)))?;
        if let (true, Err(why)) = (spec.needs_workspace, site) {
            return Err(Fault::params(why.clone()));
        }
        Ok((command, spec.answers))
    }

    /// Stops the turn of the task that `/stop` names, or of the live session. The command then gets the id of the task, or none if no
    /// turn was under way.
    fn stop_turn(&mut self, command: &mut Invocation, about: Option<&TaskId>, caller: &Caller, now: Now) {
        let named = command.args.drain(..).next().map(TaskId::from);
        let task = named.or_else(|| about.or(self.live_session(caller)).cloned());
        let Some(task) = task.filter(|task| self.sees(caller, task)) else {
            return;
        };
        let at = |core: &Core| core.tasks.get(&task).map(|loaded| loaded.state.seq);
        let before = at(self);
        let stopped = self.drive(&task, Input::Abort { by: caller.by.clone() }, now);
        if stopped.is_ok() && at(self) != before {
            command.args.push(task.to_string());
        }
    }

    /// Refuses callers over TCP.
    fn refuse_network(&self, caller: &Caller) -> Result<(), Fault> {
        match self.connections.get(caller.conn).map(|conn| conn.link) {
            Some(Link::Unix | Link::NamedUnix) => Ok(()),
            Some(Link::Tcp) | None => Err(Fault::params(
                "Hooks are programs that come with a project. They are allowed in the terminal, or over the server's Unix \
                 socket, and not over the network.",
            )),
        }
    }

    /// The prompt of the command's task: the command line.
    fn command_prompt(&mut self, execute: Execute, command: &Invocation) -> Say {
        let message = Message::new(self.settings.entropy.uuid(), Role::User, vec![Part::text(command.line())]);
        Say::new(Said::new(Arc::new(message), Vec::new()), None, execute.create, execute.mode)
    }

    /// Answers with a receipt that the command was not started, in the dialect that answers commands with receipts.
    fn not_started(&mut self, caller: &Caller, fault: &Fault, mode: Mode, now: Now) {
        let Caller { conn, form, .. } = caller;
        let receipt = commands::not_started(&fault.message);
        match mode {
            Mode::Stream => {
                self.stream_once(*conn, form, &a2a::prefix(form), &receipt.into(), now);
            }
            Mode::Wait | Mode::Now => self.answer(*conn, &a2a::result(form, receipt), now),
        }
    }
}

/// Chooses how a command is answered. A command that starts a model turn is answered with a stream where a client would wait for a result;
/// as at the reference server, its tools run without approval if the operator allows that and the client has the right. A native client,
/// which follows tasks anyway, is answered at once.
fn choose_answer(mut execute: Execute, answers: Answers, caller: &Caller, task: &TaskId) -> (Execute, Form) {
    let form = &caller.form;
    match (form.prompt_answer, answers) {
        (PromptAnswer::CommandResult, Answers::Streaming) => {
            execute.create.settings.auto_execute = Some(caller.principal.rights.has(Right::Approve));
            execute.mode = Mode::Stream;
            (execute, commands::stream(task))
        }
        (PromptAnswer::Accepted, answers) if execute.mode == Mode::Stream => {
            execute.mode = if answers == Answers::Streaming { Mode::Now } else { Mode::Wait };
            (execute, form.clone())
        }
        (PromptAnswer::StopReason, _) => {
            let session = execute.about.clone();
            (execute, Form { session, ..form.clone() })
        }
        (PromptAnswer::CommandResult, Answers::Once)
        | (
            PromptAnswer::Task
            | PromptAnswer::Accepted
            | PromptAnswer::CommandReceipt
            | PromptAnswer::Nothing
            | PromptAnswer::Options,
            _,
        ) => (execute, form.clone()),
    }
}
