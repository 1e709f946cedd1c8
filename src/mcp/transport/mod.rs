//! Messages and transports of MCP, without I/O.

use crate::limits::mcp::{UNSENT_BYTES, UNSENT_EACH_BYTES};

pub mod http;
pub mod lines;
pub mod message;
pub mod oauth;
pub mod url;

/// The bytes that a queued message counts for.
pub fn queued_bytes(text: &str) -> usize {
    text.len() + UNSENT_EACH_BYTES
}

/// Checks the size of the queue of unsent messages. The error is a reason to end the connection.
pub fn check_queue(bytes: usize) -> Result<(), String> {
    match bytes <= UNSENT_BYTES {
        true => Ok(()),
        false => Err(format!("it does not take the messages sent to it: more than {UNSENT_BYTES} bytes wait")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_of_unsent_messages_is_limited() {
        assert_eq!(check_queue(UNSENT_BYTES), Ok(()));
        assert!(check_queue(UNSENT_BYTES + 1).is_err_and(|why| why.contains("does not take")));
        assert_eq!(queued_bytes("ab"), 2 + UNSENT_EACH_BYTES, "many small ones count too");
    }
}
