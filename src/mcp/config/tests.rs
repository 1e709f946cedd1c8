use super::client::{Client, ClientServers, Request, servers};
use super::gate::Gate;
use super::*;
use crate::limits::mcp::{CLIENT_HEADER_BYTES, CLIENT_SERVERS};
use crate::mcp::state::State;

fn env(name: &str) -> Option<String> {
    match name {
        "X" => Some("x-value".into()),
        "OWN" => Some("our-own-key".into()),
        _ => None,
    }
}

fn read(value: Value, layer: Layer) -> Definition {
    let env = Environment { get: &env, is_credential: &|name| name == "OWN" };
    Definition::read("s", &value, layer, &env).expect("an entry")
}

/// A server of the user's settings.
pub fn server(name: &str, value: Value) -> Server {
    let nothing = Environment { get: &env, is_credential: &|_| false };
    let mut read = Definition::read(name, &value, Layer::User, &nothing).expect("an entry");
    read.server().expect("it is valid").expect("it is a server")
}

fn error(value: Value) -> String {
    read(value, Layer::User).server().expect_err("it is refused")
}

#[test]
fn entries_become_servers() {
    let stdio = server(
        "s",
        json!({"command": "node", "args": ["a.js", "${X}"], "env": {"K": "$X"}, "cwd": "d", "timeout": 5,
        "trust": true, "parallel": true, "isolation": "task", "oauth": {"clientId": "c", "clientSecret": "long-secret"}}),
    );
    let env = vec![("K".to_owned(), Secret::new("x-value"))];
    let args = vec!["a.js".to_owned(), "x-value".to_owned()];
    assert_eq!(stdio.transport, Transport::Stdio { command: "node".into(), args, env, cwd: Some("d".into()) });
    assert_eq!((stdio.timeout_ms, stdio.startup_ms, stdio.trust, stdio.parallel), (5, START_MS, true, true));
    assert_eq!(stdio.isolation, Isolation::Task);
    for (entry, expected) in [
        (json!({"url": "http://h/"}), Network::Either),
        (json!({"url": "http://h/", "type": "http"}), Network::Http),
        (json!({"url": "http://h/", "type": "sse"}), Network::Sse),
        (json!({"httpUrl": "http://h/", "url": "http://other/", "type": "sse"}), Network::Http),
        (json!({"url": "http://h/", "command": "x"}), Network::Either),
    ] {
        let Transport::Network { url, kind, .. } = server("s", entry.clone()).transport else { panic!("{entry}") };
        assert_eq!((url.shown().as_str(), kind), ("http://h/", expected), "{entry}");
    }
    assert_eq!(read(json!({"timeout": 5}), Layer::User).server(), Ok(None), "it only changes an extension's");
    let mut deprecated = read(json!({"httpUrl": "http://h/", "unknown": 1}), Layer::User);
    deprecated.server().expect("it is valid");
    assert_eq!(deprecated.notices.len(), 2, "{:?}", deprecated.notices);
}

#[test]
fn wrong_entries_name_their_key_and_no_value() {
    for (entry, key) in [
        (json!({"command": 5}), ".command must"),
        (json!({"command": " "}), ".command must"),
        (json!({"command": "x", "args": "s3cret"}), ".args must"),
        (json!({"command": "x", "env": {"K": 5}}), ".env must"),
        (json!({"command": "x", "timeout": 0}), ".timeout must"),
        (json!({"command": "x", "trust": "s3cret"}), ".trust must"),
        (json!({"url": "s3cret"}), ".url must"),
        (json!({"url": "http://h/", "type": "s3cret"}), ".type must"),
        (json!({"url": "http://h/", "headers": {"Host": "s3cret"}}), "may not set Host"),
        (json!({"url": "http://h/", "headers": {"MCP-Session-Id": "s3cret"}}), "may not set"),
        (json!({"url": "http://h/", "headers": {"X": "a\r\nb: s3cret"}}), ".headers must"),
        (json!({"url": "http://h/", "headers": {"a b": "s3cret"}}), ".headers must"),
        (json!({"url": "http://h/", "isolation": "s3cret"}), ".isolation must"),
        (json!({"url": "http://h/", "tcp": "s3cret"}), ".tcp is not supported"),
        (json!({"url": "http://h/", "authProviderType": "x"}), "not supported"),
    ] {
        let message = error(entry.clone());
        assert!(message.contains(key) && !message.contains("s3cret"), "{entry}: {message}");
    }
    let nothing = Environment { get: &env, is_credential: &|_| false };
    for (name, is_valid) in [("a.B-1_", true), ("", false), ("a b", false), ("é", false), ("a/b", false)] {
        assert_eq!(Definition::read(name, &json!({}), Layer::User, &nothing).is_ok(), is_valid, "{name}");
    }
    for (length, is_valid) in [(SERVER_NAME_CHARS, true), (SERVER_NAME_CHARS + 1, false)] {
        assert_eq!(Definition::read(&"x".repeat(length), &json!({}), Layer::User, &nothing).is_ok(), is_valid);
    }
}

