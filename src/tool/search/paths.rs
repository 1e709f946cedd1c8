//! Completes paths in a prompt: finds the files whose paths contain the typed letters in their order. Ignored files are left out, and no
//! file is opened.

use crate::limits::FILES_LOOKED_AT;
use crate::tool::Ctx;
use crate::tool::search::ignore::Rules;
use crate::tool::search::walk::{THIRD_PARTY, Visitor, Walk, WalkedFile};
use rustix::fd::AsFd;
use std::path::Path;

/// At most `limit` matching paths, relative to the workspace, and the number of all matches. Paths whose file name alone matches come
/// first, and shorter paths come before longer ones.
pub fn matching(query: &str, limit: usize, ctx: &Ctx) -> (Vec<String>, usize) {
    let path = Path::new("");
    let Some(rules) = Rules::at(&ctx.workspace, path, ctx.workspace.ignore_sources, ctx.limits) else {
        return (Vec::new(), 0);
    };
    let mut matcher = PathMatcher { query: query.to_lowercase(), visited: 0, found: Vec::new() };
    Walk { cancel: ctx.cancel, limits: ctx.limits, skipped: &THIRD_PARTY, dir: ctx.workspace.dir.as_fd(), path, rules }
        .run(&mut matcher);
    matcher.found.sort();
    let total = matcher.found.len();
    (matcher.found.into_iter().take(limit).map(|(_, _, path)| path).collect(), total)
}

struct PathMatcher {
    /// In lower case.
    query: String,
    /// The number of files that were visited.
    visited: usize,
    /// In the order in which they are sorted: whether the file name alone does not match, the length of the path, and the path.
    found: Vec<(bool, usize, String)>,
}

impl Visitor for PathMatcher {
    fn enters(&mut self, _: &[u8]) -> bool {
        self.visited < FILES_LOOKED_AT
    }

    fn file(&mut self, file: &WalkedFile) {
        self.visited += 1;
        // A path that is not UTF-8 cannot be typed.
        let Ok(path) = std::str::from_utf8(file.path) else {
            return;
        };
        if self.visited > FILES_LOOKED_AT || !contains(path, &self.query) {
            return;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        self.found.push((!contains(name, &self.query), path.len(), path.to_owned()));
    }
}

/// Whether the text contains the letters of the query in their order.
fn contains(text: &str, query: &str) -> bool {
    let mut letters = text.chars().flat_map(char::to_lowercase);
    query.chars().all(|wanted| letters.any(|letter| letter == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::tool::tests::{Scratch, with_ctx};

    #[test]
    fn paths_match_by_their_letters_and_ignored_ones_are_left_out() {
        let scratch = Scratch::new();
        for path in
            ["src/lexer/tests.rs", "tests/lexer_test.rs", "src/main.rs", "target/lexer_test", ".gitignore", ".git/HEAD"]
        {
            scratch.put(path, "target/\n");
        }
        let fit = |query, limit| with_ctx(&scratch, &Limits::default(), |ctx| matching(query, limit, ctx).0);
        assert_eq!(fit("lxtst", 9), ["tests/lexer_test.rs", "src/lexer/tests.rs"]);
        assert_eq!(fit("LEXER", 1), ["tests/lexer_test.rs"]);
        assert_eq!(fit("", 2), [".gitignore", "src/main.rs"]);
        assert_eq!(fit("zz", 9), [""; 0]);
    }
}
