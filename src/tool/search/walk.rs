//! Walks a directory tree by descriptors and without following links, so that it cannot leave the workspace even if somebody moves
//! files meanwhile: each directory is opened by its name in the directory that was opened before.
//!
//! Several threads take directories from a stack. A stack and not a queue, because going down first keeps few directories open and
//! is close to the order of names. Small trees are walked by the calling thread alone; other threads start when there is enough to
//! do. Large directories are divided. Each thread has its own visitor, and the caller gets all visitors at the end.
//!
//! The walk checks cancellation, its deadline and its limits for every entry. It counts the directories that it could not read,
//! because an incomplete result must say so.

use crate::base::cancel::Cancel;
use crate::limits::Limits;
use crate::tool::files::open;
use crate::tool::search::ignore::{Rules, What};
use crate::tool::search::listing::{Listed, Listing};
use rustix::fs::{AtFlags, FileType, Stat};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering as Memory};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Scope, scope};
use std::time::{Duration, Instant};

/// A directory with more files than this is divided among threads.
const PART: usize = 128;
/// Entries seen before other threads are started.
const WORTH_HELP: usize = 512;

/// Directories of version control systems.
pub const VERSIONS: [&str; 3] = [".git", ".svn", ".hg"];
/// These, and directories of installed packages.
pub const NOT_OURS: [&str; 5] = [".git", ".svn", ".hg", "node_modules", "bower_components"];
/// These, and directories of generated files.
pub const BY_MACHINE: [&str; 11] = {
    let [a, b, c, d, e] = NOT_OURS;
    [a, b, c, d, e, ".vscode", ".idea", "dist", "build", "coverage", "__pycache__"]
};

/// Processes the files of a walk.
pub trait Visitor: Send {
    /// Whether anything in a directory is of interest. `dir` is its path in the workspace, with a final slash.
    fn wants(&mut self, dir: &[u8]) -> bool;

    fn file(&mut self, file: &WalkedFile);

    /// An entry that ignore files hide.
    fn hidden(&mut self, _path: &[u8], _what: What) {}
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

pub struct WalkResult<V> {
    pub visitors: Vec<V>,
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
    /// Opens it, unless it is not a regular file any more.
    pub fn open(&self) -> io::Result<(File, Stat)> {
        open::regular_file(self.dir, self.name)
    }

