//! Reads the files around a workspace: settings, files of variables, trusted folders. `config` interprets them.
//!
//! The order is important for safety: first the operator's files, then whether the workspace is trusted, and only then, if it is, the
//! workspace's own. Trust ends where the operator said it does: a directory above a trusted workspace is read only if it is
//! trusted itself. In a workspace nothing is read through a link that leads out of it, and only regular files are read.

pub mod extensions;

use crate::base::secret::Secret;
use crate::config::formats::dotenv;
use crate::config::options;
use crate::config::paths::Paths;
use crate::config::settings::{self, Format, Layer, SettingScope, Settings};
use crate::config::trust::{Folders, OperatorTrust, Trust, TrustRules};
use crate::config::{Owner, Variables, WorkspaceSettings};
use crate::core::Site;
use crate::limits::Limits;
use crate::model::memory::File as MemoryFile;
use crate::shell::event_loop::sys;
use crate::task::spec::ErrorKind;
use crate::tool::files::path::{PathTarget, Workspace};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Looks up a variable of the process.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Variables that the file of a project may not set, because other tools change their behaviour by them.
const NOT_FROM_PROJECTS: [&str; 2] = ["DEBUG", "DEBUG_MODE"];

/// Reads the settings of workspaces, for one operator.
#[derive(Clone)]
pub struct SettingsReader {
    paths: Paths,
    env: Env,
    operator: OperatorTrust,
    limits: Limits,
    /// The names of the only extensions that are used. None: all that are switched on are used.
    only: Option<Vec<String>>,
}

impl SettingsReader {
    pub fn new(paths: Paths, env: Env, operator: OperatorTrust, limits: Limits) -> SettingsReader {
        SettingsReader { paths, env, operator, limits, only: None }
    }

    /// Uses only these extensions, if any are named.
    pub fn using(self, only: Option<Vec<String>>) -> SettingsReader {
        SettingsReader { only, ..self }
    }

    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The settings of a workspace, given by its real path. Fails only when trust cannot be decided.
    pub fn read(&self, workspace: &Path) -> Result<WorkspaceSettings, String> {
        let mut messages = Vec::new();
        let (own, system) = self.operators_layers(&mut messages);
        let operators = self.operators_settings(&own, &system);
        let trust_rules = self.trust_rules(&operators)?;
        let trust = trust_rules.decide(workspace);
        let variables = self.variables(workspace, &trust_rules, &operators, &mut messages);
        let of_workspace = match trust {
            Trust::Trusted => self.workspace_layers(workspace, &mut messages),
            Trust::Untrusted => Vec::new(),
        };
        let layers = [own, of_workspace, system].concat();
        let (settings, found) = settings::load(&layers, &|name| self.variable(&variables, name));
        messages.extend(found);
        let (mut extensions, found) = self.extensions(workspace, trust, &settings.disabled_extensions);
        extensions.retain(|extension| extension.enabled);
        let mut policies = vec![self.paths.system_policies.clone()];
        policies.extend(self.paths.user("policies"));
        policies.extend(settings.policy_paths.iter().map(PathBuf::from));
        policies.extend((trust == Trust::Trusted).then(|| workspace.join(".gemini/policies")));
        policies.extend(extensions.iter().map(|extension| extension.dir.join("policies")));
        report_unread_policies(policies, &mut messages);
        messages.extend(found);
        Ok(WorkspaceSettings { trust, trust_rules, settings, variables, extensions, messages })
    }

    /// The value of a variable: that of the process, otherwise of the file of variables.
    pub fn variable(&self, variables: &Variables, name: &str) -> Option<String> {
        (self.env)(name).or_else(|| Some(variables.values.get(name)?.reveal().to_owned()))
    }

    /// Whether a variable is a credential of this program, which only the operator's own files may use.
    pub fn is_credential(&self, variables: &Variables, name: &str) -> bool {
        options::is_credential(name, &self.variable(variables, name).unwrap_or_default())
    }

    /// A workspace, given by its real path, and whether it is trusted. Reads nothing of the workspace.
    pub fn site(&self, workspace: PathBuf) -> Result<Site, String> {
        let (own, system) = self.operators_layers(&mut Vec::new());
        let trust = self.trust_rules(&self.operators_settings(&own, &system))?.decide(&workspace);
        let path = workspace.into_os_string().into_string().map_err(|_| "the workspace's path is not UTF-8")?;
        Ok(Site { path, trusted: trust == Trust::Trusted, ..Site::default() })
    }

