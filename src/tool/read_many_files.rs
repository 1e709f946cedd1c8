//! `read_many_files`: what a prompt means by `@path`. It is not declared to the model, which has `read_file`: people name files and
//! directories in what they write, and the texts go along with it.
//!
//! A file that is named comes along whatever it is called, unless ignore files hide it or it is made of secrets; of a directory or
//! a pattern only comes what people would mean. There is a limit to all of it, and what is left out is told.

use crate::task::job::{Run, RunEnd};
use crate::task::spec::{CallError, Display, Ending, ErrorKind, Kind, Plan, Question, ToolSpec, Verdict};
use crate::tool::ignore::{Rules, Wanted, What};
use crate::tool::path::Found;
use crate::tool::read_file::{self, Reading};
use crate::tool::walk::{BY_MACHINE, Seen, Start, Stop, VERSIONS, Visitor, Walk, by_path, readable};
use crate::tool::wildcard::{Case, Glob, NameGlob, escaped};
use crate::tool::{Ctx, Tool, cancelled_search, failed, flag_arg, invalid, list_arg};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Names that nobody means by naming a directory: binaries, archives, documents, and memory files that are there anyway.
const NOT_MEANT: &str =
    "*.{bin,exe,dll,so,dylib,class,jar,war,zip,tar,gz,bz2,rar,7z,doc,docx,xls,xlsx,ppt,pptx,odt,ods,odp,pyc,pyo}";
const NOT_MEANT_NAMES: &str = "{.DS_Store,GEMINI.md}";
/// Names never taken along.
const SECRET: &str = "{.env,.env.*}";
/// Files named to people as read, and as left out.
const SHOWN_READ: usize = 10;
const SHOWN_LEFT_OUT: usize = 5;

pub struct ReadManyFiles;

impl Tool for ReadManyFiles {
    fn spec(&self) -> ToolSpec {
        let texts = json!({"type": "array", "items": {"type": "string"}});
        ToolSpec {
            name: "read_many_files".into(),
            display_name: "ReadManyFiles".into(),
            description: "Reads several text files of the workspace, named by paths, directories or glob patterns."
                .into(),
            kind: Kind::Read,
            parameters: json!({
                "type": "object",
                "required": ["include"],
                "properties": {
                    "include": texts,
                    "exclude": texts,
                    "recursive": {"type": "boolean"},
                    "useDefaultExcludes": {"type": "boolean"},
                    "file_filtering_options": {
                        "type": "object",
                        "properties": {
                            "respect_git_ignore": {"type": "boolean"},
                            "respect_gemini_ignore": {"type": "boolean"},
                        },
                    },
                },
            }),
            by_default: Verdict::Allow,
            output_is_markdown: true,
            has_live_output: false,
        }
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        Wish::from(args, ctx)?;
        let what = list_arg(args, "include").join(", ");
        Ok(Plan {
            title: format!("Reading {what}"),
            question: Question::Info {
                title: format!("Confirm Read: {what}"),
                prompt: format!("Read {what}?"),
                urls: Vec::new(),
            },
            base: None,
        })
    }

    fn run(&self, run: &Run, ctx: &Ctx, _out: &mut dyn FnMut(String)) -> RunEnd {
        match read(&run.args, ctx) {
            Ok(Some((output, text))) => RunEnd::Ended(Ending::Success { output, display: Display::Text { text } }),
            Ok(None) => cancelled_search(),
            Err(error) => failed(error),
        }
    }
}

/// The texts of what a prompt names with `@`, for the model and for people; None if it names nothing that is there.
pub fn attached(prompt: &str, ctx: &Ctx) -> Option<(String, String)> {
    let there = |path: &String| {
        let spot = ctx.workspace.find(path).ok();
        spot.is_some_and(|spot| !matches!(spot.found, Found::Nothing(_)))
    };
    let include: Vec<String> = mentions(prompt).into_iter().filter(there).collect();
    if include.is_empty() {
        return None;
    }
    read(&json!({ "include": include }), ctx).ok().flatten()
}

/// The paths a prompt names: `@` at the begin of a word, up to a space that is not escaped. Marks at the end belong to the sentence.
pub fn mentions(prompt: &str) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let mut before = ' ';
    let mut rest = prompt.chars();
    while let Some(c) = rest.next() {
        let begins = c == '@' && (before.is_whitespace() || "([{\"'`,".contains(before));
        before = c;
        if !begins {
            continue;
        }
        let mut path = String::new();
        let mut ahead = rest.clone();
        while let Some(c) = ahead.next() {
            match c {
                '\\' => path.extend(ahead.next()),
                c if c.is_whitespace() => break,
                c => path.push(c),
            }
            rest = ahead.clone();
        }
        let path = path.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '"', '\'', '`']);
        if !path.is_empty() && !paths.iter().any(|known| known == path) {
            paths.push(path.into());
        }
    }
    paths
}

