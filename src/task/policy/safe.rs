//! Commands that are known to only look, and only within the workspace, whatever they are pointed at there.
//!
//! A program is here if its name is enough to know it, or if the options that make it write or run something can be told
//! apart. Options may be shortened, so an unknown one that could be short for a bad one is bad. Where options matter, every word
//! must be certain: a file's name may begin with a dash.

use crate::task::command::{Simple, Sure, Word};

/// What has to be known about a program's words.
#[derive(Clone, Copy)]
enum Words {
    /// They are not files: anything certain will do.
    Free,
    /// They may be files: those within the workspace, also by pattern.
    Files,
    /// Certain, within the workspace, and as the check says.
    Checked(fn(&[&str]) -> bool),
}

const SAFE: &[(&str, Words)] = &[
    ("base64", Words::Checked(|words| !words.iter().any(|word| short(word, "o") || could_be(word, "--output")))),
    ("cat", Words::Files),
    ("cd", Words::Checked(|words| matches!(words, [dir] if !dir.starts_with('-') && !dir.is_empty()))),
    ("command", Words::Checked(|words| matches!(words.first(), Some(&("-v" | "-V"))))),
    ("cut", Words::Files),
    ("echo", Words::Free),
    ("expr", Words::Free),
    ("false", Words::Free),
    ("find", Words::Checked(find)),
    ("git", Words::Checked(git)),
    ("grep", Words::Files),
    ("head", Words::Files),
    ("id", Words::Free),
    ("ls", Words::Files),
    ("nl", Words::Files),
    ("numfmt", Words::Free),
    ("paste", Words::Files),
    ("pwd", Words::Free),
    ("rev", Words::Files),
    ("rg", Words::Checked(ripgrep)),
    ("sed", Words::Checked(sed)),
    ("seq", Words::Free),
    ("sort", Words::Checked(sort)),
    ("stat", Words::Files),
    ("tac", Words::Files),
    ("tail", Words::Files),
    ("tr", Words::Free),
    ("true", Words::Free),
    ("uname", Words::Free),
    ("uniq", Words::Checked(|words| words.iter().filter(|word| !word.starts_with('-')).count() <= 1)),
    ("wc", Words::Files),
    ("which", Words::Free),
    ("whoami", Words::Free),
];

/// Whether a command only looks; if not, what speaks against it.
pub(super) fn check(simple: &Simple, workspace: &str) -> Result<(), String> {
    let Some(program) = simple.program() else {
        return Err("which program it runs cannot be told".to_owned());
    };
    let Some((_, words)) = SAFE.iter().find(|(name, _)| *name == program) else {
        return Err(format!("{program} is not among the commands that only look"));
    };
    let words = *words;
    let args = &simple.argv[1..];
    if let Some(open) = args.iter().find(|word| !is_known(word, words)) {
        return Err(format!("what {} becomes cannot be told", open.text));
    }
    if let Words::Files | Words::Checked(_) = words
        && let Some(outside) = args.iter().find(|word| !stays(&word.text, workspace))
    {
        return Err(format!("{} may be outside of the workspace", outside.text));
    }
    let texts: Vec<&str> = args.iter().map(|word| word.text.as_str()).collect();
    match words {
        Words::Checked(fits) if !fits(&texts) => Err(format!("{program} can do more than look with these words")),
        Words::Free | Words::Files | Words::Checked(_) => Ok(()),
    }
}

/// The program's name without its directories.
pub(super) fn name(simple: &Simple) -> Option<&str> {
    simple.program()?.rsplit('/').next()
}

/// What is asked about even where every command is allowed.
pub(super) fn danger(simple: &Simple) -> Option<String> {
    let name = name(simple)?;
    let forced = |word: &Word| {
        word.sure != Sure::Literal
            || matches!(word.text.as_str(), "--force" | "--recursive" | "--no-preserve-root")
            || short(&word.text, "rRf")
    };
    let dangerous = match name {
        "rm" => simple.argv[1..].iter().any(forced),
        "dd" | "doas" | "halt" | "mkfs" | "poweroff" | "reboot" | "shred" | "shutdown" | "su" | "sudo" | "wipefs" => {
            true
        }
        name => name.starts_with("mkfs."),
    };
    dangerous.then(|| format!("{name} is dangerous"))
}

