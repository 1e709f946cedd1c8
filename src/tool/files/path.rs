//! Paths that cannot leave the workspace, whatever their text is and however files are moved meanwhile.
//!
//! A path is not checked first and used later; it is resolved to open descriptors. From the open directory of the workspace, every
//! component is opened in the directory before it, without following links. Links are read and their components resolved in the same
//! way. `..` returns to the previous directory, which is still open. So no step can reach anything outside, also if a directory is
//! replaced by a link between two steps. `openat2(RESOLVE_BENEATH)` guarantees the same in one call, but it refuses absolute links into
//! the workspace, and it cannot say where a file that does not exist yet would be: writing needs the real parent and the real name.
//!
//! The result is a [`ResolvedPath`]: open descriptors and the real path, which is also the path that is reported.

mod resolve;

use crate::limits::{NAME_BYTES, PATH_BYTES};
use crate::task::spec::{CallError, ErrorKind};
use crate::tool::files::open::{self, DIRECTORY_PATH, check_regular, regular_file};
use crate::tool::search::ignore::IgnoreSources;
use crate::tool::{Ctx, invalid};
use resolve::{ResolveError, resolve_path};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A directory in which the agent works, as an open descriptor.
pub struct Workspace {
    pub(in crate::tool) dir: OwnedFd,
    path: PathBuf,
    /// The path by which it was opened: absolute paths may begin with it too.
    given: PathBuf,
    /// Ignore files that the operator names, absolute or relative to the workspace; later ones have priority.
    pub ignore_files: Vec<PathBuf>,
    /// Which ignore files apply by default.
    pub ignore_sources: IgnoreSources,
    extent: Extent,
}

/// The part of a directory that may be used.
#[derive(Clone)]
enum Extent {
    /// The whole directory. It is the workspace of the task, from which relative paths start.
    Workspace,
    /// The whole directory. It is a further directory, whose files are named by absolute paths.
    Further,
    /// The whole directory, but only for calls that read.
    ReadOnly,
    /// This file only, whose path is relative to the directory. It may also be named by the alias.
    File { below: PathBuf, alias: String },
}

/// A path in the workspace and what was found there.
pub struct ResolvedPath {
    real: PathBuf,
    /// The real path relative to the workspace; empty for the workspace itself.
    pub(in crate::tool) below: PathBuf,
    /// The path as it was given, without dots and relative to the workspace: links are not resolved.
    pub(in crate::tool) named: PathBuf,
    /// The real path as the model can use it: relative to the workspace, or absolute in other directories.
    shown: PathBuf,
    pub found: PathTarget,
}

/// What exists at a path.
pub enum PathTarget {
    Directory(OwnedFd),
    /// A file of any kind that is neither directory nor link.
    File(Entry),
    Nothing(MissingPath),
}

/// A name in an open directory.
pub struct Entry {
    pub(in crate::tool) dir: OwnedFd,
    pub(in crate::tool) name: OsString,
}

/// A file that does not exist, and perhaps some of its directories do not either.
pub struct MissingPath {
    dir: OwnedFd,
    parents: Vec<OsString>,
    name: OsString,
}

impl Workspace {
    pub fn open(path: &Path) -> io::Result<Workspace> {
        let dir = rustix::fs::open(path, DIRECTORY_PATH, Mode::empty())?;
        let link = format!("/proc/self/fd/{}", dir.as_raw_fd());
        let real = std::fs::read_link(link).or_else(|_| path.canonicalize())?;
        let (ignore_files, ignore_sources, extent) = (Vec::new(), IgnoreSources::ALL, Extent::Workspace);
        Ok(Workspace { dir, path: real, given: path.to_path_buf(), ignore_files, ignore_sources, extent })
    }

    /// A directory that the agent may use beside its workspace.
    pub fn further(path: &Path) -> io::Result<Workspace> {
        Ok(Workspace { extent: Extent::Further, ..Workspace::open(path)? })
    }

    /// A directory that the agent may only read.
    pub fn read_only(path: &Path) -> io::Result<Workspace> {
        Ok(Workspace { extent: Extent::ReadOnly, ..Workspace::open(path)? })
    }

