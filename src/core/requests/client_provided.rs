//! What a client provides for its task: MCP servers, and a key for the model API. Their credentials are passed to the shell, which keeps them
//! in memory; the log has only the names and URLs of the servers, and whether there is a key.

use crate::base::id::TaskId;
use crate::base::secret::Secret;
use crate::core::connections::connection::Peer;
use crate::core::requests::Caller;
use crate::core::{Core, Out};
use crate::limits::access::CLIENT_KEY_CHARS;
use crate::mcp::config::Server;
use crate::mcp::config::client::{Client, Request, servers, shown};
use crate::task::call::Settings;
use crate::task::fault::{Fault, FaultKind};
use serde_json::Value;

impl Core {
    /// The servers that a request names. A task has the servers of its first message; later messages can only give the same ones again,
    /// which a restart has dropped from memory.
    pub(in crate::core) fn named_servers(
        &self,
        caller: &Caller,
        task: Option<&TaskId>,
        settings: &Settings,
    ) -> Result<Vec<Server>, Fault> {
        let known = task.and_then(|task| self.tasks.get(task)).map(|loaded| &loaded.state.created.servers);
        let Some(wish) = settings.servers.as_ref().filter(|_| known.is_none_or(|known| !known.is_empty())) else {
            return Ok(Vec::new());
        };
        let wish: Value = serde_json::from_str(wish.reveal()).unwrap_or_default();
        let conn = self.connections.get(caller.conn);
        let client = match conn {
            Some(conn) if conn.is_local() => Client::Local,
            // A proxy of this user may be between a credential and this server.
            Some(conn) if conn.peer == Peer::SameUser && caller.principal.credential.is_none() => Client::SameUser,
            Some(_) | None => Client::Other,
        };
        let mcp = &self.settings.client_mcp;
        let own_ports = &self.settings.host_policy.ports;
        let request = Request { allowed: &mcp.allowed, client, own_ports, taken: &mcp.taken };
        let mut named = servers(&wish, &request).map_err(|why| {
            let why = why.trim_end_matches('.');
            Fault::new(FaultKind::McpServerNotAllowed, format!("MCP_SERVER_NOT_ALLOWED: {why}. Nothing was started."))
        })?;
        named.retain(|server| known.is_none_or(|known| known.contains(&shown(server))));
        Ok(named)
    }

    /// Passes the servers of a task to the shell.
    pub(in crate::core) fn pass_servers(&mut self, task: &TaskId, servers: Vec<Server>) {
        if !servers.is_empty() {
            self.out.push(Out::ClientServers { task: task.clone(), servers });
        }
    }

    /// The key that a request gives. A task has the key of its first message; later messages can only give it again, because a restart has
    /// dropped it from memory. A task without a key gets none.
    pub(in crate::core) fn client_key(
        &self,
        task: Option<&TaskId>,
        settings: &Settings,
    ) -> Result<Option<Secret>, Fault> {
        let Some(key) = &settings.api_key else {
            return Ok(None);
        };
        if !self.settings.request_policy.client_keys {
            return Err(Fault::params(
                "This server takes no API keys from clients; leave apiKey out and use the server's own.",
            ));
        }
        let text = key.reveal();
        let is_word = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_word || text.len() > CLIENT_KEY_CHARS {
            return Err(Fault::params("apiKey must be one word: a key for the model API."));
        }
        let known = task.and_then(|task| self.tasks.get(task)).map(|loaded| loaded.state.created.client_key);
        Ok((known != Some(false)).then(|| key.clone()))
    }

    /// Passes the key of a task to the shell.
    pub(in crate::core) fn pass_key(&mut self, task: &TaskId, key: Option<Secret>) {
        if let Some(key) = key {
            self.out.push(Out::ClientKey { task: task.clone(), key });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::{Dialect, Form};
    use crate::core::test_core::TestCore;
    use crate::mcp::config::client::ClientServers;
    use crate::task::message::Source;

    /// Whether a request of such a peer may name a server at this URL.
    fn is_allowed(allowed: &ClientServers, peer: Peer, url: &str) -> Result<(), String> {
        let mut test = TestCore::new();
        test.core.settings.client_mcp.allowed = allowed.clone();
        let conn = test.core.opened(peer, test.now);
        let (form, by) = (Form::of(Dialect::RPC_03), Source::new("ann", "test"));
        let caller = Caller { conn, form, by, principal: test.principal.clone() };
        let wish = serde_json::json!({ "x": { "url": url } }).to_string();
        let settings = Settings { servers: Some(Secret::new(wish)), ..Settings::default() };
        test.core.named_servers(&caller, None, &settings).map(drop).map_err(|fault| fault.message)
    }

    #[test]
    fn check_71_only_the_same_user_may_name_servers_of_this_machine() {
        let near = "http://127.0.0.1:7000/mcp";
        assert_eq!(is_allowed(&ClientServers::Loopback, Peer::SameUser, near), Ok(()));
        for peer in [Peer::MaybeTool, Peer::OwnerUnknown, Peer::Stranger, Peer::Anybody] {
            let why = is_allowed(&ClientServers::Loopback, peer, near).expect_err("it is refused");
            assert!(why.starts_with("MCP_SERVER_NOT_ALLOWED: "), "{peer:?}: {why}");
            is_allowed(&ClientServers::Off, peer, near).expect_err("it is refused");
        }
        let listed = ClientServers::Listed(vec![("mcp.example.com".into(), None)]);
        for peer in [Peer::SameUser, Peer::Anybody] {
            assert_eq!(is_allowed(&listed, peer, "https://mcp.example.com/mcp"), Ok(()), "{peer:?}");
            is_allowed(&listed, peer, near).expect_err("it is not listed");
        }
    }
}
