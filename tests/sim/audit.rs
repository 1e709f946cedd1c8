//! The audit of a run: half of the runs have one. Everything that is in a journal or was started is also in the audit, whenever the server
//! is killed.

use super::Simulation;
use crate::core_harness::failing_store::FailingStore;
use gemini_a2a::base::id::{Seq, TaskId};
use gemini_a2a::core::audit::AuditSetup;
use gemini_a2a::core::disk::store::{Archive, read_all};
use gemini_a2a::task::audit::What;
use gemini_a2a::task::audit::chain::{ReadEntry, Verifier};
use gemini_a2a::task::audit::entries::{Prompts, Texts};
use gemini_a2a::task::log::event::Event;
use std::collections::{BTreeMap, BTreeSet};

/// The settings of the audit for a server that starts with the present file.
pub fn setup(store: &FailingStore) -> AuditSetup {
    let texts = Texts { redact: Box::new(str::to_owned), prompts: Prompts::Hashed };
    let head = verified(&store.audit()).0.head();
    AuditSetup { chain: "sim".into(), head, texts, began: What::default() }
}

fn verified(bytes: &[u8]) -> (Verifier, Vec<ReadEntry>) {
    let mut verifier = Verifier::from_start();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let entries = lines.map(|line| verifier.take(line.trim_ascii_end()).expect("a good chain")).collect();
    (verifier, entries)
}

impl Simulation {
    /// The audit has an entry for each prompt, answer and start of a call that a journal has, and each hash that a journal names.
    pub(super) fn check_audit(&self) {
        if !self.is_audited {
            return;
        }
        let (_, entries) = verified(&self.disk.store.audit());
        let hashes: BTreeMap<u64, &str> = entries.iter().map(|entry| (entry.n, entry.hash.as_str())).collect();
        let of_events = entries.iter().filter_map(|entry| Some((entry.task.as_deref()?, entry.seq?)));
        let of_events: BTreeSet<(&str, u64)> = of_events.collect();
        for known in self.disk.store.known() {
            let file = self.disk.store.open(&known.task).expect("its log is there");
            let mut named_last = false;
            read_all(file.as_ref(), &mut |record| {
                named_last = false;
                match &record.event {
                    Event::Audited { n, hash, .. } => {
                        assert_eq!(hashes.get(n), Some(&hash.as_str()), "entry {n}, which {} names", known.task);
                        named_last = true;
                    }
                    Event::Created(_)
                    | Event::Prompted { .. }
                    | Event::CallAsked { .. }
                    | Event::CallAnswered { .. }
                    | Event::CallStarted { .. }
                    | Event::CallEnded { .. } => {
                        let place = (known.task.as_str(), record.seq.0);
                        assert!(of_events.contains(&place), "the audit does not have {:?} of {place:?}", record.event);
                    }
                    _ => {}
                }
            })
            .expect("a good log");
            assert!(!named_last, "{} names the head, and the end of its turn is in another write", known.task);
        }
    }

    /// The calls that started, as the audit has them. None if the run has no audit.
    pub(super) fn audited_starts(&self) -> Option<BTreeSet<(TaskId, Seq)>> {
        let entries = self.is_audited.then(|| verified(&self.disk.store.audit()).1)?;
        let starts = entries.iter().filter(|entry| entry.kind == "ran");
        Some(starts.filter_map(|entry| Some((entry.task.as_deref()?.into(), Seq(entry.seq?)))).collect())
    }
}
