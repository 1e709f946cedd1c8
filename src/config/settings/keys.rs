//! The keys of settings files, one row each: its names in both generations of the format, who may set it, what it must be, and
//! where it goes.

use super::{Approval, Layer, Rule, Settings};
use crate::config::tree::{Node, Value};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    Anyone,
    Operator,
}

pub struct Key {
    /// Today's name, then older ones.
    pub names: &'static [&'static str],
    pub by: By,
    pub wants: &'static str,
    /// None when the value is not what it must be.
    pub set: fn(&mut Settings, &Node, &Layer) -> Option<()>,
}

const SWITCH: &str = "true or false";
const TEXTS: &str = "a list of texts";

pub const KEYS: &[Key] = &[
    Key {
        names: &["model.name", "model"],
        by: By::Anyone,
        wants: "a text",
        set: |s, node, _| put(&mut s.model, node.text().map(str::to_owned)),
    },
    Key {
        names: &["model.maxSessionTurns", "maxSessionTurns"],
        by: By::Anyone,
        wants: "a whole number, -1 for no limit",
        set: |s, node, _| {
            let turns = node.integer().filter(|turns| *turns >= -1)?;
            s.max_session_turns = u32::try_from(turns).ok();
            Some(())
        },
    },
    Key {
        names: &["model.compressionThreshold"],
        by: By::Anyone,
        wants: "a number above 0 and up to 1",
        set: |s, node, _| {
            let share = node.float().filter(|share| *share > 0.0 && *share <= 1.0);
            put(&mut s.compression_threshold, share)
        },
    },
    Key {
        names: &["model.disableLoopDetection"],
        by: By::Anyone,
        wants: SWITCH,
        set: |s, node, _| put(&mut s.disable_loop_detection, node.bool()),
    },
    Key {
        names: &["general.maxAttempts"],
        by: By::Anyone,
        wants: "a whole number from 1 on",
        set: |s, node, _| put(&mut s.max_attempts, count(node)),
    },
    Key {
        names: &["general.defaultApprovalMode"],
        by: By::Anyone,
        wants: "default, auto_edit or plan (yolo only by --approval-mode)",
        set: |s, node, _| {
            let mode = Approval::from_word(node.text()?);
            put(&mut s.approval, mode.filter(|mode| *mode != Approval::Yolo))
        },
    },
    Key {
        names: &["tools.core", "coreTools"],
        by: By::Anyone,
        wants: TEXTS,
        set: |s, node, _| put(&mut s.tools.core, node.texts()),
    },
    Key {
        names: &["tools.allowed", "allowedTools"],
        by: By::Anyone,
        wants: TEXTS,
        set: |s, node, _| replace(&mut s.tools.allowed, node),
    },
    Key {
        names: &["tools.exclude", "excludeTools"],
        by: By::Anyone,
        wants: TEXTS,
        set: |s, node, _| add(&mut s.tools.exclude, node),
    },
    Key {
        names: &["tools.confirmationRequired"],
        by: By::Anyone,
        wants: TEXTS,
        set: |s, node, _| add(&mut s.tools.confirm, node),
    },
    Key {
        names: &["tools.autoAccept", "autoAccept"],
        by: By::Anyone,
        wants: SWITCH,
        set: |s, node, _| put(&mut s.tools.auto_accept, node.bool()),
    },
    Key {
        names: &["tools.shell.inactivityTimeout"],
        by: By::Anyone,
        wants: "a whole number of seconds, 0 for never",
        set: |s, node, _| {
            let seconds = node.integer().and_then(|n| u32::try_from(n).ok());
            put(&mut s.tools.shell_silence_s, seconds)
        },
    },
    Key {
        names: &["tools.truncateToolOutputThreshold", "truncateToolOutputThreshold"],
        by: By::Anyone,
        wants: "a whole number of characters from 1 on",
        set: |s, node, _| put(&mut s.tools.result_chars, count(node)),
    },
    Key {
        names: &["context.fileName", "contextFileName"],
        by: By::Anyone,
        wants: "a file's name, or a list of them",
        set: |s, node, _| {
            let one = node.text().map(|name| vec![name.to_owned()]);
            let names = one.or_else(|| node.texts())?;
            // They are looked for in several directories, the user's own among them, and must not lead out of any.
            let plain = |name: &String| !name.contains('/') && !["", ".", ".."].contains(&name.as_str());
            if names.is_empty() || !names.iter().all(plain) {
                return None;
            }
            s.context.file_names = names;
            Some(())
        },
    },
    Key {
        names: &["context.memoryBoundaryMarkers"],
        by: By::Anyone,
        wants: TEXTS,
        set: |s, node, _| replace(&mut s.context.boundary_markers, node),
    },
    Key {
        names: &["context.includeDirectoryTree"],
        by: By::Anyone,
        wants: SWITCH,
        set: |s, node, _| put(&mut s.context.directory_tree, node.bool()),
    },
    Key {
        names: &["context.fileFiltering.respectGitIgnore", "fileFiltering.respectGitIgnore"],
        by: By::Anyone,
        wants: SWITCH,
        set: |s, node, _| put(&mut s.context.respect_git_ignore, node.bool()),
    },
    Key {
        names: &["context.fileFiltering.respectGeminiIgnore", "fileFiltering.respectGeminiIgnore"],
        by: By::Anyone,
        wants: SWITCH,
        set: |s, node, _| put(&mut s.context.respect_gemini_ignore, node.bool()),
    },
    Key {
        names: &["context.fileFiltering.customIgnoreFilePaths", "fileFiltering.customIgnoreFilePaths"],
        by: By::Anyone,
        wants: TEXTS,
        set: |s, node, _| add(&mut s.context.ignore_files, node),
    },
    Key {
        names: &["security.folderTrust.enabled", "folderTrust"],
        by: By::Operator,
        wants: SWITCH,
        set: |s, node, _| put(&mut s.security.folder_trust, node.bool()),
    },
    Key {
        names: &["security.disableYoloMode", "disableYoloMode"],
        by: By::Anyone,
        wants: SWITCH,
        set: |s, node, _| {
            s.security.disable_yolo |= node.bool()?;
            Some(())
        },
    },
    Key {
        names: &["security.disableAlwaysAllow"],
        by: By::Anyone,
        wants: SWITCH,
        set: |s, node, _| {
            s.security.disable_always_allow |= node.bool()?;
            Some(())
        },
    },
    Key {
        names: &["security.enablePermanentToolApproval"],
        by: By::Operator,
        wants: SWITCH,
        set: |s, node, _| put(&mut s.security.permanent_approval, node.bool()),
    },
    Key {
        names: &["advanced.excludedEnvVars", "excludedProjectEnvVars"],
        by: By::Anyone,
        wants: TEXTS,
        set: |s, node, _| add(&mut s.excluded_env, node),
    },
    Key {
        names: &["policy.rules", "policies"],
        by: By::Anyone,
        wants: "a list of rules",
        set: |s, node, layer| {
            let Value::List(rules) = &node.value else {
                return None;
            };
            s.rules.extend(rules.iter().map(|rule| Rule {
                origin: layer.origin,
                file: layer.file.clone(),
                line: rule.line,
                rule: rule.json(),
            }));
            Some(())
        },
    },
    Key { names: &["policyPaths"], by: By::Operator, wants: TEXTS, set: |s, node, _| add(&mut s.policy_paths, node) },
    Key {
        names: &["adminPolicyPaths"],
        by: By::Operator,
        wants: TEXTS,
        set: |s, node, _| add(&mut s.policy_paths, node),
    },
    Key {
        names: &["billing.vertexAi.requestType"],
        by: By::Operator,
        wants: "a text",
        set: |s, node, _| header(s, "X-Vertex-AI-LLM-Request-Type", node),
    },
    Key {
        names: &["billing.vertexAi.sharedRequestType"],
        by: By::Operator,
        wants: "a text",
        set: |s, node, _| header(s, "X-Vertex-AI-LLM-Shared-Request-Type", node),
    },
];

fn put<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    *place = Some(value?);
    Some(())
}

fn replace(place: &mut Vec<String>, node: &Node) -> Option<()> {
    *place = node.texts()?;
    Some(())
}

fn add(place: &mut Vec<String>, node: &Node) -> Option<()> {
    for text in node.texts()? {
        if !place.contains(&text) {
            place.push(text);
        }
    }
    Some(())
}

fn header(settings: &mut Settings, name: &str, node: &Node) -> Option<()> {
    let printable = |c: char| c.is_ascii_graphic() || c == ' ';
    let value = node.text().filter(|text| text.chars().all(printable))?;
    settings.vertex_headers.retain(|(known, _)| known != name);
    settings.vertex_headers.push((name.into(), value.into()));
    Some(())
}

fn count(node: &Node) -> Option<u32> {
    let number = node.integer().and_then(|n| u32::try_from(n).ok());
    number.filter(|number| *number > 0)
}
