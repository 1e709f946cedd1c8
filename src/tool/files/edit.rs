//! Replaces the content of a file: the common part of `write_file` and `replace`.
//!
//! People approve a diff, so exactly that diff must be made. A plan contains the hash of the file that it was compared with, and the file
//! is only written if it still has that hash (see `put`). Encoding and line ends of the old file are kept.
//!
//! The tools compute the new text and pass it to this module together with the file that it was computed from.

use crate::task::log::blob::sha256;
use crate::task::machine::job::{Run, RunEnd};
use crate::task::spec::{Base, CallError, Display, Ending, ErrorKind, Plan, Question};
use crate::tool::files::diff::Comparison;
use crate::tool::files::path::{PathTarget, ResolvedPath};
use crate::tool::files::put;
use crate::tool::files::read_file::{contents, is_directory};
use crate::tool::files::text::{Encoding, without_middle};
use crate::tool::{Ctx, cancelled_before_start};
use regex_lite::Regex;
use std::io;
use std::sync::LazyLock;

/// Lines around each change in the result for the model, so that it need not read the file again.
const CONTEXT: usize = 5;

/// The new content that a call proposes for a file.
pub(in crate::tool) struct Proposal {
    pub resolved: ResolvedPath,
    pub current: Current,
    /// The whole new text, with the line ends of the file.
    pub new: String,
    /// The first sentence of the result for the model, e.g. `Created /w/a.txt.`
    pub done: String,
}

impl Proposal {
    /// The plan with its title, and the title of the question.
    pub fn plan(self, title: String, question: String, ctx: &Ctx) -> Plan {
        let old = self.current.text();
        let name = self.resolved.file_name();
        let comparison = Comparison::new(&old, &self.new, ctx.limits.diff_steps);
        let (diff, change) = (comparison.unified(&name), change_of(&comparison));
        ctx.changes.propose(self.resolved.real(), self.current.encoding.encode(&self.new));
        Plan {
            title,
            question: Question::Edit {
                title: question,
                file_name: name,
                file_path: self.resolved.real(),
                diff: diff.into(),
                old: self.current.exists().then_some(old.into()),
                new: self.new.into(),
            },
            base: Some(Base { sha256: self.current.hash(), change: Some(change) }),
        }
    }

    /// Whether the change is the one that the user was shown: the file has the same content as then, or it has the content that earlier
    /// edits of the same answer left, and the changed lines are the same.
    fn is_as_shown(&self, run: &Run, ctx: &Ctx) -> bool {
        let Some(shown) = &run.base else { return true };
        let now = self.current.hash();
        if shown.sha256 == now {
            return true;
        }
        let old = self.current.text();
        run.edited.is_none()
            && run.after_earlier_edits.as_ref().is_some_and(|base| base.sha256 == now)
            && shown.change == Some(change_of(&Comparison::new(&old, &self.new, ctx.limits.diff_steps)))
    }

    /// Writes the new text, or the text that the user wrote instead, unless the file has changed since it was shown.
    pub fn carry_out(self, run: &Run, ctx: &Ctx) -> Result<RunEnd, CallError> {
        if !self.is_as_shown(run, ctx) {
            return Ok(RunEnd::Stale);
        }
        let Proposal { resolved, current, .. } = self;
        if ctx.cancel.is_set() {
            return Ok(cancelled_before_start());
        }
        let edited = run.edited.as_deref().map(|text| current.with_line_ends(text));
        let new = edited.as_ref().unwrap_or(&self.new);
        let bytes = current.encoding.encode(new);
        let (name, path) = (resolved.file_name(), resolved.real());
        let relative = resolved.below.to_string_lossy().into_owned();
        let stored = ctx.changes.store(current.bytes.as_deref(), &bytes, ctx.limits);
        let written = match resolved.found {
            PathTarget::File(entry) => put::replace(&entry, current.hash().as_deref(), &bytes, None, ctx.limits),
            PathTarget::Nothing(missing) => put::create(missing, &bytes, None),
            PathTarget::Directory(_) => unreachable!("a directory has no current text"),
        };
        match written {
            Ok(Some(made)) => {
                let root = ctx.workspace.path().to_string_lossy().into_owned();
                ctx.changes.add(&run.call, (root, relative), stored, made);
            }
            Ok(None) => return Ok(RunEnd::Stale),
            Err(error) => return Err(failure(&path, &error)),
        }
        let old = current.text();
        let comparison = Comparison::new(&old, new, ctx.limits.diff_steps);
        let user_changes =
            edited.as_deref().map(|edited| Comparison::new(&self.new, edited, ctx.limits.diff_steps).hunks(CONTEXT));
        let output = report(&self.done, user_changes.as_deref(), &current, &comparison, ctx);
        Ok(RunEnd::Ended(Ending::Success {
            output: output.into(),
            display: Display::Diff {
                diff: comparison.unified(&name).into(),
                file_name: name,
                file_path: path,
                added: comparison.added(),
                removed: comparison.removed(),
                old: current.exists().then(|| old.as_str().into()),
                new: new.as_str().into(),
            },
        }))
    }
}

