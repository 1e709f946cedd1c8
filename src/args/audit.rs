//! The command line of `audit`.

use super::verbs::VerbArgs;
use crate::base::clock::read_rfc3339;
use crate::base::text::duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditArgs {
    pub action: AuditAction,
    /// Empty: all files in the state directory.
    pub files: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditAction {
    /// Checks the chains; with `tasks`, also against the journals of the state directory.
    Verify {
        tasks: bool,
    },
    Show {
        filter: AuditFilter,
        json: bool,
    },
}

/// Which entries are shown: those that fit all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub task: Option<String>,
    pub kind: Option<String>,
    pub subject: Option<String>,
    pub since: Option<Since>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// Unix milliseconds.
    Time(u64),
    /// Milliseconds ago.
    Ago(u64),
}

const SHOW_ONLY: [&str; 5] = ["--task", "--kind", "--subject", "--since", "--json"];

pub fn read(given: &VerbArgs) -> Result<AuditArgs, String> {
    let (action, files) = given.words.split_first().ok_or("what is to be done? gemini-a2a audit verify|show")?;
    let action = match action.as_str() {
        "verify" => {
            if let Some(flag) = SHOW_ONLY.into_iter().find(|flag| given.has(flag)) {
                return Err(format!("audit verify takes no {flag}; it checks whole chains"));
            }
            AuditAction::Verify { tasks: given.has("--tasks") }
        }
        "show" if given.has("--tasks") => return Err("audit show takes no --tasks; that is for audit verify".into()),
        "show" => {
            let filter = AuditFilter {
                task: given.one("--task")?,
                kind: given.one("--kind")?,
                subject: given.one("--subject")?,
                since: given.one("--since")?.map(|text| since(&text)).transpose()?,
            };
            AuditAction::Show { filter, json: given.has("--json") }
        }
        other => return Err(format!("audit cannot {other}; gemini-a2a audit verify|show")),
    };
    Ok(AuditArgs { action, files: files.to_vec() })
}

fn since(text: &str) -> Result<Since, String> {
    let time = read_rfc3339(text).map(Since::Time);
    time.or_else(|| duration::parse(text).map(Since::Ago))
        .ok_or_else(|| format!("--since must be a time such as 2026-03-01T09:30:00Z, or how long ago: 24h; not {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Mode, parse};

    fn asked(line: &str) -> Result<AuditArgs, String> {
        match parse(line.split_whitespace().map(str::to_owned))?.mode {
            Mode::Audit(args) => Ok(args),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn chains_are_verified_or_shown() {
        let verify = |tasks, files: &[&str]| {
            let files = files.iter().map(|file| file.to_string()).collect();
            Ok(AuditArgs { action: AuditAction::Verify { tasks }, files })
        };
        assert_eq!(asked("audit verify"), verify(false, &[]));
        assert_eq!(asked("audit verify --tasks --state-dir /s"), verify(true, &[]));
        assert_eq!(asked("audit verify a.jsonl b.jsonl"), verify(false, &["a.jsonl", "b.jsonl"]));
        let filter = AuditFilter {
            task: Some("t".into()),
            kind: Some("ran".into()),
            subject: Some("dev".into()),
            since: Some(Since::Ago(86_400_000)),
        };
        let shown = asked("audit show --task t --kind ran --subject dev --since 24h --json f").expect("a command line");
        assert_eq!(shown, AuditArgs { action: AuditAction::Show { filter, json: true }, files: vec!["f".into()] });
        let shown = asked("audit show --since 1970-01-01T00:00:01Z").expect("a command line");
        let filter = AuditFilter { since: Some(Since::Time(1_000)), ..AuditFilter::default() };
        assert_eq!(shown.action, AuditAction::Show { filter, json: false });
    }

    #[test]
    fn errors_say_what_to_do() {
        for (line, words) in [
            ("audit", "audit verify|show"),
            ("audit delete", "audit cannot delete"),
            ("audit verify --kind ran", "takes no --kind"),
            ("audit show --tasks", "for audit verify"),
            ("audit show --since yesterday", "24h; not yesterday"),
            ("audit show --model x", "--model"),
        ] {
            let error = asked(line).unwrap_err();
            assert!(error.contains(words) && !error.contains('\n'), "{line}: {error}");
        }
    }
}
