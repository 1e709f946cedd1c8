//! The card: where it is, what it promises, that each promise is kept, and that nothing in it looks like a secret.

use crate::binding::{Binding, File, Note, Op, Piece, Version};
use crate::desk::Desk;
use crate::problem::Fault;
use crate::support::client::{Client, Response};
use serde_json::{Value, json};

duties! {
    the_card_says_where_this_binding_is,
    an_extended_card_that_is_not_there,
}

const PATH: &str = "/.well-known/agent-card.json";

/// A client that uses the name of the server, and not its address, which looks like an internal one.
fn client(desk: &Desk) -> Client {
    Client::new(&format!("http://localhost:{}", desk.server.port()))
}

fn card(desk: &Desk, version: Option<&str>) -> Response {
    let client = client(desk);
    let mut client = match version {
        Some(version) => client.field("A2A-Version", version),
        None => client,
    };
    client.get(PATH)
}

fn names(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn the_card_says_where_this_binding_is(desk: &mut Desk) {
    let card = card(desk, None).json();
    let (transport, version) = match desk.binding {
        Binding::Rpc03 => ("JSONRPC", "0.3"),
        Binding::Rest03 => ("HTTP+JSON", "0.3"),
        Binding::Rpc10 => ("JSONRPC", "1.0"),
        Binding::Rest10 => ("HTTP+JSON", "1.0"),
    };
    let interfaces = card["supportedInterfaces"].as_array().expect("interfaces");
    let ours =
        interfaces.iter().find(|entry| entry["protocolBinding"] == transport && entry["protocolVersion"] == version);
    let ours = ours.unwrap_or_else(|| panic!("no {transport} {version} in {card}"));
    let port = desk.server.port();
    let url = match transport {
        "JSONRPC" => format!("http://localhost:{port}/"),
        // Clients append the path.
        _ => format!("http://localhost:{port}"),
    };
    assert_eq!(ours["url"], url);
    if desk.is(Version::V03) {
        let further = card["additionalInterfaces"].as_array().expect("interfaces");
        assert!(further.contains(&json!({"url": url, "transport": transport})), "{card}");
    }
    assert_eq!(desk.task(Note::new("tck-complete-task")).state(), "completed");
}

fn an_extended_card_that_is_not_there(desk: &mut Desk) {
    desk.refused(&Op::ExtendedCard, Fault::NoExtendedCard);
}

fn anywhere() -> Desk {
    Desk::with(Binding::Rpc03, &[])
}

#[test]
fn the_card_of_0_3_and_1_0_in_one() {
    let desk = anywhere();
    for version in [None, Some(""), Some("0.3")] {
        let card = card(&desk, version).json();
        assert_eq!(card["protocolVersion"], "0.3.0");
        assert_eq!(card["preferredTransport"], "JSONRPC");
        assert_eq!(card["url"], format!("http://localhost:{}/", desk.server.port()));
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
fn the_card_of_1_0_has_nothing_else() {
    let desk = anywhere();
    let card = card(&desk, Some("1.0")).json();
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
    let mut desk = anywhere();
    for mode in card(&desk, None).json()["defaultInputModes"].as_array().expect("modes") {
        let file = File { name: None, media: mode.as_str().map(str::to_owned) };
        let note = Note::new("tck-complete-task").saying(vec![Piece::Bytes("dGNr".into(), file)]);
        assert_eq!(desk.task(note).state(), "completed", "{mode}");
    }
}

#[test]
fn the_card_leads_to_the_host_that_was_asked() {
    let desk = anywhere();
    let port = desk.server.port();
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
fn a_back_end_may_forward_the_origin_of_its_page() {
    let desk = anywhere();
    let mut client = Client::new(&desk.server.url());
    let origin = [("Origin", "https://inspector.example")];
    let card = client.request("GET", PATH, &origin, b"");
    assert_eq!((card.status(), card.head.field("access-control-allow-origin")), (200, None));
    for (method, path) in [("GET", "/tasks"), ("POST", "/"), ("OPTIONS", PATH)] {
        assert_eq!(client.request(method, path, &origin, b"").status(), 403, "{method} {path}");
    }
}

#[test]
fn no_scheme_is_declared_that_is_not_enforced() {
    let card = card(&anywhere(), None).json();
    for name in ["securitySchemes", "security", "securityRequirements"] {
        assert_eq!(card.get(name), None);
    }
}

#[test]
fn extensions_are_declared_and_not_required() {
    let card = card(&anywhere(), None).json();
    let extensions = card["capabilities"]["extensions"].as_array().expect("extensions");
    let development = "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";
    assert!(extensions.iter().any(|extension| extension["uri"] == development), "{extensions:?}");
    assert!(extensions.len() > 1, "going on at a position is one of ours: {extensions:?}");
    assert!(extensions.iter().all(|extension| extension["required"] == false), "{extensions:?}");
}

#[test]
fn the_card_can_be_kept_and_asked_for_again() {
    let desk = anywhere();
    for version in [None, Some("1.0")] {
        let first = card(&desk, version);
        let field =
            |name: &str| first.head.field(name).unwrap_or_else(|| panic!("{name} in {:?}", first.head)).to_owned();
        assert!(field("cache-control").contains("max-age="));
        assert!(field("last-modified").ends_with(" GMT"));
        assert!(field("vary").to_lowercase().contains("a2a-version"));
        assert_eq!(field("content-type"), "application/json");
        let mut client = client(&desk).field("A2A-Version", version.unwrap_or(""));
        let etag = field("etag");
        assert_eq!(client.request("GET", PATH, &[("If-None-Match", &etag)], b"").status(), 304);
        let head = client.request("HEAD", PATH, &[], b"");
        assert_eq!((head.status(), head.head.field("etag")), (200, Some(etag.as_str())));
    }
    assert_ne!(card(&desk, None).head.field("etag"), card(&desk, Some("1.0")).head.field("etag"));
    let old = client(&desk).get("/.well-known/agent.json");
    assert_eq!(old.json(), card(&desk, None).json());
}

/// Kits search the card for what looks like a secret or an internal address, with patterns as coarse as these.
#[test]
fn nothing_in_the_card_looks_like_a_secret() {
    let desk = anywhere();
    for version in [None, Some("1.0")] {
        let text = card(&desk, version).text().to_lowercase();
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
fn a_server_may_show_the_card_of_1_0_to_everybody() {
    let desk = Desk::with(Binding::Rpc03, &[&["--card-default", "v1"]]);
    assert_eq!(card(&desk, None).json(), card(&desk, Some("1.0")).json());
    assert!(card(&desk, Some("0.3")).json().get("protocolVersion").is_some());
}
