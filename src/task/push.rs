//! Webhooks: where the changes of a task are sent, and which were delivered. The log of the task records up to which position a webhook has
//! received its events.
//!
//! Pending deliveries are stored as short facts (a status, the id of an artifact). The body is built when it is sent, so an unreachable
//! receiver costs little memory, and a restarted server sends exactly the deliveries that were not made before.

use crate::base::id::{ConfigId, Seq};
use crate::base::secret::Secret;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::{Event, Profile, Protocol};
use crate::task::log::record::Record;
use crate::task::machine::state::{State, Status, TaskState};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// The text in place of a secret.
pub const HIDDEN: &str = "(hidden)";

/// A webhook as it is registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub id: ConfigId,
    pub url: String,
    /// Sent with every delivery, so that the receiver can authenticate the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// The first one is used; the others are only shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Secret>,
    /// The protocol version and the profile of deliveries: those of the request that registered the webhook.
    pub protocol: Protocol,
    pub profile: Profile,
}

impl Target {
    /// A copy for everybody who may see the task.
    pub fn without_secrets(&self) -> Target {
        let hide = |secret: &Option<Secret>| secret.as_ref().map(|_| Secret::new(HIDDEN));
        Target { token: hide(&self.token), credentials: hide(&self.credentials), ..self.clone() }
    }
}

/// A webhook in a client's request. Its id is optional; version and profile are those of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    pub id: Option<ConfigId>,
    pub url: String,
    pub token: Option<Secret>,
    pub schemes: Vec<String>,
    pub credentials: Option<Secret>,
}

impl Wish {
    /// The length of all its texts.
    pub fn bytes(&self) -> usize {
        let secrets = self.token.iter().chain(&self.credentials).map(|secret| secret.reveal().len());
        let texts = self.schemes.iter().map(String::len).chain(self.id.iter().map(|id| id.as_str().len()));
        self.url.len() + secrets.chain(texts).sum::<usize>()
    }

    pub fn target(self, id: ConfigId, protocol: Protocol, profile: Profile) -> Target {
        let Wish { url, token, schemes, credentials, .. } = self;
        Target { id, url, token, schemes, credentials, protocol, profile }
    }
}

/// A webhook and the state of its deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub target: Arc<Target>,
    /// Everything up to here was delivered or skipped.
    pub sent: Seq,
    /// The pending deliveries, in order.
    pub due: VecDeque<Due>,
    pub health: Health,
}

/// The content of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// A new status of the task, with the outcome of the turn if no prompt was queued then.
    Status { status: Status, outcome: Option<TaskState> },
    /// An artifact is complete.
    Artifact { seq: Seq, id: String },
    /// An answer of this turn is complete: the first one with text, the second, and so on.
    Answer { seq: Seq, turn: u32, number: usize },
}

impl Due {
    /// The event that caused it.
    pub fn seq(&self) -> Seq {
        match self {
            Due::Status { status, .. } => status.seq,
            Due::Artifact { seq, .. } | Due::Answer { seq, .. } => *seq,
        }
    }
}

/// The delivery for an event, if it has one: a status that has changed or that waits for the user, a complete artifact, or a complete
/// answer. `before` is the state before the event, and `state` has applied it.
pub fn delivery_for(state: &State, before: TaskState, record: &Record) -> Option<Due> {
    let seq = record.seq;
    match &record.event {
        Event::Produced { artifact, last: true, .. } => Some(Due::Artifact { seq, id: artifact.id.clone() }),
        Event::Answered { answer } if answer.has_text() => {
            Some(Due::Answer { seq, turn: state.turn.number, number: state.turn.answers_with_text })
        }
        event
            if state.status.seq == seq
                && (state.status.state != before || ends_or_waits(event))
                && !state.continues_with_queue() =>
        {
            let outcome = state.outcome().filter(|_| state.is_idle());
            Some(Due::Status { status: state.status.clone(), outcome })
        }
        _ => None,
    }
}

/// Whether the task waits for the user or has ended after this event.
fn ends_or_waits(event: &Event) -> bool {
    matches!(event, Event::Paused | Event::TurnEnded { .. } | Event::Interrupted { .. } | Event::Closed { .. })
}

impl Hook {
    /// A webhook that receives the events after `sent`.
    pub fn new(target: Arc<Target>, sent: Seq) -> Hook {
        Hook { target, sent, due: VecDeque::new(), health: Health::default() }
    }

