//! Calls of tools of MCP servers: which need approval, what an answer allows, and the consequences of a changed tool.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::log::blob::BlobRef;
use gemini_a2a::task::log::event::{Event, ToolSet};
use gemini_a2a::task::log::server::{ServerSeen, ServerStatus};
use gemini_a2a::task::machine::decide::{Gate, Refusal};
use gemini_a2a::task::machine::job::{NoteBody, RunEnd};
use gemini_a2a::task::origin::{McpOrigin, Origin, ToolEntry};
use gemini_a2a::task::policy::{Grant, Mode, Rule};
use gemini_a2a::task::spec::{ApprovalScope, Base, Choice, Kind, Plan, Question, Verdict};
use serde_json::{Value, json};
use std::sync::Arc;

fn origin(tool: &str) -> McpOrigin {
    let (config, fingerprint) = ("config".into(), format!("{tool} 1"));
    McpOrigin { server: "x".into(), tool: tool.into(), config, fingerprint, ..McpOrigin::default() }
}

fn tools(change: impl Fn(&mut McpOrigin)) -> Event {
    let entry = |tool: &str| {
        let mut origin = origin(tool);
        change(&mut origin);
        let name = format!("mcp_x_{tool}");
        ToolEntry { name, display_name: tool.into(), kind: Kind::Other, origin: Origin::Mcp(origin) }
    };
    let declarations = BlobRef { sha256: "d".repeat(64), bytes: 9 };
    let others = vec![entry("read"), entry("write")];
    Event::Tools(Arc::new(ToolSet { names: vec![], declarations, others, denied: vec![] }))
}

fn request(tool: &str, id: &str) -> Request {
    call(&format!("mcp_x_{tool}"), id)
}

fn planned_as(request: &Request, fingerprint: &str, warnings: &[&str]) -> Plan {
    let tool = request.name.trim_start_matches("mcp_x_");
    let question = Question::Mcp {
        title: "Confirm".into(),
        server: "x".into(),
        tool: tool.into(),
        display_name: tool.into(),
        args: request.args.clone(),
        description: String::new(),
        schema: Value::Null,
        warnings: warnings.iter().map(|text| (*text).to_owned()).collect(),
    };
    let base = Some(Base { sha256: Some(fingerprint.into()), change: None });
    Plan { title: tool.into(), question, base }
}

fn as_declared(request: &Request) -> Plan {
    planned_as(request, &format!("{} 1", request.name.trim_start_matches("mcp_x_")), &[])
}

fn mcp_planned(request: &Request, plan: &Plan) -> Event {
    Event::CallPlanned { call: request.call.clone(), plan: Arc::new(plan.clone()) }
}

fn answered_by(request: &Request, choice: Choice, rules: Vec<Rule>) -> Event {
    let call = request.call.clone();
    Event::CallAnswered { call, choice, by: ann(), edited: None, answers: None, rules }
}

fn allows(tool: &str, hash: &str) -> Rule {
    Rule {
        mcp_name: Some("x".into()),
        mcp_hash: Some(hash.into()),
        modes: Some(vec![Mode::Default, Mode::AutoEdit, Mode::Yolo]),
        ..Rule::new(tool, Verdict::Allow)
    }
}

/// The tools were declared to the model (4), which calls `read` (5). The call needs approval.
fn reading() -> (Vec<Event>, Request) {
    let read = request("read", "1");
    let log = log(thinking(), &[tools(|_| {}), answered(std::slice::from_ref(&read))]);
    (log, read)
}

const CHANGED: &str =
    "It was allowed before, but x has changed the tool or was configured anew since then. Check what it says now.";

