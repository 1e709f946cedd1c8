//! Everything that touches the world: sockets, files, threads, processes, signals. It is small and boring on purpose; what
//! is decided is decided in the core. `server.rs` is the loop and the place to begin.

pub mod access;
#[cfg(feature = "agents")]
pub mod agents;
#[cfg(not(feature = "agents"))]
#[path = "agents/none.rs"]
pub mod agents;
#[cfg(feature = "bucket")]
pub mod bucket;
pub mod children;
#[cfg(feature = "tui")]
pub mod clients;
pub mod event_loop;
pub mod headless;
pub mod journal;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(not(feature = "mcp"))]
#[path = "mcp/none.rs"]
pub mod mcp;
pub mod peers;
pub mod start;
#[cfg(feature = "tui")]
pub mod terminal;
pub mod workers;
