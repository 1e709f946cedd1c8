//! Command hooks: commands of the user that run at certain points of a task, and what their output means. Webhooks are something else:
//! see `push`.
//!
//! A hook can deny a call, require approval, change arguments (to which the policy applies again) or add text for the model. It cannot
//! allow anything.

use crate::base::id::CallId;
use crate::base::json;
use crate::base::text::unsafe_char::is_unsafe;
use crate::base::text::words::words;
use crate::limits::HOOK_TEXT_CHARS;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

words! {
    /// When a hook runs, with the words that settings use.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum HookPoint {
        BeforeTool = "BeforeTool",
        AfterTool = "AfterTool",
        BeforeAgent = "BeforeAgent",
        AfterAgent = "AfterAgent",
        SessionStart = "SessionStart",
        SessionEnd = "SessionEnd",
        Notification = "Notification",
        PreCompress = "PreCompress",
    }
}

/// A command that runs at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandHook {
    pub point: HookPoint,
    /// For which tools, or for which variants of the point, it runs; empty and `*` mean all.
    pub matcher: String,
    pub name: String,
    pub command: String,
    pub timeout_ms: u64,
    /// If the hook fails, the call is denied.
    pub fail_closed: bool,
    /// All hooks of the point run one after the other.
    pub sequential: bool,
    /// The settings of the project define it, so it runs only after somebody has allowed it.
    pub of_project: bool,
    /// Environment variables for it: the settings of its extension.
    pub variables: Vec<(String, crate::base::secret::Secret)>,
}

/// A run of a hook, as the log records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookReport {
    pub point: HookPoint,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    pub decision: HookDecision,
    /// Why it asks or denies.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people; empty if there is nothing to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The arguments that replace those of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// What the model is told before the turn.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub context: String,
    /// Why the turn ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// After the turn the model is not shown the conversation so far.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clear_context: bool,
}

/// The decision of a hook. A stricter decision is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookDecision {
    /// It has no objection.
    #[default]
    None,
    Ask,
    Deny,
}

/// The parsed output of a hook.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookAnswer {
    pub decision: HookDecision,
    /// Why it asks or denies.
    pub reason: String,
    /// For people.
    pub text: String,
    pub stop: Option<String>,
    /// Members that replace those of the arguments.
    pub tool_input: Option<Map<String, Value>>,
    pub context: String,
    pub clear_context: bool,
}

/// How a hook ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookEnd {
    Exit {
        code: i32,
        output: String,
        errors: String,
    },
    /// It did not run to its end, and why.
    Failed(String),
}

/// The meaning of the end of a hook. With exit code 0 the output is its answer, 2 denies, and any other code is reported as a failure.
pub fn answer(end: &HookEnd, hook: &CommandHook) -> HookAnswer {
    let failed = |why: &str| {
        let text = format!("The hook {} failed: {why}", hook.name);
        match hook.fail_closed {
            true => HookAnswer { decision: HookDecision::Deny, reason: text.clone(), text, ..HookAnswer::default() },
            false => HookAnswer { text, ..HookAnswer::default() },
        }
    };
    match end {
        HookEnd::Failed(why) => failed(why),
        HookEnd::Exit { code: 0, output, .. } => parsed_output(output.trim(), hook),
        HookEnd::Exit { code: 2, errors, output } => {
            let reason = [errors.trim(), output.trim()].into_iter().find(|text| !text.is_empty());
            denied(reason.unwrap_or("it gave no reason"), hook)
        }
        HookEnd::Exit { code, errors, .. } => failed(&format!("it ended with {code}. {}", errors.trim())),
    }
}

fn denied(reason: &str, hook: &CommandHook) -> HookAnswer {
    let reason = shortened(reason);
    let text = format!("The hook {} denied it: {reason}", hook.name);
    HookAnswer { decision: HookDecision::Deny, reason, text, ..HookAnswer::default() }
}

