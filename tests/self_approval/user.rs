//! Tests of this file run as an ordinary user, because root may look into every process and trace it. Where the tests
//! run as root, each of them starts the test program again as another user, with everything that it needs in a
//! directory that this user can read.

use crate::support::TempDir;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Where a test that was started again finds the programs.
const PROGRAMS: &str = "GEMINI_A2A_TEST_PROGRAMS";

/// `nobody`, which every Linux has.
const USER: u32 = 65534;

/// The programs of a test.
pub struct Programs {
    pub server: PathBuf,
    pub attacker: PathBuf,
}

/// Runs the body of the test with this name as an ordinary user. Says so and does nothing where a program is missing.
pub fn as_ordinary_user(test: &str, body: impl FnOnce(&Programs)) {
    if let Some(dir) = std::env::var_os(PROGRAMS) {
        return body(&Programs::of(Path::new(&dir)));
    }
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    for program in if is_root { &["cc", "setpriv"][..] } else { &["cc"] } {
        if !has(program) {
            eprintln!("skipped: there is no {program} here");
            return;
        }
    }
    let shared = shared();
    let dir = shared.path();
    if !is_root {
        return body(&Programs::of(dir));
    }
    let status = Command::new("setpriv")
        .args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"])
        .arg(dir.join("test"))
        .args(["--exact", test, "--nocapture"])
        .env(PROGRAMS, dir)
        .env("TMPDIR", dir.join("tmp"))
        .current_dir(dir)
        .status()
        .expect("setpriv runs");
    assert!(status.success(), "as user {USER}: {status}");
}

/// Runs the body as root, which can become any user. Says so and does nothing where this is not root.
pub fn as_root(body: impl FnOnce(&Programs)) {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root || !has("cc") || !has("setpriv") {
        eprintln!("skipped: this takes root, cc and setpriv");
        return;
    }
    body(&Programs::of(shared().path()));
}

impl Programs {
    fn of(dir: &Path) -> Programs {
        Programs { server: dir.join("server"), attacker: dir.join("attacker") }
    }
}

/// The directory of the programs, shared by the tests that run at the same time and removed by the last of them.
fn shared() -> Arc<TempDir> {
    static SHARED: Mutex<Weak<TempDir>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let dir = Arc::new(prepare());
        *shared = Arc::downgrade(&dir);
        dir
    })
}

/// Copies and compiles the programs.
fn prepare() -> TempDir {
    let dir = TempDir::new("self-approval");
    let copy = |from: &Path, name: &str| {
        std::fs::copy(from, dir.path().join(name)).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    };
    copy(Path::new(env!("CARGO_BIN_EXE_gemini-a2a")), "server");
    copy(&std::env::current_exe().expect("we run"), "test");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/self_approval/attacker.c");
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-o"]).arg(dir.path().join("attacker")).arg(source).arg("-pthread");
    assert!(compile.status().expect("cc runs").success());
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open).expect("our own");
    // Fails where we are not root; then the directory is ours and stays so.
    let _ = chown(dir.folder("tmp"), Some(USER), Some(USER));
    dir
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).exists())
}
