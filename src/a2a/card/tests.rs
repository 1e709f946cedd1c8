//! Tests of the agent card.

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
fn the_public_address_is_in_every_card_and_no_host_breaks_the_card() {
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
fn the_card_declares_the_enabled_features() {
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
fn a_request_for_a_version_gets_the_card_of_that_version() {
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
fn the_urls_have_the_host_of_the_request() {
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
