//! The memory commands: show, list, refresh, add. Memory is read for every model request (`prompt_context.rs`), so `refresh` only
//! reports what it finds.
//!
//! A line that is added goes into the user's own file, below a heading that other tools use for the same purpose. The file is
//! replaced as a whole, so that no reader gets a part of it. A link is not replaced, but the file that it leads to.

use super::{Asked, text_result};
use crate::shell::journal::user_files::{lock_for_change, replace};
use crate::shell::start::workspace_settings::read_plain;
use crate::task::definitions::slash::Commanded;
use serde_json::json;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The heading of the section for added lines. Existing memory files have it.
const HEADING: &str = "## Gemini Added Memories";

pub fn show(asked: &Asked) -> Result<Commanded, String> {
    let memory = asked.prompt_context.memory_of(&asked.command.workspace);
    let texts = [memory.system, memory.project];
    let texts: Vec<&str> = texts.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    if texts.is_empty() {
        return text_result("Memory is currently empty.".into());
    }
    let from = files(memory.files.len());
    text_result(format!("Remembered from {from}:\n\n{}", texts.join("\n\n")))
}

pub fn refresh(asked: &Asked) -> Result<Commanded, String> {
    let memory = asked.prompt_context.memory_of(&asked.command.workspace);
    let chars = memory.system.chars().count() + memory.project.chars().count();
    text_result(match chars {
        0 => "Memory was read again; there is nothing in it.".into(),
        _ => {
            let from = files(memory.files.len());
            format!("Memory was read again: {chars} characters from {from}.")
        }
    })
}

pub fn list(asked: &Asked) -> Result<Commanded, String> {
    let memory = asked.prompt_context.memory_of(&asked.command.workspace);
    let paths = memory.files.iter().map(|path| path.display().to_string());
    let paths: Vec<String> = paths.collect();
    if paths.is_empty() {
        let name = asked.prompt_context.memory_name(&asked.command.workspace);
        return text_result(format!("No {name} files in use."));
    }
    let from = files(paths.len());
    let text = format!("Remembered from {from}:\n{}", paths.join("\n"));
    Ok(Commanded::Done { data: json!({ "files": paths }), text })
}

pub fn add(asked: &Asked) -> Result<Commanded, String> {
    let entry = entry(&asked.command.invocation.args.join(" "));
    if entry.is_empty() {
        return Err("There is nothing to remember; say it behind /memory add.".into());
    }
    let home = asked
        .prompt_context
        .home()
        .ok_or("There is no home directory to remember things in; set HOME or GEMINI_CLI_HOME and start again.")?;
    let path = home.join(asked.prompt_context.memory_name(&asked.command.workspace));
    let most = asked.prompt_context.limits().memory_file_bytes;
    write(&path, &entry, most).map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    let text = format!("Remembered in {}: {entry}", path.display());
    let file = path.display().to_string();
    Ok(Commanded::Done { data: json!({ "file": file, "added": entry }), text })
}

fn files(number: usize) -> String {
    match number {
        1 => "1 file".into(),
        number => format!("{number} files"),
    }
}

/// The text as one line without leading dashes: further lines could end the section or begin another one.
fn entry(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    line.trim_start_matches(['-', ' ']).to_owned()
}

fn write(path: &Path, entry: &str, most: u64) -> io::Result<()> {
    let _changing = lock_for_change();
    let path = target(path)?;
    let (text, mode) = match std::fs::metadata(&path) {
        Ok(meta) if !meta.is_file() => return Err(io::Error::other("it is not a file")),
        Ok(meta) => (read_plain(&path, most)?.unwrap_or_default(), meta.permissions().mode() & 0o777),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (String::new(), 0o600),
        Err(error) => return Err(error),
    };
    let text = with_entry(&text, entry);
    if text.len() as u64 > most {
        let text = format!("it would be larger than {most} bytes and not be read any more");
        return Err(io::Error::other(text));
    }
    replace(&path, text.as_bytes(), mode)
}

/// The path that a link leads to, also if that file does not exist yet; otherwise the path itself.
fn target(path: &Path) -> io::Result<PathBuf> {
    match std::fs::read_link(path) {
        Err(_) => Ok(path.to_path_buf()),
        Ok(link) => match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(path.parent().unwrap_or(Path::new("/")).join(link))
            }
            found => found,
        },
    }
}

/// The text with a new entry at the end of the section for added lines. The section is added if it is missing.
fn with_entry(text: &str, entry: &str) -> String {
    let Some(heading) = lines(text).find(|(_, line)| line.trim_end() == HEADING) else {
        let text = text.trim_end();
        let gap = if text.is_empty() { "" } else { "\n\n" };
        return format!("{text}{gap}{HEADING}\n- {entry}\n");
    };
    let (start, line) = heading;
    let body = start + line.len();
    let next = lines(&text[body..]).find(|(_, line)| {
        let level = line.trim_start_matches('#');
        line.len() - level.len() <= 2 && line.starts_with('#') && level.starts_with(' ')
    });
    let end = next.map_or(text.len(), |(at, _)| body + at);
    let (section, rest) = (text[..end].trim_end(), &text[end..]);
    let gap = if rest.is_empty() { "" } else { "\n" };
    format!("{section}\n- {entry}\n{gap}{rest}")
}

