//! Dialects: requests into [`crate::task::call::Call`]s, events and states into JSON. No dialect sees a socket, and none
//! changes anything.
