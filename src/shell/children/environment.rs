//! The environment of child processes. It contains only variables of a list of names, so that no key or token of the server reaches a
//! command.

use crate::mcp::config::is_inherited;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

pub type Environment = Vec<(OsString, OsString)>;

/// Variables that are passed on: about the user, and where tools are installed. None of them contains secrets.
const PASSED_ON: [&str; 33] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "COLORTERM",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "no_proxy",
    "EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
];

/// Passed on if they name a host and nothing else: a user, a path or a query may be a secret.
const PROXIES: [&str; 6] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Set for every child: no pagers, no prompts, no programs that the user's or a repository's git settings choose.
const SET: [(&str, &str); 14] = [
    ("GEMINI_CLI", "1"),
    ("TERM", "xterm-256color"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS", ""),
    ("DISPLAY", ""),
    ("DBUS_SESSION_BUS_ADDRESS", ""),
    ("GH_PROMPT_DISABLED", "1"),
    ("GCM_INTERACTIVE", "never"),
];

/// Git settings that override those of a repository. An editor that does nothing keeps the text git proposes. `diff.external` is
/// missing: git takes an empty one for a program, and `git diff` would fail everywhere.
const GIT: [(&str, &str); 7] = [
    ("credential.helper", ""),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "ssh"),
    ("core.editor", ":"),
    ("sequence.editor", ":"),
    ("core.pager", "cat"),
];

/// Further settings for commands without approval: they cannot read the user's files, and a repository that is nothing but a
/// directory of the workspace does not count.
const GIT_READ_ONLY: [(&str, &str); 5] = [
    ("core.excludesFile", "/dev/null"),
    ("core.attributesFile", "/dev/null"),
    ("diff.ignoreSubmodules", "all"),
    ("safe.bareRepository", "explicit"),
    ("core.untrackedCache", "false"),
];

/// The environment of an approved command.
pub fn approved(env: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
    let mut clean: Environment = env.into_iter().filter(|(name, value)| is_passed_on(name, value)).collect();
    for (_, path) in clean.iter_mut().filter(|(name, _)| name == "PATH") {
        // A relative directory is in the workspace, and its programs would replace those of the system.
        let absolute: Vec<PathBuf> = std::env::split_paths(path).filter(|dir| dir.is_absolute()).collect();
        *path = std::env::join_paths(absolute).unwrap_or_default();
    }
    clean.extend(SET.iter().map(|(name, value)| ((*name).into(), (*value).into())));
    clean.extend(git_settings(&GIT));
    clean
}

/// The environment of an MCP server, to which its settings add. It may use the user's git configuration.
pub fn server(env: &Environment) -> Environment {
    let passes = |(name, value): &&(OsString, OsString)| {
        name.to_str().zip(value.to_str()).is_some_and(|(name, value)| is_inherited(name, value))
    };
    let known = env.iter().filter(passes);
    known.cloned().chain([("GEMINI_CLI".into(), "1".into())]).collect()
}

/// The environment of a command without approval: programs come from `programs` only.
pub fn read_only(approved: &Environment, programs: &[PathBuf]) -> Environment {
    let is_replaced = |name: &OsStr| {
        let settings: [&[u8]; 3] = [b"GIT_CONFIG_COUNT", b"GIT_CONFIG_KEY_", b"GIT_CONFIG_VALUE_"];
        name == "PATH" || settings.iter().any(|setting| name.as_encoded_bytes().starts_with(setting))
    };
    let mut env: Environment = approved.iter().filter(|(name, _)| !is_replaced(name)).cloned().collect();
    env.push(("PATH".into(), std::env::join_paths(programs).unwrap_or_default()));
    // `git status` would otherwise try to write the index it has refreshed.
    env.push(("GIT_OPTIONAL_LOCKS".into(), "0".into()));
    let settings: Vec<_> = GIT.into_iter().chain(GIT_READ_ONLY).collect();
    env.extend(git_settings(&settings));
    env
}

/// The directories of `PATH` that hold programs from outside of every workspace, and none of the directories that must stay closed
/// (`private`). A relative one would mean the workspace. All paths are real ones.
pub fn program_directories(env: &Environment, workspaces: &[PathBuf], private: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for dir in path_of(env) {
        let Some(real) = dir.is_absolute().then(|| dir.canonicalize().ok()).flatten() else {
            continue;
        };
        let apart = |workspace: &PathBuf| !real.starts_with(workspace) && !workspace.starts_with(&real);
        let opens = private.iter().any(|closed| closed.starts_with(&real));
        if workspaces.iter().all(apart) && !opens && !found.contains(&dir) {
            found.push(dir);
        }
    }
    found
}

/// The directories of `PATH`.
pub fn path_of(env: &Environment) -> Vec<PathBuf> {
    let path = env.iter().find(|(name, _)| name == "PATH").map_or(OsStr::new("/usr/bin:/bin"), |(_, path)| path);
    std::env::split_paths(path).collect()
}

/// The path of a program in the first of these directories that has it.
pub fn find_program(program: &OsStr, dirs: &[PathBuf]) -> Option<PathBuf> {
    dirs.iter().map(|dir| dir.join(program)).find(|path| path.is_file())
}

fn git_settings(settings: &[(&str, &str)]) -> Environment {
    let mut env: Environment = vec![("GIT_CONFIG_COUNT".into(), settings.len().to_string().into())];
    for (at, (name, value)) in settings.iter().enumerate() {
        env.push((format!("GIT_CONFIG_KEY_{at}").into(), name.into()));
        env.push((format!("GIT_CONFIG_VALUE_{at}").into(), value.into()));
    }
    env
}

