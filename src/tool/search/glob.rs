//! `glob`: finds files by a pattern of their path.
//!
//! Files that were changed recently come first, newest first, because people usually mean them; the others are in the order of paths. Only
//! regular files are found, not links: the target of a link has its own path, or is outside of the workspace.

use crate::task::machine::job::{Run, RunEnd};
use crate::task::spec::{CallError, ErrorKind, Kind, Plan, ToolSpec};
use crate::tool::files::path::{PathTarget, ResolvedPath};
use crate::tool::search::ignore::{EntryKind, IgnoreSources, Rules};
use crate::tool::search::listing::readable;
use crate::tool::search::search_end;
use crate::tool::search::walk::{Stop, THIRD_PARTY, Visitor, Walk, WalkedFile};
use crate::tool::search::wildcard::{Case, Glob, escaped};
use crate::tool::{Ctx, Tool, flag_arg, invalid, object, optional_text_arg, text_arg};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Files changed within this time come first.
const RECENT_S: i64 = 24 * 60 * 60;

pub struct FindFiles;

impl Tool for FindFiles {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "glob",
            "FindFiles",
            Kind::Search,
            "Finds files of the workspace by a glob pattern of their path, such as `src/**/*.ts` or `**/*.{md,txt}`. Answers \
             with absolute paths, files changed in the last 24 hours first. A pattern without `**/` looks in one directory \
             only.",
            object(
                &["pattern"],
                json!({
                    "pattern": {"type": "string", "description": "The glob pattern, relative to dir_path."},
                    "dir_path": {"type": "string", "description": "The directory to search in; the workspace if left out."},
                    "case_sensitive": {"type": "boolean", "description": "Whether upper and lower case differ; they do not unless said so."},
                    "respect_git_ignore": {"type": "boolean", "description": "Leave out what .gitignore files hide (default true)."},
                    "respect_gemini_ignore": {"type": "boolean", "description": "Leave out what .geminiignore hides (default true)."},
                }),
            ),
        )
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        let resolved = ctx.workspace.find(optional_text_arg(args, "dir_path").unwrap_or("."))?;
        let query = Query::from(args, &resolved, ctx)?;
        let (pattern, path) = (&query.pattern, resolved.relative());
        Ok(Plan::info(
            format!("Finding {pattern} in {path}"),
            format!("Confirm Search: {pattern}"),
            format!("Find files like {pattern} in {}?", resolved.real()),
        ))
    }

    fn run(&self, run: &Run, ctx: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        Ok(search_end(find(&run.args, ctx)?))
    }
}

struct Query {
    pattern: String,
    glob: Glob,
}

impl Query {
    fn from(args: &Value, base: &ResolvedPath, ctx: &Ctx) -> Result<Query, CallError> {
        let text = text_arg(args, "pattern")?;
        let case = if flag_arg(args, "case_sensitive") { Case::Exact } else { Case::Folded };
        if text.trim().is_empty() {
            return Err(invalid("pattern must not be empty"));
        }
        let pattern = relative(text, &base.real());
        if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
            return Err(invalid(format!(
                "the pattern {text:?} leads out of {}: give a pattern relative to dir_path, without \"..\"",
                base.real()
            )));
        }
        // Brackets and braces are common in file names: a pattern that is the path of a file means that file.
        let named = ctx.workspace.find_listed(&base.below.join(pattern));
        let exists = named.is_some_and(|resolved| matches!(resolved.found, PathTarget::File(_)));
        let glob = if exists { Glob::new(&escaped(pattern), case) } else { Glob::new(pattern, case) };
        Ok(Query { pattern: pattern.into(), glob: glob.map_err(invalid)? })
    }
}

/// The pattern relative to the base directory, also if it is given as an absolute path or begins with `./`.
fn relative<'a>(pattern: &'a str, base: &str) -> &'a str {
    let rest = pattern.strip_prefix(base).and_then(|rest| rest.strip_prefix('/'));
    rest.unwrap_or(pattern).trim_start_matches("./")
}

