//! A rule, and whether it matches a call or one command of a command line.

use super::{CallContext, Mode, risky};
use crate::base::text::words::words;
use crate::limits::{PATTERN_BYTES, PATTERN_CHARS};
use crate::task::command_line::Simple;
use crate::task::origin::Origin;
use crate::task::spec::{Kind, Question, Verdict};
use regex_lite::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A rule as it is written in settings, kept in a task's log and saved to disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    #[serde(default = "every_tool")]
    pub tool_name: Names,
    /// Only tools of this MCP server. `tool_name` may then also be the tool's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_name: Option<String>,
    /// Only while the hash of the MCP tool, or of its server's configuration, is this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_hash: Option<String>,
    /// Only calls of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// Only while the hash of the agent's definition is this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_hash: Option<String>,
    /// Whole words at the start of a command: `git log` matches `git log -3` and not `git logs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_prefix: Option<Names>,
    /// A pattern for the start of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_regex: Option<String>,
    /// A pattern for the arguments as JSON with sorted keys and a NUL on either side of every member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_pattern: Option<String>,
    /// Only edits of this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
    /// All modes if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<Mode>>,
    /// Only if somebody can be asked, or only if nobody can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interactive: Option<bool>,
    #[serde(with = "DecisionWord")]
    pub decision: Verdict,
    /// 0 to 999; within a tier the matching rule with the highest priority decides.
    #[serde(default)]
    pub priority: u16,
    /// The reason for the model instead of the name of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deny_message: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_redirection: bool,
}

fn every_tool() -> Names {
    "*".into()
}

/// One name or several. `*` is every tool, `mcp_*` every tool of an MCP server, `mcp_SERVER_*` every tool of that one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Names {
    One(String),
    Many(Vec<String>),
}

impl Names {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        match self {
            Names::One(name) => std::slice::from_ref(name).iter(),
            Names::Many(names) => names.iter(),
        }
        .map(String::as_str)
    }

    pub fn has_tool(&self, tool: &str, origin: &Origin) -> bool {
        self.iter().any(|name| name == "*" || name == tool || origin.fits(name))
    }
}

impl From<&str> for Names {
    fn from(name: &str) -> Names {
        Names::One(name.to_owned())
    }
}

impl Rule {
    pub fn new(tool: impl Into<Names>, decision: Verdict) -> Rule {
        Rule {
            tool_name: tool.into(),
            mcp_name: None,
            mcp_hash: None,
            agent_name: None,
            agent_hash: None,
            command_prefix: None,
            command_regex: None,
            args_pattern: None,
            file_path: None,
            modes: None,
            interactive: None,
            decision,
            priority: 0,
            deny_message: None,
            allow_redirection: false,
        }
    }

    pub fn read(value: &Value) -> Result<Rule, String> {
        let rule: Rule = Rule::deserialize(value).map_err(|error| error.to_string())?;
        if rule.priority > 999 {
            return Err(format!("priority must be from 0 to 999, not {}", rule.priority));
        }
        if value.get("toolName").is_none() && rule.mcp_name.is_none() {
            return Err("toolName is missing".to_owned());
        }
        if rule.tool_name.iter().next().is_none() {
            return Err("toolName is empty".to_owned());
        }
        let blank = |prefix: &str| prefix.trim().is_empty();
        if let Some(prefixes) = &rule.command_prefix
            && (prefixes.iter().next().is_none() || prefixes.iter().any(blank))
        {
            return Err("commandPrefix is empty".to_owned());
        }
        Ok(rule)
    }

    /// A short description.
    pub fn described(&self) -> String {
        let mut text = self.tool_name.iter().collect::<Vec<_>>().join(", ");
        if let Some(server) = self.mcp_name.as_ref().filter(|_| text == "*") {
            text = format!("all tools of the MCP server {server}");
        }
        if let Some(agent) = &self.agent_name {
            text.push_str(&format!(" {agent}"));
        }
        for prefix in self.command_prefix.iter().flat_map(Names::iter) {
            text.push_str(&format!(" \"{prefix}\""));
        }
        if let Some(path) = &self.file_path {
            text.push_str(&format!(" {path}"));
        }
        text
    }

    /// Whether the rule is for this tool, by the tool's name and origin.
    pub fn is_about(&self, tool: &str, origin: &Origin) -> bool {
        let hash = |hash: &String| origin.mcp().is_some_and(|mcp| mcp.has_hash(hash));
        self.names_tool(tool, origin) && self.mcp_hash.as_ref().is_none_or(hash)
    }

