//! Resolves a path from the open directory of the workspace, one component at a time.

use super::{Entry, MissingPath, PathTarget, ResolvedPath, Workspace};
use crate::limits::PATH_LINKS;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Why a path cannot be resolved. Displayed as a clause that follows the path.
pub(super) enum ResolveError {
    Outside,
    Links,
    NotDirectory,
    /// `..` or a final slash follows a name that does not exist.
    MissingParent,
    System(Errno),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResolveError::Outside => "is not in the workspace",
            ResolveError::Links => "leads through too many symbolic links",
            ResolveError::NotDirectory => "does not exist: a part of it is a file, not a directory",
            ResolveError::MissingParent => "does not exist: it leads through a directory that is not there",
            ResolveError::System(errno) => return write!(f, "cannot be looked up: {errno}"),
        })
    }
}

impl From<Errno> for ResolveError {
    fn from(errno: Errno) -> ResolveError {
        ResolveError::System(errno)
    }
}

/// Resolves a path relative to the workspace.
pub(super) fn resolve_path(workspace: &Workspace, path: &Path) -> Result<ResolvedPath, ResolveError> {
    let mut resolver = Resolver { workspace, open_dirs: Vec::new(), remaining: parts(path), links: 0 };
    let found = resolver.resolve_all()?;
    let mut below: PathBuf = resolver.open_dirs.iter().map(|(name, _)| name).collect();
    match &found {
        PathTarget::Directory(_) => {}
        PathTarget::File(entry) => below.push(&entry.name),
        PathTarget::Nothing(missing) => {
            below.extend(&missing.parents);
            below.push(&missing.name);
        }
    }
    let (real, shown) = (workspace.real(&below), workspace.shown(&below));
    Ok(ResolvedPath { real, below, named: without_dots(path), shown, found })
}

/// A component of a path that is not resolved yet.
enum Part {
    Root,
    Up,
    Name(OsString),
    /// The path ends in a slash or a dot, so the part before it must be a directory.
    Here,
}

/// Follows a path from the workspace, component by component.
struct Resolver<'a> {
    workspace: &'a Workspace,
    /// The open directories below the workspace, down to the current one.
    open_dirs: Vec<(OsString, OwnedFd)>,
    remaining: VecDeque<Part>,
    links: usize,
}

impl Resolver<'_> {
    fn resolve_all(&mut self) -> Result<PathTarget, ResolveError> {
        while let Some(part) = self.remaining.pop_front() {
            let name = match part {
                Part::Here => continue,
                Part::Root => {
                    self.open_dirs.clear();
                    continue;
                }
                Part::Up => {
                    self.open_dirs.pop().ok_or(ResolveError::Outside)?;
                    continue;
                }
                Part::Name(name) => name,
            };
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = match rustix::fs::openat(self.current(), &name, flags, Mode::empty()) {
                Ok(fd) => fd,
                Err(Errno::NOENT) => return self.missing(name),
                Err(errno) => return Err(errno.into()),
            };
            match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
                FileType::Directory => self.open_dirs.push((name, fd)),
                FileType::Symlink => self.follow(&fd)?,
                _ if self.remaining.is_empty() => {
                    return Ok(PathTarget::File(Entry { dir: self.duplicate_current()?, name }));
                }
                _ => return Err(ResolveError::NotDirectory),
            }
        }
        Ok(PathTarget::Directory(self.duplicate_current()?))
    }

    fn current(&self) -> BorrowedFd<'_> {
        self.open_dirs.last().map_or(self.workspace.dir.as_fd(), |(_, dir)| dir.as_fd())
    }

    /// A new descriptor of the current directory, which outlives the resolver.
    fn duplicate_current(&self) -> Result<OwnedFd, ResolveError> {
        Ok(rustix::io::fcntl_dupfd_cloexec(self.current(), 0)?)
    }

    /// Puts the target of a link before the remaining components.
    fn follow(&mut self, link: &OwnedFd) -> Result<(), ResolveError> {
        self.links += 1;
        if self.links > PATH_LINKS {
            return Err(ResolveError::Links);
        }
        let target = rustix::fs::readlinkat(link, "", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        let mut steps = parts(&self.workspace.inside(&target).ok_or(ResolveError::Outside)?);
        if target.is_absolute() {
            steps.push_front(Part::Root);
        }
        for part in steps.into_iter().rev() {
            self.remaining.push_front(part);
        }
        Ok(())
    }

    /// The result if there is no entry `name`: then the rest of the path can only consist of names.
    fn missing(&mut self, name: OsString) -> Result<PathTarget, ResolveError> {
        let mut parents = vec![name];
        for part in self.remaining.drain(..) {
            match part {
                Part::Name(name) => parents.push(name),
                Part::Here | Part::Up | Part::Root => return Err(ResolveError::MissingParent),
            }
        }
        let name = parents.pop().expect("it holds at least the first name");
        Ok(PathTarget::Nothing(MissingPath { dir: self.duplicate_current()?, parents, name }))
    }
}

fn parts(path: &Path) -> VecDeque<Part> {
    let mut parts: VecDeque<Part> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(Part::Name(name.to_os_string())),
            Component::ParentDir => Some(Part::Up),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .collect();
    // `components` drops a final slash or dot.
    let bytes = path.as_os_str().as_bytes();
    if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        parts.push_back(Part::Here);
    }
    parts
}

fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    plain
}