fn is_passed_on(name: &OsStr, value: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    if name == "LANG" || name.starts_with("LC_") {
        return value.to_str().is_some_and(has_same_characters);
    }
    PASSED_ON.contains(&name) || (PROXIES.contains(&name) && value.to_str().is_some_and(names_only_a_host))
}

/// Whether programs in this locale read the bytes of a command line as the same characters as this program. In some others (GBK, Big5, Shift_JIS) the second byte of
/// a character may be a backslash or a bar, and bash finds other commands in the line than were approved.
fn has_same_characters(locale: &str) -> bool {
    let codeset = locale.split('@').next().and_then(|locale| locale.split_once('.')).map(|(_, codeset)| codeset);
    matches!(locale, "" | "C" | "POSIX")
        || codeset.is_some_and(|name| name.eq_ignore_ascii_case("UTF-8") || name.eq_ignore_ascii_case("utf8"))
}

/// `http://proxy.example:3128/`, `proxy:3128`, `http://[::1]:8080`.
fn names_only_a_host(proxy: &str) -> bool {
    let rest = proxy.split_once("://").map_or(proxy, |(_, rest)| rest);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    !rest.is_empty()
        && rest.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn only_listed_names_are_passed_on() {
        let given = env(&[
            ("PATH", ".:/bin::bin"),
            ("LC_ALL", "C"),
            ("GEMINI_API_KEY", "secret"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/secret"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("LD_PRELOAD", "/evil.so"),
            ("BASH_ENV", "/evil"),
            ("BASH_FUNC_ls%%", "() { evil; }"),
            ("https_proxy", "http://proxy:3128"),
            ("http_proxy", "http://me:secret@proxy:3128"),
            ("TERM", "dumb"),
        ]);
        let names: Vec<String> = approved(given)
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .filter(|pair| !pair.starts_with("GIT_CONFIG_"))
            .collect();
        let expected = [
            "PATH=/bin",
            "LC_ALL=C",
            "https_proxy=http://proxy:3128",
            "GEMINI_CLI=1",
            "TERM=xterm-256color",
            "PAGER=cat",
            "GIT_PAGER=cat",
            "GIT_TERMINAL_PROMPT=0",
            "GIT_ASKPASS=",
            "SSH_ASKPASS=",
            "DISPLAY=",
            "DBUS_SESSION_BUS_ADDRESS=",
            "GH_PROMPT_DISABLED=1",
            "GCM_INTERACTIVE=never",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_server_gets_inherited_variables_and_no_secret() {
        let given = env(&[
            ("PATH", "/bin"),
            ("LC_CTYPE", "de_DE"),
            ("XDG_RUNTIME_DIR", "/run"),
            ("GEMINI_API_KEY", "secret"),
            ("CARGO_HOME", "/c"),
            ("https_proxy", "http://proxy:3128/x"),
            ("http_proxy", "http://me:secret@proxy:3128"),
            ("NODE_OPTIONS", "--require evil"),
        ]);
        let names: Vec<String> = server(&given).iter().map(|(name, _)| name.display().to_string()).collect();
        assert_eq!(names, ["PATH", "LC_CTYPE", "XDG_RUNTIME_DIR", "https_proxy", "GEMINI_CLI"]);
    }

    #[test]
    fn no_credential_of_this_program_is_passed_on() {
        let given = || crate::config::options::credential_variables().map(|name| (name.into(), "secret".into()));
        let all: Environment = given().collect();
        assert!(all.len() > 5);
        assert_eq!(approved(given()), approved([]));
        assert_eq!(server(&all), server(&Environment::new()));
    }

    #[test]
    fn only_locales_with_the_same_characters_are_passed_on() {
        for name in ["LANG", "LC_ALL", "LC_CTYPE"] {
            let kept = |value: &str| approved(env(&[(name, value)])).iter().any(|(given, _)| given == name);
            for good in ["", "C", "POSIX", "C.UTF-8", "en_US.UTF-8", "de_DE.utf8@euro"] {
                assert!(kept(good), "{name}={good}");
            }
            for bad in ["zh_CN.GBK", "zh_TW.big5", "ja_JP.SJIS", "zh_CN", "de_DE", "UTF-8", "x.GBK@a.UTF-8"] {
                assert!(!kept(bad), "{name}={bad}");
            }
        }
    }

    #[test]
    fn a_proxy_is_passed_on_only_if_it_names_nothing_but_a_host() {
        for good in ["http://proxy:3128", "proxy:3128", "http://proxy.example/", "socks5://[::1]:1080", "http://10_a-b"]
        {
            assert!(names_only_a_host(good), "{good}");
        }
        for bad in [
            "",
            "http://",
            "http://me:secret@proxy",
            "me:secret%40x@proxy",
            "http://p/?token=secret",
            "http://p/secret",
        ] {
            assert!(!names_only_a_host(bad), "{bad}");
        }
    }

    #[test]
    fn programs_of_a_workspace_are_not_in_the_path() {
        let root = std::env::temp_dir().canonicalize().expect("a temporary directory");
        let workspace = root.join("gemini-a2a-environment");
        let bin = workspace.join("bin");
        std::fs::create_dir_all(&bin).expect("it is writable");
        let path =
            format!(".::{}:/usr/bin:{}:/usr/bin:/nowhere:{}:/", bin.display(), workspace.display(), root.display());
        let found =
            program_directories(&env(&[("PATH", &path)]), std::slice::from_ref(&workspace), &["/usr/lib".into()]);
        assert_eq!(found, [PathBuf::from("/usr/bin")]);
        std::fs::remove_dir_all(&workspace).expect("it was made here");
    }
}
