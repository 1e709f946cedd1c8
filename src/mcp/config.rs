//! Settings of servers: parses `mcpServers.<name>` of a settings file or an extension into a [`Server`].
//!
//! A [`Definition`] is one entry of one layer. Its variables are expanded before it is merged with another definition, because the layers
//! differ in which variables they may use. [`Definition::server`] then checks the result. No message contains a value, because values may be
//! secrets.

use crate::base::secret::Secret;
use crate::base::variables;
use crate::limits::mcp::{CALL_SILENCE_MS, IDLE_MS, SERVER_NAME_CHARS, START_MS};
use crate::mcp::text::Redactor;
use crate::mcp::transport::url::Url;
use crate::task::log::blob::sha256;
use serde_json::{Map, Value, json};

pub mod client;
pub mod gate;
#[cfg(test)]
pub(in crate::mcp) mod tests;

/// Where a server was defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    System,
    User,
    Workspace,
    Extension(String),
    /// A client has named the server for its task.
    Client,
}

impl Layer {
    /// Whether the operator of this program has written this layer.
    pub fn is_operator(&self) -> bool {
        match self {
            Layer::System | Layer::User => true,
            Layer::Workspace | Layer::Extension(_) | Layer::Client => false,
        }
    }

    /// The word for this layer in the protocol.
    pub fn word(&self) -> String {
        match self {
            Layer::System => "system".into(),
            Layer::User => "user".into(),
            Layer::Workspace => "workspace".into(),
            Layer::Extension(name) => format!("extension:{name}"),
            Layer::Client => "client".into(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub name: String,
    pub layer: Layer,
    pub transport: Transport,
    /// A tool call fails when the server has sent nothing for it for this time.
    pub timeout_ms: u64,
    pub startup_ms: u64,
    /// The server is stopped when it was not used for this time.
    pub idle_ms: u64,
    /// Whether its tools need no approval.
    pub trust: bool,
    pub description: Option<String>,
    pub include: Option<Vec<String>>,
    pub exclude: Vec<String>,
    pub oauth: Option<OAuth>,
    pub isolation: Isolation,
    pub addresses: AllowedAddresses,
    /// Whether calls may run concurrently.
    pub parallel: bool,
    /// The hash of what the server starts or connects to, before variables are expanded and without secrets. Approvals are bound to it.
    pub config_hash: String,
    /// The hash of all settings, including secrets. Tasks with the same hash can share a connection. It is never stored.
    pub pool_key: String,
    /// The arguments of its program before variables are expanded, for the operator. They may contain secrets.
    pub written_args: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    Stdio { command: String, args: Vec<String>, env: Vec<(String, Secret)>, cwd: Option<String> },
    Network { url: Url, kind: Network, headers: Vec<(String, Secret)> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Http,
    Sse,
    /// Streamable HTTP is tried first.
    Either,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    Workspace,
    Task,
}

/// Which IP addresses the host of a server may have. They are checked for every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedAddresses {
    /// Any address, also through a proxy: the user of this program has chosen the server.
    Any,
    /// The address in the URL, which the operator has listed.
    Listed,
    Loopback,
    Public,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OAuth {
    pub enabled: bool,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub scopes: Vec<String>,
    pub authorization_url: Option<String>,
    pub token_url: Option<String>,
    pub issuer: Option<String>,
    pub audiences: Vec<String>,
    pub redirect_uri: Option<String>,
    pub registration_url: Option<String>,
}

impl Server {
    /// Why the settings exclude a tool, if they do.
    pub fn hides(&self, tool: &str) -> Option<&'static str> {
        let lists = |names: &[String]| names.iter().any(|name| name.split('(').next() == Some(tool));
        match &self.include {
            _ if lists(&self.exclude) => Some("excludeTools names it"),
            Some(include) if !lists(include) => Some("includeTools does not name it"),
            Some(_) | None => None,
        }
    }

    /// A redactor with the secrets of this server.
    pub fn redactor(&self) -> Redactor {
        let mut secrets: Vec<Secret> = self.oauth.iter().filter_map(|oauth| oauth.client_secret.clone()).collect();
        match &self.transport {
            Transport::Stdio { env, .. } => secrets.extend(env.iter().map(|(_, value)| value.clone())),
            Transport::Network { url, headers, .. } => {
                secrets.extend(url.secrets());
                // Also the credentials after a scheme such as `Bearer`.
                let values = headers
                    .iter()
                    .flat_map(|(_, value)| value.reveal().split_whitespace().chain([value.reveal()]).map(Secret::new));
                secrets.extend(values);
            }
        }
        Redactor::new(secrets)
    }

    /// Whether the settings have credentials for its requests.
    pub fn has_authorization(&self) -> bool {
        match &self.transport {
            Transport::Stdio { .. } => false,
            Transport::Network { headers, .. } => {
                headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
            }
        }
    }
}

/// Whether a server's program inherits this environment variable. URLs of proxies that contain a password are not inherited.
pub fn is_inherited(name: &str, value: &str) -> bool {
    const NAMES: [&str; 13] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "TZ",
        "TMPDIR",
        "TERM",
        "NODE_EXTRA_CA_CERTS",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "GEMINI_CLI",
    ];
    const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "no_proxy", "all_proxy"];
    let is_proxy = PROXIES.iter().any(|proxy| proxy.eq_ignore_ascii_case(name));
    NAMES.contains(&name) || name.starts_with("LC_") || name.starts_with("XDG_") || is_proxy && !value.contains('@')
}

/// Where variables come from.
pub struct Environment<'a> {
    pub get: &'a dyn Fn(&str) -> Option<String>,
    /// Whether a variable is a credential of this program. Only the operator's own settings may use those.
    pub is_credential: &'a dyn Fn(&str) -> bool,
}

