//! The small endpoints of the reference server beside JSON-RPC: creating a task without a prompt, metadata, health. Bare JSON in
//! and out.

use crate::a2a::form::View;
use crate::a2a::input;
use crate::a2a::object::{body, check_type, object};
use crate::a2a::settings;
use crate::a2a::tools::Tools;
use crate::a2a::words;
use crate::a2a::{Form, Wanted, respond, snapshot};
use crate::base::http::{Request, Response};
use crate::base::id::TaskId;
use crate::base::json;
use crate::task::call::{Birth, Call, Create, Settings};
use crate::task::event::{Lifecycle, Profile, Protocol};
use crate::task::fault::Fault;
use crate::task::push::Census;
use crate::task::state::State;
use serde_json::{Value, json};

/// `POST /tasks`. Without a body everything is as by default.
pub fn create(request: &Request) -> Result<Call, Fault> {
    check_type(request)?;
    let sent = match body(request)? {
        None => Default::default(),
        Some(Value::Object(sent)) => sent,
        Some(_) => return Err(Fault::params("The body must be a JSON object.")),
    };
    let wishes = object(&sent, &["agentSettings"], "body")?;
    Ok(Call::Create(Create {
        context: input::context(&sent, "body")?,
        settings: match wishes {
            Some(wishes) => settings::read(wishes, "body.agentSettings")?,
            None => Settings::default(),
        },
        birth: Birth {
            lifecycle: Lifecycle::Conversational,
            protocol: Protocol::V03,
            profile: Profile::Coder,
        },
    }))
}

/// The answer to `POST /tasks`: the id, as a JSON string.
pub fn created(state: &State) -> Response {
    Response::json(201, json::bytes(&state.created.task))
}

/// The answer to `POST /tasks` without a body: the live session, by every name it may be looked for.
pub fn session_id(form: &Form, task: &TaskId) -> Response {
    let id = json!({ "sessionId": task, "taskId": task, "id": task, "contextId": task });
    respond(form, 201, json::bytes(&id))
}

/// The answer to `GET /tasks/{id}` by those who name no version.
pub fn task(view: View, state: &State, wanted: Wanted) -> Response {
    Response::json(200, snapshot(view, state, wanted))
}

/// The answer to `GET /tasks/{id}/metadata`.
pub fn metadata(state: &State, tools: &Tools) -> Response {
    let mut out = br#"{"metadata":"#.to_vec();
    write_metadata(&mut out, state, &tools.available);
    out.push(b'}');
    Response::json(200, out)
}

/// The answer to `GET /tasks/metadata`. Tools come without their schemas here: they are the same for every task, and there may
/// be thousands of tasks.
pub fn all_metadata<'a>(states: impl IntoIterator<Item = &'a State>, tools: &Tools) -> Response {
    let mut out = Vec::new();
    for state in states {
        out.push(if out.is_empty() { b'[' } else { b',' });
        write_metadata(&mut out, state, &tools.available_brief);
    }
    if out.is_empty() {
        return Response::empty(204);
    }
    out.push(b']');
    Response::json(200, out)
}

/// The answer to `GET /health`.
pub fn health(uptime_ms: u64, active: usize, total: usize, hooks: Census) -> Response {
    let health = json!({
        "status": "healthy",
        "uptime": uptime_ms as f64 / 1000.0,
        "activeTasks": active,
        "totalTasks": total,
        "webhooks": hooks,
    });
    Response::json(200, json::bytes(&health))
}

fn write_metadata(out: &mut Vec<u8>, state: &State, tools: &[u8]) {
    let known = json!({
        "id": state.created.task,
        "contextId": state.created.context,
        "taskState": words::state(state.status.state),
        "model": state.model,
        "mcpServers": [],
        "usage": { "turn": state.usage, "total": state.total },
    });
    json::write(out, &known);
    out.pop();
    out.extend_from_slice(br#","availableTools":"#);
    out.extend_from_slice(tools);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use crate::task::fault::FaultKind;

    fn value(response: &Response) -> Value {
        serde_json::from_slice(&response.body).unwrap()
    }

    fn asked(body: &str) -> Result<Create, FaultKind> {
        match create(&sample::post("/tasks", body)) {
            Ok(Call::Create(create)) => Ok(create),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => Err(fault.kind),
        }
    }

    #[test]
    fn bodies_of_a_creation() {
        for (body, context, workspace) in [
            ("", None, None),
            ("null", None, None),
            ("{}", None, None),
            (
                r#"{"contextId":"c","agentSettings":{"kind":"agent-settings","workspacePath":"/w"}}"#,
                Some("c"),
                Some("/w"),
            ),
            (
                r#"{"agentSettings":{"workspaceRoot":"/r"}}"#,
                None,
                Some("/r"),
            ),
        ] {
            let create = asked(body).unwrap();
            assert_eq!(create.context, context.map(Into::into), "{body}");
            assert_eq!(create.settings.workspace.as_deref(), workspace, "{body}");
            assert_eq!(create.birth.profile, Profile::Coder);
        }
        for (body, kind) in [
            ("{", FaultKind::ParseError),
            ("[]", FaultKind::InvalidParams),
            (r#"{"agentSettings":"x"}"#, FaultKind::InvalidParams),
            (
                r#"{"agentSettings":{"apiKey":"k"}}"#,
                FaultKind::InvalidParams,
            ),
            (r#"{"contextId":7}"#, FaultKind::InvalidParams),
        ] {
            assert_eq!(asked(body).unwrap_err(), kind, "{body}");
        }
    }

    #[test]
    fn a_task_and_its_metadata() {
        let state = sample::state();
        let answer = created(&state);
        assert_eq!((answer.status, value(&answer)), (201, json!("t-1")));
        let tools = sample::tools();
        let one = json!({"id": "t-1", "contextId": "c-1", "taskState": "working", "model": "gemini-x", "mcpServers": [],
            "usage": {
                "turn": {"promptTokenCount": 10, "candidatesTokenCount": 7, "totalTokenCount": 17},
                "total": {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}}});
        let mut full = one.clone();
        full["availableTools"] = json!([
            {"name": "write_file", "description": "Writes a file.",
                "parameterSchema": {"type": "object", "required": ["file_path"]}},
            {"name": "run_shell_command", "description": "Runs a command.", "parameterSchema": {"type": "object"}}]);
        assert_eq!(
            value(&metadata(&state, &tools)),
            json!({ "metadata": full })
        );
        let mut brief = one;
        brief["availableTools"] = json!([
            {"name": "write_file", "description": "Writes a file."},
            {"name": "run_shell_command", "description": "Runs a command."}]);
        assert_eq!(
            value(&all_metadata([&state, &state], &tools)),
            json!([brief, brief])
        );
        assert_eq!(all_metadata([], &tools), Response::empty(204));
    }

    #[test]
    fn health_in_seconds() {
        assert_eq!(
            value(&health(12_500, 1, 4, Census::default())),
            json!({"status": "healthy", "uptime": 12.5, "activeTasks": 1, "totalTasks": 4,
                "webhooks": {"active": 0, "suspended": 0, "pending": 0, "failed": 0}})
        );
    }
}
