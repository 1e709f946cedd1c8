//! The files that a prompt names by `@path`: their texts, and the images and other media among them, are sent to the model together with
//! the prompt. This is not a tool; the model has `read_file`.
//!
//! A named file is attached whatever its name, unless ignore files hide it or its name is one that files with secrets have. Of a named
//! directory, only files that people usually mean are attached. The number of files and of characters is limited, and a note tells the
//! model what was left out.

use crate::base::text::unsafe_char::is_unsafe;
use crate::mcp::resources::mention;
use crate::task::log::media::Media;
use crate::task::machine::job::Attachments;
use crate::tool::Ctx;
use crate::tool::files::path::PathTarget;
use crate::tool::files::read_file::{self, Reading};
use crate::tool::files::text::{untrusted, without_middle};
use crate::tool::search::ignore::Rules;
use crate::tool::search::listing::{by_path, readable};
use crate::tool::search::walk::{NOT_HANDWRITTEN, Visitor, Walk, WalkedFile};
use crate::tool::search::wildcard::{Case, Glob, NameGlob, escaped};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Names that are left out of a directory: binaries, archives, documents, and memory files, which the model already has.
const SKIPPED_NAMES: [&str; 2] = [
    "*.{bin,exe,dll,so,dylib,class,jar,war,zip,tar,gz,bz2,rar,7z,doc,docx,xls,xlsx,ppt,pptx,odt,ods,odp,pyc,pyo}",
    "{.DS_Store,GEMINI.md}",
];
/// Names of files with secrets, which are never attached.
const SECRET_NAMES: &str = "{.env,.env.*}";
/// How many of the files or resources left out are named to the model.
const NAMED_LEFT_OUT: usize = 5;

/// The files that a prompt names, for the model. None if it names nothing that exists, or if the search for files was cancelled or
/// took too long.
pub fn attached(prompt: &str, ctx: &Ctx) -> Option<Attachments> {
    attached_files(prompt, ctx).map(|(found, _)| found)
}

/// The same, and the number of files that were read.
pub fn attached_files(prompt: &str, ctx: &Ctx) -> Option<(Attachments, usize)> {
    let named = Named::of(prompt, ctx);
    if named.files.is_empty() && named.directories.is_empty() {
        return None;
    }
    read(&named, ctx)
}

/// Adds the resources of MCP servers that a prompt names as `@server:uri`. They count towards the same limits as the files, even if they
/// cannot be read.
pub fn with_resources(files: Option<(Attachments, usize)>, prompt: &str, ctx: &Ctx) -> Option<Attachments> {
    let (mut all, mut count) = files.map_or((None, 0), |(found, count)| (Some(found), count));
    let limits = ctx.limits;
    let mut mentions = mentions(prompt);
    mentions.retain(|mention| mention.contains(':'));
    let servers = if mentions.is_empty() { Vec::new() } else { ctx.mcp.names(ctx.mcp_scope()) };
    mentions.retain(|text| mention(text, servers.iter().map(String::as_str)).is_some());
    let mut left_out: Vec<String> = Vec::new();
    for mention in mentions {
        let found: &mut Attachments = all.get_or_insert_default();
        let room = limits.attached_chars.saturating_sub(found.text.as_str().chars().count());
        // When one resource has been left out for lack of room, so are all after it.
        let is_full = !left_out.is_empty() || room == 0 || count >= limits.attached_files;
        let read = if is_full { None } else { ctx.mcp.mentioned(ctx.mcp_scope(), &mention) };
        let name = untrusted_name(&mention);
        let block = match read {
            Some(Ok(result)) => {
                found.media.extend(result.media);
                untrusted(&without_middle(&result.for_model, room.min(limits.result_chars)))
            }
            Some(Err(error)) => format!("[It could not be read: {}]", error.message),
            None => {
                left_out.push(name);
                continue;
            }
        };
        count += 1;
        found.text = format!("{}\n\n--- {name} ---\n\n{block}", found.text.as_str()).trim_start().into();
    }
    if let (Some(found), false) = (&mut all, left_out.is_empty()) {
        let line = left_out_line("resource(s)", &left_out);
        found.text = format!("{}\n\n{line}", found.text.as_str()).trim_start().into();
    }
    all
}

/// A note that tells the model that some files or resources are missing.
fn left_out_line(what: &str, names: &[String]) -> String {
    let named = &names[..names.len().min(NAMED_LEFT_OUT)];
    format!("[{} {what} are left out, such as {}.]", names.len(), named.join(", "))
}

