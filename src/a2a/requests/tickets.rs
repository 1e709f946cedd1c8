//! `POST /ticket`: requests a ticket with which a web page can open a WebSocket.

use crate::a2a::form::Form;
use crate::a2a::requests::object::{Object, body, check_type};
use crate::a2a::requests::route::Incoming;
use crate::base::http::Response;
use crate::task::access::credentials::all_rights;
use crate::task::access::{Right, Rights};
use crate::task::call::{Call, TicketRequest};
use crate::task::fault::Fault;
use serde_json::{Value, json};

/// Reads what the ticket shall allow. Without a body it allows everything that the credential allows.
pub fn ask(incoming: Incoming<'_>, _: &mut Form) -> Result<Call, Fault> {
    let request = incoming.request;
    let mut sent = match request.body.is_empty() {
        true => Object::new(),
        false => {
            check_type(request)?;
            match body(request)? {
                Some(Value::Object(sent)) => sent,
                Some(_) | None => return Err(Fault::params("The body has to be an object with rights and task.")),
            }
        }
    };
    let rights = match sent.remove("rights") {
        None | Some(Value::Null) => None,
        Some(Value::Array(words)) => Some(words.iter().map(right).collect::<Result<Rights, Fault>>()?),
        Some(_) => return Err(Fault::field("rights", "must be a list of rights.")),
    };
    let task = match sent.remove("task") {
        None | Some(Value::Null) => None,
        Some(Value::String(task)) => Some(task.into()),
        Some(_) => return Err(Fault::field("task", "must be the id of a task.")),
    };
    if let Some((unknown, _)) = sent.iter().next() {
        return Err(Fault::field(unknown.clone(), "is not known; a ticket has rights and a task."));
    }
    let origin = request.headers.get("origin").map(str::to_owned);
    Ok(Call::Ticket(TicketRequest { rights, task, origin }))
}

fn right(word: &Value) -> Result<Right, Fault> {
    let right = word.as_str().and_then(Right::from_word);
    right.ok_or_else(|| Fault::field("rights", &format!("must be of these: {}.", all_rights())))
}

/// The answer with the ticket. Caches must not store it.
pub fn issued(ticket: &str, valid_ms: u64) -> Response {
    let body = json!({ "ticket": ticket, "expiresIn": valid_ms / 1_000 });
    Response::json(201, body.to_string().into_bytes()).with("Cache-Control", "no-store")
}
