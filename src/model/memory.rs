//! Memory files, such as `GEMINI.md`: instructions that people write for the agent. The user's own files become part of the system
//! instruction, those of a project part of the first turn.
//!
//! A file may import others by writing `@./other.md`, except in code. This module parses imports and combines the texts; the caller finds
//! and reads the files.

use crate::model::system::Repository;
use regex_lite::Regex;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::LazyLock;

/// What the model is told besides the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestContext {
    pub memory: Memory,
    /// The directory tree of the workspace.
    pub tree: String,
    pub notes: Notes,
    /// The directories beside the workspace that tools may use.
    pub directories: Vec<String>,
    pub repository: Repository,
    /// The instructions of MCP servers, marked as untrusted.
    pub servers: String,
    /// The list of skills; empty if there are none.
    pub skills: String,
}

/// The paths of the memory files that the model may write to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// For all projects. None: there is no home directory.
    pub user: Option<String>,
    /// For this project. None: it is not trusted, so its files are not read.
    pub project: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// For the system instruction.
    pub system: String,
    /// For the first turn.
    pub project: String,
    /// The files, without imported ones.
    pub files: Vec<PathBuf>,
}

/// A memory file. Two with the same id are the same file, also under different names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Device and number.
    pub id: (u64, u64),
    pub path: PathBuf,
    pub text: String,
}

/// Reads an imported file, given the file that contains the import and the path in it. An error says why it cannot be read.
pub type Load<'a> = &'a mut dyn FnMut(&File, &str) -> Result<File, String>;

/// Joins the texts of files, each between lines with its path. Empty files are left out.
pub fn framed<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::new();
    for (path, text) in files {
        let text = text.trim();
        if !text.is_empty() {
            if !out.is_empty() {
                out.push_str("\n\n");
            }
            write!(out, "--- Context from: {path} ---\n{text}\n--- End of context from: {path} ---")
                .expect("memory takes it");
        }
    }
    out
}

/// The text of a file with its imports inserted, nested at most `depth` deep. An import that is not possible stays as it is written; the
/// second value has a message for each of these.
pub fn expand(file: &File, depth: usize, load: Load) -> (String, Vec<String>) {
    let mut expansion = Expansion { depth, chain: vec![file.id], messages: Vec::new(), load };
    let text = expansion.expand(file);
    (text, expansion.messages)
}

struct Expansion<'a> {
    depth: usize,
    /// The ids of the file that is expanded and of the files that import it, to find cycles.
    chain: Vec<(u64, u64)>,
    messages: Vec<String>,
    load: Load<'a>,
}

impl Expansion<'_> {
    fn expand(&mut self, file: &File) -> String {
        let mut out = String::new();
        let mut fence = None;
        for line in file.text.split_inclusive('\n') {
            fence = match (fence, fence_of(line)) {
                (None, Some(opened)) => Some(opened),
                (Some(open), Some(closing)) if closes(open, closing) => None,
                (None, None) => {
                    self.line(line, file, &mut out);
                    continue;
                }
                (Some(open), _) => Some(open),
            };
            out.push_str(line);
        }
        out
    }

    fn line(&mut self, line: &str, file: &File, out: &mut String) {
        let mut done = 0;
        for (at, path) in imports(line) {
            if let Some(imported) = self.import(file, path) {
                out.push_str(&line[done..at]);
                out.push_str(&imported);
                done = at + 1 + path.len();
            }
        }
        out.push_str(&line[done..]);
    }

    fn import(&mut self, from: &File, path: &str) -> Option<String> {
        let loaded = match self.chain.len() > self.depth {
            true => Err("imports go too deep".into()),
            false => (self.load)(from, path),
        };
        match loaded {
            Ok(file) if !self.chain.contains(&file.id) => {
                self.chain.push(file.id);
                let text = self.expand(&file);
                self.chain.pop();
                return Some(framed([(file.path.to_string_lossy().as_ref(), text.as_str())]));
            }
            Ok(_) => self.not_imported(from, path, "it would import itself"),
            Err(why) => self.not_imported(from, path, &why),
        }
        None
    }

    fn not_imported(&mut self, from: &File, path: &str, why: &str) {
        self.messages.push(format!("{}: @{path} is not imported: {why}", from.path.display()));
    }
}

