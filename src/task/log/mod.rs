//! The log of a task: events, and the records that hold them.

pub mod brief;
pub mod event;
pub mod record;