/// The hash of the changed lines.
fn change_of(comparison: &Comparison) -> String {
    sha256(comparison.changed_lines().as_bytes())
}

/// The result for the model. It contains the content of a new file only if the user changed it.
fn report(done: &str, user_changes: Option<&str>, current: &Current, comparison: &Comparison, ctx: &Ctx) -> String {
    let mut text = done.to_owned();
    if let Some(hunks) = user_changes {
        text.push_str(" The user changed the content you proposed before it was written:\n");
        text.push_str(&without_middle(hunks, ctx.limits.result_chars));
    }
    if current.exists() {
        let hunks = comparison.hunks(CONTEXT);
        text.push_str(if text.ends_with('\n') { "" } else { " " });
        if hunks.is_empty() {
            text.push_str("It had this content already.");
        } else {
            text.push_str("What changed:\n");
            text.push_str(&without_middle(&hunks, ctx.limits.result_chars));
        }
    }
    text
}

/// The file as it is on disk, or as earlier calls of the batch would leave it.
pub(in crate::tool) struct Current {
    bytes: Option<Vec<u8>>,
    encoding: Encoding,
}

impl Current {
    pub fn of(resolved: &ResolvedPath, ctx: &Ctx) -> Result<Current, CallError> {
        let bytes = match (&resolved.found, ctx.changes.proposed(&resolved.real())) {
            (PathTarget::Directory(_), _) => return Err(is_directory(resolved)),
            (PathTarget::File(_) | PathTarget::Nothing(_), Some(proposed)) => Some(proposed),
            (PathTarget::File(entry), None) => Some(contents(entry, &resolved.relative(), ctx.limits.file_bytes)?),
            (PathTarget::Nothing(_), None) => None,
        };
        let encoding = bytes.as_deref().map_or(Encoding::Utf8, Encoding::of);
        Ok(Current { bytes, encoding })
    }

    pub fn text(&self) -> String {
        let bytes = self.bytes.as_deref().unwrap_or_default();
        self.encoding.decode(bytes)
    }

    pub fn exists(&self) -> bool {
        self.bytes.is_some()
    }

    fn hash(&self) -> Option<String> {
        self.bytes.as_deref().map(sha256)
    }

    /// Whether decoding and encoding the file gives the same bytes, which is not the case for unknown encodings.
    pub fn survives_as_text(&self) -> bool {
        self.bytes.as_deref().is_none_or(|bytes| self.encoding.encode(&self.text()) == bytes)
    }

    /// New content with the line ends of the file.
    pub fn with_line_ends(&self, content: &str) -> String {
        if self.text().contains("\r\n") {
            content.replace("\r\n", "\n").replace('\n', "\r\n")
        } else {
            content.to_string()
        }
    }
}

fn failure(path: &str, error: &io::Error) -> CallError {
    let (kind, advice) = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (ErrorKind::PermissionDenied, "Ask the user to allow writing it.")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (ErrorKind::NoSpaceLeft, "Nothing was changed; the disk must be cleared first.")
        }
        io::ErrorKind::IsADirectory => (ErrorKind::TargetIsDirectory, "Name a file in it."),
        _ => (ErrorKind::FileWriteFailure, "Nothing was changed."),
    };
    kind.error(format!("{path} cannot be written: {error}. {advice}"))
}

