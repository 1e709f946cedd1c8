//! The sessions of a workspace, as a server lists them, and the search for the one that a word of the command line names.

use crate::base::id::TaskId;
use crate::base::text::unsafe_char::is_unsafe;
use crate::task::machine::state::TaskState;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long to wait for the list. The server has just been started and has nothing else to do.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSession {
    pub task: TaskId,
    /// The first line of the first prompt.
    pub title: String,
    /// Unix milliseconds of the last change.
    pub at: u64,
}

/// Asks the server, over a connection that is used for nothing else, for the sessions of the workspace that have a prompt, oldest first.
pub fn list(mut stream: UnixStream, workspace: &Path) -> io::Result<Vec<ListedSession>> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"{\"id\":1,\"call\":{\"briefs\":{}}}\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let answer: Value = serde_json::from_str(&line)?;
    let sessions = of_workspace(&answer["ok"], workspace);
    sessions.ok_or_else(|| io::Error::other(format!("the server does not list its sessions: {}", line.trim())))
}

/// The sessions of a workspace in the answer to `briefs`, oldest first; None if it is not such an answer.
pub fn of_workspace(briefs: &Value, workspace: &Path) -> Option<Vec<ListedSession>> {
    let is_ours = |task: &&Value| {
        let state = task["state"].as_str().and_then(TaskState::from_word);
        task["workspace"].as_str().map(Path::new) == Some(workspace)
            && task["turns"].as_u64() != Some(0)
            && !state.is_some_and(TaskState::is_terminal)
    };
    let mut sessions: Vec<ListedSession> = briefs["tasks"]
        .as_array()?
        .iter()
        .filter(is_ours)
        .filter_map(|task| {
            let title = task["title"].as_str().unwrap_or_default().to_owned();
            Some(ListedSession { task: task["task"].as_str()?.into(), title, at: task["at"].as_u64()? })
        })
        .collect();
    sessions.sort_by_key(|session| session.at);
    Some(sessions)
}

/// The list for people, numbered as [`find`] counts.
pub fn listing(sessions: &[ListedSession], now_ms: u64) -> String {
    if sessions.is_empty() {
        return "No previous sessions found for this project.\n".into();
    }
    let mut text = format!("Available sessions for this project ({}):\n", sessions.len());
    for (session, number) in sessions.iter().zip(1..) {
        let title: String = session.title.chars().filter(|c| !is_unsafe(*c)).collect();
        text.push_str(&format!("  {number}. {title} ({}) [{}]\n", age(session.at, now_ms), session.task));
    }
    text
}

fn age(at_ms: u64, now_ms: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("day", 86_400), ("hour", 3_600), ("minute", 60)];
    let seconds = now_ms.saturating_sub(at_ms) / 1000;
    match UNITS.into_iter().find(|(_, unit)| seconds >= *unit) {
        None => "just now".into(),
        Some((name, unit)) if seconds / unit == 1 => format!("1 {name} ago"),
        Some((name, unit)) => format!("{} {name}s ago", seconds / unit),
    }
}

/// Finds the session that a word names: `latest`, its number in the list, or the beginning of its id.
pub fn find(sessions: &[ListedSession], which: &str) -> Result<TaskId, String> {
    const HOW: &str = "gemini-a2a --list-sessions prints those that there are";
    if which == "latest" {
        let latest = sessions.last().map(|session| session.task.clone());
        return latest.ok_or_else(|| "there is no session in this workspace to go on with".into());
    }
    let numbered = which.parse::<usize>().ok().and_then(|number| sessions.get(number.checked_sub(1)?));
    let by_id: Vec<&ListedSession> = match numbered {
        Some(session) => vec![session],
        None => sessions.iter().filter(|session| is_named(session.task.as_str(), which)).collect(),
    };
    match by_id[..] {
        [session] => Ok(session.task.clone()),
        [] => Err(format!("there is no session {which}; {HOW}")),
        [..] => Err(format!("the ids of several sessions begin with {which}; {HOW}")),
    }
}

/// Whether a word names this id. A number that is not in the list must not match an id, so the beginning of an id has at least four
/// characters.
fn is_named(id: &str, which: &str) -> bool {
    id == which || which.len() >= 4 && id.starts_with(which)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_by_latest_a_number_or_the_beginning_of_its_id() {
        let session = |id: &str| ListedSession { task: id.into(), title: String::new(), at: 0 };
        let sessions = ["7f3a-1", "7f3a-2", "9-3"].map(session);
        for (which, found) in [
            ("latest", Ok("9-3")),
            ("1", Ok("7f3a-1")),
            ("3", Ok("9-3")),
            ("7f3a-2", Ok("7f3a-2")),
            ("9-3", Ok("9-3")),
            ("7f3a", Err("the ids of several")),
            ("7f3", Err("there is no session 7f3")),
            ("0", Err("there is no session 0")),
            ("4", Err("there is no session 4")),
            ("", Err("there is no session")),
        ] {
            match (find(&sessions, which), found) {
                (Ok(task), Ok(expected)) => assert_eq!(task.as_str(), expected, "{which}"),
                (Err(why), Err(expected)) => assert!(why.starts_with(expected), "{why}"),
                (result, _) => panic!("{which}: {result:?}"),
            }
        }
        assert!(find(&[], "latest").is_err());
    }

    #[test]
    fn the_list_is_numbered_from_the_oldest_on() {
        let briefs = serde_json::json!({ "tasks": [
            { "task": "c", "title": "third", "at": 200_000_000, "turns": 1, "workspace": "/w", "state": "working" },
            { "task": "a", "title": "a\u{1b}[1m", "at": 1_000, "turns": 2, "workspace": "/w", "state": "input-required" },
            { "task": "b", "title": "b", "at": 92_000_000, "turns": 1, "workspace": "/w", "state": "input-required" },
            { "task": "d", "title": "elsewhere", "at": 1, "turns": 1, "workspace": "/x", "state": "input-required" },
            { "task": "e", "title": "over", "at": 1, "turns": 1, "workspace": "/w", "state": "completed" },
            { "task": "f", "title": "", "at": 1, "turns": 0, "workspace": "/w", "state": "submitted" },
        ] });
        let sessions = of_workspace(&briefs, Path::new("/w")).expect("a list");
        assert_eq!(
            listing(&sessions, 200_030_000),
            "Available sessions for this project (3):\n  1. a[1m (2 days ago) [a]\n  2. b (1 day ago) [b]\n  3. third (just now) [c]\n"
        );
        assert_eq!((age(0, 60_000), age(0, 7_200_000)), ("1 minute ago".into(), "2 hours ago".into()));
        assert_eq!(of_workspace(&Value::Null, Path::new("/w")), None);
    }
}
