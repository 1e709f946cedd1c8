//! Reads members of JSON objects that clients sent. A name may have several spellings, `null` counts as absent, and errors name the
//! invalid member.

use crate::base::http::Request;
use crate::base::json;
use crate::task::fault::{Fault, FaultKind};
use serde_json::{Map, Value};

pub type Object = Map<String, Value>;

/// The body as JSON. An empty one and the literal `null` are no body.
pub fn body(request: &Request) -> Result<Option<Value>, Fault> {
    if request.body.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    match json::read(&request.body) {
        Ok(Value::Null) => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(Fault::new(FaultKind::ParseError, format!("The body cannot be read as JSON: {error}."))),
    }
}

/// Bodies are JSON with a matching Content-Type. A missing type is accepted from programs only: browsers send one, and a page of
/// another origin can make them send `text/plain` without a CORS preflight.
pub fn check_type(request: &Request) -> Result<(), Fault> {
    let headers = &request.headers;
    let Some(value) = headers.get("content-type") else {
        let browser = headers.get("origin").or(headers.get("sec-fetch-site")).is_some();
        if request.body.is_empty() || !browser {
            return Ok(());
        }
        return Err(Fault::new(
            FaultKind::ContentTypeMissing,
            "The body does not say what it is; send it with Content-Type: application/json.",
        ));
    };
    let media = media_type(value);
    if media == "application/json" || media.ends_with("+json") {
        return Ok(());
    }
    Err(Fault::new(
        FaultKind::ContentTypeNotSupported,
        "Incompatible content types: only JSON is supported, not this body; send it with Content-Type: application/json.",
    ))
}

/// A media type in lower case, without its parameters.
pub fn media_type(value: &str) -> String {
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The first of these members that is present and not null, with its name.
pub fn member<'a>(object: &'a Object, names: &[&'a str]) -> Option<(&'a str, &'a Value)> {
    names.iter().find_map(|name| match object.get(*name) {
        None | Some(Value::Null) => None,
        Some(value) => Some((*name, value)),
    })
}

/// A member of one type, if it is present. `what` is the error for a member of another type.
fn typed<'a, T>(
    object: &'a Object,
    names: &[&'a str],
    at: &str,
    what: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, Fault> {
    let Some((name, value)) = member(object, names) else {
        return Ok(None);
    };
    read(value).map(Some).ok_or_else(|| wrong(at, name, what))
}

/// A string member. The empty string counts as absent: some clients send every member they know.
pub fn text<'a>(object: &'a Object, names: &[&'a str], at: &str) -> Result<Option<&'a str>, Fault> {
    Ok(typed(object, names, at, "must be a string.", Value::as_str)?.filter(|text| !text.is_empty()))
}

pub fn object<'a>(parent: &'a Object, names: &[&'a str], at: &str) -> Result<Option<&'a Object>, Fault> {
    typed(parent, names, at, "must be an object.", Value::as_object)
}

/// A list of strings.
pub fn texts(object: &Object, names: &[&str], at: &str) -> Result<Vec<String>, Fault> {
    let read = |value: &Value| value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect();
    Ok(typed(object, names, at, "must be a list of strings.", read)?.unwrap_or_default())
}

/// A non-negative integer.
pub fn count(object: &Object, names: &[&str], at: &str) -> Result<Option<usize>, Fault> {
    let read = |value: &Value| Some(usize::try_from(value.as_u64()?).unwrap_or(usize::MAX));
    typed(object, names, at, "must be a whole number from 0 on.", read)
}

/// A boolean.
pub fn flag(object: &Object, names: &[&str], at: &str) -> Result<Option<bool>, Fault> {
    typed(object, names, at, "must be true or false.", Value::as_bool)
}

/// The fault of an invalid member; `at` is the path of its object, empty for the request itself.
pub fn wrong(at: &str, name: &str, what: &str) -> Fault {
    if at.is_empty() { Fault::field(name, what) } else { Fault::field(format!("{at}.{name}"), what) }
}
