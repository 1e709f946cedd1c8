//! Decides whether a tool call runs, needs approval or is denied.
//!
//! A [`Policy`] is a list of rules. A rule has a rank: the tier it comes from (built in, extension, workspace, user, administrator),
//! then its priority. The first rule that matches a call decides. A command line is decided command by command with the same
//! rules: one denied command denies the line, and one command that needs approval makes the line need it.
//!
//! A rule that allows matches only if it is certain that the call fits; a rule that asks or denies also matches if the call may fit.
//! Except in yolo, lines that could not be parsed and lines that write to files need approval, whatever a rule allows.
//!
//! A line of commands that are known to only read needs no rule: it runs confined by the kernel. What a rule or a person allows
//! runs as the user. Where a setting can be understood in two ways, the stricter meaning is used: `tools.core` says which tools exist
//! and allows none of them, and an answer "always" has a lower rank than any rule that somebody wrote.

mod always;
mod line;
mod risky;
mod rule;
mod settings;

pub use always::{always, saved_rule};
pub use rule::{Names, Rule, Tier};
pub use settings::{ToolSettings, exclusion};

use crate::base::text::words::words;
use crate::task::origin::Origin;
use crate::task::spec::{Confinement, Kind, Plan, Question, ToolSpec, Verdict};
use rule::{RankedRule, Subject};
use serde::{Deserialize, Serialize};
use serde_json::Value;

words! {
    /// How much a task may do without approval, least first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Mode {
        /// Only read.
        Plan = "plan",
        #[default]
        Default = "default",
        /// Files may be edited.
        #[serde(alias = "autoEdit")]
        AutoEdit = "auto_edit",
        Yolo = "yolo",
    }
}

impl Mode {
    /// This mode and all more permissive ones.
    pub fn and_above(self) -> Vec<Mode> {
        Mode::ALL.into_iter().filter(|mode| *mode >= self).collect()
    }
}

/// What the operator grants in the workspace of a task. Never taken from a client or from the workspace itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Rules of "always" answers may be saved for other sessions.
    pub saving: bool,
    /// MCP tools and servers may not be allowed for the rest of a session.
    pub always_disabled: bool,
    /// Clients may turn off approvals.
    pub auto_execute: bool,
}

/// A call that is about to run, with everything that rules depend on.
#[derive(Clone, Copy)]
pub struct CallContext<'a> {
    pub tool: &'a str,
    pub kind: Kind,
    pub origin: &'a Origin,
    /// The tool's own default, if no rule matches.
    pub by_default: Verdict,
    pub args: &'a Value,
    pub plan: &'a Plan,
    pub mode: Mode,
    /// The rules of "always" answers of this session.
    pub session: &'a [Rule],
    /// The rules with which extensions of the workspace forbid tools.
    pub denied: &'a [Rule],
    pub trusted: bool,
    /// Whether somebody can be asked.
    pub interactive: bool,
    /// Everything that is not denied runs without approval.
    pub auto_execute: bool,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    pub verdict: Verdict,
    /// The rule that decided, as a phrase that can follow "because of".
    pub reason: String,
    /// How the call is confined if it runs.
    pub confinement: Confinement,
}

impl Ruling {
    pub fn new(verdict: Verdict, reason: impl Into<String>) -> Ruling {
        Ruling { verdict, reason: reason.into(), confinement: Confinement::None }
    }
}

#[derive(Clone, Debug)]
pub struct Policy {
    /// Highest rank first.
    rules: Vec<RankedRule>,
    /// Whether somebody can be asked. This is the case in every server, because a client may connect later.
    interactive: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::built_in()
    }
}

impl Policy {
    pub fn built_in() -> Policy {
        let mut policy = Policy { rules: Vec::new(), interactive: true };
        policy.insert(settings::built_in());
        policy
    }

    /// Sets that nobody can be asked: calls that need approval are denied.
    pub fn ask_nobody(&mut self) {
        self.interactive = false;
    }

    pub fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Adds the rules of a JSON list. Returns a message for each rule that is invalid and therefore left out.
    pub fn add(&mut self, tier: Tier, rules: &Value) -> Vec<String> {
        let (added, problems) = read(tier, rules);
        self.insert(added);
        problems
    }

    /// Adds rules that people saved with "always".
    pub fn add_saved(&mut self, rules: &Value) -> Vec<String> {
        let (added, problems) = read(Tier::User, rules);
        self.insert(added.into_iter().map(|ranked| RankedRule { saved: true, ..ranked }).collect());
        problems
    }