#[test]
fn a_call_is_asked_about_and_an_answer_holds_for_the_tool_or_its_server() {
    let (events, read) = reading();
    let plan = as_declared(&read);
    let case = given(events)
        .when(note(5, NoteBody::Prepared(vec![Ok(plan.clone())])))
        .then(&[mcp_planned(&read, &plan), asked(&read)], &[]);
    let offered = vec!["proceed_once", "proceed_always_tool", "proceed_always_server", "cancel"];
    let unknown = Refusal::UnknownOption { call: read.call.clone(), offered };
    case.clone().when(pick(&read, "proceed_always_and_save")).refused(unknown);
    for (word, choice, rule) in [
        ("proceed_always_tool", Choice::ProceedAlwaysTool, Some(allows("read", "read 1"))),
        ("proceed_always_server", Choice::ProceedAlwaysServer, Some(allows("*", "config"))),
        ("proceed_always", Choice::ProceedAlwaysTool, Some(allows("read", "read 1"))),
        ("proceed_once", Choice::ProceedOnce, None),
    ] {
        let rules = rule.into_iter().collect();
        let case = case.clone().when(pick(&read, word)).then(&[answered_by(&read, choice, rules), ready(&read)], &[]);
        let case = case.next(&[started(&read)], &[run(10, &read, Gate::Synced)]);
        // The next calls of this tool and of another one of the server.
        let (again, write) = (request("read", "2"), request("write", "3"));
        let both = [again.clone(), write.clone()];
        let plans = both.each_ref().map(as_declared);
        let next = |request: &Request, plan: &Plan, allowed: bool| {
            let then = if allowed { ready(request) } else { asked(request) };
            (mcp_planned(request, plan), then)
        };
        let (of_tool, of_server) = (choice != Choice::ProceedOnce, choice == Choice::ProceedAlwaysServer);
        let ((a, b), (c, d)) = (next(&again, &plans[0], of_tool), next(&write, &plans[1], of_server));
        case.record_all(&[ended(&read, success()), Event::ResultsSent, answered(&both)])
            .when(note(13, NoteBody::Prepared(plans.map(Ok).into())))
            .then(&[a, c, b, d], &[]);
    }
}

/// A call of a changed tool needs approval again, with a warning, also if the earlier version was declared to the model.
#[test]
fn a_changed_tool_is_asked_about_again_with_a_warning() {
    let (events, read) = reading();
    let plan = as_declared(&read);
    let steps = [
        mcp_planned(&read, &plan),
        asked(&read),
        answered_by(&read, Choice::ProceedAlwaysTool, vec![allows("read", "read 1")]),
        ready(&read),
        started(&read),
        ended(&read, success()),
        Event::ResultsSent,
    ];
    let again = request("read", "2");
    for declared in [tools(|_| {}), tools(|origin| origin.fingerprint = "read 2".into())] {
        let start = log(log(events.clone(), &steps), &[declared, answered(std::slice::from_ref(&again))]);
        let (found, shown) = (planned_as(&again, "read 2", &[]), planned_as(&again, "read 2", &[CHANGED]));
        given(start)
            .when(note(14, NoteBody::Prepared(vec![Ok(found)])))
            .then(&[mcp_planned(&again, &shown), asked(&again)], &[]);
    }
}

/// A tool that changes after the answer and before the call runs is planned and asked about again.
#[test]
fn a_tool_that_changes_before_it_runs_is_asked_about_again() {
    let (events, read) = reading();
    let plan = as_declared(&read);
    let steps = [
        mcp_planned(&read, &plan),
        asked(&read),
        answered_by(&read, Choice::ProceedAlwaysServer, vec![allows("*", "config")]),
        ready(&read),
        started(&read),
    ];
    let case = given(log(events, &steps))
        .when(note(10, NoteBody::Ended(RunEnd::Stale)))
        .then(&[stale(&read)], &[prepare(11, std::slice::from_ref(&read))]);
    let shown = planned_as(&read, "read 2", &[CHANGED]);
    case.when(note(11, NoteBody::Prepared(vec![Ok(planned_as(&read, "read 2", &[]))])))
        .then(&[mcp_planned(&read, &shown), asked(&read)], &[]);
}

