//! Commands that continue to run after their call has ended, and the two tools for them: `list_background_processes` and
//! `read_background_output`.
//!
//! Each process has a thread that follows it like any command, except that silence does not end it, and keeps its newest output. The
//! output is kept in memory and not in files: both end with the server, and there is nothing to protect on disk or to remove later.
//!
//! A process belongs to the task whose call started it. Other tasks cannot see it, and it is ended with its task. The next server finds
//! the processes of a killed server by their marker, background or not.

use crate::base::cancel::Cancel;
use crate::base::id::TaskId;
use crate::base::lock::lock;
use crate::limits::Limits;
use crate::task::machine::job::{Run, RunEnd};
use crate::task::spec::{CallError, Ending, ErrorKind, Kind, Plan, ToolSpec};
use crate::tool::commands::watch::follow;
use crate::tool::files::text::untrusted;
use crate::tool::{Child, Ctx, Tool, invalid, number_arg, object, text_end};
use serde_json::{Value, json};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// All background processes of the server, oldest first.
#[derive(Default)]
pub struct Background {
    processes: Mutex<Vec<Arc<Process>>>,
}

/// A background process, running or ended.
pub struct Process {
    task: TaskId,
    pid: u32,
    command: String,
    stop: Cancel,
    state: Mutex<ProcessState>,
    changed: Condvar,
}

#[derive(Default)]
struct ProcessState {
    /// The newest output.
    output: String,
    /// The bytes of output before it that were dropped.
    dropped: u64,
    /// None: the process runs.
    ended: Option<Ended>,
}

struct Ended {
    ending: Ending,
    /// The ending in a few words.
    summary: String,
}

impl Background {
    /// Checks whether one more may be started. The error is the reason why not.
    pub(in crate::tool) fn check_room(&self, ctx: &Ctx) -> Result<(), String> {
        let processes = lock(&self.processes);
        let running = || processes.iter().filter(|process| process.is_running());
        let own = running().filter(|process| process.task == *ctx.task);
        let (own, all) = (own.count(), running().count());
        if own >= ctx.limits.background_task {
            return Err(format!(
                "{own} commands run in the background already, and no more are allowed. End one that is not needed."
            ));
        }
        if all >= ctx.limits.background {
            return Err(format!(
                "{all} commands run in the background of this server, and no more are allowed. Try again later."
            ));
        }
        Ok(())
    }

