//! What a model request contains beside its conversation: memory and the directory tree, read by the worker that sends it.
//!
//! Memory is read for every request, so that changes take effect at once. The tree of a task is read once: it is at the very beginning of
//! every request, and after one new file the API could not use its cache for anything that follows.

use crate::base::id::TaskId;
use crate::base::lock::lock;
use crate::config::WorkspaceSettings;
use crate::config::definitions::extension::Extension;
use crate::config::settings::Context;
use crate::config::trust::Trust;
use crate::limits::{BEGUN_TASKS, LOGGED_ONCE, Limits, VISITED_DIRECTORIES};
use crate::model::memory::{Memory, Notes, RequestContext};
use crate::model::system::Repository;
use crate::shell::event_loop::log::Log;
use crate::shell::start::workspace_settings::SettingsReader;
use crate::shell::workers::memory;
use crate::shell::workers::memory::Search;
use crate::shell::workers::outline;
use crate::task::definitions::slash::Command;
use crate::task::policy::{self, Rule};
use crate::tool::files::path::Workspace;
use crate::tool::search::ignore::IgnoreSources;
use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub struct PromptContext {
    reader: SettingsReader,
    log: Log,
    limits: Limits,
    /// The real paths of directories beside the workspace that tools may use.
    include: Vec<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The directory trees of tasks, the oldest first.
    trees: VecDeque<(TaskId, String)>,
    /// The directories below the workspace that tasks have visited, the oldest task first.
    visited: VecDeque<(TaskId, HashSet<PathBuf>)>,
    /// Messages that were logged already.
    logged: HashSet<String>,
    /// Tasks that have made a request in this process.
    begun: HashSet<TaskId>,
}

impl PromptContext {
    pub fn new(reader: SettingsReader, log: Log, limits: Limits, include: Vec<PathBuf>) -> PromptContext {
        PromptContext { reader, log, limits, include, state: Mutex::default() }
    }

    /// The directories beside the workspace that the operator has included.
    pub fn included(&self) -> &[PathBuf] {
        &self.include
    }

    /// What a request of a task contains beside its conversation. The workspace is given by its real path. The task's client has chosen
    /// `directories` beside it.
    pub fn of(&self, task: &TaskId, workspace: &str, directories: &[String]) -> RequestContext {
        let dir = Path::new(workspace);
        let local = self.settings_of(dir);
        let memory = self.memory(dir, &local);
        let tree = match local.settings.context.directory_tree {
            Some(false) => String::new(),
            Some(true) | None => self.tree(task, dir, wanted(&local.settings.context)),
        };
        self.log_once(&local.messages);
        let name = notes_name(&local.settings.context);
        let is_trusted = local.trust_rules.decide(dir) == Trust::Trusted;
        let shown = |path: PathBuf| path.display().to_string();
        let notes = Notes {
            user: self.reader.paths().user(name).map(shown),
            project: is_trusted.then(|| shown(dir.join(name))),
        };
        let beside = self.beside(directories).filter(|other| !other.starts_with(dir));
        let is_git = dir.ancestors().any(|dir| dir.join(".git").symlink_metadata().is_ok());
        let repository = if is_git { Repository::Git } else { Repository::None };
        let directories = beside.map(shown).collect();
        RequestContext { memory, tree, notes, directories, repository, servers: String::new(), skills: String::new() }
    }

    /// The included directories, and those that the client of a task has chosen.
    fn beside(&self, chosen: &[String]) -> impl Iterator<Item = PathBuf> {
        let chosen = chosen.iter().map(PathBuf::from).filter(|dir| !self.include.contains(dir));
        self.include.iter().cloned().chain(chosen)
    }

    /// The directories that calls may use beside the workspace: the included ones, those that the task's client has chosen, and the user's
    /// memory file.
    pub fn others(&self, context: &Context, directories: &[String]) -> Vec<Workspace> {
        let mut others: Vec<Workspace> =
            self.beside(directories).filter_map(|dir| Workspace::further(&dir).ok()).collect();
        others.iter_mut().for_each(|other| other.ignore_sources = wanted(context));
        others.extend(self.user_notes(context));
        others
    }

