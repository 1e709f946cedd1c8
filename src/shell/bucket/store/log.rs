//! The log of one task in a shared store: the lines that the event loop has appended, and the view of the log in the bucket. A sync writes the
//! lines as segments. Lines of other instances are read after the synced ones.

use crate::base::id::{Seq, TaskId};
use crate::base::lock::lock;
use crate::bucket::journal::commit::Commit;
use crate::bucket::journal::replica::{JournalReplica, read_lines};
use crate::bucket::log::read::Read;
use crate::bucket::log::view::View;
use crate::bucket::port::{Port, block_on};
use crate::bucket::replica::{Phase, Replica};
use crate::core::disk::store::{LogFile, StoreError, lines_of_page};
use crate::limits::store::TEXT_PAUSE_MS;
use crate::shell::bucket::store::blobs::BucketBlobs;
use crate::shell::bucket::store::derived::DerivedObjects;
use crate::shell::bucket::store::member::{Member, store_error};
use crate::shell::event_loop::sys;
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

pub type TaskView = View<JournalReplica>;

pub struct SharedLog {
    pub task: TaskId,
    member: Arc<Member>,
    content: Arc<BucketBlobs>,
    lines: Mutex<Lines>,
    /// Notified when the event loop has appended lines.
    appended: Condvar,
    /// The lock is held by the thread that runs a procedure for this task; there is one at a time.
    view: Mutex<TaskView>,
    /// The objects that are derived from the log. The lock is held while they are written.
    pub derived: Mutex<DerivedObjects>,
}

/// The log as this process knows it.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// The number of events in `bytes`.
    events: u64,
    /// The number of bytes that are in the bucket.
    synced: usize,
    /// The end of the bytes that were sent without a known result. They are sent again unchanged.
    sent: usize,
    /// Lines that were appended after the synced bytes are void, because another instance continues the task.
    is_void: bool,
    damaged: Option<StoreError>,
    /// When the last segment was sent, by the clock of the port.
    sent_ms: u64,
    /// When the first event of a new task was appended, by the same clock. The log of the task that it continues was read just before.
    created_ms: Option<u64>,
}

impl Lines {
    /// Whether `lines` follow the present lines.
    fn continues(&self, lines: &[u8]) -> bool {
        let first = lines.split(|byte| *byte == b'\n').next().unwrap_or_default();
        first.is_empty() || Record::read(first).is_ok_and(|record| record.seq == Seq(self.events + 1))
    }

    fn add(&mut self, lines: &[u8]) {
        self.bytes.extend_from_slice(lines);
        self.events += memchr::memchr_iter(b'\n', lines).count() as u64;
    }

    /// The last event that is in the bucket.
    fn last_synced(&self) -> Seq {
        Seq(self.events - memchr::memchr_iter(b'\n', &self.bytes[self.synced..]).count() as u64)
    }

    /// Drops the lines that are not synced.
    fn drop_unsynced(&mut self) {
        self.is_void |= self.bytes.len() > self.synced;
        self.sent = 0;
        self.bytes.truncate(self.synced);
        self.events = memchr::memchr_iter(b'\n', &self.bytes).count() as u64;
    }

    /// Replaces the lines after `kept` bytes with other lines.
    fn replace(&mut self, kept: usize, lines: &[u8]) {
        self.is_void = self.bytes.len() > self.synced;
        // The dropped lines are not sent again.
        self.sent = 0;
        self.bytes.truncate(kept);
        self.events = memchr::memchr_iter(b'\n', &self.bytes).count() as u64;
        self.add(lines);
    }
}

impl SharedLog {
    pub fn new(task: TaskId, member: Arc<Member>, content: Arc<BucketBlobs>) -> SharedLog {
        let view = View::new(task.clone(), None, JournalReplica::new(member.url.clone()));
        SharedLog {
            task,
            member,
            content,
            lines: Mutex::default(),
            appended: Condvar::new(),
            view: Mutex::new(view),
            derived: Mutex::default(),
        }
    }

    /// Appends lines, to be written by the next sync. They are void if other instances have written events with the same numbers.
    pub fn append(&self, lines: &[u8]) {
        let mut own = lock(&self.lines);
        if own.bytes.is_empty() {
            own.created_ms = Some(sys::boot_ms());
        }
        // If the lines are void, the next sync returns an error.
        own.is_void |= !own.continues(lines);
        if !own.is_void {
            own.add(lines);
        }
        drop(own);
        self.appended.notify_all();
    }

    /// Whether some lines are not in the bucket yet.
    pub fn has_unsynced(&self) -> bool {
        let lines = lock(&self.lines);
        lines.bytes.len() > lines.synced
    }

