//! Reads extensions: the manifest `gemini-extension.json`, and the file that says where an extension is switched off.
//!
//! A manifest comes from elsewhere and is trusted as far as its user installed it: it may not name files outside of its directory,
//! and what it says about approvals can only forbid. Its `mcpServers` are kept as they are written, for the MCP client to interpret.

use crate::base::secret::Secret;
use crate::config::formats::jsonc;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// What the memory file of an extension is called unless its manifest says otherwise.
const MEMORY: &str = "GEMINI.md";
/// Names of members that have a meaning of their own in other programs that read manifests.
const RESERVED: [&str; 3] = ["__proto__", "constructor", "prototype"];

#[derive(Clone, Debug, PartialEq)]
pub struct Extension {
    pub name: String,
    pub version: String,
    pub description: String,
    /// The directory with its files.
    pub dir: PathBuf,
    pub source: ExtensionSource,
    /// It is used in this workspace.
    pub enabled: bool,
    /// Memory files, relative to its directory.
    pub context_files: Vec<String>,
    /// Tools that may not be used: a name, or `run_shell_command(prefix)`.
    pub exclude_tools: Vec<String>,
    pub settings: Vec<ExtensionSetting>,
    /// The values of its settings, by their variables.
    pub values: BTreeMap<String, Secret>,
    /// As they are written, with their variables replaced and without `trust`. Their origin is `extension:NAME`.
    pub mcp_servers: Map<String, Value>,
}

/// Where an extension is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionSource {
    Workspace,
    User,
}

/// A value that the user gives in the `.env` file of an extension or of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionSetting {
    pub name: String,
    pub description: String,
    pub variable: String,
    pub is_sensitive: bool,
}

/// The directories that variables in a manifest stand for.
#[derive(Clone, Copy)]
pub struct ManifestPaths<'a> {
    pub extension: &'a Path,
    pub workspace: &'a Path,
}

impl Extension {
    /// Reads a manifest. The messages are about parts of it that are not used; an error is a reason not to use it at all.
    pub fn parse(
        text: &str,
        source: ExtensionSource,
        paths: &ManifestPaths,
    ) -> Result<(Extension, Vec<String>), String> {
        let (node, _) = jsonc::parse(text).map_err(|wrong| format!("line {}: {}", wrong.line, wrong.text))?;
        let mut manifest = node.json();
        paths.expand(&mut manifest);
        let text_of = |name: &str| manifest.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, version) = (text_of("name"), text_of("version"));
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err("its name must consist of letters, digits and hyphens".into());
        }
        if version.is_empty() {
            return Err("it has no version".into());
        }
        let mut messages = Vec::new();
        let context_files = match manifest.get("contextFileName") {
            None | Some(Value::Null) => vec![MEMORY.to_owned()],
            Some(names) => texts(names),
        };
        let context_files = context_files.into_iter().filter(|file| {
            let inside = is_inside(file);
            if !inside {
                messages.push(format!("contextFileName {file} leads out of the extension; it is not used"));
            }
            inside
        });
        let extension = Extension {
            description: text_of("description"),
            dir: paths.extension.to_path_buf(),
            source,
            enabled: true,
            context_files: context_files.collect(),
            exclude_tools: manifest.get("excludeTools").map(texts).unwrap_or_default(),
            settings: settings(&manifest),
            values: BTreeMap::new(),
            mcp_servers: servers(&manifest),
            name,
            version,
        };
        Ok((extension, messages))
    }

    /// Takes the values of its settings from variables; later ones replace earlier ones.
    pub fn take_values(&mut self, variables: Vec<(String, String)>) {
        let is_setting = |name: &str| self.settings.iter().any(|setting| setting.variable == name);
        let wanted = variables.into_iter().filter(|(name, _)| is_setting(name));
        self.values.extend(wanted.map(|(name, value)| (name, Secret::new(value))));
    }

    /// The settings that have no value.
    pub fn missing(&self) -> impl Iterator<Item = &ExtensionSetting> {
        self.settings.iter().filter(|setting| !self.values.contains_key(&setting.variable))
    }
}

