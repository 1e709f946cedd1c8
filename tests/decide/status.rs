//! Task states and their times, and the journal of every log of these tests.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::log::record::Record;
use gemini_a2a::task::machine::state::TaskState;

#[test]
fn the_table_of_legal_transitions_is_exactly_this() {
    use TaskState::*;
    // Rows are from, columns are to, both in the order of `TaskState::ALL`.
    let edges = [
        // s  w  i  a  C  F  X  R
        [0, 1, 1, 0, 0, 1, 1, 1], // submitted
        [0, 0, 1, 1, 1, 1, 1, 1], // working
        [0, 1, 0, 0, 1, 1, 1, 0], // input-required
        [0, 1, 1, 0, 0, 1, 1, 0], // auth-required
        [0; 8],                   // completed
        [0; 8],                   // failed
        [0; 8],                   // canceled
        [0; 8],                   // rejected
    ];
    for (from, row) in TaskState::ALL.into_iter().zip(edges) {
        for (to, legal) in TaskState::ALL.into_iter().zip(row) {
            assert_eq!(from.may_become(to), legal == 1, "{from:?} to {to:?}");
        }
        let terminal = matches!(from, Completed | Failed | Canceled | Rejected);
        assert_eq!(from.is_terminal(), terminal, "{from:?}");
    }
}

/// Status times increase even when the clock stands still or goes back; other events may share a time.
#[test]
fn every_status_is_later_than_the_one_before() {
    let mut case = given(editing());
    case.record(ended(&edit(), success()));
    case.record(Event::Paused);
    case.record(canceled());
    let mut state = first_state(&case.log[0]);
    let mut seen = vec![state.status.at];
    for record in &case.log[1..] {
        let early = Record { at: state.stamp(&record.event, NOON - 60_000), ..record.clone() };
        assert!(early.at >= state.at, "{early:?}");
        state.apply(&early);
        if state.status.seq == early.seq {
            assert_eq!(state.status.at, early.at);
            seen.push(early.at);
        }
    }
    // Created, began, answered with calls, paused, answered by ann, paused, closed.
    let expected: Vec<u64> = (NOON..NOON + 7).collect();
    assert_eq!(seen, expected);
    let late = NOON + 5_000;
    assert_eq!(state.stamp(&text("x"), late), late);
}

#[test]
fn every_log_of_these_tests_round_trips_through_the_journal() {
    for (phase, start) in every_phase() {
        let case = given(start);
        let mut journal = Vec::new();
        for record in &case.log {
            record.write(&mut journal);
        }
        let lines = journal.strip_suffix(b"\n").expect("lines end");
        let read: Vec<Record> = lines
            .split(|byte| *byte == b'\n')
            .map(|line| Record::read(line).expect("a line we have just written"))
            .collect();
        assert_eq!(read, case.log, "{phase}");
    }
}
