//! Finds out which user and which process is at the other end of a connection.

pub mod descent;
mod netlink;
mod own_address;
pub mod peer_check;
mod socket_owner;
