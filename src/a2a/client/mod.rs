//! The client side of A2A: which interface of an agent's card is used ([`card`]), what is sent to it ([`request`]), and what it answers
//! ([`reply`]). Only words are exchanged: one text is sent, and the text of artifacts and messages is read. Nothing here connects.

pub mod card;
pub mod reply;
pub mod request;
