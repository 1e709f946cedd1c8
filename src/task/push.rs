//! Webhooks as values: where a task's changes are to be sent, and how far they were. A webhook is a cursor into the task's log
//! like any reader's, but a lasting one: where it stands is in the log itself.

use crate::base::id::{ConfigId, Seq};
use crate::task::event::{Profile, Protocol};
use serde::{Deserialize, Serialize};

/// Where to send what, as a client registered it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub id: ConfigId,
    pub url: String,
    /// Given back with every delivery, so that the receiver knows it is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The first one is used; the others are kept to be shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// What is sent looks as the request looked that registered it.
    pub protocol: Protocol,
    pub profile: Profile,
}

/// A webhook of a task as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub target: std::sync::Arc<Target>,
    /// Everything up to here was delivered, or given up.
    pub sent: Seq,
    pub health: Health,
}

/// How deliveries went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    pub delivered: u64,
    pub failed: u64,
    /// Events in a row that could not be delivered.
    pub streak: u32,
    /// Nothing is sent any more until it is set again.
    pub suspended: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
