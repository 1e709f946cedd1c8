//! The severity levels of log messages.

use crate::base::text::words::words;

words! {
    /// How important a message of the log is, the most important first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Level {
        Error = "error",
        Warn = "warn",
        #[default]
        Info = "info",
        Debug = "debug",
    }
}
