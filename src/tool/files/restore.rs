//! Carries out a restore: checks the files, stores a copy of each that will change, and replaces them by their other versions.
//!
//! All files are checked and copied before the first one is written. If a file cannot be written, those before it get their content back.
//! Each file is replaced in the same way as by an edit, so that a crash leaves every file in its old or its new version; the same restore
//! can then be made again. Files are found by the paths in the log, without following links.

use crate::limits::Limits;
use crate::task::log::blob::{BlobRef, Blobs, FileVersion, sha256};
use crate::task::log::restored::RestoredFile;
use crate::task::restore::arguments::Conflicts;
use crate::task::restore::report::SkippedFile;
use crate::task::restore::{CurrentFile, FilePlan, RestoreVerdict, is_same};
use crate::tool::files::diff::Comparison;
use crate::tool::files::path::{PathTarget, ResolvedPath, Workspace};
use crate::tool::files::put;
use crate::tool::files::read_file::contents;
use crate::tool::files::text::Encoding;
use rustix::fs::AtFlags;
use std::cell::Cell;
use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};

pub struct Restorer<'a> {
    /// The directories that the task may change.
    pub workspaces: Vec<Workspace>,
    pub blobs: &'a dyn Blobs,
    pub limits: &'a Limits,
    /// Bytes that may still be stored for the task.
    pub room: Cell<u64>,
}

/// A file that is about to change, with its current version, which has been copied.
pub struct PreparedFile<'p> {
    plan: &'p FilePlan,
    from: Option<FileVersion>,
    /// Its content if it could not be stored.
    unstored: Option<Vec<u8>>,
}

impl PreparedFile<'_> {
    /// The change to be made.
    pub fn file(&self) -> RestoredFile {
        let FilePlan { root, path, target, .. } = self.plan;
        RestoredFile { root: root.clone(), path: path.clone(), from: self.from.clone(), to: target.clone(), dirs: 0 }
    }

    /// Whether the current version was written by somebody else.
    pub fn is_foreign(&self) -> bool {
        !is_same(self.from.as_ref(), self.plan.expected.as_ref())
    }
}

/// A restore that failed.
pub struct RestoreFailure {
    pub why: String,
    /// The files that were changed and could not get their content back.
    pub changed: Vec<RestoredFile>,
}