/// One entry of one layer.
#[derive(Clone)]
pub struct Definition {
    pub name: String,
    pub layer: Layer,
    /// Whether the definition or a part of it comes from the workspace.
    pub of_workspace: bool,
    /// Messages for people, in sentences.
    pub notices: Vec<String>,
    written: Map<String, Value>,
    expanded: Map<String, Value>,
    /// Variables that are not set, with the key that needs them.
    unset: Vec<(String, String)>,
}

const EXPANDED: [&str; 7] = ["command", "args", "env", "cwd", "url", "httpUrl", "headers"];
const KEYS: [&str; 13] = [
    "type",
    "timeout",
    "startupTimeout",
    "idleTimeout",
    "trust",
    "description",
    "includeTools",
    "excludeTools",
    "oauth",
    "isolation",
    "parallel",
    "authProviderType",
    "tcp",
];
const TRANSPORT_KEYS: [&str; 3] = ["command", "url", "httpUrl"];

impl Definition {
    /// Reads an entry and expands its variables. The error is for people.
    pub fn read(name: &str, value: &Value, layer: Layer, env: &Environment<'_>) -> Result<Definition, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > SERVER_NAME_CHARS || !name.chars().all(is_name) {
            return Err(format!(
                "mcpServers has an entry whose name is not usable. A name has 1 to {SERVER_NAME_CHARS} letters, digits, '.', '_' or '-'."
            ));
        }
        let written = value.as_object().cloned().ok_or_else(|| format!("mcpServers.{name} must be an object."))?;
        let (notices, unset) = (Vec::new(), Vec::new());
        let of_workspace = layer == Layer::Workspace;
        let mut read =
            Definition { name: name.into(), layer, of_workspace, notices, expanded: written.clone(), written, unset };
        for (key, value) in written_keys(&read.written) {
            if EXPANDED.contains(&key.as_str()) {
                let value = read.expand(&key, value, env);
                read.expanded.insert(key, value);
            } else if !KEYS.contains(&key.as_str()) {
                read.notices.push(format!("mcpServers.{name}.{key} is not known and has no effect."));
            }
        }
        if read.written.contains_key("trust") && !read.layer.is_operator() {
            read.written.remove("trust");
            read.expanded.remove("trust");
            read.notices
                .push(format!("mcpServers.{name}.trust counts only in user and system settings; it has no effect."));
        }
        Ok(read)
    }

    fn expand(&mut self, key: &str, value: Value, env: &Environment<'_>) -> Value {
        match value {
            Value::String(text) => {
                let operator = self.layer.is_operator();
                let replaced = variables::replace(&text, &mut |variable| {
                    let name = variable.name;
                    if !operator && (env.is_credential)(name) {
                        self.notices.push(format!(
                            "mcpServers.{}.{key}: {name} is not given to servers of this layer.",
                            self.name
                        ));
                        return variable.written.to_owned();
                    }
                    variable.value(env.get).unwrap_or_else(|| {
                        match key {
                            "env" => self
                                .notices
                                .push(format!("mcpServers.{}.env: the variable {name} is not set.", self.name)),
                            _ => self.unset.push((key.to_owned(), name.to_owned())),
                        }
                        String::new()
                    })
                });
                Value::String(replaced)
            }
            Value::Array(items) => items.into_iter().map(|item| self.expand(key, item, env)).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(name, member)| (name, self.expand(key, member, env))).collect()
            }
            other => other,
        }
    }

    /// Merges this definition with that of an extension for the same server. These settings take precedence.
    pub fn over(mut self, extension: Definition) -> Definition {
        let has_place = |members: &Map<String, Value>| TRANSPORT_KEYS.iter().any(|place| members.contains_key(*place));
        if !has_place(&self.written) {
            self.layer = extension.layer;
        }
        self.of_workspace |= extension.of_workspace;
        let is_replaced = |key: &str| self.written.contains_key(key);
        self.unset.extend(extension.unset.into_iter().filter(|(key, _)| !is_replaced(key)));
        self.notices.extend(extension.notices);
        self.written = merged(self.written, extension.written);
        self.expanded = merged(self.expanded, extension.expanded);
        self
    }

    /// Checks the definition and returns the server. `None` if the entry names neither a program nor a URL. The error is why the server is
    /// blocked.
    pub fn server(&mut self) -> Result<Option<Server>, String> {
        let values = Values { name: &self.name, members: &self.expanded };
        if !TRANSPORT_KEYS.iter().any(|place| values.get(place).is_some()) {
            return Ok(None);
        }
        if let Some(key) = ["authProviderType", "tcp"].iter().find(|key| values.get(key).is_some()) {
            return Err(format!("mcpServers.{}.{key} is not supported.", self.name));
        }
        if let Some((key, variable)) = self.unset.first() {
            return Err(format!(
                "mcpServers.{}.{key} needs the variable {variable}, which is not set. Set it, or write ${{{variable}:-default}}.",
                self.name
            ));
        }
        let (transport, notices) = values.transport()?;
        let server = Server {
            name: self.name.clone(),
            layer: self.layer.clone(),
            transport,
            timeout_ms: values.milliseconds("timeout")?.unwrap_or(CALL_SILENCE_MS),
            startup_ms: values.milliseconds("startupTimeout")?.unwrap_or(START_MS),
            idle_ms: values.milliseconds("idleTimeout")?.unwrap_or(IDLE_MS),
            trust: values.flag("trust")?,
            description: values.text("description")?,
            include: values.texts("includeTools")?,
            exclude: values.texts("excludeTools")?.unwrap_or_default(),
            oauth: values.oauth()?,
            isolation: match values.text("isolation")?.as_deref() {
                None | Some("workspace") => Isolation::Workspace,
                Some("task") => Isolation::Task,
                Some(_) => return Err(values.wrong("isolation", "\"workspace\" or \"task\"")),
            },
            addresses: AllowedAddresses::Any,
            parallel: values.flag("parallel")?,
            config_hash: config_hash(&self.written),
            pool_key: sha256(Value::Object(self.expanded.clone()).to_string().as_bytes()),
            written_args: Values { name: &self.name, members: &self.written }
                .texts("args")
                .ok()
                .flatten()
                .unwrap_or_default(),
        };
        self.notices.extend(notices);
        Ok(Some(server))
    }
}

