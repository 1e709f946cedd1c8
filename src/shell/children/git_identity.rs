//! The user's name and e-mail for git. Commands do not get the user's git configuration, because it can name programs. They get a file
//! with these two settings in place of it, so the configuration of a repository still has priority.
//!
//! Git itself is asked for them, in the directory of the command, because the user's configuration may include others depending on the
//! repository.

use super::environment::Environment;
use crate::limits::{GIT_IDENTITIES, GIT_IDENTITY_BYTES, GIT_IDENTITY_MS};
use crate::task::log::blob::sha256;
use crate::tool::Child;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names the configuration that git reads as the user's.
pub const VARIABLE: &str = "GIT_CONFIG_GLOBAL";

/// The question to git, which a shell starts as it does every program of tools.
pub fn question(shell: PathBuf, git: PathBuf) -> Vec<OsString> {
    let words = ["config", "--global", "--includes", "--null", "--get-regexp", r"^user\.(name|email)$"];
    let start = [shell.into(), "-c".into(), r#"exec "$@""#.into(), "git".into(), git.into()];
    start.into_iter().chain(words.map(OsString::from)).collect()
}

/// The environment of an approved command without the variable. In it git sees the user's configuration.
pub fn without_configuration(approved: &Environment) -> Environment {
    approved.iter().filter(|(name, _)| name != VARIABLE).cloned().collect()
}

/// The whole output of a program. None if it prints too much or takes too long.
pub fn answer(child: &dyn Child) -> Option<String> {
    let until = Instant::now() + Duration::from_millis(GIT_IDENTITY_MS);
    let mut bytes = Vec::new();
    loop {
        let remaining = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        match poll(&mut [PollFd::from_borrowed_fd(child.output(), PollFlags::IN)], remaining.as_ref()) {
            Err(Errno::INTR) => continue,
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
        let mut buffer = [0; 1024];
        match rustix::io::read(child.output(), &mut buffer).ok()? {
            0 => return String::from_utf8(bytes).ok(),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
        if bytes.len() > GIT_IDENTITY_BYTES {
            return None;
        }
    }
}

/// The configuration that commands get, made of git's answer: `user.name`, a line break, the value, a zero byte. Of several values the
/// last one counts, as it does for git. None if git knows neither.
pub fn configuration(answer: &str) -> Option<String> {
    let mut text = String::new();
    for key in ["name", "email"] {
        let value =
            |entry: &'_ str| Some(entry.strip_prefix("user.")?.strip_prefix(key)?.strip_prefix('\n')?.to_owned());
        if let Some(value) = answer.rsplit('\0').find_map(value) {
            let value: String = value.chars().filter(|c| !c.is_control()).collect();
            text += &format!("\t{key} = \"{}\"\n", value.replace('\\', r"\\").replace('"', "\\\""));
        }
    }
    (!text.is_empty()).then(|| format!("[user]\n{text}"))
}

/// Writes a configuration to a file whose name is its hash, unless the file is there already. A command may have changed the file, so its
/// content is compared.
pub fn store(dir: &Path, configuration: &str) -> io::Result<PathBuf> {
    let path = dir.join(sha256(configuration.as_bytes()));
    if fs::read(&path).is_ok_and(|bytes| bytes == configuration.as_bytes()) {
        return Ok(path);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let entries = || fs::read_dir(dir).map(|entries| entries.flatten());
    if entries()?.count() >= GIT_IDENTITIES {
        entries()?.for_each(|entry| drop(fs::remove_file(entry.path())));
    }
    let temporary = path.with_extension(format!("{:?}", std::thread::current().id()));
    fs::write(&temporary, configuration)?;
    fs::rename(&temporary, &path)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;

    #[test]
    fn only_the_name_and_the_address_are_taken() {
        let answer = "user.name\nold\0user.email\nann@example.com\0user.signingkey\nx\0user.name\nAnn \"A\\\n[core]\0core.pager\nevil\0";
        let expected = "[user]\n\tname = \"Ann \\\"A\\\\[core]\"\n\temail = \"ann@example.com\"\n";
        assert_eq!(configuration(answer).as_deref(), Some(expected));
        assert_eq!(configuration("user.email\nx\0").as_deref(), Some("[user]\n\temail = \"x\"\n"));
        assert_eq!((configuration(""), configuration("user.names\nx\0")), (None, None));
    }

    #[test]
    fn a_changed_file_is_rewritten_and_old_ones_are_removed_at_the_limit() {
        let scratch = Scratch::new();
        let dir = scratch.path().join("git");
        let path = store(&dir, "one").expect("it can be written");
        fs::write(&path, "changed").expect("it is ours");
        assert_eq!(store(&dir, "one").expect("it can be written"), path);
        assert_eq!(fs::read(&path).expect("it is there"), b"one");
        let count = || fs::read_dir(&dir).expect("it is there").count();
        for n in 1..GIT_IDENTITIES {
            store(&dir, &n.to_string()).expect("it can be written");
        }
        assert_eq!(count(), GIT_IDENTITIES);
        store(&dir, "one more").expect("it can be written");
        assert_eq!(count(), 1);
    }
}
