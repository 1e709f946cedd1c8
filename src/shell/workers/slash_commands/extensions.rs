//! Which extensions are installed: directories with a manifest, those of a trusted workspace before the user's own. Of two with the
//! same name the first counts. Where an extension is switched off is in a file beside the user's own.

use super::Asked;
use crate::config::jsonc;
use crate::limits::Limits;
use crate::shell::start::workspace_settings::{read_inside, read_plain};
use crate::task::slash::Commanded;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;

const DIRECTORY: &str = "extensions";
const MANIFEST: &str = "gemini-extension.json";
const SWITCHES: &str = "extension-enablement.json";

/// From its manifest, which names both.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Extension {
    name: String,
    version: String,
    #[serde(skip_deserializing)]
    enabled: bool,
}

pub fn list(asked: &Asked) -> Result<Commanded, String> {
    let workspace = Path::new(&*asked.command.workspace);
    let home = asked.prompt_context.home();
    let trusted = asked.command.trusted.then(|| workspace.join(".gemini"));
    let found = find(trusted.as_deref(), home.as_deref(), workspace, asked.prompt_context.limits());
    let lines = found.iter().map(|extension| {
        let Extension { name, version, enabled } = extension;
        let off = if *enabled { "" } else { " (switched off here)" };
        format!("{name} {version}{off}")
    });
    let text = match found.len() {
        0 => "No extensions installed.".into(),
        _ => lines.collect::<Vec<_>>().join("\n"),
    };
    Ok(Commanded::Done { data: json!({ "extensions": found }), text })
}

fn find(project: Option<&Path>, home: Option<&Path>, workspace: &Path, limits: &Limits) -> Vec<Extension> {
    let switches = home.and_then(|home| read(&home.join(DIRECTORY).join(SWITCHES), limits));
    let mut found: Vec<Extension> = Vec::new();
    for (dir, ours) in [(project, false), (home, true)] {
        let Some(dir) = dir.map(|dir| dir.join(DIRECTORY)) else {
            continue;
        };
        for name in directories(&dir, limits) {
            let manifest = if ours {
                read(&dir.join(&name).join(MANIFEST), limits)
            } else {
                inside(&dir, &format!("{name}/{MANIFEST}"), limits)
            };
            let Some(Ok(extension)) = manifest.map(serde_json::from_value::<Extension>) else {
                continue;
            };
            if found.iter().all(|known| known.name != extension.name) {
                found.push(Extension {
                    enabled: is_enabled(switches.as_ref(), &extension.name, workspace),
                    ..extension
                });
            }
        }
    }
    found
}

fn directories(dir: &Path, limits: &Limits) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.take(limits.listed_files).collect();
    names.sort_unstable();
    names
}

/// The last rule that speaks of the workspace decides; without one an extension is on. A rule is a directory, with `*` at its end
/// all below it too, and `!` in front switches off.
fn is_enabled(switches: Option<&Value>, name: &str, workspace: &Path) -> bool {
    let rules = switches.and_then(|all| all.get(name)?.get("overrides")?.as_array());
    let mut enabled = true;
    for rule in rules.into_iter().flatten().filter_map(Value::as_str) {
        let (path, on) = match rule.strip_prefix('!') {
            Some(path) => (path, false),
            None => (rule, true),
        };
        let fits = match path.strip_suffix('*') {
            Some(above) => workspace.starts_with(above),
            None => workspace == Path::new(path),
        };
        if fits {
            enabled = on;
        }
    }
    enabled
}

/// A file of the user's own, wherever its links lead. What cannot be read is not there.
fn read(path: &Path, limits: &Limits) -> Option<Value> {
    parse(&read_plain(path, limits.settings_bytes).ok()??)
}

/// A file of a project, which may not lead out of it.
fn inside(dir: &Path, name: &str, limits: &Limits) -> Option<Value> {
    parse(&read_inside(dir, name, limits.settings_bytes).ok()??.file.text)
}

fn parse(text: &str) -> Option<Value> {
    let (node, _) = jsonc::parse(text).ok()?;
    Some(node.json())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;
    use std::os::unix::fs::symlink;

    fn extension(name: &str, version: &str, enabled: bool) -> Extension {
        Extension { name: name.into(), version: version.into(), enabled }
    }

    #[test]
    fn the_first_of_a_name_counts_and_what_is_no_manifest_does_not() {
        let scratch = Scratch::new();
        for (dir, manifest) in [
            ("w/.gemini/extensions/b", r#"{"name": "both", "version": "1"}"#),
            ("h/.gemini/extensions/a", r#"{"name": "both", "version": "2"}"#),
            ("h/.gemini/extensions/z", r#"{"name": "mine", "version": "3", /* x */}"#),
            ("h/.gemini/extensions/n", r#"{"name": "no version"}"#),
            ("h/.gemini/extensions/g", "garbage"),
        ] {
            scratch.put(&format!("{dir}/{MANIFEST}"), manifest);
        }
        scratch.put("h/.gemini/extensions/file", "");
        let outside = scratch.put("outside.json", r#"{"name": "out", "version": "1"}"#);
        for place in ["w", "h"] {
            let dir = scratch.path().join(place).join(".gemini/extensions/link");
            std::fs::create_dir_all(&dir).expect("a directory");
            symlink(&outside, dir.join(MANIFEST)).expect("a link");
        }
        let at = |name: &str| scratch.path().join(name);
        let limits = Limits::default();
        let (project, home, workspace) = (at("w/.gemini"), at("h/.gemini"), at("w"));
        let mine = || extension("mine", "3", true);
        let out = || extension("out", "1", true);
        assert_eq!(
            find(Some(&project), Some(&home), &workspace, &limits),
            [extension("both", "1", true), out(), mine()]
        );
        assert_eq!(find(None, Some(&home), &workspace, &limits), [extension("both", "2", true), out(), mine()]);
        assert_eq!(find(None, None, &workspace, &limits), []);
        let off = format!(r#"{{"mine": {{"overrides": ["!{}*"]}}}}"#, at("").display());
        scratch.put("h/.gemini/extensions/extension-enablement.json", off);
        assert_eq!(find(None, Some(&home), &workspace, &limits).last(), Some(&extension("mine", "3", false)));
    }

    #[test]
    fn the_last_rule_that_fits_decides() {
        for (rules, enabled) in [
            (json!([]), true),
            (json!(["!/a/*"]), false),
            (json!(["!/a/*", "/a/b"]), true),
            (json!(["!/a/b/"]), false),
            (json!(["!/a"]), true),
            (json!(["/a/*", "!/x/*"]), true),
            (json!([7, "!*"]), false),
            (json!("!/a/*"), true),
        ] {
            let switches = json!({"e": {"overrides": rules}});
            let got = is_enabled(Some(&switches), "e", Path::new("/a/b"));
            assert_eq!(got, enabled, "{switches}");
        }
        assert!(is_enabled(None, "e", Path::new("/a")));
    }
}
