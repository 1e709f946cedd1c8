//! The endpoints of the reference server and of the documents around it, beside JSON-RPC: tasks without a prompt, prompts that are
//! answered with a stream, metadata, health. Bare JSON in and out.

use crate::a2a::dialect::{Binding, View};
use crate::a2a::encodings::object::object;
use crate::a2a::form::{CreatedAnswer, enclosed};
use crate::a2a::requests::object::{Object, body, check_type, count, object as object_member};
use crate::a2a::requests::rest::{self, query_params};
use crate::a2a::requests::route::Incoming;
use crate::a2a::requests::{filter, message, operation, prompt, settings, version};
use crate::a2a::switches::Switches;
use crate::a2a::views::update::shown_outcome;
use crate::a2a::{Form, SnapshotOptions, respond, snapshot, words};
use crate::base::clock::rfc3339;
use crate::base::http::{Request, Response};
use crate::base::id::TaskId;
use crate::base::json;
use crate::task::call::{Call, Create, Say, Settings};
use crate::task::fault::Fault;
use crate::task::log::event::Protocol;
use crate::task::machine::state::State;
use crate::task::push::WebhookCounts;
use serde_json::{Value, json};

/// `POST /tasks`. Without a body it asks for the live session; with one it creates a task. The spelling of the settings shows which form of
/// answer the client expects.
pub fn create(incoming: Incoming<'_>, form: &mut Form) -> Result<Call, Fault> {
    let Incoming { request, switches, .. } = incoming;
    check_type(request)?;
    let sent = match body(request)? {
        None => return Ok(Call::Session),
        Some(Value::Object(sent)) => sent,
        Some(_) => return Err(Fault::params("The body must be a JSON object.")),
    };
    let wishes = object_member(&sent, &["agentSettings"], "")?;
    if let Some(wishes) = wishes {
        let has = |name| wishes.contains_key(name);
        let reference = has("kind") || has("workspacePath");
        if has("workspaceRoot") || (!reference && (has("model") || has("apiKey"))) {
            form.created_answer = CreatedAnswer::State;
        }
    }
    Ok(Call::Create(Create {
        context: message::context(&sent, "")?,
        settings: match wishes {
            Some(wishes) => settings::read(wishes, "agentSettings")?,
            None => Settings::default(),
        },
        traits: operation::traits(form, switches),
    }))
}

/// `GET /tasks`.
pub fn tasks(incoming: Incoming<'_>, form: &mut Form) -> Result<Call, Fault> {
    match of_rest(incoming.request) {
        Some(route) => rest::call(&route, incoming.request, incoming.switches, form),
        None => filter::whole(&query_params(&incoming.request.query)).map(Call::List),
    }
}

/// `GET /tasks/{id}`.
pub fn get(incoming: Incoming<'_>, form: &mut Form) -> Result<Call, Fault> {
    if let Some(route) = of_rest(incoming.request) {
        return rest::call(&route, incoming.request, incoming.switches, form);
    }
    let history = count(&query_params(&incoming.request.query), &["historyLength", "history_length"], "")?;
    Ok(Call::Get { task: incoming.task(), history })
}

/// The route of the request in the REST binding of 1.0, if it belongs to that binding: it names version 1.0 or an unknown version, or has
/// parameters that only 1.0 has.
fn of_rest(request: &Request) -> Option<rest::MatchedRoute<'_>> {
    const NEW: [&str; 4] = ["pageSize", "pageToken", "statusTimestampAfter", "includeArtifacts"];
    let is_new = |(name, value): &(String, String)| {
        NEW.contains(&name.as_str()) || (name == "status" && value.starts_with("TASK_STATE_"))
    };
    let is_10 = match version::named(request) {
        Ok(Some(Protocol::V10)) | Err(_) => true,
        Ok(Some(Protocol::V03) | None) => request.query.iter().any(is_new),
    };
    rest::find(&request.path).filter(|_| is_10)
}

/// A prompt or an answer that is sent to one of the streams. A task in the path takes precedence over one in the body.
pub fn say(incoming: Incoming<'_>, form: &mut Form) -> Result<Call, Fault> {
    check_type(incoming.request)?;
    let sent = body(incoming.request)?.unwrap_or_default();
    let mut say = read_say(&sent, form, incoming.switches)?;
    if let Some(task) = incoming.ids.task {
        say.task = Some(task.into());
        say.create.context = None;
    }
    Ok(Call::Say(say))
}

