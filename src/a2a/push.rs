//! Webhooks on the wire: their configurations in every spelling that clients use, the deliveries to them, and the statistics of
//! deliveries.
//!
//! Depending on version, binding and SDK, a client sends a configuration bare, inside one or two wrappers, or flat beside the id of the
//! task. One reader accepts them all: it descends through the wrappers that it knows and collects the ids on the way. Answers are
//! written in the dialect of the request.

mod rules;

use crate::a2a::dialect::{Binding, Outputs, View, Writer};
use crate::a2a::encodings::object::{Object as ObjectWriter, list, object};
use crate::a2a::encodings::value::{AgentMessage, ArtifactUpdate, Finality, Frame, Piece, StatusUpdate};
use crate::a2a::form::{Form, profile};
use crate::a2a::requests::object::{Object, count, member, object as object_member, text, texts, wrong};
use crate::a2a::requests::operation::{self, Ask, Operation};
use crate::a2a::switches::PushRules;
use crate::a2a::views::coder;
use crate::a2a::views::snapshot::{self, SnapshotOptions};
use crate::a2a::views::tools::Tools;
use crate::a2a::{current_status, result, snapshot as whole};
use crate::base::http::Response;
use crate::base::id::{ConfigId, Seq, TaskId};
use crate::base::secret::Secret;
use crate::limits::{PAGE_TASKS_MOST, WEBHOOK_TEXT_BYTES};
use crate::task::call::{Call, Push};
use crate::task::fault::Fault;
use crate::task::log::event::{Created, Profile, Protocol};
use crate::task::machine::state::{State, Status, TaskState};
use crate::task::push::{Due, Hook, Target, Wish};
pub use rules::WebhookHost;

/// The levels that are searched for a configuration; `config` around `pushNotificationConfig` is the deepest that clients send.
const WRAPPERS: usize = 3;

/// Decodes a request about the webhooks of a task. The parameter `id` is the task in 0.3 and the webhook in 1.0.
pub fn call(ask: &Ask) -> Result<Call, Fault> {
    let params = ask.params;
    if ask.operation == Operation::SetPush {
        let (named, wish) = wish(params, "", &ask.switches.push_rules)?;
        let task = ask.ids.task.map(TaskId::from).or(named);
        return Ok(Call::Push { task: task.ok_or_else(|| wrong("", "taskId", "is required."))?, ask: Push::Set(wish) });
    }
    let (task_names, id_names): (&[&str], &[&str]) = match ask.protocol {
        Protocol::V03 => (&["id", "taskId", "task_id"], &["pushNotificationConfigId", "push_notification_config_id"]),
        Protocol::V10 => (&["taskId", "task_id"], &["id"]),
    };
    let name = text(params, &["name", "parent"], "")?;
    let (named_task, named_id) = name.map_or((None, None), resource);
    let task = match ask.ids.task.or(named_task) {
        Some(task) => TaskId::from(task),
        None => operation::task(ask, task_names)?,
    };
    let id = match ask.ids.config.or(named_id) {
        Some(id) => Some(id),
        None => text(params, id_names, "")?,
    };
    let id = id.map(ConfigId::from);
    let required = || wrong("", id_names[0], "is required.");
    let asked = match (ask.operation, ask.protocol) {
        (Operation::DeletePush, _) => Push::Delete(id.ok_or_else(required)?),
        (Operation::ListPush, _) => {
            one_page(params)?;
            Push::List
        }
        (_, Protocol::V03) => Push::Get(id),
        (_, Protocol::V10) => Push::Get(Some(id.ok_or_else(required)?)),
    };
    Ok(Call::Push { task, ask: asked })
}

/// All webhooks of a task fit on one page, so there is no other page to ask for.
fn one_page(params: &Object) -> Result<(), Fault> {
    let size = count(params, &["pageSize", "page_size"], "")?;
    if size.is_some_and(|size| size > PAGE_TASKS_MOST) {
        return Err(wrong("", "pageSize", "must be at most 100."));
    }
    match text(params, &["pageToken", "page_token"], "")? {
        None => Ok(()),
        Some(_) => Err(wrong("", "pageToken", "is none that was given out here.")),
    }
}

