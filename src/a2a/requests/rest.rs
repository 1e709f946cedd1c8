//! A2A over REST, both versions with one table of paths. The paths of 0.3 are under `/v1`; those of 1.0 are at the root and under the
//! name of a tenant. Path, query and body become the params of an operation, as in JSON-RPC.
//!
//! 0.3 has two sets of JSON names here: those of its protobuf definition, which its SDKs use, and those of its JSON schema. A client gets
//! its answer in the names that it uses itself.

use crate::a2a::dialect::Dialect;
use crate::a2a::form::Form;
use crate::a2a::requests::message::is_short_name;
use crate::a2a::requests::object::{Object, body, check_type, media_type};
use crate::a2a::requests::operation::{self, Ask, Operation};
use crate::a2a::requests::route::{Ids, Route, Rows, at, matches, not_found, read};
use crate::a2a::requests::version;
use crate::a2a::switches::Switches;
use crate::base::http::{Headers, Method, Request};
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Protocol;
use serde_json::Value;

/// Every path below its base, the version that has it (None: both), and its methods.
const PATHS: [(&str, Option<Protocol>, Rows<Operation>); 13] = [
    ("/message:send", None, &[(Method::Post, Operation::Send)]),
    ("/message:stream", None, &[(Method::Post, Operation::Stream)]),
    ("/tasks", None, &read(Operation::List)),
    ("/tasks/{task}", None, &read(Operation::Get)),
    ("/tasks/{task}:cancel", None, &[(Method::Post, Operation::Cancel)]),
    ("/tasks/{task}:subscribe", None, SUBSCRIBE),
    ("/tasks/{task}/pushNotificationConfigs", None, CONFIGS),
    ("/tasks/{task}/pushNotificationConfigs/{config}", None, CONFIG),
    // The protobuf definition of 0.3 misspells these two paths.
    ("/task/{task}/pushNotificationConfigs", Some(Protocol::V03), CONFIGS),
    ("/task/{task}/pushNotificationConfigs/{config}", Some(Protocol::V03), CONFIG),
    ("/card", Some(Protocol::V03), CARD),
    (OLD_CARD, Some(Protocol::V03), CARD),
    ("/extendedAgentCard", Some(Protocol::V10), CARD),
];

/// The one path of 0.3 without the prefix `/v1`.
const OLD_CARD: &str = "/agent/authenticatedExtendedCard";

/// The text of the specification says POST, the protobuf definitions say GET.
const SUBSCRIBE: Rows<Operation> = &[(Method::Get, Operation::Subscribe), (Method::Post, Operation::Subscribe)];
const CONFIGS: Rows<Operation> =
    &[(Method::Get, Operation::ListPush), (Method::Head, Operation::ListPush), (Method::Post, Operation::SetPush)];
const CONFIG: Rows<Operation> =
    &[(Method::Get, Operation::GetPush), (Method::Head, Operation::GetPush), (Method::Delete, Operation::DeletePush)];
const CARD: Rows<Operation> = &read(Operation::ExtendedCard);

/// The base of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base<'a> {
    Root,
    V1,
    Tenant(&'a str),
}

pub struct MatchedRoute<'a> {
    pub base: Base<'a>,
    /// The only version that has the path. None: both have it.
    only: Option<Protocol>,
    rows: Rows<Operation>,
    ids: Ids<'a>,
    pattern: &'static str,
}

impl MatchedRoute<'_> {
    /// The name of the route in metrics.
    pub fn route(&self) -> Route {
        let base = match self.base {
            Base::Root => ROOT,
            Base::V1 => V1,
            Base::Tenant(_) => TENANT,
        };
        Route { base, pattern: self.pattern }
    }
}

const ROOT: &str = "";
const V1: &str = "/v1";
const TENANT: &str = "/{tenant}";

/// Every route of this binding.
pub fn routes() -> impl Iterator<Item = Route> {
    [ROOT, V1, TENANT].into_iter().flat_map(|base| PATHS.iter().map(move |(pattern, ..)| Route { base, pattern }))
}

/// The route of a path.
pub fn find(path: &str) -> Option<MatchedRoute<'_>> {
    if path == OLD_CARD {
        return below(Base::V1, path);
    }
    if let Some(rest) = path.strip_prefix("/v1/") {
        return below(Base::V1, &path[path.len() - rest.len() - 1..]);
    }
    if let Some(route) = below(Base::Root, path).filter(|route| route.only != Some(Protocol::V03)) {
        return Some(route);
    }
    let (tenant, _) = path.strip_prefix('/')?.split_once('/')?;
    if is_reserved(tenant) || !is_short_name(tenant) {
        return None;
    }
    below(Base::Tenant(tenant), &path[tenant.len() + 1..]).filter(|route| route.only != Some(Protocol::V03))
}