    /// The rules that people saved with "always".
    pub fn saved(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|ranked| ranked.saved).map(|ranked| &ranked.rule)
    }

    /// Removes the saved rules that are equal to this one except for the priority, and returns them.
    pub fn forget(&mut self, rule: &Rule) -> Vec<Rule> {
        let removed = self.rules.extract_if(.., |ranked| ranked.saved && ranked.rule.is_like(rule));
        removed.map(|ranked| ranked.rule).collect()
    }

    /// Adds the rules that result from the `tools` settings.
    pub fn configure(&mut self, tools: &ToolSettings) -> Vec<String> {
        let (added, problems) = settings::translated(tools);
        self.insert(added);
        problems
    }

    fn insert(&mut self, more: Vec<RankedRule>) {
        self.rules.extend(more);
        // Of rules with the same rank the stricter one is first.
        self.rules.sort_by_key(|ranked| (std::cmp::Reverse(ranked.rank), strictness(ranked.rule.decision)));
    }

    /// Decides about a call.
    pub fn judge(&self, call: &CallContext<'_>) -> Ruling {
        let outcome = self.outcome(call);
        let ruling = outcome.ruling;
        match ruling.verdict {
            Verdict::Allow | Verdict::Deny => ruling,
            Verdict::Ask if call.auto_execute && outcome.may_be_denied => Ruling::new(Verdict::Deny, ruling.reason),
            Verdict::Ask if call.auto_execute && call.tool == ASK_USER => {
                Ruling::new(Verdict::Deny, "this task runs without questions")
            }
            Verdict::Ask if call.auto_execute => Ruling::new(Verdict::Allow, "this task runs without questions"),
            Verdict::Ask if !call.interactive => {
                let reason = format!("it needs approval ({}), and nobody can be asked", ruling.reason);
                Ruling::new(Verdict::Deny, reason)
            }
            Verdict::Ask => ruling,
        }
    }

    /// Whether rules deny every call of a tool in this mode. Then the model is not told of the tool.
    pub fn forbids(&self, tool: &ToolSpec, mode: Mode) -> bool {
        let concerns = |ranked: &&RankedRule| {
            ranked.concerns_tool(&tool.name, tool.kind, &tool.origin, mode)
                && ranked.rule.interactive.is_none_or(|with| with == self.interactive)
                && !ranked.unless.iter().any(|rule| rule.is_about(&tool.name, &tool.origin))
        };
        let decisive = |ranked: &&RankedRule| ranked.rule.decision != Verdict::Deny || !ranked.rule.is_narrow();
        let first = self.rules.iter().filter(concerns).find(decisive);
        first.is_some_and(|ranked| ranked.rule.decision == Verdict::Deny)
    }

    fn outcome(&self, call: &CallContext<'_>) -> Outcome {
        let by_default = RankedRule::by_default(call.tool, call.by_default);
        let denied = call.denied.iter().map(|rule| RankedRule::plain(rule.clone(), Tier::Extension, "an extension"));
        let local: Vec<RankedRule> = call.session.iter().cloned().map(RankedRule::of_session).chain(denied).collect();
        let mut rules: Vec<&RankedRule> = self.rules.iter().chain(&local).collect();
        rules.push(&by_default);
        let may_allow = !call.origin.is_of_client();
        rules.retain(|ranked| ranked.concerns(call) && (may_allow || ranked.rule.decision != Verdict::Allow));
        rules.sort_by_key(|ranked| (std::cmp::Reverse(ranked.rank), strictness(ranked.rule.decision)));
        match &call.plan.question {
            Question::Exec { command, needs_approval, edits, .. } => line::judge(
                &rules,
                call,
                command,
                &line::FileFindings { needs_approval: needs_approval.as_deref(), edits },
            ),
            Question::Edit { .. } | Question::Mcp { .. } | Question::Info { .. } | Question::AskUser { .. } => {
                first_match(&rules, &Subject::Call(call)).0
            }
        }
    }
}

/// The rules of a JSON list, and a message for each one that is invalid.
fn read(tier: Tier, rules: &Value) -> (Vec<RankedRule>, Vec<String>) {
    let Some(list) = rules.as_array() else {
        return (Vec::new(), vec!["rules must be a list".to_owned()]);
    };
    let (mut valid, mut problems) = (Vec::new(), Vec::new());
    for (n, value) in list.iter().enumerate() {
        let origin = format!("{} rule {}", tier.word(), n + 1);
        match Rule::read(value).and_then(|rule| RankedRule::new(rule, tier, origin.clone())) {
            Ok(rule) => valid.push(rule),
            Err(problem) => problems.push(format!("{origin} is not used: {problem}")),
        }
    }
    (valid, problems)
}

const ASK_USER: &str = "ask_user";

/// A ruling, and whether it is uncertain if a rule with a higher rank denies the call.
struct Outcome {
    ruling: Ruling,
    may_be_denied: bool,
}

/// The decision of the first rule that matches, and that rule. If an earlier rule may deny the call, the call needs approval.
fn first_match<'r>(rules: &[&'r RankedRule], subject: &Subject<'_>) -> (Outcome, Option<&'r RankedRule>) {
    let mut possible_deny: Option<&RankedRule> = None;
    for ranked in rules {
        let fits = match (ranked.fit(subject), ranked.rule.decision) {
            (rule::Fit::No, _) | (rule::Fit::Maybe, Verdict::Allow) => false,
            (rule::Fit::Yes, _) | (rule::Fit::Maybe, Verdict::Ask) => true,
            (rule::Fit::Maybe, Verdict::Deny) => {
                possible_deny = possible_deny.or(Some(ranked));
                false
            }
        };
        if !fits {
            continue;
        }
        let ruling = match (ranked.rule.decision, possible_deny) {
            (Verdict::Allow | Verdict::Ask, Some(possible_deny)) => {
                let reason = format!("{} may deny it, and it cannot be told", possible_deny.origin);
                Ruling::new(Verdict::Ask, reason)
            }
            (Verdict::Deny, _) => match &ranked.rule.deny_message {
                Some(message) => Ruling::new(Verdict::Deny, message.clone()),
                None => Ruling::new(Verdict::Deny, ranked.origin.clone()),
            },
            (verdict, None) => Ruling::new(verdict, ranked.origin.clone()),
        };
        return (Outcome { ruling, may_be_denied: possible_deny.is_some() }, Some(ranked));
    }
    let ruling = Ruling::new(Verdict::Ask, "no rule speaks about it");
    (Outcome { ruling, may_be_denied: possible_deny.is_some() }, None)
}

fn strictness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Deny => 0,
        Verdict::Ask => 1,
        Verdict::Allow => 2,
    }
}
