//! Tests of the live output of calls.

use super::*;
use crate::limits::LIVE_TAIL_BYTES;
use crate::task::log::event::Event;
use crate::task::log::record::Record;

fn at(seq: u64, at: u64) -> Record {
    Record { seq: Seq(seq), at, event: Event::Retried }
}

#[test]
fn output_is_kept_from_its_end_and_cut_between_characters() {
    let mut live = Live::begin("first", &at(1, 0));
    assert_eq!(live.tail, "first");
    live.push(&"é".repeat(LIVE_TAIL_BYTES), &at(2, 0));
    assert_eq!(live.tail, "é".repeat(LIVE_TAIL_BYTES / 2));
    live.push("x", &at(3, 0));
    assert_eq!(live.tail, "é".repeat(LIVE_TAIL_BYTES / 2 - 1) + "x", "half a character is not kept");
}

#[test]
fn output_is_shown_ten_times_a_second_however_it_comes() {
    let shown = |times: &mut dyn Iterator<Item = u64>| {
        let mut live = Live::begin("x", &at(0, 0));
        let mut count = 1;
        for (seq, time) in (1..).zip(times) {
            live.push("x", &at(seq, time));
            count += u64::from(live.shown == Seq(seq));
        }
        count
    };
    assert_eq!(shown(&mut (1..=10_000)), 101);
    assert_eq!(shown(&mut (1..=100).map(|n| n * 1_000)), 101);
    // A tool that means to report every 100 ms and is early every other time.
    assert_eq!(shown(&mut (1..=100).map(|n| n * 100 - n % 2 * 9)), 101);
    assert_eq!(shown(&mut [0, 0, 0].into_iter()), 1);
}
