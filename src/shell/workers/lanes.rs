//! The worker threads. A lane is a queue of jobs and the threads that take jobs from it. Model requests, tools, the disk, computations,
//! webhooks and a bucket have one lane each, so that waiting for a model never delays reading from a journal. Jobs send messages to the
//! loop, whose type the loop defines.
//!
//! The number of threads follows the number of jobs: an idle thread takes the next job, else a new one starts, up to the lane's cap; a
//! thread without work ends after a while. The first unread message wakes the loop, and the loop takes all messages in one swap.
//!
//! The loop waits for workers only when it ends. A worker waits for the loop if too many messages are unread; once the loop has ended,
//! messages are dropped, so that no worker waits forever. A job whose cancel flag is set while it is queued is run all the same: it
//! sees the flag and reports its own end.

use crate::base::cancel::Cancel;
use crate::base::lock::lock;
use crate::base::text::words::words;
use crate::limits::Limits;
use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

words! {
    /// The words are the names of its threads, for people with a debugger.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Lane {
        Model = "model",
        Tool = "tool",
        Disk = "disk",
        Compute = "compute",
        Hook = "hook",
        Bucket = "bucket",
    }
}

impl Lane {
    /// The size of a thread's stack. It is address space that is reserved and mostly not used, but 512 stacks have to fit. A model thread
    /// uses most of its stack in a TLS handshake (tens of KiB, more in unoptimised builds) and when it parses nested JSON; half a MiB
    /// is enough for both. Tools run code of every kind, such as regular expressions, and get the usual 2 MiB; so do computations, which
    /// decode requests of clients. The disk lane parses journal lines, webhooks make TLS handshakes.
    fn stack_bytes(self) -> usize {
        match self {
            Lane::Model | Lane::Disk | Lane::Hook | Lane::Bucket => 512 * 1024,
            Lane::Tool | Lane::Compute => 2 * 1024 * 1024,
        }
    }

    /// Whether the lane's last thread stays when it has no work. A command can use up all processes that our user may have, or
    /// lower our limit. Then no thread can be started, and without a thread that identifies peers no client could cancel that command.
    fn keeps_a_thread(self) -> bool {
        match self {
            Lane::Disk => true,
            Lane::Model | Lane::Tool | Lane::Compute | Lane::Hook | Lane::Bucket => false,
        }
    }

    fn cap(self, limits: &Limits) -> usize {
        match self {
            Lane::Model => limits.model_threads,
            Lane::Tool => limits.tool_threads,
            Lane::Disk => limits.disk_threads,
            Lane::Compute => limits.compute_threads,
            Lane::Hook => limits.webhook_threads,
            Lane::Bucket => limits.bucket_threads,
        }
    }
}

/// Too many jobs are queued in the lane already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Whether there are unread messages after a [`Lanes::drain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    None,
    Some,
}

/// The number and the times of a lane's jobs.
#[derive(Clone, Copy, Debug)]
pub struct LaneLoad {
    pub lane: Lane,
    pub queued: usize,
    pub running: usize,
    /// How long the first job of the queue has waited.
    pub oldest_wait: Duration,
    /// For how long the longest running job has run.
    pub longest_run: Duration,
}

pub struct Lanes<M: Send + 'static> {
    outbox: Arc<Outbox<M>>,
    /// Messages that were taken from the outbox and not yet returned to the loop.
    taken: VecDeque<M>,
    queues: [Arc<Queue<M>>; Lane::ALL.len()],
    /// The threads that may not have ended yet.
    threads: Vec<JoinHandle<()>>,
    /// Why the system refused a thread since the last [`Lanes::retry`].
    refused: Option<String>,
    /// How many more threads the tests refuse, as the system would.
    #[cfg(test)]
    pub refusals: usize,
}

