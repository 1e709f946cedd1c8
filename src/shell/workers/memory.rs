//! Finds and reads memory files: the user's own, those of extensions, and those of a trusted project from its root down to the
//! workspace.
//!
//! A project's root is the nearest directory above with a marker in it (`.git`); without one it is the workspace itself. The
//! search goes up only through directories that are trusted themselves, so a marker that somebody has put above a workspace has no effect.
//! Files and their imports are opened without leaving the project, or, for the user's own, the user's `.gemini`.

use crate::config::definitions::extension::Extension;
use crate::config::settings::Settings;
use crate::config::trust::Trust;
use crate::limits::Limits;
use crate::model::memory::{self, File, Memory};
use crate::shell::start::workspace_settings::{read_found, read_plain};
use crate::tool::files::path::Workspace;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of memory files if the settings give none.
pub const DEFAULT_NAME: &str = "GEMINI.md";
const DEFAULT_MARKER: &str = ".git";

/// The directories in which memory files are searched.
pub struct Search<'a> {
    /// The user's `.gemini`.
    pub user: Option<PathBuf>,
    /// The real path of the workspace.
    pub workspace: &'a Path,
    pub settings: &'a Settings,
    /// The extensions in use, which may have memory files.
    pub extensions: &'a [Extension],
    /// Decides about the workspace and the directories above it.
    pub trust: &'a dyn Fn(&Path) -> Trust,
    pub limits: &'a Limits,
}

/// The memory, and messages for the user about it.
pub fn read(search: &Search) -> (Memory, Vec<String>) {
    let (mut reader, names) = (Reader::new(search), names(search));
    if let Some(dir) = &search.user {
        reader.memory.system = reader.users(dir, &names);
    }
    let mut blocks = reader.of_extensions(search.extensions);
    if (search.trust)(search.workspace) == Trust::Trusted {
        let root = project_root(search);
        let mut dirs: Vec<&Path> = search.workspace.ancestors().take_while(|dir| dir.starts_with(&root)).collect();
        dirs.reverse();
        blocks.extend(reader.of_directories(&root, dirs.into_iter(), &names));
    }
    reader.memory.project = framed(&blocks);
    (reader.memory, reader.messages)
}

/// The memory files of directories below the workspace, if it is trusted and they are too.
pub fn read_below(search: &Search, dirs: &[PathBuf]) -> (String, Vec<String>) {
    let mut reader = Reader::new(search);
    let is_trusted = |dir: &Path| (search.trust)(dir) == Trust::Trusted;
    if !is_trusted(search.workspace) {
        return Default::default();
    }
    let dirs = dirs.iter().map(PathBuf::as_path).filter(|dir| is_trusted(dir));
    let blocks = reader.of_directories(search.workspace, dirs, &names(search));
    (framed(&blocks), reader.messages)
}

fn names(search: &Search) -> Vec<String> {
    match search.settings.context.file_names.as_slice() {
        [] => vec![DEFAULT_NAME.to_owned()],
        given => given.to_vec(),
    }
}

struct Reader<'a> {
    limits: &'a Limits,
    /// Device and inode of the files that are part of the memory already.
    seen: HashSet<(u64, u64)>,
    /// How many more bytes and files may be read.
    bytes: usize,
    files: usize,
    messages: Vec<String>,
    memory: Memory,
}