    fn user_notes(&self, context: &Context) -> Option<Workspace> {
        let (home, name) = (self.reader.paths().home.as_ref()?, notes_name(context));
        let (dir, alias) = (home.join(".gemini"), format!("~/.gemini/{name}"));
        // The directory is created with the file.
        Workspace::file(&dir, name, &alias)
            .or_else(|_| Workspace::file(home, Path::new(".gemini").join(name), &alias))
            .ok()
    }

    /// The memory files of the directories from the workspace down to `dir` that a task has not visited before. Directories that its
    /// parent task has visited count as visited.
    pub fn memory_of_visited(&self, task: &TaskId, parent: Option<&TaskId>, workspace: &str, dir: &Path) -> String {
        let workspace = Path::new(workspace);
        let below = dir.ancestors().take_while(|dir| *dir != workspace && dir.starts_with(workspace));
        let mut dirs: Vec<PathBuf> = below.map(Path::to_path_buf).collect();
        dirs.reverse();
        self.change_visited(task, parent, |known| dirs.retain(|dir| known.insert(dir.clone())));
        if dirs.is_empty() {
            return String::new();
        }
        let local = self.settings_of(workspace);
        let (text, messages) =
            memory::read_below(&self.search(workspace, &local, &|dir| local.trust_rules.decide(dir)), &dirs);
        self.log_once(&messages);
        text
    }

    /// Forgets which directories a task has visited: a summary has replaced the memory files in its conversation.
    pub fn forget_visited(&self, task: &TaskId) {
        self.change_visited(task, None, HashSet::clear);
    }

    /// Whether a task makes its first request in this process.
    pub fn is_first_request(&self, task: &TaskId) -> bool {
        let mut state = lock(&self.state);
        if state.begun.len() >= BEGUN_TASKS {
            state.begun.clear();
        }
        state.begun.insert(task.clone())
    }

    fn change_visited(&self, task: &TaskId, parent: Option<&TaskId>, change: impl FnOnce(&mut HashSet<PathBuf>)) {
        let mut state = lock(&self.state);
        let at = |visited: &VecDeque<(TaskId, _)>, task: &TaskId| visited.iter().position(|(known, _)| known == task);
        let at_task = at(&state.visited, task).unwrap_or_else(|| {
            let inherited = parent.and_then(|parent| at(&state.visited, parent)).map(|at| state.visited[at].1.clone());
            state.visited.push_back((task.clone(), inherited.unwrap_or_default()));
            if state.visited.len() > self.limits.trees {
                state.visited.pop_front();
            }
            state.visited.len() - 1
        });
        let known = &mut state.visited[at_task].1;
        if known.len() >= VISITED_DIRECTORIES {
            known.clear();
        }
        change(known);
    }

    /// The memory for a workspace.
    pub fn memory_of(&self, workspace: &str) -> Memory {
        let dir = Path::new(workspace);
        let local = self.settings_of(dir);
        self.log_once(&local.messages);
        self.memory(dir, &local)
    }

    /// The user's own `.gemini`.
    pub fn home(&self) -> Option<PathBuf> {
        self.reader.paths().user("")
    }

    /// The name of the memory file that a command writes: the first of the names that are looked for.
    pub fn memory_name(&self, workspace: &str) -> String {
        let given = self.settings_of(Path::new(workspace)).settings.context.file_names;
        // Settings may come from a project; no file outside of the directory may be written.
        let plain = |name: &String| !name.contains('/') && !["", ".", ".."].contains(&name.as_str());
        let first = given.into_iter().next().filter(plain);
        first.unwrap_or_else(|| memory::DEFAULT_NAME.to_owned())
    }

