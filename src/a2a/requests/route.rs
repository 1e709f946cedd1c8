//! Which path leads where: the one table of them, with REST's own beside it in `rest`. Two paths mean two things, `/tasks` and
//! `/tasks/{task}`: they were the task server's before 1.0 took them for its REST binding, so they are 1.0's only for those who
//! name it or ask for what only it has.

use crate::a2a::commands;
use crate::a2a::form::{Envelope, Form};
use crate::a2a::requests::gemini_endpoints;
use crate::a2a::requests::rest;
use crate::a2a::requests::rest::Base;
use crate::a2a::requests::rpc;
use crate::a2a::requests::socket;
use crate::a2a::requests::version;
use crate::a2a::switches::Switches;
use crate::base::http::{Method, Request};
use crate::task::call::Call;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::Protocol;

/// What a path takes: methods and what each does there.
pub type Rows<T> = &'static [(Method, T)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    Rpc,
    Card,
    Health,
    Socket,
    Create,
    Tasks,
    Task,
    AllMetadata,
    Metadata,
    /// The three streams of the Gemini documents.
    Kebab,
    Snake,
    Session,
    Commands,
    Execute,
}

const ROUTES: [(&str, Rows<Route>); 14] = [
    ("/", &[(Method::Post, Route::Rpc)]),
    ("/.well-known/agent-card.json", &read(Route::Card)),
    ("/.well-known/agent.json", &read(Route::Card)),
    ("/health", &read(Route::Health)),
    ("/ws", &[(Method::Get, Route::Socket)]),
    ("/message/stream", &[(Method::Post, Route::Kebab)]),
    ("/tasks", &[(Method::Get, Route::Tasks), (Method::Head, Route::Tasks), (Method::Post, Route::Create)]),
    ("/tasks/metadata", &read(Route::AllMetadata)),
    ("/tasks/{task}", &read(Route::Task)),
    ("/tasks/{task}/metadata", &read(Route::Metadata)),
    ("/tasks/{task}/execute", &[(Method::Post, Route::Snake)]),
    ("/tasks/{task}/messages/stream", &[(Method::Post, Route::Session)]),
    ("/listCommands", &read(Route::Commands)),
    ("/executeCommand", &[(Method::Post, Route::Execute)]),
];

/// The rows of what is only read. Its head may be asked for alone; a stream is nothing but its body, and has none to ask for.
pub const fn read<T: Copy>(what: T) -> [(Method, T); 2] {
    [(Method::Get, what), (Method::Head, what)]
}

/// The ids a path names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids<'a> {
    pub task: Option<&'a str>,
    pub config: Option<&'a str>,
}

/// The ids in a path, if it has the shape of the pattern. A colon in the place of a task's id is a verb, known or not.
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

/// What a method does at a path.
pub fn at<T: Copy>(rows: Rows<T>, method: Method) -> Option<T> {
    let mut rows = rows.iter();
    rows.find(|(known, _)| *known == method).map(|(_, what)| *what)
}

pub fn not_found(path: &str) -> Fault {
    Fault::new(
        FaultKind::NotFound,
        format!("There is nothing at {path}; the card at /.well-known/agent-card.json says what is where."),
    )
}

pub fn not_allowed(request: &Request, methods: impl Iterator<Item = Method>) -> Fault {
    let names: Vec<&str> = methods.map(Method::name).collect();
    let allow = names.join(", ");
    let message = format!("{} takes {allow} only.", request.path);
    Fault::new(FaultKind::MethodNotAllowed { allow }, message)
}

fn find(path: &str) -> Option<(Rows<Route>, Ids<'_>)> {
    let mut routes = ROUTES.iter();
    routes.find_map(|(pattern, rows)| Some((*rows, matches(pattern, path)?)))
}

/// The envelope for a request at this path of which nothing else is known.
pub fn envelope_at(path: &str) -> Envelope {
    if path == "/" {
        return Envelope::Rpc03;
    }
    if find(path).is_some() {
        return Envelope::Gemini;
    }
    match rest::place(path).map(|place| place.base) {
        Some(Base::V1) => Envelope::Rest03Proto,
        Some(Base::Root | Base::Tenant(_)) => Envelope::Rest10,
        None if path == "/v1" || path.starts_with("/v1/") => Envelope::Rest03Proto,
        None => Envelope::Gemini,
    }
}

/// What a request asks for, and how it wants its answer.
pub fn decode(request: &Request, switches: &Switches) -> Result<(Call, Form), (Fault, Form)> {
    let path = request.path.as_str();
    if let Some((rows, ids)) = find(path) {
        return match at(rows, request.method) {
            Some(route) => serve(route, ids, request, switches),
            None => {
                let fault = not_allowed(request, rows.iter().map(|(method, _)| *method));
                Err((fault, Form::under(envelope_at(path), switches)))
            }
        };
    }
    if let Some(place) = rest::place(path) {
        return rest::decode(&place, request, switches);
    }
    let named = version::named(&request.headers, &request.query);
    let envelope = match named {
        Ok(Some(Protocol::V10)) | Err(_) => Envelope::Rest10,
        Ok(Some(Protocol::V03) | None) => envelope_at(path),
    };
    Err((not_found(path), Form::under(envelope, switches)))
}

fn serve(route: Route, ids: Ids, request: &Request, switches: &Switches) -> Result<(Call, Form), (Fault, Form)> {
    let mut form = Form::under(
        match route {
            Route::Kebab => Envelope::Kebab,
            Route::Snake => Envelope::Snake,
            Route::Session => Envelope::Session,
            Route::Rpc
            | Route::Card
            | Route::Health
            | Route::Socket
            | Route::Create
            | Route::Tasks
            | Route::Task
            | Route::AllMetadata
            | Route::Metadata
            | Route::Commands
            | Route::Execute => Envelope::Gemini,
        },
        switches,
    );
    let task = || ids.task.expect("the pattern names a task");
    let call = match route {
        Route::Rpc => return rpc::decode(request, switches),
        Route::Socket => return socket::join(request, switches),
        Route::Execute => return commands::decode(request),
        Route::Commands => Ok(Call::Commands),
        Route::Tasks | Route::Task if speaks_10(request) => {
            let place = rest::place(&request.path).expect("REST has both paths");
            return rest::decode(&place, request, switches);
        }
        Route::Tasks => gemini_endpoints::tasks(request),
        Route::Task => gemini_endpoints::get(request, task()),
        Route::Card => Ok(Call::Card),
        Route::Health => Ok(Call::Health),
        Route::AllMetadata => Ok(Call::AllMetadata),
        Route::Metadata => Ok(Call::Metadata { task: task().into() }),
        Route::Create => gemini_endpoints::create(request, &mut form, switches),
        Route::Kebab | Route::Snake | Route::Session => gemini_endpoints::say(request, ids.task, &mut form, switches),
    };
    match call {
        Ok(call) => Ok((call, form)),
        Err(fault) => Err((fault, form)),
    }
}

/// Whether a request at a path of both is one of 1.0: it names the version (or one that nobody has), or asks for what only that
/// version has.
fn speaks_10(request: &Request) -> bool {
    const NEW: [&str; 4] = ["pageSize", "pageToken", "statusTimestampAfter", "includeArtifacts"];
    let is_new = |(name, value): &(String, String)| {
        NEW.contains(&name.as_str()) || (name == "status" && value.starts_with("TASK_STATE_"))
    };
    match version::named(&request.headers, &request.query) {
        Ok(Some(Protocol::V10)) | Err(_) => true,
        Ok(Some(Protocol::V03) | None) => request.query.iter().any(is_new),
    }
}
