//! Decides about command lines, command by command.

use super::rule::{RankedRule, Subject};
use super::{CallContext, Mode, Outcome, Ruling, first_match, risky};
use crate::task::command_line::{ReadAccess, Simple, Unclear, parse, read_only};
use crate::task::policy::Tier;
use crate::task::spec::{Confinement, Verdict};

/// Why a command may run without approval.
enum Permission<'r> {
    /// A rule.
    Rule(&'r RankedRule),
    /// It is known to only read.
    ReadAccess(ReadAccess),
}

/// The findings of the shell tool about the files of a line.
pub(super) struct FileFindings<'a> {
    /// Why commands that only read, and redirections, need approval nevertheless.
    pub needs_approval: Option<&'a str>,
    /// The files that redirections write.
    pub edits: &'a [String],
}

/// Decides about a line. One denied command denies the line; one command that needs approval makes the line need it.
pub(super) fn judge(rules: &[&RankedRule], call: &CallContext<'_>, line: &str, findings: &FileFindings<'_>) -> Outcome {
    let commands = match parse(line) {
        Ok(commands) => commands,
        Err(why) => return unparsed(rules, call, &why),
    };
    let mut permissions = Vec::new();
    let mut worst: Option<Outcome> = None;
    for simple in &commands {
        let (outcome, permission) = judge_one(rules, call, simple);
        let weight = |outcome: &Outcome| (super::strictness(outcome.ruling.verdict), !outcome.may_be_denied);
        if worst.as_ref().is_none_or(|known| weight(&outcome) < weight(known)) {
            worst = Some(outcome);
        }
        permissions.extend(permission.map(|permission| (simple, permission)));
    }
    let mut outcome = worst.expect("a line has at least one command");
    if outcome.ruling.verdict != Verdict::Allow {
        return outcome;
    }
    let confinable = findings.needs_approval.is_none() && commands.iter().all(|simple| read_only(simple).is_ok());
    let has_git = commands.iter().any(|simple| simple.name() == "git");
    let by_rules = permissions.iter().any(|(_, permission)| matches!(permission, Permission::Rule(_)));
    let confinement = match by_rules {
        // In an untrusted workspace git runs confined, whatever a rule allows.
        true if call.trusted || !has_git || !confinable => Confinement::None,
        true | false => Confinement::ReadOnly { writable: findings.edits.to_vec() },
    };
    match permissions
        .iter()
        .find_map(|(simple, permission)| objection(call, simple, permission, findings, &confinement))
    {
        Some(reason) => outcome.ruling = Ruling::new(Verdict::Ask, reason),
        None => outcome.ruling.confinement = confinement,
    }
    outcome
}

fn unparsed(rules: &[&RankedRule], call: &CallContext<'_>, why: &Unclear) -> Outcome {
    let (mut outcome, _) = first_match(rules, &Subject::Anything(call));
    if outcome.ruling.verdict == Verdict::Allow && call.mode != Mode::Yolo {
        outcome.ruling = Ruling::new(Verdict::Ask, format!("the command could not be read: {}", why.0));
    }
    outcome
}

fn judge_one<'r>(
    rules: &[&'r RankedRule],
    call: &CallContext<'_>,
    simple: &Simple,
) -> (Outcome, Option<Permission<'r>>) {
    let (mut outcome, by) = first_match(rules, &Subject::Command(call, simple));
    // A command that only reads needs no approval, unless somebody wrote a rule that asks.
    let unwritten = by.is_none_or(|by| by.tier == Tier::BuiltIn);
    match outcome.ruling.verdict {
        Verdict::Allow => (outcome, Some(Permission::Rule(by.expect("a rule allows it")))),
        Verdict::Ask if unwritten && !outcome.may_be_denied => match read_only(simple) {
            Ok(known) => {
                outcome.ruling = Ruling::new(Verdict::Allow, format!("{} only reads", simple.text()));
                (outcome, Some(Permission::ReadAccess(known)))
            }
            Err(why) => {
                outcome.ruling.reason = why;
                (outcome, None)
            }
        },
        Verdict::Ask | Verdict::Deny => (outcome, None),
    }
}

/// Why a command needs approval although a rule allows it or it only reads.
fn objection(
    call: &CallContext<'_>,
    simple: &Simple,
    permission: &Permission,
    findings: &FileFindings<'_>,
    runs: &Confinement,
) -> Option<String> {
    if simple.name() == "git" && !call.trusted && runs.is_none() {
        return Some("git runs what its configuration says, and this workspace is not trusted".into());
    }
    if call.mode == Mode::Yolo {
        return None;
    }
    let (redirects, wide) = match permission {
        Permission::Rule(by) => (!by.rule.allow_redirection, !by.rule.is_narrow()),
        Permission::ReadAccess(known) if known.only_confined && runs.is_none() => {
            return Some(format!("files of the workspace may choose what {} runs", simple.program()));
        }
        Permission::ReadAccess(_) => (true, false),
    };
    let has_files = !(simple.reads.is_empty() && simple.writes.is_empty());
    let looked_at = matches!(permission, Permission::ReadAccess(_)) || (redirects && has_files);
    let may_edit = call.mode == Mode::AutoEdit && !findings.edits.is_empty();
    match (findings.needs_approval.filter(|_| looked_at), simple.writes.first()) {
        (Some(why), _) => Some(why.to_owned()),
        (None, Some(file)) if redirects && !may_edit => Some(format!("it writes to {file}")),
        (None, _) => risky::danger(simple).filter(|_| wide),
    }
}
