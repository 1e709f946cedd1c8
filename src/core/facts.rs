//! Facts about the server for a command that is about to run (`/stats`, `/tools`), because workers see no tasks.

use crate::base::clock::Now;
use crate::core::Core;
use crate::task::log::answer::Usage;
use crate::task::slash::Facts;

impl Core {
    /// Everything but the model, which is the task's own.
    pub(super) fn facts(&self, now: Now) -> Facts {
        let mut tokens = Usage::default();
        for loaded in self.tasks.values() {
            tokens.add(&loaded.state.total);
        }
        // A tool is kept under its former names too.
        let own = self.tools.specs.iter().filter(|(name, spec)| **name == spec.name);
        let mut tools: Vec<(String, String)> =
            own.map(|(name, spec)| (name.clone(), spec.description.clone())).collect();
        tools.sort_unstable();
        Facts {
            uptime_ms: now.mono_ms - self.settings.started.mono_ms,
            active: self.tasks.values().filter(|loaded| loaded.is_open()).count(),
            known: self.tasks.known.len(),
            tokens,
            model: String::new(),
            tools,
        }
    }
}
