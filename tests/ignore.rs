//! Ignore files, compared with git: random trees with random `.gitignore` files, for which `git check-ignore` and the walk of this
//! program must agree. The trees stay the same, because files are slow to create; the rules of each tree change in every round. Trees and
//! rules come from seeds, so that a difference can be reproduced.

#[path = "support/random.rs"]
mod random;

use gemini_a2a::base::cancel::Cancel;
use gemini_a2a::limits::Limits;
use gemini_a2a::tool::files::path::Workspace;
use gemini_a2a::tool::search::ignore::{EntryKind, IgnoreSources, Rules};
use gemini_a2a::tool::search::walk::{Visitor, Walk, WalkedFile};
use random::Random;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TREES: u64 = 40;
const ROUNDS: u64 = 50;

const NAMES: [&str; 22] = [
    "a", "b", "ab", "abc", "a.c", "b.c", "foo", "foo.bar", "Foo", "b c", "a ", "#a", "!a", "[a]", "a*b", "a\\b", "-",
    "ä", "_", "x1", "x2", "]",
];

fn segment(random: &mut Random) -> String {
    const PIECES: [&str; 34] = [
        "*",
        "*",
        "?",
        "**",
        "***",
        "[ab]",
        "[!a]",
        "[^b]",
        "[a-c]",
        "[]a]",
        "[]-a]",
        "[a",
        "[[:alpha:]]",
        "[[:digit:]x]",
        "[[:nope:]]",
        "[\\]a]",
        "[a-\\c]",
        "[--a]",
        "[[:a]",
        "\\*",
        "\\a",
        "\\#",
        "\\!",
        "\\ ",
        "a",
        "b",
        "c",
        ".",
        "foo",
        "x",
        "ä",
        " ",
        "#",
        "!",
    ];
    match random.below(3) {
        0 => random.one_of(&NAMES).to_string(),
        1 => random.one_of(&["*", "**", "*.c", "a*", "foo", "ab", "***", "a**", "foo**"]).to_string(),
        _ => (0..1 + random.below(4)).map(|_| random.one_of(&PIECES)).collect(),
    }
}

fn pattern(random: &mut Random) -> String {
    let mut text = String::new();
    if random.below(4) == 0 {
        text.push('!');
    }
    if random.below(4) == 0 {
        text.push('/');
    }
    let segments: Vec<String> = (0..1 + random.below(3) * random.below(2)).map(|_| segment(random)).collect();
    text += &segments.join("/");
    if random.below(4) == 0 {
        text.push('/');
    }
    text += random.one_of(&["", "", "", "", " ", "  ", "\\ ", "\\", "\t", "\r"]);
    text
}

fn ignore_file(random: &mut Random) -> String {
    let mut text = random.one_of(&["", "", "", "\u{feff}", "# a comment\n", "\n"]).to_string();
    for _ in 0..1 + random.below(5) {
        text += &pattern(random);
        text += random.one_of(&["\n", "\n", "\n", "\r\n", "\n\n"]);
    }
    if random.below(4) == 0 {
        text += &pattern(random);
    }
    text
}

/// The paths of the random trees, relative to the repository.
#[derive(Default)]
struct TreePaths {
    files: Vec<PathBuf>,
    /// The `.gitignore` of every directory.
    ignore: Vec<PathBuf>,
}

/// Creates a random tree in `dir`, and adds its paths to `paths`.
fn create_tree(random: &mut Random, root: &Path, dir: &Path, depth: usize, paths: &mut TreePaths) {
    fs::create_dir_all(root.join(dir)).expect("the temporary directory is writable");
    paths.ignore.push(dir.join(".gitignore"));
    let mut names = BTreeSet::new();
    for _ in 0..3 + random.below(3) {
        names.insert(random.one_of(&NAMES));
    }
    for name in names {
        let path = dir.join(name);
        if depth < 3 && random.below(2) == 0 {
            create_tree(random, root, &path, depth + 1, paths);
        } else {
            fs::write(root.join(&path), "").expect("it is ours");
            paths.files.push(path);
        }
    }
}

/// Gives the trees new rules: always in their top directory, sometimes also below. Returns the new `.git/info/exclude`.
fn write_rules(random: &mut Random, root: &Path, paths: &TreePaths) -> String {
    for path in &paths.ignore {
        let text =
            if path.components().count() == 2 || random.below(3) == 0 { ignore_file(random) } else { String::new() };
        overwrite(&root.join(path), &text);
    }
    let exclude: String = (0..random.below(3)).map(|_| pattern(random) + "\n").collect();
    overwrite(&root.join(".git/info/exclude"), &exclude);
    exclude
}

/// Writes a file without emptying it first, because some file systems then wait for the disk.
fn overwrite(path: &Path, text: &str) {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(false).open(path).expect("it is ours");
    file.write_all(text.as_bytes()).expect("it is ours");
    file.set_len(text.len() as u64).expect("it is ours");
}

struct ShownFiles(BTreeSet<PathBuf>);

impl Visitor for ShownFiles {
    fn enters(&mut self, _: &[u8]) -> bool {
        true
    }

    fn file(&mut self, file: &WalkedFile) {
        let path = String::from_utf8(file.path.to_vec()).expect("the names are text");
        self.0.insert(path.into());
    }

    fn hidden(&mut self, _: &[u8], _: EntryKind) {}
}

