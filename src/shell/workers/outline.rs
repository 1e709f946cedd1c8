//! The directory tree that a session begins with, to orient the model: breadth first, so that a large directory
//! does not displace the others, and limited in size.
//!
//! What ignore files hide is left out. Names are shown, not trusted: a name can hold anything but a slash, and what could break
//! a line is escaped. Links are not followed, and every directory is opened from the one above it.

use crate::limits::Limits;
use crate::tool::files::open;
use crate::tool::files::path::Workspace;
use crate::tool::search::ignore::{IgnoreSources, Rules, What};
use crate::tool::search::listing::readable;
use rustix::fs::{CWD, Dir, FileType};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

/// Never shown: large directories that are not edited.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// A line per entry, indented by depth, directories with a slash. Empty when there is nothing or it cannot be read.
pub fn draw(workspace: &Path, wanted: IgnoreSources, limits: &Limits) -> String {
    let (Ok(root), Ok(tree)) = (open::directory(CWD, workspace), Workspace::open(workspace)) else {
        return String::new();
    };
    let mut entries = vec![Entry::default()];
    let mut looks = limits.tree_visits;
    let mut shown = 0;
    let mut queue = VecDeque::from([Ahead {
        entry: 0,
        above: Rc::new(root),
        name: b".".to_vec(),
        path: Vec::new(),
        rules: Rules::around(&tree, wanted, limits),
    }]);
    while let Some(ahead) = queue.pop_front() {
        let parent = ahead.entry;
        let Some((dir, rules)) = ahead.enter() else {
            entries[parent].cut = true;
            continue;
        };
        let (names, whole) = list(&dir, &mut looks);
        entries[parent].cut = !whole;
        for (name, kind) in names {
            let path = join(&ahead.path, &name);
            let what = match kind {
                FileType::Directory => What::Directory,
                _ => What::File,
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
            let slash = if what == What::Directory { "/" } else { "" };
            entries.push(Entry { name: readable(&name) + slash, ..Entry::default() });
            entries[parent].below.push(entry);
            if what == What::Directory {
                queue.push_back(Ahead { entry, above: dir.clone(), name, path, rules: rules.clone() });
            }
        }
    }
    let mut out = String::new();
    write(&entries, 0, 0, &mut out);
    out
}

/// A directory still to be entered.
struct Ahead {
    entry: usize,
    above: Rc<OwnedFd>,
    name: Vec<u8>,
    path: Vec<u8>,
    /// Those around it.
    rules: Rules,
}

impl Ahead {
    /// None for what does not open, because it is not ours to read or no directory any more.
    fn enter(&self) -> Option<(Rc<OwnedFd>, Rules)> {
        let dir = open::directory(&self.above, &self.name[..]).ok()?;
        let rules = self.rules.enter(dir.as_fd(), &self.path, None);
        Some((Rc::new(dir), rules))
    }
}

#[derive(Default)]
struct Entry {
    name: String,
    below: Vec<usize>,
    /// Not everything in it is shown.
    cut: bool,
}

/// The names in a directory, sorted; false when there are more than may be looked at.
fn list(dir: &OwnedFd, looks: &mut usize) -> (Vec<(Vec<u8>, FileType)>, bool) {
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
        if *looks == 0 {
            whole = false;
            break;
        }
        *looks -= 1;
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
    fn everything_is_shown_in_its_place() {
        let scratch = scratch();
        scratch.put("new\nline\u{202e}", "");
        assert_eq!(
            draw(scratch.path(), IgnoreSources::ALL, &Limits::default()),
            "a/\n  1\n  2\n  deep/\n    x\nb/\n  3\nc\nnew\\nline\\u{202e}\nout\n"
        );
        assert_eq!(draw(&scratch.path().join("none"), IgnoreSources::ALL, &Limits::default()), "");
    }

    #[test]
    fn what_ignore_files_hide_is_left_out() {
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
    fn what_is_too_much_is_cut_breadth_first() {
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