/// The webhook in the member `name` of a prompt's `configuration`.
pub fn inline_config(ask: &Ask, configuration: &Object, name: &str) -> Result<Wish, Fault> {
    let none = Object::new();
    let config = object_member(configuration, &[name], "configuration")?.unwrap_or(&none);
    let at = format!("configuration.{name}");
    let (_, wish) = wish(config, &at, &ask.switches.push_rules)?;
    Ok(wish)
}

/// Reads a configuration in any spelling, and the task that it names, if any. `at` is its path in the request, for error messages.
pub fn wish(given: &Object, at: &str, rules: &PushRules) -> Result<(Option<TaskId>, Wish), Fault> {
    let mut inner = given;
    let mut place = at.to_owned();
    let (mut task, mut outer_id) = (None, None);
    for _ in 0..WRAPPERS {
        let named = text(inner, &["name", "parent"], &place)?.map(resource);
        let (named_task, named_id) = named.unwrap_or((None, None));
        let own = text(inner, &["taskId", "task_id"], &place)?;
        task = task.or(own).or(named_task);
        let id = text(inner, &["configId", "config_id"], &place)?;
        outer_id = id.or(named_id).or(outer_id);
        let wrapped = ["pushNotificationConfig", "push_notification_config", "config"];
        let Some((name, _)) = member(inner, &wrapped) else {
            break;
        };
        inner = object_member(inner, &[name], &place)?.unwrap_or(inner);
        place = match place.is_empty() {
            true => name.to_owned(),
            false => format!("{place}.{name}"),
        };
    }
    let url = text(inner, &["url"], &place)?;
    let url = url.ok_or_else(|| Fault::field("url", "is required."))?;
    rules.check(url).map_err(|what| Fault::field("url", &what))?;
    let none = Object::new();
    let auth = object_member(inner, &["authentication"], &place)?.unwrap_or(&none);
    let mut schemes = texts(auth, &["schemes"], &place)?;
    schemes.extend(text(auth, &["scheme"], &place)?.map(str::to_owned));
    let wish = Wish {
        id: text(inner, &["id"], &place)?.or(outer_id).map(ConfigId::from),
        url: url.to_owned(),
        token: text(inner, &["token"], &place)?.map(Secret::new),
        schemes,
        credentials: text(auth, &["credentials"], &place)?.map(Secret::new),
    };
    check_values(&wish)?;
    Ok((task.map(TaskId::from), wish))
}

/// The task and the webhook in a resource name `tasks/{task}/pushNotificationConfigs/{id}`, which may end after the task.
pub fn resource(name: &str) -> (Option<&str>, Option<&str>) {
    let mut segments = name.split('/');
    match (segments.next(), segments.next(), segments.next()) {
        (Some("tasks"), Some(task), Some("pushNotificationConfigs")) => {
            (Some(task), segments.next().filter(|id| !id.is_empty()))
        }
        (Some("tasks"), Some(task), None) => (Some(task), None),
        _ => (None, None),
    }
}

/// Values of header lines must not contain line breaks.
fn check_values(wish: &Wish) -> Result<(), Fault> {
    let clean = |text: &str| {
        text.len() <= WEBHOOK_TEXT_BYTES && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
    };
    let word = |text: &str| clean(text) && !text.is_empty() && !text.contains(' ');
    let id = wish.id.as_ref().map(ConfigId::as_str);
    let rows = [
        ("id", id.is_none_or(|id| word(id) && !id.contains('/'))),
        ("token", wish.token.as_ref().is_none_or(|token| clean(token.reveal()))),
        ("authentication.schemes", wish.schemes.iter().all(|s| word(s))),
        ("authentication.credentials", wish.credentials.as_ref().is_none_or(|secret| clean(secret.reveal()))),
    ];
    match rows.into_iter().find(|(_, fine)| !fine) {
        None => Ok(()),
        Some((field, _)) => Err(Fault::field(
            field,
            "must be printable ASCII of at most 4096 characters, as it becomes part of a header.",
        )),
    }
}

