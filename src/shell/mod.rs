//! Everything that touches the world: sockets, files, threads, processes, signals. It is small and boring on purpose; what
//! is decided is decided in the core. `server.rs` is the loop and the place to begin.

pub mod children;
pub mod event_loop;
pub mod journal;
pub mod peers;
pub mod start;
pub mod workers;
