//! What the program runs with: arguments over environment over settings over defaults, checked once and frozen. Environment and
//! files are handed in as values, so nothing here depends on the process it runs in.
//!
//! [`settings`] is what settings files say, written as [`jsonc`] or [`yaml`] and held as a [`tree`]; [`switches`] are shared by
//! them and the command line; [`dotenv`] reads files of variables; [`trust`] decides whether a workspace's own files count;
//! [`paths`] says where the operator's are; [`proxy`] chooses the way to the model. `shell/start/workspace_settings.rs` does the reading.

pub mod dotenv;
pub mod jsonc;
pub mod listen;
pub mod paths;
pub mod proxy;
pub mod settings;
pub mod switches;
pub mod tree;
pub mod trust;
pub mod yaml;

use crate::args::Args;
use crate::config::listen::Listen;
use crate::config::proxy::Proxies;
use crate::config::settings::{Approval, Settings};
use crate::config::switches::{Board, SWITCHES};
use crate::config::trust::Trust;
use crate::limits::Limits;
use crate::model::gemini::{self, Auth, Endpoint, Secret, Service};
use crate::shell::event_loop::log::Level;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub const DEFAULT_PORT: u16 = 41_242;

/// Most tries of a model request that settings can ask for.
const MOST_ATTEMPTS: u32 = 10;

type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

#[derive(Debug)]
pub struct Config {
    /// Never empty.
    pub listen: Vec<Listen>,
    /// Where programs of this user keep their sockets, if the system has such a place.
    pub runtime_dir: Option<PathBuf>,
    pub workspace: PathBuf,
    /// Clients cannot choose another workspace.
    pub pinned: bool,
    pub allowed_roots: Vec<PathBuf>,
    pub state_dir: PathBuf,
    pub models: Models,
    pub agent: Agent,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub log_level: Level,
    pub limits: Limits,
    pub proxy: Option<String>,
    /// A file of certificates to trust beside the built-in ones.
    pub ca_file: Option<PathBuf>,
    /// Of the server's own workspace.
    pub trust: Trust,
    pub settings: Settings,
    pub approval: Approval,
    /// Clients may ask for tools to run without questions.
    pub auto_execute: bool,
    pub board: Board,
    /// What to tell the user about the files that were read.
    pub messages: Vec<String>,
}

/// Who answers prompts.
#[derive(Debug)]
pub enum Agent {
    Gemini(Endpoint),
    Script(PathBuf),
    /// The built-in script, for trying things without a key.
    Demo,
}

/// What the files around a workspace say: the operator's, and the workspace's own if it is trusted.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceSettings {
    pub trust: Trust,
    pub settings: Settings,
    pub variables: Variables,
    pub messages: Vec<String>,
}

/// The variables of one file, for one workspace. They never become part of any process's environment.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    pub owner: Owner,
    pub values: BTreeMap<String, Secret>,
}

/// Whose file of variables it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    #[default]
    User,
    Workspace,
}

/// The models that may be asked.
#[derive(Clone, Debug)]
pub struct Models {
    /// Used when a client does not choose.
    pub default: String,
    /// What clients may choose; empty is any of a known family.
    pub allowed: Vec<String>,
}

