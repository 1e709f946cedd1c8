//! Custom commands: finds their files in the workspace, the user's `.gemini` and extensions, and makes their prompts. Links in a
//! workspace or an extension may not lead out of it; the files of a workspace are used only if it is trusted.

use crate::config::definitions::custom_command::{CustomCommand, Piece};
use crate::config::trust::Trust;
use crate::limits::{CUSTOM_COMMAND_BYTES, CUSTOM_COMMAND_DEPTH, CUSTOM_COMMANDS, PROMPT_COMMANDS};
use crate::shell::start::workspace_settings::read_text;
use crate::shell::workers::prompt_context::PromptContext;
use crate::task::definitions::slash::{Commanded, Invocation, PromptPart};
use crate::tool::Ctx;
use crate::tool::files::attachments;
use std::path::{Path, PathBuf};

/// The commands in the order in which they get their names, and messages for the user about them.
pub fn find(context: &PromptContext, workspace: &Path, trust: Trust) -> (Vec<CustomCommand>, Vec<String>) {
    let mut search = Search { found: Vec::new(), messages: Vec::new() };
    if trust == Trust::Trusted {
        let dir = workspace.join(".gemini/commands");
        search.in_directory(&CommandDir { dir, owner: "workspace", inside: Some(workspace) });
    }
    if let Some(dir) = context.reader().paths().user("commands") {
        search.in_directory(&CommandDir { dir, owner: "user", inside: None });
    }
    let mut extensions = context.enabled_extensions(workspace);
    extensions.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    for extension in &extensions {
        let (dir, inside) = (extension.dir.join("commands"), Some(extension.dir.as_path()));
        search.in_directory(&CommandDir { dir, owner: &extension.name, inside });
    }
    (search.found, search.messages)
}

/// A directory of commands.
struct CommandDir<'a> {
    dir: PathBuf,
    owner: &'a str,
    /// The directory that links may not lead out of.
    inside: Option<&'a Path>,
}

struct Search {
    found: Vec<CustomCommand>,
    messages: Vec<String>,
}

impl Search {
    fn in_directory(&mut self, commands: &CommandDir) {
        let mut files = Vec::new();
        self.collect(commands, Path::new(""), &mut files);
        for path in files {
            let shown = commands.dir.join(&path);
            if self.found.len() >= CUSTOM_COMMANDS {
                let more = format!("{} is not used: there are {CUSTOM_COMMANDS} commands already", shown.display());
                return self.messages.push(more);
            }
            let read = read_text(&shown, commands.inside, CUSTOM_COMMAND_BYTES).and_then(|text| {
                let parsed = text.map(|text| CustomCommand::parse(&text, &path, commands.owner)).transpose();
                parsed.map_err(|why| format!("{}: {why}", shown.display()))
            });
            match read {
                Ok(command) => self.found.extend(command),
                Err(why) => self.messages.push(format!("{why}; the command is not used")),
            }
        }
    }

    /// Collects the paths of TOML files below a directory, relative to the directory of commands, in order.
    fn collect(&mut self, commands: &CommandDir, below: &Path, files: &mut Vec<PathBuf>) {
        let dir = commands.dir.join(below);
        let leaves = |inside: &Path| dir.canonicalize().is_ok_and(|real| !real.starts_with(inside));
        if commands.inside.is_some_and(leaves) {
            return self.messages.push(format!("{} leads elsewhere; it is not used", dir.display()));
        }
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let mut names: Vec<PathBuf> = entries.map(|entry| below.join(entry.file_name())).collect();
        names.sort_unstable();
        for path in names {
            if files.len() >= CUSTOM_COMMANDS {
                let dir = commands.dir.display();
                return self
                    .messages
                    .push(format!("{dir} has more than {CUSTOM_COMMANDS} files; the rest is not used"));
            }
            let is_dir = commands.dir.join(&path).is_dir();
            match path.extension() {
                _ if is_dir && path.components().count() >= CUSTOM_COMMAND_DEPTH => {
                    let dir = commands.dir.join(&path);
                    self.messages.push(format!("{} is too deep; its commands are not used", dir.display()));
                }
                _ if is_dir => self.collect(commands, &path, files),
                Some(end) if end == "toml" => files.push(path),
                _ => {}
            }
        }
    }
}

/// The prompt of a command with the content of the files that it names. The shell commands in it are not run yet.
pub fn expand(command: &CustomCommand, invocation: &Invocation, ctx: &Ctx) -> Result<Commanded, String> {
    let cannot = |why: String| format!("The command {} cannot be used: {why}.", command.name);
    let pieces = command.pieces(&invocation.args.join(" "), &invocation.line()).map_err(cannot)?;
    if pieces.iter().filter(|piece| matches!(piece, Piece::Shell(_))).count() > PROMPT_COMMANDS {
        return Err(cannot(format!("its prompt has more than {PROMPT_COMMANDS} commands")));
    }
    let mut notices = Vec::new();
    let parts = pieces.into_iter().map(|piece| match piece {
        Piece::Text(text) => PromptPart::Text(text),
        Piece::Shell(command) => PromptPart::shell(&command),
        Piece::Path(path) => PromptPart::Text(content(&path, ctx).unwrap_or_else(|| {
            notices.push(format!("{path} is not there or cannot be read; it stays as it is written in the prompt."));
            format!("@{{{path}}}")
        })),
    });
    let parts = parts.collect();
    Ok(Commanded::Expanded { parts, notices })
}

