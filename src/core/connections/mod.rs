//! Connections: what one of them has read and has to write, who may use it, and how many there may be.

pub(in crate::core) mod capacity;
pub mod connection;
pub mod guard;
pub mod identity;
pub(in crate::core) mod output;
pub(in crate::core) mod output_budget;
pub(in crate::core) mod socket;
