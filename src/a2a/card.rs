//! The agent card. There are two editions: the pure one has the members of 1.0 only, the hybrid has those of 0.3 too. Clients of 1.0
//! read either, but some conformance tests refuse unknown members: a request that names version 1.0 gets the pure card. Clients of 0.3
//! name no version, so all other requests get the hybrid.
//!
//! Only what is enforced is declared: no security schemes that the server does not check.

use crate::a2a;
use crate::a2a::form::Form;
use crate::a2a::requests::object::Object;
use crate::a2a::requests::version;
use crate::a2a::switches::{CardDefault, Switches};
use crate::a2a::words::{EXT, RESUME};
use crate::base::Shared;
use crate::base::clock::http_date;
use crate::base::crc::crc32;
use crate::base::http::{Request, Response};
use crate::base::json;
use crate::task::log::event::Protocol;
use serde_json::{Value, json};

/// What the card says about this server.
pub struct Identity<'a> {
    /// Where clients reach the server, from the configuration: the `Host` of a request is not trusted for it.
    pub base_url: &'a str,
    pub version: &'a str,
    /// When the card was made.
    pub unix_ms: u64,
}

/// The card encoded, with what identifies each edition of it.
pub struct Card {
    pure: Edition,
    hybrid: Edition,
    /// The same two for authenticated clients.
    extended: [Shared; 2],
    by_default: CardDefault,
    last_modified: String,
}

struct Edition {
    body: Shared,
    etag: String,
}

pub fn card(identity: &Identity<'_>, switches: &Switches) -> Card {
    let pure = pure(identity, switches);
    let hybrid = Edition::of(&hybrid(pure.clone(), identity, switches));
    let pure = Edition::of(&pure);
    Card {
        extended: [hybrid.body.clone(), pure.body.clone()],
        hybrid,
        pure,
        by_default: switches.card_default,
        last_modified: http_date(identity.unix_ms),
    }
}