impl Reader<'_> {
    fn new<'a>(search: &Search<'a>) -> Reader<'a> {
        Reader {
            limits: search.limits,
            seen: HashSet::new(),
            bytes: search.limits.memory_bytes,
            files: search.limits.memory_files,
            messages: Vec::new(),
            memory: Memory::default(),
        }
    }

    fn users(&mut self, dir: &Path, names: &[String]) -> String {
        let mut blocks = Vec::new();
        for name in names {
            let path = dir.join(name);
            let text = match read_plain(&path, self.limits.memory_file_bytes) {
                Ok(Some(text)) => text,
                Ok(None) => continue,
                Err(error) => {
                    self.add_message(format!("{} is not used as memory: {error}", path.display()));
                    continue;
                }
            };
            let id = std::fs::metadata(&path).map_or((0, 0), |meta| (meta.dev(), meta.ino()));
            let tree = Workspace::open(dir).ok();
            blocks.extend(self.block(File { id, path, text }, tree.as_ref()));
        }
        framed(&blocks)
    }

    fn of_extensions(&mut self, extensions: &[Extension]) -> Vec<(PathBuf, String)> {
        let mut blocks = Vec::new();
        for (extension, name) in extensions.iter().flat_map(|e| e.context_files.iter().map(move |name| (e, name))) {
            let tree = Workspace::open(&extension.dir).map_err(|error| error.to_string());
            let found = tree.and_then(|tree| Ok((read_found(&tree, name, self.limits.memory_file_bytes)?, tree)));
            match found {
                Ok((Some(found), tree)) => blocks.extend(self.block(found.file, Some(&tree))),
                Ok((None, _)) => {}
                Err(why) => {
                    self.add_message(format!("the extension {}: {why}; it is not used as memory", extension.name))
                }
            }
        }
        blocks
    }

    /// The memory files in these directories, which are below `root`.
    fn of_directories<'d>(
        &mut self,
        root: &Path,
        dirs: impl Iterator<Item = &'d Path>,
        names: &[String],
    ) -> Vec<(PathBuf, String)> {
        let mut blocks = Vec::new();
        let tree = match Workspace::open(root) {
            Ok(tree) => tree,
            Err(error) => {
                self.add_message(format!("{} cannot be opened: {error}", root.display()));
                return blocks;
            }
        };
        for path in dirs.flat_map(|dir| names.iter().map(|name| dir.join(name))) {
            let Some(name) = path.to_str() else { continue };
            match read_found(&tree, name, self.limits.memory_file_bytes) {
                Ok(Some(found)) => blocks.extend(self.block(found.file, Some(&tree))),
                Ok(None) => {}
                Err(why) => self.add_message(format!("{why}; it is not used as memory")),
            }
        }
        blocks
    }

    /// The text of a file with its imports, which are opened in `tree`. None if the file is part of the memory already, or if there is too
    /// much memory.
    fn block(&mut self, file: File, tree: Option<&Workspace>) -> Option<(PathBuf, String)> {
        if !self.seen.insert(file.id) {
            return None;
        }
        if let Err(why) = self.charge(&file) {
            self.add_message(format!("{} is not used as memory: {why}", file.path.display()));
            return None;
        }
        let depth = self.limits.import_depth;
        let (text, messages) = memory::expand(&file, depth, &mut |from, path| {
            let file = import(from, path, tree, self.limits)?;
            self.charge(&file)?;
            Ok(file)
        });
        self.messages.extend(messages);
        self.memory.files.push(file.path.clone());
        Some((file.path, text))
    }

    fn charge(&mut self, file: &File) -> Result<(), String> {
        let bytes = self.bytes.checked_sub(file.text.len());
        let files = self.files.checked_sub(1);
        match (bytes, files) {
            (Some(bytes), Some(files)) => {
                (self.bytes, self.files) = (bytes, files);
                Ok(())
            }
            (None, _) | (_, None) => Err("there are too many memory files, or they are too large together".into()),
        }
    }

    fn add_message(&mut self, message: String) {
        self.messages.push(message);
    }
}

/// Reads an imported file. A relative path starts at the directory of the file that imports it.
fn import(from: &File, path: &str, tree: Option<&Workspace>, limits: &Limits) -> Result<File, String> {
    let tree = tree.ok_or("its directory cannot be opened")?;
    let dir = from.path.parent().unwrap_or(Path::new("/"));
    let target = dir.join(path);
    let target = target.to_str().ok_or("its path is not UTF-8")?;
    let file = read_found(tree, target, limits.memory_file_bytes)?;
    file.map(|found| found.file).ok_or_else(|| "there is no such file".into())
}

/// The nearest trusted directory, from the workspace upwards, that holds a marker; else the workspace.
fn project_root(search: &Search) -> PathBuf {
    let given = &search.settings.context.boundary_markers;
    let default = [DEFAULT_MARKER.to_owned()];
    let markers = if given.is_empty() { &default } else { given.as_slice() };
    let marked = |dir: &&Path| markers.iter().any(|marker| dir.join(marker).symlink_metadata().is_ok());
    search
        .workspace
        .ancestors()
        .take_while(|dir| (search.trust)(dir) == Trust::Trusted)
        .find(marked)
        .unwrap_or(search.workspace)
        .to_path_buf()
}

