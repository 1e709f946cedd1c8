//! Lets other threads wake the loop: workers wake it when they have sent a message, and any thread may stop it.

use mio::{Poll, Token, Waker};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Wakes the loop from its poll.
#[derive(Debug)]
pub struct Wake {
    waker: Waker,
    is_to_stop: AtomicBool,
}

impl Wake {
    pub fn new(poll: &Poll, token: Token) -> io::Result<Wake> {
        Ok(Wake { waker: Waker::new(poll.registry(), token)?, is_to_stop: AtomicBool::new(false) })
    }

    pub fn wake(&self) {
        // Waking fails only when the system has no memory left; then the loop wakes at its next deadline.
        let _ = self.waker.wake();
    }

    pub fn is_to_stop(&self) -> bool {
        self.is_to_stop.load(Ordering::Acquire)
    }
}

/// Stops a server from any thread, in an orderly way: turns have time to finish, and watching clients are told. The handle does not keep
/// the server alive.
#[derive(Clone, Debug)]
pub struct StopHandle(Weak<Wake>);

impl StopHandle {
    pub fn new(wake: &Arc<Wake>) -> StopHandle {
        StopHandle(Arc::downgrade(wake))
    }

    /// Returns at once. Nothing happens if the server has ended.
    pub fn stop(&self) {
        if let Some(wake) = self.0.upgrade() {
            wake.is_to_stop.store(true, Ordering::Release);
            wake.wake();
        }
    }
}