    /// The extensions that are installed for the workspace of a command.
    pub fn extensions(&self, command: &Command) -> Vec<Extension> {
        let workspace = Path::new(&*command.workspace);
        let trust = if command.trusted { Trust::Trusted } else { Trust::Untrusted };
        let disabled = self.settings_of(workspace).settings.disabled_extensions;
        let (found, messages) = self.reader.extensions(workspace, trust, &disabled);
        self.log_once(&messages);
        found
    }

    /// The extensions that are used in a workspace.
    pub fn enabled_extensions(&self, workspace: &Path) -> Vec<Extension> {
        self.settings_of(workspace).extensions
    }

    /// The rules by which the extensions of a workspace deny tools.
    pub fn denied(&self, workspace: &str) -> Vec<Rule> {
        let (mut rules, mut messages) = (Vec::new(), Vec::new());
        for extension in self.enabled_extensions(Path::new(workspace)) {
            for entry in &extension.exclude_tools {
                match policy::exclusion(entry, &extension.name) {
                    Ok(rule) => rules.push(rule),
                    Err(why) => messages.push(format!("the extension {}: excludeTools: {entry} {why}", extension.name)),
                }
            }
        }
        self.log_once(&messages);
        rules
    }

    pub fn reader(&self) -> &SettingsReader {
        &self.reader
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The settings of a workspace, given by its real path. If trust cannot be decided, the workspace is not trusted.
    pub(super) fn settings_of(&self, workspace: &Path) -> WorkspaceSettings {
        self.reader.read(workspace).unwrap_or_else(|message| WorkspaceSettings {
            messages: vec![format!("{message}; until then nothing is trusted")],
            ..WorkspaceSettings::default()
        })
    }

    fn memory(&self, workspace: &Path, local: &WorkspaceSettings) -> Memory {
        let (memory, messages) = memory::read(&self.search(workspace, local, &|dir| local.trust_rules.decide(dir)));
        self.log_once(&messages);
        memory
    }

    fn search<'a>(
        &'a self,
        workspace: &'a Path,
        local: &'a WorkspaceSettings,
        trust: &'a dyn Fn(&Path) -> Trust,
    ) -> Search<'a> {
        let user = self.reader.paths().user("");
        Search {
            user,
            workspace,
            settings: &local.settings,
            extensions: &local.extensions,
            trust,
            limits: &self.limits,
        }
    }

    fn tree(&self, task: &TaskId, workspace: &Path, wanted: IgnoreSources) -> String {
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
    pub fn log_once(&self, messages: &[String]) {
        for message in messages {
            let mut state = lock(&self.state);
            if state.logged.len() >= LOGGED_ONCE {
                state.logged.clear();
            }
            let fresh = state.logged.insert(message.clone());
            drop(state);
            if fresh {
                self.log.warn(message);
            }
        }
    }
}

/// The name of the memory files that the model adds to. Files of other kinds in the user's `.gemini` are settings and credentials.
fn notes_name(context: &Context) -> &str {
    let first = context.file_names.first().filter(|name| name.ends_with(".md"));
    first.map_or(memory::DEFAULT_NAME, String::as_str)
}