impl Restorer<'_> {
    /// What exists at the path of a file.
    pub fn present(&self, plan: &FilePlan) -> CurrentFile {
        match self.read(plan) {
            Ok(None) => CurrentFile::Nothing,
            Ok(Some((version, _))) => CurrentFile::File(version),
            Err(why) => CurrentFile::Unclear(why),
        }
    }

    fn resolve(&self, root: &str, path: &Path) -> Result<ResolvedPath, String> {
        let workspace = self.workspaces.iter().find(|workspace| workspace.path() == Path::new(root));
        let workspace = workspace.ok_or("is in a directory that may not be used now")?;
        let resolved = workspace.find_listed(path).ok_or("cannot be reached any more")?;
        match resolved.below == path {
            true => Ok(resolved),
            false => Err("is reached through a link now".into()),
        }
    }

    /// The current version and content of a file; None if there is no file. The error is a clause.
    fn read(&self, plan: &FilePlan) -> Result<Option<(FileVersion, Vec<u8>)>, String> {
        let entry = match self.resolve(&plan.root, Path::new(&plan.path))?.found {
            PathTarget::Directory(_) => return Err("is a directory now".into()),
            PathTarget::Nothing(_) => return Ok(None),
            PathTarget::File(entry) => entry,
        };
        let stat = rustix::fs::statat(&entry.dir, &entry.name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = stat.map_err(|error| format!("cannot be read ({error})"))?;
        let bytes = contents(&entry, "", self.limits.file_bytes).map_err(|_| "cannot be read or is too large")?;
        let (len, mode) = (bytes.len() as u64, stat.st_mode & 0o7777);
        Ok(Some((FileVersion { sha256: sha256(&bytes), len, mode, unstored: true }, bytes)))
    }

    /// The content of a version.
    fn stored(&self, version: &FileVersion) -> io::Result<Vec<u8>> {
        BlobRef { sha256: version.sha256.clone(), bytes: version.len }.read(self.blobs)
    }

    /// Checks and copies the files that are to change. Returns them, and the files that are left as they are. No file is changed yet.
    pub fn prepare<'p>(
        &self,
        plans: &'p [FilePlan],
        conflicts: Conflicts,
    ) -> (Vec<PreparedFile<'p>>, Vec<SkippedFile>) {
        let (mut copied, mut left) = (Vec::new(), Vec::new());
        for plan in plans {
            let present = self.present(plan);
            let is_lost = plan.target.as_ref().is_some_and(|target| target.unstored);
            let copy = match plan.verdict(&present) {
                RestoreVerdict::Nothing => continue,
                RestoreVerdict::Lost => Err("cannot be restored: its earlier content was not stored".to_owned()),
                RestoreVerdict::Conflict(_) if conflicts == Conflicts::Overwrite && !is_lost => {
                    self.copy(plan, &present)
                }
                RestoreVerdict::Conflict(why) => Err(why),
                RestoreVerdict::Restore => self.copy(plan, &present),
            };
            match copy {
                Ok(copy) => copied.push(copy),
                Err(why) => left.push(SkippedFile { path: plan.path.clone(), why }),
            }
        }
        (copied, left)
    }

    /// Stores a copy of a file that is to change, and checks that the content of its other version is stored. The error is a clause.
    fn copy<'p>(&self, plan: &'p FilePlan, judged: &CurrentFile) -> Result<PreparedFile<'p>, String> {
        let changed = "was changed by somebody else just now";
        if let Some(target) = &plan.target {
            self.stored(target)
                .map_err(|error| format!("cannot be put back, its earlier content is gone ({error}),"))?;
        }
        let (mut from, bytes) = match (self.read(plan)?, judged) {
            (None, CurrentFile::Nothing) => return Ok(PreparedFile { plan, from: None, unstored: None }),
            (Some((version, bytes)), CurrentFile::File(known)) if is_same(Some(&version), Some(known)) => {
                (version, bytes)
            }
            _ => return Err(changed.into()),
        };
        let may_store = self.limits.blob_bytes.min(self.room.get()) >= from.len;
        from.unstored = !(may_store && self.blobs.put(&bytes).is_ok());
        // Content that the agent wrote may be overwritten without a copy; content that somebody else wrote may not.
        if from.unstored && !is_same(Some(&from), plan.expected.as_ref()) {
            return Err("cannot be overwritten, because no copy of it can be stored,".into());
        }
        self.room.set(self.room.get() - if from.unstored { 0 } else { from.len });
        let unstored = from.unstored.then_some(bytes);
        Ok(PreparedFile { plan, from: Some(from), unstored })
    }

    /// Restores all files, or none.
    pub fn carry_out(&self, copied: Vec<PreparedFile>) -> Result<Vec<RestoredFile>, RestoreFailure> {
        let mut done: Vec<(RestoredFile, Option<Vec<u8>>)> = Vec::new();
        let mut emptied = Vec::new();
        for copied in copied {
            let mut file = copied.file();
            let PreparedFile { plan, unstored, .. } = copied;
            match self.write(&file, None) {
                Ok(dirs) => file.dirs = dirs,
                Err(error) => {
                    let why = format!("{} cannot be put back: {error}", file.path);
                    return Err(RestoreFailure { why, changed: self.take_back(done) });
                }
            }
            done.push((file, unstored));
            emptied.extend(
                plan.target.is_none().then(|| directories(&plan.root, &plan.path, plan.dirs)).into_iter().flatten(),
            );
        }
        self.remove_empty(emptied);
        Ok(done.into_iter().map(|(file, _)| file).collect())
    }

    /// Undoes the changes, the last one first. Returns those that could not be undone.
    fn take_back(&self, done: Vec<(RestoredFile, Option<Vec<u8>>)>) -> Vec<RestoredFile> {
        let (mut changed, mut emptied) = (Vec::new(), Vec::new());
        for (file, unstored) in done.into_iter().rev() {
            let back = RestoredFile { from: file.to.clone(), to: file.from.clone(), ..file.clone() };
            match self.write(&back, unstored) {
                Ok(_) => emptied.extend(directories(&file.root, &file.path, file.dirs)),
                Err(_) => changed.push(file),
            }
        }
        self.remove_empty(emptied);
        changed
    }

    /// Changes a file from one version to the other, whose content is given or stored. Returns the number of directories that were created.
    fn write(&self, file: &RestoredFile, content: Option<Vec<u8>>) -> io::Result<usize> {
        let changed = || io::Error::other("somebody else changed it just now");
        let content = match (&file.to, content) {
            (Some(_), Some(content)) => Some(content),
            (Some(to), None) => Some(self.stored(to)?),
            (None, _) => None,
        };
        let mode = file.to.as_ref().map(|to| to.mode);
        let found =
            self.resolve(&file.root, Path::new(&file.path)).map_err(|why| io::Error::other(format!("it {why}")))?;
        match (found.found, &file.from, content) {
            (PathTarget::File(entry), Some(from), Some(new)) => {
                let made = put::replace(&entry, Some(&from.sha256), &new, mode, self.limits)?;
                made.map(|made| made.dirs).ok_or_else(changed)
            }
            (PathTarget::File(entry), Some(from), None) => {
                put::remove(&entry, &from.sha256, self.limits)?.then_some(0).ok_or_else(changed)
            }
            (PathTarget::Nothing(missing), None, Some(new)) => {
                put::create(missing, &new, mode)?.map(|made| made.dirs).ok_or_else(changed)
            }
            (PathTarget::File(_) | PathTarget::Nothing(_) | PathTarget::Directory(_), _, _) => Err(changed()),
        }
    }

    /// Removes those of the directories that are empty, inner ones first.
    fn remove_empty(&self, mut directories: Vec<(String, PathBuf)>) {
        directories.sort_by_key(|(_, dir)| Reverse(dir.components().count()));
        for (root, dir) in directories {
            if let (Some(name), Some(parent)) = (dir.file_name(), dir.parent())
                && let Ok(ResolvedPath { found: PathTarget::Directory(parent), .. }) = self.resolve(&root, parent)
            {
                let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
            }
        }
    }

    /// The change that restoring a file would make, as a unified diff.
    pub fn diff(&self, plan: &FilePlan) -> String {
        let now = self.read(plan).ok().flatten().map(|(_, bytes)| bytes);
        let then = plan.target.as_ref().map(|target| self.stored(target));
        let then = match then.transpose() {
            Ok(then) => then,
            Err(_) => return format!("{}: its earlier content is not stored.\n", plan.path),
        };
        let text = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(|bytes| Encoding::of(bytes).decode(bytes));
        if [&now, &then].into_iter().flatten().any(|bytes| bytes.contains(&0) && Encoding::of(bytes) == Encoding::Utf8)
        {
            return format!("Binary files {} differ.\n", plan.path);
        }
        let (now, then) = (text(&now), text(&then));
        let (old, new) = (now.as_deref().unwrap_or_default(), then.as_deref().unwrap_or_default());
        let name = |side: char, exists: bool| if exists { format!("{side}/{}", plan.path) } else { "/dev/null".into() };
        let hunks = Comparison::new(old, new, self.limits.diff_steps).hunks(3);
        format!("--- {}\n+++ {}\n{hunks}", name('a', now.is_some()), name('b', then.is_some()))
    }
}

/// The `count` innermost directories of a file, each with the root that its path is relative to.
fn directories(root: &str, path: &str, count: usize) -> Vec<(String, PathBuf)> {
    let above = Path::new(path).ancestors().skip(1).take(count);
    above.map(|dir| (root.to_owned(), dir.to_path_buf())).collect()
}

#[cfg(test)]
mod tests;
