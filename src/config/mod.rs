//! The configuration that the program runs with: flags over environment over settings files over defaults, checked once. The
//! environment and the files are passed in as values, so nothing here depends on the process it runs in.
//!
//! [`options`] is the table of all options; [`settings`] contains their values and reads settings files, which are of one of the
//! [`formats`]; [`definitions`] reads what users define in files of their own; [`trust`] decides whether the files of a workspace are
//! used; [`paths`] says where the operator's files are; `endpoint` and [`proxy`] choose the model API and the proxy for it.
//! `shell/start/workspace_settings.rs` reads the files.

pub mod access;
pub mod definitions;
mod endpoint;
pub mod formats;
#[cfg(feature = "identity")]
pub mod identity;
pub mod listen;
pub mod operation;
pub mod options;
pub mod paths;
pub mod proxy;
pub mod remote;
pub mod session;
pub mod settings;
pub mod trust;

use crate::base::secret::Secret;
use crate::config::definitions::extension::Extension;
use crate::config::endpoint::Sources;
use crate::config::listen::Listen;
use crate::config::options::{By, Flag, OPTIONS};
use crate::config::proxy::Proxies;
use crate::config::settings::Settings;
use crate::config::trust::{Trust, TrustRules};
use crate::model::gemini::{self, Endpoint};
use crate::task::policy::Mode;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

#[derive(Debug)]
pub struct Config {
    /// All options. The mode and the limits are those that are really used.
    pub settings: Settings,
    /// Never empty.
    pub listen: Vec<Listen>,
    /// Where programs of this user have their sockets, if the system has such a directory.
    pub runtime_dir: Option<PathBuf>,
    pub workspace: PathBuf,
    pub state_dir: PathBuf,
    pub models: Models,
    pub agent: Agent,
    pub proxy: Option<String>,
    /// Of the server's own workspace.
    pub trust: Trust,
    /// What to tell the user about the files that were read.
    pub messages: Vec<String>,
}

/// What answers prompts.
#[derive(Debug)]
pub enum Agent {
    Gemini(Endpoint),
    Script(PathBuf),
    /// The built-in script, which needs no key.
    Demo,
}

/// The content of the files for a workspace: the operator's, and the workspace's own if it is trusted.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceSettings {
    pub trust: Trust,
    pub trust_rules: TrustRules,
    pub settings: Settings,
    pub variables: Variables,
    /// Those that are used.
    pub extensions: Vec<Extension>,
    pub messages: Vec<String>,
}

/// The variables of one `.env` file. They never become part of the environment of a process.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    pub owner: Owner,
    pub values: BTreeMap<String, Secret>,
}

/// Whose `.env` file it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    #[default]
    User,
    Workspace,
}

/// The models that may be used.
#[derive(Clone, Debug)]
pub struct Models {
    /// The model of clients that name none.
    pub default: String,
    /// The models that clients may choose; empty allows every model of a known family.
    pub allowed: Vec<String>,
}

impl Models {
    /// The models that people are offered: those that are allowed, or those that are known, and the default.
    pub fn offered(&self) -> Vec<String> {
        let known = gemini::OFFERED.iter().map(|name| (*name).to_owned());
        let mut names: Vec<String> = if self.allowed.is_empty() { known.collect() } else { self.allowed.clone() };
        if !names.contains(&self.default) {
            names.push(self.default.clone());
        }
        names
    }

    /// The API's name of the model for a task, or why the client may not use it.
    pub fn choose(&self, wish: Option<&str>) -> Result<String, String> {
        let Some(wish) = wish else {
            return Ok(self.default.clone());
        };
        let model = gemini::resolve(wish).map_err(|error| error.message)?;
        let known = if self.allowed.is_empty() {
            gemini::is_known_family(model)
        } else {
            self.allowed.iter().any(|allowed| allowed == model)
        };
        if known || model == self.default {
            return Ok(model.to_owned());
        }
        Err(format!(
            "the model {wish} is not one that this server allows; start it with --allowed-model {wish}, or leave the model out"
        ))
    }
}

