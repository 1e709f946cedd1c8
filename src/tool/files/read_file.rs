//! `read_file`: reads a text file, or some lines of it, or media that the model can be shown. The result for any other file is a
//! sentence that says what the file is.

use crate::limits::Limits;
use crate::task::log::media::Media;
use crate::task::machine::job::{Run, RunEnd};
use crate::task::media_type;
use crate::task::spec::{CallError, Display, Ending, ErrorKind, Kind, Plan, ToolSpec};
use crate::tool::files::path::{Entry, PathTarget, ResolvedPath};
use crate::tool::files::text::{Encoding, looks_binary};
use crate::tool::search::ignore::Rules;
use crate::tool::{Ctx, Tool, invalid, number_arg, object, text_arg};
use serde_json::{Value, json};
use std::io::{self, Read};
use std::path::Path;

pub struct ReadFile;

impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "read_file",
            "ReadFile",
            Kind::Read,
            "Reads a file of the workspace. Text is read whole or by lines; long files are shown in part, with the line to go on \
             from. Images, audio, video and PDF files are shown as they are. Other binary files are named, not shown.",
            object(
                &["file_path"],
                json!({
                    "file_path": {"type": "string", "description": "The file, relative to the workspace or absolute."},
                    "start_line": {"type": "integer", "minimum": 1, "description": "First line to read, counted from 1."},
                    "end_line": {"type": "integer", "minimum": 1, "description": "Last line to read, itself included."},
                }),
            ),
        )
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        let lines = Lines::from(args)?;
        let resolved = ctx.workspace.find(text_arg(args, "file_path")?)?;
        refuse_hidden(&resolved, ctx)?;
        let path = resolved.relative();
        let title = match (lines.start, lines.end) {
            (None, None) => format!("Reading {path}"),
            (start, None) => format!("Reading {path} from line {}", start.unwrap_or(1)),
            (start, Some(end)) => format!("Reading {path}, lines {}-{end}", start.unwrap_or(1)),
        };
        Ok(Plan::info(title, format!("Confirm Read: {path}"), format!("Read {}?", resolved.real())))
    }

    fn run(&self, run: &Run, ctx: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        let lines = Lines::from(&run.args)?;
        let resolved = ctx.workspace.find(text_arg(&run.args, "file_path")?)?;
        refuse_hidden(&resolved, ctx)?;
        let (output, text) = match read(&resolved, ctx)? {
            Reading::Text(text) => excerpt(&text, &lines, ctx.limits),
            Reading::Binary(text) => (text.clone(), text),
            Reading::Media(media) => {
                let what = format!("{} ({}, {} bytes)", resolved.relative(), media.mime, media.content.bytes());
                let display = Display::Media { text: format!("Read {what}").into(), media: vec![media] };
                let output = format!("{what} is shown beside this result.").into();
                return Ok(RunEnd::Ended(Ending::Success { output, display }));
            }
        };
        Ok(RunEnd::Ended(Ending::summarised(output, text)))
    }
}

/// The requested lines.
struct Lines {
    start: Option<usize>,
    end: Option<usize>,
}

impl Lines {
    fn from(args: &Value) -> Result<Lines, CallError> {
        let (start, end) = (number_arg(args, "start_line"), number_arg(args, "end_line"));
        if let (Some(start), Some(end)) = (start, end)
            && start > end
        {
            return Err(invalid(format!("start_line ({start}) must not be greater than end_line ({end})")));
        }
        Ok(Lines { start, end })
    }
}

/// The content of a file.
pub(in crate::tool) enum Reading {
    Text(String),
    Media(Media),
    /// Neither text nor media that the model can be shown. The sentence says what kind of file it is.
    Binary(String),
}

/// A text as it is shown by default.
pub(in crate::tool) fn whole(text: &str, limits: &Limits) -> String {
    excerpt(text, &Lines { start: None, end: None }, limits).0
}

pub(in crate::tool) fn read(resolved: &ResolvedPath, ctx: &Ctx) -> Result<Reading, CallError> {
    let path = resolved.relative();
    let bytes = match &resolved.found {
        PathTarget::File(entry) => contents(entry, &path, ctx.limits.file_bytes)?,
        PathTarget::Directory(_) => return Err(is_directory(resolved)),
        PathTarget::Nothing(_) => return Err(resolved.missing("file", ctx)),
    };
    if let Some(mime) = media_type::of(&bytes).filter(|mime| *mime == "application/pdf" || looks_binary(&bytes)) {
        return match bytes.len() as u64 <= ctx.limits.media_bytes {
            true => Ok(Reading::Media(Media::new(mime, &bytes))),
            false => Err(ErrorKind::FileTooLarge.error(format!(
                "{path} ({mime}) is larger than {} KiB, too large to be shown. Make a smaller copy with a shell command, such as \
                 fewer pixels, pages or seconds, and read that.",
                ctx.limits.media_bytes >> 10
            ))),
        };
    }
    if let Some(what) = binary(&path, &bytes) {
        let advice = match what {
            IMAGE | AUDIO | VIDEO => format!("{}: convert it with a shell command and read that", media_type::ADVICE),
            _ => "Look at it with a shell command".to_owned(),
        };
        return Ok(Reading::Binary(format!(
            "{path} is {what} ({} bytes) that cannot be shown. {advice}.",
            bytes.len()
        )));
    }
    Ok(Reading::Text(Encoding::of(&bytes).decode(&bytes)))
}

