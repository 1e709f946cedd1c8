//! Slash commands: found in the registry and started as tasks. From there on they are tasks like any other; only the answer
//! differs, which the form determines.

use crate::a2a::{self, Form, PromptAnswer, commands};
use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::requests::Caller;
use crate::core::tasks::create_task::NewTaskOptions;
use crate::core::{Core, Site};
use crate::task::call::{Execute, Mode, Say};
use crate::task::fault::Fault;
use crate::task::machine::decide::Input;
use crate::task::machine::job::Said;
use crate::task::message::{Message, Part, Role};
use crate::task::slash::{Answers, Invocation, PERMISSIONS, STOP};
use std::sync::Arc;

impl Core {
    pub(in crate::core) fn execute(
        &mut self,
        caller: &Caller,
        execute: Execute,
        site: Result<Site, String>,
        now: Now,
    ) -> Result<(), Fault> {
        let form = &caller.form;
        match self.find(&execute, &site) {
            Ok((mut command, answers)) => {
                let id: TaskId = self.settings.entropy.uuid().into();
                let (execute, form) = watched(execute, answers, form, &id);
                let say = self.typed(execute, &command);
                match command.path.first().map(String::as_str) {
                    Some(STOP) => self.stop_turn(&mut command, caller, now),
                    Some(PERMISSIONS) => self.prepare_permissions(&mut command, &caller.by, now)?,
                    _ => {}
                }
                let options = NewTaskOptions { id: Some(id), command: Some(command), site };
                self.send_message(&Caller { form, ..caller.clone() }, say, options, now)
            }
            Err(fault) if form.prompt_answer == PromptAnswer::CommandReceipt => {
                self.not_started(caller, &fault, execute.mode, now);
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }

    fn find(&self, execute: &Execute, site: &Result<Site, String>) -> Result<(Invocation, Answers), Fault> {
        let found = self.settings.commands.invoke(&execute.typed);
        let (command, spec) = found.map_err(|why| commands::unrunnable(&why))?;
        if let (true, Err(why)) = (spec.needs_workspace, site) {
            return Err(Fault::params(why.clone()));
        }
        Ok((command, spec.answers))
    }

    /// Stops the turn of the task that `/stop` names, or of the live session. The command then gets the id of the task, or none if no
    /// turn was under way.
    fn stop_turn(&mut self, command: &mut Invocation, caller: &Caller, now: Now) {
        let named = command.args.drain(..).next().map(TaskId::from);
        let task = named.or_else(|| self.tasks.live_session().cloned());
        let Some(task) = task.filter(|task| self.sees(&caller.form, task)) else {
            return;
        };
        let at = |core: &Core| core.tasks.get(&task).map(|loaded| loaded.state.seq);
        let before = at(self);
        let stopped = self.drive(&task, Input::Abort { by: caller.by.clone() }, now);
        if stopped.is_ok() && at(self) != before {
            command.args.push(task.to_string());
        }
    }

    /// The prompt of its task: the command line.
    fn typed(&mut self, execute: Execute, command: &Invocation) -> Say {
        let message = Message::new(self.settings.entropy.uuid(), Role::User, vec![Part::text(command.line())]);
        Say::new(Said::new(Arc::new(message), Vec::new()), None, execute.create, execute.mode)
    }

    /// In the dialect that answers with receipts, a command that cannot run is a receipt too.
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

/// A command that starts a model turn is answered with a stream where a client would wait for a result. As at the reference server,
/// the model asks nothing, if the operator allows that.
fn watched(mut execute: Execute, answers: Answers, form: &Form, task: &TaskId) -> (Execute, Form) {
    match (form.prompt_answer, answers) {
        (PromptAnswer::CommandResult, Answers::Streaming) => {
            execute.create.settings.auto_execute = Some(true);
            execute.mode = Mode::Stream;
            (execute, commands::stream(task))
        }
        (PromptAnswer::CommandResult, Answers::Once)
        | (PromptAnswer::Task | PromptAnswer::Accepted | PromptAnswer::CommandReceipt, _) => (execute, form.clone()),
    }
}
