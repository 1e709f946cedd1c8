//! One row per option: its flag, its environment variable, its names in settings files, the values it takes, who may set it,
//! and the field of [`Settings`] that it sets. The command line, the settings files, `--help`, the tables of `gemini-a2a help
//! settings` and the suggestions for misspelt names all read this table ([`OPTIONS`]).
//!
//! A new option is a new row in `options/table.rs` and the code that uses its field.

mod rows;
mod table;
mod unsupported;

use crate::base::text::duration;
use crate::base::text::nearest::nearest;
use crate::config::formats::tree::{Node, Value};
use crate::config::settings::{Layer, Settings};
use std::borrow::Cow;
use std::path::PathBuf;
pub use table::{HIDDEN, OPTIONS};
use unsupported::UNSUPPORTED;

/// A flag with its value; the value is empty if the flag takes none.
pub type Flag = (&'static Row, String);

#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its names, with blanks between them: flags, the usual one first, an environment variable (in capitals), and keys of settings
    /// files, the current one first.
    names: &'static str,
    pub by: By,
    pub kind: Kind,
    /// The default value as it is documented; empty if the help says enough.
    pub default: &'static str,
    pub help: &'static str,
    /// The variable is a credential of this program, or names a file with one.
    is_credential: bool,
}

/// Who may set an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Also the settings and the `.env` file of a trusted workspace.
    Workspace,
    /// Flags, the environment of the process, and all settings files except a workspace's.
    Operator,
}