#[test]
fn check_8_a_variable_that_is_not_set_refuses_the_server_but_in_env() {
    let message = error(json!({"command": "x", "args": ["${NONE}"]}));
    assert!(message.contains("NONE") && message.contains(".args"), "{message}");
    assert!(read(json!({"command": "x", "args": ["${NONE:-d}"]}), Layer::User).server().is_ok());
    let mut empty = read(json!({"command": "x", "env": {"K": "a${NONE}"}}), Layer::User);
    let Ok(Some(Server { transport: Transport::Stdio { env, .. }, .. })) = empty.server() else { panic!("no server") };
    assert_eq!(env, [("K".to_owned(), Secret::new("a"))]);
    assert!(empty.notices[0].contains("NONE"), "{:?}", empty.notices);
}

#[test]
fn check_7_credentials_of_this_program_are_for_the_operators_settings_only() {
    let entry = json!({"url": "http://h/?k=$OWN", "headers": {"A": "${OWN}", "B": "${OWN:-other}", "C": "$X"}});
    let values = |layer: Layer| {
        let mut read = read(entry.clone(), layer);
        let Ok(Some(Server { transport: Transport::Network { url, headers, .. }, .. })) = read.server() else {
            panic!("no server")
        };
        let headers: Vec<String> = headers.iter().map(|(_, value)| value.reveal().to_owned()).collect();
        (url.whole().reveal().to_owned(), headers.join(" "), read.notices.len())
    };
    let written = ("http://h/?k=$OWN".to_owned(), "${OWN} ${OWN:-other} x-value".to_owned(), 3);
    assert_eq!(values(Layer::Workspace), written);
    assert_eq!(values(Layer::Extension("e".into())), written);
    let expanded = ("http://h/?k=our-own-key".to_owned(), "our-own-key our-own-key x-value".to_owned(), 0);
    assert_eq!(values(Layer::User), expanded);
}

#[test]
fn check_54_trust_counts_only_from_the_operator() {
    let entry = json!({"command": "x", "trust": true});
    for layer in [Layer::Workspace, Layer::Extension("e".into())] {
        let mut read = read(entry.clone(), layer);
        assert!(read.server().is_ok_and(|server| server.is_some_and(|server| !server.trust)));
        assert!(read.notices[0].contains("trust"), "{:?}", read.notices);
    }
    let mut over =
        read(json!({"trust": true}), Layer::User).over(read(json!({"command": "x"}), Layer::Extension("e".into())));
    assert!(
        over.server().is_ok_and(|server| server.is_some_and(|server| server.trust)),
        "the user trusts the extension's"
    );
}

#[test]
fn settings_win_over_an_extension_per_key() {
    let theirs = json!({"command": "ext", "args": ["$NONE"], "env": {"A": "1", "B": "$OWN"}, "excludeTools": ["a"], "includeTools": ["b", "c"], "timeout": 7});
    let ours = json!({"args": ["ours"], "env": {"A": "2"}, "excludeTools": ["d"], "includeTools": ["c", "d"]});
    let mut over = read(ours, Layer::User).over(read(theirs, Layer::Extension("e".into())));
    let server = over.server().expect("the variable is not needed any more").expect("a server");
    let Transport::Stdio { command, args, env, .. } = server.transport else { panic!("not stdio") };
    assert_eq!((command.as_str(), args), ("ext", vec!["ours".to_owned()]));
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
    assert_eq!(env, [("A", "2"), ("B", "$OWN")], "the extension's variables are not expanded by the user's rules");
    assert_eq!((server.exclude, server.include), (vec!["a".to_owned(), "d".to_owned()], Some(vec!["c".to_owned()])));
    assert_eq!((server.timeout_ms, server.layer), (7, Layer::Extension("e".into())));
}