/// The content of a file or directory of the workspace. Of media only the name is given.
fn content(path: &str, ctx: &Ctx) -> Option<String> {
    let escaped: String =
        path.chars().flat_map(|c| (c.is_whitespace() || c == '\\').then_some('\\').into_iter().chain([c])).collect();
    attachments::attached(&format!("@{escaped}"), ctx).map(|found| found.text.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::Harness;
    use super::*;
    use std::os::unix::fs::symlink;

    fn found(harness: &Harness, trust: Trust) -> (Vec<String>, Vec<String>) {
        let (found, messages) = find(&harness.prompt_context, &harness.scratch.path().join("w"), trust);
        (found.into_iter().map(|command| format!("{}.{}", command.owner, command.name)).collect(), messages)
    }

    #[test]
    fn links_may_not_lead_out_of_a_workspace() {
        let harness = Harness::new();
        let outside = harness.scratch.put("outside/x.toml", "prompt = 's3cret'");
        harness.scratch.put("w/.gemini/commands/a.toml", "prompt = 'x'");
        harness.scratch.put("home/.gemini/commands/b.toml", "prompt = 'x'");
        for dir in ["w", "home"] {
            let dir = harness.scratch.path().join(dir).join(".gemini/commands");
            symlink(&outside, dir.join("link.toml")).expect("a link");
            symlink(outside.parent().expect("a directory"), dir.join("out")).expect("a link");
        }
        let (names, messages) = found(&harness, Trust::Trusted);
        assert_eq!(names, ["workspace.a", "user.b", "user.link", "user.out:x"]);
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert_eq!(found(&harness, Trust::Untrusted).0, ["user.b", "user.link", "user.out:x"]);
    }

    #[test]
    fn files_that_are_too_many_too_long_or_too_deep_are_reported() {
        let harness = Harness::new();
        let put = |name: &str, text: &str| drop(harness.scratch.put(&format!("home/.gemini/commands/{name}"), text));
        let text = |bytes: usize| format!("prompt = '{}'", "x".repeat(bytes - 11));
        put("a.toml", &text(CUSTOM_COMMAND_BYTES as usize));
        put("b.toml", &text(CUSTOM_COMMAND_BYTES as usize + 1));
        let deep = |depth: usize| format!("{}deep.toml", "d/".repeat(depth - 1));
        put(&deep(CUSTOM_COMMAND_DEPTH), "prompt = 'x'");
        put(&format!("z/{}", deep(CUSTOM_COMMAND_DEPTH)), "prompt = 'x'");
        let (names, messages) = found(&harness, Trust::Trusted);
        assert_eq!((names.len(), names[0].as_str(), messages.len()), (2, "user.a", 2), "{messages:?}");
        (0..CUSTOM_COMMANDS).for_each(|n| put(&format!("c{n}.toml"), "prompt = 'x'"));
        let (names, messages) = found(&harness, Trust::Trusted);
        assert_eq!(names.len(), CUSTOM_COMMANDS - 1, "one is too long");
        assert!(messages[0].contains("has more than 500 files"), "{messages:?}");
        harness.scratch.put("w/.gemini/commands/a.toml", "prompt = 'x'");
        harness.scratch.put("w/.gemini/commands/b.toml", "prompt = 'x'");
        let (names, messages) = found(&harness, Trust::Trusted);
        assert_eq!(names.len(), CUSTOM_COMMANDS);
        assert!(messages.last().is_some_and(|last| last.contains("there are 500 commands already")), "{messages:?}");
    }

    #[test]
    fn the_number_of_shell_commands_in_a_prompt_is_limited() {
        use crate::limits::Limits;
        use crate::tool::tests::with_ctx;
        let harness = Harness::new();
        let expand = |commands: usize| {
            let text = format!("prompt = '{}'", "!{ls}".repeat(commands));
            let command = CustomCommand::parse(&text, Path::new("a.toml"), "user").expect("a command");
            let invocation = Invocation { path: vec!["a".into()], args: vec![] };
            with_ctx(&harness.scratch, &Limits::default(), |ctx| expand(&command, &invocation, ctx))
        };
        assert!(expand(PROMPT_COMMANDS).is_ok());
        let refused = expand(PROMPT_COMMANDS + 1).expect_err("too many");
        assert_eq!(refused, "The command a cannot be used: its prompt has more than 16 commands.");
    }
}
