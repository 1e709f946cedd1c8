//! The groups of built-in commands.

use super::{Argument, POINT, Spec, Takes};
use crate::task::access::Right;

pub(super) fn memory() -> Vec<Spec> {
    let add = Spec::new("add", "Writes a line into your own memory file.").needing(Right::Admin);
    vec![
        Spec::new("show", "Shows what is remembered, and from where.").in_workspace(),
        Spec::new("refresh", "Reads the memory files again.").in_workspace().with_alias("memory reload"),
        Spec::new("list", "Lists the memory files in use.").in_workspace(),
        Spec { takes: Takes::Line, ..add.with(vec![Argument::required("text", "What to remember.")]) },
    ]
}

pub(super) fn extensions() -> Vec<Spec> {
    let switched = |name: &str, description: &str| {
        Spec::new(name, description).in_workspace().needing(Right::Admin).with(vec![
            Argument::required("name", "Its name in the list."),
            Argument::optional("--scope", "`user`, the default, or `workspace`."),
        ])
    };
    vec![
        Spec::new("list", "Lists the installed extensions.").with_alias("list-extensions"),
        switched("enable", "Switches an extension on."),
        switched("disable", "Switches an extension off."),
    ]
}

pub(super) fn skills() -> Vec<Spec> {
    vec![
        Spec::new("list", "Lists the skills.").in_workspace(),
        Spec::for_entry("enable", "Switches a skill on.").needing(Right::Admin),
        Spec::for_entry("disable", "Switches a skill off.").needing(Right::Admin),
        Spec::new("reload", "Reads the skills again.").in_workspace(),
    ]
}

pub(super) fn hooks() -> Vec<Spec> {
    vec![
        Spec::new("list", "Lists the command hooks, and which of them run.").in_workspace(),
        Spec::for_entry("allow", "Allows a hook of the project, by its name, or `all`.").needing(Right::Admin),
    ]
}

/// The commands that go back to an earlier state.
pub(super) fn restores() -> Vec<Spec> {
    let (point, task) = (Argument::optional("point", POINT), Argument::task);
    let options = "--files, --conversation or --both; --partial or --force; --dry-run.";
    let restore =
        Spec::new("restore", "Puts files and the conversation back as they were at a point; lists the points.");
    let list = Spec::new("list", "Lists the points to go back to.").with(vec![task()]);
    let count = Argument::optional("count", "How many prompts to undo; 1 if not given.");
    vec![
        Spec {
            subs: vec![list],
            ..restore.needing(Right::Approve).with(vec![point.clone(), Argument::optional("options", options)])
        },
        Spec::new("undo", "Undoes the last prompts: their edits of files, and the conversation.")
            .needing(Right::Approve)
            .with(vec![count, task()]),
        Spec::new("redo", "Takes the last undo or restore back.").needing(Right::Approve).with(vec![task()]),
        Spec::new("diff", "Shows what going back to a point would change.").with(vec![point, task()]),
    ]
}

pub(super) fn permissions() -> Vec<Spec> {
    let which = Argument::required("number", "Its number in the list, or `all`.");
    vec![
        Spec::new("list", "Lists what was allowed with \"always\".").with(vec![Argument::task()]),
        Spec::new("revoke", "Takes a permission back: such calls are asked about again.")
            .needing(Right::Approve)
            .with(vec![which, Argument::task()]),
    ]
}
