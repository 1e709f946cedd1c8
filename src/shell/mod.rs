//! Everything that uses the operating system: sockets, files, threads, processes, signals. It makes as few decisions as possible; the core
//! makes them. Begin with `event_loop/server.rs`, the event loop.

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