    /// Takes over a command that was just started.
    pub(in crate::tool) fn adopt(&self, child: Box<dyn Child>, command: &str, ctx: &Ctx) -> io::Result<Arc<Process>> {
        let process = Arc::new(Process {
            task: ctx.task.clone(),
            pid: child.id(),
            command: command.to_owned(),
            stop: Cancel::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (followed, limits) = (process.clone(), ctx.limits.clone());
        thread::Builder::new()
            .name("background".into())
            .stack_size(256 * 1024)
            .spawn(move || followed.follow(child, &limits))?;
        let mut processes = lock(&self.processes);
        processes.push(process.clone());
        let excess = processes.len().saturating_sub(ctx.limits.background_kept);
        for _ in 0..excess {
            if let Some(ended) = processes.iter().position(|process| !process.is_running()) {
                processes.remove(ended);
            }
        }
        Ok(process)
    }

    pub(in crate::tool) fn forget(&self, process: &Arc<Process>) {
        lock(&self.processes).retain(|other| !Arc::ptr_eq(other, process));
    }

    /// Ends all processes of a task and forgets them. Does not wait for their end.
    pub fn end_task(&self, task: &TaskId) {
        lock(&self.processes).retain(|process| {
            let is_of_task = process.task == *task;
            if is_of_task {
                process.stop.set();
            }
            !is_of_task
        });
    }

    /// The tasks of processes that run, each once.
    pub fn tasks(&self) -> Vec<TaskId> {
        let processes = lock(&self.processes);
        let running = processes.iter().filter(|process| process.is_running());
        let mut tasks: Vec<TaskId> = running.map(|process| process.task.clone()).collect();
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }

    fn of(&self, task: &TaskId) -> Vec<Arc<Process>> {
        let processes = lock(&self.processes);
        processes.iter().filter(|process| process.task == *task).cloned().collect()
    }

    /// The newest process with this pid, because pids are reused.
    fn find(&self, task: &TaskId, pid: usize) -> Option<Arc<Process>> {
        self.of(task).into_iter().rev().find(|process| usize::try_from(process.pid) == Ok(pid))
    }
}

impl Process {
    pub(in crate::tool) fn pid(&self) -> u32 {
        self.pid
    }

    /// How the process ended, if it has.
    pub(in crate::tool) fn ending(&self) -> Option<Ending> {
        lock(&self.state).ended.as_ref().map(|ended| ended.ending.clone())
    }

    /// The newest output.
    pub(in crate::tool) fn text(&self) -> String {
        let state = lock(&self.state);
        if state.dropped == 0 {
            return state.output.clone();
        }
        format!("[the first {} bytes of output were not kept]\n{}", state.dropped, state.output)
    }

    /// Waits until the process ends, the time is over, or the call is cancelled.
    pub(in crate::tool) fn wait(self: &Arc<Process>, ms: u64, ctx: &Ctx) {
        let sleeper = self.clone();
        ctx.cancel.on_set(move || {
            // Taking the lock ensures that the notification does not come between the check of the flag and the wait.
            drop(lock(&sleeper.state));
            sleeper.changed.notify_all();
        });
        let ms = ms.min(ctx.limits.background_wait_ms);
        let until = Instant::now() + Duration::from_millis(ms);
        let mut state = lock(&self.state);
        while state.ended.is_none() && !ctx.cancel.is_set() {
            let remaining = until.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                break;
            }
            let woken = self.changed.wait_timeout(state, remaining);
            (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        ctx.cancel.clear();
    }

    /// Ends the process and waits for its end.
    pub(in crate::tool) fn end(&self) {
        self.stop.set();
        drop(self.changed.wait_while(lock(&self.state), |state| state.ended.is_none()));
    }

    fn is_running(&self) -> bool {
        lock(&self.state).ended.is_none()
    }

    /// The status in a few words.
    fn status(&self) -> String {
        let state = lock(&self.state);
        state.ended.as_ref().map_or("running", |ended| &ended.summary).to_owned()
    }

    fn follow(&self, child: Box<dyn Child>, limits: &Limits) {
        let own_limits = Limits {
            shell_silence_ms: 0,
            live_bytes: usize::MAX,
            output_bytes: limits.background_bytes,
            ..limits.clone()
        };
        let mut out = |text: String| self.append(&text, limits.background_bytes);
        // The end is recorded even after a panic, because a call may wait for it.
        let followed = catch_unwind(AssertUnwindSafe(|| follow(child, &self.stop, &own_limits, None, &mut out)));
        let followed = followed.unwrap_or_else(|_| Err(io::Error::other("its watcher died")));
        let ended = match followed {
            Ok(result) => {
                let facts = result.facts(&own_limits);
                let summary = if facts.is_empty() { "ended".to_owned() } else { facts.replace('\n', ", ") };
                let ending = result.ending(&own_limits, |_| None);
                Ended { ending, summary }
            }
            Err(error) => {
                let summary = format!("ended because it could not be watched: {error}");
                let error = ErrorKind::ShellExecuteError.error(summary.clone());
                Ended { ending: Ending::Error { error }, summary }
            }
        };
        lock(&self.state).ended = Some(ended);
        self.changed.notify_all();
    }

    /// Appends output, and drops the oldest so that at most `most` bytes remain.
    fn append(&self, text: &str, most: usize) {
        let mut state = lock(&self.state);
        state.output.push_str(text);
        let excess = state.output.ceil_char_boundary(state.output.len().saturating_sub(most));
        state.output.drain(..excess);
        state.dropped += excess as u64;
    }
}

pub struct ListProcesses;

impl Tool for ListProcesses {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "list_background_processes",
            "BackgroundProcesses",
            Kind::Read,
            "Lists the commands you started in the background, running or over.",
            json!({"type": "object", "properties": {}}),
        )
    }

    fn prepare(&self, _: &Value, _: &Ctx) -> Result<Plan, CallError> {
        Ok(plan("Listing background processes"))
    }

    fn run(&self, _: &Run, ctx: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        let line = |process: &Arc<Process>| format!("{} [{}] {}", process.pid, process.status(), process.command);
        let lines: Vec<String> = ctx.background.of(ctx.task).iter().map(line).collect();
        let text =
            if lines.is_empty() { "No commands were started in the background.".to_owned() } else { lines.join("\n") };
        Ok(text_end(text.clone(), text))
    }
}

pub struct ReadOutput;

/// Lines shown by default.
const LINES: usize = 100;

impl Tool for ReadOutput {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "read_background_output",
            "BackgroundOutput",
            Kind::Read,
            "Shows the last lines that a command printed which you started in the background.",
            object(
                &["pid"],
                json!({
                    "pid": {"type": "integer", "minimum": 1, "description": "The process, as it was named when it was started."},
                    "lines": {"type": "integer", "minimum": 1, "description": "How many lines; 100 if not given."},
                    "delay_ms": {"type": "integer", "minimum": 0, "description": "Wait this long before reading, or until the command is over."},
                }),
            ),
        )
    }

    fn prepare(&self, args: &Value, ctx: &Ctx) -> Result<Plan, CallError> {
        let process = named(args, ctx)?;
        Ok(plan(&format!("Reading the output of process {}", process.pid)))
    }

    fn run(&self, run: &Run, ctx: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        let process = named(&run.args, ctx)?;
        if let Some(delay) = number_arg(&run.args, "delay_ms") {
            process.wait(delay as u64, ctx);
        }
        let text = process.text();
        let lines: Vec<&str> = text.lines().collect();
        let wanted = number_arg(&run.args, "lines").unwrap_or(LINES);
        let shown = &lines[lines.len().saturating_sub(wanted)..];
        let head =
            format!("Process {} [{}], last {} of {} lines:", process.pid, process.status(), shown.len(), lines.len());
        let shown = shown.join("\n");
        Ok(text_end(format!("{head}\n{}", untrusted(&shown)), shown))
    }
}

fn named(args: &Value, ctx: &Ctx) -> Result<Arc<Process>, CallError> {
    let pid = number_arg(args, "pid").ok_or_else(|| invalid("pid must be given as a number"))?;
    ctx.background.find(ctx.task, pid).ok_or_else(|| {
        invalid(format!(
            "{pid} is no process that was started in the background here. Those that were: list_background_processes."
        ))
    })
}

fn plan(title: &str) -> Plan {
    Plan::info(title, "Confirm Background Processes", title)
}
