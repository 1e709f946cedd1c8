//! Skills as values: instructions in a directory that the model may ask for. The shell layer finds them.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The name of the tool that activates them.
pub const ACTIVATE: &str = "activate_skill";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub description: String,
    /// Where its files are, as a real path.
    pub dir: PathBuf,
    /// The instructions.
    pub body: String,
    /// The settings do not switch it off.
    pub enabled: bool,
}

/// A skill that a task has activated: from then on its directory can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveSkill {
    pub name: String,
    pub dir: String,
}

impl Skill {
    /// What the model is given when it is activated.
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
    /// Adds it to the skills of a task, once.
    pub fn keep_in(&self, skills: &mut Vec<ActiveSkill>) {
        if !skills.contains(self) {
            skills.push(self.clone());
        }
    }
}
