//! Decisions about the tools of MCP servers: patterns, trust, hints, answers for longer.

use super::*;
use gemini_a2a::task::origin::McpOrigin;
use gemini_a2a::task::spec::ToolSpec;

fn origin(server: &str, tool: &str) -> McpOrigin {
    let (config, fingerprint) = (format!("config of {server}"), format!("{server} {tool} as it was"));
    McpOrigin { server: server.into(), tool: tool.into(), config, fingerprint, ..McpOrigin::default() }
}

fn asks_mcp() -> Plan {
    plan(Question::Mcp {
        title: String::new(),
        server: "x".into(),
        tool: "t".into(),
        display_name: String::new(),
        args: json!({}),
        description: String::new(),
        schema: Value::Null,
        warnings: vec![],
    })
}

fn judged(case: &Case, name: &str, origin: McpOrigin) -> Verdict {
    let origin = Origin::Mcp(origin);
    case.judge_of(&origin, origin.by_default(), (name, Kind::Other), &json!({}), &asks_mcp()).verdict
}

#[test]
fn a_pattern_is_for_exactly_one_server_and_never_for_a_name() {
    let case = plain().rules(Tier::User, json!([{"toolName": "mcp_x_*", "decision": "allow"}]));
    assert_eq!(judged(&case, "mcp_x_t", origin("x", "t")), Allow);
    assert_eq!(judged(&case, "mcp_x_y_t", origin("x_y", "t")), Asks, "the server x_y is another one");
    assert_eq!(judged(&case, "mcp_x_y_t", origin("x", "y_t")), Allow, "the same name, but a tool of x");
    assert_eq!(case.info("mcp_x_t", Kind::Other), Asks, "not a tool of a server");
    let case = plain().rules(Tier::User, json!([{"toolName": "mcp_*", "decision": "deny"}]));
    assert_eq!(judged(&case, "mcp_x_t", origin("x", "t")), Deny);
    assert_eq!(case.info("mcp_helper", Kind::Other), Asks);
}

#[test]
fn a_rule_may_name_the_server_by_its_own_name() {
    let case = plain().rules(
        Tier::User,
        json!([{"mcpName": "x", "decision": "deny", "priority": 1},
            {"mcpName": "x", "toolName": "read", "decision": "allow", "priority": 2}]),
    );
    assert_eq!(judged(&case, "mcp_x_read", origin("x", "read")), Allow, "by the tool's own name");
    assert_eq!(judged(&case, "mcp_x_write", origin("x", "write")), Deny);
    assert_eq!(judged(&case, "mcp_y_read", origin("y", "read")), Asks);
    assert_eq!(case.info("read", Kind::Other), Asks);
    let mut policy = Policy::built_in();
    let problems = policy.add(Tier::User, &json!([{"decision": "deny"}]));
    assert_eq!(problems, ["user rule 1 is not used: toolName is missing"]);
}

#[test]
fn settings_take_patterns_and_declared_names() {
    let case = plain().tools(json!({"exclude": ["mcp_x_*"], "allowed": ["mcp_y_t", "mcp_z_*"]}));
    assert_eq!(judged(&case, "mcp_x_t", origin("x", "t")), Deny);
    assert_eq!(judged(&case, "mcp_x_y_t", origin("x_y", "t")), Asks);
    assert_eq!(judged(&case, "mcp_y_t", origin("y", "t")), Allow);
    assert_eq!(judged(&case, "mcp_y_u", origin("y", "u")), Asks);
    assert_eq!(judged(&case, "mcp_z_t", origin("z", "t")), Allow);
    let case = plain().tools(json!({"core": ["read_file", "mcp_x_*"]}));
    assert_eq!(judged(&case, "mcp_x_t", origin("x", "t")), Asks, "it exists and is not approved");
    assert_eq!(judged(&case, "mcp_y_t", origin("y", "t")), Deny);
    let spec = |server: &str| ToolSpec {
        origin: Origin::Mcp(origin(server, "t")),
        ..ToolSpec::new(&format!("mcp_{server}_t"), "", Kind::Other, "", json!({}))
    };
    assert!(case.policy.forbids(&spec("y"), Mode::Default) && !case.policy.forbids(&spec("x"), Mode::Default));
    assert!(plain().policy.forbids(&spec("x"), Mode::Plan));
    let only = ["mcp_x_*".to_owned(), "mcp_z_t".to_owned()];
    let among: Vec<bool> = ["x", "x_y", "y", "z"].map(|server| spec(server).is_among(Some(&only))).into();
    assert_eq!(among, [true, false, false, true]);
}