    /// Replaces the target by one with the same id. If the new one has the same version and profile, it gets the pending deliveries. A
    /// suspended webhook starts again at `at`.
    pub fn replace(&mut self, target: Arc<Target>, at: Seq) {
        let has_same_form = self.target.protocol == target.protocol && self.target.profile == target.profile;
        if has_same_form && !self.health.suspended {
            self.target = target;
            self.health = Health::default();
        } else {
            *self = Hook::new(target, at);
        }
    }

    /// Queues a delivery if the webhook's version and profile have it. In version 0.3 a delivery is the whole task in its present state, so
    /// only the newest status is queued.
    pub fn queue(&mut self, due: &Due) {
        if self.health.suspended {
            return;
        }
        let wanted = match (self.target.protocol, due) {
            (Protocol::V03, Due::Status { .. }) => {
                self.due.clear();
                true
            }
            (Protocol::V03, Due::Artifact { .. } | Due::Answer { .. }) => false,
            (Protocol::V10, Due::Status { .. } | Due::Artifact { .. }) => true,
            // Only in this profile are answers artifacts, also in streams.
            (Protocol::V10, Due::Answer { .. }) => self.target.profile == Profile::Plain,
        };
        if wanted {
            self.due.push_back(due.clone());
        }
    }

    /// Records that everything up to this position was delivered or skipped.
    pub fn advance_to(&mut self, upto: Seq, health: &Health) {
        self.sent = upto;
        self.health = health.clone();
        if health.suspended {
            self.due.clear();
        } else {
            self.due.retain(|due| due.seq() > upto);
        }
    }
}

/// The number of webhooks and deliveries of several tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WebhookCounts {
    pub active: usize,
    pub suspended: usize,
    /// Pending deliveries.
    pub pending: usize,
    /// Deliveries that were skipped.
    pub failed: u64,
}

impl WebhookCounts {
    pub fn of<'h>(hooks: impl Iterator<Item = &'h Hook>) -> WebhookCounts {
        let mut census = WebhookCounts::default();
        for hook in hooks {
            if hook.health.suspended {
                census.suspended += 1;
            } else {
                census.active += 1;
            }
            census.pending += hook.due.len();
            census.failed += hook.health.failed;
        }
        census
    }
}

/// The error of all requests about webhooks if webhooks are turned off.
pub fn not_supported() -> Fault {
    Fault::new(
        FaultKind::PushNotSupported,
        "Push notifications are not supported: webhooks are turned off on this server. Watch the task with a stream instead.",
    )
}

/// The results of deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    pub delivered: u64,
    pub failed: u64,
    /// Failed deliveries in a row.
    pub streak: u32,
    /// Nothing is sent until the webhook is set again.
    pub suspended: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Health {
    /// After a successful delivery.
    pub fn after_success(&self) -> Health {
        Health { delivered: self.delivered + 1, streak: 0, error: None, ..self.clone() }
    }

    /// After a failed delivery; `most` of them in a row suspend the webhook.
    pub fn after_failure(&self, why: &str, most: u32) -> Health {
        let streak = self.streak + 1;
        Health {
            delivered: self.delivered,
            failed: self.failed + 1,
            streak,
            suspended: streak >= most,
            error: Some(why.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            id: "h".into(),
            url: "https://client.example/a2a".into(),
            token: Some(Secret::new("tok-secret")),
            schemes: vec!["Bearer".into()],
            credentials: Some(Secret::new("cred-secret")),
            protocol: Protocol::V10,
            profile: Profile::Plain,
        }
    }

    #[test]
    fn secrets_are_neither_shown_nor_printed() {
        let shown = target().without_secrets();
        assert_eq!(
            shown,
            Target { token: Some(Secret::new(HIDDEN)), credentials: Some(Secret::new(HIDDEN)), ..target() }
        );
        let printed = format!("{:?}", target());
        assert!(!printed.contains("secret"), "{printed}");
        let wish = Wish {
            id: None,
            url: "u".into(),
            token: target().token,
            schemes: Vec::new(),
            credentials: target().credentials,
        };
        assert!(!format!("{wish:?}").contains("secret"));
        let without = Target { token: None, credentials: None, ..target() };
        assert_eq!(without.without_secrets(), without);
    }

    #[test]
    fn failures_in_a_row_suspend_and_a_success_ends_the_row() {
        let health = Health::default().after_failure("no", 2).after_success();
        assert_eq!((health.failed, health.streak, health.suspended), (1, 0, false));
        let health = health.after_failure("a", 2).after_failure("b", 2);
        assert_eq!(health, Health { delivered: 1, failed: 3, streak: 2, suspended: true, error: Some("b".into()) });
    }
}
