//! Whether git may read a repository without approval: all of it is in the workspace, and its configuration contains only settings
//! that are known to be harmless. Settings of a repository can name programs that git runs.

use super::index;
use crate::limits::{GIT_CONFIG_BYTES, GIT_INDEX_BYTES};
use crate::tool::files::path::{PathTarget, ResolvedPath, Workspace};
use regex_lite::Regex;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Checks the repository that git finds from `dir`, a real path in the workspace. The error says why it needs approval.
pub(in crate::tool) fn check(workspace: &Workspace, dir: &Path) -> Result<(), String> {
    let repository = find(workspace, dir)?;
    for name in ["commondir", "objects/info/alternates", "objects/info/http-alternates"] {
        if exists(workspace, &repository.join(name)) {
            return Err(format!("the git repository leads elsewhere by {name}"));
        }
    }
    for name in ["HEAD", "config", "index", "info", "logs", "objects", "packed-refs", "refs", "shallow"] {
        let path = repository.join(name);
        if let Some(ResolvedPath { found: PathTarget::File(entry), .. }) = real(workspace, &path)?
            && entry.is_active()
        {
            return Err(format!("{} is a pipe or a device", path.display()));
        }
    }
    let text = read(workspace, &repository.join("config"))?;
    if let Some(setting) = unknown_setting(&text, is_harmless) {
        return Err(format!("the git repository's configuration has {setting}"));
    }
    check_submodules(workspace, &repository, &text)
}

/// Checks the submodules: `git status` and `git diff` run git in every submodule of the index, with the submodule's own configuration. A
/// setting with which this program runs git makes it ignore submodules, but `.gitmodules` has priority over the setting, and if that
/// file does not exist, so has its version in the last commit.
fn check_submodules(workspace: &Workspace, repository: &Path, config: &str) -> Result<(), String> {
    let Some(bytes) = bytes(workspace, &repository.join("index"), GIT_INDEX_BYTES)? else {
        return Ok(());
    };
    let has_submodules = hash_bytes(config).and_then(|hash_bytes| index::names_submodules(&bytes, hash_bytes));
    if !has_submodules.ok_or("the git repository's index is not understood")? {
        return Ok(());
    }
    let modules = repository.with_file_name(".gitmodules");
    if !exists(workspace, &modules) {
        return Err("the git repository has submodules, but no .gitmodules".into());
    }
    let is_usual = |section: &str, key: &str| {
        let usual = ["branch", "fetchrecursesubmodules", "path", "shallow", "update", "url"];
        section == "submodule" && usual.contains(&key)
    };
    match unknown_setting(&read(workspace, &modules)?, is_usual) {
        None => Ok(()),
        Some(setting) => Err(format!("the git repository has submodules, and .gitmodules has {setting}")),
    }
}

/// The length of object names according to the configuration; None if it is ambiguous.
fn hash_bytes(config: &str) -> Option<usize> {
    let mentions = |line: &&str| line.to_lowercase().contains("objectformat");
    let mut lines = config.lines().map(str::trim).filter(mentions);
    let (first, second) = (lines.next(), lines.next());
    match (first.map(|line| line.split_once('=').map(|(key, value)| (key.trim(), value.trim()))), second) {
        (None, None) => Some(20),
        (Some(Some((key, "sha1"))), None) if key.eq_ignore_ascii_case("objectformat") => Some(20),
        (Some(Some((key, "sha256"))), None) if key.eq_ignore_ascii_case("objectformat") => Some(32),
        _ => None,
    }
}

/// Searches like git: the first directory upwards that contains `.git` or is a repository itself.
fn find(workspace: &Workspace, dir: &Path) -> Result<PathBuf, String> {
    for dir in dir.ancestors() {
        let git = dir.join(".git");
        match real(workspace, &git)?.map(|resolved| resolved.found) {
            Some(PathTarget::Directory(_)) => return Ok(git),
            Some(PathTarget::File(_)) => {
                return Err("the git repository is not in the workspace: .git is a file".into());
            }
            Some(PathTarget::Nothing(_)) | None => {}
        }
        if exists(workspace, &dir.join("HEAD")) && exists(workspace, &dir.join("objects")) {
            return Err(format!("{} looks like a bare git repository", dir.join(".").display()));
        }
    }
    Err("there is no git repository in the workspace".into())
}

