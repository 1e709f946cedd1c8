//! JSON-RPC of A2A, both versions: decodes `POST /` and messages on a socket into a [`Call`]. The checks run in a fixed order. When one
//! fails, the form of the answer has what is known of the request by then: its id, its version, whether it asked for a stream.
//!
//! The method names of the versions are disjoint, so the version of a request that names none follows from its method.

use crate::a2a::dialect::Dialect;
use crate::a2a::form::Form;
use crate::a2a::requests::object::{Object, body, check_type};
use crate::a2a::requests::operation::{self, Ask, Operation, accepts_stream};
use crate::a2a::requests::route::{Ids, Incoming};
use crate::a2a::requests::version;
use crate::base::Shared;
use crate::base::json;
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Protocol;
use serde_json::Value;

/// Every method: its name in 0.3, its name in 1.0, its operation. An empty name: the version does not have the method.
const METHODS: [(&str, &str, Operation); 14] = [
    ("message/send", "SendMessage", Operation::Send),
    ("message/stream", "SendStreamingMessage", Operation::Stream),
    ("tasks/get", "GetTask", Operation::Get),
    ("", "ListTasks", Operation::List),
    ("tasks/cancel", "CancelTask", Operation::Cancel),
    ("tasks/resubscribe", "SubscribeToTask", Operation::Subscribe),
    ("tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig", Operation::SetPush),
    ("tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig", Operation::GetPush),
    ("tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs", Operation::ListPush),
    ("tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig", Operation::DeletePush),
    ("agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard", Operation::ExtendedCard),
    ("agent/authenticatedExtendedCard", "", Operation::ExtendedCard),
    ("commands/get", "commands/get", Operation::Commands),
    ("command/execute", "command/execute", Operation::Execute),
];

/// The names of every method in 0.3 and in 1.0; empty where the version does not have it.
pub fn method_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    METHODS.iter().map(|(old, new, _)| (*old, *new))
}

/// The operation of a method, and the version that has the method. If both have it, the version is the one that the request names.
pub fn method(name: &str, named: Option<Protocol>) -> Option<(Operation, Protocol)> {
    METHODS.iter().find_map(|(old, new, operation)| {
        let protocol = match (name == *old, name == *new) {
            _ if name.is_empty() => return None,
            (true, true) => named.unwrap_or(Protocol::V03),
            (true, false) => Protocol::V03,
            (false, true) => Protocol::V10,
            (false, false) => return None,
        };
        Some((*operation, protocol))
    })
}

pub fn dialect(protocol: Protocol) -> &'static Dialect {
    match protocol {
        Protocol::V03 => Dialect::RPC_03,
        Protocol::V10 => Dialect::RPC_10,
    }
}

/// A request over HTTP.
pub fn call(incoming: Incoming<'_>, form: &mut Form) -> Result<Call, Fault> {
    let Incoming { request, switches, .. } = incoming;
    let named = version::named(request);
    let protocol = match &named {
        Ok(named) => named.unwrap_or(Protocol::V03),
        // Only 1.0 has an error code for an unknown version.
        Err(_) => Protocol::V10,
    };
    *form = Form::under(dialect(protocol), switches);
    let body = body(request);
    if let Ok(Some(Value::Object(envelope))) = &body {
        form.id = id(envelope).unwrap_or_else(|| form.id.clone());
    }
    check_type(request)?;
    let mut envelope = whole(body?)?;
    let name = method_name(&envelope)?;
    let version = named.as_ref().ok().copied().flatten();
    let asked = match method(&name, version) {
        Some((operation, Protocol::V03)) if version != Some(Protocol::V03) && has_message_of_10(&envelope) => {
            Some((operation, Protocol::V10))
        }
        asked => asked,
    };
    if let (Ok(None), Some((_, protocol))) = (&named, asked) {
        *form = Form { id: form.id.clone(), ..Form::under(dialect(protocol), switches) };
    }
    form.stream_errors = form.dialect == Dialect::RPC_03
        && asked.is_some_and(|(operation, _)| operation.streams())
        && accepts_stream(&request.headers);
    let named = named?;
    let (operation, protocol) =
        asked.filter(|(_, protocol)| named.is_none_or(|named| named == *protocol)).ok_or_else(|| unknown(&name))?;
    if named.is_none() && protocol == Protocol::V10 && switches.strict_version {
        return Err(version::version_required(&name));
    }
    let params = params(&mut envelope, operation)?;
    let ids = Ids::default();
    operation::call(&Ask { operation, protocol, params: &params, ids, request: Some(request), switches }, form)
}

/// Whether the message of a request is written as in 1.0. Some clients of 1.0 use the method names of 0.3.
fn has_message_of_10(envelope: &Object) -> bool {
    let message = envelope.get("params").and_then(|params| params.get("message"));
    let parts = message.and_then(|message| message.get("parts")?.as_array());
    let is_typed = |part: &Value| part.get("kind").or(part.get("type")).is_some();
    message.is_some_and(|message| message["role"] == "ROLE_USER")
        && parts.is_some_and(|parts| !parts.iter().any(is_typed))
}

pub fn invalid(message: &str) -> Fault {
    Fault::new(FaultKind::InvalidRequest, message)
}

pub fn unknown(name: &str) -> Fault {
    Fault::new(
        FaultKind::MethodNotFound,
        format!(
            "Method not found: {name}. A2A 0.3 has message/send, message/stream, tasks/get, tasks/cancel, \
             tasks/resubscribe; 1.0 has SendMessage, SendStreamingMessage, GetTask, ListTasks, CancelTask, \
             SubscribeToTask; a version that is named must be the method's."
        ),
    )
}

/// The envelope of a request.
pub fn whole(body: Option<Value>) -> Result<Object, Fault> {
    match body {
        Some(Value::Object(envelope)) => Ok(envelope),
        Some(Value::Array(_)) => Err(invalid("Batch requests are not supported; send one request at a time.")),
        Some(_) => Err(invalid("A JSON-RPC request is an object.")),
        None => Err(invalid("The body is empty; send a JSON-RPC request.")),
    }
}

/// The id of a request as the answer repeats it. None: JSON-RPC does not allow such an id.
pub fn id(envelope: &Object) -> Option<Shared> {
    match envelope.get("id") {
        None => Some(Shared::from(*b"null")),
        Some(id @ (Value::Null | Value::String(_))) => Some(json::bytes(id).into()),
        Some(id @ Value::Number(number)) if number.is_i64() || number.is_u64() => Some(json::bytes(id).into()),
        Some(_) => None,
    }
}

pub fn method_name(envelope: &Object) -> Result<String, Fault> {
    if envelope.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("The request needs \"jsonrpc\": \"2.0\"."));
    }
    let Some(method) = envelope.get("method").and_then(Value::as_str) else {
        return Err(invalid("The request needs a method, as a string."));
    };
    if id(envelope).is_none() {
        return Err(invalid("The id must be a string, a whole number or null."));
    }
    Ok(method.to_owned())
}

pub fn params(envelope: &mut Object, operation: Operation) -> Result<Object, Fault> {
    match envelope.remove("params") {
        Some(Value::Object(params)) if params.contains_key("") => {
            Err(Fault::params("params has a member without a name."))
        }
        Some(Value::Object(params)) => Ok(params),
        None | Some(Value::Null) if operation.needs_no_params() => Ok(Object::new()),
        Some(_) => Err(Fault::field("params", "must be an object.")),
        None => Err(Fault::field("params", "is required.")),
    }
}

#[cfg(test)]
mod tests;
