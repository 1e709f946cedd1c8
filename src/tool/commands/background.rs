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
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    /// The newest output, and how many bytes before it were dropped.
    text: String,
    dropped: u64,
    over: Option<Over>,
}

struct Over {
    ending: Ending,
    /// The ending in a few words.
    how: String,
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
            seen: Mutex::default(),
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
            if let Some(over) = processes.iter().position(|process| !process.is_running()) {
                processes.remove(over);
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
            let theirs = process.task == *task;
            if theirs {
                process.stop.set();
            }
            !theirs
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
        let theirs = processes.iter().filter(|process| process.task == *task);
        theirs.cloned().collect()
    }

    /// The newest process with this pid, because pids are reused.
    fn find(&self, task: &TaskId, pid: usize) -> Option<Arc<Process>> {
        let theirs = self.of(task).into_iter().rev();
        theirs.into_iter().find(|process| usize::try_from(process.pid) == Ok(pid))
    }
}

impl Process {
    pub(in crate::tool) fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it has.
    pub(in crate::tool) fn ending(&self) -> Option<Ending> {
        lock(&self.seen).over.as_ref().map(|over| over.ending.clone())
    }

    /// Its newest output.
    pub(in crate::tool) fn text(&self) -> String {
        let seen = lock(&self.seen);
        if seen.dropped == 0 {
            return seen.text.clone();
        }
        format!("[the first {} bytes of output were not kept]\n{}", seen.dropped, seen.text)
    }

    /// Waits until it ends, the time is over, or the call is cancelled.
    pub(in crate::tool) fn wait(self: &Arc<Process>, ms: u64, ctx: &Ctx) {
        let sleeper = self.clone();
        ctx.cancel.on_set(move || {
            // Locked, so that this cannot happen between the check of the flag and the wait.
            drop(lock(&sleeper.seen));
            sleeper.changed.notify_all();
        });
        let ms = ms.min(ctx.limits.background_wait_ms);
        let until = Instant::now() + Duration::from_millis(ms);
        let mut seen = lock(&self.seen);
        while seen.over.is_none() && !ctx.cancel.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let woken = self.changed.wait_timeout(seen, left);
            (seen, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        drop(seen);
        ctx.cancel.clear();
    }

    /// Ends it and waits for that.
    pub(in crate::tool) fn end(&self) {
        self.stop.set();
        let over = self.changed.wait_while(lock(&self.seen), |seen| seen.over.is_none());
        drop(over);
    }

    fn is_running(&self) -> bool {
        lock(&self.seen).over.is_none()
    }

    /// Its status, in a few words.
    fn status(&self) -> String {
        let seen = lock(&self.seen);
        let over = seen.over.as_ref();
        over.map_or("running", |over| &over.how).to_owned()
    }

    fn follow(&self, child: Box<dyn Child>, limits: &Limits) {
        let mine = Limits {
            shell_silence_ms: 0,
            live_bytes: usize::MAX,
            output_bytes: limits.background_bytes,
            ..limits.clone()
        };
        let mut take = |text: String| self.take(&text, limits.background_bytes);
        // Its end is recorded even after a panic, because a call may wait for it.
        let followed = catch_unwind(AssertUnwindSafe(|| follow(child, &self.stop, &mine, None, &mut take)));
        let followed = followed.unwrap_or_else(|_| Err(io::Error::other("its watcher died")));
        let over = match followed {
            Ok(seen) => {
                let facts = seen.facts(&mine);
                let how = if facts.is_empty() { "ended".to_owned() } else { facts.replace('\n', ", ") };
                let ending = seen.ending(&mine, |_| None);
                Over { ending, how }
            }
            Err(error) => {
                let how = format!("ended because it could not be watched: {error}");
                let error = ErrorKind::ShellExecuteError.error(how.clone());
                Over { ending: Ending::Error { error }, how }
            }
        };
        lock(&self.seen).over = Some(over);
        self.changed.notify_all();
    }

    fn take(&self, text: &str, most: usize) {
        let mut seen = lock(&self.seen);
        seen.text.push_str(text);
        let mut excess = seen.text.len().saturating_sub(most);
        while !seen.text.is_char_boundary(excess) {
            excess += 1;
        }
        seen.text.drain(..excess);
        seen.dropped += excess as u64;
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
