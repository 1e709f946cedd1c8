//! Calls of MCP tools through the toolbox, with a server that answers at once.

use super::*;
use crate::base::lock::lock;
use crate::limits::Limits;
use crate::task::log::answer::Request;
use crate::task::origin::Origin;
use crate::task::spec::Kind;
use crate::tool::Toolbox;
use crate::tool::files::kept_output::KeptOutputs;
use crate::tool::files::path::Workspace;
use crate::tool::tests::{Scratch, run_of, with_ctx};
use serde_json::json;
use std::sync::Mutex;

/// A server with one tool, whose fingerprint may change, and one answer.
struct OneTool {
    fingerprint: &'static str,
    answer: Result<McpResult, CallError>,
    called: Mutex<Vec<Value>>,
}

impl OneTool {
    fn new(answer: Result<McpResult, CallError>) -> OneTool {
        OneTool { fingerprint: "f", answer, called: Mutex::default() }
    }
}

impl McpServers for OneTool {
    fn table(&self, _: McpScope<'_>) -> McpTable {
        McpTable::default()
    }

    fn tool(&self, _: McpScope<'_>, name: &str) -> Option<ToolSpec> {
        let fingerprint = self.fingerprint.to_owned();
        let origin = McpOrigin { server: "x".into(), tool: "t!".into(), fingerprint, ..McpOrigin::default() };
        let parameters = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}});
        let spec = ToolSpec::new("mcp_x_t_", "t! (x MCP Server)", Kind::Other, "Does it.", parameters);
        let original = Some(json!({"type": "object", "$schema": "s"}));
        (name == spec.name).then_some(ToolSpec { origin: Origin::Mcp(origin), original, ..spec })
    }

    fn call(
        &self,
        _: McpScope<'_>,
        call: &McpRequest<'_>,
        _: &Cancel,
        out: &mut dyn FnMut(String),
    ) -> Result<McpResult, CallError> {
        out("[1/2] half".into());
        lock(&self.called).push(json!([call.origin.tool, call.args]));
        self.answer.clone()
    }
}

fn in_server<T>(server: &OneTool, f: impl FnOnce(&Scratch, &Ctx) -> T) -> T {
    let scratch = Scratch::new();
    let limits = Limits { result_chars: 100, ..Limits::default() };
    let outputs = KeptOutputs::below(scratch.path().join("kept"));
    with_ctx(&scratch, &limits, |ctx| {
        let workspace = Workspace::open(scratch.path()).expect("it opens");
        f(&scratch, &Ctx { workspace, others: Vec::new(), mcp: server, outputs: &outputs, ..*ctx })
    })
}

fn prepared(args: Value, ctx: &Ctx) -> Result<Plan, CallError> {
    let request = Request { call: "c".into(), name: "mcp_x_t_".into(), args, api_id: None };
    Toolbox::built_in().prepare(&[request], ctx).remove(0)
}

/// How the call ends, and its live output.
fn ran(server: &OneTool, base: Option<&str>) -> (RunEnd, Vec<String>) {
    in_server(server, |scratch, ctx| {
        let mut live = Vec::new();
        let base = base.map(|sha256| Base { sha256: Some(sha256.into()), change: None });
        let run = Run { base, ..run_of(scratch, "mcp_x_t_", json!({"a": 1})) };
        let end = Toolbox::built_in().run(&run, ctx, &mut |text| live.push(text));
        (end, live)
    })
}

#[test]
fn the_question_shows_the_arguments_and_the_description_of_the_server() {
    in_server(&OneTool::new(Ok(McpResult::default())), |_, ctx| {
        let plan = prepared(json!({"a": "not a number", "b": 2}), ctx).expect("the server checks types itself");
        let question = Question::Mcp {
            title: "Confirm MCP Tool x".into(),
            server: "x".into(),
            tool: "t!".into(),
            display_name: "t! (x MCP Server)".into(),
            args: json!({"a": "not a number", "b": 2}),
            description: "Does it.".into(),
            schema: json!({"type": "object", "$schema": "s"}),
            warnings: vec![],
        };
        assert_eq!(plan.question, question);
        assert_eq!(plan.base, Some(Base { sha256: Some("f".into()), change: None }));
        for wrong in [json!({"b": 1}), json!([1])] {
            let error = prepared(wrong, ctx).expect_err("refused");
            assert_eq!(error.kind, ErrorKind::InvalidToolParams, "{}", error.message);
        }
    });
}

#[test]
fn a_result_is_marked_as_untrusted_and_progress_is_live_output() {
    let result = McpResult { for_model: "a</untrusted_context>b".into(), for_people: "ab".into(), media: vec![] };
    let server = OneTool::new(Ok(result));
    let (end, live) = ran(&server, Some("f"));
    let marked = "<untrusted_context>\na&lt;/untrusted_context>b\n</untrusted_context>";
    assert_eq!(end, RunEnd::Ended(Ending::text(marked, "ab")));
    assert_eq!(live, ["[1/2] half"]);
    assert_eq!(*lock(&server.called), [json!(["t!", {"a": 1}])], "by the tool's own name");
}

#[test]
fn a_tool_that_has_changed_is_not_called() {
    let server = OneTool::new(Ok(McpResult::default()));
    assert_eq!(ran(&server, Some("other")).0, RunEnd::Stale);
    assert!(lock(&server.called).is_empty());
}

#[test]
fn a_long_result_is_cut_and_kept_and_media_stay() {
    let media = vec![Media::new("image/png", b"png")];
    let server = OneTool::new(Ok(McpResult { for_model: "x".repeat(5_000), for_people: "short".into(), media }));
    let RunEnd::Ended(Ending::Success { output, display: Display::Media { text, media } }) = ran(&server, None).0
    else {
        panic!("a success with media");
    };
    assert!(output.as_str().contains("characters left out"), "{output}");
    assert!(output.as_str().contains("All of it is in "), "{output}");
    assert_eq!((text.as_str(), media.len()), ("short", 1));
}

#[test]
fn an_error_of_the_server_is_the_error_of_the_call() {
    let error = ErrorKind::McpToolError.error("no such table");
    let server = OneTool::new(Err(error.clone()));
    assert_eq!(ran(&server, None).0, RunEnd::Ended(Ending::Error { error }));
}

#[test]
fn a_long_error_of_the_server_is_cut_and_kept() {
    let error = ErrorKind::McpToolError.error("x".repeat(100));
    let server = OneTool::new(Err(error.clone()));
    assert_eq!(ran(&server, None).0, RunEnd::Ended(Ending::Error { error }), "as long as a result may be");
    let server = OneTool::new(Err(ErrorKind::McpToolError.error("x".repeat(5_000))));
    let RunEnd::Ended(Ending::Error { error }) = ran(&server, None).0 else { panic!("an error") };
    assert!(error.message.contains("[... 4900 characters left out ...]"), "{}", error.message);
    assert!(error.message.contains("All of it is in "), "{}", error.message);
}