/// The target of the webhook that a request configures. It gets the version and the profile of the request. If the request has no id, the
/// id is that of the task in 0.3 and `fresh` in 1.0.
pub fn target(wish: Wish, form: &Form, created: &Created, fresh: impl FnOnce() -> String) -> Target {
    let protocol = form.dialect.protocol;
    let id = match (&wish.id, protocol) {
        (Some(id), _) => id.clone(),
        (None, Protocol::V03) => created.task.as_str().into(),
        (None, Protocol::V10) => fresh().into(),
    };
    wish.target(id, protocol, profile(form, created.made()))
}

/// Finds a webhook by its id. Without an id, and with the id `default` that 0.3 clients then send, it is the webhook with the id of the
/// task; without an id it is otherwise the only webhook.
pub fn find<'h>(task: &TaskId, hooks: &'h [Hook], id: Option<&ConfigId>) -> Result<&'h Hook, Fault> {
    let named = |name: &str| hooks.iter().find(|hook| hook.target.id.as_str() == name);
    let missing =
        |what| Err(Fault { message: format!("Webhook not found: task {task} has {what}"), ..Fault::no_task(task) });
    match (id, named(task.as_str()), hooks) {
        (Some(id), unnamed, _) => match named(id.as_str()).or(unnamed.filter(|_| id.as_str() == "default")) {
            Some(hook) => Ok(hook),
            None => missing(format!("no {id}; list its webhooks to see which it has.")),
        },
        (None, Some(hook), _) | (None, None, [hook]) => Ok(hook),
        (None, None, []) => missing("none; set one first.".to_owned()),
        (None, None, _) => Err(Fault::field("pushNotificationConfigId", "is required: the task has several webhooks.")),
    }
}

/// The answer to a request that sets or gets a webhook.
pub fn config(form: &Form, task: &TaskId, hook: &Hook) -> Response {
    result(form, object(|o| shown(o, form, task, hook)))
}

/// The answer to a request for all webhooks of a task.
pub fn configs(form: &Form, task: &TaskId, hooks: &[Hook]) -> Response {
    let one = |o: &mut ObjectWriter<'_>, hook| shown(o, form, task, hook);
    let list = match form.dialect.writer {
        Writer::V03 => list(hooks, one),
        Writer::Proto03 => object(|o| _ = o.list("configs", hooks, one)),
        Writer::V10 => object(|o| _ = o.list("configs", hooks, one).member("nextPageToken", "")),
    };
    result(form, list)
}

/// The answer to a request that deletes a webhook. It has a body because clients of REST decode it.
pub fn deleted(form: &Form) -> Response {
    let nothing: &[u8] = match (form.dialect.binding, form.dialect.protocol) {
        (Binding::JsonRpc, Protocol::V03) => b"null",
        (Binding::JsonRpc, Protocol::V10) | (Binding::Rest | Binding::Bare | Binding::Native | Binding::Acp, _) => {
            b"{}"
        }
    };
    result(form, nothing)
}

/// Writes the configuration of a webhook. Only its owner can request it, so the secrets are included.
fn shown(o: &mut ObjectWriter<'_>, form: &Form, task: &TaskId, hook: &Hook) {
    let Hook { target, health, .. } = hook;
    let config = |o: &mut ObjectWriter<'_>| {
        if !target.schemes.is_empty() || target.credentials.is_some() {
            o.object("authentication", |o| {
                o.optional("credentials", target.credentials.as_ref());
                match form.dialect.writer {
                    Writer::V10 => o.member("scheme", &target.schemes.first()),
                    Writer::V03 | Writer::Proto03 => o.member("schemes", &target.schemes),
                };
            });
        }
        o.member("id", &target.id);
        if form.dialect.writer == Writer::V10 {
            o.member("taskId", task).optional("tenant", (!form.tenant.is_default()).then_some(&form.tenant));
        }
        o.optional("token", target.token.as_ref()).member("url", &target.url);
    };
    match form.dialect.writer {
        Writer::V10 => config(o),
        Writer::Proto03 => {
            let name = format!("tasks/{task}/pushNotificationConfigs/{}", target.id);
            o.member("name", &name).object("pushNotificationConfig", config);
        }
        Writer::V03 => {
            if health.delivered + health.failed > 0 {
                o.object("metadata", |o| _ = o.object("deliveries", |o| deliveries(o, hook)));
            }
            o.object("pushNotificationConfig", config).member("taskId", task);
        }
    }
}

