//! The id of a workspace, in the file `.gemini/a2a-workspace`: instances that share a store and find the same id at the same path work in the
//! same files.

use crate::core::SiteWish;
use crate::limits::store::WORKSPACE_ID_BYTES;
use crate::shell::event_loop::sys;
use crate::shell::start::workspace_settings::read_plain;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FOLDER: &str = ".gemini";

/// The id of a workspace in which a task is to be created, or is to be continued that has been created. A workspace that cannot be
/// written has none: its tasks stay with their instance.
pub fn of(workspace: &Path, wish: SiteWish) -> Option<Arc<str>> {
    match wish {
        SiteWish::KnownPlace => known(workspace).ok(),
        SiteWish::Place | SiteWish::Commands | SiteWish::StartedCommands => made(workspace).ok(),
    }
}

/// The id of a workspace. It is made if there is none.
pub fn made(workspace: &Path) -> io::Result<Arc<str>> {
    let (folder, path) = (workspace.join(FOLDER), file(workspace));
    fs::create_dir_all(&folder)?;
    // It may come with a repository, and lead anywhere.
    if fs::symlink_metadata(&folder)?.is_symlink() {
        return Err(io::Error::other(format!("{} is a link", folder.display())));
    }
    match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(mut file) => file.write_all(sys::entropy().uuid().as_bytes())?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    known(workspace)
}

/// The id that a workspace has.
fn known(workspace: &Path) -> io::Result<Arc<str>> {
    let path = file(workspace);
    let text = read_plain(&path, WORKSPACE_ID_BYTES)?.unwrap_or_default();
    match text.trim() {
        "" => Err(io::Error::other(format!("{} is empty; delete it", path.display()))),
        id => Ok(id.into()),
    }
}

fn file(workspace: &Path) -> PathBuf {
    workspace.join(FOLDER).join("a2a-workspace")
}
