//! The command lines of the clients of a running server: `watch`, `send`, `approve` and `tasks`.

use super::verbs::VerbArgs;
use crate::base::id::Seq;
use crate::base::text::duration;
use crate::config::remote::{self, Remote};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientArgs {
    /// None: the server of this user that was started last.
    pub server: Option<Remote>,
    /// The file with the token for the server.
    pub token_file: Option<String>,
    pub task: Option<String>,
    pub json: bool,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Watch { after: Option<Seq>, until: Vec<Until> },
    Send { text: Vec<String>, begin: bool, wait: Wait },
    Approve(Approve),
    Tasks { action: TasksAction, all: bool },
}

/// The state of the task that ends a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Idle,
    Question,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    No,
    /// Until the turn has ended, or for at most this number of milliseconds.
    ForAnswer(Option<u64>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approve {
    pub call: Option<String>,
    pub option: Option<String>,
    pub edited: Option<String>,
    pub answers: Vec<String>,
    pub list: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TasksAction {
    List,
    Show(Vec<String>),
    Export(Vec<String>),
    Delete(Vec<String>),
    /// Rebuilds the index of the tasks in the state directory, without a server.
    Reindex,
}

/// Reads the flags of one of these verbs; None for another verb.
pub fn read(verb: &str, given: &VerbArgs) -> Result<Option<ClientArgs>, String> {
    let action = match verb {
        "watch" => watch(given)?,
        "send" => send(given)?,
        "approve" => approve(given)?,
        "tasks" => tasks(given)?,
        _ => return Ok(None),
    };
    let server = given.one("--url")?.map(|url| remote::parse(&url)).transpose()?;
    Ok(Some(ClientArgs {
        server,
        token_file: given.one("--token-file")?,
        task: given.one("--task")?,
        json: given.has("--json"),
        action,
    }))
}

fn watch(given: &VerbArgs) -> Result<Action, String> {
    let after = given.one("--after")?;
    let after = after
        .map(|text| text.parse().map(Seq).map_err(|_| format!("--after must be the number of an event, not {text}")));
    let until = given.one("--until")?.unwrap_or_default();
    let until = until.split(',').filter(|word| !word.is_empty()).map(|word| match word {
        "idle" => Ok(Until::Idle),
        "question" => Ok(Until::Question),
        "end" => Ok(Until::End),
        other => Err(format!("--until must be idle, question or end, or several with commas, not {other}")),
    });
    Ok(Action::Watch { after: after.transpose()?, until: until.collect::<Result<_, _>>()? })
}

fn send(given: &VerbArgs) -> Result<Action, String> {
    if given.words.is_empty() {
        return Err("what is to be sent? gemini-a2a send TEXT…, or - for standard input".into());
    }
    let wait = match given.one("--wait")?.as_deref() {
        None => Wait::No,
        Some("") => Wait::ForAnswer(None),
        Some(time) => Wait::ForAnswer(Some(
            duration::parse(time).ok_or_else(|| format!("--wait must be a time such as 30s or 5m, not {time}"))?,
        )),
    };
    let begin = given.has("--new");
    if begin && given.has("--task") {
        return Err("--new begins another task than --task names; give only one of the two".into());
    }
    Ok(Action::Send { text: given.words.clone(), begin, wait })
}

fn approve(given: &VerbArgs) -> Result<Action, String> {
    let approve = Approve {
        call: given.one("--call")?,
        option: given.one("--option")?,
        edited: given.one("--edited")?,
        answers: given.all("--answer"),
        list: given.has("--list"),
    };
    if approve.list && (approve.option.is_some() || approve.edited.is_some() || !approve.answers.is_empty()) {
        return Err("--list answers nothing; leave it out, or the answer".into());
    }
    Ok(Action::Approve(approve))
}

fn tasks(given: &VerbArgs) -> Result<Action, String> {
    let ids = given.words.get(1..).unwrap_or_default().to_vec();
    let some = |what: fn(Vec<String>) -> TasksAction, verb: &str| match ids.is_empty() {
        true => Err(format!("which task? gemini-a2a tasks {verb} ID…; gemini-a2a tasks lists them")),
        false => Ok(what(ids.clone())),
    };
    let action = match given.words.first().map(String::as_str) {
        None => TasksAction::List,
        Some("list") if ids.is_empty() => TasksAction::List,
        Some("list") => return Err(format!("list takes no {}; gemini-a2a tasks show shows a task", ids[0])),
        Some("reindex") if ids.is_empty() => TasksAction::Reindex,
        Some("reindex") => return Err(format!("reindex takes no {}", ids[0])),
        Some("show") => some(TasksAction::Show, "show")?,
        Some("export") => some(TasksAction::Export, "export")?,
        Some("delete") => some(TasksAction::Delete, "delete")?,
        Some(other) => return Err(format!("tasks knows list, show, export, delete and reindex, not {other}")),
    };
    Ok(Action::Tasks { action, all: given.has("--all") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Mode, parse};

    fn read(line: &str) -> Result<ClientArgs, String> {
        match parse(line.split_whitespace().map(str::to_owned))?.mode {
            Mode::Client(args) => Ok(args),
            mode => panic!("{mode:?}"),
        }
    }

    #[test]
    fn flags_and_words() {
        let action = |line: &str| read(line).map(|args| args.action);
        assert_eq!(action("watch"), Ok(Action::Watch { after: None, until: vec![] }));
        let until = vec![Until::Question, Until::Idle];
        assert_eq!(action("watch --after 7 --until=question,idle"), Ok(Action::Watch { after: Some(Seq(7)), until }));
        let send = |text: &[&str], wait| {
            Ok(Action::Send { text: text.iter().map(|t| (*t).to_owned()).collect(), begin: false, wait })
        };
        assert_eq!(action("send a b"), send(&["a", "b"], Wait::No));
        assert_eq!(action("send --wait - "), send(&["-"], Wait::ForAnswer(None)));
        assert_eq!(action("send --wait=2s x -- --y"), send(&["x", "--y"], Wait::ForAnswer(Some(2_000))));
        let whole = Approve {
            call: Some("c".into()),
            option: Some("no".into()),
            edited: Some("f".into()),
            answers: vec!["a".into(), "b".into()],
            list: false,
        };
        let line = "approve --call c --option no --edited f --answer a --answer b";
        assert_eq!(action(line), Ok(Action::Approve(whole)));
        let tasks = |action, all| Ok(Action::Tasks { action, all });
        assert_eq!(action("tasks"), tasks(TasksAction::List, false));
        assert_eq!(action("tasks list --all"), tasks(TasksAction::List, true));
        assert_eq!(action("tasks export a b"), tasks(TasksAction::Export(vec!["a".into(), "b".into()]), false));
        let args = read("tasks --url unix:/s --json --token-file f").expect("a command line");
        assert_eq!((args.server, args.json), (Some(Remote::Unix("/s".into())), true));
        assert_eq!(args.token_file.as_deref(), Some("f"));
        assert_eq!(read("send --task t x").expect("a command line").task.as_deref(), Some("t"));
    }

    #[test]
    fn errors_are_one_line() {
        for (line, words) in [
            ("watch x", "watch takes no x"),
            ("watch --after x", "not x"),
            ("watch --until x", "idle, question or end"),
            ("watch --yolo", "the server has its own flags"),
            ("watch --nix", "watch takes no --nix"),
            ("watch --json=x", "takes no value"),
            ("send", "what is to be sent?"),
            ("send --wait=x y", "a time such as 30s"),
            ("send --task a --task b y", "given twice"),
            ("send --task a --new y", "only one of the two"),
            ("approve --list --option no", "--list answers nothing"),
            ("tasks show", "which task?"),
            ("tasks list x", "list takes no x"),
            ("tasks wipe", "not wipe"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(words) && !error.contains('\n'), "{line}: {error}");
        }
    }
}
