use super::*;
use crate::limits::mcp::{
    CALL_MS, CALLS_PARALLEL, CALLS_WAITING, LIST_MS, LIST_PAGES, LIST_TOOLS, LIST_TRIES, LOGS_PER_SECOND, REFRESH_MS,
    REQUESTS_PER_SECOND, SERVER_REQUESTS,
};
use crate::mcp::form::Elicitation;
use crate::mcp::roots::Root;
use crate::task::form::{Reply, Values};
use serde_json::Map;
use std::path::Path;

mod calls;

/// A session, and its effects since they were last taken.
struct Client {
    session: Session,
    now_ms: u64,
    effects: Vec<Effect>,
}

fn client(parallel: bool) -> Client {
    let session = Session::new(Setup {
        server: "srv".into(),
        version: "1.2".into(),
        roots: vec![Root::of(Path::new("/w"))],
        parallel,
        timeout_ms: 60_000,
        startup_ms: 9_000,
        catalog: Catalog::default(),
    });
    Client { session, now_ms: 1_000, effects: Vec::new() }
}

/// A client whose server has these tools.
fn connected(tools: Value) -> Client {
    let mut client = client(false);
    client.connect(tools);
    client
}

impl Client {
    fn input(&mut self, input: Input) {
        let effects = self.session.handle(input, self.now_ms);
        self.effects.extend(effects);
    }

    fn later(&mut self, ms: u64) {
        self.now_ms += ms;
        self.input(Input::Tick);
    }

    fn receive(&mut self, message: Value) {
        for message in message::read(message.to_string().as_bytes()).expect("a message") {
            self.input(Input::Message { message, on: None });
        }
    }

    fn answer(&mut self, id: &Value, result: Value) {
        self.receive(json!({"id": id, "result": result}));
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.receive(json!({"method": format!("notifications/{method}"), "params": params}));
    }

    fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Takes the sent messages. Other effects stay.
    fn sent(&mut self) -> Vec<Value> {
        let (sent, rest) = self.take().into_iter().partition(|effect| matches!(effect, Effect::Send(_)));
        self.effects = rest;
        let text = |effect: Effect| match effect {
            Effect::Send(outgoing) => serde_json::from_str(&outgoing.text).expect("JSON"),
            _ => Value::Null,
        };
        Vec::into_iter(sent).map(text).collect()
    }

    /// The only message that was sent.
    fn only(&mut self) -> Value {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    fn methods(&mut self) -> Vec<String> {
        self.sent().iter().map(|sent| sent["method"].as_str().unwrap_or("response").to_owned()).collect()
    }

    fn initialize(&mut self, capabilities: Value) {
        self.input(Input::Start);
        let request = self.only();
        assert_eq!(request["method"], "initialize");
        self.answer(
            &request["id"],
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "n"}}),
        );
    }

    fn connect(&mut self, tools: Value) {
        self.initialize(json!({"tools": {}}));
        let sent = self.sent();
        assert_eq!(sent[0]["method"], "notifications/initialized");
        self.answer(&sent[1]["id"], json!({ "tools": tools }));
        assert!(self.take().contains(&Effect::Ready));
    }

    fn names(&self) -> Vec<&str> {
        self.session.catalog().tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    fn notices(&mut self) -> Vec<String> {
        let text = |effect: &Effect| match effect {
            Effect::Notice(text) => Some(text.clone()),
            _ => None,
        };
        self.effects.iter().filter_map(text).collect()
    }

    fn ended(&self) -> Option<&str> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::End(why) => Some(why.as_str()),
            _ => None,
        })
    }
}

#[test]
fn the_handshake_offers_what_the_client_can_do() {
    let mut client = client(false);
    client.input(Input::Start);
    assert_eq!(
        client.only(),
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {"listChanged": true}, "elicitation": {"form": {}, "url": {}}},
            "clientInfo": {"name": "gemini-a2a", "title": "gemini-a2a", "version": "1.2"}}})
    );
    client.answer(&json!(1), json!({"protocolVersion": "2025-06-18", "capabilities": {"prompts": {}}, "instructions": "x".repeat(INSTRUCTIONS_BYTES + 1)}));
    assert_eq!(client.methods(), ["notifications/initialized", "prompts/list"]);
    assert_eq!(client.session.info().version, "2025-06-18");
    assert_eq!(client.session.info().instructions.len(), INSTRUCTIONS_BYTES);
    assert_eq!(client.take(), [Effect::Initialized, Effect::Ready]);
}

