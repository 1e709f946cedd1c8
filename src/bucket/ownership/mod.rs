//! Which instance owns a task: claims, heartbeats, and requests that other instances send to the owner.

pub mod claim;
pub mod heartbeat;
pub mod inbox;