#[test]
fn check_56_the_hash_changes_with_what_is_started() {
    let hash = |entry: Value| server("s", entry).config_hash;
    let base = json!({"command": "a", "args": ["$X"], "env": {"K": "1"}, "cwd": "d"});
    let same =
        json!({"command": "a", "args": ["$X"], "env": {"K": "2"}, "cwd": "d", "timeout": 5, "headers": {"A": "b"}});
    assert_eq!(hash(base.clone()), hash(same.clone()), "values of variables and times do not count");
    assert_ne!(server("s", base.clone()).pool_key, server("s", same).pool_key);
    for (key, value) in [
        ("command", json!("b")),
        ("args", json!([])),
        ("env", json!({"L": "1"})),
        ("cwd", json!("e")),
        ("url", json!("http://h/")),
    ] {
        let mut other = base.clone();
        other[key] = value;
        assert_ne!(hash(base.clone()), hash(other), "{key}");
    }
}

#[test]
fn check_60_no_secret_is_printed_and_all_are_removed_from_texts() {
    let stdio =
        server("s", json!({"command": "x", "env": {"K": "env-secret"}, "oauth": {"clientSecret": "oauth-secret"}}));
    let network = server(
        "s",
        json!({"url": "http://user-secret:pass-secret@h/?q=query-secret", "headers": {"Authorization": "Bearer header-secret"}}),
    );
    assert!(!format!("{stdio:?}{network:?}").contains("-secret"), "{stdio:?} {network:?}");
    for secret in ["env-secret", "oauth-secret"] {
        assert_eq!(stdio.redactor().hide(&format!("x {secret} y")), "x [redacted] y");
    }
    for secret in ["user-secret", "pass-secret", "query-secret", "header-secret", "Bearer header-secret"] {
        assert_eq!(network.redactor().hide(&format!("x {secret} y")), "x [redacted] y");
    }
    assert!(network.has_authorization() && !stdio.has_authorization());
}

#[test]
fn which_variables_a_program_inherits() {
    for (name, value, expected) in [
        ("PATH", "/bin", true),
        ("LC_ALL", "C", true),
        ("XDG_RUNTIME_DIR", "/run", true),
        ("HTTPS_PROXY", "http://proxy:1", true),
        ("https_proxy", "http://user:pw@proxy:1", false),
        ("GEMINI_API_KEY", "k", false),
        ("AWS_SECRET_ACCESS_KEY", "k", false),
        ("LD_PRELOAD", "x", false),
    ] {
        assert_eq!(is_inherited(name, value), expected, "{name}");
    }
}

#[test]
fn lists_of_servers_block_and_disable() {
    let mut gate = Gate::default();
    assert_eq!(gate.refuses("a"), None);
    gate.add(&json!({"mcp": {"allowed": [], "excluded": ["x"]}}), &Layer::System);
    gate.add(&json!({"allowMCPServers": ["a", "b", "x", "D"], "excludeMCPServers": ["y"]}), &Layer::User);
    gate.add(&json!({"mcp": {"allowed": ["b", "c", "x", "D"]}}), &Layer::Workspace);
    gate.disable(&json!({"d": {"enabled": false}, "b": {"enabled": true}}));
    let word = |gate: &Gate, name: &str| gate.refuses(name).map(|state| state.word());
    assert_eq!(
        ["a", "b", "c", "x", "y", "D"].map(|name| word(&gate, name)),
        [Some("blocked"), None, Some("blocked"), Some("blocked"), Some("blocked"), Some("disabled")]
    );
    gate.narrow(&["D".to_owned()]);
    assert_eq!(word(&gate, "b"), Some("blocked"));
    assert_eq!(gate.refuses("D"), Some(State::Disabled));
}