/// Parses the output of a hook that succeeded: JSON, or a text for people.
fn parsed_output(output: &str, hook: &CommandHook) -> HookAnswer {
    // Parts of the output become part of the log, so it must not be nested too deeply.
    let Ok(Value::Object(answer)) = json::read::<Value>(output.as_bytes()) else {
        return HookAnswer { text: shortened(output), ..HookAnswer::default() };
    };
    let text = |name: &str| answer.get(name).and_then(Value::as_str).map(shortened).unwrap_or_default();
    let specific = answer.get("hookSpecificOutput");
    let mut given = match answer.get("decision").and_then(Value::as_str) {
        Some("deny" | "block") if text("reason").is_empty() => denied("it gave no reason", hook),
        Some("deny" | "block") => denied(&text("reason"), hook),
        Some("ask") => {
            let (name, reason) = (&hook.name, text("reason"));
            let text = match reason.is_empty() {
                true => String::new(),
                false => format!("The hook {name} wants this approved: {reason}"),
            };
            HookAnswer { decision: HookDecision::Ask, reason, text, ..HookAnswer::default() }
        }
        _ => HookAnswer::default(),
    };
    given.text = [given.text, text("systemMessage")]
        .iter()
        .filter(|text| !text.is_empty())
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    if answer.get("suppressOutput") == Some(&Value::Bool(true)) && given.decision == HookDecision::None {
        given.text.clear();
    }
    if answer.get("continue") == Some(&Value::Bool(false)) {
        let why = [text("stopReason"), text("reason")].into_iter().find(|text| !text.is_empty());
        given.stop = Some(why.unwrap_or_else(|| format!("the hook {} ended the turn", hook.name)));
    }
    given.tool_input = specific.and_then(|one| one.get("tool_input")?.as_object().cloned());
    given.context = specific.and_then(|one| one.get("additionalContext")?.as_str()).map(shortened).unwrap_or_default();
    given.clear_context = specific.and_then(|one| one.get("clearContext")) == Some(&Value::Bool(true));
    given
}

/// The beginning of a text, without characters that would change how a terminal shows it.
fn shortened(text: &str) -> String {
    text.chars().filter(|c| !is_unsafe(*c) || "\n\t".contains(*c)).take(HOOK_TEXT_CHARS).collect()
}

impl HookReport {
    pub fn new(hook: &CommandHook, answer: &HookAnswer) -> HookReport {
        HookReport {
            point: hook.point,
            name: hook.name.clone(),
            call: None,
            decision: answer.decision,
            reason: answer.reason.clone(),
            text: answer.text.clone(),
            args: None,
            context: String::new(),
            stop: answer.stop.clone(),
            clear_context: hook.point == HookPoint::AfterAgent && answer.clear_context,
        }
    }
}