/// The values an option takes, and where a value goes. A setter returns None if the value is invalid.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// True or false. The flag takes no value.
    Switch(fn(&mut Settings, bool)),
    /// True or false. The flag takes `on` or `off`.
    OnOff(fn(&mut Settings, bool)),
    /// One of these words. The setter gets its position.
    OneOf(&'static [&'static str], fn(&mut Settings, usize)),
    /// A duration in milliseconds; None is `never`.
    Time(fn(&mut Settings, Option<u64>)),
    /// The same without `never`.
    Length(fn(&mut Settings, u64)),
    /// A whole number from this one on, and its description for messages.
    Number(i64, &'static str, fn(&mut Settings, i64)),
    /// A number above 0 and up to 1.
    Share(fn(&mut Settings, f64)),
    /// Any text, which a flag may leave out: its placeholder in the help, and the value that is used then.
    OrElse(&'static str, &'static str, fn(&mut Settings, &str)),
    /// The name of a file or directory, and its placeholder in the help.
    Path(&'static str, fn(&mut Settings, PathBuf)),
    /// Any texts, given by a repeated flag or as a list. The setter gets all that one source has.
    Texts(&'static str, fn(&mut Settings, Vec<String>)),
    /// A text with rules of its own: its placeholder in the help, and what it must be.
    Text(&'static str, &'static str, fn(&mut Settings, &str) -> Option<()>),
    /// The same for several texts.
    List(&'static str, &'static str, fn(&mut Settings, Vec<String>) -> Option<()>),
    /// What only settings files can contain, with its layer: what it must be.
    InFile(&'static str, fn(&mut Settings, &Node, &Layer) -> Option<()>),
    /// An environment variable that is read by its name where it is used.
    Variable,
}

impl Row {
    /// The flag; empty if there is none.
    pub fn flag(&self) -> &'static str {
        self.flags().next().unwrap_or_default()
    }

    /// The flag and its other names.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.names.split(' ').filter(|name| name.starts_with('-'))
    }

    /// The environment variable; empty if there is none.
    pub fn variable(&self) -> &'static str {
        self.names.split(' ').find(|name| name.starts_with(|c: char| c.is_ascii_uppercase())).unwrap_or_default()
    }

    /// The names in settings files, the current one first.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &'static str> + Clone + use<> {
        self.names.split(' ').filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
    }

    /// The help with the environment variable and the default.
    pub fn help_line(&self) -> String {
        match (self.variable(), self.default) {
            ("", "") => self.help.into(),
            (variable, "") => format!("{} (${variable})", self.help),
            ("", default) => format!("{} (default: {default})", self.help),
            (variable, default) => format!("{} (default: ${variable}, else {default})", self.help),
        }
    }

    /// The placeholder for the flag's value in the help; empty if the flag takes no value.
    pub fn value(&self) -> Cow<'static, str> {
        match self.kind {
            Kind::Switch(_) => "".into(),
            Kind::OnOff(_) => "on|off".into(),
            Kind::OneOf(words, _) => words.join("|").into(),
            Kind::Time(_) | Kind::Length(_) => "TIME".into(),
            Kind::Number(..) | Kind::Share(_) => "N".into(),
            Kind::OrElse(name, ..) => format!("[{name}]").into(),
            Kind::Path(name, _) | Kind::Texts(name, _) | Kind::Text(name, ..) | Kind::List(name, ..) => name.into(),
            Kind::InFile(..) | Kind::Variable => "VALUE".into(),
        }
    }

    /// The description of valid values, for messages.
    fn expected(&self) -> Cow<'static, str> {
        match self.kind {
            Kind::Switch(_) => "true or false".into(),
            Kind::OnOff(_) => "on or off".into(),
            Kind::OneOf([others @ .., last], _) if !others.is_empty() => {
                format!("{} or {last}", others.join(", ")).into()
            }
            Kind::OneOf(words, _) => words.concat().into(),
            Kind::Time(_) => "a time such as 500ms, 30s or 24h, or never".into(),
            Kind::Length(_) => "a time such as 500ms, 30s or 24h".into(),
            Kind::Share(_) => "a number above 0 and up to 1".into(),
            Kind::Path(..) => "the name of a file or directory".into(),
            Kind::Texts(..) => "a list of texts".into(),
            Kind::OrElse(..) => "a text".into(),
            Kind::Number(_, expected, _)
            | Kind::Text(_, expected, _)
            | Kind::List(_, expected, _)
            | Kind::InFile(expected, _) => expected.into(),
            Kind::Variable => "left out".into(),
        }
    }

    /// Sets the option from a flag or a variable. `name` is the one that was used.
    pub fn set(&self, settings: &mut Settings, name: &str, word: &str) -> Result<(), String> {
        self.set_word(settings, word).ok_or_else(|| format!("{name} must be {}, not {word}", self.expected()))
    }

    /// Whether the table has a setter for the value; other variables are read where they are used.
    pub fn is_set_here(&self) -> bool {
        !matches!(self.kind, Kind::Variable)
    }

    fn set_word(&self, settings: &mut Settings, word: &str) -> Option<()> {
        match self.kind {
            Kind::Switch(set) | Kind::OnOff(set) => set(settings, switch(word)?),
            Kind::OneOf(words, set) => set(settings, words.iter().position(|known| is_same_word(known, word))?),
            Kind::Time(set) => match word {
                "never" => set(settings, None),
                length => set(settings, Some(duration::parse(length)?)),
            },
            Kind::Length(set) => set(settings, duration::parse(word)?),
            Kind::Number(least, _, set) => {
                set(settings, word.parse().ok().filter(|n| (least..=u32::MAX.into()).contains(n))?);
            }
            Kind::Share(set) => set(settings, word.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0)?),
            Kind::Path(_, set) if !word.is_empty() => set(settings, word.into()),
            Kind::Texts(_, set) => set(settings, vec![word.to_owned()]),
            Kind::OrElse(_, _, set) => set(settings, word),
            Kind::Text(_, _, set) => set(settings, word)?,
            Kind::List(_, _, set) => set(settings, vec![word.to_owned()])?,
            Kind::Path(..) | Kind::InFile(..) | Kind::Variable => return None,
        }
        Some(())
    }

    /// Sets the option from a settings file. An error says what the value must be.
    pub fn set_from_file(&self, settings: &mut Settings, node: &Node, layer: &Layer) -> Result<(), Cow<'static, str>> {
        let set = match (&node.value, self.kind) {
            (Value::Bool(on), Kind::Switch(_) | Kind::OnOff(_)) => {
                self.set_word(settings, if *on { "on" } else { "off" })
            }
            (Value::Number(number), Kind::Number(..) | Kind::Share(_)) => self.set_word(settings, &number.to_string()),
            (Value::List(_), Kind::Texts(_, set)) => node.texts().map(|texts| set(settings, texts)),
            (Value::List(_), Kind::List(_, _, set)) => node.texts().and_then(|texts| set(settings, texts)),
            (_, Kind::InFile(_, set)) => set(settings, node, layer),
            (Value::Text(word), _) => self.set_word(settings, word),
            _ => None,
        };
        set.ok_or_else(|| match self.kind {
            Kind::OnOff(_) => "true or false".into(),
            _ => self.expected(),
        })
    }
}

