//! The README and the manual, checked: every example runs against the real binary, every page and path that is named exists, and
//! the README stays short.
//!
//! The shell examples of a document run in one shell, in order, so that later ones can use what earlier ones set. They use a server
//! with the demo; its port and the ports of servers that an example starts itself are replaced by free ones. An example that
//! cannot run here is marked by an HTML comment before it, `<!-- not run: REASON -->`, and listed in [`NOT_RUN`].

mod support;

use gemini_a2a::a2a::named_views;
use gemini_a2a::config::settings::{self, Format, Layer, SettingScope};
use gemini_a2a::manual;
use gemini_a2a::task::policy::{Policy, Tier};
use gemini_a2a::tool::Toolbox;
use serde_json::{Deserializer, Value};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::server::{Server, Setup};
use support::{PATIENCE, TempDir, free_port, has};

const README: &str = "README.md";
const README_MOST_BYTES: usize = 14 * 1024;

/// The shell examples that do not run, and why.
const NOT_RUN: [(&str, &str); 12] = [
    (README, "builds the release binary"),
    (README, "needs an API key"),
    ("src/manual/security.md", "needs another host"),
    ("src/manual/mcp.md", "needs a server with a login"),
    ("src/manual/webhooks.md", "needs a receiver on the public internet"),
    ("src/manual/serving.md", "needs a proxy"),
    ("src/manual/serving.md", "needs another host"),
    ("src/manual/deploying.md", "needs root and systemd"),
    ("src/manual/deploying.md", "needs root and a container engine"),
    ("src/manual/deploying.md", "needs a project of Google Cloud"),
    ("src/manual/deploying.md", "needs a cluster"),
    ("src/manual/store.md", "needs a project of Google Cloud"),
];

/// The port of the server in all examples.
const PORT: &str = "41242";

struct Document {
    /// The path in the source tree.
    name: String,
    text: String,
}

struct Block {
    language: String,
    /// The line of its first line of code, from 1.
    line: usize,
    not_run: Option<String>,
    code: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Vec<Document> {
    let pages = manual::PAGES.iter().map(|page| format!("src/manual/{}.md", page.subject));
    let names = [README.to_owned()].into_iter().chain(pages);
    names
        .map(|name| {
            let text = std::fs::read_to_string(root().join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            Document { name, text }
        })
        .collect()
}

impl Document {
    fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut not_run = None;
        let mut lines = self.text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            if let Some(reason) = line.strip_prefix("<!-- not run: ").and_then(|rest| rest.strip_suffix(" -->")) {
                not_run = Some(reason.to_owned());
            } else if let Some(language) = line.strip_prefix("```") {
                let code = lines.by_ref().map(|(line, _)| line).take_while(|line| *line != "```");
                let code = code.flat_map(|line| [line, "\n"]).collect();
                blocks.push(Block { language: language.into(), line: number + 1, not_run: not_run.take(), code });
            } else {
                assert!(not_run.is_none(), "{}:{number}: the mark of an example must be right before it", self.name);
            }
        }
        blocks
    }

    fn examples(&self, language: &str) -> Vec<Block> {
        let blocks = self.blocks().into_iter();
        blocks.filter(|block| block.language == language && block.not_run.is_none()).collect()
    }
}

/// A server with the demo, and a home and a working directory for the examples of one document.
struct ManualServer {
    server: Server,
    home: TempDir,
}

impl ManualServer {
    fn new() -> ManualServer {
        // The state directory is the default one of this home, because examples name it.
        let home = TempDir::new("m");
        let state = home.folder(".local/state/gemini-a2a");
        let server = Setup::without_model().env("HOME", home.path()).state_dir(&state).start();
        std::os::unix::fs::symlink(root().join("tests"), home.folder("work").join("tests")).expect("a link");
        ManualServer { server, home }
    }

