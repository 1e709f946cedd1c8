//! Basic types that all layers use. Knows nothing of tasks, sockets or threads.

pub mod address;
pub mod buf;
pub mod cancel;
pub mod clock;
pub mod crc;
pub mod http;
pub mod id;
pub mod json;
pub mod level;
pub mod lock;
pub mod log_line;
pub mod percent;
pub mod secret;
pub mod slots;
#[cfg(test)]
#[path = "../../tests/support/random.rs"]
pub mod test_random;
pub mod text;
pub mod variables;

use std::sync::Arc;

/// Shared bytes: encoded once, used by every subscriber.
pub type Shared = Arc<[u8]>;
