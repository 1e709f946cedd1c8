//! Dialogs: questions to the user, and lists to choose from.

#[cfg(feature = "tui")]
mod approval;
#[cfg(feature = "tui")]
pub mod dialog;
#[cfg(feature = "tui")]
pub mod inquiry;
#[cfg(feature = "tui")]
pub(in crate::ui) mod questions;
