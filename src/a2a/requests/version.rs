//! Reads the A2A version that a request names and the extensions that it activates. Both are service parameters, which are the same on
//! every binding. What a version means for a method or a path is decided by the binding.

use crate::a2a::form::Form;
use crate::a2a::requests::object::Object;
use crate::a2a::switches::Switches;
use crate::a2a::words::{EXT, PLAIN, RESUME};
use crate::base::http::{Headers, Request};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::{Profile, Protocol};
use serde_json::Value;

/// The headers that list extensions: the one of 1.0 and the one of 0.3. Both are read in both versions.
const LISTS: [(&str, &str); 2] = [("a2a-extensions", "A2A-Extensions"), ("x-a2a-extensions", "X-A2A-Extensions")];

/// The version that a request names in a header, otherwise in the query. None: it depends on the method or the path. The patch number is
/// ignored, and a missing minor number is 0.
pub fn named(request: &Request) -> Result<Option<Protocol>, Fault> {
    let mut query = request.query.iter();
    let in_query = || query.find(|(name, _)| name.eq_ignore_ascii_case("a2a-version")).map(|(_, value)| value.trim());
    let header = request.headers.get("a2a-version").map(str::trim);
    let wanted = header.filter(|value| !value.is_empty()).or_else(in_query).unwrap_or_default();
    if wanted.is_empty() {
        return Ok(None);
    }
    let mut numbers = wanted.splitn(3, '.');
    match (numbers.next(), numbers.next().unwrap_or("0")) {
        (Some("0"), "3") => Ok(Some(Protocol::V03)),
        (Some("1"), "0") => Ok(Some(Protocol::V10)),
        _ => Err(Fault::new(
            FaultKind::VersionNotSupported,
            format!("A2A version {wanted} is not supported here; this server speaks 0.3 and 1.0."),
        )),
    }
}

/// The fault of a 1.0 operation without a version when the operator requires one.
pub fn version_required(what: &str) -> Fault {
    Fault::new(
        FaultKind::VersionNotSupported,
        format!("{what} is of A2A 1.0, and no version means 0.3 here; send A2A-Version: 1.0."),
    )
}

/// Every extension the headers list.
pub fn extensions(headers: &Headers) -> impl Iterator<Item = &str> {
    LISTS.iter().flat_map(|(name, _)| headers.list(name))
}

/// Refuses a request that lists the extensions that the operator requires neither in a header nor in its message.
pub fn require(headers: &Headers, params: &Object, switches: &Switches) -> Result<(), Fault> {
    let in_message = |uri: &str| {
        let listed = params.get("message").and_then(|message| message.get("extensions"));
        let listed = listed.and_then(Value::as_array);
        listed.is_some_and(|listed| listed.iter().any(|listed| listed.as_str() == Some(uri)))
    };
    for uri in &switches.required_extensions {
        if !extensions(headers).any(|listed| listed == uri) && !in_message(uri) {
            return Err(Fault::new(
                FaultKind::ExtensionRequired,
                format!("This server requires the extension {uri}; list it in the A2A-Extensions header."),
            ));
        }
    }
    Ok(())
}

/// The response headers that list the client's active extensions. They have the names of the headers that the client used.
pub fn echo(headers: &Headers, form: &Form, switches: &Switches) -> Vec<(&'static str, String)> {
    let mut active = Vec::new();
    if form.profile == Some(Profile::Devtool) {
        active.push(EXT);
    }
    for uri in extensions(headers) {
        let known = uri == RESUME || uri == PLAIN || switches.required_extensions.iter().any(|known| known == uri);
        if known && !active.contains(&uri) {
            active.push(uri);
        }
    }
    if active.is_empty() {
        return Vec::new();
    }
    LISTS
        .into_iter()
        .filter(|(name, _)| headers.get(name).is_some())
        .map(|(_, name)| (name, active.join(", ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::{Dialect, sample};
    use serde_json::json;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::default();
        for (name, value) in fields {
            headers.push(name, value);
        }
        headers
    }

    fn request(fields: &[(&str, &str)], query: &[(&str, &str)]) -> Request {
        let query = query.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Request { headers: headers(fields), query, ..sample::post("/", "") }
    }

    #[test]
    fn versions_by_header_and_by_query() {
        let ask = |value: &str| {
            let header = named(&request(&[("A2A-Version", value)], &[]));
            let query = named(&request(&[], &[("a2a-VERSION", value)]));
            assert_eq!(header, query, "{value}");
            header.map_err(|fault| fault.kind)
        };
        for none in ["", "  "] {
            assert_eq!(ask(none), Ok(None));
        }
        for old in ["0.3", "0.3.0", "0.3.7", " 0.3 "] {
            assert_eq!(ask(old), Ok(Some(Protocol::V03)), "{old}");
        }
        for new in ["1", "1.0", "1.0.1"] {
            assert_eq!(ask(new), Ok(Some(Protocol::V10)), "{new}");
        }
        for other in ["0", "0.2", "0.30", "1.1", "2.0", "v0.3", "0.3, 1.0", "x", "."] {
            assert_eq!(ask(other), Err(FaultKind::VersionNotSupported), "{other}");
        }
    }

    #[test]
    fn the_header_wins_unless_it_is_empty() {
        let query = [("A2A-Version", "1.0")];
        let both = |header: &str| named(&request(&[("A2A-Version", header)], &query)).unwrap();
        assert_eq!(both("0.3"), Some(Protocol::V03));
        assert_eq!(both(""), Some(Protocol::V10));
    }

    #[test]
    fn only_active_extensions_come_back_under_the_names_that_were_used() {
        let switches = Switches { required_extensions: vec!["urn:must".into()], ..Switches::default() };
        let form = |profile| Form { profile, ..Form::of(Dialect::RPC_03) };
        let both = headers(&[
            ("X-A2A-Extensions", &format!("{EXT}, urn:other")),
            ("A2A-Extensions", RESUME),
            ("A2A-Extensions", "urn:must"),
        ]);
        let all = format!("{EXT}, {RESUME}, urn:must");
        assert_eq!(
            echo(&both, &form(Some(Profile::Devtool)), &switches),
            [("A2A-Extensions", all.clone()), ("X-A2A-Extensions", all)]
        );
        let plain = headers(&[("X-A2A-Extensions", "urn:other")]);
        assert_eq!(echo(&plain, &form(None), &switches), []);
        assert_eq!(echo(&headers(&[]), &form(Some(Profile::Devtool)), &switches), []);
        let named = headers(&[("X-A2A-Extensions", EXT)]);
        assert_eq!(echo(&named, &form(Some(Profile::Coder)), &switches), []);
    }

    #[test]
    fn required_extensions_may_be_listed_in_either_place() {
        let switches = Switches { required_extensions: vec!["urn:must".into()], ..Switches::default() };
        let ask = |fields: &[(&str, &str)], params: Value| {
            let params = params.as_object().cloned().unwrap();
            require(&headers(fields), &params, &switches).map_err(|fault| fault.kind)
        };
        let refused = Err(FaultKind::ExtensionRequired);
        assert_eq!(ask(&[], json!({})), refused);
        assert_eq!(ask(&[("A2A-Extensions", "urn:mustard")], json!({})), refused);
        assert_eq!(ask(&[("A2A-Extensions", "urn:a,urn:must")], json!({})), Ok(()));
        assert_eq!(ask(&[("X-A2A-Extensions", "urn:must")], json!({})), Ok(()));
        assert_eq!(ask(&[], json!({"message": {"extensions": ["urn:must"]}})), Ok(()));
        assert_eq!(ask(&[], json!({"message": {"extensions": "urn:must"}})), refused);
    }
}
