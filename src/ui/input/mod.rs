//! Input: keys, the draft, the history and the completion.

#[cfg(feature = "tui")]
pub mod bind;
#[cfg(feature = "tui")]
pub mod complete;
#[cfg(feature = "tui")]
pub mod composer;
#[cfg(feature = "tui")]
pub mod edit;
#[cfg(feature = "tui")]
pub mod history;
#[cfg(feature = "tui")]
pub mod keys;
