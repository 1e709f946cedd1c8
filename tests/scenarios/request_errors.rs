//! Scenarios about requests that are refused.

use crate::scenario::Scenario;
use crate::support::message::prompt_at;

/// A request body, the `id` of its response, and the expected lines of its response.
type Row = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const INVALID_REQUESTS: [Row; 19] = [
    ("{\"jsonrpc\":\"2.0\",", "null", "
        - 400 error -32700
        + 200 error -32700"),
    ("[]", "null", "200 error -32600"),
    ("null", "null", "
        - 400 error -32700
        + 200 error -32600"),
    ("\"text\"", "null", "
        - 400 error -32700
        + 200 error -32600"),
    ("", "null", "200 error -32600"),
    (r#"{"jsonrpc":"2.0","id":1,"method":"no/such","params":{}}"#, "1", "200 error -32601"),
    (r#"{"jsonrpc":"2.0","id":1,"method":"message/stream"}"#, "1", "200 error -32602"),
    (r#"{"jsonrpc":"2.0","id":1,"method":"message/stream","params":{}}"#, "1", "
        - error -32603
        + 200 error -32602"),
    (r#"{"jsonrpc":"2.0","id":1,"method":"message/stream","params":{"message":
        {"role":"user","parts":[{"kind":"text","text":"x"}]}}}"#, "1", "
        - error -32602
        + 200 error -32602"),
    (r#"{"jsonrpc":"2.0","id":1,"method":"message/stream","params":{"message":
        {"kind":"message","role":"user","messageId":"m","parts":[]}}}"#, "1", "
        - 200 task submitted
        + 200 error -32602"),
    (r#"{"jsonrpc":"1.0","id":1,"method":"tasks/get","params":{"id":"x"}}"#, "1", "200 error -32600"),
    (r#"{"id":1,"method":"tasks/get","params":{"id":"x"}}"#, "1", "200 error -32600"),
    (r#"{"jsonrpc":"2.0","id":{"a":1},"method":"tasks/get","params":{"id":"x"}}"#, "null", "200 error -32600"),
    (r#"{"jsonrpc":"2.0","id":1.5,"method":"tasks/get","params":{"id":"x"}}"#, "null", "200 error -32600"),
    (r#"{"jsonrpc":"2.0","method":"tasks/get","params":{"id":"x"}}"#, "null", "200 error -32001"),
    (r#"{"jsonrpc":"2.0","id":"s","method":"tasks/get","params":["x"]}"#, "\"s\"", "200 error -32602"),
    (r#"[{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}]"#, "null", "200 error -32600"),
    (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{}}"#, "1", "200 error -32601"),
    (r#"{"jsonrpc":"2.0","id":1,"method":"agent/getAuthenticatedExtendedCard","params":{}}"#, "1", "
        - 200 error -32004
        + 200 error -32007"),
];

#[test]
fn rpc_errors() {
    let scenario = Scenario::new();
    let mut expected = vec![];
    for (body, id, response) in INVALID_REQUESTS {
        let reply = scenario.http("POST", "/", &[("Content-Type", "application/json")], body);
        assert_eq!(reply["id"].to_string(), id, "{body}");
        expected.extend(["> POST /", response]);
    }
    scenario.expect_but(
        "JSON-RPC errors are in the body and the HTTP status is 200; JSON that is not a request is an invalid request; the \
         missing card has its own error code; a response is a stream only if the client accepts one",
        &expected,
    );
}

#[test]
fn http_errors() {
    let scenario = Scenario::new();
    scenario.http("GET", "/", &[], "");
    scenario.http("GET", "/no/such/path", &[], "");
    scenario.http("PUT", "/tasks", &[("Content-Type", "application/json")], "{}");
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}"#;
    scenario.http("POST", "/", &[("Content-Type", "text/plain")], body);
    scenario.http("POST", "/", &[], body);
    let long = format!("TEXT ok\n{}", "x".repeat(200_000));
    let params = prompt_at(&scenario.server.workspace(), &long);
    scenario.open("200,000 bytes of text", "message/stream", params).rest();
    scenario.expect_but(
        "known paths name their methods; errors are JSON; a body of another media type is refused, one without a media \
         type is accepted; a prompt may be long",
        &["
            > GET /
            - 404 text/html
            + 405 error -32600
            > GET /no/such/path
            - 404 text/html
            + 404 application/json
            > PUT /tasks
            - 404 text/html
            + 405 application/json
            > POST /
            - 200 error -32700
            + 200 error -32005
            > POST /
            - 200 error -32700
            + 200 error -32001
            > 200,000 bytes of text
            - 413 text/html
            + task submitted
            + status working state-change
            + status working text-content
            + status input-required state-change final"],
    );
}
