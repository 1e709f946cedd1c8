//! Decisions about the webhooks of a task. Webhooks do not affect the agent, so they may be set and deleted at any time, also after the end
//! of the task.

use super::*;

impl Deciding<'_> {
    pub(in crate::task) fn hook(&mut self, input: HookInput) -> Result<(), Refusal> {
        match input {
            HookInput::Set(target) => {
                let hooks = &self.state.hooks;
                let known = hooks.iter().any(|hook| hook.target.id == target.id);
                if !known && hooks.len() >= self.rules.limits.webhooks {
                    return Err(Refusal::HooksFull);
                }
                self.push(Event::HookSet { target: Arc::new(target) });
            }
            HookInput::Drop(id) => {
                if self.hook_named(&id).is_some() {
                    self.push(Event::HookDropped { id });
                }
            }
            // A delivery may end after its webhook was deleted or replaced.
            HookInput::Moved { id, upto, health } => {
                if self.hook_named(&id).is_some_and(|hook| hook.sent < upto) {
                    self.push(Event::HookMoved { id, upto, health });
                }
            }
        }
        Ok(())
    }

    fn hook_named(&self, id: &ConfigId) -> Option<&Hook> {
        self.state.hooks.iter().find(|hook| hook.target.id == *id)
    }
}
