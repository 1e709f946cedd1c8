//! `write_todos`: shows people the steps that the agent plans. Each call gives the whole list, which is kept only in the conversation and in
//! the task's log.

use crate::task::machine::job::{Run, RunEnd};
use crate::task::spec::{CallError, Display, Ending, Kind, Plan, Todo, TodoStatus, ToolSpec, Verdict};
use crate::tool::{Ctx, Tool, invalid, object};
use serde::Deserialize;
use serde_json::{Value, json};

pub struct WriteTodos;

impl Tool for WriteTodos {
    fn spec(&self) -> ToolSpec {
        let todo = object(
            &["description", "status"],
            json!({
                "description": {"type": "string", "description": "What is to be done."},
                "status": {"type": "string", "enum": TodoStatus::ALL.map(TodoStatus::word)},
            }),
        );
        let todos = json!({"type": "array", "items": todo, "description": "All steps, in order; the list replaces the one before."});
        let spec = ToolSpec::new(
            "write_todos",
            "WriteTodos",
            Kind::Other,
            "Shows the user the steps of a longer task and how far they are. Give the whole list each time. At most one \
             step is in progress. Not for tasks that take only a step or two.",
            object(&["todos"], json!({ "todos": todos })),
        );
        ToolSpec { by_default: Verdict::Allow, ..spec }
    }

    fn prepare(&self, args: &Value, _: &Ctx) -> Result<Plan, CallError> {
        let title = match todos(args)?.len() {
            0 => "Clearing the list of steps".to_owned(),
            n => format!("Listing {n} steps"),
        };
        Ok(Plan::info(title.clone(), "Confirm Steps", title))
    }

    fn run(&self, run: &Run, _: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        let todos = todos(&run.args)?;
        let line = |(n, todo): (usize, &Todo)| format!("\n{}. [{}] {}", n + 1, todo.status.word(), todo.description);
        let lines: String = todos.iter().enumerate().map(line).collect();
        let output = match lines.as_str() {
            "" => "The list of steps is empty now.".to_owned(),
            lines => format!("The list of steps is now:{lines}"),
        };
        Ok(RunEnd::Ended(Ending::Success { output: output.into(), display: Display::Todos { todos } }))
    }
}

fn todos(args: &Value) -> Result<Vec<Todo>, CallError> {
    let todos = Vec::<Todo>::deserialize(&args["todos"]).map_err(|error| invalid(error.to_string()))?;
    if todos.iter().any(|todo| todo.description.trim().is_empty()) {
        return Err(invalid("every step needs a description"));
    }
    let busy = todos.iter().filter(|todo| todo.status == TodoStatus::InProgress).count();
    if busy > 1 {
        return Err(invalid(format!("{busy} steps are in_progress; at most one may be")));
    }
    Ok(todos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::tool::tests::{Scratch, ran, run_of, with_ctx};

    fn end_of(args: Value) -> RunEnd {
        let scratch = Scratch::new();
        let run = run_of(&scratch, "write_todos", args);
        with_ctx(&scratch, &Limits::default(), |ctx| ran(WriteTodos, &run, ctx))
    }

    #[test]
    fn the_list_is_shown_to_the_model_and_to_people() {
        let args = json!({"todos": [
            {"description": "look", "status": "completed"},
            {"description": "do", "status": "in_progress"},
            {"description": "rest", "status": "blocked"}]});
        let todo = |description: &str, status| Todo { description: description.into(), status };
        assert_eq!(
            end_of(args),
            RunEnd::Ended(Ending::Success {
                output: "The list of steps is now:\n1. [completed] look\n2. [in_progress] do\n3. [blocked] rest".into(),
                display: Display::Todos {
                    todos: vec![
                        todo("look", TodoStatus::Completed),
                        todo("do", TodoStatus::InProgress),
                        todo("rest", TodoStatus::Blocked),
                    ]
                },
            })
        );
        assert_eq!(
            end_of(json!({"todos": []})),
            RunEnd::Ended(Ending::Success {
                output: "The list of steps is empty now.".into(),
                display: Display::Todos { todos: vec![] },
            })
        );
    }

    #[test]
    fn invalid_lists_are_refused_when_planned() {
        let scratch = Scratch::new();
        let step = |status: &str| json!({"description": "x", "status": status});
        let plan = |todos: Value| {
            with_ctx(&scratch, &Limits::default(), |ctx| {
                let args = json!({ "todos": todos });
                WriteTodos.spec().validate(&args).map_err(invalid)?;
                WriteTodos.prepare(&args, ctx).map(|plan| plan.title)
            })
        };
        assert_eq!(
            plan(json!([step("in_progress"), step("in_progress")])),
            Err(invalid("2 steps are in_progress; at most one may be"))
        );
        assert_eq!(
            plan(json!([{"description": " ", "status": "pending"}])),
            Err(invalid("every step needs a description"))
        );
        assert!(plan(json!([step("done")])).is_err());
        assert_eq!(plan(json!([step("in_progress"), step("pending")])), Ok("Listing 2 steps".into()));
    }
}