    fn command(&self, program: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_gemini-a2a"));
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let dirs = binary.parent().map(Path::to_owned).into_iter().chain(std::env::split_paths(&inherited));
        // An example may wait forever.
        let mut command = Command::new("timeout");
        command
            .arg(PATIENCE.as_secs().to_string())
            .arg(program)
            .env_clear()
            .env("PATH", std::env::join_paths(dirs).expect("directories"))
            .env("HOME", self.home.path())
            .current_dir(self.home.folder("work"));
        command
    }

    /// The code with the ports of this test in place of those of the manual.
    fn with_test_ports(&self, code: &str) -> String {
        let is_port = |word: &&str| word.len() == PORT.len() && word.starts_with("412");
        let ports: BTreeSet<&str> = code.split(|c: char| !c.is_ascii_digit()).filter(is_port).collect();
        ports.into_iter().fold(code.to_owned(), |code, port| {
            let given = if port == PORT { self.server.port() } else { free_port() };
            code.replace(port, &given.to_string())
        })
    }
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

/// Fails unless the program succeeded and printed something, and nothing that it printed is an error.
fn check(name: &str, output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let all = || format!("{text}\n--- standard error:\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{}", output.status, all());
    assert!(!text.trim().is_empty(), "{name} printed nothing\n{}", all());
    for wrong in ["\"error\":", "TASK_STATE_FAILED", "\"state\":\"failed\"", "curl failed"] {
        assert!(!text.contains(wrong), "{name} printed {wrong}\n{}", all());
    }
}

/// Printed before the output of each block, with its line.
const BLOCK_MARK: &str = "@@ the block of line ";

#[test]
fn every_shell_example_works() {
    if !has("curl") || !has("python3") {
        return;
    }
    std::thread::scope(|scope| {
        for document in documents() {
            scope.spawn(move || run_shell(&document));
        }
    });
}

fn run_shell(document: &Document) {
    let blocks = document.examples("sh");
    if blocks.is_empty() {
        return;
    }
    let server = ManualServer::new();
    // Examples pipe curl's output, so its exit status would be lost.
    let mut script = String::from(
        "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n\
         curl() { command curl --fail-with-body --max-time 60 \"$@\" || echo \"curl failed: $?\"; }\n",
    );
    for block in &blocks {
        let _ = writeln!(script, "echo; echo '{BLOCK_MARK}{}'\n{}", block.line, block.code);
    }
    let script = server.with_test_ports(&script);
    let output = server.command("bash").args(["-c", &script]).stdin(Stdio::null()).output().expect("bash runs");
    check(&document.name, &output);
    let text = String::from_utf8_lossy(&output.stdout);
    let printed: Vec<&str> = text.split(BLOCK_MARK).skip(1).collect();
    assert_eq!(printed.len(), blocks.len(), "{}: every block ran\n{text}", document.name);
    for (block, printed) in blocks.iter().zip(printed) {
        let lines = printed.lines().filter(|line| !line.is_empty()).count();
        assert!(lines > 1, "{}:{}: it printed nothing\n{text}", document.name, block.line);
    }
}

#[test]
fn the_python_example_works() {
    if !has("python3") {
        return;
    }
    let mut count = 0;
    for document in documents() {
        for block in document.examples("python") {
            let server = ManualServer::new();
            let name = format!("{}:{}", document.name, block.line);
            let mut python = server.command("python3");
            let output = output_with_input(python.args(["-c", &server.with_test_ports(&block.code)]), "yes\n");
            check(&name, &output);
            assert!(server.server.workspace().join("hello.txt").exists(), "{name}: the answer was given");
            count += 1;
        }
    }
    assert!(count > 0);
}

fn output_with_input(command: &mut Command, input: &str) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[test]
fn the_javascript_examples_work() {
    if !has("node") {
        return;
    }
    // Some versions have WebSocket only behind a flag, others do not know the flag.
    let flags = ["--experimental-websocket"].iter().filter(|flag| succeeds("node", &[flag, "-e", "0"]));
    let flags: Vec<&str> = flags.copied().collect();
    let probe = [&flags[..], &["-e", "new WebSocket('ws://localhost:1').onerror = () => {}"]].concat();
    let has_sockets = succeeds("node", &probe);
    for document in documents() {
        for block in document.examples("js") {
            let name = format!("{}:{}", document.name, block.line);
            if block.code.contains("WebSocket") && !has_sockets {
                eprintln!("{name} skipped: this node has no WebSocket");
                continue;
            }
            let server = ManualServer::new();
            let code = server.with_test_ports(&block.code);
            let args = [&flags[..], &["--input-type=module", "-e", &code]].concat();
            let output = server.command("node").args(args).stdin(Stdio::null()).output().expect("node runs");
            check(&name, &output);
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("Hello! I am the demo"), "{name}:\n{text}");
        }
    }
}