impl Models {
    /// The model for a task, by the API's name, or why the client cannot have it.
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

/// Where the agent works, and whether clients are bound to it.
pub fn workspace(args: &Args, env: Env) -> (PathBuf, bool) {
    let pin = env("CODER_AGENT_WORKSPACE_PATH").filter(|path| !path.is_empty());
    let pinned = pin.is_some();
    let path = pin.or_else(|| args.workspace.clone());
    (path.unwrap_or_else(|| ".".into()).into(), pinned)
}

impl Config {
    /// `env` looks a variable up; empty ones count as unset. `place` is what was found around the server's workspace.
    pub fn new(args: Args, env: Env, place: WorkspaceSettings) -> Result<Config, String> {
        let env: Env = &|name: &str| env(name).filter(|value| !value.is_empty());
        let (workspace, pinned) = workspace(&args, env);
        let mut messages = place.messages.clone();
        let sources = Sources { env, variables: &place.variables };
        let agent = match &args.script {
            Some(file) => Agent::Script(file.into()),
            None => agent(&sources, &place.settings)?,
        };
        let proxy = match &agent {
            Agent::Gemini(endpoint) => Proxies::new(env).to(&endpoint.base_url).map(str::to_owned),
            Agent::Script(_) | Agent::Demo => None,
        };
        let board = board(&args, &place.settings)?;
        let mut limits = limits(&args, &place.settings)?;
        limits.times = board.times;
        Ok(Config {
            listen: listen::listens(&args, env)?,
            runtime_dir: env("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute()),
            workspace,
            pinned,
            state_dir: state_dir(args.state_dir.clone(), env)?,
            models: models(&args, &sources, &place.settings, &mut messages)?,
            agent,
            log_level: level(args.log_level.clone().or_else(|| env("LOG_LEVEL")))?,
            limits,
            proxy,
            ca_file: env("SSL_CERT_FILE").map(PathBuf::from),
            approval: approval(&args, env, &place, &mut messages)?,
            auto_execute: args.allow_auto_execute,
            board,
            trust: place.trust,
            settings: place.settings,
            messages,
            allowed_roots: args.allowed_roots.into_iter().map(PathBuf::from).collect(),
            allowed_hosts: args.allowed_hosts.iter().map(|name| name.to_lowercase()).collect(),
            allowed_origins: args.allowed_origins,
        })
    }
}

/// Where settings of the model API come from: the environment first, then the file of variables.
struct Sources<'a> {
    env: Env<'a>,
    variables: &'a Variables,
}

impl Sources<'_> {
    fn any(&self, name: &str) -> Option<String> {
        self.own(name).or_else(|| self.filed(name))
    }

    /// What the operator says, and no workspace.
    fn own(&self, name: &str) -> Option<String> {
        let filed = || match self.variables.owner {
            Owner::User => self.filed(name),
            Owner::Workspace => None,
        };
        (self.env)(name).or_else(filed)
    }

    /// An address to send requests to. A workspace can name one only for credentials that it brings itself: the operator's
    /// go nowhere but where the operator says.
    fn address(&self, name: &str) -> Result<Option<String>, String> {
        const CREDENTIALS: [&str; 4] =
            ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_ACCESS_TOKEN", "GOOGLE_CLOUD_ACCESS_TOKEN_FILE"];
        let has_own = CREDENTIALS.iter().any(|name| self.own(name).is_some());
        let found = if has_own { self.own(name) } else { self.any(name) };
        match found {
            Some(url) if !(url.starts_with("http://") || url.starts_with("https://")) => {
                Err(format!("{name} must be an http(s) URL, not {url}"))
            }
            found => Ok(found),
        }
    }

    fn is_on(&self, name: &str) -> bool {
        self.any(name).is_some_and(|value| value == "true" || value == "1")
    }

    fn filed(&self, name: &str) -> Option<String> {
        let value = self.variables.values.get(name)?.reveal();
        (!value.is_empty()).then(|| value.to_owned())
    }
}

/// The window of every Gemini model.
const CONTEXT_TOKENS: f64 = 1_048_576.0;

fn limits(args: &Args, settings: &Settings) -> Result<Limits, String> {
    let mut limits = Limits::default();
    if let Some(text) = &args.max_attempts {
        limits.model_tries = text
            .parse()
            .ok()
            .filter(|tries| *tries > 0)
            .ok_or_else(|| format!("--max-attempts must be a number from 1 on, not {text}"))?;
    } else if let Some(attempts) = settings.max_attempts {
        limits.model_tries = attempts.min(MOST_ATTEMPTS);
    }
    limits.session_requests = settings.max_session_turns.unwrap_or(0);
    if let Some(share) = settings.compression_threshold {
        limits.compress_tokens = (share * CONTEXT_TOKENS) as u64;
    }
    if settings.disable_loop_detection == Some(true) {
        limits.loop_strikes = 0;
    }
    if let Some(seconds) = settings.tools.shell_silence_s {
        limits.shell_silence_ms = u64::from(seconds) * 1_000;
    }
    if let Some(chars) = settings.tools.result_chars {
        limits.result_chars = chars as usize;
    }
    Ok(limits)
}

fn board(args: &Args, settings: &Settings) -> Result<Board, String> {
    let mut board = settings.board.clone();
    for (flag, value) in &args.switches {
        let switch = SWITCHES.iter().find(|switch| switch.flag == *flag);
        let switch = switch.expect("flags are taken from this table");
        switch.argue(&mut board, value)?;
    }
    Ok(board)
}

