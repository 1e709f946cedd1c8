//! Programs that can run any other program (interpreters, `sudo`, `xargs`), and dangerous programs.

use super::rule::Fit;
use crate::limits::STARTER_WORDS;
use crate::task::command_line::{Simple, Word, read_only};

/// Whether a program is an interpreter, starts a program that it is given, or is a builtin that changes the meaning of later words. A
/// lasting permission for it would allow everything.
pub(super) fn runs_anything(name: &str) -> bool {
    const NAMES: &str = ". [ alias ash awk bash builtin busybox chroot chronic command csh dash declare doas elvish emacs enable \
        entr env eval ex exec expect export fd fdfind find fish flock gawk gdb hash ionice irb julia ksh let local ltrace lua mapfile \
        mawk mksh nawk nice node nohup nsenter nu osascript parallel perl php printf pwsh python read readonly Rscript ruby runuser \
        script sed set setsid sh shopt source ssh stdbuf strace su sudo tclsh test timeout toybox trap ts-node tsx typeset unbuffer \
        unset unshare valgrind vi vim watch xargs xvfb-run zsh";
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    NAMES.split_ascii_whitespace().any(|known| known == name || (!stem.is_empty() && known == stem))
}

/// Whether a command may start another command that matches: `sudo rm x` and `sh -c 'rm x'` start `rm`. Compares the words from every
/// position on, including words within a quoted script.
pub(super) fn starts(simple: &Simple, fits: impl Fn(&[&str]) -> bool) -> Fit {
    if !runs_anything(simple.name()) || read_only(simple).is_ok() {
        return Fit::No;
    }
    let ends = |c: char| c.is_whitespace() || ";|&()<>{}".contains(c);
    let words = simple.words[1..].iter().flat_map(|word| word.text.split(ends));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).take(STARTER_WORDS + 1).collect();
    // A script may contain more commands than its words show, or come from standard input.
    let quotes = |word: &Word| word.text.contains(['$', '`', '\'', '"', '\\', '*', '?', '[']);
    match (0..words.len().min(STARTER_WORDS)).any(|at| fits(&words[at..])) {
        true => Fit::Yes,
        false if words.is_empty() || words.len() > STARTER_WORDS || simple.words[1..].iter().any(quotes) => Fit::Maybe,
        false => Fit::No,
    }
}

/// Why a command needs approval even if a rule allows the whole tool.
pub(super) fn danger(simple: &Simple) -> Option<String> {
    let own: Vec<&str> = simple.words.iter().map(|word| word.text.as_str()).collect();
    let dangerous = |words: &[&str]| match words[0].rsplit('/').next().unwrap_or_default() {
        "rm" => words[1..].iter().any(|word| is_forced(word)),
        "dd" | "doas" | "halt" | "mkfs" | "poweroff" | "reboot" | "shred" | "shutdown" | "su" | "sudo" | "wipefs" => {
            true
        }
        name => name.starts_with("mkfs."),
    };
    (dangerous(&own) || starts(simple, dangerous) == Fit::Yes).then(|| format!("{} is dangerous", simple.name()))
}

fn is_forced(word: &str) -> bool {
    let group = word.strip_prefix('-').filter(|group| !group.starts_with('-'));
    matches!(word, "--force" | "--recursive" | "--no-preserve-root")
        || word.contains(['*', '?', '['])
        || group.is_some_and(|group| group.contains(['r', 'R', 'f']))
}
