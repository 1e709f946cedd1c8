//! Locks a mutex even if a thread has panicked while it held the lock. The data behind such mutexes is valid after every single change, so
//! it can be used further.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
