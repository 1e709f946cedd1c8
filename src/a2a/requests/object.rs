//! Reading members of JSON objects that clients sent: several spellings of a name, `null` as good as absent, and messages
//! that name the place that is wrong.

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

/// The first of these members that is there and not null, with the name it goes by.
pub fn member<'a>(object: &'a Object, names: &[&'a str]) -> Option<(&'a str, &'a Value)> {
    names.iter().find_map(|name| match object.get(*name) {
        None | Some(Value::Null) => None,
        Some(value) => Some((*name, value)),
    })
}

/// A string member. The empty string counts as absent: some clients send every member they know.
pub fn text<'a>(object: &'a Object, names: &[&'a str], at: &str) -> Result<Option<&'a str>, Fault> {
    match member(object, names) {
        None => Ok(None),
        Some((_, Value::String(text))) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some((name, _)) => Err(wrong(at, name, "must be a string.")),
    }
}

pub fn object<'a>(parent: &'a Object, names: &[&'a str], at: &str) -> Result<Option<&'a Object>, Fault> {
    match member(parent, names) {
        None => Ok(None),
        Some((_, Value::Object(object))) => Ok(Some(object)),
        Some((name, _)) => Err(wrong(at, name, "must be an object.")),
    }
}

/// A list of strings.
pub fn texts(object: &Object, names: &[&str], at: &str) -> Result<Vec<String>, Fault> {
    let Some((name, value)) = member(object, names) else {
        return Ok(Vec::new());
    };
    let texts = value.as_array().and_then(|items| {
        let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
        texts.collect()
    });
    texts.ok_or_else(|| wrong(at, name, "must be a list of strings."))
}

/// A non-negative integer. One that is too large for this machine means the most there can be.
pub fn count(object: &Object, names: &[&str], at: &str) -> Result<Option<usize>, Fault> {
    let Some((name, value)) = member(object, names) else {
        return Ok(None);
    };
    let count = value.as_u64().map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    count.map(Some).ok_or_else(|| wrong(at, name, "must be a whole number from 0 on."))
}

/// A boolean.
pub fn flag(object: &Object, names: &[&str], at: &str) -> Result<Option<bool>, Fault> {
    match member(object, names) {
        None => Ok(None),
        Some((_, Value::Bool(flag))) => Ok(Some(*flag)),
        Some((name, _)) => Err(wrong(at, name, "must be true or false.")),
    }
}

/// A member that is wrong; `at` is where its object is, and empty for the request itself.
pub fn wrong(at: &str, name: &str, what: &str) -> Fault {
    if at.is_empty() { Fault::field(name, what) } else { Fault::field(format!("{at}.{name}"), what) }
}
