//! The agent card. There are two editions: the pure one has the members of 1.0 only, the hybrid has those of 0.3 too. Clients of 1.0
//! read either, but some conformance tests refuse unknown members: a request that names version 1.0 gets the pure card. Clients of 0.3
//! name no version, so all other requests get the hybrid.
//!
//! Its URLs have the host that the client asked for: some clients refuse a card that leads to another origin than its own. An edition
//! is therefore text in which only the host is missing, so that an answer need not be encoded anew.
//!
//! Only what is enforced is declared: no security schemes that the server does not check.

use crate::a2a;
use crate::a2a::form::Form;
use crate::a2a::requests::message::input_modes;
use crate::a2a::requests::object::Object;
use crate::a2a::requests::version;
use crate::a2a::switches::{CardDefault, Switches};
use crate::a2a::words::{EXT, PLAIN, RESUME};
use crate::base::clock::http_date;
use crate::base::crc::crc32;
use crate::base::http::{Request, Response};
use crate::task::log::event::Protocol;
use serde_json::{Value, json};

/// Stands for the URL of the server.
const BASE: &str = "http://host.invalid";

/// The media types that clients are sent.
const OUTPUT_MODES: [&str; 2] = ["text/plain", "application/json"];

/// What the card says about this server.
pub struct Identity<'a> {
    /// The URL of the server for requests without a `Host` header.
    pub base_url: &'a str,
    /// The operator configured `base_url` as the public address, so all cards have it, whatever host the client asked for.
    pub is_public: bool,
    pub needs_credential: bool,
    /// The OpenID Connect discovery URL of the identity provider whose tokens are accepted.
    pub openid: Option<&'a str>,
    pub version: &'a str,
    /// When the card was made.
    pub unix_ms: u64,
}

pub struct Card {
    pure: Edition,
    hybrid: Edition,
    /// The hybrid and the pure edition for authenticated clients.
    extended: [Value; 2],
    base_url: String,
    is_public: bool,
    by_default: CardDefault,
    last_modified: String,
}

/// An edition as text; it has [`BASE`] wherever the URL of the server belongs.
struct Edition {
    whole: String,
    /// Without REST, whose clients append paths to a URL: it cannot have a query.
    rpc_only: String,
}

pub fn card(identity: &Identity<'_>, switches: &Switches) -> Card {
    let edition = |make: fn(&Identity<'_>, &Switches, &[&str]) -> Value| Edition {
        whole: make(identity, switches, &["JSONRPC", "HTTP+JSON"]).to_string(),
        rpc_only: make(identity, switches, &["JSONRPC"]).to_string(),
    };
    let (pure, hybrid) = (edition(pure), edition(hybrid));
    Card {
        extended: [&hybrid, &pure].map(|edition| serde_json::from_str(&edition.whole).expect("just written")),
        pure,
        hybrid,
        base_url: identity.base_url.trim_end_matches('/').to_owned(),
        is_public: identity.is_public,
        by_default: switches.card_default,
        last_modified: http_date(identity.unix_ms),
    }
}

impl Card {
    /// Where clients on this machine connect.
    pub fn url(&self) -> &str {
        &self.base_url
    }

    /// The answer to a request for the card; 304 when the client has this one.
    pub fn answer(&self, request: &Request) -> Response {
        let body = self.body(request);
        let etag = format!("\"{:08x}\"", crc32(body.as_bytes()));
        let headers = &request.headers;
        let known = match headers.get("if-none-match") {
            Some(_) => {
                headers.list("if-none-match").any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
            }
            None => headers.get("if-modified-since") == Some(&self.last_modified),
        };
        let response = if known { Response::empty(304) } else { Response::json(200, body.into_bytes()) };
        response
            .with("Cache-Control", "public, max-age=300")
            .with("ETag", etag)
            .with("Last-Modified", self.last_modified.as_str())
            .with("Vary", "A2A-Version")
    }

    /// Replaces members of the extended card.
    pub fn extend(&mut self, more: &Object) {
        for card in self.extended.iter_mut().filter_map(Value::as_object_mut) {
            card.extend(more.clone());
        }
    }

