//! The client side of A2A: chooses an interface of another agent's card ([`card`]), writes requests ([`request`]) and reads the answers
//! ([`reply`]). Only text is exchanged: one text is sent, and the text of artifacts and messages is read. Nothing here does I/O.

pub mod card;
pub mod reply;
pub mod request;