/// Resolves a path. A link in it is an error.
fn real(workspace: &Workspace, path: &Path) -> Result<Option<ResolvedPath>, String> {
    match workspace.resolve(path) {
        Ok(Some(resolved)) if resolved.below != resolved.named => Err(format!("{} is a link", path.display())),
        Ok(found) => Ok(found),
        Err(why) => Err(format!("{} {why}", path.display())),
    }
}

fn exists(workspace: &Workspace, path: &Path) -> bool {
    // A path that cannot be resolved counts as existing.
    !matches!(workspace.resolve(path), Ok(None | Some(ResolvedPath { found: PathTarget::Nothing(_), .. })))
}

fn read(workspace: &Workspace, path: &Path) -> Result<String, String> {
    let bytes = bytes(workspace, path, GIT_CONFIG_BYTES)?.unwrap_or_default();
    String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display()))
}

/// The content of a file; None if it does not exist.
fn bytes(workspace: &Workspace, path: &Path, most: u64) -> Result<Option<Vec<u8>>, String> {
    let entry = match real(workspace, path)?.map(|resolved| resolved.found) {
        Some(PathTarget::File(entry)) => entry,
        Some(PathTarget::Nothing(_)) => return Ok(None),
        Some(PathTarget::Directory(_)) | None => return Err(format!("{} is not a file", path.display())),
    };
    let mut bytes = Vec::new();
    let file = entry.open().map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    if bytes.len() as u64 > most {
        return Err(format!("{} is larger than {most} bytes", path.display()));
    }
    Ok(Some(bytes))
}

/// The first unknown setting, or a line that is not understood.
fn unknown_setting(text: &str, is_known: impl Fn(&str, &str) -> bool) -> Option<String> {
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        // A value that continues on the next line could contain anything.
        if line.ends_with('\\') {
            return Some("a value of several lines".into());
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('[') {
            match header(line) {
                Some(name) => section = name,
                None => return Some(format!("a line that is not understood: {line}")),
            }
            continue;
        }
        let key = line.split('=').next().unwrap_or(line).trim().to_lowercase();
        if !is_known(&section, &key) {
            return Some(format!("{section}.{key}"));
        }
    }
    None
}

/// The name of the section in `[name]` or `[name "part"]`. Nothing else may be on the line.
fn header(line: &str) -> Option<String> {
    static HEADER: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"^\[([A-Za-z0-9-]+)( \s*"[^"\\]*"\s*)?\]$"#).expect("the expression is valid"));
    Some(HEADER.captures(line)?[1].to_lowercase())
}

