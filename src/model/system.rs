//! The system instruction: what the model is told before every conversation. Most of it is the same for all; the rest depends on what the
//! task may do.

use crate::model::memory::Notes;
use crate::task::policy::Mode;

const ALWAYS: &str = include_str!("system.md");

/// What the instruction depends on.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    pub mode: Mode,
    /// What the user's memory files say; empty for nothing.
    pub memory: &'a str,
    pub notes: &'a Notes,
}

pub fn instruction(situation: &Situation) -> String {
    let mut text = format!("{ALWAYS}\n# What you may do now\n\n{}\n", mode(situation.mode));
    if situation.mode != Mode::Plan {
        text.push_str(&remembering(situation.notes));
    }
    if !situation.memory.is_empty() {
        text.push_str("\n# What the user wants you to remember\n\n");
        text.push_str(situation.memory);
    }
    text
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

    #[test]
    fn the_mode_and_the_memory_are_told() {
        let notes = Notes { user: Some("/h/GEMINI.md".into()), project: None };
        let told = |mode, memory| instruction(&Situation { mode, memory, notes: &notes });
        assert!(told(Mode::Plan, "").contains("You are planning."));
        for mode in [Mode::Default, Mode::AutoEdit, Mode::Yolo] {
            assert!(!told(mode, "").contains("planning"), "{mode:?}");
        }
        assert!(told(Mode::Default, "").contains("tools: `/h/GEMINI.md` for all projects. Read"));
        assert!(!told(Mode::Plan, "").contains("/h/GEMINI.md"), "it cannot write");
        assert!(told(Mode::Default, "tea").ends_with("remember\n\ntea"));
        assert_eq!(remembering(&Notes::default()), "");
    }
}
