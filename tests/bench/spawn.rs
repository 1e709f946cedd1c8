//! How long it takes to start a command and to see its end: directly, below a supervisor, and below one that confines it. The
//! three are measured in turns, so that other load of the machine affects all of them.

use gemini_a2a::limits::Limits;
use gemini_a2a::shell::children::{ChildSettings, Children};
use gemini_a2a::tool::{Launch, ReadOnly, Spawn};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub const ROUNDS: usize = 300;
pub const FEW_ROUNDS: usize = 10;

pub fn run(rounds: usize) -> io::Result<()> {
    let dir = std::env::temp_dir().canonicalize()?.join(format!("gemini-a2a-spawn-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let measured = measure(&dir, rounds);
    std::fs::remove_dir_all(&dir)?;
    let [Some(direct), Some(supervised), confined] = measured? else {
        return Err(io::Error::other("nothing was measured"));
    };
    println!("\nStarting `true` and seeing its end, median of {rounds}, in turns:");
    println!("| directly | below a supervisor | confined | supervisor / direct | confined / supervisor |");
    println!("|---|---|---|---|---|");
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    println!(
        "| {direct:.1?} | {supervised:.1?} | {} | {:.2} | {} |",
        confined.map_or("not here".into(), |took| format!("{took:.1?}")),
        ratio(supervised, direct),
        confined.map_or("–".into(), |took| format!("{:.2}", ratio(took, supervised))),
    );
    Ok(())
}

fn measure(dir: &Path, rounds: usize) -> io::Result<[Option<Duration>; 3]> {
    let plan = ChildSettings {
        exe: PathBuf::from(env!("CARGO_BIN_EXE_gemini-a2a")),
        instance: "bench".into(),
        env: std::env::vars_os().collect(),
        workspaces: vec![dir.to_owned()],
        private: vec![],
        git: None,
    };
    let children = Children::new(plan, &Limits::default())?;
    let confines = children.can_confine(dir).is_ok();
    let mut took: [Vec<Duration>; 3] = Default::default();
    for _ in 0..rounds {
        took[0].push(timed(|| Command::new("true").stdin(Stdio::null()).status().map(drop))?);
        took[1].push(timed(|| start(&children, dir, None))?);
        if confines {
            let bounds = ReadOnly { workspace: dir.to_owned(), writable: vec![] };
            took[2].push(timed(|| start(&children, dir, Some(bounds)))?);
        }
    }
    Ok(took.map(|mut all| {
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }))
}

fn start(children: &Children, dir: &Path, read_only: Option<ReadOnly>) -> io::Result<()> {
    let launch = Launch::command(vec!["true".into()], File::open(dir)?.into());
    let child = children.spawn(Launch { read_only, ..launch })?;
    // The pipe is closed when the program and its supervisor have ended.
    while rustix::io::read(child.output(), &mut [0; 64])? > 0 {}
    child.finish().map(drop)
}

fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed())
}
