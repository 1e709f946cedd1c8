//! The protocol as it is, and with one rule left out.

use gemini_a2a::bucket::instance::{Rules, Times};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    Whole,
    /// Segments are deleted when they are joined; readers read the joined ones.
    SegmentsDeleted,
    /// A sender that finds a number of an inbox taken uses the next one, without comparing the bytes.
    InboxNotCompared,
    /// A removal deletes the log from its end, and the entry after the log.
    EntryLast,
    /// Deleted tasks are removed at once.
    NoGrace,
    /// The entry of a task is never checked.
    EntryNotChecked,
    /// The names of markers have no position.
    PlainMarkers,
    /// A restarted instance has the same id as before, and does not adopt a task whose log names this id as the owner.
    IdsReused,
    /// A restarted instance has the same id as before, and adopts such a task.
    IdsReusedAndAdopted,
    /// Ids are random, and an instance does not adopt such a task.
    NotAdopted,
    /// Tools are stopped when the segment that ends their turn is acknowledged, not before it is sent.
    StoppedLate,
}

impl Variant {
    pub fn rules(self) -> Rules {
        let mut rules = Rules::default();
        match self {
            Variant::InboxNotCompared => rules.inbox_compared = false,
            Variant::EntryLast => rules.entry_removed_first = false,
            Variant::EntryNotChecked => rules.entry_checked = false,
            Variant::PlainMarkers => rules.numbered_markers = false,
            Variant::IdsReused | Variant::NotAdopted => rules.own_claims_adopted = false,
            Variant::Whole
            | Variant::SegmentsDeleted
            | Variant::NoGrace
            | Variant::IdsReusedAndAdopted
            | Variant::StoppedLate => {}
        }
        rules
    }

    /// The times of the program, but four segments are enough to be joined: simulated tasks are short.
    pub fn times(self) -> Times {
        let times = Times { compacted_segments: 4, ..Times::default() };
        match self {
            Variant::NoGrace => Times { removal_ms: 0, ..times },
            _ => times,
        }
    }

    pub fn reuses_ids(self) -> bool {
        matches!(self, Variant::IdsReused | Variant::IdsReusedAndAdopted)
    }
}
