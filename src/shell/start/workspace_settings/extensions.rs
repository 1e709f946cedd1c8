//! Finds the extensions of a workspace: directories with a manifest, those of a trusted workspace before the user's own. Of two with
//! the same name the first is used. Which are switched off is in a file beside the user's own.

use super::{SettingsReader, read_inside, read_plain};
use crate::config::definitions::extension::{Extension, ExtensionSource, ManifestPaths, is_enabled};
use crate::config::options::is_credential;
use crate::config::trust::Trust;
use crate::config::{formats::dotenv, formats::jsonc};
use crate::limits::EXTENSIONS;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The directory of extensions in a `.gemini`.
const DIRECTORY: &str = "extensions";
const MANIFEST: &str = "gemini-extension.json";
/// The file that says how an extension was installed. It is read to find out whether the extension's directory is elsewhere.
const INSTALLED: &str = ".gemini-extension-install.json";
/// The file that says which extensions are switched off, and in which directories.
pub const SWITCHES: &str = "extensions/extension-enablement.json";
/// Given in place of names if no extension is to be used.
const NONE: &str = "none";

impl SettingsReader {
    /// All extensions that are installed for a workspace, given by its real path, also those that are not used in it; and messages for
    /// the user about them. `disabled` are those that the settings switch off.
    pub fn extensions(&self, workspace: &Path, trust: Trust, disabled: &[String]) -> (Vec<Extension>, Vec<String>) {
        let mut search = Search { reader: self, workspace, found: Vec::new(), messages: Vec::new() };
        if trust == Trust::Trusted && !self.is_home(workspace) {
            search.in_directory(&workspace.join(".gemini"), ExtensionSource::Workspace);
        }
        if let Some(home) = self.paths.user("") {
            search.in_directory(&home, ExtensionSource::User);
        }
        let Search { mut found, mut messages, .. } = search;
        let switches = self.switches();
        for extension in &mut found {
            let is_in = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case(&extension.name));
            extension.enabled = match &self.only {
                Some(only) => is_in(only),
                None => is_enabled(&switches, &extension.name, workspace) && !is_in(disabled),
            };
            if extension.enabled {
                self.read_values(extension, workspace, trust);
                messages.extend(extension.missing().map(|setting| {
                    let (name, variable) = (&extension.name, &setting.variable);
                    let dir = extension.dir.display();
                    format!("the extension {name} wants {variable} ({}); write it into {dir}/.env", setting.name)
                }));
            }
        }
        for wanted in self.only.iter().flatten().filter(|name| *name != NONE) {
            if !found.iter().any(|extension| wanted.eq_ignore_ascii_case(&extension.name)) {
                messages.push(format!("there is no extension {wanted}; /extensions list shows those there are"));
            }
        }
        (found, messages)
    }

    /// The content of the file of switches; empty if it cannot be read.
    pub fn switches(&self) -> Value {
        let path = self.paths.user(SWITCHES);
        let text = path.and_then(|path| read_plain(&path, self.limits.settings_bytes).ok().flatten());
        text.and_then(|text| jsonc::parse(&text).ok()).map(|(node, _)| node.json()).unwrap_or_default()
    }

    /// The values of an extension's settings: its own file of variables, then the workspace's.
    fn read_values(&self, extension: &mut Extension, workspace: &Path, trust: Trust) {
        if extension.settings.is_empty() {
            return;
        }
        let read = |dir: &Path| match read_inside(dir, ".env", self.limits.settings_bytes) {
            Ok(Some(found)) => dotenv::parse(&found.file.text).0,
            Ok(None) | Err(_) => Vec::new(),
        };
        extension.take_values(read(&extension.dir));
        if trust == Trust::Trusted {
            // Extensions do not get credentials of this program that are in the workspace's file.
            let mut variables = read(workspace);
            variables.retain(|(name, value)| !is_credential(name, value));
            extension.take_values(variables);
        }
    }
}

struct Search<'a> {
    reader: &'a SettingsReader,
    workspace: &'a Path,
    found: Vec<Extension>,
    messages: Vec<String>,
}

