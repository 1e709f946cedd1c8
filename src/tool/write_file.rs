//! `write_file`: the whole new content of a file.
//!
//! People approve a diff, so exactly that diff must be what happens. `prepare` notes the hash of the file it compared with; `run`
//! writes beside the file, looks once more whether the file is still that one, and only then puts the new one in its place, in one
//! step: a reader sees the old file or the new one, and a crash leaves one of them. A file that is new must still not exist then.
//! What the old file was stays: its mode, owner, encoding and line ends. A hard link is not written through, it is replaced.

use crate::task::job::{Run, RunEnd};
use crate::task::spec::{
    Base, CallError, Display, Ending, ErrorKind, Kind, Plan, Question, ToolSpec, Verdict,
};
use crate::tool::diff::Comparison;
use crate::tool::path::{Entry, Found, Spot};
use crate::tool::read_file::contents;
use crate::tool::text::{Encoding, without_middle};
use crate::tool::{Ctx, Tool, cancelled_before_start, failed, invalid, text_arg};
use ring::digest::{SHA256, digest};
use rustix::fs::{Access, AtFlags, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub struct WriteFile;

/// Lines around each change that the model is shown, so that it need not read the file again.
const CONTEXT: usize = 5;

impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_file".into(),
            display_name: "WriteFile".into(),
            description: "Writes a file of the workspace: creates it, together with missing directories, or replaces all \
                          of it. Give the complete content; nothing may be left out or abbreviated."
                .into(),
            kind: Kind::Edit,
            parameters: json!({
                "type": "object",
                "required": ["file_path", "content"],
                "properties": {
                    "file_path": {"type": "string", "description": "The file, relative to the workspace or absolute."},
                    "content": {"type": "string", "description": "The complete new content."},
                },
            }),
            by_default: Verdict::Ask,
            output_is_markdown: false,
            has_live_output: false,
        }
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        let content = text_arg(args, "content")?;
        refuse_omissions(content)?;
        let spot = ctx.workspace.find_writable(text_arg(args, "file_path")?)?;
        let current = Current::of(&spot, ctx)?;
        let new = current.fitted(content);
        let old = current.text();
        let diff = Comparison::new(&old, &new, ctx.limits.diff_steps).unified(&spot.file_name());
        let path = spot.relative();
        Ok(Plan {
            title: format!("Writing to {path}"),
            question: Question::Edit {
                title: format!("Confirm Write: {path}"),
                file_name: spot.file_name(),
                file_path: spot.real(),
                diff,
                old: current.bytes.is_some().then_some(old),
                new,
            },
            base: Some(Base {
                sha256: current.hash(),
            }),
            rule: Some(format!("write_file:{}", spot.real())),
        })
    }

    fn run(&self, run: &Run, ctx: &Ctx, _out: &mut dyn FnMut(String)) -> RunEnd {
        write(run, ctx).unwrap_or_else(failed)
    }
}

/// The file as it is now.
struct Current {
    bytes: Option<Vec<u8>>,
    encoding: Encoding,
}

impl Current {
    fn of(spot: &Spot, ctx: &Ctx) -> Result<Current, CallError> {
        let bytes = match &spot.found {
            Found::File(entry) => Some(contents(entry, &spot.relative(), ctx.limits.file_bytes)?),
            Found::Nothing(_) => None,
            Found::Directory(_) => {
                return Err(CallError::new(
                    ErrorKind::TargetIsDirectory,
                    format!("{} is a directory. Name a file in it.", spot.relative()),
                ));
            }
        };
        let encoding = bytes.as_deref().map_or(Encoding::Utf8, Encoding::of);
        Ok(Current { bytes, encoding })
    }

    fn text(&self) -> String {
        let bytes = self.bytes.as_deref().unwrap_or_default();
        self.encoding.decode(bytes)
    }

    fn hash(&self) -> Option<String> {
        self.bytes.as_deref().map(hash)
    }

    /// New content with the line ends the file has.
    fn fitted(&self, content: &str) -> String {
        if self.text().contains("\r\n") {
            content.replace("\r\n", "\n").replace('\n', "\r\n")
        } else {
            content.to_string()
        }
    }
}

