//! Parsing and checking of short texts: fixed words, sizes, durations, similar names, unsafe characters.

pub mod duration;
pub mod nearest;
pub mod size;
pub mod unsafe_char;
pub mod words;
