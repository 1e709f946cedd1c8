//! `activate_skill`: gives the model the instructions of a skill and the names of its files, which it may read from then on. It is
//! declared only in workspaces that have skills, with their names.

use crate::limits::{SKILL_FILES, SKILL_TREE_DEPTH};
use crate::task::definitions::skill::{ACTIVATE, Skill};
use crate::task::machine::job::{Run, RunEnd};
use crate::task::origin::Origin;
use crate::task::spec::{CallError, Ending, ErrorKind, Kind, Plan, ToolSpec};
use crate::tool::{Ctx, Tool, text_arg};
use serde_json::{Value, json};
use std::path::Path;

/// Finds skills. The shell layer implements it, because it reads settings.
pub trait Skills: Send + Sync {
    /// The skills that may be used in a workspace, given by its real path.
    fn skills(&self, workspace: &Path) -> Vec<Skill>;
}

/// A source without skills.
pub struct NoSkills;

impl Skills for NoSkills {
    fn skills(&self, _: &Path) -> Vec<Skill> {
        Vec::new()
    }
}

pub struct ActivateSkill;

/// The declaration of the tool with the names of these skills.
pub fn spec(skills: &[Skill]) -> ToolSpec {
    let mut name = json!({ "type": "string", "description": "The name of the skill." });
    if !skills.is_empty() {
        name["enum"] = skills.iter().map(|skill| skill.name.as_str()).collect();
    }
    let parameters = json!({ "type": "object", "properties": { "name": name }, "required": ["name"] });
    let description = "Loads a skill: instructions for a kind of work, with files of their own that you may then read. Use it \
                       before you begin work that the description of a skill fits.";
    let origin = Origin::Skills;
    let by_default = origin.by_default();
    let spec = ToolSpec::new(ACTIVATE, "Activate Skill", Kind::Other, description, parameters);
    ToolSpec { origin, by_default, ..spec }
}

fn find(args: &Value, ctx: &Ctx) -> Result<Skill, CallError> {
    let (name, skills) = (text_arg(args, "name")?, ctx.skills.skills(ctx.workspace.path()));
    let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
    let unknown = format!("There is no skill {name:?}. There are: {}.", names.join(", "));
    let found = skills.into_iter().find(|skill| skill.name == name);
    found.ok_or_else(|| ErrorKind::InvalidToolParams.error(unknown))
}

impl Tool for ActivateSkill {
    fn spec(&self) -> ToolSpec {
        spec(&[])
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        let skill = find(args, ctx)?;
        let Skill { name, description, dir, .. } = &skill;
        let prompt = format!("{description}\n\nIts files, which become readable:\n{}\n{}", dir.display(), tree(dir));
        Ok(Plan::info(format!("Activate the skill {name}"), format!("Activate the skill {name}?"), prompt))
    }

    fn run(&self, run: &Run, ctx: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        let skill = find(&run.args, ctx)?;
        let shown = format!("Skill {} activated.", skill.name);
        Ok(RunEnd::Ended(Ending::text(skill.block(&tree(&skill.dir)), shown)))
    }
}

/// The files below a directory, one per line, without following links.
pub fn tree(dir: &Path) -> String {
    let mut lines = Vec::new();
    list(dir, Path::new(""), &mut lines);
    if lines.len() > SKILL_FILES {
        lines.truncate(SKILL_FILES);
        lines.push("…".to_owned());
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn list(dir: &Path, below: &Path, lines: &mut Vec<String>) {
    let entries = std::fs::read_dir(dir.join(below)).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries.filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?))).collect();
    entries.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    for (name, kind) in entries {
        if lines.len() > SKILL_FILES {
            return;
        }
        let path = below.join(name);
        match kind.is_dir() {
            true if path.components().count() < SKILL_TREE_DEPTH => {
                lines.push(format!("{}/", path.display()));
                list(dir, &path, lines);
            }
            true => lines.push(format!("{}/…", path.display())),
            false => lines.push(path.display().to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::tool::files::path::Workspace;
    use crate::tool::tests::{Scratch, run_of, with_ctx};

    #[test]
    fn the_tree_of_a_skill_has_limits() {
        let scratch = Scratch::new();
        scratch.put("a/b.md", "");
        scratch.put(&format!("{}deep.md", "d/".repeat(SKILL_TREE_DEPTH)), "");
        assert!(tree(scratch.path()).starts_with("a/\na/b.md\nd/\n"), "{}", tree(scratch.path()));
        assert!(!tree(scratch.path()).contains("deep.md"));
        (0..SKILL_FILES).for_each(|n| drop(scratch.put(&format!("a/{n}"), "")));
        let lines = tree(scratch.path());
        assert_eq!((lines.lines().count(), lines.lines().last()), (SKILL_FILES + 1, Some("…")));
    }

    #[test]
    fn an_unknown_skill_is_refused_with_the_names() {
        struct One;
        impl Skills for One {
            fn skills(&self, workspace: &Path) -> Vec<Skill> {
                let dir = workspace.join("pdf");
                vec![Skill {
                    name: "pdf".into(),
                    description: "Fills.".into(),
                    dir,
                    body: "Do it.\n".into(),
                    enabled: true,
                }]
            }
        }
        let scratch = Scratch::new();
        scratch.put("pdf/form.md", "");
        with_ctx(&scratch, &Limits::default(), |ctx| {
            let workspace = Workspace::open(scratch.path()).expect("it opens");
            let ctx = Ctx { skills: &One, workspace, others: Vec::new(), ..*ctx };
            let refused = ActivateSkill.prepare(&json!({"name": "doc"}), &ctx).expect_err("there is none");
            assert_eq!(refused.kind, ErrorKind::InvalidToolParams);
            assert_eq!(refused.message, "There is no skill \"doc\". There are: pdf.");
            let run = run_of(&scratch, ACTIVATE, json!({"name": "pdf"}));
            let Ok(RunEnd::Ended(Ending::Success { output, .. })) = ActivateSkill.run(&run, &ctx, &mut |_| {}) else {
                panic!("it is there");
            };
            let text = output.as_str();
            assert!(
                text.starts_with("<activated_skill name=\"pdf\">\n<instructions>\nDo it.\n</instructions>"),
                "{text}"
            );
            assert!(text.contains("\nform.md\n"), "{text}");
        });
        assert_eq!(spec(&One.skills(scratch.path())).parameters["properties"]["name"]["enum"], json!(["pdf"]));
    }
}
