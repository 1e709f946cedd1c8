//! Dialogs: questions to the user, and lists to choose from.

mod approval;
pub mod dialog;
pub mod inquiry;
pub(in crate::ui) mod questions;
