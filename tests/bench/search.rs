//! The search tools compared with usual programs: `grep_search` with `rg` and `grep -r`, `glob` with `fd` and `find`; and a thousand edits
//! by `write_file`.
//!
//! Our tools run in this process, as a worker runs them; the programs are started for each search, as a shell would. The results are
//! checked to be the same. The tree is made once and stays in the temporary directory, so that it is read from the page cache and not from
//! the disk. A program that is not installed is left out of the table.

use crate::report::Verdict;
use crate::support::random::Random;
use crate::tool_context::{ToolContext, run_of};
use gemini_a2a::task::log::answer::Request;
use gemini_a2a::task::machine::job::RunEnd;
use gemini_a2a::task::spec::{Display, Ending};
use gemini_a2a::tool::{Ctx, NoPrograms, Toolbox};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Files of the tree for a full measurement, and for a quick one.
pub const FILES: usize = 50_000;
pub const FEW_FILES: usize = 2_000;

/// The time that our search may take, as a multiple of that of `rg`.
const REQUIRED: f64 = 3.0;
const EDITS: usize = 1_000;
/// How often each search is measured; the median counts.
const RUNS: usize = 5;

/// Measures and prints one table.
pub fn run(files: usize) -> io::Result<Verdict> {
    let tree = Tree::make(files)?;
    let ours = Ours::new(&tree.path)?;
    println!("\nsearch in {files} files, {:.0} MB, from the page cache", tree.bytes as f64 / 1e6);
    let mut verdict = Verdict::Met;
    let rg = installed(&["rg"]);
    println!("{:<44}{:>10}{:>10}{:>8}{:>10}{:>8}", "", "ours", "rg", "ratio", "grep -r", "ratio");
    for search in SEARCHES {
        let args = json!({ "pattern": search.pattern });
        let (time, shown) = median(|| ours.call("grep_search", args.clone()))?;
        let rg = rg.map(|rg| tree.time(Command::new(rg).args(["-i", "-n", "--hidden", search.pattern, "."])));
        let grep = tree.time(Command::new("grep").args(["-rniE", search.pattern, "."]));
        let rg = rg.transpose()?;
        for (_, lines) in rg.iter().chain([&grep.as_ref().map_or((0.0, search.lines(&shown)), |found| *found)]) {
            if *lines != search.lines(&shown) {
                return Err(io::Error::other(format!("{}: {lines} lines and {shown:?}", search.what)));
            }
        }
        let rg = rg.map(|(time, _)| time);
        let (line, met) = row(search.what, time, rg, grep.ok().map(|(time, _)| time), search.required);
        println!("{line}");
        if met == Verdict::Missed {
            verdict = Verdict::Missed;
        }
    }
    globs(&tree, &ours)?;
    edits()?;
    Ok(verdict)
}