    fn operators_settings(&self, own: &[Layer], system: &[Layer]) -> Settings {
        settings::load(&[own, system].concat(), self.env.as_ref()).0
    }

    /// The rules about trust in the operator's settings and in the file of trusted folders.
    fn trust_rules(&self, operators: &Settings) -> Result<TrustRules, String> {
        let folders = match &self.paths.trusted_folders {
            Some(file) => {
                let text = read_plain(file, self.limits.settings_bytes)
                    .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
                Folders::parse(&text.unwrap_or_default(), &real)
                    .map_err(|wrong| format!("{}, {wrong}; correct or remove it", file.display()))?
            }
            None => Folders::default(),
        };
        Ok(TrustRules { operator: self.operator.clone(), folder_trust: operators.security.folder_trust, folders })
    }

    /// The layers of the operator's settings: those that a workspace's settings override, and those that override a workspace's settings.
    fn operators_layers(&self, messages: &mut Vec<String>) -> (Vec<Layer>, Vec<Layer>) {
        let mut read = |scope, format, path: Option<&Path>| {
            let text = self.operators_file(path?, messages)?;
            Some(Layer { scope, file: path?.display().to_string(), format, text })
        };
        let paths = &self.paths;
        let user = paths.user("settings.json");
        let before = [
            read(SettingScope::SystemDefaults, Format::Json, Some(&paths.system_defaults)),
            read(SettingScope::User, Format::Yaml, paths.user_yaml.as_deref()),
            read(SettingScope::User, Format::Json, user.as_deref()),
        ];
        let after = read(SettingScope::System, Format::Json, Some(&paths.system_settings));
        (before.into_iter().flatten().collect(), after.into_iter().collect())
    }

    fn workspace_layers(&self, workspace: &Path, messages: &mut Vec<String>) -> Vec<Layer> {
        // If the workspace is the home directory, its files are the user's own, which were read already.
        if self.is_home(workspace) {
            return Vec::new();
        }
        let files = [(".gemini/config.yaml", Format::Yaml), (".gemini/settings.json", Format::Json)];
        let layer = |(name, format)| {
            let text = self.workspace_file(workspace, name, messages)?.file.text;
            let file = workspace.join(name).display().to_string();
            Some(Layer { scope: SettingScope::Workspace, file, format, text })
        };
        files.into_iter().filter_map(layer).collect()
    }

    /// The variables of the first file that exists: in the workspace and the trusted directories above it, then in the user's home.
    fn variables(
        &self,
        workspace: &Path,
        trust_rules: &TrustRules,
        operators: &Settings,
        messages: &mut Vec<String>,
    ) -> Variables {
        const NAMES: [&str; 2] = [".gemini/.env", ".env"];
        let trusted = workspace.ancestors().take_while(|dir| trust_rules.decide(dir) == Trust::Trusted);
        let above = trusted.take_while(|dir| !self.is_home(dir));
        for (dir, name) in above.flat_map(|dir| NAMES.map(|name| (dir, name))) {
            let found = self.workspace_file(dir, name, messages);
            if let Some(found) = found.filter(|found| dir == workspace || found.is_ours) {
                let excluded = |name: &str| {
                    NOT_FROM_PROJECTS.contains(&name) || operators.excluded_variables.iter().any(|e| e == name)
                };
                return variables(&dir.join(name), &found.file.text, Owner::Workspace, &excluded, messages);
            }
        }
        for path in self.paths.home.iter().flat_map(|home| NAMES.map(|name| home.join(name))) {
            if let Some(text) = self.operators_file(&path, messages) {
                return variables(&path, &text, Owner::User, &|_| false, messages);
            }
        }
        Variables::default()
    }

    /// Reads a file of the operator, if it exists. A file that cannot be read is reported.
    fn operators_file(&self, path: &Path, messages: &mut Vec<String>) -> Option<String> {
        read_plain(path, self.limits.settings_bytes).unwrap_or_else(|error| {
            messages.push(format!("{} cannot be read: {error}", path.display()));
            None
        })
    }

    /// Reads a file of a workspace or of a directory above it, if it exists. A file that cannot be read is reported.
    fn workspace_file(&self, dir: &Path, name: &str, messages: &mut Vec<String>) -> Option<FoundFile> {
        read_inside(dir, name, self.limits.settings_bytes).unwrap_or_else(|why| {
            messages.push(format!("{why}; it is not used"));
            None
        })
    }

