//! Locks of files (flock), by which servers and other programs that use the same file take turns.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;

/// A file that is locked until this is dropped.
pub struct Locked<F: AsFd>(pub F);

impl<F: AsFd> Locked<F> {
    /// If the operation does not wait and another process has locked the file, the error is `WouldBlock`.
    pub fn new(file: F, operation: FlockOperation) -> io::Result<Locked<F>> {
        loop {
            match flock(&file, operation) {
                Ok(()) => return Ok(Locked(file)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Closing the descriptor would not unlock the file at once: a child that is being started has a copy of the descriptor until it executes.
impl<F: AsFd> Drop for Locked<F> {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
