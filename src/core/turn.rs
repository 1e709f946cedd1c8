//! The inputs and outputs of the core, and the order in which they are processed. Everything that happens outside is an [`Input`],
//! everything that the shell is to do is an [`Out`], and [`Core::turn`] alone determines the order. The server, the simulation and all
//! tests use it.

use crate::base::clock::Now;
use crate::base::id::{ConfigId, Seq, TaskId};
use crate::base::level::Level;
use crate::base::secret::Secret;
use crate::base::slots::Key;
use crate::core::access::identity::Key as IdentityKey;
use crate::core::audit::Audit;
use crate::core::compute::{Computation, Computed, Recipient};
use crate::core::connections::identity::Identity;
use crate::core::disk::page::Page;
use crate::core::disk::request::{SharedAnswer, StoreRequest};
use crate::core::disk::store::{Excess, Known, Maintenance, Removal, Store, StoreError};
use crate::core::operation::access_log::Entry;
use crate::core::operation::process::Figures;
use crate::core::operation::readiness::Delays;
use crate::core::requests::Caller;
use crate::core::webhooks::{Delivery, DeliveryError};
use crate::core::{Core, Site, SiteWish};
use crate::mcp::config::Server;
use crate::task::access::credentials::CredentialsFile;
use crate::task::definitions::command_hook::HookPoint;
use crate::task::form::Reply;
use crate::task::log::brief::Brief;
use crate::task::log::event::Event;
use crate::task::log::record::Record;
use crate::task::machine::job::{Job, JobId, Note};
use crate::task::machine::state::{Item, State, TaskState};
use crate::task::policy::Rule;
use serde_json::{Value, json};
use std::io::IoSlice;
use std::sync::Arc;

/// What happened outside.
#[derive(Debug)]
pub enum Input<'a> {
    /// A peer sent bytes, no more than [`Core::room`] allows.
    Received { conn: Key, bytes: &'a [u8] },
    /// The peer will send no more.
    Finished { conn: Key },
    /// The connection broke: nothing can be sent any more.
    Broke { conn: Key },
    /// A connection that accepted no bytes may accept some now.
    Writable { conn: Key },
    /// The peer accepted this many bytes. Only for tests: [`Core::turn`] knows what [`Shell::write`] accepted.
    Sent { conn: Key, bytes: usize },
    /// A worker reports.
    Note(Note),
    /// The tasks in the store, at the start.
    Listed(Vec<Known>),
    /// The answer to [`StoreRequest::Load`].
    Loaded { task: TaskId, result: Result<Box<Loaded>, StoreError> },
    /// The answer to [`StoreRequest::Page`].
    Paged { sub: Key, page: Result<Page, StoreError> },
    /// The answer to [`StoreRequest::Sync`].
    Synced { task: TaskId, upto: Seq, result: Result<(), StoreError> },
    /// The answer to [`StoreRequest::SyncAudit`]; `upto` is the last entry that was flushed.
    AuditSynced { upto: u64, result: Result<(), StoreError> },
    /// The answer to [`StoreRequest::ReopenAudit`].
    AuditReopened(Result<(), StoreError>),
    /// The answer to [`StoreRequest::Remove`].
    Removed { task: TaskId, brief: Brief, result: Result<Removal, StoreError> },
    /// The answer to [`StoreRequest::Measure`].
    Measured(Result<Excess, StoreError>),
    /// The answer to [`StoreRequest::Probe`].
    Probed(Result<(), StoreError>),
    /// The answer to [`StoreRequest::Shared`].
    Shared(SharedAnswer),
    /// The answer to [`Out::Resolve`].
    Resolved { request: u64, site: Result<Site, String> },
    /// The answer to [`Out::Blob`]: some of the bytes, and the length of the whole content.
    BlobRead { request: Arc<BlobRequest>, read: Result<(Vec<u8>, u64), String> },
    /// The answer to [`Out::Files`].
    FilesFound { request: Arc<FilesRequest>, found: Result<(Vec<String>, usize), String> },
    /// The answer to [`Out::Compute`], or why there is none.
    Computed { recipient: Recipient, result: Result<Computed, String> },
    /// The answer to [`Out::Identify`].
    Identified { conn: Key, identity: Identity },
    /// The answer to [`Out::Deliver`].
    Delivered { task: TaskId, hook: ConfigId, seq: Seq, result: Result<(), DeliveryError> },
    /// The answer to [`Out::ReadCredentials`]: None if the file is as it was.
    Credentials(Option<Result<CredentialsFile, String>>),
    /// The answer to [`Out::FetchKeys`]: the keys, and for how many milliseconds they may be used.
    Keys(Result<(Vec<IdentityKey>, u64), String>),
    /// Why no thread can be started for some jobs; None: all jobs have threads again.
    NoThreads(Option<String>),
    /// Whether jobs take too long, if that has changed.
    Delayed(Delays),
    /// The answer to [`Out::Scrape`]. Figures of the process that cannot be read are left out.
    Scraped { caller: Arc<Caller>, figures: Box<Figures> },
    /// The operator has changed files and wants them read again (SIGHUP).
    Reload,
    /// Shut down (SIGTERM).
    ShutDown,
}

