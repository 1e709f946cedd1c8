//! Messages and how they travel, without connections.

pub mod http;
pub mod lines;
pub mod message;
pub mod oauth;
pub mod url;
