//! One task in a shared store: the lines that the loop has appended, and the view of its log in the bucket. A sync makes segments of the
//! lines; what other instances wrote is read behind them.

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
use crate::shell::bucket::store::member::{Member, halted};
use crate::shell::bucket::store::notes::Notes;
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
    /// The loop has appended something.
    appended: Condvar,
    /// Held by the thread that has a procedure under way: there is one at a time.
    view: Mutex<TaskView>,
    /// What is beside the log. Held while that is written.
    pub notes: Mutex<Notes>,
}

/// The log as this process knows it.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// How many events these are.
    events: u64,
    /// So many bytes are in the bucket.
    synced: usize,
    /// Up to here bytes were sent of which it is not known whether they arrived. They are sent again as they were.
    sent: usize,
    /// What was appended behind the synced bytes is void: another instance continues the task.
    is_void: bool,
    damaged: Option<StoreError>,
    /// When the last segment was sent, by the clock of the port.
    sent_ms: u64,
    /// When the first event of a new task was appended, by the same clock. The task that it continues was read just before.
    begun_ms: Option<u64>,
}

impl Lines {
    /// Whether lines follow those that there are.
    fn continues(&self, lines: &[u8]) -> bool {
        let first = lines.split(|byte| *byte == b'\n').next().unwrap_or_default();
        first.is_empty() || Record::read(first).is_ok_and(|record| record.seq == Seq(self.events + 1))
    }

    fn add(&mut self, lines: &[u8]) {
        self.bytes.extend_from_slice(lines);
        self.events += memchr::memchr_iter(b'\n', lines).count() as u64;
    }

    /// What is not synced has no place any more.
    fn drop_unsynced(&mut self) {
        self.is_void |= self.bytes.len() > self.synced;
        self.sent = 0;
        self.bytes.truncate(self.synced);
        self.events = memchr::memchr_iter(b'\n', &self.bytes).count() as u64;
    }

