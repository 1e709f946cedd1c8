//! The task machine: state, decisions and the jobs that they start.

mod announces;
pub mod apply;
mod call_state;
pub mod decide;
mod edits;
pub mod fallback;
mod hooks;
pub mod item;
pub mod job;
pub mod loops;
mod past;
mod rewind;
pub mod state;
