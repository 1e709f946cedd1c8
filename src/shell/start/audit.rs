//! `gemini-a2a audit`: checks the chains of the audit and prints their entries. Nothing is written or locked: a server may be using the
//! files.

use crate::args::audit::{AuditAction, AuditArgs, AuditFilter, Since};
use crate::base::clock::rfc3339;
use crate::base::text::unsafe_char::is_unsafe;
use crate::config::options::Flag;
use crate::config::state_dir;
use crate::limits::JOURNAL_LINE_BYTES;
use crate::limits::audit::AUDIT_LINE_BYTES;
use crate::shell::event_loop::sys;
use crate::shell::journal::audit::part_of;
use crate::shell::start::assemble::lookup;
use crate::shell::start::configure::without_files;
use crate::task::audit::chain::{ReadEntry, Verifier};
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Error messages, a line each. The entries after an error were printed all the same.
pub type Problems = Vec<String>;

/// Carries out the verb. Good chains and entries go to `out`.
pub fn run(
    args: &AuditArgs,
    flags: &[Flag],
    environment: Vec<(OsString, OsString)>,
    out: &mut dyn Write,
) -> Result<(), Problems> {
    let env = lookup(environment);
    let state = without_files(flags, &env).and_then(|settings| state_dir(&settings, env.as_ref()));
    let state = state.map_err(|problem| vec![problem])?;
    let chains = chains(&args.files, &state.join("audit")).map_err(|problem| vec![problem])?;
    let problems = match &args.action {
        AuditAction::Verify { tasks } => {
            // Read before the chains: a running server writes an entry before the journal that names it.
            let mut heads = if *tasks { Heads::read(&state.join("tasks")) } else { Heads::default() };
            let is_whole = args.files.is_empty();
            let mut problems = Vec::new();
            for (chain, files) in &chains {
                match verify(chain, files, is_whole, &mut heads) {
                    Ok(line) => _ = writeln!(out, "{line}"),
                    Err(problem) => problems.push(problem),
                }
            }
            problems.extend(heads.unmatched(is_whole));
            problems
        }
        AuditAction::Show { filter, json } => show(&chains, filter, *json, out),
    };
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// The files of each chain, in their order.
fn chains(given: &[String], dir: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>, String> {
    let files: Vec<PathBuf> = match given {
        [] => {
            let entries = std::fs::read_dir(dir);
            let entries =
                entries.map_err(|e| format!("there is no audit in {}: {e}; start with --audit", dir.display()))?;
            let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect()
        }
        given => given.iter().map(PathBuf::from).collect(),
    };
    let mut chains: BTreeMap<String, Vec<(u64, PathBuf)>> = BTreeMap::new();
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let (chain, number) = part_of(&name).unwrap_or((&name, None));
        chains.entry(chain.to_owned()).or_default().push((number.unwrap_or(u64::MAX), file));
    }
    if chains.is_empty() {
        return Err(format!("there is no audit in {}; start with --audit", dir.display()));
    }
    let in_order = |mut files: Vec<(u64, PathBuf)>| {
        files.sort();
        files.into_iter().map(|(_, file)| file).collect()
    };
    Ok(chains.into_iter().map(|(chain, files)| (chain, in_order(files))).collect())
}

/// Calls `each` with every line of a file, without its line break, and the line's number.
fn lines(path: &Path, most: u64, mut each: impl FnMut(u64, &[u8]) -> Result<(), String>) -> Result<(), String> {
    let unreadable = |error: io::Error| format!("{} cannot be read: {error}", path.display());
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if (&mut file).take(most).read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            break;
        }
        let in_line = |why: String| format!("{}, line {number}: {why}", path.display());
        match line.strip_suffix(b"\n") {
            Some(line) => each(number, line).map_err(in_line)?,
            None => {
                return Err(in_line(
                    "it is not complete; a server that was stopped in a write cuts it at its next start".into(),
                ));
            }
        }
    }
    Ok(())
}

/// Checks one chain. Returns the line to print if it is good.
fn verify(chain: &str, files: &[PathBuf], is_whole: bool, heads: &mut Heads) -> Result<String, String> {
    let mut verifier = if is_whole { Verifier::from_start() } else { Verifier::from_anywhere() };
    for file in files {
        lines(file, AUDIT_LINE_BYTES, |_, line| {
            let entry = verifier.take(line).map_err(|bad| bad.to_string())?;
            heads.compare(chain, &entry)
        })?;
    }
    let head = verifier.head();
    heads.check_missing(chain, head.n)?;
    Ok(format!("chain {chain} lines {} head {}", verifier.lines(), head.hash))
}

/// The heads that journals name, by chain and number.
#[derive(Default)]
struct Heads {
    named: BTreeMap<String, BTreeMap<u64, Named>>,
    problems: Vec<String>,
}

/// A head that a journal names.
struct Named {
    hash: String,
    /// The task and its event.
    by: String,
}

