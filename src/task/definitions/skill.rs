//! Data types for skills: directories with instructions that the model may activate. The shell layer finds them.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The name of the tool that activates skills.
pub const ACTIVATE: &str = "activate_skill";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub description: String,
    /// Where its files are, as a real path.
    pub dir: PathBuf,
    /// The instructions.
    pub body: String,
    /// The settings have not disabled it.
    pub enabled: bool,
}

/// A skill that a task has activated: from then on its directory can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveSkill {
    pub name: String,
    pub dir: String,
}

impl Skill {
    /// The text that the model gets when it activates the skill.
    pub fn block(&self, files: &str) -> String {
        let (name, dir) = (&self.name, self.dir.display());
        format!(
            "<activated_skill name=\"{name}\">\n<instructions>\n{}\n</instructions>\n<files dir=\"{dir}\">\n{files}</files>\n\
             </activated_skill>",
            self.body.trim()
        )
    }
}

impl ActiveSkill {
    /// Adds it to the skills of a task, unless it is there already.
    pub fn add_to(&self, skills: &mut Vec<ActiveSkill>) {
        if !skills.contains(self) {
            skills.push(self.clone());
        }
    }
}