/// Reads a prompt or an answer in any of its forms.
pub fn read_say(sent: &Value, form: &mut Form, switches: &Switches) -> Result<Say, Fault> {
    let received = prompt::read(sent)?;
    let none = Object::new();
    let around = match sent {
        Value::Object(sent) => prompt::without_envelope(sent)?,
        _ => &none,
    };
    let metadata = object_member(around, &["metadata"], "")?;
    let mut say = operation::to_say(received, metadata, form, switches)?;
    if let Some(wishes) = object_member(around, &["agentSettings"], "")? {
        let wishes = settings::read(wishes, "agentSettings")?;
        say.create.settings = settings::merged(say.create.settings, wishes);
    }
    Ok(say)
}

/// The answer to `POST /tasks`: the id as a JSON string, or an object for clients that expect one.
pub fn created(form: &Form, state: &State) -> Response {
    let task = &state.created.task;
    let body = match form.created_answer {
        CreatedAnswer::Id => json::bytes(task),
        CreatedAnswer::State => json::bytes(&json!({ "taskId": task, "state": "running" })),
    };
    respond(form, 201, enclosed(form, body))
}

/// The answer to a request for the live session: its id, under every name that clients of `POST /tasks` look for, or bare in the native
/// dialect.
pub fn session_id(form: &Form, task: &TaskId) -> Response {
    let id = if form.dialect.binding == Binding::Native {
        json!(task)
    } else {
        json!({ "sessionId": task, "taskId": task, "id": task, "contextId": task })
    };
    respond(form, 201, enclosed(form, json::bytes(&id)))
}

/// The answer to `GET /tasks/{id}` without a version: the task of A2A 0.3, with the additional members `state` and `timestamp` that
/// [`briefs`](crate::a2a::briefs) have.
pub fn task(view: View, state: &State, options: SnapshotOptions) -> Response {
    let word = words::execute_state(shown_outcome(state));
    let mut out = snapshot(view, state, options);
    let more = object(|o| _ = o.member("state", word).member("timestamp", &rfc3339(state.status.at)));
    out.pop();
    out.push(b',');
    out.extend_from_slice(&more[1..]);
    Response::json(200, out)
}

/// The answer to `GET /health`. The status stays 200 when there is a problem: a restart would not fix it, so liveness probes should
/// not cause one.
pub fn health(report: &HealthReport<'_>) -> Response {
    let status = status_word(report.problem);
    let confinement = if report.unconfined.is_some() { "none" } else { "full" };
    Response::json(
        200,
        object(|o| {
            o.member("activeTasks", &report.active).member("confinement", confinement);
            let memory = report.memory.map(|(budget, used)| json!({ "budget": budget, "used": used }));
            o.optional("memory", memory.as_ref());
            o.optional("problem", report.problem).member("refused_peers", &report.refused_peers);
            o.member("status", status).member("totalTasks", &report.total);
            o.member("uptime", &(report.uptime_ms as f64 / 1000.0)).member("webhooks", &json!(report.hooks));
            o.optional("why", report.unconfined);
        }),
    )
}

/// The same for clients that may only see the status.
pub fn short_health(problem: Option<&str>) -> Response {
    Response::json(200, object(|o| _ = o.member("status", status_word(problem))))
}

fn status_word(problem: Option<&str>) -> &'static str {
    if problem.is_some() { "degraded" } else { "healthy" }
}

