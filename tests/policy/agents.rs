//! Decisions about calls of other agents: modes, rules that name an agent, answers for longer.

use super::*;
use gemini_a2a::task::definitions::agent::INVOKE;
use gemini_a2a::task::spec::Base;

fn asks(fingerprint: &str) -> Plan {
    let question = Question::Info { title: String::new(), prompt: String::new(), urls: vec![] };
    Plan { base: Some(Base { sha256: Some(fingerprint.into()), change: None }), ..plan(question) }
}

fn called(agent: &str) -> Value {
    json!({"agent_name": agent, "prompt": "x"})
}

fn judged(case: &Case, agent: &str, fingerprint: &str) -> Verdict {
    let by_default = Origin::Agents.by_default();
    case.judge_of(&Origin::Agents, by_default, (INVOKE, Kind::Other), &called(agent), &asks(fingerprint)).verdict
}

#[test]
fn a_call_asks_unless_a_rule_allows_this_agent() {
    assert_eq!(Mode::ALL.map(|mode| judged(&plain().mode(mode), "a", "f")), [Deny, Asks, Asks, Allow]);
    let case = plain().rules(
        Tier::User,
        json!([{"toolName": INVOKE, "agentName": "a", "decision": "allow"},
            {"toolName": "*", "agentName": "b", "decision": "deny"}]),
    );
    assert_eq!(["a", "b", "c"].map(|agent| judged(&case, agent, "f")), [Allow, Deny, Asks]);
    let other = case.judge("read_it", Kind::Other, &called("b"), &asks("f")).verdict;
    assert_eq!(other, Asks, "an argument of another tool is no agent");
}

#[test]
fn always_is_for_the_agent_as_it_is_defined() {
    let said = |choice| always(INVOKE, &Origin::Agents, &called("a"), &asks("f"), choice, Mode::Default);
    let case = Case { session: said(Choice::ProceedAlways), ..plain() };
    assert_eq!([judged(&case, "a", "f"), judged(&case, "a", "changed"), judged(&case, "b", "f")], [Allow, Asks, Asks]);
    assert_eq!(said(Choice::ProceedAlways)[0].described(), "invoke_agent a");
    assert_eq!(said(Choice::ProceedOnce), vec![]);
    let mut case = plain();
    let saved = said(Choice::ProceedAlwaysAndSave).into_iter().map(gemini_a2a::task::policy::saved_rule).collect();
    assert_eq!(case.policy.add_saved(&saved), Vec::<String>::new());
    assert_eq!([judged(&case, "a", "f"), judged(&case, "a", "changed")], [Allow, Asks]);
}
