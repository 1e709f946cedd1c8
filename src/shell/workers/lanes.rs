//! Work beside the loop. A lane is a queue of jobs and the threads that take from it; model requests, tools, the disk, computations,
//! webhooks and a bucket have one each, so that waiting for a model never delays reading from a journal. Jobs report to the loop by mail, whose type the
//! loop defines.
//!
//! Threads are elastic: an idle one takes the next job, else a new one starts, up to the lane's cap; one without work leaves
//! after a while. The first piece of mail wakes the loop at once, and the loop takes all that has come by then in one swap.
//!
//! The loop waits for workers only when it ends. A worker may wait for the loop, when too much mail is unread; once the loop has ended, mail
//! is dropped, so that no worker waits forever. A job whose cancel flag is set while it is
//! queued is run all the same: it sees the flag and reports its own end.

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
    /// Stacks are reserved, not used, but 512 of them have to fit. A model thread's deepest moments are a TLS handshake (tens
    /// of KiB, more in unoptimised builds) and parsing nested JSON; half a MiB leaves room for both. Tools run code of every
    /// kind, regular expressions among it, and get the usual 2 MiB; so does the decoding of what clients send. The disk lane parses journal lines, webhooks make TLS handshakes.
    fn stack_bytes(self) -> usize {
        match self {
            Lane::Model | Lane::Disk | Lane::Hook | Lane::Bucket => 512 * 1024,
            Lane::Tool | Lane::Compute => 2 * 1024 * 1024,
        }
    }

    /// Whether the lane's last thread stays without work. A command can use up all processes that our user may have, or
    /// lower our limit. Then no thread can be started, and if no thread could identify peers, no client could
    /// cancel that command.
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

/// Whether mail is left after a [`Lanes::drain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Nothing,
    Mail,
}

/// The jobs of a lane.
#[derive(Clone, Copy, Debug)]
pub struct LaneLoad {
    pub lane: Lane,
    pub queued: usize,
    pub running: usize,
    /// How long the first of the queue has waited.
    pub waits: Duration,
    /// How long the oldest of those that run has run.
    pub runs: Duration,
}

pub struct Lanes<M: Send + 'static> {
    post: Arc<Post<M>>,
    /// Taken from the post, not yet given to the loop.
    taken: VecDeque<M>,
    queues: [Arc<Queue<M>>; Lane::ALL.len()],
    /// All that were started and may not have ended.
    threads: Vec<JoinHandle<()>>,
    /// Why the system refused a thread since the last [`Lanes::retry`].
    refused: Option<String>,
    /// So many threads are refused as the system would refuse them.
    #[cfg(test)]
    pub refusals: usize,
}