    /// A single file that the agent may use beside its workspace, and write even if it does not exist yet.
    pub fn file(dir: &Path, below: impl Into<PathBuf>, alias: impl Into<String>) -> io::Result<Workspace> {
        let extent = Extent::File { below: below.into(), alias: alias.into() };
        Ok(Workspace { extent, ..Workspace::open(dir)? })
    }

    pub(in crate::tool) fn try_clone(&self) -> io::Result<Workspace> {
        Ok(Workspace {
            dir: self.dir.try_clone()?,
            path: self.path.clone(),
            given: self.given.clone(),
            ignore_files: self.ignore_files.clone(),
            ignore_sources: self.ignore_sources,
            extent: self.extent.clone(),
        })
    }

    /// Whether a path argument names something that may be used here, by an absolute path or an alias.
    pub(in crate::tool) fn has(&self, text: &str) -> bool {
        let path = from_uri(text.strip_prefix('@').unwrap_or(text)).unwrap_or_default();
        let inside = self.inside(Path::new(&path)).filter(|_| path.starts_with('/'));
        match &self.extent {
            Extent::Workspace | Extent::Further | Extent::ReadOnly => inside.is_some(),
            Extent::File { below, alias } => path == *alias || inside.as_ref() == Some(below),
        }
    }

    /// Whether this is a further directory that can be searched.
    pub(in crate::tool) fn is_further(&self) -> bool {
        matches!(self.extent, Extent::Further)
    }

    pub(in crate::tool) fn is_read_only(&self) -> bool {
        matches!(self.extent, Extent::ReadOnly)
    }

    fn real(&self, below: &Path) -> PathBuf {
        // Joining an empty path would add a slash at the end.
        if below.as_os_str().is_empty() { self.path.clone() } else { self.path.join(below) }
    }

    /// A path below the directory as the model can use it in calls.
    pub(in crate::tool) fn shown(&self, below: &Path) -> PathBuf {
        match self.extent {
            Extent::Workspace => below.to_path_buf(),
            Extent::Further | Extent::ReadOnly | Extent::File { .. } => self.real(below),
        }
    }

    /// The real path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Resolves a path that a listing returned. It may contain any characters.
    pub(in crate::tool) fn find_listed(&self, path: &Path) -> Option<ResolvedPath> {
        resolve_path(self, path).ok()
    }

    /// Resolves a path as a program would, without the forms that only prompts have. None if it cannot exist because a part of it is
    /// a file. If it is outside of the workspace or cannot be resolved, the error is a clause that follows the path.
    pub(in crate::tool) fn resolve(&self, path: &Path) -> Result<Option<ResolvedPath>, String> {
        let inside = self.inside(path).ok_or_else(|| "is outside of the workspace".to_owned())?;
        match resolve_path(self, &inside) {
            Ok(resolved) => Ok(Some(resolved)),
            Err(ResolveError::NotDirectory) => Ok(None),
            Err(ResolveError::Outside) => Err("leads out of the workspace".into()),
            Err(ResolveError::MissingParent) => Err("leads through a directory that is not there".into()),
            Err(error @ (ResolveError::Links | ResolveError::System(_))) => Err(error.to_string()),
        }
    }

    /// Resolves a path argument for reading.
    pub fn find(&self, text: &str) -> Result<ResolvedPath, CallError> {
        let path = self.named(text)?;
        let resolved = resolve_path(self, &path).map_err(|error| self.explain(text, error))?;
        match &self.extent {
            Extent::File { below, .. } if resolved.below != *below => Err(self.explain(text, ResolveError::Outside)),
            Extent::Workspace | Extent::Further | Extent::ReadOnly | Extent::File { .. } => Ok(resolved),
        }
    }

    /// Resolves a path argument for writing. Protected files are refused, by their real path or by the path of a link.
    pub fn find_writable(&self, text: &str) -> Result<ResolvedPath, CallError> {
        let (path, resolved) = (self.named(text)?, self.find(text)?);
        match protected(&resolved.below).or_else(|| protected(&path)) {
            None => Ok(resolved),
            Some(segment) => Err(ErrorKind::PolicyViolation.error(format!(
                    "{text} cannot be written: \"{segment}\" is protected. Choose another file, or ask the user to change it."
                ),
            )),
        }
    }

