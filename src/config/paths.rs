//! Where the operator's files are, according to the environment of the process.

use std::path::PathBuf;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// The directory that contains the user's `.gemini`, if there is one.
    pub home: Option<PathBuf>,
    pub system_defaults: PathBuf,
    pub system_settings: PathBuf,
    pub system_policies: PathBuf,
    pub user_yaml: Option<PathBuf>,
    pub trusted_folders: Option<PathBuf>,
}

impl Paths {
    pub fn new(env: &dyn Fn(&str) -> Option<String>) -> Paths {
        let path = |name: &str| env(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let etc = PathBuf::from("/etc/gemini-cli");
        let home = path("GEMINI_CLI_HOME").or_else(|| path("HOME"));
        let in_home = |name: &str| home.as_ref().map(|home| home.join(name));
        let xdg = path("XDG_CONFIG_HOME").filter(|dir| dir.is_absolute());
        let config = xdg.filter(|_| path("GEMINI_CLI_HOME").is_none()).or_else(|| in_home(".config"));
        Paths {
            system_defaults: path("GEMINI_CLI_SYSTEM_DEFAULTS_PATH")
                .unwrap_or_else(|| etc.join("system-defaults.json")),
            system_settings: path("GEMINI_CLI_SYSTEM_SETTINGS_PATH").unwrap_or_else(|| etc.join("settings.json")),
            system_policies: etc.join("policies"),
            user_yaml: config.map(|dir| dir.join("gemini-cli/config.yaml")),
            trusted_folders: path("GEMINI_CLI_TRUSTED_FOLDERS_PATH").or_else(|| in_home(".gemini/trustedFolders.json")),
            home,
        }
    }

    /// A file or folder in the user's `.gemini`.
    pub fn user(&self, name: &str) -> Option<PathBuf> {
        let home = self.home.as_ref()?;
        Some(home.join(".gemini").join(name))
    }

    /// The rules that were saved by answering "always".
    pub fn saved_rules(&self) -> Option<PathBuf> {
        self.user("policies/auto-saved.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(env: &[(&str, &str)]) -> Paths {
        Paths::new(&|name| {
            let given = env.iter().find(|(known, _)| *known == name);
            given.map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn gemini_cli_home_moves_all_files_of_the_user() {
        let plain = paths(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]);
        let expected = Paths {
            home: Some("/h".into()),
            system_defaults: "/etc/gemini-cli/system-defaults.json".into(),
            system_settings: "/etc/gemini-cli/settings.json".into(),
            system_policies: "/etc/gemini-cli/policies".into(),
            user_yaml: Some("/x/gemini-cli/config.yaml".into()),
            trusted_folders: Some("/h/.gemini/trustedFolders.json".into()),
        };
        assert_eq!(plain, expected);
        assert_eq!(plain.saved_rules(), Some("/h/.gemini/policies/auto-saved.json".into()));
        let moved = paths(&[
            ("HOME", "/h"),
            ("XDG_CONFIG_HOME", "/x"),
            ("GEMINI_CLI_HOME", "/g"),
            ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "/s.json"),
            ("GEMINI_CLI_TRUSTED_FOLDERS_PATH", "/t.json"),
        ]);
        let expected = Paths {
            home: Some("/g".into()),
            system_settings: "/s.json".into(),
            user_yaml: Some("/g/.config/gemini-cli/config.yaml".into()),
            trusted_folders: Some("/t.json".into()),
            ..expected
        };
        assert_eq!(moved, expected);
        assert_eq!(paths(&[("HOME", "")]).home, None);
    }
}
