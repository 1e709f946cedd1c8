//! Whether a workspace is trusted, that is, whether its own settings, variables and memory files are used.
//!
//! Only the operator decides: by a flag, by the environment of the process, by the user's settings, or by the file of trusted folders.
//! Nothing that a client sends or a repository contains has an influence. Without a decision a workspace is untrusted.

use crate::config::formats::jsonc;
use crate::config::formats::tree::Value;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    Trusted,
    #[default]
    Untrusted,
}

/// The operator's decision by flag or environment.
#[derive(Clone, Debug, Default)]
pub struct OperatorTrust {
    /// For the server's own workspace and everything below it, by the flag or the environment.
    pub decision: Option<Trust>,
    /// The server's own workspace, its real path.
    pub workspace: PathBuf,
}

/// Everything that decides about trust. The default trusts nothing.
#[derive(Clone, Debug, Default)]
pub struct TrustRules {
    pub operator: OperatorTrust,
    /// The operator's setting `security.folderTrust.enabled`. False: folders need not be trusted one by one.
    pub folder_trust: Option<bool>,
    pub folders: Folders,
}

impl TrustRules {
    /// Whether a directory, given by its real path, is trusted.
    pub fn decide(&self, dir: &Path) -> Trust {
        match (self.operator.decision, self.folder_trust) {
            // Distrust applies to every workspace of the server.
            (Some(Trust::Untrusted), _) => Trust::Untrusted,
            (Some(Trust::Trusted), _) if dir.starts_with(&self.operator.workspace) => Trust::Trusted,
            (_, Some(false)) => Trust::Trusted,
            (_, Some(true) | None) => self.folders.decide(dir).unwrap_or_default(),
        }
    }
}

impl TrustRules {
    /// Whether a directory's trust is decided. If not, the user can be asked.
    pub fn is_decided(&self, dir: &Path) -> bool {
        let by_operator = self
            .operator
            .decision
            .is_some_and(|trust| trust == Trust::Untrusted || dir.starts_with(&self.operator.workspace));
        by_operator || self.folder_trust == Some(false) || self.folders.decide(dir).is_some()
    }
}

/// A decision as a member of the file of trusted folders.
pub fn with_decision(text: &str, folder: &str, word: &str) -> Result<String, String> {
    let (root, _) = jsonc::parse(text).map_err(|n| format!("line {}: {}", n.line, n.text))?;
    let mut members = match root.json() {
        serde_json::Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    members.insert(folder.into(), word.into());
    Ok(format!("{:#}\n", serde_json::Value::Object(members)))
}

/// The file of trusted folders: real paths, and whether each and everything below it is trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders(Vec<(PathBuf, Trust)>);

impl Folders {
    /// Parses the file; `real` resolves links. An invalid file is an error with a line number.
    pub fn parse(text: &str, real: &dyn Fn(&Path) -> PathBuf) -> Result<Folders, String> {
        let (root, _) = jsonc::parse(text).map_err(|n| format!("line {}: {}", n.line, n.text))?;
        let Value::Map(members) = &root.value else {
            return Err("line 1: it must contain folders and whether they are trusted".into());
        };
        let mut folders = Vec::new();
        for (name, node) in members {
            let line = node.line;
            let path = Path::new(name);
            if !path.is_absolute() {
                return Err(format!("line {line}: {name:?} is not an absolute path"));
            }
            let path = real(path);
            let parent = || path.parent().unwrap_or(&path).to_path_buf();
            folders.push(match node.text() {
                Some("TRUST_FOLDER") => (path, Trust::Trusted),
                Some("TRUST_PARENT") => (parent(), Trust::Trusted),
                Some("DO_NOT_TRUST") => (path, Trust::Untrusted),
                Some(_) | None => {
                    return Err(format!(
                        "line {line}: {name:?} must be \"TRUST_FOLDER\", \"TRUST_PARENT\" or \"DO_NOT_TRUST\""
                    ));
                }
            });
        }
        Ok(Folders(folders))
    }

    /// The decision for the nearest folder; of two for the same folder, distrust.
    fn decide(&self, dir: &Path) -> Option<Trust> {
        let above = self.0.iter().filter(|(folder, _)| dir.starts_with(folder));
        let nearest = above.max_by_key(|(folder, trust)| (folder.components().count(), *trust == Trust::Untrusted));
        nearest.map(|(_, trust)| *trust)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(text: &str) -> Result<Folders, String> {
        // Every path below /link is really below /real.
        Folders::parse(text, &|path| match path.strip_prefix("/link") {
            Ok(rest) => Path::new("/real").join(rest),
            Err(_) => path.to_path_buf(),
        })
    }

    #[test]
    fn the_nearest_folder_decides_by_its_real_path() {
        let folders = folders(
            r#"{ // mine
                "/a": "TRUST_FOLDER", "/a/b": "DO_NOT_TRUST", "/a/b/c": "TRUST_FOLDER",
                "/p/q": "TRUST_PARENT", "/link/x": "TRUST_FOLDER",
                "/tie/x": "TRUST_PARENT", "/tie": "DO_NOT_TRUST",
            }"#,
        )
        .unwrap();
        let rules = TrustRules { folders, ..TrustRules::default() };
        for (dir, trusted) in [
            ("/a", true),
            ("/a/x", true),
            ("/ab", false),
            ("/a/b", false),
            ("/a/b/x/y", false),
            ("/a/b/c/d", true),
            ("/p", true),
            ("/p/z", true),
            ("/real/x", true),
            ("/link/x", false),
            ("/tie/x", false),
            ("/", false),
        ] {
            assert_eq!(rules.decide(Path::new(dir)) == Trust::Trusted, trusted, "{dir}");
        }
    }

    #[test]
    fn a_wrong_file_is_an_error_with_its_line() {
        for (text, expected) in [
            ("{\n\"/a\": \"TRUST\"}", "line 2: \"/a\" must be"),
            ("{\n\"/a\": true}", "line 2: \"/a\" must be"),
            ("{\"a\": \"TRUST_FOLDER\"}", "line 1: \"a\" is not an absolute path"),
            ("[]", "line 1: it must contain"),
            ("{", "line 1: a bracket is not closed"),
        ] {
            let error = folders(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        assert_eq!(folders("").unwrap(), Folders::default());
    }

    #[test]
    fn the_operators_decision_applies_to_the_servers_workspace() {
        let (asked, off) = (None, Some(false));
        let of = |dir: &str, decision, folder_trust| {
            let operator = OperatorTrust { decision, workspace: "/w".into() };
            TrustRules { operator, folder_trust, ..TrustRules::default() }.decide(Path::new(dir))
        };
        let (yes, no) = (Some(Trust::Trusted), Some(Trust::Untrusted));
        assert_eq!(of("/w", None, asked), Trust::Untrusted);
        assert_eq!(of("/w", yes, asked), Trust::Trusted);
        assert_eq!(of("/w/x", yes, asked), Trust::Trusted);
        assert_eq!(of("/other", yes, asked), Trust::Untrusted);
        assert_eq!(of("/other", None, off), Trust::Trusted);
        assert_eq!(of("/w", no, off), Trust::Untrusted);
    }
}
