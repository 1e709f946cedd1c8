//! The probe at startup: every result, and that no object remains.

use gemini_a2a::bucket::{
    Answer, Bucket, BucketError, BucketErrorKind, Dated, Deletion, Expect, List, Meta, Object, Page, Put, Version,
};
use gemini_a2a::shell::bucket::{ProbeError, probe, probe_name};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

/// A store of names without content, whose next requests may fail.
#[derive(Default)]
struct Names {
    names: Mutex<BTreeSet<String>>,
    ignores_preconditions: bool,
    puts: Mutex<VecDeque<Fault>>,
    deletes: Mutex<VecDeque<Fault>>,
}

#[derive(Clone, Copy)]
enum Fault {
    None,
    Kind(BucketErrorKind),
    /// The request was executed, but the response was lost.
    Done,
}

impl Names {
    fn failing(puts: &[Fault], deletes: &[Fault]) -> Names {
        let queue = |faults: &[Fault]| Mutex::new(faults.iter().copied().collect());
        Names { puts: queue(puts), deletes: queue(deletes), ..Names::default() }
    }

    fn is_empty(&self) -> bool {
        self.names.lock().expect("a lock").is_empty()
    }
}

fn attempt<T>(queue: &Mutex<VecDeque<Fault>>, act: impl FnOnce() -> T) -> Answer<T> {
    let fault = queue.lock().expect("a lock").pop_front().unwrap_or(Fault::None);
    let error = |kind| Err(BucketError { kind, message: format!("the answer is {kind:?}") });
    match fault {
        Fault::None => Ok(Dated { value: act(), unix_ms: 0 }),
        Fault::Kind(kind) => error(kind),
        Fault::Done => {
            act();
            error(BucketErrorKind::Unknown)
        }
    }
}

impl Bucket for Names {
    fn get(&self, _: &str) -> Answer<Option<Object>> {
        unreachable!("the probe does not read")
    }

    fn put(&self, name: &str, _: &Arc<[u8]>, _: &Meta, expect: &Expect) -> Answer<Put> {
        assert_eq!(*expect, Expect::Absent);
        attempt(&self.puts, || {
            match self.names.lock().expect("a lock").insert(name.into()) || self.ignores_preconditions {
                true => Put::Written(Version("1".into())),
                false => Put::PreconditionFailed,
            }
        })
    }

    fn delete(&self, name: &str, _: Option<&Version>) -> Answer<Deletion> {
        attempt(&self.deletes, || {
            self.names.lock().expect("a lock").remove(name);
            Deletion::Deleted
        })
    }

    fn list(&self, _: &List) -> Answer<Page> {
        unreachable!("the probe does not list")
    }
}

#[test]
fn a_store_with_preconditions_is_accepted() {
    let store = Names::default();
    assert_eq!(probe(&store, &probe_name("i1")), Ok(()));
    assert!(store.is_empty());
}

#[test]
fn a_store_without_preconditions_is_refused() {
    let store = Names { ignores_preconditions: true, ..Names::default() };
    let refused = ProbeError::Configuration("this store ignores preconditions and would lose events".into());
    assert_eq!(probe(&store, "probe/1"), Err(refused));
    assert!(store.is_empty());
}

#[test]
fn errors_that_the_operator_has_to_fix_are_reported() {
    for kind in [BucketErrorKind::Forbidden, BucketErrorKind::Unsupported, BucketErrorKind::Damaged] {
        let store = Names::failing(&[Fault::Kind(kind)], &[]);
        let refused = ProbeError::Configuration(format!("the answer is {kind:?}"));
        assert_eq!(probe(&store, "probe/1"), Err(refused));
        assert!(store.is_empty());
    }
    let store = Names::failing(&[], &[Fault::Kind(BucketErrorKind::Forbidden)]);
    assert_eq!(probe(&store, "probe/1"), Err(ProbeError::Configuration("the answer is Forbidden".into())));
}

#[test]
fn unknown_results_can_be_tried_again_and_leave_no_object() {
    let unknown = Fault::Kind(BucketErrorKind::Unknown);
    for (puts, deletes) in [
        (&[unknown][..], &[][..]),
        (&[Fault::Done], &[unknown]),
        (&[Fault::None, unknown], &[unknown]),
        (&[Fault::None, Fault::Done], &[Fault::Done]),
        (&[], &[unknown]),
    ] {
        let (store, name) = (Names::failing(puts, deletes), probe_name("i1"));
        assert_eq!(probe(&store, &name), Err(ProbeError::Unreachable("the answer is Unknown".into())));
        assert_eq!(probe(&store, &name), Ok(()));
        assert!(store.is_empty());
    }
}

#[test]
fn every_run_has_its_own_name() {
    let name = probe_name("i1");
    assert!(name.starts_with("probe/i1-") && name != probe_name("i1"), "{name}");
}