/// The texts for the model and for people; None if the search was cancelled.
fn find(args: &Value, ctx: &Ctx) -> Result<Option<(String, String)>, CallError> {
    let resolved = ctx.workspace.find(optional_text_arg(args, "dir_path").unwrap_or("."))?;
    let query = Query::from(args, &resolved, ctx)?;
    let dir = resolved.directory("Name a directory to search in.", ctx)?;
    let path = resolved.relative();
    let sources = IgnoreSources::from_options(args, ctx.workspace.ignore_sources);
    let Some(rules) = Rules::at(&ctx.workspace, &resolved.below, sources, ctx.limits) else {
        let text = format!(
            "No files found: {path} is hidden by ignore files. Set respect_git_ignore or respect_gemini_ignore to false to search it."
        );
        return Ok(Some((text.clone(), text)));
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = now.map_or(0, |now| now.as_secs() as i64) - RECENT_S;
    let path = &resolved.below;
    let walk = Walk { cancel: ctx.cancel, limits: ctx.limits, skipped: &THIRD_PARTY, dir, path, rules };
    let (glob, lead) = (&query.glob, resolved.lead());
    let mut found = Finder { glob, lead, since, recent: Vec::new(), others: Vec::new(), hidden: 0 };
    let walked = walk.run(&mut found);
    let gaps = walked.gaps(ctx.limits);
    match walked.stopped {
        Some(Stop::Cancelled) => Ok(None),
        Some(Stop::Time) if found.recent.is_empty() && found.others.is_empty() => {
            Err(ErrorKind::GlobExecutionError.error(format!("No files found. {}", gaps.trim_end())))
        }
        Some(Stop::Time | Stop::Entries) | None => Ok(Some(found.show(&query, &resolved, &gaps, ctx))),
    }
}

struct Finder<'a> {
    glob: &'a Glob,
    /// The number of bytes of a path before the part that is compared.
    lead: usize,
    /// Files that were changed since this time, in seconds, come first.
    since: i64,
    /// Those files, with their modification times in seconds and nanoseconds.
    recent: Vec<((i64, i64), Vec<u8>)>,
    others: Vec<Vec<u8>>,
    /// The number of files and directories that ignore files hide.
    hidden: usize,
}

impl Visitor for Finder<'_> {
    fn enters(&mut self, dir: &[u8]) -> bool {
        self.glob.could_match_in(&dir[self.lead..])
    }

    fn file(&mut self, file: &WalkedFile) {
        if !self.glob.matches(&file.path[self.lead..]) {
            return;
        }
        // A file that has been removed meanwhile is left out.
        let Ok(stat) = file.stat() else {
            return;
        };
        if stat.st_mtime >= self.since {
            let at = (stat.st_mtime, stat.st_mtime_nsec as i64);
            self.recent.push((at, file.path.to_vec()));
        } else {
            self.others.push(file.path.to_vec());
        }
    }

    fn hidden(&mut self, path: &[u8], kind: EntryKind) {
        if kind == EntryKind::Directory || self.glob.matches(&path[self.lead..]) {
            self.hidden += 1;
        }
    }
}

