//! What the kernel allows to a command that nobody approved. Every line is run confined, without the checks of the command line parser, in
//! a hostile workspace; afterwards nothing may have changed. The same lines are also run unconfined, to check that they have an effect
//! without confinement.

#[path = "confinement/commands.rs"]
mod commands;
#[path = "confinement/fixture.rs"]
mod fixture;
#[path = "confinement/fuzz.rs"]
mod fuzz;
// The command lines with which the tests of the policy check its decisions.
#[path = "policy/lines.rs"]
mod lines;
#[path = "support/random.rs"]
mod random;
#[path = "support/tool_context.rs"]
mod tool_context;

use commands::{HARMFUL, HARMLESS, REFUSED};
use fixture::{Fixture, RunAs};
use gemini_a2a::task::spec::{Confinement, Verdict};
use random::Random;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

/// Whether the kernel supports confinement. Prints the reason if it does not.
fn confines(fixture: &Fixture) -> bool {
    use gemini_a2a::tool::Spawn;
    match fixture.children.can_confine(&fixture.workspace) {
        Ok(()) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    }
}

/// The program of `probe.c`, compiled once. None without a C compiler.
fn probe() -> Option<&'static Path> {
    static PROBE: OnceLock<Option<std::path::PathBuf>> = OnceLock::new();
    let compiled = PROBE.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("gemini-a2a-probe-{}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/confinement/probe.c");
        let done = Command::new("cc").args(["-o"]).arg(&path).arg(source).output();
        match done {
            Ok(done) if done.status.success() => Some(path),
            Ok(done) => panic!("{}", String::from_utf8_lossy(&done.stderr)),
            Err(error) => {
                println!("skipped: lines with probe, because there is no C compiler: {error}");
                None
            }
        }
    });
    compiled.as_deref()
}

fn fixture() -> Fixture {
    Fixture::new(probe())
}

