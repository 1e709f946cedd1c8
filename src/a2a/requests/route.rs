//! The table of paths; those of the REST binding are in `rest`. The paths `/tasks` and `/tasks/{task}` belong both to the reference server
//! and to the REST binding of 1.0: a request there is one of 1.0 only if it names that version or has parameters that only 1.0 has.

use crate::a2a::commands;
use crate::a2a::dialect::Dialect;
use crate::a2a::form::{Decoded, Form};
use crate::a2a::requests::rest::{self, Base};
use crate::a2a::requests::{gemini_endpoints, rpc, socket, tickets, version};
use crate::a2a::switches::Switches;
use crate::base::http::{Method, Request};
use crate::base::id::TaskId;
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Protocol;

/// The methods of a path, and what each of them does.
pub type Rows<T> = &'static [(Method, T)];

/// A request over HTTP, with the ids in its path.
#[derive(Clone, Copy)]
pub struct Incoming<'a> {
    pub request: &'a Request,
    pub ids: Ids<'a>,
    pub switches: &'a Switches,
}

impl Incoming<'_> {
    /// The task in a path whose pattern names one.
    pub fn task(&self) -> TaskId {
        self.ids.task.expect("the pattern names a task").into()
    }
}

/// Decodes a request. The form is that of the path; the endpoint changes it to what the request says about its answer.
type Endpoint = fn(Incoming<'_>, &mut Form) -> Result<Call, Fault>;

const ROUTES: [(&str, Rows<Endpoint>); 17] = [
    ("/", &[(Method::Post, rpc::call)]),
    ("/.well-known/agent-card.json", &read::<Endpoint>(|_, _| Ok(Call::Card))),
    ("/.well-known/agent.json", &read::<Endpoint>(|_, _| Ok(Call::Card))),
    ("/health", &read::<Endpoint>(|_, _| Ok(Call::Health))),
    ("/live", &read::<Endpoint>(|_, _| Ok(Call::Live))),
    ("/ready", &read::<Endpoint>(|_, _| Ok(Call::Ready))),
    ("/metrics", &read::<Endpoint>(|_, _| Ok(Call::Metrics))),
    ("/ws", &[(Method::Get, socket::join)]),
    ("/ticket", &[(Method::Post, tickets::ask)]),
    ("/ws/acp", &[(Method::Get, socket::join)]),
    ("/acp", &[(Method::Get, socket::join_acp), (Method::Post, socket::join_acp), (Method::Delete, socket::join_acp)]),
    (
        "/tasks",
        &[
            (Method::Get, gemini_endpoints::tasks),
            (Method::Head, gemini_endpoints::tasks),
            (Method::Post, gemini_endpoints::create),
        ],
    ),
    ("/tasks/metadata", &read::<Endpoint>(|_, _| Ok(Call::AllMetadata))),
    ("/tasks/{task}", &read::<Endpoint>(gemini_endpoints::get)),
    ("/tasks/{task}/metadata", &read::<Endpoint>(|incoming, _| Ok(Call::Metadata { task: incoming.task() }))),
    ("/listCommands", &read::<Endpoint>(|_, _| Ok(Call::Commands))),
    ("/executeCommand", &[(Method::Post, commands::execute_command)]),
];

/// The rows of a resource that is only read: GET and HEAD. Streams have no HEAD.
pub const fn read<T: Copy>(what: T) -> [(Method, T); 2] {
    [(Method::Get, what), (Method::Head, what)]
}

/// The ids in a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids<'a> {
    pub task: Option<&'a str>,
    pub config: Option<&'a str>,
}

/// The ids in a path that has the shape of the pattern. A colon in the segment of a task's id begins a verb, known or not.
pub fn matches<'a>(pattern: &str, path: &'a str) -> Option<Ids<'a>> {
    let mut ids = Ids::default();
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(ids),
            (Some(wanted), Some(given)) if wanted == given => {}
            (Some(wanted), Some(given)) => {
                let (name, verb) = wanted.strip_prefix('{')?.split_once('}')?;
                let id = given.strip_suffix(verb).filter(|id| !id.is_empty())?;
                match name {
                    "task" if id.contains(':') => return None,
                    "task" => ids.task = Some(id),
                    _ => ids.config = Some(id),
                }
            }
            (Some(_), None) | (None, Some(_)) => return None,
        }
    }
}

