//! Requests of clients: from a request to a call, and what each call does.

pub(in crate::core) mod dispatch;
pub(in crate::core) mod send_message;
mod serve;
pub(in crate::core) mod slash_commands;
mod stored_content;