    fn is_home(&self, dir: &Path) -> bool {
        let home = self.paths.home.as_ref();
        home.is_some_and(|home| real(home) == dir)
    }
}

/// Adds a message for each policy file in TOML: such files belong to another program and are not used.
fn report_unread_policies(places: Vec<PathBuf>, messages: &mut Vec<String>) {
    for path in places {
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        if path.is_file() {
            files.push(path);
        }
        files.retain(|file| file.extension().is_some_and(|end| end == "toml"));
        files.sort_unstable();
        messages.extend(files.iter().map(|file| {
            let file = file.display();
            format!("{file} is not read; write its rules as JSON into policy.rules in your settings")
        }));
    }
}

fn variables(
    path: &Path,
    text: &str,
    owner: Owner,
    excluded: &dyn Fn(&str) -> bool,
    messages: &mut Vec<String>,
) -> Variables {
    let (values, notices) = dotenv::parse(text);
    messages.extend(notices.iter().map(|notice| format!("{}, line {}: {}", path.display(), notice.line, notice.text)));
    let values = values.into_iter().filter(|(name, _)| !excluded(name));
    Variables { owner, values: values.map(|(name, value)| (name, Secret::new(value))).collect() }
}

/// The real path of a directory. An error if it is not a directory.
pub fn real_directory(path: &Path) -> Result<PathBuf, String> {
    let real = path.canonicalize().map_err(|e| format!("the directory {} cannot be used: {e}", path.display()))?;
    if real.is_dir() { Ok(real) } else { Err(format!("{} is not a directory", path.display())) }
}

/// The real path of a file that exists; otherwise the path itself.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// A text file that was found in a workspace.
pub struct FoundFile {
    pub file: MemoryFile,
    /// The file belongs to our user or to root.
    pub is_ours: bool,
}

/// Reads a text file in a directory, without leaving it. None when there is no such file; an error names what is wrong.
pub fn read_inside(dir: &Path, name: &str, most: u64) -> Result<Option<FoundFile>, String> {
    match Workspace::open(dir) {
        Ok(tree) => read_found(&tree, name, most),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{} cannot be read: {error}", dir.join(name).display())),
    }
}

/// Reads a text file in a directory that is open already, without leaving it.
pub fn read_found(tree: &Workspace, name: &str, most: u64) -> Result<Option<FoundFile>, String> {
    let shown = tree.path().join(name);
    let shown = shown.display();
    let spot = match tree.find(name) {
        Ok(spot) => spot,
        Err(error) if error.kind == ErrorKind::FileNotFound => return Ok(None),
        Err(error) if error.kind == ErrorKind::PathNotInWorkspace => {
            return Err(format!("{shown} leads out of {}", tree.path().display()));
        }
        Err(error) => return Err(format!("{shown} cannot be read: {}", error.message)),
    };
    let entry = match &spot.found {
        PathTarget::File(entry) => entry,
        PathTarget::Directory(_) | PathTarget::Nothing(_) => return Ok(None),
    };
    let read = entry.open().and_then(|file| {
        let meta = file.metadata()?;
        let id = (meta.dev(), meta.ino());
        Ok(FoundFile {
            file: MemoryFile { id, path: PathBuf::from(spot.real()), text: text_of(file, most)? },
            is_ours: meta.uid() == 0 || meta.uid() == sys::effective_uid(),
        })
    });
    read.map(Some).map_err(|error| format!("{shown} cannot be read: {error}"))
}

/// Reads a text file. Its links may not lead out of the directory `inside`, if one is given. None if the file does not exist; an error
/// names the file.
pub fn read_text(path: &Path, inside: Option<&Path>, most: u64) -> Result<Option<String>, String> {
    match inside {
        Some(dir) => {
            let name = path.strip_prefix(dir).unwrap_or(path).to_string_lossy();
            Ok(read_inside(dir, &name, most)?.map(|found| found.file.text))
        }
        None => read_plain(path, most).map_err(|error| format!("{}: {error}", path.display())),
    }
}

