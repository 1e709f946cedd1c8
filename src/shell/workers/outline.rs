//! The directory tree that a session begins with, to orient the model: breadth first, so that a large directory
//! does not displace the others, and limited in size.
//!
//! Entries that ignore files hide are left out. A name can contain any character but a slash; characters that could break a line are
//! escaped. Links are not followed, and every directory is opened from the one that contains it.

use crate::limits::Limits;
use crate::tool::files::open;
use crate::tool::files::path::Workspace;
use crate::tool::search::ignore::{EntryKind, IgnoreSources, Rules};
use crate::tool::search::listing::readable;
use rustix::fs::{CWD, Dir, FileType};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

/// Large directories that are not edited and never shown.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// The tree: a line per entry, indented by depth, directories with a slash. Empty if the workspace is empty or cannot be read.
pub fn draw(workspace: &Path, wanted: IgnoreSources, limits: &Limits) -> String {
    let (Ok(root), Ok(tree)) = (open::directory(CWD, workspace), Workspace::open(workspace)) else {
        return String::new();
    };
    let mut entries = vec![Entry::default()];
    let mut entries_left = limits.tree_visits;
    let mut shown = 0;
    let mut queue = VecDeque::from([PendingDir {
        entry: 0,
        above: Rc::new(root),
        name: b".".to_vec(),
        path: Vec::new(),
        rules: Rules::around(&tree, wanted, limits),
    }]);
    while let Some(pending) = queue.pop_front() {
        let parent = pending.entry;
        let Some((dir, rules)) = pending.open() else {
            entries[parent].cut = true;
            continue;
        };
        let (names, whole) = list(&dir, &mut entries_left);
        entries[parent].cut = !whole;
        for (name, kind) in names {
            let path = join(&pending.path, &name);
            let what = match kind {
                FileType::Directory => EntryKind::Directory,
                _ => EntryKind::File,
            };
            if rules.hide(&path, what) {
                continue;
            }
            if shown == limits.tree_items {
                entries[parent].cut = true;
                break;
            }
            shown += 1;
            let entry = entries.len();
            let slash = if what == EntryKind::Directory { "/" } else { "" };
            entries.push(Entry { name: readable(&name) + slash, ..Entry::default() });
            entries[parent].below.push(entry);
            if what == EntryKind::Directory {
                queue.push_back(PendingDir { entry, above: dir.clone(), name, path, rules: rules.clone() });
            }
        }
    }
    let mut out = String::new();
    write(&entries, 0, 0, &mut out);
    out
}

/// A directory that is still to be read.
struct PendingDir {
    entry: usize,
    above: Rc<OwnedFd>,
    name: Vec<u8>,
    path: Vec<u8>,
    /// The ignore rules of the directories that contain it.
    rules: Rules,
}

impl PendingDir {
    /// Opens the directory and reads its ignore rules. None if it may not be read or was removed.
    fn open(&self) -> Option<(Rc<OwnedFd>, Rules)> {
        let dir = open::directory(&self.above, &self.name[..]).ok()?;
        let rules = self.rules.enter(dir.as_fd(), &self.path, None);
        Some((Rc::new(dir), rules))
    }
}

#[derive(Default)]
struct Entry {
    name: String,
    below: Vec<usize>,
    /// Some of its entries are not shown.
    cut: bool,
}

/// The names in a directory, sorted. False: there are more than may be read.
fn list(dir: &OwnedFd, entries_left: &mut usize) -> (Vec<(Vec<u8>, FileType)>, bool) {
    let mut names = Vec::new();
    let Ok(stream) = Dir::read_from(dir) else {
        return (names, false);
    };
    let mut whole = true;
    for entry in stream.flatten() {
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." || SKIPPED.iter().any(|skip| skip.as_bytes() == name) {
            continue;
        }
        if *entries_left == 0 {
            whole = false;
            break;
        }
        *entries_left -= 1;
        names.push((name.to_vec(), entry.file_type()));
    }
    names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    (names, whole)
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir {
        [] => name.to_vec(),
        dir => [dir, name].join(&b'/'),
    }
}

fn write(entries: &[Entry], index: usize, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    for below in &entries[index].below {
        out.push_str(&indent);
        out.push_str(&entries[*below].name);
        out.push('\n');
        write(entries, *below, depth + 1, out);
    }
    if entries[index].cut {
        out.push_str(&indent);
        out.push_str("…\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;
    use std::os::unix::fs::symlink;

    fn scratch() -> Scratch {
        let scratch = Scratch::new();
        for name in ["a/1", "a/2", "a/deep/x", "b/3", "c", ".git/HEAD", "node_modules/m/i.js"] {
            scratch.put(name, "");
        }
        symlink("/etc", scratch.path().join("out")).expect("a link");
        scratch
    }

    #[test]
    fn every_entry_is_shown_below_its_directory() {
        let scratch = scratch();
        scratch.put("new\nline\u{202e}", "");
        assert_eq!(
            draw(scratch.path(), IgnoreSources::ALL, &Limits::default()),
            "a/\n  1\n  2\n  deep/\n    x\nb/\n  3\nc\nnew\\nline\\u{202e}\nout\n"
        );
        assert_eq!(draw(&scratch.path().join("none"), IgnoreSources::ALL, &Limits::default()), "");
    }

    #[test]
    fn entries_that_ignore_files_hide_are_left_out() {
        let scratch = scratch();
        scratch.put(".gitignore", "b/\n2\n");
        scratch.put("a/deep/.gitignore", "x\n");
        scratch.put(".geminiignore", "/c\n");
        let limits = Limits::default();
        assert_eq!(
            draw(scratch.path(), IgnoreSources::ALL, &limits),
            ".geminiignore\n.gitignore\na/\n  1\n  deep/\n    .gitignore\nout\n"
        );
        let all = draw(scratch.path(), IgnoreSources::NONE, &limits);
        assert!(all.contains("  2\n") && all.contains("c\n"), "{all}");
        assert!(!all.contains(".git/"), "{all}");
    }

    #[test]
    fn a_large_tree_is_cut_breadth_first() {
        let scratch = scratch();
        let draw = |tree_items, tree_visits| {
            let limits = Limits { tree_items, tree_visits, ..Limits::default() };
            draw(scratch.path(), IgnoreSources::ALL, &limits)
        };
        let whole = "a/\n  1\n  2\n  deep/\n    x\nb/\n  3\nc\nout\n";
        assert_eq!(draw(9, 9), whole);
        assert_eq!(draw(8, 9), "a/\n  1\n  2\n  deep/\n    …\nb/\n  3\nc\nout\n");
        assert_eq!(draw(5, 9), "a/\n  1\n  …\nb/\n  …\nc\nout\n");
        assert_eq!(draw(9, 8), "a/\n  1\n  2\n  deep/\n    …\nb/\n  3\nc\nout\n");
    }
}
