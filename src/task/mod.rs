//! What a task is and does, without a dialect, a socket or a clock.
//!
//! A task is an append-only log of [`event::Event`]s; [`state::State`] is their fold. [`decide`] looks at the state and one
//! [`decide::Input`] and answers with events and effects; [`state::State::apply`] is the only place anything changes.

pub mod answer_words;
pub mod call;
pub mod command_line;
pub mod fault;
pub mod log;
pub mod machine;
pub mod message;
pub mod policy;
pub mod push;
pub mod schema;
pub mod slash;
pub mod spec;
