//! Lists of tasks in the dialects that have them. 1.0 has pages; 0.3 has an array; the task server of the Gemini documents has a
//! short form that needs no task in memory.

use crate::a2a::form::{Form, Tongue, View, view, view_of};
use crate::a2a::words;
use crate::a2a::{Wanted, result, snapshot};
use crate::base::clock::rfc3339;
use crate::base::crc::crc32;
use crate::base::http::Response;
use crate::base::id::TaskId;
use crate::base::json;
use crate::task::brief::Brief;
use crate::task::call::{List, Mark};
use crate::task::event::Protocol;
use crate::task::state::{State, TaskState};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A page of a list.
pub struct Page<'a> {
    pub tasks: Vec<&'a State>,
    /// Where the next page begins; None: this was the last.
    pub next: Option<Mark>,
    /// How many a page may hold, and how many tasks the whole list has.
    pub size: usize,
    pub total: usize,
}

/// Whether the lists of this dialect can be written without the tasks themselves.
pub fn lists_briefs(form: &Form) -> bool {
    form.envelope.tongue() == Tongue::Gemini
}

/// The state that a task is listed under.
pub fn shown_state(form: &Form, brief: &Brief) -> TaskState {
    brief_view(form, brief).state(brief.state, brief.idle)
}

fn brief_view(form: &Form, brief: &Brief) -> View {
    view_of(form, Some((brief.protocol, brief.profile)))
}

/// The short list: `GET /tasks` by those who name no version. There are `total` tasks, of which so many are shown.
pub fn briefs<'a>(
    form: &Form,
    tasks: impl IntoIterator<Item = (&'a TaskId, &'a Brief)>,
    total: usize,
) -> Response {
    let tasks: Vec<Value> = tasks
        .into_iter()
        .map(|(task, brief)| {
            let at = rfc3339(brief.at);
            json!({
                "id": task,
                "contextId": brief.context,
                "kind": "task",
                "state": words::snake_state(View::Snake.state(brief.state, brief.idle)),
                "status": { "state": words::state(brief.state), "timestamp": at },
                "timestamp": at,
            })
        })
        .collect();
    let list = json!({ "tasks": tasks, "totalSize": total });
    result(form, &json::bytes(&list))
}

/// A page of whole tasks.
pub fn list(form: &Form, page: &Page<'_>, wanted: Wanted, asked: &List) -> Response {
    let mut out = Vec::new();
    let array = |out: &mut Vec<u8>| {
        out.push(b'[');
        for (i, state) in page.tasks.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend(snapshot(view(form, Some(&state.created)), state, wanted));
        }
        out.push(b']');
    };
    match form.envelope.tongue() {
        Tongue::A2a(Protocol::V03) | Tongue::Gemini => {
            array(&mut out);
            // An array has no room for it, and whoever is shown a part has to know.
            return result(form, &out).with("X-Total-Count", page.total.to_string());
        }
        Tongue::A2a(Protocol::V10) | Tongue::Session | Tongue::Own => {
            out.extend_from_slice(br#"{"tasks":"#);
            array(&mut out);
            let token = page.next.as_ref().map(|mark| token(mark, asked));
            let rest = json!({
                "nextPageToken": token.unwrap_or_default(),
                "pageSize": page.size,
                "totalSize": page.total,
            });
            out.push(b',');
            out.extend_from_slice(&json::bytes(&rest)[1..]);
        }
    }
    result(form, &out)
}

/// A place in a list, as clients hand it back. It counts only for the same list.
pub fn token(mark: &Mark, asked: &List) -> String {
    let place = format!("{}.{:08x}.{}", mark.at, filter(asked), mark.task);
    URL_SAFE_NO_PAD.encode(place)
}

/// None: it is not one of ours, or belongs to another list.
pub fn read_token(text: &str, asked: &List) -> Option<Mark> {
    let place = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    let (at, rest) = place.split_once('.')?;
    let (hash, task) = rest.split_once('.')?;
    let fits = u32::from_str_radix(hash, 16).ok()? == filter(asked);
    fits.then_some(Mark {
        at: at.parse().ok()?,
        task: task.into(),
    })
}

/// A number for what a list is about: places in lists about something else are no places in it.
fn filter(asked: &List) -> u32 {
    let about = (&asked.context, asked.state, asked.since);
    crc32(format!("{about:?}").as_bytes())
}
