//! `list_directory`: lists the entries of one directory, directories first.

use crate::task::machine::job::{Run, RunEnd};
use crate::task::spec::{CallError, Ending, ErrorKind, Kind, Plan, ToolSpec};
use crate::tool::files::open;
use crate::tool::files::path::ResolvedPath;
use crate::tool::search::ignore::{EntryKind, IgnoreSources, Rules};
use crate::tool::search::listing::{Listed, Listing, readable};
use crate::tool::search::wildcard::{Case, Glob};
use crate::tool::{Ctx, Tool, invalid, list_arg, object, text_arg};
use rustix::fs::{AtFlags, FileType};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

pub struct ListDirectory;

impl Tool for ListDirectory {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "list_directory",
            "ReadFolder",
            Kind::Read,
            "Lists the names in one directory of the workspace, directories first, files with their size. What ignore files \
             hide is only counted.",
            object(
                &["dir_path"],
                json!({
                    "dir_path": {"type": "string", "description": "The directory, relative to the workspace or absolute."},
                    "ignore": {"type": "array", "items": {"type": "string"}, "description": "Glob patterns of names to leave out."},
                    "file_filtering_options": {
                        "type": "object",
                        "description": "Which ignore files count. Both count unless said otherwise.",
                        "properties": {"respect_git_ignore": {"type": "boolean"}, "respect_gemini_ignore": {"type": "boolean"}},
                    },
                }),
            ),
        )
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        left_out(args)?;
        let resolved = ctx.workspace.find(text_arg(args, "dir_path")?)?;
        let path = resolved.relative();
        Ok(Plan::info(format!("Listing {path}"), format!("Confirm List: {path}"), format!("List {}?", resolved.real())))
    }

    fn run(&self, run: &Run, ctx: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        let (output, text) = list(&run.args, ctx)?;
        Ok(RunEnd::Ended(Ending::summarised(output, text)))
    }
}

fn left_out(args: &Value) -> Result<Vec<Glob>, CallError> {
    list_arg(args, "ignore").into_iter().map(|pattern| Glob::new(pattern, Case::Exact).map_err(invalid)).collect()
}

/// The texts for the model and for people.
fn list(args: &Value, ctx: &Ctx) -> Result<(String, String), CallError> {
    let left_out = left_out(args)?;
    let options = args.get("file_filtering_options").unwrap_or(&Value::Null);
    let sources = IgnoreSources::from_options(options, ctx.workspace.ignore_sources);
    let resolved = ctx.workspace.find(text_arg(args, "dir_path")?)?;
    let dir = resolved.directory("Name a directory, or read the file.", ctx)?;
    let below = &resolved.below;
    let listed = open::directory(dir, ".").and_then(|dir| Ok((Listing::of(dir.as_fd())?, dir)));
    let (listing, dir) = listed.map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            _ => ErrorKind::LsExecutionError,
        };
        kind.error(format!("{} cannot be listed: {error}", resolved.relative()))
    })?;
    let rules = Rules::at(&ctx.workspace, below, sources, ctx.limits);
    let rules = rules.map(|around| around.enter(dir.as_fd(), below.as_os_str().as_bytes(), Some(&listing)));
    let mut lines = Lines::default();
    for entry in listing.entries {
        let name = entry.name.to_bytes();
        let path = below.join(OsStr::from_bytes(name));
        let what = match entry.kind {
            FileType::Directory => EntryKind::Directory,
            _ => EntryKind::File,
        };
        if rules.as_ref().is_none_or(|rules| rules.hide(path.as_os_str().as_bytes(), what)) {
            lines.ignored += 1;
        } else if !left_out.iter().any(|glob| glob.matches(name)) {
            lines.take(&entry, &dir);
        }
    }
    Ok(lines.show(&resolved, ctx.limits.listed_files))
}

#[derive(Default)]
struct Lines {
    dirs: Vec<String>,
    others: Vec<String>,
    ignored: usize,
}

