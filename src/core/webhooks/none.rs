//! Webhooks in a build without the feature `webhooks`: none is registered and nothing is delivered. A journal of another build
//! may hold webhooks with deliveries that are due; they stay as they are.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::id::{ConfigId, Seq, TaskId};
use crate::core::Core;
use crate::core::requests::Caller;
use crate::task::call::Push;
use crate::task::fault::Fault;
use crate::task::machine::decide::Decision;
use crate::task::machine::state::State;
use crate::task::push::{Wish, not_supported};

/// No delivery is ever made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryError {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryState {}

impl DeliveryState {
    pub(super) fn is_in_flight(&self) -> bool {
        match *self {}
    }
}

#[derive(Default)]
pub(super) struct Registrations {}

/// A build with the feature delivers what is due, so no task waits for that here.
pub(super) fn has_due_deliveries(_: &State) -> bool {
    false
}

impl Core {
    pub(super) fn push(&mut self, _: &Caller, _: &TaskId, _: Push, _: Now) -> Result<(), Fault> {
        Err(not_supported())
    }

    pub(super) fn decide_webhook(&mut self, _: &TaskId, _: Wish, _: &a2a::Form, _: Now) -> Result<Decision, Fault> {
        Err(not_supported())
    }

    pub(super) fn deliver(&mut self, _: &TaskId, _: Now) {}

    pub(super) fn delivered(&mut self, _: &TaskId, _: &ConfigId, _: Seq, result: Result<(), DeliveryError>, _: Now) {
        let Ok(()) = result;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Dialect;
    use crate::core::disk::store::Openness;
    use crate::core::test_core::TestCore;
    use crate::task::call::Call;
    use crate::task::log::event::{Profile, Protocol};
    use crate::task::machine::decide::{HookInput, Input};
    use crate::task::push::Target;

    #[test]
    fn a_task_with_webhooks_of_another_build_loads_and_does_not_wait_for_them() {
        let mut test = TestCore::new();
        let task = test.begin(Dialect::REST_10, None);
        let target = Target {
            id: "a".into(),
            url: "https://client.example/".into(),
            token: None,
            schemes: Vec::new(),
            credentials: None,
            protocol: Protocol::V10,
            profile: Profile::Plain,
        };
        let now = test.now;
        test.core.drive(&task, Input::Hook(HookInput::Set(target)), now).expect("the log takes it");
        test.end_turn();
        test.restart();
        let answer = test.ask(Dialect::REST_10, Call::Get { task: task.clone(), history: None });
        assert_eq!(answer["id"], task.as_str());
        assert!(!test.state(&task).hooks[0].due.is_empty());
        assert_eq!(test.core.tasks[&task].openness(), Openness::Settled);
        let refused = test.ask(Dialect::REST_10, Call::Push { task, ask: Push::List });
        assert!(refused.to_string().contains("Push notifications are not supported"), "{refused}");
    }
}
