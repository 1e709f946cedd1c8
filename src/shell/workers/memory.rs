//! Finds and reads memory files: the user's own, and those of a trusted project from its root down to the workspace.
//!
//! A project's root is the nearest directory above with a marker in it (`.git`); without one it is the workspace itself. The
//! search goes up only through directories that are trusted themselves, so a marker planted above a workspace gains nothing.
//! Files and their imports are opened without leaving the project, or, for the user's own, the user's `.gemini`.

use crate::config::settings::Settings;
use crate::config::trust::Trust;
use crate::limits::Limits;
use crate::model::memory::{self, File, Memory};
use crate::shell::start::workspace_settings::{read_found, read_plain};
use crate::tool::files::path::Workspace;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What memory files are called unless the settings say otherwise.
pub const DEFAULT_NAME: &str = "GEMINI.md";
const DEFAULT_MARKER: &str = ".git";

/// Where memory is looked for.
pub struct Search<'a> {
    /// The user's `.gemini`.
    pub user: Option<PathBuf>,
    /// The real path of the workspace.
    pub workspace: &'a Path,
    pub settings: &'a Settings,
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
    if (search.trust)(search.workspace) == Trust::Trusted {
        let root = project_root(search);
        let mut dirs: Vec<&Path> = search.workspace.ancestors().take_while(|dir| dir.starts_with(&root)).collect();
        dirs.reverse();
        reader.memory.project = reader.of_directories(&root, dirs.into_iter(), &names);
    }
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
    let text = reader.of_directories(search.workspace, dirs, &names(search));
    (text, reader.messages)
}

fn names(search: &Search) -> Vec<String> {
    match search.settings.context.file_names.as_slice() {
        [] => vec![DEFAULT_NAME.to_owned()],
        given => given.to_vec(),
    }
}

struct Reader<'a> {
    limits: &'a Limits,
    /// Files that are part of it already, whatever they are called.
    seen: HashSet<(u64, u64)>,
    /// How much more may be read.
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
                    self.tell(format!("{} is not remembered: {error}", path.display()));
                    continue;
                }
            };
            let id = std::fs::metadata(&path).map_or((0, 0), |meta| (meta.dev(), meta.ino()));
            let tree = Workspace::open(dir).ok();
            blocks.extend(self.block(File { id, path, text }, tree.as_ref()));
        }
        framed(&blocks)
    }

    /// The files in these directories, which are in the tree below `root`.
    fn of_directories<'d>(&mut self, root: &Path, dirs: impl Iterator<Item = &'d Path>, names: &[String]) -> String {
        let tree = match Workspace::open(root) {
            Ok(tree) => tree,
            Err(error) => {
                self.tell(format!("{} cannot be opened: {error}", root.display()));
                return String::new();
            }
        };
        let mut blocks = Vec::new();
        for path in dirs.flat_map(|dir| names.iter().map(|name| dir.join(name))) {
            let Some(name) = path.to_str() else { continue };
            match read_found(&tree, name, self.limits.memory_file_bytes) {
                Ok(Some(found)) => blocks.extend(self.block(found.file, Some(&tree))),
                Ok(None) => {}
                Err(why) => self.tell(format!("{why}; it is not remembered")),
            }
        }
        framed(&blocks)
    }

    /// A file with its imports, which are looked for in the tree. None for one that is known or too much.
    fn block(&mut self, file: File, tree: Option<&Workspace>) -> Option<(PathBuf, String)> {
        if !self.seen.insert(file.id) {
            return None;
        }
        if let Err(why) = self.charge(&file) {
            self.tell(format!("{} is not remembered: {why}", file.path.display()));
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
            (None, _) | (_, None) => Err("there is too much to remember".into()),
        }
    }

    fn tell(&mut self, message: String) {
        self.messages.push(message);
    }
}

