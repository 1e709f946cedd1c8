//! The servers of a workspace: reads them from the settings files and extensions, and decides whether each may be used.

use super::Context;
use super::known_servers::KnownServers;
use crate::config::definitions::extension::{Extension, ExtensionSource};
use crate::config::settings::SettingScope;
use crate::config::trust::Trust;
use crate::limits::mcp::WORKSPACE_SERVERS;
use crate::mcp::config::gate::Gate;
use crate::mcp::config::{Definition, Environment, Layer, Server};
use crate::mcp::state::State;
use crate::shell::start::workspace_settings::read_plain;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The file in the user's `.gemini` with the servers that are switched off.
pub const ENABLEMENT: &str = "mcp-server-enablement.json";

/// The servers of a workspace, by name.
#[derive(Default)]
pub struct Servers {
    pub all: Vec<Configured>,
    pub trusted: bool,
    /// Messages for people, in sentences.
    pub notices: Vec<String>,
}

#[derive(Clone)]
pub struct Configured {
    pub name: String,
    pub layer: Layer,
    /// Whether the definition or a part of it comes from the workspace.
    pub of_workspace: bool,
    /// `None` if the definition is invalid; then `refused` says why.
    pub server: Option<Server>,
    pub refused: Option<State>,
}

impl Servers {
    pub fn get(&self, name: &str) -> Option<&Configured> {
        self.all.iter().find(|one| one.name == name)
    }

    /// Reads the settings.
    pub fn read(context: &Context, known_servers: &KnownServers, workspace: &Path) -> Result<Servers, String> {
        let read = context.reader.read(workspace)?;
        let mut servers = Servers { trusted: read.trust == Trust::Trusted, ..Servers::default() };
        let get = |name: &str| context.reader.variable(&read.variables, name);
        let is_credential = |name: &str| context.reader.is_credential(&read.variables, name);
        let env = Environment { get: &get, is_credential: &is_credential };
        let mut gate = Gate::default();
        read.settings.mcp.lists.iter().for_each(|(scope, lists)| gate.add(lists, &layer(*scope)));
        context.only.iter().for_each(|only| gate.narrow(only));
        let switches = context.reader.paths().user(ENABLEMENT);
        let switches = switches.and_then(|file| read_plain(&file, context.limits.settings_bytes).ok().flatten());
        gate.disable(&switches.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null));
        let mut of_extensions: BTreeMap<String, Definition> = BTreeMap::new();
        for extension in read.extensions.iter().filter(|extension| extension.enabled) {
            for (name, definition) in definitions(extension, &env) {
                match definition {
                    // If two extensions define a server of this name, the first is used.
                    Ok(definition) => drop(of_extensions.entry(name).or_insert(definition)),
                    Err(why) => servers.notices.push(format!("extension {}: {why}", extension.name)),
                }
            }
        }
        for entry in &read.settings.mcp.servers {
            match Definition::read(&entry.name, &entry.value, layer(entry.scope), &env) {
                Ok(definition) => servers.add(match of_extensions.remove(&entry.name) {
                    Some(extension) => definition.over(extension),
                    None => definition,
                }),
                Err(why) => servers.notices.push(format!("{}, line {}: {why}", entry.file, entry.line)),
            }
        }
        of_extensions.into_values().for_each(|definition| servers.add(definition));
        servers.all.sort_by(|a, b| a.name.cmp(&b.name));
        let trusted = servers.trusted;
        for (at, one) in servers.all.iter_mut().enumerate() {
            let refused = gate.refuses(&one.name).or_else(|| match (trusted, &one.server) {
                (false, _) => Some(State::Untrusted),
                (true, Some(server)) if one.of_workspace => changed_since_last_use(server, known_servers, workspace),
                (true, _) => None,
            });
            let many = || State::Blocked(format!("the settings have more than {WORKSPACE_SERVERS} servers"));
            one.refused = refused.or(one.refused.take()).or_else(|| (at >= WORKSPACE_SERVERS).then(many));
        }
        Ok(servers)
    }

    fn add(&mut self, mut definition: Definition) {
        let (name, layer) = (definition.name.clone(), definition.layer.clone());
        let of_workspace = definition.of_workspace;
        let (server, refused) = match definition.server() {
            Ok(Some(server)) => (Some(server), None),
            Ok(None) => return,
            Err(why) => (None, Some(State::Blocked(why))),
        };
        self.notices.append(&mut definition.notices);
        self.all.push(Configured { name, layer, of_workspace, server, refused });
    }
}

/// The servers of an extension. They start in its directory, with the values of its settings in their environment.
fn definitions(extension: &Extension, env: &Environment<'_>) -> Vec<(String, Result<Definition, String>)> {
    let own = |name: &str| extension.values.get(name).map(|value| value.reveal().to_owned());
    let get = |name: &str| own(name).or_else(|| (env.get)(name));
    let is_credential = |name: &str| own(name).is_none() && (env.is_credential)(name);
    let env = Environment { get: &get, is_credential: &is_credential };
    let definition = |(name, value): (&String, &Value)| {
        let mut value = value.clone();
        if let Some(members) = value.as_object_mut().filter(|members| members.contains_key("command")) {
            members.entry("cwd").or_insert_with(|| extension.dir.to_string_lossy().into());
            let variables = members.entry("env").or_insert_with(|| Value::Object(Default::default()));
            for name in extension.values.keys() {
                if let Some(variables) = variables.as_object_mut().filter(|variables| !variables.contains_key(name)) {
                    variables.insert(name.clone(), format!("${{{name}}}").into());
                }
            }
        }
        let layer = Layer::Extension(extension.name.clone());
        let mut definition = Definition::read(name, &value, layer, &env);
        if let Ok(definition) = &mut definition {
            definition.of_workspace = extension.source == ExtensionSource::Workspace;
        }
        (name.clone(), definition)
    };
    extension.mcp_servers.iter().map(definition).collect()
}

/// The blocked state of a server that the workspace defines at least in part, if its command or URL has changed since it was last used.
fn changed_since_last_use(server: &Server, known_servers: &KnownServers, workspace: &Path) -> Option<State> {
    let name = &server.name;
    match known_servers.is_unchanged(&workspace.to_string_lossy(), name, &server.config_hash) {
        Ok(true) => None,
        Ok(false) => Some(State::Blocked(format!(
            "its command or URL has changed since it was last used. Check mcpServers.{name} in the workspace's settings and \
             extensions, then allow it: /mcp allow {name}"
        ))),
        Err(error) => Some(State::Blocked(format!("mcp-seen.json in the state directory cannot be used: {error}"))),
    }
}

fn layer(scope: SettingScope) -> Layer {
    match scope {
        SettingScope::User => Layer::User,
        SettingScope::Workspace => Layer::Workspace,
        SettingScope::SystemDefaults | SettingScope::System => Layer::System,
    }
}
