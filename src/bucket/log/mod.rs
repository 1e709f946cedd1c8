//! The log of a task: segments, each of which is an object whose name has the number of its first event.

pub mod append;
pub mod compact;
pub mod read;
pub mod view;

#[cfg(test)]
mod tests;
