//! What a task is and does, without a dialect, a socket or a clock.
//!
//! A task is an append-only log of [`event::Event`]s; [`state::State`] is their fold. [`decide`] looks at the state and one
//! [`decide::Input`] and answers with events and effects; [`state::State::apply`] is the only place anything changes.

pub mod apply;
pub mod brief;
pub mod call;
pub mod command;
pub mod decide;
pub mod event;
pub mod fallback;
pub mod fault;
pub mod job;
pub mod loops;
pub mod message;
pub mod policy;
pub mod push;
pub mod record;
pub mod schema;
pub mod slash;
pub mod spec;
pub mod spoken;
pub mod state;