/// What the method of a request does at its path.
pub fn at<T: Copy>(rows: Rows<T>, request: &Request) -> Result<T, Fault> {
    if let Some((_, what)) = rows.iter().find(|(method, _)| *method == request.method) {
        return Ok(*what);
    }
    let names: Vec<&str> = rows.iter().map(|(method, _)| method.word()).collect();
    let allow = names.join(", ");
    let message = format!("{} takes {allow} only.", request.path);
    Err(Fault::new(FaultKind::MethodNotAllowed { allow }, message))
}

pub fn not_found(path: &str) -> Fault {
    Fault::new(
        FaultKind::NotFound,
        format!("There is nothing at {path}; the card at /.well-known/agent-card.json says what is where."),
    )
}

fn find(path: &str) -> Option<(Rows<Endpoint>, &'static Dialect, Ids<'_>)> {
    const PROMPT: Rows<Endpoint> = &[(Method::Post, gemini_endpoints::say)];
    let dialect = if path == "/" { Dialect::RPC_03 } else { Dialect::GEMINI };
    let routes = ROUTES.iter().map(|(pattern, rows)| (*pattern, *rows, dialect));
    let prompts = Dialect::ALL.into_iter().filter_map(|dialect| Some((dialect.prompt_path?, PROMPT, dialect)));
    routes.chain(prompts).find_map(|(pattern, rows, dialect)| Some((rows, dialect, matches(pattern, path)?)))
}

/// A path with placeholders for its ids, by which requests are counted in metrics. There are only as many as the tables have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    pub base: &'static str,
    pub pattern: &'static str,
}

impl Route {
    /// All unknown paths.
    pub const OTHER: Route = Route { base: "", pattern: "other" };

    /// Every route there is.
    pub fn all() -> impl Iterator<Item = Route> {
        let prompts = Dialect::ALL.into_iter().filter_map(|dialect| dialect.prompt_path);
        let rooted = ROUTES.iter().map(|(pattern, _)| *pattern).chain(prompts).chain([Route::OTHER.pattern]);
        rooted.map(|pattern| Route { base: "", pattern }).chain(rest::routes())
    }
}

/// The route of a path.
pub fn route(path: &str) -> Route {
    let prompts = Dialect::ALL.into_iter().filter_map(|dialect| dialect.prompt_path);
    let mut rooted = ROUTES.iter().map(|(pattern, _)| *pattern).chain(prompts);
    match rooted.find(|pattern| matches(pattern, path).is_some()) {
        Some(pattern) => Route { base: "", pattern },
        None => rest::find(path).map_or(Route::OTHER, |found| found.route()),
    }
}

/// The dialect of a request of which only the path is known.
pub fn dialect_at(path: &str) -> &'static Dialect {
    if let Some((_, dialect, _)) = find(path) {
        return dialect;
    }
    match rest::find(path).map(|found| found.base) {
        Some(Base::V1) => Dialect::REST_03_PROTO,
        Some(Base::Root | Base::Tenant(_)) => Dialect::REST_10,
        None if path == "/v1" || path.starts_with("/v1/") => Dialect::REST_03_PROTO,
        None => Dialect::GEMINI,
    }
}

/// Decodes a request into a call and the form of its answer.
pub fn decode(request: &Request, switches: &Switches) -> Decoded {
    let path = request.path.as_str();
    let mut form = Form::under(dialect_at(path), switches);
    let call = if let Some((rows, _, ids)) = find(path) {
        at(rows, request).and_then(|endpoint| endpoint(Incoming { request, ids, switches }, &mut form))
    } else if let Some(found) = rest::find(path) {
        rest::call(&found, request, switches, &mut form)
    } else {
        if let Ok(Some(Protocol::V10)) | Err(_) = version::named(request) {
            form = Form::under(Dialect::REST_10, switches);
        }
        Err(not_found(path))
    };
    form.decoded(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_one_of_the_known_routes() {
        let all: Vec<Route> = Route::all().collect();
        for known in &all {
            let path = format!("{}{}", known.base, known.pattern);
            let path = path.replace("{task}", "t-1").replace("{config}", "c-1").replace("{tenant}", "acme");
            assert!(all.contains(&route(&path)), "{path}");
        }
        let named = |path: &str| {
            let Route { base, pattern } = route(path);
            format!("{base}{pattern}")
        };
        assert_eq!(named("/tasks/t-1"), "/tasks/{task}");
        assert_eq!(named("/v1/tasks/t-1:cancel"), "/v1/tasks/{task}:cancel");
        assert_eq!(named("/acme/message:send"), "/{tenant}/message:send");
        assert_eq!(named("/tasks/t-1/execute"), "/tasks/{task}/execute");
        for path in ["", "/x", "/x/y", "/metrics/x", "/v1/x"] {
            assert_eq!(route(path), Route::OTHER, "{path}");
        }
    }
}
