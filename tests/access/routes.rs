//! Every route of the server with every method: its status without a credential, and with each right alone. A route without a row in
//! this table fails the test.

use crate::support::client::Client;
use crate::support::http::Side;
use crate::{JSON, TokenServer, without_limits};
use gemini_a2a::a2a::{Route, method_names, route};
use serde_json::{Value, json};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// What a method needs at a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Nothing, and no credential.
    Public,
    /// A credential, whatever its rights.
    Any,
    View,
    Prompt,
    Admin,
    /// An upgrade with the right to view.
    Socket,
}
use Needs::{Admin, Any, Prompt, Public, Socket, View};

/// Every pattern, and its methods. All others are answered with 405.
const ROUTES: &[(&str, &[(&str, Needs)])] = &[
    // The method of JSON-RPC is in the body; see `METHODS_OF_RPC`.
    ("/", &[("POST", Any)]),
    ("/.well-known/agent-card.json", &[("GET", Public), ("HEAD", Public)]),
    ("/.well-known/agent.json", &[("GET", Public), ("HEAD", Public)]),
    ("/health", &[("GET", Public), ("HEAD", Public)]),
    ("/live", &[("GET", Public), ("HEAD", Public)]),
    ("/ready", &[("GET", Public), ("HEAD", Public)]),
    ("/metrics", &[("GET", Admin), ("HEAD", Admin)]),
    ("/ws", &[("GET", Socket)]),
    ("/ticket", &[("POST", View)]),
    ("/ws/acp", &[("GET", Socket)]),
    ("/acp", &[("GET", Socket)]),
    ("/tasks", &[("GET", View), ("HEAD", View), ("POST", Prompt)]),
    ("/tasks/metadata", &[("GET", View), ("HEAD", View)]),
    ("/tasks/{task}", &[("GET", View), ("HEAD", View)]),
    ("/tasks/{task}/metadata", &[("GET", View), ("HEAD", View)]),
    ("/listCommands", &[("GET", View), ("HEAD", View)]),
    ("/executeCommand", &[("POST", Prompt)]),
    ("/message/stream", &[("POST", Prompt)]),
    ("/tasks/{task}/execute", &[("POST", Prompt)]),
    ("/tasks/{task}/messages/stream", &[("POST", Prompt)]),
    ("/message:send", &[("POST", Prompt)]),
    ("/message:stream", &[("POST", Prompt)]),
    ("/tasks/{task}:cancel", &[("POST", Prompt)]),
    ("/tasks/{task}:subscribe", &[("GET", View), ("POST", View)]),
    ("/tasks/{task}/pushNotificationConfigs", CONFIGS),
    ("/tasks/{task}/pushNotificationConfigs/{config}", CONFIG),
    ("/task/{task}/pushNotificationConfigs", CONFIGS),
    ("/task/{task}/pushNotificationConfigs/{config}", CONFIG),
    ("/card", CARD),
    ("/agent/authenticatedExtendedCard", CARD),
    ("/extendedAgentCard", CARD),
    ("other", &[]),
];

/// Webhook configurations contain secrets, so reading them takes more than `view`.
const CONFIGS: &[(&str, Needs)] = &[("GET", Prompt), ("HEAD", Prompt), ("POST", Prompt)];
const CONFIG: &[(&str, Needs)] = &[("GET", Prompt), ("HEAD", Prompt), ("DELETE", Prompt)];
const CARD: &[(&str, Needs)] = &[("GET", View), ("HEAD", View)];

/// The methods of JSON-RPC in 0.3 and in 1.0; empty if a version lacks the method.
const METHODS_OF_RPC: [(&str, &str, Needs); 14] = [
    ("message/send", "SendMessage", Prompt),
    ("message/stream", "SendStreamingMessage", Prompt),
    ("tasks/get", "GetTask", View),
    ("", "ListTasks", View),
    ("tasks/cancel", "CancelTask", Prompt),
    ("tasks/resubscribe", "SubscribeToTask", View),
    ("tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig", Prompt),
    ("tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig", Prompt),
    ("tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs", Prompt),
    ("tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig", Prompt),
    ("agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard", View),
    ("agent/authenticatedExtendedCard", "", View),
    ("commands/get", "commands/get", View),
    ("command/execute", "command/execute", Prompt),
];

/// Every route that a request can reach. Some routes of 0.3 exist only below `/v1`.
fn routes() -> impl Iterator<Item = Route> {
    Route::all().filter(|of| route(&path(*of)) == *of)
}