impl Heads {
    fn read(dir: &Path) -> Heads {
        let mut heads = Heads::default();
        let entries = std::fs::read_dir(dir).into_iter().flatten();
        let journals = entries.filter_map(|entry| Some(entry.ok()?.path()));
        for journal in journals.filter(|path| path.extension().is_some_and(|end| end == "jsonl")) {
            heads.read_journal(&journal);
        }
        heads
    }

    fn read_journal(&mut self, path: &Path) {
        let task = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let read = lines(path, JOURNAL_LINE_BYTES, |_, line| {
            // Most lines contain no such event, and need not be parsed.
            if !contains(line, b"\"event\":{\"audited\":") {
                return Ok(());
            }
            let record = Record::read(line).map_err(|_| "it is damaged; it names an entry of the audit".to_owned())?;
            if let Event::Audited { chain, n, hash } = record.event {
                let by = format!("event {} of task {task}", record.seq);
                let named = self.named.entry(chain.to_string()).or_default();
                if let Some(other) = named.insert(n, Named { hash: hash.clone(), by: by.clone() })
                    && other.hash != hash
                {
                    return Err(format!("{by} and {} name different hashes of entry {n}", other.by));
                }
            }
            Ok(())
        });
        // The last line of a journal may be incomplete: it was never acknowledged.
        self.problems.extend(read.err().filter(|problem| !problem.contains("it is not complete")));
    }

    /// Compares an entry with the hash that a journal names for it.
    fn compare(&mut self, chain: &str, entry: &ReadEntry) -> Result<(), String> {
        match self.named.get_mut(chain).and_then(|named| named.remove(&entry.n)) {
            Some(Named { hash, by }) if hash != entry.hash => {
                Err(format!("entry {} is not the one that {by} names", entry.n))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// An error if a journal names an entry after the last one of a chain.
    fn check_missing(&mut self, chain: &str, last: u64) -> Result<(), String> {
        let named = self.named.remove(chain).unwrap_or_default();
        match named.range(last + 1..).next_back() {
            Some((n, Named { by, .. })) => {
                Err(format!("chain {chain}, behind its last line: entry {} is missing; {by} names entry {n}", last + 1))
            }
            None => Ok(()),
        }
    }

    /// The problems of journals, and the chains that journals name and that have no file.
    fn unmatched(self, is_whole: bool) -> Problems {
        let mut problems = self.problems;
        for (chain, named) in self.named.into_iter().filter(|_| is_whole) {
            if let Some((n, Named { by, .. })) = named.into_iter().next_back() {
                problems.push(format!("chain {chain} has no file; {by} names its entry {n}"));
            }
        }
        problems
    }
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

/// Prints the entries that match the filter. A line that is not an entry is a problem; the rest of its file is not shown.
fn show(chains: &BTreeMap<String, Vec<PathBuf>>, filter: &AuditFilter, json: bool, out: &mut dyn Write) -> Problems {
    let since = filter.since.map_or(0, |since| match since {
        Since::Time(at) => at,
        Since::Ago(ms) => sys::unix_ms().saturating_sub(ms),
    });
    let mut problems = Vec::new();
    for files in chains.values() {
        for file in files {
            let shown = lines(file, AUDIT_LINE_BYTES, |_, line| {
                let entry = crate::task::audit::chain::read(line).map_err(|bad| bad.to_string())?;
                if entry.at >= since && fits(&entry, filter) {
                    let text = if json { String::from_utf8_lossy(line).into_owned() } else { described(&entry) };
                    // Printing fails only when the reader has closed the pipe.
                    let _ = writeln!(out, "{text}");
                }
                Ok(())
            });
            problems.extend(shown.err());
        }
    }
    problems
}

fn fits(entry: &ReadEntry, filter: &AuditFilter) -> bool {
    let fits = |wanted: &Option<String>, found: Option<&str>| wanted.is_none() || wanted.as_deref() == found;
    fits(&filter.task, entry.task.as_deref())
        && fits(&filter.kind, Some(&entry.kind))
        && fits(&filter.subject, entry.who.subject.as_deref())
}

/// An entry as one line for people.
fn described(entry: &ReadEntry) -> String {
    let who = &entry.who;
    let mut line = format!("{} {} {}", rfc3339(entry.at), entry.n, entry.kind);
    for (before, value) in [("", &who.subject), ("credential ", &who.credential), ("from ", &who.peer)] {
        if let Some(value) = value {
            let _ = write!(line, " {before}{value}");
        }
    }
    if !who.via.is_empty() {
        let _ = write!(line, " via {}", who.via);
    }
    if let Some(task) = &entry.task {
        let seq = entry.seq.map(|seq| format!(":{seq}")).unwrap_or_default();
        let _ = write!(line, " task {task}{seq}");
    }
    let _ = write!(line, " {}", entry.what);
    let escaped = |c: char| if is_unsafe(c) { format!("\\u{{{:x}}}", c as u32) } else { c.to_string() };
    line.chars().map(escaped).collect()
}