fn hash(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

fn write(run: &Run, ctx: &Ctx) -> Result<RunEnd, CallError> {
    let proposed = text_arg(&run.args, "content")?;
    let content = run.edited.as_deref().unwrap_or(proposed);
    let spot = ctx
        .workspace
        .find_writable(text_arg(&run.args, "file_path")?)?;
    let current = Current::of(&spot, ctx)?;
    let seen = current.hash();
    if run.base.as_ref().is_some_and(|base| base.sha256 != seen) {
        return Ok(RunEnd::Stale);
    }
    if ctx.cancel.is_set() {
        return Ok(cancelled_before_start());
    }
    let new = current.fitted(content);
    let (name, path) = (spot.file_name(), spot.real());
    let written = match spot.found {
        Found::File(entry) => replace(&entry, &current, &new, ctx),
        Found::Nothing(gap) => gap
            .make_parents()
            .and_then(|entry| create(&entry, &current.encoding.encode(&new))),
        Found::Directory(_) => unreachable!("reading it has failed above"),
    };
    match written {
        Ok(Written::Done) => {}
        Ok(Written::Stale) => return Ok(RunEnd::Stale),
        Err(error) => return Err(failure(&path, &error)),
    }
    let old = current.text();
    let found = Comparison::new(&old, &new, ctx.limits.diff_steps);
    Ok(RunEnd::Ended(Ending::Success {
        output: report(&path, &current, &found, run, ctx),
        display: Display::Diff {
            diff: found.unified(&name),
            file_name: name,
            file_path: path,
            added: found.added(),
            removed: found.removed(),
            old: current.bytes.is_some().then(|| old.clone()),
            new: new.clone(),
        },
    }))
}

/// What the model is told. It knows a new file's content, unless the user changed it.
fn report(path: &str, current: &Current, found: &Comparison, run: &Run, ctx: &Ctx) -> String {
    let mut text = match current.bytes {
        Some(_) => format!("Overwrote {path}."),
        None => format!("Created {path}."),
    };
    if let (Some(edited), Some(proposed)) = (&run.edited, run.args["content"].as_str()) {
        let theirs = Comparison::new(proposed, edited, ctx.limits.diff_steps).hunks(CONTEXT);
        text.push_str(" The user changed the content you proposed before it was written:\n");
        text.push_str(&without_middle(&theirs, ctx.limits.result_chars));
    }
    if current.bytes.is_some() {
        let hunks = found.hunks(CONTEXT);
        if hunks.is_empty() {
            text.push_str(" It had this content already.");
        } else {
            text.push_str(" What changed:\n");
            text.push_str(&without_middle(&hunks, ctx.limits.result_chars));
        }
    }
    text
}

enum Written {
    Done,
    Stale,
}

/// Puts new content in the place of the file that was seen, if it is still that file.
fn replace(entry: &Entry, current: &Current, new: &str, ctx: &Ctx) -> io::Result<Written> {
    // Renaming asks the directory for permission, not the file: a file made read-only shall stay as it is.
    rustix::fs::accessat(
        entry.dir(),
        entry.name(),
        Access::WRITE_OK,
        AtFlags::EACCESS,
    )?;
    let stat = rustix::fs::statat(entry.dir(), entry.name(), AtFlags::SYMLINK_NOFOLLOW)?;
    let aside = Aside::new(entry, 0o600)?;
    aside.fill(&current.encoding.encode(new), Some(&stat))?;
    let now = contents(entry, "", ctx.limits.file_bytes).ok();
    if now.as_deref().map(hash) != current.hash() {
        return Ok(Written::Stale);
    }
    rustix::fs::renameat(entry.dir(), &aside.name, entry.dir(), entry.name())?;
    aside.settle()?;
    Ok(Written::Done)
}

/// Puts a new file where none is.
fn create(entry: &Entry, bytes: &[u8]) -> io::Result<Written> {
    let aside = Aside::new(entry, 0o644)?;
    aside.fill(bytes, None)?;
    let (dir, flags) = (entry.dir(), RenameFlags::NOREPLACE);
    let moved = match rustix::fs::renameat_with(dir, &aside.name, dir, entry.name(), flags) {
        // Not every file system knows this kind of renaming; a second name is as good, and the first goes with `aside`.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(dir, &aside.name, dir, entry.name(), AtFlags::empty())
        }
        other => other,
    };
    match moved {
        Ok(()) => aside.settle().map(|()| Written::Done),
        Err(Errno::EXIST) => Ok(Written::Stale),
        Err(errno) => Err(errno.into()),
    }
}

