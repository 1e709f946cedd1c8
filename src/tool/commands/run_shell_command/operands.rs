//! Resolves the operands and redirections of a command line.
//!
//! Read-only commands may run without approval, but only within the workspace: every path that they are given is resolved, links
//! included, from the directory in which they would run. Files that redirections write are checked as `write_file` checks its own.
//! Files can change before the command runs; then the kernel's confinement decides.

use super::repository;
use crate::limits::{LINE_DIRECTORIES, LINE_EDITS, LINE_PATHS};
use crate::task::command_line::{Joint, ReadAccess, Simple, Word, is_builtin, parse, read_only};
use crate::tool::Ctx;
use crate::tool::files::path::{PathTarget, ResolvedPath, Workspace, is_protected};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use std::path::{Path, PathBuf};

/// Checks a line that starts in `dir`, and returns the real paths of the files that it writes. The error says why its read-only commands
/// or these files need approval.
pub(in crate::tool) fn check(line: &str, dir: &ResolvedPath, ctx: &Ctx) -> Result<Vec<String>, String> {
    let Ok(commands) = parse(line) else {
        // Such a line needs approval by the policy.
        return Ok(Vec::new());
    };
    let dirs = Directories::new(dir.below.clone());
    let mut checker = LineChecker { ctx, dirs, remaining: LINE_PATHS, edits: Vec::new() };
    checker.check_all(&commands)?;
    Ok(checker.edits)
}

/// Whether [`check`] has anything to check: read-only commands, or files of redirections.
pub(in crate::tool) fn needs_check(line: &str) -> bool {
    let is_checked =
        |simple: &Simple| !simple.writes.is_empty() || !simple.reads.is_empty() || read_only(simple).is_ok();
    parse(line).is_ok_and(|commands| commands.iter().any(is_checked))
}

/// Checks the operands of the commands of a line, in all directories in which each may run.
struct LineChecker<'a> {
    ctx: &'a Ctx<'a>,
    dirs: Directories,
    /// How many more paths and directory entries may be checked.
    remaining: usize,
    edits: Vec<String>,
}

impl LineChecker<'_> {
    fn check_all(&mut self, commands: &[Simple]) -> Result<(), String> {
        for (at, simple) in commands.iter().enumerate() {
            let here = self.dirs.of(simple.joint);
            let next = commands.get(at + 1).map(|next| next.joint);
            let is_piped = simple.joint == Joint::Pipe || next == Some(Joint::Pipe);
            let known = read_only(simple).ok();
            let paths = here.len() * (1 + known.as_ref().map_or(0, |known| known.paths.len()));
            self.remaining = self.remaining.checked_sub(paths).ok_or("it has too many operands")?;
            for dir in &here {
                self.reach(simple, known.as_ref(), dir)?;
            }
            self.write(simple, &here)?;
            let moved = match known.as_ref().and_then(|known| known.moves_to.as_deref()) {
                Some(_) if is_piped => return Err("it changes the directory in a pipe".into()),
                Some(target) => here.iter().map(|dir| self.moved(dir, target)).collect::<Result<_, _>>()?,
                None => here.clone(),
            };
            if known.is_none()
                && matches!(simple.name(), "." | "cd" | "eval" | "popd" | "pushd" | "source")
                && next.is_some()
            {
                return Err(format!("the directory is not known after {}", simple.program()));
            }
            self.dirs.ran(simple.joint, here, moved)?;
        }
        Ok(())
    }

    /// Checks everything that a command reads if it runs in this directory.
    fn reach(&mut self, simple: &Simple, known: Option<&ReadAccess>, dir: &Path) -> Result<(), String> {
        for file in simple.reads.iter().filter(|_| known.is_none()) {
            self.inside(dir, file)?;
        }
        let Some(known) = known else {
            return Ok(());
        };
        for word in &known.paths {
            match word {
                Word { text, is_pattern: false } => {
                    let found = self.inside(dir, text)?;
                    if known.only_files && matches!(found, Some(ResolvedPath { found: PathTarget::Directory(_), .. })) {
                        return Err(format!("{text} is a directory, and links in it are followed"));
                    }
                }
                Word { text, is_pattern: true } => self.matches(dir, text)?,
            }
        }
        if known.is_git {
            repository::check(&self.ctx.workspace, dir)?;
        }
        if !is_builtin(simple.program()) {
            self.ctx.children.can_run_confined(simple.program())?;
        }
        Ok(())
    }

    /// Resolves a path. None if nothing can exist there.
    fn inside(&self, dir: &Path, text: &str) -> Result<Option<ResolvedPath>, String> {
        // Standard input, and the null device.
        if matches!(text, "-" | "/dev/null") {
            return Ok(None);
        }
        self.passive(&dir.join(text)).map_err(|why| format!("{text} {why}"))
    }

    /// Resolves a path. An error if reading the file may have an effect.
    fn passive(&self, path: &Path) -> Result<Option<ResolvedPath>, String> {
        match self.ctx.workspace.resolve(path)? {
            Some(ResolvedPath { found: PathTarget::File(entry), .. }) if entry.is_active() => {
                Err("is a pipe or a device".into())
            }
            found => Ok(found),
        }
    }

    fn moved(&self, dir: &Path, target: &str) -> Result<PathBuf, String> {
        match self.inside(dir, target)? {
            None => Ok(dir.to_path_buf()),
            // The shell keeps the path with the link, so `..` means another directory for it than for programs.
            Some(resolved) if resolved.below != resolved.named => Err(format!("cd {target} follows a link")),
            Some(resolved) => Ok(resolved.below),
        }
    }

    /// Checks every file that a pattern may match. It may check more files than the pattern matches, never fewer.
    fn matches(&mut self, dir: &Path, pattern: &str) -> Result<(), String> {
        let mut bases = vec![match pattern.starts_with('/') {
            true => PathBuf::from("/"),
            false => dir.to_path_buf(),
        }];
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            let wild = |c: char| "*?[]".contains(c);
            let (Some(first), Some(last)) = (part.find(wild), part.rfind(wild)) else {
                bases = bases.into_iter().map(|base| base.join(part)).collect();
                continue;
            };
            let (start, end) = (&part.as_bytes()[..first], &part.as_bytes()[last + 1..]);
            let mut matched = Vec::new();
            for base in bases {
                let resolved = self.ctx.workspace.resolve(&base).map_err(|why| format!("{pattern} {why}"))?;
                let names = resolved.map(|resolved| resolved.names(self.remaining + 1)).transpose();
                let names = names.map_err(|error| format!("{} cannot be read: {error}", base.display()))?;
                for name in names.unwrap_or_default() {
                    let too_many = || format!("{pattern} is compared with too many files");
                    self.remaining = self.remaining.checked_sub(1).ok_or_else(too_many)?;
                    let bytes = name.as_encoded_bytes();
                    let fits = bytes.starts_with(start) && bytes.ends_with(end) && !bytes.starts_with(b".");
                    matched.extend(fits.then(|| base.join(name)));
                }
            }
            bases = matched;
        }
        for path in bases {
            self.passive(&path).map_err(|why| format!("{} {why}", path.display()))?;
        }
        Ok(())
    }

    fn write(&mut self, simple: &Simple, dirs: &[PathBuf]) -> Result<(), String> {
        for file in &simple.writes {
            let [dir] = dirs else {
                return Err(format!("where {file} is depends on another command"));
            };
            let resolved = writable(&self.ctx.workspace, &dir.join(file)).map_err(|why| format!("{file} {why}"))?;
            let path = resolved.real();
            if !self.edits.contains(&path) {
                self.edits.push(path);
            }
            if self.edits.len() > LINE_EDITS {
                return Err("it writes too many files".into());
            }
        }
        Ok(())
    }
}

