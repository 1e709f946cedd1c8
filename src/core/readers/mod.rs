//! Readers of tasks: cursors into logs, and the pages of journals that they read.

pub(in crate::core) mod pages;
pub(in crate::core) mod pump;
pub(in crate::core) mod subscription;
