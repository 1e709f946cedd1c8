//! `replace`: replaces a piece of a file, which is identified by its old text.
//!
//! The old text is searched for as `matching` describes. The matches become edits of the file's own bytes, so that everything else stays
//! as it is, carriage returns included. The new text is taken literally. If the edit cannot be made, the call fails when it is prepared,
//! so that nobody is asked about a change that would not happen.
//!
//! A file with bytes that are invalid in its encoding is not edited: writing it back would change those bytes too.

mod elsewhere;
mod matching;

use crate::task::machine::job::{Run, RunEnd};
use crate::task::spec::{CallError, ErrorKind, Kind, Plan, ToolSpec};
use crate::tool::files::edit::{Current, Proposal, omission};
use crate::tool::files::path::{PathTarget, ResolvedPath};
use crate::tool::{Ctx, Tool, flag_arg, invalid, object, optional_text_arg, text_arg};
use matching::{Edit, Strategy};
use serde_json::{Value, json};
use std::path::Path;

pub struct Replace;

impl Tool for Replace {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "replace",
            "Edit",
            Kind::Edit,
            "Replaces text in a file of the workspace. The old text must be in the file exactly once, with its whitespace \
             and indentation; give a few lines around the change to make it unique. With an empty old text, creates a new \
             file. Read the file before you edit it.",
            object(
                &["file_path", "instruction", "old_string", "new_string"],
                json!({
                    "file_path": {"type": "string", "description": "The file, relative to the workspace or absolute."},
                    "instruction": {"type": "string", "description": "What is changed and why, in a sentence or two."},
                    "old_string": {"type": "string", "description": "The text to replace, as it stands in the file. Empty to create a file."},
                    "new_string": {"type": "string", "description": "The text to put in its place, complete and literal."},
                    "allow_multiple": {"type": "boolean", "description": "Replace every place where the old text is, not just one."},
                }),
            ),
        )
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        let proposal = Arguments::from(args)?.proposal(ctx)?;
        let path = proposal.resolved.relative();
        let (old, new) = (snippet(args, "old_string"), snippet(args, "new_string"));
        let title =
            if proposal.current.exists() { format!("{path}: {old} => {new}") } else { format!("Creating {path}") };
        Ok(proposal.plan(title, format!("Confirm Edit: {path}"), ctx))
    }

    fn run(&self, run: &Run, ctx: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        Arguments::from(&run.args)?.proposal(ctx)?.carry_out(run, ctx)
    }
}

