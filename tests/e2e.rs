//! The real binary from outside: crashes, readers that stall, clients that race, strangers at the door, full disks.
//!
//! Every test has a server and a fake model of its own and waits for facts only. What needs root or a program that is not
//! there says so on standard error and passes.

mod support;

#[path = "e2e/access.rs"]
mod access;
#[path = "e2e/approvals.rs"]
mod approvals;
#[path = "e2e/command_line.rs"]
mod command_line;
#[path = "e2e/commands.rs"]
mod commands;
#[path = "e2e/connections.rs"]
mod connections;
#[path = "e2e/crash.rs"]
mod crash;
#[path = "e2e/disk.rs"]
mod disk;
#[path = "e2e/drive.rs"]
mod drive;
#[path = "e2e/http.rs"]
mod http;
#[path = "e2e/peers.rs"]
mod peers;
#[path = "e2e/streams.rs"]
mod streams;
#[path = "e2e/switches.rs"]
mod switches;
#[cfg(feature = "webhooks")]
#[path = "e2e/webhooks.rs"]
mod webhooks;
#[cfg(not(feature = "webhooks"))]
#[path = "e2e/without_webhooks.rs"]
mod without_webhooks;