impl Card {
    /// The answer to a request for the card; 304 when the client has this edition.
    pub fn answer(&self, request: &Request) -> Response {
        let edition = self.edition(request);
        let headers = &request.headers;
        let known = match headers.get("if-none-match") {
            Some(_) => headers
                .list("if-none-match")
                .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == edition.etag),
            None => headers.get("if-modified-since") == Some(&self.last_modified),
        };
        let response = if known {
            Response::empty(304)
        } else {
            Response { body: edition.body.clone(), ..Response::json(200, Vec::new()) }
        };
        response
            .with("Cache-Control", "public, max-age=300")
            .with("ETag", edition.etag.as_str())
            .with("Last-Modified", self.last_modified.as_str())
            .with("Vary", "A2A-Version")
    }

    /// Sets these members of the extended card, in place of the public ones.
    pub fn extend(&mut self, more: &Object) {
        for body in &mut self.extended {
            let mut card: Object = serde_json::from_slice(body).expect("we wrote it");
            card.extend(more.clone());
            *body = json::bytes(&card).into();
        }
    }

    /// The card for authenticated clients; the admission check has refused all others.
    pub fn extended(&self, form: &Form) -> Response {
        let [hybrid, pure] = &self.extended;
        let body = match form.dialect.protocol {
            Protocol::V03 => hybrid,
            Protocol::V10 => pure,
        };
        a2a::result(form, &**body)
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

impl Edition {
    fn of(card: &Value) -> Edition {
        let body = json::bytes(card);
        Edition { etag: format!("\"{:08x}\"", crc32(&body)), body: body.into() }
    }
}

/// The members of 1.0. Interfaces are in the order of preference; REST clients append their paths to a URL without a slash.
fn pure(identity: &Identity<'_>, switches: &Switches) -> Value {
    let rest = identity.base_url.trim_end_matches('/');
    let rpc = format!("{rest}/");
    let interface =
        |url: &str, binding, version| json!({ "url": url, "protocolBinding": binding, "protocolVersion": version });
    json!({
        "name": "Gemini SDLC Agent",
        "description": "Writes and edits code and runs commands in a workspace, asking before it changes anything.",
        "version": identity.version,
        "supportedInterfaces": [
            interface(&rpc, "JSONRPC", "1.0"),
            interface(rest, "HTTP+JSON", "1.0"),
            interface(&rpc, "JSONRPC", "0.3"),
            interface(rest, "HTTP+JSON", "0.3"),
        ],
        "capabilities": {
            "streaming": switches.streaming,
            "pushNotifications": switches.push,
            "extendedAgentCard": switches.extended_card,
            "extensions": extensions(&switches.required_extensions),
        },
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [{
            "id": "code_generation",
            "name": "Code Generation",
            "description": "Generates and edits code in the workspace and runs tools, streaming what it does.",
            "tags": ["code", "development", "programming"],
        }],
    })
}

/// The members of 0.3 beside those of 1.0.
fn hybrid(mut card: Value, identity: &Identity<'_>, switches: &Switches) -> Value {
    let rest = identity.base_url.trim_end_matches('/');
    let rpc = format!("{rest}/");
    card["protocolVersion"] = "0.3.0".into();
    card["additionalInterfaces"] = json!([
        { "url": rpc, "transport": "JSONRPC" },
        { "url": rest, "transport": "HTTP+JSON" },
    ]);
    card["url"] = rpc.into();
    card["preferredTransport"] = "JSONRPC".into();
    card["supportsAuthenticatedExtendedCard"] = switches.extended_card.into();
    card["capabilities"]["stateTransitionHistory"] = true.into();
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

    const HERE: Identity<'static> =
        Identity { base_url: "http://localhost:41242", version: "0.1.0", unix_ms: 784_111_777_000 };

    fn ours() -> Card {
        card(&HERE, &Switches::default())
    }

    fn value(edition: &Edition) -> Value {
        serde_json::from_slice(&edition.body).expect("JSON")
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
        let card = value(&ours().pure);
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
        assert_eq!(named, [(&json!(EXT), &no), (&json!(RESUME), &no)]);
    }

    #[test]
    fn the_hybrid_is_the_pure_card_and_more() {
        let hybrid = value(&ours().hybrid);
        let mut expected = value(&ours().pure);
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
        assert_eq!(trailing.hybrid.body, ours().hybrid.body);
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
        let card = value(&card(&HERE, &switches).hybrid);
        assert_eq!(card["supportsAuthenticatedExtendedCard"], true);
        let capabilities = &card["capabilities"];
        assert_eq!(capabilities["streaming"], false);
        assert_eq!(capabilities["pushNotifications"], false);
        assert_eq!(capabilities["extendedAgentCard"], true);
        let required: Vec<&Value> =
            capabilities["extensions"].as_array().expect("a list").iter().map(|one| &one["required"]).collect();
        assert_eq!(required, [false, true, true]);
        assert_eq!(capabilities["extensions"][2], json!({"uri": "urn:theirs", "required": true}));
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
                assert_eq!(answer.body, edition.body, "{version:?}");
            }
        }
        let mut request = get(None);
        request.query.push(("a2a-version".into(), "1.0".into()));
        assert_eq!(hybrid_first.answer(&request).body, hybrid_first.pure.body);
        request.headers.push("A2A-Version", "0.3");
        assert_eq!(hybrid_first.answer(&request).body, hybrid_first.hybrid.body);
        let mut old = get(None);
        old.path = "/.well-known/agent.json".into();
        assert_eq!(pure_first.answer(&old).body, pure_first.hybrid.body);
    }

    #[test]
    fn authenticated_clients_get_the_extended_card() {
        let card = ours();
        for (dialect, edition) in [(Dialect::REST_03_PROTO, &card.hybrid), (Dialect::REST_10, &card.pure)] {
            let response = card.extended(&Form::of(dialect));
            assert_eq!((response.status, &response.body), (200, &edition.body));
        }
        let mut more = ours();
        more.extend(json!({"description": "More."}).as_object().expect("it is one"));
        let response = more.extended(&Form::of(Dialect::REST_10));
        let mut expected = value(&card.pure);
        expected["description"] = "More.".into();
        let extended: Value = serde_json::from_slice(&response.body).expect("JSON");
        assert_eq!(extended, expected);
        assert_eq!(more.pure.body, card.pure.body);
        let response = card.extended(&Form::of(Dialect::RPC_10));
        let answer: Value = serde_json::from_slice(&response.body).expect("JSON");
        assert_eq!(answer["result"], value(&card.pure));
    }

    #[test]
    fn a_matching_etag_gets_304() {
        let card = ours();
        assert_ne!(card.pure.etag, card.hybrid.etag);
        for (version, edition) in [(None, &card.hybrid), (Some("1.0"), &card.pure)] {
            let whole = card.answer(&get(version));
            assert_eq!((whole.status, &whole.body), (200, &edition.body));
            let held = [
                ("Cache-Control", "public, max-age=300".into()),
                ("ETag", edition.etag.clone()),
                ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT".into()),
                ("Vary", "A2A-Version".into()),
            ];
            assert_eq!(whole.headers[1..], held);
            for (tag, status) in [
                (edition.etag.clone(), 304),
                (format!("\"x\", W/{}", edition.etag), 304),
                ("*".into(), 304),
                ("\"x\"".into(), 200),
            ] {
                let mut request = get(version);
                request.headers.push("If-None-Match", &tag);
                let answer = card.answer(&request);
                assert_eq!(answer.status, status, "{tag}");
                assert_eq!(answer.body.is_empty(), status == 304);
            }
            for (time, tag, status) in [
                ("Sun, 06 Nov 1994 08:49:37 GMT", None, 304),
                ("Sun, 06 Nov 1994 08:49:36 GMT", None, 200),
                ("Sun, 06 Nov 1994 08:49:37 GMT", Some("\"x\""), 200),
            ] {
                let mut request = get(version);
                request.headers.push("If-Modified-Since", time);
                if let Some(tag) = tag {
                    request.headers.push("If-None-Match", tag);
                }
                assert_eq!(card.answer(&request).status, status, "{time} {tag:?}");
            }
        }
        let other = Identity { base_url: "http://localhost:1", ..HERE };
        let other = super::card(&other, &Switches::default());
        assert_ne!(card.pure.etag, other.pure.etag);
    }
}
