//! Which path leads where: the one table of them, with REST's own beside it in `rest`. Two paths mean two things, `/tasks` and
//! `/tasks/{task}`: they were the task server's before 1.0 took them for its REST binding, so they are 1.0's only for those who
//! name it or ask for what only it has.

use crate::a2a::commands;
use crate::a2a::dialect::Dialect;
use crate::a2a::form::{Decoded, Form};
use crate::a2a::requests::gemini_endpoints;
use crate::a2a::requests::rest::{self, Base};
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
    /// A prompt in a dialect that has a path of its own.
    Prompt,
    Commands,
    Execute,
}

const ROUTES: [(&str, Rows<Route>); 11] = [
    ("/", &[(Method::Post, Route::Rpc)]),
    ("/.well-known/agent-card.json", &read(Route::Card)),
    ("/.well-known/agent.json", &read(Route::Card)),
    ("/health", &read(Route::Health)),
    ("/ws", &[(Method::Get, Route::Socket)]),
    ("/tasks", &[(Method::Get, Route::Tasks), (Method::Head, Route::Tasks), (Method::Post, Route::Create)]),
    ("/tasks/metadata", &read(Route::AllMetadata)),
    ("/tasks/{task}", &read(Route::Task)),
    ("/tasks/{task}/metadata", &read(Route::Metadata)),
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
    let names: Vec<&str> = methods.map(Method::word).collect();
    let allow = names.join(", ");
    let message = format!("{} takes {allow} only.", request.path);
    Fault::new(FaultKind::MethodNotAllowed { allow }, message)
}

fn find(path: &str) -> Option<(Rows<Route>, &'static Dialect, Ids<'_>)> {
    const PROMPT: Rows<Route> = &[(Method::Post, Route::Prompt)];
    let routes = ROUTES.iter().map(|(pattern, rows)| (*pattern, *rows, Dialect::GEMINI));
    let prompts = Dialect::ALL.into_iter().filter_map(|dialect| Some((dialect.prompt_path?, PROMPT, dialect)));
    routes.chain(prompts).find_map(|(pattern, rows, dialect)| Some((rows, dialect, matches(pattern, path)?)))
}

/// The dialect of a request at this path of which nothing else is known.
pub fn dialect_at(path: &str) -> &'static Dialect {
    if path == "/" {
        return Dialect::RPC_03;
    }
    if find(path).is_some() {
        return Dialect::GEMINI;
    }
    match rest::place(path).map(|place| place.base) {
        Some(Base::V1) => Dialect::REST_03_PROTO,
        Some(Base::Root | Base::Tenant(_)) => Dialect::REST_10,
        None if path == "/v1" || path.starts_with("/v1/") => Dialect::REST_03_PROTO,
        None => Dialect::GEMINI,
    }
}

/// What a request asks for, and how it wants its answer.
pub fn decode(request: &Request, switches: &Switches) -> Decoded {
    let path = request.path.as_str();
    if let Some((rows, dialect, ids)) = find(path) {
        return match at(rows, request.method) {
            Some(route) => serve(route, Form::under(dialect, switches), ids, request, switches),
            None => {
                let fault = not_allowed(request, rows.iter().map(|(method, _)| *method));
                Err((fault, Form::under(dialect_at(path), switches)))
            }
        };
    }
    if let Some(place) = rest::place(path) {
        return rest::decode(&place, request, switches);
    }
    let named = version::named(&request.headers, &request.query);
    let dialect = match named {
        Ok(Some(Protocol::V10)) | Err(_) => Dialect::REST_10,
        Ok(Some(Protocol::V03) | None) => dialect_at(path),
    };
    Err((not_found(path), Form::under(dialect, switches)))
}

fn serve(route: Route, mut form: Form, ids: Ids, request: &Request, switches: &Switches) -> Decoded {
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
        Route::Prompt => gemini_endpoints::say(request, ids.task, &mut form, switches),
    };
    form.decoded(call)
}

/// Whether a request at a path of both is one of 1.0: it names that version or an unknown one, or has parameters that only 1.0
/// has.
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