fn switch(word: &str) -> Option<bool> {
    match word {
        "on" | "true" | "1" => Some(true),
        "off" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// `autoEdit`, `auto_edit` and `auto-edit` are the same word.
fn is_same_word(one: &str, other: &str) -> bool {
    let letters = |word: &str| word.replace(['-', '_'], "").to_lowercase();
    letters(one) == letters(other)
}

/// The row of a flag.
pub fn by_flag(flag: &str) -> Option<&'static Row> {
    let flag = if flag == "--push-allow-hosts" { "--push-allow-host" } else { flag };
    with_flags().chain(HIDDEN).find(|row| row.flags().any(|name| name == flag))
}

/// The rows that have a flag, in the order of `--help`.
pub fn with_flags() -> impl Iterator<Item = &'static Row> + Clone {
    OPTIONS.iter().filter(|row| !row.flag().is_empty())
}

/// Whether a name in a settings file is an option, one that is known to have no effect, a section of options, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Option,
    Section,
    Unsupported,
    Unknown,
}

impl Name {
    /// A section that has the older name of an option is the section if its value is a map.
    pub fn of(path: &str, value: &Value) -> Name {
        let is_below = |key: &str| key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        let is_section = keys().any(is_below);
        match keys().any(|key| key == path) {
            true if is_section && matches!(value, Value::Map(_)) => Name::Section,
            true => Name::Option,
            false if UNSUPPORTED.split_whitespace().any(|name| name == path) => Name::Unsupported,
            false if is_section => Name::Section,
            false => Name::Unknown,
        }
    }
}

/// The environment variables that are credentials of this program, or name files with them.
pub fn credential_variables() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().filter(|row| row.is_credential).map(Row::variable)
}

/// Whether a variable with this value is a credential of this program. Only the operator's own files may use it: it is not expanded
/// in settings of workspaces, extensions and project agents.
pub fn is_credential(name: &str, value: &str) -> bool {
    let is_proxy = ["http_proxy", "https_proxy", "all_proxy"].iter().any(|proxy| proxy.eq_ignore_ascii_case(name));
    credential_variables().any(|known| known == name)
        || name.starts_with("GEMINI_A2A_")
        || is_proxy && value.contains('@')
}

fn keys() -> impl Iterator<Item = &'static str> + Clone {
    OPTIONS.iter().flat_map(Row::keys)
}

/// The key that a misspelt one most likely means: also one of the same name in another section.
pub fn nearest_key(path: &str) -> Option<&'static str> {
    let is_last = |key: &&str| key.rsplit_once('.').is_some_and(|(_, last)| last == path);
    nearest(path, keys()).or_else(|| keys().find(is_last))
}

/// The table of keys in the manual: first those without a flag.
pub fn settings_table() -> String {
    let mut table = String::from("| key | value |\n|---|---|\n");
    let (with_flag, without): (Vec<&Row>, _) = OPTIONS.iter().partition(|row| !row.flag().is_empty());
    for row in without.into_iter().chain(with_flag) {
        let Some(key) = row.keys().next() else { continue };
        let meaning = if row.flag().is_empty() { row.help_line() } else { format!("as `{}`", row.flag()) };
        let remark = if row.by == By::Operator { ". Not in a workspace's file" } else { "" };
        table.push_str(&format!("| `{key}` | {meaning}{remark} |\n"));
    }
    table
}

/// The table of variables in the manual.
pub fn variables_table() -> String {
    let mut table = String::from("| variable | meaning |\n|---|---|\n");
    for row in OPTIONS.iter().filter(|row| !row.variable().is_empty()) {
        let meaning = if row.flag().is_empty() { row.help.to_owned() } else { format!("as `{}`", row.flag()) };
        table.push_str(&format!("| `{}` | {meaning} |\n", row.variable()));
    }
    table
}

#[cfg(test)]
pub mod tests;