fn written_keys(members: &Map<String, Value>) -> Vec<(String, Value)> {
    members.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Merges settings with those of an extension. For most keys the settings take precedence; `excludeTools` and `env` are united, and
/// `includeTools` are intersected.
fn merged(settings: Map<String, Value>, mut extension: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in settings {
        let value = match (key.as_str(), extension.remove(&key), value) {
            ("excludeTools", Some(Value::Array(mut theirs)), Value::Array(ours)) => {
                theirs.extend(ours);
                Value::Array(theirs)
            }
            ("includeTools", Some(Value::Array(theirs)), Value::Array(ours)) => {
                ours.into_iter().filter(|name| theirs.contains(name)).collect()
            }
            ("env", Some(Value::Object(mut theirs)), Value::Object(ours)) => {
                theirs.extend(ours);
                Value::Object(theirs)
            }
            (_, _, value) => value,
        };
        extension.insert(key, value);
    }
    extension
}

/// The hash of what a server starts or connects to.
fn config_hash(written: &Map<String, Value>) -> String {
    let env: Option<Vec<&String>> = written.get("env").and_then(Value::as_object).map(|env| env.keys().collect());
    let get = |key: &str| written.get(key);
    let url = get("httpUrl").or(get("url"));
    sha256(
        json!({"command": get("command"), "args": get("args"), "env": env, "cwd": get("cwd"), "url": url})
            .to_string()
            .as_bytes(),
    )
}

/// Reads the members of an entry. Error messages name the key.
struct Values<'a> {
    name: &'a str,
    members: &'a Map<String, Value>,
}

