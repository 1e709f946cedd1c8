//! The result of a search: files and lines for the model, one sentence for people.

use crate::tool::Ctx;
use crate::tool::files::path::ResolvedPath;
use crate::tool::files::read_file::shortened;
use crate::tool::search::grep_search::Query;
use crate::tool::search::grep_search::search::{Line, Role};
use crate::tool::search::listing::readable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[derive(Default)]
pub struct Report {
    /// The files with matches, in the order of paths.
    files: Vec<(Vec<u8>, Vec<Line>)>,
    /// The number of matches that may still be added.
    remaining: usize,
    /// Whether there may be more than is shown.
    limited: bool,
    /// The directory or file to search is hidden itself.
    pub hidden: bool,
    /// Sentences about what could not be searched.
    pub gaps: String,
    /// The number of files that were not searched because they are too large.
    pub too_large: usize,
}

impl Report {
    /// A report of at most `most` matches.
    pub fn new(most: usize) -> Report {
        Report { remaining: most, ..Report::default() }
    }

    /// Adds a file, if it has matches. At the limit, the first match that is too many and all lines after it are removed.
    pub fn add(&mut self, path: &[u8], mut lines: Vec<Line>) {
        let matches: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].role == Role::Match).collect();
        if let Some(too_many) = matches.get(self.remaining) {
            lines.truncate(*too_many);
            self.limited = true;
        }
        self.remaining = self.remaining.saturating_sub(matches.len());
        if !lines.is_empty() {
            self.files.push((path.to_vec(), lines));
        }
    }

    /// Whether nothing more can be added. Then the report counts as limited, because files that are not searched might have matches.
    pub fn is_full(&mut self) -> bool {
        self.limited |= self.remaining == 0;
        self.remaining == 0
    }

    pub fn matches(&self) -> usize {
        self.files.iter().flat_map(|(_, lines)| matching(lines)).count()
    }

    /// Replaces the lines of files by those that `wider` finds, if the same ones match.
    pub fn widen(&mut self, wider: impl Fn(&[u8]) -> Option<Vec<Line>>) {
        for (path, lines) in &mut self.files {
            if let Some(wider) = wider(path).filter(|wider| matching(wider).eq(matching(lines))) {
                *lines = wider;
            }
        }
    }

    /// The texts for the model and for people.
    pub fn show(&self, query: &Query, base: &ResolvedPath, ctx: &Ctx) -> (String, String) {
        let like = query.include_text.map_or(String::new(), |glob| format!(" (files: \"{glob}\")"));
        let of = format!("pattern \"{}\" in path \"{}\"{like}", query.pattern, base.relative());
        if self.hidden {
            let text = format!(
                "No matches found for {of}: it is hidden by ignore files. Set no_ignore to search it all the same."
            );
            return (text, "No matches found".into());
        }
        let found = match query.names_only {
            true => count(self.files.len(), "file with matches", "files with matches"),
            false => count(self.matches(), "match", "matches"),
        };
        let Some(found) = found else {
            let text = format!("No matches found for {of}.\n{}", self.notes(ctx));
            return (text.trim_end().into(), "No matches found".into());
        };
        let limited = if self.limited { " (limited)" } else { "" };
        let body = if query.names_only { self.names(ctx) } else { self.lines(ctx) };
        let more = if self.limited {
            "There may be more matches: narrow the search, or raise total_max_matches.\n"
        } else {
            ""
        };
        let text = format!("Found {found}{limited} for {of}:\n{body}{more}{}", self.notes(ctx));
        (text.trim_end().into(), format!("Found {found}{limited}"))
    }

    fn names(&self, ctx: &Ctx) -> String {
        self.files.iter().map(|(path, _)| shown(path, ctx) + "\n").collect()
    }

    fn lines(&self, ctx: &Ctx) -> String {
        let mut text = String::from("---\n");
        let mut remaining = ctx.limits.search_chars;
        for (i, (path, lines)) in self.files.iter().enumerate() {
            if remaining == 0 {
                let rest = self.files.len() - i;
                text += &format!("[{rest} more files are left out: the answer is long enough.]\n");
                return text;
            }
            text += &format!("File: {}\n", shown(path, ctx));
            for line in lines {
                let mark = match line.role {
                    Role::Match => ':',
                    Role::Context => '-',
                };
                let shown = shortened(&line.text, ctx.limits.line_chars);
                remaining = remaining.saturating_sub(shown.len());
                text += &format!("L{}{mark} {shown}\n", line.number);
                if remaining == 0 {
                    text += "[The rest of this file is left out.]\n";
                    break;
                }
            }
            text += "---\n";
        }
        text
    }

    fn notes(&self, ctx: &Ctx) -> String {
        let too_large = match self.too_large {
            0 => String::new(),
            n => format!("{n} files larger than {} MiB were not searched.\n", ctx.limits.file_bytes >> 20),
        };
        too_large + &self.gaps
    }
}

fn shown(path: &[u8], ctx: &Ctx) -> String {
    readable(ctx.workspace.shown(Path::new(OsStr::from_bytes(path))).as_os_str().as_bytes())
}

fn matching(lines: &[Line]) -> impl Iterator<Item = &Line> {
    lines.iter().filter(|line| line.role == Role::Match)
}

fn count(number: usize, one: &str, many: &str) -> Option<String> {
    match number {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {many}")),
    }
}
