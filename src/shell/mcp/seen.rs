//! What the workspaces' own servers started when they were last used: `mcp-seen.json` in the state directory. A project's settings
//! come with the project, so a server whose command has changed since somebody looked at it is not started.

use crate::base::json;
use crate::base::lock::lock;
use crate::limits::Limits;
use crate::shell::journal::user_files::replace;
use crate::shell::start::workspace_settings::read_plain;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub struct Seen {
    file: PathBuf,
    most: u64,
    writing: Mutex<()>,
}

/// The hashes of servers, by workspace and name.
type Hashes = BTreeMap<String, BTreeMap<String, String>>;

impl Seen {
    pub fn new(state_dir: &Path, limits: &Limits) -> Seen {
        Seen { file: state_dir.join("mcp-seen.json"), most: limits.settings_bytes, writing: Mutex::default() }
    }

    /// Whether a workspace's server starts what it started before. The first time is remembered.
    pub fn is_same(&self, workspace: &str, server: &str, hash: &str) -> io::Result<bool> {
        let _writing = lock(&self.writing);
        let mut hashes = self.read()?;
        match hashes.get(workspace).and_then(|servers| servers.get(server)) {
            Some(known) => Ok(known == hash),
            None => self.put(&mut hashes, workspace, server, hash).map(|()| true),
        }
    }

    /// Somebody allows what the server starts now.
    pub fn allow(&self, workspace: &str, server: &str, hash: &str) -> io::Result<()> {
        let _writing = lock(&self.writing);
        self.put(&mut self.read()?, workspace, server, hash)
    }

    fn read(&self) -> io::Result<Hashes> {
        let text = read_plain(&self.file, self.most)?;
        // A file that cannot be read counts as none.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    fn put(&self, hashes: &mut Hashes, workspace: &str, server: &str, hash: &str) -> io::Result<()> {
        hashes.entry(workspace.to_owned()).or_default().insert(server.to_owned(), hash.to_owned());
        replace(&self.file, &json::bytes(hashes), 0o600)
    }
}
