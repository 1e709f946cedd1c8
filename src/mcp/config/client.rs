//! Servers that a client names for its task. A network client may name only URLs, and only those that the operator allows; otherwise the whole
//! request is refused. The user of this program, over its standard input, may also name programs.

use crate::limits::mcp::{CLIENT_HEADER_BYTES, CLIENT_SERVERS};
use crate::mcp::config::{AllowedAddresses, Definition, Environment, Isolation, Layer, Server, Transport};
use crate::mcp::transport::url::Url;
use crate::task::log::server::NamedServer;
use serde_json::{Map, Value};

/// Which servers network clients may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientServers {
    #[default]
    Off,
    /// Servers on this machine, if the client is the user who runs this program, on this machine.
    Loopback,
    /// Servers on these hosts, each with one port or any port.
    Listed(Vec<(String, Option<u16>)>),
}

/// Who names servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The user who started this program, in its own process or over its standard input.
    Local,
    /// The user who runs this program, over a connection on this machine.
    SameUser,
    Other,
}

/// The facts about a request that the rules depend on.
pub struct Request<'a> {
    pub allowed: &'a ClientServers,
    pub client: Client,
    /// The ports that this program listens on.
    pub own_ports: &'a [u16],
    /// The names of the operator's servers, which clients may not use.
    pub taken: &'a [String],
}

const KEYS: [&str; 7] = ["url", "type", "headers", "timeout", "includeTools", "excludeTools", "description"];
const LOCAL_KEYS: [&str; 4] = ["command", "args", "env", "cwd"];

/// Reads the servers of `mcpServers` in the settings of a task: an object by name, or a list of objects with a `name`. The error names the rule
/// that refuses the request. The IP addresses of a host are checked for every connection: [`AllowedAddresses`].
pub fn servers(value: &Value, request: &Request<'_>) -> Result<Vec<Server>, String> {
    let mut entries: Vec<(String, Value)> = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Object(members) => members.iter().map(|(name, entry)| (name.clone(), entry.clone())).collect(),
        Value::Array(items) => items.iter().cloned().map(named).collect::<Result<_, _>>()?,
        _ => return Err("mcpServers must be an object or a list".into()),
    };
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    match (request.client, request.allowed) {
        (Client::Local, _) | (Client::SameUser, ClientServers::Loopback) | (_, ClientServers::Listed(_)) => {}
        (_, ClientServers::Off) => {
            return Err("clients may not name MCP servers here; the operator can allow it with --client-mcp".into());
        }
        (Client::Other, ClientServers::Loopback) => {
            return Err("only the user who runs this server, on its machine, may name MCP servers".into());
        }
    }
    if entries.len() > CLIENT_SERVERS {
        return Err(format!("a task may name at most {CLIENT_SERVERS} MCP servers"));
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(format!("the MCP server {} is named twice", pair[0].0));
    }
    entries.into_iter().map(|(name, entry)| server(&name, entry, request)).collect()
}

/// The server as it appears in the task's log.
pub fn shown(server: &Server) -> NamedServer {
    let url = match &server.transport {
        Transport::Network { url, .. } => url.shown(),
        Transport::Stdio { command, .. } => command.clone(),
    };
    NamedServer { name: server.name.clone(), url }
}

fn named(mut entry: Value) -> Result<(String, Value), String> {
    match entry.as_object_mut().and_then(|members| members.remove("name")) {
        Some(Value::String(name)) => Ok((name, entry)),
        Some(_) | None => Err("every MCP server in a list needs a name".into()),
    }
}

fn server(name: &str, entry: Value, request: &Request<'_>) -> Result<Server, String> {
    // Variables are not expanded; the text of the client is used unchanged.
    let nothing = Environment { get: &|_| None, is_credential: &|_| true };
    let mut read = Definition::read(name, &Value::Object(Map::new()), Layer::Client, &nothing)?;
    let Value::Object(mut members) = entry else { return Err(format!("mcpServers.{name} must be an object")) };
    ["headers", "env"]
        .iter()
        .filter_map(|key| Some((key, members.remove(*key)?)))
        .collect::<Vec<_>>()
        .into_iter()
        .for_each(|(key, value)| {
            members.insert((*key).to_owned(), by_name(value));
        });
    let is_local = request.client == Client::Local;
    let may_set = |key: &str| KEYS.contains(&key) || is_local && LOCAL_KEYS.contains(&key);
    if let Some(key) = members.keys().find(|key| !may_set(key)) {
        return Err(format!("mcpServers.{name}.{key} may not be set by a client; it may set {}", KEYS.join(", ")));
    }
    if request.taken.iter().any(|taken| taken == name) {
        return Err(format!("an MCP server with the name {name} is configured here; choose another name"));
    }
    read.expanded = members.clone();
    read.written = members;
    let server = read.server()?.ok_or_else(|| format!("mcpServers.{name} needs a url"))?;
    let addresses = match &server.transport {
        Transport::Stdio { .. } => AllowedAddresses::Any,
        Transport::Network { url, headers, .. } => {
            let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.reveal().len()).sum();
            if bytes > CLIENT_HEADER_BYTES {
                return Err(format!("mcpServers.{name}.headers may have {CLIENT_HEADER_BYTES} bytes"));
            }
            addresses(name, url, request)?
        }
    };
    Ok(Server { isolation: Isolation::Task, addresses, ..server })
}

/// Converts a list of names and values, which some clients write instead of an object, into an object.
fn by_name(value: Value) -> Value {
    let pair = |item: &Value| Some((item.get("name")?.as_str()?.to_owned(), item.get("value")?.clone()));
    match value.as_array().map(|items| items.iter().map(pair).collect::<Option<Map<_, _>>>()) {
        Some(Some(members)) => Value::Object(members),
        Some(None) | None => value,
    }
}

/// Checks whether a client may use a URL. Returns the addresses that its host may have.
fn addresses(name: &str, url: &Url, request: &Request<'_>) -> Result<AllowedAddresses, String> {
    let (host, port) = url.host_and_port();
    if url.has_user() {
        return Err(format!("mcpServers.{name}.url must not hold a user name or password; use headers"));
    }
    if url.is_loopback() && request.own_ports.contains(&port) {
        return Err(format!("mcpServers.{name}.url must not be this server itself"));
    }
    match (request.client, request.allowed) {
        (Client::Local, _) => Ok(AllowedAddresses::Any),
        (_, ClientServers::Listed(hosts)) => {
            let fits = |(listed, only): &(String, Option<u16>)| {
                listed.eq_ignore_ascii_case(host) && only.is_none_or(|only| only == port)
            };
            match hosts.iter().any(fits) {
                true if url.is_address() => Ok(AllowedAddresses::Listed),
                true => Ok(AllowedAddresses::Public),
                false => Err(format!(
                    "mcpServers.{name}.url must be at one of the hosts that the operator listed (--client-mcp-host)"
                )),
            }
        }
        (_, ClientServers::Loopback | ClientServers::Off) if url.is_loopback() => Ok(AllowedAddresses::Loopback),
        (_, ClientServers::Loopback | ClientServers::Off) => {
            Err(format!("mcpServers.{name}.url must be on this machine (localhost, 127.0.0.1 or [::1])"))
        }
    }
}
