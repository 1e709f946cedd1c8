//! Tests of path resolution: which paths are found, followed and refused.

use super::*;
use crate::limits::PATH_LINKS;
use crate::tool::tests::Scratch;
use std::os::unix::fs::symlink;

fn shown(resolved: Result<ResolvedPath, CallError>) -> String {
    match resolved {
        Ok(resolved) => {
            let kind = match resolved.found {
                PathTarget::Directory(_) => "dir",
                PathTarget::File(_) => "file",
                PathTarget::Nothing(_) => "nothing",
            };
            format!("{kind} {}", resolved.relative())
        }
        Err(error) => error.kind.word().to_string(),
    }
}

#[test]
fn paths_are_resolved_and_links_inside_are_followed() {
    let scratch = Scratch::new();
    let root = scratch.path().to_str().expect("plain").to_string();
    scratch.put("a/b.txt", "x");
    scratch.put("@odd/c", "x");
    scratch.put("sp ace%20", "x");
    symlink("a", scratch.path().join("to_a")).expect("link");
    symlink(format!("{root}/a/b.txt"), scratch.path().join("absolute")).expect("link");
    symlink("../a/new", scratch.path().join("a/dangling")).expect("link");
    symlink("loop", scratch.path().join("loop")).expect("link");
    let workspace = Workspace::open(scratch.path()).expect("it opens");
    let cases = [
        ("a/b.txt", "file a/b.txt"),
        ("./a//b.txt", "file a/b.txt"),
        ("a/../a/b.txt", "file a/b.txt"),
        (".", "dir ."),
        (&root, "dir ."),
        (&format!("{root}/a"), "dir a"),
        (&format!("file://{root}/sp%20ace%2520"), "file sp ace%20"),
        ("sp ace%20", "file sp ace%20"),
        ("to_a/b.txt", "file a/b.txt"),
        ("to_a/../a", "dir a"),
        ("absolute", "file a/b.txt"),
        ("a/dangling", "nothing a/new"),
        ("a/x/y/z", "nothing a/x/y/z"),
        ("@a/b.txt", "file a/b.txt"),
        ("@odd/c", "file @odd/c"),
        ("@odd/new", "nothing @odd/new"),
        ("@a/new", "nothing a/new"),
        ("a/b.txt/", "file_not_found"),
        ("a/b.txt/c", "file_not_found"),
        ("nowhere/../a", "file_not_found"),
        ("nowhere/", "file_not_found"),
        ("loop", "file_not_found"),
        ("~/a/b.txt", "path_not_in_workspace"),
    ];
    for (path, expected) in cases {
        assert_eq!(shown(workspace.find(path)), expected, "{path}");
    }
}

#[test]
fn the_workspace_may_be_named_through_a_link() {
    let scratch = Scratch::new();
    scratch.put("real/a", "x");
    let link = scratch.path().join("link");
    symlink("real", &link).expect("link");
    let workspace = Workspace::open(&link).expect("it opens");
    assert_eq!(workspace.path(), scratch.path().join("real"));
    let through = link.join("a");
    let through = through.to_str().expect("plain");
    assert_eq!(shown(workspace.find(through)), "file a");
}

#[test]
fn other_directories_and_files_are_named_by_absolute_paths() {
    let (scratch, home) = (Scratch::new(), Scratch::new());
    home.put("in/a", "x");
    home.put("in/.git/config", "x");
    home.put("secret", "x");
    symlink("../secret", home.path().join("in/link")).expect("link");
    let of = |path: &str| format!("{}/{path}", home.path().display());
    let further = Workspace::further(&home.path().join("in")).expect("it opens");
    let (file, alias) = (Workspace::file(home.path(), "x/notes.md", "~/x/notes.md").expect("it opens"), "~/x/notes.md");
    for (path, expected) in [
        (of("in/a"), format!("file {}", of("in/a"))),
        (of("in"), format!("dir {}", of("in"))),
        (of("in/new"), format!("nothing {}", of("in/new"))),
        (of("in/link"), "path_not_in_workspace".into()),
        (of("in/../secret"), "path_not_in_workspace".into()),
    ] {
        assert_eq!((further.has(&path), shown(further.find(&path))), (true, expected), "{path}");
    }
    assert!(further.find_writable(&of("in/.git/config")).is_err());
    assert!(!further.has(&of("secret")) && !further.has("a") && !further.has(&of("inn")));
    let notes = format!("nothing {}", of("x/notes.md"));
    for path in [alias, &of("x/notes.md")] {
        assert_eq!((file.has(path), shown(file.find_writable(path))), (true, notes.clone()));
    }
    for path in ["~/secret", &of("secret"), &of("x/../secret"), "secret", "x/notes.md/../../secret"] {
        assert!(!file.has(path) && file.find(path).is_err(), "{path}");
    }
    let other = Workspace::open(scratch.path()).expect("it opens");
    assert!(!other.has(alias) && other.has(scratch.path().to_str().expect("plain")));
}

#[test]
fn protected_places_can_be_read_but_not_written() {
    let scratch = Scratch::new();
    scratch.put(".git/config", "x");
    symlink(".git", scratch.path().join("innocent")).expect("link");
    let workspace = Workspace::open(scratch.path()).expect("it opens");
    let refused = [
        ".git/config",
        ".GIT/config",
        ".git",
        "innocent/hooks/pre-commit",
        ".env",
        "sub/.Env. ",
        ".env::$DATA",
        "node_modules/x/index.js",
        "gha-creds-0123.json",
        "@.git/config",
    ];
    for path in refused {
        assert_eq!(shown(workspace.find_writable(path)), "policy_violation", "{path}");
    }
    assert_eq!(shown(workspace.find(".git/config")), "file .git/config");
    for path in [".gitignore", ".env.example", "my.env", "gha-creds.txt"] {
        assert_eq!(shown(workspace.find_writable(path)), format!("nothing {path}"));
    }
}

#[test]
fn the_length_of_paths_and_the_number_of_links_are_limited() {
    let scratch = Scratch::new();
    let workspace = Workspace::open(scratch.path()).expect("it opens");
    scratch.put("link0", "x");
    for n in 1..=PATH_LINKS + 1 {
        symlink(format!("link{}", n - 1), scratch.path().join(format!("link{n}"))).expect("link");
    }
    let links = |n: usize| shown(workspace.find(&format!("link{n}")));
    assert_eq!((links(PATH_LINKS).as_str(), links(PATH_LINKS + 1).as_str()), ("file link0", "file_not_found"));
    let name = |bytes: usize| workspace.find(&"x".repeat(bytes)).is_ok();
    assert_eq!((name(NAME_BYTES), name(NAME_BYTES + 1)), (true, false));
    let path = |bytes: usize| check_form(&"x/".repeat(bytes)[..bytes]).is_ok();
    assert_eq!((path(PATH_BYTES), path(PATH_BYTES + 1)), (true, false));
}