struct Wish {
    /// Files that are named, relative to the workspace.
    named: Vec<PathBuf>,
    globs: Vec<Glob>,
    exclude: Vec<NameGlob>,
    /// What nobody means by a pattern.
    not_meant: Vec<NameGlob>,
    secret: NameGlob,
    defaults: Defaults,
    wanted: Wanted,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Defaults {
    Count,
    Off,
}

impl Wish {
    fn from(args: &Value, ctx: &Ctx) -> Result<Wish, CallError> {
        let include = list_arg(args, "include");
        if include.is_empty() {
            return Err(invalid("include must name at least one path or pattern"));
        }
        let name_glob = |pattern: &str| NameGlob::new(pattern, Case::Folded).map_err(invalid);
        let options = args.get("file_filtering_options").unwrap_or(&Value::Null);
        let defaults = match flag_arg(args, "useDefaultExcludes", true) {
            true => Defaults::Count,
            false => Defaults::Off,
        };
        let not_meant: &[&str] = match defaults {
            Defaults::Count => &[NOT_MEANT, NOT_MEANT_NAMES],
            Defaults::Off => &[],
        };
        let mut wish = Wish {
            named: Vec::new(),
            globs: Vec::new(),
            exclude: list_arg(args, "exclude").into_iter().map(name_glob).collect::<Result<_, _>>()?,
            not_meant: not_meant.iter().map(|pattern| name_glob(pattern)).collect::<Result<_, _>>()?,
            secret: name_glob(SECRET)?,
            defaults,
            wanted: Wanted::asked(options, ctx.workspace.wanted()),
        };
        let below = match flag_arg(args, "recursive", true) {
            true => "**",
            false => "*",
        };
        for text in include {
            wish.include(text, below, ctx)?;
        }
        Ok(wish)
    }

    /// A file or directory that is there, or else a pattern.
    fn include(&mut self, text: &str, below: &str, ctx: &Ctx) -> Result<(), CallError> {
        let pattern = match ctx.workspace.find(text) {
            Ok(spot) => match &spot.found {
                Found::File(_) => {
                    self.named.push(spot.below().to_path_buf());
                    return Ok(());
                }
                Found::Directory(_) if spot.below().as_os_str().is_empty() => below.to_string(),
                Found::Directory(_) => format!("{}/{below}", escaped(&spot.relative())),
                Found::Nothing(_) => text.trim_start_matches("./").to_string(),
            },
            // What leads out is refused; what is no path may be a pattern.
            Err(error) if error.kind == ErrorKind::PathNotInWorkspace => return Err(error),
            Err(_) => text.to_string(),
        };
        self.globs.push(Glob::new(&pattern, Case::Folded).map_err(invalid)?);
        Ok(())
    }

    fn leaves_out(&self, path: &[u8]) -> bool {
        let fits = |globs: &[NameGlob]| globs.iter().any(|glob| glob.matches(path));
        self.secret.matches(path) || fits(&self.exclude)
    }
}

/// What the model reads, and what people see; None if it was cancelled.
fn read(args: &Value, ctx: &Ctx) -> Result<Option<(String, String)>, CallError> {
    let wish = Wish::from(args, ctx)?;
    let mut paths: Vec<Vec<u8>> = Vec::new();
    let mut told = Told::default();
    for path in &wish.named {
        let hidden = Rules::hide_file(&ctx.workspace, path, wish.wanted, ctx.limits);
        let path = path.as_os_str().as_bytes();
        if hidden || wish.leaves_out(path) {
            told.leave_out(path, "hidden by ignore files, or secret");
        } else {
            paths.push(path.to_vec());
        }
    }
    if !wish.globs.is_empty() {
        let skipped: &[&str] = match wish.defaults {
            Defaults::Count => &BY_MACHINE,
            Defaults::Off => &VERSIONS,
        };
        let walk = Walk::new(ctx.cancel, ctx.limits, skipped);
        let top = ctx.workspace.dir();
        let start = Start {
            dir: top.as_fd(),
            path: Path::new(""),
            rules: Rules::around(&ctx.workspace, wish.wanted, ctx.limits),
        };
        let survey = walk.run(start, || Gatherer { wish: &wish, dir: Vec::new(), found: Vec::new() });
        match survey.stopped {
            Some(Stop::Cancelled) => return Ok(None),
            Some(Stop::Time | Stop::Entries) => {
                let text = survey.gaps(ctx.limits);
                return Err(CallError::new(ErrorKind::ReadManyFilesSearchError, text.trim_end()));
            }
            None => paths.extend(survey.visitors.into_iter().flat_map(|one| one.found)),
        }
    }
    paths.sort_unstable_by(|a, b| by_path(a, b));
    paths.dedup();
    for path in &paths {
        if ctx.cancel.is_set() {
            return Ok(None);
        }
        told.take(path, ctx);
    }
    Ok(Some(told.show(ctx)))
}

struct Gatherer<'a> {
    wish: &'a Wish,
    /// Room for a directory's path with a slash.
    dir: Vec<u8>,
    found: Vec<Vec<u8>>,
}

