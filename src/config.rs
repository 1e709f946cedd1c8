//! What the program runs with: arguments over environment over defaults, checked once and frozen. The environment is handed
//! in, so nothing here depends on the process it runs in.

use crate::args::Args;
use crate::limits::Limits;
use crate::model::gemini::{self, Endpoint, Secret};
use crate::shell::log::Level;
use std::net::IpAddr;
use std::path::PathBuf;

pub const DEFAULT_PORT: u16 = 41_242;

#[derive(Debug)]
pub struct Config {
    pub host: IpAddr,
    pub port: u16,
    pub workspace: PathBuf,
    /// Clients cannot choose another workspace.
    pub pinned: bool,
    pub allowed_roots: Vec<PathBuf>,
    pub state_dir: PathBuf,
    pub model: String,
    pub agent: Agent,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub log_level: Level,
    pub limits: Limits,
    pub proxy: Option<String>,
    /// A file of certificates to trust beside the built-in ones.
    pub ca_file: Option<PathBuf>,
}

/// Who answers prompts.
#[derive(Debug)]
pub enum Agent {
    Gemini(Endpoint),
    Script(PathBuf),
    /// The built-in script, for trying things without a key.
    Demo,
}

impl Config {
    /// `env` looks a variable up; empty ones count as unset.
    pub fn new(args: Args, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, String> {
        let env = |name: &str| env(name).filter(|value| !value.is_empty());
        let pin = env("CODER_AGENT_WORKSPACE_PATH");
        let mut limits = Limits::default();
        if let Some(text) = &args.max_attempts {
            limits.model_tries = number::<u32>(text, "--max-attempts")?.max(1);
        }
        Ok(Config {
            host: host(args.host.as_deref().unwrap_or("127.0.0.1"))?,
            port: match (args.a2a_port, env("CODER_AGENT_PORT")) {
                (Some(text), _) => number(&text, "--a2a-port")?,
                (None, Some(text)) => number(&text, "CODER_AGENT_PORT")?,
                (None, None) => DEFAULT_PORT,
            },
            pinned: pin.is_some(),
            workspace: pin.or(args.workspace).unwrap_or_else(|| ".".into()).into(),
            allowed_roots: args.allowed_roots.into_iter().map(PathBuf::from).collect(),
            state_dir: state_dir(args.state_dir, &env)?,
            model: model(args.model.or_else(|| env("GEMINI_MODEL")))?,
            agent: match args.script {
                Some(file) => Agent::Script(file.into()),
                None => agent(&env)?,
            },
            allowed_hosts: args
                .allowed_hosts
                .iter()
                .map(|name| name.to_lowercase())
                .collect(),
            allowed_origins: args.allowed_origins,
            log_level: level(args.log_level.or_else(|| env("LOG_LEVEL")))?,
            limits,
            proxy: env("HTTPS_PROXY").or_else(|| env("https_proxy")),
            ca_file: env("SSL_CERT_FILE").map(PathBuf::from),
        })
    }
}

fn number<N: std::str::FromStr>(text: &str, name: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| format!("{name} must be a number in range, not {text}"))
}

/// Only loopback until there are credentials to ask for: nobody else is let in by accident.
fn host(text: &str) -> Result<IpAddr, String> {
    let name = if text == "localhost" {
        "127.0.0.1"
    } else {
        text
    };
    let address: IpAddr = name
        .trim_matches(['[', ']'])
        .parse()
        .map_err(|_| format!("--host must be an IP address, not {text}"))?;
    if address.is_loopback() {
        Ok(address)
    } else {
        Err(format!(
            "--host {text} is not a loopback address; only 127.0.0.1 or ::1 can be used"
        ))
    }
}

fn state_dir(
    given: Option<String>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, String> {
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

fn model(name: Option<String>) -> Result<String, String> {
    let name = name.unwrap_or_else(|| "auto".into());
    gemini::resolve(&name)
        .map(str::to_owned)
        .map_err(|error| error.message)
}

fn agent(env: &dyn Fn(&str) -> Option<String>) -> Result<Agent, String> {
    let base = env("GOOGLE_GEMINI_BASE_URL");
    let key = env("GEMINI_API_KEY");
    if key.is_none() && base.is_none() {
        return Ok(Agent::Demo);
    }
    let mut endpoint = Endpoint::new(Secret::new(key.unwrap_or_default()));
    if let Some(base) = base {
        if !(base.starts_with("http://") || base.starts_with("https://")) {
            return Err(format!(
                "GOOGLE_GEMINI_BASE_URL must be an http(s) URL, not {base}"
            ));
        }
        endpoint.base_url = base;
    }
    if let Some(version) = env("GOOGLE_GENAI_API_VERSION") {
        endpoint.api_version = version;
    }
    if env("GEMINI_API_KEY_AUTH_MECHANISM").as_deref() == Some("bearer") {
        endpoint.auth = gemini::Auth::KeyAndBearer;
    }
    if let Some(list) = env("GEMINI_CLI_CUSTOM_HEADERS") {
        endpoint.extra = gemini::header_list(&list);
    }
    Ok(Agent::Gemini(endpoint))
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
        let args = crate::args::parse(args.split_whitespace().map(str::to_owned))?;
        let home = |name: &str| (name == "HOME").then(|| "/home/u".to_owned());
        Config::new(args, &|name| {
            let given = env.iter().find(|(known, _)| *known == name);
            given
                .map(|(_, value)| value.to_string())
                .or_else(|| home(name))
        })
    }

    #[test]
    fn arguments_beat_the_environment_and_that_beats_defaults() {
        assert_eq!(config("", &[]).unwrap().port, 41_242);
        assert_eq!(config("", &[("CODER_AGENT_PORT", "7")]).unwrap().port, 7);
        assert_eq!(
            config("--a2a-port 8", &[("CODER_AGENT_PORT", "7")])
                .unwrap()
                .port,
            8
        );
        let pinned = config("--workspace /a", &[("CODER_AGENT_WORKSPACE_PATH", "/b")]).unwrap();
        assert_eq!(
            (pinned.workspace, pinned.pinned),
            (PathBuf::from("/b"), true)
        );
        let state = |env| config("", env).unwrap().state_dir;
        assert_eq!(state(&[]), PathBuf::from("/home/u/.local/state/gemini-a2a"));
        assert_eq!(
            state(&[("XDG_STATE_HOME", "/s")]),
            PathBuf::from("/s/gemini-a2a")
        );
    }

    #[test]
    fn a_key_or_an_address_chooses_gemini_and_nothing_the_demo() {
        assert!(matches!(config("", &[]).unwrap().agent, Agent::Demo));
        assert!(matches!(
            config("", &[("GEMINI_API_KEY", "")]).unwrap().agent,
            Agent::Demo
        ));
        let key = config("", &[("GEMINI_API_KEY", "k")]).unwrap().agent;
        assert!(matches!(key, Agent::Gemini(_)));
        assert!(
            !format!("{key:?}").contains("\"k\""),
            "a key is never printed"
        );
        let base = [("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1/")];
        assert!(matches!(config("", &base).unwrap().agent, Agent::Gemini(_)));
        assert!(config("", &[("GOOGLE_GEMINI_BASE_URL", "nonsense")]).is_err());
        let script = config("--script s.json", &[("GEMINI_API_KEY", "k")])
            .unwrap()
            .agent;
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
        ] {
            let error = config(args, &[]).unwrap_err();
            assert!(error.contains(word), "{args}: {error}");
        }
    }
}