/// The answers of several hooks as one: the strictest decision counts, and reasons and texts are joined.
pub fn joined(answers: &[HookAnswer]) -> HookAnswer {
    let decision = answers.iter().map(|answer| answer.decision).max().unwrap_or_default();
    let lines = |of: &dyn Fn(&HookAnswer) -> &str| {
        answers.iter().map(of).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    };
    let mut input: Option<Map<String, Value>> = None;
    for members in answers.iter().filter_map(|answer| answer.tool_input.clone()) {
        input.get_or_insert_default().extend(members);
    }
    HookAnswer {
        decision,
        reason: lines(&|answer| if answer.decision == decision { &answer.reason } else { "" }),
        text: lines(&|answer| &answer.text),
        stop: answers.iter().find_map(|answer| answer.stop.clone()),
        tool_input: input,
        context: lines(&|answer| &answer.context),
        clear_context: answers.iter().any(|answer| answer.clear_context),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::JSON_DEPTH;
    use serde_json::json;

    fn hook(fail_closed: bool) -> CommandHook {
        CommandHook {
            point: HookPoint::BeforeTool,
            matcher: String::new(),
            name: "guard".into(),
            command: "true".into(),
            timeout_ms: 1,
            fail_closed,
            sequential: false,
            of_project: false,
            variables: vec![],
        }
    }

    fn exit(code: i32, output: &str, errors: &str) -> HookEnd {
        HookEnd::Exit { code, output: output.into(), errors: errors.into() }
    }

    #[test]
    fn exit_codes_decide() {
        let decide = |end: &HookEnd, fail_closed| {
            let answer = answer(end, &hook(fail_closed));
            (answer.decision, answer.reason, answer.text)
        };
        let none = |text: &str| (HookDecision::None, String::new(), text.to_owned());
        assert_eq!(decide(&exit(0, "", "noise"), false), none(""));
        assert_eq!(decide(&exit(0, " Looked \u{1b}[2Jat\tit. \n", ""), false), none("Looked [2Jat\tit."));
        let (decision, reason, text) = decide(&exit(2, "", "not here\n"), false);
        assert_eq!((decision, reason.as_str()), (HookDecision::Deny, "not here"));
        assert_eq!(text, "The hook guard denied it: not here");
        assert_eq!(decide(&exit(1, "", "oops"), false), none("The hook guard failed: it ended with 1. oops"));
        assert_eq!(decide(&exit(3, "deny", ""), false).0, HookDecision::None, "only 2 denies");
        let failed = HookEnd::Failed("it took longer than 1 ms".into());
        assert_eq!(decide(&failed, false), none("The hook guard failed: it took longer than 1 ms"));
        assert_eq!(decide(&failed, true).0, HookDecision::Deny);
        assert_eq!(decide(&exit(1, "", ""), true).0, HookDecision::Deny);
    }

    #[test]
    fn answers_in_json() {
        let said = |output: Value| answer(&exit(0, &output.to_string(), ""), &hook(false));
        assert_eq!(said(json!({"decision": "allow"})), HookAnswer::default());
        let denied =
            said(json!({"decision": "block", "reason": "no", "systemMessage": "Look.", "suppressOutput": true}));
        assert_eq!((denied.decision, denied.reason.as_str()), (HookDecision::Deny, "no"));
        assert_eq!(denied.text, "The hook guard denied it: no\nLook.", "a refusal is always shown");
        assert_eq!(said(json!({"systemMessage": "Look.", "suppressOutput": true})).text, "");
        let asks =
            said(json!({"decision": "ask", "hookSpecificOutput": {"tool_input": {"a": 1}, "additionalContext": "c"}}));
        assert_eq!((asks.decision, asks.context.as_str(), asks.text.as_str()), (HookDecision::Ask, "c", ""));
        let late = said(json!({"decision": "ask", "reason": "It is late.", "suppressOutput": true}));
        assert_eq!(late.text, "The hook guard wants this approved: It is late.");
        let deep = format!("{}1{}", "[".repeat(JSON_DEPTH + 1), "]".repeat(JSON_DEPTH + 1));
        let deep = format!(r#"{{"hookSpecificOutput": {{"tool_input": {{"a": {deep}}}}}}}"#);
        assert_eq!(answer(&exit(0, &deep, ""), &hook(false)).tool_input, None, "the log could not be read");
        assert_eq!(asks.tool_input.map(Value::Object), Some(json!({"a": 1})));
        assert_eq!(said(json!({"continue": false, "stopReason": "enough"})).stop.as_deref(), Some("enough"));
        assert_eq!(said(json!({"continue": false})).stop.as_deref(), Some("the hook guard ended the turn"));
        assert_eq!(said(json!({"decision": 7, "hookSpecificOutput": []})), HookAnswer::default());
        let long = answer(&exit(2, "", &"é".repeat(HOOK_TEXT_CHARS + 1)), &hook(false));
        assert_eq!(long.reason.chars().count(), HOOK_TEXT_CHARS);
    }

    #[test]
    fn the_strictest_of_several_counts() {
        let one = |decision, reason: &str| HookAnswer { decision, reason: reason.into(), ..HookAnswer::default() };
        let input = |value: Value| HookAnswer { tool_input: value.as_object().cloned(), ..HookAnswer::default() };
        let all = [
            one(HookDecision::None, ""),
            one(HookDecision::Ask, "sure?"),
            input(json!({"a": 1, "b": 1})),
            input(json!({"b": 2})),
        ];
        let answer = joined(&all);
        assert_eq!((answer.decision, answer.reason.as_str()), (HookDecision::Ask, "sure?"));
        assert_eq!(answer.tool_input.map(Value::Object), Some(json!({"a": 1, "b": 2})));
        let all = [&all[..], &[one(HookDecision::Deny, "no"), one(HookDecision::Deny, "never")]].concat();
        assert_eq!(joined(&all).reason, "no\nnever");
        assert_eq!(joined(&[]), HookAnswer::default());
    }
}