impl Search<'_> {
    /// Adds the extensions of a `.gemini`.
    fn in_directory(&mut self, dir: &Path, source: ExtensionSource) {
        let entries = std::fs::read_dir(dir.join(DIRECTORY)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        if names.len() > EXTENSIONS {
            names.truncate(EXTENSIONS);
            self.messages.push(format!("{} has more than {EXTENSIONS} entries", dir.join(DIRECTORY).display()));
        }
        for name in names {
            let manifest = format!("{DIRECTORY}/{name}/{MANIFEST}");
            match self.manifest(dir, &name, source) {
                Ok(None) => {}
                Ok(Some((extension, messages))) => {
                    self.messages
                        .extend(messages.iter().map(|why| format!("{}: {why}", dir.join(&manifest).display())));
                    if self.found.iter().all(|known| known.name != extension.name) {
                        self.found.push(extension);
                    }
                }
                Err(why) => {
                    let file = dir.join(&manifest);
                    self.messages.push(format!("{}: {why}; the extension is not used", file.display()));
                }
            }
        }
    }

    fn manifest(
        &self,
        dir: &Path,
        name: &str,
        source: ExtensionSource,
    ) -> Result<Option<(Extension, Vec<String>)>, String> {
        let most = self.reader.limits.settings_bytes;
        let (text, own) = match source {
            ExtensionSource::Workspace => {
                let file = dir.strip_prefix(self.workspace).unwrap_or(dir).join(DIRECTORY).join(name).join(MANIFEST);
                let Some(found) = read_inside(self.workspace, &file.to_string_lossy(), most)? else { return Ok(None) };
                let own = found.file.path.parent().unwrap_or(dir).to_path_buf();
                (found.file.text, own)
            }
            // The user's own files are read wherever their links lead.
            ExtensionSource::User => {
                let own = installed(&dir.join(DIRECTORY).join(name), most);
                let text = read_plain(&own.join(MANIFEST), most).map_err(|error| error.to_string())?;
                let Some(text) = text else { return Ok(None) };
                (text, own.canonicalize().unwrap_or(own))
            }
        };
        let paths = ManifestPaths { extension: &own, workspace: self.workspace };
        Extension::parse(&text, source, &paths).map(Some)
    }
}