#[test]
fn all_examples_that_do_not_run_are_listed() {
    let mut found = Vec::new();
    for document in documents() {
        for block in document.blocks() {
            let reason = block.not_run.map(|reason| (document.name.clone(), reason));
            found.extend(reason);
            let known = ["sh", "json", "js", "nginx", "python", "rust,no_run", "text"];
            assert!(known.contains(&block.language.as_str()), "{}:{}", document.name, block.line);
        }
    }
    let expected = NOT_RUN.map(|(name, reason)| (name.to_owned(), reason.to_owned()));
    assert_eq!(found, expected);
}

#[test]
fn json_examples_are_json_and_settings_are_valid() {
    let mut settings = 0;
    for document in documents() {
        for block in document.examples("json") {
            let name = format!("{}:{}", document.name, block.line);
            let values: Result<Vec<Value>, _> = Deserializer::from_str(&block.code).into_iter().collect();
            let values = values.unwrap_or_else(|error| panic!("{name}: {error}"));
            if values.iter().all(|value| value.get("policies").is_none() && value.get("a2a").is_none()) {
                continue;
            }
            let layer =
                Layer { scope: SettingScope::User, file: name.clone(), format: Format::Json, text: block.code.clone() };
            let (loaded, messages) = settings::load(&[layer], &|_| None);
            assert!(messages.is_empty(), "{name}: {messages:?}");
            let rules = loaded.rules.iter().map(|rule| rule.rule.clone());
            let problems = Policy::built_in().add(Tier::User, &rules.collect());
            assert!(problems.is_empty(), "{name}: {problems:?}");
            settings += 1;
        }
    }
    assert!(settings > 0);
}

#[test]
fn the_readme_is_short() {
    let readme = std::fs::metadata(root().join(README)).expect("the README").len();
    assert!(readme <= README_MOST_BYTES as u64, "the README has {readme} bytes; move something to src/manual");
}

/// All files that may name a page of the manual.
fn sources() -> Vec<PathBuf> {
    fn walk(path: &Path, found: &mut Vec<PathBuf>) {
        if !path.is_dir() {
            return found.push(path.to_owned());
        }
        for entry in std::fs::read_dir(path).expect("a directory of ours") {
            walk(&entry.expect("an entry").path(), found);
        }
    }
    let mut found = Vec::new();
    for name in [README, "Cargo.toml", "src", "scripts"] {
        walk(&root().join(name), &mut found);
    }
    found
}

#[test]
fn every_subject_that_is_named_exists() {
    let mut named = BTreeSet::new();
    for file in sources() {
        let text = std::fs::read_to_string(&file).expect("text");
        for (at, verb) in text.match_indices("gemini-a2a help ") {
            let rest = text[at + verb.len()..].chars();
            let subject: String = rest.take_while(char::is_ascii_lowercase).collect();
            if !subject.is_empty() {
                assert!(manual::find(&subject).is_some(), "{}: gemini-a2a help {subject}", file.display());
                named.insert(subject);
            }
        }
    }
    assert!(named.contains("security"), "the search finds something");
    let readme = std::fs::read_to_string(root().join(README)).expect("the README");
    for page in manual::PAGES {
        let link = format!("| [{0}](src/manual/{0}.md) |", page.subject);
        assert!(readme.contains(&link), "the README has no row {link}");
    }
    let files = std::fs::read_dir(root().join("src/manual")).expect("the pages").flatten();
    let pages = files.filter(|file| file.path().extension().is_some_and(|end| end == "md")).count();
    assert_eq!(pages, manual::PAGES.len(), "every text of src/manual is a page");
}

