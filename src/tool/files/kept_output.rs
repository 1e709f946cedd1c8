//! Output that is too long for a result is stored in files that only the owner can read: `<dir>/<task>/<number>.txt`. The tools that read
//! and search files may read them, although they are not in the workspace. They are deleted together with their task.

use crate::base::id::TaskId;
use crate::limits::Limits;
use crate::tool::files::path::Workspace;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// The default stores nothing.
#[derive(Default)]
pub struct KeptOutputs {
    dir: Option<PathBuf>,
}

impl KeptOutputs {
    /// Stores outputs in this directory, given by its real path. It is created with the first output.
    pub fn below(dir: PathBuf) -> KeptOutputs {
        KeptOutputs { dir: Some(dir) }
    }

    /// Stores a text, without its beginning if it is longer than the largest file that can be read. The oldest outputs of the task are
    /// removed at the limits. Returns a sentence that says where the text is. None: it could not be stored.
    pub(in crate::tool) fn keep(&self, task: &TaskId, text: &str, limits: &Limits) -> Option<String> {
        let dir = self.dir.as_ref()?.join(plain(task.as_str().as_ref())?);
        let most = limits.file_bytes.min(limits.kept_output_bytes) as usize;
        let text = &text[text.ceil_char_boundary(text.len().saturating_sub(most))..];
        let path = write(&dir, text, limits).ok()?;
        let lines = text.lines().count();
        // A fifth of the result is the beginning of the text.
        let shown = text.chars().take(limits.result_chars / 5).filter(|c| *c == '\n').count();
        Some(format!(
            "All of it is in {} ({lines} lines). Read on with read_file from start_line {}, or search it with grep_search.",
            path.display(),
            shown + 1
        ))
    }

    /// The directory of the task whose output has this path.
    pub(in crate::tool) fn holding(&self, path: &str) -> Option<Workspace> {
        let dir = self.dir.as_ref()?;
        let task = plain(Path::new(path).strip_prefix(dir).ok()?)?;
        Workspace::further(&dir.join(task)).ok()
    }
}

/// The first component, if it is a plain name.
fn plain(path: &Path) -> Option<&Path> {
    match path.components().next()? {
        Component::Normal(name) => Some(Path::new(name)),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    }
}

fn write(dir: &Path, text: &str, limits: &Limits) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mut kept: Vec<(u64, PathBuf, u64)> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let (path, len) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?.len())))?;
        let number = path.file_stem().and_then(|name| name.to_str()?.parse().ok());
        kept.extend(number.map(|number| (number, path, len)));
    }
    kept.sort_unstable();
    let mut total: u64 = kept.iter().map(|(_, _, len)| len).sum::<u64>() + text.len() as u64;
    let mut count = kept.len() + 1;
    for (_, path, len) in &kept {
        if count > limits.kept_outputs || total > limits.kept_output_bytes {
            fs::remove_file(path)?;
            (count, total) = (count - 1, total - len);
        }
    }
    let mut number = kept.last().map_or(1, |(last, ..)| last + 1);
    loop {
        let path = dir.join(format!("{number}.txt"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            // Another call of the task took the number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
            Ok(mut file) => {
                let written = file.write_all(text.as_bytes());
                return written.map(|()| path.clone()).inspect_err(|_| drop(fs::remove_file(&path)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::{Scratch, in_ctx_with};
    use std::os::unix::fs::PermissionsExt;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("it is there").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_newest_outputs_are_kept_within_the_limits_and_for_the_owner_only() {
        let scratch = Scratch::new();
        let dir = scratch.path().join("outputs");
        let outputs = KeptOutputs::below(dir.clone());
        let limits = Limits { kept_outputs: 3, kept_output_bytes: 10, ..Limits::default() };
        let keep = |text: &str| outputs.keep(&"t-1".into(), text, &limits).expect("it can be kept");
        let note = keep("ab");
        let path = dir.join("t-1/1.txt");
        assert_eq!(
            note,
            format!(
                "All of it is in {} (1 lines). Read on with read_file from start_line 1, or search it with grep_search.",
                path.display()
            )
        );
        assert_eq!(path.metadata().expect("it is there").permissions().mode() & 0o777, 0o600);
        assert_eq!(dir.metadata().expect("it is there").permissions().mode() & 0o777, 0o700);
        keep("cd");
        keep("ef");
        assert_eq!(names(&dir.join("t-1")), ["1.txt", "2.txt", "3.txt"], "as many as there may be");
        keep("gh");
        assert_eq!(names(&dir.join("t-1")), ["2.txt", "3.txt", "4.txt"]);
        keep("123456");
        assert_eq!(names(&dir.join("t-1")), ["3.txt", "4.txt", "5.txt"], "as many bytes as there may be");
        keep("aü123456789");
        assert_eq!(names(&dir.join("t-1")), ["6.txt"]);
        assert_eq!(
            fs::read_to_string(dir.join("t-1/6.txt")).expect("text"),
            "123456789",
            "half a character is not kept"
        );
        assert_eq!(outputs.keep(&"../x".into(), "x", &limits), None);
        assert_eq!(KeptOutputs::default().keep(&"t-1".into(), "x", &limits), None);
    }

    #[test]
    fn kept_output_can_be_read_and_searched_but_no_other_file() {
        let scratch = Scratch::new();
        let state = Scratch::new();
        state.put("tasks/t.jsonl", "secret");
        let outputs = KeptOutputs::below(state.path().join("outputs"));
        outputs.keep(&"t".into(), "one\ntwo\n", &Limits::default()).expect("it can be kept");
        let output = |tool: &str, name: &str, path: &str| {
            in_ctx_with(&scratch, &outputs, |ctx| {
                let path = state.path().join(path);
                let args = serde_json::json!({name: path, "pattern": "two"});
                crate::tool::tests::output_of(tool, args, &scratch, ctx)
            })
        };
        assert_eq!(output("read_file", "file_path", "outputs/t/1.txt"), Ok("one\ntwo\n".into()));
        assert!(output("grep_search", "dir_path", "outputs/t/1.txt").is_ok_and(|text| text.contains("L2: two")));
        for path in ["tasks/t.jsonl", "outputs", "outputs/t/../../tasks/t.jsonl", "outputs/../tasks/t.jsonl"] {
            assert!(output("read_file", "file_path", path).is_err(), "{path}");
        }
        assert!(output("write_file", "file_path", "outputs/t/1.txt").is_err());
    }
}
