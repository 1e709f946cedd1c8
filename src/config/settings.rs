//! Settings files, made into one typed value.
//!
//! Layers are applied one after the other onto the same [`Settings`]: what a later one says replaces what an earlier one said,
//! except for prohibitions, which add up. A key that is not in the table of them (`keys`) is somebody else's and ignored. A wrong
//! value is a message with file, line and key, and the rest of the file counts.

mod keys;

use crate::config::switches::{Board, SWITCHES};
use crate::config::tree::{Node, Value};
use crate::config::{jsonc, yaml};
use keys::{By, KEYS};
use std::collections::HashSet;

/// Where the switches are.
const SECTION: &str = "a2a";

/// The text of one file.
#[derive(Clone, Debug)]
pub struct Layer {
    pub origin: Origin,
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

/// Whose file it is. All but the workspace's are the operator's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    SystemDefaults,
    User,
    Workspace,
    System,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    pub model: Option<String>,
    /// Model requests in one session; None is without limit.
    pub max_session_turns: Option<u32>,
    /// Share of the context window at which a conversation is compressed.
    pub compression_threshold: Option<f64>,
    pub disable_loop_detection: Option<bool>,
    pub max_attempts: Option<u32>,
    pub approval: Option<Approval>,
    pub tools: Tools,
    pub context: Context,
    pub security: Security,
    /// Names that project files of variables may not set.
    pub excluded_env: Vec<String>,
    /// Policy rules in the order they were found, as they are written.
    pub rules: Vec<Rule>,
    /// Further files or folders of policies. Never from a workspace.
    pub policy_paths: Vec<String>,
    /// Header fields for Vertex AI: which kind of capacity to use.
    pub vertex_headers: Vec<(String, String)>,
    /// How the server behaves. Never from a workspace.
    pub board: Board,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// The only tools on offer, when set.
    pub core: Option<Vec<String>>,
    pub allowed: Vec<String>,
    pub exclude: Vec<String>,
    pub confirm: Vec<String>,
    /// Approves tools that only read.
    pub auto_accept: Option<bool>,
    /// A command that prints nothing for so many seconds is ended.
    pub shell_silence_s: Option<u32>,
    /// Characters of a result that the model gets.
    pub result_chars: Option<u32>,
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
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// False switches the question off: then every folder is trusted.
    pub folder_trust: Option<bool>,
    pub disable_yolo: bool,
    pub disable_always_allow: bool,
    /// Whether "always" may be saved for later sessions.
    pub permanent_approval: Option<bool>,
}

/// A policy rule as it was written, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub origin: Origin,
    pub file: String,
    pub line: usize,
    pub rule: serde_json::Value,
}

/// How much is asked before tools run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    #[default]
    Default,
    AutoEdit,
    Plan,
    Yolo,
}

impl Approval {
    pub fn from_word(word: &str) -> Option<Approval> {
        match word {
            "default" => Some(Approval::Default),
            "auto_edit" | "autoEdit" => Some(Approval::AutoEdit),
            "plan" => Some(Approval::Plan),
            "yolo" => Some(Approval::Yolo),
            _ => None,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Approval::Default => "default",
            Approval::AutoEdit => "auto_edit",
            Approval::Plan => "plan",
            Approval::Yolo => "yolo",
        }
    }
}

/// Reads the layers in order. The second value is what to tell the user, in order and each thing once.
pub fn load(layers: &[Layer], env: &dyn Fn(&str) -> Option<String>) -> (Settings, Vec<String>) {
    let mut settings = Settings::default();
    let mut messages = Vec::new();
    for layer in layers {
        let (root, notices) = match layer.format {
            Format::Yaml => yaml::parse(&layer.text),
            Format::Json => match jsonc::parse(&layer.text) {
                Ok(read) => read,
                Err(wrong) => {
                    messages.push(format!("{}; the file is not used", at(layer, wrong.line, &wrong.text)));
                    continue;
                }
            },
        };
        messages.extend(notices.iter().map(|n| at(layer, n.line, &n.text)));
        let mut root = root;
        root.expand(env);
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
        let text = "the file must hold names and values at its outermost level; it is not used";
        messages.push(at(layer, root.line, text));
        return;
    }
    for key in KEYS {
        // The newer name is read last, so that it wins.
        for name in key.names.iter().rev() {
            let Some(node) = find(root, name, key.by, layer, messages) else {
                continue;
            };
            if (key.set)(settings, node, layer).is_none() {
                messages.push(wrong(layer, node, name, key.wants));
            }
        }
    }
    for switch in SWITCHES {
        let found = find(root, switch.key, By::Operator, layer, messages);
        if let Some(node) = found
            && let Err(wants) = switch.read(&mut settings.board, node)
        {
            messages.push(wrong(layer, node, switch.key, &wants));
        }
    }
    messages.extend(strange_switches(root, layer));
}