pub(in crate::tool) fn is_directory(resolved: &ResolvedPath) -> CallError {
    ErrorKind::TargetIsDirectory.error(format!("{} is a directory. Name a file in it.", resolved.relative()))
}

/// Refuses files that ignore files hide, by their own name or by the name of a link.
pub(in crate::tool) fn refuse_hidden(resolved: &ResolvedPath, ctx: &Ctx) -> Result<(), CallError> {
    let (workspace, limits) = (&ctx.workspace, ctx.limits);
    let hidden = |path: &Path| Rules::hide_file(workspace, path, workspace.ignore_sources, limits);
    if hidden(&resolved.below) || (resolved.named != resolved.below && hidden(&resolved.named)) {
        return Err(invalid(format!(
            "{} is hidden by ignore files and is not read. Ask the user if it is needed.",
            resolved.relative()
        )));
    }
    Ok(())
}

/// The bytes of a whole file, up to `most`.
pub(in crate::tool) fn contents(entry: &Entry, path: &str, most: u64) -> Result<Vec<u8>, CallError> {
    let failure = |error: io::Error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::FileNotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            _ => ErrorKind::ReadContentFailure,
        };
        kind.error(format!("{path} cannot be read: {error}"))
    };
    // The size of the file is not used: files grow, and files under /proc have the size 0.
    let mut bytes = Vec::new();
    entry.open().map_err(failure)?.take(most + 1).read_to_end(&mut bytes).map_err(failure)?;
    if bytes.len() as u64 > most {
        let text = format!("{path} is larger than {} MiB. Look at parts of it with a shell command.", most >> 20);
        return Err(ErrorKind::FileTooLarge.error(text));
    }
    Ok(bytes)
}

const IMAGE: &str = "an image";
const AUDIO: &str = "an audio file";
const VIDEO: &str = "a video file";

/// The kind of a binary file, by its name or its content; None for text.
fn binary(path: &str, bytes: &[u8]) -> Option<&'static str> {
    let extension = path.rsplit_once('.').map_or("", |(_, end)| end);
    let what = match extension.to_ascii_lowercase().as_str() {
        "png" | "jpg" | "jpeg" | "gif" | "webp" | "bmp" | "ico" | "tiff" | "avif" | "heic" => IMAGE,
        "pdf" => "a PDF document",
        "mp3" | "wav" | "aif" | "aiff" | "aac" | "ogg" | "flac" | "m4a" => AUDIO,
        "mp4" | "mov" | "avi" | "mkv" | "webm" | "mpeg" | "mpg" => VIDEO,
        "zip" | "gz" | "tgz" | "bz2" | "xz" | "zst" | "7z" | "rar" | "tar" | "jar" => "an archive",
        "exe" | "dll" | "so" | "a" | "o" | "lib" | "class" | "pyc" | "wasm" | "dylib" => "compiled code",
        _ if looks_binary(bytes) => "a binary file",
        _ => return None,
    };
    Some(what)
}

/// The requested lines, with a header if they are not the whole file.
fn excerpt(text: &str, requested: &Lines, limits: &Limits) -> (String, String) {
    let (most_lines, most_chars) = (limits.file_lines, limits.line_chars);
    let lines: Vec<&str> = text.lines().collect();
    let total = lines.len();
    let start = requested.start.unwrap_or(1);
    if start > total.max(1) {
        let text = format!("[The file has {total} lines; there is nothing from line {start} on.]");
        return (text.clone(), text);
    }
    let end = match requested.end {
        Some(end) => end.min(total),
        None => (start - 1 + most_lines).min(total),
    };
    let shown = &lines[start - 1..end];
    let cut = shown.iter().any(|line| line.chars().count() > most_chars);
    if shown.len() == total && !cut {
        return (text.to_string(), String::new());
    }
    let body: Vec<String> = shown.iter().map(|line| shortened(line, most_chars)).collect();
    let mut header = format!("[Lines {start}-{end} of {total} are shown.");
    if end < total {
        header.push_str(&format!(" To read on, use start_line {}.", end + 1));
    }
    if cut {
        header.push_str(&format!(" Lines are cut after {most_chars} characters."));
    }
    (format!("{header}]\n{}", body.join("\n")), format!("Lines {start}-{end} of {total}"))
}