/// Resolves a file that a redirection may write: one that `write_file` could write, and not through a link.
fn writable(workspace: &Workspace, path: &Path) -> Result<ResolvedPath, String> {
    let Some(resolved) = workspace.resolve(path)? else {
        return Err("is below a file".into());
    };
    let own = |part: &str| matches!(part.to_lowercase().as_str(), ".gemini" | ".vscode");
    let is_own = resolved.below.components().any(|part| part.as_os_str().to_str().is_none_or(own));
    if is_own || is_protected(&resolved.below) || is_protected(&resolved.named) {
        return Err("is protected".into());
    }
    if resolved.below != resolved.named {
        return Err("leads through a link".into());
    }
    match &resolved.found {
        PathTarget::Directory(_) => return Err("is a directory".into()),
        PathTarget::Nothing(missing) if !missing.has_parent() => {
            return Err("is in a directory that does not exist".into());
        }
        PathTarget::Nothing(_) => {}
        PathTarget::File(entry) => {
            let stat = rustix::fs::statat(&entry.dir, &entry.name, AtFlags::SYMLINK_NOFOLLOW);
            let stat = stat.map_err(|errno| format!("cannot be looked at: {errno}"))?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink > 1 {
                return Err("is not a plain file, or has a second name".into());
            }
        }
    }
    Ok(resolved)
}

/// Creates a file that a confined command may write, unless it exists: the kernel's rule applies to the file itself and not to its
/// name.
pub(in crate::tool) fn ready_to_write(workspace: &Workspace, path: &str) -> Result<PathBuf, String> {
    let resolved = writable(workspace, Path::new(path))?;
    if let PathTarget::Nothing(missing) = resolved.found {
        let (entry, _) = missing.make_parents().map_err(|error| error.to_string())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&entry.dir, &entry.name, flags, Mode::from_raw_mode(0o666))
            .map_err(|errno| format!("cannot be created: {errno}"))?;
    }
    Ok(PathBuf::from(path))
}

/// The directories, relative to the workspace, in which the next command may run: `cd` may succeed or fail.
struct Directories {
    /// The directories if the previous command succeeded.
    succeeded: Vec<PathBuf>,
    /// The directories if the previous command failed.
    failed: Vec<PathBuf>,
    /// The directories of the pipe that contains the previous command.
    piped: Vec<PathBuf>,
}

impl Directories {
    fn new(start: PathBuf) -> Directories {
        Directories { succeeded: vec![start], failed: Vec::new(), piped: Vec::new() }
    }

    fn of(&self, joint: Joint) -> Vec<PathBuf> {
        match joint {
            Joint::Then => union(&self.succeeded, &self.failed),
            Joint::And => self.succeeded.clone(),
            Joint::Or => self.failed.clone(),
            Joint::Pipe => self.piped.clone(),
        }
    }

    /// Records that a command ran in `here`; if it succeeded, the next one runs in `moved`.
    fn ran(&mut self, joint: Joint, here: Vec<PathBuf>, moved: Vec<PathBuf>) -> Result<(), String> {
        match joint {
            Joint::Then => (self.succeeded, self.failed) = (moved, here.clone()),
            Joint::And => (self.succeeded, self.failed) = (moved, union(&self.failed, &here)),
            Joint::Or => (self.succeeded, self.failed) = (union(&self.succeeded, &moved), here.clone()),
            Joint::Pipe => {}
        }
        self.piped = here;
        match self.succeeded.len().max(self.failed.len()) > LINE_DIRECTORIES {
            true => Err("it changes the directory too often".into()),
            false => Ok(()),
        }
    }
}

fn union(some: &[PathBuf], more: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = some.to_vec();
    all.extend(more.iter().filter(|dir| !some.contains(dir)).cloned());
    all
}
