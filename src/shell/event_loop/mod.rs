//! The event loop and what its thread uses: listeners, sockets, signals, the clock, and the logs.

pub mod access_log;
mod effects;
pub mod figures;
mod flush;
mod inherited;
pub mod listen;
pub mod log;
pub mod notify;
pub mod server;
pub mod signals;
pub mod stop;
pub mod sys;