impl ManifestPaths<'_> {
    /// Replaces the variables in all texts, and removes reserved names. An unknown variable stays as it is written.
    pub fn expand(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.expanded(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.expand(item)),
            Value::Object(members) => {
                members.retain(|name, _| !RESERVED.contains(&name.as_str()));
                members.values_mut().for_each(|member| self.expand(member));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn expanded(&self, text: &str) -> String {
        let (extension, workspace) = (self.extension.to_string_lossy(), self.workspace.to_string_lossy());
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            let variable = from.split_inclusive('}').next().unwrap_or(from);
            out.push_str(before);
            out.push_str(match variable {
                "${extensionPath}" => &extension,
                "${workspacePath}" => &workspace,
                "${/}" | "${pathSeparator}" => "/",
                unknown => unknown,
            });
            rest = &from[variable.len()..];
        }
        out + rest
    }
}

/// A relative path that does not lead upwards. Where links lead is seen when the file is opened.
fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// One text or a list of texts; others are left out.
fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn settings(manifest: &Value) -> Vec<ExtensionSetting> {
    let listed = manifest.get("settings").and_then(Value::as_array).into_iter().flatten();
    let read = |setting: &Value| {
        let text = |name: &str| setting.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(ExtensionSetting {
            name: text("name")?,
            description: text("description").unwrap_or_default(),
            variable: text("envVar")?,
            is_sensitive: setting.get("sensitive") == Some(&json!(true)),
        })
    };
    listed.filter_map(read).collect()
}

fn servers(manifest: &Value) -> Map<String, Value> {
    let mut servers = manifest.get("mcpServers").and_then(Value::as_object).cloned().unwrap_or_default();
    servers.values_mut().filter_map(Value::as_object_mut).for_each(|server| drop(server.remove("trust")));
    servers
}

