//! Walks a directory tree by descriptors and without following links, so that it cannot leave the workspace even if somebody moves
//! files meanwhile: each directory is opened by its name in the directory that was opened before.
//!
//! Entries are visited in the order of their names, and the content of a directory in its place among them: this is the order of paths
//! in which results are shown. The walk checks cancellation, its deadline and its limits for every entry. It counts the directories
//! that it could not read, because an incomplete result must say so.

use crate::base::cancel::Cancel;
use crate::limits::Limits;
use crate::tool::files::open;
use crate::tool::search::ignore::{EntryKind, Rules};
use crate::tool::search::listing::{Listed, Listing};
use rustix::fs::{AtFlags, FileType, Stat};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Directories of version control systems.
pub const VERSION_CONTROL: [&str; 3] = [".git", ".svn", ".hg"];
/// Directories of version control systems and of installed packages.
pub const THIRD_PARTY: [&str; 5] = [".git", ".svn", ".hg", "node_modules", "bower_components"];
/// Directories of version control systems, of installed packages and of generated files.
pub const NOT_HANDWRITTEN: [&str; 11] = {
    let [a, b, c, d, e] = THIRD_PARTY;
    [a, b, c, d, e, ".vscode", ".idea", "dist", "build", "coverage", "__pycache__"]
};

/// Processes the files of a walk.
pub trait Visitor {
    /// Whether the walk enters a directory. `dir` is its path in the workspace, with a final slash.
    fn enters(&mut self, dir: &[u8]) -> bool;

    fn file(&mut self, file: &WalkedFile);

    /// Called for an entry that ignore files hide.
    fn hidden(&mut self, _path: &[u8], _kind: EntryKind) {}
}

/// A regular file, according to the listing of its directory.
pub struct WalkedFile<'a> {
    dir: BorrowedFd<'a>,
    name: &'a CStr,
    /// Relative to the workspace.
    pub path: &'a [u8],
}

/// Where a walk begins, and its limits.
pub struct Walk<'a> {
    pub cancel: &'a Cancel,
    pub limits: &'a Limits,
    /// Names of directories that are not entered.
    pub skipped: &'a [&'a str],
    pub dir: BorrowedFd<'a>,
    /// The path of `dir` relative to the workspace; empty for the workspace itself.
    pub path: &'a Path,
    /// The rules around `dir`.
    pub rules: Rules,
}

/// How complete a walk was.
pub struct WalkResult {
    /// Directories that could not be opened or listed, or were too deep.
    pub unread: usize,
    pub stopped: Option<Stop>,
}

/// Why a walk ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Cancelled,
    Time,
    Entries,
}

impl WalkedFile<'_> {
    /// Opens the file, if it is still a regular file.
    pub fn open(&self) -> io::Result<(File, Stat)> {
        open::regular_file(self.dir, self.name)
    }

    pub fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

impl Walk<'_> {
    pub fn run(self, visitor: &mut impl Visitor) -> WalkResult {
        let mut walker = Walker {
            deadline: Instant::now() + Duration::from_millis(self.limits.search_ms),
            walk: &self,
            visitor,
            entries: 0,
            path: self.path.as_os_str().as_bytes().to_vec(),
            result: WalkResult { unread: 0, stopped: None },
        };
        walker.enter(self.dir, c".", 0, &self.rules);
        walker.result
    }
}

impl WalkResult {
    /// Sentences that say why the result is incomplete; empty if it is complete.
    pub fn gaps(&self, limits: &Limits) -> String {
        let stopped = match self.stopped {
            None | Some(Stop::Cancelled) => String::new(),
            Some(Stop::Time) => format!(
                "The search was stopped after {} s, so more may be found: narrow it down.\n",
                limits.search_ms / 1000
            ),
            Some(Stop::Entries) => format!(
                "The search was stopped after {} files and folders, so more may be found: narrow it down.\n",
                limits.search_entries
            ),
        };
        let unread = match self.unread {
            0 => String::new(),
            n => format!("{n} folders could not be looked into.\n"),
        };
        stopped + &unread
    }
}

struct Walker<'a, V> {
    walk: &'a Walk<'a>,
    deadline: Instant,
    visitor: &'a mut V,
    entries: usize,
    /// The path of the entry that is visited, relative to the workspace.
    path: Vec<u8>,
    result: WalkResult,
}