/// The beginning of the first line of an argument that is not empty.
fn snippet(args: &Value, name: &str) -> String {
    const CHARS: usize = 30;
    let text = optional_text_arg(args, name).unwrap_or_default().trim();
    let first = text.lines().next().unwrap_or_default();
    let mut short: String = first.chars().take(CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The arguments, with `\n` for every line end.
struct Arguments<'a> {
    path: &'a str,
    old: String,
    new: String,
    allow_multiple: bool,
}

impl<'a> Arguments<'a> {
    fn from(args: &'a Value) -> Result<Arguments<'a>, CallError> {
        let text = |name| Ok(text_arg(args, name)?.replace("\r\n", "\n"));
        let arguments = Arguments {
            path: text_arg(args, "file_path")?,
            old: text("old_string")?,
            new: text("new_string")?,
            allow_multiple: flag_arg(args, "allow_multiple"),
        };
        match omission(&arguments.new, &arguments.old) {
            None => Ok(arguments),
            Some(line) => Err(invalid(format!(
                "line {line} of new_string stands for text that was left out. Give the complete text."
            ))),
        }
    }

    fn proposal(&self, ctx: &Ctx) -> Result<Proposal, CallError> {
        if self.old.is_empty() {
            return self.creation(ctx);
        }
        let resolved = self.find(ctx)?;
        let current = Current::of(&resolved, ctx)?;
        let path = resolved.relative();
        if !current.survives_as_text() {
            return Err(ErrorKind::EditPreparationFailure.error(format!(
                "{path} is not plain text: editing it would damage it. Change it with a shell command."
            )));
        }
        let original = current.text();
        let (strategy, edits) = self.edits(&path, &original, ctx)?;
        let new = edited(&original, &edits);
        if new == original {
            return Err(unchanged(&path));
        }
        Ok(Proposal { done: report(&resolved.real(), strategy, &edits, &original), resolved, current, new })
    }

    fn creation(&self, ctx: &Ctx) -> Result<Proposal, CallError> {
        let resolved = ctx.workspace.find_writable(self.path)?;
        let current = Current::of(&resolved, ctx)?;
        if current.exists() {
            return Err(ErrorKind::AttemptToCreateExistingFile.error(format!(
                "{} exists already. Give the text to replace in old_string, or write the whole file.",
                resolved.relative()
            )));
        }
        Ok(Proposal { done: format!("Created {}.", resolved.real()), new: self.new.clone(), resolved, current })
    }

    /// The file at the path; if there is none, the only file in the workspace whose path ends with the given one.
    fn find(&self, ctx: &Ctx) -> Result<ResolvedPath, CallError> {
        let resolved = ctx.workspace.find_writable(self.path)?;
        let exists = !matches!(resolved.found, PathTarget::Nothing(_));
        if exists || ctx.changes.proposed(&resolved.real()).is_some() {
            return Ok(resolved);
        }
        let wanted = resolved.relative();
        let others = if Path::new(self.path).is_relative() {
            elsewhere::files_ending_in(Path::new(&wanted), ctx)
        } else {
            Vec::new()
        };
        let names: Vec<&str> = others.iter().filter_map(|path| path.to_str()).collect();
        match names.as_slice() {
            [only] => ctx.workspace.find_writable(only),
            [] => Err(ErrorKind::FileNotFound
                .error(format!("There is no file {wanted}. To create it, give an empty old_string."))),
            several => Err(invalid(format!(
                "There is no file {wanted}, but there are {}. Name the one you mean.",
                several.join(", ")
            ))),
        }
    }

    fn edits(&self, path: &str, original: &str, ctx: &Ctx) -> Result<(Strategy, Vec<Edit>), CallError> {
        if self.old == self.new {
            return Err(unchanged(path));
        }
        let content = original.replace("\r\n", "\n");
        let found = matching::find(&content, &self.old, &self.new, ctx.limits.fuzzy_steps);
        let (strategy, edits) = found.ok_or_else(|| {
            ErrorKind::EditNoOccurrenceFound.error(format!(
                    "old_string is not in {path}. Nothing was changed. Read the file again and give the text as it stands there, \
                     with its whitespace and line breaks."
                ),
            )
        })?;
        if edits.len() > 1 && !self.allow_multiple {
            return Err(ErrorKind::EditExpectedOccurrenceMismatch.error(format!(
                    "old_string is in {path} {} times, and one was expected. Nothing was changed. Give more lines around it, or set \
                     allow_multiple to change them all.",
                    edits.len()
                ),
            ));
        }
        Ok((strategy, edits))
    }
}

fn unchanged(path: &str) -> CallError {
    ErrorKind::EditNoChange.error(format!("Nothing to change: {path} would be the same after the edit."))
}

fn report(path: &str, strategy: Strategy, edits: &[Edit], original: &str) -> String {
    let times = match edits.len() {
        1 => "1 replacement".to_owned(),
        n => format!("{n} replacements"),
    };
    let mut text = format!("Modified {path} ({times}).");
    if strategy == Strategy::Fuzzy {
        let content = original.replace("\r\n", "\n");
        let line = |at: usize| content.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        let lines = |Edit { range, .. }: &Edit| {
            let last = range.end.saturating_sub(1).max(range.start);
            format!("{}-{}", line(range.start), line(last))
        };
        let lines: Vec<String> = edits.iter().map(lines).collect();
        let lines = lines.join(", ");
        text += &format!(" old_string was not there as given; what comes nearest was replaced, in lines {lines}.");
    }
    text
}

/// Applies edits, whose positions are those in the text with `\n` as the only line end, to the original text. Text that is not edited keeps
/// its line ends, new lines get the line end that most of the file has, and a line break at the end of the file is neither added nor
/// removed.
fn edited(original: &str, edits: &[Edit]) -> String {
    // The positions, in the text without carriage returns, of the line breaks that have one.
    let returns: Vec<usize> = original.match_indices("\r\n").enumerate().map(|(before, (at, _))| at - before).collect();
    let original_position = |at: usize| at + returns.partition_point(|line_break| *line_break < at);
    let breaks = original.matches('\n').count();
    let line_break = if returns.len() * 2 > breaks { "\r\n" } else { "\n" };
    let mut text = String::with_capacity(original.len());
    let mut done = 0;
    for edit in edits {
        text.push_str(&original[done..original_position(edit.range.start)]);
        text.push_str(&edit.text.replace('\n', line_break));
        done = original_position(edit.range.end);
    }
    text.push_str(&original[done..]);
    match (original.ends_with('\n'), text.strip_suffix('\n')) {
        (true, None) if !text.is_empty() => text.push_str(line_break),
        (false, Some(bare)) => {
            let bare = bare.strip_suffix('\r').unwrap_or(bare);
            text.truncate(bare.len());
        }
        (true, _) | (false, None) => {}
    }
    text
}

#[cfg(test)]
mod tests;