/// The files that a walk through the workspace shows.
fn shown(workspace: &Workspace) -> BTreeSet<PathBuf> {
    let (cancel, limits) = (Cancel::default(), Limits::default());
    let top = fs::File::open(workspace.path()).expect("it opens");
    let walk = Walk {
        cancel: &cancel,
        limits: &limits,
        skipped: &[".git"],
        dir: top.as_fd(),
        path: Path::new(""),
        rules: Rules::around(workspace, IgnoreSources::ALL, &limits),
    };
    let mut shown = ShownFiles(BTreeSet::new());
    let walked = walk.run(&mut shown);
    assert_eq!((walked.unread, walked.stopped), (0, None));
    shown.0
}

fn git(dir: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    git
}

/// Those of the paths that git ignores.
fn ignored_by_git(dir: &Path, paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut child = git(dir)
        .args(["check-ignore", "-z", "--stdin", "--no-index"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git was there a moment ago");
    let mut input = child.stdin.take().expect("it is piped");
    let list: Vec<u8> =
        paths.iter().flat_map(|path| [path.to_str().expect("text").as_bytes(), b"\0"].concat()).collect();
    let writer = std::thread::spawn(move || input.write_all(&list));
    let output = child.wait_with_output().expect("git ends");
    writer.join().expect("it does not panic").expect("git reads everything");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{:?}", output.status);
    let text = String::from_utf8(output.stdout).expect("the names are text");
    text.split_terminator('\0').map(PathBuf::from).collect()
}

fn git_is_missing() -> bool {
    let missing = Command::new("git").arg("--version").output().is_err();
    if missing {
        eprintln!("skipped: there is no git to compare with");
    }
    missing
}

struct TempDirectory(PathBuf);

impl TempDirectory {
    fn new(name: &str) -> TempDirectory {
        let path = std::env::temp_dir().join(format!("gemini-a2a-ignore-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        TempDirectory(path.canonicalize().expect("it was just made"))
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn init(dir: &Path) {
    fs::create_dir_all(dir).expect("the temporary directory is writable");
    let done = git(dir).args(["init", "-q"]).status().expect("git starts");
    assert!(done.success());
}

#[test]
fn ignore_rules_agree_with_git_on_random_trees() {
    if git_is_missing() {
        return;
    }
    let temp = TempDirectory::new("random");
    let root = &temp.0;
    init(root);
    let mut paths = TreePaths::default();
    for tree in 0..TREES {
        let top = format!("t{tree}");
        create_tree(&mut Random::new(tree), root, Path::new(&top), 0, &mut paths);
    }
    let limits = Limits::default();
    let (mut hidden, mut all) = (0, 0);
    for round in 0..ROUNDS {
        let exclude = write_rules(&mut Random::new(round + 1_000_000), root, &paths);
        let ignored = ignored_by_git(root, &paths.files);
        let workspace = Workspace::open(root).expect("it opens");
        let shown = shown(&workspace);
        for (i, path) in paths.files.iter().enumerate() {
            let expected = ignored.contains(path);
            let context = || {
                let files = rules_about(root, path, &exclude);
                format!("round {round}: {path:?}, hidden by this program (left), by git (right)\n{files}")
            };
            assert_eq!(!shown.contains(path), expected, "{}", context());
            // For some of the files, the function that `read_file` calls for a single file is checked too.
            if i as u64 % 17 == round % 17 {
                let ours = Rules::hide_file(&workspace, path, IgnoreSources::ALL, &limits);
                assert_eq!(ours, expected, "{}", context());
            }
        }
        hidden += ignored.len();
        all += paths.files.len();
    }
    assert!(hidden * 5 > all && hidden * 5 < all * 4, "{hidden} of {all} hidden: too one-sided to tell anything");
}

/// The texts of the ignore files in the directories that contain a path.
fn rules_about(root: &Path, path: &Path, exclude: &str) -> String {
    let mut text = format!("exclude: {exclude:?}\n");
    for dir in path.ancestors().skip(1) {
        if let Ok(file) = fs::read_to_string(root.join(dir).join(".gitignore")) {
            text += &format!("{dir:?}: {file:?}\n");
        }
    }
    text
}

#[test]
fn ignore_files_above_the_workspace_apply() {
    if git_is_missing() {
        return;
    }
    let temp = TempDirectory::new("above");
    let root = temp.0.join("r");
    init(&root);
    for (path, text) in [
        (".gitignore", "*.log\n/pkg/web/out\npkg/**/tmp\n!keep.log\n"),
        (".git/info/exclude", "secret\n"),
        ("pkg/.gitignore", "web/gen\n"),
        ("pkg/web/.gitignore", "!b.log\n"),
    ] {
        fs::create_dir_all(root.join(path).parent().expect("it has one")).expect("ours");
        fs::write(root.join(path), text).expect("ours");
    }
    let mut files = Vec::new();
    for path in ["a.log", "b.log", "keep.log", "out/x", "gen/x", "src/tmp/x", "src/secret", "src/x", "out.txt"] {
        let full = root.join("pkg/web").join(path);
        fs::create_dir_all(full.parent().expect("it has one")).expect("ours");
        fs::write(full, "").expect("ours");
        files.push(PathBuf::from(path));
    }
    let dir = root.join("pkg/web");
    let ignored = ignored_by_git(&dir, &files);
    let expected: BTreeSet<PathBuf> = files.into_iter().filter(|path| !ignored.contains(path)).collect();
    let mut ours = shown(&Workspace::open(&dir).expect("it opens"));
    ours.remove(Path::new(".gitignore"));
    assert_eq!(ours, expected);
    assert_eq!(expected.len(), 4, "b.log, keep.log, src/x and out.txt");
}
