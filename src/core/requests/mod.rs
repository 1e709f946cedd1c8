//! What a client asks for, carried out.

pub(in crate::core) mod dispatch;
pub(in crate::core) mod send_message;
pub(in crate::core) mod slash_commands;
