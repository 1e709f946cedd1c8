//! Tools that find files and lines in them.

pub mod glob;
pub mod grep_search;
pub mod ignore;
pub mod walk;
pub mod wildcard;
