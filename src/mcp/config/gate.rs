//! Decides which servers may be used, from `mcp.allowed` and `mcp.excluded` of all layers, a command-line flag, and the file in which users
//! switch servers off.

use crate::mcp::config::Layer;
use crate::mcp::state::State;
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// If set, only these servers are allowed.
    allowed: Option<Vec<String>>,
    excluded: Vec<String>,
    /// In lower case.
    disabled: Vec<String>,
}

impl Gate {
    /// Adds the settings of a layer, the most general layer first. Exclusions of all layers are united. A list of allowed servers replaces the
    /// previous one, but the list of a workspace can only narrow it.
    pub fn add(&mut self, settings: &Value, layer: &Layer) {
        let mcp = settings.get("mcp");
        let member = |key: &str, alias: &str| mcp.and_then(|mcp| mcp.get(key)).or(settings.get(alias)).map(names);
        if let Some(allowed) = member("allowed", "allowMCPServers").filter(|allowed| !allowed.is_empty()) {
            match layer.is_operator() {
                true => self.allowed = Some(allowed),
                false => self.narrow(&allowed),
            }
        }
        self.excluded.extend(member("excluded", "excludeMCPServers").unwrap_or_default());
    }

    /// Removes the servers that are not in this list from the allowed ones.
    pub fn narrow(&mut self, names: &[String]) {
        match &mut self.allowed {
            Some(allowed) => allowed.retain(|name| names.contains(name)),
            None => self.allowed = Some(names.to_vec()),
        }
    }

    /// Adds the file `{"<name in small letters>": {"enabled": false}}`.
    pub fn disable(&mut self, file: &Value) {
        let entries = file.as_object().into_iter().flatten();
        let off = entries.filter(|(_, entry)| entry.get("enabled") == Some(&Value::Bool(false)));
        self.disabled.extend(off.map(|(name, _)| name.to_lowercase()));
    }

    /// The state of a server if it may not be used.
    pub fn refuses(&self, server: &str) -> Option<State> {
        let has = |names: &[String], name: &str| names.iter().any(|one| one == name);
        if has(&self.excluded, server) {
            return Some(State::Blocked("mcp.excluded names it".into()));
        }
        if self.allowed.as_ref().is_some_and(|allowed| !has(allowed, server)) {
            return Some(State::Blocked("it is not among the servers that are allowed (mcp.allowed)".into()));
        }
        has(&self.disabled, &server.to_lowercase()).then_some(State::Disabled)
    }
}

fn names(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
