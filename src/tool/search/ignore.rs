//! Which files are hidden from tools: by `.gitignore` files as git reads them, by `.geminiignore` in the root of the workspace, and by
//! further ignore files that the operator names.
//!
//! Git's ignore files apply only inside a repository: from its root, which may be above the workspace, down to each directory. The
//! nearest file decides; `.git/info/exclude` comes last. A directory with its own `.git` begins a new repository, to which the rules
//! outside do not apply. `.geminiignore` has priority over git's files, and the operator's files over that, the last one first: each may
//! hide what git shows, or show what git hides. Everything in a hidden directory is hidden.
//!
//! Ignore files are not read through links, as in git: a link could turn any file of the machine into patterns, and what they hide
//! would reveal its content. The exclude file of a linked worktree is not read for the same reason: a file in the tree names it. Git's
//! global ignore file is not read; it belongs to the user, not to the project.

use crate::limits::Limits;
use crate::tool::files::open::{DIRECTORY_PATH, regular_file};
use crate::tool::files::path::{PathTarget, Workspace};
use crate::tool::search::listing::{Listing, file_name};
use crate::tool::search::wildcard::Wildcard;
use rustix::fs::{AtFlags, Mode, OFlags};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The patterns of one ignore file.
#[derive(Debug)]
pub struct IgnoreFile(Vec<Pattern>);

#[derive(Debug)]
struct Pattern {
    decision: Decision,
    /// The pattern ends with a slash.
    directories_only: bool,
    /// The pattern has a slash before its end, so it is compared with paths and not with names.
    of_paths: bool,
    wildcard: Wildcard,
}

/// Whether a pattern hides an entry or shows one that an earlier pattern hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Hide,
    Show,
}

/// The kind of an entry. Links count as files, because their targets have names of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
}

/// Which ignore files apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgnoreSources {
    pub git: bool,
    /// `.geminiignore` and the operator's files.
    pub gemini: bool,
}

impl IgnoreSources {
    pub const ALL: IgnoreSources = IgnoreSources { git: true, gemini: true };
    pub const NONE: IgnoreSources = IgnoreSources { git: false, gemini: false };

    /// The choice in the arguments of a call, and `default` for options that the call does not set.
    pub fn from_options(options: &Value, default: IgnoreSources) -> IgnoreSources {
        let flag = |name: &str, default| options.get(name).and_then(Value::as_bool).unwrap_or(default);
        IgnoreSources {
            git: flag("respect_git_ignore", default.git),
            gemini: flag("respect_gemini_ignore", default.gemini),
        }
    }
}

/// The rules that apply in one directory. Cheap to clone: a directory adds to the rules of its parent.
#[derive(Clone)]
pub struct Rules {
    git: bool,
    in_repository: bool,
    /// The nearest of git's files; it refers to those of the outer directories.
    nearest: Option<Arc<Layer>>,
    /// The files with priority over git's, highest priority first.
    overriding: Arc<[IgnoreFile]>,
    /// The path from the repository that contains the workspace to the workspace, with a final slash. Empty if there is none.
    above: Arc<[u8]>,
    file_bytes: u64,
}

struct Layer {
    file: IgnoreFile,
    /// Length of the path of the file's directory, from the beginning of [`Rules::above`] and with a final slash.
    base: usize,
    outer: Option<Arc<Layer>>,
}

impl IgnoreFile {
    pub fn parse(bytes: &[u8]) -> IgnoreFile {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let patterns = bytes.split(|byte| *byte == b'\n').filter_map(Pattern::parse);
        IgnoreFile(patterns.collect())
    }

    /// The decision of the last pattern that matches. The path is relative to the directory of the file.
    pub fn decision(&self, path: &[u8], kind: EntryKind) -> Option<Decision> {
        let name = file_name(path);
        let fits = |pattern: &&Pattern| {
            let text = if pattern.of_paths { path } else { name };
            (!pattern.directories_only || kind == EntryKind::Directory) && pattern.wildcard.matches(text)
        };
        self.0.iter().rev().find(fits).map(|pattern| pattern.decision)
    }
}

