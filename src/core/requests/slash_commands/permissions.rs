//! Permissions that users gave with "always": lists and revokes them. Those given in a task are in its log and apply to it; saved ones apply
//! to all tasks.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::requests::Caller;
use crate::core::requests::answer::explain;
use crate::core::{Core, Out};
use crate::task::call::Execute;
use crate::task::definitions::slash::{COMPRESS, Granted, Invocation, PERMISSIONS};
use crate::task::fault::Fault;
use crate::task::machine::decide::Input;
use crate::task::message::Source;
use crate::task::policy::Rule;

impl Core {
    /// Revokes rules, and answers with the remaining ones.
    pub(in crate::core::requests) fn permissions(
        &mut self,
        caller: &Caller,
        task: &TaskId,
        revoked: Vec<Rule>,
        now: Now,
    ) -> Result<(), Fault> {
        self.revoke(Some(task), revoked, &caller.by, now)?;
        let response = a2a::permissions(&caller.form, task, &self.granted(Some(task)));
        self.answer_after(caller, task, response);
        Ok(())
    }

    /// Prepares the command: its arguments are replaced by the task and its permissions, or, if it revokes some, by those that were revoked.
    pub(in crate::core::requests) fn prepare_permissions(
        &mut self,
        command: &mut Invocation,
        about: Option<&TaskId>,
        caller: &Caller,
        now: Now,
    ) -> Result<(), Fault> {
        let task = self.permissions_of(command, about, caller);
        let revokes = command.path.last().is_some_and(|name| name == "revoke");
        let mut granted = self.granted(task.as_ref());
        if revokes {
            let which = command.args.first().cloned().unwrap_or_default();
            let number = which.parse::<usize>().ok();
            let mut numbers = 1..;
            granted.retain(|_| which == "all" || numbers.next() == number);
            let rules = granted.iter().map(|granted| granted.rule.clone()).collect();
            self.revoke(task.as_ref(), rules, &caller.by, now)?;
        }
        command.args = vec![task.map(|task| task.to_string()).unwrap_or_default()];
        command.args.extend(granted.iter().map(|granted| serde_json::to_string(granted).expect("rules are JSON")));
        Ok(())
    }

    /// The task that a command is about, if it is about one: the one it names, or the live session.
    pub(in crate::core::requests) fn addressed(&self, execute: &Execute, caller: &Caller) -> Option<TaskId> {
        let (command, _) = self.settings.commands.invoke(&execute.typed).ok()?;
        if command.path.first()? == COMPRESS {
            return execute.about.clone().or_else(|| self.live_session(caller).cloned());
        }
        let permissions = (command.path.first()? == PERMISSIONS)
            .then(|| self.permissions_of(&command, execute.about.as_ref(), caller));
        permissions.flatten().or_else(|| self.task_to_restore(&command, execute.about.as_ref(), caller))
    }

    fn permissions_of(&self, command: &Invocation, about: Option<&TaskId>, caller: &Caller) -> Option<TaskId> {
        let at = usize::from(command.path.last().is_some_and(|name| name == "revoke"));
        let named = command.args.get(at).map(|task| task.as_str().into());
        named.or_else(|| about.or(self.live_session(caller)).cloned())
    }

    /// The permissions of a task, then the saved ones.
    fn granted(&self, task: Option<&TaskId>) -> Vec<Granted> {
        let own = task.and_then(|task| self.tasks.get(task)).map_or(&[][..], |loaded| &loaded.state.always);
        let saved = self.settings.approval.policy.saved().filter(|saved| !own.iter().any(|rule| rule.is_like(saved)));
        let own = own.iter().map(|rule| {
            let saved = self.settings.approval.policy.saved().any(|saved| saved.is_like(rule));
            Granted { rule: rule.clone(), saved }
        });
        own.chain(saved.map(|rule| Granted { rule: rule.clone(), saved: true })).collect()
    }

    fn revoke(&mut self, task: Option<&TaskId>, rules: Vec<Rule>, by: &Source, now: Now) -> Result<(), Fault> {
        for rule in &rules {
            for rule in self.settings.approval.policy.forget(rule) {
                self.out.push(Out::ForgetRule { rule });
            }
        }
        let Some(task) = task.filter(|_| !rules.is_empty()) else {
            return Ok(());
        };
        self.drive(task, Input::Revoke { rules, by: by.clone() }, now).map_err(|refusal| explain(task, refusal))
    }

    /// Adds a rule that is saved to the policy, so that it applies to all tasks at once.
    pub(in crate::core) fn add_saved_rule(&mut self, rule: &Rule) {
        let policy = &mut self.settings.approval.policy;
        if !policy.saved().any(|saved| saved.is_like(rule)) {
            // A rule that an answer made is valid.
            policy.add_saved(&vec![crate::task::policy::saved_rule(rule.clone())].into());
        }
    }
}