/// A name without characters that could break the line or hide text.
fn untrusted_name(name: &str) -> String {
    name.chars().filter(|c| !is_unsafe(*c)).collect()
}

/// The paths that a prompt names: `@` at the beginning of a word, up to a space that is not escaped. Punctuation at the end belongs to the
/// sentence and not to the path.
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

/// The existing files and directories that a prompt names.
struct Named {
    /// Relative to the workspace.
    files: Vec<PathBuf>,
    /// Patterns for everything below a directory.
    directories: Vec<Glob>,
}

impl Named {
    fn of(prompt: &str, ctx: &Ctx) -> Named {
        let mut named = Named { files: Vec::new(), directories: Vec::new() };
        for path in mentions(prompt) {
            let Ok(resolved) = ctx.workspace.find(&path) else {
                continue;
            };
            let pattern = match &resolved.found {
                PathTarget::File(_) => {
                    named.files.push(resolved.below);
                    continue;
                }
                PathTarget::Nothing(_) => continue,
                PathTarget::Directory(_) if resolved.below.as_os_str().is_empty() => "**".to_string(),
                PathTarget::Directory(_) => format!("{}/**", escaped(&resolved.relative())),
            };
            // A path that is too long for a pattern is left out like one that does not exist.
            named.directories.extend(Glob::new(&pattern, Case::Folded));
        }
        named
    }
}

fn name_glob(pattern: &str) -> NameGlob {
    NameGlob::new(pattern, Case::Folded).expect("our own patterns are valid")
}

/// None if the search was stopped before its end.
fn read(named: &Named, ctx: &Ctx) -> Option<(Attachments, usize)> {
    let sources = ctx.workspace.ignore_sources;
    let secret = name_glob(SECRET_NAMES);
    let mut paths: Vec<Vec<u8>> = Vec::new();
    let mut contents = Contents { media_room: ctx.limits.media_bytes, ..Contents::default() };
    for path in &named.files {
        let hidden = Rules::hide_file(&ctx.workspace, path, sources, ctx.limits);
        let path = path.as_os_str().as_bytes();
        if hidden || secret.matches(path) {
            contents.left_out.push(readable(path));
        } else {
            paths.push(path.to_vec());
        }
    }
    if !named.directories.is_empty() {
        let rules = Rules::around(&ctx.workspace, sources, ctx.limits);
        let left_out: Vec<NameGlob> =
            SKIPPED_NAMES.iter().chain([&SECRET_NAMES]).map(|pattern| name_glob(pattern)).collect();
        let mut gatherer = Gatherer { globs: &named.directories, left_out: &left_out, found: &mut paths };
        let (dir, path) = (ctx.workspace.dir.as_fd(), Path::new(""));
        let walk = Walk { cancel: ctx.cancel, limits: ctx.limits, skipped: &NOT_HANDWRITTEN, dir, path, rules };
        if walk.run(&mut gatherer).stopped.is_some() {
            return None;
        }
    }
    paths.sort_unstable_by(|a, b| by_path(a, b));
    paths.dedup();
    for path in &paths {
        if ctx.cancel.is_set() {
            return None;
        }
        let is_named = named.files.iter().any(|file| file.as_os_str().as_bytes() == path);
        contents.take(path, if is_named { Origin::Named } else { Origin::Directory }, ctx);
    }
    let count = contents.read;
    Some((contents.finish(), count))
}

struct Gatherer<'a> {
    globs: &'a [Glob],
    left_out: &'a [NameGlob],
    found: &'a mut Vec<Vec<u8>>,
}

impl Visitor for Gatherer<'_> {
    fn enters(&mut self, dir: &[u8]) -> bool {
        self.globs.iter().any(|glob| glob.could_match_in(dir))
    }

    fn file(&mut self, file: &WalkedFile) {
        let meant = self.globs.iter().any(|glob| glob.matches(file.path));
        if meant && !self.left_out.iter().any(|glob| glob.matches(file.path)) {
            self.found.push(file.path.to_vec());
        }
    }
}

/// Why a file is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The prompt names it.
    Named,
    /// It is in a directory that the prompt names. Media in such a directory is not attached.
    Directory,
}

/// The content of the files that were read, and the names of those that were not.
#[derive(Default)]
struct Contents {
    text: String,
    media: Vec<Media>,
    /// Bytes of media that may still be attached.
    media_room: u64,
    /// Characters of text that were read.
    chars: usize,
    /// Files that were read.
    read: usize,
    left_out: Vec<String>,
}

