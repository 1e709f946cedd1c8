//! Reads what a place says about itself: settings, files of variables, trusted folders. What it means is decided in `config`.
//!
//! The order is the safety. First the operator's files, then whether the workspace is trusted, and only then, if it is, the
//! workspace's own. Trust ends where the operator said it does: a directory above a trusted workspace is read only if it is
//! trusted itself. And in a tree nothing is read through a link that leads out of it, nor anything that is no plain file.

use crate::config::dotenv;
use crate::config::paths::Paths;
use crate::config::settings::{self, Format, Layer, Origin, Settings};
use crate::config::trust::{self, Folders, Question, Trust, Word};
use crate::config::{Owner, Place, Variables};
use crate::limits::Limits;
use crate::model::gemini::Secret;
use crate::model::memory::File as MemoryFile;
use crate::shell::sys;
use crate::task::spec::ErrorKind;
use crate::tool::path::{Found, Workspace};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Looks a variable of the process up.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Names that no project's file of variables may set; upstream tools change their behaviour by them.
const NOT_FROM_PROJECTS: [&str; 2] = ["DEBUG", "DEBUG_MODE"];

/// Reads places, for one operator.
#[derive(Clone)]
pub struct Places {
    paths: Paths,
    env: Env,
    word: Word,
    limits: Limits,
}

impl Places {
    pub fn new(env: Env, word: Word, limits: Limits) -> Places {
        Places {
            paths: Paths::new(env.as_ref()),
            env,
            word,
            limits,
        }
    }

    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// What is around a workspace, given by its real path. Fails only when trust cannot be decided.
    pub fn look(&self, workspace: &Path) -> Result<Place, String> {
        let mut messages = Vec::new();
        let (own, system) = self.operators_layers(&mut messages);
        let all: Vec<Layer> = [own.clone(), system.clone()].concat();
        let (operators, _) = settings::load(&all, self.env.as_ref());
        let judge = self.judge(&operators)?;
        let trust = judge.of(workspace);
        let variables = self.variables(workspace, &judge, &operators, &mut messages);
        let theirs = match trust {
            Trust::Trusted => self.workspace_layers(workspace, &mut messages),
            Trust::Untrusted => Vec::new(),
        };
        let layers = [own, theirs, system].concat();
        let lookup = |name: &str| {
            let filed = || Some(variables.values.get(name)?.reveal().to_owned());
            (self.env)(name).or_else(filed)
        };
        let (settings, said) = settings::load(&layers, &lookup);
        messages.extend(said);
        self.name_unread_policies(workspace, trust, &settings, &mut messages);
        Ok(Place {
            trust,
            settings,
            variables,
            messages,
        })
    }

    /// Who decides about trust, by what the operator's settings and the file of trusted folders say now.
    pub fn judge(&self, operators: &Settings) -> Result<Judge<'_>, String> {
        let folders = match &self.paths.trusted_folders {
            Some(file) => match read_plain(file, self.limits.settings_bytes) {
                Ok(Some(text)) => Folders::parse(&text, &real).map_err(|wrong| {
                    format!("{}, {wrong}; correct or remove it", file.display())
                })?,
                Ok(None) => Folders::default(),
                Err(error) => {
                    return Err(format!("{} cannot be read: {error}", file.display()));
                }
            },
            None => Folders::default(),
        };
        let question = match operators.security.folder_trust {
            Some(false) => Question::Off,
            Some(true) | None => Question::Asked,
        };
        Ok(Judge {
            word: &self.word,
            question,
            folders,
        })
    }

    /// The operator's settings: those that come before a workspace's, and those that come after.
    fn operators_layers(&self, messages: &mut Vec<String>) -> (Vec<Layer>, Vec<Layer>) {
        let mut read = |origin, format, path: Option<&Path>| -> Option<Layer> {
            let path = path?;
            match read_plain(path, self.limits.settings_bytes) {
                Ok(text) => Some(Layer {
                    origin,
                    file: path.display().to_string(),
                    format,
                    text: text?,
                }),
                Err(error) => {
                    messages.push(format!("{} cannot be read: {error}", path.display()));
                    None
                }
            }
        };
        let paths = &self.paths;
        let user = paths.user("settings.json");
        let before = [
            read(
                Origin::SystemDefaults,
                Format::Json,
                Some(&paths.system_defaults),
            ),
            read(Origin::User, Format::Yaml, paths.user_yaml.as_deref()),
            read(Origin::User, Format::Json, user.as_deref()),
        ];
        let after = read(Origin::System, Format::Json, Some(&paths.system_settings));
        (
            before.into_iter().flatten().collect(),
            after.into_iter().collect(),
        )
    }

    fn workspace_layers(&self, workspace: &Path, messages: &mut Vec<String>) -> Vec<Layer> {
        // Someone who works in the home directory itself has one file for both.
        if self.is_home(workspace) {
            return Vec::new();
        }
        let mut layers = Vec::new();
        for (name, format) in [
            (".gemini/config.yaml", Format::Yaml),
            (".gemini/settings.json", Format::Json),
        ] {
            match read_inside(workspace, name, self.limits.settings_bytes) {
                Ok(Some(file)) => layers.push(Layer {
                    origin: Origin::Workspace,
                    file: workspace.join(name).display().to_string(),
                    format,
                    text: file.text,
                }),
                Ok(None) => {}
                Err(why) => messages.push(format!("{why}; it is not used")),
            }
        }
        layers
    }

    /// The first file of variables there is: from the workspace upwards as far as trust goes, then the user's own.
    fn variables(
        &self,
        workspace: &Path,
        judge: &Judge,
        operators: &Settings,
        messages: &mut Vec<String>,
    ) -> Variables {
        let trusted = workspace
            .ancestors()
            .take_while(|dir| judge.of(dir) == Trust::Trusted);
        let above = trusted.take_while(|dir| !self.is_home(dir));
        for dir in above {
            for name in [".gemini/.env", ".env"] {
                let file = match read_inside(dir, name, self.limits.settings_bytes) {
                    Ok(Some(file)) if dir == workspace || file.is_ours => file,
                    Ok(_) => continue,
                    Err(why) => {
                        messages.push(format!("{why}; it is not used"));
                        continue;
                    }
                };
                let excluded = |name: &str| {
                    NOT_FROM_PROJECTS.contains(&name)
                        || operators.excluded_env.iter().any(|e| e == name)
                };
                let path = dir.join(name);
                return variables(&path, &file.text, Owner::Workspace, &excluded, messages);
            }
        }
        let home = self.paths.home.iter();
        for path in home.flat_map(|home| [home.join(".gemini/.env"), home.join(".env")]) {
            match read_plain(&path, self.limits.settings_bytes) {
                Ok(Some(text)) => {
                    return variables(&path, &text, Owner::User, &|_| false, messages);
                }
                Ok(None) => {}
                Err(error) => messages.push(format!("{} cannot be read: {error}", path.display())),
            }
        }
        Variables::default()
    }

    /// Policies in TOML are of another program; nobody should believe that they hold here.
    fn name_unread_policies(
        &self,
        workspace: &Path,
        trust: Trust,
        settings: &Settings,
        messages: &mut Vec<String>,
    ) {
        let mut folders = vec![self.paths.system_policies.clone()];
        folders.extend(self.paths.user("policies"));
        folders.extend(settings.policy_paths.iter().map(PathBuf::from));
        match trust {
            Trust::Trusted => folders.push(workspace.join(".gemini/policies")),
            Trust::Untrusted => {}
        }
        for path in folders {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            if path.is_file() {
                files.push(path);
            }
            files.retain(|file| file.extension().is_some_and(|end| end == "toml"));
            files.sort();
            messages.extend(files.iter().map(|file| {
                let file = file.display();
                format!(
                    "{file} is not read; write its rules as JSON into policy.rules in your settings"
                )
            }));
        }
    }

    fn is_home(&self, dir: &Path) -> bool {
        let home = self.paths.home.as_ref();
        home.is_some_and(|home| real(home) == dir)
    }
}