    /// The card for authenticated clients; the admission check has refused all others. `host` is the `Host` header of the request.
    pub fn extended(&self, host: Option<&str>, form: &Form) -> Response {
        let [hybrid, pure] = &self.extended;
        let card = match form.dialect.protocol {
            Protocol::V03 => hybrid,
            Protocol::V10 => pure,
        };
        a2a::result(form, card.to_string().replace(BASE, &self.base(host)).as_bytes())
    }

    fn base(&self, host: Option<&str>) -> String {
        // The host becomes part of the JSON, so it must not need escaping: not every configuration refuses unknown hosts.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        let host = host.filter(|host| !self.is_public && host.chars().all(is_plain));
        host.map_or_else(|| self.base_url.clone(), |host| format!("http://{}", host.to_ascii_lowercase()))
    }

    /// The card with the host of the request, which is one that the server answers to. The profile in the query of the request is
    /// repeated in the URLs, so that a client that only has the URL of the card can select a profile with it.
    fn body(&self, request: &Request) -> String {
        let base = self.base(request.headers.get("host"));
        let is_repeated = |(name, word): &&(String, String)| {
            (name == "profile" || name == "pieces") && word.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        let repeated = request.query.iter().filter(is_repeated).map(|(name, word)| format!("{name}={word}"));
        let query = repeated.collect::<Vec<_>>().join("&");
        let edition = self.edition(request);
        match query.is_empty() {
            true => edition.whole.replace(BASE, &base),
            false => edition.rpc_only.replace(&format!("{BASE}/"), &format!("{base}/?{query}")),
        }
    }

    /// The edition for a request. An unsupported version counts as no version: the card lists the supported ones.
    fn edition(&self, request: &Request) -> &Edition {
        match version::named(request) {
            Ok(Some(Protocol::V10)) => &self.pure,
            Ok(Some(Protocol::V03)) => &self.hybrid,
            // Only clients from before 0.3 request this path.
            Ok(None) | Err(_) if request.path == "/.well-known/agent.json" => &self.hybrid,
            Ok(None) | Err(_) => match self.by_default {
                CardDefault::Hybrid => &self.hybrid,
                CardDefault::V1 => &self.pure,
            },
        }
    }
}

/// The URL of a binding. REST clients append their paths to one without a slash.
fn url(binding: &str) -> String {
    if binding == "JSONRPC" { format!("{BASE}/") } else { BASE.to_owned() }
}

/// The members of 1.0. Interfaces are in the order of preference.
fn pure(identity: &Identity<'_>, switches: &Switches, bindings: &[&str]) -> Value {
    let interface = |version: &str, binding: &&str| json!({ "url": url(binding), "protocolBinding": binding, "protocolVersion": version });
    let of = |version: &'static str| bindings.iter().map(move |binding| interface(version, binding));
    let mut card = json!({
        "name": "Gemini SDLC Agent",
        "description": "Writes and edits code and runs commands in a workspace, asking before it changes anything.",
        "version": identity.version,
        "supportedInterfaces": of("1.0").chain(of("0.3")).collect::<Value>(),
        "capabilities": {
            "streaming": switches.streaming,
            "pushNotifications": switches.push,
            "extendedAgentCard": switches.extended_card,
            "extensions": extensions(&switches.required_extensions),
        },
        "defaultInputModes": input_modes(),
        "defaultOutputModes": OUTPUT_MODES,
        "skills": [{
            "id": "code_generation",
            "name": "Code Generation",
            "description": "Generates and edits code in the workspace and runs tools, streaming what it does.",
            "tags": ["code", "development", "programming"],
            "inputModes": input_modes(),
            "outputModes": OUTPUT_MODES,
        }],
    });
    if identity.needs_credential {
        card["securitySchemes"] = SCHEMES.iter().map(|scheme| (scheme.name.to_owned(), scheme.nested())).collect();
        let requirement = |scheme: &Scheme| json!({ "schemes": { scheme.name: { "list": [] } } });
        card["securityRequirements"] = SCHEMES.iter().map(requirement).collect();
        if let Some(url) = identity.openid {
            card["securitySchemes"][OIDC] = json!({ "openIdConnectSecurityScheme": { "openIdConnectUrl": url } });
            let requirements = card["securityRequirements"].as_array_mut();
            requirements.into_iter().for_each(|all| all.push(json!({ "schemes": { OIDC: { "list": [] } } })));
        }
    }
    card
}

/// A way to send a credential.
struct Scheme {
    name: &'static str,
    /// The scheme of the `Authorization` header; None: the credential is in [`KEY_HEADER`].
    authorization: Option<&'static str>,
}

/// A request needs one of them.
const SCHEMES: [Scheme; 3] = [
    Scheme { name: "bearer", authorization: Some("bearer") },
    Scheme { name: "basic", authorization: Some("basic") },
    Scheme { name: "apiKey", authorization: None },
];

/// The name of the scheme for the tokens of an identity provider.
const OIDC: &str = "oidc";

const KEY_HEADER: &str = "X-API-Key";

impl Scheme {
    /// As 1.0 has it.
    fn nested(&self) -> Value {
        match self.authorization {
            Some(scheme) => json!({ "httpAuthSecurityScheme": { "scheme": scheme } }),
            None => json!({ "apiKeySecurityScheme": { "location": "header", "name": KEY_HEADER } }),
        }
    }