impl Contents {
    fn take(&mut self, path: &[u8], origin: Origin, ctx: &Ctx) {
        let full = self.read >= ctx.limits.attached_files || self.chars >= ctx.limits.attached_chars;
        let resolved = ctx.workspace.find_listed(Path::new(OsStr::from_bytes(path))).filter(|_| !full);
        let found = resolved.and_then(|resolved| Some((read_file::read(&resolved, ctx).ok()?, resolved.real())));
        let (text, real) = match found {
            Some((Reading::Text(text), real)) => (read_file::whole(&text, ctx.limits), real),
            Some((Reading::Media(media), real))
                if origin == Origin::Named && media.content.bytes() <= self.media_room =>
            {
                self.media_room -= media.content.bytes();
                let text = format!("[{}, attached as file {}]", media.mime, self.media.len() + 1);
                self.media.push(media);
                (text, real)
            }
            Some((Reading::Media(_) | Reading::Binary(_), _)) | None => return self.left_out.push(readable(path)),
        };
        self.chars += text.chars().count();
        self.text += &format!("--- {} ---\n\n{text}\n\n", readable(real.as_bytes()));
        self.read += 1;
    }

    fn finish(mut self) -> Attachments {
        if !self.left_out.is_empty() {
            self.text += &left_out_line("file(s)", &self.left_out);
            self.text.push('\n');
        }
        if self.read == 0 {
            let text = format!("No files matching the criteria were found or could be read.\n{}", self.text);
            return Attachments { text: text.trim_end().into(), media: Vec::new() };
        }
        self.text += "--- End of content ---";
        Attachments { text: self.text.into(), media: self.media }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::cancel::Cancel;
    use crate::limits::Limits;
    use crate::task::spec::{CallError, ToolSpec};
    use crate::tool::files::path::Workspace;
    use crate::tool::mcp_call::{McpRequest, McpResult, McpScope, McpServers, McpTable};
    use crate::tool::tests::{Scratch, with_ctx};

    fn attached_with(limits: &Limits, scratch: &Scratch, prompt: &str) -> Option<String> {
        let ws = scratch.path().display().to_string();
        with_ctx(scratch, limits, |ctx| attached(prompt, ctx)).map(|found| found.text.as_str().replace(&ws, "WS"))
    }

    /// The files whose texts are attached.
    fn names(limits: &Limits, scratch: &Scratch, prompt: &str) -> Vec<String> {
        let text = attached_with(limits, scratch, prompt).expect("something is named");
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
    fn attached_texts_have_their_paths_and_an_end() {
        let scratch = tree();
        assert_eq!(
            attached_with(&Limits::default(), &scratch, "@src/b.rs @a.md @hidden/g").as_deref(),
            Some(
                "--- WS/a.md ---\n\ntext of a.md\n\n\n--- WS/src/b.rs ---\n\ntext of src/b.rs\n\n\n\
                 [1 file(s) are left out, such as hidden/g.]\n--- End of content ---"
            )
        );
        assert_eq!(
            attached_with(&Limits::default(), &scratch, "@dist").as_deref(),
            Some("No files matching the criteria were found or could be read.")
        );
    }

    #[test]
    fn a_directory_attaches_only_its_usual_text_files() {
        let scratch = tree();
        let table: [(&str, &[&str]); 6] = [
            ("@src", &["src/b.rs", "src/deep/c.rs"]),
            ("@./src/deep/", &["src/deep/c.rs"]),
            ("@x[1].md", &["x[1].md"]),
            ("@dist", &[]),
            ("@dist/e.js", &["dist/e.js"]),
            ("@src/.env", &[]),
        ];
        for (prompt, expected) in table {
            let mut found = names(&Limits::default(), &scratch, prompt);
            found.sort();
            assert_eq!(found, expected, "{prompt}");
        }
        for prompt in ["@../x", "@*.md", "@src/**", "@/etc/passwd"] {
            assert_eq!(attached_with(&Limits::default(), &scratch, prompt), None, "{prompt}");
        }
    }

    /// A server x whose resources are all read.
    struct Readable;

    impl McpServers for Readable {
        fn table(&self, _: McpScope<'_>) -> McpTable {
            McpTable::default()
        }

        fn tool(&self, _: McpScope<'_>, _: &str) -> Option<ToolSpec> {
            None
        }

        fn call(
            &self,
            _: McpScope<'_>,
            _: &McpRequest<'_>,
            _: &Cancel,
            _: &mut dyn FnMut(String),
        ) -> Result<McpResult, CallError> {
            Ok(McpResult::default())
        }

        fn names(&self, _: McpScope<'_>) -> Vec<String> {
            vec!["x".into()]
        }

        fn mentioned(&self, _: McpScope<'_>, text: &str) -> Option<Result<McpResult, CallError>> {
            Some(Ok(McpResult { for_model: format!("the text of {text}"), ..McpResult::default() }))
        }
    }

    #[test]
    fn resources_count_towards_the_limits_of_files() {
        let scratch = tree();
        let read = |limits: &Limits, prompt: &str| {
            with_ctx(&scratch, limits, |ctx| {
                let workspace = Workspace::open(scratch.path()).expect("it opens");
                let ctx = Ctx { workspace, others: Vec::new(), mcp: &Readable, ..*ctx };
                let found = with_resources(attached_files(prompt, &ctx), prompt, &ctx).expect("something is named");
                let text = found.text.as_str();
                ["text of a.md", "text of x:one", "text of x:two"].map(|part| text.contains(part))
            })
        };
        let prompt = "@a.md @x:one @x:two @y:three";
        assert_eq!(read(&Limits { attached_files: 3, ..Limits::default() }, prompt), [true, true, true]);
        assert_eq!(read(&Limits { attached_files: 2, ..Limits::default() }, prompt), [true, true, false]);
        assert_eq!(read(&Limits { attached_files: 1, ..Limits::default() }, prompt), [true, false, false]);
        assert_eq!(read(&Limits { attached_chars: 20, ..Limits::default() }, prompt), [true, false, false]);
        let many: String = (0..9).map(|n| format!(" @x:{n}")).collect();
        let text = with_ctx(&scratch, &Limits { attached_files: 2, ..Limits::default() }, |ctx| {
            let workspace = Workspace::open(scratch.path()).expect("it opens");
            let ctx = Ctx { workspace, others: Vec::new(), mcp: &Readable, ..*ctx };
            with_resources(None, &many, &ctx).expect("something is named").text
        });
        let end = "\n\n[7 resource(s) are left out, such as x:2, x:3, x:4, x:5, x:6.]";
        assert!(text.as_str().ends_with(end) && !text.as_str().contains("--- x:2 ---"), "{text}");
    }

    #[test]
    fn files_and_characters_are_limited() {
        let scratch = tree();
        let named = "@a.md @src/image.png @src/b.rs";
        assert_eq!(names(&Limits::default(), &scratch, named), ["a.md", "src/b.rs"]);
        let limits = Limits { attached_files: 2, ..Limits::default() };
        assert_eq!(names(&limits, &scratch, named), ["a.md", "src/b.rs"]);
        let limits = Limits { attached_files: 1, ..Limits::default() };
        assert_eq!(names(&limits, &scratch, named), ["a.md"]);
        let text = attached_with(&limits, &scratch, named).expect("files are named");
        assert!(text.contains("[2 file(s) are left out, such as src/b.rs, src/image.png.]"), "{text}");
        // One more file is read as long as the limit is not reached.
        let length = "text of a.md\n".chars().count();
        for (chars, expected) in [(length, 1), (length + 1, 2)] {
            let limits = Limits { attached_chars: chars, ..Limits::default() };
            assert_eq!(names(&limits, &scratch, named).len(), expected, "{chars}");
        }
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
            assert!(found.is_some_and(|found| found.text.as_str().contains("text of a.md")));
        });
    }

    #[test]
    fn media_is_attached_if_it_is_named_and_within_the_limit() {
        let scratch = tree();
        let png = b"\x89PNG\r\n\x1a\n\0";
        scratch.put("src/real.png", png);
        scratch.put("other.png", png);
        let mimes = |prompt: &str, media_bytes: u64| {
            let limits = Limits { media_bytes, ..Limits::default() };
            let found = with_ctx(&scratch, &limits, |ctx| attached(prompt, ctx)).expect("something is named");
            (found.media.len(), found.text.as_str().contains("left out, such as"))
        };
        assert_eq!(mimes("@other.png @src/real.png", 18), (2, false));
        assert_eq!(mimes("@other.png @src/real.png", 17), (1, true));
        assert_eq!(mimes("@src", 18), (0, true));
    }
}
