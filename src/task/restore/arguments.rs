//! The arguments of the commands `restore`, `undo`, `redo` and `diff`.

use crate::base::text::words::words;
use crate::task::log::restored::Conversation;

words! {
    /// The commands, by their first word.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Name {
        Restore = "restore",
        Undo = "undo",
        Redo = "redo",
        Diff = "diff",
    }
}

/// The parsed arguments of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreRequest {
    pub action: Action,
    pub scope: Scope,
    pub conflicts: Conflicts,
    /// Only report what would be done.
    pub dry_run: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    List,
    /// Go back to a point, given by its id, its name or its number.
    To(String),
    /// Go back to before this number of turns.
    Undo(usize),
    Redo,
    /// Show what going back to a point would change. Without a point: to before the last turn.
    Diff(Option<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Files,
    Conversation,
    Both,
}

impl Scope {
    pub fn has_files(self) -> bool {
        self != Scope::Conversation
    }

    pub fn conversation(self) -> Conversation {
        match self {
            Scope::Files => Conversation::Kept,
            Scope::Conversation | Scope::Both => Conversation::Rewound,
        }
    }
}

/// What to do about files that cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// Change nothing.
    Refuse,
    /// Restore the others.
    Skip,
    /// Restore those too that somebody else changed, with a copy of each.
    Overwrite,
}

impl RestoreRequest {
    /// Whether the command may change anything.
    pub fn changes(&self) -> bool {
        !self.dry_run && matches!(self.action, Action::To(_) | Action::Undo(_) | Action::Redo)
    }

    pub fn parse(name: Name, args: &[String]) -> Result<RestoreRequest, String> {
        let (flags, words): (Vec<&str>, Vec<&str>) =
            args.iter().map(String::as_str).partition(|arg| arg.starts_with("--"));
        let [word] = match words.as_slice() {
            [] => [None],
            [word] => [Some(*word)],
            [_, extra, ..] => {
                return Err(format!("\"{extra}\" is one argument too many. /help shows what /{} takes.", name.word()));
            }
        };
        let action = match (name, word) {
            (Name::Restore, None | Some("list")) => Action::List,
            (Name::Restore, Some(point)) => Action::To(point.to_owned()),
            (Name::Undo, None) => Action::Undo(1),
            (Name::Undo, Some(count)) => match count.parse() {
                Ok(count) if count > 0 => Action::Undo(count),
                Ok(_) | Err(_) => return Err(format!("/undo takes the number of prompts to undo, not \"{count}\".")),
            },
            (Name::Redo, None) => Action::Redo,
            (Name::Redo, Some(word)) => return Err(format!("/redo takes no \"{word}\"; it takes back the last undo.")),
            (Name::Diff, point) => Action::Diff(point.map(str::to_owned)),
        };
        let mut request = RestoreRequest { action, scope: Scope::Both, conflicts: Conflicts::Refuse, dry_run: false };
        for flag in flags {
            match flag {
                "--files" => request.scope = Scope::Files,
                "--conversation" => request.scope = Scope::Conversation,
                "--both" => request.scope = Scope::Both,
                "--partial" => request.conflicts = Conflicts::Skip,
                "--force" => request.conflicts = Conflicts::Overwrite,
                "--dry-run" => request.dry_run = true,
                other => {
                    return Err(format!(
                        "{other} is not known. Use --files, --conversation, --both, --partial, --force or --dry-run."
                    ));
                }
            }
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_each_command() {
        let parse = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let name = Name::from_word(&words.next().unwrap()).unwrap();
            RestoreRequest::parse(name, &words.collect::<Vec<_>>())
        };
        let request =
            |action| Ok(RestoreRequest { action, scope: Scope::Both, conflicts: Conflicts::Refuse, dry_run: false });
        assert_eq!(parse("restore"), request(Action::List));
        assert_eq!(parse("restore list"), request(Action::List));
        assert_eq!(parse("restore ../../x"), request(Action::To("../../x".into())));
        assert_eq!(parse("undo"), request(Action::Undo(1)));
        assert_eq!(parse("undo 3"), request(Action::Undo(3)));
        assert_eq!(parse("redo"), request(Action::Redo));
        assert_eq!(parse("diff"), request(Action::Diff(None)));
        assert_eq!(
            parse("restore --files p --force --dry-run"),
            Ok(RestoreRequest {
                action: Action::To("p".into()),
                scope: Scope::Files,
                conflicts: Conflicts::Overwrite,
                dry_run: true
            })
        );
        for wrong in ["undo 0", "undo x", "undo -1", "redo x", "restore a b", "diff --all", "undo 99999999999999999999"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("undo").unwrap().changes() && parse("restore 1").unwrap().changes());
        for line in ["restore", "diff", "undo --dry-run"] {
            assert!(!parse(line).unwrap().changes(), "{line}");
        }
    }
}
