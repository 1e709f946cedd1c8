//! Whose process is at the other end of a connection.

pub mod descent;
pub mod own_address;
pub mod peer;
pub mod peer_check;
