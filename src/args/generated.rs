//! Makes the man page and the shell completions from the tables of verbs and options.

use super::verbs::{FlagValue, MODES, SESSION, VERBS, Verb};
use crate::base::text::words::words;
use crate::config::options::{self, Kind, Row};
use std::fmt::Write;

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Shell {
        Bash = "bash",
        Zsh = "zsh",
        Fish = "fish",
    }
}

/// The value that can follow a flag.
enum Follows {
    Nothing,
    Words(Vec<&'static str>),
    Files,
    Anything,
}

/// A flag, for shell completions.
struct Flag {
    names: Vec<&'static str>,
    follows: Follows,
    help: String,
}

fn of_option(row: &'static Row) -> Flag {
    let follows = match row.kind {
        Kind::Switch(_) => Follows::Nothing,
        Kind::OnOff(_) => Follows::Words(vec!["on", "off"]),
        Kind::OneOf(words, _) => Follows::Words(words.to_vec()),
        Kind::Path(..) => Follows::Files,
        _ => Follows::Anything,
    };
    Flag { names: row.flags().collect(), follows, help: row.help.replace('`', "") }
}

fn of_verb(verb: &'static Verb) -> Vec<Flag> {
    let own = verb.flags.iter().map(|flag| Flag {
        names: vec![flag.name],
        follows: match flag.value {
            FlagValue::None | FlagValue::Optional(_) => Follows::Nothing,
            FlagValue::Needed("FILE") => Follows::Files,
            FlagValue::Needed(_) => Follows::Anything,
        },
        help: flag.help.to_owned(),
    });
    own.chain(verb.options.iter().filter_map(|name| options::by_flag(name)).map(of_option)).collect()
}

/// The flags without a verb.
fn general() -> Vec<Flag> {
    let fixed = [("--help", "-h", "print the help"), ("--version", "-V", "print the version")];
    let fixed = fixed.map(|(long, short, help)| Flag {
        names: vec![long, short],
        follows: Follows::Nothing,
        help: help.to_owned(),
    });
    options::with_flags().map(of_option).chain(fixed).collect()
}

/// Verb, help and flags of every command line. An empty verb stands for the command line without a verb.
fn command_lines() -> Vec<(&'static str, &'static str, Vec<Flag>)> {
    let mut all = vec![("", "", general())];
    all.extend(MODES.iter().map(|mode| {
        let flags = match mode.words {
            "[flags]" => general().into_iter().filter(|flag| !SESSION.contains(&flag.names[0])).collect(),
            _ => Vec::new(),
        };
        (mode.name, mode.help, flags)
    }));
    all.extend(VERBS.iter().map(|verb| (verb.name, verb.help, of_verb(verb))));
    all
}

pub fn completion(shell: Shell) -> String {
    match shell {
        Shell::Bash => bash(),
        Shell::Zsh => format!("#compdef gemini-a2a\nautoload -U +X bashcompinit && bashcompinit\n{}", bash()),
        Shell::Fish => fish(),
    }
}

fn bash() -> String {
    let lines = command_lines();
    let verbs: Vec<&str> = lines.iter().map(|(verb, ..)| *verb).filter(|verb| !verb.is_empty()).collect();
    let mut text = String::from(
        "_gemini_a2a() {\n    local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n",
    );
    text.push_str("    case \"$before\" in\n");
    let mut known: Vec<&str> = Vec::new();
    for flag in lines.iter().flat_map(|(.., flags)| flags) {
        let names: Vec<&str> = flag.names.iter().copied().filter(|name| !known.contains(name)).collect();
        known.extend(&names);
        let reply = match &flag.follows {
            _ if names.is_empty() => continue,
            Follows::Nothing => continue,
            Follows::Words(words) => format!("COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))", words.join(" ")),
            Follows::Files => "COMPREPLY=($(compgen -f -- \"$word\"))".to_owned(),
            Follows::Anything => "COMPREPLY=()".to_owned(),
        };
        writeln!(text, "        {}) {reply}; return ;;", names.join("|")).expect("text");
    }
    text.push_str("    esac\n    case \"${COMP_WORDS[1]}\" in\n");
    for (verb, _, flags) in lines.iter().filter(|(verb, ..)| !verb.is_empty()) {
        let names: Vec<&str> = flags.iter().flat_map(|flag| flag.names.iter().copied()).collect();
        writeln!(text, "        {verb}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;", names.join(" "))
            .expect("text");
    }
    let names: Vec<&str> = lines[0].2.iter().flat_map(|flag| flag.names.iter().copied()).collect();
    writeln!(text, "    esac\n    COMPREPLY=($(compgen -W \"{} {}\" -- \"$word\"))", verbs.join(" "), names.join(" "))
        .expect("text");
    text.push_str("}\ncomplete -o default -F _gemini_a2a gemini-a2a\n");
    text
}

fn fish() -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let lines = command_lines();
    let verbs: Vec<&str> = lines.iter().map(|(verb, ..)| *verb).filter(|verb| !verb.is_empty()).collect();
    let mut text = String::new();
    for (verb, help, flags) in &lines {
        let condition = match *verb {
            "" => format!("not __fish_seen_subcommand_from {}", verbs.join(" ")),
            verb => {
                writeln!(text, "complete -c gemini-a2a -n __fish_use_subcommand -f -a {verb} -d {}", quoted(help))
                    .expect("text");
                format!("__fish_seen_subcommand_from {verb}")
            }
        };
        for flag in flags {
            let names: String = flag
                .names
                .iter()
                .map(|name| match name.strip_prefix("--") {
                    Some(long) => format!(" -l {long}"),
                    None => format!(" -s {}", name.trim_start_matches('-')),
                })
                .collect();
            let follows = match &flag.follows {
                Follows::Nothing => String::new(),
                Follows::Words(words) => format!(" -x -a {}", quoted(&words.join(" "))),
                Follows::Files => " -r -F".to_owned(),
                Follows::Anything => " -x".to_owned(),
            };
            let help = quoted(&flag.help);
            writeln!(text, "complete -c gemini-a2a -n {}{names}{follows} -d {help}", quoted(&condition)).expect("text");
        }
    }
    text
}

