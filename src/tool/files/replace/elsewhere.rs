//! Finds a file that is not at the path that the model gave, because models often leave out the first directories.
//!
//! The search goes level by level from the workspace, does not follow links, and ends after a limited number of directories. The results
//! are only paths, which the caller opens like any other.

use crate::tool::Ctx;
use crate::tool::files::open;
use crate::tool::search::listing::Listing;
use rustix::fs::FileType;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Large directories whose files are not edited.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// Paths of all files found whose last components are those of `wanted`, in the order of the search.
pub fn files_ending_in(wanted: &Path, ctx: &Ctx) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting: VecDeque<_> =
        open::directory(&ctx.workspace.dir, ".").map(|root| (PathBuf::new(), root)).into_iter().collect();
    let mut remaining = ctx.limits.lookup_dirs.saturating_sub(1);
    while let Some((path, dir)) = waiting.pop_front() {
        if ctx.cancel.is_set() {
            break;
        }
        // A directory that cannot be read is skipped.
        for entry in Listing::of(dir.as_fd()).map_or(Vec::new(), |listing| listing.entries) {
            let name = OsStr::from_bytes(entry.name.to_bytes());
            let below = path.join(name);
            match entry.kind {
                FileType::RegularFile if below.ends_with(wanted) => found.push(below),
                FileType::Directory if remaining > 0 && !SKIPPED.iter().any(|skipped| name == *skipped) => {
                    if let Ok(dir) = open::directory(&dir, name) {
                        remaining -= 1;
                        waiting.push_back((below, dir));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::tool::tests::{Scratch, with_ctx};
    use std::os::unix::fs::symlink;

    fn found(scratch: &Scratch, wanted: &str, limits: &Limits) -> Vec<String> {
        let paths = with_ctx(scratch, limits, |ctx| files_ending_in(Path::new(wanted), ctx));
        paths.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn only_whole_components_match_and_links_are_not_followed() {
        let scratch = Scratch::new();
        let outside = Scratch::new();
        outside.put("util/a.rs", "");
        for file in ["src/util/a.rs", "src/xutil/a.rs", "a.rs", ".git/util/a.rs", "node_modules/util/a.rs"] {
            scratch.put(file, "");
        }
        symlink(outside.path(), scratch.path().join("out")).expect("link");
        symlink("a.rs", scratch.path().join("src/b.rs")).expect("link");
        let limits = Limits::default();
        assert_eq!(found(&scratch, "util/a.rs", &limits), ["src/util/a.rs"]);
        assert_eq!(found(&scratch, "a.rs", &limits), ["a.rs", "src/util/a.rs", "src/xutil/a.rs"]);
        assert_eq!(found(&scratch, "b.rs", &limits), Vec::<String>::new());
    }

    #[test]
    fn the_number_of_searched_directories_is_limited() {
        let scratch = Scratch::new();
        scratch.put("a/b/c/x.rs", "");
        for (dirs, expected) in [(3, 0), (4, 1)] {
            let limits = Limits { lookup_dirs: dirs, ..Limits::default() };
            assert_eq!(found(&scratch, "x.rs", &limits).len(), expected, "{dirs}");
        }
    }
}
