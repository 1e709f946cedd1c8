//! The values of all options, and the settings files that set them.
//!
//! Files are applied in order to one [`Settings`] value, then variables, then flags: a later source replaces the value of an
//! earlier one, except for prohibitions, which add up. An invalid value is reported with file, line and key, and the rest of
//! the file is used. A name that has no effect is reported too.

use crate::a2a::Switches;
use crate::base::level::Level;
use crate::config::access::AccessSettings;
use crate::config::definitions::hooks::HookSettings;
use crate::config::definitions::mcp::McpSettings;
use crate::config::formats::tree::{Node, Value};
use crate::config::listen::{Host, Listen};
use crate::config::operation::OperationOptions;
use crate::config::options::{self, By, Name, OPTIONS};
use crate::config::session::{SessionOptions, UiSettings};
use crate::config::trust::Trust;
use crate::config::{formats::jsonc, formats::yaml};
use crate::limits::{Limits, UNKNOWN_SETTINGS};
use crate::task::call::RequestPolicy;
use crate::task::policy::{Mode, ToolSettings};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

/// The text of one file.
#[derive(Clone, Debug)]
pub struct Layer {
    pub scope: SettingScope,
    /// Its name in messages.
    pub file: String,
    pub format: Format,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
}

/// The owner of a settings file. All files but the workspace's are the operator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingScope {
    SystemDefaults,
    User,
    Workspace,
    System,
}

/// The value of every option. `options/table.rs` documents them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    pub port: Option<u16>,
    pub host: Option<Host>,
    pub listen: Vec<Listen>,
    /// The value of `A2A_LISTEN`.
    pub listen_variable: Option<Listen>,
    /// The value of `PORT`, which is used on Cloud Run only.
    pub platform_port: Option<String>,
    pub access: AccessSettings,
    pub workspace: Option<PathBuf>,
    /// The workspace that clients cannot change.
    pub pinned_workspace: Option<PathBuf>,
    pub allowed_roots: Vec<String>,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub state_dir: Option<PathBuf>,
    pub store: StoreSettings,
    pub script: Option<PathBuf>,
    pub log_level: Level,
    /// Whether there is an audit, and whether it contains prompts.
    pub audit: bool,
    pub audit_prompts: bool,
    /// Written before every message of the log.
    pub log_prefix: &'static str,
    /// By the API's names.
    pub model: Option<String>,
    pub allowed_models: Vec<String>,
    /// Whether the operator trusts the server's own workspace.
    pub trust: Option<Trust>,
    pub mode: Mode,
    /// Clients may ask for tools to run without approval.
    pub auto_execute: bool,
    pub tools: ToolSettings,
    pub mcp: McpSettings,
    pub context: Context,
    /// The only extensions to use; None: those that are switched on.
    pub extensions: Option<Vec<String>>,
    pub disabled_extensions: Vec<String>,
    pub skills: SkillSettings,
    pub hooks: HookSettings,
    pub security: Security,
    /// False: the content of files is not stored when they are edited.
    pub checkpointing: Option<bool>,
    /// Variables that the `.env` file of a workspace may not set.
    pub excluded_variables: Vec<String>,
    /// Policy rules in the order they were found, as they are written.
    pub rules: Vec<Rule>,
    /// Further files or folders of policies.
    pub policy_paths: Vec<String>,
    pub vertex_headers: Vec<(String, String)>,
    pub ca_file: Option<PathBuf>,
    pub a2a: Switches,
    pub extended_card: Option<PathBuf>,
    pub request_policy: RequestPolicy,
    pub session: SessionOptions,
    pub ui: UiSettings,
    pub operation: OperationOptions,
    pub limits: Limits,
}

/// Where tasks are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSettings {
    /// None: in the bucket that a variable names, else in files.
    pub kind: Option<StoreKind>,
    /// The times of a store in a bucket are divided by this, in tests.
    pub divisor: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    Files,
    Gcs,
    S3,
}