impl Pattern {
    /// None for comments, empty lines, and patterns that can never match.
    fn parse(line: &[u8]) -> Option<Pattern> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // A NUL ends the line for git, which reads C strings.
        let line = line.split(|byte| *byte == 0).next().unwrap_or(line);
        if line.starts_with(b"#") {
            return None;
        }
        let line = without_trailing_spaces(line);
        let (decision, rest) = match line.strip_prefix(b"!") {
            Some(rest) => (Decision::Show, rest),
            None => (Decision::Hide, line),
        };
        let text = rest.strip_suffix(b"/").unwrap_or(rest);
        if text.is_empty() {
            return None;
        }
        let of_paths = text.contains(&b'/');
        let wildcard = match of_paths {
            true => Wildcard::git_path(text.strip_prefix(b"/").unwrap_or(text))?,
            false => Wildcard::git_name(text)?,
        };
        Some(Pattern { decision, directories_only: text.len() < rest.len(), of_paths, wildcard })
    }
}

/// Removes spaces at the end, unless the first of them is escaped.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => {}
            b'\\' if at + 1 == line.len() => return line,
            b'\\' => {
                at += 1;
                end = at + 1;
            }
            _ => end = at + 1,
        }
        at += 1;
    }
    &line[..end]
}

impl Rules {
    /// The rules that apply to the workspace directory itself. Its own ignore files are added when it is entered.
    pub fn around(workspace: &Workspace, sources: IgnoreSources, limits: &Limits) -> Rules {
        let overriding = if sources.gemini { overriding(workspace, limits.ignore_bytes) } else { Vec::new() };
        let mut rules = Rules {
            git: sources.git,
            in_repository: false,
            nearest: None,
            overriding: overriding.into(),
            above: Arc::new([]),
            file_bytes: limits.ignore_bytes,
        };
        if sources.git {
            rules.take_from_above(workspace);
        }
        rules
    }

    /// The rules that apply to a directory of the workspace; None if the directory itself is hidden. It need not exist: a result must not
    /// reveal whether a hidden file exists.
    pub fn at(workspace: &Workspace, dir: &Path, sources: IgnoreSources, limits: &Limits) -> Option<Rules> {
        let mut rules = Rules::around(workspace, sources, limits);
        let mut parent = PathBuf::new();
        for component in dir.components() {
            let Component::Normal(name) = component else {
                continue;
            };
            rules = rules.look_into(workspace, &parent);
            parent.push(name);
            if rules.hide(parent.as_os_str().as_bytes(), EntryKind::Directory) {
                return None;
            }
        }
        Some(rules)
    }

    /// Whether a file is hidden. `path` is relative to the workspace.
    pub fn hide_file(workspace: &Workspace, path: &Path, sources: IgnoreSources, limits: &Limits) -> bool {
        let parent = path.parent().unwrap_or(Path::new(""));
        match Rules::at(workspace, parent, sources, limits) {
            None => true,
            Some(around) => around.look_into(workspace, parent).hide(path.as_os_str().as_bytes(), EntryKind::File),
        }
    }

    /// Enters a directory by its path, if it exists.
    fn look_into(self, workspace: &Workspace, path: &Path) -> Rules {
        match workspace.find_listed(path).map(|resolved| resolved.found) {
            Some(PathTarget::Directory(dir)) => self.enter(dir.as_fd(), path.as_os_str().as_bytes(), None),
            Some(PathTarget::File(_) | PathTarget::Nothing(_)) | None => self,
        }
    }