/// Each line with its position.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;
    use std::os::unix::fs::symlink;

    const MOST: u64 = 1_000;

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).expect("it is there")
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn a_line_goes_to_the_end_of_its_section() {
        for (before, after) in [
            ("", "## Gemini Added Memories\n- x\n"),
            ("\n\n", "## Gemini Added Memories\n- x\n"),
            ("no end", "no end\n\n## Gemini Added Memories\n- x\n"),
            ("# A\nb\n\n", "# A\nb\n\n## Gemini Added Memories\n- x\n"),
            ("## Gemini Added Memories", "## Gemini Added Memories\n- x\n"),
            ("a\n## Gemini Added Memories  \n- b", "a\n## Gemini Added Memories  \n- b\n- x\n"),
            (
                "## Gemini Added Memories\n- b\n### c\n- d\n\n## e\nf\n",
                "## Gemini Added Memories\n- b\n### c\n- d\n- x\n\n## e\nf\n",
            ),
            ("## Gemini Added Memories\n#hash\n# e", "## Gemini Added Memories\n#hash\n- x\n\n# e"),
            ("not ## Gemini Added Memories\n", "not ## Gemini Added Memories\n\n## Gemini Added Memories\n- x\n"),
        ] {
            assert_eq!(with_entry(before, "x"), after, "{before:?}");
        }
    }

    #[test]
    fn an_entry_is_one_line() {
        for (typed, line) in [(" a  b ", "a b"), ("a\n## b\n- c", "a ## b - c"), ("- - a", "a"), ("-", ""), ("", "")] {
            assert_eq!(entry(typed), line, "{typed:?}");
        }
    }

    #[test]
    fn a_missing_file_is_made_for_the_user_alone_and_an_old_one_keeps_its_mode() {
        let scratch = Scratch::new();
        let path = scratch.path().join(".gemini/GEMINI.md");
        write(&path, "a", MOST).expect("it can be written");
        assert_eq!(text(&path), "## Gemini Added Memories\n- a\n");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().expect("it has one")), 0o700);
        let shared = std::fs::Permissions::from_mode(0o664);
        std::fs::set_permissions(&path, shared).expect("ours");
        write(&path, "b", MOST).expect("it can be written");
        assert_eq!(text(&path), "## Gemini Added Memories\n- a\n- b\n");
        assert_eq!(mode(&path), 0o664);
        let dir = std::fs::read_dir(path.parent().expect("it has one")).expect("a directory");
        assert_eq!(dir.count(), 1, "nothing is left over");
    }

    #[test]
    fn a_link_stays_a_link() {
        let scratch = Scratch::new();
        let real = scratch.put("dotfiles/memory.md", "mine\n");
        scratch.put(".gemini/x", "");
        let link = scratch.path().join(".gemini/GEMINI.md");
        symlink("../dotfiles/memory.md", &link).expect("a link");
        write(&link, "a", MOST).expect("it can be written");
        assert!(link.is_symlink());
        assert_eq!(text(&real), "mine\n\n## Gemini Added Memories\n- a\n");
        // The file that the link leads to need not exist.
        std::fs::remove_file(&real).expect("the file");
        write(&link, "b", MOST).expect("it can be written");
        assert!(link.is_symlink());
        assert_eq!(text(&real), "## Gemini Added Memories\n- b\n");
    }

    #[test]
    fn a_file_that_cannot_be_changed_stays_as_it_is() {
        let scratch = Scratch::new();
        let path = scratch.put("GEMINI.md", "x".repeat(990));
        let error = write(&path, "too much", MOST).expect_err("too large");
        assert!(error.to_string().contains("larger than 1000"), "{error}");
        assert_eq!(text(&path), "x".repeat(990));
        let dir = scratch.path().join("dir");
        std::fs::create_dir(&dir).expect("a directory");
        let error = write(&dir, "a", MOST).expect_err("a directory is no file");
        assert_eq!(error.to_string(), "it is not a file");
        let bytes = scratch.put("bytes.md", [0xff, 0xfe]);
        assert!(write(&bytes, "a", MOST).is_err());
        assert_eq!(std::fs::read(&bytes).expect("it is there"), [0xff, 0xfe]);
        let below = path.join("GEMINI.md");
        assert!(write(&below, "a", MOST).is_err(), "a file is no directory");
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_an_error() {
        let scratch = Scratch::new();
        let path = scratch.put("locked/GEMINI.md", "mine\n");
        let dir = path.parent().expect("it has one");
        let lock = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(dir, mode).expect("ours");
        };
        lock(0o500);
        // Root may write to every directory.
        let is_root = std::fs::write(dir.join("probe"), "").is_ok();
        let result = write(&path, "a", MOST);
        lock(0o700);
        match result {
            Ok(()) => assert!(is_root),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                assert_eq!(text(&path), "mine\n");
            }
        }
    }
}
