//! The servers of workspaces that were started before: `mcp-seen.json` in the state directory. Settings of a workspace come with the
//! project, so a server whose command has changed since it was last used is not started until the user allows it.

use crate::base::json;
use crate::base::lock::lock;
use crate::limits::Limits;
use crate::shell::journal::user_files::replace;
use crate::shell::start::workspace_settings::read_plain;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub struct KnownServers {
    file: PathBuf,
    max_bytes: u64,
    writing: Mutex<()>,
}

/// The configuration hashes of servers, by workspace and name.
type Hashes = BTreeMap<String, BTreeMap<String, String>>;

impl KnownServers {
    pub fn new(state_dir: &Path, limits: &Limits) -> KnownServers {
        KnownServers {
            file: state_dir.join("mcp-seen.json"),
            max_bytes: limits.settings_bytes,
            writing: Mutex::default(),
        }
    }

    /// Whether a server of a workspace starts the same as before. A new server is recorded and counts as unchanged.
    pub fn is_unchanged(&self, workspace: &str, server: &str, hash: &str) -> io::Result<bool> {
        let _writing = lock(&self.writing);
        let mut hashes = self.read()?;
        match hashes.get(workspace).and_then(|servers| servers.get(server)) {
            Some(known) => Ok(known == hash),
            None => self.put(&mut hashes, workspace, server, hash).map(|()| true),
        }
    }

    /// Records the present configuration of a server, because the user allows it.
    pub fn allow(&self, workspace: &str, server: &str, hash: &str) -> io::Result<()> {
        let _writing = lock(&self.writing);
        self.put(&mut self.read()?, workspace, server, hash)
    }

    fn read(&self) -> io::Result<Hashes> {
        let text = read_plain(&self.file, self.max_bytes)?;
        // A file with invalid content counts as empty.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    fn put(&self, hashes: &mut Hashes, workspace: &str, server: &str, hash: &str) -> io::Result<()> {
        hashes.entry(workspace.to_owned()).or_default().insert(server.to_owned(), hash.to_owned());
        replace(&self.file, &json::bytes(hashes), 0o600)
    }
}
