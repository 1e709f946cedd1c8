//! Connects the protocol with the program's journal: segments are written from the journal lines of the event loop, and read segments are
//! folded into the state of a task.

pub mod commit;
pub mod replica;
