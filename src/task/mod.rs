//! Tasks: their data, decisions and rules, independent of dialects, sockets and clocks.
//!
//! A task is an append-only log of [`Event`](log::event::Event)s. [`State`](machine::state::State) is their fold.
//! [`decide`](machine::decide) takes the state and one [`Input`](machine::decide::Input) and returns events and effects;
//! [`State::apply`](machine::state::State::apply) is the only place that changes a state.

pub mod access;
pub mod answer_words;
pub mod audit;
pub mod call;
pub mod command_line;
pub mod definitions;
pub mod fault;
pub mod form;
pub mod log;
pub mod machine;
pub mod media_type;
pub mod message;
pub mod origin;
pub mod policy;
pub mod push;
pub mod restore;
pub mod schema;
pub mod spec;
