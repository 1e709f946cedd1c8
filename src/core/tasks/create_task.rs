//! Creates tasks: with a workspace and a model, in a context whose conversation they continue.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::id::{ContextId, Seq, TaskId};
use crate::core::requests::Caller;
use crate::core::tasks::loaded_task::LoadedTask;
use crate::core::{Core, Site};
use crate::mcp::config::{Server, client};
use crate::task::access::Partition;
use crate::task::call::{Create, Settings};
use crate::task::definitions::slash::Invocation;
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::event::{Created, Event};
use crate::task::log::record::Record;
use crate::task::machine::state::{Item, State};
use crate::task::policy;
use std::sync::Arc;

/// How a task is created, beside the settings that its client has sent.
pub(in crate::core) struct NewTaskOptions {
    /// None: a new id.
    pub id: Option<TaskId>,
    /// The slash command that it runs.
    pub command: Option<Invocation>,
    /// Its workspace, or why that cannot be used.
    pub site: Result<Site, String>,
    /// The MCP servers that the client named.
    pub servers: Vec<Server>,
    /// It is visible to all subjects that have the right to view tasks.
    pub shared: bool,
}

impl NewTaskOptions {
    pub fn at(site: Result<Site, String>) -> NewTaskOptions {
        NewTaskOptions { id: None, command: None, site, servers: Vec::new(), shared: false }
    }
}

/// The workspace and the model of a new task.
struct Chosen {
    site: Site,
    model: String,
    /// Why one of them cannot be used.
    problem: Option<String>,
}

/// The conversation that a new task continues.
struct Continued {
    /// The latest task of the context, and its position.
    parent: (TaskId, Seq),
    /// The conversation so far.
    inherited: Vec<Arc<Item>>,
}

impl Core {
    /// Carries out the call that creates a task without a message.
    pub(in crate::core) fn create(
        &mut self,
        caller: &Caller,
        create: &Create,
        site: Site,
        now: Now,
    ) -> Result<(), Fault> {
        let form = &caller.form;
        (self.settings.choose)(create.settings.model.as_deref()).map_err(Fault::params)?;
        let servers = self.named_servers(caller, None, &create.settings)?;
        let options = NewTaskOptions { servers: servers.clone(), ..NewTaskOptions::at(Ok(site)) };
        let (task, _) = self.create_task(create, options, caller.partition(), now)?;
        self.pass_servers(&task, servers);
        let response = a2a::created(form, &self.tasks[&task].state);
        self.answer_after(caller, &task, response);
        Ok(())
    }

    /// Creates a task. A task whose workspace or model cannot be used fails with the reason, which is returned.
    pub(in crate::core) fn create_task(
        &mut self,
        create: &Create,
        options: NewTaskOptions,
        partition: Partition,
        now: Now,
    ) -> Result<(TaskId, Option<String>), Fault> {
        let NewTaskOptions { id, command, site, servers, shared } = options;
        let Create { context, settings, traits } = create;
        let context = context.clone().unwrap_or_else(|| self.settings.entropy.uuid().into());
        let (parent, inherited) = self.continued(&partition, &context).map(|c| (c.parent, c.inherited)).unzip();
        let key = self.client_key(None, settings)?;
        self.make_room_for_task();
        if self.tasks.len() >= self.settings.limits.tasks {
            let message = "The server has as many tasks as it can hold; try again later.";
            return Err(Fault::new(FaultKind::Overloaded { retry_after_s: 10 }, message));
        }
        let Chosen { site, model, problem } = self.chosen(settings, site);
        let task = id.unwrap_or_else(|| self.settings.entropy.uuid().into());
        let created = Arc::new(Created {
            task: task.clone(),
            context: context.clone(),
            tenant: partition.tenant.clone(),
            owner: partition.owner.clone(),
            shared,
            parent,
            lifecycle: traits.lifecycle,
            protocol: traits.protocol,
            profile: traits.profile,
            workspace: site.path,
            workspace_id: site.id,
            trusted: site.trusted,
            model,
            mode: match (self.settings.approval.mode, site.trusted) {
                (policy::Mode::AutoEdit | policy::Mode::Yolo, false) => policy::Mode::Default,
                (mode, _) => mode,
            },
            auto_execute: settings.auto_execute.unwrap_or(false),
            tools: settings.tools.clone(),
            servers: servers.iter().map(client::shown).collect(),
            client_key: key.is_some(),
            depth: settings.depth,
            command,
        });
        let event = Event::Created(created.clone());
        let record = Record { seq: Seq(1), at: now.unix_ms, event };
        let mut loaded =
            LoadedTask::new(State::new(created, &record), inherited.unwrap_or_default(), self.settings.shown_when());
        record.write(&mut loaded.pending);
        if let Some(owned) = self.settings.owned(1) {
            loaded.record(owned, now.unix_ms, &self.tools.shown);
        }
        self.audit.iter_mut().for_each(|audit| audit.note_created(&mut loaded, now));
        self.tasks.insert(task.clone(), loaded);
        self.tasks.add_to_context(&task, &partition, &context);
        self.arm_expiry(now);
        self.schedule_append(&task);
        self.pass_key(&task, key);
        Ok((task, problem))
    }

    /// The conversation that a new task in this context continues.
    fn continued(&self, partition: &Partition, context: &ContextId) -> Option<Continued> {
        let parent = self.tasks.latest(partition, context)?;
        let loaded = self.tasks.get(parent)?;
        let inherited = [loaded.inherited.clone(), loaded.state.shown_history(0)].concat();
        Some(Continued { parent: (parent.clone(), loaded.state.seq), inherited })
    }

    /// The workspace and model that a client's settings lead to.
    fn chosen(&self, wishes: &Settings, site: Result<Site, String>) -> Chosen {
        let (site, unusable) = match site {
            Ok(site) => (site, None),
            Err(why) => {
                let path = wishes.workspace.clone().unwrap_or_default();
                (Site { path, ..Site::default() }, Some(why))
            }
        };
        let (model, refused) = match (self.settings.choose)(wishes.model.as_deref()) {
            Ok(model) => (model, None),
            Err(why) => (wishes.model.clone().unwrap_or_default(), Some(why)),
        };
        Chosen { site, model, problem: unusable.or(refused) }
    }
}
