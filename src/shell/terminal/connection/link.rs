//! The interface of a connection to a server, in this process or over a socket. It carries frames of `gemini-a2a.v1`.

use std::os::fd::BorrowedFd;

/// What happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    Connected,
    Frame(String),
    /// The connection is lost; the next attempt is made at this time of the monotonic clock, in milliseconds.
    Lost {
        retry_at: u64,
    },
    /// The connection is closed for good, for this reason.
    Closed(String),
}

/// A connection. The loop of the terminal polls `fd`, and calls `advance` on an event, at `due`, and after `send`.
pub trait Link {
    /// The descriptor to poll; None while there is no connection.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Whether bytes wait for the descriptor to become writable.
    fn wants_write(&self) -> bool;

    /// When `advance` is to be called without an event.
    fn due(&self) -> Option<u64>;

    /// Queues a frame. It is written by `advance`.
    fn send(&mut self, frame: &str);

    /// Reads and writes what is possible without waiting, and returns the events.
    fn advance(&mut self, now_ms: u64) -> Vec<LinkEvent>;
}
