//! Written next.

pub mod journal;
pub mod lanes;
pub mod log;
pub mod peer;
pub mod signals;
pub mod sys;
