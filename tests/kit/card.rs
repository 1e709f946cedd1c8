//! The agent card: its address, its content, whether the server does what the card declares, and that nothing in it looks like a secret.

use crate::binding::{Binding, File, Op, Part, Prompt, Version};
use crate::harness::Harness;
use crate::problem::Fault;
use crate::support::client::{Client, Response};
use serde_json::{Value, json};

every_binding! {
    the_card_has_the_address_of_this_binding,
    a_missing_extended_card_is_refused,
}

const PATH: &str = "/.well-known/agent-card.json";

/// A client that uses the name of the server, and not its address, which looks like an internal one.
fn client(harness: &Harness) -> Client {
    Client::new(&format!("http://localhost:{}", harness.server.port()))
}

fn card(harness: &Harness, version: Option<&str>) -> Response {
    let client = client(harness);
    let mut client = match version {
        Some(version) => client.field("A2A-Version", version),
        None => client,
    };
    client.get(PATH)
}

fn names(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn the_card_has_the_address_of_this_binding(harness: &mut Harness) {
    let card = card(harness, None).json();
    let (transport, version) = match harness.binding {
        Binding::Rpc03 => ("JSONRPC", "0.3"),
        Binding::Rest03 => ("HTTP+JSON", "0.3"),
        Binding::Rpc10 => ("JSONRPC", "1.0"),
        Binding::Rest10 => ("HTTP+JSON", "1.0"),
    };
    let interfaces = card["supportedInterfaces"].as_array().expect("interfaces");
    let ours =
        interfaces.iter().find(|entry| entry["protocolBinding"] == transport && entry["protocolVersion"] == version);
    let ours = ours.unwrap_or_else(|| panic!("no {transport} {version} in {card}"));
    let port = harness.server.port();
    let url = match transport {
        "JSONRPC" => format!("http://localhost:{port}/"),
        // Clients append the path.
        _ => format!("http://localhost:{port}"),
    };
    assert_eq!(ours["url"], url);
    if harness.is(Version::V03) {
        let further = card["additionalInterfaces"].as_array().expect("interfaces");
        assert!(further.contains(&json!({"url": url, "transport": transport})), "{card}");
    }
    assert_eq!(harness.task(Prompt::new("tck-complete-task")).state(), "completed");
}

fn a_missing_extended_card_is_refused(harness: &mut Harness) {
    harness.expect_refusal(&Op::ExtendedCard, Fault::NoExtendedCard);
}

/// A harness for tests that do not depend on the binding.
fn any_binding() -> Harness {
    Harness::with(Binding::Rpc03, &[])
}

#[test]
fn the_default_card_has_the_members_of_0_3_and_1_0() {
    let harness = any_binding();
    for version in [None, Some(""), Some("0.3")] {
        let card = card(&harness, version).json();
        assert_eq!(card["protocolVersion"], "0.3.0");
        assert_eq!(card["preferredTransport"], "JSONRPC");
        assert_eq!(card["url"], format!("http://localhost:{}/", harness.server.port()));
        for name in ["name", "description", "version"] {
            assert!(card[name].as_str().is_some_and(|text| !text.is_empty()), "{name}");
        }
        for name in ["streaming", "pushNotifications", "stateTransitionHistory"] {
            assert_eq!(card["capabilities"][name], true, "{name}");
        }
        assert_eq!(card["supportsAuthenticatedExtendedCard"], false);
        let versions: Vec<&Value> =
            card["supportedInterfaces"].as_array().expect("interfaces").iter().map(|i| &i["protocolVersion"]).collect();
        assert_eq!(versions, ["1.0", "1.0", "0.3", "0.3"], "the newer come first");
        skills(&card);
    }
}

#[test]
fn the_card_of_1_0_has_only_members_of_1_0() {
    let harness = any_binding();
    let card = card(&harness, Some("1.0")).json();
    let known = [
        "name",
        "description",
        "supportedInterfaces",
        "provider",
        "version",
        "documentationUrl",
        "capabilities",
        "securitySchemes",
        "securityRequirements",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
        "signatures",
        "iconUrl",
    ];
    assert!(names(&card).iter().all(|name| known.contains(name)), "{card}");
    for name in [
        "name",
        "description",
        "version",
        "capabilities",
        "skills",
        "supportedInterfaces",
        "defaultInputModes",
        "defaultOutputModes",
    ] {
        assert!(card.get(name).is_some(), "{name}");
    }
    let known = ["streaming", "pushNotifications", "extensions", "extendedAgentCard"];
    assert!(names(&card["capabilities"]).iter().all(|name| known.contains(name)), "{card}");
    for extension in card["capabilities"]["extensions"].as_array().expect("extensions") {
        assert!(names(extension).iter().all(|name| ["uri", "description", "required", "params"].contains(name)));
    }
    for interface in card["supportedInterfaces"].as_array().expect("interfaces") {
        assert_eq!(names(interface), ["protocolBinding", "protocolVersion", "url"]);
        assert!(["JSONRPC", "HTTP+JSON"].contains(&interface["protocolBinding"].as_str().unwrap_or("")));
    }
    let known = ["id", "name", "description", "tags", "examples", "inputModes", "outputModes", "securityRequirements"];
    for skill in card["skills"].as_array().expect("skills") {
        assert!(names(skill).iter().all(|name| known.contains(name)));
    }
    skills(&card);
}

fn skills(card: &Value) {
    let skills = card["skills"].as_array().expect("skills");
    assert!(!skills.is_empty());
    for skill in skills {
        for name in ["id", "name", "description"] {
            assert!(skill[name].is_string(), "{name} in {skill}");
        }
        assert!(skill["tags"].is_array(), "{skill}");
        assert_eq!(skill["inputModes"], card["defaultInputModes"]);
        assert_eq!(skill["outputModes"], card["defaultOutputModes"]);
    }
    for name in ["defaultInputModes", "defaultOutputModes"] {
        let modes = card[name].as_array().expect("modes");
        assert!(
            !modes.is_empty() && modes.iter().all(|mode| mode.as_str().is_some_and(|mode| mode.contains('/'))),
            "{name}"
        );
    }
}

#[test]
fn every_input_mode_is_accepted() {
    let mut harness = any_binding();
    for mode in card(&harness, None).json()["defaultInputModes"].as_array().expect("modes") {
        let file = File { name: None, media: mode.as_str().map(str::to_owned) };
        let prompt = Prompt::new("tck-complete-task").with_parts(vec![Part::Bytes("dGNr".into(), file)]);
        assert_eq!(harness.task(prompt).state(), "completed", "{mode}");
    }
}

#[test]
fn the_addresses_in_the_card_have_the_host_of_the_request() {
    let harness = any_binding();
    let port = harness.server.port();
    for host in ["127.0.0.1", "localhost"] {
        let mut client = Client::new(&format!("http://{host}:{port}"));
        let card = client.get(PATH).json();
        assert_eq!(card["url"], format!("http://{host}:{port}/"));
        let chosen = client.get(&format!("{PATH}?profile=coder")).json();
        let url = format!("http://{host}:{port}/?profile=coder");
        assert_eq!(chosen["url"], url);
        let interfaces = chosen["supportedInterfaces"].as_array().expect("interfaces");
        assert!(interfaces.iter().all(|entry| entry["protocolBinding"] == "JSONRPC" && entry["url"] == url));
    }
}

#[test]
fn the_card_is_served_to_any_origin_and_other_paths_are_not() {
    let harness = any_binding();
    let mut client = Client::new(&harness.server.url());
    let origin = [("Origin", "https://inspector.example")];
    let card = client.request("GET", PATH, &origin, b"");
    assert_eq!((card.status(), card.head.field("access-control-allow-origin")), (200, None));
    for (method, path) in [("GET", "/tasks"), ("POST", "/"), ("OPTIONS", PATH)] {
        assert_eq!(client.request(method, path, &origin, b"").status(), 403, "{method} {path}");
    }
}

#[test]
fn no_scheme_is_declared_that_is_not_enforced() {
    let card = card(&any_binding(), None).json();
    for name in ["securitySchemes", "security", "securityRequirements"] {
        assert_eq!(card.get(name), None);
    }
}

#[test]
fn extensions_are_declared_and_not_required() {
    let card = card(&any_binding(), None).json();
    let extensions = card["capabilities"]["extensions"].as_array().expect("extensions");
    let development = "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";
    assert!(extensions.iter().any(|extension| extension["uri"] == development), "{extensions:?}");
    assert!(
        extensions.len() > 1,
        "extensions of this server, such as resuming a stream, are declared too: {extensions:?}"
    );
    assert!(extensions.iter().all(|extension| extension["required"] == false), "{extensions:?}");
}

#[test]
fn the_card_can_be_cached_and_revalidated() {
    let harness = any_binding();
    for version in [None, Some("1.0")] {
        let first = card(&harness, version);
        let field =
            |name: &str| first.head.field(name).unwrap_or_else(|| panic!("{name} in {:?}", first.head)).to_owned();
        assert!(field("cache-control").contains("max-age="));
        assert!(field("last-modified").ends_with(" GMT"));
        assert!(field("vary").to_lowercase().contains("a2a-version"));
        assert_eq!(field("content-type"), "application/json");
        let mut client = client(&harness).field("A2A-Version", version.unwrap_or(""));
        let etag = field("etag");
        assert_eq!(client.request("GET", PATH, &[("If-None-Match", &etag)], b"").status(), 304);
        let head = client.request("HEAD", PATH, &[], b"");
        assert_eq!((head.status(), head.head.field("etag")), (200, Some(etag.as_str())));
    }
    assert_ne!(card(&harness, None).head.field("etag"), card(&harness, Some("1.0")).head.field("etag"));
    let old = client(&harness).get("/.well-known/agent.json");
    assert_eq!(old.json(), card(&harness, None).json());
}

/// Kits search the card for what looks like a secret or an internal address, with patterns as coarse as these.
#[test]
fn nothing_in_the_card_looks_like_a_secret() {
    let harness = any_binding();
    for version in [None, Some("1.0")] {
        let text = card(&harness, version).text().to_lowercase();
        for word in [
            "api_key",
            "api-key",
            "apikey",
            "secret",
            "token",
            "password",
            "credential",
            "127.0.0.1",
            "192.168.",
            "10.",
            "172.1",
            "172.2",
            "172.3",
        ] {
            assert!(!text.contains(word), "{word:?} in {text}");
        }
        for word in ["internal", "private", "admin", "debug", "test", "database", "db_", "redis", "mongo", "sql"] {
            assert!(!text.contains(word), "{word:?} in {text}");
        }
    }
}

#[test]
fn the_card_of_1_0_may_be_the_default() {
    let harness = Harness::with(Binding::Rpc03, &[&["--card-default", "v1"]]);
    assert_eq!(card(&harness, None).json(), card(&harness, Some("1.0")).json());
    assert!(card(&harness, Some("0.3")).json().get("protocolVersion").is_some());
}
