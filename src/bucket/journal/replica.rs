//! The program's replica of a task: the state that results from its journal lines.

use crate::base::id::Seq;
use crate::bucket::names;
use crate::bucket::port::Halt;
use crate::bucket::replica::{Applied, InstanceId, Phase, Replica, Status, StoreEvent};
use crate::task::log::event::Event;
use crate::task::log::ownership::Owned;
use crate::task::log::record::{BadLine, Record};
use crate::task::machine::state::State;
use std::sync::Arc;

/// The state of a task, folded from its log. Keeps the applied lines until the caller writes them to the local copy of the log.
#[derive(Default)]
pub struct JournalReplica {
    pub state: Option<State>,
    url: Option<String>,
    /// The wall clock, set by the caller before each procedure that may write an event.
    pub unix_ms: u64,
    applied: Vec<u8>,
    /// The creation of the task was not completed: its log has only `deleted`.
    is_abandoned: bool,
    is_fenced: bool,
}

impl JournalReplica {
    /// The empty replica of a task, in an instance that clients reach at `url`.
    pub fn new(url: Option<String>) -> JournalReplica {
        JournalReplica { url, ..JournalReplica::default() }
    }

    /// The lines that were applied since the last call.
    pub fn take_applied(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.applied)
    }

    /// Whether another instance has claimed the task since the last call.
    pub fn take_fenced(&mut self) -> bool {
        std::mem::take(&mut self.is_fenced)
    }

    /// Whether these events need a marker: no work is under way, and one of them may begin work.
    pub fn begins_work(&self, records: &[Record]) -> bool {
        self.status().is_settled() && records.iter().any(|record| may_begin_work(&record.event))
    }
}

/// Reads the lines of a segment whose first event is `first`.
pub fn read_lines(first: Seq, lines: &[u8]) -> Result<Vec<Record>, Halt> {
    let mut next = first;
    let mut records = Vec::new();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let record = Record::read(line.strip_suffix(b"\n").unwrap_or(line)).map_err(|bad| match bad {
            BadLine::Damaged => Halt::Damaged(format!("event {next} is damaged")),
            BadLine::Unknown(why) => Halt::Damaged(format!("event {next} was not read: {why}")),
        })?;
        if record.seq != next {
            return Err(Halt::Damaged(format!("event {} is where event {next} belongs", record.seq)));
        }
        next = next.next();
        records.push(record);
    }
    Ok(records)
}

/// Whether an event may begin work in a task at rest. An unneeded marker only costs requests.
fn may_begin_work(event: &Event) -> bool {
    !matches!(
        event,
        Event::Owned(_)
            | Event::Released
            | Event::Background { runs: false }
            | Event::Heard(_)
            | Event::Deleted
            | Event::Audited { .. }
            | Event::HookMoved { .. }
            | Event::HookDropped { .. }
            | Event::Tuned { .. }
    )
}

impl Replica for JournalReplica {
    fn entry(&self, first_segment: &[u8]) -> Option<String> {
        let line = first_segment.split(|byte| *byte == b'\n').next()?;
        match Record::read(line).ok()?.event {
            Event::Created(created) => {
                let folder = names::context(&created.tenant, &created.owner, &created.context);
                Some(names::entry(&folder, &created.task))
            }
            _ => None,
        }
    }

    fn apply(&mut self, first: Seq, lines: &[u8]) -> Result<Applied, Halt> {
        let records = read_lines(first, lines)?;
        let begins_work = self.begins_work(&records);
        for record in &records {
            if self.state.is_none() && record.event == Event::Deleted {
                self.is_abandoned = true;
                continue;
            }
            State::advance(&mut self.state, record)
                .ok_or_else(|| Halt::Damaged(format!("event {} is out of place", record.seq)))?;
        }
        self.applied.extend_from_slice(lines);
        Ok(if begins_work { Applied::BeganWork } else { Applied::Other })
    }

    fn status(&self) -> Status {
        let Some(state) = &self.state else {
            let phase = if self.is_abandoned { Phase::Deleted } else { Phase::Rest };
            return Status { phase, owner: None, epoch: 0, released: false, heard: 0, due: false };
        };
        let ownership = &state.ownership;
        Status {
            phase: phase(state),
            owner: ownership.owner.as_ref().map(|owned| InstanceId::from(owned.instance.clone())),
            epoch: ownership.epoch(),
            released: ownership.is_released,
            heard: ownership.last_heard(),
            due: state.hooks.iter().any(|hook| !hook.due.is_empty()),
        }
    }

    fn line(&self, seq: Seq, event: &StoreEvent) -> Vec<u8> {
        let event = match event {
            StoreEvent::Owned { instance, epoch } => {
                let instance = Arc::from(instance.as_str());
                Event::Owned(Arc::new(Owned { instance, epoch: *epoch, url: self.url.clone() }))
            }
            StoreEvent::Released => Event::Released,
            StoreEvent::Deleted => Event::Deleted,
        };
        let at = self.state.as_ref().map_or(self.unix_ms, |state| state.stamp(&event, self.unix_ms));
        let mut line = Vec::new();
        Record { seq, at, event }.write(&mut line);
        line
    }

    fn fenced(&mut self) {
        self.is_fenced = true;
    }
}

fn phase(state: &State) -> Phase {
    if state.ownership.is_deleted {
        return Phase::Deleted;
    }
    if state.is_over() {
        return Phase::Closed;
    }
    if state.is_at_work() {
        return Phase::Working;
    }
    if state.waits_for_answers() || state.suspended { Phase::Paused } else { Phase::Rest }
}
