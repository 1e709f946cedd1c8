//! Tasks: those in memory, those that are only known, and how far each is on disk.

pub(in crate::core) mod create_task;
pub(in crate::core) mod disk_health;
pub(in crate::core) mod drive;
pub(in crate::core) mod expiry;
pub(in crate::core) mod list;
pub(in crate::core) mod loaded_task;
pub(in crate::core) mod memory;
pub(in crate::core) mod register;
pub mod store;