impl<M: Send + 'static> Lanes<M> {
    /// `wake` makes the loop call [`Lanes::drain`] soon. It is called from workers.
    pub fn new(wake: impl Fn() + Send + Sync + 'static, limits: &Limits) -> Lanes<M> {
        Lanes {
            post: Arc::new(Post {
                mail: Mutex::new(Mail { waiting: VecDeque::new(), blocked: 0, closed: false }),
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

    /// Runs `work` on a thread of the lane. If it panics, `died` makes the mail that says so. If no thread can be had, it waits
    /// for one; see [`Lanes::refused`].
    pub fn start(
        &mut self,
        lane: Lane,
        cancel: Cancel,
        work: impl FnOnce(&Post<M>, &Cancel) + Send + 'static,
        died: impl FnOnce(String) -> M + Send + 'static,
    ) -> Result<(), Full> {
        let since = Instant::now();
        let job = Job { work: Box::new(move |post| work(post, &cancel)), died: Box::new(died), since };
        let queue = self.queues[lane as usize].clone();
        let mut state = lock(&queue.state);
        if state.jobs.len() >= queue.jobs_cap {
            return Err(Full);
        }
        state.jobs.push_back(job);
        // An idle thread that was told of a job and has not woken yet counts as idle, its job as queued.
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

    /// Why the system refused a thread: jobs wait longer than they should. To be followed by [`Lanes::retry`] after a while.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// The same if some jobs have no thread at all that could take them.
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
        spawn(queue.clone(), self.post.clone())
    }

    /// Ends all threads: mail is dropped from now on. Waits for those that still work, up to a limit.
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
        lock(&self.post.mail).closed = true;
        self.post.room.notify_all();
        for queue in &self.queues {
            let mut state = lock(&queue.state);
            state.closed = true;
            // What was to be written is still written.
            if queue.lane != Lane::Disk {
                state.jobs.clear();
            }
            drop(state);
            queue.work.notify_all();
        }
    }

    /// Appends at most `max` pieces of mail to `into`, in the order they were sent. After `Left::Nothing` the next piece
    /// wakes the loop.
    pub fn drain(&mut self, max: usize, into: &mut Vec<M>) -> Left {
        let mut room = max;
        loop {
            let count = room.min(self.taken.len());
            into.extend(self.taken.drain(..count));
            room -= count;
            if room == 0 && !self.taken.is_empty() {
                return Left::Mail;
            }
            let mut mail = lock(&self.post.mail);
            if mail.waiting.is_empty() {
                return Left::Nothing;
            }
            if room == 0 {
                return Left::Mail;
            }
            std::mem::swap(&mut mail.waiting, &mut self.taken);
            let anybody = mail.blocked > 0;
            drop(mail);
            // Waking costs a system call, and mostly no worker waits.
            if anybody {
                self.post.room.notify_all();
            }
        }
    }

    /// How many jobs each lane has, and for how long.
    pub fn loads(&self) -> [LaneLoad; Lane::ALL.len()] {
        Lane::ALL.map(|lane| {
            let state = lock(&self.queues[lane as usize].state);
            LaneLoad {
                lane,
                queued: state.jobs.len(),
                running: state.running.len(),
                waits: state.jobs.front().map_or(Duration::ZERO, |job| job.since.elapsed()),
                runs: state.running.iter().map(|(_, since)| since.elapsed()).max().unwrap_or_default(),
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

/// The queue of what workers report to the loop.
pub struct Post<M> {
    mail: Mutex<Mail<M>>,
    /// There is room again, or the loop has ended.
    room: Condvar,
    cap: usize,
    wake: Box<dyn Fn() + Send + Sync>,
}

struct Mail<M> {
    waiting: VecDeque<M>,
    /// Workers that wait for room.
    blocked: usize,
    closed: bool,
}

impl<M> Post<M> {
    /// Waits while too much mail is unread. When the loop has ended the mail is dropped.
    pub fn send(&self, piece: M) {
        let mut mail = lock(&self.mail);
        while mail.waiting.len() >= self.cap && !mail.closed {
            mail.blocked += 1;
            mail = self.room.wait(mail).unwrap_or_else(PoisonError::into_inner);
            mail.blocked -= 1;
        }
        if mail.closed {
            return;
        }
        let first = mail.waiting.is_empty();
        mail.waiting.push_back(piece);
        drop(mail);
        if first {
            (self.wake)();
        }
    }
}

type Work<M> = Box<dyn FnOnce(&Post<M>) + Send>;
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
    /// All threads of the lane, and those that wait for a job.
    threads: usize,
    idle: usize,
    /// The jobs that threads have, by number, and when they began.
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

    fn ended(&self, number: u64) {
        lock(&self.state).running.retain(|(running, _)| *running != number);
    }
}

fn spawn<M: Send + 'static>(queue: Arc<Queue<M>>, post: Arc<Post<M>>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(queue.lane.word().to_owned()).stack_size(queue.lane.stack_bytes()).spawn(move || {
        while let Some((number, job)) = queue.next() {
            run(job, &post);
            queue.ended(number);
        }
    })
}

/// A panic ends the job only.
fn run<M>(job: Job<M>, post: &Post<M>) {
    let Job { work, died, .. } = job;
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(post))) {
        post.send(died(message(&*panic)));
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        (None, None) => "no reason given",
    };
    format!("the worker panicked: {text}")
}

#[cfg(test)]
mod tests;
