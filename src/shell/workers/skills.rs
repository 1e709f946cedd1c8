//! Finds the skills of a workspace: those of extensions, of the user and, if it is trusted, of the workspace. Of two with the same name
//! the later one is used.

use crate::base::json;
use crate::config::definitions::extension::Switch;
use crate::config::definitions::skill;
use crate::config::trust::Trust;
use crate::limits::{SKILL_BYTES, SKILL_LIST_BYTES, SKILLS};
use crate::shell::journal::user_files::{lock_for_change, replace};
use crate::shell::start::workspace_settings::{read_plain, read_text};
use crate::shell::workers::prompt_context::PromptContext;
use crate::task::definitions::skill::{ActiveSkill, Skill};
use crate::tool::files::activate_skill::{Skills, tree};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};

const FILE: &str = "SKILL.md";
/// The file with the skills that the command has switched off.
const SWITCHES: &str = "skill-enablement.json";

impl Skills for PromptContext {
    fn skills(&self, workspace: &Path) -> Vec<Skill> {
        let mut found = find(self, workspace);
        found.retain(|skill| skill.enabled);
        found
    }
}

/// All skills of a workspace, also those that are switched off.
pub fn find(context: &PromptContext, workspace: &Path) -> Vec<Skill> {
    let local = context.settings_of(workspace);
    if local.settings.skills.enabled == Some(false) {
        return Vec::new();
    }
    let mut search = Search { found: Vec::new(), messages: Vec::new() };
    for extension in &local.extensions {
        search.in_directory(&extension.dir.join("skills"), Some(&extension.dir));
    }
    let home = context.reader().paths().home.clone();
    let named = |base: &Path| [".gemini/skills", ".agents/skills"].map(|name| base.join(name));
    home.iter().flat_map(|home| named(home)).for_each(|dir| search.in_directory(&dir, None));
    if local.trust == Trust::Trusted && home.as_deref() != Some(workspace) {
        named(workspace).iter().for_each(|dir| search.in_directory(dir, Some(workspace)));
    }
    let Search { mut found, messages } = search;
    let switches = switches(context);
    let is_off = |name: &str| {
        let by_settings = local.settings.skills.disabled.iter().any(|off| off.eq_ignore_ascii_case(name));
        by_settings || switches[name.to_lowercase()]["enabled"] == json!(false)
    };
    found.iter_mut().for_each(|skill| skill.enabled = !is_off(&skill.name));
    context.log_once(&messages);
    found
}

fn switches(context: &PromptContext) -> Value {
    let path = context.home().map(|home| home.join(SWITCHES));
    let text = path.and_then(|path| read_plain(&path, context.limits().settings_bytes).ok().flatten());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Switches a skill on or off, for all workspaces.
pub fn switch(context: &PromptContext, name: &str, to: Switch) -> io::Result<()> {
    let path = context.home().ok_or_else(|| io::Error::other("there is no home directory"))?.join(SWITCHES);
    let _changing = lock_for_change();
    let mut all = switches(context);
    if !all.is_object() {
        all = json!({});
    }
    all[name.to_lowercase()] = json!({ "enabled": to == Switch::On });
    replace(&path, &json::bytes(&all), 0o600)
}

struct Search {
    found: Vec<Skill>,
    messages: Vec<String>,
}

impl Search {
    /// Adds the skill in a directory and those in its subdirectories. Links may not lead out of `inside`.
    fn in_directory(&mut self, dir: &Path, inside: Option<&Path>) {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let mut dirs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        dirs.sort_unstable();
        dirs.insert(0, dir.to_path_buf());
        for dir in dirs {
            let file = dir.join(FILE);
            let real = || dir.canonicalize().unwrap_or_else(|_| dir.clone());
            let parsed = read_text(&file, inside, SKILL_BYTES).and_then(|text| {
                let parsed = text.map(|text| skill::parse(&text, &real())).transpose();
                parsed.map_err(|why| format!("{}: {why}", file.display()))
            });
            match parsed {
                Ok(skill) => skill.into_iter().for_each(|skill| self.add(skill)),
                Err(why) => self.messages.push(format!("{why}; the skill is not used")),
            }
        }
    }

    fn add(&mut self, skill: Skill) {
        if let Some(known) = self.found.iter_mut().find(|known| known.name == skill.name) {
            let (before, now) = (known.dir.display(), skill.dir.display());
            self.messages.push(format!("the skill {} is used from {now} and not from {before}", skill.name));
            *known = skill;
        } else if self.found.len() < SKILLS {
            self.found.push(skill);
        } else {
            self.messages.push(format!("{} is not used: there are {SKILLS} skills already", skill.dir.display()));
        }
    }
}

/// The text about skills in a model request: the list, and the active skills that a summary has removed from the conversation.
pub fn for_model(skills: &[Skill], forgotten: &[ActiveSkill]) -> String {
    let mut text = String::new();
    for (n, skill) in skills.iter().enumerate() {
        let line =
            format!("- {}: {}\n", skill.name, skill.description.split_whitespace().collect::<Vec<_>>().join(" "));
        if text.len() + line.len() > SKILL_LIST_BYTES {
            text.push_str(&format!("- … and {} more\n", skills.len() - n));
            break;
        }
        text.push_str(&line);
    }
    let again = skills.iter().filter(|skill| forgotten.iter().any(|one| one.name == skill.name));
    again.for_each(|skill| text.push_str(&format!("\n{}\n", skill.block(&tree(&skill.dir)))));
    text
}
