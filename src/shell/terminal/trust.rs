//! The question whether a folder is trusted: lists what trust would enable, and stores the answer.

use crate::config::formats::dotenv;
use crate::config::formats::jsonc;
use crate::config::formats::tree::Value;
use crate::config::paths::Paths;
use crate::config::trust::with_decision;
use crate::limits::Limits;
use crate::shell::journal::user_files::replace;
use crate::shell::start::workspace_settings::{read_inside, read_plain};
use crate::ui::output::block::plural;
use crate::ui::{TrustChoice, TrustQuestion};
use std::path::Path;

/// The question about a folder, which is given by its real path.
pub fn question(folder: &Path, home: Option<&Path>, limits: &Limits) -> TrustQuestion {
    let short = |path: &Path| match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    };
    let parent = folder.parent().filter(|parent| parent.parent().is_some());
    TrustQuestion { folder: short(folder), parent: parent.map(short), found: found(folder, limits) }
}

/// The files that are used only if the folder is trusted, one line for each.
fn found(folder: &Path, limits: &Limits) -> Vec<String> {
    let mut lines = Vec::new();
    let mut look = |name: &str, describe: fn(&str) -> String| match read_inside(folder, name, limits.settings_bytes) {
        Ok(None) => {}
        Ok(Some(found)) => lines.push(format!("{name}: {}", describe(&found.file.text))),
        Err(_) => lines.push(format!("{name}, which cannot be read")),
    };
    look(".gemini/settings.json", settings);
    look(".gemini/config.yaml", |text| plural(text.lines().count(), "line"));
    look(".gemini/.env", variables);
    look(".env", variables);
    look("GEMINI.md", |text| plural(text.lines().count(), "line"));
    let commands = std::fs::read_dir(folder.join(".gemini/commands")).into_iter().flatten().take(COUNTED).count();
    match commands {
        0 => {}
        COUNTED => lines.push(format!(".gemini/commands: {COUNTED} files or more")),
        commands => lines.push(format!(".gemini/commands: {}", plural(commands, "file"))),
    }
    if lines.is_empty() {
        lines.push("nothing yet".into());
    }
    lines
}

/// At most this many files of commands are counted.
const COUNTED: usize = 1_000;

fn variables(text: &str) -> String {
    plural(dotenv::parse(text).0.len(), "variable")
}

/// The numbers of settings that start programs or allow tools; if there are none, the number of all settings.
fn settings(text: &str) -> String {
    let Ok((root, _)) = jsonc::parse(text) else {
        return "not valid JSON".into();
    };
    let number = |key: &str| match root.at(key).map(|node| &node.value) {
        Some(Value::Map(members)) => members.len(),
        Some(Value::List(items)) => items.len(),
        _ => 0,
    };
    let parts =
        [("mcpServers", "MCP server"), ("policy.rules", "rule"), ("tools.allowed", "allowed tool"), ("hooks", "hook")];
    let parts = parts.into_iter().map(|(key, what)| (number(key), what)).filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, what)| plural(number, what)).collect();
    match (&root.value, parts.is_empty()) {
        (Value::Map(members), true) => plural(members.len(), "setting"),
        (_, true) => "no settings".into(),
        (_, false) => parts.join(", "),
    }
}

/// Stores an answer for the next start.
pub fn store_answer(folder: &Path, choice: TrustChoice, paths: &Paths, limits: &Limits) -> Result<(), String> {
    let Some(file) = &paths.trusted_folders else {
        return Err("there is no home directory to keep the answer in".into());
    };
    let cannot = |why: String| format!("the answer cannot be kept in {}: {why}", file.display());
    let text = read_plain(file, limits.settings_bytes).map_err(|error| cannot(error.to_string()))?;
    let word = match choice {
        TrustChoice::Folder => "TRUST_FOLDER",
        TrustChoice::Parent => "TRUST_PARENT",
        TrustChoice::Nothing => "DO_NOT_TRUST",
    };
    let text = with_decision(&text.unwrap_or_default(), &folder.display().to_string(), word).map_err(cannot)?;
    // A link to a file elsewhere stays a link.
    let file = file.canonicalize().unwrap_or_else(|_| file.clone());
    replace(&file, text.as_bytes(), 0o600).map_err(|error| cannot(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;

    #[test]
    fn files_that_need_trust_are_listed() {
        let scratch = Scratch::new();
        let limits = Limits::default();
        let ask = || question(scratch.path(), scratch.path().parent(), &limits);
        assert_eq!(ask().found, ["nothing yet"]);
        assert!(ask().folder.starts_with("~/") && ask().parent.as_deref() == Some("~"));
        scratch.put(".gemini/settings.json", r#"{"mcpServers": {"a": {}, "b": {}}, "policy": {"rules": [{}]}}"#);
        scratch.put(".gemini/commands/x.toml", "");
        scratch.put(".env", "A=1\nB=2\n");
        scratch.put("GEMINI.md", "one\n");
        assert_eq!(
            ask().found,
            [
                ".gemini/settings.json: 2 MCP servers, 1 rule",
                ".env: 2 variables",
                "GEMINI.md: 1 line",
                ".gemini/commands: 1 file"
            ]
        );
    }

    #[test]
    fn an_answer_is_kept_beside_the_others() {
        let scratch = Scratch::new();
        let file = scratch.put("trusted.json", "{ // mine\n\"/a\": \"DO_NOT_TRUST\"}");
        let paths = Paths { trusted_folders: Some(file.clone()), ..Paths::default() };
        let limits = Limits::default();
        for (folder, choice) in [("/b", TrustChoice::Folder), ("/c", TrustChoice::Parent), ("/b", TrustChoice::Nothing)]
        {
            store_answer(Path::new(folder), choice, &paths, &limits).expect("kept");
        }
        let text = std::fs::read_to_string(&file).expect("a file");
        let stored: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(stored, serde_json::json!({"/a": "DO_NOT_TRUST", "/b": "DO_NOT_TRUST", "/c": "TRUST_PARENT"}));
        std::fs::write(&file, "{").expect("written");
        assert!(store_answer(Path::new("/b"), TrustChoice::Folder, &paths, &limits).is_err());
        assert_eq!(std::fs::read_to_string(&file).expect("a file"), "{", "a damaged file is left alone");
    }
}
