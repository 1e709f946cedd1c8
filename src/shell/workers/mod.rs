//! What runs beside the loop: lanes of threads, and the jobs that they do.

pub mod client;
pub mod jobs;
pub mod lanes;
pub mod memory;
pub mod outline;
pub mod prompt_context;
mod scripted;
pub mod slash_commands;
