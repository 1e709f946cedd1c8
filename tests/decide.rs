//! Decision tables of the task machine: given a log, an input leads to exactly these events and effects.
//!
//! A job's number is the position of the event that caused it, so the numbers in a case can be counted off its log. `logs.rs`
//! holds the logs that most cases begin with, with their positions. A number in parentheses above a test names the line of
//! `tests/checklist/list.rs` that the test covers.

#[path = "decide/approvals.rs"]
mod approvals;
#[path = "decide/calls.rs"]
mod calls;
#[path = "decide/command_hooks.rs"]
mod command_hooks;
#[path = "decide/edits.rs"]
mod edits;
#[path = "decide/endings.rs"]
mod endings;
#[path = "decide/inquiries.rs"]
mod inquiries;
#[path = "decide/logs.rs"]
mod logs;
#[path = "decide/mcp.rs"]
mod mcp;
#[path = "decide/model.rs"]
mod model;
#[path = "decide/prompts.rs"]
mod prompts;
#[path = "decide/restart.rs"]
mod restart;
#[path = "decide/rules.rs"]
mod rules;
#[path = "decide/slash_commands.rs"]
mod slash_commands;
#[path = "decide/status.rs"]
mod status;
mod task;
#[path = "decide/time_limits.rs"]
mod time_limits;
#[path = "decide/user_commands.rs"]
mod user_commands;
#[path = "decide/worker_notes.rs"]
mod worker_notes;
