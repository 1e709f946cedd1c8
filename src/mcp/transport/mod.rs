//! Messages and how they travel, without connections.

use crate::limits::mcp::{UNSENT_BYTES, UNSENT_EACH_BYTES};

pub mod http;
pub mod lines;
pub mod message;
pub mod oauth;
pub mod url;

/// What a message needs while it waits until the server takes it.
pub fn waiting_bytes(text: &str) -> usize {
    text.len() + UNSENT_EACH_BYTES
}

/// Whether so many bytes may wait. The error is a reason to end the connection.
pub fn may_wait(bytes: usize) -> Result<(), String> {
    match bytes <= UNSENT_BYTES {
        true => Ok(()),
        false => Err(format!("it does not take the messages sent to it: more than {UNSENT_BYTES} bytes wait")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_bytes_may_wait_for_a_server() {
        assert_eq!(may_wait(UNSENT_BYTES), Ok(()));
        assert!(may_wait(UNSENT_BYTES + 1).is_err_and(|why| why.contains("does not take")));
        assert_eq!(waiting_bytes("ab"), 2 + UNSENT_EACH_BYTES, "many small ones count too");
    }
}
