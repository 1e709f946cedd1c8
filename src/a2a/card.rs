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

/// What clients are sent.
const OUTPUT_MODES: [&str; 2] = ["text/plain", "application/json"];

/// What the card says about this server.
pub struct Identity<'a> {
    /// Where clients reach the server that do not say by which name they found it.
    pub base_url: &'a str,
    /// All clients are told this address, whatever they asked for: it is the one that the world has.
    pub is_public: bool,
    /// Clients need a credential.
    pub needs_credential: bool,
    /// Where clients learn about the identity provider whose tokens are accepted too.
    pub openid: Option<&'a str>,
    pub version: &'a str,
    /// When the card was made.
    pub unix_ms: u64,
}

pub struct Card {
    pure: Edition,
    hybrid: Edition,
    /// The same two for authenticated clients.
    extended: [Value; 2],
    base_url: String,
    is_public: bool,
    by_default: CardDefault,
    last_modified: String,
}

/// An edition as text, with [`BASE`] in it.
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

    /// Sets these members of the extended card, in place of the public ones.
    pub fn extend(&mut self, more: &Object) {
        for card in self.extended.iter_mut().filter_map(Value::as_object_mut) {
            card.extend(more.clone());
        }
    }

    /// The card for authenticated clients; the admission check has refused all others. `host` is the one that was asked, if known.
    pub fn extended(&self, host: Option<&str>, form: &Form) -> Response {
        let [hybrid, pure] = &self.extended;
        let card = match form.dialect.protocol {
            Protocol::V03 => hybrid,
            Protocol::V10 => pure,
        };
        a2a::result(form, card.to_string().replace(BASE, &self.base(host)).as_bytes())
    }

    fn base(&self, host: Option<&str>) -> String {
        // The host becomes part of the JSON, and not every server refuses unknown ones.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        let host = host.filter(|host| !self.is_public && host.chars().all(is_plain));
        host.map_or_else(|| self.base_url.clone(), |host| format!("http://{}", host.to_ascii_lowercase()))
    }

    /// The card with the host of the request, which is one that the server answers to. The profile that the request names is repeated
    /// in the URLs: a client that is only given the address of the card selects it so.
    fn body(&self, request: &Request) -> String {
        let base = self.base(request.headers.get("host"));
        let is_kept = |(name, word): &&(String, String)| {
            (name == "profile" || name == "pieces") && word.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        let kept = request.query.iter().filter(is_kept).map(|(name, word)| format!("{name}={word}"));
        let query = kept.collect::<Vec<_>>().join("&");
        let edition = self.edition(request);
        match query.is_empty() {
            true => edition.whole.replace(BASE, &base),
            false => edition.rpc_only.replace(&format!("{BASE}/"), &format!("{base}/?{query}")),
        }
    }

    /// An unsupported version counts as none: the card lists the supported ones.
    fn edition(&self, request: &Request) -> &Edition {
        match version::named(request) {
            Ok(Some(Protocol::V10)) => &self.pure,
            Ok(Some(Protocol::V03)) => &self.hybrid,
            // Only clients from before 0.3 look there.
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

/// A way to show a credential.
struct Scheme {
    name: &'static str,
    /// The scheme of the `Authorization` header; None: the credential has a header of its own.
    authorization: Option<&'static str>,
}

/// Any of them will do.
const SCHEMES: [Scheme; 3] = [
    Scheme { name: "bearer", authorization: Some("bearer") },
    Scheme { name: "basic", authorization: Some("basic") },
    Scheme { name: "apiKey", authorization: None },
];

/// The tokens of an identity provider.
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
mod tests {
    use super::*;
    use crate::a2a::Dialect;
    use crate::a2a::sample;
    use crate::a2a::switches::WEBHOOKS;
    use crate::base::http::Method;

    const HERE: Identity<'static> = Identity {
        base_url: "http://localhost:41242",
        is_public: false,
        needs_credential: false,
        openid: None,
        version: "0.1.0",
        unix_ms: 784_111_777_000,
    };

    fn ours() -> Card {
        card(&HERE, &Switches::default())
    }

    /// An edition with the configured address, which requests without a host get.
    fn value(card: &Card, edition: &Edition) -> Value {
        serde_json::from_str(&edition.whole.replace(BASE, &card.base_url)).expect("JSON")
    }

    fn shown(response: &Response) -> Value {
        serde_json::from_slice(&response.body).expect("JSON")
    }

    fn get(version: Option<&str>) -> Request {
        let mut request = sample::post("/.well-known/agent-card.json", "");
        request.method = Method::Get;
        request.headers = Default::default();
        if let Some(version) = version {
            request.headers.push("A2A-Version", version);
        }
        request
    }

    #[test]
    fn the_pure_card_has_the_members_of_its_version_and_no_others() {
        let card = value(&ours(), &ours().pure);
        let names: Vec<&String> = card.as_object().expect("an object").keys().collect();
        assert_eq!(
            names,
            [
                "capabilities",
                "defaultInputModes",
                "defaultOutputModes",
                "description",
                "name",
                "skills",
                "supportedInterfaces",
                "version"
            ]
        );
        let (rpc, rest) = ("http://localhost:41242/", "http://localhost:41242");
        assert_eq!(
            card["supportedInterfaces"],
            json!([{"url": rpc, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                {"url": rest, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
                {"url": rpc, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
                {"url": rest, "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"}])
        );
        let mut capabilities = card["capabilities"].clone();
        let extensions = capabilities["extensions"].take();
        assert_eq!(
            capabilities,
            json!({"streaming": true, "pushNotifications": WEBHOOKS, "extendedAgentCard": false, "extensions": null})
        );
        let named: Vec<(&Value, &Value)> =
            extensions.as_array().expect("a list").iter().map(|one| (&one["uri"], &one["required"])).collect();
        let no = json!(false);
        assert_eq!(named, [(&json!(EXT), &no), (&json!(RESUME), &no), (&json!(PLAIN), &no)]);
    }

    #[test]
    fn the_hybrid_is_the_pure_card_and_more() {
        let hybrid = value(&ours(), &ours().hybrid);
        let mut expected = value(&ours(), &ours().pure);
        let (rpc, rest) = ("http://localhost:41242/", "http://localhost:41242");
        expected["protocolVersion"] = "0.3.0".into();
        expected["url"] = rpc.into();
        expected["preferredTransport"] = "JSONRPC".into();
        expected["additionalInterfaces"] =
            json!([{"url": rpc, "transport": "JSONRPC"}, {"url": rest, "transport": "HTTP+JSON"}]);
        expected["supportsAuthenticatedExtendedCard"] = false.into();
        expected["capabilities"]["stateTransitionHistory"] = true.into();
        assert_eq!(hybrid, expected);
        let trailing = Identity { base_url: "http://localhost:41242/", ..HERE };
        let trailing = card(&trailing, &Switches::default());
        assert_eq!(value(&trailing, &trailing.hybrid), hybrid);
    }

    #[test]
    fn the_ways_to_show_a_credential_are_declared_if_one_is_needed() {
        let card = card(&Identity { needs_credential: true, ..HERE }, &Switches::default());
        let (hybrid, pure) = (value(&card, &card.hybrid), value(&card, &card.pure));
        let requirement = |name: &str| json!({ "schemes": { name: { "list": [] } } });
        let required = json!([requirement("bearer"), requirement("basic"), requirement("apiKey")]);
        assert_eq!((&hybrid["securityRequirements"], &pure["securityRequirements"]), (&required, &required));
        assert_eq!(hybrid["security"], json!([{ "bearer": [] }, { "basic": [] }, { "apiKey": [] }]));
        assert_eq!(pure.get("security"), None);
        assert_eq!(
            hybrid["securitySchemes"]["bearer"],
            json!({ "type": "http", "scheme": "bearer", "httpAuthSecurityScheme": { "scheme": "bearer" } })
        );
        assert_eq!(
            hybrid["securitySchemes"]["apiKey"],
            json!({ "type": "apiKey", "in": "header", "name": "X-API-Key",
                "apiKeySecurityScheme": { "location": "header", "name": "X-API-Key" } })
        );
        assert_eq!(pure["securitySchemes"]["basic"], json!({ "httpAuthSecurityScheme": { "scheme": "basic" } }));
        assert_eq!(value(&ours(), &ours().hybrid).get("securitySchemes"), None, "only what is enforced");
    }

    #[test]
    fn the_public_address_is_told_to_everybody_and_no_host_breaks_the_card() {
        let public = Identity { base_url: "https://agent.example/a", is_public: true, ..HERE };
        let public = card(&public, &Switches::default());
        let mut request = get(None);
        request.headers.push("Host", "10.0.0.7:8080");
        assert_eq!(shown(&public.answer(&request))["url"], "https://agent.example/a/");
        let mut request = get(None);
        request.headers.push("Host", "a\",\"url\":\"http://evil");
        assert_eq!(shown(&ours().answer(&request))["url"], "http://localhost:41242/");
    }

    #[test]
    fn it_declares_what_is_switched_on() {
        let switches = Switches {
            streaming: false,
            push: false,
            extended_card: true,
            required_extensions: vec!["urn:theirs".into(), RESUME.into()],
            ..Switches::default()
        };
        let card = card(&HERE, &switches);
        let card = value(&card, &card.hybrid);
        assert_eq!(card["supportsAuthenticatedExtendedCard"], true);
        let capabilities = &card["capabilities"];
        assert_eq!(capabilities["streaming"], false);
        assert_eq!(capabilities["pushNotifications"], false);
        assert_eq!(capabilities["extendedAgentCard"], true);
        let required: Vec<&Value> =
            capabilities["extensions"].as_array().expect("a list").iter().map(|one| &one["required"]).collect();
        assert_eq!(required, [false, true, false, true]);
        assert_eq!(capabilities["extensions"][3], json!({"uri": "urn:theirs", "required": true}));
    }

    #[test]
    fn a_named_version_gets_its_edition() {
        let hybrid_first = ours();
        let pure_first = card(&HERE, &Switches { card_default: CardDefault::V1, ..Switches::default() });
        for (version, by_default, with_v1) in [
            (Some("1.0"), "pure", "pure"),
            (Some("1"), "pure", "pure"),
            (Some("1.0.1"), "pure", "pure"),
            (Some("0.3"), "hybrid", "hybrid"),
            (Some("0.3.0"), "hybrid", "hybrid"),
            (Some(""), "hybrid", "pure"),
            (None, "hybrid", "pure"),
            (Some("7.1"), "hybrid", "pure"),
        ] {
            for (card, expected) in [(&hybrid_first, by_default), (&pure_first, with_v1)] {
                let answer = card.answer(&get(version));
                let edition = match expected {
                    "pure" => &card.pure,
                    _ => &card.hybrid,
                };
                assert_eq!(shown(&answer), value(card, edition), "{version:?}");
            }
        }
        let mut request = get(None);
        request.query.push(("a2a-version".into(), "1.0".into()));
        assert_eq!(shown(&hybrid_first.answer(&request)), value(&hybrid_first, &hybrid_first.pure));
        request.headers.push("A2A-Version", "0.3");
        assert_eq!(shown(&hybrid_first.answer(&request)), value(&hybrid_first, &hybrid_first.hybrid));
        let mut old = get(None);
        old.path = "/.well-known/agent.json".into();
        assert_eq!(shown(&pure_first.answer(&old)), value(&pure_first, &pure_first.hybrid));
    }

    #[test]
    fn authenticated_clients_get_the_extended_card() {
        let card = ours();
        for (dialect, edition) in [(Dialect::REST_03_PROTO, &card.hybrid), (Dialect::REST_10, &card.pure)] {
            let response = card.extended(None, &Form::of(dialect));
            assert_eq!((response.status, shown(&response)), (200, value(&card, edition)));
        }
        let mut more = ours();
        more.extend(json!({"description": "More."}).as_object().expect("it is one"));
        let response = more.extended(None, &Form::of(Dialect::REST_10));
        let mut expected = value(&card, &card.pure);
        expected["description"] = "More.".into();
        assert_eq!(shown(&response), expected);
        assert_eq!(more.pure.whole, card.pure.whole);
        let response = card.extended(None, &Form::of(Dialect::RPC_10));
        assert_eq!(shown(&response)["result"], value(&card, &card.pure));
    }

    #[test]
    fn its_urls_have_the_host_that_was_asked_for() {
        let card = ours();
        let urls = |host: &str, query: &[(&str, &str)]| {
            let mut request = get(None);
            request.headers.push("Host", host);
            request.query = query.iter().map(|(name, word)| ((*name).into(), (*word).into())).collect();
            let card = shown(&card.answer(&request));
            let of = |name: &str| -> Vec<String> {
                let list = card[name].as_array().expect("a list").iter();
                list.map(|one| one["url"].as_str().expect("a URL").to_owned()).collect()
            };
            (card["url"].as_str().expect("a URL").to_owned(), of("additionalInterfaces"), of("supportedInterfaces"))
        };
        for host in ["127.0.0.1:41242", "[::1]:41242", "dev.example"] {
            let (rpc, rest) = (format!("http://{host}/"), format!("http://{host}"));
            let both = vec![rpc.clone(), rest.clone()];
            assert_eq!(urls(host, &[("client", "me")]), (rpc, both.clone(), [both.clone(), both].concat()));
        }
        // A query belongs to the URL of JSON-RPC. Clients of REST would append paths to it.
        let here = "http://localhost:1/?profile=plain&pieces=1".to_owned();
        assert_eq!(
            urls("LOCALHOST:1", &[("profile", "plain"), ("x", "y"), ("pieces", "1")]),
            (here.clone(), vec![here.clone()], vec![here.clone(), here])
        );
        assert_eq!(urls("localhost:1", &[("profile", "a\"b")]).0, "http://localhost:1/");
    }

    #[test]
    fn a_matching_etag_gets_304() {
        let card = ours();
        let tag = |version, host: &str| {
            let mut request = get(version);
            request.headers.push("Host", host);
            let answer = card.answer(&request);
            let etag = answer.headers.iter().find(|(name, _)| *name == "ETag").expect("a tag").1.clone();
            (answer, etag)
        };
        let tags = [(None, "a"), (None, "b"), (Some("1.0"), "a"), (Some("1.0"), "b")].map(|(v, host)| tag(v, host).1);
        assert!((1..4).all(|n| !tags[..n].contains(&tags[n])), "{tags:?}");
        for version in [None, Some("1.0")] {
            let (whole, etag) = tag(version, "a");
            let held = [
                ("Cache-Control", "public, max-age=300".into()),
                ("ETag", etag.clone()),
                ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT".into()),
                ("Vary", "A2A-Version".into()),
            ];
            assert_eq!((whole.status, &whole.headers[1..]), (200, &held[..]));
            let with = |fields: &[(&str, &str)]| {
                let mut request = get(version);
                fields.iter().for_each(|(name, value)| request.headers.push(name, value));
                request.headers.push("Host", "a");
                let answer = card.answer(&request);
                assert_eq!(answer.body.is_empty(), answer.status == 304);
                answer.status
            };
            let several = format!("\"x\", W/{etag}");
            for (tag, status) in [(etag.as_str(), 304), (&several, 304), ("*", 304), ("\"x\"", 200)] {
                assert_eq!(with(&[("If-None-Match", tag)]), status, "{tag}");
            }
            let since = |time| ("If-Modified-Since", time);
            assert_eq!(with(&[since("Sun, 06 Nov 1994 08:49:37 GMT")]), 304);
            assert_eq!(with(&[since("Sun, 06 Nov 1994 08:49:36 GMT")]), 200);
            assert_eq!(with(&[since("Sun, 06 Nov 1994 08:49:37 GMT"), ("If-None-Match", "\"x\"")]), 200);
        }
    }
}
