//! Formatting for the terminal: widths of characters, lines with roles, markdown, code, diffs, tables.

pub(in crate::ui) mod address;
pub mod code;
pub mod columns;
pub mod diff;
pub mod inline;
pub mod markdown;
pub mod style;
pub mod table;
pub mod text;
pub mod width;
pub mod wrap;