impl<M: Send + 'static> Lanes<M> {
    /// `wake` makes the loop call [`Lanes::drain`] soon. It is called from workers.
    pub fn new(wake: impl Fn() + Send + Sync + 'static, limits: &Limits) -> Lanes<M> {
        Lanes {
            outbox: Arc::new(Outbox {
                state: Mutex::new(OutboxState { messages: VecDeque::new(), blocked: 0, closed: false }),
                room: Condvar::new(),
                cap: limits.notes,
                wake: Box::new(wake),
            }),
            taken: VecDeque::new(),
            queues: Lane::ALL.map(|lane| {
                Arc::new(Queue {
                    lane,
                    threads_cap: lane.cap(limits),
                    jobs_cap: limits.lane_jobs,
                    idle: Duration::from_millis(limits.thread_idle_ms),
                    state: Mutex::new(QueueState {
                        jobs: VecDeque::new(),
                        threads: 0,
                        idle: 0,
                        running: Vec::new(),
                        started: 0,
                        closed: false,
                    }),
                    work: Condvar::new(),
                })
            }),
            threads: Vec::new(),
            refused: None,
            #[cfg(test)]
            refusals: 0,
        }
    }

    /// Runs `work` on a thread of the lane. If it panics, `died` makes the message about it. If the system refuses a thread, the job waits
    /// for one; see [`Lanes::refused`].
    pub fn start(
        &mut self,
        lane: Lane,
        cancel: Cancel,
        work: impl FnOnce(&Outbox<M>, &Cancel) + Send + 'static,
        died: impl FnOnce(String) -> M + Send + 'static,
    ) -> Result<(), Full> {
        let since = Instant::now();
        let job = Job { work: Box::new(move |outbox| work(outbox, &cancel)), died: Box::new(died), since };
        let queue = self.queues[lane as usize].clone();
        let mut state = lock(&queue.state);
        if state.jobs.len() >= queue.jobs_cap {
            return Err(Full);
        }
        state.jobs.push_back(job);
        // A thread that was notified of a job and has not woken yet counts as idle, its job as queued.
        if state.jobs.len() <= state.idle {
            drop(state);
            queue.work.notify_one();
            return Ok(());
        }
        if state.threads == queue.threads_cap {
            return Ok(());
        }
        drop(state);
        self.add_thread(&queue);
        Ok(())
    }

    /// Why the system refused a thread, if it did: then jobs wait longer than they should. Call [`Lanes::retry`] after a while.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Why the system refused a thread, if there are jobs in a lane that has no thread at all.
    pub fn starved(&self) -> Option<&str> {
        self.refused().filter(|_| {
            let mut states = self.queues.iter().map(|queue| lock(&queue.state));
            states.any(|state| state.threads == 0 && !state.jobs.is_empty())
        })
    }

    /// Tries again to start the threads that are missing.
    pub fn retry(&mut self) {
        self.refused = None;
        for queue in self.queues.clone() {
            let state = lock(&queue.state);
            let missing = state.jobs.len().saturating_sub(state.idle).min(queue.threads_cap - state.threads);
            drop(state);
            for _ in 0..missing {
                if self.refused.is_none() {
                    self.add_thread(&queue);
                }
            }
        }
    }

    fn add_thread(&mut self, queue: &Arc<Queue<M>>) {
        lock(&queue.state).threads += 1;
        match self.spawn(queue) {
            Ok(thread) => {
                self.threads.retain(|thread| !thread.is_finished());
                self.threads.push(thread);
            }
            Err(error) => {
                lock(&queue.state).threads -= 1;
                self.refused = Some(error.to_string());
            }
        }
    }

    fn spawn(&mut self, queue: &Arc<Queue<M>>) -> io::Result<JoinHandle<()>> {
        #[cfg(test)]
        if let Some(left) = self.refusals.checked_sub(1) {
            self.refusals = left;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        spawn(queue.clone(), self.outbox.clone())
    }

    /// Ends all threads, and drops messages from now on. Waits up to a limit for threads that still work.
    pub fn end(&mut self, wait: Duration) {
        self.close();
        let until = Instant::now() + wait;
        while self.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        for thread in self.threads.drain(..).filter(JoinHandle::is_finished) {
            // A panic was caught before the thread ended.
            let _ = thread.join();
        }
    }

    fn close(&self) {
        lock(&self.outbox.state).closed = true;
        self.outbox.room.notify_all();
        for queue in &self.queues {
            let mut state = lock(&queue.state);
            state.closed = true;
            // Jobs of the disk lane are still run, so that nothing is left unwritten.
            if queue.lane != Lane::Disk {
                state.jobs.clear();
            }
            drop(state);
            queue.work.notify_all();
        }
    }

    /// Appends at most `max` messages to `into`, in the order in which they were sent. After `Unread::None` the next message
    /// wakes the loop.
    pub fn drain(&mut self, max: usize, into: &mut Vec<M>) -> Unread {
        let mut room = max;
        loop {
            let count = room.min(self.taken.len());
            into.extend(self.taken.drain(..count));
            room -= count;
            if room == 0 && !self.taken.is_empty() {
                return Unread::Some;
            }
            let mut state = lock(&self.outbox.state);
            if state.messages.is_empty() {
                return Unread::None;
            }
            if room == 0 {
                return Unread::Some;
            }
            std::mem::swap(&mut state.messages, &mut self.taken);
            let any_waits = state.blocked > 0;
            drop(state);
            // Waking costs a system call, and mostly no worker waits.
            if any_waits {
                self.outbox.room.notify_all();
            }
        }
    }

    /// The load of each lane.
    pub fn loads(&self) -> [LaneLoad; Lane::ALL.len()] {
        Lane::ALL.map(|lane| {
            let state = lock(&self.queues[lane as usize].state);
            LaneLoad {
                lane,
                queued: state.jobs.len(),
                running: state.running.len(),
                oldest_wait: state.jobs.front().map_or(Duration::ZERO, |job| job.since.elapsed()),
                longest_run: state.running.iter().map(|(_, since)| since.elapsed()).max().unwrap_or_default(),
            }
        })
    }

    /// Jobs of a lane that wait for a thread.
    #[cfg(test)]
    pub fn queued(&self, lane: Lane) -> usize {
        lock(&self.queues[lane as usize].state).jobs.len()
    }

    /// Jobs of all lanes that are running.
    #[cfg(test)]
    pub fn busy(&self) -> usize {
        self.queues.iter().map(|queue| lock(&queue.state).running.len()).sum()
    }
}