/// Whether the first segment of a path cannot be a tenant.
fn is_reserved(segment: &str) -> bool {
    let endpoints =
        matches!(segment, "tasks" | "message" | "message:send" | "message:stream" | "extendedAgentCard" | "agent");
    endpoints
        || matches!(segment, "v1" | ".well-known" | "ws" | "health" | "executeCommand" | "listCommands")
        || matches!(segment, "live" | "ready" | "metrics")
}

fn below<'a>(base: Base<'a>, path: &'a str) -> Option<MatchedRoute<'a>> {
    PATHS.iter().find_map(|(pattern, only, rows)| {
        Some(MatchedRoute { base, only: *only, rows, ids: matches(pattern, path)?, pattern })
    })
}

pub fn call(route: &MatchedRoute, request: &Request, switches: &Switches, form: &mut Form) -> Result<Call, Fault> {
    let named = version::named(request);
    let protocol = match (&named, route.base) {
        (Ok(named), Base::V1) => named.unwrap_or(Protocol::V03),
        // Only 1.0 has an error code for an unknown version.
        (Err(_), _) | (_, Base::Root | Base::Tenant(_)) => Protocol::V10,
    };
    let sent = body(request).map(without_envelope);
    *form = Form::under(dialect(protocol, request, &sent), switches);
    form.is_a2a_json = protocol == Protocol::V10 && accepts_a2a_json(&request.headers);
    if let Base::Tenant(tenant) = route.base {
        form.tenant = tenant.into();
    }
    check_version(route, named?, protocol, request, switches)?;
    let operation = at(route.rows, request)?;
    let params = match request.method {
        Method::Get | Method::Head => query_params(&request.query),
        _ => {
            check_type(request)?;
            match sent? {
                Some(Value::Object(params)) => params,
                Some(_) => return Err(Fault::params("The body must be a JSON object.")),
                None => Object::new(),
            }
        }
    };
    let ask = Ask { operation, protocol, params: &params, ids: route.ids, request: Some(request), switches };
    operation::call(&ask, form)
}

/// The params of a body with a JSON-RPC envelope, which some clients post to the paths of REST; any other body itself.
fn without_envelope(sent: Option<Value>) -> Option<Value> {
    let params =
        |sent: &Value| sent.get("jsonrpc").and(sent.get("params")).filter(|params| params.is_object()).cloned();
    sent.as_ref().and_then(params).or(sent)
}

/// The dialect of the answer: for 0.3 the one whose names the client uses itself.
fn dialect(protocol: Protocol, request: &Request, sent: &Result<Option<Value>, Fault>) -> &'static Dialect {
    if protocol == Protocol::V10 {
        return Dialect::REST_10;
    }
    let shown = || {
        let message = sent.as_ref().ok()?.as_ref()?.get("message")?;
        Some(message.get("kind").is_some() || message.get("parts").is_some())
    };
    match request.query("form") {
        Some("ts") => Dialect::REST_03_JSON,
        None if shown() == Some(true) => Dialect::REST_03_JSON,
        Some(_) | None => Dialect::REST_03_PROTO,
    }
}

/// Whether the client names the media type of 1.0. Other clients get `application/json`.
fn accepts_a2a_json(headers: &Headers) -> bool {
    let mut named = ["accept", "content-type"].into_iter().flat_map(|name| headers.list(name));
    named.any(|media| media_type(media) == "application/a2a+json")
}

/// Refuses a request whose path does not belong to its version.
fn check_version(
    route: &MatchedRoute,
    named: Option<Protocol>,
    protocol: Protocol,
    request: &Request,
    switches: &Switches,
) -> Result<(), Fault> {
    match (route.base, named) {
        (Base::Root | Base::Tenant(_), Some(Protocol::V03)) => {
            return Err(Fault::new(
                FaultKind::VersionNotSupported,
                format!("{} is a path of A2A 1.0; those of 0.3 begin with /v1.", request.path),
            ));
        }
        (Base::Root | Base::Tenant(_), None) if switches.strict_version => {
            return Err(version::version_required(&request.path));
        }
        (Base::Root | Base::Tenant(_) | Base::V1, _) => {}
    }
    match route.only {
        Some(only) if only != protocol => Err(not_found(&request.path)),
        Some(_) | None => Ok(()),
    }
}

/// The query as params: numbers and booleans in their types.
pub fn query_params(query: &[(String, String)]) -> Object {
    let mut params = Object::new();
    for (name, value) in query {
        if value.is_empty() || params.contains_key(name) {
            continue;
        }
        let number = || value.parse::<i64>().ok().map(Value::from);
        let typed = match name.as_str() {
            "pageSize" | "page_size" | "historyLength" | "history_length" => number(),
            "includeArtifacts" | "include_artifacts" => value.parse().ok().map(Value::Bool),
            _ => None,
        };
        params.insert(name.clone(), typed.unwrap_or_else(|| value.as_str().into()));
    }
    params
}

#[cfg(test)]
mod tests;
