//! Keys, tokens and passwords.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A value that `Debug` never prints. Serialising it writes the value itself: into journals, and to the client that set it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Secret {
        Secret(value.into())
    }

    /// The value itself, for the code that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The text with every occurrence of the secret replaced by `…`.
    pub fn hide_in(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "…") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
