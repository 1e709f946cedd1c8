//! What a model request contains beside its conversation: memory and the directory tree, read by the worker that sends it.
//!
//! Memory is read for every request, so that changes take effect at once. The tree is kept as a task first saw it: it
//! stands at the very beginning of every request, and one new file would make everything behind it new to the API's cache.

use crate::base::id::TaskId;
use crate::base::lock::lock;
use crate::config::WorkspaceSettings;
use crate::config::settings::Context;
use crate::limits::{LOGGED_ONCE, Limits};
use crate::model::memory::{Memory, Surroundings};
use crate::shell::event_loop::log::Log;
use crate::shell::start::workspace_settings::SettingsReader;
use crate::shell::workers::memory;
use crate::shell::workers::memory::Search;
use crate::shell::workers::outline;
use crate::tool::search::ignore::Wanted;
use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub struct PromptContext {
    reader: SettingsReader,
    log: Log,
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The oldest first.
    trees: VecDeque<(TaskId, String)>,
    /// Messages that were logged already.
    told: HashSet<String>,
}

impl PromptContext {
    pub fn new(reader: SettingsReader, log: Log, limits: Limits) -> PromptContext {
        PromptContext { reader, log, limits, state: Mutex::default() }
    }

    /// What surrounds a task that works in this directory, given by its real path.
    pub fn of(&self, task: &TaskId, workspace: &str) -> Surroundings {
        let dir = Path::new(workspace);
        let local = self.local(dir);
        let memory = self.memory(dir, &local);
        let tree = match local.settings.context.directory_tree {
            Some(false) => String::new(),
            Some(true) | None => self.tree(task, dir, wanted(&local.settings.context)),
        };
        self.tell(&local.messages);
        Surroundings { memory, tree }
    }

    /// The memory for this directory, as it is now.
    pub fn remembered(&self, workspace: &str) -> Memory {
        let dir = Path::new(workspace);
        let local = self.local(dir);
        self.tell(&local.messages);
        self.memory(dir, &local)
    }

    /// The user's own `.gemini`.
    pub fn home(&self) -> Option<PathBuf> {
        self.reader.paths().user("")
    }

    /// What the memory files that people write are called here: the first name of those that are looked for.
    pub fn memory_name(&self, workspace: &str) -> String {
        let given = self.local(Path::new(workspace)).settings.context.file_names;
        // Settings come from projects too; a name that leads elsewhere is good for nothing that is written.
        let plain = |name: &String| !name.contains('/') && !["", ".", ".."].contains(&name.as_str());
        let first = given.into_iter().next().filter(plain);
        first.unwrap_or_else(|| memory::DEFAULT_NAME.to_owned())
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn local(&self, workspace: &Path) -> WorkspaceSettings {
        self.reader.read(workspace).unwrap_or_else(|message| WorkspaceSettings {
            messages: vec![format!("{message}; until then nothing is trusted")],
            ..WorkspaceSettings::default()
        })
    }

    fn memory(&self, workspace: &Path, local: &WorkspaceSettings) -> Memory {
        let (memory, messages) = memory::read(&Search {
            user: self.reader.paths().user(""),
            workspace,
            settings: &local.settings,
            trust: &|dir| local.trust_rules.decide(dir),
            limits: &self.limits,
        });
        self.tell(&messages);
        memory
    }

    fn tree(&self, task: &TaskId, workspace: &Path, wanted: Wanted) -> String {
        let known = lock(&self.state).trees.iter().find(|(known, _)| known == task).map(|(_, tree)| tree.clone());
        if let Some(tree) = known {
            return tree;
        }
        let tree = outline::draw(workspace, wanted, &self.limits);
        let mut state = lock(&self.state);
        state.trees.push_back((task.clone(), tree.clone()));
        if state.trees.len() > self.limits.trees {
            state.trees.pop_front();
        }
        tree
    }

    /// Logs each message once.
    pub fn tell(&self, messages: &[String]) {
        for message in messages {
            let mut state = lock(&self.state);
            if state.told.len() >= LOGGED_ONCE {
                state.told.clear();
            }
            let fresh = state.told.insert(message.clone());
            drop(state);
            if fresh {
                self.log.warn(message);
            }
        }
    }
}

/// Which ignore files the settings want to count; all of them, unless they say otherwise.
pub fn wanted(context: &Context) -> Wanted {
    Wanted { git: context.respect_git_ignore.unwrap_or(true), gemini: context.respect_gemini_ignore.unwrap_or(true) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::level::Level;
    use crate::config::paths::Paths;
    use crate::config::trust::{OperatorTrust, Trust};
    use crate::shell::event_loop::log::Redacted;
    use crate::tool::tests::Scratch;
    use std::sync::Arc;

    #[test]
    fn memory_is_read_anew_and_the_tree_is_kept_for_its_task() {
        let scratch = Scratch::new();
        scratch.put("w/GEMINI.md", "first");
        let said = scratch.put("log", "");
        let workspace = scratch.path().join("w");
        let operator = OperatorTrust { decision: Some(Trust::Trusted), workspace: workspace.clone() };
        let home = scratch.path().to_str().expect("plain").to_owned();
        let env = Arc::new(move |name: &str| (name == "HOME").then(|| home.clone()));
        let limits = Limits { trees: 1, ..Limits::default() };
        let file = std::fs::OpenOptions::new().append(true).open(&said).expect("the log");
        let log = Log::on(file, Level::Warn, Redacted::default());
        let prompt_context = PromptContext::new(
            SettingsReader::new(Paths::new(env.as_ref()), env, operator, limits.clone()),
            log,
            limits,
        );
        let of = |task: &str| {
            let found = prompt_context.of(&task.into(), workspace.to_str().expect("plain"));
            (found.memory.project.contains("second"), found.tree)
        };
        assert_eq!(of("one"), (false, "GEMINI.md\n".to_owned()));
        scratch.put("w/GEMINI.md", "second @./none.md");
        scratch.put("w/new", "");
        assert_eq!(of("one"), (true, "GEMINI.md\n".to_owned()));
        assert_eq!(of("two"), (true, "GEMINI.md\nnew\n".to_owned()));
        assert_eq!(of("one"), (true, "GEMINI.md\nnew\n".to_owned()), "no longer kept");
        let told = std::fs::read_to_string(said).expect("the log");
        assert_eq!(told.lines().count(), 1, "once is enough: {told}");
        let messages: Vec<String> = (0..LOGGED_ONCE).map(|n| n.to_string()).collect();
        // One message is remembered already, so the last one of these makes room by forgetting the others.
        prompt_context.tell(&messages);
        assert_eq!(lock(&prompt_context.state).told.len(), 1);
        scratch.put("w/.gemini/settings.json", r#"{"context": {"includeDirectoryTree": false}}"#);
        assert_eq!(of("three"), (true, String::new()));
    }
}