    /// The rules in a directory, given those around it. `path` is its path in the workspace. With a listing of the directory, ignore files
    /// that do not exist need not be looked up.
    pub fn enter(&self, dir: BorrowedFd, path: &[u8], listing: Option<&Listing>) -> Rules {
        let mut rules = self.clone();
        if !self.git {
            return rules;
        }
        let has = |name: &str| listing.map_or_else(|| exists(dir, name), |listing| listing.has(name));
        let base = self.above.len() + if path.is_empty() { 0 } else { path.len() + 1 };
        if has(".git") {
            rules.in_repository = true;
            rules.nearest = None;
            rules.push(exclude_file(dir, self.file_bytes), base);
        }
        if rules.in_repository && has(".gitignore") {
            rules.push(load(dir, ".gitignore", self.file_bytes), base);
        }
        rules
    }

    /// Whether an entry of this directory is hidden.
    pub fn hide(&self, path: &[u8], kind: EntryKind) -> bool {
        let name = file_name(path);
        if self.git && name == b".git" {
            return true;
        }
        let decision = self.overriding.iter().find_map(|file| file.decision(path, kind));
        decision.or_else(|| self.git_decision(path, kind)) == Some(Decision::Hide)
    }

    fn git_decision(&self, path: &[u8], kind: EntryKind) -> Option<Decision> {
        let whole;
        let path = if self.above.is_empty() {
            path
        } else {
            whole = [&self.above, path].concat();
            &whole
        };
        let mut layers = std::iter::successors(self.nearest.as_deref(), |layer| layer.outer.as_deref());
        layers.find_map(|layer| layer.file.decision(&path[layer.base..], kind))
    }

    fn push(&mut self, file: Option<IgnoreFile>, base: usize) {
        if let Some(file) = file.filter(|file| !file.0.is_empty()) {
            self.nearest = Some(Arc::new(Layer { file, base, outer: self.nearest.take() }));
        }
    }

    /// Adds the rules of a repository that begins above the workspace. Tools cannot change the directories there, so they may be opened by
    /// their paths.
    fn take_from_above(&mut self, workspace: &Workspace) {
        if exists(workspace.dir.as_fd(), ".git") {
            return;
        }
        let mut dirs = Vec::new();
        let is_root = |dir: &Path| {
            let fd = rustix::fs::open(dir, DIRECTORY_PATH, Mode::empty()).ok()?;
            let is_root = exists(fd.as_fd(), ".git");
            dirs.push((dir.to_path_buf(), fd));
            Some(is_root)
        };
        if !workspace.path().ancestors().skip(1).map_while(is_root).any(|is_root| is_root) {
            return;
        }
        self.in_repository = true;
        for (dir, fd) in dirs.iter().rev() {
            let lead = workspace.path().strip_prefix(dir).expect("it is an ancestor");
            let lead = [lead.as_os_str().as_bytes(), b"/"].concat();
            if self.above.is_empty() {
                self.above = lead.clone().into();
                self.push(exclude_file(fd.as_fd(), self.file_bytes), 0);
            }
            self.push(load(fd.as_fd(), ".gitignore", self.file_bytes), self.above.len() - lead.len());
        }
    }
}

fn exists(dir: BorrowedFd, name: &str) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// The files with priority over git's, highest priority first.
fn overriding(workspace: &Workspace, most: u64) -> Vec<IgnoreFile> {
    let named = workspace.ignore_files.iter().rev().filter_map(|path| {
        // The operator may name any file, also by a link. Opening a pipe must not wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::open(workspace.path().join(path), flags, Mode::empty()).ok()?;
        let file = File::from(fd);
        file.metadata().ok().filter(|metadata| metadata.is_file())?;
        read(file, most)
    });
    let own = load(workspace.dir.as_fd(), ".geminiignore", most);
    named.chain(own).collect()
}

fn exclude_file(dir: BorrowedFd, most: u64) -> Option<IgnoreFile> {
    let flags = DIRECTORY_PATH | OFlags::NOFOLLOW;
    let git = rustix::fs::openat(dir, ".git", flags, Mode::empty()).ok()?;
    let info = rustix::fs::openat(&git, "info", flags, Mode::empty()).ok()?;
    load(info.as_fd(), "exclude", most)
}

