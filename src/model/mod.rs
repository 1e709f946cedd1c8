//! What is said to a model and what it says back, as values. The HTTP call itself is `shell/client.rs`.
//!
//! [`history`] turns a conversation into what the API expects, [`gemini`] wraps it into a request, [`stream`] reads the answer,
//! [`error`] decides what a failure means, and [`script`] stands in for all of them where no model is wanted.

pub mod compact;
pub mod error;
pub mod gemini;
mod glob;
pub mod history;
pub mod script;
pub mod stream;