#[test]
fn every_path_that_is_named_exists() {
    let mut count = 0;
    for document in documents() {
        let words = document.text.split(|c: char| c.is_whitespace() || "`()|,;".contains(c));
        for word in words.map(|word| word.trim_end_matches(['.', ':'])) {
            if ["src/", "tests/", "scripts/"].iter().any(|start| word.starts_with(start)) {
                assert!(root().join(word).exists(), "{}: there is no {word}", document.name);
                count += 1;
            }
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn examples_name_the_verb_of_the_program() {
    for document in documents() {
        for block in document.blocks().iter().filter(|block| block.language == "sh" && block.not_run.is_none()) {
            for line in block.code.lines() {
                let verb = line.strip_prefix("gemini-a2a").map(|rest| rest.split_whitespace().next().unwrap_or(""));
                let known = verb.is_none_or(|verb| {
                    [
                        "serve",
                        "replay",
                        "audit",
                        "help",
                        "--help",
                        "watch",
                        "send",
                        "approve",
                        "tasks",
                        "mcp",
                        "token",
                        "completion",
                        "man",
                        "--version",
                    ]
                    .contains(&verb)
                });
                // Without a verb the program opens a terminal session, unless a flag makes it print something.
                let prints = [" -p ", " --list-sessions", " --delete-session "].iter().any(|flag| line.contains(flag));
                assert!(known || prints, "{}: {line}", document.name);
            }
        }
    }
}

#[test]
fn the_program_prints_its_manual() {
    let run = |args: &[&str]| {
        let program = Command::new(env!("CARGO_BIN_EXE_gemini-a2a")).args(args).output();
        program.expect("the program runs")
    };
    let list = run(&["help"]);
    assert_eq!((list.status.code(), list.stdout), (Some(0), manual::contents().into_bytes()));
    for page in manual::PAGES {
        let printed = run(&["help", page.subject]);
        assert_eq!((printed.status.code(), printed.stdout), (Some(0), page.text().into_bytes()), "{}", page.subject);
    }
    let unknown = run(&["help", "no-such-page"]);
    assert_eq!((unknown.status.code(), unknown.stdout.len()), (Some(2), 0));
    let errors = String::from_utf8_lossy(&unknown.stderr);
    assert!(errors.contains("no-such-page") && errors.contains(manual::contents().trim_end()), "{errors}");
}

/// The page about approvals lists all tools, that about replay all dialects, and that about the journal all events.
#[test]
fn lists_of_the_manual_are_complete() {
    let page = |subject: &str| manual::find(subject).expect("a page").text();
    let approvals = page("approvals");
    for spec in Toolbox::built_in().specs() {
        assert!(approvals.contains(&format!("`{}`", spec.name)), "the page about approvals lacks {}", spec.name);
    }
    let replay = page("replay");
    for (dialect, _) in named_views() {
        assert!(replay.contains(&format!("`{dialect}`")), "the page about replay lacks {dialect}");
    }
    let journal = page("journal");
    let source = std::fs::read_to_string(root().join("src/task/log/event.rs")).expect("the source");
    let (_, events) = source.split_once("pub enum Event {\n").expect("the events");
    let (events, _) = events.split_once("\n}\n").expect("its end");
    let variant = |line: &str| {
        let name =
            line.strip_prefix("    ").filter(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))?;
        Some(name.chars().take_while(char::is_ascii_alphabetic).collect::<String>())
    };
    let names: Vec<String> = events.lines().filter_map(variant).collect();
    assert!(names.len() > 60, "{names:?}");
    for name in names {
        let name: String = name
            .char_indices()
            .map(|(at, c)| if at > 0 && c.is_uppercase() { format!("_{c}") } else { c.into() })
            .collect();
        let name = name.to_lowercase();
        assert!(journal.contains(&format!("`{name}`")), "the page about the journal lacks {name}");
    }
}