fn load(dir: BorrowedFd, name: &str, most: u64) -> Option<IgnoreFile> {
    read(regular_file(dir, name).ok()?.0, most)
}

/// Only the beginning of a file that is too large is used.
fn read(file: File, most: u64) -> Option<IgnoreFile> {
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(IgnoreFile::parse(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;
    use std::os::unix::fs::symlink;

    fn hides(workspace: &Workspace, path: &str) -> bool {
        Rules::hide_file(workspace, Path::new(path), IgnoreSources::ALL, &Limits::default())
    }

    fn workspace(scratch: &Scratch, files: &[(&str, &str)]) -> Workspace {
        for (name, text) in files {
            scratch.put(name, text);
        }
        Workspace::open(scratch.path()).expect("it opens")
    }

    #[test]
    fn later_files_have_priority_over_earlier_ones() {
        let scratch = Scratch::new();
        let files = [
            (".git/HEAD", ""),
            (".gitignore", "a\nb\nc\nd\n"),
            (".geminiignore", "!b\n!c\n!d\ne\nf\n"),
            ("one", "c\n!e\n"),
            ("deep/two", "!f\nd\n"),
        ];
        let mut workspace = workspace(&scratch, &files);
        let hidden = |workspace: &Workspace| -> String {
            let all = ["a", "b", "c", "d", "e", "f", "g"];
            all.into_iter().filter(|name| hides(workspace, name)).collect()
        };
        assert_eq!(hidden(&workspace), "aef");
        let absolute = scratch.path().join("deep/two");
        let missing = "nowhere".into();
        workspace.ignore_files = vec!["one".into(), absolute, missing];
        assert_eq!(hidden(&workspace), "acd");
    }

    #[test]
    fn gitignore_applies_only_in_a_repository_and_a_nested_repository_has_its_own_rules() {
        let scratch = Scratch::new();
        let files = [
            (".gitignore", "x\n"),
            ("repo/.git/HEAD", ""),
            ("repo/.git/info/exclude", "e\n"),
            ("repo/.gitignore", "y\n/inner/z\n"),
            ("repo/inner/.git", "gitdir: elsewhere\n"),
            ("repo/inner/.gitignore", "w\n"),
        ];
        let workspace = workspace(&scratch, &files);
        let table = [
            ("x", false),
            ("repo/x", false),
            ("repo/y", true),
            ("repo/sub/y", true),
            ("repo/sub/e", true),
            ("repo/inner/y", false),
            ("repo/inner/z", false),
            ("repo/inner/e", false),
            ("repo/inner/w", true),
            ("repo/w", false),
            ("repo/.git/HEAD", true),
        ];
        for (path, expected) in table {
            assert_eq!(hides(&workspace, path), expected, "{path}");
        }
    }

    #[test]
    fn ignore_files_are_not_read_through_links() {
        let scratch = Scratch::new();
        let files = [(".git/HEAD", ""), ("patterns", "a\n"), ("d/b", "")];
        let workspace = workspace(&scratch, &files);
        for name in [".gitignore", ".geminiignore", "d/.gitignore"] {
            symlink(scratch.path().join("patterns"), scratch.path().join(name)).expect("links can be made");
        }
        assert!(!hides(&workspace, "a"));
        assert!(!hides(&workspace, "d/a"));
    }

    #[test]
    fn only_the_beginning_of_a_large_file_is_used() {
        let scratch = Scratch::new();
        let workspace = workspace(&scratch, &[(".geminiignore", "abc\ndef\n")]);
        let limits = Limits { ignore_bytes: 4, ..Limits::default() };
        let hides = |name: &str| Rules::hide_file(&workspace, Path::new(name), IgnoreSources::ALL, &limits);
        assert!(hides("abc"));
        assert!(!hides("def"));
    }
}
