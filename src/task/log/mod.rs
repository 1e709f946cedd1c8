//! The log of a task: its events, the lines they are in the journal, and what lists need of it.

pub mod answer;
pub mod blob;
pub mod brief;
pub mod event;
pub mod gemini;
pub mod long_text;
pub mod media;
pub mod record;
mod v1;
