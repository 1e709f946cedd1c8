//! The beginning and the end of a task. A task exists if its entry and its first segment exist and its last event is not `deleted`; while
//! it exists none of its objects is deleted.

pub mod creation;
pub mod deletion;
pub mod markers;
pub mod scan;