/// Whether an extension is on in a workspace: the last rule about the workspace decides, and without one it is on. A rule is a
/// directory, with `*` at its end also everything below it, and `!` before it switches off.
pub fn is_enabled(switches: &Value, name: &str, workspace: &Path) -> bool {
    let rules = switches.get(name).and_then(|entry| entry.get("overrides")?.as_array());
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

/// Switches an extension on or off in a directory and everything below it. Rules that the new one makes pointless are removed.
pub fn switch(switches: &mut Value, name: &str, dir: &Path, to: Switch) {
    if !switches.is_object() {
        *switches = json!({});
    }
    let below = format!("{}/*", dir.to_string_lossy().trim_end_matches('/'));
    let is_covered = |rule: &Value| {
        let rule = rule.as_str().unwrap_or_default();
        let path = rule.strip_prefix('!').unwrap_or(rule);
        Path::new(path.strip_suffix('*').unwrap_or(path)).starts_with(dir)
    };
    let mut rules = switches[name]["overrides"].as_array().cloned().unwrap_or_default();
    rules.retain(|rule| !is_covered(rule));
    rules.push(match to {
        Switch::On => below.into(),
        Switch::Off => format!("!{below}").into(),
    });
    switches[name] = json!({ "overrides": rules });
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    On,
    Off,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(Extension, Vec<String>), String> {
        let paths = ManifestPaths { extension: Path::new("/e"), workspace: Path::new("/w") };
        Extension::parse(text, ExtensionSource::User, &paths)
    }

    #[test]
    fn a_manifest_is_read_with_its_variables() {
        let (extension, messages) = parse(
            r#"{
                // JSON with comments.
                "name": "Go-tools", "version": "1.2", "description": "For ${workspacePath}${/}x", "themes": [1],
                "contextFileName": ["A.md", "docs${pathSeparator}B.md", "../x", "/etc/passwd", ""],
                "excludeTools": ["web_fetch", "run_shell_command(rm -rf)", 7],
                "settings": [
                    {"name": "Key", "description": "The key", "envVar": "KEY", "sensitive": true},
                    {"name": "Region", "envVar": "REGION"}, {"name": "broken"}
                ],
                "mcpServers": {
                    "s": {"command": "${extensionPath}/run", "args": ["${workspacePath}", "${unknown}", "${"], "trust": true,
                          "__proto__": {"x": 1}, "env": {"constructor": "y", "K": "$KEY"}}
                },
            }"#,
        )
        .expect("a manifest");
        assert_eq!((extension.name.as_str(), extension.version.as_str()), ("Go-tools", "1.2"));
        assert_eq!(extension.description, "For /w/x");
        assert_eq!(extension.context_files, ["A.md", "docs/B.md"]);
        assert_eq!(messages.len(), 3);
        assert_eq!(messages[0], "contextFileName ../x leads out of the extension; it is not used");
        assert_eq!(extension.exclude_tools, ["web_fetch", "run_shell_command(rm -rf)"]);
        let variables: Vec<_> = extension.settings.iter().map(|s| (s.variable.as_str(), s.is_sensitive)).collect();
        assert_eq!(variables, [("KEY", true), ("REGION", false)]);
        assert_eq!(
            Value::Object(extension.mcp_servers),
            json!({"s": {"command": "/e/run", "args": ["/w", "${unknown}", "${"], "env": {"K": "$KEY"}}})
        );
    }

    #[test]
    fn a_manifest_without_name_or_version_is_not_used() {
        for (text, why) in [
            (r#"{"name": "a b", "version": "1"}"#, "its name must consist of letters, digits and hyphens"),
            (r#"{"version": "1"}"#, "its name must consist of letters, digits and hyphens"),
            (r#"{"name": "a"}"#, "it has no version"),
            ("{\n\n", "line 3"),
        ] {
            let refused = parse(text).expect_err(text);
            assert!(refused.starts_with(why), "{refused}");
        }
        let (plain, _) = parse(r#"{"name": "a", "version": "1"}"#).expect("enough");
        assert_eq!(plain.context_files, ["GEMINI.md"]);
    }

    #[test]
    fn settings_take_the_values_of_their_variables_only() {
        let text = r#"{"name": "a", "version": "1", "settings": [
            {"name": "K", "envVar": "K"}, {"name": "R", "envVar": "R"}]}"#;
        let (mut extension, _) = parse(text).expect("a manifest");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        extension.take_values(vec![pair("K", "1"), pair("OTHER", "x")]);
        extension.take_values(vec![pair("K", "2")]);
        assert_eq!(extension.values, BTreeMap::from([("K".to_owned(), Secret::new("2"))]));
        let missing: Vec<_> = extension.missing().map(|setting| setting.name.as_str()).collect();
        assert_eq!(missing, ["R"]);
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
            let got = is_enabled(&switches, "e", Path::new("/a/b"));
            assert_eq!(got, enabled, "{switches}");
        }
        assert!(is_enabled(&Value::Null, "e", Path::new("/a")));
    }

    #[test]
    fn a_switch_replaces_the_rules_below_it() {
        let mut switches = json!({"e": {"overrides": ["/a/b/*", "!/a/c", "/x/*"]}, "f": {"overrides": ["!/*"]}});
        switch(&mut switches, "e", Path::new("/a"), Switch::Off);
        assert_eq!(switches["e"], json!({"overrides": ["/x/*", "!/a/*"]}));
        switch(&mut switches, "e", Path::new("/"), Switch::On);
        assert_eq!(switches["e"], json!({"overrides": ["/*"]}));
        assert_eq!(switches["f"], json!({"overrides": ["!/*"]}), "another one's stays");
        let mut broken = json!([]);
        switch(&mut broken, "e", Path::new("/w"), Switch::Off);
        assert!(!is_enabled(&broken, "e", Path::new("/w/a")));
        assert!(is_enabled(&broken, "e", Path::new("/v")));
    }
}