    #[cfg(test)]
    pub fn events(&self) -> u64 {
        lock(&self.lines).events
    }

    /// Whether no line of the log was read or appended in this process.
    pub fn is_unread(&self) -> bool {
        lock(&self.lines).bytes.is_empty()
    }

    /// The view. Waits until no other procedure is running.
    pub fn view(&self) -> MutexGuard<'_, TaskView> {
        let mut view = lock(&self.view);
        view.replica.unix_ms = sys::unix_ms();
        view
    }

    /// The view, or `None` if another procedure is running.
    pub fn idle_view(&self) -> Option<MutexGuard<'_, TaskView>> {
        let mut view = self.view.try_lock().ok()?;
        view.replica.unix_ms = sys::unix_ms();
        Some(view)
    }

    /// Reads lines that other instances have written.
    pub fn read_on(&self, view: &mut TaskView) -> Result<(), StoreError> {
        if view.is_unloaded {
            return self.read_anew(view);
        }
        let read = block_on(self.member.patient.read_on(view));
        self.take_applied(view);
        match read.map_err(store_error)? {
            Read::Current => self.check_exists(view),
            Read::NoLog if self.has_unsynced() => Ok(()),
            Read::NoLog | Read::Gone => Err(StoreError::gone(&self.task)),
        }
    }

    /// Reads the log again from its beginning, because the result of the last request is unknown.
    fn read_anew(&self, view: &mut TaskView) -> Result<(), StoreError> {
        let replica = JournalReplica::new(self.member.url.clone());
        let mut fresh = View::new(self.task.clone(), view.entry.clone(), replica);
        fresh.replica.unix_ms = sys::unix_ms();
        match block_on(self.member.patient.read_on(&mut fresh)).map_err(store_error)? {
            Read::Current => {}
            // The creation of the task was not completed.
            Read::NoLog if lock(&self.lines).synced == 0 && self.has_unsynced() => {}
            Read::NoLog | Read::Gone => return Err(StoreError::gone(&self.task)),
        }
        let known = fresh.replica.take_applied();
        {
            let mut lines = lock(&self.lines);
            if !lines.bytes.starts_with(&known) || known.len() < lines.synced {
                lines.replace(0, &known);
            }
            lines.synced = known.len();
        }
        self.content.add_references(&self.task, &known);
        *view = fresh;
        self.check_exists(view)
    }

    fn check_exists(&self, view: &mut TaskView) -> Result<(), StoreError> {
        if view.replica.status().phase == Phase::Deleted {
            return Err(StoreError::gone(&self.task));
        }
        // The log may show that an earlier claim succeeded although its response was lost.
        self.member.patient.adopt(view);
        Ok(())
    }

    /// Takes over the lines that a procedure has read from the log or written to it.
    pub fn take_applied(&self, view: &mut TaskView) {
        let applied = view.replica.take_applied();
        if applied.is_empty() {
            return;
        }
        let mut lines = lock(&self.lines);
        let synced = lines.synced;
        if !lines.bytes[synced..].starts_with(&applied) {
            lines.replace(synced, &applied);
            drop(lines);
            self.content.add_references(&self.task, &applied);
            lines = lock(&self.lines);
        }
        lines.synced = synced + applied.len();
    }

    /// The lines that are to be synced, in two parts: those that may have been sent already, and the rest.
    fn unsynced(&self) -> [Vec<u8>; 2] {
        let lines = lock(&self.lines);
        let sent = lines.sent.clamp(lines.synced, lines.bytes.len());
        [lines.bytes[lines.synced..sent].to_vec(), lines.bytes[sent..].to_vec()]
    }

    /// While all unsynced lines are streamed text, waits until [`TEXT_PAUSE_MS`] have passed since the last segment was sent. So the text of
    /// a model does not cause a request for every word.
    fn wait_for_other_lines(&self) {
        let mut lines = lock(&self.lines);
        loop {
            let waited = sys::boot_ms().saturating_sub(lines.sent_ms);
            if waited >= TEXT_PAUSE_MS || lines.bytes.len() == lines.synced || !is_text(&lines.bytes[lines.synced..]) {
                return;
            }
            let rest = Duration::from_millis(TEXT_PAUSE_MS - waited);
            lines = match self.appended.wait_timeout(lines, rest) {
                Ok((lines, _)) => lines,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    fn commit(&self, view: &mut TaskView) -> Result<(), StoreError> {
        if view.is_unloaded {
            self.read_anew(view)?;
        }
        if view.tail == Seq(0) {
            view.tail_checked_at = lock(&self.lines).created_ms;
        }
        for lines in self.unsynced() {
            if lines.is_empty() {
                continue;
            }
            self.content.upload(&self.task, &lines)?;
            {
                let mut own = lock(&self.lines);
                own.sent = own.synced + lines.len();
                own.sent_ms = sys::boot_ms();
            }
            let silent_version = |owner: &_| self.member.silent_version(owner);
            let commit = block_on(self.member.patient.commit(view, &lines, silent_version));
            self.take_applied(view);
            match commit.map_err(store_error)? {
                Commit::Done => {}
                Commit::Fenced => return Err(self.fenced()),
                Commit::Gone => {
                    lock(&self.lines).drop_unsynced();
                    return Err(StoreError::gone(&self.task));
                }
            }
        }
        self.confirm_ownership(view)
    }

    /// Checks that this process still owns the task. Reads the log to its end unless that was done a moment ago.
    fn confirm_ownership(&self, view: &mut TaskView) -> Result<(), StoreError> {
        let instance = &self.member.patient;
        let is_known = |at: u64| instance.port.now_ms().saturating_sub(at) <= instance.times.slow_ms;
        if !view.tail_checked_at.is_some_and(is_known) {
            self.read_on(view)?;
        }
        match instance.owns(view) && !lock(&self.lines).is_void {
            true => Ok(()),
            false => Err(self.fenced()),
        }
    }

    /// Allows lines to be appended again. Called after the log was read to its end.
    pub fn clear_void(&self) {
        lock(&self.lines).is_void = false;
    }

    /// Deletes obsolete markers and compacts segments. Nothing waits for this.
    pub fn tidy(&self) -> Result<(), StoreError> {
        let Some(mut view) = self.idle_view().filter(|view| !view.is_unloaded) else {
            return Ok(());
        };
        let (settled, compaction) = (view.take_obsolete_markers(), self.member.hasty.next_compaction(&mut view));
        drop(view);
        for seq in settled {
            block_on(self.member.hasty.delete_marker(&self.task, seq));
        }
        match compaction {
            Some(compaction) => block_on(self.member.hasty.compact(&compaction)).map_err(store_error),
            None => Ok(()),
        }
    }

    /// The synced lines after an event.
    pub fn lines_after(&self, after: Seq) -> Vec<u8> {
        let lines = lock(&self.lines);
        let mut ends = memchr::memchr_iter(b'\n', &lines.bytes[..lines.synced]);
        let start = match after.0.checked_sub(1) {
            None => 0,
            Some(before) => match ends.nth(usize::try_from(before).unwrap_or(usize::MAX)) {
                Some(end) => end + 1,
                None => return Vec::new(),
            },
        };
        lines.bytes[start..lines.synced].to_vec()
    }

    fn fenced(&self) -> StoreError {
        StoreError::locked(format!("another instance continues task {}", self.task))
    }
}

/// Whether lines have only streamed text of a model or a command.
fn is_text(lines: &[u8]) -> bool {
    let first = memchr::memchr(b'\n', lines).map_or(lines, |end| &lines[..=end]);
    let Some(first) = Record::read(first.trim_ascii_end()).ok().map(|record| record.seq) else {
        return false;
    };
    read_lines(first, lines).is_ok_and(|records| {
        records
            .iter()
            .all(|record| matches!(record.event, Event::Text { .. } | Event::Thought { .. } | Event::CallOutput { .. }))
    })
}

impl LogFile for SharedLog {
    fn sync(&self) -> Result<(), StoreError> {
        self.sync_upto(Seq(0)).map(drop)
    }

    fn sync_upto(&self, _: Seq) -> Result<Seq, StoreError> {
        self.wait_for_other_lines();
        let mut view = self.view();
        if let Some(error) = &lock(&self.lines).damaged {
            return Err(error.clone());
        }
        self.member.check()?;
        self.commit(&mut view)?;
        self.member.check()?;
        // The lock of the view is still held, so these are the lines that were confirmed to be ours.
        Ok(lock(&self.lines).last_synced())
    }

    fn page(&self, offset: u64, max: usize) -> Result<Vec<u8>, StoreError> {
        let lines = lock(&self.lines);
        match &lines.damaged {
            Some(error) => Err(error.clone()),
            None => Ok(lines_of_page(&lines.bytes[..lines.synced], offset, max)),
        }
    }

    fn len(&self) -> u64 {
        lock(&self.lines).synced as u64
    }

    fn set_aside(&self, why: &str) -> StoreError {
        let error = StoreError::new(format!("{}: {why}", self.name()));
        lock(&self.lines).damaged = Some(error.clone());
        error
    }

    fn name(&self) -> String {
        format!("the log of task {} in the bucket", self.task)
    }
}
