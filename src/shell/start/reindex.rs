//! `gemini-a2a tasks reindex`: rebuilds the index of the tasks from their logs. The index is only a cache, so nothing is lost.

#[cfg(feature = "bucket")]
use crate::bucket::Bucket;
use crate::config::options::Flag;
#[cfg(feature = "bucket")]
use crate::shell::bucket::{configured, reindex::reindex};
use crate::shell::headless;
use crate::shell::journal::index::{self, Entry, StatePaths};
use crate::shell::journal::instances;
#[cfg(feature = "bucket")]
use crate::shell::start::assemble::lookup;
use crate::shell::start::configure::{Configured, LogOutput, configure};
#[cfg(feature = "bucket")]
use crate::shell::start::embed::Plan;
use crate::shell::start::embed::{self, SignalHandling};
use crate::shell::start::running::Running;
use crate::shell::start::sessions;
#[cfg(feature = "bucket")]
use crate::shell::workers::client;
use crate::shell::workers::slash_commands::Commands;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
#[cfg(feature = "bucket")]
use std::sync::Arc;

/// Rebuilds the index. Returns one line about what was repaired.
pub fn run(flags: &[Flag], environment: Vec<(OsString, OsString)>) -> Result<String, String> {
    let Configured { mut plan, .. } = configure(flags, environment, Commands::built_in(), LogOutput::Nowhere)?;
    #[cfg(feature = "bucket")]
    if let Some(bucket) = bucket(&plan)? {
        return reindex(bucket);
    }
    let (state, paths) = (plan.state.clone(), StatePaths::of(&plan.state));
    if let Some(running) = instances::living(&state.join("instances")).first() {
        return Err(format!("a server runs with {}: {}; stop it first", state.display(), running.url));
    }
    let before = index::entries(&paths);
    if paths.index.exists() {
        let emptied = OpenOptions::new().write(true).open(&paths.index).and_then(|file| file.set_len(0));
        emptied.map_err(|error| format!("{} cannot be written: {error}", paths.index.display()))?;
    }
    headless::restrict(&mut plan);
    plan.signals = SignalHandling::Untouched;
    let mut server = embed::open(plan).map_err(|error| error.to_string())?;
    let failed = |error: io::Error| format!("the index cannot be made: {error}");
    let stream = server.connect().map_err(failed)?;
    let running = Running::start(server).map_err(failed)?;
    // A server that lists its tasks has added those that its index lacks.
    sessions::list(stream, Path::new("")).map_err(failed)?;
    running.end().map_err(failed)?;
    Ok(changes(&before, &index::entries(&paths)))
}

/// The bucket that the tasks are in, if they are in one.
#[cfg(feature = "bucket")]
fn bucket(plan: &Plan) -> Result<Option<Arc<dyn Bucket>>, String> {
    let env = lookup(plan.environment.clone());
    let tls = client::tls(plan.certificates.as_deref())?;
    configured(plan.settings.store.kind, env.as_ref(), tls).map_err(|error| error.to_string())
}

fn changes(before: &[Entry], after: &[Entry]) -> String {
    let known: HashMap<_, _> = before.iter().map(|entry| (&entry.task, &entry.brief)).collect();
    let added = after.iter().filter(|entry| !known.contains_key(&entry.task)).count();
    let corrected =
        after.iter().filter(|entry| known.get(&entry.task).is_some_and(|brief| **brief != entry.brief)).count();
    format!("{} tasks; {added} were missing, {corrected} were out of date", after.len())
}