/// A path of the route, with ids that no task has.
fn path(route: Route) -> String {
    let path = match route.pattern {
        "other" => "/nothing/at/all".to_owned(),
        pattern => format!("{}{pattern}", route.base),
    };
    path.replace("{task}", "t-1").replace("{config}", "c-1").replace("{tenant}", "acme")
}

fn needs(route: Route, method: &str) -> Option<Needs> {
    let row = ROUTES.iter().find(|(pattern, _)| *pattern == route.pattern);
    let (_, methods) = row.unwrap_or_else(|| panic!("{} is in no row of this test", route.pattern));
    match (method, route.base, route.pattern) {
        // Only the reference server creates tasks without a prompt, and it has no prefix.
        ("POST", "/v1" | "/{tenant}", "/tasks") => None,
        // Only 1.0 has this card.
        (_, "/v1", "/extendedAgentCard") => None,
        _ => methods.iter().find(|(name, _)| *name == method).map(|(_, needs)| *needs),
    }
}

/// A body that is valid for the route.
fn body(route: Route) -> Value {
    let is_03 = route.base == "/v1";
    match route.pattern {
        "/message:send" | "/message:stream" if is_03 => {
            json!({ "message": { "role": "ROLE_USER", "messageId": "m", "content": [{ "text": "hello" }] } })
        }
        "/message:send" | "/message:stream" => crate::message("hello", json!({})),
        "/message/stream" | "/tasks/{task}/execute" | "/tasks/{task}/messages/stream" => json!({ "message": "hello" }),
        "/executeCommand" => json!({ "command": "help" }),
        pattern if pattern.ends_with("/pushNotificationConfigs") && is_03 => json!({
            "name": "tasks/t-1/pushNotificationConfigs/c-1",
            "pushNotificationConfig": { "url": "https://hook.example/" },
        }),
        pattern if pattern.ends_with("/pushNotificationConfigs") => json!({ "url": "https://hook.example/" }),
        "/" => rpc("GetTask"),
        _ => json!({}),
    }
}

