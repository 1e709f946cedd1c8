//! Everything that touches the world: sockets, files, threads, processes, signals. It is small and boring on purpose; what
//! is decided is decided in the core. `server.rs` is the loop and the place to begin.

pub mod children;
pub mod client;
pub mod commands;
pub mod descent;
pub mod identity;
pub mod jobs;
pub mod journal;
pub mod lanes;
pub mod listen;
pub mod log;
pub mod memory;
pub mod outline;
pub mod peer;
pub mod place;
pub mod procfs;
pub mod program;
pub mod replay;
pub mod saved;
pub mod scenery;
pub mod server;
pub mod signals;
pub mod start;
pub mod supervisors;
pub mod sys;