impl<'a> Values<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.members.get(key).filter(|value| !value.is_null())
    }

    fn wrong(&self, key: &str, expected: &str) -> String {
        format!("mcpServers.{}.{key} must be {expected}.", self.name)
    }

    fn text(&self, key: &str) -> Result<Option<String>, String> {
        self.get(key)
            .map(|value| value.as_str().map(str::to_owned).ok_or_else(|| self.wrong(key, "a string")))
            .transpose()
    }

    fn flag(&self, key: &str) -> Result<bool, String> {
        self.get(key).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| self.wrong(key, "true or false")))
    }

    fn milliseconds(&self, key: &str) -> Result<Option<u64>, String> {
        let number = |value: &Value| {
            value.as_u64().filter(|ms| *ms > 0).ok_or_else(|| self.wrong(key, "a number of milliseconds"))
        };
        self.get(key).map(number).transpose()
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<String>>, String> {
        let texts = |value: &Value| {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        self.get(key).map(|value| texts(value).ok_or_else(|| self.wrong(key, "a list of strings"))).transpose()
    }

    fn secrets(&self, key: &str) -> Result<Vec<(String, Secret)>, String> {
        let pairs = |value: &Value| {
            let members = value.as_object()?.iter();
            members.map(|(name, value)| Some((name.clone(), Secret::new(value.as_str()?)))).collect::<Option<Vec<_>>>()
        };
        self.get(key)
            .map_or(Ok(Vec::new()), |value| pairs(value).ok_or_else(|| self.wrong(key, "an object of strings")))
    }

    fn transport(&self) -> Result<(Transport, Vec<String>), String> {
        let mut notices = Vec::new();
        let (key, kind) = match self.get("httpUrl") {
            Some(_) => ("httpUrl", Network::Http),
            None => {
                let kind = match self.text("type")?.as_deref() {
                    None => Network::Either,
                    Some("http" | "streamable-http") => Network::Http,
                    Some("sse") => Network::Sse,
                    Some("stdio") if self.get("url").is_none() => Network::Either,
                    Some(_) => return Err(self.wrong("type", "\"http\" or \"sse\"")),
                };
                ("url", kind)
            }
        };
        if key == "httpUrl" {
            notices.push(format!("mcpServers.{}.httpUrl is deprecated; write url and \"type\": \"http\".", self.name));
        }
        let Some(url) = self.text(key)? else {
            let command = self.text("command")?.filter(|command| !command.trim().is_empty());
            let command = command.ok_or_else(|| self.wrong("command", "the name of a program"))?;
            let (args, env) = (self.texts("args")?.unwrap_or_default(), self.secrets("env")?);
            if env.iter().any(|(name, _)| name.is_empty() || name.contains(['=', '\0'])) {
                return Err(self.wrong("env", "an object with names of variables"));
            }
            return Ok((Transport::Stdio { command, args, env, cwd: self.text("cwd")? }, notices));
        };
        if self.get("command").is_some() {
            notices.push(format!("mcpServers.{} has a command and a URL; the URL is used.", self.name));
        }
        let url = Url::parse(&url).map_err(|why| format!("mcpServers.{}.{key} {why}.", self.name))?;
        Ok((Transport::Network { url, kind, headers: self.headers()? }, notices))
    }

    fn headers(&self) -> Result<Vec<(String, Secret)>, String> {
        let headers = self.secrets("headers")?;
        for (name, value) in &headers {
            let lower = name.to_ascii_lowercase();
            let is_token =
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
            let is_ours =
                matches!(lower.as_str(), "host" | "content-length" | "accept" | "content-type" | "transfer-encoding")
                    || lower.starts_with("mcp-");
            if is_ours {
                return Err(format!("mcpServers.{}.headers may not set {name}.", self.name));
            }
            if !is_token || value.reveal().bytes().any(|b| b.is_ascii_control() && b != b'\t') {
                return Err(self.wrong("headers", "an object of valid header fields, without line ends"));
            }
        }
        Ok(headers)
    }

    fn oauth(&self) -> Result<Option<OAuth>, String> {
        let Some(value) = self.get("oauth") else {
            return Ok(None);
        };
        let members = value.as_object().ok_or_else(|| self.wrong("oauth", "an object"))?;
        let name = format!("{}.oauth", self.name);
        let oauth = Values { name: &name, members };
        Ok(Some(OAuth {
            enabled: oauth.get("enabled").is_none_or(|enabled| enabled != &Value::Bool(false)),
            client_id: oauth.text("clientId")?,
            client_secret: oauth.text("clientSecret")?.map(Secret::new),
            scopes: oauth.texts("scopes")?.unwrap_or_default(),
            authorization_url: oauth.text("authorizationUrl")?,
            token_url: oauth.text("tokenUrl")?,
            issuer: oauth.text("issuer")?,
            audiences: oauth.texts("audiences")?.unwrap_or_default(),
            redirect_uri: oauth.text("redirectUri")?,
            registration_url: oauth.text("registrationUrl")?,
        }))
    }
}