/// Which ignore files are used: all of them, unless the settings switch them off.
pub fn wanted(context: &Context) -> IgnoreSources {
    IgnoreSources {
        git: context.respect_git_ignore.unwrap_or(true),
        gemini: context.respect_gemini_ignore.unwrap_or(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::level::Level;
    use crate::config::paths::Paths;
    use crate::config::trust::OperatorTrust;
    use crate::shell::event_loop::log::Redacted;
    use crate::tool::tests::Scratch;
    use std::sync::Arc;

    #[test]
    fn the_memory_of_a_directory_is_told_once_to_a_task_and_those_that_continue_it() {
        let scratch = Scratch::new();
        for dir in ["a", "a/b", "c"] {
            scratch.put(&format!("w/{dir}/GEMINI.md"), format!("<{dir}>"));
        }
        let (context, workspace) =
            (context(&scratch, &Limits { trees: 2, ..Limits::default() }), scratch.path().join("w"));
        let visited = |task: &str, parent: Option<&str>, dir: &str| -> String {
            let parent = parent.map(TaskId::from);
            let dir = workspace.join(dir);
            let text =
                context.memory_of_visited(&task.into(), parent.as_ref(), workspace.to_str().expect("plain"), &dir);
            ["<a>", "<a/b>", "<c>"].into_iter().filter(|mark| text.contains(mark)).collect()
        };
        assert_eq!(visited("one", None, ""), "");
        assert_eq!(visited("one", None, "a/b/none"), "<a><a/b>");
        assert_eq!(visited("one", None, "a"), "");
        assert_eq!(visited("two", Some("one"), "a"), "");
        assert_eq!(visited("two", Some("one"), "c"), "<c>");
        assert_eq!(visited("one", None, "c"), "<c>", "the other one has visited it");
        context.forget_visited(&"two".into());
        assert_eq!(visited("two", Some("one"), "a/b"), "<a><a/b>");
        assert_eq!(visited("three", None, "c"), "<c>");
        assert_eq!(visited("one", None, "a"), "<a>", "two tasks are remembered");
        let many = (0..VISITED_DIRECTORIES).map(|n| n.to_string());
        context.change_visited(&"one".into(), None, |known| known.extend(many.map(PathBuf::from)));
        assert_eq!(visited("one", None, "a"), "<a>", "all were forgotten");
    }

    /// The context of the trusted workspace `w`.
    fn context(scratch: &Scratch, limits: &Limits) -> PromptContext {
        let operator = OperatorTrust { decision: Some(Trust::Trusted), workspace: scratch.path().join("w") };
        let home = scratch.path().to_str().expect("plain").to_owned();
        let env = Arc::new(move |name: &str| (name == "HOME").then(|| home.clone()));
        let file = std::fs::OpenOptions::new().append(true).open(scratch.put("log", "")).expect("the log");
        let log = Log::on(file, Level::Warn, Redacted::default());
        let reader = SettingsReader::new(Paths::new(env.as_ref()), env, operator, limits.clone());
        PromptContext::new(reader, log, limits.clone(), Vec::new())
    }

    #[test]
    fn memory_is_read_again_and_the_tree_of_a_task_is_kept() {
        let scratch = Scratch::new();
        scratch.put("w/GEMINI.md", "first");
        let (log, workspace) = (scratch.path().join("log"), scratch.path().join("w"));
        let prompt_context = context(&scratch, &Limits { trees: 1, ..Limits::default() });
        let of = |task: &str| {
            let found = prompt_context.of(&task.into(), workspace.to_str().expect("plain"), &[]);
            (found.memory.project.contains("second"), found.tree)
        };
        assert_eq!(of("one"), (false, "GEMINI.md\n".to_owned()));
        scratch.put("w/GEMINI.md", "second @./none.md");
        scratch.put("w/new", "");
        assert_eq!(of("one"), (true, "GEMINI.md\n".to_owned()));
        assert_eq!(of("two"), (true, "GEMINI.md\nnew\n".to_owned()));
        assert_eq!(of("one"), (true, "GEMINI.md\nnew\n".to_owned()), "no longer kept");
        let lines = std::fs::read_to_string(log).expect("the log");
        assert_eq!(lines.lines().count(), 1, "{lines}");
        let messages: Vec<String> = (0..LOGGED_ONCE).map(|n| n.to_string()).collect();
        (0..BEGUN_TASKS).for_each(|n| assert!(prompt_context.is_first_request(&n.to_string().as_str().into())));
        assert!(prompt_context.is_first_request(&"0".into()), "all were forgotten");
        assert!(!prompt_context.is_first_request(&"0".into()));
        // One message is remembered already, so the last one of these makes room by forgetting the others.
        prompt_context.log_once(&messages);
        assert_eq!(lock(&prompt_context.state).logged.len(), 1);
        scratch.put("w/.gemini/settings.json", r#"{"context": {"includeDirectoryTree": false}}"#);
        assert_eq!(of("three"), (true, String::new()));
    }
}
