//! `grep_search`: finds lines of files that match a regular expression.
//!
//! It searches in this process and starts no program. The matches that are shown are the first in the order of paths. The search ends when
//! enough matches are found, so that a common word costs little.
//!
//! If there are few matches, the lines around them are shown even if the call does not ask for them, so that the model need not read the
//! file.

mod lines;
mod literal;
mod report;
mod search;

use crate::task::machine::job::{Run, RunEnd};
use crate::task::spec::{CallError, ErrorKind, Kind, Plan, ToolSpec};
use crate::tool::files::path::PathTarget;
use crate::tool::files::read_file::contents;
use crate::tool::search::ignore::{IgnoreSources, Rules};
use crate::tool::search::listing::file_name;
use crate::tool::search::search_end;
use crate::tool::search::walk::{NOT_HANDWRITTEN, Stop, VERSION_CONTROL, Walk};
use crate::tool::search::wildcard::{Case, NameGlob};
use crate::tool::{Ctx, Tool, flag_arg, invalid, number_arg, object, optional_text_arg, text_arg};
use lines::Lines;
use regex_lite::{Captures, Regex};
use report::Report;
use search::{Around, Search, lines_in};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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
    /// Matching lines that are left out.
    except: Option<Lines>,
    include: Option<NameGlob>,
    /// The include pattern begins with an exclamation mark, so files that match it are left out.
    include_is_negated: bool,
    include_text: Option<&'a str>,
    names_only: bool,
    around: Option<Around>,
    /// Search also hidden and generated files.
    no_ignore: bool,
    per_file: usize,
    total: usize,
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
        let left_out = include_text.and_then(|text| text.strip_prefix('!'));
        let include = left_out.or(include_text).map(|pattern| NameGlob::new(pattern, Case::Exact).map_err(invalid));
        let both = number_arg(args, "context");
        let (before, after) = (number_arg(args, "before"), number_arg(args, "after"));
        let total = number_arg(args, "total_max_matches").unwrap_or(ctx.limits.search_matches);
        Ok(Query {
            pattern,
            dir: optional_text_arg(args, "dir_path").unwrap_or("."),
            lines,
            except,
            include: include.transpose()?,
            include_is_negated: left_out.is_some(),
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

    /// Whether a file is searched. `path` is relative to the searched directory.
    fn includes(&self, path: &[u8]) -> bool {
        let name = file_name(path);
        let by_machine = !self.no_ignore && (name.ends_with(b".log") || name.ends_with(b".tmp"));
        !by_machine && self.include.as_ref().is_none_or(|glob| glob.matches(path) != self.include_is_negated)
    }

    fn ignore_sources(&self, ctx: &Ctx) -> IgnoreSources {
        if self.no_ignore { IgnoreSources::NONE } else { ctx.workspace.ignore_sources }
    }
}

/// Compiles a pattern. If it is invalid, its braces are taken literally: models write `fn main() {` and mean the brace itself, which
/// begins a repetition in a regular expression.
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

/// The expression with a backslash before every brace that does not belong to a repetition.
fn braces_escaped(pattern: &str) -> String {
    let braces = Regex::new(r"(?s)\\.|\{\d+(?:,\d*)?\}|[{}]").expect("the expression is valid");
    let escaped = |found: &Captures| match &found[0] {
        brace @ ("{" | "}") => format!("\\{brace}"),
        escape_or_repetition => escape_or_repetition.to_owned(),
    };
    braces.replace_all(pattern, escaped).into_owned()
}

/// The texts for the model and for people; None if the search was cancelled.
fn search(args: &Value, ctx: &Ctx) -> Result<Option<(String, String)>, CallError> {
    let query = Query::from(args, ctx)?;
    let resolved = ctx.workspace.find(query.dir)?;
    let (below, sources) = (resolved.below.as_path(), query.ignore_sources(ctx));
    let mut report = Report::new(query.total);
    match &resolved.found {
        PathTarget::Directory(dir) => match Rules::at(&ctx.workspace, below, sources, ctx.limits) {
            Some(rules) => {
                let skipped: &[&str] = if query.no_ignore { &VERSION_CONTROL } else { &NOT_HANDWRITTEN };
                let (cancel, limits, dir) = (ctx.cancel, ctx.limits, dir.as_fd());
                let walk = Walk { cancel, limits, skipped, dir, path: below, rules };
                let lead = resolved.lead();
                let mut search = Search { query: &query, limits, lead, bytes: Vec::new(), report };
                let walked = walk.run(&mut search);
                report = search.report;
                report.gaps = walked.gaps(limits);
                match walked.stopped {
                    Some(Stop::Cancelled) => return Ok(None),
                    Some(Stop::Time) if report.matches() == 0 => {
                        let text = format!("Nothing was found. {}", report.gaps.trim_end());
                        return Err(ErrorKind::GrepExecutionError.error(text));
                    }
                    Some(Stop::Time | Stop::Entries) | None => {}
                }
            }
            None => report.hidden = true,
        },
        // A file that is named is searched whatever its name, unless ignore files hide it.
        PathTarget::File(_) if Rules::hide_file(&ctx.workspace, below, sources, ctx.limits) => report.hidden = true,
        PathTarget::File(entry) => {
            let bytes = contents(entry, &resolved.relative(), ctx.limits.file_bytes)?;
            report.add(below.as_os_str().as_bytes(), lines_in(&bytes, &query, query.around));
        }
        PathTarget::Nothing(_) => return Err(resolved.missing("file or directory", ctx)),
    }
    if !query.names_only && query.around.is_none() {
        widen(&mut report, &query, ctx);
    }
    Ok(Some(report.show(&query, &resolved, ctx)))
}

/// Adds lines around the matches if there are only a few matches. The files are read again, which is cheaper than keeping all lines that
/// might be needed. The lines of a file that has changed meanwhile stay as they are.
fn widen(report: &mut Report, query: &Query, ctx: &Ctx) {
    let around = match report.matches() {
        1 => Around { before: 50, after: 50 },
        2 | 3 => Around { before: 15, after: 15 },
        _ => return,
    };
    report.widen(|path| {
        let resolved = ctx.workspace.find_listed(Path::new(OsStr::from_bytes(path)))?;
        let PathTarget::File(entry) = &resolved.found else {
            return None;
        };
        let bytes = contents(entry, &resolved.relative(), ctx.limits.file_bytes).ok()?;
        Some(lines_in(&bytes, query, Some(around)))
    });
}

#[cfg(test)]
mod tests;