    /// Other lines have the place of those behind `kept` bytes.
    fn replace(&mut self, kept: usize, lines: &[u8]) {
        self.is_void = self.bytes.len() > self.synced;
        // What was sent of the lines before them is not sent again.
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
            notes: Mutex::default(),
        }
    }

    /// Keeps lines until they are synced. They are void if others were read meanwhile that have their place.
    pub fn append(&self, lines: &[u8]) {
        let mut own = lock(&self.lines);
        if own.bytes.is_empty() {
            own.begun_ms = Some(sys::boot_ms());
        }
        // The next sync says so.
        own.is_void |= !own.continues(lines);
        if !own.is_void {
            own.add(lines);
        }
        drop(own);
        self.appended.notify_all();
    }

    /// Whether there is something that is not in the bucket.
    pub fn has_unsynced(&self) -> bool {
        let lines = lock(&self.lines);
        lines.bytes.len() > lines.synced
    }

    #[cfg(test)]
    pub fn events(&self) -> u64 {
        lock(&self.lines).events
    }

    /// Whether nothing of it is known here.
    pub fn is_unread(&self) -> bool {
        lock(&self.lines).bytes.is_empty()
    }

    /// The view, once no other procedure is under way.
    pub fn view(&self) -> MutexGuard<'_, TaskView> {
        let mut view = lock(&self.view);
        view.replica.unix_ms = sys::unix_ms();
        view
    }

    /// The same if no other procedure is under way now.
    pub fn idle_view(&self) -> Option<MutexGuard<'_, TaskView>> {
        let mut view = self.view.try_lock().ok()?;
        view.replica.unix_ms = sys::unix_ms();
        Some(view)
    }

    /// Reads what other instances wrote.
    pub fn read_on(&self, view: &mut TaskView) -> Result<(), StoreError> {
        if view.is_unloaded {
            return self.read_anew(view);
        }
        let read = block_on(self.member.patient.read_on(view));
        self.take_applied(view);
        match read.map_err(halted)? {
            Read::Current => self.exists(view),
            Read::NoLog if self.has_unsynced() => Ok(()),
            Read::NoLog | Read::Gone => Err(StoreError::gone(&self.task)),
        }
    }

    /// Reads the log from its beginning: it is not known what has become of the last request.
    fn read_anew(&self, view: &mut TaskView) -> Result<(), StoreError> {
        let replica = JournalReplica::new(self.member.url.clone());
        let mut fresh = View::new(self.task.clone(), view.entry.clone(), replica);
        fresh.replica.unix_ms = sys::unix_ms();
        match block_on(self.member.patient.read_on(&mut fresh)).map_err(halted)? {
            Read::Current => {}
            // Its creation was not completed.
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
        self.content.learn(&self.task, &known);
        *view = fresh;
        self.exists(view)
    }

    fn exists(&self, view: &mut TaskView) -> Result<(), StoreError> {
        if view.replica.status().phase == Phase::Deleted {
            return Err(StoreError::gone(&self.task));
        }
        // A claim was won whose answer did not arrive.
        self.member.patient.adopt(view);
        Ok(())
    }

    /// Notes what a procedure has found in the log or added to it.
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
            self.content.learn(&self.task, &applied);
            lines = lock(&self.lines);
        }
        lines.synced = synced + applied.len();
    }

    /// The lines that are to be synced, in two parts: what may have been sent already, and the rest.
    fn unsynced(&self) -> [Vec<u8>; 2] {
        let lines = lock(&self.lines);
        let sent = lines.sent.clamp(lines.synced, lines.bytes.len());
        [lines.bytes[lines.synced..sent].to_vec(), lines.bytes[sent..].to_vec()]
    }

    /// Waits for more lines if there is only text, so that a model that speaks does not cause a request for every word.
    fn gather(&self) {
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
            view.known_at = lock(&self.lines).begun_ms;
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
            let silent = |owner: &_| self.member.silent(owner);
            let commit = block_on(self.member.patient.commit(view, &lines, silent));
            self.take_applied(view);
            match commit.map_err(halted)? {
                Commit::Done => {}
                Commit::Fenced => return Err(self.claimed()),
                Commit::Gone => {
                    lock(&self.lines).drop_unsynced();
                    return Err(StoreError::gone(&self.task));
                }
            }
        }
        self.confirm(view)
    }

    /// Whether the task is still ours: reads on, unless the tail was known a moment ago.
    fn confirm(&self, view: &mut TaskView) -> Result<(), StoreError> {
        let instance = &self.member.patient;
        let is_known = |at: u64| instance.port.now_ms().saturating_sub(at) <= instance.times.slow_ms;
        if !view.known_at.is_some_and(is_known) {
            self.read_on(view)?;
        }
        match instance.owns(view) && !lock(&self.lines).is_void {
            true => Ok(()),
            false => Err(self.claimed()),
        }
    }

    /// Lets the task be written again, after it was read as it is now.
    pub fn revive(&self) {
        lock(&self.lines).is_void = false;
    }

    /// Deletes the markers of what is done, and joins segments. Nothing waits for it.
    pub fn tidy(&self) -> Result<(), StoreError> {
        let Some(mut view) = self.idle_view().filter(|view| !view.is_unloaded) else {
            return Ok(());
        };
        let (settled, joint) = (view.take_settled(), self.member.hasty.joint(&mut view));
        drop(view);
        for seq in settled {
            block_on(self.member.hasty.unmark(&self.task, seq));
        }
        match joint {
            Some(joint) => block_on(self.member.hasty.join(&joint)).map_err(halted),
            None => Ok(()),
        }
    }

    /// The lines behind an event.
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

    fn claimed(&self) -> StoreError {
        StoreError::locked(format!("another instance continues task {}", self.task))
    }
}

/// Whether lines are only what a model or a command says.
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
        self.gather();
        let mut view = self.view();
        if let Some(error) = &lock(&self.lines).damaged {
            return Err(error.clone());
        }
        self.member.check()?;
        self.commit(&mut view)?;
        self.member.check()
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
