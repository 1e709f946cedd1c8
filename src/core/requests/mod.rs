//! Requests of clients: from a request to a call, and what each call does.

pub(in crate::core) mod dispatch;
pub(in crate::core) mod needs;
mod overview;
mod permissions;
pub(in crate::core) mod send_message;
mod serve;
pub(in crate::core) mod slash_commands;
mod stored_content;

use crate::a2a::Form;
use crate::base::slots::Key;
use crate::task::message::Source;

/// Who makes a call, and how it is answered.
#[derive(Clone, Debug)]
pub struct Caller {
    pub conn: Key,
    pub form: Form,
    pub by: Source,
}
