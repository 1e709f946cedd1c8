//! Reads the command line and the configuration, and starts the server, a client or another verb.

pub mod access;
pub mod assemble;
mod audit;
pub mod choose;
pub mod configure;
pub mod doctor;
pub mod embed;
mod memory_limit;
pub mod program;
#[cfg(feature = "tui")]
pub mod reindex;
pub mod replay;
pub mod running;
pub mod sessions;
pub mod stdio;
pub mod workspace_settings;