#[test]
fn check_22_older_versions_are_used_and_unknown_ones_end_the_connection() {
    for (version, is_known) in
        [("2024-11-05", true), ("2025-03-26", true), ("1900-01-01", false), ("2026-07-28", false)]
    {
        let mut client = client(false);
        client.input(Input::Start);
        client.answer(&json!(1), json!({"protocolVersion": version, "capabilities": {}}));
        assert_eq!(client.session.is_ready(), is_known, "{version}");
        let named = client.ended().is_some_and(|why| why.contains(version) && why.contains("2025-11-25"));
        assert_eq!(named, !is_known, "{:?}", client.effects);
    }
    for (error, word) in [
        (json!({"code": -32022, "message": "Unsupported"}), "without a handshake"),
        (json!({"code": -32603, "message": "broken"}), "broken"),
    ] {
        let mut client = client(false);
        client.input(Input::Start);
        client.receive(json!({"id": 1, "error": error}));
        assert!(client.ended().is_some_and(|why| why.contains(word)), "{:?}", client.effects);
    }
}

#[test]
fn check_23_all_pages_of_a_list_are_read() {
    let mut client = client(false);
    client.initialize(json!({"tools": {}}));
    let first = client.sent().remove(1);
    assert_eq!(first["params"], json!({}));
    client.answer(&first["id"], json!({"tools": [{"name": "a"}], "nextCursor": "p2"}));
    assert!(!client.session.is_ready());
    let second = client.only();
    assert_eq!((&second["method"], &second["params"]), (&json!("tools/list"), &json!({"cursor": "p2"})));
    client.answer(&second["id"], json!({"tools": [{"name": "b"}], "nextCursor": ""}));
    assert_eq!(client.names(), ["a", "b"]);
    assert!(client.session.is_ready() && client.sent().is_empty() && client.notices().is_empty());
}

#[test]
fn check_24_a_repeated_cursor_stops_with_a_notice_and_without_duplicates() {
    let mut client = client(false);
    client.initialize(json!({"tools": {}}));
    let first = client.sent().remove(1);
    let page = json!({"tools": [{"name": "a"}, {"nameless": 1}], "nextCursor": "same"});
    client.answer(&first["id"], page.clone());
    let second = client.only();
    client.answer(&second["id"], page);
    assert_eq!(client.names(), ["a"]);
    assert!(client.session.is_ready() && client.sent().is_empty());
    let notices = client.notices();
    assert!(notices[0].contains("cursor") && notices[1].contains("3 items were skipped"), "{notices:?}");
}

#[test]
fn the_pages_and_items_of_a_list_are_limited() {
    let mut client = client(false);
    client.initialize(json!({"tools": {}}));
    let mut id = client.sent().remove(1)["id"].take();
    for page in 1..=LIST_PAGES {
        client.answer(&id, json!({"tools": [{"name": format!("t{page}")}], "nextCursor": page.to_string()}));
        match client.sent().first() {
            Some(request) => id = request["id"].clone(),
            None => assert_eq!(page, LIST_PAGES),
        }
    }
    assert_eq!((client.names().len(), client.notices().len()), (LIST_PAGES, 1));
    for (count, notices) in [(LIST_TOOLS, 0), (LIST_TOOLS + 1, 1)] {
        let tools: Vec<Value> = (0..count).map(|n| json!({"name": n.to_string()})).collect();
        let mut client = self::client(false);
        client.initialize(json!({"tools": {}}));
        let id = client.sent().remove(1)["id"].take();
        client.answer(&id, json!({ "tools": tools }));
        assert_eq!((client.names().len(), client.notices().len()), (LIST_TOOLS, notices));
    }
}

#[test]
fn check_25_a_burst_of_changes_is_two_requests_and_a_failed_refresh_keeps_the_tools() {
    let mut client = connected(json!([{"name": "a"}]));
    client.later(REFRESH_MS);
    for _ in 0..100 {
        client.notify("tools/list_changed", json!({}));
    }
    let request = client.only();
    client.receive(json!({"id": request["id"], "error": {"code": -32603, "message": "no"}}));
    assert_eq!(client.names(), ["a"]);
    assert!(client.notices()[0].contains("as before"), "{:?}", client.notices());
    assert!(client.sent().is_empty(), "the next one waits");
    assert_eq!(client.session.due_ms(), Some(client.now_ms + REFRESH_MS));
    client.later(REFRESH_MS);
    let request = client.only();
    client.take();
    client.answer(&request["id"], json!({"tools": [{"name": "b"}]}));
    assert_eq!(client.take(), [Effect::Changed(List::Tools)]);
    client.later(REFRESH_MS);
    assert_eq!((client.sent().len(), client.names()), (0, vec!["b"]));
    assert_eq!(client.session.due_ms(), None);
}