#[test]
fn harmful_lines_have_no_effect() {
    let fixture = fixture();
    if !confines(&fixture) {
        return;
    }
    let before = fixture.whole_snapshot();
    let mut wrong = Vec::new();
    for line in HARMFUL.iter().chain(REFUSED) {
        let printed = fixture.run(line, RunAs::ReadOnly);
        let changes = before.changes(&fixture.whole_snapshot());
        if !changes.is_empty() {
            wrong.push(format!("{line}\n  printed {printed:?}\n  changed {}", changes.join("\n  ")));
        }
        if printed.contains("canary") {
            wrong.push(format!("{line}\n  read a file outside of the workspace: {printed:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} lines had an effect:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn most_of_the_same_lines_have_an_effect_without_confinement() {
    let next = AtomicUsize::new(0);
    let ineffective = Mutex::new(Vec::new());
    let work = || {
        while let Some(line) = HARMFUL.get(next.fetch_add(1, Ordering::Relaxed)) {
            let fixture = fixture();
            let before = fixture.whole_snapshot();
            let printed = fixture.run(line, RunAs::TheUser);
            if before.changes(&fixture.whole_snapshot()).is_empty() {
                ineffective.lock().expect("nobody panics").push(format!("{line}: {printed:?}"));
            }
            fixture.remove_kernel_objects();
        }
    };
    thread::scope(|scope| drop([scope.spawn(work), scope.spawn(work), scope.spawn(work)]));
    let ineffective = ineffective.into_inner().expect("nobody panics");
    let (count, listed) = (ineffective.len(), ineffective.join("\n"));
    println!("without an effect here:\n{listed}");
    // Some lines need programs or file systems that not every machine has.
    assert!(count * 10 <= HARMFUL.len(), "{count} of {} lines have no effect:\n{listed}", HARMFUL.len());
}

#[test]
fn system_calls_beyond_the_process_are_refused() {
    let fixture = fixture();
    if !confines(&fixture) || probe().is_none() {
        return;
    }
    let mut wrong = Vec::new();
    for line in HARMFUL.iter().chain(REFUSED).filter(|line| line.starts_with("probe ") && !line.contains("core")) {
        let printed = fixture.run(line, RunAs::ReadOnly);
        // A system call that this kernel does not have fails with another error than a refused one.
        let refused = ["not permitted", "Permission denied", "not implemented", "Read-only", "No such process"];
        if !refused.iter().any(|word| printed.contains(word)) {
            wrong.push(format!("{line}: {printed:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The thread of the supervisor that starts the program is confined like the program. Its id is one of the next numbers after that of the
/// supervisor, and it ends soon.
#[test]
fn a_confined_command_cannot_kill_its_supervisor() {
    const TRIES: usize = 50;
    let fixture = fixture();
    if !confines(&fixture) || probe().is_none() {
        return;
    }
    let line = "for i in 1 2 3 4 5 6 7 8; do for n in 1 2 3 4; do \
                [ $((PPID + n)) = $$ ] || kill -9 $((PPID + n)); done; done 2>/dev/null; exec probe parent $PPID";
    for _ in 0..TRIES {
        assert_eq!(fixture.run(line, RunAs::ReadOnly), "parent: 0 \n");
    }
}

#[test]
fn memory_is_limited() {
    let fixture = fixture();
    if !confines(&fixture) || probe().is_none() {
        return;
    }
    let most = gemini_a2a::limits::CONFINED_DATA_BYTES >> 20;
    // The program itself needs some memory.
    assert_eq!(fixture.run(&format!("probe memory {}", most - 16), RunAs::ReadOnly), "memory: 0 \n");
    let printed = fixture.run(&format!("probe memory {most}"), RunAs::ReadOnly);
    assert!(printed.contains("Cannot allocate memory"), "{printed}");
    assert_eq!(fixture.run(&format!("probe memory {most}"), RunAs::TheUser), "memory: 0 \n");
}

#[test]
fn read_only_commands_work() {
    let fixture = fixture();
    if !confines(&fixture) {
        return;
    }
    let before = fixture.whole_snapshot();
    let mut wrong = Vec::new();
    for (line, expected) in HARMLESS {
        let printed = fixture.run(line, RunAs::ReadOnly);
        if printed != fixture.fill(expected) {
            wrong.push(format!("{line}: {printed:?}"));
        }
        // Without confinement the line must have no effect either: otherwise a change that is no effect of the line could be reported. Git
        // is left out, because without confinement it refreshes its index.
        if !line.starts_with("git") {
            fixture.run(line, RunAs::TheUser);
        }
        let changes = before.changes(&fixture.whole_snapshot());
        if !changes.is_empty() {
            wrong.push(format!("{line}: {changes:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_named_file_can_be_written() {
    let fixture = fixture();
    if !confines(&fixture) {
        return;
    }
    let named = vec![fixture.workspace.join("b.txt")];
    let before = fixture.whole_snapshot();
    let printed =
        fixture.run_writing("echo new > b.txt; echo more >> b.txt; cat b.txt", RunAs::ReadOnly, named.clone());
    assert_eq!(printed.expect("it starts"), "new\nmore\n");
    let changes = before.changes(&fixture.whole_snapshot());
    assert!(changes.len() == 1 && changes[0].contains("/b.txt:"), "{changes:?}");
    let before = fixture.whole_snapshot();
    for line in
        ["echo x > a.txt", "rm b.txt", "mv b.txt c.txt", "chmod 777 b.txt", "touch -d 2001-01-01 b.txt", "ln b.txt c"]
    {
        fixture.run_writing(line, RunAs::ReadOnly, named.clone()).expect("it starts");
        let changes = before.changes(&fixture.whole_snapshot());
        assert!(changes.is_empty(), "{line}: {changes:?}");
    }
    // If the name of the file has become a link, the file is not opened for the command, and the command does not start.
    for name in ["secret", "out/secret.txt", "up/outside/secret.txt"] {
        let done = fixture.run_writing("echo x > a.txt", RunAs::ReadOnly, vec![fixture.workspace.join(name)]);
        assert!(done.is_err(), "{name}: {done:?}");
    }
    assert!(before.changes(&fixture.whole_snapshot()).is_empty());
}

/// A fixture with the workspace for which the lines of the policy tests are written, and a git repository in it.
fn policy_fixture() -> Fixture {
    Fixture::with(probe(), |root| {
        lines::lay_out(root);
        let git = |args: &[&str]| {
            let done = Command::new("git").current_dir(root.join("work")).args(args).output().expect("git");
            assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        };
        git(&["init", "-q", "-b", "main"]);
        git(&["add", "a.txt", "b.txt", "src/main.rs"]);
        git(&["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "one"]);
    })
}

/// Calls `work` for each line, on several threads with a fixture each. Returns the problems and the changed files.
fn problems_of(lines: &[&str], work: impl Fn(&Fixture, &str) -> Vec<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let worker = || {
        let fixture = policy_fixture();
        let before = fixture.whole_snapshot();
        while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut found = work(&fixture, line);
            found.extend(
                before.changes(&fixture.whole_snapshot()).into_iter().map(|change| format!("changed {change}")),
            );
            if !found.is_empty() {
                wrong.lock().expect("nobody panics").push(format!("{line:?}:\n  {}", found.join("\n  ")));
            }
        }
    };
    thread::scope(|scope| drop([scope.spawn(worker), scope.spawn(worker), scope.spawn(worker)]));
    wrong.into_inner().expect("nobody panics")
}

#[test]
fn every_line_of_the_table_is_decided_and_run_without_effect() {
    if !confines(&policy_fixture()) {
        return;
    }
    let unasked = lines::UNASKED;
    let wrong = problems_of(unasked, |fixture, line| {
        let ruling = fixture.decide(line);
        if ruling.verdict != Verdict::Allow || ruling.confinement == Confinement::None {
            return vec![format!("{ruling:?}")];
        }
        fixture.run(line, RunAs::ReadOnly);
        vec![]
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let asks: Vec<&str> = lines::ASKS.iter().chain(lines::LEADS_OUT).map(|(line, _)| *line).collect();
    let wrong = problems_of(&asks, |fixture, line| match fixture.decide(line).verdict {
        Verdict::Allow => vec!["it must ask".into()],
        Verdict::Ask | Verdict::Deny => vec![],
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(unasked.len() >= 120 && unasked.len() + asks.len() >= 300);
    println!("{} lines run without approval, {} ask", unasked.len(), asks.len());
}

/// Whether a line would harm the whole machine if confinement failed. Such lines are not run.
fn is_too_dangerous(line: &str) -> bool {
    let words = [
        "rm -rf /",
        "rm -rf ~",
        "rm -rf $",
        "-rf /",
        "kill -9 -1",
        "reboot",
        "shutdown",
        "halt",
        "poweroff",
        "mkfs",
        "/dev/sd",
    ];
    words.iter().any(|word| line.contains(word))
}

#[test]
fn lines_that_ask_have_no_effect_when_they_run_confined() {
    if !confines(&policy_fixture()) {
        return;
    }
    let lines =
        lines::ASKS.iter().chain(lines::LEADS_OUT).map(|(line, _)| *line).filter(|line| !is_too_dangerous(line));
    let wrong = problems_of(&lines.collect::<Vec<_>>(), |fixture, line| {
        let printed = fixture.run(line, RunAs::ReadOnly);
        if printed.contains("secret\n") { vec![format!("read {printed:?}")] } else { vec![] }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Generates random lines and calls `work` for each, on several threads with a fixture each; after each line, nothing may have changed.
/// Returns the number of lines that `work` ran.
fn run_random_lines(lines: u64, work: impl Fn(&Fixture, &str) -> bool + Sync) -> u64 {
    const WORKERS: u64 = 3;
    let seed = fuzz::number("FUZZ_SEED", 1);
    let harmful: Vec<&str> = lines::ASKS
        .iter()
        .map(|(line, _)| *line)
        .filter(|line| !is_too_dangerous(line))
        .chain(HARMFUL.iter().copied())
        .collect();
    let worker = |number: u64| {
        let fixture = policy_fixture();
        let before = fixture.whole_snapshot();
        let mut random = Random::new(seed * WORKERS + number);
        let mut ran = 0;
        for _ in 0..lines / WORKERS + 1 {
            let line = fuzz::line(&mut random, lines::UNASKED, &harmful);
            if is_too_dangerous(&line) || !work(&fixture, &fixture.fill(&line)) {
                continue;
            }
            ran += 1;
            let after = if ran % 64 == 0 { fixture.whole_snapshot() } else { fixture.snapshot() };
            let changes = before.changes(&after);
            assert!(changes.is_empty(), "seed {seed}: {line:?} changed {}", changes.join("\n  "));
        }
        let changes = before.changes(&fixture.whole_snapshot());
        assert!(changes.is_empty(), "seed {seed}: one of the lines changed {}", changes.join("\n  "));
        ran
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|number| scope.spawn(move || worker(number))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).sum()
    })
}

#[test]
fn random_lines_that_run_without_approval_have_no_effect() {
    if !confines(&policy_fixture()) {
        return;
    }
    let lines = fuzz::number("FUZZ_LINES", 12_000);
    let ran = run_random_lines(lines, |fixture, line| {
        let ruling = fixture.decide(line);
        match (ruling.verdict, ruling.confinement) {
            (Verdict::Allow, Confinement::ReadOnly { writable }) => {
                assert!(writable.is_empty(), "{line:?} may write {writable:?}");
                fixture.run(line, RunAs::ReadOnly);
                true
            }
            (Verdict::Allow, Confinement::None) => panic!("{line:?} would run as the user"),
            (Verdict::Ask | Verdict::Deny, _) => false,
        }
    });
    println!("{ran} of {lines} lines ran");
    assert!(ran * 10 >= lines * 3, "only {ran} of {lines} lines ran");
}

#[test]
fn random_lines_have_no_effect_when_they_run_confined() {
    if !confines(&policy_fixture()) {
        return;
    }
    let lines = fuzz::number("FUZZ_LINES", 12_000) / 8;
    let ran = run_random_lines(lines, |fixture, line| {
        fixture.run(line, RunAs::ReadOnly);
        true
    });
    println!("{ran} lines ran");
}
