//! Worker threads: lanes of threads, the jobs that they run, and what the jobs need.

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