    /// A path argument as a path relative to the workspace.
    fn named(&self, text: &str) -> Result<PathBuf, CallError> {
        let decoded = from_uri(text)?;
        let text = decoded.as_str();
        check_form(text)?;
        if let Extent::File { below, alias } = &self.extent
            && text == alias
        {
            return Ok(below.clone());
        }
        // Prompts name files as `@src/x`, and shells the home directory as `~`. Files with such names have priority.
        let first = text.split('/').next().unwrap_or(text);
        let is_literal = || !matches!(resolve_path(self, Path::new(first)), Ok(resolved) if resolved.is_missing());
        match text.strip_prefix('@') {
            Some(bare) if !bare.is_empty() && !is_literal() => return self.named(bare),
            None if first == "~" && !is_literal() => return Err(self.explain(text, ResolveError::Outside)),
            Some(_) | None => {}
        }
        self.inside(Path::new(text)).ok_or_else(|| self.explain(text, ResolveError::Outside))
    }

    /// The path relative to the workspace; None for absolute paths outside of it.
    fn inside(&self, path: &Path) -> Option<PathBuf> {
        if path.is_relative() {
            return Some(path.to_path_buf());
        }
        let rest = path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.given));
        rest.ok().map(Path::to_path_buf)
    }

    fn explain(&self, text: &str, error: ResolveError) -> CallError {
        match error {
            ResolveError::Outside => ErrorKind::PathNotInWorkspace
                .error(format!("{text} {error}. Use a path below {}.", self.path.display())),
            ResolveError::Links | ResolveError::NotDirectory | ResolveError::MissingParent => {
                ErrorKind::FileNotFound.error(format!("{text} {error}."))
            }
            ResolveError::System(errno) => {
                let kind = match errno {
                    Errno::ACCESS | Errno::PERM => ErrorKind::PermissionDenied,
                    Errno::NAMETOOLONG => ErrorKind::InvalidToolParams,
                    _ => ErrorKind::ExecutionFailed,
                };
                kind.error(format!("{text} {error}"))
            }
        }
    }
}

impl ResolvedPath {
    /// The real absolute path.
    pub fn real(&self) -> String {
        self.real.to_string_lossy().into_owned()
    }

    /// The real path relative to the workspace, which itself is `.`; in other directories the whole real path.
    pub fn relative(&self) -> String {
        if self.shown.as_os_str().is_empty() {
            return ".".into();
        }
        self.shown.to_string_lossy().into_owned()
    }

    /// The directory at this path. `advice` is part of the error if it is a file.
    pub(in crate::tool) fn directory(&self, advice: &str, ctx: &Ctx) -> Result<BorrowedFd<'_>, CallError> {
        let path = self.relative();
        match &self.found {
            PathTarget::Directory(dir) => Ok(dir.as_fd()),
            PathTarget::File(_) => Err(ErrorKind::PathIsNotADirectory.error(format!("{path} is a file. {advice}"))),
            PathTarget::Nothing(_) => Err(self.missing("directory", ctx)),
        }
    }

    /// The error if nothing exists at this path. `what` was looked for.
    pub(in crate::tool) fn missing(&self, what: &str, ctx: &Ctx) -> CallError {
        let (path, workspace) = (self.relative(), ctx.workspace.path().display());
        ErrorKind::FileNotFound.error(format!("There is no {what} {path} in {workspace}."))
    }

    /// The length of this directory with a final slash, which paths below it begin with.
    pub(in crate::tool) fn lead(&self) -> usize {
        match self.below.as_os_str().len() {
            0 => 0,
            n => n + 1,
        }
    }

    /// The last component of the real path.
    pub fn file_name(&self) -> String {
        let name = self.real.file_name().unwrap_or(self.real.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// Up to `most` names of the entries, if this is a directory.
    pub(in crate::tool) fn names(&self, most: usize) -> io::Result<Vec<OsString>> {
        let PathTarget::Directory(dir) = &self.found else {
            return Ok(Vec::new());
        };
        let dir = rustix::fs::Dir::new(open::directory(dir, ".")?)?;
        dir.take(most).map(|entry| Ok(OsString::from_vec(entry?.file_name().to_bytes().to_vec()))).collect()
    }

    fn is_missing(&self) -> bool {
        matches!(self.found, PathTarget::Nothing(_))
    }
}

impl Entry {
    /// Opens a regular file for reading. Other files are not opened: a pipe could block, and a device could have an effect.
    pub fn open(&self) -> io::Result<File> {
        check_regular(&rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)?)?;
        Ok(regular_file(&self.dir, &self.name)?.0)
    }

    /// Whether reading the file may have an effect: reading a pipe consumes its content, and a device may do anything.
    pub(in crate::tool) fn is_active(&self) -> bool {
        let kind = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        let kind = kind.map(|stat| FileType::from_raw_mode(stat.st_mode));
        matches!(kind, Ok(FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice))
    }
}