impl Finder<'_> {
    fn show(mut self, query: &Query, base: &ResolvedPath, gaps: &str, ctx: &Ctx) -> (String, String) {
        let (total, pattern) = (self.recent.len() + self.others.len(), &query.pattern);
        let ignored = match self.hidden {
            0 => String::new(),
            n => format!(" ({n} files or folders are left out by ignore files)"),
        };
        if total == 0 {
            let base = base.real();
            let text = format!("No files found matching \"{pattern}\" in {base}{ignored}.\n{gaps}");
            return (text.trim_end().into(), "No files found".into());
        }
        let mut text = format!(
            "Found {total} file(s) matching \"{pattern}\" in {}{ignored}, those changed in the last 24 hours first:\n",
            base.real()
        );
        // Of files with the same time, the order of paths is kept.
        self.recent.sort_by_key(|(at, _)| Reverse(*at));
        let most = ctx.limits.listed_files;
        for path in self.recent.iter().map(|(_, path)| path).chain(&self.others).take(most) {
            let path = ctx.workspace.path().join(OsStr::from_bytes(path));
            text += &readable(path.as_os_str().as_bytes());
            text.push('\n');
        }
        if total > most {
            let more = total - most;
            text += &format!("[{more} more files are not shown. Use a narrower pattern.]\n");
        }
        text += gaps;
        (text.trim_end().into(), format!("Found {total} matching file(s)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::task::spec::{Display, Ending};
    use crate::tool::tests::{Scratch, ran, run_of, with_ctx};
    use std::fs::{File, FileTimes};
    use std::time::Duration;

    fn find_with(limits: &Limits, scratch: &Scratch, args: Value) -> Result<(String, String), CallError> {
        let run = run_of(scratch, "glob", args);
        let end = with_ctx(scratch, limits, |ctx| ran(FindFiles, &run, ctx));
        match end {
            RunEnd::Ended(Ending::Success { output, display: Display::Summary { text } }) => {
                Ok((output.as_str().replace(&scratch.path().display().to_string(), "WS"), text.to_string()))
            }
            RunEnd::Ended(Ending::Error { error }) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    /// The paths that were found, or the text of the result if there are none.
    fn find(scratch: &Scratch, args: Value) -> Vec<String> {
        let (output, _) = find_with(&Limits::default(), scratch, args).expect("it can be searched");
        let paths: Vec<String> = output.lines().filter_map(|line| line.strip_prefix("WS/")).map(String::from).collect();
        if paths.is_empty() { vec![output] } else { paths }
    }

    /// Creates a file that was changed `hours` hours ago.
    fn aged(scratch: &Scratch, name: &str, hours: u64) {
        let path = scratch.put(name, "");
        let at = SystemTime::now() - Duration::from_secs(hours * 3600);
        let file = File::options().write(true).open(path).expect("it was just made");
        file.set_times(FileTimes::new().set_modified(at)).expect("it is ours");
    }

    #[test]
    fn recently_changed_files_come_first() {
        let scratch = Scratch::new();
        for (name, hours) in [("b.rs", 100), ("a.rs", 90), ("old/c.rs", 3), ("d.rs", 2), ("e.txt", 1)] {
            aged(&scratch, name, hours);
        }
        let found = find_with(&Limits::default(), &scratch, json!({"pattern": "**/*.rs"}));
        let expected = "Found 4 file(s) matching \"**/*.rs\" in WS, those changed in the last 24 hours first:\n\
                        WS/d.rs\nWS/old/c.rs\nWS/a.rs\nWS/b.rs";
        assert_eq!(found, Ok((expected.into(), "Found 4 matching file(s)".into())));
        let few = Limits { listed_files: 3, ..Limits::default() };
        let found = find_with(&few, &scratch, json!({"pattern": "**/*.rs"}));
        let last = found.map(|(output, _)| output.lines().last().map(String::from));
        let note = "[1 more files are not shown. Use a narrower pattern.]";
        assert_eq!(last, Ok(Some(note.into())));
    }

    #[test]
    fn patterns_match_paths_relative_to_the_directory() {
        let scratch = Scratch::new();
        for name in
            ["a.TS", "src/b.ts", "src/deep/c.ts", ".hidden/d.ts", "src/[id].ts", "node_modules/e.ts", ".git/f.ts"]
        {
            aged(&scratch, name, 100);
        }
        let table: [(Value, &[&str]); 9] = [
            (json!({"pattern": "*.ts"}), &["a.TS"]),
            (
                json!({"pattern": "**/*.ts", "case_sensitive": true}),
                &[".hidden/d.ts", "src/[id].ts", "src/b.ts", "src/deep/c.ts"],
            ),
            (json!({"pattern": "SRC/?.ts"}), &["src/b.ts"]),
            (json!({"pattern": "*.ts", "dir_path": "src"}), &["src/[id].ts", "src/b.ts"]),
            (json!({"pattern": "**/{c,d}.ts"}), &[".hidden/d.ts", "src/deep/c.ts"]),
            (json!({"pattern": "src/[id].ts"}), &["src/[id].ts"]),
            (json!({"pattern": "./src/deep/*"}), &["src/deep/c.ts"]),
            (json!({"pattern": format!("{}/src/deep/*", scratch.path().display())}), &["src/deep/c.ts"]),
            (json!({"pattern": "nothing"}), &["No files found matching \"nothing\" in WS."]),
        ];
        for (args, expected) in table {
            assert_eq!(find(&scratch, args.clone()), expected, "{args}");
        }
    }

    #[test]
    fn ignored_files_and_links_are_left_out() {
        let scratch = Scratch::new();
        for (name, text) in [(".git/HEAD", ""), (".gitignore", "out\n*.o\n"), ("a.o", ""), ("a.c", ""), ("out/b.c", "")]
        {
            scratch.put(name, text);
        }
        std::os::unix::fs::symlink("/etc", scratch.path().join("link")).expect("links can be made");
        std::os::unix::fs::symlink("a.c", scratch.path().join("l.c")).expect("links can be made");
        let shown = find_with(&Limits::default(), &scratch, json!({"pattern": "**/[!.]*"}));
        let expected = "Found 1 file(s) matching \"**/[!.]*\" in WS (2 files or folders are left out by ignore files), those \
                        changed in the last 24 hours first:\nWS/a.c";
        assert_eq!(shown.map(|found| found.0), Ok(expected.into()));
        let mut all = find(&scratch, json!({"pattern": "**/[!.]*", "respect_git_ignore": false}));
        all.sort();
        assert_eq!(all, ["a.c", "a.o", "out/b.c"]);
        let inside = find(&scratch, json!({"pattern": "*", "dir_path": "out"}));
        assert!(inside[0].contains("out is hidden by ignore files"), "{inside:?}");
    }

    #[test]
    fn errors_have_the_kind_of_the_failure() {
        let scratch = Scratch::new();
        scratch.put("a", "");
        let kind = |args| find_with(&Limits::default(), &scratch, args).map_err(|error| error.kind);
        let table = [
            (json!({"pattern": " "}), ErrorKind::InvalidToolParams),
            (json!({"pattern": "../*"}), ErrorKind::InvalidToolParams),
            (json!({"pattern": "/etc/*"}), ErrorKind::InvalidToolParams),
            (json!({"pattern": "*", "dir_path": "a"}), ErrorKind::PathIsNotADirectory),
            (json!({"pattern": "*", "dir_path": "b"}), ErrorKind::FileNotFound),
            (json!({"pattern": "*", "dir_path": ".."}), ErrorKind::PathNotInWorkspace),
        ];
        for (args, expected) in table {
            assert_eq!(kind(args.clone()), Err(expected), "{args}");
        }
        let hurried = Limits { search_ms: 0, ..Limits::default() };
        let late = find_with(&hurried, &scratch, json!({"pattern": "*"}));
        assert_eq!(late.map_err(|error| error.kind), Err(ErrorKind::GlobExecutionError));
    }

    #[test]
    fn a_cancelled_search_ends() {
        let scratch = Scratch::new();
        scratch.put("a", "");
        let run = run_of(&scratch, "glob", json!({"pattern": "*"}));
        let end = with_ctx(&scratch, &Limits::default(), |ctx| {
            ctx.cancel.set();
            ran(FindFiles, &run, ctx)
        });
        assert_eq!(end, search_end(None));
    }
}
