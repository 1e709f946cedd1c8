//! Confines a command that runs without approval: the kernel lets it read one workspace and the system's programs, run those programs,
//! write to `/dev/null`, and nothing else.
//!
//! Two mechanisms, because neither is enough. Landlock decides about opening, creating, removing and executing files by where
//! they are, and keeps signals and abstract sockets inside the domain where the kernel knows how to. It does not decide about
//! modes, owners, times and attributes of files, about sockets with a path, UDP, System V objects or other processes' limits:
//! those system calls fail by a seccomp filter.
//!
//! Both bind the calling thread and everything it starts from then on, for good. Executing is allowed by place, but a
//! loader or an interpreter of the system can run code of the workspace. That code is confined, too: what counts is the effect.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod calls;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
#[path = "confine/no_calls.rs"]
mod calls;

use crate::limits::CONFINED_DATA_BYTES;
use calls::restrict_calls;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::process::{Resource, Rlimit};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directories of programs, libraries and their data.
const SYSTEM: [&str; 9] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"];

/// The files of the configuration that programs read. Other files in `/etc` may contain secrets that the user may read.
const CONFIGURATION: [&str; 12] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/group",
    "/etc/hostname",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/magic",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/timezone",
];

/// The files that a command may use.
pub struct Bounds {
    pub workspace: PathBuf,
    /// Files below the workspace that may be written.
    pub writable: Vec<PathBuf>,
    /// Further directories with programs: those of `PATH` that are outside of every workspace.
    pub programs: Vec<PathBuf>,
}

/// Whether this kernel can confine commands; if not, why, as a sentence without its full stop.
pub fn available() -> Result<(), String> {
    ruleset().and_then(|ruleset| Ok(ruleset.create()?)).map_err(|_| {
        "The kernel does not offer Landlock with its third set of rights (Linux 6.2 or newer, Landlock turned on)"
            .to_owned()
    })?;
    // A filter can be tested only by entering it, which cannot be undone, so a thread does it and ends.
    let tried = std::thread::spawn(restrict_calls).join();
    match tried {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("The kernel takes no system call filter: {error}")),
        Err(_) => Err("The system call filter could not be tried".to_owned()),
    }
}

/// Confines the calling thread and all processes that it starts. An error means that nothing may be started.
pub fn enter(bounds: &Bounds) -> io::Result<()> {
    // A core dump would be a file written by the command.
    limit(Resource::Core, 0)?;
    limit(Resource::Data, CONFINED_DATA_BYTES)?;
    restrict_files(bounds).map_err(|error| io::Error::other(error.to_string()))?;
    restrict_calls()
}

/// Whether this real path is in a directory that every confined command may read.
pub fn is_of_system(path: &Path) -> bool {
    SYSTEM.iter().any(|dir| path.starts_with(dir))
}

/// Lowers a limit of this process and its descendants.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let maximum = rustix::process::getrlimit(resource).maximum.map_or(most, |set| set.min(most));
    Ok(rustix::process::setrlimit(resource, Rlimit { current: Some(maximum), maximum: Some(maximum) })?)
}

/// Whether a confined command can run the program of this path. Programs of the system can be run. One of another directory in
/// `PATH` must be a whole program by itself: scripts and links there start others, from directories that are closed (rustup, pyenv).
pub fn can_run(path: &Path, programs: &[PathBuf]) -> bool {
    let Ok(real) = path.canonicalize() else {
        return false;
    };
    if is_of_system(&real) {
        return true;
    }
    let is_whole = || {
        let mut magic = [0; 4];
        let mut file = std::fs::File::open(&real)?;
        file.read_exact(&mut magic)?;
        Ok::<_, io::Error>(magic == *b"\x7fELF" && file.metadata()?.nlink() == 1)
    };
    let is_below = |dir: &PathBuf| dir.canonicalize().is_ok_and(|dir| real.starts_with(dir));
    real.file_name() == path.file_name() && programs.iter().any(is_below) && is_whole().unwrap_or(false)
}

/// The rights that rules are about. The first set is indispensable: without `Truncate` a file could be emptied.
fn ruleset() -> Result<Ruleset, Box<dyn std::error::Error>> {
    Ok(Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V3))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::IoctlDev)?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::from_all(ABI::V6))?)
}

fn restrict_files(bounds: &Bounds) -> Result<(), Box<dyn std::error::Error>> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = AccessFs::WriteFile | AccessFs::Truncate;
    let workspace = open_directory(&bounds.workspace)?;
    let mut writable = Vec::new();
    for file in &bounds.writable {
        writable.push(PathBeneath::new(open_below(&workspace, &bounds.workspace, file)?, write));
    }
    let status = ruleset()?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read | AccessFs::Execute))?
        .add_rules(path_beneath_rules(&bounds.programs, read | AccessFs::Execute))?
        .add_rules(path_beneath_rules(CONFIGURATION, read))?
        .add_rule(PathBeneath::new(workspace, read))?
        .add_rules(writable.into_iter().map(Ok::<_, landlock::RulesetError>))?
        .add_rules(path_beneath_rules(["/dev/null"], write | AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(["/dev/zero", "/dev/urandom", "/dev/random"], AccessFs::ReadFile))?
        .restrict_self()?;
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("the kernel does not enforce Landlock".into()),
    }
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| with_path(path, errno))
}

/// A file below the workspace, without any link on the way: a rule is about the file that was opened, whatever its name means later.
fn open_below(workspace: &OwnedFd, root: &Path, file: &Path) -> io::Result<OwnedFd> {
    let relative = file.strip_prefix(root).map_err(|_| with_path(file, rustix::io::Errno::XDEV))?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(workspace, relative, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
        .map_err(|errno| with_path(file, errno))
}

fn with_path(path: &Path, errno: rustix::io::Errno) -> io::Error {
    io::Error::new(errno.kind(), format!("{}: {errno}", path.display()))
}