/// Lasting answers are offered only in a trusted folder, and only if the settings do not disable them.
#[test]
fn answers_for_longer_need_a_trusted_folder() {
    let (events, read) = reading();
    let plan = as_declared(&read);
    let keeping = |events: Vec<Event>, grant: Grant, keeping: ApprovalScope| {
        given(events)
            .with_grant(grant)
            .when(note(5, NoteBody::Prepared(vec![Ok(plan.clone())])))
            .then(&[mcp_planned(&read, &plan), asked_for(&read, keeping)], &[])
    };
    let disabled = Grant { always_disabled: true, ..Grant::default() };
    let saving = Grant { saving: true, ..Grant::default() };
    for case in [
        keeping(untrusted(events.clone()), Grant::default(), ApprovalScope::Once),
        keeping(events.clone(), disabled, ApprovalScope::Once),
    ] {
        assert_eq!(case.state.calls[0].options(), [Choice::ProceedOnce, Choice::Cancel]);
        case.when(pick(&read, "proceed_always")).then(&[chosen(&read, Choice::ProceedOnce), ready(&read)], &[]);
    }
    let rule = allows("read", "read 1");
    keeping(events, saving, ApprovalScope::Disk)
        .when(pick(&read, "proceed_always_and_save"))
        .then(&[answered_by(&read, Choice::ProceedAlwaysAndSave, vec![rule.clone()]), ready(&read)], &[save(rule)]);
}

/// The tool of a trusted server runs without approval. It waits for fsync unless the server declares that it only reads.
#[test]
fn tools_of_a_trusted_server_run_unasked() {
    for (read_only, gate) in [(false, Gate::Synced), (true, Gate::Written)] {
        let read = request("read", "1");
        let trusted = tools(|origin| (origin.trusted, origin.read_only) = (true, read_only));
        let plan = as_declared(&read);
        given(log(thinking(), &[trusted, answered(std::slice::from_ref(&read))]))
            .when(note(5, NoteBody::Prepared(vec![Ok(plan.clone())])))
            .then(&[mcp_planned(&read, &plan), ready(&read)], &[])
            .next(&[started(&read)], &[run(8, &read, gate)]);
    }
}

/// A client's list of tools may name a server's tools by a pattern or one by one.
#[test]
fn a_clients_list_of_tools_is_respected() {
    for (only, allowed) in [("mcp_x_*", true), ("mcp_x_read", true), ("mcp_y_*", false), ("read", false)] {
        let (mut events, read) = reading();
        events[0] = created_with_tools(&[only]);
        let plan = as_declared(&read);
        let decided =
            given(events).decide(note(5, NoteBody::Prepared(vec![Ok(plan)]))).expect("a report is not refused");
        assert_eq!(decided.events.contains(&asked(&read)), allowed, "{only}: {:?}", decided.events);
    }
}

#[test]
fn the_servers_of_a_task_are_in_its_log() {
    let seen = |server: &str, status| ServerSeen::new(server, status);
    let event = |seen: &ServerSeen| Event::ServerSeen(Arc::new(seen.clone()));
    let mut case = given(thinking());
    for one in [
        seen("b", ServerStatus::Connecting),
        seen("a", ServerStatus::Connected),
        ServerSeen { error: Some("It ended.".into()), ..seen("b", ServerStatus::Disconnected) },
        seen("c", ServerStatus::Blocked),
        seen("c", ServerStatus::Removed),
    ] {
        case = case.when(note(3, NoteBody::ServerSeen(one.clone()))).then(&[event(&one)], &[]);
    }
    let names: Vec<&str> = case.state.servers.iter().map(|seen| seen.server.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(case.state.servers[1].error.as_deref(), Some("It ended."));
    let read: ServerSeen = serde_json::from_value(json!({"server": "a", "status": "connected"})).expect("short form");
    assert_eq!(read, case.state.servers[0]);
}
