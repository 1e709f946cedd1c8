//! Command lines, part by part.

use super::rule::{Held, Subject};
use super::{Ask, By, Mode, Outcome, Ruling, first_fit, safe};
use crate::task::command::{self, Flow, Parsed, Role, Simple};
use crate::task::policy::Tier;
use crate::task::spec::Verdict;

/// What is judged at a time.
pub(super) enum Part<'a> {
    Command(&'a Simple),
    /// A line that was not understood, and why.
    Unreadable(&'a str),
}

/// The whole line: one denied part denies it, one doubtful part asks.
pub(super) fn all(rules: &[&Held], ask: &Ask<'_>, line: &str, parsed: &Parsed) -> Outcome {
    let mut worst: Option<Outcome> = None;
    for simple in &parsed.commands {
        let outcome = judged(rules, ask, &Part::Command(simple));
        let heavier = |known: &Outcome| {
            let weight = |outcome: &Outcome| (super::care(outcome.ruling.verdict), !outcome.may_be_denied);
            weight(&outcome) < weight(known)
        };
        if worst.as_ref().is_none_or(heavier) {
            worst = Some(outcome);
        }
    }
    let Some(mut outcome) = worst else {
        return judged(rules, ask, &Part::Unreadable("it runs nothing"));
    };
    if outcome.ruling.verdict == Verdict::Allow
        && ask.mode != Mode::Yolo
        && let Some(doubt) = line_doubt(line, parsed)
    {
        outcome.ruling = Ruling::new(Verdict::Ask, doubt);
    }
    outcome
}

pub(super) fn judged(rules: &[&Held], ask: &Ask<'_>, part: &Part<'_>) -> Outcome {
    let simple = match part {
        Part::Command(simple) => *simple,
        Part::Unreadable(why) => {
            let mut outcome = first_fit(rules, &Subject::Anything(ask));
            if outcome.ruling.verdict == Verdict::Allow && ask.mode != Mode::Yolo {
                let reason = format!("the command is not understood: {why}");
                outcome.ruling = Ruling::new(Verdict::Ask, reason);
            }
            return outcome;
        }
    };
    let mut outcome = first_fit(rules, &Subject::Command(ask, simple));
    // A question that nobody wrote a rule for is spared for what is known to be harmless.
    let unwritten = outcome.by.is_none_or(|by| by.tier == Tier::BuiltIn);
    let denying = outcome.may_be_denied || outcome.ruling.verdict == Verdict::Deny;
    if outcome.ruling.verdict == Verdict::Ask && unwritten && !denying && ask.mode != Mode::Plan {
        match simple.role {
            Role::Courier => outcome.ruling = Ruling::new(Verdict::Allow, "what it starts"),
            // Whether setting a variable or opening a file is fine is looked at below.
            Role::Actor if simple.argv.is_empty() => {
                outcome.ruling = Ruling::new(Verdict::Allow, "it starts no program");
            }
            Role::Actor => match safe::check(simple, ask.workspace) {
                Ok(()) => {
                    let reason = format!("{} is known to be harmless so", simple.text());
                    outcome.ruling = Ruling::new(Verdict::Allow, reason);
                }
                Err(why) => outcome.ruling.reason = why,
            },
        }
    }
    if outcome.ruling.verdict == Verdict::Allow
        && let Some(doubt) = part_doubt(ask, simple, outcome.by)
    {
        outcome.ruling = Ruling::new(Verdict::Ask, doubt);
    }
    outcome
}

/// Why a part that a rule allows is asked about all the same.
fn part_doubt(ask: &Ask<'_>, simple: &Simple, by: Option<By>) -> Option<String> {
    if !ask.trusted && safe::name(simple) == Some("git") {
        return Some("git runs what its configuration says, and this workspace is not trusted".into());
    }
    if ask.mode == Mode::Yolo {
        return None;
    }
    if !simple.argv.is_empty() && simple.program().is_none() {
        return Some(format!("which program {} is cannot be told", simple.argv[0].text));
    }
    if let Some(name) = simple.assigns.first() {
        return Some(format!("it sets {name}"));
    }
    let by_rule = by.is_some_and(|by| by.allows_redirection);
    if !by_rule && let Some(doubt) = redirect_doubt(ask, simple) {
        return Some(doubt);
    }
    let wide = by.is_none_or(|by| !by.narrow);
    if wide && let Some(danger) = safe::danger(simple) {
        return Some(danger);
    }
    None
}

/// Editing unasked covers redirections too, but only what an edit could reach.
fn redirect_doubt(ask: &Ask<'_>, simple: &Simple) -> Option<String> {
    for redirect in simple.redirects.iter().filter(|redirect| !redirect.is_idle()) {
        let target = &redirect.target;
        let within = match redirect.flow {
            Flow::Text | Flow::Copy => true,
            Flow::Read => target.literal().is_some_and(|path| safe::is_within(path, ask.workspace)),
            Flow::Write => {
                target.literal().is_some_and(|path| safe::is_within(path, ask.workspace) && !safe::is_protected(path))
            }
        };
        if ask.mode != Mode::AutoEdit || !within {
            return Some(match redirect.flow {
                Flow::Write => format!("it writes to {}", target.text),
                Flow::Read => format!("it reads {}", target.text),
                Flow::Text | Flow::Copy => "it is given text to read".to_owned(),
            });
        }
    }
    None
}

fn line_doubt(line: &str, parsed: &Parsed) -> Option<&'static str> {
    if parsed.substitutes {
        return Some("a part of it is made by a command");
    }
    if parsed.defines {
        return Some("it gives names a new meaning");
    }
    if command::hides(line) {
        return Some("it holds text that is not shown as it is");
    }
    None
}
