//! Input: keys, the draft, the history and the completion.

pub mod bind;
pub mod complete;
pub mod composer;
pub mod edit;
pub mod history;
pub mod keys;
