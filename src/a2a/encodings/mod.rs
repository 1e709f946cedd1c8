//! A2A values, and how each protocol version spells them in JSON.

pub mod proto;
pub mod v03;
pub mod value;
