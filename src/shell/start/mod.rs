//! From the command line to a running server, or to one of the other verbs.

pub mod program;
pub mod replay;
pub mod serve;
pub mod workspace_settings;
