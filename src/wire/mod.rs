//! Bytes into HTTP requests and WebSocket messages, and answers into bytes. Knows nothing of tasks, sockets or time.

pub mod http1;
pub mod sse;
pub mod uri;
pub mod ws;