pub(in crate::tool) fn shortened(line: &str, most_chars: usize) -> String {
    match line.char_indices().nth(most_chars) {
        None => line.to_string(),
        Some((at, _)) => format!("{}... [cut]", &line[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::spec::Question;
    use crate::tool::tests::{Scratch, ran, run_of, with_ctx};

    fn limits() -> Limits {
        Limits { file_bytes: 200, file_lines: 3, line_chars: 5, ..Limits::default() }
    }

    fn read(scratch: &Scratch, args: Value) -> Result<(String, String), (ErrorKind, String)> {
        let run = run_of(scratch, "read_file", args);
        let end = with_ctx(scratch, &limits(), |ctx| ran(ReadFile, &run, ctx));
        match end {
            RunEnd::Ended(Ending::Success { output, display: Display::Summary { text } }) => {
                Ok((output.to_string(), text.to_string()))
            }
            RunEnd::Ended(Ending::Error { error }) => Err((error.kind, error.message)),
            other => panic!("{other:?}"),
        }
    }

    fn ok(output: &str, display: &str) -> Result<(String, String), (ErrorKind, String)> {
        Ok((output.into(), display.into()))
    }

    #[test]
    fn small_files_are_returned_unchanged() {
        let scratch = Scratch::new();
        scratch.put("a", "1\r\n2\n\n");
        scratch.put("empty", "");
        scratch.put("wide", Encoding::Utf16Be.encode("Grüß\n"));
        assert_eq!(read(&scratch, json!({"file_path": "a"})), ok("1\r\n2\n\n", ""));
        assert_eq!(read(&scratch, json!({"file_path": "empty"})), ok("", ""));
        assert_eq!(read(&scratch, json!({"file_path": "wide"})), ok("Grüß\n", ""));
    }

    #[test]
    fn long_files_are_shown_in_part_with_the_next_position() {
        let scratch = Scratch::new();
        scratch.put("a", "1\n2\n3\n4\n5\n");
        assert_eq!(
            read(&scratch, json!({"file_path": "a"})),
            ok("[Lines 1-3 of 5 are shown. To read on, use start_line 4.]\n1\n2\n3", "Lines 1-3 of 5")
        );
        assert_eq!(
            read(&scratch, json!({"file_path": "a", "start_line": 4})),
            ok("[Lines 4-5 of 5 are shown.]\n4\n5", "Lines 4-5 of 5")
        );
        // A requested range is shown, however long it is.
        assert_eq!(
            read(&scratch, json!({"file_path": "a", "start_line": 1, "end_line": 9})),
            ok("1\n2\n3\n4\n5\n", "")
        );
        assert_eq!(
            read(&scratch, json!({"file_path": "a", "end_line": 1})),
            ok("[Lines 1-1 of 5 are shown. To read on, use start_line 2.]\n1", "Lines 1-1 of 5")
        );
        let nothing = "[The file has 5 lines; there is nothing from line 6 on.]";
        assert_eq!(read(&scratch, json!({"file_path": "a", "start_line": 6})), ok(nothing, nothing));
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let scratch = Scratch::new();
        scratch.put("a", "äöüäö\näöüäöü\n");
        assert_eq!(
            read(&scratch, json!({"file_path": "a"})),
            ok(
                "[Lines 1-2 of 2 are shown. Lines are cut after 5 characters.]\näöüäö\näöüäö... [cut]",
                "Lines 1-2 of 2"
            )
        );
    }

    #[test]
    fn binary_files_are_reported_by_name() {
        let scratch = Scratch::new();
        scratch.put("a.PNG", "text really");
        scratch.put("b", b"\x7fELF\0\0");
        scratch.put("c.ts", "const x = 1");
        let image = format!(
            "a.PNG is an image (11 bytes) that cannot be shown. {}: convert it with a shell command and read that.",
            media_type::ADVICE
        );
        assert_eq!(read(&scratch, json!({"file_path": "a.PNG"})), ok(&image, &image));
        let other = "b is a binary file (6 bytes) that cannot be shown. Look at it with a shell command.";
        assert_eq!(read(&scratch, json!({"file_path": "b"})), ok(other, other));
        assert!(read(&scratch, json!({"file_path": "c.ts"})).is_ok());
    }

    #[test]
    fn media_is_read_up_to_a_size() {
        let scratch = Scratch::new();
        let png = [b"\x89PNG\r\n\x1a\n\0".as_slice(), &[7; 100 - 9]].concat();
        scratch.put("shot", &png);
        scratch.put("a.pdf", "%PDF-1.7\n");
        scratch.put("notes.mp3.md", "ID3 is a format of tags.\n");
        let limits = |media_bytes| Limits { media_bytes, ..limits() };
        let read = |path: &str, limits: &Limits| {
            with_ctx(&scratch, limits, |ctx| {
                ran(ReadFile, &run_of(&scratch, "read_file", json!({"file_path": path})), ctx)
            })
        };
        let shown = |name: &str, mime: &str, bytes: &[u8]| {
            let what = format!("{name} ({mime}, {} bytes)", bytes.len());
            RunEnd::Ended(Ending::Success {
                output: format!("{what} is shown beside this result.").into(),
                display: Display::Media { text: format!("Read {what}").into(), media: vec![Media::new(mime, bytes)] },
            })
        };
        assert_eq!(read("shot", &limits(100)), shown("shot", "image/png", &png));
        assert_eq!(read("a.pdf", &limits(100)), shown("a.pdf", "application/pdf", b"%PDF-1.7\n"));
        let RunEnd::Ended(Ending::Error { error }) = read("shot", &limits(99)) else { panic!("it is too large") };
        assert_eq!(error.kind, ErrorKind::FileTooLarge);
        let text = read("notes.mp3.md", &limits(100));
        assert!(matches!(&text, RunEnd::Ended(Ending::Success { display: Display::Summary { .. }, .. })), "{text:?}");
    }

    #[test]
    fn errors_have_the_kind_of_the_failure() {
        let scratch = Scratch::new();
        scratch.put("dir/a", "");
        scratch.put("big", vec![b'x'; 201]);
        scratch.put("fits", vec![b'\n'; 200]);
        let fifo = scratch.path().join("fifo");
        let made = rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into());
        made.expect("pipes can be made here");
        let kind = |path: &str| read(&scratch, json!({"file_path": path})).map_err(|e| e.0);
        assert_eq!(kind("dir"), Err(ErrorKind::TargetIsDirectory));
        assert_eq!(kind("nope"), Err(ErrorKind::FileNotFound));
        assert_eq!(kind("big"), Err(ErrorKind::FileTooLarge));
        assert_eq!(kind("fifo"), Err(ErrorKind::ReadContentFailure));
        assert_eq!(kind("../x"), Err(ErrorKind::PathNotInWorkspace));
        assert!(kind("fits").is_ok());
    }

    #[test]
    fn files_hidden_by_ignore_files_are_refused_by_every_path() {
        let scratch = Scratch::new();
        for (name, text) in [
            (".git/config", "token"),
            (".gitignore", "*.key\n/links/secret\n"),
            (".geminiignore", "private/\n!kept.key\n"),
            ("a.key", "secret"),
            ("kept.key", "open"),
            ("private/x", "secret"),
            ("links/x", "open"),
        ] {
            scratch.put(name, text);
        }
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, scratch.path().join(name)).expect("links can be made");
        };
        link("../a.key", "links/key");
        link("../private", "links/dir");
        link("x", "links/secret");
        let kind = |path: &str| read(&scratch, json!({"file_path": path})).map_err(|e| e.0);
        for path in ["a.key", "private/x", "links/../a.key", "links/key", "links/dir/x", "links/secret", ".git/config"]
        {
            assert_eq!(kind(path), Err(ErrorKind::InvalidToolParams), "{path}");
        }
        assert_eq!(kind("kept.key"), ok("open", "").map_err(|e| e.0));
        assert_eq!(kind("links/x"), ok("open", "").map_err(|e| e.0));
        let plan = with_ctx(&scratch, &limits(), |ctx| ReadFile.prepare(&json!({"file_path": "a.key"}), ctx));
        assert_eq!(
            plan,
            Err(invalid("a.key is hidden by ignore files and is not read. Ask the user if it is needed."))
        );
    }

    #[test]
    fn plans_are_checked_and_name_the_file() {
        let scratch = Scratch::new();
        let plan = |args| with_ctx(&scratch, &limits(), |ctx| ReadFile.prepare(&args, ctx));
        assert_eq!(
            plan(json!({"file_path": "a", "start_line": 3, "end_line": 2})),
            Err(invalid("start_line (3) must not be greater than end_line (2)"))
        );
        let found = plan(json!({"file_path": "./x/../a", "end_line": 2}));
        assert_eq!(found.map_err(|e| e.kind), Err(ErrorKind::FileNotFound));
        let real = format!("{}/a", scratch.path().display());
        assert_eq!(
            plan(json!({"file_path": "./a", "end_line": 2})),
            Ok(Plan {
                title: "Reading a, lines 1-2".into(),
                question: Question::Info {
                    title: "Confirm Read: a".into(),
                    prompt: format!("Read {real}?"),
                    urls: vec![],
                },
                base: None,
            })
        );
    }
}