/// A file being written beside the one it is to become; removed unless it became that.
struct Aside<'a> {
    entry: &'a Entry,
    name: String,
    file: File,
}

impl<'a> Aside<'a> {
    fn new(entry: &'a Entry, mode: u32) -> io::Result<Aside<'a>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let name = format!(
            ".gemini-a2a-{}-{}-{}.tmp",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed),
            since.map_or(0, |time| time.as_nanos())
        );
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(entry.dir(), &name, flags, Mode::from_raw_mode(mode))?;
        Ok(Aside {
            entry,
            name,
            file: File::from(fd),
        })
    }

    /// Writes it and makes sure it is on the disk. `like`: the file whose owner and mode it takes over.
    fn fill(&self, bytes: &[u8], like: Option<&Stat>) -> io::Result<()> {
        (&self.file).write_all(bytes)?;
        if let Some(stat) = like {
            // Only root may give files away. Others keep writing their own, which is all they can.
            let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            let _ = rustix::fs::fchown(&self.file, Some(owner), Some(group));
            rustix::fs::fchmod(&self.file, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
        }
        self.file.sync_all()
    }

    /// Makes sure the new name is on the disk, too.
    fn settle(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(self.entry.dir(), ".", flags, Mode::empty())?;
        Ok(rustix::fs::fsync(dir)?)
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(self.entry.dir(), &self.name, AtFlags::empty());
    }
}

fn failure(path: &str, error: &io::Error) -> CallError {
    let (kind, advice) = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => (
            ErrorKind::PermissionDenied,
            "Ask the user to allow writing it.",
        ),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (
            ErrorKind::NoSpaceLeft,
            "Nothing was changed; the disk must be cleared first.",
        ),
        io::ErrorKind::IsADirectory => (ErrorKind::TargetIsDirectory, "Name a file in it."),
        _ => (ErrorKind::FileWriteFailure, "Nothing was changed."),
    };
    CallError::new(kind, format!("{path} cannot be written: {error}. {advice}"))
}