impl StoreKind {
    pub const ALL: [StoreKind; 3] = [StoreKind::Files, StoreKind::Gcs, StoreKind::S3];
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Names of memory files; empty means the default.
    pub file_names: Vec<String>,
    /// A directory with one of these in it is the root of a project; empty means the default.
    pub boundary_markers: Vec<String>,
    pub directory_tree: Option<bool>,
    pub respect_git_ignore: Option<bool>,
    pub respect_gemini_ignore: Option<bool>,
    pub ignore_files: Vec<String>,
    /// Directories beside the workspace that tools may use, as they are written.
    pub include: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillSettings {
    /// False: there are none.
    pub enabled: Option<bool>,
    pub disabled: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// False: every folder is trusted.
    pub folder_trust: Option<bool>,
    pub disable_yolo: bool,
    pub disable_always_allow: bool,
    /// Whether approvals may be saved for later sessions.
    pub permanent_approval: bool,
}

/// A policy rule as it was written, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub scope: SettingScope,
    pub file: String,
    pub line: usize,
    pub rule: serde_json::Value,
}

impl Settings {
    /// Whether edits can be undone.
    pub fn has_checkpoints(&self) -> bool {
        self.checkpointing != Some(false)
    }

    pub fn add_rules(&mut self, node: &Node, layer: &Layer) -> Option<()> {
        let Value::List(rules) = &node.value else { return None };
        self.rules.extend(rules.iter().map(|rule| Rule {
            scope: layer.scope,
            file: layer.file.clone(),
            line: rule.line,
            rule: rule.json(),
        }));
        Some(())
    }
}

/// Reads the layers in order. The second value is what to tell the user, in order and each thing once.
pub fn load(layers: &[Layer], env: &dyn Fn(&str) -> Option<String>) -> (Settings, Vec<String>) {
    let mut settings = Settings::default();
    let mut messages = Vec::new();
    for layer in layers {
        let (mut root, notices) = match layer.format {
            Format::Yaml => yaml::parse(&layer.text),
            Format::Json => match jsonc::parse(&layer.text) {
                Ok(read) => read,
                Err(wrong) => {
                    messages.push(at(layer, wrong.line, &format!("{}; the file is not used", wrong.text)));
                    continue;
                }
            },
        };
        messages.extend(notices.iter().map(|n| at(layer, n.line, &n.text)));
        let withheld = RefCell::new(BTreeSet::new());
        let of_layer = |name: &str| {
            let value = env(name)?;
            let is_withheld = layer.scope == SettingScope::Workspace && options::is_credential(name, &value);
            if is_withheld {
                withheld.borrow_mut().insert(name.to_owned());
            }
            (!is_withheld).then_some(value)
        };
        if let Value::Map(members) = &mut root.value {
            // The variables of servers have rules of their own, and those of hooks are the shell's.
            members
                .iter_mut()
                .filter(|(name, _)| !["mcpServers", "hooks"].contains(&name.as_str()))
                .for_each(|(_, node)| node.expand(&of_layer));
        }
        let file = &layer.file;
        messages.extend(withheld.into_inner().iter().map(|name| {
            format!("{file}: {name} is a credential of this program, which settings of a workspace cannot use")
        }));
        apply(&root, layer, &mut settings, &mut messages);
    }
    let mut seen = HashSet::new();
    messages.retain(|message| seen.insert(message.clone()));
    (settings, messages)
}

fn at(layer: &Layer, line: usize, text: &str) -> String {
    format!("{}, line {line}: {text}", layer.file)
}

fn apply(root: &Node, layer: &Layer, settings: &mut Settings, messages: &mut Vec<String>) {
    if !matches!(root.value, Value::Map(_)) {
        let text = "the file must contain names and values at its outermost level; it is not used";
        messages.push(at(layer, root.line, text));
        return;
    }
    for row in OPTIONS {
        // The current name is read last, so that it wins over older ones.
        for key in row.keys().rev() {
            let Some(node) = root.at(key).filter(|node| Name::of(key, &node.value) == Name::Option) else { continue };
            let text = if row.by == By::Operator && layer.scope == SettingScope::Workspace {
                format!("{key} cannot be set by a workspace; it is left out")
            } else if let Err(expected) = row.set_from_file(settings, node, layer) {
                format!("{key} must be {expected}; it is left out")
            } else {
                continue;
            };
            messages.push(at(layer, node.line, &text));
        }
    }
    let mut unknown = Vec::new();
    name_unused("", root, &mut unknown);
    if let Some((line, _)) = unknown.get(UNKNOWN_SETTINGS) {
        let rest = format!("from here on {} more names have no effect", unknown.len() - UNKNOWN_SETTINGS);
        unknown[UNKNOWN_SETTINGS] = (*line, rest);
    }
    messages.extend(unknown.iter().take(UNKNOWN_SETTINGS + 1).map(|(line, text)| at(layer, *line, text)));
}

