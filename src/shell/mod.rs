//! Written next.

pub mod client;
