//! Checks the MCP servers: each one that may start is started, as `gemini-a2a mcp test` does.

#[cfg(feature = "mcp")]
use super::failure;
use super::{Finding, fine, warning};
#[cfg(feature = "mcp")]
use crate::limits::mcp::TRIAL_MS;
#[cfg(feature = "mcp")]
use crate::mcp::state::State;
#[cfg(feature = "mcp")]
use crate::shell::start::assemble::with_mcp;
use crate::shell::start::embed::Plan;

const SUBJECT: &str = "MCP server";

/// `again` makes the plan a second time, because starting the servers consumes one.
#[cfg(feature = "mcp")]
pub fn check(plan: &Plan, again: impl Fn() -> Result<Plan, String>) -> Vec<Finding> {
    let mut states = Vec::new();
    let tried = again().and_then(|own| {
        with_mcp(own, |pool, workspace| {
            states = pool.try_all(workspace);
            Ok(())
        })
    });
    let position = |name: &str| {
        let entry = plan.settings.mcp.servers.iter().find(|entry| entry.name == name);
        entry.map_or_else(|| "its settings".to_owned(), |entry| format!("{}:{}", entry.file, entry.line))
    };
    match tried {
        Err(why) => vec![failure(SUBJECT, format!("none can be started: {why}"), "correct that first")],
        Ok(()) if states.is_empty() => vec![fine(SUBJECT, "none is configured")],
        Ok(()) => states.iter().map(|(name, state)| finding(name, state, &position(name))).collect(),
    }
}

#[cfg(feature = "mcp")]
fn finding(name: &str, state: &State, position: &str) -> Finding {
    let why = || format!("{name}: {}", state.error(name).unwrap_or_else(|| state.word().to_owned()));
    match state {
        State::Connected => fine(SUBJECT, format!("{name} is connected")),
        State::Disabled => fine(SUBJECT, format!("{name} is switched off")),
        State::Untrusted => {
            warning(SUBJECT, why(), "if the folder is yours, trust it with /trust in the terminal or --trust-workspace")
        }
        State::Blocked(_) => warning(SUBJECT, why(), format!("correct {position}")),
        State::NeedsLogin => warning(SUBJECT, why(), "log in"),
        State::Connecting => {
            let found = format!("{name} is still starting after {} s", TRIAL_MS / 1_000);
            warning(SUBJECT, found, format!("it may be downloading its program; wait for gemini-a2a mcp test {name}"))
        }
        State::Failed(_) | State::Stopping | State::Idle => {
            failure(SUBJECT, why(), format!("correct {position}, then try gemini-a2a mcp test {name}"))
        }
    }
}

#[cfg(not(feature = "mcp"))]
pub fn check(plan: &Plan, _: impl Fn() -> Result<Plan, String>) -> Vec<Finding> {
    match plan.settings.mcp.servers.len() {
        0 => vec![fine(SUBJECT, "none is configured")],
        count => {
            let found = format!("{count} are configured, and this build has none");
            vec![warning(SUBJECT, found, "use a build with the feature mcp")]
        }
    }
}