impl<M: Send + 'static> Drop for Lanes<M> {
    fn drop(&mut self) {
        self.close();
    }
}

/// The queue of the messages from workers to the loop.
pub struct Outbox<M> {
    state: Mutex<OutboxState<M>>,
    /// Notified when there is room again, and when the loop has ended.
    room: Condvar,
    cap: usize,
    wake: Box<dyn Fn() + Send + Sync>,
}

struct OutboxState<M> {
    messages: VecDeque<M>,
    /// How many workers wait for room.
    blocked: usize,
    closed: bool,
}

impl<M> Outbox<M> {
    /// Sends a message. Waits while too many messages are unread. When the loop has ended the message is dropped.
    pub fn send(&self, message: M) {
        let mut state = lock(&self.state);
        while state.messages.len() >= self.cap && !state.closed {
            state.blocked += 1;
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.blocked -= 1;
        }
        if state.closed {
            return;
        }
        let is_first = state.messages.is_empty();
        state.messages.push_back(message);
        drop(state);
        if is_first {
            (self.wake)();
        }
    }
}

type Work<M> = Box<dyn FnOnce(&Outbox<M>) + Send>;
type Died<M> = Box<dyn FnOnce(String) -> M + Send>;

struct Job<M> {
    work: Work<M>,
    died: Died<M>,
    /// When it was queued.
    since: Instant,
}

struct Queue<M> {
    lane: Lane,
    threads_cap: usize,
    jobs_cap: usize,
    idle: Duration,
    state: Mutex<QueueState<M>>,
    work: Condvar,
}

struct QueueState<M> {
    jobs: VecDeque<Job<M>>,
    /// The number of all threads of the lane, and of those that wait for a job.
    threads: usize,
    idle: usize,
    /// The jobs that run: their numbers, and when they began.
    running: Vec<(u64, Instant)>,
    /// How many jobs have begun so far.
    started: u64,
    /// The loop has ended.
    closed: bool,
}

impl<M> Queue<M> {
    /// The next job with its number, or None when the thread has waited long enough and is no longer counted.
    fn next(&self) -> Option<(u64, Job<M>)> {
        let mut state = lock(&self.state);
        while state.jobs.is_empty() {
            state.idle += 1;
            let (woken, timeout) = self
                .work
                .wait_timeout_while(state, self.idle, |state| state.jobs.is_empty() && !state.closed)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            let stays = self.lane.keeps_a_thread() && state.threads == 1 && !state.closed;
            if state.jobs.is_empty() && !stays && (timeout.timed_out() || state.closed) {
                state.threads -= 1;
                return None;
            }
        }
        let job = state.jobs.pop_front()?;
        state.started += 1;
        let number = state.started;
        state.running.push((number, Instant::now()));
        Some((number, job))
    }

    /// A job has ended.
    fn ended(&self, number: u64) {
        lock(&self.state).running.retain(|(running, _)| *running != number);
    }
}

fn spawn<M: Send + 'static>(queue: Arc<Queue<M>>, outbox: Arc<Outbox<M>>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(queue.lane.word().to_owned()).stack_size(queue.lane.stack_bytes()).spawn(move || {
        while let Some((number, job)) = queue.next() {
            run(job, &outbox);
            queue.ended(number);
        }
    })
}

/// A panic ends the job only.
fn run<M>(job: Job<M>, outbox: &Outbox<M>) {
    let Job { work, died, .. } = job;
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(outbox))) {
        outbox.send(died(panic_message(&*panic)));
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        (None, None) => "no reason given",
    };
    format!("the worker panicked: {text}")
}

#[cfg(test)]
mod tests;
