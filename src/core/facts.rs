//! Facts about the server for a command that is about to run (`/stats`, `/tools`), because workers see no tasks.

use crate::base::clock::Now;
use crate::base::id::Subject;
use crate::core::Core;
use crate::task::definitions::slash::{Facts, McpCounts};
use crate::task::log::answer::Usage;

impl Core {
    /// Everything but the model, which is the task's own. Only the operator is told of other subjects' tasks.
    pub(super) fn facts(&self, owner: &Subject, now: Now) -> Facts {
        let is_counted = |of: &Subject| owner.is_operator() || of == owner;
        let loaded = || self.tasks.values().filter(|loaded| is_counted(&loaded.state.created.owner));
        let mut tokens = Usage::default();
        for loaded in loaded() {
            tokens.add(&loaded.state.total);
        }
        // A tool is kept under its former names too.
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
