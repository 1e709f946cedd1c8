//! Written next.

pub mod store;