    /// Whether the rule allows an earlier version of this tool of an MCP server but not the present one.
    pub fn allowed_before(&self, tool: &str, origin: &Origin) -> bool {
        self.decision == Verdict::Allow && self.names_tool(tool, origin) && !self.is_about(tool, origin)
    }

    fn names_tool(&self, tool: &str, origin: &Origin) -> bool {
        match (&self.mcp_name, origin.mcp()) {
            (None, _) => self.tool_name.has_tool(tool, origin),
            (Some(server), Some(mcp)) => {
                let has_own_name = || self.tool_name.iter().any(|name| name == mcp.tool);
                *server == mcp.server && (self.tool_name.has_tool(tool, origin) || has_own_name())
            }
            (Some(_), None) => false,
        }
    }

    /// Whether the rules are equal except for the priority.
    pub fn is_like(&self, other: &Rule) -> bool {
        *self == Rule { priority: self.priority, ..other.clone() }
    }

    /// Whether the rule matches only some calls of its tools.
    pub fn is_narrow(&self) -> bool {
        self.command_prefix.is_some()
            || self.command_regex.is_some()
            || self.args_pattern.is_some()
            || self.file_path.is_some()
            || self.agent_name.is_some()
            || self.agent_hash.is_some()
    }
}

words! {
    /// Where a rule comes from; a later tier has a higher rank.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Tier {
        BuiltIn = "built-in",
        Extension = "extension",
        Workspace = "workspace",
        User = "user",
        Admin = "administrator",
    }
}

impl Tier {
    pub(super) fn rank(self, priority: u16) -> u32 {
        self as u32 * 1000 + u32::from(priority)
    }
}

/// A rule with its rank, and its compiled patterns.
#[derive(Clone, Debug)]
pub(super) struct RankedRule {
    pub rule: Rule,
    pub tier: Tier,
    pub rank: u32,
    /// Where the rule comes from, for people.
    pub origin: String,
    /// It was created by an answer "always" that was saved.
    pub saved: bool,
    pub filter: ToolFilter,
    /// The rule does not apply to calls that one of these rules matches.
    pub unless: Vec<Rule>,
    pub command: Option<Regex>,
    pub args: Option<Regex>,
}

