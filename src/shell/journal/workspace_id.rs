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

/// The id of a workspace, for a task that is created or continued in it. It is created if there is none and the task is new. A workspace
/// that cannot be written has no id; its tasks can be continued only by the instance that has created them.
pub fn of(workspace: &Path, wish: SiteWish) -> Option<Arc<str>> {
    match wish {
        SiteWish::WithId => read(workspace).ok(),
        SiteWish::Usable | SiteWish::Commands | SiteWish::StartedCommands => read_or_create(workspace).ok(),
    }
}

/// The id of a workspace. It is created if there is none.
pub fn read_or_create(workspace: &Path) -> io::Result<Arc<str>> {
    let (folder, path) = (workspace.join(FOLDER), file(workspace));
    fs::create_dir_all(&folder)?;
    // A link may come with a repository, and lead anywhere.
    if fs::symlink_metadata(&folder)?.is_symlink() {
        return Err(io::Error::other(format!("{} is a link", folder.display())));
    }
    if !path.exists() {
        create(&folder, &path)?;
    }
    read(workspace)
}

/// Creates the file with the id, unless another instance creates it at the same time. The file gets its name when it is complete, so that
/// nobody reads a part of an id.
fn create(folder: &Path, path: &Path) -> io::Result<()> {
    let id = sys::entropy().uuid();
    let aside = folder.join(format!("a2a-workspace-{id}"));
    let created = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
    let linked =
        created(&aside).and_then(|mut file| file.write_all(id.as_bytes())).and_then(|()| fs::hard_link(&aside, path));
    // If the temporary file cannot be deleted, it does no harm.
    let _ = fs::remove_file(&aside);
    let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
    match linked {
        Err(error) if !is_taken(&error) => match created(path) {
            // A file system without links.
            Ok(mut file) => file.write_all(id.as_bytes()),
            Err(error) if is_taken(&error) => Ok(()),
            Err(error) => Err(error),
        },
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The id that a workspace has already.
fn read(workspace: &Path) -> io::Result<Arc<str>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn instances_that_start_at_the_same_time_make_one_id() {
        let root = std::env::temp_dir().join(format!("workspace-id-{}", sys::entropy().uuid()));
        for n in 0..200 {
            let workspace = root.join(n.to_string());
            let ids: Vec<_> = thread::scope(|scope| {
                let makers: Vec<_> =
                    (0..4).map(|_| scope.spawn(|| read_or_create(&workspace).expect("an id"))).collect();
                makers.into_iter().map(|maker| maker.join().expect("it ends")).collect()
            });
            assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
            let files = fs::read_dir(workspace.join(FOLDER)).expect("a folder").count();
            assert_eq!(files, 1);
        }
        fs::remove_dir_all(root).expect("it is removed");
    }
}
