//! Formatting for the terminal: widths of characters, lines with roles, markdown, code, diffs, tables.

#[cfg(feature = "tui")]
pub(in crate::ui) mod address;
#[cfg(feature = "tui")]
pub mod code;
#[cfg(feature = "tui")]
pub mod columns;
#[cfg(feature = "tui")]
pub mod diff;
#[cfg(feature = "tui")]
pub mod inline;
#[cfg(feature = "tui")]
pub mod markdown;
#[cfg(feature = "tui")]
pub mod style;
#[cfg(feature = "tui")]
pub mod table;
#[cfg(feature = "tui")]
pub mod text;
#[cfg(feature = "tui")]
pub mod width;
#[cfg(feature = "tui")]
pub mod wrap;
