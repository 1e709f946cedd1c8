//! The entries about MCP servers in settings files, without interpretation. [`crate::mcp::config`] interprets them: which variables
//! may be used depends on the layer, so they are not expanded here.

use crate::base::address;
use crate::config::formats::tree::{Node, Value};
use crate::config::settings::{Layer, SettingScope};
use std::fmt;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpSettings {
    /// The entries of `mcpServers`, in the order of the layers: a later one replaces an earlier one of the same name.
    pub servers: Vec<ServerEntry>,
    /// `mcp.allowed` and `mcp.excluded` of each layer, as `{"mcp": {…}}`.
    pub lists: Vec<(SettingScope, serde_json::Value)>,
    /// `--allowed-mcp-server-names`: only these servers are used.
    pub only: Option<Vec<String>>,
    /// Which servers clients may name.
    pub clients: ClientMcp,
    /// The hosts of servers that clients may name, in lower case, each with one port or any.
    pub client_hosts: Vec<(String, Option<u16>)>,
}

/// Which servers clients may name for their tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientMcp {
    #[default]
    Off,
    /// Those on this machine, for the user who runs this server.
    Loopback,
    /// Those of the hosts that are listed.
    Listed,
}

/// A host with a port or without, an IPv6 address in brackets. The host as origins have it.
pub(in crate::config) fn client_host(text: &str) -> Option<(String, Option<u16>)> {
    let (name, port) = match text.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((name, port)) => (name, Some(port.parse().ok()?)),
        None => (text, None),
    };
    let name = name.to_ascii_lowercase();
    address::host(&name).ok()?;
    Some((name.trim_matches(['[', ']']).to_owned(), port))
}

/// One entry of one file.
#[derive(Clone, PartialEq)]
pub struct ServerEntry {
    pub scope: SettingScope,
    pub file: String,
    pub line: usize,
    pub name: String,
    /// May contain secrets.
    pub value: serde_json::Value,
}

impl fmt::Debug for ServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServerEntry { scope, file, line, name, value: _ } = self;
        write!(f, "ServerEntry({name}, {scope:?}, {file}:{line})")
    }
}

impl McpSettings {
    pub(in crate::config) fn add_servers(&mut self, node: &Node, layer: &Layer) -> Option<()> {
        let Value::Map(members) = &node.value else { return None };
        for (name, node) in members.iter().filter(|(_, node)| node.value != Value::Null) {
            self.servers.retain(|entry| entry.name != *name);
            let (name, value, file) = (name.clone(), node.json(), layer.file.clone());
            self.servers.push(ServerEntry { scope: layer.scope, file, line: node.line, name, value });
        }
        Some(())
    }

    pub(in crate::config) fn add_list(&mut self, key: &str, node: &Node, layer: &Layer) -> Option<()> {
        let names = node.texts()?;
        self.lists.push((layer.scope, serde_json::json!({ "mcp": { key: names } })));
        Some(())
    }

    /// Each further flag narrows the list.
    pub(in crate::config) fn allow_only(&mut self, names: &[String]) {
        let names: Vec<String> =
            names.iter().flat_map(|names| names.split(',')).map(|name| name.trim().into()).collect();
        match &mut self.only {
            Some(only) => only.retain(|name| names.contains(name)),
            None => self.only = Some(names),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::settings::{Format, Layer, SettingScope, Settings, load};
    use serde_json::json;

    fn loaded(layers: &[(SettingScope, &str)]) -> (Settings, Vec<String>) {
        let layer = |(scope, text): &(SettingScope, &str)| Layer {
            scope: *scope,
            file: format!("{scope:?}"),
            format: Format::Json,
            text: (*text).into(),
        };
        load(&layers.iter().map(layer).collect::<Vec<_>>(), &|_| Some("expanded".into()))
    }

    #[test]
    fn hosts_of_servers_that_clients_name() {
        for (text, expected) in [
            ("H.example", Some(("h.example", None))),
            ("h:81", Some(("h", Some(81)))),
            ("10.0.0.1:8", Some(("10.0.0.1", Some(8)))),
            ("[::1]:8", Some(("::1", Some(8)))),
            ("[::1]", Some(("::1", None))),
            ("h:x", None),
            ("http://h", None),
            ("", None),
        ] {
            let expected = expected.map(|(host, port): (&str, Option<u16>)| (host.to_owned(), port));
            assert_eq!(super::client_host(text), expected, "{text}");
        }
    }

    #[test]
    fn servers_are_kept_as_written_and_later_files_replace_them_whole() {
        let (settings, messages) = loaded(&[
            (SettingScope::User, r#"{"mcpServers": {"a": {"command": "$X", "trust": true}, "b": {"url": "u"}}}"#),
            (
                SettingScope::Workspace,
                "{\n\"mcpServers\": {\n\"a\": {\"command\": \"c\", \"env\": {\"K\": \"s3cret\"}}}}",
            ),
        ]);
        assert_eq!(messages, Vec::<String>::new());
        assert!(!format!("{settings:?}").contains("s3cret"));
        let found = settings.mcp.servers;
        assert_eq!((found[0].name.as_str(), found[0].scope), ("b", SettingScope::User));
        assert_eq!((found[1].name.as_str(), found[1].scope, found[1].line), ("a", SettingScope::Workspace, 3));
        assert_eq!(found[1].value, json!({"command": "c", "env": {"K": "s3cret"}}));
        let (settings, _) = loaded(&[(SettingScope::User, r#"{"mcpServers": {"a": {"command": "$X"}}}"#)]);
        assert_eq!(settings.mcp.servers[0].value, json!({"command": "$X"}), "its own rules for variables");
    }

    #[test]
    fn lists_are_kept_with_their_layers() {
        let (settings, messages) = loaded(&[
            (SettingScope::User, r#"{"allowMCPServers": ["a"], "mcp": {"excluded": ["b"]}}"#),
            (SettingScope::Workspace, r#"{"excludeMCPServers": ["c"], "mcp": {"allowed": 5}, "mcpServers": []}"#),
        ]);
        let list = |scope, key: &str, name: &str| (scope, json!({"mcp": {key: [name]}}));
        assert_eq!(
            settings.mcp.lists,
            [
                list(SettingScope::User, "allowed", "a"),
                list(SettingScope::User, "excluded", "b"),
                list(SettingScope::Workspace, "excluded", "c")
            ]
        );
        assert_eq!(
            messages,
            [
                "Workspace, line 1: mcpServers must be a map of servers; it is left out",
                "Workspace, line 1: mcp.allowed must be a list of names; it is left out",
            ]
        );
    }

    #[test]
    fn repeated_flags_narrow_the_list_of_servers() {
        let mut settings = Settings::default();
        settings.mcp.allow_only(&["a,b".into(), "c".into()]);
        settings.mcp.allow_only(&["c, a".into()]);
        assert_eq!(settings.mcp.only, Some(vec!["a".to_owned(), "c".to_owned()]));
    }
}
