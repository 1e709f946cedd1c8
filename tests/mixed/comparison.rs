//! The comparison at the end of a run: the frames that each client received, and the frames of the journal in the view of the client.

use crate::client::{Dialect, text};
use gemini_a2a::a2a::{self, Tools, View};
use gemini_a2a::base::id::Seq;
use gemini_a2a::core::disk::store::{Archive, read_all};
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::state::State;
use std::collections::BTreeMap;

use crate::harness::Harness;
use crate::workers::tools;

impl Harness {
    /// All records of the session, with the state after each.
    fn log(&mut self) -> Vec<(Record, State)> {
        let Some(task) = &self.session else {
            return Vec::new();
        };
        let Ok(file) = self.store.open(task) else {
            return Vec::new();
        };
        let mut all: Vec<(Record, State)> = Vec::new();
        let mut folded = None;
        read_all(&*file, &mut |record| {
            let state = State::advance(&mut folded, &record).expect("a log begins with its task");
            all.push((record, state.clone()));
        })
        .expect("the disk reads");
        all
    }

    pub fn compare_all(&mut self) {
        let log = self.log();
        self.check_single_answers(&log);
        let tools = Tools::new(&tools());
        let mut compared = 0;
        for (at, client) in self.clients.iter().enumerate() {
            let view = client.dialect.view();
            let expected = frames(&log, view, &tools);
            let ends = client.stream_starts.iter().skip(1).copied();
            let ends = ends.chain([client.frames.len()]);
            for (begin, end) in client.stream_starts.iter().zip(ends) {
                compared += compare(at, client.dialect, &client.frames[*begin..end], &expected);
            }
            for stream in &client.request_streams {
                compared += compare(at, client.dialect, stream, &expected);
            }
        }
        *self.tally.entry("a frame was compared").or_default() += compared;
    }

    /// Every question has exactly one accepted answer, and every call starts once.
    fn check_single_answers(&mut self, log: &[(Record, State)]) {
        let mut answered: BTreeMap<String, u64> = BTreeMap::new();
        let mut runs: BTreeMap<String, u64> = BTreeMap::new();
        for (record, _) in log {
            match &record.event {
                Event::CallAnswered { call, .. } => {
                    *answered.entry(call.to_string()).or_default() += 1;
                }
                Event::CallStarted { call } => *runs.entry(call.to_string()).or_default() += 1,
                _ => {}
            }
        }
        for (call, times) in answered.iter().chain(&runs) {
            assert_eq!(*times, 1, "{call} was answered or run {times} times");
        }
        *self.tally.entry("an answer was accepted").or_default() += answered.len() as u64;
    }
}

/// The frames of a view by event number, each in two forms: as a frame that others follow, and as the last frame of a stream.
fn frames(log: &[(Record, State)], view: View, tools: &Tools) -> BTreeMap<u64, (String, String)> {
    let frames = log.iter().filter_map(|(record, state)| {
        let body = a2a::event(view, state, record, tools)?;
        let pair = (text(body.frame(false)), text(body.frame(true)));
        Some((record.seq.0, pair))
    });
    frames.collect()
}

/// Checks that a stream is an optional snapshot followed by every event that the view shows, without a gap. Returns the number of
/// events.
fn compare(at: usize, dialect: Dialect, stream: &[(Seq, String)], expected: &BTreeMap<u64, (String, String)>) -> u64 {
    let is_event = |(seq, body): &(Seq, String)| {
        let pair = expected.get(&seq.0);
        pair.is_some_and(|(open, closing)| body.is_empty() || body == open || body == closing)
    };
    let events = match stream {
        [first, rest @ ..] if !is_event(first) => rest,
        all => all,
    };
    for pair in events.windows(2) {
        let (one, next) = (pair[0].0.0, pair[1].0.0);
        assert!(one < next, "client {at} {dialect:?}: {one}, then {next}");
        let missed: Vec<&u64> = expected.range(one + 1..next).map(|(seq, _)| seq).collect();
        assert!(missed.is_empty(), "client {at} {dialect:?}: {one}, then {next} without {missed:?}");
    }
    for event in events {
        assert!(
            is_event(event),
            "client {at} {dialect:?} received {event:?}, and the journal has {:?}",
            expected.get(&event.0.0)
        );
    }
    if let (Some(snapshot), Some(event)) = (stream.first().filter(|f| !is_event(f)), events.first()) {
        let missed = expected.range(snapshot.0.0 + 1..event.0.0).next();
        assert_eq!(missed, None, "client {at} {dialect:?}: a gap after the snapshot");
    }
    events.len() as u64
}
