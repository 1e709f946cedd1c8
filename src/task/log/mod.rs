//! The log of a task: its events, their lines in the journal, and the summary for lists.

pub mod answer;
pub mod blob;
pub mod brief;
mod disclosed;
pub mod event;
pub mod gemini;
pub mod long_text;
pub mod media;
pub mod ownership;
pub mod record;
pub mod restored;
pub mod server;
pub mod terms;
#[cfg(test)]
#[path = "../../../tests/support/created.rs"]
pub mod test_created;
mod v1;
