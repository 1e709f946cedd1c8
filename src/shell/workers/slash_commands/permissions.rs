//! The commands about permissions that people have granted with "always". The core lists and revokes the permissions; the arguments of the
//! command are the task and the permissions.

use super::Asked;
use crate::task::definitions::slash::{Commanded, Granted};
use serde_json::json;

pub fn list(asked: &Asked) -> Result<Commanded, String> {
    let (task, granted) = given(asked)?;
    let lines = (1..).zip(&granted).map(|(n, granted)| format!("{n}  {}", line(granted)));
    let text = match granted.as_slice() {
        [] => format!("Nothing is allowed with \"always\"{}.", within(task)),
        _ => format!(
            "Allowed without a question{}; /permissions revoke takes it back:\n{}",
            within(task),
            lines.collect::<Vec<_>>().join("\n")
        ),
    };
    Ok(Commanded::Done { text, data: json!({ "task": task, "permissions": granted }) })
}

pub fn revoke(asked: &Asked) -> Result<Commanded, String> {
    let (task, granted) = given(asked)?;
    if granted.is_empty() {
        return Err(format!(
            "There is no such permission{}. /permissions lists them with their numbers.",
            within(task)
        ));
    }
    let lines: Vec<String> = granted.iter().map(line).collect();
    let text = format!("Taken back; such calls are asked about again{}:\n{}", within(task), lines.join("\n"));
    Ok(Commanded::Done { text, data: json!({ "task": task, "revoked": granted }) })
}

/// The task, empty if there is none, and the permissions.
fn given<'a>(asked: &'a Asked) -> Result<(&'a str, Vec<Granted>), String> {
    let (task, granted) = asked.command.invocation.args.split_first().ok_or("The command was not prepared.")?;
    let granted: Result<_, _> = granted.iter().map(|granted| serde_json::from_str(granted)).collect();
    Ok((task, granted.map_err(|error| format!("The permissions cannot be read: {error}."))?))
}

fn within(task: &str) -> String {
    if task.is_empty() { String::new() } else { format!(" in task {task}") }
}

fn line(granted: &Granted) -> String {
    let scope = if granted.saved { " (saved, in all tasks)" } else { "" };
    format!("{}{scope}", granted.rule.described())
}