impl Visitor for Gatherer<'_> {
    fn wants(&mut self, dir: &[u8]) -> bool {
        self.dir.clear();
        self.dir.extend_from_slice(dir);
        self.dir.push(b'/');
        self.wish.globs.iter().any(|glob| glob.could_match_in(&self.dir))
    }

    fn file(&mut self, file: &Seen) {
        let meant = self.wish.globs.iter().any(|glob| glob.matches(file.path));
        let not_meant = || self.wish.not_meant.iter().any(|glob| glob.matches(file.path));
        if meant && !not_meant() && !self.wish.leaves_out(file.path) {
            self.found.push(file.path.to_vec());
        }
    }

    fn hidden(&mut self, _: &[u8], _: What) {}
}

/// What was read, and what was not.
#[derive(Default)]
struct Told {
    text: String,
    chars: usize,
    read: Vec<String>,
    left_out: Vec<(String, &'static str)>,
}

impl Told {
    fn leave_out(&mut self, path: &[u8], why: &'static str) {
        self.left_out.push((readable(path), why));
    }

    fn take(&mut self, path: &[u8], ctx: &Ctx) {
        if self.read.len() >= ctx.limits.attached_files || self.chars >= ctx.limits.attached_chars {
            return self.leave_out(path, "too much already");
        }
        let spot = ctx.workspace.look(Path::new(OsStr::from_bytes(path)));
        let Some(spot) = spot else {
            return self.leave_out(path, "it is gone");
        };
        match read_file::whole(&spot, ctx) {
            Ok(Reading::Text(text)) => {
                self.chars += text.chars().count();
                self.text += &format!("--- {} ---\n\n{text}\n\n", readable(spot.real().as_bytes()));
                self.read.push(readable(path));
            }
            Ok(Reading::Binary(_)) => self.leave_out(path, "not a text file"),
            Err(error) => self.leave_out(
                path,
                match error.kind {
                    ErrorKind::FileTooLarge => "too large",
                    _ => "it cannot be read",
                },
            ),
        }
    }

