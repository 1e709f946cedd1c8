//! The commands about skills: they list the skills and switch them on and off. Skills are read for every model request, so `reload` only
//! lists what it finds.

use super::{Asked, text_result};
use crate::config::definitions::extension::Switch;
use crate::shell::workers::skills::{find, switch};
use crate::task::definitions::skill::Skill;
use crate::task::definitions::slash::Commanded;
use serde_json::json;
use std::path::Path;

fn found(asked: &Asked) -> Vec<Skill> {
    find(asked.prompt_context, Path::new(&*asked.command.workspace))
}

pub fn list(asked: &Asked) -> Result<Commanded, String> {
    let skills = found(asked);
    let line = |skill: &Skill| {
        let off = if skill.enabled { "" } else { " (switched off)" };
        format!("{}{off}: {} [{}]", skill.name, skill.description, skill.dir.display())
    };
    let text = match skills.len() {
        0 => "There are no skills here.".into(),
        _ => skills.iter().map(line).collect::<Vec<_>>().join("\n"),
    };
    let shown = skills.iter().map(|skill| {
        json!({ "name": skill.name, "description": skill.description, "path": skill.dir, "enabled": skill.enabled })
    });
    Ok(Commanded::Done { data: json!({ "skills": shown.collect::<Vec<_>>() }), text })
}

pub fn enable(asked: &Asked) -> Result<Commanded, String> {
    turn(asked, Switch::On)
}

pub fn disable(asked: &Asked) -> Result<Commanded, String> {
    turn(asked, Switch::Off)
}

fn turn(asked: &Asked, to: Switch) -> Result<Commanded, String> {
    let name = asked.command.invocation.args.join(" ");
    let known = found(asked).into_iter().find(|skill| skill.name.eq_ignore_ascii_case(name.trim()));
    let name = known.ok_or_else(|| format!("There is no skill {name}; /skills list shows those there are."))?.name;
    switch(asked.prompt_context, &name, to).map_err(|error| format!("This cannot be saved: {error}."))?;
    let now = found(asked).into_iter().find(|skill| skill.name == name).is_some_and(|skill| skill.enabled);
    match (to, now) {
        (Switch::On, false) => Err(format!("The skill {name} stays off: skills.disabled in your settings names it.")),
        (Switch::On, true) => text_result(format!("The skill {name} is switched on.")),
        (Switch::Off, _) => text_result(format!("The skill {name} is switched off.")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Harness;
    use super::*;
    use crate::limits::{SKILL_BYTES, SKILL_LIST_BYTES, SKILLS};
    use crate::shell::workers::skills::for_model;

    fn text(name: &str) -> String {
        format!("---\nname: {name}\ndescription: Does {name}\n---\nDo it.\n")
    }

    fn listed(harness: &Harness) -> String {
        match harness.run("skills list", &[]) {
            Ok(Commanded::Done { text, .. }) => text.replace(harness.scratch.path().to_str().expect("plain"), ""),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn skills_of_the_workspace_replace_those_of_the_user_and_of_extensions() {
        let harness = Harness::new();
        assert_eq!(listed(&harness), "There are no skills here.");
        harness.scratch.put("home/.gemini/extensions/e/gemini-extension.json", r#"{"name": "e", "version": "1"}"#);
        harness.scratch.put("home/.gemini/extensions/e/skills/a/SKILL.md", text("a"));
        harness.scratch.put("home/.gemini/skills/b/SKILL.md", text("b"));
        harness.scratch.put("home/.agents/skills/c/SKILL.md", text("c"));
        harness.scratch.put("w/.gemini/skills/x/SKILL.md", text("a"));
        harness.scratch.put("w/.agents/skills/SKILL.md", text("d"));
        harness.scratch.put("w/.agents/skills/bad/SKILL.md", "# No front matter");
        let lines = "a: Does a [/w/.gemini/skills/x]\nb: Does b [/home/.gemini/skills/b]\n\
                     c: Does c [/home/.agents/skills/c]\nd: Does d [/w/.agents/skills]";
        assert_eq!(listed(&harness), lines);
        let run = |phrase: &str, name: &str| harness.run(phrase, &[name]).map(drop);
        assert_eq!(run("skills disable", "B"), Ok(()));
        harness.scratch.put("home/.gemini/settings.json", r#"{"skills": {"disabled": ["C"]}}"#);
        assert!(listed(&harness).contains("\nb (switched off): Does b"), "{}", listed(&harness));
        assert!(listed(&harness).contains("\nc (switched off): Does c"));
        assert_eq!(run("skills enable", "b"), Ok(()));
        assert!(run("skills enable", "c").expect_err("the settings").contains("skills.disabled"));
        assert!(run("skills enable", "z").expect_err("unknown").starts_with("There is no skill z;"));
        assert!(listed(&harness).contains("\nb: Does b"));
        harness.scratch.put("home/.gemini/settings.json", r#"{"skills": {"enabled": false}}"#);
        assert_eq!(listed(&harness), "There are no skills here.");
    }

    #[test]
    fn skills_that_are_switched_off_at_the_same_time_are_all_off() {
        let harness = Harness::new();
        let names: Vec<String> = (0..8).map(|n| format!("s{n}")).collect();
        std::thread::scope(|scope| {
            for name in &names {
                scope.spawn(|| switch(&harness.prompt_context, name, Switch::Off).expect("it is kept"));
            }
        });
        let kept = std::fs::read_to_string(harness.scratch.path().join("home/.gemini/skill-enablement.json"));
        let kept = kept.expect("it was written");
        assert!(names.iter().all(|name| kept.contains(&format!("\"{name}\""))), "{kept}");
    }

    #[test]
    fn skills_have_limits() {
        let harness = Harness::new();
        let put =
            |name: &str, text: String| drop(harness.scratch.put(&format!("w/.gemini/skills/{name}/SKILL.md"), text));
        let padded = |bytes: usize| text("long") + &"x".repeat(bytes - text("long").len());
        put("long", padded(SKILL_BYTES as usize + 1));
        assert_eq!(listed(&harness), "There are no skills here.");
        put("long", padded(SKILL_BYTES as usize));
        assert!(listed(&harness).starts_with("long: "));
        (0..SKILLS).for_each(|n| put(&format!("{n:03}"), text(&format!("s{n}"))));
        assert_eq!(listed(&harness).lines().count(), SKILLS);
        let skills = find(&harness.prompt_context, &harness.scratch.path().join("w"));
        let many: Vec<Skill> = skills.iter().map(|s| Skill { description: "d".repeat(500), ..s.clone() }).collect();
        let list = for_model(&many, &[]);
        assert!(list.len() <= SKILL_LIST_BYTES + 30 && list.ends_with(" more\n"), "{list}");
    }
}
