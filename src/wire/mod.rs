//! Parses HTTP requests and WebSocket messages and writes responses, as bytes in memory. Knows nothing of tasks, sockets or time.

pub mod http1;
pub mod lines;
pub mod sse;
pub mod uri;
pub mod ws;