    /// The members that 0.3 has beside those.
    fn flat(&self) -> [(&'static str, &'static str); 3] {
        match self.authorization {
            Some(scheme) => [("type", "http"), ("scheme", scheme), ("scheme", scheme)],
            None => [("type", "apiKey"), ("in", "header"), ("name", KEY_HEADER)],
        }
    }
}

/// The members of 0.3 beside those of 1.0.
fn hybrid(identity: &Identity<'_>, switches: &Switches, bindings: &[&str]) -> Value {
    let mut card = pure(identity, switches, bindings);
    let interface = |binding: &&str| json!({ "url": url(binding), "transport": binding });
    card["protocolVersion"] = "0.3.0".into();
    card["additionalInterfaces"] = bindings.iter().map(interface).collect();
    card["url"] = url("JSONRPC").into();
    card["preferredTransport"] = "JSONRPC".into();
    card["supportsAuthenticatedExtendedCard"] = switches.extended_card.into();
    card["capabilities"]["stateTransitionHistory"] = true.into();
    if identity.needs_credential {
        for scheme in &SCHEMES {
            for (name, value) in scheme.flat() {
                card["securitySchemes"][scheme.name][name] = value.into();
            }
        }
        card["security"] = SCHEMES.iter().map(|scheme| json!({ scheme.name: [] })).collect();
        if let Some(url) = identity.openid {
            card["securitySchemes"][OIDC]["type"] = "openIdConnect".into();
            card["securitySchemes"][OIDC]["openIdConnectUrl"] = url.into();
            card["security"].as_array_mut().into_iter().for_each(|all| all.push(json!({ OIDC: [] })));
        }
    }
    card
}

/// The extensions of this server, which are optional, and those that the operator requires.
fn extensions(required: &[String]) -> Vec<Value> {
    let ours = [
        (EXT, "Tool calls, confirmations, thoughts and slash commands for development tools."),
        (
            RESUME,
            "Every streamed event has an id; a subscription with Last-Event-ID, ?after= or params.after continues behind it.",
        ),
        (PLAIN, "Answers are streamed in pieces as they come; the metadata of a question has its calls."),
    ];
    let is_required = |uri: &str| required.iter().any(|one| one == uri);
    let declared =
        ours.map(|(uri, description)| json!({ "uri": uri, "description": description, "required": is_required(uri) }));
    let others = required
        .iter()
        .filter(|uri| ours.iter().all(|(known, _)| known != uri))
        .map(|uri| json!({ "uri": uri, "required": true }));
    declared.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests;