/// Models abbreviate ("// rest of code ..."); written to a file, that would destroy the rest. Returns the number of the first such line,
/// counted from 1, that is not in `original`.
pub(in crate::tool) fn omission(content: &str, original: &str) -> Option<usize> {
    static OMISSION: LazyLock<Regex> = LazyLock::new(|| {
        let what = r"rest\s+of\s+((the\s+)?code|method(\s*s)?)|unchanged\s+(code|method\s*s)";
        Regex::new(&format!(r"(?i)^\s*[/#]*[\s.]*({what})\s*\.\.\.\s*$")).expect("the expression is valid")
    });
    let omits = |line: &str| OMISSION.is_match(&line.replace(['(', ')'], " "));
    let known = |line: &str| original.lines().any(|other| other.trim() == line.trim());
    content.lines().position(|line| omits(line) && !known(line)).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::task::log::answer::Request;
    use crate::tool::Toolbox;
    use crate::tool::files::changes::FileChanges;
    use crate::tool::files::path::Workspace;
    use crate::tool::tests::{Scratch, run_of, with_ctx};
    use serde_json::{Value, json};

    #[test]
    fn errors_have_the_kind_of_the_failure() {
        let of = |kind: io::ErrorKind| failure("a", &kind.into()).kind;
        assert_eq!(of(io::ErrorKind::PermissionDenied), ErrorKind::PermissionDenied);
        assert_eq!(of(io::ErrorKind::StorageFull), ErrorKind::NoSpaceLeft);
        assert_eq!(of(io::ErrorKind::IsADirectory), ErrorKind::TargetIsDirectory);
        assert_eq!(of(io::ErrorKind::BrokenPipe), ErrorKind::FileWriteFailure);
    }

    /// The file changes between the comparison and the replacement.
    #[test]
    fn a_file_that_changed_in_between_is_not_replaced() {
        type Change = fn(&Scratch);
        let changes: [(&str, Change, Option<&str>); 4] = [
            ("written", |scratch| drop(scratch.put("a", "theirs\n")), Some("theirs\n")),
            ("emptied", |scratch| drop(scratch.put("a", "")), Some("")),
            (
                "replaced",
                |scratch| {
                    let other = scratch.put("b", "other\n");
                    std::fs::rename(other, scratch.path().join("a")).expect("renamed");
                },
                Some("other\n"),
            ),
            ("touched", |scratch| drop(scratch.put("a", "old\n")), Some("new\n")),
        ];
        for (name, change, expected) in changes {
            let scratch = Scratch::new();
            scratch.put("a", "old\n");
            with_ctx(&scratch, &Limits::default(), |ctx| {
                let resolved = ctx.workspace.find_writable("a").expect("a place to write");
                let current = Current::of(&resolved, ctx).expect("a text");
                let PathTarget::File(entry) = &resolved.found else { panic!("a file") };
                change(&scratch);
                let written = put::replace(entry, current.hash().as_deref(), b"new\n", None, ctx.limits)
                    .expect("a directory that can be written");
                assert_eq!(written.is_some(), name == "touched", "{name}");
            });
            let text = std::fs::read_to_string(scratch.path().join("a")).ok();
            assert_eq!(text.as_deref(), expected, "{name}");
            let left = std::fs::read_dir(scratch.path()).expect("it is there").count();
            assert_eq!(left, 1, "{name}: nothing is left beside the file");
        }
    }

    /// Three edits of one file in one batch. Each is shown as if the earlier ones had been made, and can be made even if they were not.
    #[test]
    fn later_edits_of_a_file_are_planned_on_top_of_earlier_ones() {
        let toolbox = Toolbox::without_commands();
        let edit =
            |old: &str, new: &str| json!({"file_path": "a", "instruction": "", "old_string": old, "new_string": new});
        let calls = [edit("one", "1"), edit("four", "4"), edit("1", "I")].map(|args| ("replace", args));
        let scratch = Scratch::new();
        let text = "one\ntwo\nthree\nfour\n";
        let sha = |text: &str| Some(Base { sha256: Some(sha256(text.as_bytes())), change: None });
        let file = || std::fs::read_to_string(scratch.path().join("a")).expect("it is there");
        with_ctx(&scratch, &Limits::default(), |ctx| {
            scratch.put("a", text);
            let batch =
                calls.clone().map(|(name, args)| Request { call: name.into(), name: name.into(), args, api_id: None });
            let plans = toolbox.prepare(&batch, ctx);
            let shown = plans.into_iter().map(|plan| plan.expect("it can be made")).collect::<Vec<_>>();
            let hunks = |plan: &Plan| match &plan.question {
                Question::Edit { diff, .. } => diff.to_string().split_once(" @@\n").expect("a hunk").1.to_owned(),
                other => panic!("{other:?}"),
            };
            assert_eq!(hunks(&shown[1]), " 1\n two\n three\n-four\n+4\n");
            assert_eq!(hunks(&shown[2]), "-1\n+I\n two\n three\n 4\n");
            assert_eq!(file(), text, "nothing is written");
            let run = |at: usize, left: Option<Base>, edited: Option<&str>| {
                let (name, args) = calls[at].clone();
                let (base, edited) = (shown[at].base.clone(), edited.map(Into::into));
                let changes = FileChanges::default();
                let ctx = Ctx {
                    workspace: Workspace::open(scratch.path()).expect("it opens"),
                    others: Vec::new(),
                    changes: &changes,
                    ..*ctx
                };
                toolbox.run(
                    &Run { base, after_earlier_edits: left, edited, ..run_of(&scratch, name, args) },
                    &ctx,
                    &mut |_| {},
                )
            };
            // The first was refused: the file is as it was.
            assert_eq!(run(1, None, None), RunEnd::Stale, "no earlier edit left this content");
            assert_eq!(run(1, sha("other"), None), RunEnd::Stale, "somebody else wrote it");
            assert_eq!(run(1, sha(text), Some("mine\n")), RunEnd::Stale, "the user wrote on top of the first");
            assert!(matches!(run(1, sha(text), None), RunEnd::Ended(Ending::Success { .. })));
            assert_eq!(file(), "one\ntwo\nthree\n4\n");
            // The text that the third edit replaces is not in the file.
            assert!(matches!(run(2, sha(&file()), None), RunEnd::Ended(Ending::Error { .. })));
            scratch.put("a", "1 or 2\ntwo\nthree\n4\n");
            assert_eq!(run(2, sha(&file()), None), RunEnd::Stale, "the change is another one than was shown");
            // The file has the content that was shown.
            scratch.put("a", "1\ntwo\nthree\n4\n");
            assert!(matches!(run(2, None, None), RunEnd::Ended(Ending::Success { .. })));
            assert_eq!(file(), "I\ntwo\nthree\n4\n");
        });
    }

    #[test]
    fn an_edit_of_a_file_that_an_earlier_call_would_create_is_planned() {
        let toolbox = Toolbox::without_commands();
        let scratch = Scratch::new();
        let request = |name: &str, args: Value| Request { call: name.into(), name: name.into(), args, api_id: None };
        let plans = with_ctx(&scratch, &Limits::default(), |ctx| {
            toolbox.prepare(
                &[
                    request("write_file", json!({"file_path": "new/a", "content": "x\r\n"})),
                    request(
                        "replace",
                        json!({"file_path": "new/a", "instruction": "", "old_string": "x", "new_string": "y"}),
                    ),
                ],
                ctx,
            )
        });
        let base = plans[1].as_ref().expect("it can be made").base.as_ref().expect("an edit");
        assert_eq!(base.sha256, Some(sha256(b"x\r\n")));
        assert!(!scratch.path().join("new").exists());
    }

    #[test]
    fn omissions_are_found_unless_the_original_has_them() {
        let lines =
            ["// rest of code ...", "    (rest of methods ...)", "# ... rest of method(s) ...", "// Unchanged code..."];
        for line in lines {
            let content = format!("fn main() {{}}\n{line}\n");
            assert_eq!(omission(&content, ""), Some(2), "{line}");
            assert_eq!(omission(&content, line), None, "{line}");
        }
        for line in ["let rest = of_code(..);", "the rest of code is fine", "..."] {
            assert_eq!(omission(line, ""), None, "{line}");
        }
    }
}