/// A further condition on the tools that a rule names.
#[derive(Clone, Copy, Debug)]
pub(super) enum ToolFilter {
    All,
    OfKinds(&'static [Kind]),
    /// Tools of MCP servers that are declared to only read.
    ReadOnlyMcp,
}

impl ToolFilter {
    fn has(self, kind: Kind, origin: &Origin) -> bool {
        match self {
            ToolFilter::All => true,
            ToolFilter::OfKinds(kinds) => kinds.contains(&kind),
            ToolFilter::ReadOnlyMcp => origin.mcp().is_some_and(|mcp| mcp.read_only),
        }
    }
}

/// The thing that a rule is compared with.
pub(super) enum Subject<'a> {
    Call(&'a CallContext<'a>),
    /// One command of a line.
    Command(&'a CallContext<'a>, &'a Simple),
    /// A line that could not be parsed, so it may run anything.
    Anything(&'a CallContext<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    No,
    Maybe,
    Yes,
}

impl RankedRule {
    pub fn new(rule: Rule, tier: Tier, origin: impl Into<String>) -> Result<RankedRule, String> {
        let command =
            rule.command_regex.as_deref().map(|text| pattern("commandRegex", text, ("^(?:", ")"))).transpose()?;
        let args = rule.args_pattern.as_deref().map(|text| pattern("argsPattern", text, ("", ""))).transpose()?;
        Ok(RankedRule {
            rank: tier.rank(rule.priority),
            rule,
            tier,
            origin: origin.into(),
            saved: false,
            filter: ToolFilter::All,
            unless: Vec::new(),
            command,
            args,
        })
    }

    /// A rule that cannot be invalid, because it has no patterns.
    pub fn plain(rule: Rule, tier: Tier, origin: impl Into<String>) -> RankedRule {
        RankedRule::new(rule, tier, origin).expect("a rule without patterns")
    }

    /// The default decision of a tool, with the lowest rank.
    pub fn by_default(tool: &str, verdict: Verdict) -> RankedRule {
        let mut rule = Rule::new(tool, verdict);
        rule.priority = 10;
        RankedRule::plain(rule, Tier::BuiltIn, format!("the default of {tool}"))
    }

    /// The rule of an "always" answer of this session. Rules of users and administrators have a higher rank.
    pub fn of_session(rule: Rule) -> RankedRule {
        const PRIORITY: u16 = 950;
        let origin = format!("what was allowed in this session: {}", rule.described());
        // Answers create rules without patterns. A rule with a pattern, which only another program can have written to the log, matches nothing.
        let mut ranked = RankedRule::plain(
            Rule { command_regex: None, args_pattern: None, ..rule.clone() },
            Tier::Workspace,
            origin,
        );
        ranked.rule = rule;
        ranked.rank = Tier::Workspace.rank(PRIORITY);
        ranked
    }

    /// Whether the rule applies to the tool and the mode of this call.
    pub fn concerns(&self, call: &CallContext<'_>) -> bool {
        self.concerns_tool(call.tool, call.kind, call.origin, call.mode)
            && self.rule.interactive.is_none_or(|with| with == call.interactive)
    }

    /// Whether the rule applies to calls of this tool in this mode, without checking whether somebody can be asked.
    pub fn concerns_tool(&self, tool: &str, kind: Kind, origin: &Origin, mode: Mode) -> bool {
        let rule = &self.rule;
        rule.is_about(tool, origin)
            && rule.modes.as_ref().is_none_or(|modes| modes.contains(&mode))
            && self.filter.has(kind, origin)
    }

    pub fn fit(&self, subject: &Subject<'_>) -> Fit {
        let strict = match self.rule.decision {
            Verdict::Allow => Strict::Yes,
            Verdict::Ask | Verdict::Deny => Strict::No,
        };
        let excepted = |rule: &Rule| {
            let (Subject::Call(call) | Subject::Command(call, _) | Subject::Anything(call)) = subject;
            rule.is_about(call.tool, call.origin) && prefix_fit(rule, subject, Strict::Yes) == Fit::Yes
        };
        if self.unless.iter().any(excepted) {
            return Fit::No;
        }
        let fits = [
            prefix_fit(&self.rule, subject, strict),
            self.regex_fit(subject, strict),
            self.args_fit(subject),
            file_fit(&self.rule, subject),
            agent_fit(&self.rule, subject),
        ];
        fits.into_iter().min().unwrap_or(Fit::Yes)
    }

    fn regex_fit(&self, subject: &Subject<'_>, strict: Strict) -> Fit {
        if self.rule.command_regex.is_none() {
            return Fit::Yes;
        }
        let Some(regex) = &self.command else {
            return Fit::No;
        };
        match subject {
            Subject::Call(_) => Fit::No,
            Subject::Anything(_) => Fit::Maybe,
            Subject::Command(_, simple) => {
                let text = simple.text();
                let bare = &text[simple.program().len() - simple.name().len()..];
                let own = match (regex.is_match(&text), is_certain(simple), strict) {
                    (true, true, _) | (true, false, Strict::No) => Fit::Yes,
                    (_, false, _) => Fit::Maybe,
                    (false, true, Strict::No) => yes_or_no(regex.is_match(bare)),
                    (false, true, Strict::Yes) => Fit::No,
                };
                match strict {
                    Strict::Yes => own,
                    Strict::No => own.max(risky::starts(simple, |words| regex.is_match(&words.join(" ")))),
                }
            }
        }
    }

    /// Matches the whole arguments, and for a command also the arguments with only that command in them.
    fn args_fit(&self, subject: &Subject<'_>) -> Fit {
        if self.rule.args_pattern.is_none() {
            return Fit::Yes;
        }
        let Some(regex) = &self.args else {
            return Fit::No;
        };
        let whole = |call: &CallContext<'_>| regex.is_match(&canonical_json(call.args, None));
        match (subject, self.rule.decision) {
            (Subject::Call(call), _) => yes_or_no(whole(call)),
            (Subject::Anything(call), Verdict::Ask | Verdict::Deny) if whole(call) => Fit::Yes,
            (Subject::Anything(_), _) => Fit::Maybe,
            (Subject::Command(call, simple), decision) => {
                let part = regex.is_match(&canonical_json(call.args, Some(&simple.text())));
                match decision {
                    Verdict::Allow => yes_or_no(part && is_certain(simple)),
                    Verdict::Ask | Verdict::Deny if part || whole(call) => Fit::Yes,
                    Verdict::Ask | Verdict::Deny if is_certain(simple) => Fit::No,
                    Verdict::Ask | Verdict::Deny => Fit::Maybe,
                }
            }
        }
    }
}

/// Whether a rule matches only if it is certain that the command fits.
#[derive(Clone, Copy, PartialEq)]
enum Strict {
    Yes,
    No,
}

fn prefix_fit(rule: &Rule, subject: &Subject<'_>, strict: Strict) -> Fit {
    let Some(prefixes) = &rule.command_prefix else {
        return Fit::Yes;
    };
    match subject {
        Subject::Call(_) => Fit::No,
        Subject::Anything(_) => Fit::Maybe,
        Subject::Command(_, simple) => {
            prefixes.iter().map(|prefix| words_fit(prefix, simple, strict)).max().unwrap_or(Fit::No)
        }
    }
}

fn words_fit(prefix: &str, simple: &Simple, strict: Strict) -> Fit {
    let wanted: Vec<&str> = prefix.split_whitespace().collect();
    let fits =
        |words: &[&str]| words[0].rsplit('/').next() == wanted.first().copied() && words[1..].starts_with(&wanted[1..]);
    match strict {
        Strict::Yes => own_words_fit(&wanted, simple, strict),
        Strict::No => own_words_fit(&wanted, simple, strict).max(risky::starts(simple, fits)),
    }
}

fn own_words_fit(wanted: &[&str], simple: &Simple, strict: Strict) -> Fit {
    for (n, want) in wanted.iter().enumerate() {
        let Some(word) = simple.words.get(n) else {
            return Fit::No;
        };
        let Some(text) = word.literal() else {
            return Fit::Maybe;
        };
        let same = text == *want || (n == 0 && strict == Strict::No && simple.name() == *want);
        if !same {
            // `git -C . push` may be a push, for rules that ask or deny.
            let occurs = |want: &&str| simple.words[1..].iter().any(|word| word.is_pattern || word.text == **want);
            let optional = strict == Strict::No && n == 1 && text.starts_with('-');
            return if optional && wanted[1..].iter().all(occurs) { Fit::Maybe } else { Fit::No };
        }
    }
    Fit::Yes
}

fn file_fit(rule: &Rule, subject: &Subject<'_>) -> Fit {
    let Some(path) = &rule.file_path else {
        return Fit::Yes;
    };
    match subject {
        Subject::Call(call) => match &call.plan.question {
            Question::Edit { file_path, .. } => yes_or_no(file_path == path),
            Question::Exec { .. } | Question::Mcp { .. } | Question::Info { .. } | Question::AskUser { .. } => Fit::No,
        },
        Subject::Command(..) | Subject::Anything(_) => Fit::No,
    }
}

fn agent_fit(rule: &Rule, subject: &Subject<'_>) -> Fit {
    let (Subject::Call(call) | Subject::Command(call, _) | Subject::Anything(call)) = subject;
    let called = call.args.get("agent_name").and_then(Value::as_str).filter(|_| *call.origin == Origin::Agents);
    let planned = called.and(call.plan.base.as_ref()).and_then(|base| base.sha256.as_deref());
    let is_meant = |wanted: &Option<String>, given: Option<&str>| wanted.is_none() || wanted.as_deref() == given;
    yes_or_no(is_meant(&rule.agent_name, called) && is_meant(&rule.agent_hash, planned))
}

fn yes_or_no(fits: bool) -> Fit {
    if fits { Fit::Yes } else { Fit::No }
}

fn is_certain(simple: &Simple) -> bool {
    simple.words.iter().all(|word| !word.is_pattern)
}

/// The arguments as JSON with sorted keys, optionally with another command. Every member is between NULs, which JSON cannot contain, so that
/// a pattern can distinguish a member from a text that looks like one.
fn canonical_json(args: &Value, command: Option<&str>) -> String {
    let Some(members) = args.as_object() else {
        return args.to_string();
    };
    let mut keys: Vec<&String> = members.keys().collect();
    keys.sort_unstable();
    let members = keys.into_iter().map(|key| {
        let value = match command.filter(|_| key == "command") {
            Some(command) => Value::from(command),
            None => members[key].clone(),
        };
        format!("\0{}:{value}\0", Value::from(key.as_str()))
    });
    format!("{{{}}}", members.collect::<Vec<String>>().join(","))
}

fn pattern(member: &str, text: &str, (open, close): (&str, &str)) -> Result<Regex, String> {
    if text.chars().count() > PATTERN_CHARS {
        return Err(format!("{member} is longer than {PATTERN_CHARS} characters"));
    }
    RegexBuilder::new(&format!("{open}{text}{close}"))
        .size_limit(PATTERN_BYTES)
        .build()
        .map_err(|error| format!("{member} is not a pattern that can be used: {error}"))
}

/// The words of decisions in rules.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Verdict", rename_all = "snake_case")]
enum DecisionWord {
    Allow,
    #[serde(rename = "ask_user", alias = "ask")]
    Ask,
    Deny,
}
