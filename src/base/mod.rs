//! Values everything else is made of. Knows nothing of tasks, sockets or threads.

pub mod address;
pub mod buf;
pub mod cancel;
pub mod clock;
pub mod crc;
pub mod http;
pub mod id;
pub mod json;
pub mod nearest;
pub mod slots;
pub mod span;

use std::sync::Arc;

/// Bytes that many may hold: encoded once, shared by every subscriber.
pub type Shared = Arc<[u8]>;