impl Settings {
    /// Applies variables. A `.env` file is used only for options that a workspace may set.
    pub fn apply_variables(&mut self, env: Env, variables: &Variables) -> Result<(), String> {
        let env: Env = &|name: &str| env(name).filter(|value| !value.is_empty());
        let sources = Sources { env, variables };
        for row in OPTIONS.iter().filter(|row| !row.variable().is_empty() && row.is_set_here()) {
            let name = row.variable();
            let value = match row.by {
                By::Workspace => sources.any(name),
                By::Operator => env(name),
            };
            if let Some(value) = value {
                row.set(self, name, &value)?;
            }
        }
        Ok(())
    }

    /// Applies flags. Their values were checked when the command line was parsed.
    pub fn apply_flags(&mut self, flags: &[Flag]) {
        for (row, value) in flags {
            row.set(self, row.flag(), value).expect("the value of a flag was checked");
        }
    }

    /// The directory the agent works in.
    pub fn workspace(&self) -> PathBuf {
        self.pinned_workspace.clone().or_else(|| self.workspace.clone()).unwrap_or_else(|| ".".into())
    }
}

impl Config {
    /// `env` returns the value of a variable; empty ones count as unset. `local` is for the server's own workspace.
    pub fn new(flags: &[Flag], env: Env, local: WorkspaceSettings) -> Result<Config, String> {
        let env: Env = &|name: &str| env(name).filter(|value| !value.is_empty());
        let WorkspaceSettings { trust, mut settings, variables, mut messages, .. } = local;
        settings.apply_variables(env, &variables)?;
        settings.apply_flags(flags);
        let agent = match &settings.script {
            Some(file) => Agent::Script(file.clone()),
            None => endpoint::agent(&Sources { env, variables: &variables }, &settings)?,
        };
        let proxy = match &agent {
            Agent::Gemini(endpoint) => Proxies::new(env).to(&endpoint.base_url).map(str::to_owned),
            Agent::Script(_) | Agent::Demo => None,
        };
        settings.mode = mode(&settings, trust, &mut messages)?;
        let default = settings.model.as_deref().unwrap_or("auto");
        let default = gemini::resolve(default).map_err(|error| error.message)?.to_owned();
        Ok(Config {
            listen: listen::addresses(&settings)?,
            runtime_dir: env("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute()),
            workspace: settings.workspace(),
            state_dir: state_dir(&settings, env)?,
            models: Models { default, allowed: settings.allowed_models.clone() },
            agent,
            proxy,
            trust,
            settings,
            messages,
        })
    }
}

/// Where tasks are stored.
pub fn state_dir(settings: &Settings, env: Env) -> Result<PathBuf, String> {
    if let Some(dir) = &settings.state_dir {
        return Ok(dir.clone());
    }
    let base = env("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
        .or_else(|| Some(PathBuf::from(env("HOME")?).join(".local/state")))
        .ok_or("there is no home directory to keep tasks in; name a directory with --state-dir")?;
    Ok(base.join("gemini-a2a"))
}

/// In an untrusted workspace the permissive modes are not used.
fn mode(settings: &Settings, trust: Trust, messages: &mut Vec<String>) -> Result<Mode, String> {
    if settings.mode == Mode::Yolo && settings.security.disable_yolo {
        return Err("yolo is forbidden by security.disableYoloMode in the settings".into());
    }
    match (settings.mode, trust) {
        (mode @ (Mode::AutoEdit | Mode::Yolo), Trust::Untrusted) => {
            messages.push(format!(
                "approval mode {} is not used: the workspace is not trusted; add --trust-workspace if it is yours",
                mode.word()
            ));
            Ok(Mode::Default)
        }
        (mode @ (Mode::Default | Mode::Plan), _) | (mode, Trust::Trusted) => Ok(mode),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Switches;
    use crate::config::options::tests::flags;
    use crate::model::gemini::{Auth, KeyOrigin, Service};

    /// Variables that the table leaves out: of the system, of proxies, older names, and those that are refused.
    const UNDOCUMENTED: &[&str] = &[
        "HOME",
        "XDG_STATE_HOME",
        "XDG_RUNTIME_DIR",
        "GOOGLE_CLOUD_PROJECT_ID",
        "GOOGLE_GENAI_USE_GCA",
        "GEMINI_CLI_USE_COMPUTE_ADC",
        "USE_CCPA",
        "HTTP_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "https_proxy",
        "http_proxy",
        "all_proxy",
        "no_proxy",
    ];

    fn config(args: &str, env: &[(&str, &str)]) -> Result<Config, String> {
        config_at(args, env, WorkspaceSettings::default())
    }

    fn config_at(args: &str, env: &[(&str, &str)], local: WorkspaceSettings) -> Result<Config, String> {
        let home = |name: &str| (name == "HOME").then(|| "/home/u".to_owned());
        let env = |name: &str| {
            let documented = OPTIONS.iter().any(|row| row.variable() == name);
            assert!(documented || UNDOCUMENTED.contains(&name), "{name} is not in the table of options");
            let given = env.iter().find(|(known, _)| *known == name);
            given.map(|(_, value)| value.to_string()).or_else(|| home(name))
        };
        Config::new(&flags(args)?, &env, local)
    }

    fn endpoint(env: &[(&str, &str)], file: &[(&str, &str)], owner: Owner) -> Endpoint {
        let values = file.iter().map(|(name, value)| (name.to_string(), Secret::new(*value)));
        let local = WorkspaceSettings {
            variables: Variables { owner, values: values.collect() },
            ..WorkspaceSettings::default()
        };
        match config_at("", env, local).unwrap().agent {
            Agent::Gemini(endpoint) => endpoint,
            other => panic!("no model: {other:?}"),
        }
    }

    fn workspace_settings(trust: Trust, settings: Settings) -> WorkspaceSettings {
        WorkspaceSettings { trust, settings, ..WorkspaceSettings::default() }
    }

    #[test]
    fn flags_override_variables_and_variables_override_defaults() {
        let port = |line: &str, env: &[(&str, &str)]| match config(line, env).unwrap().listen.as_slice() {
            [Listen::Tcp(address)] => address.port(),
            others => panic!("{others:?}"),
        };
        assert_eq!(port("", &[]), 41_242);
        assert_eq!(port("", &[("CODER_AGENT_PORT", "7")]), 7);
        assert_eq!(port("--a2a-port 8", &[("CODER_AGENT_PORT", "7")]), 8);
        let pinned = config("--workspace /a", &[("CODER_AGENT_WORKSPACE_PATH", "/b")]).unwrap();
        assert_eq!((pinned.workspace, pinned.settings.pinned_workspace.is_some()), (PathBuf::from("/b"), true));
        let state = |env| config("", env).unwrap().state_dir;
        assert_eq!(state(&[]), PathBuf::from("/home/u/.local/state/gemini-a2a"));
        assert_eq!(state(&[("XDG_STATE_HOME", "/s")]), PathBuf::from("/s/gemini-a2a"));
    }

    #[test]
    fn a_key_or_an_address_chooses_gemini_and_nothing_the_demo() {
        assert!(matches!(config("", &[]).unwrap().agent, Agent::Demo));
        assert!(matches!(config("", &[("GEMINI_API_KEY", "")]).unwrap().agent, Agent::Demo));
        let key = config("", &[("GEMINI_API_KEY", "k")]).unwrap().agent;
        assert!(matches!(key, Agent::Gemini(_)));
        assert!(!format!("{key:?}").contains("\"k\""), "a key is never printed");
        let base = [("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1/")];
        assert!(matches!(config("", &base).unwrap().agent, Agent::Gemini(_)));
        assert!(config("", &[("GOOGLE_GEMINI_BASE_URL", "nonsense")]).is_err());
        let script = config("--script s.json", &[("GEMINI_API_KEY", "k")]).unwrap().agent;
        assert!(matches!(script, Agent::Script(_)));
    }

    #[test]
    fn wrong_values_are_named() {
        for (args, word) in [
            ("--a2a-port x", "--a2a-port"),
            ("--a2a-port 70000", "--a2a-port"),
            ("--host 0.0.0.0", "loopback"),
            ("--host example", "--host"),
            ("--log-level loud", "loud"),
            ("--max-attempts -1", "--max-attempts"),
            ("--model a..b", "a..b"),
            ("--allowed-model a..b", "a..b"),
            ("--approval-mode wild", "wild"),
            ("--new-tasks none", "own or session"),
        ] {
            let error = config(args, &[]).unwrap_err();
            assert!(error.contains(word), "{args}: {error}");
        }
    }

    #[test]
    fn a_file_of_variables_comes_after_the_environment() {
        let file = [("GEMINI_API_KEY", "filed"), ("GOOGLE_GEMINI_BASE_URL", "http://f")];
        let key = |endpoint: Endpoint| (endpoint.key.reveal().to_owned(), endpoint.base_url);
        let filed = ("filed".to_owned(), "http://f".to_owned());
        assert_eq!(key(endpoint(&[], &file, Owner::User)), filed);
        assert_eq!(key(endpoint(&[], &file, Owner::Workspace)), filed);
        let own = [("GEMINI_API_KEY", "own")];
        assert_eq!(key(endpoint(&own, &file, Owner::User)), ("own".to_owned(), "http://f".to_owned()));
        assert_eq!(
            key(endpoint(&own, &file, Owner::Workspace)),
            ("own".to_owned(), gemini::DEFAULT_BASE_URL.to_owned()),
            "the operator's key does not go where a repository says"
        );
    }

    #[test]
    fn vertex_by_key_by_token_and_by_file() {
        let on = ("GOOGLE_GENAI_USE_VERTEXAI", "true");
        let at = [("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_CLOUD_LOCATION", "eu")];
        let gemini = ("GEMINI_API_KEY", "g");
        let express = endpoint(&[on, gemini, at[0], at[1], ("GOOGLE_API_KEY", "k")], &[], Owner::User);
        assert_eq!(express.service, Service::VertexExpress);
        assert_eq!((express.auth, express.key.reveal()), (Auth::Key, "k"));
        let token = endpoint(&[on, at[0], at[1], ("GOOGLE_CLOUD_ACCESS_TOKEN", "t")], &[], Owner::User);
        let service = Service::Vertex { project: "p".into(), location: "eu".into() };
        assert_eq!(token.service, service);
        assert_eq!((token.auth, token.key.reveal()), (Auth::Bearer, "t"));
        let file = ("GOOGLE_CLOUD_ACCESS_TOKEN_FILE", "/t");
        let base = ("GOOGLE_VERTEX_BASE_URL", "http://127.0.0.1:1");
        let filed = endpoint(&[on, at[0], at[1], file, base], &[], Owner::User);
        assert_eq!(filed.key_origin, KeyOrigin::File("/t".into()));
        assert_eq!(filed.base_url, "http://127.0.0.1:1");
        for (env, word) in [
            (vec![on], "GOOGLE_API_KEY"),
            (vec![on, at[0], ("GOOGLE_CLOUD_LOCATION", "a/b")], "GOOGLE_CLOUD_LOCATION"),
            (vec![("GOOGLE_GENAI_USE_GCA", "true")], "GOOGLE_GENAI_USE_GCA"),
        ] {
            let error = config("", &env).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[cfg(feature = "bucket")]
    #[test]
    fn vertex_by_google_credentials_that_are_the_operators() {
        let at =
            [("GOOGLE_GENAI_USE_VERTEXAI", "true"), ("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_CLOUD_LOCATION", "eu")];
        let with = |more: &[(&'static str, &'static str)]| [&at[..], more].concat();
        let google = |file: Option<&str>, host: Option<&str>| KeyOrigin::Google {
            file: file.map(Into::into),
            metadata_host: host.map(Into::into),
        };
        let credentials = ("GOOGLE_APPLICATION_CREDENTIALS", "/c.json");
        let found = endpoint(&with(&[credentials]), &[], Owner::User);
        assert_eq!((&found.key_origin, found.auth), (&google(Some("/c.json"), None), Auth::Bearer));
        assert_eq!(endpoint(&with(&[]), &[], Owner::User).key_origin, google(None, None));
        let host = ("GCE_METADATA_HOST", "h:1");
        assert_eq!(endpoint(&with(&[host]), &[], Owner::User).key_origin, google(None, Some("h:1")));
        for first in ["GOOGLE_CLOUD_ACCESS_TOKEN", "GOOGLE_CLOUD_ACCESS_TOKEN_FILE"] {
            let found = endpoint(&with(&[credentials, (first, "/t")]), &[], Owner::User);
            assert_ne!(found.key_origin, google(Some("/c.json"), None), "{first} comes first");
        }
        // A repository chooses neither the credentials, nor where the machine's are asked for, nor where the token is sent.
        let filed = [credentials, host, ("GOOGLE_VERTEX_BASE_URL", "https://evil.example")];
        for own in [&with(&[]), &with(&[("GOOGLE_APPLICATION_CREDENTIALS", "/own.json")])] {
            let found = endpoint(own, &filed, Owner::Workspace);
            let file = own.iter().find(|(name, _)| *name == credentials.0).map(|(_, value)| *value);
            assert_eq!(found.key_origin, google(file, None));
            assert!(found.base_url.ends_with(".googleapis.com"), "{}", found.base_url);
        }
    }

    #[cfg(not(feature = "bucket"))]
    #[test]
    fn vertex_by_project_needs_a_token() {
        let at =
            [("GOOGLE_GENAI_USE_VERTEXAI", "true"), ("GOOGLE_CLOUD_PROJECT", "p"), ("GOOGLE_CLOUD_LOCATION", "eu")];
        assert!(config("", &at).unwrap_err().contains("GOOGLE_CLOUD_ACCESS_TOKEN"));
    }

    #[test]
    fn a_proxy_is_used_for_the_model_unless_excepted() {
        let proxy = |env: &[(&str, &str)]| config("", env).unwrap().proxy;
        let key = ("GEMINI_API_KEY", "k");
        let https = ("HTTPS_PROXY", "http://p:1");
        assert_eq!(proxy(&[key, https]).as_deref(), Some("http://p:1"));
        assert_eq!(proxy(&[key, https, ("NO_PROXY", ".googleapis.com")]), None);
        let local = ("GOOGLE_GEMINI_BASE_URL", "https://127.0.0.1:9");
        assert_eq!(proxy(&[key, https, local]), None);
        assert_eq!(proxy(&[https]), None);
    }

    #[test]
    fn settings_come_after_arguments_and_environment() {
        let settings = |text: &str| {
            let layer = settings::Layer {
                scope: settings::SettingScope::User,
                file: "s".into(),
                format: settings::Format::Json,
                text: text.into(),
            };
            workspace_settings(Trust::Untrusted, settings::load(&[layer], &|_| None).0)
        };
        let text = r#"{"model": {"name": "gemini-2.5-flash"}, "general": {"maxAttempts": 50},
            "tools": {"shell": {"inactivityTimeout": 7}, "truncateToolOutputThreshold": 9}}"#;
        let of = |args: &str, env: &[(&str, &str)]| config_at(args, env, settings(text)).unwrap();
        let plain = of("", &[]);
        assert_eq!(plain.models.default, "gemini-2.5-flash");
        assert_eq!(plain.settings.limits.model_tries, 10);
        assert_eq!(plain.settings.limits.shell_silence_ms, 7_000);
        assert_eq!(plain.settings.limits.result_chars, 9);
        assert_eq!(of("", &[("GEMINI_MODEL", "m")]).models.default, "m");
        let argued = of("--model n --max-attempts 20", &[("GEMINI_MODEL", "m")]);
        assert_eq!((argued.models.default.as_str(), argued.settings.limits.model_tries), ("n", 20));
        let switched = config_at(
            "--streaming on --required-extension urn:y",
            &[],
            settings(r#"{"a2a": {"streaming": false, "strictVersion": true, "requiredExtensions": ["urn:x"]}}"#),
        );
        let expected = Switches {
            strict_version: true,
            required_extensions: vec!["urn:x".into(), "urn:y".into()],
            ..Switches::default()
        };
        assert_eq!(switched.unwrap().settings.a2a, expected);
        let wrong = config_at("", &[], settings(r#"{"model": "a b"}"#)).unwrap();
        assert_eq!(wrong.models.default, "gemini-3.1-pro-preview");
    }

    #[test]
    fn clients_choose_among_the_models_on_offer() {
        let any = config("--model mine", &[]).unwrap().models;
        for (wish, chosen) in [
            (None, Some("mine")),
            (Some("mine"), Some("mine")),
            (Some("flash"), Some("gemini-3.5-flash")),
            (Some("gemini-x"), Some("gemini-x")),
            (Some("models/gemma-4-31b-it"), Some("models/gemma-4-31b-it")),
            (Some("yours"), None),
            (Some("gemini-a?b"), None),
            (Some(""), None),
        ] {
            assert_eq!(any.choose(wish).ok().as_deref(), chosen, "{wish:?}");
        }
        let few = config("--model mine --allowed-model flash --allowed-model yours", &[]);
        let few = few.unwrap().models;
        assert!(few.choose(Some("gemini-3.5-flash")).is_ok());
        let offered = few.offered();
        assert!(offered.contains(&few.default) && offered.iter().all(|name| few.choose(Some(name)).is_ok()));
        let any = Models { allowed: Vec::new(), ..few.clone() };
        let offered = any.offered();
        assert_eq!(offered[0], "auto");
        assert!(offered.len() > 5 && offered.iter().all(|name| any.choose(Some(name)).is_ok()), "{offered:?}");
        assert!(few.choose(Some("yours")).is_ok());
        assert!(few.choose(Some("mine")).is_ok());
        assert!(few.choose(Some("pro")).unwrap_err().contains("--allowed-model pro"));
    }

    #[test]
    fn permissive_modes_need_the_operator_and_a_trusted_workspace() {
        let of = |args: &str, env: &[(&str, &str)], trust, settings| {
            config_at(args, env, workspace_settings(trust, settings)).map(|config| config.settings.mode)
        };
        let plain = Settings::default;
        let auto_edit = || Settings { mode: Mode::AutoEdit, ..Settings::default() };
        let (yes, no) = (Trust::Trusted, Trust::Untrusted);
        let env = [("GEMINI_YOLO_MODE", "true")];
        assert_eq!(of("", &[], yes, plain()), Ok(Mode::Default));
        assert_eq!(of("", &[], yes, auto_edit()), Ok(Mode::AutoEdit));
        assert_eq!(of("", &[], no, auto_edit()), Ok(Mode::Default));
        assert_eq!(of("--approval-mode plan", &[], no, auto_edit()), Ok(Mode::Plan));
        assert_eq!(of("--approval-mode yolo", &[], yes, plain()), Ok(Mode::Yolo));
        assert_eq!(of("--approval-mode yolo", &[], no, plain()), Ok(Mode::Default));
        assert_eq!(of("--yolo", &[], yes, plain()), Ok(Mode::Yolo));
        assert_eq!(of("", &env, yes, plain()), Ok(Mode::Yolo));
        assert_eq!(of("", &env, no, plain()), Ok(Mode::Default));
        assert_eq!(of("", &[("GEMINI_YOLO_MODE", "false")], yes, plain()), Ok(Mode::Default));
        for unclear in ["1", "on", "yes"] {
            let error = of("", &[("GEMINI_YOLO_MODE", unclear)], yes, plain()).unwrap_err();
            assert!(error.contains("GEMINI_YOLO_MODE"), "{error}");
        }
        let mut off = plain();
        off.security.disable_yolo = true;
        assert!(of("", &env, yes, off).unwrap_err().contains("disableYoloMode"));
    }
}
