//! What is said to a model and what it says back, as values. The HTTP call itself is `shell/workers/client.rs`.
//!
//! [`history`] turns a conversation into what the API expects, [`memory`] is what people wrote down for every conversation,
//! [`gemini`] wraps it all into a request, [`stream`] reads the answer, [`error`] decides what a failure means, [`compact`] has a
//! conversation summarised that has grown too long, and [`script`] stands in for all of them where no model is wanted.

pub mod backend;
pub mod compact;
pub mod error;
pub mod gemini;
mod glob;
pub mod history;
pub mod memory;
pub mod script;
pub mod stream;
