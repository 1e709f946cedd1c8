//! The credential that a request presents, in one of several header fields. A secret in the query of the URL is never read, because URLs are
//! logged and kept in histories.

use crate::base::http::Request;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The credential that a request presents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presented {
    Nothing,
    Token(String),
    /// A ticket, which a web page shows to open a socket.
    Ticket(String),
    /// `Authorization: Basic`: the user name has to be the credential's id, and the password is the token.
    Basic {
        id: String,
        token: String,
    },
}

impl Presented {
    /// The credential of a request. More than one is an error: it would be unclear whose request it is.
    pub fn of(request: &Request) -> Result<Presented, &'static str> {
        let mut shown = Vec::new();
        for (name, value) in request.headers.iter() {
            match name {
                "authorization" => shown.push(authorization(value)),
                "x-api-key" => shown.push(Presented::Token(value.to_owned())),
                _ => {}
            }
        }
        if request.headers.get("upgrade").is_some() {
            let offers = request.headers.list("sec-websocket-protocol");
            shown.extend(offers.filter_map(|offer| match offer.split_once('.')? {
                ("bearer", token) => Some(Presented::Token(token.to_owned())),
                ("ticket", ticket) => Some(Presented::Ticket(ticket.to_owned())),
                _ => None,
            }));
        }
        match shown.len() {
            0 => Ok(Presented::Nothing),
            1 => Ok(shown.remove(0)),
            _ => Err(
                "The request shows more than one credential. Send one of Authorization, X-API-Key and the sub-protocol.",
            ),
        }
    }
}

/// The credential of an `Authorization` field. An unknown scheme is read as a token that no credential has.
fn authorization(value: &str) -> Presented {
    let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Presented::Token(rest.to_owned());
    }
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(rest).ok()).flatten();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    match text.as_deref().and_then(|text| text.split_once(':')) {
        Some((id, token)) => Presented::Basic { id: id.to_owned(), token: token.to_owned() },
        None => Presented::Token(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::http::{Headers, Method, Version};

    fn shown(fields: &[(&str, &str)]) -> Result<Presented, &'static str> {
        let mut headers = Headers::default();
        for (name, value) in fields {
            headers.push(name, value);
        }
        Presented::of(&Request {
            version: Version::Http11,
            method: Method::Get,
            path: "/".into(),
            query: vec![("token".into(), "secret".into())],
            headers,
            body: Vec::new(),
            keep_alive: true,
        })
    }

    #[test]
    fn every_form_of_a_credential_is_read() {
        let token = |text: &str| Ok(Presented::Token(text.into()));
        let basic = format!("Basic {}", STANDARD.encode("laptop:ga2a_laptop_x"));
        assert_eq!(shown(&[]), Ok(Presented::Nothing), "not from the address");
        assert_eq!(shown(&[("Authorization", "Bearer abc")]), token("abc"));
        assert_eq!(shown(&[("Authorization", "bearer  abc ")]), token("abc"));
        assert_eq!(shown(&[("X-API-Key", "abc")]), token("abc"));
        let named = Presented::Basic { id: "laptop".into(), token: "ga2a_laptop_x".into() };
        assert_eq!(shown(&[("Authorization", &basic)]), Ok(named));
        let offers = ("Sec-WebSocket-Protocol", "gemini-a2a.v1, bearer.abc");
        assert_eq!(shown(&[("Upgrade", "websocket"), offers]), token("abc"));
        assert_eq!(shown(&[offers]), Ok(Presented::Nothing), "only where a socket is asked for");
        let ticket = ("Sec-WebSocket-Protocol", "session, ticket.tk_a");
        assert_eq!(shown(&[("Upgrade", "websocket"), ticket]), Ok(Presented::Ticket("tk_a".into())));
    }

    #[test]
    fn an_invalid_authorization_is_a_wrong_credential_and_not_none() {
        for value in ["Bearer", "Basic", "Basic !", "Basic YQ==", "Digest x", ""] {
            assert_eq!(shown(&[("Authorization", value)]), Ok(Presented::Token(String::new())), "{value}");
        }
    }

    #[test]
    fn two_credentials_are_refused() {
        let [bearer, key] = [("Authorization", "Bearer a"), ("X-API-Key", "a")];
        let socket = ("Sec-WebSocket-Protocol", "bearer.a");
        let upgrade = ("Upgrade", "websocket");
        for fields in [&[bearer, key][..], &[bearer, bearer], &[upgrade, socket, key], &[key, key]] {
            assert!(shown(fields).is_err(), "{fields:?}");
        }
    }
}