impl MissingPath {
    /// Whether nothing but the file itself is missing.
    pub(in crate::tool) fn has_parent(&self) -> bool {
        self.parents.is_empty()
    }

    /// Creates the missing directories and returns the entry in the last one, and how many of the innermost ones were created.
    pub fn make_parents(self) -> io::Result<(Entry, usize)> {
        let (mut dir, mut made) = (self.dir, 0);
        for name in self.parents {
            match rustix::fs::mkdirat(&dir, &name, Mode::from_raw_mode(0o777)) {
                Ok(()) => made += 1,
                Err(Errno::EXIST) => made = 0,
                Err(errno) => return Err(errno.into()),
            }
            // A link that was created meanwhile is refused.
            dir = rustix::fs::openat(&dir, &name, DIRECTORY_PATH | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok((Entry { dir, name: self.name }, made))
    }
}

/// Decodes a `file:` URI; any other text is a path.
fn from_uri(text: &str) -> Result<String, CallError> {
    let Some(rest) = text.strip_prefix("file://") else {
        return Ok(text.to_string());
    };
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(invalid(format!("{text:?} names a file on another machine: give a path in the workspace")));
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.as_bytes();
    while let Some((&byte, rest)) = left.split_first() {
        let hex = |at: usize| rest.get(at).and_then(|digit| (*digit as char).to_digit(16));
        match (byte, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                left = &rest[2..];
            }
            _ => {
                bytes.push(byte);
                left = rest;
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| invalid(format!("{text:?} is not valid UTF-8 when decoded")))
}

fn check_form(text: &str) -> Result<(), CallError> {
    if text.trim().is_empty() {
        return Err(invalid("the path must not be empty"));
    }
    if text.chars().any(|c| matches!(c, '\0' | '\n' | '\r' | '\t')) {
        return Err(invalid(format!("the path {text:?} must not contain NUL, line breaks or tabs")));
    }
    if text.len() > PATH_BYTES || text.split('/').any(|part| part.len() > NAME_BYTES) {
        return Err(invalid(format!(
            "the path is too long: at most {PATH_BYTES} bytes, and {NAME_BYTES} between slashes"
        )));
    }
    Ok(())
}

/// Whether tools must not write this file.
pub(in crate::tool) fn is_protected(path: &Path) -> bool {
    protected(path).is_some()
}

/// The first component that tools must not write: git's own files can run code, the others contain secrets or installed packages.
/// Compared as on case-insensitive file systems: without case, trailing dots and spaces, and the name of a stream.
fn protected(path: &Path) -> Option<String> {
    path.components()
        .map(|part| part.as_os_str().to_string_lossy())
        .find(|part| {
            let bare = part.split(':').next().unwrap_or(part);
            let bare = bare.trim_end_matches(['.', ' ']).to_lowercase();
            matches!(bare.as_str(), ".git" | ".env" | "node_modules")
                || (bare.starts_with("gha-creds-") && bare.ends_with(".json"))
        })
        .map(|part| part.into_owned())
}

#[cfg(test)]
mod tests;