/// Decides about trust. Made for one look around: files change.
pub struct Judge<'a> {
    word: &'a Word,
    question: Question,
    folders: Folders,
}

impl Judge<'_> {
    pub fn of(&self, dir: &Path) -> Trust {
        trust::decide(dir, self.word, self.question, &self.folders)
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
    messages.extend(
        notices
            .iter()
            .map(|notice| format!("{}, line {}: {}", path.display(), notice.line, notice.text)),
    );
    let values = values.into_iter().filter(|(name, _)| !excluded(name));
    Variables {
        owner,
        values: values
            .map(|(name, value)| (name, Secret::new(value)))
            .collect(),
    }
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// A text file that was found in a tree.
pub struct Inside {
    pub id: (u64, u64),
    pub path: PathBuf,
    pub text: String,
    /// It belongs to us or to root.
    pub is_ours: bool,
}

impl Inside {
    pub fn into_memory(self) -> MemoryFile {
        MemoryFile {
            id: self.id,
            path: self.path,
            text: self.text,
        }
    }
}

/// Reads a text file in a directory, without leaving it. None when there is no such file; an error names what is wrong.
pub fn read_inside(dir: &Path, name: &str, most: u64) -> Result<Option<Inside>, String> {
    let wrong =
        |why: &dyn std::fmt::Display| format!("{} cannot be read: {why}", dir.join(name).display());
    let tree = match Workspace::open(dir) {
        Ok(tree) => tree,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(&error)),
    };
    read_found(&tree, name, most)
}

/// The same in a directory that is open already.
pub fn read_found(tree: &Workspace, name: &str, most: u64) -> Result<Option<Inside>, String> {
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
        Found::File(entry) => entry,
        Found::Directory(_) | Found::Nothing(_) => return Ok(None),
    };
    let read = entry.open().and_then(|file| {
        let meta = file.metadata()?;
        Ok(Inside {
            id: (meta.dev(), meta.ino()),
            path: PathBuf::from(spot.real()),
            text: text_of(file, most)?,
            is_ours: meta.uid() == 0 || meta.uid() == sys::effective_uid(),
        })
    });
    read.map(Some)
        .map_err(|error| format!("{shown} cannot be read: {error}"))
}

/// Reads a file of the operator's, wherever its links lead. None when there is none.
pub fn read_plain(path: &Path, most: u64) -> io::Result<Option<String>> {
    let kind = match std::fs::metadata(path) {
        Ok(meta) => meta.file_type(),
        Err(error) if is_absence(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if kind.is_dir() {
        return Ok(None);
    }
    if !kind.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    text_of(File::open(path)?, most).map(Some)
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn text_of(file: File, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("it is larger than {most} bytes");
        return Err(io::Error::other(text));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}
