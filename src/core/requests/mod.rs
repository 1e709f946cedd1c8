//! Requests of clients: decoding, admission, and what each call does.

pub(in crate::core) mod admission;
pub(in crate::core) mod answer;
mod client_provided;
pub(in crate::core) mod dispatch;
mod editors;
pub(in crate::core) mod needs;
pub(in crate::core) mod other_instances;
mod overview;
pub(in crate::core) mod send_message;
mod serve;
pub(in crate::core) mod slash_commands;
mod stored_content;
mod workspaces;

use crate::a2a::Form;
use crate::base::slots::Key;
use crate::task::access::{Partition, Principal};
use crate::task::log::brief::Brief;
use crate::task::message::Source;
use std::sync::Arc;

/// The error for a workspace that a credential may not use.
pub(in crate::core) fn outside_roots(path: &str) -> String {
    format!(
        "This credential may not use the workspace {path}. Name one below its roots, or ask the operator for another root."
    )
}

/// The sender of a call, and the connection and form of the answer.
#[derive(Clone, Debug)]
pub struct Caller {
    pub conn: Key,
    pub form: Form,
    pub by: Source,
    pub principal: Arc<Principal>,
}

impl Caller {
    /// The partition that its new tasks belong to.
    pub fn partition(&self) -> Partition {
        Partition { tenant: self.form.tenant.clone(), owner: self.principal.subject.clone() }
    }

    /// Whether it sees a task with this summary.
    pub fn sees(&self, brief: &Brief) -> bool {
        brief.tenant == self.form.tenant && self.principal.sees(&brief.owner, brief.shared)
    }
}