/// The health of the server.
#[derive(Default)]
pub struct HealthReport<'a> {
    pub problem: Option<&'a str>,
    /// The memory budget and the bytes that are used of it. None: there is no budget.
    pub memory: Option<(u64, usize)>,
    pub uptime_ms: u64,
    pub active: usize,
    pub total: usize,
    pub hooks: WebhookCounts,
    /// Requests that were refused because a tool's process may have sent them.
    pub refused_peers: u64,
    /// Why commands without approval cannot be confined, so that all commands need approval.
    pub unconfined: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Dialect;
    use crate::a2a::requests::route;
    use crate::a2a::sample;
    use crate::task::call::Mode;
    use crate::task::fault::FaultKind;
    use crate::task::log::event::{Lifecycle, Profile};

    fn value(response: &Response) -> Value {
        serde_json::from_slice(&response.body).unwrap()
    }

    fn asked(body: &str) -> Result<(Call, CreatedAnswer), FaultKind> {
        match route::decode(&sample::post("/tasks", body), &Switches::default()) {
            Ok((call, form)) => Ok((call, form.created_answer)),
            Err((fault, form)) => {
                assert_eq!(form.dialect, Dialect::GEMINI);
                Err(fault.kind)
            }
        }
    }

    #[test]
    fn requests_that_create_tasks_in_their_three_forms() {
        for nothing in ["", "null", " "] {
            assert_eq!(asked(nothing).unwrap().0, Call::Session);
        }
        for (body, context, workspace, note) in [
            ("{}", None, None, CreatedAnswer::Id),
            (
                r#"{"contextId":"c","agentSettings":{"kind":"agent-settings","workspacePath":"/w"}}"#,
                Some("c"),
                Some("/w"),
                CreatedAnswer::Id,
            ),
            (r#"{"agentSettings":{"workspacePath":"/w","model":"m"}}"#, None, Some("/w"), CreatedAnswer::Id),
            (r#"{"agentSettings":{"workspaceRoot":"/r"}}"#, None, Some("/r"), CreatedAnswer::State),
            (r#"{"agentSettings":{"model":"m"}}"#, None, None, CreatedAnswer::State),
        ] {
            let Ok((Call::Create(create), told)) = asked(body) else {
                panic!("{body}");
            };
            assert_eq!(create.context, context.map(Into::into), "{body}");
            assert_eq!(create.settings.workspace.as_deref(), workspace, "{body}");
            assert_eq!(told, note, "{body}");
            assert_eq!(create.traits.profile, Profile::Coder);
            assert_eq!(create.traits.lifecycle, Lifecycle::Conversational);
        }
        for (body, kind) in [
            ("{", FaultKind::ParseError),
            ("[]", FaultKind::InvalidParams),
            (r#"{"agentSettings":"x"}"#, FaultKind::InvalidParams),
            (r#"{"agentSettings":{"apiKey":7}}"#, FaultKind::InvalidParams),
            (r#"{"contextId":7}"#, FaultKind::InvalidParams),
        ] {
            assert_eq!(asked(body).unwrap_err(), kind, "{body}");
        }
    }

    fn said(path: &str, body: &str) -> Result<(Say, &'static Dialect), FaultKind> {
        match route::decode(&sample::post(path, body), &Switches::default()) {
            Ok((Call::Say(say), form)) => Ok((say, form.dialect)),
            Ok(other) => panic!("{other:?}"),
            Err((fault, _)) => Err(fault.kind),
        }
    }

    #[test]
    fn prompts_to_the_three_streams() {
        for (path, body, dialect, task) in [
            ("/tasks/t/execute", r#"{"message":"hi"}"#, Dialect::EXECUTE_STREAM, Some("t")),
            ("/tasks/t/messages/stream", r#"{"content":{"text":"hi"}}"#, Dialect::SESSION, Some("t")),
            ("/message/stream", r#"{"userMessage":"hi"}"#, Dialect::MESSAGE_STREAM, None),
            (
                "/message/stream",
                r#"{"taskId":"t","contextId":"c","userMessage":{"text":"hi"}}"#,
                Dialect::MESSAGE_STREAM,
                Some("t"),
            ),
        ] {
            let (say, found) = said(path, body).unwrap();
            assert_eq!(found, dialect, "{path}");
            assert_eq!(say.said.message.text(), "hi");
            assert_eq!(say.task, task.map(Into::into), "{path}");
            assert_eq!(say.mode, Mode::Stream);
            assert_eq!(say.create.traits.lifecycle, Lifecycle::Conversational);
        }
        let (say, _) = said("/tasks/t/execute", r#"{"message":"hi","contextId":"x"}"#).unwrap();
        assert_eq!(say.create.context, None, "the path's task decides");
    }

    #[test]
    fn settings_and_answers_beside_prompts() {
        let (say, _) = said(
            "/message/stream",
            r#"{"userMessage":"hi","agentSettings":{"workspacePath":"/w","autoExecute":true}}"#,
        )
        .unwrap();
        assert_eq!(say.create.settings.workspace.as_deref(), Some("/w"));
        assert_eq!(say.create.settings.auto_execute, Some(true));
        let (say, _) =
            said("/tasks/t/execute", r#"{"confirmation":{"callId":"c","outcome":"proceed_always"}}"#).unwrap();
        assert_eq!(say.said.answers[0].option, "proceed_always");
        let (say, _) = said(
            "/message/stream",
            r#"{"taskId":"t","userMessage":{"kind":"tool-call-confirmation","toolCallId":"c","approved":false}}"#,
        )
        .unwrap();
        assert_eq!(say.said.answers[0].option, "cancel");
        for (body, kind) in [
            ("", FaultKind::InvalidParams),
            ("{", FaultKind::ParseError),
            ("{}", FaultKind::InvalidParams),
            (r#"{"userMessage":"hi","agentSettings":{"apiKey":7}}"#, FaultKind::InvalidParams),
            (r#"{"userMessage":"hi","agentSettings":[]}"#, FaultKind::InvalidParams),
        ] {
            assert_eq!(said("/message/stream", body).unwrap_err(), kind, "{body}");
        }
    }

    #[test]
    fn native_calls_read_the_same_settings() {
        let form = Form { id: crate::base::Shared::from(*b"7"), ..Form::of(Dialect::NATIVE) };
        let state = sample::state();
        let told = json!({"id": 7, "ok": "t-1"});
        assert_eq!(value(&created(&form, &state)), told);
        assert_eq!(value(&session_id(&form, &state.created.task)), told);
        let bare = Form::of(Dialect::GEMINI);
        let named = json!({"sessionId": "t-1", "taskId": "t-1", "id": "t-1", "contextId": "t-1"});
        assert_eq!(value(&session_id(&bare, &state.created.task)), named);
    }

    #[test]
    fn a_task_with_the_words_of_lists() {
        let state = sample::state();
        let form = Form::of(Dialect::GEMINI);
        let view = crate::a2a::view(&form, Some(&state.created));
        let told = value(&task(view, &state, SnapshotOptions::newest(None)));
        let mut whole: Value = serde_json::from_slice(&snapshot(view, &state, SnapshotOptions::newest(None))).unwrap();
        whole["state"] = json!("running");
        whole["timestamp"] = whole["status"]["timestamp"].clone();
        assert_eq!(told, whole);
    }

    #[test]
    fn a_created_task() {
        let state = sample::state();
        let mut form = Form::of(Dialect::GEMINI);
        let answer = created(&form, &state);
        assert_eq!((answer.status, value(&answer)), (201, json!("t-1")));
        form.created_answer = CreatedAnswer::State;
        let told = json!({"taskId": "t-1", "state": "running"});
        assert_eq!(value(&created(&form, &state)), told);
    }

    #[test]
    fn health_has_the_uptime_in_seconds_and_the_problem() {
        assert_eq!(
            value(&health(&HealthReport {
                uptime_ms: 12_500,
                active: 1,
                total: 4,
                refused_peers: 3,
                ..HealthReport::default()
            })),
            json!({"status": "healthy", "uptime": 12.5, "activeTasks": 1, "totalTasks": 4,
                "webhooks": {"active": 0, "suspended": 0, "pending": 0, "failed": 0},
                "refused_peers": 3, "confinement": "full"})
        );
        let tight = HealthReport { memory: Some((64 << 20, 5_000)), ..HealthReport::default() };
        assert_eq!(value(&health(&tight))["memory"], json!({"budget": 67_108_864, "used": 5_000}));
        let report = HealthReport { problem: Some("No space."), unconfined: Some("Old."), ..HealthReport::default() };
        let degraded = health(&report);
        assert_eq!(degraded.status, 200, "it is alive");
        assert_eq!(
            value(&degraded),
            json!({"status": "degraded", "problem": "No space.", "uptime": 0.0, "activeTasks": 0,
                "totalTasks": 0, "webhooks": {"active": 0, "suspended": 0, "pending": 0, "failed": 0},
                "refused_peers": 0, "confinement": "none", "why": "Old."})
        );
    }
}
