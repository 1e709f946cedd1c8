//! Opens the store, the audit and the access log of a server.

use crate::a2a::Tools;
#[cfg(feature = "bucket")]
use crate::bucket::instance::Times;
use crate::config::operation::AccessLogTarget;
#[cfg(not(feature = "bucket"))]
use crate::config::settings::StoreKind;
use crate::core::SharedStore;
use crate::core::audit::AuditSetup;
use crate::core::disk::store::{Store, StoreError};
#[cfg(feature = "bucket")]
use crate::shell::bucket::{self, measured::MeasuredBucket, store::BucketStore};
use crate::shell::event_loop::access_log::{self, AccessLog};
use crate::shell::event_loop::figures::Stopwatch;
use crate::shell::journal::Journal;
use crate::shell::journal::audit::{AuditFile, Opened};
use crate::shell::journal::instances::Instances;
#[cfg(feature = "bucket")]
use crate::shell::journal::workspace_id;
use crate::shell::start::assemble::lookup;
use crate::shell::start::embed::{OpenError, Plan};
#[cfg(feature = "bucket")]
use crate::shell::workers::client;
use crate::task::access::AccessMode;
use crate::task::audit::What;
use crate::task::audit::entries::{Prompts, Texts};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The store, the audit that it keeps, and this server's identity among the instances that share the store.
pub(super) struct Records {
    pub store: Box<dyn Store>,
    pub audit: Option<AuditSetup>,
    pub shared: Option<SharedStore>,
    /// The id of the workspace, by which other instances that share the store recognise it.
    pub workspace: Option<Arc<str>>,
    /// Set to the built-in tools, if the store needs them.
    pub tools: Option<Arc<OnceLock<Tools>>>,
}

#[inline(never)]
pub(super) fn store(
    plan: &mut Plan,
    instances: &Instances,
    workspace: &Path,
    stopwatch: &Stopwatch,
) -> Result<Records, OpenError> {
    let keeps_audit = plan.settings.audit || plan.settings.access.mode() == AccessMode::Token;
    match plan.store.take() {
        Some(_) if keeps_audit => {
            let why = "only the store in files keeps an audit; leave --audit out, and --access token too";
            Err(OpenError::Plan(why.into()))
        }
        Some(store) => Ok(Records { store, audit: None, shared: None, workspace: None, tools: None }),
        None => match shared(plan, instances, workspace, keeps_audit, stopwatch)? {
            Some(records) => Ok(records),
            None => {
                let mut journal = Journal::open(&plan.state, &plan.limits, instances).map_err(OpenError::State)?;
                let audit = keeps_audit.then(|| audit(plan, instances.own()));
                let audit = audit.transpose().map_err(OpenError::State)?;
                let audit = audit.map(|(file, setup)| {
                    journal.keep_audit(file);
                    setup
                });
                Ok(Records { store: Box::new(journal), audit, shared: None, workspace: None, tools: None })
            }
        },
    }
}

/// This build has no buckets.
#[cfg(not(feature = "bucket"))]
fn shared(plan: &Plan, _: &Instances, _: &Path, _: bool, _: &Stopwatch) -> Result<Option<Records>, OpenError> {
    match plan.settings.store.kind {
        None | Some(StoreKind::Files) => Ok(None),
        Some(_) => {
            Err(OpenError::Plan("this build stores tasks in files only; build it with the feature bucket".into()))
        }
    }
}

/// The store in a bucket, if the operator has chosen one.
#[cfg(feature = "bucket")]
#[inline(never)]
fn shared(
    plan: &Plan,
    instances: &Instances,
    workspace: &Path,
    keeps_audit: bool,
    stopwatch: &Stopwatch,
) -> Result<Option<Records>, OpenError> {
    let tls = client::tls(plan.certificates.as_deref()).map_err(OpenError::Plan)?;
    let env = lookup(plan.environment.clone());
    let chosen = bucket::configured(plan.settings.store.kind, env.as_ref(), tls);
    let Some(bucket) = chosen.map_err(|error| OpenError::Plan(error.to_string()))? else {
        return Ok(None);
    };
    let bucket = Arc::new(MeasuredBucket { bucket, stopwatch: stopwatch.clone() });
    let times = Times::default().divided(plan.settings.store.divisor.unwrap_or(1));
    let slow_ms = times.slow_ms;
    let url = plan.settings.access.public_url.as_ref().map(|public| public.url.clone());
    let ids: Vec<&str> = instances.all().collect();
    let store = BucketStore::open(bucket, times, url.clone(), (&plan.state, &ids), plan.log.clone());
    let mut store = store.map_err(OpenError::State)?;
    let audit = keeps_audit.then(|| audit(plan, instances.own())).transpose().map_err(OpenError::State)?;
    let audit = audit.map(|(file, setup)| {
        store.keep_audit(file, setup.head.n);
        setup
    });
    let workspace = workspace_id::read_or_create(workspace);
    if let Err(error) = &workspace {
        plan.log.warn(format_args!("the workspace has no id, so no other instance can continue its tasks: {error}"));
    }
    let shared = Some(SharedStore { instance: store.instance(), url, slow_ms });
    let tools = Some(store.tools());
    Ok(Some(Records { store: Box::new(store), audit, shared, workspace: workspace.ok(), tools }))
}

/// Opens the audit of this server.
#[inline(never)]
fn audit(plan: &Plan, instance: &str) -> Result<(AuditFile, AuditSetup), StoreError> {
    let Opened { file, head, torn } = AuditFile::open(&plan.state, instance, plan.limits.audit_file_bytes)?;
    match head.n {
        0 => plan.log.info(format_args!("audit: chain {instance} begins")),
        n => plan.log.info(format_args!("audit: chain {instance} continues behind entry {n}, {}", head.hash)),
    }
    let began = What::default().with("version", env!("CARGO_PKG_VERSION")).with("pid", std::process::id());
    let began = began.optional("torn_bytes", (torn > 0).then_some(torn));
    let prompts = if plan.settings.audit_prompts { Prompts::Whole } else { Prompts::Hashed };
    let log = plan.log.clone();
    let texts = Texts { redact: Box::new(move |text| log.redact(text)), prompts };
    Ok((file, AuditSetup { chain: instance.to_owned(), head, texts, began }))
}

/// The access log of the plan. Its file is opened here, because the loop may open no file.
#[inline(never)]
pub(super) fn access_log(plan: &Plan) -> Result<AccessLog, OpenError> {
    let log = plan.log.clone();
    let project = lookup(plan.environment.clone())("GOOGLE_CLOUD_PROJECT");
    let project = access_log::project(log.format(), project);
    match plan.settings.access_log() {
        AccessLogTarget::Off => Ok(AccessLog::off(log)),
        AccessLogTarget::Log => Ok(AccessLog::in_log(log, project)),
        AccessLogTarget::File(path) => AccessLog::in_file(&path, log, project)
            .map_err(|error| OpenError::Plan(format!("--access-log: {} cannot be opened: {error}", path.display()))),
    }
}
