//! Model requests and answers as values. `shell/workers/client.rs` makes the HTTP requests.
//!
//! [`system`] writes the system instruction, [`history`] converts a conversation to the form of the API, [`memory`] combines memory files,
//! [`gemini`] builds the request, [`stream`] reads the answer, [`error`] classifies failures, [`window`] estimates the length of a request,
//! [`compact`] summarises long conversations, and [`script`] replaces the model by a scripted agent.

pub mod backend;
pub mod compact;
pub mod error;
pub mod gemini;
mod glob;
pub mod history;
pub mod memory;
pub mod script;
pub mod stream;
pub mod system;
pub mod window;
