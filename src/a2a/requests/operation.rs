//! The operations of A2A, independent of the binding: reads the parameters of each, in either version. JSON-RPC selects an operation by
//! method, REST by path; both pass the parameters as one object, so that an operation means the same over every binding.

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
    pub fn needs_no_params(self) -> bool {
        matches!(self, Operation::List | Operation::ExtendedCard | Operation::Commands)
    }
}

/// A request for an operation.
pub struct Ask<'a> {
    pub operation: Operation,
    /// The version whose names and rules the params follow.
    pub protocol: Protocol,
    pub params: &'a Object,
    /// The ids in the path; they take precedence over the params.
    pub ids: Ids<'a>,
    /// None: the request is a message on a socket, whose headers were read when the socket was opened.
    pub request: Option<&'a Request>,
    pub switches: &'a Switches,
}

/// Reads the profile and the extensions that the headers and the query of a request name.
fn negotiate(ask: &Ask, request: &Request, form: &mut Form) -> Result<(), Fault> {
    form.profile = settings::profile_of(request)?;
    form.outputs.pieces = settings::pieces(request)?.unwrap_or(form.outputs.pieces);
    form.echo = version::echo(&request.headers, form, ask.switches);
    if ask.operation == Operation::ExtendedCard {
        return Ok(());
    }
    version::require(&request.headers, ask.params, ask.switches)
}

/// Decodes the call, and puts what the params say about the answer into the form.
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
        Operation::Subscribe => Ok(Call::Subscribe { task: task(ask, &["id"])?, after: resume_position(ask)? }),
        Operation::SetPush | Operation::GetPush | Operation::ListPush | Operation::DeletePush => {
            if ask.switches.push {
                push::call(ask)
            } else {
                Err(not_supported())
            }
        }
        Operation::ExtendedCard if ask.switches.extended_card => Ok(Call::ExtendedCard),
        Operation::ExtendedCard => Err(no_extended_card(ask.protocol)),
        Operation::Commands => Ok(Call::Commands),
        Operation::Execute => {
            let streams = ask.request.is_some_and(|request| accepts_stream(&request.headers)) && ask.switches.streaming;
            commands::execute(ask.params, if streams { Mode::Stream } else { Mode::Now }, form)
        }
    }
}

/// Whether the client accepts a stream as the answer.
pub fn accepts_stream(headers: &Headers) -> bool {
    headers.list("accept").any(|media| media_type(media) == "text/event-stream")
}

/// The fault of a request for an extended card when there is none. Only 0.3 has an error code for it.
fn no_extended_card(protocol: Protocol) -> Fault {
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

/// The position at which a stream continues: the sequence number of an event. Anything else is refused, because the client would miss
/// events without noticing. A message on a socket has the position in its params.
fn resume_position(ask: &Ask) -> Result<Option<Seq>, Fault> {
    let Some((name, given)) = ask.request.and_then(last_seen) else {
        let after = count(ask.params, &["after"], "")?;
        return Ok(after.map(|seq| Seq(seq as u64)));
    };
    let what = "must be the number of an event; leave it out to start with a snapshot.";
    given.parse().map(|seq| Some(Seq(seq))).map_err(|_| Fault::field(name, what))
}

/// The event that the client has seen last, and the header or query parameter that names it.
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
        Some(name) => Some(push::inline_config(ask, wishes, name)?),
    };
    form.outputs.data = accepts_json(wishes)?;
    let mode = match (ask.operation, waits(ask, form, configuration)?) {
        (Operation::Stream, _) => Mode::Stream,
        (_, true) => Mode::Wait,
        (_, false) => Mode::Now,
    };
    let history = history(wishes, "configuration")?;
    let mut say = to_say(received, metadata, form, ask.switches)?;
    // REST clients of 0.3 send invented contexts; the context of the task is used instead.
    if ask.protocol == Protocol::V03 && form.dialect.binding == Binding::Rest && say.task.is_some() {
        say.create.context = None;
    }
    if let Some(request) = ask.request {
        form.echo = version::echo(&request.headers, form, ask.switches);
        say.create.settings.depth = settings::depth(&request.headers)?;
    }
    Ok(Call::Say(Say { push, mode, history, ..say }))
}

/// Makes a prompt or an answer of a received message. The content of the message may select the profile of the form.
pub fn to_say(
    received: Received,
    metadata: Option<&Object>,
    form: &mut Form,
    switches: &Switches,
) -> Result<Say, Fault> {
    let Received { mut message, answers, task, context } = received;
    form.profile = form.profile.or_else(|| settings::profile_in_message(&message, metadata));
    // Clients of 1.0 that use the extension name it in a header.
    let is_selected = |profile: &Profile| (*profile, form.dialect.protocol) != (Profile::Devtool, Protocol::V10);
    form.answer_profile = answer::profile(&message).filter(is_selected);
    let settings = settings::of_message(&mut message, metadata)?;
    let create = Create { context, settings, traits: traits(form, switches) };
    Ok(Say::new(Said::new(Arc::new(message), answers), task, create, Mode::Stream))
}

/// The traits of a task that a request with this form creates. By default a plain task ends with its turn, and any other task continues.
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

/// Whether the client accepts JSON. A client that names no types may understand only text.
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
