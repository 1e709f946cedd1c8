//! Tasks of the program in a bucket: the journal lines that the event loop appends become segments, and segments become the state of a task.

pub mod commit;
pub mod replica;
