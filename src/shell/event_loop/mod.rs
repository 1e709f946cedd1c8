//! The loop's thread: sockets, signals, the clock, and lines on standard error.

pub mod access_log;
pub mod figures;
mod flush;
mod inherited;
pub mod listen;
pub mod log;
pub mod notify;
mod outside;
pub mod server;
pub mod signals;
pub mod stop;
pub mod sys;
