//! The findings of the shell tool's `prepare` on the disk, and the resulting decisions of the policy: links, `cd`, patterns, repositories
//! and the files of redirections.

use super::random::Random;
use super::{Allow, Asks, Case, SHELL, lines, plain};
use crate::tool_context::{ToolContext, run_of};
use gemini_a2a::limits::{GIT_CONFIG_BYTES, GIT_INDEX_BYTES, LINE_DIRECTORIES, LINE_EDITS, LINE_PATHS};
use gemini_a2a::task::policy::{Mode, Ruling};
use gemini_a2a::task::spec::{Confinement, Kind, Plan, Question};
use gemini_a2a::tool::commands::run_shell_command::Shell;
use gemini_a2a::tool::{Child, Ctx, Launch, Spawn, Tool};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a program would have been started with.
type Started = (Option<(PathBuf, Vec<PathBuf>)>, Vec<String>);

/// Can confine, or says why not. Starts nothing, and records what should have been started.
struct Children {
    confines: Result<(), String>,
    started: Mutex<Vec<Started>>,
}

impl Spawn for Children {
    fn spawn(&self, launch: Launch) -> io::Result<Box<dyn Child>> {
        let argv = launch.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let confined = launch.read_only.map(|confined| (confined.workspace, confined.writable));
        self.started.lock().expect("no test panics with it").push((confined, argv));
        Err(io::Error::other("nothing is started here"))
    }

    fn can_confine(&self, _: &Path) -> Result<(), String> {
        self.confines.clone()
    }

    fn can_run_confined(&self, program: &str) -> Result<(), String> {
        match program {
            "tree" => Err("tree is not among the system's programs".into()),
            _ => Ok(()),
        }
    }
}

/// A directory of the test's own with a hostile workspace in it.
struct Fixture {
    base: PathBuf,
    children: Children,
}

impl Fixture {
    fn new() -> Fixture {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("gemini-a2a-files-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let base = std::env::temp_dir().join(name);
        fs::create_dir_all(&base).expect("the temporary directory is writable");
        let base = base.canonicalize().expect("it was just made");
        lines::lay_out(&base);
        Fixture { base, children: Children { confines: Ok(()), started: Mutex::default() } }
    }

    fn work(&self) -> PathBuf {
        self.base.join("work")
    }

    fn write_file(&self, name: &str, text: &str) {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().expect("below the workspace")).expect("ours");
        fs::write(path, text).expect("ours");
    }

    fn link(&self, target: &str, name: &str) {
        symlink(target, self.work().join(name)).expect("ours");
    }

    fn with<T>(&self, call: impl FnOnce(&Ctx) -> T) -> T {
        ToolContext::default().with(&self.work(), &"t".into(), &self.children, call)
    }

    fn plan(&self, args: &Value) -> Plan {
        self.with(|ctx| Shell.prepare(args, ctx)).unwrap_or_else(|error| panic!("{args}: {error:?}"))
    }

    fn judge(&self, case: &Case, args: &Value) -> Ruling {
        case.judge(SHELL, Kind::Execute, args, &self.plan(args))
    }

    /// Why a line needs approval, by what is on the disk.
    fn reason(&self, line: &str) -> Option<String> {
        self.reason_of(&json!({ "command": line }))
    }

