//! The credentials file: reading it, noticing that it changed, and writing it for `gemini-a2a token`.

pub mod credentials;
#[cfg(feature = "identity")]
pub mod keys;
#[cfg(not(feature = "identity"))]
#[path = "keys/none.rs"]
pub mod keys;
#[cfg(test)]
mod tests;
pub mod verb;