/// Relative paths start at the file they are written in.
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
    use crate::tool::tests::Scratch;
    use std::os::unix::fs::symlink;

    struct Rig {
        scratch: Scratch,
        settings: Settings,
        limits: Limits,
    }

    impl Rig {
        fn new() -> Rig {
            Rig { scratch: Scratch::new(), settings: Settings::default(), limits: Limits::default() }
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
    fn the_outermost_comes_first_and_the_users_is_apart() {
        let rig = Rig::new();
        rig.scratch.put("home/.gemini/GEMINI.md", "mine @./more.md");
        rig.scratch.put("home/.gemini/more.md", "more");
        rig.scratch.put("GEMINI.md", "outside of the project");
        rig.scratch.put("repo/.git/HEAD", "");
        rig.scratch.put("repo/GEMINI.md", "root");
        rig.scratch.put("repo/sub/GEMINI.md", "sub @../doc/a.md");
        rig.scratch.put("repo/doc/a.md", "imported");
        let (memory, messages) = rig.read("");
        assert_eq!(messages, Vec::<String>::new());
        let inner = rig.block("repo/doc/a.md", "imported");
        let more = rig.block("home/.gemini/more.md", "more");
        let path = |name: &str| rig.scratch.path().join(name);
        assert_eq!(
            memory,
            Memory {
                system: rig.block("home/.gemini/GEMINI.md", &format!("mine {more}")),
                project: format!(
                    "{}\n\n{}",
                    rig.block("repo/GEMINI.md", "root"),
                    rig.block("repo/sub/GEMINI.md", &format!("sub {inner}"))
                ),
                files: vec![path("home/.gemini/GEMINI.md"), path("repo/GEMINI.md"), path("repo/sub/GEMINI.md"),],
            }
        );
    }

    #[test]
    fn trust_ends_the_search() {
        let rig = Rig::new();
        rig.scratch.put("home/.gemini/GEMINI.md", "mine");
        rig.scratch.put("repo/.git/HEAD", "");
        rig.scratch.put("repo/GEMINI.md", "root");
        rig.scratch.put("repo/sub/GEMINI.md", "sub");
        let mine = rig.block("home/.gemini/GEMINI.md", "mine");
        let sub = rig.block("repo/sub/GEMINI.md", "sub");
        let of = |trusted: &str| {
            let (memory, _) = rig.read(trusted);
            (memory.system, memory.project)
        };
        assert_eq!(of("elsewhere"), (mine.clone(), String::new()));
        assert_eq!(of("repo/sub"), (mine, sub));
    }

    #[test]
    fn directories_below_the_workspace_are_read_if_they_are_trusted() {
        let rig = Rig::new();
        rig.scratch.put("repo/sub/a/GEMINI.md", "in a @./more.md");
        rig.scratch.put("repo/sub/a/more.md", "more");
        rig.scratch.put("repo/sub/a/b/GEMINI.md", "in b");
        let root = rig.scratch.path();
        let (workspace, a) = (root.join("repo/sub"), root.join("repo/sub/a"));
        let of = |trusted: &dyn Fn(&Path) -> bool| {
            let trust = |dir: &Path| if trusted(dir) { Trust::Trusted } else { Trust::Untrusted };
            let (settings, limits) = (&rig.settings, &rig.limits);
            let search = Search { user: None, workspace: &workspace, settings, trust: &trust, limits };
            read_below(&search, &[a.clone(), a.join("b"), a.join("none")])
        };
        let more = rig.block("repo/sub/a/more.md", "more");
        let (one, two) =
            (rig.block("repo/sub/a/GEMINI.md", &format!("in a {more}")), rig.block("repo/sub/a/b/GEMINI.md", "in b"));
        assert_eq!(of(&|_| true), (format!("{one}\n\n{two}"), vec![]));
        assert_eq!(of(&|dir| !dir.ends_with("b")), (one, vec![]));
        assert_eq!(of(&|dir| dir != workspace), Default::default());
    }

    #[test]
    fn nothing_outside_of_the_project_is_read() {
        let rig = Rig::new();
        let secret = rig.scratch.put("secret.md", "s3cret");
        rig.scratch.put("repo/.git/HEAD", "");
        rig.scratch.put("repo/real.md", "real");
        let secret = secret.to_str().expect("plain");
        rig.scratch.put("repo/GEMINI.md", format!("@../secret.md @{secret} @./link.md @./dir.md @./none.md"));
        std::fs::create_dir_all(rig.scratch.path().join("repo/dir.md")).expect("a directory");
        std::fs::create_dir_all(rig.scratch.path().join("repo/sub")).expect("a directory");
        symlink("../secret.md", rig.scratch.path().join("repo/link.md")).expect("a link");
        symlink("../../secret.md", rig.scratch.path().join("repo/sub/GEMINI.md")).expect("a link");
        let (memory, messages) = rig.read("");
        assert!(!memory.project.contains("s3cret"), "{}", memory.project);
        assert_eq!(messages.len(), 6, "{messages:#?}");
        // A link inside is fine, and the same file does not come twice.
        std::fs::remove_file(rig.scratch.path().join("repo/sub/GEMINI.md")).expect("the link");
        rig.scratch.put("repo/GEMINI.md", "root");
        symlink("../GEMINI.md", rig.scratch.path().join("repo/sub/GEMINI.md")).expect("a link");
        assert_eq!(rig.read("").0.project, rig.block("repo/GEMINI.md", "root"));
    }

    #[test]
    fn names_come_from_the_settings_and_size_is_limited() {
        let mut rig = Rig::new();
        rig.settings.context.file_names = vec!["AGENTS.md".into(), "GEMINI.md".into()];
        rig.scratch.put("repo/sub/AGENTS.md", "1234567");
        rig.scratch.put("repo/sub/GEMINI.md", "89");
        let both =
            format!("{}\n\n{}", rig.block("repo/sub/AGENTS.md", "1234567"), rig.block("repo/sub/GEMINI.md", "89"));
        rig.limits.memory_bytes = 9;
        rig.limits.memory_file_bytes = 7;
        assert_eq!(
            rig.read(""),
            (
                Memory {
                    system: String::new(),
                    project: both,
                    files: vec![
                        rig.scratch.path().join("repo/sub/AGENTS.md"),
                        rig.scratch.path().join("repo/sub/GEMINI.md"),
                    ],
                },
                vec![],
            )
        );
        rig.limits.memory_bytes = 8;
        assert_eq!(rig.read("").0.project, rig.block("repo/sub/AGENTS.md", "1234567"));
        rig.limits.memory_file_bytes = 6;
        let (memory, messages) = rig.read("");
        assert_eq!(memory.project, rig.block("repo/sub/GEMINI.md", "89"));
        assert_eq!(messages.len(), 1);
    }
}
