//! `write_file`: creates a file or replaces all of its content, by means of `edit.rs`.

use crate::task::machine::job::{Run, RunEnd};
use crate::task::spec::{CallError, Kind, Plan, ToolSpec};
use crate::tool::files::edit::{Current, Proposal, omission};
use crate::tool::{Ctx, Tool, invalid, object, text_arg};
use serde_json::{Value, json};

pub struct WriteFile;

impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "write_file",
            "WriteFile",
            Kind::Edit,
            "Writes a file of the workspace: creates it, together with missing directories, or replaces all of it. Give \
             the complete content; nothing may be left out or abbreviated.",
            object(
                &["file_path", "content"],
                json!({
                    "file_path": {"type": "string", "description": "The file, relative to the workspace or absolute."},
                    "content": {"type": "string", "description": "The complete new content."},
                }),
            ),
        )
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        let proposal = proposal(args, ctx)?;
        let path = proposal.resolved.relative();
        Ok(proposal.plan(format!("Writing to {path}"), format!("Confirm Write: {path}"), ctx))
    }

    fn run(&self, run: &Run, ctx: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        proposal(&run.args, ctx)?.carry_out(run, ctx)
    }
}

fn proposal(args: &Value, ctx: &Ctx) -> Result<Proposal, CallError> {
    let content = text_arg(args, "content")?;
    if let Some(line) = omission(content, "") {
        return Err(invalid(format!(
            "line {line} of the content stands for text that was left out. Give the complete content of the file."
        )));
    }
    let resolved = ctx.workspace.find_writable(text_arg(args, "file_path")?)?;
    let current = Current::of(&resolved, ctx)?;
    let verb = if current.exists() { "Overwrote" } else { "Created" };
    let done = format!("{verb} {}.", resolved.real());
    Ok(Proposal { new: current.with_line_ends(content), resolved, current, done })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::task::log::blob::{FileVersion, sha256};
    use crate::task::spec::{Base, Display, Ending, ErrorKind, Question};
    use crate::tool::files::text::Encoding;
    use crate::tool::tests::{Scratch, ran, run_of, with_ctx};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn plan(scratch: &Scratch, path: &str, content: &str) -> Result<Plan, CallError> {
        let args = json!({"file_path": path, "content": content});
        with_ctx(scratch, &Limits::default(), |ctx| WriteFile.prepare(&args, ctx))
    }

    fn run(scratch: &Scratch, run: &Run) -> RunEnd {
        with_ctx(scratch, &Limits::default(), |ctx| ran(WriteFile, run, ctx))
    }

    fn write(scratch: &Scratch, path: &str, content: &str) -> RunEnd {
        let args = json!({"file_path": path, "content": content});
        run(scratch, &run_of(scratch, "write_file", args))
    }

    fn output(end: RunEnd) -> String {
        match end {
            RunEnd::Ended(Ending::Success { output, .. }) => output.to_string(),
            other => panic!("{other:?}"),
        }
    }

    fn names(scratch: &Scratch) -> Vec<String> {
        let entries = std::fs::read_dir(scratch.path()).expect("it is there");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }

    const HEAD: &str = "Index: a\n===================================================================\n--- a\tCurrent\n+++ a\tProposed\n";

    #[test]
    fn a_plan_has_the_diff_and_changes_nothing() {
        let scratch = Scratch::new();
        let real = format!("{}/new/a", scratch.path().display());
        assert_eq!(
            plan(&scratch, "new/a", "x\n"),
            Ok(Plan {
                title: "Writing to new/a".into(),
                question: Question::Edit {
                    title: "Confirm Write: new/a".into(),
                    file_name: "a".into(),
                    file_path: real.clone(),
                    diff: format!("{HEAD}@@ -0,0 +1,1 @@\n+x\n").into(),
                    old: None,
                    new: "x\n".into(),
                },
                base: Some(Base { sha256: None, change: Some(sha256(b"+x\n")) }),
            })
        );
        assert_eq!(names(&scratch), Vec::<String>::new());
        scratch.put("a", "abc");
        let found = plan(&scratch, "a", "x\n").expect("a plan");
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(found.base.expect("an edit").sha256.as_deref(), Some(abc));
    }

    #[test]
    fn new_files_get_their_directories() {
        let scratch = Scratch::new();
        let real = scratch.path().join("x/y/a");
        assert_eq!(
            write(&scratch, "x/y/a", "1\n2\n"),
            RunEnd::Ended(Ending::Success {
                output: format!("Created {}.", real.display()).into(),
                display: Display::Diff {
                    file_name: "a".into(),
                    file_path: real.display().to_string(),
                    diff: format!("{HEAD}@@ -0,0 +1,2 @@\n+1\n+2\n").into(),
                    old: None,
                    new: "1\n2\n".into(),
                    added: 2,
                    removed: 0,
                },
            })
        );
        assert_eq!(std::fs::read(&real).expect("written"), b"1\n2\n");
        let mode = real.metadata().expect("there").mode();
        assert_eq!(mode & 0o7133, 0, "{mode:o}");
    }

    #[test]
    fn overwritten_content_is_stored_and_recorded() {
        let scratch = Scratch::new();
        let file = scratch.put("a", b"\xff\xfea\0");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("mine");
        let limits = Limits { blob_bytes: 7, ..Limits::default() };
        let changes = |path: &str, content: &str| {
            with_ctx(&scratch, &limits, |ctx| {
                let args = json!({"file_path": path, "content": content});
                ran(WriteFile, &run_of(&scratch, "write_file", args), ctx);
                ctx.changes.take()
            })
        };
        let version = |bytes: &[u8], mode: u32, unstored: bool| FileVersion {
            sha256: sha256(bytes),
            len: bytes.len() as u64,
            mode,
            unstored,
        };
        let [change] = &changes("a", "bb")[..] else { panic!("one change") };
        assert_eq!((change.root.as_str(), change.path.as_str()), (scratch.path().to_str().expect("text"), "a"));
        assert_eq!(change.before, Some(version(b"\xff\xfea\0", 0o640, false)));
        assert_eq!(change.after, version(b"\xff\xfeb\0b\0", 0o640, false));
        let [change] = &changes("new/b", "too long")[..] else { panic!("one change") };
        assert_eq!((change.path.as_str(), &change.before), ("new/b", &None));
        assert!(change.after.unstored && change.after.mode & 0o7133 == 0, "{change:?}");
        assert_eq!(changes("/etc/passwd", "x"), []);
    }

    #[test]
    fn existing_files_keep_their_mode_line_ends_and_encoding() {
        let scratch = Scratch::new();
        let script = scratch.put("run.sh", "echo 1\r\necho 2\r\n");
        let mode = std::fs::Permissions::from_mode(0o750);
        std::fs::set_permissions(&script, mode).expect("mine");
        let wide = scratch.put("wide", Encoding::Utf16Le.encode("a"));
        assert_eq!(
            output(write(&scratch, "run.sh", "echo 1\necho 3\r\n")),
            format!(
                "Overwrote {}. What changed:\n@@ -1,2 +1,2 @@\n echo 1\r\n-echo 2\r\n+echo 3\r\n",
                script.display()
            )
        );
        assert_eq!(std::fs::read(&script).expect("there"), b"echo 1\r\necho 3\r\n");
        assert_eq!(script.metadata().expect("there").mode() & 0o7777, 0o750);
        output(write(&scratch, "wide", "ü"));
        assert_eq!(std::fs::read(&wide).expect("there"), Encoding::Utf16Le.encode("ü"));
        assert_eq!(names(&scratch), ["run.sh", "wide"]);
    }

    #[test]
    fn a_file_that_changed_after_the_question_is_not_written() {
        let scratch = Scratch::new();
        let file = scratch.put("a", "old");
        let base = plan(&scratch, "a", "new").expect("a plan").base;
        let gone = plan(&scratch, "b", "new").expect("a plan").base;
        scratch.put("a", "other");
        scratch.put("b", "other");
        for (path, base) in [("a", base), ("b", gone)] {
            let args = json!({"file_path": path, "content": "new"});
            let stale = Run { base, ..run_of(&scratch, "write_file", args) };
            assert_eq!(run(&scratch, &stale), RunEnd::Stale);
        }
        assert_eq!(std::fs::read(&file).expect("there"), b"other");
        assert_eq!(names(&scratch), ["a", "b"]);
    }

    #[test]
    fn content_edited_by_the_user_is_written_and_reported() {
        let scratch = Scratch::new();
        let base = plan(&scratch, "a", "mine\n").expect("a plan").base;
        let args = json!({"file_path": "a", "content": "mine\n"});
        let edited = Run { base, edited: Some("yours\n".into()), ..run_of(&scratch, "write_file", args) };
        let file = scratch.path().join("a");
        assert_eq!(
            output(run(&scratch, &edited)),
            format!(
                "Created {}. The user changed the content you proposed before it was written:\n\
                 @@ -1,1 +1,1 @@\n-mine\n+yours\n",
                file.display()
            )
        );
        assert_eq!(std::fs::read(&file).expect("there"), b"yours\n");
    }

    #[test]
    fn links_are_written_through_and_hard_links_are_not() {
        let scratch = Scratch::new();
        let outside = Scratch::new();
        let target = scratch.put("target", "1");
        symlink("target", scratch.path().join("link")).expect("link");
        output(write(&scratch, "link", "2"));
        assert_eq!(std::fs::read(&target).expect("there"), b"2");
        assert!(scratch.path().join("link").is_symlink());

        let shared = outside.put("shared", "1");
        std::fs::hard_link(&shared, scratch.path().join("hard")).expect("one file system");
        output(write(&scratch, "hard", "2"));
        assert_eq!(std::fs::read(&shared).expect("there"), b"1");
    }

    #[test]
    fn errors_have_the_kind_of_the_failure() {
        let scratch = Scratch::new();
        scratch.put("dir/a", "");
        let kind = |path: &str| match write(&scratch, path, "x") {
            RunEnd::Ended(Ending::Error { error }) => error.kind,
            other => panic!("{other:?}"),
        };
        assert_eq!(kind("dir"), ErrorKind::TargetIsDirectory);
        assert_eq!(kind("dir/a/b"), ErrorKind::FileNotFound);
        assert_eq!(kind("../x"), ErrorKind::PathNotInWorkspace);
        assert_eq!(kind(".git/config"), ErrorKind::PolicyViolation);
    }

    #[test]
    fn a_read_only_file_is_not_written() {
        if rustix::process::geteuid().is_root() {
            eprintln!("skipped: root may write everything");
            return;
        }
        let scratch = Scratch::new();
        let file = scratch.put("a", "old");
        let mode = std::fs::Permissions::from_mode(0o444);
        std::fs::set_permissions(&file, mode).expect("mine");
        let RunEnd::Ended(Ending::Error { error }) = write(&scratch, "a", "new") else {
            panic!("it cannot be written");
        };
        assert_eq!(error.kind, ErrorKind::PermissionDenied);
        assert_eq!(std::fs::read(&file).expect("there"), b"old");
        assert_eq!(names(&scratch), ["a"]);
    }

    #[test]
    fn abbreviated_content_is_refused() {
        let scratch = Scratch::new();
        assert_eq!(
            plan(&scratch, "a", "fn main() {}\n// rest of code ...\n"),
            Err(invalid(
                "line 2 of the content stands for text that was left out. Give the complete content of the file."
            ))
        );
    }
}
