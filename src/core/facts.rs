//! Facts about the server for a slash command that is about to run (`/stats`, `/tools`): the worker that runs it has no access to the
//! tasks.

use crate::base::clock::Now;
use crate::base::id::Subject;
use crate::core::Core;
use crate::task::definitions::slash::{Facts, McpCounts};
use crate::task::log::answer::Usage;

impl Core {
    /// All facts but the model, which the command's own task gives. Tasks of other subjects are counted only for the operator.
    pub(super) fn facts(&self, owner: &Subject, now: Now) -> Facts {
        let is_counted = |of: &Subject| owner.is_operator() || of == owner;
        let loaded = || self.tasks.values().filter(|loaded| is_counted(&loaded.state.created.owner));
        let mut tokens = Usage::default();
        for loaded in loaded() {
            tokens.add(&loaded.state.total);
        }
        // A tool is in the table under its former names too.
        let own = self.tools.specs.iter().filter(|(name, spec)| **name == spec.name);
        let mut tools: Vec<(String, String)> =
            own.map(|(name, spec)| (name.clone(), spec.description.clone())).collect();
        tools.sort_unstable();
        Facts {
            uptime_ms: now.mono_ms - self.settings.started.mono_ms,
            active: loaded().filter(|loaded| loaded.is_open()).count(),
            known: self.tasks.known.iter().filter(|(_, brief)| is_counted(&brief.owner)).count(),
            tokens,
            model: String::new(),
            tools,
            mcp: McpCounts::default(),
        }
    }
}