fn state_dir(given: Option<String>, env: Env) -> Result<PathBuf, String> {
    if let Some(dir) = given {
        return Ok(dir.into());
    }
    let base = env("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
        .or_else(|| Some(PathBuf::from(env("HOME")?).join(".local/state")))
        .ok_or("there is no home directory to keep tasks in; name one with --state-dir")?;
    Ok(base.join("gemini-a2a"))
}

fn models(args: &Args, sources: &Sources, settings: &Settings, messages: &mut Vec<String>) -> Result<Models, String> {
    let resolve = |name: &str| match gemini::resolve(name) {
        Ok(model) => Ok(model.to_owned()),
        Err(error) => Err(error.message),
    };
    let asked = args.model.clone().or_else(|| sources.any("GEMINI_MODEL"));
    let default = match (asked, &settings.model) {
        (Some(name), _) => resolve(&name)?,
        (None, Some(name)) => match resolve(name) {
            Ok(model) => model,
            Err(message) => {
                messages.push(format!("model.name in the settings is not used: {message}"));
                resolve("auto")?
            }
        },
        (None, None) => resolve("auto")?,
    };
    let allowed = args.allowed_models.iter().map(|name| resolve(name));
    Ok(Models { default, allowed: allowed.collect::<Result<_, _>>()? })
}

/// An untrusted workspace is worked in with questions, whatever was asked for.
fn approval(args: &Args, env: Env, place: &WorkspaceSettings, messages: &mut Vec<String>) -> Result<Approval, String> {
    let wanted = match &args.approval_mode {
        Some(word) => Approval::from_word(word)
            .ok_or_else(|| format!("--approval-mode {word} is none of default, auto_edit, plan, yolo"))?,
        None if env("GEMINI_YOLO_MODE").as_deref() == Some("true") => Approval::Yolo,
        None => place.settings.approval.unwrap_or_default(),
    };
    if wanted == Approval::Yolo && place.settings.security.disable_yolo {
        return Err("yolo is switched off by security.disableYoloMode in the settings".into());
    }
    match (wanted, place.trust) {
        (Approval::AutoEdit | Approval::Yolo, Trust::Untrusted) => {
            messages.push(format!(
                "approval mode {} is not used: the workspace is not trusted; add --trust-workspace if it is yours",
                wanted.word()
            ));
            Ok(Approval::Default)
        }
        (Approval::Default | Approval::Plan, _) | (_, Trust::Trusted) => Ok(wanted),
    }
}

fn agent(sources: &Sources, settings: &Settings) -> Result<Agent, String> {
    for name in ["GOOGLE_GENAI_USE_GCA", "GEMINI_CLI_USE_COMPUTE_ADC", "USE_CCPA"] {
        if sources.is_on(name) {
            return Err(format!(
                "{name} asks for a login with a Google account, which is not supported; unset it and use GEMINI_API_KEY, or GOOGLE_GENAI_USE_VERTEXAI with a key or a token"
            ));
        }
    }
    let mut endpoint = if sources.is_on("GOOGLE_GENAI_USE_VERTEXAI") {
        vertex(sources, settings)?
    } else {
        let base = sources.address("GOOGLE_GEMINI_BASE_URL")?;
        let key = sources.any("GEMINI_API_KEY");
        if key.is_none() && base.is_none() {
            return Ok(Agent::Demo);
        }
        let mut endpoint = Endpoint::new(Secret::new(key.unwrap_or_default()));
        endpoint.base_url = base.unwrap_or(endpoint.base_url);
        if sources.any("GEMINI_API_KEY_AUTH_MECHANISM").as_deref() == Some("bearer") {
            endpoint.auth = Auth::KeyAndBearer;
        }
        endpoint
    };
    if let Some(version) = sources.any("GOOGLE_GENAI_API_VERSION") {
        endpoint.api_version = version;
    }
    if let Some(list) = sources.any("GEMINI_CLI_CUSTOM_HEADERS") {
        endpoint.extra.extend(gemini::header_list(&list));
    }
    Ok(Agent::Gemini(endpoint))
}

/// Vertex AI, by key or else by project, location and a token that somebody else has fetched.
fn vertex(sources: &Sources, settings: &Settings) -> Result<Endpoint, String> {
    let mut endpoint = match sources.any("GOOGLE_API_KEY") {
        Some(key) => Endpoint::of(Service::VertexExpress, Secret::new(key), Auth::Key),
        None => {
            let project = sources.any("GOOGLE_CLOUD_PROJECT");
            let project = project.or_else(|| sources.any("GOOGLE_CLOUD_PROJECT_ID"));
            let (Some(project), Some(location)) = (project, sources.any("GOOGLE_CLOUD_LOCATION")) else {
                return Err("Vertex AI needs GOOGLE_API_KEY, or GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION".into());
            };
            let service = Service::Vertex {
                project: plain(project, "GOOGLE_CLOUD_PROJECT")?,
                location: plain(location, "GOOGLE_CLOUD_LOCATION")?,
            };
            let token = sources.any("GOOGLE_CLOUD_ACCESS_TOKEN");
            // Never from a workspace: the file it names is sent away.
            let file = sources.own("GOOGLE_CLOUD_ACCESS_TOKEN_FILE");
            if token.is_none() && file.is_none() {
                return Err(
                    "Vertex AI by project needs a token: set GOOGLE_CLOUD_ACCESS_TOKEN (gcloud auth print-access-token prints one), or GOOGLE_CLOUD_ACCESS_TOKEN_FILE to a file that is kept fresh. Application default credentials are not supported".into(),
                );
            }
            let key_file = file.filter(|_| token.is_none()).map(PathBuf::from);
            let token = Secret::new(token.unwrap_or_default());
            Endpoint { key_file, ..Endpoint::of(service, token, Auth::Bearer) }
        }
    };
    if let Some(base) = sources.address("GOOGLE_VERTEX_BASE_URL")? {
        endpoint.base_url = base;
    }
    let headers = settings.vertex_headers.iter();
    endpoint.extra = headers.map(|(name, value)| (name.clone(), Secret::new(value))).collect();
    Ok(endpoint)
}

/// What becomes part of a host or path must not be able to change it.
fn plain(text: String, name: &str) -> Result<String, String> {
    let ok = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if text.bytes().all(ok) && !text.contains("..") {
        return Ok(text);
    }
    Err(format!("{name} must be letters, digits and dashes"))
}

fn level(word: Option<String>) -> Result<Level, String> {
    let word = word.unwrap_or_else(|| "info".into());
    let wrong = || format!("log level {word} is none of error, warn, info, debug");
    Level::from_word(&word).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(args: &str, env: &[(&str, &str)]) -> Result<Config, String> {
        config_at(args, env, WorkspaceSettings::default())
    }

    fn config_at(args: &str, env: &[(&str, &str)], place: WorkspaceSettings) -> Result<Config, String> {
        let args = crate::args::parse(args.split_whitespace().map(str::to_owned))?;
        let home = |name: &str| (name == "HOME").then(|| "/home/u".to_owned());
        let env = |name: &str| {
            let given = env.iter().find(|(known, _)| *known == name);
            given.map(|(_, value)| value.to_string()).or_else(|| home(name))
        };
        Config::new(args, &env, place)
    }

    fn endpoint(env: &[(&str, &str)], file: &[(&str, &str)], owner: Owner) -> Endpoint {
        let values = file.iter().map(|(name, value)| (name.to_string(), Secret::new(*value)));
        let place = WorkspaceSettings {
            variables: Variables { owner, values: values.collect() },
            ..WorkspaceSettings::default()
        };
        match config_at("", env, place).unwrap().agent {
            Agent::Gemini(endpoint) => endpoint,
            other => panic!("no model: {other:?}"),
        }
    }

    fn place(trust: Trust, settings: Settings) -> WorkspaceSettings {
        WorkspaceSettings { trust, settings, ..WorkspaceSettings::default() }
    }

    #[test]
    fn arguments_beat_the_environment_and_that_beats_defaults() {
        let port = |line: &str, env: &[(&str, &str)]| match config(line, env).unwrap().listen.as_slice() {
            [Listen::Tcp(address)] => address.port(),
            others => panic!("{others:?}"),
        };
        assert_eq!(port("", &[]), 41_242);
        assert_eq!(port("", &[("CODER_AGENT_PORT", "7")]), 7);
        assert_eq!(port("--a2a-port 8", &[("CODER_AGENT_PORT", "7")]), 8);
        let pinned = config("--workspace /a", &[("CODER_AGENT_WORKSPACE_PATH", "/b")]).unwrap();
        assert_eq!((pinned.workspace, pinned.pinned), (PathBuf::from("/b"), true));
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
        assert_eq!(filed.key_file, Some("/t".into()));
        assert_eq!(filed.base_url, "http://127.0.0.1:1");
        for (env, word) in [
            (vec![on], "GOOGLE_API_KEY"),
            (vec![on, at[0], at[1]], "GOOGLE_CLOUD_ACCESS_TOKEN"),
            (vec![on, at[0], ("GOOGLE_CLOUD_LOCATION", "a/b")], "GOOGLE_CLOUD_LOCATION"),
            (vec![("GOOGLE_GENAI_USE_GCA", "true")], "GOOGLE_GENAI_USE_GCA"),
        ] {
            let error = config("", &env).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
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
                origin: settings::Origin::User,
                file: "s".into(),
                format: settings::Format::Json,
                text: text.into(),
            };
            place(Trust::Untrusted, settings::load(&[layer], &|_| None).0)
        };
        let text = r#"{"model": {"name": "gemini-2.5-flash"}, "general": {"maxAttempts": 50},
            "tools": {"shell": {"inactivityTimeout": 7}, "truncateToolOutputThreshold": 9}}"#;
        let of = |args: &str, env: &[(&str, &str)]| config_at(args, env, settings(text)).unwrap();
        let plain = of("", &[]);
        assert_eq!(plain.models.default, "gemini-2.5-flash");
        assert_eq!(plain.limits.model_tries, 10);
        assert_eq!(plain.limits.shell_silence_ms, 7_000);
        assert_eq!(plain.limits.result_chars, 9);
        assert_eq!(of("", &[("GEMINI_MODEL", "m")]).models.default, "m");
        let argued = of("--model n --max-attempts 20", &[("GEMINI_MODEL", "m")]);
        assert_eq!((argued.models.default.as_str(), argued.limits.model_tries), ("n", 20));
        let switched = config_at(
            "--streaming on --required-extension urn:y",
            &[],
            settings(r#"{"a2a": {"streaming": false, "strictVersion": true, "requiredExtensions": ["urn:x"]}}"#),
        );
        let mut board = Board::default();
        board.a2a.strict_version = true;
        board.a2a.required_extensions = vec!["urn:x".into(), "urn:y".into()];
        assert_eq!(switched.unwrap().board, board);
        let wrong = config_at("", &[], settings(r#"{"model": "a b"}"#)).unwrap();
        assert_eq!(wrong.models.default, "gemini-3.1-pro-preview");
        assert_eq!(wrong.messages.len(), 1);
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
        assert!(few.choose(Some("yours")).is_ok());
        assert!(few.choose(Some("mine")).is_ok());
        assert!(few.choose(Some("pro")).unwrap_err().contains("--allowed-model pro"));
    }

    #[test]
    fn only_the_operator_goes_without_questions_and_only_where_trusted() {
        let of = |args: &str, env: &[(&str, &str)], trust, settings| {
            config_at(args, env, place(trust, settings)).map(|config| config.approval)
        };
        let plain = Settings::default;
        let auto_edit = || Settings { approval: Some(Approval::AutoEdit), ..Settings::default() };
        let (yes, no) = (Trust::Trusted, Trust::Untrusted);
        let env = [("GEMINI_YOLO_MODE", "true")];
        assert_eq!(of("", &[], yes, plain()), Ok(Approval::Default));
        assert_eq!(of("", &[], yes, auto_edit()), Ok(Approval::AutoEdit));
        assert_eq!(of("", &[], no, auto_edit()), Ok(Approval::Default));
        assert_eq!(of("--approval-mode plan", &[], no, auto_edit()), Ok(Approval::Plan));
        assert_eq!(of("--approval-mode yolo", &[], yes, plain()), Ok(Approval::Yolo));
        assert_eq!(of("--approval-mode yolo", &[], no, plain()), Ok(Approval::Default));
        assert_eq!(of("", &env, yes, plain()), Ok(Approval::Yolo));
        assert_eq!(of("", &env, no, plain()), Ok(Approval::Default));
        let mut off = plain();
        off.security.disable_yolo = true;
        assert!(of("", &env, yes, off).unwrap_err().contains("disableYoloMode"));
    }
}