/// The directory with the files of an extension of the user: its own, or the one that its installation links to.
fn installed(dir: &Path, most: u64) -> PathBuf {
    let text = read_plain(&dir.join(INSTALLED), most).ok().flatten();
    let note = text.and_then(|text| jsonc::parse(&text).ok()).map(|(node, _)| node.json()).unwrap_or_default();
    match (note["type"].as_str(), note["source"].as_str()) {
        (Some("link"), Some(source)) if Path::new(source).is_absolute() => source.into(),
        _ => dir.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::reader;
    use super::*;
    use crate::tool::tests::Scratch;
    use std::os::unix::fs::symlink;

    /// The extensions of the workspace `w` with the home `h`: name, version, whether it is on.
    fn found(scratch: &Scratch, trust: Trust, only: Option<&[&str]>) -> Vec<(String, String, bool)> {
        let only = only.map(|names| names.iter().map(|name| name.to_string()).collect());
        let reader = reader(scratch, "h").using(only);
        let (found, _) = reader.extensions(&scratch.path().join("w"), trust, &[]);
        found.into_iter().map(|e| (e.name, e.version, e.enabled)).collect()
    }

    fn row(name: &str, version: &str, enabled: bool) -> (String, String, bool) {
        (name.into(), version.into(), enabled)
    }

    #[test]
    fn of_extensions_with_the_same_name_the_first_valid_one_is_used() {
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
        let (both, out, mine) = (row("both", "1", true), row("out", "1", true), row("mine", "3", true));
        assert_eq!(found(&scratch, Trust::Trusted, None), [both, out.clone(), mine.clone()]);
        assert_eq!(found(&scratch, Trust::Untrusted, None), [row("both", "2", true), out, mine]);
        let (_, messages) = reader(&scratch, "h").extensions(&scratch.path().join("w"), Trust::Trusted, &[]);
        assert_eq!(messages.len(), 3, "{messages:#?}");
    }

    #[test]
    fn an_extension_is_used_where_it_is_switched_on() {
        let scratch = Scratch::new();
        for name in ["one", "two"] {
            let manifest = format!(r#"{{"name": "{name}", "version": "1"}}"#);
            scratch.put(&format!("h/.gemini/extensions/{name}/{MANIFEST}"), manifest);
        }
        let off = format!(r#"{{"two": {{"overrides": ["!{}/*"]}}}}"#, scratch.path().join("w").display());
        scratch.put(&format!("h/.gemini/{SWITCHES}"), off);
        assert_eq!(found(&scratch, Trust::Untrusted, None), [row("one", "1", true), row("two", "1", false)]);
        let elsewhere =
            reader(&scratch, "h").extensions(&scratch.path().join("v"), Trust::Untrusted, &["Two".into()]).0;
        assert_eq!(
            elsewhere.iter().map(|extension| extension.enabled).collect::<Vec<_>>(),
            [true, false],
            "by the settings"
        );
        let elsewhere = reader(&scratch, "h").extensions(&scratch.path().join("v"), Trust::Untrusted, &[]).0;
        assert!(elsewhere.iter().all(|extension| extension.enabled));
        assert_eq!(found(&scratch, Trust::Trusted, Some(&["TWO"])), [row("one", "1", false), row("two", "1", true)]);
        assert_eq!(found(&scratch, Trust::Trusted, Some(&["none"])), [row("one", "1", false), row("two", "1", false)]);
    }

    #[test]
    fn values_of_settings_come_from_the_extension_and_from_a_trusted_workspace() {
        let scratch = Scratch::new();
        let manifest = r#"{"name": "e", "version": "1", "settings": [
            {"name": "A", "envVar": "A"}, {"name": "B", "envVar": "B"}, {"name": "C", "envVar": "C"},
            {"name": "K", "envVar": "GEMINI_API_KEY"}, {"name": "T", "envVar": "A2A_TOKEN"}]}"#;
        scratch.put(&format!("h/.gemini/extensions/e/{MANIFEST}"), manifest);
        scratch.put("h/.gemini/extensions/e/.env", "A=1\nB=1\nX=1\nA2A_TOKEN=of-the-extension\n");
        scratch.put("w/.env", "B=2\nGEMINI_API_KEY=3\n");
        let values = |trust| {
            let (found, messages) = reader(&scratch, "h").extensions(&scratch.path().join("w"), trust, &[]);
            let pairs = found[0].values.iter().map(|(name, value)| format!("{name}={}", value.reveal()));
            (pairs.collect::<Vec<_>>().join(" "), messages)
        };
        let (trusted, messages) = values(Trust::Trusted);
        assert_eq!(trusted, "A=1 A2A_TOKEN=of-the-extension B=2", "the workspace's key is not given away");
        assert_eq!(messages.len(), 2);
        assert!(messages[0].starts_with("the extension e wants C (C)"), "{messages:?}");
        assert_eq!(values(Trust::Untrusted).0, "A=1 A2A_TOKEN=of-the-extension B=1");
    }

    #[test]
    fn a_linked_extension_of_the_user_is_read_where_it_is() {
        let scratch = Scratch::new();
        scratch.put(&format!("src/{MANIFEST}"), r#"{"name": "linked", "version": "1"}"#);
        let note = format!(r#"{{"type": "link", "source": "{}"}}"#, scratch.path().join("src").display());
        scratch.put(&format!("h/.gemini/extensions/l/{INSTALLED}"), &note);
        scratch.put(&format!("w/.gemini/extensions/l/{INSTALLED}"), &note);
        assert_eq!(found(&scratch, Trust::Trusted, None), [row("linked", "1", true)]);
        let (all, _) = reader(&scratch, "h").extensions(&scratch.path().join("w"), Trust::Trusted, &[]);
        assert_eq!((all[0].source, &all[0].dir), (ExtensionSource::User, &scratch.path().join("src")));
    }

    #[test]
    fn the_number_of_extensions_is_limited() {
        let scratch = Scratch::new();
        for n in 0..=EXTENSIONS {
            let manifest = format!(r#"{{"name": "e{n}", "version": "1"}}"#);
            scratch.put(&format!("h/.gemini/extensions/{n:04}/{MANIFEST}"), manifest);
        }
        let (found, messages) = reader(&scratch, "h").extensions(&scratch.path().join("w"), Trust::Untrusted, &[]);
        assert_eq!((found.len(), messages.len()), (EXTENSIONS, 1));
    }
}
