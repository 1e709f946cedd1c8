//! `grep_search`: lines of files that match a regular expression.
//!
//! In process: our own walk, `lines` on whole files, no program to find or to trust. Which matches are shown does not depend
//! on which thread was faster: they are the first in the order of paths. Once enough are found, whatever comes behind the last of
//! them is not looked at any more, so a common word costs little.
//!
//! A few matches come with the lines around them without being asked, which saves the model from reading the file.

mod lines;
mod literal;
mod report;
mod search;

use crate::task::machine::job::{Run, RunEnd};
use crate::task::spec::{CallError, ErrorKind, Kind, Plan, ToolSpec};
use crate::tool::files::path::{Found, ResolvedPath};
use crate::tool::search::ignore::{Rules, Wanted};
use crate::tool::search::listing::file_name;
use crate::tool::search::search_end;
use crate::tool::search::walk::{BY_MACHINE, Start, Stop, VERSIONS, Walk};
use crate::tool::search::wildcard::{Case, NameGlob};
use crate::tool::{Ctx, Tool, flag_arg, invalid, number_arg, object, optional_text_arg, text_arg};
use lines::Lines;
use report::Report;
use search::{Around, Best, FoundFile, Search};
use serde_json::{Value, json};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

pub struct GrepSearch;

impl Tool for GrepSearch {
    fn spec(&self) -> ToolSpec {
        let spec = ToolSpec::new(
            "grep_search",
            "SearchText",
            Kind::Search,
            "Searches the text files of the workspace, or one file, for lines that match a regular expression, and answers \
             with files, line numbers and lines. Upper and lower case do not differ unless asked for. Look-around and back \
             references are not available.",
            object(&["pattern"], properties()),
        );
        ToolSpec { former_name: Some("search_file_content"), ..spec }
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        let query = Query::from(args, ctx)?;
        let resolved = ctx.workspace.find(query.dir)?;
        let (pattern, path) = (query.pattern, resolved.relative());
        let like = query.include_text.map_or(String::new(), |glob| format!(" in {glob}"));
        Ok(Plan::info(
            format!("Searching for '{pattern}'{like} within {path}"),
            format!("Confirm Search: {pattern}"),
            format!("Search {} for {pattern}?", resolved.real()),
        ))
    }

    fn run(&self, run: &Run, ctx: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        Ok(search_end(search(&run.args, ctx)?))
    }
}

fn properties() -> Value {
    json!({
        "pattern": {"type": "string", "description": "The regular expression, or the text itself with fixed_strings."},
        "dir_path": {"type": "string", "description": "The directory or file to search; the workspace if left out."},
        "include_pattern": {"type": "string", "description": "Glob pattern of the files to search, such as `*.ts` or `src/**/*.rs`."},
        "exclude_pattern": {"type": "string", "description": "Regular expression of matching lines to leave out."},
        "names_only": {"type": "boolean", "description": "Answer with the names of the files only."},
        "case_sensitive": {"type": "boolean", "description": "Whether upper and lower case differ."},
        "fixed_strings": {"type": "boolean", "description": "Take the pattern for the text itself."},
        "context": {"type": "integer", "minimum": 0, "description": "Lines to show before and after each match."},
        "before": {"type": "integer", "minimum": 0, "description": "Lines to show before each match."},
        "after": {"type": "integer", "minimum": 0, "description": "Lines to show after each match."},
        "no_ignore": {"type": "boolean", "description": "Also search what ignore files hide, and build output."},
        "max_matches_per_file": {"type": "integer", "minimum": 1, "description": "Matches to show of each file."},
        "total_max_matches": {"type": "integer", "minimum": 1, "description": "Matches to show at most; 100 if left out."},
    })
}

/// The arguments of a search.
struct Query<'a> {
    pattern: &'a str,
    dir: &'a str,
    lines: Lines,
    /// Lines that do not count although they match.
    except: Option<Lines>,
    include: Option<Include>,
    include_text: Option<&'a str>,
    names_only: bool,
    around: Option<Around>,
    /// Search also what ignore files hide and what programs generate.
    no_ignore: bool,
    per_file: usize,
    total: usize,
}