/// The section of the switches is ours alone, so a name in it that is none of them is a mistake that would go unnoticed.
fn strange_switches(root: &Node, layer: &Layer) -> Vec<String> {
    let section = root.get(SECTION).map(|section| &section.value);
    let Some(Value::Map(members)) = section else {
        return Vec::new();
    };
    if layer.origin == Origin::Workspace {
        return Vec::new();
    }
    let names = || {
        let keys = SWITCHES.iter().map(|switch| switch.key);
        keys.filter_map(|key| key.strip_prefix(SECTION)?.strip_prefix('.'))
    };
    let strange = members.iter().filter(|(name, _)| !names().any(|known| known == name));
    let told = strange.map(|(name, node)| {
        let near = names().find(|known| known.starts_with(name.as_str()) && name.len() > 3);
        let next = match near {
            Some(known) => format!("did you mean {known}?"),
            None => "--help lists them.".into(),
        };
        let text = format!("{SECTION}.{name} is no switch and left out; {next}");
        at(layer, node.line, &text)
    });
    told.collect()
}

/// The value of a key, if the layer has one and may have one.
fn find<'r>(root: &'r Node, name: &'static str, by: By, layer: &Layer, messages: &mut Vec<String>) -> Option<&'r Node> {
    let node = match root.at(name) {
        Ok(node) => node?,
        Err(blocked) if is_old_name(blocked.path) => return None,
        Err(blocked) => {
            let path = blocked.path;
            let text = format!("{path} must hold names and values; it is left out");
            messages.push(at(layer, blocked.line, &text));
            return None;
        }
    };
    if matches!(node.value, Value::Map(_)) && is_old_name(name) && is_section(name) {
        return None;
    }
    if by == By::Operator && layer.origin == Origin::Workspace {
        let text = format!("{name} cannot be set by a workspace; it is left out");
        messages.push(at(layer, node.line, &text));
        return None;
    }
    Some(node)
}

fn wrong(layer: &Layer, node: &Node, name: &str, wants: &str) -> String {
    let text = format!("{name} must be {wants}; it is left out");
    at(layer, node.line, &text)
}

/// In the old generation some names held a value that are sections today: `model`.
fn is_old_name(name: &str) -> bool {
    KEYS.iter().any(|key| key.names[1..].contains(&name))
}

