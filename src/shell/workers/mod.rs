//! What runs beside the loop: lanes of threads, and the jobs that they do.

pub mod client;
pub mod hooks;
pub mod jobs;
pub mod lanes;
pub mod memory;
pub mod outline;
pub mod prompt_context;
mod restore;
mod scripted;
pub mod skills;
pub mod slash_commands;