/// Models abbreviate ("// rest of code ..."), and written to a file that destroys the rest. Such a line stands alone in a comment.
fn refuse_omissions(content: &str) -> Result<(), CallError> {
    const OMITTED: [&str; 8] = [
        "rest of code",
        "rest of the code",
        "rest of method",
        "rest of methods",
        "rest of method s",
        "unchanged code",
        "unchanged methods",
        "unchanged method s",
    ];
    let omits = |line: &str| {
        let comment = line.trim().trim_start_matches(['/', '#']);
        let bare = comment.replace(['(', ')'], " ");
        let Some(words) = bare.trim().strip_suffix("...") else {
            return false;
        };
        let words = words.trim_start_matches(['.', ' ']).to_lowercase();
        let words: Vec<&str> = words.split_whitespace().collect();
        OMITTED.contains(&words.join(" ").as_str())
    };
    match content.lines().position(omits) {
        None => Ok(()),
        Some(at) => Err(invalid(format!(
            "line {} of the content stands for text that was left out. Give the complete content of the file.",
            at + 1
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::tool::tests::{Scratch, run_of, with_ctx};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn plan(scratch: &Scratch, path: &str, content: &str) -> Result<Plan, CallError> {
        let args = json!({"file_path": path, "content": content});
        with_ctx(scratch, &Limits::default(), |ctx| {
            WriteFile.prepare(&args, ctx)
        })
    }

    fn run(scratch: &Scratch, run: &Run) -> RunEnd {
        with_ctx(scratch, &Limits::default(), |ctx| {
            WriteFile.run(run, ctx, &mut |_| {})
        })
    }

    fn write(scratch: &Scratch, path: &str, content: &str) -> RunEnd {
        let args = json!({"file_path": path, "content": content});
        run(scratch, &run_of(scratch, "write_file", args))
    }

    fn output(end: RunEnd) -> String {
        match end {
            RunEnd::Ended(Ending::Success { output, .. }) => output,
            other => panic!("{other:?}"),
        }
    }

    fn names(scratch: &Scratch) -> Vec<String> {
        let entries = std::fs::read_dir(scratch.path()).expect("it is there");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("readable")
                    .file_name()
                    .to_string_lossy()
                    .into()
            })
            .collect();
        names.sort();
        names
    }

    const HEAD: &str = "Index: a\n===================================================================\n--- a\tCurrent\n+++ a\tProposed\n";

    #[test]
    fn a_plan_shows_the_diff_and_touches_nothing() {
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
                    diff: format!("{HEAD}@@ -0,0 +1,1 @@\n+x\n"),
                    old: None,
                    new: "x\n".into(),
                },
                base: Some(Base { sha256: None }),
                rule: Some(format!("write_file:{real}")),
            })
        );
        assert_eq!(names(&scratch), Vec::<String>::new());
        scratch.put("a", "abc");
        let found = plan(&scratch, "a", "x\n").expect("a plan");
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let sha256 = Some(sha256.into());
        assert_eq!(found.base, Some(Base { sha256 }));
    }

    #[test]
    fn new_files_get_their_directories() {
        let scratch = Scratch::new();
        let real = scratch.path().join("x/y/a");
        assert_eq!(
            write(&scratch, "x/y/a", "1\n2\n"),
            RunEnd::Ended(Ending::Success {
                output: format!("Created {}.", real.display()),
                display: Display::Diff {
                    file_name: "a".into(),
                    file_path: real.display().to_string(),
                    diff: format!("{HEAD}@@ -0,0 +1,2 @@\n+1\n+2\n"),
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
        assert_eq!(
            std::fs::read(&script).expect("there"),
            b"echo 1\r\necho 3\r\n"
        );
        assert_eq!(script.metadata().expect("there").mode() & 0o7777, 0o750);
        output(write(&scratch, "wide", "ü"));
        assert_eq!(
            std::fs::read(&wide).expect("there"),
            Encoding::Utf16Le.encode("ü")
        );
        assert_eq!(names(&scratch), ["run.sh", "wide"]);
    }

    #[test]
    fn a_file_that_is_not_the_one_shown_is_not_written() {
        let scratch = Scratch::new();
        let file = scratch.put("a", "old");
        let base = plan(&scratch, "a", "new").expect("a plan").base;
        let gone = plan(&scratch, "b", "new").expect("a plan").base;
        scratch.put("a", "other");
        scratch.put("b", "other");
        for (path, base) in [("a", base), ("b", gone)] {
            let args = json!({"file_path": path, "content": "new"});
            let stale = Run {
                base,
                ..run_of(&scratch, "write_file", args)
            };
            assert_eq!(run(&scratch, &stale), RunEnd::Stale);
        }
        assert_eq!(std::fs::read(&file).expect("there"), b"other");
        assert_eq!(names(&scratch), ["a", "b"]);
    }

    #[test]
    fn what_the_user_edited_is_written_and_told() {
        let scratch = Scratch::new();
        let base = plan(&scratch, "a", "mine\n").expect("a plan").base;
        let args = json!({"file_path": "a", "content": "mine\n"});
        let edited = Run {
            base,
            edited: Some("yours\n".into()),
            ..run_of(&scratch, "write_file", args)
        };
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
    fn failures_have_their_kinds() {
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
        let of = |kind: io::ErrorKind| failure("a", &kind.into()).kind;
        assert_eq!(
            of(io::ErrorKind::PermissionDenied),
            ErrorKind::PermissionDenied
        );
        assert_eq!(of(io::ErrorKind::StorageFull), ErrorKind::NoSpaceLeft);
        assert_eq!(
            of(io::ErrorKind::IsADirectory),
            ErrorKind::TargetIsDirectory
        );
        assert_eq!(of(io::ErrorKind::BrokenPipe), ErrorKind::FileWriteFailure);
    }

    #[test]
    fn a_read_only_file_stays_as_it_is() {
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
        for line in [
            "// rest of code ...",
            "    (rest of methods ...)",
            "# ... rest of method(s) ...",
            "// Unchanged code...",
        ] {
            let error = plan(&scratch, "a", &format!("fn main() {{}}\n{line}\n"));
            assert_eq!(
                error,
                Err(invalid(
                    "line 2 of the content stands for text that was left out. Give the complete content of the file."
                )),
                "{line}"
            );
        }
        for line in ["let rest = of_code(..);", "the rest of code is fine", "..."] {
            assert!(plan(&scratch, "a", line).is_ok(), "{line}");
        }
    }
}
