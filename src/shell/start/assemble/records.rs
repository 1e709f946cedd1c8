//! What a server writes down: its store, its audit and its access log.

use crate::config::operation::AccessLogTarget;
use crate::core::audit::AuditSetup;
use crate::core::disk::store::{Store, StoreError};
use crate::shell::event_loop::access_log::{self, AccessLog};
use crate::shell::journal::Journal;
use crate::shell::journal::audit::{AuditFile, Opened};
use crate::shell::journal::instances::Instances;
use crate::shell::start::assemble::lookup;
use crate::shell::start::embed::{OpenError, Plan};
use crate::task::access::AccessMode;
use crate::task::audit::What;
use crate::task::audit::entries::{Prompts, Texts};

/// The store, and the audit that it keeps.
#[inline(never)]
pub(super) fn store(plan: &mut Plan, instances: &Instances) -> Result<(Box<dyn Store>, Option<AuditSetup>), OpenError> {
    let keeps_audit = plan.settings.audit || plan.settings.access.mode() == AccessMode::Token;
    match plan.store.take() {
        Some(_) if keeps_audit => {
            let why = "only the store in files keeps an audit; leave --audit out, and --access token too";
            Err(OpenError::Plan(why.into()))
        }
        Some(store) => Ok((store, None)),
        None => {
            let mut journal = Journal::open(&plan.state, &plan.limits, instances).map_err(OpenError::State)?;
            let audit = keeps_audit.then(|| audit(plan, instances.own(), &mut journal));
            let audit = audit.transpose().map_err(OpenError::State)?;
            Ok((Box::new(journal), audit))
        }
    }
}

/// Opens the audit of this server and gives it to the journal.
#[inline(never)]
fn audit(plan: &Plan, instance: &str, journal: &mut Journal) -> Result<AuditSetup, StoreError> {
    let Opened { file, head, torn } = AuditFile::open(&plan.state, instance, plan.limits.audit_file_bytes)?;
    journal.keep_audit(file);
    match head.n {
        0 => plan.log.info(format_args!("audit: chain {instance} begins")),
        n => plan.log.info(format_args!("audit: chain {instance} continues behind entry {n}, {}", head.hash)),
    }
    let began = What::default().with("version", env!("CARGO_PKG_VERSION")).with("pid", std::process::id());
    let began = began.maybe("torn_bytes", (torn > 0).then_some(torn));
    let prompts = if plan.settings.audit_prompts { Prompts::Whole } else { Prompts::Hashed };
    let log = plan.log.clone();
    let texts = Texts { redact: Box::new(move |text| log.redact(text)), prompts };
    Ok(AuditSetup { chain: instance.to_owned(), head, texts, began })
}

/// The access log of the plan. Its file is opened here: the loop opens none.
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
