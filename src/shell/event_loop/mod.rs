//! The loop's thread: sockets, signals, the clock, and lines on standard error.

pub mod listen;
pub mod log;
mod outside;
pub mod server;
pub mod signals;
pub mod stop;
pub mod sys;