/// The character and length of a code fence that the line opens or closes.
fn fence_of(line: &str) -> Option<(char, usize)> {
    let text = line.trim_start();
    let mark = text.chars().next().filter(|c| "`~".contains(*c))?;
    let length = text.chars().take_while(|c| *c == mark).count();
    // A line with further backticks is not a fence but code within a line.
    let inline = mark == '`' && text[length..].contains('`');
    (length >= 3 && !inline).then_some((mark, length))
}

fn closes(open: (char, usize), found: (char, usize)) -> bool {
    open.0 == found.0 && found.1 >= open.1
}

/// The imports of a line outside of code: the position of the `@`, and the path after it.
fn imports(line: &str) -> Vec<(usize, &str)> {
    static MARKS: LazyLock<Regex> = LazyLock::new(|| Regex::new("`+|@[^`\\s]+").expect("the expression is valid"));
    let mut found = Vec::new();
    let marks: Vec<_> = MARKS.find_iter(line).collect();
    let mut rest = marks.as_slice();
    while let Some((mark, behind)) = rest.split_first() {
        // Code ends with as many backticks as it began with; without them it is not code.
        let is_code = mark.as_str().starts_with('`');
        let end = behind.iter().position(|other| is_code && other.as_str() == mark.as_str());
        rest = end.map_or(behind, |end| &behind[end + 1..]);
        let begins_word = line[..mark.start()].chars().next_back().is_none_or(char::is_whitespace);
        let path = mark.as_str()[1..].trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
        if !is_code && begins_word && is_path(path) {
            found.push((mark.start(), path));
        }
    }
    found
}

/// Whether a text after `@` is the path of an import and not, for example, the name of a person.
fn is_path(text: &str) -> bool {
    ["./", "../", "/"].iter().any(|start| text.starts_with(start)) || text.ends_with(".md")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> File {
        let id = name.bytes().map(u64::from).sum();
        File { id: (1, id), path: name.into(), text: text.into() }
    }

    fn expanded(files: &[(&str, &str)], depth: usize) -> (String, Vec<String>) {
        let all: Vec<File> = files.iter().map(|(name, text)| file(name, text)).collect();
        expand(&all[0], depth, &mut |_, path| {
            let name = path.trim_start_matches("./");
            let found = all.iter().find(|file| file.path.to_str() == Some(name));
            found.cloned().ok_or_else(|| "it is not there".to_owned())
        })
    }

    #[test]
    fn imports_are_inserted_where_they_are_written() {
        let (text, messages) =
            expanded(&[("A", "one @./b.md, two\n@c.md\nme@c.md @someone\n"), ("b.md", "B\n"), ("c.md", "")], 5);
        assert_eq!(
            text,
            "one --- Context from: b.md ---\nB\n--- End of context from: b.md ---, two\n\nme@c.md @someone\n"
        );
        assert_eq!(messages, Vec::<String>::new());
    }

    #[test]
    fn imports_in_code_are_ignored() {
        let text = "`@./b.md` ``a ` @./b.md`` ` @./x.md\n```\n@./b.md\n~~~\n@./b.md\n```\n~~~~ text\n@./b.md\n~~~\n@./b.md\n~~~~\n";
        let (found, messages) = expanded(&[("A", text), ("b.md", "B")], 5);
        assert_eq!(found, text);
        assert_eq!(messages, ["A: @./x.md is not imported: it is not there"]);
    }

    #[test]
    fn cycles_and_deep_imports_are_refused() {
        let (text, messages) = expanded(&[("a.md", "1 @b.md"), ("b.md", "2 @./a.md")], 5);
        assert_eq!(text, "1 --- Context from: b.md ---\n2 @./a.md\n--- End of context from: b.md ---");
        assert_eq!(messages, ["b.md: @./a.md is not imported: it would import itself"]);

        let chain = [("1.md", "@2.md"), ("2.md", "@3.md"), ("3.md", "@4.md"), ("4.md", "end")];
        assert_eq!(expanded(&chain, 3).1, Vec::<String>::new());
        assert_eq!(expanded(&chain, 2).1, ["3.md: @4.md is not imported: imports go too deep"]);
    }

    #[test]
    fn blocks_are_framed_and_empty_ones_left_out() {
        assert_eq!(framed([]), "");
        assert_eq!(
            framed([("/a", "x\n"), ("/b", " \n"), ("/c", "y")]),
            "--- Context from: /a ---\nx\n--- End of context from: /a ---\n\n--- Context from: /c ---\ny\n--- End of context from: /c ---"
        );
    }
}