/// A pattern of the files to search, or, after an exclamation mark, of those to leave out.
struct Include {
    glob: NameGlob,
    negated: bool,
}

impl<'a> Query<'a> {
    fn from(args: &'a Value, ctx: &Ctx) -> Result<Query<'a>, CallError> {
        let pattern = text_arg(args, "pattern")?;
        let case = if flag_arg(args, "case_sensitive") { Case::Exact } else { Case::Folded };
        let lines = match flag_arg(args, "fixed_strings") {
            true => expression(&regex_lite::escape(pattern), case)?,
            false => expression(pattern, case)?,
        };
        let except = optional_text_arg(args, "exclude_pattern").map(|pattern| expression(pattern, case)).transpose()?;
        let include_text = optional_text_arg(args, "include_pattern").filter(|text| !text.is_empty());
        let both = number_arg(args, "context");
        let (before, after) = (number_arg(args, "before"), number_arg(args, "after"));
        let total = number_arg(args, "total_max_matches").unwrap_or(ctx.limits.search_matches);
        Ok(Query {
            pattern,
            dir: optional_text_arg(args, "dir_path").unwrap_or("."),
            lines,
            except,
            include: include_text.map(Include::new).transpose()?,
            include_text,
            names_only: flag_arg(args, "names_only"),
            around: both
                .or(before)
                .or(after)
                .map(|_| Around { before: before.or(both).unwrap_or(0), after: after.or(both).unwrap_or(0) }),
            no_ignore: flag_arg(args, "no_ignore"),
            per_file: number_arg(args, "max_matches_per_file").unwrap_or(usize::MAX),
            total: total.min(ctx.limits.search_most_matches),
        })
    }

    /// Whether a file is to be searched, by its path from the searched directory on.
    fn includes(&self, path: &[u8]) -> bool {
        let name = file_name(path);
        let by_machine = !self.no_ignore && (name.ends_with(b".log") || name.ends_with(b".tmp"));
        !by_machine && self.include.as_ref().is_none_or(|include| include.includes(path))
    }
}

impl Include {
    fn new(text: &str) -> Result<Include, CallError> {
        let (pattern, negated) = text.strip_prefix('!').map_or((text, false), |rest| (rest, true));
        Ok(Include { glob: NameGlob::new(pattern, Case::Exact).map_err(invalid)?, negated })
    }

    fn includes(&self, path: &[u8]) -> bool {
        self.glob.matches(path) != self.negated
    }
}

/// Models write `fn main() {` and mean it; the expression language takes a brace for a number of times.
fn expression(pattern: &str, case: Case) -> Result<Lines, CallError> {
    let first = Lines::new(pattern, case);
    first
        .or_else(|error| Lines::new(&braces_escaped(pattern), case).map_err(|_| error))
        .map_err(|error| {
            invalid(format!(
                "{pattern:?} is not a regular expression that can be searched for: {error}. Correct it, or set fixed_strings \
                 to search for the text itself."
            ))
        })
}

/// The expression with a backslash before every brace that does not begin a number of times.
fn braces_escaped(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern.chars();
    let mut open = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                text.push(c);
                text.extend(rest.next());
                continue;
            }
            '{' => {
                open = counts(rest.as_str());
                if !open {
                    text.push('\\');
                }
            }
            '}' if open => open = false,
            '}' => text.push('\\'),
            _ => {}
        }
        text.push(c);
    }
    text
}

