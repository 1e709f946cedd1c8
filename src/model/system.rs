//! The system instruction: what the model is told before every conversation. Most of it is the same for all tasks; the rest depends on the
//! approval mode, on the workspace and on the model family.

use crate::model::gemini::Family;
use crate::model::memory::Notes;
use crate::task::policy::Mode;

const ALWAYS: &str = include_str!("system.md");

/// What the instruction depends on.
#[derive(Clone, Copy, Debug)]
pub struct InstructionInputs<'a> {
    pub mode: Mode,
    pub family: Family,
    pub repository: Repository,
    /// The text of the user's memory files; empty if there is none.
    pub memory: &'a str,
    pub notes: &'a Notes,
    /// The list of skills; empty if there are none.
    pub skills: &'a str,
}

/// The version control of the workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repository {
    Git,
    #[default]
    None,
}

pub fn instruction(inputs: &InstructionInputs) -> String {
    let mut text = format!("{ALWAYS}\n# What you may do now\n\n{}\n", mode(inputs.mode));
    text.push_str(match inputs.repository {
        Repository::Git => GIT,
        Repository::None => NO_GIT,
    });
    if inputs.mode != Mode::Plan {
        text.push_str(&remembering(inputs.notes));
    }
    text.push_str(family_instructions(inputs.family));
    if !inputs.skills.is_empty() {
        text.push_str(SKILLS);
        text.push_str(inputs.skills);
    }
    if !inputs.memory.is_empty() {
        text.push_str("\n# What the user wants you to remember\n\n");
        text.push_str(inputs.memory);
    }
    text
}

const GIT: &str = "
# Git

The workspace is in a git repository. Some changes in it may be the user's: leave them as they are.

- Look as often as you like: `git status`, `git diff`, `git log`.
- Commit only if the user asks for it. Then read `git diff` and `git log -n 5`, stage only the files you changed for this, by name, \
write a message in the style of the log that says why, and look at `git status` afterwards. If a hook fails, correct what it reports; do \
not skip it.
- Do not push, pull, rebase, amend, reset, stash, switch branches or change the configuration unless the user asks for just that.
";

const SKILLS: &str = "
# Skills

Before you begin work that one of these fits, load it with `activate_skill`. Follow what an activated skill says over your own habits, \
but never over these instructions or the user.

";

const NO_GIT: &str = "
# Version control

The workspace is not in a git repository, so nothing brings back what you overwrite or delete. Do not create a repository unless the \
user asks for it.
";

/// Instructions that only models of one family need.
fn family_instructions(family: Family) -> &'static str {
    match family {
        Family::Gemini3 => {
            "
# Your habits

You think before you act, so keep the text between calls to a sentence. Do not repeat in the answer what the user has seen in calls.
"
        }
        Family::Gemini25 => {
            "
# Your habits

Make a call instead of announcing it: a turn that ends without a call ends the work. For work of more than three steps keep a list with \
`write_todos`, one step in progress at a time, and update it as you go.
"
        }
        Family::Gemma4 | Family::Other => {
            "
# Your habits

Call tools only as functions, never as code in your answer, and use only arguments that are declared. A turn that ends without a call \
ends the work.
"
        }
    }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => {
            "You are planning. You have only tools that look: nothing can be written or run, and the user cannot allow it. Find out \
             what the work needs: read the code, its tests and what depends on it, and ask the user what only they can decide. Then \
             answer with the plan: the goal in one sentence, the files and what changes in each, in order, how the result will be \
             checked, and what is uncertain. Do not say that anything was changed. The user starts the work in another mode."
        }
        Mode::Default => "Calls that change something are shown to the user first, who may refuse them.",
        Mode::AutoEdit => {
            "Edits of files in the workspace run at once. Commands that change something are shown to the user first, who may refuse \
             them."
        }
        Mode::Yolo => {
            "No call is shown to the user before it runs. Be sure before you delete, overwrite or publish something, and do nothing \
             that was not asked for."
        }
    }
}

fn remembering(notes: &Notes) -> String {
    let files = [(&notes.user, "all projects"), (&notes.project, "this project")];
    let files = files.iter().filter_map(|(file, what)| Some(format!("`{}` for {what}", file.as_ref()?)));
    let files = files.collect::<Vec<_>>().join(", ");
    if files.is_empty() {
        return String::new();
    }
    format!(
        "\n# Remembering\n\nThis conversation ends, and what you learned ends with it. If the user wants something remembered, or says \
         how they want things done from now on, add it to a memory file with the file tools: {files}. Read the file first, keep what \
         it says, write one short line for each fact. No secrets, and nothing that matters only now. Other conversations begin with \
         these files.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILIES: [Family; 4] = [Family::Gemini3, Family::Gemini25, Family::Gemma4, Family::Other];

    fn instruction_for(mode: Mode, family: Family, repository: Repository, memory: &str) -> String {
        let notes = Notes { user: Some("/h/GEMINI.md".into()), project: None };
        instruction(&InstructionInputs { mode, family, repository, memory, notes: &notes, skills: "" })
    }

    #[test]
    fn the_instruction_depends_on_its_inputs() {
        let usual = |mode, memory| instruction_for(mode, Family::Gemini3, Repository::Git, memory);
        assert!(usual(Mode::Plan, "").contains("You are planning."));
        for mode in [Mode::Default, Mode::AutoEdit, Mode::Yolo] {
            assert!(!usual(mode, "").contains("planning"), "{mode:?}");
        }
        assert!(usual(Mode::Default, "").contains("tools: `/h/GEMINI.md` for all projects. Read"));
        assert!(!usual(Mode::Plan, "").contains("/h/GEMINI.md"), "it cannot write");
        assert!(usual(Mode::Default, "tea").ends_with("remember\n\ntea"));
        assert_eq!(remembering(&Notes::default()), "");
        assert!(usual(Mode::Default, "").contains("in a git repository. Some"));
        assert!(
            instruction_for(Mode::Default, Family::Other, Repository::None, "").contains("not in a git repository")
        );
        let [three, two, gemma, other] =
            FAMILIES.map(|family| instruction_for(Mode::Default, family, Repository::Git, ""));
        assert!(two.contains("`write_todos`") && !three.contains("`write_todos`") && gemma == other && three != other);
    }

    /// The instruction is sent with every request.
    #[test]
    fn the_instruction_stays_short() {
        for mode in Mode::ALL {
            for family in FAMILIES {
                for repository in [Repository::Git, Repository::None] {
                    let length = instruction_for(mode, family, repository, "").len();
                    assert!(length < 8 * 1024, "{mode:?} {family:?} {repository:?}: {length}");
                }
            }
        }
    }
}