/// The tools of a trusted server are allowed unless a rule says otherwise. The hint that a tool only reads never allows it; in plan mode the
/// hint makes the tool need approval instead of being denied.
#[test]
fn trust_and_hints() {
    let hinted = McpOrigin { read_only: true, ..origin("x", "t") };
    let trusted = McpOrigin { trusted: true, ..origin("x", "t") };
    let both = McpOrigin { read_only: true, ..trusted.clone() };
    let in_modes = |origin: &McpOrigin| Mode::ALL.map(|mode| judged(&plain().mode(mode), "mcp_x_t", origin.clone()));
    assert_eq!(in_modes(&origin("x", "t")), [Deny, Asks, Asks, Allow]);
    assert_eq!(in_modes(&hinted), [Asks, Asks, Asks, Allow]);
    assert_eq!(in_modes(&trusted), [Deny, Allow, Allow, Allow]);
    assert_eq!(in_modes(&both), [Asks, Allow, Allow, Allow]);
    let case = plain().rules(Tier::Workspace, json!([{"toolName": "mcp_x_t", "decision": "ask_user"}]));
    assert_eq!(judged(&case, "mcp_x_t", trusted.clone()), Asks, "a rule counts more");
    let alone = Case { interactive: false, ..plain() };
    assert_eq!(judged(&alone, "mcp_x_t", hinted), Deny, "nobody can be asked");
    assert_eq!(judged(&alone, "mcp_x_t", trusted), Allow);
}

/// Each call of a tool of a server that a client named needs approval, unless the operator permits clients to run tools without approval.
#[test]
fn a_client_s_own_server_always_asks() {
    let named = McpOrigin { trusted: true, of_client: true, ..origin("x", "t") };
    let in_modes = Mode::ALL.map(|mode| judged(&plain().mode(mode), "mcp_x_t", named.clone()));
    assert_eq!(in_modes, [Deny, Asks, Asks, Asks]);
    let rules = json!([{"toolName": "mcp_x_*", "decision": "allow"}, {"mcpName": "x", "decision": "allow"}]);
    assert_eq!(judged(&plain().rules(Tier::Admin, rules), "mcp_x_t", named.clone()), Asks);
    let of = Origin::Mcp(named.clone());
    let session = always("mcp_x_t", &of, &Value::Null, &asks_mcp(), Choice::ProceedAlwaysServer, Mode::Default);
    assert_eq!(judged(&Case { session, ..plain() }, "mcp_x_t", named.clone()), Asks);
    assert_eq!(judged(&plain().tools(json!({"exclude": ["mcp_*"]})), "mcp_x_t", named.clone()), Deny);
    assert_eq!(judged(&Case { auto_execute: true, ..plain() }, "mcp_x_t", named), Allow);
}

#[test]
fn an_answer_for_longer_is_bound_to_the_tool_or_the_servers_configuration() {
    let (read, write) = (origin("x", "read"), origin("x", "write"));
    let said = |choice| {
        let of = Origin::Mcp(read.clone());
        let session = always("mcp_x_read", &of, &Value::Null, &asks_mcp(), choice, Mode::Default);
        Case { session, ..plain() }
    };
    let changed = |origin: &McpOrigin| McpOrigin { fingerprint: "changed".into(), ..origin.clone() };
    let configured = |origin: &McpOrigin| McpOrigin { config: "changed".into(), ..changed(origin) };
    let verdicts = |case: &Case| {
        let of = |name: &str, origin: &McpOrigin| judged(case, name, origin.clone());
        [
            of("mcp_x_read", &read),
            of("mcp_x_read", &changed(&read)),
            of("mcp_x_write", &write),
            of("mcp_x_write", &changed(&write)),
            of("mcp_x_write", &configured(&write)),
            of("mcp_y_read", &origin("y", "read")),
        ]
    };
    assert_eq!(verdicts(&said(Choice::ProceedAlwaysTool)), [Allow, Asks, Asks, Asks, Asks, Asks]);
    assert_eq!(verdicts(&said(Choice::ProceedAlwaysServer)), [Allow, Allow, Allow, Allow, Asks, Asks]);
    assert_eq!(verdicts(&said(Choice::ProceedOnce)), [Asks; 6]);
    // What is saved holds for the tool, also in the file.
    let saved = always(
        "mcp_x_read",
        &Origin::Mcp(read.clone()),
        &Value::Null,
        &asks_mcp(),
        Choice::ProceedAlwaysAndSave,
        Mode::Default,
    );
    let mut case = plain();
    let lines: Vec<Value> = saved.into_iter().map(saved_rule).collect();
    assert_eq!(case.policy.add_saved(&Value::from(lines)), Vec::<String>::new());
    assert_eq!(verdicts(&case), [Allow, Asks, Asks, Asks, Asks, Asks]);
}