    pub fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

impl Walk<'_> {
    pub fn run<V: Visitor>(self, visitor: impl Fn() -> V + Sync) -> WalkResult<V> {
        let mut state = State { todo: Vec::new(), busy: 0, unread: 0, stopped: None };
        match self.dir.try_clone_to_owned() {
            Ok(dir) => state.todo.push(Work::Enter {
                parent: Arc::new(dir),
                name: c".".to_owned(),
                path: self.path.as_os_str().as_bytes().to_vec(),
                depth: 0,
                rules: self.rules.clone(),
            }),
            Err(_) => state.unread = 1,
        }
        let workers = Workers {
            deadline: Instant::now() + Duration::from_millis(self.limits.search_ms),
            walk: self,
            state: Mutex::new(state),
            changed: Condvar::new(),
            entries: AtomicUsize::new(0),
        };
        let visitors = scope(|threads| workers.lead(threads, &visitor));
        let state = workers.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        WalkResult { visitors, unread: state.unread, stopped: state.stopped }
    }
}

impl<V> WalkResult<V> {
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

enum Work {
    Enter {
        parent: Arc<OwnedFd>,
        name: CString,
        path: Vec<u8>,
        depth: usize,
        /// The rules around it.
        rules: Rules,
    },
    /// Visit files of a directory. Their paths begin with `lead`.
    Visit { dir: Arc<OwnedFd>, lead: Vec<u8>, names: Vec<CString> },
}

struct State {
    todo: Vec<Work>,
    /// Threads that are working and may add work.
    busy: usize,
    unread: usize,
    stopped: Option<Stop>,
}

struct Workers<'a> {
    walk: Walk<'a>,
    deadline: Instant,
    state: Mutex<State>,
    changed: Condvar,
    entries: AtomicUsize,
}

impl Workers<'_> {
    /// Works, and starts other threads when there is enough to do.
    fn lead<'s, V: Visitor + 's>(&'s self, threads: &'s Scope<'s, '_>, visitor: &'s (impl Fn() -> V + Sync)) -> Vec<V> {
        let most = std::thread::available_parallelism().map_or(1, |n| n.get());
        let most = most.min(self.walk.limits.search_threads);
        let mut help = Vec::new();
        let mut own = visitor();
        while self.work_once(&mut own) {
            if help.is_empty() && self.entries.load(Memory::Relaxed) >= WORTH_HELP {
                help.extend((1..most).map(|_| {
                    threads.spawn(|| {
                        let mut visitor = visitor();
                        while self.work_once(&mut visitor) {}
                        visitor
                    })
                }));
            }
        }
        let helped = help.into_iter().map(|thread| match thread.join() {
            Ok(visitor) => visitor,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        helped.chain([own]).collect()
    }

    /// Does the next piece of work. False when there is none.
    fn work_once(&self, visitor: &mut impl Visitor) -> bool {
        let Some(work) = self.take() else {
            return false;
        };
        let _busy = BusyGuard(self);
        match work {
            Work::Visit { dir, lead, names } => self.visit(&dir, lead, &names, visitor),
            Work::Enter { parent, name, path, depth, rules } => {
                let opened = open::directory(&parent, &name);
                drop(parent);
                match opened.and_then(|dir| Ok((Listing::of(dir.as_fd())?, dir))) {
                    Ok((listing, dir)) => {
                        let rules = rules.enter(dir.as_fd(), &path, Some(&listing));
                        self.enter(Arc::new(dir), listing, path, depth, &rules, visitor);
                    }
                    Err(_) => self.lock().unread += 1,
                }
            }
        }
        true
    }

    /// The next piece of work. Waits while other threads may add some; None when all is done.
    fn take(&self) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if state.stopped.is_some() {
                return None;
            }
            if let Some(work) = state.todo.pop() {
                state.busy += 1;
                return Some(work);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Processes the entries of a directory: directories go on the stack, files to the visitor.
    fn enter(
        &self,
        dir: Arc<OwnedFd>,
        listing: Listing,
        path: Vec<u8>,
        depth: usize,
        rules: &Rules,
        visitor: &mut impl Visitor,
    ) {
        self.entries.fetch_add(listing.entries.len(), Memory::Relaxed);
        let mut lead = path;
        if !lead.is_empty() {
            lead.push(b'/');
        }
        let mut path = lead.clone();
        let mut files = Vec::new();
        let mut dirs = Vec::new();
        for Listed { name, kind } in listing.entries {
            if self.stops() {
                return;
            }
            path.truncate(lead.len());
            path.extend_from_slice(name.to_bytes());
            match kind {
                FileType::Directory => {
                    path.push(b'/');
                    if self.is_skipped(&name) || !visitor.wants(&path) {
                        continue;
                    }
                    path.pop();
                    if rules.hide(&path, What::Directory) {
                        visitor.hidden(&path, What::Directory);
                        continue;
                    }
                    let (parent, path, rules) = (dir.clone(), path.clone(), rules.clone());
                    dirs.push(Work::Enter { parent, name, path, depth: depth + 1, rules });
                }
                FileType::RegularFile if rules.hide(&path, What::File) => {
                    visitor.hidden(&path, What::File);
                }
                FileType::RegularFile => files.push(name),
                _ => {}
            }
        }
        if depth >= self.walk.limits.search_depth {
            self.lock().unread += dirs.len();
            dirs.clear();
        }
        // The first by name is taken from the stack first.
        let mut work: Vec<Work> = dirs.into_iter().rev().collect();
        while files.len() > PART {
            let names = files.split_off(files.len() - PART);
            work.push(Work::Visit { dir: dir.clone(), lead: lead.clone(), names });
        }
        self.add(work);
        self.visit(&dir, lead, &files, visitor);
    }

    fn add(&self, work: Vec<Work>) {
        if !work.is_empty() {
            self.lock().todo.extend(work);
            self.changed.notify_all();
        }
    }

    fn visit(&self, dir: &Arc<OwnedFd>, mut path: Vec<u8>, names: &[CString], visitor: &mut impl Visitor) {
        let lead = path.len();
        for name in names {
            if self.stops() {
                return;
            }
            path.truncate(lead);
            path.extend_from_slice(name.to_bytes());
            visitor.file(&WalkedFile { dir: dir.as_fd(), name, path: &path });
        }
    }

    fn is_skipped(&self, name: &CStr) -> bool {
        let name = name.to_bytes();
        self.walk.skipped.iter().any(|skip| skip.as_bytes() == name)
    }

    /// Whether the walk has to end early.
    fn stops(&self) -> bool {
        let stop = if self.walk.cancel.is_set() {
            Stop::Cancelled
        } else if self.entries.load(Memory::Relaxed) > self.walk.limits.search_entries {
            Stop::Entries
        } else if Instant::now() >= self.deadline {
            Stop::Time
        } else {
            return false;
        };
        self.lock().stopped.get_or_insert(stop);
        self.changed.notify_all();
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one busy thread. It is dropped even if a visitor panics, so that the other threads do not wait for ever.
struct BusyGuard<'a>(&'a Workers<'a>);

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        if state.busy == 0 && state.todo.is_empty() {
            drop(state);
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::files::path::Workspace;
    use crate::tool::search::ignore::Wanted;
    use crate::tool::search::listing::{by_path, readable};
    use crate::tool::tests::Scratch;

    /// Remembers the files, and may cancel the walk at the first one.
    struct Witness<'a> {
        files: Vec<String>,
        stop: Option<&'a Cancel>,
    }

    impl Visitor for Witness<'_> {
        fn wants(&mut self, _: &[u8]) -> bool {
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
            skipped: &NOT_OURS,
            dir: workspace.dir(),
            path: Path::new(""),
            rules: Rules::around(&workspace, Wanted::NONE, limits),
        };
        let walked = walk.run(|| Witness { files: Vec::new(), stop });
        let mut files: Vec<String> = walked.visitors.into_iter().flat_map(|one| one.files).collect();
        files.sort_by(|a, b| by_path(a.as_bytes(), b.as_bytes()));
        (files, walked.unread, walked.stopped)
    }

    #[test]
    fn every_file_is_seen_once_in_wide_and_deep_trees() {
        let scratch = Scratch::new();
        let mut expected = Vec::new();
        for n in 0..PART * 5 + 1 {
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
        for threads in [1, 2, 8] {
            let limits = Limits { search_threads: threads, ..Limits::default() };
            let seen = walk(&scratch, &limits, &Cancel::default(), None);
            assert_eq!(seen, (expected.clone(), 0, None));
        }
        let shallow = Limits { search_depth: 10, ..Limits::default() };
        let (files, unread, stopped) = walk(&scratch, &shallow, &Cancel::default(), None);
        assert_eq!((files.len(), unread, stopped), (PART * 5 + 1 + 10, 1, None));
    }

    #[test]
    fn a_cancelled_walk_stops_at_the_next_entry() {
        let scratch = Scratch::new();
        for n in 0..WORTH_HELP * 2 {
            scratch.put(&format!("d{}/{n}", n % 10), "");
        }
        let (cancel, limits) = (Cancel::default(), Limits::default());
        let (files, _, stopped) = walk(&scratch, &limits, &cancel, Some(&cancel));
        assert_eq!(stopped, Some(Stop::Cancelled));
        assert!(files.len() <= limits.search_threads, "{}", files.len());
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