/// What the shell is to do.
#[derive(Debug)]
pub enum Out {
    /// Start a job; it reports by [`Input::Note`].
    Start(Job),
    /// Stop a job.
    Stop(JobId),
    /// Give a job the answer to its question.
    Reply { job: JobId, nr: u32, reply: Reply },
    /// Ask the store; answered as the request says.
    Store(StoreRequest),
    /// Maintain the store. There is no answer.
    Maintain(Maintenance),
    /// Look at a workspace and the directories beside it; answered by [`Input::Resolved`].
    Resolve { request: u64, path: String, directories: Vec<String>, wish: SiteWish },
    /// Read stored content; answered by [`Input::BlobRead`].
    Blob(Arc<BlobRequest>),
    /// Find files of a workspace; answered by [`Input::FilesFound`].
    Files(Arc<FilesRequest>),
    /// Decode or encode something long; answered by [`Input::Computed`].
    Compute(Computation),
    /// Find out which process is behind a connection; answered by [`Input::Identified`].
    Identify { conn: Key },
    /// Read the credentials file again if it has changed; answered by [`Input::Credentials`].
    ReadCredentials,
    /// Fetch the keys of the identity provider; answered by [`Input::Keys`].
    FetchKeys,
    /// End the background processes of a task, and forget what was handed over for it: the task is over, or another instance continues it.
    EndBackground { task: TaskId },
    /// Start these MCP servers, which a client named for the task and may use.
    ClientServers { task: TaskId, servers: Vec<Server> },
    /// Use this key for the model API for the task. A client gave it.
    ClientKey { task: TaskId, key: Secret },
    /// Run the command hooks of an event that has happened: they cannot change it. They may report by [`Input::Note`].
    CommandHook(Box<HookNotice>),
    /// Send an event to a webhook; answered by [`Input::Delivered`].
    Deliver(Delivery),
    /// Save a rule that a client has allowed permanently.
    SaveRule { rule: Rule },
    /// Delete a rule that was saved.
    ForgetRule { rule: Rule },
    /// Read the figures of the process (memory, CPU, files) for a scrape of the metrics; answered by [`Input::Scraped`].
    Scrape(Arc<Caller>),
    /// Open the log files again: the operator may have moved them (SIGHUP).
    Reload,
    /// Write a line about an ended request to the access log.
    AccessLog(Box<Entry>),
    /// Write a line to the operator's log.
    Log { level: Level, text: String },
}

/// The input of command hooks that run after an event and cannot change it.
#[derive(Debug)]
pub struct HookNotice {
    pub task: TaskId,
    pub workspace: Arc<str>,
    pub point: HookPoint,
    /// The text that the matchers of the hooks are compared with.
    pub subject: String,
    pub input: Value,
}

impl HookNotice {
    /// The notice for the last record of a task, if there are hooks for such an event.
    pub(in crate::core) fn of(state: &State, record: &Record) -> Option<HookNotice> {
        let notice = |point, subject: &str, input| HookNotice {
            task: state.created.task.clone(),
            workspace: state.workspace.clone(),
            point,
            subject: subject.to_owned(),
            input,
        };
        match &record.event {
            Event::CallAsked { call, .. } => {
                let call = state.call(call)?;
                let (tool, title) = (&call.request.name, call.plan.as_ref().map_or("", |plan| &plan.title));
                let details = json!({ "tool_name": tool, "tool_input": call.request.args, "title": title });
                let message = format!("{tool} needs approval: {title}");
                let input = json!({ "notification_type": "ToolPermission", "message": message, "details": details });
                Some(notice(HookPoint::Notification, "ToolPermission", input))
            }
            Event::CallInquired { call, inquired } => {
                let message = format!("{} asks something: {}", inquired.server, state.call(call)?.request.name);
                let input = json!({ "notification_type": "ToolPermission", "message": message, "details": {} });
                Some(notice(HookPoint::Notification, "ToolPermission", input))
            }
            // A task that never sent a model request had no session.
            Event::Closed { state: end, .. } if state.requests > 0 => {
                let reason = TaskState::from(*end).word();
                Some(notice(HookPoint::SessionEnd, reason, json!({ "reason": reason })))
            }
            _ => None,
        }
    }
}

/// A request to read stored content.
#[derive(Debug)]
pub struct BlobRequest {
    pub(in crate::core) caller: Caller,
    pub sha256: String,
    pub from: u64,
}

/// A request for the files of a workspace whose paths contain the letters of the query in this order.
#[derive(Debug)]
pub struct FilesRequest {
    pub(in crate::core) caller: Caller,
    pub workspace: Arc<str>,
    pub query: String,
    pub limit: usize,
}