/// Whether what follows a brace is a number of times: `3}`, `3,}` or `3,5}`.
fn counts(rest: &str) -> bool {
    let Some((inside, _)) = rest.split_once('}') else {
        return false;
    };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

/// The texts for the model and for people; None if the search was cancelled.
fn search(args: &Value, ctx: &Ctx) -> Result<Option<(String, String)>, CallError> {
    let query = Query::from(args, ctx)?;
    let resolved = ctx.workspace.find(query.dir)?;
    let best = Best::new(query.total);
    let mut report = match &resolved.found {
        Found::Directory(_) => match search_tree(&query, &resolved, &best, ctx)? {
            Some(report) => report,
            None => return Ok(None),
        },
        Found::File(_) => search_file(&query, &resolved, &best, ctx)?,
        Found::Nothing(_) => {
            let text =
                format!("There is no file or directory {} in {}.", resolved.relative(), ctx.workspace.path().display());
            return Err(ErrorKind::FileNotFound.error(text));
        }
    };
    (report.files, report.limited) = best.into_files();
    if !query.names_only && query.around.is_none() {
        widen(&mut report.files, &query, ctx);
    }
    Ok(Some(report.show(&query, &resolved, ctx)))
}

fn wanted(query: &Query, ctx: &Ctx) -> Wanted {
    if query.no_ignore { Wanted::NONE } else { ctx.workspace.wanted() }
}

/// None if it was cancelled.
fn search_tree(query: &Query, resolved: &ResolvedPath, best: &Best, ctx: &Ctx) -> Result<Option<Report>, CallError> {
    let mut report = Report::default();
    let Found::Directory(dir) = &resolved.found else {
        return Ok(Some(report));
    };
    let Some(rules) = Rules::at(&ctx.workspace, resolved.below(), wanted(query, ctx), ctx.limits) else {
        report.hidden = true;
        return Ok(Some(report));
    };
    let skipped: &[&str] = if query.no_ignore { &VERSIONS } else { &BY_MACHINE };
    let start = Start { dir: dir.as_fd(), path: resolved.below(), rules };
    let walk = Walk::new(ctx.cancel, ctx.limits, skipped);
    let walked = walk.run(start, || Search::new(query, resolved, best, ctx.limits));
    report.gaps = walked.gaps(ctx.limits);
    report.too_large = walked.visitors.iter().map(|one| one.too_large).sum();
    match walked.stopped {
        Some(Stop::Cancelled) => Ok(None),
        Some(Stop::Time) if best.is_empty() => {
            let text = format!("Nothing was found. {}", report.gaps.trim_end());
            Err(ErrorKind::GrepExecutionError.error(text))
        }
        Some(Stop::Time | Stop::Entries) | None => Ok(Some(report)),
    }
}

/// A file that is named is searched whatever its name; only ignore files keep it from that.
fn search_file(query: &Query, resolved: &ResolvedPath, best: &Best, ctx: &Ctx) -> Result<Report, CallError> {
    let mut report = Report::default();
    if Rules::hide_file(&ctx.workspace, resolved.below(), wanted(query, ctx), ctx.limits) {
        report.hidden = true;
        return Ok(report);
    }
    let bytes = contents(resolved, ctx)?;
    let path = resolved.below().as_os_str().as_bytes();
    if let Some(found) = search::lines_in(&bytes, &query.lines, query, query.around) {
        best.add(path, found);
    }
    Ok(report)
}

fn contents(resolved: &ResolvedPath, ctx: &Ctx) -> Result<Vec<u8>, CallError> {
    match &resolved.found {
        Found::File(entry) => {
            crate::tool::files::read_file::contents(entry, &resolved.relative(), ctx.limits.file_bytes)
        }
        Found::Directory(_) | Found::Nothing(_) => Ok(Vec::new()),
    }
}

/// Shows what is around a few matches. The files are read again, which is cheaper than to keep all that might be needed; one
/// that has changed meanwhile stays as it was found.
fn widen(files: &mut [(Vec<u8>, FoundFile)], query: &Query, ctx: &Ctx) {
    let matches: usize = files.iter().map(|(_, found)| found.matches).sum();
    let around = match matches {
        1 => Around { before: 50, after: 50 },
        2 | 3 => Around { before: 15, after: 15 },
        _ => return,
    };
    for (path, found) in files {
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path));
        let wider = ctx
            .workspace
            .look(path)
            .and_then(|resolved| contents(&resolved, ctx).ok())
            .and_then(|bytes| search::lines_in(&bytes, &query.lines, query, Some(around)));
        if let Some(wider) = wider
            && wider.matching().eq(found.matching())
        {
            *found = wider;
        }
    }
}

#[cfg(test)]
mod tests;
