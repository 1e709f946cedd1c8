//! Texts: words of closed sets, sizes, spans, similar names, characters that deceive.

pub mod nearest;
pub mod size;
pub mod span;
pub mod unsafe_char;
pub mod words;