impl Lines {
    fn take(&mut self, entry: &Listed, dir: &OwnedFd) {
        let name = readable(entry.name.to_bytes());
        match entry.kind {
            FileType::Directory => self.dirs.push(format!("[DIR] {name}")),
            // The target is shown but not opened, because it may be outside of the workspace.
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(dir, &entry.name, Vec::new());
                let target = target.map_or("?".into(), |target| readable(target.as_bytes()));
                self.others.push(format!("{name} -> {target} (link)"));
            }
            _ => {
                let stat = rustix::fs::statat(dir, &entry.name, AtFlags::SYMLINK_NOFOLLOW);
                let size = stat.map_or(0, |stat| stat.st_size);
                self.others.push(format!("{name} ({size} bytes)"));
            }
        }
    }

    fn show(self, resolved: &ResolvedPath, most: usize) -> (String, String) {
        let total = self.dirs.len() + self.others.len();
        let ignored = match self.ignored {
            0 => String::new(),
            n => format!(" ({n} ignored)"),
        };
        if total == 0 {
            let what = if self.ignored == 0 { "empty" } else { "empty but for what is ignored" };
            let text = format!("Directory {} is {what}.{ignored}", resolved.real());
            return (text, format!("Directory is empty.{ignored}"));
        }
        let mut text = format!("Directory listing for {}:\n", resolved.real());
        for line in self.dirs.into_iter().chain(self.others).take(most) {
            text += &line;
            text.push('\n');
        }
        if total > most {
            text += &format!("[{} more names are not shown. Look for some of them with glob.]\n", total - most);
        }
        if !ignored.is_empty() {
            text += &format!("\n{}\n", ignored.trim());
        }
        (text.trim_end().into(), format!("Found {total} item(s).{ignored}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::task::spec::{Display, Ending};
    use crate::tool::tests::{Scratch, ran, run_of, with_ctx};

    fn list(scratch: &Scratch, args: Value) -> Result<(String, String), (ErrorKind, String)> {
        let run = run_of(scratch, "list_directory", args);
        let limits = Limits { listed_files: 4, ..Limits::default() };
        let end = with_ctx(scratch, &limits, |ctx| ran(ListDirectory, &run, ctx));
        match end {
            RunEnd::Ended(Ending::Success { output, display: Display::Summary { text } }) => {
                Ok((output.as_str().replace(&scratch.path().display().to_string(), "WS"), text.to_string()))
            }
            RunEnd::Ended(Ending::Error { error }) => Err((error.kind, error.message)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn directories_come_first_and_hidden_entries_are_counted() {
        let scratch = Scratch::new();
        scratch.put("b.txt", "12345");
        scratch.put("a.log", "");
        scratch.put("z/x", "");
        scratch.put("y/x", "");
        scratch.put(".geminiignore", "*.log\n");
        std::os::unix::fs::symlink("/etc", scratch.path().join("link")).expect("links can be made");
        assert_eq!(
            list(&scratch, json!({"dir_path": ".", "ignore": [".gem*"]})),
            Ok((
                "Directory listing for WS:\n[DIR] y\n[DIR] z\nb.txt (5 bytes)\nlink -> /etc (link)\n\n(1 ignored)"
                    .into(),
                "Found 4 item(s). (1 ignored)".into()
            ))
        );
        assert_eq!(
            list(&scratch, json!({"dir_path": ".", "file_filtering_options": {"respect_gemini_ignore": false}})),
            Ok((
                "Directory listing for WS:\n[DIR] y\n[DIR] z\n.geminiignore (6 bytes)\na.log (0 bytes)\n\
                 [2 more names are not shown. Look for some of them with glob.]"
                    .into(),
                "Found 6 item(s).".into()
            ))
        );
        assert_eq!(
            list(&scratch, json!({"dir_path": "z", "ignore": ["x"]})),
            Ok(("Directory WS/z is empty.".into(), "Directory is empty.".into()))
        );
    }

    #[test]
    fn names_cannot_break_lines() {
        let scratch = Scratch::new();
        scratch.put("a\n[DIR] b", "");
        assert_eq!(
            list(&scratch, json!({"dir_path": "."})).map(|found| found.0),
            Ok("Directory listing for WS:\na\\n[DIR] b (0 bytes)".into())
        );
    }

    #[test]
    fn a_hidden_directory_is_listed_as_empty() {
        let scratch = Scratch::new();
        scratch.put("out/a", "");
        scratch.put(".git/HEAD", "");
        scratch.put(".gitignore", "out\n");
        let counted = Ok((
            "Directory WS/out is empty but for what is ignored. (1 ignored)".into(),
            "Directory is empty. (1 ignored)".into(),
        ));
        assert_eq!(list(&scratch, json!({"dir_path": "out"})), counted);
        let all = json!({"dir_path": "out", "file_filtering_options": {"respect_git_ignore": false}});
        assert_eq!(list(&scratch, all).map(|found| found.1), Ok("Found 1 item(s).".into()));
    }

    #[test]
    fn errors_have_the_kind_of_the_failure() {
        let scratch = Scratch::new();
        scratch.put("a", "");
        std::os::unix::fs::symlink("/", scratch.path().join("root")).expect("links can be made");
        let kind = |path: &str| list(&scratch, json!({"dir_path": path})).map_err(|e| e.0);
        assert_eq!(kind("a"), Err(ErrorKind::PathIsNotADirectory));
        assert_eq!(kind("nope"), Err(ErrorKind::FileNotFound));
        assert_eq!(kind("root"), Err(ErrorKind::PathNotInWorkspace));
        assert_eq!(kind(".."), Err(ErrorKind::PathNotInWorkspace));
    }
}
