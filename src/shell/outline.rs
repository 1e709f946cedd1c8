//! The directory tree that a session begins with, so that the model knows its way around: breadth first, so that a large
//! directory does not hide its neighbours, and cut to a size.
//!
//! Names are shown, not trusted: a name can hold anything but a slash, and what could break a line is escaped. Links are not
//! followed, and every directory is opened from the one above it.

use crate::limits::Limits;
use rustix::fs::{Dir, FileType, Mode, OFlags};
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

/// Never shown: large, and not what anybody works on.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// A line per entry, indented by depth, directories with a slash. Empty when there is nothing or it cannot be read.
pub fn draw(workspace: &Path, limits: &Limits) -> String {
    let Ok(root) = rustix::fs::open(workspace, OPEN, Mode::empty()) else {
        return String::new();
    };
    let mut entries = vec![Entry::default()];
    let mut looks = limits.tree_looks;
    let mut shown = 0;
    let mut queue = VecDeque::from([(0, Rc::new(root), b".".to_vec())]);
    while let Some((parent, above, name)) = queue.pop_front() {
        // What does not open, because it is not ours or no directory any more, is shown without what is in it.
        let Ok(dir) = rustix::fs::openat(above.as_fd(), &name[..], OPEN, Mode::empty()) else {
            entries[parent].cut = true;
            continue;
        };
        let dir = Rc::new(dir);
        let (names, whole) = list(&dir, &mut looks);
        entries[parent].cut = !whole;
        for (name, kind) in names {
            if shown == limits.tree_items {
                entries[parent].cut = true;
                break;
            }
            shown += 1;
            let index = entries.len();
            entries.push(Entry {
                name: printable(&name, kind),
                ..Entry::default()
            });
            entries[parent].below.push(index);
            if kind == FileType::Directory {
                queue.push_back((index, dir.clone(), name));
            }
        }
    }
    let mut out = String::new();
    write(&entries, 0, 0, &mut out);
    out
}

const OPEN: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

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
    names.sort_by(|(a, _), (b, _)| a.cmp(b));
    (names, whole)
}

fn printable(name: &[u8], kind: FileType) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(name).chars() {
        match c {
            // Marks that turn the direction of writing could make a name look like another one.
            '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                text.extend(c.escape_unicode());
            }
            c if c.is_control() || "\u{2028}\u{2029}".contains(c) => {
                text.extend(c.escape_default())
            }
            c => text.push(c),
        }
    }
    if kind == FileType::Directory {
        text.push('/');
    }
    text
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
        for name in [
            "a/1",
            "a/2",
            "a/deep/x",
            "b/3",
            "c",
            ".git/HEAD",
            "node_modules/m/i.js",
        ] {
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
            draw(scratch.path(), &Limits::default()),
            "a/\n  1\n  2\n  deep/\n    x\nb/\n  3\nc\nnew\\nline\\u{202e}\nout\n"
        );
        assert_eq!(draw(&scratch.path().join("none"), &Limits::default()), "");
    }

    #[test]
    fn what_is_too_much_is_cut_breadth_first() {
        let scratch = scratch();
        let draw = |tree_items, tree_looks| {
            let limits = Limits {
                tree_items,
                tree_looks,
                ..Limits::default()
            };
            draw(scratch.path(), &limits)
        };
        let whole = "a/\n  1\n  2\n  deep/\n    x\nb/\n  3\nc\nout\n";
        assert_eq!(draw(9, 9), whole);
        assert_eq!(
            draw(8, 9),
            "a/\n  1\n  2\n  deep/\n    …\nb/\n  3\nc\nout\n"
        );
        assert_eq!(draw(5, 9), "a/\n  1\n  …\nb/\n  …\nc\nout\n");
        assert_eq!(
            draw(9, 8),
            "a/\n  1\n  2\n  deep/\n    …\nb/\n  3\nc\nout\n"
        );
    }
}
