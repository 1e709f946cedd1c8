//! A2A values, and how each protocol version writes them as JSON.

pub mod object;
pub mod value;
mod writer;