#[test]
fn changes_that_come_with_the_handshake_are_one_refresh() {
    let mut client = client(false);
    client.initialize(json!({"tools": {}, "resources": {}}));
    assert_eq!(client.sent().len(), 4, "initialized, tools, resources, templates");
    for _ in 0..4 {
        client.notify("tools/list_changed", json!({}));
        client.notify("resources/list_changed", json!({}));
    }
    assert!(client.sent().is_empty());
    client.answer(&json!(2), json!({"tools": []}));
    assert!(client.session.is_ready(), "other lists do not delay it");
    client.later(REFRESH_MS);
    assert_eq!(client.methods(), ["tools/list"]);
}

#[test]
fn check_26_ping_is_answered_before_the_handshake_is_complete() {
    let mut client = client(false);
    client.input(Input::Start);
    client.only();
    client.receive(json!({"id": "p", "method": "ping"}));
    assert_eq!(client.only(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    client.receive(json!({"id": 5, "method": "roots/list"}));
    assert_eq!(client.only()["result"], json!({"roots": [{"uri": "file:///w", "name": "w"}]}));
}

#[test]
fn check_28_a_server_with_resources_only_is_connected() {
    let mut client = client(false);
    client.initialize(json!({"resources": {"listChanged": true}}));
    assert!(client.session.is_ready());
    assert_eq!(client.methods(), ["notifications/initialized", "resources/list", "resources/templates/list"]);
    client.answer(&json!(2), json!({"resources": [{"uri": "a:b", "name": "b"}]}));
    client.receive(json!({"id": 3, "error": {"code": -32601, "message": "no"}}));
    assert_eq!(client.session.catalog().resources.len(), 1);
    assert!(client.notices().is_empty() && client.ended().is_none());
}

#[test]
fn check_9_a_server_that_does_not_answer_has_failed() {
    let mut client = client(false);
    client.input(Input::Start);
    assert_eq!(client.session.due_ms(), Some(10_000));
    client.later(8_999);
    assert_eq!(client.ended(), None);
    client.later(1);
    assert!(client.ended().is_some_and(|why| why.contains("initialize within 9 s")), "{:?}", client.effects);
    assert_eq!(client.session.due_ms(), None);
    let mut client = self::client(false);
    client.initialize(json!({"tools": {}}));
    client.later(9_000);
    assert!(client.ended().is_some_and(|why| why.contains("tools/list within")), "{:?}", client.effects);
}

#[test]
fn lists_are_requested_again_if_the_transport_fails() {
    let mut client = connected(json!([]));
    client.later(REFRESH_MS);
    client.notify("tools/list_changed", json!({}));
    for _ in 1..LIST_TRIES {
        let id = own_id(&client.only()["id"]);
        client.input(Input::Failed { request: id, why: "reset".into() });
    }
    client.only();
    client.later(LIST_MS);
    assert!(client.notices().iter().any(|notice| notice.contains("no answer for 30 s")), "{:?}", client.effects);
    assert_eq!(client.methods(), ["notifications/cancelled"]);
    // Without a first list of tools the connection ends.
    let mut client = self::client(false);
    client.initialize(json!({"tools": {}}));
    client.receive(json!({"id": 2, "error": {"code": -32603, "message": "broken"}}));
    assert!(
        client.ended().is_some_and(|why| why.contains("tools/list failed: -32603: broken")),
        "{:?}",
        client.effects
    );
}

fn own_id(value: &Value) -> RequestId {
    message::own_id(value).expect("an id")
}

#[test]
fn check_1_lines_that_are_no_messages_are_logged_and_counted() {
    let mut client = client(false);
    client.input(Input::Start);
    for _ in 0..JUNK_LINES {
        client.input(Input::Junk("banner".into()));
    }
    let logged = client.effects.iter().filter(|effect| matches!(effect, Effect::Log { .. })).count();
    assert_eq!((logged, client.ended()), (JUNK_LOGGED, None));
    let mut connected = connected(json!([]));
    (0..=JUNK_LINES).for_each(|_| connected.input(Input::Junk("x".into())));
    assert_eq!(connected.ended(), None, "only before the handshake");
    client.input(Input::Junk("banner".into()));
    assert!(client.ended().is_some());
}

#[test]
fn notifications_and_log_messages_are_rate_limited() {
    let mut client = connected(json!([]));
    let log =
        |client: &mut Client| client.notify("message", json!({"level": "warning", "logger": "l", "data": {"a": 1}}));
    (0..LOGS_PER_SECOND + 2).for_each(|_| log(&mut client));
    let logged = client.effects.iter().filter(|effect| matches!(effect, Effect::Log { .. })).count();
    assert_eq!(logged, LOGS_PER_SECOND as usize);
    assert_eq!(client.effects[0], Effect::Log { level: Level::Warn, text: "l: {\"a\":1}".into() });
    client.later(1_000);
    assert_eq!(client.notices(), ["MCP server srv: 2 log messages were dropped."]);
    for _ in 0..NOTIFICATIONS_PER_SECOND {
        client.notify("x", json!({}));
    }
    assert_eq!(client.ended(), None);
    client.notify("x", json!({}));
    assert!(client.ended().is_some_and(|why| why.contains("notifications")));
}

#[test]
fn requests_of_a_server_and_notices_about_them_are_rate_limited() {
    let mut client = connected(json!([]));
    let mut ask = |method: &str| {
        client.receive(json!({"id": 1, "method": method, "params": {}}));
    };
    (0..REQUESTS_PER_SECOND - LOGS_PER_SECOND - 2).for_each(|_| ask("ping"));
    // No call is running, so each of these questions is declined.
    (0..LOGS_PER_SECOND + 2).for_each(|_| ask("elicitation/create"));
    assert_eq!((client.notices().len(), client.ended()), (LOGS_PER_SECOND as usize, None));
    client.receive(json!({"id": 1, "method": "ping"}));
    assert!(client.ended().is_some_and(|why| why.contains("1000 requests")), "{:?}", client.ended());
}

#[test]
fn changed_roots_are_announced() {
    let mut client = connected(json!([]));
    client.input(Input::Roots(vec![Root::of(Path::new("/w"))]));
    assert!(client.sent().is_empty());
    client.input(Input::Roots(vec![Root::of(Path::new("/v"))]));
    assert_eq!(client.methods(), ["notifications/roots/list_changed"]);
}

#[test]
fn prompts_resources_and_pings_are_requested_and_answered() {
    let mut client = connected(json!([]));
    client.input(Input::Query { key: Key(1), query: Query::Prompt { name: "p".into(), arguments: Map::new() } });
    assert_eq!(client.only()["params"], json!({"name": "p", "arguments": {}}));
    client.answer(&json!(3), json!({"messages": []}));
    assert_eq!(client.take(), [Effect::Answered { key: Key(1), result: Ok(json!({"messages": []})) }]);
    client.input(Input::Query { key: Key(2), query: Query::Resource { uri: "a:b".into() } });
    client.receive(json!({"id": 4, "error": {"code": -32002, "message": "gone"}}));
    client.only();
    let missing = ErrorKind::McpResourceNotFound.error("-32002: gone");
    assert_eq!(client.take(), [Effect::Answered { key: Key(2), result: Err(missing) }]);
    client.input(Input::Query { key: Key(3), query: Query::Ping });
    client.later(PING_MS);
    assert_eq!(client.methods(), ["ping", "notifications/cancelled"]);
    assert!(matches!(&client.take()[..], [Effect::Answered { key: Key(3), result: Err(_) }]));
}

#[test]
fn check_13_a_lost_session_is_one_new_handshake_and_the_requests_are_repeated_once() {
    let mut client = client(true);
    client.connect(json!([{"name": "t"}]));
    for key in [1, 2] {
        client.input(Input::Call(Call { key: Key(key), tool: "t".into(), arguments: json!({}) }));
    }
    let calls = client.sent();
    client.input(Input::SessionLost(own_id(&calls[0]["id"])));
    let handshake = client.only();
    assert_eq!(handshake["method"], "initialize");
    client.input(Input::SessionLost(own_id(&calls[1]["id"])));
    assert!(client.sent().is_empty(), "one handshake");
    client.answer(&handshake["id"], json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}));
    let list = client.sent().remove(1);
    client.answer(&list["id"], json!({"tools": [{"name": "t"}]}));
    let again = client.sent();
    assert_eq!(again.iter().map(|call| call["method"].clone()).collect::<Vec<_>>(), ["tools/call", "tools/call"]);
    client.take();
    client.answer(&again[0]["id"], json!({"content": []}));
    assert_eq!(client.take(), [Effect::Ended { call: Key(1), outcome: Outcome::Result(json!({"content": []})) }]);
    // Check 14: if the session is lost again at once, the call fails.
    client.input(Input::SessionLost(own_id(&again[1]["id"])));
    assert!(
        matches!(&client.effects[0], Effect::Ended { call: Key(2), outcome: Outcome::Failed(error) } if error.message.contains("twice"))
    );
}
