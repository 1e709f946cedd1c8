//! The task machine: state, decisions and the jobs that they start.

mod announces;
pub mod apply;
mod call_state;
pub mod decide;
mod edits;
pub mod fallback;
pub mod item;
pub mod job;
pub mod loops;
pub mod state;
