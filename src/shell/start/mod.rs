//! From the command line to a running server, or to one of the other verbs.

mod assemble;
mod configure;
pub mod embed;
mod memory_limit;
pub mod program;
pub mod replay;
pub mod workspace_settings;