/// The manual page in the format of man(7).
pub fn man() -> String {
    let mut text = format!(
        ".TH GEMINI-A2A 1 \"\" \"gemini-a2a {}\"\n.SH NAME\ngemini\\-a2a \\- a coding agent and an agent server\n",
        env!("CARGO_PKG_VERSION")
    );
    text.push_str(".SH SYNOPSIS\n.nf\ngemini\\-a2a [flags] [PROMPT]\n");
    MODES.iter().for_each(|mode| writeln!(text, "gemini\\-a2a {} {}", mode.name, mode.words).expect("text"));
    VERBS.iter().for_each(|verb| writeln!(text, "{}", roff(&verb.usage())).expect("text"));
    text.push_str(
        ".fi\n.SH FLAGS\nOf a session and of a prompt; serve and acp take all but those that are about one session:\n",
    );
    for row in options::with_flags() {
        let names: Vec<&str> = row.flags().collect();
        entry(&mut text, &format!("{} {}", names.join(", "), row.value()), &row.help_line());
    }
    text.push_str(".SH VERBS\n");
    for mode in MODES {
        writeln!(text, ".SS {} {}\n{}", mode.name, mode.words, roff(mode.help)).expect("text");
    }
    for verb in VERBS {
        writeln!(text, ".SS {} {}\n{}", roff(verb.name), roff(verb.words), roff(verb.help)).expect("text");
        verb.flags.iter().for_each(|flag| entry(&mut text, &flag.shown(), flag.help));
    }
    text.push_str(".SH ENVIRONMENT\n");
    for row in options::OPTIONS.iter().filter(|row| !row.variable().is_empty()) {
        entry(&mut text, row.variable(), &row.help.replace('`', ""));
    }
    text.push_str(".SH SEE ALSO\ngemini\\-a2a help lists the pages of the manual.\n");
    text
}

fn entry(text: &mut String, name: &str, help: &str) {
    writeln!(text, ".TP\n.B {}\n{}", roff(name.trim_end()), roff(help)).expect("text");
}

/// Escapes text for man(7): hyphens become minus signs, and no line begins a request.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_and_verb_is_in_all_of_them() {
        let (man, bash, fish) = (man(), completion(Shell::Bash), completion(Shell::Fish));
        assert!(completion(Shell::Zsh).ends_with(&bash));
        for (verb, _, flags) in command_lines() {
            assert!(verb.is_empty() || fish.contains(&format!("-a {verb} ")), "{verb}");
            for name in flags.iter().flat_map(|flag| flag.names.iter()) {
                assert!(bash.contains(name), "{name}");
                let is_fixed = ["--help", "-h", "--version", "-V"].contains(name);
                assert!(is_fixed || man.contains(&roff(name)), "{name}");
                let long = name.strip_prefix("--").map(|long| format!(" -l {long} "));
                assert!(long.is_none_or(|long| fish.contains(&long)), "{name}");
            }
        }
    }

    #[test]
    fn no_line_of_the_man_page_is_taken_for_a_request() {
        let known = [".TH", ".SH", ".SS", ".TP", ".B", ".nf", ".fi"];
        for line in man().lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(known.contains(&line.split(' ').next().expect("a word")), "{line}");
        }
    }
}
