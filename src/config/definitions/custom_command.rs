//! Reads custom commands: TOML files with a prompt. In the prompt, `@{path}` is replaced by the content of a file, `!{command}` by
//! the output of a command, and `{{args}}` by the arguments.
//!
//! The prompt is divided once, before anything is inserted, so that nothing in an inserted file or in the arguments is taken for a
//! command. A command contains its arguments as one word, in quotes.

use crate::config::formats::toml;
use crate::limits::CUSTOM_NAME_CHARS;
use std::path::{Component, Path};

const ARGS: &str = "{{args}}";
/// Characters of a description that are shown.
const DESCRIPTION_CHARS: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomCommand {
    /// As its file is called.
    pub name: String,
    /// `workspace`, `user` or the name of an extension: what precedes the name if another command has it.
    pub owner: String,
    pub description: String,
    pub prompt: String,
}

/// A piece of a prompt, before anything is inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// The content of a file or directory.
    Path(String),
    /// The output of a command.
    Shell(String),
}

impl CustomCommand {
    /// Reads a file. `path` is relative to the directory of commands.
    pub fn parse(text: &str, path: &Path, owner: &str) -> Result<CustomCommand, String> {
        let texts = toml::texts(text).map_err(|wrong| format!("line {}: {}", wrong.line, wrong.text))?;
        let value = |name: &str| texts.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str());
        let prompt = value("prompt").ok_or("it has no prompt")?.to_owned();
        let description = match value("description").unwrap_or_default().trim() {
            "" => format!("From {}.", path.display()),
            text => shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), DESCRIPTION_CHARS),
        };
        let name = name_of(path).ok_or("its name is no name for a command")?;
        Ok(CustomCommand { name, owner: owner.into(), description, prompt })
    }

    /// The prompt in pieces, with the arguments in their places. `line` is what was typed: a prompt without a place for the
    /// arguments is followed by it.
    pub fn pieces(&self, args: &str, line: &str) -> Result<Vec<Piece>, String> {
        let mut pieces = divide(&self.prompt)?;
        let mut has_place = false;
        for piece in &mut pieces {
            match piece {
                Piece::Text(text) if text.contains(ARGS) => *text = text.replace(ARGS, args),
                Piece::Shell(command) if command.contains(ARGS) => *command = command.replace(ARGS, &quoted(args)),
                Piece::Text(_) | Piece::Path(_) | Piece::Shell(_) => continue,
            }
            has_place = true;
        }
        if !has_place && !args.is_empty() {
            pieces.push(Piece::Text(format!("\n\n{line}")));
        }
        Ok(pieces)
    }
}

/// The name of a command: the path without its end, with colons between its parts.
fn name_of(path: &Path) -> Option<String> {
    let path = path.with_extension("");
    let part = |part: Component| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let name: String = part.as_os_str().to_str()?.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        Some(shortened(&name, CUSTOM_NAME_CHARS))
    };
    let parts: Vec<String> = path.components().map(part).collect::<Option<_>>()?;
    Some(parts.join(":")).filter(|name| !name.is_empty())
}

/// At most this number of characters; if some are left out, the last three are dots.
fn shortened(text: &str, most: usize) -> String {
    match text.chars().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 3).chain("...".chars()).collect(),
    }
}