impl<V: Visitor> Walker<'_, V> {
    /// Visits the entries of a directory. `rules` are those around it.
    fn enter(&mut self, parent: BorrowedFd, name: &CStr, depth: usize, rules: &Rules) {
        let opened = open::directory(parent, name).and_then(|dir| Ok((Listing::of(dir.as_fd())?, dir)));
        let Ok((listing, dir)) = opened else {
            self.result.unread += 1;
            return;
        };
        let rules = rules.enter(dir.as_fd(), &self.path, Some(&listing));
        self.entries += listing.entries.len();
        let own = self.path.len();
        if own > 0 {
            self.path.push(b'/');
        }
        let lead = self.path.len();
        for Listed { name, kind } in listing.entries {
            if self.stops() {
                break;
            }
            self.path.truncate(lead);
            self.path.extend_from_slice(name.to_bytes());
            match kind {
                FileType::Directory if !self.enters(&name) => {}
                FileType::Directory if rules.hide(&self.path, EntryKind::Directory) => {
                    self.visitor.hidden(&self.path, EntryKind::Directory);
                }
                FileType::Directory if depth >= self.walk.limits.search_depth => self.result.unread += 1,
                FileType::Directory => self.enter(dir.as_fd(), &name, depth + 1, &rules),
                FileType::RegularFile if rules.hide(&self.path, EntryKind::File) => {
                    self.visitor.hidden(&self.path, EntryKind::File);
                }
                FileType::RegularFile => {
                    self.visitor.file(&WalkedFile { dir: dir.as_fd(), name: &name, path: &self.path });
                }
                _ => {}
            }
        }
        self.path.truncate(own);
    }

    /// Whether the directory at the current path is entered, unless ignore files hide it.
    fn enters(&mut self, name: &CStr) -> bool {
        if self.walk.skipped.iter().any(|skipped| skipped.as_bytes() == name.to_bytes()) {
            return false;
        }
        self.path.push(b'/');
        let enters = self.visitor.enters(&self.path);
        self.path.pop();
        enters
    }

    /// Whether the walk has to end early.
    fn stops(&mut self) -> bool {
        let stop = if self.walk.cancel.is_set() {
            Stop::Cancelled
        } else if self.entries > self.walk.limits.search_entries {
            Stop::Entries
        } else if Instant::now() >= self.deadline {
            Stop::Time
        } else {
            return false;
        };
        self.result.stopped.get_or_insert(stop);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::files::path::Workspace;
    use crate::tool::search::ignore::IgnoreSources;
    use crate::tool::search::listing::{by_path, readable};
    use crate::tool::tests::Scratch;

    /// Records the files, and cancels the walk at the first one if `stop` is given.
    struct Recorder<'a> {
        files: Vec<String>,
        stop: Option<&'a Cancel>,
    }

    impl Visitor for Recorder<'_> {
        fn enters(&mut self, _: &[u8]) -> bool {
            true
        }

        fn file(&mut self, file: &WalkedFile) {
            self.files.push(readable(file.path));
            if let Some(cancel) = self.stop {
                cancel.set();
            }
        }
    }

    fn walk(
        scratch: &Scratch,
        limits: &Limits,
        cancel: &Cancel,
        stop: Option<&Cancel>,
    ) -> (Vec<String>, usize, Option<Stop>) {
        let workspace = Workspace::open(scratch.path()).expect("it opens");
        let walk = Walk {
            cancel,
            limits,
            skipped: &THIRD_PARTY,
            dir: workspace.dir.as_fd(),
            path: Path::new(""),
            rules: Rules::around(&workspace, IgnoreSources::NONE, limits),
        };
        let mut recorder = Recorder { files: Vec::new(), stop };
        let walked = walk.run(&mut recorder);
        (recorder.files, walked.unread, walked.stopped)
    }

    #[test]
    fn every_file_is_seen_once_and_in_order_in_wide_and_deep_trees() {
        let scratch = Scratch::new();
        let mut expected = Vec::new();
        for n in 0..641 {
            expected.push(format!("wide/{n:04}"));
        }
        for n in 0..50 {
            expected.push(format!("{}file", "deep/".repeat(n + 1)));
        }
        for name in &expected {
            scratch.put(name, "");
        }
        scratch.put("node_modules/x", "");
        expected.sort_by(|a, b| by_path(a.as_bytes(), b.as_bytes()));
        let seen = walk(&scratch, &Limits::default(), &Cancel::default(), None);
        assert_eq!(seen, (expected, 0, None));
        let shallow = Limits { search_depth: 10, ..Limits::default() };
        let (files, unread, stopped) = walk(&scratch, &shallow, &Cancel::default(), None);
        assert_eq!((files.len(), unread, stopped), (641 + 10, 1, None));
    }

    #[test]
    fn a_cancelled_walk_stops_at_the_next_entry() {
        let scratch = Scratch::new();
        for n in 0..100 {
            scratch.put(&format!("d{}/{n}", n % 10), "");
        }
        let (cancel, limits) = (Cancel::default(), Limits::default());
        let (files, _, stopped) = walk(&scratch, &limits, &cancel, Some(&cancel));
        assert_eq!((files.len(), stopped), (1, Some(Stop::Cancelled)));
    }

    #[test]
    fn entries_that_are_neither_file_nor_directory_are_skipped() {
        let scratch = Scratch::new();
        scratch.put("file", "");
        let fifo = scratch.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).expect("pipes can be made");
        for (target, name) in [("file", "link"), (".", "loop"), ("/", "out")] {
            std::os::unix::fs::symlink(target, scratch.path().join(name)).expect("links can be made");
        }
        let seen = walk(&scratch, &Limits::default(), &Cancel::default(), None);
        assert_eq!(seen, (vec!["file".into()], 0, None));
    }

    #[test]
    fn a_tree_is_sorted_by_its_directories() {
        let mut paths: Vec<&[u8]> = vec![b"a.b", b"a/c", b"a", b"a/b/c", b"b", b"a-b/c", b"a/b"];
        paths.sort_by(|a, b| by_path(a, b));
        let expected: [&[u8]; 7] = [b"a", b"a/b", b"a/b/c", b"a/c", b"a-b/c", b"a.b", b"b"];
        assert_eq!(paths, expected);
    }
}
