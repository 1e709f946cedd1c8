//! The operations of A2A, without a binding: what each takes of its params, in either version. JSON-RPC finds them by method,
//! REST by path; both bring the params as one object here, so that an operation means the same wherever it is asked for.

use crate::a2a::dialect::{Binding, Unaddressed};
use crate::a2a::form::{Form, profile};
use crate::a2a::requests::message::{self, Gaps, Received};
use crate::a2a::requests::object::{Object, count, flag, media_type, member, object, text, texts, wrong};
use crate::a2a::requests::route::Ids;
use crate::a2a::requests::{answer, filter, settings, version};
use crate::a2a::switches::Switches;
use crate::a2a::{commands, push};
use crate::base::http::{Headers, Request};
use crate::base::id::{Seq, TaskId};
use crate::task::call::{Call, Create, Mode, Say, TaskTraits};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::{Lifecycle, Profile, Protocol};
use crate::task::machine::job::Said;
use crate::task::push::not_supported;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    SetPush,
    GetPush,
    ListPush,
    DeletePush,
    ExtendedCard,
    Commands,
    Execute,
}

impl Operation {
    /// Whether its answer is a stream.
    pub fn streams(self) -> bool {
        matches!(self, Operation::Stream | Operation::Subscribe)
    }

    /// Whether it needs no params.
    pub fn stands_alone(self) -> bool {
        matches!(self, Operation::List | Operation::ExtendedCard | Operation::Commands)
    }
}

/// An operation as it was asked for.
pub struct Ask<'a> {
    pub operation: Operation,
    /// The version whose names and rules the params follow.
    pub protocol: Protocol,
    pub params: &'a Object,
    /// Ids that the path names; they win over the params.
    pub ids: Ids<'a>,
    /// None: the call came over a socket, and its head was read when the socket was opened.
    pub request: Option<&'a Request>,
    pub switches: &'a Switches,
}

/// Reads the head of a request: the profile it asks for, the extensions it lists.
fn negotiate(ask: &Ask, request: &Request, form: &mut Form) -> Result<(), Fault> {
    form.profile = settings::profile_of(request)?;
    form.outputs.pieces = settings::pieces(request)?.unwrap_or(form.outputs.pieces);
    form.echo = version::echo(&request.headers, form, ask.switches);
    if ask.operation == Operation::ExtendedCard {
        return Ok(());
    }
    version::require(&request.headers, ask.params, ask.switches)
}

/// The call, and in the form what the params say about the answer.
pub fn call(ask: &Ask, form: &mut Form) -> Result<Call, Fault> {
    if let Some(request) = ask.request {
        negotiate(ask, request, form)?;
    }
    if ask.operation.streams() && !ask.switches.streaming {
        return Err(Fault::new(
            FaultKind::Unsupported,
            "This server does not stream; send the message without streaming and ask for the task.",
        ));
    }
    if form.tenant.is_default()
        && ask.protocol == Protocol::V10
        && let Some(tenant) = text(ask.params, &["tenant"], "")?
    {
        if !message::is_short_name(tenant) {
            return Err(wrong("", "tenant", "is too long or not printable."));
        }
        form.tenant = tenant.into();
    }
    match ask.operation {
        Operation::Send | Operation::Stream => say(ask, form),
        Operation::Get => Ok(Call::Get { task: task(ask, &["id"])?, history: history(ask.params, "")? }),
        Operation::List => Ok(Call::List(match ask.protocol {
            Protocol::V03 => filter::whole(ask.params)?,
            Protocol::V10 => filter::paged(ask.params)?,
        })),
        Operation::Cancel => Ok(Call::Cancel { task: task(ask, &["id"])? }),
        Operation::Subscribe => Ok(Call::Subscribe { task: task(ask, &["id"])?, after: continued(ask)? }),
        Operation::SetPush | Operation::GetPush | Operation::ListPush | Operation::DeletePush => {
            if ask.switches.push {
                push::call(ask)
            } else {
                Err(not_supported())
            }
        }
        Operation::ExtendedCard if ask.switches.extended_card => Ok(Call::ExtendedCard),
        Operation::ExtendedCard => Err(no_card(ask.protocol)),
        Operation::Commands => Ok(Call::Commands),
        Operation::Execute => {
            let streams = ask.request.is_some_and(|request| accepts_stream(&request.headers)) && ask.switches.streaming;
            commands::execute(ask.params, if streams { Mode::Stream } else { Mode::Now }, form)
        }
    }
}

/// Whether the client can take a stream.
pub fn accepts_stream(headers: &Headers) -> bool {
    headers.list("accept").any(|media| media_type(media) == "text/event-stream")
}

/// 1.0 has the error of a missing capability for it, 0.3 one of its own.
fn no_card(protocol: Protocol) -> Fault {
    let kind = match protocol {
        Protocol::V03 => FaultKind::ExtendedCardNotConfigured,
        Protocol::V10 => FaultKind::Unsupported,
    };
    let message = "There is no extended card; the public one at /.well-known/agent-card.json says everything.";
    Fault::new(kind, message)
}