    fn show(mut self, ctx: &Ctx) -> (String, String) {
        let listed = |names: &mut dyn Iterator<Item = String>, total: usize, shown: usize| {
            let mut text: String = names.take(shown).collect();
            if total > shown {
                text += &format!("- … and {} more\n", total - shown);
            }
            text
        };
        let mut display = match self.read.len() {
            0 => "No files were read.\n".to_string(),
            n => {
                let mut names = self.read.iter().map(|path| format!("- `{path}`\n"));
                let names = listed(&mut names, n, SHOWN_READ);
                format!("Read {n} file(s) of `{}`:\n{names}", ctx.workspace.path().display())
            }
        };
        let left_out = self.left_out.len();
        if left_out > 0 {
            let mut names = self.left_out.iter().map(|(path, why)| format!("- `{path}` ({why})\n"));
            display += &format!("Left out {left_out}:\n");
            display += &listed(&mut names, left_out, SHOWN_LEFT_OUT);
            // The model should not believe that it has everything.
            let names: Vec<&str> = self.left_out.iter().take(SHOWN_LEFT_OUT).map(|(path, _)| path.as_str()).collect();
            self.text += &format!("[{left_out} file(s) are left out, such as {}.]\n", names.join(", "));
        }
        if self.read.is_empty() {
            let text = format!("No files matching the criteria were found or could be read.\n{}", self.text);
            return (text.trim_end().into(), display.trim_end().into());
        }
        self.text += "--- End of content ---";
        (self.text, display.trim_end().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::tool::tests::{Scratch, with_ctx};

    fn read_with(limits: &Limits, scratch: &Scratch, args: Value) -> Result<(String, String), CallError> {
        let ws = scratch.path().display().to_string();
        let found = with_ctx(scratch, limits, |ctx| read(&args, ctx))?;
        let (text, display) = found.expect("it was not cancelled");
        Ok((text.replace(&ws, "WS"), display.replace(&ws, "WS")))
    }

    /// The files whose texts came along.
    fn names(scratch: &Scratch, args: Value) -> Vec<String> {
        let (text, _) = read_with(&Limits::default(), scratch, args).expect("it can be read");
        text.lines().filter_map(|line| line.strip_prefix("--- WS/")?.strip_suffix(" ---")).map(String::from).collect()
    }

    fn tree() -> Scratch {
        let scratch = Scratch::new();
        for name in [
            "a.md",
            "src/b.rs",
            "src/deep/c.rs",
            "src/.env",
            "src/d.zip",
            "src/GEMINI.md",
            "dist/e.js",
            "node_modules/f.js",
            "x[1].md",
            "hidden/g",
        ] {
            scratch.put(name, format!("text of {name}\n"));
        }
        scratch.put("src/image.png", "png");
        scratch.put(".geminiignore", "hidden\n");
        scratch
    }

    #[test]
    fn texts_come_with_their_paths_and_an_end() {
        let scratch = tree();
        assert_eq!(
            read_with(&Limits::default(), &scratch, json!({"include": ["src/b.rs", "a.md", "hidden/g"]})),
            Ok((
                "--- WS/a.md ---\n\ntext of a.md\n\n\n--- WS/src/b.rs ---\n\ntext of src/b.rs\n\n\n\
                 [1 file(s) are left out, such as hidden/g.]\n--- End of content ---"
                    .into(),
                "Read 2 file(s) of `WS`:\n- `a.md`\n- `src/b.rs`\nLeft out 1:\n- `hidden/g` (hidden by ignore files, or secret)".into()
            ))
        );
        assert_eq!(
            read_with(&Limits::default(), &scratch, json!({"include": ["*.none"]})),
            Ok(("No files matching the criteria were found or could be read.".into(), "No files were read.".into()))
        );
    }

    #[test]
    fn directories_and_patterns_bring_what_people_mean() {
        let scratch = tree();
        let table: [(Value, &[&str]); 8] = [
            (json!({"include": ["src"]}), &["src/b.rs", "src/deep/c.rs"]),
            (json!({"include": ["src"], "recursive": false}), &["src/b.rs"]),
            (json!({"include": ["src/**/*.rs"], "exclude": ["b.*"]}), &["src/deep/c.rs"]),
            (json!({"include": ["x[1].md"]}), &["x[1].md"]),
            (json!({"include": ["dist"]}), &[]),
            (json!({"include": ["dist/e.js"]}), &["dist/e.js"]),
            (json!({"include": ["src/.env"]}), &[]),
            (json!({"include": ["src/*"], "useDefaultExcludes": false}), &["src/b.rs", "src/GEMINI.md"]),
        ];
        for (args, expected) in table {
            let mut found = names(&scratch, args.clone());
            found.sort_by_key(|name| name.to_lowercase());
            assert_eq!(found, expected, "{args}");
        }
        let outside = read_with(&Limits::default(), &scratch, json!({"include": ["../x"]}));
        assert_eq!(outside.map_err(|error| error.kind), Err(ErrorKind::PathNotInWorkspace));
    }

    #[test]
    fn there_is_a_limit_to_it() {
        let scratch = tree();
        let limits = Limits { attached_files: 1, ..Limits::default() };
        let found = read_with(&limits, &scratch, json!({"include": ["**/*.md", "src/image.png"], "exclude": ["x*"]}));
        assert_eq!(
            found.map(|found| found.1),
            Ok("Read 1 file(s) of `WS`:\n- `a.md`\nLeft out 1:\n- `src/image.png` (too much already)".into())
        );
        let limits = Limits { attached_chars: 5, ..Limits::default() };
        let found = read_with(&limits, &scratch, json!({"include": ["src/*.rs", "a.md"]}));
        assert!(found.expect("it can be read").1.ends_with("- `src/b.rs` (too much already)"));
    }

    #[test]
    fn prompts_name_files() {
        let table: [(&str, &[&str]); 7] = [
            ("look at @src/a.rs, please", &["src/a.rs"]),
            ("@a @b and (@c).", &["a", "b", "c"]),
            ("mail me@example.org or @", &[]),
            (r"@my\ file.txt!", &["my file.txt"]),
            ("twice @a @a", &["a"]),
            ("@", &[]),
            ("'@ä/ö?'", &["ä/ö"]),
        ];
        for (prompt, expected) in table {
            assert_eq!(mentions(prompt), expected, "{prompt}");
        }
        let scratch = tree();
        with_ctx(&scratch, &Limits::default(), |ctx| {
            assert_eq!(attached("what is @Override in @nothing?", ctx), None);
            let found = attached("compare @a.md and @Override", ctx);
            assert!(found.is_some_and(|(text, _)| text.contains("text of a.md")));
        });
    }
}
