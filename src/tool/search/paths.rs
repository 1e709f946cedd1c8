//! Files whose paths a person may mean: those that contain the letters that were typed, in this order. For the completion of paths in
//! a prompt, so ignored files are left out and nothing is opened.

use crate::limits::FILES_LOOKED_AT;
use crate::tool::Ctx;
use crate::tool::search::ignore::Rules;
use crate::tool::search::walk::{NOT_OURS, Visitor, Walk, WalkedFile};
use rustix::fd::AsFd;
use std::path::Path;

/// The paths relative to the workspace that fit, at most `limit`: those first whose last part fits, then the shorter ones; and how many
/// fit.
pub fn fitting(query: &str, limit: usize, ctx: &Ctx) -> (Vec<String>, usize) {
    let path = Path::new("");
    let Some(rules) = Rules::at(&ctx.workspace, path, ctx.workspace.wanted, ctx.limits) else {
        return (Vec::new(), 0);
    };
    let mut fitting = Fitting { query: query.to_lowercase(), looked_at: 0, found: Vec::new() };
    Walk { cancel: ctx.cancel, limits: ctx.limits, skipped: &NOT_OURS, dir: ctx.workspace.dir.as_fd(), path, rules }
        .run(&mut fitting);
    fitting.found.sort();
    let total = fitting.found.len();
    (fitting.found.into_iter().take(limit).map(|(_, _, path)| path).collect(), total)
}

struct Fitting {
    /// In lower case.
    query: String,
    looked_at: usize,
    /// Whether the name alone does not fit, the length, and the path.
    found: Vec<(bool, usize, String)>,
}

impl Visitor for Fitting {
    fn wants(&mut self, _: &[u8]) -> bool {
        self.looked_at < FILES_LOOKED_AT
    }

    fn file(&mut self, file: &WalkedFile) {
        self.looked_at += 1;
        // A path that is not UTF-8 cannot be typed.
        let Ok(path) = std::str::from_utf8(file.path) else {
            return;
        };
        if self.looked_at > FILES_LOOKED_AT || !contains(path, &self.query) {
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
    fn paths_fit_by_their_letters_and_ignored_ones_are_left_out() {
        let scratch = Scratch::new();
        for path in
            ["src/lexer/tests.rs", "tests/lexer_test.rs", "src/main.rs", "target/lexer_test", ".gitignore", ".git/HEAD"]
        {
            scratch.put(path, "target/\n");
        }
        let fit = |query, limit| with_ctx(&scratch, &Limits::default(), |ctx| fitting(query, limit, ctx).0);
        assert_eq!(fit("lxtst", 9), ["tests/lexer_test.rs", "src/lexer/tests.rs"]);
        assert_eq!(fit("LEXER", 1), ["tests/lexer_test.rs"]);
        assert_eq!(fit("", 2), [".gitignore", "src/main.rs"]);
        assert_eq!(fit("zz", 9), [""; 0]);
    }
}
