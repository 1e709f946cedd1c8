//! Requests of every dialect into [`Call`](crate::task::call::Call)s: by path (`route`), by binding (`rpc`, `rest`, `socket`,
//! `gemini_endpoints`), by operation, down to messages, answers and settings.

pub mod answer;
pub mod filter;
pub mod gemini_endpoints;
pub mod message;
pub mod object;
pub mod operation;
pub mod probes;
pub mod prompt;
pub mod rest;
pub mod route;
pub mod rpc;
pub mod settings;
pub mod socket;
pub mod tickets;
pub mod version;