fn framed(blocks: &[(PathBuf, String)]) -> String {
    let names: Vec<_> = blocks.iter().map(|(path, _)| path.to_string_lossy()).collect();
    let texts = blocks.iter().map(|(_, text)| text.as_str());
    memory::framed(names.iter().map(AsRef::as_ref).zip(texts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::definitions::extension::{ExtensionSource, ManifestPaths};
    use crate::tool::tests::Scratch;
    use std::os::unix::fs::symlink;

    struct Harness {
        scratch: Scratch,
        settings: Settings,
        limits: Limits,
    }

    impl Harness {
        fn new() -> Harness {
            Harness { scratch: Scratch::new(), settings: Settings::default(), limits: Limits::default() }
        }

        /// Reads for the workspace `repo/sub`, trusting everything below `trusted`.
        fn read(&self, trusted: &str) -> (Memory, Vec<String>) {
            let root = self.scratch.path();
            let workspace = root.join("repo/sub");
            std::fs::create_dir_all(&workspace).expect("a directory");
            let trusted = root.join(trusted);
            read(&Search {
                user: Some(root.join("home/.gemini")),
                workspace: &workspace,
                settings: &self.settings,
                extensions: &[],
                trust: &|dir| match dir.starts_with(&trusted) {
                    true => Trust::Trusted,
                    false => Trust::Untrusted,
                },
                limits: &self.limits,
            })
        }

        fn block(&self, name: &str, text: &str) -> String {
            let path = self.scratch.path().join(name);
            memory::framed([(path.to_str().expect("plain"), text)])
        }
    }

    #[test]
    fn outer_directories_come_first_and_the_users_memory_is_separate() {
        let harness = Harness::new();
        harness.scratch.put("home/.gemini/GEMINI.md", "mine @./more.md");
        harness.scratch.put("home/.gemini/more.md", "more");
        harness.scratch.put("GEMINI.md", "outside of the project");
        harness.scratch.put("repo/.git/HEAD", "");
        harness.scratch.put("repo/GEMINI.md", "root");
        harness.scratch.put("repo/sub/GEMINI.md", "sub @../doc/a.md");
        harness.scratch.put("repo/doc/a.md", "imported");
        let (memory, messages) = harness.read("");
        assert_eq!(messages, Vec::<String>::new());
        let inner = harness.block("repo/doc/a.md", "imported");
        let more = harness.block("home/.gemini/more.md", "more");
        let path = |name: &str| harness.scratch.path().join(name);
        assert_eq!(
            memory,
            Memory {
                system: harness.block("home/.gemini/GEMINI.md", &format!("mine {more}")),
                project: format!(
                    "{}\n\n{}",
                    harness.block("repo/GEMINI.md", "root"),
                    harness.block("repo/sub/GEMINI.md", &format!("sub {inner}"))
                ),
                files: vec![path("home/.gemini/GEMINI.md"), path("repo/GEMINI.md"), path("repo/sub/GEMINI.md"),],
            }
        );
    }

    #[test]
    fn the_search_ends_at_untrusted_directories() {
        let harness = Harness::new();
        harness.scratch.put("home/.gemini/GEMINI.md", "mine");
        harness.scratch.put("repo/.git/HEAD", "");
        harness.scratch.put("repo/GEMINI.md", "root");
        harness.scratch.put("repo/sub/GEMINI.md", "sub");
        let mine = harness.block("home/.gemini/GEMINI.md", "mine");
        let sub = harness.block("repo/sub/GEMINI.md", "sub");
        let of = |trusted: &str| {
            let (memory, _) = harness.read(trusted);
            (memory.system, memory.project)
        };
        assert_eq!(of("elsewhere"), (mine.clone(), String::new()));
        assert_eq!(of("repo/sub"), (mine, sub));
    }

    #[test]
    fn directories_below_the_workspace_are_read_if_they_are_trusted() {
        let harness = Harness::new();
        harness.scratch.put("repo/sub/a/GEMINI.md", "in a @./more.md");
        harness.scratch.put("repo/sub/a/more.md", "more");
        harness.scratch.put("repo/sub/a/b/GEMINI.md", "in b");
        let root = harness.scratch.path();
        let (workspace, a) = (root.join("repo/sub"), root.join("repo/sub/a"));
        let of = |trusted: &dyn Fn(&Path) -> bool| {
            let trust = |dir: &Path| if trusted(dir) { Trust::Trusted } else { Trust::Untrusted };
            let (settings, limits) = (&harness.settings, &harness.limits);
            let search = Search { user: None, workspace: &workspace, settings, extensions: &[], trust: &trust, limits };
            read_below(&search, &[a.clone(), a.join("b"), a.join("none")])
        };
        let more = harness.block("repo/sub/a/more.md", "more");
        let (one, two) = (
            harness.block("repo/sub/a/GEMINI.md", &format!("in a {more}")),
            harness.block("repo/sub/a/b/GEMINI.md", "in b"),
        );
        assert_eq!(of(&|_| true), (format!("{one}\n\n{two}"), vec![]));
        assert_eq!(of(&|dir| !dir.ends_with("b")), (one, vec![]));
        assert_eq!(of(&|dir| dir != workspace), Default::default());
    }

    #[test]
    fn nothing_outside_of_the_project_is_read() {
        let harness = Harness::new();
        let secret = harness.scratch.put("secret.md", "s3cret");
        harness.scratch.put("repo/.git/HEAD", "");
        harness.scratch.put("repo/real.md", "real");
        let secret = secret.to_str().expect("plain");
        harness.scratch.put("repo/GEMINI.md", format!("@../secret.md @{secret} @./link.md @./dir.md @./none.md"));
        std::fs::create_dir_all(harness.scratch.path().join("repo/dir.md")).expect("a directory");
        std::fs::create_dir_all(harness.scratch.path().join("repo/sub")).expect("a directory");
        symlink("../secret.md", harness.scratch.path().join("repo/link.md")).expect("a link");
        symlink("../../secret.md", harness.scratch.path().join("repo/sub/GEMINI.md")).expect("a link");
        let (memory, messages) = harness.read("");
        assert!(!memory.project.contains("s3cret"), "{}", memory.project);
        assert_eq!(messages.len(), 6, "{messages:#?}");
        // A link inside of the project is followed, and no file is read twice.
        std::fs::remove_file(harness.scratch.path().join("repo/sub/GEMINI.md")).expect("the link");
        harness.scratch.put("repo/GEMINI.md", "root");
        symlink("../GEMINI.md", harness.scratch.path().join("repo/sub/GEMINI.md")).expect("a link");
        assert_eq!(harness.read("").0.project, harness.block("repo/GEMINI.md", "root"));
    }

    #[test]
    fn extensions_come_before_the_project_and_stay_in_their_directories() {
        let harness = Harness::new();
        harness.scratch.put("repo/sub/GEMINI.md", "sub");
        harness.scratch.put("ext/GEMINI.md", "tools @./more.md");
        harness.scratch.put("ext/more.md", "more");
        harness.scratch.put("secret.md", "s3cret");
        symlink("../secret.md", harness.scratch.path().join("ext/link.md")).expect("a link");
        let root = harness.scratch.path();
        let text = r#"{"name": "e", "version": "1", "contextFileName": ["GEMINI.md", "link.md", "none.md"]}"#;
        let paths = ManifestPaths { extension: &root.join("ext"), workspace: &root.join("repo/sub") };
        let extensions = [Extension::parse(text, ExtensionSource::User, &paths).expect("a manifest").0];
        let (memory, messages) = read(&Search {
            user: None,
            workspace: &root.join("repo/sub"),
            settings: &harness.settings,
            extensions: &extensions,
            trust: &|_| Trust::Trusted,
            limits: &harness.limits,
        });
        let more = harness.block("ext/more.md", "more");
        let tools = harness.block("ext/GEMINI.md", &format!("tools {more}"));
        assert_eq!(memory.project, format!("{tools}\n\n{}", harness.block("repo/sub/GEMINI.md", "sub")));
        assert_eq!(messages.len(), 1, "{messages:?}");
    }

    #[test]
    fn names_come_from_the_settings_and_size_is_limited() {
        let mut harness = Harness::new();
        harness.settings.context.file_names = vec!["AGENTS.md".into(), "GEMINI.md".into()];
        harness.scratch.put("repo/sub/AGENTS.md", "1234567");
        harness.scratch.put("repo/sub/GEMINI.md", "89");
        let both = format!(
            "{}\n\n{}",
            harness.block("repo/sub/AGENTS.md", "1234567"),
            harness.block("repo/sub/GEMINI.md", "89")
        );
        harness.limits.memory_bytes = 9;
        harness.limits.memory_file_bytes = 7;
        assert_eq!(
            harness.read(""),
            (
                Memory {
                    system: String::new(),
                    project: both,
                    files: vec![
                        harness.scratch.path().join("repo/sub/AGENTS.md"),
                        harness.scratch.path().join("repo/sub/GEMINI.md"),
                    ],
                },
                vec![],
            )
        );
        harness.limits.memory_bytes = 8;
        assert_eq!(harness.read("").0.project, harness.block("repo/sub/AGENTS.md", "1234567"));
        harness.limits.memory_file_bytes = 6;
        let (memory, messages) = harness.read("");
        assert_eq!(memory.project, harness.block("repo/sub/GEMINI.md", "89"));
        assert_eq!(messages.len(), 1);
    }
}