/// A task that was read from its journal.
#[derive(Debug)]
pub struct Loaded {
    pub state: State,
    pub inherited: Vec<Arc<Item>>,
    /// The length of its log and of the logs of the tasks that it continues.
    pub bytes: usize,
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The peer receives everything that was sent, then the end of the stream.
    Orderly,
    /// The peer accepts nothing. The kernel discards what is queued for it, which it would keep for a minute otherwise.
    Reset,
}

/// What [`Core::turn`] needs of the outside.
pub trait Shell {
    /// Starts something without waiting for it.
    fn start(&mut self, out: Out);

    /// Offers bytes to a connection.
    fn write(&mut self, conn: Key, slices: &[IoSlice<'_>]) -> Written;

    /// Reads from a connection again, which had no room for input and has some now. Its bytes may have arrived long ago.
    fn read_on(&mut self, conn: Key);

    /// Closes a connection that the core has removed.
    fn close(&mut self, conn: Key, how: Close, now: Now);
}

/// How many of the offered bytes were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Bytes(usize),
    /// None were written; [`Input::Writable`] says when to try again.
    Later,
    Broke,
}

impl Core {
    /// Processes one input. What follows from it is shown to clients and started by [`Core::turn`].
    pub fn input(&mut self, input: Input<'_>, now: Now) {
        self.audit.iter_mut().for_each(Audit::forget_actor);
        self.operation.now = now;
        match input {
            Input::Received { conn, bytes } => self.received(conn, bytes, now),
            Input::Finished { conn } => self.finished(conn, now),
            Input::Broke { conn } => self.close_conn(conn, Close::Orderly),
            Input::Writable { conn } => self.after_io(conn),
            Input::Sent { conn, bytes } => self.sent(conn, bytes, now),
            Input::Note(note) => self.note(note, now),
            Input::Listed(known) => self.listed(known, now),
            Input::Loaded { task, result } => self.loaded(&task, result, now),
            Input::Paged { sub, page } => self.paged(sub, page, now),
            Input::Synced { task, upto, result } => self.synced(&task, upto, result, now),
            Input::AuditSynced { upto, result } => self.audit_synced(upto, result, now),
            Input::AuditReopened(result) => self.audit_reopened(result),
            Input::Removed { task, brief, result } => self.removed(task, brief, result, now),
            Input::Measured(result) => self.measured(result, now),
            Input::Probed(result) => self.probed(result, now),
            Input::Shared(answer) => self.shared_answered(answer, now),
            Input::Resolved { request, site } => self.resolved(request, site, now),
            Input::BlobRead { request, read } => self.blob_read(&request, read, now),
            Input::FilesFound { request, found } => self.files_found(&request, found, now),
            Input::Computed { recipient, result } => self.computed(recipient, result, now),
            Input::Identified { conn, identity } => self.identified(conn, identity, now),
            Input::Delivered { task, hook, seq, result } => {
                self.operation.metrics.deliver(result.is_ok());
                self.delivered(&task, &hook, seq, result, now);
            }
            Input::Credentials(read) => self.credentials_read(read, now),
            Input::Keys(fetched) => self.keys_fetched(fetched, now),
            Input::NoThreads(why) => self.disk.health.set_lack_of_threads(why),
            Input::Delayed(delays) => self.operation.delays = delays,
            Input::Scraped { caller, figures } => self.scraped(&caller, &figures, now),
            Input::Reload => {
                self.reload_credentials();
                self.fetch_keys(now);
                self.reopen_audit();
                self.out.push(Out::Reload);
            }
            Input::ShutDown => self.shut_down(now),
        }
    }

    /// Carries out what follows from the inputs, in this order: timers fire; decided events are appended to the audit and to the
    /// journals; they are shown to clients and their jobs are started; connections are written, read on, and closed.
    pub fn turn(&mut self, store: &mut dyn Store, shell: &mut dyn Shell, now: Now) {
        self.audit.iter_mut().for_each(Audit::forget_actor);
        self.operation.now = now;
        self.tick(now);
        self.append_audit(store, now);
        self.append(store, now);
        self.release(now);
        for out in std::mem::take(&mut self.out) {
            shell.start(out);
        }
        for conn in self.connections.take_writable() {
            self.write(conn, shell, now);
        }
        for conn in std::mem::take(&mut self.connections.to_read) {
            shell.read_on(conn);
        }
        self.close_connections(shell, now);
    }

    fn write(&mut self, conn: Key, shell: &mut dyn Shell, now: Now) {
        loop {
            let slices = self.slices(conn);
            if slices.is_empty() {
                return;
            }
            match shell.write(conn, &slices) {
                Written::Bytes(bytes) => self.sent(conn, bytes, now),
                Written::Later => return,
                Written::Broke => return self.close_conn(conn, Close::Orderly),
            }
        }
    }

    /// Closes connections. Called at the end of a turn, and by the server before it accepts a connection, to make room.
    pub fn close_connections(&mut self, shell: &mut dyn Shell, now: Now) {
        for (conn, how) in std::mem::take(&mut self.connections.to_close) {
            shell.close(conn, how, now);
        }
    }
}