fn deliveries(o: &mut ObjectWriter<'_>, hook: &Hook) {
    let health = &hook.health;
    o.member("delivered", &health.delivered).member("failed", &health.failed);
    o.optional("lastError", health.error.as_ref()).member("pending", &hook.due.len());
    o.member("suspended", &health.suspended);
}

/// The header lines of a delivery.
pub fn headers(target: &Target, task: &TaskId, seq: Seq) -> Vec<(&'static str, String)> {
    let (media, version) = match target.protocol {
        Protocol::V03 => ("application/json", "0.3"),
        Protocol::V10 => ("application/a2a+json", "1.0"),
    };
    let mut headers = vec![
        ("Content-Type", media.to_owned()),
        ("A2A-Version", version.to_owned()),
        ("X-A2A-Event-Id", format!("{task}:{seq}")),
    ];
    if let (Some(scheme), Some(credentials)) = (target.schemes.first(), &target.credentials) {
        headers.push(("Authorization", format!("{scheme} {}", credentials.reveal())));
    }
    if let Some(token) = &target.token {
        headers.push(("X-A2A-Notification-Token", token.reveal().to_owned()));
    }
    headers
}

/// The body of a delivery. None: its artifact no longer exists, and nothing is sent. The current status is sent with everything that
/// belongs to it, such as open questions; an earlier one is sent as it was.
pub fn delivery(target: &Target, state: &State, due: &Due, history: usize, tools: &Tools) -> Option<Vec<u8>> {
    let writer = match target.protocol {
        Protocol::V03 => Writer::V03,
        Protocol::V10 => Writer::V10,
    };
    let view = View::A2a(writer, target.profile, Outputs::TEXT);
    if target.protocol == Protocol::V03 {
        return Some(whole(view, state, SnapshotOptions::newest(Some(history))));
    }
    let frame = match due {
        Due::Status { status, .. } if status.seq == state.status.seq => {
            return current_status(view, state, tools);
        }
        Due::Status { status, outcome } => {
            let shown = view.idle(state.created.profile).show(status.state, *outcome);
            Frame::Status(earlier_status(target.profile, state, status, shown))
        }
        Due::Artifact { id, .. } => artifact(view, state, id)?,
        Due::Answer { turn, number, .. } => artifact(view, state, &snapshot::answer_id(*turn as usize, *number))?,
    };
    Some(writer.frame(&state.created, &frame, Finality::Open))
}

fn earlier_status<'a>(profile: Profile, state: &State, status: &'a Status, shown: TaskState) -> StatusUpdate<'a> {
    let metadata = match profile {
        Profile::Coder => coder::metadata("state-change", state, |_| {}),
        Profile::Devtool | Profile::Plain => b"{}".to_vec(),
    };
    let text = status.text.as_deref().map(|text| Piece::Text(text.into()));
    StatusUpdate { state: shown, at: status.at, message: AgentMessage::of(status.seq, text), metadata, closing: None }
}

/// An artifact as a whole: webhooks are not sent its pieces.
fn artifact<'a>(view: View, state: &'a State, id: &str) -> Option<Frame<'a>> {
    let task = snapshot::task(view, state, SnapshotOptions::newest(Some(0)));
    let found = task.artifacts?.into_iter().find(|artifact| artifact.id == id)?;
    Some(Frame::Artifact(ArtifactUpdate { artifact: found, append: false, last: true }))
}

#[cfg(test)]
mod tests;