fn rpc(method: &str) -> Value {
    let is_10 = method.starts_with(|first: char| first.is_ascii_uppercase());
    let message = match is_10 {
        true => json!({ "role": "ROLE_USER", "messageId": "m", "parts": [{ "text": "hello" }] }),
        false => json!({ "role": "user", "messageId": "m", "kind": "message",
            "parts": [{ "kind": "text", "text": "hello" }] }),
    };
    let params = match method {
        "message/send" | "message/stream" | "SendMessage" | "SendStreamingMessage" => json!({ "message": message }),
        "tasks/pushNotificationConfig/set" => {
            json!({ "taskId": "t-1", "pushNotificationConfig": { "url": "https://hook.example/" } })
        }
        "CreateTaskPushNotificationConfig" => json!({ "taskId": "t-1", "url": "https://hook.example/" }),
        "tasks/pushNotificationConfig/get" | "tasks/pushNotificationConfig/list" => json!({ "id": "t-1" }),
        "tasks/pushNotificationConfig/delete" => json!({ "id": "t-1", "pushNotificationConfigId": "c-1" }),
        "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig" => json!({ "taskId": "t-1", "id": "c-1" }),
        "ListTaskPushNotificationConfigs" => json!({ "taskId": "t-1" }),
        "command/execute" => json!({ "command_path": ["help"] }),
        "ListTasks" | "GetExtendedAgentCard" => json!({}),
        _ => json!({ "id": "t-1" }),
    };
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// The status of a request, or of an upgrade.
fn status(client: &mut Client, method: &str, path: &str, needs: Option<Needs>, body: &Value) -> u16 {
    if needs == Some(Socket) {
        let fields = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let mut conn = client.raw();
        conn.send(&client.bytes(method, path, &fields, b"")).expect("it is sent");
        return conn.response(Side::HeadOnly).expect("it is answered").status();
    }
    let text = if matches!(method, "GET" | "HEAD") { String::new() } else { body.to_string() };
    client.request(method, path, &[JSON], text.as_bytes()).status()
}

const RIGHTS: [[&str; 3]; 4] =
    [["v", "dev", "view"], ["p", "dev", "prompt"], ["a", "dev", "approve"], ["m", "dev", "admin"]];

/// A server with a credential for each of [`RIGHTS`], and with an extended card.
fn token_server() -> TokenServer {
    let card = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kit/extended-card.json");
    TokenServer::edited(&RIGHTS, without_limits, |setup| setup.args(["--extended-card", card]))
}

/// Whether the credential with this number in [`RIGHTS`] has what the route needs.
fn may(needs: Option<Needs>, number: usize) -> bool {
    match needs {
        None | Some(Public | Any) => true,
        Some(View | Socket) => number == 0 || number == 3,
        Some(Prompt) => number == 1 || number == 3,
        Some(Admin) => number == 3,
    }
}

#[test]
fn without_a_credential_only_the_public_routes_answer() {
    let token_server = TokenServer::new(&RIGHTS);
    let mut client_without_token = token_server.client_without_token();
    for route in routes() {
        for method in METHODS {
            let (path, needs) = (path(route), needs(route, method));
            let answer = client_without_token.request(method, &path, &[JSON], b"{}");
            if needs == Some(Public) {
                assert_eq!(answer.status(), 200, "{method} {path}: {}", answer.text());
                continue;
            }
            assert_eq!(answer.status(), 401, "{method} {path}: {}", answer.text());
            let challenge = answer.head.field("www-authenticate").unwrap_or_default();
            assert!(challenge.starts_with("Bearer realm=\"gemini-a2a\""), "{method} {path}: {challenge}");
        }
    }
}

#[test]
fn each_right_alone_opens_the_routes_that_need_it() {
    let token_server = token_server();
    for route in routes() {
        for method in METHODS {
            let (path, needs, body) = (path(route), needs(route, method), body(route));
            for (number, [_, _, right]) in RIGHTS.iter().enumerate() {
                // The methods of JSON-RPC have a test of their own.
                if needs == Some(Any) {
                    continue;
                }
                let got = status(&mut token_server.client(number), method, &path, needs, &body);
                assert_ne!(got, 401, "{method} {path} with {right}");
                assert_eq!(got != 403, may(needs, number), "{method} {path} with {right}: {got}");
                if needs.is_some() && may(needs, number) {
                    assert!(matches!(got, 101 | 200 | 201 | 204 | 404), "{method} {path} with {right}: {got}");
                }
            }
        }
    }
}

#[test]
fn every_json_rpc_method_has_a_row() {
    let rows: Vec<(&str, &str)> = METHODS_OF_RPC.iter().map(|(old, new, _)| (*old, *new)).collect();
    assert_eq!(rows, method_names().collect::<Vec<_>>());
}

/// A valid credential is accepted in every form, and a wrong one is refused on every route that is not public.
#[test]
fn every_form_of_a_credential_is_accepted_on_every_route() {
    let token_server = token_server();
    let token = &token_server.tokens[3];
    let basic = format!("Basic {}", crate::base64(&format!("m:{token}")));
    let wrong_name = format!("Basic {}", crate::base64(&format!("v:{token}")));
    let forms =
        [("Authorization", basic.as_str(), true), ("X-API-Key", token, true), ("Authorization", &wrong_name, false)];
    // A wrong credential gets 401 until the limit of the address is reached, then 429.
    let is_refused = |status: u16| matches!(status, 401 | 429);
    for route in routes() {
        for method in METHODS {
            let (path, needs, body) = (path(route), needs(route, method), body(route));
            for (name, value, is_right) in forms {
                let mut client = token_server.client_without_token().field(name, value);
                let got = status(&mut client, method, &path, needs, &body);
                let is_served = is_right || needs == Some(Public);
                assert_eq!(!is_refused(got), is_served, "{method} {path} with {name}: {got}");
                assert!(!is_right || got != 403, "{method} {path} with {name}: {got}");
            }
        }
    }
}

#[test]
fn each_right_alone_allows_the_methods_of_json_rpc_that_need_it() {
    let token_server = token_server();
    for (old, new, needs) in METHODS_OF_RPC {
        for method in [old, new].into_iter().filter(|method| !method.is_empty()) {
            for (number, [_, _, right]) in RIGHTS.iter().enumerate() {
                let answer =
                    token_server.client(number).request("POST", "/", &[JSON], rpc(method).to_string().as_bytes());
                let text = answer.text();
                assert_eq!(answer.status() != 403, may(Some(needs), number), "{method} with {right}: {text}");
                assert_eq!(text.contains("PERMISSION_DENIED"), answer.status() == 403, "{method} with {right}: {text}");
                assert!(!text.contains("-32602") && !text.contains("-32601"), "{method} with {right}: {text}");
            }
        }
    }
}