fn divide(prompt: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = prompt;
    while let Some(at) = [rest.find("@{"), rest.find("!{")].into_iter().flatten().min() {
        let (before, from) = rest.split_at(at);
        let inside = braces(&from[1..]).ok_or_else(|| {
            let line = 1 + prompt[..prompt.len() - from.len()].matches('\n').count();
            format!("the brace behind {} in line {line} of the prompt is not closed", &from[..1])
        })?;
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        let content = inside.trim().to_owned();
        pieces.push(if from.starts_with('@') { Piece::Path(content) } else { Piece::Shell(content) });
        rest = &from[1 + inside.len() + 2..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

/// The text between the brace that it begins with and the one that closes it.
fn braces(text: &str) -> Option<&str> {
    let mut open = 0;
    for (at, byte) in text.bytes().enumerate() {
        open += i32::from(byte == b'{') - i32::from(byte == b'}');
        if open == 0 {
            return Some(&text[1..at]);
        }
    }
    None
}

/// One word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(prompt: &str, args: &str) -> Result<Vec<Piece>, String> {
        let (name, owner, description) = ("c".into(), "user".into(), String::new());
        CustomCommand { name, owner, description, prompt: prompt.into() }.pieces(args, &format!("/c {args}"))
    }

    #[test]
    fn a_file_becomes_a_command() {
        let parse = |text: &str, path: &str| CustomCommand::parse(text, Path::new(path), "user");
        let text = "description = \"Says\\n  it.\"\nprompt = '''\nSay it.'''\n";
        let read = parse(text, "git/say it.toml").expect("a command");
        assert_eq!((read.name.as_str(), read.description.as_str()), ("git:say_it", "Says it."));
        assert_eq!(read.prompt, "Say it.");
        let plain = parse("prompt = 'x'", "a.b.toml").expect("a command");
        assert_eq!((plain.name.as_str(), plain.description.as_str()), ("a.b", "From a.b.toml."));
        let text = format!("prompt = 'x'\ndescription = '{}'", "é".repeat(101));
        let long = parse(&text, &format!("{}.toml", "n".repeat(CUSTOM_NAME_CHARS + 1))).expect("a command");
        assert_eq!(long.description, "é".repeat(97) + "...");
        assert_eq!(long.name, "n".repeat(47) + "...");
        let name = "n".repeat(CUSTOM_NAME_CHARS);
        assert_eq!(parse("prompt = 'x'", &format!("{name}.toml")).expect("a command").name, name);
        assert_eq!(parse("description = 'x'", "a.toml"), Err("it has no prompt".into()));
        assert_eq!(parse("prompt = 7", "a.toml"), Err("it has no prompt".into()));
        assert_eq!(parse("\nprompt = 'x", "a.toml"), Err("line 2: a text is not closed on its line".into()));
    }

    #[test]
    fn a_prompt_is_divided_before_anything_is_inserted() {
        use Piece::{Path, Shell, Text};
        let text = |text: &str| Text(text.into());
        let awk = Shell("awk '{print $1}' 'x'".into());
        assert_eq!(
            pieces("See @{a b.md} and !{ awk '{print $1}' {{args}} }!", "x"),
            Ok(vec![text("See "), Path("a b.md".into()), text(" and "), awk, text("!")])
        );
        assert_eq!(pieces("{{args}}", "!{rm x} @{y} {{args}}"), Ok(vec![text("!{rm x} @{y} {{args}}")]));
        let echo = Shell("echo @{f}".into());
        assert_eq!(pieces("!{echo @{f}}", ""), Ok(vec![echo]), "no file becomes part of a command");
        assert_eq!(pieces("plain", "more"), Ok(vec![text("plain"), text("\n\n/c more")]));
        assert_eq!(pieces("plain", ""), Ok(vec![text("plain")]));
        assert_eq!(pieces("@{f}", "{{args}}"), Ok(vec![Path("f".into()), text("\n\n/c {{args}}")]));
        for open in ["a\n!{echo {x}", "\n@{f"] {
            let refused = pieces(open, "").expect_err(open);
            assert!(refused.contains("in line 2"), "{refused}");
        }
    }

    #[test]
    fn arguments_of_a_command_are_one_word() {
        for (args, word) in [
            ("a.txt; ls", "'a.txt; ls'"),
            ("it's $(x) `y`", r"'it'\''s $(x) `y`'"),
            ("", "''"),
            ("'; rm -rf / #", r"''\''; rm -rf / #'"),
        ] {
            assert_eq!(pieces("!{rm {{args}}}", args), Ok(vec![Piece::Shell(format!("rm {word}"))]));
        }
    }
}