fn is_section(name: &str) -> bool {
    let below = |known: &&str| known.strip_prefix(name).is_some_and(|r| r.starts_with('.'));
    KEYS.iter().any(|key| key.names.iter().any(below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn layer(origin: Origin, text: &str) -> Layer {
        Layer { origin, file: format!("{origin:?}"), format: Format::Json, text: text.into() }
    }

    fn user(text: &str) -> (Settings, Vec<String>) {
        load(&[layer(Origin::User, text)], &|_| None)
    }

    #[test]
    fn both_generations_mean_the_same() {
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
            model: Some("flash".into()),
            max_session_turns: Some(7),
            tools: Tools {
                core: Some(strings(&["a"])),
                allowed: strings(&["b"]),
                exclude: strings(&["c"]),
                auto_accept: Some(true),
                ..Tools::default()
            },
            context: Context {
                file_names: strings(&["X.md"]),
                respect_git_ignore: Some(false),
                ignore_files: strings(&[".i"]),
                ..Context::default()
            },
            security: Security { folder_trust: Some(false), ..Security::default() },
            excluded_env: strings(&["G"]),
            rules: vec![Rule { origin: Origin::User, file: "User".into(), line: 0, rule: json!({"toolName": "glob"}) }],
            ..Settings::default()
        };
        assert_eq!(new.0, expected);
    }

    #[test]
    fn later_layers_win_and_prohibitions_add_up() {
        let layers = [
            layer(Origin::SystemDefaults, r#"{"model": {"name": "a"}, "tools": {"exclude": ["x"], "allowed": ["1"]}}"#),
            layer(
                Origin::User,
                r#"{"model": {"name": "b"}, "security": {"disableYoloMode": true}, "tools": {"exclude": ["y"]}}"#,
            ),
            layer(
                Origin::Workspace,
                r#"{"tools": {"allowed": ["2"], "exclude": []}, "security": {"disableYoloMode": false}, "context": {"fileName": "$X"}}"#,
            ),
            layer(Origin::System, r#"{"model": {"maxSessionTurns": -1}}"#),
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
    fn a_wrong_value_is_named_and_the_rest_counts() {
        let text = "{\n\"model\": {\"name\": 5, \"maxSessionTurns\": -7},\n\"tools\": \"s3cret\",\n\"general\": {\"maxAttempts\": 0,\n\"defaultApprovalMode\": \"yolo\"},\n\"context\": {\"fileName\": \"../x\"}, \"unknown\": {\"a\": 1},\n\"security\": {\"disableYoloMode\": true},\n\"mcpServers\": {\"m\": {\"env\": {\"K\": \"s3cret\"}}}\n}";
        let (settings, messages) = user(text);
        assert_eq!(
            messages,
            [
                "User, line 2: model.name must be a text; it is left out",
                "User, line 2: model.maxSessionTurns must be a whole number, -1 for no limit; it is left out",
                "User, line 4: general.maxAttempts must be a whole number from 1 on; it is left out",
                "User, line 5: general.defaultApprovalMode must be default, auto_edit or plan (yolo only by --approval-mode); it is left out",
                "User, line 3: tools must hold names and values; it is left out",
                "User, line 6: context.fileName must be a file's name, or a list of them; it is left out",
            ]
        );
        assert!(settings.security.disable_yolo);
        assert!(!format!("{settings:?} {messages:?}").contains("s3cret"));
    }

    #[test]
    fn a_broken_file_is_named_and_the_others_count() {
        let layers = [
            layer(Origin::SystemDefaults, "[]"),
            layer(Origin::User, "{\n\"model\": "),
            Layer { format: Format::Yaml, ..layer(Origin::User, "general:\n  maxAttempts: 3\nx: [1]\n") },
            layer(Origin::System, "{\"model\": \"flash\",}"),
        ];
        let (settings, messages) = load(&layers, &|_| None);
        assert_eq!(
            messages,
            [
                "SystemDefaults, line 1: the file must hold names and values at its outermost level; it is not used",
                "User, line 2: a value is missing at the end of the file; the file is not used",
                "User, line 3: a list or map on one line is not supported; write plain maps, lists and values",
                "System, line 1: there is a comma too many",
            ]
        );
        let expected = Settings { model: Some("flash".into()), max_attempts: Some(3), ..Settings::default() };
        assert_eq!(settings, expected);
    }

    #[test]
    fn switches_are_the_operators() {
        let text = r#"{"a2a": {"strictVersion": true, "cardDefault": "v2", "requiredExtensions": ["urn:x"]}}"#;
        let (settings, messages) = user(text);
        let mut expected = Board::default();
        expected.a2a.strict_version = true;
        expected.a2a.required_extensions = vec!["urn:x".into()];
        assert_eq!(settings.board, expected);
        assert_eq!(messages, ["User, line 1: a2a.cardDefault must be hybrid or v1; it is left out"]);
        let (settings, messages) = load(&[layer(Origin::Workspace, text)], &|_| None);
        assert_eq!(settings.board, Board::default());
        assert_eq!(messages.len(), 3);
    }

    #[test]
    fn a_name_among_the_switches_that_is_none_is_told() {
        let text =
            "{\"a2a\": {\n\"pushAllowHost\": [\"h\"],\n\"allowedOrigin\": \"x\", \"push\": \"off\"}, \"b2b\": 1}";
        let (settings, messages) = user(text);
        let mut expected = Board::default();
        expected.a2a.push = false;
        assert_eq!(settings.board, expected);
        assert_eq!(
            messages,
            [
                "User, line 2: a2a.pushAllowHost is no switch and left out; did you mean pushAllowHosts?",
                "User, line 3: a2a.allowedOrigin is no switch and left out; --help lists them.",
            ]
        );
    }

    #[test]
    fn a_workspace_cannot_decide_about_trust_or_policies() {
        let text = r#"{"security": {"folderTrust": {"enabled": false}}, "folderTrust": false, "policyPaths": ["p"], "adminPolicyPaths": ["q"]}"#;
        let (settings, messages) = load(&[layer(Origin::Workspace, text)], &|_| None);
        assert_eq!(settings, Settings::default());
        assert_eq!(messages.len(), 4);
        assert!(messages.iter().all(|m| m.contains("cannot be set by a workspace")));
        assert_eq!(user(text).0.policy_paths, ["p", "q"]);
    }
}