pub(in crate::a2a) fn task(ask: &Ask, names: &[&'static str]) -> Result<TaskId, Fault> {
    let id = match ask.ids.task {
        Some(id) => Some(id),
        None => text(ask.params, names, "")?,
    };
    id.map(TaskId::from).ok_or_else(|| wrong("", names[0], "is required."))
}

fn history(object: &Object, at: &str) -> Result<Option<usize>, Fault> {
    count(object, &["historyLength", "history_length"], at)
}

/// Where a stream goes on. Only a number of ours can be a position: with anything else the client would miss events without noticing.
/// A call that came over a socket has the position in its params.
fn continued(ask: &Ask) -> Result<Option<Seq>, Fault> {
    let Some((name, given)) = ask.request.and_then(last_seen) else {
        let after = count(ask.params, &["after"], "")?;
        return Ok(after.map(|seq| Seq(seq as u64)));
    };
    let what = "must be the number of an event; leave it out to start with a snapshot.";
    given.parse().map(|seq| Some(Seq(seq))).map_err(|_| Fault::field(name, what))
}

/// The event that a client says it has seen last, and the name under which it says so.
pub fn last_seen(request: &Request) -> Option<(&'static str, &str)> {
    let header = request.headers.get("last-event-id").filter(|value| !value.is_empty());
    let in_query = || Some(("after", request.query("after")?));
    header.map(|value| ("Last-Event-ID", value)).or_else(in_query)
}

fn say(ask: &Ask, form: &mut Form) -> Result<Call, Fault> {
    let sent = object(ask.params, &["message", "request", "msg"], "")?;
    let sent = sent.ok_or_else(|| wrong("", "message", "is required."))?;
    let gaps = match form.dialect.unaddressed {
        Unaddressed::Session => Gaps::Filled,
        Unaddressed::NewTask | Unaddressed::Asking => Gaps::Refused,
    };
    let received = message::message(sent, gaps)?;
    let metadata = object(ask.params, &["metadata"], "")?;
    let configuration = object(ask.params, &["configuration"], "")?;
    let none = Object::new();
    let wishes = configuration.unwrap_or(&none);
    let push = match push_member(wishes, ask.protocol) {
        None => None,
        Some(_) if !ask.switches.push => return Err(not_supported()),
        Some(name) => Some(push::brought(ask, wishes, name)?),
    };
    form.outputs.data = accepts_json(wishes)?;
    let mode = match (ask.operation, waits(ask, form, configuration)?) {
        (Operation::Stream, _) => Mode::Stream,
        (_, true) => Mode::Wait,
        (_, false) => Mode::Now,
    };
    let history = history(wishes, "configuration")?;
    let mut say = said(received, metadata, form, ask.switches)?;
    // REST clients of 0.3 send invented contexts; that of the task is used.
    if ask.protocol == Protocol::V03 && form.dialect.binding == Binding::Rest && say.task.is_some() {
        say.create.context = None;
    }
    if let Some(request) = ask.request {
        form.echo = version::echo(&request.headers, form, ask.switches);
        say.create.settings.depth = settings::depth(&request.headers)?;
    }
    Ok(Call::Say(Say { push, mode, history, ..say }))
}

/// A received message as a prompt or an answer; what it carries may select the profile of the form.
pub fn said(received: Received, metadata: Option<&Object>, form: &mut Form, switches: &Switches) -> Result<Say, Fault> {
    let Received { mut message, answers, task, context } = received;
    form.profile = form.profile.or_else(|| settings::profile_spoken(&message, metadata));
    // Clients of 1.0 that use the extension say so.
    let is_meant = |profile: &Profile| (*profile, form.dialect.protocol) != (Profile::Devtool, Protocol::V10);
    form.answer_profile = answer::profile(&message).filter(is_meant);
    let settings = settings::of_message(&mut message, metadata)?;
    let create = Create { context, settings, traits: traits(form, switches) };
    Ok(Say::new(Said::new(Arc::new(message), answers), task, create, Mode::Stream))
}

/// How a task is marked that a request of this form makes: a plain task is over with its answer, any other one goes on.
pub fn traits(form: &Form, switches: &Switches) -> TaskTraits {
    let profile = profile(form, None);
    TaskTraits {
        lifecycle: match profile {
            Profile::Plain => switches.plain_lifecycle,
            Profile::Coder | Profile::Devtool => Lifecycle::Conversational,
        },
        protocol: form.dialect.protocol,
        profile,
    }
}

/// Whether the answer waits for the end of the turn. Without the member it does, except in 0.3 over REST, where protobuf
/// JSON leaves out members that are false.
fn waits(ask: &Ask, form: &Form, configuration: Option<&Object>) -> Result<bool, Fault> {
    let Some(configuration) = configuration else {
        return Ok(true);
    };
    let at = "configuration";
    match ask.protocol {
        Protocol::V10 => Ok(flag(configuration, &["returnImmediately", "return_immediately"], at)? != Some(true)),
        Protocol::V03 => Ok(flag(configuration, &["blocking"], at)?.unwrap_or(form.dialect.binding != Binding::Rest)),
    }
}

/// Whether the client asks for JSON. Clients that name no types may know only words.
fn accepts_json(configuration: &Object) -> Result<bool, Fault> {
    let names = &["acceptedOutputModes", "accepted_output_modes"];
    let modes = texts(configuration, names, "configuration")?;
    Ok(modes.iter().any(|mode| matches!(media_type(mode).as_str(), "application/json" | "json")))
}

fn push_member(wishes: &Object, protocol: Protocol) -> Option<&str> {
    let names: &[&'static str] = match protocol {
        Protocol::V03 => {
            &["pushNotificationConfig", "push_notification_config", "pushNotification", "push_notification"]
        }
        Protocol::V10 => &[
            "taskPushNotificationConfig",
            "task_push_notification_config",
            "pushNotificationConfig",
            "push_notification_config",
        ],
    };
    member(wishes, names).map(|(name, _)| name)
}
