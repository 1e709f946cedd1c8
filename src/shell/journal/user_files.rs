//! Files of the user that this program changes: settings, memory, credentials. They are small and always replaced as a whole, so that no
//! reader sees a part of a change and a crash leaves the old content or the new one.

use crate::base::lock::lock;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// Held while a file is read, changed and replaced: two workers that change the same file at the same time would lose one of the changes.
pub fn lock_for_change() -> MutexGuard<'static, ()> {
    static CHANGING: Mutex<()> = Mutex::new(());
    lock(&CHANGING)
}

/// Replaces a file by one with these bytes and this mode, or leaves everything as it was.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let new = with_suffix(path, &format!(".{}", std::process::id()));
    let written = write_new(&new, bytes, mode).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // Best effort: the error itself is what counts.
        let _ = fs::remove_file(&new);
    }
    written?;
    File::open(dir)?.sync_all()
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // A killed process may have left it. No other process uses this name.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

/// The path with this at the end of its file name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
