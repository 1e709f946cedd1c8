//! What people see of a task. [`scene`] folds the records of a task; the terminal and the web console show the result.

pub mod scene;

#[cfg(feature = "tui")]
pub mod bind;
#[cfg(feature = "tui")]
pub mod code;
#[cfg(feature = "tui")]
pub mod complete;
#[cfg(feature = "tui")]
pub mod composer;
#[cfg(feature = "tui")]
pub mod edit;
#[cfg(feature = "tui")]
pub mod history;
#[cfg(feature = "tui")]
pub mod inline;
#[cfg(feature = "tui")]
pub mod keys;
#[cfg(feature = "tui")]
pub mod markdown;
#[cfg(feature = "tui")]
pub mod paint;
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