    fn reason_of(&self, args: &Value) -> Option<String> {
        match self.plan(args).question {
            Question::Exec { needs_approval, .. } => needs_approval,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn asks(&self, line: &str, because: &str) {
        let reason = self.reason(line).unwrap_or_else(|| panic!("{line:?} runs unasked"));
        assert!(reason.contains(because), "{line:?}: {reason}");
    }

    #[track_caller]
    fn runs(&self, line: &str) {
        assert_eq!(self.reason(line), None, "{line:?}");
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

#[test]
fn every_line_gets_its_decision_in_a_hostile_workspace() {
    let fixture = Fixture::new();
    let untrusted = Case { trusted: false, ..plain() };
    let confined = Confinement::ReadOnly { writable: vec![] };
    let mut wrong = Vec::new();
    for line in lines::UNASKED.iter().filter(|line| !line.starts_with("tree")) {
        let got = fixture.judge(&untrusted, &json!({ "command": line }));
        if (got.verdict, &got.confinement) != (Allow, &confined) {
            wrong.push(format!("{line:?} must run confined, not {got:?}"));
        }
    }
    for (line, why) in lines::ASKS.iter().chain(lines::LEADS_OUT).filter(|(line, _)| line.contains(|c| c > '#')) {
        let got = fixture.judge(&untrusted, &json!({ "command": line }));
        if got.verdict != Asks {
            wrong.push(format!("{line:?} must ask ({why}), not {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let everyday = lines::UNASKED.len();
    let all = everyday + lines::ASKS.len() + lines::LEADS_OUT.len();
    assert!(everyday >= 120 && all >= 300, "{everyday} of {all}");
}

#[test]
fn the_question_says_why_it_is_asked() {
    let mut fixture = Fixture::new();
    let warnings = |fixture: &Fixture, line: &str| match fixture.plan(&json!({ "command": line })).question {
        Question::Exec { warnings, .. } => warnings,
        other => panic!("{other:?}"),
    };
    assert_eq!(warnings(&fixture, "ls"), Vec::<String>::new());
    assert_eq!(warnings(&fixture, "make"), Vec::<String>::new());
    assert_eq!(warnings(&fixture, "cat passwd"), ["It needs approval: passwd leads out of the workspace."]);
    assert_eq!(
        warnings(&fixture, "cat '/etc/passwd'"),
        ["It needs approval: /etc/passwd is outside of the workspace."]
    );
    fixture.children.confines = Err("Landlock is missing".into());
    let missing = "commands that only read cannot be confined here (Landlock is missing)";
    assert_eq!(warnings(&fixture, "ls"), [format!("It needs approval: {missing}.")]);
    assert_eq!(warnings(&fixture, "make"), Vec::<String>::new(), "it asks anyway");
    let ruling = fixture.judge(&plain(), &json!({ "command": "ls" }));
    assert_eq!((ruling.verdict, ruling.reason.as_str()), (Asks, missing));
}

#[test]
fn the_background_and_foreign_programs_need_approval() {
    let fixture = Fixture::new();
    let background = |line: &str| fixture.reason_of(&json!({ "command": line, "is_background": true }));
    assert_eq!(background("ls").as_deref(), Some("it goes on running in the background"));
    assert_eq!(background("make"), None, "it asks anyway");
    let unconfined = fixture.reason_of(&json!({ "command": "ls", "unconfined": true }));
    assert_eq!(unconfined.as_deref(), Some("the agent asks to run it unconfined"));
    fixture.asks("tree src", "not among the system's programs");
    fixture.asks("ls && tree src", "not among the system's programs");
    fixture.runs("type tree");
}

#[test]
fn the_call_directory_and_cd_are_respected() {
    let fixture = Fixture::new();
    let within = |dir: &str, line: &str| fixture.reason_of(&json!({ "command": line, "dir_path": dir }));
    assert_eq!(within("src", "cat ../a.txt"), None);
    assert_eq!(
        within("src", "cat ../../outside/secret.txt").as_deref(),
        Some("../../outside/secret.txt leads out of the workspace")
    );
    assert_eq!(within("inside_dir", "cat ../a.txt"), None, "the directory itself, not its link");
    for line in [
        "cd src && cat ../a.txt",
        "cd src && cat main.rs || cat a.txt",
        "cd src && cat ../a.txt && cd sub && cat ../../a.txt",
        "cd src/sub; cat a.txt",
        "cd src/../docs && cat ../a.txt",
        "cd nothing && cat x",
        "cd a.txt && cat x",
        "cd src || cat a.txt",
        "ls | cat; cd src && ls ..",
    ] {
        fixture.runs(line);
    }
    for (line, because) in [
        ("cd src; cat ../a.txt", "../a.txt leads out"),
        ("cd src || cd docs; cat ../a.txt", "../a.txt leads out"),
        ("cd src && ls; cat ../a.txt", "../a.txt leads out"),
        ("cd src && cd .. && cat ../a.txt", "../a.txt leads out"),
        ("cd inside_dir && ls", "cd inside_dir follows a link"),
        ("cd outside_dir && ls", "outside_dir leads out"),
        ("cd src | ls", "in a pipe"),
        ("ls | cd src", "in a pipe"),
        ("pushd src; cat a.txt", "not known after pushd"),
        ("cd; cat a.txt", "not known after cd"),
        ("cd nothing && cat ../a.txt", "a directory that is not there"),
    ] {
        fixture.asks(line, because);
    }
    let many = |n: usize| format!("{}ls", (0..n).map(|n| format!("cd d{n}; ")).collect::<String>());
    let most = LINE_DIRECTORIES.ilog2() as usize;
    fixture.runs(&many(most - 1));
    fixture.asks(&many(most + 1), "too often");
}

#[test]
fn patterns_are_judged_by_everything_they_may_match() {
    let fixture = Fixture::new();
    for line in [
        "cat src/*.rs",
        "cat s*/*.rs",
        "cat src/s*/mod.rs",
        "cat nothing/*",
        "ls src/d*.md",
        "cat files/[a-z]*.txt",
        "wc -l s??/m*n.rs",
    ] {
        fixture.runs(line);
    }
    let inner = format!("cat {}/src/*.rs", fixture.work().display());
    fixture.runs(&inner);
    for (line, because) in [
        ("cat links/*.txt", "links/passwd.txt leads out"),
        ("cat links/p*", "links/passwd.txt leads out"),
        ("cat li*/good.txt links/?asswd.txt", "leads out"),
        ("ls links/*", "leads out"),
        ("ls links/d*/passwd", "leads out"),
        ("cat up/*", "up/* leads out"),
        ("cat /etc/*", "outside of the workspace"),
        ("cat src/d*", "leads out"),
        ("cat src/*/mod.rs", "src/dangling/mod.rs leads out"),
    ] {
        fixture.asks(line, because);
    }
    for n in 0..LINE_PATHS / 100 {
        fixture.write_file(&format!("many/{n}/x"), "");
    }
    fixture.runs("cat many/*/x");
    // Dots, and the entries of a directory that holds nothing but `x`.
    let one = format!("cat {}", "many/0/* ".repeat(LINE_PATHS / 4 - 1));
    fixture.runs(&one);
    fixture.asks(&format!("{one} many/0/*"), "too many files");
    for n in 0..=LINE_PATHS {
        fs::File::create(fixture.work().join(format!("many/{n:06}"))).expect("ours");
    }
    fixture.asks("cat many/0*", "too many files");
    fixture.runs(&format!("echo x; cat {}", "x ".repeat(LINE_PATHS - 2)));
    fixture.asks(&format!("echo x; cat {}", "x ".repeat(LINE_PATHS - 1)), "too many operands");
    let writes = |n: usize| (0..n).map(|n| format!("echo x > new{n};")).collect::<String>();
    fixture.runs(&writes(LINE_EDITS));
    fixture.asks(&writes(LINE_EDITS + 1), "too many files");
}

#[test]
fn reading_a_pipe_needs_approval() {
    let fixture = Fixture::new();
    let pipe = |name: &str| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, fixture.work().join(name), rustix::fs::FileType::Fifo, mode, 0)
            .expect("ours");
    };
    pipe("src/pipe");
    pipe(".git/packed-refs");
    fixture.link("src/pipe", "to_pipe");
    let _socket = std::os::unix::net::UnixListener::bind(fixture.work().join("docs/socket")).expect("ours");
    for line in
        ["cat src/pipe", "wc -l < src/pipe", "head -1 to_pipe", "cat src/p*", "cd src && cat pipe", "git status"]
    {
        fixture.asks(line, "is a pipe or a device");
    }
    // Nobody can read from a socket by its name, and what searches directories passes pipes over.
    for line in ["cat docs/s*", "grep -r x src", "ls src"] {
        fixture.runs(line);
    }
}

#[test]
fn git_reads_only_a_repository_of_the_workspace() {
    let fixture = Fixture::new();
    let config = |text: &str| fixture.write_file(".git/config", text);
    for line in ["git status", "cd src && git log", "git diff HEAD~1 -- src/main.rs", "git log origin/main..HEAD"] {
        fixture.runs(line);
    }
    config("[core]\n\tbare = false\n\tfsmonitor = touch x\n");
    fixture.asks("git status", "core.fsmonitor");
    fixture.runs("git --version");
    config(&format!("[user]\n\tname = {}\n", "x".repeat(GIT_CONFIG_BYTES as usize - 16)));
    fixture.runs("git status");
    config(&format!("[user]\n\tname = {}\n", "x".repeat(GIT_CONFIG_BYTES as usize)));
    fixture.asks("git status", "larger than");
    config("");
    fixture.write_file(".git/commondir", "../../outside\n");
    fixture.asks("git status", "commondir");
    fs::remove_file(fixture.work().join(".git/commondir")).expect("ours");
    fixture.write_file(".git/objects/info/alternates", "/elsewhere\n");
    fixture.asks("git status", "alternates");
    fs::remove_file(fixture.work().join(".git/objects/info/alternates")).expect("ours");
    fixture.asks("cd bare && git status", "bare git repository");
    // A repository within the repository.
    fixture.write_file("src/.git", "gitdir: ../../outside\n");
    fixture.asks("cd src && git status", ".git is a file");
    fixture.runs("git status");
    fs::remove_file(fixture.work().join("src/.git")).expect("ours");
    fixture.link("../.git", "src/.git");
    fixture.asks("cd src && git status", "is a link");
    // Links in the repository.
    for name in ["config", "HEAD", "objects", "refs", "index", "packed-refs"] {
        let (path, aside) = (fixture.work().join(".git").join(name), fixture.work().join("aside"));
        let moved = fs::rename(&path, &aside).is_ok();
        symlink("../../outside/secret.txt", &path).expect("ours");
        fixture.asks("git status", "");
        fs::remove_file(&path).expect("ours");
        if moved {
            fs::rename(&aside, &path).expect("ours");
        }
    }
    fixture.runs("git status");
    fs::rename(fixture.work().join(".git"), fixture.base.join(".git")).expect("ours");
    fixture.asks("git status", "no git repository in the workspace");
    fixture.link("../.git", ".git");
    fixture.asks("git status", "leads out");
}

/// Git runs in submodules, too, and obeys their configuration, unless it is told to ignore them.
#[test]
fn git_does_not_enter_submodules() {
    let fixture = Fixture::new();
    // One entry: times and numbers of the file, with the mode at 24, its object, its name's length, its name.
    let index = |mode: u32| {
        let mut entry = [0; 72];
        entry[24..28].copy_from_slice(&mode.to_be_bytes());
        entry[61] = 3;
        entry[62..65].copy_from_slice(b"sub");
        let bytes = [&b"DIRC\0\0\0\x02\0\0\0\x01"[..], &entry, &[0; 20]].concat();
        fs::write(fixture.work().join(".git/index"), bytes).expect("ours");
    };
    index(0o100_644);
    fixture.runs("git status");
    index(0o160_000);
    fixture.asks("git status", "no .gitmodules");
    fixture.write_file(".gitmodules", "[submodule \"s\"]\n\tpath = sub\n\turl = https://host/gitignore\n");
    fixture.runs("git status");
    fixture.runs("cd src && git diff");
    for text in ["\tignore = none\n", "[submodule \"s\"]\n\tIGNORE=dirty\n", "[submodule \"s\"] ignore = none\n"] {
        fixture.write_file(".gitmodules", &format!("[submodule \"s\"]\n\tpath = sub\n{text}"));
        fixture.asks("git status", ".gitmodules has");
    }
    index(0o100_644);
    fixture.runs("git status");
    fixture.write_file(".git/index", "DIRC");
    fixture.asks("git status", "index is not understood");
    let file = fs::File::create(fixture.work().join(".git/index")).expect("ours");
    file.set_len(GIT_INDEX_BYTES + 1).expect("ours");
    fixture.asks("git status", "larger than");
    file.set_len(GIT_INDEX_BYTES).expect("ours");
    fixture.asks("git status", "index is not understood");
}

/// Redirections in mode `auto_edit`, and the files that the command may write then.
#[test]
fn redirection_targets_are_checked_like_edits() {
    let fixture = Fixture::new();
    fixture.write_file(".env", "");
    fixture.write_file(".gemini/settings.json", "");
    fixture.write_file(".vscode/tasks.json", "");
    fixture.write_file("node_modules/x/index.js", "");
    fixture.write_file("second.txt", "");
    fs::hard_link(fixture.work().join("second.txt"), fixture.work().join("first.txt")).expect("ours");
    fs::hard_link(fixture.base.join("outside/secret.txt"), fixture.work().join("hard.txt")).expect("ours");
    fixture.link("src/new.rs", "dangling_inside");
    let case = plain().mode(Mode::AutoEdit);
    let judged = |line: &str| fixture.judge(&case, &json!({ "command": line }));
    #[rustfmt::skip]
    let written: &[(&str, &[&str])] = &[
        ("echo x > a.txt", &["a.txt"]), ("echo x > new.txt", &["new.txt"]), ("echo x >> a.txt", &["a.txt"]), ("cat a.txt > src/b.rs", &["src/b.rs"]),
        ("sort a.txt | uniq > out.txt", &["out.txt"]), ("cd src && echo x > y.rs", &["src/y.rs"]), ("cd src && echo x > ../y.md", &["y.md"]),
        ("echo a > 1.txt; echo b > 2.txt", &["1.txt", "2.txt"]), ("echo a > 1.txt && echo b >> 1.txt", &["1.txt"]), ("grep x a.txt 2> errors.txt", &["errors.txt"]),
        ("git log > log.txt", &["log.txt"]), ("echo x > src/../c.txt", &["c.txt"]), ("echo x > .gitignore", &[".gitignore"]), ("echo x > 'a b.txt'", &["a b.txt"]),
    ];
    for (line, files) in written {
        let writable = files.iter().map(|file| fixture.work().join(file).display().to_string()).collect();
        let ruling = judged(line);
        assert_eq!(
            (ruling.verdict, ruling.confinement),
            (Allow, Confinement::ReadOnly { writable }),
            "{line:?}: {}",
            ruling.reason
        );
        assert_eq!(fixture.judge(&plain(), &json!({ "command": line })).verdict, Asks, "{line:?} in mode default");
    }
    let absolute = format!("echo x > {}/a.txt", fixture.work().display());
    assert_eq!(judged(&absolute).verdict, Allow);
    let outside = format!("echo x > {}/outside/secret.txt", fixture.base.display());
    #[rustfmt::skip]
    let refused: &[&str] = &[
        "echo x > ../outside/x", "echo x > ../x", "echo x > /etc/x", "echo x > /tmp/x", &outside, "echo x > outside_file", "echo x >> outside_file", "echo x > outside_dir/new",
        "echo x > outside_dir/secret.txt", "echo x > up/x", "echo x > passwd", "echo x > src/dangling", "echo x > inside_file", "echo x > inside_dir/new.rs", "echo x > dangling_inside",
        "echo x > looped", "echo x > links/passwd.txt", "echo x > links/good.txt", "echo x > hooks/pre-commit", "echo x > .git/hooks/pre-commit", "echo x > .git/config", "echo x > .GIT/config",
        "echo x > ./.git/HEAD", "echo x > src/../.git/HEAD", "cd .git && echo x > config", "cd .git/hooks && echo x > pre-commit", "cd hooks && echo x > pre-commit", "cd src && echo x > ../.git/config",
        "cd src; echo x > y.rs", "cd outside_dir && echo x > secret.txt", "cd .. && echo x > x", "echo x > .env", "echo x >> .ENV", "echo x > .gemini/settings.json", "echo x > .Gemini/new",
        "echo x > .vscode/tasks.json", "echo x > node_modules/x/index.js", "echo x > gha-creds-1.json", "echo x > src", "echo x > nothing/new.txt", "echo x > a.txt/b", "echo x > hard.txt",
        "echo x > first.txt", "echo x > /dev/tcp/host/80", "echo x > /dev/sda", "echo x > /proc/self/mem", "echo x > ~/x", "echo x > $HOME/x", "echo x > *.txt", "make > a.txt", "echo x | tee a.txt",
        "cat passwd > a.txt", "cat < passwd > a.txt", "sort -o a.txt b.txt > c.txt", "echo x > a.txt > outside_file", "echo x > a.txt 2> outside_file", "echo x >| a.txt", "echo x &> a.txt",
    ];
    assert!(written.len() + refused.len() >= 40);
    for line in refused {
        assert_eq!(judged(line).verdict, Asks, "{line:?}");
    }
}

#[test]
fn a_confined_command_is_started_as_it_was_decided() {
    let fixture = Fixture::new();
    let new = fixture.work().join("new.txt").display().to_string();
    let run = |confinement: Confinement| {
        let mut run = run_of(&fixture.work(), SHELL, json!({"command": "echo x > new.txt"}));
        run.confinement = confinement;
        fixture.with(|ctx| Shell.run(&run, ctx, &mut |_| {}).err())
    };
    let argv: Vec<String> = ["bash", "-c", "echo x > new.txt"].map(String::from).into();
    run(Confinement::None);
    assert!(!Path::new(&new).exists(), "the shell creates it");
    run(Confinement::ReadOnly { writable: vec![new.clone()] });
    assert_eq!(fs::read(&new).expect("it was created"), b"", "the kernel's rule needs a file");
    fs::write(&new, "kept").expect("ours");
    run(Confinement::ReadOnly { writable: vec![new.clone()] });
    assert_eq!(fs::read(&new).expect("ours"), b"kept", "the shell empties it");
    let started = fixture.children.started.lock().expect("no test panics with it").clone();
    let confined = Some((fixture.work(), vec![PathBuf::from(&new)]));
    assert_eq!(started, [(None, argv.clone()), (confined.clone(), argv.clone()), (confined, argv)]);
    // The file was replaced by a link.
    fs::remove_file(&new).expect("ours");
    fixture.link("../outside/secret.txt", "new.txt");
    let error = run(Confinement::ReadOnly { writable: vec![new] }).expect("the command must not run");
    assert!(error.message.contains("leads out"), "{error:?}");
    assert_eq!(fs::read(fixture.base.join("outside/secret.txt")).expect("ours"), b"secret\n");
    assert_eq!(fixture.children.started.lock().expect("no test panics with it").len(), 3, "nothing was started");
}

/// Lines that are put together from those of the table: `prepare` never fails, and one part that asks makes the line ask.
#[test]
fn joined_lines_ask_if_one_of_them_does() {
    let fixture = Fixture::new();
    let case = Case { trusted: false, ..plain() };
    let asking: Vec<&str> = lines::ASKS.iter().chain(lines::LEADS_OUT).map(|(line, _)| *line).collect();
    let mut random = Random::new(0x501d);
    let is_simple = |line: &&&str| !line.starts_with("tree") && !line.contains("cd ") && !line.contains('\n');
    let unasked: Vec<&&str> = lines::UNASKED.iter().filter(is_simple).collect();
    for _ in 0..2_000 {
        let sign = [" && ", " || ", "; ", " | ", "\n"][random.below(5)];
        let (one, other) = (unasked[random.below(unasked.len())], unasked[random.below(unasked.len())]);
        let (first, second) = (one.trim_end_matches(';'), other.trim_end_matches(';'));
        let line = format!("{first}{sign}{second}");
        assert_eq!(fixture.judge(&case, &json!({ "command": line })).verdict, Allow, "{line:?}");
        let bad = asking[random.below(asking.len())];
        // What follows would complete these.
        if matches!(bad, "" | "# only words" | "ls 'a" | "ls \"a" | "ls \\" | "ls &&") {
            continue;
        }
        for line in [format!("{first}{sign}{bad}"), format!("{bad}{sign}{first}")] {
            assert_eq!(fixture.judge(&case, &json!({ "command": line })).verdict, Asks, "{line:?}");
        }
    }
}