#[test]
fn check_71_clients_name_servers_only_as_the_operator_allows() {
    let taken = ["mine".to_owned()];
    let of = |allowed: &ClientServers, client: Client, value: Value| {
        let request = Request { allowed, client, own_ports: &[41_242], taken: &taken };
        servers(&value, &request).map(|servers| servers.into_iter().map(|server| server.name).collect::<Vec<_>>())
    };
    let loopback = |value: Value| of(&ClientServers::Loopback, Client::SameUser, value);
    let entry = |url: &str| json!({"s": {"url": url}});
    for url in ["http://127.0.0.1:9/mcp", "http://localhost:9/", "https://[::1]/", "http://127.0.0.1/$HOME"] {
        assert_eq!(loopback(entry(url)), Ok(vec!["s".to_owned()]), "{url}");
        assert!(of(&ClientServers::Off, Client::SameUser, entry(url)).is_err(), "check 69: {url}");
        assert!(of(&ClientServers::Loopback, Client::Other, entry(url)).is_err(), "a remote peer: {url}");
    }
    for url in
        ["http://10.0.0.1/", "http://example.org/", "http://127.0.0.1:41242/", "http://u:p@127.0.0.1/", "file:///x"]
    {
        assert!(loopback(entry(url)).is_err(), "{url}");
    }
    let listed = ClientServers::Listed(vec![("h.example".into(), None), ("10.0.0.1".into(), Some(81))]);
    for (url, is_allowed) in [
        ("https://H.example:5/", true),
        ("http://10.0.0.1:81/", true),
        ("http://10.0.0.1/", false),
        ("http://127.0.0.1/", false),
    ] {
        assert_eq!(of(&listed, Client::Other, entry(url)).is_ok(), is_allowed, "{url}");
    }
    for allowed in [ClientServers::Off, ClientServers::Loopback, listed] {
        for refused in [
            json!({"s": {"command": "sh"}}),
            json!({"s": {"url": "http://localhost/", "trust": true}}),
            json!({"s": {"url": "http://localhost/", "oauth": {}}}),
            json!({"s": {}}),
            json!({"s": 5}),
            json!([{"url": "http://localhost/"}]),
            json!({"mine": {"url": "http://localhost/"}}),
            json!(5),
        ] {
            assert!(of(&allowed, Client::SameUser, refused.clone()).is_err(), "check 70: {refused}");
        }
    }
    let many = |count: usize| {
        (0..count).map(|n| json!({"name": format!("s{n}"), "url": "http://localhost:9/"})).collect::<Value>()
    };
    assert!(loopback(many(CLIENT_SERVERS)).is_ok_and(|names| names.len() == CLIENT_SERVERS));
    assert!(loopback(many(CLIENT_SERVERS + 1)).is_err());
    assert!(
        loopback(json!([{"name": "a", "url": "http://localhost/"}, {"name": "a", "url": "http://localhost/"}]))
            .is_err()
    );
    assert_eq!(of(&ClientServers::Off, Client::Other, json!({})), Ok(vec![]));
}

#[test]
fn the_user_of_the_program_may_name_programs_and_lists_of_names_and_values() {
    let of = |client: Client, value: Value| {
        servers(&value, &Request { allowed: &ClientServers::Off, client, own_ports: &[41_242], taken: &[] })
    };
    let wanted = json!([
        {"name": "a", "command": "prog", "args": ["x"], "env": [{"name": "K", "value": "v"}]},
        {"name": "b", "type": "http", "url": "https://h.example/", "headers": [{"name": "X-Key", "value": "v"}]},
    ]);
    assert!(of(Client::SameUser, wanted.clone()).is_err());
    let named = of(Client::Local, wanted).expect("they are allowed");
    assert!(
        named.iter().all(|server| server.isolation == Isolation::Task && server.addresses == AllowedAddresses::Any)
    );
    let Transport::Stdio { command, env, .. } = &named[0].transport else { panic!("no program") };
    assert_eq!((command.as_str(), env.as_slice()), ("prog", &[("K".to_owned(), Secret::new("v"))][..]));
    let Transport::Network { headers, .. } = &named[1].transport else { panic!("no URL") };
    assert_eq!(headers, &[("X-Key".to_owned(), Secret::new("v"))]);
    for refused in [
        json!({"a": {"command": "x", "trust": true}}),
        json!({"a": {"url": "http://127.0.0.1:41242/"}}),
        json!({"a": {"url": "https://h.example/", "headers": {"X": "v".repeat(CLIENT_HEADER_BYTES)}}}),
    ] {
        assert!(of(Client::Local, refused.clone()).is_err(), "{refused}");
    }
    let most = json!({"a": {"url": "https://h.example/", "headers": {"X": "v".repeat(CLIENT_HEADER_BYTES - 1)}}});
    assert!(of(Client::Local, most).is_ok());
}

/// A listed host name must resolve to a public address. A listed address may be private.
#[test]
fn the_allowed_addresses_of_named_servers() {
    let listed = ClientServers::Listed(vec![("h.example".into(), None), ("10.0.0.1".into(), None)]);
    for (allowed, url, expected) in [
        (&ClientServers::Loopback, "http://localhost:9/", AllowedAddresses::Loopback),
        (&listed, "https://h.example/", AllowedAddresses::Public),
        (&listed, "http://10.0.0.1/", AllowedAddresses::Listed),
    ] {
        let request = Request { allowed, client: Client::SameUser, own_ports: &[], taken: &[] };
        assert_eq!(servers(&json!({"s": {"url": url}}), &request).expect(url)[0].addresses, expected, "{url}");
    }
}
