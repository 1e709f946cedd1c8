//! The command line of `token`: credentials for clients of a server with `--access token`.

use super::verbs::VerbArgs;
use crate::base::text::duration;
use crate::task::access::Right;
use crate::task::access::credentials::all_rights;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenAction {
    List {
        json: bool,
    },
    Add(NewToken),
    Rotate {
        id: String,
        /// How long the former token is accepted, in milliseconds.
        overlap_ms: u64,
    },
    Revoke(String),
}

/// A credential to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    pub id: String,
    /// None: the same as the id.
    pub subject: Option<String>,
    pub rights: Vec<Right>,
    pub roots: Vec<String>,
    /// In how many milliseconds it expires.
    pub expires_ms: Option<u64>,
    pub note: String,
}

pub const WORDS: &str = "[list | add ID | rotate ID | revoke ID]";

pub fn read(given: &VerbArgs) -> Result<TokenAction, String> {
    let mut words = given.words.iter();
    let action = words.next().map_or("list", String::as_str);
    let id = words.next();
    if let Some(word) = words.next() {
        return Err(format!("token {action} takes one id; what is {word}?"));
    }
    let needed = || id.cloned().ok_or_else(|| format!("token {action} needs the id of a credential"));
    match action {
        "list" if id.is_none() => Ok(TokenAction::List { json: given.has("--json") }),
        "add" => Ok(TokenAction::Add(NewToken {
            id: needed()?,
            subject: given.one("--subject")?,
            rights: rights(given.one("--rights")?)?,
            roots: given.all("--root"),
            expires_ms: time(given, "--expires")?,
            note: given.one("--note")?.unwrap_or_default(),
        })),
        "rotate" => {
            Ok(TokenAction::Rotate { id: needed()?, overlap_ms: time(given, "--overlap")?.unwrap_or_default() })
        }
        "revoke" => Ok(TokenAction::Revoke(needed()?)),
        _ => Err(format!("token takes {WORDS}")),
    }
}

fn rights(words: Option<String>) -> Result<Vec<Right>, String> {
    let all = all_rights();
    let words = words.ok_or_else(|| format!("token add needs --rights; some of {all}, separated by commas"))?;
    let read =
        |word: &str| Right::from_word(word).ok_or_else(|| format!("there is no right \"{word}\"; some of {all}"));
    words.split(',').map(|word| read(word.trim())).collect()
}

fn time(given: &VerbArgs, name: &str) -> Result<Option<u64>, String> {
    let read = |text: String| {
        duration::parse(&text).ok_or_else(|| format!("{name} must be a time such as 1h or 30d, not {text}"))
    };
    given.one(name)?.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::verbs::Verb;

    fn parse(line: &str) -> Result<TokenAction, String> {
        let verb = Verb::find("token").expect("it is in the table");
        read(&verb.read(line.split_whitespace().map(str::to_owned))?)
    }

    #[test]
    fn command_lines_of_token() {
        assert_eq!(parse(""), Ok(TokenAction::List { json: false }));
        assert_eq!(parse("list --json"), Ok(TokenAction::List { json: true }));
        let add = parse("add laptop --subject dev --rights view,prompt --root /srv --expires 30d --note x");
        let expected = NewToken {
            id: "laptop".into(),
            subject: Some("dev".into()),
            rights: vec![Right::View, Right::Prompt],
            roots: vec!["/srv".into()],
            expires_ms: Some(30 * 24 * 3_600_000),
            note: "x".into(),
        };
        assert_eq!(add, Ok(TokenAction::Add(expected)));
        assert_eq!(parse("rotate a --overlap 1h"), Ok(TokenAction::Rotate { id: "a".into(), overlap_ms: 3_600_000 }));
        assert_eq!(parse("rotate a"), Ok(TokenAction::Rotate { id: "a".into(), overlap_ms: 0 }));
        assert_eq!(parse("revoke a"), Ok(TokenAction::Revoke("a".into())));
        for (line, words) in [
            ("add", "needs the id"),
            ("add a", "needs --rights; some of view, prompt, approve, admin"),
            ("add a --rights view,write", "no right \"write\""),
            ("add a b", "one id; what is b?"),
            ("rotate a --overlap x", "a time such as 1h"),
            ("steal a", "token takes"),
            ("list a", "token takes"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
