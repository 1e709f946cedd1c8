//! The real binary, tested from outside: crashes, stalled readers, concurrent clients, foreign peers, full disks.
//!
//! Every test starts its own server and fake model, and waits for conditions instead of fixed times. A test that needs root or a
//! missing program says so on standard error and passes.

mod support;

#[path = "e2e/access.rs"]
mod access;
#[path = "e2e/agent.rs"]
mod agent;
#[path = "e2e/approvals.rs"]
mod approvals;
#[cfg(feature = "tui")]
#[path = "e2e/attach.rs"]
mod attach;
#[path = "e2e/command_hooks.rs"]
mod command_hooks;
#[path = "e2e/command_line.rs"]
mod command_line;
#[path = "e2e/commands.rs"]
mod commands;
#[path = "e2e/connections.rs"]
mod connections;
#[path = "e2e/crash.rs"]
mod crash;
#[path = "e2e/custom_commands.rs"]
mod custom_commands;
#[path = "e2e/disk.rs"]
mod disk;
#[path = "e2e/drive.rs"]
mod drive;
#[path = "e2e/extensions.rs"]
mod extensions;
#[path = "e2e/failures.rs"]
mod failures;
#[path = "e2e/http.rs"]
mod http;
#[path = "e2e/init.rs"]
mod init;
#[path = "e2e/log.rs"]
mod log;
#[path = "e2e/loop_files.rs"]
mod loop_files;
#[path = "e2e/media.rs"]
mod media;
#[path = "e2e/outputs.rs"]
mod outputs;
#[path = "e2e/peers.rs"]
mod peers;
#[path = "e2e/permissions.rs"]
mod permissions;
#[path = "e2e/restore.rs"]
mod restore;
#[path = "e2e/skills.rs"]
mod skills;
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
