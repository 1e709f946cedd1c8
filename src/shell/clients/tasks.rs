//! `tasks`: lists, shows, exports and deletes tasks.

use super::ClientError;
use super::connection::Connection;
use super::output::Output;
use super::watch::LinearText;
use crate::args::clients::TasksAction;
use crate::base::id::TaskId;
use crate::shell::event_loop::sys;
use crate::task::machine::state::TaskState;
use crate::ui::client::{ServerCall, TaskBrief};
use crate::ui::output::block::{Viewer, age_text};
use serde_json::{Value, json};

/// The first characters of an id that are shown, if no other id begins with them.
const SHORT: usize = 8;

/// The tasks that the server knows.
pub fn briefs(connection: &mut Connection) -> Result<Vec<TaskBrief>, ClientError> {
    let mut answer = connection.call(ServerCall::Briefs)?;
    let unknown = |_| ClientError::Failure(format!("{} does not list its tasks", connection.server));
    serde_json::from_value(answer["tasks"].take()).map_err(unknown)
}

/// The task with this id, or the only one whose id begins with it.
pub fn resolve(connection: &mut Connection, name: &str) -> Result<TaskId, ClientError> {
    let known = briefs(connection)?;
    let mut fitting = known.iter().filter(|brief| brief.task.as_str().starts_with(name));
    match (known.iter().any(|brief| brief.task.as_str() == name), fitting.next(), fitting.next()) {
        // The server may know tasks that it does not list.
        (true, ..) | (false, None, _) => Ok(name.into()),
        (false, Some(brief), None) => Ok(brief.task.clone()),
        (false, Some(_), Some(_)) => {
            Err(ClientError::NoSuchTask(format!("several tasks begin with {name}; give more of the id")))
        }
    }
}

pub fn run(
    connection: &mut Connection,
    output: Output,
    viewer: &Viewer,
    action: &TasksAction,
    all: bool,
) -> Result<(), ClientError> {
    let (names, each): (_, fn(&mut Connection, Output, &Viewer, TaskId) -> _) = match action {
        TasksAction::List | TasksAction::Reindex => return list(connection, output, all),
        TasksAction::Show(names) => (names, show),
        TasksAction::Export(names) => (names, export),
        TasksAction::Delete(names) => (names, delete),
    };
    for name in names {
        let task = resolve(connection, name)?;
        each(connection, output, viewer, task)?;
    }
    Ok(())
}

fn list(connection: &mut Connection, output: Output, all: bool) -> Result<(), ClientError> {
    let mut known = briefs(connection)?;
    let is_over = |brief: &TaskBrief| TaskState::from_word(&brief.state).is_some_and(TaskState::is_terminal);
    known.retain(|brief| all || !is_over(brief));
    known.sort_by_key(|brief| std::cmp::Reverse(brief.at));
    if output.json {
        let task = |brief: &TaskBrief| {
            json!({ "taskId": brief.task, "state": brief.state, "at": brief.at, "title": brief.title,
                    "waiting": brief.waiting })
        };
        return output.line(&Value::from(known.iter().map(task).collect::<Vec<_>>()).to_string());
    }
    let now = sys::unix_ms();
    let ids: Vec<&str> = known.iter().map(|brief| short(&brief.task, &known)).collect();
    let width = ids.iter().map(|id| id.len()).max().unwrap_or(0);
    for (brief, id) in known.iter().zip(&ids) {
        let title = brief.title.lines().next().unwrap_or_default();
        let age = age_text(now.saturating_sub(brief.at));
        output.prose(format!("{id:<width$}  {:<15} {age:>4}  {title}", brief.state).trim_end())?;
    }
    Ok(())
}

/// The beginning of an id, if it is that of no other task.
fn short<'a>(task: &'a TaskId, known: &[TaskBrief]) -> &'a str {
    let id = task.as_str();
    match id.get(..SHORT) {
        Some(begin) if known.iter().filter(|brief| brief.task.as_str().starts_with(begin)).count() == 1 => begin,
        Some(_) | None => id,
    }
}

fn show(connection: &mut Connection, output: Output, viewer: &Viewer, task: TaskId) -> Result<(), ClientError> {
    if output.json {
        let value = connection.call(ServerCall::Get { task })?;
        return output.line(&value.to_string());
    }
    let mut words = LinearText::new(viewer);
    let mut text = String::new();
    connection.replay(&task, |record, _| {
        text.push_str(&record.map_or_else(String::new, |record| words.take(record)));
        Ok(())
    })?;
    let scene = &words.transcript.scene;
    let state = scene.state.map_or("unknown", TaskState::word);
    output.text(&format!("Task {task}, {state}, in {}\n{text}", scene.workspace))
}

fn export(connection: &mut Connection, output: Output, _: &Viewer, task: TaskId) -> Result<(), ClientError> {
    connection.call(ServerCall::Export { task: task.clone() })?;
    connection.replay(&task, |_, frame| output.line(frame))
}

fn delete(connection: &mut Connection, output: Output, _: &Viewer, task: TaskId) -> Result<(), ClientError> {
    // Watching loads the task, which fails while another process uses it.
    connection.call(ServerCall::Watch { task: task.clone(), after: None })?;
    connection.call(ServerCall::Unwatch { task: task.clone() })?;
    connection.call(ServerCall::Delete { task: task.clone() })?;
    output.either(task.as_str(), &json!({ "taskId": task }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_if_that_is_enough() {
        let known: Vec<TaskBrief> = ["abcdefgh-1", "abcdefgh-2", "12345678-1", "tiny"]
            .map(|task| serde_json::from_value(json!({"task": task, "at": 0})).expect("a brief"))
            .into();
        let shown: Vec<&str> = known.iter().map(|brief| short(&brief.task, &known)).collect();
        assert_eq!(shown, ["abcdefgh-1", "abcdefgh-2", "12345678", "tiny"]);
    }

    #[test]
    fn ages_have_one_unit() {
        let ages = [0, 59_999, 60_000, 3_599_999, 7_200_000, 86_400_000].map(age_text);
        assert_eq!(ages, ["0s", "59s", "1m", "59m", "2h", "1d"]);
    }
}