/// Collects messages about names that have no effect, with their lines.
fn name_unused(section: &str, node: &Node, found: &mut Vec<(usize, String)>) {
    let Value::Map(members) = &node.value else { return };
    // A name that begins with a dollar sign is for editors: `$schema`.
    for (name, node) in members.iter().filter(|(name, node)| node.value != Value::Null && !name.starts_with('$')) {
        let path = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        let text = match (Name::of(&path, &node.value), &node.value) {
            (Name::Option, _) => continue,
            (Name::Section, Value::Map(_)) => {
                name_unused(&path, node, found);
                continue;
            }
            (Name::Section, _) => format!("{path} must contain names and values; it is left out"),
            (Name::Unsupported, _) => format!("{path} is not supported yet; it has no effect"),
            (Name::Unknown, _) => match options::nearest_key(&path) {
                Some(known) => format!("{path} is unknown and has no effect; did you mean {known}?"),
                None => format!("{path} is unknown and has no effect"),
            },
        };
        found.push((node.line, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn layer(scope: SettingScope, text: &str) -> Layer {
        Layer { scope, file: format!("{scope:?}"), format: Format::Json, text: text.into() }
    }

    fn user(text: &str) -> (Settings, Vec<String>) {
        load(&[layer(SettingScope::User, text)], &|_| None)
    }

    #[test]
    fn old_and_new_keys_have_the_same_effect() {
        let new = r#"{
            "model": {"name": "flash", "maxSessionTurns": 7},
            "tools": {"core": ["a"], "allowed": ["b"], "exclude": ["c"], "autoAccept": true},
            "context": {"fileName": ["X.md"],
                        "fileFiltering": {"respectGitIgnore": false, "customIgnoreFilePaths": [".i"]}},
            "security": {"folderTrust": {"enabled": false}},
            "advanced": {"excludedEnvVars": ["G"]},
            "policy": {"rules": [{"toolName": "glob"}]}
        }"#;
        let old = r#"{
            "model": "flash", "maxSessionTurns": 7,
            "coreTools": ["a"], "allowedTools": ["b"], "excludeTools": ["c"], "autoAccept": true,
            "contextFileName": "X.md",
            "fileFiltering": {"respectGitIgnore": false, "customIgnoreFilePaths": [".i"]},
            "folderTrust": false,
            "excludedProjectEnvVars": ["G"],


            "policies": [{"toolName": "glob"}]
        }"#;
        let (mut new, mut old) = (user(new), user(old));
        assert_eq!((&new.1, &old.1), (&vec![], &vec![]));
        new.0.rules[0].line = 0;
        old.0.rules[0].line = 0;
        assert_eq!(new.0, old.0);
        let strings = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
        let expected = Settings {
            model: Some("gemini-3.5-flash".into()),
            limits: Limits { session_requests: 7, ..Limits::default() },
            tools: ToolSettings {
                core: Some(strings(&["a"])),
                allowed: strings(&["b"]),
                exclude: strings(&["c"]),
                auto_accept: true,
                ..ToolSettings::default()
            },
            context: Context {
                file_names: strings(&["X.md"]),
                respect_git_ignore: Some(false),
                ignore_files: strings(&[".i"]),
                ..Context::default()
            },
            security: Security { folder_trust: Some(false), ..Security::default() },
            excluded_variables: strings(&["G"]),
            rules: vec![Rule {
                scope: SettingScope::User,
                file: "User".into(),
                line: 0,
                rule: json!({"toolName": "glob"}),
            }],
            ..Settings::default()
        };
        assert_eq!(new.0, expected);
    }

    #[test]
    fn later_files_override_earlier_ones_but_prohibitions_stay() {
        let layers = [
            layer(
                SettingScope::SystemDefaults,
                r#"{"model": {"name": "a"}, "tools": {"exclude": ["x"], "allowed": ["1"]}}"#,
            ),
            layer(
                SettingScope::User,
                r#"{"model": {"name": "b"}, "security": {"disableYoloMode": true}, "tools": {"exclude": ["y"]}}"#,
            ),
            layer(
                SettingScope::Workspace,
                r#"{"tools": {"allowed": ["2"], "exclude": []}, "security": {"disableYoloMode": false}, "context": {"fileName": "$X"}}"#,
            ),
            layer(SettingScope::System, r#"{"model": {"maxSessionTurns": -1}}"#),
        ];
        let env = |name: &str| (name == "X").then(|| "b".to_owned());
        let (settings, messages) = load(&layers, &env);
        assert_eq!(messages, Vec::<String>::new());
        assert_eq!(settings.model.as_deref(), Some("b"));
        assert_eq!(settings.tools.exclude, ["x", "y"]);
        assert_eq!(settings.tools.allowed, ["2"]);
        assert!(settings.security.disable_yolo);
        assert_eq!(settings.context.file_names, ["b"]);
    }

    #[test]
    fn a_workspace_cannot_use_our_credentials() {
        let text = r#"{"policy": {"rules": [{"toolName": "glob", "denyMessage": "$A2A_TOKEN ${GEMINI_API_KEY} $HTTPS_PROXY $OTHER"}]}}"#;
        let env = |name: &str| Some(if name == "HTTPS_PROXY" { "http://me:s3cret@p" } else { "s3cret" }.to_owned());
        let message = |scope| {
            let (settings, messages) = load(&[layer(scope, text)], &env);
            (settings.rules[0].rule["denyMessage"].clone(), messages)
        };
        let (own, messages) = message(SettingScope::User);
        assert_eq!((own, messages), (json!("s3cret s3cret http://me:s3cret@p s3cret"), vec![]));
        let (written, messages) = message(SettingScope::Workspace);
        assert_eq!(written, "$A2A_TOKEN ${GEMINI_API_KEY} $HTTPS_PROXY s3cret");
        assert_eq!(messages.len(), 3, "{messages:?}");
        assert!(messages[0].starts_with("Workspace: A2A_TOKEN is a credential"), "{messages:?}");
    }

    #[test]
    fn an_invalid_value_is_reported_and_the_rest_is_used() {
        let text = "{\n\"model\": {\"name\": 5, \"maxSessionTurns\": -7},\n\"tools\": \"s3cret\",\n\"general\": {\"maxAttempts\": 0,\n\"defaultApprovalMode\": \"yolo\"},\n\"context\": {\"fileName\": \"../x\"}, \"unknown\": {\"a\": 1},\n\"security\": {\"disableYoloMode\": true},\n\"mcpServers\": {\"m\": {\"env\": {\"K\": \"s3cret\"}}}\n}";
        let (settings, messages) = user(text);
        assert_eq!(
            messages,
            [
                "User, line 2: model.name must be the name of a model; it is left out",
                "User, line 2: model.maxSessionTurns must be a whole number, -1 for no limit; it is left out",
                "User, line 4: general.maxAttempts must be a whole number from 1 on; it is left out",
                "User, line 5: general.defaultApprovalMode must be default, auto_edit or plan; it is left out",
                "User, line 6: context.fileName must be a file's name, or a list of them; it is left out",
                "User, line 3: tools must contain names and values; it is left out",
                "User, line 6: unknown is unknown and has no effect",
            ]
        );
        assert!(settings.security.disable_yolo);
        assert!(!format!("{settings:?} {messages:?}").contains("s3cret"));
    }

    #[test]
    fn an_invalid_file_is_reported_and_the_others_are_used() {
        let layers = [
            layer(SettingScope::SystemDefaults, "[]"),
            layer(SettingScope::User, "{\n\"model\": "),
            Layer { format: Format::Yaml, ..layer(SettingScope::User, "general:\n  maxAttempts: 3\nx: [1]\n") },
            layer(SettingScope::System, "{\"model\": \"flash\",}"),
        ];
        let (settings, messages) = load(&layers, &|_| None);
        assert_eq!(
            messages,
            [
                "SystemDefaults, line 1: the file must contain names and values at its outermost level; it is not used",
                "User, line 2: a value is missing at the end of the file; the file is not used",
                "User, line 3: a list or map on one line is not supported; write plain maps, lists and values",
                "System, line 1: there is a comma too many",
            ]
        );
        let expected = Settings {
            model: Some("gemini-3.5-flash".into()),
            limits: Limits { model_tries: 3, ..Limits::default() },
            ..Settings::default()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn a_workspace_cannot_set_the_servers_behaviour() {
        let text = r#"{"a2a": {"strictVersion": true, "cardDefault": "v2", "requiredExtensions": ["urn:x"]}}"#;
        let (settings, messages) = user(text);
        let expected =
            Switches { strict_version: true, required_extensions: vec!["urn:x".into()], ..Switches::default() };
        assert_eq!(settings.a2a, expected);
        assert_eq!(messages, ["User, line 1: a2a.cardDefault must be hybrid or v1; it is left out"]);
        let (settings, messages) = load(&[layer(SettingScope::Workspace, text)], &|_| None);
        assert_eq!(settings.a2a, Switches::default());
        assert_eq!(messages.len(), 3);
    }

    #[test]
    fn an_unknown_name_is_reported_with_a_suggestion() {
        let text =
            "{\"a2a\": {\n\"pushAllowHost\": [\"h\"],\n\"allowedOrigin\": \"x\", \"push\": \"off\"}, \"b2b\": 1}";
        let (settings, messages) = user(text);
        let expected = Switches { push: false, ..Switches::default() };
        assert_eq!(settings.a2a, expected);
        assert_eq!(
            messages,
            [
                "User, line 2: a2a.pushAllowHost is unknown and has no effect; did you mean a2a.pushAllowHosts?",
                "User, line 3: a2a.allowedOrigin is unknown and has no effect",
                "User, line 3: b2b is unknown and has no effect",
            ]
        );
    }

    #[test]
    fn names_without_effect_are_reported_once_and_a_few_of_many() {
        let text = r#"{"$schema": "s", "mcp": {"serverCommand": "x"}, "context": {"importFormat": "x"}, "maxAttempts": 3,
            "tools": {"sandbox": true, "exlude": ["x"], "shell": {"pager": "x"}}, "ui": {"theme": "light", "hideTips": true}}"#;
        let texts: Vec<String> =
            user(text).1.iter().map(|m| m.split_once(": ").expect("a line").1.to_owned()).collect();
        assert_eq!(
            texts,
            [
                "mcp.serverCommand is not supported yet; it has no effect",
                "context.importFormat is not supported yet; it has no effect",
                "maxAttempts is unknown and has no effect; did you mean general.maxAttempts?",
                "tools.sandbox is not supported yet; it has no effect",
                "tools.exlude is unknown and has no effect; did you mean tools.exclude?",
                "tools.shell.pager is not supported yet; it has no effect",
                "ui.hideTips is not supported yet; it has no effect",
            ]
        );
        let many: Vec<String> = (0..UNKNOWN_SETTINGS + 5).map(|n| format!("\"x{n}y\": {n}")).collect();
        let (_, messages) = user(&format!("{{{}}}", many.join(",\n")));
        assert_eq!(messages.len(), UNKNOWN_SETTINGS + 1);
        let last = format!("User, line {}: from here on 5 more names have no effect", UNKNOWN_SETTINGS + 1);
        assert_eq!(messages.last(), Some(&last));
    }

    #[test]
    fn a_workspace_cannot_decide_about_trust_or_policies() {
        let text = r#"{"security": {"folderTrust": {"enabled": false}}, "folderTrust": false, "policyPaths": ["p"], "adminPolicyPaths": ["q"]}"#;
        let (settings, messages) = load(&[layer(SettingScope::Workspace, text)], &|_| None);
        assert_eq!(settings, Settings::default());
        assert_eq!(messages.len(), 4);
        assert!(messages.iter().all(|m| m.contains("cannot be set by a workspace")));
        assert_eq!(user(text).0.policy_paths, ["q", "p"]);
    }
}