struct Search {
    what: &'static str,
    pattern: &'static str,
    required: Required,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Required {
    Yes,
    /// No requirement; shows the cost of the fallback.
    No,
}

const SEARCHES: [Search; 5] = [
    Search { what: "a rare word", pattern: "quixotic_marker", required: Required::Yes },
    Search { what: "a word of common letters that is not there", pattern: "nonsentient", required: Required::Yes },
    Search { what: "an expression with a word in it", pattern: r"handle_[a-z]+_request\(", required: Required::Yes },
    Search { what: "one of three words", pattern: "zebra_crossing|handle_payment|cartwheel", required: Required::Yes },
    Search { what: "an expression without a word", pattern: "[0-9]{7}[a-f]{3}", required: Required::No },
];

impl Search {
    /// The number of lines that the result of our tool names.
    fn lines(&self, shown: &str) -> usize {
        let number = shown.split(' ').nth(1).and_then(|word| word.parse().ok());
        number.unwrap_or(0)
    }
}

fn row(what: &str, ours: f64, rg: Option<f64>, other: Option<f64>, required: Required) -> (String, Verdict) {
    let ratio = |theirs: f64| format!("{:.1}×", ours / theirs);
    let time = |time: Option<f64>| time.map_or("–".into(), |time| format!("{time:.0} ms"));
    let missed = required == Required::Yes && rg.is_some_and(|rg| ours > rg * REQUIRED);
    let (word, verdict) = match (required, missed) {
        (Required::No, _) => ("", Verdict::Met),
        (Required::Yes, _) if rg.is_none() => ("", Verdict::Met),
        (Required::Yes, false) => ("  ≤ 3×  met", Verdict::Met),
        (Required::Yes, true) => ("  ≤ 3×  MISSED", Verdict::Missed),
    };
    let text = format!(
        "{what:<44}{:>10}{:>10}{:>8}{:>10}{:>8}{word}",
        time(Some(ours)),
        time(rg),
        rg.map_or(String::new(), ratio),
        time(other),
        other.map_or(String::new(), ratio),
    );
    (text, verdict)
}

fn globs(tree: &Tree, ours: &Ours) -> io::Result<()> {
    println!("{:<44}{:>10}{:>10}{:>8}{:>10}{:>8}", "", "ours", "fd", "ratio", "find", "ratio");
    let fd = installed(&["fd", "fdfind"]);
    let table = [
        ("all files by their ending", "**/*.rs", "**/*.rs", "*.rs"),
        ("a few files in one place", "d03/**/f1?.ts", "d03/**/f1?.ts", "f1?.ts"),
    ];
    for (what, pattern, fd_glob, name) in table {
        let (time, shown) = median(|| ours.call("glob", json!({ "pattern": pattern })))?;
        let found = shown.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let full = format!("{}/{fd_glob}", tree.path.display());
        let fd = fd.map(|fd| tree.time(Command::new(fd).args(["-H", "-p", "-t", "f", "-g", &full])));
        let fd = fd.transpose()?;
        let base = if pattern.starts_with("d03") { "d03" } else { "." };
        let find = tree.time(Command::new("find").args([base, "-type", "f", "-name", name]))?;
        for (_, lines) in fd.iter().chain([&find]) {
            if *lines != found {
                return Err(io::Error::other(format!("{what}: {lines} files and {shown:?}")));
            }
        }
        let fd = fd.map(|(time, _)| time);
        println!("{}", row(what, time, fd, Some(find.0), Required::No).0);
    }
    Ok(())
}

/// A thousand files, each shown as a diff and then changed, as an approved call is.
fn edits() -> io::Result<()> {
    let dir = std::env::temp_dir().join(format!("gemini-a2a-bench-edits-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let ours = Ours::new(&dir)?;
    let text = |n: usize, word: &str| -> String {
        let line = |i| format!("    let value_{i} = {word}_{n}({i});\n");
        (0..200).map(line).collect()
    };
    for n in 0..EDITS {
        fs::write(dir.join(format!("f{n}.rs")), text(n, "old"))?;
    }
    let begin = Instant::now();
    for n in 0..EDITS {
        let new = text(n, "old").replacen("old", "new", 3);
        ours.call("write_file", json!({"file_path": format!("f{n}.rs"), "content": new}))?;
    }
    let took = begin.elapsed().as_secs_f64();
    let last = fs::read_to_string(dir.join(format!("f{}.rs", EDITS - 1)))?;
    fs::remove_dir_all(&dir)?;
    if last.matches("new").count() != 3 {
        return Err(io::Error::other("the last edit was not made"));
    }
    let (total, each) = (took * 1e3, took * 1e6 / EDITS as f64);
    println!("{EDITS} edits of 200 lines, planned and written: {total:.0} ms, {each:.0} µs each");
    Ok(())
}

/// The median time in milliseconds, after a first run that does not count, and the result.
fn median<T>(mut once: impl FnMut() -> io::Result<T>) -> io::Result<(f64, T)> {
    let mut last = once()?;
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let begin = Instant::now();
        last = once()?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok((times[RUNS / 2], last))
}

fn installed(names: &[&'static str]) -> Option<&'static str> {
    let starts = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    names.iter().find(starts).copied()
}

struct Tree {
    path: PathBuf,
    bytes: u64,
}

impl Tree {
    /// Makes the tree, unless an earlier run has made it.
    fn make(files: usize) -> io::Result<Tree> {
        let path = std::env::temp_dir().join(format!("gemini-a2a-bench-tree-{files}"));
        let ready = path.join(".git/complete");
        if let Ok(bytes) = fs::read_to_string(&ready) {
            let bytes = bytes.parse().map_err(io::Error::other)?;
            return Ok(Tree { path, bytes });
        }
        eprintln!("making {files} files in {}", path.display());
        // For all of these programs a directory with this name makes the tree a repository.
        fs::create_dir_all(path.join(".git"))?;
        fs::write(path.join(".gitignore"), "*.o\n/target\n**/generated/**\n!keep.o\n")?;
        let mut random = Random::new(7);
        let mut bytes = 0;
        for n in 0..files {
            let dir = path.join(format!("d{:02}/m{:02}", n / 2_500, n / 100 % 25));
            if n % 100 == 0 {
                fs::create_dir_all(&dir)?;
            }
            let ending = ["rs", "ts", "md"][n % 3];
            let text = source(&mut random, n);
            bytes += text.len() as u64;
            fs::write(dir.join(format!("f{}.{ending}", n % 100)), text)?;
        }
        fs::write(&ready, bytes.to_string())?;
        Ok(Tree { path, bytes })
    }

    /// The median time of a program in the tree, and the number of lines it prints.
    fn time(&self, program: &mut Command) -> io::Result<(f64, usize)> {
        program.current_dir(&self.path).stdin(Stdio::null());
        let (time, output) = median(|| program.output())?;
        Ok((time, output.stdout.iter().filter(|byte| **byte == b'\n').count()))
    }
}

/// Text that looks like a program, between one and five kilobytes, with something to find in a few.
fn source(random: &mut Random, n: usize) -> String {
    const WORDS: [&str; 40] = [
        "return", "const", "value", "result", "if", "else", "fn", "let", "match", "import", "export", "string",
        "number", "request", "response", "handle", "error", "status", "index", "length", "buffer", "state", "event",
        "task", "config", "path", "name", "type", "self", "item", "list", "update", "render", "parse", "token", "this",
        "await", "for", "while", "null",
    ];
    const MARKS: [&str; 12] = ["(", ")", " = ", ".", "::", ", ", ";", " {", " }", " + ", "_", " "];
    let mut text = String::new();
    for line in 0..20 + random.below(80) {
        text.push_str(&"    ".repeat(random.below(4)));
        for _ in 0..3 + random.below(8) {
            text.push_str(WORDS[random.below(WORDS.len())]);
            text.push_str(MARKS[random.below(MARKS.len())]);
        }
        if random.below(10) == 0 {
            text.push_str(&random.below(100_000).to_string());
        }
        match (line, n) {
            (7, n) if n % 977 == 5 => text.push_str("Quixotic_Marker"),
            (9, n) if n % 1009 == 6 => text.push_str("handle_payment_Request("),
            (11, n) if n % 2003 == 8 => text.push_str("1234567abc"),
            _ => {}
        }
        text.push('\n');
    }
    text
}

/// Our tools in one workspace.
struct Ours {
    toolbox: Toolbox,
    path: PathBuf,
    context: ToolContext,
}

impl Ours {
    fn new(path: &Path) -> io::Result<Ours> {
        Ok(Ours { toolbox: Toolbox::built_in(), path: path.canonicalize()?, context: ToolContext::default() })
    }

    /// Plans and runs a call, each in a context of its own as a worker does. Returns the result as clients show it.
    fn call(&self, name: &str, args: Value) -> io::Result<String> {
        let request = Request { call: "c1".into(), name: name.into(), args, api_id: None };
        let mut plans = self.within(|ctx| self.toolbox.prepare(std::slice::from_ref(&request), ctx));
        let plan = plans.pop().expect("one plan per call");
        let mut run = run_of(&self.path, name, request.args);
        run.base = plan.map_err(|error| io::Error::other(error.message))?.base;
        match self.within(|ctx| self.toolbox.run(&run, ctx, &mut |_| {})) {
            RunEnd::Ended(Ending::Success { display, .. }) => Ok(match display {
                Display::Text { text } | Display::Summary { text } => text.to_string(),
                Display::Diff { .. } | Display::Todos { .. } | Display::Media { .. } => String::new(),
            }),
            other => Err(io::Error::other(format!("{name}: {other:?}"))),
        }
    }

    fn within<T>(&self, call: impl FnOnce(&Ctx<'_>) -> T) -> T {
        self.context.with(&self.path, &"bench".into(), &NoPrograms, call)
    }
}