/// Whether a path is below the workspace as far as its letters say.
pub(super) fn is_within(path: &str, workspace: &str) -> bool {
    if path.split('/').any(|segment| segment == "..") {
        return false;
    }
    match path.strip_prefix('/') {
        None => true,
        Some(_) => {
            let root = workspace.trim_end_matches('/');
            !root.is_empty() && path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
    }
}

/// Places whose files run or decide something; edits refuse them too.
pub(super) fn is_protected(path: &str) -> bool {
    path.split('/').any(|segment| {
        let lower = segment.to_lowercase();
        matches!(lower.as_str(), ".git" | ".env" | ".gemini" | ".vscode" | "node_modules")
            || (lower.starts_with("gha-creds-") && lower.ends_with(".json"))
    })
}

fn is_known(word: &Word, words: Words) -> bool {
    match (word.sure, words) {
        (Sure::Literal, _) => true,
        // `.*` also matches the parent directory.
        (Sure::Pattern, Words::Files) => {
            !word.text.split('/').any(|segment| segment.starts_with('.') && segment.contains(['*', '?', '[']))
        }
        (Sure::Pattern, Words::Free | Words::Checked(_)) | (Sure::Open, _) => false,
    }
}

/// A word, or the value in an option, that may be a path out of the workspace.
fn stays(word: &str, workspace: &str) -> bool {
    if !word.starts_with('-') {
        return word == "/dev/null" || is_within(word, workspace);
    }
    let value = match word.split_once('=') {
        Some((_, value)) => value,
        None if word.starts_with("--") => "",
        // `-f/etc/passwd`; letters before a path are options too.
        None => word.find(['/', '.']).map_or("", |at| &word[at..]),
    };
    is_within(value, workspace)
}

/// Whether a group of short options has one of these letters.
fn short(word: &str, letters: &str) -> bool {
    let group = word.strip_prefix('-').filter(|group| !group.starts_with('-'));
    group.is_some_and(|group| group.contains(|c| letters.contains(c)))
}

/// Whether a word is a long option, or short for it.
fn could_be(word: &str, option: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    name.len() > 2 && name.starts_with("--") && (option.starts_with(name) || name.starts_with(option))
}

fn find(words: &[&str]) -> bool {
    const ACTS: [&str; 9] =
        ["-delete", "-exec", "-execdir", "-fls", "-fprint", "-fprint0", "-fprintf", "-ok", "-okdir"];
    !words.iter().any(|word| ACTS.contains(word) || word.starts_with("-files0-from"))
}

fn ripgrep(words: &[&str]) -> bool {
    !words.iter().any(|word| {
        short(word, "z")
            || could_be(word, "--pre")
            || could_be(word, "--hostname-bin")
            || could_be(word, "--search-zip")
    })
}

/// Only lines by their numbers: `sed -n 3,9p file`.
fn sed(words: &[&str]) -> bool {
    let ["-n", script, files @ ..] = words else {
        return false;
    };
    let number = |text: &str| text == "$" || (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit()));
    let lines = script.strip_suffix('p').is_some_and(|range| match range.split_once(',') {
        Some((from, to)) => number(from) && number(to),
        None => number(range),
    });
    lines && !files.iter().any(|file| file.starts_with('-'))
}

fn sort(words: &[&str]) -> bool {
    !words.iter().any(|word| {
        short(word, "oT")
            || could_be(word, "--output")
            || could_be(word, "--compress-program")
            || could_be(word, "--temporary-directory")
            || could_be(word, "--files0-from")
    })
}

/// Subcommands that only look. Options before the subcommand change where git looks and what it runs; only `--no-pager` does not.
fn git(words: &[&str]) -> bool {
    let words = match words {
        ["--no-pager", rest @ ..] => rest,
        words => words,
    };
    let [subcommand, rest @ ..] = words else {
        return false;
    };
    let acts = |word: &&str| {
        ["--output", "--ext-diff", "--textconv", "--no-index", "--output-directory"]
            .iter()
            .any(|option| could_be(word, option))
            && *word != "--text"
    };
    match *subcommand {
        "diff" | "log" | "show" | "status" => !rest.iter().any(acts),
        "branch" => {
            const LOOKS: [&str; 11] = [
                "-a",
                "--all",
                "-r",
                "--remotes",
                "-v",
                "-vv",
                "--verbose",
                "--list",
                "-l",
                "--show-current",
                "--no-color",
            ];
            let listing = rest.iter().any(|word| matches!(*word, "--list" | "-l"));
            rest.iter().all(|word| match word.starts_with('-') {
                true => LOOKS.contains(word),
                false => listing,
            })
        }
        _ => false,
    }
}
