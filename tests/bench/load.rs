//! Measures the release binary, and on request the reference server's npm release beside it, in one table.
//!
//! ```text
//! scripts/bench                    ours
//! scripts/bench --peer             ours and the reference server, with the required ratios
//! scripts/bench --peer-only        the reference server alone
//! scripts/bench --access           credentials, the audit and the access log beside none of them
//! scripts/bench --store            tasks in a bucket that is 50 ms away
//! scripts/bench --quick …          small numbers: does everything work?
//! ```
//!
//! The file is not called `main.rs`, which cargo would also take for an integration test.
//!
//! Three processes share the machine: the server, the fake model and this generator. The fake is this program under a hidden
//! verb, so that its CPU time is not the generator's and not the server's; the generator is one thread on one poll
//! (`swarm.rs`), because a thread per client would measure the scheduler. Server CPU and memory are read from `/proc`, so
//! they do not depend on other load; rates and latencies are only comparable within one run. The line about the load generator itself
//! shows how far it is from being the bottleneck.

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/frame.rs"]
mod frame;

#[path = "../shared_store/client.rs"]
#[allow(dead_code)]
mod client;
#[path = "../shared_store/fake_gcs.rs"]
#[allow(dead_code)]
mod fake_gcs;
#[path = "../shared_store/gcs_api.rs"]
#[allow(dead_code)]
mod gcs_api;
#[path = "../shared_store/instance.rs"]
#[allow(dead_code)]
mod instance;

mod access;
mod frames;
mod measure;
mod others;
mod process;
mod report;
mod search;
mod spawn;
mod store;
mod subject;
mod swarm;
#[path = "../support/tool_context.rs"]
mod tool_context;

use measure::{Plan, measure};
use std::path::PathBuf;
use std::process::ExitCode;
use subject::{Model, Subject};

#[derive(Default)]
struct Options {
    /// The folder the npm release is installed in.
    peer: Option<PathBuf>,
    only: Option<Only>,
    quick: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Only {
    Peer,
    Access,
    Store,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == subject::FAKE_MODEL_VERB) {
        subject::run_fake_model();
        return ExitCode::SUCCESS;
    }
    // `cargo test --all-targets` starts benchmarks without this word; then nothing is measured.
    if !args.iter().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let options = match options(&args) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("{wrong}\nusage: load [--peer DIR] [--peer-only] [--access] [--store] [--quick]");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(report::Verdict::Met) => ExitCode::SUCCESS,
        Ok(report::Verdict::Missed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the measurement failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--bench" => {}
            "--peer" => {
                let dir = args.next().ok_or("--peer needs the folder it is installed in")?;
                options.peer = Some(dir.into());
            }
            "--peer-only" => options.only = Some(Only::Peer),
            "--access" => options.only = Some(Only::Access),
            "--store" => options.only = Some(Only::Store),
            "--quick" => options.quick = true,
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    if options.only == Some(Only::Peer) && options.peer.is_none() {
        return Err("--peer-only needs --peer DIR".into());
    }
    Ok(options)
}

fn run(options: &Options) -> std::io::Result<report::Verdict> {
    if options.only == Some(Only::Store) {
        return store::run(if options.quick { store::QUICK } else { store::FULL });
    }
    let model = Model::start()?;
    if options.only == Some(Only::Access) {
        return access::run(&model, if options.quick { access::QUICK } else { access::FULL });
    }
    let ceiling = measure::ceiling(&model)?;
    let plans = if options.quick { Plan::quick() } else { Plan::full() };
    let ours = match options.only {
        Some(_) => None,
        None => Some(measure(&Subject::Ours, &model, &plans.ours)?),
    };
    let peer = match &options.peer {
        Some(dir) => Some(measure(&Subject::Peer(dir.clone()), &model, &plans.peer)?),
        None => None,
    };
    let served = report::print(&ceiling, ours.as_ref(), peer.as_ref());
    if options.only == Some(Only::Peer) {
        return Ok(served);
    }
    others::run(&model, if options.quick { others::QUICK } else { others::FULL })?;
    spawn::run(if options.quick { spawn::FEW_ROUNDS } else { spawn::ROUNDS })?;
    let files = if options.quick { search::FEW_FILES } else { search::FILES };
    Ok(match (served, search::run(files)?) {
        (report::Verdict::Met, report::Verdict::Met) => report::Verdict::Met,
        _ => report::Verdict::Missed,
    })
}