/// Settings that name neither a program nor another place.
fn is_harmless(section: &str, key: &str) -> bool {
    let among = |keys: &str| keys.split_ascii_whitespace().any(|known| known == key);
    match section {
        "advice" | "branch" | "color" | "fetch" | "gc" | "init" | "maintenance" | "pull" | "push" | "user" => true,
        "commit" => among("gpgsign verbose"),
        "core" => among(
            "abbrev autocrlf bare checkstat eol filemode hidedotfiles ignorecase logallrefupdates longpaths precomposeunicode \
             preloadindex protecthfs protectntfs quotepath repositoryformatversion safecrlf sharedrepository symlinks trustctime \
             untrackedcache whitespace",
        ),
        "extensions" => among("objectformat refstorage"),
        "remote" => among("fetch gh-resolved mirror prune prunetags pushurl skipdefaultupdate tagopt url"),
        // For a summary of submodules, git runs itself in each of them.
        "status" => key != "submodulesummary",
        "submodule" => among("active branch fetchrecursesubmodules path url"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_object_names() {
        assert_eq!(hash_bytes("[core]\n\tbare = false\n"), Some(20));
        assert_eq!(hash_bytes("[extensions]\n\tobjectFormat = sha256\n"), Some(32));
        assert_eq!(hash_bytes("[extensions]\n\tobjectformat=sha1\n"), Some(20));
        for unclear in ["= sha256 ; a comment", "= \"sha256\"", "= sha512", "", "= sha1\n\tobjectFormat = sha256"] {
            assert_eq!(hash_bytes(&format!("[extensions]\n\tobjectFormat {unclear}\n")), None, "{unclear}");
        }
        assert_eq!(hash_bytes("[user]\n\tname = objectFormat = sha256\n"), None);
    }

    #[test]
    fn only_harmless_settings_are_accepted() {
        let usual = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
            # a comment\n; another\n\n[remote \"origin\"]\n\turl = git@host:a/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
            [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = A \"B\" C\n\temail=a@b\n[CORE]\n\tEOL = lf\n\
            [submodule \"a b\"]\n\tactive = true\n[push]\n\tdefault\n";
        assert_eq!(unknown_setting(usual, is_harmless), None);
        assert_eq!(unknown_setting("", is_harmless), None);
        assert_eq!(unknown_setting("[core]\r\n\tbare = false\r\n", is_harmless), None);
        for (text, named) in [
            ("[core]\n\tpager = evil", "core.pager"),
            ("[core]\n\tfsmonitor = evil", "core.fsmonitor"),
            ("[CORE]\n\tFsMonitor=evil", "core.fsmonitor"),
            ("[core]\n\thooksPath = x", "core.hookspath"),
            ("[core]\n\tsshCommand = x", "core.sshcommand"),
            ("[core]\n\tworktree = /", "core.worktree"),
            ("[core]\n\tattributesFile = x", "core.attributesfile"),
            ("[core]\n\teditor = x", "core.editor"),
            ("[diff \"x\"]\n\ttextconv = evil", "diff.textconv"),
            ("[diff]\n\texternal = evil", "diff.external"),
            ("[filter \"x\"]\n\tclean = evil", "filter.clean"),
            ("[include]\n\tpath = /x", "include.path"),
            ("[includeIf \"gitdir:/\"]\n\tpath = /x", "includeif.path"),
            ("[alias]\n\tstatus = !evil", "alias.status"),
            ("[gpg]\n\tprogram = evil", "gpg.program"),
            ("[credential]\n\thelper = evil", "credential.helper"),
            ("[extensions]\n\tworktreeConfig = true", "extensions.worktreeconfig"),
            ("[extensions]\n\tpartialClone = origin", "extensions.partialclone"),
            ("[remote \"o\"]\n\tpromisor = true", "remote.promisor"),
            ("[remote \"o\"]\n\tuploadpack = evil", "remote.uploadpack"),
            ("[submodule \"o\"]\n\tignore = none", "submodule.ignore"),
            ("[submodule \"o\"]\n\tupdate = !evil", "submodule.update"),
            ("[submodule]\n\trecurse = true", "submodule.recurse"),
            ("[status]\n\tsubmoduleSummary = true", "status.submodulesummary"),
            ("[log]\n\tshowSignature = true", "log.showsignature"),
            ("[interactive]\n\tdiffFilter = evil", "interactive.difffilter"),
            ("pager = evil", ".pager"),
            ("[user]\n\tname = x \\\n[core]\n\tpager = evil", "several lines"),
            ("[core] pager = evil", "not understood"),
            ("[diff.x]\n\ttextconv = evil", "not understood"),
            ("[user \"a\\\"]\n[core\"]\n\tpager = x", "not understood"),
            ("\u{feff}[core]\n\tbare = false", "."),
        ] {
            let found = unknown_setting(text, is_harmless).unwrap_or_else(|| panic!("{text:?} was accepted"));
            assert!(found.contains(named), "{text:?}: {found}");
        }
    }
}