/// Reads a file of the operator, wherever its links lead. None if it does not exist.
pub fn read_plain(path: &Path, most: u64) -> io::Result<Option<String>> {
    use io::ErrorKind::{NotADirectory, NotFound};
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(None),
        Ok(meta) if !meta.is_file() => Err(io::Error::other("it is not a regular file")),
        Ok(_) => text_of(File::open(path)?, most).map(Some),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

fn text_of(file: File, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;

    /// A home, and a workspace `repo/sub` with files of every kind.
    fn scratch() -> Scratch {
        let scratch = Scratch::new();
        scratch.put("home/.gemini/.env", "FROM=home\n");
        scratch.put("home/.gemini/settings.json", r#"{"model": "$FROM", "advanced": {"excludedEnvVars": ["NOT"]}}"#);
        scratch.put("repo/sub/.gemini/.env", "FROM=sub\nDEBUG=1\nNOT=1\n");
        scratch.put("repo/sub/.gemini/config.yaml", "model:\n  name: yaml\n  maxSessionTurns: 3\n");
        scratch.put("repo/sub/.gemini/settings.json", r#"{"model": {"name": "sub-$FROM"}}"#);
        scratch.put("repo/.env", "FROM=repo\n");
        scratch
    }

    /// A reader for an operator with this home directory.
    pub(super) fn reader(scratch: &Scratch, home: &str) -> SettingsReader {
        let (home, none) = (scratch.path().join(home), scratch.path().join("none"));
        let env = Arc::new(move |name: &str| {
            let path = if name == "HOME" { &home } else { &none };
            (name == "HOME" || name.starts_with("GEMINI_CLI_SYSTEM")).then(|| path.display().to_string())
        });
        let operator = OperatorTrust { decision: None, workspace: scratch.path().join("w") };
        SettingsReader::new(Paths::new(env.as_ref()), env, operator, Limits::default())
    }

    fn look(scratch: &Scratch, env: &[(&str, &str)], decision: Option<Trust>) -> Result<WorkspaceSettings, String> {
        let root = scratch.path();
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        let none = root.join("none");
        for (name, path) in [
            ("HOME", root.join("home")),
            ("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", none.clone()),
            ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", none),
        ] {
            known.insert(name.into(), path.to_str().expect("plain").into());
        }
        known.extend(env.iter().map(|(n, v)| (n.to_string(), v.to_string())));
        let workspace = root.join("repo/sub");
        let operator = OperatorTrust { decision, workspace: workspace.clone() };
        let env = Arc::new(move |name: &str| known.get(name).cloned());
        SettingsReader::new(Paths::new(env.as_ref()), env, operator, Limits::default()).read(&workspace)
    }

    fn values(local: &WorkspaceSettings) -> Vec<(&str, &str)> {
        let values = local.variables.values.iter();
        values.map(|(name, value)| (name.as_str(), value.reveal())).collect()
    }

    #[test]
    fn files_of_an_untrusted_workspace_are_not_used() {
        let scratch = scratch();
        let local = look(&scratch, &[], None).expect("it can be decided");
        assert_eq!(local.trust, Trust::Untrusted);
        assert_eq!(local.settings.model.as_deref(), Some("home"));
        assert_eq!(local.settings.limits.session_requests, 0);
        assert_eq!(local.variables.owner, Owner::User);
        assert_eq!(values(&local), [("FROM", "home")]);
        assert_eq!(local.messages, Vec::<String>::new());
    }

    #[test]
    fn files_of_a_trusted_workspace_override_the_users_but_not_the_systems() {
        let scratch = scratch();
        let trusted = Some(Trust::Trusted);
        let local = look(&scratch, &[], trusted).expect("it can be decided");
        assert_eq!(local.trust, Trust::Trusted);
        assert_eq!(local.settings.model.as_deref(), Some("sub-sub"));
        assert_eq!(local.settings.limits.session_requests, 3);
        assert_eq!(local.variables.owner, Owner::Workspace);
        assert_eq!(values(&local), [("FROM", "sub")], "two names are not for projects");
        let system = scratch.put("system.json", r#"{"model": "system"}"#);
        let system = system.to_str().expect("plain");
        let env = [("GEMINI_CLI_SYSTEM_SETTINGS_PATH", system), ("FROM", "process")];
        let local = look(&scratch, &env, trusted).expect("it can be decided");
        assert_eq!(local.settings.model.as_deref(), Some("system"));
    }

    #[test]
    fn variables_are_searched_upwards_as_far_as_trust_goes() {
        let scratch = scratch();
        std::fs::remove_file(scratch.path().join("repo/sub/.gemini/.env")).expect("it was there");
        let local = look(&scratch, &[], Some(Trust::Trusted)).expect("it can be decided");
        assert_eq!(values(&local), [("FROM", "home")], "only the workspace was trusted");
        let repo = scratch.path().join("repo");
        let trust = |word: &str| format!("{{{repo:?}: {word:?}}}");
        scratch.put("home/.gemini/trustedFolders.json", trust("TRUST_FOLDER"));
        let local = look(&scratch, &[], None).expect("it can be decided");
        assert_eq!(values(&local), [("FROM", "repo")]);
        scratch.put("home/.gemini/trustedFolders.json", trust("DO_NOT_TRUST"));
        let local = look(&scratch, &[], None).expect("it can be decided");
        assert_eq!(values(&local), [("FROM", "home")]);
    }

    #[test]
    fn links_out_of_the_workspace_and_files_that_are_not_text_are_reported() {
        let scratch = scratch();
        let put = |name: &str| scratch.path().join("repo/sub/.gemini").join(name);
        std::fs::remove_file(put(".env")).expect("it was there");
        std::fs::remove_file(put("settings.json")).expect("it was there");
        symlink("../../../home/.gemini/.env", put(".env")).expect("a link");
        std::fs::write(put("settings.json"), b"\xff").expect("a file");
        let local = look(&scratch, &[], Some(Trust::Trusted)).expect("it can be decided");
        assert_eq!(local.settings.model.as_deref(), Some("yaml"));
        assert_eq!(values(&local), [("FROM", "home")]);
        let dir = scratch.path().join("repo/sub");
        let dir = dir.display();
        assert_eq!(
            local.messages,
            [
                format!("{dir}/.gemini/.env leads out of {dir}; it is not used"),
                format!("{dir}/.gemini/settings.json cannot be read: it is not UTF-8 text; it is not used"),
            ]
        );
    }

    #[test]
    fn an_invalid_file_of_trusted_folders_is_an_error() {
        let scratch = scratch();
        let file = scratch.put("home/.gemini/trustedFolders.json", "{");
        let error = look(&scratch, &[], None).expect_err("it cannot be decided");
        assert_eq!(error, format!("{}, line 1: a bracket is not closed; correct or remove it", file.display()));
        std::fs::remove_file(file).expect("it was there");
        scratch.put("home/.gemini/settings.json", r#"{"folderTrust": false}"#);
        let trust = |said| look(&scratch, &[], said).expect("it can be decided").trust;
        assert_eq!(trust(None), Trust::Trusted);
        assert_eq!(trust(Some(Trust::Untrusted)), Trust::Untrusted);
    }

    #[test]
    fn policies_in_toml_are_reported() {
        let scratch = scratch();
        let user = scratch.put("home/.gemini/policies/a.toml", "");
        scratch.put("home/.gemini/policies/auto-saved.json", "{}");
        let theirs = scratch.put("repo/sub/.gemini/policies/b.toml", "");
        let unread = |said| {
            let local = look(&scratch, &[], said).expect("it can be decided");
            local.messages
        };
        let line = |file: &Path| {
            let file = file.display();
            format!("{file} is not read; write its rules as JSON into policy.rules in your settings")
        };
        assert_eq!(unread(None), [line(&user)]);
        assert_eq!(unread(Some(Trust::Trusted)), [line(&user), line(&theirs)]);
        // Policies of extensions are reported if the extension is used.
        let manifest = r#"{"name": "e", "version": "1"}"#;
        scratch.put("home/.gemini/extensions/e/gemini-extension.json", manifest);
        let of_extension = scratch.put("home/.gemini/extensions/e/policies/c.toml", "");
        assert_eq!(unread(None), [line(&user), line(&of_extension)]);
        scratch.put("home/.gemini/settings.json", r#"{"extensions": {"disabled": ["e"]}}"#);
        assert_eq!(unread(None), [line(&user)]);
    }

    #[test]
    fn the_size_of_a_file_is_limited() {
        let scratch = Scratch::new();
        let file = scratch.put("a", "12345");
        assert_eq!(read_plain(&file, 5).expect("it fits").as_deref(), Some("12345"));
        assert!(read_plain(&file, 4).is_err());
        assert!(read_plain(&scratch.path().join("a/b"), 4).expect("not there").is_none());
        assert!(read_plain(scratch.path(), 4).expect("no file").is_none());
        assert!(read_inside(scratch.path(), "a", 5).expect("it fits").is_some());
        assert!(read_inside(scratch.path(), "a", 4).is_err());
    }
}
