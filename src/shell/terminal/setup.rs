//! Makes the configuration of a terminal from the environment, the settings, and the branch of the workspace.

use crate::config::settings::Settings;
use crate::shell::event_loop::sys;
use crate::shell::terminal::editor;
use crate::task::message::Source;
use crate::ui::client::SessionChoice;
use crate::ui::format::style::{Style, Theme};
use crate::ui::output::block::Viewer;
use crate::ui::{Notify, Setup, Thoughts};
use std::path::{Path, PathBuf};

/// The configuration of a terminal, without the history of prompts and without what depends on the server.
pub fn setup(settings: &Settings, workspace: &Path, env: &dyn Fn(&str) -> Option<String>) -> Setup {
    let variable = |name: &str| env(name).unwrap_or_default();
    let ui = &settings.ui;
    let mut style = Style::of(env, Theme::from_word(ui.theme).unwrap_or_default());
    match ui.glyphs {
        "unicode" => style.unicode = true,
        "ascii" => style.unicode = false,
        _ => {}
    }
    let me = Source::new("you", "terminal");
    let viewer = Viewer { me, workspace: workspace.display().to_string(), home: variable("HOME") };
    Setup {
        branch: branch(workspace).unwrap_or_default(),
        begin: SessionChoice::New,
        thoughts: Thoughts::from_word(ui.thoughts).unwrap_or_default(),
        notify: Notify::from_word(ui.notify).unwrap_or_default(),
        editor: editor::name(&editor::command(env)).to_owned(),
        terminal: variable("TERM_PROGRAM"),
        inside_tmux: env("TMUX").is_some(),
        linear: ui.screen_reader || matches!(variable("TERM").as_str(), "" | "dumb"),
        debug: settings.log_level == crate::base::level::Level::Debug,
        nonce: sys::entropy().uuid(),
        ..Setup::new(viewer, style)
    }
}

/// The branch that is checked out, or the beginning of the commit's hash.
fn branch(workspace: &Path) -> Option<String> {
    let git = workspace.ancestors().map(|dir| dir.join(".git")).find(|git| git.exists())?;
    let git = match std::fs::read_to_string(&git) {
        // A worktree has a file that names its directory.
        Ok(text) => git.parent()?.join(PathBuf::from(text.strip_prefix("gitdir:")?.trim())),
        Err(_) => git,
    };
    let head = std::fs::read_to_string(git.join("HEAD")).ok()?;
    let head = head.trim();
    let branch = head.strip_prefix("ref: refs/heads/").or_else(|| head.get(..8))?;
    Some(branch.chars().take(BRANCH_CHARS).collect())
}

/// The longest part of a branch's name that is shown.
const BRANCH_CHARS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::session::{NOTIFY, THEMES, THOUGHTS};
    use crate::tool::tests::Scratch;

    #[test]
    fn the_words_of_the_settings_are_those_of_the_terminal() {
        let theirs: Vec<&str> = Theme::ALL.into_iter().map(Theme::word).collect();
        assert_eq!(theirs, THEMES);
        let theirs: Vec<&str> = Notify::ALL.into_iter().map(Notify::word).collect();
        assert_eq!(theirs, NOTIFY);
        let theirs: Vec<&str> = Thoughts::ALL.into_iter().map(Thoughts::word).collect();
        assert_eq!(theirs, THOUGHTS);
    }

    #[test]
    fn the_branch_is_read_from_the_repository_and_from_worktrees() {
        let scratch = Scratch::new();
        scratch.put("repo/.git/HEAD", "ref: refs/heads/fix/it\n");
        scratch.put("repo/.git/worktrees/w/HEAD", "0123456789abcdef\n");
        scratch.put("w/.git", "gitdir: ../repo/.git/worktrees/w\n");
        let branch_of = |name: &str| branch(&scratch.path().join(name));
        assert_eq!(branch_of("repo/sub").as_deref(), Some("fix/it"));
        assert_eq!(branch_of("w").as_deref(), Some("01234567"));
    }

    #[test]
    fn a_terminal_without_cursor_movements_gets_lines() {
        let setup_of = |term: &'static str| {
            let env = move |name: &str| (name == "TERM").then(|| term.to_owned());
            setup(&Settings::default(), Path::new("/w"), &env).linear
        };
        assert!(setup_of("dumb") && setup_of("") && !setup_of("xterm"));
    }
}
